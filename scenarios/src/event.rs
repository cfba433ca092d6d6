//! What can happen in a drill: one vocabulary for what the model expects and what the processes did.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{RequestId, Status, Tick, WorkerId};

/// One thing that happened at one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    /// When, in model seconds with one decimal.
    pub t: Tick,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened, in the order of the contract's table: its steps 1 to 4, and within a step from top to bottom.
#[expect(missing_docs, reason = "the fields say what they are: each is of the type of that name")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// An invocation entered a stage (`prepare` belongs to step 4, right after the admission).
    StageEntered { request: RequestId, worker: WorkerId, stage: Stage },
    /// The worker's process committed the result to the store.
    ResultCommitted { request: RequestId, worker: WorkerId, sum: u32 },
    /// A worker's process was started.
    WorkerStarted { worker: WorkerId },
    /// The worker said that it is ready.
    WorkerReady { worker: WorkerId },
    /// The worker ended by itself at the end of its startup.
    WorkerFailed { worker: WorkerId, status: Status },
    /// SIGTERM was sent to the worker's top.
    SigtermSent { worker: WorkerId },
    /// There was nobody left to send SIGTERM to.
    SigtermSkipped { worker: WorkerId },
    /// The worker said that it takes no more requests.
    ReadinessWithdrawn { worker: WorkerId },
    /// The worker lives and is as ready as before.
    SigtermIgnored { worker: WorkerId },
    /// The grace period is over and SIGKILL was sent to the worker's top.
    SigkillSent { worker: WorkerId },
    /// The worker's top ended, and the worker with it.
    WorkerExited { worker: WorkerId, status: Status },
    /// The worker's top ended with `status` and the worker lives on.
    WorkerOrphaned { worker: WorkerId, status: Status },
    /// An orphaned worker ended by itself.
    OrphanExited { worker: WorkerId },
    /// The invocation ended with its worker, without a result.
    InvocationKilled { request: RequestId, worker: WorkerId },
    /// A worker took the request into the slot (numbered from 1).
    RequestAdmitted { request: RequestId, worker: WorkerId, slot: u8 },
    /// Nobody took the request; `worker` is the one that refused, if it came to that.
    RequestRejected {
        request: RequestId,
        reason: Reason,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worker: Option<WorkerId>,
    },
}

/// One of the three equal stages of an invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The first, entered on admission.
    Prepare,
    /// The second.
    Model,
    /// The third; the commit follows it.
    Tool,
}

impl Stage {
    /// All three in order.
    pub const ALL: [Stage; 3] = [Stage::Prepare, Stage::Model, Stage::Tool];

    /// Its name as in the trace.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stage::Prepare => "prepare",
            Stage::Model => "model",
            Stage::Tool => "tool",
        }
    }

    /// How many ticks after its admission an invocation of `duration_ticks` enters the stage: a third of the duration
    /// each, counted to the first tick that is not before it.
    #[must_use]
    pub const fn offset_ticks(self, duration_ticks: u32) -> u32 {
        (self as u32 * duration_ticks).div_ceil(3)
    }
}

/// Why a request was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The router had no worker to choose.
    NoEligibleWorker,
    /// The worker that was chosen holds as many invocations as it has slots.
    NoFreeSlot,
    /// The worker that was chosen is still starting and refused.
    WorkerStarting,
    /// The worker that was chosen is draining and refused.
    WorkerDraining,
}

impl Reason {
    /// Its name as in the trace.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Reason::NoEligibleWorker => "no_eligible_worker",
            Reason::NoFreeSlot => "no_free_slot",
            Reason::WorkerStarting => "worker_starting",
            Reason::WorkerDraining => "worker_draining",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where an event stands within its tick: step, phase of the step (only step 2 has several), worker, request, and
/// last its place in the table. Events of a trace are in the order of (tick, position).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The step of the tick, 1..=4.
    pub step: u8,
    phase: u8,
    worker: u16,
    request: u16,
    rank: u8,
}

impl EventKind {
    /// The name of the event as in the trace.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            EventKind::StageEntered { .. } => "stage_entered",
            EventKind::ResultCommitted { .. } => "result_committed",
            EventKind::WorkerStarted { .. } => "worker_started",
            EventKind::WorkerReady { .. } => "worker_ready",
            EventKind::WorkerFailed { .. } => "worker_failed",
            EventKind::SigtermSent { .. } => "sigterm_sent",
            EventKind::SigtermSkipped { .. } => "sigterm_skipped",
            EventKind::ReadinessWithdrawn { .. } => "readiness_withdrawn",
            EventKind::SigtermIgnored { .. } => "sigterm_ignored",
            EventKind::SigkillSent { .. } => "sigkill_sent",
            EventKind::WorkerExited { .. } => "worker_exited",
            EventKind::WorkerOrphaned { .. } => "worker_orphaned",
            EventKind::OrphanExited { .. } => "orphan_exited",
            EventKind::InvocationKilled { .. } => "invocation_killed",
            EventKind::RequestAdmitted { .. } => "request_admitted",
            EventKind::RequestRejected { .. } => "request_rejected",
        }
    }

    /// The worker that the event is about, if it is about one.
    #[must_use]
    pub fn worker(&self) -> Option<WorkerId> {
        match *self {
            EventKind::StageEntered { worker, .. }
            | EventKind::ResultCommitted { worker, .. }
            | EventKind::WorkerStarted { worker }
            | EventKind::WorkerReady { worker }
            | EventKind::WorkerFailed { worker, .. }
            | EventKind::SigtermSent { worker }
            | EventKind::SigtermSkipped { worker }
            | EventKind::ReadinessWithdrawn { worker }
            | EventKind::SigtermIgnored { worker }
            | EventKind::SigkillSent { worker }
            | EventKind::WorkerExited { worker, .. }
            | EventKind::WorkerOrphaned { worker, .. }
            | EventKind::OrphanExited { worker }
            | EventKind::InvocationKilled { worker, .. }
            | EventKind::RequestAdmitted { worker, .. } => Some(worker),
            EventKind::RequestRejected { worker, .. } => worker,
        }
    }

    /// The request that the event is about, if it is about one.
    #[must_use]
    pub fn request(&self) -> Option<RequestId> {
        match *self {
            EventKind::StageEntered { request, .. }
            | EventKind::ResultCommitted { request, .. }
            | EventKind::InvocationKilled { request, .. }
            | EventKind::RequestAdmitted { request, .. }
            | EventKind::RequestRejected { request, .. } => Some(request),
            _ => None,
        }
    }

    /// Where the event stands within its tick.
    #[must_use]
    pub fn position(&self) -> Position {
        let (step, phase, rank) = match self {
            EventKind::StageEntered { stage: Stage::Prepare, .. } => (4, 0, 2),
            EventKind::StageEntered { stage, .. } => (1, 0, *stage as u8),
            EventKind::ResultCommitted { .. } => (1, 0, 3),
            EventKind::WorkerReady { .. } => (2, 0, 0),
            EventKind::WorkerFailed { .. } => (2, 0, 1),
            EventKind::SigtermSent { .. } => (2, 1, 0),
            EventKind::SigtermSkipped { .. } => (2, 1, 1),
            EventKind::ReadinessWithdrawn { .. } => (2, 1, 2),
            EventKind::WorkerStarted { .. } => (2, 2, 0),
            EventKind::SigtermIgnored { .. } => (3, 0, 0),
            EventKind::SigkillSent { .. } => (3, 0, 1),
            EventKind::WorkerExited { .. } => (3, 0, 2),
            EventKind::WorkerOrphaned { .. } => (3, 0, 3),
            EventKind::OrphanExited { .. } => (3, 0, 4),
            EventKind::InvocationKilled { .. } => (3, 0, 5),
            EventKind::RequestAdmitted { .. } => (4, 0, 0),
            EventKind::RequestRejected { .. } => (4, 0, 1),
        };
        // In step 4 there is one request a tick; its stage follows its admission whichever worker took it.
        let worker = self.worker().map_or(0, |worker| worker.0);
        Position { step, phase, worker, request: self.request().map_or(0, |request| request.0), rank }
    }
}

impl Event {
    /// What a trace is sorted by: tick, then step, then worker, then request, then the table.
    #[must_use]
    pub fn order(&self) -> (Tick, Position) {
        (self.t, self.kind.position())
    }
}

/// One line for a person: what happened, without the time.
impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventKind::StageEntered { request, worker, stage } => write!(f, "{request} enters {stage} on {worker}"),
            EventKind::ResultCommitted { request, worker, sum } => {
                write!(f, "{request} commits the sum {sum} on {worker}")
            }
            EventKind::WorkerStarted { worker } => write!(f, "{worker} is started"),
            EventKind::WorkerReady { worker } => write!(f, "{worker} is ready"),
            EventKind::WorkerFailed { worker, status } => write!(f, "{worker} fails to boot: {status}"),
            EventKind::SigtermSent { worker } => write!(f, "SIGTERM is sent to {worker}"),
            EventKind::SigtermSkipped { worker } => write!(f, "no SIGTERM: {worker} has already ended"),
            EventKind::ReadinessWithdrawn { worker } => write!(f, "{worker} withdraws its readiness"),
            EventKind::SigtermIgnored { worker } => write!(f, "{worker} goes on as if nothing was sent"),
            EventKind::SigkillSent { worker } => write!(f, "SIGKILL is sent to {worker}"),
            EventKind::WorkerExited { worker, status } => write!(f, "{worker} is gone: {status}"),
            EventKind::WorkerOrphaned { worker, status } => {
                write!(f, "{worker} is orphaned: its top ended ({status}), it lives on")
            }
            EventKind::OrphanExited { worker } => write!(f, "the orphaned {worker} ends by itself"),
            EventKind::InvocationKilled { request, worker } => write!(f, "{request} is killed with {worker}"),
            EventKind::RequestAdmitted { request, worker, slot } => {
                write!(f, "{request} is admitted to {worker}, slot {slot}")
            }
            EventKind::RequestRejected { request, reason, worker: Some(worker) } => {
                write!(f, "{request} is refused by {worker}: {reason}")
            }
            EventKind::RequestRejected { request, reason, worker: None } => {
                write!(f, "{request} is rejected: {reason}")
            }
        }
    }
}
