//! One cell of the matrix, and what was seen of it.

use std::path::PathBuf;

use scenarios::{OnSigterm, Status, prediction::Reaction};
use serde::{Deserialize, Serialize};

use super::forms::Row;
use crate::evidence::ProcessFacts;

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
    #[serde(with = "crate::os_path::exact")]
    pub directory: PathBuf,
    /// Whether the kernel's record is to be held against what is seen.
    pub traced: bool,
}

impl Cell {
    /// The result store of its worker.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.directory.join("store.sqlite")
    }
}

/// What the process that plays a cell writes down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Played {
    /// What was seen.
    pub seen: Seen,
    /// What it takes to find the cell in the kernel's record, if that is asked for and a signal was sent.
    pub signalled: Option<Signalled>,
}

impl From<Seen> for Played {
    fn from(seen: Seen) -> Played {
        Played { seen, signalled: None }
    }
}

/// One SIGTERM, as far as the kernel's record is held against it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Signalled {
    /// The processes from the top down just before it, with their numbers on the host.
    pub processes: Vec<ProcessFacts>,
    /// The number on the host of the process that sent it.
    pub harness_host_pid: Option<i32>,
    /// Its number among them.
    pub harness: i32,
    /// The top's number.
    pub top: i32,
    /// The worker's number.
    pub worker: i32,
    /// Shortly before it was sent, on CLOCK_MONOTONIC in nanoseconds.
    pub sent_ns: u64,
    /// When all was over but the clean-up.
    pub over_ns: u64,
    /// Whether SIGKILL was sent to the top.
    pub killed: bool,
    /// Whether the worker said that it drains.
    pub told: bool,
    /// How the worker ended, where that is known.
    pub worker_status: Option<Status>,
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
