//! Draws the state on a screen of any size. Pure: the same state and size give the same cells.

mod lanes;
mod panes;

use anstyle::{AnsiColor, Effects};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph, Widget, Wrap},
};
use scenarios::Tick;
use textwrap::core::display_width;

use super::{
    keys::KEYS,
    state::{Pane, Shown, State},
};
use crate::report::{
    Screen,
    screen::{BAD, CAUTION, GOOD, QUIET, STRONG},
};

/// The smallest screen that is drawn on, in columns and rows.
pub const SMALLEST: (u16, u16) = (40, 10);
/// From so many columns on two panes stand side by side, and three.
const TWO_PANES: u16 = 72;
const THREE_PANES: u16 = 112;

/// How things look on this terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Whether only ASCII may be used.
    pub ascii: bool,
    /// Whether colours are used.
    pub colour: bool,
}

impl Look {
    /// A style of the text output, as it looks here.
    fn style(self, style: anstyle::Style) -> Style {
        let mut here = Style::new();
        if let (true, Some(anstyle::Color::Ansi(colour))) = (self.colour, style.get_fg_color()) {
            here = here.fg(match colour {
                AnsiColor::Cyan => Color::Cyan,
                AnsiColor::Yellow => Color::Yellow,
                AnsiColor::Red => Color::Red,
                _ => Color::Reset,
            });
        }
        let effects = style.get_effects();
        for (effect, modifier) in [(Effects::BOLD, Modifier::BOLD), (Effects::DIMMED, Modifier::DIM)] {
            if effects.contains(effect) {
                here = here.add_modifier(modifier);
            }
        }
        here
    }

    /// What text of this width is laid out for.
    fn screen(self, width: u16) -> Screen {
        Screen { width: usize::from(width), ascii: self.ascii, verbose: false }
    }

    fn text(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.ascii { ascii } else { unicode }
    }
}

/// Draws all of it.
pub fn draw(buffer: &mut Buffer, state: &State, look: Look) {
    let area = buffer.area;
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        too_small(buffer, area, look);
        return;
    }
    let row = |y: u16| Rect { y, height: 1, ..area };
    title(buffer, row(0), state, look);
    counts(buffer, row(1), state, look);
    foot(buffer, row(area.height - 1), state, look);
    let middle = Rect { y: 2, height: area.height - 3, ..area };
    let rows = lanes::rows(state, area.width);
    // The lanes get what they need, but leave room for the panes.
    let least = middle.height.min(6).max(middle.height / 3);
    let wanted = u16::try_from(rows.len() + 1).unwrap_or(u16::MAX);
    let height = wanted.min(middle.height - least);
    lanes::draw(buffer, Rect { height, ..middle }, state, look, &rows);
    let below = Rect { y: middle.y + height, height: middle.height - height, ..middle };
    for (pane, part) in arrange(below, state.pane) {
        panes::draw(buffer, part, pane, state, look);
    }
    if state.help {
        help(buffer, area, look);
    }
}

/// Which panes there is room for, and where.
fn arrange(area: Rect, chosen: Pane) -> Vec<(Pane, Rect)> {
    let part = |from: u16, to: u16| Rect { x: area.x + from, width: to - from, ..area };
    let width = area.width;
    if width >= THREE_PANES {
        let (first, second) = (width * 2 / 5, width * 13 / 20);
        return vec![
            (Pane::Decisions, part(0, first)),
            (Pane::Worker, part(first, second)),
            (Pane::Result, part(second, width)),
        ];
    }
    if width >= TWO_PANES {
        let beside = if chosen == Pane::Result { Pane::Result } else { Pane::Worker };
        return vec![(Pane::Decisions, part(0, width / 2)), (beside, part(width / 2, width))];
    }
    vec![(chosen, area)]
}

fn too_small(buffer: &mut Buffer, area: Rect, look: Look) {
    let (columns, rows) = SMALLEST;
    let times = look.text("×", "x");
    let text = format!("too small: {}{times}{}, {columns}{times}{rows} is needed; q quits", area.width, area.height);
    Paragraph::new(text).wrap(Wrap { trim: true }).render(area, buffer);
}

/// What is drilled on the left, and how far it is on the right.
fn title(buffer: &mut Buffer, area: Rect, state: &State, look: Look) {
    let right = progress(state, look);
    let width = u16::try_from(right.width()).unwrap_or(area.width).min(area.width);
    let left = (area.width - width).saturating_sub(1);
    let room = usize::from(left).saturating_sub(1);
    let name = Span::styled(clip(&state.scenario.name, room, look), look.style(STRONG));
    let rest = room.saturating_sub(name.width());
    let about = clip(&format!(": {}", state.scenario.title), rest, look);
    buffer.set_line(area.x, area.y, &Line::from(vec![name, Span::raw(about)]), left);
    buffer.set_line(area.x + area.width - width, area.y, &right, width);
}

/// The time, and whether it moves.
fn progress(state: &State, look: Look) -> Line<'static> {
    let player = &state.player;
    let mut spans = vec![Span::styled(format!("{:>4} s ", player.tick().to_string()), look.style(STRONG))];
    let times = look.text("×", "x");
    let speed = format!("{}{times}", (player.speed() * 100.0).round() / 100.0);
    let attempt = state.progress.as_ref().filter(|_| player.is_live()).and_then(|progress| progress.attempt);
    if let Some((number, _)) = attempt
        && number > 1
    {
        spans.push(Span::styled(format!("attempt {number} "), look.style(CAUTION)));
    }
    let stepped = attempt.is_some_and(|(_, speed)| speed.is_none());
    let pace = if stepped { "stepped".to_owned() } else { speed };
    let (mark, words, style) = match (player.is_live(), player.is_moving()) {
        (true, true) => (look.text("●", "*"), format!("live {pace}"), BAD),
        (true, false) => (look.text("Ⅱ", "="), "behind".to_owned(), CAUTION),
        (false, true) => (look.text("▶", ">"), pace, GOOD),
        (false, false) if player.is_at_end() => (look.text("■", "#"), "end".to_owned(), QUIET),
        (false, false) => (look.text("Ⅱ", "="), "paused".to_owned(), CAUTION),
    };
    spans.push(Span::styled(format!("{mark} {words}"), look.style(style)));
    if let Some(record) = &state.record {
        let (style, mark, word) = look.screen(80).verdict_mark(record.verdict);
        spans.push(Span::styled(format!(" {mark} {word}"), look.style(style)));
    } else if !player.is_live() && state.observed.is_none() {
        spans.push(Span::styled(" model", look.style(QUIET)));
    }
    Line::from(spans)
}

/// What was counted so far, as much of it as there is room for.
fn counts(buffer: &mut Buffer, area: Rect, state: &State, look: Look) {
    let counts = state.told().map(|traced| traced.view.at(state.player.tick()).counts).unwrap_or_default();
    let parts = [
        (counts.admitted, "admitted", GOOD),
        (counts.rejected, "rejected", QUIET),
        (counts.completed, "completed", GOOD),
        (counts.killed, "killed", if counts.killed > 0 { BAD } else { QUIET }),
        (counts.in_flight, "in flight", if counts.in_flight > 0 { CAUTION } else { QUIET }),
        (counts.arrivals, "arrived", QUIET),
    ];
    let separator = look.text(" · ", ", ");
    let mut line = Line::default();
    for (number, words, style) in parts {
        let text = format!("{}{number} {words}", if line.spans.is_empty() { "" } else { separator });
        if line.width() + text.chars().count() <= usize::from(area.width) {
            line.push_span(Span::styled(text, look.style(style)));
        }
    }
    let gate = state.told().and_then(|traced| traced.view.at(state.player.tick()).gate);
    if let Some(gate) = gate {
        let (text, style) = match gate {
            scenarios::Gate::Pass => ("gate PASS", GOOD),
            scenarios::Gate::Fail => ("gate FAIL", BAD),
        };
        if line.width() + text.len() + 2 <= usize::from(area.width) {
            let x = area.x + area.width - text.len() as u16;
            buffer.set_span(x, area.y, &Span::styled(text, look.style(style)), text.len() as u16);
        }
    }
    buffer.set_line(area.x, area.y, &line, area.width);
}

/// The keys that matter most, and what is shown.
fn foot(buffer: &mut Buffer, area: Rect, state: &State, look: Look) {
    let shown = match state.shown {
        Shown::Expected => "expected",
        Shown::Observed => "observed",
        Shown::Both => "both",
    };
    let keys = [
        ("q", "quit"),
        ("?", "keys"),
        ("space", if state.player.is_moving() { "pause" } else { "play" }),
        ("e", shown),
        (look.text("←→", "<>"), "1 s"),
        (".", "tick"),
        (look.text("↑↓", "Tab"), "worker"),
        ("d", state.filter.name()),
        ("v", "pane"),
        ("r", "restart"),
        ("+-", "speed"),
    ];
    let mut line = Line::default();
    for (key, words) in keys {
        let width = key.chars().count() + words.len() + 3;
        if line.width() + width <= usize::from(area.width) + 2 {
            line.push_span(Span::styled(key, look.style(STRONG)));
            line.push_span(Span::styled(format!(" {words}  "), look.style(QUIET)));
        }
    }
    buffer.set_line(area.x, area.y, &line, area.width);
}

fn help(buffer: &mut Buffer, area: Rect, look: Look) {
    let names = [("→", "right"), ("←", "left"), ("↑", "up"), ("↓", "down")];
    let arrows = |key: &str| {
        let named = |key: String, (arrow, name): &(&str, &str)| key.replace(arrow, name);
        if look.ascii { names.iter().fold(key.to_owned(), named) } else { key.to_owned() }
    };
    let block = block(look, " Keys ", true);
    if KEYS.len() + 2 > usize::from(area.height) {
        // Too low a screen for a line each: in one paragraph, with how to quit first.
        let briefly = KEYS.iter().rev().flat_map(|(key, words)| {
            let words = words.split(';').next().unwrap_or(words);
            [Span::styled(arrows(key), look.style(STRONG)), Span::raw(format!(" {words}  "))]
        });
        Clear.render(area, buffer);
        let text = Paragraph::new(Line::from_iter(briefly)).wrap(Wrap { trim: true });
        return text.block(block).render(area, buffer);
    }
    let widest = KEYS.iter().map(|(key, _)| arrows(key).chars().count()).max().unwrap_or(0);
    let lines: Vec<Line> = KEYS
        .iter()
        .map(|(key, words)| {
            let key = arrows(key);
            let pad = " ".repeat((widest + 2).saturating_sub(key.chars().count()));
            Line::from(vec![Span::styled(key, look.style(STRONG)), Span::raw(pad), Span::raw(*words)])
        })
        .collect();
    let width = lines.iter().map(Line::width).max().unwrap_or(0) as u16 + 4;
    let height = lines.len() as u16 + 2;
    let (width, height) = (width.min(area.width), height.min(area.height));
    let place = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    Clear.render(place, buffer);
    Paragraph::new(lines).block(block).render(place, buffer);
}

/// The frame of a pane.
fn block(look: Look, title: &str, all_around: bool) -> Block<'static> {
    let borders = if all_around { ratatui::widgets::Borders::ALL } else { ratatui::widgets::Borders::TOP };
    let set = match look.ascii {
        true => ratatui::symbols::border::Set {
            top_left: "+",
            top_right: "+",
            bottom_left: "+",
            bottom_right: "+",
            vertical_left: "|",
            vertical_right: "|",
            horizontal_top: "-",
            horizontal_bottom: "-",
        },
        false => ratatui::symbols::border::PLAIN,
    };
    Block::new()
        .borders(borders)
        .border_set(set)
        .border_style(look.style(QUIET))
        .title(Span::styled(title.to_owned(), look.style(STRONG)))
}

/// `text` in at most `room` columns.
fn clip(text: &str, room: usize, look: Look) -> String {
    if display_width(text) <= room {
        return text.to_owned();
    }
    let Some(mut left) = room.checked_sub(1) else { return String::new() };
    // Some letters take two columns.
    let fits = |letter: &char| match left.checked_sub(display_width(letter.encode_utf8(&mut [0; 4]))) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    text.chars().take_while(fits).collect::<String>() + look.text("…", "~")
}

/// The column of a lane in which `tick` falls.
fn column_of(tick: Tick, columns: usize) -> usize {
    crate::report::lanes::column_of(tick, columns)
}

#[cfg(test)]
mod tests;
