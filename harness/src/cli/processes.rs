//! What is asked of `inspect` and `entrypoints`.

use clap::{Args, builder::PossibleValuesParser};
use scenarios::OnSigterm;

use crate::matrix::{self, forms, programs::SHELLS};

/// The arguments of `inspect`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  termdrill inspect 4711
  termdrill inspect $(docker inspect -f '{{.State.Pid}}' my-container)
  termdrill inspect $(pidof -s nginx) --json

What /proc shows is evidence and not proof: the prediction says what speaks against it.")]
pub struct InspectArgs {
    /// The process, as numbered here; of a container, its first process's number on the host.
    #[arg(value_name = "PID", value_parser = process_number, allow_negative_numbers = true)]
    pub pid: i32,
    /// Print `processes` and `prediction` as one JSON document.
    #[arg(long)]
    pub json: bool,
}

fn process_number(text: &str) -> Result<i32, String> {
    text.parse().ok().filter(|&pid| pid > 0).ok_or_else(|| {
        "the number of a process, from 1 on: `pidof NAME` or `ps -e` tells it, and $$ is that of the shell at hand"
            .to_owned()
    })
}

/// The arguments of `entrypoints`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  termdrill entrypoints
  termdrill entrypoints --shell dash --shell bash --pid1 true
  termdrill entrypoints --form init --form init-shell -v
  termdrill entrypoints --json | jq '.cells[] | select(.grade == \"wrong\")'

Each cell starts a real worker behind the command line, gives it work, sends one SIGTERM to the
first process, and SIGKILL when the grace period ends. Only what is installed is run.

With --kernel-trace a cell also fails if the kernel's record lacks a signal that was seen, or contradicts
the masks of /proc in a way that nothing explains.

Exit status: 0 every prediction was right, 1 one was wrong, 2 bad usage, 3 a cell is inconclusive")]
pub struct EntrypointsArgs {
    /// Only this form; can be given several times.
    #[arg(long, value_name = "FORM", value_parser = PossibleValuesParser::new(forms::names()))]
    pub form: Vec<String>,
    /// Only this shell; can be given several times.
    #[arg(long, value_name = "SHELL", value_parser = PossibleValuesParser::new(SHELLS.map(|(name, _)| name)))]
    pub shell: Vec<String>,
    /// Only workers with this posture on SIGTERM; can be given several times.
    #[arg(long, value_name = "POSTURE", value_parser = PossibleValuesParser::new(OnSigterm::ALL.map(OnSigterm::name)))]
    pub posture: Vec<String>,
    /// Only as PID 1 of a PID namespace, or only not.
    #[arg(long, value_name = "true|false")]
    pub pid1: Option<bool>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
    /// Hold the kernel's own record of each SIGTERM and SIGKILL against what was seen (needs root).
    #[arg(long)]
    pub kernel_trace: bool,
    /// How many cells to run side by side, 1 to 500.
    #[arg(long, value_name = "N", default_value_t = matrix::JOBS, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub jobs: u16,
}
