//! One cell of the matrix, and what was seen of it.

use std::path::PathBuf;

use scenarios::{OnSigterm, prediction::Reaction};
use serde::{Deserialize, Serialize};

use super::forms::Row;

/// What one inner process has to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The command line.
    pub row: Row,
    /// What the worker does about SIGTERM.
    pub posture: OnSigterm,
    /// Whether the top is PID 1 of a PID namespace.
    pub pid1: bool,
    /// A directory of its own.
    pub directory: PathBuf,
}

/// What was seen of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// What came of SIGTERM.
    Observed(Observation),
    /// The command does not run a worker here, and what it said of that.
    Unusable(String),
    /// Nothing can be said: the machine was too slow, or something that is needed is missing.
    Inconclusive(String),
}

/// What was observed of one SIGTERM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// What came of it.
    #[serde(flatten)]
    pub reaction: Reaction,
    /// The processes from the top down to the worker, by name; the worker is `app`.
    pub tree: String,
    /// Milliseconds from SIGTERM to the end of the top, if it ended before SIGKILL.
    pub top_ended_ms: Option<u64>,
    /// Milliseconds from SIGTERM to the end of the worker, if it ended before SIGKILL.
    pub worker_ended_ms: Option<u64>,
    /// Whether the result of the invocation that was in flight is in the store.
    pub committed: bool,
}
