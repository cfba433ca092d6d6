//! The model: interprets a scenario tick by tick and says what will happen.
//!
//! It knows nothing of the router's code. The admission rule is stated here once more on purpose: an oracle that
//! shares the code under test is blind to its bugs.

use serde::{Deserialize, Serialize};

use crate::{
    Effect, Event, EventKind, Host, Outcome, Reason, RequestId, Scenario, Stage, Status, Tick, WorkerId,
    fate::{Fate, fate},
    scenario::{FIRST_ARRIVAL, LAST_ARRIVAL},
};

/// What the model expects of a drill.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// Everything that will happen, in trace order.
    pub events: Vec<Event>,
    /// What will come of it.
    pub outcome: Outcome,
}

/// What will happen when `scenario` is drilled on `host`.
///
/// Pure and total: every valid scenario has one expectation. Only ticks at which something can be due are visited.
#[must_use]
pub fn expect(scenario: &Scenario, host: &Host) -> Expectation {
    let mut play = Play::new(scenario, host);
    play.start_initial_workers();
    while let Some(now) = play.next_tick() {
        play.now = now;
        play.completions();
        play.readiness();
        play.termination();
        play.admission();
    }
    let outcome = Outcome::of(scenario, &play.events);
    Expectation { events: play.events, outcome }
}

/// A worker as the model sees it.
struct Worker {
    life: Life,
    in_flight: u32,
    /// One bit a slot, set while an invocation holds it.
    slots: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Booting,
    Ready,
    Draining,
    /// The platform has given it up, but its process lives.
    Orphan(Orphan),
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Orphan {
    /// Still booting, when it got lost.
    Booting,
    /// Goes on for good.
    Serving,
    /// Ends when it owns nothing any more.
    Draining,
}

/// A request that a worker took.
struct Invocation {
    request: RequestId,
    worker: WorkerId,
    slot: u8,
    admitted_at: Tick,
    killed: bool,
}

/// What befalls every invocation after its admission: the second stage, the third and the commit.
const MILESTONES: usize = 3;

/// A worker as the rule of admission sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// Booting.
    Starting,
    /// Takes requests.
    Ready,
    /// Takes nothing new.
    Draining,
    /// Ended, or given up as an orphan: no candidate at all.
    Gone,
}

impl Life {
    fn as_candidate(self) -> Candidate {
        match self {
            Life::Booting => Candidate::Starting,
            Life::Ready => Candidate::Ready,
            Life::Draining => Candidate::Draining,
            Life::Orphan(_) | Life::Ended => Candidate::Gone,
        }
    }
}

/// What becomes of a request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routed {
    /// The worker with this index takes it.
    Admitted(usize),
    /// The worker with this index was chosen and refuses it.
    Refused(usize, Reason),
    /// It gets to no worker.
    Rejected(Reason),
}

/// The rule of admission, in the model's own words: what becomes of a request that arrives while each worker, in the
/// order of their numbers, is what `workers` says and holds so many invocations. Tests hold it against the router's.
#[must_use]
pub fn route(ready_only: bool, slots: u8, workers: impl Iterator<Item = (Candidate, u32)>) -> Routed {
    let is_candidate = |candidate: Candidate| match candidate {
        Candidate::Ready => true,
        Candidate::Starting | Candidate::Draining => !ready_only,
        Candidate::Gone => false,
    };
    let candidates = workers.enumerate().filter(|(_, (candidate, _))| is_candidate(*candidate));
    // `min_by_key` gives the first of several equals: ties go to the lowest number.
    match candidates.min_by_key(|&(_, (_, in_flight))| in_flight) {
        None => Routed::Rejected(Reason::NoEligibleWorker),
        Some((index, (Candidate::Starting, _))) => Routed::Refused(index, Reason::WorkerStarting),
        Some((index, (Candidate::Draining, _))) => Routed::Refused(index, Reason::WorkerDraining),
        Some((_, (_, in_flight))) if in_flight >= u32::from(slots) => Routed::Rejected(Reason::NoFreeSlot),
        Some((index, _)) => Routed::Admitted(index),
    }
}

struct Play<'a> {
    scenario: &'a Scenario,
    fate: Fate,
    now: Tick,
    events: Vec<Event>,
    workers: Vec<Worker>,
    invocations: Vec<Invocation>,
    /// Ticks from an admission to each milestone.
    offsets: [u32; MILESTONES],
    /// How many invocations have passed each milestone. All take equally long and at most one is admitted a tick, so
    /// they pass in the order of admission, at most one a tick.
    passed: [usize; MILESTONES],
    next_request: RequestId,
    next_arrival: Option<Tick>,
    /// Whether SIGTERM has reached the top in the tick at hand.
    signalled: bool,
}

const FIRST: usize = 0;

impl<'a> Play<'a> {
    fn new(scenario: &'a Scenario, host: &Host) -> Play<'a> {
        let duration = scenario.invocation_s.0;
        let arrivals = 1 + (LAST_ARRIVAL.0 - FIRST_ARRIVAL.0) / scenario.request_interval_s.0.max(1);
        Play {
            scenario,
            fate: fate(scenario, host),
            now: Tick::START,
            events: Vec::with_capacity(64 + arrivals as usize * 3),
            workers: Vec::with_capacity(usize::from(scenario.workers())),
            invocations: Vec::with_capacity(arrivals as usize),
            offsets: [Stage::Model.offset_ticks(duration), Stage::Tool.offset_ticks(duration), duration],
            passed: [0; MILESTONES],
            next_request: RequestId(1),
            next_arrival: Some(FIRST_ARRIVAL),
            signalled: false,
        }
    }

    fn start_initial_workers(&mut self) {
        for _ in 0..self.scenario.initial_workers {
            self.start_worker();
        }
    }

    /// The next tick of the drill at which something can be due.
    fn next_tick(&self) -> Option<Tick> {
        let milestones = (0..MILESTONES).filter_map(|milestone| self.milestone_due(milestone));
        let plan = [
            Some(Tick::START + self.scenario.startup_s),
            Some(self.scenario.signal_at()),
            Some(self.scenario.deadline()),
            self.scenario.boot_replacement.then(|| self.scenario.signal_at() + self.scenario.startup_s),
        ];
        let due = plan.into_iter().flatten().filter(|&tick| tick > self.now);
        due.chain(milestones).chain(self.next_arrival).min().filter(|&tick| tick <= Tick::END)
    }

    fn milestone_due(&self, milestone: usize) -> Option<Tick> {
        let invocation = self.invocations.get(self.passed[milestone])?;
        Some(Tick(invocation.admitted_at.0 + self.offsets[milestone]))
    }

    // Step 1: stage boundaries and commits.
    fn completions(&mut self) {
        let mut due = [(usize::MAX, 0); MILESTONES];
        let mut count = 0;
        for milestone in 0..MILESTONES {
            if self.milestone_due(milestone) == Some(self.now) {
                let index = self.passed[milestone];
                self.passed[milestone] += 1;
                if !self.invocations[index].killed {
                    due[count] = (index, milestone);
                    count += 1;
                }
            }
        }
        let due = &mut due[..count];
        // By worker, then by request; the milestones of one request stay in their order.
        due.sort_by_key(|&(index, _)| (self.invocations[index].worker, self.invocations[index].request));
        for &mut (index, milestone) in due {
            let Invocation { request, worker, slot, .. } = self.invocations[index];
            match milestone {
                0 => self.emit(EventKind::StageEntered { request, worker, stage: Stage::Model }),
                1 => self.emit(EventKind::StageEntered { request, worker, stage: Stage::Tool }),
                _ => {
                    self.emit(EventKind::ResultCommitted { request, worker, sum: request.sum() });
                    let owner = &mut self.workers[usize::from(worker.0) - 1];
                    owner.in_flight -= 1;
                    owner.slots &= !(1 << (slot - 1));
                }
            }
        }
    }

    // Step 2: boots that end, SIGTERM and the readiness it takes, the replacement's start.
    fn readiness(&mut self) {
        let (startup, signal_at) = (self.scenario.startup_s, self.scenario.signal_at());
        if self.now == Tick::START + startup {
            for index in 0..usize::from(self.scenario.initial_workers) {
                self.end_boot(index);
            }
        }
        if self.scenario.boot_replacement && self.now == signal_at + startup {
            self.end_boot(usize::from(self.scenario.initial_workers));
        }
        self.signalled = false;
        if self.now == signal_at {
            self.send_sigterm();
            if self.scenario.boot_replacement {
                self.start_worker();
            }
        }
    }

    fn end_boot(&mut self, index: usize) {
        let worker = id(index);
        let fails = index == FIRST && self.scenario.fail_worker_1;
        match self.workers[index].life {
            Life::Booting if fails => {
                self.workers[index].life = Life::Ended;
                self.emit(EventKind::WorkerFailed { worker, status: Status::Code(1) });
            }
            Life::Booting => {
                self.workers[index].life = Life::Ready;
                self.emit(EventKind::WorkerReady { worker });
            }
            // Nobody waits for the readiness of an orphan; one that fails has nothing to finish and ends.
            Life::Orphan(Orphan::Booting) => {
                let next = if fails { Orphan::Draining } else { Orphan::Serving };
                self.workers[index].life = Life::Orphan(next);
            }
            Life::Ready | Life::Draining | Life::Orphan(_) | Life::Ended => {}
        }
    }

    fn send_sigterm(&mut self) {
        let worker = id(FIRST);
        if self.workers[FIRST].life == Life::Ended {
            self.emit(EventKind::SigtermSkipped { worker });
            return;
        }
        self.emit(EventKind::SigtermSent { worker });
        self.signalled = true;
        if self.fate.effect == Effect::Drained || self.fate.drains_alone {
            self.workers[FIRST].life = Life::Draining;
            self.emit(EventKind::ReadinessWithdrawn { worker });
        }
    }

    // Step 3: what SIGTERM ends at once, drained exits, and SIGKILL at the deadline.
    fn termination(&mut self) {
        let worker = id(FIRST);
        if self.signalled {
            match self.fate.effect {
                Effect::Drained => {}
                Effect::Ignored => self.emit(EventKind::SigtermIgnored { worker }),
                Effect::Terminated => self.end_first(self.fate.status),
                Effect::Orphaned => self.orphan_first(self.fate.status),
            }
        }
        match self.workers[FIRST].life {
            Life::Draining if self.workers[FIRST].in_flight == 0 => self.end_first(self.fate.status),
            Life::Orphan(Orphan::Draining) if self.workers[FIRST].in_flight == 0 => {
                self.workers[FIRST].life = Life::Ended;
                self.emit(EventKind::OrphanExited { worker });
            }
            _ => {}
        }
        if self.now == self.scenario.deadline()
            && matches!(self.workers[FIRST].life, Life::Booting | Life::Ready | Life::Draining)
        {
            self.emit(EventKind::SigkillSent { worker });
            if self.fate.survives_sigkill {
                self.orphan_first(Status::SIGKILL);
            } else {
                self.end_first(Status::SIGKILL);
            }
        }
    }

    /// Worker 1 is gone, and its invocations with it.
    fn end_first(&mut self, status: Status) {
        let worker = id(FIRST);
        self.workers[FIRST] = Worker { life: Life::Ended, in_flight: 0, slots: 0 };
        self.emit(EventKind::WorkerExited { worker, status });
        // Whatever was admitted since the last commit may still be in flight.
        for index in self.passed[MILESTONES - 1]..self.invocations.len() {
            let invocation = &mut self.invocations[index];
            if invocation.worker == worker && !invocation.killed {
                invocation.killed = true;
                let request = invocation.request;
                self.emit(EventKind::InvocationKilled { request, worker });
            }
        }
    }

    /// Worker 1's top ended with `status`; the worker goes on with what it was doing.
    fn orphan_first(&mut self, status: Status) {
        let orphan = match self.workers[FIRST].life {
            Life::Booting => Orphan::Booting,
            Life::Draining => Orphan::Draining,
            Life::Ready | Life::Orphan(_) | Life::Ended => Orphan::Serving,
        };
        self.workers[FIRST].life = Life::Orphan(orphan);
        self.emit(EventKind::WorkerOrphaned { worker: id(FIRST), status });
    }

    // Step 4: the request that arrives now.
    fn admission(&mut self) {
        if self.next_arrival != Some(self.now) {
            return;
        }
        let request = self.next_request;
        self.next_request = RequestId(request.0 + 1);
        self.next_arrival = Some(self.now + self.scenario.request_interval_s).filter(|&tick| tick <= LAST_ARRIVAL);

        let candidates = self.workers.iter().map(|worker| (worker.life.as_candidate(), worker.in_flight));
        match route(self.scenario.ready_only_routing, self.scenario.slots_per_worker, candidates) {
            Routed::Admitted(index) => self.admit(request, index),
            Routed::Refused(index, reason) => {
                self.emit(EventKind::RequestRejected { request, reason, worker: Some(id(index)) });
            }
            Routed::Rejected(reason) => self.emit(EventKind::RequestRejected { request, reason, worker: None }),
        }
    }

    fn admit(&mut self, request: RequestId, index: usize) {
        let (worker, owner) = (id(index), &mut self.workers[index]);
        let lowest_free = owner.slots.trailing_ones();
        owner.slots |= 1 << lowest_free;
        owner.in_flight += 1;
        let slot = lowest_free as u8 + 1;
        self.invocations.push(Invocation { request, worker, slot, admitted_at: self.now, killed: false });
        self.emit(EventKind::RequestAdmitted { request, worker, slot });
        self.emit(EventKind::StageEntered { request, worker, stage: Stage::Prepare });
    }

    fn start_worker(&mut self) {
        let worker = id(self.workers.len());
        self.workers.push(Worker { life: Life::Booting, in_flight: 0, slots: 0 });
        self.emit(EventKind::WorkerStarted { worker });
    }

    fn emit(&mut self, kind: EventKind) {
        self.events.push(Event { t: self.now, kind });
    }
}

/// Workers are numbered from 1.
fn id(index: usize) -> WorkerId {
    WorkerId(index as u16 + 1)
}
