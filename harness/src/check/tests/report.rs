use scenarios::Status;

use super::{APP, C143, KILLED, OK, SH, TERMED, TINI, row, waiting};
use crate::{
    check::{
        explain,
        fate::Fate,
        junit,
        record::{Observed, Record, SeatRecord},
        samples::{drill, settings},
        settings::{Seat, Settings},
        text, verdict,
    },
    evidence::Disposition::{Caught, Default, WaitedFor},
    report::Screen,
};

pub(super) fn record(settings: Settings, seats: Vec<(Seat, Observed)>) -> Record {
    let seats: Vec<SeatRecord> = seats
        .into_iter()
        .map(|(seat, observed)| SeatRecord {
            seat,
            judgement: verdict::judge(&settings, &observed),
            explanation: explain::explain(&settings, &observed),
            observed,
        })
        .collect();
    Record::new(settings, seats)
}

/// A deaf PID 1, which as an ordinary process dies at once.
fn deaf() -> Record {
    let pid1 = drill(true, &[row(APP, Default, KILLED, Some(10_010))]).sigkill(10_000);
    let pid1 = pid1.served(20).request(-100, 900, Fate::Completed, Some(200)).request(9_900, 10_010, Fate::Reset, None);
    let process = drill(false, &[row(APP, Default, TERMED, Some(2))]);
    let process = process.served(20).request(-100, 2, Fate::Reset, None).request(50, 50, Fate::Refused, None);
    record(settings(), vec![(Seat::Pid1, pid1), (Seat::Process, process)])
}

const WIDE: Screen = Screen { width: 80, ascii: false, verbose: false };

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// Pairs of drills as they come of servers in use.
fn pairs() -> Vec<(&'static str, Record)> {
    let both =
        |pid1: Observed, process: Observed| record(settings(), vec![(Seat::Pid1, pid1), (Seat::Process, process)]);
    let load = |drill: Observed| drill.served(20).request(-100, 600, Fate::Completed, Some(200));
    let refused =
        |drill: Observed| load(drill).request(50, 50, Fate::Refused, None).request(150, 150, Fate::Refused, None);
    let cut = |drill: Observed| {
        load(drill).request(-100, 10_010, Fate::Reset, None).request(9_900, 10_010, Fate::Truncated, None)
    };
    let orphan = || drill(false, &[row(SH, Default, TERMED, Some(1)), row(APP, Caught, KILLED, None)]);
    let shell_form = || {
        drill(true, &[row(SH, Default, KILLED, Some(10_010)), row(APP, Caught, KILLED, Some(10_009))]).sigkill(10_000)
    };
    let drains = |pid1| refused(drill(pid1, &[row(APP, Caught, OK, Some(700))]).closed(10));
    let mut remarked = both(cut(shell_form()), load(orphan()));
    for seat in &mut remarked.seats {
        seat.judgement.remarks =
            (1..=5).map(|number| format!("Remark {number}, which is as long as they are.")).collect();
    }
    let trap = |pid1, then: (Status, i64)| {
        refused(drill(pid1, &[row(SH, Caught, C143, Some(100)), row(APP, Caught, then.0, Some(then.1))]).closed(5))
            .request(-100, 100, Fate::Reset, None)
    };
    let waits = |pid1| {
        waiting(cut(drill(pid1, &[row(SH, Caught, KILLED, Some(10_010)), row(APP, Caught, KILLED, Some(10_009))])
            .sigkill(10_000)))
    };
    let below_init = |pid1| {
        cut(drill(
            pid1,
            &[
                row(TINI, WaitedFor, C143, Some(6)),
                row(SH, Default, TERMED, Some(2)),
                row(APP, Caught, KILLED, pid1.then_some(5)),
            ],
        ))
    };
    vec![
        ("deaf", deaf()),
        ("drains", both(drains(true), drains(false))),
        ("shell form", both(cut(shell_form()), load(orphan()))),
        ("with remarks", remarked),
        ("trap that waits once", both(trap(true, (KILLED, 99)), trap(false, (OK, 900)))),
        ("trap with a foreground child", both(waits(true), waits(false))),
        ("init above a shell", both(below_init(true), below_init(false))),
    ]
}

#[test]
fn a_report_on_two_seats_fits_one_screen() {
    for (what, record) in pairs() {
        let report = plain(&text::report(WIDE, &record));
        assert!(report.lines().count() <= 23, "{what}, and the line of the next prompt:\n{report}");
        assert!(report.lines().all(|line| line.chars().count() <= 80), "{what}:\n{report}");
        for seat in &record.seats {
            let (verdict, title) = (seat.judgement.verdict.word(), seat.seat.title());
            let heads = |line: &str| line.contains(verdict) && line.contains(&format!(" as {title}"));
            assert!(report.lines().any(heads), "{what}:\n{report}");
        }
        let lost = record.seats.iter().any(|seat| seat.judgement.lost > 0);
        let row = |line: &str| line.starts_with("process ") || line.starts_with("PID 1 ");
        assert_eq!(report.lines().any(|line| row(line) && line.contains('x')), lost, "{what}:\n{report}");
        for width in [40, 60, 200] {
            let report = plain(&text::report(Screen { width, ..WIDE }, &record));
            let widest = report.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{what} at {width}: {widest:?}\n{report}");
        }
    }
}

#[test]
fn reports_as_they_are_read() {
    for (what, record) in pairs() {
        insta::assert_snapshot!(format!("both-{}", what.replace([' ', ','], "-")), plain(&text::report(WIDE, &record)));
    }
    for ascii in [false, true] {
        let screen = Screen { width: 80, ascii, verbose: true };
        let report = plain(&text::report(screen, &deaf()));
        insta::assert_snapshot!(format!("report-{}", if ascii { "ascii" } else { "unicode" }), report);
        assert!(report.lines().all(|line| line.chars().count() <= 80), "{report}");
        for screen in [screen, Screen { verbose: false, ..screen }] {
            assert!(!ascii || text::report(screen, &deaf()).is_ascii(), "{report}");
        }
    }
    let mut one = deaf();
    one.seats.pop();
    one.difference = None;
    let report = plain(&text::report(WIDE, &one));
    assert!(report.lines().count() <= 23, "{report}");
    insta::assert_snapshot!("one-seat", report);
}

#[test]
fn where_no_drill_was_made_the_last_lines_are_shown_once() {
    let unable = || Observed {
        unable: Some("it did not listen on port 8080 within 10 s".to_owned()),
        output: "Traceback\n\u{1b}[31mno module named app\n".to_owned(),
        output_bytes: 40,
        ..Observed::default()
    };
    let record =
        |one, other| plain(&text::report(WIDE, &record(settings(), vec![(Seat::Pid1, one), (Seat::Process, other)])));
    let both = record(unable(), unable());
    assert_eq!((both.matches("INCONCLUSIVE").count(), both.matches("no module named app").count()), (1, 1), "{both}");
    let drained = || drill(false, &[row(APP, Caught, OK, Some(700))]).closed(10).served(20);
    for report in [record(unable(), drained()), record(drained(), unable())] {
        assert!(
            report.contains("? INCONCLUSIVE") && report.contains("PASS") && report.contains("exit code 0"),
            "{report}"
        );
        assert!(report.lines().count() <= 23, "{report}");
    }
}

#[test]
fn a_report_for_ci_counts_what_failed() {
    let text = String::from_utf8(junit::junit(&deaf()).unwrap()).unwrap();
    insta::assert_snapshot!("junit", text);
    // One that ended before the signal took its time, too: from its start on.
    let early =
        Observed { signal: None, ended_early: true, end_us: -900_000, ..drill(false, &[row(APP, Caught, OK, None)]) };
    let text = String::from_utf8(junit::junit(&record(settings(), vec![(Seat::Process, early)])).unwrap()).unwrap();
    assert!(text.contains(r#"time="1.200""#), "{text}");
    let unable = Observed { unable: Some("it did not listen".to_owned()), ..Observed::default() };
    let text = String::from_utf8(junit::junit(&record(settings(), vec![(Seat::Pid1, unable)])).unwrap()).unwrap();
    assert!(text.contains(r#"failures="0" errors="1""#), "{text}");
}

#[test]
fn the_document_reads_back() {
    let record = deaf();
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
}
