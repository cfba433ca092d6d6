//! Looks that are taken at the processes of a drill and at the port while it goes on.

use std::rc::Rc;

use tokio::task::yield_now;
use worker::clock;

use super::{Run, own_pid, plan::MS};
use crate::{
    check::{load::Load, sockets},
    evidence::kernel,
    process::{self, Listening, Live, Other},
};

/// How often those who wait for ends get a turn at the end of the drill.
const NOTING_TURNS: usize = 100;

/// When a look is taken at the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Start,
    Before,
    After,
    BeforeSigkill,
    TopGone,
    AtEnd,
}

impl Run<'_> {
    pub(super) fn look(&mut self, look: Look) {
        // Our own process is the root of all, and no part of the drill.
        let tasks = &mut self.tasks;
        let mut snapshot = self.watch.look(Some(own_pid()), |noted| drop(tasks.spawn_local(noted)));
        snapshot.processes.retain(|node| node.process.pid != own_pid());
        for node in &mut snapshot.processes {
            node.depth = node.depth.saturating_sub(1);
        }
        if self.trace.is_some() {
            kernel::look_up(snapshot.processes.iter_mut().map(|node| &mut node.process));
        }
        let place = match look {
            Look::Start => return,
            Look::Before => &mut self.observed.before,
            Look::After => &mut self.observed.after,
            Look::BeforeSigkill => &mut self.observed.before_sigkill,
            Look::TopGone => &mut self.observed.at_top_gone,
            Look::AtEnd => &mut self.observed.at_end,
        };
        *place = Some(snapshot);
    }

    /// Notes, when the app has ended, whether the first process is on its way out: PID 1 is when the kernel kills the rest
    /// with it, and one that has killed its app by itself is not yet.
    pub(super) fn watch_app(&mut self) {
        let (top, app) = (self.top_pid, self.observed.app_pid.filter(|&app| app != self.top_pid));
        let Some(ends) = app.and_then(Other::open).and_then(|app| app.watch().ok()) else { return };
        let was_ending = Rc::clone(&self.top_was_ending);
        self.tasks.spawn_local(async move {
            ends.await;
            was_ending.set(Some(process::is_dying(top)));
        });
    }

    /// Lets everybody who waits for the end of a process that has ended take note of it: what ended last may have ended
    /// since they had their last turn.
    pub(super) async fn note_ends(&mut self) {
        for _ in 0..NOTING_TURNS {
            while self.tasks.try_join_next().is_some() {}
            if self.tasks.len() <= process::descendants(own_pid()).len() {
                break;
            }
            // The kernel is asked for events before it is our turn again.
            yield_now().await;
        }
    }

    /// How long the signal, planned for `signal_ns`, waits before it is looked again, where it does: for requests that were
    /// sent before and are not read.
    pub(super) fn wait_for_requests(&self, load: &Load, signal_ns: u64) -> Option<u64> {
        let now_ns = clock::now_ns();
        let is_awake = || !all_sleep();
        if !load.is_being_read(signal_ns, now_ns, is_awake) || self.top.as_ref().is_none_or(Live::has_ended) {
            return None;
        }
        load.note_reached(&sockets::reached(self.observed.port));
        let then_ns = clock::now_ns();
        // The server needs the processor for that.
        load.is_being_read(signal_ns, then_ns, is_awake).then_some(MS.max(5 * (then_ns - now_ns)))
    }

    /// Looks how far the server has got with its connections, and gives up an idle one that keeps it from the others.
    pub(super) fn look_at_queue(&self, load: &Load) {
        let look = || {
            load.note_reached(&sockets::reached(self.observed.port));
            load.may_be_blocked(clock::now_ns())
        };
        // What comes in wakes whoever waits for that. So when all sleep and it is still in the queue, nobody does.
        if look() && all_sleep() && look() {
            load.unblock();
        }
    }

    pub(super) fn look_at_listener(&mut self) {
        let app = self.observed.app_pid.filter(|_| self.observed.listener_closed_us.is_none());
        if let (Some(_), Some(app)) = (self.signal_ns, app) {
            let listening = self.listening.get_or_insert_with(|| Listening::on(self.observed.port));
            if !listening.is_there() {
                self.observed.listener_closed_us = Some(self.micros(clock::now_ns()));
                self.closed_by_its_end = process::is_dying(app);
            }
        }
    }

    /// The processes of the drill that listen on the port.
    pub(super) fn holders(&self) -> Vec<i32> {
        let listeners = sockets::listeners();
        let port = self.observed.port;
        let inodes: Vec<u64> = listeners.iter().filter(|listener| listener.port == port).map(|l| l.inode).collect();
        if inodes.is_empty() {
            return Vec::new();
        }
        let below = process::descendants(own_pid());
        sockets::holders(below.iter().map(Other::pid), &inodes)
    }

    /// The uppermost process that listens on the port: one that forked workers holds the socket as they do.
    pub(super) fn app(&self) -> Option<i32> {
        let holders = self.holders();
        let before = self.observed.before.as_ref()?;
        let uppermost = before.processes.iter().filter(|node| holders.contains(&node.process.pid));
        uppermost.min_by_key(|node| node.depth).map(|node| node.process.pid)
    }
}

/// When a port was closed that was seen closed at `seen_us`. What ends closes it in passing, and if it is kept from its
/// processor right then it is gone only a good while later: that is no sign of a handler.
pub(super) fn closed_us(seen_us: i64, by_its_end: bool, gone_us: Option<i64>) -> i64 {
    gone_us.filter(|_| by_its_end).map_or(seen_us, |gone_us| seen_us.max(gone_us))
}

/// Whether every process of the drill sleeps.
fn all_sleep() -> bool {
    process::descendants(own_pid()).iter().all(|process| process::all_threads_sleep(process.pid()))
}

#[cfg(test)]
mod tests {
    use super::closed_us;

    #[test]
    fn a_port_that_is_closed_by_the_end_is_not_closed_before_it() {
        assert_eq!(closed_us(5, true, Some(40)), 40);
        assert_eq!(closed_us(5, false, Some(40)), 5);
        assert_eq!(closed_us(45, true, Some(40)), 45);
        assert_eq!(closed_us(5, true, None), 5);
    }
}
