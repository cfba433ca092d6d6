//! `termdrill run`: drills a scenario with real processes until it is decided.

use std::{
    fs::File,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
};

use anyhow::Context;
use scenarios::{Entrypoint, Expectation, Fault, Scenario, ShellBehaviour};
use serde::{Deserialize, Serialize};
use tokio::{runtime, task::LocalSet};
use worker::clock;

use crate::{
    cli::{ClockChoice, Colour, Display, RunArgs},
    commands,
    drill::{Extent, Setup, StopPipe},
    evidence::kernel,
    failure::Failure,
    host, input,
    isolation::{self, Isolation},
    judge::{self, Manner, Watch},
    record::{Attempt, Observed, Record},
    report::{self, Screen, decision::Decisions, write_stdout},
    runs::{ObservedWriter, RunDir},
    verdict::MAX_ATTEMPTS,
};

/// The hidden command of this program that runs a drill for its outer process.
pub const INNER: &str = "drill";

/// What the inner process has to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    scenario: serde_json::Value,
    shell: ShellBehaviour,
    clock: ClockChoice,
    speed: f64,
    attempts: usize,
    fault: Option<String>,
    out: Option<PathBuf>,
    kernel_trace: bool,
    show: Show,
    display: Display,
}

/// What is shown of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Show {
    Text,
    Json,
    Verdict,
    Nothing,
}

/// Loads the scenario, and has it drilled in an inner process.
///
/// # Errors
/// Bad input; a machine that can't run any drill.
pub fn outer(display: Display, args: &RunArgs) -> anyhow::Result<ExitCode> {
    let scenario = input::load(&args.input.scenario, &args.input.settings, std::io::stdin().lock())?;
    let shell = match scenario.entrypoint {
        Entrypoint::Shell => host::shell_behaviour()?,
        _ => ShellBehaviour::Stays,
    };
    let show = match (args.json, args.quiet) {
        (true, _) => Show::Json,
        (_, true) => Show::Verdict,
        _ => Show::Text,
    };
    let job = Job {
        scenario: serde_json::to_value(&scenario)?,
        shell,
        clock: args.clock,
        speed: args.speed,
        attempts: usize::from(args.attempts),
        fault: args.fault.map(|fault| fault.name().to_owned()),
        out: args.out.clone(),
        kernel_trace: args.kernel_trace,
        show,
        display,
    };
    kernel::remove_leftovers();
    isolation::run_inside(&[INNER], &job)
}

/// Does the job that the outer process gave.
///
/// # Errors
/// The run can't be stored or shown, or the machine can't run any drill.
pub fn inner() -> anyhow::Result<ExitCode> {
    isolation::inside(|job: Job, isolation, control| {
        clock::sharpen();
        // Where it is allowed, and then for everything that the drill starts: what is drilled is signals and not the
        // scheduler. Where it is not, what comes late is measured. On a stepped clock nothing can come late, and
        // everybody else's programs would wait.
        if job.clock == ClockChoice::Scaled {
            clock::prefer_realtime();
        }
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        LocalSet::new().block_on(&runtime, run(job, isolation, control))
    })
}

async fn run(job: Job, isolation: Isolation, control: OwnedFd) -> anyhow::Result<ExitCode> {
    let (record, _) = play(&job, &isolation, &StopPipe::new(control)?).await?;
    Ok(ExitCode::from(record.verdict.exit_code()))
}

/// Drills a scenario on the stepped clock, in this process, shows nothing, and stores the run; gives what it came to and
/// where it is stored. What the shell does must be known where the scenario's entrypoint is one.
///
/// # Errors
/// The run can't be stored, or the machine can't run any drill.
pub async fn stepped(
    scenario: &Scenario,
    shell: ShellBehaviour,
    isolation: &Isolation,
    stop: &StopPipe,
) -> anyhow::Result<(Record, PathBuf)> {
    let job = Job {
        scenario: serde_json::to_value(scenario)?,
        shell,
        clock: ClockChoice::Stepped,
        speed: 1.0,
        attempts: MAX_ATTEMPTS,
        fault: None,
        out: None,
        kernel_trace: false,
        show: Show::Nothing,
        display: Display { verbose: false, ascii: false, color: Colour::Never },
    };
    play(&job, isolation, stop).await
}

/// Drills, stores and shows.
async fn play(job: &Job, isolation: &Isolation, stop: &StopPipe) -> anyhow::Result<(Record, PathBuf)> {
    let scenario = Scenario::from_value(job.scenario.clone())?;
    let directory = match &job.out {
        Some(path) => RunDir::at(path, &scenario)?,
        None => commands::home()?.create(&scenario, clock::wall())?,
    };
    let fault = job.fault.as_deref().map(Fault::from_str).transpose().map_err(Failure::bad_input)?;
    let show = Shown { show: job.show, display: job.display, screen: job.display.screen() };
    show.text(|screen| report::run::heading(screen, &scenario))?;

    let worker = host::worker_command().context("the worker's program can't be found")?;
    let path = directory.path().to_owned();
    let logs = path.clone();
    let log = move |worker| File::create(logs.join(format!("{worker}.log")));
    let store = directory.store();
    let setup = Setup {
        scenario: &scenario,
        clock: job.clock.at(job.speed),
        fault,
        extent: Extent::Whole,
        worker: &worker,
        directory: &path,
        store: &store,
        log: &log,
        isolation,
        kernel_trace: job.kernel_trace,
    };

    let manner = Manner { clock: job.clock, speed: job.speed, attempts: job.attempts };
    let mut recorder = Recorder { directory, show, decisions: Decisions::new(show.screen, &[]), writer: Ok(None) };
    let mut record = judge::judge(&setup, job.shell, manner, stop, &mut recorder).await?;
    if let Some(fault) = fault {
        record.reasons.push(format!("The fault {fault} was seeded on purpose."));
    }
    recorder.directory.finish(&record)?;
    show.result(&record, &path)?;
    Ok((record, path))
}

/// Stores and shows a run as it goes on.
struct Recorder {
    directory: RunDir,
    show: Shown,
    decisions: Decisions,
    /// Where the attempt at hand is written to, or what keeps it from being stored or shown. A drill goes on to its end
    /// all the same: it has processes to clean up.
    writer: Result<Option<ObservedWriter>, Failure>,
}

impl Watch for Recorder {
    fn expected(&mut self, expected: &Expectation) -> anyhow::Result<()> {
        self.decisions = Decisions::new(self.show.screen, &expected.events);
        Ok(self.directory.write_expected(expected)?)
    }

    fn begin(&mut self, number: usize, speed: Option<f64>) -> anyhow::Result<()> {
        self.show.text(|screen| report::run::attempt_heading(screen, number, speed))?;
        self.writer = Ok(Some(self.directory.begin_attempt(speed)?));
        Ok(())
    }

    fn observed(&mut self, observed: &Observed) {
        if let Ok(Some(writer)) = &mut self.writer
            && let Err(failure) = writer.append(observed).and_then(|()| self.show.live(&self.decisions, observed))
        {
            self.writer = Err(failure);
        }
    }

    fn end(&mut self, attempt: &Attempt) -> anyhow::Result<()> {
        if let Some(evidence) = &attempt.evidence {
            self.directory.write_evidence(evidence, attempt.explanation.as_ref())?;
        }
        match std::mem::replace(&mut self.writer, Ok(None))? {
            Some(writer) => Ok(writer.finish(&attempt.events, &attempt.outcome)?),
            None => Ok(()),
        }
    }

    fn repeat(&mut self, why: &str) -> anyhow::Result<()> {
        Ok(self.show.text(|screen| report::run::repeat(screen, why))?)
    }
}

/// What is shown of a run while it goes on and at its end.
#[derive(Clone, Copy)]
struct Shown {
    show: Show,
    display: Display,
    screen: Screen,
}

impl Shown {
    fn text(&self, text: impl FnOnce(Screen) -> String) -> Result<(), Failure> {
        if self.show == Show::Text { self.display.output().print(&text(self.screen)) } else { Ok(()) }
    }

    fn live(&self, decisions: &Decisions, observed: &Observed) -> Result<(), Failure> {
        match decisions.line(observed).filter(|_| self.show == Show::Text) {
            Some(line) => self.display.output().print(&line),
            None => Ok(()),
        }
    }

    fn result(&self, record: &Record, stored_in: &Path) -> anyhow::Result<()> {
        match self.show {
            Show::Json => write_stdout(&report::json::run(record, Some(stored_in))?)?,
            Show::Text => self.text(|screen| report::run::closing(screen, record, Some(stored_in)))?,
            Show::Nothing => {}
            Show::Verdict => self.display.output().print(&report::run::verdict(self.screen, record))?,
        }
        Ok(())
    }
}
