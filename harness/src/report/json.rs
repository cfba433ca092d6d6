//! One document for programs: a scenario with what is expected of it, or a whole run.

use std::path::Path;

use scenarios::{Event, Expectation, Outcome, Scenario, Tick};
use serde::Serialize;

use crate::evidence::{Evidence, Explanation};
use crate::record::{Attempt, Difference, Lateness, Observed, Record, Verdict};

/// Events and what comes of them.
#[derive(Debug, Serialize)]
struct Trace<'a, E> {
    events: &'a [E],
    outcome: &'a Outcome,
}

#[derive(Debug, Serialize)]
struct ModelDocument<'a> {
    scenario: &'a Scenario,
    #[serde(flatten)]
    expected: Trace<'a, Event>,
}

#[derive(Debug, Serialize)]
struct RunDocument<'a> {
    scenario: &'a Scenario,
    expected: Trace<'a, Event>,
    observed: Option<Trace<'a, Observed>>,
    evidence: Option<&'a Evidence>,
    explanation: Option<&'a Explanation>,
    verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_off_at: Option<Tick>,
    difference: Option<&'a Difference>,
    reasons: &'a [String],
    remarks: &'a [String],
    timing: Timing<'a>,
    run: Option<String>,
}

/// How long a drill took and how late things were in it.
#[derive(Debug, Serialize)]
pub(crate) struct Timing<'a> {
    speed_asked: Option<f64>,
    speed_used: Option<f64>,
    wall_ms: u64,
    lateness: &'a [Lateness],
    attempts: Vec<AttemptSummary<'a>>,
}

/// An attempt without its events.
#[derive(Debug, Serialize)]
struct AttemptSummary<'a> {
    speed: Option<f64>,
    wall_ms: u64,
    in_time: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_off_at: Option<Tick>,
    lateness: &'a [Lateness],
    difference: Option<&'a Difference>,
    problems: &'a [String],
    remarks: &'a [String],
}

impl<'a> Timing<'a> {
    /// That of all attempts together; the lateness is that of the last one.
    pub(crate) fn of(record: &'a Record) -> Timing<'a> {
        let last = record.attempts.last();
        Timing {
            speed_asked: record.attempts.first().and_then(|attempt| attempt.speed),
            speed_used: last.and_then(|attempt| attempt.speed),
            wall_ms: record.attempts.iter().map(|attempt| attempt.wall_ms).sum(),
            lateness: last.map_or(&[], |attempt| &attempt.lateness),
            attempts: record.attempts.iter().map(AttemptSummary::of).collect(),
        }
    }
}

impl<'a> AttemptSummary<'a> {
    fn of(attempt: &'a Attempt) -> AttemptSummary<'a> {
        AttemptSummary {
            speed: attempt.speed,
            wall_ms: attempt.wall_ms,
            in_time: attempt.in_time(),
            cut_off_at: attempt.cut_off_at,
            lateness: &attempt.lateness,
            difference: attempt.difference.as_ref(),
            problems: &attempt.problems,
            remarks: &attempt.remarks,
        }
    }
}

/// What `model --json` prints: `scenario`, `events`, `outcome`, in one line.
///
/// # Errors
/// None that these types can cause.
pub fn model(scenario: &Scenario, expected: &Expectation) -> serde_json::Result<Vec<u8>> {
    let expected = Trace { events: &expected.events, outcome: &expected.outcome };
    line(&ModelDocument { scenario, expected })
}

/// What `run --json` and `replay --json` print, in one line: `scenario`, `expected` and `observed` (each `events` and
/// `outcome`; `observed` is of the last attempt, null if none was made), `evidence`, `explanation`, `verdict`, `difference`, `reasons`,
/// `remarks`, `timing` and the run's directory. `cut_off_at` is there where the last attempt was stopped before its end or broke
/// off, and is the time of the last thing that was seen: what came later is unknown, and its outcome that of what was seen. `wall_ms` in `timing` is of all attempts together.
///
/// # Errors
/// None that these types can cause.
pub fn run(record: &Record, stored_in: Option<&Path>) -> serde_json::Result<Vec<u8>> {
    let last = record.attempts.last();
    line(&RunDocument {
        scenario: &record.scenario,
        expected: Trace { events: &record.expected.events, outcome: &record.expected.outcome },
        observed: last.map(|attempt| Trace { events: &attempt.events, outcome: &attempt.outcome }),
        evidence: last.and_then(|attempt| attempt.evidence.as_ref()),
        explanation: last.and_then(|attempt| attempt.explanation.as_ref()),
        verdict: record.verdict,
        cut_off_at: last.and_then(|attempt| attempt.cut_off_at),
        difference: last.and_then(|attempt| attempt.difference.as_ref()),
        reasons: &record.reasons,
        remarks: last.map_or(&[], |attempt| &attempt.remarks),
        timing: Timing::of(record),
        run: stored_in.map(|path| path.display().to_string()),
    })
}

/// Any value as one line of JSON.
///
/// # Errors
/// Where the value has no JSON form.
pub fn line(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(value)?;
    text.push(b'\n');
    Ok(text)
}

/// Any value as JSON over several lines, for reading and editing.
///
/// # Errors
/// Where the value has no JSON form.
pub fn pretty(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    Ok(text)
}
