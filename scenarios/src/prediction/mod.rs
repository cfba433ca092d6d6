//! What SIGTERM to a command's first process will come to, predicted from the command line alone.
//!
//! A command is a chain of processes, from the one that the platform signals (the top) down to the worker. Each but
//! the last has a [`Manner`]: what it does when SIGTERM reaches it, and how it ends once its child has. [`chain`]
//! finds the manners of a command line, and [`predict`] follows the signal down the chain. That is all there is to it:
//! no form has a rule of its own.

mod chain;
mod manner;
mod text;
mod trap;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use chain::{Chain, LookedUp, SCRIPT_PLACEHOLDER, Unpredictable, chain};
pub use manner::{Manner, OnTerm, Report};

use crate::{Effect, OnSigterm, Status};

/// What became of the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Top {
    /// It ended before any signal was sent.
    Gone(Status),
    /// It ended by itself within the grace period.
    Ended(Status),
    /// It was there until SIGKILL.
    Stuck,
}

/// What became of the worker behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerFate {
    /// It was told and finished its work, and the top waited for it.
    Drained,
    /// It was told and finished its work, but the top had left before.
    DrainedAlone,
    /// It died of the signal.
    Died,
    /// It was killed with its work in hand, because a process before it ended or had no patience.
    Cut,
    /// The top is gone, and it lives on.
    Orphaned,
    /// It went on as if nothing had been, and so did the top.
    Stuck,
}

/// What came of SIGTERM to the top, and of SIGKILL to it where that was needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reaction {
    /// What became of the top.
    pub top: Top,
    /// What became of the worker.
    pub worker: WorkerFate,
    /// Whether the signal reached a worker that had a use for it: its handler ran, or it died of it.
    pub received: bool,
    /// Whether the worker outlives the SIGKILL that the top gets.
    pub outlives_sigkill: bool,
}

impl Reaction {
    /// The effect in the language of scenarios, or `None` where the four effects have no word for it: a top that is gone
    /// before the signal. A worker that drains alone is an orphan, too.
    #[must_use]
    pub fn effect(&self) -> Option<Effect> {
        match (self.top, self.worker) {
            (Top::Gone(_), _) => None,
            (_, WorkerFate::Drained) => Some(Effect::Drained),
            (_, WorkerFate::Died | WorkerFate::Cut) => Some(Effect::Terminated),
            (_, WorkerFate::Orphaned | WorkerFate::DrainedAlone) => Some(Effect::Orphaned),
            (_, WorkerFate::Stuck) => Some(Effect::Ignored),
        }
    }
}

/// In a word or two: the top's end where the worker's came before it, else what is worse than that.
impl fmt::Display for Reaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match (self.top, self.worker) {
            (Top::Gone(_), _) => "gone",
            (_, WorkerFate::DrainedAlone) => "alone",
            (_, WorkerFate::Cut) => "cut",
            (_, WorkerFate::Orphaned) => "orphan",
            (Top::Stuck, _) if self.outlives_sigkill => "stuck+",
            (Top::Stuck, _) => "stuck",
            (Top::Ended(Status::Code(code)), _) => return f.pad(&format!("exit {code}")),
            (Top::Ended(Status::Signal(signal)), _) => return f.pad(&format!("sig {}", signal.number())),
        };
        f.pad(word)
    }
}

/// What SIGTERM does to one process and to everything below it.
#[derive(Clone, Copy)]
struct Course {
    /// How the process ends, if it does.
    end: Option<Status>,
    /// What becomes of the worker, as far as the processes down here decide it.
    worker: WorkerFate,
}

/// Follows SIGTERM from the top down the chain. `chain` has the manners of the processes before the worker, the top's
/// first; without any, the worker is the top. `pid1`: whether the top is PID 1 of a PID namespace.
#[must_use]
pub fn predict(chain: &[Manner], pid1: bool, posture: OnSigterm) -> Reaction {
    if let Some(code) = chain.first().and_then(|manner| manner.leaves_at_start) {
        let worker = if pid1 { WorkerFate::Cut } else { WorkerFate::Orphaned };
        return Reaction { top: Top::Gone(Status::Code(code)), worker, received: false, outlives_sigkill: false };
    }
    let course = Course::of(chain, pid1, posture);
    // PID 1 takes everything with it (pid_namespaces(7)); any other process leaves its children to somebody else.
    let worker = match (course.end, course.worker) {
        (Some(_), WorkerFate::Stuck | WorkerFate::DrainedAlone) if pid1 => WorkerFate::Cut,
        (Some(_), WorkerFate::Stuck) => WorkerFate::Orphaned,
        (_, fate) => fate,
    };
    Reaction {
        top: course.end.map_or(Top::Stuck, Top::Ended),
        worker,
        received: matches!(course.worker, WorkerFate::Drained | WorkerFate::DrainedAlone | WorkerFate::Died),
        outlives_sigkill: course.end.is_none() && !chain.is_empty() && !pid1,
    }
}

impl Course {
    fn of(chain: &[Manner], pid1: bool, posture: OnSigterm) -> Course {
        let Some((manner, below)) = chain.split_first() else { return Course::of_worker(pid1, posture) };
        let child = || Course::of(below, false, posture);
        match manner.on_term {
            // The kernel drops what would have the default action on PID 1.
            OnTerm::Dies if pid1 => Course { end: None, worker: WorkerFate::Stuck },
            OnTerm::Dies => Course { end: Some(Status::SIGTERM), worker: WorkerFate::Stuck },
            OnTerm::Waits | OnTerm::Ignores => Course { end: None, worker: WorkerFate::Stuck },
            OnTerm::Passes => manner.after(child(), pid1),
            OnTerm::PassesToGroup => manner.after(Course::of_group(below, posture), pid1),
            OnTerm::PassesAndLeaves(report) => {
                let worker = match child().worker {
                    WorkerFate::Drained => WorkerFate::DrainedAlone,
                    fate => fate,
                };
                Course { end: Some(report.status(Status::SIGTERM, pid1)), worker }
            }
            OnTerm::PassesAndKills(report) => {
                let worker = match child().worker {
                    WorkerFate::Stuck if below.is_empty() || manner.hangs_up => WorkerFate::Cut,
                    fate => fate,
                };
                Course { end: Some(report.status(Status::SIGTERM, pid1)), worker }
            }
        }
    }

    /// Of processes that all get the signal, the worker too.
    fn of_group(chain: &[Manner], posture: OnSigterm) -> Course {
        let Some((manner, below)) = chain.split_first() else { return Course::of_worker(false, posture) };
        let child = Course::of_group(below, posture);
        let left_behind = match child.worker {
            WorkerFate::Drained => WorkerFate::DrainedAlone,
            fate => fate,
        };
        match manner.on_term {
            OnTerm::Dies => Course { end: Some(Status::SIGTERM), worker: left_behind },
            OnTerm::PassesAndLeaves(report) => {
                Course { end: Some(report.status(Status::SIGTERM, false)), worker: left_behind }
            }
            OnTerm::PassesAndKills(report) => Course { end: Some(report.status(Status::SIGTERM, false)), ..child },
            // Whatever it does about it, it goes on until its child has ended.
            OnTerm::Waits | OnTerm::Ignores | OnTerm::Passes | OnTerm::PassesToGroup => manner.after(child, false),
        }
    }

    fn of_worker(pid1: bool, posture: OnSigterm) -> Course {
        match posture {
            OnSigterm::Drain => Course { end: Some(Status::SUCCESS), worker: WorkerFate::Drained },
            OnSigterm::Default if !pid1 => Course { end: Some(Status::SIGTERM), worker: WorkerFate::Died },
            OnSigterm::Default | OnSigterm::Ignore => Course { end: None, worker: WorkerFate::Stuck },
        }
    }
}

impl Manner {
    /// Its own course, when it waits for a child that takes this one.
    fn after(self, child: Course, pid1: bool) -> Course {
        Course { end: child.end.map(|end| self.on_child_end.status(end, pid1)), ..child }
    }
}

#[cfg(test)]
mod tests;
