//! What a person or a program gets to read of scenarios, expectations and runs.
//!
//! Everything takes the types of [`crate::record`] and gives text, so live, stored and replayed runs look the same.
//! Text carries ANSI styles; whether they reach the terminal is decided where it is written ([`output`]).

pub mod decision;
pub mod evidence;
pub mod file;
pub mod json;
pub mod lanes;
pub mod model;
pub mod output;
pub mod picture;
pub mod run;
pub mod runs;
pub mod scenario;
pub mod screen;

pub(crate) mod paint;
pub(crate) mod summary;

pub use output::{Output, quiet_if_closed, write_stdout};
pub use screen::Screen;
pub(crate) use summary::list as request_list;

#[cfg(test)]
pub(crate) mod samples;
