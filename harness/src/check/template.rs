//! A request as it is asked for and as it is sent.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A request that is sent over and over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    /// Its method, such as `GET`.
    pub method: String,
    /// Its path, with the query.
    pub path: String,
    /// Its headers, beside those that HTTP asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Its body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

impl FromStr for Template {
    type Err = String;

    /// `GET /path`, or only `/path`.
    fn from_str(text: &str) -> Result<Template, String> {
        let (method, path) = text.trim().split_once(' ').unwrap_or(("GET", text.trim()));
        let template =
            Template { method: method.to_owned(), path: path.trim().to_owned(), headers: Vec::new(), body: None };
        template.check()?;
        Ok(template)
    }
}

/// A header as it is given on the command line, `Name: value`.
///
/// # Errors
/// What is allowed.
pub fn header(text: &str) -> Result<(String, String), String> {
    let header = text.split_once(':').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    header
        .filter(|(name, value)| is_token(name) && is_printable(value))
        .ok_or_else(|| "a header such as `Accept: text/html`".to_owned())
}

impl Template {
    /// Whether it is sent with the body that is given for all that take one.
    #[must_use]
    pub fn takes_body(&self) -> bool {
        matches!(self.method.as_str(), "POST" | "PUT" | "PATCH")
    }

    /// Whether it can be sent.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        if !is_token(&self.method) || self.method != self.method.to_ascii_uppercase() {
            return Err(format!("{:?} is no method; write a request as `GET /path`", self.method));
        }
        if !is_path(&self.path) {
            return Err(format!("{:?} is no path that begins with /; write a request as `GET /path`", self.path));
        }
        if let Some((name, _)) = self.headers.iter().find(|(name, value)| !is_token(name) || !is_printable(value)) {
            return Err(format!("{name:?} is no header that can be sent"));
        }
        // A body that ends elsewhere than its headers say would leave the server waiting, or with half of the next request.
        let length = self.body.as_deref().unwrap_or_default().len();
        match self.headers.iter().find(|(name, value)| {
            name.eq_ignore_ascii_case("Transfer-Encoding")
                || name.eq_ignore_ascii_case("Content-Length") && value.parse() != Ok(length)
        }) {
            Some((name, value)) => Err(format!(
                "{name}: {value} is not how the body is sent, which is as a whole, {length} bytes long; leave that header out"
            )),
            None => Ok(()),
        }
    }

    /// Its bytes for a server at `host`.
    #[must_use]
    pub fn bytes(&self, host: &str, connection: &str) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        let mut add = |name: &str, value: &str| {
            if !self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)) {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
        };
        add("Host", host);
        add("User-Agent", "termdrill");
        add("Accept", "*/*");
        add("Connection", connection);
        let takes_body = matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        let body = self.body.as_deref().unwrap_or_default();
        if takes_body || !body.is_empty() {
            add("Content-Length", &body.len().to_string());
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        head.push_str(body);
        head.into_bytes()
    }

    /// `GET /path`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// A token of RFC 9110, section 5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Whether it can stand in the first line of a request.
pub(super) fn is_path(text: &str) -> bool {
    text.starts_with('/') && is_printable(text) && !text.contains(' ')
}

fn is_printable(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_and_sent() {
        let template: Template = "POST /orders?x=1".parse().unwrap();
        assert_eq!(template.title(), "POST /orders?x=1");
        let template = Template { body: Some("a=1".to_owned()), headers: vec![header("X-A:b").unwrap()], ..template };
        let text = String::from_utf8(template.bytes("localhost:80", "close")).unwrap();
        assert!(text.starts_with("POST /orders?x=1 HTTP/1.1\r\nHost: localhost:80\r\n"), "{text}");
        assert!(text.ends_with("Connection: close\r\nContent-Length: 3\r\nX-A: b\r\n\r\na=1"), "{text}");
        assert_eq!("/x".parse::<Template>().unwrap().title(), "GET /x");
    }

    #[test]
    fn what_is_given_counts_for_more_than_what_is_usual() {
        let template = Template { headers: vec![("host".to_owned(), "a".to_owned())], .."/".parse().unwrap() };
        let text = String::from_utf8(template.bytes("b", "close")).unwrap();
        assert!(text.contains("host: a\r\n") && !text.contains("Host: b"), "{text}");
    }

    #[test]
    fn what_can_t_be_sent_is_refused() {
        for bad in ["", "GET", "get /", "GET x", "G T /", "GET /a b", "GET /\r\nX: y"] {
            assert!(bad.parse::<Template>().is_err(), "{bad:?}");
        }
        let posted = |header: (&str, &str)| {
            let headers = vec![(header.0.to_owned(), header.1.to_owned())];
            Template { body: Some("a=1".to_owned()), headers, .."POST /".parse().unwrap() }.check()
        };
        assert_eq!(posted(("content-length", "3")), Ok(()));
        for bad in [("Content-Length", "5"), ("content-length", ""), ("Transfer-Encoding", "chunked")] {
            assert!(posted(bad).unwrap_err().contains("3 bytes long"), "{bad:?}");
        }
        for bad in ["", "x", ": y", "a b: c", "a: b\r\nc: d"] {
            assert!(header(bad).is_err(), "{bad:?}");
        }
    }
}
