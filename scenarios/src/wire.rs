//! What the processes of a drill say to each other: environment, HTTP bodies and notify messages.
//!
//! A worker is any program that keeps to this, in whatever language: it listens on `$PORT` with HTTP/1.1, answers
//! `GET /readyz`, `GET /livez` and `POST /invocations`, tells its readiness by the systemd notify protocol
//! (`sd_notify(3)`) and commits results to the store. One that is not this project's own is called a foreign worker;
//! docs/worker-contract.md says it for those who write one.

use serde::{Deserialize, Serialize};

use crate::{Reason, Stage, WorkerId};

/// Environment variables that a worker is started with.
pub mod env {
    /// The TCP port to listen on, on all addresses.
    pub const PORT: &str = "PORT";
    /// The datagram socket for `READY=1` and `STOPPING=1` (`sd_notify(3)`).
    pub const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
    /// The worker's name, `worker-1`.
    pub const WORKER: &str = "TERMDRILL_WORKER";
    /// Invocations it may hold at once, 1..=64.
    pub const SLOTS: &str = "TERMDRILL_SLOTS";
    /// CLOCK_MONOTONIC at tick 0 of the drill, in nanoseconds.
    pub const ORIGIN_NS: &str = "TERMDRILL_ORIGIN_NS";
    /// The real length of a tick in nanoseconds.
    pub const TICK_NS: &str = "TERMDRILL_TICK_NS";
    /// The tick at which its boot ends.
    pub const READY_TICK: &str = "TERMDRILL_READY_TICK";
    /// How many ticks an invocation takes.
    pub const INVOCATION_TICKS: &str = "TERMDRILL_INVOCATION_TICKS";
    /// `drain`, `default` or `ignore`.
    pub const ON_SIGTERM: &str = "TERMDRILL_ON_SIGTERM";
    /// `at_start` or `after_boot`.
    pub const HANDLER_INSTALLED: &str = "TERMDRILL_HANDLER_INSTALLED";
    /// `true` to exit 1 at the end of the boot.
    pub const FAIL_BOOT: &str = "TERMDRILL_FAIL_BOOT";
    /// The path of the result store, an SQLite database that exists already.
    pub const STORE: &str = "TERMDRILL_STORE";
    /// The path of the store's other form, for programs without SQLite: a file that exists already, opened with O_APPEND.
    /// A commit is one line ([`StoredResult`](super::StoredResult)) that is written with a single write(2). Only set for
    /// foreign workers; each result goes to one of the two.
    pub const STORE_LINES: &str = "TERMDRILL_STORE_LINES";
    /// The path of a named pipe that takes the same messages as the notify socket, for programs without datagram sockets:
    /// a message is written with a single write(2) and ends with an empty line. `MAINPID=` tells who speaks, as its own
    /// PID namespace numbers it, since a pipe does not. Only set for foreign workers; each message goes to one of the two.
    pub const NOTIFY_PIPE: &str = "TERMDRILL_NOTIFY_PIPE";
    /// A stream socket that the harness listens on: a path, or an abstract name after an `@`. When a connection to it
    /// ends, so does the harness, and the worker exits at once. Only set where no PID namespace takes care of that.
    pub const LIFELINE: &str = "TERMDRILL_LIFELINE";
    /// A stream socket of the harness that steps the worker's clock: it sends `TICK\n`, a number; the worker does
    /// everything that is due by then and answers `done TICK TOLD NEXT\n`, with how many lines of answers and notices it
    /// has given away so far, and the next tick at which something is due, or `-`. A worker that is about to exit gives no
    /// answer. Without it the worker's clock is the real one.
    pub const CLOCK: &str = "TERMDRILL_CLOCK";
    /// `true` to keep the worker's memory at hand while it waits, for a drill that has the machine to itself. Only set for
    /// our own worker.
    pub const KEEP_WARM: &str = "TERMDRILL_KEEP_WARM";
    /// The fault that the worker is seeded with.
    pub const FAULT: &str = "TERMDRILL_FAULT";
}

/// A line of a notify message beside those of `sd_notify(3)`, which lets programs add their own: `si_pid` of the SIGTERM
/// that makes the worker say `STOPPING=1`, the sender's pid in the worker's PID namespace; 0 for one outside of it.
pub const SIGTERM_FROM: &str = "X_TERMDRILL_SIGTERM_FROM";

/// The header that carries the tick of admission, from which the invocation's time counts. A worker that gets none
/// counts from the tick in which it read the request.
pub const TICK_HEADER: &str = "termdrill-tick";

/// The body of `POST /invocations`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvocationRequest {
    /// The request's number.
    pub request: u16,
    /// What to add up.
    pub addends: Vec<u32>,
}

/// A line of the result store in its form as a file: one committed result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredResult {
    /// The request's number.
    pub request: u16,
    /// Who answered.
    pub worker: WorkerId,
    /// Its process, as its own PID namespace numbers it.
    pub pid: u32,
    /// What was added up.
    pub addends: Vec<u32>,
    /// The result.
    pub sum: u32,
    /// CLOCK_MONOTONIC at the commit, in microseconds.
    pub committed_us: u64,
}

/// The body of a 503: why the worker refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
}

/// One line of the answer to an accepted invocation (newline-delimited JSON). Every line carries the worker's
/// CLOCK_MONOTONIC in microseconds, and how much later than planned it got to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// CLOCK_MONOTONIC when it happened, in microseconds.
    pub at_us: u64,
    /// How much later than planned, in microseconds; 0 where nothing was planned.
    pub late_us: u64,
    /// What happened.
    #[serde(flatten)]
    pub step: ProgressStep,
}

/// What happened to an invocation.
#[expect(missing_docs, reason = "the fields say what they are: each is of the type of that name")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ProgressStep {
    /// The worker took it into this slot, numbered from 1.
    Accepted { slot: u8 },
    /// It entered a stage.
    StageEntered { stage: Stage },
    /// Its result is in the store.
    ResultCommitted { sum: u32 },
    /// The store has a result of the request already, and keeps that one.
    CommitRefused { sum: u32 },
    /// The store did not take the result.
    CommitFailed { error: String },
}
