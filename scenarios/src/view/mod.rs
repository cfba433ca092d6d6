//! Everything that a screen draws of one trace, laid out by tick: lanes, store, decisions and counts. Pure.
//!
//! A screen interprets nothing. It shows the state at the end of a tick by selecting from a [`View`] by these rules, and
//! by no others; [`View::at`] applies them, and a test holds them against a fold of the events.
//!
//! - A phase, an invocation or a stage covers tick `t` if `from_tick <= t < until_tick`. What goes on when the drill ends
//!   has an `until_tick` of [`OPEN`], beyond its last tick.
//! - A mark, a rejection, a row of the store and a decision are shown from their `tick` on: if `tick <= t`. All these
//!   lists are in the order of the trace, so what is shown is always the beginning of the list.
//! - Of the counts, the last entry with `tick <= t` holds; before the first one all of them are 0.
//! - The gate holds from its `tick` on, which is the last of the drill. It is shown from then on, or all the time beside the
//!   counts of the end.
//!
//! In JSON every tick is an integer count of 0.1 model seconds, and its field is called `tick` or `…_tick`; a `t`
//! elsewhere is in model seconds.

mod build;
mod frame;

use serde::{Serialize, Serializer};

use crate::{
    Gate, Reason, RequestId, Scenario, Stage, Status, Tick, WorkerId,
    event::Event,
    outcome::{Outcome, WorkerState},
};

pub use frame::{Frame, InFlight, WorkerFrame};

/// Where everything ends that goes on when the drill ends: the tick after its last one.
pub const OPEN: Tick = Tick(Tick::END.0 + 1);

/// All that a screen draws of one trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View {
    /// The tick up to which the trace is known; the last one of the drill unless it goes on or was cut off. What has not
    /// ended by then is drawn up to here.
    #[serde(rename = "known_until_tick", serialize_with = "ticks")]
    pub known_until: Tick,
    /// A lane for each worker, by number.
    pub lanes: Vec<Lane>,
    /// The grace period of the worker that was sent SIGTERM; none where SIGTERM was sent to nobody.
    pub grace: Option<Grace>,
    /// The requests that nobody took. Shown from `tick` on.
    pub rejections: Vec<Rejection>,
    /// The result store: what was committed, in the order of the commits. Shown from `tick` on.
    pub store: Vec<StoreRow>,
    /// Every event of the trace, as a line to read. Shown from `tick` on.
    pub decisions: Vec<Decision>,
    /// What was counted so far. The last entry with `tick <= t` holds.
    pub counts: Vec<Counts>,
    /// The gate; none for a trace that does not reach the end of the drill. Holds from `tick` on.
    pub gate: Option<GateShown>,
}

/// One worker's life.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lane {
    /// Whose.
    pub worker: WorkerId,
    /// What it was, phase by phase without a gap from its start on, its end included. Covers `from_tick..until_tick`.
    pub phases: Vec<Phase>,
    /// The slots that were used, by number; a slot that never held an invocation is left out.
    pub slots: Vec<Slot>,
    /// What happened to it at one moment. Shown from `tick` on.
    pub marks: Vec<Mark>,
    /// Its last state; none for a worker that was never seen to start.
    pub state: Option<WorkerState>,
    /// How its top ended, as a platform sees it.
    pub status: Option<Status>,
}

/// A worker in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// The state.
    pub state: WorkerState,
    /// Whether its process lives; an orphan is `orphaned` alive, and then not.
    pub alive: bool,
    /// Whether the router may choose it.
    pub ready: bool,
    /// How its top ended; null while it lives.
    pub status: Option<Status>,
    /// The first tick at whose end it was so.
    #[serde(rename = "from_tick", serialize_with = "ticks")]
    pub from: Tick,
    /// The first tick at whose end it was so no more.
    #[serde(rename = "until_tick", serialize_with = "ticks")]
    pub until: Tick,
}

/// One of a worker's slots.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slot {
    /// Its number, from 1 on.
    pub slot: u8,
    /// The invocations that it held, one after the other. Each covers `from_tick..until_tick`.
    pub invocations: Vec<Invocation>,
}

/// What a worker did for a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Invocation {
    /// Which request.
    pub request: RequestId,
    /// When it was admitted.
    #[serde(rename = "from_tick", serialize_with = "ticks")]
    pub from: Tick,
    /// When it was committed or killed; it is not in flight any more at the end of that tick.
    #[serde(rename = "until_tick", serialize_with = "ticks")]
    pub until: Tick,
    /// Its stages, one after the other. Each covers `from_tick..until_tick`.
    pub stages: Vec<StageSpan>,
    /// How it ended.
    pub end: End,
    /// The sum that it committed; null where it did not.
    pub sum: Option<u32>,
}

/// How an invocation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Its result was committed.
    Committed,
    /// It ended with its worker, without a result.
    Killed,
    /// It had not ended when the trace did.
    Running,
}

/// An invocation in one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StageSpan {
    /// Which stage.
    pub stage: Stage,
    /// When it was entered.
    #[serde(rename = "from_tick", serialize_with = "ticks")]
    pub from: Tick,
    /// When the next one was entered, or the invocation ended.
    #[serde(rename = "until_tick", serialize_with = "ticks")]
    pub until: Tick,
}

/// Something that happened to a worker.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// When.
    #[serde(serialize_with = "ticks")]
    pub tick: Tick,
    /// What, by the name of the event: `worker_started`, `worker_ready`, `worker_failed`, `sigterm_sent`,
    /// `sigterm_skipped`, `readiness_withdrawn`, `sigterm_ignored`, `sigkill_sent`, `worker_exited`, `worker_orphaned` or
    /// `orphan_exited`.
    pub event: &'static str,
    /// A line to read.
    pub text: String,
}

/// The grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Grace {
    /// Of the worker that was sent SIGTERM.
    pub worker: WorkerId,
    /// When that was.
    #[serde(rename = "from_tick", serialize_with = "ticks")]
    pub from: Tick,
    /// The deadline, at which SIGKILL follows if the worker is still there.
    #[serde(rename = "deadline_tick", serialize_with = "ticks")]
    pub deadline: Tick,
}

/// A request that nobody took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rejection {
    /// When it arrived.
    #[serde(serialize_with = "ticks")]
    pub tick: Tick,
    /// Which.
    pub request: RequestId,
    /// Why nobody took it.
    pub reason: Reason,
    /// The worker that refused it, if it came to that.
    pub worker: Option<WorkerId>,
}

/// A committed result. It stays when its worker has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StoreRow {
    /// When it was committed.
    #[serde(serialize_with = "ticks")]
    pub tick: Tick,
    /// Whose result it is.
    pub request: RequestId,
    /// The result.
    pub sum: u32,
    /// Who committed it.
    pub worker: WorkerId,
}

/// An event, to be read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// When it happened.
    #[serde(serialize_with = "ticks")]
    pub tick: Tick,
    /// The step of the tick that it belongs to, 1..=4.
    pub step: u8,
    /// Its name in the trace.
    pub event: &'static str,
    /// A line to read.
    pub text: String,
    /// The worker that it is about, if it is about one.
    pub worker: Option<WorkerId>,
    /// The request that it is about, if it is about one.
    pub request: Option<RequestId>,
}

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counts {
    /// The tick from which on these hold.
    #[serde(serialize_with = "ticks")]
    pub tick: Tick,
    /// Requests that arrived.
    pub arrivals: u16,
    /// Requests that a worker took.
    pub admitted: u16,
    /// Requests that nobody took.
    pub rejected: u16,
    /// Results that were committed.
    pub completed: u16,
    /// Invocations that ended with their worker.
    pub killed: u16,
    /// Invocations that are neither committed nor killed yet.
    pub in_flight: u16,
    /// Rejected per arrivals in percent, rounded to one decimal.
    pub rejected_percent: f64,
}

/// The gate, when it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GateShown {
    /// The tick from which on it is known: the last of the drill.
    #[serde(serialize_with = "ticks")]
    pub tick: Tick,
    /// What it says.
    pub gate: Gate,
}

impl View {
    /// The view of a whole drill, whose events must be in trace order.
    #[must_use]
    pub fn new(scenario: &Scenario, events: &[Event]) -> View {
        let mut view = View::until(scenario, events, Tick::END);
        view.gate = Some(GateShown { tick: Tick::END, gate: Outcome::of(scenario, events).gate });
        view
    }

    /// The view of a drill that is known up to a tick only, because it goes on or was cut off. It has no gate. What
    /// was seen after the last tick of a drill is shown at that tick.
    #[must_use]
    pub fn until(scenario: &Scenario, events: &[Event], known_until: Tick) -> View {
        build::build(scenario, events, known_until.min(Tick::END))
    }
}

/// Writes a tick as the integer that it is.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls it with")]
fn ticks<S: Serializer>(tick: &Tick, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(tick.0)
}
