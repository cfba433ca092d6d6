//! Which fault has to show on which drill, and as what: the literal truth that the self-test is held against.

use scenarios::{
    Entrypoint, Event, EventKind, Fault, OnSigterm, Reason, RequestId, Scenario, Span, Status, Tick, WorkerId,
};

use crate::cli::ClockChoice;

/// A fault, the drill that it is seeded into, and the event that has to be wrong first.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) fault: Fault,
    pub(super) drill: Drill,
    pub(super) expected: Option<Event>,
    pub(super) observed: Option<Event>,
}

/// The drills: short ones, each with just what the faults seeded into it need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drill {
    /// One invocation, 1 s to 4 s; SIGTERM at 3 s, and the worker drains.
    Drains,
    /// The worker does not hear SIGTERM at 3 s and gets SIGKILL at 7 s.
    Deaf,
    /// The worker drains, and its invocation completes at the very deadline, 7 s.
    CompletesAtDeadline,
    /// The worker drains, but its invocation would take until 11 s: it is killed with it at 7 s.
    CutShort,
    /// Two workers with nothing to do when the request arrives; the first one is told to stop.
    TwoWorkers,
    /// One slot, and a request that arrives in the moment in which it becomes free, at 21 s.
    SlotJustFreed,
    /// A script dies of SIGTERM at 3 s and leaves its worker behind.
    Orphaned,
    /// A worker that is not PID 1 dies of SIGTERM at 3 s.
    Dies,
}

impl Drill {
    pub(super) const ALL: [Drill; 8] = [
        Drill::Drains,
        Drill::Deaf,
        Drill::CompletesAtDeadline,
        Drill::CutShort,
        Drill::TwoWorkers,
        Drill::SlotJustFreed,
        Drill::Orphaned,
        Drill::Dies,
    ];

    /// Its name, as a scenario's.
    pub(super) fn name(self) -> &'static str {
        match self {
            Drill::Drains => "drains",
            Drill::Deaf => "deaf",
            Drill::CompletesAtDeadline => "completes-at-deadline",
            Drill::CutShort => "cut-short",
            Drill::TwoWorkers => "two-workers",
            Drill::SlotJustFreed => "slot-just-freed",
            Drill::Orphaned => "orphaned",
            Drill::Dies => "dies",
        }
    }

    pub(super) fn scenario(self) -> Scenario {
        let short = Scenario {
            startup_s: Span(5),
            request_interval_s: Span::seconds(40),
            invocation_s: Span::seconds(3),
            signal_at_s: Span::seconds(3),
            grace_period_s: Span::seconds(4),
            ..Scenario::new(self.name(), "A drill of the self-test")
        };
        let drains = Scenario { on_sigterm: OnSigterm::Drain, ..short.clone() };
        match self {
            Drill::Drains => drains,
            Drill::Deaf => Scenario { invocation_s: Span::seconds(1), ..short },
            Drill::CompletesAtDeadline => Scenario { invocation_s: Span::seconds(6), ..drains },
            Drill::CutShort => Scenario { invocation_s: Span::seconds(10), ..drains },
            Drill::TwoWorkers => Scenario { initial_workers: 2, invocation_s: Span::seconds(1), ..drains },
            Drill::SlotJustFreed => Scenario {
                slots_per_worker: 1,
                request_interval_s: Span::seconds(20),
                invocation_s: Span::seconds(20),
                signal_at_s: Span::seconds(22),
                grace_period_s: Span::seconds(1),
                ..short
            },
            Drill::Orphaned => Scenario { entrypoint: Entrypoint::Script, pid_namespace: false, ..short },
            Drill::Dies => Scenario { pid_namespace: false, ..short },
        }
    }

    /// How long it goes on, roughly, in model seconds.
    pub(super) fn length_s(self) -> u32 {
        match self {
            Drill::Orphaned | Drill::TwoWorkers => 60,
            Drill::SlotJustFreed => 23,
            _ => 7,
        }
    }
}

/// Whether a drill with this fault goes on to the end of time, because nobody ends its worker.
pub(super) fn goes_on(fault: Fault) -> bool {
    fault == Fault::TakesSignalForEnd
}

impl Case {
    /// Whether these two are what has to differ first.
    ///
    /// The end of a process that nobody planned is of the tick in which it was noticed: on a busy machine that may be a later
    /// one than that in which it ended, but it comes before the end that was expected all the same.
    pub(super) fn is_shown_by(&self, expected: Option<Event>, observed: Option<Event>) -> bool {
        let noticed_later = || match (self.observed, expected, observed) {
            (Some(first), Some(expected), Some(observed)) => {
                matches!(first.kind, EventKind::WorkerExited { .. })
                    && observed.kind == first.kind
                    && (first.t..expected.t).contains(&observed.t)
            }
            _ => false,
        };
        expected == self.expected && (observed == self.observed || noticed_later())
    }

    /// Why the fault can't show on `clock`, if it can't.
    pub(super) fn not_applicable_on(&self, clock: ClockChoice) -> Option<&'static str> {
        match (self.fault, clock) {
            (Fault::WithdrawsLate, ClockChoice::Scaled) => Some(
                "In real time nothing tells a worker that withdraws late from a machine that is slow, and what comes \
                 too late is never called a divergence.",
            ),
            _ => None,
        }
    }
}

const W1: WorkerId = WorkerId(1);
const W2: WorkerId = WorkerId(2);
const R1: RequestId = RequestId(1);
const R2: RequestId = RequestId(2);

const fn at(t: u32, kind: EventKind) -> Option<Event> {
    Some(Event { t: Tick(t), kind })
}

const fn case(fault: Fault, drill: Drill, expected: Option<Event>, observed: Option<Event>) -> Case {
    Case { fault, drill, expected, observed }
}

const fn committed(sum: u32) -> EventKind {
    EventKind::ResultCommitted { request: R1, worker: W1, sum }
}

const fn exited(status: Status) -> EventKind {
    EventKind::WorkerExited { worker: W1, status }
}

const SIGTERM_SENT: EventKind = EventKind::SigtermSent { worker: W1 };
const SIGKILL_SENT: EventKind = EventKind::SigkillSent { worker: W1 };
const WITHDRAWN: EventKind = EventKind::ReadinessWithdrawn { worker: W1 };
const KILLED: EventKind = EventKind::InvocationKilled { request: R1, worker: W1 };

/// Every fault, in the order of [`Fault::NAMED`].
pub(super) const CASES: [Case; Fault::NAMED.len()] = [
    case(Fault::WrongSum, Drill::Drains, at(40, committed(4)), at(40, committed(5))),
    case(Fault::LongStage, Drill::Drains, at(40, committed(4)), at(50, committed(4))),
    case(Fault::KeepsReadiness, Drill::Drains, at(30, WITHDRAWN), at(30, EventKind::SigtermIgnored { worker: W1 })),
    case(Fault::ExitsEarly, Drill::Drains, at(40, exited(Status::SUCCESS)), at(35, exited(Status::SUCCESS))),
    case(Fault::KillsEarly, Drill::Deaf, at(70, SIGKILL_SENT), at(60, SIGKILL_SENT)),
    case(
        Fault::SignalsWrongWorker,
        Drill::TwoWorkers,
        at(30, SIGTERM_SENT),
        at(30, EventKind::SigtermSent { worker: W2 }),
    ),
    case(Fault::GraceFromStart, Drill::Deaf, at(70, SIGKILL_SENT), at(40, SIGKILL_SENT)),
    case(Fault::TakesSignalForEnd, Drill::Deaf, at(70, SIGKILL_SENT), None),
    case(
        Fault::WaitsForLeaderOnly,
        Drill::Orphaned,
        at(30, EventKind::WorkerOrphaned { worker: W1, status: Status::SIGTERM }),
        at(30, exited(Status::SIGTERM)),
    ),
    case(Fault::SignalsTwice, Drill::Drains, None, at(30, SIGTERM_SENT)),
    case(Fault::KillsOneTickEarly, Drill::Deaf, at(70, SIGKILL_SENT), at(69, SIGKILL_SENT)),
    case(Fault::KillsOneTickLate, Drill::Deaf, at(70, SIGKILL_SENT), at(71, SIGKILL_SENT)),
    case(Fault::DeadlineWinsTie, Drill::CompletesAtDeadline, at(70, committed(4)), at(70, KILLED)),
    case(Fault::WithdrawsLate, Drill::Drains, at(30, WITHDRAWN), at(31, WITHDRAWN)),
    case(
        Fault::HighestWinsTie,
        Drill::TwoWorkers,
        at(10, EventKind::RequestAdmitted { request: R1, worker: W1, slot: 1 }),
        at(10, EventKind::RequestAdmitted { request: R1, worker: W2, slot: 1 }),
    ),
    case(
        Fault::FreesSlotLate,
        Drill::SlotJustFreed,
        at(210, EventKind::RequestAdmitted { request: R2, worker: W1, slot: 1 }),
        at(210, EventKind::RequestRejected { request: R2, reason: Reason::NoFreeSlot, worker: Some(W1) }),
    ),
    case(Fault::CommitsEarly, Drill::Drains, at(40, committed(4)), at(29, committed(4))),
    case(Fault::CommitsTwice, Drill::Drains, None, at(40, committed(4))),
    case(Fault::CommitsKilled, Drill::CutShort, at(70, KILLED), at(30, committed(4))),
    case(Fault::FoldsStatus, Drill::Dies, at(30, exited(Status::SIGTERM)), at(30, exited(Status::CODE_143))),
];

#[cfg(test)]
mod tests {
    use scenarios::{Host, ShellBehaviour, expect};

    use super::*;

    #[test]
    fn every_fault_has_its_case_and_every_drill_is_used() {
        assert_eq!(CASES.each_ref().map(|case| case.fault), Fault::NAMED.map(|(_, fault)| fault));
        assert!(Drill::ALL.iter().all(|drill| CASES.iter().any(|case| case.drill == *drill)));
    }

    /// What a case takes for expected must be what the model says, and what it takes for observed must not be, unless
    /// the fault is that it happens once more.
    #[test]
    fn the_model_says_what_is_expected_and_not_what_must_be_observed() {
        let host = Host { shell: ShellBehaviour::Stays, custom: None };
        for case in &CASES {
            let expected = expect(&case.drill.scenario(), &host).events;
            match (case.expected, case.observed) {
                (Some(right), wrong) => {
                    assert!(expected.contains(&right), "{case:?}");
                    assert!(wrong.is_none_or(|wrong| !expected.contains(&wrong)), "{case:?}");
                }
                (None, Some(again)) => assert!(expected.contains(&again), "{case:?}"),
                (None, None) => panic!("{case:?} says nothing"),
            }
        }
    }

    /// Only an end that nobody planned may be noticed later, and never as late as the one that was expected.
    #[test]
    fn an_early_exit_that_is_noticed_late_is_one_all_the_same() {
        for case in CASES.iter().filter(|case| case.observed.is_some()) {
            let later = |ticks| case.observed.map(|event| Event { t: Tick(event.t.0 + ticks), ..event });
            assert!(case.is_shown_by(case.expected, later(0)), "{case:?}");
            let early = case.fault == Fault::ExitsEarly;
            for (ticks, shown) in [(1, early), (4, early), (5, false)] {
                assert_eq!(case.is_shown_by(case.expected, later(ticks)), shown, "{ticks}: {case:?}");
            }
            assert!(!case.is_shown_by(case.expected, None) && !case.is_shown_by(None, None), "{case:?}");
        }
    }

    #[test]
    fn the_drills_are_valid_scenarios() {
        for drill in Drill::ALL {
            let scenario = drill.scenario();
            let read_back = Scenario::from_value(serde_json::to_value(&scenario).unwrap());
            assert_eq!(read_back.unwrap(), scenario, "{drill:?}");
        }
    }
}
