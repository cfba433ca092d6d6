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
    support::{Drilled, Rig, STEPPED, TERMDRILL, skipped},
};

/// The user of nobody and nothing on most systems.
const NOBODY: u32 = 65534;

/// Words before a command, with which it runs otherwise.
fn words<'a>(words: &'a [&'a str]) -> Vec<&'a OsStr> {
    words.iter().map(OsStr::new).collect()
}

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
    side_by_side(&["ignored-signal", "shell-form", "no-handler-not-pid1", "script-with-trap"], |name| {
        let (real, stepped) = on_both_clocks(&rig, &wrapper, name);
        // Where the machine forbids it to ordinary users, the other tests have something to say.
        if stepped.document["observed"].is_null() && !geteuid().is_root() {
            skipped(&stepped.parsed.reasons.join(" "));
        } else {
            assert_matched(name, &real, &stepped);
        }
    });
}

/// Drills on the real clock, for a short time, and on the stepped one.
fn on_both_clocks(rig: &Rig, wrapper: &[&OsStr], name: &str) -> (Drilled, Drilled) {
    let drill = |more: &[&str]| {
        let arguments = [&["run", name, "--json"], more].concat();
        rig.run_command(&mut rig.wrapped(wrapper, &arguments)).document()
    };
    (drill(&["--attempts", "2"]), drill(&STEPPED))
}

/// Without real-time scheduling a busy machine is often too slow for the real clock; that is no divergence.
fn assert_matched(name: &str, real: &Drilled, stepped: &Drilled) {
    stepped.assert_matched(name);
    if !real.was_too_slow() {
        real.assert_matched(name);
    }
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
    let names = ["no-handler-not-pid1", "orphaned-by-shell", "orphan-goes-on-draining", "sig-ign-not-pid1"];
    side_by_side(&names, |name| {
        let (real, stepped) = on_both_clocks(&rig, &wrapper, name);
        assert_matched(name, &real, &stepped);
    });
    rig.assert_nothing_left(&Default::default(), "drills without namespaces");
}

#[test]
fn without_namespaces_a_drill_that_is_ended_at_any_moment_leaves_nothing() {
    if !is_there(&WITHOUT_NAMESPACES) {
        return;
    }
    end_all_early(&cases(&[false], false, 20260102), &words(&WITHOUT_NAMESPACES));
}
