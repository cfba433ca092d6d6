//! What becomes of a request.

use std::io::ErrorKind;

use router::{Ending, Failure, State as Seat};
use scenarios::{
    EventKind, Reason, RequestId, Stage, WorkerId,
    wire::{Progress, ProgressStep},
};

use super::{Drill, Life, Phase};
use crate::record::Part;

impl Drill {
    pub(super) fn accepted(&mut self, learnt_ns: u64, request: RequestId, slot: u8, at_us: u64) {
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

    pub(super) fn refused(&mut self, at_ns: u64, request: RequestId, reason: Reason) {
        let Some(known) = self.requests.get_mut(&request) else { return };
        known.phase = Phase::Over;
        let (worker, sent_at) = (known.worker, known.sent_at);
        self.admission_late(at_ns, request);
        self.observe_in(sent_at, at_ns, EventKind::RequestRejected { request, reason, worker: Some(worker) });
    }

    pub(super) fn failed(&mut self, at_ns: u64, request: RequestId, failure: &Failure) {
        let Some(known) = self.requests.get_mut(&request) else { return };
        known.phase = Phase::Over;
        let worker = known.worker;
        if self.router.roster().state(worker) == Some(Seat::Starting) && *failure == Failure::ConnectionRefused {
            // Its process did not get as far as listening in the time that it had.
            let late_us = at_ns.saturating_sub(self.start_ns(worker)) / 1000;
            self.lateness.add(Part::Start, late_us.max(1), 0);
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

    pub(super) fn progress(&mut self, learnt_ns: u64, request: RequestId, progress: &Progress) {
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

    pub(super) fn exchange_ended(&mut self, request: RequestId, ending: &Ending) {
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
    pub(super) fn over(&mut self, request: RequestId) {
        // A commit ends it, and so does the end of the answer that follows it.
        let _ = self.router.roster_mut().close(request);
    }

    /// An invocation whose answer broke off was killed if its worker is gone; as long as the worker lives it may still
    /// commit, and the store will tell.
    pub(super) fn settle_broken(&mut self, worker: WorkerId) {
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
}
