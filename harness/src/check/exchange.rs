//! One request and what is seen of its connection.
//!
//! Nothing is retried and nothing is pooled behind one's back: how a connection ends is what this is about.

use std::{
    cell::{Cell, RefCell},
    io::{self, ErrorKind},
    net::SocketAddr,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Notify,
};
use worker::clock;

use super::{
    answer::Answer,
    fate::{Close, Connect, Connection, Seen},
};

/// A request that was sent, while it is under way and afterwards.
#[derive(Debug)]
pub struct Sent {
    /// Its place among all requests, from 1 on.
    pub number: usize,
    /// What it is.
    pub kind: Kind,
    /// Which of the requests that are asked for.
    pub template: usize,
    /// The connection it was sent on.
    pub connection: Connection,
    /// When it was to be sent, in nanoseconds of CLOCK_MONOTONIC.
    pub planned_ns: u64,
    /// When it was: the attempt to connect began, or the request went out on a connection that was there.
    pub sent_ns: Cell<u64>,
    /// From when on it is not sent any more: our own side was too slow for it.
    pub end_ns: u64,
    /// Whether that was so.
    pub was_dropped: Cell<bool>,
    /// The client's port.
    pub client_port: Cell<Option<u16>>,
    /// When the request had been handed to the kernel.
    pub written_ns: Cell<Option<u64>>,
    /// When it was first seen that the server had taken its connection.
    pub taken_ns: Cell<Option<u64>>,
    /// When it was first seen that the server had read it.
    pub read_ns: Cell<Option<u64>>,
    /// When the first byte of the answer came.
    pub first_byte_ns: Cell<Option<u64>>,
    /// When it was over.
    pub ended_ns: Cell<Option<u64>>,
    /// What was seen of it.
    pub seen: RefCell<Seen>,
    /// When its time is up.
    pub deadline_ns: Option<u64>,
    /// Gives it up.
    pub cancel: Notify,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of those that come in all the time.
    Arrival,
    /// One that is meant to be in flight when the signal comes.
    Spanning,
    /// The first one on the connection that is kept alive.
    KeepAlive,
    /// The second one on it, after the signal.
    Reuse,
}

impl Sent {
    /// One of which nothing has happened yet.
    #[must_use]
    pub fn new(number: usize, kind: Kind, template: usize, connection: Connection, planned_ns: u64) -> Sent {
        Sent {
            number,
            kind,
            template,
            connection,
            planned_ns,
            sent_ns: Cell::default(),
            end_ns: u64::MAX,
            was_dropped: Cell::default(),
            client_port: Cell::default(),
            written_ns: Cell::default(),
            taken_ns: Cell::default(),
            read_ns: Cell::default(),
            first_byte_ns: Cell::default(),
            ended_ns: Cell::default(),
            seen: RefCell::default(),
            deadline_ns: None,
            cancel: Notify::new(),
        }
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ended_ns.get().is_some()
    }

    /// Whether the server has read it, or has no need to any more.
    #[must_use]
    pub fn was_read(&self) -> bool {
        self.read_ns.get().is_some() || self.first_byte_ns.get().is_some() || self.is_over()
    }

    /// Sends `bytes` to `address` on a new connection, and sees it to its end. Gives the connection where it can be used
    /// again.
    pub async fn on_new_connection(&self, address: SocketAddr, bytes: &[u8], method: &str) -> Option<TcpStream> {
        // The attempt is made at the first look at it, and by this thread: no signal is sent in between.
        let now_ns = clock::now_ns();
        self.sent_ns.set(now_ns);
        if now_ns >= self.end_ns {
            self.was_dropped.set(true);
            self.ended_ns.set(Some(now_ns));
            return None;
        }
        let connected = tokio::select! {
            biased;
            connected = TcpStream::connect(address) => Some(connected),
            () = self.cancel.notified() => None,
        };
        let stream = match connected {
            None => None,
            Some(Ok(stream)) => Some(stream),
            Some(Err(error)) => {
                self.seen.borrow_mut().connect = not_connected(&error);
                None
            }
        };
        let Some(stream) = stream else {
            self.ended_ns.set(Some(clock::now_ns()));
            return None;
        };
        self.seen.borrow_mut().connect = Connect::Established;
        self.client_port.set(stream.local_addr().ok().map(|address| address.port()));
        // Without it nothing but the time of small requests would change.
        let _ = stream.set_nodelay(true);
        self.on_connection(stream, bytes, method).await
    }

    /// The same on a connection that is there.
    pub async fn on_connection(&self, mut stream: TcpStream, bytes: &[u8], method: &str) -> Option<TcpStream> {
        self.seen.borrow_mut().connect = Connect::Established;
        let mut answer = Answer::new(method);
        let over = tokio::select! {
            biased;
            () = self.converse(&mut stream, bytes, &mut answer) => true,
            () = self.cancel.notified() => false,
        };
        if !over {
            // What has come by now counts, however late it is looked at.
            self.take_what_is_there(&stream, &mut answer);
        }
        self.ended_ns.set(Some(clock::now_ns()));
        (over && answer.keeps_alive() && self.seen.borrow().is_whole).then_some(stream)
    }

    async fn converse(&self, stream: &mut TcpStream, bytes: &[u8], answer: &mut Answer) {
        // A server may answer and close before it has all of the request, so the answer is read in any case.
        let _ = stream.write_all(bytes).await;
        self.written_ns.set(Some(clock::now_ns()));
        let mut portion = [0; 16 * 1024];
        loop {
            let read = stream.read(&mut portion).await;
            if self.took(read, &portion, answer) {
                return;
            }
        }
    }

    fn take_what_is_there(&self, stream: &TcpStream, answer: &mut Answer) {
        let mut portion = [0; 16 * 1024];
        loop {
            match stream.try_read(&mut portion) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                read => {
                    if self.took(read, &portion, answer) {
                        return;
                    }
                }
            }
        }
    }

    /// Takes in what was read. Tells whether the request is over with it.
    fn took(&self, read: io::Result<usize>, portion: &[u8], answer: &mut Answer) -> bool {
        let mut seen = self.seen.borrow_mut();
        match read {
            Ok(0) => {
                seen.close = Close::Closed;
                seen.is_whole = answer.is_whole_when_closed();
                seen.is_unframed = seen.is_whole && !answer.is_whole();
                true
            }
            Ok(count) => {
                if self.first_byte_ns.get().is_none() {
                    self.first_byte_ns.set(Some(clock::now_ns()));
                }
                seen.received_bytes += count as u64;
                if let Err(malformed) = answer.take(&portion[..count]) {
                    seen.malformed = Some(malformed);
                    return true;
                }
                seen.status = answer.status();
                seen.is_whole = answer.is_whole();
                seen.is_whole
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => false,
            Err(_) => {
                seen.close = Close::Reset;
                true
            }
        }
    }
}

/// What an attempt to connect came to that failed. What our own side lacks is nothing that the server did.
fn not_connected(error: &io::Error) -> Connect {
    use rustix::io::Errno;
    let unable = |what: &str| Connect::Unable(what.to_owned());
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::CONNREFUSED | Errno::CONNRESET | Errno::CONNABORTED) => Connect::Refused,
        Some(Errno::ADDRNOTAVAIL) => unable("no local port is left for another connection"),
        Some(Errno::MFILE | Errno::NFILE) => unable("no file descriptor is left for another connection (ulimit -n)"),
        Some(Errno::NOBUFS | Errno::NOMEM) => unable("no memory is left for another connection"),
        _ => Connect::Unable(crate::failure::plain_io(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, rc::Rc};

    use tokio::net::TcpListener;

    use super::*;
    use crate::check::fate::Fate;

    fn sent() -> Sent {
        Sent::new(1, Kind::Arrival, 0, Connection::New, 0)
    }

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, future)
    }

    /// A server that reads the request, says something and ends the connection in some way.
    async fn with_server(says: &'static [u8], resets: bool) -> Rc<Sent> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let sent = Rc::new(sent());
        let client = tokio::task::spawn_local({
            let sent = Rc::clone(&sent);
            async move { sent.on_new_connection(address, REQUEST, "GET").await.is_some() }
        });
        let (mut server, _) = listener.accept().await.unwrap();
        let mut request = [0; REQUEST.len()];
        server.read_exact(&mut request).await.unwrap();
        server.write_all(says).await.unwrap();
        if resets {
            // What was said is to arrive before the reset does.
            while sent.seen.borrow().received_bytes < says.len() as u64 {
                tokio::task::yield_now().await;
            }
            server.set_zero_linger().unwrap();
        }
        drop(server);
        client.await.unwrap();
        sent
    }

    #[test]
    fn every_end_of_a_connection_is_told_apart() {
        let rows: [(&[u8], bool, Fate); 7] = [
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false, Fate::Completed),
            (b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", false, Fate::Completed5xx),
            (b"", false, Fate::ClosedWithoutAnswer),
            (b"", true, Fate::Reset),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", false, Fate::Truncated),
            (b"HTTP/1.1 200 OK\r\n\r\nok", true, Fate::Truncated),
            (b"nonsense\r\n\r\n", false, Fate::Truncated),
        ];
        for (says, resets, fate) in rows {
            let sent = block_on(with_server(says, resets));
            let seen = sent.seen.borrow();
            assert_eq!(seen.fate(), Some(fate), "{:?} {resets}: {seen:?}", String::from_utf8_lossy(says));
            assert!(sent.is_over() && sent.client_port.get().is_some());
            assert!(!seen.is_unframed);
        }
        for says in ["HTTP/1.0 200 OK\r\n\r\nall", "HTTP/1.0 200 OK\r\n\r\n"] {
            let sent = block_on(with_server(says.as_bytes(), false));
            let seen = sent.seen.borrow();
            assert_eq!((seen.fate(), seen.is_unframed), (Some(Fate::Completed), true), "{says:?}: {seen:?}");
        }
    }

    #[test]
    fn a_connection_that_is_refused_or_never_served() {
        block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let waiting = sent();
            waiting.cancel.notify_one();
            // It connects and writes, since all of that is there at once, and then its time is up.
            waiting.on_new_connection(address, REQUEST, "GET").await;
            assert_eq!(waiting.seen.borrow().fate(), Some(Fate::TimedOut), "{:?}", waiting.seen);
            drop(listener);
            let refused = sent();
            assert!(refused.on_new_connection(address, REQUEST, "GET").await.is_none());
            assert_eq!(refused.seen.borrow().fate(), Some(Fate::Refused));
        });
    }

    #[test]
    fn what_our_own_side_lacks_is_nothing_that_the_server_did() {
        for (errno, refused) in [(111, true), (104, true), (99, false), (24, false), (23, false), (105, false)] {
            let connect = not_connected(&io::Error::from_raw_os_error(errno));
            assert_eq!(connect == Connect::Refused, refused, "{errno}: {connect:?}");
            assert!(refused || matches!(connect, Connect::Unable(_)));
        }
    }
}
