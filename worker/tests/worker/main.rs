//! The worker as a real process: real sockets, real signals, a real store. Nothing here sleeps; each test waits for
//! what the worker says.

mod boot;
mod faults;
mod invocations;
mod postures;
mod rig;
