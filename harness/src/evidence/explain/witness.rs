//! What the masks and the kernel's record say, and whether they say the same.

use super::story::Story;
use crate::evidence::{
    Disposition, Kernel, ProcessFacts,
    kernel::{Outcome, Step},
    words::is_shell,
};

impl Story<'_> {
    /// Where what a mask said was not so.
    pub(super) fn misleading_masks(&self) -> Option<String> {
        let after = self.evidence.after.as_ref()?.process(self.top.pid).filter(|after| after.is_alive())?;
        // A trap may take itself back.
        let gave_it_up =
            self.top.sigterm == Disposition::Caught && after.sigterm == Disposition::Default && !is_shell(self.top);
        gave_it_up.then(|| {
            let name = self.top.program();
            format!("The masks mislead here: {name} showed SIGTERM as caught, and gave that up when it came.")
        })
    }

    /// What the kernel's record says of the SIGTERM to the top.
    pub(super) fn kernel_record(&self) -> Option<String> {
        if let Kernel::Unavailable { why } = self.evidence.kernel.as_ref()? {
            return Some(format!("The kernel's own record is unavailable, since {why}."));
        }
        let record = self.record_of(self.top);
        let Some(Step::Sent { outcome, .. }) = record.map(|record| &record.step) else {
            return Some("The kernel's record has no SIGTERM to it.".to_owned());
        };
        let said = match outcome {
            Outcome::Dropped => "dropped when it was sent",
            Outcome::Queued if self.handler_ran() => "queued, and the handler ran",
            Outcome::Queued => "queued",
            Outcome::AlreadyPending => "one was pending already",
            Outcome::Lost => "lost, for want of room",
        };
        let agrees = (*outcome == Outcome::Dropped) == is_dropped_by_masks(self.top);
        let masks = if agrees { "as the masks say" } else { "which is NOT what the masks say" };
        Some(format!("The kernel's record: {said}, {masks}."))
    }

    fn handler_ran(&self) -> bool {
        let Some(Kernel::Records(records)) = &self.evidence.kernel else { return false };
        records.iter().any(|record| record.pid == self.top.pid && record.step == Step::Delivered { handler: true })
    }
}

/// Whether the kernel drops SIGTERM to such a process, as far as its masks tell.
fn is_dropped_by_masks(process: &ProcessFacts) -> bool {
    match process.sigterm {
        Disposition::Ignored => true,
        Disposition::Default => process.is_init(),
        Disposition::Caught | Disposition::Blocked | Disposition::WaitedFor => false,
    }
}
