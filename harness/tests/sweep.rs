//! `termdrill sweep` as a person or a script meets it, and what it finds held against real processes.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The program with an environment in which nothing of the caller's shows.
fn termdrill(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_termdrill"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).env_clear();
    // The entrypoints that are tried are looked up there.
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("XDG_STATE_HOME", folder).env("LC_ALL", "C.UTF-8").env("COLUMNS", "80");
    command
}

/// Exit status, standard output, standard error.
fn run(folder: &TempDir, arguments: &[&str]) -> (i32, String, String) {
    #[expect(clippy::disallowed_methods, reason = "the program under test, which keeps its own processes together")]
    let Output { status, stdout, stderr } = termdrill(folder.path(), arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Whether drills that need PID 1 can't be tried here; says so.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn is_skipped(output: &str) -> bool {
    let skipped = output.contains("The scenario needs a PID namespace, and");
    if skipped {
        eprintln!("skipped: no PID namespace can be made here");
    }
    skipped
}

#[test]
fn a_grid_is_printed_written_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let vary = ["--vary", "grace_period_s=0..20", "--vary", "invocation_s=10,20"];
    let arguments =
        [&["sweep", "handler-grace-10"][..], &vary, &["--csv", "grid.csv", "--svg", "grid.svg", "--jobs", "2"]]
            .concat();
    let (code, table, error) = run(&folder, &arguments);
    assert_eq!((code, error.as_str()), (0, ""));
    assert!(table.contains("grace_period_s across, invocation_s down"), "{table}");
    let csv = fs::read_to_string(folder.path().join("grid.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 42);
    assert!(csv.contains("\n18,20,20,7,13,65.0,6,1,0,fail\n"), "{csv}");
    let svg = fs::read_to_string(folder.path().join("grid.svg")).unwrap();
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{svg}");

    let (code, printed, _) = run(&folder, &[&["sweep", "handler-grace-10"][..], &vary, &["--csv", "-"]].concat());
    assert_eq!((code, printed), (0, csv));
    let (code, document, _) = run(&folder, &[&["sweep", "handler-grace-10"][..], &vary, &["--json"]].concat());
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!((code, document["points"].as_array().unwrap().len(), &document["find"]), (0, 42, &Value::Null));
    // Three fields have no table, and a table has a limit.
    let three =
        [&["sweep", "baseline"][..], &vary, &["--vary", "slots_per_worker=1..4", "--csv", "three.csv"]].concat();
    let (code, text, _) = run(&folder, &three);
    assert!(code == 0 && text.starts_with("sweep     168 drills") && text.contains("three.csv"), "{text}");
    let (code, text, _) =
        run(&folder, &["sweep", "baseline", "--vary", "invocation_s=0.1..60/0.1", "--vary", "slots_per_worker=1..4"]);
    assert!(code == 0 && text.contains("too many for a table"), "{text}");
}

#[test]
fn what_can_not_be_swept_is_one_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let rows: [(&[&str], i32, &str); 12] = [
        (&["baseline"], 2, "--vary"),
        (&["baselin", "--find"], 2, "did you mean baseline?"),
        (&["baseline", "--vary", "grace_period_s=0..25"], 2, "grace_period_s: 25 is out of range: 0 to 20 s"),
        (&["baseline", "--vary", "grace=1"], 2, "did you mean grace_period_s?"),
        (&["baseline", "--vary", "slots_per_worker=1,2", "--jobs", "0"], 2, "1..=64"),
        (&["baseline", "--find", "--csv", "a.csv"], 2, "--vary"),
        (&["baseline", "--find", "--vary", "slots_per_worker=1,2", "--csv", "-"], 2, "give --csv and --svg a file"),
        (&["baseline", "--vary", "slots_per_worker=1,2", "--csv", "-", "--json"], 2, "only one of --json"),
        (&["baseline", "--vary", "slots_per_worker=1,2", "--svg", "no/where.svg"], 3, "can't write no/where.svg"),
        (&["baseline", "--vary", "entrypoint=[\"init\",\"{worker}\"]"], 2, "say it with expected_effect"),
        (
            &["baseline", "--vary", "slots_per_worker=1", "--vary", "startup_s=1", "--vary", "signal_at_s=1"],
            2,
            "a table shows one or two fields, and 3 are varied",
        ),
        (&["baseline", "--vary", "slots_per_worker=1,2", "--csv", "/dev/full"], 3, "no space left on device"),
    ];
    for (arguments, status, part) in rows {
        let (code, out, error) = run(&folder, &[&["sweep"], arguments].concat());
        assert_eq!((code, out.as_str()), (status, ""), "{arguments:?}: {error}");
        assert!(error.contains(part) && !error.contains("panicked"), "{arguments:?}: {error}");
    }
}

#[test]
fn the_shortest_grace_period_is_confirmed_with_real_processes() {
    let folder = tempfile::tempdir().unwrap();
    let (code, text, error) = run(&folder, &["sweep", "handler-grace-10", "--find"]);
    if is_skipped(&text) {
        return;
    }
    assert_eq!((code, error.as_str()), (0, ""), "{text}");
    for line in [
        "grace     19.0 s is the shortest with which handler-grace-10 loses nothing",
        "decided   by request-15: it commits at 49.0 s, and with 18.9 s it is killed",
        "drill     ✔ confirmed with real processes: with 19.0 s nothing is lost",
        "drill     ✔ confirmed with real processes: with 18.9 s request-15 is killed",
    ] {
        assert!(text.contains(line), "{line}\n\n{text}");
    }
    // Both drills are stored like any other.
    let (_, runs, _) = run(&folder, &["runs", "--json"]);
    let runs: Value = serde_json::from_str(&runs).unwrap();
    let states: Vec<&Value> = runs.as_array().unwrap().iter().map(|run| &run["state"]).collect();
    assert_eq!(states, ["matched", "matched"]);
}

#[test]
fn where_no_grace_period_helps_the_longest_is_drilled() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["sweep", "ignored-signal", "--find", "--json", "--vary", "grace_period_s=19,20"];
    let (code, text, error) = run(&folder, &arguments);
    if is_skipped(&text) {
        return;
    }
    assert_eq!((code, error.as_str()), (0, ""), "{text}");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["points"].as_array().unwrap().len(), 2);
    let find = &document["find"];
    assert_eq!((&find["grace_period_s"], &find["effect"]), (&Value::Null, &json!("ignored")));
    assert!(find["because"][0].as_str().unwrap().contains("it is PID 1 and has no handler"), "{find}");
    let confirmed = find["confirmed"].as_array().unwrap();
    assert_eq!(confirmed.len(), 1);
    assert_eq!((&confirmed[0]["grace_period_s"], &confirmed[0]["verdict"]), (&json!(20.0), &json!("matched")));
    assert_eq!(confirmed[0]["killed"], find["otherwise"]["killed"]);
}

/// What is said of an entrypoint and not so is found out by drilling, and without drilling it is not.
#[test]
fn an_answer_that_is_wrong_is_not_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let lie = ["sweep", "env-wrapper", "--set", "expected_effect=ignored", "--find"];
    let (code, text, error) = run(&folder, &[&lie[..], &["--no-confirm"]].concat());
    assert_eq!((code, error.as_str()), (0, ""), "{text}");
    assert!(!text.contains("drill     "), "{text}");
    let (code, text, error) = run(&folder, &lie);
    if is_skipped(&text) {
        return;
    }
    assert_eq!((code, error.as_str()), (1, ""), "{text}");
    assert!(text.contains("✘ DIVERGED with real processes"), "{text}");
}
