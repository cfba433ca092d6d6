//! Handles on processes: pidfds, which can't mean another process that got the same number later.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    rc::Rc,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid},
};
use scenarios::{Signal, Status};
use worker::clock;

use super::exit;
use crate::readable;

/// A child of ours that was not reaped yet.
#[derive(Debug)]
pub struct Live {
    pid: Pid,
    pidfd: OwnedFd,
}

/// A child that was reaped: nothing can be sent to it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The number it had in our PID namespace.
    pub pid: i32,
    /// How it ended.
    pub status: Status,
}

impl Live {
    /// Takes hold of a child that was just spawned. Its number can't have gone to another process, since only we reap it.
    ///
    /// # Errors
    /// pidfd_open(2).
    pub(super) fn adopt(pid: Pid) -> io::Result<Live> {
        Ok(Live { pid, pidfd: pidfd_open(pid, PidfdFlags::NONBLOCK)? })
    }

    /// Its number in our PID namespace.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Sends it a signal. A zombie takes every signal without a word (kill(2)).
    ///
    /// # Errors
    /// pidfd_send_signal(2).
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        send(&self.pidfd, signal)
    }

    /// A future that is done when the process has ended; it can be reaped then.
    ///
    /// # Errors
    /// Of duplicating the pidfd and registering it with the runtime.
    pub fn watch(&self) -> io::Result<impl Future<Output = ()> + use<>> {
        watch(self.pidfd.try_clone()?)
    }

    /// Its pidfd, to be polled along with others: readable when it has ended.
    #[must_use]
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Whether it has ended and waits to be reaped.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        has_ended(&self.pidfd)
    }

    /// Reaps it if it has ended, or gives it back.
    ///
    /// # Errors
    /// The process, where it lives on.
    pub fn reap(self) -> Result<Ended, Live> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        // One that lives on is none to be waited for.
        let waited =
            self.has_ended().then(|| clock::as_ordinary(|| waitid(WaitId::PidFd(self.pidfd.as_fd()), options)));
        match waited {
            Some(Ok(Some(end))) => {
                let code = || Status::Code(end.exit_status().unwrap_or(0) as u8);
                let signal = end.terminating_signal().and_then(Signal::from_number);
                Ok(Ended { pid: self.pid(), status: signal.map_or_else(code, Status::Signal) })
            }
            _ => Err(self),
        }
    }
}

/// A process that need not be a child of ours: a descendant that is watched, and killed at the end of the drill.
#[derive(Clone, Debug)]
pub struct Other {
    pid: Pid,
    pidfd: Rc<OwnedFd>,
}

impl Other {
    /// Takes hold of a process by its number in our PID namespace, if there is one.
    #[must_use]
    pub fn open(pid: i32) -> Option<Other> {
        let pid = Pid::from_raw(pid)?;
        let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK).ok()?;
        Some(Other { pid, pidfd: Rc::new(pidfd) })
    }

    /// Its number in our PID namespace.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Whether it has ended; a zombie has.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        has_ended(&self.pidfd)
    }

    /// How it ended, once it was reaped by whoever; `None` before that, and before Linux 6.15.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        exit::status(self.pidfd.as_fd())
    }

    /// A future that is done when the process has ended.
    ///
    /// # Errors
    /// Of duplicating the pidfd and registering it with the runtime.
    pub fn watch(&self) -> io::Result<impl Future<Output = ()> + use<>> {
        watch(self.pidfd.try_clone()?)
    }

    /// Blocks until the process has ended.
    pub fn wait(&self) {
        let mut polled = [PollFd::new(&self.pidfd, PollFlags::IN)];
        while matches!(poll(&mut polled, None), Err(rustix::io::Errno::INTR)) {}
    }

    /// Blocks until the process has ended, but not longer than `limit`.
    pub fn wait_at_most(&self, limit: Duration) {
        let until_ns = clock::now_ns().saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
        loop {
            let left = Duration::from_nanos(until_ns.saturating_sub(clock::now_ns()));
            // The most that the kernel takes is longer than anything that is waited for.
            let left = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut polled = [PollFd::new(&self.pidfd, PollFlags::IN)];
            if !matches!(poll(&mut polled, Some(&left)), Err(rustix::io::Errno::INTR)) {
                return;
            }
        }
    }

    /// Reaps it if it has ended and was left to us by its parent.
    pub fn reap(&self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        // ECHILD: it is somebody else's.
        let _ = clock::as_ordinary(|| waitid(WaitId::PidFd(self.pidfd.as_fd()), options));
    }

    /// Sends SIGKILL; a process that has ended already, or that we may not kill, is no error.
    pub fn kill(&self) {
        let _ = self.signal(Signal::KILL);
    }

    /// Sends it a signal. A zombie takes every signal without a word (kill(2)).
    ///
    /// # Errors
    /// pidfd_send_signal(2); ESRCH where it was reaped already.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        send(&self.pidfd, signal)
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that signals")]
fn send(pidfd: impl AsFd, signal: Signal) -> io::Result<()> {
    let signal = rustix::process::Signal::from_named_raw(signal.number())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("{signal} can't be sent")))?;
    Ok(pidfd_send_signal(pidfd, signal)?)
}

/// A pidfd is readable from the moment its process has ended (pidfd_open(2)).
fn has_ended(pidfd: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(pidfd, PollFlags::IN)];
    matches!(poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(ready) if ready > 0)
}

fn watch(pidfd: OwnedFd) -> io::Result<impl Future<Output = ()> + use<>> {
    let pidfd = readable::register(pidfd)?;
    Ok(async move {
        // An error would mean that the runtime is going away; the process is reaped at the end of the drill.
        let _ = pidfd.readable().await.map(|mut guard| guard.retain_ready());
    })
}
