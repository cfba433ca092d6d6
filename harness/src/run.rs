//! `termdrill run`: drills a scenario with real processes until it is decided.

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
};

use anyhow::Context;
use scenarios::{Expectation, Fault, Scenario, ShellBehaviour};
use serde::{Deserialize, Serialize};
use worker::clock;

use crate::{
    cli::{ClockChoice, Colour, Display, RunArgs},
    commands,
    drill::{self, Extent, Setup, StopPipe},
    evidence::kernel,
    failure::{self, Failure},
    foreign, host, input,
    isolation::{self, Isolation},
    judge::{self, Manner, Watch},
    record::{Attempt, Observed, Record},
    report::{self, Screen, decision::Decisions, file::ReportFile, write_stdout},
    runs::{ObservedWriter, RunDir},
    runtime,
    stream::Message,
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
    worker: Option<foreign::Command>,
    #[serde(with = "crate::os_path::exact_option")]
    out: Option<PathBuf>,
    kernel_trace: bool,
    show: Show,
    reports: Vec<ReportFile>,
    display: Display,
}

impl Job {
    /// The job of an inner process that tells of the drill by [`Message`]s. What the shell does must be known where the
    /// scenario's entrypoint is one; `speed` counts on a scaled clock only.
    ///
    /// # Errors
    /// None that a scenario can cause.
    pub fn told(scenario: &Scenario, shell: ShellBehaviour, clock: ClockChoice, speed: f64) -> serde_json::Result<Job> {
        Job::plain(scenario, shell, clock, speed, Show::Messages)
    }

    /// A drill of `scenario` as it is, with our own worker; stored where runs are stored.
    fn plain(
        scenario: &Scenario,
        shell: ShellBehaviour,
        clock: ClockChoice,
        speed: f64,
        show: Show,
    ) -> serde_json::Result<Job> {
        Ok(Job {
            scenario: serde_json::to_value(scenario)?,
            shell,
            clock,
            speed,
            attempts: MAX_ATTEMPTS,
            fault: None,
            worker: None,
            out: None,
            kernel_trace: false,
            show,
            reports: Vec::new(),
            display: Display { verbose: false, ascii: false, color: Colour::Never },
        })
    }
}

/// What is shown of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Show {
    Text,
    Json,
    Verdict,
    Messages,
    Nothing,
}

/// Loads the scenario, and has it drilled in an inner process.
///
/// # Errors
/// Bad input; a machine that can't run any drill.
pub fn outer(display: Display, args: &RunArgs) -> anyhow::Result<ExitCode> {
    let scenario = input::load(&args.input.scenario, &args.input.settings, std::io::stdin().lock())?;
    let worker = args.worker.as_deref().map(|line| foreign::Command::read(line, Some(args.clock))).transpose()?;
    report::file::check_run(&args.reports)?;
    let shell = host::shell_behaviour_for(&scenario)?;
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
        worker,
        out: args.out.clone(),
        kernel_trace: args.kernel_trace,
        show,
        reports: args.reports.clone(),
        display,
    };
    // Of runs that were killed before this one, and then of this one.
    kernel::remove_leftovers();
    isolation::run_inside_and_then(&[INNER], &job, || drop(kernel::remove_leftovers_unseen()))
}

/// Does the job that the outer process gave.
///
/// # Errors
/// The run can't be stored or shown, or the machine can't run any drill.
pub fn inner() -> anyhow::Result<ExitCode> {
    isolation::inside(|job: Job, isolation, control| {
        runtime::keep_time(job.clock);
        runtime::block_on(run(job, isolation, control))?
    })
}

async fn run(job: Job, isolation: Isolation, control: OwnedFd) -> anyhow::Result<ExitCode> {
    match play(&job, &isolation, &StopPipe::new(control)?).await {
        Ok((record, _)) => Ok(ExitCode::from(record.verdict.exit_code())),
        Err(error) if job.show == Show::Messages => {
            write_stdout(&report::json::line(&Message::of_error(&error))?)?;
            Ok(ExitCode::from(failure::explain(&error).1))
        }
        Err(error) => Err(error),
    }
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
    let job = Job::plain(scenario, shell, ClockChoice::Stepped, 1.0, Show::Nothing)?;
    play(&job, isolation, stop).await
}

/// Drills, stores and shows.
async fn play(job: &Job, isolation: &Isolation, stop: &StopPipe) -> anyhow::Result<(Record, PathBuf)> {
    let scenario = Scenario::from_value(job.scenario.clone())?;
    let directory = match &job.out {
        Some(path) => RunDir::at(path, &scenario)?,
        None => commands::home()?.create(&scenario, clock::wall())?,
    };
    let path = directory.path().to_owned();
    let mut recorder = Recorder::new(directory, job);
    isolation::stores(true);
    match play_in(job, &scenario, isolation, stop, &mut recorder).await {
        Ok(record) => Ok((record, path)),
        Err(mut error) => {
            if let Some(name) = recorder.directory.break_off() {
                failure::add_step(&mut error, &format!("`termdrill replay {name}` shows what was seen until then"));
            }
            Err(error)
        }
    }
}

/// Drills, stores and shows, into the directory of the run.
async fn play_in(
    job: &Job,
    scenario: &Scenario,
    isolation: &Isolation,
    stop: &StopPipe,
    recorder: &mut Recorder,
) -> anyhow::Result<Record> {
    let fault = job.fault.as_deref().map(Fault::from_str).transpose().map_err(Failure::bad_input)?;
    let show = recorder.show;
    let path = recorder.directory.path().to_owned();
    show.text(|screen| report::run::heading(screen, scenario))?;
    show.message(|| Message::Stored(path.clone()))?;

    let worker = host::worker_command(job.worker.as_ref()).context("the worker's program can't be found")?;
    let logs = path.clone();
    let log = move |worker| drill::worker_log(&logs, worker);
    let store = recorder.directory.store();
    let setup = Setup {
        scenario,
        clock: job.clock.at(job.speed),
        fault,
        extent: Extent::Whole,
        worker: &worker,
        foreign: job.worker.is_some(),
        directory: &path,
        store: &store,
        log: &log,
        isolation,
        kernel_trace: job.kernel_trace,
        told_status: None,
        alone: true,
    };

    let manner = Manner { clock: job.clock, speed: job.speed, attempts: job.attempts };
    let mut record = judge::judge(&setup, job.shell, manner, stop, recorder).await?;
    if let Some(worker) = &job.worker {
        record.reasons.push(format!("The workers were foreign ones: {}.", worker.line()));
    }
    if let Some(fault) = fault {
        record.reasons.push(format!("The fault {fault} was seeded on purpose."));
    }
    recorder.directory.finish(&record)?;
    isolation::stores(false);
    report::file::write_run(&job.reports, &record, Some(&path))?;
    show.result(&record, &path)?;
    Ok(record)
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

impl Recorder {
    fn new(directory: RunDir, job: &Job) -> Recorder {
        let show = Shown { show: job.show, display: job.display, screen: job.display.screen() };
        Recorder { directory, show, decisions: Decisions::new(show.screen, &[]), writer: Ok(None) }
    }
}

impl Watch for Recorder {
    fn expected(&mut self, expected: &Expectation) -> anyhow::Result<()> {
        self.decisions = Decisions::new(self.show.screen, &expected.events);
        self.directory.write_expected(expected)?;
        Ok(self.show.message(|| Message::Expected(expected.clone()))?)
    }

    fn begin(&mut self, number: usize, speed: Option<f64>) -> anyhow::Result<()> {
        self.show.text(|screen| report::run::attempt_heading(screen, number, speed))?;
        self.show.message(|| Message::Began { attempt: number, speed })?;
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
        if let Some(writer) = std::mem::replace(&mut self.writer, Ok(None))? {
            writer.finish(&attempt.events, &attempt.outcome)?;
        }
        Ok(self.show.message(|| Message::Ended(Box::new(attempt.clone())))?)
    }

    fn repeat(&mut self, why: &str) -> anyhow::Result<()> {
        self.show.message(|| Message::Repeated(why.to_owned()))?;
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

    fn message(&self, message: impl FnOnce() -> Message) -> Result<(), Failure> {
        if self.show != Show::Messages {
            return Ok(());
        }
        let line = report::json::line(&message()).map_err(|error| Failure::unable(error.to_string()))?;
        write_stdout(&line)
    }

    fn live(&self, decisions: &Decisions, observed: &Observed) -> Result<(), Failure> {
        self.message(|| Message::Observed(observed.clone()))?;
        match decisions.line(observed).filter(|_| self.show == Show::Text) {
            Some(line) => self.display.output().print(&line),
            None => Ok(()),
        }
    }

    fn result(&self, record: &Record, stored_in: &Path) -> anyhow::Result<()> {
        match self.show {
            Show::Json => write_stdout(&report::json::run(record, Some(stored_in))?)?,
            Show::Text => self.text(|screen| report::run::closing(screen, record, Some(stored_in)))?,
            Show::Messages => self.message(|| {
                let Record { verdict, reasons, .. } = record.clone();
                Message::Decided { verdict, reasons }
            })?,
            Show::Nothing => {}
            Show::Verdict => self.display.output().print(&report::run::verdict(self.screen, record))?,
        }
        Ok(())
    }
}
