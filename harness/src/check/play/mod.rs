//! Plays one drill: starts the command, sends it requests, stops it, and watches until nothing more is to be seen.

mod finish;
mod look;
mod plan;
mod send;

use std::{cell::Cell, collections::VecDeque, fs::File, net::SocketAddr, process::id, rc::Rc};

use scenarios::{Schedule, Signal};
use tokio::task::JoinSet;
use worker::clock::{self, Timer};

use self::{
    look::Look,
    plan::{MS, Moment, Plan},
};
use super::{
    descriptors::Descriptors,
    load::{Finished, Load},
    memory,
    output::Output,
    profiles::Target,
    record::{Observed, Sending},
    reserved::Reserved,
    settings::{Seat, Settings, SignalAt},
    sockets,
    stall::Stalls,
    start,
};
use crate::{
    drill::{StopPipe, notify::NotifySocket},
    evidence::{KernelTrace, Watch},
    process::{self, Listening, Live},
};

/// How often it is looked who listens, and whether something is over.
const LOOK_NS: u64 = 5 * MS;
/// How often it is looked which connections the server has taken, at most.
const TAKEN_NS: u64 = 5 * MS;
/// How long what SIGKILL did not reach is watched, and how long SIGKILL itself may take.
const AFTERMATH_NS: u64 = 300 * MS;
const SIGKILL_NS: u64 = 2_000 * MS;

/// What is recorded of a drill besides what it shows by itself.
#[derive(Debug, Default)]
pub struct Recording {
    /// Where the output of the command goes, too.
    pub log: Option<File>,
    /// The kernel's record of its signals, or why there is none, where it is asked for.
    pub trace: Option<Result<KernelTrace, String>>,
}

/// Plays a drill in one seat. `None` where it is to stop.
///
/// Whatever happens, no process that it started is left when it returns.
///
/// # Errors
/// The command can't be started, or the machine does not give what a drill needs.
pub async fn play(
    settings: &Settings,
    seat: Seat,
    stop: &StopPipe,
    recording: Recording,
) -> anyhow::Result<Option<Observed>> {
    let played = match Run::start(settings, seat, recording).await {
        Ok(mut run) => {
            let _descriptors = Descriptors::all();
            let going = run.play(stop).await;
            run.look(Look::AtEnd);
            run.tasks.abort_all();
            // Nobody may hold a process that is reaped in the clean-up.
            run.top = None;
            going.map(|going| (run, going))
        }
        Err(error) => Err(error),
    };
    // Nothing is measured any more, and this thread ends soon.
    clock::leave_realtime();
    let beyond = process::kill_all();
    let (mut run, going) = played?;
    run.observed.beyond = beyond;
    Ok(going.map(|going| run.finish(&going)))
}

struct Run<'a> {
    settings: &'a Settings,
    port: u16,
    _reserved: Reserved,
    started_ns: u64,
    output: Output,
    notify: Option<NotifySocket>,
    top: Option<Live>,
    top_pid: i32,
    memory: memory::Guard,
    trace: Option<Result<KernelTrace, String>>,
    watch: Watch,
    tasks: JoinSet<()>,
    /// When the signal was to be sent, to which all times are told relatively.
    origin_ns: u64,
    signal_ns: Option<u64>,
    stalls: Stalls,
    /// The port, to see when it is closed.
    listening: Option<Listening>,
    top_was_ending: Rc<Cell<Option<bool>>>,
    /// Whether the app was on its way out when that was seen.
    closed_by_its_end: bool,
    observed: Observed,
}

/// What is left of a drill that has ended: its requests, where there were any.
struct Gone {
    requests: Option<Finished>,
    end_ns: u64,
    worst_late_ns: u64,
}

impl<'a> Run<'a> {
    async fn start(settings: &'a Settings, seat: Seat, recording: Recording) -> anyhow::Result<Run<'a>> {
        let reserved = start::port(settings.port)?;
        let port = reserved.number;
        let seat = match seat {
            Seat::Pid1 => process::Seat::Container,
            Seat::Process => process::Seat::Ordinary,
        };
        // What there is before the command is started is what it may use up.
        let memory = memory::Guard::start()?;
        let start::Started { top, output, notify, at_ns } = start::start(settings, seat, port, recording.log).await?;
        let schedule = Schedule { origin_ns: at_ns, tick_ns: 100 * MS };
        let mut run = Run {
            settings,
            port,
            _reserved: reserved,
            started_ns: at_ns,
            output,
            notify,
            top_pid: top.pid(),
            top: Some(top),
            memory,
            trace: recording.trace,
            watch: Watch::for_signal(schedule, settings.signal),
            tasks: JoinSet::new(),
            origin_ns: at_ns,
            signal_ns: None,
            stalls: Stalls::default(),
            listening: None,
            top_was_ending: Rc::default(),
            closed_by_its_end: false,
            observed: Observed { port, ..Observed::default() },
        };
        run.observed.top_pid = Some(run.top_pid);
        run.look(Look::Start);
        Ok(run)
    }

    /// `None` where it is to stop.
    async fn play(&mut self, stop: &StopPipe) -> anyhow::Result<Option<Gone>> {
        let due_ns = match self.settings.signal_at {
            SignalAt::AfterStart(ms) => Some(self.started_ns + (ms + self.settings.pre_stop_ms) * MS),
            SignalAt::AfterReady(_) => None,
        };
        // Where it is allowed, and not for the command, which runs already: what is late here is no fault of the server's.
        clock::prefer_realtime();
        let Some(top) = &self.top else { return Ok(None) };
        let waiting = start::Waiting {
            settings: self.settings,
            top,
            notify: self.notify.as_ref(),
            started_ns: self.started_ns,
            port: self.port,
        };
        let boot = waiting.until_ready(due_ns, stop.stopped()).await?;
        let ready_ns = clock::now_ns();
        let at_end = |why: String, observed: &mut Observed| {
            observed.unable = Some(why);
            Ok(Some(Gone { requests: None, end_ns: ready_ns, worst_late_ns: 0 }))
        };
        let address = match boot {
            start::Boot::Stopped => return Ok(None),
            start::Boot::Ready(address) => {
                self.observed.boot.ready_after_us = Some((ready_ns - self.started_ns) / 1000);
                if address.port() != self.port {
                    self.observed.boot.other_ports = vec![address.port()];
                    self.observed.port = address.port();
                }
                Some(address)
            }
            start::Boot::SignalDue => None,
            start::Boot::Ended => {
                self.reap();
                self.observed.ended_early = true;
                return at_end("it ended before it was ready".to_owned(), &mut self.observed);
            }
            start::Boot::TimedOut(found) => {
                let why = start::not_ready(self.settings, self.port, &found);
                self.observed.boot.other_ports = found.others;
                return at_end(why, &mut self.observed);
            }
        };
        let plan = Plan::new(self.settings, self.started_ns, ready_ns);
        self.count_from(plan.signal_ns, plan);
        self.drill(plan, address, stop).await
    }

    async fn drill(
        &mut self,
        mut plan: Plan,
        address: Option<SocketAddr>,
        stop: &StopPipe,
    ) -> anyhow::Result<Option<Gone>> {
        let mut load = address.map(|address| Load::new(self.settings, address));
        if let Some(load) = &mut load {
            // Not with the signal, which comes at a round time, but around it.
            let every_ns = self.settings.every_us * 1000;
            load.arrive(plan.ready_ns + every_ns / 2, every_ns, plan.arrivals_end_ns)?;
            load.put_off_before(if self.is_put_off() { u64::MAX } else { 0 });
        }
        let mut moments: VecDeque<_> = plan.moments(self.settings, address.is_some()).into();
        let mut timer = Timer::new()?;
        let mut look_ns = clock::now_ns();
        let mut taken_ns = look_ns;
        let mut worst_late_ns = 0;
        let mut end_ns = plan.deadline_ns + SIGKILL_NS;
        loop {
            let due = moments.front().copied();
            let next_ns = due.map_or(look_ns, |(at_ns, _)| at_ns.min(look_ns)).min(end_ns);
            tokio::select! {
                biased;
                () = stop.stopped() => return Ok(None),
                waited = timer.until(next_ns) => waited?,
            }
            let now_ns = clock::now_ns();
            let put_off = self.is_put_off();
            if put_off && let Some(stall_ns) = self.stalls.put_off(next_ns, now_ns) {
                moments.iter_mut().for_each(|(at_ns, _)| *at_ns += stall_ns);
                plan.shift(stall_ns);
                load.iter().for_each(|load| load.arrive_until(plan.arrivals_end_ns));
                end_ns += stall_ns;
                self.count_from(plan.signal_ns, plan);
            }
            let due = moments.front().copied();
            let mut due = due.filter(|(at_ns, _)| *at_ns <= now_ns);
            if let (Some((_, Moment::Signal)), Some(load)) = (due, &load)
                && let Some(wait_ns) = self.wait_for_requests(load, plan.signal_ns)
            {
                moments.iter_mut().for_each(|(at_ns, _)| *at_ns += wait_ns);
                plan.put_off(wait_ns);
                load.arrive_until(plan.arrivals_end_ns);
                end_ns += wait_ns;
                due = None;
            }
            if let Some((at_ns, moment)) = due {
                moments.pop_front();
                worst_late_ns = worst_late_ns.max(now_ns - at_ns);
                self.act(moment, load.as_mut()).await?;
                if let (Moment::Signal, Some(signal_ns)) = (moment, self.signal_ns) {
                    // All that follows is counted from when it was really sent.
                    let late_ns = signal_ns.saturating_sub(at_ns);
                    moments.iter_mut().for_each(|(at_ns, _)| *at_ns += late_ns);
                    plan.put_off(late_ns);
                    if let Some(load) = &load {
                        load.arrive_until(plan.arrivals_end_ns);
                        load.put_off_before(if put_off { signal_ns } else { 0 });
                    }
                    end_ns += late_ns;
                    self.count_from(signal_ns, plan);
                }
                if moment == Moment::Sigkill {
                    end_ns = clock::now_ns() + SIGKILL_NS;
                }
            }
            if now_ns < look_ns {
                continue;
            }
            look_ns = now_ns + LOOK_NS;
            self.look_at_listener();
            if let Some(load) = &load {
                load.give_up_late(false);
                if now_ns >= taken_ns && load.in_flight() > 0 {
                    self.look_at_queue(load);
                    // With very many connections a look takes long.
                    let took_ns = clock::now_ns() - now_ns;
                    taken_ns = now_ns + TAKEN_NS.max(10 * took_ns);
                }
            }
            if self.top.as_ref().is_some_and(Live::has_ended) {
                self.look(Look::TopGone);
                self.reap();
                self.observed.ended_early = self.signal_ns.is_none();
            }
            if self.is_over(now_ns, plan, load.as_ref(), &mut end_ns) {
                break;
            }
        }
        self.note_ends().await;
        // It may have closed and ended between two looks, or between a look and the one at whether it has ended.
        self.look_at_listener();
        self.observed.port_held_by = self.holders();
        let end_ns = clock::now_ns();
        let requests = match load {
            Some(load) => Some(load.finish().await),
            None => None,
        };
        Ok(Some(Gone { requests, end_ns, worst_late_ns }))
    }

    /// Whether all is put off by what our own side misses: until the signal, unless that is due so long after the start.
    fn is_put_off(&self) -> bool {
        self.signal_ns.is_none() && self.top.is_some() && matches!(self.settings.signal_at, SignalAt::AfterReady(_))
    }

    /// Tells all times relatively to this moment.
    fn count_from(&mut self, origin_ns: u64, plan: Plan) {
        if let Some(before) = &mut self.observed.before {
            before.at_us -= (origin_ns.cast_signed() - self.origin_ns.cast_signed()) / 1000;
        }
        self.origin_ns = origin_ns;
        self.watch.begin(origin_ns);
        self.observed.started_us = self.micros(self.started_ns);
        self.observed.stop_us = self.micros(plan.stop_ns);
        self.observed.deadline_us = self.micros(plan.deadline_ns);
    }

    /// Whether nothing more is to be seen. What SIGKILL did not reach is watched for a while yet.
    fn is_over(&self, now_ns: u64, plan: Plan, load: Option<&Load>, end_ns: &mut u64) -> bool {
        if now_ns >= *end_ns {
            return true;
        }
        if self.top.is_some() {
            return false;
        }
        let alive = !process::descendants(own_pid()).is_empty();
        if alive {
            if self.observed.ended_early || now_ns >= plan.deadline_ns {
                *end_ns = (*end_ns).min(now_ns + AFTERMATH_NS);
            }
            return false;
        }
        let quiet = load.is_none_or(|load| load.in_flight() == 0);
        quiet && (now_ns >= plan.arrivals_end_ns || self.observed.ended_early)
    }

    async fn act(&mut self, moment: Moment, load: Option<&mut Load>) -> anyhow::Result<()> {
        match (moment, load) {
            (Moment::LookBefore, load) => {
                self.look(Look::Before);
                self.observed.app_pid = self.app();
                self.watch_app();
                if let Some(load) = load {
                    load.note_reached(&sockets::reached(self.observed.port));
                }
            }
            // A drill whose command is gone sends nothing.
            (Moment::Signal, load) if self.top.as_ref().is_some_and(|top| !top.has_ended()) => {
                let spans = self.settings.slow_requests.is_empty() && !self.settings.router_stops_first();
                if let (Some(load), true) = (load, spans) {
                    load.send_spanning().await?;
                }
                self.signal_ns = Some(clock::now_ns());
                let sent = self.send(self.settings.signal, self.settings.to);
                self.observed.unable = sent.unable(self.settings.signal);
                self.observed.signal = Some(Sending { signal: self.settings.signal, at_us: 0, pids: sent.pids });
            }
            (Moment::SecondSignal, _) => {
                if let (Some(second), true) = (self.settings.second_signal, self.is_there_for(self.settings.to)) {
                    let at_us = self.micros(clock::now_ns());
                    self.observed.second_signal = self.send(second.signal, self.settings.to).at(second.signal, at_us);
                }
            }
            (Moment::Sigkill, _) if self.is_there_for(self.settings.kill_to) => {
                let at_us = self.micros(clock::now_ns());
                self.observed.sigkill = self.send(Signal::KILL, self.settings.kill_to).at(Signal::KILL, at_us);
            }
            (Moment::LookAfter, _) => self.look(Look::After),
            (Moment::LookBeforeSigkill, _) if self.top.is_some() => self.look(Look::BeforeSigkill),
            (Moment::OpenIdle, Some(load)) => load.open_idle(),
            (Moment::SendSlow, Some(load)) => load.send_slow(),
            (Moment::Reuse, Some(load)) => load.reuse(),
            (Moment::GiveUpIdle, Some(load)) => load.give_up_idle(),
            _ => {}
        }
        Ok(())
    }

    /// Whether another signal finds somebody: the first one was sent, and the first process is there, or one of those that
    /// it is sent to besides.
    fn is_there_for(&self, to: Target) -> bool {
        let others = || to != Target::Top && !process::descendants(own_pid()).is_empty();
        self.signal_ns.is_some() && (self.top.is_some() || others())
    }

    fn reap(&mut self) {
        match self.top.take().map(Live::reap) {
            Some(Ok(ended)) => {
                self.observed.exit = Some(ended.status);
                self.observed.top_gone_us = Some(self.micros(clock::now_ns()));
            }
            Some(Err(top)) => self.top = Some(top),
            None => {}
        }
    }

    fn micros(&self, at_ns: u64) -> i64 {
        (at_ns.cast_signed() - self.origin_ns.cast_signed()) / 1000
    }
}

fn own_pid() -> i32 {
    id().cast_signed()
}
