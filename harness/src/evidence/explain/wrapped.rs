//! The signal goes to something that stands above the worker: a shell, a script, an init, a wrapper.

use scenarios::Status;

use super::{
    Cause, Explanation, HANDLER, NOT_SIG_IGN,
    story::{Story, seat},
};
use crate::evidence::{
    Disposition, ProcessFacts,
    kernel::{Kernel, Step},
    words::{called, is_shell},
};

impl<'a> Story<'a> {
    pub(super) fn to_the_top(&self) -> Explanation {
        let (top, worker) = (self.top, self.worker);
        let went = format!("SIGTERM went to {} ({}), not to the worker below it", called(top), seat(top));
        if self.ended_by_itself(top) {
            return match self.was_received() {
                true => self.top_left_after_passing_it_on(&went),
                false if self.status(top) == Some(Status::SIGTERM) => self.top_died(&went),
                false => self.top_left(&went),
            };
        }
        if self.evidence.received.is_some() {
            return self
                .handled(&format!("{went}. {} passed it on to the worker, whose handler got it", self.passer()));
        }
        match (self.was_received(), self.status(worker) == Some(Status::SIGTERM)) {
            (_, true) => {
                let (passer, when, lost) = (self.passer(), self.when(worker), self.with_invocations());
                let text = format!("{went}. {passer} passed it on, and the worker died of it {when}{lost}.");
                Explanation::new(Cause::Died, text).change(HANDLER)
            }
            (true, false) => {
                let (passer, lasted) = (self.passer(), self.until_sigkill_to_the_top());
                let text = format!("{went}. {passer} passed it on, but the worker ignores it (SIG_IGN). {lasted}");
                Explanation::new(Cause::Ignored, text).change(NOT_SIG_IGN)
            }
            (false, false) => self.top_stayed(&went),
        }
    }

    /// Who passed it on to the worker, as a subject.
    fn passer(&self) -> &'a str {
        let sender = match (self.evidence.received, self.record_of(self.worker).map(|record| &record.step)) {
            (Some(received), _) => received.from_pid.and_then(|pid| self.numbered(pid)),
            (None, Some(Step::Sent { by_pid: Some(pid), .. })) => self.evidence.process(*pid),
            _ => None,
        };
        sender.map_or("It", ProcessFacts::program)
    }

    /// The process that has this number in the worker's PID namespace.
    fn numbered(&self, namespace_pid: i32) -> Option<&'a ProcessFacts> {
        let before = self.evidence.before.as_ref()?;
        before.processes.iter().map(|node| &node.process).find(|process| process.namespace_pid == namespace_pid)
    }

    /// Everything between the top and the worker.
    fn between(&self) -> impl Iterator<Item = &'a ProcessFacts> {
        let processes = self.evidence.before.as_ref().map_or(&[][..], |before| &before.processes);
        let (top, worker) = (self.top.pid, self.worker.pid);
        processes.iter().map(|node| &node.process).filter(move |process| ![top, worker].contains(&process.pid))
    }

    fn top_left_after_passing_it_on(&self, went: &str) -> Explanation {
        let (worker, passer, name) = (self.worker, self.passer(), self.top.program());
        if self.was_cut(worker) {
            let (lost, who) = (self.with_invocations(), if passer == name { "it" } else { name });
            let text = format!(
                "{went}. {passer} passed it on, but {who} {}, before the worker was done. {name} was PID 1, and its end \
                 cut the worker{lost}.",
                self.end(self.top)
            );
            return Explanation::new(Cause::LeftEarly, text).change(self.wait_for_the_worker());
        }
        if !self.left_first(worker, self.top) {
            let text = format!(
                "{went}. {passer} passed it on, but {name} left first: it {}. The worker {}.",
                self.end(self.top),
                self.alone()
            );
            return Explanation::new(Cause::LeftEarly, text).change(self.wait_for_the_worker());
        }
        if self.status(worker) == Some(Status::SIGTERM) {
            let text = format!(
                "{went}. {passer} passed it on; the worker has no handler and died of it {}{}. Then {name} {}.",
                self.when(worker),
                self.with_invocations(),
                self.end(self.top)
            );
            return Explanation::new(Cause::Died, text).change(HANDLER);
        }
        let text = format!(
            "{went}. {passer} passed it on and waited: the worker drained and {}; then {name} {}.",
            self.end(worker),
            self.how(self.top)
        );
        Explanation::new(Cause::Drained, text)
    }

    fn wait_for_the_worker(&self) -> String {
        if is_shell(self.top) {
            return "wait again: a trap interrupts `wait`, so call it in a loop until the worker is gone.".to_owned();
        }
        "`exec` in the shell below the init, so that the worker is the init's own child, which it waits for.".to_owned()
    }

    fn top_died(&self, went: &str) -> Explanation {
        let (when, alone) = (self.when(self.top), self.alone());
        let text = format!("{went}. It died of it {when} and passed nothing on. The worker {alone}.");
        Explanation::new(Cause::Orphaned, text).change(self.reach_the_worker())
    }

    /// What became of a worker that was left behind, after its name.
    fn alone(&self) -> String {
        if self.ended(self.worker) {
            return format!("went on alone and {}", self.end(self.worker));
        }
        "lived on as an orphan, out of the platform's reach, and was cleaned up after the drill".to_owned()
    }

    /// The top left by itself, and the worker did not get the signal.
    fn top_left(&self, went: &str) -> Explanation {
        let name = self.top.program();
        let last = self.between().find(|process| self.status(process) == Some(Status::SIGTERM));
        let got = match last {
            Some(last) => {
                format!(
                    "{name} passed it on to {}, which died of it; then {name} {}.",
                    called(last),
                    self.end(self.top)
                )
            }
            None => format!("{name} {}.", self.end(self.top)),
        };
        let traced = matches!(self.evidence.kernel, Some(Kernel::Records(_)));
        let never = if self.worker.sigterm == Disposition::Ignored && !traced {
            "The worker ignores it, whether it got it or not"
        } else {
            "The worker never got it"
        };
        let then = if self.was_cut(self.worker) {
            format!("and as {name} was PID 1, its end cut the worker{}", self.with_invocations())
        } else {
            format!("and {}", self.alone())
        };
        let told = Explanation::new(Cause::NotPassedOn, format!("{went}. {got} {never}, {then}."));
        if last.is_some_and(is_shell) {
            let exec = "`exec` before the worker's command line: the worker then takes the shell's place and gets what is \
                        passed on.";
            return told.change(exec);
        }
        if is_shell(self.top) {
            let pass_on =
                "`exec` the worker; or pass SIGTERM on to it in the shell's trap, and `wait` until it is gone.";
            return told.change(pass_on);
        }
        told.change(self.reach_the_worker())
    }

    /// The top stayed, and the worker is not known to have got the signal.
    fn top_stayed(&self, went: &str) -> Explanation {
        let (name, lasted) = (self.top.program(), self.until_sigkill_to_the_top());
        match self.top.sigterm {
            Disposition::Default if self.top.is_init() => {
                let text = format!(
                    "{went}. {name} has no handler, and to such a PID 1 the kernel drops it when it is sent: the worker \
                     never got it. {lasted}"
                );
                Explanation::new(Cause::Dropped, text).change(self.reach_the_worker())
            }
            Disposition::Ignored => {
                let text = format!("{went}. {name} ignores it (SIG_IGN) and passes nothing on. {lasted}");
                Explanation::new(Cause::Ignored, text).change(self.reach_the_worker())
            }
            Disposition::Blocked => {
                let text = format!("{went}. {name} blocks it: it stays pending. {lasted}");
                Explanation::new(Cause::Held, text).change(self.reach_the_worker())
            }
            _ if self.worker.sigterm == Disposition::Ignored => {
                let text = format!(
                    "{went}. {name} takes it, and stays for the worker, which ignores SIGTERM (SIG_IGN). {lasted}"
                );
                Explanation::new(Cause::Ignored, text).change(NOT_SIG_IGN)
            }
            Disposition::Caught => {
                let text = format!(
                    "{went}. {name} has a handler, but waits for its foreground child before it does anything: the worker \
                     never got it. {lasted}"
                );
                let background = "`exec` the worker; or start it with `&`, pass SIGTERM on in a trap, and `wait` until it \
                                  is gone.";
                Explanation::new(Cause::WaitsForChild, text).change(background)
            }
            found => {
                let text = format!("{went}. {name} (SIGTERM {}) stayed. {lasted}", found.name());
                Explanation::new(Cause::Unknown, text).change(self.reach_the_worker())
            }
        }
    }

    /// What SIGKILL to the top did to the worker, as a sentence.
    fn until_sigkill_to_the_top(&self) -> String {
        if !self.was_killed() {
            return "All went on.".to_owned();
        }
        if self.was_cut(self.worker) {
            return format!("SIGKILL to PID 1 then cut the worker{}.", self.with_invocations());
        }
        format!("SIGKILL then reached {} only, and the worker {}.", self.top.program(), self.alone())
    }
}
