//! What a drill learns while it goes on, and how each turns into an [`Input`].

use scenarios::{Fault, Signal, Status, WorkerId};
use worker::clock;

use super::{Run, input::Input, notify, stepped::Said, tasks};
use crate::{
    foreign::pipe,
    process::{self, Live, Other},
};

/// What the tasks of a drill tell its loop.
pub(super) enum Wake {
    /// Something happened.
    Input(Input),
    /// A worker's end of a stepped clock.
    Clock(WorkerId, Said),
    /// A foreign worker said something by its named pipe.
    ByPipe(WorkerId, pipe::Message),
    /// A worker's top can be reaped.
    TopEnded(WorkerId),
    /// A worker's top was started.
    Top(WorkerId, Live),
    /// It could not be.
    NotStarted(WorkerId, String),
    /// Nothing happened; it is time to ask whether something should have.
    Nudge,
}

impl Run<'_> {
    pub(super) fn wake(&mut self, at_ns: u64, wake: Wake) -> anyhow::Result<bool> {
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
            Wake::ByPipe(worker, message) => self.hear_by_pipe(at_ns, worker, &message),
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

    fn top_ended(&mut self, at_ns: u64, worker: WorkerId) -> anyhow::Result<bool> {
        let Some(top) = self.tops.remove(&worker) else { return Ok(false) };
        // What it said before it ended comes before its end.
        let mut finished = self.hear_what_came(at_ns, worker)?;
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
                if self.stepped_ns.is_some() {
                    // What dies with its parent does so at the moment at hand.
                    self.collector.wait_for_dying();
                }
                let lives = |process: &Other| !process.has_ended() && !process::is_dying(process.pid());
                let mut survivors: Vec<Other> = below.into_iter().filter(lives).collect();
                // What else the worker had started makes no orphan of it.
                if self.drill.pid(worker).is_some_and(|pid| survivors.iter().all(|process| process.pid() != pid)) {
                    self.drill.left_over(worker, &survivors.iter().map(Other::pid).collect::<Vec<i32>>());
                    survivors.clear();
                }
                // Whoever is seen to have ended by now may have said something since.
                finished |= self.hear_what_came(at_ns, worker)?;
                if self.setup.fault == Some(Fault::WaitsForLeaderOnly) {
                    survivors.clear();
                }
                let pids = survivors.iter().map(Other::pid).collect();
                if !survivors.is_empty() {
                    self.tasks.spawn_local(tasks::outlive(worker, survivors, self.wakes.clone()));
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

    /// Takes in what a worker has said by now, be it in the queue or not yet.
    fn hear_what_came(&mut self, at_ns: u64, worker: WorkerId) -> anyhow::Result<bool> {
        let mut finished = false;
        let mut queued = Vec::new();
        while let Ok(next) = self.woken.try_recv() {
            queued.push(next);
        }
        for (said_ns, wake) in queued {
            match wake {
                Wake::Input(Input::Notified { worker: speaker, .. }) | Wake::ByPipe(speaker, _)
                    if speaker == worker =>
                {
                    finished |= self.wake(said_ns, wake)?;
                }
                // Everything else keeps its turn.
                _ => drop(self.wakes.send((said_ns, wake))),
            }
        }
        while let Some((notices, pid)) = self.sockets.get(&worker).and_then(|socket| socket.try_next()) {
            for notice in notices {
                let input = Input::Notified { worker, notice, pid };
                self.see(&input);
                finished |= self.handle(at_ns, input)?;
            }
        }
        while let Some(message) = self.pipes.get(&worker).and_then(|(pipe, _)| pipe.try_next()) {
            finished |= self.hear_by_pipe(at_ns, worker, &message)?;
        }
        Ok(finished)
    }

    /// A pipe does not tell who wrote to it; the speaker says its number, which is that of its own PID namespace.
    fn hear_by_pipe(&mut self, at_ns: u64, worker: WorkerId, message: &[u8]) -> anyhow::Result<bool> {
        let (notices, own_number) = notify::by_pipe(message);
        let top = self.pids.get(&worker).copied();
        let pid = top.zip(own_number).and_then(|(top, number)| process::by_own_number(top, number));
        let mut finished = false;
        for notice in notices {
            finished |= self.handle(at_ns, Input::Notified { worker, notice, pid })?;
        }
        Ok(finished)
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
}
