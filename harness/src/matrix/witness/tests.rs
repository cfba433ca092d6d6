use super::*;
use crate::evidence::explain::samples::process;

const TOP: i32 = 12;
const WORKER: i32 = 13;

fn facts(pid: i32, namespace_pid: i32, sigterm: Disposition, by_masks: Option<Disposition>) -> ProcessFacts {
    let name = if pid == TOP { "/usr/bin/top" } else { "/opt/worker" };
    ProcessFacts { sigterm, by_masks, ..process(pid, namespace_pid, name, name) }
}

fn signalled(processes: Vec<ProcessFacts>) -> Signalled {
    Signalled {
        processes,
        harness_host_pid: Some(400),
        harness: 1,
        top: TOP,
        worker: WORKER,
        sent_ns: 0,
        over_ns: 1,
        killed: false,
        told: false,
        worker_status: None,
    }
}

fn sent(signal: Signal, pid: i32, by_pid: i32, outcome: Outcome) -> SignalRecord {
    let step = Step::Sent { by: "x".to_owned(), by_pid: Some(by_pid), by_kernel: false, outcome };
    SignalRecord { at_us: 0, signal, pid, step }
}

fn delivered(signal: Signal, pid: i32, handler: bool) -> SignalRecord {
    SignalRecord { at_us: 0, signal, pid, step: Step::Delivered { handler } }
}

use Disposition::{Blocked, Caught, Default, Ignored, WaitedFor};
use Outcome::{AlreadyPending, Dropped, Queued};

/// What became of a SIGTERM to the top with this seat, disposition and masks.
fn top(namespace_pid: i32, sigterm: Disposition, masks: Disposition, records: &[SignalRecord]) -> Testimony {
    let process = facts(TOP, namespace_pid, sigterm, Some(masks).filter(|&masks| masks != sigterm));
    testimony(signalled(vec![process]), Ok(records.to_vec()))
}

#[test]
fn each_disposition_has_its_record_and_no_other() {
    let dropped = vec![sent(Signal::TERM, TOP, 1, Dropped)];
    let queued = vec![sent(Signal::TERM, TOP, 1, Queued)];
    let and = |more: &[SignalRecord]| [&queued[..], more].concat();
    let handled = and(&[delivered(Signal::TERM, TOP, true)]);
    let died = and(&[delivered(Signal::KILL, TOP, false)]);
    let killed = and(&[sent(Signal::KILL, TOP, 1, Queued), delivered(Signal::KILL, TOP, false)]);
    let later = and(&[delivered(Signal::TERM, TOP, false)]);
    let all = [
        (Recorded::Dropped, dropped),
        (Recorded::HandlerRan, handled),
        (Recorded::Died, died),
        (Recorded::KilledFirst, killed),
        (Recorded::IgnoredLater, later),
        (Recorded::Queued, queued.clone()),
    ];
    let rows = [
        (1, Default, &[Recorded::Dropped][..]),
        (9, Default, &[Recorded::Died]),
        (1, Ignored, &[Recorded::Dropped]),
        (9, Ignored, &[Recorded::Dropped]),
        (1, Caught, &[Recorded::HandlerRan]),
        (9, Blocked, &[Recorded::Queued, Recorded::KilledFirst]),
    ];
    for (seat, masks, as_said) in rows {
        for (recorded, records) in &all {
            let found = top(seat, masks, masks, records);
            let agrees = as_said.contains(recorded);
            assert_eq!(found.agreement == Agreement::Agrees, agrees, "{seat} {masks:?} {recorded:?}: {found:?}");
            if !agrees {
                assert_eq!(found.differences[0].record, *recorded);
                let beaten = (masks, *recorded) == (Caught, Recorded::KilledFirst);
                assert_eq!(found.differences[0].why, beaten.then_some(Why::KilledFirst), "{masks:?}");
            }
        }
    }
}

#[test]
fn what_masks_cannot_show_is_explained() {
    let queued = sent(Signal::TERM, TOP, 1, Queued);
    let handled = delivered(Signal::TERM, TOP, true);
    let why = |testimony: &Testimony| testimony.differences.iter().map(|difference| difference.why).collect::<Vec<_>>();
    // tini, dumb-init, catatonit.
    for masks in [Default, Caught, Blocked] {
        let killed = sent(Signal::KILL, TOP, 1, Queued);
        for records in [&[queued.clone()][..], &[queued.clone(), killed]] {
            let found = top(1, WaitedFor, masks, records);
            assert_eq!((found.agreement, why(&found)), (Agreement::Explained, vec![Some(Why::TakenByCall)]));
        }
        // Waiting for it is no reason to drop it.
        assert_eq!(top(1, WaitedFor, masks, &[sent(Signal::TERM, TOP, 1, Dropped)]).agreement, Agreement::Unexplained);
    }
    // node and sudo, as PID 1 and not; timeout, which ignores it then.
    for (seat, outcome, then) in [
        (1, Dropped, None),
        (9, Queued, Some(delivered(Signal::KILL, TOP, false))),
        (9, Queued, Some(delivered(Signal::TERM, TOP, false))),
    ] {
        let again = sent(Signal::TERM, TOP, TOP, outcome);
        let records: Vec<_> = [queued.clone(), handled.clone(), again.clone()].into_iter().chain(then).collect();
        assert_eq!(why(&top(seat, Caught, Caught, &records)), [Some(Why::SentToItself)], "{records:?}");
        // Without a handler that ran before there is nothing that it could have given up.
        let unexplained = top(seat, Caught, Caught, &[again]);
        assert_eq!(unexplained.differences[0].why, None, "{unexplained:?}");
    }
}

#[test]
fn a_second_signal_to_the_worker_is_explained() {
    let worker = |masks| facts(WORKER, 2, masks, None);
    let init = facts(TOP, 1, WaitedFor, Some(Default));
    let passed_on = |outcome| sent(Signal::TERM, WORKER, TOP, outcome);
    let of = |masks, more: &[SignalRecord]| {
        let records = [&[sent(Signal::TERM, TOP, 1, Queued), passed_on(Queued)], more].concat();
        testimony(signalled(vec![init.clone(), worker(masks)]), Ok(records)).differences
    };
    let died = delivered(Signal::KILL, WORKER, false);
    let dying = of(Default, &[passed_on(Dropped), died.clone()]);
    assert_eq!(dying.len(), 2, "{dying:?}");
    assert_eq!((dying[1].program.as_str(), dying[1].why), ("app", Some(Why::DyingAlready)));
    // A process that is told twice before it has its turn is told once.
    let pending = of(Caught, &[passed_on(AlreadyPending), delivered(Signal::TERM, WORKER, true)]);
    assert_eq!(pending.len(), 1, "{pending:?}");
    // The first of all is no second one.
    let records = vec![sent(Signal::TERM, TOP, 1, Queued), passed_on(Dropped)];
    let found = testimony(signalled(vec![init.clone(), worker(Default)]), Ok(records));
    assert_eq!((found.agreement, found.differences[1].why), (Agreement::Unexplained, None));
}

#[test]
fn what_happened_must_be_in_the_record() {
    let processes = || vec![facts(TOP, 1, Caught, None), facts(WORKER, 2, Caught, None)];
    let term = sent(Signal::TERM, TOP, 1, Queued);
    let ran = delivered(Signal::TERM, TOP, true);
    let passed_on = sent(Signal::TERM, WORKER, TOP, Queued);
    let of = |signalled: Signalled, records: &[SignalRecord]| {
        let found = testimony(signalled, Ok(records.to_vec()));
        assert_eq!(found.agreement == Agreement::Missing, !found.missing.is_empty());
        found.missing.join(" ")
    };
    let base = || signalled(processes());
    assert_eq!(of(base(), &[term.clone(), ran.clone()]), "");
    assert!(of(base(), &[]).contains("SIGTERM to the top"));
    // One that somebody else has sent is not ours.
    assert!(of(base(), &[sent(Signal::TERM, TOP, WORKER, Queued), ran.clone()]).contains("SIGTERM to the top"));
    let killed = Signalled { killed: true, ..base() };
    assert!(of(killed.clone(), &[term.clone(), ran.clone()]).contains("SIGKILL to the top"));
    assert_eq!(of(killed, &[term.clone(), ran.clone(), sent(Signal::KILL, TOP, 1, Queued)]), "");
    for got in [Signalled { told: true, ..base() }, Signalled { worker_status: Some(Status::SIGTERM), ..base() }] {
        assert!(of(got.clone(), &[term.clone(), ran.clone()]).contains("SIGTERM that the worker got"));
        let ran_too = delivered(Signal::TERM, WORKER, true);
        assert_eq!(of(got, &[term.clone(), ran.clone(), passed_on.clone(), ran_too]), "");
    }
    let cut = Signalled { worker_status: Some(Status::SIGKILL), ..base() };
    assert!(of(cut, &[term, ran]).contains("SIGKILL that the worker died of"));
    let unread = testimony(base(), Err("the trace can't be read".to_owned()));
    assert_eq!(unread.agreement, Agreement::Missing);
    assert_eq!(unread.missing, ["The kernel's record can't be read, since the trace can't be read."]);
}
