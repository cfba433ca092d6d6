//! The numbers that processes have on the host: the kernel's tracing speaks in those.

use std::{
    collections::BTreeMap,
    fs,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use crate::{evidence::ProcessFacts, isolation, process};

/// The folder of the /proc that shows the host's numbers.
fn host_proc() -> PathBuf {
    match isolation::outer_proc() {
        Some(outer) => PathBuf::from(format!("/proc/self/fd/{}", outer.as_raw_fd())),
        None => PathBuf::from("/proc"),
    }
}

/// Our own number on the host.
#[must_use]
pub fn own_host_pid() -> Option<i32> {
    fs::read_link(host_proc().join("self")).ok()?.to_str()?.parse().ok()
}

/// The same of the calling thread, which is who sends a signal (`proc_thread-self(5)`).
#[must_use]
pub(super) fn own_host_thread() -> Option<i32> {
    fs::read_link(host_proc().join("thread-self")).ok()?.file_name()?.to_str()?.parse().ok()
}

/// What a process and its threads are called on the host.
#[derive(Clone, Debug)]
struct OnHost {
    pid: i32,
    /// Without the first one, which has the number of the process.
    further_threads: Vec<i32>,
}

/// Looks up the numbers on the host of these processes, which are below us.
pub fn look_up<'a>(processes: impl Iterator<Item = &'a mut ProcessFacts>) {
    let mut found = on_host();
    for process in processes {
        if let Some(OnHost { pid, further_threads }) = found.remove(&process.pid) {
            (process.host_pid, process.host_threads) = (Some(pid), further_threads);
        }
    }
}

/// What each process below us, and ourselves, are called on the host, by the number that it has for us.
fn on_host() -> BTreeMap<i32, OnHost> {
    let proc = host_proc();
    let mut found = BTreeMap::new();
    let Some(own) = own_host_pid() else { return found };
    // As many namespaces in as we are ourselves, its number is the one that we see.
    let Some(index) = numbers(&proc, own).len().checked_sub(1) else { return found };
    let mut pending = vec![own];
    while let Some(host_pid) = pending.pop() {
        let threads = fs::read_dir(proc.join(host_pid.to_string()).join("task")).into_iter().flatten().flatten();
        let mut further_threads = Vec::new();
        for thread in threads {
            let number = thread.file_name().to_str().and_then(|number| number.parse().ok());
            further_threads.extend(number.filter(|&number: &i32| number != host_pid));
            pending.extend(process::children_of_thread(&thread.path()));
        }
        if let Some(pid) = numbers(&proc, host_pid).get(index).copied() {
            found.insert(pid, OnHost { pid: host_pid, further_threads });
        }
    }
    found
}

/// The numbers of a process in its PID namespaces, from the one of `proc` inwards (proc_pid_status(5), `NSpid`).
fn numbers(proc: &Path, pid: i32) -> Vec<i32> {
    let status = fs::read_to_string(proc.join(pid.to_string()).join("status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    line.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}
