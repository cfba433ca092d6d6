//! What became of a worker that ended, from all that is known of its end. Pure.

use scenarios::{OnSigterm, Status, prediction::WorkerFate};

/// What is known of a worker that ended within the grace period.
#[derive(Clone, Copy)]
pub(super) struct WorkerEnd {
    /// How, where the kernel tells.
    pub(super) status: Option<Status>,
    /// It said that it drains.
    pub(super) told: bool,
    /// Whether the top was gone before it, where that was seen.
    pub(super) left_first: Option<bool>,
    /// Its result is in the store.
    pub(super) committed: bool,
}

impl WorkerEnd {
    /// What became of it.
    ///
    /// # Errors
    /// Why that can't be told.
    pub(super) fn fate(self, posture: OnSigterm) -> Result<WorkerFate, String> {
        match self.status {
            Some(Status::SUCCESS) if self.told => self.drained(),
            Some(Status::SIGTERM) => Ok(WorkerFate::Died),
            // By the end of its namespace or of its terminal, or by one who lost patience.
            Some(Status::Signal(_)) => Ok(WorkerFate::Cut),
            Some(status) => Err(format!("the worker ended oddly: {status}")),
            None if self.told && self.committed => self.drained(),
            // With a handler or SIG_IGN it ends by itself in no other way.
            None if posture != OnSigterm::Default => Ok(WorkerFate::Cut),
            None => Err("only Linux 6.15 and later tell what the worker died of".to_owned()),
        }
    }

    fn drained(self) -> Result<WorkerFate, String> {
        match self.left_first {
            Some(true) => Ok(WorkerFate::DrainedAlone),
            Some(false) => Ok(WorkerFate::Drained),
            None => Err("the machine was too slow: what ended first was not seen".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use OnSigterm::{Default, Drain, Ignore};

    use super::*;

    /// An older kernel does not tell what the worker died of; all but one question can be answered without.
    #[test]
    fn what_the_kernel_does_not_tell_is_told_by_worker_and_store() {
        let end =
            |status, told, left_first, committed| WorkerEnd { status, told, left_first: Some(left_first), committed };
        let rows = [
            (Drain, end(Some(Status::SUCCESS), true, false, true), WorkerFate::Drained),
            (Drain, end(Some(Status::SUCCESS), true, true, true), WorkerFate::DrainedAlone),
            (Drain, end(Some(Status::SIGKILL), true, true, false), WorkerFate::Cut),
            (Ignore, end(Some(Status::SIGKILL), false, true, false), WorkerFate::Cut),
            (Default, end(Some(Status::SIGTERM), false, true, false), WorkerFate::Died),
            (Default, end(Some(Status::SIGKILL), false, true, false), WorkerFate::Cut),
        ];
        for (posture, end, expected) in rows {
            assert_eq!(end.fate(posture), Ok(expected), "{posture:?}");
            let untold = WorkerEnd { status: None, ..end }.fate(posture);
            if posture == Default {
                assert!(untold.is_err_and(|why| why.contains("Linux 6.15")));
            } else {
                assert_eq!(untold, Ok(expected), "{posture:?}");
            }
        }
        assert!(
            end(Some(Status::Code(1)), true, false, true).fate(Drain).is_err_and(|why| why.contains("exit code 1"))
        );
        assert!(end(Some(Status::SUCCESS), false, false, true).fate(Drain).is_err());
    }

    /// Only one that drained can have been left by a top that did not wait for it.
    #[test]
    fn what_ended_first_matters_where_it_drained() {
        let end = |status, told| WorkerEnd { status: Some(status), told, left_first: None, committed: told };
        assert!(end(Status::SUCCESS, true).fate(Drain).is_err_and(|why| why.contains("too slow")));
        assert!(WorkerEnd { status: None, ..end(Status::SUCCESS, true) }.fate(Drain).is_err());
        assert_eq!(end(Status::SIGTERM, false).fate(Default), Ok(WorkerFate::Died));
        assert_eq!(end(Status::SIGKILL, true).fate(Drain), Ok(WorkerFate::Cut));
    }
}
