//! How late things were, measured against what was allowed to them.

use std::collections::BTreeMap;

use crate::record::{Lateness, Part};

/// Everything that was measured in one attempt.
#[derive(Clone, Debug, Default)]
pub struct LatenessLog {
    measured: BTreeMap<Part, Vec<Measured>>,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    late_us: u64,
    allowed_us: u64,
}

impl LatenessLog {
    /// Adds one measurement, in microseconds.
    pub fn add(&mut self, part: Part, late_us: u64, allowed_us: u64) {
        self.measured.entry(part).or_default().push(Measured { late_us, allowed_us });
    }

    /// A summary by part of the tick.
    #[must_use]
    pub fn summary(&self) -> Vec<Lateness> {
        self.measured.iter().filter_map(|(&part, measured)| summarise(part, measured)).collect()
    }
}

fn summarise(part: Part, measured: &[Measured]) -> Option<Lateness> {
    let mut late: Vec<u64> = measured.iter().map(|one| one.late_us).collect();
    late.sort_unstable();
    // The one with the least time left, or the most overdrawn.
    let closest = measured.iter().min_by_key(|one| i128::from(one.allowed_us) - i128::from(one.late_us))?;
    Some(Lateness {
        part,
        count: u32::try_from(measured.len()).unwrap_or(u32::MAX),
        median_us: late[late.len() / 2],
        worst_us: *late.last()?,
        allowed_us: closest.allowed_us,
        closest_us: closest.late_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_nearest_to_its_limit_decides() {
        let mut log = LatenessLog::default();
        log.add(Part::Completion, 900, 10_000);
        log.add(Part::Completion, 300, 200);
        log.add(Part::Completion, 100, 5_000);
        let summary = log.summary();
        let expected = Lateness {
            part: Part::Completion,
            count: 3,
            median_us: 300,
            worst_us: 900,
            allowed_us: 200,
            closest_us: 300,
        };
        assert_eq!(summary, [expected]);
        assert!(!summary[0].within_bounds());
        assert!(LatenessLog::default().summary().is_empty());
    }
}
