//! The outer process: starts the inner one, passes on what a person wants of it, and waits.

use std::{
    io::{self, Write},
    os::fd::AsRawFd,
    process::{ChildStdin, ExitCode},
};

use anyhow::Context;
use rustix::process::{getpid, set_child_subreaper};
use scenarios::{Signal, Status};
use serde::Serialize;

use super::{Envelope, Isolation, NO_PROC, Signals, forbidden, isolate, outer_proc};
use crate::{
    failure::{Failure, plain_io},
    process::{Heard, Live, Seat, children, kill_all_but, spawn_self, spawn_self_heard},
};

/// Does `job` in an inner process that is started with `arguments`, and gives its exit code.
///
/// A first SIGINT, SIGTERM, SIGHUP or SIGQUIT tells it to stop and clean up, a second one kills it; in both cases we
/// then die of that signal ourselves, as whoever sent it expects.
///
/// # Errors
/// When no inner process can be started, or it was killed.
pub fn run_inside(arguments: &[&str], job: &impl Serialize) -> anyhow::Result<ExitCode> {
    run_inside_and_then(arguments, job, || ())
}

/// The same, and then does `afterwards`, however the inner process ended: what outlives it is cleaned up there.
///
/// # Errors
/// As [`run_inside`].
pub fn run_inside_and_then(
    arguments: &[&str],
    job: &impl Serialize,
    afterwards: impl Fn(),
) -> anyhow::Result<ExitCode> {
    let signals = Signals::catch().context("the handlers for Ctrl-C and the like can't be installed")?;
    let mut isolation = isolate();
    // Whoever started us may have left us children of its own.
    let not_ours = children(getpid().as_raw_nonzero().get());
    // Without a namespace what an inner process leaves that is killed comes to us (PR_SET_CHILD_SUBREAPER(2const)).
    set_child_subreaper(Some(getpid()))?;
    loop {
        let (inner, mut control) = start_inside(arguments, &mut isolation, job)?;
        let status = signals.wait_for(inner, &mut control)?;
        if isolation != Isolation::Namespace {
            kill_all_but(&not_ours);
        }
        afterwards();
        signals.end_by_what_was_received()?;
        match status {
            Status::Code(NO_PROC) if isolation == Isolation::Namespace => isolation = Isolation::without_proc(),
            Status::Code(code) => return Ok(ExitCode::from(code)),
            Status::Signal(signal) => {
                let what = format!(
                    "the process that runs the drill was killed by {signal}; everything in the drill was killed with it"
                );
                return Err(match signal {
                    Signal::KILL => Failure::unable(what).hint("was the machine out of memory?"),
                    _ => Failure::unable(what),
                }
                .into());
            }
        }
    }
}

/// Starts an inner process with `arguments` and gives it its `job`. The pipe tells it to stop by
/// [`STOP`](super::STOP) or by being closed. Where no namespace can be had after all, `isolation` says so from then on.
///
/// # Errors
/// No process can be started.
pub fn start_inside(
    arguments: &[&str],
    isolation: &mut Isolation,
    job: &impl Serialize,
) -> anyhow::Result<(Live, ChildStdin)> {
    let (inner, mut control) = start(isolation, |seat| spawn_self(arguments, seat))?;
    give(&mut control, isolation, job)?;
    Ok((inner, control))
}

/// The same as [`start_inside`], with pipes for the inner process's output.
///
/// # Errors
/// No process can be started.
pub fn start_inside_heard(
    arguments: &[&str],
    isolation: &mut Isolation,
    job: &impl Serialize,
) -> anyhow::Result<Heard> {
    let mut heard = start(isolation, |seat| spawn_self_heard(arguments, seat))?;
    give(&mut heard.control, isolation, job)?;
    Ok(heard)
}

fn start<T>(isolation: &mut Isolation, spawn: impl Fn(Seat) -> io::Result<T>) -> anyhow::Result<T> {
    let seat = match isolation {
        Isolation::Namespace => Seat::Pid1,
        Isolation::Bare { .. } => Seat::Ordinary,
    };
    let error = match spawn(seat) {
        Ok(spawned) => return Ok(spawned),
        Err(error) if seat == Seat::Pid1 => {
            *isolation = Isolation::Bare { why: forbidden(&error) };
            match spawn(Seat::Ordinary) {
                Ok(spawned) => return Ok(spawned),
                Err(error) => error,
            }
        }
        Err(error) => error,
    };
    // /proc/self/exe is what is started (proc_pid_exe(5)).
    let failure = Failure::unable(format!("the process that runs the drill can't be started: {}", plain_io(&error)));
    Err(match error.kind() {
        io::ErrorKind::NotFound => failure.hint("is /proc mounted?"),
        io::ErrorKind::WouldBlock => failure.hint("the limit on processes is reached (ulimit -u)"),
        _ => failure,
    }
    .into())
}

fn give(control: &mut ChildStdin, isolation: &Isolation, job: &impl Serialize) -> anyhow::Result<()> {
    // The inner process finds us by the number that we have for ourselves: it begins with our /proc.
    let own = getpid().as_raw_nonzero();
    let outer_proc = outer_proc().map(|proc| format!("/proc/{own}/fd/{}", proc.as_raw_fd()));
    let mut line = serde_json::to_vec(&Envelope { isolation: isolation.clone(), outer_proc, job })?;
    line.push(b'\n');
    // An inner process that is gone already tells more by its status than this pipe does.
    let _ = control.write_all(&line);
    Ok(())
}
