//! What a check misses since it was kept from its processor is no fault of the server's.

use std::{fs, time::Duration};

use harness::check::record::Verdict;
use rustix::process::Signal;
use worker::clock;

use super::{can_be_pid1, record, server, told, words};
use crate::{
    processes::{command_line, send},
    support::{PATIENCE, Rig, eventually},
};

/// How long the check stands still.
const STALL: Duration = Duration::from_millis(1500);

#[test]
fn a_check_that_stands_still_for_a_moment_before_the_signal_proves_all_the_same() {
    let rig = Rig::new();
    let (command, served) = (server::command(), rig.path("served"));
    // Its patience is longer than the stall, which can come between a connection and what is sent on it.
    let habits = format!("linger=0 patience=3000 tell={}", served.display());
    // A stall of that length is half of all, or comes in between and not at the end.
    let options = ["--as", "pid1", "--signal-at", "4s", "--grace", "8s", "--routing-lag", "0ms"];
    let running = rig.start(rig.command(&words(&options, &command)).env(server::HABITS, habits));
    // It was asked whether it is ready, and requests arrive.
    let count = || fs::read_to_string(&served).ok().and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
    eventually(PATIENCE, || count() >= 4 || running.has_ended(Duration::ZERO));
    let checks = rig.processes().into_iter().find(|&pid| command_line(pid).ends_with(" check-drill"));
    if let Some(checks) = checks {
        send(checks, Signal::STOP);
        clock::block_for(STALL);
        send(checks, Signal::CONT);
    }
    let record = record(&running.wait());
    if !can_be_pid1(&record) {
        return;
    }
    let seat = &record.seats[0];
    assert_eq!((seat.judgement.verdict, seat.observed.client.left_out), (Verdict::Pass, 0), "{}", told(seat));
    let put_off_us = seat.observed.client.put_off_us;
    assert!(u128::from(put_off_us) > STALL.as_micros() / 2, "{put_off_us}: {}", told(seat));
}
