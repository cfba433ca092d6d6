//! The signal goes to something that stands above the worker: a shell, a script, an init, a wrapper.

use scenarios::{Signal, Status};

use super::{
    Cause, Explanation, FINISH, HANDLER, NOT_SIG_IGN,
    story::{Story, seat},
};
use crate::evidence::{
    Disposition, ProcessFacts,
    kernel::{Kernel, Step},
    words::{called, is_container_init, is_shell, passes_to_group, sets_signals_anew},
};

/// The same whether the worker is known to have got it or not: one that is cut at once may or may not have told.
const PASS_ON: &str = "`exec` the worker; or pass SIGTERM on to it in the shell's trap, do nothing else there, and call \
     `wait` in a loop until it is gone, since a trap interrupts `wait`.";

const START_BEHIND: &str =
    "`exec` the worker; or start it with `&`, pass SIGTERM on in a trap, and `wait` until it is gone.";

impl<'a> Story<'a> {
    pub(super) fn to_the_top(&self) -> Explanation {
        let (top, worker) = (self.top, self.worker);
        let went = format!("SIGTERM went to {} ({}), not to the worker below it", called(top), seat(top));
        if self.end_is_untold() {
            return self.untold(&went);
        }
        if self.was_cut_at_once()
            && let Some(told) = self.top_left_at_once(&went)
        {
            return told;
        }
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

    fn untold(&self, went: &str) -> Explanation {
        let (name, lost) = (self.top.program(), self.with_invocations());
        let top =
            if self.ended(self.top) { format!("{name} {}", self.end(self.top)) } else { format!("{name} stayed") };
        let cut = if self.top.is_init() { ", or was cut by the end of PID 1" } else { "" };
        let text = format!(
            "{went}. {top}, and the worker ended {}{lost}. Whether it exited, died of SIGTERM{cut} is not known: before Linux 6.15 \
             the kernel does not tell how a process ended that is not our child.",
            self.when(self.worker)
        );
        Explanation::new(Cause::Unknown, text)
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
            let wait = self.wait_for_the_worker();
            let change = match self.status(worker) == Some(Status::SIGTERM) {
                true => format!("a handler for SIGTERM in the worker; and then {wait}"),
                false => wait,
            };
            return Explanation::new(Cause::LeftEarly, text).change(change);
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
        let (worker_end, top_end, lost) = (self.end(worker), self.how(self.top), self.with_invocations());
        if self.lost_any() {
            let text = format!(
                "{went}. {passer} passed it on and waited: the worker got it and {worker_end}{lost}; then {name} {top_end}."
            );
            return Explanation::new(Cause::Abandoned, text).change(FINISH);
        }
        let text = format!(
            "{went}. {passer} passed it on and waited: the worker drained and {worker_end}; then {name} {top_end}."
        );
        Explanation::new(Cause::Drained, text)
    }

    fn wait_for_the_worker(&self) -> String {
        let name = self.top.program();
        if is_shell(self.top) {
            return PASS_ON.to_owned();
        }
        if self.between().any(|process| is_shell(process) && self.status(process) == Some(Status::SIGTERM)) {
            let who = if is_container_init(self.top) { "the init" } else { name };
            return format!(
                "`exec` in the shell below {who}, so that the worker is its own child, which it waits for."
            );
        }
        format!(
            "start the worker without {name}; or let {name} pass SIGTERM on, and wait until the worker is gone before it ends."
        )
    }

    fn top_died(&self, went: &str) -> Explanation {
        let (name, when, alone) = (self.top.program(), self.when(self.top), self.alone());
        if self.top.sigterm != Disposition::Default && !sets_signals_anew(self.top) {
            // It took it first, and whatever it did with it did not get as far as the worker.
            let never = self.never_got_it();
            let text = format!("{went}. {name} took it, and was killed by SIGTERM {when}. {never}, and {alone}.");
            return Explanation::new(Cause::Orphaned, text).change(self.reach_the_worker());
        }
        let text = format!("{went}. It died of it {when} and passed nothing on. The worker {alone}.");
        Explanation::new(Cause::Orphaned, text).change(self.reach_the_worker())
    }

    /// What is known of a worker that did not show that it got it, as the beginning of a sentence.
    fn never_got_it(&self) -> &'static str {
        let traced = matches!(self.evidence.kernel, Some(Kernel::Records(_)));
        if self.worker.sigterm == Disposition::Ignored && !traced {
            return "The worker ignores it, whether it got it or not";
        }
        "The worker never got it"
    }

    /// What became of a worker that was left behind, after its name.
    fn alone(&self) -> String {
        if self.ended(self.worker) && self.left_first(self.top, self.worker) {
            return format!("went on alone and {}", self.end(self.worker));
        }
        if self.ended(self.worker) {
            return self.end(self.worker);
        }
        "lived on as an orphan, out of the platform's reach, and was cleaned up after the drill".to_owned()
    }

    /// The top left by itself, and the worker did not get the signal.
    fn top_left(&self, went: &str) -> Explanation {
        let name = self.top.program();
        if let Some(told) = self.passed_on_as_another(went).or_else(|| self.top_left_at_once(went)) {
            return told;
        }
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
        let never = self.never_got_it();
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
            return told.change(PASS_ON);
        }
        told.change(self.reach_the_worker())
    }

    /// The worker died of another signal than SIGTERM, before the top left.
    fn passed_on_as_another(&self, went: &str) -> Option<Explanation> {
        let Some(Status::Signal(signal)) = self.status(self.worker) else { return None };
        if signal == Signal::KILL || self.was_cut(self.worker) || !self.ended_by_itself(self.worker) {
            return None;
        }
        let (name, lost) = (self.top.program(), self.with_invocations());
        let text = format!(
            "{went}. The worker got {signal} instead and died of it {}{lost}; {name} {}.",
            self.when(self.worker),
            self.end(self.top)
        );
        let change = format!("have {name} pass SIGTERM on as it is, or give the worker a handler for {signal}.");
        Some(Explanation::new(Cause::NotPassedOn, text).change(change))
    }

    /// The top did something about it and left at once, as PID 1: it is chance whether the worker was still able to show what
    /// it got.
    fn top_left_at_once(&self, went: &str) -> Option<Explanation> {
        let traced = matches!(self.evidence.kernel, Some(Kernel::Records(_)));
        if !self.was_cut(self.worker) || traced || !matches!(self.status(self.top), Some(Status::Code(_))) {
            return None;
        }
        let (name, end, lost) = (self.top.program(), self.end(self.top), self.with_invocations());
        if passes_to_group(self.top) {
            let text = format!(
                "{went}. {name} passed it on to the whole process group, and left with the first that ended: it {end}. As it \
                 was PID 1, its end cut the worker{lost}."
            );
            return Some(Explanation::new(Cause::LeftEarly, text).change(self.wait_for_the_worker()));
        }
        // A shell below that died of it is what such a process waited for.
        if self.top.sigterm != Disposition::Caught || self.between().next().is_some() {
            return None;
        }
        let text = format!(
            "{went}. {name} took it and {end}, without waiting until the worker was gone. As {name} was PID 1, its end cut the \
             worker{lost}."
        );
        Some(Explanation::new(Cause::LeftEarly, text).change(self.wait_for_the_worker()))
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
            Disposition::Caught
                if is_shell(self.top) && self.in_the_foreground().is_ok_and(|child| child.is_some()) =>
            {
                self.waits_for_the_foreground(went, &lasted)
            }
            _ if self.worker.sigterm == Disposition::Ignored => {
                let text = format!(
                    "{went}. {name} takes it, and stays for the worker, which ignores SIGTERM (SIG_IGN). {lasted}"
                );
                Explanation::new(Cause::Ignored, text).change(NOT_SIG_IGN)
            }
            Disposition::Caught if is_shell(self.top) => {
                let when = match self.in_the_foreground() {
                    Ok(_) => "which it runs at once, since it has nothing in the foreground",
                    Err(()) => "which it runs at once unless it has something in the foreground",
                };
                let text = format!("{went}. {name} has a trap, {when}; the worker never got it. {lasted}");
                let change = if self.in_the_foreground().is_ok() { PASS_ON } else { START_BEHIND };
                Explanation::new(Cause::NotPassedOn, text).change(change)
            }
            Disposition::Caught | Disposition::WaitedFor => {
                let text = format!("{went}. {name} takes it and stayed, and the worker never got it. {lasted}");
                let change = format!(
                    "let {name} pass SIGTERM on and wait until the worker is gone; or start the worker without it."
                );
                Explanation::new(Cause::NotPassedOn, text).change(change)
            }
            found @ Disposition::Default => {
                let text = format!("{went}. {name} (SIGTERM {}) stayed. {lasted}", found.name());
                Explanation::new(Cause::Unknown, text).change(self.reach_the_worker())
            }
        }
    }

    fn waits_for_the_foreground(&self, went: &str, lasted: &str) -> Explanation {
        let (name, worker) = (self.top.program(), self.worker);
        let child = match self.in_the_foreground() {
            Ok(Some(child)) if !self.is_above_the_worker(child) => format!(", {}, ", child.program()),
            _ => " ".to_owned(),
        };
        let text = format!(
            "{went}. {name} has a handler, but waits for its foreground child{child}before it does anything: the worker never got \
             it. {lasted}"
        );
        let change = match worker.sigterm {
            Disposition::Default | Disposition::Ignored => format!("{START_BEHIND} It needs a handler for it too."),
            _ => START_BEHIND.to_owned(),
        };
        Explanation::new(Cause::WaitsForChild, text).change(change)
    }

    /// What SIGKILL to the top did to the worker, as a sentence.
    fn until_sigkill_to_the_top(&self) -> String {
        if !self.was_killed() {
            return "All went on.".to_owned();
        }
        if self.was_cut(self.worker) {
            return format!("SIGKILL to PID 1 then cut the worker{}.", self.with_invocations());
        }
        if self.ended(self.worker) && self.status(self.worker) == Some(Status::SIGKILL) {
            return format!(
                "SIGKILL then took {}, and the worker with it{}.",
                self.top.program(),
                self.with_invocations()
            );
        }
        format!("SIGKILL then reached {} only, and the worker {}.", self.top.program(), self.alone())
    }
}
