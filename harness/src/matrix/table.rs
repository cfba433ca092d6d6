//! The matrix as a text that a person reads at a glance.

use anstyle::Style;
use scenarios::{
    OnSigterm,
    prediction::{Reaction, Top, WorkerFate},
};

use super::{
    cell::Seen,
    forms::Kind,
    grade::{Grade, Graded, Matrix, Witness},
    testimony,
    witness::Agreement,
};
use crate::report::{
    Screen,
    screen::{BAD, CAUTION, GOOD, PLAIN, QUIET, STRONG, paint},
};

/// The widths of the column of forms and programs, and of one cell, in columns.
#[derive(Clone, Copy)]
struct Widths {
    label: usize,
    cell: usize,
    /// Whether each seat has a line of its own, below the label: all of them don't fit beside each other.
    stacked: bool,
}

/// The widest word of a cell, with its mark.
const WORD: usize = 9;

impl Widths {
    /// Where the kernel is asked, many a cell has a mark.
    fn of(screen: Screen, matrix: &Matrix) -> Widths {
        let (label, cell) = match matrix.kernel {
            Some(Witness::Compared { .. }) => (19, 10),
            _ => (25, 9),
        };
        if label + cell * columns(matrix).len().saturating_sub(1) + WORD > screen.width {
            return Widths { label: 12, cell, stacked: true };
        }
        Widths { label, cell, stacked: false }
    }
}

const LEGEND: [(&str, &str); 8] = [
    ("exit N, sig N", "how the top ended, after the worker had drained or died of the signal"),
    ("stuck", "nothing ended until SIGKILL"),
    ("stuck+", "the same, and the worker outlives the SIGKILL that its top gets"),
    ("orphan", "the top is gone and the worker lives on, none the wiser"),
    ("alone", "the top left first; the worker was told and drained by itself"),
    ("cut", "the top left first and the worker was killed with its work in hand"),
    ("gone", "the top was gone before the signal came"),
    ("unusable", "the command runs no worker here"),
];

/// The whole matrix: a row for each form and the programs that behave alike in it, or with `-v` for each program.
pub(super) fn text(screen: Screen, matrix: &Matrix) -> String {
    let widths = Widths::of(screen, matrix);
    let mut text = head(matrix, widths);
    let mut rows = rows(matrix);
    if !screen.verbose {
        rows = merged(rows);
    }
    let mut form = "";
    for row in &rows {
        let title = title(row.cells[0]);
        let alone = row.cells[0].kind == Kind::Exec;
        if row.cells[0].form != form && !alone {
            text.push_str(&paint(STRONG, &title));
            // As --form takes it.
            let name = if screen.verbose { format!("  {}", row.cells[0].form) } else { String::new() };
            text.push_str(&(paint(QUIET, &name) + "\n"));
        }
        form = &row.cells[0].form;
        text.push_str(&line(screen, widths, &title, row, alone));
        if screen.verbose {
            text.push_str(&details(screen, row));
        }
    }
    text.push('\n');
    text.push_str(&legend(screen, matrix));
    text.push_str(&testimony::text(screen, matrix));
    text.push_str(&summary(screen, matrix));
    text
}

/// The cells of one command line, or of several that came out the same.
struct TableRow<'a> {
    programs: Vec<&'a str>,
    cells: Vec<&'a Graded>,
    /// What the kernel says of each column, the worst of all programs.
    agreements: Vec<Option<Agreement>>,
}

fn rows(matrix: &Matrix) -> Vec<TableRow<'_>> {
    let same = |a: &Graded, b: &Graded| a.form == b.form && a.program == b.program;
    let rows = matrix.cells.chunk_by(same);
    rows.map(|cells| TableRow {
        programs: vec![&cells[0].program],
        cells: cells.iter().collect(),
        agreements: cells.iter().map(agreement).collect(),
    })
    .collect()
}

/// Rows of the same form with the same words in every cell become one. What is bad stays on its own; a difference that
/// is explained may be a matter of chance.
fn merged(rows: Vec<TableRow<'_>>) -> Vec<TableRow<'_>> {
    let mut merged: Vec<TableRow<'_>> = Vec::new();
    for row in rows {
        let shown = |cell: &&Graded| (word(cell), cell.grade, agreement(cell) > Some(Agreement::Explained));
        let words = |row: &TableRow<'_>| row.cells.iter().map(shown).collect::<Vec<_>>();
        let alike =
            merged.iter_mut().find(|other| other.cells[0].form == row.cells[0].form && words(other) == words(&row));
        match alike {
            Some(other) => {
                other.programs.extend(row.programs);
                let both = other.agreements.iter_mut().zip(row.agreements);
                both.for_each(|(one, another)| *one = another.max(*one));
            }
            None => merged.push(row),
        }
    }
    merged
}

fn title(cell: &Graded) -> String {
    match cell.kind {
        Kind::Exec | Kind::Shell => cell.title.clone(),
        Kind::Init => format!("INIT {}", cell.title),
        Kind::Wrapper => "wrappers".to_owned(),
    }
}

/// The cells of the first row, which has every column.
fn columns(matrix: &Matrix) -> &[Graded] {
    let same = |a: &Graded, b: &Graded| a.form == b.form && a.program == b.program;
    matrix.cells.chunk_by(same).next().unwrap_or_default()
}

fn seat_name(cell: &Graded) -> &'static str {
    if cell.pid1 { "PID 1" } else { "not PID 1" }
}

fn head(matrix: &Matrix, widths: Widths) -> String {
    let mut seats = " ".repeat(widths.label);
    let mut postures = seats.clone();
    for seat in columns(matrix).chunk_by(|a, b| a.pid1 == b.pid1) {
        let name = seat_name(&seat[0]);
        seats.push_str(&format!("{name:<width$}", width = widths.cell * seat.len()));
        for cell in seat {
            let name = match cell.posture {
                OnSigterm::Drain => "handler",
                OnSigterm::Default => "none",
                OnSigterm::Ignore => "SIG_IGN",
            };
            postures.push_str(&format!("{name:<width$}", width = widths.cell));
        }
        if widths.stacked {
            return paint(QUIET, postures.trim_end()) + "\n";
        }
    }
    format!("{}\n{}\n", paint(QUIET, seats.trim_end()), paint(QUIET, postures.trim_end()))
}

fn line(screen: Screen, widths: Widths, title: &str, row: &TableRow<'_>, alone: bool) -> String {
    let cells: Vec<_> = row.cells.iter().copied().zip(row.agreements.iter().copied()).collect();
    if widths.stacked {
        let mut text =
            if alone { paint(STRONG, title) + "\n" } else { screen.wrap(&row.programs.join(", "), "  ", "  ") };
        for seat in cells.chunk_by(|(a, _), (b, _)| a.pid1 == b.pid1) {
            let name = format!("  {:<width$}", seat_name(seat[0].0), width = widths.label - 2);
            text.push_str(&format!("{}{}\n", paint(QUIET, &name), line_of(screen, widths, seat)));
        }
        return text;
    }
    let cells = line_of(screen, widths, &cells);
    let label = if alone { title.to_owned() } else { format!("  {}", row.programs.join(", ")) };
    if label.chars().count() < widths.label {
        let style = if alone { STRONG } else { PLAIN };
        return format!("{}{}\n", paint(style, &format!("{label:<width$}", width = widths.label)), cells);
    }
    // Too many to stand beside their cells: they stand above.
    format!("{}{}{}\n", screen.wrap(label.trim_start(), "  ", "  "), " ".repeat(widths.label), cells)
}

fn line_of(screen: Screen, widths: Widths, cells: &[(&Graded, Option<Agreement>)]) -> String {
    let painted = cells.iter().enumerate().map(|(index, (cell, agreement))| {
        let width = if index + 1 < cells.len() { widths.cell } else { 0 };
        painted(screen, width, cell, *agreement)
    });
    painted.collect()
}

fn painted(screen: Screen, width: usize, cell: &Graded, agreement: Option<Agreement>) -> String {
    let (mut word, marks) = (word(cell), screen.marks());
    if cell.grade == Grade::Wrong {
        word.push(marks.differs);
    }
    word.extend(match agreement {
        None | Some(Agreement::Agrees) => None,
        Some(Agreement::Explained) => Some(marks.explained),
        Some(Agreement::Unexplained | Agreement::Missing) => Some(marks.bad),
    });
    paint(style(cell), &format!("{word:<width$}"))
}

fn agreement(cell: &Graded) -> Option<Agreement> {
    cell.kernel.as_ref().map(|kernel| kernel.agreement)
}

fn word(cell: &Graded) -> String {
    match &cell.seen {
        Seen::Observed(seen) => seen.reaction.to_string(),
        Seen::Unusable(_) => "unusable".to_owned(),
        Seen::Inconclusive(_) => "?".to_owned(),
    }
}

fn style(cell: &Graded) -> Style {
    match &cell.seen {
        Seen::Observed(seen) => match (seen.reaction.top, seen.reaction.worker) {
            (Top::Gone(_), _) | (_, WorkerFate::Cut | WorkerFate::Orphaned) => BAD,
            (_, WorkerFate::Drained) => GOOD,
            (_, WorkerFate::Died | WorkerFate::DrainedAlone | WorkerFate::Stuck) => CAUTION,
        },
        Seen::Unusable(_) => QUIET,
        Seen::Inconclusive(_) => STRONG,
    }
}

/// What is known of each cell of a row: the tree, who ended when, what became of the work.
fn details(screen: Screen, row: &TableRow<'_>) -> String {
    let mut text = screen.wrap(&row.cells[0].command.join(" "), "    ", "      ");
    for cell in &row.cells {
        let mut line = format!("{}: {}", column(cell), sentence(&cell.seen));
        if let Some(kernel) = &cell.kernel {
            line.push_str(&format!("; {kernel}"));
        }
        text.push_str(&paint(QUIET, screen.wrap(&line, "    ", "      ").trim_end()));
        text.push('\n');
    }
    text
}

fn sentence(seen: &Seen) -> String {
    let seen = match seen {
        Seen::Observed(seen) => seen,
        Seen::Unusable(why) | Seen::Inconclusive(why) => return why.clone(),
    };
    let top = match (seen.reaction.top, seen.top_ended_ms) {
        (Top::Gone(status), _) => format!("top gone before the signal ({status})"),
        (Top::Ended(status), Some(ms)) => format!("top {status} after {ms} ms"),
        (Top::Ended(status), None) => format!("top {status}"),
        (Top::Stuck, _) => "top there until SIGKILL".to_owned(),
    };
    let fate = match seen.reaction.worker {
        WorkerFate::Drained => "drained",
        WorkerFate::DrainedAlone => "drained, left behind",
        WorkerFate::Died => "died of it",
        WorkerFate::Cut => "cut",
        WorkerFate::Orphaned => "orphaned",
        WorkerFate::Stuck if seen.reaction.outlives_sigkill => "untouched, and outlived the SIGKILL",
        WorkerFate::Stuck => "untouched until SIGKILL",
    };
    let when = seen.worker_ended_ms.map_or(String::new(), |ms| format!(" after {ms} ms"));
    let told = if seen.reaction.received { "got SIGTERM" } else { "never acted on SIGTERM" };
    let work = if seen.committed { "result committed" } else { "result lost" };
    format!("{}; {top}; app {told}, {fate}{when}; {work}", seen.tree)
}

fn legend(screen: Screen, matrix: &Matrix) -> String {
    let occurs = |word: &str| {
        matrix.cells.iter().any(|cell| {
            let own = self::word(cell);
            own == word || (word.starts_with("exit") && (own.starts_with("exit") || own.starts_with("sig")))
        })
    };
    let marked =
        |wanted: &[Agreement]| matrix.cells.iter().filter_map(agreement).any(|agreement| wanted.contains(&agreement));
    let (explained, bad) = (screen.marks().explained.to_string(), screen.marks().bad.to_string());
    let marks = [
        (
            &*explained,
            "the kernel's record and the masks differ, for a reason that is named below",
            &[Agreement::Explained][..],
        ),
        (
            &*bad,
            "they differ for no known reason, or something is not in the kernel's record",
            &[Agreement::Unexplained, Agreement::Missing],
        ),
    ];
    let words = LEGEND.into_iter().filter(|(word, _)| occurs(word));
    let marks = marks.into_iter().filter(|(_, _, wanted)| marked(wanted)).map(|(mark, meaning, _)| (mark, meaning));
    let lines = words.chain(marks).map(|(word, meaning)| {
        let next = " ".repeat(15);
        paint(QUIET, screen.wrap(meaning, &format!("{word:<15}"), &next).trim_end()) + "\n"
    });
    lines.collect()
}

fn summary(screen: Screen, matrix: &Matrix) -> String {
    let mut text = String::new();
    for cell in matrix.cells.iter().filter(|cell| cell.grade == Grade::Wrong) {
        let (Seen::Observed(_), predicted) = (&cell.seen, cell.predicted) else { continue };
        let predicted =
            predicted.map_or("nothing predicted".to_owned(), |reaction| format!("predicted {}", told(reaction)));
        let line = format!("{}, {}: {predicted}, {}", name(cell), column(cell), sentence(&cell.seen));
        text.push_str(&screen.wrap(&line, "", "  "));
    }
    for (why, cells) in unsure(matrix) {
        let mut names: Vec<String> = cells.iter().map(|cell| name(cell)).collect();
        names.dedup();
        let (first, more) = (names.swap_remove(0), names.len());
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        text.push_str(&screen.wrap(&format!("{first}{more}: {why}"), "", "  "));
    }
    let mut missing: Vec<&str> = matrix.not_found.iter().map(|missing| missing.needs.as_str()).collect();
    missing.dedup();
    if !missing.is_empty() {
        text.push_str(&screen.wrap(&format!("Not found here: {}.", missing.join(", ")), "", "  "));
    }
    text.push_str(&screen.wrap(&format!("/bin/sh is {}.", matrix.sh), "", ""));
    let all = matrix.cells.len();
    let mut line = format!("{all} cells: {} predicted right, {} wrong", matrix.right, matrix.wrong);
    if matrix.inconclusive > 0 {
        line.push_str(&format!(", {} inconclusive", matrix.inconclusive));
    }
    let unusable = matrix.cells.iter().filter(|cell| cell.grade == Grade::Unusable).count();
    if unusable > 0 {
        line.push_str(&format!(", {unusable} can't be used here"));
    }
    let style = match matrix.exit_code() {
        0 => GOOD,
        1 => BAD,
        _ => CAUTION,
    };
    text.push_str(&paint(style, &line));
    text.push('\n');
    text
}

/// The cells that say nothing, by what kept them from it.
fn unsure(matrix: &Matrix) -> Vec<(String, Vec<&Graded>)> {
    let mut reasons: Vec<(String, Vec<&Graded>)> = Vec::new();
    for cell in &matrix.cells {
        let why = match &cell.seen {
            Seen::Observed(_) => continue,
            Seen::Unusable(why) => format!("can't be used here: {why}"),
            Seen::Inconclusive(why) => format!("inconclusive: {why}"),
        };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, cells)) => cells.push(cell),
            None => reasons.push((why, vec![cell])),
        }
    }
    reasons
}

pub(super) fn name(cell: &Graded) -> String {
    format!("{} {}", cell.program, cell.title).trim().to_owned()
}

pub(super) fn column(cell: &Graded) -> String {
    format!("{}, {}", seat_name(cell), cell.posture.name())
}

fn told(predicted: Reaction) -> String {
    let told = if predicted.received { "told" } else { "not told" };
    format!("{predicted} ({told})")
}
