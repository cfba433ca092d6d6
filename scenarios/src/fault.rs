//! Faults that a drill can be seeded with, one at a time, to prove that the comparison can fail.

use std::{fmt, str::FromStr};

/// What goes wrong on purpose. Faults of the worker travel to it in its environment; the others are the harness's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The worker commits a sum that is one too high.
    WrongSum,
    /// The worker stays in the last stage for a third of the invocation longer.
    LongStage,
    /// The worker drains on SIGTERM, but never says that it is no longer ready and goes on taking requests.
    KeepsReadiness,
    /// The worker exits 0 in the middle of its first invocation's last stage.
    ExitsEarly,
    /// The harness sends SIGKILL one model second before the grace period ends.
    KillsEarly,
    /// The harness sends SIGTERM to the worker with the highest number.
    SignalsWrongWorker,
}

impl Fault {
    /// All of them, with their names.
    pub const NAMED: [(&'static str, Fault); 6] = [
        ("wrong_sum", Fault::WrongSum),
        ("long_stage", Fault::LongStage),
        ("keeps_readiness", Fault::KeepsReadiness),
        ("exits_early", Fault::ExitsEarly),
        ("kills_early", Fault::KillsEarly),
        ("signals_wrong_worker", Fault::SignalsWrongWorker),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Fault::NAMED[self as usize].0
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Fault {
    type Err = String;
    fn from_str(name: &str) -> Result<Fault, String> {
        let names = || Fault::NAMED.map(|(known, _)| known).join(", ");
        let found = Fault::NAMED.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, fault)| fault).ok_or_else(|| format!("{name:?} is not a fault; there are: {}", names()))
    }
}
