//! A run as text: what is printed while it happens, what it came to, and the same again for a stored run.

use std::path::Path;

use scenarios::{Event, Scenario, Tick};

use super::{
    decision::Decisions,
    evidence, paint,
    screen::{BAD, CAUTION, GOOD, QUIET, STRONG, Screen, paint as painted},
    summary,
};
use crate::{
    compare,
    record::{Attempt, Difference, Lateness, Observed, Record, Verdict},
    verdict::{Next, decide},
};

/// The heading of a run: what is drilled.
#[must_use]
pub fn heading(screen: Screen, scenario: &Scenario) -> String {
    screen.wrap(&scenario.title, &format!("{}: ", painted(STRONG, &scenario.name)), "  ")
}

/// The heading of an attempt, before its decisions.
#[must_use]
pub fn attempt_heading(screen: Screen, number: usize, speed: Option<f64>) -> String {
    let which = if number == 1 { String::new() } else { format!("attempt {number}, ") };
    let length = speed.map_or_else(String::new, |speed| format!(" speed, at most {:.0} s", 60.0 / speed));
    let text = format!("{which}{}{length}", shown(screen, speed));
    screen.wrap(&text, "", "")
}

/// Why an attempt is followed by another, between the two.
#[must_use]
pub fn repeat(screen: Screen, why: &str) -> String {
    screen.labelled("again", CAUTION, why)
}

/// What a run came to: lanes, sums, the gate, the verdict, and where it is stored.
#[must_use]
pub fn closing(screen: Screen, record: &Record, stored_in: Option<&Path>) -> String {
    let mut text = String::new();
    if let Some(last) = record.attempts.last() {
        text.push('\n');
        let events: Vec<Event> = last.events.iter().map(|observed| observed.event).collect();
        let expected = ("expected", &record.expected.events[..], Tick::END);
        let until = last.cut_off_at.unwrap_or(Tick::END);
        text.push_str(&match last.difference {
            Some(_) => paint::lanes(screen, &record.scenario, &[expected, ("observed", &events, until)]),
            None => paint::lanes(screen, &record.scenario, &[("", &events, until)]),
        });
        text.push('\n');
        let (whole, expected) = (last.cut_off_at.is_none(), record.expected.outcome.gate);
        text.push_str(&summary::observed(screen, &record.scenario, &last.outcome, whole, expected));
    }
    if let Some(last) = record.attempts.last() {
        text.push_str(&evidence::signal(screen, last));
    }
    text.push_str(&verdict(screen, record));
    if let Some(last) = record.attempts.last() {
        text.push_str(&timing(screen, &record.attempts, last));
        for remark in &last.remarks {
            text.push_str(&screen.labelled("remark", CAUTION, remark));
        }
    }
    if let Some(path) = stored_in {
        // Not wrapped: a path is for copying.
        text.push_str(&format!("{}{}\n", painted(STRONG, &format!("{:<10}", "stored")), path.display()));
    }
    text
}

/// A stored run, printed as it was when it happened.
#[must_use]
pub fn replay(screen: Screen, record: &Record, stored_in: Option<&Path>) -> String {
    let mut text = heading(screen, &record.scenario);
    let decisions = Decisions::new(screen, &record.expected.events);
    for (index, attempt) in record.attempts.iter().enumerate() {
        text.push_str(&attempt_heading(screen, index + 1, attempt.speed));
        let mut as_it_happened: Vec<&Observed> = attempt.events.iter().collect();
        as_it_happened.sort_by_key(|observed| observed.at_us);
        as_it_happened.iter().filter_map(|observed| decisions.line(observed)).for_each(|line| text.push_str(&line));
        let is_last = index + 1 == record.attempts.len();
        if let (false, Next::Repeat { why }) = (is_last, decide(&record.attempts[..=index], true)) {
            text.push_str(&repeat(screen, &why));
        }
    }
    text.push_str(&closing(screen, record, stored_in));
    text
}

/// The verdict with its reasons, and where model and processes differ.
#[must_use]
pub fn verdict(screen: Screen, record: &Record) -> String {
    let marks = screen.marks();
    let last = record.attempts.last();
    let difference = last.and_then(|attempt| attempt.difference.as_ref());
    let (style, mark, summary) = match record.verdict {
        Verdict::Matched => {
            let events = record.expected.events.len();
            (GOOD, marks.good, format!("MATCHED: all {events} events are what the model expected"))
        }
        Verdict::Diverged => (BAD, marks.bad, "DIVERGED: the processes did not do what the model expected".to_owned()),
        Verdict::Inconclusive => (CAUTION, marks.unsure, "INCONCLUSIVE: nothing is proved either way".to_owned()),
    };
    let mut text = screen.labelled("verdict", style, &format!("{mark} {summary}"));
    if let Some(difference) = difference {
        text.push_str(&side_by_side(screen, difference));
    }
    for reason in &record.reasons {
        text.push_str(&screen.labelled("", STRONG, reason));
    }
    if screen.verbose {
        text.push_str(&other_differences(screen, record));
    }
    text
}

/// Where model and processes differ beside the first difference, which goes with the verdict.
#[must_use]
pub(crate) fn other_differences(screen: Screen, record: &Record) -> String {
    let Some(last) = record.attempts.last() else { return String::new() };
    let all = compare::differences(&record.expected.events, &last.events);
    let told =
        all.iter().enumerate().skip(1).map(|(index, difference)| {
            screen.labelled(&format!("{}/{}", index + 1, all.len()), QUIET, &difference.what)
        });
    told.collect()
}

fn side_by_side(screen: Screen, difference: &Difference) -> String {
    let event = |event: &Event| format!("{} s: {}", event.t, event.kind);
    let nothing = || "nothing of the kind".to_owned();
    let mut observed = difference.observed.as_ref().map_or_else(nothing, |observed| event(&observed.event));
    if let Some(note) = difference.observed.as_ref().and_then(|observed| observed.note.as_deref()) {
        observed = format!("{observed} ({note})");
    }
    let mut text = screen.labelled("", STRONG, &difference.what);
    text.push_str(&screen.labelled("expected", QUIET, &difference.expected.as_ref().map_or_else(nothing, event)));
    text.push_str(&screen.labelled("observed", BAD, &observed));
    if let Some(why) = &difference.why {
        text.push_str(&screen.labelled("because", STRONG, why));
    }
    text
}

/// One line on speed and lateness; a table for each attempt where more is to be shown.
fn timing(screen: Screen, attempts: &[Attempt], last: &Attempt) -> String {
    let marks = screen.marks();
    let mut line = format!("{} in {:.1} s", shown(screen, last.speed), last.wall_ms as f64 / 1000.0);
    if attempts.len() > 1 {
        line.push_str(&format!(" (attempt {})", attempts.len()));
    }
    let used = |late: &Lateness| late.closest_us as f64 / late.allowed_us.max(1) as f64;
    // On a stepped clock nothing can be late.
    let closest = last.lateness.iter().max_by(|a, b| used(a).total_cmp(&used(b)));
    if let Some(closest) = closest.filter(|_| last.speed.is_some()) {
        let judgement = if closest.within_bounds() { "at most" } else { "TOO LATE:" };
        line.push_str(&format!(
            "{}{judgement} {} late of {} allowed ({})",
            marks.separator,
            ms(closest.closest_us),
            ms(closest.allowed_us),
            closest.part.name()
        ));
    }
    let mut text = screen.labelled("timing", STRONG, &line);
    if screen.verbose {
        for (index, attempt) in attempts.iter().enumerate() {
            text.push_str(&lateness_table(screen, index + 1, attempt));
        }
    }
    text
}

fn lateness_table(screen: Screen, number: usize, attempt: &Attempt) -> String {
    let title = format!("attempt {number}, {}", shown(screen, attempt.speed));
    let mut text = format!("  {title:<20} {:>5} {:>9} {:>9} {:>9}\n", "count", "median", "worst", "allowed");
    if screen.width < 60 {
        text = format!("  {title}\n  count, median, worst, allowed\n");
    }
    for late in &attempt.lateness {
        let (count, [median, worst, allowed]) = (late.count, [late.median_us, late.worst_us, late.allowed_us].map(ms));
        let verdict = if late.within_bounds() { "" } else { "  TOO LATE" };
        if screen.width < 60 {
            text.push_str(&format!("  {}: {count}, {median}, {worst}, {allowed}{verdict}\n", late.part.name()));
        } else {
            let name = late.part.name();
            text.push_str(&format!("    {name:<18} {count:>5} {median:>9} {worst:>9} {allowed:>9}{verdict}\n"));
        }
    }
    text
}

fn ms(us: u64) -> String {
    format!("{:.2} ms", us as f64 / 1000.0)
}

/// A speed with no more decimals than it takes.
fn shown(screen: Screen, speed: Option<f64>) -> String {
    match speed {
        Some(speed) => format!("{}{}", (speed * 1000.0).round() / 1000.0, screen.marks().times),
        None => "stepped clock".to_owned(),
    }
}
