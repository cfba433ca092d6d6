//! Decides what the attempts at a drill come to, or that one more has to be made. Pure.
//!
//! Noise is never a divergence and a divergence is never noise: a difference counts once it has shown again at a
//! lower speed with everything in time, and an attempt that was late counts for nothing, whatever it showed.

use crate::{
    compare::Identity,
    record::{Attempt, Lateness, Verdict},
};

/// How many attempts are made at a drill at most, unless less is asked for.
pub const MAX_ATTEMPTS: usize = 5;

/// What is to be done after an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// The drill is decided.
    Done {
        /// What it came to.
        verdict: Verdict,
        /// Why, in whole sentences; empty for a plain match.
        reasons: Vec<String>,
    },
    /// One more attempt has to be made, at half the speed or less.
    Repeat {
        /// Why, in one sentence.
        why: String,
    },
}

/// What the attempts so far come to. `next_speed_available` tells whether one more can be made at a lower speed.
#[must_use]
pub fn decide(attempts: &[Attempt], next_speed_available: bool) -> Next {
    let Some((last, earlier)) = attempts.split_last() else {
        return inconclusive(vec!["No attempt could be made.".to_owned()]);
    };
    if !last.problems.is_empty() {
        return inconclusive(last.problems.clone());
    }
    match (&last.difference, last.in_time()) {
        (None, true) => Next::Done { verdict: Verdict::Matched, reasons: earlier.iter().map(set_aside).collect() },
        (Some(_), true) if earlier.last().is_some_and(|previous| same_first_event(previous, last)) => {
            diverged(&format!("The same event differed {}, and again {}", pace_before(earlier), pace(last)))
        }
        _ if next_speed_available => Next::Repeat { why: why_repeat(last) },
        (Some(_), true) => match earlier.last() {
            Some(previous) if previous.difference.is_some() && previous.in_time() => diverged(&format!(
                "The last two attempts, {} and {}, both differed, each at another event",
                pace(previous),
                pace(last)
            )),
            _ => inconclusive(vec![format!(
                "The difference {} was not confirmed: it takes one more attempt that shows it.",
                pace(last)
            )]),
        },
        (_, false) => inconclusive(vec![too_late(last)]),
    }
}

/// No repetition is slower than this, in model seconds per real second: it takes two minutes then. What is late by a fifth
/// of a second is so for reasons that more time does not help.
const LOWEST_SPEED: f64 = 0.5;
/// Where the first attempt is slow already, repetitions are up to so many times slower still.
const SLOWER_STILL: f64 = 4.0;

/// The speed of the next attempt after one at `speed`, if there can be one; the first one was at `first`.
#[must_use]
pub fn next_speed(first: f64, speed: f64, lateness: &[Lateness]) -> Option<f64> {
    let lowest = LOWEST_SPEED.min(with_three_digits(first / SLOWER_STILL));
    Some(lower_speed(speed, lateness).max(lowest)).filter(|lower| *lower < speed)
}

/// The speed of the next attempt if none is too low: half of the last one, or what the lateness of the last one calls for if that is less.
/// A machine that is late by the same time again then has twice that time, but one hiccup does not cost more than a
/// factor of eight.
fn lower_speed(speed: f64, lateness: &[Lateness]) -> f64 {
    let too_long = lateness.iter().map(|late| late.closest_us as f64 / late.allowed_us.max(1) as f64);
    with_three_digits(speed / 2.0 / too_long.fold(1.0, f64::max).min(4.0))
}

/// A speed that a person can read, and no higher one.
fn with_three_digits(speed: f64) -> f64 {
    let scale = 10_f64.powi(2 - speed.log10().floor() as i32);
    (speed * scale).floor() / scale
}

fn inconclusive(reasons: Vec<String>) -> Next {
    Next::Done { verdict: Verdict::Inconclusive, reasons }
}

fn diverged(finding: &str) -> Next {
    Next::Done { verdict: Verdict::Diverged, reasons: vec![format!("{finding}, with everything in time.")] }
}

fn same_first_event(previous: &Attempt, last: &Attempt) -> bool {
    let first = |attempt: &Attempt| attempt.difference.as_ref().and_then(Identity::of_difference);
    first(previous).is_some() && first(previous) == first(last)
}

fn pace_before(earlier: &[Attempt]) -> String {
    earlier.last().map(pace).unwrap_or_default()
}

/// What made the time of an attempt pass.
fn pace(attempt: &Attempt) -> String {
    match attempt.speed {
        Some(speed) => format!("at speed {speed}"),
        None => "on the stepped clock".to_owned(),
    }
}

/// Why an attempt that was followed by a match does not count.
fn set_aside(attempt: &Attempt) -> String {
    match &attempt.difference {
        Some(difference) if attempt.in_time() => {
            format!(
                "An attempt {} differed with everything in time, and the difference did not show again: {}",
                pace(attempt),
                difference.what
            )
        }
        _ => too_late(attempt),
    }
}

fn why_repeat(attempt: &Attempt) -> String {
    match &attempt.difference {
        Some(difference) if attempt.in_time() => {
            format!(
                "{} A difference counts once it has shown again{}.",
                difference.what,
                if attempt.speed.is_some() { " at a lower speed" } else { "" }
            )
        }
        _ => too_late(attempt),
    }
}

/// What was too late by how much in an attempt.
fn too_late(attempt: &Attempt) -> String {
    let parts: Vec<String> = attempt.lateness.iter().filter(|part| !part.within_bounds()).map(late_part).collect();
    format!("The machine was too slow {}: {}.", pace(attempt), parts.join("; "))
}

fn late_part(late: &Lateness) -> String {
    format!("{} {:.2} ms late where {:.2} ms are allowed", late.part.name(), ms(late.closest_us), ms(late.allowed_us))
}

fn ms(us: u64) -> f64 {
    us as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use scenarios::{Event, EventKind, Outcome, RequestId, Scenario, Tick, WorkerId};

    use super::*;
    use crate::record::{Difference, Part};

    #[test]
    fn the_speed_is_halved_or_lowered_as_the_lateness_calls_for() {
        let late = |closest_us| Lateness {
            part: Part::Kill,
            count: 1,
            median_us: 1,
            worst_us: closest_us,
            allowed_us: 1_000,
            closest_us,
        };
        assert_eq!(lower_speed(60.0, &[]), 30.0);
        assert_eq!(lower_speed(60.0, &[late(900)]), 30.0);
        assert_eq!(lower_speed(60.0, &[late(100), late(3_000)]), 10.0);
        assert_eq!(lower_speed(60.0, &[late(90_000)]), 7.5);
        assert_eq!(lower_speed(200.0, &[late(2_508)]), 39.8);
        assert_eq!(lower_speed(0.3, &[]), 0.15);
    }

    #[test]
    fn no_repetition_takes_longer_than_two_minutes_unless_the_first_attempt_did() {
        let late = [Lateness {
            part: Part::Kill,
            allowed_us: 1_000,
            count: 1,
            median_us: 1,
            worst_us: 90_000,
            closest_us: 90_000,
        }];
        let mut speeds = vec![60.0];
        while let Some(next) = next_speed(60.0, *speeds.last().unwrap(), &late) {
            speeds.push(next);
        }
        assert_eq!(speeds, [60.0, 7.5, 0.937, 0.5]);
        assert_eq!(next_speed(10.0, 10.0, &[]), Some(5.0));
        assert_eq!([next_speed(0.6, 0.6, &late), next_speed(0.6, 0.15, &late)], [Some(0.15), None]);
    }

    /// What an attempt was like.
    #[derive(Clone, Copy, PartialEq)]
    enum Was {
        Good,
        Late,
        Differs(u16),
        LateAndDiffers(u16),
        Broken,
    }
    use Was::{Broken, Differs, Good, Late, LateAndDiffers};

    fn difference(request: u16) -> Difference {
        let kind = EventKind::ResultCommitted { request: RequestId(request), worker: WorkerId(1), sum: 9 };
        let event = Event { t: Tick(100), kind };
        Difference { t: event.t, expected: Some(event), observed: None, what: "It differs.".to_owned(), why: None }
    }

    fn attempts(were: &[Was]) -> Vec<Attempt> {
        let attempt = |(index, was): (usize, &Was)| Attempt {
            speed: Some(16.0 / f64::from(1u8 << index)),
            wall_ms: 1,
            cut_off_at: None,
            events: Vec::new(),
            outcome: Outcome::of(&Scenario::new("a", "a"), &[]),
            lateness: vec![Lateness {
                part: Part::Admission,
                count: 1,
                median_us: 10,
                worst_us: 4_100,
                allowed_us: if matches!(was, Late | LateAndDiffers(_)) { 2_500 } else { 5_000 },
                closest_us: 4_100,
            }],
            difference: match *was {
                Differs(request) | LateAndDiffers(request) => Some(difference(request)),
                _ => None,
            },
            problems: if *was == Broken { vec!["User namespaces are forbidden.".to_owned()] } else { Vec::new() },
            remarks: Vec::new(),
            evidence: None,
            explanation: None,
        };
        were.iter().enumerate().map(attempt).collect()
    }

    /// One letter a decision: what it is while more attempts can be made, and when none can.
    #[test]
    fn what_the_attempts_come_to() {
        let rows: [(&[Was], char, char); 21] = [
            (&[], 'i', 'i'),
            (&[Good], 'm', 'm'),
            (&[Late], 'r', 'i'),
            (&[Differs(1)], 'r', 'i'),
            (&[LateAndDiffers(1)], 'r', 'i'),
            (&[Broken], 'i', 'i'),
            (&[Differs(1), Good], 'm', 'm'),
            (&[Late, Good], 'm', 'm'),
            (&[LateAndDiffers(1), Good], 'm', 'm'),
            (&[Differs(1), Differs(1)], 'd', 'd'),
            (&[LateAndDiffers(1), Differs(1)], 'd', 'd'),
            (&[Differs(1), LateAndDiffers(1)], 'r', 'i'),
            (&[LateAndDiffers(1), LateAndDiffers(1)], 'r', 'i'),
            (&[Differs(1), Differs(2)], 'r', 'd'),
            (&[LateAndDiffers(1), Differs(2)], 'r', 'i'),
            (&[Late, Differs(2)], 'r', 'i'),
            (&[Good, Differs(2)], 'r', 'i'),
            (&[Differs(1), Late], 'r', 'i'),
            (&[Differs(1), Late, Differs(1)], 'r', 'i'),
            (&[Differs(1), Broken], 'i', 'i'),
            (&[Differs(1), Differs(2), Differs(2)], 'd', 'd'),
        ];
        for (index, (were, while_more, at_the_end)) in rows.into_iter().enumerate() {
            for (more, letter) in [(true, while_more), (false, at_the_end)] {
                let next = decide(&attempts(were), more);
                let is = match &next {
                    Next::Repeat { .. } => 'r',
                    Next::Done { verdict: Verdict::Matched, .. } => 'm',
                    Next::Done { verdict: Verdict::Diverged, .. } => 'd',
                    Next::Done { verdict: Verdict::Inconclusive, .. } => 'i',
                };
                assert_eq!(is, letter, "row {index}, more {more}: {next:?}");
                if let Next::Done { verdict, reasons } = next {
                    assert!(verdict == Verdict::Matched || !reasons.is_empty(), "row {index} gives no reason");
                }
            }
        }
    }

    fn reasons(were: &[Was], more: bool) -> String {
        match decide(&attempts(were), more) {
            Next::Done { reasons, .. } => reasons.join(" | "),
            Next::Repeat { why } => why,
        }
    }

    #[test]
    fn reasons_say_what_was_too_late_by_how_much() {
        let too_slow = "The machine was too slow at speed 16: admissions 4.10 ms late where 2.50 ms are allowed.";
        assert_eq!(reasons(&[Late], true), too_slow);
        assert_eq!(reasons(&[LateAndDiffers(1)], false), too_slow);
        assert_eq!(reasons(&[Late, Good], true), too_slow);
        assert_eq!(reasons(&[Good], true), "");
    }

    #[test]
    fn reasons_say_how_sure_a_divergence_is() {
        assert_eq!(
            reasons(&[Differs(1), Differs(1)], true),
            "The same event differed at speed 16, and again at speed 8, with everything in time."
        );
        assert_eq!(
            reasons(&[Differs(1), Differs(2)], false),
            "The last two attempts, at speed 16 and at speed 8, both differed, each at another event, with everything in time."
        );
        assert_eq!(
            reasons(&[Differs(1)], true),
            "It differs. A difference counts once it has shown again at a lower speed."
        );
    }

    #[test]
    fn a_missing_facility_is_the_reason() {
        assert_eq!(reasons(&[Broken], true), "User namespaces are forbidden.");
    }
}
