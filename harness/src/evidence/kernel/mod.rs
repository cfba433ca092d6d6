//! The kernel's own record of every SIGTERM and SIGKILL of a drill: who sent it to whom, and what became of it.
//!
//! It comes from the trace events `signal_generate` and `signal_deliver` (Linux, Documentation/trace/events.rst), in
//! a trace instance of our own, so that nobody else's tracing is disturbed. That needs root and tracefs.

mod records;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use rustix::{
    mount::{MountFlags, mount},
    process::getpid,
};
use serde::{Deserialize, Serialize};
use worker::clock;

use super::Snapshot;
use crate::isolation::{self, Isolation};

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

/// A trace instance that records signals, until this is dropped: then it is removed.
#[derive(Debug)]
pub struct KernelTrace {
    path: PathBuf,
    /// One of its files, kept open: the kernel removes no instance that is in use, so that nobody takes ours for a
    /// leftover.
    held: Option<File>,
}

/// Where tracefs is usually mounted.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// What the names of our instances begin with.
const PREFIX: &str = "termdrill-";
/// The events, which both have a field `sig`.
const EVENTS: [&str; 2] = ["signal_generate", "signal_deliver"];
const FILTER: &str = "sig==15||sig==9";
/// Room for some thousand records on each CPU.
const BUFFER_KB: &str = "256";

impl KernelTrace {
    /// Starts recording. Where tracefs is not mounted, it is mounted if the mounts of `isolation` are our own.
    ///
    /// # Errors
    /// Why it is unavailable, in words that follow "since".
    pub fn start(isolation: &Isolation) -> Result<KernelTrace, String> {
        let instances = instances(isolation)?;
        remove_unused(&instances);
        let path = instances.join(format!("{PREFIX}{}-{}", getpid().as_raw_nonzero(), clock::now_ns()));
        fs::create_dir(&path).map_err(|error| format!("no trace instance can be made: {}", plain(&error)))?;
        // From here on it is removed whatever happens.
        let mut trace = KernelTrace { path, held: None };
        trace.set_up().map_err(|error| format!("the trace instance can't be set up: {}", plain(&error)))?;
        Ok(trace)
    }

    fn set_up(&mut self) -> io::Result<()> {
        self.held = Some(File::open(self.path.join("tracing_on"))?);
        fs::write(self.path.join("buffer_size_kb"), BUFFER_KB)?;
        fs::write(self.path.join("trace_clock"), "mono")?;
        for event in EVENTS {
            let event = self.path.join("events/signal").join(event);
            fs::write(event.join("filter"), FILTER)?;
            fs::write(event.join("enable"), "1")?;
        }
        Ok(())
    }

    /// Stops recording and gives what concerns the processes in `snapshots`, whose numbers on the host must have been
    /// looked up ([`host_pids`]). The drill started at `origin_ns`.
    #[must_use]
    pub fn finish<'a>(self, snapshots: impl Iterator<Item = &'a Snapshot>, origin_ns: u64) -> Kernel {
        let mut pids: BTreeMap<i32, i32> = snapshots
            .flat_map(|snapshot| &snapshot.processes)
            .filter_map(|node| Some((node.process.host_pid?, node.process.pid)))
            .collect();
        if pids.is_empty() {
            let why = "the host's numbers for the processes of the drill could not be looked up";
            return Kernel::Unavailable { why: why.to_owned() };
        }
        let own = own_host_pid().unwrap_or(0);
        pids.insert(own, getpid().as_raw_nonzero().get());
        match fs::read(self.path.join("trace")) {
            Ok(text) => {
                let records = records::parse(&String::from_utf8_lossy(&text), &pids, own, origin_ns);
                Kernel::Records(records)
            }
            Err(error) => Kernel::Unavailable { why: format!("the trace can't be read: {}", plain(&error)) },
        }
    }
}

impl Drop for KernelTrace {
    fn drop(&mut self) {
        self.held = None;
        // Removing the instance switches its events off. If it fails, the next start tries again.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Removes the instances that runs left behind which were killed; those of runs that go on are in use and stay.
pub fn remove_leftovers() {
    TRACEFS.iter().for_each(|tracefs| remove_unused(&Path::new(tracefs).join("instances")));
}

fn remove_unused(instances: &Path) {
    let entries = fs::read_dir(instances).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        // EBUSY: it is in use.
        let _ = fs::remove_dir(entry.path());
    }
}

fn instances(isolation: &Isolation) -> Result<PathBuf, String> {
    let mounted = || TRACEFS.iter().map(|path| Path::new(path).join("instances")).find(|path| path.is_dir());
    if let Some(instances) = mounted() {
        return Ok(instances);
    }
    if fs::read_dir(TRACEFS[0]).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
        return Err("only root may trace".to_owned());
    }
    if let Isolation::Bare { .. } = isolation {
        return Err("tracefs is not mounted; mount it: mount -t tracefs tracefs /sys/kernel/tracing".to_owned());
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("tracefs", TRACEFS[0], "tracefs", flags, None).map_err(|errno| match errno {
        rustix::io::Errno::PERM | rustix::io::Errno::ACCESS => "only root may trace".to_owned(),
        errno => format!("tracefs can't be mounted: {}", plain(&errno.into())),
    })?;
    mounted().ok_or_else(|| "this kernel has no trace instances".to_owned())
}

fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "only root may trace".to_owned(),
        _ => crate::failure::plain_io(error),
    }
}

/// The folder of the /proc that shows the host's numbers, and which number in a line `NSpid` is the drill's.
fn host_proc() -> (PathBuf, usize) {
    match isolation::outer_proc() {
        Some(outer) => (PathBuf::from(format!("/proc/self/fd/{}", outer.as_raw_fd())), 1),
        None => (PathBuf::from("/proc"), 0),
    }
}

fn own_host_pid() -> Option<i32> {
    fs::read_link(host_proc().0.join("self")).ok()?.to_str()?.parse().ok()
}

/// The host's number of each process below us, by the number that it has for us.
#[must_use]
pub fn host_pids() -> BTreeMap<i32, i32> {
    let (proc, index) = host_proc();
    let mut found = BTreeMap::new();
    let mut pending: Vec<i32> = own_host_pid().into_iter().collect();
    while let Some(host_pid) = pending.pop() {
        let folder = proc.join(host_pid.to_string());
        let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        if let Some(pid) = numbers.and_then(|numbers| numbers.split_whitespace().nth(index)?.parse().ok()) {
            found.insert(pid, host_pid);
        }
        let threads = fs::read_dir(folder.join("task")).into_iter().flatten().flatten();
        for list in threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok()) {
            pending.extend(list.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
    }
    found
}
