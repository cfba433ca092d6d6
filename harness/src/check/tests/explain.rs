use scenarios::{Signal, Status};

use super::{APP, C143, KILLED, OK, SH, TERMED, TINI, row, waiting};
use crate::{
    check::{
        explain,
        fate::Fate,
        memory::RanOut,
        record::{Cause, Observed, Sending, Verdict},
        samples::{Process, TOP, drill, settings},
        settings::Settings,
        verdict,
    },
    evidence::{
        Disposition::{Blocked, Caught, Default, Ignored, WaitedFor},
        Kernel,
        kernel::{Outcome, SignalRecord, Step},
    },
};

const PYTHON: (&str, &str) = ("python3 run.py", "/usr/bin/python3");
const INT: Status = Status::Signal(Signal::INT);

/// The app as a shell starts it with `&`.
fn in_the_background(mut observed: Observed) -> Observed {
    observed.before.as_mut().unwrap().processes[1].process.sigquit = Some(Ignored);
    observed
}

#[test]
fn where_the_signal_went() {
    let lost = |observed: Observed| observed.request(-50, 10, Fate::Reset, None);
    let rows: Vec<(&str, Observed, Cause, &str, Option<&str>)> = vec![
        (
            "drains",
            drill(true, &[row(APP, Caught, OK, Some(700))]).closed(10),
            Cause::Ended,
            "closed its port at once and exited 0 after 700 ms",
            None,
        ),
        (
            "goes on first",
            drill(true, &[row(APP, Caught, OK, Some(2000))]).closed(1700).request(
                1000,
                1001,
                Fate::Completed,
                Some(200),
            ),
            Cause::Ended,
            "went on accepting for 1.7 s",
            None,
        ),
        (
            "deaf as PID 1",
            lost(drill(true, &[row(APP, Default, KILLED, Some(10_010))]).sigkill(10_000)),
            Cause::Dropped,
            "the kernel drops it",
            Some("a handler for SIGTERM in node"),
        ),
        (
            "dies",
            lost(drill(false, &[row(APP, Default, TERMED, Some(1))])),
            Cause::Died,
            "died of it at once, and 1 request with it",
            Some("handler"),
        ),
        (
            "ignores",
            drill(false, &[row(APP, Ignored, KILLED, Some(10_010))]).sigkill(10_000),
            Cause::Ignored,
            "SIG_IGN",
            Some("instead of SIG_IGN"),
        ),
        (
            "blocks",
            drill(false, &[row(APP, Blocked, KILLED, Some(10_010))]).sigkill(10_000),
            Cause::Held,
            "pending",
            Some("unblock"),
        ),
        (
            "too slow",
            lost(drill(true, &[row(APP, Caught, KILLED, Some(10_010))]).closed(5).sigkill(10_000)),
            Cause::TooSlow,
            "did not end in time",
            Some("a grace period longer than 10 s"),
        ),
        (
            "no reaction",
            drill(true, &[row(APP, Caught, KILLED, Some(10_010))]).sigkill(10_000),
            Cause::NoReaction,
            "went on accepting",
            Some("let the handler for SIGTERM"),
        ),
        (
            "takes it and hangs",
            lost(drill(true, &[row(APP, Caught, KILLED, Some(10_010))]).sigkill(10_000)).request(
                500,
                10_010,
                Fate::AcceptedNeverServed,
                None,
            ),
            Cause::TooSlow,
            "took it and answered nothing more, but neither closed its port nor ended",
            Some("a grace period longer than 10 s"),
        ),
        (
            "ends by the signal after a drain",
            drill(false, &[row(APP, Caught, TERMED, Some(700))]).closed(5),
            Cause::Ended,
            "took it",
            None,
        ),
        (
            "shell, PID 1",
            drill(true, &[row(SH, Default, KILLED, Some(10_010)), row(APP, Caught, KILLED, Some(10_009))])
                .sigkill(10_000),
            Cause::Dropped,
            "not to node below it",
            Some("`exec` before the command in `-c`"),
        ),
        (
            "shell, not PID 1",
            drill(false, &[row(SH, Default, TERMED, Some(1)), row(APP, Caught, KILLED, None)]),
            Cause::NotPassedOn,
            "lived on as an orphan",
            Some("`exec`"),
        ),
        (
            "trap that waits once, PID 1",
            lost(drill(true, &[row(SH, Caught, C143, Some(100)), row(APP, Caught, KILLED, Some(99))]).closed(5)),
            Cause::LeftEarly,
            "its end cut node, and 1 request with it",
            Some("wait again"),
        ),
        (
            "trap that waits once, not PID 1",
            drill(false, &[row(SH, Caught, C143, Some(100)), row(APP, Caught, OK, Some(900))]).closed(5),
            Cause::LeftEarly,
            "went on alone and exited 0 after 900 ms",
            Some("wait again"),
        ),
        (
            "trap with a foreground child",
            waiting(
                drill(true, &[row(SH, Caught, KILLED, Some(10_010)), row(APP, Caught, KILLED, Some(10_009))])
                    .sigkill(10_000),
            ),
            Cause::WaitsForChild,
            "waits for its foreground child",
            Some("`&`"),
        ),
        (
            "trap that passes nothing on",
            in_the_background(
                drill(true, &[row(SH, Caught, KILLED, Some(10_010)), row(APP, Caught, KILLED, Some(10_009))])
                    .sigkill(10_000),
            ),
            Cause::NotPassedOn,
            "dash has a trap, which it runs at once, since it has nothing in the foreground: node never got it",
            Some("pass the signal on to it in the trap"),
        ),
        (
            "wrapper that leaves at once, PID 1",
            lost(drill(true, &[row(PYTHON, Caught, OK, Some(2)), row(APP, Caught, KILLED, Some(1))])),
            Cause::LeftEarly,
            "run.py took it and left: it exited 0 at once, without waiting until node was gone",
            Some("let run.py wait until node is gone"),
        ),
        (
            "wrapper that leaves at once, not PID 1",
            drill(false, &[row(PYTHON, Caught, OK, Some(2)), row(APP, Caught, OK, Some(900))]).closed(5),
            Cause::LeftEarly,
            "run.py passed it on, but left first",
            Some("let run.py wait until node is gone"),
        ),
        (
            "init that passes another signal on",
            lost(drill(true, &[row(TINI, WaitedFor, Status::Code(130), Some(6)), row(APP, Caught, INT, Some(5))])),
            Cause::NotPassedOn,
            "node got SIGINT instead and was killed by SIGINT at once, and 1 request with it; tini exited 130 at once",
            Some("have tini pass SIGTERM on as it is"),
        ),
        (
            "init",
            drill(true, &[row(TINI, WaitedFor, OK, Some(701)), row(APP, Caught, OK, Some(700))]).closed(5),
            Cause::Ended,
            "tini passed it on and waited",
            None,
        ),
        (
            "parent and child of one program",
            drill(true, &[row(APP, Caught, OK, Some(701)), row(APP, Caught, OK, Some(700))]).closed(5),
            Cause::Ended,
            "not to its child node. node passed it on and waited: its child node closed its port at once and exited 0",
            None,
        ),
        (
            "init above a shell",
            drill(
                true,
                &[
                    row(TINI, WaitedFor, C143, Some(6)),
                    row(SH, Default, TERMED, Some(2)),
                    row(APP, Caught, KILLED, Some(5)),
                ],
            ),
            Cause::NotPassedOn,
            "never got it",
            Some("`exec` before node in the shell below tini"),
        ),
        (
            "init, app without a handler",
            lost(drill(true, &[row(TINI, WaitedFor, C143, Some(6)), row(APP, Default, TERMED, Some(5))])),
            Cause::Died,
            "tini passed it on",
            Some("handler"),
        ),
    ];
    for (what, observed, cause, said, change) in rows {
        let mut settings = settings();
        if observed.before.as_ref().is_some_and(|before| before.processes[0].process.argv[0] == "sh") {
            settings.command = ["sh", "-c", "node server.js"].map(str::to_owned).to_vec();
        }
        let explanation = explain::explain(&settings, &observed);
        assert_eq!(explanation.cause, cause, "{what}: {}", explanation.text);
        assert!(explanation.text.contains(said), "{what}: {}", explanation.text);
        assert!(explanation.text.ends_with('.'), "{what}: {}", explanation.text);
        match change {
            None => assert_eq!(explanation.change, None, "{what}"),
            Some(change) => {
                let told = explanation.change.unwrap_or_else(|| panic!("{what}: no change"));
                assert!(told.contains(change) && told.ends_with('.'), "{what}: {told}");
            }
        }
    }
}

#[test]
fn a_server_with_a_signal_of_its_own_for_a_drain() {
    let nginx = ("nginx -g daemon", "/usr/sbin/nginx");
    let observed = drill(true, &[row(nginx, Caught, OK, Some(20))]).request(-50, 5, Fate::ClosedWithoutAnswer, None);
    let change = explain::explain(&settings(), &observed).change.unwrap();
    assert!(change.contains("SIGQUIT") && change.contains("STOPSIGNAL"), "{change}");
    let quit = Settings { signal: Signal::from_number(3).unwrap(), ..settings() };
    assert!(explain::explain(&quit, &observed).change.is_none_or(|change| !change.contains("STOPSIGNAL")));

    let apache = ("apache2 -DFOREGROUND", "/usr/sbin/apache2");
    let hangs = drill(true, &[row(apache, Caught, KILLED, Some(10_010))]).sigkill(10_000).request(
        500,
        10_010,
        Fate::AcceptedNeverServed,
        None,
    );
    let change = explain::explain(&settings(), &hangs).change.unwrap();
    assert!(change.contains("SIGWINCH"), "{change}");
}

#[test]
fn a_variable_that_nobody_expands() {
    let change = |command: &[&str]| {
        let settings = Settings { command: command.iter().map(|&word| word.to_owned()).collect(), ..settings() };
        explain::explain(&settings, &Observed { ended_early: true, ..Observed::default() }).change
    };
    for command in [&["server", "--port", "$PORT"][..], &["server", "--bind=0.0.0.0:${PORT}"]] {
        assert!(change(command).is_some_and(|change| change.contains("sh -c 'exec")), "{command:?}");
    }
    assert_eq!(change(&["sh", "-c", "exec server --port $PORT"]), None);
    assert_eq!(change(&["server"]), None);
}

#[test]
fn a_second_signal_that_ends_it_is_told() {
    let lost = |ended_ms: i64| {
        let observed = drill(true, &[row(APP, Caught, Status::Code(1), Some(ended_ms))]);
        let second = Sending { signal: Signal::INT, at_us: 500_000, pids: vec![TOP] };
        Observed { second_signal: Some(second), ..observed }.request(-50, ended_ms, Fate::Reset, None)
    };
    for (ended_ms, told, change) in [
        (510, "which took it, got SIGINT after 500 ms and exited 1 after 510 ms", "send SIGINT later or not at all"),
        (3000, "which took it, got SIGINT after 500 ms and exited 1 after 3 s", "finish what is in flight"),
        // Sent to one that had ended meanwhile.
        (499, "which took it and exited 1 after 499 ms", "finish what is in flight"),
    ] {
        let explained = explain::explain(&settings(), &lost(ended_ms));
        assert!(explained.text.contains(told), "{}", explained.text);
        assert!(explained.change.as_ref().unwrap().contains(change), "{explained:?}");
    }
}

#[test]
fn a_second_signal_that_changes_nothing_is_told() {
    let second = Some(Sending { signal: Signal::INT, at_us: 1_000_000, pids: vec![TOP] });
    for (what, observed, told) in [
        ("deaf", drill(true, &[row(APP, Default, KILLED, Some(10_010))]), "and changed nothing."),
        ("ignores", drill(false, &[row(APP, Ignored, KILLED, Some(10_010))]), "and changed nothing."),
        (
            "behind a shell",
            drill(true, &[row(SH, Default, KILLED, Some(10_010)), row(APP, Caught, KILLED, Some(10_010))]),
            "and changed nothing.",
        ),
        // What comes after it may come of it.
        (
            "closes late",
            drill(true, &[row(APP, Caught, KILLED, Some(10_010))]).closed(1_100),
            "was sent too, after 1 s.",
        ),
    ] {
        let observed = Observed { second_signal: second.clone(), ..observed.sigkill(10_000) };
        let text = explain::explain(&settings(), &observed).text;
        assert!(text.contains("SIGINT was sent too, after 1 s") && text.ends_with(told), "{what}: {text}");
    }
}

#[test]
fn what_boots_without_a_handler_did_not_take_the_signal() {
    let booting = |processes: &[Process]| Observed { app_pid: None, ..drill(true, processes) };
    let explained = explain::explain(&settings(), &booting(&[row(APP, Default, OK, Some(900))]));
    assert_eq!(explained.cause, Cause::Dropped);
    assert!(explained.text.ends_with("It exited 0 after 900 ms all the same."), "{}", explained.text);
    assert!(explained.change.unwrap().starts_with("the handler for SIGTERM first of all in node"));
    // What only ended meanwhile was passed nothing.
    let below = booting(&[row(SH, Default, KILLED, Some(10_010)), row(APP, Default, OK, Some(300))]).sigkill(10_000);
    let explained = explain::explain(&settings(), &below);
    assert_eq!(explained.cause, Cause::Dropped, "{}", explained.text);
    assert!(!explained.text.contains("passed it on"), "{}", explained.text);
}

#[test]
fn memory_that_ran_out_is_why_all_ended() {
    let ran_out = RanOut {
        at_us: 400_000,
        held_bytes: 900 << 20,
        left_bytes: 20 << 20,
        total_bytes: 1 << 30,
        cgroup: true,
        by_command: true,
    };
    let killed = drill(true, &[row(APP, Caught, KILLED, Some(401))]).request(-50, 401, Fate::Reset, None);
    let observed = Observed { memory: Some(ran_out), ..killed };
    let explained = explain::explain(&settings(), &observed);
    assert!(explained.text.contains("since the memory ran out"), "{}", explained.text);
    let judgement = verdict::judge(&settings(), &observed);
    assert_eq!(judgement.verdict, Verdict::Fail);
    assert_eq!(judgement.reasons.len(), 2, "{:?}", judgement.reasons);
    assert!(
        judgement.reasons[1].starts_with("It used up the memory, and was killed: 20 MB"),
        "{:?}",
        judgement.reasons
    );
    // Others took it, so nothing is proved.
    let others = Observed { unable: observed.memory.as_ref().map(RanOut::words), ..observed };
    assert_eq!(verdict::judge(&settings(), &others).verdict, Verdict::Inconclusive);
}

#[test]
fn the_kernel_s_record_is_told_and_believed() {
    let sent = |pid: i32, by: &str, outcome: Outcome| SignalRecord {
        at_us: 5,
        signal: Signal::TERM,
        pid,
        step: Step::Sent { by: by.to_owned(), by_pid: None, by_kernel: false, outcome },
    };
    let told = |observed: Observed, records: Vec<SignalRecord>| {
        let observed = Observed { kernel: Some(Kernel::Records(records)), ..observed };
        explain::explain(&settings(), &observed)
    };
    let deaf = || drill(true, &[row(APP, Default, KILLED, Some(10_010))]).sigkill(10_000);
    let explained = told(deaf(), vec![sent(TOP, "the harness", Outcome::Dropped)]);
    let record = "The kernel's record of SIGTERM: to node by the harness, dropped when it was sent.";
    assert!(explained.text.ends_with(record), "{}", explained.text);
    assert!(told(deaf(), Vec::new()).text.ends_with("to node none."));

    // An app that says nothing and never ends has got it all the same, or has not.
    let held = || drill(true, &[row(TINI, Caught, KILLED, Some(10_010)), row(APP, Caught, KILLED, Some(10_010))]);
    let records = vec![
        sent(TOP, "the harness", Outcome::Queued),
        sent(TOP + 1, "tini", Outcome::Queued),
        SignalRecord { step: Step::Delivered { handler: true }, ..sent(TOP + 1, "tini", Outcome::Queued) },
    ];
    let got = told(held().sigkill(10_000), records);
    let record = "to tini by the harness, queued; to node by tini, queued, and the handler ran.";
    assert!(got.text.ends_with(record), "{}", got.text);
    let missed = told(held().sigkill(10_000), vec![sent(TOP, "the harness", Outcome::Queued)]);
    assert!(got.text.contains("tini passed it on to node, and nothing came of it"), "{}", got.text);
    assert!(missed.text.contains("tini took it and stayed, and nothing came of it in node"), "{}", missed.text);
    let none = Observed { kernel: Some(Kernel::Unavailable { why: "only root may trace".to_owned() }), ..deaf() };
    let text = explain::explain(&settings(), &none).text;
    assert!(text.ends_with("The kernel's own record is unavailable, since only root may trace."), "{text}");
}

#[test]
fn a_server_that_speaks_no_http() {
    let raw = drill(true, &[row(APP, Caught, KILLED, Some(10_010))]).sigkill(10_000);
    let raw = (1..=3).fold(raw, |raw, n| raw.request(-100 * n, -100 * n + 1, Fate::ClosedWithoutAnswer, None));
    let told = explain::explain(&settings(), &raw);
    assert!(told.change.is_some_and(|change| change.contains("over HTTP")));
    assert!(!told.text.contains("requests with it"), "{}", told.text);
}
