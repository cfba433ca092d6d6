//! The command line: what can be asked for, and how it is explained.

use std::{path::PathBuf, str::FromStr};

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, builder::PossibleValuesParser};
use clap_complete::Shell;
use scenarios::{Fault, OnSigterm, ShellBehaviour};
use serde::{Deserialize, Serialize};

use crate::{
    drill::Clock,
    matrix::{self, forms, programs::SHELLS},
    sweep,
    verdict::MAX_ATTEMPTS,
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
    /// Show what a running process does about SIGTERM, and what SIGTERM to it would do. Nothing is sent.
    Inspect(InspectArgs),
    /// Drill many scenarios side by side and compare each with the model.
    Validate(ValidateArgs),
    /// Join the JSON results of the shards of a validation.
    Merge(MergeArgs),
    /// Say what should happen for many values of some fields, and find the shortest grace period that loses nothing.
    Sweep(sweep::Args),
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
        run: String,
        /// Print one JSON document, as `run --json` does.
        #[arg(long)]
        json: bool,
    },
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
    Check,
    /// Sweep for an outer process, and drill what is found.
    #[command(hide = true)]
    SweepAndDrill,
    /// Print the pid of this process, for a look at what became of a shell.
    #[command(hide = true)]
    PrintPid,
}

/// Which scenario, and what to change in it.
#[derive(Clone, Debug, Args)]
pub struct Input {
    /// A name as in `termdrill list`, a JSON file, or `-` for standard input.
    #[arg(value_name = "NAME|FILE|-")]
    pub scenario: String,
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
    /// What `/bin/sh -c WORKER` does; without it, this machine's shell is looked at.
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
    /// How many attempts to make at most, 1 to 5.
    #[arg(long, value_name = "N", default_value_t = MAX_ATTEMPTS as u8, value_parser = clap::value_parser!(u8).range(1..=MAX_ATTEMPTS as i64))]
    pub attempts: u8,
    /// Add the kernel's own record of each SIGTERM and SIGKILL to the evidence (needs root).
    #[arg(long)]
    pub kernel_trace: bool,
    /// Let something go wrong on purpose, to see that it is noticed.
    #[arg(long, value_name = "NAME", hide = true)]
    pub fault: Option<Fault>,
}

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
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..), allow_negative_numbers = true)]
    pub pid: i32,
    /// Print `processes` and `prediction` as one JSON document.
    #[arg(long)]
    pub json: bool,
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
    /// How many cells to run side by side, 1 to 500.
    #[arg(long, value_name = "N", default_value_t = matrix::JOBS, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub jobs: u16,
}

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
    pub scenarios: Vec<String>,
    /// Generate so many scenarios over the whole language.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub random: u64,
    /// What generated scenarios are generated from.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// The whole catalogue too, beside generated scenarios.
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
    /// Only the K-th of N equal shares of the plan, to spread it over machines.
    #[arg(long, value_name = "K/N", default_value = "1/1")]
    pub shard: Shard,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
    /// Write the results to a file in the JUnit format.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Store the results in exactly this directory, which must be new or empty.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on with the validation in this directory, as it was planned.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["scenarios", "random", "seed", "catalogue", "repeat", "clock", "shard", "out"])]
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
            shard: Shard([1, 1]),
            json: false,
            junit: None,
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
    /// How long each measurement takes, 1 to 600.
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

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (0.1..=200.0).contains(&speed) => Ok(speed),
        _ => Err("a speed is a number from 0.1 to 200".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definitions_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_run_as_it_is_usually_asked_for() {
        let cli = parse("termdrill run x --set a=1 --set b=2 -v").unwrap();
        let Command::Run(run) = cli.command else { panic!("not a run") };
        assert!(cli.display.verbose);
        assert_eq!((run.input.scenario.as_str(), run.input.settings.len()), ("x", 2));
        assert_eq!((run.speed, run.attempts, run.fault), (10.0, 5, None));
        let cli = parse("termdrill run - --fault wrong_sum --speed 0.1 --attempts 1").unwrap();
        let Command::Run(run) = cli.command else { panic!("not a run") };
        assert_eq!((run.speed, run.attempts, run.fault), (0.1, 1, Some(Fault::WrongSum)));
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_what_is_allowed() {
        for (line, allowed) in [
            ("termdrill run x --speed 0", "a number from 0.1 to 200"),
            ("termdrill run x --speed 201", "a number from 0.1 to 200"),
            ("termdrill run x --speed nan", "a number from 0.1 to 200"),
            ("termdrill run x --attempts 0", "1..=5"),
            ("termdrill run x --fault none", "wrong_sum"),
            ("termdrill run x --quiet --json", "--json"),
            ("termdrill model x --shell fish", "becomes-worker"),
            ("termdrill list --color blue", "never"),
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(error.to_string().contains(allowed), "{line}: {error}");
        }
    }

    #[test]
    fn help_texts() {
        for name in [
            "",
            "run",
            "inspect",
            "entrypoints",
            "model",
            "sweep",
            "list",
            "show",
            "runs",
            "replay",
            "selftest",
            "completions",
            "validate",
            "merge",
            "bench",
        ] {
            let mut command = Cli::command();
            command.build();
            let command = match name {
                "" => &mut command,
                name => command.find_subcommand_mut(name).unwrap(),
            };
            let (snapshot, help) = (format!("help-{name}"), command.clone().term_width(100).render_long_help());
            insta::assert_snapshot!(snapshot, help.to_string());
        }
    }
}
