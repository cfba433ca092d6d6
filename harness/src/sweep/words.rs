//! What was found, as text.

use scenarios::{RequestId, Scenario, Span};

use super::{
    confirm::Confirmed,
    find::{Answer, Loss},
};
use crate::{
    record::Verdict,
    report::{
        request_list,
        screen::{BAD, CAUTION, GOOD, QUIET, STRONG, Screen},
    },
};

/// How many ranges are told before the others are only counted.
const RANGES_TOLD: usize = 3;

/// The answer, what decides it, and why.
pub(super) fn answer(screen: Screen, scenario: &Scenario, answer: &Answer) -> String {
    let mut text = String::new();
    match (answer.grace_period_s, &answer.otherwise) {
        (Some(grace), otherwise) => {
            let line = format!("{grace} s is the shortest with which {} loses nothing", scenario.name);
            text.push_str(&screen.labelled("grace", GOOD, &line));
            text.push_str(&screen.labelled("decided", STRONG, &decided(answer, otherwise.as_ref())));
            if grace.0 > 0 || !answer.longer_that_lose.is_empty() {
                let style = if answer.longer_that_lose.is_empty() { QUIET } else { CAUTION };
                text.push_str(&screen.labelled("longer", style, &longer(&answer.longer_that_lose)));
            }
        }
        (None, Some(loss)) => {
            let line = format!("none up to {} s keeps {} from losing something", loss.grace_period_s, scenario.name);
            text.push_str(&screen.labelled("grace", BAD, &line));
            let line = format!("even with {} s {}", loss.grace_period_s, lost(&loss.killed, &loss.running));
            text.push_str(&screen.labelled("lost", BAD, &line));
        }
        (None, None) => {}
    }
    for (index, because) in answer.because.iter().enumerate() {
        text.push_str(&screen.labelled(if index == 0 { "because" } else { "" }, STRONG, because));
    }
    text
}

fn decided(answer: &Answer, otherwise: Option<&Loss>) -> String {
    let Some(loss) = otherwise else { return "by no request: nothing is lost with 0.0 s".to_owned() };
    let requests = request_list(&[&loss.killed[..], &loss.running[..]].concat());
    match answer.decided_at {
        Some(at) => format!(
            "by {requests}: it commits at {at} s, and with {} s {}",
            loss.grace_period_s,
            if loss.killed.is_empty() { "it still runs at the end" } else { "it is killed" }
        ),
        None => format!("by {requests}: with {} s {}", loss.grace_period_s, lost(&loss.killed, &loss.running)),
    }
}

fn longer(ranges: &[(Span, Span)]) -> String {
    if ranges.is_empty() {
        return "every longer one loses nothing either".to_owned();
    }
    let told = ranges.iter().take(RANGES_TOLD).map(|(from, to)| match from == to {
        true => format!("{from} s"),
        false => format!("{from} to {to} s"),
    });
    let mut told = told.collect::<Vec<_>>().join(", ");
    if ranges.len() > RANGES_TOLD {
        told.push_str(&format!(" and {} more ranges", ranges.len() - RANGES_TOLD));
    }
    format!("is not always better: {told} lose something again")
}

/// `request-15 is killed, request-20 still runs at the end`.
fn lost(killed: &[RequestId], running: &[RequestId]) -> String {
    let mut parts = Vec::new();
    if !killed.is_empty() {
        parts.push(format!("{} {} killed", request_list(killed), if killed.len() == 1 { "is" } else { "are" }));
    }
    if !running.is_empty() {
        let verb = if running.len() == 1 { "runs" } else { "run" };
        parts.push(format!("{} still {verb} at the end", request_list(running)));
    }
    if parts.is_empty() { "nothing is lost".to_owned() } else { parts.join(", ") }
}

/// What a drill made of a claim.
pub(super) fn confirmed(screen: Screen, one: &Confirmed) -> String {
    let marks = screen.marks();
    let (style, mark, word) = match one.verdict {
        Verdict::Matched => (GOOD, marks.good, "confirmed"),
        Verdict::Diverged => (BAD, marks.bad, "DIVERGED"),
        Verdict::Inconclusive => (CAUTION, marks.unsure, "INCONCLUSIVE"),
    };
    let seen = match (&one.killed, &one.running) {
        (Some(killed), Some(running)) => lost(killed, running),
        _ => "no drill could be made".to_owned(),
    };
    let line =
        format!("{mark} {word} with real processes: with {} s {seen} ({}\u{a0}ms)", one.grace_period_s, one.wall_ms);
    let mut text = screen.labelled("drill", style, &line);
    for reason in &one.reasons {
        text.push_str(&screen.labelled("", STRONG, reason));
    }
    // Not wrapped: a path is for copying.
    if screen.verbose || one.verdict != Verdict::Matched {
        text.push_str(&format!("{:10}{}\n", "stored", one.run.display()));
    }
    text
}
