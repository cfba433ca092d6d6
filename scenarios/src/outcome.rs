//! What came of a drill: counts, lists, the gate and each worker's end.

use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};

use crate::{Event, EventKind, RequestId, Scenario, Status, WorkerId};

/// The sum of a drill, folded from its events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Requests that arrived.
    pub arrivals: u16,
    /// Requests that a worker took.
    pub admitted: u16,
    /// Requests that nobody took.
    pub rejected: u16,
    /// Requests whose result was committed.
    pub completed: Vec<RequestId>,
    /// Requests whose invocation ended with its worker.
    pub killed: Vec<RequestId>,
    /// Requests that were neither completed nor killed when the drill ended.
    pub running: Vec<RequestId>,
    /// The committed results, by request.
    pub sums: Sums,
    /// Rejected per arrivals in percent, rounded to one decimal for show; the gate compares the exact value.
    pub rejected_percent: f64,
    /// The scenario's gate.
    pub gate: Gate,
    /// Each worker's end.
    pub workers: Vec<WorkerOutcome>,
}

/// Committed results in the order of their requests. Written as an object from request to sum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "std::collections::BTreeMap<RequestId, u32>")]
pub struct Sums(pub Vec<(RequestId, u32)>);

impl From<std::collections::BTreeMap<RequestId, u32>> for Sums {
    fn from(map: std::collections::BTreeMap<RequestId, u32>) -> Sums {
        Sums(map.into_iter().collect())
    }
}

impl Serialize for Sums {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (request, sum) in &self.0 {
            map.serialize_entry(request, sum)?;
        }
        map.end()
    }
}

/// Whether a scenario lost nothing and rejected no more than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// Nothing killed, nothing still running, and rejections within the allowance.
    Pass,
    /// Anything else.
    Fail,
}

/// How one worker ended up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerOutcome {
    /// Which.
    pub worker: WorkerId,
    /// Its last state.
    pub state: WorkerState,
    /// How its top ended, as a platform sees it; null while it lives.
    pub status: Option<Status>,
}

/// The states of a worker as its platform sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    /// Booting.
    Starting,
    /// Takes requests.
    Ready,
    /// Finishes what it has and takes nothing new.
    Draining,
    /// Ended after draining.
    Exited,
    /// Ended by itself at the end of its startup.
    Failed,
    /// Ended by SIGTERM.
    Terminated,
    /// Ended by SIGKILL.
    Killed,
    /// Its top ended and it was left alive; it stays an orphan when it ends by itself later.
    Orphaned,
}

impl WorkerState {
    /// Its name as in the outcome.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            WorkerState::Starting => "starting",
            WorkerState::Ready => "ready",
            WorkerState::Draining => "draining",
            WorkerState::Exited => "exited",
            WorkerState::Failed => "failed",
            WorkerState::Terminated => "terminated",
            WorkerState::Killed => "killed",
            WorkerState::Orphaned => "orphaned",
        }
    }

    /// What an event makes of a worker that was in the state `before` (none before its start), with the status of its
    /// top where that ends with it; `None` where the worker stays what it is.
    #[must_use]
    pub fn after(before: Option<WorkerState>, kind: &EventKind) -> Option<(WorkerState, Option<Status>)> {
        let next = match *kind {
            EventKind::WorkerStarted { .. } => (WorkerState::Starting, None),
            EventKind::WorkerReady { .. } => (WorkerState::Ready, None),
            EventKind::WorkerFailed { status, .. } => (WorkerState::Failed, Some(status)),
            EventKind::ReadinessWithdrawn { .. } => (WorkerState::Draining, None),
            EventKind::WorkerExited { status: Status::SIGKILL, .. } => (WorkerState::Killed, Some(Status::SIGKILL)),
            EventKind::WorkerExited { status, .. } => match before {
                Some(WorkerState::Draining) => (WorkerState::Exited, Some(status)),
                _ => (WorkerState::Terminated, Some(status)),
            },
            EventKind::WorkerOrphaned { status, .. } => (WorkerState::Orphaned, Some(status)),
            _ => return None,
        };
        // Only its start makes a worker known.
        (before.is_some() || next.0 == WorkerState::Starting).then_some(next)
    }
}

impl Outcome {
    /// Folds the events of a drill, which must be in trace order.
    #[must_use]
    pub fn of(scenario: &Scenario, events: &[Event]) -> Outcome {
        let mut fold = Fold::default();
        for event in events {
            fold.apply(&event.kind);
        }
        fold.finish(scenario)
    }
}

#[derive(Default)]
struct Fold {
    arrivals: u16,
    rejected: u16,
    admitted: Vec<RequestId>,
    killed: Vec<RequestId>,
    sums: Vec<(RequestId, u32)>,
    workers: Vec<WorkerOutcome>,
}

impl Fold {
    fn apply(&mut self, kind: &EventKind) {
        match *kind {
            EventKind::ResultCommitted { request, sum, .. } => self.sums.push((request, sum)),
            EventKind::InvocationKilled { request, .. } => self.killed.push(request),
            EventKind::RequestAdmitted { request, .. } => {
                self.arrivals += 1;
                self.admitted.push(request);
            }
            EventKind::RequestRejected { .. } => {
                self.arrivals += 1;
                self.rejected += 1;
            }
            _ => self.turn(kind),
        }
    }

    fn turn(&mut self, kind: &EventKind) {
        let Some(worker) = kind.worker() else { return };
        let known = self.workers.iter_mut().find(|known| known.worker == worker);
        match (WorkerState::after(known.as_ref().map(|known| known.state), kind), known) {
            (Some((state, status)), Some(known)) => (known.state, known.status) = (state, status),
            (Some((state, status)), None) => self.workers.push(WorkerOutcome { worker, state, status }),
            (None, _) => {}
        }
    }

    fn finish(mut self, scenario: &Scenario) -> Outcome {
        self.sums.sort_unstable();
        self.killed.sort_unstable();
        self.workers.sort_unstable_by_key(|worker| worker.worker);
        let completed: Vec<RequestId> = self.sums.iter().map(|(request, _)| *request).collect();
        let over = |request: &RequestId| {
            completed.binary_search(request).is_ok() || self.killed.binary_search(request).is_ok()
        };
        let running: Vec<RequestId> = self.admitted.iter().copied().filter(|request| !over(request)).collect();
        let within_allowance = u32::from(self.rejected) * 100
            <= u32::from(scenario.rejection_allowance_percent) * u32::from(self.arrivals);
        let gate = match self.killed.is_empty() && running.is_empty() && within_allowance {
            true => Gate::Pass,
            false => Gate::Fail,
        };
        Outcome {
            arrivals: self.arrivals,
            admitted: self.admitted.len() as u16,
            rejected: self.rejected,
            completed,
            killed: self.killed,
            running,
            sums: Sums(self.sums),
            rejected_percent: percent(self.rejected, self.arrivals),
            gate,
            workers: self.workers,
        }
    }
}

/// `part` of `whole` in percent, rounded to one decimal; 0 of nothing.
pub(crate) fn percent(part: u16, whole: u16) -> f64 {
    one_decimal(f64::from(part) * 100.0 / f64::from(whole.max(1)))
}

/// `value` rounded to one decimal; an exact half goes to the even digit, as everywhere in floating point.
fn one_decimal(value: f64) -> f64 {
    (value * 10.0).round_ties_even() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reason, Tick};

    /// The outcome of a drill that admits some requests, all of which complete, and rejects others.
    fn outcome(admitted: u16, rejected: u16, allowance_percent: u8) -> Outcome {
        let worker = WorkerId::FIRST;
        let event = |kind| Event { t: Tick::START, kind };
        let mut events = Vec::new();
        for request in (1..=admitted).map(RequestId) {
            events.push(event(EventKind::RequestAdmitted { request, worker, slot: 1 }));
            events.push(event(EventKind::ResultCommitted { request, worker, sum: request.sum() }));
        }
        for request in (admitted + 1..=admitted + rejected).map(RequestId) {
            events.push(event(EventKind::RequestRejected { request, reason: Reason::NoFreeSlot, worker: None }));
        }
        let scenario = Scenario { rejection_allowance_percent: allowance_percent, ..Scenario::new("n", "t") };
        Outcome::of(&scenario, &events)
    }

    #[test]
    fn the_gate_compares_what_is_not_rounded() {
        for (admitted, rejected, allowance_percent, percent, gate) in [
            (7, 13, 65, 65.0, Gate::Pass),
            (7, 13, 64, 65.0, Gate::Fail),
            // 5.0125 % and 4.9875 % are both shown as 5.0 %.
            (379, 20, 5, 5.0, Gate::Fail),
            (381, 20, 5, 5.0, Gate::Pass),
            (1, 0, 0, 0.0, Gate::Pass),
            (0, 1, 100, 100.0, Gate::Pass),
            (15, 1, 6, 6.2, Gate::Fail),
        ] {
            let outcome = outcome(admitted, rejected, allowance_percent);
            assert_eq!((outcome.rejected_percent, outcome.gate), (percent, gate), "{rejected} beside {admitted}");
        }
    }

    /// The exact quotient, rounded in decimal, for every count that a drill can come to.
    #[test]
    fn the_percentage_is_the_exact_one_rounded_once() {
        for arrivals in 1..=391_u64 {
            for rejected in 0..=arrivals {
                let (tenths, rest) = (rejected * 1000 / arrivals, rejected * 1000 % arrivals);
                let up = rest * 2 > arrivals || rest * 2 == arrivals && tenths % 2 == 1;
                let exact = (tenths + u64::from(up)) as f64 / 10.0;
                let shown = one_decimal(rejected as f64 * 100.0 / arrivals as f64);
                assert_eq!(shown, exact, "{rejected} of {arrivals}");
            }
        }
    }
}
