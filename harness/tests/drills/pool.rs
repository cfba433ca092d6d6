//! Several drills at once: they wait most of the time.

use std::{
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// How many drills run at once, whatever number of tests does.
const SIDE_BY_SIDE: usize = 6;

/// Does `work` for every item, some at a time, and gives the results in order.
pub(crate) fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = {
                        let _place = Place::take();
                        work(item)
                    };
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// One of the places for drills that run at once, shared by all tests of this process.
struct Place;

static PLACES: (Mutex<usize>, Condvar) = (Mutex::new(SIDE_BY_SIDE), Condvar::new());

impl Place {
    fn take() -> Place {
        let free = PLACES.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = PLACES.1.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Place
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *PLACES.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        PLACES.1.notify_one();
    }
}
