//! The worker as a program of its own, for containers.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    worker::run()
}
