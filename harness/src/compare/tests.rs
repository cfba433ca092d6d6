//! Tables of single differences, and the property that every single mutation of a trace is found in its place.

use proptest::prelude::*;
use scenarios::{Host, OnSigterm, Scenario, ShellBehaviour, Span, Status, expect};

use super::*;

const HOST: Host = Host { shell: ShellBehaviour::Stays, custom: None };

fn observed(event: Event) -> Observed {
    Observed { event, at_us: 0, late_us: 0, pid: None, note: None }
}

fn all_observed(events: &[Event]) -> Vec<Observed> {
    events.iter().copied().map(observed).collect()
}

fn at(ticks: u32, kind: EventKind) -> Event {
    Event { t: Tick(ticks), kind }
}

const W1: WorkerId = WorkerId(1);
const W2: WorkerId = WorkerId(2);
const R15: RequestId = RequestId(15);

fn committed(sum: u32) -> EventKind {
    EventKind::ResultCommitted { request: R15, worker: W1, sum }
}

/// Both sides are given in trace order; the sentence and the tick are of the first difference.
#[test]
fn the_first_difference_is_told_in_one_sentence() {
    let killed = EventKind::InvocationKilled { request: R15, worker: W1 };
    let admitted = |worker, slot| EventKind::RequestAdmitted { request: R15, worker, slot };
    let rejected =
        EventKind::RequestRejected { request: R15, reason: scenarios::Reason::NoEligibleWorker, worker: None };
    let refused =
        EventKind::RequestRejected { request: R15, reason: scenarios::Reason::WorkerDraining, worker: Some(W1) };
    let exited = |status| EventKind::WorkerExited { worker: W1, status };
    let withdrawn = EventKind::ReadinessWithdrawn { worker: W1 };
    let tool = EventKind::StageEntered { request: R15, worker: W1, stage: Stage::Tool };
    let sigterm = |worker| EventKind::SigtermSent { worker };
    let sigkill = EventKind::SigkillSent { worker: W1 };
    type Row<'a> = (&'a [Event], &'a [Event], u32, &'a str);
    let rows: [Row<'_>; 16] = [
        (
            &[at(490, committed(18)), at(490, exited(Status::SUCCESS))],
            &[at(490, sigkill), at(490, exited(Status::SIGKILL)), at(490, killed)],
            490,
            "request-15 was expected to commit the sum 18 on worker-1 at 49.0 s and was killed with worker-1 instead.",
        ),
        (
            &[at(423, tool), at(490, committed(18))],
            &[at(390, killed)],
            390,
            "request-15 was expected to enter tool on worker-1 at 42.3 s and was killed with worker-1 at 39.0 s instead.",
        ),
        (
            &[at(490, committed(18))],
            &[at(490, committed(19))],
            490,
            "request-15 was expected to commit the sum 18 on worker-1 at 49.0 s and committed the sum 19 on worker-1 \
             instead.",
        ),
        (
            &[at(490, committed(18))],
            &[at(491, committed(18))],
            490,
            "request-15 was expected to commit the sum 18 on worker-1 at 49.0 s; that happened at 49.1 s, 0.1 s too late.",
        ),
        (
            &[at(400, sigkill)],
            &[at(390, sigkill)],
            390,
            "worker-1 was expected to be sent SIGKILL at 40.0 s; that happened at 39.0 s, 1.0 s too early.",
        ),
        (
            &[at(300, sigterm(W1))],
            &[at(300, sigterm(W2))],
            300,
            "worker-1 was expected to be sent SIGTERM at 30.0 s; worker-2 was sent SIGTERM instead.",
        ),
        (
            &[at(290, admitted(W1, 2))],
            &[at(290, admitted(W1, 3))],
            290,
            "request-15 was expected to be admitted to worker-1, slot 2 at 29.0 s and was admitted to worker-1, slot 3 \
             instead.",
        ),
        (
            &[at(290, admitted(W1, 2))],
            &[at(290, admitted(W2, 2))],
            290,
            "request-15 was expected to be admitted to worker-1, slot 2 at 29.0 s and was admitted to worker-2, slot 2 \
             instead.",
        ),
        (
            &[at(290, rejected)],
            &[at(290, admitted(W1, 1))],
            290,
            "request-15 was expected to be rejected (no_eligible_worker) at 29.0 s and was admitted to worker-1, slot 1 \
             instead.",
        ),
        (
            &[at(290, rejected)],
            &[at(290, refused)],
            290,
            "request-15 was expected to be rejected (no_eligible_worker) at 29.0 s and was refused by worker-1 \
             (worker_draining) instead.",
        ),
        (
            &[at(300, withdrawn)],
            &[],
            300,
            "worker-1 was expected to withdraw its readiness at 30.0 s, which did not happen.",
        ),
        (
            &[at(300, withdrawn)],
            &[at(300, EventKind::SigtermIgnored { worker: W1 })],
            300,
            "worker-1 was expected to withdraw its readiness at 30.0 s and went on as if no SIGTERM was sent instead.",
        ),
        (
            &[at(490, exited(Status::SUCCESS))],
            &[at(490, exited(Status::Code(137)))],
            490,
            "worker-1 was expected to be gone (exit code 0) at 49.0 s and was gone (exit code 137) instead.",
        ),
        (&[], &[at(450, sigkill)], 450, "worker-1 was sent SIGKILL at 45.0 s, which was not expected."),
        (
            &[at(40, EventKind::WorkerReady { worker: W1 })],
            &[at(40, EventKind::WorkerReady { worker: W1 }), at(40, EventKind::WorkerReady { worker: W1 })],
            40,
            "worker-1 became ready at 4.0 s, which was not expected.",
        ),
        (
            &[at(40, EventKind::WorkerReady { worker: W1 })],
            &[at(40, EventKind::WorkerFailed { worker: W1, status: Status::Code(1) })],
            40,
            "worker-1 was expected to become ready at 4.0 s and failed to boot (exit code 1) instead.",
        ),
    ];
    for (expected, seen, t, what) in rows {
        let difference = first_difference(expected, &all_observed(seen)).expect(what);
        assert_eq!(difference.what, what);
        assert_eq!(difference.t, Tick(t), "{what}");
    }
}

#[test]
fn both_sides_stand_side_by_side() {
    let expected = [at(490, committed(18))];
    let seen = [observed(at(490, committed(19)))];
    let difference = first_difference(&expected, &seen).unwrap();
    assert_eq!((difference.expected, difference.observed), (Some(expected[0]), Some(seen[0].clone())));
}

#[test]
fn the_identity_is_the_same_whichever_side_came_first() {
    let killed = |t| at(t, EventKind::InvocationKilled { request: R15, worker: W1 });
    let expected = [at(490, committed(18))];
    let before = first_difference(&expected, &[observed(killed(480))]).unwrap();
    let after = first_difference(&expected, &[observed(killed(500))]).unwrap();
    assert_eq!(Identity::of_difference(&before), Identity::of_difference(&after));
    assert_eq!(Identity::of_difference(&before), Some(Identity::of(&committed(0))));
}

#[test]
fn every_difference_is_told_once() {
    let expected = [at(300, EventKind::SigtermSent { worker: W1 }), at(490, committed(18))];
    let all = differences(&expected, &[]);
    assert_eq!(all.len(), 2);
    let seen = [observed(at(490, committed(18))), observed(at(495, committed(18)))];
    let all = differences(&expected, &seen);
    assert_eq!(all.iter().map(|difference| difference.t).collect::<Vec<_>>(), [Tick(300), Tick(495)]);
}

fn some_scenario() -> impl Strategy<Value = Scenario> {
    let postures = prop_oneof![Just(OnSigterm::Drain), Just(OnSigterm::Default), Just(OnSigterm::Ignore)];
    (1u8..4, 1u8..6, 1u32..30, 1u32..300, any::<bool>(), any::<bool>(), 0u32..200, postures).prop_map(
        |(workers, slots, interval, invocation, pid_namespace, boot_replacement, grace, on_sigterm)| Scenario {
            initial_workers: workers,
            slots_per_worker: slots,
            request_interval_s: Span(interval),
            invocation_s: Span(invocation),
            grace_period_s: Span(grace),
            pid_namespace,
            boot_replacement,
            on_sigterm,
            ..Scenario::new("some", "some")
        },
    )
}

#[derive(Clone, Copy, Debug)]
enum Mutation {
    Drop,
    Duplicate,
    Later(u32),
    Earlier(u32),
    Particular,
}

/// The event with another slot, sum, status or reason, if it has one.
fn with_other_particular(mut event: Event) -> Option<Event> {
    match &mut event.kind {
        EventKind::ResultCommitted { sum, .. } => *sum += 1,
        EventKind::RequestAdmitted { slot, .. } => *slot += 1,
        EventKind::WorkerExited { status, .. }
        | EventKind::WorkerFailed { status, .. }
        | EventKind::WorkerOrphaned { status, .. } => *status = Status::Code(77),
        EventKind::RequestRejected { worker, .. } => *worker = Some(WorkerId(60_000)),
        _ => return None,
    }
    Some(event)
}

proptest! {
    #[test]
    fn equal_traces_do_not_differ(scenario in some_scenario()) {
        let events = expect(&scenario, &HOST).events;
        prop_assert_eq!(first_difference(&events, &all_observed(&events)), None);
    }

    #[test]
    fn every_single_mutation_is_found_in_its_place(
        scenario in some_scenario(),
        pick in any::<prop::sample::Index>(),
        mutation in prop_oneof![
            Just(Mutation::Drop),
            Just(Mutation::Duplicate),
            (1u32..50).prop_map(Mutation::Later),
            (1u32..50).prop_map(Mutation::Earlier),
            Just(Mutation::Particular),
        ],
    ) {
        let events = expect(&scenario, &HOST).events;
        let index = pick.index(events.len());
        let original = events[index];
        let mut seen = events.clone();
        let (t, changed) = match mutation {
            Mutation::Drop => {
                seen.remove(index);
                (original.t, None)
            }
            Mutation::Duplicate => {
                seen.insert(index, original);
                (original.t, Some(original))
            }
            Mutation::Later(by) => {
                seen[index].t.0 += by;
                (original.t, Some(seen[index]))
            }
            Mutation::Earlier(by) => {
                let by = by.min(original.t.0);
                prop_assume!(by > 0);
                seen[index].t.0 -= by;
                (seen[index].t, Some(seen[index]))
            }
            Mutation::Particular => {
                let changed = with_other_particular(original);
                prop_assume!(changed.is_some());
                seen[index] = changed.unwrap();
                (original.t, changed)
            }
        };
        seen.sort_by_key(Event::order);
        let all = differences(&events, &all_observed(&seen));
        prop_assert_eq!(all.len(), 1, "{:?}", all);
        prop_assert_eq!(all[0].t, t);
        let expected = if matches!(mutation, Mutation::Duplicate) { None } else { Some(original) };
        prop_assert_eq!(all[0].expected, expected);
        prop_assert_eq!(all[0].observed.as_ref().map(|observed| observed.event), changed);
    }

    #[test]
    fn the_first_of_two_mutations_is_named(
        scenario in some_scenario(),
        picks in any::<[prop::sample::Index; 2]>(),
    ) {
        let events = expect(&scenario, &HOST).events;
        let (a, b) = (picks[0].index(events.len()), picks[1].index(events.len()));
        prop_assume!(a != b);
        let seen: Vec<Event> =
            events.iter().enumerate().filter(|(index, _)| ![a, b].contains(index)).map(|(_, event)| *event).collect();
        let first = first_difference(&events, &all_observed(&seen)).unwrap();
        prop_assert_eq!(first.expected, Some(events[a.min(b)]));
    }
}
