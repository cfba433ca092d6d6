//! Differences as a screen shows them over the lanes.

use scenarios::{Event, Tick, view::Decision};
use serde::Serialize;

use super::differences;
use crate::record::{Attempt, Difference};

/// In what way the two sides differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// What was expected did not happen.
    Missing,
    /// What happened was not expected.
    Extra,
    /// It happened as expected, but at another tick.
    Moved,
    /// Something else happened instead.
    Changed,
}

/// One difference, by ticks as a view has them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownDifference {
    /// In what way they differ.
    pub kind: DifferenceKind,
    /// What was expected; none where something happened that was not.
    pub expected: Option<Decision>,
    /// What was observed instead; none where nothing was.
    pub observed: Option<Decision>,
    /// What differs, in one sentence.
    pub text: String,
    /// Why, where evidence tells.
    pub why: Option<String>,
}

impl ShownDifference {
    fn of(difference: Difference) -> ShownDifference {
        let Difference { expected, observed, what, why, .. } = difference;
        let kind = match (&expected, &observed) {
            (_, None) => DifferenceKind::Missing,
            (None, _) => DifferenceKind::Extra,
            (Some(expected), Some(observed)) if expected.kind == observed.event.kind => DifferenceKind::Moved,
            _ => DifferenceKind::Changed,
        };
        ShownDifference {
            kind,
            expected: expected.as_ref().map(Decision::of),
            observed: observed.map(|observed| Decision::of(&observed.event)),
            text: what,
            why,
        }
    }

    /// Every difference between what was expected and an attempt, in trace order. What an attempt that was cut off did not
    /// get to is none.
    #[must_use]
    pub fn all(expected: &[Event], attempt: &Attempt) -> Vec<ShownDifference> {
        let known_until = attempt.cut_off_at.unwrap_or(Tick(u32::MAX));
        let mut all = differences(expected, &attempt.events);
        // The tick of the end may not have been played to its end.
        all.retain(|difference| difference.observed.is_some() || difference.t < known_until);
        if let (Some(first), Some(told)) = (all.first_mut(), &attempt.difference) {
            first.why.clone_from(&told.why);
        }
        all.into_iter().map(ShownDifference::of).collect()
    }
}

#[cfg(test)]
mod tests {
    use scenarios::{EventKind, Host, Outcome, RequestId, Scenario, ShellBehaviour, WorkerId, expect};

    use super::*;
    use crate::record::Observed;

    fn attempt(scenario: &Scenario, events: &[Event], cut_off_at: Option<Tick>) -> Attempt {
        let observed = |event: &Event| Observed { event: *event, at_us: 0, late_us: 0, pid: None, note: None };
        Attempt {
            speed: None,
            wall_ms: 1,
            cut_off_at,
            events: events.iter().map(observed).collect(),
            outcome: Outcome::of(scenario, events),
            lateness: Vec::new(),
            difference: None,
            problems: Vec::new(),
            remarks: Vec::new(),
            evidence: None,
            explanation: None,
        }
    }

    #[test]
    fn every_kind_of_difference_is_told_apart() {
        let scenario = Scenario::new("a", "A");
        let expected = expect(&scenario, &Host { shell: ShellBehaviour::Stays, custom: None }).events;
        assert_eq!(ShownDifference::all(&expected, &attempt(&scenario, &expected, None)), []);

        let (worker, request) = (WorkerId(1), RequestId(3));
        let mut observed = expected.clone();
        observed.retain(|event| event.kind != EventKind::SigtermIgnored { worker });
        for event in &mut observed {
            match &mut event.kind {
                EventKind::WorkerReady { .. } => event.t = Tick(41),
                EventKind::ResultCommitted { request: RequestId(3), sum, .. } => *sum = 7,
                _ => {}
            }
        }
        observed.push(Event { t: Tick(500), kind: EventKind::InvocationKilled { request: RequestId(20), worker } });
        observed.sort_by_key(Event::order);
        let all = ShownDifference::all(&expected, &attempt(&scenario, &observed, None));
        let kinds: Vec<_> = all.iter().map(|difference| difference.kind).collect();
        use DifferenceKind::{Changed, Extra, Missing, Moved};
        assert_eq!(kinds, [Moved, Changed, Missing, Extra]);
        let ticks = |index: usize| {
            let side = |side: &Option<Decision>| side.as_ref().map(|decision| decision.tick.0);
            (side(&all[index].expected), side(&all[index].observed))
        };
        assert_eq!(ticks(0), (Some(40), Some(41)));
        assert_eq!(ticks(2), (Some(300), None));
        assert_eq!(all[1].expected.as_ref().unwrap().request, Some(request));
    }

    #[test]
    fn what_a_drill_did_not_get_to_is_no_difference() {
        let scenario = Scenario::new("a", "A");
        let expected = expect(&scenario, &Host { shell: ShellBehaviour::Stays, custom: None }).events;
        let seen: Vec<Event> = expected.iter().copied().filter(|event| event.t <= Tick(200)).collect();
        assert_eq!(ShownDifference::all(&expected, &attempt(&scenario, &seen, Some(Tick(200)))), []);
        assert!(!ShownDifference::all(&expected, &attempt(&scenario, &seen, None)).is_empty());
    }
}
