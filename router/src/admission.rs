//! The admission rule: which worker a request goes to. Pure, so that tests can try every small state.
//!
//! The model states the same rule in its own words; a test holds the two against each other.

use scenarios::{Reason, WorkerId};

/// How the router chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Whether only ready workers are candidates. Without this guard, starting and draining ones are too.
    pub ready_only: bool,
    /// Who wins among candidates that hold equally many invocations.
    pub tie: Tie,
}

impl Policy {
    /// The contract's policy, with or without the guard.
    #[must_use]
    pub fn new(ready_only: bool) -> Policy {
        Policy { ready_only, tie: Tie::Lowest }
    }
}

/// Who wins a tie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tie {
    /// The lowest number, as the contract has it.
    Lowest,
    /// The highest number: a mistake, for routers that are seeded with it.
    Highest,
}

/// How ready a worker is, as the router knows it. A worker that has ended has no readiness and no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Readiness {
    /// Its process runs and has not said that it is ready.
    Starting,
    /// It said that it is ready.
    Ready,
    /// It said that it takes no more requests.
    Draining,
}

/// A worker that could be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seat {
    /// Which.
    pub worker: WorkerId,
    /// How ready it is.
    pub readiness: Readiness,
    /// How many invocations it holds.
    pub in_flight: u32,
    /// How many it can hold at once.
    pub slots: u8,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It goes to this worker, which may still refuse.
    Send(WorkerId),
    /// Nobody gets it: `no_eligible_worker` or `no_free_slot`.
    Reject(Reason),
}

/// Chooses the candidate with the fewest invocations, ties to the lowest number. There is no queue and no second
/// choice: if that worker is full, the request is rejected.
///
/// A starting or draining worker that is chosen is sent the request even when it is full: the refusal is the worker's
/// own to make. The order of `seats` does not matter.
#[must_use]
pub fn decide(policy: Policy, seats: &[Seat]) -> Decision {
    let candidates = seats.iter().filter(|seat| seat.readiness == Readiness::Ready || !policy.ready_only);
    let rank = |seat: &Seat| match policy.tie {
        Tie::Lowest => seat.worker.0,
        Tie::Highest => u16::MAX - seat.worker.0,
    };
    match candidates.min_by_key(|seat| (seat.in_flight, rank(seat))) {
        None => Decision::Reject(Reason::NoEligibleWorker),
        Some(chosen) if chosen.readiness == Readiness::Ready && chosen.in_flight >= u32::from(chosen.slots) => {
            Decision::Reject(Reason::NoFreeSlot)
        }
        Some(chosen) => Decision::Send(chosen.worker),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule once more, as what must be true of a decision, not as how to find it.
    fn is_right(policy: Policy, seats: &[Seat], decision: Decision) -> bool {
        let candidate = |seat: &Seat| match seat.readiness {
            Readiness::Ready => true,
            Readiness::Starting | Readiness::Draining => !policy.ready_only,
        };
        let beats_all = |seat: &Seat| {
            seats.iter().filter(|other| candidate(other) && other.worker != seat.worker).all(|other| {
                seat.in_flight < other.in_flight || (seat.in_flight == other.in_flight && seat.worker < other.worker)
            })
        };
        let full = |seat: &Seat| seat.in_flight >= u32::from(seat.slots);
        let best = |seat: &&Seat| candidate(seat) && beats_all(seat);
        match decision {
            Decision::Reject(Reason::NoEligibleWorker) => !seats.iter().any(candidate),
            Decision::Reject(Reason::NoFreeSlot) => {
                seats.iter().find(best).is_some_and(|seat| seat.readiness == Readiness::Ready && full(seat))
            }
            Decision::Reject(Reason::WorkerStarting | Reason::WorkerDraining) => false,
            Decision::Send(worker) => seats.iter().any(|seat| {
                seat.worker == worker && best(&seat) && (seat.readiness != Readiness::Ready || !full(seat))
            }),
        }
    }

    /// Every state that one worker can be in, with up to three slots and one invocation too many.
    fn states(worker: u16) -> Vec<Seat> {
        let mut seats = Vec::new();
        for readiness in [Readiness::Starting, Readiness::Ready, Readiness::Draining] {
            for slots in 1..=3 {
                for in_flight in 0..=u32::from(slots) + 1 {
                    seats.push(Seat { worker: WorkerId(worker), readiness, in_flight, slots });
                }
            }
        }
        seats
    }

    #[test]
    fn in_every_small_state_the_right_decision_and_no_other() {
        // Each decision must have been seen, so that nothing holds for want of cases.
        let mut seen = std::collections::HashMap::new();
        let mut try_all = |seats: &[Seat]| {
            for policy in [Policy::new(true), Policy::new(false)] {
                let decided = decide(policy, seats);
                let all = (1..=3).map(|number| Decision::Send(WorkerId(number))).chain(
                    [Reason::NoEligibleWorker, Reason::NoFreeSlot, Reason::WorkerStarting, Reason::WorkerDraining]
                        .map(Decision::Reject),
                );
                let right: Vec<Decision> = all.filter(|&decision| is_right(policy, seats, decision)).collect();
                assert_eq!(right, [decided], "{policy:?} {seats:?}");
                *seen.entry((policy, decided)).or_insert(0) += 1;
            }
        };
        try_all(&[]);
        for first in states(1) {
            try_all(&[first]);
            for second in states(2) {
                try_all(&[second, first]);
                for third in states(3) {
                    try_all(&[second, third, first]);
                }
            }
        }
        assert_eq!(seen.len(), 2 * 5, "three workers and two reasons under each policy: {seen:?}");
    }

    #[test]
    fn a_full_worker_that_is_not_ready_refuses_for_itself() {
        let full = |readiness| [Seat { worker: WorkerId(1), readiness, in_flight: 2, slots: 2 }];
        let unguarded = Policy::new(false);
        assert_eq!(decide(unguarded, &full(Readiness::Draining)), Decision::Send(WorkerId(1)));
        assert_eq!(decide(unguarded, &full(Readiness::Starting)), Decision::Send(WorkerId(1)));
        assert_eq!(decide(unguarded, &full(Readiness::Ready)), Decision::Reject(Reason::NoFreeSlot));
    }

    #[test]
    fn a_seeded_router_differs_in_ties_only() {
        let seat =
            |worker, in_flight| Seat { worker: WorkerId(worker), readiness: Readiness::Ready, in_flight, slots: 2 };
        let seeded = Policy { tie: Tie::Highest, ..Policy::new(true) };
        for (seats, right, wrong) in [
            ([seat(1, 0), seat(2, 0), seat(3, 1)], 1, 2),
            ([seat(1, 1), seat(2, 0), seat(3, 1)], 2, 2),
            ([seat(1, 1), seat(2, 1), seat(3, 1)], 1, 3),
        ] {
            assert_eq!(decide(Policy::new(true), &seats), Decision::Send(WorkerId(right)));
            assert_eq!(decide(seeded, &seats), Decision::Send(WorkerId(wrong)));
        }
    }
}
