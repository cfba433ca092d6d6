//! Starts a command as a container runtime would: own session, default dispositions, empty mask, PID 1 where wanted.

use std::{
    ffi::{CString, OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStringExt, process::CommandExt},
    },
    process::{ChildStdin, Command, Stdio},
    thread,
};

use nix::{
    fcntl::OFlag,
    sched::{CloneFlags, unshare},
    spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp},
    sys::{signal::SigSet, stat::Mode},
};
use rustix::process::Pid;
use thiserror::Error;
use tokio::sync::oneshot;

use super::Live;

/// Where a command's first process sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// PID 1 of a PID namespace of its own, as in a container.
    Pid1,
    /// Any other process.
    Ordinary,
}

/// A command to start.
#[derive(Debug)]
pub struct Launch {
    /// The program, looked up in PATH, and its arguments.
    pub argv: Vec<OsString>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where its standard output and error go; standard input is empty.
    pub log: File,
    /// Where its first process sits.
    pub seat: Seat,
}

/// Why a command could not be started.
#[derive(Debug, Error)]
pub enum SpawnError {
    /// There is no such program.
    #[error("there is no program {program:?} (looked up in PATH); install it or name another one")]
    NotFound {
        /// As it was given.
        program: OsString,
    },
    /// No PID namespace could be made for it.
    #[error("no PID namespace can be made here: {0}")]
    Namespace(#[source] io::Error),
    /// Something else that the kernel said.
    #[error("{program:?} can't be started: {error}")]
    Other {
        /// As it was given.
        program: OsString,
        /// What the kernel said.
        error: io::Error,
    },
}

/// glibc and musl start a new session for it with this flag (`posix_spawnattr_setflags(3)`); nix has no name for it yet.
const POSIX_SPAWN_SETSID: i32 = 0x80;

/// Starts the command, and is done when its program runs.
///
/// It is started from a thread of its own: for a PID namespace, since unshare(2) of one concerns the children of the
/// calling thread only, and the thread can't be used for anything else afterwards.
///
/// # Errors
/// See [`SpawnError`].
pub async fn spawn(launch: Launch) -> Result<Live, SpawnError> {
    let program = launch.argv.first().cloned().unwrap_or_default();
    let other = |error| SpawnError::Other { program: program.clone(), error };
    let (done, started) = oneshot::channel();
    thread::Builder::new()
        .name("spawn".to_owned())
        .stack_size(128 * 1024)
        .spawn(move || {
            // Nobody waits any more only when the drill is over, and then the process is killed with it.
            let _ = done.send(spawn_here(&launch));
        })
        .map_err(other)?;
    match started.await {
        Ok(result) => result,
        Err(_) => Err(other(io::Error::other("the thread that starts it ended early"))),
    }
}

fn spawn_here(launch: &Launch) -> Result<Live, SpawnError> {
    if launch.seat == Seat::Pid1 {
        unshare(CloneFlags::CLONE_NEWPID).map_err(|errno| SpawnError::Namespace(errno.into()))?;
    }
    let program = launch.argv.first().cloned().unwrap_or_default();
    let pid = posix_spawn(launch).map_err(|error| match error.raw_os_error() {
        Some(code) if code == nix::errno::Errno::ENOENT as i32 => SpawnError::NotFound { program: program.clone() },
        _ => SpawnError::Other { program: program.clone(), error },
    })?;
    Live::adopt(pid).map_err(|error| SpawnError::Other { program, error })
}

fn posix_spawn(launch: &Launch) -> io::Result<Pid> {
    let argv = launch.argv.iter().cloned().map(c_string).collect::<io::Result<Vec<_>>>()?;
    let program = argv.first().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))?;
    let env = launch.env.iter().map(|(key, value)| {
        let mut pair = key.clone();
        pair.push("=");
        pair.push(value);
        c_string(pair)
    });
    let env = env.collect::<io::Result<Vec<_>>>()?;

    // What we ignore or block must not reach the command: exec keeps both (signal(7)).
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK
            | PosixSpawnFlags::from_bits_retain(POSIX_SPAWN_SETSID),
    )?;
    attributes.set_sigdefault(&SigSet::all())?;
    attributes.set_sigmask(&SigSet::empty())?;
    let mut files = PosixSpawnFileActions::init()?;
    files.add_open(0, "/dev/null", OFlag::O_RDONLY, Mode::empty())?;
    files.add_dup2(launch.log.as_raw_fd(), 1)?;
    files.add_dup2(launch.log.as_raw_fd(), 2)?;

    let pid = posix_spawnp(program, &files, &attributes, &argv, &env)?;
    Pid::from_raw(pid.as_raw()).ok_or_else(|| io::Error::other("the kernel gave no pid"))
}

fn c_string(text: OsString) -> io::Result<CString> {
    CString::new(text.into_vec()).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// Starts this program once more with `arguments`, as PID 1 of a PID namespace where `seat` says so, with a pipe for
/// standard input and our own output.
///
/// # Errors
/// What the kernel said.
#[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
pub fn spawn_self(arguments: &[&str], seat: Seat) -> io::Result<(Live, ChildStdin)> {
    let mut command = Command::new("/proc/self/exe");
    command.args(arguments).stdin(Stdio::piped());
    if let Some(name) = std::env::args_os().next() {
        command.arg0(name);
    }
    if seat == Seat::Ordinary {
        // Ctrl-C is for us, who then tell it to stop. PID 1 is deaf to it anyway.
        command.process_group(0);
    }
    let spawned = thread::scope(|scope| {
        let spawner = thread::Builder::new().name("spawn".to_owned()).spawn_scoped(scope, || {
            if seat == Seat::Pid1 {
                unshare(CloneFlags::CLONE_NEWPID)?;
            }
            command.spawn()
        })?;
        spawner.join().unwrap_or_else(|_| Err(io::Error::other("the thread that starts it panicked")))
    });
    let mut child = spawned?;
    // Out of the handle before anything waits for it: waiting closes the pipe.
    let stdin = child.stdin.take().ok_or_else(|| io::Error::other("the pipe to it is missing"))?;
    let pid = Pid::from_raw(child.id().cast_signed()).ok_or_else(|| io::Error::other("the kernel gave no pid"))?;
    Ok((Live::adopt(pid)?, stdin))
}

/// Runs a command to its end, and gives its pid and what it printed.
///
/// # Errors
/// What the kernel said.
#[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
pub fn output(argv: &[&OsStr]) -> io::Result<(u32, String)> {
    let (program, arguments) =
        argv.split_first().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))?;
    let mut command = Command::new(program);
    let child = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let pid = child.id();
    let output = child.wait_with_output()?;
    Ok((pid, String::from_utf8_lossy(&output.stdout).into_owned()))
}
