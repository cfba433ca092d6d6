//! The inner process: takes its job, gets a /proc of its own, and ends when the outer one does.

use std::{
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    process::ExitCode,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::Context;
use nix::sched::{CloneFlags, unshare};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    process::{getpid, set_child_subreaper},
};
use serde::de::DeserializeOwned;
use worker::clock;

use super::{Envelope, Isolation, NO_PROC};
use crate::{failure::UNABLE, process, scratch};

/// The inner process, from its first step on: takes its job from the pipe and does it.
///
/// `work` gets the job and the pipe, which is readable when the drill is to stop: the outer process said so or is gone.
///
/// # Errors
/// Those of `work`, and when there is no job.
pub fn inside<J: DeserializeOwned>(
    work: impl FnOnce(J, Isolation, OwnedFd) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    let Some(line) = read_line(&control).context("this command is for termdrill's own use: it runs a drill")? else {
        return Ok(ExitCode::FAILURE);
    };
    let Envelope { isolation, outer_proc, job } = serde_json::from_slice(&line)?;
    match isolation {
        Isolation::Namespace => {
            if own_proc(outer_proc.as_deref()).is_err() {
                return Ok(ExitCode::from(NO_PROC));
            }
        }
        // Orphans of the drill come to us and not to the host's init (PR_SET_CHILD_SUBREAPER(2const)).
        Isolation::Bare { .. } => set_child_subreaper(Some(getpid()))?,
    }
    let watched = control.try_clone()?;
    thread::Builder::new().name("stop".to_owned()).spawn(move || end_when_stopped(&watched))?;
    let watched = control.try_clone()?;
    let clean_up = CleanUp;
    let done = work(job, isolation, control);
    drop(clean_up);
    if outer_is_gone(&watched) {
        scratch::remove_adopted();
        // Whatever went wrong, there is nobody left to tell.
        return Ok(ExitCode::FAILURE);
    }
    done
}

/// Leaves nobody, whatever became of the work: without a namespace nothing else would end what it started.
struct CleanUp;

impl Drop for CleanUp {
    fn drop(&mut self) {
        process::kill_all();
    }
}

/// Whether the other end of the pipe is closed (poll(2)).
fn outer_is_gone(control: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(control, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut polled, Some(&now)), Ok(ready) if ready > 0) && polled[0].revents().contains(PollFlags::HUP)
}

/// How long the drill has to clean up, once it is to stop.
const TIME_TO_STOP: Duration = Duration::from_millis(500);
/// How long it has from then on to store what happened, which is up to the disk, in nanoseconds.
const TIME_TO_STORE_NS: u64 = 4_000_000_000;
/// How often it is looked whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(10);

static STORES: AtomicBool = AtomicBool::new(false);

/// Says whether there is something that is stored when this process is to stop.
pub fn stores(yes: bool) {
    STORES.store(yes, Ordering::SeqCst);
}

/// Ends this process, and with it the drill, if it is to stop and does not: its output may be a pipe that nobody reads.
#[expect(clippy::disallowed_methods, reason = "the thread that would return from main is the one that is stuck")]
fn end_when_stopped(control: &OwnedFd) {
    let mut polled = [PollFd::new(control, PollFlags::IN)];
    while !matches!(poll(&mut polled, None), Ok(ready) if ready > 0) {}
    clock::block_for(TIME_TO_STOP);
    process::kill_all();
    let until_ns = clock::now_ns() + TIME_TO_STORE_NS;
    while STORES.load(Ordering::SeqCst) && clock::now_ns() < until_ns {
        clock::block_for(LOOK_EVERY);
    }
    process::kill_all();
    if outer_is_gone(control) {
        scratch::remove_adopted();
    }
    std::process::exit(i32::from(UNABLE));
}

/// The job, or nothing where the outer process went away first. Byte by byte would be slow and more than a line would
/// take away what follows, so the line is peeked at in the pipe's own portions: nothing follows it until the drill is
/// to stop, and what is left of that is only a wake-up.
fn read_line(control: &OwnedFd) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut portion = [0; 4096];
    loop {
        match rustix::io::read(control, &mut portion) {
            Ok(0) => return Ok(None),
            Ok(count) => line.extend_from_slice(&portion[..count]),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if let Some(end) = line.iter().position(|&byte| byte == b'\n') {
            // Told to stop before it began: there is nothing to do.
            return Ok((end + 1 == line.len()).then_some(line));
        }
    }
}

/// A mount namespace with a /proc that shows the pids of our PID namespace. Without nosuid, nodev and noexec the kernel
/// refuses it in a user namespace, since it would show more than the host's own (mount_namespaces(7)).
fn own_proc(outer: Option<&str>) -> io::Result<()> {
    if let Ok(outer) = outer.map_or_else(|| fs::File::open("/proc"), fs::File::open) {
        // There is one inner process and it gets here once.
        let _ = OUTER_PROC.set(outer.into());
    }
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)?;
    Ok(())
}

/// The host's /proc, which is hidden behind our own.
static OUTER_PROC: OnceLock<OwnedFd> = OnceLock::new();

/// The /proc of the outermost process, which shows the numbers that the drill's processes have there; `None` where ours
/// is the same one. The kernel's tracing speaks in those.
#[must_use]
pub fn outer_proc() -> Option<BorrowedFd<'static>> {
    OUTER_PROC.get().map(AsFd::as_fd)
}
