//! What a worker holds and whether it takes on more: pure bookkeeping, the decisions of the HTTP side.

use std::collections::BTreeSet;

use scenarios::{Reason, RequestId};

/// How far a worker is in its life, as far as taking requests goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Starting,
    Ready,
    Draining,
}

/// Why a worker doesn't take a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It can't now; another worker may.
    Unavailable(Reason),
    /// It holds this very request, or has committed it.
    Known,
}

/// The invocations of one worker.
#[derive(Debug)]
pub(crate) struct Holdings {
    pub(crate) phase: Phase,
    slots: u8,
    /// One bit a slot, set while an invocation holds it.
    taken: u64,
    /// Requests that run or are committed.
    known: BTreeSet<RequestId>,
    accepted: u64,
}

/// An invocation's place: its slot, and how many the worker has accepted up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The slot, from 1.
    pub(crate) slot: u8,
    /// 1 for the first invocation that the worker ever accepted.
    pub(crate) ordinal: u64,
}

impl Holdings {
    /// Nothing yet, of a worker that is starting and has `slots` of them, 1..=64.
    pub(crate) fn new(slots: u8) -> Holdings {
        Holdings { phase: Phase::Starting, slots, taken: 0, known: BTreeSet::new(), accepted: 0 }
    }

    /// Takes `request` into the lowest free slot, or says why not.
    pub(crate) fn take(&mut self, request: RequestId) -> Result<Place, Refused> {
        match self.phase {
            Phase::Starting => return Err(Refused::Unavailable(Reason::WorkerStarting)),
            Phase::Draining => return Err(Refused::Unavailable(Reason::WorkerDraining)),
            Phase::Ready => {}
        }
        if self.known.contains(&request) {
            return Err(Refused::Known);
        }
        let lowest_free = self.taken.trailing_ones() as u8;
        if lowest_free >= self.slots {
            return Err(Refused::Unavailable(Reason::NoFreeSlot));
        }
        self.taken |= 1 << lowest_free;
        self.known.insert(request);
        self.accepted += 1;
        Ok(Place { slot: lowest_free + 1, ordinal: self.accepted })
    }

    /// The requests that run or are committed, in order.
    pub(crate) fn known(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.known.iter().copied()
    }

    /// Whether no slot is taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Frees `slot`. A request that was not committed may be tried again.
    pub(crate) fn release(&mut self, request: RequestId, slot: u8, committed: bool) {
        self.taken &= !(1 << (slot - 1));
        if !committed {
            self.known.remove(&request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(slots: u8) -> Holdings {
        Holdings { phase: Phase::Ready, ..Holdings::new(slots) }
    }

    #[test]
    fn the_lowest_free_slot_is_taken() {
        let mut holdings = ready(3);
        let slots = |holdings: &mut Holdings, request| holdings.take(RequestId(request)).map(|place| place.slot);
        assert_eq!(slots(&mut holdings, 1), Ok(1));
        assert_eq!(slots(&mut holdings, 2), Ok(2));
        assert_eq!(slots(&mut holdings, 3), Ok(3));
        assert_eq!(slots(&mut holdings, 4), Err(Refused::Unavailable(Reason::NoFreeSlot)));
        holdings.release(RequestId(3), 3, true);
        holdings.release(RequestId(2), 2, true);
        assert_eq!(slots(&mut holdings, 4), Ok(2));
    }

    #[test]
    fn all_64_slots_can_be_taken() {
        let mut holdings = ready(64);
        for request in 1..=64 {
            assert_eq!(holdings.take(RequestId(request)).unwrap().ordinal, u64::from(request));
        }
        assert_eq!(holdings.take(RequestId(65)), Err(Refused::Unavailable(Reason::NoFreeSlot)));
    }

    #[test]
    fn a_worker_that_is_not_ready_refuses_with_the_reason() {
        let rows = [(Phase::Starting, Reason::WorkerStarting), (Phase::Draining, Reason::WorkerDraining)];
        for (phase, reason) in rows {
            let mut holdings = Holdings { phase, ..Holdings::new(1) };
            assert_eq!(holdings.take(RequestId(1)), Err(Refused::Unavailable(reason)));
        }
    }

    #[test]
    fn a_request_is_taken_once_unless_its_commit_failed() {
        let mut holdings = ready(2);
        let place = holdings.take(RequestId(5)).unwrap();
        assert_eq!(holdings.take(RequestId(5)), Err(Refused::Known));
        holdings.release(RequestId(5), place.slot, false);
        assert_eq!(holdings.take(RequestId(5)), Ok(Place { slot: 1, ordinal: 2 }));
        holdings.release(RequestId(5), 1, true);
        assert_eq!(holdings.take(RequestId(5)), Err(Refused::Known));
    }
}
