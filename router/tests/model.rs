//! The rule stated twice: the model's admissions and the router's must be the same, request by request.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
};

use router::{Decision, Policy, Readiness, Routed, Router, Seat, admission::Tie, decide};
use scenarios::{
    Entrypoint, EventKind, Host, OnSigterm, Reason, Scenario, ShellBehaviour, Span, WorkerId, expect,
    model::{Candidate, Routed as Expected, route},
};

fn addr(worker: WorkerId) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, worker.0).into()
}

/// Plays what the model expects of `scenario` to a router, and asks it about every request at the moment of its
/// arrival. Counts in `seen` what the requests came to.
fn compare(scenario: &Scenario, seen: &mut BTreeMap<&'static str, u32>) {
    let host = Host { shell: ShellBehaviour::Stays, custom: None };
    let mut router = Router::new(Policy::new(scenario.ready_only_routing));
    for event in expect(scenario, &host).events {
        let context = || format!("{event:?} of {scenario:?}");
        let done = match event.kind {
            EventKind::WorkerStarted { worker } => {
                router.roster_mut().add(worker, addr(worker), scenario.slots_per_worker)
            }
            EventKind::WorkerReady { worker } => router.roster_mut().ready(worker),
            EventKind::ReadinessWithdrawn { worker } => router.roster_mut().draining(worker),
            EventKind::WorkerFailed { worker, .. }
            | EventKind::WorkerExited { worker, .. }
            | EventKind::WorkerOrphaned { worker, .. } => router.roster_mut().ended(worker),
            EventKind::ResultCommitted { request, .. } | EventKind::InvocationKilled { request, .. } => {
                router.roster_mut().close(request).map(|_| ())
            }
            EventKind::RequestAdmitted { request, worker, .. } => {
                assert_eq!(router.route(), Routed::Send { worker, addr: addr(worker) }, "{}", context());
                let state = router.roster().state(worker);
                assert_eq!(state, Some(router::State::Ready), "{}", context());
                *seen.entry("admitted").or_default() += 1;
                router.roster_mut().open(request, worker)
            }
            EventKind::RequestRejected { reason, worker, .. } => {
                let expected = match worker {
                    Some(worker) => Routed::Send { worker, addr: addr(worker) },
                    None => Routed::Rejected { reason },
                };
                assert_eq!(router.route(), expected, "{}", context());
                let state = worker.and_then(|worker| router.roster().state(worker));
                let refusal = match state {
                    Some(router::State::Starting) => Some(Reason::WorkerStarting),
                    Some(router::State::Draining) => Some(Reason::WorkerDraining),
                    _ => None,
                };
                assert_eq!(refusal, worker.map(|_| reason), "{}", context());
                *seen.entry(reason.name()).or_default() += 1;
                Ok(())
            }
            EventKind::StageEntered { .. }
            | EventKind::SigtermSent { .. }
            | EventKind::SigtermSkipped { .. }
            | EventKind::SigtermIgnored { .. }
            | EventKind::SigkillSent { .. }
            | EventKind::OrphanExited { .. } => Ok(()),
        };
        assert_eq!(done, Ok(()), "{}", context());
    }
}

/// Every combination of a few values of each field that has a say in admission.
#[test]
fn the_router_decides_as_the_model_does() {
    let mut seen = BTreeMap::new();
    let flags = [false, true];
    for initial_workers in 1..=3 {
        for slots_per_worker in [1, 2, 4] {
            for request_interval_s in [Span(5), Span(20), Span(31)] {
                for invocation_s in [Span(5), Span(60), Span(200)] {
                    for (startup_s, signal_at_s) in [(Span(40), Span(300)), (Span(150), Span(100))] {
                        for on_sigterm in OnSigterm::ALL {
                            for (entrypoint, pid_namespace) in
                                [(Entrypoint::Exec, true), (Entrypoint::Exec, false), (Entrypoint::Script, false)]
                            {
                                // The bits of a number, so that flags do not nest five levels deeper.
                                for bits in 0..8 {
                                    let flag = |bit: usize| flags[bits >> bit & 1];
                                    let scenario = Scenario {
                                        initial_workers,
                                        slots_per_worker,
                                        request_interval_s,
                                        invocation_s,
                                        startup_s,
                                        signal_at_s,
                                        on_sigterm,
                                        entrypoint: entrypoint.clone(),
                                        pid_namespace,
                                        ready_only_routing: flag(0),
                                        boot_replacement: flag(1),
                                        fail_worker_1: flag(2),
                                        ..Scenario::new("small", "A small drill")
                                    };
                                    compare(&scenario, &mut seen);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    let kinds: Vec<&str> = seen.keys().copied().collect();
    let all = ["admitted", "no_eligible_worker", "no_free_slot", "worker_draining", "worker_starting"];
    assert_eq!(kinds, all, "every way must have been seen: {seen:?}");
}

/// What becomes of a request in this state by the router's rule, and by what a worker answers that is not ready.
fn by_the_router(policy: Policy, slots: u8, workers: &[(Candidate, u32)]) -> Expected {
    let seats: Vec<Seat> = (1..)
        .zip(workers)
        .filter_map(|(number, &(candidate, in_flight))| {
            let readiness = match candidate {
                Candidate::Starting => Readiness::Starting,
                Candidate::Ready => Readiness::Ready,
                Candidate::Draining => Readiness::Draining,
                // Who has ended has no seat.
                Candidate::Gone => return None,
            };
            Some(Seat { worker: WorkerId(number), readiness, in_flight, slots })
        })
        .collect();
    match decide(policy, &seats) {
        Decision::Reject(reason) => Expected::Rejected(reason),
        Decision::Send(worker) => {
            let index = usize::from(worker.0) - 1;
            match workers[index].0 {
                Candidate::Starting => Expected::Refused(index, Reason::WorkerStarting),
                Candidate::Draining => Expected::Refused(index, Reason::WorkerDraining),
                Candidate::Ready | Candidate::Gone => Expected::Admitted(index),
            }
        }
    }
}

/// Every state of up to three workers with up to three slots, whether or not a drill can get there.
#[test]
fn the_two_rules_are_equal_in_every_small_state() {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    // A router with a wrong rule is told apart.
    let mut noticed = 0;
    for slots in 1..=3u8 {
        let one: Vec<(Candidate, u32)> = [Candidate::Starting, Candidate::Ready, Candidate::Draining, Candidate::Gone]
            .into_iter()
            .flat_map(|candidate| (0..=u32::from(slots)).map(move |in_flight| (candidate, in_flight)))
            .collect();
        let mut states: Vec<Vec<(Candidate, u32)>> = vec![Vec::new()];
        for _ in 0..3 {
            let longer = |state: &Vec<(Candidate, u32)>| {
                one.iter().map(|&worker| [&state[..], &[worker]].concat()).collect::<Vec<_>>()
            };
            states = states.iter().flat_map(longer).collect();
        }
        // Fewer workers are those beside whom the others are gone; and there may be none.
        states.push(Vec::new());
        for state in &states {
            for ready_only in [true, false] {
                let expected = route(ready_only, slots, state.iter().copied());
                let policy = Policy::new(ready_only);
                assert_eq!(by_the_router(policy, slots, state), expected, "{ready_only} {slots} {state:?}");
                let wrong = Policy { tie: Tie::Highest, ..policy };
                noticed += u32::from(by_the_router(wrong, slots, state) != expected);
                *seen.entry(format!("{ready_only} {expected:?}")).or_default() += 1;
            }
        }
    }
    assert!(noticed > 1_000, "{noticed}");
    // Guarded: three admissions and two reasons. Unguarded: these, and two refusals by each of three.
    assert_eq!(seen.len(), (3 + 2) + (3 + 2 + 3 * 2), "{seen:?}");
}
