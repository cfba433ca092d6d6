//! The figures of a benchmark as text.

use super::figures::{AtSpeed, Document, Latency, Throughput};
use crate::report::{
    Screen,
    screen::{STRONG, paint},
};

/// All figures as tables.
pub(super) fn report(screen: Screen, document: &Document) -> String {
    let Document { program, cores, load, seconds, throughput, latencies, lateness, .. } = document;
    let load = load.map(|load| format!(", load {load:.1} at the end")).unwrap_or_default();
    let line = format!("termdrill {program}, {cores} cores{load}, {seconds} s for each measurement");
    let mut text = screen.wrap(&line, "", "");

    text.push_str(&heading(&format!(
        "\n{:<24}{:>6}{:>8}{:>9}   {:<9}{:<9}outer",
        "drills", "lanes", "per s", "CPU ms", "harness", "workers"
    )));
    throughput.iter().for_each(|measured| text.push_str(&row(measured)));
    text.push_str(&screen.wrap(
        "CPU time is that of one drill; of the harness and of the workers, in user mode and in the kernel.",
        "  ",
        "  ",
    ));

    text.push_str(&heading(&format!(
        "\n{:<38}{:>8}{:>9}{:>9}{:>9}{:>9}",
        "latency, us", "samples", "p50", "p99", "p99.9", "worst"
    )));
    for Latency { what, samples, p50_us, p99_us, p99_9_us, worst_us } in latencies {
        text.push_str(&format!("{what:<38}{samples:>8}{p50_us:>9}{p99_us:>9}{p99_9_us:>9}{worst_us:>9}\n"));
    }

    text.push_str(&heading(&format!(
        "\n{:<12}{:>8}{:>9}{:>11}   closest to its limit",
        "lateness", "drills", "in time", "worst ms"
    )));
    lateness.iter().for_each(|at| text.push_str(&speed(screen, at)));
    text
}

fn heading(text: &str) -> String {
    match text.strip_prefix('\n') {
        Some(line) => format!("\n{}\n", paint(STRONG, line)),
        None => paint(STRONG, text) + "\n",
    }
}

fn row(measured: &Throughput) -> String {
    let Throughput { what, clock, lanes, per_second, cpu_us, cpu, outer_us, .. } = measured;
    let pair = |user: u64, system: u64| format!("{:.1}+{:.1}", user as f64 / 1e3, system as f64 / 1e3);
    let mut text = format!(
        "{:<24}{lanes:>6}{per_second:>8.1}{:>9.1}   {:<9}{:<9}{:.1}",
        format!("{what}, {}", clock.name()),
        cpu_us / 1e3,
        pair(cpu.harness_user_us, cpu.harness_system_us),
        pair(cpu.workers_user_us, cpu.workers_system_us),
        *outer_us as f64 / 1e3,
    );
    let others = measured.drills - measured.matched;
    if others > 0 {
        text.push_str(&format!("  {others} of {} not matched", measured.drills));
    }
    text + "\n"
}

fn speed(screen: Screen, at: &AtSpeed) -> String {
    let name = format!("{:.0}{}", at.speed, screen.marks().times);
    let worst = at.parts.iter().map(|part| part.worst_us).max().unwrap_or(0) as f64 / 1e3;
    let closest = at.tightest().map_or_else(String::new, |part| {
        let [late, allowed] = [part.closest_us, part.allowed_us].map(|us| us as f64 / 1e3);
        format!("{late:.2} of {allowed:.2} ms ({})", part.part.name())
    });
    let share = 100.0 * at.in_time as f64 / at.drills.max(1) as f64;
    format!("{name:<12}{:>8}{:>8.0}%{worst:>11.2}   {closest}\n", at.drills, share)
}
