//! What a planned moment means when it has come.

use router::Routed;
use scenarios::{EventKind, Fault, RequestId, Signal};

use super::{Drill, Life, Phase, Request, Told};
use crate::{
    drill::{input::Act, plan::Moment},
    record::Part,
};

impl Drill {
    pub(super) fn due(&mut self, at_ns: u64, moment: Moment) -> Option<Act> {
        match moment {
            Moment::Sigterm => {
                self.boots_are_late(at_ns);
                if self.target_is_there() {
                    return Some(Act::Send(self.target, Signal::TERM));
                }
                self.late(at_ns, self.plan.sigterm_ns(), Part::Signal);
                self.observe(at_ns, EventKind::SigtermSkipped { worker: self.target });
                None
            }
            Moment::Replacement => {
                self.planned_starts_left = self.planned_starts_left.saturating_sub(1);
                self.start_worker(self.plan.schedule.tick_at(self.plan.sigterm_ns()))
            }
            Moment::Judge => {
                let worker = self.workers.get_mut(&self.target)?;
                if worker.told == Told::Sigterm && !matches!(worker.life, Life::Orphan | Life::Ended(_)) {
                    worker.told = Told::Ignores;
                    // Of the tick that is judged, however late: all the longer nothing came of it.
                    let judged = self.plan.schedule.tick_at(self.plan.sigterm_ns());
                    self.observe_in(judged, at_ns, EventKind::SigtermIgnored { worker: self.target });
                }
                None
            }
            Moment::Sigkill if self.fault == Some(Fault::TakesSignalForEnd) && self.target_was_told() => None,
            Moment::Sigkill => self.target_is_there().then_some(Act::Send(self.target, Signal::KILL)),
            Moment::Arrival(request) => {
                self.arrivals_left = self.arrivals_left.saturating_sub(1);
                self.arrive(at_ns, request)
            }
            Moment::Look(look) => {
                let speaker = self.workers.get(&self.target).and_then(|worker| worker.pid);
                Some(Act::Look { worker: self.target, speaker, look })
            }
            Moment::BootsGivenUp => {
                self.give_up_boots(at_ns);
                None
            }
            Moment::End => {
                self.boots_are_late(at_ns);
                Some(Act::Finish)
            }
        }
    }

    fn target_is_there(&self) -> bool {
        self.workers.get(&self.target).is_some_and(|worker| matches!(worker.life, Life::Starting | Life::Running))
    }

    fn target_was_told(&self) -> bool {
        self.workers.get(&self.target).is_some_and(|worker| worker.told != Told::Nothing)
    }

    fn arrive(&mut self, at_ns: u64, request: RequestId) -> Option<Act> {
        let tick = self.plan.schedule.tick_at(at_ns);
        match self.router.route() {
            Routed::Rejected { reason } => {
                self.admission_late(at_ns, request);
                self.observe(at_ns, EventKind::RequestRejected { request, reason, worker: None });
                None
            }
            Routed::Send { worker, addr } => {
                self.requests.insert(request, Request { worker, sent_at: tick, phase: Phase::Sent });
                Some(Act::Dispatch { request, worker, addr, tick })
            }
        }
    }
}
