//! Workers as the router sees them: where they listen, how ready they are and what they hold.

use std::{collections::BTreeMap, net::SocketAddr};

use scenarios::{RequestId, WorkerId};
use thiserror::Error;

use crate::admission::{Readiness, Seat};

/// Every worker that was ever added, and every invocation that a worker holds.
///
/// A worker goes from starting to ready to draining to ended, may leave stages out and never goes back.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    workers: BTreeMap<WorkerId, Entry>,
    in_flight: BTreeMap<RequestId, WorkerId>,
}

#[derive(Clone, Debug)]
struct Entry {
    addr: SocketAddr,
    slots: u8,
    state: State,
    /// How many requests of `Roster::in_flight` it holds.
    in_flight: u32,
}

/// Where a worker is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Its process was started.
    Starting,
    /// It said that it is ready.
    Ready,
    /// It said that it takes no more requests.
    Draining,
    /// It is gone, or its platform has given it up. What it holds may still complete.
    Ended,
}

impl State {
    fn readiness(self) -> Option<Readiness> {
        match self {
            State::Starting => Some(Readiness::Starting),
            State::Ready => Some(Readiness::Ready),
            State::Draining => Some(Readiness::Draining),
            State::Ended => None,
        }
    }
}

/// Why the roster is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Ignored {
    /// The worker was never added.
    #[error("{0} is not on the roster")]
    UnknownWorker(WorkerId),
    /// The worker was added before.
    #[error("{0} is on the roster already")]
    KnownWorker(WorkerId),
    /// A worker can't go from the one to the other, or is there already.
    #[error("{worker} can't become {to:?}, it is {from:?}")]
    NoWayBack {
        /// Which.
        worker: WorkerId,
        /// Its state, which it keeps.
        from: State,
        /// The state that it was said to be in.
        to: State,
    },
    /// A worker holds the request already.
    #[error("{request} is held by {worker} already")]
    HeldAlready {
        /// Which.
        request: RequestId,
        /// Who holds it, which may be the worker that was named.
        worker: WorkerId,
    },
    /// No worker holds the request.
    #[error("{0} is held by no worker")]
    NotHeld(RequestId),
}

impl Roster {
    /// Adds a worker that is starting, listens on `addr` and holds up to `slots` invocations at once.
    ///
    /// # Errors
    /// It was added before.
    pub fn add(&mut self, worker: WorkerId, addr: SocketAddr, slots: u8) -> Result<(), Ignored> {
        if self.workers.contains_key(&worker) {
            return Err(Ignored::KnownWorker(worker));
        }
        self.workers.insert(worker, Entry { addr, slots, state: State::Starting, in_flight: 0 });
        Ok(())
    }

    /// The worker said that it is ready.
    ///
    /// # Errors
    /// It is unknown, or ready, draining or ended already.
    pub fn ready(&mut self, worker: WorkerId) -> Result<(), Ignored> {
        self.turn(worker, State::Ready)
    }

    /// The worker said that it takes no more requests.
    ///
    /// # Errors
    /// It is unknown, or draining or ended already.
    pub fn draining(&mut self, worker: WorkerId) -> Result<(), Ignored> {
        self.turn(worker, State::Draining)
    }

    /// The worker is gone, or its platform has given it up. What it holds stays held until it is closed.
    ///
    /// # Errors
    /// It is unknown or ended already.
    pub fn ended(&mut self, worker: WorkerId) -> Result<(), Ignored> {
        self.turn(worker, State::Ended)
    }

    fn turn(&mut self, worker: WorkerId, to: State) -> Result<(), Ignored> {
        let entry = self.workers.get_mut(&worker).ok_or(Ignored::UnknownWorker(worker))?;
        if to <= entry.state {
            return Err(Ignored::NoWayBack { worker, from: entry.state, to });
        }
        entry.state = to;
        Ok(())
    }

    /// The worker accepted the request and holds it from now on. An ended worker may have done so while it lived.
    ///
    /// # Errors
    /// The worker is unknown, or a worker holds the request already.
    pub fn open(&mut self, request: RequestId, worker: WorkerId) -> Result<(), Ignored> {
        let entry = self.workers.get_mut(&worker).ok_or(Ignored::UnknownWorker(worker))?;
        if let Some(&worker) = self.in_flight.get(&request) {
            return Err(Ignored::HeldAlready { request, worker });
        }
        self.in_flight.insert(request, worker);
        entry.in_flight += 1;
        Ok(())
    }

    /// The request's invocation is over: committed, failed or killed. Gives the worker that held it.
    ///
    /// # Errors
    /// No worker holds the request.
    pub fn close(&mut self, request: RequestId) -> Result<WorkerId, Ignored> {
        let worker = self.in_flight.remove(&request).ok_or(Ignored::NotHeld(request))?;
        if let Some(entry) = self.workers.get_mut(&worker) {
            entry.in_flight -= 1;
        }
        Ok(worker)
    }

    /// The state of a worker, or `None` if it was never added.
    #[must_use]
    pub fn state(&self, worker: WorkerId) -> Option<State> {
        self.workers.get(&worker).map(|entry| entry.state)
    }

    /// Where a worker listens, or `None` if it was never added.
    #[must_use]
    pub fn addr(&self, worker: WorkerId) -> Option<SocketAddr> {
        self.workers.get(&worker).map(|entry| entry.addr)
    }

    /// The requests that a worker holds, in order.
    pub fn held_by(&self, worker: WorkerId) -> impl Iterator<Item = RequestId> + '_ {
        self.in_flight.iter().filter(move |(_, holder)| **holder == worker).map(|(request, _)| *request)
    }

    /// Every worker that has not ended, by number.
    #[must_use]
    pub fn seats(&self) -> Vec<Seat> {
        let seat = |(&worker, entry): (&WorkerId, &Entry)| {
            let readiness = entry.state.readiness()?;
            Some(Seat { worker, readiness, in_flight: entry.in_flight, slots: entry.slots })
        };
        self.workers.iter().filter_map(seat).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    const W: WorkerId = WorkerId(1);

    fn addr(port: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, port).into()
    }

    /// Every state, and what each message makes of it.
    #[test]
    fn every_turn_from_every_state() {
        use State::{Draining, Ended, Ready, Starting};
        type Turn = fn(&mut Roster, WorkerId) -> Result<(), Ignored>;
        let turns: [(Turn, State); 3] = [(Roster::ready, Ready), (Roster::draining, Draining), (Roster::ended, Ended)];
        let rows = [
            (Starting, [true, true, true]),
            (Ready, [false, true, true]),
            (Draining, [false, false, true]),
            (Ended, [false, false, false]),
        ];
        for (from, possible) in rows {
            for ((turn, to), possible) in turns.into_iter().zip(possible) {
                let mut roster = Roster::default();
                roster.add(W, addr(1), 4).unwrap();
                if from != Starting {
                    roster.turn(W, from).unwrap();
                }
                let expected = if possible { Ok(()) } else { Err(Ignored::NoWayBack { worker: W, from, to }) };
                assert_eq!(turn(&mut roster, W), expected, "{from:?} to {to:?}");
                assert_eq!(roster.state(W), Some(if possible { to } else { from }));
            }
        }
    }

    #[test]
    fn strangers_and_twins_are_told() {
        let mut roster = Roster::default();
        assert_eq!(roster.ready(W), Err(Ignored::UnknownWorker(W)));
        assert_eq!(roster.open(RequestId(1), W), Err(Ignored::UnknownWorker(W)));
        assert_eq!(roster.close(RequestId(1)), Err(Ignored::NotHeld(RequestId(1))));
        roster.add(W, addr(1), 4).unwrap();
        assert_eq!(roster.add(W, addr(2), 4), Err(Ignored::KnownWorker(W)));
        assert_eq!(roster.addr(W), Some(addr(1)));
        roster.open(RequestId(1), W).unwrap();
        assert_eq!(roster.open(RequestId(1), W), Err(Ignored::HeldAlready { request: RequestId(1), worker: W }));
        assert_eq!(roster.seats()[0].in_flight, 1);
    }

    #[test]
    fn an_ended_worker_has_no_seat_and_keeps_what_it_holds() {
        let mut roster = Roster::default();
        roster.add(W, addr(1), 4).unwrap();
        roster.open(RequestId(7), W).unwrap();
        roster.ended(W).unwrap();
        assert_eq!(roster.seats(), []);
        assert_eq!(roster.held_by(W).collect::<Vec<_>>(), [RequestId(7)]);
        assert_eq!(roster.close(RequestId(7)), Ok(W));
    }

    #[derive(Clone, Copy, Debug)]
    enum Message {
        Add(WorkerId),
        Ready(WorkerId),
        Draining(WorkerId),
        Ended(WorkerId),
        Open(RequestId, WorkerId),
        Close(RequestId),
    }

    fn message() -> impl Strategy<Value = Message> {
        let worker = || (1..=3u16).prop_map(WorkerId);
        let request = || (1..=5u16).prop_map(RequestId);
        prop_oneof![
            worker().prop_map(Message::Add),
            worker().prop_map(Message::Ready),
            worker().prop_map(Message::Draining),
            worker().prop_map(Message::Ended),
            (request(), worker()).prop_map(|(request, worker)| Message::Open(request, worker)),
            request().prop_map(Message::Close),
        ]
    }

    fn tell(roster: &mut Roster, message: Message) -> Result<(), Ignored> {
        match message {
            Message::Add(worker) => roster.add(worker, addr(worker.0), 2),
            Message::Ready(worker) => roster.ready(worker),
            Message::Draining(worker) => roster.draining(worker),
            Message::Ended(worker) => roster.ended(worker),
            Message::Open(request, worker) => roster.open(request, worker),
            Message::Close(request) => roster.close(request).map(|_| ()),
        }
    }

    proptest! {
        #[test]
        fn whatever_is_said_in_whatever_order(messages in prop::collection::vec(message(), 0..60)) {
            let mut roster = Roster::default();
            for message in messages {
                let before = roster.clone();
                let told = tell(&mut roster, message);
                if told.is_err() {
                    prop_assert_eq!(format!("{before:?}"), format!("{roster:?}"), "ignored, so nothing changed");
                } else {
                    prop_assert!(tell(&mut roster.clone(), message).is_err(), "nothing can be done twice in a row");
                }
                for worker in (1..=3).map(WorkerId) {
                    prop_assert!(before.state(worker) <= roster.state(worker), "no way back");
                    let seat = roster.seats().into_iter().find(|seat| seat.worker == worker);
                    let alive = roster.state(worker).is_some_and(|state| state != State::Ended);
                    prop_assert_eq!(seat.is_some(), alive, "a seat for whoever has not ended");
                    if let Some(seat) = seat {
                        prop_assert_eq!(seat.in_flight as usize, roster.held_by(worker).count());
                    }
                }
            }
        }
    }
}
