//! The measured facts as a table, by the words of the command line alone.

use super::*;
use crate::OnSigterm::{Default, Drain, Ignore};

fn look_up(words: &[&str]) -> Option<LookedUp> {
    let name = words.last()?.rsplit('/').next()?;
    // As they are on Debian 12; `sh` is dash there.
    let (only, and, last) = match name {
        "sh" | "dash" => (false, false, false),
        "bash" | "ash" | "zsh" => (true, true, false),
        "mksh" => (true, false, false),
        "ksh" => (true, true, true),
        _ => return None,
    };
    Some(LookedUp {
        name: if name == "sh" { "dash" } else { name }.to_owned(),
        becomes_only: only,
        becomes_after_and: and,
        becomes_after_next: and,
        becomes_last_of_script: last,
    })
}

fn chain_of(command: &[&str], script: Option<&str>) -> Result<Chain, Unpredictable> {
    let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
    chain(&command, script, &look_up)
}

/// What comes of each seat and posture, in short: as PID 1 with a handler, without, ignoring; then the same elsewhere.
fn row(command: &[&str], script: Option<&str>) -> String {
    let chain = chain_of(command, script).unwrap();
    let seat = |pid1| [Drain, Default, Ignore].map(|posture| predict(&chain, pid1, posture).to_string()).join(" / ");
    format!("{} | {}", seat(true), seat(false))
}

const EXEC: &str = "exit 0 / stuck / stuck | exit 0 / sig 15 / stuck";
const SHELL: &str = "stuck / stuck / stuck | orphan / orphan / orphan";
const INIT: &str = "exit 0 / exit 143 / stuck | exit 0 / exit 143 / stuck+";
const DEAF: &str = "stuck / stuck / stuck | stuck+ / stuck+ / stuck+";
const LEFT: &str = "cut / cut / cut | orphan / orphan / orphan";
const ONCE: &str = "cut / exit 143 / cut | alone / exit 143 / orphan";

#[test]
fn command_lines() {
    let rows: &[(&[&str], &str)] = &[
        (&["{worker}"], EXEC),
        (&["bash", "-c", "{worker}"], EXEC),
        (&["busybox", "ash", "-c", "{worker}"], EXEC),
        (&["/bin/sh", "-c", "{worker}"], SHELL),
        (&["sh", "-ec", "exec {worker}"], EXEC),
        (&["bash", "-c", "{worker}; true"], SHELL),
        (&["bash", "-c", "{worker} && true"], SHELL),
        (&["bash", "-c", "setup && {worker}"], EXEC),
        (&["dash", "-c", "setup && {worker}"], SHELL),
        (&["dash", "-c", "setup && exec {worker}"], EXEC),
        (&["bash", "-c", "{worker} | cat"], SHELL),
        (&["bash", "-c", "exec {worker} | cat"], SHELL),
        (&["dash", "-c", "{worker} & wait"], SHELL),
        (&["mksh", "-c", "{worker}"], EXEC),
        (&["mksh", "-c", "{worker}; true"], DEAF),
        (&["mksh", "-c", "{worker} & wait"], "cut / exit 143 / cut | alone / sig 15 / orphan"),
        (&["tini", "--", "{worker}"], INIT),
        (&["tini", "-g", "--", "{worker}"], INIT),
        (&["dumb-init", "{worker}"], INIT),
        (&["tini", "--", "sh", "-c", "{worker}; true"], LEFT),
        (&["tini", "--", "sh", "-c", "exec {worker}"], INIT),
        (&["tini", "-g", "--", "sh", "-c", "{worker}; true"], ONCE),
        (&["catatonit", "--", "sh", "-c", "{worker}; true"], LEFT),
        (&["dumb-init", "--", "sh", "-c", "{worker}; true"], ONCE),
        (&["dumb-init", "-c", "--", "sh", "-c", "{worker}; true"], LEFT),
        (&["timeout", "100", "{worker}"], "exit 0 / exit 143 / stuck | exit 0 / sig 15 / stuck+"),
        (&["sudo", "-n", "{worker}"], "exit 0 / exit 0 / stuck | exit 0 / sig 15 / stuck+"),
        (&["env", "A=1", "nohup", "tini", "--", "{worker}"], INIT),
        (&["sh", "-c", "exec tini -- {worker}"], INIT),
        (&["su", "-c", "exec {worker}", "root"], "exit 143 / exit 143 / cut | sig 15 / sig 15 / cut"),
        (&["su", "-c", "{worker}", "root"], LEFT),
        (&["script", "-qec", "{worker}", "/dev/null"], "cut / cut / cut | cut / cut / cut"),
        (&["setsid", "{worker}"], "gone / gone / gone | gone / gone / gone"),
        (&["sh", "-c", "{worker} &"], "gone / gone / gone | gone / gone / gone"),
    ];
    for (command, expected) in rows {
        assert_eq!(row(command, None), *expected, "{command:?}");
    }
}

#[test]
fn scripts() {
    let until_gone = "{worker} &\nw=$!\ntrap 'kill -TERM $w; again=1' TERM\nagain=1\nwhile [ $again ]; do again=; wait $w; c=$?; done\nexit $c\n";
    let once = "{worker} &\nw=$!\ntrap 'kill -TERM $w' TERM\nwait $w\n";
    let rows: &[(&str, &str, &str)] = &[
        ("dash", "# comment\nsetup\n{worker}\n", SHELL),
        ("ksh", "setup\n{worker}\n", EXEC),
        ("dash", "setup\nexec {worker} 2>&1\n", EXEC),
        ("bash", "{worker} &\nwait\n", SHELL),
        ("dash", until_gone, INIT),
        ("ksh", until_gone, "exit 0 / exit 15 / stuck | exit 0 / exit 15 / stuck+"),
        ("dash", once, ONCE),
        ("ksh", once, "cut / exit 1 / cut | alone / exit 1 / orphan"),
        ("dash", "trap 'exit 143' TERM\n{worker}\nexit $?\n", DEAF),
        ("ksh", "trap 'exit 143' TERM\n{worker}\n", DEAF),
        ("dash", "trap - TERM\nexec {worker}\n", EXEC),
    ];
    for (shell, text, expected) in rows {
        assert_eq!(row(&[shell, "{script}"], Some(text)), *expected, "{shell}: {text}");
    }
    assert_eq!(row(&["npm", "start"], Some("{worker}")), LEFT);
    assert_eq!(row(&["npm", "start"], Some("exec {worker}")), "exit 0 / exit 1 / stuck | exit 0 / sig 15 / stuck+");
}

#[test]
fn what_no_rule_speaks_of_is_not_guessed() {
    for command in [
        &["supervisor", "{worker}"][..],
        &["fish", "-c", "{worker}"],
        &["sh", "start.sh"],
        &["sh", "-c", "a || {worker}"],
        &["sh", "-c", "trap 'exit 0' TERM; {worker} & wait"],
        &["env", "unknown", "x"],
        &["tini"],
        &[],
    ] {
        assert!(chain_of(command, None).is_err(), "{command:?}");
    }
}

#[test]
fn a_worker_that_is_told_and_then_cut_was_told() {
    let group = chain_of(&["tini", "-g", "--", "sh", "-c", "{worker}; true"], None).unwrap();
    let alone = chain_of(&["tini", "--", "sh", "-c", "{worker}; true"], None).unwrap();
    let told = |chain: &Chain, posture| predict(chain, true, posture).received;
    assert_eq!([Drain, Default, Ignore].map(|posture| told(&group, posture)), [true, true, false]);
    assert_eq!([Drain, Default, Ignore].map(|posture| told(&alone, posture)), [false; 3]);
    assert_eq!(predict(&group, true, Drain).effect(), Some(crate::Effect::Terminated));
    assert_eq!(predict(&group, false, Drain).effect(), None);
}
