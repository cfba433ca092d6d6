//! Scenarios as text: the list of the catalogue, and one with all its fields.

use scenarios::{Entrypoint, Expectation, OnSigterm, Scenario, fields::FIELDS};
use serde_json::Value;

use super::{
    model,
    screen::{QUIET, STRONG, Screen, paint},
};

/// A heading, and which scenarios stand under it.
type Group = (&'static str, fn(&Scenario) -> bool);

/// What scenarios are grouped under, by what decides about them.
const GROUPS: [Group; 4] = [
    ("As PID 1, the signal is not heard", |s| is_pid1(s) && s.on_sigterm != OnSigterm::Drain),
    ("As PID 1, with a handler that drains", |s| is_pid1(s) && s.on_sigterm == OnSigterm::Drain),
    ("As an ordinary process", |s| s.entrypoint == Entrypoint::Exec && !s.pid_namespace),
    ("Behind a shell, a script or another program", |s| s.entrypoint != Entrypoint::Exec),
];

fn is_pid1(scenario: &Scenario) -> bool {
    scenario.entrypoint == Entrypoint::Exec && scenario.pid_namespace
}

/// Names and titles, grouped.
#[must_use]
pub fn list(screen: Screen, scenarios: &[Scenario]) -> String {
    let longest = scenarios.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    let column = longest + 4;
    // Where a title would have less than half the line, it goes below the name.
    let beside = column * 2 <= screen.width;
    let mut text = String::new();
    for (group, belongs) in GROUPS {
        let mut members = scenarios.iter().filter(|scenario| belongs(scenario)).peekable();
        if members.peek().is_none() {
            continue;
        }
        text.push_str(&screen.wrap(group, if text.is_empty() { "" } else { "\n" }, ""));
        for scenario in members {
            if beside {
                let name = paint(STRONG, &format!("  {:<width$}", scenario.name, width = column - 2));
                text.push_str(&screen.wrap(&scenario.title, &name, &" ".repeat(column)));
            } else {
                text.push_str(&format!("  {}\n", paint(STRONG, &scenario.name)));
                text.push_str(&screen.wrap(&scenario.title, "    ", "    "));
            }
        }
    }
    text
}

/// Everything about one scenario: why, its fields with what is allowed, what the model expects, and its JSON.
#[must_use]
pub fn show(screen: Screen, scenario: &Scenario, expected: &Expectation) -> String {
    let mut text = screen.wrap(&scenario.title, &format!("{}: ", paint(STRONG, &scenario.name)), "  ");
    if let Some(why) = &scenario.why {
        text.push_str(&screen.wrap(why, "  ", "  "));
    }
    text.push('\n');
    text.push_str(&fields(screen, scenario));
    text.push('\n');
    text.push_str(&model::overview(screen, scenario, expected));
    text.push('\n');
    // What `Scenario` serialises to is an object of text, numbers and lists: this can't fail.
    text.push_str(&serde_json::to_string_pretty(scenario).unwrap_or_default());
    text.push('\n');
    text
}

fn fields(screen: Screen, scenario: &Scenario) -> String {
    let values = serde_json::to_value(scenario).unwrap_or_default();
    let rest = || FIELDS.iter().filter(|field| !["name", "title", "why"].contains(&field.name));
    let longest = rest().map(|field| field.name.len()).max().unwrap_or(0);
    let beside = longest + "  30.0 s    (default)".len() <= screen.width;
    let mut text = String::new();
    for field in rest() {
        let value = values.get(field.name).cloned().unwrap_or_default();
        let default = field.default_value().unwrap_or_default();
        let shown = match &value {
            Value::Null => "not given".to_owned(),
            Value::String(word) => word.clone(),
            other => other.to_string(),
        };
        let shown = if field.unit.is_empty() { shown } else { format!("{shown} {}", field.unit) };
        let (style, mark) = if value == default { (QUIET, "(default)") } else { (STRONG, "") };
        let line = if beside {
            format!("{:<longest$}  {shown:<9} {mark}", field.name)
        } else {
            format!("{}\n    {shown} {mark}", field.name)
        };
        text.push_str(&paint(style, line.trim_end()));
        text.push('\n');
        if screen.verbose {
            text.push_str(&screen.wrap(&format!("{} Allowed: {}.", field.meaning, field.allowed()), "    ", "    "));
        }
    }
    text
}
