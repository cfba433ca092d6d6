//! `termdrill run`: drills a scenario with real processes until it is decided.

use std::{
    fs::File,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
};

use anyhow::Context;
use scenarios::{CustomBehaviour, Entrypoint, Expectation, Fault, Host, Outcome, Scenario, ShellBehaviour, expect};
use serde::{Deserialize, Serialize};
use tokio::{runtime, task::LocalSet};
use worker::clock;

use crate::{
    cli::{ClockChoice, Display, RunArgs},
    commands, compare,
    drill::{self, Extent, Setup, StopPipe},
    failure::Failure,
    host, input,
    isolation::{self, Isolation},
    record::{Attempt, Difference, Observed, Record, Verdict},
    report::{self, Screen, decision::Decisions, write_stdout},
    runs::RunDir,
    verdict::{self, Next},
};

/// The hidden command of this program that runs a drill for its outer process.
pub const INNER: &str = "drill";

/// Below this speed no attempt is made.
const LOWEST_SPEED: f64 = 0.1;

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
        show,
        display,
    };
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
        // scheduler. Where it is not, what comes late is measured.
        clock::prefer_realtime();
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        LocalSet::new().block_on(&runtime, run(job, isolation, control))
    })
}

async fn run(job: Job, isolation: Isolation, control: OwnedFd) -> anyhow::Result<ExitCode> {
    let stop = StopPipe::new(control)?;
    let scenario = Scenario::from_value(job.scenario.clone())?;
    let mut directory = match &job.out {
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
        isolation: &isolation,
    };

    let mut record = match prepare(&job, &setup, &stop).await? {
        Ready::Yes { host, remarks } => {
            let expected = expect(&scenario, &host);
            directory.write_expected(&expected)?;
            let mut record = undecided(&scenario, expected, remarks);
            attempt_until_decided(&job, &setup, &stop, &mut directory, &show, &mut record).await?;
            record
        }
        Ready::No { why } => {
            let expected = expect(&scenario, &Host { shell: job.shell, custom: None });
            directory.write_expected(&expected)?;
            undecided(&scenario, expected, vec![why])
        }
    };
    if let Some(fault) = fault {
        record.reasons.push(format!("The fault {fault} was seeded on purpose."));
    }
    directory.finish(&record)?;
    show.result(&record, directory.path())?;
    Ok(ExitCode::from(record.verdict.exit_code()))
}

fn undecided(scenario: &Scenario, expected: Expectation, reasons: Vec<String>) -> Record {
    let scenario = scenario.clone();
    Record { scenario, expected, attempts: Vec::new(), verdict: Verdict::Inconclusive, reasons }
}

/// Whether the scenario can be drilled here.
enum Ready {
    /// It can; what is known of the machine, and what a person should know of how that was found out.
    Yes { host: Host, remarks: Vec<String> },
    /// It can't.
    No { why: String },
}

async fn prepare(job: &Job, setup: &Setup<'_>, stop: &StopPipe) -> anyhow::Result<Ready> {
    let scenario = setup.scenario;
    if let (true, Isolation::Bare { why }) = (scenario.pid_namespace, setup.isolation) {
        return Ok(Ready::No { why: format!("The scenario needs a PID namespace, and {why}.") });
    }
    let Entrypoint::Custom(command) = &scenario.entrypoint else {
        return Ok(Ready::Yes { host: Host { shell: job.shell, custom: None }, remarks: Vec::new() });
    };
    let measured = match host::measure(setup, stop).await? {
        Ok(measured) => measured,
        Err(problem) => return Ok(Ready::No { why: format!("The entrypoint {command:?} can't be used: {problem}.") }),
    };
    // What the scenario says counts for the effect; what it can't say was measured.
    let effect = scenario.expected_effect.unwrap_or(measured.effect);
    let how = if scenario.expected_effect.is_some() { "is said to be" } else { "was measured with an idle worker:" };
    let remarks = vec![format!(
        "The effect of SIGTERM on the entrypoint {command:?} {how} {}; its first process {}.",
        effect.name(),
        if measured.top_stays { "stays the worker's parent" } else { "becomes the worker" }
    )];
    Ok(Ready::Yes { host: Host { shell: job.shell, custom: Some(CustomBehaviour { effect, ..measured }) }, remarks })
}

async fn attempt_until_decided(
    job: &Job,
    setup: &Setup<'_>,
    stop: &StopPipe,
    directory: &mut RunDir,
    show: &Shown,
    record: &mut Record,
) -> anyhow::Result<()> {
    let mut speed = job.speed;
    loop {
        let number = record.attempts.len() + 1;
        show.text(|screen| report::run::attempt_heading(screen, number, job.clock.at(speed).speed()))?;
        let setup = Setup { clock: job.clock.at(speed), ..*setup };
        let (attempt, stopped) = attempt(&setup, stop, directory, show, &record.expected).await?;
        record.attempts.push(attempt);
        if stopped {
            record.reasons.push("The drill was stopped before its end.".to_owned());
            return Ok(());
        }
        // A stepped clock has no speed to lower: what differs has to do so again.
        let lower = match job.clock {
            ClockChoice::Scaled => Some(speed / 2.0).filter(|lower| *lower >= LOWEST_SPEED),
            ClockChoice::Stepped => Some(speed).filter(|_| number < 2),
        };
        let lower = lower.filter(|_| number < job.attempts);
        match verdict::decide(&record.attempts, lower.is_some()) {
            Next::Done { verdict, reasons } => {
                record.verdict = verdict;
                record.reasons.extend(reasons);
                return Ok(());
            }
            Next::Repeat { why } => {
                show.text(|screen| report::run::repeat(screen, &why))?;
                speed = lower.unwrap_or(speed);
            }
        }
    }
}

/// One attempt, and whether it was stopped before its end.
async fn attempt(
    setup: &Setup<'_>,
    stop: &StopPipe,
    directory: &mut RunDir,
    show: &Shown,
    expected: &Expectation,
) -> anyhow::Result<(Attempt, bool)> {
    let mut writer = directory.begin_attempt(setup.clock.speed())?;
    let decisions = Decisions::new(show.screen, &expected.events);
    // A drill that can't be written down or shown goes on to its end all the same: it has processes to clean up.
    let mut failed = Ok(());
    let mut live = |observed: &Observed| {
        if failed.is_ok() {
            failed = writer.append(observed).and_then(|()| show.live(&decisions, observed));
        }
    };
    let done = drill::run(setup, stop, &mut live).await?;
    failed?;
    let remains = done.remains;
    let outcome = Outcome::of(setup.scenario, &remains.events.iter().map(|one| one.event).collect::<Vec<_>>());
    writer.finish(&remains.events, &outcome)?;
    let mut difference = compare::first_difference(&expected.events, &remains.events);
    if let Some(difference) = &mut difference {
        difference.why = why(difference, &remains.remarks);
    }
    let attempt = Attempt {
        speed: setup.clock.speed(),
        wall_ms: done.wall_ms,
        events: remains.events,
        outcome,
        lateness: remains.lateness.summary(),
        difference,
        problems: remains.problems,
        remarks: remains.remarks,
    };
    Ok((attempt, remains.stopped))
}

/// A remark on the very request that differs tells why.
fn why(difference: &Difference, remarks: &[String]) -> Option<String> {
    let observed = difference.observed.as_ref().map(|observed| observed.event);
    let request = difference.expected.or(observed)?.kind.request()?.to_string();
    remarks.iter().find(|remark| remark.split([' ', ':']).any(|word| word == request)).cloned()
}

/// What is shown of a run while it goes on and at its end.
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
            Show::Verdict => self.display.output().print(&report::run::verdict(self.screen, record))?,
        }
        Ok(())
    }
}
