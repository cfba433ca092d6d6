//! The processes that a command line makes, from the words alone.

use thiserror::Error;

use super::{Reaction, predict};
use super::{
    manner::{Manner, OnTerm, Runs, all_known, rule},
    text::{Command, Separator, commands, is_simple},
    trap::{Trap, trap_for_sigterm},
};
use crate::{OnSigterm, entrypoint::WORKER_PLACEHOLDER};

/// What `{script}` stands for: the path of a script whose text is known.
pub const SCRIPT_PLACEHOLDER: &str = "{script}";

/// What a shell was seen to do with a command in the last place: whether it becomes the command. Shells differ, so
/// each is looked at where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookedUp {
    /// The shell's real name: that of the file behind `/bin/sh`.
    pub name: String,
    /// `-c 'app'`
    pub becomes_only: bool,
    /// `-c 'setup && app'`
    pub becomes_after_and: bool,
    /// `-c 'setup; app'`
    pub becomes_after_next: bool,
    /// A script with `app` in its last line.
    pub becomes_last_of_script: bool,
}

/// Why a command's behaviour can't be told from its words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unpredictable {
    /// No rule speaks of the program.
    #[error("nothing is known of what {0:?} does with a signal")]
    UnknownProgram(String),
    /// The shell was not looked at.
    #[error("the shell {0:?} was not looked at")]
    UnknownShell(String),
    /// The text has no worker, or is not understood.
    #[error("the shell text {0:?} is not understood")]
    UnknownText(String),
}

/// What stands before a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The manners of the processes that stay before it, the top's first.
    pub before: Vec<Manner>,
    /// Whether it finds SIGTERM ignored when it is started, as after `trap '' TERM`: fork and exec keep that (signal(7)).
    pub ignored: bool,
}

impl Chain {
    /// Follows SIGTERM down the chain, to a worker of this posture; see [`predict`](super::predict).
    #[must_use]
    pub fn predict(&self, pid1: bool, posture: OnSigterm) -> Reaction {
        let posture = if self.ignored && posture == OnSigterm::Default { OnSigterm::Ignore } else { posture };
        predict(&self.before, pid1, posture)
    }
}

/// What `{worker}` in `command` stands behind. `script` is the text behind `{script}`, or the start script of npm;
/// `look_up` tells of a shell by the words that start it.
///
/// # Errors
/// The command has something in it that no rule speaks of.
pub fn chain(
    command: &[String],
    script: Option<&str>,
    look_up: &dyn Fn(&[&str]) -> Option<LookedUp>,
) -> Result<Chain, Unpredictable> {
    let mut chain = Chain::default();
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    Reader { script, look_up }.read(&words, &mut chain)?;
    Ok(chain)
}

struct Reader<'a> {
    script: Option<&'a str>,
    look_up: &'a dyn Fn(&[&str]) -> Option<LookedUp>,
}

/// Whether a text was given on the command line or is a script.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    CommandLine,
    Script,
}

impl Reader<'_> {
    fn read(&self, words: &[&str], chain: &mut Chain) -> Result<(), Unpredictable> {
        let Some((&program, arguments)) = words.split_first() else {
            return Err(Unpredictable::UnknownText(String::new()));
        };
        if program == WORKER_PLACEHOLDER {
            return Ok(());
        }
        let name = base_name(program);
        let busybox = name == "busybox";
        let (name, arguments) = match arguments.split_first() {
            Some((&applet, rest)) if busybox => (applet, rest),
            _ => (name, arguments),
        };
        let unknown = || Unpredictable::UnknownProgram(words.join(" "));
        // What it runs begins with the worker, or with the next program that is known.
        let start = arguments.iter().position(|word| *word == WORKER_PLACEHOLDER || is_known(word));
        let options = &arguments[..start.unwrap_or(arguments.len())];
        let kind = rule(name, &[]).ok_or_else(|| Unpredictable::UnknownProgram(program.to_owned()))?.runs;
        let rule = rule(name, if kind == Runs::Words { options } else { arguments }).ok_or_else(unknown)?;
        if rule.runs == Runs::Text {
            let shell = &words[..=usize::from(busybox)];
            let looked_up = (self.look_up)(shell).ok_or_else(|| Unpredictable::UnknownShell(shell.join(" ")))?;
            let (text, place) = self.text(arguments)?;
            return self.read_text(text, place, &looked_up, chain);
        }
        if rule.runs != Runs::StartScript && !all_known(name, if kind == Runs::Words { options } else { arguments }) {
            return Err(unknown());
        }
        if chain.ignored && rule.manner.is_some() {
            return Err(unknown());
        }
        chain.before.extend(rule.manner);
        if rule.runs == Runs::Words {
            return self.read(&arguments[start.ok_or_else(unknown)?..], chain);
        }
        // The others run a text with a shell: the one that they are told, or else sh.
        let shell = option(arguments, 's').unwrap_or("sh");
        let looked_up = (self.look_up)(&[shell]).ok_or_else(|| Unpredictable::UnknownShell(shell.to_owned()))?;
        let text = match rule.runs {
            Runs::StartScript => self.script,
            _ => option(arguments, 'c'),
        };
        let text = text.ok_or_else(|| Unpredictable::UnknownText(words.join(" ")))?;
        self.read_text(text, Place::CommandLine, &looked_up, chain)
    }

    /// The text that a shell with these arguments runs.
    fn text<'a>(&'a self, arguments: &[&'a str]) -> Result<(&'a str, Place), Unpredictable> {
        let script = || arguments.iter().find(|word| **word == SCRIPT_PLACEHOLDER).and(self.script);
        let found = option(arguments, 'c').map(|text| (text, Place::CommandLine));
        let found = found.or_else(|| script().map(|text| (text, Place::Script)));
        found.ok_or_else(|| Unpredictable::UnknownText(arguments.join(" ")))
    }

    fn read_text(&self, text: &str, place: Place, shell: &LookedUp, chain: &mut Chain) -> Result<(), Unpredictable> {
        let unknown = || Unpredictable::UnknownText(text.to_owned());
        let commands = commands(text);
        let runs_worker = |command: &Command| command.words.iter().any(|word| word.contains(WORKER_PLACEHOLDER));
        let index = commands.iter().position(runs_worker).ok_or_else(unknown)?;
        let (before, worker, after) = (&commands[..index], &commands[index], &commands[index + 1..]);
        let words: Vec<&str> = worker.words.iter().map(String::as_str).collect();
        // The last command of a pipeline may run in the shell itself, or not: shells differ.
        if before.last().is_some_and(|one| one.then == Separator::Pipe) {
            return Err(unknown());
        }
        let piped = worker.then == Separator::Pipe;
        let background = worker.then == Separator::Background;
        let (exec, words) = match words.split_first() {
            Some((&"exec", rest)) => (!piped && !background, rest),
            _ => (false, &words[..]),
        };
        // A here-document, and the end of a compound command.
        if !exec && words.iter().any(|word| word.starts_with("<<") || word.starts_with([')', '}'])) {
            return Err(unknown());
        }
        let trap = trap_for_sigterm(before, after, background).map_err(|()| unknown())?;
        let becomes = if exec {
            true
        } else {
            let in_front = !piped && !background && after.is_empty();
            let seen = match (in_front, before.last().map(|one| one.then)) {
                (false, _) => false,
                (_, None) if place == Place::CommandLine => shell.becomes_only,
                (_, Some(Separator::And)) if place == Place::CommandLine => shell.becomes_after_and,
                (_, Some(Separator::Next)) if place == Place::CommandLine => shell.becomes_after_next,
                (_, None | Some(Separator::Next)) => shell.becomes_last_of_script,
                (_, Some(_)) => return Err(unknown()),
            };
            // It was looked at with a text that has nothing else in it: redirections, traps and a line's end all count.
            let trailing = place == Place::CommandLine && !text.ends_with(WORKER_PLACEHOLDER);
            if seen && trap.is_none() && (trailing || !is_simple(before) || words != [WORKER_PLACEHOLDER]) {
                return Err(unknown());
            }
            seen && trap.is_none()
        };
        // A shell can't take back what was ignored when it was started (POSIX, trap).
        chain.ignored |= trap == Some(Trap::Ignores);
        if !becomes {
            let waits = after.iter().any(|command| command.words.iter().any(|word| word == "wait"));
            let manner = Manner::of_shell(&shell.name, background && waits);
            let manner = match trap {
                _ if chain.ignored => Manner { on_term: OnTerm::Ignores, ..manner },
                None | Some(Trap::Ignores) => manner,
                Some(_) if !background => Manner { on_term: OnTerm::Waits, ..manner },
                Some(Trap::Passes(waiting)) => waiting.of(manner, &shell.name),
                Some(Trap::Acts) => return Err(unknown()),
            };
            let leaves_at_start = (background && !waits).then_some(0);
            chain.before.push(Manner { leaves_at_start, ..manner });
        }
        self.read(words, chain)
    }
}

/// The argument of a one-letter option, which may come last in a group as in `-qec`.
fn option<'a>(arguments: &[&'a str], letter: char) -> Option<&'a str> {
    let is_option = |word: &&str| word.starts_with('-') && !word.starts_with("--") && word.ends_with(letter);
    let index = arguments.iter().take_while(|word| **word != "--").position(is_option)?;
    arguments.get(index + 1).copied()
}

fn is_known(word: &str) -> bool {
    rule(base_name(word), &[]).is_some() || base_name(word) == "busybox"
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}
