//! Any valid scenario, with ties made likely: most times are drawn from a coarse grid or aimed at one another.

use proptest::{collection::vec, option, prelude::*, sample::select};
use scenarios::{
    CustomBehaviour, Effect, Entrypoint, HandlerInstalled, Host, OnSigterm, Scenario, ShellBehaviour, Span, Status,
};

/// What times can be aimed at.
#[derive(Clone, Copy, Debug)]
struct Aims {
    /// The signal at an arrival.
    signal_at_arrival: Option<u32>,
    /// The boot's end at an arrival or at the signal.
    boot_at: Option<Aim>,
    /// The deadline at the completion of the request that arrives as the n-th last before the signal, if it is admitted.
    completion_at_deadline: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Aim {
    Arrival(u32),
    Signal,
}

fn span(min: u32, max: u32) -> impl Strategy<Value = u32> {
    let coarse = move |step: u32| (min.div_ceil(step)..=max / step).prop_map(move |k| k * step);
    prop_oneof![
        2 => min..=max,
        1 => min..=max.min(min + 12),
        2 => coarse(5),
        3 => coarse(10),
        2 => coarse(20),
    ]
}

fn small(max: u8) -> impl Strategy<Value = u8> {
    prop_oneof![4 => 1..=2u8, 4 => 1..=5u8, 1 => 1..=max]
}

fn aims() -> impl Strategy<Value = Aims> {
    let boot = option::weighted(0.3, prop_oneof![(0..40u32).prop_map(Aim::Arrival), Just(Aim::Signal)]);
    (option::weighted(0.3, 0..60u32), boot, option::weighted(0.4, 0..4u32)).prop_map(
        |(signal_at_arrival, boot_at, completion_at_deadline)| Aims {
            signal_at_arrival,
            boot_at,
            completion_at_deadline,
        },
    )
}

fn effect() -> impl Strategy<Value = Effect> {
    select(Effect::NAMED.map(|(_, effect)| effect).to_vec())
}

fn entrypoint() -> impl Strategy<Value = (Entrypoint, Option<Effect>)> {
    let named = select(Entrypoint::NAMED.map(|(_, form)| form).to_vec()).prop_map(|form| (form, None));
    let words = vec(select(vec!["--", "-g", "a b", "quote'd"]), 0..3);
    let custom = (words, effect()).prop_map(|(words, effect)| {
        let command = ["init"].into_iter().chain(words).chain(["{worker}"]).map(str::to_owned).collect();
        (Entrypoint::Custom(command), Some(effect))
    });
    prop_oneof![4 => named, 1 => custom]
}

/// Any valid scenario.
pub(crate) fn scenario() -> impl Strategy<Value = Scenario> {
    let sizes = (small(64), small(64), span(1, 300), span(1, 400), span(1, 600), span(10, 400), span(0, 200));
    let flags = (prop::bool::weighted(0.15), any::<bool>(), any::<bool>(), any::<bool>(), 0..=100u8);
    let postures = (select(OnSigterm::ALL.to_vec()), select(HandlerInstalled::ALL.to_vec()), entrypoint());
    (sizes, flags, postures, aims()).prop_map(|(sizes, flags, postures, aims)| {
        let (initial_workers, slots_per_worker, mut startup, interval, mut invocation, mut signal, grace) = sizes;
        let arrival = |n: u32| 10 + interval * (n % (390 / interval + 1));
        if let Some(n) = aims.signal_at_arrival {
            signal = arrival(n);
        }
        match aims.boot_at {
            Some(Aim::Arrival(n)) => startup = arrival(n).min(300),
            Some(Aim::Signal) => startup = signal.min(300),
            None => {}
        }
        if let Some(n) = aims.completion_at_deadline {
            let before = (signal.saturating_sub(11) / interval).saturating_sub(n);
            invocation = (signal + grace - arrival(before)).clamp(1, 600);
        }
        let (fail_worker_1, ready_only_routing, pid_namespace, boot_replacement, rejection_allowance_percent) = flags;
        let (on_sigterm, handler_installed, (entrypoint, expected_effect)) = postures;
        Scenario {
            initial_workers,
            slots_per_worker,
            startup_s: Span(startup),
            fail_worker_1,
            request_interval_s: Span(interval),
            invocation_s: Span(invocation),
            ready_only_routing,
            signal_at_s: Span(signal),
            grace_period_s: Span(grace),
            on_sigterm,
            handler_installed,
            entrypoint,
            expected_effect,
            pid_namespace,
            boot_replacement,
            rejection_allowance_percent,
            ..Scenario::new("any", "Any scenario")
        }
    })
}

/// Any machine, and what a custom entrypoint was measured to do on it.
pub(crate) fn host() -> impl Strategy<Value = Host> {
    let shell = select(vec![ShellBehaviour::Stays, ShellBehaviour::BecomesWorker]);
    let status = select(vec![Status::SIGTERM, Status::CODE_143, Status::Code(1), Status::SUCCESS]);
    let custom = (effect(), status, any::<[bool; 3]>()).prop_map(
        |(effect, status, [top_stays, dies_with_top, drains_alone])| CustomBehaviour {
            effect,
            status,
            top_stays,
            dies_with_top,
            drains_alone,
        },
    );
    (shell, option::of(custom)).prop_map(|(shell, custom)| Host { shell, custom })
}
