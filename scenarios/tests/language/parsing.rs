//! What is taken for a scenario, and what is said about the rest.

use scenarios::{Effect, Entrypoint, FIELDS, OnSigterm, Scenario, Span, fields::Kind, parse::MAX_BYTES};
use serde_json::{Value, json};

/// What is said of the fields where one is unknown.
const THE_FIELDS: &str = "the fields are name, title, why, initial_workers, slots_per_worker, startup_s, fail_worker_1, \
    request_interval_s, invocation_s, ready_only_routing, signal_at_s, grace_period_s, on_sigterm, handler_installed, \
    entrypoint, expected_effect, pid_namespace, boot_replacement, rejection_allowance_percent";

fn minimal() -> Value {
    json!({"name": "n", "title": "t"})
}

fn with(field: &str, value: Value) -> Value {
    let mut scenario = minimal();
    scenario[field] = value;
    scenario
}

fn error(value: Value) -> String {
    Scenario::from_value(value).unwrap_err().to_string()
}

#[test]
fn what_is_left_out_has_its_default() {
    assert_eq!(Scenario::from_value(minimal()).unwrap(), Scenario::new("n", "t"));
    assert_eq!(Scenario::parse(" {\"title\":\"t\",\n\"name\":\"n\"}\n").unwrap(), Scenario::new("n", "t"));
    let marked = "\u{feff}{\"name\": \"n\", \"title\": \"t\"}";
    assert_eq!(Scenario::from_bytes(marked.as_bytes()).unwrap(), Scenario::new("n", "t"));
}

#[test]
fn every_field_takes_its_whole_range() {
    let mut given = with("why", json!("first line\n\tsecond line"));
    for field in &FIELDS {
        match field.kind {
            Kind::Whole { min, max, .. } => {
                for value in [json!(min), json!(max), json!(f64::from(min)), json!(f64::from(max))] {
                    assert!(Scenario::from_value(with(field.name, value)).is_ok(), "{}", field.name);
                }
                given[field.name] = json!(max);
            }
            Kind::Seconds { min, max, .. } => {
                for ticks in min.0..=max.0 {
                    let scenario = Scenario::from_value(with(field.name, json!(Span(ticks).as_seconds()))).unwrap();
                    let kept = serde_json::to_value(&scenario).unwrap()[field.name].as_f64().unwrap();
                    assert_eq!(kept, f64::from(ticks) / 10.0, "{}", field.name);
                }
                given[field.name] = json!(max.as_seconds());
            }
            Kind::Flag(_) => given[field.name] = json!(field.default_value() != Some(json!(true))),
            Kind::Choice { names, .. } => given[field.name] = json!(names[names.len() - 1]),
            Kind::Entrypoint => given[field.name] = json!(["init", "--", "{worker}"]),
            Kind::Effect => given[field.name] = json!("orphaned"),
            Kind::Name(_) | Kind::Line(_) | Kind::Text(_) => {}
        }
    }
    let scenario = Scenario::from_value(given.clone()).unwrap();
    let written = serde_json::to_value(&scenario).unwrap();
    for (field, value) in given.as_object().unwrap() {
        let same = written[field] == *value || written[field].as_f64() == value.as_f64() && value.is_number();
        assert!(same, "{field}: {value} was written as {}", written[field]);
    }
}

/// A row a message: the field, the value, and all that is said.
#[test]
fn every_bad_value_is_named_with_what_is_allowed() {
    let times = "in steps of 0.1";
    let rows = [
        ("name", json!(""), "name: \"\" is empty: words of a-z and 0-9 joined by single hyphens".to_owned()),
        ("name", json!("Not-Kebab"), "name: \"Not-Kebab\" is not in kebab-case: words of a-z and 0-9 joined by single hyphens".to_owned()),
        ("name", json!(7), "name: 7 is not text: words of a-z and 0-9 joined by single hyphens".to_owned()),
        ("title", json!("  "), "title: \"  \" is empty: one line of text".to_owned()),
        ("title", json!("a\nb"), "title: \"a\\nb\" holds a control character: one line of text".to_owned()),
        ("title", json!(null), "title: null is not text: one line of text".to_owned()),
        ("why", json!("\u{1b}[2J"), "why: \"\\u001b[2J\" holds a control character: text".to_owned()),
        ("why", json!(["x"]), "why: [\"x\"] is not text: text".to_owned()),
        ("initial_workers", json!(0), "initial_workers: 0 is out of range: a whole number from 1 to 64".to_owned()),
        ("initial_workers", json!(65), "initial_workers: 65 is out of range: a whole number from 1 to 64".to_owned()),
        ("initial_workers", json!(-1), "initial_workers: -1 is out of range: a whole number from 1 to 64".to_owned()),
        ("slots_per_worker", json!(4.5), "slots_per_worker: 4.5 is not a whole number: a whole number from 1 to 64".to_owned()),
        ("slots_per_worker", json!("4"), "slots_per_worker: \"4\" is not a number: a whole number from 1 to 64".to_owned()),
        ("slots_per_worker", json!(null), "slots_per_worker: null is not a number: a whole number from 1 to 64".to_owned()),
        ("slots_per_worker", json!(true), "slots_per_worker: true is not a number: a whole number from 1 to 64".to_owned()),
        ("slots_per_worker", json!(1e300), "slots_per_worker: 1e+300 is out of range: a whole number from 1 to 64".to_owned()),
        ("startup_s", json!(0), format!("startup_s: 0 is out of range: 0.1 to 30 s {times}")),
        ("startup_s", json!(30.1), format!("startup_s: 30.1 is out of range: 0.1 to 30 s {times}")),
        ("startup_s", json!(4.05), format!("startup_s: 4.05 is off the 0.1 s grid: 0.1 to 30 s {times}")),
        ("request_interval_s", json!(40.1), format!("request_interval_s: 40.1 is out of range: 0.1 to 40 s {times}")),
        ("invocation_s", json!(0.25), format!("invocation_s: 0.25 is off the 0.1 s grid: 0.1 to 60 s {times}")),
        ("invocation_s", json!(0.1 + 0.2), format!("invocation_s: 0.30000000000000004 is off the 0.1 s grid: 0.1 to 60 s {times}")),
        ("signal_at_s", json!(0.9), format!("signal_at_s: 0.9 is out of range: 1 to 40 s {times}")),
        ("signal_at_s", json!("30"), format!("signal_at_s: \"30\" is not a number: 1 to 40 s {times}")),
        ("grace_period_s", json!(25), format!("grace_period_s: 25 is out of range: 0 to 20 s {times}")),
        ("grace_period_s", json!(-0.1), format!("grace_period_s: -0.1 is out of range: 0 to 20 s {times}")),
        ("grace_period_s", json!(20.01), format!("grace_period_s: 20.01 is out of range: 0 to 20 s {times}")),
        ("fail_worker_1", json!("true"), "fail_worker_1: \"true\" is not a truth value: true or false".to_owned()),
        ("pid_namespace", json!(1), "pid_namespace: 1 is not a truth value: true or false".to_owned()),
        ("on_sigterm", json!("Drain"), "on_sigterm: \"Drain\" is unknown: \"drain\", \"default\" or \"ignore\"".to_owned()),
        ("handler_installed", json!(false), "handler_installed: false is not text: \"at_start\" or \"after_boot\"".to_owned()),
        ("rejection_allowance_percent", json!(101), "rejection_allowance_percent: 101 is out of range: a whole number from 0 to 100 %".to_owned()),
        ("rejection_allowance_percent", json!(12.5), "rejection_allowance_percent: 12.5 is not a whole number: a whole number from 0 to 100 %".to_owned()),
        ("entrypoint", json!(["init"]), "entrypoint: [\"init\"] can't be used: a list must name {worker} exactly once, this one does 0 times".to_owned()),
        ("entrypoint", json!(["{worker}", "{worker}"]), "entrypoint: [\"{worker}\",\"{worker}\"] can't be used: a list must name {worker} exactly once, this one does 2 times".to_owned()),
        ("entrypoint", json!([]), "entrypoint: [] can't be used: a list must start with a program".to_owned()),
        ("entrypoint", json!(["", "{worker}"]), "entrypoint: [\"\",\"{worker}\"] can't be used: a list must start with a program".to_owned()),
        ("entrypoint", json!(["a\0", "{worker}"]), "entrypoint: [\"a\\u0000\",\"{worker}\"] can't be used: a word of a list can't hold a NUL byte".to_owned()),
    ];
    for (field, value, message) in rows {
        assert_eq!(error(with(field, value)), message);
    }
    for (value, start) in [
        (json!("shel"), "entrypoint: \"shel\" is unknown: \"exec\", \"shell\", "),
        (json!(["init", 1, "{worker}"]), "entrypoint: [\"init\",1,\"{worker}\"] is not a list of words: "),
        (json!({}), "entrypoint: {} is not a name or a list of words: "),
        (json!(null), "entrypoint: null is not a name or a list of words: "),
    ] {
        let message = error(with("entrypoint", value));
        assert!(message.starts_with(start), "{message}");
        assert!(message.ends_with("or a list of words that holds {worker} once"), "{message}");
    }
}

#[test]
fn names_are_kebab_case() {
    for good in ["a", "a-b", "a1-2b", "7"] {
        assert!(Scenario::from_value(json!({"name": good, "title": "t"})).is_ok(), "{good}");
    }
    for bad in ["-a", "a-", "a--b", "a_b", "a b", "A", "ä", "../x", "a\n"] {
        assert!(Scenario::from_value(json!({"name": bad, "title": "t"})).is_err(), "{bad}");
    }
}

#[test]
fn every_problem_is_named_at_once() {
    let text = r#"{"name": "n", "slots": 4, "grace_period_s": 25, "colour": "red", "startup_s": 1, "startup_s": 2}"#;
    let lines = [
        "slots: there is no such field, given as 4; did you mean slots_per_worker?",
        "grace_period_s: 25 is out of range: 0 to 20 s in steps of 0.1",
        "colour: there is no such field, given as \"red\"",
        "startup_s: given more than once, last as 2",
        "title: missing: one line of text",
        THE_FIELDS,
    ];
    assert_eq!(Scenario::parse(text).unwrap_err().to_string(), lines.join("\n"));
}

#[test]
fn an_effect_is_expected_of_a_list_only() {
    let list = json!(["init", "{worker}"]);
    let scenario = |entrypoint: &Value, effect: Value| {
        let mut scenario = with("entrypoint", entrypoint.clone());
        scenario["expected_effect"] = effect;
        scenario
    };
    let parsed = Scenario::from_value(scenario(&list, json!("terminated"))).unwrap();
    assert_eq!(parsed.expected_effect, Some(Effect::Terminated));
    assert_eq!(Scenario::from_value(scenario(&list, json!(null))).unwrap().expected_effect, None);
    assert!(Scenario::from_value(scenario(&json!("exec"), json!(null))).is_ok());
    let message = error(scenario(&json!("exec"), json!("ignored")));
    assert_eq!(message, "expected_effect: \"ignored\" can't be used: it is only for an entrypoint that is a list");
    let message = error(scenario(&list, json!("killed")));
    assert!(message.starts_with("expected_effect: \"killed\" is unknown: \"drained\", "), "{message}");
}

#[test]
fn what_is_no_object_is_told_apart() {
    for (text, message) in [
        ("", "the scenario is empty: it must be a JSON object"),
        (" \n", "the scenario is empty: it must be a JSON object"),
        ("[1]", "the scenario must be a JSON object: [1] is none"),
        ("3", "the scenario must be a JSON object: 3 is none"),
        ("null", "the scenario must be a JSON object: null is none"),
        ("{", "the scenario is not JSON: EOF while parsing an object at line 1 column 1"),
        ("ELF\u{0}", "the scenario is not JSON: expected value at line 1 column 1"),
        ("{} {}", "the scenario is not JSON: trailing characters at line 1 column 4"),
        ("[1] 2", "the scenario is not JSON: trailing characters at line 1 column 5"),
        ("{\"startup_s\": 1e999}", "the scenario is not JSON: number out of range at line 1 column 19"),
    ] {
        assert_eq!(Scenario::parse(text).unwrap_err().to_string(), message, "{text:?}");
    }
    let deep = "{\"why\":".repeat(100_000);
    assert!(Scenario::parse(&deep).is_err());
    let binary = Scenario::from_bytes(b"{\"name\": \"\xff\"}").unwrap_err();
    assert_eq!(binary.to_string(), "the scenario is not text: the byte at offset 10 is not UTF-8");
    let long = vec![b' '; MAX_BYTES + 1];
    let message = "the scenario is 1048577 bytes long: at most 1048576 are allowed";
    assert_eq!(Scenario::from_bytes(&long).unwrap_err().to_string(), message);
    assert_eq!(Scenario::parse(&" ".repeat(MAX_BYTES + 1)).unwrap_err().to_string(), message);
}

#[test]
fn an_error_stays_short_whatever_was_given() {
    let mut scenario = minimal();
    for number in 0..500 {
        scenario[format!("unknown\u{1b}{number}{}", "x".repeat(900))] = json!("y".repeat(900));
    }
    scenario["on_sigterm"] = json!("z".repeat(100_000));
    let message = error(scenario);
    assert!(message.len() < 4_000 && !message.contains('\u{1b}'), "{message}");
    assert!(message.ends_with(&format!("and 481 more problems\n{THE_FIELDS}")), "{message}");
}

#[test]
fn settings_change_what_they_name() {
    let base = Scenario::new("n", "t");
    let settings = [
        "on_sigterm=drain",
        "signal_at_s=40",
        "signal_at_s=20.5",
        "initial_workers=2.0",
        "expected_effect=drained",
        r#"entrypoint=["tini","--","{worker}"]"#,
        "boot_replacement=true",
        "title=7",
        "why=a=b",
        "name=\"quoted\"",
    ];
    let entrypoint = Entrypoint::Custom(["tini", "--", "{worker}"].map(str::to_owned).to_vec());
    let expected = Scenario {
        on_sigterm: OnSigterm::Drain,
        signal_at_s: Span(205),
        initial_workers: 2,
        expected_effect: Some(Effect::Drained),
        entrypoint,
        boot_replacement: true,
        title: "7".to_owned(),
        why: Some("a=b".to_owned()),
        name: "quoted".to_owned(),
        ..base.clone()
    };
    assert_eq!(base.with_settings(settings).unwrap(), expected);
    let back = expected.with_settings(["entrypoint=exec", "expected_effect=null", "why=null"]).unwrap();
    assert_eq!((back.entrypoint, back.expected_effect, back.why), (Entrypoint::Exec, None, None));
    assert_eq!(base.with_settings([]).unwrap(), base);
}

#[test]
fn bad_settings_are_named_and_change_nothing() {
    let mut scenario = Scenario::new("n", "t");
    for (setting, message) in [
        ("grace_period_s=25", "grace_period_s: 25 is out of range: 0 to 20 s in steps of 0.1"),
        ("grace_period_s=soon", "grace_period_s: \"soon\" is not a number: 0 to 20 s in steps of 0.1"),
        ("grace_period_s=", "grace_period_s: \"\" is not a number: 0 to 20 s in steps of 0.1"),
        ("grace_period_s", "grace_period_s: a setting is written FIELD=VALUE"),
        ("=5", "=5: a setting is written FIELD=VALUE"),
        ("on_sigterm=true", "on_sigterm: \"true\" is unknown: \"drain\", \"default\" or \"ignore\""),
        ("pid_namespace=yes", "pid_namespace: \"yes\" is not a truth value: true or false"),
        (
            "expected_effect=drained",
            "expected_effect: \"drained\" can't be used: it is only for an entrypoint that is a list",
        ),
        ("title=", "title: \"\" is empty: one line of text"),
    ] {
        assert_eq!(scenario.set(setting).unwrap_err().to_string(), message);
        assert_eq!(scenario, Scenario::new("n", "t"));
    }
    let unknown = scenario.set("grace-period=5").unwrap_err().to_string();
    let what = "grace-period: there is no such field, given as 5; did you mean grace_period_s?";
    assert_eq!(unknown, format!("{what}; {THE_FIELDS}"));
    let both = scenario.with_settings(["slots_per_worker=0", "x=1", "startup_s=3"]).unwrap_err();
    assert_eq!(both.problems.len(), 2);
}
