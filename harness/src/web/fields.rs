//! `GET /api/fields`: what the page makes its controls of.

use scenarios::{Effect, Entrypoint, FIELDS, Field, Scenario, catalogue, fields::Kind};
use serde::Serialize;
use serde_json::{Value, json};

use super::serve::Allowed;
use crate::cli::{ClockChoice, SPEEDS};

/// The preset with which the page opens.
const OPENING: &str = "ignored-signal";
/// The preset that other settings are compared with.
const BASELINE: &str = "baseline";

/// All of it.
#[derive(Debug, Serialize)]
pub(super) struct FieldsDocument<'a> {
    version: &'static str,
    fields: Vec<FieldEntry>,
    presets: Vec<Preset<'a>>,
    opening: &'a str,
    baseline: &'a str,
    allow_commands: bool,
    speed: Value,
    clocks: [&'static str; 2],
}

#[derive(Debug, Serialize)]
struct FieldEntry {
    name: &'static str,
    unit: &'static str,
    kind: &'static str,
    required: bool,
    default: Option<Value>,
    min: Option<f64>,
    max: Option<f64>,
    step: Option<f64>,
    choices: Option<Vec<&'static str>>,
    allowed: String,
    meaning: &'static str,
}

#[derive(Debug, Serialize)]
struct Preset<'a> {
    name: &'a str,
    title: &'a str,
    why: Option<&'a str>,
    scenario: &'a Scenario,
}

impl<'a> Preset<'a> {
    fn of(scenario: &'a Scenario) -> Preset<'a> {
        let Scenario { name, title, why, .. } = scenario;
        Preset { name, title, why: why.as_deref(), scenario }
    }
}

/// What a server that allows this has to offer.
pub(super) fn document(allowed: &Allowed) -> FieldsDocument<'static> {
    FieldsDocument {
        version: env!("CARGO_PKG_VERSION"),
        fields: FIELDS.iter().map(entry).collect(),
        presets: catalogue::all().iter().map(Preset::of).collect(),
        opening: OPENING,
        baseline: BASELINE,
        allow_commands: allowed.commands,
        speed: json!({ "min": SPEEDS.start(), "max": SPEEDS.end(), "default": allowed.speed }),
        clocks: [ClockChoice::Scaled, ClockChoice::Stepped].map(ClockChoice::name),
    }
}

/// The same for a report, which has these scenarios in it and can't run anything.
pub(super) fn of_report<'a>(scenarios: &[&'a Scenario]) -> FieldsDocument<'a> {
    let presets: Vec<Preset<'a>> = scenarios.iter().copied().map(Preset::of).collect();
    let first = presets.first().map_or("", |preset| preset.name);
    // That lists of words are not allowed here would be said of a server.
    let nothing = Allowed { commands: true, speed: *SPEEDS.start() };
    FieldsDocument { presets, opening: first, baseline: first, ..document(&nothing) }
}

fn entry(field: &'static Field) -> FieldEntry {
    let (kind, range, choices) = match field.kind {
        Kind::Name(_) => ("name", None, None),
        Kind::Line(_) => ("line", None, None),
        Kind::Text(_) => ("text", None, None),
        Kind::Whole { min, max, .. } => ("whole", Some((f64::from(min), f64::from(max), 1.0)), None),
        Kind::Seconds { min, max, .. } => ("seconds", Some((min.as_seconds(), max.as_seconds(), 0.1)), None),
        Kind::Flag(_) => ("flag", None, None),
        Kind::Choice { names, .. } => ("choice", None, Some(names.to_vec())),
        Kind::Entrypoint => ("entrypoint", None, Some(Entrypoint::NAMED.iter().map(|(name, _)| *name).collect())),
        Kind::Effect => ("effect", None, Some(Effect::NAMED.iter().map(|(name, _)| *name).collect())),
    };
    FieldEntry {
        name: field.name,
        unit: field.unit,
        kind,
        required: field.is_required(),
        default: field.default_value(),
        min: range.map(|(min, _, _)| min),
        max: range.map(|(_, max, _)| max),
        step: range.map(|(_, _, step)| step),
        choices,
        allowed: field.allowed(),
        meaning: field.meaning,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_presets_that_the_page_knows_are_in_the_catalogue() {
        for name in [OPENING, BASELINE] {
            assert!(catalogue::get(name).is_some(), "{name}");
        }
        // The opening settings are those of a scenario in which nothing is said.
        let opening = catalogue::get(OPENING).unwrap();
        let silent = Scenario::new(&opening.name, &opening.title);
        assert_eq!(Scenario { why: opening.why.clone(), ..silent }, *opening);
    }

    #[test]
    fn a_report_does_not_tell_how_to_start_a_server() {
        assert!(of_report(&[]).allow_commands);
    }

    #[test]
    fn a_field_says_what_its_control_needs() {
        let entry = |name: &str| serde_json::to_value(entry(Field::named(name).unwrap())).unwrap();
        let grace = entry("grace_period_s");
        assert_eq!((&grace["kind"], &grace["unit"], &grace["default"]), (&json!("seconds"), &json!("s"), &json!(10.0)));
        assert_eq!([&grace["min"], &grace["max"], &grace["step"]], [&json!(0.0), &json!(20.0), &json!(0.1)]);
        assert_eq!(entry("on_sigterm")["choices"], json!(["drain", "default", "ignore"]));
        assert_eq!(entry("initial_workers")["step"], json!(1.0));
        assert_eq!(entry("name")["required"], json!(true));
        assert!(entry("entrypoint")["choices"].as_array().unwrap().contains(&json!("script_trap")));
    }
}
