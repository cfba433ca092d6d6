//! The command line: what can be asked for, and how it is explained.

mod measure;
mod processes;
mod validate;

use std::{ffi::OsString, ops::RangeInclusive, path::PathBuf};

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use scenarios::{Fault, ShellBehaviour};
use serde::{Deserialize, Serialize};

pub use self::{
    measure::{BenchArgs, Clocks, SelftestArgs},
    processes::{EntrypointsArgs, InspectArgs},
    validate::{MergeArgs, Shard, ValidateArgs},
};
use crate::{
    check, drill::Clock, report::file::ReportFile, sweep, verdict::MAX_ATTEMPTS, watch::WatchArgs, web::ServeArgs,
};

const ABOUT: &str = "Drills how services end: real processes, real signals, compared with what should happen";

const EXAMPLES: &str = "\
Examples:
  termdrill run ignored-signal               a worker that does not hear SIGTERM
  termdrill run handler-grace-10 --speed 60  the same with a handler, in one second
  termdrill list                             every scenario there is
  termdrill show shell-form                  what one is about, and every field of it
  termdrill replay latest                    the last run once more

Exit status:
  0  what happened is what the model expected
  1  it is not
  2  bad usage or bad input
  3  nothing is proved either way: the machine was too slow, or something that is needed is missing";

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "termdrill", version, about = ABOUT, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How to show it.
    #[command(flatten)]
    pub display: Display,
}

/// Options that every command takes.
#[derive(Clone, Copy, Debug, Args, Serialize, Deserialize)]
pub struct Display {
    /// Show more: stages, every difference, lateness by attempt, what each field means.
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// Draw with ASCII characters only.
    #[arg(long, global = true)]
    pub ascii: bool,
    /// When to use colours; `auto` looks at the terminal, NO_COLOR and CLICOLOR_FORCE.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Colour,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Colour {
    /// As the terminal takes them.
    Auto,
    /// Also into files and pipes.
    Always,
    /// Not at all.
    Never,
}

impl From<Colour> for anstream::ColorChoice {
    fn from(colour: Colour) -> anstream::ColorChoice {
        match colour {
            Colour::Auto => anstream::ColorChoice::Auto,
            // On every system that this runs on, ANSI sequences are what colours are made of.
            Colour::Always => anstream::ColorChoice::AlwaysAnsi,
            Colour::Never => anstream::ColorChoice::Never,
        }
    }
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the scenarios of the catalogue.
    List {
        /// Print them as one JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Show what a scenario is about, every field of it and what the model expects.
    Show {
        /// Its name, as in `termdrill list`.
        name: String,
        /// Print the scenario as JSON, ready to be changed and run as a file.
        #[arg(long)]
        json: bool,
    },
    /// Say what should happen, without starting any process.
    Model(ModelArgs),
    /// Make it happen with real processes and compare.
    Run(RunArgs),
    /// Start a server of your own, stop it as a platform does, and say what became of every request.
    Check(Box<check::Args>),
    /// Show what a running process does about SIGTERM, and what SIGTERM to it would do. Nothing is sent.
    Inspect(InspectArgs),
    /// Drill many scenarios side by side and compare each with the model.
    Validate(ValidateArgs),
    /// Join the JSON results of the shards of a validation.
    Merge(MergeArgs),
    /// Say what should happen for many values of some fields, and find the shortest grace period that loses nothing.
    Sweep(sweep::Args),
    /// Serve a page on which drills are changed, watched and run for real.
    Serve(ServeArgs),
    /// Measure what a drill costs on this machine, how soon signals are reacted to, and how late things are.
    Bench(BenchArgs),
    /// List the stored runs, the newest first.
    Runs {
        /// Print them as one JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Print a stored run again; the exit status is that of its verdict.
    Replay {
        /// The run: `latest`, its name, the beginning of its name, or its directory.
        run: OsString,
        /// Print one JSON document, as `run --json` does.
        #[arg(long)]
        json: bool,
        /// Write a report to a file, by the end of its name: .html, .svg, .json or .xml for JUnit; can be given several times.
        #[arg(long = "report", value_name = "FILE", action = ArgAction::Append)]
        reports: Vec<ReportFile>,
    },
    /// Watch a drill, a stored run or what should happen on a screen of the terminal.
    Watch(WatchArgs),
    /// See what SIGTERM comes to on this machine, for every form of a command line.
    Entrypoints(EntrypointsArgs),
    /// Make every known mistake on purpose, and see that each is noticed.
    Selftest(SelftestArgs),
    /// Print completions for a shell.
    #[command(
        after_help = "Example:\n  termdrill completions bash > ~/.local/share/bash-completion/completions/termdrill"
    )]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Be a worker; what it is to do stands in its environment.
    #[command(hide = true)]
    Worker,
    /// Become a command as PID 1 of a PID namespace, with a /proc of its own; standard input is a socket that says which.
    #[command(hide = true, name = "as-pid1")]
    AsPid1,
    /// Run a drill for an outer process, which says on standard input what to do.
    #[command(hide = true)]
    Drill,
    /// Run the matrix for an outer process, which says on standard input what to play.
    #[command(hide = true)]
    Matrix,
    /// Play one cell of the matrix, which standard input tells of.
    #[command(hide = true)]
    Cell,
    /// Run drills for an outer process, as it gives them out.
    #[command(hide = true)]
    Lane,
    /// Play a drill of the self-test for an outer process, which says on standard input what to do.
    #[command(hide = true)]
    SelftestDrill,
    /// Check a server for an outer process, which says on standard input how.
    #[command(hide = true)]
    CheckDrill,
    /// Sweep for an outer process, and drill what is found.
    #[command(hide = true)]
    SweepAndDrill,
    /// Print the pid of this process, for a look at what became of a shell.
    #[command(hide = true)]
    PrintPid,
    /// Look at what the shell of this machine does about SIGTERM, and print it.
    #[command(hide = true)]
    LookAtShell,
    /// Do nothing for a while, for a look at what a shell does about SIGTERM meanwhile.
    #[command(hide = true)]
    StandStill {
        /// The pid of the process that looks; without it there is nobody to stand still for.
        looker: i32,
    },
}

/// Which scenario, and what to change in it.
#[derive(Clone, Debug, Args)]
pub struct Input {
    /// A name as in `termdrill list`, a JSON file, or `-` for standard input.
    #[arg(value_name = "NAME|FILE|-")]
    pub scenario: OsString,
    /// Change a field, such as `grace_period_s=19`; can be given several times.
    #[arg(long = "set", value_name = "FIELD=VALUE", action = ArgAction::Append)]
    pub settings: Vec<String>,
}

/// The arguments of `model`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  termdrill model ignored-signal --set grace_period_s=19
  termdrill model shell-form --shell becomes-worker
  termdrill model my-drill.json --json | jq .outcome")]
pub struct ModelArgs {
    /// Which scenario.
    #[command(flatten)]
    pub input: Input,
    /// Print `scenario`, `events` and `outcome` as one JSON document.
    #[arg(long)]
    pub json: bool,
    /// What `/bin/sh -c WORKER` does, of a shell that is as usual; without it, this machine's is looked at.
    #[arg(long, value_name = "BEHAVIOUR")]
    pub shell: Option<ShellChoice>,
}

/// What a shell does with a command line that is one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShellChoice {
    /// It stays and waits for the worker.
    Stays,
    /// It becomes the worker.
    BecomesWorker,
}

impl From<ShellChoice> for ShellBehaviour {
    fn from(choice: ShellChoice) -> ShellBehaviour {
        match choice {
            ShellChoice::Stays => ShellBehaviour::Stays,
            ShellChoice::BecomesWorker => ShellBehaviour::BecomesWorker,
        }
    }
}

/// What makes the model time of a drill pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockChoice {
    /// The real clock, so many times as fast as --speed says.
    Scaled,
    /// The processes: time goes on when each is done with the tick, so ties are exact on any machine.
    Stepped,
}

impl ClockChoice {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ClockChoice::Scaled => "scaled",
            ClockChoice::Stepped => "stepped",
        }
    }

    /// The clock, at a speed where it has one.
    #[must_use]
    pub fn at(self, speed: f64) -> Clock {
        match self {
            ClockChoice::Scaled => Clock::Scaled { speed },
            ClockChoice::Stepped => Clock::Stepped,
        }
    }
}

/// The arguments of `run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  termdrill run ignored-signal
  termdrill run handler-grace-10 --set grace_period_s=19 --speed 60
  termdrill run my-drill.json --json > run.json

Where the machine is too slow, or something differs, the drill is repeated at half the speed or less.

Exit status: 0 matched, 1 diverged, 2 bad usage or input, 3 inconclusive")]
pub struct RunArgs {
    /// Which scenario.
    #[command(flatten)]
    pub input: Input,
    /// Model seconds in one real second, 0.1 to 200. A drill is 60 model seconds long.
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = speed, allow_negative_numbers = true)]
    pub speed: f64,
    /// What makes model time pass: the real clock, or the processes themselves when they are done with a tick.
    #[arg(long, value_name = "CLOCK", default_value = "scaled")]
    pub clock: ClockChoice,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
    /// Print the verdict only.
    #[arg(short, long, conflicts_with = "json")]
    pub quiet: bool,
    /// Store the run in exactly this directory, which must be new or empty.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write a report to a file, by the end of its name: .html, .svg, .json or .xml for JUnit; can be given several times.
    #[arg(long = "report", value_name = "FILE", action = ArgAction::Append)]
    pub reports: Vec<ReportFile>,
    /// How many attempts to make at most, 1 to 5.
    #[arg(long, value_name = "N", default_value_t = MAX_ATTEMPTS as u8, value_parser = clap::value_parser!(u8).range(1..=MAX_ATTEMPTS as i64))]
    pub attempts: u8,
    /// Add the kernel's own record of each SIGTERM and SIGKILL to the evidence (needs root).
    #[arg(long)]
    pub kernel_trace: bool,
    /// Drill a worker of your own, in whatever language: its command, in one argument (docs/worker-contract.md).
    #[arg(long, value_name = "COMMAND")]
    pub worker: Option<String>,
    /// Let something go wrong on purpose, to see that it is noticed.
    // The hidden one names the other: completions are made without what is hidden.
    #[arg(long, value_name = "NAME", hide = true, conflicts_with = "worker")]
    pub fault: Option<Fault>,
}

/// Speeds at which a drill can be asked for: model seconds in one real second.
pub const SPEEDS: RangeInclusive<f64> = 0.1..=200.0;

/// Reads a speed: model seconds in one real second, in [`SPEEDS`].
///
/// # Errors
/// It is no number, or out of range; in words for clap.
pub fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if SPEEDS.contains(&speed) => Ok(speed),
        _ => Err("a speed is a number from 0.1 to 200".to_owned()),
    }
}

#[cfg(test)]
mod tests;
