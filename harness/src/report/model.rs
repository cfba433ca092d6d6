//! What the model expects, as text.

use scenarios::{Expectation, Scenario, Tick};

use super::{decision::expected_line, paint, run::heading, screen::Screen, summary};

/// The expected trace, the lanes and the outcome.
#[must_use]
pub fn text(screen: Screen, scenario: &Scenario, expected: &Expectation) -> String {
    let mut text = heading(screen, scenario);
    expected.events.iter().filter_map(|event| expected_line(screen, event)).for_each(|line| text.push_str(&line));
    text.push('\n');
    text.push_str(&overview(screen, scenario, expected));
    text
}

/// The lanes and the outcome alone.
pub(super) fn overview(screen: Screen, scenario: &Scenario, expected: &Expectation) -> String {
    let mut text = paint::lanes(screen, scenario, &[("", &expected.events, Tick::END)]);
    text.push('\n');
    text.push_str(&summary::outcome(screen, scenario, &expected.outcome, true));
    text
}
