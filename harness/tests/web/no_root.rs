//! As an ordinary user: the server gets its namespaces before it has any thread, and runs drills in them.

use std::ffi::OsStr;

use rustix::process::{Signal, geteuid};

use crate::{
    routes::with_opener,
    server::{Server, stepped},
    support::{Rig, skipped},
    without_root::{AS_NOBODY, rig_of_nobody},
};

#[test]
fn an_ordinary_user_can_serve() {
    let (rig, wrapper) = match geteuid().is_root() {
        true => (rig_of_nobody(), AS_NOBODY.map(OsStr::new).to_vec()),
        false => (Rig::new(), Vec::new()),
    };
    if rig.run_command(&mut rig.wrapped(&wrapper, &["list"])).code != Some(0) {
        skipped(&format!("{} does not work here", AS_NOBODY.join(" ")));
        return;
    }
    // What opens a browser is no reason to be without namespaces.
    let path = with_opener(&rig.path("bin"), "#!/bin/sh\n");
    let running = rig.start(rig.wrapped(&wrapper, &["serve", "--open", "--listen", "127.0.0.1:0"]).env("PATH", path));
    let server = Server::started(rig, running);
    let id = server.start_run(&stepped());
    let done = server.client.follow(&id, None).last().unwrap();
    let reasons = done.data["reasons"].to_string();
    if done.data["verdict"] == "inconclusive" && reasons.contains("PID namespace") {
        // Where user namespaces are forbidden the reason is told.
        skipped(&reasons);
    } else {
        assert_eq!(done.data["verdict"], "matched", "{done:?}");
    }
    server.running.signal(Signal::TERM);
    server.rig.assert_nothing_left(&Default::default(), "an ordinary user's server");
}
