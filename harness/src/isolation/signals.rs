//! The signals that end the outer process, and what each means for the inner one.

use std::{
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustix::event::{PollFd, PollFlags, poll};
use scenarios::{Signal, Status};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::{STOP, mask};
use crate::process::Live;

/// The signals that mean "stop" for a program in a terminal or a service.
pub struct Signals {
    last: Arc<AtomicUsize>,
    woken: UnixStream,
}

impl Signals {
    /// Catches them from now on.
    ///
    /// # Errors
    /// No handler can be installed.
    pub fn catch() -> io::Result<Signals> {
        let last = Arc::new(AtomicUsize::new(0));
        let (woken, waker) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            // Under nohup(1) a drill goes on without its terminal.
            if signal == SIGHUP && mask("SigIgn") & (1 << (SIGHUP - 1)) != 0 {
                continue;
            }
            signal_hook::flag::register_usize(signal, Arc::clone(&last), signal.cast_unsigned() as usize)?;
            signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        Ok(Signals { last, woken })
    }

    /// A descriptor that is readable when one has come.
    ///
    /// # Errors
    /// It can't be duplicated.
    pub fn wakeups(&self) -> io::Result<OwnedFd> {
        Ok(self.woken.try_clone()?.into())
    }

    /// Ends this process by the last signal that has come, if one has, as whoever sent it expects.
    ///
    /// # Errors
    /// The signal can't be raised.
    pub fn end_by_what_was_received(&self) -> io::Result<()> {
        match self.received() {
            Some(signal) => signal_hook::low_level::emulate_default_handler(signal),
            None => Ok(()),
        }
    }

    /// Whether one has come.
    #[must_use]
    pub fn has_received(&self) -> bool {
        self.received().is_some()
    }

    fn received(&self) -> Option<i32> {
        let last = self.last.load(Ordering::SeqCst);
        i32::try_from(last).ok().filter(|&signal| signal != 0)
    }

    pub(super) fn wait_for(&self, mut inner: Live, control: &mut impl Write) -> io::Result<Status> {
        let mut told = false;
        loop {
            let mut polled =
                [PollFd::from_borrowed_fd(inner.pidfd(), PollFlags::IN), PollFd::new(&self.woken, PollFlags::IN)];
            match poll(&mut polled, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            inner = match inner.reap() {
                Ok(ended) => return Ok(ended.status),
                Err(inner) => inner,
            };
            let mut wakes = [0; 16];
            if matches!((&self.woken).read(&mut wakes), Ok(count) if count > 0) {
                if told {
                    inner.signal(Signal::KILL)?;
                } else {
                    // Where the pipe is closed it has ended, or is about to.
                    let _ = control.write_all(STOP);
                    told = true;
                }
            }
        }
    }
}
