//! `termdrill inspect`: what a running process does about SIGTERM. Nothing is ever sent.

use std::{io, process::ExitCode};

use serde::Serialize;

use crate::{
    cli::{Display, InspectArgs},
    evidence::{Node, ProcessFacts, predict, predict::Prediction, tree},
    failure::Failure,
    report::{self, write_stdout},
};

/// What `inspect --json` prints.
#[derive(Serialize)]
struct Document {
    pid: i32,
    processes: Vec<Node>,
    prediction: Prediction,
}

/// Prints the tree below a process, and what SIGTERM to it would do.
///
/// # Errors
/// There is no such process, it may not be looked at, or it is one that nothing can be said of.
pub fn inspect(display: Display, args: &InspectArgs) -> anyhow::Result<ExitCode> {
    let processes = look(args.pid)?;
    let prediction = predict::predict(&processes).ok_or_else(|| gone(args.pid))?;
    if args.json {
        let document = Document { pid: args.pid, processes, prediction };
        write_stdout(&report::json::line(&document)?)?;
    } else {
        display.output().print(&report::evidence::inspection(display.screen(), &processes, &prediction))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The tree below the process.
fn look(pid: i32) -> Result<Vec<Node>, Failure> {
    if pid.unsigned_abs() == std::process::id() {
        return Err(Failure::bad_input(format!("process {pid} is this termdrill itself"))
            .hint("name the process that is to be stopped"));
    }
    let process = ProcessFacts::read(pid).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => gone(pid),
        io::ErrorKind::PermissionDenied => Failure::unable(format!("process {pid} may not be looked at"))
            .hint("run it as that process's user, or as root"),
        _ if is_thread_of_another(&error) => gone(pid),
        _ => Failure::unable(format!("process {pid} can't be looked at: {error}")),
    })?;
    if process.kernel_thread {
        return Err(Failure::bad_input(format!("process {pid} is a thread of the kernel, which takes no SIGTERM")));
    }
    if !process.is_alive() {
        return Err(Failure::bad_input(format!(
            "process {pid} is a zombie: it has ended, and its parent ({}) has not reaped it",
            process.parent
        ))
        .hint(format!("look at its parent: termdrill inspect {}", process.parent)));
    }
    Ok(tree([pid]))
}

/// ESRCH: it ended while it was read.
fn is_thread_of_another(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

fn gone(pid: i32) -> Failure {
    Failure::bad_input(format!("there is no process {pid}")).hint("`ps -e` lists the processes")
}
