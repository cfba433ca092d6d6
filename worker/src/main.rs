//! The worker as a program of its own, for containers.

use std::process::ExitCode;

fn main() -> ExitCode {
    worker::run()
}
