//! Exchanges over real sockets with servers that behave, and with servers that misbehave in every way there is.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

mod opening;
mod probing;
mod running;
mod server;
