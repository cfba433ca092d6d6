//! Lanes as text: a glyph and a style for each cell, the axis above and the legend below.

use anstyle::Style;
use scenarios::{Event, Scenario, Stage, Tick};

use super::{
    lanes::{Cell, Edge, Ending, Lanes, column_of, layout},
    screen::{BAD, CAUTION, GOOD, Marks, NO_BREAK_SPACE, PLAIN, QUIET, STRONG, Screen, paint},
};

/// The width of the column of row labels: `worker-64` and a space.
const LABEL_WIDTH: usize = 10;

/// A trace to draw: its heading, its events in trace order, and the tick until which they are known.
pub(super) type Drawn<'a> = (&'a str, &'a [Event], Tick);

/// The lanes of one or more traces of a scenario as text, each under its heading, and one legend for all.
pub(super) fn lanes(screen: Screen, scenario: &Scenario, traces: &[Drawn<'_>]) -> String {
    let mut text = String::new();
    let mut all: Vec<Lanes> = Vec::new();
    for &(heading, events, until) in traces {
        let lanes = layout(scenario, events, until, screen.width - LABEL_WIDTH, screen.verbose);
        text.push_str(&axis(&lanes, heading));
        for row in &lanes.rows {
            let style = if row.label.starts_with(' ') { QUIET } else { STRONG };
            text.push_str(&paint(style, &format!("{:<LABEL_WIDTH$}", row.label)));
            text.push_str(cells(&row.cells, screen.marks()).trim_end());
            text.push('\n');
        }
        lanes.left_out.iter().for_each(|sentence| text.push_str(&screen.wrap(sentence, "", "")));
        all.push(lanes);
    }
    text.push_str(&legend(screen, &all));
    text
}

/// The seconds 0, 10, … 60 over their columns, the last one ending at the edge; those that would touch it are left
/// out.
fn axis(lanes: &Lanes, heading: &str) -> String {
    const END: &str = "60 s";
    let mut line = heading.to_owned();
    let end = (LABEL_WIDTH + lanes.columns).saturating_sub(END.len());
    for second in (0..60).step_by(10) {
        let (number, at) = (second.to_string(), LABEL_WIDTH + column_of(Tick(second * 10), lanes.columns));
        if line.len() < at && at + number.len() < end {
            line = format!("{line:<at$}{number}");
        }
    }
    paint(QUIET, &format!("{line:<end$}{END}")) + "\n"
}

fn cells(cells: &[Cell], marks: &Marks) -> String {
    let mut text = String::new();
    for run in cells.chunk_by(|a, b| style(*a) == style(*b)) {
        let glyphs: String = run.iter().map(|&cell| glyph(cell, marks)).collect();
        match style(run[0]) {
            PLAIN => text.push_str(&glyphs),
            style => text.push_str(&paint(style, &glyphs)),
        }
    }
    text
}

/// What stands in a cell.
pub(crate) fn glyph(cell: Cell, marks: &Marks) -> char {
    match cell {
        Cell::Blank => ' ',
        Cell::Booting => marks.booting,
        Cell::Serving => marks.serving,
        Cell::Draining => marks.draining,
        Cell::Orphan => marks.orphan,
        Cell::Grace(Edge::Start) => marks.grace[0],
        Cell::Grace(Edge::Middle) => marks.grace[1],
        Cell::Grace(Edge::End) => marks.grace[2],
        Cell::Stage(stage, _) => marks.stages[stage as usize],
        Cell::Text(character) => character,
        Cell::BecameReady => marks.ready,
        Cell::Exited => marks.exited,
        Cell::Failed => marks.failed,
        Cell::Orphaned => marks.orphaned,
        Cell::SigtermSkipped => marks.sigterm_skipped,
        Cell::Sigterm => marks.sigterm,
        Cell::Sigkill => marks.sigkill,
        Cell::Running => marks.running,
        Cell::Committed => marks.committed,
        Cell::Killed => marks.killed,
    }
}

/// How a cell looks.
pub(crate) fn style(cell: Cell) -> Style {
    match cell {
        Cell::Blank | Cell::Serving | Cell::Exited => PLAIN,
        Cell::Booting => QUIET,
        Cell::Draining | Cell::Grace(_) | Cell::Sigterm | Cell::SigtermSkipped | Cell::Running => CAUTION,
        Cell::Stage(_, Ending::Running) => CAUTION,
        Cell::Stage(_, Ending::Committed) | Cell::BecameReady | Cell::Committed => GOOD,
        Cell::Stage(_, Ending::Killed) | Cell::Sigkill | Cell::Killed | Cell::Failed => BAD,
        Cell::Orphan | Cell::Orphaned => BAD,
        Cell::Text(_) => STRONG,
    }
}

/// What the glyphs that occur mean, life first.
fn legend(screen: Screen, lanes: &[Lanes]) -> String {
    let cells = || lanes.iter().flat_map(|lanes| &lanes.rows).flat_map(|row| &row.cells);
    let occurs = |wanted: &dyn Fn(Cell) -> bool| cells().any(|&cell| wanted(cell));
    let plain = [
        (Cell::Booting, "boots"),
        (Cell::BecameReady, "ready"),
        (Cell::Failed, "fails to boot"),
        (Cell::Serving, "serves"),
        (Cell::Sigterm, "SIGTERM"),
        (Cell::SigtermSkipped, "no SIGTERM, already gone"),
        (Cell::Draining, "drains"),
        (Cell::Sigkill, "SIGKILL"),
        (Cell::Exited, "exit"),
        (Cell::Orphaned, "orphaned"),
        (Cell::Orphan, "lives on as an orphan"),
    ];
    let mut entries: Vec<(char, &str)> = Vec::new();
    let marks = screen.marks();
    entries.extend(
        plain
            .iter()
            .filter(|(cell, _)| occurs(&|other| other == *cell))
            .map(|(cell, name)| (glyph(*cell, marks), *name)),
    );
    for stage in Stage::ALL {
        if occurs(&|cell| matches!(cell, Cell::Stage(other, _) if other == stage)) {
            entries.push((marks.stages[stage as usize], stage.name()));
        }
    }
    let ends = [(Cell::Committed, "commit"), (Cell::Killed, "killed"), (Cell::Running, "still running")];
    entries.extend(
        ends.iter()
            .filter(|(cell, _)| occurs(&|other| other == *cell))
            .map(|(cell, name)| (glyph(*cell, marks), *name)),
    );
    let words: Vec<String> = entries.iter().map(|(glyph, name)| format!("{glyph} {name}")).collect();
    let words: Vec<String> = words.iter().map(|word| word.replace(' ', NO_BREAK_SPACE)).collect();
    let indent = " ".repeat(LABEL_WIDTH);
    paint(QUIET, screen.wrap(&words.join("  "), &indent, &indent).trim_end()) + "\n"
}

/// The rows in ASCII without styles, the label and the cells parted by a bar.
#[cfg(test)]
pub(super) fn plain_rows(lanes: &Lanes) -> Vec<String> {
    let marks = Screen { width: 80, ascii: true, verbose: false }.marks();
    let glyphs = |row: &super::lanes::Row| row.cells.iter().map(|&cell| glyph(cell, marks)).collect::<String>();
    lanes.rows.iter().map(|row| format!("{:<9}|{}", row.label, glyphs(row))).collect()
}
