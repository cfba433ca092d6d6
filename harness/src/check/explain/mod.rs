//! Where the signal went, and the one change to make. Pure: from what was observed, and nothing else.

mod change;
mod direct;
mod kernel;
mod story;
mod wrapped;

use std::ffi::OsString;

use self::story::Story;
use super::{
    fate::Phase,
    record::{Cause, Explanation, Observed},
    settings::Settings,
};
use crate::entry::is_text;

/// Explains what became of the signal.
#[must_use]
pub fn explain(settings: &Settings, observed: &Observed) -> Explanation {
    let signal = settings.signal;
    if observed.memory.is_some() {
        let (cause, sent) = match &observed.signal {
            None => (Cause::NotSent, "was not sent"),
            Some(_) => (Cause::Unknown, "was sent"),
        };
        let text = format!("{signal} {sent}; all processes of the command were killed, since the memory ran out.");
        let change = "let it hold less, or see what it does within a limit of its own (ulimit -v, or a container's).";
        return Explanation::new(cause, text).change(change);
    }
    if observed.signal.is_none() {
        let why = if observed.ended_early { ": the command had ended before it" } else { "" };
        let change = not_expanded(settings).or_else(|| observed.ended_early.then(|| early(observed)).flatten());
        return Explanation { change, ..Explanation::new(Cause::NotSent, format!("{signal} was not sent{why}.")) };
    }
    let Some(story) = Story::of(settings, observed) else {
        let text = format!("{signal} was sent; the processes were gone before they could be looked at.");
        return Explanation::new(Cause::Unknown, text);
    };
    let told = if story.is_direct() { story.direct() } else { story.wrapped() };
    let record = story.kernel_record().map_or(String::new(), |record| format!(" {record}"));
    let change =
        never_answered(observed).or(told.change).or_else(|| story.for_the_lost()).or_else(|| story.for_the_refused());
    let second = story.second_besides(&told.text).map_or(String::new(), |second| format!(" {second}"));
    Explanation { change, text: told.text + &second + &record, cause: told.cause }
}

/// What to do about a command that answered nothing of what was asked before the signal.
fn never_answered(observed: &Observed) -> Option<String> {
    let mut before = observed.requests.iter().filter(|request| request.phase == Phase::Before).peekable();
    before.peek()?;
    before.all(|request| request.status.is_none()).then(|| {
        "ask for something that it answers: nothing was answered over HTTP before the signal (--request, --port)."
            .to_owned()
    })
}

/// What to do about a command that ended before anything was asked of it.
fn early(observed: &Observed) -> Option<String> {
    let left = observed.at_end.as_ref().map_or(0, |at_end| at_end.alive().count());
    (left > 0).then(|| {
        "run it in the foreground: a platform takes the end of the first process for the end of all.".to_owned()
    })
}

/// What to do about a variable that nobody expands.
fn not_expanded(settings: &Settings) -> Option<String> {
    let names_it = |word: &String| word.contains("$PORT") || word.contains("${PORT}");
    (!has_text(&settings.command) && settings.command.iter().any(names_it)).then(|| {
        "put the command into sh -c 'exec COMMAND': without a shell nobody puts the port in the place of $PORT."
            .to_owned()
    })
}

/// Whether one of the words is a text that a shell reads, as with `sh -c`.
fn has_text(command: &[String]) -> bool {
    let words: Vec<OsString> = command.iter().map(OsString::from).collect();
    (1..words.len()).any(|at| is_text(&words[..at]))
}
