//! The command line of `sweep`.

use std::path::PathBuf;

use clap::ArgAction;

use crate::cli::{Input, ShellChoice};

/// The arguments of `sweep`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  termdrill sweep handler-grace-10 --vary grace_period_s=0..20
  termdrill sweep handler-grace-10 --vary grace_period_s=0..20 --vary invocation_s=5..30/5 --svg map.svg
  termdrill sweep ignored-signal --vary on_sigterm=drain,default,ignore --vary entrypoint=exec,script,script_trap
  termdrill sweep handler-grace-10 --find

Exit status, with --find: 0 confirmed, 1 diverged, 2 bad usage or input, 3 inconclusive")]
pub struct Args {
    /// Which scenario.
    #[command(flatten)]
    pub input: Input,
    /// Vary a field: values with commas between them, or a range A..B or A..B/STEP (both ends included, in steps of 1
    /// if not said otherwise). Given several times, every combination is played; a table shows one or two.
    #[arg(long, value_name = "FIELD=VALUES", action = ArgAction::Append, required_unless_present = "find")]
    pub vary: Vec<String>,
    /// Find the shortest grace period with which nothing is killed and nothing still runs at the end, and the request
    /// that decides it. Real processes then confirm it, and that a tenth of a second less is too short.
    #[arg(long)]
    pub find: bool,
    /// With --find, do not drill what is found.
    #[arg(long, requires = "find")]
    pub no_confirm: bool,
    /// Print one JSON document: `scenario`, `axes`, `points` (counts, by the values of the fields) and `find`.
    #[arg(long)]
    pub json: bool,
    /// Write a line of comma-separated values for every combination; `-` is standard output.
    #[arg(long, value_name = "FILE", requires = "vary")]
    pub csv: Option<PathBuf>,
    /// Draw two heat maps, of what is killed and what is rejected; `-` is standard output.
    #[arg(long, value_name = "FILE", requires = "vary")]
    pub svg: Option<PathBuf>,
    /// What `/bin/sh -c WORKER` does, of a shell that is as usual; without it, this machine's is looked at.
    #[arg(long, value_name = "BEHAVIOUR", conflicts_with = "find")]
    pub shell: Option<ShellChoice>,
    /// On how many threads to play the model, 1 to 64; as many as there are processors if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub jobs: Option<u8>,
}
