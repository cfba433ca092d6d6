//! What is different with foreign workers, of which nobody knows how long they take to start: one that is not ready when
//! it should be is slow, and not wrong.

use scenarios::WorkerId;

use super::{Drill, Life, Told, Worker};
use crate::record::Part;

/// How long after it should have been ready a foreign worker is waited for, in nanoseconds.
pub(in crate::drill) const BOOT_PATIENCE_NS: u64 = 5_000_000_000;

impl Drill {
    /// The same drill with foreign workers, if they are.
    #[must_use]
    pub fn with_foreign_workers(self, foreign: bool) -> Drill {
        Drill { foreign, ..self }
    }

    /// Foreign workers that nobody has told to stop, should be ready at `at_ns` and have not said so.
    fn late_boots(&self, at_ns: u64) -> impl Iterator<Item = WorkerId> {
        let waits = move |worker: &Worker| {
            self.foreign
                && self.plan.schedule.start_of(worker.ready_at) < at_ns
                && matches!(worker.life, Life::Starting | Life::Running)
                && !worker.was_ready
                && worker.told == Told::Nothing
        };
        self.workers.iter().filter(move |(_, worker)| waits(worker)).map(|(&id, _)| id)
    }

    /// Measures how late the boots are that should be over at `at_ns`.
    pub(super) fn boots_are_late(&mut self, at_ns: u64) {
        let late: Vec<WorkerId> = self.late_boots(at_ns).collect();
        for worker in late {
            let planned_ns = self.plan.schedule.start_of(self.ready_at(worker));
            self.late(at_ns, planned_ns, Part::Boot);
        }
    }

    /// Gives up where a boot should have been over long ago.
    pub(super) fn give_up_boots(&mut self, at_ns: u64) {
        let late = self.late_boots(at_ns.saturating_sub(BOOT_PATIENCE_NS)).next();
        if let Some(late) = late {
            let patience_s = BOOT_PATIENCE_NS / 1_000_000_000;
            self.problems.push(format!(
                "{late} has not said that it is ready {patience_s} s after it should have been; its log tells what it did, \
                 and docs/worker-contract.md how it says so"
            ));
        }
    }
}
