//! Nothing is left behind, whatever ends a drill and whenever.

use std::{
    ffi::OsStr,
    fmt, fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::{pipe::pipe, process::Signal};
use scenarios::Entrypoint;
use worker::clock;

use crate::{
    pool::side_by_side,
    processes::{command_line, send},
    support::{Draws, Ended, PATIENCE, Rig, STEPPED, eventually},
};

/// Tells this program, when it is started once more, to make a rig and to wait.
const HOLD: &str = "LEAKS_TEST_HOLD";

/// Not even of these tests, whatever ends them.
#[test]
#[expect(clippy::disallowed_methods, reason = "the one place that starts these tests once more")]
fn the_rig_of_tests_that_were_killed_is_removed_by_the_next() {
    let rig = Rig::new();
    if std::env::var_os(HOLD).is_some() {
        let ready = std::env::var_os(HOLD).unwrap();
        fs::write(&ready, rig.path("").as_os_str().as_encoded_bytes()).unwrap();
        clock::block_for(PATIENCE);
    }
    let name = "leaks::the_rig_of_tests_that_were_killed_is_removed_by_the_next";
    let ready = rig.path("ready");
    let mut again = Command::new(std::env::current_exe().unwrap());
    let mut held = again.args([name, "--exact"]).env(HOLD, &ready).stdout(Stdio::null()).spawn().unwrap();
    let there = || fs::read_to_string(&ready).ok().filter(|path| path.ends_with('/'));
    assert!(eventually(PATIENCE, || there().is_some()));
    let left = PathBuf::from(there().unwrap());
    drop(Rig::new());
    assert!(left.join("tmp").is_dir(), "it is in use");
    held.kill().unwrap();
    held.wait().unwrap();
    drop(Rig::new());
    // Another test's rig may be just removing it.
    assert!(eventually(PATIENCE, || !left.exists()), "{left:?} is left");
}

/// How a drill is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A signal to the process that a person started.
    Outer(Signal),
    /// Ctrl-C: SIGINT to the whole process group.
    Keyboard,
    /// SIGKILL to the process that runs the drill.
    Inner,
}

/// All ways, each of which is tried with each form of the entrypoint.
pub(crate) const ENDS: [End; 5] =
    [End::Outer(Signal::INT), End::Outer(Signal::TERM), End::Outer(Signal::KILL), End::Keyboard, End::Inner];

/// One drill that is ended early.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) form: &'static str,
    pub(crate) pid_namespace: bool,
    pub(crate) end: End,
    /// Whether on the stepped clock, on which all is over soon.
    pub(crate) stepped: bool,
    /// When, after its start.
    pub(crate) after: Duration,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { form, pid_namespace, end, stepped, after } = self;
        write!(f, "{form}, PID namespace {pid_namespace}, stepped {stepped}, {end:?} after {after:?}")
    }
}

/// Every form, seat and end, at moments that are drawn. A third of them comes while the first processes start; by
/// the last of them, workers run, serve, drain and live on as orphans.
pub(crate) fn cases(seats: &[bool], stepped: bool, seed: u64) -> Vec<Case> {
    let mut draws = Draws(seed);
    let mut cases = Vec::new();
    for (form, _) in Entrypoint::NAMED {
        for &pid_namespace in seats {
            for end in ENDS {
                let limit_us = match stepped {
                    true => 50_000,
                    false if draws.below(3) == 0 => 60_000,
                    false => 2_000_000,
                };
                let after = Duration::from_micros(draws.below(limit_us));
                cases.push(Case { form, pid_namespace, end, stepped, after });
            }
        }
    }
    cases
}

/// Starts the drill of `case` behind `wrapper`, ends it, and checks what is left: nothing alive, and a run that can
/// be read as far as it got. Tells whether workers ran at that moment, or, on the stepped clock, whether it had not ended
/// by itself.
fn end_early(case: &Case, wrapper: &[&OsStr]) -> bool {
    let rig = Rig::new();
    let entrypoint = format!("entrypoint={}", case.form);
    let pid_namespace = format!("pid_namespace={}", case.pid_namespace);
    // At 10 times the speed of life the signal comes after 0.5 s and the deadline 0.5 s later.
    let settings =
        ["startup_s=1", "signal_at_s=5", "grace_period_s=5", "on_sigterm=drain", &entrypoint, &pid_namespace];
    let mut arguments = vec!["run", "handler-grace-10", "--attempts", "1"];
    for setting in settings {
        arguments.extend(["--set", setting]);
    }
    if case.stepped {
        arguments.extend(STEPPED);
        // A long one, as far as that goes.
        arguments.extend(["--set", "request_interval_s=0.1", "--set", "slots_per_worker=64"]);
    }
    let running = rig.start(&mut rig.wrapped(wrapper, &arguments));
    clock::block_for(case.after);
    let sockets = rig.sockets();
    let expected = match case.end {
        End::Outer(signal) => {
            running.signal(signal);
            Some(signal)
        }
        End::Keyboard => {
            running.signal_group(Signal::INT);
            Some(Signal::INT)
        }
        End::Inner => {
            running.inner().into_iter().for_each(|inner| send(inner, Signal::KILL));
            None
        }
    };
    rig.assert_nothing_left(&sockets, &case.to_string());

    let ended = running.wait();
    match expected {
        // It was faster than we were.
        _ if case.stepped && ended.code == Some(0) => {}
        Some(signal) => {
            assert_eq!(ended.signal, Some(signal.as_raw()), "{case}: {ended:?}");
            assert_eq!(ended.stderr, "", "{case}");
        }
        None => ended.assert_refused(3, "was killed by SIGKILL"),
    }
    let begun = fs::read_dir(rig.state().join("termdrill/runs")).is_ok_and(|mut runs| runs.next().is_some());
    let replay = rig.run_command(&mut rig.command(&["replay", "latest", "--json"]));
    if case.stepped && matches!(replay.code, Some(0 | 3)) {
        replay.document();
    } else if begun && replay.code != Some(2) {
        assert_eq!((replay.code, replay.document().parsed.verdict.exit_code()), (Some(3), 3), "{case}");
    } else {
        // Not even the name of the run was there yet.
        replay.assert_refused(2, "");
    }
    if case.stepped { ended.code != Some(0) } else { !sockets.is_empty() }
}

/// Ends every drill early, and checks that many of the moments were those that matter.
pub(crate) fn end_all_early(cases: &[Case], wrapper: &[&OsStr]) {
    let in_the_middle =
        side_by_side(cases, |case| end_early(case, wrapper)).into_iter().filter(|&middle| middle).count();
    assert!(in_the_middle >= cases.len() / 3, "only {in_the_middle} of {} in the middle", cases.len());
}

#[test]
fn a_drill_that_is_ended_at_any_moment_leaves_nothing() {
    let cases = cases(&[true, false], false, 20260101);
    assert!(cases.len() >= 50);
    end_all_early(&cases, &[]);
}

#[test]
fn a_drill_on_the_stepped_clock_that_is_ended_at_any_moment_leaves_nothing() {
    end_all_early(&cases(&[true, false], true, 20260103), &[]);
}

/// A drill whose output nobody reads: it is over, and stuck in writing its document, which is longer than what a pipe
/// holds (64 KiB, pipe(7)).
#[test]
fn a_drill_that_is_stuck_in_its_output_ends_all_the_same() {
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let rig = Rig::new();
        let (unread, output) = pipe().unwrap();
        let arguments = ["run", "signal-at-arrival", "--json", "--speed", "100", "--attempts", "1"];
        let many = ["--set", "request_interval_s=0.1", "--set", "pid_namespace=false"];
        let running = rig.start_to(&mut rig.command(&[&arguments[..], &many].concat()), output);
        let record = || {
            let runs = fs::read_dir(rig.state().join("termdrill/runs")).ok();
            runs.is_some_and(|mut runs| runs.any(|run| run.unwrap().path().join("record.json").is_file()))
        };
        assert!(eventually(Duration::from_secs(30), record));
        running.signal(signal);
        rig.assert_nothing_left(&Default::default(), &format!("{signal:?}"));
        assert_eq!(running.wait().signal, Some(signal.as_raw()));
        drop(unread);
    }
}

/// A second Ctrl-C does not wait for anything.
#[test]
fn a_second_signal_kills() {
    let rig = Rig::new();
    let running = rig.start(&mut rig.command(&["run", "ignored-signal", "--json"]));
    assert!(running.inner().is_some());
    running.signal(Signal::INT);
    running.signal(Signal::TERM);
    rig.assert_nothing_left(&Default::default(), "two signals");
    let Ended { signal, stderr, .. } = running.wait();
    assert!([Some(Signal::INT.as_raw()), Some(Signal::TERM.as_raw())].contains(&signal), "{signal:?}");
    assert_eq!(stderr, "");
}

/// A hangup ends a drill, but not under nohup(1).
#[test]
fn a_hangup_ends_a_drill_unless_it_is_ignored() {
    let arguments = ["run", "signal-at-arrival", "--set", "request_interval_s=40", "--set", "signal_at_s=2"];
    let rig = Rig::new();
    for (wrapper, signal) in [(None, Some(Signal::HUP.as_raw())), (Some("nohup"), None)] {
        let wrapper: Vec<&OsStr> = wrapper.iter().map(OsStr::new).collect();
        let running = rig.start(&mut rig.wrapped(&wrapper, &arguments));
        assert!(running.inner().is_some());
        running.signal(Signal::HUP);
        let ended = running.wait();
        assert_eq!(ended.signal, signal, "{ended:?}");
        rig.assert_nothing_left(&Default::default(), "hangup");
    }
}

/// What finds leftovers does find one.
#[test]
fn a_process_that_is_left_would_be_found() {
    let rig = Rig::new();
    let mut leaving = rig.wrapped(&["sh", "-c", "setsid sleep 1000 &"].map(OsStr::new), &[]);
    assert_eq!(rig.run_command(&mut leaving).code, Some(0));
    // Once it is what it will be: in the middle of an execve(2) a process has no environment to be found by.
    let mut left = rig.processes();
    let found = eventually(Duration::from_secs(10), || {
        left = rig.processes();
        left.len() == 1 && left.iter().all(|&pid| command_line(pid).starts_with("sleep"))
    });
    assert!(found, "{left:?}");
    left.into_iter().for_each(|pid| send(pid, Signal::KILL));
    rig.assert_nothing_left(&Default::default(), "killed");
}
