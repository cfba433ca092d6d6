use std::{net::TcpListener, time::Duration};

use tokio::task::{LocalSet, yield_now};
use worker::clock;

use super::{Load, MS};
use crate::check::samples;

/// How many arrivals are left out where our own side stands still for five of them.
async fn left_out(put_off: bool) -> u64 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut load = Load::new(&samples::settings(), listener.local_addr().unwrap());
    load.put_off_before(if put_off { u64::MAX } else { 0 });
    let every_ns = 100 * MS;
    load.arrive(clock::now_ns(), every_ns, u64::MAX).unwrap();
    for sent in 0..2 {
        while load.shared.sent.borrow().len() == sent {
            yield_now().await;
        }
        if sent == 0 {
            clock::block_for(Duration::from_nanos(5 * every_ns));
        }
    }
    load.finish().await.left_out
}

#[tokio::test]
async fn before_the_signal_no_arrival_is_left_out_for_a_stall() {
    let both = async { [left_out(true).await, left_out(false).await] };
    let [before, after] = LocalSet::new().run_until(both).await;
    assert_eq!(before, 0);
    assert!(after >= 4, "{after}");
}

/// The stall is that of the signal itself.
#[tokio::test]
async fn what_was_due_before_a_signal_that_was_late_is_not_left_out() {
    let drill = async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut load = Load::new(&samples::settings(), listener.local_addr().unwrap());
        load.put_off_before(u64::MAX);
        load.arrive(clock::now_ns(), 100 * MS, u64::MAX).unwrap();
        while load.shared.sent.borrow().is_empty() {
            yield_now().await;
        }
        clock::block_for(Duration::from_millis(500));
        let signal_ns = clock::now_ns();
        load.put_off_before(signal_ns);
        load.arrive_until(signal_ns);
        // The arrivals end by themselves.
        let mut tasks = std::mem::take(&mut load.tasks);
        while !load.shared.sent.borrow().iter().all(|sent| sent.is_over()) {
            load.give_up_late(true);
            yield_now().await;
        }
        tasks.join_next().await;
        load.finish().await.left_out
    };
    assert_eq!(LocalSet::new().run_until(drill).await, 0);
}
