//! What SIGTERM does, by posture.

use hyper::StatusCode;
use rustix::process::Signal;
use scenarios::{
    Status, Tick,
    wire::{ProgressStep, env},
};
use tokio::io::AsyncWriteExt;
use worker::{clock, store};

use crate::{
    clock::Clock,
    rig::{Rig, Running, block_on, lines, next_line, text},
};

/// A mask of the worker in /proc/PID/status, its TERM bit (`proc_pid_status(5)`).
fn term_bit(running: &Running, mask: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(&format!("{mask}:"))).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap() & (1 << 14) != 0
}

#[test]
fn draining_finishes_what_it_has_refuses_what_comes_and_exits_0() {
    let (mut running, mut clock) = Clock::ready();
    let told = block_on(async {
        let (mut client, mut idle) = (running.client().await, running.client().await);
        assert_eq!(idle.get("/livez").await, StatusCode::OK);
        let in_flight = client.invoke(1, Tick(5)).await;
        assert_eq!(clock.step(5), "done 5 3 9");
        running.signal(Signal::TERM);
        assert!(running.notification().contains("STOPPING=1\n"));

        // An idle connection still gets an answer, its last; so do new ones.
        let refused = idle.invoke(2, Tick(5)).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(text(refused).await, r#"{"reason":"worker_draining"}"#);
        assert!(idle.connection.await.unwrap(), "closed in good order");
        assert_eq!(running.client().await.get("/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(running.client().await.get("/livez").await, StatusCode::OK);
        for (tick, answer) in [(9, "done 9 5 13"), (13, "done 13 6 17"), (16, "done 16 6 17")] {
            assert_eq!(clock.step(tick), answer, "it stays until its work is done");
        }
        clock.tell("17");
        assert_eq!(clock.answer(), None);
        lines(in_flight).await
    });
    assert_eq!(told.last().unwrap().step, ProgressStep::ResultCommitted { sum: 4 });
    assert_eq!(running.ended().0, Status::SUCCESS);
    assert_eq!(store::read(&running.rig.store()).unwrap().len(), 1);
    running.wait_for(&format!("gets SIGTERM from pid {}", std::process::id()));
}

#[test]
fn connections_that_ask_for_nothing_dont_keep_it() {
    let mut running = Rig::new().start_and_wait_until_ready();
    block_on(async {
        // One that has said nothing, one in the middle of a head, one in the middle of a body.
        let mut open = Vec::new();
        for said in ["", "GET /livez HT", "POST /invocations HTTP/1.1\r\nhost: w\r\ncontent-length: 30\r\n\r\n{"] {
            let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", running.rig.port)).await.unwrap();
            stream.write_all(said.as_bytes()).await.unwrap();
            open.push(stream);
        }
        // Answered after them, so they have been read.
        assert_eq!(running.client().await.get("/livez").await, StatusCode::OK);
        running.signal(Signal::TERM);
        assert_eq!(running.ended().0, Status::SUCCESS);
    });
}

#[test]
fn a_second_sigterm_changes_nothing() {
    let (mut running, mut clock) = Clock::ready();
    block_on(async {
        let in_flight = running.client().await.invoke(1, Tick(5)).await;
        assert_eq!(clock.step(5), "done 5 3 9");
        running.signal(Signal::TERM);
        running.wait_for("withdraws its readiness");
        running.signal(Signal::TERM);
        running.wait_for("goes on draining");
        assert_eq!(clock.step(16), "done 16 6 17");
        clock.tell("17");
        assert_eq!(clock.answer(), None);
        assert_eq!(lines(in_flight).await.last().unwrap().step, ProgressStep::ResultCommitted { sum: 4 });
    });
    assert_eq!(running.ended().0, Status::SUCCESS);
}

#[test]
fn without_a_handler_it_dies_of_it_with_what_it_has() {
    let mut running = Rig::new().with(env::ON_SIGTERM, "default").start_and_wait_until_ready();
    let now = running.rig.schedule.tick_at(clock::now_ns());
    assert!(!term_bit(&running, "SigIgn") && !term_bit(&running, "SigCgt"));
    block_on(async {
        let mut body = running.client().await.invoke(1, Tick(now.0 + 10_000)).await.into_body();
        next_line(&mut body).await.unwrap();
        running.signal(Signal::TERM);
    });
    assert_eq!(running.ended().0, Status::SIGTERM);
    assert_eq!(store::read(&running.rig.store()).unwrap(), []);
    assert!(running.no_notification_waits());
}

#[test]
fn ignored_it_goes_on_as_before() {
    let mut running = Rig::new().with(env::ON_SIGTERM, "ignore").start_and_wait_until_ready();
    assert!(term_bit(&running, "SigIgn"));
    running.signal(Signal::TERM);
    block_on(async {
        let mut client = running.client().await;
        assert_eq!(client.get("/readyz").await, StatusCode::OK);
        let told = lines(client.invoke(1, Tick(0)).await).await;
        assert_eq!(told.last().unwrap().step, ProgressStep::ResultCommitted { sum: 4 });
    });
    running.signal(Signal::KILL);
    assert_eq!(running.ended().0, Status::SIGKILL);
    assert!(running.no_notification_waits());
}

#[test]
fn a_handler_comes_first_thing_or_after_the_boot() {
    for (moment, caught_while_booting) in [("at_start", true), ("after_boot", false)] {
        let mut booting = Rig::new().with(env::HANDLER_INSTALLED, moment).never_ready().start();
        booting.wait_for("listens");
        assert_eq!(term_bit(&booting, "SigCgt"), caught_while_booting);
        booting.signal(Signal::TERM);
        assert_eq!(booting.ended().0, if caught_while_booting { Status::SUCCESS } else { Status::SIGTERM });

        let mut ready = Rig::new().with(env::HANDLER_INSTALLED, moment).start_and_wait_until_ready();
        assert!(term_bit(&ready, "SigCgt"));
        ready.signal(Signal::TERM);
        assert_eq!(ready.ended().0, Status::SUCCESS);
    }
}
