//! The text of a trace as records. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use scenarios::Signal;
use serde::{Deserialize, Serialize};

/// One thing that happened to a signal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalRecord {
    /// When, in microseconds after the drill's start.
    pub at_us: i64,
    /// Which signal.
    pub signal: Signal,
    /// The process that it was for, as the drill's PID namespace numbers it.
    pub pid: i32,
    /// What happened.
    pub step: Step,
}

impl SignalRecord {
    /// Whether it tells that this signal was sent to this process.
    #[must_use]
    pub fn is_sent(&self, signal: Signal, pid: i32) -> bool {
        self.signal == signal && self.pid == pid && matches!(self.step, Step::Sent { .. })
    }
}

/// What happens to a signal, twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// It was sent.
    Sent {
        /// The sender's name, as `comm` has it; of the harness, `the harness`.
        by: String,
        /// The sender's number in the drill's PID namespace, where it is in the drill.
        by_pid: Option<i32>,
        /// Whether the kernel itself sent it, as it does to all of a PID namespace whose PID 1 ends.
        by_kernel: bool,
        /// What became of it at once.
        outcome: Outcome,
    },
    /// The process took it: its handler runs, or the default action does. One that sits in sigtimedwait(2) or reads a
    /// signalfd(2) takes it without that.
    Delivered {
        /// Whether a handler runs.
        handler: bool,
    },
}

/// What became of a signal when it was sent (linux/include/trace/events/signal.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was queued for the process.
    Queued,
    /// It was dropped: it is ignored, its action is the default one and the process is PID 1 of a PID namespace, or
    /// the process is dead already.
    Dropped,
    /// One was pending already.
    AlreadyPending,
    /// There was no room to queue it.
    Lost,
}

/// What the kernel writes for SI_KERNEL in `code` (sigaction(2)).
const SI_KERNEL: i32 = 0x80;

/// What was recorded on this machine, whoever's processes it was about, with the host's numbers for them.
#[derive(Debug, Default)]
pub(super) struct Recording {
    lines: Vec<Line>,
    /// Whether the kernel had more to record than there was room for.
    pub(super) lost: bool,
}

/// The numbers of the processes that are of interest.
pub(super) struct Numbers {
    /// The drill's number of the process for each number of a process or a thread on the host.
    pub(super) pids: BTreeMap<i32, i32>,
    /// The harness's number on the host.
    pub(super) harness: i32,
}

/// A line of a trace.
#[derive(Debug)]
struct Line {
    /// On CLOCK_MONOTONIC.
    at_us: u64,
    signal: Signal,
    /// The thread that sent the signal or took it, by name and number.
    task: (String, i32),
    /// The number of its process, where the kernel tells it.
    process: Option<i32>,
    event: Event,
}

#[derive(Debug)]
enum Event {
    Generate { target: i32, by_kernel: bool, outcome: Outcome },
    Deliver { handler: bool },
}

impl Recording {
    /// Adds the text of a trace.
    pub(super) fn add(&mut self, text: &str) {
        // `CPU:1 [LOST 3 EVENTS]`
        self.lost |= text.lines().any(|line| line.starts_with("CPU:") && line.contains("[LOST "));
        self.lines.extend(text.lines().filter_map(line));
    }

    /// What concerns these processes, from and to these moments of CLOCK_MONOTONIC in nanoseconds, in order.
    pub(super) fn of(&self, numbers: &Numbers, origin_ns: u64, window_ns: RangeInclusive<u64>) -> Vec<SignalRecord> {
        // The trace rounds to whole microseconds.
        let window = window_ns.start() / 1000..=(window_ns.end() / 1000).saturating_add(1);
        let inside = self.lines.iter().filter(|line| window.contains(&line.at_us));
        let mut records: Vec<SignalRecord> = inside.filter_map(|line| line.of(numbers, origin_ns)).collect();
        records.sort_by_key(|record| record.at_us);
        // Each thread of a process that is killed takes the signal.
        let mut taken = BTreeSet::new();
        records.retain(|record| match record.step {
            Step::Delivered { .. } => taken.insert((record.pid, record.signal)),
            Step::Sent { .. } => {
                taken.remove(&(record.pid, record.signal));
                true
            }
        });
        records
    }
}

impl Line {
    fn of(&self, Numbers { pids, harness }: &Numbers, origin_ns: u64) -> Option<SignalRecord> {
        let (name, task) = &self.task;
        let doer = pids.get(task).or_else(|| pids.get(self.process.as_ref()?)).copied();
        let (pid, step) = match self.event {
            Event::Deliver { handler } => (doer?, Step::Delivered { handler }),
            Event::Generate { ref target, by_kernel, outcome } => {
                let by = if task == harness { "the harness" } else { name }.to_owned();
                (*pids.get(target)?, Step::Sent { by, by_pid: doer, by_kernel, outcome })
            }
        };
        let at_us = i64::try_from(self.at_us).ok()? - i64::try_from(origin_ns / 1000).ok()?;
        Some(SignalRecord { at_us, signal: self.signal, pid, step })
    }
}

/// The number of the thread that wrote this mark into the trace.
pub(super) fn marked_by(text: &str, mark: &str) -> Option<i32> {
    let line = text.lines().find_map(|line| line.strip_suffix(mark)?.strip_suffix(": tracing_mark_write: "))?;
    Some(columns(line)?.task)
}

/// Who a line is by, and when.
struct Columns<'a> {
    name: &'a str,
    task: i32,
    process: Option<i32>,
    at_us: u64,
}

/// `  dash-812  (    810) [001] d..1.  5123.456789`. A name may hold blanks, hyphens and brackets. The number of the process is
/// there where it was asked for, and `-------` where it is not known.
fn columns(line: &str) -> Option<Columns<'_>> {
    let (task, rest) = line.rsplit_once(" [")?;
    let task = task.trim();
    let (task, process) = match task.strip_suffix(')').and_then(|task| task.rsplit_once('(')) {
        Some((task, process)) => (task.trim(), process.trim().parse().ok()),
        None => (task, None),
    };
    let (name, task) = task.rsplit_once('-')?;
    let at_us = micros(rest.rsplit(char::is_whitespace).next()?)?;
    Some(Columns { name, task: task.parse().ok()?, process, at_us })
}

/// `  dash-812  [001] d..1.  5123.456789: signal_generate: sig=15 errno=0 code=0 comm=dash pid=813 grp=1 res=0`
fn line(line: &str) -> Option<Line> {
    let (before, event) = line.split_once(": signal_")?;
    let Columns { name, task, process, at_us } = columns(before)?;
    let field = |name: &str| -> Option<i64> {
        let value = event.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
        value.parse().ok()
    };
    let signal = Signal::from_number(field("sig")?.try_into().ok()?)?;
    let what = if event.starts_with("deliver: ") {
        let address = event.split_once("sa_handler=")?.1.split(' ').next()?;
        // 0 is SIG_DFL, 1 SIG_IGN.
        Event::Deliver { handler: u64::from_str_radix(address, 16).ok()? > 1 }
    } else {
        let (_, target) = event.rsplit_once(" pid=")?;
        let outcome = match event.rsplit_once(" res=")?.1.trim() {
            "0" => Outcome::Queued,
            "1" => Outcome::Dropped,
            "2" => Outcome::AlreadyPending,
            _ => Outcome::Lost,
        };
        let by_kernel = field("code") == Some(SI_KERNEL.into());
        Event::Generate { target: target.split(' ').next()?.parse().ok()?, by_kernel, outcome }
    };
    Some(Line { at_us, signal, task: (name.to_owned(), task), process, event: what })
}

/// Seconds with six decimals as whole microseconds.
fn micros(seconds: &str) -> Option<u64> {
    let (whole, part) = seconds.split_once('.')?;
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || part.len() != 6 || !is_number(part) {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(part.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
# tracer: nop
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
       termdrill-500     [001] d..1.  5000.100200: signal_generate: sig=15 errno=0 code=0 comm=my prog-1 pid=501 grp=1 res=1
       odd name-2-777    [000] d..1.  5000.100300: signal_generate: sig=15 errno=0 code=0 comm=x pid=778 grp=1 res=0
            tini-501     [000] d..1.  5000.100400: signal_generate: sig=15 errno=0 code=0 comm=sh pid=502 grp=1 res=0
              sh-502     [000] d....  5000.100450: signal_deliver: sig=15 errno=0 code=0 sa_handler=55d0c0de sa_flags=4000000
              sh-502     [000] d....  5000.100460: signal_deliver: sig=9 errno=0 code=0 sa_handler=0 sa_flags=0
            tini-501     [000] d..1.  5000.200000: signal_generate: sig=9 errno=0 code=128 comm=sh pid=502 grp=1 res=0
CPU:1 [LOST 3 EVENTS]
            tini-501     [000] d..1.  nonsense: signal_generate: sig=9 errno=0 code=128 comm=sh pid=502 grp=1 res=0
";

    #[test]
    fn records_of_the_drill_are_read_and_others_left_out() {
        let numbers = Numbers { pids: BTreeMap::from([(500, 1), (501, 12), (502, 13)]), harness: 500 };
        let mut recording = Recording::default();
        // It comes in portions.
        let (first, second) = TRACE.split_at(TRACE.find("            sh-502").unwrap());
        [first, second].into_iter().for_each(|portion| recording.add(portion));
        let records = recording.of(&numbers, 5_000_000_000_000, 0..=u64::MAX);
        let sent = |by: &str, by_pid, by_kernel, outcome| Step::Sent { by: by.to_owned(), by_pid, by_kernel, outcome };
        let expected = [
            (100_200, 15, 12, sent("the harness", Some(1), false, Outcome::Dropped)),
            (100_400, 15, 13, sent("tini", Some(12), false, Outcome::Queued)),
            (100_450, 15, 13, Step::Delivered { handler: true }),
            (100_460, 9, 13, Step::Delivered { handler: false }),
            (200_000, 9, 13, sent("tini", Some(12), true, Outcome::Queued)),
        ]
        .map(|(at_us, signal, pid, step)| SignalRecord {
            at_us,
            signal: Signal::from_number(signal).unwrap(),
            pid,
            step,
        });
        assert_eq!(records, expected);
        assert!(recording.lost, "three events were");
        // The trace has 5000.100450 for anything from half a microsecond before it to half a one after it.
        let window = 5_000_100_449_700..=5_000_100_459_500;
        assert_eq!(recording.of(&numbers, 5_000_000_000_000, window), expected[2..4]);
        let stranger = Numbers { pids: BTreeMap::new(), harness: 500 };
        assert_eq!(recording.of(&stranger, 0, 0..=u64::MAX), []);
    }

    #[test]
    fn any_thread_can_take_a_signal_and_one_that_kills_is_told_once() {
        let mut recording = Recording::default();
        recording.add(
            "\
          main-500   [001] d..1.  5.100200: signal_generate: sig=15 errno=0 code=0 comm=app pid=8 grp=1 res=0
         app-2-12    [001] d....  5.100300: signal_deliver: sig=15 errno=0 code=0 sa_handler=55d0c0de sa_flags=4000000
          main-500   [001] d..1.  5.100400: signal_generate: sig=9 errno=0 code=0 comm=app pid=8 grp=1 res=0
           app-8     [001] d....  5.100500: signal_deliver: sig=9 errno=0 code=0 sa_handler=0 sa_flags=0
         app-2-12    [001] d....  5.100600: signal_deliver: sig=9 errno=0 code=0 sa_handler=0 sa_flags=0
          main-500   [001] d..1.  5.100700: signal_generate: sig=9 errno=0 code=0 comm=app pid=8 grp=1 res=1
",
        );
        let numbers = Numbers { pids: BTreeMap::from([(8, 80), (12, 80)]), harness: 500 };
        let records = recording.of(&numbers, 0, 0..=u64::MAX);
        let steps: Vec<_> = records
            .iter()
            .map(|record| (record.at_us - 5_100_000, record.pid, matches!(record.step, Step::Delivered { .. })))
            .collect();
        assert_eq!(steps, [(200, 80, false), (300, 80, true), (400, 80, false), (500, 80, true), (700, 80, false)]);
    }

    #[test]
    fn a_thread_that_nobody_has_looked_at_is_known_by_its_process() {
        let mut recording = Recording::default();
        recording.add(
            "\
      main-500   (    500) [001] d..1.  5.100200: signal_generate: sig=15 errno=0 code=0 comm=app pid=8 grp=1 res=0
  (app) (1)-12   (      8) [001] d....  5.100300: signal_deliver: sig=15 errno=0 code=0 sa_handler=55d0c0de sa_flags=4000000
     other-13   (-------) [001] d....  5.100400: signal_deliver: sig=15 errno=0 code=0 sa_handler=55d0c0de sa_flags=4000000
",
        );
        let numbers = Numbers { pids: BTreeMap::from([(8, 80)]), harness: 500 };
        let records = recording.of(&numbers, 0, 0..=u64::MAX);
        let steps: Vec<_> = records.iter().map(|record| (record.at_us - 5_100_000, record.pid)).collect();
        assert_eq!(steps, [(200, 80), (300, 80)]);
    }

    #[test]
    fn a_name_may_look_like_anything() {
        let mut recording = Recording::default();
        recording.add("  a-1 [002] x: y-7  [001] d..1.  5.1: nonsense\n");
        recording.add(
            "  a-1 [002] x: y-7  [001] d..1.  5.100200: signal_generate: sig=15 code=0 comm=: x pid=3 pid=8 res=1",
        );
        let records = recording.of(&Numbers { pids: BTreeMap::from([(8, 80)]), harness: 9 }, 0, 0..=u64::MAX);
        let Step::Sent { by, .. } = &records[0].step else { panic!("{records:?}") };
        assert_eq!((records.len(), records[0].pid, by.as_str()), (1, 80, "a-1 [002] x: y"));
        assert!(!recording.lost);
    }

    #[test]
    fn a_mark_tells_who_wrote_it() {
        let line = "  termdrill-512  [001] .....  1.000001: tracing_mark_write: termdrill";
        assert_eq!(marked_by(&format!("# tracer: nop\n{line}\n"), "termdrill"), Some(512));
        assert_eq!(marked_by(line, "other"), None);
    }

    #[test]
    fn only_whole_microseconds_are_a_time() {
        assert_eq!(micros("5000.000001"), Some(5_000_000_001));
        for bad in ["5000", "5000.1", "5000.00000a", "-.000001", "5000.-00001", "-1.000001", "99999999999999999.000000"]
        {
            assert_eq!(micros(bad), None, "{bad}");
        }
    }
}
