//! Each server by itself, and behind `dash -c`, which stays, and `bash -c`, which becomes it.

use harness::check::{
    fate::{Fate, Phase},
    record::{
        Cause::{Died, Dropped, Ended, NoReaction, NotPassedOn},
        Record,
        Verdict::{Fail, Pass},
    },
    settings::Seat,
};
use scenarios::Status;

use crate::{
    expect::{ANY, Expected, count, holds, seat},
    rig::{Rig, fixtures, found, free_port, program},
};

/// The usual: half a second of requests, one of them in flight when the signal comes, and none after it: what a server's
/// queue holds when it closes its port is lost. What was sent before the signal is not in there: the check waits for that.
const OPTIONS: [&str; 10] = [
    "--signal-at",
    "700ms",
    "--grace",
    "2500ms",
    "--slow-request",
    "GET /slow",
    "--routing-lag",
    "0ms",
    "--allow-refused",
    "3",
];

/// In flight when the signal comes, however late that is: for a server that is to lose it.
const ENDLESS: [&str; 2] = ["--slow-request", "GET /endless"];

/// Behind `dash -c`, whatever it is: the signal never gets beyond dash.
fn behind_dash(name: &str, record: &Record) -> Result<(), String> {
    let says: &[&str] = &["SIGTERM went to dash (PID 1)", "`exec` before the command in `-c`"];
    let stuck = Expected { verdict: Fail, exit: Status::SIGKILL, causes: &[Dropped], lost: (0, ANY), says };
    let says: &[&str] = &["and passed nothing on", "`exec` before the command in `-c`"];
    let orphaned = Expected { verdict: Fail, exit: Status::SIGTERM, causes: &[NotPassedOn], lost: (0, ANY), says };
    holds(name, record, Seat::Pid1, &stuck)?;
    holds(name, record, Seat::Process, &orphaned)
}

fn all_hold(name: &str, record: &Record, expected: &[(Seat, Expected)]) -> Result<(), String> {
    expected.iter().try_for_each(|(seat, expected)| holds(name, record, *seat, expected))
}

/// Checks `command` by itself and behind `bash -c`, which both come to `expected`, and behind `dash -c`.
fn three_ways(name: &str, options: &[&str], command: &[&str], expected: &[(Seat, Expected)]) {
    let rig = Rig::new();
    let line = command.join(" ");
    std::thread::scope(|scope| {
        scope.spawn(|| rig.check(options, command, |record| all_hold(name, record, expected)));
        if let Some(bash) = program("bash", &["--version"]) {
            let (rig, line, name) = (&rig, &line, format!("bash -c {name}"));
            scope.spawn(move || rig.check(options, &[&bash, "-c", line], |record| all_hold(&name, record, expected)));
        }
        if let Some(dash) = program("dash", &["-n"]) {
            let (rig, line, name) = (&rig, &line, format!("dash -c {name}"));
            scope.spawn(move || rig.check(options, &[&dash, "-c", line], |record| behind_dash(&name, record)));
        }
    });
}

/// The same in both seats.
fn both(of: impl Fn() -> Expected) -> [(Seat, Expected); 2] {
    [(Seat::Pid1, of()), (Seat::Process, of())]
}

fn drained(exit: Status) -> Expected {
    Expected { verdict: Pass, exit, causes: &[Ended], lost: (0, 0), says: &["which took it"] }
}

fn deaf(says: &'static [&'static str]) -> Expected {
    Expected { verdict: Fail, exit: Status::SIGKILL, causes: &[Dropped], lost: (0, ANY), says }
}

/// On SIGTERM it is to lose something.
fn nginx_options(signal: &str) -> Vec<&'static str> {
    if signal == "TERM" { [&OPTIONS[..], &ENDLESS].concat() } else { OPTIONS.to_vec() }
}

#[test]
fn nginx_drains_on_sigquit_and_loses_on_sigterm() {
    let Some(nginx) = program("nginx", &["-v"]) else { return };
    let rig = Rig::new();
    let lost = || Expected {
        verdict: Fail,
        exit: Status::SUCCESS,
        causes: &[Ended],
        lost: (1, ANY),
        says: &["SIGTERM went to nginx itself", "stop nginx with SIGQUIT"],
    };
    let drained = || Expected { says: &["SIGQUIT went to nginx itself"], ..drained(Status::SUCCESS) };
    for (signal, expected) in [("TERM", both(lost)), ("QUIT", both(drained))] {
        let reserved = free_port();
        let conf = rig.nginx(signal, reserved.number).display().to_string();
        let port = reserved.number.to_string();
        let options = [nginx_options(signal), vec!["--port", &port, "--signal", signal]].concat();
        rig.check(&options, &[&nginx, "-c", &conf], |record| all_hold(&format!("nginx {signal}"), record, &expected));
    }
}

#[test]
fn nginx_behind_shells() {
    let Some(nginx) = program("nginx", &["-v"]) else { return };
    let rig = Rig::new();
    for signal in ["TERM", "QUIT"] {
        let reserved = free_port();
        let conf = rig.nginx(&format!("shells-{signal}"), reserved.number).display().to_string();
        let port = reserved.number.to_string();
        let options = [nginx_options(signal), vec!["--port", &port, "--signal", signal]].concat();
        let line = format!("{nginx} -c {conf}");
        if let Some(dash) = program("dash", &["-n"]) {
            rig.check(&options, &[&dash, "-c", &line], |record| match signal {
                "TERM" => behind_dash("dash -c nginx, SIGTERM", record),
                _ => quit_behind_dash(record),
            });
        }
        let Some(bash) = program("bash", &["--version"]) else { continue };
        let says: &[&str] = &["SIGTERM went to nginx itself", "stop nginx with SIGQUIT"];
        let lost = || Expected { verdict: Fail, exit: Status::SUCCESS, causes: &[Ended], lost: (1, ANY), says };
        let drained = || Expected { says: &["SIGQUIT went to nginx itself"], ..drained(Status::SUCCESS) };
        let expected = if signal == "TERM" { both(lost) } else { both(drained) };
        rig.check(&options, &[&bash, "-c", &line], |record| {
            all_hold(&format!("bash -c nginx {signal}"), record, &expected)
        });
    }
}

/// SIGQUIT gets no further than SIGTERM does; a shell that dies of it may say so with a core dump.
fn quit_behind_dash(record: &Record) -> Result<(), String> {
    let says: &[&str] = &["SIGQUIT went to dash (PID 1)", "`exec` before the command in `-c`"];
    let stuck = Expected { verdict: Fail, exit: Status::SIGKILL, causes: &[Dropped], lost: (0, ANY), says };
    let says: &[&str] = &["and passed nothing on", "`exec` before the command in `-c`"];
    let exit = Status::Signal("SIGQUIT".parse().unwrap());
    let orphaned = Expected { verdict: Fail, exit, causes: &[NotPassedOn], lost: (0, ANY), says };
    holds("dash -c nginx, SIGQUIT", record, Seat::Pid1, &stuck)?;
    holds("dash -c nginx, SIGQUIT", record, Seat::Process, &orphaned)
}

#[test]
fn gunicorn_with_one_worker_serves_one_and_loses_its_queue() {
    let Some(gunicorn) = program("gunicorn", &["--version"]) else { return };
    let folder = fixtures().display().to_string();
    // Four at once, and nothing else. The one that it takes is not over soon.
    let slow = ["--slow-request", "GET /slower"];
    let options = [&OPTIONS[..4], &slow, &slow, &slow, &slow, &OPTIONS[6..], &["--every", "1m"]].concat();
    let says: &[&str] = &["SIGTERM went to gunicorn itself", "what waits in the kernel's queue"];
    let lost = || Expected { verdict: Fail, exit: Status::SUCCESS, causes: &[Ended], lost: (3, 3), says };
    let rig = Rig::new();
    let line = [&gunicorn, "--chdir", &folder, "app:wsgi"].join(" ");
    let holds = |name: &str, record: &Record| {
        all_hold(name, record, &both(lost))?;
        let served = |in_seat| count(seat(record, in_seat), Phase::Across, Fate::Completed);
        match (served(Seat::Pid1), served(Seat::Process)) {
            (1, 1) => Ok(()),
            others => Err(format!("{name} served {others:?}")),
        }
    };
    rig.check(&options, &[&gunicorn, "--chdir", &folder, "app:wsgi"], |record| holds("gunicorn", record));
    if let Some(bash) = program("bash", &["--version"]) {
        rig.check(&options, &[&bash, "-c", &line], |record| holds("bash -c gunicorn", record));
    }
    if let Some(dash) = program("dash", &["-n"]) {
        // It goes on, with all the time that it needs.
        rig.check(&options, &[&dash, "-c", &line], |record| behind_dash("dash -c gunicorn", record));
    }
}

#[test]
fn gunicorn_with_threads_serves_what_is_in_flight() {
    let Some(gunicorn) = program("gunicorn", &["--version"]) else { return };
    let folder = fixtures().display().to_string();
    let slow = ["--slow-request", "GET /slow"];
    let options = [&OPTIONS[..], &slow, &slow, &slow].concat();
    let command = [gunicorn.as_str(), "--threads", "8", "--chdir", &folder, "app:wsgi"];
    three_ways("gunicorn --threads", &options, &command, &both(|| drained(Status::SUCCESS)));
}

#[test]
fn gunicorn_cuts_what_takes_longer_than_its_own_timeout() {
    let Some(gunicorn) = program("gunicorn", &["--version"]) else { return };
    let folder = fixtures().display().to_string();
    let says: &[&str] = &["gunicorn finish what is in flight", "its own timeout"];
    let cut = || Expected { verdict: Fail, exit: Status::SUCCESS, causes: &[Ended], lost: (1, 1), says };
    // With threads it serves others meanwhile; a worker that does one thing at a time has nothing else to do here.
    for (name, workers, every) in
        [("gunicorn --threads", &["--threads", "8"][..], "100ms"), ("gunicorn, one worker", &[], "1m")]
    {
        let options = [&OPTIONS[..4], &ENDLESS, &["--routing-lag", "0ms", "--every", every]].concat();
        let command =
            [&[gunicorn.as_str()], workers, &["--graceful-timeout", "1", "--chdir", &folder, "app:wsgi"]].concat();
        three_ways(name, &options, &command, &both(cut));
    }
}

#[test]
fn uvicorn_drains_and_ends_differently_by_seat() {
    let Some(uvicorn) = program("uvicorn", &["--version"]) else { return };
    let folder = fixtures().display().to_string();
    let rig = Rig::new();
    // It takes its port from an option, so a shell is needed that fills it in.
    let line = [uvicorn.as_str(), "--app-dir", &folder, "--port", "$PORT", "app:asgi"].join(" ");
    let expected = [(Seat::Pid1, drained(Status::SUCCESS)), (Seat::Process, drained(Status::SIGTERM))];
    for (name, line) in [("bash -c uvicorn", line.clone()), ("bash -c 'exec uvicorn'", format!("exec {line}"))] {
        let Some(bash) = program("bash", &["--version"]) else { break };
        rig.check(&OPTIONS, &[&bash, "-c", &line], |record| {
            all_hold(name, record, &expected)?;
            let told = record.difference.as_deref().unwrap_or_default();
            if told.contains("SIGTERM") { Ok(()) } else { Err(format!("{name}: the seats differ: {told}")) }
        });
    }
    let Some(dash) = program("dash", &["-n"]) else { return };
    rig.check(&OPTIONS, &[&dash, "-c", &line], |record| behind_dash("dash -c uvicorn", record));
}

#[test]
fn node_that_closes_drains() {
    let Some(node) = program("node", &["--version"]) else { return };
    let server = fixtures().join("server.mjs").display().to_string();
    let options = [&OPTIONS[..], &["--env", "ON_SIGTERM=close"]].concat();
    three_ways("node close()", &options, &[&node, &server], &both(|| drained(Status::SUCCESS)));
}

#[test]
fn node_without_a_handler_is_deaf_as_pid_1_and_dies_otherwise() {
    let Some(node) = program("node", &["--version"]) else { return };
    let server = fixtures().join("server.mjs").display().to_string();
    let says: &[&str] = &["died of it", "a handler for SIGTERM in node"];
    let expected = [
        (Seat::Pid1, deaf(&["has no handler of its own", "a handler for SIGTERM in node"])),
        (Seat::Process, Expected { verdict: Fail, exit: Status::SIGTERM, causes: &[Died], lost: (1, ANY), says }),
    ];
    three_ways("node", &[&OPTIONS[..], &ENDLESS].concat(), &[&node, &server], &expected);
}

#[test]
fn a_router_that_goes_on_sending_needs_a_server_that_goes_on_serving() {
    let Some(node) = program("node", &["--version"]) else { return };
    let server = fixtures().join("server.mjs").display().to_string();
    let rig = Rig::new();
    let options = ["--signal-at", "700ms", "--grace", "5s", "--slow-request", "GET /slow", "--routing-lag", "1500ms"];
    let with = |handler| [&options[..], &["--env", handler]].concat();
    let says: &[&str] = &["went on accepting for"];
    let later = || Expected { says, ..drained(Status::SUCCESS) };
    rig.check(&with("ON_SIGTERM=close-later"), &[&node, &server], |record| {
        all_hold("node close-later", record, &both(later))?;
        for in_seat in [Seat::Pid1, Seat::Process] {
            let found = seat(record, in_seat);
            let came = found.observed.requests.iter().filter(|request| request.phase == Phase::After).count();
            let served = count(found, Phase::After, Fate::Completed);
            if served != came || came < 3 {
                return Err(format!("{served} of {came} served after the signal as {in_seat:?}"));
            }
        }
        Ok(())
    });
    let told: &[&str] = &["go on accepting for as long as the router may send (1.5 s here)"];
    rig.check(&with("ON_SIGTERM=close"), &[&node, &server], |record| {
        for in_seat in [Seat::Pid1, Seat::Process] {
            let found = seat(record, in_seat);
            let (lost, refused) = (found.judgement.lost, found.judgement.refused);
            // What comes between its last look at the queue and its end is lost with it, and told of first.
            let after = |fate| count(found, Phase::After, fate);
            let queued = after(Fate::AcceptedNeverServed) + after(Fate::Reset);
            let says = if lost == 0 { told } else { &["SIGTERM went to node itself"] };
            let lost = (0, queued as u64);
            let closes = Expected { verdict: Fail, exit: Status::SUCCESS, causes: &[Ended], lost, says };
            holds("node close, while the router goes on", record, in_seat, &closes)?;
            // From when its port is seen closed on nobody takes them in.
            let closed_us = found.observed.listener_closed_us.unwrap_or(i64::MAX);
            let came: Vec<_> = found.observed.requests.iter().filter(|request| request.sent_us > closed_us).collect();
            if came.len() < 3 || came.iter().any(|request| request.fate != Fate::Refused) {
                return Err(format!("{refused} refused in all, and of {} too late as {in_seat:?}", came.len()));
            }
        }
        Ok(())
    });
}

#[test]
fn java_without_a_hook_loses_and_with_one_drains() {
    let (Some(java), Some(javac)) = (program("java", &["-version"]), found("javac", &["-version"])) else { return };
    let rig = Rig::new();
    let classes = rig.java(&javac).display().to_string();
    let command = [&java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &classes, "Server"];
    let options = [&["--signal-at", "1500ms", "--grace", "5s"], &OPTIONS[4..]].concat();
    let says: &[&str] = &["SIGTERM went to java itself", "exited 143", "a shutdown hook that waits"];
    let lost = || Expected { verdict: Fail, exit: Status::CODE_143, causes: &[Ended], lost: (1, ANY), says };
    rig.check(&[&options[..], &ENDLESS].concat(), &command, |record| all_hold("java", record, &both(lost)));
    let with_hook = [&options[..], &["--env", "ON_SIGTERM=drain"]].concat();
    three_ways("java with a hook", &with_hook, &command, &both(|| drained(Status::CODE_143)));
}

#[test]
fn pythons_http_server_has_no_handler() {
    let Some(python) = program("python3", &["--version"]) else { return };
    let pid1: &[&str] = &["http.server itself (PID 1), which has no handler"];
    let process: &[&str] = &["http.server itself (not PID 1), which has no handler: it died of it"];
    plain_files("python -m http.server", &[&python, "-m", "http.server"], pid1, process);
}

#[test]
fn busybox_httpd_has_no_handler() {
    let Some(busybox) = program("busybox", &["true"]) else { return };
    let pid1: &[&str] = &["busybox itself (PID 1), which has no handler"];
    let process: &[&str] = &["busybox itself (not PID 1), which has no handler: it died of it"];
    plain_files("busybox httpd", &[&busybox, "httpd", "-f", "-p"], pid1, process);
}

/// Servers of files take their port as the last argument, and nothing with them takes long: whether one was lost is luck.
fn plain_files(name: &str, command: &[&str], pid1: &'static [&'static str], process: &'static [&'static str]) {
    let rig = Rig::new();
    std::fs::write(rig.path("index.html"), "done\n").unwrap();
    let line = format!("{} $PORT", command.join(" "));
    let options = ["--signal-at", "700ms", "--grace", "1500ms"];
    if let Some(bash) = program("bash", &["--version"]) {
        rig.check(&options, &[&bash, "-c", &line], |record| {
            holds(name, record, Seat::Pid1, &deaf(pid1))?;
            let lost = seat(record, Seat::Process).judgement.lost;
            let verdict = if lost > 0 { Fail } else { Pass };
            let died = Expected { verdict, exit: Status::SIGTERM, causes: &[Died], lost: (0, ANY), says: process };
            holds(name, record, Seat::Process, &died)
        });
    }
    if let Some(dash) = program("dash", &["-n"]) {
        rig.check(&options, &[&dash, "-c", &line], |record| behind_dash(&format!("dash -c {name}"), record));
    }
}

#[test]
fn a_server_that_goes_on_serving_past_the_grace_period_is_told_to_have_done_nothing() {
    let Some(node) = program("node", &["--version"]) else { return };
    let server = fixtures().join("server.mjs").display().to_string();
    let options = ["--signal-at", "500ms", "--grace", "1s", "--env", "ON_SIGTERM=close-later", "--as", "pid1"];
    let says: &[&str] = &["went on accepting"];
    let cut = Expected { verdict: Fail, exit: Status::SIGKILL, causes: &[NoReaction], lost: (0, ANY), says };
    Rig::new().check(&options, &[&node, &server], |record| holds("node, too late", record, Seat::Pid1, &cut));
}
