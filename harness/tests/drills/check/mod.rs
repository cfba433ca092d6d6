//! `termdrill check` on real servers: every fate, what can hang, and that nothing is left behind.

mod hangs;
mod memory;
mod reports;
mod server;
mod stages;
mod stalls;
mod users;

use std::time::Duration;

use harness::check::record::{Cause, Record, SeatRecord, Verdict};
use harness::check::settings::Seat;

use crate::support::{Ended, Rig, skipped};

/// The words of a check of `command`.
fn words<'a>(options: &[&'a str], command: &'a [String]) -> Vec<&'a str> {
    let mut words = vec!["check", "--json"];
    words.extend(options);
    words.push("--");
    words.extend(command.iter().map(String::as_str));
    words
}

fn record(ended: &Ended) -> Record {
    let record: Record =
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("no document: {error}: {ended:?}"));
    assert_eq!(ended.code, Some(i32::from(record.verdict.exit_code())), "{ended:?}");
    assert_eq!(ended.stderr, "");
    record
}

/// Checks our own server with these habits.
fn check(habits: &str, options: &[&str]) -> Record {
    let rig = Rig::new();
    let command = server::command();
    let ended = rig.run_command(rig.command(&words(options, &command)).env(server::HABITS, habits));
    rig.assert_nothing_left(&Default::default(), habits);
    record(&ended)
}

/// What a person would want to see of a drill that did not come out as it should.
fn told(seat: &SeatRecord) -> String {
    let odd = seat.observed.requests.iter().filter(|request| request.fate.name() != "completed").take(20);
    format!("{:?}\n{:?}\n{:?}\n{:?}", seat.judgement, seat.explanation, odd.collect::<Vec<_>>(), seat.observed.client)
}

fn fates(seat: &SeatRecord, fate: &str) -> usize {
    seat.observed.requests.iter().filter(|request| request.fate.name() == fate).count()
}

/// What is said where our own side was too slow, or the machine for our server.
const SLOW: [&str; 2] = ["too slow", "did not accept fast enough"];

/// Whether nothing follows since the machine was too slow; says so.
fn was_too_slow(seat: &SeatRecord) -> bool {
    let slow = seat.judgement.verdict == Verdict::Inconclusive
        && seat.judgement.reasons.iter().all(|reason| SLOW.iter().any(|slow| reason.contains(slow)));
    if slow {
        skipped(&seat.judgement.reasons.join(" "));
    }
    slow
}

/// Whether seats as PID 1 can be had here; says so where not.
fn can_be_pid1(record: &Record) -> bool {
    let why = record.seats.iter().filter(|seat| seat.seat == Seat::Pid1).find_map(|seat| seat.observed.unable.as_ref());
    if let Some(why) = why.filter(|why| why.contains("PID namespace")) {
        skipped(why);
        return false;
    }
    true
}

#[test]
fn a_server_that_drains_passes_in_both_seats() {
    let options = ["--slow-request", "/slow", "--routing-lag", "300ms", "--signal-at", "500ms", "--grace", "8s"];
    // The slow request is sent 0.1 s before the signal, and lasts long enough to be in flight then whatever comes in between.
    let record = check("linger=900 slow=2500", &options);
    if !can_be_pid1(&record) {
        return;
    }
    assert_eq!(record.seats.len(), 2);
    for seat in record.seats.iter().filter(|seat| !was_too_slow(seat)) {
        assert_eq!(seat.judgement.verdict, Verdict::Pass, "{}", told(seat));
        assert_eq!((seat.judgement.lost, seat.judgement.refused), (0, 0));
        assert_eq!(seat.explanation.cause, Cause::Ended, "{}", told(seat));
        let across = seat.observed.requests.iter().filter(|request| request.phase.name() == "across").count();
        assert!(across >= 1, "{}", told(seat));
        assert!(seat.observed.listener_closed_us.unwrap() >= 800_000, "{:?}", seat.observed.listener_closed_us);
        assert!(seat.observed.app_gone_us >= seat.observed.listener_closed_us.map(|us| us - 50_000));
    }
}

/// How many checks of a server under load are made, if [`RUNS`] does not say.
const USUAL_RUNS: usize = 5;
/// The variable that says it: for the proof that was promised, 50.
const RUNS: &str = "TERMDRILL_LOAD_RUNS";

/// 1,000 requests a second: whatever our own side is late with is no loss of the server's.
#[test]
fn a_correct_server_under_load_loses_nothing() {
    let runs = std::env::var(RUNS).map_or(USUAL_RUNS, |runs| runs.parse().unwrap());
    let options = ["--every", "1ms", "--signal-at", "600ms", "--routing-lag", "300ms", "--clients", "500"];
    let mut passed = 0;
    let (mut sent, mut left_out, mut worst_late_us) = (0, 0, 0);
    let mut drills = 0;
    for _ in 0..runs {
        let record = check("linger=900 patience=2000", &options);
        for seat in record.seats.iter().filter(|seat| !seat.judgement.reasons.join("").contains("PID namespace")) {
            drills += 1;
            assert_eq!((seat.judgement.lost, seat.judgement.refused), (0, 0), "{}", told(seat));
            assert_ne!(seat.judgement.verdict, Verdict::Fail, "{}", told(seat));
            // One that proves nothing says that it was for want of time.
            let was_slow = was_too_slow(seat);
            assert!(seat.judgement.verdict == Verdict::Pass || was_slow, "{}", told(seat));
            passed += usize::from(!was_slow);
            sent += seat.observed.requests.len();
            left_out += seat.observed.client.left_out;
            worst_late_us = worst_late_us.max(seat.observed.client.worst_late_us);
        }
    }
    println!(
        "{passed} of {drills} drills passed with {sent} requests, none of them lost; {left_out} could not be sent in time; \
         the latest was {worst_late_us} us late"
    );
}

#[test]
fn one_request_in_a_thousand_that_is_lost_is_caught() {
    let options = ["--every", "1ms", "--signal-at", "1s", "--routing-lag", "400ms", "--clients", "500"];
    let record = check("linger=1500 every=1000 how=close patience=2000", &options);
    for seat in record.seats.iter().filter(|seat| !seat.judgement.reasons.join("").contains("PID namespace")) {
        if seat.observed.requests.len() < 1000 {
            skipped(&format!("the machine was too slow for 1,000 requests: {}", seat.observed.requests.len()));
            continue;
        }
        assert_eq!((seat.judgement.lost, fates(seat, "closed_without_answer")), (1, 1), "{}", told(seat));
        assert_eq!(seat.judgement.verdict, Verdict::Fail);
    }
}

#[test]
fn every_fate_is_told_apart() {
    // Some requests come after the signal, even where nothing is sent for a second.
    let short = ["--as", "process", "--signal-at", "500ms", "--routing-lag", "1500ms", "--grace", "6s"];
    for (habits, more, fate, verdict) in [
        ("linger=2000 after=yes how=close", &[][..], "closed_without_answer", Verdict::Fail),
        ("linger=2000 after=yes how=reset", &[], "reset", Verdict::Fail),
        ("linger=2000 after=yes how=truncate", &[], "truncated", Verdict::Fail),
        ("linger=2000 after=yes how=500", &[], "completed_5xx", Verdict::Fail),
        // Turned away, as a router can see.
        ("linger=2000 after=yes how=503", &[], "completed_5xx", Verdict::Fail),
        ("linger=2000 after=yes how=503", &["--allow-refused", "100%"], "completed_5xx", Verdict::Pass),
        ("linger=2000 every=2 how=500", &[], "completed_5xx", Verdict::Pass),
        ("linger=2000 after=yes how=hang", &["--request-timeout", "300ms"], "timed_out", Verdict::Fail),
        ("linger=0", &[], "refused", Verdict::Fail),
        ("linger=0", &["--allow-refused", "100%"], "refused", Verdict::Pass),
    ] {
        let record = check(habits, &[&short, more].concat());
        let seat = &record.seats[0];
        if was_too_slow(seat) {
            continue;
        }
        assert!(fates(seat, fate) > 0, "{habits}: {}", told(seat));
        assert_eq!(record.verdict, verdict, "{habits} {more:?}: {}", told(seat));
    }
}

/// Fewer file descriptors than requests that are never answered: that is a report, too. The command keeps its own limit.
#[test]
fn where_descriptors_run_out_there_is_a_report() {
    let line = shlex::try_join(server::command().iter().map(String::as_str)).unwrap();
    let command = ["sh".to_owned(), "-c".to_owned(), format!("ulimit -n; ulimit -Sn $(ulimit -Hn); exec {line}")];
    let options = ["--as", "process", "--signal-at", "700ms", "--grace", "1s", "--every", "1ms", "--clients", "400"];
    for (limit, is_hard) in [("ulimit -n 200", true), ("ulimit -Sn 200; ulimit -Hn 4000", false)] {
        let rig = Rig::new();
        let limit = format!("{limit}; exec \"$@\"");
        let wrapper = ["sh", "-c", &limit, "sh"].map(std::ffi::OsStr::new);
        let mut asked = rig.wrapped(&wrapper, &words(&options, &command));
        let ended = rig.run_command(asked.env(server::HABITS, "every=1 how=hang"));
        rig.assert_nothing_left(&Default::default(), &limit);
        let seat = record(&ended).seats.remove(0);
        assert_eq!(seat.judgement.verdict, Verdict::Fail, "{}", told(&seat));
        assert_eq!(seat.observed.client.unable, 0, "{}", told(&seat));
        assert_eq!(seat.observed.client.limit, is_hard.then_some(72), "{}", told(&seat));
        assert_eq!(seat.observed.output.lines().next(), Some("200"), "{}", seat.observed.output);
        let remarks = seat.judgement.remarks.join(" ");
        let why = if is_hard {
            "72 were in flight, as many as there are file descriptors"
        } else {
            "400 were in flight (--clients)"
        };
        // One that is so slow that it does not come to that shows nothing.
        assert!(seat.observed.client.left_out > 100 || remarks.contains(why), "{remarks}");
    }
}

/// A server that never takes what waits in the kernel's queue.
#[test]
fn what_waits_in_the_kernel_s_queue_is_told_apart_from_what_was_reset() {
    let rig = Rig::new();
    let script = "import os, socket, signal, time\ns = socket.socket(); s.bind(('127.0.0.1', int(os.environ['PORT'])))\n\
                  s.listen(50)\nsignal.signal(signal.SIGTERM, lambda *_: os._exit(0))\nwhile True: time.sleep(1)";
    let command = ["python3", "-c", script].map(str::to_owned);
    let ended = rig.run(&words(&["--as", "process", "--signal-at", "500ms", "--grace", "2s"], &command));
    if ended.stderr.contains("there is no program") {
        return skipped("python3 is not there");
    }
    let record = record(&ended);
    let seat = &record.seats[0];
    assert!(fates(seat, "accepted_never_served") >= 3, "{}", told(seat));
    assert!(seat.explanation.change.as_ref().is_some_and(|change| change.contains("queue")), "{}", told(seat));
}

#[test]
fn a_shell_in_front_is_named_in_both_seats() {
    let rig = Rig::new();
    let line = shlex::try_join(server::command().iter().map(String::as_str)).unwrap();
    let command = ["sh".to_owned(), "-c".to_owned(), format!("{line}; true")];
    let options = ["--signal-at", "300ms", "--grace", "1s", "--routing-lag", "100ms"];
    let ended = rig.run_command(rig.command(&words(&options, &command)).env(server::HABITS, "linger=0"));
    rig.assert_nothing_left(&Default::default(), "sh");
    let record = record(&ended);
    if !can_be_pid1(&record) {
        return;
    }
    let [pid1, process] = &record.seats[..] else { panic!("two seats") };
    assert_eq!(pid1.explanation.cause, Cause::Dropped, "{}", told(pid1));
    assert_eq!(process.explanation.cause, Cause::NotPassedOn, "{}", told(process));
    for seat in [pid1, process] {
        assert_eq!(seat.judgement.verdict, Verdict::Fail);
        assert!(seat.explanation.change.as_ref().is_some_and(|change| change.contains("`exec`")), "{}", told(seat));
    }
    assert!(process.judgement.reasons.iter().any(|reason| reason.contains("lived on")), "{}", told(process));
    assert!(record.difference.is_some());
}

#[test]
fn the_shortest_grace_period_is_found() {
    let rig = Rig::new();
    let command = server::command();
    let options =
        ["--find-grace", "--as", "process", "--signal-at", "300ms", "--slow-request", "/slow", "--grace", "4s"];
    let out = rig.path("out").display().to_string();
    let options = [&options[..], &["--routing-lag", "0", "--out", &out, "--env", "DB_PASSWORD=PRIVATE"]].concat();
    let ended = rig.run_command(rig.command(&words(&options, &command)).env(server::HABITS, "linger=0"));
    let document: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    assert!(!ended.stdout.contains("PRIVATE") && ended.stdout.contains("DB_PASSWORD"), "{ended:?}");
    for (number, trial) in (1..).zip(document["seats"][0]["trials"].as_array().unwrap()) {
        let stored = rig.path("out").join(format!("trial-{number}-process"));
        let record: Record = serde_json::from_slice(&std::fs::read(stored.join("check.json")).unwrap()).unwrap();
        assert_eq!(Some(record.settings.grace_ms), trial["grace_ms"].as_u64());
        assert!(stored.join("output-process.log").is_file());
    }
    assert!(rig.path("out/grace.json").is_file());
    let answer = &document["seats"][0]["answer"];
    if answer == "unstable" || answer == "inconclusive" {
        return skipped(&format!("the machine was too busy for an answer: {document}"));
    }
    // The slow request is sent 0.1 s before the signal and takes 0.5 s.
    let grace_ms = answer["shortest"]["grace_ms"].as_u64().unwrap_or_else(|| panic!("{document}"));
    assert!((400..=1500).contains(&grace_ms), "{document}");
    assert_eq!(ended.code, Some(0));
}

/// Every trial of a server that only waits for idle connections would pass if those were let go of in time for it.
#[test]
fn a_grace_period_is_not_found_short_for_letting_go_of_idle_connections_sooner() {
    let rig = Rig::new();
    let command = server::command();
    let options = ["--find-grace", "--as", "process", "--signal-at", "300ms", "--grace", "2s", "--routing-lag", "0"];
    let ended = rig.run_command(rig.command(&words(&options, &command)).env(server::HABITS, "linger=0 patient=yes"));
    let document: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    let found = &document["seats"][0];
    if found["answer"] == "unstable" || found["answer"] == "inconclusive" {
        return skipped(&format!("the machine was too busy for an answer: {document}"));
    }
    // They are given up 0.9 s after the signal in each.
    let grace_ms = found["answer"]["shortest"]["grace_ms"].as_u64().unwrap_or_else(|| panic!("{document}"));
    assert!((900..=1500).contains(&grace_ms), "{document}");
    let text = found["text"].as_str().unwrap();
    assert!(text.contains("only when the drills gave up their idle connections, 900 ms after the signal"), "{text}");
}

#[test]
fn what_is_asked_for_wrongly_is_refused() {
    for (options, what) in [
        (&["check"][..], "there is no command"),
        (&["check", "--json", "--", "no-such-program-at-all"], "no program"),
        (&["check", "--grace", "1s", "--pre-stop", "2s", "--", "true"], "preStop"),
        (&["check", "--report", "x.pdf", "--", "true"], ".json, .xml"),
        (&["check", "--report", "x.svg", "--", "true"], ".html for a page with the picture"),
        (&["check", "--report", "nowhere/x.json", "--", "true"], "its directory is not there"),
        (&["check", "--find-grace", "--report", "x.xml", "--", "true"], "no JUnit"),
        (&["check", "--find-grace", "--show-output", "--", "true"], "--show-output"),
        (&["check", "--find-grace", "--kernel-trace", "--", "true"], "--kernel-trace"),
        (&["check", "--config", "none.toml", "--", "true"], "none.toml"),
        (&["check", "--cwd", "nowhere", "--", "true"], "--cwd"),
        (&["check", "--request", "get", "--", "true"], "GET /path"),
        (&["check", "--ready", "http:/a b", "--", "true"], "http:/path"),
        (&["check", "--request-timeout", "0", "--", "true"], "above 0"),
        (&["check", "--ready-timeout", "0s", "--", "true"], "above 0"),
        (&["check", "--after", "1s", "--", "true"], "--second-signal INT"),
        (&["check", "--request", "POST /", "--header", "Content-Length: 5", "--", "true"], "leave that header out"),
        (&["check", "--env", "=x", "--", "true"], "NAME=VALUE"),
        (&["check", "--signal", "TREM", "--", "true"], "signal"),
        (&["check", "--second-signal", "37", "--", "true"], "1 to 31"),
        (&["check", "--every", "1us", "--", "true"], "100us"),
        (&["check", "--as", "pid2", "--", "true"], "pid1"),
        (&["check", "--profile", "kube", "--", "true"], "kubernetes"),
    ] {
        let ended = Rig::new().run(options);
        ended.assert_refused(2, what);
    }
}

#[test]
fn a_configuration_file_is_found_and_the_command_line_counts_for_more() {
    let rig = Rig::new();
    let command = shlex::try_join(server::command().iter().map(String::as_str)).unwrap();
    let text = format!(
        "command = {command:?}\nas = \"process\"\nsignal_at = \"200ms\"\ngrace = \"9s\"\nrequest = ['/a', '/b']\n"
    );
    std::fs::write(rig.path("cwd").join("termdrill.toml"), text).unwrap();
    let mut asked = rig.command(&["check", "--json", "--grace", "4s"]);
    let record = record(&rig.run_command(asked.env(server::HABITS, "linger=1200")));
    assert_eq!((record.settings.grace_ms, record.settings.requests.len()), (4000, 2));
    assert_eq!(record.settings.seats, [Seat::Process]);
    assert!(was_too_slow(&record.seats[0]) || record.verdict == Verdict::Pass, "{}", told(&record.seats[0]));
    let templates: std::collections::BTreeSet<usize> =
        record.seats[0].observed.requests.iter().map(|request| request.template).collect();
    assert_eq!(templates.len(), 2, "both were asked");
}

/// How much longer than what it is given until the end of the grace period a check may take until the report is there.
const REPORT: Duration = Duration::from_secs(5);
