//! The fields of a scenario as a table: what drives parsing, error messages, documentation and controls.

use crate::{Entrypoint, HandlerInstalled, OnSigterm, Scenario, Span, fate::Effect};

/// One field of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name in a file.
    pub name: &'static str,
    /// The unit of its value, empty for what has none.
    pub unit: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// What it means, in one sentence.
    pub meaning: &'static str,
}

/// What values a field takes, and where a scenario keeps them.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A name in kebab-case: words of `a-z0-9` joined by single hyphens. Must be given.
    Name(fn(&mut Scenario) -> &mut String),
    /// One line of text, not empty. Must be given.
    Line(fn(&mut Scenario) -> &mut String),
    /// Text that may be left out.
    Text(fn(&mut Scenario) -> &mut Option<String>),
    /// A whole number.
    Whole {
        /// The least value.
        min: u8,
        /// The greatest value.
        max: u8,
        /// Where it is kept.
        place: fn(&mut Scenario) -> &mut u8,
    },
    /// Model seconds on the 0.1 s grid.
    Seconds {
        /// The least value.
        min: Span,
        /// The greatest value.
        max: Span,
        /// Where it is kept.
        place: fn(&mut Scenario) -> &mut Span,
    },
    /// True or false.
    Flag(fn(&mut Scenario) -> &mut bool),
    /// One of some names.
    Choice {
        /// The names.
        names: &'static [&'static str],
        /// Takes the choice with this index.
        choose: fn(&mut Scenario, usize),
    },
    /// The name of an entrypoint form or a list of words.
    Entrypoint,
    /// An [`Effect`] by its name, or nothing; only beside an entrypoint that is a list.
    Effect,
}

/// Every field in the order of the contract. What a field holds when it is left out is in [`Scenario::new`], and
/// [`Field::default_value`] looks there.
pub static FIELDS: [Field; 19] = [
    Field {
        name: "name",
        unit: "",
        kind: Kind::Name(|s| &mut s.name),
        meaning: "What the scenario is called, in the catalogue and on the command line.",
    },
    Field {
        name: "title",
        unit: "",
        kind: Kind::Line(|s| &mut s.title),
        meaning: "What the scenario is, in one line.",
    },
    Field { name: "why", unit: "", kind: Kind::Text(|s| &mut s.why), meaning: "What the scenario shows." },
    Field {
        name: "initial_workers",
        unit: "",
        kind: Kind::Whole { min: 1, max: 64, place: |s| &mut s.initial_workers },
        meaning: "How many workers are started at t = 0.",
    },
    Field {
        name: "slots_per_worker",
        unit: "",
        kind: Kind::Whole { min: 1, max: 64, place: |s| &mut s.slots_per_worker },
        meaning: "How many invocations one worker holds at once.",
    },
    Field {
        name: "startup_s",
        unit: "s",
        kind: Kind::Seconds { min: Span(1), max: Span::seconds(30), place: |s| &mut s.startup_s },
        meaning: "How long a worker takes from its start until it is ready.",
    },
    Field {
        name: "fail_worker_1",
        unit: "",
        kind: Kind::Flag(|s| &mut s.fail_worker_1),
        meaning: "Whether worker 1, and no other, exits 1 at the end of its startup.",
    },
    Field {
        name: "request_interval_s",
        unit: "s",
        kind: Kind::Seconds { min: Span(1), max: Span::seconds(40), place: |s| &mut s.request_interval_s },
        meaning: "How long after a request the next one arrives, from the first at 1 s to the last at 40 s or before.",
    },
    Field {
        name: "invocation_s",
        unit: "s",
        kind: Kind::Seconds { min: Span(1), max: Span::seconds(60), place: |s| &mut s.invocation_s },
        meaning: "How long an invocation takes: three equal stages, then the commit.",
    },
    Field {
        name: "ready_only_routing",
        unit: "",
        kind: Kind::Flag(|s| &mut s.ready_only_routing),
        meaning: "Whether the router leaves out workers that are starting or draining, which would refuse the request.",
    },
    Field {
        name: "signal_at_s",
        unit: "s",
        kind: Kind::Seconds { min: Span::seconds(1), max: Span::seconds(40), place: |s| &mut s.signal_at_s },
        meaning: "When SIGTERM is sent to worker 1.",
    },
    Field {
        name: "grace_period_s",
        unit: "s",
        kind: Kind::Seconds { min: Span(0), max: Span::seconds(20), place: |s| &mut s.grace_period_s },
        meaning: "How long after SIGTERM a worker 1 that is still there gets SIGKILL.",
    },
    Field {
        name: "on_sigterm",
        unit: "",
        kind: Kind::Choice { names: &["drain", "default", "ignore"], choose: |s, i| s.on_sigterm = OnSigterm::ALL[i] },
        meaning: "What a worker does about SIGTERM: a handler that drains, no handler at all, or SIG_IGN.",
    },
    Field {
        name: "handler_installed",
        unit: "",
        kind: Kind::Choice {
            names: &["at_start", "after_boot"],
            choose: |s, i| s.handler_installed = HandlerInstalled::ALL[i],
        },
        meaning: "When a worker that drains installs its handler.",
    },
    Field {
        name: "entrypoint",
        unit: "",
        kind: Kind::Entrypoint,
        meaning: "How the worker's command line is wrapped.",
    },
    Field {
        name: "expected_effect",
        unit: "",
        kind: Kind::Effect,
        meaning: "What SIGTERM does to a worker behind an entrypoint that is a list; measured where it is left out.",
    },
    Field {
        name: "pid_namespace",
        unit: "",
        kind: Kind::Flag(|s| &mut s.pid_namespace),
        meaning: "Whether the entrypoint's first process is PID 1 of its own PID namespace, as in a container.",
    },
    Field {
        name: "boot_replacement",
        unit: "",
        kind: Kind::Flag(|s| &mut s.boot_replacement),
        meaning: "Whether one more worker is started when worker 1 is told to stop, whatever worker 1 is doing.",
    },
    Field {
        name: "rejection_allowance_percent",
        unit: "%",
        kind: Kind::Whole { min: 0, max: 100, place: |s| &mut s.rejection_allowance_percent },
        meaning: "How many percent of the arrivals may be rejected for the gate to pass.",
    },
];

impl Field {
    /// The field of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Field> {
        FIELDS.iter().find(|field| field.name == name)
    }

    /// Whether a scenario without the field is an error.
    #[must_use]
    pub fn is_required(&self) -> bool {
        matches!(self.kind, Kind::Name(_) | Kind::Line(_))
    }

    /// What the field holds when it is left out, as JSON; null where that is nothing. `None` for a field that must be
    /// given.
    #[must_use]
    pub fn default_value(&self) -> Option<serde_json::Value> {
        if self.is_required() {
            return None;
        }
        let defaults = serde_json::to_value(Scenario::new("", "")).unwrap_or_default();
        Some(defaults.get(self.name).cloned().unwrap_or_default())
    }

    /// What is allowed, in words that follow a colon: `0 to 20 s in steps of 0.1`.
    #[must_use]
    pub fn allowed(&self) -> String {
        match self.kind {
            Kind::Name(_) => "words of a-z and 0-9 joined by single hyphens".to_owned(),
            Kind::Line(_) => "one line of text".to_owned(),
            Kind::Text(_) => "text".to_owned(),
            Kind::Whole { min, max, .. } => match self.unit {
                "" => format!("a whole number from {min} to {max}"),
                unit => format!("a whole number from {min} to {max} {unit}"),
            },
            Kind::Seconds { min, max, .. } => {
                format!("{} to {} s in steps of 0.1", min.as_seconds(), max.as_seconds())
            }
            Kind::Flag(_) => "true or false".to_owned(),
            Kind::Choice { names, .. } => one_of(names),
            Kind::Entrypoint => {
                let names = Entrypoint::NAMED.map(|(name, _)| format!("{name:?}")).join(", ");
                format!("{names}, or a list of words that holds {{worker}} once")
            }
            Kind::Effect => one_of(&Effect::NAMED.map(|(name, _)| name)),
        }
    }
}

/// `"drain", "default" or "ignore"`.
fn one_of(names: &[&str]) -> String {
    let mut quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    let last = quoted.pop().unwrap_or_default();
    match quoted.is_empty() {
        true => last,
        false => format!("{} or {last}", quoted.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_table_and_the_scenario_have_the_same_fields_in_the_same_order() {
        let mut full = Scenario::new("a", "b");
        full.why = Some("c".to_owned());
        full.expected_effect = Some(Effect::Drained);
        let text = serde_json::to_string(&full).unwrap();
        let places: Vec<usize> = FIELDS.iter().map(|f| text.find(&format!("\"{}\":", f.name)).unwrap()).collect();
        assert!(places.is_sorted(), "{places:?}");
        assert_eq!(serde_json::to_value(&full).unwrap().as_object().unwrap().len(), FIELDS.len());
    }

    #[test]
    fn the_defaults_are_those_of_the_contract() {
        let defaults = [
            ("why", json!(null)),
            ("initial_workers", json!(1)),
            ("slots_per_worker", json!(4)),
            ("startup_s", json!(4.0)),
            ("fail_worker_1", json!(false)),
            ("request_interval_s", json!(2.0)),
            ("invocation_s", json!(20.0)),
            ("ready_only_routing", json!(true)),
            ("signal_at_s", json!(30.0)),
            ("grace_period_s", json!(10.0)),
            ("on_sigterm", json!("default")),
            ("handler_installed", json!("at_start")),
            ("entrypoint", json!("exec")),
            ("expected_effect", json!(null)),
            ("pid_namespace", json!(true)),
            ("boot_replacement", json!(false)),
            ("rejection_allowance_percent", json!(25)),
        ];
        let found: Vec<_> = FIELDS.iter().filter_map(|f| f.default_value().map(|value| (f.name, value))).collect();
        assert_eq!(found, defaults);
    }

    #[test]
    fn the_names_of_a_choice_are_those_that_a_scenario_is_written_with() {
        for field in &FIELDS {
            let Kind::Choice { names, choose } = field.kind else { continue };
            for (index, name) in names.iter().enumerate() {
                let mut scenario = Scenario::new("a", "b");
                choose(&mut scenario, index);
                assert_eq!(serde_json::to_value(&scenario).unwrap()[field.name], json!(name));
            }
        }
        assert_eq!(OnSigterm::ALL.len() + HandlerInstalled::ALL.len(), 5);
    }
}
