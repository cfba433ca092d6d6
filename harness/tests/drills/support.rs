//! The program under test: started with a home of its own, signalled, waited for, and killed where a test fails.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::{self, File},
    os::{
        fd::OwnedFd,
        unix::process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Once,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use harness::{
    record::{Difference, Observed, Verdict},
    scratch::Scratch,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
};
use scenarios::{Event, Outcome};
use serde::Deserialize;
use worker::clock;

use crate::processes::{MARK, command_line, environment, marked, send};

/// The program under test.
pub(crate) const TERMDRILL: &str = env!("CARGO_BIN_EXE_termdrill");

/// How long anything may take that is not measured.
pub(crate) const PATIENCE: Duration = Duration::from_secs(200);

/// How soon a process of a drill is gone that was ended: one that goes on ends by itself some time.
const DRILL_GONE: Duration = Duration::from_secs(3);
/// How soon all is gone: ours may have to store something first.
const ALL_GONE: Duration = Duration::from_secs(20);

/// The clock that no load disturbs.
pub(crate) const STEPPED: [&str; 2] = ["--clock", "stepped"];

/// A home for runs, and everything else that a run could leave something in.
pub(crate) struct Rig {
    /// As the program has it: where these tests are killed, the next ones remove it.
    folder: Scratch,
    program: PathBuf,
    mark: String,
    count: AtomicU32,
}

impl Rig {
    pub(crate) fn new() -> Rig {
        static RIGS: AtomicU32 = AtomicU32::new(0);
        static HEAR: Once = Once::new();
        HEAR.call_once(hear_signals);
        let folder = Scratch::make().unwrap();
        for name in ["state", "tmp", "cwd"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let mark = format!("{}-{}-{}", std::process::id(), clock::now_ns(), RIGS.fetch_add(1, Ordering::Relaxed));
        Rig { folder, program: TERMDRILL.into(), mark, count: AtomicU32::new(0) }
    }

    /// The same with another copy of the program.
    pub(crate) fn with_program(self, program: PathBuf) -> Rig {
        Rig { program, ..self }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Copies a program that is to be started. What is open for writing can't be (ETXTBSY), and whatever another thread starts
    /// here at that moment holds this process's files until its execve(2): so another process writes it.
    pub(crate) fn put_program(&self, from: impl AsRef<Path>, to: &Path) {
        self.run_command(Command::new("cp").arg(from.as_ref()).arg(to)).assert_done();
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// The command that runs the program with `arguments`, and nothing of our environment but what it needs.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.wrapped(&[], arguments)
    }

    /// The same behind other words, such as those of setpriv(1).
    pub(crate) fn wrapped(&self, wrapper: &[&OsStr], arguments: &[&str]) -> Command {
        let mut words = wrapper.iter().copied().chain([self.program.as_os_str()]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).args(arguments).env_clear().current_dir(self.path("cwd"));
        command
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LC_ALL", "C.UTF-8")
            .env("COLUMNS", "100");
        command.env("XDG_STATE_HOME", self.state()).env("TMPDIR", self.path("tmp")).env(MARK, &self.mark);
        command
    }

    /// Starts a command in a process group of its own, with its output in files.
    pub(crate) fn start(&self, command: &mut Command) -> Running {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let output = |name: &str| self.path(&format!("{name}-{number}"));
        let (stdout, stderr) = (output("stdout"), output("stderr"));
        command.stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
        self.start_with_output(command, stdout, stderr)
    }

    /// The same where the command has its standard output already.
    pub(crate) fn start_to(&self, command: &mut Command, stdout: impl Into<Stdio>) -> Running {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let stderr = self.path(&format!("stderr-{number}"));
        command.stdout(stdout).stderr(File::create(&stderr).unwrap());
        self.start_with_output(command, PathBuf::from("/dev/null"), stderr)
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that starts the program under test")]
    fn start_with_output(&self, command: &mut Command, stdout: PathBuf, stderr: PathBuf) -> Running {
        let child = command.stdin(Stdio::null()).process_group(0).spawn().unwrap();
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        Running { child, pidfd, stdout, stderr, mark: self.mark.clone() }
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.start(&mut self.command(arguments)).wait()
    }

    /// Runs a command to its end.
    pub(crate) fn run_command(&self, command: &mut Command) -> Ended {
        self.start(command).wait()
    }

    /// Runs a drill to its end and reads its document.
    pub(crate) fn drill(&self, arguments: &[&str]) -> Drilled {
        let ended = self.run(&[&["run", "--json"], arguments].concat());
        ended.document()
    }

    /// Runs a drill that has to match. Where the machine is too slow for the real clock at every speed that was tried,
    /// it has to match on the stepped one; a divergence is never accepted.
    pub(crate) fn matched(&self, arguments: &[&str]) -> Drilled {
        let drilled = self.drill(arguments);
        if !drilled.was_too_slow() {
            drilled.assert_matched(&arguments.join(" "));
            return drilled;
        }
        skipped(&format!("{} on the real clock: {}", arguments[0], drilled.parsed.reasons.join(" ")));
        let stepped = self.drill(&[arguments, &STEPPED].concat());
        stepped.assert_matched(&arguments.join(" "));
        stepped
    }

    /// Every living process that was started from here, whatever became of its parents.
    pub(crate) fn processes(&self) -> BTreeSet<i32> {
        marked(&self.mark)
    }

    /// Checks that soon no process is left, no socket of `names`, and no file but what is stored.
    pub(crate) fn assert_nothing_left(&self, names: &BTreeSet<String>, what: &str) {
        self.assert_gone(DRILL_GONE, what, |pid| {
            let line = command_line(pid);
            !line.starts_with(&self.program.display().to_string()) || line.ends_with(" worker")
        });
        self.assert_gone(ALL_GONE, what, |_| true);
        let sockets = fs::read_to_string("/proc/net/unix").unwrap();
        for name in names {
            assert!(!sockets.split_whitespace().any(|word| word.starts_with(name.as_str())), "{what}: {name} is left");
        }
        for folder in ["tmp", "cwd"] {
            let left: Vec<_> = fs::read_dir(self.path(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert!(left.is_empty(), "{what}: left in {folder}: {left:?}");
        }
    }

    fn assert_gone(&self, limit: Duration, what: &str, is_meant: impl Fn(i32) -> bool) {
        let left = || -> Vec<i32> { self.processes().into_iter().filter(|&pid| is_meant(pid)).collect() };
        // Until all is gone: what is not there yet may still come.
        eventually(limit, || self.processes().is_empty());
        // In the middle of an execve(2) a process has no environment: it is looked for once more.
        clock::block_for(Duration::from_millis(20));
        let told: Vec<String> = left().iter().map(|&pid| format!("{pid}: {}", command_line(pid))).collect();
        assert!(told.is_empty(), "{what}: still alive after {limit:?}: {told:?}");
    }

    /// The names of the sockets that the drills of this rig listen on at this moment.
    pub(crate) fn sockets(&self) -> BTreeSet<String> {
        let names = self.processes().into_iter().flat_map(|pid| {
            let environment = environment(pid);
            ["NOTIFY_SOCKET=", "TERMDRILL_LIFELINE="]
                .into_iter()
                .filter_map(|name| environment.iter().find_map(|pair| pair.strip_prefix(name)).map(str::to_owned))
                .collect::<Vec<String>>()
        });
        names.collect()
    }
}

/// The program under test must not begin with signals ignored because we do: under nohup(1), or in the background of a
/// script, which starts its jobs deaf to Ctrl-C. An ignored signal stays ignored across execve(2), a caught one becomes
/// the default again (signal(7)).
fn hear_signals() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM].map(Signal::as_raw) {
        if ignored & (1 << (signal - 1)) != 0 {
            signal_hook::flag::register(signal, Arc::default()).unwrap();
        }
    }
}

/// A command that was started. It is killed when this is dropped, and everything that it started.
pub(crate) struct Running {
    child: Child,
    pidfd: OwnedFd,
    /// The file that holds what it wrote to its standard output.
    pub(crate) stdout: PathBuf,
    stderr: PathBuf,
    mark: String,
}

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The process that runs the drill, as soon as there is one; `None` where the command ended before.
    pub(crate) fn inner(&self) -> Option<i32> {
        let outer = self.pid();
        let mut inner = None;
        let found = eventually(PATIENCE, || {
            let below = harness::process::descendants(outer);
            inner = below.iter().map(harness::process::Other::pid).find(|&pid| command_line(pid).ends_with(" drill"));
            inner.is_some() || self.has_ended(Duration::ZERO)
        });
        assert!(found, "no process that runs the drill");
        inner
    }

    /// Whether it ends within `limit`. It is not reaped, so its number still means it.
    pub(crate) fn has_ended(&self, limit: Duration) -> bool {
        let limit = Timespec::try_from(limit).unwrap();
        poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&limit)).unwrap() > 0
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// As Ctrl-C does: to the whole process group.
    pub(crate) fn signal_group(&self, signal: Signal) {
        kill_process_group(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn wait(self) -> Ended {
        self.wait_for(PATIENCE).unwrap_or_else(|| panic!("the command did not end in {PATIENCE:?}"))
    }

    /// Waits until the command has ended, but not longer than `limit`.
    pub(crate) fn wait_for(mut self, limit: Duration) -> Option<Ended> {
        if !self.has_ended(limit) {
            return None;
        }
        let status = self.child.wait().unwrap();
        let text = |path: &Path| String::from_utf8(fs::read(path).unwrap()).unwrap();
        Some(Ended {
            code: status.code(),
            signal: status.signal(),
            stdout: text(&self.stdout),
            stderr: text(&self.stderr),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            send(self.pid(), Signal::KILL);
            let _ = self.child.wait();
        }
        if thread::panicking() {
            marked(&self.mark).into_iter().for_each(|pid| send(pid, Signal::KILL));
        }
    }
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The document of `run --json`.
    pub(crate) fn document(&self) -> Drilled {
        let document: serde_json::Value =
            serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("no document: {error}: {self:?}"));
        let parsed = Document::deserialize(&document).unwrap();
        assert_eq!(self.stderr, "");
        assert_eq!(self.code, Some(i32::from(parsed.verdict.exit_code())), "{:?}", parsed.reasons);
        Drilled { parsed, document }
    }

    /// Checks that all is well, and gives what was printed.
    pub(crate) fn assert_done(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{self:?}");
        self.stdout
    }

    /// Checks that it was refused: with this status, one error that says `what`, nothing else, and no panic.
    pub(crate) fn assert_refused(&self, code: i32, what: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.stderr.contains(what), "{what:?} is not in {:?}", self.stderr);
        assert!(self.stderr.starts_with("error: "), "{:?}", self.stderr);
        assert_eq!(self.stderr.matches("error: ").count(), 1, "{:?}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{:?}", self.stderr);
    }
}

/// The parts of the document of `run --json` that tests look at.
#[derive(Debug, Deserialize)]
pub(crate) struct Document {
    pub(crate) observed: Option<ObservedTrace>,
    pub(crate) verdict: Verdict,
    pub(crate) difference: Option<Difference>,
    pub(crate) reasons: Vec<String>,
    pub(crate) run: PathBuf,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ObservedTrace {
    pub(crate) events: Vec<Observed>,
    pub(crate) outcome: Outcome,
}

/// A drill that has ended: its document, as types and as it was printed.
pub(crate) struct Drilled {
    pub(crate) parsed: Document,
    pub(crate) document: serde_json::Value,
}

impl Drilled {
    /// What was observed: events in trace order and the outcome.
    pub(crate) fn observed(&self) -> (Vec<Event>, &Outcome) {
        let observed = self.parsed.observed.as_ref().unwrap();
        (observed.events.iter().map(|observed| observed.event).collect(), &observed.outcome)
    }

    /// Whether nothing was proved, for no other reason than a slow machine.
    pub(crate) fn was_too_slow(&self) -> bool {
        let Document { verdict, reasons, .. } = &self.parsed;
        let slow = |reason: &String| reason.contains("too slow") || reason.contains("was seeded");
        *verdict == Verdict::Inconclusive && !reasons.is_empty() && reasons.iter().all(slow)
    }

    pub(crate) fn assert_matched(&self, what: &str) {
        let Document { verdict, difference, reasons, .. } = &self.parsed;
        assert_eq!(*verdict, Verdict::Matched, "{what}: {difference:?} {reasons:?}");
    }
}

/// Looks at `condition` until it holds, but not longer than `limit`.
pub(crate) fn eventually(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let until = clock::now_ns() + u64::try_from(limit.as_nanos()).unwrap();
    loop {
        if condition() {
            return true;
        }
        if clock::now_ns() > until {
            return false;
        }
        clock::block_for(Duration::from_millis(5));
    }
}

/// Numbers that look drawn and are the same in every run (SplitMix64).
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    /// The next one, below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// Says that a test can't be made on this machine, and why.
#[expect(clippy::print_stdout, reason = "a person who runs the tests has to know")]
pub(crate) fn skipped(why: &str) {
    println!("skipped: {why}");
}
