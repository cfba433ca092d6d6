//! What came of a drill, in a few lines: sums, counts, workers' ends, the gate with its reasons.

use anstyle::Style;
use scenarios::{Gate, Outcome, RequestId, Scenario, Status, WorkerState};

use super::screen::{BAD, CAUTION, GOOD, NO_BREAK_SPACE, STRONG, Screen};

/// The lines on an outcome; only that of a `whole` drill has passed the gate or failed at it.
pub(crate) fn outcome(screen: Screen, scenario: &Scenario, outcome: &Outcome, whole: bool) -> String {
    judged(screen, scenario, outcome, whole, None)
}

/// The same of what processes did, where the gate was `expected` to say something.
pub(crate) fn observed(screen: Screen, scenario: &Scenario, outcome: &Outcome, whole: bool, expected: Gate) -> String {
    judged(screen, scenario, outcome, whole, Some(expected))
}

fn judged(screen: Screen, scenario: &Scenario, outcome: &Outcome, whole: bool, expected: Option<Gate>) -> String {
    let facts = facts(screen, scenario, outcome, whole, expected);
    facts.iter().map(|(label, style, text)| screen.labelled(label, *style, text)).collect()
}

/// The same, each with its label and how that looks; what has to stay on one line is kept together by no-break spaces.
pub(crate) fn facts(
    screen: Screen,
    scenario: &Scenario,
    outcome: &Outcome,
    whole: bool,
    expected: Option<Gate>,
) -> Vec<(&'static str, Style, String)> {
    let separator = screen.marks().separator;
    let mut facts =
        vec![("requests", STRONG, requests(separator, outcome)), ("sums", STRONG, sums(separator, outcome))];
    if !outcome.killed.is_empty() {
        facts.push(("killed", BAD, list(&outcome.killed)));
    }
    if !outcome.running.is_empty() {
        facts.push(("running", CAUTION, list(&outcome.running)));
    }
    if !outcome.workers.is_empty() {
        facts.push(("workers", STRONG, workers(screen, outcome)));
    }
    if whole {
        let style = if outcome.gate == Gate::Pass { GOOD } else { BAD };
        let said = gate(scenario, outcome, expected);
        facts.push(("gate", style, said.replace(" %", &format!("{NO_BREAK_SPACE}%"))));
    } else {
        facts.push(("gate", CAUTION, "not judged: the drill did not come to its end".to_owned()));
    }
    facts
}

fn requests(separator: &str, outcome: &Outcome) -> String {
    let Outcome { arrivals, admitted, rejected, rejected_percent, .. } = outcome;
    [
        format!("{arrivals} arrived"),
        format!("{admitted} admitted"),
        format!("{rejected} rejected ({rejected_percent:.1} %)"),
        format!("{} completed", outcome.completed.len()),
        format!("{} killed", outcome.killed.len()),
        format!("{} still running", outcome.running.len()),
    ]
    .map(|count| count.replace(' ', NO_BREAK_SPACE))
    .join(separator)
}

fn sums(separator: &str, outcome: &Outcome) -> String {
    if outcome.sums.0.is_empty() {
        return "none was committed".to_owned();
    }
    let sums: Vec<String> = outcome
        .sums
        .0
        .iter()
        .map(|(request, sum)| [&request.to_string(), "=", &sum.to_string()].join(NO_BREAK_SPACE))
        .collect();
    sums.join(separator)
}

/// `request-13 to request-16, request-19`.
pub(crate) fn list(requests: &[RequestId]) -> String {
    let runs: Vec<String> = requests
        .chunk_by(|a, b| a.0 + 1 == b.0)
        .map(|run| match run {
            [one] => one.to_string(),
            [one, two] => format!("{one}, {two}"),
            [first, .., last] => format!("{first} to {last}"),
            [] => String::new(),
        })
        .collect();
    runs.join(", ")
}

/// How many workers are told one by one before the others are only counted.
const WORKERS_TOLD: usize = 8;

fn workers(screen: Screen, outcome: &Outcome) -> String {
    let told = if screen.verbose { outcome.workers.len() } else { WORKERS_TOLD };
    let mut ends: Vec<String> = Vec::new();
    for worker in outcome.workers.iter().take(told) {
        ends.push(match (worker.state, worker.status) {
            (WorkerState::Orphaned, Some(status)) => format!("{} orphaned (its top: {status})", worker.worker),
            (state, Some(Status::Signal(signal))) => format!("{} {} by {signal}", worker.worker, state.name()),
            (state, Some(Status::Code(code))) => format!("{} {} with code {code}", worker.worker, state.name()),
            (state, None) => format!("{} {}", worker.worker, state.name()),
        });
    }
    if outcome.workers.len() > told {
        ends.push(format!("{} more", outcome.workers.len() - told));
    }
    ends.join(screen.marks().separator)
}

/// The gate, and which part of it fails. A scenario that is made to fail at it is nothing that went wrong.
fn gate(scenario: &Scenario, outcome: &Outcome, expected: Option<Gate>) -> String {
    let allowance = scenario.rejection_allowance_percent;
    let percent = format!("{:.1} % rejected", outcome.rejected_percent);
    let exceeds = u32::from(outcome.rejected) * 100 > u32::from(allowance) * u32::from(outcome.arrivals);
    let mut fails = Vec::new();
    if !outcome.killed.is_empty() {
        fails.push(format!("{} killed", outcome.killed.len()));
    }
    if !outcome.running.is_empty() {
        fails.push(format!("{} still running", outcome.running.len()));
    }
    if exceeds {
        // What exceeds it by less than a tenth is shown as the allowance itself.
        let hardly = if outcome.rejected_percent <= f64::from(allowance) { "just over " } else { "" };
        fails.push(format!("{hardly}{percent} where {allowance} % are allowed"));
    }
    match outcome.gate {
        Gate::Pass => format!("PASS: nothing killed, nothing still running, {percent} of {allowance} % allowed"),
        Gate::Fail if expected == Some(Gate::Fail) => format!("FAIL, as expected: {}", fails.join(", ")),
        Gate::Fail => format!("FAIL: {}", fails.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use scenarios::{Host, OnSigterm, ShellBehaviour, Span, expect};

    use super::*;

    fn told(change: impl Fn(&mut Scenario), expected: Option<Gate>) -> String {
        let mut scenario = Scenario::new("gate", "Gate");
        change(&mut scenario);
        let host = Host { shell: ShellBehaviour::Stays, custom: None };
        gate(&scenario, &expect(&scenario, &host).outcome, expected)
    }

    fn gate_of(change: impl Fn(&mut Scenario)) -> String {
        told(change, None)
    }

    #[test]
    fn the_gate_says_which_part_of_it_fails() {
        assert_eq!(gate_of(|_| ()), "FAIL: 4 killed, 60.0 % rejected where 25 % are allowed");
        assert_eq!(gate_of(|s| s.rejection_allowance_percent = 60), "FAIL: 4 killed");
        let handled = |allowance: u8| {
            gate_of(|s| {
                (s.on_sigterm, s.grace_period_s) = (OnSigterm::Drain, Span::seconds(20));
                s.rejection_allowance_percent = allowance;
            })
        };
        assert_eq!(handled(25), "FAIL: 65.0 % rejected where 25 % are allowed");
        assert_eq!(
            told(|_| (), Some(Gate::Fail)),
            "FAIL, as expected: 4 killed, 60.0 % rejected where 25 % are allowed"
        );
        assert_eq!(told(|_| (), Some(Gate::Pass)), gate_of(|_| ()));
        // 348 of 391 are 89.003 %.
        let hardly = |s: &mut Scenario| {
            (s.on_sigterm, s.signal_at_s, s.slots_per_worker) = (OnSigterm::Drain, Span::seconds(40), 1);
            (s.request_interval_s, s.invocation_s, s.startup_s) = (Span(1), Span(9), Span::seconds(2));
            s.rejection_allowance_percent = 89;
        };
        assert_eq!(gate_of(hardly), "FAIL: just over 89.0 % rejected where 89 % are allowed");
        assert_eq!(handled(65), "PASS: nothing killed, nothing still running, 65.0 % rejected of 65 % allowed");
    }

    #[test]
    fn runs_of_requests_are_told_by_their_ends() {
        let requests: Vec<RequestId> = [1, 3, 4, 13, 14, 15, 16].map(RequestId).into();
        assert_eq!(list(&requests), "request-1, request-3, request-4, request-13 to request-16");
        assert_eq!(list(&[]), "");
    }
}
