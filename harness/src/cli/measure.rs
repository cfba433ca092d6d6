//! What is asked of `bench` and `selftest`.

use clap::{Args, ValueEnum};

use super::ClockChoice;

/// The arguments of `bench`.
#[derive(Clone, Copy, Debug, Args)]
#[command(after_help = "\
Examples:
  termdrill bench
  termdrill bench --seconds 30 --json > bench.json

What is drilled: the opening drill and generated scenarios, on both clocks; one drill at a time for
the latencies; the opening drill at several speeds for the lateness. It takes about ten times as
long as a measurement.")]
pub struct BenchArgs {
    /// How long each measurement takes, in seconds, 1 to 600.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=600))]
    pub seconds: u16,
    /// Print one JSON document instead of text: `throughput`, `latencies`, `lateness`.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `selftest`.
#[derive(Clone, Copy, Debug, Args)]
#[command(after_help = "\
Examples:
  termdrill selftest
  termdrill selftest --clock stepped --json | jq .caught

Every fault is seeded into a short drill with real processes. That drill has to diverge, with the event first that
is wrong first, and without the fault it has to match.

Exit status: 0 every fault was caught, 1 one slipped through, 2 bad usage, 3 inconclusive")]
pub struct SelftestArgs {
    /// What makes model time pass; a fault that can't show on one of the clocks is listed with the reason.
    #[arg(long, value_name = "CLOCK", default_value = "both")]
    pub clock: Clocks,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
    /// How many drills to play at once; without it, four for each processor.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub jobs: Option<u8>,
}

/// One clock or the other, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Clocks {
    /// One after the other.
    Both,
    /// The real clock, ten times as fast.
    Scaled,
    /// The processes themselves.
    Stepped,
}

impl Clocks {
    /// The clocks that it stands for.
    #[must_use]
    pub fn clocks(self) -> &'static [ClockChoice] {
        match self {
            Clocks::Both => &[ClockChoice::Scaled, ClockChoice::Stepped],
            Clocks::Scaled => &[ClockChoice::Scaled],
            Clocks::Stepped => &[ClockChoice::Stepped],
        }
    }
}
