//! `termdrill check`: drills a server of one's own, started and stopped as a platform does it.
//!
//! The inner process starts the command, sends it requests ([`load`], [`exchange`]), stops it and watches ([`play`]).
//! What was observed is judged ([`verdict`]) and explained ([`mod@explain`]) by pure functions, and shown ([`text`],
//! [`html`], [`junit`]).

pub mod answer;
pub mod args;
pub mod config;
pub mod descriptors;
pub mod exchange;
pub mod explain;
pub mod fate;
pub mod find_grace;
pub mod html;
pub mod junit;
pub mod load;
pub mod memory;
pub mod output;
pub mod play;
pub mod profiles;
pub mod record;
pub mod reserved;
pub mod settings;
pub mod sockets;
mod stall;
pub mod start;
pub mod template;
pub mod text;
pub mod timeline;
mod told;
pub mod unframed;
pub mod user;
pub mod verdict;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

use std::{
    env,
    fs::{self, File},
    io::{self, IsTerminal},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tokio::{runtime, task::LocalSet};
use worker::clock;

pub use self::args::Args;
use self::{
    find_grace::{Found, Next, Trial},
    play::Recording,
    record::{Record, SeatRecord, VERSION, Verdict},
    settings::{Seat, Settings},
    told::Told,
};
use crate::{
    cli::Display,
    drill::StopPipe,
    evidence::{KernelTrace, kernel},
    failure::{self, Failure, UNABLE},
    isolation::{self, Isolation},
    report::{
        file::{Format, ReportFile},
        json, write_stdout,
    },
    runs::empty_directory,
};

/// The hidden command of this program that checks for its outer process.
pub const INNER: &str = "check-drill";

/// The file with the record of a drill, where it is stored.
const RECORD: &str = "check.json";

/// What the inner process has to do.
#[derive(Debug, Serialize, Deserialize)]
struct Job {
    settings: Settings,
    show: Show,
    show_output: bool,
    find_grace: bool,
    kernel_trace: bool,
    reports: Vec<ReportFile>,
    #[serde(with = "crate::os_path::exact_option")]
    out: Option<PathBuf>,
    display: Display,
}

/// What is shown of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Show {
    Text,
    Json,
    Verdict,
}

/// Puts together what is asked for, and has it done in an inner process.
///
/// # Errors
/// Bad usage or input; a machine that can't run any drill.
pub fn outer(display: Display, args: Args) -> anyhow::Result<ExitCode> {
    let directory = env::current_dir().context("the working directory can't be told")?;
    let show = match (args.json, args.quiet) {
        (true, _) => Show::Json,
        (_, true) => Show::Verdict,
        _ => Show::Text,
    };
    // The inner process may work elsewhere (--cwd).
    let absolute = |file: &ReportFile| ReportFile { path: directory.join(&file.path), format: file.format };
    let reports: Vec<ReportFile> = args.report.iter().map(absolute).collect();
    let out = args.out.as_ref().map(|out| directory.join(out));
    let (show_output, find_grace, kernel_trace) = (args.show_output, args.find_grace, args.kernel_trace);
    reports.iter().try_for_each(|file| check_report(file, find_grace))?;
    let settings = args.settings(&directory)?;
    if let Some(out) = &out {
        empty_directory(out)?;
    }
    // Of checks that were killed before this one, and then of this one.
    kernel::remove_leftovers();
    let job = Job { settings, show, show_output, find_grace, kernel_trace, reports, out, display };
    isolation::run_inside_and_then(&[INNER], &job, || drop(kernel::remove_leftovers_unseen()))
}

/// Whether a report can be written there, before anything is started.
fn check_report(file: &ReportFile, find_grace: bool) -> Result<(), Failure> {
    match file.format {
        Format::Svg => {
            Err(Failure::bad_input(format!("--report: {}: a check has no picture alone", file.path.display()))
                .hint("its name ends in .html for a page with the picture, .json, or .xml for JUnit"))
        }
        Format::Junit if find_grace => {
            Err(Failure::bad_input("--report: there is no JUnit for --find-grace").hint("write a .html or .json"))
        }
        _ => file.check(),
    }
}

/// Does the job that the outer process gave.
///
/// # Errors
/// The command can't be started, what came of it can't be shown or stored, or the machine can't run any drill.
pub fn inner() -> anyhow::Result<ExitCode> {
    isolation::inside(|job: Job, isolation, control| {
        clock::sharpen();
        if let Some(cwd) = &job.settings.cwd {
            env::set_current_dir(cwd).map_err(|error| Failure::of_io("enter", cwd, &error).as_bad_input())?;
        }
        run(&job, &isolation, &control)
    })
}

fn run(job: &Job, isolation: &Isolation, control: &OwnedFd) -> anyhow::Result<ExitCode> {
    if job.find_grace {
        return find_grace(job, isolation, control);
    }
    let Some(record) = check(job, &job.settings, isolation, control, job.out.as_deref(), false)? else {
        return Ok(stopped());
    };
    show(job, &record)
}

/// A person has stopped it.
fn stopped() -> ExitCode {
    failure::warn("the check was stopped before its end, and proves nothing");
    ExitCode::from(UNABLE)
}

/// The shortest grace period in each seat.
fn find_grace(job: &Job, isolation: &Isolation, control: &OwnedFd) -> anyhow::Result<ExitCode> {
    let screen = job.display.screen();
    let given_ms = job.settings.grace_ms;
    let mut told = Told::default();
    let mut all = Vec::new();
    for &seat in &job.settings.seats {
        let mut trials = Vec::new();
        let mut last = None;
        let answer = loop {
            let grace_ms = match find_grace::next(given_ms, job.settings.pre_stop_ms, &trials) {
                Next::Try(grace_ms) => grace_ms,
                Next::Done(answer) => break answer,
            };
            let settings = Settings { seats: vec![seat], ..job.settings.with_grace(grace_ms) };
            let quiet = !trials.is_empty();
            let out = job.out.as_ref().map(|out| out.join(format!("trial-{}-{}", trials.len() + 1, seat.name())));
            if let Some(out) = &out {
                fs::create_dir(out).map_err(|error| Failure::of_io("make", out, &error))?;
            }
            let Some(record) = check(job, &settings, isolation, control, out.as_deref(), quiet)? else {
                return Ok(stopped());
            };
            if let Some(out) = &out {
                told.note(write(&out.join(RECORD), &json::line(&record)?));
            }
            let Some(of_seat) = record.seats.first() else { return Ok(ExitCode::from(UNABLE)) };
            let trial = Trial::of(grace_ms, of_seat);
            if job.show == Show::Text {
                job.display.output().print(&find_grace::line(screen, &trial))?;
            }
            trials.push(trial);
            last = Some(record);
        };
        let found = last.and_then(|last| Found::new(given_ms, trials, answer, &last));
        let found = found.context("nothing was tried")?;
        if job.show != Show::Json {
            job.display.output().print(&find_grace::report(screen, &found))?;
        }
        all.push(found);
    }
    let verdict = all.iter().fold(Verdict::Pass, |worst, found| worst.worse(found.verdict));
    let document = json::line(&serde_json::json!({
        "format": "termdrill-check-grace",
        "version": VERSION,
        "verdict": verdict,
        "settings": job.settings.clone().without_secrets(),
        "seats": all,
    }))?;
    if job.show == Show::Json {
        told.note(write_stdout(&document));
    }
    for file in &job.reports {
        told.note(match file.format {
            Format::Html => file.write(&html::of_find_grace(&job.settings, verdict, &all)),
            _ => file.write(&document),
        });
    }
    if let Some(out) = &job.out {
        told.note(write(&out.join("grace.json"), &document));
    }
    told.end(verdict)
}

/// One drill in each seat. `None` where the check is to stop.
fn check(
    job: &Job,
    settings: &Settings,
    isolation: &Isolation,
    control: &OwnedFd,
    out: Option<&Path>,
    quiet: bool,
) -> anyhow::Result<Option<Record>> {
    let mut seats = Vec::new();
    for &seat in &settings.seats {
        if job.show == Show::Text && !quiet && io::stderr().is_terminal() {
            job.display.output().print_error(&text::progress(job.display.screen(), settings, seat))?;
        }
        let observed = match (seat, isolation) {
            (Seat::Pid1, Isolation::Bare { why }) => {
                record::Observed { unable: Some(why.clone()), ..record::Observed::default() }
            }
            _ => {
                let log = out.map(|out| create(&out.join(format!("output-{}.log", seat.name())))).transpose()?;
                let trace = job.kernel_trace.then(|| KernelTrace::start(isolation, &settings.signals()));
                match play_on_a_thread(settings, seat, control, Recording { log, trace })? {
                    Some(observed) => observed,
                    None => return Ok(None),
                }
            }
        };
        let judgement = verdict::judge(settings, &observed);
        let explanation = explain::explain(settings, &observed);
        seats.push(SeatRecord { seat, observed, judgement, explanation });
    }
    Ok(Some(Record::new(settings.clone(), seats)))
}

/// A drill on a thread of its own, which takes the real-time class with it when it ends: no command is to inherit that.
fn play_on_a_thread(
    settings: &Settings,
    seat: Seat,
    control: &OwnedFd,
    recording: Recording,
) -> anyhow::Result<Option<record::Observed>> {
    let control = control.try_clone()?;
    thread::scope(|scope| {
        let drill = thread::Builder::new().name("drill".to_owned()).spawn_scoped(scope, || {
            let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
            LocalSet::new().block_on(&runtime, async {
                let stop = StopPipe::new(control)?;
                play::play(settings, seat, &stop, recording).await
            })
        })?;
        drill.join().unwrap_or_else(|_| anyhow::bail!("the thread that runs the drill panicked"))
    })
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| Failure::of_io("write", path, &error))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    fs::write(path, bytes).map_err(|error| Failure::of_io("write", path, &error))
}

/// Shows it first: what can't be written takes nothing away from that.
fn show(job: &Job, record: &Record) -> anyhow::Result<ExitCode> {
    let (screen, output) = (job.display.screen(), job.display.output());
    let document = json::line(record)?;
    let mut told = Told::default();
    match job.show {
        Show::Json => told.note(write_stdout(&document)),
        Show::Text => {
            told.note(output.print(&text::report(screen, record)));
            if job.show_output {
                told.note(output.print(&text::outputs(screen, record)));
            }
        }
        Show::Verdict => told.note(output.print(&text::verdicts(screen, record))),
    }
    for file in &job.reports {
        told.note(match file.format {
            Format::Html => file.write(&html::of_check(record)),
            Format::Junit => file.write(&junit::junit(record)?),
            Format::Json | Format::Svg => file.write(&document),
        });
    }
    if let Some(out) = &job.out {
        told.note(write(&out.join(RECORD), &document));
    }
    told.end(record.verdict)
}
