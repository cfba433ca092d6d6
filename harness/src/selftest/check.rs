//! One drill of the self-test, in an inner process of its own.

use std::{
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
};

use anyhow::Context;
use scenarios::{Fault, Scenario, ShellBehaviour};
use serde::{Deserialize, Serialize};

use crate::{
    cli::ClockChoice,
    drill::{self, Extent, Setup, StopPipe},
    failure::Failure,
    host,
    isolation::{self, Isolation},
    judge::{self, Manner, Watch},
    record::{Difference, Verdict},
    runtime, scratch,
    verdict::MAX_ATTEMPTS,
};

/// The speed of the first attempt on a scaled clock.
const SPEED: f64 = 10.0;

/// What is to be played.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) scenario: Scenario,
    pub(super) clock: ClockChoice,
    pub(super) fault: Option<Fault>,
    /// A directory for it alone, which need not exist yet.
    pub(super) directory: PathBuf,
    /// The scratch directory that this lies in.
    pub(super) scratch: PathBuf,
}

/// The same on its way to the inner process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    scenario: serde_json::Value,
    clock: ClockChoice,
    fault: Option<String>,
    #[serde(with = "crate::os_path::exact")]
    directory: PathBuf,
    #[serde(with = "crate::os_path::exact")]
    scratch: PathBuf,
}

/// What came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    pub(super) difference: Option<Difference>,
    pub(super) reasons: Vec<String>,
}

impl Check {
    /// Makes the directory, and the job for the inner process.
    pub(super) fn job(&self) -> anyhow::Result<Job> {
        fs::create_dir_all(&self.directory).map_err(|error| Failure::of_io("make", &self.directory, &error))?;
        Ok(Job {
            scenario: serde_json::to_value(&self.scenario)?,
            clock: self.clock,
            fault: self.fault.map(|fault| fault.name().to_owned()),
            directory: self.directory.clone(),
            scratch: self.scratch.clone(),
        })
    }

    /// What the inner process left.
    pub(super) fn finding(&self) -> io::Result<Finding> {
        Ok(serde_json::from_slice(&fs::read(finding_in(&self.directory))?)?)
    }
}

impl Finding {
    /// Nothing is known, for this reason.
    pub(super) fn none(why: String) -> Finding {
        Finding { verdict: Verdict::Inconclusive, difference: None, reasons: vec![why] }
    }
}

fn finding_in(directory: &Path) -> PathBuf {
    directory.join("finding.json")
}

/// Plays the drill that the outer process gave, and writes down what came of it.
///
/// # Errors
/// It can't be written down.
pub fn inner() -> anyhow::Result<ExitCode> {
    isolation::inside(|job: Job, isolation, control| {
        scratch::adopt(&job.scratch);
        runtime::keep_time(job.clock);
        let finding = runtime::block_on(play(&job, &isolation, control))?;
        let finding = finding.unwrap_or_else(|error| Finding::none(format!("The drill failed: {error:#}.")));
        fs::write(finding_in(&job.directory), serde_json::to_vec(&finding)?)?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn play(job: &Job, isolation: &Isolation, control: OwnedFd) -> anyhow::Result<Finding> {
    let stop = StopPipe::new(control)?;
    let scenario = Scenario::from_value(job.scenario.clone())?;
    let worker = host::worker_command(None).context("the worker's program can't be found")?;
    let setup = Setup {
        scenario: &scenario,
        clock: job.clock.at(SPEED),
        fault: job.fault.as_deref().map(Fault::from_str).transpose().map_err(Failure::bad_input)?,
        extent: Extent::Whole,
        worker: &worker,
        foreign: false,
        directory: &job.directory,
        store: &job.directory.join("store.sqlite"),
        log: &|worker| drill::worker_log(&job.directory, worker),
        isolation,
        kernel_trace: false,
        told_status: None,
        alone: false,
    };
    let manner = Manner { clock: job.clock, speed: SPEED, attempts: MAX_ATTEMPTS };
    // No drill of the self-test has the entrypoint that a shell's behaviour matters to.
    let mut record =
        judge::judge(&setup, ShellBehaviour::Stays, manner, &stop, &mut NothingKept(&job.directory)).await?;
    let difference = record.attempts.pop().and_then(|last| last.difference);
    Ok(Finding { verdict: record.verdict, difference, reasons: record.reasons })
}

/// Keeps nothing of an attempt, and makes room for the store of the next one.
struct NothingKept<'a>(&'a Path);

impl Watch for NothingKept<'_> {
    fn begin(&mut self, _: usize, _: Option<f64>) -> anyhow::Result<()> {
        Ok(scratch::clear(self.0)?)
    }
}
