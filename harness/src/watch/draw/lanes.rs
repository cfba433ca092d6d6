//! The lanes up to the time that is shown, with the same marks as the text output.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Color, Modifier},
    text::Span,
};
use scenarios::{Event, Tick, WorkerId};

use super::{Look, column_of};
use crate::{
    report::{
        lanes::{Cell, Row, layout},
        paint,
        screen::{QUIET, STRONG},
    },
    watch::state::{Shown, State, Traced},
};

/// The width of the column of labels: `worker-64` and a space.
const LABEL: u16 = 10;

/// A row of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LaneRow {
    /// Whose lane it belongs to.
    worker: Option<WorkerId>,
    label: String,
    cells: Vec<Cell>,
    /// Where it shows what was expected below what was observed: which of its cells are not the same.
    unlike: Option<Vec<bool>>,
}

/// All rows, from the first worker to the last.
pub(super) fn rows(state: &State, width: u16) -> Vec<LaneRow> {
    let columns = usize::from(width.saturating_sub(LABEL));
    let tick = state.player.tick();
    let lay_out =
        |traced: Option<&Traced>| traced.map_or_else(Vec::new, |traced| laid_out(state, traced, tick, columns));
    match state.shown {
        Shown::Expected => lay_out(state.expected.as_ref()),
        Shown::Observed => lay_out(state.observed.as_ref()),
        Shown::Both => overlaid(&lay_out(state.observed.as_ref()), &lay_out(state.expected.as_ref())),
    }
}

fn laid_out(state: &State, traced: &Traced, tick: Tick, columns: usize) -> Vec<LaneRow> {
    let seen: Vec<Event> = traced.events.iter().copied().filter(|event| event.t <= tick).collect();
    let lanes = layout(&state.scenario, &seen, tick.min(state.known_until(traced)), columns, true);
    let workers = state.workers();
    let mut worker = None;
    let with_worker = |Row { label, cells }: Row| {
        if !label.starts_with(' ') {
            worker = workers.iter().copied().find(|worker| worker.to_string() == label);
        }
        LaneRow { worker, label, cells, unlike: None }
    };
    lanes.rows.into_iter().map(with_worker).collect()
}

/// What was observed, and below each row that is not as expected what was expected there.
fn overlaid(observed: &[LaneRow], expected: &[LaneRow]) -> Vec<LaneRow> {
    let same = |a: &LaneRow, b: &LaneRow| a.worker == b.worker && a.label == b.label;
    let missing = expected.iter().filter(|row| !observed.iter().any(|other| same(row, other)));
    let mut rows = Vec::new();
    for row in observed {
        rows.push(row.clone());
        if let Some(other) = expected.iter().find(|other| same(row, other) && other.cells != row.cells) {
            let unlike = other.cells.iter().zip(&row.cells).map(|(a, b)| a != b).collect();
            rows.push(LaneRow { label: " expected".to_owned(), unlike: Some(unlike), ..other.clone() });
        }
    }
    rows.extend(missing.map(|row| {
        let unlike = vec![true; row.cells.len()];
        LaneRow { label: format!("{} ?", row.label.trim_end()), unlike: Some(unlike), ..row.clone() }
    }));
    rows
}

/// The first row that is shown, so that the chosen worker is in sight.
fn first_row(rows: &[LaneRow], chosen: Option<WorkerId>, scrolled: usize, height: usize) -> usize {
    let begins = rows.iter().position(|row| row.worker == chosen).unwrap_or(0);
    let most = rows.len().saturating_sub(height);
    // All that fits is shown from the top; a worker that is out of sight stands first.
    let ends = rows.iter().rposition(|row| row.worker == chosen).unwrap_or(0);
    let from = if ends < height && scrolled == 0 { 0 } else { begins + scrolled };
    from.min(most)
}

/// Draws the axis and as many rows as there is room for.
pub(super) fn draw(buffer: &mut Buffer, area: Rect, state: &State, look: Look, rows: &[LaneRow]) {
    if area.height == 0 {
        return;
    }
    let columns = usize::from(area.width.saturating_sub(LABEL));
    let playhead = column_of(state.player.tick(), columns);
    axis(buffer, area, state, look, columns, playhead);
    let height = usize::from(area.height - 1);
    let first = first_row(rows, state.chosen(), state.scrolled, height);
    let several = state.workers().len() > 1;
    for (line, row) in rows.iter().skip(first).take(height).enumerate() {
        let y = area.y + 1 + line as u16;
        let is_head = !row.label.starts_with(' ');
        let mut style = look.style(if is_head { STRONG } else { QUIET });
        if is_head && several && row.worker == state.chosen() && row.unlike.is_none() {
            style = style.add_modifier(Modifier::REVERSED);
        }
        buffer.set_span(area.x, y, &Span::styled(row.label.as_str(), style), LABEL - 1);
        cells(buffer, (area.x + LABEL, y), row, look);
    }
    if rows.len() > height {
        let (last, all) = ((first + height).min(rows.len()), rows.len());
        let whole = format!("{}-{last}/{all}", first + 1);
        let room = usize::from(LABEL) - 1;
        let text = if whole.len() <= room { whole } else { format!("{last}/{all}") };
        buffer.set_span(area.x, area.y, &Span::styled(text, look.style(QUIET)), LABEL);
    }
    if state.player.is_at_end() {
        return;
    }
    playhead_line(
        buffer,
        Rect { x: area.x + LABEL, y: area.y + 1, width: area.width - LABEL, height: area.height - 1 },
        playhead,
        look,
    );
}

fn cells(buffer: &mut Buffer, (x, y): (u16, u16), row: &LaneRow, look: Look) {
    let marks = look.screen(80).marks();
    for (column, &cell) in row.cells.iter().enumerate() {
        if cell == Cell::Blank {
            continue;
        }
        let style = match &row.unlike {
            None => look.style(paint::style(cell)),
            Some(unlike) if unlike.get(column).copied().unwrap_or(true) => {
                let style = look.style(STRONG);
                if look.colour { style.fg(Color::Magenta) } else { style }
            }
            Some(_) => look.style(QUIET),
        };
        buffer[(x + column as u16, y)].set_char(paint::glyph(cell, marks)).set_style(style);
    }
}

/// The seconds 0, 10, … 60, and where the playhead is.
fn axis(buffer: &mut Buffer, area: Rect, state: &State, look: Look, columns: usize, playhead: usize) {
    let style = look.style(QUIET);
    let x = area.x + LABEL;
    for second in (0..60).step_by(10) {
        let (number, at) = (second.to_string(), column_of(Tick(second * 10), columns));
        if at + number.len() + 5 < columns {
            buffer.set_span(x + at as u16, area.y, &Span::styled(number, style), 4);
        }
    }
    let end = "60 s";
    if columns > end.len() {
        let at = x + (columns - end.len()) as u16;
        buffer.set_span(at, area.y, &Span::styled(end, style), end.len() as u16);
    }
    if playhead < columns && !state.player.is_at_end() {
        let mark = if look.ascii { 'v' } else { '▾' };
        buffer[(x + playhead as u16, area.y)].set_char(mark).set_style(look.style(STRONG));
    }
}

/// The playhead, wherever nothing else stands.
fn playhead_line(buffer: &mut Buffer, area: Rect, playhead: usize, look: Look) {
    let x = area.x + playhead as u16;
    if x >= area.x + area.width {
        return;
    }
    for y in area.y..area.y + area.height {
        let cell = &mut buffer[(x, y)];
        if cell.symbol() == " " {
            cell.set_char(if look.ascii { '|' } else { '│' }).set_style(look.style(QUIET));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(worker: u16) -> LaneRow {
        LaneRow { worker: Some(WorkerId(worker)), label: String::new(), cells: Vec::new(), unlike: None }
    }

    #[test]
    fn the_chosen_worker_is_in_sight() {
        let rows: Vec<LaneRow> = (1..=10).flat_map(|worker| vec![row(worker); 3]).collect();
        let first = |chosen, scrolled, height| first_row(&rows, Some(WorkerId(chosen)), scrolled, height);
        assert_eq!(first(1, 0, 9), 0);
        assert_eq!(first(3, 0, 9), 0, "it fits below the others");
        assert_eq!(first(4, 0, 9), 9, "it does not");
        assert_eq!(first(10, 0, 9), 21, "nothing is shown below the last row");
        assert_eq!(first(1, 6, 9), 6);
        assert_eq!(first(1, 600, 9), 21);
        assert_eq!(first_row(&[], None, 3, 9), 0);
    }
}
