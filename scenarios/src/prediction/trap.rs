//! Traps for SIGTERM in a shell text: what they do, as far as that is known.

use super::{
    manner::{Manner, OnTerm, Report},
    text::{Command, Separator, commands},
};

/// What a text does about SIGTERM itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trap {
    /// `trap '' TERM`
    Ignores,
    /// Its action passes SIGTERM on to the worker; how the worker is waited for then.
    Passes(Waiting),
    /// Something else.
    Acts,
}

/// How a script waits for a worker that it has passed SIGTERM on to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// Until it is gone: the status is the worker's.
    UntilGone,
    /// Until it is gone; the status is another.
    ThenExits(u8),
    /// Until it is gone, within the trap; the status is that of the wait command that the trap interrupted.
    InTrap,
    /// Once: the trap interrupts that.
    Once,
    /// Not at all: the trap exits with this code.
    Exits(u8),
}

impl Waiting {
    /// The manner of a shell that otherwise has `manner`.
    pub(super) fn of(self, manner: Manner, shell: &str) -> Manner {
        let interrupted = Manner::after_interrupted_wait(shell);
        let (on_term, on_child_end) = match self {
            Waiting::UntilGone => (OnTerm::Passes, manner.on_child_end),
            Waiting::ThenExits(code) => (OnTerm::Passes, Report::Always(code)),
            // 128 plus the number of SIGTERM, which interrupted it, whatever became of the worker.
            Waiting::InTrap if interrupted == Report::Plus(128) => (OnTerm::Passes, Report::Always(143)),
            Waiting::InTrap => (OnTerm::Passes, interrupted),
            Waiting::Once => (OnTerm::PassesAndLeaves(interrupted), manner.on_child_end),
            Waiting::Exits(code) => (OnTerm::PassesAndLeaves(Report::Always(code)), manner.on_child_end),
        };
        Manner { on_term, on_child_end, ..manner }
    }
}

/// The trap that is set for SIGTERM while the worker runs, from the commands before the worker's and after it. `Err` where a trap
/// that runs at the end of the shell has a say, too: whether it does so after a signal differs between shells.
pub(super) fn trap_for_sigterm(before: &[Command], after: &[Command], background: bool) -> Result<Option<Trap>, ()> {
    // What comes after a foreground worker, or after the first wait for one in the background, is not reached before the signal.
    let waits =
        |command: &Command| command.words.iter().any(|word| word == "wait" || word == "while" || word == "until");
    let reached = if background { after.iter().position(waits).unwrap_or(after.len()) } else { 0 };
    let mut set = None;
    for command in before.iter().chain(&after[..reached]) {
        let [trap, action, signals @ ..] = &command.words[..] else { continue };
        if trap != "trap" {
            continue;
        }
        if action != "-" && signals.iter().any(|signal| signal == "EXIT" || signal == "0") {
            return Err(());
        }
        if signals.iter().any(|signal| matches!(signal.as_str(), "TERM" | "SIGTERM" | "15")) {
            set = (action != "-").then_some(action.as_str());
        }
    }
    Ok(set.map(|action| match (action.is_empty(), passes(action)) {
        (true, _) => Trap::Ignores,
        (false, Some(then)) => waiting(then, &after[reached..]).map_or(Trap::Acts, Trap::Passes),
        (false, None) => Trap::Acts,
    }))
}

/// What an action does after it has passed SIGTERM on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Returns,
    Waits,
    WaitsAndExits(Option<u8>),
    Exits(u8),
}

/// What an action does after it has passed SIGTERM on to one process; `None` where it does anything else.
fn passes(action: &str) -> Option<Then> {
    let steps = commands(action);
    let (kill, rest) = steps.split_first()?;
    let words: Vec<&str> = kill.words.iter().map(String::as_str).filter(|word| *word != "2>/dev/null").collect();
    let whom = match words[..] {
        ["kill", whom]
        | ["kill", "-TERM" | "-15" | "-SIGTERM", whom]
        | ["kill", "-s", "TERM" | "SIGTERM" | "15", whom] => whom,
        _ => return None,
    };
    let is_one_process = whom.starts_with('$') && whom != "$$" && !whom.contains(['(', ' ']);
    if !is_one_process || steps.iter().any(|step| step.then != Separator::Next) {
        return None;
    }
    let mut then = Then::Returns;
    for step in rest {
        let words: Vec<&str> = step.words.iter().map(String::as_str).collect();
        then = match (then, &words[..]) {
            (Then::Returns, [assignment]) if assignment.contains('=') => Then::Returns,
            (Then::Returns, ["wait"] | ["wait", _]) => Then::Waits,
            (Then::Waits, ["exit", "$?"]) => Then::WaitsAndExits(None),
            (Then::Waits, ["exit", code]) => Then::WaitsAndExits(Some(code.parse().ok()?)),
            (Then::Returns, ["exit", code]) => Then::Exits(code.parse().ok()?),
            _ => return None,
        };
    }
    Some(then)
}

/// How the worker is waited for, from what the action does and from the first wait on.
fn waiting(then: Then, from_wait: &[Command]) -> Option<Waiting> {
    let is_wait = |command: &&Command| command.words[0] == "wait";
    let waits = from_wait.iter().take_while(is_wait).count();
    let named = from_wait[..waits].last().is_some_and(|wait| wait.words.len() > 1);
    let again = from_wait.iter().any(|command| matches!(command.words[0].as_str(), "while" | "until"));
    let rest: Vec<&str> = from_wait[waits..].iter().flat_map(|command| &command.words).map(String::as_str).collect();
    match (then, waits, &rest[..]) {
        (Then::Exits(code), 1.., _) => Some(Waiting::Exits(code)),
        (Then::WaitsAndExits(None), 1.., _) => Some(Waiting::UntilGone),
        (Then::WaitsAndExits(Some(code)), 1.., _) => Some(Waiting::ThenExits(code)),
        (Then::Waits, 1, [] | ["exit"] | ["exit", "$?"]) => Some(Waiting::InTrap),
        (Then::Returns, _, _) if again => Some(Waiting::UntilGone),
        (Then::Returns, 1, [] | ["exit"] | ["exit", "$?"]) => Some(Waiting::Once),
        // Without a name it reports nobody's status.
        (Then::Returns, 2.., [] | ["exit"] | ["exit", "$?"]) => {
            Some(if named { Waiting::UntilGone } else { Waiting::ThenExits(0) })
        }
        _ => None,
    }
}
