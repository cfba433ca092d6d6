//! All of one seat.

use super::{exit, heading, last_lines, left, table, timing};
use crate::{
    check::{
        fate::Fate,
        record::{Observed, Record, Request, SeatRecord, Verdict},
        settings, timeline,
    },
    evidence::words::is_shell,
    report::{
        Screen,
        screen::{BAD, CAUTION, GOOD, STRONG},
    },
};

/// All of it.
pub(super) fn seat(screen: Screen, record: &Record, seat: &SeatRecord) -> String {
    let observed = &seat.observed;
    let mut text = heading(screen, seat);
    if observed.unable.is_some() {
        text.push_str(&last_lines(screen, observed));
        text.push_str(&change(screen, seat));
        return text;
    }
    if !observed.requests.is_empty() {
        text.push_str(&table(screen, "requests", observed));
        if let Some(latency) = latency(screen, observed) {
            text.push_str(&screen.labelled("latency", STRONG, &latency));
        }
        text.push_str(&timeline::draw(screen, observed));
    }
    let timing = timing(screen, observed);
    if !timing.is_empty() {
        text.push_str(&screen.labelled("timing", STRONG, &timing));
    }
    text.push_str(&screen.labelled("signal", STRONG, &seat.explanation.text));
    text.push_str(&screen.labelled("exit", STRONG, &exit(observed)));
    if let Some(left) = left(observed) {
        text.push_str(&screen.labelled("left", BAD, &left));
    }
    for remark in &seat.judgement.remarks {
        text.push_str(&screen.labelled("note", CAUTION, remark));
    }
    if seat.judgement.verdict != Verdict::Pass {
        text.push_str(&change(screen, seat));
        if observed.requests.is_empty() || observed.ended_early {
            text.push_str(&last_lines(screen, observed));
        }
    }
    if screen.verbose {
        text.push_str(&details(screen, record, observed));
    }
    text
}

/// What to change, if anything.
pub(super) fn change(screen: Screen, seat: &SeatRecord) -> String {
    let change = seat.explanation.change.as_ref();
    change.map_or_else(String::new, |change| screen.labelled("change", GOOD, change))
}

/// How long the completed ones of some requests took, in microseconds, the shortest first.
pub(in crate::check) fn completed_us(observed: &Observed, wanted: impl Fn(&Request) -> bool) -> Vec<u64> {
    let completed =
        |request: &&Request| matches!(request.fate, Fate::Completed | Fate::Completed5xx) && wanted(request);
    let mut took_us: Vec<u64> = observed.requests.iter().filter(completed).map(|request| request.took_us).collect();
    took_us.sort_unstable();
    took_us
}

/// How long the completed requests took.
fn latency(screen: Screen, observed: &Observed) -> Option<String> {
    let took_us = completed_us(observed, |_| true);
    let [median, high, worst] = [50, 99, 100].map(|percent| percentile(&took_us, percent));
    let separator = screen.marks().separator;
    Some(format!(
        "median {}{separator}99 % {}{separator}longest {}",
        settings::time(median?),
        settings::time(high?),
        settings::time(worst?)
    ))
}

/// The smallest of sorted numbers that so many percent are not above.
#[must_use]
pub(in crate::check) fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let place = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(place - 1).copied()
}

/// The processes, and how each ended.
fn details(screen: Screen, record: &Record, observed: &Observed) -> String {
    let mut text = String::new();
    let Some(before) = &observed.before else { return text };
    text.push_str(&screen.wrap(&format!("before {}", record.settings.signal), "  ", "    "));
    for node in &before.processes {
        let process = &node.process;
        let app = if Some(process.pid) == observed.app_pid { ", listens" } else { "" };
        let shell = if is_shell(process) { ", a shell" } else { "" };
        let line = format!(
            "{} {} (pid {}, {} {}{app}{shell})",
            process.program(),
            process.argv.get(1..).unwrap_or_default().join(" "),
            process.namespace_pid,
            record.settings.signal,
            process.sigterm.name()
        );
        let indent = " ".repeat(4 + 2 * node.depth);
        text.push_str(&screen.wrap(&line, &indent, &format!("{indent}  ")));
    }
    for end in &observed.ends {
        let status = end.status.map_or("unknown".to_owned(), |status| status.to_string());
        let program = before.process(end.pid).map_or("a process", |process| process.program());
        let at = end.at_us.map_or("in the clean-up".to_owned(), |at_us| format!("{:+.3} s", at_us as f64 / 1e6));
        text.push_str(&screen.wrap(&format!("{program}: {status}, {at}"), "    ", "      "));
    }
    text
}
