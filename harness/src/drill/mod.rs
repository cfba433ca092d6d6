//! Makes one drill happen with real processes and real signals.
//!
//! The shell around [`state::Drill`]: it waits for whatever comes next (a planned moment, a worker's notice, an answer,
//! the end of a process), lets the drill decide, and carries out what it decided.

pub mod lateness;
pub mod notify;
pub mod plan;
pub mod settle;
pub mod state;
mod stepped;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::File,
    io,
    net::{Ipv4Addr, SocketAddr},
    os::{fd::OwnedFd, linux::net::SocketAddrExt, unix::net},
    path::Path,
    rc::Rc,
};

use anyhow::Context;
use router::{Exchange, Next, Opened};
use scenarios::{Fault, RequestId, Scenario, Schedule, Signal, Status, Tick, WorkerId, wire};
use tokio::{
    io::unix::AsyncFd,
    net::TcpSocket,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::{JoinSet, yield_now},
};
use worker::{
    clock::{self, Timer},
    store,
};

use self::{
    lateness::LatenessLog,
    notify::{Notice, NotifySocket},
    plan::Plan,
    state::{Act, Drill, Input, Remains},
    stepped::{Said, Stepper},
};
use crate::{
    entry,
    evidence::{Collector, Evidence, Look},
    failure::Failure,
    isolation::Isolation,
    process::{self, Launch, Live, Other, Seat},
    readable,
    record::{Observed, Reactions},
};

/// What a drill needs.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// What to drill.
    pub scenario: &'a Scenario,
    /// What makes model time pass.
    pub clock: Clock,
    /// What goes wrong on purpose.
    pub fault: Option<Fault>,
    /// How much of it is played.
    pub extent: Extent,
    /// The worker's argv.
    pub worker: &'a [OsString],
    /// Where scripts are written.
    pub directory: &'a Path,
    /// Where the result store is made.
    pub store: &'a Path,
    /// Opens the log of a worker.
    pub log: &'a dyn Fn(WorkerId) -> io::Result<File>,
    /// What keeps the drill apart from the rest of the machine.
    pub isolation: &'a Isolation,
    /// Whether the kernel's own record is to be part of the evidence: the host's pids are looked up for it then.
    pub kernel_trace: bool,
}

/// What makes the model time of a drill pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clock {
    /// The real clock, scaled.
    Scaled {
        /// Model seconds in one real second.
        speed: f64,
    },
    /// The processes of the drill themselves: it goes on when each is done with the tick.
    Stepped,
}

impl Clock {
    /// Model seconds in one real second, where there is such a thing.
    #[must_use]
    pub fn speed(self) -> Option<f64> {
        match self {
            Clock::Scaled { speed } => Some(speed),
            Clock::Stepped => None,
        }
    }

    /// The schedule of a drill that is about to start `lead_ns` from now. A stepped one has no real moments: its
    /// microseconds are those of the model.
    fn schedule(self, lead_ns: u64) -> Schedule {
        match self {
            Clock::Scaled { speed } => Schedule::new(clock::now_ns() + lead_ns, speed),
            Clock::Stepped => Schedule::new(0, 1.0),
        }
    }
}

/// How much of a scenario is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of its 60 model seconds, with all its requests.
    Whole,
    /// No requests, and no longer than to its deadline.
    Measurement,
}

/// What came of it.
pub struct Done {
    /// What was observed, settled with the result store and in trace order, and the rest.
    pub remains: Remains,
    /// How long it took, in real milliseconds.
    pub wall_ms: u64,
    /// Each worker's process that was seen to be the worker itself, and its top's, for those that were started.
    pub tops: BTreeMap<WorkerId, i32>,
    /// What is known of the processes of the worker that was told to stop.
    pub evidence: Option<Evidence>,
    /// CLOCK_MONOTONIC at the drill's start, in nanoseconds; on a stepped clock, when its processes were started.
    pub origin_ns: u64,
    /// How soon the worker that was told to stop reacted.
    pub reactions: Reactions,
}

/// Tells when a person, or whoever started us, wants it to end: the pipe from the outer process has something in it or
/// is closed.
#[derive(Debug)]
pub struct StopPipe {
    pipe: AsyncFd<OwnedFd>,
}

impl StopPipe {
    /// Takes the reading end of the pipe. Nothing is ever read from it, so that it stays readable for good.
    ///
    /// # Errors
    /// Of registering it with the runtime.
    pub fn new(pipe: OwnedFd) -> io::Result<StopPipe> {
        Ok(StopPipe { pipe: readable::register(pipe)? })
    }

    /// Waits until the drill is to stop.
    pub async fn stopped(&self) {
        // An error would mean that the runtime is going away.
        let _ = self.pipe.readable().await.map(|mut guard| guard.retain_ready());
    }
}

/// How long it may take to start the workers before the drill's clock starts, in nanoseconds: once, and for each.
const LEAD_NS: (u64, u64) = (10_000_000, 4_000_000);

/// Runs the drill to its end. `live` sees every event as it becomes known.
///
/// Whatever happens, no process that it started is left when it returns.
///
/// # Errors
/// Where the machine does not give what any drill needs: ports, sockets, files.
pub async fn run(setup: &Setup<'_>, stop: &StopPipe, live: &mut dyn FnMut(&Observed)) -> anyhow::Result<Done> {
    let results = store::create(setup.store).map_err(|error| {
        Failure::unable(format!("the result store can't be made: {error}"))
            .hint("is there some space left, and may you write there? --out DIR stores the run elsewhere")
    })?;
    let run = Run::prepare(setup).await;
    let done = match run {
        Ok(run) => run.play(stop, live).await,
        Err(error) => Err(error),
    };
    process::kill_all();
    let (schedule, collector, mut done) = done?;
    done.evidence = collector.finish();
    if setup.clock == Clock::Stepped {
        // Nothing is late here: what happens in another tick than it should does so by itself and not for want of time.
        done.remains.lateness = LatenessLog::default();
    }
    let rows = results.rows().context("the result store can't be read after the drill")?;
    let (events, remarks) = settle::settle(done.remains.events, &rows, schedule);
    done.remains.events = events;
    done.remains.remarks.extend(remarks);
    Ok(done)
}

/// What the tasks of a drill tell its loop.
enum Wake {
    /// Something happened.
    Input(Input),
    /// A worker's end of a stepped clock.
    Clock(WorkerId, Said),
    /// A worker's top can be reaped.
    TopEnded(WorkerId),
    /// A worker's top was started.
    Top(WorkerId, Live),
    /// It could not be.
    NotStarted(WorkerId, String),
    /// Nothing happened; it is time to ask whether something should have.
    Nudge,
}

struct Run<'a> {
    setup: &'a Setup<'a>,
    plan: Plan,
    argv: Vec<OsString>,
    seat: Seat,
    drill: Drill,
    told: usize,
    /// Keeps each worker's port from everybody else until the worker listens on it, and while it does.
    ports: Vec<TcpSocket>,
    sockets: BTreeMap<WorkerId, Rc<NotifySocket>>,
    lifeline: Option<String>,
    /// Where workers follow a stepped clock, and what is known of them; empty on a scaled one.
    clocks: BTreeMap<WorkerId, String>,
    steppers: BTreeMap<WorkerId, Stepper>,
    /// The moment at hand on a stepped clock.
    stepped_ns: Option<u64>,
    started_ns: u64,
    finished: bool,
    tops: BTreeMap<WorkerId, Live>,
    pids: BTreeMap<WorkerId, i32>,
    /// The processes below a top when a signal was last sent to it.
    below: BTreeMap<WorkerId, Vec<Other>>,
    /// When SIGTERM and SIGKILL were really sent.
    sent_ns: BTreeMap<Signal, u64>,
    reactions: Reactions,
    collector: Collector,
    wakes: UnboundedSender<(u64, Wake)>,
    woken: UnboundedReceiver<(u64, Wake)>,
    tasks: JoinSet<()>,
    /// Tops that are being started at this moment.
    starting: usize,
}

impl<'a> Run<'a> {
    async fn prepare(setup: &'a Setup<'a>) -> anyhow::Result<Run<'a>> {
        let scenario = setup.scenario;
        let argv = entry::command(&scenario.entrypoint, setup.worker, setup.directory)
            .context("the entrypoint can't be written down")?;
        let ports = (0..scenario.workers()).map(|_| reserve_port()).collect::<io::Result<Vec<_>>>();
        let ports = ports.context("no TCP port can be had for a worker")?;
        let addresses = ports.iter().map(TcpSocket::local_addr).collect::<io::Result<Vec<_>>>()?;
        // A port that we hold tells this drill apart from every other one that runs now, and the moment from one that had
        // that port just before and is not gone altogether.
        let name = format!("{}-{}", addresses.first().map_or(0, SocketAddr::port), clock::now_ns());
        let mut tasks = JoinSet::new();
        let lifeline = match setup.isolation {
            Isolation::Namespace => None,
            Isolation::Bare { .. } => Some(lifeline(&name, &mut tasks).context("the workers' lifeline can't be made")?),
        };
        let (wakes, woken) = unbounded_channel();
        let (mut clocks, mut steppers) = (BTreeMap::new(), BTreeMap::new());
        let mut sockets = BTreeMap::new();
        for worker in (1..=scenario.workers()).map(WorkerId) {
            let socket = Rc::new(NotifySocket::open(&name, worker).context("no notify socket can be made")?);
            tasks.spawn_local(listen(worker, Rc::clone(&socket), wakes.clone()));
            sockets.insert(worker, socket);
            if setup.clock == Clock::Stepped {
                let (address, listening) =
                    stepped::open(&name, worker, wakes.clone()).context("no clock can be made for a worker")?;
                tasks.spawn_local(listening);
                clocks.insert(worker, address);
                steppers.insert(worker, Stepper::default());
            }
        }
        let lead = LEAD_NS.0 + LEAD_NS.1 * u64::from(scenario.initial_workers);
        let schedule = setup.clock.schedule(lead);
        let plan = Plan::new(scenario, schedule, setup.extent, setup.fault);
        let workers = addresses.into_iter().map(|addr| (Ipv4Addr::LOCALHOST, addr.port()).into()).collect();
        Ok(Run {
            setup,
            drill: Drill::new(scenario, plan.clone(), workers, setup.fault),
            collector: Collector::new(schedule, &argv, setup.worker, setup.kernel_trace),
            plan,
            argv,
            seat: if scenario.pid_namespace { Seat::Pid1 } else { Seat::Ordinary },
            told: 0,
            ports,
            sockets,
            lifeline,
            clocks,
            steppers,
            stepped_ns: None,
            started_ns: clock::now_ns(),
            finished: false,
            tops: BTreeMap::new(),
            pids: BTreeMap::new(),
            below: BTreeMap::new(),
            sent_ns: BTreeMap::new(),
            reactions: Reactions::default(),
            wakes,
            woken,
            tasks,
            starting: 0,
        })
    }

    async fn play(
        mut self,
        stop: &StopPipe,
        live: &mut dyn FnMut(&Observed),
    ) -> anyhow::Result<(Schedule, Collector, Done)> {
        self.started_ns = clock::now_ns();
        let origin_ns = match self.setup.clock {
            Clock::Scaled { .. } => self.plan.schedule.origin_ns,
            Clock::Stepped => self.started_ns,
        };
        self.collector.begin(origin_ns);
        match self.setup.clock {
            Clock::Scaled { .. } => self.keep_time(stop, live).await?,
            Clock::Stepped => self.step_through(stop, live).await?,
        }
        // A process that is only just being started must not escape the clean-up.
        while self.starting > 0 {
            let Some((at_ns, wake)) = self.woken.recv().await else { break };
            self.wake(at_ns, wake)?;
        }
        self.collector.look_again(Look::AtEnd, |noted| drop(self.tasks.spawn_local(noted)));
        self.tasks.abort_all();
        let wall_ms = (clock::now_ns() - self.started_ns) / 1_000_000;
        let schedule = self.plan.schedule;
        let remains = self.drill.into_remains();
        let reactions = self.reactions;
        Ok((schedule, self.collector, Done { remains, wall_ms, tops: self.pids, evidence: None, origin_ns, reactions }))
    }

    /// Plays the drill to its end on the real clock.
    async fn keep_time(&mut self, stop: &StopPipe, live: &mut dyn FnMut(&Observed)) -> anyhow::Result<()> {
        self.start_initial_workers()?;
        let moments = self.plan.moments().to_vec();
        let mut moments = moments.into_iter().peekable();
        let mut timer = Timer::new()?;
        while !self.finished {
            let due = moments.peek().copied();
            let until = async {
                match due {
                    Some((at_ns, _)) => timer.until(at_ns).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some((at_ns, wake)) = self.woken.recv() => self.finished |= self.wake(at_ns, wake)?,
                () = stop.stopped() => self.finished |= self.handle(clock::now_ns(), Input::Stop)?,
                waited = until => {
                    waited?;
                    // What happened before this moment is taken in first: the other tasks get their turn.
                    yield_now().await;
                    self.finished |= self.catch_up()?;
                    if let Some((_, moment)) = moments.next().filter(|_| !self.finished) {
                        self.finished |= self.handle(clock::now_ns(), Input::Due(moment))?;
                    }
                }
            }
            self.show(live);
        }
        Ok(())
    }

    fn start_initial_workers(&mut self) -> io::Result<()> {
        for _ in 0..self.setup.scenario.initial_workers {
            if let Some(act) = self.drill.start_worker(Tick::START) {
                self.carry_out(act)?;
            }
        }
        Ok(())
    }

    /// Shows what became known since the last time.
    fn show(&mut self, live: &mut dyn FnMut(&Observed)) {
        for observed in &self.drill.events()[self.told..] {
            live(observed);
        }
        self.told = self.drill.events().len();
    }

    /// Takes in everything that has happened by now. True when the drill is over.
    fn catch_up(&mut self) -> io::Result<bool> {
        let mut finished = false;
        while let Ok((at_ns, wake)) = self.woken.try_recv() {
            finished |= self.wake(at_ns, wake)?;
        }
        let ended: Vec<WorkerId> =
            self.tops.iter().filter(|(_, top)| top.has_ended()).map(|(&worker, _)| worker).collect();
        for worker in ended {
            finished |= self.wake(clock::now_ns(), Wake::TopEnded(worker))?;
        }
        Ok(finished)
    }

    fn wake(&mut self, at_ns: u64, wake: Wake) -> io::Result<bool> {
        match wake {
            Wake::Input(input) => {
                self.see(&input);
                self.handle(at_ns, input)
            }
            Wake::Clock(worker, said) => {
                if let Some(stepper) = self.steppers.get_mut(&worker) {
                    stepper.hear(said);
                }
                Ok(false)
            }
            Wake::Nudge => Ok(false),
            Wake::NotStarted(worker, problem) => {
                self.starting -= 1;
                self.handle(at_ns, Input::NotStarted { worker, problem })
            }
            Wake::Top(worker, top) => {
                self.starting -= 1;
                let pid = top.pid();
                let (ended, wakes) = (top.watch()?, self.wakes.clone());
                self.tasks.spawn_local(async move {
                    ended.await;
                    let _ = wakes.send((clock::now_ns(), Wake::TopEnded(worker)));
                });
                self.pids.insert(worker, pid);
                self.tops.insert(worker, top);
                self.handle(at_ns, Input::Started { worker, pid })
            }
            Wake::TopEnded(worker) => self.top_ended(at_ns, worker),
        }
    }

    fn top_ended(&mut self, at_ns: u64, worker: WorkerId) -> io::Result<bool> {
        let Some(top) = self.tops.remove(&worker) else { return Ok(false) };
        // What it said before it ended comes before its end.
        let mut finished = false;
        while let Some((notices, pid)) = self.sockets.get(&worker).and_then(|socket| socket.try_next()) {
            for notice in notices {
                let input = Input::Notified { worker, notice, pid };
                self.see(&input);
                finished |= self.handle(at_ns, input)?;
            }
        }
        match top.reap() {
            Err(top) => {
                self.tops.insert(worker, top);
                Ok(finished)
            }
            Ok(ended) => {
                self.collector.reaped(ended.pid, ended.status);
                if worker == self.drill.target()
                    && let Some(sent_ns) = self.sent_ns.get(&Signal::KILL)
                {
                    self.reactions.sigkill_reaped_us = Some(clock::now_ns().saturating_sub(*sent_ns) / 1000);
                }
                let below = self.below.remove(&worker).unwrap_or_default();
                let mut survivors: Vec<Other> = below.into_iter().filter(|process| !process.has_ended()).collect();
                if self.setup.fault == Some(Fault::WaitsForLeaderOnly) {
                    survivors.clear();
                }
                let pids = survivors.iter().map(Other::pid).collect();
                if !survivors.is_empty() {
                    self.tasks.spawn_local(outlive(worker, survivors, self.wakes.clone()));
                }
                let status = match (ended.status, self.setup.fault) {
                    (Status::Signal(signal), Some(Fault::FoldsStatus)) => {
                        Status::Code(u8::try_from(128 + signal.number()).unwrap_or(u8::MAX))
                    }
                    (status, _) => status,
                };
                Ok(finished | self.handle(at_ns, Input::TopEnded { worker, status, survivors: pids })?)
            }
        }
    }

    /// Counts what a worker told, for a stepped clock.
    fn see(&mut self, input: &Input) {
        let worker = match *input {
            Input::Notified { worker, .. } => Some(worker),
            Input::Accepted { request, .. } | Input::Progress { request, .. } => self.drill.worker_of(request),
            _ => None,
        };
        if let Some(stepper) = worker.and_then(|worker| self.steppers.get_mut(&worker)) {
            stepper.see();
        }
    }

    fn handle(&mut self, at_ns: u64, input: Input) -> io::Result<bool> {
        self.collector.keep_time(self.stepped_ns);
        if let Input::Notified { worker, notice: Notice::Stopping { sigterm_from: Some(from_pid), at_us }, .. } = input
        {
            self.collector.received(worker, from_pid, at_ns);
            let took_us = at_us.zip(self.sent_ns.get(&Signal::TERM)).map(|(at, sent)| at.saturating_sub(sent / 1000));
            self.reactions.sigterm_handled_us = self.reactions.sigterm_handled_us.or(took_us);
        }
        // On a stepped clock everything happens at the moment at hand.
        let acts = match self.stepped_ns {
            None => self.drill.handle(at_ns, input),
            Some(stepped_ns) => {
                let first = self.drill.events().len();
                let acts = self.drill.handle(stepped_ns, input);
                let real_us = clock::now_ns().saturating_sub(self.started_ns) / 1000;
                self.drill.stamp(first, i64::try_from(real_us).unwrap_or(i64::MAX));
                acts
            }
        };
        let mut finished = false;
        for act in acts {
            finished |= act == Act::Finish;
            self.carry_out(act)?;
        }
        Ok(finished)
    }

    fn carry_out(&mut self, act: Act) -> io::Result<()> {
        match act {
            Act::Finish => Ok(()),
            Act::Start(worker) => self.start(worker),
            Act::Send(worker, signal) => {
                let Some(top) = self.tops.get(&worker) else { return Ok(()) };
                self.below.insert(worker, process::descendants(top.pid()));
                let at_ns = clock::now_ns();
                top.signal(signal)?;
                self.sent_ns.entry(signal).or_insert(at_ns);
                self.handle(at_ns, Input::Sent { worker, signal })?;
                Ok(())
            }
            Act::Look { worker, speaker, look } => {
                let spawn = |noted| drop(self.tasks.spawn_local(noted));
                match (look, self.tops.get(&worker)) {
                    (Look::Before, Some(top)) => self.collector.look_before(worker, top.pid(), speaker, spawn),
                    (Look::Before, None) => {}
                    (look, _) => self.collector.look_again(look, spawn),
                }
                Ok(())
            }
            Act::Dispatch { request, worker: _, addr, tick } => {
                self.tasks.spawn_local(exchange(request, addr, tick, self.wakes.clone()));
                Ok(())
            }
        }
    }

    fn start(&mut self, worker: WorkerId) -> io::Result<()> {
        let log = (self.setup.log)(worker)?;
        let launch = Launch { argv: self.argv.clone(), env: self.environment(worker), log, seat: self.seat };
        let wakes = self.wakes.clone();
        self.starting += 1;
        self.tasks.spawn_local(async move {
            let started = process::spawn(launch).await;
            let wake = match started {
                Ok(top) => Wake::Top(worker, top),
                Err(error) => Wake::NotStarted(worker, error.to_string()),
            };
            let _ = wakes.send((clock::now_ns(), wake));
        });
        Ok(())
    }

    /// Our own environment, and what makes the command a worker of this drill.
    fn environment(&self, worker: WorkerId) -> Vec<(OsString, OsString)> {
        let scenario = self.setup.scenario;
        let port = self.ports.get(usize::from(worker.0) - 1).and_then(|port| port.local_addr().ok());
        let schedule = self.plan.schedule;
        let fails = scenario.fail_worker_1 && worker == WorkerId::FIRST;
        let mut own: Vec<(&str, OsString)> = vec![
            (wire::env::PORT, port.map_or(0, |addr| addr.port()).to_string().into()),
            (wire::env::WORKER, worker.to_string().into()),
            (wire::env::SLOTS, scenario.slots_per_worker.to_string().into()),
            (wire::env::ORIGIN_NS, schedule.origin_ns.to_string().into()),
            (wire::env::TICK_NS, schedule.tick_ns.to_string().into()),
            (wire::env::READY_TICK, self.drill.ready_at(worker).0.to_string().into()),
            (wire::env::INVOCATION_TICKS, scenario.invocation_s.0.to_string().into()),
            (wire::env::ON_SIGTERM, scenario.on_sigterm.name().into()),
            (wire::env::HANDLER_INSTALLED, scenario.handler_installed.name().into()),
            (wire::env::FAIL_BOOT, fails.to_string().into()),
            (wire::env::STORE, self.setup.store.into()),
        ];
        if let Some(socket) = self.sockets.get(&worker) {
            own.push((wire::env::NOTIFY_SOCKET, socket.address().into()));
        }
        if let Some(lifeline) = &self.lifeline {
            own.push((wire::env::LIFELINE, lifeline.into()));
        }
        if let Some(clock) = self.clocks.get(&worker) {
            own.push((wire::env::CLOCK, clock.into()));
        }
        if let Some(fault) = self.setup.fault {
            own.push((wire::env::FAULT, fault.name().into()));
        }
        let inherited = std::env::vars_os().filter(|(name, _)| {
            own.iter().all(|(own, _)| name != own) && !name.as_encoded_bytes().starts_with(b"TERMDRILL_")
        });
        inherited.chain(own.iter().map(|(name, value)| (OsString::from(name), value.clone()))).collect()
    }
}

/// A port on all addresses that nobody else gets while we hold it: bound, but not listening. With SO_REUSEADDR on both
/// sides the worker can bind it all the same (socket(7)).
fn reserve_port() -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::UNSPECIFIED, 0).into())?;
    Ok(socket)
}

/// A socket that workers connect to; they end when we do, since the connections end then.
fn lifeline(name: &str, tasks: &mut JoinSet<()>) -> io::Result<String> {
    let name = format!("termdrill-{name}-lifeline");
    let listener = net::UnixListener::bind_addr(&net::SocketAddr::from_abstract_name(&name)?)?;
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    tasks.spawn_local(async move {
        let mut held = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            held.push(connection);
        }
    });
    Ok(format!("@{name}"))
}

async fn listen(worker: WorkerId, socket: Rc<NotifySocket>, wakes: UnboundedSender<(u64, Wake)>) {
    while let Ok((notices, pid)) = socket.next().await {
        let at_ns = clock::now_ns();
        for notice in notices {
            let _ = wakes.send((at_ns, Wake::Input(Input::Notified { worker, notice, pid })));
        }
    }
}

async fn outlive(worker: WorkerId, survivors: Vec<Other>, wakes: UnboundedSender<(u64, Wake)>) {
    for survivor in survivors {
        if let Ok(ended) = survivor.watch() {
            ended.await;
        }
    }
    let _ = wakes.send((clock::now_ns(), Wake::Input(Input::SurvivorsEnded { worker })));
}

async fn exchange(request: RequestId, addr: SocketAddr, tick: Tick, wakes: UnboundedSender<(u64, Wake)>) {
    let tell = |input| {
        let _ = wakes.send((clock::now_ns(), Wake::Input(input)));
    };
    let body = wire::InvocationRequest { request: request.0, addends: request.addends().to_vec() };
    // There is no time limit of its own: the end of the drill ends it.
    match Exchange::open(addr, &body, tick, std::future::pending()).await {
        Err(failure) => tell(Input::Failed { request, failure }),
        Ok(Opened::Refused { reason }) => tell(Input::Refused { request, reason }),
        Ok(Opened::Accepted { slot, at_us, mut exchange, .. }) => {
            tell(Input::Accepted { request, slot, at_us });
            loop {
                match exchange.next().await {
                    Next::Progress(progress) => tell(Input::Progress { request, progress }),
                    Next::Ended(ending) => {
                        tell(Input::Ended { request, ending });
                        break;
                    }
                }
            }
        }
    }
}
