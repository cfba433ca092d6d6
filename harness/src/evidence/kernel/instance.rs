//! A trace instance of our own: made, held, read and removed. None is left behind, and none of a living run is removed.
//!
//! The kernel removes no instance one of whose files is open (EBUSY), so an open file is the proof of a living owner, and
//! it ends with the owner however that ends. Between making an instance and opening its first file there is no such
//! proof; therefore nobody makes or removes one without the lock on the directory of all instances.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    thread,
};

use nix::{
    fcntl::OFlag,
    sched::{CloneFlags, unshare},
};
use rustix::{
    io::Errno,
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    process::getpid,
};
use scenarios::Signal;
use worker::clock;

use super::{host, records::marked_by};
use crate::isolation::Isolation;

/// A trace instance that records signals, until this is dropped: then it is removed.
#[derive(Debug)]
pub(super) struct Instance {
    path: PathBuf,
    /// Where its records are read from, which consumes them (`trace_pipe`). Open, it holds the instance.
    pipe: Option<File>,
}

/// Where tracefs is usually mounted.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// What the names of our instances begin with.
const PREFIX: &str = "termdrill-";
/// The events, which both have a field `sig`.
const EVENTS: [&str; 2] = ["signal_generate", "signal_deliver"];
/// Room for some thousand records on each CPU.
const BUFFER_KB: &str = "256";
/// What we write into the trace to learn who the kernel takes us for.
const MARK: &str = "termdrill";

impl Instance {
    /// Starts recording these signals. Where tracefs is not mounted, it is mounted if the mounts of `isolation` are our own.
    ///
    /// # Errors
    /// Why it is unavailable, in words that follow "since".
    pub(super) fn start(isolation: &Isolation, signals: &[Signal]) -> Result<Instance, String> {
        let instances = instances(isolation)?;
        let mut instance =
            make(&instances).map_err(|error| format!("no trace instance can be made: {}", plain(&error)))?;
        let set_up = instance.set_up(&filter(signals));
        set_up.map_err(|error| format!("the trace instance can't be set up: {}", plain(&error)))?;
        instance.check_numbers()?;
        Ok(instance)
    }

    fn set_up(&self, filter: &str) -> io::Result<()> {
        fs::write(self.path.join("buffer_size_kb"), BUFFER_KB)?;
        fs::write(self.path.join("trace_clock"), "mono")?;
        // A thread that was begun after the last look is known by its process then. Old kernels have no such option.
        let _ = fs::write(self.path.join("options/record-tgid"), "1");
        for event in EVENTS {
            let event = self.path.join("events/signal").join(event);
            fs::write(event.join("filter"), filter)?;
            fs::write(event.join("enable"), "1")?;
        }
        Ok(())
    }

    /// The kernel records processes by their numbers in the first of all PID namespaces. Whether the /proc of the host
    /// shows the same ones is told by a mark of our own.
    fn check_numbers(&mut self) -> Result<(), String> {
        let marked = fs::write(self.path.join("trace_marker"), MARK).and_then(|()| self.read());
        let text = marked.map_err(|error| format!("nothing can be written into the trace: {}", plain(&error)))?;
        match (marked_by(&text, MARK), host::own_host_pid()) {
            (Some(kernel), Some(own)) if kernel == own => Ok(()),
            _ => Err("the kernel's numbers of processes are not those of the /proc here, as in a container".to_owned()),
        }
    }

    /// What was recorded since the last time.
    ///
    /// # Errors
    /// read(2).
    pub(super) fn read(&mut self) -> io::Result<String> {
        let mut text = Vec::new();
        let mut portion = [0; 4096];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut portion) {
                Ok(0) => break,
                Ok(count) => text.extend_from_slice(&portion[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.pipe = None;
        // Removing the instance switches its events off. If it fails, the next start tries again; if somebody else has
        // taken it for a leftover since the line above, it was one.
        let _ = fs::remove_dir(&self.path);
    }
}

/// What lets only these signals through (Linux, Documentation/trace/events.rst).
fn filter(signals: &[Signal]) -> String {
    let conditions: Vec<String> = signals.iter().map(|signal| format!("sig=={}", signal.number())).collect();
    conditions.join("||")
}

/// Makes an instance and takes hold of it, after those that nobody holds were removed.
fn make(instances: &Path) -> io::Result<Instance> {
    let _lock = lock(instances)?;
    remove_unheld(instances);
    let path = instances.join(format!("{PREFIX}{}-{}", getpid().as_raw_nonzero(), clock::now_ns()));
    fs::create_dir(&path)?;
    // From here on it is removed whatever happens.
    let mut instance = Instance { path, pipe: None };
    let nonblocking = OFlag::O_NONBLOCK.bits();
    let pipe = OpenOptions::new().read(true).custom_flags(nonblocking).open(instance.path.join("trace_pipe"))?;
    instance.pipe = Some(pipe);
    Ok(instance)
}

/// The lock on the directory of all instances, until it is dropped. It is of the kernel's one tracefs, wherever that is
/// mounted.
fn lock(instances: &Path) -> io::Result<File> {
    let directory = File::open(instances)?;
    directory.lock()?;
    Ok(directory)
}

/// Removes the instances that runs left behind which were killed, and gives their names; those of runs that go on are
/// held by them and stay.
pub fn remove_leftovers() -> Vec<String> {
    let removed = TRACEFS.iter().filter_map(|tracefs| {
        let instances = Path::new(tracefs).join("instances");
        let _lock = lock(&instances).ok()?;
        Some(remove_unheld(&instances))
    });
    removed.flatten().collect()
}

/// The same where tracefs is mounted nowhere, too: a thread mounts it for itself alone. A process that is still to enter a
/// user namespace must have no other thread (unshare(2)).
pub fn remove_leftovers_unseen() -> Vec<String> {
    if mounted().is_some() {
        return remove_leftovers();
    }
    let looking = thread::Builder::new().name("tracefs".to_owned()).spawn(|| match mount_for_this_thread() {
        Ok(()) => remove_leftovers(),
        // Who may not mount it has traced nothing.
        Err(_) => Vec::new(),
    });
    looking.ok().and_then(|looking| looking.join().ok()).unwrap_or_default()
}

/// Mounts tracefs in a mount namespace that ends with this thread.
fn mount_for_this_thread() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    Ok(mount_tracefs()?)
}

fn mount_tracefs() -> Result<(), Errno> {
    mount("tracefs", TRACEFS[0], "tracefs", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)
}

/// Where instances are made, if tracefs is mounted.
fn mounted() -> Option<PathBuf> {
    TRACEFS.iter().map(|path| Path::new(path).join("instances")).find(|path| path.is_dir())
}

fn remove_unheld(instances: &Path) -> Vec<String> {
    let entries = fs::read_dir(instances).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    // EBUSY: it is held.
    let removed = ours.filter(|entry| fs::remove_dir(entry.path()).is_ok());
    removed.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn instances(isolation: &Isolation) -> Result<PathBuf, String> {
    if let Some(instances) = mounted() {
        return Ok(instances);
    }
    if fs::read_dir(TRACEFS[0]).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
        return Err("only root may trace".to_owned());
    }
    if let Isolation::Bare { .. } = isolation {
        return Err("tracefs is not mounted; mount it: mount -t tracefs tracefs /sys/kernel/tracing".to_owned());
    }
    mount_tracefs().map_err(|errno| match errno {
        Errno::PERM | Errno::ACCESS => "only root may trace".to_owned(),
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
