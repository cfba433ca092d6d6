//! Draining: a value that is used up on the way, so that nothing can drain twice, and nobody can exit 0 without
//! having waited for what the worker owns.

use tokio::sync::watch;

/// What a worker has before it drains.
#[derive(Debug)]
pub(crate) struct Drain {
    owned: watch::Receiver<usize>,
}

/// The other side: takes hold of what has to be finished before the worker may exit.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    owned: watch::Sender<usize>,
}

/// Something that the worker owns, an invocation or an answer, until this is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Hold {
    owned: watch::Sender<usize>,
}

/// A drain that has begun.
#[derive(Debug)]
#[must_use]
pub(crate) struct Draining {
    owned: watch::Receiver<usize>,
}

/// The proof that a drain has ended: the worker owns nothing.
#[derive(Debug)]
#[must_use]
pub(crate) struct Drained(());

pub(crate) fn new() -> (Drain, Owner) {
    let owned = watch::Sender::new(0);
    (Drain { owned: owned.subscribe() }, Owner { owned })
}

impl Drain {
    /// Begins to drain. What is taken hold of from now on is waited for too.
    pub(crate) fn begin(self) -> Draining {
        Draining { owned: self.owned }
    }
}

impl Draining {
    /// Waits until the worker owns nothing.
    pub(crate) async fn finished(self) -> Drained {
        let Draining { mut owned } = self;
        // It fails when there is no owner left, and then there is nothing owned.
        let _ = owned.wait_for(|&owned| owned == 0).await;
        Drained(())
    }
}

impl Owner {
    /// Takes hold of one more thing.
    pub(crate) fn hold(&self) -> Hold {
        self.owned.send_modify(|owned| *owned += 1);
        Hold { owned: self.owned.clone() }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.owned.send_modify(|owned| *owned -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Waker},
    };

    use super::*;

    fn is_ready(future: impl Future) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_drain_ends_with_the_last_hold() {
        let (drain, owner) = new();
        let (first, second) = (owner.hold(), owner.hold());
        let mut finished = pin!(drain.begin().finished());
        let mut poll = || finished.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(!poll());
        drop(first);
        // What is taken on while it drains is finished too.
        let third = owner.hold();
        drop(second);
        assert!(!poll());
        drop(third);
        assert!(poll());
    }

    #[test]
    fn a_drain_that_owns_nothing_ends_at_once() {
        let (drain, _owner) = new();
        assert!(is_ready(drain.begin().finished()));
    }
}
