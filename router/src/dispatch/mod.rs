//! One HTTP exchange with one worker over a connection of its own.
//!
//! Connection life is the subject here: a worker that dies is noticed by how its connection ends. So each exchange has
//! a fresh connection, nothing is pooled or retried, and every way in which it can end has a name of its own.

mod ending;
mod lines;
mod probe;

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    net::SocketAddr,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, StatusCode,
    body::{Body as _, Incoming},
    client::conn::http1,
    header,
};
use hyper_util::rt::TokioIo;
use scenarios::{
    Reason, Tick,
    wire::{InvocationRequest, Progress, ProgressStep, Refusal, TICK_HEADER},
};
use tokio::net::TcpStream;

use self::{
    ending::excerpt,
    lines::{Lines, MAX_LINE_BYTES},
};

pub use self::{
    ending::{Close, Ending, Failure, Flaw, Waiting},
    probe::probe,
};

/// The largest head of an answer in bytes, and how much is read at once.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The largest answer to an accepted invocation in bytes; an honest one has less than a thousand.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// How much of an answer that accepts nothing is enough, in bytes; no more is read once this much is there.
const MAX_OTHER_BYTES: usize = 4 * 1024;

/// What a worker answered.
#[derive(Debug)]
pub enum Opened {
    /// It accepted the request.
    Accepted {
        /// The slot that it says it took, numbered from 1.
        slot: u8,
        /// The worker's CLOCK_MONOTONIC at that moment, in microseconds.
        at_us: u64,
        /// How much later than planned it did, in microseconds.
        late_us: u64,
        /// The rest of the answer.
        exchange: Exchange,
    },
    /// It refused the request.
    Refused {
        /// Its reason, never `no_eligible_worker`.
        reason: Reason,
    },
}

/// What the answer to an accepted invocation has next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another line.
    Progress(Progress),
    /// Nothing more.
    Ended(Ending),
}

/// The answer to an accepted invocation, while it comes in. To drop it closes the connection.
#[derive(Debug)]
pub struct Exchange {
    answer: Answer,
    lines: Lines,
    received_bytes: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    Running,
    Committed { sum: u32 },
    Ended(Ending),
}

impl Exchange {
    /// Connects to the worker at `addr`, sends the request that was admitted at `tick`, and waits until the worker has
    /// accepted or refused it, or until `deadline`.
    ///
    /// To drop the future closes the connection. The worker may have the request all the same.
    ///
    /// # Errors
    /// Whatever else came of it.
    pub async fn open(
        addr: SocketAddr,
        request: &InvocationRequest,
        tick: Tick,
        deadline: impl Future<Output = ()>,
    ) -> Result<Opened, Failure> {
        let waiting_for = Cell::new(Waiting::Connection);
        tokio::select! {
            // What is there already counts, however late it is looked at.
            biased;
            opened = Exchange::attempt(addr, request, tick, &waiting_for) => opened,
            () = deadline => Err(Failure::GivenUp { waiting_for: waiting_for.get() }),
        }
    }

    async fn attempt(
        addr: SocketAddr,
        request: &InvocationRequest,
        tick: Tick,
        waiting_for: &Cell<Waiting>,
    ) -> Result<Opened, Failure> {
        let request = http_request(addr, request, tick)?;
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        waiting_for.set(Waiting::Answer);
        let (status, mut answer) = Answer::to(request, stream).await?;
        waiting_for.set(Waiting::Body { status: status.as_u16() });
        match status {
            StatusCode::OK => Exchange::accepted(answer).await,
            StatusCode::SERVICE_UNAVAILABLE => {
                let body = answer.start().await;
                match serde_json::from_slice(&body) {
                    // Only a router can find that there is no eligible worker.
                    Ok(Refusal { reason }) if reason != Reason::NoEligibleWorker => Ok(Opened::Refused { reason }),
                    _ => Err(Failure::UnreadableRefusal { excerpt: excerpt(&body) }),
                }
            }
            other => {
                let excerpt = excerpt(&answer.start().await);
                Err(Failure::OtherStatus { status: other.as_u16(), excerpt })
            }
        }
    }

    async fn accepted(answer: Answer) -> Result<Opened, Failure> {
        let mut exchange = Exchange { answer, lines: Lines::default(), received_bytes: 0, state: State::Running };
        match exchange.progress().await {
            Ok(Some(Progress { at_us, late_us, step: ProgressStep::Accepted { slot } })) => {
                Ok(Opened::Accepted { slot, at_us, late_us, exchange })
            }
            Ok(Some(Progress { step, .. })) => {
                let problem = "the first line is not `accepted`";
                Err(Failure::NotAccepted(Flaw::malformed(problem, format!("{step:?}").as_bytes())))
            }
            Ok(None) => Err(Failure::NotAccepted(Flaw::EndedEarly)),
            Err(flaw) => Err(Failure::NotAccepted(flaw)),
        }
    }

    /// What comes next. After [`Next::Ended`] it is the same ending again for good.
    ///
    /// Cancel-safe: a line is lost neither when this is dropped nor by how the answer is cut into chunks.
    pub async fn next(&mut self) -> Next {
        if let State::Ended(ending) = &self.state {
            return Next::Ended(ending.clone());
        }
        let progress = self.progress().await;
        match (&self.state, progress) {
            (State::Running, Ok(Some(progress))) => match &progress.step {
                ProgressStep::Accepted { .. } => self.end(Ending::Broken(Flaw::malformed("accepted twice", b""))),
                ProgressStep::StageEntered { .. } => Next::Progress(progress),
                ProgressStep::ResultCommitted { sum } => {
                    self.state = State::Committed { sum: *sum };
                    Next::Progress(progress)
                }
                ProgressStep::CommitRefused { .. } => {
                    self.state = State::Ended(Ending::CommitRefused);
                    Next::Progress(progress)
                }
                ProgressStep::CommitFailed { error } => {
                    self.state = State::Ended(Ending::CommitFailed { error: error.clone() });
                    Next::Progress(progress)
                }
            },
            (State::Running, Ok(None)) => self.end(Ending::Broken(Flaw::EndedEarly)),
            (State::Running, Err(flaw)) => self.end(Ending::Broken(flaw)),
            (&State::Committed { sum }, Ok(None)) => self.end(Ending::Completed { sum }),
            // One that tried again: the result stays the first one.
            (State::Committed { .. }, Ok(Some(again))) if matches!(again.step, ProgressStep::CommitRefused { .. }) => {
                Next::Progress(again)
            }
            (&State::Committed { sum }, Ok(Some(Progress { step, .. }))) => {
                let flaw = Flaw::malformed("a line after the result", format!("{step:?}").as_bytes());
                self.end(Ending::CommittedBut { sum, flaw })
            }
            (&State::Committed { sum }, Err(flaw)) => self.end(Ending::CommittedBut { sum, flaw }),
            (State::Ended(ending), _) => Next::Ended(ending.clone()),
        }
    }

    fn end(&mut self, ending: Ending) -> Next {
        self.state = State::Ended(ending.clone());
        Next::Ended(ending)
    }

    /// The next line, or `None` where the answer ends properly. Nothing is in hand across the await, so that it can be
    /// cancelled there.
    async fn progress(&mut self) -> Result<Option<Progress>, Flaw> {
        loop {
            if let Some(line) = self.lines.pop() {
                let too_long = |_| {
                    let problem = format_args!("a line of more than {MAX_LINE_BYTES} bytes").to_string();
                    Flaw::malformed(problem, self.lines.rest())
                };
                let line = line.map_err(too_long)?;
                return match serde_json::from_slice(&line) {
                    Ok(progress) => Ok(Some(progress)),
                    Err(error) => Err(Flaw::malformed(error, &line)),
                };
            }
            match self.answer.chunk().await? {
                Some(chunk) => {
                    self.received_bytes += chunk.len();
                    if self.received_bytes > MAX_ANSWER_BYTES {
                        let problem = format_args!("more than {MAX_ANSWER_BYTES} bytes").to_string();
                        return Err(Flaw::malformed(problem, &chunk));
                    }
                    self.lines.push(&chunk);
                }
                None if self.lines.rest().is_empty() => return Ok(None),
                None => return Err(Flaw::malformed("the last line has no newline", self.lines.rest())),
            }
        }
    }
}

fn http_request(addr: SocketAddr, request: &InvocationRequest, tick: Tick) -> Result<Request<Full<Bytes>>, Failure> {
    let unsendable = |error: &dyn std::error::Error| Failure::Unsendable { error: error.to_string() };
    let body = serde_json::to_vec(request).map_err(|error| unsendable(&error))?;
    Request::post("/invocations")
        .header(header::HOST, addr.to_string())
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONNECTION, "close")
        .header(TICK_HEADER, tick.0)
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| unsendable(&error))
}

type Connection = http1::Connection<TokioIo<TcpStream>, Full<Bytes>>;

/// The body of an answer, and the connection that it comes over. The connection makes headway only while the body is
/// read: there is no task for it, so that nothing lives on when this is dropped.
#[derive(Debug)]
struct Answer {
    connection: Driven,
    body: Incoming,
}

impl Answer {
    /// Sends the request and waits for the head of the answer.
    async fn to(request: Request<Full<Bytes>>, stream: TcpStream) -> Result<(StatusCode, Answer), Failure> {
        let mut client = http1::Builder::new();
        client.max_buf_size(MAX_HEAD_BYTES);
        let (mut sender, connection) =
            client.handshake(TokioIo::new(stream)).await.map_err(|error| Failure::of(&error))?;
        let mut connection = Driven(Some(Box::pin(connection)));
        let mut response = pin!(sender.send_request(request));
        let response = poll_fn(|cx| connection.drive(cx, |cx| response.as_mut().poll(cx))).await;
        match response {
            Ok(response) => Ok((response.status(), Answer { connection, body: response.into_body() })),
            Err(error) => Err(Failure::of(&error)),
        }
    }

    /// The next piece of the body, or `None` where it ends properly. Cancel-safe.
    async fn chunk(&mut self) -> Result<Option<Bytes>, Flaw> {
        loop {
            let (connection, body) = (&mut self.connection, &mut self.body);
            match poll_fn(|cx| connection.drive(cx, |cx| Pin::new(&mut *body).poll_frame(cx))).await {
                None => return Ok(None),
                // What is no data is a trailer, and nobody asked for one.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(chunk) => return Ok(Some(chunk)),
                    Err(_trailer) => {}
                },
                Some(Err(error)) => return Err(Flaw::of(&error)),
            }
        }
    }

    /// The start of a body that is only to be read or shown once, however it ends.
    async fn start(&mut self) -> Vec<u8> {
        let mut start = Vec::new();
        while start.len() < MAX_OTHER_BYTES {
            match self.chunk().await {
                Ok(Some(chunk)) => start.extend_from_slice(&chunk),
                Ok(None) | Err(_) => break,
            }
        }
        start
    }
}

/// A connection that is driven by whoever waits for something from it; `None` when it is over. What it ended with does
/// not matter: whoever waits is told.
#[derive(Debug)]
struct Driven(Option<Pin<Box<Connection>>>);

impl Driven {
    /// Polls `wanted`, and if it is not there yet, the connection that brings it and then `wanted` once more.
    fn drive<T>(&mut self, cx: &mut Context<'_>, mut wanted: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        let ready = wanted(cx);
        if ready.is_ready() {
            return ready;
        }
        if let Some(connection) = &mut self.0
            && connection.as_mut().poll(cx).is_ready()
        {
            self.0 = None;
        }
        wanted(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::{io::AsyncWriteExt, net::TcpListener};

    use super::*;

    /// What the other side did to the connection before the request was even looked at.
    #[tokio::test]
    async fn a_connection_that_is_over_before_it_is_used() {
        type Check = fn(&Failure) -> bool;
        let rows: [(&str, bool, Check); 4] = [
            ("", false, |failure| *failure == Failure::Unanswered { close: Close::Clean }),
            ("", true, |failure| *failure == Failure::Unanswered { close: Close::Reset }),
            ("220 mail.example ESMTP\r\n", false, |failure| matches!(failure, Failure::NotHttp { .. })),
            ("220 mail.example ESMTP\r\n", true, |failure| matches!(failure, Failure::NotHttp { .. })),
        ];
        for (says, resets, check) in rows {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let addr = listener.local_addr().unwrap();
            let stream = TcpStream::connect(addr).await.unwrap();
            let (mut other, _) = listener.accept().await.unwrap();
            other.write_all(says.as_bytes()).await.unwrap();
            if resets {
                other.set_zero_linger().unwrap();
            }
            drop(other);
            stream.readable().await.unwrap();
            let request = InvocationRequest { request: 1, addends: vec![1, 1, 2] };
            let request = http_request(addr, &request, Tick::START).unwrap();
            let failure = Answer::to(request, stream).await.unwrap_err();
            assert!(check(&failure), "{says:?} {resets}: {failure:?}");
        }
    }
}
