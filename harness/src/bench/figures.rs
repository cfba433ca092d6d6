//! The figures of a benchmark, summed up from results. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Drilled;
use crate::{
    cli::ClockChoice,
    record::{Lateness, Part, Verdict},
    validate::item::{Cpu, Judged},
};

/// What the JSON document says it is.
pub(super) const FORMAT: &str = "termdrill-bench";
/// The version of the document.
pub(super) const VERSION: u32 = 1;

/// All that was measured.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    pub(super) format: &'static str,
    pub(super) version: u32,
    pub(super) program: &'static str,
    /// Processors that this process may use.
    pub(super) cores: usize,
    /// The load average over the last minute, at the end.
    pub(super) load: Option<f64>,
    /// How long each measurement took.
    pub(super) seconds: u16,
    pub(super) throughput: Vec<Throughput>,
    pub(super) latencies: Vec<Latency>,
    pub(super) lateness: Vec<AtSpeed>,
}

/// How many drills there are to a second, and what one costs.
#[derive(Debug, Serialize)]
pub(super) struct Throughput {
    pub(super) what: &'static str,
    pub(super) clock: ClockChoice,
    /// How many were made side by side.
    pub(super) lanes: usize,
    pub(super) drills: usize,
    pub(super) matched: usize,
    pub(super) diverged: usize,
    pub(super) inconclusive: usize,
    pub(super) per_second: f64,
    /// CPU time of one drill on average, in microseconds.
    pub(super) cpu_us: f64,
    /// Which part of it is whose.
    pub(super) cpu: Cpu,
    /// What of it the process that gives out the drills used.
    pub(super) outer_us: u64,
}

impl Throughput {
    pub(super) fn of(what: &'static str, clock: ClockChoice, lanes: usize, drilled: &Drilled) -> Throughput {
        let results = &drilled.results;
        let count = |verdict| results.iter().filter(|judged| judged.verdict == verdict).count();
        let drills = results.len();
        let each = |of: fn(Cpu) -> u64| {
            results.iter().filter_map(|judged| judged.cpu).map(of).sum::<u64>() / (drills as u64).max(1)
        };
        let cpu = Cpu {
            harness_user_us: each(|cpu| cpu.harness_user_us),
            harness_system_us: each(|cpu| cpu.harness_system_us),
            workers_user_us: each(|cpu| cpu.workers_user_us),
            workers_system_us: each(|cpu| cpu.workers_system_us),
        };
        let outer_us = drilled.outer_us / (drills as u64).max(1);
        let inner_us = cpu.harness_user_us + cpu.harness_system_us + cpu.workers_user_us + cpu.workers_system_us;
        Throughput {
            what,
            clock,
            lanes,
            drills,
            matched: count(Verdict::Matched),
            diverged: count(Verdict::Diverged),
            inconclusive: count(Verdict::Inconclusive),
            per_second: drilled.in_time as f64 / (drilled.in_time_ns as f64 / 1e9).max(1e-9),
            cpu_us: (inner_us + outer_us) as f64,
            cpu,
            outer_us,
        }
    }
}

/// How soon something happened, in real microseconds.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Latency {
    pub(super) what: &'static str,
    pub(super) samples: usize,
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
    pub(super) p99_9_us: u64,
    pub(super) worst_us: u64,
}

impl Latency {
    /// Those of all results that have them.
    pub(super) fn all(results: &[Judged]) -> Vec<Latency> {
        let handled = results.iter().filter_map(|judged| judged.reactions.sigterm_handled_us).collect();
        let reaped = results.iter().filter_map(|judged| judged.reactions.sigkill_reaped_us).collect();
        [("SIGTERM sent to readiness withdrawn", handled), ("SIGKILL sent to process reaped", reaped)]
            .into_iter()
            .filter_map(|(what, samples)| Latency::of(what, samples))
            .collect()
    }

    fn of(what: &'static str, mut samples: Vec<u64>) -> Option<Latency> {
        samples.sort_unstable();
        Some(Latency {
            what,
            samples: samples.len(),
            p50_us: quantile(&samples, 0.5)?,
            p99_us: quantile(&samples, 0.99)?,
            p99_9_us: quantile(&samples, 0.999)?,
            worst_us: *samples.last()?,
        })
    }
}

/// The nearest-rank quantile of sorted samples: the least one that is not exceeded by `share` of them.
fn quantile(sorted: &[u64], share: f64) -> Option<u64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// How late things were at one speed.
#[derive(Debug, Serialize)]
pub(super) struct AtSpeed {
    pub(super) speed: f64,
    pub(super) drills: usize,
    /// How many of them had everything in time.
    pub(super) in_time: usize,
    /// By part of the tick, in the order of a tick.
    pub(super) parts: Vec<PartAtSpeed>,
}

/// How late things of one part of the tick were, over all drills at one speed.
#[derive(Debug, Serialize)]
pub(super) struct PartAtSpeed {
    pub(super) part: Part,
    /// The median of the drills' medians.
    pub(super) median_us: u64,
    /// The worst of all.
    pub(super) worst_us: u64,
    /// The one that came closest to its limit, or exceeded it most, and that limit.
    pub(super) closest_us: u64,
    /// See `closest_us`.
    pub(super) allowed_us: u64,
}

impl AtSpeed {
    pub(super) fn of(speed: f64, results: &[Judged]) -> AtSpeed {
        let drilled = || results.iter().filter(|judged| judged.attempts > 0);
        let mut by_part: BTreeMap<Part, Vec<&Lateness>> = BTreeMap::new();
        for late in drilled().flat_map(|judged| &judged.lateness) {
            by_part.entry(late.part).or_default().push(late);
        }
        AtSpeed {
            speed,
            drills: drilled().count(),
            in_time: drilled().filter(|judged| judged.in_time_at_first).count(),
            parts: by_part.into_iter().filter_map(|(part, all)| PartAtSpeed::of(part, &all)).collect(),
        }
    }

    /// The part that used most of what it was allowed.
    pub(super) fn tightest(&self) -> Option<&PartAtSpeed> {
        self.parts.iter().max_by(|a, b| a.used().total_cmp(&b.used()))
    }
}

impl PartAtSpeed {
    fn of(part: Part, all: &[&Lateness]) -> Option<PartAtSpeed> {
        let mut medians: Vec<u64> = all.iter().map(|late| late.median_us).collect();
        medians.sort_unstable();
        let used = |late: &Lateness| late.closest_us as f64 / late.allowed_us.max(1) as f64;
        let closest = all.iter().max_by(|a, b| used(a).total_cmp(&used(b)))?;
        Some(PartAtSpeed {
            part,
            median_us: quantile(&medians, 0.5)?,
            worst_us: all.iter().map(|late| late.worst_us).max()?,
            closest_us: closest.closest_us,
            allowed_us: closest.allowed_us,
        })
    }

    /// The share of what was allowed, 1 at the limit.
    pub(super) fn used(&self) -> f64 {
        self.closest_us as f64 / self.allowed_us.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let thousand: Vec<u64> = (1..=1000).collect();
        for (share, expected) in [(0.5, 500), (0.99, 990), (0.999, 999), (1.0, 1000), (0.0, 1)] {
            assert_eq!(quantile(&thousand, share), Some(expected), "{share}");
        }
        assert_eq!(quantile(&[7], 0.999), Some(7));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(Latency::of("nothing", Vec::new()), None);
        let three = Latency::of("three", vec![30, 10, 20]).unwrap();
        assert_eq!((three.p50_us, three.p99_us, three.worst_us, three.samples), (20, 30, 30, 3));
    }

    #[test]
    fn the_part_that_is_nearest_to_its_limit_is_found() {
        let late = |part, worst_us, allowed_us| Lateness {
            part,
            count: 2,
            median_us: worst_us / 2,
            worst_us,
            allowed_us,
            closest_us: worst_us,
        };
        let (slow, tight) = (late(Part::Boot, 900, 9000), late(Part::Signal, 300, 400));
        let of = |all: &[&Lateness]| PartAtSpeed::of(all[0].part, all).unwrap();
        let later = late(Part::Signal, 100, 400);
        let at = AtSpeed { speed: 10.0, drills: 2, in_time: 2, parts: vec![of(&[&slow]), of(&[&later, &tight])] };
        let tightest = at.tightest().unwrap();
        assert_eq!((tightest.part, tightest.closest_us, tightest.worst_us), (Part::Signal, 300, 300));
        assert_eq!(tightest.median_us, 50);
    }
}
