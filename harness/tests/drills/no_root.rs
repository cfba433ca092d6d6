//! Without root: as an ordinary user, and where user namespaces are forbidden.

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::Command,
};

use rustix::process::geteuid;

use crate::{
    leaks::{cases, end_all_early},
    pool::side_by_side,
    support::{Rig, TERMDRILL, skipped},
};

/// The user of nobody and nothing on most systems.
const NOBODY: u32 = 65534;

/// Words before a command, with which it runs otherwise.
fn words<'a>(words: &'a [&'a str]) -> Vec<&'a OsStr> {
    words.iter().map(OsStr::new).collect()
}

/// One request and an early signal: without real-time scheduling a long drill would often be repeated at a lower speed.
const SHORT: [&str; 8] =
    ["--set", "request_interval_s=40", "--set", "startup_s=0.5", "--set", "invocation_s=2", "--set", "signal_at_s=2"];

const AS_NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// A user namespace of its own in which no further one may be made, and no capability to change that: the host's
/// settings stay as they are.
const FORBID: &str =
    "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";
const WITHOUT_NAMESPACES: [&str; 6] = ["unshare", "-Ur", "sh", "-c", FORBID, "sh"];

/// Whether a command works here; says so where it doesn't.
fn is_there(wrapper: &[&str]) -> bool {
    let rig = Rig::new();
    let (first, rest) = wrapper.split_first().unwrap();
    let found =
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|p| p.join(first).exists()));
    let works = found && rig.run_command(Command::new(first).args(rest).arg("true")).code == Some(0);
    if !works {
        skipped(&format!("{} does not work here", wrapper[..2.min(wrapper.len())].join(" ")));
    }
    works
}

/// A rig that a user without rights can use, the program included.
fn rig_of_nobody() -> Rig {
    let rig = Rig::new();
    let program = rig.path("termdrill");
    fs::copy(TERMDRILL, &program).unwrap();
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    open(&program);
    open(program.parent().unwrap());
    for folder in ["state", "tmp", "cwd"] {
        chown(rig.path(folder), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    rig.with_program(program)
}

#[test]
fn an_ordinary_user_can_drill() {
    let (rig, wrapper) = if geteuid().is_root() {
        if !is_there(&AS_NOBODY) {
            return;
        }
        (rig_of_nobody(), words(&AS_NOBODY))
    } else {
        (Rig::new(), Vec::new())
    };
    let rows: [(&str, &[&str]); 4] = [
        ("ignored-signal", &[]),
        ("shell-form", &SHORT),
        ("no-handler-not-pid1", &SHORT),
        ("script-with-trap", &SHORT),
    ];
    side_by_side(&rows, |(name, settings)| {
        let ended = rig.run_command(&mut rig.wrapped(&wrapper, &[&["run", name, "--json"], *settings].concat()));
        let drilled = ended.document();
        // Where the machine forbids it to ordinary users, the other test has something to say.
        if drilled.document["observed"].is_null() && !geteuid().is_root() {
            skipped(&drilled.parsed.reasons.join(" "));
        } else {
            drilled.assert_matched(name);
        }
    });
}

#[test]
fn without_namespaces_a_drill_that_needs_one_says_what_to_change() {
    if !is_there(&WITHOUT_NAMESPACES) {
        return;
    }
    let rig = Rig::new();
    let wrapper = words(&WITHOUT_NAMESPACES);
    for name in ["ignored-signal", "shell-form", "env-wrapper"] {
        let ended = rig.run_command(&mut rig.wrapped(&wrapper, &["run", name, "--json"]));
        assert_eq!(ended.code, Some(3), "{ended:?}");
        let drilled = ended.document();
        assert!(drilled.document["observed"].is_null());
        let reasons = drilled.parsed.reasons.join(" ");
        assert!(reasons.contains("needs a PID namespace") && reasons.contains("max_user_namespaces"), "{reasons}");
    }
    rig.assert_nothing_left(&Default::default(), "drills that can't be");
}

#[test]
fn without_namespaces_the_other_drills_run() {
    if !is_there(&WITHOUT_NAMESPACES) {
        return;
    }
    let rig = Rig::new();
    let wrapper = words(&WITHOUT_NAMESPACES);
    side_by_side(
        &["no-handler-not-pid1", "orphaned-by-shell", "orphan-goes-on-draining", "sig-ign-not-pid1"],
        |name| {
            let arguments = [&["run", name, "--json"], &SHORT[..]].concat();
            rig.run_command(&mut rig.wrapped(&wrapper, &arguments)).document().assert_matched(name);
        },
    );
    rig.assert_nothing_left(&Default::default(), "drills without namespaces");
}

#[test]
fn without_namespaces_a_drill_that_is_ended_at_any_moment_leaves_nothing() {
    if !is_there(&WITHOUT_NAMESPACES) {
        return;
    }
    end_all_early(&cases(&[false], 20260102), &words(&WITHOUT_NAMESPACES));
}
