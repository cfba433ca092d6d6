//! Every way in which an exchange with a worker can end.

use std::{error::Error as StdError, fmt, io};

use thiserror::Error;

/// How a connection ended before it should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Close {
    /// With FIN: the other side closed it, or the kernel did for a process that died with nothing unread.
    Clean,
    /// With RST (`ECONNRESET`, or `EPIPE` on a write after one): the other side threw it away, such as a process
    /// that died with something unread or never accepted the connection.
    Reset,
    /// For another cause that the operating system gives, such as a timeout.
    Lost(io::ErrorKind),
}

impl Close {
    /// The end of a connection that an I/O error tells of; `None` for an error that is about something else.
    fn of(error: &io::Error) -> Option<Close> {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Some(Close::Clean),
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => {
                Some(Close::Reset)
            }
            kind => error.raw_os_error().map(|_| Close::Lost(kind)),
        }
    }
}

impl fmt::Display for Close {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Close::Clean => f.write_str("closed"),
            Close::Reset => f.write_str("reset"),
            Close::Lost(kind) => write!(f, "lost ({kind})"),
        }
    }
}

/// What is wrong with the body of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Flaw {
    /// The connection ended in the middle of it. Half a line that had arrived by then is dropped.
    #[error("the connection was {0} in the middle of the answer")]
    Cut(Close),
    /// It ended properly, but before it should have. A body that lasts until the connection is closed (HTTP/1.0) ends
    /// properly whenever that is, so a worker's death shows as this there.
    #[error("the answer ended early")]
    EndedEarly,
    /// It is not what a worker says: not newline-delimited JSON, an unknown or misplaced line, too long, or not
    /// proper HTTP. Nothing after that is read.
    #[error("the answer makes no sense: {problem}: \"{excerpt}\"")]
    Malformed {
        /// What is wrong.
        problem: String,
        /// The start of what was read instead, fit to be shown; may be empty.
        excerpt: String,
    },
}

impl Flaw {
    pub(super) fn malformed(problem: impl fmt::Display, found: &[u8]) -> Flaw {
        Flaw::Malformed { problem: problem.to_string(), excerpt: excerpt(found) }
    }

    /// What an error in the middle of a body means.
    pub(super) fn of(error: &hyper::Error) -> Flaw {
        match Cause::of(error) {
            Cause::Closed(close) => Flaw::Cut(close),
            Cause::Nonsense(problem) => Flaw::malformed(problem, b""),
        }
    }
}

/// What the exchange was waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// The connection: nobody answers the handshake, or the listener's backlog is full.
    Connection,
    /// The head of an answer: the kernel accepted the connection, but nobody serves it.
    Answer,
    /// The body of an answer, or its first line.
    Body {
        /// The status of the answer.
        status: u16,
    },
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Waiting::Connection => f.write_str("a connection"),
            Waiting::Answer => f.write_str("an answer"),
            Waiting::Body { status } => write!(f, "the body of the answer with status {status}"),
        }
    }
}

/// How an exchange ended in which no worker accepted or refused the request. The worker may have it all the same when
/// it was sent: the result store knows.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// Nobody listens there (`ECONNREFUSED`): the worker is not up yet, or gone. It has nothing of the request.
    #[error("connection refused")]
    ConnectionRefused,
    /// There was no connection for another cause: reset, timed out, unreachable. The worker has nothing of the request.
    #[error("could not connect: {error}")]
    NoConnection {
        /// What kind of error it was.
        kind: io::ErrorKind,
        /// The operating system's words.
        error: String,
    },
    /// The request could not be put into HTTP.
    #[error("the request can't be sent: {error}")]
    Unsendable {
        /// Why.
        error: String,
    },
    /// The connection ended before the head of an answer was there: the kernel accepted it, but nobody served it, or
    /// the worker died right then.
    #[error("the connection was {close} before there was an answer")]
    Unanswered {
        /// How it ended.
        close: Close,
    },
    /// The caller's deadline came first.
    #[error("given up on waiting for {waiting_for}")]
    GivenUp {
        /// What had not come by then.
        waiting_for: Waiting,
    },
    /// Whoever answered does not speak HTTP/1, or too much of it at once.
    #[error("the answer is not HTTP: {problem}")]
    NotHttp {
        /// What is wrong with it.
        problem: String,
    },
    /// The answer has a status that is neither 200 nor 503.
    #[error("answered with status {status}: \"{excerpt}\"")]
    OtherStatus {
        /// The status.
        status: u16,
        /// The start of the body, fit to be shown.
        excerpt: String,
    },
    /// The answer is a 503, but gives no reason that a worker can have.
    #[error("refused, but the reason is unreadable: \"{excerpt}\"")]
    UnreadableRefusal {
        /// The start of the body, fit to be shown.
        excerpt: String,
    },
    /// The answer has status 200, but no `accepted` line to start with.
    #[error("answered, but not accepted: {0}")]
    NotAccepted(Flaw),
}

impl Failure {
    /// What it means that there is an error where an answer should be.
    pub(super) fn of(error: &hyper::Error) -> Failure {
        match Cause::of(error) {
            Cause::Closed(close) => Failure::Unanswered { close },
            Cause::Nonsense(problem) => Failure::NotHttp { problem },
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Failure::ConnectionRefused,
            kind => Failure::NoConnection { kind, error: error.to_string() },
        }
    }
}

/// How the exchange about an accepted invocation ended. What became of the invocation is for the result store to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `result_committed` was the last line and the body ended properly.
    Completed {
        /// The result.
        sum: u32,
    },
    /// `result_committed` was seen, but then the body did not end as it should.
    CommittedBut {
        /// The result.
        sum: u32,
        /// What came instead of the end.
        flaw: Flaw,
    },
    /// The worker said that the store has a result of the request already. How the body ended afterwards does not matter.
    CommitRefused,
    /// The worker said that the store did not take the result. How the body ended afterwards does not matter.
    CommitFailed {
        /// The worker's words.
        error: String,
    },
    /// There was neither: the worker died, or does not keep to the contract.
    Broken(Flaw),
}

impl Ending {
    /// The result, if the worker said that it was committed.
    #[must_use]
    pub fn committed(&self) -> Option<u32> {
        match self {
            Ending::Completed { sum } | Ending::CommittedBut { sum, .. } => Some(*sum),
            Ending::CommitRefused | Ending::CommitFailed { .. } | Ending::Broken(_) => None,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Completed { sum } => write!(f, "completed with the sum {sum}"),
            Ending::CommittedBut { sum, flaw } => write!(f, "the sum {sum} was committed, but then {flaw}"),
            Ending::CommitRefused => f.write_str("the store has a result of it already"),
            Ending::CommitFailed { error } => {
                write!(f, "the store did not take the result: {}", excerpt(error.as_bytes()))
            }
            Ending::Broken(flaw) => flaw.fmt(f),
        }
    }
}

/// What is behind an error of the HTTP library.
enum Cause {
    Closed(Close),
    Nonsense(String),
}

impl Cause {
    /// The library wraps what happened to a connection in what that meant to it, often no more than "cancelled". So
    /// the operating system's word counts first, then the library's innermost one.
    fn of(error: &hyper::Error) -> Cause {
        if let Some(close) = chain(error).find_map(|error| error.downcast_ref().and_then(Close::of)) {
            return Cause::Closed(close);
        }
        let innermost = chain(error).filter_map(<dyn StdError>::downcast_ref::<hyper::Error>).last().unwrap_or(error);
        if innermost.is_incomplete_message() || innermost.is_canceled() {
            return Cause::Closed(Close::Clean);
        }
        Cause::Nonsense(match innermost.source() {
            Some(source) => format!("{innermost}: {source}"),
            None => innermost.to_string(),
        })
    }
}

/// The error and what it came from.
fn chain(error: &hyper::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(Some(error as &(dyn StdError + 'static)), |&error| error.source())
}

/// How many characters of a strange answer are shown.
const EXCERPT_CHARS: usize = 160;

/// The start of `bytes` as a line that does no harm on a terminal: control characters and quotes are escaped.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    // A character has at most four bytes, so this is enough for one more than is shown.
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min((EXCERPT_CHARS + 1) * 4)]);
    let mut chars = head.chars();
    let mut shown: String = chars.by_ref().take(EXCERPT_CHARS).flat_map(char::escape_debug).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errors_that_are_the_end_of_a_connection() {
        use io::{Error, ErrorKind};
        // Linux error numbers, errno(3).
        let (epipe, econnreset, etimedout, ehostunreach) = (32, 104, 110, 113);
        let rows = [
            (Error::from_raw_os_error(econnreset), Some(Close::Reset)),
            (Error::from_raw_os_error(epipe), Some(Close::Reset)),
            (Error::from_raw_os_error(etimedout), Some(Close::Lost(ErrorKind::TimedOut))),
            (Error::from_raw_os_error(ehostunreach), Some(Close::Lost(ErrorKind::HostUnreachable))),
            (Error::new(ErrorKind::UnexpectedEof, "in the middle of a chunk"), Some(Close::Clean)),
            (Error::new(ErrorKind::InvalidInput, "not a chunk size"), None),
        ];
        for (error, close) in rows {
            assert_eq!(Close::of(&error), close, "{error}");
        }
    }

    #[test]
    fn an_excerpt_is_short_and_harmless() {
        assert_eq!(excerpt(b"try \"later\"\x1b[2J\n"), "try \\\"later\\\"\\u{1b}[2J\\n");
        assert_eq!(excerpt(b"\xff\xfe"), "\u{fffd}\u{fffd}");
        assert_eq!(excerpt("ü".repeat(EXCERPT_CHARS).as_bytes()), "ü".repeat(EXCERPT_CHARS));
        assert_eq!(excerpt(&[b'x'; 100_000]).chars().count(), EXCERPT_CHARS + 1);
    }
}
