//! `termdrill run` on real processes: what the catalogue claims, ties, seeded faults, and that nothing is left behind
//! whatever ends it.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod bad_input;
mod bench;
mod check;
mod claims;
mod faults;
mod leaks;
mod no_root;
mod pool;
mod processes;
mod record;
mod reports;
mod stepped;
mod support;
mod ties;
mod validate;
mod without_root;
