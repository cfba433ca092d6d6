//! The lifeline: a connection to the harness that ends when the harness does, whatever it dies of, so that no worker
//! is left behind where no PID namespace takes care of that.

use std::{io, path::Path};

use tokio::{io::AsyncReadExt, net::UnixStream};

pub(crate) struct Lifeline {
    stream: Option<UnixStream>,
}

impl Lifeline {
    /// Connects to the stream socket at `path`, if there is one to connect to.
    pub(crate) async fn connect(path: Option<&Path>) -> io::Result<Lifeline> {
        Ok(Lifeline {
            stream: match path {
                Some(path) => Some(UnixStream::connect(path).await?),
                None => None,
            },
        })
    }

    /// Waits until the other side is gone; for good where there is none.
    pub(crate) async fn ended(self) {
        let Some(mut stream) = self.stream else { return std::future::pending().await };
        // What it says doesn't matter; only that it is there.
        let mut ignored = [0; 64];
        while stream.read(&mut ignored).await.is_ok_and(|length| length > 0) {}
    }
}
