//! Whether a fault was caught. Pure.

use scenarios::Event;
use serde::Serialize;

use super::{cases::Case, check::Finding};
use crate::{
    cli::ClockChoice,
    record::{Difference, Verdict},
};

/// What came of a case on one clock.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Judgement {
    /// Diverged, with the right event first, and matched without the fault.
    Caught,
    /// It was not noticed, or not as what it is, or there is something to notice without it.
    Slipped(String),
    /// Nothing is proved either way.
    Inconclusive(String),
    /// The fault can't show on this clock.
    NotApplicable(String),
}

impl Judgement {
    fn name(&self) -> &'static str {
        match self {
            Judgement::Caught => "caught",
            Judgement::Slipped(_) => "slipped",
            Judgement::Inconclusive(_) => "inconclusive",
            Judgement::NotApplicable(_) => "not_applicable",
        }
    }

    /// Why it is not simply caught; a sentence.
    pub(super) fn why(&self) -> Option<&str> {
        match self {
            Judgement::Caught => None,
            Judgement::Slipped(why) | Judgement::Inconclusive(why) | Judgement::NotApplicable(why) => Some(why),
        }
    }
}

/// A case and what came of it on each clock.
pub(super) struct Row {
    pub(super) case: &'static Case,
    pub(super) on: Vec<(ClockChoice, Judgement)>,
}

/// Judges a case by what was found in its drill without the fault, and with it.
pub(super) fn judge(case: &Case, sound: &Finding, seeded: &Finding) -> Judgement {
    let reasons = |finding: &Finding| finding.reasons.join(" ");
    match sound.verdict {
        Verdict::Matched => {}
        Verdict::Diverged => {
            let what = sound.difference.as_ref().map_or("", |difference| &difference.what);
            return Judgement::Slipped(format!("The same drill diverges without the fault: {what}"));
        }
        Verdict::Inconclusive => {
            return Judgement::Inconclusive(format!("Without the fault: {}", reasons(sound)));
        }
    }
    match (seeded.verdict, &seeded.difference) {
        (Verdict::Inconclusive, _) => Judgement::Inconclusive(reasons(seeded)),
        (Verdict::Diverged, Some(difference)) if is_right(case, difference) => Judgement::Caught,
        (Verdict::Diverged, Some(Difference { what, .. })) => {
            Judgement::Slipped(format!("It diverged, but the first event that differs is another one: {what}"))
        }
        _ => Judgement::Slipped("All that happened is what the model expected.".to_owned()),
    }
}

fn is_right(case: &Case, difference: &Difference) -> bool {
    case.is_shown_by(difference.expected, difference.observed.as_ref().map(|observed| observed.event))
}

/// 1 if a fault slipped through, else 3 if one is undecided, else 0.
pub(super) fn exit_code(results: &[Row]) -> u8 {
    let any = |is: fn(&Judgement) -> bool| results.iter().any(|result| result.on.iter().any(|(_, found)| is(found)));
    if any(|found| matches!(found, Judgement::Slipped(_))) {
        Verdict::Diverged.exit_code()
    } else if any(|found| matches!(found, Judgement::Inconclusive(_))) {
        Verdict::Inconclusive.exit_code()
    } else {
        Verdict::Matched.exit_code()
    }
}

/// How many of the judgements are what.
pub(super) fn count(results: &[Row], name: &str) -> usize {
    results.iter().flat_map(|result| &result.on).filter(|(_, found)| found.name() == name).count()
}

/// What `selftest --json` prints.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    faults: Vec<Entry<'a>>,
    caught: usize,
    slipped: usize,
    inconclusive: usize,
    not_applicable: usize,
}

#[derive(Serialize)]
struct Entry<'a> {
    fault: &'a str,
    what: &'a str,
    drill: &'a str,
    expected: Option<Event>,
    observed: Option<Event>,
    results: Vec<OnClock<'a>>,
}

#[derive(Serialize)]
struct OnClock<'a> {
    clock: ClockChoice,
    result: &'a str,
    why: Option<&'a str>,
}

impl<'a> Document<'a> {
    pub(super) fn of(results: &'a [Row]) -> Document<'a> {
        let on_clock = |(clock, found): &'a (ClockChoice, Judgement)| OnClock {
            clock: *clock,
            result: found.name(),
            why: found.why(),
        };
        let entry = |Row { case, on }: &'a Row| Entry {
            fault: case.fault.name(),
            what: case.fault.what(),
            drill: case.drill.name(),
            expected: case.expected,
            observed: case.observed,
            results: on.iter().map(on_clock).collect(),
        };
        Document {
            faults: results.iter().map(entry).collect(),
            caught: count(results, "caught"),
            slipped: count(results, "slipped"),
            inconclusive: count(results, "inconclusive"),
            not_applicable: count(results, "not_applicable"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{record::Observed, selftest::cases::CASES};

    fn found(verdict: Verdict, events: Option<(Option<Event>, Option<Event>)>) -> Finding {
        let difference = events.map(|(expected, observed)| Difference {
            t: expected.or(observed).unwrap().t,
            expected,
            observed: observed.map(|event| Observed { event, at_us: 0, late_us: 0, pid: None, note: None }),
            what: "It differs.".to_owned(),
            why: None,
        });
        Finding { verdict, difference, reasons: vec!["Because.".to_owned()] }
    }

    #[test]
    fn only_the_right_first_event_is_caught_and_only_if_all_is_well_without_the_fault() {
        use Verdict::{Diverged, Inconclusive, Matched};
        let case = &CASES[0];
        let right = Some((case.expected, case.observed));
        let swapped = Some((case.observed, case.expected));
        let missing = Some((case.expected, None));
        let matched = found(Matched, None);
        let rows = [
            (matched.clone(), found(Diverged, right), "caught"),
            (matched.clone(), found(Diverged, swapped), "slipped"),
            (matched.clone(), found(Diverged, missing), "slipped"),
            (matched.clone(), found(Diverged, None), "slipped"),
            (matched.clone(), matched.clone(), "slipped"),
            (matched, found(Inconclusive, right), "inconclusive"),
            (found(Diverged, right), found(Diverged, right), "slipped"),
            (found(Inconclusive, None), found(Diverged, right), "inconclusive"),
        ];
        for (sound, seeded, name) in rows {
            let judged = judge(case, &sound, &seeded);
            assert_eq!(judged.name(), name, "{sound:?} {seeded:?}");
            assert_eq!(judged.why().is_none(), judged == Judgement::Caught);
        }
    }

    #[test]
    fn the_worst_counts() {
        let on = |found: &[Judgement]| {
            let found = found.iter().map(|found| (ClockChoice::Stepped, found.clone())).collect();
            exit_code(&[Row { case: &CASES[0], on: found }])
        };
        let (slipped, unsure) = (Judgement::Slipped(String::new()), Judgement::Inconclusive(String::new()));
        assert_eq!(on(&[Judgement::Caught, Judgement::NotApplicable(String::new())]), 0);
        assert_eq!(on(&[Judgement::Caught, unsure.clone()]), 3);
        assert_eq!(on(&[slipped, unsure]), 1);
    }
}
