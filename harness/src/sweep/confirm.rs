//! Holds real processes against what was found: each grace period that matters is drilled on the stepped clock.

use std::path::PathBuf;

use scenarios::{RequestId, Scenario, ShellBehaviour, Span};
use serde::Serialize;

use super::find::Loss;
use crate::{
    drill::StopPipe,
    isolation::Isolation,
    record::{Record, Verdict},
    run,
};

/// What a drill with real processes made of one claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Confirmed {
    /// The grace period.
    pub grace_period_s: Span,
    /// Whether the processes did what the model expects, and lost what was claimed and nothing else.
    pub verdict: Verdict,
    /// What was killed; none where no drill could be made.
    pub killed: Option<Vec<RequestId>>,
    /// What was still running at the end.
    pub running: Option<Vec<RequestId>>,
    /// Why the verdict is not `matched`, in whole sentences.
    pub reasons: Vec<String>,
    /// How long the drill took, all attempts together, in real milliseconds.
    pub wall_ms: u64,
    /// Where the run is stored.
    #[serde(with = "crate::os_path::shown")]
    pub run: PathBuf,
}

/// Drills `scenario` with the grace period of `claim`.
///
/// # Errors
/// The run can't be stored, or the machine can't run any drill.
pub(super) async fn confirm(
    scenario: &Scenario,
    claim: &Loss,
    shell: ShellBehaviour,
    isolation: &Isolation,
    stop: &StopPipe,
) -> anyhow::Result<Confirmed> {
    let scenario = Scenario { grace_period_s: claim.grace_period_s, ..scenario.clone() };
    let (record, run) = run::stepped(&scenario, shell, isolation, stop).await?;
    Ok(judge(claim, &record, run))
}

/// Pure.
fn judge(claim: &Loss, record: &Record, run: PathBuf) -> Confirmed {
    let last = record.attempts.last();
    let mut reasons: Vec<String> =
        last.iter().filter_map(|last| last.difference.as_ref()).map(|d| d.what.clone()).collect();
    reasons.extend(record.reasons.iter().cloned());
    let outcome = last.map(|last| &last.outcome);
    let as_claimed = outcome.is_some_and(|outcome| outcome.killed == claim.killed && outcome.running == claim.running);
    let mut verdict = record.verdict;
    // An entrypoint of the user's own is measured before the drill, and the model that it is then compared with may
    // know more than the one that was asked.
    if verdict == Verdict::Matched && !as_claimed {
        verdict = Verdict::Diverged;
        reasons.push("The entrypoint does something else here than the scenario says of it.".to_owned());
    }
    Confirmed {
        grace_period_s: claim.grace_period_s,
        verdict,
        killed: outcome.map(|outcome| outcome.killed.clone()),
        running: outcome.map(|outcome| outcome.running.clone()),
        reasons,
        wall_ms: record.attempts.iter().map(|attempt| attempt.wall_ms).sum(),
        run,
    }
}

/// What all of them come to: the worst.
pub(super) fn worst(confirmed: &[Confirmed]) -> Verdict {
    let is = |verdict: Verdict| confirmed.iter().any(|one| one.verdict == verdict);
    if is(Verdict::Diverged) {
        Verdict::Diverged
    } else if is(Verdict::Inconclusive) {
        Verdict::Inconclusive
    } else {
        Verdict::Matched
    }
}

#[cfg(test)]
mod tests {
    use scenarios::{Host, Outcome, expect};

    use super::*;
    use crate::record::Attempt;

    fn record(verdict: Verdict, outcome: Option<Outcome>) -> Record {
        let scenario = Scenario::new("a", "A");
        let expected = expect(&scenario, &Host { shell: ShellBehaviour::Stays, custom: None });
        let attempt = |outcome| Attempt {
            speed: None,
            wall_ms: 40,
            cut_off_at: None,
            events: Vec::new(),
            outcome,
            lateness: Vec::new(),
            difference: None,
            problems: Vec::new(),
            remarks: Vec::new(),
            evidence: None,
            explanation: None,
        };
        Record {
            scenario,
            expected,
            attempts: outcome.map(attempt).into_iter().collect(),
            verdict,
            reasons: Vec::new(),
        }
    }

    #[test]
    fn a_claim_holds_when_the_processes_lose_exactly_that() {
        let outcome = |killed: &[u16]| {
            let mut outcome = Outcome::of(&Scenario::new("a", "A"), &[]);
            outcome.killed = killed.iter().copied().map(RequestId).collect();
            Some(outcome)
        };
        let claim = Loss { grace_period_s: Span(189), killed: vec![RequestId(15)], running: Vec::new() };
        for (verdict, outcome, expected) in [
            (Verdict::Matched, outcome(&[15]), Verdict::Matched),
            (Verdict::Matched, outcome(&[]), Verdict::Diverged),
            (Verdict::Matched, outcome(&[15, 16]), Verdict::Diverged),
            (Verdict::Diverged, outcome(&[15]), Verdict::Diverged),
            (Verdict::Inconclusive, outcome(&[15]), Verdict::Inconclusive),
            (Verdict::Inconclusive, None, Verdict::Inconclusive),
        ] {
            let confirmed = judge(&claim, &record(verdict, outcome), PathBuf::from("runs/a"));
            assert_eq!(confirmed.verdict, expected, "{confirmed:?}");
        }
    }

    #[test]
    fn the_worst_counts() {
        use Verdict::{Diverged, Inconclusive, Matched};
        let claim = Loss { grace_period_s: Span(0), killed: Vec::new(), running: Vec::new() };
        let of = |verdict| Confirmed { verdict, ..judge(&claim, &record(verdict, None), PathBuf::new()) };
        for (verdicts, expected) in [
            (&[Matched, Matched][..], Matched),
            (&[Matched, Inconclusive], Inconclusive),
            (&[Inconclusive, Diverged], Diverged),
            (&[Diverged, Matched], Diverged),
        ] {
            assert_eq!(worst(&verdicts.iter().copied().map(of).collect::<Vec<_>>()), expected);
        }
    }
}
