//! What is done at which moment of a drill. Pure.

use crate::check::settings::{HOLD_IDLE_PERCENT, Settings, SignalAt};

/// Nanoseconds in a millisecond.
pub(super) const MS: u64 = 1_000_000;

/// How long before the signal the idle connections are opened, and the slow requests are sent.
const IDLE_BEFORE_NS: u64 = 1_000 * MS;
const SLOW_BEFORE_NS: u64 = 100 * MS;
/// How long before the signal, and after it, a look is taken at the processes.
const LOOK_BEFORE_NS: u64 = 8 * MS;
const LOOK_AFTER_NS: u64 = 30 * MS;
/// How long after the signal the connection that was kept is used again.
const REUSE_NS: u64 = 100 * MS;

/// What is done at a planned moment of the drill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    OpenIdle,
    SendSlow,
    LookBefore,
    Signal,
    LookAfter,
    Reuse,
    SecondSignal,
    GiveUpIdle,
    LookBeforeSigkill,
    Sigkill,
}

/// When things happen, in nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) ready_ns: u64,
    pub(super) stop_ns: u64,
    pub(super) signal_ns: u64,
    pub(super) arrivals_end_ns: u64,
    pub(super) deadline_ns: u64,
}

impl Plan {
    pub(super) fn new(settings: &Settings, started_ns: u64, ready_ns: u64) -> Plan {
        let stop_ns = match settings.signal_at {
            SignalAt::AfterReady(ms) => ready_ns + ms * MS,
            SignalAt::AfterStart(ms) => started_ns + ms * MS,
        };
        Plan {
            ready_ns,
            stop_ns,
            signal_ns: stop_ns + settings.pre_stop_ms * MS,
            arrivals_end_ns: stop_ns + settings.routing_lag_ms * MS,
            deadline_ns: stop_ns + settings.grace_ms * MS,
        }
    }

    /// Has everything come so much later, but for the moment that the signal was planned for.
    pub(super) fn put_off(&mut self, by_ns: u64) {
        self.stop_ns += by_ns;
        self.arrivals_end_ns += by_ns;
        self.deadline_ns += by_ns;
    }

    /// How long after the signal the idle connections are held. What is before that shows whether they keep it from
    /// ending; what is after, whether only they do. It is no half: servers take 5 of 10 s, or 15 of 30, for reasons of
    /// their own.
    fn hold_idle_ns(&self, settings: &Settings) -> u64 {
        let usual_ns = self.deadline_ns.saturating_sub(self.signal_ns) / 100 * HOLD_IDLE_PERCENT;
        settings.hold_idle_ms.map_or(usual_ns, |ms| ms * MS)
    }

    /// Has everything come so much later, since for so long nothing was done.
    pub(super) fn shift(&mut self, by_ns: u64) {
        self.put_off(by_ns);
        self.signal_ns += by_ns;
    }

    /// All moments, in order.
    pub(super) fn moments(&self, settings: &Settings, is_ready: bool) -> Vec<(u64, Moment)> {
        // The preStop hook may use all of it up.
        let signal_ns = self.signal_ns.min(self.deadline_ns);
        let mut moments = Vec::new();
        // What is to be in flight or open comes from a router, which may have stopped before the signal. At the same moment
        // it comes first.
        let last_ns = signal_ns.min(self.arrivals_end_ns);
        let before = |time_ns: u64| last_ns.saturating_sub(time_ns).max(self.ready_ns).min(signal_ns);
        if is_ready && !(settings.router_stops_first() && self.arrivals_end_ns < self.ready_ns) {
            moments.extend([(before(IDLE_BEFORE_NS), Moment::OpenIdle), (before(SLOW_BEFORE_NS), Moment::SendSlow)]);
        }
        moments.extend([
            (signal_ns.saturating_sub(LOOK_BEFORE_NS).max(self.ready_ns).min(signal_ns), Moment::LookBefore),
            (signal_ns, Moment::Signal),
            (self.signal_ns + LOOK_AFTER_NS, Moment::LookAfter),
            (self.deadline_ns.saturating_sub(LOOK_BEFORE_NS), Moment::LookBeforeSigkill),
            (self.deadline_ns, Moment::Sigkill),
        ]);
        if let Some(second) = settings.second_signal {
            moments.push((self.signal_ns + second.after_ms * MS, Moment::SecondSignal));
        }
        if is_ready {
            moments.push((self.signal_ns + self.hold_idle_ns(settings), Moment::GiveUpIdle));
        }
        // A router that sends nothing any more does not do it on a connection that it kept either.
        if is_ready && self.signal_ns + REUSE_NS <= self.arrivals_end_ns {
            moments.push((self.signal_ns + REUSE_NS, Moment::Reuse));
        }
        // Nothing comes after SIGKILL. The signal itself is sent even where there is no time left for it, as platforms do.
        moments
            .retain(|(at_ns, moment)| matches!(moment, Moment::Signal | Moment::Sigkill) || *at_ns < self.deadline_ns);
        moments.sort_by_key(|(at_ns, _)| *at_ns);
        moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{profiles::SecondSignal, samples, settings::Settings};

    fn moments(grace_ms: u64, pre_stop_ms: u64) -> Vec<Moment> {
        let second_signal = Some(SecondSignal { signal: scenarios::Signal::INT, after_ms: 50 });
        let settings = Settings { grace_ms, pre_stop_ms, second_signal, ..samples::settings() };
        let moments = Plan::new(&settings, 0, 5_000 * MS).moments(&settings, true);
        moments.into_iter().map(|(_, moment)| moment).collect()
    }

    #[test]
    fn a_grace_period_that_is_over_at_once_has_both_signals_in_order() {
        for (grace_ms, pre_stop_ms) in [(0, 0), (2_000, 2_000), (1, 1), (500, 2_000)] {
            let moments = moments(grace_ms, pre_stop_ms);
            assert_eq!(moments[moments.len() - 2..], [Moment::Signal, Moment::Sigkill], "{grace_ms} {pre_stop_ms}");
        }
    }

    /// Otherwise a server that only waits for them would need less, the less it is given.
    #[test]
    fn a_search_holds_idle_connections_as_long_as_with_what_was_given() {
        let given = Settings { grace_ms: 10_000, pre_stop_ms: 2_000, ..samples::settings() };
        let given_up_ms = |settings: &Settings| {
            let plan = Plan::new(settings, 0, 5_000 * MS);
            let moments = plan.moments(settings, true);
            let given_up = moments.into_iter().find(|(_, moment)| *moment == Moment::GiveUpIdle);
            given_up.map(|(at_ns, _)| (at_ns - plan.signal_ns) / MS)
        };
        assert_eq!(given_up_ms(&given), Some(3_600));
        for (grace_ms, up_ms) in [(10_000, Some(3_600)), (5_700, Some(3_600)), (5_600, None), (20_000, Some(3_600))] {
            assert_eq!(given_up_ms(&given.with_grace(grace_ms)), up_ms, "{grace_ms}");
            assert_eq!(given_up_ms(&given.with_grace(2_500).with_grace(grace_ms)), up_ms, "{grace_ms}");
        }
    }

    /// When something is done after readiness, in milliseconds.
    fn when_ms(settings: &Settings, wanted: Moment) -> Option<u64> {
        let moments = Plan::new(settings, 0, 5_000 * MS).moments(settings, true);
        moments.iter().find(|(_, moment)| *moment == wanted).map(|(at_ns, _)| (at_ns / MS) - 5_000)
    }

    #[test]
    fn what_is_to_be_in_flight_is_sent_before_the_signal_however_soon_that_is() {
        for after_ms in [0, 1, 50, 2_000] {
            let settings = Settings { signal_at: SignalAt::AfterReady(after_ms), ..samples::settings() };
            let moments = Plan::new(&settings, 0, 5_000 * MS).moments(&settings, true);
            let place = |wanted| moments.iter().position(|(_, moment)| *moment == wanted);
            for before in [Moment::OpenIdle, Moment::SendSlow, Moment::LookBefore] {
                assert!(place(before) < place(Moment::Signal), "{before:?} at {after_ms}: {moments:?}");
            }
        }
        // Ready only just when the signal is due, or a moment later.
        let due = Settings { signal_at: SignalAt::AfterStart(4_900), ..samples::settings() };
        let moments = Plan::new(&due, 0, 5_000 * MS).moments(&due, true);
        let order: Vec<Moment> = moments.iter().map(|(_, moment)| *moment).collect();
        let place = |wanted| order.iter().position(|moment| *moment == wanted);
        assert!(place(Moment::SendSlow) < place(Moment::Signal), "{order:?}");
    }

    #[test]
    fn a_router_that_stops_before_the_signal_sends_nothing_more() {
        let with = |pre_stop_ms, routing_lag_ms| Settings { pre_stop_ms, routing_lag_ms, ..samples::settings() };
        // The stop begins 2 s after readiness.
        for (pre_stop_ms, lag_ms, slow_ms, idle_ms, signal_ms) in [
            (0, 0, 1_900, 1_000, 2_000),
            (0, 1_000, 1_900, 1_000, 2_000),
            (5_000, 1_000, 2_900, 2_000, 7_000),
            (5_000, 0, 1_900, 1_000, 7_000),
            (500, 1_000, 2_400, 1_500, 2_500),
        ] {
            let settings = with(pre_stop_ms, lag_ms);
            let found = [Moment::SendSlow, Moment::OpenIdle, Moment::Signal].map(|moment| when_ms(&settings, moment));
            assert_eq!(found, [slow_ms, idle_ms, signal_ms].map(Some), "{pre_stop_ms} {lag_ms}");
            assert_eq!(settings.router_stops_first(), lag_ms < pre_stop_ms, "{pre_stop_ms} {lag_ms}");
        }
        // The stop began while it booted, and the router had stopped before it was ready.
        let booting = Settings { signal_at: SignalAt::AfterStart(1_000), ..with(5_000, 1_000) };
        assert_eq!(when_ms(&booting, Moment::SendSlow), None);
    }

    #[test]
    fn sigkill_is_the_last() {
        for (grace_ms, with_second) in [(1, false), (40, false), (60, true), (10_000, true)] {
            let moments = moments(grace_ms, 0);
            assert_eq!(moments.last(), Some(&Moment::Sigkill), "{grace_ms}");
            assert_eq!(moments.contains(&Moment::SecondSignal), with_second, "{grace_ms}");
        }
    }
}
