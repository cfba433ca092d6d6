//! When things are due in real time: the parts of a tick, and the moments of a drill.
//!
//! The order within a tick is kept by giving each step its own part of it. Workers aim at the start of a tick with their
//! completions and boots; the harness acts later in the tick, and admits last.

use std::collections::BTreeSet;

use scenarios::{Fault, RequestId, Scenario, Schedule, Span, Tick};

use super::Extent;
use crate::{evidence::Look, record::Part};

/// Where in its tick the harness does what, in percent.
mod percent {
    /// SIGTERM goes out, and the replacement is started right after it.
    pub(super) const SIGTERM: u64 = 25;
    /// It is judged whether SIGTERM did anything, when SIGKILL follows in the same tick.
    pub(super) const JUDGE_EARLY: u64 = 45;
    /// SIGKILL goes out.
    pub(super) const SIGKILL: u64 = 50;
    /// It is judged whether SIGTERM did anything.
    pub(super) const JUDGE: u64 = 60;
    /// The request that arrives now is sent to a worker, in the tick of SIGTERM or SIGKILL.
    pub(super) const ADMISSION_LAST: u64 = 65;
    /// The same in any other tick, where only completions come before it: it is what takes longest.
    pub(super) const ADMISSION: u64 = 45;
    /// A look is taken at the processes, some 50 µs for each: after all else that the harness does in a tick.
    pub(super) const LOOK: u64 = 75;
    /// The tick is over.
    pub(super) const END: u64 = 100;
}

/// What the harness does at a planned moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// Send SIGTERM to worker 1.
    Sigterm,
    /// Start the replacement.
    Replacement,
    /// See whether SIGTERM did anything.
    Judge,
    /// Send SIGKILL to worker 1, if it is still there.
    Sigkill,
    /// Let this request arrive.
    Arrival(RequestId),
    /// Look at the processes of worker 1.
    Look(Look),
    /// End the drill.
    End,
}

/// All planned moments of a drill on its schedule.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How ticks lie on the real clock.
    pub schedule: Schedule,
    moments: Vec<(u64, Moment)>,
    arrivals: BTreeSet<Tick>,
    signal_at: Tick,
    deadline: Tick,
    judge: u64,
}

impl Plan {
    /// The plan of `scenario`, or of the extent of it that is played.
    #[must_use]
    pub fn new(scenario: &Scenario, schedule: Schedule, extent: Extent, fault: Option<Fault>) -> Plan {
        let (signal_at, deadline) = (scenario.signal_at(), deadline(scenario, fault));
        let (arrivals, end): (Vec<(RequestId, Tick)>, Tick) = match extent {
            Extent::Whole => (scenario.arrivals().collect(), Tick::END),
            Extent::Measurement => (Vec::new(), deadline),
        };
        let judge = if signal_at == deadline { percent::JUDGE_EARLY } else { percent::JUDGE };
        let mut moments = vec![
            (schedule.within(signal_at, percent::SIGTERM), Moment::Sigterm),
            (schedule.within(signal_at, judge), Moment::Judge),
            (schedule.within(deadline, percent::SIGKILL), Moment::Sigkill),
            (schedule.within(end, percent::END), Moment::End),
        ];
        moments.extend(
            looks(signal_at, deadline).map(|(t, look)| (schedule.within(t, percent::LOOK), Moment::Look(look))),
        );
        if fault == Some(Fault::SignalsTwice) {
            moments.push((schedule.within(signal_at, percent::SIGTERM), Moment::Sigterm));
        }
        if scenario.boot_replacement {
            moments.push((schedule.within(signal_at, percent::SIGTERM), Moment::Replacement));
        }
        let admission = |tick| admission_percent(tick, signal_at, deadline);
        moments
            .extend(arrivals.iter().map(|&(request, t)| (schedule.within(t, admission(t)), Moment::Arrival(request))));
        moments.sort_unstable();
        let arrivals = arrivals.into_iter().map(|(_, t)| t).collect();
        Plan { schedule, moments, arrivals, signal_at, deadline, judge }
    }

    /// The planned moments in order, each with its real time in nanoseconds of CLOCK_MONOTONIC.
    #[must_use]
    pub fn moments(&self) -> &[(u64, Moment)] {
        &self.moments
    }

    /// When SIGTERM is due.
    #[must_use]
    pub fn sigterm_ns(&self) -> u64 {
        self.schedule.within(self.signal_at, percent::SIGTERM)
    }

    /// When SIGKILL is due.
    #[must_use]
    pub fn sigkill_ns(&self) -> u64 {
        self.schedule.within(self.deadline, percent::SIGKILL)
    }

    /// How late in microseconds a thing of `part` that was due in `tick` may be: until the harness acts next in that
    /// tick, so that the order within the tick is certain.
    #[must_use]
    pub fn allowed_us(&self, part: Part, tick: Tick) -> u64 {
        let arrival = self.admission_or_end(tick);
        let deadline = if tick == self.deadline { percent::SIGKILL } else { arrival };
        let (from, until) = match part {
            Part::Start if tick == Tick::START => (0, percent::END),
            Part::Start => (percent::SIGTERM, percent::END),
            Part::Completion | Part::Boot if tick == self.signal_at => (0, percent::SIGTERM),
            Part::Completion | Part::Boot | Part::Exit => (0, deadline),
            Part::Signal => (percent::SIGTERM, self.judge),
            Part::Kill => (percent::SIGKILL, arrival),
            Part::Admission => (arrival, percent::END),
        };
        (self.schedule.tick_ns * (until - from) / 100) / 1000
    }

    /// Where in `tick` the harness admits, or the end of a tick in which it does not.
    fn admission_or_end(&self, tick: Tick) -> u64 {
        match self.arrivals.contains(&tick) {
            true => admission_percent(tick, self.signal_at, self.deadline),
            false => percent::END,
        }
    }

    /// How late in microseconds the harness may learn of a completion of `tick`: before it admits again.
    #[must_use]
    pub fn allowed_to_learn_us(&self, tick: Tick) -> u64 {
        let until = self.admission_or_end(tick);
        (self.schedule.tick_ns * until / 100) / 1000
    }
}

/// In which ticks looks are taken: the one before SIGTERM, that of SIGTERM, and the one before SIGKILL where that is not
/// one of those.
fn looks(signal_at: Tick, deadline: Tick) -> impl Iterator<Item = (Tick, Look)> {
    let before = |t: Tick| Tick(t.0.saturating_sub(1));
    let sigkill = (before(deadline) > signal_at).then(|| (before(deadline), Look::BeforeSigkill));
    [(before(signal_at), Look::Before), (signal_at, Look::After)].into_iter().chain(sigkill)
}

/// When the grace period ends, or when a seeded harness thinks that it does.
fn deadline(scenario: &Scenario, fault: Option<Fault>) -> Tick {
    let (signal_at, right) = (scenario.signal_at(), scenario.deadline());
    let earlier = |by: Span| Tick(right.0.saturating_sub(by.0).max(signal_at.0));
    match fault {
        Some(Fault::KillsEarly) => earlier(Span::seconds(1)),
        Some(Fault::KillsOneTickEarly) => earlier(Span(1)),
        Some(Fault::KillsOneTickLate) => right + Span(1),
        Some(Fault::GraceFromStart) => Tick::START + scenario.grace_period_s,
        _ => right,
    }
}

fn admission_percent(tick: Tick, signal_at: Tick, deadline: Tick) -> u64 {
    if tick == signal_at || tick == deadline { percent::ADMISSION_LAST } else { percent::ADMISSION }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seeded_harness_is_wrong_in_its_own_way() {
        let scenario = Scenario::new("opening", "opening");
        let planned = |fault| {
            let plan = Plan::new(&scenario, Schedule::new(0, 10.0), Extent::Whole, fault);
            let sigterms = plan.moments().iter().filter(|(_, moment)| *moment == Moment::Sigterm).count();
            (plan.schedule.tick_at(plan.sigkill_ns()), sigterms)
        };
        assert_eq!(planned(None), (Tick(400), 1));
        for (name, fault) in Fault::NAMED {
            let expected = match name {
                "kills_early" => (Tick(390), 1),
                "kills_one_tick_early" => (Tick(399), 1),
                "kills_one_tick_late" => (Tick(401), 1),
                "grace_from_start" => (Tick(100), 1),
                "signals_twice" => (Tick(400), 2),
                _ => (Tick(400), 1),
            };
            assert_eq!(planned(Some(fault)), expected, "{name}");
        }
    }

    fn plan(scenario: &Scenario) -> Plan {
        Plan::new(scenario, Schedule::new(0, 10.0), Extent::Whole, None)
    }

    #[test]
    fn what_falls_on_one_tick_is_due_in_the_order_of_its_steps() {
        let mut scenario = Scenario::new("tie", "tie");
        scenario.signal_at_s = Span::seconds(31);
        scenario.grace_period_s = Span(0);
        scenario.boot_replacement = true;
        let plan = plan(&scenario);
        let at_the_signal: Vec<Moment> =
            plan.moments().iter().filter(|(at, _)| plan.schedule.tick_at(*at) == Tick(310)).map(|&(_, m)| m).collect();
        let expected = [
            Moment::Sigterm,
            Moment::Replacement,
            Moment::Judge,
            Moment::Sigkill,
            Moment::Arrival(RequestId(16)),
            Moment::Look(Look::After),
        ];
        assert_eq!(at_the_signal, expected);
        assert_eq!(plan.moments().last().map(|(_, moment)| *moment), Some(Moment::End));
    }

    #[test]
    fn the_time_that_is_allowed_ends_where_the_harness_acts_next() {
        let plan = plan(&Scenario::new("opening", "opening"));
        // At 10x a tick is 10 ms. A request arrives at 31 s, none at 32 s; SIGTERM is due at 30 s, SIGKILL at 40 s.
        assert_eq!(plan.allowed_us(Part::Completion, Tick(310)), 4_500);
        assert_eq!(plan.allowed_us(Part::Completion, Tick(320)), 10_000);
        assert_eq!(plan.allowed_us(Part::Completion, Tick(300)), 2_500);
        assert_eq!(plan.allowed_us(Part::Exit, Tick(400)), 5_000);
        assert_eq!(plan.allowed_us(Part::Kill, Tick(400)), 5_000);
        assert_eq!(plan.allowed_us(Part::Admission, Tick(310)), 5_500);
    }
}
