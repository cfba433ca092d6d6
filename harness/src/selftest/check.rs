//! One drill of the self-test, in an inner process of its own.

use std::{
    fs::{self, File},
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
};

use anyhow::Context;
use scenarios::{Expectation, Fault, Scenario, ShellBehaviour};
use serde::{Deserialize, Serialize};
use tokio::{runtime, task::LocalSet};
use worker::clock;

use crate::{
    cli::ClockChoice,
    drill::{Extent, Setup, StopPipe},
    failure::Failure,
    host,
    isolation::{self, Isolation},
    judge::{self, Manner, Watch},
    record::{Attempt, Difference, Observed, Verdict},
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
}

/// The same on its way to the inner process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    scenario: serde_json::Value,
    clock: ClockChoice,
    fault: Option<String>,
    directory: PathBuf,
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
        clock::sharpen();
        if job.clock == ClockChoice::Scaled {
            clock::prefer_realtime();
        }
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        let finding = LocalSet::new().block_on(&runtime, play(&job, &isolation, control));
        let finding = finding.unwrap_or_else(|error| Finding::none(format!("The drill failed: {error:#}.")));
        fs::write(finding_in(&job.directory), serde_json::to_vec(&finding)?)?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn play(job: &Job, isolation: &Isolation, control: OwnedFd) -> anyhow::Result<Finding> {
    let stop = StopPipe::new(control)?;
    let scenario = Scenario::from_value(job.scenario.clone())?;
    let worker = host::worker_command().context("the worker's program can't be found")?;
    let setup = Setup {
        scenario: &scenario,
        clock: job.clock.at(SPEED),
        fault: job.fault.as_deref().map(Fault::from_str).transpose().map_err(Failure::bad_input)?,
        extent: Extent::Whole,
        worker: &worker,
        directory: &job.directory,
        store: &job.directory.join("store.sqlite"),
        log: &|worker| File::create(job.directory.join(format!("{worker}.log"))),
        isolation,
        kernel_trace: false,
    };
    let manner = Manner { clock: job.clock, speed: SPEED, attempts: MAX_ATTEMPTS };
    let mut stores = FreshStores(setup.store);
    // No drill of the self-test has the entrypoint that a shell's behaviour matters to.
    let mut record = judge::judge(&setup, ShellBehaviour::Stays, manner, &stop, &mut stores).await?;
    let difference = record.attempts.pop().and_then(|last| last.difference);
    Ok(Finding { verdict: record.verdict, difference, reasons: record.reasons })
}

/// Keeps nothing of an attempt, and makes place for the store of the next one.
struct FreshStores<'a>(&'a Path);

impl Watch for FreshStores<'_> {
    fn expected(&mut self, _: &Expectation) -> anyhow::Result<()> {
        Ok(())
    }

    fn begin(&mut self, _: usize, _: Option<f64>) -> anyhow::Result<()> {
        for end in ["", "-wal", "-shm"] {
            let mut path = self.0.as_os_str().to_owned();
            path.push(end);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Failure::of_io("remove", Path::new(&path), &error).into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn observed(&mut self, _: &Observed) {}

    fn end(&mut self, _: &Attempt) -> anyhow::Result<()> {
        Ok(())
    }

    fn repeat(&mut self, _: &str) -> anyhow::Result<()> {
        Ok(())
    }
}
