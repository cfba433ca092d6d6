//! The shortest grace period with which a scenario loses nothing, which request decides it, or why there is none. Pure.

use scenarios::{
    Effect, Entrypoint, EventKind, Expectation, Field, HandlerInstalled, Host, OnSigterm, RequestId, Scenario,
    ShellBehaviour, Span, Tick, expect,
    fate::{Fate, fate},
    fields::Kind,
};
use serde::Serialize;

/// What was found for a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The shortest grace period with no loss; none where each one loses something.
    pub grace_period_s: Option<Span>,
    /// What is lost with the grace period one tick shorter; without an answer, with the longest there can be.
    pub otherwise: Option<Loss>,
    /// When what decides the answer commits, if it is one request.
    pub decided_at: Option<Tick>,
    /// Longer grace periods that lose something again, as inclusive ranges.
    pub longer_that_lose: Vec<(Span, Span)>,
    /// What SIGTERM does to worker 1.
    pub effect: Effect,
    /// What a person should know about the answer, in whole sentences.
    pub because: Vec<String>,
}

/// What is lost with one grace period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// The grace period.
    pub grace_period_s: Span,
    /// Requests that are killed with their worker.
    pub killed: Vec<RequestId>,
    /// Requests that are still running when the drill ends.
    pub running: Vec<RequestId>,
}

impl Loss {
    /// Whether there is none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.killed.is_empty() && self.running.is_empty()
    }

    fn of(grace_period_s: Span, expected: &Expectation) -> Loss {
        let outcome = &expected.outcome;
        Loss { grace_period_s, killed: outcome.killed.clone(), running: outcome.running.clone() }
    }
}

impl Answer {
    /// What the model claims, for real processes to confirm: the loss with each grace period that matters, shortest last.
    #[must_use]
    pub fn claims(&self) -> Vec<Loss> {
        let nothing = |grace_period_s| Loss { grace_period_s, killed: Vec::new(), running: Vec::new() };
        self.grace_period_s.map(nothing).into_iter().chain(self.otherwise.clone()).collect()
    }
}

/// Tries every grace period there can be. What the scenario itself says of it does not count.
#[must_use]
pub fn find(scenario: &Scenario, host: &Host) -> Answer {
    let longest = longest();
    let with = |grace: u32| {
        let scenario = Scenario { grace_period_s: Span(grace), ..scenario.clone() };
        expect(&scenario, host)
    };
    let losses: Vec<Loss> = (0..=longest.0).map(|grace| Loss::of(Span(grace), &with(grace))).collect();
    let fate = fate(scenario, host);
    let shortest = losses.iter().position(Loss::is_none);
    let otherwise = match shortest {
        Some(0) => None,
        Some(shortest) => losses.get(shortest - 1).cloned(),
        None => losses.last().cloned(),
    };
    let relapses = match shortest {
        Some(shortest) => ranges(losses.iter().skip(shortest).filter(|loss| !loss.is_none())),
        None => Vec::new(),
    };
    let mut because = Vec::new();
    let decided_at = match (shortest, &otherwise) {
        (Some(shortest), Some(Loss { killed, running, .. })) => {
            let mut decisive = killed.iter().chain(running);
            // There are no more than 201 of them.
            let expected = with(shortest as u32);
            decisive.next().filter(|_| decisive.next().is_none()).and_then(|&request| commit_of(&expected, request))
        }
        _ => None,
    };
    match (shortest, &otherwise) {
        (Some(0), _) => {
            because.push(nothing_to_lose(scenario, fate));
            if fate.effect == Effect::Ignored && !relapses.is_empty() {
                because.push(format!("{} It goes on taking requests until SIGKILL.", deaf(scenario, host)));
            }
        }
        (Some(_), _) if fate.effect == Effect::Ignored => {
            let luck = match relapses.is_empty() {
                true => {
                    "It is only that arrivals end before the grace period does: with traffic that goes on, something \
                         would be lost."
                }
                false => "It is only that nothing is in flight just then.",
            };
            because.push(format!("{} {luck}", deaf(scenario, host)));
        }
        (Some(_), _) => {}
        (None, Some(loss)) => because.extend(why_none(scenario, host, fate, loss, &with(longest.0))),
        (None, None) => {}
    }
    let grace_period_s = shortest.and_then(|shortest| losses.get(shortest)).map(|loss| loss.grace_period_s);
    Answer { grace_period_s, otherwise, decided_at, longer_that_lose: relapses, effect: fate.effect, because }
}

/// The longest grace period that a scenario can have.
fn longest() -> Span {
    match Field::named("grace_period_s").map(|field| field.kind) {
        Some(Kind::Seconds { max, .. }) => max,
        _ => Span::seconds(20),
    }
}

fn commit_of(expected: &Expectation, request: RequestId) -> Option<Tick> {
    expected.events.iter().find_map(|event| match event.kind {
        EventKind::ResultCommitted { request: committed, .. } if committed == request => Some(event.t),
        _ => None,
    })
}

/// Inclusive ranges of grace periods that follow each other.
fn ranges<'a>(losses: impl Iterator<Item = &'a Loss>) -> Vec<(Span, Span)> {
    let mut ranges: Vec<(Span, Span)> = Vec::new();
    for grace in losses.map(|loss| loss.grace_period_s) {
        match ranges.last_mut() {
            Some((_, last)) if last.0 + 1 == grace.0 => *last = grace,
            _ => ranges.push((grace, grace)),
        }
    }
    ranges
}

/// Why even SIGKILL without any delay loses nothing.
fn nothing_to_lose(scenario: &Scenario, fate: Fate) -> String {
    let at = scenario.signal_at();
    match fate.effect {
        Effect::Orphaned => {
            "SIGTERM ends what stands in front of worker-1 and not worker-1: it lives on as an orphan, where no SIGKILL \
             reaches it, and finishes what it has."
                .to_owned()
        }
        _ if fate.survives_sigkill => {
            "SIGKILL ends what stands in front of worker-1 and not worker-1: it lives on as an orphan, and finishes \
             what it has."
                .to_owned()
        }
        _ => format!("Worker-1 holds nothing when SIGTERM comes at {at} s."),
    }
}

/// Why there is no answer: `loss` is what the longest grace period loses.
fn why_none(scenario: &Scenario, host: &Host, fate: Fate, loss: &Loss, expected: &Expectation) -> Vec<String> {
    let mut because = Vec::new();
    if !loss.killed.is_empty() {
        because.push(match fate.effect {
            Effect::Ignored => format!(
                "{} It goes on taking requests, and whenever SIGKILL comes, something is lost.",
                deaf(scenario, host)
            ),
            Effect::Terminated => "SIGTERM ends worker-1 at once, with what it holds: there is no handler that would \
                                   let it finish, and so no grace period is ever waited for."
                .to_owned(),
            Effect::Drained | Effect::Orphaned => match needed(scenario, loss, expected) {
                Some((request, grace)) => format!(
                    "{request} takes until {grace} s after SIGTERM, and {} s is the longest grace period there is.",
                    loss.grace_period_s
                ),
                None => "Worker-1 is killed before it is done.".to_owned(),
            },
        });
    }
    if !loss.running.is_empty() {
        because.push(format!("What still runs at {} s does so whenever worker-1 gets SIGKILL.", Tick::END));
    }
    because
}

/// The last of the killed requests to be done, and how long after SIGTERM that would be.
fn needed(scenario: &Scenario, loss: &Loss, expected: &Expectation) -> Option<(RequestId, Span)> {
    let admitted = expected.events.iter().filter_map(|event| match event.kind {
        EventKind::RequestAdmitted { request, .. } if loss.killed.contains(&request) => Some((event.t, request)),
        _ => None,
    });
    let (at, request) = admitted.max()?;
    let done = at + scenario.invocation_s;
    Some((request, Span(done.0.saturating_sub(scenario.signal_at().0))))
}

/// That SIGTERM is not heard, and why not.
fn deaf(scenario: &Scenario, host: &Host) -> String {
    let shell_stays = match scenario.entrypoint {
        Entrypoint::Script => true,
        Entrypoint::Shell => host.shell == ShellBehaviour::Stays,
        _ => false,
    };
    let why = match (&scenario.entrypoint, scenario.on_sigterm) {
        (Entrypoint::Custom(_), _) => "its entrypoint is said to pass nothing on",
        _ if shell_stays && scenario.pid_namespace => "the shell in front of it is PID 1 and passes nothing on",
        _ if shell_stays => "the shell in front of it waits for it and passes nothing on",
        (_, OnSigterm::Ignore) => "its disposition is SIG_IGN",
        (_, OnSigterm::Drain) if scenario.handler_installed == HandlerInstalled::AfterBoot => {
            "it is PID 1 and still boots, so that the kernel drops what its handler would hear later"
        }
        _ => "it is PID 1 and has no handler, so that the kernel drops the signal",
    };
    format!("Worker-1 does not hear SIGTERM: {why}.")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use scenarios::catalogue;

    use super::*;

    const HOST: Host = Host { shell: ShellBehaviour::Stays, custom: None };

    fn found(name: &str, settings: &[&str]) -> Answer {
        let scenario = catalogue::get(name).unwrap().with_settings(settings.iter().copied()).unwrap();
        find(&scenario, &HOST)
    }

    #[test]
    fn the_shortest_grace_period_and_the_request_that_decides_it() {
        // The last request before SIGTERM at 30 s arrives at 29 s and takes 20 s.
        let answer = found("handler-grace-10", &[]);
        assert_eq!(answer.grace_period_s, Some(Span::seconds(19)));
        let otherwise = answer.otherwise.clone().unwrap();
        assert_eq!((otherwise.grace_period_s, otherwise.killed), (Span(189), vec![RequestId(15)]));
        assert_eq!(answer.decided_at, Some(Tick(490)));
        assert_eq!((answer.longer_that_lose.len(), answer.because.len()), (0, 0));
        assert_eq!(answer.claims().len(), 2);
        // What the scenario says of its grace period does not count.
        assert_eq!(answer, found("handler-grace-20", &["rejection_allowance_percent=25"]));
        assert_eq!(found("handler-grace-10", &["invocation_s=0.1"]).grace_period_s, Some(Span(0)));
    }

    #[test]
    fn where_there_is_none_it_is_said_why() {
        let rows: [(&str, &[&str], Effect, &str); 6] = [
            ("ignored-signal", &[], Effect::Ignored, "it is PID 1 and has no handler"),
            ("ignored-signal", &["on_sigterm=ignore"], Effect::Ignored, "its disposition is SIG_IGN"),
            (
                "shell-form",
                &["invocation_s=20"],
                Effect::Ignored,
                "the shell in front of it is PID 1 and passes nothing on",
            ),
            ("no-handler-not-pid1", &[], Effect::Terminated, "SIGTERM ends worker-1 at once"),
            ("handler-grace-10", &["invocation_s=45"], Effect::Drained, "request-6 takes until 26.0 s after SIGTERM"),
            (
                "handler-grace-10",
                &["initial_workers=2", "invocation_s=50"],
                Effect::Drained,
                "What still runs at 60.0 s does so whenever",
            ),
        ];
        for (name, settings, effect, because) in rows {
            let answer = found(name, settings);
            let context = format!("{name} {settings:?}: {answer:?}");
            assert_eq!((answer.grace_period_s, answer.effect), (None, effect), "{context}");
            assert!(answer.because.join(" ").contains(because), "{context}");
            let claims = answer.claims();
            assert_eq!((claims.len(), claims[0].grace_period_s), (1, Span::seconds(20)), "{context}");
            assert!(!claims[0].is_none(), "{context}");
        }
    }

    #[test]
    fn an_answer_that_is_mere_luck_is_said_to_be() {
        let answer = found("short-work-ignored-signal", &["request_interval_s=4", "invocation_s=2"]);
        assert_eq!(answer.effect, Effect::Ignored);
        let shortest = answer.grace_period_s.unwrap();
        assert!(!answer.longer_that_lose.is_empty(), "{answer:?}");
        assert!(answer.longer_that_lose.iter().all(|(from, to)| shortest < *from && from <= to));
        assert!(shortest > Span(0) && answer.because[0].ends_with("nothing is in flight just then."), "{answer:?}");
        // Arrivals end at 40 s, and 8 s later everything is done.
        let answer = found("shell-form", &[]);
        assert_eq!((answer.grace_period_s, answer.longer_that_lose.len()), (Some(Span::seconds(17)), 0));
        assert!(answer.because[0].contains("arrivals end before the grace period does"), "{answer:?}");
        // The best is not to give a deaf worker the time to become ready.
        let late = ["on_sigterm=drain", "handler_installed=after_boot", "startup_s=20", "signal_at_s=19"];
        let answer = found("ignored-signal", &late);
        assert_eq!(answer.grace_period_s, Some(Span(0)));
        assert_eq!(answer.longer_that_lose, [(Span(21), Span(200))]);
        assert!(answer.because[0].contains("holds nothing") && answer.because[1].contains("still boots"), "{answer:?}");
    }

    #[test]
    fn an_orphan_needs_no_grace() {
        let answer = found("orphaned-by-shell", &[]);
        assert_eq!((answer.grace_period_s, answer.otherwise.clone()), (Some(Span(0)), None));
        assert!(answer.because[0].contains("orphan"), "{answer:?}");
        assert_eq!(answer.claims().len(), 1);
    }

    fn scenario() -> impl Strategy<Value = Scenario> {
        let numbers = (1..=100u32, 2..=100u32, 1..=300u32, 10..=400u32, 1..=3u8, 1..=4u8);
        let choices = (0..OnSigterm::ALL.len(), 0..Entrypoint::NAMED.len(), any::<bool>(), any::<bool>());
        (numbers, choices).prop_map(|(numbers, (posture, entrypoint, pid_namespace, boot_replacement))| {
            let (startup, interval, invocation, signal, initial_workers, slots_per_worker) = numbers;
            Scenario {
                startup_s: Span(startup),
                request_interval_s: Span(interval),
                invocation_s: Span(invocation),
                signal_at_s: Span(signal),
                initial_workers,
                slots_per_worker,
                on_sigterm: OnSigterm::ALL[posture],
                entrypoint: Entrypoint::NAMED[entrypoint].1.clone(),
                pid_namespace,
                boot_replacement,
                ..Scenario::new("any", "Any")
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        /// By definition, and not by the way in which it is found.
        #[test]
        fn the_answer_is_the_least_and_everything_else_is_as_it_says(scenario in scenario()) {
            let answer = find(&scenario, &HOST);
            let lost = |grace: u32| {
                let outcome = expect(&Scenario { grace_period_s: Span(grace), ..scenario.clone() }, &HOST).outcome;
                (outcome.killed, outcome.running)
            };
            let nothing = (Vec::new(), Vec::new());
            let shortest = answer.grace_period_s.map_or(201, |shortest| shortest.0);
            for grace in 0..=200u32 {
                let relapsed =
                    answer.longer_that_lose.iter().any(|(from, to)| (from.0..=to.0).contains(&grace));
                prop_assert_eq!(lost(grace) == nothing, grace >= shortest && !relapsed, "{} s", Span(grace));
            }
            for claim in answer.claims() {
                prop_assert_eq!(lost(claim.grace_period_s.0), (claim.killed, claim.running));
            }
            prop_assert!(answer.grace_period_s.is_some() || !answer.because.is_empty());
            if answer.effect == Effect::Drained {
                prop_assert!(answer.longer_that_lose.is_empty());
            }
        }
    }
}
