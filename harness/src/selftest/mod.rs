//! `termdrill selftest`: drills that are wrong on purpose, to see that each mistake is noticed and named.
//!
//! A check that never fails proves nothing. So every fault of [`scenarios::Fault`] is seeded into a drill with
//! real processes on which it must show, and the drill has to diverge with the one event that is wrong first; the same
//! drill without the fault has to match.

mod cases;
mod check;
mod judgement;
mod pool;
mod text;

use std::{cmp::Reverse, path::Path, process::ExitCode, thread};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use scenarios::Fault;

use self::{
    cases::{CASES, Case, Drill},
    check::{Check, Finding},
    judgement::{Judgement, Row},
    pool::Played,
};
use crate::{
    cli::{ClockChoice, Display, SelftestArgs},
    isolation::Signals,
    report::{json, write_stdout},
    scratch::Scratch,
};

pub use self::check::inner;

/// The hidden command of this program that plays one drill of the self-test.
pub const CHECK: &str = "selftest-drill";

/// How many drills are played at once for each processor: on a scaled clock most of a drill is waiting.
const DRILLS_PER_PROCESSOR: usize = 4;

/// Plays every case on every clock that was asked for, and tells what was caught.
///
/// # Errors
/// No process can be started, or the output can't be written.
pub fn run(display: Display, args: &SelftestArgs) -> anyhow::Result<ExitCode> {
    let signals = Signals::catch().context("the handlers for Ctrl-C and the like can't be installed")?;
    let folder = Scratch::make()?;
    let clocks = args.clock.clocks();
    let plan = plan(clocks);
    let checks: Vec<Check> = plan.iter().enumerate().map(|(n, played)| played.check(folder.path(), n)).collect();
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or(processors * DRILLS_PER_PROCESSOR, usize::from);
    // Hides itself where stderr is no terminal.
    let bar = ProgressBar::new(checks.len() as u64).with_style(style()?);
    let findings = pool::play_all(&checks, jobs, &signals, &bar);
    bar.finish_and_clear();
    // Gone before we are, whatever ends us.
    drop(folder);
    let Played::Findings(findings) = findings? else {
        signals.end_by_what_was_received()?;
        return Ok(ExitCode::FAILURE);
    };

    let find = |wanted: Planned| plan.iter().position(|played| *played == wanted).map(|index| &findings[index]);
    let results: Vec<Row> = CASES
        .iter()
        .map(|case| {
            let judge = |&clock: &ClockChoice| (clock, judge(case, clock, find));
            Row { case, on: clocks.iter().map(judge).collect() }
        })
        .collect();
    if args.json {
        write_stdout(&json::line(&judgement::Document::of(&results))?)?;
    } else {
        display.output().print(&text::report(display.screen(), clocks, &results))?;
    }
    Ok(ExitCode::from(judgement::exit_code(&results)))
}

fn style() -> anyhow::Result<ProgressStyle> {
    Ok(ProgressStyle::with_template("{bar:30} {pos} of {len} drills")?)
}

fn judge<'a>(case: &Case, clock: ClockChoice, find: impl Fn(Planned) -> Option<&'a Finding>) -> Judgement {
    if let Some(why) = case.not_applicable_on(clock) {
        return Judgement::NotApplicable(why.to_owned());
    }
    let drill = case.drill;
    let sound = find(Planned { clock, drill, fault: None });
    let seeded = find(Planned { clock, drill, fault: Some(case.fault) });
    match (sound, seeded) {
        (Some(sound), Some(seeded)) => judgement::judge(case, sound, seeded),
        _ => Judgement::Inconclusive("it was not played".to_owned()),
    }
}

/// A drill that is to be played, with a fault or as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Planned {
    clock: ClockChoice,
    drill: Drill,
    fault: Option<Fault>,
}

impl Planned {
    fn check(&self, folder: &Path, number: usize) -> Check {
        Check {
            scenario: self.drill.scenario(),
            clock: self.clock,
            fault: self.fault,
            directory: folder.join(number.to_string()),
            scratch: folder.to_owned(),
        }
    }

    /// How long it takes at the speed of life, roughly, in model seconds.
    fn length_s(&self) -> u32 {
        let attempts = if self.fault.is_some() { 3 } else { 1 };
        attempts * if self.fault.is_some_and(cases::goes_on) { 60 } else { self.drill.length_s() }
    }
}

/// What is to be played, in this order: on a stepped clock first, since what takes all of a processor would make the
/// others late; then the longest first, so that no processor waits for it at the end.
fn plan(clocks: &[ClockChoice]) -> Vec<Planned> {
    let mut plan = Vec::new();
    for &clock in clocks {
        plan.extend(Drill::ALL.map(|drill| Planned { clock, drill, fault: None }));
        let applicable = CASES.iter().filter(|case| case.not_applicable_on(clock).is_none());
        plan.extend(applicable.map(|case| Planned { clock, drill: case.drill, fault: Some(case.fault) }));
    }
    plan.sort_by_key(|played| (played.clock == ClockChoice::Scaled, Reverse(played.length_s())));
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_played_once_and_stepped_drills_first() {
        let both = plan(&[ClockChoice::Scaled, ClockChoice::Stepped]);
        for (index, played) in both.iter().enumerate() {
            assert_eq!(both.iter().position(|other| other == played), Some(index), "{played:?} is played twice");
        }
        let switch = both.iter().position(|played| played.clock == ClockChoice::Scaled).unwrap();
        assert!(both[switch..].iter().all(|played| played.clock == ClockChoice::Scaled));
        assert_eq!(switch, Drill::ALL.len() + CASES.len());
        assert!(both[switch..].is_sorted_by_key(|played| Reverse(played.length_s())));
    }
}
