//! Snapshots of the screen at several sizes, and what must hold at every size and time.

use proptest::prelude::*;
use ratatui::{Terminal, backend::TestBackend};
use scenarios::{Event, EventKind, Host, Outcome, Scenario, ShellBehaviour, Status, Tick, catalogue, expect, random};

use super::*;
use crate::{
    compare::first_difference,
    failure::Failure,
    record::{Attempt, Observed, Record, Verdict},
    stream::Message,
    watch::{keys::Ask, state::Input},
};

const HOST: Host = Host { shell: ShellBehaviour::Stays, custom: None };
const LOOK: Look = Look { ascii: false, colour: false };

fn screen(state: &State, look: Look, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame.buffer_mut(), state, look)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned() + "\n";
    (0..height).map(row).collect()
}

fn scenario(name: &str) -> Scenario {
    catalogue::get(name).unwrap().clone()
}

/// A run whose processes did what `change` makes of what was expected.
fn run(scenario: &Scenario, change: impl Fn(&mut Vec<Event>)) -> Record {
    let expected = expect(scenario, &HOST);
    let mut events = expected.events.clone();
    change(&mut events);
    let outcome = Outcome::of(scenario, &events);
    let observed = |event: Event| Observed { at_us: i64::from(event.t.0) * 10_000, ..heard(event) };
    let events: Vec<Observed> = events.into_iter().map(observed).collect();
    let difference = first_difference(&expected.events, &events);
    let verdict = if difference.is_some() { Verdict::Diverged } else { Verdict::Matched };
    let attempt = Attempt {
        speed: Some(10.0),
        wall_ms: 6_000,
        cut_off_at: None,
        events,
        outcome,
        lateness: Vec::new(),
        difference,
        problems: Vec::new(),
        remarks: Vec::new(),
        evidence: None,
        explanation: None,
    };
    Record { scenario: scenario.clone(), expected, attempts: vec![attempt], verdict, reasons: Vec::new() }
}

fn heard(event: Event) -> Observed {
    Observed { event, at_us: 0, late_us: 0, pid: Some(4), note: None }
}

fn replay(record: Record) -> State {
    State::of_run(record, "runs/20260102-030405".into(), 10.0)
}

fn at(mut state: State, tick: u32) -> State {
    state.player.step(-600);
    state.player.step(tick.cast_signed());
    state
}

/// Worker 1 was killed one tick early.
fn diverged() -> Record {
    run(&scenario("ignored-signal"), |events| {
        for event in events.iter_mut() {
            let at_the_end = matches!(
                event.kind,
                EventKind::SigkillSent { .. }
                    | EventKind::InvocationKilled { .. }
                    | EventKind::WorkerExited { status: Status::SIGKILL, .. }
            );
            event.t.0 -= u32::from(at_the_end);
        }
    })
}

#[test]
fn a_run_in_its_grace_period() {
    let state = at(replay(run(&scenario("ignored-signal"), |_| ())), 331);
    for (width, height) in [(120, 40), (80, 24), (40, 24)] {
        insta::assert_snapshot!(format!("grace-{width}x{height}"), screen(&state, LOOK, width, height));
    }
    let ascii = screen(&state, Look { ascii: true, ..LOOK }, 80, 24);
    assert!(ascii.is_ascii(), "{ascii}");
    insta::assert_snapshot!("grace-80x24-ascii", ascii);
}

#[test]
fn a_run_that_diverged_at_its_end() {
    let state = at(replay(diverged()), 600);
    assert_eq!(state.shown, Shown::Both, "what differs is shown at once");
    insta::assert_snapshot!("diverged-120x40", screen(&state, LOOK, 120, 40));
}

const MORE: &str = " … f b ─";

/// Many differences, of which there is no room for all.
#[test]
fn all_that_a_run_came_to_can_be_read() {
    let mut state = at(replay(diverged()), 600);
    state.update(Input::Ask(Ask::Pane));
    state.update(Input::Ask(Ask::Pane));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Beside it stand the decisions.
    let pane = |state: &State| -> String {
        let text = screen(state, LOOK, 80, 24);
        let right = |line: &str| line.chars().skip(40).collect::<String>() + "\n";
        text.lines().skip_while(|line| !line.contains(" Result ")).map(right).collect()
    };
    let first = pane(&state);
    assert!(first.starts_with(" Result 1-") && first.contains(MORE), "{first}");
    let mut seen = words(&first);
    loop {
        state.update(Input::Ask(Ask::ReadOn));
        let next = pane(&state);
        seen.push_str(&words(&next));
        if !next.contains(MORE) {
            break;
        }
    }
    for part in [
        "✘ DIVERGED",
        "gate FAIL",
        "2/6 worker-1 was expected",
        "6/6 request-16",
        "requests 20 arrived",
        "stored runs/",
    ] {
        assert!(seen.contains(part), "{part} is not there: {seen}");
    }
    while state.read > 0 {
        state.update(Input::Ask(Ask::ReadBack));
    }
    assert_eq!(pane(&state), first);
    // The gate comes before what else differs.
    let large = screen(&state, LOOK, 120, 60);
    assert!(large.find("gate      FAIL").unwrap() < large.find("2/6").unwrap(), "{large}");
    let ascii = screen(&state, Look { ascii: true, ..LOOK }, 80, 24);
    assert!(ascii.is_ascii() && ascii.contains("... f b -"), "{ascii}");
}

/// A run that broke off at 20 s, in the middle of four invocations.
#[test]
fn nothing_is_drawn_of_what_was_never_observed() {
    let mut record = run(&scenario("ignored-signal"), |events| events.retain(|event| event.t <= Tick(200)));
    record.attempts[0].cut_off_at = Some(Tick(200));
    let state = |tick| {
        let mut state = at(replay(record.clone()), tick);
        state.shown = Shown::Observed;
        state
    };
    let lanes = |tick| {
        let text = screen(&state(tick), LOOK, 120, 40);
        let lines = text.lines().skip(3).take_while(|line| !line.contains("Decisions"));
        lines.map(|line| line.trim_end_matches(['│', ' ']).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(lanes(600), lanes(200));
    assert!(screen(&state(600), LOOK, 120, 40).contains("known     until 20.0 s"));
    assert!(!screen(&state(200), LOOK, 120, 40).contains("known     until"));
}

#[test]
fn letters_of_two_columns_leave_the_time_alone() {
    for title in ["試験".repeat(30), "a".repeat(60), "e\u{301}".repeat(60), "試".repeat(12)] {
        let mut record = run(&scenario("ignored-signal"), |_| ());
        record.scenario.title.clone_from(&title);
        let state = at(replay(record), 331);
        for width in 40..=100 {
            let mut terminal = Terminal::new(TestBackend::new(width, 24)).unwrap();
            terminal.draw(|frame| draw(frame.buffer_mut(), &state, LOOK)).unwrap();
            let buffer = terminal.backend().buffer();
            let cells: Vec<&str> = (0..width).map(|x| buffer[(x, 0)].symbol()).collect();
            let right = "33.1 s Ⅱ paused ✔ matched";
            let place = usize::from(width) - right.chars().count();
            assert_eq!(cells[place..].concat(), right, "{title} on {width} columns");
            assert_eq!(cells[place - 1], " ", "{title} on {width} columns");
            let shown = cells[..place].concat();
            let whole = shown.replace(' ', "").ends_with(&title) || shown.trim_end() == "ignored-signal";
            assert!(whole || shown.contains('…'), "{title} on {width}: {shown}");
        }
    }
}

#[test]
fn what_the_model_expects_of_two_workers() {
    let scenario = scenario("replacement");
    let expected = expect(&scenario, &HOST);
    let mut state = at(State::of_model(scenario, &expected, 10.0), 345);
    state.update(Input::Ask(Ask::NextWorker));
    insta::assert_snapshot!("model-100x30", screen(&state, LOOK, 100, 30));
}

#[test]
fn a_drill_that_goes_on() {
    let scenario = scenario("handler-grace-10");
    let expected = expect(&scenario, &HOST);
    let mut state = State::of_drill(scenario, 10.0);
    insta::assert_snapshot!("drill-begins-80x24", screen(&state, LOOK, 80, 24));
    state.update(Input::Message(Message::Expected(expected.clone()), 0));
    state.update(Input::Message(Message::Began { attempt: 1, speed: Some(10.0) }, 0));
    for event in expected.events.iter().filter(|event| event.t <= Tick(120)) {
        let observed = Observed { at_us: i64::from(event.t.0) * 10_000, ..heard(*event) };
        state.update(Input::Message(Message::Observed(observed), u64::from(event.t.0) * 10_000_000));
    }
    state.update(Input::Time(1_250_000_000));
    insta::assert_snapshot!("drill-80x24", screen(&state, LOOK, 80, 24));
    state.update(Input::Ask(Ask::StepBack));
    let behind = screen(&state, LOOK, 80, 24);
    assert!(behind.contains("11.5 s Ⅱ behind"), "{behind}");
    // It ends without a word.
    state.update(Input::Over);
    assert!(screen(&state, LOOK, 80, 24).contains("? inconclusive"));
}

#[test]
fn why_a_drill_can_not_be_run_is_kept() {
    let mut state = State::of_drill(scenario("ignored-signal"), 10.0);
    let failed = Message::Failed { what: "no home".to_owned(), next_step: Some("set HOME".to_owned()), exit_code: 2 };
    state.update(Input::Message(failed, 0));
    state.update(Input::Over);
    assert_eq!(state.failure, Some(Failure::bad_input("no home").hint("set HOME")));
}

#[test]
fn the_help_and_a_screen_that_is_too_small() {
    let mut state = at(replay(run(&scenario("ignored-signal"), |_| ())), 100);
    state.update(Input::Ask(Ask::Help));
    insta::assert_snapshot!("help-80x24", screen(&state, LOOK, 80, 24));
    for (width, height) in [(40, 12), (80, 10)] {
        let low = screen(&state, LOOK, width, height).replace(['│', '\n'], " ");
        let words = low.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["q Esc ^C quit", "v another pane", "e expected, observed, both", "space play, pause"] {
            assert!(words.contains(part), "{part} is not there on {width}×{height}: {low}");
        }
    }
    let small = screen(&state, LOOK, 39, 9).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(small, "too small: 39×9, 40×10 is needed; q quits");
    let ascii = Look { ascii: true, ..LOOK };
    assert!([screen(&state, ascii, 39, 9), screen(&state, ascii, 80, 24)].iter().all(|text| text.is_ascii()));
    state.update(Input::Ask(Ask::StepTick));
    assert!(!state.help, "any key closes it");
}

#[test]
fn sixty_four_workers_scroll() {
    let mut large = Scenario::new("large", "Large");
    (large.initial_workers, large.slots_per_worker) = (64, 64);
    large.request_interval_s = scenarios::Span(1);
    let expected = expect(&large, &HOST);
    let mut state = at(State::of_model(large, &expected, 10.0), 300);
    for _ in 0..63 {
        state.update(Input::Ask(Ask::NextWorker));
    }
    let last = screen(&state, LOOK, 80, 24);
    assert!(last.contains("worker-64"), "{last}");
    state.update(Input::Ask(Ask::NextWorker));
    assert!(screen(&state, LOOK, 80, 24).contains("worker-1 "), "the first comes after the last");
    state.update(Input::Ask(Ask::ScrollDown));
    assert!(!screen(&state, LOOK, 80, 24).contains("worker-1 ┄"), "its slots can be looked at");
}

#[test]
fn the_overlay_shows_what_was_expected_only_where_it_differs() {
    let state = at(replay(diverged()), 450);
    let text = screen(&state, LOOK, 120, 40);
    assert_eq!(text.matches("\n expected").count(), 5, "the life of the worker and its four slots\n{text}");
    assert!(text.contains("≠ SIGKILL is sent to worker-1, ex"), "{text}");
    let same = at(replay(run(&scenario("ignored-signal"), |_| ())), 450);
    assert!(!screen(&same, LOOK, 120, 40).contains("\n expected"));
}

#[test]
fn colours_are_left_out_where_they_are_not_wanted() {
    let state = at(replay(diverged()), 450);
    for colour in [true, false] {
        let mut terminal = Terminal::new(TestBackend::new(120, 40)).unwrap();
        terminal.draw(|frame| draw(frame.buffer_mut(), &state, Look { ascii: false, colour })).unwrap();
        let cells = terminal.backend().buffer().content();
        assert_eq!(cells.iter().any(|cell| cell.fg != Color::Reset), colour);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every scenario is drawn at every size and time, whatever is asked for.
    #[test]
    fn nothing_panics(seed in any::<u64>(), tick in 0..=600u32, width in 1..200u16, height in 1..60u16, asked in 0..12usize) {
        let scenario = random::scenario(seed, 0);
        let mut state = at(replay(run(&scenario, |events| events.truncate(events.len() * 2 / 3))), tick);
        let asks = [Ask::NextWorker, Ask::ScrollDown, Ask::Overlay, Ask::Filter, Ask::Pane, Ask::Overlay, Ask::Filter,
            Ask::Filter, Ask::Pane, Ask::StepSecond, Ask::Help, Ask::PreviousWorker];
        for ask in asks.into_iter().take(asked) {
            state.update(Input::Ask(ask));
            screen(&state, LOOK, width, height);
        }
    }
}
