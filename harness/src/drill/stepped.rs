//! The stepped clock: model time goes on when every process of the drill is done with the tick.
//!
//! Only ticks at which something is due are played. In each, the workers that have something due are told the tick and do
//! it; the drill goes on when each has answered and all that it told has come in. Whoever ends instead has answered too: a
//! dead or deaf process never holds the clock up. A worker that has nothing due learns the tick from the request that it
//! gets in it.

mod stepper;

use scenarios::{Fault, RequestId, Signal, Tick, WorkerId};
use tokio::{io::AsyncWriteExt, sync::mpsc::UnboundedSender};
use worker::clock::{self, Timer};

pub(super) use self::stepper::{Said, Stepper, open};
use super::{Run, StopPipe, Wake, input::Input, plan::Moment};
use crate::{process, record::Observed};

/// How long a worker may take to answer, and a signal to show its effect, in nanoseconds. Nothing depends on its length
/// but how soon a process that does neither is given up.
const PATIENCE_NS: u64 = 10_000_000_000;
/// How often it is looked at what nobody tells, in nanoseconds: whether the processes before a worker are at rest.
const LOOK_NS: u64 = 200_000;
/// How often it is looked whether patience is at its end, in nanoseconds.
const NUDGE_NS: u64 = 250_000_000;

/// How it is found out that something has come to be so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Learnt {
    /// Something comes in then.
    Told,
    /// Nobody tells, so it is looked at again and again.
    Seen,
}

/// Has the loop look at its patience now and then: where nothing happens, nothing else would.
async fn nudge(wakes: UnboundedSender<(u64, Wake)>) {
    let Ok(mut timer) = Timer::new() else { return };
    while timer.until(clock::now_ns() + NUDGE_NS).await.is_ok() {
        let _ = wakes.send((clock::now_ns(), Wake::Nudge));
    }
}

impl Run<'_> {
    /// Plays the drill to its end on a stepped clock.
    pub(super) async fn step_through(
        &mut self,
        stop: &StopPipe,
        live: &mut dyn FnMut(&Observed),
    ) -> anyhow::Result<()> {
        self.stepped_ns = Some(self.plan.schedule.start_of(Tick::START));
        self.tasks.spawn_local(nudge(self.wakes.clone()));
        self.start_initial_workers()?;
        for worker in (1..=u16::from(self.setup.scenario.initial_workers)).map(WorkerId) {
            self.joined(stop, worker).await?;
        }
        let moments = self.plan.moments().to_vec();
        let mut moments = moments.into_iter().peekable();
        while !self.finished {
            let planned = moments.peek().map(|&(at_ns, moment)| self.tick_of(at_ns, moment));
            let due = self.steppers.values().filter_map(|stepper| stepper.next).chain(planned).min();
            let Some(tick) = due.filter(|&tick| tick <= Tick::END) else { break };
            self.stepped_ns = Some(self.plan.schedule.start_of(tick));
            if self.setup.fault == Some(Fault::DeadlineWinsTie)
                && let Some((at_ns, moment)) =
                    moments.next_if(|&(at_ns, moment)| moment == Moment::Sigkill && self.tick_of(at_ns, moment) == tick)
            {
                self.play_moment(stop, tick, at_ns, moment).await?;
            }
            // Twice in a drill everybody is told, so that an end that nobody planned for does not go unnoticed.
            let all = moments.peek().is_some_and(|&(at_ns, moment)| {
                matches!(moment, Moment::Sigterm | Moment::End) && self.tick_of(at_ns, moment) == tick
            });
            let workers: Vec<WorkerId> = self
                .steppers
                .iter()
                .filter(|(worker, known)| all || self.is_due(**worker, known, tick))
                .map(|(&worker, _)| worker)
                .collect();
            self.step(stop, tick, &workers).await?;
            while let Some((at_ns, moment)) =
                moments.next_if(|&(at_ns, moment)| !self.finished && self.tick_of(at_ns, moment) == tick)
            {
                self.play_moment(stop, tick, at_ns, moment).await?;
            }
            self.show(live);
        }
        self.show(live);
        Ok(())
    }

    /// Whether `worker` has something to do by `tick`, or has gone and its end is not taken in yet.
    fn is_due(&self, worker: WorkerId, known: &Stepper, tick: Tick) -> bool {
        known.next.is_some_and(|next| next <= tick) || (known.gone && !self.drill.has_ended(worker))
    }

    async fn play_moment(&mut self, stop: &StopPipe, tick: Tick, at_ns: u64, moment: Moment) -> anyhow::Result<()> {
        self.stepped_ns = Some(at_ns);
        self.finished |= self.handle(at_ns, Input::Due(moment))?;
        self.take_effect(stop, tick, moment).await
    }

    /// The end of a drill lies at the end of its last tick.
    fn tick_of(&self, at_ns: u64, moment: Moment) -> Tick {
        match moment {
            Moment::End => self.plan.schedule.tick_at(at_ns - 1),
            _ => self.plan.schedule.tick_at(at_ns),
        }
    }

    /// Waits until everything that follows from a planned moment at once has come in.
    async fn take_effect(&mut self, stop: &StopPipe, tick: Tick, moment: Moment) -> anyhow::Result<()> {
        match moment {
            Moment::Sigterm => self.settle(stop, tick, Signal::TERM).await,
            Moment::Sigkill => self.settle(stop, tick, Signal::KILL).await,
            Moment::Replacement => {
                let newest = self.steppers.keys().copied().max().filter(|&worker| self.drill.is_known(worker));
                match newest {
                    Some(worker) => self.joined(stop, worker).await,
                    None => Ok(()),
                }
            }
            Moment::Arrival(request) => self.answered(stop, tick, request).await,
            _ => Ok(()),
        }
    }

    /// Waits until a worker that was just started follows the clock, and knows what it has to do next.
    async fn joined(&mut self, stop: &StopPipe, worker: WorkerId) -> anyhow::Result<()> {
        let what = || format!("the entrypoint of {worker} starts no worker that follows the stepped clock");
        self.until(stop, Learnt::Told, what, |run| run.has_joined(worker) || run.drill.has_ended(worker)).await?;
        // A script that sets its trap after it has started the worker must get to that before a signal comes: on the
        // real clock there is time for it, here there may be none.
        let own = self.steppers.get(&worker).and_then(|stepper| stepper.pid);
        if let Some(top) = self.tops.get(&worker).map(process::Live::pid).filter(|&top| Some(top) != own) {
            let below = process::descendants(top).into_iter().map(|process| process.pid());
            let before: Vec<i32> = std::iter::once(top).chain(below).filter(|&pid| Some(pid) != own).collect();
            let what = || format!("the processes before {worker} do not come to rest");
            let at_rest = |run: &Self| before.iter().copied().all(process::is_at_rest) || run.drill.has_ended(worker);
            self.until(stop, Learnt::Seen, what, at_rest).await?;
        }
        let tick = self.now();
        self.step(stop, tick, &[worker]).await
    }

    fn has_joined(&self, worker: WorkerId) -> bool {
        self.pids.contains_key(&worker) && self.steppers.get(&worker).is_some_and(|s| s.is_there() || s.gone)
    }

    fn now(&self) -> Tick {
        self.plan.schedule.tick_at(self.stepped_ns.unwrap_or_default())
    }

    /// Tells `workers` the tick, and waits until each is done with it and everything it told has come in.
    async fn step(&mut self, stop: &StopPipe, tick: Tick, workers: &[WorkerId]) -> anyhow::Result<()> {
        for worker in workers {
            let Some(stepper) = self.steppers.get_mut(worker) else { continue };
            let Some(writer) = stepper.writer.as_mut() else { continue };
            stepper.asked = Some(tick);
            // Where that fails the worker is gone, and its end of the connection says so.
            let _ = writer.write_all(format!("{}\n", tick.0).as_bytes()).await;
        }
        for &worker in workers {
            let what = || format!("{worker} is not done with its tick {tick} s");
            self.until(stop, Learnt::Told, what, |run| run.is_done(worker)).await?;
            if self.steppers.get(&worker).is_some_and(|stepper| stepper.gone) {
                self.departed(stop, worker).await?;
            }
        }
        Ok(())
    }

    fn is_done(&self, worker: WorkerId) -> bool {
        self.steppers.get(&worker).is_none_or(|stepper| {
            let complete = stepper.seen >= stepper.told;
            stepper.gone || !stepper.is_there() || (stepper.asked.is_none() && complete)
        })
    }

    /// A worker's process is gone: waits until what is left of its top is at rest or gone too, and no answer of it is
    /// open any more.
    async fn departed(&mut self, stop: &StopPipe, worker: WorkerId) -> anyhow::Result<()> {
        let what = || format!("what is left of {worker} neither ends nor comes to rest");
        self.until(stop, Learnt::Seen, what, |run| run.drill.has_ended(worker) || run.outlives(worker)).await?;
        let what = || format!("the answers of {worker} do not end with it");
        self.until(stop, Learnt::Told, what, |run| !run.drill.has_open_answers(worker)).await
    }

    /// Waits until a signal that was sent to the target's top has had its effect.
    async fn settle(&mut self, stop: &StopPipe, tick: Tick, signal: Signal) -> anyhow::Result<()> {
        let target = self.drill.target();
        if !self.below.contains_key(&target) {
            // Nobody was there to send it to.
            return Ok(());
        }
        if signal == Signal::KILL && !self.drill.was_killed(target) {
            // It has ended, or a seeded harness thinks so.
            return Ok(());
        }
        if signal == Signal::KILL {
            let what = || format!("the top of {target} does not end of SIGKILL");
            self.until(stop, Learnt::Told, what, |run| run.drill.has_lost_its_top(target)).await?;
            let what = || format!("{target} does not end with its top");
            let gone = |run: &Self| run.steppers.get(&target).is_none_or(|stepper| stepper.gone);
            self.until(stop, Learnt::Told, what, |run| gone(run) || !run.drill.has_ended(target)).await?;
        } else {
            // Who passes it on has done so when at rest again. A signal is handled before what is read after it, so a
            // worker that answers once more has handled it.
            let what = || format!("the processes before {target} do not come to rest after SIGTERM");
            self.until(stop, Learnt::Seen, what, |run| run.drill.has_lost_its_top(target) || run.is_at_rest(target))
                .await?;
            self.step(stop, tick, &[target]).await?;
        }
        if self.steppers.get(&target).is_some_and(|stepper| stepper.gone) {
            self.departed(stop, target).await?;
        }
        Ok(())
    }

    /// Whether the top of a worker that is gone has taken note of it and goes on all the same.
    fn outlives(&self, worker: WorkerId) -> bool {
        let own = self.steppers.get(&worker).and_then(|stepper| stepper.pid);
        let top = self.tops.get(&worker).map(process::Live::pid);
        let other_process = top.is_some() && own.is_some() && top != own;
        other_process && own.is_some_and(|pid| !process::is_there(pid)) && self.is_at_rest(worker)
    }

    /// Whether the processes that stand before a worker sleep, with no signal and no ended child to see to.
    fn is_at_rest(&self, worker: WorkerId) -> bool {
        let own = self.steppers.get(&worker).and_then(|stepper| stepper.pid);
        let below = self.below.get(&worker).into_iter().flatten().map(process::Other::pid);
        let top = self.tops.get(&worker);
        if top.is_some_and(process::Live::has_ended) {
            // Its end is about to be taken in, and that is what is waited for.
            return false;
        }
        let top = top.map(process::Live::pid);
        top.into_iter().chain(below).filter(|&pid| Some(pid) != own).all(process::is_at_rest)
    }

    /// Waits until a request that arrived is answered, and its worker knows what that means for it.
    async fn answered(&mut self, stop: &StopPipe, tick: Tick, request: RequestId) -> anyhow::Result<()> {
        let what = || format!("{request} is not answered");
        self.until(stop, Learnt::Told, what, |run| !run.drill.awaits_answer(request)).await?;
        match self.drill.worker_of(request) {
            Some(worker) => self.step(stop, tick, &[worker]).await,
            None => Ok(()),
        }
    }

    /// What to say of something that did not happen: processes that were stopped can't do anything, for example.
    fn given_up(&self, what: &str) -> String {
        let stopped = |process: &process::Other| {
            let state = process::state(process.pid()).filter(|state| !state.starts_with(['S', 'R', 'Z']))?;
            Some(format!("pid {} is {state}", process.pid()))
        };
        let below = process::descendants(std::process::id().cast_signed());
        let stopped: Vec<String> = below.iter().filter_map(stopped).collect();
        let why = if stopped.is_empty() { String::new() } else { format!(": {}", stopped.join(", ")) };
        format!("{what} within {} s of real time{why}", PATIENCE_NS / 1_000_000_000)
    }

    /// Takes in what happens until `done`, or until the drill is over. Where nothing happens for too long, that is a
    /// problem of this machine or of a process that keeps to no clock.
    async fn until(
        &mut self,
        stop: &StopPipe,
        learnt: Learnt,
        what: impl Fn() -> String,
        done: impl Fn(&Self) -> bool,
    ) -> anyhow::Result<()> {
        if self.finished || done(self) {
            return Ok(());
        }
        let given_up_ns = clock::now_ns() + PATIENCE_NS;
        let mut timer = match learnt {
            Learnt::Told => None,
            Learnt::Seen => Some(Timer::new()?),
        };
        while !self.finished && !done(self) {
            let look_again = async {
                match &mut timer {
                    Some(timer) => timer.until(clock::now_ns() + LOOK_NS).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some((at_ns, wake)) = self.woken.recv() => self.finished |= self.wake(at_ns, wake)?,
                () = stop.stopped() => self.finished |= self.handle(clock::now_ns(), Input::Stop)?,
                waited = look_again => waited?,
            }
            if clock::now_ns() > given_up_ns && !self.finished && !done(self) {
                self.finished |= self.handle(clock::now_ns(), Input::GivenUp { what: self.given_up(&what()) })?;
            }
        }
        Ok(())
    }
}
