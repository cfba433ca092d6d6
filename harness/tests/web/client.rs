//! An HTTP client that sends exactly what it is told, so that what no browser sends can be sent as well.

use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
};

use serde_json::Value;

use crate::support::PATIENCE;

/// What a server answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// Reads one that ends with its connection; `None` where there is no answer.
    pub(crate) fn read(stream: &TcpStream) -> Option<Answer> {
        let mut bytes = Vec::new();
        let mut reader = stream;
        match reader.read_to_end(&mut bytes) {
            Ok(_) => {}
            // A server that refuses what it does not read to its end may reset the connection after its answer.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("no answer: {error}"),
        }
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| {
            // HTTP libraries write them in lower case; nobody may depend on it.
            (name.to_ascii_lowercase(), value.to_owned())
        });
        Some(Answer { status, headers: headers.collect(), body: body.to_owned() })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Checks that it is an error of this status that says what is wrong.
    pub(crate) fn assert_error(&self, status: u16, what: &str) {
        assert_eq!(self.status, status, "{self:?}");
        let error = self.json()["error"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned();
        assert!(error.contains(what), "{what:?} is not in {error:?}");
    }
}

/// A client of one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client(pub(crate) SocketAddr);

impl Client {
    pub(crate) fn connect(self) -> TcpStream {
        let stream = TcpStream::connect(self.0).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes as they are; whatever the server does not want to read is not sent.
    pub(crate) fn raw(self, bytes: &[u8]) -> Option<Answer> {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        Answer::read(&stream)
    }

    /// A request with these headers beside those that it needs.
    pub(crate) fn request(self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            text.push_str(&format!("Host: {}\r\n", self.0));
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if method == "POST" {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        let mut stream = self.connect();
        stream.write_all(format!("{text}\r\n{body}").as_bytes()).unwrap();
        Answer::read(&stream).unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }

    pub(crate) fn get(self, path: &str) -> Answer {
        self.request("GET", path, &[], "")
    }

    pub(crate) fn post(self, path: &str, body: &Value) -> Answer {
        self.request("POST", path, &[("Content-Type", "application/json")], &body.to_string())
    }

    /// Follows a run by server-sent events. HTTP/1.0 knows no chunks: the answer is what is sent until its end.
    pub(crate) fn follow(self, id: &str, last_id: Option<usize>) -> Events {
        let mut stream = self.connect();
        let resume = last_id.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        let request = format!("GET /api/runs/{id}/events HTTP/1.0\r\nHost: {}\r\n{resume}\r\n", self.0);
        stream.write_all(request.as_bytes()).unwrap();
        let mut lines = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") && lines.read_line(&mut head).unwrap() > 0 {}
        Events { head, lines }
    }
}

/// Server-sent events, as they come.
pub(crate) struct Events {
    pub(crate) head: String,
    lines: BufReader<TcpStream>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: usize,
    pub(crate) event: String,
    pub(crate) data: Value,
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut event = Event { id: 0, event: String::new(), data: Value::Null };
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let line = line.trim_end_matches('\n');
            match line.split_once(": ") {
                Some(("id", id)) => event.id = id.parse().unwrap(),
                Some(("event", name)) => event.event = name.to_owned(),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                _ if line.is_empty() && !event.event.is_empty() => return Some(event),
                // A comment, or the end of one.
                _ => assert!(line.is_empty() || line.starts_with(':'), "{line:?}"),
            }
        }
    }
}
