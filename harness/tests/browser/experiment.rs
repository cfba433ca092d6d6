//! The experiment: every control changes what is expected as the model says, and what is wrong is said beside it.

use scenarios::{FIELDS, Scenario, catalogue, fields::Kind};

use crate::{
    expected::{self, scenario},
    page::Page,
    time::sample,
};

/// The settings to begin with and the values to try for every field, each of which is to make a difference.
const EDITS: &[(&str, &[&str], &[&str])] = &[
    ("name", &[], &["another"]),
    ("title", &[], &["Another title"]),
    ("why", &[], &["It shows something else."]),
    ("initial_workers", &[], &["3", "12"]),
    ("slots_per_worker", &[], &["2", "16"]),
    ("startup_s", &[], &["7.5"]),
    ("fail_worker_1", &[], &["true"]),
    ("request_interval_s", &[], &["0.7"]),
    ("invocation_s", &[], &["3.3"]),
    ("ready_only_routing", &[], &["false"]),
    ("signal_at_s", &[], &["20.2"]),
    ("grace_period_s", &[], &["0", "19.9"]),
    ("on_sigterm", &["pid_namespace=false"], &["ignore", "drain", "default"]),
    ("handler_installed", &["on_sigterm=drain", "signal_at_s=2"], &["after_boot"]),
    ("entrypoint", &["on_sigterm=drain"], &["script", "shell_exec", "shell", "script_trap", "exec", "script_exec"]),
    (
        "expected_effect",
        &["entrypoint=[\"tini\",\"--\",\"{worker}\"]", "expected_effect=drained"],
        &["ignored", "orphaned", "terminated"],
    ),
    ("pid_namespace", &[], &["false"]),
    ("boot_replacement", &[], &["true"]),
    ("rejection_allowance_percent", &[], &["70"]),
];

#[test]
fn every_control_changes_what_is_expected_as_the_model_says() {
    let Some(page) = Page::open("name=my-experiment") else { return };
    for field in &FIELDS {
        let edits = EDITS.iter().find(|(name, ..)| *name == field.name);
        let (name, settings, values) = edits.unwrap_or_else(|| panic!("no value is tried for {}", field.name));
        let mut scenario = scenario(settings);
        page.visit(&format!("name=my-experiment&{}", settings.join("&")));
        page.wait_shown(name, &expected::shown(&scenario, 0));
        let mut before = expected::shown(&scenario, 600);
        let mut differed = false;
        for value in *values {
            scenario.set(&format!("{name}={value}")).unwrap();
            let at_the_end = expected::shown(&scenario, 600);
            differed |= at_the_end != before;
            page.edit(field, value);
            let usual = field.default_value().is_some_and(|default| text(&default) == **value);
            page.until("the address", (!usual).then(|| (*value).to_owned()), || page.address(name));
            // The new trace begins at 0 s, and everything of it is to be seen at its end.
            page.wait_shown(&format!("{name}={value}"), &expected::shown(&scenario, 0));
            page.press_outside(&[crate::webdriver::key::END]);
            page.wait_shown(&format!("{name}={value} at the end"), &at_the_end);
            before = at_the_end;
        }
        assert!(differed || *name == "name", "no value of {name} makes a difference");
    }
}

fn text(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[test]
fn an_entrypoint_can_be_a_list_of_words() {
    let Some(page) = Page::open("name=my-experiment&on_sigterm=drain") else { return };
    // Until its effect is said the server refuses the list, and the browser writes that down.
    page.allow("400 (Bad Request)");
    let list = r#"["tini","--","{worker}"]"#;
    page.edit(scenarios::Field::named("entrypoint").unwrap(), list);
    page.until_it("the effect", || page.problem("expected_effect"), |said| !said.is_empty(), String::new);
    page.edit(scenarios::Field::named("expected_effect").unwrap(), "drained");
    page.until("no problem", String::new(), || page.problem("expected_effect"));
    let list = format!("entrypoint={list}");
    page.wait_shown("list", &expected::shown(&scenario(&["on_sigterm=drain", &list, "expected_effect=drained"]), 0));
}

#[test]
fn what_is_not_allowed_is_said_beside_the_control_and_the_last_good_trace_stays() {
    let Some(page) = Page::open("name=my-experiment&at=31") else { return };
    page.allow("400 (Bad Request)");
    let good = expected::shown(&scenario(&[]), 310);
    page.wait_shown("the beginning", &good);
    for field in &FIELDS {
        let (wrong, said): (Vec<String>, &str) = match field.kind {
            Kind::Whole { max, .. } => {
                (vec![(u32::from(max) + 1).to_string(), "1.5".into(), String::new()], "a whole number")
            }
            Kind::Seconds { max, .. } => {
                (vec![(max.as_seconds() + 0.1).to_string(), "3.14".into(), String::new()], "in steps of 0.1")
            }
            Kind::Name(_) => (vec!["Not A Name".into(), String::new()], "joined by single hyphens"),
            Kind::Line(_) => (vec![String::new()], "one line of text"),
            // Any text is right, and the others offer what is right only.
            Kind::Text(_) | Kind::Flag(_) | Kind::Choice { .. } | Kind::Effect | Kind::Entrypoint => continue,
        };
        let usual = match field.name {
            "name" => expected::NAME.to_owned(),
            "title" => scenario(&[]).title,
            _ => text(&field.default_value().unwrap()),
        };
        for wrong in wrong {
            page.unfold(field.name);
            page.paste_into(&format!("#field-{}", field.name), &wrong);
            let what = format!("{} = {wrong:?}", field.name);
            page.until_it(
                &what,
                || page.problem(field.name),
                |problem| problem.contains(said),
                || format!(", wanted {said:?}"),
            );
            assert!(
                page.is(&format!("document.getElementById('field-{}').ariaInvalid === 'true'", field.name)),
                "{what}"
            );
            assert_eq!(page.shown(), good, "{what}");
            page.paste_into(&format!("#field-{}", field.name), &usual);
            page.until(&what, String::new(), || page.problem(field.name));
            // The address is written when edits pause, and the time is not in it any more.
            page.until("the address", None, || page.address("at"));
            page.visit("name=my-experiment&at=31");
            page.wait_shown(&what, &good);
        }
    }
    // A list is right or wrong only with an effect beside it.
    let list = [r#"entrypoint=["tini","--","{worker}"]"#, "expected_effect=drained"];
    page.visit(&format!("name=my-experiment&{}", list.join("&")));
    let good = expected::shown(&scenario(&list), 0);
    page.wait_shown("a list", &good);
    for (wrong, said) in [(r#"["true"]"#, "{worker}"), ("tini -- {worker}", "JSON list")] {
        page.paste_into("#field-entrypoint-list", wrong);
        let problem = || page.problem("entrypoint");
        page.until_it(wrong, problem, |problem| problem.contains(said), || format!(", wanted {said:?}"));
        assert_eq!(page.shown(), good);
    }
}

#[test]
fn presets_opening_settings_and_common_baseline() {
    let Some(page) = Page::open("") else { return };
    let opening = catalogue::get("ignored-signal").unwrap();
    page.wait_shown("the opening settings", &expected::shown(opening, 0));
    assert_eq!(page.count("#preset option"), 1 + u64::try_from(catalogue::all().len()).unwrap());
    let is_told = |preset: &Scenario| {
        preset.expected_effect.is_some() || !matches!(preset.entrypoint, scenarios::Entrypoint::Custom(_))
    };
    for preset in catalogue::all().iter().filter(|preset| is_told(preset)).skip(1).step_by(5) {
        page.pick("#preset", &preset.name);
        page.wait_shown(&preset.name, &expected::shown(preset, 0));
        page.until("its name", Some(preset.name.clone()), || page.address("name"));
    }
    for (button, name) in [("#common-baseline", "baseline"), ("#opening-settings", "ignored-signal")] {
        page.click(button);
        page.wait_shown(name, &expected::shown(catalogue::get(name).unwrap(), 0));
        page.until("the preset in the list", name.to_owned(), || {
            page.value("document.getElementById('preset').value").as_str().unwrap().to_owned()
        });
    }
}

#[test]
fn a_preset_that_is_changed_is_no_longer_that_preset() {
    let Some(page) = Page::open("") else { return };
    let grace = scenarios::Field::named("grace_period_s").unwrap();
    page.edit(grace, "12");
    let mut changed = scenario(&["grace_period_s=12"]);
    changed.title = "My experiment, from ignored-signal".to_owned();
    page.wait_shown("changed", &expected::shown(&changed, 0));
    page.until("the preset in the list", true, || page.is("document.getElementById('preset').value === ''"));
    page.edit(grace, "10");
    page.wait_shown("changed back", &expected::shown(catalogue::get("ignored-signal").unwrap(), 0));
}

#[test]
fn the_experiment_is_in_the_address_and_outlives_a_reload() {
    let Some(page) = Page::open("") else { return };
    page.edit(scenarios::Field::named("grace_period_s").unwrap(), "18.5");
    page.until("the address", Some("18.5".to_owned()), || page.address("grace_period_s"));
    page.edit(scenarios::Field::named("on_sigterm").unwrap(), "drain");
    page.until("the address", Some("drain".to_owned()), || page.address("on_sigterm"));
    let shown = page.shown();
    page.reload();
    page.wait_drawn();
    page.wait_shown("after a reload", &shown);
    assert!(page.is("document.getElementById('field-grace_period_s').value === '18.5'"));
    // One that is as usual in everything is not taken for the opening settings, which are called otherwise.
    page.visit("name=my-experiment&grace_period_s=9");
    page.wait_shown("another", &expected::shown(&scenario(&["grace_period_s=9"]), 0));
    page.edit(scenarios::Field::named("grace_period_s").unwrap(), "10");
    page.until("the address", None, || page.address("grace_period_s"));
    page.reload();
    page.wait_drawn();
    page.wait_shown("as usual", &expected::shown(&scenario(&[]), 0));
}

#[test]
fn what_an_address_holds_that_is_no_experiment_is_told() {
    let Some(page) = Page::open("") else { return };
    for (address, field, said) in [
        ("nonsense=1", None, "\"nonsense\""),
        ("grace=5&name=my-experiment", None, "\"grace\""),
        ("pid_namespace=maybe", Some("pid_namespace"), "true or false"),
        ("on_sigterm=stop", Some("on_sigterm"), "\"stop\""),
        ("expected_effect=nothing", Some("expected_effect"), "\"nothing\""),
        ("entrypoint=tini", Some("entrypoint"), "\"tini\""),
        ("initial_workers=many&grace_period_s=5", Some("initial_workers"), "\"many\""),
    ] {
        page.visit(address);
        let problem = || field.map_or_else(|| page.text("#experiment-problem"), |field| page.problem(field));
        page.until_it(address, problem, |text| text.contains(said), String::new);
        page.click("#run-start");
        assert!(page.text("#run-problem").contains("correct it first"), "{address}: it is run");
        page.edit(scenarios::Field::named("grace_period_s").unwrap(), "7");
        page.until("corrected", 0, || page.count(".problem:not([hidden])"));
    }
}

#[test]
fn an_address_with_a_time_can_be_loaded_again() {
    let Some(page) = Page::open("name=ignored-signal&at=31") else { return };
    for _ in 0..2 {
        page.wait_tick("the time of the address", 310);
        // The address is written after a pause.
        sample(&page, 15);
        page.reload();
        page.wait_drawn();
    }
    assert_eq!(page.address("at"), Some("31".to_owned()));
}

#[test]
fn the_back_button_leads_to_the_experiment_before() {
    let Some(page) = Page::open("name=my-experiment") else { return };
    let (grace, own) = (scenarios::Field::named("grace_period_s").unwrap(), scenario(&["grace_period_s=6"]));
    page.edit(grace, "5");
    page.edit(grace, "6");
    page.pick("#preset", "baseline");
    let baseline = expected::shown(catalogue::get("baseline").unwrap(), 0);
    page.wait_shown("a preset", &baseline);
    page.choose("#run-clock", "stepped");
    page.click("#run-start");
    page.until("the verdict", "verdict: MATCHED".to_owned(), || page.text("#verdict"));
    page.until("it is listed", 1, || page.count("#runs tbody tr td:nth-child(2) [data-verdict=matched]"));
    page.click("#runs tbody button");
    page.until_it("its address", || page.address("run"), Option::is_some, String::new);
    page.execute("history.back();", &[]);
    page.until("the preset again", (None, "not run".to_owned()), || (page.address("run"), page.text("#verdict")));
    page.wait_shown("the preset again", &baseline);
    page.execute("history.back();", &[]);
    page.wait_shown("the experiment with its last edit", &expected::shown(&own, 0));
    page.execute("history.forward();", &[]);
    page.wait_shown("the preset", &baseline);
}

/// The next question of what should happen is never answered; those after it are.
const HOLD_BACK: &str = r"
const real = window.fetch;
window.held = 0;
window.fetch = (url, ...rest) => {
  if (!String(url).includes('/api/model') || window.held > 0) return real(url, ...rest);
  window.held += 1;
  return new Promise(() => {});
};";

#[test]
fn an_edit_that_the_server_has_not_answered_can_be_gone_back_to() {
    let Some(page) = Page::open("name=my-experiment") else { return };
    let (grace, preset) = (scenarios::Field::named("grace_period_s").unwrap(), catalogue::get("baseline").unwrap());
    page.execute(HOLD_BACK, &[]);
    page.edit(grace, "6");
    page.until("it is asked for", true, || page.is("window.held === 1"));
    page.pick("#preset", "baseline");
    page.wait_shown("a preset", &expected::shown(preset, 0));
    page.execute("history.back();", &[]);
    page.wait_shown("the edit", &expected::shown(&scenario(&["grace_period_s=6"]), 0));
    page.execute("history.forward();", &[]);
    page.wait_shown("the preset", &expected::shown(preset, 0));
}

#[test]
fn two_tabs_do_not_disturb_each_other() {
    let Some(page) = Page::open("name=my-experiment&slots_per_worker=2") else { return };
    let (first, second) = (page.window(), page.open_tab());
    page.switch_to(&second);
    page.visit("name=my-experiment&slots_per_worker=9&at=20");
    page.wait_shown("the second", &expected::shown(&scenario(&["slots_per_worker=9"]), 200));
    page.edit(scenarios::Field::named("grace_period_s").unwrap(), "5");
    page.wait_shown("the second", &expected::shown(&scenario(&["slots_per_worker=9", "grace_period_s=5"]), 0));
    page.switch_to(&first);
    assert_eq!(page.shown(), expected::shown(&scenario(&["slots_per_worker=2"]), 0));
    page.edit(scenarios::Field::named("grace_period_s").unwrap(), "6");
    page.wait_shown("the first", &expected::shown(&scenario(&["slots_per_worker=2", "grace_period_s=6"]), 0));
    // A run of the one is not taken for one of the other.
    page.choose("#run-clock", "stepped");
    page.click("#run-start");
    page.until("the verdict", "verdict: MATCHED".to_owned(), || page.text("#verdict"));
    page.switch_to(&second);
    assert_eq!(page.text("#verdict"), "not run");
    assert_eq!(page.shown(), expected::shown(&scenario(&["slots_per_worker=9", "grace_period_s=5"]), 0));
}
