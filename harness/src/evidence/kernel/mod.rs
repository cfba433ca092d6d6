//! The kernel's own record of every signal of some kinds in a drill, SIGTERM and SIGKILL mostly: who sent it to whom, and what became of it.
//!
//! It comes from the trace events `signal_generate` and `signal_deliver` (Linux, Documentation/trace/events.rst), in
//! a trace instance of our own, so that nobody else's tracing is disturbed. That needs root and tracefs.

mod host;
mod instance;
mod records;

use std::{collections::BTreeMap, ops::RangeInclusive};

use rustix::process::getpid;
use scenarios::Signal;
use serde::{Deserialize, Serialize};

use self::{
    instance::Instance,
    records::{Numbers, Recording},
};
use super::{ProcessFacts, Snapshot};
use crate::isolation::Isolation;

pub use host::{look_up, own_host_pid};
pub use instance::{remove_leftovers, remove_leftovers_unseen};
pub use records::{Outcome, SignalRecord, Step};

/// What came of asking the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kernel {
    /// It could not be asked.
    Unavailable {
        /// Why not, in words that follow "since".
        why: String,
    },
    /// What it recorded of the processes of the drill, in order.
    Records(Vec<SignalRecord>),
}

/// The kernel's recording of signals, until this is dropped.
#[derive(Debug)]
pub struct KernelTrace {
    instance: Instance,
    recording: Recording,
}

impl KernelTrace {
    /// Starts recording these signals. Where tracefs is not mounted, it is mounted if the mounts of `isolation` are our own.
    ///
    /// # Errors
    /// Why it is unavailable, in words that follow "since".
    pub fn start(isolation: &Isolation, signals: &[Signal]) -> Result<KernelTrace, String> {
        Ok(KernelTrace { instance: Instance::start(isolation, signals)?, recording: Recording::default() })
    }

    /// Takes what was recorded so far out of the kernel's buffer, which has room for some thousand records.
    ///
    /// # Errors
    /// Why it can't be read, in words that follow "since".
    pub fn read(&mut self) -> Result<(), String> {
        let text = self.instance.read();
        let text = text.map_err(|error| format!("the trace can't be read: {}", crate::failure::plain_io(&error)))?;
        self.recording.add(&text);
        match self.recording.lost {
            false => Ok(()),
            true => Err("there were more signals on this machine than the kernel's buffer had room for".to_owned()),
        }
    }

    /// What was read of these processes, whose numbers on the host must have been looked up ([`look_up`]), from and to
    /// these moments of CLOCK_MONOTONIC in nanoseconds. `harness` is the one who signals, by its number on the host and
    /// the one that it has among them. Times are counted from `origin_ns`.
    #[must_use]
    pub fn records<'a>(
        &self,
        processes: impl Iterator<Item = &'a ProcessFacts>,
        harness: (i32, i32),
        origin_ns: u64,
        window_ns: RangeInclusive<u64>,
    ) -> Vec<SignalRecord> {
        let mut pids = BTreeMap::new();
        for process in processes {
            let threads = process.host_pid.iter().chain(&process.host_threads);
            pids.extend(threads.map(|&thread| (thread, process.pid)));
        }
        pids.insert(harness.0, harness.1);
        self.recording.of(&Numbers { pids, harness: harness.0 }, origin_ns, window_ns)
    }

    /// Stops recording, in the thread that signalled, and gives what concerns the processes in `snapshots`, whose numbers on the host must have been
    /// looked up ([`look_up`]). The drill started at `origin_ns`.
    #[must_use]
    pub fn finish<'a>(mut self, snapshots: impl Iterator<Item = &'a Snapshot>, origin_ns: u64) -> Kernel {
        if let Err(why) = self.read() {
            return Kernel::Unavailable { why };
        }
        let mut snapshots = snapshots.peekable();
        let Some(own) = host::own_host_thread().filter(|_| snapshots.peek().is_some()) else {
            let why = "the host's numbers for the processes of the drill could not be looked up".to_owned();
            return Kernel::Unavailable { why };
        };
        let harness = (own, getpid().as_raw_nonzero().get());
        let processes = snapshots.flat_map(|snapshot| &snapshot.processes).map(|node| &node.process);
        Kernel::Records(self.records(processes, harness, origin_ns, 0..=u64::MAX))
    }
}
