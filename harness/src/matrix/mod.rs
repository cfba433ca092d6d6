//! `termdrill entrypoints`: what SIGTERM comes to on this machine, form by form, predicted and seen.

pub mod cell;
pub mod forms;
pub mod play;
pub mod programs;
mod rest;
pub mod shells;

mod command;
mod ending;
mod environment;
mod grade;
mod pool;
mod table;
mod testimony;
mod tree;
mod witness;

use std::{
    cell::RefCell,
    io::{self, IsTerminal, Write},
    os::fd::OwnedFd,
    path::Path,
    process::ExitCode,
    rc::Rc,
};

use scenarios::Signal;
use scenarios::{
    OnSigterm,
    prediction::{self, Reaction},
};
use serde::{Deserialize, Serialize};

use self::{
    cell::Cell,
    forms::{Kind, Row},
    shells::Shells,
};
pub use self::{
    grade::{Grade, Graded, Matrix, Witness},
    witness::{Agreement, Testimony},
};
use crate::{
    cli::{Display, EntrypointsArgs},
    drill::StopPipe,
    evidence::{KernelTrace, kernel},
    failure::Failure,
    isolation::{self, Isolation},
    process,
    report::{self, write_stdout},
    runtime,
    scratch::{self, Scratch},
};

/// The hidden command of this program that runs the matrix for its outer process.
pub const MATRIX: &str = "matrix";
/// The hidden command of this program that plays one cell.
pub const CELL: &str = "cell";

/// How many cells are played side by side without `--jobs`.
pub const JOBS: u16 = 96;

/// What the inner process has to do.
#[derive(Debug, Serialize, Deserialize)]
struct Job {
    rows: Vec<Row>,
    postures: Vec<OnSigterm>,
    seats: Vec<bool>,
    kernel_trace: bool,
    jobs: usize,
    json: bool,
    display: Display,
}

/// Runs the matrix, or the part of it that is asked for, in an inner process.
///
/// # Errors
/// A filter that leaves nothing; a machine that can't run any cell.
pub fn outer(display: Display, args: &EntrypointsArgs) -> anyhow::Result<ExitCode> {
    let wanted = |filter: &[String], value: &str| filter.is_empty() || filter.iter().any(|one| one == value);
    let of_shell = |row: &Row| args.shell.is_empty() || row.kind == Kind::Shell && wanted(&args.shell, &row.program);
    let rows: Vec<Row> =
        forms::rows().into_iter().filter(|row| wanted(&args.form, &row.form) && of_shell(row)).collect();
    if rows.is_empty() {
        return Err(Failure::bad_input("no form is left when only these are asked for")
            .hint("--shell leaves the forms of a shell only; see termdrill entrypoints --help")
            .into());
    }
    let job = Job {
        rows,
        postures: OnSigterm::ALL.into_iter().filter(|posture| wanted(&args.posture, posture.name())).collect(),
        seats: [true, false].into_iter().filter(|seat| args.pid1.is_none_or(|only| only == *seat)).collect(),
        kernel_trace: args.kernel_trace,
        jobs: usize::from(args.jobs),
        json: args.json,
        display,
    };
    // Of matrices and runs that were killed before this one, and then of this one.
    kernel::remove_leftovers();
    isolation::run_inside_and_then(&[MATRIX], &job, || drop(kernel::remove_leftovers_unseen()))
}

/// Runs the part of the matrix that the outer process gave, and shows it.
///
/// # Errors
/// The machine does not give what any cell needs, or the result can't be shown.
pub fn inner() -> anyhow::Result<ExitCode> {
    isolation::inside(|job: Job, isolation, control| {
        let folder = Scratch::make()?;
        scratch::adopt(folder.path());
        let shown = runtime::block_on(run(&job, &isolation, control, folder.path()));
        // Nobody writes into the folder when it goes.
        process::kill_all();
        shown?
    })
}

/// What SIGTERM to the top of a custom entrypoint comes to by the rules, where they speak of all of it; its shells are
/// looked at for that, with scripts in `directory`.
pub async fn predict(command: &[String], posture: OnSigterm, pid1: bool, directory: &Path) -> Option<Reaction> {
    let shells = Shells::of_command(command, directory).await;
    let chain = prediction::chain(command, None, &|words| shells.get(words)).ok()?;
    Some(chain.predict(pid1, posture))
}

async fn run(job: &Job, isolation: &Isolation, control: OwnedFd, directory: &Path) -> anyhow::Result<ExitCode> {
    let stop = StopPipe::new(control)?;
    let (rows, missing): (Vec<Row>, Vec<Row>) = job.rows.iter().cloned().partition(|row| row.missing().is_none());
    let shells = Shells::of_rows(&rows, directory).await;
    // One recording for all cells, which begins before the first of them and ends with this function.
    let trace = job.kernel_trace.then(|| {
        KernelTrace::start(isolation, &[Signal::TERM, Signal::KILL]).map(|trace| Rc::new(RefCell::new(trace)))
    });
    let mut cells = Vec::new();
    for row in &rows {
        for &pid1 in &job.seats {
            for &posture in &job.postures {
                let directory = directory.join(format!("cell-{}", cells.len() + 1));
                let traced = matches!(trace, Some(Ok(_)));
                cells.push(Cell { row: row.clone(), posture, pid1, directory, traced });
            }
        }
    }
    let progress = |done: usize| {
        let mut stderr = io::stderr();
        if stderr.is_terminal() {
            let end = if done == cells.len() { "\r\x1b[K" } else { "" };
            // Progress that can't be shown is no reason to stop.
            let _ = write!(stderr, "\r{done} of {} cells{end}", cells.len());
        }
    };
    let asked = trace.as_ref().and_then(|trace| trace.as_ref().ok());
    let outcomes = tokio::select! {
        outcomes = pool::play_all(&cells, job.jobs, isolation, asked, progress) => outcomes?,
        () = stop.stopped() => return Ok(ExitCode::FAILURE),
    };
    let unavailable = trace.and_then(Result::err);
    let matrix = Matrix::new(&cells, outcomes, &missing, &shells, unavailable);
    if job.json {
        write_stdout(&report::json::line(&matrix)?)?;
    } else {
        job.display.output().print(&table::text(job.display.screen(), &matrix))?;
    }
    Ok(ExitCode::from(matrix.exit_code()))
}
