//! Whatever ends the server, and whenever: no process is left, and what ran is stored as far as it got.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use crate::{
    processes::send,
    server::{Server, long, stepped},
};

/// A server in the middle of a run, with another one waiting.
fn busy() -> Server {
    let server = Server::start(&[]);
    let id = server.start_run(&long());
    server.start_run(&stepped());
    let admitted = server.client.follow(&id, None).any(|event| event.data["event"] == "request_admitted");
    assert!(admitted);
    assert!(server.rig.processes().len() >= 3, "the server, what runs the drill, and a worker");
    server
}

#[test]
fn a_server_that_is_ended_during_a_run_leaves_nothing() {
    for (signal, to_the_group) in
        [(Signal::INT, true), (Signal::TERM, false), (Signal::HUP, false), (Signal::KILL, false)]
    {
        let server = busy();
        let sockets = server.rig.sockets();
        assert!(!sockets.is_empty());
        match to_the_group {
            true => server.running.signal_group(signal),
            false => server.running.signal(signal),
        }
        server.rig.assert_nothing_left(&sockets, &format!("{signal:?}"));
        let ended = server.running.wait();
        assert_eq!((ended.signal, ended.stderr.as_str()), (Some(signal.as_raw()), ""));
        // The one that waited never began.
        let runs = fs::read_dir(server.rig.state().join("termdrill/runs")).unwrap();
        let names: Vec<String> = runs.map(|run| run.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(names.iter().filter(|name| name.ends_with("-long")).count(), 1, "{names:?}");
        assert!(!names.iter().any(|name| name.ends_with("-short")), "{names:?}");
        let replay = server.rig.run(&["replay", "latest", "--json"]);
        let document = replay.document();
        assert!(document.parsed.observed.is_some_and(|observed| observed.outcome.admitted > 0));
    }
}

#[test]
fn a_second_signal_does_not_wait() {
    let server = busy();
    let sockets = server.rig.sockets();
    server.running.signal(Signal::INT);
    server.running.signal(Signal::TERM);
    server.rig.assert_nothing_left(&sockets, "two signals");
    let signal = server.running.wait().signal;
    assert!([Signal::INT, Signal::TERM].map(Signal::as_raw).map(Some).contains(&signal), "{signal:?}");
}

/// A run whose process is killed has failed, and the next one has its turn.
#[test]
fn a_run_that_is_killed_is_told_and_the_server_goes_on() {
    let server = busy();
    let list = server.client.get("/api/runs").json();
    let id = list["current"]["id"].as_str().unwrap();
    let next = list["queue"][0]["id"].as_str().unwrap();
    let follower = server.client.follow(id, None);
    send(server.running.inner().unwrap(), Signal::KILL);
    let done = follower.last().unwrap();
    assert_eq!((done.event.as_str(), &done.data["state"]), ("done", &json!("failed")), "{done:?}");
    assert!(done.data["error"]["error"].as_str().unwrap().contains("SIGKILL"), "{done:?}");
    let document = server.run(id);
    assert_eq!((&document["state"], &document["verdict"]), (&json!("failed"), &json!(null)));
    assert!(!document["observed"]["events"].as_array().unwrap().is_empty());
    let done = server.client.follow(next, None).last().unwrap();
    assert_eq!(done.data["verdict"], "matched", "{done:?}");
}
