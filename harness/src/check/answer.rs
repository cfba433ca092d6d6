//! Reads an answer as it comes in, and knows when it is whole (RFC 9112, section 6). Without I/O.

/// The largest head that is read, in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// How many headers a head may have.
const MAX_HEADERS: usize = 100;
/// The longest line of a chunked body, its size or a trailer, in bytes.
const MAX_LINE_BYTES: usize = 8 * 1024;

/// An answer as far as it has come in.
#[derive(Debug)]
pub struct Answer {
    to_head: bool,
    head: Vec<u8>,
    status: Option<u16>,
    keeps_alive: bool,
    body: Body,
}

#[derive(Debug, PartialEq, Eq)]
enum Body {
    /// The head is not there yet.
    Unknown,
    /// So many bytes are still to come.
    Length(u64),
    Chunked(Chunk),
    /// All that comes before the connection is closed.
    UntilClose,
}

#[derive(Debug, PartialEq, Eq)]
enum Chunk {
    /// The line that tells its size, as far as it is there.
    Size(Vec<u8>),
    /// So many bytes of it are still to come, the line's end behind it included.
    Data(u64),
    /// A line behind the last one.
    Trailer(Vec<u8>),
    Done,
}

/// What is no HTTP.
pub type Malformed = &'static str;

impl Answer {
    /// The answer to a request; one to a HEAD request has no body.
    #[must_use]
    pub fn new(method: &str) -> Answer {
        Answer { to_head: method == "HEAD", head: Vec::new(), status: None, keeps_alive: false, body: Body::Unknown }
    }

    /// Its status, once the head is there.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// Whether another request can be sent on the same connection.
    #[must_use]
    pub fn keeps_alive(&self) -> bool {
        self.keeps_alive && self.is_whole() && self.body != Body::UntilClose
    }

    /// Whether it is whole as it is.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!(self.body, Body::Length(0) | Body::Chunked(Chunk::Done))
    }

    /// Whether it is whole if nothing more comes since the connection was closed.
    #[must_use]
    pub fn is_whole_when_closed(&self) -> bool {
        self.is_whole() || self.body == Body::UntilClose
    }

    /// Takes in what came. What comes after a whole answer is nothing of it.
    ///
    /// # Errors
    /// It is no HTTP.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        if self.body != Body::Unknown {
            return self.take_body(bytes);
        }
        self.head.extend_from_slice(bytes);
        while let Some(length) = self.read_head()? {
            let rest = self.head.split_off(length);
            self.head.clear();
            if self.body != Body::Unknown {
                return self.take_body(&rest);
            }
            self.head = rest;
        }
        Ok(())
    }

    fn take_body(&mut self, mut bytes: &[u8]) -> Result<(), Malformed> {
        while !bytes.is_empty() {
            match &mut self.body {
                Body::Unknown | Body::Length(0) | Body::UntilClose | Body::Chunked(Chunk::Done) => return Ok(()),
                Body::Length(left) => {
                    let taken = (*left).min(bytes.len() as u64);
                    *left -= taken;
                    bytes = &bytes[taken as usize..];
                }
                Body::Chunked(chunk) => bytes = chunk.take(bytes)?,
            }
        }
        Ok(())
    }

    /// The length of the head, if it is there. Interim answers (1xx) are passed over.
    fn read_head(&mut self) -> Result<Option<usize>, Malformed> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let length = match response.parse(&self.head) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if self.head.len() > MAX_HEAD_BYTES => return Err("the head is too long"),
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err("it is no HTTP/1 answer"),
        };
        let status = response.code.unwrap_or_default();
        if (100..200).contains(&status) && status != 101 {
            return Ok(Some(length));
        }
        let values = |name: &'static str| {
            response.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name)).map(|h| h.value)
        };
        let has = |name: &'static str, token: &str| {
            values(name)
                .flat_map(|value| value.split(|&byte| byte == b','))
                .any(|one| one.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
        };
        self.keeps_alive =
            if response.version == Some(1) { !has("connection", "close") } else { has("connection", "keep-alive") };
        self.body = if self.to_head || status == 204 || status == 304 {
            Body::Length(0)
        } else if has("transfer-encoding", "chunked") {
            Body::Chunked(Chunk::Size(Vec::new()))
        } else if let Some(value) = values("content-length").next() {
            let length = std::str::from_utf8(value.trim_ascii()).ok().and_then(|value| value.parse().ok());
            Body::Length(length.ok_or("its Content-Length is no number")?)
        } else {
            Body::UntilClose
        };
        self.status = Some(status);
        Ok(Some(length))
    }
}

impl Chunk {
    /// Takes what belongs to this step, and gives the rest.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
        match self {
            Chunk::Data(left) => {
                let taken = (*left).min(bytes.len() as u64);
                *left -= taken;
                if *left == 0 {
                    *self = Chunk::Size(Vec::new());
                }
                Ok(&bytes[taken as usize..])
            }
            Chunk::Size(line) | Chunk::Trailer(line) => {
                let end = bytes.iter().position(|&byte| byte == b'\n');
                let (part, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
                line.extend_from_slice(part);
                if line.len() > MAX_LINE_BYTES {
                    return Err("a line of the chunked body is too long");
                }
                if end.is_some() {
                    self.end_line()?;
                }
                Ok(rest)
            }
            Chunk::Done => Ok(&[]),
        }
    }

    fn end_line(&mut self) -> Result<(), Malformed> {
        *self = match self {
            Chunk::Size(line) => match httparse::parse_chunk_size(line) {
                Ok(httparse::Status::Complete((_, 0))) => Chunk::Trailer(Vec::new()),
                Ok(httparse::Status::Complete((_, size))) => {
                    Chunk::Data(size.checked_add(2).ok_or("a chunk is too long")?)
                }
                _ => return Err("the size of a chunk is no number"),
            },
            Chunk::Trailer(line) if line.trim_ascii().is_empty() => Chunk::Done,
            _ => Chunk::Trailer(Vec::new()),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An answer, to which method, its status, whether it is whole as it is and when closed, and keeps alive.
    const ROWS: &[(&str, &str, Option<u16>, [bool; 3])] = &[
        ("", "GET", None, [false, false, false]),
        ("HTTP/1.1 200 OK\r\nContent-Le", "GET", None, [false, false, false]),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "GET", Some(200), [true, true, true]),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", "GET", Some(200), [false, false, false]),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "HEAD", Some(200), [true, true, true]),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "GET", Some(200), [true, true, false]),
        ("HTTP/1.0 200 OK\r\n\r\nsome", "GET", Some(200), [false, true, false]),
        ("HTTP/1.1 204 No\r\n\r\n", "GET", Some(204), [true, true, true]),
        ("HTTP/1.1 304 No\r\nContent-Length: 7\r\n\r\n", "GET", Some(304), [true, true, true]),
        ("HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", "GET", Some(503), [true, true, true]),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n",
            "GET",
            Some(200),
            [true, true, true],
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n",
            "GET",
            Some(200),
            [true, true, true],
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", "GET", Some(200), [false; 3]),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "GET", Some(200), [false; 3]),
    ];

    fn check(answer: &Answer, row: &(&str, &str, Option<u16>, [bool; 3])) {
        let (text, _, status, [whole, whole_when_closed, keeps_alive]) = row;
        assert_eq!(answer.status(), *status, "{text}");
        assert_eq!(answer.is_whole(), *whole, "{text}");
        assert_eq!(answer.is_whole_when_closed(), *whole_when_closed, "{text}");
        assert_eq!(answer.keeps_alive(), *keeps_alive, "{text}");
    }

    #[test]
    fn an_answer_is_whole_when_its_framing_says_so() {
        for row in ROWS {
            let mut answer = Answer::new(row.1);
            answer.take(row.0.as_bytes()).unwrap();
            check(&answer, row);
        }
    }

    #[test]
    fn what_is_no_http_is_told() {
        for bad in [
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        ] {
            assert!(Answer::new("GET").take(bad.as_bytes()).is_err(), "{bad}");
        }
        let endless = [b'a'; 2 * MAX_LINE_BYTES];
        let mut answer = Answer::new("GET");
        answer.take(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;").unwrap();
        assert!(answer.take(&endless).is_err());
    }

    proptest! {
        #[test]
        fn how_it_is_cut_makes_no_difference(row in 0..ROWS.len(), cuts in prop::collection::vec(0usize..200, 0..6)) {
            let row = &ROWS[row];
            let mut answer = Answer::new(row.1);
            let mut rest = row.0.as_bytes();
            for cut in cuts {
                let (part, after) = rest.split_at(cut.min(rest.len()));
                answer.take(part).unwrap();
                rest = after;
            }
            answer.take(rest).unwrap();
            check(&answer, row);
        }

        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Answer::new("GET").take(&bytes);
            let mut answer = Answer::new("GET");
            answer.take(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
            let _ = answer.take(&bytes);
        }
    }
}
