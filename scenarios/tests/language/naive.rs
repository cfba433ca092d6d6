//! The contract once more, as naively as it can be said: every tick is played, every step looks at everything, and
//! nothing is computed ahead. It shares no rule with the crate: what it takes from it are the words (`Event`,
//! `Outcome`), the fields and the three small facts that the contract states as formulas of one value.

use scenarios::{
    CustomBehaviour, Effect, Entrypoint, Event, EventKind, Gate, HandlerInstalled, Host, OnSigterm, Outcome, Reason,
    RequestId, Scenario, ShellBehaviour, Stage, Status, Tick, WorkerId, WorkerOutcome, WorkerState, outcome::Sums,
};

struct Invocation {
    request: u16,
    admitted: u32,
    slot: u8,
}

struct Worker {
    number: u16,
    started: u32,
    state: WorkerState,
    status: Option<Status>,
    /// Its process is there, whatever the platform thinks.
    alive: bool,
    /// It has a handler that got SIGTERM.
    told_to_drain: bool,
    invocations: Vec<Invocation>,
}

impl Worker {
    fn ended_for_the_platform(&self) -> bool {
        !matches!(self.state, WorkerState::Starting | WorkerState::Ready | WorkerState::Draining)
    }
}

struct Play<'a> {
    scenario: &'a Scenario,
    now: u32,
    workers: Vec<Worker>,
    events: Vec<Event>,
    arrivals: u32,
    rejected: u32,
    completed: Vec<(RequestId, u32)>,
    killed: Vec<RequestId>,
}

/// Plays all ticks of a drill, the last one included.
pub(crate) fn play(scenario: &Scenario, host: &Host) -> (Vec<Event>, Outcome) {
    let mut play = Play {
        scenario,
        now: 0,
        workers: Vec::new(),
        events: Vec::new(),
        arrivals: 0,
        rejected: 0,
        completed: Vec::new(),
        killed: Vec::new(),
    };
    let mut effect_of_signal = None;
    for now in 0..=600 {
        play.now = now;
        if now == 0 {
            for number in 1..=scenario.initial_workers.into() {
                play.start(number);
            }
        }
        play.completions();
        play.boots();
        let is_signal = now == scenario.signal_at_s.0;
        if is_signal {
            effect_of_signal = play.sigterm(host);
            if scenario.boot_replacement {
                play.start(u16::from(scenario.initial_workers) + 1);
            }
        }
        play.terminations(if is_signal { effect_of_signal } else { None }, host);
        play.admission();
    }
    let outcome = play.outcome();
    (play.events, outcome)
}

impl Play<'_> {
    fn tell(&mut self, kind: EventKind) {
        self.events.push(Event { t: Tick(self.now), kind });
    }

    fn start(&mut self, number: u16) {
        self.workers.push(Worker {
            number,
            started: self.now,
            state: WorkerState::Starting,
            status: None,
            alive: true,
            told_to_drain: false,
            invocations: Vec::new(),
        });
        self.tell(EventKind::WorkerStarted { worker: WorkerId(number) });
    }

    /// Step 1.
    fn completions(&mut self) {
        let duration = self.scenario.invocation_s.0;
        for index in 0..self.workers.len() {
            let worker = WorkerId(self.workers[index].number);
            // Requests are admitted in the order of their numbers, so the list is in that order.
            let mut position = 0;
            while position < self.workers[index].invocations.len() {
                let Invocation { request, admitted, .. } = self.workers[index].invocations[position];
                let request = RequestId(request);
                let age = self.now - admitted;
                // "The k-th of three at the first tick >= admission + (k-1) * duration / 3": the first age with
                // 3 * age >= (k-1) * duration.
                for (before, stage) in [(1, Stage::Model), (2, Stage::Tool)] {
                    let reached = |age: u32| 3 * age >= before * duration;
                    if reached(age) && (age == 0 || !reached(age - 1)) {
                        self.tell(EventKind::StageEntered { request, worker, stage });
                    }
                }
                if age == duration {
                    let sum = u32::from(request.0) + 1 + 2;
                    self.tell(EventKind::ResultCommitted { request, worker, sum });
                    self.completed.push((request, sum));
                    self.workers[index].invocations.remove(position);
                } else {
                    position += 1;
                }
            }
        }
    }

    /// Step 2, first part. An orphan's boot is nobody's business, unless it fails.
    fn boots(&mut self) {
        for index in 0..self.workers.len() {
            let Worker { number, started, state, .. } = self.workers[index];
            let worker = WorkerId(number);
            if state != WorkerState::Starting || self.now - started != self.scenario.startup_s.0 {
                continue;
            }
            if number == 1 && self.scenario.fail_worker_1 {
                self.workers[index].state = WorkerState::Failed;
                self.workers[index].status = Some(Status::Code(1));
                self.workers[index].alive = false;
                self.tell(EventKind::WorkerFailed { worker, status: Status::Code(1) });
            } else {
                self.workers[index].state = WorkerState::Ready;
                self.tell(EventKind::WorkerReady { worker });
            }
        }
    }

    /// Step 2, second part. The effect, or nothing where nobody was there.
    fn sigterm(&mut self, host: &Host) -> Option<Effect> {
        let worker = WorkerId(1);
        if self.workers[0].ended_for_the_platform() {
            self.tell(EventKind::SigtermSkipped { worker });
            return None;
        }
        self.tell(EventKind::SigtermSent { worker });
        let effect = self.effect(host);
        let alone = measured(self.scenario, host).is_some_and(|measured| measured.drains_alone);
        if effect == Effect::Drained || effect == Effect::Orphaned && alone {
            self.workers[0].state = WorkerState::Draining;
            self.workers[0].told_to_drain = true;
            self.tell(EventKind::ReadinessWithdrawn { worker });
        }
        Some(effect)
    }

    /// Section 1, "What SIGTERM does".
    fn effect(&self, host: &Host) -> Effect {
        let scenario = self.scenario;
        if let Some(measured) = measured(scenario, host) {
            return measured.effect;
        }
        let is_shell_that_stays = top_is_shell(scenario, host);
        let is_trap = scenario.entrypoint == Entrypoint::ScriptTrap;
        if is_shell_that_stays {
            return if scenario.pid_namespace { Effect::Ignored } else { Effect::Orphaned };
        }
        let is_pid1 = scenario.pid_namespace && !is_trap;
        let booting = self.workers[0].state == WorkerState::Starting;
        let has_handler = scenario.on_sigterm == OnSigterm::Drain
            && !(scenario.handler_installed == HandlerInstalled::AfterBoot && booting);
        if has_handler {
            Effect::Drained
        } else if scenario.on_sigterm == OnSigterm::Ignore || is_pid1 {
            Effect::Ignored
        } else {
            Effect::Terminated
        }
    }

    /// Step 3. Everything that ends here is worker 1: nobody else is told to stop.
    fn terminations(&mut self, effect: Option<Effect>, host: &Host) {
        let scenario = self.scenario;
        let worker = WorkerId(1);
        match effect {
            Some(Effect::Ignored) => self.tell(EventKind::SigtermIgnored { worker }),
            Some(Effect::Terminated) => {
                let status = match (&scenario.entrypoint, measured(scenario, host)) {
                    (_, Some(measured)) => measured.status,
                    (Entrypoint::ScriptTrap, None) => Status::CODE_143,
                    _ => Status::SIGTERM,
                };
                self.end(WorkerState::Terminated, status);
            }
            Some(Effect::Orphaned) => {
                self.orphan(measured(scenario, host).map_or(Status::SIGTERM, |measured| measured.status));
            }
            Some(Effect::Drained) | None => {}
        }
        // An orphan that fails to boot ends by itself. Its state stays what it is.
        let first = &mut self.workers[0];
        let is_orphan = first.alive && first.state == WorkerState::Orphaned;
        if is_orphan && scenario.fail_worker_1 && self.now == scenario.startup_s.0 {
            first.alive = false;
            self.tell(EventKind::OrphanExited { worker });
        }
        let first = &mut self.workers[0];
        if first.alive && first.told_to_drain && first.invocations.is_empty() {
            if first.state == WorkerState::Orphaned {
                first.alive = false;
                self.tell(EventKind::OrphanExited { worker });
            } else {
                let status = measured(scenario, host).map_or(Status::Code(0), |measured| measured.status);
                self.end(WorkerState::Exited, status);
            }
        }
        let deadline = scenario.signal_at_s.0 + scenario.grace_period_s.0;
        if self.now == deadline && !self.workers[0].ended_for_the_platform() {
            self.tell(EventKind::SigkillSent { worker });
            let top_stays = match (&scenario.entrypoint, measured(scenario, host)) {
                (_, Some(measured)) => measured.top_stays && !measured.dies_with_top,
                (Entrypoint::ScriptTrap, None) => true,
                _ => top_is_shell(scenario, host),
            };
            if top_stays && !scenario.pid_namespace {
                self.orphan(Status::SIGKILL);
            } else {
                self.end(WorkerState::Killed, Status::SIGKILL);
            }
        }
    }

    fn end(&mut self, state: WorkerState, status: Status) {
        let worker = WorkerId(1);
        self.workers[0].state = state;
        self.workers[0].status = Some(status);
        self.workers[0].alive = false;
        self.tell(EventKind::WorkerExited { worker, status });
        for invocation in std::mem::take(&mut self.workers[0].invocations) {
            let request = RequestId(invocation.request);
            self.killed.push(request);
            self.tell(EventKind::InvocationKilled { request, worker });
        }
    }

    fn orphan(&mut self, status: Status) {
        self.workers[0].state = WorkerState::Orphaned;
        self.workers[0].status = Some(status);
        self.tell(EventKind::WorkerOrphaned { worker: WorkerId(1), status });
    }

    /// Step 4.
    fn admission(&mut self) {
        let interval = self.scenario.request_interval_s.0;
        if self.now < 10 || self.now > 400 || !(self.now - 10).is_multiple_of(interval) {
            return;
        }
        self.arrivals += 1;
        let number = ((self.now - 10) / interval + 1) as u16;
        let request = RequestId(number);
        let mut chosen: Option<usize> = None;
        for (index, worker) in self.workers.iter().enumerate() {
            let eligible = match worker.state {
                WorkerState::Ready => true,
                WorkerState::Starting | WorkerState::Draining => !self.scenario.ready_only_routing,
                _ => false,
            };
            let better = match chosen {
                None => true,
                Some(best) => worker.invocations.len() < self.workers[best].invocations.len(),
            };
            if eligible && better {
                chosen = Some(index);
            }
        }
        let Some(index) = chosen else {
            self.rejected += 1;
            return self.tell(EventKind::RequestRejected { request, reason: Reason::NoEligibleWorker, worker: None });
        };
        let worker = WorkerId(self.workers[index].number);
        let refusal = match self.workers[index].state {
            WorkerState::Starting => Some((Reason::WorkerStarting, Some(worker))),
            WorkerState::Draining => Some((Reason::WorkerDraining, Some(worker))),
            _ => None,
        };
        let taken = |slot: u8| self.workers[index].invocations.iter().any(|i| i.slot == slot);
        let free = (1..=self.scenario.slots_per_worker).find(|slot| !taken(*slot));
        match (refusal, free) {
            (Some((reason, worker)), _) => {
                self.rejected += 1;
                self.tell(EventKind::RequestRejected { request, reason, worker });
            }
            (None, None) => {
                self.rejected += 1;
                self.tell(EventKind::RequestRejected { request, reason: Reason::NoFreeSlot, worker: None });
            }
            (None, Some(slot)) => {
                self.workers[index].invocations.push(Invocation { request: number, admitted: self.now, slot });
                self.tell(EventKind::RequestAdmitted { request, worker, slot });
                self.tell(EventKind::StageEntered { request, worker, stage: Stage::Prepare });
            }
        }
    }

    fn outcome(&mut self) -> Outcome {
        self.completed.sort_unstable();
        self.killed.sort_unstable();
        let mut running: Vec<RequestId> =
            self.workers.iter().flat_map(|w| w.invocations.iter().map(|i| RequestId(i.request))).collect();
        running.sort_unstable();
        let percent = f64::from(self.rejected) / f64::from(self.arrivals) * 100.0;
        let allowed = self.rejected * 100 <= u32::from(self.scenario.rejection_allowance_percent) * self.arrivals;
        let passed = self.killed.is_empty() && running.is_empty() && allowed;
        Outcome {
            arrivals: self.arrivals as u16,
            admitted: (self.arrivals - self.rejected) as u16,
            rejected: self.rejected as u16,
            completed: self.completed.iter().map(|(request, _)| *request).collect(),
            killed: self.killed.clone(),
            running,
            sums: Sums(self.completed.clone()),
            rejected_percent: format!("{percent:.1}").parse().unwrap(),
            gate: if passed { Gate::Pass } else { Gate::Fail },
            workers: self
                .workers
                .iter()
                .map(|w| WorkerOutcome { worker: WorkerId(w.number), state: w.state, status: w.status })
                .collect(),
        }
    }
}

fn top_is_shell(scenario: &Scenario, host: &Host) -> bool {
    match scenario.entrypoint {
        Entrypoint::Shell => host.shell == ShellBehaviour::Stays,
        Entrypoint::Script => true,
        _ => false,
    }
}

/// A list does what was measured, or else what the scenario says of it. So does a shell in front of the worker, if its
/// like was measured.
fn measured(scenario: &Scenario, host: &Host) -> Option<CustomBehaviour> {
    match scenario.entrypoint {
        Entrypoint::Custom(_) => {
            Some(host.custom.unwrap_or_else(|| CustomBehaviour::of_init(scenario.expected_effect.unwrap())))
        }
        Entrypoint::ScriptTrap => host.custom,
        _ => host.custom.filter(|_| top_is_shell(scenario, host)),
    }
}
