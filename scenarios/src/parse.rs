//! From text to a scenario: JSON files and `FIELD=VALUE` settings, with the same checks for both.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor},
};
use serde_json::Value;

use crate::{
    Entrypoint, Scenario, Span,
    fate::Effect,
    fields::{FIELDS, Field, Kind},
    problem::{Problem, ScenarioError, Wrong, shortened},
};

/// The longest text that is taken for a scenario, in bytes. A scenario with every field takes less than 2 kB.
pub const MAX_BYTES: usize = 1 << 20;

impl Scenario {
    /// The scenario that `bytes` hold as UTF-8 text.
    ///
    /// # Errors
    /// As [`Scenario::parse`], and for what is not UTF-8.
    pub fn from_bytes(bytes: &[u8]) -> Result<Scenario, ScenarioError> {
        if bytes.len() > MAX_BYTES {
            return Err(Problem::TooLong { bytes: bytes.len(), allowed: MAX_BYTES }.into());
        }
        let text = std::str::from_utf8(bytes).map_err(|error| Problem::NotText { offset: error.valid_up_to() })?;
        // Some editors begin a text with a byte order mark, which a reader of JSON may pass over (RFC 8259, section 8.1).
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Scenario::parse(text)
    }

    /// The scenario that `text` holds as a JSON object. Fields that are left out have their defaults.
    ///
    /// # Errors
    /// Every problem there is: text that is no JSON object, fields that are unknown, missing or given twice, and
    /// values of a wrong type, out of range or off the 0.1 s grid.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        if text.len() > MAX_BYTES {
            return Err(Problem::TooLong { bytes: text.len(), allowed: MAX_BYTES }.into());
        }
        if text.trim_ascii().is_empty() {
            return Err(Problem::Empty.into());
        }
        match serde_json::from_str::<Members>(text) {
            Ok(members) => Scenario::from_members(members),
            // The object's own visitor has no other complaint than that it is none.
            Err(error) if error.is_data() => match serde_json::from_str::<Value>(text) {
                Ok(other) => Err(Problem::NotAnObject { given: shown(&other) }.into()),
                Err(error) => Err(Problem::NotJson { what: error.to_string() }.into()),
            },
            Err(error) => Err(Problem::NotJson { what: error.to_string() }.into()),
        }
    }

    /// The scenario that a JSON value holds.
    ///
    /// # Errors
    /// As [`Scenario::parse`].
    pub fn from_value(value: Value) -> Result<Scenario, ScenarioError> {
        match value {
            Value::Object(map) => Scenario::from_members(Members(map.into_iter().collect())),
            other => Err(Problem::NotAnObject { given: shown(&other) }.into()),
        }
    }

    fn from_members(Members(members): Members) -> Result<Scenario, ScenarioError> {
        let mut scenario = Scenario::new("", "");
        let mut problems = Vec::new();
        let mut seen: Vec<&'static str> = Vec::new();
        for (name, value) in &members {
            let Some(field) = Field::named(name) else {
                problems.push(unknown(name, shown(value)));
                continue;
            };
            if seen.contains(&field.name) {
                problems.push(Problem::RepeatedField { field: field.name, given: shown(value) });
                continue;
            }
            seen.push(field.name);
            problems.extend(scenario.assign(field, value).err());
        }
        for field in FIELDS.iter().filter(|field| field.is_required() && !seen.contains(&field.name)) {
            problems.push(Problem::MissingField { field: field.name, allowed: field.allowed() });
        }
        scenario.checked(problems)
    }

    /// Changes one field by a setting `FIELD=VALUE`, as [`Scenario::with_settings`] does.
    ///
    /// # Errors
    /// As [`Scenario::with_settings`]; the scenario is then as it was.
    pub fn set(&mut self, setting: &str) -> Result<(), ScenarioError> {
        *self = self.with_settings([setting])?;
        Ok(())
    }

    /// The scenario with some fields changed by settings `FIELD=VALUE`, the later of two for one field winning. VALUE
    /// is JSON where it is JSON of the kind that the field takes, and text otherwise: `on_sigterm=drain`,
    /// `signal_at_s=40`, `entrypoint=["tini","--","{worker}"]`. What depends on several fields is checked when all are
    /// set.
    ///
    /// # Errors
    /// Every problem there is: settings without `=`, unknown fields, and values that the field does not take.
    pub fn with_settings<'a>(&self, settings: impl IntoIterator<Item = &'a str>) -> Result<Scenario, ScenarioError> {
        let mut scenario = self.clone();
        let mut problems = Vec::new();
        for setting in settings {
            let Some((name, value)) = setting.split_once('=').filter(|(name, _)| !name.trim().is_empty()) else {
                problems.push(Problem::NotASetting { given: shortened(setting) });
                continue;
            };
            match Field::named(name.trim()) {
                Some(field) => problems.extend(scenario.assign(field, &setting_value(field, value)).err()),
                None => problems.push(unknown(name, shortened(value))),
            }
        }
        scenario.checked(problems)
    }

    /// What depends on several fields, then the scenario or everything that is wrong with it.
    fn checked(self, mut problems: Vec<Problem>) -> Result<Scenario, ScenarioError> {
        if let Some(effect) = self.expected_effect
            && !matches!(self.entrypoint, Entrypoint::Custom(_))
        {
            problems.push(Problem::BadValue {
                field: "expected_effect",
                given: format!("{:?}", effect.name()),
                wrong: Wrong::Unusable,
                allowed: "it is only for an entrypoint that is a list".to_owned(),
            });
        }
        if problems.is_empty() { Ok(self) } else { Err(ScenarioError { problems }) }
    }

    fn assign(&mut self, field: &'static Field, value: &Value) -> Result<(), Problem> {
        let bad = |wrong: Wrong| bad_value(field, value, wrong);
        match field.kind {
            Kind::Name(place) => {
                *place(self) = text(value).and_then(kebab_case).map_err(bad)?;
            }
            Kind::Line(place) => {
                *place(self) = text(value).and_then(one_line).map_err(bad)?;
            }
            Kind::Text(place) => {
                let given = if value.is_null() { None } else { Some(text(value).and_then(printable).map_err(bad)?) };
                *place(self) = given;
            }
            Kind::Whole { min, max, place } => {
                *place(self) = whole(value, min, max).map_err(bad)?;
            }
            Kind::Seconds { min, max, place } => {
                *place(self) = seconds(value, min, max).map_err(bad)?;
            }
            Kind::Flag(place) => {
                *place(self) = value.as_bool().ok_or_else(|| bad(Wrong::Type("a truth value")))?;
            }
            Kind::Choice { names, choose } => {
                let given = text(value).map_err(bad)?;
                let index = names.iter().position(|name| *name == given).ok_or_else(|| bad(Wrong::Choice))?;
                choose(self, index);
            }
            Kind::Entrypoint => self.entrypoint = entrypoint(field, value)?,
            Kind::Effect if value.is_null() => self.expected_effect = None,
            Kind::Effect => {
                let given = text(value).map_err(bad)?;
                let found = Effect::NAMED.into_iter().find(|(name, _)| *name == given);
                self.expected_effect = Some(found.ok_or_else(|| bad(Wrong::Choice))?.1);
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Scenario {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scenario, D::Error> {
        Scenario::from_members(Members::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// The members of a JSON object as they stand there, repeated ones included.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a scenario")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// What a setting's value means for a field.
fn setting_value(field: &Field, value: &str) -> Value {
    let json: Option<Value> = serde_json::from_str(value).ok();
    let wanted = json.filter(|json| match field.kind {
        Kind::Name(_) | Kind::Line(_) | Kind::Choice { .. } => json.is_string(),
        Kind::Text(_) | Kind::Effect => json.is_string() || json.is_null(),
        Kind::Entrypoint => json.is_string() || json.is_array(),
        Kind::Whole { .. } | Kind::Seconds { .. } | Kind::Flag(_) => true,
    });
    wanted.unwrap_or_else(|| Value::String(value.to_owned()))
}

fn text(value: &Value) -> Result<&str, Wrong> {
    value.as_str().ok_or(Wrong::Type("text"))
}

fn kebab_case(name: &str) -> Result<String, Wrong> {
    let word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    match name {
        "" => Err(Wrong::Blank),
        name if name.split('-').all(word) => Ok(name.to_owned()),
        _ => Err(Wrong::Case),
    }
}

fn one_line(line: &str) -> Result<String, Wrong> {
    if line.trim().is_empty() {
        Err(Wrong::Blank)
    } else if line.chars().any(char::is_control) {
        Err(Wrong::Control)
    } else {
        Ok(line.to_owned())
    }
}

/// Text that may have several lines, but nothing that a terminal would obey.
fn printable(text: &str) -> Result<String, Wrong> {
    match text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') {
        true => Err(Wrong::Control),
        false => Ok(text.to_owned()),
    }
}

fn number(value: &Value) -> Result<f64, Wrong> {
    value.as_f64().ok_or(Wrong::Type("a number"))
}

fn whole(value: &Value, min: u8, max: u8) -> Result<u8, Wrong> {
    let given = number(value)?;
    if given.fract() != 0.0 {
        Err(Wrong::Fraction)
    } else if !(f64::from(min)..=f64::from(max)).contains(&given) {
        Err(Wrong::Range)
    } else {
        Ok(given as u8)
    }
}

fn seconds(value: &Value, min: Span, max: Span) -> Result<Span, Wrong> {
    let given = number(value)?;
    if !(min.as_seconds()..=max.as_seconds()).contains(&given) {
        Err(Wrong::Range)
    } else {
        Span::from_seconds(given).ok_or(Wrong::Grid)
    }
}

fn entrypoint(field: &'static Field, value: &Value) -> Result<Entrypoint, Problem> {
    let bad = |wrong: Wrong| bad_value(field, value, wrong);
    match value {
        Value::String(name) => Entrypoint::from_name(name).ok_or_else(|| bad(Wrong::Choice)),
        Value::Array(words) => {
            let words: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
            let words = words.ok_or_else(|| bad(Wrong::Type("a list of words")))?;
            Entrypoint::custom(words).map_err(|allowed| Problem::BadValue {
                field: field.name,
                given: shown(value),
                wrong: Wrong::Unusable,
                allowed,
            })
        }
        _ => Err(bad(Wrong::Type("a name or a list of words"))),
    }
}

fn bad_value(field: &'static Field, value: &Value, wrong: Wrong) -> Problem {
    Problem::BadValue { field: field.name, given: shown(value), wrong, allowed: field.allowed() }
}

fn unknown(name: &str, given: String) -> Problem {
    let known = FIELDS.iter().map(|field| field.name);
    Problem::UnknownField { field: shortened(name), given, suggestion: crate::near::nearest(name, known) }
}

/// A value as a message shows it: JSON, shortened.
fn shown(value: &Value) -> String {
    shortened(&value.to_string())
}
