//! What can be wrong with a scenario: every problem names the field, the value that was given and what is allowed.

use std::fmt;

use thiserror::Error;

use crate::fields::FIELDS;

/// Everything that is wrong with a scenario; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct ScenarioError {
    /// Every problem in the order of the text.
    pub problems: Vec<Problem>,
}

/// How many problems an error shows before it only counts the others.
const SHOWN: usize = 20;

/// One problem a line; where a field is unknown, the fields that there are stand at the end.
impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().take(SHOWN).enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        match self.problems.len().saturating_sub(SHOWN) {
            0 => {}
            more => write!(f, "\nand {more} more problems")?,
        }
        // Once, however many fields there are not.
        if self.problems.iter().any(|problem| matches!(problem, Problem::UnknownField { .. })) {
            let separator = if self.problems.len() == 1 { "; " } else { "\n" };
            let known: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
            write!(f, "{separator}the fields are {}", known.join(", "))?;
        }
        Ok(())
    }
}

impl From<Problem> for ScenarioError {
    fn from(problem: Problem) -> ScenarioError {
        ScenarioError { problems: vec![problem] }
    }
}

/// One thing that is wrong with a scenario. What was given is shortened where it is long.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// There is nothing to parse.
    #[error("the scenario is empty: it must be a JSON object")]
    Empty,
    /// It is longer than any scenario.
    #[error("the scenario is {bytes} bytes long: at most {allowed} are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The greatest length.
        allowed: usize,
    },
    /// It is not UTF-8.
    #[error("the scenario is not text: the byte at offset {offset} is not UTF-8")]
    NotText {
        /// How many bytes before it are text.
        offset: usize,
    },
    /// It is not JSON.
    #[error("the scenario is not JSON: {what}")]
    NotJson {
        /// What the JSON parser says, with line and column.
        what: String,
    },
    /// It is JSON, but no object.
    #[error("the scenario must be a JSON object: {given} is none")]
    NotAnObject {
        /// What it is.
        given: String,
    },
    /// A field that there is not.
    #[error("{field}: there is no such field, given as {given}{}", hint(*suggestion))]
    UnknownField {
        /// Its name as given.
        field: String,
        /// The value that was given for it.
        given: String,
        /// The field that may be meant.
        suggestion: Option<&'static str>,
    },
    /// A field that stands there more than once.
    #[error("{field}: given more than once, last as {given}")]
    RepeatedField {
        /// Its name.
        field: &'static str,
        /// The last of its values.
        given: String,
    },
    /// A field that must be given and is not.
    #[error("{field}: missing: {allowed}")]
    MissingField {
        /// Its name.
        field: &'static str,
        /// What is allowed.
        allowed: String,
    },
    /// A value that the field does not take.
    #[error("{field}: {given} {wrong}: {allowed}")]
    BadValue {
        /// The field's name.
        field: &'static str,
        /// The value as given.
        given: String,
        /// What is wrong with it.
        wrong: Wrong,
        /// What is allowed.
        allowed: String,
    },
    /// A setting without `=`.
    #[error("{given}: a setting is written FIELD=VALUE")]
    NotASetting {
        /// The setting as given.
        given: String,
    },
}

impl Problem {
    /// The name of the field that it is about, as it was given; none where it is about the whole scenario.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Problem::UnknownField { field, .. } => Some(field),
            Problem::RepeatedField { field, .. }
            | Problem::MissingField { field, .. }
            | Problem::BadValue { field, .. } => Some(field),
            _ => None,
        }
    }
}

/// What is wrong with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Wrong {
    /// Another type is wanted.
    #[error("is not {0}")]
    Type(&'static str),
    /// A number with a fraction where there is none.
    #[error("is not a whole number")]
    Fraction,
    /// A number beyond its range.
    #[error("is out of range")]
    Range,
    /// A time between two ticks.
    #[error("is off the 0.1 s grid")]
    Grid,
    /// None of the names there are.
    #[error("is unknown")]
    Choice,
    /// Text without any.
    #[error("is empty")]
    Blank,
    /// Text with line breaks or other control characters where it can't have any.
    #[error("holds a control character")]
    Control,
    /// Not in kebab-case.
    #[error("is not in kebab-case")]
    Case,
    /// A list that is no entrypoint, or a field that is only for another entrypoint.
    #[error("can't be used")]
    Unusable,
}

fn hint(suggestion: Option<&'static str>) -> String {
    suggestion.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

/// The longest value or name that a message shows whole, in characters.
const LONGEST: usize = 60;

/// `text` on one line and not longer than a message can bear: control characters escaped, the middle left out.
pub(crate) fn shortened(text: &str) -> String {
    // The text can be megabytes long: only its ends are looked at.
    let count = text.chars().take(LONGEST + 1).count();
    let plain = |part: String| -> String {
        part.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
    };
    if count <= LONGEST {
        return plain(text.to_owned());
    }
    let head: String = text.chars().take(LONGEST - 20).collect();
    let mut tail: Vec<char> = text.chars().rev().take(15).collect();
    tail.reverse();
    format!("{}[…]{}", plain(head), plain(tail.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_unprintable_values_are_made_fit_to_show() {
        assert_eq!(shortened("a\nb\u{1b}[2J"), "a\\nb\\u{1b}[2J");
        let long = format!("head{}tail", "x".repeat(10_000_000));
        let short = shortened(&long);
        assert!(short.starts_with("headxxx") && short.ends_with("xxxtail") && short.contains("[…]"), "{short}");
        assert!(short.chars().count() < LONGEST);
    }
}
