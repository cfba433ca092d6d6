//! `termdrill sweep`: the model over a grid of scenarios, and the shortest grace period with which one loses nothing.
//!
//! Sweeping starts no process. What `--find` finds is held against real ones in an inner process, as every drill is.

mod args;
pub mod axis;
pub mod confirm;
mod csv;
pub mod find;
pub mod grid;
mod json;
mod sink;
mod svg;
mod table;
mod words;

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::ExitCode,
};

use scenarios::{Entrypoint, Gate, Scenario, ShellBehaviour};
use serde::{Deserialize, Serialize};

pub use self::args::Args;
use self::{
    confirm::Confirmed,
    csv::Csv,
    find::Answer,
    grid::{Cell, Grid},
    json::Json,
    sink::{STDOUT, Sink},
};
use crate::{
    cli::{ClockChoice, Display},
    drill::StopPipe,
    failure::{self, Failure},
    host, input,
    isolation::{self, Isolation},
    report::Screen,
    runtime,
    shell::{self, Shell},
};

/// The hidden command of this program that sweeps and then drills.
pub const INNER: &str = "sweep-and-drill";

/// What is to be done.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Job {
    scenario: serde_json::Value,
    shell: Shell,
    vary: Vec<String>,
    find: bool,
    json: bool,
    #[serde(with = "crate::os_path::exact_option")]
    csv: Option<PathBuf>,
    #[serde(with = "crate::os_path::exact_option")]
    svg: Option<PathBuf>,
    jobs: usize,
    display: Display,
}

/// Sweeps, and has what is found confirmed.
///
/// # Errors
/// Bad input, output that can't be written, a machine that can't run any drill.
pub fn outer(display: Display, args: &Args) -> anyhow::Result<ExitCode> {
    let scenario = input::load(&args.input.scenario, &args.input.settings, std::io::stdin().lock())?;
    check_outputs(args)?;
    // Read once for what is wrong with it, and once more when it is known what the shell does.
    let grid = Grid::new(&scenario, &args.vary, Shell::usual(ShellBehaviour::Stays))?;
    let job = Job {
        scenario: serde_json::to_value(&scenario)?,
        shell: shell_of(&scenario, &grid, args)?,
        vary: args.vary.clone(),
        find: args.find,
        json: args.json,
        csv: args.csv.clone(),
        svg: args.svg.clone(),
        jobs: args.jobs.map_or_else(default_jobs, usize::from),
        display,
    };
    if args.find && !args.no_confirm {
        return isolation::run_inside(&[INNER], &job);
    }
    let (sweep, json) = Sweep::play(&job)?;
    let answer = sweep.find()?;
    if let Some(json) = json {
        json.end(answer.as_ref().map(|answer| (answer, &[][..])))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Does the job that the outer process gave, and drills what was found.
///
/// # Errors
/// Output that can't be written, a machine that can't run any drill.
pub fn inner() -> anyhow::Result<ExitCode> {
    isolation::inside(|job: Job, isolation, control| {
        let (sweep, json) = Sweep::play(&job)?;
        let answer = sweep.find()?;
        let confirmed = match &answer {
            Some(answer) => sweep.confirm(answer, &isolation, control)?,
            None => Vec::new(),
        };
        if let Some(json) = json {
            json.end(answer.as_ref().map(|answer| (answer, &confirmed[..])))?;
        }
        Ok(ExitCode::from(confirm::worst(&confirmed).exit_code()))
    })
}

/// What can't be had together.
fn check_outputs(args: &Args) -> Result<(), Failure> {
    let is_stdout = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new(STDOUT));
    let on_stdout = [args.json, is_stdout(&args.csv), is_stdout(&args.svg)];
    if on_stdout.iter().filter(|&&one| one).count() > 1 {
        return Err(Failure::bad_input("only one of --json, --csv - and --svg - can have standard output"));
    }
    if args.find && !args.json && on_stdout.contains(&true) {
        return Err(Failure::bad_input("what --find finds is printed: give --csv and --svg a file"));
    }
    if args.svg.is_some() && !(1..=2).contains(&args.vary.len()) {
        return Err(Failure::bad_input(format!(
            "a picture shows one or two fields, and {} are varied",
            args.vary.len()
        ))
        .hint("--csv and --json take any number of --vary"));
    }
    if args.vary.len() > 2 && !args.json && args.csv.is_none() {
        return Err(Failure::bad_input(format!("a table shows one or two fields, and {} are varied", args.vary.len()))
            .hint("give --csv FILE or --json"));
    }
    Ok(())
}

/// What the shell does, where any point or what is to be found hangs on it.
fn shell_of(scenario: &Scenario, grid: &Grid, args: &Args) -> anyhow::Result<Shell> {
    let asked: Vec<Scenario> = grid.kinds().filter_map(Result::ok).chain(args.find.then(|| scenario.clone())).collect();
    for scenario in &asked {
        if let (Entrypoint::Custom(command), None) = (&scenario.entrypoint, scenario.expected_effect) {
            return Err(host::unknown_effect(command).into());
        }
    }
    let Some(choice) = args.shell else {
        let shell = host::shell_for(&asked)?;
        if shell.on_sigterm != shell::USUAL {
            let name = shell::name();
            failure::warn(&format!(
                "/bin/sh, which is {name} here, is unlike other shells in what it does about SIGTERM"
            ));
        }
        return Ok(shell);
    };
    Ok(Shell::usual(choice.into()))
}

fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn gate_name(gate: Gate) -> &'static str {
    match gate {
        Gate::Pass => "pass",
        Gate::Fail => "fail",
    }
}

/// A sweep that was played: what is left is to find and to confirm.
struct Sweep<'a> {
    job: &'a Job,
    scenario: Scenario,
    screen: Screen,
}

impl<'a> Sweep<'a> {
    /// Plays the grid, if there is one, and writes it wherever it is wanted. The JSON document stays open.
    fn play(job: &'a Job) -> anyhow::Result<(Sweep<'a>, Option<Json>)> {
        let scenario = Scenario::from_value(job.scenario.clone())?;
        let grid = Grid::new(&scenario, &job.vary, job.shell)?;
        let sweep = Sweep { job, scenario, screen: job.display.screen() };
        let mut json = job.json.then(|| Json::begin(Sink::stdout(), &grid)).transpose()?;
        if !job.vary.is_empty() {
            sweep.play_grid(&grid, json.as_mut())?;
        }
        Ok((sweep, json))
    }

    fn play_grid(&self, grid: &Grid, mut json: Option<&mut Json>) -> anyhow::Result<()> {
        let Job { csv, svg, .. } = self.job;
        let mut svg = svg.as_deref().map(Sink::open).transpose()?;
        let mut csv = csv.as_deref().map(Sink::open).transpose()?.map(|sink| Csv::begin(sink, grid)).transpose()?;
        let is_stdout = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new(STDOUT));
        let prints = !(self.job.json || is_stdout(&self.job.csv) || is_stdout(&self.job.svg));
        let has_sides = grid.axes().len() <= 2;
        // Rows are passed on and forgotten, except where all are seen side by side.
        let mut cells: Vec<Cell> = Vec::new();
        let keep = has_sides && (svg.is_some() || prints && grid.len() <= table::MOST_CELLS);
        let mut counts = table::Counts::default();
        grid.play(self.job.jobs, |index, cell| {
            counts.add(&cell);
            let places = grid.place(index);
            if let Some(csv) = &mut csv {
                csv.row(grid.axes(), &places, cell)?;
            }
            if let Some(json) = &mut json {
                json.row(grid, &places, cell)?;
            }
            if keep {
                cells.push(cell);
            }
            Ok(())
        })?;
        if let Some(csv) = csv {
            csv.end()?;
        }
        if let Some(svg) = &mut svg {
            svg.write(svg::picture(&self.scenario, grid.axes(), &cells).as_bytes())?;
            svg.flush()?;
        }
        if prints {
            let fits = has_sides && grid.len() <= table::MOST_CELLS;
            let mut text = if fits { table::text(self.screen, grid.axes(), &cells) } else { String::new() };
            text.push_str(&table::summary(self.screen, &counts));
            if !fits {
                text.push_str(&self.elsewhere());
            }
            self.job.display.output().print(&text)?;
        }
        Ok(())
    }

    /// Where what has no room in a table can be seen.
    fn elsewhere(&self) -> String {
        let written: Vec<String> =
            [&self.job.csv, &self.job.svg].into_iter().flatten().map(|path| path.display().to_string()).collect();
        let text = match written.is_empty() {
            true => "too many for a table: --csv FILE writes all of them, --svg FILE draws them".to_owned(),
            false => format!("all of them are in {}", written.join(" and ")),
        };
        self.screen.labelled("", crate::report::screen::STRONG, &text)
    }

    /// Finds and tells, where that was asked for.
    fn find(&self) -> anyhow::Result<Option<Answer>> {
        if !self.job.find {
            return Ok(None);
        }
        let answer = find::find(&self.scenario, &self.job.shell.host(&self.scenario));
        if !self.job.json {
            self.job.display.output().print(&words::answer(self.screen, &self.scenario, &answer))?;
        }
        Ok(Some(answer))
    }

    /// Drills every claim of the answer.
    fn confirm(&self, answer: &Answer, isolation: &Isolation, control: OwnedFd) -> anyhow::Result<Vec<Confirmed>> {
        runtime::keep_time(ClockChoice::Stepped);
        runtime::block_on(async {
            let stop = StopPipe::new(control)?;
            let mut all = Vec::new();
            for claim in answer.claims() {
                let one = confirm::confirm(&self.scenario, &claim, self.job.shell.behaviour, isolation, &stop).await?;
                if !self.job.json {
                    self.job.display.output().print(&words::confirmed(self.screen, &one))?;
                }
                all.push(one);
            }
            Ok(all)
        })?
    }
}

#[cfg(test)]
mod tests;
