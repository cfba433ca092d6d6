//! Answers that only the end of their connection ends: with neither a length nor chunks (RFC 9112, section 6.3). The kernel
//! closes the connections of a process that is killed as the process itself would have, so such an end alone says nothing
//! of whether the answer was whole. Pure.

use std::collections::BTreeMap;

use scenarios::Status;

use super::{
    fate::{Fate, Phase},
    record::{Observed, Request},
    settings::Settings,
    verdict::{self, Cut},
};
use crate::evidence::ProcessEnd;

/// How far apart the end of a process and that of its connections are seen at most, in microseconds.
const WITH_PROCESS_US: i64 = 10_000;
/// How much earlier than its end one that drains has closed its port, at least, in microseconds.
const DRAINED_US: i64 = 20_000;
/// How many answers of one length make that length the usual one.
const USUAL: usize = 2;

/// What is known of the end of such an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Whole,
    Truncated,
    Unknown,
}

/// Has those be truncated that were cut.
pub fn settle(settings: &Settings, observed: &mut Observed) {
    for at in of(settings, observed, End::Truncated) {
        observed.requests[at].fate = Fate::Truncated;
    }
}

/// How many of them may have been cut by the stop for all that is known.
#[must_use]
pub fn unknown(settings: &Settings, observed: &Observed) -> usize {
    of(settings, observed, End::Unknown).len()
}

/// The places of those that came to such an end.
fn of(settings: &Settings, observed: &Observed, wanted: End) -> Vec<usize> {
    let usual = usual_bytes(&observed.requests);
    let requests = observed.requests.iter().enumerate();
    requests.filter(|(_, request)| end(settings, observed, &usual, request) == wanted).map(|(at, _)| at).collect()
}

fn end(settings: &Settings, observed: &Observed, usual: &Lengths, request: &Request) -> End {
    let Some(bytes) = request.unframed_bytes.filter(|_| is_completed(request)) else { return End::Whole };
    let over_us = request.sent_us + request.took_us.cast_signed();
    let ended_with_it = |end: &ProcessEnd| end.at_us.is_some_and(|at_us| (at_us - over_us).abs() <= WITH_PROCESS_US);
    // Those before the signal were as long as they were.
    let usual_bytes = usual.get(&(request.template, request.status)).filter(|_| request.phase != Phase::Before);
    match usual_bytes.copied().flatten() {
        Some(usual_bytes) if bytes == usual_bytes => End::Whole,
        Some(usual_bytes) if bytes < usual_bytes => End::Truncated,
        _ if observed.ends.iter().any(|end| ended_with_it(end) && was_killed(settings, observed, end)) => {
            End::Truncated
        }
        _ if request.phase == Phase::Before => End::Whole,
        _ => End::Unknown,
    }
}

fn is_completed(request: &Request) -> bool {
    matches!(request.fate, Fate::Completed | Fate::Completed5xx)
}

/// How long answers are, by what was asked and their status; `None` where they differ, or too few were seen.
type Lengths = BTreeMap<(usize, Option<u16>), Option<u64>>;

/// As they were before the signal.
fn usual_bytes(requests: &[Request]) -> Lengths {
    let mut lengths: BTreeMap<_, Vec<Option<u64>>> = BTreeMap::new();
    for request in requests.iter().filter(|request| request.phase == Phase::Before && is_completed(request)) {
        lengths.entry((request.template, request.status)).or_default().push(request.unframed_bytes);
    }
    let usual = |lengths: Vec<Option<u64>>| {
        let first = lengths.first().copied().flatten()?;
        (lengths.len() >= USUAL && lengths.iter().all(|length| *length == Some(first))).then_some(first)
    };
    lengths.into_iter().map(|(asked, lengths)| (asked, usual(lengths))).collect()
}

/// Whether a process was killed by a signal, at whatever it was.
fn was_killed(settings: &Settings, observed: &Observed, end: &ProcessEnd) -> bool {
    let Some(at_us) = end.at_us else { return false };
    match end.status {
        // One that closed its port before has taken the signal, and may end by it when it is done.
        Some(Status::Signal(signal)) if signal == settings.signal && observed.second_signal.is_none() => {
            observed.listener_closed_us.is_none_or(|closed_us| closed_us + DRAINED_US >= at_us)
        }
        Some(Status::Signal(_)) => true,
        Some(Status::Code(_)) => false,
        None => verdict::outlived(observed).contains(&end.pid) || Cut::of(observed, end.pid) == Cut::Yes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::{
            record::Verdict,
            samples::{Process, drill, settings},
        },
        evidence::Disposition::{Caught, Default},
    };

    const APP: (&str, &str) = ("srv", "/usr/bin/srv");

    /// A server that ends so, so many milliseconds after the signal.
    fn ends(status: Status, at_ms: i64) -> Observed {
        let process: Process =
            (APP.0, APP.1, if status == Status::SIGTERM { Default } else { Caught }, status, Some(at_ms));
        drill(false, &[process])
    }

    /// The same with an answer of so many bytes, which ends with its connection.
    fn answered(observed: Observed, sent_ms: i64, over_ms: i64, bytes: u64) -> Observed {
        let mut observed = observed.request(sent_ms, over_ms, Fate::Completed, Some(200));
        observed.requests.last_mut().unwrap().unframed_bytes = Some(bytes);
        observed
    }

    /// The last answer's end, and how many are not known of.
    fn settled(mut observed: Observed) -> (Fate, usize) {
        settle(&settings(), &mut observed);
        (observed.requests.last().unwrap().fate, unknown(&settings(), &observed))
    }

    #[test]
    fn an_answer_that_ends_with_a_killed_process_was_cut() {
        for (what, status, ended_ms, over_ms, fate, not_known) in [
            ("dies of it", Status::SIGTERM, 1, 1, Fate::Truncated, 0),
            ("seen a moment before", Status::SIGTERM, 8, 0, Fate::Truncated, 0),
            ("dies later", Status::SIGTERM, 60, 1, Fate::Completed, 1),
            ("SIGKILL", Status::SIGKILL, 3_000, 2_999, Fate::Truncated, 0),
            ("exits, perhaps when all was done", Status::SUCCESS, 700, 699, Fate::Completed, 1),
        ] {
            assert_eq!(settled(answered(ends(status, ended_ms), -50, over_ms, 100)), (fate, not_known), "{what}");
        }
        // One that drains and then ends by the signal.
        let drained = ends(Status::SIGTERM, 700).closed(5);
        assert_eq!(settled(answered(drained, -50, 699, 100)), (Fate::Completed, 1));
        // A length of its own says what is whole.
        let mut framed = answered(ends(Status::SIGTERM, 1), -50, 1, 100);
        framed.requests[0].unframed_bytes = None;
        assert_eq!(settled(framed), (Fate::Completed, 0));
        // Before the signal nothing is cut that ends by itself.
        assert_eq!(settled(answered(ends(Status::SUCCESS, 700), -50, -20, 100)), (Fate::Completed, 0));
    }

    #[test]
    fn an_answer_that_is_shorter_than_all_before_was_cut_and_one_as_long_was_whole() {
        let before = |lengths: &[u64]| {
            (1i64..).zip(lengths).fold(ends(Status::SUCCESS, 700), |observed, (count, bytes)| {
                answered(observed, -50 * count - 1, -50 * count, *bytes)
            })
        };
        for (what, lengths, bytes, fate, not_known) in [
            ("as long", &[100, 100][..], 100, Fate::Completed, 0),
            ("shorter", &[100, 100], 60, Fate::Truncated, 0),
            ("longer", &[100, 100], 120, Fate::Completed, 1),
            ("one is not enough to tell", &[100], 60, Fate::Completed, 1),
            ("they differ anyway", &[100, 98, 101], 60, Fate::Completed, 1),
        ] {
            assert_eq!(settled(answered(before(lengths), -20, 300, bytes)), (fate, not_known), "{what}");
        }
        // As long as ever, whatever it died of.
        let died =
            (1i64..3).fold(ends(Status::SIGTERM, 1), |died, count| answered(died, -50 * count, -50 * count + 1, 9));
        assert_eq!(settled(answered(died, -20, 1, 9)), (Fate::Completed, 0));
    }

    #[test]
    fn what_is_not_known_is_said_beside_the_verdict() {
        let judgement = verdict::judge(&settings(), &answered(ends(Status::SUCCESS, 700), -50, 699, 100));
        assert_eq!(judgement.verdict, Verdict::Pass);
        assert!(judgement.remarks.iter().any(|remark| remark.contains("no Content-Length")), "{judgement:?}");
    }
}
