//! The lifeline: a connection to the harness that ends when the harness does, whatever it dies of, so that no worker
//! is left behind where no PID namespace takes care of that.

use std::{ffi::OsStr, io};

use tokio::{io::AsyncReadExt, net::UnixStream};

use crate::address;

pub(crate) struct Lifeline {
    stream: Option<UnixStream>,
}

impl Lifeline {
    /// Connects to the stream socket at `address`, if there is one to connect to.
    pub(crate) fn connect(address: Option<&OsStr>) -> io::Result<Lifeline> {
        Ok(Lifeline { stream: address.map(address::connect).transpose()? })
    }

    /// Waits until the other side is gone; for good where there is none.
    pub(crate) async fn ended(self) {
        let Some(mut stream) = self.stream else { return std::future::pending().await };
        // What it says doesn't matter; only that it is there.
        let mut ignored = [0; 64];
        while stream.read(&mut ignored).await.is_ok_and(|length| length > 0) {}
    }
}
