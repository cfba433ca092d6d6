//! Lets the drill decide on what happened, and carries out what it decided.

use std::net::Ipv4Addr;

use scenarios::{Signal, WorkerId};
use worker::clock;

use super::{
    Run,
    input::{Act, Input},
    notify::Notice,
    tasks,
    wakes::Wake,
};
use crate::{
    evidence::{Disposition, Look, ProcessFacts, ProcessState},
    process::{self, Launch, Seat},
};

impl Run<'_> {
    pub(super) fn handle(&mut self, at_ns: u64, input: Input) -> anyhow::Result<bool> {
        self.collector.keep_time(self.stepped_ns);
        if let Input::Notified { worker, notice: Notice::Stopping { sigterm_from, at_us }, .. } = input
            && (sigterm_from.is_some() || self.setup.foreign && self.sent_ns.contains_key(&Signal::TERM))
        {
            self.collector.received(worker, sigterm_from, at_ns);
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

    pub(super) fn carry_out(&mut self, act: Act) -> anyhow::Result<()> {
        match act {
            Act::Finish => Ok(()),
            Act::Start(worker) => self.start(worker),
            Act::Send(worker, signal) => {
                // The scenario means a worker that has got as far as taking its posture, which comes before it listens.
                let may_not_listen = self.setup.foreign || self.drill.is_new(worker);
                let asks = may_not_listen && signal == Signal::TERM && self.tops.contains_key(&worker);
                if asks && !self.port(worker).is_some_and(process::listens) {
                    self.handle(clock::now_ns(), Input::NotListening { worker })?;
                }
                if signal == Signal::KILL && self.stepped_ns.is_none() && self.has_yet_to_take_sigterm(worker) {
                    self.handle(clock::now_ns(), Input::StillPending { worker })?;
                }
                let Some(top) = self.tops.get(&worker) else { return Ok(()) };
                // With its PID 1 the kernel ends all of a PID namespace (pid_namespaces(7)): nothing below it outlives that.
                if (signal, self.seat) != (Signal::KILL, Seat::Pid1) {
                    self.below.insert(worker, process::descendants(top.pid()));
                }
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
                self.tasks.spawn_local(tasks::exchange(request, addr, tick, self.wakes.clone()));
                Ok(())
            }
        }
    }

    /// Whether SIGTERM waits for the top of `worker`, or the worker itself, to get a processor.
    fn has_yet_to_take_sigterm(&self, worker: WorkerId) -> bool {
        let top = self.tops.get(&worker).map(process::Live::pid);
        [top, self.drill.pid(worker)].into_iter().flatten().filter_map(|pid| ProcessFacts::read(pid).ok()).any(
            |process| {
                let held_back = matches!(process.sigterm, Disposition::Blocked | Disposition::Ignored);
                process.pending && !held_back && process.state != ProcessState::Stopped && process.is_alive()
            },
        )
    }

    fn start(&mut self, worker: WorkerId) -> anyhow::Result<()> {
        let log = (self.setup.log)(worker)?;
        let launch = Launch { argv: self.argv.clone(), env: self.environment(worker), log, seat: self.seat };
        if self.setup.foreign
            && let Some(port) = self.port(worker)
        {
            self.tasks.spawn_local(tasks::keep_probing((Ipv4Addr::LOCALHOST, port).into()));
        }
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
}
