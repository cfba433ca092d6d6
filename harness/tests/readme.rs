//! The README can't rot: its tables are those of the code, and its commands are run.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use scenarios::{
    Entrypoint, FIELDS, HandlerInstalled, Host, OnSigterm, Scenario, ShellBehaviour,
    fate::fate,
    fields::{Field, Kind},
};

const README: &str = include_str!("../../README.md");
const CI: &str = include_str!("../../.ci/run");
const TERMDRILL: &str = env!("CARGO_BIN_EXE_termdrill");

/// Commands that this test can't run: it is run by them.
const NOT_RUN: [&str; 1] = ["cargo test --workspace --locked"];

#[test]
fn the_table_of_fields_is_that_of_the_language() {
    let rows = FIELDS.iter().map(|field| {
        let default = match field.default_value() {
            None => "must be given".to_owned(),
            Some(serde_json::Value::Null) => "none".to_owned(),
            Some(value) => format!("`{}`", value.to_string().trim_matches('"')),
        };
        format!("| `{}` | {} | {default} | {} |\n", field.name, allowed(field), field.meaning)
    });
    assert_table("| field | allowed | default | meaning |\n|---|---|---|---|\n", rows);
}

/// What is allowed, short enough for a table.
fn allowed(field: &Field) -> String {
    let code = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match field.kind {
        Kind::Choice { names, .. } => code(names),
        Kind::Entrypoint => "one of those below".to_owned(),
        Kind::Effect => code(&scenarios::Effect::NAMED.map(|(name, _)| name)),
        _ => field.allowed().replace(" in steps of 0.1", "").replace("a whole number from ", ""),
    }
}

#[test]
fn the_table_of_entrypoints_is_that_of_the_model() {
    let forms = [
        ("exec", Entrypoint::Exec, ShellBehaviour::Stays, "`WORKER`"),
        ("shell", Entrypoint::Shell, ShellBehaviour::Stays, "`/bin/sh -c 'WORKER'`, where sh stays"),
        ("shell", Entrypoint::Shell, ShellBehaviour::BecomesWorker, "the same, where sh becomes the worker"),
        ("shell_exec", Entrypoint::ShellExec, ShellBehaviour::Stays, "`/bin/sh -c 'exec WORKER'`"),
        ("script", Entrypoint::Script, ShellBehaviour::Stays, "a script: `WORKER`, then `exit $?`"),
        ("script_exec", Entrypoint::ScriptExec, ShellBehaviour::Stays, "a script: `exec WORKER`"),
        ("script_trap", Entrypoint::ScriptTrap, ShellBehaviour::Stays, "a script: `WORKER &`, a trap, `wait`"),
    ];
    assert!(Entrypoint::NAMED.iter().all(|named| forms.iter().any(|form| (form.0, &form.1) == (named.0, &named.1))));
    let rows = forms.map(|(name, entrypoint, shell, what)| {
        let effects = [true, false].map(|pid_namespace| {
            let effect = |on_sigterm| {
                let scenario = Scenario {
                    entrypoint: entrypoint.clone(),
                    pid_namespace,
                    on_sigterm,
                    handler_installed: HandlerInstalled::AtStart,
                    ..Scenario::new("a", "a")
                };
                fate(&scenario, &Host { shell, custom: None }).effect.name()
            };
            [OnSigterm::Drain, OnSigterm::Default, OnSigterm::Ignore].map(effect).join(", ")
        });
        format!("| `{name}` | {what} | {} |\n", effects.join(" | "))
    });
    let head = "| form | what is run | as PID 1: `drain`, `default`, `ignore` | as an ordinary process |\n";
    assert_table(&format!("{head}|---|---|---|---|\n"), rows);
}

fn assert_table(head: &str, rows: impl IntoIterator<Item = String>) {
    let table: String = std::iter::once(head.to_owned()).chain(rows).collect();
    assert!(README.contains(&format!("\n\n{table}\n")), "README.md lacks this table:\n\n{table}");
}

#[test]
fn every_command_is_in_the_readme() {
    let help = run(Command::new(TERMDRILL).arg("--help"));
    let text = String::from_utf8(help.stdout).unwrap();
    let section = text.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let commands: Vec<&str> = section
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.contains(&"run"), "{text}");
    for command in commands.into_iter().filter(|&command| command != "help") {
        assert!(README.contains(&format!("\n| `{command}")), "README.md says nothing of {command}");
    }
}

#[test]
fn the_test_command_is_what_is_run_for_every_change() {
    for command in NOT_RUN {
        assert!(README.lines().any(|line| line == command), "README.md lacks {command}");
        assert!(CI.lines().any(|line| line.ends_with(command)), ".ci/run does not run {command}");
    }
}

/// A command of the README.
#[derive(Debug)]
struct Example {
    line: String,
    /// Lines of its output, in order; what is between them is of no interest.
    output: Vec<String>,
    exit_code: i32,
}

/// The commands of all `sh` and `console` blocks. A following `echo $?` tells an exit status other than 0.
fn examples() -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut block = None;
    let mut asked = false;
    for line in README.lines() {
        if let Some(language) = line.strip_prefix("```") {
            block = block.is_none().then_some(language);
            asked = false;
            continue;
        }
        let command = match block {
            Some("sh") => Some(line),
            Some("console") => line.strip_prefix("$ "),
            _ => continue,
        };
        match command {
            Some("echo $?") => asked = true,
            Some(command) => {
                examples.push(Example { line: command.to_owned(), output: Vec::new(), exit_code: 0 });
                asked = false;
            }
            None => {
                let last = examples.last_mut().expect("a block begins with a command");
                if asked {
                    last.exit_code = line.parse().expect("the output of echo $? is a number");
                } else if line != "..." {
                    last.output.push(line.to_owned());
                }
            }
        }
    }
    examples
}

#[test]
fn every_command_does_what_the_readme_says() {
    let directory = tempfile::tempdir().unwrap();
    let bin = directory.path().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(TERMDRILL, bin.join("termdrill")).unwrap();
    // The commands are those of somebody in the repository.
    symlink(concat!(env!("CARGO_MANIFEST_DIR"), "/../worker"), directory.path().join("worker")).unwrap();

    let examples: Vec<Example> =
        examples().into_iter().filter(|example| !NOT_RUN.contains(&example.line.as_str())).collect();
    assert!(examples.len() > 5, "{examples:?}");
    for example in &examples {
        let line = example.line.replacen("cargo run --release -- ", "termdrill ", 1);
        assert!(line.starts_with("termdrill "), "{line} is nothing that can be tried here");
        let mut output = shell(&line, directory.path(), &bin);
        let mut is_stepped = false;
        let out = line.split_once(" --out ").map(|(_, out)| directory.path().join(out));
        let stored = out.clone().unwrap_or_else(|| directory.path().join("state/termdrill/runs/latest"));
        if output.status.code() == Some(3)
            && let Some(reasons) = too_slow(&stored)
        {
            eprintln!("skipped: {line} on the real clock: {reasons}");
            if line.contains(" --worker ") {
                // Foreign workers have no other clock.
                continue;
            }
            out.iter().for_each(|out| fs::remove_dir_all(out).unwrap());
            output = shell(&format!("{line} --clock stepped"), directory.path(), &bin);
            is_stepped = true;
        }
        let text = String::from_utf8(output.stdout).unwrap();
        if output.status.code() != Some(example.exit_code) {
            // Reasons are wrapped.
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let needs = ["The scenario needs a PID namespace, and", "no PID namespace can be made"];
            let is_missing = output.status.code() == Some(3) && needs.iter().any(|need| flat.contains(need));
            assert!(is_missing, "{line}: {}\n{text}", output.status);
            eprintln!("skipped: {line} can't be tried here\n{text}");
            return;
        }
        let mut lines = text.lines().map(comparable);
        // The stepped clock has another heading, and all else is the same.
        for wanted in example.output.iter().filter(|wanted| !(is_stepped && wanted.contains("× speed, at most"))) {
            // Decisions are told as they are heard of, which on a busy machine is not always in their order.
            let is_there = match is_decision(wanted) {
                true => text.lines().map(comparable).any(|line| line == comparable(wanted)),
                false => lines.any(|line| line == comparable(wanted)),
            };
            assert!(is_there, "{line} does not print, in this order:\n{wanted}\n\n{text}");
        }
    }
    let stored = fs::read_dir(directory.path().join("state/termdrill/runs")).unwrap();
    let runs: Vec<PathBuf> = stored.map(|run| run.unwrap().path()).chain([directory.path().join("mine")]).collect();
    assert_files_are_listed(&runs);
}

/// Why nothing is proved by the run that is stored there, where that is for no other reason than a slow machine.
fn too_slow(run: &Path) -> Option<String> {
    let record: serde_json::Value = serde_json::from_str(&fs::read_to_string(run.join("record.json")).ok()?).ok()?;
    let reasons: Vec<&str> = record["reasons"].as_array()?.iter().filter_map(serde_json::Value::as_str).collect();
    let slow = |reason: &&str| reason.contains("too slow") || reason.contains("were foreign ones");
    let is_slow = reasons.first().is_some_and(|first| first.contains("too slow")) && reasons.iter().all(slow);
    (record["verdict"] == "inconclusive" && is_slow).then(|| reasons.join(" "))
}

/// The picture of the README is what the program makes of that drill; the clock does not matter to it.
#[test]
fn the_picture_is_up_to_date() {
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("opening.svg");
    let mut command = Command::new(TERMDRILL);
    command.args(["run", "ignored-signal", "--clock", "stepped", "--quiet", "--report"]).arg(&picture);
    let output = run(command.env("XDG_STATE_HOME", directory.path()).env("LC_ALL", "C.UTF-8"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.code() == Some(3) && text.contains("PID namespace") {
        eprintln!("skipped: the drill can't be run here\n{text}");
        return;
    }
    assert!(output.status.success(), "{output:?}");
    let made = fs::read_to_string(picture).unwrap();
    let kept = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/opening.svg")).unwrap();
    assert!(made == kept, "make it anew: termdrill run ignored-signal --clock stepped --report docs/opening.svg");
    assert!(README.contains("(docs/opening.svg)"));
}

fn shell(line: &str, directory: &Path, bin: &Path) -> Output {
    // With the program's own directory first, and its errors where its output goes, as in a terminal.
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("{line} 2>&1")]).current_dir(directory).env("PATH", path);
    command.env("XDG_STATE_HOME", directory.join("state")).env("COLUMNS", "80");
    command.env("LC_ALL", "C.UTF-8").env_remove("CLICOLOR_FORCE");
    run(&mut command)
}

#[expect(clippy::disallowed_methods, reason = "the one place of this test that spawns")]
fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

/// The line without what is different each time: real times, and where the run is stored.
fn comparable(line: &str) -> String {
    if let Some(label) = ["timing ", "stored "].into_iter().find(|&label| line.starts_with(label)) {
        return label.to_owned();
    }
    let is_real_time = |word: &str| word.starts_with(['+', '-']) && word[1..].parse::<f64>().is_ok();
    line.split(' ').filter(|word| !is_real_time(word)).collect::<Vec<_>>().join(" ")
}

/// Whether a line tells what happened at a time of the drill.
fn is_decision(line: &str) -> bool {
    line.trim_start().split_once(" s ").is_some_and(|(time, _)| time.parse::<f64>().is_ok())
}

/// The files of all runs together are those of the README's table.
fn assert_files_are_listed(runs: &[PathBuf]) {
    let section = README.split("## Stored runs").nth(1).unwrap().split("\n## ").next().unwrap();
    let cells = section.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
    let listed: BTreeSet<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let entries = runs.iter().filter(|run| !run.is_symlink()).flat_map(|run| fs::read_dir(run).unwrap());
    let names: BTreeSet<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    for file in &listed {
        assert!(names.contains(*file), "there is no {file} in {names:?}");
    }
    for name in &names {
        let is_listed = listed.iter().any(|file| {
            let (stem, extension) = file.split_once('.').unwrap();
            let rest = name.strip_prefix(stem).and_then(|rest| rest.split_once('.'));
            // SQLite puts two files beside its own, and earlier attempts have numbers.
            rest.is_some_and(|(number, rest)| {
                number.trim_start_matches('-').chars().all(|c| c.is_ascii_digit()) && rest.starts_with(extension)
            })
        });
        assert!(is_listed, "README.md says nothing of {name}");
    }
}
