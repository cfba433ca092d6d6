//! A server that drains, behind what people put in front of theirs.

use std::fs;

use harness::check::{
    record::{
        Cause::{Ended, LeftEarly, NotPassedOn, WaitsForChild},
        Verdict::{Fail, Pass},
    },
    settings::Seat,
};
use scenarios::Status;

use crate::{
    expect::{ANY, Expected, holds},
    rig::{Rig, fixtures, program},
};

/// In flight when the signal comes, and longer than npm takes to leave.
const OPTIONS: [&str; 12] = [
    "--signal-at",
    "700ms",
    "--grace",
    "4s",
    "--slow-request",
    "GET /slower",
    "--env",
    "ON_SIGTERM=close",
    "--routing-lag",
    "0ms",
    "--allow-refused",
    "3",
];

/// Node and its server, where there is one.
fn server() -> Option<[String; 2]> {
    Some([program("node", &["--version"])?, fixtures().join("server.mjs").display().to_string()])
}

fn check(name: &str, command: &[&str], options: &[&str], pid1: &Expected, process: &Expected) {
    Rig::new().check(&[&OPTIONS[..], options].concat(), command, |record| {
        holds(name, record, Seat::Pid1, pid1)?;
        holds(name, record, Seat::Process, process)
    });
}

/// It passes the signal on and waits.
fn waits(says: &'static [&'static str]) -> Expected {
    Expected { verdict: Pass, exit: Status::SUCCESS, causes: &[Ended], lost: (0, 0), says }
}

#[test]
fn what_passes_it_on_and_waits() {
    let Some([node, server]) = server() else { return };
    for (name, arguments) in
        [("timeout", &["100"][..]), ("tini", &["--"]), ("dumb-init", &["--"]), ("catatonit", &["--"])]
    {
        let Some(wrapper) = program(name, &["--version"]) else { continue };
        let command = [&[wrapper.as_str()], arguments, &[&node, &server]].concat();
        let says: &[&str] = &["passed it on and waited", "and exited 0 after"];
        check(name, &command, &[], &waits(says), &waits(says));
    }
}

#[test]
fn sudo_passes_it_on_and_waits() {
    let Some([node, server]) = server() else { return };
    let Some(sudo) = program("sudo", &["-n", "true"]) else { return };
    let says: &[&str] = &["sudo passed it on and waited"];
    check("sudo", &[&sudo, "-n", "-E", &node, &server], &[], &waits(says), &waits(says));
}

#[test]
fn npm_start_does_not_pass_it_on() {
    let Some([node, server]) = server() else { return };
    let (Some(npm), Some(dash)) = (program("npm", &["--version"]), program("dash", &["-n"])) else { return };
    let rig = Rig::new();
    let package =
        serde_json::json!({ "name": "served", "version": "1.0.0", "scripts": { "start": format!("{node} {server}") } });
    fs::write(rig.path("package.json"), package.to_string()).unwrap();
    let shell = format!("npm_config_script_shell={dash}");
    let folder = rig.path("").display().to_string();
    // However long npm takes to leave.
    let endless = ["--slow-request", "GET /endless", "--env", &shell, "--env", "npm_config_update_notifier=false"];
    let options = [&OPTIONS[..], &endless, &["--cwd", &folder]].concat();
    let says: &[&str] = &["npm exited 1", "node never got it", "its end cut node", "start node without npm"];
    let cut = Expected { verdict: Fail, exit: Status::Code(1), causes: &[NotPassedOn], lost: (1, ANY), says };
    let says: &[&str] = &["passed nothing on", "lived on as an orphan", "start node without npm"];
    let orphan = Expected { verdict: Fail, exit: Status::SIGTERM, causes: &[NotPassedOn], lost: (0, ANY), says };
    rig.check(&options, &[&npm, "start"], |record| {
        holds("npm start", record, Seat::Pid1, &cut)?;
        holds("npm start", record, Seat::Process, &orphan)
    });
}

#[test]
fn a_trap_that_waits_once_leaves_too_early() {
    let Some([node, server]) = server() else { return };
    let rig = Rig::new();
    let script = rig.path("entrypoint.sh");
    let text = format!("{node} {server} &\napp=$!\ntrap 'kill -TERM \"$app\"' TERM\nwait \"$app\"\n");
    fs::write(&script, text).unwrap();
    let script = script.display().to_string();
    for shell in ["dash", "bash"] {
        let Some(path) = program(shell, &["-n"]) else { continue };
        let says: &[&str] = &["left", "its end cut node", "wait again: a trap interrupts `wait`"];
        let cut = Expected { verdict: Fail, exit: Status::CODE_143, causes: &[LeftEarly], lost: (1, ANY), says };
        let says: &[&str] = &["passed it on, but left first", "node went on alone and exited 0"];
        let alone = Expected { verdict: Pass, exit: Status::CODE_143, causes: &[LeftEarly], lost: (0, 0), says };
        rig.check(&OPTIONS, &[&path, &script], |record| {
            holds(shell, record, Seat::Pid1, &cut)?;
            holds(shell, record, Seat::Process, &alone)
        });
    }
}

#[test]
fn tini_to_the_group_of_a_shell_leaves_with_the_shell() {
    let Some([node, server]) = server() else { return };
    let (Some(tini), Some(sh)) = (program("tini", &["--version"]), program("sh", &["-n"])) else { return };
    let line = format!("{node} {server}; true");
    let says: &[&str] = &["tini passed it on", "its end cut node", "`exec` in the shell below tini"];
    let cut = Expected { verdict: Fail, exit: Status::CODE_143, causes: &[LeftEarly], lost: (1, ANY), says };
    let says: &[&str] = &["tini passed it on, but left first", "node went on alone and exited 0"];
    let alone = Expected { verdict: Pass, exit: Status::CODE_143, causes: &[LeftEarly], lost: (0, 0), says };
    check("tini -g -- sh -c", &[&tini, "-g", "--", &sh, "-c", &line], &[], &cut, &alone);

    let says: &[&str] = &["node never got it", "`exec` before node in the shell below tini"];
    let cut = Expected { verdict: Fail, exit: Status::CODE_143, causes: &[NotPassedOn], lost: (1, ANY), says };
    let orphan = Expected { verdict: Fail, exit: Status::CODE_143, causes: &[NotPassedOn], lost: (0, ANY), says };
    check("tini -- sh -c", &[&tini, "--", &sh, "-c", &line], &[], &cut, &orphan);
}

#[test]
fn a_trap_is_told_by_what_it_does() {
    let Some([node, server]) = server() else { return };
    let Some(bash) = program("bash", &["-n"]) else { return };
    // Node takes back what a shell does to what it starts in the background.
    let background = format!("trap : TERM; {node} {server} & wait $!; wait $!");
    let says: &[&str] =
        &["runs at once unless it has something in the foreground: node never got it", "start it with `&`"];
    let deaf = Expected { verdict: Fail, exit: Status::SIGKILL, causes: &[NotPassedOn], lost: (0, ANY), says };
    check("a trap that does nothing", &[&bash, "-c", &background], &[], &deaf, &deaf);

    let beside = format!("trap 'kill %1' TERM; {node} {server} & sleep 600");
    let says: &[&str] = &["waits for sleep, its foreground child", "node never got it", "start it with `&`"];
    let deaf = Expected { verdict: Fail, exit: Status::SIGKILL, causes: &[WaitsForChild], lost: (0, ANY), says };
    check("a trap behind something else", &[&bash, "-c", &beside], &[], &deaf, &deaf);
}

#[test]
fn a_wrapper_that_is_no_shell_is_not_told_of_as_one() {
    let Some([node, server]) = server() else { return };
    let Some(python) = program("python3", &["--version"]) else { return };
    let text = "import os,signal,subprocess,sys\np=subprocess.Popen(sys.argv[1:])\n\
                signal.signal(signal.SIGTERM, lambda *a: (p.terminate(), os._exit(0)))\nsys.exit(p.wait())";
    let says: &[&str] = &["took it and left: it exited 0", "its end cut node", "wait until node is gone"];
    let cut = Expected { verdict: Fail, exit: Status::SUCCESS, causes: &[LeftEarly], lost: (1, ANY), says };
    let says: &[&str] = &["passed it on, but left first", "went on alone and exited 0", "wait until node is gone"];
    let alone = Expected { verdict: Pass, exit: Status::SUCCESS, causes: &[LeftEarly], lost: (0, 0), says };
    check("a wrapper that leaves", &[&python, "-c", text, &node, &server], &[], &cut, &alone);

    let Some(init) = program("dumb-init", &["--version"]) else { return };
    let says: &[&str] = &["node got SIGINT instead", "have dumb-init pass SIGTERM on as it is"];
    let killed = Expected { verdict: Fail, exit: Status::Code(130), causes: &[NotPassedOn], lost: (1, ANY), says };
    check("dumb-init -r", &[&init, "-r", "15:2", &node, &server], &[], &killed, &killed);
}
