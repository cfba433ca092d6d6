//! An invocation: three stages and a commit, each at its own absolute tick, so that lateness never adds up.
//!
//! It runs to its commit whether or not anybody still listens: the client may be gone, the store is the truth.

use std::sync::Arc;

use bytes::Bytes;
use scenarios::{
    Fault, RequestId, Stage, Tick,
    wire::{Progress, ProgressStep},
};
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::{
    Worker,
    clock::{self, late_us, now_ns},
    drain::Hold,
    holdings::Place,
    pace::{Pace, Waiter},
    store::{Row, StoreError},
};

/// An accepted request and what belongs to it.
pub(crate) struct Invocation {
    pub(crate) request: RequestId,
    pub(crate) addends: Vec<u32>,
    pub(crate) sum: u32,
    pub(crate) place: Place,
    pub(crate) admitted: Tick,
    pub(crate) waiter: Waiter,
    pub(crate) told: Told,
    pub(crate) hold: Hold,
}

/// What an invocation does when it gets to a tick of its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Enter(Stage),
    Commit,
    /// Only seeded workers do what follows: keep the slot of what is committed, free it, commit once more, exit.
    CommitAndKeepSlot,
    FreeSlot,
    CommitAgain,
    ExitProcess,
}

/// What comes after `prepare`, which begins with the admission.
fn plan(admitted: Tick, duration_ticks: u32, ordinal: u64, fault: Option<Fault>) -> Vec<(Tick, Step)> {
    let at = |ticks: u32, step| (Tick(admitted.0 + ticks), step);
    let [model, tool] = [Stage::Model, Stage::Tool].map(|stage| stage.offset_ticks(duration_ticks));
    let mut steps = vec![at(model, Step::Enter(Stage::Model)), at(tool, Step::Enter(Stage::Tool))];
    match fault {
        Some(Fault::LongStage) => steps.push(at(duration_ticks + duration_ticks.div_ceil(3), Step::Commit)),
        Some(Fault::ExitsEarly) if ordinal == 1 => {
            steps.push(at(tool + (duration_ticks - tool) / 2, Step::ExitProcess));
        }
        Some(Fault::CommitsEarly) => steps[1] = at(tool.saturating_sub(1).max(model), Step::Commit),
        Some(Fault::CommitsTwice) => {
            steps.extend([at(duration_ticks, Step::Commit), at(duration_ticks, Step::CommitAgain)]);
        }
        Some(Fault::FreesSlotLate) => {
            steps.extend([at(duration_ticks, Step::CommitAndKeepSlot), at(duration_ticks + 1, Step::FreeSlot)]);
        }
        _ => steps.push(at(duration_ticks, Step::Commit)),
    }
    steps
}

/// Where in its tick a step is aimed at, in percent: at the start, unless the worker is seeded.
fn aim(step: Step, fault: Option<Fault>) -> u64 {
    if step == Step::Commit && fault == Some(Fault::DeadlineWinsTie) { 75 } else { 0 }
}

/// How long a commit that finds the store locked is tried again; other invocations go on meanwhile.
const LOCK_PATIENCE_NS: u64 = 1_000_000_000;
/// How long it waits in between.
const LOCK_RETRY_NS: u64 = 1_000_000;

/// Plays the whole invocation after its admission.
pub(crate) async fn run(worker: Arc<Worker>, mut invocation: Invocation) {
    let settings = &worker.settings;
    for (tick, step) in plan(invocation.admitted, settings.invocation_ticks, invocation.place.ordinal, settings.fault) {
        let percent = aim(step, settings.fault);
        let planned_ns = match worker.pace {
            Pace::Scaled(schedule) => schedule.within(tick, percent),
            Pace::Stepped(schedule, _) => schedule.start_of(tick),
        };
        if let Err(error) = invocation.waiter.until_within(tick, percent).await {
            invocation.free_slot(&worker, false);
            invocation.failed(planned_ns, &format!("the timer failed: {error}"));
            return invocation.end();
        }
        match step {
            Step::Enter(stage) => {
                info!("{} enters {stage}", invocation.request);
                invocation.told.tell(Some(planned_ns), ProgressStep::StageEntered { stage });
            }
            Step::Commit => {
                let result = invocation.commit(&worker).await;
                let at_ns = worker.pace.now_ns();
                invocation.free_slot(&worker, !matches!(result, Err(NotCommitted::Failed(_))));
                invocation.tell_result(at_ns, planned_ns, result);
            }
            Step::CommitAndKeepSlot | Step::CommitAgain => {
                let result = invocation.commit(&worker).await;
                invocation.tell_result(worker.pace.now_ns(), planned_ns, result);
            }
            Step::FreeSlot => invocation.free_slot(&worker, true),
            Step::ExitProcess => {
                warn!("{} makes the process exit: it is seeded with {}", invocation.request, Fault::ExitsEarly);
                worker.exit_early.notify_one();
                return std::future::pending().await;
            }
        }
    }
    invocation.end();
}

/// Why there is no new result in the store.
enum NotCommitted {
    /// There is one already; it stays as it is. This is the sum that was refused.
    Refused { sum: u32 },
    /// Why the store did not take it.
    Failed(String),
}

impl Invocation {
    async fn commit(&self, worker: &Worker) -> Result<u32, NotCommitted> {
        let failed = |error: &dyn std::fmt::Display| NotCommitted::Failed(error.to_string());
        let Some(writer) = &worker.writer else {
            return Err(failed(&format_args!("there is no result store, so the sum {} is not stored", self.sum)));
        };
        let mut row = Row {
            request: self.request,
            worker: worker.settings.worker,
            pid: std::process::id(),
            addends: self.addends.clone(),
            sum: self.sum + u32::from(worker.settings.fault == Some(Fault::WrongSum)),
            committed_us: 0,
        };
        let until_ns = now_ns() + LOCK_PATIENCE_NS;
        loop {
            row.committed_us = worker.pace.now_ns() / 1_000;
            let committed = crate::lock(writer).commit(&row);
            match committed {
                Ok(()) => return Ok(row.sum),
                Err(StoreError::Busy) if now_ns() < until_ns => {
                    clock::sleep_until(now_ns() + LOCK_RETRY_NS).await.map_err(|error| failed(&error))?;
                }
                Err(StoreError::Duplicate(_)) => return Err(NotCommitted::Refused { sum: row.sum }),
                Err(error) => return Err(failed(&error)),
            }
        }
    }

    /// Frees the slot; a request that was not committed may be tried again.
    fn free_slot(&self, worker: &Worker, committed: bool) {
        crate::lock(&worker.holdings).release(self.request, self.place.slot, committed);
    }

    /// Tells what became of a commit that was planned for `planned_ns` and tried at `at_ns`.
    fn tell_result(&self, at_ns: u64, planned_ns: u64, result: Result<u32, NotCommitted>) {
        match result {
            Ok(sum) => {
                self.told.tell_at(at_ns, Some(planned_ns), ProgressStep::ResultCommitted { sum });
                info!("{} commits the sum {sum}, {} us after its tick began", self.request, late_us(at_ns, planned_ns));
            }
            Err(NotCommitted::Refused { sum }) => {
                self.told.tell_at(at_ns, Some(planned_ns), ProgressStep::CommitRefused { sum });
                warn!("{} has a result in the store already: the sum {sum} is refused", self.request);
            }
            Err(NotCommitted::Failed(error)) => self.failed(planned_ns, &error),
        }
    }

    fn failed(&self, planned_ns: u64, error: &str) {
        self.told.tell(Some(planned_ns), ProgressStep::CommitFailed { error: error.to_owned() });
        warn!("{} has no result: {error}", self.request);
    }

    /// Ends the answer and, last of all, the worker's hold on the invocation.
    fn end(self) {
        let Invocation { told, hold, waiter, .. } = self;
        drop(told);
        drop(hold);
        // On a stepped clock this lets the step end.
        drop(waiter);
    }
}

/// Where the lines of an answer go.
pub(crate) struct Told {
    lines: mpsc::UnboundedSender<Bytes>,
    pace: Pace,
}

impl Told {
    pub(crate) fn new(pace: Pace) -> (Told, mpsc::UnboundedReceiver<Bytes>) {
        let (lines, body) = mpsc::unbounded_channel();
        (Told { lines, pace }, body)
    }

    /// Tells `step`, which happens now.
    pub(crate) fn tell(&self, planned_ns: Option<u64>, step: ProgressStep) {
        self.tell_at(self.pace.now_ns(), planned_ns, step);
    }

    fn tell_at(&self, at_ns: u64, planned_ns: Option<u64>, step: ProgressStep) {
        let late_us = planned_ns.map_or(0, |planned_ns| late_us(at_ns, planned_ns));
        if let Ok(mut line) = serde_json::to_vec(&Progress { at_us: at_ns / 1_000, late_us, step }) {
            line.push(b'\n');
            // A client that is gone misses it, and nothing else follows from that.
            let told = self.lines.send(Bytes::from(line));
            if let (Ok(()), Pace::Stepped(_, steps)) = (told, &self.pace) {
                steps.tell();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_and_commit_have_their_ticks() {
        use Step::{Commit, CommitAgain, CommitAndKeepSlot, Enter, ExitProcess, FreeSlot};
        let stages =
            |model, tool, last| vec![(Tick(model), Enter(Stage::Model)), (Tick(tool), Enter(Stage::Tool)), last];
        let rows = [
            (10, 200, 1, None, stages(77, 144, (Tick(210), Commit))),
            (10, 3, 1, None, stages(11, 12, (Tick(13), Commit))),
            (10, 1, 1, None, stages(11, 11, (Tick(11), Commit))),
            (10, 200, 1, Some(Fault::WrongSum), stages(77, 144, (Tick(210), Commit))),
            (10, 200, 1, Some(Fault::LongStage), stages(77, 144, (Tick(277), Commit))),
            (10, 1, 1, Some(Fault::LongStage), stages(11, 11, (Tick(12), Commit))),
            (10, 200, 1, Some(Fault::ExitsEarly), stages(77, 144, (Tick(177), ExitProcess))),
            (10, 1, 1, Some(Fault::ExitsEarly), stages(11, 11, (Tick(11), ExitProcess))),
            (10, 200, 2, Some(Fault::ExitsEarly), stages(77, 144, (Tick(210), Commit))),
            (10, 200, 1, Some(Fault::DeadlineWinsTie), stages(77, 144, (Tick(210), Commit))),
            (10, 200, 1, Some(Fault::CommitsEarly), vec![(Tick(77), Enter(Stage::Model)), (Tick(143), Commit)]),
            (10, 1, 1, Some(Fault::CommitsEarly), vec![(Tick(11), Enter(Stage::Model)), (Tick(11), Commit)]),
            (10, 200, 1, Some(Fault::CommitsTwice), {
                let once = stages(77, 144, (Tick(210), Commit));
                once.into_iter().chain([(Tick(210), CommitAgain)]).collect()
            }),
            (10, 200, 1, Some(Fault::FreesSlotLate), {
                let kept = stages(77, 144, (Tick(210), CommitAndKeepSlot));
                kept.into_iter().chain([(Tick(211), FreeSlot)]).collect()
            }),
        ];
        for (admitted, duration, ordinal, fault, expected) in rows {
            assert_eq!(plan(Tick(admitted), duration, ordinal, fault), expected, "{duration} {ordinal} {fault:?}");
        }
    }
}
