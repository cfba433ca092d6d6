//! `termdrill check` against real servers, by themselves and behind shells and wrappers: each comes out as it was measured
//! to, and is explained rightly. What is not installed is skipped, said aloud; `.ci/run` installs all of it.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

mod expect;
mod rig;
mod servers;
mod stops;
mod wrappers;
