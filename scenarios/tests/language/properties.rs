//! What holds for every scenario.

use std::collections::BTreeMap;

use proptest::prelude::*;
use scenarios::{Event, EventKind, Expectation, Outcome, RequestId, Scenario, Source, Trace, WorkerId, expect};

use crate::any;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Follows every invocation through the events. What is found is the requests that are still running.
fn follow(scenario: &Scenario, events: &[Event]) -> Result<Vec<RequestId>, TestCaseError> {
    let mut running: BTreeMap<RequestId, (WorkerId, u8)> = BTreeMap::new();
    let mut draining = false;
    for event in events {
        match event.kind {
            EventKind::RequestAdmitted { request, worker, slot } => {
                prop_assert!((1..=scenario.slots_per_worker).contains(&slot));
                prop_assert!(!running.values().any(|place| *place == (worker, slot)), "a slot is held twice");
                prop_assert!(running.insert(request, (worker, slot)).is_none());
            }
            EventKind::StageEntered { request, worker, .. } => {
                prop_assert_eq!(running.get(&request).map(|place| place.0), Some(worker));
            }
            EventKind::ResultCommitted { request, worker, .. } | EventKind::InvocationKilled { request, worker } => {
                prop_assert_eq!(running.remove(&request).map(|place| place.0), Some(worker));
            }
            EventKind::ReadinessWithdrawn { .. } => draining = true,
            EventKind::WorkerExited { worker, status } if draining && status == scenarios::Status::SUCCESS => {
                prop_assert!(running.values().all(|place| place.0 != worker), "a drained exit with work in hand");
            }
            EventKind::OrphanExited { worker } => prop_assert!(running.values().all(|place| place.0 != worker)),
            _ => {}
        }
    }
    Ok(running.into_keys().collect())
}

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn nothing_gets_lost_or_happens_twice(scenario in any::scenario(), host in any::host()) {
        let Expectation { events, outcome } = expect(&scenario, &host);
        prop_assert_eq!(&follow(&scenario, &events)?, &outcome.running);
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
    fn nothing_is_heard_of_a_worker_that_is_gone(scenario in any::scenario(), host in any::host()) {
        let events = expect(&scenario, &host).events;
        let mut gone = None;
        for event in &events {
            // The invocations that end with their worker are named after it.
            let follows = matches!(event.kind, EventKind::InvocationKilled { .. } | EventKind::SigtermSkipped { .. });
            if !follows && event.kind.worker().is_some() {
                prop_assert_ne!(event.kind.worker(), gone, "{:?}", event);
            }
            if let EventKind::WorkerExited { worker, .. }
            | EventKind::WorkerFailed { worker, .. }
            | EventKind::OrphanExited { worker } = event.kind
            {
                gone = Some(worker);
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
        (header.replace("title", "titel"), "line 1 of the trace: titel: there is no such field; did you mean title?"),
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
