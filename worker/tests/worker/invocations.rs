//! What becomes of requests.

use hyper::StatusCode;
use rustix::process::Signal;
use scenarios::{
    RequestId, Stage, Status, Tick, WorkerId,
    wire::{Progress, ProgressStep, env},
};
use worker::{clock, store};

use crate::{
    clock::Clock,
    rig::{Rig, block_on, lines, next_line, post, text},
};

/// Steps with the tick at which each was planned; admission isn't planned by the worker.
fn planned(lines: &[Progress], rig: &Rig) -> Vec<(Option<Tick>, ProgressStep)> {
    let tick = |line: &Progress| {
        let planned_ns = (line.at_us - line.late_us) * 1_000;
        let tick = rig.schedule.tick_at(planned_ns);
        // Ticks are whole microseconds: what was planned is the very start of one.
        (rig.schedule.start_of(tick) == planned_ns).then_some(tick)
    };
    let planned = |line: &Progress| match line.step {
        ProgressStep::Accepted { .. } | ProgressStep::StageEntered { stage: Stage::Prepare } => {
            assert_eq!(line.late_us, 0);
            None
        }
        _ => Some(tick(line).expect("planned for the start of a tick")),
    };
    lines.iter().map(|line| (planned(line), line.step.clone())).collect()
}

#[test]
fn an_invocation_goes_through_its_stages_at_their_ticks_and_is_stored() {
    let running = Rig::new().start_and_wait_until_ready();
    let told = block_on(async {
        let response = running.client().await.invoke(16, Tick(9)).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "application/x-ndjson");
        lines(response).await
    });
    let expected = [
        (None, ProgressStep::Accepted { slot: 1 }),
        (None, ProgressStep::StageEntered { stage: Stage::Prepare }),
        (Some(Tick(13)), ProgressStep::StageEntered { stage: Stage::Model }),
        (Some(Tick(17)), ProgressStep::StageEntered { stage: Stage::Tool }),
        (Some(Tick(21)), ProgressStep::ResultCommitted { sum: 19 }),
    ];
    assert_eq!(planned(&told, &running.rig), expected);

    let rows = store::read(&running.rig.store()).unwrap();
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((row.request, row.worker, row.pid), (RequestId(16), WorkerId(3), running.pid()));
    assert_eq!((&row.addends[..], row.sum), (&[16, 1, 2][..], 19));
    assert!(row.committed_us <= told.last().unwrap().at_us);
    assert!(row.committed_us * 1_000 >= running.rig.schedule.start_of(Tick(21)));
}

#[test]
fn without_a_tick_it_counts_from_the_present_one() {
    let running = Rig::new().start_and_wait_until_ready();
    let before = running.rig.schedule.tick_at(clock::now_ns());
    let told = block_on(async { lines(running.client().await.post(r#"{"request":1,"addends":[1]}"#).await).await });
    let (committed_at, _) = planned(&told, &running.rig).pop().unwrap();
    let admitted = committed_at.unwrap().0 - 12;
    assert!((before.0..=running.rig.schedule.tick_at(told[0].at_us * 1_000).0).contains(&admitted));
}

#[test]
fn slots_are_taken_from_the_lowest_and_freed_by_the_commit() {
    let (running, mut clock) = Clock::ready();
    block_on(async {
        let (mut one, mut two, mut three) = (running.client().await, running.client().await, running.client().await);
        let first = one.invoke(1, Tick(5)).await;
        assert_eq!(clock.step(5), "done 5 3 9");
        assert_eq!(clock.step(6), "done 6 3 9");
        let mut second = two.invoke(2, Tick(6)).await.into_body();
        let slot = |line: Progress| match line.step {
            ProgressStep::Accepted { slot } => slot,
            other => panic!("{other:?}"),
        };
        assert_eq!(slot(next_line(&mut second).await.unwrap()), 2);
        let full = three.invoke(3, Tick(6)).await;
        assert_eq!(full.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(text(full).await, r#"{"reason":"no_free_slot"}"#);
        assert_eq!(clock.step(17), "done 17 10 18");
        assert_eq!(lines(first).await.last().unwrap().step, ProgressStep::ResultCommitted { sum: 4 });
        // Whoever has read the commit finds the slot free, and no other.
        let mut next = one.invoke(4, Tick(17)).await.into_body();
        assert_eq!(slot(next_line(&mut next).await.unwrap()), 1);
        let full = three.invoke(3, Tick(17)).await;
        assert_eq!(full.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(clock.step(18), "done 18 13 21");
        let mut last = None;
        while let Some(line) = next_line(&mut second).await {
            last = Some(line.step);
        }
        assert_eq!(last, Some(ProgressStep::ResultCommitted { sum: 5 }));
    });
}

#[test]
fn what_is_no_invocation_is_refused_for_what_it_is() {
    let running = Rig::new().start_and_wait_until_ready();
    block_on(async {
        let mut client = running.client().await;
        let rows = [
            ("", "not an invocation"),
            ("{", "not an invocation"),
            ("[]", "not an invocation"),
            (r#"{"request":1}"#, "missing field `addends`"),
            (r#"{"request":0,"addends":[1]}"#, "request is 0"),
            (r#"{"request":65536,"addends":[1]}"#, "not an invocation"),
            (r#"{"request":1,"addends":[-1]}"#, "not an invocation"),
            (r#"{"request":1,"addends":[4294967295]}"#, "the addends come to"),
            (r#"{"request":1,"addends":[4294967295,4294967295]}"#, "the addends come to"),
        ];
        for (body, complaint) in rows {
            let response = client.post(body).await;
            assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{body}");
            let answer = text(response).await;
            assert!(answer.starts_with(r#"{"error":"#) && answer.contains(complaint), "{body}: {answer}");
        }
        for tick in ["-1", "", "1.5", "1000000001"] {
            let mut request = post(r#"{"request":1,"addends":[1]}"#, None);
            request.headers_mut().insert(scenarios::wire::TICK_HEADER, tick.parse().unwrap());
            assert_eq!(client.send(request).await.status(), StatusCode::BAD_REQUEST, "{tick:?}");
        }
        for (method, path, status) in [
            ("GET", "/invocations", StatusCode::METHOD_NOT_ALLOWED),
            ("POST", "/readyz", StatusCode::METHOD_NOT_ALLOWED),
            ("DELETE", "/livez", StatusCode::METHOD_NOT_ALLOWED),
            ("GET", "/", StatusCode::NOT_FOUND),
            ("POST", "/invocations/1", StatusCode::NOT_FOUND),
        ] {
            let mut request = post("", None);
            *request.method_mut() = method.parse().unwrap();
            *request.uri_mut() = path.parse().unwrap();
            assert_eq!(client.send(request).await.status(), status, "{method} {path}");
        }
        // Last on its connection, since the worker doesn't read it to its end.
        let too_long = client.post(vec![b' '; 64 * 1024 + 1]).await;
        assert_eq!(too_long.status(), StatusCode::PAYLOAD_TOO_LARGE);
    });
    assert_eq!(store::read(&running.rig.store()).unwrap(), []);
}

#[test]
fn a_request_that_is_known_is_a_conflict() {
    let running = Rig::new().start_and_wait_until_ready();
    block_on(async {
        let (mut client, mut other) = (running.client().await, running.client().await);
        let now = running.rig.schedule.tick_at(clock::now_ns());
        let response = client.invoke(1, Tick(now.0 + 50)).await;
        assert_eq!(other.invoke(1, now).await.status(), StatusCode::CONFLICT, "it runs");
        lines(response).await;
        assert_eq!(client.invoke(1, now).await.status(), StatusCode::CONFLICT, "it is committed");
    });
    assert_eq!(store::read(&running.rig.store()).unwrap().len(), 1);
}

#[test]
fn an_invocation_commits_although_its_client_is_gone() {
    let mut running = Rig::new().start_and_wait_until_ready();
    block_on(async {
        let now = running.rig.schedule.tick_at(clock::now_ns());
        let mut client = running.client().await;
        let mut body = client.invoke(1, Tick(now.0 + 20)).await.into_body();
        next_line(&mut body).await.unwrap();
        client.connection.abort();
    });
    running.wait_for("request-1 commits the sum 4");
    assert_eq!(store::read(&running.rig.store()).unwrap().len(), 1);
}

#[test]
fn what_was_committed_survives_a_sigkill_right_after() {
    for _ in 0..10 {
        let mut running = Rig::new().start_and_wait_until_ready();
        block_on(async {
            let mut body = running.client().await.invoke(1, Tick(0)).await.into_body();
            while let Some(line) = next_line(&mut body).await {
                if matches!(line.step, ProgressStep::ResultCommitted { .. }) {
                    running.signal(Signal::KILL);
                    break;
                }
            }
        });
        assert_eq!(running.ended().0, Status::SIGKILL);
        assert_eq!(store::read(&running.rig.store()).unwrap().len(), 1);
    }
}

#[test]
fn a_result_that_is_there_already_is_not_replaced() {
    let running = Rig::new().start_and_wait_until_ready();
    let earlier =
        store::Row { request: RequestId(1), worker: WorkerId(9), pid: 1, addends: vec![40], sum: 40, committed_us: 1 };
    store::Writer::open(&running.rig.store()).unwrap().commit(&earlier).unwrap();
    let told = block_on(async { lines(running.client().await.invoke(1, Tick(0)).await).await });
    assert_eq!(told.last().unwrap().step, ProgressStep::CommitRefused { sum: 4 });
    assert_eq!(store::read(&running.rig.store()).unwrap(), [earlier]);
}

#[test]
fn a_locked_store_is_waited_for_and_other_invocations_go_on_meanwhile() {
    let (running, mut clock) = Clock::ready();
    let locker = rusqlite::Connection::open(running.rig.store()).unwrap();
    locker.execute_batch("BEGIN IMMEDIATE").unwrap();
    block_on(async {
        let (mut one, mut two) = (running.client().await, running.client().await);
        let first = one.invoke(1, Tick(5)).await;
        assert_eq!(clock.step(9), "done 9 4 13");
        let mut second = two.invoke(2, Tick(9)).await.into_body();
        assert_eq!(clock.step(13), "done 13 8 17");
        // The first is to commit and can't; the second gets on all the same.
        clock.tell("17");
        while next_line(&mut second).await.unwrap().step != (ProgressStep::StageEntered { stage: Stage::Tool }) {}
        locker.execute_batch("COMMIT").unwrap();
        assert_eq!(clock.answer().unwrap(), "done 17 10 21");
        assert_eq!(lines(first).await.last().unwrap().step, ProgressStep::ResultCommitted { sum: 4 });
        assert_eq!(clock.step(21), "done 21 11 -");
        assert_eq!(next_line(&mut second).await.unwrap().step, ProgressStep::ResultCommitted { sum: 5 });
    });
}

#[test]
fn a_store_that_stays_locked_fails_the_commit() {
    let running = Rig::new().start_and_wait_until_ready();
    let locker = rusqlite::Connection::open(running.rig.store()).unwrap();
    locker.execute_batch("BEGIN IMMEDIATE").unwrap();
    block_on(async {
        let mut client = running.client().await;
        let told = lines(client.invoke(1, Tick(0)).await).await;
        let error = "the result store is locked by another process".to_owned();
        assert_eq!(told.last().unwrap().step, ProgressStep::CommitFailed { error });
        locker.execute_batch("COMMIT").unwrap();
        // It may be tried again.
        let told = lines(client.invoke(1, Tick(0)).await).await;
        assert_eq!(told.last().unwrap().step, ProgressStep::ResultCommitted { sum: 4 });
    });
}

#[test]
fn a_full_disk_fails_the_commit_and_frees_the_slot() {
    let mut rig = Rig::new().with(env::SLOTS, 1).with(env::STORE, "");
    // No file may grow beyond 64 KiB, and writing on is an error instead of a signal (setrlimit(2), RLIMIT_FSIZE).
    let path = rig.store();
    let writer = store::Writer::open(&path).unwrap();
    for request in 1_000..1_020 {
        let addends = vec![4_000_000_000; 400];
        let filler =
            store::Row { request: RequestId(request), worker: WorkerId(9), pid: 1, addends, sum: 0, committed_us: 1 };
        writer.commit(&filler).unwrap();
    }
    rig = rig.with(env::STORE, path.display());
    let limited = "trap '' XFSZ; ulimit -f 128; exec \"$0\"";
    rig.command = ["/bin/sh".to_owned(), "-c".to_owned(), limited.to_owned(), rig.command.remove(0)].into();
    let running = rig.start_and_wait_until_ready();
    block_on(async {
        let mut client = running.client().await;
        for _ in 0..2 {
            let told = lines(client.invoke(1, Tick(0)).await).await;
            let last = &told.last().unwrap().step;
            assert!(matches!(last, ProgressStep::CommitFailed { error } if error.contains("store")), "{last:?}");
        }
        assert_eq!(client.get("/readyz").await, StatusCode::OK);
    });
    assert_eq!(store::read(&path).unwrap().len(), 20);
}

#[test]
fn without_a_store_the_sum_is_told_and_not_called_committed() {
    let mut running = Rig::new().without(env::STORE).start_and_wait_until_ready();
    running.wait_for("there is no result store");
    let told = block_on(async { lines(running.client().await.invoke(1, Tick(0)).await).await });
    let error = "there is no result store, so the sum 4 is not stored".to_owned();
    assert_eq!(told.last().unwrap().step, ProgressStep::CommitFailed { error });
}
