//! Compares what was observed with what the model expected. Pure.
//!
//! Both sides are in trace order. Events that are equal to the last field cancel out; what is left over on either
//! side is put together by [`Identity`], and where that finds nothing, by what befell the same request or worker.

mod shown;

use scenarios::{Event, EventKind, RequestId, Stage, Tick, WorkerId};

use crate::record::{Difference, Observed};

pub use shown::{DifferenceKind, ShownDifference};

/// What makes two events the same one: their kind, and the request and stage or the worker that they are about.
///
/// A request can be admitted, committed or killed but once, so the worker that it happened on is a particular, like
/// the slot, the sum, the status and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    kind: &'static str,
    subject: Subject,
    stage: Option<Stage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Subject {
    Request(RequestId),
    Worker(WorkerId),
    Drill,
}

impl Subject {
    fn of(kind: &EventKind) -> Subject {
        match (kind.request(), kind.worker()) {
            (Some(request), _) => Subject::Request(request),
            (None, Some(worker)) => Subject::Worker(worker),
            (None, None) => Subject::Drill,
        }
    }
}

impl Identity {
    /// The identity of an event of this kind.
    #[must_use]
    pub fn of(kind: &EventKind) -> Identity {
        let stage = match *kind {
            EventKind::StageEntered { stage, .. } => Some(stage),
            _ => None,
        };
        Identity { kind: kind.name(), subject: Subject::of(kind), stage }
    }

    /// Which event a difference is about: the expected one, or the one that nobody expected.
    #[must_use]
    pub fn of_difference(difference: &Difference) -> Option<Identity> {
        let observed = difference.observed.as_ref().map(|observed| &observed.event);
        difference.expected.as_ref().or(observed).map(|event| Identity::of(&event.kind))
    }
}

/// The first difference in trace order, or `None` where all that was expected happened and nothing else.
#[must_use]
pub fn first_difference(expected: &[Event], observed: &[Observed]) -> Option<Difference> {
    differences(expected, observed).into_iter().next()
}

/// Every difference, in trace order. Each event of either side is part of one difference at most.
#[must_use]
pub fn differences(expected: &[Event], observed: &[Observed]) -> Vec<Difference> {
    let (missing, extra) = left_over(expected, observed);
    let mut pairs = pair(&missing, &extra);
    pairs.sort_by_key(|pair| pair.earlier().map(Event::order));
    pairs.into_iter().filter_map(Pair::into_difference).collect()
}

/// What only one side has: expected events that were not observed, and observed ones that were not expected.
fn left_over<'a>(expected: &'a [Event], observed: &'a [Observed]) -> (Vec<&'a Event>, Vec<&'a Observed>) {
    let mut missing: Vec<&Event> = Vec::new();
    // Events of one place in the order can differ in particulars only, so equals are found close by.
    let mut extra: Vec<Option<&Observed>> = observed.iter().map(Some).collect();
    extra.sort_by_key(|observed| observed.map(|observed| observed.event.order()));
    for event in expected {
        let order = event.order();
        let place = |observed: &Option<&Observed>| observed.map(|observed| observed.event.order());
        let from = extra.partition_point(|observed| place(observed).is_some_and(|other| other < order));
        let same = extra[from..]
            .iter()
            .take_while(|observed| place(observed) == Some(order))
            .position(|observed| observed.is_some_and(|observed| observed.event == *event));
        match same {
            Some(offset) => {
                extra.remove(from + offset);
            }
            None => missing.push(event),
        }
    }
    (missing, extra.into_iter().flatten().collect())
}

/// What belongs together; at least one side is there.
struct Pair<'a> {
    expected: Option<&'a Event>,
    observed: Option<&'a Observed>,
}

/// How much two leftovers have to do with each other, from most to least.
const KINSHIPS: [fn(&Event, &Event) -> bool; 3] = [
    |expected, observed| Identity::of(&expected.kind) == Identity::of(&observed.kind),
    |expected, observed| Subject::of(&expected.kind) == Subject::of(&observed.kind),
    |expected, observed| expected.t == observed.t && expected.kind.name() == observed.kind.name(),
];

fn pair<'a>(missing: &[&'a Event], extra: &[&'a Observed]) -> Vec<Pair<'a>> {
    let mut pairs: Vec<Pair<'a>> =
        missing.iter().map(|&expected| Pair { expected: Some(expected), observed: None }).collect();
    let mut extra: Vec<&Observed> = extra.to_vec();
    for akin in KINSHIPS {
        for pair in pairs.iter_mut().filter(|pair| pair.observed.is_none()) {
            let Some(expected) = pair.expected else { continue };
            if let Some(index) = extra.iter().position(|observed| akin(expected, &observed.event)) {
                pair.observed = Some(extra.remove(index));
            }
        }
    }
    pairs.extend(extra.into_iter().map(|observed| Pair { expected: None, observed: Some(observed) }));
    pairs
}

impl<'a> Pair<'a> {
    fn earlier(&self) -> Option<&'a Event> {
        let observed = self.observed.map(|observed| &observed.event);
        self.expected.into_iter().chain(observed).min_by_key(|event| event.order())
    }

    fn into_difference(self) -> Option<Difference> {
        let t = self.earlier()?.t;
        let what = match (self.expected, self.observed) {
            (Some(expected), Some(observed)) => instead(expected, &observed.event),
            (Some(expected), None) => {
                format!("{} was expected to {} at {} s, which did not happen.", subject(expected), to(expected), t)
            }
            (None, Some(observed)) => {
                let event = &observed.event;
                format!("{} {} at {} s, which was not expected.", subject(event), did(event), t)
            }
            (None, None) => return None,
        };
        Some(Difference { t, expected: self.expected.copied(), observed: self.observed.cloned(), what, why: None })
    }
}

fn instead(expected: &Event, observed: &Event) -> String {
    let start = format!("{} was expected to {} at {} s", subject(expected), to(expected), expected.t);
    if expected.kind == observed.kind {
        let gap = Tick(expected.t.0.abs_diff(observed.t.0));
        let direction = if observed.t < expected.t { "too early" } else { "too late" };
        return format!("{start}; that happened at {} s, {gap} s {direction}.", observed.t);
    }
    let when = if expected.t == observed.t { String::new() } else { format!(" at {} s", observed.t) };
    if Subject::of(&expected.kind) == Subject::of(&observed.kind) {
        format!("{start} and {}{when} instead.", did(observed))
    } else {
        format!("{start}; {} {}{when} instead.", subject(observed), did(observed))
    }
}

fn subject(event: &Event) -> String {
    match Subject::of(&event.kind) {
        Subject::Request(request) => request.to_string(),
        Subject::Worker(worker) => worker.to_string(),
        Subject::Drill => "the drill".to_owned(),
    }
}

/// What the subject of the event does, after "was expected to".
fn to(event: &Event) -> String {
    match event.kind {
        EventKind::StageEntered { worker, stage, .. } => format!("enter {stage} on {worker}"),
        EventKind::ResultCommitted { worker, sum, .. } => format!("commit the sum {sum} on {worker}"),
        EventKind::WorkerStarted { .. } => "be started".to_owned(),
        EventKind::WorkerReady { .. } => "become ready".to_owned(),
        EventKind::WorkerFailed { status, .. } => format!("fail to boot ({status})"),
        EventKind::SigtermSent { .. } => "be sent SIGTERM".to_owned(),
        EventKind::SigtermSkipped { .. } => "have ended before SIGTERM".to_owned(),
        EventKind::ReadinessWithdrawn { .. } => "withdraw its readiness".to_owned(),
        EventKind::SigtermIgnored { .. } => "go on as if no SIGTERM was sent".to_owned(),
        EventKind::SigkillSent { .. } => "be sent SIGKILL".to_owned(),
        EventKind::WorkerExited { status, .. } => format!("be gone ({status})"),
        EventKind::WorkerOrphaned { status, .. } => format!("be orphaned (its top: {status})"),
        EventKind::OrphanExited { .. } => "end by itself as an orphan".to_owned(),
        EventKind::InvocationKilled { worker, .. } => format!("be killed with {worker}"),
        EventKind::RequestAdmitted { worker, slot, .. } => format!("be admitted to {worker}, slot {slot}"),
        EventKind::RequestRejected { reason, worker: Some(worker), .. } => {
            format!("be refused by {worker} ({reason})")
        }
        EventKind::RequestRejected { reason, worker: None, .. } => format!("be rejected ({reason})"),
    }
}

/// What the subject of the event did.
fn did(event: &Event) -> String {
    match event.kind {
        EventKind::StageEntered { worker, stage, .. } => format!("entered {stage} on {worker}"),
        EventKind::ResultCommitted { worker, sum, .. } => format!("committed the sum {sum} on {worker}"),
        EventKind::WorkerReady { .. } => "became ready".to_owned(),
        EventKind::WorkerFailed { status, .. } => format!("failed to boot ({status})"),
        EventKind::SigtermSkipped { .. } => "had ended before SIGTERM".to_owned(),
        EventKind::ReadinessWithdrawn { .. } => "withdrew its readiness".to_owned(),
        EventKind::SigtermIgnored { .. } => "went on as if no SIGTERM was sent".to_owned(),
        EventKind::OrphanExited { .. } => "ended by itself as an orphan".to_owned(),
        _ => match to(event).strip_prefix("be ") {
            Some(rest) => format!("was {rest}"),
            None => to(event),
        },
    }
}

#[cfg(test)]
mod tests;
