//! When things are due in real time: the parts of a tick, and the moments of a drill.
//!
//! The order within a tick is kept by giving each step its own part of it. Workers aim at the start of a tick with their
//! completions and boots; the harness acts later in the tick, and admits last.

use std::collections::BTreeSet;

use scenarios::{Fault, RequestId, Scenario, Schedule, Span, Stage, Tick};

use super::Extent;
use crate::{evidence::Look, record::Part};

/// Where in its tick the harness does what, in percent.
///
/// What a worker does by itself in a tick comes first. Where a tick has none of that, the harness need not wait for it,
/// and what it does there gets the time: the end of a PID namespace and a first connection take longest.
mod percent {
    /// The first thing that the harness does in a tick in which a worker does nothing by itself.
    pub(super) const FIRST: u64 = 0;
    /// SIGTERM goes out, and the replacement is started right after it.
    pub(super) const SIGTERM: u64 = 25;
    /// It is judged whether SIGTERM did anything, when SIGKILL follows in the same tick.
    pub(super) const JUDGE_EARLY: u64 = 45;
    /// SIGKILL goes out in the tick of SIGTERM.
    pub(super) const SIGKILL_LAST: u64 = 50;
    /// The same in any other tick.
    pub(super) const SIGKILL: u64 = 35;
    /// It is judged whether SIGTERM did anything.
    pub(super) const JUDGE: u64 = 60;
    /// The request that arrives now is sent to a worker, in the tick of SIGTERM or SIGKILL.
    pub(super) const ADMISSION_LAST: u64 = 65;
    /// The same in any other tick. A connection is there by then, left by what has completed.
    pub(super) const ADMISSION: u64 = 50;
    /// A look is taken at the processes, some 50 µs for each: after all else that is done in a tick.
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
    /// See whether the boots are over that foreign workers were begun with, and give up if not.
    BootsGivenUp,
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
    parts: Parts,
}

/// Where each part of a tick begins.
#[derive(Clone, Debug)]
struct Parts {
    signal_at: Tick,
    deadline: Tick,
    /// In which a worker may have something to do by itself.
    busy: BTreeSet<Tick>,
    sigterm: u64,
    judge: u64,
    sigkill: u64,
}

impl Parts {
    fn new(scenario: &Scenario, deadline: Tick) -> Parts {
        let (signal_at, busy) = (scenario.signal_at(), busy(scenario));
        let from = |tick: Tick, otherwise: u64| if busy.contains(&tick) { otherwise } else { percent::FIRST };
        let sigterm = from(signal_at, percent::SIGTERM);
        let (judge, sigkill) = match signal_at == deadline {
            true => (percent::JUDGE_EARLY, percent::SIGKILL_LAST),
            false => (percent::JUDGE, from(deadline, percent::SIGKILL)),
        };
        Parts { signal_at, deadline, busy, sigterm, judge, sigkill }
    }

    /// A look takes its time, and more where it has not been taken for a while. In a tick with nothing else to do there is
    /// more of that until the next one, in which a signal may be due.
    fn look(&self, tick: Tick, arrivals: &[(RequestId, Tick)]) -> u64 {
        let arrives = arrivals.iter().any(|(_, arrival)| *arrival == tick);
        if arrives || tick == self.signal_at || self.busy.contains(&tick) { percent::LOOK } else { percent::FIRST }
    }

    fn admission(&self, tick: Tick) -> u64 {
        if tick == self.signal_at || tick == self.deadline {
            percent::ADMISSION_LAST
        } else if self.busy.contains(&tick) {
            percent::ADMISSION
        } else {
            percent::FIRST
        }
    }
}

/// The ticks in which a boot can end or an invocation get to its next stage or its end.
fn busy(scenario: &Scenario) -> BTreeSet<Tick> {
    let duration = scenario.invocation_s.0;
    let steps = [Stage::Model.offset_ticks(duration), Stage::Tool.offset_ticks(duration), duration];
    let boots = [Tick::START, scenario.signal_at()].map(|begun| begun + scenario.startup_s);
    let invocations = scenario.arrivals().flat_map(|(_, arrival)| steps.map(|step| arrival + Span(step)));
    boots.into_iter().chain(invocations).collect()
}

impl Plan {
    /// The plan of `scenario`, or of the extent of it that is played.
    #[must_use]
    pub fn new(scenario: &Scenario, schedule: Schedule, extent: Extent, fault: Option<Fault>) -> Plan {
        let (signal_at, deadline) = (scenario.signal_at(), deadline(scenario, fault));
        let (arrivals, end): (Vec<(RequestId, Tick)>, Tick) = match extent {
            Extent::Whole => (scenario.arrivals().collect(), Tick::END),
            Extent::Measurement => (Vec::new(), deadline),
            Extent::BusyMeasurement => {
                let before = Tick(signal_at.0.saturating_sub(Span::seconds(1).0));
                (vec![(RequestId(1), before)], deadline)
            }
        };
        let parts = Parts::new(scenario, deadline);
        let mut moments = vec![
            (schedule.within(signal_at, parts.sigterm), Moment::Sigterm),
            (schedule.within(signal_at, parts.judge), Moment::Judge),
            (schedule.within(deadline, parts.sigkill), Moment::Sigkill),
            (schedule.within(end, percent::END), Moment::End),
        ];
        moments.extend(
            looks(signal_at, deadline)
                .map(|(t, look)| (schedule.within(t, parts.look(t, &arrivals)), Moment::Look(look))),
        );
        if fault == Some(Fault::SignalsTwice) {
            moments.push((schedule.within(signal_at, parts.sigterm), Moment::Sigterm));
        }
        if scenario.boot_replacement {
            moments.push((schedule.within(signal_at, parts.sigterm), Moment::Replacement));
        }
        moments.extend(
            arrivals.iter().map(|&(request, t)| (schedule.within(t, parts.admission(t)), Moment::Arrival(request))),
        );
        moments.sort_unstable();
        let arrivals = arrivals.into_iter().map(|(_, t)| t).collect();
        Plan { schedule, moments, arrivals, parts }
    }

    /// The same plan for foreign workers: those that the drill begins with are given up when they are not ready
    /// `patience_ns` after `ready_at`.
    #[must_use]
    pub fn for_foreign_workers(mut self, ready_at: Tick, patience_ns: u64) -> Plan {
        let at_ns = self.schedule.start_of(ready_at) + patience_ns;
        let before = self.moments.iter().filter(|(planned_ns, _)| *planned_ns <= at_ns).count();
        if before < self.moments.len() {
            self.moments.insert(before, (at_ns, Moment::BootsGivenUp));
        }
        self
    }

    /// The planned moments in order, each with its real time in nanoseconds of CLOCK_MONOTONIC.
    #[must_use]
    pub fn moments(&self) -> &[(u64, Moment)] {
        &self.moments
    }

    /// When SIGTERM is due.
    #[must_use]
    pub fn sigterm_ns(&self) -> u64 {
        self.schedule.within(self.parts.signal_at, self.parts.sigterm)
    }

    /// When SIGKILL is due.
    #[must_use]
    pub fn sigkill_ns(&self) -> u64 {
        self.schedule.within(self.parts.deadline, self.parts.sigkill)
    }

    /// How late in microseconds a thing of `part` that was due in `tick` may be: until the harness acts next in that
    /// tick, so that the order within the tick is certain.
    #[must_use]
    pub fn allowed_us(&self, part: Part, tick: Tick) -> u64 {
        let arrival = self.admission_or_end(tick);
        let Parts { signal_at, sigterm, judge, sigkill, .. } = self.parts;
        let deadline = if tick == self.parts.deadline { sigkill } else { arrival };
        let (from, until) = match part {
            Part::Start if tick == Tick::START => (0, percent::END),
            Part::Start => (sigterm, percent::END),
            // Nothing is due then, so the harness waits for nothing: a worker that does something is wrong, and not late.
            Part::Completion | Part::Boot | Part::Exit if !self.parts.busy.contains(&tick) => (0, percent::END),
            Part::Completion | Part::Boot if tick == signal_at => (0, sigterm),
            Part::Completion | Part::Boot | Part::Exit => (0, deadline),
            Part::Signal => (sigterm, judge),
            Part::Kill => (sigkill, arrival),
            Part::Admission => (arrival, percent::END),
        };
        (self.schedule.tick_ns * (until - from) / 100) / 1000
    }

    /// Where in `tick` the harness admits, or the end of a tick in which it does not.
    fn admission_or_end(&self, tick: Tick) -> u64 {
        match self.arrivals.contains(&tick) {
            true => self.parts.admission(tick),
            false => percent::END,
        }
    }

    /// How late in microseconds the harness may learn of a completion of `tick`: before it admits again.
    #[must_use]
    pub fn allowed_to_learn_us(&self, tick: Tick) -> u64 {
        let until = if self.parts.busy.contains(&tick) { self.admission_or_end(tick) } else { percent::END };
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
    fn a_look_has_all_of_a_tick_in_which_nothing_else_is_done() {
        let looks = |scenario: &Scenario| {
            let plan = plan(scenario);
            let looks = plan.moments().iter().filter(|(_, moment)| matches!(moment, Moment::Look(_)));
            looks.map(|(at_ns, _)| at_ns / 100_000).collect::<Vec<_>>()
        };
        let mut scenario = Scenario::new("opening", "opening");
        // In percent of a tick: before SIGTERM, which is due at 30 s, after it, and before SIGKILL.
        assert_eq!(looks(&scenario), [29_900, 30_075, 39_900]);
        // A request arrives at 30 s, and at 40 s the one of 20 s can complete.
        scenario.request_interval_s = Span::seconds(1);
        scenario.signal_at_s = Span(301);
        assert_eq!(looks(&scenario), [30_075, 30_175, 40_075]);
    }

    #[test]
    fn the_time_that_is_allowed_ends_where_the_harness_acts_next() {
        let plan = plan(&Scenario::new("opening", "opening"));
        // At 10x a tick is 10 ms. A request arrives at 31 s, none at 32 s; SIGTERM is due at 30 s, SIGKILL at 40 s.
        // Something can complete at 31 s, nothing at 30 s, at 40 s, and when the first request is admitted at 5 s.
        assert_eq!(plan.allowed_us(Part::Completion, Tick(310)), 5_000);
        assert_eq!(plan.allowed_us(Part::Completion, Tick(320)), 10_000);
        assert_eq!(plan.allowed_us(Part::Signal, Tick(300)), 6_000);
        assert_eq!(plan.allowed_us(Part::Kill, Tick(400)), 10_000);
        assert_eq!(plan.allowed_us(Part::Admission, Tick(310)), 5_000);
        assert_eq!(plan.allowed_us(Part::Admission, Tick(50)), 10_000);
    }

    #[test]
    fn what_is_not_due_in_its_tick_is_wrong_and_not_late() {
        let mut scenario = Scenario::new("opening", "opening");
        scenario.request_interval_s = Span::seconds(6);
        scenario.invocation_s = Span(45);
        scenario.signal_at_s = Span(323);
        let plan = plan(&scenario);
        // A request arrives at 13 s, SIGTERM is due at 32.3 s, SIGKILL at 42.3 s, and nothing can complete then.
        for tick in [130, 323, 423].map(Tick) {
            assert!(!plan.parts.busy.contains(&tick));
            for part in [Part::Completion, Part::Boot, Part::Exit] {
                assert_eq!(plan.allowed_us(part, tick), 10_000, "{part:?} in {tick}");
            }
            assert_eq!(plan.allowed_to_learn_us(tick), 10_000);
        }
    }

    #[test]
    fn what_a_worker_does_by_itself_comes_before_what_the_harness_does_in_that_tick() {
        let mut scenario = Scenario::new("tie", "tie");
        // Requests of 11 s and 21 s complete when SIGTERM and SIGKILL are due.
        scenario.invocation_s = Span::seconds(20);
        scenario.signal_at_s = Span::seconds(31);
        scenario.grace_period_s = Span::seconds(10);
        let tied = plan(&scenario);
        assert_eq!(tied.allowed_us(Part::Completion, Tick(310)), 2_500);
        assert_eq!(tied.allowed_us(Part::Completion, Tick(410)), 3_500);
        assert_eq!(tied.allowed_us(Part::Kill, Tick(410)), 6_500);
        // The first workers get ready at 4 s: nothing arrives then; at 3 s they would get ready as a request arrives.
        assert_eq!(tied.allowed_us(Part::Boot, Tick(40)), 10_000);
        scenario.startup_s = Span::seconds(3);
        assert_eq!(plan(&scenario).allowed_us(Part::Boot, Tick(30)), 5_000);
    }
}
