//! A server that was started for one test.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use crate::{
    client::Client,
    support::{PATIENCE, Rig, Running, eventually},
};

pub(crate) struct Server {
    pub(crate) rig: Rig,
    pub(crate) running: Running,
    pub(crate) client: Client,
}

impl Server {
    /// One that listens on a port of its own.
    pub(crate) fn start(arguments: &[&str]) -> Server {
        let rig = Rig::new();
        let running = rig.start(&mut rig.command(&[&["serve"], listening(arguments), arguments].concat()));
        Server::started(rig, running)
    }

    /// One that was just started, as soon as it says where it listens.
    pub(crate) fn started(rig: Rig, running: Running) -> Server {
        let said = running.stdout.clone();
        let mut address = None;
        eventually(PATIENCE, || {
            let text = fs::read_to_string(&said).unwrap();
            address = text.split_once("http://").and_then(|(_, rest)| rest.split_once('/')?.0.parse().ok());
            address.is_some() || running.has_ended(Duration::ZERO)
        });
        let address = address.unwrap_or_else(|| panic!("it does not say where it listens"));
        Server { rig, running, client: Client(address) }
    }

    /// Starts a run, and gives its id.
    pub(crate) fn start_run(&self, ask: &Value) -> String {
        let answer = self.client.post("/api/runs", ask);
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// All that is known of a run.
    pub(crate) fn run(&self, id: &str) -> Value {
        let answer = self.client.get(&format!("/api/runs/{id}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Checks that it answers, and that nothing was ever started by it.
    pub(crate) fn assert_idle(&self) {
        let runs = self.client.get("/api/runs").json();
        assert_eq!(runs, json!({ "current": null, "queue": [], "runs": [] }));
        let processes = self.rig.processes();
        assert_eq!(processes.into_iter().collect::<Vec<_>>(), [self.running.pid()]);
        assert!(!self.rig.state().join("termdrill").exists());
    }
}

fn listening<'a>(arguments: &[&str]) -> &'a [&'a str] {
    if arguments.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] }
}

/// A drill that takes a fraction of a second.
pub(crate) fn stepped() -> Value {
    json!({ "scenario": { "name": "short", "title": "Short", "on_sigterm": "drain" }, "clock": "stepped" })
}

/// A drill that takes a minute.
pub(crate) fn long() -> Value {
    json!({ "scenario": { "name": "long", "title": "Long", "startup_s": 0.1 }, "speed": 1 })
}
