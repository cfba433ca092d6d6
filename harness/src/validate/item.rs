//! What is to be validated, and what came of it: one scenario on one clock.

use nix::sys::resource::{Usage, UsageWho, getrusage};
use scenarios::{Scenario, ShellBehaviour};
use serde::{Deserialize, Serialize};

use crate::{
    cli::ClockChoice,
    foreign,
    record::{Difference, Lateness, Reactions, Record, Verdict},
};

/// A scenario to be drilled on a clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Its place in the whole plan, from 0 on; the same on every machine that takes a shard of it.
    pub number: usize,
    /// The scenario.
    pub scenario: Scenario,
    /// What makes its time pass.
    pub clock: ClockChoice,
}

/// An item as a lane gets it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Task {
    /// What to drill.
    pub item: Item,
    /// What this machine's `/bin/sh` does.
    pub shell: ShellBehaviour,
    /// The speed of the first attempt on a scaled clock.
    pub speed: f64,
    /// How many attempts to make at most.
    pub attempts: usize,
    /// The foreign worker to drill, if it is not our own.
    pub worker: Option<foreign::Command>,
}

/// What came of an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The item's place in the plan, from 0 on.
    pub number: usize,
    /// The scenario's name.
    pub name: String,
    /// What made its time pass.
    pub clock: ClockChoice,
    /// What it came to.
    pub verdict: Verdict,
    /// Why, in whole sentences.
    pub reasons: Vec<String>,
    /// Where model and processes differ, after the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    /// How many attempts it took.
    pub attempts: usize,
    /// The speed of the first attempt; none on a stepped clock.
    pub speed_asked: Option<f64>,
    /// The speed of the last attempt; none on a stepped clock.
    pub speed_used: Option<f64>,
    /// Whether the first attempt was in time.
    pub in_time_at_first: bool,
    /// How long all attempts took together, in real milliseconds.
    pub wall_ms: u64,
    /// How many events the model expected.
    pub events: usize,
    /// How late things were in the first attempt, by part of the tick; nothing is late on a stepped clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lateness: Vec<Lateness>,
    /// How soon the worker that was told to stop reacted, in the last attempt.
    #[serde(default)]
    pub reactions: Reactions,
    /// What all attempts cost together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
}

/// CPU time in microseconds, by whose and in which mode (`getrusage(2)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// The process that runs the drill, in user mode.
    pub harness_user_us: u64,
    /// The same in the kernel.
    pub harness_system_us: u64,
    /// All workers and what stands before them, in user mode.
    pub workers_user_us: u64,
    /// The same in the kernel.
    pub workers_system_us: u64,
}

impl Cpu {
    /// What this process and its reaped children have used so far.
    #[must_use]
    pub fn so_far() -> Cpu {
        // Neither argument can be refused.
        let [own, children] =
            [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(|who| getrusage(who).map(times).unwrap_or_default());
        Cpu {
            harness_user_us: own[0],
            harness_system_us: own[1],
            workers_user_us: children[0],
            workers_system_us: children[1],
        }
    }

    /// What was used since `before`.
    #[must_use]
    pub fn since(self, before: Cpu) -> Cpu {
        Cpu {
            harness_user_us: self.harness_user_us.saturating_sub(before.harness_user_us),
            harness_system_us: self.harness_system_us.saturating_sub(before.harness_system_us),
            workers_user_us: self.workers_user_us.saturating_sub(before.workers_user_us),
            workers_system_us: self.workers_system_us.saturating_sub(before.workers_system_us),
        }
    }
}

fn times(usage: Usage) -> [u64; 2] {
    [usage.user_time(), usage.system_time()].map(|time| (time.tv_sec() * 1_000_000 + time.tv_usec()).unsigned_abs())
}

impl Judged {
    /// Sums up the record of an item.
    #[must_use]
    pub fn of(item: &Item, record: &Record) -> Judged {
        let (first, last) = (record.attempts.first(), record.attempts.last());
        Judged {
            number: item.number,
            name: item.scenario.name.clone(),
            clock: item.clock,
            verdict: record.verdict,
            reasons: record.reasons.clone(),
            difference: last.and_then(|attempt| attempt.difference.clone()),
            attempts: record.attempts.len(),
            speed_asked: first.and_then(|attempt| attempt.speed),
            speed_used: last.and_then(|attempt| attempt.speed),
            in_time_at_first: first.is_some_and(|attempt| attempt.in_time() && attempt.problems.is_empty()),
            wall_ms: record.attempts.iter().map(|attempt| attempt.wall_ms).sum(),
            events: record.expected.events.len(),
            lateness: first.map(|attempt| attempt.lateness.clone()).unwrap_or_default(),
            reactions: Reactions::default(),
            cpu: None,
        }
    }

    /// An item that could not be drilled at all.
    #[must_use]
    pub fn failed(item: &Item, why: String) -> Judged {
        Judged {
            number: item.number,
            name: item.scenario.name.clone(),
            clock: item.clock,
            verdict: Verdict::Inconclusive,
            reasons: vec![why],
            difference: None,
            attempts: 0,
            speed_asked: None,
            speed_used: None,
            in_time_at_first: false,
            wall_ms: 0,
            events: 0,
            lateness: Vec::new(),
            reactions: Reactions::default(),
            cpu: None,
        }
    }
}
