//! What a drill needs, and what it gives.

use std::{collections::BTreeMap, ffi::OsString, fs::File, io, os::fd::OwnedFd, path::Path};

use scenarios::{Fault, Scenario, Schedule, Status, WorkerId};
use tokio::io::unix::AsyncFd;
use worker::clock;

use super::state::Remains;
use crate::{evidence::Evidence, failure::Failure, isolation::Isolation, readable, record::Reactions};

/// Opens the log of a worker where those of a run are: in `directory`.
///
/// # Errors
/// What keeps it from being made, with its path.
pub fn worker_log(directory: &Path, worker: WorkerId) -> Result<File, Failure> {
    let path = directory.join(format!("{worker}.log"));
    File::create(&path).map_err(|error| Failure::of_io("make", &path, &error))
}

/// What a drill needs.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// What to drill.
    pub scenario: &'a Scenario,
    /// What makes model time pass.
    pub clock: Clock,
    /// What goes wrong on purpose.
    pub fault: Option<Fault>,
    /// How much of it is played.
    pub extent: Extent,
    /// The worker's argv.
    pub worker: &'a [OsString],
    /// Whether that is not our own program: it is then offered other forms of the notify socket and the store.
    pub foreign: bool,
    /// Where scripts are written.
    pub directory: &'a Path,
    /// Where the result store is made.
    pub store: &'a Path,
    /// Opens the log of a worker.
    pub log: &'a dyn Fn(WorkerId) -> Result<File, Failure>,
    /// What keeps the drill apart from the rest of the machine.
    pub isolation: &'a Isolation,
    /// Whether the kernel's own record is to be part of the evidence: the host's pids are looked up for it then.
    pub kernel_trace: bool,
    /// How the first process of the worker that is told to stop is expected to end by that, where it is: if it ends so
    /// only once it was taken for one that ignores the signal, it was late.
    pub told_status: Option<Status>,
    /// Whether no other drill is made beside it.
    pub alone: bool,
}

/// A drill of more workers than these leaves all processors to them.
const FEW_WORKERS: u16 = 2;

impl Setup<'_> {
    /// The speed of a drill that keeps at hand what it needs in a moment: one in real time that has the machine to itself.
    /// Others would pay for that, and programs of others may need all that there is.
    #[must_use]
    pub fn speed_if_alone(&self) -> Option<f64> {
        let is_alone = self.alone && !self.foreign && self.scenario.workers() <= FEW_WORKERS;
        self.clock.speed().filter(|_| is_alone)
    }
}

/// What makes the model time of a drill pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clock {
    /// The real clock, scaled.
    Scaled {
        /// Model seconds in one real second.
        speed: f64,
    },
    /// The processes of the drill themselves: it goes on when each is done with the tick.
    Stepped,
}

impl Clock {
    /// Model seconds in one real second, where there is such a thing.
    #[must_use]
    pub fn speed(self) -> Option<f64> {
        match self {
            Clock::Scaled { speed } => Some(speed),
            Clock::Stepped => None,
        }
    }

    /// The schedule of a drill that is about to start `lead_ns` from now. A stepped one has no real moments: its
    /// microseconds are those of the model.
    pub(super) fn schedule(self, lead_ns: u64) -> Schedule {
        match self {
            Clock::Scaled { speed } => Schedule::new(clock::now_ns() + lead_ns, speed),
            Clock::Stepped => Schedule::new(0, 1.0),
        }
    }
}

/// How much of a scenario is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of its 60 model seconds, with all its requests.
    Whole,
    /// No requests, and no longer than to its deadline.
    Measurement,
    /// One request, a second before SIGTERM, and no longer than to its deadline.
    BusyMeasurement,
}

/// What came of it.
pub struct Done {
    /// What was observed, settled with the result store and in trace order, and the rest.
    pub remains: Remains,
    /// How long it took, in real milliseconds.
    pub wall_ms: u64,
    /// Each worker's process that was seen to be the worker itself, and its top's, for those that were started.
    pub tops: BTreeMap<WorkerId, i32>,
    /// What is known of the processes of the worker that was told to stop.
    pub evidence: Option<Evidence>,
    /// CLOCK_MONOTONIC at the drill's start, in nanoseconds; on a stepped clock, when its processes were started.
    pub origin_ns: u64,
    /// How soon the worker that was told to stop reacted.
    pub reactions: Reactions,
}

/// Tells when a person, or whoever started us, wants it to end: the pipe from the outer process has something in it or
/// is closed.
#[derive(Debug)]
pub struct StopPipe {
    pipe: AsyncFd<OwnedFd>,
}

impl StopPipe {
    /// Takes the reading end of the pipe. Nothing is ever read from it, so that it stays readable for good.
    ///
    /// # Errors
    /// Of registering it with the runtime.
    pub fn new(pipe: OwnedFd) -> io::Result<StopPipe> {
        Ok(StopPipe { pipe: readable::register(pipe)? })
    }

    /// Waits until the drill is to stop.
    pub async fn stopped(&self) {
        // An error would mean that the runtime is going away.
        let _ = self.pipe.readable().await.map(|mut guard| guard.retain_ready());
    }
}
