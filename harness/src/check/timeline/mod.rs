//! The requests of a drill over time, and what happened, as rows of marks. Pure.

mod scale;

use anstyle::Style;

use self::scale::Scale;
use super::{
    fate::Fate,
    record::{Observed, Request},
    verdict::{Counts, Usual},
};
use crate::report::{
    Screen,
    screen::{BAD, CAUTION, GOOD, QUIET, STRONG, paint},
};

/// The width of the column of labels.
const LABEL: usize = 10;

/// What happened at one moment, with its mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The mark.
    pub mark: char,
    /// What it was.
    pub name: String,
    /// When, in microseconds after the signal.
    pub at_us: i64,
}

/// Everything that is marked, in order.
#[must_use]
pub fn events(screen: Screen, observed: &Observed) -> Vec<Event> {
    let marks = screen.marks();
    let mut events = Vec::new();
    let mut add = |mark: char, name: &str, at_us: Option<i64>| {
        events.extend(at_us.map(|at_us| Event { mark, name: name.to_owned(), at_us }));
    };
    if observed.signal.is_some() && observed.stop_us < 0 {
        add(marks.started, "preStop", Some(observed.stop_us));
    }
    for sent in [&observed.signal, &observed.second_signal].into_iter().flatten() {
        add(marks.sigterm, &sent.signal.to_string(), Some(sent.at_us));
    }
    // Where it was closed by the end of the app, that says it all.
    let closed_us = observed.listener_closed_us;
    let app_gone_us = observed.app_gone_us.unwrap_or(i64::MAX);
    add(marks.withdrawn, "port closed", closed_us.filter(|&closed_us| closed_us.saturating_add(20_000) < app_gone_us));
    // Who left first is in the explanation, and here where more is asked for.
    let together = |app_us: i64| observed.top_gone_us.is_some_and(|top_us| app_us.abs_diff(top_us) < 20_000);
    let app_apart_us = observed.app_gone_us.filter(|&app_us| {
        observed.app_pid != observed.top_pid && app_us <= observed.end_us && (screen.verbose || !together(app_us))
    });
    add(marks.committed, "app gone", app_apart_us);
    add(marks.sigkill, "SIGKILL", observed.sigkill.as_ref().map(|sent| sent.at_us));
    let is_alone =
        observed.app_pid == observed.top_pid || !screen.verbose && observed.app_gone_us.is_some_and(together);
    let gone = if is_alone { "gone" } else { "top gone" };
    add(marks.exited, gone, observed.top_gone_us.filter(|_| observed.exit.is_some()));
    events.sort_by_key(|event| event.at_us);
    events
}

/// The picture.
#[must_use]
pub fn draw(screen: Screen, observed: &Observed) -> String {
    let events = events(screen, observed);
    let scale = Scale::over(screen, [(observed, &events[..])]);
    let mut text = axis(scale);
    let usual = Usual::of(&observed.requests);
    let rows = [
        ("served", GOOD, Counts::Served),
        ("as before", CAUTION, Counts::AsBefore),
        ("refused", CAUTION, Counts::TurnedAway),
        ("not taken", CAUTION, Counts::NotTakenIn),
        ("lost", BAD, Counts::Lost),
    ];
    let columns = rows.map(|(_, _, wanted)| {
        let of = |request: &&Request| Counts::of(request, &usual) == wanted;
        let mut columns = vec![0u32; scale.columns];
        observed.requests.iter().filter(of).for_each(|request| columns[scale.column(request.sent_us)] += 1);
        columns
    });
    let most = columns.iter().flatten().copied().max().unwrap_or(0);
    for ((label, style, _), columns) in rows.into_iter().zip(&columns) {
        if columns.iter().any(|&count| count > 0) {
            let bars: String = columns.iter().map(|&count| bar(screen, count, most)).collect();
            text.push_str(&labelled(label, &paint(style, bars.trim_end())));
        }
    }
    let mut line = vec![' '; scale.columns];
    place(scale, &events).for_each(|(place, mark)| line[place] = mark);
    let line: String = line.into_iter().collect();
    text + &labelled("", &paint(STRONG, line.trim_end()))
}

/// A row with its label in a column of its own.
#[must_use]
pub fn labelled(label: &str, row: &str) -> String {
    format!("{}{row}\n", paint(STRONG, &format!("{label:<LABEL$}")))
}

fn axis(scale: Scale) -> String {
    labelled("", &paint(QUIET, &scale.axis()))
}

fn place(scale: Scale, events: &[Event]) -> impl Iterator<Item = (usize, char)> {
    scale.places(events.iter().map(|event| event.at_us)).into_iter().zip(events.iter().map(|event| event.mark))
}

/// The mark of what became of a request, in an overview.
#[must_use]
pub fn mark(screen: Screen, fate: Fate) -> char {
    match fate {
        Fate::Completed => bar(screen, 1, 2),
        Fate::Completed5xx => '5',
        Fate::Refused => screen.marks().rejected,
        _ => 'x',
    }
}

/// Several drills on one axis, which comes first: a row for each, with the worst of what became of the requests that were
/// sent at that time, and with what happened.
#[must_use]
pub fn overview<const N: usize>(screen: Screen, drills: [&Observed; N]) -> (String, [String; N]) {
    let events = drills.map(|observed| events(screen, observed));
    let scale = Scale::over(screen, drills.into_iter().zip(events.iter().map(Vec::as_slice)));
    let mut rows = drills.into_iter().zip(&events).map(|(observed, events)| row(screen, scale, observed, events));
    (axis(scale), std::array::from_fn(|_| rows.next().unwrap_or_default()))
}

/// A cell of an overview.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    Empty,
    Requests(Fate),
    Event(char),
}

fn row(screen: Screen, scale: Scale, observed: &Observed, events: &[Event]) -> String {
    let mut cells = vec![Cell::Empty; scale.columns];
    place(scale, events).for_each(|(place, mark)| cells[place] = Cell::Event(mark));
    let is_free = |cell: &Cell| !matches!(cell, Cell::Event(_));
    for request in &observed.requests {
        // Beside what happened then, so that nothing that was lost is hidden by it.
        let at = scale.column(request.sent_us);
        let behind = (at..scale.columns).find(|&at| is_free(&cells[at]));
        if let Some(at) = behind.or_else(|| (0..at).rev().find(|&at| is_free(&cells[at]))) {
            cells[at] = cells[at].max(Cell::Requests(request.fate));
        }
    }
    let cell = |cell: &Cell| match *cell {
        Cell::Empty => " ".to_owned(),
        Cell::Event(mark) => paint(STRONG, &mark.to_string()),
        Cell::Requests(fate) => paint(style(fate), &mark(screen, fate).to_string()),
    };
    let used = cells.iter().rposition(|cell| *cell != Cell::Empty).map_or(0, |last| last + 1);
    cells[..used].iter().map(cell).collect()
}

fn style(fate: Fate) -> Style {
    match fate {
        Fate::Completed => GOOD,
        Fate::Completed5xx | Fate::Refused => CAUTION,
        _ => BAD,
    }
}

fn bar(screen: Screen, count: u32, most: u32) -> char {
    const UNICODE: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const ASCII: [char; 8] = ['.', '.', ':', ':', '|', '|', '#', '#'];
    if count == 0 {
        return ' ';
    }
    let bars = if screen.ascii { ASCII } else { UNICODE };
    let height = (count as usize * bars.len()).div_ceil(most.max(1) as usize);
    bars[height.clamp(1, bars.len()) - 1]
}
