//! Without root: as an ordinary user, and where user namespaces are forbidden.

use std::ffi::OsStr;

use rustix::process::geteuid;

use crate::{
    leaks::{cases, end_all_early},
    pool::side_by_side,
    support::{Drilled, Rig, STEPPED, skipped},
    without_root::{AS_NOBODY, WITHOUT_NAMESPACES, WITHOUT_PROC, is_there, rig_of_nobody, words},
};

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

#[test]
fn where_no_proc_can_be_mounted_drills_that_need_none_run() {
    if !geteuid().is_root() || !is_there(&WITHOUT_PROC) {
        return;
    }
    let (rig, wrapper) = (rig_of_nobody(), words(&WITHOUT_PROC));
    on_both_clocks(&rig, &wrapper, "no-handler-not-pid1").1.assert_matched("a run");
    let names = ["no-handler-not-pid1", "orphaned-by-shell", "sig-ign-not-pid1", "ignored-signal"];
    let arguments = [&["validate", "--json", "--clock", "stepped"], &names[..]].concat();
    let ended = rig.run_command(&mut rig.wrapped(&wrapper, &arguments));
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let document: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let summary = &document["summary"];
    assert_eq!((&summary["matched"], &summary["inconclusive"]), (&3.into(), &1.into()), "{ended:?}");
    assert!(ended.stdout.contains("needs a PID namespace, and a /proc"), "{ended:?}");
    rig.assert_nothing_left(&Default::default(), "drills where no /proc can be mounted");
}
