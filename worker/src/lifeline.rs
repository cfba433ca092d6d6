//! The lifeline: a connection to the harness that ends when the harness does, whatever it dies of, so that no worker
//! is left behind where no PID namespace takes care of that.

use std::{
    ffi::OsStr,
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{self, SocketAddr},
        },
    },
};

use tokio::{io::AsyncReadExt, net::UnixStream};

pub(crate) struct Lifeline {
    stream: Option<UnixStream>,
}

impl Lifeline {
    /// Connects to the stream socket at `address`, if there is one to connect to: a path, or the name of an abstract
    /// socket after an `@` (`unix(7)`).
    pub(crate) fn connect(address: Option<&OsStr>) -> io::Result<Lifeline> {
        let Some(address) = address else { return Ok(Lifeline { stream: None }) };
        let address = match address.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(address)?,
        };
        let stream = net::UnixStream::connect_addr(&address)?;
        stream.set_nonblocking(true)?;
        Ok(Lifeline { stream: Some(UnixStream::from_std(stream)?) })
    }

    /// Waits until the other side is gone; for good where there is none.
    pub(crate) async fn ended(self) {
        let Some(mut stream) = self.stream else { return std::future::pending().await };
        // What it says doesn't matter; only that it is there.
        let mut ignored = [0; 64];
        while stream.read(&mut ignored).await.is_ok_and(|length| length > 0) {}
    }
}
