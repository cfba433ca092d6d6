//! The catalogue's drills against workers in other languages: Python, Node.js and Java, each a single file.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

/// Which drills are tried against every runtime: work that is drained, a signal that stops at a shell, one that a script
/// passes on, an orphan, SIG_IGN, a signal while it boots, and a worker that refuses.
const SAMPLE: [&str; 7] = [
    "short-work-with-handler",
    "shell-form",
    "script-with-trap",
    "orphaned-by-shell",
    "sig-ign-not-pid1",
    "signal-during-boot-handled",
    "unguarded-routing-draining",
];

/// Those that a virtual machine is tried with, since each of its workers takes a while to boot.
const FEW: [&str; 3] = ["short-work-with-handler", "shell-form", "sig-ign-not-pid1"];

/// And those of workers that do nothing about SIGTERM, which a JVM can't be by itself.
const NO_HANDLER: [&str; 2] = ["ignored-signal", "no-handler-not-pid1"];

/// Real seconds are what a drill takes, and a virtual machine needs some of them to boot.
const SPEED: &str = "5";
/// How many are drilled at once. All of them get their requests at the same time, and what a runtime runs for the first time
/// takes it long.
const JOBS: usize = 3;

#[expect(clippy::disallowed_methods, reason = "programs that end by themselves, and the program under test")]
fn output(mut command: Command) -> Option<Output> {
    command.stdin(Stdio::null()).output().ok()
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../worker/others").join(name)
}

/// A program that is there and runs, or nothing, said aloud.
fn found(program: &str, argument: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // The system's own before those that a version manager has put in front, which are slow scripts.
    let folders = ["/usr/bin", "/usr/local/bin"].map(PathBuf::from).into_iter().chain(std::env::split_paths(&path));
    let runs = |candidate: &PathBuf| {
        let mut command = Command::new(candidate);
        command.arg(argument);
        candidate.is_file() && output(command).is_some_and(|output| output.status.success())
    };
    let found = folders.map(|folder| folder.join(program)).find(runs);
    if found.is_none() {
        eprintln!("skipped: there is no {program} here");
    }
    found
}

/// The program with nothing of our environment but what it needs.
fn termdrill(home: &TempDir, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_termdrill"));
    command.args(arguments).current_dir(home.path()).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("XDG_STATE_HOME", home.path()).env("LC_ALL", "C.UTF-8").env("COLUMNS", "80");
    let Output { status, stdout, stderr } = output(command).unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// Drills `names` side by side and gives the results; nothing where no PID namespace can be had.
fn validated(home: &TempDir, names: &[&str], worker: &str, more: &[&str]) -> Option<Vec<Value>> {
    let jobs = names.len().min(JOBS).to_string();
    let options = ["--worker", worker, "--speed", SPEED, "--jobs", &jobs, "--json"];
    let (_, document, error) = termdrill(home, &[&["validate"][..], names, &options, more].concat());
    let document: Value = serde_json::from_str(&document).unwrap_or_else(|bad| panic!("{bad}: {document}{error}"));
    let results = document["results"].as_array().unwrap().clone();
    if results.iter().any(|result| result["reasons"].to_string().contains("needs a PID namespace")) {
        eprintln!("skipped: no PID namespace can be made here");
        return None;
    }
    Some(results)
}

fn all_match(home: &TempDir, names: &[&str], worker: &str) {
    let Some(results) = validated(home, names, worker, &[]) else { return };
    assert_eq!(results.len(), names.len());
    for result in results {
        assert_eq!(result["verdict"], "matched", "{worker}: {result}");
        assert_eq!(result["clock"], "scaled");
    }
}

#[test]
fn python() {
    let Some(python) = found("python3", "--version") else { return };
    let home = tempfile::tempdir().unwrap();
    let worker = format!("{} {}", python.display(), source("worker.py").display());
    all_match(&home, &[&SAMPLE[..], &NO_HANDLER].concat(), &worker);
}

#[test]
fn node() {
    let Some(node) = found("node", "--version") else { return };
    let home = tempfile::tempdir().unwrap();
    let worker = format!("{} {}", node.display(), source("worker.mjs").display());
    all_match(&home, &[&SAMPLE[..], &NO_HANDLER].concat(), &worker);
}

/// Makes a class of the worker in Java, in `home`. Out of its source it would boot three times as long.
fn compile(javac: &Path, home: &TempDir) {
    let mut command = Command::new(javac);
    command.arg("-d").arg(home.path()).arg(source("Worker.java"));
    let compiled = output(command).unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}

#[test]
fn java() {
    let (Some(java), Some(javac)) = (found("java", "-version"), found("javac", "-version")) else { return };
    let home = tempfile::tempdir().unwrap();
    compile(&javac, &home);
    let small = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx64m -Xshare:auto";
    let with = |option: &str| format!("{} {option} {small} -cp {} Worker", java.display(), home.path().display());
    all_match(&home, &FEW, &with(""));

    // A JVM without a hook is none that does nothing: it ends of SIGTERM with 143, as PID 1 too. Since that takes it 0.3 s, it
    // may also count as late, and more attempts would only be later. SIGKILL comes long after that.
    let scenario = r#"{"name": "idle-jvm", "title": "A JVM that has nothing to do", "startup_s": 5, "signal_at_s": 6,
        "request_interval_s": 40, "grace_period_s": 20}"#;
    let file = home.path().join("idle-jvm.json");
    std::fs::write(&file, scenario).unwrap();
    let idle = [file.to_str().unwrap()];
    let Some(results) = validated(&home, &idle, &with(""), &["--attempts", "1"]) else { return };
    let difference = &results[0]["difference"];
    assert_ne!(results[0]["verdict"], "matched", "{results:?}");
    assert!(difference["observed"].to_string().contains(r#""code":143"#), "{difference}");
    // With -Xrs it leaves the signal alone.
    all_match(&home, &idle, &with("-Xrs"));
}

/// What happened to a shell-form JVM is what the lesson tells: the signal stops at the shell, and SIGKILL ends the work.
#[test]
fn a_jvm_behind_a_shell_never_gets_the_signal() {
    let (Some(java), Some(javac), Some(_)) =
        (found("java", "-version"), found("javac", "-version"), found("dash", "-n"))
    else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    compile(&javac, &home);
    let worker = format!("{} -XX:TieredStopAtLevel=1 -Xmx64m -cp {} Worker", java.display(), home.path().display());
    let scenario = r#"{"name": "jvm-behind-dash", "title": "A JVM behind dash -c", "on_sigterm": "drain",
        "entrypoint": ["dash", "-c", "true && {worker}"], "expected_effect": "ignored", "startup_s": 12,
        "request_interval_s": 14, "signal_at_s": 16, "grace_period_s": 4}"#;
    std::fs::write(home.path().join("drill.json"), scenario).unwrap();
    let (code, text, error) = termdrill(&home, &["run", "drill.json", "--worker", &worker, "--speed", "4"]);
    if text.contains("needs a PID namespace") {
        return eprintln!("skipped: no PID namespace can be made here");
    }
    assert_eq!(code, Some(0), "{text}{error}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("SIGTERM went to dash (PID 1), not to the worker below it"), "{text}");
    assert!(flat.contains("SIGKILL to PID 1 then cut the worker, and 1 invocation with it"), "{text}");
    assert!(flat.contains("The workers were foreign ones"), "{text}");
}

#[test]
fn a_worker_that_never_says_that_it_is_ready_is_inconclusive() {
    let Some(sleep) = found("sleep", "--version") else { return };
    let home = tempfile::tempdir().unwrap();
    let worker = format!("{} 1000", sleep.display());
    let (code, text, _) = termdrill(&home, &["run", "no-handler-not-pid1", "--worker", &worker, "--quiet"]);
    assert_eq!(code, Some(3), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("worker-1 has not said that it is ready 5 s after it should have been"), "{text}");
}

#[test]
fn a_worker_that_is_too_slow_to_boot_is_inconclusive_and_does_not_diverge() {
    let (Some(python), Some(sh)) = (found("python3", "--version"), found("sh", "-n")) else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let line = format!("sleep 0.3; exec {} {}", python.display(), source("worker.py").display());
    let worker = format!("{} -c '{line}'", sh.display());
    // At this speed the boot has 0.07 s.
    let arguments = ["run", "no-handler-not-pid1", "--worker", &worker, "--speed", "60", "--attempts", "1", "--quiet"];
    let (code, text, _) = termdrill(&home, &arguments);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("The machine was too slow at speed 60") && text.contains("boots"), "{text}");
}

#[test]
fn what_foreign_workers_can_not_have_is_said_before_anything_starts() {
    let home = tempfile::tempdir().unwrap();
    for (arguments, what) in [
        (&["run", "baseline", "--worker", "true", "--clock", "stepped"][..], "scaled clock only"),
        (&["validate", "baseline", "--worker", "true", "--clock", "stepped"], "scaled clock only"),
        (&["run", "baseline", "--worker", "python3 'worker.py"], "can't be split into words"),
        (&["run", "baseline", "--worker", ""], "the command is empty"),
    ] {
        let (code, _, error) = termdrill(&home, arguments);
        assert!(code == Some(2) && error.contains(what), "{arguments:?}: {error}");
    }
    let (code, text, _) =
        termdrill(&home, &["run", "no-handler-not-pid1", "--worker", "no-such-program-at-all", "--quiet"]);
    assert_eq!(code, Some(3));
    assert!(text.contains("no-such-program-at-all"), "{text}");
}
