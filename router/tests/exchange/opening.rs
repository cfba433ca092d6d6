//! Up to the moment at which the worker has accepted or refused the request.

use std::{collections::BTreeSet, future::pending, net::Ipv4Addr};

use router::{Close, Exchange, Failure, Flaw, Opened, Waiting};
use scenarios::{Reason, Tick};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpSocket, TcpStream},
    sync::oneshot,
};

use crate::server::*;

#[tokio::test]
async fn a_request_says_what_is_asked_and_when_it_was_admitted() {
    let (tell, told) = oneshot::channel();
    let addr = listen(async move |mut stream: TcpStream| {
        tell.send(read_request(&mut stream).await).unwrap();
    })
    .await;
    assert_eq!(failure(addr).await, Failure::Unanswered { close: Close::Clean });
    let request = told.await.unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let mut head = head.lines();
    assert_eq!(head.next(), Some("POST /invocations HTTP/1.1"));
    let headers: BTreeSet<String> = head.map(str::to_owned).collect();
    let expected = [
        "connection: close".to_owned(),
        "content-length: 33".to_owned(),
        "content-type: application/json".to_owned(),
        format!("host: {addr}"),
        "termdrill-tick: 310".to_owned(),
    ];
    assert_eq!(headers, BTreeSet::from(expected));
    assert_eq!(body, r#"{"request":16,"addends":[16,1,2]}"#);
}

#[tokio::test]
async fn a_refusal_gives_the_workers_reason() {
    for reason in [Reason::WorkerStarting, Reason::WorkerDraining, Reason::NoFreeSlot] {
        for then in [Then::Fin, Then::Stay] {
            let body = format!(r#"{{"reason":"{reason}"}}"#);
            let answer = format!(
                "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            match open(answering(answer, then).await).await {
                Ok(Opened::Refused { reason: given }) => assert_eq!(given, reason),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn refusals_without_a_reason_that_a_worker_can_have() {
    for body in ["", "Service Unavailable", r#"{"reason":"tired"}"#, r#"{"reason":"no_eligible_worker"}"#] {
        let answer = format!("HTTP/1.1 503 Busy\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let found = failure(answering(answer, Then::Stay).await).await;
        assert_eq!(found, Failure::UnreadableRefusal { excerpt: body.replace('"', "\\\"") });
    }
    let cut = "HTTP/1.1 503 Busy\r\ncontent-length: 99\r\n\r\n{\"reason\":";
    let found = failure(answering(cut, Then::Fin).await).await;
    assert_eq!(found, Failure::UnreadableRefusal { excerpt: "{\\\"reason\\\":".to_owned() });
}

#[tokio::test]
async fn other_statuses_are_told_with_the_start_of_the_body() {
    for status in [201, 204, 302, 400, 404, 409, 500, 502] {
        let answer = format!("HTTP/1.1 {status} X\r\n\r\n");
        let answer = if status == 204 { answer } else { answer + "no\x1b[2J" };
        let excerpt = if status == 204 { "" } else { "no\\u{1b}[2J" }.to_owned();
        let found = failure(answering(answer, Then::Fin).await).await;
        assert_eq!(found, Failure::OtherStatus { status, excerpt });
    }
    let endless = format!("HTTP/1.1 500 X\r\n\r\n{}", "x".repeat(1 << 20));
    let found = failure(answering(endless, Then::Stay).await).await;
    assert!(matches!(found, Failure::OtherStatus { status: 500, excerpt } if excerpt.chars().count() == 161));
}

#[tokio::test]
async fn nobody_listens() {
    // Bound and not listening, as a port that is kept for a worker.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    assert_eq!(failure(socket.local_addr().unwrap()).await, Failure::ConnectionRefused);
    let found = failure((Ipv4Addr::BROADCAST, 1).into()).await;
    assert!(matches!(found, Failure::NoConnection { .. }), "{found:?}");
}

#[tokio::test]
async fn a_full_backlog_never_connects() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let listener = socket.listen(0).unwrap();
    let addr = listener.local_addr().unwrap();
    // A backlog of 0 has room for one connection (listen(2): the kernel drops what comes after it).
    let _first = TcpStream::connect(addr).await.unwrap();
    let found = Exchange::open(addr, &request(), Tick(0), a_while()).await.unwrap_err();
    assert_eq!(found, Failure::GivenUp { waiting_for: Waiting::Connection });
}

#[tokio::test]
async fn accepted_by_the_kernel_and_never_served() {
    // The listener goes while the connection sits in its backlog: the kernel resets it (tcp(7)).
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let gone = async {
        a_while().await;
        drop(listener);
        pending::<()>().await;
    };
    let found = Exchange::open(addr, &request(), Tick(0), gone).await.unwrap_err();
    assert_eq!(found, Failure::Unanswered { close: Close::Reset });
}

#[tokio::test]
async fn a_deadline_tells_what_it_was_waiting_for() {
    let body_503 = "HTTP/1.1 503 Busy\r\ncontent-length: 99\r\n\r\n{";
    let rows = [
        (String::new(), Waiting::Answer),
        ("HTTP/1.1 200 OK\r\nhalf-a-hea".to_owned(), Waiting::Answer),
        (CHUNKED.to_owned(), Waiting::Body { status: 200 }),
        (format!("{CHUNKED}{}", chunk(&ACCEPTED[..20])), Waiting::Body { status: 200 }),
        (body_503.to_owned(), Waiting::Body { status: 503 }),
    ];
    for (answer, waiting_for) in rows {
        let (sent, all_sent) = oneshot::channel();
        let addr = listen(async move |mut stream: TcpStream| {
            read_request(&mut stream).await;
            stream.write_all(answer.as_bytes()).await.unwrap();
            sent.send(()).unwrap();
            finish(stream, Then::Stay).await;
        })
        .await;
        let deadline = async {
            all_sent.await.unwrap();
            a_while().await;
        };
        let found = Exchange::open(addr, &request(), Tick(0), deadline).await.unwrap_err();
        assert_eq!(found, Failure::GivenUp { waiting_for });
    }
}

#[tokio::test]
async fn connections_that_end_before_there_is_an_answer() {
    for (then, close) in [(Then::Fin, Close::Clean), (Then::Rst, Close::Reset)] {
        for answer in ["", "HTTP/1.1 200 OK\r\nhalf-a-hea"] {
            let found = failure(answering(answer, then).await).await;
            assert_eq!(found, Failure::Unanswered { close }, "{answer:?}");
        }
    }
    // Closed without a look at the request: the kernel sends FIN, then RST for what is unread. Either may be seen.
    let addr = listen(async |stream: TcpStream| drop(stream)).await;
    let found = failure(addr).await;
    assert!(matches!(found, Failure::Unanswered { close: Close::Clean | Close::Reset }), "{found:?}");
    let addr = listen(async |stream: TcpStream| finish(stream, Then::Rst).await).await;
    assert_eq!(failure(addr).await, Failure::Unanswered { close: Close::Reset });
}

#[tokio::test]
async fn whoever_does_not_speak_http() {
    let huge_head = format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(64 << 10));
    let answers = ["SSH-2.0-OpenSSH_9.2p1\r\n", "\0\x01\x02\x03\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", &huge_head];
    for answer in answers {
        let found = failure(answering(answer, Then::Stay).await).await;
        assert!(matches!(found, Failure::NotHttp { .. }), "{answer:.20?}: {found:?}");
    }
    // One that speaks first.
    let addr = listen(async |mut stream: TcpStream| {
        stream.write_all(b"220 mail.example ESMTP\r\n").await.unwrap();
        finish(stream, Then::Stay).await;
    })
    .await;
    let found = failure(addr).await;
    assert!(matches!(found, Failure::NotHttp { .. }), "{found:?}");
}

#[tokio::test]
async fn status_200_without_an_acceptance() {
    let cut = |close| move |flaw: &Flaw| *flaw == Flaw::Cut(close);
    let malformed = |words| move |flaw: &Flaw| is_malformed(flaw, words);
    let early = |flaw: &Flaw| *flaw == Flaw::EndedEarly;
    type Check = Box<dyn Fn(&Flaw) -> bool>;
    let half = &ACCEPTED[..20];
    let rows: [(String, Then, Check); 12] = [
        (CHUNKED.into(), Then::Fin, Box::new(cut(Close::Clean))),
        (CHUNKED.into(), Then::Rst, Box::new(cut(Close::Reset))),
        (format!("{CHUNKED}{}", chunk(half)), Then::Fin, Box::new(cut(Close::Clean))),
        (format!("{CHUNKED}{}", chunk(half)), Then::Rst, Box::new(cut(Close::Reset))),
        (format!("{CHUNKED}5\r\n{{"), Then::Fin, Box::new(cut(Close::Clean))),
        (format!("{CHUNKED}{LAST_CHUNK}"), Then::Stay, Box::new(early)),
        (
            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{half}", half.len()),
            Then::Stay,
            Box::new(malformed("no newline")),
        ),
        (format!("{CHUNKED}{}", chunk("<html>\n")), Then::Stay, Box::new(malformed("expected value"))),
        (format!("{CHUNKED}{}", chunk("\n")), Then::Stay, Box::new(malformed("EOF"))),
        (format!("{CHUNKED}{}", chunk(&lines(&[MODEL]))), Then::Stay, Box::new(malformed("not `accepted`"))),
        (format!("{CHUNKED}{}", chunk(&"x".repeat(60_000))), Then::Stay, Box::new(malformed("8192 bytes"))),
        (format!("{CHUNKED}zz\r\n"), Then::Stay, Box::new(malformed("chunk size"))),
    ];
    for (answer, then, check) in rows {
        match failure(answering(answer.clone(), then).await).await {
            Failure::NotAccepted(flaw) if check(&flaw) => {}
            other => panic!("{answer:.80?} {then:?}: {other:?}"),
        }
    }
}
