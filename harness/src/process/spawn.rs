//! Starts a command as a container runtime would: own session, default dispositions, empty mask, PID 1 where wanted.

use std::{
    ffi::{CStr, CString, OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::{ffi::OsStringExt, net::UnixStream, process::CommandExt},
    },
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    thread,
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    sched::{CloneFlags, unshare},
    spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp},
    sys::{signal::SigSet, stat::Mode},
};
use rustix::{io::ioctl_fionbio, process::Pid};
use thiserror::Error;
use tokio::sync::oneshot;

use super::{Live, Other, as_pid1};

/// Where a command's first process sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// PID 1 of a PID namespace of its own.
    Pid1,
    /// The same with a /proc that shows the numbers in there, as in a container. It is a little later.
    Container,
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
    #[error("{}", not_found(program))]
    NotFound {
        /// As it was given.
        program: OsString,
    },
    /// There is such a file, and it can't be run.
    #[error("{}", not_a_program(program, error))]
    NotAProgram {
        /// As it was given.
        program: OsString,
        /// What the kernel said.
        error: io::Error,
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

/// What is wrong where the kernel or the C library says ENOENT (`execve(2)`).
fn not_found(program: &OsStr) -> String {
    let path = Path::new(program);
    if !program.as_encoded_bytes().contains(&b'/') {
        return format!("there is no program {program:?} (looked up in PATH); install it or name another one");
    }
    if path.exists() {
        return format!(
            "{program:?} is there, but what is to run it is not: the interpreter after its #!, or its dynamic loader; \
             install that"
        );
    }
    format!("there is no program {program:?}; correct the path, or give a name alone for a program in PATH")
}

/// What is wrong where the kernel says EACCES or ENOEXEC (`execve(2)`).
fn not_a_program(program: &OsStr, error: &io::Error) -> String {
    if error.raw_os_error() == Some(Errno::ENOEXEC as i32) {
        return format!(
            "{program:?} is no program that the kernel can start: a script needs a first line such as #!/bin/sh, and a \
             binary has to be for this machine; or start it with a shell: sh {}",
            Path::new(program).display()
        );
    }
    if Path::new(program).is_dir() {
        return format!("{program:?} is a directory; name a program in it");
    }
    format!(
        "{program:?} may not be executed; make it executable (chmod +x), along with the interpreter after its #!, and see \
         that its directory may be entered and is not mounted with noexec"
    )
}

/// glibc and musl start a new session for it with this flag (`posix_spawnattr_setflags(3)`); nix has no name for it yet.
const POSIX_SPAWN_SETSID: i32 = 0x80;

/// Starts the command, and is done when its program runs.
///
/// It is started from a thread of its own: for a PID namespace, since unshare(2) of one concerns the children of the
/// calling thread only, and the thread can't be used for anything else afterwards. That thread stays until the process has
/// ended: to a process that asks for a signal when its parent ends, as `setpriv --pdeathsig` and `tini -p` do, the thread
/// that started it is the parent (PR_SET_PDEATHSIG(2const)).
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
            let started = spawn_here(&launch);
            // Before anybody can reap it.
            let process = started.as_ref().ok().and_then(|live| Other::open(live.pid()));
            // Nobody waits any more only when the drill is over, and then the process is killed with it.
            let _ = done.send(started);
            if let Some(process) = process {
                process.wait();
            }
        })
        .map_err(other)?;
    match started.await {
        Ok(result) => result,
        Err(_) => Err(other(io::Error::other("the thread that starts it ended early"))),
    }
}

fn spawn_here(launch: &Launch) -> Result<Live, SpawnError> {
    if launch.seat != Seat::Ordinary {
        unshare(CloneFlags::CLONE_NEWPID).map_err(|errno| SpawnError::Namespace(errno.into()))?;
    }
    let program = launch.argv.first().cloned().unwrap_or_default();
    let pid = posix_spawn(launch).map_err(|error| match error.raw_os_error() {
        Some(code) if code == Errno::ENOENT as i32 => SpawnError::NotFound { program: program.clone() },
        Some(code) if [Errno::EACCES as i32, Errno::ENOEXEC as i32].contains(&code) => {
            SpawnError::NotAProgram { program: program.clone(), error }
        }
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
    if launch.seat != Seat::Container {
        return posix_spawn_with(program, &argv, &env, None, &launch.log);
    }
    let (ours, its) = UnixStream::pair()?;
    let step = [c"termdrill".to_owned(), CString::new(as_pid1::STEP)?];
    let pid = posix_spawn_with(c"/proc/self/exe", &step, &[], Some(its.as_fd()), &launch.log)?;
    drop(its);
    as_pid1::Command { path: c_string(as_pid1::path())?, argv, env }.tell(ours, pid)?;
    Ok(pid)
}

/// With this for its standard input, or an empty one.
fn posix_spawn_with(
    program: &CStr,
    argv: &[CString],
    env: &[CString],
    input: Option<BorrowedFd<'_>>,
    log: &File,
) -> io::Result<Pid> {
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
    match input {
        Some(input) => files.add_dup2(input.as_raw_fd(), 0)?,
        None => files.add_open(0, "/dev/null", OFlag::O_RDONLY, Mode::empty())?,
    }
    files.add_dup2(log.as_raw_fd(), 1)?;
    files.add_dup2(log.as_raw_fd(), 2)?;

    let pid = posix_spawnp(program, &files, &attributes, argv, env)?;
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
pub fn spawn_self(arguments: &[&str], seat: Seat) -> io::Result<(Live, ChildStdin)> {
    let (live, mut child) = spawn_again(arguments, seat, |_| ())?;
    Ok((live, taken(child.stdin.take())?))
}

/// A process that was started with pipes for its standard output and error.
#[derive(Debug)]
pub struct Heard {
    /// The process.
    pub process: Live,
    /// Its standard input.
    pub control: ChildStdin,
    /// Its standard output, to be read without blocking.
    pub stdout: OwnedFd,
    /// Its standard error, to be read without blocking.
    pub stderr: OwnedFd,
}

/// The same as [`spawn_self`] with pipes for its output, so that nothing of it gets onto a screen.
///
/// # Errors
/// What the kernel said.
pub fn spawn_self_heard(arguments: &[&str], seat: Seat) -> io::Result<Heard> {
    let piped = |command: &mut Command| {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    };
    let (process, mut child) = spawn_again(arguments, seat, piped)?;
    let (stdout, stderr) = (OwnedFd::from(taken(child.stdout.take())?), OwnedFd::from(taken(child.stderr.take())?));
    for pipe in [&stdout, &stderr] {
        ioctl_fionbio(pipe, true)?;
    }
    Ok(Heard { process, control: taken(child.stdin.take())?, stdout, stderr })
}

fn taken<P>(pipe: Option<P>) -> io::Result<P> {
    pipe.ok_or_else(|| io::Error::other("a pipe to it is missing"))
}

/// The pipes have to be taken out of the handle before anything waits for it: waiting closes them.
#[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
fn spawn_again(arguments: &[&str], seat: Seat, outputs: impl FnOnce(&mut Command)) -> io::Result<(Live, Child)> {
    let mut command = Command::new("/proc/self/exe");
    command.args(arguments).stdin(Stdio::piped());
    outputs(&mut command);
    if let Some(name) = std::env::args_os().next() {
        command.arg0(name);
    }
    if seat == Seat::Ordinary {
        // Ctrl-C is for us, who then tell it to stop. PID 1 is deaf to it anyway.
        command.process_group(0);
    }
    let spawned = thread::scope(|scope| {
        let spawner = thread::Builder::new().name("spawn".to_owned()).spawn_scoped(scope, || {
            if seat != Seat::Ordinary {
                unshare(CloneFlags::CLONE_NEWPID)?;
            }
            command.spawn()
        })?;
        spawner.join().unwrap_or_else(|_| Err(io::Error::other("the thread that starts it panicked")))
    });
    let child = spawned?;
    let pid = Pid::from_raw(child.id().cast_signed()).ok_or_else(|| io::Error::other("the kernel gave no pid"))?;
    Ok((Live::adopt(pid)?, child))
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

/// Starts a program that is to outlive us, such as a browser: in a process group of its own, without input and output. Whoever
/// gets its handle reaps it.
///
/// # Errors
/// What the kernel said.
#[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
pub fn spawn_to_stay(program: &str, argument: &str) -> io::Result<Live> {
    let mut command = Command::new(program);
    command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let child = command.spawn()?;
    let pid = Pid::from_raw(child.id().cast_signed()).ok_or_else(|| io::Error::other("the kernel gave no pid"))?;
    Live::adopt(pid)
}
