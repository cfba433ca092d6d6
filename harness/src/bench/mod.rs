//! `termdrill bench`: what a drill costs on this machine, and how soon and how late things happen on it.
//!
//! Nothing is measured in another way than it is drilled: the crew of `validate` drills, and its results are summed up.

mod figures;
mod text;

use std::{fs, path::Path, process::ExitCode};

use anyhow::Context;
use scenarios::{Scenario, ShellBehaviour, catalogue, random};
use worker::clock;

use self::figures::{AtSpeed, Document, FORMAT, Latency, Throughput, VERSION};
use crate::{
    cli::{BenchArgs, ClockChoice, Display},
    failure::Failure,
    host,
    isolation::{Isolation, Signals, isolate},
    record::Verdict,
    report::{Output, json, write_stdout},
    runtime,
    scratch::Scratch,
    validate::{
        crew::{Crew, Pace, Places, stop_wakeup},
        default_jobs,
        item::{Cpu, Item, Judged},
    },
};

/// What generated scenarios are generated from.
const SEED: u64 = 1;
/// The speed at which scaled drills begin, which is lowered to what the machine bears.
const SPEED: f64 = 30.0;
/// A difference has to show twice to count. What is late twice would be made ever slower, and measured for long: it is counted.
const ATTEMPTS: usize = 2;
/// The speeds at which lateness is measured.
const SPEEDS: [f64; 4] = [10.0, 20.0, 30.0, 60.0];
/// The drill of the throughput, and that of the latencies: its worker drains, and is killed at the deadline.
const OPENING: &str = "ignored-signal";
const DRAINED_AND_KILLED: &str = "handler-grace-10";

/// Measures, and tells what came of it.
///
/// # Errors
/// The machine can't run any drill.
pub fn bench(display: Display, args: &BenchArgs) -> anyhow::Result<ExitCode> {
    let signals = Signals::catch().context("the handlers for Ctrl-C and the like can't be installed")?;
    let shell = host::shell_behaviour()?;
    let isolation = isolate();
    let folder = Scratch::make()?;
    let bench = Bench { display, args, signals: &signals, shell, isolation, folder };
    let document = runtime::block_on(bench.run())??;
    drop(bench);
    signals.end_by_what_was_received()?;
    let Some(document) = document else { return Ok(ExitCode::SUCCESS) };
    if args.json {
        write_stdout(&json::line(&document)?)?;
    } else {
        display.output().print(&text::report(display.screen(), &document))?;
    }
    let diverged = document.throughput.iter().any(|measured| measured.diverged > 0);
    Ok(ExitCode::from(if diverged { Verdict::Diverged } else { Verdict::Matched }.exit_code()))
}

struct Bench<'a> {
    display: Display,
    args: &'a BenchArgs,
    signals: &'a Signals,
    shell: ShellBehaviour,
    isolation: Isolation,
    folder: Scratch,
}

/// How drills are to be made for some time.
#[derive(Clone, Copy)]
struct Manner {
    clock: ClockChoice,
    lanes: usize,
    speed: f64,
    attempts: usize,
}

/// What came of it.
struct Drilled {
    results: Vec<Judged>,
    /// How many of them were there when the time was over, with every lane at work until then; and that time.
    in_time: usize,
    in_time_ns: u64,
    /// The CPU time of the process that gives out the drills.
    outer_us: u64,
}

impl Bench<'_> {
    /// `None` when a person wants it to stop.
    async fn run(&self) -> anyhow::Result<Option<Document>> {
        let opening = catalogued(OPENING)?;
        let mut throughput = Vec::new();
        for (what, clock) in [
            ("opening drill", ClockChoice::Stepped),
            ("random mix", ClockChoice::Stepped),
            ("random mix", ClockChoice::Scaled),
        ] {
            self.tell(&format!("{what}, {} clock", clock.name()))?;
            let manner = Manner { clock, lanes: default_jobs(clock), speed: SPEED, attempts: ATTEMPTS };
            let scenario = |number| match what {
                "opening drill" => opening.clone(),
                _ => random::scenario(SEED, number),
            };
            let Some(drilled) = self.drill(manner, scenario).await? else { return Ok(None) };
            throughput.push(Throughput::of(what, clock, manner.lanes, &drilled));
        }

        self.tell("signals")?;
        let drained = catalogued(DRAINED_AND_KILLED)?;
        let alone = Manner { clock: ClockChoice::Stepped, lanes: 1, speed: SPEED, attempts: 1 };
        let Some(drilled) = self.drill(alone, |_| drained.clone()).await? else { return Ok(None) };
        let latencies = Latency::all(&drilled.results);

        let mut lateness = Vec::new();
        for speed in SPEEDS {
            self.tell(&format!("lateness at speed {speed}"))?;
            let manner = Manner { clock: ClockChoice::Scaled, lanes: 1, speed, attempts: 1 };
            let Some(drilled) = self.drill(manner, |_| opening.clone()).await? else { return Ok(None) };
            lateness.push(AtSpeed::of(speed, &drilled.results));
        }
        Ok(Some(Document {
            format: FORMAT,
            version: VERSION,
            program: env!("CARGO_PKG_VERSION"),
            cores: cores(),
            load: load(),
            seconds: self.args.seconds,
            throughput,
            latencies,
            lateness,
        }))
    }

    /// Drills one scenario after another, until the time is over and what was begun is done.
    async fn drill(&self, manner: Manner, scenario: impl Fn(u64) -> Scenario) -> anyhow::Result<Option<Drilled>> {
        let Manner { clock, lanes, speed, attempts } = manner;
        let stop = stop_wakeup(self.signals)?;
        let mut crew = self.crew(manner)?;
        let mut numbers = 1..;
        let mut item = || {
            let number: u64 = numbers.next().unwrap_or_default();
            Item { number: usize::try_from(number).unwrap_or(usize::MAX), scenario: scenario(number), clock }
        };
        let (mut results, mut begun) = (Vec::new(), None);
        let (mut in_time, mut in_time_ns) = (0, u64::from(self.args.seconds) * 1_000_000_000);
        crew.add((0..lanes).map(|_| item()));
        let drilled = loop {
            let judged = tokio::select! {
                biased;
                _ = stop.readable() => break None,
                judged = crew.next() => judged?,
            };
            let now_ns = clock::now_ns();
            // The first one of all warms up: its lane had to be started.
            let &mut (begun_ns, outer) = begun.get_or_insert((now_ns, Cpu::so_far()));
            let Some(judged) = judged else {
                let outer = Cpu::so_far().since(outer);
                let outer_us = outer.harness_user_us + outer.harness_system_us;
                in_time_ns = in_time_ns.min(now_ns - begun_ns);
                break Some(Drilled { results, in_time, in_time_ns, outer_us });
            };
            if attempts == 1 {
                // The speed is what is measured, and is not learnt.
                crew.pace = Pace::from(speed);
            }
            let is_first = now_ns == begun_ns;
            if now_ns - begun_ns < in_time_ns {
                crew.add([item()]);
                in_time += usize::from(!is_first);
            }
            if !is_first {
                results.push(judged);
            }
        };
        crew.stop().await;
        Ok(drilled)
    }

    fn crew(&self, manner: Manner) -> anyhow::Result<Crew> {
        let directory: &Path = self.folder.path();
        fs::create_dir_all(directory).map_err(|error| Failure::of_io("make", directory, &error))?;
        let scaled = Crew::waits(manner.clock);
        let isolation = self.isolation.clone();
        let places = Places { work: directory, scratch: Some(self.folder.path()), kept: None, kept_below: 0 };
        Crew::start(manner.lanes, places, isolation, self.shell, scaled, Pace::from(manner.speed), manner.attempts)
    }

    /// Says what is measured now, to a person who waits.
    fn tell(&self, what: &str) -> anyhow::Result<()> {
        Ok(Output::print_error(self.display.output(), &format!("measures: {what}\n"))?)
    }
}

fn catalogued(name: &str) -> anyhow::Result<Scenario> {
    catalogue::get(name).cloned().with_context(|| format!("{name} is not in the catalogue"))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// How many tasks wanted a CPU in the last minute, on average (`proc_loadavg(5)`); our own are among them.
fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}
