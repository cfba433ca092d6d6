//! Foreign workers: programs in whatever language that keep to the worker contract and are drilled like our own.
//!
//! What they can't have without packages, they have in another form: a named pipe beside the notify socket, and a file
//! of JSON Lines beside the SQLite store.

pub mod lines;
pub mod pipe;

use serde::{Deserialize, Serialize};

use crate::{cli::ClockChoice, failure::Failure};

/// The command that starts a foreign worker, as words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Command(Vec<String>);

impl Command {
    /// Reads what was given to `--worker`: words as a shell splits them, without anything else that a shell does.
    ///
    /// # Errors
    /// It is empty, a quote is not closed, or the clock is one that only our own workers follow.
    pub fn read(line: &str, clock: Option<ClockChoice>) -> Result<Command, Failure> {
        let words = shlex::split(line).ok_or_else(|| {
            Failure::bad_input(format!("--worker: {line:?} can't be split into words"))
                .hint("is there a quote that is not closed, or a backslash at the end?")
        })?;
        if words.first().is_none_or(String::is_empty) {
            return Err(Failure::bad_input("--worker: the command is empty")
                .hint("give a program and its arguments, for example --worker 'python3 worker.py'"));
        }
        if clock == Some(ClockChoice::Stepped) {
            return Err(Failure::bad_input("--worker: foreign workers run on the scaled clock only")
                .hint("leave --clock out; a stepped clock takes a protocol that only termdrill's own worker speaks"));
        }
        Ok(Command(words))
    }

    /// Its words, the program first.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.0
    }

    /// As a person reads it.
    #[must_use]
    pub fn line(&self) -> String {
        shlex::try_join(self.0.iter().map(String::as_str)).unwrap_or_else(|_| self.0.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_a_shell_does_it() {
        let command = Command::read("java -cp 'my classes' Worker", None).unwrap();
        assert_eq!(command.words(), ["java", "-cp", "my classes", "Worker"]);
        assert_eq!(command.line(), "java -cp 'my classes' Worker");
        // Nothing else of a shell.
        assert_eq!(Command::read("worker $HOME *", None).unwrap().words(), ["worker", "$HOME", "*"]);
    }

    #[test]
    fn what_is_no_command_is_an_error_that_says_what_to_do() {
        for (line, clock, what) in [
            ("", None, "empty"),
            ("   ", None, "empty"),
            ("''", None, "empty"),
            ("python3 'worker.py", None, "can't be split"),
            ("python3 worker.py", Some(ClockChoice::Stepped), "scaled clock only"),
        ] {
            let failure = Command::read(line, clock).unwrap_err();
            assert!(failure.to_string().contains(what), "{line}: {failure}");
        }
        assert!(Command::read("python3 worker.py", Some(ClockChoice::Scaled)).is_ok());
    }
}
