//! The check against the result store, after the last process of a drill is gone. Pure.
//!
//! Truth about completion is the store and not the answer: what is in it was committed, acknowledged or not, and what
//! is not in it was not.

use std::collections::BTreeMap;

use scenarios::{Event, EventKind, RequestId, Schedule, Status, Tick, WorkerId};
use worker::store::Row;

use crate::record::Observed;

/// Corrects what was observed by what the store holds, and tells what had to be corrected.
#[must_use]
pub fn settle(mut events: Vec<Observed>, rows: &[Row], schedule: Schedule) -> (Vec<Observed>, Vec<String>) {
    let mut remarks = Vec::new();
    // A store without a key may hold several results of a request; the first one counts.
    let mut stored: BTreeMap<RequestId, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        stored.entry(row.request).or_default().push(row);
    }
    let mut acknowledged: BTreeMap<RequestId, usize> = BTreeMap::new();
    events.retain_mut(|observed| {
        let EventKind::ResultCommitted { request, worker, ref mut sum } = observed.event.kind else { return true };
        let Some(copies) = stored.get(&request) else {
            remarks.push(format!(
                "{request} was acknowledged by {worker} as committed, but the store has no result of it"
            ));
            return false;
        };
        let earlier = acknowledged.entry(request).or_default();
        *earlier += 1;
        let Some(row) = copies.get(*earlier - 1) else {
            // It is kept, since it was done: only the store's key kept it from having an effect.
            let kept = copies.first().map_or(worker, |row| row.worker);
            remarks.push(format!(
                "{request} was committed once more by {worker}; the store refused that and kept the result of {kept}"
            ));
            return true;
        };
        if *earlier > 1 {
            remarks.push(format!(
                "{request} was committed once more by {worker}; the store holds it {} times",
                copies.len()
            ));
        }
        if row.sum != *sum {
            remarks.push(format!("{request} was acknowledged with the sum {sum}, but the store has {}", row.sum));
            *sum = row.sum;
        }
        if row.worker != worker {
            remarks.push(format!("{request} was acknowledged by {worker}, but {} committed it", row.worker));
        }
        true
    });
    // What is left was committed and never acknowledged: the worker died, or the connection broke, in between.
    let told = |row: &Row| acknowledged.get(&row.request).copied().unwrap_or(0);
    for row in stored.values().flat_map(|copies| copies.iter().skip(copies.first().map_or(0, |row| told(row)))) {
        let Row { request, worker, sum, committed_us, .. } = **row;
        let at_ns = committed_us.saturating_mul(1000);
        let t = schedule.tick_at(at_ns + 999);
        let at_us = (i128::from(at_ns) - i128::from(schedule.origin_ns)) / 1000;
        let late_us = at_ns.saturating_sub(schedule.start_of(t)) / 1000;
        remarks.push(format!("{request} was committed by {worker} at {t} s and never acknowledged"));
        events.retain(|observed| {
            !matches!(observed.event.kind, EventKind::InvocationKilled { request: killed, .. } if killed == request)
        });
        events.push(Observed {
            event: Event { t, kind: EventKind::ResultCommitted { request, worker, sum } },
            at_us: i64::try_from(at_us).unwrap_or(i64::MAX),
            late_us,
            pid: i32::try_from(row.pid).ok(),
            note: Some("never acknowledged".to_owned()),
        });
    }
    events.sort_by_key(|observed| (observed.event.order(), observed.at_us));
    (events, remarks)
}

/// A worker that is told and cut in the same tick, since a process before it left, may or may not get to say that it
/// drains. It drains nothing: what happened to it in that tick is that it was gone. Not for a worker that drains to the end,
/// whatever the process before it reports.
pub fn leave_out_begun_drains(events: &mut Vec<Observed>, remarks: &mut Vec<String>) {
    let cut = |observed: &Observed| match observed.event.kind {
        EventKind::WorkerExited { worker, status } if status != Status::SIGKILL => Some((observed.event.t, worker)),
        _ => None,
    };
    let cut: Vec<(Tick, WorkerId)> = events.iter().filter_map(cut).collect();
    events.retain(|observed| match observed.event.kind {
        EventKind::ReadinessWithdrawn { worker } if cut.contains(&(observed.event.t, worker)) => {
            remarks.push(format!("{worker} had got SIGTERM and begun to drain when it was cut"));
            false
        }
        _ => true,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: RequestId = RequestId(5);
    const WORKER: WorkerId = WorkerId(1);

    fn observed(t: u32, kind: EventKind) -> Observed {
        Observed { event: Event { t: Tick(t), kind }, at_us: i64::from(t), late_us: 0, pid: None, note: None }
    }

    fn committed(sum: u32) -> EventKind {
        EventKind::ResultCommitted { request: REQUEST, worker: WORKER, sum }
    }

    fn row(sum: u32) -> Row {
        Row { request: REQUEST, worker: WORKER, pid: 7, addends: vec![5, 1, 2], sum, committed_us: 300_000 }
    }

    fn kinds(events: &[Observed]) -> Vec<EventKind> {
        events.iter().map(|observed| observed.event.kind).collect()
    }

    /// Ten ticks a millisecond: a tick is 100 µs, so the row was committed in tick 3000.
    const SCHEDULE: Schedule = Schedule { origin_ns: 0, tick_ns: 100_000 };

    #[test]
    fn an_acknowledged_result_that_is_in_the_store_stays() {
        let (events, remarks) = settle(vec![observed(30, committed(8))], &[row(8)], SCHEDULE);
        assert_eq!(kinds(&events), [committed(8)]);
        assert!(remarks.is_empty());
    }

    #[test]
    fn an_acknowledged_result_that_is_not_in_the_store_never_was() {
        let (events, remarks) = settle(vec![observed(30, committed(8))], &[], SCHEDULE);
        assert!(events.is_empty());
        assert!(remarks[0].contains("the store has no result"));
    }

    #[test]
    fn the_sum_in_the_store_counts() {
        let (events, remarks) = settle(vec![observed(30, committed(8))], &[row(9)], SCHEDULE);
        assert_eq!(kinds(&events), [committed(9)]);
        assert_eq!(remarks.len(), 1);
    }

    #[test]
    fn a_second_commit_is_seen_although_the_store_refused_it() {
        let (events, remarks) =
            settle(vec![observed(30, committed(8)), observed(30, committed(7))], &[row(8)], SCHEDULE);
        assert_eq!(kinds(&events), [committed(8), committed(7)]);
        assert!(remarks.len() == 1 && remarks[0].contains("once more"), "{remarks:?}");
    }

    #[test]
    fn a_store_without_a_key_shows_what_was_committed_twice() {
        let twice = [row(8), Row { sum: 9, ..row(8) }];
        let told_twice = vec![observed(30, committed(8)), observed(30, committed(9))];
        let (events, remarks) = settle(told_twice, &twice, SCHEDULE);
        assert_eq!(kinds(&events), [committed(8), committed(9)]);
        assert!(remarks.len() == 1 && remarks[0].contains("holds it 2 times"), "{remarks:?}");
        let (events, remarks) = settle(vec![observed(30, committed(8))], &twice, SCHEDULE);
        assert_eq!(kinds(&events), [committed(8), committed(9)]);
        assert!(remarks.len() == 1 && remarks[0].contains("never acknowledged"), "{remarks:?}");
    }

    #[test]
    fn a_killed_invocation_with_a_result_was_not_killed_but_never_acknowledged() {
        let killed = EventKind::InvocationKilled { request: REQUEST, worker: WORKER };
        let (events, remarks) = settle(vec![observed(4000, killed)], &[row(8)], SCHEDULE);
        assert_eq!(kinds(&events), [committed(8)]);
        assert_eq!(events[0].event.t, Tick(3000));
        assert_eq!(events[0].note.as_deref(), Some("never acknowledged"));
        assert_eq!(remarks.len(), 1);
    }

    #[test]
    fn a_worker_that_was_cut_in_the_tick_of_the_signal_has_not_drained() {
        let withdrawn = observed(300, EventKind::ReadinessWithdrawn { worker: WORKER });
        let exited = |t, status| observed(t, EventKind::WorkerExited { worker: WORKER, status });
        for (end, left) in [
            (exited(300, Status::CODE_143), 1),
            (exited(300, Status::SIGTERM), 1),
            // As some trap ends it.
            (exited(300, Status::SUCCESS), 1),
            // It was killed at the deadline, or it did go on for a while.
            (exited(300, Status::SIGKILL), 2),
            (exited(301, Status::CODE_143), 2),
        ] {
            let (mut events, mut remarks) = settle(vec![withdrawn.clone(), end.clone()], &[], SCHEDULE);
            assert_eq!((events.len(), remarks.len()), (2, 0), "{end:?}");
            leave_out_begun_drains(&mut events, &mut remarks);
            assert_eq!((events.len(), remarks.len()), (left, 2 - left), "{end:?}");
        }
    }
}
