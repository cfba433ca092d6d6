use std::{net::TcpListener, time::Duration};

use tokio::task::{LocalSet, yield_now};
use worker::clock;

use super::{Load, MS};
use crate::check::samples;

/// How many arrivals are left out where our own side stands still for five of them.
async fn left_out(puts_off: bool) -> u64 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut load = Load::new(&samples::settings(), listener.local_addr().unwrap());
    load.put_off_stalls(puts_off);
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
