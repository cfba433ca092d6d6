//! What /proc tells of one process, as far as it decides what SIGTERM does to it.

use std::{fs, io, path::Path};

use scenarios::Signal;
use serde::{Deserialize, Serialize};

/// What a process does about SIGTERM, as far as its masks and what it waits in tell (proc_pid_status(5)).
///
/// Evidence and not proof: a runtime may catch a signal and give it up on the first one, as node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// The default action: death, or nothing at all for PID 1 of a PID namespace.
    Default,
    /// SIG_IGN: dropped when it is sent.
    Ignored,
    /// A handler.
    Caught,
    /// Held back, in every thread, until it is unblocked.
    Blocked,
    /// Taken by the process itself, which sits in sigtimedwait(2) or reads a signalfd(2) for it. Inits do so.
    WaitedFor,
}

impl Disposition {
    /// Its name in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Disposition::Default => "default",
            Disposition::Ignored => "ignored",
            Disposition::Caught => "caught",
            Disposition::Blocked => "blocked",
            Disposition::WaitedFor => "waited for",
        }
    }
}

/// What a process does right now (the letter in proc_pid_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessState {
    /// It runs, or would.
    Running,
    /// It waits for something.
    Sleeping,
    /// It is stopped, by a signal or by a debugger; it handles nothing until it goes on.
    Stopped,
    /// It is dead and not reaped yet.
    Zombie,
}

impl ProcessState {
    fn of_letter(letter: char) -> ProcessState {
        match letter {
            'R' => ProcessState::Running,
            'T' | 't' => ProcessState::Stopped,
            'Z' | 'X' => ProcessState::Zombie,
            _ => ProcessState::Sleeping,
        }
    }
}

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessFacts {
    /// Its number as the reader's PID namespace has it.
    pub pid: i32,
    /// Its number in its own, the innermost PID namespace; 1 means that it is that namespace's init.
    pub namespace_pid: i32,
    /// Its number on the host, where that was looked up to read the kernel's record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_pid: Option<i32>,
    /// The numbers of its further threads on the host, where those were looked up: any of them can take a signal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_threads: Vec<i32>,
    /// Its parent's number as the reader's PID namespace has it, 0 where it has none.
    pub parent: i32,
    /// Its command line.
    pub argv: Vec<String>,
    /// The program that it really runs, links resolved; `None` where that can't be read.
    pub exe: Option<String>,
    /// What it does right now.
    pub state: ProcessState,
    /// What it does about SIGTERM.
    pub sigterm: Disposition,
    /// What its masks alone say of that, where it is something else: a process that sits in sigtimedwait(2) shows nothing
    /// in them, and one that reads a signalfd(2) shows a signal that is blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_masks: Option<Disposition>,
    /// Whether a SIGTERM is pending.
    pub pending: bool,
    /// Whether it sits in wait(2) for a child.
    pub waits_for_child: bool,
    /// What it does about SIGQUIT: a shell starts what is to run in the background with that ignored (POSIX, asynchronous
    /// lists). `None` in evidence of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigquit: Option<Disposition>,
    /// The number of its process group, in our PID namespace.
    pub group: i32,
    /// The number of its session, in our PID namespace.
    pub session: i32,
    /// Whether it is a thread of the kernel's own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kernel_thread: bool,
}

impl ProcessFacts {
    /// Reads what there is to know of the process with this number.
    ///
    /// # Errors
    /// There is no such process, or it may not be looked at. What only concerns details (its program, what it waits
    /// in) is left out instead where it may not be read.
    pub fn read(pid: i32) -> io::Result<ProcessFacts> {
        ProcessFacts::read_for(pid, Signal::TERM)
    }

    /// The same with `sigterm`, `by_masks` and `pending` telling of another signal.
    ///
    /// # Errors
    /// As [`ProcessFacts::read`].
    pub fn read_for(pid: i32, signal: Signal) -> io::Result<ProcessFacts> {
        let folder = format!("/proc/{pid}");
        let folder = Path::new(&folder);
        let status = Status::parse(&fs::read_to_string(folder.join("status"))?).ok_or_else(unreadable)?;
        let stat = Stat::parse(&fs::read_to_string(folder.join("stat"))?).ok_or_else(unreadable)?;
        let argv = fs::read(folder.join("cmdline")).unwrap_or_default();
        let wchan = fs::read_to_string(folder.join("wchan")).unwrap_or_default();
        let by_masks = by_masks(folder, &status, signal);
        let sigterm =
            if is_taken(by_masks, folder, &status, &wchan, signal) { Disposition::WaitedFor } else { by_masks };
        Ok(ProcessFacts {
            pid,
            namespace_pid: status.namespace_pid,
            host_pid: None,
            host_threads: Vec::new(),
            parent: stat.parent,
            argv: arguments(&argv),
            exe: program(folder),
            state: ProcessState::of_letter(stat.state),
            sigterm,
            by_masks: Some(by_masks).filter(|&by_masks| by_masks != sigterm),
            pending: has(status.pending, signal),
            waits_for_child: wchan.starts_with("do_wait"),
            sigquit: Some(by_masks_alone(&status, Signal::QUIT)),
            group: stat.group,
            session: stat.session,
            // They have no memory of their own, and therefore no command line and no program.
            kernel_thread: status.kernel_thread.unwrap_or(argv.is_empty() && stat.parent == 2),
        })
    }

    /// Whether it is the init of its PID namespace, which the kernel spares every signal that it has no handler for.
    #[must_use]
    pub fn is_init(&self) -> bool {
        self.namespace_pid == 1
    }

    /// Whether it is there and not dead already: a zombie still shows masks and pending signals.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.state != ProcessState::Zombie
    }

    /// The file name of the program that it really runs, else the one that it was started as.
    #[must_use]
    pub fn program(&self) -> &str {
        let path = self.exe.as_deref().or(self.argv.first().map(String::as_str)).unwrap_or("?");
        path.rsplit('/').next().unwrap_or(path)
    }
}

fn unreadable() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what /proc says of it can't be understood")
}

/// A file that was replaced since has " (deleted)" behind its name (proc_pid_exe(5)).
fn program(folder: &Path) -> Option<String> {
    let path = fs::read_link(folder.join("exe")).ok()?;
    let path = path.to_string_lossy();
    Some(path.strip_suffix(" (deleted)").unwrap_or(&path).to_owned())
}

/// Arguments end in a NUL byte each (proc_pid_cmdline(5)).
fn arguments(cmdline: &[u8]) -> Vec<String> {
    let cmdline = cmdline.strip_suffix(&[0]).unwrap_or(cmdline);
    if cmdline.is_empty() {
        return Vec::new();
    }
    cmdline.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Whether the bit of a signal is set in a mask.
fn has(mask: u64, signal: Signal) -> bool {
    mask & (1 << (signal.number() - 1)) != 0
}

/// What the masks of a process say it does about a signal. One that is blocked is never dropped, whatever its action is.
fn by_masks(folder: &Path, status: &Status, signal: Signal) -> Disposition {
    let found = by_masks_alone(status, signal);
    if found == Disposition::Blocked && !blocked_in_every_thread(folder, status.threads, signal) {
        return by_masks_alone(&Status { blocked: 0, ..*status }, signal);
    }
    found
}

fn by_masks_alone(status: &Status, signal: Signal) -> Disposition {
    match (has(status.blocked, signal), has(status.ignored, signal), has(status.caught, signal)) {
        (true, _, _) => Disposition::Blocked,
        (_, true, _) => Disposition::Ignored,
        (_, _, true) => Disposition::Caught,
        (false, false, false) => Disposition::Default,
    }
}

/// Whether the process takes a signal by a system call, whatever its masks say.
fn is_taken(by_masks: Disposition, folder: &Path, status: &Status, wchan: &str, signal: Signal) -> bool {
    match by_masks {
        Disposition::Blocked => is_read_from_signalfd(folder, signal) || any_thread_waits(folder, status.threads),
        Disposition::Ignored => false,
        // While a thread sits in sigtimedwait, the kernel takes what it waits for off its mask.
        _ => waits_for_signal(wchan, folder),
    }
}

fn threads(folder: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    fs::read_dir(folder.join("task")).into_iter().flatten().flatten().map(|thread| thread.path())
}

/// A signal to a process goes to any thread that does not block it; /proc/PID/status shows the mask of the first.
fn blocked_in_every_thread(folder: &Path, count: u32, signal: Signal) -> bool {
    count <= 1
        || threads(folder)
            .filter_map(|thread| Status::parse(&fs::read_to_string(thread.join("status")).ok()?))
            .all(|status| has(status.blocked, signal))
}

fn any_thread_waits(folder: &Path, count: u32) -> bool {
    count > 1
        && threads(folder)
            .any(|thread| waits_for_signal(&fs::read_to_string(thread.join("wchan")).unwrap_or_default(), &thread))
}

/// The number of rt_sigtimedwait(2) in `/proc/PID/syscall`, where it is known.
const SIGTIMEDWAIT: Option<&str> = if cfg!(target_arch = "x86_64") {
    Some("128")
} else if cfg!(any(target_arch = "aarch64", target_arch = "riscv64")) {
    Some("137")
} else {
    None
};

/// `wchan` may be hidden, and is "0" then; the number of the system call tells the same.
fn waits_for_signal(wchan: &str, folder: &Path) -> bool {
    match wchan.trim() {
        "" | "0" => {
            let call = fs::read_to_string(folder.join("syscall")).unwrap_or_default();
            SIGTIMEDWAIT.is_some() && call.split(' ').next() == SIGTIMEDWAIT
        }
        name => name.starts_with("do_sigtimedwait"),
    }
}

/// A signalfd shows the signals that it takes as `sigmask` (proc_pid_fdinfo(5)).
fn is_read_from_signalfd(folder: &Path, signal: Signal) -> bool {
    let files = fs::read_dir(folder.join("fdinfo")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_to_string(file.path()).ok()).any(|info| {
        let mask = info.lines().find_map(|line| line.strip_prefix("sigmask:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| has(mask, signal))
    })
}

/// What is wanted of `/proc/PID/status`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Status {
    namespace_pid: i32,
    threads: u32,
    pending: u64,
    blocked: u64,
    ignored: u64,
    caught: u64,
    kernel_thread: Option<bool>,
}

impl Status {
    fn parse(text: &str) -> Option<Status> {
        let mut status = Status { threads: 1, ..Status::default() };
        let mut seen = 0;
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            let mask = || u64::from_str_radix(value, 16).ok();
            match name {
                "Pid" => status.namespace_pid = value.parse().ok()?,
                // From our namespace inwards; kernels before 4.1 have no such line.
                "NSpid" => status.namespace_pid = value.split_whitespace().next_back()?.parse().ok()?,
                "Threads" => status.threads = value.parse().ok()?,
                "SigPnd" | "ShdPnd" => status.pending |= mask()?,
                "SigBlk" => status.blocked = mask()?,
                "SigIgn" => status.ignored = mask()?,
                "SigCgt" => status.caught = mask()?,
                "Kthread" => status.kernel_thread = Some(value == "1"),
                _ => continue,
            }
            seen += 1;
        }
        (seen >= 6).then_some(status)
    }
}

/// What is wanted of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: i32,
    group: i32,
    session: i32,
}

impl Stat {
    fn parse(text: &str) -> Option<Stat> {
        // The name is in parentheses and may hold any character, parentheses too.
        let (_, rest) = text.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let mut number = || fields.next()?.parse().ok();
        Some(Stat { state, parent: number()?, group: number()?, session: number()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tdash\nState:\tS (sleeping)\nPid:\t812\nNSpid:\t812\t3\t1\nThreads:\t1\nKthread:\t0\n\
        SigQ:\t2/96364\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\nSigBlk:\t0000000000000000\n\
        SigIgn:\t0000000000000006\nSigCgt:\t0000000000014000\n";

    #[test]
    fn the_masks_and_the_innermost_pid_are_read() {
        let status = Status::parse(STATUS).unwrap();
        assert_eq!((status.namespace_pid, status.threads, status.kernel_thread), (1, 1, Some(false)));
        assert!(has(status.caught, Signal::TERM) && has(status.pending, Signal::TERM));
        assert!(!has(status.ignored, Signal::TERM) && !has(status.blocked, Signal::TERM));
        assert_eq!(Status::parse("Name:\tx\n"), None);
        assert_eq!(Status::parse(&STATUS.replace("SigBlk:\t0", "SigBlk:\tz")), None);
    }

    #[test]
    fn a_name_with_parentheses_does_not_confuse() {
        let stat = Stat::parse("812 (a) b (c) S 7 812 800 0 -1 4194560").unwrap();
        assert_eq!(stat, Stat { state: 'S', parent: 7, group: 812, session: 800 });
        assert_eq!(Stat::parse("812 (a"), None);
        assert_eq!(Stat::parse("812 (a) S x"), None);
    }

    #[test]
    fn a_command_line_is_split_at_its_nul_bytes() {
        assert_eq!(arguments(b"sh\0-c\0\0a b\0"), ["sh", "-c", "", "a b"]);
        assert!(arguments(b"").is_empty());
    }

    #[test]
    fn our_own_process_reads_back() {
        let own = std::process::id().cast_signed();
        let facts = ProcessFacts::read(own).unwrap();
        assert_eq!(facts.pid, own);
        assert_eq!(facts.sigterm, Disposition::Default);
        assert!(facts.is_alive() && !facts.pending && !facts.kernel_thread);
        assert_eq!(facts.exe.as_deref(), std::env::current_exe().unwrap().to_str());
        assert_eq!(ProcessFacts::read(i32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
