//! What holds for every scenario.

use std::collections::BTreeMap;

use proptest::prelude::*;
use scenarios::{
    Effect, Event, EventKind, Expectation, Host, Outcome, RequestId, Scenario, ShellBehaviour, Source, Stage, Status,
    Tick, Trace, WorkerId, expect, fate::fate,
};

use crate::any;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// What becomes of the requests, as the events tell it.
#[derive(Debug, Default, PartialEq)]
struct Ends {
    completed: Vec<RequestId>,
    killed: Vec<RequestId>,
    rejected: Vec<RequestId>,
    running: Vec<RequestId>,
}

/// An invocation in flight: where, since when, and how many of its stages it has entered.
struct InFlight {
    worker: WorkerId,
    slot: u8,
    since: Tick,
    stages: usize,
}

/// Follows every request through the events, one by one. Each has one end, in its time, and nothing is heard of it
/// afterwards; no slot is held twice.
fn follow(scenario: &Scenario, events: &[Event]) -> Result<Ends, TestCaseError> {
    let mut running: BTreeMap<RequestId, InFlight> = BTreeMap::new();
    let mut ends = Ends::default();
    let mut arrivals = scenario.arrivals();
    let mut draining = false;
    for event in events {
        match event.kind {
            EventKind::RequestAdmitted { request, worker, slot } => {
                prop_assert_eq!(arrivals.next(), Some((request, event.t)), "an arrival out of turn");
                prop_assert!((1..=scenario.slots_per_worker).contains(&slot), "there is no slot {}", slot);
                let is_held = running.values().any(|held| (held.worker, held.slot) == (worker, slot));
                prop_assert!(!is_held, "a slot is held twice");
                running.insert(request, InFlight { worker, slot, since: event.t, stages: 0 });
            }
            EventKind::RequestRejected { request, .. } => {
                prop_assert_eq!(arrivals.next(), Some((request, event.t)), "an arrival out of turn");
                ends.rejected.push(request);
            }
            EventKind::StageEntered { request, worker, stage } => {
                let Some(held) = running.get_mut(&request) else {
                    return Err(TestCaseError::fail(format!("{request} is not in flight")));
                };
                prop_assert_eq!(held.worker, worker);
                prop_assert_eq!(Stage::ALL.get(held.stages), Some(&stage), "a stage out of turn");
                held.stages += 1;
                // The k-th of three at the first tick that is not before its third of the duration.
                let ticks = event.t.0 - held.since.0;
                let third = (held.stages as u32 - 1) * scenario.invocation_s.0;
                prop_assert!(ticks * 3 >= third && (ticks == 0 || (ticks - 1) * 3 < third), "a stage at a wrong time");
            }
            EventKind::ResultCommitted { request, worker, .. } => {
                let held = running.remove(&request);
                let due = held.as_ref().map(|held| (held.worker, held.stages, held.since + scenario.invocation_s));
                prop_assert_eq!(due, Some((worker, Stage::ALL.len(), event.t)), "a commit out of turn");
                ends.completed.push(request);
            }
            EventKind::InvocationKilled { request, worker } => {
                let held = running.remove(&request);
                prop_assert_eq!(held.as_ref().map(|held| held.worker), Some(worker), "a kill of nothing");
                let due = held.map(|held| held.since + scenario.invocation_s);
                prop_assert!(due > Some(event.t), "killed although it was done");
                prop_assert!([scenario.signal_at(), scenario.deadline()].contains(&event.t), "killed out of turn");
                ends.killed.push(request);
            }
            EventKind::ReadinessWithdrawn { .. } => draining = true,
            EventKind::WorkerExited { worker, status } if draining && status == scenarios::Status::SUCCESS => {
                prop_assert!(running.values().all(|held| held.worker != worker), "a drained exit with work in hand");
            }
            EventKind::OrphanExited { worker } => prop_assert!(running.values().all(|held| held.worker != worker)),
            _ => {}
        }
    }
    prop_assert_eq!(arrivals.next(), None, "an arrival is missing");
    prop_assert!(
        running.values().all(|held| held.since + scenario.invocation_s > Tick::END),
        "an invocation that was due has no end"
    );
    for ends in [&mut ends.completed, &mut ends.killed] {
        ends.sort_unstable();
    }
    ends.running = running.into_keys().collect();
    Ok(ends)
}

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn nothing_gets_lost_or_happens_twice(scenario in any::scenario(), host in any::host()) {
        let Expectation { events, outcome } = expect(&scenario, &host);
        let ends = follow(&scenario, &events)?;
        prop_assert_eq!(&ends.completed, &outcome.completed);
        prop_assert_eq!(&ends.killed, &outcome.killed);
        prop_assert_eq!(&ends.running, &outcome.running);
        prop_assert_eq!(ends.rejected.len(), usize::from(outcome.rejected));
        prop_assert_eq!(outcome.arrivals, outcome.admitted + outcome.rejected);
        prop_assert_eq!(usize::from(outcome.arrivals), scenario.arrivals().count());
        let ends = outcome.completed.len() + outcome.killed.len() + outcome.running.len();
        prop_assert_eq!(usize::from(outcome.admitted), ends);
        prop_assert_eq!(outcome.workers.len(), usize::from(scenario.workers()));
        prop_assert!(outcome.sums.0.iter().all(|(request, sum)| *sum == u32::from(request.0) + 3));
    }

    #[test]
    fn a_trace_is_strictly_in_order(scenario in any::scenario(), host in any::host()) {
        let events = expect(&scenario, &host).events;
        for pair in events.windows(2) {
            prop_assert!(pair[0].order() < pair[1].order(), "{:?} before {:?}", pair[0], pair[1]);
        }
    }

    #[test]
    fn a_trace_shows_the_effect_of_sigterm(scenario in any::scenario(), host in any::host()) {
        // A worker that boots and one that drains at once end alike where the top reports success.
        prop_assume!(host.custom.is_none_or(|custom| custom.status != Status::SUCCESS));
        let events = expect(&scenario, &host).events;
        let sent = events.iter().any(|event| matches!(event.kind, EventKind::SigtermSent { .. }));
        prop_assert_eq!(Effect::seen_in(&events), sent.then(|| fate(&scenario, &host).effect));
    }

    #[test]
    fn nothing_is_heard_of_a_worker_that_is_gone(scenario in any::scenario(), host in any::host()) {
        let events = expect(&scenario, &host).events;
        let mut gone = Vec::new();
        for event in &events {
            // The invocations that end with their worker are named after it.
            let follows = matches!(event.kind, EventKind::InvocationKilled { .. } | EventKind::SigtermSkipped { .. });
            if let (false, Some(worker)) = (follows, event.kind.worker()) {
                prop_assert!(!gone.contains(&worker), "{:?}", event);
            }
            if let EventKind::WorkerExited { worker, .. }
            | EventKind::WorkerFailed { worker, .. }
            | EventKind::OrphanExited { worker } = event.kind
            {
                gone.push(worker);
            }
        }
    }

    #[test]
    fn every_scenario_reads_back(scenario in any::scenario()) {
        let text = serde_json::to_string(&scenario).unwrap();
        prop_assert_eq!(&Scenario::parse(&text).unwrap(), &scenario);
        prop_assert_eq!(&Scenario::from_value(serde_json::to_value(&scenario).unwrap()).unwrap(), &scenario);
        prop_assert_eq!(&serde_json::from_str::<Scenario>(&text).unwrap(), &scenario);
    }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn every_trace_reads_back(scenario in any::scenario(), host in any::host()) {
        let Expectation { events, outcome } = expect(&scenario, &host);
        let text = serde_json::to_string(&outcome).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Outcome>(&text).unwrap(), &outcome);
        let trace = Trace { source: Source::Model, scenario, events, outcome: Some(outcome) };
        let mut stored = Vec::new();
        trace.write(&mut stored).unwrap();
        prop_assert_eq!(&Trace::<Event>::read(stored.as_slice()).unwrap(), &trace);
    }

    /// What a crash leaves behind: a trace that ends anywhere after its header.
    #[test]
    fn a_trace_that_was_cut_off_reads_as_far_as_it_goes(scenario in any::scenario(), host in any::host(), cut in 0.0..1.0f64) {
        let Expectation { events, outcome } = expect(&scenario, &host);
        let trace = Trace { source: Source::Processes, scenario, events, outcome: Some(outcome) };
        let mut stored = Vec::new();
        trace.write(&mut stored).unwrap();
        let header = stored.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let cut = header + ((stored.len() - header) as f64 * cut) as usize;
        let read = Trace::<Event>::read(&stored[..cut]).unwrap();
        prop_assert!(trace.events.starts_with(&read.events));
        // At most the last line, which is not whole, may be missing.
        let whole_lines = stored[header..cut].iter().filter(|byte| **byte == b'\n').count();
        prop_assert!(read.events.len() >= whole_lines);
    }
}

proptest! {
    #![proptest_config(config(20_000))]

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Scenario::from_bytes(&bytes);
        let _ = Trace::<Event>::read(bytes.as_slice());
    }

    /// Text that is nearly a scenario gets further into the parser than random bytes do.
    #[test]
    fn no_spoilt_scenario_makes_the_parser_panic(
        scenario in any::scenario(),
        at in any::<prop::sample::Index>(),
        length in 0..9usize,
        put in "[\\[\\]{}\":,0-9eE.nul\\\\u-]{0,6}|\\PC{0,3}",
    ) {
        let text: Vec<char> = serde_json::to_string(&scenario).unwrap().chars().collect();
        let at = at.index(text.len());
        let rest = text.iter().skip(at + length);
        let spoilt: String = text[..at].iter().copied().chain(put.chars()).chain(rest.copied()).collect();
        if let Err(error) = Scenario::parse(&spoilt) {
            prop_assert!(!error.problems.is_empty() && !error.to_string().is_empty());
        }
        let _ = scenario.with_settings([spoilt.as_str(), put.as_str()]);
    }
}

/// The checks above can fail: a trace that is spoilt in one place is noticed.
#[test]
fn a_spoilt_trace_is_noticed() {
    type Spoil = fn(&mut Vec<Event>);
    fn first(events: &[Event], wanted: &str) -> usize {
        events.iter().position(|event| event.kind.name() == wanted).unwrap()
    }
    let scenario = Scenario::new("opening", "Four are killed, four complete, twelve are rejected");
    let events = expect(&scenario, &Host { shell: ShellBehaviour::Stays, custom: None }).events;
    assert_eq!(follow(&scenario, &events).unwrap().killed.len(), 4);
    let rows: [(&str, Spoil); 12] = [
        ("a commit out of turn", |events| {
            // A killed invocation commits after all.
            let killed = events[first(events, "invocation_killed")];
            let (Some(request), Some(worker)) = (killed.kind.request(), killed.kind.worker()) else { return };
            events
                .push(Event { t: killed.t, kind: EventKind::ResultCommitted { request, worker, sum: request.sum() } });
        }),
        ("a commit out of turn", |events| {
            let commit = first(events, "result_committed");
            events.insert(commit, events[commit]);
        }),
        ("a commit out of turn", |events| {
            let commit = first(events, "result_committed");
            events[commit].t.0 += 1;
        }),
        ("a kill of nothing", |events| {
            let kill = first(events, "invocation_killed");
            events.insert(kill, events[kill]);
        }),
        ("killed out of turn", |events| {
            let kill = first(events, "invocation_killed");
            events[kill].t.0 -= 1;
        }),
        ("an invocation that was due has no end", |events| {
            let last = events.iter().rposition(|event| event.kind.name() == "invocation_killed").unwrap();
            events.remove(last);
        }),
        ("an arrival out of turn", |events| {
            let rejected = first(events, "request_rejected");
            events.remove(rejected);
        }),
        ("an arrival is missing", |events| {
            let last = events.iter().rposition(|event| event.kind.name() == "request_rejected").unwrap();
            events.remove(last);
        }),
        ("a slot is held twice", |events| {
            let second = first(events, "request_admitted") + 2;
            if let Some(EventKind::RequestAdmitted { slot, .. }) = events.get_mut(second).map(|event| &mut event.kind) {
                *slot = 1;
            }
        }),
        ("there is no slot 5", |events| {
            let admitted = first(events, "request_admitted");
            if let EventKind::RequestAdmitted { slot, .. } = &mut events[admitted].kind {
                *slot = 5;
            }
        }),
        ("a stage out of turn", |events| {
            let stage = first(events, "stage_entered");
            events.insert(stage, events[stage]);
        }),
        ("a stage at a wrong time", |events| {
            let second = events
                .iter_mut()
                .filter(|event| matches!(event.kind, EventKind::StageEntered { stage: Stage::Model, .. }));
            second.take(1).for_each(|event| event.t.0 += 1);
        }),
    ];
    for (why, spoil) in rows {
        let mut spoilt = events.clone();
        spoil(&mut spoilt);
        assert_ne!(spoilt, events, "{why}");
        let noticed = follow(&scenario, &spoilt).unwrap_err().to_string();
        assert!(noticed.contains(why), "{noticed} instead of {why}");
    }
}

#[test]
fn what_is_no_trace_is_told_by_its_line() {
    let trace = |text: &str| Trace::<Event>::read(text.as_bytes()).map_err(|error| error.to_string());
    let header = r#"{"format":"termdrill-trace","version":1,"source":"model","scenario":{"name":"n","title":"é"}}"#;
    let event = r#"{"t":1.0,"event":"worker_started","worker":"worker-1"}"#;
    let outcome = serde_json::to_string(&Outcome::of(&Scenario::new("n", "t"), &[])).unwrap();
    let outcome = format!(r#"{{"outcome":{outcome}}}"#);
    assert_eq!(trace(&format!("{header}\n{event}\n{outcome}\n")).unwrap().events.len(), 1);
    for (text, message) in [
        (String::new(), "line 1 of the trace: there is none"),
        (header.replace("drill-", "drill+"), "line 1 of the trace: the format is \"termdrill+trace\" and not"),
        (header.replace(":1,", ":2,"), "line 1 of the trace: version 2 can't be read, only 1"),
        (
            header.replace("title", "titel"),
            "line 1 of the trace: titel: there is no such field, given as \"é\"; did you mean title?",
        ),
        (format!("{header}\n{{}}\n{event}"), "line 2 of the trace: neither an event nor an outcome"),
        (format!("{header}\n{}\n", event.replace("1.0", "1.05")), "line 2 of the trace: neither an event nor"),
        (format!("{header}\n{outcome}\n{event}\n"), "line 3 of the trace: the outcome is not the last line"),
    ] {
        let error = trace(&text).unwrap_err();
        assert!(error.starts_with(message), "{error}");
    }
    // Cut off in the middle of a character of the last line.
    let noted = event.replace("worker-1", "é");
    let cut = noted.find('é').unwrap() + 1;
    let stored = [header.as_bytes(), b"\n", &noted.as_bytes()[..cut]].concat();
    assert_eq!(Trace::<Event>::read(stored.as_slice()).unwrap().events, []);
}
