//! How far the server has got with the requests: what it has taken from the kernel's queue and read, and what waits.

use std::{cell::Cell, collections::HashMap};

use worker::clock;

use super::{Load, MS};
use crate::check::{
    exchange::Kind,
    sockets::{self, Reached},
};

/// How long the signal waits at most for the server to take the request that is to be in flight.
const SPANNING_WAIT_NS: u64 = 50 * MS;
/// How often it is looked whether it has.
const SPANNING_LOOK_NS: u64 = MS / 4;
/// How long the signal waits at most for the server to take a slow request.
const FIRST_TAKEN_NS: u64 = 2_000 * MS;
/// How long it waits, at least, once nothing more is taken or read.
const PAUSE_NS: u64 = 100 * MS;
/// How long at most while the server is awake: it may be kept from its processor.
const AWAKE_PAUSE_NS: u64 = 500 * MS;
/// How long a request may wait in the kernel's queue while the server holds an idle connection, before that is given up.
const BLOCKED_NS: u64 = 50 * MS;

impl Load {
    /// Sends an ordinary request, and is done as soon as the server has taken it from the kernel's queue: it is in flight
    /// then, unless it is over already. What waits in that queue when a server closes its port is lost with almost every
    /// server, so to send the signal while it does would be no question about the server.
    ///
    /// It is done once; and not where no requests arrive.
    ///
    /// # Errors
    /// The timer can't be set.
    pub async fn send_spanning(&mut self) -> std::io::Result<()> {
        let Some(mut timer) = self.spanning.take() else { return Ok(()) };
        let until_ns = clock::now_ns() + SPANNING_WAIT_NS;
        let sent = self.send_one(0);
        while clock::now_ns() < until_ns && !sent.is_over() {
            if sent.written_ns.get().is_some() {
                self.note_reached(&sockets::reached(self.shared.address.port()));
                if sent.seen.borrow().taken == Some(true) {
                    break;
                }
            }
            // The server needs the processor for that.
            timer.until(clock::now_ns() + SPANNING_LOOK_NS).await?;
        }
        Ok(())
    }

    /// Whether the signal, planned for `signal_ns`, has to wait: a request that was sent before has not been read, and the
    /// server may yet come to it. One that does a single thing at a time won't, so it is not waited for each of them:
    /// `is_awake` is asked whether the server has anything to do.
    #[must_use]
    pub fn is_being_read(&self, signal_ns: u64, now_ns: u64, is_awake: impl Fn() -> bool) -> bool {
        let sent = self.shared.sent.borrow();
        // Of what comes all the time, which goes on meanwhile, only what was sent before.
        let before = || sent.iter().filter(|sent| sent.kind != Kind::Arrival || sent.sent_ns.get() < signal_ns);
        if before().all(|sent| sent.was_read()) {
            return false;
        }
        let slow = || before().filter(|sent| sent.template >= self.shared.ordinary);
        // What is over does not come back.
        if slow().any(|sent| sent.is_over()) {
            return false;
        }
        let first = slow().filter_map(|sent| Some((sent.taken_ns.get()?, sent.sent_ns.get()))).min();
        if first.is_none() && slow().next().is_some() {
            return now_ns < signal_ns + FIRST_TAKEN_NS;
        }
        let moments = before().flat_map(|sent| [sent.taken_ns.get(), sent.read_ns.get(), sent.ended_ns.get()]);
        // A server that is late with one is late with the next.
        let late_ns = first.map_or(0, |(taken_ns, sent_ns)| 2 * (taken_ns - sent_ns));
        let Some(last_ns) = moments.flatten().max() else { return false };
        let within = |pause_ns: u64| now_ns < (last_ns + pause_ns).min(signal_ns + FIRST_TAKEN_NS);
        within(PAUSE_NS.max(late_ns)) || within(AWAKE_PAUSE_NS) && is_awake()
    }

    /// Takes in how far the server has got with its connections, by the client's port.
    pub fn note_reached(&self, reached: &HashMap<u16, Reached>) {
        let look = |port: &Cell<Option<u16>>| port.get().and_then(|port| reached.get(&port).copied());
        let now_ns = clock::now_ns();
        for sent in self.shared.sent.borrow().iter().rev().filter(|sent| !sent.is_over()) {
            let Some(reached) = look(&sent.client_port) else { continue };
            let note = |moment: &Cell<Option<u64>>| moment.set(moment.get().or(Some(now_ns)));
            sent.seen.borrow_mut().taken = Some(reached > Reached::Queued);
            if reached > Reached::Queued {
                note(&sent.taken_ns);
            }
            if reached == Reached::Read && sent.written_ns.get().is_some() {
                note(&sent.read_ns);
            }
        }
        for held in [&self.shared.silent, &self.shared.kept_alive] {
            held.taken
                .set(held.taken.get() || look(&held.client_port).is_some_and(|reached| reached > Reached::Queued));
        }
    }

    /// Whether requests wait in the kernel's queue while the server holds an idle connection and serves nobody. It may
    /// just be late: only of one that sleeps it is the connection that keeps it.
    #[must_use]
    pub fn may_be_blocked(&self, now_ns: u64) -> bool {
        let held = [&self.shared.silent, &self.shared.kept_alive];
        let sent = self.shared.sent.borrow();
        let mut under_way = sent.iter().filter(|sent| !sent.is_over());
        held.iter().any(|held| held.taken.get() && held.is_open())
            && under_way.clone().all(|sent| sent.seen.borrow().taken != Some(true))
            && under_way.any(|sent| sent.seen.borrow().taken == Some(false) && sent.sent_ns.get() + BLOCKED_NS < now_ns)
    }

    /// Gives up the idle connections that the server has taken, as ones that kept others waiting.
    pub fn unblock(&self) {
        for held in [&self.shared.silent, &self.shared.kept_alive] {
            if held.taken.get() && held.is_open() {
                held.blocked_others.set(true);
                held.give_up();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::SocketAddr, rc::Rc};

    use super::*;
    use crate::check::{fate::Connection, samples, settings::Settings};

    const SIGNAL_NS: u64 = 10_000 * MS;

    /// Ordinary requests of template 0, slow ones of template 1, each sent so many milliseconds before the signal.
    fn load(sent: &[(usize, u64)]) -> (Load, Vec<Rc<crate::check::exchange::Sent>>) {
        let settings = Settings { slow_requests: vec!["/slow".parse().unwrap()], ..samples::settings() };
        let load = Load::new(&settings, SocketAddr::from(([127, 0, 0, 1], 1)));
        let of = |&(template, before_ms): &(usize, u64)| {
            let sent = load.shared.send_now(Kind::Spanning, template, Connection::New);
            sent.sent_ns.set(SIGNAL_NS - before_ms * MS);
            sent
        };
        let sent = sent.iter().map(of).collect();
        (load, sent)
    }

    fn waits(load: &Load, after_ms: u64) -> bool {
        load.is_being_read(SIGNAL_NS, SIGNAL_NS + after_ms * MS, || false)
    }

    #[test]
    fn a_server_that_is_kept_from_its_processor_has_longer() {
        let (load, sent) = load(&[(1, 100), (1, 100)]);
        for moment in [&sent[0].taken_ns, &sent[0].read_ns] {
            moment.set(Some(SIGNAL_NS));
        }
        let waits_for =
            |after_ms: u64, is_awake: bool| load.is_being_read(SIGNAL_NS, SIGNAL_NS + after_ms * MS, || is_awake);
        assert!(waits_for(199, false) && !waits_for(200, false));
        assert!(waits_for(499, true) && !waits_for(500, true));
    }

    #[test]
    fn the_signal_waits_until_what_was_sent_is_read() {
        let (load, sent) = load(&[(0, 200), (1, 100)]);
        assert!(waits(&load, 0) && waits(&load, 1_999) && !waits(&load, 2_000), "nothing is taken");
        sent[1].taken_ns.set(Some(SIGNAL_NS + 300 * MS));
        // It was 400 ms late with the one that is slow: it has as long twice over for the next.
        assert!(waits(&load, 1_099) && !waits(&load, 1_100));
        sent[1].read_ns.set(Some(SIGNAL_NS + 400 * MS));
        assert!(waits(&load, 1_199) && !waits(&load, 1_200));
        sent[0].ended_ns.set(Some(SIGNAL_NS + 450 * MS));
        assert!(!waits(&load, 450), "all is read");
    }

    #[test]
    fn a_slow_request_is_waited_for_even_where_the_signal_was_due_before_it() {
        let (load, sent) = load(&[(1, 0)]);
        sent[0].sent_ns.set(SIGNAL_NS + MS);
        assert!(waits(&load, 1) && !waits(&load, 2_000));
        sent[0].read_ns.set(Some(SIGNAL_NS + 5 * MS));
        assert!(!waits(&load, 5));
        // What comes all the time is no reason to wait.
        let arrives = load.shared.send_now(Kind::Arrival, 0, Connection::New);
        arrives.sent_ns.set(SIGNAL_NS + 2 * MS);
        assert!(!waits(&load, 5));
    }

    #[test]
    fn a_server_that_does_one_thing_at_a_time_gets_the_signal_in_time() {
        let (load, sent) = load(&[(1, 100), (1, 100), (1, 100), (0, 50)]);
        for moment in [&sent[0].taken_ns, &sent[0].read_ns] {
            moment.set(Some(SIGNAL_NS - 100 * MS));
        }
        assert!(!waits(&load, 0));
        sent[1].taken_ns.set(Some(SIGNAL_NS - 90 * MS));
        assert!(waits(&load, 0) && !waits(&load, 10), "it goes on taking");
        sent[0].ended_ns.set(Some(SIGNAL_NS - MS));
        assert!(!waits(&load, 0), "what is over does not come back");
    }

    #[test]
    fn without_slow_requests_it_waits_while_something_goes_on() {
        let (load, sent) = load(&[(0, 300), (0, 20)]);
        assert!(!waits(&load, 0), "nothing is ever taken");
        sent[0].ended_ns.set(Some(SIGNAL_NS - 10 * MS));
        assert!(waits(&load, 89) && !waits(&load, 90));
        sent[1].first_byte_ns.set(Some(SIGNAL_NS));
        assert!(!waits(&load, 0), "it is answered");
    }

    #[test]
    fn only_an_idle_connection_that_is_held_while_nobody_is_served_may_block() {
        let (load, sent) = load(&[(0, 100), (0, 90)]);
        let held = &load.shared.silent;
        held.idle_since_ns.set(Some(1));
        held.client_port.set(Some(7));
        sent[0].client_port.set(Some(8));
        let look = |queued: Reached| {
            load.note_reached(&[(7, Reached::Read), (8, queued)].into());
            load.may_be_blocked(SIGNAL_NS)
        };
        assert!(look(Reached::Queued));
        assert!(!load.may_be_blocked(SIGNAL_NS - 50 * MS), "not yet for long");
        assert!(!look(Reached::Read), "somebody is served");
        sent[0].ended_ns.set(Some(1));
        assert!(!look(Reached::Read), "nobody waits");
        sent[0].ended_ns.set(None);
        assert!(look(Reached::Queued));
        load.unblock();
        assert!(held.blocked_others.get() && !look(Reached::Queued), "it is given up");
    }
}
