//! What is written down of a drill: its events, and how late each was.

use scenarios::{Event, EventKind, RequestId, Tick};

use super::Drill;
use crate::{
    drill::plan::Moment,
    record::{Observed, Part},
};

impl Drill {
    pub(super) fn admission_late(&mut self, at_ns: u64, request: RequestId) {
        let due = self.plan.moments().iter().find(|(_, moment)| *moment == Moment::Arrival(request));
        if let Some(&(planned, _)) = due {
            self.late(at_ns, planned, Part::Admission);
        }
    }

    pub(super) fn late(&mut self, at_ns: u64, planned_ns: u64, part: Part) {
        let allowed_us = self.plan.allowed_us(part, self.plan.schedule.tick_at(planned_ns));
        self.lateness.add(part, at_ns.saturating_sub(planned_ns) / 1000, allowed_us);
    }

    pub(super) fn observe(&mut self, at_ns: u64, kind: EventKind) {
        self.observe_in(self.plan.schedule.tick_at(at_ns), at_ns, kind);
    }

    pub(super) fn observe_in(&mut self, t: Tick, at_ns: u64, kind: EventKind) {
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

    pub(super) fn push(&mut self, t: Tick, at_ns: u64, late_us: u64, kind: EventKind) {
        let at_us = (i128::from(at_ns) - i128::from(self.plan.schedule.origin_ns)) / 1000;
        let pid = kind.worker().and_then(|worker| self.workers.get(&worker)).and_then(|worker| worker.pid);
        let at_us = i64::try_from(at_us).unwrap_or(i64::MAX);
        self.events.push(Observed { event: Event { t, kind }, at_us, late_us, pid, note: None });
    }
}
