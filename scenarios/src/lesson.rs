//! What the catalogue is known to come to, as literals that were checked by hand against the contract. Nothing
//! computes them: the model must give them, and so must real processes.

use std::ops::RangeInclusive;

use crate::{Event, EventKind, Gate, Outcome, Reason, ShellBehaviour, Status, Tick, WorkerId, WorkerState};

mod capacity;
mod processes;

/// What one scenario of the catalogue comes to. Times are in whole model seconds, requests and workers by number.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// The scenario's name.
    pub scenario: &'static str,
    /// The machines for which it holds: those whose `/bin/sh` does this. `None`: all.
    pub shell: Option<ShellBehaviour>,
    /// How many requests arrive, how many of them are admitted, and how many rejected.
    pub counts: [u16; 3],
    /// Which requests are rejected, by reason in the order in which the reasons first occur.
    pub reasons: &'static [(Reason, &'static [RangeInclusive<u16>])],
    /// Which requests complete, and when.
    pub completed: &'static [(u16, u32)],
    /// Which invocations are killed, and when.
    pub killed: &'static [(u16, u32)],
    /// Which workers end or are orphaned: when, in which state and with which status.
    pub ends: &'static [(u16, u32, WorkerState, Status)],
    /// When an orphaned worker ends by itself, if one does.
    pub orphan_exit: Option<u32>,
    /// The rejections in percent, and the gate.
    pub judged: (f64, Gate),
}

/// What a claim says nothing of does not happen.
const NOTHING: Claim = Claim {
    scenario: "",
    shell: None,
    counts: [0; 3],
    reasons: &[],
    completed: &[],
    killed: &[],
    ends: &[],
    orphan_exit: None,
    judged: (0.0, Gate::Pass),
};

/// All claims, in the order of the catalogue.
pub fn claims() -> impl Iterator<Item = &'static Claim> {
    capacity::CLAIMS.iter().chain(&processes::CLAIMS)
}

impl Claim {
    /// Whether the claim is made for a machine whose `/bin/sh` does this.
    #[must_use]
    pub fn holds_for(&self, shell: ShellBehaviour) -> bool {
        self.shell.is_none_or(|only| only == shell)
    }

    /// Compares the claim with what happened.
    ///
    /// # Errors
    /// Everything that is otherwise, a line each: what was claimed and what was found.
    pub fn check(&self, events: &[Event], outcome: &Outcome) -> Result<(), String> {
        let mut differences = Vec::new();
        let mut compare = |what: &str, claimed: String, found: String| {
            if claimed != found {
                differences.push(format!("{}: {what}: claimed {claimed}, found {found}", self.scenario));
            }
        };
        let [arrivals, admitted, rejected] = self.counts;
        let numbers = |claims: &[(u16, u32)]| claims.iter().map(|(request, _)| *request).collect::<Vec<u16>>();
        let listed = |requests: &[crate::RequestId]| requests.iter().map(|request| request.0).collect::<Vec<u16>>();

        compare("arrivals", arrivals.to_string(), outcome.arrivals.to_string());
        compare("admitted", admitted.to_string(), outcome.admitted.to_string());
        compare("rejected", rejected.to_string(), outcome.rejected.to_string());
        compare("reasons", format!("{:?}", self.reasons_spelt()), format!("{:?}", reasons_of(events)));
        compare("admitted requests", format!("{:?}", self.admitted_requests()), format!("{:?}", admitted_of(events)));

        let committed = |kind: &EventKind| matches!(kind, EventKind::ResultCommitted { .. });
        let killed = |kind: &EventKind| matches!(kind, EventKind::InvocationKilled { .. });
        compare("completions", format!("{:?}", at(self.completed)), format!("{:?}", requests_of(events, committed)));
        compare("kills", format!("{:?}", at(self.killed)), format!("{:?}", requests_of(events, killed)));
        compare("completed", format!("{:?}", numbers(self.completed)), format!("{:?}", listed(&outcome.completed)));
        compare("killed", format!("{:?}", numbers(self.killed)), format!("{:?}", listed(&outcome.killed)));
        compare("running", "[]".to_owned(), format!("{:?}", listed(&outcome.running)));
        let sums: Vec<(u16, u32)> = self.completed.iter().map(|(n, _)| (*n, u32::from(*n) + 3)).collect();
        let found: Vec<(u16, u32)> = outcome.sums.0.iter().map(|(request, sum)| (request.0, *sum)).collect();
        compare("sums", format!("{sums:?}"), format!("{found:?}"));

        let claimed: Vec<_> = self.ends.iter().map(|(n, t, _, status)| (WorkerId(*n), tick(*t), *status)).collect();
        compare("ends", format!("{claimed:?}"), format!("{:?}", ends_of(events)));
        let claimed: Vec<_> = self.ends.iter().map(|(n, _, state, status)| (WorkerId(*n), *state, *status)).collect();
        let ended = outcome.workers.iter().filter_map(|w| w.status.map(|status| (w.worker, w.state, status)));
        compare("workers", format!("{claimed:?}"), format!("{:?}", ended.collect::<Vec<_>>()));
        let exits = events.iter().filter(|event| matches!(event.kind, EventKind::OrphanExited { .. }));
        let claimed: Vec<Tick> = self.orphan_exit.into_iter().map(tick).collect();
        compare("orphan's exit", format!("{claimed:?}"), format!("{:?}", exits.map(|e| e.t).collect::<Vec<_>>()));

        let (percent, gate) = self.judged;
        compare("rejected %", percent.to_string(), outcome.rejected_percent.to_string());
        compare("gate", format!("{gate:?}"), format!("{:?}", outcome.gate));
        if differences.is_empty() { Ok(()) } else { Err(differences.join("\n")) }
    }

    fn reasons_spelt(&self) -> Vec<(Reason, Vec<u16>)> {
        self.reasons.iter().map(|(reason, ranges)| (*reason, ranges.iter().cloned().flatten().collect())).collect()
    }

    /// Whatever arrives and is not rejected.
    fn admitted_requests(&self) -> Vec<u16> {
        let rejected = |number: &u16| self.reasons.iter().any(|(_, ranges)| ranges.iter().any(|r| r.contains(number)));
        (1..=self.counts[0]).filter(|number| !rejected(number)).collect()
    }
}

fn tick(second: u32) -> Tick {
    Tick(second * crate::time::TICKS_PER_SECOND)
}

fn at(claims: &[(u16, u32)]) -> Vec<(u16, Tick)> {
    claims.iter().map(|(request, second)| (*request, tick(*second))).collect()
}

fn requests_of(events: &[Event], wanted: impl Fn(&EventKind) -> bool) -> Vec<(u16, Tick)> {
    let found = events.iter().filter(|event| wanted(&event.kind));
    let mut requests: Vec<_> = found.filter_map(|e| e.kind.request().map(|request| (request.0, e.t))).collect();
    requests.sort_unstable();
    requests
}

fn admitted_of(events: &[Event]) -> Vec<u16> {
    let admitted = |kind: &EventKind| matches!(kind, EventKind::RequestAdmitted { .. });
    requests_of(events, admitted).into_iter().map(|(request, _)| request).collect()
}

fn reasons_of(events: &[Event]) -> Vec<(Reason, Vec<u16>)> {
    let mut reasons: Vec<(Reason, Vec<u16>)> = Vec::new();
    for event in events {
        if let EventKind::RequestRejected { request, reason, .. } = event.kind {
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, requests)) => requests.push(request.0),
                None => reasons.push((reason, vec![request.0])),
            }
        }
    }
    reasons
}

fn ends_of(events: &[Event]) -> Vec<(WorkerId, Tick, Status)> {
    let end = |event: &Event| match event.kind {
        EventKind::WorkerFailed { worker, status }
        | EventKind::WorkerExited { worker, status }
        | EventKind::WorkerOrphaned { worker, status } => Some((worker, event.t, status)),
        _ => None,
    };
    events.iter().filter_map(end).collect()
}
