//! Nothing leaks, by construction: a drill runs in a process that is PID 1 of a PID namespace of its own.
//!
//! The outer `termdrill` starts the inner one, passes on what a person wants of it and waits. When the inner one ends,
//! for whatever reason, the kernel kills everything else in its namespace (`pid_namespaces(7)`); when the outer one
//! ends, the pipe between them closes and the inner one ends. Seats as PID 1 are namespaces inside this one.
//!
//! An ordinary user gets there by a user namespace (`user_namespaces(7)`). Where both are forbidden the drill runs in
//! an ordinary child, a subreaper that kills what is left; workers then watch a socket of the harness.

mod inner;
mod outer;
mod signals;

use std::{fs, io};

use nix::sched::{CloneFlags, unshare};
use rustix::process::{getgid, getuid};
use serde::{Deserialize, Serialize};

pub use self::{
    inner::{inside, outer_proc, stores},
    outer::{run_inside, run_inside_and_then, start_inside, start_inside_heard},
    signals::Signals,
};
use crate::failure::plain_io;

/// How a drill is kept apart from the rest of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// In a PID namespace of its own, with a /proc of its own.
    Namespace,
    /// Not at all; seats as PID 1 can't be had.
    Bare {
        /// Why not, and what to change.
        why: String,
    },
}

/// The exit status with which the inner process ends when it can't mount a /proc of its own: it is then started again without.
pub const NO_PROC: u8 = 125;
/// What the outer process writes when the drill is to stop.
pub const STOP: &[u8] = b"stop\n";

#[derive(Serialize, Deserialize)]
struct Envelope<J> {
    isolation: Isolation,
    /// Where the host's /proc can be opened, if it is hidden behind that of the sender.
    outer_proc: Option<String>,
    job: J,
}

impl Isolation {
    /// What is left where an inner process ended with [`NO_PROC`].
    #[must_use]
    pub fn without_proc() -> Isolation {
        let why = "a /proc for the PID namespace of the drill can't be mounted here (mount(2) was refused); run it \
                   where mounting is allowed, for example as root or outside of a container";
        Isolation::Bare { why: why.to_owned() }
    }
}

/// Gets what it takes to make PID namespaces. Must come before any thread is started: a process with several can't
/// enter a user namespace (unshare(2), EINVAL).
#[must_use]
pub fn isolate() -> Isolation {
    if has_sys_admin() {
        return Isolation::Namespace;
    }
    let (uid, gid) = (getuid(), getgid());
    if let Err(errno) = unshare(CloneFlags::CLONE_NEWUSER) {
        return Isolation::Bare { why: forbidden(&errno.into()) };
    }
    // User 0 in there, and nobody else: with a map to itself the capabilities would be lost at exec.
    let written = fs::write("/proc/self/setgroups", "deny")
        .and_then(|()| fs::write("/proc/self/uid_map", format!("0 {} 1", uid.as_raw())))
        .and_then(|()| fs::write("/proc/self/gid_map", format!("0 {} 1", gid.as_raw())));
    match written {
        Ok(()) => Isolation::Namespace,
        Err(error) => Isolation::Bare { why: forbidden(&error) },
    }
}

/// CAP_SYS_ADMIN is number 21 (capabilities(7)).
fn has_sys_admin() -> bool {
    mask("CapEff") & (1 << 21) != 0
}

/// A mask in /proc/self/status (proc_pid_status(5)); empty where it can't be read.
fn mask(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn forbidden(error: &io::Error) -> String {
    let why = match error.kind() {
        // What unshare(2) says when a limit on namespaces is reached, such as 0.
        io::ErrorKind::StorageFull => "the limit on user or PID namespaces is reached".to_owned(),
        _ => plain_io(error),
    };
    format!(
        "no PID namespace can be made here ({why}); run as root, or allow user namespaces: \
         sysctl user.max_user_namespaces above 0, and where they exist kernel.unprivileged_userns_clone=1 and \
         kernel.apparmor_restrict_unprivileged_userns=0"
    )
}
