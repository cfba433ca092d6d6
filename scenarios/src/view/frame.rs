//! The state at the end of one tick, selected from a view.

use serde::Serialize;

use super::{Counts, StoreRow, View, ticks};
use crate::{Gate, RequestId, Stage, Status, Tick, WorkerId, outcome::WorkerState};

/// What a screen shows at one tick: the state at its end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frame {
    /// The tick.
    #[serde(serialize_with = "ticks")]
    pub tick: Tick,
    /// The workers that have been started, by number.
    pub workers: Vec<WorkerFrame>,
    /// What was counted so far.
    pub counts: Counts,
    /// What was committed so far, in the order of the commits.
    pub store: Vec<StoreRow>,
    /// How many of the view's rejections have happened.
    pub rejections: usize,
    /// How many of the view's decisions have happened.
    pub decisions: usize,
    /// The gate, once it is known.
    pub gate: Option<Gate>,
}

/// One worker at one tick.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkerFrame {
    /// Which.
    pub worker: WorkerId,
    /// Its state.
    pub state: WorkerState,
    /// Whether its process lives.
    pub alive: bool,
    /// Whether the router may choose it.
    pub ready: bool,
    /// How its top ended; null while it lives.
    pub status: Option<Status>,
    /// What it holds, by slot, and in the order of admission where a slot is held twice by mistake.
    pub in_flight: Vec<InFlight>,
}

/// An invocation in flight at one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct InFlight {
    /// Which request.
    pub request: RequestId,
    /// The slot that it holds.
    pub slot: u8,
    /// The stage that it is in; null where none was seen to be entered.
    pub stage: Option<Stage>,
    /// When it was admitted.
    #[serde(rename = "from_tick", serialize_with = "ticks")]
    pub from: Tick,
}

impl View {
    /// The state at the end of `tick`.
    #[must_use]
    pub fn at(&self, tick: Tick) -> Frame {
        let covers = |from: Tick, until: Tick| from <= tick && tick < until;
        let workers = self.lanes.iter().filter_map(|lane| {
            let phase = lane.phases.iter().find(|phase| covers(phase.from, phase.until))?;
            let in_flight = lane.slots.iter().flat_map(|slot| {
                let held = slot.invocations.iter().filter(|invocation| covers(invocation.from, invocation.until));
                held.map(|invocation| {
                    let stage = invocation.stages.iter().find(|stage| covers(stage.from, stage.until));
                    InFlight {
                        request: invocation.request,
                        slot: slot.slot,
                        stage: stage.map(|stage| stage.stage),
                        from: invocation.from,
                    }
                })
            });
            Some(WorkerFrame {
                worker: lane.worker,
                state: phase.state,
                alive: phase.alive,
                ready: phase.ready,
                status: phase.status,
                in_flight: in_flight.collect(),
            })
        });
        let counts = self.counts.iter().rfind(|counts| counts.tick <= tick).copied().unwrap_or_default();
        Frame {
            tick,
            workers: workers.collect(),
            counts: Counts { tick, ..counts },
            store: self.store.iter().copied().take_while(|row| row.tick <= tick).collect(),
            rejections: self.rejections.partition_point(|rejection| rejection.tick <= tick),
            decisions: self.decisions.partition_point(|decision| decision.tick <= tick),
            gate: self.gate.filter(|shown| shown.tick <= tick).map(|shown| shown.gate),
        }
    }
}
