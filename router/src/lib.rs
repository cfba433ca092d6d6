//! Who gets the requests: the admission rule, the roster of workers and the HTTP exchange with one of them.
//!
//! The router knows workers as `worker-N` behind an address that keep to [`scenarios::wire`]; whatever program does
//! is a worker. It reads no clock and spawns no task: deadlines are futures of the caller's, and everything runs where
//! the caller awaits it.

#![forbid(unsafe_code)]

pub mod admission;
pub mod dispatch;
pub mod roster;

use std::net::SocketAddr;

use scenarios::{Reason, WorkerId};

pub use admission::{Decision, Policy, Readiness, Seat, Tie, decide};
pub use dispatch::{Close, Ending, Exchange, Failure, Flaw, Next, Opened, Waiting, probe};
pub use roster::{Ignored, Roster, State};

/// A policy and the roster that it is applied to.
#[derive(Clone, Debug)]
pub struct Router {
    policy: Policy,
    roster: Roster,
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routed {
    /// To nobody.
    Rejected {
        /// `no_eligible_worker` or `no_free_slot`.
        reason: Reason,
    },
    /// To this worker, which may still refuse.
    Send {
        /// Which.
        worker: WorkerId,
        /// Where it listens.
        addr: SocketAddr,
    },
}

impl Router {
    /// A router that knows no worker yet.
    #[must_use]
    pub fn new(policy: Policy) -> Router {
        Router { policy, roster: Roster::default() }
    }

    /// The workers that it knows.
    #[must_use]
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// The workers that it knows, to be told what becomes of them and of what they hold.
    pub fn roster_mut(&mut self) -> &mut Roster {
        &mut self.roster
    }

    /// Decides where the request that arrives now goes. It counts as held by a worker only when [`Roster::open`] says
    /// so, which is to be called as soon as the worker has accepted it.
    #[must_use]
    pub fn route(&self) -> Routed {
        match decide(self.policy, &self.roster.seats()) {
            Decision::Reject(reason) => Routed::Rejected { reason },
            Decision::Send(worker) => match self.roster.addr(worker) {
                Some(addr) => Routed::Send { worker, addr },
                None => Routed::Rejected { reason: Reason::NoEligibleWorker },
            },
        }
    }
}
