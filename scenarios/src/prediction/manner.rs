//! How programs that stand before a worker deal with SIGTERM: the one table of rules.

use crate::Status;

/// What a process does when SIGTERM reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTerm {
    /// It has no handler: it dies, or as PID 1 never hears of it.
    Dies,
    /// It hears of it and acts when its foreground child has ended, not before.
    Waits,
    /// It ignores it.
    Ignores,
    /// It passes it on to its child and waits.
    Passes,
    /// It passes it on to the process group of its child and waits for the child.
    PassesToGroup,
    /// It passes it on to its child and ends at once, with this status.
    PassesAndLeaves(Report),
    /// It passes it on to its child, kills the child two seconds later and ends with this status.
    PassesAndKills(Report),
}

/// The status that a process ends with after a child that ended, or after a signal that ended its waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The child's code, or this plus the number of the signal that it died of, as one byte.
    Plus(u8),
    /// The child's code, or death by the same signal; as PID 1, which can't die of it, this code.
    Raises(u8),
    /// This code, whatever was.
    Always(u8),
}

/// How a process that stays before a worker behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// When SIGTERM reaches it.
    pub on_term: OnTerm,
    /// When its child has ended.
    pub on_child_end: Report,
    /// It does not stay at all, but forks and ends with this code at once.
    pub leaves_at_start: Option<u8>,
    /// It holds the terminal of what is below, which gets SIGHUP when it ends.
    pub hangs_up: bool,
}

/// What a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runs {
    /// A text, and it is a shell itself.
    Text,
    /// The words that follow its own options.
    Words,
    /// The text after `-c`, with a shell.
    OptionC,
    /// A start script, with `sh -c`.
    StartScript,
}

/// What is known of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) runs: Runs,
    /// `None`: it becomes what it runs.
    pub(super) manner: Option<Manner>,
}

/// What a program that runs another one does with SIGTERM; `options` are the words between it and that one.
pub(super) fn rule(program: &str, options: &[&str]) -> Option<Rule> {
    use OnTerm::{Dies, Passes, PassesAndKills, PassesToGroup};
    use Report::{Always, Plus, Raises};
    use Runs::{OptionC, StartScript, Text, Words};
    let has = |flags: &[&str]| options.iter().any(|word| flags.contains(word));
    let stays = |on_term, on_child_end| Some(Manner { on_term, on_child_end, ..Manner::WAITING_SHELL });
    let (runs, manner) = match program {
        "sh" | "ash" | "dash" | "bash" | "zsh" | "mksh" | "ksh" | "ksh93" | "yash" | "fish" => (Text, None),
        "env" | "nohup" | "gosu" | "nice" | "ionice" | "chrt" | "taskset" | "stdbuf" | "chroot" => (Words, None),
        "tini" | "docker-init" | "catatonit" if has(&["-g"]) => (Words, stays(PassesToGroup, Plus(128))),
        "tini" | "docker-init" | "catatonit" => (Words, stays(Passes, Plus(128))),
        "dumb-init" if has(&["-c", "--single-child"]) => (Words, stays(Passes, Plus(128))),
        "dumb-init" => (Words, stays(PassesToGroup, Plus(128))),
        "timeout" if has(&["--foreground"]) => (Words, stays(Passes, Raises(143))),
        "timeout" => (Words, stays(PassesToGroup, Raises(143))),
        "sudo" => (Words, stays(Passes, Raises(0))),
        "npm" => (StartScript, stays(Passes, Raises(1))),
        "su" => (OptionC, stays(PassesAndKills(Raises(143)), Plus(128))),
        "runuser" => (Words, stays(PassesAndKills(Raises(143)), Plus(128))),
        "script" => {
            let manner = stays(PassesAndKills(Always(0)), Plus(128));
            (OptionC, manner.map(|manner| Manner { hangs_up: true, ..manner }))
        }
        "xargs" => (Words, stays(Dies, Always(123))),
        "setsid" if has(&["-w", "--wait"]) => (Words, stays(Dies, Plus(128))),
        // Started as the leader of a process group it has to fork, and does not wait.
        "setsid" => (Words, stays(Dies, Plus(128)).map(|manner| Manner { leaves_at_start: Some(0), ..manner })),
        _ => return None,
    };
    Some(Rule { runs, manner })
}

/// The options of a program that change nothing about a signal: letters, and names after a space. What others do is not known.
fn harmless(program: &str) -> (&'static str, &'static [&'static str]) {
    match program {
        "env" => ("iu0C", &["ignore-environment", "unset", "chdir"]),
        "nice" => ("n", &["adjustment"]),
        "ionice" => ("cnt", &["class", "classdata", "ignore"]),
        "chrt" => ("abfimorRTPD", &["all-tasks", "batch", "fifo", "idle", "other", "rr"]),
        "taskset" => ("ac", &["all-tasks", "cpu-list"]),
        "stdbuf" => ("ioeL", &["input", "output", "error"]),
        "chroot" => ("", &["groups", "userspec", "skip-chdir"]),
        "tini" | "docker-init" | "catatonit" => ("gsvwlp", &["version"]),
        "dumb-init" => ("cv", &["single-child", "verbose"]),
        "timeout" => ("sv", &["signal", "foreground", "verbose"]),
        "sudo" => ("nEHugS", &["non-interactive", "preserve-env", "set-home", "user", "group"]),
        "runuser" | "su" => ("ulcmpsgGf", &["user", "command", "preserve-environment", "shell", "group", "fast"]),
        "script" => ("qeacf", &["quiet", "return", "append", "command", "flush"]),
        "xargs" => ("0adEIilLnrstP", &["null", "no-run-if-empty", "max-args", "verbose"]),
        "setsid" => ("wcf", &["wait", "ctty", "fork"]),
        _ => ("", &[]),
    }
}

/// Whether every option among these words is one that changes nothing, or that a rule looks at.
pub(super) fn all_known(program: &str, options: &[&str]) -> bool {
    let (letters, names) = harmless(program);
    options.iter().take_while(|word| **word != "--").filter(|word| word.len() > 1).all(|word| {
        match (word.strip_prefix("--"), word.strip_prefix('-')) {
            (Some(name), _) => names.contains(&name.split('=').next().unwrap_or(name)),
            (None, Some(group)) => group.chars().all(|letter| letter.is_ascii_digit() || letters.contains(letter)),
            (None, None) => true,
        }
    })
}

impl Manner {
    /// A shell that waits for a foreground child.
    pub const WAITING_SHELL: Manner =
        Manner { on_term: OnTerm::Dies, on_child_end: Report::Plus(128), leaves_at_start: None, hangs_up: false };
    /// A script whose trap passes SIGTERM on and waits until the child has really ended.
    pub const FORWARDING_TRAP: Manner = Manner { on_term: OnTerm::Passes, ..Manner::WAITING_SHELL };

    /// A shell, by its real name, that stays before the worker: before a foreground child, or in its wait command.
    pub(super) fn of_shell(name: &str, in_wait: bool) -> Manner {
        let on_term = match name {
            "mksh" if in_wait => OnTerm::PassesAndLeaves(Report::Raises(143)),
            "mksh" => OnTerm::Waits,
            _ => OnTerm::Dies,
        };
        // ksh93 says 256 plus the signal, of which one byte is left when it exits with it.
        let on_child_end = Report::Plus(if is_ksh93(name) { 0 } else { 128 });
        Manner { on_term, on_child_end, ..Manner::WAITING_SHELL }
    }

    /// The status of a script that ends with that of a wait command which a trap has interrupted.
    pub(super) fn after_interrupted_wait(name: &str) -> Report {
        if is_ksh93(name) { Report::Always(1) } else { Report::Plus(128) }
    }
}

fn is_ksh93(name: &str) -> bool {
    matches!(name, "ksh" | "ksh93")
}

impl Report {
    pub(super) fn status(self, child: Status, pid1: bool) -> Status {
        match (self, child) {
            (Report::Always(code), _) => Status::Code(code),
            (_, Status::Code(_)) => child,
            (Report::Raises(_), Status::Signal(_)) if !pid1 => child,
            (Report::Raises(code), Status::Signal(_)) => Status::Code(code),
            (Report::Plus(base), Status::Signal(signal)) => {
                Status::Code(base.wrapping_add(signal.number().unsigned_abs() as u8))
            }
        }
    }
}
