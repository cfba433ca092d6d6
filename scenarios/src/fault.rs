//! Faults that a drill can be seeded with, one at a time, to prove that the comparison can fail.

use std::{fmt, str::FromStr};

/// What goes wrong on purpose, each in the place where such a mistake would really be made. Faults of the worker travel
/// to it in its environment; the others are the harness's and the router's.
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
    /// The harness counts the grace period from the start of the drill instead of from SIGTERM.
    GraceFromStart,
    /// The harness takes "SIGTERM was sent" for "the process has ended", so that SIGKILL never follows.
    TakesSignalForEnd,
    /// The harness waits for the entrypoint's first process only, and not for what lives on below it.
    WaitsForLeaderOnly,
    /// The harness sends SIGTERM twice.
    SignalsTwice,
    /// The harness sends SIGKILL one tick early.
    KillsOneTickEarly,
    /// The harness sends SIGKILL one tick late.
    KillsOneTickLate,
    /// A completion at the very deadline loses: on a scaled clock the worker aims its commits at the end of their tick,
    /// on a stepped one the harness kills before the workers get to do what is due.
    DeadlineWinsTie,
    /// The worker withdraws its readiness one tick after SIGTERM.
    WithdrawsLate,
    /// The router gives a tie to the worker with the highest number.
    HighestWinsTie,
    /// The worker frees the slot of a committed invocation one tick late.
    FreesSlotLate,
    /// The worker commits one tick before the last stage begins.
    CommitsEarly,
    /// The worker commits every result twice.
    CommitsTwice,
    /// On SIGTERM the worker stores the results of everything in flight and tells nobody, so that an invocation that is
    /// killed afterwards has a result.
    CommitsKilled,
    /// The harness reports a death by a signal as an exit with 128 and the signal's number.
    FoldsStatus,
}

impl Fault {
    /// All of them, with their names.
    pub const NAMED: [(&'static str, Fault); 20] = [
        ("wrong_sum", Fault::WrongSum),
        ("long_stage", Fault::LongStage),
        ("keeps_readiness", Fault::KeepsReadiness),
        ("exits_early", Fault::ExitsEarly),
        ("kills_early", Fault::KillsEarly),
        ("signals_wrong_worker", Fault::SignalsWrongWorker),
        ("grace_from_start", Fault::GraceFromStart),
        ("takes_signal_for_end", Fault::TakesSignalForEnd),
        ("waits_for_leader_only", Fault::WaitsForLeaderOnly),
        ("signals_twice", Fault::SignalsTwice),
        ("kills_one_tick_early", Fault::KillsOneTickEarly),
        ("kills_one_tick_late", Fault::KillsOneTickLate),
        ("deadline_wins_tie", Fault::DeadlineWinsTie),
        ("withdraws_late", Fault::WithdrawsLate),
        ("highest_wins_tie", Fault::HighestWinsTie),
        ("frees_slot_late", Fault::FreesSlotLate),
        ("commits_early", Fault::CommitsEarly),
        ("commits_twice", Fault::CommitsTwice),
        ("commits_killed", Fault::CommitsKilled),
        ("folds_status", Fault::FoldsStatus),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Fault::NAMED[self as usize].0
    }

    /// What goes wrong, in a few words.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Fault::WrongSum => "a sum that is one too high is committed",
            Fault::LongStage => "the last stage takes a third of the invocation longer",
            Fault::KeepsReadiness => "a draining worker never withdraws its readiness",
            Fault::ExitsEarly => "the worker exits 0 in the middle of the last stage",
            Fault::KillsEarly => "SIGKILL is sent one second early",
            Fault::SignalsWrongWorker => "SIGTERM goes to another worker",
            Fault::GraceFromStart => "the grace period counts from the start of the drill",
            Fault::TakesSignalForEnd => "\"SIGTERM was sent\" is taken for \"the process has ended\"",
            Fault::WaitsForLeaderOnly => "only the first process of the entrypoint is waited for",
            Fault::SignalsTwice => "SIGTERM is sent twice",
            Fault::KillsOneTickEarly => "SIGKILL is sent one tick early",
            Fault::KillsOneTickLate => "SIGKILL is sent one tick late",
            Fault::DeadlineWinsTie => "a completion at the very deadline loses",
            Fault::WithdrawsLate => "readiness is withdrawn one tick late",
            Fault::HighestWinsTie => "a tie goes to the worker with the highest number",
            Fault::FreesSlotLate => "the slot of a committed invocation is freed one tick late",
            Fault::CommitsEarly => "the commit comes before the last stage",
            Fault::CommitsTwice => "every result is committed twice",
            Fault::CommitsKilled => "an invocation that is killed has a result in the store",
            Fault::FoldsStatus => "death by a signal is reported as an exit with 128 and its number",
        }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fault_has_a_name_of_its_own_and_is_found_by_it() {
        let names: BTreeSet<&str> = Fault::NAMED.map(|(name, _)| name).into();
        assert_eq!(names.len(), Fault::NAMED.len());
        for (index, (name, fault)) in Fault::NAMED.into_iter().enumerate() {
            assert_eq!((fault as usize, fault.name(), name.parse()), (index, name, Ok(fault)));
        }
        assert!("none".parse::<Fault>().unwrap_err().contains("wrong_sum, long_stage"));
    }
}
