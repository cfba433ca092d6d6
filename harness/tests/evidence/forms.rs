//! Entrypoints that are lists: what was measured holds for the drill, no rule says otherwise, and where the signal went is
//! told as it was.

use harness::evidence::Cause;
use scenarios::{OnSigterm, Status};

use crate::{
    drills::{Document, drill},
    skipped,
};

/// An entrypoint, whether it is PID 1, the posture; then the cause, what is told, and what is to be changed.
type Row = (&'static [&'static str], bool, OnSigterm, Cause, &'static [&'static str], Option<&'static str>);

use Cause::{Died, Drained, Held, Ignored, LeftEarly, NotPassedOn, WaitsForChild};
use OnSigterm::{Default as Plain, Drain};

fn check(rows: &[Row]) {
    for &(words, pid1, posture, cause, told, change) in rows {
        let Some(found) = drilled(words, pid1, posture) else { continue };
        let (text, case) = (&found.explanation.text, format!("{words:?}, PID 1: {pid1}, {posture:?}"));
        assert_eq!(found.explanation.cause, cause, "{case}: {text}");
        for word in told {
            assert!(text.contains(word), "{case}: no {word:?} in: {text}");
        }
        let proposed = found.explanation.change.as_deref();
        match change {
            None => assert_eq!(proposed, None, "{case}"),
            Some(word) => assert!(proposed.is_some_and(|change| change.contains(word)), "{case}: {proposed:?}"),
        }
    }
}

/// Drills it if its program is there, and sees that it matched and that no rule predicted anything else.
fn drilled(words: &[&str], pid1: bool, posture: OnSigterm) -> Option<Document> {
    if !std::env::split_paths(&std::env::var_os("PATH")?).any(|folder| folder.join(words[0]).is_file()) {
        skipped(&format!("there is no {} here", words[0]));
        return None;
    }
    let entrypoint = format!("entrypoint={}", serde_json::to_string(words).unwrap());
    let settings = [entrypoint, format!("pid_namespace={pid1}"), format!("on_sigterm={}", posture.name())];
    let found = drill(&settings.each_ref().map(String::as_str), &[]);
    assert!(!found.reasons.iter().any(|reason| reason.contains("another effect")), "{words:?}: {:?}", found.reasons);
    Some(found)
}

#[test]
fn a_trap_is_told_by_what_it_does() {
    let shell = |text: &'static str| -> &'static [&'static str] { Box::leak(Box::new(["dash", "-c", text])) };
    let twice = shell("{worker} & w=$!; trap 'kill $w' TERM; wait $w; wait $w");
    let within = shell("{worker} & w=$!; trap 'kill $w; wait $w; exit $?' TERM; wait");
    let nothing = shell("trap : TERM; {worker} & w=$!; wait $w; wait $w");
    let beside = shell("trap 'kill $!' TERM; {worker} & sleep 600");
    let ignored = shell("trap '' TERM; exec {worker}");
    check(&[
        (twice, true, Drain, Drained, &["dash passed it on and waited"], None),
        (twice, true, Plain, Died, &["Then dash exited 143", "died of it"], Some("a handler")),
        (within, true, Drain, Drained, &["dash passed it on and waited"], None),
        (nothing, true, Drain, NotPassedOn, &["runs at once", "never got it"], Some("pass SIGTERM on to it")),
        (beside, true, Drain, WaitsForChild, &["its foreground child, sleep, before"], Some("wait` until it is gone")),
        (ignored, false, Plain, Ignored, &["ignores it (SIG_IGN): the kernel dropped it"], Some("instead of SIG_IGN")),
        (
            shell("trap 'exit 0' TERM; {worker} & wait"),
            true,
            Drain,
            LeftEarly,
            &["took it and exited 0"],
            Some("`exec`"),
        ),
    ]);
}

#[test]
fn a_drain_behind_a_script_that_reports_143_is_a_drain() {
    for text in [
        "{worker} & w=$!; trap 'kill $w; wait $w; trap - TERM; kill $$' TERM; wait",
        "{worker} & trap 'kill $!; wait' EXIT; wait",
    ] {
        for (pid1, status) in [(true, Status::CODE_143), (false, Status::SIGTERM)] {
            let Some(found) = drilled(&["bash", "-c", text], pid1, Drain) else { return };
            assert_eq!(found.explanation.cause, Drained, "{text}: {}", found.explanation.text);
            assert_eq!(found.status(found.top()), Some(status), "{text}");
            assert!(
                found.reasons.iter().any(|reason| reason.contains("a busy worker: drained")),
                "{:?}",
                found.reasons
            );
        }
    }
}

/// The worker is told, and its first process does not wait for it: cut as PID 1, elsewhere it drains alone.
#[test]
fn a_first_process_that_leaves_before_the_worker() {
    let once: &[&str] = &["dash", "-c", "{worker} & w=$!; trap 'kill $w' TERM; wait $w"];
    let group: &[&str] = &["tini", "-g", "--", "dash", "-c", "{worker}; true"];
    let alone: &[&str] = &["passed it on", "went on alone and exited 0"];
    check(&[
        (once, true, Drain, LeftEarly, &["exited 143 at once", "its end cut the worker"], Some("`wait` in a loop")),
        (once, false, Drain, LeftEarly, alone, Some("`wait` in a loop")),
        (group, true, Drain, LeftEarly, &["exited 143 at once", "its end cut the worker"], Some("`exec`")),
        (group, false, Drain, LeftEarly, alone, Some("`exec`")),
    ]);
    for words in [once, group] {
        let Some(found) = drilled(words, false, Drain) else { continue };
        assert!(
            found.reasons.iter().any(|reason| reason.contains("it drains alone")),
            "{words:?}: {:?}",
            found.reasons
        );
    }
}

#[test]
fn programs_that_are_no_shells() {
    let python = ["import signal,subprocess,sys", "p=subprocess.Popen(sys.argv[1:])"].join(";");
    let python = |then: &str| -> &'static [&'static str] {
        let text = format!("{python};signal.signal(15,{then});sys.exit(p.wait())").leak();
        Box::leak(Box::new(["python3", "-c", text, "{worker}"]))
    };
    let killed: &[&str] = &["unshare", "-fp", "--kill-child", "{worker}"];
    let rewritten: &[&str] = &["dumb-init", "-r", "15:2", "{worker}"];
    check(&[
        (python("lambda *a: p.terminate()"), true, Drain, Drained, &["passed it on and waited"], None),
        (
            python("lambda *a: None"),
            true,
            Drain,
            NotPassedOn,
            &["takes it and stayed"],
            Some("pass SIGTERM on and wait"),
        ),
        (python("lambda *a: sys.exit(7)"), false, Drain, NotPassedOn, &["exited 7 at once"], Some("exec form")),
        (killed, false, Drain, Held, &["SIGKILL then took unshare, and the worker with it"], Some("exec form")),
        (rewritten, true, Drain, NotPassedOn, &["got SIGINT instead and died of it"], Some("as it is")),
        (&["timeout", "--foreground", "99", "{worker}"], true, Plain, Died, &["died of it at once"], Some("a handler")),
    ]);
}

/// A process that asks to be killed when its parent ends lives for as long as the harness does (PR_SET_PDEATHSIG(2const)).
#[test]
fn what_dies_with_its_parent_is_not_killed_by_how_it_was_started() {
    let setpriv: &[&str] = &["setpriv", "--pdeathsig", "KILL", "{worker}"];
    let tini: &[&str] = &["tini", "-p", "SIGKILL", "--", "{worker}"];
    for pid1 in [true, false] {
        check(&[(setpriv, pid1, Drain, Drained, &["drained"], None), (tini, pid1, Drain, Drained, &["drained"], None)]);
    }
}

#[test]
fn a_placeholder_alone_after_minus_c_is_the_command_line() {
    check(&[(&["bash", "-c", "{worker}"], true, Drain, Drained, &["the worker itself (PID 1)"], None)]);
}
