//! Readiness by the systemd notify protocol (`sd_notify(3)`): datagrams of `NAME=value` lines to the socket that
//! `NOTIFY_SOCKET` names. Written on the standard library, since the usual crate doesn't know abstract addresses.

use std::{ffi::OsStr, io, os::unix::net::UnixDatagram, time::Duration};

use scenarios::wire::SIGTERM_FROM;

use crate::{address, sigterm::Sender};

/// What there is to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    Stopping,
}

/// A connected notify socket, or none where nobody wants to know.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    socket: Option<UnixDatagram>,
}

/// A receiver that doesn't read for so long is stuck, and must not keep the worker from draining.
const PATIENCE: Duration = Duration::from_secs(1);

impl Notify {
    /// Connects to `address`: a path, or the name of an abstract socket after an `@` (`unix(7)`).
    pub(crate) fn connect(address: Option<&OsStr>) -> io::Result<Notify> {
        let Some(address) = address else { return Ok(Notify::default()) };
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.connect_addr(&address::read(address)?)?;
        Ok(Notify { socket: Some(socket) })
    }

    /// Tells `state`, and that it was so at `at_us` of CLOCK_MONOTONIC (`MONOTONIC_USEC`); if a SIGTERM was the reason,
    /// also the pid of its `sender`.
    pub(crate) fn tell(&self, state: State, at_us: u64, sender: Option<Sender>) -> io::Result<()> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let name = match state {
            State::Ready => "READY",
            State::Stopping => "STOPPING",
        };
        let from = sender.map(|sender| format!("{SIGTERM_FROM}={}\n", sender.pid)).unwrap_or_default();
        socket.send(format!("{from}{name}=1\nMONOTONIC_USEC={at_us}\n").as_bytes()).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};

    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 100];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_path_and_an_abstract_name_are_reached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("termdrill-notify-test-{}", std::process::id());
        let by_path = UnixDatagram::bind(&path).unwrap();
        let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (socket, address) in [(by_path, path.into_os_string()), (by_name, format!("@{name}").into())] {
            let notify = Notify::connect(Some(&address)).unwrap();
            notify.tell(State::Ready, 17, None).unwrap();
            assert_eq!(received(&socket), "READY=1\nMONOTONIC_USEC=17\n");
            notify.tell(State::Stopping, 18, Some(Sender { pid: 1 })).unwrap();
            assert_eq!(received(&socket), "X_TERMDRILL_SIGTERM_FROM=1\nSTOPPING=1\nMONOTONIC_USEC=18\n");
        }
    }

    #[test]
    fn nobody_to_tell_is_no_error_but_nobody_there_is() {
        Notify::connect(None).unwrap().tell(State::Ready, 1, None).unwrap();
        assert!(Notify::connect(Some(OsStr::new("/nowhere/notify"))).is_err());
        assert!(Notify::connect(Some(OsStr::new("@termdrill-nobody-listens-here"))).is_err());
    }
}
