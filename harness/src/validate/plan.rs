//! What is to be drilled: names, files, generated scenarios; on which clock; which shard of it.

use std::io;

use scenarios::{Scenario, catalogue, random};
use serde::{Deserialize, Serialize};

use super::item::Item;
use crate::{
    cli::{ClockChoice, ValidateArgs},
    failure::Failure,
    foreign, input,
};

/// Of this many drills on the stepped clock one is repeated on the scaled one, if no clock was asked for.
const SAMPLE: usize = 10;

/// The plan of a validation, or of one shard of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What random scenarios are generated from, if there are any.
    pub seed: Option<u64>,
    /// How many drills the whole plan has.
    pub planned: usize,
    /// Which part of it this is: `[K, N]`.
    pub shard: [usize; 2],
    /// The drills of this part.
    pub items: Vec<Item>,
    /// The foreign worker that is drilled, if it is not our own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<foreign::Command>,
}

impl Plan {
    /// Plans what was asked for.
    ///
    /// # Errors
    /// A name or file is no scenario.
    pub fn make(args: &ValidateArgs) -> Result<Plan, Failure> {
        let mut scenarios: Vec<Scenario> = Vec::new();
        for name in &args.scenarios {
            scenarios.push(input::load(name, &[], io::stdin().lock())?);
        }
        if args.catalogue || scenarios.is_empty() && args.random == 0 {
            scenarios.extend(catalogue::all().iter().cloned());
        }
        scenarios.extend((1..=args.random).map(|number| random::scenario(args.seed, number)));
        let repeated = scenarios.iter().flat_map(|scenario| (0..args.repeat).map(|_| scenario.clone())).collect();
        let worker = args.worker.as_deref().map(|line| foreign::Command::read(line, args.clock)).transpose()?;
        // A foreign worker follows the real clock only.
        let clock = args.clock.or(worker.is_some().then_some(ClockChoice::Scaled));
        let clocked = on_clocks(repeated, clock);
        let [part, parts] = args.shard.0;
        let planned = clocked.len();
        let items = clocked.into_iter().enumerate().filter(|(number, _)| number % parts == part - 1);
        let items = items.map(|(number, (scenario, clock))| Item { number, scenario, clock }).collect();
        Ok(Plan { seed: (args.random > 0).then_some(args.seed), planned, shard: args.shard.0, items, worker })
    }
}

fn on_clocks(scenarios: Vec<Scenario>, clock: Option<ClockChoice>) -> Vec<(Scenario, ClockChoice)> {
    match clock {
        Some(clock) => scenarios.into_iter().map(|scenario| (scenario, clock)).collect(),
        None => {
            let sample: Vec<Scenario> = scenarios.iter().step_by(SAMPLE).cloned().collect();
            let stepped = scenarios.into_iter().map(|scenario| (scenario, ClockChoice::Stepped));
            stepped.chain(sample.into_iter().map(|scenario| (scenario, ClockChoice::Scaled))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Shard;

    fn args(random: u64, clock: Option<ClockChoice>, shard: [usize; 2]) -> ValidateArgs {
        ValidateArgs { random, clock, shard: Shard(shard), ..ValidateArgs::default() }
    }

    #[test]
    fn shards_share_the_plan_out() {
        let whole = Plan::make(&args(25, Some(ClockChoice::Stepped), [1, 1])).unwrap();
        assert_eq!((whole.items.len(), whole.seed), (25, Some(1)));
        let mut parts: Vec<Item> = Vec::new();
        for part in 1..=4 {
            let shard = Plan::make(&args(25, Some(ClockChoice::Stepped), [part, 4])).unwrap();
            assert_eq!(shard.planned, 25);
            assert!((6..=7).contains(&shard.items.len()));
            parts.extend(shard.items);
        }
        parts.sort_by_key(|item| item.number);
        assert_eq!(parts, whole.items);
    }

    #[test]
    fn a_repetition_is_a_drill_of_its_own() {
        let args = ValidateArgs { repeat: 3, ..args(2, Some(ClockChoice::Stepped), [1, 1]) };
        let names: Vec<String> = Plan::make(&args).unwrap().items.into_iter().map(|item| item.scenario.name).collect();
        assert_eq!(names, ["random-1-1", "random-1-1", "random-1-1", "random-1-2", "random-1-2", "random-1-2"]);
    }

    #[test]
    fn without_a_clock_a_sample_is_scaled_too() {
        let plan = Plan::make(&args(0, None, [1, 1])).unwrap();
        let scaled = plan.items.iter().filter(|item| item.clock == ClockChoice::Scaled).count();
        assert_eq!(plan.items.len(), catalogue::all().len() + scaled);
        assert_eq!(scaled, catalogue::all().len().div_ceil(SAMPLE));
        assert_eq!(plan.seed, None);
    }
}
