//! `termdrill inspect` on real processes, which must not notice it.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::Value;

use crate::{output, skipped, termdrill, text};

/// A program that has said that it is ready, and waits for a line.
struct Target {
    child: Child,
    input: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl Target {
    /// Starts `argv`, whose shell script says a line, reads one and says another.
    #[expect(clippy::disallowed_methods, reason = "what is looked at is no process of a drill")]
    fn start(argv: &[&str]) -> Option<Target> {
        let mut command = Command::new(argv[0]);
        command.args(&argv[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let input = child.stdin.take()?;
        let mut lines = BufReader::new(child.stdout.take()?);
        let mut ready = String::new();
        lines.read_line(&mut ready).ok()?;
        let target = Target { child, input, lines };
        if ready == "ready\n" {
            return Some(target);
        }
        target.end();
        None
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// It goes on when it is told to, and ends by itself.
    fn end(mut self) -> String {
        let _ = self.input.write_all(b"go on\n");
        let mut rest = String::new();
        let _ = self.lines.read_line(&mut rest);
        drop(self.input);
        let _ = self.child.wait();
        rest
    }
}

/// The lines of /proc/PID/status about its signals. `SigQ` counts those of all its user's processes and is left out.
fn signals(pid: i32) -> Vec<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let wanted = ["SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:", "SigCgt:"];
    status.lines().filter(|line| wanted.iter().any(|name| line.starts_with(name))).map(str::to_owned).collect()
}

fn inspect(pid: i32) -> Value {
    let done = output(&mut termdrill(&["inspect", &pid.to_string(), "--json"]));
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

/// Inspects a process that is about to come to rest, until its top is as wanted: nobody tells when that is.
fn inspect_until(pid: i32, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let mut looks = std::iter::repeat_with(|| inspect(pid)).take(200);
    let found = looks.find(|document| is_wanted(&document["processes"][0]));
    found.unwrap_or_else(|| panic!("it never comes to rest: {}", inspect(pid)))
}

/// Exit status and error.
fn refused(pid: i32) -> (i32, String) {
    let done = output(&mut termdrill(&["inspect", &pid.to_string()]));
    (done.status.code().unwrap(), text(&done.stderr))
}

#[test]
fn each_disposition_is_seen_and_the_process_does_not_notice() {
    for (trap, disposition, effect) in
        [("", "default", "dies"), ("trap '' TERM; ", "ignored", "dropped"), ("trap 'exit 3' TERM; ", "caught", "taken")]
    {
        let target = Target::start(&["sh", "-c", &format!("{trap}echo ready; read line; echo still here")]).unwrap();
        let before = signals(target.pid());
        let document = inspect(target.pid());
        assert_eq!(document["processes"][0]["pid"], target.pid());
        assert_eq!(document["processes"][0]["sigterm"], disposition);
        assert_eq!(document["prediction"]["effect"], effect);
        assert_eq!(signals(target.pid()), before, "{trap}");
        assert_eq!(target.end(), "still here\n", "{trap}");
    }
}

#[test]
fn a_tree_is_shown_from_the_top_down() {
    let script = "sh -c 'echo ready; read line; echo still here'; true";
    let target = Target::start(&["sh", "-c", script]).unwrap();
    // A shell blocks every signal while it forks.
    let document = inspect_until(target.pid(), |top| top["waits_for_child"] == true);
    let depths: Vec<&Value> =
        document["processes"].as_array().unwrap().iter().map(|process| &process["depth"]).collect();
    assert_eq!(depths, [0, 1]);
    assert_eq!(document["processes"][1]["parent"], target.pid());
    assert!(document["prediction"]["text"].as_str().unwrap().contains("lives on as an orphan"));
    let shown = text(&output(&mut termdrill(&["inspect", &target.pid().to_string()])).stdout);
    assert!(shown.starts_with("SIGTERM ") && shown.contains(&format!("\n{} ", target.pid())), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    target.end();
}

#[test]
fn pid_1_of_another_namespace_is_told_by_its_number_inside() {
    let script = "echo ready; read line; echo still here";
    let Some(target) = Target::start(&["unshare", "-Urpf", "--kill-child", "sh", "-c", script]) else {
        return skipped("PID 1 of another namespace: unshare(1) makes none here");
    };
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", target.pid())).unwrap();
    let inside: i32 = children.trim().parse().unwrap();
    let document = inspect(inside);
    assert_eq!(document["processes"][0]["namespace_pid"], 1);
    assert_eq!(document["prediction"]["effect"], "dropped");
    // Seen from outside, its parent is an ordinary process.
    assert_ne!(inspect(target.pid())["processes"][0]["namespace_pid"], 1);
    assert_eq!(target.end(), "still here\n");
}

#[test]
fn an_init_that_waits_for_signals_is_seen_to() {
    for init in [&["tini", "-s", "--"][..], &["catatonit", "--"]] {
        let argv = [init, &["sh", "-c", "echo ready; read line; echo still here"]].concat();
        let Some(target) = Target::start(&argv) else {
            skipped(&format!("{} is not installed", init[0]));
            continue;
        };
        // Between two waits, and before the first, it only blocks it.
        let document = inspect_until(target.pid(), |top| top["sigterm"] == "waited_for");
        assert!(document["prediction"]["text"].as_str().unwrap().contains("as an init passes it on"));
        assert_eq!(target.end(), "still here\n");
    }
}

#[test]
fn the_answer_comes_first_and_command_lines_are_cut() {
    let secret = format!("{}--password=secret", "x".repeat(300));
    let target = Target::start(&["sh", "-c", "echo ready; read line; echo still here", &secret]).unwrap();
    let pid = target.pid().to_string();
    let [short, whole] = [&["inspect", &pid][..], &["inspect", &pid, "-v"]].map(|arguments| {
        let done = output(termdrill(arguments).env("COLUMNS", "80"));
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        text(&done.stdout)
    });
    for shown in [&short, &whole] {
        assert!(shown.starts_with("SIGTERM "), "{shown}");
    }
    assert!(!short.contains("secret") && short.contains(&format!("\n{pid} ")), "{short}");
    assert!(short.lines().all(|line| line.chars().count() <= 80), "{short}");
    assert!(whole.replace(['\n', ' '], "").contains(&secret), "{whole}");
    assert!(inspect(target.pid()).to_string().contains(&secret));
    target.end();
}

#[test]
fn what_can_not_be_looked_at_is_said() {
    let (code, error) = refused(i32::MAX);
    assert_eq!((code, error.contains("there is no process 2147483647")), (2, true), "{error}");

    let program = env!("CARGO_BIN_EXE_termdrill");
    let own = output(Command::new("sh").args(["-c", &format!("exec {program} inspect $$")]));
    assert_eq!(own.status.code(), Some(2));
    assert!(text(&own.stderr).contains("is this termdrill itself"), "{}", text(&own.stderr));

    let zombie = zombie();
    let (code, error) = refused(zombie.id().cast_signed());
    assert_eq!(code, 2);
    assert!(error.contains("is a zombie") && error.contains(&format!("inspect {}", std::process::id())), "{error}");
    reap(zombie);

    for bad in ["0", "-1", "self", "99999999999"] {
        let done = output(&mut termdrill(&["inspect", bad]));
        assert_eq!(done.status.code(), Some(2), "{bad}");
        assert!(text(&done.stderr).contains("the number of a process, from 1 on"), "{}", text(&done.stderr));
    }
    if fs::read_to_string("/proc/2/status").is_ok_and(|status| status.contains("Kthread:\t1")) {
        let (code, error) = refused(2);
        assert_eq!((code, error.contains("a thread of the kernel")), (2, true), "{error}");
    } else {
        skipped("a kernel thread: this machine shows none");
    }
}

/// A child that has ended and is not reaped.
#[expect(clippy::disallowed_methods, reason = "what is looked at is no process of a drill")]
fn zombie() -> Child {
    let child = Command::new("true").spawn().unwrap();
    let pid = Pid::from_child(&child);
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    child
}

fn reap(mut child: Child) {
    child.wait().unwrap();
}
