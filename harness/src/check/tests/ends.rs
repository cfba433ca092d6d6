//! By what processes ended, where it takes more than their status to tell.

use scenarios::{Signal, Status};

use super::{APP, C143, KILLED, OK, SH, TERMED, TINI, row};
use crate::{
    check::{
        explain,
        fate::Fate,
        record::{Cause, Explanation, Judgement, Observed, Sending, Verdict},
        samples::{TOP, drill, settings},
        verdict,
    },
    evidence::Disposition::{Caught, Default, WaitedFor},
};

const SUPERVISOR: (&str, &str) = ("python3 run.py", "/usr/bin/python3");
const HELPER: (&str, &str) = ("sleep 1000", "/usr/bin/sleep");

fn came_to(observed: &Observed) -> (Judgement, Explanation) {
    (verdict::judge(&settings(), observed), explain::explain(&settings(), observed))
}

/// Linux before 6.15 tells nobody but the parent how a process ended.
fn on_an_old_kernel(mut observed: Observed) -> Observed {
    observed.ends.iter_mut().filter(|end| end.pid != TOP).for_each(|end| end.status = None);
    observed
}

#[test]
fn a_kernel_that_does_not_tell_how_the_app_ended_is_no_proof_of_a_cut() {
    const UNKNOWN: &str = "node and tini ended together";
    let init = |top_ms, app_ms| {
        drill(true, &[row(TINI, WaitedFor, OK, Some(top_ms)), row(APP, Caught, OK, Some(app_ms))]).closed(5).served(5)
    };
    let seen = |observed: Observed, top_was_ending| Observed { top_was_ending: Some(top_was_ending), ..observed };
    let cut = drill(true, &[row(SH, Caught, C143, Some(100)), row(APP, Caught, KILLED, Some(99))]).served(5);
    for (what, observed, cause, said, verdict) in [
        ("tini", init(701, 700), Cause::Unknown, UNKNOWN, Verdict::Pass),
        ("tini that was ending", seen(init(701, 700), true), Cause::Unknown, UNKNOWN, Verdict::Pass),
        (
            "tini that was not ending",
            seen(init(701, 700), false),
            Cause::Ended,
            "passed it on and waited",
            Verdict::Pass,
        ),
        ("later", init(900, 700), Cause::Ended, "passed it on and waited", Verdict::Pass),
        (
            "cut, with a loss",
            cut.clone().request(-50, 99, Fate::Reset, None),
            Cause::Unknown,
            "node and dash ended together, and 1 request with it: dash exited 143 after 100 ms",
            Verdict::Fail,
        ),
        (
            "our SIGKILL to PID 1",
            drill(true, &[row(SH, Default, KILLED, Some(10_040)), row(APP, Caught, KILLED, Some(10_009))])
                .sigkill(10_000),
            Cause::Dropped,
            "SIGKILL to PID 1 then cut node",
            Verdict::Fail,
        ),
        (
            "an orphan",
            drill(false, &[row(SH, Default, TERMED, Some(1)), row(APP, Caught, OK, Some(900))]).closed(850),
            Cause::LeftEarly,
            "node went on alone and ended after 900 ms",
            Verdict::Pass,
        ),
    ] {
        let (judgement, explanation) = came_to(&on_an_old_kernel(observed));
        assert_eq!((explanation.cause, judgement.verdict), (cause, verdict), "{what}: {explanation:?} {judgement:?}");
        assert!(explanation.text.contains(said), "{what}: {}", explanation.text);
        let is_unknown = cause == Cause::Unknown;
        assert_eq!(explanation.text.contains("this kernel (before 6.15) does not tell"), is_unknown, "{what}");
        let remarked = judgement.remarks.iter().any(|remark| remark.contains("this kernel (before 6.15)"));
        assert_eq!(remarked, is_unknown, "{what}: {judgement:?}");
    }
    // Where it tells, it is known.
    let (judgement, explanation) = came_to(&cut);
    assert_eq!((judgement.verdict, explanation.cause), (Verdict::Fail, Cause::LeftEarly));
}

#[test]
fn an_app_that_its_own_supervisor_kills_was_not_cut_by_the_kernel() {
    let killed = |pid1, top_ms| {
        drill(pid1, &[row(SUPERVISOR, Caught, OK, Some(top_ms)), row(APP, Caught, KILLED, Some(5_000))]).closed(5)
    };
    let seen = Observed { top_was_ending: Some(false), ..killed(true, 5_001) };
    for (what, observed) in [("seen", seen), ("much later", killed(true, 5_100)), ("not PID 1", killed(false, 5_001))] {
        let (judgement, explanation) = came_to(&observed.served(5));
        let reason = "node was killed by SIGKILL before python3 ended, and not by this check.";
        assert_eq!(judgement.reasons, [reason], "{what}");
        assert!(
            explanation.text.contains("node closed its port at once and was killed by SIGKILL after 5 s"),
            "{what}"
        );
        assert!(!explanation.text.contains(" cut "), "{what}: {}", explanation.text);
        assert!(explanation.change.unwrap().starts_with("let run.py give node more time"), "{what}");
    }
    let cut = Observed { top_was_ending: Some(true), ..killed(true, 5_001) };
    assert!(came_to(&cut).1.text.contains("its end cut node"));
}

#[test]
fn a_second_signal_that_kills_the_app_is_no_cut_and_was_asked_for() {
    let top_and_app = vec![TOP, TOP + 1];
    let all = drill(true, &[row(TINI, WaitedFor, KILLED, Some(1_002)), row(APP, Caught, KILLED, Some(1_001))]);
    let to_all = |signal, at_us| Some(Sending { signal, at_us, pids: top_and_app.clone() });
    let observed = Observed {
        signal: to_all(Signal::TERM, 0),
        second_signal: to_all(Signal::KILL, 1_000_000),
        ..all.closed(5).served(5)
    };
    let (judgement, explanation) = came_to(&observed);
    assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:?}");
    assert!(!explanation.text.contains(" cut "), "{}", explanation.text);
    assert!(explanation.text.contains("got SIGKILL after 1 s"), "{}", explanation.text);
}

#[test]
fn whoever_is_there_until_sigkill_outlived_the_grace_period() {
    let helper = |status: Status, at_ms, sent_to: i32| {
        let processes = [row(APP, Caught, OK, Some(700)), row(HELPER, Caught, status, at_ms)];
        let mut observed = drill(true, &processes).closed(5).served(5).sigkill(10_000);
        observed.app_pid = Some(TOP);
        observed.sigkill.as_mut().unwrap().pids = vec![sent_to];
        observed.at_end.as_mut().unwrap().processes.clear();
        verdict::judge(&settings(), &observed)
    };
    let judgement = helper(KILLED, Some(10_001), TOP + 1);
    assert_eq!(judgement.verdict, Verdict::Fail);
    assert_eq!(judgement.reasons, ["1 process (sleep) outlived the grace period (10 s): SIGKILL."]);
    // It had ended by itself just then, before it, or it was not sent to it.
    for (status, at_ms, sent_to) in
        [(OK, Some(10_001), TOP + 1), (KILLED, Some(9_000), TOP + 1), (KILLED, Some(10_001), TOP + 2)]
    {
        let judgement = helper(status, at_ms, sent_to);
        assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:?}");
    }
}
