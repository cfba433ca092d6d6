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
    let seat = |pid1| [Drain, Default, Ignore].map(|posture| chain.predict(pid1, posture).to_string()).join(" / ");
    format!("{} | {}", seat(true), seat(false))
}

const EXEC: &str = "exit 0 / stuck / stuck | exit 0 / sig 15 / stuck";
const SHELL: &str = "stuck / stuck / stuck | orphan / orphan / orphan";
const INIT: &str = "exit 0 / exit 143 / stuck | exit 0 / exit 143 / stuck+";
const IGNORED: &str = "exit 0 / stuck / stuck | exit 0 / stuck / stuck";
const LEFT_BY_SIGNAL: &str = "cut / cut / cut | orphan / orphan / orphan";
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
        // All of the group get it, and who waits goes on to.
        (&["dumb-init", "--", "sh", "-c", "{worker} & w=$!; trap 'kill $w' TERM; wait $w; wait $w"], INIT),
        (&["dumb-init", "--", "sh", "-c", "{worker} & w=$!; trap 'kill $w' TERM; wait $w"], ONCE),
        (&["tini", "-g", "--", "mksh", "-c", "{worker}; true"], INIT),
        (&["tini", "-g", "--", "tini", "-s", "--", "{worker}"], INIT),
        (&["timeout", "100", "{worker}"], "exit 0 / exit 143 / stuck | exit 0 / sig 15 / stuck+"),
        (&["sudo", "-n", "{worker}"], "exit 0 / exit 0 / stuck | exit 0 / sig 15 / stuck+"),
        (&["env", "A=1", "nohup", "tini", "--", "{worker}"], INIT),
        (&["sh", "-c", "exec tini -- {worker}"], INIT),
        (&["su", "-c", "exec {worker}", "root"], "exit 143 / exit 143 / cut | sig 15 / sig 15 / cut"),
        (&["su", "-c", "{worker}", "root"], LEFT),
        (&["script", "-qec", "{worker}", "/dev/null"], "cut / cut / cut | cut / cut / cut"),
        (&["setsid", "{worker}"], "gone / gone / gone | gone / gone / gone"),
        (&["sh", "-c", "{worker} &"], "gone / gone / gone | gone / gone / gone"),
        // Options are those of the program that they stand behind.
        (&["dumb-init", "sh", "-c", "{worker}; true"], ONCE),
        (&["nice", "-n", "5", "stdbuf", "-oL", "{worker}"], EXEC),
        (&["taskset", "-c", "0", "bash", "-c", "{worker}"], EXEC),
        (&["timeout", "--foreground", "-s", "INT", "9", "sh", "-c", "{worker}; true"], LEFT_BY_SIGNAL),
        // What is ignored stays ignored, over fork and exec.
        (&["sh", "-c", "trap '' TERM; exec {worker}"], IGNORED),
        (&["bash", "-c", "trap '' TERM; exec sh -c 'exec {worker}'"], IGNORED),
        (&["sh", "-c", "trap '' TERM; {worker}; true"], DEAF),
        (&["sh", "-c", "trap '' TERM; {worker} & wait"], DEAF),
        // The last trap that is set before the signal comes counts.
        (&["dash", "-c", "trap 'exit 3' TERM; trap - TERM; {worker}"], SHELL),
        (&["dash", "-c", "{worker} & w=$!; wait $w; trap 'kill $w' TERM"], SHELL),
    ];
    for (command, expected) in rows {
        assert_eq!(row(command, None), *expected, "{command:?}");
    }
}

#[test]
fn how_a_script_waits_after_its_trap() {
    let trap = |action: &str, end: &str| format!("{{worker}} &\nw=$!\ntrap '{action}' TERM\n{end}\n");
    let exits_143 = "exit 143 / exit 143 / stuck | exit 143 / exit 143 / stuck+";
    let left_with_0 = "cut / exit 0 / cut | alone / exit 0 / orphan";
    let rows = [
        ("kill $w", "wait $w; wait $w", INIT),
        ("kill -s TERM \"$w\"", "wait $w; wait $w; exit $?", INIT),
        ("kill -15 $!", "wait; wait", "exit 0 / exit 0 / stuck | exit 0 / exit 0 / stuck+"),
        ("kill $w; wait $w; exit $?", "wait", INIT),
        ("kill $w; wait; exit 0", "wait", "exit 0 / exit 0 / stuck | exit 0 / exit 0 / stuck+"),
        // The status is that of the wait command that was interrupted.
        ("kill $w; wait $w", "wait $w", exits_143),
        ("kill $w; exit 0", "wait", left_with_0),
        ("kill $w", "wait", ONCE),
    ];
    for (action, end, expected) in rows {
        assert_eq!(row(&["dash", "{script}"], Some(&trap(action, end))), expected, "{action} | {end}");
    }
    for (action, end) in [
        ("kill 0", "wait"),
        ("kill $(jobs -p)", "wait"),
        ("trap - TERM; kill -- -$$", "wait"),
        ("kill -INT $w", "wait; wait"),
        ("kill -9 $w", "wait"),
        ("stop", "wait"),
        ("kill $w", "wait; sleep 9"),
        ("kill $w; sleep 9", "wait"),
    ] {
        assert!(chain_of(&["dash", "{script}"], Some(&trap(action, end))).is_err(), "{action} | {end}");
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
        // Options that change what becomes of a signal, or that are not known.
        &["dumb-init", "-r", "15:2", "{worker}"],
        &["env", "--ignore-signal=TERM", "{worker}"],
        &["timeout", "-k", "1", "9", "{worker}"],
        &["sudo", "-b", "{worker}"],
        // Shells differ: pipelines, redirections, other traps, what stands behind the command.
        &["ksh", "-c", "true | {worker}"],
        &["ksh", "-c", "true | exec {worker}"],
        &["bash", "-c", "{worker} 2>&1"],
        &["bash", "-c", "{worker} # x"],
        &["bash", "-c", "{worker}\n"],
        &["bash", "-c", "env A=1 {worker}"],
        &["bash", "-c", "trap : INT; {worker}"],
        &["bash", "-c", "trap 'kill $!' EXIT; {worker} & wait"],
        &["bash", "-c", "( trap : TERM; {worker} )"],
        &["zsh", "-c", "{worker} <<X\nhi\nX"],
        &["bash", "-c", "{ {worker}; }"],
        &["bash", "-c", "if true; then {worker}; fi"],
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
    let told = |chain: &Chain, posture| chain.predict(true, posture).received;
    assert_eq!([Drain, Default, Ignore].map(|posture| told(&group, posture)), [true, true, false]);
    assert_eq!([Drain, Default, Ignore].map(|posture| told(&alone, posture)), [false; 3]);
    assert_eq!(group.predict(true, Drain).effect(), Some(crate::Effect::Terminated));
    assert_eq!(group.predict(false, Drain).effect(), Some(crate::Effect::Orphaned));
}
