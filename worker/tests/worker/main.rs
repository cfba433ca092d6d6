//! The worker as a real process: real sockets, real signals, a real store. Nothing here sleeps; each test waits for
//! what the worker says.

#![expect(clippy::unwrap_used, reason = "this crate is nothing but tests")]

mod boot;
mod clock;
mod faults;
mod invocations;
mod postures;
mod rig;
mod stepped;
