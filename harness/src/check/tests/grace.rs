use super::{APP, KILLED, OK, SH, TERMED, report::record, row};
use crate::{
    check::{
        fate::Fate,
        find_grace::{Answer, Found, Next, Trial, next},
        record::{Cause, Observed, Record, Verdict},
        samples::{TOP, drill, settings},
        settings::{Seat, Settings},
    },
    evidence::Disposition::{Caught, Default},
};

fn in_one_seat(settings: Settings, observed: Observed) -> Record {
    record(settings, vec![(Seat::Process, observed)])
}

/// A shell that leaves at once, and a server below it that needs longer than it is given: both are sent everything.
fn server_below_a_shell() -> Record {
    let observed = drill(false, &[row(SH, Default, TERMED, Some(1)), row(APP, Caught, KILLED, Some(2_010))]);
    let observed = observed.closed(5).request(-50, 2_010, Fate::Reset, None).sigkill(2_000);
    let mut observed = Observed { deadline_us: 2_000_000, ..observed };
    observed.signal.as_mut().unwrap().pids = vec![TOP, TOP + 1];
    observed.sigkill.as_mut().unwrap().pids = vec![TOP + 1];
    in_one_seat(Settings { grace_ms: 2_000, ..settings() }, observed)
}

#[test]
fn what_sigkill_took_below_a_first_process_that_had_left_needs_longer() {
    let record = server_below_a_shell();
    let trial = Trial::of(2_000, &record.seats[0]);
    assert_eq!((trial.verdict, trial.sigkill, trial.gone_ms), (Verdict::Fail, true, Some(2_010)));
    assert_eq!(next(2_000, 0, &[trial]), Next::Try(4_000), "{trial:?} {:?}", record.seats[0].explanation);
}

/// The platform's own grace period may be enough for a server only since clients let go of their connections in time.
#[test]
fn that_a_server_waited_for_idle_connections_is_told() {
    let given = Settings { grace_ms: 10_000, ..settings() };
    let at = |grace_ms: u64| {
        let mut observed = drill(true, &[row(APP, Caught, OK, Some(4_510))]).closed(5).served(3);
        observed.idle.silent.dropped_us = Some(4_500_000);
        in_one_seat(given.with_grace(grace_ms), observed)
    };
    let records = [10_000, 4_600].map(at);
    let mut trials: Vec<Trial> =
        records.iter().map(|record| Trial::of(record.settings.grace_ms, &record.seats[0])).collect();
    assert!(trials.iter().all(|trial| trial.waited_for_idle), "{trials:?}");
    trials.push(Trial { grace_ms: 4_500, verdict: Verdict::Fail, sigkill: true, cause: Cause::TooSlow, ..trials[0] });
    let answer = Answer::Shortest { grace_ms: 4_600, step_ms: 100 };
    let found = Found::new(10_000, trials.clone(), answer, &records[1]).unwrap();
    assert!(
        found.text.contains("4.5 s is not, both confirmed") && found.text.contains("5.4 s to spare"),
        "{}",
        found.text
    );
    assert!(found.text.contains("gave up their idle connections, 4.5 s after the signal"), "{}", found.text);
    trials.iter_mut().for_each(|trial| trial.waited_for_idle = false);
    let found = Found::new(10_000, trials, answer, &records[1]).unwrap();
    assert!(!found.text.contains("idle"), "{}", found.text);
}

#[test]
fn one_that_was_not_tried_is_not_told_of_as_too_short() {
    let settings = Settings { pre_stop_ms: 2_000, grace_ms: 10_000, ..settings() };
    let observed = Observed { stop_us: -2_000_000, ..drill(false, &[row(APP, Caught, OK, Some(2))]).served(3) };
    let record = in_one_seat(settings.with_grace(2_100), observed);
    let trial = Trial::of(2_100, &record.seats[0]);
    assert_eq!(next(10_000, 2_000, &[trial, trial]), Next::Done(Answer::Shortest { grace_ms: 2_100, step_ms: 100 }));
    let found = Found::new(10_000, vec![trial, trial], Answer::Shortest { grace_ms: 2_100, step_ms: 100 }, &record);
    let text = found.unwrap().text;
    assert!(text.starts_with("2.1 s is enough, and of a shorter one the preStop hook (2 s) leaves nothing."), "{text}");
}
