//! The stored runs, as text.

use super::screen::{BAD, CAUTION, GOOD, QUIET, STRONG, Screen, paint};
use crate::{
    record::Verdict,
    runs::{Listed, State},
};

/// One run a line, as given; where there is none, how to make one.
#[must_use]
pub fn list(screen: Screen, runs: &[Listed]) -> String {
    if runs.is_empty() {
        return screen.wrap("No run is stored yet; `termdrill run ignored-signal` makes one.", "", "");
    }
    let marks = screen.marks();
    let longest = runs.iter().map(|run| run.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for run in runs {
        let (style, mark) = match run.state {
            State::Finished(Verdict::Matched) => (GOOD, marks.good),
            State::Finished(Verdict::Diverged) | State::Unreadable => (BAD, marks.bad),
            State::Finished(Verdict::Inconclusive) => (CAUTION, marks.unsure),
            State::Running | State::Unfinished => (QUIET, marks.running),
        };
        let (gate, width) = match run.gate {
            None => ("", 0),
            Some(scenarios::Gate::Pass) => (" gate PASS", 12),
            Some(scenarios::Gate::Fail) => (" gate FAIL", 12),
        };
        let state = paint(style, &format!("{mark} {:<width$}", run.state.name()));
        if longest + 26 <= screen.width {
            text.push_str(&format!("{}  {state}{gate}\n", paint(STRONG, &format!("{:<longest$}", run.name))));
        } else {
            text.push_str(&format!("{}\n  {state}{gate}\n", paint(STRONG, &run.name)));
        }
    }
    text
}
