//! `--find-grace`: the shortest grace period with no loss, by bisection over real drills.
//!
//! What is tried next is decided by a pure function of what was tried before.

use serde::{Deserialize, Serialize};

use super::{
    record::{Cause, Observed, Record, SeatRecord, Verdict},
    settings::{self, Seat, Settings},
    text, verdict,
};
use crate::report::{
    Screen,
    screen::{BAD, CAUTION, GOOD, STRONG, paint},
};

/// How exactly it is found, in milliseconds.
const STEP_MS: u64 = 100;
/// How much longer than the given one a grace period is tried at most, and how long at most in milliseconds.
const LONGER: u64 = 8;
const LONGEST_MS: u64 = 300_000;

/// One drill with one grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// The grace period, in milliseconds.
    pub grace_ms: u64,
    /// What came of it.
    pub verdict: Verdict,
    /// How many requests were lost.
    pub lost: u64,
    /// Whether SIGKILL was needed.
    pub sigkill: bool,
    /// How long after the stop began all that ended by itself had ended, in milliseconds.
    pub gone_ms: Option<u64>,
    /// Why the signal had the effect that it had.
    pub cause: Cause,
    /// Whether it ended only when an idle connection was given up.
    #[serde(default)]
    pub waited_for_idle: bool,
}

impl Trial {
    /// What a drill came to.
    #[must_use]
    pub fn of(grace_ms: u64, seat: &SeatRecord) -> Trial {
        let observed = &seat.observed;
        let ends_us = observed.ends.iter().filter_map(|end| end.at_us).filter(|&at_us| at_us <= observed.end_us);
        let last_us = observed.top_gone_us.map(|gone_us| ends_us.fold(gone_us, i64::max));
        let gone_us = last_us.map(|gone_us| (gone_us - observed.stop_us).max(0).unsigned_abs());
        Trial {
            grace_ms,
            verdict: seat.judgement.verdict,
            lost: seat.judgement.lost,
            sigkill: outlived(observed),
            gone_ms: gone_us.map(|gone_us| gone_us.div_ceil(1000)),
            cause: seat.explanation.cause,
            waited_for_idle: verdict::waited_for_idle(observed).is_some(),
        }
    }
}

/// Whether anything that SIGKILL was sent to at the end of the grace period was still there.
fn outlived(observed: &Observed) -> bool {
    verdict::top_was_killed(observed) || !verdict::outlived(observed).is_empty()
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A drill with this grace period, in milliseconds.
    Try(u64),
    /// Nothing: it is decided.
    Done(Answer),
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// This one is enough, and one that is shorter by `step_ms` is not; both were confirmed.
    Shortest {
        /// The grace period, in milliseconds.
        grace_ms: u64,
        /// How exact that is, in milliseconds.
        step_ms: u64,
    },
    /// No grace period helps: it fails for another reason.
    NoneHelps,
    /// None up to this one is enough.
    LongerThan {
        /// The longest that was tried, in milliseconds.
        grace_ms: u64,
    },
    /// The same grace period was enough once, and another time it was not, or a longer one was not.
    Unstable,
    /// A drill was inconclusive.
    Inconclusive,
}

/// What to do after these trials, where `given_ms` is the grace period of the platform, of which the preStop hook takes
/// `pre_stop_ms`.
#[must_use]
pub fn next(given_ms: u64, pre_stop_ms: u64, trials: &[Trial]) -> Next {
    let of = |verdict: Verdict| trials.iter().filter(move |trial| trial.verdict == verdict).map(|trial| trial.grace_ms);
    if of(Verdict::Inconclusive).next().is_some() {
        return Next::Done(Answer::Inconclusive);
    }
    let fails_ms = of(Verdict::Fail).max();
    let Some(passes_ms) = of(Verdict::Pass).min() else { return longer(given_ms, trials) };
    if fails_ms.is_some_and(|fails_ms| fails_ms >= passes_ms) {
        return Next::Done(Answer::Unstable);
    }
    let low_ms = fails_ms.unwrap_or(pre_stop_ms.min(passes_ms));
    if passes_ms - low_ms > STEP_MS {
        // Where it was gone is a good guess, and then the middle.
        let gone_ms =
            trials.iter().filter(|trial| trial.verdict == Verdict::Pass).filter_map(|trial| trial.gone_ms).min();
        let guess_ms = gone_ms.map(|gone_ms| (gone_ms + STEP_MS).next_multiple_of(STEP_MS));
        let untried = |guess_ms: &u64| low_ms < *guess_ms && *guess_ms < passes_ms;
        let middle_ms = low_ms + (passes_ms - low_ms) / 2;
        let rounded_ms = middle_ms.next_multiple_of(STEP_MS);
        return Next::Try(guess_ms.filter(untried).unwrap_or(if untried(&rounded_ms) {
            rounded_ms
        } else {
            middle_ms
        }));
    }
    let times = |grace_ms: u64| trials.iter().filter(|trial| trial.grace_ms == grace_ms).count();
    match fails_ms {
        _ if times(passes_ms) < 2 => Next::Try(passes_ms),
        Some(fails_ms) if times(fails_ms) < 2 => Next::Try(fails_ms),
        _ => Next::Done(Answer::Shortest { grace_ms: passes_ms, step_ms: passes_ms - low_ms }),
    }
}

/// What to do where nothing was enough so far: a longer one, where it was SIGKILL that came too early.
fn longer(given_ms: u64, trials: &[Trial]) -> Next {
    let Some(longest) = trials.iter().max_by_key(|trial| trial.grace_ms) else { return Next::Try(given_ms) };
    if !longest.sigkill || !matches!(longest.cause, Cause::TooSlow | Cause::NoReaction) {
        return Next::Done(Answer::NoneHelps);
    }
    let limit_ms = (given_ms * LONGER).clamp(1_000, LONGEST_MS);
    match longest.grace_ms.max(STEP_MS) * 2 {
        longer_ms if longer_ms <= limit_ms => Next::Try(longer_ms),
        _ => Next::Done(Answer::LongerThan { grace_ms: longest.grace_ms }),
    }
}

/// What the search came to in one seat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The seat.
    pub seat: Seat,
    /// The grace period that was given, or that of the platform, in milliseconds.
    pub given_ms: u64,
    /// What was tried, in this order.
    pub trials: Vec<Trial>,
    /// What was found.
    pub answer: Answer,
    /// Whether what was found fits into the grace period that was given.
    pub verdict: Verdict,
    /// The same in words.
    pub text: String,
    /// The one change to make, where something is to be changed.
    pub change: Option<String>,
}

impl Found {
    /// Sums up a search; `last` is its last drill.
    #[must_use]
    pub fn new(given_ms: u64, trials: Vec<Trial>, answer: Answer, last: &Record) -> Option<Found> {
        let seat = last.seats.first()?;
        let verdict = match answer {
            Answer::Shortest { grace_ms, .. } if grace_ms <= given_ms => Verdict::Pass,
            Answer::Shortest { .. } | Answer::NoneHelps | Answer::LongerThan { .. } => Verdict::Fail,
            Answer::Unstable | Answer::Inconclusive => Verdict::Inconclusive,
        };
        let (text, change) = words(&last.settings, given_ms, &trials, answer, seat);
        Some(Found { seat: seat.seat, given_ms, trials, answer, verdict, text, change })
    }
}

fn time(time_ms: u64) -> String {
    settings::time(time_ms * 1000)
}

fn words(
    settings: &Settings,
    given_ms: u64,
    trials: &[Trial],
    answer: Answer,
    last: &SeatRecord,
) -> (String, Option<String>) {
    let platform =
        settings.profile.as_deref().map_or("the grace period".to_owned(), |name| format!("{name}'s grace period"));
    let given = time(given_ms);
    match answer {
        Answer::Shortest { grace_ms, step_ms } => {
            let below_ms = grace_ms.saturating_sub(step_ms);
            let below = if trials.iter().any(|trial| trial.verdict == Verdict::Fail && trial.grace_ms == below_ms) {
                format!(", {} is not, both confirmed", time(below_ms))
            } else if settings.pre_stop_ms > 0 {
                format!(", and of a shorter one the preStop hook ({}) leaves nothing", time(settings.pre_stop_ms))
            } else {
                String::new()
            };
            let text = format!("{} is enough{below}.", time(grace_ms));
            let waited = |trial: &Trial| trial.grace_ms == grace_ms && trial.waited_for_idle;
            let idle = match settings.hold_idle_ms.filter(|_| trials.iter().any(waited)) {
                Some(held_ms) => format!(
                    " It ended only when the drills gave up their idle connections, {} after the signal: while a client keeps one \
                     open, it may go on for longer.",
                    time(held_ms)
                ),
                None => String::new(),
            };
            if grace_ms <= given_ms {
                let spare = time(given_ms - grace_ms);
                return (format!("{text} It fits into {platform} of {given}, with {spare} to spare.{idle}"), None);
            }
            let change =
                format!("a grace period of {} or more, or requests that end sooner.", time(grace_ms + grace_ms / 4));
            (format!("{text} It does not fit into {platform} of {given}.{idle}"), Some(change))
        }
        Answer::NoneHelps => {
            let why = last.judgement.reasons.join(" ");
            let text = if outlived(&last.observed) {
                format!("no grace period helps: {} {}", why, last.explanation.text)
            } else {
                format!(
                    "no grace period helps: it ends before the grace period does, of its own accord or by its own timeout. \
                     {why} {}",
                    last.explanation.text
                )
            };
            (text, last.explanation.change.clone())
        }
        Answer::LongerThan { grace_ms } => (
            format!("{} is not enough, and longer ones were not tried. {}", time(grace_ms), last.explanation.text),
            last.explanation.change.clone(),
        ),
        Answer::Unstable => (
            "it differs from one drill to the next: the same grace period, or a longer one, was not enough again."
                .to_owned(),
            None,
        ),
        Answer::Inconclusive => (format!("a drill was inconclusive. {}", last.judgement.reasons.join(" ")), None),
    }
}

/// One trial as a line.
#[must_use]
pub fn line(screen: Screen, trial: &Trial) -> String {
    let marks = screen.marks();
    let (style, mark) = match trial.verdict {
        Verdict::Pass => (GOOD, marks.good),
        Verdict::Fail => (BAD, marks.bad),
        Verdict::Inconclusive => (CAUTION, marks.unsure),
    };
    let what = match (trial.sigkill, trial.gone_ms) {
        (true, _) => "SIGKILL".to_owned(),
        (false, Some(gone_ms)) => format!("gone after {}", time(gone_ms)),
        (false, None) => "no drill".to_owned(),
    };
    format!("{} grace {:<8} {} lost, {what}\n", paint(style, &mark.to_string()), time(trial.grace_ms), trial.lost)
}

/// What was found, as text.
#[must_use]
pub fn report(screen: Screen, found: &Found) -> String {
    let mut text = text::headed(screen, found.verdict, found.seat.title(), &found.text);
    if let Some(change) = &found.change {
        text.push_str(&screen.labelled("change", STRONG, change));
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A server that needs so long, and is killed where it is given less.
    fn trial(grace_ms: u64, need_ms: u64, cause: Cause) -> Trial {
        let passes = grace_ms >= need_ms;
        Trial {
            grace_ms,
            verdict: if passes { Verdict::Pass } else { Verdict::Fail },
            lost: u64::from(!passes),
            sigkill: !passes,
            gone_ms: Some(need_ms.min(grace_ms)),
            cause: if passes { Cause::Ended } else { cause },
            waited_for_idle: false,
        }
    }

    fn search(given_ms: u64, pre_stop_ms: u64, drill: impl Fn(u64) -> Trial) -> (Vec<Trial>, Answer) {
        let mut trials = Vec::new();
        loop {
            match next(given_ms, pre_stop_ms, &trials) {
                Next::Done(answer) => return (trials, answer),
                Next::Try(grace_ms) => trials.push(drill(grace_ms)),
            }
            assert!(trials.len() < 40, "it never ends: {trials:?}");
        }
    }

    proptest! {
        #[test]
        fn the_shortest_one_is_found_and_confirmed(given_ms in 0u64..20_000, need_ms in 0u64..10_000) {
            let (trials, answer) = search(given_ms, 0, |grace_ms| trial(grace_ms, need_ms, Cause::TooSlow));
            match answer {
                Answer::Shortest { grace_ms, step_ms } => {
                    prop_assert!(grace_ms >= need_ms && step_ms <= STEP_MS && grace_ms < need_ms + STEP_MS + 1);
                    let times = |wanted: u64| trials.iter().filter(|trial| trial.grace_ms == wanted).count();
                    prop_assert!(times(grace_ms) >= 2);
                    prop_assert!(grace_ms == step_ms || times(grace_ms - step_ms) >= 2);
                }
                Answer::LongerThan { grace_ms } => prop_assert!(need_ms > grace_ms && grace_ms * 2 > (given_ms * LONGER).max(1000)),
                other => prop_assert!(false, "{other:?}"),
            }
            prop_assert!(trials.len() <= 20, "{}", trials.len());
        }
    }

    proptest! {
        /// What is found has to be one that a check takes.
        #[test]
        fn none_is_tried_of_which_the_hook_leaves_nothing(pre_stop_ms in 0u64..5_000, more_ms in 1u64..20_000, need_ms in 0u64..9_000) {
            let given_ms = pre_stop_ms + more_ms;
            let (trials, _) = search(given_ms, pre_stop_ms, |grace_ms| trial(grace_ms, need_ms, Cause::TooSlow));
            prop_assert!(trials.iter().all(|trial| trial.grace_ms > pre_stop_ms), "{trials:?}");
        }
    }

    #[test]
    fn a_hook_that_takes_all_of_it_leaves_one_to_try() {
        let (trials, answer) = search(2000, 2000, |grace_ms| trial(grace_ms, 0, Cause::Ended));
        assert_eq!((trials.len(), answer), (2, Answer::Shortest { grace_ms: 2000, step_ms: 0 }));
    }

    #[test]
    fn where_no_grace_period_helps_none_is_looked_for() {
        for cause in [Cause::Dropped, Cause::NotPassedOn] {
            let (trials, answer) = search(1000, 0, |grace_ms| trial(grace_ms, u64::MAX, cause));
            assert_eq!((trials.len(), answer), (1, Answer::NoneHelps));
        }
        let loses = |grace_ms| Trial { sigkill: false, ..trial(grace_ms, u64::MAX, Cause::Ended) };
        assert_eq!(search(1000, 0, loses).1, Answer::NoneHelps);
    }

    #[test]
    fn what_differs_from_drill_to_drill_is_no_answer() {
        let trials = [trial(1000, 0, Cause::Ended), trial(2000, u64::MAX, Cause::TooSlow)];
        assert_eq!(next(1000, 0, &trials), Next::Done(Answer::Unstable));
        let none = Trial { verdict: Verdict::Inconclusive, ..trials[0] };
        assert_eq!(next(1000, 0, &[none]), Next::Done(Answer::Inconclusive));
    }
}
