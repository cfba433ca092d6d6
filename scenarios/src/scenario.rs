//! A scenario: one drill, described.

use serde::{Deserialize, Serialize};

use crate::{Effect, Entrypoint, RequestId, Span, Tick};

/// One drill. Times are on the 0.1 s grid; the bounds of each field are in the contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Scenario {
    /// Its name in the catalogue, kebab-case.
    pub name: String,
    /// What it is, in one line.
    pub title: String,
    /// What it shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How many workers are started at t = 0; 1..=64.
    pub initial_workers: u8,
    /// How many invocations one worker holds at once; 1..=64.
    pub slots_per_worker: u8,
    /// From a process's start to its readiness; 0.1..=30 s.
    pub startup_s: Span,
    /// Whether worker 1 exits 1 at the end of its startup.
    pub fail_worker_1: bool,
    /// From one arrival to the next; 0.1..=40 s.
    pub request_interval_s: Span,
    /// How long an invocation takes; 0.1..=60 s.
    pub invocation_s: Span,
    /// Whether the router chooses among ready workers only.
    pub ready_only_routing: bool,
    /// When worker 1 gets SIGTERM; 1..=40 s.
    pub signal_at_s: Span,
    /// From SIGTERM to SIGKILL; 0..=20 s.
    pub grace_period_s: Span,
    /// What a worker does about SIGTERM.
    pub on_sigterm: OnSigterm,
    /// When a worker that drains installs its handler.
    pub handler_installed: HandlerInstalled,
    /// How the worker's command line is wrapped.
    pub entrypoint: Entrypoint,
    /// What a custom entrypoint is said to do with SIGTERM; only for a custom entrypoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_effect: Option<Effect>,
    /// Whether the entrypoint's first process is PID 1 of its own PID namespace, as in a container.
    pub pid_namespace: bool,
    /// Whether one more worker is started when worker 1 is told to stop.
    pub boot_replacement: bool,
    /// How many percent of the arrivals may be rejected for the gate to pass; 0..=100.
    pub rejection_allowance_percent: u8,
}

/// What a worker does about SIGTERM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnSigterm {
    /// A handler withdraws readiness and lets the work in flight finish.
    Drain,
    /// No handler at all.
    #[default]
    Default,
    /// The signal's disposition is SIG_IGN.
    Ignore,
}

/// When a worker that drains installs its handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandlerInstalled {
    /// First thing.
    #[default]
    AtStart,
    /// When the boot ends, right before it is ready.
    AfterBoot,
}

impl OnSigterm {
    /// All postures.
    pub const ALL: [OnSigterm; 3] = [OnSigterm::Drain, OnSigterm::Default, OnSigterm::Ignore];

    /// Its name as in a scenario.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OnSigterm::Drain => "drain",
            OnSigterm::Default => "default",
            OnSigterm::Ignore => "ignore",
        }
    }
}

impl HandlerInstalled {
    /// All moments.
    pub const ALL: [HandlerInstalled; 2] = [HandlerInstalled::AtStart, HandlerInstalled::AfterBoot];

    /// Its name as in a scenario.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            HandlerInstalled::AtStart => "at_start",
            HandlerInstalled::AfterBoot => "after_boot",
        }
    }
}

/// When the first request arrives.
pub const FIRST_ARRIVAL: Tick = Tick(10);
/// The last moment at which a request can arrive.
pub const LAST_ARRIVAL: Tick = Tick(400);

impl Scenario {
    /// A scenario of this name and title with everything else at its default: the lesson's opening settings.
    #[must_use]
    pub fn new(name: &str, title: &str) -> Scenario {
        Scenario {
            name: name.to_owned(),
            title: title.to_owned(),
            why: None,
            initial_workers: 1,
            slots_per_worker: 4,
            startup_s: Span::seconds(4),
            fail_worker_1: false,
            request_interval_s: Span::seconds(2),
            invocation_s: Span::seconds(20),
            ready_only_routing: true,
            signal_at_s: Span::seconds(30),
            grace_period_s: Span::seconds(10),
            on_sigterm: OnSigterm::Default,
            handler_installed: HandlerInstalled::AtStart,
            entrypoint: Entrypoint::Exec,
            expected_effect: None,
            pid_namespace: true,
            boot_replacement: false,
            rejection_allowance_percent: 25,
        }
    }

    /// When worker 1 gets SIGTERM.
    #[must_use]
    pub fn signal_at(&self) -> Tick {
        Tick::START + self.signal_at_s
    }

    /// When the grace period ends.
    #[must_use]
    pub fn deadline(&self) -> Tick {
        self.signal_at() + self.grace_period_s
    }

    /// Every request with the tick of its arrival, in order.
    pub fn arrivals(&self) -> impl Iterator<Item = (RequestId, Tick)> + use<> {
        let interval = self.request_interval_s.0.max(1);
        (1..).zip((FIRST_ARRIVAL.0..=LAST_ARRIVAL.0).step_by(interval as usize)).map(|(n, t)| (RequestId(n), Tick(t)))
    }

    /// How many workers the drill starts in all, the replacement included.
    #[must_use]
    pub fn workers(&self) -> u16 {
        u16::from(self.initial_workers) + u16::from(self.boot_replacement)
    }
}
