//! `termdrill validate`: many drills side by side, each compared with the model.

pub mod crew;
pub mod item;
pub mod lane;
pub mod lateness;
pub mod plan;
pub mod report;
pub mod results;
pub mod shrink;

use std::{fmt::Write, fs, io::IsTerminal, path::Path, process::ExitCode};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use nix::sys::resource::{UsageWho, getrusage};
use scenarios::{Entrypoint, Scenario, ShellBehaviour};
use worker::clock;

use self::{
    crew::{Crew, Pace, Places},
    item::{Item, Judged},
    plan::Plan,
    report::{Document, FORMAT, Summary, VERSION, drills},
    results::Results,
};
use crate::{
    cli::{ClockChoice, Display, MergeArgs, ValidateArgs},
    failure::Failure,
    host,
    isolation::{Signals, isolate},
    record::Verdict,
    report::{Output, Screen, file, json, write_stdout},
    runtime,
};

/// Above this many drills only those that did not match get a line, unless more is to be shown.
const LINES: usize = 100;

/// Validates what was asked for.
///
/// # Errors
/// Bad input; a machine that can't run any drill; results that can't be stored.
pub fn validate(display: Display, args: &ValidateArgs) -> anyhow::Result<ExitCode> {
    file::check_validation(&args.reports)?;
    let (plan, results) = match &args.resume {
        Some(directory) => Results::resume(directory)?,
        None => {
            let plan = Plan::make(args)?;
            let results = Results::begin(args.out.as_deref(), &plan)?;
            (plan, results)
        }
    };
    let directory = results.directory().to_owned();
    let signals = Signals::catch().context("the handlers for Ctrl-C and the like can't be installed")?;
    let asks_for_the_shell = |item: &Item| item.scenario.entrypoint == Entrypoint::Shell;
    let shell = match plan.items.iter().any(asks_for_the_shell) {
        true => host::shell_behaviour()?,
        false => ShellBehaviour::Stays,
    };
    let isolation = isolate();
    let validation = Validation { display, args, signals: &signals, shell, quiet: args.json };
    let document = runtime::block_on(validation.run(plan, results, isolation))??;
    signals.end_by_what_was_received()?;
    deliver(display, args, &document, &directory)
}

/// Joins the JSON documents of several shards.
///
/// # Errors
/// One is not such a document, or they don't belong together.
pub fn merge(display: Display, args: &MergeArgs) -> anyhow::Result<ExitCode> {
    let mut documents = Vec::new();
    for path in &args.files {
        let text = fs::read(path).map_err(|error| Failure::of_io("read", path, &error).as_bad_input())?;
        let document: Document = serde_json::from_slice(&text)
            .map_err(|error| Failure::bad_input(format!("{}: not a validation: {error}", path.display())))?;
        if (document.format.as_str(), document.version) != (FORMAT, VERSION) {
            let what = format!("{}: not a {FORMAT} of version {VERSION}", path.display());
            return Err(Failure::bad_input(what).into());
        }
        documents.push(document);
    }
    let document = Document::merge(documents).map_err(Failure::bad_input)?;
    if args.json {
        write_stdout(&json::line(&document)?)?;
    } else {
        let screen = display.screen();
        let bad = document.results.iter().filter(|judged| judged.verdict != Verdict::Matched);
        let mut text: String = bad.map(|judged| report::line(screen, judged)).collect();
        text.push_str(&report::summary(screen, &document.summary));
        if document.missing() > 0 {
            let verb = if document.missing() == 1 { "is" } else { "are" };
            let planned = drills(document.planned);
            text.push_str(&format!("  {} of {planned} {verb} in none of the files\n", document.missing()));
        }
        display.output().print(&text)?;
    }
    // What was not drilled proves nothing: a shard that got lost must not look like success.
    match document.summary.verdict() {
        Verdict::Matched if document.missing() > 0 => Ok(ExitCode::from(Verdict::Inconclusive.exit_code())),
        _ => Ok(exit_code(&document)),
    }
}

fn exit_code(document: &Document) -> ExitCode {
    ExitCode::from(document.summary.verdict().exit_code())
}

fn deliver(display: Display, args: &ValidateArgs, document: &Document, directory: &Path) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.junit {
        fs::write(path, report::junit(document)?).map_err(|error| Failure::of_io("write", path, &error))?;
    }
    let kept = if args.reports.is_empty() { Vec::new() } else { results::kept(directory)? };
    file::write_validation(&args.reports, document, &kept)?;
    if args.json {
        write_stdout(&json::line(document)?)?;
    } else {
        display.output().print(&report::summary(display.screen(), &document.summary))?;
    }
    Ok(exit_code(document))
}

struct Validation<'a> {
    display: Display,
    args: &'a ValidateArgs,
    signals: &'a Signals,
    shell: ShellBehaviour,
    quiet: bool,
}

impl Validation<'_> {
    async fn run(
        &self,
        plan: Plan,
        mut results: Results,
        isolation: crate::isolation::Isolation,
    ) -> anyhow::Result<Document> {
        let started_ns = clock::now_ns();
        self.say(&heading(self.display.screen(), &plan, &results))?;
        let todo: Vec<Item> = plan.items.iter().filter(|item| !results.has(item.number)).cloned().collect();
        let bar = self.progress(todo.len());
        let mut diverged = Vec::new();
        for clock in [ClockChoice::Stepped, ClockChoice::Scaled] {
            let items: Vec<Item> = todo.iter().filter(|item| item.clock == clock).cloned().collect();
            if items.is_empty() {
                continue;
            }
            let lanes = self.args.jobs.unwrap_or_else(|| default_jobs(clock)).min(items.len());
            let mut crew = Crew::start(
                lanes,
                Places {
                    work: results.directory(),
                    scratch: None,
                    kept: Some(&results.kept_in()),
                    kept_below: lane::kept_below(&plan.items),
                },
                isolation.clone(),
                self.shell,
                Crew::waits(clock),
                Pace::from(self.args.speed),
                usize::from(self.args.attempts),
            )?;
            crew.worker.clone_from(&plan.worker);
            let done = self.work_off(&mut crew, items, &mut results, &bar, &mut diverged, plan.items.len()).await;
            crew.stop().await;
            if !done? {
                break;
            }
        }
        bar.finish_and_clear();
        results.tidy();
        let mut results_in_order = results.all().to_vec();
        results_in_order.sort_by_key(|judged| judged.number);
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let cpu_us = [usage.user_time(), usage.system_time()].map(|time| time.tv_sec() * 1_000_000 + time.tv_usec());
        let summary = Summary {
            wall_ms: (clock::now_ns() - started_ns) / 1_000_000,
            cpu_ms: u64::try_from(cpu_us.iter().sum::<i64>() / 1000).unwrap_or(0),
            ..Summary::of(&results_in_order)
        };
        let document = Document {
            format: FORMAT.to_owned(),
            version: VERSION,
            seed: plan.seed,
            planned: plan.planned,
            shard: plan.shard,
            summary,
            results: results_in_order,
        };
        results.finish(&document)?;
        Ok(document)
    }

    /// False when a person wants it to stop.
    async fn work_off(
        &self,
        crew: &mut Crew,
        items: Vec<Item>,
        results: &mut Results,
        bar: &ProgressBar,
        shrunk: &mut Vec<Scenario>,
        planned: usize,
    ) -> anyhow::Result<bool> {
        let stop = crew::stop_wakeup(self.signals)?;
        let by_number: std::collections::HashMap<usize, Item> =
            items.iter().map(|item| (item.number, item.clone())).collect();
        crew.add(items);
        let mut to_shrink = Vec::new();
        let stopped = format!("stopped; go on with --resume {}\n", results.directory().display());
        loop {
            let judged = tokio::select! {
                biased;
                _ = stop.readable() => {
                    bar.suspend(|| self.say(&stopped))?;
                    return Ok(false);
                }
                judged = crew.next() => judged?,
            };
            let Some(judged) = judged else { break };
            results.add(&judged)?;
            bar.inc(1);
            if self.gets_a_line(&judged, planned) {
                bar.suspend(|| self.say(&report::line(self.display.screen(), &judged)))?;
            }
            if judged.verdict == Verdict::Diverged
                && let Some(item) = by_number.get(&judged.number)
            {
                to_shrink.push(item.clone());
            }
        }
        for item in to_shrink {
            let smallest = tokio::select! {
                biased;
                _ = stop.readable() => {
                    bar.suspend(|| self.say(&stopped))?;
                    return Ok(false);
                }
                smallest = self.shrink(crew, &item) => smallest?,
            };
            let path = results.keep(&smallest)?;
            let fields = shrink::changed_fields(&smallest).join(", ");
            let text = format!("shrunk {} to {} ({fields})\n", item.scenario.name, path.display());
            bar.suspend(|| self.say(&text))?;
            shrunk.push(smallest);
        }
        Ok(true)
    }

    async fn shrink(&self, crew: &mut Crew, item: &Item) -> anyhow::Result<Scenario> {
        let mut smallest = shrink::shrink(item.scenario.clone(), async |candidate: &Scenario| {
            crew.add([Item { scenario: candidate.clone(), ..item.clone() }]);
            let judged: Option<Judged> = crew.next().await?;
            Ok::<bool, anyhow::Error>(judged.is_some_and(|judged| judged.verdict == Verdict::Diverged))
        })
        .await?;
        smallest.name = format!("shrunk-{}", item.scenario.name);
        Ok(smallest)
    }

    /// One that matched is progress, and nothing for a file, unless more is to be shown. With --json the document has
    /// every result.
    fn gets_a_line(&self, judged: &Judged, planned: usize) -> bool {
        let is_result = judged.verdict != Verdict::Matched || self.display.verbose;
        if self.quiet {
            self.is_watched() && (is_result || planned <= LINES)
        } else {
            is_result || planned <= LINES && self.is_watched()
        }
    }

    /// Whether what a person reads goes to a terminal.
    fn is_watched(&self) -> bool {
        if self.quiet { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() }
    }

    fn say(&self, text: &str) -> anyhow::Result<()> {
        // With --json, what a person reads goes where it does not mix with the document.
        if self.quiet { Output::print_error(self.display.output(), text) } else { self.display.output().print(text) }?;
        Ok(())
    }

    fn progress(&self, length: usize) -> ProgressBar {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let rate = |state: &ProgressState, text: &mut dyn Write| {
            let _ = write!(text, "{:.1}/s", state.per_sec());
        };
        let bar = if self.display.screen().width < 60 { 10 } else { 30 };
        let style = ProgressStyle::with_template(&format!("{{bar:{bar}}} {{pos}}/{{len}} {{rate}} {{eta}} left"))
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .with_key("rate", rate);
        ProgressBar::with_draw_target(Some(length as u64), target).with_style(style)
    }
}

fn heading(screen: Screen, plan: &Plan, results: &Results) -> String {
    let count = |clock| plan.items.iter().filter(|item| item.clock == clock).count();
    let mut text = String::new();
    if let Some(seed) = plan.seed {
        text.push_str(&format!("seed {seed}\n"));
    }
    let (stepped, scaled) = (count(ClockChoice::Stepped), count(ClockChoice::Scaled));
    let mut line = match (stepped, scaled) {
        (stepped, 0) => format!("{} on the stepped clock", drills(stepped)),
        (0, scaled) => format!("{} on the scaled clock", drills(scaled)),
        (stepped, scaled) => {
            format!("{} on the stepped clock, and {scaled} of them as a sample on the scaled one", drills(stepped))
        }
    };
    if plan.shard != [1, 1] {
        line.push_str(&format!(" (shard {}/{} of {})", plan.shard[0], plan.shard[1], drills(plan.planned)));
    }
    let done = results.all().len();
    if done > 0 {
        line.push_str(&format!("; {done} are done already"));
    }
    text.push_str(&screen.wrap(&line, "", ""));
    text
}

/// Stepped drills keep the CPU busy; scaled ones mostly wait.
pub(crate) fn default_jobs(clock: ClockChoice) -> usize {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    match clock {
        ClockChoice::Stepped => cores + 1,
        ClockChoice::Scaled => cores * 4,
    }
}
