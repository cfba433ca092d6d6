//! Makes one drill happen with real processes and real signals.
//!
//! The shell around [`state::Drill`]: it waits for whatever comes next (a planned moment, a worker's notice, an answer,
//! the end of a process), lets the drill decide, and carries out what it decided.

mod acts;
pub mod input;
pub mod lateness;
pub mod notify;
pub mod plan;
pub mod settle;
pub mod setup;
pub mod state;
mod stepped;
mod surroundings;
mod tasks;
mod wakes;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    net::{Ipv4Addr, SocketAddr},
    rc::Rc,
};

use anyhow::Context;
use scenarios::{Schedule, Signal, Tick, WorkerId};
use tempfile::TempPath;
use tokio::{
    net::TcpSocket,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::{JoinSet, yield_now},
};
use worker::{
    clock::{self, Timer},
    store,
};

use self::{
    input::Input,
    lateness::LatenessLog,
    notify::NotifySocket,
    plan::Plan,
    state::{Drill, foreign::BOOT_PATIENCE_NS},
    stepped::Stepper,
    wakes::Wake,
};
pub use self::{
    setup::{Clock, Done, Extent, Setup, StopPipe, worker_log},
    state::Remains,
    surroundings::STORE_LINES,
};
use crate::{
    entry,
    evidence::{Collector, Look},
    failure::Failure,
    foreign::{lines, pipe::NotifyPipe},
    isolation::Isolation,
    process::{self, Live, Other, Seat},
    record::{Observed, Reactions},
};

/// How long it may take to start the workers before the drill's clock starts, in nanoseconds: once, and for each.
const LEAD_NS: (u64, u64) = (10_000_000, 4_000_000);
/// The same for foreign ones: a large program takes longer, and while it boots the next one waits for a processor.
const FOREIGN_LEAD_NS: (u64, u64) = (20_000_000, 40_000_000);

/// Runs the drill to its end. `live` sees every event as it becomes known.
///
/// Whatever happens, no process that it started is left when it returns.
///
/// # Errors
/// Where the machine does not give what any drill needs: ports, sockets, files.
pub async fn run(setup: &Setup<'_>, stop: &StopPipe, live: &mut dyn FnMut(&Observed)) -> anyhow::Result<Done> {
    let results = store::create(setup.store).map_err(|error| {
        Failure::unable(format!("can't make the result store {}: {error}", setup.store.display()))
            .hint("is there some space left, and may you write there? --out DIR stores the run elsewhere")
    })?;
    let lines = setup.store.with_file_name(STORE_LINES);
    if setup.foreign {
        lines::create(&lines).map_err(|error| Failure::of_io("make", &lines, &error))?;
    }
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
    let mut rows = results.rows().context("the result store can't be read after the drill")?;
    if setup.foreign {
        let stored = lines::read(&lines)?;
        rows.extend(stored.rows);
        rows.sort_by_key(|row| (row.committed_us, row.request));
        done.remains
            .remarks
            .extend(stored.cut.map(|cut| format!("the store's last line has no end, so it is no commit: {cut:?}")));
    }
    let (events, remarks) = settle::settle(done.remains.events, &rows, schedule);
    done.remains.events = events;
    done.remains.remarks.extend(remarks);
    Ok(done)
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
    /// Where foreign workers speak that have no datagram sockets.
    pipes: BTreeMap<WorkerId, (Rc<NotifyPipe>, TempPath)>,
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
        let ports = (0..scenario.workers()).map(|_| surroundings::reserve_port()).collect::<io::Result<Vec<_>>>();
        let ports = ports.context("no TCP port can be had for a worker")?;
        let addresses = ports.iter().map(TcpSocket::local_addr).collect::<io::Result<Vec<_>>>()?;
        // A port that we hold tells this drill apart from every other one that runs now, and the moment from one that had
        // that port just before and is not gone altogether.
        let name = format!("{}-{}", addresses.first().map_or(0, SocketAddr::port), clock::now_ns());
        let mut tasks = JoinSet::new();
        let lifeline = match setup.isolation {
            Isolation::Namespace => None,
            Isolation::Bare { .. } => {
                Some(surroundings::lifeline(&name, &mut tasks).context("the workers' lifeline can't be made")?)
            }
        };
        let (wakes, woken) = unbounded_channel();
        let (mut clocks, mut steppers) = (BTreeMap::new(), BTreeMap::new());
        let (mut sockets, mut pipes) = (BTreeMap::new(), BTreeMap::new());
        for worker in (1..=scenario.workers()).map(WorkerId) {
            let socket = Rc::new(NotifySocket::open(&name, worker).context("no notify socket can be made")?);
            tasks.spawn_local(tasks::listen(worker, Rc::clone(&socket), wakes.clone()));
            sockets.insert(worker, socket);
            if setup.foreign {
                let path = setup.directory.join(format!("{worker}.notify"));
                let pipe = NotifyPipe::open(&path).map_err(|error| Failure::of_io("make", &path, &error))?;
                let pipe = Rc::new(pipe);
                // Removed with the attempt: the task that reads from it may be there for a moment longer.
                let path = TempPath::try_from_path(path).context("no named pipe can be made")?;
                tasks.spawn_local(tasks::listen_to_pipe(worker, Rc::clone(&pipe), wakes.clone()));
                pipes.insert(worker, (pipe, path));
            }
            if setup.clock == Clock::Stepped {
                let (address, listening) =
                    stepped::open(&name, worker, wakes.clone()).context("no clock can be made for a worker")?;
                tasks.spawn_local(listening);
                clocks.insert(worker, address);
                steppers.insert(worker, Stepper::default());
            }
        }
        let (once, each) = if setup.foreign { FOREIGN_LEAD_NS } else { LEAD_NS };
        let schedule = setup.clock.schedule(once + each * u64::from(scenario.initial_workers));
        let mut plan = Plan::new(scenario, schedule, setup.extent, setup.fault);
        if setup.foreign {
            plan = plan.for_foreign_workers(Tick::START + scenario.startup_s, BOOT_PATIENCE_NS);
        }
        let workers = addresses.into_iter().map(|addr| (Ipv4Addr::LOCALHOST, addr.port()).into()).collect();
        Ok(Run {
            setup,
            drill: Drill::new(scenario, plan.clone(), workers, setup.fault)
                .with_foreign_workers(setup.foreign)
                .with_told_status(setup.told_status),
            collector: Collector::new(schedule, &argv, setup.worker, setup.kernel_trace),
            plan,
            argv,
            seat: if scenario.pid_namespace { Seat::Pid1 } else { Seat::Ordinary },
            told: 0,
            ports,
            sockets,
            pipes,
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
        self.collector.wait_for_dying();
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

    fn start_initial_workers(&mut self) -> anyhow::Result<()> {
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
    fn catch_up(&mut self) -> anyhow::Result<bool> {
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
}
