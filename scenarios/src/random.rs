//! Generated scenarios over the whole language, with ties made likely on purpose.

use fastrand::Rng;

use crate::{
    Entrypoint, HandlerInstalled, OnSigterm, Scenario, Span, Tick,
    scenario::{FIRST_ARRIVAL, LAST_ARRIVAL},
};

/// Scenario number `number` of the sequence that `seed` stands for; the same for the same two numbers.
///
/// Most times are on whole seconds, and a deadline often falls on a completion. Every valid value of every field can
/// come up, but what is costly to drill with processes (many workers, many requests) does so rarely. Custom entrypoints
/// do not: what they do depends on what is installed.
#[must_use]
pub fn scenario(seed: u64, number: u64) -> Scenario {
    // Neighbouring numbers must not give neighbouring states: the generator itself mixes what it is seeded with.
    let mut rng = Rng::with_seed(seed.rotate_left(32) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut scenario = Scenario::new(&format!("random-{seed}-{number}"), "A generated scenario");
    scenario.initial_workers = mostly(&mut rng, 1..=3, 1..=8, 1..=64);
    scenario.slots_per_worker = mostly(&mut rng, 1..=4, 1..=8, 1..=64);
    scenario.startup_s = time(&mut rng, 1..=8, 1..=300);
    scenario.fail_worker_1 = rng.u8(..8) == 0;
    scenario.request_interval_s = match rng.u8(..20) {
        0 => Span(rng.u32(1..=9)),
        1..=3 => Span(rng.u32(10..=400)),
        _ => Span::seconds(rng.u32(1..=6)),
    };
    scenario.invocation_s = time(&mut rng, 1..=25, 1..=600);
    scenario.ready_only_routing = rng.u8(..4) != 0;
    scenario.signal_at_s = time(&mut rng, 1..=40, 10..=400);
    scenario.grace_period_s = if rng.bool() { on_a_completion(&mut rng, &scenario) } else { None }
        .unwrap_or_else(|| time(&mut rng, 0..=20, 0..=200));
    scenario.on_sigterm = OnSigterm::ALL[rng.usize(..OnSigterm::ALL.len())];
    scenario.handler_installed = HandlerInstalled::ALL[usize::from(rng.u8(..4) == 0)];
    scenario.entrypoint = match rng.u8(..2) {
        0 => Entrypoint::Exec,
        _ => Entrypoint::NAMED[rng.usize(..Entrypoint::NAMED.len())].1.clone(),
    };
    scenario.pid_namespace = rng.u8(..5) < 3;
    scenario.boot_replacement = rng.u8(..3) == 0;
    scenario.rejection_allowance_percent = rng.u8(..=100);
    scenario
}

/// Usually from the first range, sometimes from the second, and now and then from the whole one.
fn mostly(
    rng: &mut Rng,
    usual: std::ops::RangeInclusive<u8>,
    wide: std::ops::RangeInclusive<u8>,
    whole: std::ops::RangeInclusive<u8>,
) -> u8 {
    match rng.u8(..100) {
        0 => rng.u8(whole),
        1..=19 => rng.u8(wide),
        _ => rng.u8(usual),
    }
}

/// Usually whole seconds from the first range, otherwise ticks from the second.
fn time(rng: &mut Rng, seconds: std::ops::RangeInclusive<u32>, ticks: std::ops::RangeInclusive<u32>) -> Span {
    match rng.u8(..4) {
        0 => Span(rng.u32(ticks)),
        _ => Span::seconds(rng.u32(seconds)),
    }
}

/// A grace period that ends when an invocation of some arrival would complete, if there is one within bounds.
fn on_a_completion(rng: &mut Rng, scenario: &Scenario) -> Option<Span> {
    let latest = scenario.signal_at() + Span::seconds(20);
    let completions: Vec<Tick> = (FIRST_ARRIVAL.0..=LAST_ARRIVAL.0)
        .step_by(scenario.request_interval_s.0 as usize)
        .map(|arrival| Tick(arrival) + scenario.invocation_s)
        .filter(|&completion| scenario.signal_at() <= completion && completion <= latest)
        .collect();
    let deadline = rng.choice(completions)?;
    Some(Span(deadline.0 - scenario.signal_at().0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_one_is_a_valid_scenario_and_the_same_each_time() {
        for number in 0..5_000 {
            let generated = scenario(7, number);
            let text = serde_json::to_string(&generated).unwrap();
            assert_eq!(Scenario::parse(&text).as_ref(), Ok(&generated), "{text}");
            assert_eq!(scenario(7, number), generated);
        }
        assert_ne!(
            Scenario { name: String::new(), ..scenario(7, 1) },
            Scenario { name: String::new(), ..scenario(8, 1) }
        );
    }

    #[test]
    fn ties_and_every_choice_come_up() {
        let all: Vec<Scenario> = (0..2_000).map(|number| scenario(1, number)).collect();
        let share = |holds: &dyn Fn(&Scenario) -> bool| all.iter().filter(|scenario| holds(scenario)).count();
        for (_, form) in Entrypoint::NAMED {
            assert!(share(&|scenario| scenario.entrypoint == form) > 100, "{form:?}");
        }
        for posture in OnSigterm::ALL {
            assert!(share(&|scenario| scenario.on_sigterm == posture) > 400);
        }
        let tie = |scenario: &Scenario| {
            scenario.arrivals().any(|(_, arrival)| arrival + scenario.invocation_s == scenario.deadline())
        };
        assert!(share(&tie) > 700, "deadlines on completions: {}", share(&tie));
        assert!(share(&|scenario| scenario.grace_period_s == Span(0)) > 20);
        assert!(share(&|scenario| scenario.initial_workers > 8) > 2);
        assert!(share(&|scenario| scenario.request_interval_s < Span(10)) > 50);
    }
}
