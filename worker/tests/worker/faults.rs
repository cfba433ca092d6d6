//! Seeded workers: wrong in one way, and in that way only.

use hyper::StatusCode;
use rustix::process::Signal;
use scenarios::{
    Fault, Status, Tick,
    wire::{ProgressStep, env},
};
use worker::{clock, store};

use crate::{
    clock::Clock,
    rig::{Rig, Running, block_on, lines},
};

fn seeded(fault: Fault) -> Running {
    Rig::new().with(env::FAULT, fault).start_and_wait_until_ready()
}

#[test]
fn a_wrong_sum_is_one_too_high_in_the_store_too() {
    let running = seeded(Fault::WrongSum);
    let told = block_on(async { lines(running.client().await.invoke(16, Tick(0)).await).await });
    assert_eq!(told.last().unwrap().step, ProgressStep::ResultCommitted { sum: 20 });
    assert_eq!(store::read(&running.rig.store()).unwrap()[0].sum, 20);
}

#[test]
fn a_long_stage_commits_a_third_later() {
    let running = seeded(Fault::LongStage);
    let told = block_on(async { lines(running.client().await.invoke(1, Tick(10)).await).await });
    let last = told.last().unwrap();
    assert_eq!(last.step, ProgressStep::ResultCommitted { sum: 4 });
    assert_eq!((last.at_us - last.late_us) * 1_000, running.rig.schedule.start_of(Tick(10 + 12 + 4)));
}

#[test]
fn kept_readiness_is_never_withdrawn_though_it_drains() {
    let (mut running, mut clock) = Clock::ready_with(|rig| rig.with(env::FAULT, Fault::KeepsReadiness));
    block_on(async {
        let (mut client, mut other) = (running.client().await, running.client().await);
        let first = client.invoke(1, Tick(5)).await;
        assert_eq!(clock.step(5), "done 5 3 9");
        running.signal(Signal::TERM);
        running.wait_for("drains");
        assert_eq!(other.get("/readyz").await, StatusCode::OK);
        let second = other.invoke(2, Tick(6)).await;
        assert_eq!(second.status(), StatusCode::OK);
        for (tick, answer) in [(9, "done 9 6 10"), (10, "done 10 7 13"), (13, "done 13 8 14"), (14, "done 14 9 17")] {
            assert_eq!(clock.step(tick), answer);
        }
        assert_eq!(clock.step(17), "done 17 10 18");
        lines(first).await;
        // It ends with this, be it before its answer or after.
        clock.tell("18");
        assert_eq!(lines(second).await.last().unwrap().step, ProgressStep::ResultCommitted { sum: 5 });
    });
    assert_eq!(running.ended().0, Status::SUCCESS);
    assert!(running.no_notification_waits());
}

#[test]
fn an_early_exit_comes_in_the_middle_of_the_last_stage() {
    let mut running = seeded(Fault::ExitsEarly);
    let now = running.rig.schedule.tick_at(clock::now_ns());
    block_on(async { running.client().await.invoke(1, now).await });
    let (status, at_ns) = running.ended();
    assert_eq!(status, Status::SUCCESS);
    assert!(at_ns >= running.rig.schedule.start_of(Tick(now.0 + 10)));
    assert_eq!(store::read(&running.rig.store()).unwrap(), []);
}

#[test]
fn a_second_commit_is_refused_by_the_store() {
    let running = seeded(Fault::CommitsTwice);
    let told = block_on(async { lines(running.client().await.invoke(1, Tick(0)).await).await });
    let last: Vec<_> = told.into_iter().rev().take(2).map(|progress| progress.step).collect();
    assert_eq!(last, [ProgressStep::CommitRefused { sum: 4 }, ProgressStep::ResultCommitted { sum: 4 }]);
    assert_eq!(store::read(&running.rig.store()).unwrap().len(), 1);
}

#[test]
fn what_is_in_flight_gets_its_result_with_sigterm_and_nobody_is_told() {
    let mut running = seeded(Fault::CommitsKilled);
    let now = running.rig.schedule.tick_at(clock::now_ns());
    block_on(async {
        let _answer = running.client().await.invoke(16, Tick(now.0 + 10_000)).await;
        running.signal(Signal::TERM);
        running.wait_for("withdraws its readiness");
        running.signal(Signal::KILL);
    });
    assert_eq!(running.ended().0, Status::SIGKILL);
    let rows = store::read(&running.rig.store()).unwrap();
    assert_eq!(rows.iter().map(|row| row.sum).collect::<Vec<_>>(), [19]);
}
