use router::Ending;
use scenarios::{
    OnSigterm, Schedule, Signal, Status,
    wire::{Progress, ProgressStep},
};

use super::*;
use crate::{
    drill::{Extent, notify::Notice},
    record::Lateness,
};

const W: WorkerId = WorkerId::FIRST;

/// A worker that drains and is ready, at 10 times the speed of life with the origin at 1 s, and told to stop at 30 s.
fn told_to_stop() -> Drill {
    told_to_stop_in(&Scenario { on_sigterm: OnSigterm::Drain, ..Scenario::new("a", "a") })
}

fn told_to_stop_in(scenario: &Scenario) -> Drill {
    let plan = Plan::new(scenario, Schedule::new(1_000_000_000, 10.0), Extent::Whole, None);
    let sigterm_ns = plan.sigterm_ns();
    let mut drill = Drill::new(scenario, plan, vec![([127, 0, 0, 1], 80).into()], None);
    assert_eq!(drill.start_worker(Tick::START), Some(Act::Start(W)));
    drill.handle(1_000_000_000, Input::Started { worker: W, pid: 7 });
    drill.handle(1_400_000_000, Input::Notified { worker: W, notice: Notice::Ready, pid: Some(7) });
    assert_eq!(drill.handle(sigterm_ns, Input::Due(Moment::Sigterm)), [Act::Send(W, Signal::TERM)]);
    drill.handle(sigterm_ns, Input::Sent { worker: W, signal: Signal::TERM });
    drill
}

fn in_time(remains: &Remains) -> bool {
    remains.lateness.summary().iter().all(Lateness::within_bounds)
}

#[test]
fn an_effect_that_shows_after_the_judging_is_late_and_no_difference_in_time() {
    let end = |status| Input::TopEnded { worker: W, status, survivors: Vec::new() };
    let withdrawn =
        Input::Notified { worker: W, notice: Notice::Stopping { sigterm_from: None, at_us: None }, pid: None };
    for effect in [withdrawn, end(Status::SIGTERM), end(Status::CODE_143)] {
        let mut drill = told_to_stop();
        let judged_ns = drill.plan.sigterm_ns() + 6_000_000;
        drill.handle(judged_ns, Input::Due(Moment::Judge));
        let ignored = EventKind::SigtermIgnored { worker: W };
        assert!(drill.events().iter().any(|observed| observed.event.kind == ignored));
        let what = format!("{effect:?}");
        drill.handle(judged_ns + 1_000_000, effect);
        assert!(!in_time(&drill.into_remains()), "{what}");
    }
}

#[test]
fn a_drain_is_measured_by_the_commit_it_followed_and_one_that_is_cut_short_is_not() {
    let worker = |told: Drill, at_ns| {
        let mut drill = told;
        drill.handle(at_ns, Input::TopEnded { worker: W, status: Status::SUCCESS, survivors: Vec::new() });
        drill
    };
    let draining = |request: Option<u16>| {
        let mut drill = told_to_stop();
        if let Some(request) = request.map(RequestId) {
            drill.requests.insert(request, Request { worker: W, sent_at: Tick(290), phase: Phase::Accepted });
        }
        drill.handle(
            drill.plan.sigterm_ns() + 100_000,
            Input::Notified { worker: W, notice: Notice::Stopping { sigterm_from: None, at_us: None }, pid: None },
        );
        drill
    };
    let at = |tick| told_to_stop().plan.schedule.start_of(Tick(tick));

    assert!(in_time(&worker(draining(None), at(300) + 3_000_000).into_remains()));
    assert!(!in_time(&worker(draining(None), at(350)).into_remains()), "it had nothing to wait for");

    let mut cut_short = worker(draining(Some(15)), at(350));
    let broken = Ending::Broken(router::Flaw::EndedEarly);
    cut_short.handle(at(350), Input::Ended { request: RequestId(15), ending: broken });
    let remains = cut_short.into_remains();
    let killed = EventKind::InvocationKilled { request: RequestId(15), worker: W };
    assert!(remains.events.iter().any(|observed| observed.event.kind == killed));
    assert!(in_time(&remains));

    // The exit is seen before the commit that it followed.
    let mut seen_first = worker(draining(Some(15)), at(350) + 1_000_000);
    let step = ProgressStep::ResultCommitted { sum: 18 };
    let progress = Progress { at_us: at(350) / 1000, late_us: 0, step };
    seen_first.handle(at(350) + 1_000_000, Input::Progress { request: RequestId(15), progress });
    assert!(in_time(&seen_first.into_remains()));
}

#[test]
fn a_drained_worker_that_is_killed_in_the_tick_of_its_exit_was_late_and_in_a_later_one_is_wrong() {
    // What arrives at 29 s can be done at the deadline.
    let scenario =
        Scenario { on_sigterm: OnSigterm::Drain, invocation_s: Span::seconds(11), ..Scenario::new("a", "a") };
    let killed = |last_commit: u32| {
        let mut drill = told_to_stop_in(&scenario);
        let at = |tick| drill.plan.schedule.start_of(Tick(tick));
        let (commit_ns, sigkill_ns) = (at(last_commit) + 1_000_000, drill.plan.sigkill_ns());
        let sigterm_ns = drill.plan.sigterm_ns();
        drill.requests.insert(RequestId(15), Request { worker: W, sent_at: Tick(290), phase: Phase::Accepted });
        let withdrawn = Notice::Stopping { sigterm_from: None, at_us: None };
        drill.handle(sigterm_ns + 100_000, Input::Notified { worker: W, notice: withdrawn, pid: None });
        let step = ProgressStep::ResultCommitted { sum: 18 };
        let progress = Progress { at_us: commit_ns / 1000, late_us: 0, step };
        drill.handle(commit_ns, Input::Progress { request: RequestId(15), progress });
        drill.handle(sigkill_ns, Input::Sent { worker: W, signal: Signal::KILL });
        let status = Status::SIGKILL;
        drill.handle(sigkill_ns + 100_000, Input::TopEnded { worker: W, status, survivors: Vec::new() });
        drill.into_remains()
    };
    assert!(!in_time(&killed(400)), "the commit was at the deadline");
    assert!(in_time(&killed(350)));
}

fn in_a_tick(drill: &Drill, tick: u32) -> u64 {
    drill.plan.schedule.start_of(Tick(tick)) + 1_000_000
}

#[test]
fn what_a_worker_does_in_a_tick_in_which_nothing_is_due_is_wrong_and_not_late() {
    // A request arrives at 31 s, and what arrived at 20 s can't be done before 30 s.
    let scenario = Scenario { invocation_s: Span(105), ..Scenario::new("a", "a") };
    let mut drill = told_to_stop_in(&scenario);
    let (at_ns, late_us) = (in_a_tick(&drill, 310), 50);
    drill.requests.insert(RequestId(15), Request { worker: W, sent_at: Tick(290), phase: Phase::Accepted });
    let progress = Progress { at_us: at_ns / 1000, late_us, step: ProgressStep::ResultCommitted { sum: 18 } };
    drill.handle(at_ns + 500_000, Input::Progress { request: RequestId(15), progress });
    assert!(in_time(&drill.into_remains()));
}

#[test]
fn an_end_that_was_expected_of_sigterm_and_comes_after_the_judging_is_late() {
    let ended = |expected| {
        let mut drill = told_to_stop().with_told_status(expected);
        let judged_ns = drill.plan.sigterm_ns() + 6_000_000;
        drill.handle(judged_ns, Input::Due(Moment::Judge));
        let status = Status::Code(123);
        drill.handle(judged_ns + 1_000_000, Input::TopEnded { worker: W, status, survivors: Vec::new() });
        in_time(&drill.into_remains())
    };
    assert!(!ended(Some(Status::Code(123))));
    assert!(ended(None) && ended(Some(Status::SUCCESS)), "nobody expected that");
}

#[test]
fn an_orphan_whose_boot_fails_is_measured_by_its_boot() {
    let scenario = Scenario {
        fail_worker_1: true,
        startup_s: Span::seconds(30),
        signal_at_s: Span::seconds(20),
        ..Scenario::new("a", "a")
    };
    let orphaned = |exit: u32| {
        let plan = Plan::new(&scenario, Schedule::new(1_000_000_000, 10.0), Extent::Whole, None);
        let sigterm_ns = plan.sigterm_ns();
        let mut drill = Drill::new(&scenario, plan, vec![([127, 0, 0, 1], 80).into()], None);
        drill.start_worker(Tick::START);
        drill.handle(1_000_000_000, Input::Started { worker: W, pid: 7 });
        drill.handle(sigterm_ns, Input::Sent { worker: W, signal: Signal::TERM });
        let status = Status::SIGTERM;
        drill.handle(sigterm_ns, Input::TopEnded { worker: W, status, survivors: vec![8] });
        let at_ns = in_a_tick(&drill, exit);
        drill.handle(at_ns, Input::SurvivorsEnded { worker: W });
        in_time(&drill.into_remains())
    };
    assert!(orphaned(300) && !orphaned(302));
}

#[test]
fn a_worker_that_does_not_listen_yet_when_it_is_sent_a_request_was_late() {
    for early in [false, true] {
        let scenario = Scenario { ready_only_routing: false, ..Scenario::new("a", "a") };
        let plan = Plan::new(&scenario, Schedule::new(1_000_000_000, 10.0), Extent::Whole, None);
        let mut drill = Drill::new(&scenario, plan, vec![([127, 0, 0, 1], 80).into()], None);
        drill.start_worker(Tick::START);
        assert!(drill.is_new(W));
        drill.handle(1_000_000_000, Input::Started { worker: W, pid: 7 });
        let at_ns = in_a_tick(&drill, if early { 1 } else { 310 });
        drill.requests.insert(RequestId(1), Request { worker: W, sent_at: Tick(1), phase: Phase::Sent });
        drill.handle(at_ns, Input::Failed { request: RequestId(1), failure: router::Failure::ConnectionRefused });
        assert!(!in_time(&drill.into_remains()));
    }
}

#[test]
fn nothing_came_of_it_in_its_tick_however_late_that_is_judged() {
    let mut drill = told_to_stop();
    let next_tick_ns = drill.plan.sigterm_ns() + 11_000_000;
    drill.handle(next_tick_ns, Input::Due(Moment::Judge));
    let ignored = EventKind::SigtermIgnored { worker: W };
    let judged = drill.events().iter().find(|observed| observed.event.kind == ignored).unwrap();
    assert_eq!(judged.event.t, Tick(300));
    assert!(in_time(&drill.into_remains()));
}

#[test]
fn a_worker_that_has_not_got_round_to_sigterm_was_late_and_does_not_ignore_it() {
    for judged in [true, false] {
        let mut drill = told_to_stop();
        if judged {
            drill.handle(drill.plan.sigterm_ns() + 6_000_000, Input::Due(Moment::Judge));
        }
        drill.handle(drill.plan.sigkill_ns(), Input::StillPending { worker: W });
        assert_eq!(in_time(&drill.into_remains()), !judged);
    }
}
