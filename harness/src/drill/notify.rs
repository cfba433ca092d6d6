//! The notify socket of one worker: readiness as it is pushed by the systemd notify protocol (`sd_notify(3)`).

use std::{
    io::{self, IoSliceMut},
    os::{fd::AsRawFd, linux::net::SocketAddrExt, unix::net::SocketAddr},
    str::FromStr,
};

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, RecvMsg, UnixAddr, UnixCredentials, recvmsg, setsockopt, sockopt,
};
use scenarios::{WorkerId, wire};
use tokio::{io::Interest, net::UnixDatagram};

/// What a worker said of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// `READY=1`
    Ready,
    /// `STOPPING=1`
    Stopping {
        /// Where a SIGTERM is the reason: `si_pid`, the sender's number in the worker's PID namespace
        /// ([`wire::SIGTERM_FROM`]).
        sigterm_from: Option<i32>,
        /// When it was so, in microseconds of CLOCK_MONOTONIC (`MONOTONIC_USEC`).
        at_us: Option<u64>,
    },
}

/// A datagram socket in the abstract namespace, so that no file is left behind.
#[derive(Debug)]
pub struct NotifySocket {
    name: String,
    socket: UnixDatagram,
}

impl NotifySocket {
    /// Opens the socket of `worker`; `drill` tells drills that run at the same time apart.
    ///
    /// # Errors
    /// Of making and registering the socket.
    pub fn open(drill: &str, worker: WorkerId) -> io::Result<NotifySocket> {
        let name = format!("termdrill-{drill}-{worker}");
        let socket = std::os::unix::net::UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        socket.set_nonblocking(true)?;
        // The kernel then tells the sender's pid, in our PID namespace (unix(7), SO_PASSCRED).
        setsockopt(&socket, sockopt::PassCred, &true)?;
        Ok(NotifySocket { name, socket: UnixDatagram::from_std(socket)? })
    }

    /// What `NOTIFY_SOCKET` has to be for it.
    #[must_use]
    pub fn address(&self) -> String {
        format!("@{}", self.name)
    }

    /// The next message that says something and is there already.
    #[must_use]
    pub fn try_next(&self) -> Option<(Vec<Notice>, Option<i32>)> {
        loop {
            let received = self.receive().ok()?;
            if !received.0.is_empty() {
                return Some(received);
            }
        }
    }

    /// Waits for the next message that says something, and who sent it.
    ///
    /// # Errors
    /// Of receiving.
    pub async fn next(&self) -> io::Result<(Vec<Notice>, Option<i32>)> {
        loop {
            self.socket.readable().await?;
            match self.receive() {
                Ok((notices, _)) if notices.is_empty() => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }

    fn receive(&self) -> io::Result<(Vec<Notice>, Option<i32>)> {
        self.socket.try_io(Interest::READABLE, || receive(&self.socket))
    }
}

fn receive(socket: &UnixDatagram) -> io::Result<(Vec<Notice>, Option<i32>)> {
    let mut bytes = [0; 4096];
    let mut control = nix::cmsg_space!(UnixCredentials);
    let (length, pid) = {
        let mut portions = [IoSliceMut::new(&mut bytes)];
        let received: RecvMsg<'_, '_, UnixAddr> =
            recvmsg(socket.as_raw_fd(), &mut portions, Some(&mut control), MsgFlags::MSG_CMSG_CLOEXEC)?;
        let pid = received.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::ScmCredentials(credentials) => Some(credentials.pid()),
            _ => None,
        });
        (received.bytes, pid)
    };
    Ok((notices(&bytes[..length]), pid.filter(|&pid| pid > 0)))
}

/// What a message that came by a named pipe says, and the pid of the speaker in its own PID namespace if it tells
/// (`MAINPID`, `sd_notify(3)`).
pub(super) fn by_pipe(message: &[u8]) -> (Vec<Notice>, Option<i32>) {
    (notices(message), message.split(|&byte| byte == b'\n').find_map(|line| value(line, "MAINPID")))
}

/// The assignments of a message that concern readiness; others mean nothing here.
fn notices(message: &[u8]) -> Vec<Notice> {
    let lines = || message.split(|&byte| byte == b'\n');
    let sigterm_from = lines().find_map(|line| value(line, wire::SIGTERM_FROM));
    let at_us = lines().find_map(|line| value(line, "MONOTONIC_USEC"));
    lines()
        .filter_map(|assignment| match assignment {
            b"READY=1" => Some(Notice::Ready),
            b"STOPPING=1" => Some(Notice::Stopping { sigterm_from, at_us }),
            _ => None,
        })
        .collect()
}

fn value<T: FromStr>(assignment: &[u8], wanted: &str) -> Option<T> {
    let (name, value) = std::str::from_utf8(assignment).ok()?.split_once('=')?;
    (name == wanted).then_some(())?;
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_line_by_line() {
        assert_eq!(notices(b"STATUS=booted\nREADY=1\n"), [Notice::Ready]);
        let of_itself = [Notice::Stopping { sigterm_from: None, at_us: None }];
        assert_eq!(notices(b"STOPPING=1"), of_itself);
        let stopping = [Notice::Stopping { sigterm_from: Some(0), at_us: None }];
        assert_eq!(notices(b"X_TERMDRILL_SIGTERM_FROM=0\nSTOPPING=1\n"), stopping);
        assert_eq!(notices(b"STOPPING=1\nX_TERMDRILL_SIGTERM_FROM=0"), stopping);
        assert_eq!(notices(b"X_TERMDRILL_SIGTERM_FROM=x\n\xff=1\nSTOPPING=1"), of_itself);
        let stamped = [Notice::Stopping { sigterm_from: None, at_us: Some(17) }];
        assert_eq!(notices(b"STOPPING=1\nMONOTONIC_USEC=17\n"), stamped);
        assert_eq!(by_pipe(b"MAINPID=7\nREADY=1\n"), (vec![Notice::Ready], Some(7)));
        assert_eq!(by_pipe(b"READY=1\n"), (vec![Notice::Ready], None));
        assert!(notices(b"X_TERMDRILL_SIGTERM_FROM=0\n").is_empty());
        assert!(notices(b"READY=0\nXREADY=1\nWATCHDOG=1").is_empty());
    }
}
