//! Who is refused: nothing that comes from elsewhere, is too long, too slow or too much starts anything, and the server
//! stays up.

use std::{
    io::Write,
    net::TcpStream,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use rustix::process::Signal;
use serde_json::json;
use worker::clock;

use crate::{
    client::Answer,
    server::{Server, stepped},
    support::eventually,
};

const JSON: (&str, &str) = ("Content-Type", "application/json");

#[test]
fn a_run_is_started_by_the_own_page_only() {
    let server = Server::start(&[]);
    let own = format!("http://{}", server.client.0);
    let body = stepped().to_string();
    let refused: [(&[(&str, &str)], u16); 14] = [
        (&[JSON, ("Origin", "http://elsewhere.example")], 403),
        (&[JSON, ("Origin", "http://localhost:1")], 403),
        (&[JSON, ("Origin", "null")], 403),
        (&[JSON, ("Sec-Fetch-Site", "cross-site")], 403),
        (&[JSON, ("Sec-Fetch-Site", "same-site"), ("Origin", &own)], 403),
        (&[JSON, ("Origin", &own), ("Origin", "http://elsewhere.example")], 400),
        (&[JSON, ("Host", "elsewhere.example")], 403),
        (&[JSON, ("Host", "elsewhere.example"), ("Origin", "http://elsewhere.example")], 403),
        (&[JSON, ("Host", "127.0.0.1")], 403),
        (&[JSON, ("Host", "")], 403),
        (&[], 415),
        (&[("Content-Type", "text/plain")], 415),
        (&[("Content-Type", "application/x-www-form-urlencoded"), ("Origin", &own)], 415),
        (&[("Content-Type", "multipart/form-data; boundary=x")], 415),
    ];
    for (headers, status) in refused {
        let answer = server.client.request("POST", "/api/runs", headers, &body);
        assert_eq!(answer.status, status, "{headers:?}: {answer:?}");
        assert!(answer.json()["error"].is_string());
        server.assert_idle();
    }
    // Without a body that a browser would ask for first.
    let asked = server.client.request(
        "OPTIONS",
        "/api/runs",
        &[("Origin", "http://elsewhere.example"), ("Access-Control-Request-Method", "POST")],
        "",
    );
    assert_eq!(asked.status, 403);
    let read = server.client.request("GET", "/api/runs", &[("Sec-Fetch-Site", "cross-site")], "");
    assert_eq!(read.status, 403);
    server.assert_idle();
    let answer = server.client.request("POST", "/api/runs", &[JSON, ("Origin", &own)], &body);
    assert_eq!(answer.status, 202, "the test would refuse everything: {answer:?}");
}

/// An address is an address; a name could be anybody's.
#[test]
fn a_server_that_others_can_reach_says_so_and_knows_its_names() {
    let server = Server::start(&["--listen", "0.0.0.0:0", "--allow-remote", "--allow-host", "drills.example"]);
    let port = server.client.0.port();
    for (host, status) in [
        (format!("127.0.0.1:{port}"), 200),
        (format!("192.0.2.7:{port}"), 200),
        ("drills.example".to_owned(), 200),
        (format!("elsewhere.example:{port}"), 403),
    ] {
        assert_eq!(server.client.request("GET", "/api/fields", &[("Host", &host)], "").status, status, "{host}");
    }
    server.running.signal(Signal::TERM);
    let ended = server.running.wait();
    assert!(ended.stderr.starts_with("warning: ") && ended.stderr.contains("other machines"), "{ended:?}");
}

#[test]
fn what_is_no_run_starts_none() {
    let server = Server::start(&[]);
    let scenario = json!({ "name": "a", "title": "A" });
    let with = |field: &str, value: serde_json::Value| {
        let mut ask = json!({ "scenario": scenario });
        ask[field] = value;
        ask
    };
    let listed = json!({ "name": "a", "title": "A", "entrypoint": ["sh", "-c", "{worker}; touch here"] });
    for (body, status, what) in [
        (String::new(), 400, "can't be read"),
        ("{".to_owned(), 400, "can't be read"),
        ("[1]".to_owned(), 400, "can't be read"),
        ("\u{0}\u{1}".to_owned(), 400, "can't be read"),
        (format!("{}{}", "[".repeat(20_000), "]".repeat(20_000)), 400, "can't be read"),
        ("{}".to_owned(), 400, "missing field"),
        (with("speeed", json!(1)).to_string(), 400, "speeed"),
        (with("speed", json!(1e9)).to_string(), 400, "out of range"),
        (with("speed", json!(0)).to_string(), 400, "out of range"),
        (with("clock", json!("wall")).to_string(), 400, "wall"),
        (with("scenario", json!([])).to_string(), 400, "not a scenario"),
        (with("scenario", json!({ "name": "a", "title": "A", "slots": 1 })).to_string(), 400, "not a scenario"),
        (with("scenario", listed).to_string(), 403, "list of words"),
    ] {
        let answer = server.client.request("POST", "/api/runs", &[JSON], &body);
        answer.assert_error(status, what);
    }
    server.assert_idle();
}

#[test]
fn a_list_of_words_is_run_where_that_is_allowed() {
    let server = Server::start(&["--allow-commands"]);
    let scenario = json!({ "name": "env", "title": "Env", "entrypoint": ["env", "X=1", "{worker}"] });
    let id = server.start_run(&json!({ "scenario": scenario, "clock": "stepped" }));
    let done = server.client.follow(&id, None).last().unwrap();
    assert_eq!((done.event.as_str(), &done.data["verdict"]), ("done", &json!("matched")), "{done:?}");
}

#[test]
fn what_is_too_long_or_no_http_is_refused() {
    let server = Server::start(&[]);
    let host = server.client.0;
    let head = format!("POST /api/runs HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n");
    let long = "x".repeat(70_000);
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    let declared = format!("{head}Content-Length: 99999999999\r\n\r\n{{");
    let many_headers = format!("GET / HTTP/1.1\r\nHost: {host}\r\n{}\r\n", "X-Y: z\r\n".repeat(5_000));
    let long_header = format!("GET / HTTP/1.1\r\nHost: {host}\r\nX: {}\r\n\r\n", "y".repeat(2_000_000));
    for (bytes, statuses) in [
        (chunked.into_bytes(), &[413][..]),
        (declared.into_bytes(), &[413]),
        (format!("{head}Content-Length: 70000\r\n\r\n{long}").into_bytes(), &[413]),
        (format!("{head}Content-Length: 10\r\n\r\n{{").into_bytes(), &[400]),
        (format!("{head}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}").into_bytes(), &[400]),
        (format!("{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n").into_bytes(), &[400]),
        (many_headers.into_bytes(), &[431]),
        (long_header.into_bytes(), &[431]),
        (format!("GET /{} HTTP/1.1\r\nHost: {host}\r\n\r\n", "z".repeat(100_000)).into_bytes(), &[404, 414, 431]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), &[400]),
        (b"GET / HTTP/9.9\r\n\r\n".to_vec(), &[400]),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), &[400]),
        (b"nonsense\r\n\r\n".to_vec(), &[400]),
        (vec![0; 100_000], &[400]),
    ] {
        // Some of it is not HTTP at all, and the connection may simply be closed.
        let answer = server.client.raw(&bytes);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned();
        if let Some(answer) = answer {
            assert!(statuses.contains(&answer.status), "{shown:?}: {}", answer.status);
        }
        server.assert_idle();
    }
}

/// Whoever sends a byte now and then has not forever, and nobody else waits for them.
#[test]
fn what_trickles_in_is_given_up() {
    let server = Server::start(&[]);
    let client = server.client;
    let body = format!(
        "POST /api/model HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n",
        client.0
    );
    let head = format!("GET / HTTP/1.1\r\nHost: {}\r\n", client.0);
    for (start, status) in [(body, Some(408)), (head, None)] {
        let mut stream = client.connect();
        stream.write_all(start.as_bytes()).unwrap();
        let mut trickle = stream.try_clone().unwrap();
        let gave_up = eventually(Duration::from_secs(60), || {
            clock::block_for(Duration::from_millis(200));
            assert_eq!(client.get("/api/fields").status, 200);
            trickle.write_all(b"x").is_err() || is_over(&stream)
        });
        assert!(gave_up, "it waits for ever: {start:?}");
        if let Some(status) = status {
            assert_eq!(Answer::read(&stream).unwrap().status, status);
        }
    }
    server.assert_idle();
}

/// Whether the server has said all that it has to say.
fn is_over(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    peeked.is_ok()
}

#[test]
fn floods_start_nothing_and_the_server_stays_up() {
    let server = Server::start(&[]);
    let client = server.client;
    let (body, sent) = (stepped().to_string(), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while sent.fetch_add(1, Ordering::Relaxed) < 1_000 {
                    let foreign = [JSON, ("Origin", "http://elsewhere.example")];
                    assert_eq!(client.request("POST", "/api/runs", &foreign, &body).status, 403);
                }
            });
        }
    });
    server.assert_idle();

    // More connections than are served at a time, all of which say nothing.
    let idle: Vec<TcpStream> = (0..200).map(|_| client.connect()).collect();
    drop(idle);
    assert_eq!(client.get("/api/fields").status, 200);
    server.assert_idle();
}

/// Of a flood from the own page, no more than one run goes on and few wait.
#[test]
fn no_more_runs_are_taken_than_may_wait() {
    let server = Server::start(&[]);
    let long = crate::server::long();
    let taken = (0..100).filter(|_| match server.client.post("/api/runs", &long).status {
        202 => true,
        429 => false,
        other => panic!("{other}"),
    });
    // The first one may still be in the queue when the second comes.
    let taken = taken.count();
    assert!((8..=9).contains(&taken), "{taken}");
    assert!(eventually(Duration::from_secs(20), || server.client.get("/api/runs").json()["current"].is_object()));
    let drilling = || {
        let below = harness::process::descendants(server.running.pid());
        below.iter().filter(|process| crate::processes::command_line(process.pid()).ends_with(" drill")).count()
    };
    assert!(eventually(Duration::from_secs(20), || drilling() == 1));
    server.running.signal(Signal::TERM);
    server.rig.assert_nothing_left(&Default::default(), "a full queue");
    assert_eq!(server.running.wait().signal, Some(Signal::TERM.as_raw()));
}
