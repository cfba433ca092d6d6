//! Keeps the processor that a fast drill runs on from going to sleep.
//!
//! An idle processor sleeps, and it takes its time to wake, as it does to be woken by another one: measured on an idle
//! virtual machine, that doubles the median lateness of every moment. At high speeds a part of a tick has no room for it.
//! So all of the drill stays on one processor, and a thread in the SCHED_IDLE class (`sched(7)`), which gives way to
//! everything else at once, keeps that one busy. To keep all of them busy is worse: what runs the virtual machine, and
//! whatever else runs in it, then interrupts the drill for milliseconds.

use std::{
    hint,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use worker::clock::{self, OneProcessor};

/// Above this speed, in model seconds per real second, it is worth it: a tick is 5 ms then.
pub const FAST: f64 = 20.0;

/// Keeps the processor awake until it is dropped.
#[derive(Debug)]
pub struct Awake {
    over: Arc<AtomicBool>,
    _confined: OneProcessor,
}

impl Awake {
    /// Confines the calling thread, and all threads and processes that it starts until this is dropped, to one processor, and
    /// keeps that one awake. Where it can't be confined nothing is done: what comes late is measured.
    #[must_use]
    pub fn keep() -> Option<Awake> {
        let confined = clock::stay_on_one_processor()?;
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        thread::Builder::new().name("awake".to_owned()).spawn(move || spin(&seen)).ok()?;
        Some(Awake { over, _confined: confined })
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn spin(over: &AtomicBool) {
    if clock::yield_to_everybody() {
        while !over.load(Ordering::Relaxed) {
            hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_when_it_is_dropped_and_stays_on_one_processor() {
        let confined = thread::spawn(|| {
            let awake = Awake::keep();
            let over = awake.as_ref().map(|awake| Arc::clone(&awake.over));
            let processors = || thread::available_parallelism().map_or(1, usize::from);
            let meanwhile = processors();
            drop(awake);
            over.map(|over| (over.load(Ordering::Relaxed), meanwhile, processors()))
        });
        let all = thread::available_parallelism().map_or(1, usize::from);
        assert_eq!(confined.join().unwrap(), Some((true, 1, all)));
    }
}
