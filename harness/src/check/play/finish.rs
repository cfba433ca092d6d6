//! What a drill has seen of its requests and connections, as it is recorded.

use std::cell::Cell;

use worker::clock;

use super::{Gone, Run, look::closed_us, own_pid};
use crate::{
    check::{
        exchange::Sent,
        fate::{Connect, Phase},
        load::{self, Finished, Held},
        memory::RanOut,
        record::{Client, IdleConnection, Observed, Request},
        unframed,
    },
    evidence::Kernel,
};

/// After how long the kernel repeats an attempt to connect that went unanswered (a little less than its second).
const SYN_AGAIN_US: u64 = 900_000;

/// Whether the kernel's queue of the server was full. On one machine an attempt to connect is answered at once, unless the
/// kernel drops it for that; what is refused only when it was repeated was dropped before.
fn found_no_room(connect: &Connect, took_us: u64) -> bool {
    match connect {
        Connect::Pending => true,
        Connect::Refused => took_us >= SYN_AGAIN_US,
        Connect::Established | Connect::Unable(_) => false,
    }
}

impl Run<'_> {
    /// Everything that was observed, after every process was reaped.
    pub(super) fn finish(mut self, gone: &Gone) -> Observed {
        let own = own_pid();
        let reaped = self.observed.exit.map(|status| (self.top_pid, status)).into_iter().collect();
        let mut ends = self.watch.ends(&reaped);
        ends.retain(|end| end.pid != own);
        let ended = |pid: Option<i32>| ends.iter().find(|end| Some(end.pid) == pid).and_then(|end| end.at_us);
        self.observed.app_gone_us = ended(self.observed.app_pid);
        let seen_us = self.observed.listener_closed_us;
        self.observed.listener_closed_us =
            seen_us.map(|seen_us| closed_us(seen_us, self.closed_by_its_end, self.observed.app_gone_us));
        self.observed.top_gone_us = ended(Some(self.top_pid)).or(self.observed.top_gone_us);
        self.observed.ends = ends;
        self.observed.end_us = self.micros(gone.end_ns);
        self.observed.top_was_ending = self.top_was_ending.get();
        (self.observed.output_bytes, self.observed.output) = self.output.so_far();
        self.observed.kernel = self.trace.take().map(|trace| match trace {
            Ok(trace) => trace.finish(self.observed.snapshots(), self.origin_ns),
            Err(why) => Kernel::Unavailable { why },
        });
        if let Some((at_ns, ran_out)) = self.memory.ran_out() {
            // What others have used up tells nothing of the command; and before it was ready there was no drill.
            if self.observed.unable.is_some() || !ran_out.by_command {
                self.observed.unable = Some(ran_out.words());
            }
            self.observed.memory = Some(RanOut { at_us: self.micros(at_ns), ..ran_out });
        }
        if let Some(requests) = &gone.requests {
            self.observed.requests = requests.sent.iter().filter_map(|sent| self.request(sent, gone.end_ns)).collect();
            unframed::settle(self.settings, &mut self.observed);
            self.observed.client = self.client(requests, gone.worst_late_ns);
            self.observed.idle.silent = self.idle(requests.silent());
            self.observed.idle.kept_alive = self.idle(requests.kept_alive());
        }
        self.observed
    }

    fn request(&self, sent: &Sent, end_ns: u64) -> Option<Request> {
        if sent.was_dropped.get() {
            return None;
        }
        let ended_ns = sent.ended_ns.get();
        let fate = sent.seen.borrow().fate()?;
        let took_us = ended_ns.unwrap_or(end_ns).saturating_sub(sent.sent_ns.get()) / 1000;
        let since = |at_ns: u64| at_ns.saturating_sub(sent.sent_ns.get()) / 1000;
        Some(Request {
            number: sent.number,
            template: sent.template,
            sent_us: self.micros(sent.sent_ns.get()),
            late_us: clock::late_us(sent.sent_ns.get(), sent.planned_ns),
            first_byte_after_us: sent.first_byte_ns.get().map(since),
            took_us,
            connection: sent.connection,
            phase: Phase::of(sent.sent_ns.get(), ended_ns, self.signal_ns),
            fate,
            status: sent.seen.borrow().status,
            unframed_bytes: Some(sent.seen.borrow()).filter(|seen| seen.is_unframed).map(|seen| seen.received_bytes),
            queue_full: found_no_room(&sent.seen.borrow().connect, took_us),
        })
    }

    fn client(&self, requests: &Finished, worst_late_ns: u64) -> Client {
        let unable: Vec<String> = requests.sent.iter().filter_map(|sent| load::unable(sent)).collect();
        let late_us = |sent: &Sent| clock::late_us(sent.sent_ns.get(), sent.planned_ns);
        let dropped = requests.sent.iter().filter(|sent| sent.was_dropped.get()).count() as u64;
        Client {
            skipped_busy: requests.skipped_busy,
            unable: unable.len() as u64,
            unable_why: unable.first().cloned(),
            worst_late_us: requests.sent.iter().map(|sent| late_us(sent)).max().unwrap_or(0).max(worst_late_ns / 1000),
            left_out: requests.left_out + dropped,
            limit: requests.limit,
            put_off_us: self.stalls.put_off_ns / 1000,
        }
    }

    fn idle(&self, held: &Held) -> IdleConnection {
        let micros = |cell: &Cell<Option<u64>>| cell.get().map(|at_ns| self.micros(at_ns));
        let (closed_us, dropped_us) = (micros(&held.closed_ns), micros(&held.dropped_ns));
        let before_signal = |at_us: Option<i64>| at_us.is_some_and(|at_us| at_us < 0);
        let there = held.client_port.get().is_some();
        IdleConnection {
            open: there && !before_signal(closed_us) && !before_signal(dropped_us),
            closed_us,
            dropped_us,
            blocked_others: held.blocked_others.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_answers_nothing_to_found_no_room_however_long_it_was_waited_for() {
        for (connect, took_us, full) in [
            (Connect::Pending, 500_000, true),
            (Connect::Pending, 2_000_000, true),
            (Connect::Refused, 100, false),
            (Connect::Refused, 1_010_000, true),
            (Connect::Established, 2_000_000, false),
        ] {
            assert_eq!(found_no_room(&connect, took_us), full, "{connect:?} {took_us}");
        }
    }
}
