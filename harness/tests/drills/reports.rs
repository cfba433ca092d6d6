//! `--report`: files are there as a whole, say the same as the program, and what can't be written is found beforehand.

use std::fs;

use serde_json::Value;

use crate::support::{Rig, STEPPED, skipped};

const NAMES: [&str; 4] = ["run.html", "run.svg", "run.json", "run.junit.xml"];

/// The document in a page, which stands in an element of its own.
fn data(html: &str) -> Value {
    let data = html.split("id=\"report\">").nth(1).unwrap().split("</script>").next().unwrap();
    serde_json::from_str(data).unwrap()
}

fn needs_namespace(text: &str) -> bool {
    let missing = text.contains("The scenario needs a PID namespace");
    if missing {
        skipped("no PID namespace can be made here");
    }
    missing
}

#[test]
fn a_run_and_its_replay_are_reported_alike() {
    let rig = Rig::new();
    let read = |name: &str| fs::read_to_string(rig.path(name)).unwrap();
    // Runs with every report, into files with names that begin with `prefix`.
    let reported = |arguments: &[&str], prefix: &str| {
        let paths = NAMES.map(|name| rig.path(&format!("{prefix}{name}")).to_str().unwrap().to_owned());
        let reports = paths.iter().flat_map(|path| ["--report", path.as_str()]);
        rig.run(&arguments.iter().copied().chain(reports).collect::<Vec<_>>())
    };
    let ended = reported(&["run", "handler-grace-10", "--json", STEPPED[0], STEPPED[1]], "a-");
    if needs_namespace(&ended.stdout) {
        return;
    }
    ended.document().assert_matched("reported");
    assert_eq!(read("a-run.json"), ended.stdout, "the document of --json");
    assert_eq!(reported(&["replay", "latest"], "b-").code, Some(0));
    for name in NAMES {
        assert_eq!(read(&format!("a-{name}")), read(&format!("b-{name}")), "{name}");
    }

    let (html, svg, junit) = (read("a-run.html"), read("a-run.svg"), read("a-run.junit.xml"));
    assert!(svg.contains("role=\"img\"") && svg.contains("MATCHED"), "{svg}");
    assert!(junit.contains("tests=\"1\" failures=\"0\" errors=\"0\""), "{junit}");
    let data = data(&html);
    let name = data["runs"][0]["run"].as_str().unwrap();
    let document: Value = serde_json::from_str(&read("a-run.json")).unwrap();
    for side in ["expected", "observed"] {
        assert_eq!(data["documents"][name][side]["events"], document[side]["events"], "{side}");
        assert!(data["documents"][name][side]["view"]["lanes"].is_array());
    }
}

#[test]
fn what_can_not_be_reported_is_refused_before_anything_runs() {
    let rig = Rig::new();
    let missing = rig.path("missing/run.svg");
    let missing = missing.to_str().unwrap();
    for (arguments, what) in [
        (vec!["run", "ignored-signal", "--report", "run.png"], ".html, .svg, .json, .xml"),
        (vec!["run", "ignored-signal", "--report", missing], "its directory is not there"),
        (vec!["validate", "ignored-signal", "--report", "all.svg"], "no picture of a whole validation"),
        (vec!["replay", "latest", "--report", missing], "its directory is not there"),
    ] {
        rig.run(&arguments).assert_refused(2, what);
    }
    assert!(!rig.state().join("termdrill").exists(), "nothing was run");
}

#[test]
fn a_validation_is_reported_with_replays() {
    let rig = Rig::new();
    let path = |name: &str| rig.path(name).to_str().unwrap().to_owned();
    let (html, junit) = (path("all.html"), path("all.junit.xml"));
    let names = ["ignored-signal", "handler-grace-10", "no-handler-not-pid1", "shell-form-exec"];
    let mut arguments = vec!["validate"];
    arguments.extend(names);
    arguments.extend(STEPPED);
    arguments.extend(["--report", &html, "--report", &junit, "--json"]);
    let ended = rig.run(&arguments);
    if needs_namespace(&ended.stdout) {
        return;
    }
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let text = fs::read_to_string(html).unwrap();
    let data = data(&text);
    let of = |run: &Value| data["documents"][run["run"].as_str().unwrap()]["scenario"]["name"].clone();
    let kept: Vec<Value> = data["runs"].as_array().unwrap().iter().map(of).collect();
    assert_eq!(kept, names[..3], "the first three, in the order of the plan");
    for name in names {
        assert!(text.contains(name), "{name} is in the table");
    }
    assert!(fs::read_to_string(junit).unwrap().contains("tests=\"4\" failures=\"0\" errors=\"0\""));
}
