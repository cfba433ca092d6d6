//! The model against the naive one, event by event.

use proptest::prelude::*;
use proptest::{strategy::ValueTree, test_runner::TestRunner};
use scenarios::{Event, EventKind, Host, Scenario, Status, Tick, expect};

use crate::{any, naive};

fn compare(scenario: &Scenario, host: &Host) -> Result<(), TestCaseError> {
    let (events, outcome) = naive::play(scenario, host);
    let expected = expect(scenario, host);
    for (index, pair) in expected.events.iter().zip(&events).enumerate() {
        prop_assert_eq!(pair.0, pair.1, "event {}", index);
    }
    prop_assert_eq!(expected.events.len(), events.len());
    prop_assert_eq!(expected.outcome, outcome);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_model_says_what_the_contract_says(scenario in any::scenario(), host in any::host()) {
        compare(&scenario, &host)?;
    }
}

/// What the comparison above would prove nothing without: among the scenarios that are drawn, each of these happens
/// often. The draw is the same in every run.
#[test]
fn what_is_hard_to_get_right_is_drawn_often() {
    type Happens = fn(&Scenario, &[Event]) -> bool;
    let rows: [(&str, Happens); 16] = [
        ("a commit at the deadline", |s, e| at(e, s.deadline(), |k| matches!(k, EventKind::ResultCommitted { .. }))),
        ("a kill at the deadline", |s, e| at(e, s.deadline(), |k| matches!(k, EventKind::InvocationKilled { .. }))),
        ("a drained exit at the deadline", |s, e| at(e, s.deadline(), |k| drained_exit(k) && s.grace_period_s.0 > 0)),
        ("a drained exit before the deadline", |s, e| some(e, |e| drained_exit(&e.kind) && e.t < s.deadline())),
        ("an arrival in the signal's tick", |s, e| at(e, s.signal_at(), arrival)),
        ("an arrival when a boot ends", |_, e| some(e, |r| ready(&r.kind) && at(e, r.t, arrival))),
        ("a boot that ends in the signal's tick", |s, e| at(e, s.signal_at(), ready)),
        ("a failure in the signal's tick", |s, e| {
            at(e, s.signal_at(), |k| matches!(k, EventKind::WorkerFailed { .. }))
        }),
        ("a signal while booting, drained", |_, e| some(e, |w| withdrawn(&w.kind) && !some(e, |r| ready_1(&r.kind)))),
        ("no grace at all", |s, _| s.grace_period_s.0 == 0),
        ("a skipped signal", |_, e| some(e, |e| matches!(e.kind, EventKind::SigtermSkipped { .. }))),
        ("an orphan of SIGTERM", |_, e| some(e, |e| orphaned(&e.kind, Status::SIGTERM))),
        ("an orphan of SIGKILL", |_, e| some(e, |e| orphaned(&e.kind, Status::SIGKILL))),
        ("an orphan that ends", |_, e| some(e, |e| matches!(e.kind, EventKind::OrphanExited { .. }))),
        ("a refusal", |_, e| some(e, |e| matches!(e.kind, EventKind::RequestRejected { worker: Some(_), .. }))),
        ("an invocation of one tick", |s, _| s.invocation_s.0 == 1),
    ];
    const DRAWN: usize = 20_000;
    let mut runner = TestRunner::deterministic();
    let mut counts = [0; 16];
    for _ in 0..DRAWN {
        let scenario = any::scenario().new_tree(&mut runner).unwrap().current();
        let host = any::host().new_tree(&mut runner).unwrap().current();
        let events = expect(&scenario, &host).events;
        for (count, (_, happens)) in counts.iter_mut().zip(&rows) {
            *count += usize::from(happens(&scenario, &events));
        }
    }
    for (count, (what, _)) in counts.iter().zip(&rows) {
        assert!(*count >= DRAWN / 200, "{what}: {count} of {DRAWN}");
    }
}

fn some(events: &[Event], wanted: impl Fn(&Event) -> bool) -> bool {
    events.iter().any(wanted)
}

fn at(events: &[Event], t: Tick, wanted: impl Fn(&EventKind) -> bool) -> bool {
    some(events, |event| event.t == t && wanted(&event.kind))
}

fn arrival(kind: &EventKind) -> bool {
    matches!(kind, EventKind::RequestAdmitted { .. } | EventKind::RequestRejected { .. })
}

fn ready(kind: &EventKind) -> bool {
    matches!(kind, EventKind::WorkerReady { .. })
}

fn ready_1(kind: &EventKind) -> bool {
    matches!(kind, EventKind::WorkerReady { worker } if worker.0 == 1)
}

fn withdrawn(kind: &EventKind) -> bool {
    matches!(kind, EventKind::ReadinessWithdrawn { .. })
}

fn drained_exit(kind: &EventKind) -> bool {
    matches!(kind, EventKind::WorkerExited { status: Status::SUCCESS, .. })
}

fn orphaned(kind: &EventKind, wanted: Status) -> bool {
    matches!(kind, EventKind::WorkerOrphaned { status, .. } if *status == wanted)
}
