//! What becomes of a worker's processes.

use scenarios::{EventKind, Signal, Status, WorkerId};

use super::{Drill, Life, Told, Worker};
use crate::{drill::notify::Notice, record::Part};

/// What is told of an orphan that does not end by itself.
const CLEANED_UP: &str = "and was cleaned up after the drill";

impl Drill {
    /// When the process of `worker` is to come to life.
    pub(super) fn start_ns(&self, worker: WorkerId) -> u64 {
        let initial = self.plan.schedule.tick_at(self.plan.sigterm_ns()) + self.startup != self.ready_at(worker);
        if initial { self.plan.schedule.origin_ns } else { self.plan.sigterm_ns() }
    }

    pub(super) fn started(&mut self, at_ns: u64, worker: WorkerId, pid: i32) {
        self.late(at_ns, self.start_ns(worker), Part::Start);
        if let Some(known) = self.workers.get_mut(&worker) {
            known.pid.get_or_insert(pid);
            if known.life == Life::Starting {
                known.life = Life::Running;
            }
        }
        self.observe(at_ns, EventKind::WorkerStarted { worker });
    }

    pub(super) fn sent(&mut self, at_ns: u64, worker: WorkerId, signal: Signal) {
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

    pub(super) fn notified(&mut self, at_ns: u64, worker: WorkerId, notice: Notice, pid: Option<i32>) {
        let Some(known) = self.workers.get_mut(&worker) else { return };
        if pid.is_some() {
            known.pid = pid;
        }
        match notice {
            _ if matches!(known.life, Life::Ended(_)) => {}
            // Nobody waits for the readiness of an orphan. That it drains is told, whoever was faster, it or its top.
            Notice::Stopping { .. } if known.life == Life::Orphan => {
                if known.told == Told::Sigterm {
                    known.told = Told::Withdrew;
                    self.late(at_ns, self.plan.sigterm_ns(), Part::Signal);
                    self.observe(at_ns, EventKind::ReadinessWithdrawn { worker });
                }
            }
            _ if known.life == Life::Orphan => {}
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

    pub(super) fn top_ended(&mut self, at_ns: u64, worker: WorkerId, status: Status, survivors: &[i32]) {
        let Some(known) = self.workers.get_mut(&worker) else { return };
        let orphaned = !survivors.is_empty();
        let booting = !known.was_ready && !known.killed && matches!(known.told, Told::Nothing | Told::Ignores);
        let by_sigterm = matches!(status, Status::SIGTERM | Status::CODE_143) || self.told_status == Some(status);
        let planned = match known {
            // It was taken for one that ignores the signal and was only late.
            Worker { told: Told::Ignores, killed: false, .. } if by_sigterm => {
                Some((self.plan.sigterm_ns(), Part::Signal))
            }
            _ if booting && !orphaned => Some((self.plan.schedule.start_of(known.ready_at), Part::Boot)),
            Worker { killed: true, told, .. } => {
                if *told == Told::Withdrew {
                    known.drained_ns = Some(at_ns);
                }
                Some((self.plan.sigkill_ns(), Part::Kill))
            }
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
                "{worker} was orphaned: its top ended ({status}), pid {} lived on {CLEANED_UP}",
                pids.join(", ")
            ));
        } else {
            self.settle_broken(worker);
        }
    }

    /// These processes live on after the end of `worker` and are no worker.
    pub fn left_over(&mut self, worker: WorkerId, pids: &[i32]) {
        if !pids.is_empty() {
            let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
            self.remarks.push(format!(
                "{worker} left what it was started with behind: pid {} lived on and was cleaned up after the drill",
                pids.join(", ")
            ));
        }
    }

    /// How late the exits of drained workers were. Only at the end: an exit can be seen before the commit that it
    /// followed, and which invocations it cut off is known after it.
    pub(super) fn measure_drained_exits(&mut self) {
        let drained = |known: &Worker| known.drained_ns.map(|at_ns| (at_ns, known.killed, known.last_commit));
        let exits: Vec<_> = self.workers.iter().filter_map(|(&id, known)| Some((id, drained(known)?))).collect();
        for (id, (at_ns, killed, last_commit)) in exits {
            let cut_off = |kind| matches!(kind, EventKind::InvocationKilled { worker, .. } if worker == id);
            if self.events.iter().any(|observed| cut_off(observed.event.kind)) {
                // Nobody planned for that.
                continue;
            }
            // It was due with its last commit, or with the signal if there was none after it.
            let last_commit_ns = last_commit.map_or(0, |tick| self.plan.schedule.start_of(tick));
            let (due_ns, part) = match last_commit_ns > self.plan.sigterm_ns() {
                true => (last_commit_ns, Part::Exit),
                false => (self.plan.sigterm_ns(), Part::Signal),
            };
            // One that was still there at the deadline was to exit before it, in the same tick: too late for that, whatever
            // else is wrong with it. Where it was to exit in an earlier tick, that it did not is no matter of time.
            let tick = |at_ns| self.plan.schedule.tick_at(at_ns);
            if !killed || tick(due_ns) == tick(self.plan.sigkill_ns()) {
                self.late(at_ns, due_ns, part);
            }
        }
    }

    pub(super) fn survivors_ended(&mut self, at_ns: u64, worker: WorkerId) {
        let Some(known) = self.workers.get_mut(&worker) else { return };
        known.life = Life::Ended(at_ns);
        let (told, was_ready, ready_at) = (known.told, known.was_ready, known.ready_at);
        let sigterm = self.plan.sigterm_ns();
        let last_commit = known.last_commit.map(|tick| self.plan.schedule.start_of(tick));
        match (told, last_commit) {
            // With nothing to finish it leaves as soon as it is told.
            (Told::Withdrew, last_commit) if last_commit.is_none_or(|commit_ns| commit_ns < sigterm) => {
                self.late(at_ns, sigterm, Part::Signal);
            }
            (_, Some(last_commit)) => self.late(at_ns, last_commit, Part::Exit),
            (_, None) if worker == self.target && self.target_fails && !was_ready => {
                self.late(at_ns, self.plan.schedule.start_of(ready_at), Part::Boot);
            }
            // Nobody planned for that.
            (_, None) => {}
        }
        self.observe(at_ns, EventKind::OrphanExited { worker });
        let orphaned = format!("{worker} was orphaned");
        if let Some(remark) = self.remarks.iter_mut().find(|remark| remark.starts_with(&orphaned)) {
            *remark = remark.replace(CLEANED_UP, "and ended by itself");
        }
        self.settle_broken(worker);
    }
}
