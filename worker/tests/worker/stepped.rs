//! A worker whose clock is stepped by the test, tick by tick, as a harness does it.

use std::time::Duration;

use rustix::process::Signal;
use scenarios::{
    Stage, Status, Tick,
    wire::{ProgressStep, env},
};
use worker::store;

use crate::{
    clock::Clock,
    rig::{Rig, Running, block_on, lines, next_line},
};

fn at_us(running: &Running, tick: u32) -> u64 {
    running.rig.schedule.start_of(Tick(tick)) / 1_000
}

#[test]
fn it_does_what_is_due_tells_how_much_it_told_and_what_comes_next() {
    let (running, mut clock) = Clock::start(|rig| rig);
    assert_eq!(clock.step(0), "done 0 0 5");
    assert_eq!(clock.step(4), "done 4 0 5");
    assert!(running.no_notification_waits(), "the boot ends at tick 5");
    drop(running);

    let (running, mut clock) = Clock::ready();
    block_on(async {
        let mut client = running.client().await;
        let response = client.invoke(1, Tick(7)).await;
        let mut body = response.into_body();
        let accepted = next_line(&mut body).await.unwrap();
        assert_eq!(accepted.step, ProgressStep::Accepted { slot: 1 });
        // Nobody named tick 7: the request did.
        assert_eq!(accepted.at_us, at_us(&running, 7));
        next_line(&mut body).await.unwrap();
        assert_eq!(clock.step(7), "done 7 3 11");
        assert_eq!(clock.step(11), "done 11 4 15");
        let model = next_line(&mut body).await.unwrap();
        assert_eq!(model.step, ProgressStep::StageEntered { stage: Stage::Model });
        assert_eq!((model.at_us, model.late_us), (at_us(&running, 11), 0));
        assert_eq!(store::read(&running.rig.store()).unwrap(), []);
        // A tick in which something is due may be skipped; it is then done late, and says so.
        assert_eq!(clock.step(19), "done 19 6 -");
        let tool = next_line(&mut body).await.unwrap();
        assert_eq!((tool.at_us, tool.late_us), (at_us(&running, 19), 4 * 2_000));
        assert_eq!(next_line(&mut body).await.unwrap().step, ProgressStep::ResultCommitted { sum: 4 });
        assert!(next_line(&mut body).await.is_none());
    });
    assert_eq!(store::read(&running.rig.store()).unwrap().len(), 1);
}

#[test]
fn nothing_happens_between_the_ticks() {
    let (running, mut clock) = Clock::ready();
    block_on(async {
        let mut client = running.client().await;
        let response = client.invoke(1, Tick(5)).await;
        assert_eq!(clock.step(5), "done 5 3 9");
        // On the real clock the whole invocation takes 24 ms.
        worker::clock::block_for(Duration::from_millis(60));
        assert_eq!(store::read(&running.rig.store()).unwrap(), []);
        assert_eq!(clock.step(8), "done 8 3 9");
        assert_eq!(clock.step(9), "done 9 4 13");
        assert_eq!(clock.step(13), "done 13 5 17");
        assert_eq!(clock.step(17), "done 17 6 -");
        assert_eq!(lines(response).await.len(), 5);
    });
}

#[test]
fn a_sigterm_that_came_before_a_tick_was_named_has_been_acted_on_when_it_is_answered() {
    let (mut running, mut clock) = Clock::ready();
    block_on(async {
        let mut client = running.client().await;
        let response = client.invoke(1, Tick(5)).await;
        assert_eq!(clock.step(5), "done 5 3 9");
        running.signal(Signal::TERM);
        // One more thing was told than before: that it stops.
        assert_eq!(clock.step(6), "done 6 4 9");
        assert!(running.notification().contains("STOPPING=1\n"));
        assert_eq!(clock.step(9), "done 9 5 13");
        assert_eq!(clock.step(13), "done 13 6 17");
        // With its last commit it has drained: its end is the answer.
        clock.tell("17");
        assert_eq!(clock.answer(), None);
        assert_eq!(lines(response).await.len(), 5);
    });
    assert_eq!(running.ended().0, Status::SUCCESS);
    assert_eq!(store::read(&running.rig.store()).unwrap().len(), 1);
}

#[test]
fn one_that_owns_nothing_ends_instead_of_answering() {
    for ready in [true, false] {
        let (mut running, mut clock) = Clock::ready();
        if !ready {
            (running, clock) = Clock::start(|rig| rig);
            assert_eq!(clock.step(1), "done 1 0 5");
        }
        running.signal(Signal::TERM);
        clock.tell("6");
        assert_eq!(clock.answer(), None, "ready {ready}");
        assert_eq!(running.ended().0, Status::SUCCESS);
    }
}

#[test]
fn a_boot_that_fails_ends_instead_of_answering() {
    let (mut running, mut clock) = Clock::start(|rig| rig.with(env::FAIL_BOOT, true));
    assert_eq!(clock.step(4), "done 4 0 5");
    clock.tell("5");
    assert_eq!(clock.answer(), None);
    assert_eq!(running.ended().0, Status::Code(1));
}

#[test]
fn what_is_no_tick_is_told_of_and_passed_over() {
    let (mut running, mut clock) = Clock::ready();
    clock.tell("soon");
    assert_eq!(clock.step(6), "done 6 1 -");
    running.wait_for(r#"the clock says "soon", which is no tick"#);
}

#[test]
fn a_clock_that_is_not_there_is_an_error() {
    Rig::new().with(env::CLOCK, "/nowhere/clock").start().fails(1, "the clock that the harness steps");
}
