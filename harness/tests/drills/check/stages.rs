//! A server in Python whose stages are known (`tests/servers/stages.py`): when it is ready and how it says so, whom a signal
//! reaches, and what a second one does.

use harness::{
    check::{
        record::{Cause, Record, SeatRecord, Verdict},
        settings::Seat,
    },
    evidence::{
        Kernel,
        kernel::{Outcome, Step},
    },
};
use scenarios::{Signal, Status};

use super::{can_be_pid1, record, told, words};
use crate::support::{Rig, skipped};

/// A stop that is short, with no requests after the signal.
const SHORT: [&str; 6] = ["--signal-at", "300ms", "--grace", "4s", "--routing-lag", "0ms"];

/// The system's own Python, or the first one in PATH. A version manager's is a slow script.
fn python() -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once("/usr/bin".into()).chain(std::env::split_paths(&path));
    let found = folders.map(|folder: std::path::PathBuf| folder.join("python3")).find(|python| python.exists());
    if found.is_none() {
        skipped("python3 is not there");
    }
    found.map(|python| python.display().to_string())
}

/// The server as a command line.
fn server() -> Option<String> {
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/stages.py");
    let words = [python()?, script.display().to_string()];
    Some(shlex::try_join(words.iter().map(String::as_str)).unwrap())
}

/// Checks what `form` makes of the server, for which it has `SERVER`, in a shell.
fn check(form: &str, stages: &[(&str, &str)], options: &[&str]) -> Option<Record> {
    let rig = Rig::new();
    let line = form.replace("SERVER", &server()?);
    let command = ["sh".to_owned(), "-c".to_owned(), line];
    let ended = rig.run_command(rig.command(&words(options, &command)).envs(stages.iter().copied()));
    rig.assert_nothing_left(&Default::default(), form);
    Some(record(&ended))
}

/// The same without a shell that stays, in one seat.
fn check_alone(stages: &[(&str, &str)], options: &[&str]) -> Option<SeatRecord> {
    let options = [&["--as", "process"], options].concat();
    Some(check("exec SERVER", stages, &options)?.seats.remove(0))
}

fn unable(seat: &SeatRecord) -> &str {
    seat.observed.unable.as_deref().unwrap_or_else(|| panic!("{}", told(seat)))
}

#[test]
fn it_is_ready_when_a_path_is_answered_with_success() {
    let ready = [&SHORT[..], &["--ready", "http:/ready"]].concat();
    for stages in [&[("READY_MS", "700")], &[("BOOT_MS", "700")]] {
        let Some(seat) = check_alone(stages, &ready) else { return };
        assert_eq!(seat.judgement.verdict, Verdict::Pass, "{}", told(&seat));
        assert!(seat.observed.boot.ready_after_us.unwrap() >= 700_000, "{:?}", seat.observed.boot);
        assert!(seat.observed.requests.iter().all(|request| request.status == Some(200)), "{}", told(&seat));
    }
}

#[test]
fn what_never_gets_ready_says_how_far_it_got() {
    let never = ("READY_MS", "60000");
    // Where it has to answer it has the time to start.
    for (ready, timeout, stages, why) in [
        ("http:/ready", "8s", never, "GET /ready was not answered with 200 to 399 within 8 s; the last answer was 503"),
        ("http:/missing", "8s", ("READY_MS", "0"), "the last answer was 404"),
        ("http:/ready", "1500ms", ("BOOT_MS", "60000"), "it did not listen on port"),
        ("notify", "1500ms", never, "it did not say READY=1 within 1.5 s"),
        ("notify", "1500ms", ("SAYS", "STATUS=nearly"), "it did not say READY=1 within 1.5 s"),
    ] {
        let options = [&SHORT[..], &["--ready", ready, "--ready-timeout", timeout]].concat();
        let Some(seat) = check_alone(&[stages], &options) else { return };
        assert!(unable(&seat).contains(why), "{ready} {stages:?}: {}", unable(&seat));
        assert_eq!(seat.judgement.verdict, Verdict::Inconclusive);
    }
}

#[test]
fn it_is_ready_when_it_says_so() {
    let notify = [&SHORT[..], &["--ready", "notify"]].concat();
    let Some(seat) = check_alone(&[("READY_MS", "700")], &notify) else { return };
    assert_eq!(seat.judgement.verdict, Verdict::Pass, "{}", told(&seat));
    // It listened all the while, and was asked nothing.
    assert!(seat.observed.boot.ready_after_us.unwrap() >= 700_000, "{:?}", seat.observed.boot);

    // In both seats: as PID 1 it is in a namespace of its own, and reaches the socket all the same.
    let both = check("exec SERVER", &[("SAYS", "STATUS=almost\nREADY=1\n")], &notify).unwrap();
    assert!(both.seats.iter().all(|seat| seat.observed.boot.ready_after_us.is_some()) || !can_be_pid1(&both));

    // One that says so and does not listen.
    let python = python().unwrap();
    let says = "import os, socket, time\ns = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n\
                s.sendto(b'READY=1', '\\0' + os.environ['NOTIFY_SOCKET'][1:])\ntime.sleep(60)";
    let command = [python, "-c".to_owned(), says.to_owned()];
    let options = [&notify[..], &["--as", "process", "--ready-timeout", "8s"]].concat();
    let ended = Rig::new().run(&words(&options, &command));
    let record = record(&ended);
    assert!(unable(&record.seats[0]).starts_with("it said READY=1, but did not listen on port"), "{ended:?}");
}

/// A server's own socket for notices, which is a path, is none of ours.
#[test]
fn a_socket_of_its_own_can_be_named() {
    let rig = Rig::new();
    let path = rig.path("notify");
    let theirs = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let Some(line) = server() else { return };
    let variable = format!("NOTIFY_SOCKET={}", path.display());
    let options = [&SHORT[..], &["--as", "process", "--env", &variable]].concat();
    let command = ["sh".to_owned(), "-c".to_owned(), format!("exec {line}")];
    let record = record(&rig.run(&words(&options, &command)));
    assert_eq!(record.verdict, Verdict::Pass, "{}", told(&record.seats[0]));
    let mut message = [0; 64];
    let count = theirs.recv(&mut message).unwrap();
    assert_eq!(&message[..count], b"READY=1");
}

/// Whom the signal reaches behind a shell that passes nothing on: the server says so itself.
#[test]
fn a_signal_goes_to_the_top_its_group_or_all() {
    // A shell that waits for the server, which is in its group or in a session of its own.
    let (same, own) = ("SERVER & wait", "setsid SERVER & wait");
    for (to, form, reaches) in [
        ("top", same, false),
        ("group", same, true),
        ("all", same, true),
        ("top", own, false),
        ("group", own, false),
        ("all", own, true),
    ] {
        // Whom it reaches has drained long before the end of that.
        let grace = if reaches { "8s" } else { "1500ms" };
        let options = ["--signal-at", "300ms", "--grace", grace, "--routing-lag", "0ms", "--to", to];
        let Some(record) = check(form, &[("DRAIN_MS", "400")], &options) else { return };
        if !can_be_pid1(&record) {
            return;
        }
        for seat in &record.seats {
            let what = format!("{to} {form} as {:?}: {}", seat.seat, told(seat));
            let sent = seat.observed.signal.as_ref().unwrap();
            let (top, app) = (seat.observed.top_pid.unwrap(), seat.observed.app_pid.unwrap());
            assert!(sent.pids.contains(&top) && top != app, "{what}");
            assert_eq!(sent.pids.contains(&app), reaches, "{what}");
            assert_eq!(seat.observed.output.contains("got SIGTERM"), reaches, "{what}");
            assert_eq!(seat.judgement.verdict == Verdict::Pass, reaches, "{what}");
            assert_eq!(seat.explanation.text.contains("SIGTERM went to 2 processes"), reaches, "{what}");
            let exit = match (seat.seat, reaches) {
                // The shell has no handler: as PID 1 it is deaf, and ends when the server has; else it dies at once.
                (Seat::Pid1, true) => Status::SUCCESS,
                (Seat::Pid1, false) => Status::SIGKILL,
                (Seat::Process, _) => Status::SIGTERM,
            };
            assert_eq!(seat.observed.exit, Some(exit), "{what}");
        }
    }
}

#[test]
fn a_second_signal_reaches_what_still_drains() {
    let options = [&SHORT[..], &["--second-signal", "INT", "--after", "500ms"]].concat();
    // It drains for longer than that, and a second signal has it leave at once.
    let Some(record) = check("exec SERVER", &[("DRAIN_MS", "60000")], &options) else { return };
    for seat in record.seats.iter().filter(|seat| seat.observed.unable.is_none()) {
        let second = seat.observed.second_signal.as_ref().unwrap();
        assert_eq!((second.signal, &second.pids[..]), (Signal::INT, &[seat.observed.top_pid.unwrap()][..]));
        assert!((500_000..4_000_000).contains(&second.at_us), "within the grace period: {second:?}");
        assert_eq!(seat.observed.exit, Some(Status::Code(7)), "{}", told(seat));
        assert!(seat.observed.top_gone_us.unwrap() >= second.at_us, "{}", told(seat));
        assert!(seat.explanation.text.contains(", got SIGINT after "), "{}", seat.explanation.text);
        assert!(seat.observed.output.contains("got SIGTERM\ngot SIGINT"), "{}", seat.observed.output);
    }
    // It is gone before the second signal, which then goes to nobody.
    let options = [&SHORT[..], &["--second-signal", "INT", "--after", "3500ms"]].concat();
    let seat = check_alone(&[("DRAIN_MS", "50")], &options).unwrap();
    assert_eq!((seat.observed.exit, &seat.observed.second_signal), (Some(Status::SUCCESS), &None), "{}", told(&seat));
    assert_eq!(seat.judgement.verdict, Verdict::Pass, "{}", told(&seat));
    assert!(!seat.explanation.text.contains("SIGINT"), "{}", seat.explanation.text);
}

/// The signal comes while it boots: before its handler, and between that and its port.
#[test]
fn a_signal_during_boot_is_not_lost_only_where_a_handler_is_there() {
    let options = ["--signal-at", "during-boot", "--grace", "1500ms"];
    let Some(python) = python() else { return };
    let slow = "import time\ntime.sleep(60)".to_owned();
    let ended = Rig::new().run(&words(&options, &[python, "-c".to_owned(), slow]));
    let without = record(&ended);
    if !can_be_pid1(&without) {
        return;
    }
    let causes = |record: &Record| -> Vec<_> {
        record.seats.iter().map(|seat| (seat.explanation.cause, seat.observed.exit)).collect()
    };
    let deaf = (Cause::Dropped, Some(Status::SIGKILL));
    assert_eq!(causes(&without), [deaf, (Cause::Died, Some(Status::SIGTERM))], "{ended:?}");

    // The start of Python itself may take longer than that here, so the moment is given.
    let late = ["--signal-at", "start+3s", "--grace", "4s"];
    let with = check("exec SERVER", &[("BOOT_MS", "60000")], &late).unwrap();
    for seat in &with.seats {
        assert_eq!(
            (seat.explanation.cause, seat.observed.exit),
            (Cause::Ended, Some(Status::SUCCESS)),
            "{}",
            told(seat)
        );
        assert_eq!(seat.judgement.verdict, Verdict::Pass, "{}", told(seat));
        assert!(seat.observed.requests.is_empty() && seat.observed.boot.ready_after_us.is_none());
    }
    // A handler that comes after the signal, and before the SIGKILL, by seconds each.
    let late = "import runpy, sys, time\ntime.sleep(3)\nrunpy.run_path(sys.argv[1], run_name='__main__')";
    let late = shlex::try_quote(late).unwrap();
    let words = shlex::split(&server().unwrap()).unwrap();
    let form = format!("exec {} -c {late} {}", words[0], shlex::try_quote(&words[1]).unwrap());
    let options = ["--as", "pid1", "--signal-at", "start+300ms", "--grace", "8s"];
    let record = check(&form, &[], &options).unwrap();
    let pid1 = &record.seats[0];
    assert_eq!(pid1.observed.exit, Some(Status::SIGKILL), "{}", told(pid1));
    assert!(pid1.explanation.text.contains("A handler that is installed after it does not get it"), "{}", told(pid1));
    assert!(pid1.explanation.change.as_ref().unwrap().contains("first of all"), "{}", told(pid1));
}

/// A command that ends by itself while it boots took no signal that it had no handler for.
#[test]
fn who_ends_by_chance_took_nothing() {
    let Some(python) = python() else { return };
    let options = ["--as", "pid1", "--signal-at", "start+300ms", "--grace", "20s"];
    let short = "import time\ntime.sleep(4)".to_owned();
    let record = record(&Rig::new().run(&words(&options, &[python, "-c".to_owned(), short])));
    if can_be_pid1(&record) {
        let seat = &record.seats[0];
        assert_eq!(
            (seat.explanation.cause, seat.observed.exit),
            (Cause::Dropped, Some(Status::SUCCESS)),
            "{}",
            told(seat)
        );
    }
}

/// Who sent it to whom, as the kernel recorded it: behind a shell that passes nothing on, with a signal that is not SIGTERM.
#[test]
fn the_kernel_s_record_of_the_signal() {
    let options =
        ["--kernel-trace", "--signal", "USR1", "--signal-at", "300ms", "--grace", "1500ms", "--routing-lag", "0ms"];
    let Some(record) = check("exec SERVER", &[], &options) else { return };
    if !can_be_pid1(&record) {
        return;
    }
    for seat in &record.seats {
        let records = match seat.observed.kernel.as_ref().unwrap() {
            Kernel::Records(records) => records,
            Kernel::Unavailable { why } => return skipped(why),
        };
        let signal = record.settings.signal;
        let steps: Vec<&Step> =
            records.iter().filter(|record| record.signal == signal).map(|record| &record.step).collect();
        let [Step::Sent { by, outcome: Outcome::Queued, .. }, Step::Delivered { handler: true }] = steps[..] else {
            panic!("{records:?}");
        };
        assert_eq!(by, "the harness");
        assert!(records.iter().all(|record| Some(record.pid) == seat.observed.top_pid), "{records:?}");
        let said = "to stages.py by the harness, queued, and the handler ran.";
        assert!(seat.explanation.text.ends_with(said), "{}", seat.explanation.text);
    }

    let record = check("SERVER & wait", &[], &options).unwrap();
    let pid1 = &record.seats[0];
    let said = "by the harness, dropped when it was sent; to stages.py none.";
    assert!(pid1.explanation.text.ends_with(said), "{}", told(pid1));
}

/// A platform that gives no time sends both signals all the same.
#[test]
fn a_grace_period_that_is_over_at_once_ends_in_sigkill() {
    for options in [&["--grace", "0"][..], &["--grace", "300ms", "--pre-stop", "300ms"]] {
        let options = [&["--signal-at", "200ms", "--routing-lag", "0"], options].concat();
        let Some(seat) = check_alone(&[], &options) else { return };
        assert!(seat.observed.signal.is_some() && seat.observed.sigkill.is_some(), "{}", told(&seat));
        assert!(seat.observed.exit.is_some(), "{}", told(&seat));
        assert!(!seat.judgement.reasons.concat().contains("did not even end"), "{}", told(&seat));
    }
}

#[test]
fn a_second_signal_that_is_sigkill_was_sent_by_the_check() {
    let options = ["--signal-at", "200ms", "--routing-lag", "0", "--second-signal", "KILL", "--after", "100ms"];
    let Some(seat) = check_alone(&[("DRAIN_MS", "3000")], &options) else { return };
    assert_eq!(seat.observed.exit, Some(Status::SIGKILL), "{}", told(&seat));
    assert!(!seat.judgement.reasons.concat().contains("not by this check"), "{}", told(&seat));
}

/// dash with `-c` and bash catch SIGINT without any trap.
#[test]
fn a_shell_that_takes_sigint_itself_is_said_to_have_no_trap() {
    let options = ["--signal-at", "300ms", "--grace", "1s", "--routing-lag", "0", "--signal", "INT"];
    for form in ["SERVER; true", "SERVER & wait"] {
        let Some(record) = check(form, &[], &options) else { return };
        for seat in record.seats.iter().filter(|seat| seat.observed.unable.is_none()) {
            assert_eq!(seat.judgement.verdict, Verdict::Fail, "{form}: {}", told(seat));
            assert!(!seat.explanation.text.contains("has a trap"), "{form}: {}", told(seat));
            assert!(!seat.explanation.text.contains("ran its trap"), "{form}: {}", told(seat));
        }
    }
}
