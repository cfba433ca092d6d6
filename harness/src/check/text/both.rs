//! Two seats on one screen: what they share is said once.

use super::{exit, headed, heading, last_lines, left, more, reasons, seat::seat, shared::Shared, table, timing};
use crate::{
    check::{
        record::{Record, SeatRecord, Verdict},
        settings::Seat,
        timeline,
    },
    report::{
        Screen,
        screen::{BAD, CAUTION, GOOD, STRONG},
    },
};

/// How many lines there are room for on a screen of the usual 24, with one for the next prompt.
const LINES: usize = 23;

/// Both seats.
pub(super) fn both(screen: Screen, record: &Record, seats: [&SeatRecord; 2]) -> String {
    let [first, second] = seats;
    let unable = seats.map(|seat| seat.observed.unable.is_some());
    let headed = |seat: &SeatRecord| {
        heading(screen, seat) + &last_lines(screen, &seat.observed) + &super::seat::change(screen, seat)
    };
    match unable {
        [true, true] => headings(screen, seats) + &outputs(screen, seats) + &changes(screen, seats),
        [true, false] => headed(first) + &seat(screen, record, second) + &more(screen, 0),
        [false, true] => seat(screen, record, first) + &headed(second) + &more(screen, 0),
        [false, false] => beside_each_other(screen, seats),
    }
}

fn beside_each_other(screen: Screen, seats: [&SeatRecord; 2]) -> String {
    let mut text = headings(screen, seats);
    if seats.iter().any(|seat| !seat.observed.requests.is_empty()) {
        text.push_str(&requests(screen, seats));
    }
    text.push_str(&signal(screen, seats));
    for seat in seats {
        if let Some(left) = left(&seat.observed) {
            text.push_str(&screen.labelled("left", BAD, &of(seat, &left)));
        }
    }
    let mut end = changes(screen, seats);
    let failed_early = |seat: &&SeatRecord| {
        seat.judgement.verdict != Verdict::Pass && (seat.observed.requests.is_empty() || seat.observed.ended_early)
    };
    if seats.iter().any(failed_early) {
        end.push_str(&outputs(screen, seats));
    }
    // Remarks that there is no room for are only counted.
    let lines = |text: &str| text.lines().count();
    let (notes, mut left_out) = (notes(screen, seats), 0);
    for note in &notes {
        if left_out == 0 && lines(&text) + lines(note) + lines(&end) < LINES {
            text.push_str(note);
        } else {
            left_out += 1;
        }
    }
    text + &end + &more(screen, left_out)
}

/// The verdicts, as one where they are the same for the same reasons.
fn headings(screen: Screen, seats: [&SeatRecord; 2]) -> String {
    let [first, second] = seats;
    let same = first.judgement.verdict == second.judgement.verdict && reasons(first) == reasons(second);
    if same {
        let title = format!("{} and as {}", first.seat.title(), second.seat.title());
        return headed(screen, first.judgement.verdict, &title, &reasons(first));
    }
    seats.map(|seat| heading(screen, seat)).concat()
}

/// What became of the requests, as numbers and over time.
fn requests(screen: Screen, seats: [&SeatRecord; 2]) -> String {
    let mut text = if screen.width < table::BOTH_WIDTH {
        let title = |seat: &SeatRecord| of(seat, "requests");
        seats.map(|seat| table::table(screen, &title(seat), &seat.observed)).concat()
    } else {
        table::both(screen, seats)
    };
    let (axis, rows) = timeline::overview(screen, seats.map(|seat| &seat.observed));
    text.push_str(&axis);
    for (seat, row) in seats.iter().zip(rows) {
        text.push_str(&timeline::labelled(short(seat.seat), &row));
        let timing = timing(screen, &seat.observed);
        let exit = exit(&seat.observed).replace(' ', super::NO_BREAK_SPACE);
        text.push_str(&screen.labelled("", STRONG, &format!("{timing}, {exit}")));
    }
    text
}

fn signal(screen: Screen, seats: [&SeatRecord; 2]) -> String {
    let Shared { both, each } = Shared::of(seats.map(|seat| seat.explanation.text.as_str()));
    let parts = seats.iter().zip(each).filter(|(_, part)| !part.is_empty()).map(|(seat, part)| of(seat, &part));
    let both = Some(both).filter(|both| !both.is_empty());
    let labels = std::iter::once("signal").chain(std::iter::repeat(""));
    both.into_iter().chain(parts).zip(labels).map(|(part, label)| screen.labelled(label, STRONG, &part)).collect()
}

/// All remarks; those that hold for both seats stand for both.
fn notes(screen: Screen, seats: [&SeatRecord; 2]) -> Vec<String> {
    let [one, other] = seats.map(|seat| &seat.judgement.remarks);
    let mut notes: Vec<String> = one.iter().filter(|remark| other.contains(remark)).cloned().collect();
    for (seat, against) in [(seats[0], other), (seats[1], one)] {
        let own = seat.judgement.remarks.iter().filter(|remark| !against.contains(remark));
        notes.extend(own.map(|remark| of(seat, remark)));
    }
    notes.iter().map(|note| screen.labelled("note", CAUTION, note)).collect()
}

fn changes(screen: Screen, seats: [&SeatRecord; 2]) -> String {
    let change =
        |seat: &'_ SeatRecord| seat.explanation.change.clone().filter(|_| seat.judgement.verdict != Verdict::Pass);
    let changes = match seats.map(change) {
        [Some(one), Some(other)] if one != other => {
            seats.into_iter().zip([one, other]).map(|(seat, change)| of(seat, &change)).collect()
        }
        [one, other] => Vec::from_iter(one.or(other)),
    };
    changes.iter().map(|change| screen.labelled("change", GOOD, change)).collect()
}

/// The end of what was written, once where it was the same.
fn outputs(screen: Screen, seats: [&SeatRecord; 2]) -> String {
    let [one, other] = seats.map(|seat| last_lines(screen, &seat.observed));
    if one == other { one } else { one + &other }
}

fn of(seat: &SeatRecord, text: &str) -> String {
    format!("as {}: {text}", short(seat.seat))
}

fn short(seat: Seat) -> &'static str {
    match seat {
        Seat::Pid1 => "PID 1",
        Seat::Process => "process",
    }
}
