//! Where the signal went, in one short paragraph. Pure: from what was observed, and nothing else.

mod direct;
mod story;
mod witness;
mod wrapped;

use scenarios::Scenario;
use serde::{Deserialize, Serialize};

use self::story::Story;
use super::Evidence;
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
    /// The worker got it and exited with invocations in flight.
    Abandoned,
    /// The worker got it and was not done in time.
    CutShort,
    /// The first process took it, and waits for its foreground child without passing it on.
    WaitsForChild,
    /// The first process passed it on, but left before the worker was done.
    LeftEarly,
    /// The first process ended, or passed it on to one that died of it, and the worker never got it.
    NotPassedOn,
    /// The worker was left behind alive, out of the platform's reach.
    Orphaned,
    /// What was observed does not tell.
    Unknown,
}

/// Where a signal went. What the causes are depends on what is known of the program that is to get it: `C`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation<C = Cause> {
    /// Why it had the effect that it had.
    pub cause: C,
    /// The whole story, as a short paragraph.
    pub text: String,
    /// The one change that would help, where something is to be helped.
    pub change: Option<String>,
}

impl<C> Explanation<C> {
    /// One with nothing to change.
    #[must_use]
    pub fn new(cause: C, text: String) -> Explanation<C> {
        Explanation { cause, text, change: None }
    }

    /// The same, with the change that would help.
    #[must_use]
    pub fn change(self, change: impl Into<String>) -> Explanation<C> {
        Explanation { change: Some(change.into()), ..self }
    }
}

/// Explains what became of SIGTERM; `None` where nothing tells of it.
#[must_use]
pub fn explain(scenario: &Scenario, evidence: &Evidence, events: &[Observed]) -> Option<Explanation> {
    if story::was_skipped(events) {
        let text = "SIGTERM was not sent: the worker had ended before it.".to_owned();
        return Some(Explanation::new(Cause::NotSent, text));
    }
    let story = Story::of(scenario, evidence, events)?;
    let mut told = if story.is_direct() { story.to_the_worker() } else { story.to_the_top() };
    for witness in [story.misleading_masks(), story.kernel_record()].into_iter().flatten() {
        told.text.push(' ');
        told.text.push_str(&witness);
    }
    Some(told)
}

const HANDLER: &str = "a handler for SIGTERM in the worker, installed before it does anything else.";
const FINISH: &str = "let the worker finish what is in flight before it exits.";
const NOT_SIG_IGN: &str = "a handler for SIGTERM in the worker instead of SIG_IGN.";

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
