//! Addresses of unix sockets as they stand in the environment.

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

use tokio::net::UnixStream;

/// Reads an address: a path, or the name of an abstract socket after an `@` (`unix(7)`).
pub(crate) fn read(address: &OsStr) -> io::Result<SocketAddr> {
    match address.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(address),
    }
}

/// Connects to the stream socket at `address`. Needs a tokio runtime with I/O enabled.
pub(crate) fn connect(address: &OsStr) -> io::Result<UnixStream> {
    let stream = net::UnixStream::connect_addr(&read(address)?)?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
