//! The evidence, with what is asked of it most.

use scenarios::{EventKind, Scenario, Signal, Span, Status, Tick, WorkerId};

use crate::{
    evidence::{
        Disposition, Evidence, Kernel, ProcessFacts,
        kernel::{SignalRecord, Step},
        words::count,
    },
    record::Observed,
};

pub(super) struct Story<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) evidence: &'a Evidence,
    events: &'a [Observed],
    worker_id: WorkerId,
    pub(super) top: &'a ProcessFacts,
    pub(super) worker: &'a ProcessFacts,
    sent: Tick,
    killed_us: Option<i64>,
}

/// Whether there was nobody left to send SIGTERM to.
pub(super) fn was_skipped(events: &[Observed]) -> bool {
    events.iter().any(|observed| matches!(observed.event.kind, EventKind::SigtermSkipped { .. }))
}

impl<'a> Story<'a> {
    pub(super) fn of(scenario: &'a Scenario, evidence: &'a Evidence, events: &'a [Observed]) -> Option<Story<'a>> {
        let find = |wanted: fn(&EventKind) -> bool| events.iter().find(|observed| wanted(&observed.event.kind));
        let sent = find(|kind| matches!(kind, EventKind::SigtermSent { .. }))?;
        let killed = find(|kind| matches!(kind, EventKind::SigkillSent { .. }));
        let before = evidence.before.as_ref()?;
        // Where nobody says which one is the worker, the lowest is as near as one gets.
        let lowest = || before.processes.last().map(|node| &node.process);
        let worker = evidence.worker_pid.and_then(|pid| evidence.process(pid)).or_else(lowest)?;
        Some(Story {
            scenario,
            evidence,
            events,
            worker_id: sent.event.kind.worker()?,
            top: before.top()?,
            worker,
            sent: sent.event.t,
            killed_us: killed.map(|killed| killed.at_us),
        })
    }

    /// Whether the top is the worker itself.
    pub(super) fn is_direct(&self) -> bool {
        self.top.pid == self.worker.pid
    }

    /// Whether SIGKILL was sent, to the top.
    pub(super) fn was_killed(&self) -> bool {
        self.killed_us.is_some()
    }

    // Ends.

    pub(super) fn status(&self, process: &ProcessFacts) -> Option<Status> {
        self.evidence.end(process.pid).and_then(|end| end.status)
    }

    /// Whether it ended within the drill.
    pub(super) fn ended(&self, process: &ProcessFacts) -> bool {
        self.ended_us(process).is_some()
    }

    fn ended_us(&self, process: &ProcessFacts) -> Option<i64> {
        self.evidence.end(process.pid).and_then(|end| end.at_us)
    }

    /// Whether it ended before SIGKILL was sent.
    pub(super) fn ended_by_itself(&self, process: &ProcessFacts) -> bool {
        self.ended_us(process).is_some_and(|ended| self.killed_us.is_none_or(|killed| ended < killed))
    }

    /// Whether `first` was seen to end before `second`.
    pub(super) fn left_first(&self, first: &ProcessFacts, second: &ProcessFacts) -> bool {
        let place = |process: &ProcessFacts| self.evidence.ends.iter().position(|end| end.pid == process.pid);
        self.ended(first) && place(first) < place(second)
    }

    /// Whether the kernel killed it because PID 1 of its namespace, the top, ended. Such a process is seen to end before
    /// PID 1, which the kernel lets go last.
    pub(super) fn was_cut(&self, process: &ProcessFacts) -> bool {
        self.top.is_init()
            && process.pid != self.top.pid
            && self.ended(process)
            && match self.status(process) {
                Some(status) => status == Status::SIGKILL,
                None if process.pid != self.worker.pid => true,
                None => !self.ended_by_itself(process) || self.evidence.received.is_some() && self.lost_any(),
            }
    }

    /// Whether the end of PID 1 in the tick of SIGTERM cut the worker.
    pub(super) fn was_cut_at_once(&self) -> bool {
        self.ended_by_itself(self.top) && self.was_cut(self.worker) && self.ticks_until_end(self.top) == Some(0)
    }

    /// Whether nothing tells how the worker ended, and so whether it got SIGTERM: before Linux 6.15 the kernel tells that of our own
    /// children only.
    pub(super) fn end_is_untold(&self) -> bool {
        let (worker, top) = (self.worker, self.top);
        let received = self.evidence.received.is_some();
        let done = !self.lost_any() && (!top.is_init() || self.status(top) == Some(Status::SUCCESS));
        self.status(worker).is_none()
            && !self.is_direct()
            && self.ended_by_itself(worker)
            && !self.was_cut(worker)
            && !(received && done)
            // Where it went on alone, it never got it.
            && self.ticks_until_end(worker) <= self.ticks_until_end(top)
    }

    /// `at once`, or how long after SIGTERM, in model time.
    pub(super) fn when(&self, process: &ProcessFacts) -> String {
        match self.ticks_until_end(process) {
            Some(0) => "at once".to_owned(),
            Some(ticks) => format!("after {} s", Span(ticks)),
            None => "later".to_owned(),
        }
    }

    fn ticks_until_end(&self, process: &ProcessFacts) -> Option<u32> {
        let t = self.evidence.end(process.pid)?.t?;
        Some(t.0.saturating_sub(self.sent.0))
    }

    /// How a process ended, after its name: `exited 0 after 7.0 s`.
    pub(super) fn end(&self, process: &ProcessFacts) -> String {
        format!("{} {}", self.how(process), self.when(process))
    }

    /// The same without the time.
    pub(super) fn how(&self, process: &ProcessFacts) -> String {
        match self.status(process) {
            Some(Status::Code(code)) => format!("exited {code}"),
            Some(Status::Signal(signal)) => format!("was killed by {signal}"),
            None => "ended".to_owned(),
        }
    }

    /// What a shell at the top runs in the foreground: it does not run a trap before that has ended. `None` where it is known to
    /// run nothing there; an error where that can't be told, since the child minds SIGQUIT itself.
    pub(super) fn in_the_foreground(&self) -> Result<Option<&'a ProcessFacts>, ()> {
        self.evidence.before.as_ref().map_or(Err(()), |before| before.in_the_foreground(self.top))
    }

    /// Whether the worker runs in this process or below it.
    pub(super) fn is_above_the_worker(&self, process: &ProcessFacts) -> bool {
        let mut at = Some(self.worker);
        while let Some(found) = at.filter(|found| found.pid != process.pid) {
            at = self.evidence.before.as_ref().and_then(|before| before.process(found.parent));
        }
        at.is_some()
    }

    // The worker.

    /// Whether it is known that the worker got SIGTERM.
    pub(super) fn was_received(&self) -> bool {
        self.evidence.received.is_some()
            || self.status(self.worker) == Some(Status::SIGTERM)
            || self.record_of(self.worker).is_some()
    }

    /// The kernel's record of the first SIGTERM that was sent to a process.
    pub(super) fn record_of(&self, process: &ProcessFacts) -> Option<&'a SignalRecord> {
        let Some(Kernel::Records(records)) = &self.evidence.kernel else { return None };
        let wanted = |record: &&SignalRecord| {
            record.pid == process.pid && record.signal == Signal::TERM && matches!(record.step, Step::Sent { .. })
        };
        records.iter().find(wanted)
    }

    /// `, and N invocations with it`, where any were killed.
    pub(super) fn with_invocations(&self) -> String {
        match self.killed().count() {
            0 => String::new(),
            number => format!(", and {} with it", count(number, "invocation")),
        }
    }

    /// Whether invocations of the worker were killed.
    pub(super) fn lost_any(&self) -> bool {
        self.killed().next().is_some()
    }

    /// Whether the worker was seen to exit after it was orphaned.
    pub(super) fn orphan_exited(&self) -> bool {
        let exited = |kind| matches!(kind, EventKind::OrphanExited { worker } if worker == self.worker_id);
        self.events.iter().any(|observed| exited(observed.event.kind))
    }

    fn killed(&self) -> impl Iterator<Item = scenarios::RequestId> {
        self.events.iter().filter_map(|observed| match observed.event.kind {
            EventKind::InvocationKilled { request, worker } if worker == self.worker_id => Some(request),
            _ => None,
        })
    }

    /// What the worker looked like after SIGTERM.
    pub(super) fn worker_later(&self) -> impl Iterator<Item = &'a ProcessFacts> {
        let later = [&self.evidence.after, &self.evidence.before_sigkill, &self.evidence.at_end];
        later.into_iter().flatten().filter_map(|snapshot| snapshot.process(self.worker.pid))
    }

    // Changes.

    /// The change by which the worker itself gets the signal.
    pub(super) fn reach_the_worker(&self) -> String {
        let change = "the exec form (a JSON array), or `exec` before the worker's command line: SIGTERM then goes to the \
                      worker itself";
        match self.worker.sigterm {
            Disposition::Default | Disposition::Ignored => format!("{change}, which needs a handler for it too."),
            _ => format!("{change}."),
        }
    }

    /// A grace period in which everything in flight could have been done.
    pub(super) fn longer_grace(&self) -> Option<String> {
        let killed: Vec<_> = self.killed().collect();
        let last_done = self
            .events
            .iter()
            .filter(|observed| {
                matches!(observed.event.kind, EventKind::RequestAdmitted { request, .. } if killed.contains(&request))
            })
            .map(|observed| observed.event.t + self.scenario.invocation_s)
            .max();
        let until_done = last_done.map(|done| done.0.saturating_sub(self.sent.0));
        let until_end = self.ticks_until_end(self.worker).filter(|_| killed.is_empty());
        let enough = Span(until_done.or(until_end)?);
        let now = self.scenario.grace_period_s;
        (enough > now).then(|| format!("a grace period of {enough} s instead of {now} s, or shorter invocations."))
    }
}

/// `PID 1`, or not.
pub(super) fn seat(process: &ProcessFacts) -> &'static str {
    if process.is_init() { "PID 1" } else { "not PID 1" }
}
