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

    let rows = throughput.iter().map(row).collect();
    text.push_str(&table(screen, &THROUGHPUT, rows));
    text.push_str(&screen.wrap(
        "CPU time is that of one drill; of the harness and of the workers, in user mode and in the kernel.",
        "  ",
        "  ",
    ));
    text.push_str(&table(screen, &LATENCIES, latencies.iter().map(latency).collect()));
    text.push_str(&table(screen, &LATENESS, lateness.iter().map(|at| speed(screen, at)).collect()));
    text
}

/// A column: its name, its width, and whether it holds numbers, which stand at its right.
type Column = (&'static str, usize, bool);

const THROUGHPUT: [Column; 7] = [
    ("drills", 24, false),
    ("lanes", 6, true),
    ("per s", 8, true),
    ("CPU ms", 9, true),
    ("harness", 9, false),
    ("workers", 9, false),
    ("outer", 0, false),
];
const LATENCIES: [Column; 6] = [
    ("latency, us", 36, false),
    ("samples", 8, true),
    ("p50", 9, true),
    ("p99", 9, true),
    ("p99.9", 9, true),
    ("worst", 9, true),
];
const LATENESS: [Column; 5] = [
    ("lateness", 12, false),
    ("drills", 8, true),
    ("in time", 9, true),
    ("worst ms", 11, true),
    ("closest to its limit", 0, false),
];

/// Rows below their columns; where they don't fit, each cell with the name of its column, below the first.
fn table(screen: Screen, columns: &[Column], rows: Vec<Vec<String>>) -> String {
    let names = columns.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let lines: Vec<String> = std::iter::once(names).chain(rows.iter().cloned()).map(|row| line(columns, row)).collect();
    if lines.iter().all(|line| line.chars().count() <= screen.width) {
        return format!("\n{}\n{}\n", paint(STRONG, &lines[0]), lines[1..].join("\n"));
    }
    let mut text = format!("\n{}\n", paint(STRONG, columns[0].0));
    for row in rows {
        text.push_str(&screen.wrap(&row[0], "", "  "));
        let named = columns.iter().zip(&row).skip(1).map(|((name, ..), cell)| {
            let words = format!("{name} {cell}");
            // What is short stays together.
            if words.chars().count() < screen.width / 2 { words.replace(' ', "\u{a0}") } else { words }
        });
        text.push_str(&screen.wrap(&named.collect::<Vec<_>>().join("\u{a0}· "), "  ", "  "));
    }
    text
}

/// Cells in their columns. A column of words that follows numbers keeps away from them.
fn line(columns: &[Column], cells: Vec<String>) -> String {
    let mut text = String::new();
    let mut after_number = false;
    for ((_, width, is_number), cell) in columns.iter().zip(cells) {
        let gap = if after_number && !is_number { "   " } else { "" };
        text += &if *is_number { format!("{cell:>width$}") } else { format!("{gap}{cell:<width$}") };
        after_number = *is_number;
    }
    text
}

fn row(measured: &Throughput) -> Vec<String> {
    let Throughput { what, clock, lanes, per_second, cpu_us, cpu, outer_us, .. } = measured;
    let pair = |user: u64, system: u64| format!("{:.1}+{:.1}", user as f64 / 1e3, system as f64 / 1e3);
    let mut outer = format!("{:.1}", *outer_us as f64 / 1e3);
    let others = measured.drills - measured.matched;
    if others > 0 {
        outer.push_str(&format!("  {others} of {} not matched", measured.drills));
    }
    vec![
        format!("{what}, {}", clock.name()),
        lanes.to_string(),
        format!("{per_second:.1}"),
        format!("{:.1}", cpu_us / 1e3),
        pair(cpu.harness_user_us, cpu.harness_system_us),
        pair(cpu.workers_user_us, cpu.workers_system_us),
        outer,
    ]
}

fn latency(latency: &Latency) -> Vec<String> {
    let Latency { what, samples, p50_us, p99_us, p99_9_us, worst_us } = latency;
    let numbers = [*samples as u64, *p50_us, *p99_us, *p99_9_us, *worst_us];
    std::iter::once((*what).to_owned()).chain(numbers.map(|number| number.to_string())).collect()
}

fn speed(screen: Screen, at: &AtSpeed) -> Vec<String> {
    let name = format!("{:.0}{}", at.speed, screen.marks().times);
    let worst = at.parts.iter().map(|part| part.worst_us).max().unwrap_or(0) as f64 / 1e3;
    let closest = at.tightest().map_or_else(String::new, |part| {
        let [late, allowed] = [part.closest_us, part.allowed_us].map(|us| us as f64 / 1e3);
        format!("{late:.2} of {allowed:.2} ms ({})", part.part.name())
    });
    let share = 100.0 * at.in_time as f64 / at.drills.max(1) as f64;
    vec![name, at.drills.to_string(), format!("{share:.0}%"), format!("{worst:.2}"), closest]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bench::figures, cli::ClockChoice, validate::item::Cpu};

    #[test]
    fn the_tables_fit_every_screen() {
        let cpu = Cpu {
            harness_user_us: 24_000,
            harness_system_us: 9_300,
            workers_user_us: 18_100,
            workers_system_us: 6_400,
        };
        let throughput = Throughput {
            what: "random mix",
            clock: ClockChoice::Scaled,
            lanes: 8,
            drills: 60,
            matched: 58,
            diverged: 0,
            inconclusive: 2,
            per_second: 123.4,
            cpu_us: 58_000.0,
            cpu,
            outer_us: 200,
        };
        let latency = Latency {
            what: "SIGTERM sent to readiness withdrawn",
            samples: 12_345,
            p50_us: 33,
            p99_us: 93,
            p99_9_us: 2_522,
            worst_us: 123_456,
        };
        let lateness = AtSpeed { speed: 60.0, drills: 12, in_time: 11, parts: Vec::new() };
        let document = Document {
            format: figures::FORMAT,
            version: figures::VERSION,
            program: "0.1.0",
            cores: 2,
            load: Some(2.3),
            seconds: 5,
            throughput: vec![throughput],
            latencies: vec![latency],
            lateness: vec![lateness],
        };
        for width in [40, 80, 100] {
            let screen = Screen { width, ascii: false, verbose: false };
            let text = anstream::adapter::strip_str(&report(screen, &document)).to_string();
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{width}:\n{text}");
            let words = text.split([' ', '\n', '\u{a0}']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
            for cell in ["random mix, scaled", "123.4", "24.0+9.3", "2 of 60 not matched", "123456", "92%"] {
                assert!(words.contains(cell), "{cell} at {width}:\n{text}");
            }
        }
    }
}
