//! From the acceptance on.

use router::{Close, Ending, Flaw, Next};
use scenarios::{
    Stage,
    wire::{Progress, ProgressStep},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
};

use crate::server::*;

#[tokio::test]
async fn an_invocation_from_its_acceptance_to_its_end() {
    let progress = [
        Progress { at_us: 6, late_us: 0, step: ProgressStep::StageEntered { stage: Stage::Model } },
        Progress { at_us: 9, late_us: 1, step: ProgressStep::ResultCommitted { sum: 19 } },
    ];
    let body = lines(&[ACCEPTED, MODEL, COMMITTED]);
    let each_line: String = [ACCEPTED, MODEL, COMMITTED].iter().map(|line| chunk(&lines(&[line]))).collect();
    let each_byte: String = body.chars().map(|byte| chunk(&byte.to_string())).collect();
    let carriage_returns = body.replace('\n', "\r\n");
    let answers = [
        format!("{CHUNKED}{each_line}{LAST_CHUNK}"),
        format!("{CHUNKED}{each_byte}{LAST_CHUNK}"),
        format!("{CHUNKED}{}0\r\nsome-trailer: x\r\n\r\n", chunk(&body)),
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()),
        format!("HTTP/1.1 100 Continue\r\n\r\n{CHUNKED}{}{LAST_CHUNK}", chunk(&carriage_returns)),
    ];
    for answer in answers {
        for then in [Then::Fin, Then::Rst, Then::Stay] {
            let exchange = accepted(answering(answer.clone(), then).await).await;
            let expected = (progress.to_vec(), Ending::Completed { sum: 19 });
            assert_eq!(rest(exchange).await, expected, "{then:?} {answer}");
        }
    }
    let exchange = accepted(answering(format!("{UNTIL_CLOSED}{body}"), Then::Fin).await).await;
    assert_eq!(rest(exchange).await, (progress.to_vec(), Ending::Completed { sum: 19 }));
}

#[tokio::test]
async fn every_end_after_an_acceptance() {
    let broken = |flaw| Ending::Broken(flaw);
    let committed_but = |flaw| Ending::CommittedBut { sum: 19, flaw };
    let rows = [
        (vec![], "", Then::Fin, 0, broken(Flaw::Cut(Close::Clean))),
        (vec![], "", Then::Rst, 0, broken(Flaw::Cut(Close::Reset))),
        (vec![MODEL], "", Then::Fin, 1, broken(Flaw::Cut(Close::Clean))),
        (vec![MODEL], "", Then::Rst, 1, broken(Flaw::Cut(Close::Reset))),
        (vec![MODEL], "9\r\n{\"at_", Then::Fin, 1, broken(Flaw::Cut(Close::Clean))),
        (vec![MODEL], "9\r\n{\"at_", Then::Rst, 1, broken(Flaw::Cut(Close::Reset))),
        (vec![MODEL], LAST_CHUNK, Then::Stay, 1, broken(Flaw::EndedEarly)),
        (vec![MODEL, COMMITTED], "", Then::Fin, 2, committed_but(Flaw::Cut(Close::Clean))),
        (vec![MODEL, COMMITTED], "", Then::Rst, 2, committed_but(Flaw::Cut(Close::Reset))),
        (vec![COMMIT_REFUSED], LAST_CHUNK, Then::Stay, 1, Ending::CommitRefused),
        // A second commit is told of, and changes nothing about the first one.
        (vec![COMMITTED, COMMIT_REFUSED], LAST_CHUNK, Then::Stay, 2, Ending::Completed { sum: 19 }),
        (vec![COMMITTED, COMMIT_REFUSED], "", Then::Fin, 2, committed_but(Flaw::Cut(Close::Clean))),
        (vec![COMMIT_FAILED], "", Then::Fin, 1, Ending::CommitFailed { error: "disk full".into() }),
        (vec![COMMIT_FAILED], LAST_CHUNK, Then::Stay, 1, Ending::CommitFailed { error: "disk full".into() }),
        (vec![COMMIT_FAILED], "", Then::Stay, 1, Ending::CommitFailed { error: "disk full".into() }),
    ];
    for (then_lines, tail, then, count, expected) in rows {
        // The acceptance by itself or together with the rest makes no difference.
        for sizes in [[ACCEPTED].len(), 1 + then_lines.len()] {
            let all: Vec<&str> = [ACCEPTED].into_iter().chain(then_lines.iter().copied()).collect();
            let chunks: String = all.chunks(sizes).map(|part| chunk(&lines(part))).collect();
            let exchange = accepted(answering(format!("{CHUNKED}{chunks}{tail}"), then).await).await;
            let (seen, ending) = rest(exchange).await;
            assert_eq!((seen.len(), &ending), (count, &expected), "{then_lines:?} {tail:?} {then:?}");
            assert_eq!(ending.committed().is_some(), then_lines.contains(&COMMITTED));
        }
    }
    // Without chunks or a length there is no telling a death from an end.
    let exchange = accepted(answering(format!("{UNTIL_CLOSED}{ACCEPTED}\n"), Then::Fin).await).await;
    assert_eq!(rest(exchange).await.1, broken(Flaw::EndedEarly));
}

#[tokio::test]
async fn nonsense_after_an_acceptance() {
    let unknown = r#"{"at_us":6,"late_us":0,"event":"coffee_break"}"#;
    let long = "x".repeat(60_000);
    let rows = [
        (vec![ACCEPTED], "accepted twice", false),
        (vec!["half a line, {"], "expected value", false),
        (vec![unknown], "coffee_break", false),
        (vec![""], "EOF", false),
        (vec![&long], "8192 bytes", false),
        (vec![COMMITTED, MODEL], "after the result", true),
        (vec![COMMITTED, COMMITTED], "after the result", true),
        (vec![COMMITTED, "bye"], "expected value", true),
    ];
    for (then_lines, words, committed) in rows {
        let body = chunk(&lines(&[ACCEPTED])) + &chunk(&lines(&then_lines)) + LAST_CHUNK;
        let exchange = accepted(answering(format!("{CHUNKED}{body}"), Then::Stay).await).await;
        match rest(exchange).await.1 {
            Ending::Broken(flaw) if !committed => assert!(is_malformed(&flaw, words), "{flaw:?}"),
            Ending::CommittedBut { sum: 19, flaw } if committed => assert!(is_malformed(&flaw, words), "{flaw:?}"),
            other => panic!("{then_lines:.80?}: {other:?}"),
        }
    }
    let endless: String = std::iter::repeat_n(chunk(&lines(&[MODEL])), 5_000).collect();
    let exchange =
        accepted(answering(format!("{CHUNKED}{}{endless}", chunk(&lines(&[ACCEPTED]))), Then::Stay).await).await;
    let (seen, ending) = rest(exchange).await;
    assert!((500..1100).contains(&seen.len()), "{}", seen.len());
    assert!(matches!(&ending, Ending::Broken(flaw) if is_malformed(flaw, "65536 bytes")), "{ending:?}");
    let not_http = format!("{CHUNKED}{}zz\r\n", chunk(&lines(&[ACCEPTED])));
    let ending = rest(accepted(answering(not_http, Then::Stay).await).await).await.1;
    assert!(matches!(&ending, Ending::Broken(flaw) if is_malformed(flaw, "chunk size")), "{ending:?}");
}

#[tokio::test]
async fn nothing_is_lost_when_waiting_is_given_up_again_and_again() {
    let body = lines(&[ACCEPTED, MODEL, COMMITTED]);
    let answer: String = body.chars().map(|byte| chunk(&byte.to_string())).collect();
    let addr = listen(async move |mut stream: TcpStream| {
        stream.set_nodelay(true).unwrap();
        read_request(&mut stream).await;
        stream.write_all(CHUNKED.as_bytes()).await.unwrap();
        for byte in answer.bytes().chain(LAST_CHUNK.bytes()) {
            stream.write_all(&[byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        finish(stream, Then::Stay).await;
    })
    .await;
    let mut exchange = accepted(addr).await;
    let (mut given_up, mut seen) = (0, Vec::new());
    let ending = loop {
        tokio::select! {
            biased;
            next = exchange.next() => match next {
                Next::Progress(progress) => seen.push(progress.at_us),
                Next::Ended(ending) => break ending,
            },
            () = tokio::task::yield_now() => given_up += 1,
        }
    };
    assert_eq!((seen, ending), (vec![6, 9], Ending::Completed { sum: 19 }));
    assert!(given_up > 100, "given up only {given_up} times");
}

#[tokio::test]
async fn to_drop_an_exchange_closes_its_connection() {
    let (tell, told) = oneshot::channel();
    let addr = listen(async move |mut stream: TcpStream| {
        read_request(&mut stream).await;
        let answer = format!("{CHUNKED}{}", chunk(&lines(&[ACCEPTED])));
        stream.write_all(answer.as_bytes()).await.unwrap();
        tell.send(stream.read(&mut [0; 8]).await.unwrap()).unwrap();
    })
    .await;
    drop(accepted(addr).await);
    assert_eq!(told.await, Ok(0), "the worker sees the end of the connection");
}
