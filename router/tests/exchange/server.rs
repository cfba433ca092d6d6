//! Servers that answer as told, and what the tests ask of them.

use std::{
    future::{Future, pending},
    net::{Ipv4Addr, SocketAddr},
};

use router::{Ending, Exchange, Failure, Flaw, Next, Opened};
use scenarios::{
    RequestId, Tick,
    wire::{InvocationRequest, Progress},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

pub(crate) const ACCEPTED: &str = r#"{"at_us":5,"late_us":7,"event":"accepted","slot":2}"#;
pub(crate) const MODEL: &str = r#"{"at_us":6,"late_us":0,"event":"stage_entered","stage":"model"}"#;
pub(crate) const COMMIT_REFUSED: &str = r#"{"at_us":9,"late_us":1,"event":"commit_refused","sum":19}"#;
pub(crate) const COMMITTED: &str = r#"{"at_us":9,"late_us":1,"event":"result_committed","sum":19}"#;
pub(crate) const COMMIT_FAILED: &str = r#"{"at_us":9,"late_us":1,"event":"commit_failed","error":"disk full"}"#;

pub(crate) const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
pub(crate) const UNTIL_CLOSED: &str = "HTTP/1.0 200 OK\r\n\r\n";
pub(crate) const LAST_CHUNK: &str = "0\r\n\r\n";

/// What a server does when it has sent what it has to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Fin,
    Rst,
    /// Stays until the other side goes.
    Stay,
}

/// Listens on a free port and lets `serve` have the one connection that comes.
pub(crate) async fn listen<F: Future<Output = ()> + Send + 'static>(
    serve: impl FnOnce(TcpStream) -> F + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        serve(stream).await;
    });
    addr
}

/// A server that reads the request, answers with `answer`, whatever that is, and ends the connection.
pub(crate) async fn answering(answer: impl Into<Vec<u8>>, then: Then) -> SocketAddr {
    let answer = answer.into();
    listen(async move |mut stream: TcpStream| {
        read_request(&mut stream).await;
        // Whoever has read enough may hang up in the middle of it.
        let _ = stream.write_all(&answer).await;
        finish(stream, then).await;
    })
    .await
}

pub(crate) async fn finish(mut stream: TcpStream, then: Then) {
    match then {
        Then::Fin => drop(stream),
        Then::Rst => {
            stream.set_zero_linger().unwrap();
            drop(stream);
        }
        Then::Stay => {
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    }
}

/// Reads one request, head and body.
pub(crate) async fn read_request(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    loop {
        let mut buffer = [0; 1024];
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "the request ended early: {}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&buffer[..read]);
        let so_far = String::from_utf8_lossy(&text);
        if let Some((head, body)) = so_far.split_once("\r\n\r\n") {
            // A request without a body needs to say nothing of its length.
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if body.len() == length.parse::<usize>().unwrap() {
                return so_far.into_owned();
            }
        }
    }
}

pub(crate) fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

pub(crate) fn lines(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

pub(crate) fn request() -> InvocationRequest {
    InvocationRequest { request: 16, addends: RequestId(16).addends().to_vec() }
}

pub(crate) async fn open(addr: SocketAddr) -> Result<Opened, Failure> {
    Exchange::open(addr, &request(), Tick(310), pending()).await
}

pub(crate) async fn failure(addr: SocketAddr) -> Failure {
    match open(addr).await {
        Err(failure) => failure,
        Ok(opened) => panic!("{opened:?}"),
    }
}

pub(crate) async fn accepted(addr: SocketAddr) -> Exchange {
    match open(addr).await {
        Ok(Opened::Accepted { slot: 2, at_us: 5, late_us: 7, exchange }) => exchange,
        other => panic!("{other:?}"),
    }
}

/// Everything that comes, and that the ending stays what it is.
pub(crate) async fn rest(mut exchange: Exchange) -> (Vec<Progress>, Ending) {
    let mut seen = Vec::new();
    loop {
        match exchange.next().await {
            Next::Progress(progress) => seen.push(progress),
            Next::Ended(ending) => {
                assert_eq!(exchange.next().await, Next::Ended(ending.clone()));
                return (seen, ending);
            }
        }
    }
}

pub(crate) fn is_malformed(flaw: &Flaw, words: &str) -> bool {
    matches!(flaw, Flaw::Malformed { problem, .. } if problem.contains(words))
}

/// Many turns of the runtime: whatever can happen by itself has happened then.
pub(crate) async fn a_while() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}
