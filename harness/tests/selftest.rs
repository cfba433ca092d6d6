//! The self-test as a person or a CI system runs it: every fault is caught, and nothing is left when it is stopped.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(clippy::print_stdout, reason = "what is skipped is told")]

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use scenarios::Fault;
use serde::Deserialize;
use tempfile::TempDir;
use worker::clock;

#[derive(Debug, Deserialize)]
struct Document {
    faults: Vec<Entry>,
    caught: usize,
    slipped: usize,
    inconclusive: usize,
    not_applicable: usize,
}

#[derive(Debug, Deserialize)]
struct Entry {
    fault: String,
    results: Vec<OnClock>,
}

#[derive(Debug, Deserialize)]
struct OnClock {
    clock: String,
    result: String,
    why: Option<String>,
}

/// The program with a place for temporary files of its own, and a mark by which its processes are found.
fn selftest(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_termdrill"));
    command.arg("selftest").args(arguments).env_clear().env("TMPDIR", folder).env(MARK, folder);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

const MARK: &str = "SELFTEST_MARK";

#[expect(clippy::disallowed_methods, reason = "the program under test")]
fn start(command: &mut Command) -> Child {
    command.spawn().unwrap()
}

/// Runs it on one clock. A fault that is undecided is told of with the reason; it must not have slipped through.
fn caught_on(clock: &str) -> BTreeMap<String, String> {
    let folder = TempDir::new().unwrap();
    let ended = start(&mut selftest(folder.path(), &["--clock", clock, "--json"])).wait_with_output().unwrap();
    let document: Document = serde_json::from_slice(&ended.stdout).unwrap();
    let names: Vec<&str> = document.faults.iter().map(|entry| entry.fault.as_str()).collect();
    assert_eq!(names, Fault::NAMED.map(|(name, _)| name));
    let all = document.caught + document.slipped + document.inconclusive + document.not_applicable;
    assert_eq!(all, Fault::NAMED.len());
    for Entry { fault, results } in &document.faults {
        let [OnClock { clock: on, result, why }] = &results[..] else { panic!("one clock: {results:?}") };
        assert_eq!(on, clock);
        assert_ne!(result, "slipped", "{fault}: {why:?}");
        if result == "inconclusive" {
            println!("skipped: {fault} on the {clock} clock is undecided: {}", why.as_deref().unwrap_or_default());
        }
    }
    let code = if document.inconclusive > 0 { 3 } else { 0 };
    assert_eq!((ended.status.code(), String::from_utf8(ended.stderr).unwrap()), (Some(code), String::new()));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a temporary file is left");
    document.faults.into_iter().map(|mut entry| (entry.fault, entry.results.remove(0).result)).collect()
}

#[test]
fn every_fault_is_caught_on_the_stepped_clock() {
    let found = caught_on("stepped");
    // Where PID 1 can't be had, these can be told apart all the same.
    for fault in ["waits_for_leader_only", "folds_status"] {
        assert_eq!(found[fault], "caught", "{fault}");
    }
}

#[test]
fn every_fault_is_caught_on_the_scaled_clock_where_it_can_show() {
    let found = caught_on("scaled");
    let not_applicable: Vec<&str> =
        found.iter().filter(|(_, result)| *result == "not_applicable").map(|(fault, _)| fault.as_str()).collect();
    assert_eq!(not_applicable, ["withdraws_late"]);
}

#[test]
fn nothing_is_left_when_it_is_stopped() {
    for (signal, clock) in [(Signal::INT, "scaled"), (Signal::KILL, "scaled"), (Signal::KILL, "stepped")] {
        let folder = TempDir::new().unwrap();
        let mut child = start(&mut selftest(folder.path(), &["--clock", clock]));
        // In the middle: workers run. On the stepped clock all is over within half a second.
        let enough = if clock == "stepped" { 5 } else { 13 };
        let mut is_over = false;
        eventually("a worker", || {
            is_over = child.try_wait().unwrap().is_some();
            is_over || marked(folder.path()).len() >= enough
        });
        if is_over {
            println!("skipped, {signal:?} on the {clock} clock: it was over before that");
        } else {
            send(&child, signal);
        }
        let ended = child.wait().unwrap();
        assert!(is_over && clock == "stepped" || ended.signal() == Some(signal.as_raw()), "{ended:?}");
        eventually("all processes gone", || marked(folder.path()).is_empty());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a temporary file is left by {signal:?}");
    }
}

#[expect(clippy::disallowed_methods, reason = "signals the program under test")]
fn send(child: &Child, signal: Signal) {
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).unwrap();
    pidfd_send_signal(pidfd, signal).unwrap();
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let until_ns = clock::now_ns() + 20_000_000_000;
    while !condition() {
        assert!(clock::now_ns() < until_ns, "waited in vain for: {what}");
        clock::block_for(Duration::from_millis(5));
    }
}

/// The living processes that have the mark in their environment.
fn marked(folder: &Path) -> Vec<String> {
    let pair = [OsStr::new(MARK), folder.as_os_str()].map(OsStr::as_encoded_bytes).join(&b'=');
    let is_marked = |entry: &fs::DirEntry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|found| found == pair)
    };
    let processes = fs::read_dir("/proc").unwrap().flatten().filter(is_marked);
    processes.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
