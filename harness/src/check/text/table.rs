//! How many requests came to what, before, across and after the signal.

use std::fmt::Write as _;

use anstyle::Style;

use crate::{
    check::{
        fate::{Fate, Phase},
        record::{Observed, SeatRecord},
        timeline,
    },
    report::{
        Screen,
        screen::{BAD, CAUTION, PLAIN, QUIET, STRONG, paint},
    },
};

/// The width of the column with what became of them.
const NAME: usize = 28;
/// The widths of the columns with numbers.
const NUMBERS: [usize; 3] = [9, 11, 8];
/// The same where two seats stand beside each other.
const NARROW: [usize; 3] = [8, 11, 7];

/// How wide a table with two seats is, in columns.
pub(super) const BOTH_WIDTH: usize = NAME + 2 * (NARROW[0] + NARROW[1] + NARROW[2]);

/// Of one seat. Where the screen is too narrow, names that are too long for their column stand above their numbers.
pub(super) fn table(screen: Screen, title: &str, observed: &Observed) -> String {
    let name = NAME.min(screen.width.saturating_sub(NUMBERS.iter().sum()));
    let mut text = named(STRONG, title, name, "") + &phases(NUMBERS) + "\n";
    for fate in Fate::ALL {
        let counts = counts(observed, fate);
        if counts.iter().sum::<usize>() > 0 || fate == Fate::Completed {
            text.push_str(&row(screen, fate, name, &numbers(counts, NUMBERS)));
        }
    }
    text
}

/// Of two seats beside each other. What stands before each fate is its mark in the overview of both.
pub(super) fn both(screen: Screen, seats: [&SeatRecord; 2]) -> String {
    let width = NARROW.iter().sum::<usize>();
    let titles: String = seats.map(|seat| format!("{:>width$}", format!("as {}", seat.seat.title()))).concat();
    let mut text = format!("{}{}\n", paint(STRONG, &format!("{:<NAME$}", "requests")), paint(QUIET, &titles));
    let _ = writeln!(text, "{:<NAME$}{}", "", phases(NARROW).repeat(2));
    for fate in Fate::ALL {
        let counts = seats.map(|seat| counts(&seat.observed, fate));
        if counts.iter().flatten().sum::<usize>() > 0 || fate == Fate::Completed {
            text.push_str(&row(screen, fate, NAME, &counts.map(|counts| numbers(counts, NARROW)).concat()));
        }
    }
    text
}

fn phases(widths: [usize; 3]) -> String {
    let [before, across, after] = widths;
    paint(QUIET, &format!("{:>before$}{:>across$}{:>after$}", "before", "in flight", "after"))
}

/// How many requests came to this before, across and after the signal.
pub(in crate::check) fn counts(observed: &Observed, fate: Fate) -> [usize; 3] {
    Phase::ALL
        .map(|phase| observed.requests.iter().filter(|request| request.fate == fate && request.phase == phase).count())
}

fn numbers(counts: [usize; 3], widths: [usize; 3]) -> String {
    let mut text = String::new();
    for (count, width) in counts.into_iter().zip(widths) {
        let count = if count == 0 { "-".to_owned() } else { count.to_string() };
        let _ = write!(text, "{count:>width$}");
    }
    text
}

fn row(screen: Screen, fate: Fate, width: usize, numbers: &str) -> String {
    let style = match fate {
        Fate::Completed => PLAIN,
        Fate::Completed5xx | Fate::Refused => CAUTION,
        _ => BAD,
    };
    let name = format!("{} {}", timeline::mark(screen, fate), fate.title());
    named(style, &name, width, numbers) + "\n"
}

/// A name in a column of this width, and what stands beside it.
fn named(style: Style, name: &str, width: usize, beside: &str) -> String {
    let line_end = if name.chars().count() > width { format!("\n{:width$}", "") } else { String::new() };
    paint(style, &format!("{name:<width$}{line_end}{beside}"))
}
