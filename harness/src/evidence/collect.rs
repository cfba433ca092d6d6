//! Collects the evidence of one attempt at a drill, while it goes on.

use std::{collections::BTreeMap, ffi::OsString, fs};

use scenarios::{Schedule, Status, WorkerId};
use serde::{Deserialize, Serialize};

use super::{Evidence, Received, Snapshot, Watch, kernel, snapshot::EndNoted};
use crate::entry::SH;

/// When a look is taken at the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Look {
    /// Shortly before SIGTERM.
    Before,
    /// Shortly after it.
    After,
    /// Shortly before SIGKILL.
    BeforeSigkill,
    /// At the end, before the clean-up.
    AtEnd,
}

/// What was collected so far.
#[derive(Debug)]
pub struct Collector {
    worker_argv: Vec<OsString>,
    shell: Option<String>,
    with_host_pids: bool,
    /// The worker that is told to stop and its top, once the first look was taken.
    target: Option<(WorkerId, i32)>,
    watch: Watch,
    evidence: Evidence,
    reaped: BTreeMap<i32, Status>,
}

impl Collector {
    /// For workers that are started as `argv`, of which `worker` is what runs the worker itself. `with_host_pids` has the
    /// host's numbers looked up too.
    #[must_use]
    pub fn new(schedule: Schedule, argv: &[OsString], worker: &[OsString], with_host_pids: bool) -> Collector {
        let by_shell = argv.first().is_some_and(|program| program == SH);
        let shell = fs::canonicalize(SH).ok().filter(|_| by_shell);
        Collector {
            worker_argv: worker.to_vec(),
            shell: shell.map(|path| path.to_string_lossy().into_owned()),
            with_host_pids,
            target: None,
            watch: Watch::new(schedule),
            evidence: Evidence::default(),
            reaped: BTreeMap::new(),
        }
    }

    /// Takes the first look, at `worker`, whose top is `top`. `speaker` is the process that told of its readiness.
    pub fn look_before(&mut self, worker: WorkerId, top: i32, speaker: Option<i32>, spawn: impl FnMut(EndNoted)) {
        self.target = Some((worker, top));
        let snapshot = self.snapshot(spawn);
        let is_worker = |argv: &[String]| argv.iter().map(OsString::from).eq(self.worker_argv.iter().cloned());
        let by_argv = snapshot.alive().find(|process| is_worker(&process.argv)).map(|process| process.pid);
        self.evidence.worker_pid = by_argv.or(speaker.filter(|&pid| snapshot.process(pid).is_some()));
        self.evidence.before = Some(snapshot);
    }

    /// Takes another look at the same worker.
    pub fn look_again(&mut self, look: Look, spawn: impl FnMut(EndNoted)) {
        if self.target.is_none() {
            return;
        }
        let snapshot = self.snapshot(spawn);
        let place = match look {
            Look::Before => &mut self.evidence.before,
            Look::After => &mut self.evidence.after,
            Look::BeforeSigkill => &mut self.evidence.before_sigkill,
            Look::AtEnd => &mut self.evidence.at_end,
        };
        *place = Some(snapshot);
    }

    fn snapshot(&mut self, spawn: impl FnMut(EndNoted)) -> Snapshot {
        let mut snapshot = self.watch.look(self.target.map(|(_, top)| top), spawn);
        if self.with_host_pids {
            kernel::look_up(snapshot.processes.iter_mut().map(|node| &mut node.process));
        }
        snapshot
    }

    /// The drill starts, at `origin_ns` of CLOCK_MONOTONIC.
    pub fn begin(&mut self, origin_ns: u64) {
        self.watch.begin(origin_ns);
    }

    /// On a stepped clock: the moment at hand in model time, in nanoseconds.
    pub fn keep_time(&self, stepped_ns: Option<u64>) {
        self.watch.keep_time(stepped_ns);
    }

    /// Waits for those that are on their way out.
    pub fn wait_for_dying(&self) {
        self.watch.wait_for_dying();
    }

    /// A worker told at `at_ns` that it got SIGTERM from this pid.
    pub fn received(&mut self, worker: WorkerId, from_pid: Option<i32>, at_ns: u64) {
        if self.target.is_some_and(|(target, _)| target == worker) {
            let received = Received { from_pid, at_us: self.watch.micros(at_ns) };
            self.evidence.received.get_or_insert(received);
        }
    }

    /// A child was reaped.
    pub fn reaped(&mut self, pid: i32, status: Status) {
        self.reaped.insert(pid, status);
    }

    /// All of it, after every process was reaped; `None` where no look was taken.
    #[must_use]
    pub fn finish(self) -> Option<Evidence> {
        self.target?;
        let ends = self.watch.ends(&self.reaped);
        // What the shell is concerns a worker that took its place; any other shell stands in the tree itself.
        Some(Evidence { ends, shell: self.shell, ..self.evidence })
    }
}
