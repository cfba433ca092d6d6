//! Every story once, told from evidence that was written by hand.

use scenarios::{EventKind, Signal, Status};

use super::{
    Cause, explain,
    samples::{Case, TOP, WORKER},
};
use crate::evidence::{
    Disposition::{self, Blocked, Caught, Default, Ignored, WaitedFor},
    Kernel, Snapshot,
    kernel::{Outcome, SignalRecord, Step},
};

const SH: (&str, &str) = ("/bin/sh -c app", "/usr/bin/dash");
const TINI: (&str, &str) = ("tini -- sh -c app", "/usr/bin/tini");
const APP: (&str, &str) = ("app", "/opt/app");
const TERM: Status = Status::SIGTERM;
const KILL: Status = Status::SIGKILL;
const OK: Status = Status::SUCCESS;

type End = (Disposition, Status, Option<u32>);

fn alone(pid1: bool, end: End) -> Case {
    Case::new(pid1, &[with(APP, end)])
}

fn below(pid1: bool, top: (&'static str, &'static str), top_end: End, worker_end: End) -> Case {
    Case::new(pid1, &[with(top, top_end), with(APP, worker_end)])
}

fn with(
    program: (&'static str, &'static str),
    end: End,
) -> (&'static str, &'static str, Disposition, Status, Option<u32>) {
    (program.0, program.1, end.0, end.1, end.2)
}

/// The cause, and words that have to be in the text and in the change.
fn assert_told(case: &Case, cause: Cause, words: &[&str], change: Option<&str>) {
    let told = explain(&case.scenario, &case.evidence, &case.events).unwrap();
    assert_eq!(told.cause, cause, "{}", told.text);
    for word in words {
        assert!(told.text.contains(word), "no {word:?} in: {}", told.text);
    }
    match (change, &told.change) {
        (None, None) => {}
        (Some(word), Some(change)) => assert!(change.contains(word), "no {word:?} in: {change}"),
        (expected, found) => panic!("{expected:?} is not {found:?}: {}", told.text),
    }
    assert!(told.text.ends_with('.') && !told.text.contains("..") && !told.text.contains("  "), "{}", told.text);
    assert!(told.text.len() <= 420, "{} characters: {}", told.text.len(), told.text);
}

#[test]
fn the_worker_gets_it_itself() {
    let killed = |pid1, sigterm| alone(pid1, (sigterm, KILL, Some(400))).sigkill().loses_it(400);
    let dropped = killed(true, Default);
    assert_told(&dropped, Cause::Dropped, &["PID 1 without a handler", "and 1 invocation with it"], Some("a handler"));
    assert_told(&killed(true, Ignored), Cause::Ignored, &["(PID 1)", "SIG_IGN"], Some("instead of SIG_IGN"));
    assert_told(&killed(false, Ignored), Cause::Ignored, &["not PID 1"], Some("instead of SIG_IGN"));
    assert_told(&killed(true, Blocked), Cause::Held, &["pending"], Some("unblock"));
    assert_told(&killed(true, Caught), Cause::Unknown, &["SIGTERM caught"], None);
    let died = alone(false, (Default, TERM, Some(300))).loses_it(300);
    assert_told(&died, Cause::Died, &["died of it at once, and 1 invocation with it"], Some("a handler"));
    let drained = alone(true, (Caught, OK, Some(370))).received(0);
    assert_told(&drained, Cause::Drained, &["whose handler got it", "exited 0 after 7.0 s"], None);
    let cut_short = killed(true, Caught).received(0);
    assert_told(&cut_short, Cause::CutShort, &["SIGKILL came first, and 1 inv"], Some("15.0 s instead of 10.0 s"));
    let ended = alone(true, (Caught, Status::Code(1), Some(310)));
    assert_told(&ended, Cause::Unknown, &["exited 1 after 1.0 s"], None);
}

#[test]
fn a_shell_that_became_the_worker_is_named() {
    let mut case = alone(true, (Caught, OK, Some(370))).received(0);
    case.evidence.shell = Some("/usr/bin/bash".to_owned());
    assert_told(&case, Cause::Drained, &["/bin/sh is bash here and exec'd the worker"], None);
}

#[test]
fn a_shell_stays_above_the_worker() {
    let dropped = below(true, SH, (Default, KILL, Some(400)), (Caught, KILL, Some(400))).sigkill().loses_it(400);
    let words =
        ["/bin/sh, which is dash here (PID 1)", "kernel drops it", "SIGKILL to PID 1 then cut the worker, and 1"];
    assert_told(&dropped, Cause::Dropped, &words, Some("exec form"));
    let no_handler = below(true, SH, (Default, KILL, Some(400)), (Default, KILL, Some(400))).sigkill();
    assert_told(&no_handler, Cause::Dropped, &[], Some("needs a handler for it too"));
    let orphan = below(false, SH, (Default, TERM, Some(300)), (Caught, KILL, None));
    assert_told(
        &orphan,
        Cause::Orphaned,
        &["(not PID 1)", "died of it at once", "lived on as an orphan"],
        Some("exec"),
    );
    let orphan_that_ends = below(false, SH, (Default, TERM, Some(300)), (Caught, OK, Some(345)));
    assert_told(&orphan_that_ends, Cause::Orphaned, &["went on alone and exited 0 after 4.5 s"], Some("exec"));
    let waits = below(true, SH, (Caught, KILL, Some(400)), (Caught, KILL, Some(400))).sigkill();
    assert_told(&waits, Cause::WaitsForChild, &["waits for its foreground child"], Some("`wait` until it is gone"));
    let ignores = below(false, SH, (Ignored, KILL, Some(400)), (Ignored, KILL, None)).sigkill();
    let words = ["ignores it (SIG_IGN)", "SIGKILL then reached dash only, and the worker lived on"];
    assert_told(&ignores, Cause::Ignored, &words, Some("exec"));
}

#[test]
fn a_trap_passes_it_on() {
    let code = Status::CODE_143;
    let drained = below(true, SH, (Caught, OK, Some(371)), (Caught, OK, Some(370))).received(1);
    let words = ["dash passed it on and waited", "exited 0 after 7.0 s; then dash exited 0."];
    assert_told(&drained, Cause::Drained, &words, None);
    let died = below(true, SH, (Caught, code, Some(301)), (Default, TERM, Some(300))).loses_it(300);
    assert_told(
        &died,
        Cause::Died,
        &["has no handler and died of it at once, and 1 inv", "dash exited 143"],
        Some("a handler"),
    );
    let lost = below(true, SH, (Caught, code, Some(300)), (Caught, KILL, Some(300))).loses_it(300);
    assert_told(
        &lost,
        Cause::LeftEarly,
        &["dash took it and exited 143 at once, without waiting", "its end cut the worker, and 1 invocation with it"],
        Some("`wait` in a loop"),
    );
    let once = below(true, SH, (Caught, code, Some(300)), (Caught, KILL, Some(300))).received(1).loses_it(300);
    assert_told(
        &once,
        Cause::LeftEarly,
        &["dash took it and exited 143 at once, without waiting", "cut the worker"],
        Some("`wait` in a loop"),
    );
    let later = below(true, SH, (Caught, code, Some(310)), (Caught, KILL, Some(310))).received(1).loses_it(310);
    let words = ["passed it on, but it exited 143 after 1.0 s, before the worker was done", "cut the worker"];
    assert_told(&later, Cause::LeftEarly, &words, Some("`wait` in a loop"));
    let once_bare = below(false, SH, (Caught, code, Some(300)), (Caught, OK, Some(370))).received(TOP);
    assert_told(
        &once_bare,
        Cause::LeftEarly,
        &["dash left first", "went on alone and exited 0 after 7.0 s"],
        Some("`wait` in a loop"),
    );
    let mut deaf = below(true, SH, (Caught, KILL, Some(400)), (Ignored, KILL, Some(400))).sigkill();
    // Started with `&`.
    deaf.evidence.before.as_mut().unwrap().processes[1].process.sigquit = Some(Ignored);
    assert_told(&deaf, Cause::Ignored, &["takes it", "the worker, which ignores SIGTERM"], Some("instead of SIG_IGN"));
    let short =
        below(true, SH, (Caught, KILL, Some(400)), (Caught, KILL, Some(400))).received(1).sigkill().loses_it(400);
    assert_told(&short, Cause::CutShort, &["dash passed it on to the worker"], Some("15.0 s instead of"));
    let left_alive = below(false, SH, (Caught, KILL, Some(400)), (Caught, OK, Some(490))).received(TOP).sigkill();
    let words = ["SIGKILL reached dash only: the worker was left alive, and exited 0 after 19.0 s"];
    assert_told(&left_alive, Cause::Orphaned, &words, Some("19.0 s instead of 10.0 s"));
}

#[test]
fn an_init_passes_it_on_to_a_shell() {
    let shell = ("sh -c app", "/usr/bin/dash");
    let tree = |pid1, top: End, middle: End, worker: End| {
        Case::new(pid1, &[with(TINI, top), with(shell, middle), with(APP, worker)])
    };
    let (init, died) = ((WaitedFor, Status::CODE_143, Some(300)), (Default, TERM, Some(300)));
    let cut = tree(true, init, died, (Caught, KILL, Some(300))).loses_it(300);
    let words = [
        "tini passed it on to sh, which is dash here, which died of it",
        "tini exited 143 at once",
        "never got it, and as tini was PID 1, its end cut the worker, and 1",
    ];
    assert_told(&cut, Cause::NotPassedOn, &words, Some("takes the shell's place"));
    let orphan = tree(false, init, died, (Caught, KILL, None));
    assert_told(
        &orphan,
        Cause::NotPassedOn,
        &["never got it, and lived on as an orphan"],
        Some("takes the shell's place"),
    );
    let deaf = tree(true, init, died, (Ignored, KILL, Some(300)));
    assert_told(&deaf, Cause::NotPassedOn, &["ignores it, whether it got it or not"], Some("takes the shell's place"));
    let group = tree(true, init, died, (Caught, KILL, Some(300))).received(1).loses_it(300);
    assert_told(&group, Cause::LeftEarly, &["tini passed it on, but it exited 143 at once"], Some("below the init"));
}

#[test]
fn whether_a_trap_runs_at_once_is_told_by_what_is_in_the_foreground() {
    let stuck = |sigquit| {
        let mut case = below(true, SH, (Caught, KILL, Some(400)), (Caught, KILL, Some(400))).sigkill();
        case.evidence.before.as_mut().unwrap().processes[1].process.sigquit = sigquit;
        case
    };
    assert_told(&stuck(Some(Default)), Cause::WaitsForChild, &["waits for its foreground child before"], Some("`&`"));
    let words = ["dash has a trap, which it runs at once, since it has nothing in the foreground", "never got it"];
    assert_told(&stuck(Some(Ignored)), Cause::NotPassedOn, &words, Some("pass SIGTERM on to it in the shell's trap"));
    for unknown in [Some(Caught), None] {
        assert_told(&stuck(unknown), Cause::NotPassedOn, &["unless it has something in the foreground"], Some("trap"));
    }
    // The worker is in the background, and something else is not.
    let mut beside = Case::new(
        true,
        &[
            with(SH, (Caught, KILL, Some(400))),
            with(("sleep 9", "/bin/sleep"), (Default, KILL, Some(400))),
            with(APP, (Caught, KILL, Some(400))),
        ],
    )
    .sigkill();
    let worker = &mut beside.evidence.before.as_mut().unwrap().processes[2].process;
    (worker.parent, worker.sigquit) = (TOP, Some(Ignored));
    assert_told(&beside, Cause::WaitsForChild, &["waits for its foreground child, sleep, before"], Some("`exec`"));
    // It would not help to have it handled.
    let ignores = below(true, SH, (Caught, KILL, Some(400)), (Ignored, KILL, Some(400))).sigkill();
    assert_told(&ignores, Cause::WaitsForChild, &["never got it"], Some("needs a handler for it too"));
}

#[test]
fn a_program_that_is_no_shell_is_not_told_of_as_one() {
    let python = ("python3 run.py app", "/usr/bin/python3");
    let stays = below(true, python, (Caught, KILL, Some(400)), (Caught, KILL, Some(400))).sigkill();
    assert_told(&stays, Cause::NotPassedOn, &["python3 takes it and stayed"], Some("let python3 pass SIGTERM on"));
    let leaves = below(true, python, (Caught, OK, Some(300)), (Caught, KILL, Some(300))).loses_it(300);
    assert_told(&leaves, Cause::LeftEarly, &["took it and exited 0 at once"], Some("start the worker without python3"));
    let first = below(false, python, (Caught, OK, Some(300)), (Caught, OK, Some(370))).received(TOP);
    assert_told(&first, Cause::LeftEarly, &["python3 left first"], Some("let python3 pass SIGTERM on, and wait"));
    let by_it = below(false, python, (Caught, TERM, Some(300)), (Caught, KILL, None));
    assert_told(
        &by_it,
        Cause::Orphaned,
        &["python3 took it, and was killed by SIGTERM at once", "never got it"],
        Some("exec"),
    );
}

#[test]
fn a_signal_that_is_passed_on_as_another_is_told() {
    let init = ("dumb-init -r 15:2 app", "/usr/bin/dumb-init");
    let int = Status::Signal(Signal::INT);
    let case = below(true, init, (WaitedFor, Status::Code(130), Some(300)), (Caught, int, Some(300))).loses_it(300);
    let words = ["The worker got SIGINT instead and died of it at once, and 1 invocation", "dumb-init exited 130"];
    assert_told(&case, Cause::NotPassedOn, &words, Some("pass SIGTERM on as it is"));
}

#[test]
fn a_worker_that_dies_with_its_top_is_no_orphan() {
    let unshare = ("unshare -fp --kill-child app", "/usr/bin/unshare");
    let case = below(false, unshare, (Blocked, KILL, Some(400)), (Caught, KILL, Some(400))).sigkill();
    assert_told(&case, Cause::Held, &["SIGKILL then took unshare, and the worker with it."], Some("exec"));
}

#[test]
fn nothing_is_told_of_what_was_not_seen() {
    let case = alone(true, (Caught, OK, Some(370)));
    assert_eq!(explain(&case.scenario, &crate::evidence::Evidence::default(), &case.events), None);
    assert_eq!(explain(&case.scenario, &case.evidence, &[]), None);
    let skipped = Case { events: Vec::new(), ..case }.event(300, EventKind::SigtermSkipped { worker: WORKER });
    assert_told(&skipped, Cause::NotSent, &["was not sent"], None);
}

#[test]
fn the_kernel_and_the_masks_are_compared() {
    let sent = |outcome| {
        let step = Step::Sent { by: "the harness".to_owned(), by_pid: Some(1), by_kernel: false, outcome };
        Kernel::Records(vec![SignalRecord { at_us: 3_005_000, signal: Signal::TERM, pid: TOP, step }])
    };
    let told = |kernel, sigterm| {
        let mut case = alone(true, (sigterm, KILL, Some(400))).sigkill();
        case.evidence.kernel = Some(kernel);
        explain(&case.scenario, &case.evidence, &case.events).unwrap().text
    };
    let text = told(sent(Outcome::Dropped), Default);
    assert!(text.ends_with("The kernel's record: dropped when it was sent, as the masks say."), "{text}");
    let text = told(sent(Outcome::Dropped), Caught);
    assert!(text.ends_with("dropped when it was sent, which is NOT what the masks say."), "{text}");
    let text = told(sent(Outcome::Queued), Caught);
    assert!(text.ends_with("queued, as the masks say."), "{text}");
    assert!(told(Kernel::Records(Vec::new()), Caught).ends_with("has no SIGTERM to it."));
    let text = told(Kernel::Unavailable { why: "only root may trace".to_owned() }, Caught);
    assert!(text.ends_with("is unavailable, since only root may trace."), "{text}");
}

#[test]
fn a_mask_that_is_given_up_is_told() {
    let mut case = alone(true, (Caught, KILL, Some(400))).sigkill();
    let mut after = case.evidence.before.clone().unwrap();
    after.processes[0].process.sigterm = Default;
    case.evidence.after = Some(Snapshot { at_us: 3_008_000, ..after });
    assert_told(&case, Cause::Unknown, &["The masks mislead here: app showed SIGTERM as caught"], None);
}

#[test]
fn a_worker_that_exits_with_invocations_in_flight_did_not_drain() {
    let direct = alone(true, (Caught, OK, Some(305))).received(0).loses_it(305);
    let words = ["whose handler got it; it exited 0 after 0.5 s, and 1 invocation with it."];
    assert_told(&direct, Cause::Abandoned, &words, Some("finish what is in flight"));
    let behind = below(true, SH, (Caught, OK, Some(306)), (Caught, OK, Some(305))).received(1).loses_it(305);
    let words = ["dash passed it on and waited: the worker got it and exited 0 after 0.5 s, and 1 inv"];
    assert_told(&behind, Cause::Abandoned, &words, Some("finish what is in flight"));
}

#[test]
fn an_older_kernel_does_not_tell_how_the_worker_ended_and_nothing_is_made_up() {
    let code = Status::CODE_143;
    let untold = |pid1, top: End, worker: End| below(pid1, SH, top, worker).on_an_older_kernel();
    let drained = untold(true, (Caught, OK, Some(371)), (Caught, OK, Some(370))).received(1);
    assert_told(&drained, Cause::Drained, &["dash passed it on and waited", "drained and ended after 7.0 s"], None);
    let alone = untold(false, (Caught, code, Some(371)), (Caught, OK, Some(370))).received(TOP);
    assert_told(&alone, Cause::Drained, &["drained and ended after 7.0 s; then dash exited 143"], None);
    let cut = untold(true, (Caught, code, Some(300)), (Caught, KILL, Some(300))).received(1).loses_it(300);
    assert_told(&cut, Cause::LeftEarly, &["its end cut the worker, and 1 inv"], Some("`wait` in a loop"));
    let killed = untold(true, (Default, KILL, Some(400)), (Caught, KILL, Some(400))).sigkill().loses_it(400);
    assert_told(&killed, Cause::Dropped, &["SIGKILL to PID 1 then cut the worker, and 1"], Some("exec form"));
    let unknown = ["dash exited 143 at once, and the worker ended at once", "is not known: before Linux 6.15"];
    for pid1 in [true, false] {
        let died = untold(pid1, (Caught, code, Some(300)), (Default, TERM, Some(300))).loses_it(300);
        assert_told(&died, Cause::Unknown, &unknown, None);
    }
    let idle = untold(true, (Caught, code, Some(300)), (Caught, KILL, Some(300))).received(1);
    assert_told(&idle, Cause::Unknown, &["or was cut by the end of PID 1 is not known"], None);
    let orphan = untold(false, (Default, TERM, Some(300)), (Caught, OK, Some(345)));
    assert_told(&orphan, Cause::Orphaned, &["went on alone and ended after 4.5 s"], Some("exec"));
    let outlived = untold(false, SH_CAUGHT, (Caught, OK, Some(490))).received(TOP).sigkill();
    let outlived = outlived.event(490, EventKind::OrphanExited { worker: WORKER });
    assert_told(&outlived, Cause::Orphaned, &["SIGKILL reached dash only", "ended after 19.0 s"], Some("19.0 s"));
}

const SH_CAUGHT: End = (Caught, KILL, Some(400));
