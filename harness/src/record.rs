//! What is known of a drill that was run: observed events, each attempt at it, and the verdict.
//!
//! Comparison, reports and every screen take these and nothing else, so live, stored and replayed runs go one way.

use scenarios::{Event, Expectation, Outcome, Scenario, Tick};
use serde::{Deserialize, Serialize};

use crate::evidence::{Evidence, Explanation};

/// An event as it was observed, with what the model knows nothing of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// What happened, at the tick in which it happened.
    #[serde(flatten)]
    pub event: Event,
    /// When it really happened, in microseconds after the drill's start; negative for what came before it.
    pub at_us: i64,
    /// How much later than planned it happened, in microseconds; 0 where nothing was planned.
    pub late_us: u64,
    /// The process that it is about, as the drill's PID namespace numbers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// What else is worth knowing, such as a commit that was never acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The part of a tick that something had to happen in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A worker's process comes to life.
    Start,
    /// Stage boundaries and commits, by the workers.
    Completion,
    /// Boots that end.
    Boot,
    /// SIGTERM and what it does at once.
    Signal,
    /// SIGKILL and what it does at once.
    Kill,
    /// The exit of a worker that has drained.
    Exit,
    /// Admissions and rejections.
    Admission,
}

impl Part {
    /// What happens in it, in the plural.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Part::Start => "starts",
            Part::Completion => "completions",
            Part::Boot => "boots",
            Part::Signal => "SIGTERM",
            Part::Kill => "SIGKILL",
            Part::Exit => "exits",
            Part::Admission => "admissions",
        }
    }
}

/// How late things of one part were, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Which part of the tick.
    pub part: Part,
    /// How many things happened in it.
    pub count: u32,
    /// The median lateness.
    pub median_us: u64,
    /// The worst lateness.
    pub worst_us: u64,
    /// What was allowed to the one that came closest to its limit, or went furthest beyond it: with all of that the next
    /// part has begun.
    pub allowed_us: u64,
    /// The lateness of that one.
    pub closest_us: u64,
}

impl Lateness {
    /// Whether everything of the part was in time.
    #[must_use]
    pub fn within_bounds(&self) -> bool {
        self.closest_us < self.allowed_us || self.closest_us == 0
    }
}

/// How soon the processes of the worker that was told to stop reacted to signals, in real microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reactions {
    /// From sending SIGTERM to the worker's withdrawal of its readiness, by its own stamp; none where it did not do that.
    pub sigterm_handled_us: Option<u64>,
    /// From sending SIGKILL to reaping the process that got it; none where none was sent.
    pub sigkill_reaped_us: Option<u64>,
}

/// What a drill came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All that happened is what the model expected.
    Matched,
    /// Something else happened, and happened again at a lower speed with lateness within bounds.
    Diverged,
    /// The machine was too slow, or a needed facility is missing.
    Inconclusive,
}

impl Verdict {
    /// The exit status that tells it: 0 matched, 1 diverged, 3 inconclusive.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Verdict::Matched => 0,
            Verdict::Diverged => 1,
            Verdict::Inconclusive => 3,
        }
    }
}

/// The first place at which model and processes differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The tick of the earlier of the two.
    pub t: Tick,
    /// What the model expected there, or null where something happened that it did not expect.
    pub expected: Option<Event>,
    /// What was observed instead: the same event at another tick or with other particulars, or else what befell the
    /// same request or worker; null where there is nothing of the kind.
    pub observed: Option<Observed>,
    /// What differs, in one sentence.
    pub what: String,
    /// Why, where evidence tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// One attempt at a drill, at one speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Model seconds in one real second; none on a stepped clock, where they take as long as the work in them.
    pub speed: Option<f64>,
    /// How long it took, in real milliseconds.
    pub wall_ms: u64,
    /// The tick of the last thing that was seen, where it was stopped before its end or broke off, on a problem or with the
    /// harness: nothing is known of what was due later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_off_at: Option<Tick>,
    /// What happened, in trace order.
    pub events: Vec<Observed>,
    /// What came of it.
    pub outcome: Outcome,
    /// How late things were, by part of the tick.
    pub lateness: Vec<Lateness>,
    /// Where it differs from the model, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    /// Why the attempt says nothing, whatever it showed: a facility that is missing or broke.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// What else is worth telling: leaked processes, commits that were never acknowledged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// What is known of the processes of the worker that was told to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// Where the signal went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
}

impl Attempt {
    /// Whether everything happened within its part of the tick.
    #[must_use]
    pub fn in_time(&self) -> bool {
        self.lateness.iter().all(Lateness::within_bounds)
    }
}

/// The tick of the last of `events`, which can be in any order.
#[must_use]
pub fn last_seen(events: &[Observed]) -> Tick {
    events.iter().map(|observed| observed.event.t).max().unwrap_or(Tick::START)
}

/// A drill, run: the scenario, what was expected, every attempt and the verdict on the last of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// What was drilled.
    pub scenario: Scenario,
    /// What the model expected.
    pub expected: Expectation,
    /// Every attempt in order; the last one counts. Empty where none could be made.
    pub attempts: Vec<Attempt>,
    /// What it came to.
    pub verdict: Verdict,
    /// Why it is not `matched`, or what a person should know although it is; whole sentences.
    pub reasons: Vec<String>,
}
