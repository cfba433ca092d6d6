//! The stepped clock when processes do not keep to it, and when there are many of them.

use std::{fs, time::Duration};

use harness::record::Verdict;
use rustix::process::Signal;
use worker::clock;

use crate::{
    processes::{command_line, send},
    support::{Drilled, Rig, STEPPED, eventually},
};

/// As many workers, slots and arrivals as there can be.
const MOST: [&str; 6] =
    ["--set", "initial_workers=64", "--set", "slots_per_worker=64", "--set", "request_interval_s=0.1"];

#[test]
fn as_much_as_there_can_be_matches() {
    let rig = Rig::new();
    for more in [&[][..], &["--set", "on_sigterm=drain"], &["--set", "pid_namespace=false"]] {
        let drilled = rig.drill(&[&["ignored-signal"], &MOST[..], &STEPPED, more].concat());
        drilled.assert_matched(&format!("{more:?}"));
        assert_eq!(drilled.observed().1.arrivals, 391);
    }
    rig.assert_nothing_left(&Default::default(), "64 workers");
}

/// Checks that nothing was proved, for a reason that says `what`, and that this took no longer than patience does.
fn assert_given_up(rig: &Rig, drilled: &Drilled, began_ns: u64, what: &str) {
    let reasons = drilled.parsed.reasons.concat();
    assert_eq!(drilled.parsed.verdict, Verdict::Inconclusive, "{reasons}");
    assert!(reasons.contains(what) && reasons.contains("within 10 s of real time"), "{what:?}: {reasons}");
    let took = Duration::from_nanos(clock::now_ns() - began_ns);
    assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(20), "{took:?}");
    rig.assert_nothing_left(&Default::default(), what);
}

#[test]
fn an_entrypoint_that_starts_no_worker_is_given_up() {
    let rig = Rig::new();
    let path = rig.path("deaf.json");
    for pid_namespace in [true, false] {
        let scenario = format!(
            r#"{{"name": "deaf", "title": "t", "entrypoint": ["sh", "-c", "sleep 1000; {{worker}}"],
                 "expected_effect": "terminated", "pid_namespace": {pid_namespace}}}"#
        );
        fs::write(&path, scenario).unwrap();
        let began_ns = clock::now_ns();
        let drilled = rig.drill(&[path.to_str().unwrap(), STEPPED[0], STEPPED[1]]);
        assert_given_up(&rig, &drilled, began_ns, "starts no worker that follows the stepped clock");
    }
}

/// A worker that is stopped in the middle of a drill neither answers nor ends.
#[test]
fn a_worker_that_is_stopped_is_given_up() {
    let rig = Rig::new();
    let caught = (0..5).any(|_| {
        let began_ns = clock::now_ns();
        let running =
            rig.start(&mut rig.command(&[&["run", "ignored-signal", "--json"], &MOST[..], &STEPPED].concat()));
        let mut worker = None;
        eventually(Duration::from_secs(10), || {
            worker = rig.processes().into_iter().find(|&pid| command_line(pid).ends_with(" worker"));
            worker.is_some() || running.has_ended(Duration::ZERO)
        });
        worker.into_iter().for_each(|pid| send(pid, Signal::STOP));
        let drilled = running.wait().document();
        if drilled.parsed.verdict == Verdict::Matched {
            // It was over before.
            return false;
        }
        assert_given_up(&rig, &drilled, began_ns, "is T (stopped)");
        true
    });
    assert!(caught, "no worker was stopped in time");
}
