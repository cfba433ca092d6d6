//! What SIGTERM does: the worker's posture, its seat and what stands before it give one effect.

use serde::{Deserialize, Serialize};

use crate::{
    Entrypoint, Event, EventKind, HandlerInstalled, OnSigterm, Scenario, ShellBehaviour, Status, Tick, WorkerId,
    prediction::{self, Manner, predict},
};

/// What becomes of a worker whose top gets SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It reaches a handler: readiness is withdrawn, the worker drains and exits 0.
    Drained,
    /// Nothing changes until SIGKILL.
    Ignored,
    /// The worker is gone at once, and its invocations with it.
    Terminated,
    /// The top dies of it and the worker lives on.
    Orphaned,
}

impl Effect {
    /// All of them, with their names.
    pub const NAMED: [(&'static str, Effect); 4] = [
        ("drained", Effect::Drained),
        ("ignored", Effect::Ignored),
        ("terminated", Effect::Terminated),
        ("orphaned", Effect::Orphaned),
    ];

    /// Its name as in a scenario.
    #[must_use]
    pub fn name(self) -> &'static str {
        Effect::NAMED[self as usize].0
    }

    /// What SIGTERM did by the events of a trace, in their order; `None` where it was sent to nobody, or nothing came of it
    /// before they end. Of a trace of the model it is the effect that was expected.
    #[must_use]
    pub fn seen_in<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<Effect> {
        let (mut told, mut ready, mut withdrew) = (None, false, None);
        for event in events {
            // Only in the tick of the signal can its top leave a worker that drains.
            if withdrew.is_some_and(|tick| event.t > tick) {
                break;
            }
            match event.kind {
                // It is worker 1 that is told, and nobody else.
                EventKind::WorkerReady { worker } if told.is_none() => ready |= worker == WorkerId::FIRST,
                EventKind::SigtermSent { worker } => told = Some(worker),
                kind if told.is_none() || kind.worker() != told => {}
                EventKind::ReadinessWithdrawn { .. } => withdrew = Some(event.t),
                EventKind::SigtermIgnored { .. } => return Some(Effect::Ignored),
                EventKind::WorkerOrphaned { .. } => return Some(Effect::Orphaned),
                EventKind::WorkerExited { .. } | EventKind::SigkillSent { .. } if withdrew.is_some() => break,
                // One that still boots has no readiness to withdraw, and owns nothing.
                EventKind::WorkerExited { status, .. } if status == Status::SUCCESS && !ready => {
                    return Some(Effect::Drained);
                }
                EventKind::WorkerExited { .. } => return Some(Effect::Terminated),
                _ => {}
            }
        }
        withdrew.map(|_| Effect::Drained)
    }
}

/// What is known of the machine that a scenario is to run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// What its `/bin/sh -c 'WORKER'` does.
    pub shell: ShellBehaviour,
    /// What the scenario's custom entrypoint was measured to do. Without a measurement, `expected_effect` counts. For a
    /// shell or a script that stays in front of the worker: what it does where the machine's `/bin/sh` is an unusual one.
    pub custom: Option<CustomBehaviour>,
}

/// What a custom entrypoint, or an unusual shell, does with a worker, its posture and its seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomBehaviour {
    /// What SIGTERM to the top does.
    pub effect: Effect,
    /// The top's status where SIGTERM ends it, or once the worker has drained: a script may report that as 143, too.
    pub status: Status,
    /// Whether the top stays a parent of the worker, so that a signal to the top alone does not reach it.
    pub top_stays: bool,
    /// Whether the worker dies with the top all the same (PR_SET_PDEATHSIG(2const)), as with `unshare --kill-child`.
    #[serde(default)]
    pub dies_with_top: bool,
    /// Whether an orphaned worker was told to stop as well, as behind `tini -g` and a shell: it drains alone.
    #[serde(default)]
    pub drains_alone: bool,
}

impl CustomBehaviour {
    /// What a custom entrypoint with a declared `expected_effect` is taken for: an init, which stays the worker's
    /// parent and reports a child that died of SIGTERM as exit code 143.
    #[must_use]
    pub fn of_init(effect: Effect) -> CustomBehaviour {
        let status = match effect {
            Effect::Drained => Status::SUCCESS,
            Effect::Terminated => Status::CODE_143,
            Effect::Ignored | Effect::Orphaned => Status::SIGTERM,
        };
        CustomBehaviour { effect, status, top_stays: true, dies_with_top: false, drains_alone: false }
    }
}

/// What stands between the platform's signal and the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Top {
    /// The worker itself: started so, or exec'd into.
    Worker,
    /// A shell that waits for the worker and passes nothing on.
    Shell,
    /// A script whose trap passes SIGTERM on and reports how the worker ended.
    Trap,
    /// A command of the user's own, or a shell unlike others.
    Custom(CustomBehaviour),
}

impl Top {
    fn of(scenario: &Scenario, host: &Host) -> Top {
        let or_as_seen = |usual: Top| host.custom.map_or(usual, Top::Custom);
        match (&scenario.entrypoint, host.shell) {
            (Entrypoint::Shell, ShellBehaviour::Stays) | (Entrypoint::Script, _) => or_as_seen(Top::Shell),
            (Entrypoint::ScriptTrap, _) => or_as_seen(Top::Trap),
            (Entrypoint::Custom(_), _) => {
                let declared = scenario.expected_effect.map(CustomBehaviour::of_init);
                Top::Custom(host.custom.or(declared).unwrap_or(CustomBehaviour::of_init(Effect::Drained)))
            }
            (Entrypoint::Exec | Entrypoint::Shell | Entrypoint::ShellExec | Entrypoint::ScriptExec, _) => Top::Worker,
        }
    }
}

/// What SIGTERM and SIGKILL do to worker 1 of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// What SIGTERM to the top does.
    pub effect: Effect,
    /// The top's status where the effect is `terminated` or `orphaned`, and after a drain; nobody asks for it where the signal
    /// is ignored.
    pub status: Status,
    /// Whether SIGKILL to the top leaves the worker alive.
    pub survives_sigkill: bool,
    /// Whether a worker that is orphaned by SIGTERM drains, and ends by itself.
    pub drains_alone: bool,
}

/// The posture of worker 1 when SIGTERM comes: a handler that is not there yet is no handler.
#[must_use]
pub fn posture(scenario: &Scenario) -> OnSigterm {
    let handler_in_place = scenario.handler_installed == HandlerInstalled::AtStart
        || Tick::START + scenario.startup_s <= scenario.signal_at();
    match scenario.on_sigterm {
        OnSigterm::Drain if !handler_in_place => OnSigterm::Default,
        posture => posture,
    }
}

/// What SIGTERM will do to worker 1, from its posture at that moment, its seat and its entrypoint.
///
/// PID 1 of a PID namespace loses every signal whose action is the default one, from whoever it comes
/// (`pid_namespaces(7)`); elsewhere the default action of SIGTERM is death (`signal(7)`). A shell that waits for a
/// foreground child passes nothing on; as PID 1 it is deaf itself, elsewhere it dies and leaves the child behind.
#[must_use]
pub fn fate(scenario: &Scenario, host: &Host) -> Fate {
    let (pid_namespace, posture) = (scenario.pid_namespace, posture(scenario));
    let chain: &[Manner] = match Top::of(scenario, host) {
        Top::Worker => &[],
        Top::Shell => &[Manner::WAITING_SHELL],
        Top::Trap => &[Manner::FORWARDING_TRAP],
        Top::Custom(custom) => {
            let survives_sigkill = custom.top_stays && !custom.dies_with_top && !pid_namespace;
            let drains_alone = custom.effect == Effect::Orphaned && custom.drains_alone;
            return Fate { effect: custom.effect, status: custom.status, survives_sigkill, drains_alone };
        }
    };
    let reaction = predict(chain, pid_namespace, posture);
    Fate {
        // These three always come to one of the four.
        effect: reaction.effect().unwrap_or(Effect::Ignored),
        status: match reaction.top {
            prediction::Top::Ended(status) | prediction::Top::Gone(status) => status,
            prediction::Top::Stuck => Status::SIGKILL,
        },
        survives_sigkill: !chain.is_empty() && !pid_namespace,
        drains_alone: reaction.worker == prediction::WorkerFate::DrainedAlone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;
    use Effect::{Drained, Ignored, Orphaned, Terminated};

    fn scenario(entrypoint: Entrypoint, pid_namespace: bool, on_sigterm: OnSigterm) -> Scenario {
        Scenario { entrypoint, pid_namespace, on_sigterm, ..Scenario::new("fate", "fate") }
    }

    /// The measured facts, a row a form: [drain, default, ignore] as PID 1, then as an ordinary process.
    #[test]
    fn the_effect_of_every_form_seat_and_posture() {
        let stays = Host { shell: ShellBehaviour::Stays, custom: None };
        let becomes = Host { shell: ShellBehaviour::BecomesWorker, custom: None };
        let worker = ([Drained, Ignored, Ignored], [Drained, Terminated, Ignored], Status::SIGTERM, false);
        let shell = ([Ignored; 3], [Orphaned; 3], Status::SIGTERM, true);
        let trap = ([Drained, Terminated, Ignored], [Drained, Terminated, Ignored], Status::CODE_143, true);
        let rows = [
            (Entrypoint::Exec, stays, worker),
            (Entrypoint::Shell, becomes, worker),
            (Entrypoint::ShellExec, stays, worker),
            (Entrypoint::ScriptExec, stays, worker),
            (Entrypoint::Shell, stays, shell),
            (Entrypoint::Script, becomes, shell),
            (Entrypoint::ScriptTrap, becomes, trap),
        ];
        for (entrypoint, host, (pid1, ordinary, status, top_stays)) in rows {
            for (pid_namespace, effects) in [(true, pid1), (false, ordinary)] {
                for (posture, effect) in OnSigterm::ALL.into_iter().zip(effects) {
                    let scenario = scenario(entrypoint.clone(), pid_namespace, posture);
                    let found = fate(&scenario, &host);
                    let survives = top_stays && !pid_namespace;
                    let case = format!("{entrypoint:?} {pid_namespace} {posture:?}");
                    assert_eq!((found.effect, found.survives_sigkill), (effect, survives), "{case}");
                    if matches!(effect, Terminated | Orphaned) {
                        assert_eq!(found.status, status, "{case}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_handler_that_comes_after_the_signal_is_no_handler() {
        let host = Host { shell: ShellBehaviour::Stays, custom: None };
        let mut late = scenario(Entrypoint::Exec, true, OnSigterm::Drain);
        late.handler_installed = HandlerInstalled::AfterBoot;
        late.startup_s = Span(200);
        late.signal_at_s = Span(199);
        assert_eq!(fate(&late, &host).effect, Ignored);
        late.pid_namespace = false;
        assert_eq!(fate(&late, &host).effect, Terminated);
        // The boot that ends in the signal's tick ends before the signal is sent.
        late.signal_at_s = Span(200);
        assert_eq!(fate(&late, &host).effect, Drained);
    }

    #[test]
    fn a_shell_unlike_others_does_what_was_seen_of_it() {
        let seen = CustomBehaviour::of_init(Ignored);
        for shell in [ShellBehaviour::Stays, ShellBehaviour::BecomesWorker] {
            let host = Host { shell, custom: Some(seen) };
            for form in [Entrypoint::Script, Entrypoint::ScriptTrap] {
                let found = fate(&scenario(form, false, OnSigterm::Drain), &host);
                assert_eq!(
                    found,
                    Fate { effect: Ignored, status: Status::SIGTERM, survives_sigkill: true, drains_alone: false }
                );
            }
            // There is no shell in front of these.
            for form in [Entrypoint::Exec, Entrypoint::ShellExec, Entrypoint::ScriptExec] {
                assert_eq!(fate(&scenario(form, false, OnSigterm::Drain), &host).effect, Drained);
            }
            let effect = fate(&scenario(Entrypoint::Shell, false, OnSigterm::Drain), &host).effect;
            assert_eq!(effect, if shell == ShellBehaviour::Stays { Ignored } else { Drained });
        }
    }

    #[test]
    fn a_measurement_counts_for_more_than_a_declaration() {
        let mut custom = scenario(Entrypoint::Custom(vec!["x".into(), "{worker}".into()]), false, OnSigterm::Drain);
        custom.expected_effect = Some(Terminated);
        let declared = Host { shell: ShellBehaviour::Stays, custom: None };
        assert_eq!(
            fate(&custom, &declared),
            Fate { effect: Terminated, status: Status::CODE_143, survives_sigkill: true, drains_alone: false }
        );
        let behaviour = CustomBehaviour { top_stays: false, ..CustomBehaviour::of_init(Drained) };
        let measured = Host { custom: Some(behaviour), ..declared };
        assert_eq!(fate(&custom, &measured).effect, Drained);
        assert!(!fate(&custom, &measured).survives_sigkill);
    }

    #[test]
    fn a_worker_that_dies_with_its_top_does_not_survive_sigkill_to_it() {
        let list = scenario(Entrypoint::Custom(vec!["x".into(), "{worker}".into()]), false, OnSigterm::Drain);
        for (dies_with_top, survives) in [(false, true), (true, false)] {
            let custom = CustomBehaviour { dies_with_top, ..CustomBehaviour::of_init(Ignored) };
            let host = Host { shell: ShellBehaviour::Stays, custom: Some(custom) };
            assert_eq!(fate(&list, &host).survives_sigkill, survives);
        }
    }
}
