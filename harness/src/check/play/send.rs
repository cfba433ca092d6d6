//! Sends the signals of a drill.

use scenarios::Signal;

use super::{Run, own_pid};
use crate::{
    check::profiles::Target,
    evidence::ProcessFacts,
    process::{self, Other},
};

impl Run<'_> {
    /// Sends a signal, and tells to whom.
    pub(super) fn send(&self, signal: Signal, to: Target) -> Vec<i32> {
        let others: Vec<Other> = match to {
            Target::Top => Vec::new(),
            Target::Group | Target::All => process::descendants(own_pid()),
        };
        let in_group = |pid: i32| ProcessFacts::read(pid).is_ok_and(|process| process.group == self.top_pid_of_group());
        let mut pids = Vec::new();
        // One that has ended by itself meanwhile gets nothing.
        if let Some(top) = self.top.as_ref().filter(|top| !top.has_ended() && top.signal(signal).is_ok()) {
            pids.push(top.pid());
        }
        for other in others.iter().filter(|other| other.pid() != self.top_pid) {
            if (to == Target::All || in_group(other.pid())) && other.signal(signal).is_ok() {
                pids.push(other.pid());
            }
        }
        pids
    }

    /// The group of the first process, which leads a session and so a group of its own.
    fn top_pid_of_group(&self) -> i32 {
        ProcessFacts::read(self.top_pid).map_or(self.top_pid, |top| top.group)
    }
}
