//! Stops that are special in some way: when the signal comes, to whom, and what is left when it has.

use harness::check::{
    fate::{Fate, Phase},
    record::{
        Cause::{Died, Ended, NotPassedOn},
        Record, SeatRecord,
        Verdict::{Fail, Pass},
    },
    settings::Seat,
};
use scenarios::{Signal, Status};

use crate::{
    expect::{ANY, Expected, count, holds, seat},
    rig::{Rig, fixtures, program},
};

/// Node and its server.
fn node() -> Option<[String; 2]> {
    Some([program("node", &["--version"])?, fixtures().join("server.mjs").display().to_string()])
}

/// Python and a server in stages, as a command line.
fn stages() -> Option<String> {
    let python = program("python3", &["--version"])?;
    Some(format!("{python} {}", fixtures().join("stages.py").display()))
}

/// Whether it is as it should be, or what was found.
fn is_so(so: bool, found: &SeatRecord) -> Result<(), String> {
    let odd = found.observed.requests.iter().filter(|request| request.fate != Fate::Completed).take(10);
    let odd: Vec<_> = odd.collect();
    if so { Ok(()) } else { Err(format!("{:?}\n{:?}\n{odd:?}", found.judgement, found.explanation)) }
}

/// The reasons of a seat in one text.
fn reasons(record: &Record, in_seat: Seat) -> String {
    seat(record, in_seat).judgement.reasons.join(" ")
}

#[test]
fn an_answer_that_only_the_end_of_its_connection_ends_is_cut_with_its_server() {
    let Some(python) = program("python3", &["--version"]) else { return };
    let server = "import os, socket, threading, time\n\
                  s = socket.socket(); s.bind(('127.0.0.1', int(os.environ['PORT']))); s.listen(100)\n\
                  def serve(c):\n    c.recv(65536); c.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\n')\n    \
                  for _ in range(10): c.sendall(b'a line\\n'); time.sleep(0.1)\n    c.close()\n\
                  while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()";
    let options = ["--as", "process", "--signal-at", "2s", "--grace", "2500ms", "--routing-lag", "0ms"];
    Rig::new().check(&options, &[&python, "-c", server], |record| {
        let says: &[&str] = &["has no handler"];
        let died = Expected { verdict: Fail, exit: Status::SIGTERM, causes: &[Died], lost: (5, ANY), says };
        holds("without framing", record, Seat::Process, &died)?;
        let found = seat(record, Seat::Process);
        let (cut, before) =
            (count(found, Phase::Across, Fate::Truncated), count(found, Phase::Before, Fate::Completed));
        is_so(cut >= 5 && before >= 5, found)
    });
}

#[test]
fn a_helper_that_ignores_the_signal_is_killed_at_the_end_of_the_grace_period() {
    let (Some([node, server]), Some(sh)) = (node(), program("sh", &["-n"])) else { return };
    let line = format!("trap '' TERM; sleep 1000 & trap - TERM; exec {node} {server}");
    let options = ["--profile", "systemd", "--grace", "2s", "--signal-at", "700ms", "--env", "ON_SIGTERM=close"];
    Rig::new().check(&options, &[&sh, "-c", &line], |record| {
        let killed =
            reasons(record, Seat::Process).contains("1 process (sleep) outlived the grace period (2 s): SIGKILL.");
        is_so(record.verdict == Fail && killed, seat(record, Seat::Process))
    });
}

#[test]
fn a_second_signal_to_all_reaches_what_outlived_the_first_process() {
    let (Some(server), Some(sh)) = (stages(), program("sh", &["-n"])) else { return };
    let options = [
        &["--to", "all", "--as", "process", "--signal-at", "500ms", "--grace", "4s", "--routing-lag", "0ms"][..],
        &["--second-signal", "INT", "--after", "600ms", "--env", "DRAIN_MS=60000"],
    ]
    .concat();
    Rig::new().check(&options, &[&sh, "-c", &format!("{server}; true")], |record| {
        let found = seat(record, Seat::Process);
        let second = found.observed.second_signal.as_ref();
        let reached =
            second.is_some_and(|second| second.pids == found.observed.app_pid.into_iter().collect::<Vec<_>>());
        let app = found.observed.ends.iter().find(|end| Some(end.pid) == found.observed.app_pid);
        // It exits 7 on a second signal; before Linux 6.15 that is not told.
        let exit = app.and_then(|end| end.status).is_none_or(|status| status == Status::Code(7));
        let said = found.observed.output.contains("got SIGTERM\ngot SIGINT");
        is_so(reached && exit && said && second.is_some_and(|second| second.signal == Signal::INT), found)
    });
}

#[test]
fn a_slow_request_is_in_flight_even_when_the_signal_comes_at_readiness() {
    let Some([node, server]) = node() else { return };
    let options = ["--signal-at", "ready", "--grace", "4s", "--slow-request", "GET /slow", "--routing-lag", "0ms"];
    let options = [&options[..], &["--env", "ON_SIGTERM=close", "--allow-refused", "3"]].concat();
    Rig::new().check(&options, &[&node, &server], |record| {
        for in_seat in [Seat::Pid1, Seat::Process] {
            let drained = Expected { verdict: Pass, exit: Status::SUCCESS, causes: &[Ended], lost: (0, 0), says: &[] };
            holds("node, at readiness", record, in_seat, &drained)?;
            let slow = seat(record, in_seat).observed.requests.iter().find(|request| request.template == 1);
            let in_flight = slow.is_some_and(|slow| (slow.phase, slow.fate) == (Phase::Across, Fate::Completed));
            is_so(in_flight, seat(record, in_seat))?;
        }
        Ok(())
    });
}

#[test]
fn a_hook_that_sleeps_longer_than_the_router_saves_what_is_in_flight() {
    let Some([node, server]) = node() else { return };
    let options = ["--as", "process", "--signal-at", "1200ms", "--grace", "4s", "--slow-request", "GET /slow"];
    let options = [&options[..], &["--routing-lag", "300ms", "--pre-stop", "1500ms"]].concat();
    Rig::new().check(&options, &[&node, &server], |record| {
        let died = Expected { verdict: Pass, exit: Status::SIGTERM, causes: &[Died, Ended], lost: (0, 0), says: &[] };
        holds("node behind a hook", record, Seat::Process, &died)?;
        let found = seat(record, Seat::Process);
        is_so(found.observed.requests.iter().all(|request| request.phase == Phase::Before), found)
    });
}

#[test]
fn an_app_that_its_supervisor_kills_is_not_said_to_be_cut_by_the_kernel() {
    let Some([node, server]) = node() else { return };
    let Some(python) = program("python3", &["--version"]) else { return };
    let supervisor = "import signal, subprocess, sys\np = subprocess.Popen(sys.argv[1:])\n\
                      def stop(*_):\n    p.terminate()\n    \
                      try: p.wait(0.5)\n    except subprocess.TimeoutExpired: p.kill(); p.wait()\n    sys.exit(0)\n\
                      signal.signal(signal.SIGTERM, stop)\nsignal.pause()";
    let options = ["--signal-at", "700ms", "--grace", "4s", "--routing-lag", "0ms", "--env", "ON_SIGTERM=close-later"];
    Rig::new().check(&options, &[&python, "-c", supervisor, &node, &server], |record| {
        for in_seat in [Seat::Pid1, Seat::Process] {
            let found = seat(record, in_seat);
            let told = reasons(record, in_seat).contains("node was killed by SIGKILL before python3");
            // Before Linux 6.15 nobody is told how the child ended.
            let known = found
                .observed
                .ends
                .iter()
                .any(|end| Some(end.pid) == found.observed.app_pid && end.status == Some(Status::SIGKILL));
            let cut = [&reasons(record, in_seat), &found.explanation.text].into_iter().any(|said| said.contains("cut"));
            is_so(told == known && !cut && found.explanation.cause != NotPassedOn, found)?;
        }
        Ok(())
    });
}

#[test]
fn a_command_that_is_pid_1_sees_its_own_numbers_in_proc() {
    let (Some(server), Some(sh)) = (stages(), program("sh", &["-n"])) else { return };
    let options = ["--signal-at", "500ms", "--grace", "4s", "--routing-lag", "0ms"];
    let says = format!("echo \"$$ is $(cat /proc/$$/comm), and $(readlink /proc/$$/fd/0)\"; exec {server}");
    let rig = Rig::new();
    rig.check(&options, &[&sh, "-c", &says], |record| {
        for in_seat in [Seat::Pid1, Seat::Process] {
            let found = seat(record, in_seat);
            let said = found.observed.output.lines().next().unwrap_or_default();
            let right = said.ends_with(" is sh, and /dev/null") && (in_seat == Seat::Process || said.starts_with("1 "));
            if !right {
                return Err(format!("{in_seat:?}: {said}"));
            }
            is_so(found.judgement.verdict == Pass, found)?;
        }
        Ok(())
    });
    // One that looks up there whom to pass the signal on to.
    let passes = format!("trap 'kill $(cat /proc/$$/task/$$/children); wait' TERM; {server} & wait; wait");
    rig.check(&options, &[&sh, "-c", &passes], |record| {
        [Seat::Pid1, Seat::Process].into_iter().try_for_each(|in_seat| {
            let found = seat(record, in_seat);
            is_so(found.judgement.verdict == Pass && found.observed.output.contains("got SIGTERM"), found)
        })
    });
}
