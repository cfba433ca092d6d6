//! The signal goes to the worker itself, which is the top: it was started so, or exec'd into.

use scenarios::Status;

use super::{
    Cause, Explanation, FINISH, HANDLER, NOT_SIG_IGN,
    story::{Story, seat},
};
use crate::evidence::Disposition;

impl Story<'_> {
    pub(super) fn to_the_worker(&self) -> Explanation {
        let worker = self.worker;
        let went = match &self.evidence.shell {
            Some(shell) => {
                let program = shell.rsplit('/').next().unwrap_or(shell);
                format!("/bin/sh is {program} here and exec'd the worker, so SIGTERM went to the worker itself")
            }
            None => "SIGTERM went to the worker itself".to_owned(),
        };
        let seat = seat(worker);
        if self.evidence.received.is_some() {
            return self.handled(&format!("{went} ({seat}), whose handler got it"));
        }
        if self.status(worker) == Some(Status::SIGTERM) {
            let (when, lost) = (self.when(worker), self.with_invocations());
            let text = format!("{went} ({seat}), which has no handler: it died of it {when}{lost}.");
            return Explanation::new(Cause::Died, text).change(HANDLER);
        }
        if self.ended_by_itself(worker) {
            let text = format!("{went} ({seat}). It did not tell that it got it, and {}.", self.end(worker));
            return Explanation::new(Cause::Unknown, text);
        }
        let lasted = self.until_sigkill();
        match worker.sigterm {
            Disposition::Default if worker.is_init() => {
                let caught_later = self.worker_later().any(|later| later.sigterm == Disposition::Caught);
                let later = if caught_later { " A handler that was installed after it does not get it." } else { "" };
                let text = format!(
                    "{went}, which is PID 1 without a handler: to such a process the kernel drops it when it is \
                     sent.{later} {lasted}"
                );
                Explanation::new(Cause::Dropped, text).change(HANDLER)
            }
            Disposition::Ignored => {
                let text = format!("{went} ({seat}), which ignores it (SIG_IGN): the kernel dropped it. {lasted}");
                Explanation::new(Cause::Ignored, text).change(NOT_SIG_IGN)
            }
            Disposition::Blocked => {
                let text = format!("{went} ({seat}), which blocks it: it stays pending. {lasted}");
                Explanation::new(Cause::Held, text).change("unblock SIGTERM in the worker, with a handler for it.")
            }
            found => {
                let text = format!("{went} ({seat}, SIGTERM {}), but nothing came of it. {lasted}", found.name());
                Explanation::new(Cause::Unknown, text)
            }
        }
    }

    /// What followed where nothing came of SIGTERM.
    fn until_sigkill(&self) -> String {
        if self.was_killed() {
            format!("All went on until SIGKILL took the worker{}.", self.with_invocations())
        } else {
            "All went on.".to_owned()
        }
    }

    /// The worker's handler got it; `how` says from whom, up to a full stop.
    pub(super) fn handled(&self, how: &str) -> Explanation {
        let (worker, top) = (self.worker, self.top);
        let outlived = self.was_killed() && !top.is_init() && !self.is_direct() && self.ended_after_sigkill();
        if outlived {
            let then = if self.ended(worker) { self.end(worker) } else { "was still there at the end".to_owned() };
            let text = format!(
                "{how}; it drained. At the end of the grace period SIGKILL reached {} only: the worker was left alive, and \
                 {then}.",
                top.program()
            );
            let told = Explanation::new(Cause::Orphaned, text);
            return Explanation { change: self.longer_grace(), ..told };
        }
        match self.status(worker) {
            Some(Status::Code(_)) if self.ended(worker) && self.lost_any() => {
                let text = format!("{how}; it {}{}.", self.end(worker), self.with_invocations());
                Explanation::new(Cause::Abandoned, text).change(FINISH)
            }
            Some(Status::Code(_)) if self.ended(worker) => {
                Explanation::new(Cause::Drained, format!("{how}; it drained and {}.", self.end(worker)))
            }
            None if self.ended_by_itself(worker) && !self.lost_any() => {
                Explanation::new(Cause::Drained, format!("{how}; it drained and {}.", self.end(worker)))
            }
            _ if self.was_killed() && self.ended(worker) => {
                let lost = self.with_invocations();
                let told =
                    Explanation::new(Cause::CutShort, format!("{how}; it drained, but SIGKILL came first{lost}."));
                Explanation { change: self.longer_grace(), ..told }
            }
            _ if self.ended(worker) => Explanation::new(Cause::Unknown, format!("{how}; it {}.", self.end(worker))),
            _ => Explanation::new(Cause::Drained, format!("{how}; it was still draining at the end of the drill.")),
        }
    }

    /// Whether SIGKILL to the top did not end the worker: it lived on, and exited by itself or not at all.
    fn ended_after_sigkill(&self) -> bool {
        !self.ended_by_itself(self.worker)
            && (!self.ended(self.worker)
                || matches!(self.status(self.worker), Some(Status::Code(_)))
                || self.orphan_exited())
    }
}
