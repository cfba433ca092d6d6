//! Who may ask for what. Pure.
//!
//! A page of any site that a person has open can send requests to a server on the same machine. Three things keep it
//! from starting or reading anything here:
//!
//! - The `Host` header must name this machine. A foreign name that was made to resolve to it (DNS rebinding) does not.
//! - What changes something must come from the server's own page: where a browser says otherwise, in `Origin`
//!   (RFC 6454) or `Sec-Fetch-Site` (W3C Fetch Metadata), it is refused. So is everything of the API that another site
//!   asks for.
//! - A `POST` must say that it is `application/json`, which no plain form can. The server never allows another origin
//!   (there are no CORS headers), so a browser does not even send such a request for one.

use std::net::{IpAddr, SocketAddr};

use axum::http::{
    HeaderMap, Method, StatusCode,
    header::{CONTENT_TYPE, HOST, HeaderName, ORIGIN},
    uri::Authority,
};

use super::error::HttpError;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The default port of HTTP (RFC 9110, section 4.2.1), which a client leaves out.
const HTTP_PORT: u16 = 80;

/// What a server is called by those who may ask.
#[derive(Clone, Debug)]
pub struct Guard {
    address: SocketAddr,
    allowed_hosts: Vec<String>,
}

impl Guard {
    /// Of the server that listens on `address`; `allowed_hosts` are names that it has as well, `NAME` or `NAME:PORT`, as
    /// a proxy before it may send them.
    #[must_use]
    pub fn new(address: SocketAddr, allowed_hosts: &[String]) -> Guard {
        Guard { address, allowed_hosts: allowed_hosts.iter().map(|host| host.to_ascii_lowercase()).collect() }
    }

    /// Whether a request may be looked at.
    ///
    /// # Errors
    /// Why not, with the status 400, 403 or 415.
    pub fn check(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), HttpError> {
        let host = only(headers, &HOST)?.ok_or_else(|| HttpError::bad("the request has no Host header"))?;
        if !self.is_own_host(host) {
            return Err(forbidden(format!("this server is not called {host:?}"))
                .hint(format!("ask for http://{}/, or start the server with --allow-host {host}", self.address)));
        }
        let changes = !matches!(*method, Method::GET | Method::HEAD);
        if changes && let Some(origin) = only(headers, &ORIGIN)? {
            let own = ["http", "https"].into_iter().any(|scheme| same(origin, &format!("{scheme}://{host}")));
            if !own {
                return Err(forbidden(format!("{origin:?} may change nothing here: only the server's own page may")));
            }
        }
        if changes || path.starts_with("/api/") {
            match only(headers, &SEC_FETCH_SITE)? {
                None | Some("same-origin" | "none") => {}
                Some(_) => return Err(forbidden("a page of another site may ask for nothing here")),
            }
        }
        if *method == Method::POST && !only(headers, &CONTENT_TYPE)?.is_some_and(is_json) {
            return Err(HttpError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "a POST must be JSON")
                .hint("send Content-Type: application/json"));
        }
        Ok(())
    }

    fn is_own_host(&self, host: &str) -> bool {
        if self.allowed_hosts.iter().any(|allowed| same(allowed, host)) {
            return true;
        }
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let is_plain = !host.contains('@');
        let name = authority.host();
        let is_own_name = match name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            // An address can't be made to mean another machine. One that is not ours does not lead here.
            Ok(ip) => ip.is_loopback() || !self.address.ip().is_loopback(),
            Err(_) => name.eq_ignore_ascii_case("localhost"),
        };
        is_plain && is_own_name && authority.port_u16().unwrap_or(HTTP_PORT) == self.address.port()
    }
}

fn forbidden(error: impl Into<String>) -> HttpError {
    HttpError::new(StatusCode::FORBIDDEN, error)
}

fn same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

fn is_json(content_type: &str) -> bool {
    content_type.split(';').next().is_some_and(|media_type| same(media_type.trim(), "application/json"))
}

/// The value of a header that may be there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, HttpError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(value), None) => Ok(Some(value)),
        (Err(_), _) => Err(HttpError::bad(format!("the header {name} is not text"))),
        (_, Some(_)) => Err(HttpError::bad(format!("the header {name} is there more than once"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status with which a request is answered, 200 for one that is let through.
    fn status(guard: &Guard, method: &Method, path: &str, headers: &[(&'static str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        guard.check(method, path, &map).err().map_or(200, |error| error.status().as_u16())
    }

    fn local() -> Guard {
        Guard::new("127.0.0.1:7071".parse().unwrap(), &["drills.example".to_owned(), "localhost:9000".to_owned()])
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        let remote = Guard::new("0.0.0.0:7071".parse().unwrap(), &[]);
        let six = Guard::new("[::1]:80".parse().unwrap(), &[]);
        for (guard, host, expected) in [
            (&local(), "127.0.0.1:7071", 200),
            (&local(), "localhost:7071", 200),
            (&local(), "LocalHost:7071", 200),
            (&local(), "127.8.9.1:7071", 200),
            (&local(), "[::1]:7071", 200),
            (&local(), "drills.example", 200),
            (&local(), "Drills.Example", 200),
            (&local(), "localhost:9000", 200),
            (&local(), "drills.example:7071", 403),
            (&local(), "localhost", 403),
            (&local(), "localhost:7072", 403),
            (&local(), "192.0.2.7:7071", 403),
            (&local(), "rebound.example:7071", 403),
            (&local(), "localhost.rebound.example:7071", 403),
            (&local(), "127.0.0.1.rebound.example:7071", 403),
            (&local(), "x@localhost:7071", 403),
            (&local(), "localhost:7071/", 403),
            (&local(), "", 403),
            (&remote, "192.0.2.7:7071", 200),
            (&remote, "localhost:7071", 200),
            (&remote, "rebound.example:7071", 403),
            (&six, "[::1]", 200),
            (&six, "localhost", 200),
            (&six, "[::2]", 403),
        ] {
            assert_eq!(status(guard, &Method::GET, "/", &[("host", host)]), expected, "{host:?}");
        }
        assert_eq!(status(&local(), &Method::GET, "/", &[]), 400);
        let twice = [("host", "localhost:7071"), ("host", "localhost:7071")];
        assert_eq!(status(&local(), &Method::GET, "/", &twice), 400);
    }

    #[test]
    fn what_changes_something_comes_from_the_own_page() {
        const JSON: (&str, &str) = ("content-type", "application/json");
        const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
        let host = ("host", "localhost:7071");
        type Headers<'a> = &'a [(&'static str, &'a str)];
        let rows: [(Method, &str, Headers<'_>, u16); 20] = [
            (Method::POST, "/api/runs", &[JSON], 200),
            (Method::POST, "/api/runs", &[("content-type", "Application/JSON; charset=utf-8")], 200),
            (Method::POST, "/api/runs", &[JSON, ("origin", "http://localhost:7071")], 200),
            (Method::POST, "/api/runs", &[JSON, ("sec-fetch-site", "same-origin")], 200),
            (Method::POST, "/api/runs", &[JSON, ("origin", "http://127.0.0.1:7071")], 403),
            (Method::POST, "/api/runs", &[JSON, ("origin", "http://localhost:8080")], 403),
            (Method::POST, "/api/runs", &[JSON, ("origin", "http://elsewhere.example")], 403),
            (Method::POST, "/api/runs", &[JSON, ("origin", "null")], 403),
            (Method::POST, "/api/runs", &[JSON, ("sec-fetch-site", "cross-site")], 403),
            (Method::POST, "/api/runs", &[JSON, ("sec-fetch-site", "same-site")], 403),
            (Method::POST, "/api/runs", &[], 415),
            (Method::POST, "/api/runs", &[FORM], 415),
            (Method::POST, "/api/runs", &[("content-type", "text/plain")], 415),
            (Method::POST, "/api/runs", &[("content-type", "application/jsonp")], 415),
            (Method::POST, "/api/runs", &[JSON, JSON], 400),
            (Method::DELETE, "/api/runs/1", &[("origin", "http://elsewhere.example")], 403),
            (Method::GET, "/api/runs", &[("sec-fetch-site", "cross-site")], 403),
            (Method::GET, "/api/runs", &[("sec-fetch-site", "none")], 200),
            // A link on another page may lead here.
            (Method::GET, "/", &[("sec-fetch-site", "cross-site")], 200),
            (Method::PUT, "/", &[("sec-fetch-site", "cross-site")], 403),
        ];
        for (method, path, headers, expected) in rows {
            let all: Vec<_> = [host].iter().chain(headers).copied().collect();
            assert_eq!(status(&local(), &method, path, &all), expected, "{method} {path} {headers:?}");
        }
    }
}
