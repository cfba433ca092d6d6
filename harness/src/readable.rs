//! Waiting for a file descriptor to become readable.

use std::{io, os::fd::OwnedFd};

use tokio::io::{Interest, unix::AsyncFd};

/// Registers a descriptor with the runtime, to wait until it is readable.
///
/// # Errors
/// epoll_ctl(2); a descriptor that can't be polled.
#[expect(
    deprecated,
    reason = "its replacement is unsafe for types that may give another descriptor each time; OwnedFd never does"
)]
pub fn register(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}
