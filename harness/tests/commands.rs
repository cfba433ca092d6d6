//! The commands that start no drill, as a person or a script meets them: output, errors and exit statuses.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io,
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, SystemTime},
};

use harness::{
    record::{Record, Verdict},
    runs::Home,
};
use scenarios::{Host, ShellBehaviour, catalogue, expect};
use serde_json::Value;
use tempfile::TempDir;

/// The program with an environment in which nothing of the caller's shows.
fn termdrill(state: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_termdrill"));
    command.args(arguments).env_clear().stdin(Stdio::null());
    command.env("XDG_STATE_HOME", state).env("LC_ALL", "C.UTF-8").env("COLUMNS", "80");
    command
}

#[expect(clippy::disallowed_methods, reason = "the program under test, which starts no drill here")]
fn output(command: &mut Command) -> Output {
    command.output().unwrap()
}

/// Exit status, standard output, standard error.
fn run(command: &mut Command) -> (i32, String, String) {
    let output = output(command);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn plain(arguments: &[&str]) -> (i32, String, String) {
    let state = tempfile::tempdir().unwrap();
    run(&mut termdrill(state.path(), arguments))
}

#[test]
fn what_there_is_can_be_listed_and_shown() {
    let (code, list, errors) = plain(&["list"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    let (_, json, _) = plain(&["list", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json.as_array().unwrap().len(), catalogue::all().len());
    for scenario in catalogue::all() {
        assert!(list.contains(&scenario.name), "{}", scenario.name);
    }
    let (code, shown, _) = plain(&["show", "handler-grace-10"]);
    assert_eq!(code, 0);
    assert!(shown.contains("grace_period_s") && shown.contains("(default)"), "{shown}");
    let (code, json, _) = plain(&["show", "handler-grace-10", "--json"]);
    assert_eq!(code, 0);
    assert_eq!(scenarios::Scenario::parse(&json).unwrap(), *catalogue::get("handler-grace-10").unwrap());
}

#[test]
fn the_model_takes_names_files_and_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.json");
    fs::write(&path, r#"{"name": "mine", "title": "Mine", "grace_period_s": 19}"#).unwrap();
    let outcome = |command: &mut Command| {
        let (code, json, errors) = run(command);
        assert_eq!((code, errors.as_str()), (0, ""));
        let document: Value = serde_json::from_str(&json).unwrap();
        document["outcome"].clone()
    };
    let from_file = outcome(&mut termdrill(folder.path(), ["model", path.to_str().unwrap(), "--json"]));
    let from_stdin =
        outcome(termdrill(folder.path(), ["model", "-", "--json"]).stdin(Stdio::from(File::open(&path).unwrap())));
    let from_name =
        outcome(&mut termdrill(folder.path(), ["model", "ignored-signal", "--set", "grace_period_s=19", "--json"]));
    assert_eq!(from_file, from_stdin);
    assert_eq!(from_file, from_name);
    assert_eq!(from_file["killed"], serde_json::json!(["request-16"]));
}

#[test]
fn what_a_shell_does_can_be_said() {
    let effect = |shell: &str| {
        let (code, text, _) = plain(&["model", "shell-form", "--shell", shell]);
        assert_eq!(code, 0);
        text
    };
    assert!(effect("stays").contains("goes on as if nothing was sent"));
    assert!(effect("becomes-worker").contains("withdraws its readiness"));
}

#[test]
fn bad_input_is_one_clear_error_and_status_2() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    File::create(path("big.json")).unwrap().set_len(100 << 20).unwrap();
    fs::write(path("empty.json"), "").unwrap();
    fs::write(path("binary.json"), [0xff, 0, 0x1b, 0xc3]).unwrap();
    let rows: [(&[&str], &[&str]); 15] = [
        (&["model", "ignored-signl"], &["there is no scenario \"ignored-signl\"", "did you mean ignored-signal?"]),
        (&["run", "ignored-signl"], &["there is no scenario", "did you mean ignored-signal?"]),
        (&["show", "nothing-like-it"], &["there is no scenario", "termdrill list"]),
        (&["model", &path("missing.json")], &["missing.json: no such file or directory", "hint: "]),
        (&["model", &path("")], &["it is a directory"]),
        (&["run", &path("big.json")], &["longer than a scenario can be (1024 KiB)"]),
        (&["model", &path("empty.json")], &["empty"]),
        (&["model", &path("binary.json")], &["not UTF-8"]),
        (&["model", "ignored-signal", "--set", "grace_period_s=25"], &["grace_period_s: 25 ", "0 to 20 s"]),
        (&["run", "ignored-signal", "--set", "slots=2"], &["slots", "slots_per_worker"]),
        (&["run", "ignored-signal", "--speed", "1000"], &["a speed is a number from 0.1 to 200"]),
        (&["check", "--grace", "-1", "--", "server"], &["'-1' for '--grace", "a time from 0 to a day with its unit"]),
        (&["check", "--signal-at", "-1s", "--", "server"], &["'-1s' for '--signal-at"]),
        (&["replay", "latest"], &["no run is stored yet", "termdrill run ignored-signal"]),
        (&["replay", "20"], &["there is no run \"20\"", "termdrill runs"]),
    ];
    for (arguments, parts) in rows {
        let (code, out, error) = plain(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {error}");
        assert!(error.starts_with("error: "), "{error}");
        assert_eq!(error.matches("error: ").count(), 1, "{error}");
        assert!(!error.contains('\u{1b}') && !error.contains("panicked"), "{error}");
        for part in parts {
            assert!(error.contains(part), "{arguments:?} does not say {part:?}: {error}");
        }
    }
}

#[test]
fn a_disk_that_is_full_is_told_and_a_reader_that_leaves_is_not() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["list"][..],
        &["model", "ignored-signal", "--json"],
        &["completions", "bash"],
        &["--version"],
        &["run", "--help"],
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (code, _, error) = run(termdrill(folder.path(), arguments).stdout(full));
        assert_eq!(code, 3, "{error}");
        assert_eq!(error, "error: can't write to standard output: no space left on device\n");

        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let (code, _, error) = run(termdrill(folder.path(), arguments).stdout(writer));
        assert_eq!((code, error.as_str()), (0, ""));
    }
}

#[test]
fn colours_are_for_terminals_unless_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let coloured = |arguments: &[&str], variables: &[(&str, &str)]| {
        let (code, text, _) = run(termdrill(folder.path(), arguments).envs(variables.iter().copied()));
        assert_eq!(code, 0);
        text.contains('\u{1b}')
    };
    assert!(!coloured(&["list"], &[]));
    assert!(coloured(&["list"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&["list"], &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]));
    assert!(coloured(&["list", "--color", "always"], &[]));
    assert!(!coloured(&["list", "--color", "never"], &[("CLICOLOR_FORCE", "1")]));
}

#[test]
fn ascii_is_used_where_it_must_be() {
    let folder = tempfile::tempdir().unwrap();
    let text = |arguments: &[&str], locale: &str| run(termdrill(folder.path(), arguments).env("LC_ALL", locale)).1;
    assert!(!text(&["model", "ignored-signal"], "C.UTF-8").is_ascii());
    assert!(text(&["model", "ignored-signal"], "C").is_ascii());
    assert!(text(&["model", "ignored-signal", "--ascii"], "C.UTF-8").is_ascii());
}

/// A stored run with this verdict, or one that broke off.
fn stored(state: &TempDir, verdict: Option<Verdict>, second: u64) {
    let variable = |name: &str| (name == "XDG_STATE_HOME").then(|| state.path().as_os_str().to_owned());
    let home = Home::from_env(variable).unwrap();
    let scenario = catalogue::get("ignored-signal").unwrap().clone();
    let run = home.create(&scenario, SystemTime::UNIX_EPOCH + Duration::from_secs(second)).unwrap();
    let expected = expect(&scenario, &Host { shell: ShellBehaviour::Stays, custom: None });
    run.write_expected(&expected).unwrap();
    if let Some(verdict) = verdict {
        let reasons = vec!["A reason.".to_owned()];
        run.finish(&Record { scenario, expected, attempts: Vec::new(), verdict, reasons }).unwrap();
    }
}

#[test]
fn stored_runs_are_listed_and_replayed_with_their_verdict() {
    let state = tempfile::tempdir().unwrap();
    let command = |arguments: &[&str]| run(&mut termdrill(state.path(), arguments));
    assert!(command(&["runs"]).1.contains("No run is stored yet"));
    assert_eq!(command(&["runs", "--json"]).1, "[]\n");
    let verdicts =
        [(Some(Verdict::Matched), 0), (Some(Verdict::Diverged), 1), (Some(Verdict::Inconclusive), 3), (None, 3)];
    for (second, (verdict, status)) in (0..).zip(verdicts) {
        stored(&state, verdict, second);
        let (code, text, error) = command(&["replay", "latest"]);
        assert_eq!((code, error.as_str()), (status, ""), "{text}");
        let name = verdict.map_or("broke off", |_| "A reason.");
        assert!(text.contains(name), "{text}");
        let (code, json, _) = command(&["replay", &format!("19700101-00000{second}"), "--json"]);
        assert_eq!(code, status);
        let document: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(document["scenario"]["name"], "ignored-signal");
        assert_eq!(document["observed"], Value::Null);
        assert!(document["run"].as_str().unwrap().ends_with(&format!("19700101-00000{second}-ignored-signal")));
    }
    let (_, json, _) = command(&["runs", "--json"]);
    let runs: Value = serde_json::from_str(&json).unwrap();
    let states: Vec<&str> = runs.as_array().unwrap().iter().map(|run| run["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["unfinished", "inconclusive", "diverged", "matched"]);
    assert!(command(&["replay", "1970"]).2.contains("beginning of 4 runs"));
}

#[test]
fn without_a_home_there_is_no_place_for_runs() {
    let (code, _, error) = run(termdrill(Path::new("relative"), ["runs"]).env_remove("HOME"));
    assert_eq!(code, 2);
    assert!(error.contains("neither XDG_STATE_HOME nor HOME is set") && error.contains("--out DIR"), "{error}");
}

#[test]
fn every_shell_gets_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, script, _) = plain(&["completions", shell]);
        assert_eq!(code, 0);
        assert!(script.contains("termdrill"), "{shell}");
    }
}
