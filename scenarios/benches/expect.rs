//! How fast the model is: the opening drill, the whole catalogue, scenarios drawn at random from a fixed seed, and the
//! one with the most events there can be.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use scenarios::{Entrypoint, Host, OnSigterm, Scenario, ShellBehaviour, Span, catalogue, expect};

const HOST: Host = Host { shell: ShellBehaviour::Stays, custom: None };

/// Numbers that look random and are the same in every run (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % u64::from(limit)) as u32
    }

    fn between(&mut self, min: u32, max: u32) -> u32 {
        min + self.below(max - min + 1)
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Any scenario: every field is drawn evenly from its range.
    fn scenario(&mut self) -> Scenario {
        Scenario {
            initial_workers: self.between(1, 64) as u8,
            slots_per_worker: self.between(1, 64) as u8,
            startup_s: Span(self.between(1, 300)),
            fail_worker_1: self.coin(),
            request_interval_s: Span(self.between(1, 400)),
            invocation_s: Span(self.between(1, 600)),
            ready_only_routing: self.coin(),
            signal_at_s: Span(self.between(10, 400)),
            grace_period_s: Span(self.between(0, 200)),
            on_sigterm: OnSigterm::ALL[self.below(3) as usize],
            entrypoint: Entrypoint::NAMED[self.below(6) as usize].1.clone(),
            pid_namespace: self.coin(),
            boot_replacement: self.coin(),
            ..Scenario::new("random", "Random")
        }
    }
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("expect");
    let mut numbers = Numbers(1);
    let random: Vec<Scenario> = (0..1_000).map(|_| numbers.scenario()).collect();
    let opening: Vec<Scenario> = catalogue::get("ignored-signal").into_iter().cloned().collect();
    let fullest = [Scenario {
        initial_workers: 64,
        slots_per_worker: 64,
        startup_s: Span(1),
        request_interval_s: Span(1),
        ..Scenario::new("fullest", "Fullest")
    }];
    let mixes: [(&str, &[Scenario]); 4] =
        [("opening", &opening), ("catalogue", catalogue::all()), ("random", &random), ("fullest", &fullest)];
    for (name, scenarios) in mixes {
        group.throughput(Throughput::Elements(scenarios.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for scenario in scenarios {
                    black_box(expect(black_box(scenario), &HOST));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
