//! Where the signal went: what the kernel tells of the processes of a drill, and what follows from it.
//!
//! Evidence is read from /proc ([`facts`], [`snapshot`]), told by the worker (who sent it the SIGTERM that it got) and
//! by the kernel's tracing ([`kernel`]). [`mod@explain`] and [`predict`] are pure: they take evidence and nothing else.

pub mod collect;
pub mod explain;
pub mod facts;
pub mod kernel;
pub mod predict;
pub mod snapshot;

pub(crate) mod words;

use serde::{Deserialize, Serialize};

pub use collect::{Collector, Look};
pub use explain::{Cause, Explanation, explain};
pub use facts::{Disposition, ProcessFacts, ProcessState};
pub use kernel::{Kernel, KernelTrace};
pub use snapshot::{Node, ProcessEnd, Snapshot, Watch, tree};

/// What is known of the processes behind the worker that got SIGTERM, in one attempt at a drill.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The pid of the worker's own process in our PID namespace, where it is known which one that is.
    pub worker_pid: Option<i32>,
    /// The program that `/bin/sh` really is, where the entrypoint starts with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Shortly before SIGTERM.
    pub before: Option<Snapshot>,
    /// Shortly after it.
    pub after: Option<Snapshot>,
    /// Shortly before SIGKILL, where that is a moment of its own.
    pub before_sigkill: Option<Snapshot>,
    /// At the end of the drill, before its clean-up.
    pub at_end: Option<Snapshot>,
    /// How each process ended, in the order in which they were seen to.
    pub ends: Vec<ProcessEnd>,
    /// The first SIGTERM that the worker's handler got.
    pub received: Option<Received>,
    /// The kernel's own record, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Kernel>,
}

/// A signal as its receiver tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// `si_pid`: the sender's number in the receiver's PID namespace; 0 for one outside of it. Some runtimes don't tell.
    pub from_pid: Option<i32>,
    /// When it said so, in microseconds after the drill's start.
    pub at_us: i64,
}

impl Evidence {
    /// How the process with this number ended.
    #[must_use]
    pub fn end(&self, pid: i32) -> Option<&ProcessEnd> {
        self.ends.iter().find(|end| end.pid == pid)
    }

    /// The last that was seen of the process with this number before it was told to stop, else as soon as it was seen.
    #[must_use]
    pub fn process(&self, pid: i32) -> Option<&ProcessFacts> {
        self.snapshots().find_map(|snapshot| snapshot.process(pid))
    }

    /// Every snapshot that was taken, in order.
    pub fn snapshots(&self) -> impl Iterator<Item = &Snapshot> {
        [&self.before, &self.after, &self.before_sigkill, &self.at_end].into_iter().flatten()
    }
}
