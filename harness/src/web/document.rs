//! `GET /api/runs/{id}`: all that is known of a run, whether it waits, goes on, is over, or was stored long ago.

use scenarios::{Effect, Event, Outcome, Scenario, View};
use serde::Serialize;

use super::{
    error::HttpError,
    run::{Asked, Run, State},
    runs::Over,
};
use crate::{
    cli::ClockChoice,
    compare::ShownDifference,
    evidence::{Evidence, Explanation},
    record::{Attempt, Difference, Observed, Record, Verdict, last_seen},
    report::json::Timing,
    runs::{self, Stored},
    stream::{Origin, Progress},
};

/// A trace with its view.
#[derive(Debug, Serialize)]
pub(super) struct Shown<'a, E> {
    pub(super) events: &'a [E],
    pub(super) outcome: &'a Outcome,
    pub(super) view: View,
}

/// Everything; what is not known yet is null or empty.
#[derive(Debug, Serialize)]
pub(super) struct RunDocument<'a> {
    /// The id that the server gave; null for a run that it only found stored.
    id: Option<&'a str>,
    /// The name under which it is stored.
    run: Option<String>,
    state: State,
    /// How many runs are before it, while it waits.
    ahead: usize,
    error: Option<&'a HttpError>,
    scenario: &'a Scenario,
    clock: ClockChoice,
    /// Model seconds in one real second that were asked for; null on a stepped clock.
    speed: Option<f64>,
    /// The attempt that goes on or was the last one; null before the first.
    attempt: Option<AttemptShown>,
    /// Why that attempt is another one.
    repeated: Option<&'a str>,
    expected: Option<Shown<'a, Event>>,
    /// What SIGTERM does to worker 1 by what is expected; null where that is not known, or it is sent to nobody.
    effect: Option<Effect>,
    /// Of the last attempt, as far as it is known.
    observed: Option<Shown<'a, Observed>>,
    differences: Vec<ShownDifference>,
    verdict: Option<Verdict>,
    difference: Option<&'a Difference>,
    reasons: &'a [String],
    remarks: &'a [String],
    timing: Option<Timing<'a>>,
    evidence: Option<&'a Evidence>,
    explanation: Option<&'a Explanation>,
}

#[derive(Debug, Serialize)]
struct AttemptShown {
    attempt: usize,
    /// Model seconds in one real second; null on a stepped clock.
    speed: Option<f64>,
    /// How long its clock goes already, in real microseconds; negative before the drill's beginning. Null on a stepped clock,
    /// before anything was heard, and once it is over.
    elapsed_us: Option<i64>,
}

/// See [`AttemptShown`]; pure.
fn elapsed_us(speed: Option<f64>, origin: Origin, now_ns: u64) -> Option<i64> {
    let (_, origin_ns) = speed.zip(origin.ns())?;
    let elapsed_ns = i128::from(now_ns) - i128::from(origin_ns);
    i64::try_from(elapsed_ns / 1_000).ok()
}

impl<'a> RunDocument<'a> {
    /// Nothing but what was asked for.
    fn of_asked(id: &'a str, asked: &'a Asked, state: State) -> RunDocument<'a> {
        RunDocument {
            id: Some(id),
            run: None,
            state,
            ahead: 0,
            error: None,
            scenario: &asked.scenario,
            clock: asked.clock,
            speed: Some(asked.speed).filter(|_| asked.clock == ClockChoice::Scaled),
            attempt: None,
            repeated: None,
            expected: None,
            effect: None,
            observed: None,
            differences: Vec::new(),
            verdict: None,
            difference: None,
            reasons: &[],
            remarks: &[],
            timing: None,
            evidence: None,
            explanation: None,
        }
    }

    /// Adds what a record tells. Before it is decided, `verdict` stays null.
    fn with_record(mut self, record: &'a Record, decided: bool) -> RunDocument<'a> {
        let expected = &record.expected;
        if !expected.events.is_empty() {
            let view = View::new(&record.scenario, &expected.events);
            self.effect = Effect::seen_in(&expected.events);
            self.expected = Some(Shown { events: &expected.events, outcome: &expected.outcome, view });
        }
        self.verdict = decided.then_some(record.verdict);
        self.reasons = &record.reasons;
        if let Some(last) = record.attempts.last() {
            self.attempt = Some(AttemptShown { attempt: record.attempts.len(), speed: last.speed, elapsed_us: None });
            self.observed = Some(observed(&record.scenario, last));
            self.differences = ShownDifference::all(&expected.events, last);
            self.difference = last.difference.as_ref();
            self.remarks = &last.remarks;
            self.evidence = last.evidence.as_ref();
            self.explanation = last.explanation.as_ref();
            self.timing = Some(Timing::of(record));
        }
        self
    }
}

fn observed<'a>(scenario: &Scenario, attempt: &'a Attempt) -> Shown<'a, Observed> {
    let events: Vec<Event> = attempt.events.iter().map(|observed| observed.event).collect();
    let view = match attempt.cut_off_at {
        Some(tick) => View::until(scenario, &events, tick),
        None => View::new(scenario, &events),
    };
    Shown { events: &attempt.events, outcome: &attempt.outcome, view }
}

/// Passes the document of a run that waits or goes on to `answer`, as it is at `now_ns` of CLOCK_MONOTONIC.
pub(super) fn of_live<T>(run: &Run, now_ns: u64, answer: impl FnOnce(&RunDocument<'_>) -> T) -> T {
    let told = run.told();
    let Progress { record, attempt, observed: so_far, repeated, decided, .. } = &told.progress;
    let mut document = RunDocument {
        run: told.run_name(),
        ahead: told.ahead,
        error: told.error.as_ref(),
        repeated: repeated.as_deref(),
        ..RunDocument::of_asked(&run.id, &run.asked, told.state)
    }
    .with_record(record, *decided);
    // What is known as it happens is in the order in which it became known.
    let mut events = so_far.clone();
    events.sort_by_key(|observed| observed.event.order());
    let plain: Vec<Event> = events.iter().map(|observed| observed.event).collect();
    let outcome = Outcome::of(&record.scenario, &plain);
    if let Some((number, speed)) = *attempt
        && number > record.attempts.len()
    {
        let view = View::until(&record.scenario, &plain, last_seen(&events));
        let elapsed_us = elapsed_us(speed, told.origin, now_ns);
        document.attempt = Some(AttemptShown { attempt: number, speed, elapsed_us });
        document.observed = Some(Shown { events: &events, outcome: &outcome, view });
        document.differences.clear();
        (document.difference, document.remarks, document.timing) = (None, &[], None);
        (document.evidence, document.explanation) = (None, None);
    }
    answer(&document)
}

/// Passes the document of a run that is over to `answer`; `stored` is what is stored of it, if anything is.
pub(super) fn of_over<T>(over: &Over, stored: Option<&Stored>, answer: impl FnOnce(&RunDocument<'_>) -> T) -> T {
    let document = RunDocument {
        run: over.run.clone(),
        error: over.error.as_ref(),
        ..RunDocument::of_asked(&over.id, &over.asked, over.state)
    };
    answer(&match stored {
        Some(stored) => document.with_record(&stored.record, is_decided(stored)),
        None => document,
    })
}

/// Passes the document of a stored run to `answer`.
pub(super) fn of_stored<T>(name: &str, stored: &Stored, answer: impl FnOnce(&RunDocument<'_>) -> T) -> T {
    let record = &stored.record;
    let first = record.attempts.first().and_then(|attempt| attempt.speed);
    // A run without any attempt tells nothing of its clock.
    let is_stepped = record.attempts.first().is_some_and(|attempt| attempt.speed.is_none());
    let asked = Asked {
        scenario: record.scenario.clone(),
        shell: scenarios::ShellBehaviour::Stays,
        clock: if is_stepped { ClockChoice::Stepped } else { ClockChoice::Scaled },
        speed: 0.0,
    };
    let document = RunDocument {
        id: None,
        run: Some(name.to_owned()),
        speed: first,
        ..RunDocument::of_asked(name, &asked, state_of(stored))
    };
    answer(&document.with_record(record, is_decided(stored)))
}

fn is_decided(stored: &Stored) -> bool {
    matches!(stored.state, runs::State::Finished(_))
}

/// How far a stored run is.
pub(super) fn state_of(stored: &Stored) -> State {
    match stored.state {
        runs::State::Finished(_) => State::Finished,
        runs::State::Running => State::Running,
        runs::State::Unfinished | runs::State::Unreadable => State::Unfinished,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_goes_on_tells_for_how_long_already() {
        let mut origin = Origin::default();
        assert_eq!(elapsed_us(Some(10.0), origin, 5_000_000), None, "nothing was heard");
        origin.hear(-2_000, 5_000_000);
        assert_eq!(elapsed_us(Some(10.0), origin, 5_500_000), Some(-1_500), "it does not go yet");
        assert_eq!(elapsed_us(Some(10.0), origin, 9_000_000), Some(2_000));
        assert_eq!(elapsed_us(None, origin, 9_000_000), None, "a stepped one has no speed");
    }
}
