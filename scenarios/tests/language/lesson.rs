//! Every claim, on the model.

use scenarios::{Event, EventKind, Host, Outcome, ShellBehaviour, Tick, catalogue, expect, lesson};

const SHELLS: [ShellBehaviour; 2] = [ShellBehaviour::Stays, ShellBehaviour::BecomesWorker];

fn host(shell: ShellBehaviour) -> Host {
    Host { shell, custom: None }
}

#[test]
fn the_model_keeps_every_claim() {
    for shell in SHELLS {
        for claim in lesson::claims().filter(|claim| claim.holds_for(shell)) {
            let scenario = catalogue::get(claim.scenario).unwrap();
            let expected = expect(scenario, &host(shell));
            claim.check(&expected.events, &expected.outcome).unwrap_or_else(|wrong| panic!("{wrong}"));
        }
    }
}

#[test]
fn every_scenario_has_one_claim_for_every_machine() {
    for shell in SHELLS {
        let claimed: Vec<&str> = lesson::claims().filter(|c| c.holds_for(shell)).map(|c| c.scenario).collect();
        let scenarios: Vec<&str> = catalogue::all().iter().map(|scenario| scenario.name.as_str()).collect();
        assert_eq!(claimed, scenarios);
    }
}

/// A claim that accepts anything would be worth nothing: whatever one event is changed to is found, unless claims are
/// silent on it.
#[test]
fn a_claim_notices_what_it_speaks_of() {
    for claim in lesson::claims().filter(|claim| claim.holds_for(ShellBehaviour::Stays)) {
        let scenario = catalogue::get(claim.scenario).unwrap();
        let expected = expect(scenario, &host(ShellBehaviour::Stays));
        for index in 0..expected.events.len() {
            let spoken_of = !matches!(
                expected.events[index].kind,
                EventKind::StageEntered { .. }
                    | EventKind::WorkerStarted { .. }
                    | EventKind::WorkerReady { .. }
                    | EventKind::SigtermSent { .. }
                    | EventKind::SigtermSkipped { .. }
                    | EventKind::SigtermIgnored { .. }
                    | EventKind::SigkillSent { .. }
                    | EventKind::ReadinessWithdrawn { .. }
            );
            let mut fewer = expected.events.clone();
            let gone = fewer.remove(index);
            let found = claim.check(&fewer, &Outcome::of(scenario, &fewer)).is_err();
            assert!(found || !spoken_of, "{}: without {gone:?}", claim.scenario);
            let is_admission =
                matches!(gone.kind, EventKind::RequestAdmitted { .. } | EventKind::RequestRejected { .. });
            if spoken_of && !is_admission {
                let mut later = expected.events.clone();
                later[index] = Event { t: Tick(gone.t.0 + 1), ..gone };
                let found = claim.check(&later, &Outcome::of(scenario, &later)).is_err();
                assert!(found, "{}: {gone:?} a tick later", claim.scenario);
            }
        }
    }
}
