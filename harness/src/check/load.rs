//! The requests of a drill: arrivals that come at their times whatever becomes of the others (open loop), those that are
//! meant to be in flight when the signal comes, a connection that is kept alive and used again, and one that says nothing.

mod queue;
#[cfg(test)]
mod tests;

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
};

use tokio::{
    net::TcpStream,
    sync::Notify,
    task::{JoinSet, yield_now},
};
use worker::clock::{self, Timer};

use super::{
    descriptors,
    exchange::{Kind, Sent},
    fate::{Connect, Connection},
    settings::Settings,
    stall::Stalls,
    template::Template,
};

const MS: u64 = 1_000_000;

/// How late an arrival is sent at most, in microseconds, where less than that is between two.
const LATEST_US: u64 = 10_000;

/// All requests to one server.
pub struct Load {
    shared: Rc<Shared>,
    tasks: JoinSet<()>,
    /// For the request that is to be in flight when the signal comes: by then there may be no descriptor left for one.
    spanning: Option<Timer>,
}

struct Shared {
    address: SocketAddr,
    templates: Vec<Prepared>,
    /// How many of the templates are for arrivals; the others are the slow ones.
    ordinary: usize,
    clients: usize,
    /// The same as `clients`, where that is less than what is asked for.
    limit: Option<usize>,
    timeout_ns: Option<u64>,
    sent: RefCell<Vec<Rc<Sent>>>,
    in_flight: Cell<usize>,
    arrivals_end_ns: Cell<u64>,
    /// What is due before this is put off where our own side stood still.
    put_off_before_ns: Cell<u64>,
    skipped_busy: Cell<u64>,
    left_out: Cell<u64>,
    silent: Held,
    kept_alive: Held,
    reuse: Notify,
}

struct Prepared {
    method: String,
    once: Vec<u8>,
    keep: Vec<u8>,
}

/// A connection that is only kept open.
#[derive(Debug, Default)]
pub struct Held {
    /// The client's port, from when the connection is there.
    pub client_port: Cell<Option<u16>>,
    /// From when on it was idle.
    pub idle_since_ns: Cell<Option<u64>>,
    /// When the server closed it.
    pub closed_ns: Cell<Option<u64>>,
    /// When we gave it up.
    pub dropped_ns: Cell<Option<u64>>,
    /// Whether because requests waited for it.
    pub blocked_others: Cell<bool>,
    /// Whether the server has taken it from the kernel's queue.
    taken: Cell<bool>,
    drop: Notify,
}

impl Held {
    /// Whether it is open and idle.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.idle_since_ns.get().is_some() && self.closed_ns.get().is_none() && self.dropped_ns.get().is_none()
    }

    fn give_up(&self) {
        if self.is_open() {
            self.dropped_ns.set(Some(clock::now_ns()));
            self.drop.notify_one();
        }
    }
}

impl Load {
    /// For a server at `address`.
    #[must_use]
    pub fn new(settings: &Settings, address: SocketAddr) -> Load {
        let host = format!("localhost:{}", address.port());
        let prepare = |template: &Template| Prepared {
            method: template.method.clone(),
            once: template.bytes(&host, "close"),
            keep: template.bytes(&host, "keep-alive"),
        };
        let limit = descriptors::limit(settings.clients);
        let shared = Shared {
            address,
            templates: settings.requests.iter().chain(&settings.slow_requests).map(prepare).collect(),
            ordinary: settings.requests.len(),
            clients: limit.unwrap_or(settings.clients),
            limit,
            timeout_ns: settings.request_timeout_ms.map(|ms| ms * MS),
            sent: RefCell::default(),
            in_flight: Cell::new(0),
            arrivals_end_ns: Cell::new(0),
            put_off_before_ns: Cell::new(0),
            skipped_busy: Cell::new(0),
            left_out: Cell::new(0),
            silent: Held::default(),
            kept_alive: Held::default(),
            reuse: Notify::new(),
        };
        Load { shared: Rc::new(shared), tasks: JoinSet::new(), spanning: None }
    }

    /// Lets requests arrive from `start_ns` on, one each `every_ns`, until `end_ns`.
    ///
    /// # Errors
    /// There can be no timer.
    pub fn arrive(&mut self, start_ns: u64, every_ns: u64, end_ns: u64) -> std::io::Result<()> {
        self.arrive_until(end_ns);
        self.spanning = Some(Timer::new()?);
        let shared = Rc::clone(&self.shared);
        let mut timer = Timer::new()?;
        self.tasks.spawn_local(async move {
            let (mut requests, mut stalls) = (JoinSet::new(), Stalls::default());
            for count in 0.. {
                let mut planned_ns = start_ns + stalls.put_off_ns + count as u64 * every_ns;
                if timer.until(planned_ns).await.is_err() || planned_ns >= shared.arrivals_end_ns.get() {
                    break;
                }
                // Where we are behind, requests that are under way get their turn all the same, and those that are due
                // already are left out: sent all at once they would be another load than the one that is asked for.
                yield_now().await;
                let now_ns = clock::now_ns();
                let is_put_off = planned_ns < shared.put_off_before_ns.get();
                if is_put_off && now_ns >= shared.arrivals_end_ns.get() {
                    // The signal was late, too, and nothing comes after it.
                    continue;
                }
                if clock::late_us(now_ns, planned_ns) > LATEST_US.max(every_ns / 1000) {
                    let stall_ns = if is_put_off { stalls.put_off(planned_ns, now_ns) } else { None };
                    let Some(stall_ns) = stall_ns else {
                        shared.left_out.set(shared.left_out.get() + 1);
                        continue;
                    };
                    planned_ns += stall_ns;
                }
                while requests.try_join_next().is_some() {}
                if shared.in_flight.get() >= shared.clients {
                    shared.skipped_busy.set(shared.skipped_busy.get() + 1);
                    continue;
                }
                let template = count % shared.ordinary;
                let end_ns = shared.arrivals_end_ns.get();
                let sent = shared.send(Kind::Arrival, template, Connection::New, planned_ns, end_ns);
                requests.spawn_local(shared.clone().on_new_connection(sent));
            }
            while requests.join_next().await.is_some() {}
        });
        Ok(())
    }

    /// Has arrivals that are due before this put off where our own side stood still, as all is before the signal. Later
    /// ones that it missed are left out.
    pub fn put_off_before(&self, signal_ns: u64) {
        self.shared.put_off_before_ns.set(signal_ns);
    }

    /// Has the requests end at another time.
    pub fn arrive_until(&self, end_ns: u64) {
        self.shared.arrivals_end_ns.set(end_ns);
    }

    /// Sends the slow requests.
    pub fn send_slow(&mut self) {
        for template in self.shared.ordinary..self.shared.templates.len() {
            self.send_one(template);
        }
    }

    fn send_one(&mut self, template: usize) -> Rc<Sent> {
        let sent = self.shared.send_now(Kind::Spanning, template, Connection::New);
        self.tasks.spawn_local(self.shared.clone().on_new_connection(Rc::clone(&sent)));
        sent
    }

    /// Opens the connection that never sends a byte, and the one that is used once and kept.
    pub fn open_idle(&mut self) {
        let shared = Rc::clone(&self.shared);
        self.tasks.spawn_local(async move { shared.hold_silent().await });
        let shared = Rc::clone(&self.shared);
        self.tasks.spawn_local(async move { shared.keep_alive().await });
    }

    /// Sends a request on the connection that was kept, if it is still there.
    pub fn reuse(&self) {
        self.shared.reuse.notify_one();
    }

    /// Gives up both idle connections.
    pub fn give_up_idle(&self) {
        self.shared.silent.give_up();
        self.shared.kept_alive.give_up();
    }

    /// How many requests are under way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight.get()
    }

    /// Gives up what takes longer than it may, or everything.
    pub fn give_up_late(&self, everything: bool) {
        let now_ns = clock::now_ns();
        for sent in self.shared.sent.borrow().iter().filter(|sent| !sent.is_over()) {
            if everything || sent.deadline_ns.is_some_and(|deadline_ns| deadline_ns <= now_ns) {
                sent.cancel.notify_one();
            }
        }
    }

    /// Ends all of it. Every request is over then.
    pub async fn finish(mut self) -> Finished {
        self.give_up_late(true);
        // Each has its turn to see what is there, which takes no waiting.
        for _ in 0..100 {
            if self.in_flight() == 0 {
                break;
            }
            yield_now().await;
        }
        self.tasks.abort_all();
        while self.tasks.join_next().await.is_some() {}
        let shared = &self.shared;
        Finished {
            sent: shared.sent.take(),
            skipped_busy: shared.skipped_busy.get(),
            left_out: shared.left_out.get(),
            limit: shared.limit,
            shared: Rc::clone(shared),
        }
    }
}

/// All requests, once they are over.
pub struct Finished {
    /// Each of them, in the order in which they were sent.
    pub sent: Vec<Rc<Sent>>,
    /// How many were not sent, since as many as allowed were in flight.
    pub skipped_busy: u64,
    /// How many were not sent, since our own side was late.
    pub left_out: u64,
    /// How many could be in flight at once, where that is less than what is asked for.
    pub limit: Option<usize>,
    shared: Rc<Shared>,
}

impl Finished {
    /// The connection that never sent a byte.
    #[must_use]
    pub fn silent(&self) -> &Held {
        &self.shared.silent
    }

    /// The connection that was kept.
    #[must_use]
    pub fn kept_alive(&self) -> &Held {
        &self.shared.kept_alive
    }
}

impl Shared {
    fn send_now(&self, kind: Kind, template: usize, connection: Connection) -> Rc<Sent> {
        self.send(kind, template, connection, clock::now_ns(), u64::MAX)
    }

    fn send(&self, kind: Kind, template: usize, connection: Connection, planned_ns: u64, end_ns: u64) -> Rc<Sent> {
        let sent_ns = clock::now_ns();
        let number = self.sent.borrow().len() + 1;
        let sent = Rc::new(Sent {
            sent_ns: Cell::new(sent_ns),
            end_ns,
            deadline_ns: self.timeout_ns.map(|timeout_ns| sent_ns + timeout_ns),
            ..Sent::new(number, kind, template, connection, planned_ns)
        });
        self.sent.borrow_mut().push(Rc::clone(&sent));
        self.in_flight.set(self.in_flight.get() + 1);
        sent
    }

    async fn on_new_connection(self: Rc<Shared>, sent: Rc<Sent>) {
        let template = &self.templates[sent.template];
        sent.on_new_connection(self.address, &template.once, &template.method).await;
        self.in_flight.set(self.in_flight.get() - 1);
    }

    async fn hold_silent(&self) {
        let Ok(stream) = TcpStream::connect(self.address).await else { return };
        self.silent.client_port.set(stream.local_addr().ok().map(|address| address.port()));
        self.silent.idle_since_ns.set(Some(clock::now_ns()));
        tokio::select! {
            () = until_closed(&stream) => self.silent.closed_ns.set(Some(clock::now_ns())),
            () = self.silent.drop.notified() => {}
        }
    }

    async fn keep_alive(&self) {
        let first = self.send_now(Kind::KeepAlive, 0, Connection::New);
        let template = &self.templates[0];
        let stream = first.on_new_connection(self.address, &template.keep, &template.method).await;
        self.in_flight.set(self.in_flight.get() - 1);
        let Some(stream) = stream else { return };
        let held = &self.kept_alive;
        held.client_port.set(first.client_port.get());
        held.idle_since_ns.set(Some(clock::now_ns()));
        tokio::select! {
            biased;
            // A router sees that a connection was closed, and does not use it.
            () = until_closed(&stream) => held.closed_ns.set(Some(clock::now_ns())),
            () = held.drop.notified() => {}
            () = self.reuse.notified() => {
                held.idle_since_ns.set(None);
                let again = self.send_now(Kind::Reuse, 0, Connection::Reused);
                again.client_port.set(first.client_port.get());
                let stream = again.on_connection(stream, &template.keep, &template.method).await;
                self.in_flight.set(self.in_flight.get() - 1);
                if let Some(stream) = stream {
                    held.idle_since_ns.set(Some(clock::now_ns()));
                    tokio::select! {
                        () = until_closed(&stream) => held.closed_ns.set(Some(clock::now_ns())),
                        () = held.drop.notified() => {}
                    }
                }
            }
        }
    }
}

/// Waits until the server has closed or reset the connection. What it says unasked is of no interest.
async fn until_closed(stream: &TcpStream) {
    let mut portion = [0; 1024];
    loop {
        if stream.readable().await.is_err() {
            return;
        }
        match stream.try_read(&mut portion) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// Whether our own side could not send it.
#[must_use]
pub fn unable(sent: &Sent) -> Option<String> {
    match &sent.seen.borrow().connect {
        Connect::Unable(why) => Some(why.clone()),
        _ => None,
    }
}
