//! From the start of a process to its readiness.

use std::{net::TcpListener, os::unix::net::UnixListener};

use hyper::StatusCode;
use rustix::process::Signal;
use scenarios::{Reason, Status, Tick, wire::env};
use worker::clock;

use crate::rig::{Rig, block_on, text};

#[test]
fn it_is_ready_at_its_tick_and_says_so() {
    let running = Rig::new().with(env::READY_TICK, 30).start();
    let notification = running.notification();
    let told_us: u64 = notification.strip_prefix("READY=1\nMONOTONIC_USEC=").unwrap().trim_end().parse().unwrap();
    assert!(told_us * 1_000 >= running.rig.schedule.start_of(Tick(30)));
    assert!(told_us <= clock::now_ns() / 1_000);
    block_on(async {
        let mut client = running.client().await;
        assert_eq!(client.get("/readyz").await, StatusCode::OK);
        assert_eq!(client.get("/livez").await, StatusCode::OK);
    });
}

#[test]
fn while_it_boots_it_lives_and_refuses() {
    let mut running = Rig::new().never_ready().start();
    running.wait_for("listens");
    block_on(async {
        let mut client = running.client().await;
        assert_eq!(client.get("/livez").await, StatusCode::OK);
        assert_eq!(client.get("/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
        let refused = client.invoke(1, Tick(1)).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()["retry-after"], "1");
        assert_eq!(text(refused).await, format!(r#"{{"reason":"{}"}}"#, Reason::WorkerStarting));
    });
    assert!(running.no_notification_waits());
}

#[test]
fn a_boot_that_is_to_fail_exits_1_at_its_tick() {
    let mut running = Rig::new().with(env::READY_TICK, 30).with(env::FAIL_BOOT, true).start();
    let (status, at_ns) = running.ended();
    assert_eq!(status, Status::Code(1));
    assert!(at_ns >= running.rig.schedule.start_of(Tick(30)));
    running.wait_for("boot fails");
    assert!(running.no_notification_waits());
}

#[test]
fn a_sigterm_while_it_boots_ends_a_worker_that_drains() {
    let mut running = Rig::new().never_ready().start();
    running.wait_for("listens");
    running.signal(Signal::TERM);
    assert_eq!(running.ended().0, Status::SUCCESS);
    assert!(running.notification().contains("STOPPING=1\n"));
}

#[test]
fn a_wrong_variable_exits_2_and_says_what_is_allowed() {
    let complaint = r#"TERMDRILL_SLOTS="65" is not allowed: it must be a whole number from 1 to 64"#;
    Rig::new().with(env::SLOTS, 65).start().fails(2, complaint);
    let complaint = r#"TERMDRILL_ON_SIGTERM="dance" is not allowed: it must be one of drain, default, ignore"#;
    Rig::new().with(env::ON_SIGTERM, "dance").start().fails(2, complaint);
}

#[test]
fn a_port_that_somebody_listens_on_is_an_error() {
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    Rig::new().with(env::PORT, port).start().fails(1, &format!("can't listen on port {port}: Address already in use"));
}

#[test]
fn a_store_that_is_not_there_is_an_error() {
    Rig::new()
        .with(env::STORE, "/nowhere/results")
        .start()
        .fails(1, "/nowhere/results: the result store can't be used");
}

#[test]
fn a_notify_socket_that_is_not_there_is_not() {
    let mut running = Rig::new().with(env::NOTIFY_SOCKET, "/nowhere/notify").start();
    running.wait_for("nobody will hear of the readiness");
    running.wait_for("is ready");
}

#[test]
fn it_ends_with_its_lifeline() {
    let rig = Rig::new();
    let path = rig.folder.path().join("lifeline");
    let harness = UnixListener::bind(&path).unwrap();
    let mut running = rig.with(env::LIFELINE, path.display()).start_and_wait_until_ready();
    let (connection, _) = harness.accept().unwrap();
    drop(connection);
    assert_eq!(running.ended().0, Status::Code(1));
    running.wait_for("lifeline has ended");
}

#[test]
fn a_lifeline_that_is_not_there_is_an_error() {
    Rig::new().with(env::LIFELINE, "/nowhere/lifeline").start().fails(1, "lifeline can't be connected to");
}
