//! Two things in the same moment go in the order of the contract, on real processes, every time. The scenarios are
//! those of the catalogue, cut short: one request at 1 s, and the tie soon after it.

use scenarios::{EventKind, Reason, RequestId, Status, Tick, WorkerId};

use crate::{pool::side_by_side, support::Rig};

const TIMES: usize = 50;
const WORKER: WorkerId = WorkerId::FIRST;
const REQUEST: RequestId = RequestId(1);

/// Drills the scenario many times; each has to match, and to show all of `expected` in this order.
fn always(name: &str, settings: &[&str], expected: &[(Tick, EventKind)]) {
    let rig = Rig::new();
    let mut arguments = vec![name, "--set", "request_interval_s=40"];
    for setting in settings {
        arguments.extend(["--set", setting]);
    }
    side_by_side(&[(); TIMES], |()| {
        let drilled = rig.matched(&arguments);
        let (events, _) = drilled.observed();
        let mut found = events.iter().map(|event| (event.t, event.kind));
        for wanted in expected {
            assert!(found.any(|one| one == *wanted), "{name}: {wanted:?} in {events:?}");
        }
    });
}

#[test]
fn a_completion_exactly_at_the_deadline_wins() {
    always(
        "completes-at-deadline",
        &["invocation_s=2", "signal_at_s=2", "grace_period_s=1"],
        &[
            (Tick(30), EventKind::ResultCommitted { request: REQUEST, worker: WORKER, sum: 4 }),
            (Tick(30), EventKind::SigkillSent { worker: WORKER }),
            (Tick(30), EventKind::WorkerExited { worker: WORKER, status: Status::SIGKILL }),
        ],
    );
}

#[test]
fn a_worker_that_becomes_ready_takes_the_request_of_that_moment() {
    always(
        "ready-at-arrival",
        &["startup_s=1", "invocation_s=0.5", "signal_at_s=2"],
        &[
            (Tick(10), EventKind::WorkerReady { worker: WORKER }),
            (Tick(10), EventKind::RequestAdmitted { request: REQUEST, worker: WORKER, slot: 1 }),
            (Tick(20), EventKind::WorkerExited { worker: WORKER, status: Status::SUCCESS }),
        ],
    );
}

#[test]
fn a_request_of_the_signals_moment_finds_readiness_withdrawn() {
    let reason = Reason::NoEligibleWorker;
    always(
        "signal-at-arrival",
        &["startup_s=0.5", "signal_at_s=1"],
        &[
            (Tick(10), EventKind::SigtermSent { worker: WORKER }),
            (Tick(10), EventKind::ReadinessWithdrawn { worker: WORKER }),
            (Tick(10), EventKind::RequestRejected { request: REQUEST, reason, worker: None }),
        ],
    );
}

#[test]
fn a_drained_exit_exactly_at_the_deadline_is_an_exit_and_not_a_kill() {
    always(
        "drained-at-deadline",
        &["startup_s=0.5", "invocation_s=2", "signal_at_s=2", "grace_period_s=1"],
        &[
            (Tick(30), EventKind::ResultCommitted { request: REQUEST, worker: WORKER, sum: 4 }),
            (Tick(30), EventKind::WorkerExited { worker: WORKER, status: Status::SUCCESS }),
        ],
    );
}
