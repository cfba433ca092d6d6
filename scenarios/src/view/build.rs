//! Lays the events of a trace out: one pass over them, in their order.

use std::collections::BTreeMap;

use super::{
    Counts, Decision, End, Grace, Invocation, Lane, Mark, OPEN, Phase, Rejection, Slot, StageSpan, StoreRow, View,
};
use crate::{
    Event, EventKind, RequestId, Scenario, Stage, Status, Tick, WorkerId,
    outcome::{WorkerState, percent},
};

pub(super) fn build(scenario: &Scenario, events: &[Event], known_until: Tick) -> View {
    let mut builder = Builder::default();
    for event in events {
        builder.apply(scenario, Tick::END.min(event.t), &event.kind);
    }
    builder.finish(known_until)
}

/// What makes an invocation the same one: a request can come to two workers only by mistake, which is to be seen.
type Key = (RequestId, WorkerId);

#[derive(Default)]
struct Builder {
    lanes: BTreeMap<WorkerId, Lane>,
    /// Each with its slot.
    invocations: Vec<(u8, WorkerId, Invocation)>,
    /// Where an invocation is in the list above.
    places: BTreeMap<Key, usize>,
    /// How those ended of which the end was seen before the beginning, as it can be with processes.
    ended_before: BTreeMap<Key, (End, Option<u32>)>,
    grace: Option<Grace>,
    rejections: Vec<Rejection>,
    store: Vec<StoreRow>,
    decisions: Vec<Decision>,
    counts: Vec<Counts>,
}

impl Builder {
    fn apply(&mut self, scenario: &Scenario, tick: Tick, kind: &EventKind) {
        self.decisions.push(Decision::of(&Event { t: tick, kind: *kind }));
        match *kind {
            EventKind::RequestAdmitted { request, worker, slot } => self.admitted(tick, (request, worker), slot),
            EventKind::StageEntered { request, worker, stage } => self.entered(tick, (request, worker), stage),
            EventKind::ResultCommitted { request, worker, sum } => {
                self.store.push(StoreRow { tick, request, sum, worker });
                let was_in_flight = self.ended(tick, (request, worker), End::Committed, Some(sum));
                self.count(tick, |counts| {
                    counts.completed += 1;
                    counts.in_flight -= u16::from(was_in_flight);
                });
            }
            EventKind::InvocationKilled { request, worker } => {
                let was_in_flight = self.ended(tick, (request, worker), End::Killed, None);
                self.count(tick, |counts| {
                    counts.killed += 1;
                    counts.in_flight -= u16::from(was_in_flight);
                });
            }
            EventKind::RequestRejected { request, reason, worker } => {
                self.rejections.push(Rejection { tick, request, reason, worker });
                self.count(tick, |counts| {
                    counts.arrivals += 1;
                    counts.rejected += 1;
                });
            }
            _ => {
                if let Some(worker) = kind.worker() {
                    self.befell(tick, worker, kind);
                }
                if let EventKind::SigtermSent { worker } = *kind {
                    self.grace.get_or_insert(Grace { worker, from: tick, deadline: tick + scenario.grace_period_s });
                }
            }
        }
    }

    /// Something that concerns a worker as a whole.
    fn befell(&mut self, tick: Tick, worker: WorkerId, kind: &EventKind) {
        let lane = self.lane(worker);
        lane.marks.push(Mark { tick, event: kind.name(), text: kind.to_string() });
        let last = lane.phases.last().copied();
        if let EventKind::OrphanExited { .. } = kind {
            if let Some(last) = last {
                lane.begin(tick, last.state, last.status, false);
            }
        } else if let Some((state, status)) = WorkerState::after(last.map(|last| last.state), kind) {
            lane.begin(tick, state, status, status.is_none() || state == WorkerState::Orphaned);
        }
    }

    fn lane(&mut self, worker: WorkerId) -> &mut Lane {
        self.lanes.entry(worker).or_insert_with(|| Lane {
            worker,
            phases: Vec::new(),
            slots: Vec::new(),
            marks: Vec::new(),
            state: None,
            status: None,
        })
    }

    fn admitted(&mut self, tick: Tick, key: Key, slot: u8) {
        let mut begins = false;
        if !self.places.contains_key(&key) {
            self.places.insert(key, self.invocations.len());
            let ended = self.ended_before.get(&key).copied();
            begins = ended.is_none();
            let (end, sum) = ended.unwrap_or((End::Running, None));
            let until = if begins { OPEN } else { tick };
            let invocation = Invocation { request: key.0, from: tick, until, stages: Vec::new(), end, sum };
            self.invocations.push((slot, key.1, invocation));
        }
        self.count(tick, |counts| {
            counts.arrivals += 1;
            counts.admitted += 1;
            counts.in_flight += u16::from(begins);
        });
    }

    fn in_flight(&mut self, key: Key) -> Option<&mut Invocation> {
        let (_, _, invocation) = self.invocations.get_mut(*self.places.get(&key)?)?;
        Some(invocation).filter(|invocation| invocation.end == End::Running)
    }

    fn entered(&mut self, tick: Tick, key: Key, stage: Stage) {
        if let Some(invocation) = self.in_flight(key) {
            invocation.close_stage(tick);
            invocation.stages.push(StageSpan { stage, from: tick, until: OPEN });
        }
    }

    /// An invocation ended; tells whether it was in flight.
    fn ended(&mut self, tick: Tick, key: Key, end: End, sum: Option<u32>) -> bool {
        if let Some(invocation) = self.in_flight(key) {
            (invocation.until, invocation.end, invocation.sum) = (tick, end, sum);
            invocation.close_stage(tick);
            return true;
        }
        self.ended_before.entry(key).or_insert((end, sum));
        false
    }

    fn count(&mut self, tick: Tick, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.last().copied().unwrap_or_default();
        if self.counts.last().is_some_and(|last| last.tick == tick) {
            self.counts.pop();
        }
        counts.tick = tick;
        change(&mut counts);
        counts.rejected_percent = percent(counts.rejected, counts.arrivals);
        self.counts.push(counts);
    }

    fn finish(mut self, known_until: Tick) -> View {
        let mut slots: BTreeMap<(WorkerId, u8), Vec<Invocation>> = BTreeMap::new();
        for (slot, worker, mut invocation) in std::mem::take(&mut self.invocations) {
            // One that was entered in the tick of the end covers no end of a tick.
            invocation.stages.retain(|stage| stage.from < stage.until);
            slots.entry((worker, slot)).or_default().push(invocation);
        }
        for ((worker, slot), invocations) in slots {
            self.lane(worker).slots.push(Slot { slot, invocations });
        }
        View {
            known_until,
            lanes: self.lanes.into_values().collect(),
            grace: self.grace,
            rejections: self.rejections,
            store: self.store,
            decisions: self.decisions,
            counts: self.counts,
            gate: None,
        }
    }
}

impl Decision {
    /// An event as a line to read; what happened after the last tick of a drill is shown at that tick.
    #[must_use]
    pub fn of(event: &Event) -> Decision {
        let kind = &event.kind;
        Decision {
            tick: event.t.min(Tick::END),
            step: kind.position().step,
            event: kind.name(),
            text: kind.to_string(),
            worker: kind.worker(),
            request: kind.request(),
        }
    }
}

impl Lane {
    fn begin(&mut self, tick: Tick, state: WorkerState, status: Option<Status>, alive: bool) {
        if let Some(last) = self.phases.last_mut() {
            last.until = tick;
        }
        // What was so for no end of any tick is only a mark. The state is what the next phase follows from all the same,
        // so it must not be dropped before that one begins.
        if let [.., before] = self.phases.as_slice()
            && before.from == before.until
        {
            self.phases.pop();
        }
        self.phases.push(Phase { state, alive, ready: state == WorkerState::Ready, status, from: tick, until: OPEN });
        (self.state, self.status) = (Some(state), status);
    }
}

impl Invocation {
    fn close_stage(&mut self, tick: Tick) {
        if let Some(last) = self.stages.last_mut() {
            last.until = tick;
        }
    }
}
