//! `--vary FIELD=VALUES`: one field of a scenario and the values that it takes in turn.

use scenarios::{
    Field, Scenario, Span,
    fields::{FIELDS, Kind},
};
use serde_json::Value;

use crate::{failure::Failure, input};

/// A field and its values; what a scenario can't have is already refused, as far as it shows in this field alone.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The field.
    pub field: &'static Field,
    /// Its values in the order in which they were asked for; at least one.
    pub values: Vec<Choice>,
}

/// One value of a field.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// As a setting, `FIELD=VALUE`.
    pub setting: String,
    /// As JSON.
    pub value: Value,
    /// As a table shows it.
    pub label: String,
}

/// How VALUES is written, for messages.
const FORMS: &str = "write A..B, A..B/STEP, or values with commas between them";

impl Axis {
    /// Reads `spec`, `FIELD=VALUES`. VALUES are parts with commas between them; a part is a value or, where the field
    /// takes numbers, a range `A..B` or `A..B/STEP` with both ends. A step is 1 where none is given.
    ///
    /// # Errors
    /// There is no such field, or a value or range that it does not take; they are the same as those of `--set`.
    pub fn parse(base: &Scenario, spec: &str) -> Result<Axis, Failure> {
        let Some((name, values)) = spec.split_once('=') else {
            return Err(bad(format!("{spec}: a field to vary is written FIELD=VALUES")).hint(FORMS));
        };
        let name = name.trim();
        let Some(field) = Field::named(name) else {
            // The scenario's own words, with a near match.
            let unknown = base.with_settings([spec]).err().map_or_else(|| name.to_owned(), |error| error.to_string());
            return Err(bad(unknown));
        };
        if matches!(field.kind, Kind::Name(_) | Kind::Line(_) | Kind::Text(_)) {
            let telling = FIELDS.iter().filter(|field| !is_text(field)).map(|field| field.name);
            let telling = telling.collect::<Vec<_>>().join(", ");
            return Err(bad(format!("{name}: it has no say in what happens; vary one of {telling}")));
        }
        let mut settings = Vec::new();
        for part in parts(values) {
            match part.split_once("..") {
                Some(ends) if matches!(field.kind, Kind::Whole { .. } | Kind::Seconds { .. }) => {
                    settings.extend(range(base, field, part, ends)?);
                }
                Some(_) if !part.starts_with('[') => {
                    return Err(bad(format!("{name}: {part} is a range, and {name} takes no numbers")).hint(FORMS));
                }
                _ => settings.push(format!("{name}={}", part.trim())),
            }
        }
        let values = settings.into_iter().map(|setting| Choice::new(base, field, setting)).collect::<Result<_, _>>()?;
        Ok(Axis { field, values })
    }

    /// Whether a value that is right by itself can be wrong beside one of another field.
    pub(super) fn hangs_on_others(&self) -> bool {
        matches!(self.field.kind, Kind::Entrypoint | Kind::Effect)
    }

    /// The field's name, which ends in its unit where it has one.
    #[must_use]
    pub fn title(&self) -> &'static str {
        self.field.name
    }
}

impl Choice {
    fn new(base: &Scenario, field: &Field, setting: String) -> Result<Choice, Failure> {
        // Beside an entrypoint that is no list, an expected effect is refused whatever it is, and the other way round:
        // which of them go together is seen when all are known.
        let mut alone = base.clone();
        match field.kind {
            Kind::Effect if alone.expected_effect.is_none() => {
                alone.entrypoint = scenarios::Entrypoint::Custom(vec!["{worker}".to_owned()]);
            }
            Kind::Entrypoint => alone.expected_effect = None,
            _ => {}
        }
        let set = alone.with_settings([setting.as_str()]).map_err(|error| bad(error.to_string()))?;
        let value = serde_json::to_value(&set).unwrap_or_default().get(field.name).cloned().unwrap_or_default();
        let label = match &value {
            Value::String(word) => word.clone(),
            Value::Null => "none".to_owned(),
            Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string()),
            other => other.to_string(),
        };
        Ok(Choice { setting, value, label })
    }
}

fn is_text(field: &Field) -> bool {
    matches!(field.kind, Kind::Name(_) | Kind::Line(_) | Kind::Text(_))
}

fn bad(what: impl AsRef<str>) -> Failure {
    Failure::bad_input(input::joined("--vary", what.as_ref()))
}

/// The settings of a range, both ends included where the step gets there.
fn range(base: &Scenario, field: &Field, part: &str, (first, rest): (&str, &str)) -> Result<Vec<String>, Failure> {
    let name = field.name;
    let (last, step) = rest.split_once('/').map_or((rest, "1"), |(last, step)| (last, step));
    // Both ends are checked as values of the field before anything is counted: there is no end of numbers.
    for end in [first, last] {
        Choice::new(base, field, format!("{name}={}", end.trim()))?;
    }
    let in_seconds = matches!(field.kind, Kind::Seconds { .. });
    let units = |text: &str| -> Option<u32> {
        let number: f64 = text.trim().parse().ok()?;
        match in_seconds {
            true => Span::from_seconds(number).map(|span| span.0),
            false => (number.fract() == 0.0 && (0.0..=255.0).contains(&number)).then_some(number as u32),
        }
    };
    let (Some(from), Some(to)) = (units(first), units(last)) else {
        return Err(bad(format!("{name}: {part} is no range")).hint(FORMS));
    };
    let Some(by) = units(step).filter(|&by| by > 0) else {
        let allowed = if in_seconds { "a multiple of 0.1 above 0" } else { "a whole number above 0" };
        return Err(bad(format!("{name}: the step of {part} must be {allowed}")));
    };
    if from > to {
        return Err(bad(format!("{name}: {part} ends before it begins")));
    }
    let value = |units: u32| if in_seconds { Span(units).as_seconds() } else { f64::from(units) };
    Ok((from..=to).step_by(by as usize).map(|units| format!("{name}={}", value(units))).collect())
}

/// `values` parted at the commas that are not inside a JSON list or string.
fn parts(values: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut escaped, mut from) = (0u32, false, false, 0);
    let mut parts = Vec::new();
    for (at, c) in values.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '[' if !quoted => depth += 1,
            ']' if !quoted => depth = depth.saturating_sub(1),
            ',' if !quoted && depth == 0 => {
                parts.push(&values[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&values[from..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Scenario {
        Scenario::new("base", "Base")
    }

    fn labels(spec: &str) -> Vec<String> {
        Axis::parse(&base(), spec).unwrap().values.into_iter().map(|choice| choice.label).collect()
    }

    #[test]
    fn ranges_and_lists() {
        let rows: [(&str, &[&str]); 13] = [
            ("grace_period_s=0..3", &["0", "1", "2", "3"]),
            ("grace_period_s=0..1/0.5", &["0", "0.5", "1"]),
            ("grace_period_s=0.1..1/0.3", &["0.1", "0.4", "0.7", "1"]),
            ("grace_period_s=0..1/0.4", &["0", "0.4", "0.8"]),
            ("grace_period_s=20", &["20"]),
            ("grace_period_s=5..5", &["5"]),
            ("grace_period_s=18..19,19.5, 20", &["18", "19", "19.5", "20"]),
            ("slots_per_worker=1..10/4", &["1", "5", "9"]),
            ("on_sigterm=drain,default", &["drain", "default"]),
            ("pid_namespace=true,false", &["true", "false"]),
            (
                "entrypoint=exec,[\"tini\",\"--\",\"{worker}\"],script",
                &["exec", "[\"tini\",\"--\",\"{worker}\"]", "script"],
            ),
            ("entrypoint=[\"a,]\\\"..\",\"{worker}\"]", &["[\"a,]\\\"..\",\"{worker}\"]"]),
            ("expected_effect=drained,orphaned", &["drained", "orphaned"]),
        ];
        for (spec, expected) in rows {
            assert_eq!(labels(spec), expected, "{spec}");
        }
        // Every value of a range is exactly on the grid.
        assert_eq!(labels("invocation_s=0.1..60/0.1").len(), 600);
        assert_eq!(labels("grace_period_s=0..20/0.1")[3], "0.3");
    }

    #[test]
    fn what_a_field_does_not_take_is_refused_as_in_a_scenario() {
        for (spec, parts) in [
            ("grace_period_s", &["--vary: grace_period_s", "FIELD=VALUES"][..]),
            ("grace=1", &["grace: there is no such field", "grace_period_s"]),
            ("grace_period_s=0..25", &["grace_period_s: 25 is out of range: 0 to 20 s in steps of 0.1"]),
            ("grace_period_s=0..1e300/0.1", &["out of range"]),
            ("grace_period_s=-1..2", &["grace_period_s: -1 is out of range"]),
            ("grace_period_s=0.05..2", &["off the 0.1 s grid"]),
            ("grace_period_s=..2", &["grace_period_s: \"\" is not a number"]),
            ("grace_period_s=1..", &["grace_period_s: \"\" is not a number"]),
            ("grace_period_s=1..=2", &["grace_period_s: \"=2\" is not a number"]),
            ("grace_period_s=3..2", &["3..2 ends before it begins"]),
            ("grace_period_s=1..2/0", &["the step of 1..2/0 must be a multiple of 0.1 above 0"]),
            ("grace_period_s=1..2/0.05", &["must be a multiple of 0.1"]),
            ("slots_per_worker=1..2/0.5", &["must be a whole number above 0"]),
            ("slots_per_worker=0..65", &["slots_per_worker: 0 is out of range"]),
            ("slots_per_worker=1.5", &["1.5 is not a whole number"]),
            ("on_sigterm=drain..ignore", &["on_sigterm takes no numbers"]),
            ("on_sigterm=drain,die", &["on_sigterm: \"die\" is unknown"]),
            ("on_sigterm=", &["on_sigterm: \"\" is unknown"]),
            ("pid_namespace=yes", &["pid_namespace: \"yes\" is not a truth value"]),
            ("grace_period_s=1,,2", &["grace_period_s: \"\" is not a number"]),
            ("title=a,b", &["title: it has no say in what happens", "grace_period_s"]),
            ("entrypoint=[\"tini\"]", &["{worker}"]),
        ] {
            let failure = Axis::parse(&base(), spec).unwrap_err();
            assert_eq!(failure.exit_code, 2, "{spec}");
            let said = format!("{} {}", failure.what, failure.next_step.unwrap_or_default());
            for part in parts {
                assert!(said.contains(part), "{spec}: {said}");
            }
        }
    }
}
