//! `POST /api/model`: what should happen. Starts nothing.

use scenarios::{
    Effect, Entrypoint, Event, Expectation, Host, Outcome, Scenario, ShellBehaviour, View, expect, fate::fate,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::HttpError;
use crate::{
    failure::Failure,
    host::{self, unknown_effect},
    shell::{self, OnSigterm},
};

/// What is asked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    scenario: Value,
}

/// What is answered.
#[derive(Debug, Serialize)]
pub(super) struct ModelDocument {
    scenario: Scenario,
    /// What SIGTERM does to worker 1.
    effect: Effect,
    /// What a person should know of how that was found out, in whole sentences.
    notes: Vec<String>,
    events: Vec<Event>,
    outcome: Outcome,
    view: View,
}

/// What `/bin/sh` was seen to do, when the server started.
#[derive(Clone, Debug)]
pub(super) struct Shell {
    behaviour: Result<ShellBehaviour, Failure>,
    /// What it does about SIGTERM in front of a worker, or why that is not known and taken to be as usual.
    on_sigterm: Result<OnSigterm, String>,
}

impl Shell {
    /// Looks what it does.
    pub(super) fn look() -> Shell {
        let behaviour = host::shell_behaviour().map_err(|error| match error.downcast::<Failure>() {
            Ok(failure) => failure,
            Err(error) => Failure::unable(format!("{error:#}")),
        });
        Shell { behaviour, on_sigterm: shell::seen_by_another().map_err(|error| format!("{error:#}")) }
    }

    /// What it does with a command, if that matters.
    ///
    /// # Errors
    /// It matters, and is not known.
    pub(super) fn behaviour(&self, scenario: &Scenario) -> Result<ShellBehaviour, HttpError> {
        match scenario.entrypoint {
            Entrypoint::Shell => self.behaviour.clone().map_err(|failure| HttpError::of_field("entrypoint", &failure)),
            _ => Ok(ShellBehaviour::Stays),
        }
    }

    /// What is known of this machine before the scenario is drilled, and what a person should know of that.
    fn host(&self, scenario: &Scenario) -> Result<(Host, Option<String>), HttpError> {
        let behaviour = self.behaviour(scenario)?;
        let on_sigterm = self.on_sigterm.as_ref().copied().unwrap_or(shell::USUAL);
        let host = shell::Shell { behaviour, on_sigterm }.host(scenario);
        let note = match &self.on_sigterm {
            Ok(_) => host.custom.map(shell::remark),
            Err(why) if shell::stays(scenario, behaviour) => Some(format!(
                "What /bin/sh does about SIGTERM could not be looked at, and is taken to be as usual: {why}."
            )),
            Err(_) => None,
        };
        Ok((host, note))
    }
}

/// What should happen.
///
/// # Errors
/// It is no scenario, or what happens can't be known without running it.
pub(super) fn answer(ask: Ask, shell: &Shell) -> Result<ModelDocument, HttpError> {
    let scenario = Scenario::from_value(ask.scenario)?;
    let (host, odd) = shell.host(&scenario)?;
    let mut notes = Vec::new();
    match &scenario.entrypoint {
        Entrypoint::Custom(command) => match scenario.expected_effect {
            Some(effect) => notes.push(format!(
                "What SIGTERM does behind {command:?} is taken from expected_effect: {}. A real run measures it too.",
                effect.name()
            )),
            None => return Err(HttpError::of_field("expected_effect", &unknown_effect(command))),
        },
        Entrypoint::Shell => notes.push(
            match host.shell {
                ShellBehaviour::Stays => "The shell of this machine stays and waits for the worker.",
                ShellBehaviour::BecomesWorker => "The shell of this machine becomes the worker.",
            }
            .to_owned(),
        ),
        _ => {}
    }
    notes.extend(odd);
    let Expectation { events, outcome } = expect(&scenario, &host);
    let view = View::new(&scenario, &events);
    let effect = fate(&scenario, &host).effect;
    Ok(ModelDocument { scenario, effect, notes, events, outcome, view })
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use serde_json::json;

    use super::*;

    fn usual() -> Shell {
        Shell { behaviour: Ok(ShellBehaviour::Stays), on_sigterm: Ok(shell::USUAL) }
    }

    fn asked(fields: &Value) -> Result<Value, (StatusCode, Value)> {
        let mut scenario = json!({ "name": "mine", "title": "Mine" });
        scenario.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        match answer(Ask { scenario }, &usual()) {
            Ok(document) => Ok(serde_json::to_value(document).unwrap()),
            Err(error) => Err((error.status(), serde_json::to_value(error).unwrap())),
        }
    }

    #[test]
    fn the_opening_settings() {
        let answer = asked(&json!({})).unwrap();
        assert_eq!(answer["effect"], json!("ignored"));
        assert_eq!(answer["outcome"]["killed"], json!(["request-13", "request-14", "request-15", "request-16"]));
        assert_eq!(answer["view"]["gate"], json!({ "tick": 600, "gate": "fail" }));
        assert_eq!(answer["scenario"]["grace_period_s"], json!(10.0));
        assert_eq!(answer["notes"], json!([]));
    }

    #[test]
    fn every_problem_names_its_field() {
        let (status, answer) = asked(&json!({ "grace_period_s": 25, "slots": 1, "signal_at_s": 30.05 })).unwrap_err();
        assert_eq!(status, StatusCode::BAD_REQUEST);
        let fields: Vec<_> =
            answer["problems"].as_array().unwrap().iter().map(|problem| problem["field"].as_str().unwrap()).collect();
        assert_eq!(fields, ["grace_period_s", "signal_at_s", "slots"]);
        assert!(answer["problems"][0]["message"].as_str().unwrap().contains("0 to 20 s"));
    }

    #[test]
    fn what_only_a_run_can_tell_is_said_so() {
        let tini = json!({ "entrypoint": ["tini", "--", "{worker}"] });
        let (status, answer) = asked(&tini).unwrap_err();
        assert_eq!((status, &answer["problems"][0]["field"]), (StatusCode::BAD_REQUEST, &json!("expected_effect")));
        let said = json!({ "entrypoint": ["tini", "--", "{worker}"], "expected_effect": "drained" });
        assert!(asked(&said).unwrap()["notes"][0].as_str().unwrap().contains("drained"));
        let stays = asked(&json!({ "entrypoint": "shell" })).unwrap();
        assert!(stays["notes"][0].as_str().unwrap().contains("stays"));
        let shell = Shell { behaviour: Err(Failure::unable("there is no /bin/sh")), ..usual() };
        let scenario = json!({ "name": "mine", "title": "Mine", "entrypoint": "shell" });
        let error = answer_error(Ask { scenario }, &shell);
        assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn an_odd_shell_is_followed_where_it_counts_and_told_of() {
        let mksh = Shell { on_sigterm: Ok(OnSigterm { waits: true, ..shell::USUAL }), ..usual() };
        let unseen = Shell { on_sigterm: Err("it comes to no rest".to_owned()), ..usual() };
        let of = |entrypoint: &str, shell: &Shell| {
            let scenario = json!({ "name": "mine", "title": "Mine", "entrypoint": entrypoint, "pid_namespace": false });
            let answer = serde_json::to_value(answer(Ask { scenario }, shell).ok().unwrap()).unwrap();
            (answer["effect"].as_str().unwrap().to_owned(), answer["notes"].to_string())
        };
        for (entrypoint, shell, effect, said) in [
            ("script", &mksh, "ignored", "unlike other shells: the effect of SIGTERM is taken to be ignored"),
            ("script", &usual(), "orphaned", "[]"),
            ("script", &unseen, "orphaned", "taken to be as usual: it comes to no rest."),
            ("shell", &mksh, "ignored", "unlike other shells"),
            ("exec", &mksh, "terminated", "[]"),
            ("exec", &unseen, "terminated", "[]"),
        ] {
            let (found, notes) = of(entrypoint, shell);
            assert_eq!(found, effect, "{entrypoint}");
            assert!(notes.contains(said), "{entrypoint}: {notes}");
        }
    }

    fn answer_error(ask: Ask, shell: &Shell) -> HttpError {
        answer(ask, shell).err().unwrap()
    }
}
