//! Worker lanes: one row for a worker's life, one for the grace period and one for each slot, on a time axis.
//!
//! [`layout`] turns events into cells and knows nothing of glyphs and colours; expected and observed traces go
//! through it alike.

use std::collections::BTreeMap;

use scenarios::{Event, EventKind, RequestId, Scenario, Stage, Tick, WorkerId};

/// What one column of a row shows. Where several things fall into one column, the later in this order is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell {
    /// Nothing.
    Blank,
    /// The worker boots.
    Booting,
    /// The worker is ready.
    Serving,
    /// The worker has withdrawn its readiness.
    Draining,
    /// The worker's top has ended, it lives on.
    Orphan,
    /// Part of the grace period.
    Grace(Edge),
    /// An invocation is in a stage, and how it will end.
    Stage(Stage, Ending),
    /// A character of an inscription: a request's number, the length of the grace period.
    Text(char),
    /// The worker became ready.
    BecameReady,
    /// The worker, or the orphan, ended by itself.
    Exited,
    /// The boot failed.
    Failed,
    /// The worker's top ended and left it behind.
    Orphaned,
    /// SIGTERM was due, but the worker had ended.
    SigtermSkipped,
    /// SIGTERM.
    Sigterm,
    /// SIGKILL.
    Sigkill,
    /// The invocation still ran when the drill ended.
    Running,
    /// The result was committed.
    Committed,
    /// The invocation was killed.
    Killed,
}

/// A part of a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edge {
    /// Its first column.
    Start,
    /// Between the two.
    Middle,
    /// Its last column.
    End,
}

/// How an invocation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// It does not, within the drill.
    Running,
    /// With a committed result.
    Committed,
    /// With its worker.
    Killed,
}

/// One row of lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it is about: `worker-1`, `slot 1`, `grace`.
    pub label: String,
    /// What each column shows.
    pub cells: Vec<Cell>,
}

/// The lanes of a drill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// How many columns the time axis has.
    pub columns: usize,
    /// The rows from top to bottom.
    pub rows: Vec<Row>,
    /// What is not shown, in whole sentences.
    pub left_out: Vec<String>,
}

/// How many workers are shown before the others are only counted.
const WORKERS_SHOWN: usize = 8;
/// How many unused slots are shown as empty rows.
const EMPTY_SLOTS_SHOWN: u8 = 8;

/// The column in which `tick` falls on an axis of `columns`; what comes after the drill falls into the last one.
#[must_use]
pub fn column_of(tick: Tick, columns: usize) -> usize {
    let (tick, last) = (tick.0.min(Tick::END.0) as usize, columns.saturating_sub(1));
    let ticks = Tick::END.0 as usize;
    (tick * last + ticks / 2) / ticks
}

/// The lanes of `events`, which are in trace order and known `until` a tick, on an axis of `columns`. All workers are
/// shown if `all` is set.
#[must_use]
pub fn layout(scenario: &Scenario, events: &[Event], until: Tick, columns: usize, all: bool) -> Lanes {
    let invocations = Invocation::collect(events, until);
    let mut workers: Vec<WorkerId> = events.iter().filter_map(|event| event.kind.worker()).collect();
    workers.sort_unstable();
    workers.dedup();
    let shown = if all { workers.len() } else { WORKERS_SHOWN.min(workers.len()) };
    let mut lanes = Lanes { columns, rows: Vec::new(), left_out: Vec::new() };
    for &worker in &workers[..shown] {
        lanes.rows.push(life(worker, events, until, columns));
        lanes.rows.extend(grace(worker, scenario, events, columns));
        lanes.slots(worker, scenario, &invocations);
    }
    if shown < workers.len() {
        lanes.left_out.push(format!("{} more workers are left out; -v shows them.", workers.len() - shown));
    }
    lanes
}

impl Row {
    fn new(label: String, columns: usize) -> Row {
        Row { label, cells: vec![Cell::Blank; columns] }
    }

    fn put(&mut self, column: usize, cell: Cell) {
        if let Some(present) = self.cells.get_mut(column) {
            *present = cell.max(*present);
        }
    }

    fn mark(&mut self, tick: Tick, cell: Cell) {
        self.put(column_of(tick, self.cells.len()), cell);
    }

    /// Fills from `from` up to `to`, without it; the end of the drill is filled too.
    fn fill(&mut self, from: Tick, to: Tick, cell: Cell) {
        let end = column_of(to, self.cells.len()) + usize::from(to >= Tick::END);
        for column in column_of(from, self.cells.len())..end {
            self.put(column, cell);
        }
    }

    /// Writes `text` over cells that `may_cover` allows, if it fits between `from` and `to` with a cell to spare.
    fn inscribe(&mut self, text: &str, from: Tick, to: Tick, may_cover: impl Fn(Cell) -> bool) {
        let columns = self.cells.len();
        let (from, to) = (column_of(from, columns), column_of(to, columns));
        let Some(start) = (from..to).find(|&column| may_cover(self.cells[column])) else { return };
        let length = text.chars().count();
        let free = (start..to).take_while(|&column| may_cover(self.cells[column])).count();
        if free > length {
            for (column, character) in (start..).zip(text.chars()) {
                self.cells[column] = Cell::Text(character);
            }
        }
    }
}

fn life(worker: WorkerId, events: &[Event], until: Tick, columns: usize) -> Row {
    let mut row = Row::new(worker.to_string(), columns);
    let mut phase: Option<(Tick, Cell)> = None;
    for event in events.iter().filter(|event| event.kind.worker() == Some(worker)) {
        let (next, mark) = match event.kind {
            EventKind::WorkerStarted { .. } => (Some(Cell::Booting), None),
            EventKind::WorkerReady { .. } => (Some(Cell::Serving), Some(Cell::BecameReady)),
            EventKind::WorkerFailed { .. } => (None, Some(Cell::Failed)),
            EventKind::ReadinessWithdrawn { .. } => (Some(Cell::Draining), None),
            EventKind::WorkerExited { .. } | EventKind::OrphanExited { .. } => (None, Some(Cell::Exited)),
            EventKind::WorkerOrphaned { .. } => (Some(Cell::Orphan), Some(Cell::Orphaned)),
            EventKind::SigtermSent { .. } => (phase.map(|(_, cell)| cell), Some(Cell::Sigterm)),
            EventKind::SigtermSkipped { .. } => (None, Some(Cell::SigtermSkipped)),
            EventKind::SigkillSent { .. } => (phase.map(|(_, cell)| cell), Some(Cell::Sigkill)),
            _ => continue,
        };
        if let Some((since, cell)) = phase {
            row.fill(since, event.t, cell);
        }
        phase = next.map(|cell| (event.t, cell));
        if let Some(mark) = mark {
            row.mark(event.t, mark);
        }
    }
    if let Some((since, cell)) = phase {
        row.fill(since, until, cell);
    }
    row
}

/// The grace period of a worker that was sent SIGTERM, as a band.
fn grace(worker: WorkerId, scenario: &Scenario, events: &[Event], columns: usize) -> Option<Row> {
    let sigterm = events.iter().find(|event| event.kind == EventKind::SigtermSent { worker })?.t;
    let deadline = sigterm + scenario.grace_period_s;
    let mut row = Row::new("  grace".to_owned(), columns);
    row.fill(sigterm, deadline, Cell::Grace(Edge::Middle));
    row.mark(deadline, Cell::Grace(Edge::End));
    let start = column_of(sigterm, columns);
    if start < column_of(deadline, columns) {
        row.cells[start] = Cell::Grace(Edge::Start);
    }
    row.inscribe(&format!(" {} s ", scenario.grace_period_s.as_seconds()), sigterm, deadline, |cell| {
        cell == Cell::Grace(Edge::Middle)
    });
    Some(row)
}

/// An invocation as its events tell it.
struct Invocation {
    request: RequestId,
    worker: WorkerId,
    slot: u8,
    admitted_at: Tick,
    stages: Vec<(Stage, Tick)>,
    end: Tick,
    ending: Ending,
}

impl Invocation {
    fn collect(events: &[Event], until: Tick) -> Vec<Invocation> {
        let mut invocations: BTreeMap<RequestId, Invocation> = BTreeMap::new();
        for event in events {
            if let EventKind::RequestAdmitted { request, worker, slot } = event.kind {
                let (end, ending) = (until, Ending::Running);
                let invocation =
                    Invocation { request, worker, slot, admitted_at: event.t, stages: Vec::new(), end, ending };
                invocations.entry(request).or_insert(invocation);
            }
        }
        // In a second pass: an observed trace can have anything before the admission.
        for event in events {
            let Some(invocation) = event.kind.request().and_then(|request| invocations.get_mut(&request)) else {
                continue;
            };
            match event.kind {
                EventKind::StageEntered { stage, .. } => invocation.stages.push((stage, event.t)),
                EventKind::ResultCommitted { .. } => invocation.finish(event.t, Ending::Committed),
                EventKind::InvocationKilled { .. } => invocation.finish(event.t, Ending::Killed),
                _ => {}
            }
        }
        invocations.into_values().collect()
    }

    fn finish(&mut self, end: Tick, ending: Ending) {
        (self.end, self.ending) = (end, ending);
    }

    fn draw(&self, row: &mut Row) {
        let mut entered = self.stages.iter().copied().peekable();
        if entered.peek().is_none_or(|&(stage, _)| stage != Stage::Prepare) {
            let until = entered.peek().map_or(self.end, |&(_, t)| t);
            row.fill(self.admitted_at, until, Cell::Stage(Stage::Prepare, self.ending));
        }
        while let Some((stage, from)) = entered.next() {
            let until = entered.peek().map_or(self.end, |&(_, t)| t);
            row.fill(from, until.min(self.end), Cell::Stage(stage, self.ending));
        }
        row.mark(
            self.end,
            match self.ending {
                Ending::Running => Cell::Running,
                Ending::Committed => Cell::Committed,
                Ending::Killed => Cell::Killed,
            },
        );
    }
}

impl Lanes {
    fn slots(&mut self, worker: WorkerId, scenario: &Scenario, invocations: &[Invocation]) {
        let own = || invocations.iter().filter(|invocation| invocation.worker == worker);
        let used = own().map(|invocation| invocation.slot).max().unwrap_or(0);
        let last = used.max(scenario.slots_per_worker.min(EMPTY_SLOTS_SHOWN));
        for slot in 1..=last {
            let mut row = Row::new(format!("  slot {slot}"), self.columns);
            let in_slot = || own().filter(|invocation| invocation.slot == slot);
            in_slot().for_each(|invocation| invocation.draw(&mut row));
            for invocation in in_slot() {
                let number = invocation.request.0.to_string();
                row.inscribe(&number, invocation.admitted_at, invocation.end, |cell| matches!(cell, Cell::Stage(..)));
            }
            self.rows.push(row);
        }
        if last < scenario.slots_per_worker {
            let unused = scenario.slots_per_worker - last;
            self.left_out.push(format!("{unused} slots of {worker} were never used."));
        }
    }
}

#[cfg(test)]
mod tests {
    use scenarios::{Host, OnSigterm, ShellBehaviour, Span, expect};

    use super::*;
    use crate::report::paint;

    const HOST: Host = Host { shell: ShellBehaviour::Stays, custom: None };

    fn drawn(scenario: &Scenario, columns: usize) -> Vec<String> {
        let lanes = layout(scenario, &expect(scenario, &HOST).events, Tick::END, columns, false);
        paint::plain_rows(&lanes)
    }

    fn opening() -> Scenario {
        Scenario::new("opening", "Opening")
    }

    #[test]
    fn ticks_fall_into_columns_from_edge_to_edge() {
        for columns in [1, 2, 30, 61, 180] {
            assert_eq!(column_of(Tick(0), columns), 0);
            assert_eq!(column_of(Tick::END, columns), columns - 1);
            assert_eq!(column_of(Tick(100_000), columns), columns - 1);
            let all: Vec<usize> = (0..=600).map(|tick| column_of(Tick(tick), columns)).collect();
            assert!(all.is_sorted());
        }
        assert_eq!(column_of(Tick(310), 61), 31);
        assert_eq!(column_of(Tick(5), 0), 0);
    }

    /// One column a second: what stands where can be read off.
    #[test]
    fn the_opening_drill() {
        let expected = [
            "worker-1 |____^=========================T=========K                    ",
            "  grace  |                              [ 10 s ---]                    ",
        ];
        let rows = drawn(&opening(), 61);
        assert_eq!(rows.len(), 6);
        assert_eq!(rows[..2], expected);
        for (row, (request, admitted, committed)) in
            rows[2..].iter().zip([(3, 5, 25), (4, 7, 27), (5, 9, 29), (6, 11, 31)])
        {
            let cells = &row[10..];
            assert!(cells[admitted..].starts_with(&request.to_string()), "{row}");
            assert_eq!(cells.find('*'), Some(committed), "{row}");
            assert_eq!(cells.find('X'), Some(40), "{row}");
            assert_eq!((cells.find('-'), cells.find('#')), (Some(admitted + 7), Some(admitted + 13)), "{row}");
        }
    }

    #[test]
    fn a_commit_is_shown_where_the_next_one_is_admitted() {
        // request-6 commits at 31 s, and request-16 takes its slot in the same tick.
        let rows = drawn(&opening(), 61);
        let slot = rows.iter().find(|row| row.contains("16")).unwrap();
        assert_eq!(slot.chars().nth(10 + 31), Some('*'));
        assert!(slot.contains("*16"), "{slot}");
    }

    #[test]
    fn odd_traces_are_drawn_without_panicking() {
        let (worker, request) = (WorkerId(3), RequestId(9));
        let at = |t, kind| Event { t: Tick(t), kind };
        let events = [
            at(0, EventKind::InvocationKilled { request, worker }),
            at(500, EventKind::RequestAdmitted { request, worker, slot: 200 }),
            at(400, EventKind::StageEntered { request, worker, stage: Stage::Tool }),
            at(70_000, EventKind::ResultCommitted { request, worker, sum: 1 }),
            at(10, EventKind::SigkillSent { worker }),
            at(90_000, EventKind::SigtermSent { worker }),
        ];
        for columns in [0, 1, 5, 100] {
            let lanes = layout(&opening(), &events, Tick::END, columns, false);
            assert!(lanes.rows.iter().all(|row| row.cells.len() == columns));
        }
    }

    #[test]
    fn what_is_not_known_is_not_drawn() {
        let events = expect(&opening(), &HOST).events;
        let until = Tick(200);
        let seen: Vec<Event> = events.into_iter().filter(|event| event.t <= until).collect();
        let lanes = layout(&opening(), &seen, until, 61, false);
        assert!(lanes.rows.iter().any(|row| row.cells[20] == Cell::Running));
        for row in &lanes.rows {
            assert!(row.cells[21..].iter().all(|&cell| cell == Cell::Blank), "{row:?}");
        }
    }

    #[test]
    fn large_drills_are_cut_and_say_so() {
        let mut large = opening();
        (large.initial_workers, large.slots_per_worker) = (64, 64);
        large.request_interval_s = Span(1);
        large.on_sigterm = OnSigterm::Drain;
        let events = expect(&large, &HOST).events;
        let lanes = layout(&large, &events, Tick::END, 61, false);
        assert_eq!(lanes.left_out.last().unwrap(), "56 more workers are left out; -v shows them.");
        let all = layout(&large, &events, Tick::END, 61, true);
        assert_eq!(all.rows.iter().filter(|row| row.label.starts_with('w')).count(), 64);
    }
}
