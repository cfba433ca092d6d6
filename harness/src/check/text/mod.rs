//! What a person gets to read of a check: the verdict first, and on one screen.

mod both;
mod seat;
mod shared;
mod table;

use self::table::table;
pub(super) use self::{
    seat::{completed_us, percentile},
    table::counts,
};
use super::{
    fate::Phase,
    record::{Observed, Record, SeatRecord, Verdict},
    settings::{self, Seat, Settings, SignalAt},
    timeline, verdict,
};
use crate::report::{
    Screen,
    screen::{BAD, CAUTION, GOOD, QUIET, STRONG, paint},
};

const NO_BREAK_SPACE: &str = "\u{a0}";
/// How many of the last lines of the output are shown where no drill could be made.
const LAST_LINES: usize = 6;

/// What is being done, for a person who waits.
#[must_use]
pub fn progress(screen: Screen, settings: &Settings, seat: Seat) -> String {
    let when = match settings.signal_at {
        SignalAt::AfterReady(ms) => format!("{} after it is ready", settings::time(ms * 1000)),
        SignalAt::AfterStart(ms) => format!("{} after its start", settings::time(ms * 1000)),
    };
    let text = format!(
        "as {}: {} {when}, SIGKILL after at most {}",
        seat.title(),
        settings.signal,
        settings::time(settings.grace_ms * 1000)
    );
    paint(QUIET, screen.wrap(&text, "", "  ").trim_end()) + "\n"
}

/// A command line as it would be typed.
#[must_use]
pub fn line(command: &[String]) -> String {
    shlex::try_join(command.iter().map(String::as_str)).unwrap_or_else(|_| command.join(" "))
}

/// All of it: two seats beside each other on one screen, or where more is asked for one below the other.
#[must_use]
pub fn report(screen: Screen, record: &Record) -> String {
    if let ([one, other], false) = (&record.seats[..], screen.verbose) {
        return both::both(screen, record, [one, other]);
    }
    let seats: Vec<String> = record.seats.iter().map(|seat| seat::seat(screen, record, seat)).collect();
    let mut text = seats.join("\n");
    if let Some(difference) = &record.difference {
        text.push('\n');
        text.push_str(&screen.labelled("seats", STRONG, difference));
    }
    if !screen.verbose {
        text.push_str(&more(screen, 0));
    }
    text
}

/// Where more is to be read, so many remarks among it.
fn more(screen: Screen, notes: usize) -> String {
    let text = match notes {
        0 => "-v: details; --show-output: its output; --report x.html: each request".to_owned(),
        1 => "-v: 1 note, details; --show-output; --report x.html: each request".to_owned(),
        _ => format!("-v: {notes} notes, details; --show-output; --report x.html: each request"),
    };
    screen.labelled("more", QUIET, &text)
}

/// The verdicts only, a line each.
#[must_use]
pub fn verdicts(screen: Screen, record: &Record) -> String {
    record.seats.iter().map(|seat| heading(screen, seat)).collect()
}

fn heading(screen: Screen, seat: &SeatRecord) -> String {
    headed(screen, seat.judgement.verdict, seat.seat.title(), &reasons(seat))
}

/// Why it is no pass, or what a pass stands for.
pub(super) fn reasons(seat: &SeatRecord) -> String {
    match &seat.judgement.reasons[..] {
        [] => passed(&seat.observed),
        reasons => reasons.join(" "),
    }
}

/// A verdict and why.
pub(super) fn headed(screen: Screen, verdict: Verdict, seat: &str, why: &str) -> String {
    let marks = screen.marks();
    let (style, mark) = match verdict {
        Verdict::Pass => (GOOD, marks.good),
        Verdict::Fail => (BAD, marks.bad),
        Verdict::Inconclusive => (CAUTION, marks.unsure),
    };
    // The verdict stands in for an indent: escape sequences are not counted.
    let width = verdict.word().len() + 2;
    let text = screen.wrap(&format!("as {seat}: {why}"), &" ".repeat(width + 1), "  ");
    format!("{}{}", paint(style, &format!("{mark} {}", verdict.word())), &text[width..])
}

/// What a pass stands for.
fn passed(observed: &Observed) -> String {
    let across = observed.requests.iter().filter(|request| request.phase == Phase::Across).count() as u64;
    match across {
        0 => "no request was lost.".to_owned(),
        1 => "no request was lost, the one in flight included.".to_owned(),
        _ => format!("no request was lost, the {across} in flight included."),
    }
}

/// What the marks of the timeline mean, and when it was.
fn timing(screen: Screen, observed: &Observed) -> String {
    let events = timeline::events(screen, observed).into_iter().map(|event| {
        let at = match event.at_us {
            0..1_000 => String::new(),
            at_us if at_us < 0 => format!(" -{}", settings::time(at_us.unsigned_abs())),
            at_us => format!(" +{}", settings::time(at_us.unsigned_abs())),
        };
        format!("{} {}{at}", event.mark, event.name).replace(' ', NO_BREAK_SPACE)
    });
    events.collect::<Vec<_>>().join("  ")
}

/// How the first process ended.
pub(super) fn exit(observed: &Observed) -> String {
    observed.exit.map_or("it did not end".to_owned(), |status| status.to_string())
}

/// What was left behind.
pub(super) fn left(observed: &Observed) -> Option<String> {
    let at_end = observed.at_end.as_ref()?;
    let left: Vec<String> = at_end
        .alive()
        .filter(|process| Some(process.pid) != observed.top_pid)
        .map(|process| {
            let held = if observed.port_held_by.contains(&process.pid) { ", which holds the port" } else { "" };
            format!("{} (pid {}{held})", process.program(), process.namespace_pid)
        })
        .collect();
    let (shown, more) = left.split_at(left.len().min(4));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    (!left.is_empty()).then(|| format!("{}{more}", shown.join(", ")))
}

/// The end of what the command wrote.
fn last_lines(screen: Screen, observed: &Observed) -> String {
    let lines: Vec<&str> = observed.output.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return screen.labelled("output", STRONG, "none");
    }
    let mut text = screen.labelled("output", STRONG, &format!("{} bytes; its last lines:", observed.output_bytes));
    for line in &lines[lines.len().saturating_sub(LAST_LINES)..] {
        let short: String = line.chars().take(screen.width.saturating_sub(4)).collect();
        text.push_str(&screen.wrap(&short, "  | ", "  | "));
    }
    text
}

/// What the command wrote in each seat.
#[must_use]
pub fn outputs(screen: Screen, record: &Record) -> String {
    let mut text = String::new();
    for seat in &record.seats {
        let observed = &seat.observed;
        let kept = observed.output.len() as u64;
        let cut = if kept < observed.output_bytes { format!(", the last {kept} of them") } else { String::new() };
        let what = format!("what it wrote as {}, {} bytes{cut}:", seat.seat.title(), observed.output_bytes);
        text.push('\n');
        text.push_str(&screen.labelled("output", STRONG, &what));
        for line in observed.output.lines() {
            text.push_str(&screen.wrap(line, "  | ", "  | "));
        }
    }
    text
}

/// How two seats differ, in one line.
#[must_use]
pub fn difference(seats: &[SeatRecord]) -> Option<String> {
    let [first, second] = seats else { return None };
    if first.observed.unable.is_some() || second.observed.unable.is_some() {
        return None;
    }
    let said = |seat: &SeatRecord| {
        let mut said = vec![seat.judgement.verdict.word().to_owned(), exit(&seat.observed)];
        if seat.judgement.lost > 0 {
            said.push(format!("{} lost", seat.judgement.lost));
        }
        let left = verdict::left_behind(&seat.observed);
        if left > 0 {
            said.push(format!("{left} left behind"));
        }
        said
    };
    let (one, other) = (said(first), said(second));
    if one == other && first.explanation.cause == second.explanation.cause {
        return Some(format!("the same in both: {}.", one.join(", ")));
    }
    Some(format!("as {}: {}; as {}: {}.", first.seat.title(), one.join(", "), second.seat.title(), other.join(", ")))
}
