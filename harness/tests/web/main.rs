//! `termdrill serve` on real sockets and processes: every route, who is refused, real runs, and how it ends.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod client;
mod ending;
mod no_root;
#[path = "../drills/processes.rs"]
mod processes;
mod routes;
mod runs;
mod safety;
mod server;
#[path = "../drills/support.rs"]
#[expect(dead_code, reason = "it is shared with the tests of drills, which use the rest")]
mod support;
#[path = "../drills/without_root.rs"]
#[expect(dead_code, reason = "it is shared with the tests of drills, which use the rest")]
mod without_root;
