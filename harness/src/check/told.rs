//! What came of telling a check: shown, reported and stored, each of it whatever became of the rest.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use super::record::Verdict;
use crate::failure;

/// What went wrong so far, if anything.
#[derive(Debug, Default)]
pub(super) struct Told(Option<anyhow::Error>);

impl Told {
    /// Notes whether something was told. The first that was not is what a person gets to know of.
    pub(super) fn note<E: Into<anyhow::Error>>(&mut self, done: Result<(), E>) {
        if let Err(error) = done {
            self.0.get_or_insert(error.into());
        }
    }

    /// The exit status. That a server failed is not taken back by a report that could not be written.
    ///
    /// # Errors
    /// What could not be told, where the check did not fail.
    pub(super) fn end(self, verdict: Verdict) -> anyhow::Result<ExitCode> {
        match self.0 {
            Some(error) if verdict != Verdict::Fail => return Err(error),
            Some(error) => {
                // With stderr gone there is nobody left to tell.
                let _ = io::stderr().write_all(failure::explain(&error).0.as_bytes());
            }
            None => {}
        }
        Ok(ExitCode::from(verdict.exit_code()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    #[test]
    fn what_could_not_be_written_does_not_take_back_that_the_server_failed() {
        for (verdict, is_error) in [(Verdict::Pass, true), (Verdict::Inconclusive, true), (Verdict::Fail, false)] {
            let mut told = Told::default();
            told.note(Ok::<(), Failure>(()));
            for what in ["the first", "the second"] {
                told.note(Err(Failure::unable(what)));
            }
            match told.end(verdict) {
                Err(error) => assert!(is_error && error.to_string() == "the first", "{verdict:?} {error:?}"),
                Ok(code) => assert!(!is_error && code == ExitCode::from(1), "{verdict:?} {code:?}"),
            }
            assert_eq!(Told::default().end(verdict).unwrap(), ExitCode::from(verdict.exit_code()));
        }
    }
}
