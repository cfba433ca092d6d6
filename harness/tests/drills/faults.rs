//! A wrong process, or a wrong harness, is caught: the first wrong event is named.

use harness::record::Verdict;
use scenarios::{Event, EventKind, Fault, RequestId, Status, Tick, WorkerId};

use crate::{
    pool::side_by_side,
    support::{Document, Drilled, Rig, STEPPED},
};

const FIRST: WorkerId = WorkerId::FIRST;
const REQUEST: RequestId = RequestId(1);

/// What is seeded into which drill, and the first event that must differ: as expected and as observed.
struct Row {
    fault: Fault,
    scenario: &'static str,
    settings: &'static [&'static str],
    expected: Option<Event>,
    observed: Option<Event>,
}

/// One request from 1 s on, signal at 3 s.
const SHORT: &[&str] = &["request_interval_s=40", "startup_s=0.5", "invocation_s=3", "signal_at_s=3"];

fn at(t: u32, kind: EventKind) -> Option<Event> {
    Some(Event { t: Tick(t), kind })
}

fn rows() -> [Row; 6] {
    let committed = |sum| EventKind::ResultCommitted { request: REQUEST, worker: FIRST, sum };
    let sigterm = |worker| EventKind::SigtermSent { worker };
    [
        Row {
            fault: Fault::WrongSum,
            scenario: "short-work-with-handler",
            settings: SHORT,
            expected: at(40, committed(4)),
            observed: at(40, committed(5)),
        },
        Row {
            fault: Fault::LongStage,
            scenario: "short-work-with-handler",
            settings: SHORT,
            expected: at(40, committed(4)),
            observed: at(50, committed(4)),
        },
        Row {
            fault: Fault::KeepsReadiness,
            scenario: "short-work-with-handler",
            settings: SHORT,
            expected: at(30, EventKind::ReadinessWithdrawn { worker: FIRST }),
            observed: at(30, EventKind::SigtermIgnored { worker: FIRST }),
        },
        Row {
            fault: Fault::ExitsEarly,
            scenario: "short-work-with-handler",
            settings: SHORT,
            expected: at(40, EventKind::WorkerExited { worker: FIRST, status: Status::SUCCESS }),
            observed: at(35, EventKind::WorkerExited { worker: FIRST, status: Status::SUCCESS }),
        },
        Row {
            fault: Fault::KillsEarly,
            scenario: "short-work-ignored-signal",
            settings: &[
                "request_interval_s=40",
                "startup_s=0.5",
                "invocation_s=1",
                "signal_at_s=3",
                "grace_period_s=3",
            ],
            expected: at(60, EventKind::SigkillSent { worker: FIRST }),
            observed: at(50, EventKind::SigkillSent { worker: FIRST }),
        },
        Row {
            fault: Fault::SignalsWrongWorker,
            scenario: "two-workers-with-handler",
            settings: &[
                "request_interval_s=40",
                "startup_s=0.5",
                "invocation_s=1",
                "signal_at_s=3",
                "grace_period_s=3",
            ],
            expected: at(30, sigterm(FIRST)),
            observed: at(30, sigterm(WorkerId(2))),
        },
    ]
}

impl Row {
    /// Whether these two are what has to differ first. An exit that nobody planned is of the tick in which it was noticed,
    /// which may be a later one than that in which the process ended, but not as late as what was expected.
    fn is_shown_by(&self, expected: Option<Event>, observed: Option<Event>) -> bool {
        let noticed = match (self.fault, self.observed, observed) {
            (Fault::ExitsEarly, Some(first), Some(noticed)) if (first.t..Tick(40)).contains(&noticed.t) => {
                Some(Event { t: first.t, ..noticed })
            }
            _ => observed,
        };
        (expected, noticed) == (self.expected, self.observed)
    }
}

#[test]
fn every_fault_is_caught_and_the_first_wrong_event_is_named() {
    let rows = rows();
    // The others are those of `termdrill selftest`, which knows these too.
    assert_eq!(rows.each_ref().map(|row| row.fault), [0, 1, 2, 3, 4, 5].map(|index| Fault::NAMED[index].1));
    let rig = Rig::new();
    let problems = side_by_side(&rows, |row| {
        let mut arguments = vec![row.scenario, "--speed", "20"];
        for setting in row.settings {
            arguments.extend(["--set", setting]);
        }
        // What is seeded must be what makes the difference.
        rig.matched(&arguments);
        arguments.extend(["--fault", row.fault.name()]);
        let check = |drilled: &Drilled| {
            let Document { verdict, difference, reasons, .. } = &drilled.parsed;
            let found = difference.as_ref().map(|one| (one.expected, one.observed.as_ref().map(|one| one.event)));
            let shown = found.is_some_and(|(expected, observed)| row.is_shown_by(expected, observed));
            let right = *verdict == Verdict::Diverged && shown;
            (!right).then(|| format!("{}: {verdict:?}, {found:?}, {reasons:?}", row.fault))
        };
        let real = rig.drill(&arguments);
        let problem = if real.was_too_slow() { None } else { check(&real) };
        problem.or(check(&rig.drill(&[&arguments[..], &STEPPED].concat())))
    });
    let problems: Vec<String> = problems.into_iter().flatten().collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
