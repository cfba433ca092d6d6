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
    /// Only seeded workers do this.
    ExitProcess,
}

/// What comes after `prepare`, which begins with the admission.
fn plan(admitted: Tick, duration_ticks: u32, ordinal: u64, fault: Option<Fault>) -> [(Tick, Step); 3] {
    let after = |ticks: u32| Tick(admitted.0 + ticks);
    let [model, tool] = [Stage::Model, Stage::Tool].map(|stage| stage.offset_ticks(duration_ticks));
    let last = match fault {
        Some(Fault::LongStage) => (after(duration_ticks + duration_ticks.div_ceil(3)), Step::Commit),
        Some(Fault::ExitsEarly) if ordinal == 1 => (after(tool + (duration_ticks - tool) / 2), Step::ExitProcess),
        _ => (after(duration_ticks), Step::Commit),
    };
    [(after(model), Step::Enter(Stage::Model)), (after(tool), Step::Enter(Stage::Tool)), last]
}

/// How long a commit that finds the store locked is tried again; other invocations go on meanwhile.
const LOCK_PATIENCE_NS: u64 = 1_000_000_000;
/// How long it waits in between.
const LOCK_RETRY_NS: u64 = 1_000_000;

/// Plays the whole invocation after its admission.
pub(crate) async fn run(worker: Arc<Worker>, mut invocation: Invocation) {
    let settings = &worker.settings;
    for (tick, step) in plan(invocation.admitted, settings.invocation_ticks, invocation.place.ordinal, settings.fault) {
        let planned_ns = worker.pace.schedule().start_of(tick);
        if let Err(error) = invocation.waiter.until(tick).await {
            return invocation.fail(&worker, planned_ns, &format!("the timer failed: {error}"));
        }
        match step {
            Step::Enter(stage) => {
                info!("{} enters {stage}", invocation.request);
                invocation.told.tell(Some(planned_ns), ProgressStep::StageEntered { stage });
            }
            Step::Commit => match invocation.commit(&worker).await {
                Ok(sum) => return invocation.complete(&worker, planned_ns, sum),
                Err(error) => return invocation.fail(&worker, planned_ns, &error),
            },
            Step::ExitProcess => {
                warn!("{} makes the process exit: it is seeded with {}", invocation.request, Fault::ExitsEarly);
                worker.exit_early.notify_one();
                return std::future::pending().await;
            }
        }
    }
}

impl Invocation {
    async fn commit(&mut self, worker: &Worker) -> Result<u32, String> {
        let Some(writer) = &worker.writer else {
            return Err(format!("there is no result store, so the sum {} is not stored", self.sum));
        };
        let mut row = Row {
            request: self.request,
            worker: worker.settings.worker,
            pid: std::process::id(),
            addends: std::mem::take(&mut self.addends),
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
                    clock::sleep_until(now_ns() + LOCK_RETRY_NS).await.map_err(|error| error.to_string())?;
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn complete(self, worker: &Worker, planned_ns: u64, sum: u32) {
        let at_ns = worker.pace.now_ns();
        crate::lock(&worker.holdings).release(self.request, self.place.slot, true);
        self.told.tell_at(at_ns, Some(planned_ns), ProgressStep::ResultCommitted { sum });
        info!("{} commits the sum {sum}, {} us after its tick began", self.request, late_us(at_ns, planned_ns));
        self.end();
    }

    fn fail(self, worker: &Worker, planned_ns: u64, error: &str) {
        crate::lock(&worker.holdings).release(self.request, self.place.slot, false);
        self.told.tell(Some(planned_ns), ProgressStep::CommitFailed { error: error.to_owned() });
        warn!("{} has no result: {error}", self.request);
        self.end();
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
        use Step::{Commit, Enter, ExitProcess};
        let stages = |model, tool, last| [(Tick(model), Enter(Stage::Model)), (Tick(tool), Enter(Stage::Tool)), last];
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
        ];
        for (admitted, duration, ordinal, fault, expected) in rows {
            assert_eq!(plan(Tick(admitted), duration, ordinal, fault), expected, "{duration} {ordinal} {fault:?}");
        }
    }
}
