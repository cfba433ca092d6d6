//! What the kernel's own record says of the signal, where it was asked for.

use super::story::{Story, label};
use crate::evidence::{
    Kernel, ProcessFacts,
    kernel::{Outcome, SignalRecord, Step},
};

impl Story<'_> {
    /// What was recorded of the signal to the first process and to the app.
    pub(super) fn kernel_record(&self) -> Option<String> {
        if let Kernel::Unavailable { why } = self.observed.kernel.as_ref()? {
            return Some(format!("The kernel's own record is unavailable, since {why}."));
        }
        let top = format!("to {} {}", label(self.top), self.recorded(self.top));
        if self.top.pid == self.app.pid {
            return Some(format!("The kernel's record of {}: {top}.", self.signal));
        }
        Some(format!("The kernel's record of {}: {top}; to {} {}.", self.signal, self.name(), self.recorded(self.app)))
    }

    /// Whether the kernel recorded that the signal was put in the queue of a process.
    pub(super) fn is_recorded(&self, process: &ProcessFacts) -> bool {
        let queued = |record: &SignalRecord| matches!(record.step, Step::Sent { outcome: Outcome::Queued, .. });
        self.records_of(process).any(queued)
    }

    fn records_of(&self, process: &ProcessFacts) -> impl Iterator<Item = &SignalRecord> {
        let records = match &self.observed.kernel {
            Some(Kernel::Records(records)) => &records[..],
            _ => &[],
        };
        let pid = process.pid;
        records.iter().filter(move |record| record.pid == pid && record.signal == self.signal)
    }

    fn recorded(&self, process: &ProcessFacts) -> String {
        let sent = self.records_of(process).find_map(|record| match &record.step {
            Step::Sent { by, outcome, .. } => Some((by, *outcome)),
            Step::Delivered { .. } => None,
        });
        let Some((by, outcome)) = sent else { return "none".to_owned() };
        let handler = self.records_of(process).any(|record| record.step == Step::Delivered { handler: true });
        let said = match outcome {
            Outcome::Dropped => "dropped when it was sent",
            Outcome::Queued if handler => "queued, and the handler ran",
            Outcome::Queued => "queued",
            Outcome::AlreadyPending => "one was pending already",
            Outcome::Lost => "lost, for want of room",
        };
        format!("by {by}, {said}")
    }
}
