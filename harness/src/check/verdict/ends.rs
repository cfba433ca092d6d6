//! By what a process ended: by our SIGKILL, by the kernel along with PID 1, or by somebody else. Pure.

use scenarios::{Signal, Status};

use crate::{
    check::record::Observed,
    evidence::{ProcessEnd, ProcessFacts},
};

/// How long after those that it takes with it PID 1 is seen to end, at most, in microseconds.
const WITH_PID1_US: i64 = 20_000;

/// Whether the kernel killed a process since PID 1 of its namespace, another process, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It did.
    Yes,
    /// It ended in another way.
    No,
    /// They ended together, and the kernel does not tell how (before Linux 6.15).
    Unknown,
}

impl Cut {
    /// Of the process with this pid.
    #[must_use]
    pub fn of(observed: &Observed, pid: i32) -> Cut {
        let top = observed.top_pid.filter(|&top| top != pid);
        let facts = observed.before.as_ref().zip(top).and_then(|(before, top)| before.process(top));
        let Some(top) = facts.filter(|top| top.is_init()) else { return Cut::No };
        let ended = |pid: i32| observed.ends.iter().find(|end| end.pid == pid);
        let Some((at_us, status)) = ended(pid).and_then(|end| Some((end.at_us?, end.status))) else { return Cut::No };
        if was_sent_sigkill(observed, pid) {
            return Cut::No;
        }
        let sigkill = observed.sigkill.as_ref().filter(|_| top_was_killed(observed));
        let killed_with_it = sigkill.is_some_and(|sent| at_us >= sent.at_us);
        let together = match observed.top_was_ending.filter(|_| observed.app_pid == Some(pid)) {
            Some(was_ending) => was_ending,
            None => ended(top.pid).and_then(|top| top.at_us).is_some_and(|top_us| top_us - at_us < WITH_PID1_US),
        };
        match status {
            Some(Status::SIGKILL) if together || killed_with_it => Cut::Yes,
            None if killed_with_it => Cut::Yes,
            None if together => Cut::Unknown,
            _ => Cut::No,
        }
    }
}

/// Whether the process was sent SIGKILL as `--signal` or `--second-signal`.
fn was_sent_sigkill(observed: &Observed, pid: i32) -> bool {
    let asked = [&observed.signal, &observed.second_signal];
    asked.into_iter().flatten().any(|sent| sent.signal == Signal::KILL && sent.pids.contains(&pid))
}

/// Whether SIGKILL was sent as `--signal` or `--second-signal`.
pub(super) fn asked_for_sigkill(observed: &Observed) -> bool {
    [&observed.signal, &observed.second_signal].into_iter().flatten().any(|sent| sent.signal == Signal::KILL)
}

/// Whether the first process was ended by our SIGKILL.
#[must_use]
pub fn top_was_killed(observed: &Observed) -> bool {
    let sent =
        observed.sigkill.as_ref().is_some_and(|sent| observed.top_pid.is_some_and(|top| sent.pids.contains(&top)));
    sent && observed.exit.is_none_or(|status| status == Status::SIGKILL)
}

/// The processes that were there at the end of the grace period, and were ended by our SIGKILL to them.
#[must_use]
pub fn outlived(observed: &Observed) -> Vec<i32> {
    let Some(sent) = &observed.sigkill else { return Vec::new() };
    let killed = |end: &&ProcessEnd| {
        sent.pids.contains(&end.pid)
            && end.status.is_none_or(|status| status == Status::SIGKILL)
            && end.at_us.is_none_or(|at_us| at_us >= sent.at_us)
    };
    observed.ends.iter().filter(killed).map(|end| end.pid).collect()
}

/// Whether the app lived and was killed by the kernel when PID 1, which is another process, ended by itself.
#[must_use]
pub fn app_was_cut(observed: &Observed) -> Cut {
    observed.app_pid.filter(|_| !top_was_killed(observed)).map_or(Cut::No, |app| Cut::of(observed, app))
}

/// By whom the app below the first process was killed, where somebody else did it with SIGKILL: in words.
pub(super) fn app_was_killed_by_others(observed: &Observed) -> Option<String> {
    let (app, top) = (observed.app_pid?, observed.top_pid?);
    let end = observed.ends.iter().find(|end| end.pid == app && end.status == Some(Status::SIGKILL))?;
    // What was killed after the end was cleaned up.
    let at_us = end.at_us.filter(|&at_us| at_us <= observed.end_us)?;
    if app == top
        || observed.sigkill.as_ref().is_some_and(|sent| at_us >= sent.at_us)
        || was_sent_sigkill(observed, app)
        || Cut::of(observed, app) != Cut::No
    {
        return None;
    }
    let (app, top) = (name(observed, app), name(observed, top));
    let before = observed.top_gone_us.is_none_or(|top_us| at_us <= top_us);
    let before = if before { format!(" before {top} ended") } else { String::new() };
    Some(format!("{app} was killed by SIGKILL{before}, and not by this check."))
}

/// What a process is called.
pub(super) fn name(observed: &Observed, pid: i32) -> &str {
    observed.snapshots().find_map(|snapshot| snapshot.process(pid)).map_or("a process", ProcessFacts::program)
}
