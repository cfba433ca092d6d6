use scenarios::{Signal, Status};

use super::{APP, C143, KILLED, OK, SH, TERMED, row};
use crate::{
    check::{
        fate::Fate,
        profiles::SecondSignal,
        record::{Observed, Sending, Verdict},
        samples::{TOP, drill, settings},
        settings::{Allowance, Policy, Settings},
        verdict,
    },
    evidence::Disposition::{Caught, Default},
};

#[test]
fn what_fails_and_what_passes() {
    let drained = || drill(true, &[row(APP, Caught, OK, Some(700))]).closed(10).served(5);
    let policy = |change: fn(&mut Settings)| {
        let mut settings = settings();
        change(&mut settings);
        settings
    };
    let usual = || settings();
    let refused = |observed: Observed| observed.request(100, 100, Fate::Refused, None);
    let none_refused = || policy(|settings| settings.policy.allow_refused = Some(Allowance::Count(0)));
    let sent_kill = |observed: Observed| {
        let second_signal = Some(Sending { signal: Signal::KILL, at_us: 100_000, pids: vec![TOP] });
        Observed { second_signal, ..observed }
    };
    let killed = || drill(true, &[row(APP, Caught, KILLED, Some(110))]).closed(110).served(5);
    let rows: Vec<(&str, Settings, Observed, Verdict)> = vec![
        ("killed by somebody else", usual(), killed(), Verdict::Fail),
        ("killed by the second signal", usual(), sent_kill(killed()), Verdict::Pass),
        (
            "killed by the second signal, with a loss",
            usual(),
            sent_kill(killed()).request(-50, 110, Fate::Reset, None),
            Verdict::Fail,
        ),
        ("drained", usual(), drained().request(-50, 500, Fate::Completed, Some(200)), Verdict::Pass),
        ("exit 0 with a loss", usual(), drained().request(-50, 5, Fate::Reset, None), Verdict::Fail),
        (
            "a loss that is allowed",
            policy(|s| s.policy.max_lost = 1),
            drained().request(-50, 5, Fate::Reset, None),
            Verdict::Pass,
        ),
        ("a loss before the signal", usual(), drained().request(-50, -40, Fate::Truncated, Some(200)), Verdict::Fail),
        (
            "143 after a drain",
            usual(),
            drill(true, &[row(APP, Caught, C143, Some(700))]).closed(5).served(3),
            Verdict::Pass,
        ),
        ("refused, not judged", usual(), refused(drained()), Verdict::Pass),
        ("refused, judged", none_refused(), refused(drained()), Verdict::Fail),
        (
            "refused, half of them allowed",
            policy(|s| s.policy.allow_refused = Some(Allowance::Percent(50.0))),
            refused(drained()).request(50, 51, Fate::Completed, Some(200)),
            Verdict::Pass,
        ),
        ("turned away, judged", none_refused(), drained().request(9, 12, Fate::Completed5xx, Some(503)), Verdict::Fail),
        ("turned away, not judged", usual(), drained().request(9, 12, Fate::Completed5xx, Some(503)), Verdict::Pass),
        ("500 after the signal", usual(), drained().request(9, 12, Fate::Completed5xx, Some(500)), Verdict::Fail),
        ("503 in flight", usual(), drained().request(-9, 12, Fate::Completed5xx, Some(503)), Verdict::Fail),
        (
            "500 as before",
            usual(),
            drained().request(-90, -80, Fate::Completed5xx, Some(500)).request(-9, 12, Fate::Completed5xx, Some(500)),
            Verdict::Pass,
        ),
        (
            "SIGKILL",
            usual(),
            drill(true, &[row(APP, Default, KILLED, Some(10_010))]).sigkill(10_000).served(3),
            Verdict::Fail,
        ),
        (
            "an orphan",
            usual(),
            drill(false, &[row(SH, Default, TERMED, Some(1)), row(APP, Caught, KILLED, None)]),
            Verdict::Fail,
        ),
        (
            "an app that outlives its wrapper, and is killed with all",
            usual(),
            {
                let mut observed =
                    drill(false, &[row(SH, Default, TERMED, Some(1)), row(APP, Caught, KILLED, Some(10_010))]);
                observed = observed.sigkill(10_000);
                observed.sigkill.as_mut().unwrap().pids = vec![observed.app_pid.unwrap()];
                observed
            },
            Verdict::Fail,
        ),
        ("somebody else's SIGKILL", usual(), drill(true, &[row(APP, Caught, KILLED, Some(100))]), Verdict::Fail),
        (
            "a crash",
            usual(),
            drill(true, &[row(APP, Caught, Status::Signal(Signal::from_number(11).unwrap()), Some(100))]),
            Verdict::Fail,
        ),
        (
            "another exit than expected",
            policy(|s| s.policy.expect_exit = Some(OK)),
            drill(true, &[row(APP, Caught, C143, Some(100))]),
            Verdict::Fail,
        ),
        (
            "the exit that is expected",
            policy(|s| s.policy.expect_exit = Some(C143)),
            drill(true, &[row(APP, Caught, C143, Some(100))]),
            Verdict::Pass,
        ),
        ("ended early", usual(), Observed { signal: None, ended_early: true, ..drained() }, Verdict::Fail),
        (
            "never ready",
            usual(),
            Observed { unable: Some("it did not listen".to_owned()), ..Observed::default() },
            Verdict::Inconclusive,
        ),
    ];
    for (what, settings, observed, wanted) in rows {
        let judgement = verdict::judge(&settings, &observed);
        assert_eq!(judgement.verdict, wanted, "{what}: {judgement:?}");
        assert_eq!(judgement.reasons.is_empty(), wanted == Verdict::Pass, "{what}: {judgement:?}");
    }
}

#[test]
fn what_our_own_side_could_not_do_is_no_failure_of_the_server_and_no_pass() {
    let mut observed = drill(true, &[row(APP, Caught, OK, Some(700))]).served(5);
    observed.client.unable = 1;
    observed.client.unable_why = Some("no local port is left".to_owned());
    let judgement = verdict::judge(&settings(), &observed);
    assert_eq!(judgement.verdict, Verdict::Inconclusive);
    assert!(judgement.reasons[0].contains("no local port"), "{judgement:?}");
    let late = |number| {
        let mut observed = drill(true, &[row(APP, Caught, OK, Some(700))]).served(20);
        observed.client.left_out = number;
        verdict::judge(&settings(), &observed).verdict
    };
    assert_eq!((late(6), late(7)), (Verdict::Pass, Verdict::Inconclusive));
    // What found no room in the kernel's queue says that too much was sent.
    let mut full = drill(true, &[row(APP, Caught, OK, Some(700))]).served(5).request(100, 1100, Fate::Refused, None);
    full.requests.last_mut().unwrap().queue_full = true;
    let said = |full: &Observed| {
        let judgement = verdict::judge(&settings(), full);
        assert_eq!(judgement.verdict, Verdict::Inconclusive);
        judgement.reasons.concat()
    };
    assert!(said(&full).contains("did not accept fast enough") && !said(&full).contains("too slow"), "{}", said(&full));
    // Our own side is to blame, too, only where it was late.
    full.client.left_out = 2;
    assert!(said(&full).contains("the machine was too slow, too"), "{}", said(&full));
    // What was lost was lost all the same.
    let failed = verdict::judge(&settings(), &observed.request(-50, 5, Fate::Reset, None));
    assert_eq!((failed.verdict, failed.lost), (Verdict::Fail, 1));
}

#[test]
fn what_fails_after_the_signal_as_it_did_before_is_nothing_new() {
    let drained = || drill(true, &[row(APP, Caught, OK, Some(700))]).closed(500);
    // How requests before the signal and from then on are answered, each as one letter: served, or failed.
    let answered = |before: &str, since: &str| {
        let of = |letter| match letter {
            's' => (Fate::Completed, Some(200)),
            _ => (Fate::Completed5xx, Some(500)),
        };
        let early = (1i64..).zip(before.chars().rev()).collect::<Vec<_>>().into_iter().rev();
        let early = early.fold(drained(), |drill, (count, letter)| {
            let (fate, status) = of(letter);
            drill.request(-20 * count, -20 * count + 2, fate, status)
        });
        let drill = (0i64..).zip(since.chars()).fold(early, |drill, (count, letter)| {
            let (fate, status) = of(letter);
            drill.request(20 * count - 1, 20 * count + 2, fate, status)
        });
        let judgement = verdict::judge(&settings(), &drill);
        (judgement.verdict, judgement.lost)
    };
    for (what, before, since, lost) in [
        ("it warmed up", "fsssssssssssssssssss", "fffff", 5),
        ("for some time", "ffffssssssssssssssss", "f", 1),
        ("one of many before, and all since", "sssssfssssssssssssss", "ffffffffffff", 12),
        ("one of many before, and two at once since", "sssssfssssssssssssss", "ff", 2),
        ("one of many before, and one since", "sssssfssssssssssssss", "fsssss", 0),
        ("each second one", "sfsfsfsf", "ffsfs", 0),
        ("each second one, and then each", "sfsfsfsfsfsfsfsf", "ffffffffff", 0),
        ("each third one, and then each", "ssfssfssfssf", "ffffffffff", 10),
        ("all of them", "ffff", "fff", 0),
        ("none before", "ssssssss", "f", 1),
    ] {
        let verdict = if lost > 0 { Verdict::Fail } else { Verdict::Pass };
        assert_eq!(answered(before, since), (verdict, lost), "{what}");
    }
}

#[test]
fn what_is_said_beside_the_verdict() {
    let says = |observed: &Observed, what: &str| {
        verdict::judge(&settings(), observed).remarks.iter().any(|remark| remark.contains(what))
    };
    let dies = drill(false, &[row(APP, Default, TERMED, Some(1))]).served(3);
    assert!(says(&dies, "is luck"));
    assert!(!says(&drill(false, &[row(APP, Caught, OK, Some(1))]).served(3), "is luck"));

    // Only who got its turn when an idle connection was given up had waited for that one.
    let mut waits = drill(true, &[row(APP, Caught, OK, Some(900))]).closed(900).served(3);
    waits.idle.silent.dropped_us = Some(300_000);
    waits.idle.silent.blocked_others = true;
    assert!(!says(&waits.clone().request(50, 900, Fate::AcceptedNeverServed, None), "kept others waiting"));
    assert!(says(&waits.request(50, 310, Fate::Completed, Some(200)), "kept others waiting"));

    // A router that has stopped before the signal leaves nothing in flight, whatever is asked for.
    let none = drill(true, &[row(APP, Caught, OK, Some(1))]).served(3);
    assert!(says(&none, "see --slow-request"));
    let slept = Settings { pre_stop_ms: 5_000, ..settings() };
    let remarks = verdict::judge(&slept, &none).remarks.concat();
    assert!(remarks.contains("the router had stopped") && !remarks.contains("--slow-request"), "{remarks}");

    // Who was at work until after an idle connection was given up did not wait for that one.
    let mut ends = drill(true, &[row(APP, Caught, OK, Some(1_900))]).closed(5);
    ends.idle.silent.dropped_us = Some(1_500_000);
    assert!(!says(&ends, "only when this check gave up an idle connection"), "it took its time");
    ends.idle.silent.dropped_us = Some(1_750_000);
    assert!(says(&ends, "only when this check gave up an idle connection"));
    assert!(!says(
        &ends.request(-50, 1_890, Fate::Completed, Some(200)),
        "only when this check gave up an idle connection"
    ));
}

#[test]
fn what_is_said_of_a_slow_request_that_was_not_slow_enough() {
    let says = |settings: &Settings, what: &str| {
        let drained = drill(true, &[row(APP, Caught, OK, Some(700))]).served(5);
        let mut observed = drained.request(-90, -20, Fate::Completed, Some(200));
        observed.requests.last_mut().unwrap().template = 1;
        verdict::judge(settings, &observed).remarks.iter().any(|remark| remark.contains(what))
    };
    let slow = Settings { slow_requests: vec!["/slow".parse().unwrap()], ..settings() };
    assert!(says(&slow, "the slow request was over before, it is not slow enough"));
    assert!(!says(&slow, "see --slow-request"));
    let two = Settings { requests: vec!["/a".parse().unwrap(), "/b".parse().unwrap()], ..settings() };
    assert!(says(&two, "No request was in flight when the signal came: see --slow-request."));
}

#[test]
fn a_request_that_is_never_answered_with_success_is_named() {
    let drained = drill(true, &[row(APP, Caught, OK, Some(700))]).served(3);
    let mut observed = drained.request(-90, -20, Fate::Completed, Some(404));
    observed.requests.last_mut().unwrap().template = 1;
    let two =
        Settings { requests: vec!["/a".parse().unwrap()], slow_requests: vec!["/b".parse().unwrap()], ..settings() };
    let remarks = |observed: &Observed| verdict::judge(&two, observed).remarks.concat();
    assert!(remarks(&observed).contains("GET /b was not once answered with success (404)"), "{}", remarks(&observed));
    observed = observed.request(-80, -10, Fate::Completed, Some(200));
    observed.requests.last_mut().unwrap().template = 1;
    assert!(!remarks(&observed).contains("with success"), "{}", remarks(&observed));
}

#[test]
fn an_answer_of_503_is_not_told_of_as_refused() {
    let judged =
        Settings { policy: Policy { allow_refused: Some(Allowance::Count(0)), ..settings().policy }, ..settings() };
    let drained = || drill(true, &[row(APP, Caught, OK, Some(700))]).closed(10);
    let refused = || drained().request(100, 100, Fate::Refused, None);
    let away = || refused().request(200, 201, Fate::Completed5xx, Some(503));
    for (observed, said) in [
        (refused(), "1 of 1 request after the signal was refused where 0 may be."),
        (away(), "2 of 2 requests after the signal were refused or turned away with 503 where 0 may be."),
    ] {
        assert_eq!(verdict::judge(&judged, &observed).reasons, [said]);
        let how = said.split(" after").nth(1).unwrap().contains("503");
        let remarks = verdict::judge(&settings(), &observed).remarks.join(" ");
        assert_eq!(
            remarks.contains("refused or turned away with 503 after the signal are judged only"),
            how,
            "{remarks}"
        );
    }
}

#[test]
fn a_second_signal_for_which_there_was_no_time_is_told_of() {
    let second_signal = Some(SecondSignal { signal: Signal::INT, after_ms: 1000 });
    let says = |grace_ms: u64, observed: Observed| {
        let settings = Settings { grace_ms, second_signal, ..settings() };
        verdict::judge(&settings, &observed).remarks.iter().any(|remark| remark.contains("SIGINT was not sent"))
    };
    let killed = || drill(true, &[row(APP, Caught, KILLED, Some(1_010))]).sigkill(1_000).served(3);
    assert!(says(1_000, killed()));
    assert!(!says(1_100, killed()), "it ended before");
    assert!(!says(1_000, Observed { signal: None, ended_early: true, ..killed() }), "nor was the first");
    let sent = Some(Sending { signal: Signal::INT, at_us: 1_000_000, pids: vec![TOP] });
    assert!(!says(1_000, Observed { second_signal: sent, ..killed() }));
}

#[test]
fn what_may_not_be_killed_is_no_process_that_was_cleaned_up() {
    let orphan = || drill(false, &[row(SH, Default, TERMED, Some(1)), row(APP, Caught, KILLED, None)]);
    let reasons = |observed: &Observed| verdict::judge(&settings(), observed).reasons.join(" ");
    assert_eq!(reasons(&orphan()), "1 process lived on and had to be cleaned up.");
    let mut observed = Observed { beyond: vec![TOP + 1], ..orphan() };
    let said = "node (pid 21) may not be killed from here";
    assert!(reasons(&observed).starts_with(said), "{}", reasons(&observed));
    observed.unable = Some("it did not listen on port 8080 within 1 s".to_owned());
    assert!(reasons(&observed).contains(said), "{}", reasons(&observed));
}
