//! One line for each thing that happens, as it happens.

use std::collections::HashMap;

use anstyle::Style;
use scenarios::{Event, EventKind};

use super::screen::{BAD, CAUTION, GOOD, Marks, PLAIN, QUIET, STRONG, Screen, paint};
use crate::{compare::Identity, record::Observed};

/// Writes decisions, and knows what was expected.
#[derive(Debug)]
pub struct Decisions {
    screen: Screen,
    expected: HashMap<Identity, Event>,
}

impl Decisions {
    /// For a drill of which `expected` is expected.
    #[must_use]
    pub fn new(screen: Screen, expected: &[Event]) -> Decisions {
        let expected = expected.iter().map(|event| (Identity::of(&event.kind), *event)).collect();
        Decisions { screen, expected }
    }

    /// The line for an observed event: model time, wall time, what happened and, where it is not as expected, what
    /// was. `None` for the stages of invocations, unless they are unexpected or more is to be shown.
    #[must_use]
    pub fn line(&self, observed: &Observed) -> Option<String> {
        let differs = self.difference(&observed.event);
        let notes: Vec<&str> = differs.as_deref().into_iter().chain(observed.note.as_deref()).collect();
        let wall_s = (self.screen.width >= NARROW).then_some(observed.at_us as f64 / 1e6);
        (!notes.is_empty() || is_shown(self.screen, &observed.event))
            .then(|| line(self.screen, &observed.event, wall_s, &notes))
    }

    fn difference(&self, event: &Event) -> Option<String> {
        let differs = self.screen.marks().differs;
        match self.expected.get(&Identity::of(&event.kind)) {
            Some(expected) if expected == event => None,
            Some(expected) if expected.kind == event.kind => Some(format!("{differs} expected at {} s", expected.t)),
            Some(expected) => Some(format!("{differs} expected at {} s: {}", expected.t, expected.kind)),
            None => Some(format!("{differs} not expected")),
        }
    }
}

/// Where a screen is too narrow for wall time, in columns.
const NARROW: usize = 60;

/// The line for an event that the model expects.
#[must_use]
pub fn expected_line(screen: Screen, event: &Event) -> Option<String> {
    is_shown(screen, event).then(|| line(screen, event, None, &[]))
}

fn is_shown(screen: Screen, event: &Event) -> bool {
    screen.verbose || !matches!(event.kind, EventKind::StageEntered { .. })
}

fn line(screen: Screen, event: &Event, wall_s: Option<f64>, notes: &[&str]) -> String {
    let (mark, style) = mark_of(&event.kind, screen.marks());
    let wall = wall_s.map_or_else(String::new, |wall_s| format!(" {wall_s:>+9.3} s"));
    let times = format!("{:>6} s{wall} ", event.t);
    let indent = " ".repeat(times.chars().count() + 3);
    let first = format!("{}{} ", paint(QUIET, &times), paint(style, &format!(" {mark}")));
    let mut text = event.kind.to_string();
    for note in notes {
        text.push_str("  ");
        text.push_str(note);
    }
    // A difference takes the whole line, so that it is seen in a long list.
    let wrapped = screen.wrap(&text, "", "");
    if notes.is_empty() && indent.len() + wrapped.trim_end().chars().count() <= screen.width {
        return format!("{first}{}\n", paint(text_style(&event.kind), &text));
    }
    screen.wrap(&text, &first, &indent)
}

fn text_style(kind: &EventKind) -> Style {
    match kind {
        EventKind::SigtermSent { .. } | EventKind::SigkillSent { .. } => STRONG,
        EventKind::RequestRejected { .. } | EventKind::StageEntered { .. } => QUIET,
        EventKind::InvocationKilled { .. } | EventKind::WorkerOrphaned { .. } => BAD,
        _ => PLAIN,
    }
}

/// The mark of an event, and how it looks.
pub(crate) fn mark_of(kind: &EventKind, marks: &Marks) -> (char, Style) {
    match kind {
        EventKind::StageEntered { stage, .. } => (marks.stages[*stage as usize], QUIET),
        EventKind::ResultCommitted { .. } => (marks.committed, GOOD),
        EventKind::WorkerStarted { .. } => (marks.started, PLAIN),
        EventKind::WorkerReady { .. } => (marks.ready, GOOD),
        EventKind::WorkerFailed { .. } => (marks.failed, BAD),
        EventKind::SigtermSent { .. } => (marks.sigterm, CAUTION),
        EventKind::SigtermSkipped { .. } => (marks.sigterm_skipped, CAUTION),
        EventKind::ReadinessWithdrawn { .. } => (marks.withdrawn, CAUTION),
        EventKind::SigtermIgnored { .. } => (marks.ignored, CAUTION),
        EventKind::SigkillSent { .. } => (marks.sigkill, BAD),
        EventKind::WorkerExited { .. } | EventKind::OrphanExited { .. } => (marks.exited, PLAIN),
        EventKind::WorkerOrphaned { .. } => (marks.orphaned, BAD),
        EventKind::InvocationKilled { .. } => (marks.killed, BAD),
        EventKind::RequestAdmitted { .. } => (marks.admitted, GOOD),
        EventKind::RequestRejected { .. } => (marks.rejected, QUIET),
    }
}

#[cfg(test)]
mod tests {
    use scenarios::{RequestId, Stage, Tick, WorkerId};

    use super::*;

    const SCREEN: Screen = Screen { width: 100, ascii: false, verbose: false };

    fn admitted(t: u32, slot: u8) -> Event {
        let kind = EventKind::RequestAdmitted { request: RequestId(16), worker: WorkerId(1), slot };
        Event { t: Tick(t), kind }
    }

    fn plain(screen: Screen, expected: &[Event], event: Event, note: Option<&str>) -> Option<String> {
        let observed = Observed { event, at_us: 3_104_200, late_us: 0, pid: None, note: note.map(str::to_owned) };
        let line = Decisions::new(screen, expected).line(&observed)?;
        Some(anstream::adapter::strip_str(&line).to_string())
    }

    #[test]
    fn a_decision_has_both_times() {
        let line = plain(SCREEN, &[admitted(310, 2)], admitted(310, 2), None).unwrap();
        assert_eq!(line, "  31.0 s    +3.104 s  → request-16 is admitted to worker-1, slot 2\n");
    }

    #[test]
    fn what_is_not_as_expected_says_so() {
        for (expected, mark) in [
            (admitted(300, 2), "≠ expected at 30.0 s\n"),
            (admitted(310, 1), "≠ expected at 31.0 s: request-16\n                        is admitted"),
        ] {
            let line = plain(SCREEN, &[expected], admitted(310, 2), None).unwrap();
            assert!(line.contains(mark), "{line}");
        }
        assert!(plain(SCREEN, &[], admitted(310, 2), None).unwrap().ends_with("≠ not expected\n"));
    }

    #[test]
    fn stages_are_shown_when_asked_for_or_when_something_is_odd() {
        let kind = EventKind::StageEntered { request: RequestId(1), worker: WorkerId(1), stage: Stage::Tool };
        let stage = Event { t: Tick(10), kind };
        assert_eq!(plain(SCREEN, &[stage], stage, None), None);
        assert!(plain(SCREEN, &[], stage, None).is_some());
        assert!(plain(SCREEN, &[stage], stage, Some("odd")).unwrap().contains("  odd"));
        assert!(plain(Screen { verbose: true, ..SCREEN }, &[stage], stage, None).is_some());
    }

    #[test]
    fn a_narrow_screen_gets_the_model_time_only() {
        let narrow = Screen { width: 40, ascii: true, verbose: false };
        let line = plain(narrow, &[admitted(310, 2)], admitted(310, 2), None).unwrap();
        assert_eq!(line, "  31.0 s  > request-16 is admitted to\n            worker-1, slot 2\n");
    }
}
