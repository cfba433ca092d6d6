//! How late things were in a whole validation, by part of the tick.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::item::Judged;
use crate::{
    record::{Lateness, Part},
    report::Screen,
};

/// How late the things of one part were in the first attempts of all drills on the scaled clock. Shares are of what was
/// allowed, in percent: above 100 the attempt says nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LateShare {
    /// Which part of the tick.
    pub part: Part,
    /// In how many drills something happened in it.
    pub drills: usize,
    /// In how many of them something was later than was allowed.
    pub beyond: usize,
    /// The share of the drill in the middle; of each the thing counts that came closest to its limit.
    pub median_percent: f64,
    /// The share of the worst drill.
    pub worst_percent: f64,
}

impl LateShare {
    /// Sums up the drills, by part.
    #[must_use]
    pub fn of(results: &[Judged]) -> Vec<LateShare> {
        let mut shares: BTreeMap<Part, Vec<f64>> = BTreeMap::new();
        for late in results.iter().flat_map(|judged| &judged.lateness) {
            shares.entry(late.part).or_default().push(percent(late));
        }
        let sum_up = |(part, mut shares): (Part, Vec<f64>)| {
            shares.sort_by(f64::total_cmp);
            LateShare {
                part,
                drills: shares.len(),
                beyond: shares.iter().filter(|&&share| share > 100.0).count(),
                median_percent: shares[shares.len() / 2],
                worst_percent: shares[shares.len() - 1],
            }
        };
        shares.into_iter().map(sum_up).collect()
    }
}

/// To one decimal, and never 100 where a limit was passed by less than that.
fn percent(late: &Lateness) -> f64 {
    let share = (late.closest_us as f64 / late.allowed_us.max(1) as f64 * 1000.0).round() / 10.0;
    if late.within_bounds() { share.min(100.0) } else { share.max(100.1) }
}

/// A table of them; empty where nothing was measured.
#[must_use]
pub fn table(screen: Screen, shares: &[LateShare]) -> String {
    if shares.is_empty() {
        return String::new();
    }
    let mut text =
        screen.wrap("lateness at first, as a share of what is allowed to each part of the tick:", "  ", "  ");
    text.push_str(&format!("    {:<12}{:>9}{:>9}  {}\n", "", "median", "worst", "beyond"));
    for LateShare { part, drills, beyond, median_percent, worst_percent } in shares {
        let name = part.name();
        text.push_str(&format!("    {name:<12}{median_percent:>7.0} %{worst_percent:>7.0} %  {beyond} of {drills}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_passed_by_little_is_passed() {
        let late = |closest_us| Lateness {
            part: Part::Kill,
            count: 1,
            median_us: closest_us,
            worst_us: closest_us,
            allowed_us: 10_000,
            closest_us,
        };
        assert_eq!([0, 5_000, 9_999].map(|us| percent(&late(us))), [0.0, 50.0, 100.0]);
        assert_eq!([10_000, 10_001, 25_000].map(|us| percent(&late(us))), [100.1, 100.1, 250.0]);
    }
}
