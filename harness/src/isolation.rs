//! Nothing leaks, by construction: a drill runs in a process that is PID 1 of a PID namespace of its own.
//!
//! The outer `termdrill` starts the inner one, passes on what a person wants of it and waits. When the inner one ends,
//! for whatever reason, the kernel kills everything else in its namespace (`pid_namespaces(7)`); when the outer one
//! ends, the pipe between them closes and the inner one ends. Seats as PID 1 are namespaces inside this one.
//!
//! An ordinary user gets there by a user namespace (`user_namespaces(7)`). Where both are forbidden the drill runs in
//! an ordinary child, a subreaper that kills what is left; workers then watch a socket of the harness.

use std::{
    fs,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::{ChildStdin, ExitCode},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::Context;
use nix::sched::{CloneFlags, unshare};
use rustix::{
    event::{PollFd, PollFlags, poll},
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    process::{getgid, getuid, set_child_subreaper},
};
use scenarios::{Signal, Status};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use worker::clock;

use crate::{
    failure::{Failure, UNABLE, plain_io},
    process::{self, Live, Seat, spawn_self},
};

/// How a drill is kept apart from the rest of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// In a PID namespace of its own, with a /proc of its own.
    Namespace,
    /// Not at all; seats as PID 1 can't be had.
    Bare {
        /// Why not, and what to change.
        why: String,
    },
}

/// What the inner process ends with when it can't mount a /proc of its own: it is then started again without.
pub const NO_PROC: u8 = 125;
/// What the outer process writes when the drill is to stop.
pub const STOP: &[u8] = b"stop\n";

#[derive(Serialize, Deserialize)]
struct Envelope<J> {
    isolation: Isolation,
    job: J,
}

/// Does `job` in an inner process that is started with `arguments`, and gives its exit code.
///
/// A first SIGINT, SIGTERM, SIGHUP or SIGQUIT tells it to stop and clean up, a second one kills it; in both cases we
/// then die of that signal ourselves, as whoever sent it expects.
///
/// # Errors
/// When no inner process can be started, or it was killed.
pub fn run_inside(arguments: &[&str], job: &impl Serialize) -> anyhow::Result<ExitCode> {
    let signals = Signals::catch().context("the handlers for Ctrl-C and the like can't be installed")?;
    let mut isolation = isolate();
    loop {
        let (inner, mut control) = start_inside(arguments, &mut isolation, job)?;
        let status = signals.wait_for(inner, &mut control)?;
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

/// Starts an inner process with `arguments` and gives it its `job`. The pipe tells it to stop by [`STOP`] or by being
/// closed. Where no namespace can be had after all, `isolation` says so from then on.
///
/// # Errors
/// No process can be started.
pub fn start_inside(
    arguments: &[&str],
    isolation: &mut Isolation,
    job: &impl Serialize,
) -> anyhow::Result<(Live, ChildStdin)> {
    loop {
        let seat = match isolation {
            Isolation::Namespace => Seat::Pid1,
            Isolation::Bare { .. } => Seat::Ordinary,
        };
        let (inner, mut control) = match spawn_self(arguments, seat) {
            Ok(spawned) => spawned,
            Err(error) if seat == Seat::Pid1 => {
                *isolation = Isolation::Bare { why: forbidden(&error) };
                continue;
            }
            Err(error) => {
                // /proc/self/exe is what is started (proc_pid_exe(5)).
                let failure =
                    Failure::unable(format!("the process that runs the drill can't be started: {}", plain_io(&error)));
                return Err(match error.kind() {
                    io::ErrorKind::NotFound => failure.hint("is /proc mounted?"),
                    io::ErrorKind::WouldBlock => failure.hint("the limit on processes is reached (ulimit -u)"),
                    _ => failure,
                }
                .into());
            }
        };
        let mut line = serde_json::to_vec(&Envelope { isolation: isolation.clone(), job })?;
        line.push(b'\n');
        // An inner process that is gone already tells more by its status than this pipe does.
        let _ = control.write_all(&line);
        return Ok((inner, control));
    }
}

impl Isolation {
    /// What is left where an inner process ended with [`NO_PROC`].
    #[must_use]
    pub fn without_proc() -> Isolation {
        let why = "a /proc for the PID namespace of the drill can't be mounted here (mount(2) was refused); run it \
                   where mounting is allowed, for example as root or outside of a container";
        Isolation::Bare { why: why.to_owned() }
    }
}

/// The signals that mean "stop" for a program in a terminal or a service.
pub struct Signals {
    last: Arc<AtomicUsize>,
    woken: UnixStream,
}

impl Signals {
    /// Catches them from now on.
    ///
    /// # Errors
    /// No handler can be installed.
    pub fn catch() -> io::Result<Signals> {
        let last = Arc::new(AtomicUsize::new(0));
        let (woken, waker) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            // Under nohup(1) a drill goes on without its terminal.
            if signal == SIGHUP && mask("SigIgn") & (1 << (SIGHUP - 1)) != 0 {
                continue;
            }
            signal_hook::flag::register_usize(signal, Arc::clone(&last), signal.cast_unsigned() as usize)?;
            signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        Ok(Signals { last, woken })
    }

    /// A descriptor that is readable when one has come.
    ///
    /// # Errors
    /// It can't be duplicated.
    pub fn wakeups(&self) -> io::Result<OwnedFd> {
        Ok(self.woken.try_clone()?.into())
    }

    /// Ends this process by the last signal that has come, if one has, as whoever sent it expects.
    ///
    /// # Errors
    /// The signal can't be raised.
    pub fn end_by_what_was_received(&self) -> io::Result<()> {
        match self.received() {
            Some(signal) => signal_hook::low_level::emulate_default_handler(signal),
            None => Ok(()),
        }
    }

    fn received(&self) -> Option<i32> {
        let last = self.last.load(Ordering::SeqCst);
        i32::try_from(last).ok().filter(|&signal| signal != 0)
    }

    fn wait_for(&self, mut inner: Live, control: &mut impl Write) -> io::Result<Status> {
        let mut told = false;
        loop {
            let mut polled =
                [PollFd::from_borrowed_fd(inner.pidfd(), PollFlags::IN), PollFd::new(&self.woken, PollFlags::IN)];
            match poll(&mut polled, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            inner = match inner.reap() {
                Ok(ended) => return Ok(ended.status),
                Err(inner) => inner,
            };
            let mut wakes = [0; 16];
            if matches!((&self.woken).read(&mut wakes), Ok(count) if count > 0) {
                if told {
                    inner.signal(Signal::KILL)?;
                } else {
                    // Where the pipe is closed it has ended, or is about to.
                    let _ = control.write_all(STOP);
                    told = true;
                }
            }
        }
    }
}

/// Gets what it takes to make PID namespaces. Must come before any thread is started: a process with several can't
/// enter a user namespace (unshare(2), EINVAL).
#[must_use]
pub fn isolate() -> Isolation {
    if has_sys_admin() {
        return Isolation::Namespace;
    }
    let (uid, gid) = (getuid(), getgid());
    if let Err(errno) = unshare(CloneFlags::CLONE_NEWUSER) {
        return Isolation::Bare { why: forbidden(&errno.into()) };
    }
    // User 0 in there, and nobody else: with a map to itself the capabilities would be lost at exec.
    let written = fs::write("/proc/self/setgroups", "deny")
        .and_then(|()| fs::write("/proc/self/uid_map", format!("0 {} 1", uid.as_raw())))
        .and_then(|()| fs::write("/proc/self/gid_map", format!("0 {} 1", gid.as_raw())));
    match written {
        Ok(()) => Isolation::Namespace,
        Err(error) => Isolation::Bare { why: forbidden(&error) },
    }
}

/// CAP_SYS_ADMIN is number 21 (capabilities(7)).
fn has_sys_admin() -> bool {
    mask("CapEff") & (1 << 21) != 0
}

/// A mask in /proc/self/status (proc_pid_status(5)); empty where it can't be read.
fn mask(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn forbidden(error: &io::Error) -> String {
    let why = match error.kind() {
        // What unshare(2) says when a limit on namespaces is reached, such as 0.
        io::ErrorKind::StorageFull => "the limit on user or PID namespaces is reached".to_owned(),
        _ => plain_io(error),
    };
    format!(
        "no PID namespace can be made here ({why}); run as root, or allow user namespaces: \
         sysctl user.max_user_namespaces above 0, and where they exist kernel.unprivileged_userns_clone=1 and \
         kernel.apparmor_restrict_unprivileged_userns=0"
    )
}

/// The inner process, from its first step on: takes its job from the pipe and does it.
///
/// `work` gets the job and the pipe, which is readable when the drill is to stop: the outer process said so or is gone.
///
/// # Errors
/// Those of `work`, and when there is no job.
pub fn inside<J: DeserializeOwned>(
    work: impl FnOnce(J, Isolation, OwnedFd) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    let Some(line) = read_line(&control).context("this command is for termdrill's own use: it runs a drill")? else {
        return Ok(ExitCode::FAILURE);
    };
    let Envelope { isolation, job } = serde_json::from_slice(&line)?;
    match isolation {
        Isolation::Namespace => {
            if own_proc().is_err() {
                return Ok(ExitCode::from(NO_PROC));
            }
        }
        // Orphans of the drill come to us and not to the host's init (PR_SET_CHILD_SUBREAPER(2const)).
        Isolation::Bare { .. } => set_child_subreaper(Some(rustix::process::getpid()))?,
    }
    let watched = control.try_clone()?;
    thread::Builder::new().name("stop".to_owned()).spawn(move || end_when_stopped(&watched))?;
    work(job, isolation, control)
}

/// How long the drill has to clean up and to store what happened, once it is to stop.
const TIME_TO_STOP: Duration = Duration::from_millis(500);

/// Ends this process, and with it the drill, if it is to stop and does not: its output may be a pipe that nobody reads.
#[expect(clippy::disallowed_methods, reason = "the thread that would return from main is the one that is stuck")]
fn end_when_stopped(control: &OwnedFd) {
    let mut polled = [PollFd::new(control, PollFlags::IN)];
    while !matches!(poll(&mut polled, None), Ok(ready) if ready > 0) {}
    clock::block_for(TIME_TO_STOP);
    process::kill_all();
    std::process::exit(i32::from(UNABLE));
}

/// The job, or nothing where the outer process went away first. Byte by byte would be slow and more than a line would
/// take away what follows, so the line is peeked at in the pipe's own portions: nothing follows it until the drill is
/// to stop, and what is left of that is only a wake-up.
fn read_line(control: &OwnedFd) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut portion = [0; 4096];
    loop {
        match rustix::io::read(control, &mut portion) {
            Ok(0) => return Ok(None),
            Ok(count) => line.extend_from_slice(&portion[..count]),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if let Some(end) = line.iter().position(|&byte| byte == b'\n') {
            // Told to stop before it began: there is nothing to do.
            return Ok((end + 1 == line.len()).then_some(line));
        }
    }
}

/// A mount namespace with a /proc that shows the pids of our PID namespace. Without nosuid, nodev and noexec the kernel
/// refuses it in a user namespace, since it would show more than the host's own (mount_namespaces(7)).
fn own_proc() -> io::Result<()> {
    if let Ok(outer) = fs::File::open("/proc") {
        // There is one inner process and it gets here once.
        let _ = OUTER_PROC.set(outer.into());
    }
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)?;
    Ok(())
}

/// The /proc that is hidden behind our own.
static OUTER_PROC: OnceLock<OwnedFd> = OnceLock::new();

/// The /proc of the outer process, which shows the numbers that the drill's processes have there; `None` where ours is
/// the same one. The kernel's tracing speaks in those.
#[must_use]
pub fn outer_proc() -> Option<BorrowedFd<'static>> {
    OUTER_PROC.get().map(AsFd::as_fd)
}
