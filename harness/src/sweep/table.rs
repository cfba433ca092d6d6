//! A grid of one or two fields as text that fits the screen.

use scenarios::Gate;

use super::{
    axis::{Axis, Choice},
    grid::Cell,
};
use crate::{
    report::screen::{BAD, CAUTION, GOOD, QUIET, STRONG, Screen, paint},
    validate::report::drills,
};

/// More cells than this are for a file or a picture.
pub(super) const MOST_CELLS: usize = 1_500;

/// Between two columns.
const GAP: usize = 2;

/// The table: a line a value of one field, or one field across and the other down.
pub(super) fn text(screen: Screen, axes: &[Axis], cells: &[Cell]) -> String {
    let mut text = match axes {
        [axis] => list(screen, axis, cells),
        [across, down] => matrix(screen, across, down, cells),
        _ => return String::new(),
    };
    text.push('\n');
    text
}

/// What there is to say of all cells together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    all: usize,
    lossless: usize,
    passing: usize,
}

impl Counts {
    pub(super) fn add(&mut self, cell: &Cell) {
        self.all += 1;
        self.lossless += usize::from(cell.lost() == 0);
        self.passing += usize::from(cell.gate == Gate::Pass);
    }
}

pub(super) fn summary(screen: Screen, counts: &Counts) -> String {
    let Counts { all, lossless, passing } = counts;
    let parts = [drills(*all), format!("{lossless} lose nothing"), format!("the gate passes in {passing}")];
    screen.labelled("sweep", STRONG, &parts.join(screen.marks().separator))
}

fn list(screen: Screen, axis: &Axis, cells: &[Cell]) -> String {
    type Column = (&'static str, bool, fn(&Cell) -> String);
    // Where there is no room, only what decides is shown.
    let columns: [Column; 8] = [
        ("arrived", false, |cell| cell.arrivals.to_string()),
        ("admitted", false, |cell| cell.admitted.to_string()),
        ("completed", false, |cell| cell.completed.to_string()),
        ("rejected", true, |cell| cell.rejected.to_string()),
        ("%", false, |cell| format!("{:.1}", cell.rejected_percent)),
        ("killed", true, |cell| cell.killed.to_string()),
        ("running", true, |cell| cell.running.to_string()),
        ("gate", true, |_| String::new()),
    ];
    let width = |name: &str| name.len().max(5) + GAP;
    let first = widest(axis.values.iter()).max(5);
    let needed: usize = columns.iter().map(|(name, _, _)| width(name)).sum();
    let columns: Vec<_> = columns.iter().filter(|(_, must, _)| *must || first + needed + GAP <= screen.width).collect();
    let mut text = screen.wrap(&named(axis), "", "");
    let head: String = columns.iter().map(|(name, _, _)| format!("{name:>width$}", width = width(name))).collect();
    text.push_str(&paint(QUIET, &format!("{:first$}{head}", "")));
    text.push('\n');
    for (choice, cell) in axis.values.iter().zip(cells) {
        // An entrypoint's command can be longer than the screen is wide.
        let label = clipped(&choice.label, screen);
        let row: String = columns
            .iter()
            .map(|(name, _, value)| match *name {
                "gate" => format!("{:>width$}", gate_word(screen, cell), width = width(name)),
                name => format!("{:>width$}", value(cell), width = width(name)),
            })
            .collect();
        let beside = first + row.chars().count() <= screen.width;
        let label = if beside { format!("{label:>first$}") } else { format!("{label}\n{:first$}", "") };
        text.push_str(&format!("{label}{}\n", paint(style(cell), &row)));
    }
    text
}

fn matrix(screen: Screen, across: &Axis, down: &Axis, cells: &[Cell]) -> String {
    let lines: Vec<Vec<String>> = cells
        .chunks(down.values.len())
        .map(|column| column.iter().map(|cell| compact(screen, cell)).collect())
        .collect();
    let marks = screen.marks();
    let legend = format!(
        "killed/rejected, +N still running at the end, {} the gate passes, {} it does not",
        marks.good, marks.bad
    );
    let mut text = screen.wrap(&format!("{} across, {} down", named(across), named(down)), "", "");
    text.push_str(&screen.wrap(&legend, "", ""));
    let label_limit = screen.width / 3;
    let label_width = widest(down.values.iter()).min(label_limit);
    let cell_width = lines.iter().flatten().map(|cell| cell.chars().count()).max().unwrap_or(0);
    let cell_width = cell_width.max(widest(across.values.iter()).min(label_limit)) + GAP;
    let in_a_block = (screen.width.saturating_sub(label_width) / cell_width).max(1);
    for (block, columns) in across.values.chunks(in_a_block).enumerate() {
        let from = block * in_a_block;
        text.push('\n');
        let head: String =
            columns.iter().map(|choice| format!("{:>cell_width$}", shortened(&choice.label, label_limit))).collect();
        text.push_str(&paint(QUIET, &format!("{:label_width$}{head}", "")));
        text.push('\n');
        for (row, choice) in down.values.iter().enumerate() {
            text.push_str(&paint(QUIET, &format!("{:>label_width$}", shortened(&choice.label, label_width))));
            for column in from..from + columns.len() {
                let cell = &cells[column * down.values.len() + row];
                text.push_str(&paint(style(cell), &format!("{:>cell_width$}", lines[column][row])));
            }
            text.push('\n');
        }
    }
    text
}

/// `4+1/12✘`.
fn compact(screen: Screen, cell: &Cell) -> String {
    let marks = screen.marks();
    let running = if cell.running > 0 { format!("+{}", cell.running) } else { String::new() };
    let gate = if cell.gate == Gate::Pass { marks.good } else { marks.bad };
    format!("{}{running}/{}{gate}", cell.killed, cell.rejected)
}

fn gate_word(screen: Screen, cell: &Cell) -> String {
    let marks = screen.marks();
    match cell.gate {
        Gate::Pass => format!("{} pass", marks.good),
        Gate::Fail => format!("{} fail", marks.bad),
    }
}

fn style(cell: &Cell) -> anstyle::Style {
    match (cell.lost(), cell.gate) {
        (0, Gate::Pass) => GOOD,
        (0, Gate::Fail) => CAUTION,
        _ => BAD,
    }
}

fn named(axis: &Axis) -> String {
    match axis.field.unit {
        "%" => format!("{} (%)", axis.field.name),
        _ => axis.field.name.to_owned(),
    }
}

fn widest<'a>(choices: impl Iterator<Item = &'a Choice>) -> usize {
    choices.map(|choice| choice.label.chars().count()).max().unwrap_or(0)
}

fn clipped(label: &str, screen: Screen) -> String {
    shortened(label, screen.width)
}

/// The label with its end left out where it is longer than `most` columns.
fn shortened(label: &str, most: usize) -> String {
    if label.chars().count() <= most {
        return label.to_owned();
    }
    let kept: String = label.chars().take(most.saturating_sub(2)).collect();
    format!("{kept}..")
}
