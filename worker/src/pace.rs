//! How model time passes for the worker: with the real clock, or step by step as the harness says.
//!
//! On a stepped clock the harness names a tick, and the worker does everything that is due by then and answers. So ties
//! are exact however slow the machine is, and a drill takes no longer than its work.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use scenarios::{Schedule, Tick};
use tokio::sync::{Notify, oneshot};

use crate::clock::{self, Timer};

/// The passing of model time, shared by all parts of a worker.
#[derive(Clone, Debug)]
pub(crate) enum Pace {
    /// With the real clock.
    Scaled(Schedule),
    /// As the harness says; moments are those that the schedule gives to the tick at hand.
    Stepped(Schedule, Arc<Steps>),
}

impl Pace {
    /// Now, in nanoseconds of the schedule's clock.
    pub(crate) fn now_ns(&self) -> u64 {
        match self {
            Pace::Scaled(_) => clock::now_ns(),
            Pace::Stepped(schedule, steps) => schedule.start_of(steps.now()),
        }
    }

    /// How the ticks lie on that clock.
    pub(crate) fn schedule(&self) -> Schedule {
        match self {
            Pace::Scaled(schedule) | Pace::Stepped(schedule, _) => *schedule,
        }
    }

    /// The tick at hand.
    pub(crate) fn tick_now(&self) -> Tick {
        self.schedule().tick_at(self.now_ns())
    }

    /// A request of `tick` has come. On a stepped clock a worker that has nothing due is not told every tick, and learns
    /// of this one here; whatever was due before it is done.
    pub(crate) fn catch_up(&self, tick: Tick) {
        if let Pace::Stepped(_, steps) = self {
            steps.now.fetch_max(tick.0, Ordering::Relaxed);
        }
    }

    /// Something that waits for ticks, one after another.
    ///
    /// # Errors
    /// No timer can be had.
    pub(crate) fn waiter(&self) -> io::Result<Waiter> {
        Ok(match self {
            Pace::Scaled(schedule) => Waiter::Scaled(*schedule, Timer::new()?),
            Pace::Stepped(_, steps) => Waiter::Stepped(steps.busy()),
        })
    }
}

/// Waits for the starts of ticks.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// By the real clock.
    Scaled(Schedule, Timer),
    /// By what the harness says.
    Stepped(Busy),
}

impl Waiter {
    /// Waits for the start of `tick`; at once when it is past.
    ///
    /// # Errors
    /// Those of a timer.
    pub(crate) async fn until(&mut self, tick: Tick) -> io::Result<()> {
        self.until_within(tick, 0).await
    }

    /// Waits until `percent` of `tick` are over. A stepped clock knows whole ticks only, and for it that is the start.
    ///
    /// # Errors
    /// Those of a timer.
    pub(crate) async fn until_within(&mut self, tick: Tick, percent: u64) -> io::Result<()> {
        match self {
            Waiter::Scaled(schedule, timer) => timer.until(schedule.within(tick, percent)).await,
            Waiter::Stepped(busy) => {
                busy.until(tick).await;
                Ok(())
            }
        }
    }
}

/// The ticks that the harness has named, and who waits for which.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    now: AtomicU32,
    /// Lines of answers and notices that were given away so far: the harness waits for as many.
    told: AtomicU64,
    waiting: Mutex<Waiting>,
    idle: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    due: BTreeMap<(Tick, u64), oneshot::Sender<()>>,
    next_number: u64,
    /// How many are at work and not waiting.
    busy: usize,
}

impl Steps {
    fn now(&self) -> Tick {
        Tick(self.now.load(Ordering::Relaxed))
    }

    /// Counts something that the harness will get to see.
    pub(crate) fn tell(&self) {
        self.told.fetch_add(1, Ordering::Relaxed);
    }

    /// How much the harness will get to see, or has seen.
    pub(crate) fn told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }

    fn busy(self: &Arc<Steps>) -> Busy {
        self.lock().busy += 1;
        Busy { steps: Arc::clone(self), at_work: true }
    }

    /// Goes to `tick` and waits until everything that was due by then is done. Gives the next tick at which something
    /// is due.
    pub(crate) async fn go_to(&self, tick: Tick) -> Option<Tick> {
        self.now.store(tick.0, Ordering::Relaxed);
        loop {
            {
                let mut waiting = self.lock();
                // Later ones stay; those up to now go one round to work.
                let later = waiting.due.split_off(&(Tick(tick.0 + 1), 0));
                let due = std::mem::replace(&mut waiting.due, later);
                for wake in due.into_values() {
                    // Whoever gave up waiting is not at work.
                    waiting.busy += usize::from(wake.send(()).is_ok());
                }
                if waiting.busy == 0 {
                    return waiting.due.keys().next().map(|&(tick, _)| tick);
                }
            }
            self.idle.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rest(&self, waiting: &mut Waiting) {
        waiting.busy -= 1;
        if waiting.busy == 0 {
            self.idle.notify_one();
        }
    }
}

/// Something that counts as being at work for as long as it lives and is not waiting.
#[derive(Debug)]
pub(crate) struct Busy {
    steps: Arc<Steps>,
    at_work: bool,
}

impl Busy {
    async fn until(&mut self, tick: Tick) {
        if tick <= self.steps.now() {
            return;
        }
        let (wake, woken) = oneshot::channel();
        {
            let mut waiting = self.steps.lock();
            let number = waiting.next_number;
            waiting.next_number += 1;
            waiting.due.insert((tick, number), wake);
            self.at_work = false;
            self.steps.rest(&mut waiting);
        }
        // The sender is dropped only with the steps themselves.
        if woken.await.is_ok() {
            self.at_work = true;
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self.at_work {
            let mut waiting = self.steps.lock();
            self.steps.rest(&mut waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn a_step_ends_when_everything_that_is_due_is_done() {
        let steps = Arc::new(Steps::default());
        let log = Arc::new(Mutex::new(Vec::new()));
        runtime().block_on(async {
            for (name, ticks) in [("a", vec![3, 3, 4, 9]), ("b", vec![4, 5])] {
                let (mut busy, log) = (steps.busy(), Arc::clone(&log));
                tokio::spawn(async move {
                    for tick in ticks {
                        busy.until(Tick(tick)).await;
                        tokio::task::yield_now().await;
                        log.lock().unwrap().push((name, tick));
                    }
                });
            }
            let done = || std::mem::take(&mut *log.lock().unwrap());
            assert_eq!(steps.go_to(Tick(2)).await, Some(Tick(3)));
            assert_eq!(done(), []);
            assert_eq!(steps.go_to(Tick(3)).await, Some(Tick(4)));
            assert_eq!(done(), [("a", 3), ("a", 3)]);
            assert_eq!(steps.go_to(Tick(7)).await, Some(Tick(9)));
            assert_eq!(done(), [("a", 4), ("b", 4), ("b", 5)]);
            assert_eq!(steps.go_to(Tick(9)).await, None);
            assert_eq!(steps.go_to(Tick(9)).await, None);
        });
    }

    #[test]
    fn who_gives_up_waiting_holds_nobody_up() {
        let steps = Arc::new(Steps::default());
        runtime().block_on(async {
            let mut busy = steps.busy();
            tokio::select! {
                biased;
                () = busy.until(Tick(5)) => panic!("nobody named tick 5"),
                () = tokio::task::yield_now() => {}
            }
            drop(busy);
            assert_eq!(steps.go_to(Tick(6)).await, None);
        });
    }
}
