//! Sends the signals of a drill.

use std::io;

use rustix::io::Errno;
use scenarios::Signal;

use super::{Run, own_pid};
use crate::{
    check::{profiles::Target, record::Sending},
    evidence::ProcessFacts,
    failure::plain_io,
    process::{self, Other},
};

/// To whom a signal was sent, by pid, and what the kernel said where one could not get it.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) pids: Vec<i32>,
    refused: Option<Errno>,
}

impl Sent {
    fn note(&mut self, pid: i32, sent: io::Result<()>) {
        match sent {
            Ok(()) => self.pids.push(pid),
            // One that has ended by itself meanwhile gets nothing, and that is no fault (ESRCH).
            Err(error) => {
                let refused = Errno::from_io_error(&error).filter(|errno| *errno != Errno::SRCH);
                self.refused = self.refused.or(refused);
            }
        }
    }

    /// What is recorded of it, where anybody got it.
    pub(super) fn at(self, signal: Signal, at_us: i64) -> Option<Sending> {
        (!self.pids.is_empty()).then_some(Sending { signal, at_us, pids: self.pids })
    }

    /// Why nobody got it although somebody was there, in words that end a sentence.
    pub(super) fn unable(&self, signal: Signal) -> Option<String> {
        let refused = self.refused.filter(|_| self.pids.is_empty())?;
        let next = match refused {
            Errno::PERM => "; it runs as another user (sudo, setuid): run the check as that one, or as root",
            _ => "",
        };
        Some(format!("{signal} can't be sent to it: {}{next}", plain_io(&refused.into())))
    }
}

impl Run<'_> {
    /// Sends a signal.
    pub(super) fn send(&self, signal: Signal, to: Target) -> Sent {
        let others: Vec<Other> = match to {
            Target::Top => Vec::new(),
            Target::Group | Target::All => process::descendants(own_pid()),
        };
        let in_group = |pid: i32| ProcessFacts::read(pid).is_ok_and(|process| process.group == self.top_pid_of_group());
        let mut sent = Sent::default();
        // A zombie takes every signal.
        if let Some(top) = self.top.as_ref().filter(|top| !top.has_ended()) {
            sent.note(top.pid(), top.signal(signal));
        }
        for other in others.iter().filter(|other| other.pid() != self.top_pid) {
            if to == Target::All || in_group(other.pid()) {
                sent.note(other.pid(), other.signal(signal));
            }
        }
        sent
    }

    /// The group of the first process, which leads a session and so a group of its own.
    fn top_pid_of_group(&self) -> i32 {
        ProcessFacts::read(self.top_pid).map_or(self.top_pid, |top| top.group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_nobody_may_be_sent_is_no_silence() {
        let sent = |results: &[Result<(), Errno>]| {
            let mut sent = Sent::default();
            (1..).zip(results).for_each(|(pid, result)| sent.note(pid, result.map_err(io::Error::from)));
            sent
        };
        let (gone, forbidden) = (Err(Errno::SRCH), Err(Errno::PERM));
        let refused = sent(&[gone, forbidden]).unable(Signal::TERM).unwrap();
        assert!(refused.starts_with("SIGTERM can't be sent to it: "), "{refused}");
        assert!(refused.contains("as root"), "{refused}");
        for reached in [&[gone][..], &[Ok(()), forbidden], &[Ok(())], &[]] {
            assert_eq!(sent(reached).unable(Signal::TERM), None, "{reached:?}");
        }
    }
}
