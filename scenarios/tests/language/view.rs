//! A screen's state at any tick is the trace folded up to that tick, and the rules that the view states select it.

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};
use scenarios::{
    Event, EventKind, Frame, Outcome, RequestId, Scenario, Stage, Status, Tick, View, WorkerId, WorkerState, expect,
    random,
    view::{Counts, InFlight, OPEN, StoreRow, WorkerFrame},
};
use serde_json::{Value, json};

use crate::any;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// The state at the end of `tick`, by playing every event up to it from the start.
fn folded(scenario: &Scenario, events: &[Event], tick: Tick) -> Frame {
    let seen: Vec<Event> = events.iter().copied().filter(|event| event.t.min(Tick::END) <= tick).collect();
    let mut orphans_gone = BTreeSet::new();
    // In the order of admission: by mistake, two can be in one slot.
    let mut held: Vec<((RequestId, WorkerId), InFlight)> = Vec::new();
    let (mut begun, mut over) = (BTreeSet::new(), BTreeSet::new());
    let (mut store, mut killed, mut admitted, mut rejected) = (Vec::new(), 0, 0, 0);
    for event in &seen {
        let from = event.t.min(Tick::END);
        match event.kind {
            EventKind::OrphanExited { worker } => drop(orphans_gone.insert(worker)),
            EventKind::RequestAdmitted { request, worker, slot } => {
                admitted += 1;
                if begun.insert((request, worker)) && !over.contains(&(request, worker)) {
                    held.push(((request, worker), InFlight { request, slot, stage: None, from }));
                }
            }
            EventKind::StageEntered { request, worker, stage } => {
                held.iter_mut()
                    .filter(|(key, _)| *key == (request, worker))
                    .for_each(|(_, held)| held.stage = Some(stage));
            }
            EventKind::ResultCommitted { request, worker, sum } => {
                store.push(StoreRow { tick: from, request, sum, worker });
                held.retain(|(key, _)| *key != (request, worker));
                over.insert((request, worker));
            }
            EventKind::InvocationKilled { request, worker } => {
                killed += 1;
                held.retain(|(key, _)| *key != (request, worker));
                over.insert((request, worker));
            }
            EventKind::RequestRejected { .. } => rejected += 1,
            EventKind::WorkerStarted { worker }
            | EventKind::WorkerReady { worker }
            | EventKind::ReadinessWithdrawn { worker }
            | EventKind::WorkerOrphaned { worker, .. } => drop(orphans_gone.remove(&worker)),
            _ => {}
        }
    }
    let outcome = Outcome::of(scenario, &seen);
    let workers = outcome.workers.iter().map(|known| {
        let alive = match known.state {
            WorkerState::Exited | WorkerState::Failed | WorkerState::Terminated | WorkerState::Killed => false,
            // Whatever it seemed to be: its process has ended.
            _ => !orphans_gone.contains(&known.worker),
        };
        let mut in_flight: Vec<InFlight> =
            held.iter().filter(|((_, worker), _)| *worker == known.worker).map(|(_, held)| *held).collect();
        in_flight.sort_by_key(|held| held.slot);
        WorkerFrame {
            worker: known.worker,
            state: known.state,
            alive,
            ready: known.state == WorkerState::Ready,
            status: known.status,
            in_flight,
        }
    });
    Frame {
        tick,
        workers: workers.collect(),
        counts: Counts {
            tick,
            arrivals: outcome.arrivals,
            admitted,
            rejected,
            completed: store.len() as u16,
            killed,
            in_flight: held.len() as u16,
            rejected_percent: outcome.rejected_percent,
        },
        store,
        rejections: usize::from(rejected),
        decisions: seen.len(),
        gate: (tick >= Tick::END).then(|| Outcome::of(scenario, events).gate),
    }
}

/// The same from the written view, by its rules alone.
fn selected(view: &Value, t: u64) -> Value {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let covers = |span: &&Value| {
        let [from, until] = ["from_tick", "until_tick"].map(|name| span[name].as_u64().unwrap());
        from <= t && t < until
    };
    let shown = |name: &str| {
        let mut rows = list(&view[name]);
        rows.retain(|row| row["tick"].as_u64().unwrap() <= t);
        rows
    };
    let mut workers = Vec::new();
    for lane in list(&view["lanes"]) {
        let phases = list(&lane["phases"]);
        let Some(phase) = phases.iter().find(covers) else { continue };
        let mut in_flight = Vec::new();
        for slot in list(&lane["slots"]) {
            for held in list(&slot["invocations"]).iter().filter(covers) {
                let stages = list(&held["stages"]);
                let stage = stages.iter().find(covers).map(|stage| stage["stage"].clone());
                in_flight.push(json!({
                    "request": held["request"], "slot": slot["slot"], "stage": stage, "from_tick": held["from_tick"],
                }));
            }
        }
        workers.push(json!({
            "worker": lane["worker"], "state": phase["state"], "alive": phase["alive"], "ready": phase["ready"],
            "status": phase["status"], "in_flight": in_flight,
        }));
    }
    let mut counts = shown("counts").pop().unwrap_or_else(|| serde_json::to_value(Counts::default()).unwrap());
    counts["tick"] = json!(t);
    let gate = &view["gate"];
    json!({
        "tick": t,
        "workers": workers,
        "counts": counts,
        "store": shown("store"),
        "rejections": shown("rejections").len(),
        "decisions": shown("decisions").len(),
        "gate": if gate["tick"].as_u64().is_some_and(|tick| tick <= t) { gate["gate"].clone() } else { Value::Null },
    })
}

fn all_ticks() -> impl Iterator<Item = Tick> {
    (0..=Tick::END.0).map(Tick)
}

fn agree_at_every_tick(scenario: &Scenario, events: &[Event]) -> Result<(), TestCaseError> {
    let view = View::new(scenario, events);
    prop_assert!(view.counts.is_sorted_by(|one, next| one.tick < next.tick), "one entry a tick");
    for lane in &view.lanes {
        prop_assert!(lane.phases.iter().all(|phase| phase.from < phase.until), "a phase covers a tick");
        prop_assert!(lane.phases.windows(2).all(|pair| pair[0].until == pair[1].from), "phases leave no gap");
        prop_assert!(lane.phases.last().is_none_or(|last| last.until == OPEN));
    }
    for tick in all_ticks() {
        prop_assert_eq!(view.at(tick), folded(scenario, events, tick), "at {}", tick);
    }
    Ok(())
}

/// What can be wrong with one event of a trace.
fn mishap() -> impl Strategy<Value = (prop::sample::Index, u8, u32)> {
    (any::<prop::sample::Index>(), 0..5u8, 0..700u32)
}

/// Events as faulty processes may leave them: missing, twice, elsewhere, at other times.
fn damage(events: &mut Vec<Event>, mishaps: &[(prop::sample::Index, u8, u32)]) {
    for (place, what, number) in mishaps {
        if events.is_empty() {
            return;
        }
        let index = place.index(events.len());
        let mut event = events[index];
        match what {
            0 => drop(events.remove(index)),
            1 => events.push(event),
            2 => events[index].t = Tick(*number),
            3 => {
                event.t = Tick(*number);
                events.push(event);
            }
            _ => {
                let other = WorkerId(1 + *number as u16 % 3);
                match &mut events[index].kind {
                    EventKind::StageEntered { worker, .. }
                    | EventKind::ResultCommitted { worker, .. }
                    | EventKind::InvocationKilled { worker, .. }
                    | EventKind::WorkerExited { worker, .. }
                    | EventKind::WorkerReady { worker }
                    | EventKind::RequestAdmitted { worker, .. } => *worker = other,
                    _ => {}
                }
            }
        }
    }
    events.sort_by_key(Event::order);
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn a_frame_is_the_trace_folded_up_to_its_tick(scenario in any::scenario(), host in any::host()) {
        agree_at_every_tick(&scenario, &expect(&scenario, &host).events)?;
    }

    #[test]
    fn a_frame_of_a_generated_scenario_is_the_fold_too(seed: u64, number: u64, host in any::host()) {
        let scenario = random::scenario(seed, number);
        agree_at_every_tick(&scenario, &expect(&scenario, &host).events)?;
    }

    #[test]
    fn a_frame_of_a_faulty_trace_is_the_fold_as_well(
        scenario in any::scenario(), host in any::host(), mishaps in vec(mishap(), 1..12)
    ) {
        let mut events = expect(&scenario, &host).events;
        damage(&mut events, &mishaps);
        agree_at_every_tick(&scenario, &events)?;
    }

    /// What goes on is known to its last event: the view of the beginning is the beginning of the view.
    #[test]
    fn a_part_of_a_trace_shows_what_the_whole_shows(scenario in any::scenario(), host in any::host(), until in 0..=600u32) {
        let events = expect(&scenario, &host).events;
        let seen: Vec<Event> = events.iter().copied().filter(|event| event.t <= Tick(until)).collect();
        let (whole, part) = (View::new(&scenario, &events), View::until(&scenario, &seen, Tick(until)));
        prop_assert_eq!((part.known_until, part.gate), (Tick(until), None));
        for tick in all_ticks().take_while(|tick| *tick <= Tick(until)) {
            let expected = Frame { gate: None, ..whole.at(tick) };
            prop_assert_eq!(part.at(tick), expected);
        }
    }
}

proptest! {
    #![proptest_config(config(12))]

    #[test]
    fn the_rules_select_the_frame_from_what_is_written(
        scenario in any::scenario(), host in any::host(), mishaps in vec(mishap(), 0..4)
    ) {
        let mut events = expect(&scenario, &host).events;
        damage(&mut events, &mishaps);
        let view = View::new(&scenario, &events);
        let written = serde_json::to_value(&view).unwrap();
        for tick in all_ticks() {
            prop_assert_eq!(serde_json::to_value(view.at(tick)).unwrap(), selected(&written, u64::from(tick.0)));
        }
    }
}

#[test]
fn the_opening_drill_at_some_ticks() {
    let scenario = scenarios::catalogue::get("ignored-signal").unwrap();
    let host = scenarios::Host { shell: scenarios::ShellBehaviour::Stays, custom: None };
    let events = expect(scenario, &host).events;
    let view = View::new(scenario, &events);
    let worker = |t| view.at(Tick(t)).workers[0].clone();

    assert_eq!((worker(39).state, worker(39).ready), (WorkerState::Starting, false));
    assert_eq!((worker(40).state, worker(40).ready), (WorkerState::Ready, true));
    let one = worker(50).in_flight[0];
    assert_eq!((one.request, one.slot, one.stage, one.from), (RequestId(3), 1, Some(Stage::Prepare), Tick(50)));
    // A third of 20 s is 6.67 s: the first tick after that.
    assert_eq!([116, 117].map(|t| worker(t).in_flight[0].stage), [Some(Stage::Prepare), Some(Stage::Model)]);
    assert_eq!((worker(399).alive, worker(399).in_flight.len()), (true, 4));
    assert_eq!((worker(400).state, worker(400).status), (WorkerState::Killed, Some(Status::SIGKILL)));
    assert!(!worker(400).alive && worker(400).in_flight.is_empty());

    let grace = view.grace.unwrap();
    assert_eq!((grace.worker, grace.from, grace.deadline), (WorkerId(1), Tick(300), Tick(400)));
    let last = view.at(Tick::END);
    assert_eq!((last.counts.arrivals, last.counts.completed, last.counts.killed), (20, 4, 4));
    assert_eq!((last.counts.rejected_percent, last.gate), (60.0, Some(scenarios::Gate::Fail)));
    assert_eq!(view.at(Tick(599)).gate, None);
    assert_eq!(last.store.iter().map(|row| row.sum).collect::<Vec<_>>(), [6, 7, 8, 9]);
    assert!(view.lanes[0].phases.iter().all(|phase| phase.from < phase.until && phase.until <= OPEN));
    insta::assert_json_snapshot!("view-of-a-short-drill", short());
}

/// Small enough to be read: two requests, one of them killed.
fn short() -> View {
    let settings = ["startup_s=1", "request_interval_s=20", "invocation_s=6", "signal_at_s=22", "grace_period_s=3"];
    let scenario = Scenario::new("short", "Two requests").with_settings(settings).unwrap();
    let host = scenarios::Host { shell: scenarios::ShellBehaviour::Stays, custom: None };
    View::new(&scenario, &expect(&scenario, &host).events)
}
