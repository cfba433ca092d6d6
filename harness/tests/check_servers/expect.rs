//! What a check of a server has to come to.

use harness::check::{
    fate::{Fate, Phase},
    record::{Cause, Record, SeatRecord, Verdict},
    settings::Seat,
};
use scenarios::Status;

/// What is expected of a seat.
pub(crate) struct Expected {
    pub(crate) verdict: Verdict,
    /// How the first process ended.
    pub(crate) exit: Status,
    /// Why the signal had the effect that it had; one of these.
    pub(crate) causes: &'static [Cause],
    /// How many requests were lost, at least and at most.
    pub(crate) lost: (u64, u64),
    /// What stands in the explanation or the change.
    pub(crate) says: &'static [&'static str],
}

pub(crate) const ANY: u64 = u64::MAX;

/// The record of a seat.
pub(crate) fn seat(record: &Record, seat: Seat) -> &SeatRecord {
    record.seats.iter().find(|found| found.seat == seat).unwrap_or_else(|| panic!("{seat:?} was not tried"))
}

/// Holds what came of it in a seat against what is expected.
pub(crate) fn holds(name: &str, record: &Record, in_seat: Seat, expected: &Expected) -> Result<(), String> {
    let found = seat(record, in_seat);
    let told = format!("{} {}", found.explanation.text, found.explanation.change.as_deref().unwrap_or("(no change)"));
    let (exit, cause, lost) = (found.observed.exit, found.explanation.cause, found.judgement.lost);
    let (least, most) = expected.lost;
    let wrong = if exit != Some(expected.exit) {
        format!("ended with {exit:?}")
    } else if !expected.causes.contains(&cause) {
        format!("the cause is {cause:?}")
    } else if !(least..=most).contains(&lost) {
        format!("{lost} lost")
    } else if let Some(missing) = expected.says.iter().find(|says| !told.contains(**says)) {
        format!("{missing:?} is not told")
    } else if found.judgement.verdict != expected.verdict {
        format!("the verdict is {:?}", found.judgement.verdict)
    } else {
        return Ok(());
    };
    let (reasons, output) = (&found.judgement.reasons, &found.observed.output);
    Err(format!("{name} as {in_seat:?}: {wrong}: {told}\n{reasons:?}\n{output}"))
}

/// How many requests of a phase had a fate.
pub(crate) fn count(record: &SeatRecord, phase: Phase, fate: Fate) -> usize {
    record.observed.requests.iter().filter(|request| request.phase == phase && request.fate == fate).count()
}
