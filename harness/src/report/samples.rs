//! Snapshots of every text at 40, 80 and 120 columns.

use scenarios::{
    Event, EventKind, Expectation, Host, Outcome, RequestId, Scenario, ShellBehaviour, Status, Tick, catalogue, expect,
};

use super::{Screen, json, model, run, scenario};
use crate::{
    compare::first_difference,
    record::{Attempt, Lateness, Observed, Part, Record, Verdict},
};

const HOST: Host = Host { shell: ShellBehaviour::Stays, custom: None };

fn scenario_named(name: &str) -> (Scenario, Expectation) {
    let scenario = catalogue::get(name).unwrap().clone();
    let expected = expect(&scenario, &HOST);
    (scenario, expected)
}

fn attempt(scenario: &Scenario, expected: &Expectation, speed: f64, change: impl Fn(&mut Vec<Event>)) -> Attempt {
    let mut events = expected.events.clone();
    change(&mut events);
    events.sort_by_key(Event::order);
    let outcome = Outcome::of(scenario, &events);
    let observed = |event: Event| Observed {
        event,
        at_us: (f64::from(event.t.0) * 100_000.0 / speed) as i64 + 150,
        late_us: 150,
        pid: None,
        note: None,
    };
    let events: Vec<Observed> = events.into_iter().map(observed).collect();
    let late =
        |part, worst_us| Lateness { part, count: 12, median_us: 80, worst_us, allowed_us: 2_500, closest_us: worst_us };
    Attempt {
        speed: Some(speed),
        wall_ms: (60_000.0 / speed) as u64 + 31,
        cut_off_at: None,
        difference: first_difference(&expected.events, &events),
        events,
        outcome,
        lateness: vec![late(Part::Completion, 410), late(Part::Admission, 1_930)],
        problems: Vec::new(),
        remarks: Vec::new(),
        evidence: None,
        explanation: None,
    }
}

pub(crate) fn matched() -> Record {
    let (scenario, expected) = scenario_named("ignored-signal");
    let attempts = vec![attempt(&scenario, &expected, 10.0, |_| ())];
    Record { scenario, expected, attempts, verdict: Verdict::Matched, reasons: Vec::new() }
}

/// A drained worker that is killed at the deadline although its last invocation completes there.
pub(crate) fn diverged() -> Record {
    let (scenario, expected) = scenario_named("drained-at-deadline");
    let wrong = |events: &mut Vec<Event>| {
        let end = events.iter().find(|event| matches!(event.kind, EventKind::WorkerExited { .. })).copied();
        let (Some(end), Some(worker)) = (end, end.and_then(|end| end.kind.worker())) else { return };
        let request = RequestId(
            events
                .iter()
                .filter(|event| event.t == end.t && event.kind.name() == "result_committed")
                .filter_map(|event| event.kind.request())
                .map(|request| request.0)
                .max()
                .unwrap_or(0),
        );
        events.retain(|event| *event != end && !(event.t == end.t && event.kind.request() == Some(request)));
        let at = |kind| Event { t: end.t, kind };
        events.push(at(EventKind::SigkillSent { worker }));
        events.push(at(EventKind::WorkerExited { worker, status: Status::SIGKILL }));
        events.push(at(EventKind::InvocationKilled { request, worker }));
    };
    let mut attempts = vec![attempt(&scenario, &expected, 10.0, wrong), attempt(&scenario, &expected, 5.0, wrong)];
    attempts[1].remarks.push("request-9 was committed, but its answer never arrived.".to_owned());
    let reasons =
        vec!["The same event differed at speed 10, and again at speed 5, with everything in time.".to_owned()];
    Record { scenario, expected, attempts, verdict: Verdict::Diverged, reasons }
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

fn screens() -> impl Iterator<Item = (String, Screen)> {
    [(40, true), (40, false), (80, false), (120, false)].into_iter().map(|(width, ascii)| {
        let name = format!("{width}{}", if ascii { "-ascii" } else { "" });
        (name, Screen { width, ascii, verbose: false })
    })
}

/// Snapshots the text on every screen, and sees to it that no line is wider than the screen.
fn check(name: &str, text: impl Fn(Screen) -> String) {
    for (suffix, screen) in screens() {
        let text = plain(&text(screen));
        for line in text.lines().filter(|line| !line.starts_with("stored") && !line.contains("\": ")) {
            assert!(textwrap::core::display_width(line) <= screen.width, "{name} at {suffix}: {line}");
        }
        assert!(!screen.ascii || text.is_ascii(), "{name}: not ASCII");
        insta::assert_snapshot!(format!("{name}-{suffix}"), text);
    }
}

#[test]
fn a_matched_run() {
    let path = std::path::Path::new("runs/20260102-030405-ignored-signal");
    check("run-matched", |screen| run::replay(screen, &matched(), Some(path)));
}

#[test]
fn a_diverged_run() {
    check("run-diverged", |screen| run::closing(screen, &diverged(), None));
}

#[test]
fn a_run_with_all_details() {
    let screen = Screen { width: 80, ascii: false, verbose: true };
    insta::assert_snapshot!("run-diverged-verbose", plain(&run::closing(screen, &diverged(), None)));
}

#[test]
fn a_run_that_could_not_be_made() {
    let record = Record {
        attempts: Vec::new(),
        verdict: Verdict::Inconclusive,
        reasons: vec!["User namespaces are forbidden.".to_owned()],
        ..matched()
    };
    check("run-impossible", |screen| run::closing(screen, &record, None));
}

#[test]
fn a_run_that_was_stopped() {
    let (scenario, expected) = scenario_named("ignored-signal");
    let cut_off_at = Tick(200);
    let mut stopped = attempt(&scenario, &expected, 10.0, |events| events.retain(|event| event.t <= cut_off_at));
    (stopped.cut_off_at, stopped.difference) = (Some(cut_off_at), None);
    let reasons = vec!["The drill was stopped before its end.".to_owned()];
    let record = Record { scenario, expected, attempts: vec![stopped], verdict: Verdict::Inconclusive, reasons };
    check("run-stopped", |screen| run::closing(screen, &record, None));
}

#[test]
fn a_run_fits_a_screen() {
    let screen = Screen { width: 80, ascii: false, verbose: false };
    let lines = run::closing(screen, &matched(), Some(std::path::Path::new("x"))).lines().count();
    assert!(lines <= 24, "{lines} lines");
}

#[test]
fn every_scenario_fits_every_screen() {
    for scenario in catalogue::all() {
        let expected = expect(scenario, &HOST);
        for (name, screen) in screens() {
            for line in plain(&model::text(screen, scenario, &expected)).lines() {
                assert!(textwrap::core::display_width(line) <= screen.width, "{} at {name}: {line}", scenario.name);
            }
        }
    }
}

#[test]
fn the_model() {
    let (scenario, expected) = scenario_named("orphaned-by-shell");
    check("model", |screen| model::text(screen, &scenario, &expected));
}

#[test]
fn the_list() {
    let some: Vec<Scenario> = ["ignored-signal", "handler-grace-10", "no-handler-not-pid1", "shell-form"]
        .map(|name| scenario_named(name).0)
        .into();
    check("list", |screen| scenario::list(screen, &some));
    // Every scenario is in a group, and in one only.
    let all = plain(&scenario::list(Screen { width: 120, ascii: true, verbose: false }, catalogue::all()));
    for scenario in catalogue::all() {
        let name = format!("  {} ", scenario.name);
        assert_eq!(all.matches(&name).count(), 1, "{name}");
    }
}

#[test]
fn one_scenario() {
    let (scenario, expected) = scenario_named("handler-grace-19");
    check("show", |screen| scenario::show(screen, &scenario, &expected));
    let verbose = Screen { width: 80, ascii: false, verbose: true };
    insta::assert_snapshot!("show-verbose", plain(&scenario::show(verbose, &scenario, &expected)));
}

#[test]
fn the_documents() {
    let keys = |text: &[u8]| {
        let value: serde_json::Value = serde_json::from_slice(text).unwrap();
        let keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        (value, keys)
    };
    let record = diverged();
    let (value, names) = keys(&json::run(&record, None).unwrap());
    assert_eq!(
        names,
        [
            "difference",
            "evidence",
            "expected",
            "explanation",
            "observed",
            "reasons",
            "remarks",
            "run",
            "scenario",
            "timing",
            "verdict"
        ]
    );
    assert_eq!(value["verdict"], "diverged");
    assert_eq!(value["run"], serde_json::Value::Null);
    assert_eq!(value["expected"]["events"].as_array().unwrap().len(), record.expected.events.len());
    assert_eq!(value["observed"]["outcome"]["killed"].as_array().unwrap().len(), 1);
    assert_eq!(value["timing"]["speed_asked"], 10.0);
    assert_eq!(value["timing"]["speed_used"], 5.0);
    assert_eq!(value["timing"]["wall_ms"], 6_031 + 12_031);
    assert_eq!(value["timing"]["attempts"].as_array().unwrap().len(), 2);
    assert_eq!(value["timing"]["attempts"][0]["in_time"], true);
    assert!(value["difference"]["what"].as_str().unwrap().contains("was killed with worker-1 instead"));

    let none = Record { attempts: Vec::new(), ..matched() };
    let (value, _) = keys(&json::run(&none, None).unwrap());
    assert_eq!(value["observed"], serde_json::Value::Null);
    assert_eq!(value["difference"], serde_json::Value::Null);

    let (scenario, expected) = scenario_named("ignored-signal");
    let (value, names) = keys(&json::model(&scenario, &expected).unwrap());
    assert_eq!(names, ["events", "outcome", "scenario"]);
    assert_eq!(value["outcome"]["gate"], "fail");
    assert_eq!(value["events"][0], serde_json::json!({"t": 0.0, "event": "worker_started", "worker": "worker-1"}));
}
