//! Evidence of real processes: where the signal went, for every form, seat and posture; and a look at processes that
//! nothing is sent to.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod drills;
mod forms;
mod inspect;
mod shells;
mod traced;

use std::{
    process::{Command, Output, Stdio},
    sync::Mutex,
};

/// Drills one after the other: a machine that is busy with one is no place for another.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The program with an environment in which nothing of the caller's shows but where programs are.
fn termdrill(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_termdrill"));
    command.args(arguments).env_clear().stdin(Stdio::null());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C.UTF-8").env("COLUMNS", "80");
    command
}

#[expect(clippy::disallowed_methods, reason = "the program under test, run to its end")]
fn output(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Tells why a test did not do what it is for.
#[expect(clippy::print_stderr, reason = "who runs the tests has to know what they did not prove")]
fn skipped(why: &str) {
    eprintln!("SKIPPED: {why}");
}
