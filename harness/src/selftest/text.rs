//! The result of the self-test as a table.

use scenarios::{Event, EventKind};

use super::judgement::{Judgement, Row, count};
use crate::{
    cli::ClockChoice,
    report::{
        Screen,
        screen::{BAD, CAUTION, GOOD, QUIET, STRONG, paint},
    },
};

/// The width of the column of faults, and of each clock's.
const NAME_WIDTH: usize = 23;
const CLOCK_WIDTH: usize = 9;

/// A row for every fault, with a column for each clock and the event that was wrong first; then what there is to say.
pub(super) fn report(screen: Screen, clocks: &[ClockChoice], results: &[Row]) -> String {
    let heads: String = clocks.iter().map(|&clock| format!("{:<CLOCK_WIDTH$}", name(clock))).collect();
    let indent = NAME_WIDTH + CLOCK_WIDTH * clocks.len();
    let last = if fits_beside(screen, indent) { "first wrong event" } else { "" };
    let head = format!("{:<NAME_WIDTH$}{heads}{last}", "fault");
    let mut text = paint(STRONG, head.trim_end()) + "\n";
    for result in results {
        let fault = result.case.fault;
        let mut cells = format!("{:<NAME_WIDTH$}", fault.name());
        cells.extend(result.on.iter().map(|(_, found)| cell(screen, found)));
        let first = first(screen, result.case.expected, result.case.observed);
        text.push_str(&beside(screen, &cells, indent, &first));
        if screen.verbose {
            text.push_str(&paint(QUIET, &screen.wrap(fault.what(), "  ", "  ")));
        }
    }
    text.push('\n');
    for Row { case, on } in results {
        for (clock, found) in on {
            let Some(why) = found.why() else { continue };
            let style = if matches!(found, Judgement::Slipped(_)) { BAD } else { QUIET };
            let text_of_it = format!("{}, {} clock: {}", case.fault, name(*clock), why);
            text.push_str(&paint(style, screen.wrap(&text_of_it, "", "  ").trim_end()));
            text.push('\n');
        }
    }
    let counted = [
        (count(results, "caught"), "caught"),
        (count(results, "slipped"), "slipped through"),
        (count(results, "inconclusive"), "undecided"),
        (count(results, "not_applicable"), "not applicable"),
    ];
    let told: Vec<String> = counted.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let style = match (counted[1].0, counted[2].0) {
        (0, 0) => GOOD,
        (0, _) => CAUTION,
        _ => BAD,
    };
    text.push_str(&screen.labelled("faults", style, &format!("{}: {}", results.len(), told.join(", "))));
    text
}

fn name(clock: ClockChoice) -> &'static str {
    match clock {
        ClockChoice::Scaled => "scaled",
        ClockChoice::Stepped => "stepped",
    }
}

fn cell(screen: Screen, found: &Judgement) -> String {
    let marks = screen.marks();
    let (mark, word, style) = match found {
        Judgement::Caught => (marks.good, "caught", GOOD),
        Judgement::Slipped(_) => (marks.bad, "slips", BAD),
        Judgement::Inconclusive(_) => (marks.unsure, "unsure", CAUTION),
        Judgement::NotApplicable(_) => ('-', "n/a", QUIET),
    };
    paint(style, &format!("{:<CLOCK_WIDTH$}", format!("{mark} {word}")))
}

/// The event as the model has it, and what of it has to be seen otherwise.
fn first(screen: Screen, expected: Option<Event>, observed: Option<Event>) -> String {
    let arrow = screen.marks().admitted;
    match (expected, observed) {
        (Some(expected), None) => format!("{}\u{a0}s {} {arrow} never", expected.t, name_of(expected)),
        (None, Some(observed)) => format!("{}\u{a0}s {} {arrow} once more", observed.t, name_of(observed)),
        (None, None) => String::new(),
        (Some(expected), Some(observed)) => {
            let same_name = name_of(expected) == name_of(observed);
            let particular = if same_name && expected.kind != observed.kind { particular } else { |_| None };
            let mut text = format!("{}\u{a0}s {}", expected.t, name_of(expected));
            text.extend(particular(expected).map(|what| format!(" ({what})")));
            text.push_str(&format!(" {arrow}"));
            if expected.t != observed.t {
                text.push_str(&format!(" {}\u{a0}s", observed.t));
            }
            if !same_name {
                text.push_str(&format!(" {}", name_of(observed)));
            }
            text.extend(particular(observed).map(|what| format!(" ({what})")));
            text
        }
    }
}

fn name_of(event: Event) -> String {
    let kind = event.kind;
    let subject = kind.request().map(|request| request.to_string());
    let subject = subject.or_else(|| kind.worker().map(|worker| worker.to_string()));
    format!("{} {}", kind.name(), subject.unwrap_or_default())
}

/// What two events of the same name and subject can differ in.
fn particular(event: Event) -> Option<String> {
    match event.kind {
        EventKind::ResultCommitted { sum, .. } => Some(format!("sum {sum}")),
        EventKind::WorkerFailed { status, .. }
        | EventKind::WorkerExited { status, .. }
        | EventKind::WorkerOrphaned { status, .. } => Some(status.to_string()),
        EventKind::RequestAdmitted { worker, slot, .. } => Some(format!("{worker}, slot {slot}")),
        EventKind::RequestRejected { reason, .. } => Some(reason.to_string()),
        _ => None,
    }
}

/// Whether there is room for the events beside cells that are `width` wide.
fn fits_beside(screen: Screen, width: usize) -> bool {
    screen.width >= width + 24
}

/// `text` wrapped to the right of `cells`, which are `width` wide, or below them where there is too little room.
fn beside(screen: Screen, cells: &str, width: usize, text: &str) -> String {
    if !fits_beside(screen, width) {
        return format!("{}\n{}", cells.trim_end(), screen.wrap(text, "    ", "    "));
    }
    let indent = " ".repeat(width);
    let wrapped = screen.wrap(text, &indent, &indent);
    // The painted cells stand in for the indent of the first line: what wraps counts no escape sequences.
    format!("{cells}{}", wrapped.strip_prefix(&indent).unwrap_or(&wrapped))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selftest::cases::CASES;

    fn results() -> Vec<Row> {
        let found = |index: usize, clock| match (index, clock) {
            (1, ClockChoice::Scaled) => Judgement::Inconclusive("The machine was too slow.".to_owned()),
            (2, ClockChoice::Stepped) => Judgement::Slipped("All that happened is what was expected.".to_owned()),
            _ => CASES[index]
                .not_applicable_on(clock)
                .map_or(Judgement::Caught, |why| Judgement::NotApplicable(why.to_owned())),
        };
        let on = |index| [ClockChoice::Scaled, ClockChoice::Stepped].map(|clock| (clock, found(index, clock))).to_vec();
        CASES.iter().enumerate().map(|(index, case)| Row { case, on: on(index) }).collect()
    }

    #[test]
    fn the_table_fits_every_screen() {
        for (width, ascii) in [(40, true), (80, false), (120, false)] {
            let screen = Screen { width, ascii, verbose: false };
            let text = report(screen, &[ClockChoice::Scaled, ClockChoice::Stepped], &results());
            let plain = anstream::adapter::strip_str(&text).to_string();
            let longest = plain.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width.max(NAME_WIDTH + 2 * CLOCK_WIDTH)), "{longest:?} of {width}:\n{plain}");
            insta::assert_snapshot!(format!("selftest-{width}"), plain);
        }
    }
}
