//! The processes of a drill, found by what all of them inherit.

use std::{collections::BTreeSet, fs, io};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A variable by which every process of a drill is found again, since all of them inherit it.
pub(crate) const MARK: &str = "DRILL_TEST_MARK";

#[expect(clippy::disallowed_methods, reason = "the one place that signals the program under test")]
pub(crate) fn send(pid: i32, signal: Signal) {
    // One that has ended in the meantime is as good as signalled.
    if let Some(pidfd) = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) {
        let _ = pidfd_send_signal(pidfd, signal);
    }
}

/// The living processes that have the mark in their environment; a zombie has none any more.
pub(crate) fn marked(mark: &str) -> BTreeSet<i32> {
    let pair = format!("{MARK}={mark}");
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| environment(pid).contains(&pair)).collect()
}

pub(crate) fn environment(pid: i32) -> Vec<String> {
    words(&format!("/proc/{pid}/environ")).unwrap_or_default()
}

pub(crate) fn command_line(pid: i32) -> String {
    words(&format!("/proc/{pid}/cmdline")).unwrap_or_default().join(" ")
}

fn words(path: &str) -> io::Result<Vec<String>> {
    let bytes = fs::read(path)?;
    let words = bytes.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    Ok(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}
