//! What the harness knows of a running drill, and what it decides: pure, without clock or I/O.
//!
//! Everything that happens comes in as an [`Input`] with the moment at which it happened, is turned into the events
//! of the trace, and gives the [`Act`]s that are to be carried out.

use std::{collections::BTreeMap, io::ErrorKind, net::SocketAddr};

use router::{Ending, Failure, Policy, Routed, Router, State as Seat, Tie};
use scenarios::{
    Event, EventKind, Fault, Reason, RequestId, Scenario, Signal, Span, Stage, Status, Tick, WorkerId,
    wire::{Progress, ProgressStep},
};

use super::{
    lateness::LatenessLog,
    notify::Notice,
    plan::{Moment, Plan},
};
use crate::{
    evidence::Look,
    record::{Observed, Part},
};

/// Something that happened.
#[expect(missing_docs, reason = "the fields say what they are: each is of the type of that name")]
#[derive(Debug)]
pub enum Input {
    /// A planned moment has come.
    Due(Moment),
    /// A worker's top runs.
    Started { worker: WorkerId, pid: i32 },
    /// A worker's top could not be started.
    NotStarted { worker: WorkerId, problem: String },
    /// A signal was sent to a worker's top.
    Sent { worker: WorkerId, signal: Signal },
    /// A worker told about its readiness.
    Notified { worker: WorkerId, notice: Notice, pid: Option<i32> },
    /// A worker's top ended; `survivors` are the processes below it that live on.
    TopEnded { worker: WorkerId, status: Status, survivors: Vec<i32> },
    /// The last of the survivors of a worker's top ended.
    SurvivorsEnded { worker: WorkerId },
    /// A worker accepted a request, at this moment of its own clock.
    Accepted { request: RequestId, slot: u8, at_us: u64 },
    /// A worker refused a request.
    Refused { request: RequestId, reason: Reason },
    /// A request came to nothing in another way.
    Failed { request: RequestId, failure: Failure },
    /// An invocation got further.
    Progress { request: RequestId, progress: Progress },
    /// The answer to an accepted request is over.
    Ended { request: RequestId, ending: Ending },
    /// Something that had to happen did not, in a time that is more than enough.
    GivenUp { what: String },
    /// A person, or whoever started us, wants the drill to stop.
    Stop,
}

/// Something to do.
#[expect(missing_docs, reason = "the fields say what they are: each is of the type of that name")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Start this worker.
    Start(WorkerId),
    /// Send the signal to the worker's top.
    Send(WorkerId, Signal),
    /// Look at the processes of the worker. `speaker` is the process that spoke for it last.
    Look { worker: WorkerId, speaker: Option<i32>, look: Look },
    /// Send the request, which arrived at this tick, to the worker.
    Dispatch { request: RequestId, worker: WorkerId, addr: SocketAddr, tick: Tick },
    /// The drill is over.
    Finish,
}

/// A running drill.
#[derive(Debug)]
pub struct Drill {
    plan: Plan,
    slots: u8,
    startup: Span,
    addresses: Vec<SocketAddr>,
    /// The worker that is told to stop.
    target: WorkerId,
    fault: Option<Fault>,
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
            slots: scenario.slots_per_worker,
            startup: scenario.startup_s,
            addresses,
            target,
            fault,
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

    // Planned moments.

    fn due(&mut self, at_ns: u64, moment: Moment) -> Option<Act> {
        match moment {
            Moment::Sigterm => {
                if self.target_is_there() {
                    return Some(Act::Send(self.target, Signal::TERM));
                }
                self.late(at_ns, self.plan.sigterm_ns(), Part::Signal);
                self.observe(at_ns, EventKind::SigtermSkipped { worker: self.target });
                None
            }
            Moment::Replacement => {
                self.planned_starts_left = self.planned_starts_left.saturating_sub(1);
                self.start_worker(self.plan.schedule.tick_at(self.plan.sigterm_ns()))
            }
            Moment::Judge => {
                let worker = self.workers.get_mut(&self.target)?;
                if worker.told == Told::Sigterm && !matches!(worker.life, Life::Orphan | Life::Ended(_)) {
                    worker.told = Told::Ignores;
                    self.observe(at_ns, EventKind::SigtermIgnored { worker: self.target });
                }
                None
            }
            Moment::Sigkill if self.fault == Some(Fault::TakesSignalForEnd) && self.target_was_told() => None,
            Moment::Sigkill => self.target_is_there().then_some(Act::Send(self.target, Signal::KILL)),
            Moment::Arrival(request) => {
                self.arrivals_left = self.arrivals_left.saturating_sub(1);
                self.arrive(at_ns, request)
            }
            Moment::Look(look) => {
                let speaker = self.workers.get(&self.target).and_then(|worker| worker.pid);
                Some(Act::Look { worker: self.target, speaker, look })
            }
            Moment::End => Some(Act::Finish),
        }
    }

    fn target_is_there(&self) -> bool {
        self.workers.get(&self.target).is_some_and(|worker| matches!(worker.life, Life::Starting | Life::Running))
    }

    fn target_was_told(&self) -> bool {
        self.workers.get(&self.target).is_some_and(|worker| worker.told != Told::Nothing)
    }

    fn arrive(&mut self, at_ns: u64, request: RequestId) -> Option<Act> {
        let tick = self.plan.schedule.tick_at(at_ns);
        match self.router.route() {
            Routed::Rejected { reason } => {
                self.admission_late(at_ns, request);
                self.observe(at_ns, EventKind::RequestRejected { request, reason, worker: None });
                None
            }
            Routed::Send { worker, addr } => {
                self.requests.insert(request, Request { worker, sent_at: tick, phase: Phase::Sent });
                Some(Act::Dispatch { request, worker, addr, tick })
            }
        }
    }

    // Processes.

    fn started(&mut self, at_ns: u64, worker: WorkerId, pid: i32) {
        let initial = self.plan.schedule.tick_at(self.plan.sigterm_ns()) + self.startup != self.ready_at(worker);
        let planned = if initial { self.plan.schedule.origin_ns } else { self.plan.sigterm_ns() };
        self.late(at_ns, planned, Part::Start);
        if let Some(known) = self.workers.get_mut(&worker) {
            known.pid.get_or_insert(pid);
            if known.life == Life::Starting {
                known.life = Life::Running;
            }
        }
        self.observe(at_ns, EventKind::WorkerStarted { worker });
    }

    fn sent(&mut self, at_ns: u64, worker: WorkerId, signal: Signal) {
        let kill = signal == Signal::KILL;
        if let Some(known) = self.workers.get_mut(&worker) {
            if kill {
                known.killed = true;
            } else {
                known.told = Told::Sigterm;
            }
        }
        if kill {
            self.late(at_ns, self.plan.sigkill_ns(), Part::Kill);
            self.observe(at_ns, EventKind::SigkillSent { worker });
        } else {
            self.late(at_ns, self.plan.sigterm_ns(), Part::Signal);
            self.observe(at_ns, EventKind::SigtermSent { worker });
        }
    }

    fn notified(&mut self, at_ns: u64, worker: WorkerId, notice: Notice, pid: Option<i32>) {
        let Some(known) = self.workers.get_mut(&worker) else { return };
        if pid.is_some() {
            known.pid = pid;
        }
        // Nobody waits for the readiness of an orphan.
        if matches!(known.life, Life::Orphan | Life::Ended(_)) {
            return;
        }
        match notice {
            Notice::Ready => {
                if self.router.roster_mut().ready(worker).is_ok() {
                    known.was_ready = true;
                    let planned = self.plan.schedule.start_of(known.ready_at);
                    self.late(at_ns, planned, Part::Boot);
                    self.observe(at_ns, EventKind::WorkerReady { worker });
                }
            }
            Notice::Stopping { .. } => {
                if self.router.roster_mut().draining(worker).is_ok() {
                    // If it was taken for one that ignores the signal, this shows that it was only late.
                    if matches!(known.told, Told::Sigterm | Told::Ignores) {
                        known.told = Told::Withdrew;
                        self.late(at_ns, self.plan.sigterm_ns(), Part::Signal);
                    }
                    self.observe(at_ns, EventKind::ReadinessWithdrawn { worker });
                }
            }
        }
    }

    fn top_ended(&mut self, at_ns: u64, worker: WorkerId, status: Status, survivors: &[i32]) {
        let Some(known) = self.workers.get_mut(&worker) else { return };
        let orphaned = !survivors.is_empty();
        let booting = !known.was_ready && !known.killed && matches!(known.told, Told::Nothing | Told::Ignores);
        let by_sigterm = matches!(status, Status::SIGTERM | Status::CODE_143);
        let planned = match known {
            // It was taken for one that ignores the signal and was only late.
            Worker { told: Told::Ignores, killed: false, .. } if by_sigterm => {
                Some((self.plan.sigterm_ns(), Part::Signal))
            }
            _ if booting && !orphaned => Some((self.plan.schedule.start_of(known.ready_at), Part::Boot)),
            Worker { killed: true, .. } => Some((self.plan.sigkill_ns(), Part::Kill)),
            Worker { told: Told::Sigterm, .. } => Some((self.plan.sigterm_ns(), Part::Signal)),
            Worker { told: Told::Withdrew, .. } => {
                known.drained_ns = Some(at_ns);
                None
            }
            // Nobody planned for that.
            _ => None,
        };
        known.life = if orphaned { Life::Orphan } else { Life::Ended(at_ns) };
        // It may have ended before; what matters is that the router stops choosing it.
        let _ = self.router.roster_mut().ended(worker);
        if let Some((planned_ns, part)) = planned {
            self.late(at_ns, planned_ns, part);
        }
        let kind = match (orphaned, booting) {
            (true, _) => EventKind::WorkerOrphaned { worker, status },
            (false, true) => EventKind::WorkerFailed { worker, status },
            (false, false) => EventKind::WorkerExited { worker, status },
        };
        self.observe(at_ns, kind);
        if orphaned {
            let pids: Vec<String> = survivors.iter().map(i32::to_string).collect();
            self.remarks.push(format!(
                "{worker} was orphaned: its top ended ({status}), pid {} lived on and was cleaned up after the drill",
                pids.join(", ")
            ));
        } else {
            self.settle_broken(worker);
        }
    }

    /// How late the exits of drained workers were. Only at the end: an exit can be seen before the commit that it
    /// followed, and which invocations it cut off is known after it.
    fn measure_drained_exits(&mut self) {
        let exits: Vec<(WorkerId, u64, Option<Tick>)> =
            self.workers.iter().filter_map(|(&id, known)| Some((id, known.drained_ns?, known.last_commit))).collect();
        for (id, at_ns, last_commit) in exits {
            let cut_off = |kind| matches!(kind, EventKind::InvocationKilled { worker, .. } if worker == id);
            if self.events.iter().any(|observed| cut_off(observed.event.kind)) {
                // Nobody planned for that.
                continue;
            }
            // It was due with its last commit, or with the signal if there was none after it.
            let last_commit_ns = last_commit.map_or(0, |tick| self.plan.schedule.start_of(tick));
            if last_commit_ns > self.plan.sigterm_ns() {
                self.late(at_ns, last_commit_ns, Part::Exit);
            } else {
                self.late(at_ns, self.plan.sigterm_ns(), Part::Signal);
            }
        }
    }

    fn survivors_ended(&mut self, at_ns: u64, worker: WorkerId) {
        let Some(known) = self.workers.get_mut(&worker) else { return };
        known.life = Life::Ended(at_ns);
        if let Some(tick) = known.last_commit {
            let planned = self.plan.schedule.start_of(tick);
            self.late(at_ns, planned, Part::Exit);
        }
        self.observe(at_ns, EventKind::OrphanExited { worker });
        self.settle_broken(worker);
    }

    // Requests.

    fn accepted(&mut self, learnt_ns: u64, request: RequestId, slot: u8, at_us: u64) {
        let Some(known) = self.requests.get_mut(&request) else { return };
        known.phase = Phase::Accepted;
        let (worker, sent_at) = (known.worker, known.sent_at);
        if let Err(ignored) = self.router.roster_mut().open(request, worker) {
            self.remarks.push(ignored.to_string());
        }
        let at_ns = learnt_ns.min(at_us.saturating_mul(1000));
        self.admission_late(at_ns, request);
        self.observe_in(sent_at, at_ns, EventKind::RequestAdmitted { request, worker, slot });
    }

    fn refused(&mut self, at_ns: u64, request: RequestId, reason: Reason) {
        let Some(known) = self.requests.get_mut(&request) else { return };
        known.phase = Phase::Over;
        let (worker, sent_at) = (known.worker, known.sent_at);
        self.admission_late(at_ns, request);
        self.observe_in(sent_at, at_ns, EventKind::RequestRejected { request, reason, worker: Some(worker) });
    }

    fn failed(&mut self, at_ns: u64, request: RequestId, failure: &Failure) {
        let Some(known) = self.requests.get_mut(&request) else { return };
        known.phase = Phase::Over;
        let worker = known.worker;
        if self.router.roster().state(worker) == Some(Seat::Starting) && *failure == Failure::ConnectionRefused {
            // Its process did not get as far as listening in the time that its tick gave it.
            self.lateness.add(Part::Start, (at_ns.saturating_sub(self.plan.sigterm_ns())) / 1000, 0);
        }
        let t = self.plan.schedule.tick_at(at_ns);
        let what = format!("{t} s: {request} was sent to {worker} and came to nothing: {failure}");
        match failure {
            // On loopback a worker's end can only refuse or reset: anything else is about this machine.
            Failure::NoConnection { kind, .. } if !matches!(kind, ErrorKind::ConnectionReset | ErrorKind::TimedOut) => {
                self.problems.push(what);
            }
            _ => self.remarks.push(what),
        }
    }

    fn progress(&mut self, learnt_ns: u64, request: RequestId, progress: &Progress) {
        let Some(worker) = self.requests.get(&request).map(|known| known.worker) else { return };
        let at_ns = progress.at_us.saturating_mul(1000);
        let planned = self.plan.schedule.tick_at((progress.at_us.saturating_sub(progress.late_us)) * 1000 + 999);
        // Microseconds are cut off: a worker that is on time to the nanosecond must not seem early.
        let t = self.plan.schedule.tick_at(at_ns + 999);
        let kind = match progress.step {
            // Only ever the first line, which the exchange has taken in.
            ProgressStep::Accepted { .. } => return,
            ProgressStep::StageEntered { stage } => EventKind::StageEntered { request, worker, stage },
            ProgressStep::ResultCommitted { sum } => {
                self.requests.entry(request).and_modify(|known| known.phase = Phase::Over);
                self.over(request);
                if let Some(known) = self.workers.get_mut(&worker) {
                    known.last_commit = known.last_commit.max(Some(planned));
                }
                EventKind::ResultCommitted { request, worker, sum }
            }
            ProgressStep::CommitRefused { sum } => {
                // The worker did commit once more; that nothing came of it is the store's merit.
                self.over(request);
                self.push(t, at_ns, progress.late_us, EventKind::ResultCommitted { request, worker, sum });
                if let Some(observed) = self.events.last_mut() {
                    observed.note = Some("refused by the store, which has a result of it".to_owned());
                }
                return;
            }
            ProgressStep::CommitFailed { ref error } => {
                self.over(request);
                self.problems.push(format!("the result store did not take {request} of {worker}: {error}"));
                return;
            }
        };
        if !matches!(kind, EventKind::StageEntered { stage: Stage::Prepare, .. }) {
            let allowed_us = self.plan.allowed_us(Part::Completion, planned);
            self.lateness.add(Part::Completion, progress.late_us, allowed_us);
            let learnt_us = learnt_ns.saturating_sub(self.plan.schedule.start_of(planned)) / 1000;
            if matches!(kind, EventKind::ResultCommitted { .. }) {
                self.lateness.add(Part::Completion, learnt_us, self.plan.allowed_to_learn_us(planned));
            }
        }
        self.push(t, at_ns, progress.late_us, kind);
    }

    fn exchange_ended(&mut self, request: RequestId, ending: &Ending) {
        let Some(known) = self.requests.get_mut(&request) else { return };
        let worker = known.worker;
        match ending {
            Ending::Completed { .. } | Ending::CommitRefused | Ending::CommitFailed { .. } => {
                known.phase = Phase::Over;
                self.over(request);
            }
            Ending::CommittedBut { flaw, .. } => {
                known.phase = Phase::Over;
                self.over(request);
                self.remarks.push(format!("{request}: its result was acknowledged, but then {flaw}"));
            }
            Ending::Broken(_) => {
                known.phase = Phase::Broken;
                self.settle_broken(worker);
            }
        }
    }

    /// The router no longer counts the request.
    fn over(&mut self, request: RequestId) {
        // A commit ends it, and so does the end of the answer that follows it.
        let _ = self.router.roster_mut().close(request);
    }

    /// An invocation whose answer broke off was killed if its worker is gone; as long as the worker lives it may still
    /// commit, and the store will tell.
    fn settle_broken(&mut self, worker: WorkerId) {
        let Some(Life::Ended(at_ns)) = self.workers.get(&worker).map(|known| known.life) else { return };
        let broken = self.requests.iter_mut().filter(|(_, known)| known.worker == worker);
        let killed: Vec<RequestId> = broken
            .filter(|(_, known)| known.phase == Phase::Broken)
            .map(|(&request, known)| {
                known.phase = Phase::Over;
                request
            })
            .collect();
        for request in killed {
            self.over(request);
            self.observe(at_ns, EventKind::InvocationKilled { request, worker });
        }
    }

    // Bookkeeping.

    fn admission_late(&mut self, at_ns: u64, request: RequestId) {
        let due = self.plan.moments().iter().find(|(_, moment)| *moment == Moment::Arrival(request));
        if let Some(&(planned, _)) = due {
            self.late(at_ns, planned, Part::Admission);
        }
    }

    fn late(&mut self, at_ns: u64, planned_ns: u64, part: Part) {
        let allowed_us = self.plan.allowed_us(part, self.plan.schedule.tick_at(planned_ns));
        self.lateness.add(part, at_ns.saturating_sub(planned_ns) / 1000, allowed_us);
    }

    fn observe(&mut self, at_ns: u64, kind: EventKind) {
        self.observe_in(self.plan.schedule.tick_at(at_ns), at_ns, kind);
    }

    fn observe_in(&mut self, t: Tick, at_ns: u64, kind: EventKind) {
        let planned = match kind {
            EventKind::WorkerReady { worker } | EventKind::WorkerFailed { worker, .. } => {
                self.plan.schedule.start_of(self.ready_at(worker))
            }
            EventKind::SigtermSent { .. } | EventKind::SigtermSkipped { .. } | EventKind::ReadinessWithdrawn { .. } => {
                self.plan.sigterm_ns()
            }
            EventKind::SigkillSent { .. } => self.plan.sigkill_ns(),
            _ => at_ns,
        };
        self.push(t, at_ns, at_ns.saturating_sub(planned) / 1000, kind);
    }

    fn push(&mut self, t: Tick, at_ns: u64, late_us: u64, kind: EventKind) {
        let at_us = (i128::from(at_ns) - i128::from(self.plan.schedule.origin_ns)) / 1000;
        let pid = kind.worker().and_then(|worker| self.workers.get(&worker)).and_then(|worker| worker.pid);
        let at_us = i64::try_from(at_us).unwrap_or(i64::MAX);
        self.events.push(Observed { event: Event { t, kind }, at_us, late_us, pid, note: None });
    }
}

#[cfg(test)]
mod tests;
