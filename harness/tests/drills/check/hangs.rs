//! Nothing hangs a check, and nothing survives it.

use std::time::Duration;

use rustix::process::Signal;

use super::{REPORT, server, words};
use crate::support::{PATIENCE, Rig, eventually, skipped};

const SHORT: [&str; 6] = ["--ready-timeout", "1s", "--signal-at", "200ms", "--grace", "1s"];
/// How long that may take in one seat, besides [`REPORT`].
const GIVEN: Duration = Duration::from_millis(2200);

/// A command, how it is told of, and the exit status of the check.
const ROWS: &[(&str, &[&str], &str, i32)] = &[
    ("never listens", &["sh", "-c", "exec sleep 1000"], "did not listen on port", 3),
    ("floods its output", &["sh", "-c", "exec yes"], "did not listen on port", 3),
    ("floods its output from behind", &["sh", "-c", "yes & exec sleep 1000"], "did not listen on port", 3),
    ("ends at once", &["sh", "-c", "echo no good >&2; exit 3"], "no good", 3),
    ("forks and leaves", &["sh", "-c", "sleep 1000 & exit 0"], "run", 3),
    ("daemonises", &["sh", "-c", "setsid sh -c 'sleep 1000 & exec sleep 1001' & exit 0"], "run", 3),
    ("closes its output", &["sh", "-c", "exec >&- 2>&- <&-; exec sleep 1000"], "did not listen on port", 3),
    ("ignores everything", &["sh", "-c", "trap '' TERM INT HUP QUIT; sleep 1000; sleep 1000"], "did not listen", 3),
    (
        "eats what memory it gets",
        &["sh", "-c", "ulimit -v 100000; exec python3 -c 'x = []\nwhile True: x.append(bytes(1 << 20))'"],
        "MemoryError",
        3,
    ),
    ("is killed by somebody else", &["sh", "-c", "kill -KILL $$"], "SIGKILL", 3),
];

#[test]
fn whatever_the_command_does_there_is_a_report_and_nothing_is_left() {
    for (what, command, said, code) in ROWS {
        if command.iter().any(|word| word.contains("python3")) && !there("python3") {
            skipped("python3 is not there");
            continue;
        }
        let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
        let rig = Rig::new();
        // One that ends by itself has the time that it takes.
        let (options, given) = match *said {
            "MemoryError" => (&SHORT[2..], Duration::from_secs(30)),
            _ => (&SHORT[..], GIVEN),
        };
        let mut words = words(options, &command);
        words.remove(1);
        let running = rig.start(&mut rig.command(&words));
        let ended = running.wait_for(2 * (given + REPORT)).unwrap_or_else(|| panic!("{what}: no report"));
        rig.assert_nothing_left(&Default::default(), what);
        assert_eq!(ended.code, Some(*code), "{what}: {ended:?}");
        // Seats as PID 1 where there are none say something else.
        let flat = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(said) || flat.contains("PID namespace"), "{what}: {ended:?}");
    }
}

fn there(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|path| path.join(program).exists()))
}

/// A server that ignores the signal, one that dies before it, one whose child holds the port, one below a shell that
/// ignores it.
#[test]
fn whatever_a_server_does_about_the_signal_nothing_is_left() {
    let line = shlex::try_join(server::command().iter().map(String::as_str)).unwrap();
    for (what, habits, command, said, signal_at) in [
        ("ignores", "ignore=yes", line.clone(), "SIGKILL", 1),
        // It is seen to be ready long before that, and the signal would come long after it.
        ("dies early", "dies=2000", line.clone(), "by itself before the signal", 10),
        ("an orphan holds the port", "ignore=yes", format!("{line} & wait"), "lived on", 1),
        ("a session of its own", "ignore=yes", format!("trap '' TERM; setsid {line}"), "lived on", 1),
    ] {
        let rig = Rig::new();
        let exec = if command.contains(['&', ';']) { command } else { format!("exec {command}") };
        let command = ["sh".to_owned(), "-c".to_owned(), exec];
        let at = format!("{signal_at}s");
        let options = ["--as", "process", "--signal-at", &at, "--grace", "700ms", "--routing-lag", "200ms"];
        let mut words = words(&options, &command);
        words.remove(1);
        let running = rig.start(rig.command(&words).env(server::HABITS, habits));
        // So long until the signal, and 0.7 s from there; and it has to start.
        let given = Duration::from_secs(signal_at) + Duration::from_millis(1700);
        let ended = running.wait_for(given + REPORT).unwrap_or_else(|| panic!("{what}: no report"));
        rig.assert_nothing_left(&Default::default(), what);
        assert_eq!(ended.code, Some(1), "{what}: {ended:?}");
        // Reasons are wrapped.
        let flat = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(said), "{what}: {ended:?}");
    }
}

#[test]
fn a_check_that_is_ended_early_leaves_nothing() {
    for seat in ["pid1", "process"] {
        for (signal, group) in [(Signal::INT, true), (Signal::TERM, false), (Signal::KILL, false)] {
            let rig = Rig::new();
            let command = server::command();
            let options = ["--as", seat, "--signal-at", "100s", "--every", "20ms"];
            let running = rig.start(rig.command(&words(&options, &command)).env(server::HABITS, "ignore=yes"));
            let serves = || rig.processes().len() >= 3;
            assert!(eventually(PATIENCE, || serves() || running.has_ended(Duration::ZERO)));
            if !serves() {
                skipped("no PID namespace can be had here");
                continue;
            }
            if group {
                running.signal_group(signal);
            } else {
                running.signal(signal);
            }
            rig.assert_nothing_left(&Default::default(), &format!("{seat} {signal:?}"));
            assert_eq!(running.wait().signal, Some(signal.as_raw()), "{seat}");
        }
    }
}
