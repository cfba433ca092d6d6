//! What the page has to show of a scenario at one moment, from the model alone.

use std::{
    process::{Command, Stdio},
    sync::OnceLock,
};

use scenarios::{Gate, Host, Scenario, ShellBehaviour, Tick, View, expect, fate::fate, view::Counts};
use serde::Deserialize;

/// What an experiment without a name of its own is called by the page.
pub(crate) const NAME: &str = "my-experiment";
const TITLE: &str = "My experiment";

/// What is to be read on the page, as it is written there.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) title: String,
    pub(crate) why: String,
    /// The effect of SIGTERM, by its name.
    pub(crate) effect: String,
    pub(crate) tick: u32,
    /// Arrived, admitted, rejected, completed, killed, in flight; at `tick`.
    pub(crate) now: Vec<String>,
    /// The same at the end of the drill.
    pub(crate) end: Vec<String>,
    pub(crate) gate: String,
    pub(crate) gate_reason: String,
    /// Time and text of every decision up to `tick` but the stages.
    pub(crate) decisions: Vec<(String, String)>,
    /// Request, sum, time and worker of every result up to `tick`.
    pub(crate) store: Vec<Vec<String>>,
    pub(crate) workers: Vec<String>,
}

/// A scenario as the page makes one of an address with these fields: `grace_period_s=12`, …
pub(crate) fn scenario(settings: &[&str]) -> Scenario {
    Scenario::new(NAME, TITLE).with_settings(settings.iter().copied()).unwrap()
}

/// This machine: whether its `/bin/sh` stays in front of a command, which then has another number than the shell.
#[expect(clippy::disallowed_methods, reason = "the one place that asks the shell")]
fn host() -> Host {
    static SHELL: OnceLock<ShellBehaviour> = OnceLock::new();
    let shell = *SHELL.get_or_init(|| {
        let mut shell = Command::new("/bin/sh");
        let child = shell.args(["-c", "cat /proc/self/stat"]).stdout(Stdio::piped()).spawn().unwrap();
        let number = format!("{} ", child.id());
        let becomes = child.wait_with_output().unwrap().stdout.starts_with(number.as_bytes());
        if becomes { ShellBehaviour::BecomesWorker } else { ShellBehaviour::Stays }
    });
    Host { shell, custom: None }
}

/// What the model expects of it on this machine, laid out.
pub(crate) fn view(scenario: &Scenario) -> View {
    View::new(scenario, &expect(scenario, &host()).events)
}

/// What the page shows of it at `tick`.
pub(crate) fn shown(scenario: &Scenario, tick: u32) -> Shown {
    let (outcome, view) = (expect(scenario, &host()).outcome, view(scenario));
    let frame = view.at(Tick(tick));
    let decisions = view.decisions.iter().take(frame.decisions).filter(|decision| decision.event != "stage_entered");
    let store = frame.store.iter();
    Shown {
        title: scenario.title.clone(),
        why: scenario.why.clone().unwrap_or_default(),
        effect: fate(scenario, &host()).effect.name().to_owned(),
        tick,
        now: counts(&frame.counts),
        end: counts(&view.at(Tick::END).counts),
        gate: format!("gate: {}", if outcome.gate == Gate::Pass { "PASS" } else { "FAIL" }),
        gate_reason: format!(
            "{} killed, {} still running at the end, {:.1} % rejected where {} % are allowed.",
            outcome.killed.len(),
            outcome.running.len(),
            outcome.rejected_percent,
            scenario.rejection_allowance_percent
        ),
        decisions: decisions.map(|decision| (seconds(decision.tick), decision.text.clone())).collect(),
        store: store
            .map(|row| vec![row.request.to_string(), row.sum.to_string(), seconds(row.tick), row.worker.to_string()])
            .collect(),
        workers: view.lanes.iter().map(|lane| lane.worker.to_string()).collect(),
    }
}

fn counts(counts: &Counts) -> Vec<String> {
    let rejected = format!("{} ({:.1} %)", counts.rejected, counts.rejected_percent);
    let number = |count: u16| count.to_string();
    let Counts { arrivals, admitted, completed, killed, in_flight, .. } = *counts;
    vec![number(arrivals), number(admitted), rejected, number(completed), number(killed), number(in_flight)]
}

/// `31.0 s`
pub(crate) fn seconds(tick: Tick) -> String {
    format!("{:.1} s", tick.seconds())
}
