//! What the harness knows of a running drill, and what it decides: pure, without clock or I/O.
//!
//! Everything that happens comes in as an [`Input`] with the moment at which it happened, is turned into the events
//! of the trace, and gives the [`Act`]s that are to be carried out.

pub(super) mod foreign;
mod moments;
mod observations;
mod processes;
mod requests;

use std::{collections::BTreeMap, net::SocketAddr};

use router::{Policy, Router, Tie};
use scenarios::{EventKind, Fault, RequestId, Scenario, Span, Status, Tick, WorkerId};

use super::{
    input::{Act, Input},
    lateness::LatenessLog,
    plan::{Moment, Plan},
};
use crate::record::{Observed, Part};

/// A running drill.
#[derive(Debug)]
pub struct Drill {
    plan: Plan,
    slots: u8,
    startup: Span,
    addresses: Vec<SocketAddr>,
    /// The worker that is told to stop.
    target: WorkerId,
    /// How its first process is expected to end by that, where it is.
    told_status: Option<Status>,
    /// Whether it is to fail at the end of its boot.
    target_fails: bool,
    fault: Option<Fault>,
    foreign: bool,
    router: Router,
    workers: BTreeMap<WorkerId, Worker>,
    requests: BTreeMap<RequestId, Request>,
    arrivals_left: usize,
    planned_starts_left: usize,
    events: Vec<Observed>,
    lateness: LatenessLog,
    problems: Vec<String>,
    remarks: Vec<String>,
    stopped: bool,
}

#[derive(Debug)]
struct Worker {
    /// When its boot has to end.
    ready_at: Tick,
    /// The number of the process that speaks for it: the top until the worker itself was heard of.
    pid: Option<i32>,
    life: Life,
    was_ready: bool,
    told: Told,
    killed: bool,
    /// The tick of its last commit, after which a draining worker may exit.
    last_commit: Option<Tick>,
    /// When its exit was seen, in nanoseconds, if it was draining.
    drained_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Starting,
    Running,
    Orphan,
    /// Gone, at this moment in nanoseconds.
    Ended(u64),
}

/// What became of SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Sigterm,
    Withdrew,
    Ignores,
}

#[derive(Debug)]
struct Request {
    worker: WorkerId,
    sent_at: Tick,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Sent and not answered yet.
    Sent,
    /// In flight.
    Accepted,
    /// The answer broke off; what became of it is known when the worker's end is.
    Broken,
    /// Over, one way or another.
    Over,
}

/// What is left when a drill is over.
#[derive(Debug)]
pub struct Remains {
    /// Everything that was observed, in the order in which it became known.
    pub events: Vec<Observed>,
    /// How late things were.
    pub lateness: LatenessLog,
    /// Why the drill says nothing.
    pub problems: Vec<String>,
    /// What else is worth telling.
    pub remarks: Vec<String>,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

impl Drill {
    /// A drill that is about to start; `addresses` are where its workers will listen, by number.
    #[must_use]
    pub fn new(scenario: &Scenario, plan: Plan, addresses: Vec<SocketAddr>, fault: Option<Fault>) -> Drill {
        let target = match fault {
            Some(Fault::SignalsWrongWorker) => WorkerId(u16::from(scenario.initial_workers)),
            _ => WorkerId::FIRST,
        };
        let policy = Policy::new(scenario.ready_only_routing);
        let policy = match fault {
            Some(Fault::HighestWinsTie) => Policy { tie: Tie::Highest, ..policy },
            _ => policy,
        };
        let arrivals_left = plan.moments().iter().filter(|(_, moment)| matches!(moment, Moment::Arrival(_))).count();
        Drill {
            plan,
            told_status: None,
            target_fails: scenario.fail_worker_1,
            slots: scenario.slots_per_worker,
            startup: scenario.startup_s,
            addresses,
            target,
            fault,
            foreign: false,
            router: Router::new(policy),
            workers: BTreeMap::new(),
            requests: BTreeMap::new(),
            arrivals_left,
            planned_starts_left: usize::from(scenario.boot_replacement),
            events: Vec::new(),
            lateness: LatenessLog::default(),
            problems: Vec::new(),
            remarks: Vec::new(),
            stopped: false,
        }
    }

    /// The same, of which it is known how the first process of the worker that is told to stop ends by that.
    #[must_use]
    pub fn with_told_status(self, told_status: Option<Status>) -> Drill {
        Drill { told_status, ..self }
    }

    /// Everything that was observed so far, in the order in which it became known.
    #[must_use]
    pub fn events(&self) -> &[Observed] {
        &self.events
    }

    /// Says when the events from `first` on really became known, in microseconds after the drill's start. On a stepped
    /// clock their own moments are those of the model.
    pub fn stamp(&mut self, first: usize, at_us: i64) {
        for observed in self.events.iter_mut().skip(first) {
            observed.at_us = at_us;
        }
    }

    /// The drill is over.
    #[must_use]
    pub fn into_remains(mut self) -> Remains {
        self.measure_drained_exits();
        let Drill { events, lateness, problems, remarks, stopped, .. } = self;
        Remains { events, lateness, problems, remarks, stopped }
    }

    /// Puts the next worker on the roster and has it started. Boots end `startup` after the tick that it is planned in.
    pub fn start_worker(&mut self, planned: Tick) -> Option<Act> {
        let worker = WorkerId(u16::try_from(self.workers.len()).ok()? + 1);
        let addr = *self.addresses.get(usize::from(worker.0) - 1)?;
        self.router.roster_mut().add(worker, addr, self.slots).ok()?;
        let life = Life::Starting;
        let ready_at = planned + self.startup;
        let told = Told::Nothing;
        self.workers.insert(
            worker,
            Worker {
                ready_at,
                pid: None,
                life,
                was_ready: false,
                told,
                killed: false,
                last_commit: None,
                drained_ns: None,
            },
        );
        Some(Act::Start(worker))
    }

    /// The process that told of the readiness of `worker`, once it did.
    #[must_use]
    pub fn pid(&self, worker: WorkerId) -> Option<i32> {
        self.workers.get(&worker).filter(|known| known.was_ready)?.pid
    }

    /// Whether nothing was heard of `worker` yet, and nothing told to it.
    #[must_use]
    pub fn is_new(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(|known| !known.was_ready && known.told == Told::Nothing)
    }

    /// The worker that is told to stop.
    #[must_use]
    pub fn target(&self) -> WorkerId {
        self.target
    }

    /// Whether `worker` was started, or is about to be.
    #[must_use]
    pub fn is_known(&self, worker: WorkerId) -> bool {
        self.workers.contains_key(&worker)
    }

    /// Whether no process of `worker` is left.
    #[must_use]
    pub fn has_ended(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(|known| matches!(known.life, Life::Ended(_)))
    }

    /// Whether SIGKILL was sent to the top of `worker`.
    #[must_use]
    pub fn was_killed(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(|known| known.killed)
    }

    /// Whether the top of `worker` is gone, and perhaps the worker with it.
    #[must_use]
    pub fn has_lost_its_top(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(|known| matches!(known.life, Life::Orphan | Life::Ended(_)))
    }

    /// The worker that `request` was sent to.
    #[must_use]
    pub fn worker_of(&self, request: RequestId) -> Option<WorkerId> {
        self.requests.get(&request).map(|known| known.worker)
    }

    /// Whether `request` was sent and not answered yet.
    #[must_use]
    pub fn awaits_answer(&self, request: RequestId) -> bool {
        self.requests.get(&request).is_some_and(|known| known.phase == Phase::Sent)
    }

    /// Whether an answer of `worker` is still coming in.
    #[must_use]
    pub fn has_open_answers(&self, worker: WorkerId) -> bool {
        let open = |known: &Request| matches!(known.phase, Phase::Sent | Phase::Accepted);
        self.requests.values().any(|known| known.worker == worker && open(known))
    }

    /// The tick at which the boot of `worker` has to end.
    #[must_use]
    pub fn ready_at(&self, worker: WorkerId) -> Tick {
        self.workers.get(&worker).map_or(Tick::START, |worker| worker.ready_at)
    }

    /// Takes in what happened at `at_ns` and decides what to do.
    pub fn handle(&mut self, at_ns: u64, input: Input) -> Vec<Act> {
        let mut acts = match input {
            Input::Due(moment) => self.due(at_ns, moment).into_iter().collect(),
            Input::Stop => {
                self.stopped = true;
                vec![Act::Finish]
            }
            Input::NotStarted { worker, problem } => {
                self.problems.push(format!("{worker} can't be started: {problem}"));
                Vec::new()
            }
            Input::GivenUp { what } => {
                self.problems.push(what);
                Vec::new()
            }
            Input::NotListening { worker: _ } => {
                let late_us = at_ns.saturating_sub(self.plan.schedule.origin_ns) / 1000;
                self.lateness.add(Part::Start, late_us, 0);
                Vec::new()
            }
            Input::StillPending { worker } => {
                if self.workers.get(&worker).is_some_and(|known| known.told == Told::Ignores) {
                    self.late(at_ns, self.plan.sigterm_ns(), Part::Signal);
                }
                Vec::new()
            }
            Input::Started { worker, pid } => {
                self.started(at_ns, worker, pid);
                Vec::new()
            }
            Input::Sent { worker, signal } => {
                self.sent(at_ns, worker, signal);
                Vec::new()
            }
            Input::Notified { worker, notice, pid } => {
                self.notified(at_ns, worker, notice, pid);
                Vec::new()
            }
            Input::TopEnded { worker, status, survivors } => {
                self.top_ended(at_ns, worker, status, &survivors);
                Vec::new()
            }
            Input::SurvivorsEnded { worker } => {
                self.survivors_ended(at_ns, worker);
                Vec::new()
            }
            Input::Accepted { request, slot, at_us } => {
                self.accepted(at_ns, request, slot, at_us);
                Vec::new()
            }
            Input::Refused { request, reason } => {
                self.refused(at_ns, request, reason);
                Vec::new()
            }
            Input::Failed { request, failure } => {
                self.failed(at_ns, request, &failure);
                Vec::new()
            }
            Input::Progress { request, progress } => {
                self.progress(at_ns, request, &progress);
                Vec::new()
            }
            Input::Ended { request, ending } => {
                self.exchange_ended(request, &ending);
                Vec::new()
            }
        };
        // A drill with a problem says nothing, however it goes on.
        if self.nothing_can_happen() || !self.problems.is_empty() {
            acts.push(Act::Finish);
        }
        acts
    }

    /// No process is left, none will be started, and no request will arrive.
    fn nothing_can_happen(&self) -> bool {
        self.arrivals_left == 0
            && self.planned_starts_left == 0
            && self.workers.values().all(|worker| matches!(worker.life, Life::Ended(_)))
            && self.requests.values().all(|request| request.phase == Phase::Over)
            // SIGTERM, even if it finds nobody, is part of every drill.
            && self.workers.get(&self.target).is_some_and(|worker| {
                worker.told != Told::Nothing || self.events.iter().any(|observed| {
                    matches!(observed.event.kind, EventKind::SigtermSkipped { .. })
                })
            })
    }
}

#[cfg(test)]
mod tests;
