//! What the screen shows, and how keys, time and a drill that goes on change it. Pure.

use std::{collections::HashMap, path::PathBuf};

use scenarios::{Event, Expectation, Scenario, Tick, WorkerId, view::View};

use super::{keys::Ask, player::Player};
use crate::{
    compare::Identity,
    evidence::Snapshot,
    failure::Failure,
    record::{Attempt, Observed, Record},
    stream::{Message, Progress},
};

/// Which trace the lanes show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// What the model expects.
    Expected,
    /// What the processes did.
    Observed,
    /// What the processes did, and below it what was expected where that differs.
    Both,
}

/// Which decisions are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Everything but the stages of invocations.
    Usual,
    /// Everything.
    All,
    /// Workers and signals.
    Workers,
    /// What the chosen worker is concerned in.
    Chosen,
    /// What is not as expected.
    Different,
}

impl Filter {
    const ALL: [Filter; 5] = [Filter::Usual, Filter::All, Filter::Workers, Filter::Chosen, Filter::Different];

    /// What it lets through, in a word or two.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Filter::Usual => "all but stages",
            Filter::All => "all",
            Filter::Workers => "workers, signals",
            Filter::Chosen => "chosen worker",
            Filter::Different => "not as expected",
        }
    }
}

/// What stands below the lanes where there is no room for all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    /// The list of decisions.
    Decisions,
    /// The chosen worker.
    Worker,
    /// What the drill came to, and where the signal went.
    Result,
}

/// One trace, laid out.
#[derive(Clone, Debug)]
pub struct Traced {
    /// In trace order.
    pub events: Vec<Event>,
    /// By tick.
    pub view: View,
}

impl Traced {
    fn new(scenario: &Scenario, mut events: Vec<Event>, until: Option<Tick>) -> Traced {
        events.sort_by_key(Event::order);
        let view = match until {
            None => View::new(scenario, &events),
            Some(until) => View::until(scenario, &events, until),
        };
        Traced { events, view }
    }
}

/// A change from outside.
#[derive(Debug)]
pub enum Input {
    /// A person asks for something.
    Ask(Ask),
    /// It is this late, in nanoseconds of CLOCK_MONOTONIC.
    Time(u64),
    /// A drill tells what happened, at this time.
    Message(Message, u64),
    /// The drill can't be heard any more.
    Over,
}

/// All that is shown.
#[derive(Clone, Debug)]
pub struct State {
    /// What is drilled, or was.
    pub scenario: Scenario,
    /// Time.
    pub player: Player,
    /// What was expected; none before that is known.
    pub expected: Option<Traced>,
    /// What was observed; none where nothing is drilled.
    pub observed: Option<Traced>,
    /// What the drill came to; none before that is known.
    pub record: Option<Record>,
    /// Where the run is stored.
    pub stored_in: Option<PathBuf>,
    /// What a drill that goes on told so far.
    pub progress: Option<Progress>,
    /// Why there is none to tell of: it could not be run.
    pub failure: Option<Failure>,
    /// Which trace the lanes show.
    pub shown: Shown,
    /// Which decisions are listed.
    pub filter: Filter,
    /// Which pane is shown where there is no room for all.
    pub pane: Pane,
    /// Whether the keys are shown.
    pub help: bool,
    /// By how many rows the lanes are scrolled beyond where the chosen worker begins.
    pub scrolled: usize,
    /// By how many lines the text below the lanes is scrolled.
    pub read: usize,
    /// Whether a person wants to leave.
    pub leaving: bool,
    chosen: usize,
    /// What was observed since the trace was laid out.
    heard: Vec<Event>,
    /// Every event that was expected, to tell which is not.
    identities: HashMap<Identity, Event>,
}

impl State {
    /// Of what the model expects, with no processes, at `speed` model seconds per real second.
    #[must_use]
    pub fn of_model(scenario: Scenario, expected: &Expectation, speed: f64) -> State {
        let mut state = State::empty(scenario, Player::new(speed));
        state.expect(expected);
        state.shown = Shown::Expected;
        state
    }

    /// Of a stored run, replayed at `speed` model seconds per real second.
    #[must_use]
    pub fn of_run(record: Record, stored_in: PathBuf, speed: f64) -> State {
        let mut state = State::empty(record.scenario.clone(), Player::new(speed));
        state.expect(&record.expected);
        state.settle(record);
        state.stored_in = Some(stored_in);
        state
    }

    /// Of a drill that is about to begin at `speed` model seconds per real second.
    #[must_use]
    pub fn of_drill(scenario: Scenario, speed: f64) -> State {
        let progress = Progress::new(&scenario);
        let mut player = Player::new(speed);
        player.begin(Some(speed));
        State { progress: Some(progress), ..State::empty(scenario, player) }
    }

    fn empty(scenario: Scenario, player: Player) -> State {
        State {
            scenario,
            player,
            expected: None,
            observed: None,
            record: None,
            stored_in: None,
            progress: None,
            failure: None,
            shown: Shown::Observed,
            filter: Filter::Usual,
            pane: Pane::Decisions,
            help: false,
            scrolled: 0,
            read: 0,
            leaving: false,
            chosen: 0,
            heard: Vec::new(),
            identities: HashMap::new(),
        }
    }

    fn expect(&mut self, expected: &Expectation) {
        self.identities = expected.events.iter().map(|event| (Identity::of(&event.kind), *event)).collect();
        self.expected = Some(Traced::new(&self.scenario, expected.events.clone(), None));
    }

    /// A drill is decided: what its last attempt came to is shown.
    fn settle(&mut self, record: Record) {
        self.observed = record.attempts.last().map(|last| {
            let events = last.events.iter().map(|observed| observed.event).collect();
            Traced::new(&self.scenario, events, last.cut_off_at)
        });
        self.shown = match record.attempts.last() {
            None => Shown::Expected,
            Some(last) if last.difference.is_some() => Shown::Both,
            Some(_) => Shown::Observed,
        };
        self.record = Some(record);
        self.heard.clear();
    }

    /// Changes what is shown.
    pub fn update(&mut self, input: Input) {
        match input {
            Input::Ask(ask) => self.ask(ask),
            Input::Time(now_ns) => {
                self.player.pass(now_ns);
                self.lay_out();
            }
            Input::Message(message, now_ns) => self.hear(message, now_ns),
            Input::Over => {
                self.player.end();
                if let Some(progress) = self.progress.take() {
                    self.failure = progress.failure;
                    if self.record.is_none() {
                        self.stored_in = progress.stored_in;
                        self.settle(progress.record);
                    }
                }
            }
        }
    }

    /// Lays out what was heard since the last time: once for all that came together.
    fn lay_out(&mut self) {
        if self.heard.is_empty() {
            return;
        }
        let mut events = self.observed.take().map_or_else(Vec::new, |traced| traced.events);
        events.append(&mut self.heard);
        self.observed = Some(Traced::new(&self.scenario, events, Some(self.player.limit())));
    }

    fn ask(&mut self, ask: Ask) {
        // With the help open, a key only closes it.
        if self.help && ask != Ask::Quit {
            self.help = false;
            return;
        }
        match ask {
            Ask::Toggle => self.player.toggle(),
            Ask::StepSecond => self.player.step(10),
            Ask::StepTick => self.player.step(1),
            Ask::StepBack => self.player.step(-10),
            Ask::TickBack => self.player.step(-1),
            Ask::Restart => self.player.restart(),
            Ask::End => self.player.to_end(),
            Ask::Faster => self.player.change_speed(true),
            Ask::Slower => self.player.change_speed(false),
            Ask::NextWorker => self.choose(self.chosen + 1),
            Ask::PreviousWorker => self.choose(self.chosen + self.workers().len().max(1) - 1),
            Ask::ScrollDown => self.scrolled += SCROLL,
            Ask::ScrollUp => self.scrolled = self.scrolled.saturating_sub(SCROLL),
            Ask::ReadOn => self.read += SCROLL,
            Ask::ReadBack => self.read = self.read.saturating_sub(SCROLL),
            Ask::Overlay => {
                self.shown = match (self.shown, self.observed.is_some()) {
                    (_, false) => Shown::Expected,
                    (Shown::Expected, _) => Shown::Observed,
                    (Shown::Observed, _) => Shown::Both,
                    (Shown::Both, _) => Shown::Expected,
                }
            }
            Ask::Filter => {
                let place = Filter::ALL.iter().position(|&filter| filter == self.filter).unwrap_or(0);
                self.filter = Filter::ALL[(place + 1) % Filter::ALL.len()];
            }
            Ask::Pane => {
                self.read = 0;
                self.pane = match self.pane {
                    Pane::Decisions => Pane::Worker,
                    Pane::Worker => Pane::Result,
                    Pane::Result => Pane::Decisions,
                }
            }
            Ask::Help => self.help = true,
            Ask::Quit => self.leaving = true,
        }
    }

    fn choose(&mut self, place: usize) {
        self.chosen = place % self.workers().len().max(1);
        (self.scrolled, self.read) = (0, 0);
    }

    fn hear(&mut self, message: Message, now_ns: u64) {
        match &message {
            Message::Stored(run) => self.stored_in = Some(run.clone()),
            Message::Expected(expected) => {
                let expected = expected.clone();
                self.expect(&expected);
            }
            Message::Began { speed, .. } => {
                self.player.begin(*speed);
                self.observed = None;
                self.heard.clear();
            }
            Message::Observed(observed) => {
                self.player.heard(observed.event.t, observed.at_us, now_ns);
                self.heard.push(observed.event);
            }
            Message::Decided { .. } => (self.pane, self.read) = (Pane::Result, 0),
            Message::Ended(_) | Message::Repeated(_) | Message::Failed { .. } => {}
        }
        if let Some(progress) = &mut self.progress {
            let decided = matches!(message, Message::Decided { .. });
            progress.hear(message);
            if decided {
                let record = progress.record.clone();
                self.settle(record);
                self.player.end();
            }
        }
    }

    /// The trace that the panes tell of: what was observed, or what is expected where nothing is drilled or that is
    /// what is shown.
    #[must_use]
    pub fn told(&self) -> Option<&Traced> {
        match self.shown {
            Shown::Expected => self.expected.as_ref(),
            Shown::Observed | Shown::Both => self.observed.as_ref(),
        }
    }

    /// How far anything is known of a trace. Of a drill that goes on that is where it is now.
    #[must_use]
    pub fn known_until(&self, traced: &Traced) -> Tick {
        if self.player.is_live() { self.player.limit() } else { traced.view.known_until }
    }

    /// The workers that are shown, by number, whether they have been started or not.
    #[must_use]
    pub fn workers(&self) -> Vec<WorkerId> {
        let views = [&self.expected, &self.observed].into_iter().flatten();
        let mut workers: Vec<WorkerId> =
            views.flat_map(|traced| traced.view.lanes.iter().map(|lane| lane.worker)).collect();
        workers.sort_unstable();
        workers.dedup();
        workers
    }

    /// The worker that is chosen.
    #[must_use]
    pub fn chosen(&self) -> Option<WorkerId> {
        self.workers().get(self.chosen).copied()
    }

    /// The attempt that the observed trace is of, once it is over.
    #[must_use]
    pub fn attempt(&self) -> Option<&Attempt> {
        self.record.as_ref()?.attempts.last()
    }

    /// What is observed, as it was heard or stored.
    #[must_use]
    pub fn observed_events(&self) -> &[Observed] {
        match (&self.record, &self.progress) {
            (None, Some(progress)) => &progress.observed,
            _ => self.attempt().map_or(&[], |attempt| &attempt.events),
        }
    }

    /// What was expected instead of an observed event; `None` where it is as expected.
    #[must_use]
    pub fn instead(&self, event: &Event) -> Option<String> {
        if self.shown == Shown::Expected || self.identities.is_empty() {
            return None;
        }
        match self.identities.get(&Identity::of(&event.kind)) {
            Some(expected) if expected == event => None,
            Some(expected) if expected.kind == event.kind => Some(format!("expected at {} s", expected.t)),
            Some(expected) => Some(format!("expected at {} s: {}", expected.t, expected.kind)),
            None => Some("not expected".to_owned()),
        }
    }

    /// The last look at the processes of the worker that was told to stop that was taken by `tick`.
    #[must_use]
    pub fn snapshot(&self, tick: Tick) -> Option<&Snapshot> {
        let attempt = self.attempt().filter(|_| self.shown != Shown::Expected)?;
        // On a stepped clock microseconds are those of the model.
        let model_us = |at_us: i64| at_us as f64 * attempt.speed.unwrap_or(1.0);
        let until_us = f64::from(tick.0 + 1) * 100_000.0;
        attempt.evidence.as_ref()?.snapshots().filter(|snapshot| model_us(snapshot.at_us) < until_us).last()
    }
}

/// How many rows are scrolled by at once.
const SCROLL: usize = 6;
