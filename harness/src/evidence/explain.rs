//! Where the signal went, in one short paragraph. Pure: from what was observed, and nothing else.

use std::borrow::Cow;

use scenarios::{EventKind, Scenario, Signal, Span, Status, Tick, WorkerId};
use serde::{Deserialize, Serialize};

use super::{
    Disposition, Evidence, Kernel, ProcessFacts,
    kernel::{Outcome, Step},
    words::{called, count, is_shell},
};
use crate::record::Observed;

/// Why the signal had the effect that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It was not sent: there was nobody left to send it to.
    NotSent,
    /// PID 1 had no handler, so the kernel dropped it.
    Dropped,
    /// Whoever got it last ignores it.
    Ignored,
    /// It is held back: blocked and not taken.
    Held,
    /// The worker got it and died of it.
    Died,
    /// The worker got it, drained and exited.
    Drained,
    /// The worker got it and was not done in time.
    CutShort,
    /// The first process took it, and waits for its foreground child without passing it on.
    WaitsForChild,
    /// The first process took it and passed it on, but left before the worker was done.
    LeftEarly,
    /// The first process passed it on to one that died of it, or ended itself, and the worker never got it.
    NotPassedOn,
    /// The first process died of it and left the worker behind.
    Orphaned,
    /// What was observed does not tell.
    Unknown,
}

/// Where the signal went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// Why it had the effect that it had.
    pub cause: Cause,
    /// The whole story, as a short paragraph.
    pub text: String,
    /// The one change that would help, where something is to be helped.
    pub change: Option<String>,
}

/// Explains what became of SIGTERM; `None` where nothing tells of it.
#[must_use]
pub fn explain(scenario: &Scenario, evidence: &Evidence, events: &[Observed]) -> Option<Explanation> {
    let story = match Story::of(scenario, evidence, events) {
        Ok(story) => story,
        Err(explanation) => return explanation,
    };
    let told = if story.direct() { story.direct_signal() } else { story.signal_to_the_top() };
    let mut text = vec![told.text];
    text.extend(story.misleading_masks());
    text.extend(story.kernel_record());
    Some(Explanation { cause: told.cause, text: text.join(" "), change: told.change.map(Cow::into_owned) })
}

/// What is told of one case.
struct Told {
    cause: Cause,
    text: String,
    change: Option<Cow<'static, str>>,
}

fn told(cause: Cause, text: String, change: Option<impl Into<Cow<'static, str>>>) -> Told {
    Told { cause, text, change: change.map(Into::into) }
}

const NO_CHANGE: Option<&'static str> = None;
const HANDLER: &str = "a handler for SIGTERM in the worker, installed before it does anything else.";
const EXEC: &str =
    "have the worker take the first process's place: the exec form (a JSON array), or `exec` before its command line.";

/// The evidence, with what is asked of it most.
struct Story<'a> {
    scenario: &'a Scenario,
    evidence: &'a Evidence,
    events: &'a [Observed],
    worker_id: WorkerId,
    top: &'a ProcessFacts,
    worker: &'a ProcessFacts,
    sent: Tick,
    killed_us: Option<i64>,
}

impl<'a> Story<'a> {
    fn of(
        scenario: &'a Scenario,
        evidence: &'a Evidence,
        events: &'a [Observed],
    ) -> Result<Story<'a>, Option<Explanation>> {
        let find = |wanted: fn(&EventKind) -> bool| events.iter().find(|observed| wanted(&observed.event.kind));
        if find(|kind| matches!(kind, EventKind::SigtermSkipped { .. })).is_some() {
            let text = "SIGTERM was not sent: the worker had ended before it.".to_owned();
            return Err(Some(Explanation { cause: Cause::NotSent, text, change: None }));
        }
        let sent = find(|kind| matches!(kind, EventKind::SigtermSent { .. })).ok_or(None)?;
        let top = evidence.before.as_ref().and_then(|before| before.top()).ok_or(None)?;
        // Where nobody says which one is the worker, the lowest is as near as one gets.
        let before = evidence.before.as_ref();
        let lowest = || before.and_then(|before| Some(&before.processes.last()?.process));
        let worker = evidence.worker_pid.and_then(|pid| evidence.process(pid)).or_else(lowest).ok_or(None)?;
        let killed = find(|kind| matches!(kind, EventKind::SigkillSent { .. }));
        let worker_id = sent.event.kind.worker().ok_or(None)?;
        let (sent, killed_us) = (sent.event.t, killed.map(|killed| killed.at_us));
        Ok(Story { scenario, evidence, events, worker_id, top, worker, sent, killed_us })
    }

    fn direct(&self) -> bool {
        self.top.pid == self.worker.pid
    }

    fn status(&self, process: &ProcessFacts) -> Option<Status> {
        self.evidence.end(process.pid).and_then(|end| end.status)
    }

    /// When it ended, within the drill.
    fn ended_us(&self, process: &ProcessFacts) -> Option<i64> {
        self.evidence.end(process.pid).and_then(|end| end.at_us)
    }

    /// Whether it ended after SIGTERM and without SIGKILL to the top.
    fn ended_by_itself(&self, process: &ProcessFacts) -> bool {
        self.ended_us(process).is_some_and(|ended| self.killed_us.is_none_or(|killed| ended < killed))
    }

    /// Whether it is one of those that the kernel kills when PID 1 of their namespace ends. It is seen to end before
    /// PID 1, which the kernel lets go last.
    fn cut_with_top(&self, process: &ProcessFacts) -> bool {
        self.top.is_init()
            && process.pid != self.top.pid
            && self.status(process).is_none_or(|status| status == Status::SIGKILL)
            && self.ended_us(process).is_some()
    }

    fn received(&self) -> bool {
        self.evidence.received.is_some()
            || self.status(self.worker) == Some(Status::SIGTERM)
            || self.sent_to_worker().is_some()
    }

    /// The kernel's record of SIGTERM to the worker by another process of the drill, if there is one.
    fn sent_to_worker(&self) -> Option<&Step> {
        let Some(Kernel::Records(records)) = &self.evidence.kernel else { return None };
        let to_worker = |pid: i32| pid == self.worker.pid && !self.direct();
        records
            .iter()
            .find(|record| {
                record.signal == Signal::TERM && to_worker(record.pid) && matches!(record.step, Step::Sent { .. })
            })
            .map(|record| &record.step)
    }

    /// `at once`, or how long after SIGTERM in model time.
    fn when(&self, process: &ProcessFacts) -> String {
        match self.evidence.end(process.pid).and_then(|end| end.t).map(|t| t.0.saturating_sub(self.sent.0)) {
            Some(0) => "at once".to_owned(),
            Some(ticks) => format!("after {} s", Span(ticks)),
            None => "later".to_owned(),
        }
    }

    fn killed_invocations(&self) -> usize {
        let killed =
            |kind: &EventKind| matches!(kind, EventKind::InvocationKilled { worker, .. } if *worker == self.worker_id);
        self.events.iter().filter(|observed| killed(&observed.event.kind)).count()
    }

    /// `, and N invocations with it`, where there are any.
    fn with_invocations(&self) -> String {
        match self.killed_invocations() {
            0 => String::new(),
            number => format!(", and {} with it", count(number, "invocation")),
        }
    }

    fn seat(process: &ProcessFacts) -> &'static str {
        if process.is_init() { "PID 1" } else { "not PID 1" }
    }

    /// How long SIGTERM had to come before SIGKILL for everything in flight to be done.
    fn enough_grace(&self) -> Option<Span> {
        let admitted = |observed: &Observed| match observed.event.kind {
            EventKind::RequestAdmitted { request, worker, .. } if worker == self.worker_id => {
                Some((request, observed.event.t))
            }
            _ => None,
        };
        let killed = |observed: &Observed| match observed.event.kind {
            EventKind::InvocationKilled { request, worker } if worker == self.worker_id => Some(request),
            _ => None,
        };
        let killed: Vec<_> = self.events.iter().filter_map(killed).collect();
        let last = self.events.iter().filter_map(admitted).filter(|(request, _)| killed.contains(request));
        let done = last.map(|(_, t)| t).max()? + self.scenario.invocation_s;
        Some(Span(done.0.saturating_sub(self.scenario.signal_at().0)))
    }

    fn longer_grace(&self) -> Option<String> {
        let enough = self.enough_grace()?;
        let now = self.scenario.grace_period_s;
        (enough > now).then(|| format!("a grace period of {enough} s instead of {now} s, or shorter invocations."))
    }

    // The signal goes to the worker itself.

    fn direct_signal(&self) -> Told {
        let worker = self.worker;
        let how = match &self.evidence.shell {
            Some(shell) => {
                let program = shell.rsplit('/').next().unwrap_or(shell);
                format!("/bin/sh is {program} here; it exec'd the worker, so SIGTERM went to the worker itself")
            }
            None => "SIGTERM went to the worker itself".to_owned(),
        };
        let seat = Self::seat(worker);
        if self.evidence.received.is_some() {
            return self.drain(&format!("{how} ({seat}), whose handler got it"));
        }
        if self.status(worker) == Some(Status::SIGTERM) {
            let text = format!(
                "{how} ({seat}), which has no handler: it died of it {}{}.",
                self.when(worker),
                self.with_invocations()
            );
            return told(Cause::Died, text, Some(HANDLER));
        }
        if self.ended_by_itself(worker) {
            let status =
                self.status(worker).map_or("with an unknown status".to_owned(), |status| format!("({status})"));
            let text =
                format!("{how} ({seat}); it did not tell that it got it, and ended {status} {}.", self.when(worker));
            return told(Cause::Unknown, text, NO_CHANGE);
        }
        let lasted = self.until_sigkill();
        match worker.sigterm {
            Disposition::Default if worker.is_init() => {
                let later = self.snapshots_after().any(|then| then.sigterm == Disposition::Caught);
                let later = if later { " The handler that it installed later does not get it." } else { "" };
                let text = format!(
                    "{how}: PID 1 without a handler. To such a PID 1 the kernel drops SIGTERM when it is sent, so {lasted}.{later}"
                );
                told(Cause::Dropped, text, Some(HANDLER))
            }
            Disposition::Ignored => {
                let text = format!("{how} ({seat}), which ignores it (SIG_IGN): the kernel dropped it, so {lasted}.");
                told(Cause::Ignored, text, Some("a handler for SIGTERM in the worker instead of SIG_IGN."))
            }
            Disposition::Blocked => {
                let text = format!("{how} ({seat}), which blocks it: it stays pending, so {lasted}.");
                told(Cause::Held, text, Some("unblock SIGTERM in the worker, with a handler for it."))
            }
            found => {
                let text = format!("{how} ({seat}; SIGTERM: {}), but nothing came of it: {lasted}.", found.name());
                told(Cause::Unknown, text, NO_CHANGE)
            }
        }
    }

    fn snapshots_after(&self) -> impl Iterator<Item = &ProcessFacts> {
        let later = [&self.evidence.after, &self.evidence.before_sigkill, &self.evidence.at_end];
        later.into_iter().flatten().filter_map(|snapshot| snapshot.process(self.worker.pid))
    }

    /// What follows where nothing came of SIGTERM.
    fn until_sigkill(&self) -> String {
        match self.killed_us {
            Some(_) => format!("all went on until SIGKILL, which took the worker{}", self.with_invocations()),
            None => "all went on".to_owned(),
        }
    }

    /// The worker got it; `how` says from whom.
    fn drain(&self, how: &str) -> Told {
        let killed = self.killed_invocations();
        match (self.status(self.worker), self.ended_us(self.worker)) {
            (Some(Status::Code(code)), Some(_)) => {
                let text = format!("{how}; it drained and exited {code} {}.", self.when(self.worker));
                told(Cause::Drained, text, NO_CHANGE)
            }
            (_, Some(_)) if self.killed_us.is_some() => {
                let text =
                    format!("{how}; it drained, but was not done when SIGKILL took it{}.", self.with_invocations());
                told(Cause::CutShort, text, self.longer_grace())
            }
            (_, None) if self.killed_us.is_some() => {
                let text = format!(
                    "{how}; it drained. SIGKILL at the end of the grace period went to {}, so the worker was left alive, \
                     and was cleaned up after the drill.",
                    called(self.top)
                );
                told(Cause::Orphaned, text, Some(EXEC))
            }
            _ => {
                let lost = if killed > 0 { self.with_invocations() } else { String::new() };
                told(Cause::Drained, format!("{how}; it was still draining at the end of the drill{lost}."), NO_CHANGE)
            }
        }
    }

    // The signal goes to something else, above the worker.

    fn signal_to_the_top(&self) -> Told {
        let top = called(self.top);
        let went = format!("SIGTERM went to {top} ({}), not to the worker below it", Self::seat(self.top));
        let top_left = self.ended_by_itself(self.top);
        match (top_left, self.received()) {
            (true, true) => self.top_passed_it_on(&went),
            (true, false) if self.status(self.top) == Some(Status::SIGTERM) => self.top_died(&went),
            (true, false) => self.top_left_alone(&went),
            (false, true) => {
                let passer = self.passer();
                if self.status(self.worker) == Some(Status::SIGTERM) {
                    let text = format!("{went}. {passer} passed it on and stayed; the worker died of it.");
                    return told(Cause::Died, text, Some(HANDLER));
                }
                if self.evidence.received.is_none() {
                    return self.ignored_below(&went);
                }
                self.drain(&format!("{went}. {passer} passed it on to the worker, whose handler got it"))
            }
            (false, false) => self.top_stays(&went),
        }
    }

    /// Who passed it on to the worker, as a subject.
    fn passer(&self) -> String {
        let by = match (self.evidence.received, self.sent_to_worker()) {
            (Some(received), _) => self.in_worker_namespace(received.from_pid),
            (None, Some(Step::Sent { by_pid: Some(pid), .. })) => self.evidence.process(*pid),
            _ => None,
        };
        by.map_or("It".to_owned(), |process| process.program().to_owned())
    }

    /// The process that has this number in the worker's own PID namespace.
    fn in_worker_namespace(&self, pid: i32) -> Option<&ProcessFacts> {
        let before = self.evidence.before.as_ref()?;
        before.processes.iter().map(|node| &node.process).find(|process| process.namespace_pid == pid)
    }

    fn top_passed_it_on(&self, went: &str) -> Told {
        let (top, worker) = (self.top, self.worker);
        let (passer, name) = (self.passer(), top.program());
        let status = self.status(top).map_or("with an unknown status".to_owned(), |status| format!("with {status}"));
        if self.cut_with_top(worker) {
            let text = format!(
                "{went}. {passer} passed it on, but {name} left before the worker was done ({status}). It was PID 1: \
                 its end cut the whole namespace, the worker{} included.",
                self.with_invocations()
            );
            return told(Cause::LeftEarly, text, Some(self.wait_again()));
        }
        let worker_first = match (self.ended_us(worker), self.ended_us(top)) {
            (Some(worker), Some(top)) => worker <= top,
            _ => false,
        };
        if !worker_first {
            let text = format!(
                "{went}. {passer} passed it on, but {name} left first ({status}), before the worker was done; the \
                 worker {}.",
                self.alone()
            );
            return told(Cause::LeftEarly, text, Some(self.wait_again()));
        }
        if self.status(worker) == Some(Status::SIGTERM) {
            let text = format!(
                "{went}. {passer} passed it on; the worker has no handler and died of it {}{}. {name} reported {}.",
                self.when(worker),
                self.with_invocations(),
                self.status(top).map_or("nothing".to_owned(), |status| status.to_string()),
            );
            return told(Cause::Died, text, Some(HANDLER));
        }
        let text = format!(
            "{went}. {passer} passed it on and waited; the worker drained and {} {}, and {name} left after it \
             ({status}).",
            match self.status(worker) {
                Some(Status::Code(code)) => format!("exited {code}"),
                Some(status) => format!("ended ({status})"),
                None => "ended".to_owned(),
            },
            self.when(worker),
        );
        told(Cause::Drained, text, NO_CHANGE)
    }

    fn wait_again(&self) -> Cow<'static, str> {
        if is_shell(self.top) {
            return "wait again: a trap interrupts `wait`, so call it in a loop until the worker is gone.".into();
        }
        "let the init's child be the worker itself: `exec` in the shell between them, and signal that one only.".into()
    }

    fn top_died(&self, went: &str) -> Told {
        let text = format!(
            "{went}. It has no handler and died of it {}; nobody passed it on. The worker {}.",
            self.when(self.top),
            self.alone()
        );
        told(Cause::Orphaned, text, Some(EXEC))
    }

    /// What became of a worker whose top was gone, as a predicate.
    fn alone(&self) -> String {
        match (self.ended_us(self.worker), self.status(self.worker)) {
            (None, _) => {
                "lived on as an orphan, out of the platform's reach, until it was cleaned up after the drill".to_owned()
            }
            (Some(_), Some(status)) => format!("went on alone and ended {} ({status})", self.when(self.worker)),
            (Some(_), None) => format!("went on alone and ended {}", self.when(self.worker)),
        }
    }

    /// The top ended by itself and the worker did not get the signal.
    fn top_left_alone(&self, went: &str) -> Told {
        let name = self.top.program();
        let status = self.status(self.top).map_or(String::new(), |status| format!(" ({status})"));
        let between = self.between().find(|process| self.status(process) == Some(Status::SIGTERM));
        let got = match between {
            Some(process) => format!("{name} passed it on to {}, which died of it", called(process)),
            None => format!("{name} ended {}{status}", self.when(self.top)),
        };
        let cut = self.cut_with_top(self.worker);
        let ignores = self.worker.sigterm == Disposition::Ignored;
        let never = match (ignores, &self.evidence.kernel) {
            // An ignored signal leaves no trace in the process.
            (true, None | Some(Kernel::Unavailable { .. })) => "The worker ignores it, whether or not it got it",
            (true, Some(_)) | (false, _) => "The worker never got it",
        };
        let end = match (cut, between.is_some()) {
            (true, true) => {
                format!("{name} then left{status}, and as it was PID 1 that cut the worker{}", self.with_invocations())
            }
            (true, false) => format!("as {name} was PID 1, that cut the worker{}", self.with_invocations()),
            (false, _) => format!("it {}", self.alone()),
        };
        let change: Cow<'static, str> = match between {
            Some(shell) if is_shell(shell) => {
                "`exec` before the worker's command line, so that the worker takes the shell's place and gets what is \
                 passed on."
                    .into()
            }
            _ => EXEC.into(),
        };
        told(Cause::NotPassedOn, format!("{went}. {got}. {never}; {end}."), Some(change))
    }

    /// What is between the top and the worker.
    fn between(&self) -> impl Iterator<Item = &ProcessFacts> {
        let before = self.evidence.before.as_ref().map_or(&[][..], |before| &before.processes);
        before
            .iter()
            .map(|node| &node.process)
            .filter(|process| process.pid != self.top.pid && process.pid != self.worker.pid)
    }

    fn ignored_below(&self, went: &str) -> Told {
        let text = format!(
            "{went}. {} passed it on, but the worker ignores it (SIG_IGN), and {} waits for the worker: {}.",
            self.passer(),
            self.top.program(),
            self.until_sigkill_below()
        );
        told(Cause::Ignored, text, Some("a handler for SIGTERM in the worker instead of SIG_IGN."))
    }

    /// Nothing came of it before SIGKILL, and the worker did not tell that it got it.
    fn top_stays(&self, went: &str) -> Told {
        let name = self.top.program();
        let lasted = self.until_sigkill_below();
        match self.top.sigterm {
            Disposition::Default if self.top.is_init() => {
                let text = format!(
                    "{went}. To a PID 1 without a handler the kernel drops it when it is sent, and {name} passes nothing \
                     on: the worker never got it, and {lasted}."
                );
                told(Cause::Dropped, text, Some(EXEC))
            }
            Disposition::Ignored => {
                let text = format!("{went}. {name} ignores it (SIG_IGN) and passes nothing on: {lasted}.");
                told(Cause::Ignored, text, Some(EXEC))
            }
            _ if self.worker.sigterm == Disposition::Ignored => {
                let text = format!(
                    "{went}. {name} takes it and waits for the worker, which ignores SIGTERM (SIG_IGN): {lasted}."
                );
                told(Cause::Ignored, text, Some("a handler for SIGTERM in the worker instead of SIG_IGN."))
            }
            Disposition::Caught => {
                let text = format!(
                    "{went}. {name} has a handler, but waits for its foreground child first and passes nothing on: the \
                     worker never got it, and {lasted}."
                );
                let background = "start the worker with `&`, pass SIGTERM on in the trap, and `wait` until it is gone; or \
                                  `exec` it.";
                told(Cause::WaitsForChild, text, Some(background))
            }
            Disposition::Blocked => {
                let text = format!("{went}. {name} blocks it, so that it stays pending: {lasted}.");
                told(Cause::Held, text, Some(EXEC))
            }
            found => {
                let text = format!("{went}. {name} (SIGTERM: {}) stayed, and {lasted}.", found.name());
                told(Cause::Unknown, text, Some(EXEC))
            }
        }
    }

    fn until_sigkill_below(&self) -> String {
        if self.killed_us.is_none() {
            return "nothing changed".to_owned();
        }
        match self.ended_us(self.worker) {
            Some(_) if self.cut_with_top(self.worker) => {
                format!("SIGKILL to PID 1 cut the worker{} at the end of the grace period", self.with_invocations())
            }
            Some(_) => format!("after SIGKILL to {} the worker went on alone and ended", self.top.program()),
            None => format!(
                "SIGKILL reached {} only: the worker was left alive and was cleaned up after the drill",
                self.top.program()
            ),
        }
    }

    /// Where what the masks said was not so.
    fn misleading_masks(&self) -> Option<String> {
        let then = |snapshot: &'a Option<super::Snapshot>| snapshot.as_ref()?.process(self.top.pid);
        let after = then(&self.evidence.after)?;
        let gave_up =
            self.top.sigterm == Disposition::Caught && after.sigterm == Disposition::Default && after.is_alive();
        gave_up.then(|| {
            format!(
                "The masks mislead here: SIGTERM showed as caught before and as default after, so {} caught it only to \
                 take the default action, which PID 1 is spared.",
                self.top.program()
            )
        })
    }

    /// What the kernel's record says of the first SIGTERM to the top, and whether the masks said the same.
    fn kernel_record(&self) -> Option<String> {
        let records = match self.evidence.kernel.as_ref()? {
            Kernel::Records(records) => records,
            Kernel::Unavailable { why } => {
                return Some(format!("The kernel's own record is unavailable, since {why}."));
            }
        };
        let outcome = records.iter().find_map(|record| match &record.step {
            Step::Sent { outcome, .. } if record.pid == self.top.pid && record.signal == Signal::TERM => Some(*outcome),
            _ => None,
        });
        let Some(outcome) = outcome else {
            return Some("The kernel's record has no SIGTERM to it.".to_owned());
        };
        let handled = records.iter().any(|record| {
            record.pid == self.top.pid
                && record.signal == Signal::TERM
                && record.step == Step::Delivered { handler: true }
        });
        let said = match (outcome, handled) {
            (Outcome::Dropped, _) => "dropped when it was sent",
            (Outcome::Queued, true) => "queued, and its handler ran",
            (Outcome::Queued, false) => "queued",
            (Outcome::AlreadyPending, _) => "one was pending already",
            (Outcome::Lost, _) => "lost for want of room",
        };
        let masks_say_dropped = match self.top.sigterm {
            Disposition::Ignored => true,
            Disposition::Default => self.top.is_init(),
            Disposition::Caught | Disposition::Blocked | Disposition::WaitedFor => false,
        };
        let agrees = masks_say_dropped == (outcome == Outcome::Dropped);
        let masks = if agrees { "as the masks say" } else { "which is NOT what the masks said" };
        Some(format!("The kernel's record: {said}, {masks}."))
    }
}
