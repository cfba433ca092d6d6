//! A grid of one or two fields as two heat maps in SVG: what is killed or left running, and what is rejected.
//!
//! The colours are two ramps of one hue each, ordered by lightness, so that they read with every colour blindness and in
//! grey; cells that are large enough hold their number as well. A dark page gets ramps of its own.

use std::fmt::Write;

use scenarios::{Gate, Scenario};

use super::{axis::Axis, grid::Cell};
use crate::svg::{clipped, escaped, label};

/// The steps of a ramp after the colour of zero, from little to much.
const STEPS: usize = 5;

/// Light pages: zero, then darker and darker.
const LIGHT: [[&str; STEPS + 1]; 2] = [
    ["#f3f1ee", "#fdd0a2", "#fdae6b", "#f16913", "#c23f02", "#7f2704"],
    ["#f3f1ee", "#c6dbef", "#9ecae1", "#4292c6", "#1764ab", "#083776"],
];
/// Dark pages: zero, then lighter and lighter.
const DARK: [[&str; STEPS + 1]; 2] = [
    ["#2b2a28", "#5a2a10", "#8a3a0e", "#b84f12", "#f29a55", "#ffdcb8"],
    ["#2b2a28", "#123a66", "#1c538c", "#2f72b0", "#8cc1ea", "#d3e8f9"],
];
/// From this step on a number in the cell needs the other ink.
const INVERSE_FROM: usize = 4;

/// The first letter of the classes of each map.
const CLASSES: [&str; 2] = ["k", "r"];
const NAMES: [&str; 2] = ["killed or still running", "rejected"];

/// Measures in user units, which are pixels where the picture is shown in its own size.
const MAP: f64 = 480.0;
const GAP: f64 = 36.0;
const MARGIN: f64 = 16.0;
const CHARACTER: f64 = 6.6;
const LINE: f64 = 16.0;

/// The picture. `cells` are in the order of the grid: the second field varies fastest.
pub(super) fn picture(scenario: &Scenario, axes: &[Axis], cells: &[Cell]) -> String {
    let (across, down) = (&axes[0], axes.get(1));
    let layout = Layout::new(across, down);
    let mut svg = layout.open(scenario, axes);
    for (panel, value) in [Cell::lost as fn(&Cell) -> u16, |cell: &Cell| cell.rejected].into_iter().enumerate() {
        Panel { layout: &layout, panel, across, down, cells, value }.draw(&mut svg);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Where things are.
struct Layout {
    columns: usize,
    rows: usize,
    cell: (f64, f64),
    /// The room for the labels of rows.
    left: f64,
    top: f64,
}

impl Layout {
    fn new(across: &Axis, down: Option<&Axis>) -> Layout {
        let (columns, rows) = (across.values.len(), down.map_or(1, |axis| axis.values.len()));
        let widest = |axis: &Axis| axis.values.iter().map(|choice| choice.label.chars().count()).max().unwrap_or(0);
        let few = |axis: &Axis| axis.values.len() <= 8;
        // Every one of a few names is to be read.
        let least = if few(across) { (widest(across) as f64 * CHARACTER + 8.0).min(MAP / 2.0) } else { 0.0 };
        let cell = ((MAP / columns as f64).min(40.0).max(least), (MAP / rows as f64).min(28.0));
        let left = down.map_or(0.0, |axis| widest(axis).min(28) as f64 * CHARACTER + 8.0 + 1.5 * LINE);
        Layout { columns, rows, cell, left, top: MARGIN + 4.5 * LINE }
    }

    fn map(&self) -> (f64, f64) {
        (self.cell.0 * self.columns as f64, self.cell.1 * self.rows as f64)
    }

    /// Whether a cell has room for its count.
    fn holds_numbers(&self) -> bool {
        self.cell.0 >= 18.0 && self.cell.1 >= 13.0
    }

    /// A panel is as wide as its map or its legend.
    fn panel_width(&self) -> f64 {
        self.left + self.map().0.max(300.0)
    }

    fn origin(&self, panel: usize) -> (f64, f64) {
        (MARGIN + panel as f64 * (self.panel_width() + GAP) + self.left, self.top)
    }

    /// Head, styles, title and background.
    fn open(&self, scenario: &Scenario, axes: &[Axis]) -> String {
        let width = (MARGIN * 2.0 + self.panel_width() * 2.0 + GAP).ceil();
        let height = (self.top + self.map().1 + 5.5 * LINE + MARGIN).ceil();
        let names: Vec<&str> = axes.iter().map(|axis| axis.field.name).collect();
        let title = format!("{}: {}", scenario.name, scenario.title);
        let what = format!("What the model says of {}.", names.join(" and "));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" aria-labelledby=\"title what\" font-family=\"system-ui, 'Segoe UI', \
             'DejaVu Sans', sans-serif\" font-size=\"12\">\n<title id=\"title\">{}</title>\n<desc id=\"what\">{} Two \
             heat maps: requests killed or still running, and requests rejected.</desc>\n<style>\n{}</style>\n",
            escaped(&title),
            escaped(&what),
            styles()
        );
        let _ = writeln!(svg, "<rect class=\"page\" width=\"{width}\" height=\"{height}\"/>");
        let room = ((width - 2.0 * MARGIN) / (CHARACTER * 1.25)) as usize;
        label(&mut svg, "title", (MARGIN, MARGIN + LINE), "start", &clipped(&title, room));
        label(&mut svg, "quiet", (MARGIN, MARGIN + 2.0 * LINE), "start", &what);
        svg
    }
}

struct Panel<'a> {
    layout: &'a Layout,
    panel: usize,
    across: &'a Axis,
    down: Option<&'a Axis>,
    cells: &'a [Cell],
    value: fn(&Cell) -> u16,
}

impl Panel<'_> {
    fn draw(&self, svg: &mut String) {
        let (x, y) = self.layout.origin(self.panel);
        let (width, height) = self.layout.map();
        label(svg, "strong", (x, y - LINE * 0.6), "start", NAMES[self.panel]);
        let most = self.cells.iter().map(self.value).max().unwrap_or(0);
        for row in 0..self.layout.rows {
            self.row(svg, row, most);
        }
        self.labels(svg);
        label(svg, "axis", (x + width / 2.0, y + height + 2.0 * LINE), "middle", self.across.field.name);
        if let Some(down) = self.down {
            let (x, y) = (x - self.layout.left + LINE * 0.7, y + height / 2.0);
            let _ = writeln!(
                svg,
                "<text class=\"axis\" text-anchor=\"middle\" transform=\"translate({x:.1} {y:.1}) rotate(-90)\">{}</text>",
                escaped(down.field.name)
            );
        }
        self.legend(svg, most, (x, y + height + 3.2 * LINE));
    }

    fn at(&self, column: usize, row: usize) -> &Cell {
        &self.cells[column * self.layout.rows + row]
    }

    /// One row; neighbours that are equal are one rectangle, so that a fine grid stays a small file.
    fn row(&self, svg: &mut String, row: usize, most: u16) {
        let (x, y) = self.layout.origin(self.panel);
        let (cell_width, cell_height) = self.layout.cell;
        let holds_numbers = self.layout.holds_numbers();
        let line = if holds_numbers { 1.0 } else { 0.0 };
        let mut column = 0;
        while column < self.layout.columns {
            let cell = self.at(column, row);
            let same = |&other: &usize| {
                let next = self.at(other, row);
                !holds_numbers && (self.value)(next) == (self.value)(cell) && next.gate == cell.gate
            };
            let end = (column + 1..self.layout.columns).take_while(same).last().map_or(column + 1, |last| last + 1);
            let value = (self.value)(cell);
            let step = step(value, most);
            let (left, top) = (x + column as f64 * cell_width, y + row as f64 * cell_height);
            let _ = writeln!(
                svg,
                "<rect class=\"{}{step}\" x=\"{left:.2}\" y=\"{top:.2}\" width=\"{:.2}\" height=\"{:.2}\"><title>{}</title></rect>",
                CLASSES[self.panel],
                (end - column) as f64 * cell_width - line,
                cell_height - line,
                escaped(&self.told(column..end, row, cell))
            );
            if holds_numbers {
                let ink = if step >= INVERSE_FROM { "inverse" } else { "ink" };
                let middle = (left + cell_width / 2.0 - 0.5, top + cell_height / 2.0 + 3.5);
                label(svg, &format!("{ink} number"), middle, "middle", &value.to_string());
                if cell.gate == Gate::Pass {
                    let (cx, cy) = (left + cell_width - 4.5, top + 3.5);
                    let _ = writeln!(svg, "<circle class=\"{ink}\" cx=\"{cx:.2}\" cy=\"{cy:.2}\" r=\"1.8\"/>");
                }
            }
            column = end;
        }
    }

    /// What a cell says when it is pointed at.
    fn told(&self, columns: std::ops::Range<usize>, row: usize, cell: &Cell) -> String {
        let values = &self.across.values;
        let (first, last) = (&values[columns.start].label, &values[columns.end - 1].label);
        let mut told = format!("{} {first}", self.across.field.name);
        if columns.len() > 1 {
            let _ = write!(told, " to {last}");
        }
        if let Some(down) = self.down {
            let _ = write!(told, ", {} {}", down.field.name, down.values[row].label);
        }
        // Neighbours are one rectangle where they have this count in common, and only this one.
        let _ = match self.panel {
            0 if columns.len() == 1 => write!(told, ": {} killed, {} still running", cell.killed, cell.running),
            0 => write!(told, ": {} killed or still running", cell.lost()),
            _ => write!(told, ": {} rejected", cell.rejected),
        };
        let _ = write!(told, ", gate {}", super::gate_name(cell.gate));
        told
    }

    /// The values along both sides, as many as there is room for.
    fn labels(&self, svg: &mut String) {
        let (x, y) = self.layout.origin(self.panel);
        let (cell_width, cell_height) = self.layout.cell;
        let bottom = y + self.layout.map().1;
        let widest = self.across.values.iter().map(|choice| choice.label.chars().count()).max().unwrap_or(0).min(36);
        let every = step_of_labels((widest as f64 * CHARACTER + 12.0) / cell_width);
        for (column, choice) in self.across.values.iter().enumerate().step_by(every) {
            let at = (x + (column as f64 + 0.5) * cell_width, bottom + LINE * 0.9);
            label(svg, "quiet", at, "middle", &clipped(&choice.label, 36));
        }
        if let Some(down) = self.down {
            let every = step_of_labels(LINE * 0.9 / cell_height);
            for (row, choice) in down.values.iter().enumerate().step_by(every) {
                let at = (x - 6.0, y + (row as f64 + 0.5) * cell_height + 4.0);
                label(svg, "quiet", at, "end", &clipped(&choice.label, 28));
            }
        }
    }

    /// Which colour is which count, and what the dot means.
    fn legend(&self, svg: &mut String, most: u16, (x, y): (f64, f64)) {
        let mut left = x;
        for shown in 0..=STEPS {
            let counts: Vec<u16> = (0..=most).filter(|&value| step(value, most) == shown).collect();
            let (Some(first), Some(last)) = (counts.first(), counts.last()) else { continue };
            let text = if first == last { first.to_string() } else { format!("{first}–{last}") };
            let class = CLASSES[self.panel];
            let _ = writeln!(
                svg,
                "<rect class=\"{class}{shown} edged\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"14\" height=\"14\"/>"
            );
            label(svg, "quiet", (left + 18.0, y + 11.0), "start", &text);
            left += 18.0 + text.chars().count() as f64 * CHARACTER + 12.0;
        }
        if self.layout.holds_numbers() && self.cells.iter().any(|cell| cell.gate == Gate::Pass) {
            let _ = writeln!(svg, "<circle class=\"ink\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"1.8\"/>", x + 7.0, y + 26.0);
            label(svg, "quiet", (x + 18.0, y + 30.0), "start", "the gate passes");
        }
    }
}

/// At every how many cells there is room for a label that needs `cells` of them: a number that is easy to count in.
fn step_of_labels(cells: f64) -> usize {
    [1, 2, 5, 10, 20, 50, 100, 200].into_iter().find(|&every| every as f64 >= cells).unwrap_or(500)
}

/// The step of the ramp for `value`: zero has one of its own, and `most` always has the last.
fn step(value: u16, most: u16) -> usize {
    (usize::from(value) * STEPS).div_ceil(usize::from(most.max(1)))
}

fn styles() -> String {
    let light = theme("#ffffff", "#1c1b1a", "#5c5954", ["#1c1b1a", "#ffffff"], &LIGHT);
    let dark = theme("#1b1a19", "#f3f1ee", "#aaa69f", ["#f3f1ee", "#1c1b1a"], &DARK);
    format!(
        "rect{{shape-rendering:crispEdges}} .title{{font-size:15px}} .title,.strong{{font-weight:600}} .number{{font-size:10px}}\n{light}\
         @media (prefers-color-scheme:dark){{\n{dark}}}\n"
    )
}

fn theme(page: &str, text: &str, quiet: &str, ink: [&str; 2], ramps: &[[&str; STEPS + 1]; 2]) -> String {
    let mut css = format!(
        ".page{{fill:{page}}} text{{fill:{text}}} .quiet{{fill:{quiet}}} .edged{{stroke:{quiet}}} \
         .ink{{fill:{}}} .inverse{{fill:{}}}\n",
        ink[0], ink[1]
    );
    for (class, ramp) in CLASSES.into_iter().zip(ramps) {
        for (step, colour) in ramp.iter().enumerate() {
            let _ = write!(css, ".{class}{step}{{fill:{colour}}}");
        }
        css.push('\n');
    }
    css
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_has_a_colour_of_its_own_and_the_most_has_the_strongest() {
        for most in 1..=400 {
            let steps: Vec<usize> = (0..=most).map(|value| step(value, most)).collect();
            assert_eq!((steps[0], steps.last()), (0, Some(&STEPS)), "{most}");
            assert!(steps[1] > 0 && steps.is_sorted(), "{most}: {steps:?}");
        }
        assert_eq!(step(0, 0), 0);
        assert_eq!([1, 2, 3, 4].map(|value| step(value, 4)), [2, 3, 4, 5]);
    }

    #[test]
    fn labels_stand_at_numbers_that_are_easy_to_count_in() {
        let rows = [(0.3, 1), (1.0, 1), (1.1, 2), (12.7, 20), (150.0, 200), (900.0, 500)];
        for (cells, every) in rows {
            assert_eq!(step_of_labels(cells), every, "{cells}");
        }
    }
}
