//! What goes wrong outside a drill, as it is told to a person: what, what to do next, and the exit status.

use std::{
    io::{self, Write},
    path::Path,
};

use thiserror::Error;

/// The exit status for bad usage and bad input.
pub const BAD_INPUT: u8 = 2;
/// The exit status where the machine is in the way: a full disk, a missing facility.
pub const UNABLE: u8 = 3;

/// Something that a person has to know and can do something about.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}")]
pub struct Failure {
    /// What is wrong, without a full stop; it names the file, option or value.
    pub what: String,
    /// What to do about it.
    pub next_step: Option<String>,
    /// The exit status that goes with it.
    pub exit_code: u8,
}

impl Failure {
    /// Bad usage or input.
    #[must_use]
    pub fn bad_input(what: impl Into<String>) -> Failure {
        Failure { what: what.into(), next_step: None, exit_code: BAD_INPUT }
    }

    /// The machine is in the way.
    #[must_use]
    pub fn unable(what: impl Into<String>) -> Failure {
        Failure { what: what.into(), next_step: None, exit_code: UNABLE }
    }

    /// The same with a next step.
    #[must_use]
    pub fn hint(mut self, next_step: impl Into<String>) -> Failure {
        self.next_step = Some(next_step.into());
        self
    }

    /// The same as bad input: what a person named can't be used.
    #[must_use]
    pub fn as_bad_input(mut self) -> Failure {
        self.exit_code = BAD_INPUT;
        self
    }

    /// A file operation that failed: `doing` is what was tried, such as `write`.
    #[must_use]
    pub fn of_io(doing: &str, path: &Path, error: &io::Error) -> Failure {
        let failure = Failure::unable(format!("can't {doing} {}: {}", path.display(), plain_io(error)));
        match next_step(error) {
            Some(step) => failure.hint(step),
            None => failure,
        }
    }
}

/// The error without the number that Rust puts behind it.
pub(crate) fn plain_io(error: &io::Error) -> String {
    let text = error.to_string();
    let cut = text.find(" (os error").unwrap_or(text.len());
    text[..cut].to_lowercase()
}

fn next_step(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("free some space, or store the run elsewhere with --out DIR")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Some("store the run where you may write: set XDG_STATE_HOME, or give --out DIR")
        }
        io::ErrorKind::NotADirectory => Some("something on the way there is a file; choose another place"),
        _ => None,
    }
}

/// What stands on stderr for an error, and the exit status: its own where it is a [`Failure`], else [`UNABLE`].
#[must_use]
pub fn explain(error: &anyhow::Error) -> (String, u8) {
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    let mut said: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        // Many libraries end their own words with those of the cause.
        if said.last().is_none_or(|last| !last.ends_with(&cause)) {
            said.push(cause);
        }
    }
    let mut text = format!("error: {}\n", said.join(": "));
    if let Some(step) = failure.and_then(|failure| failure.next_step.as_deref()) {
        text.push_str(&format!(" hint: {step}\n"));
    }
    (text, failure.map_or(UNABLE, |failure| failure.exit_code))
}

/// Adds to what to do about an error, where it is one that tells.
pub(crate) fn add_step(error: &mut anyhow::Error, step: &str) {
    if let Some(failure) = error.downcast_mut::<Failure>() {
        failure.next_step = Some(match failure.next_step.take() {
            Some(first) => format!("{first}; {step}"),
            None => step.to_owned(),
        });
    }
}

/// Tells a person on stderr of what does not keep a command from going on: `text` has no full stop.
pub fn warn(text: &str) {
    // With stderr gone there is nobody left to tell.
    let _ = io::stderr().write_all(format!("warning: {text}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn an_error_says_what_and_what_next() {
        let full = io::Error::from_raw_os_error(28);
        let failure = Failure::of_io("write", Path::new("runs/x/record.json"), &full);
        let error = Err::<(), _>(failure).context("the run is not stored").unwrap_err();
        let (text, code) = explain(&error);
        assert_eq!(
            text,
            "error: the run is not stored: can't write runs/x/record.json: no space left on device\n hint: free some \
             space, or store the run elsewhere with --out DIR\n"
        );
        assert_eq!(code, UNABLE);
    }

    #[test]
    fn nothing_is_said_twice() {
        let full = io::Error::from_raw_os_error(28);
        let store = anyhow::Error::new(worker::store::StoreError::Create(full)).context("no drill");
        let (text, _) = explain(&store);
        assert_eq!(text.matches("No space left on device").count(), 1, "{text}");
    }

    #[test]
    fn bad_input_has_a_status_of_its_own() {
        assert_eq!(explain(&Failure::bad_input("no").into()), ("error: no\n".to_owned(), BAD_INPUT));
        assert_eq!(explain(&anyhow::anyhow!("odd")).1, UNABLE);
    }
}
