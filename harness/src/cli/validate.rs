//! What is asked of `validate` and `merge`.

use std::{ffi::OsString, path::PathBuf, str::FromStr};

use clap::{ArgAction, Args};

use super::{ClockChoice, speed};
use crate::{report::file::ReportFile, verdict::MAX_ATTEMPTS};

/// The arguments of `validate`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  termdrill validate                                    the whole catalogue
  termdrill validate --random 1000 --seed 7 --clock stepped
  termdrill validate --random 1000 --shard 2/4 --json > 2.json
  termdrill validate --resume DIR                       go on with one that was stopped

Without --clock everything is drilled on the stepped clock, and one in ten on the scaled clock as well.
A scenario that diverges is shrunk to a smaller one that does, which is stored as a file that `run` takes.

Exit status: 0 all matched, 1 one diverged, 2 bad usage or input, 3 one is inconclusive")]
pub struct ValidateArgs {
    /// Names as in `termdrill list`, or JSON files; the whole catalogue if none is given and none are generated.
    #[arg(value_name = "NAME|FILE")]
    pub scenarios: Vec<OsString>,
    /// Generate so many scenarios over the whole language.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub random: u64,
    /// What generated scenarios are generated from.
    #[arg(long, value_name = "S", default_value_t = 1, requires = "random")]
    pub seed: u64,
    /// The whole catalogue too, beside those that are named or generated.
    #[arg(long)]
    pub catalogue: bool,
    /// Drill each scenario so many times, 1 to 100000.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub repeat: u32,
    /// What makes model time pass.
    #[arg(long, value_name = "CLOCK")]
    pub clock: Option<ClockChoice>,
    /// The highest speed on a scaled clock, 0.1 to 200; it is lowered to what this machine bears.
    #[arg(long, value_name = "N", default_value_t = 30.0, value_parser = speed, allow_negative_numbers = true)]
    pub speed: f64,
    /// How many attempts to make at a drill at most, 1 to 5.
    #[arg(long, value_name = "N", default_value_t = MAX_ATTEMPTS as u8, value_parser = clap::value_parser!(u8).range(1..=MAX_ATTEMPTS as i64))]
    pub attempts: u8,
    /// How many drills to run side by side; as many as this machine has work for, if not given.
    #[arg(long, value_name = "N", value_parser = jobs)]
    pub jobs: Option<usize>,
    /// Drill a worker of your own on the scaled clock: its command, in one argument (docs/worker-contract.md).
    #[arg(long, value_name = "COMMAND")]
    pub worker: Option<String>,
    /// Only the K-th of N equal shares of the plan, to spread it over machines.
    #[arg(long, value_name = "K/N", default_value = "1/1")]
    pub shard: Shard,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
    /// Write the results to a file in the JUnit format.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write a report to a file, by the end of its name: .html, .json or .xml for JUnit; can be given several times.
    #[arg(long = "report", value_name = "FILE", action = ArgAction::Append)]
    pub reports: Vec<ReportFile>,
    /// Store the results in exactly this directory, which must be new or empty.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on with the validation in this directory, as it was planned.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["scenarios", "random", "seed", "catalogue", "repeat", "clock", "shard", "out", "worker"])]
    pub resume: Option<PathBuf>,
}

impl Default for ValidateArgs {
    fn default() -> ValidateArgs {
        ValidateArgs {
            scenarios: Vec::new(),
            random: 0,
            seed: 1,
            catalogue: false,
            repeat: 1,
            clock: None,
            speed: 30.0,
            attempts: MAX_ATTEMPTS as u8,
            jobs: None,
            worker: None,
            shard: Shard([1, 1]),
            json: false,
            junit: None,
            reports: Vec::new(),
            out: None,
            resume: None,
        }
    }
}

/// The K-th of N equal shares of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard(pub [usize; 2]);

impl FromStr for Shard {
    type Err = String;
    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/').and_then(|(k, n)| Some([k.parse().ok()?, n.parse().ok()?]));
        parts
            .filter(|&[k, n]| 1 <= k && k <= n)
            .map(Shard)
            .ok_or_else(|| "a shard is K/N with K from 1 to N, such as 2/4".to_owned())
    }
}

fn jobs(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|jobs| (1..=256).contains(jobs)).ok_or_else(|| "a number from 1 to 256".to_owned())
}

/// The arguments of `merge`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example:
  termdrill merge 1.json 2.json 3.json 4.json

Exit status: 0 all matched, 1 one diverged, 2 bad usage or input, 3 one is inconclusive or missing")]
pub struct MergeArgs {
    /// The JSON documents of the shards.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}
