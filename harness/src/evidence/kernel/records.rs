//! The text of a trace as records. Pure.

use std::collections::BTreeMap;

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

/// Reads a trace. `pids` has the drill's number for each number on the host; what concerns other processes is left out.
pub(super) fn parse(text: &str, pids: &BTreeMap<i32, i32>, harness: i32, origin_ns: u64) -> Vec<SignalRecord> {
    let mut records: Vec<SignalRecord> =
        text.lines().filter_map(|line| record(line, pids, harness, origin_ns)).collect();
    records.sort_by_key(|record| record.at_us);
    records
}

/// `  dash-812  [001] d..1.  5123.456789: signal_generate: sig=15 errno=0 code=0 comm=dash pid=813 grp=1 res=0`
fn record(line: &str, pids: &BTreeMap<i32, i32>, harness: i32, origin_ns: u64) -> Option<SignalRecord> {
    let (before, event) = line.split_once(": signal_")?;
    let mut columns = before.rsplitn(4, char::is_whitespace);
    let at_us = micros(columns.next()?)? - i64::try_from(origin_ns / 1000).ok()?;
    let task = before.rsplit_once(" [")?.0.trim();
    // A name may hold blanks and hyphens.
    let (by, task) = task.rsplit_once('-')?;
    let task: i32 = task.trim().parse().ok()?;
    let field = |name: &str| -> Option<i64> {
        let value = event.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
        value.parse().ok()
    };
    let signal = Signal::from_number(field("sig")?.try_into().ok()?)?;
    if event.starts_with("deliver: ") {
        let address = event.split_once("sa_handler=")?.1.split(' ').next()?;
        // 0 is SIG_DFL, 1 SIG_IGN.
        let handler = u64::from_str_radix(address, 16).ok()? > 1;
        return Some(SignalRecord { at_us, signal, pid: *pids.get(&task)?, step: Step::Delivered { handler } });
    }
    let (_, target) = event.rsplit_once(" pid=")?;
    let target: i32 = target.split(' ').next()?.parse().ok()?;
    let outcome = match event.rsplit_once(" res=")?.1.trim() {
        "0" => Outcome::Queued,
        "1" => Outcome::Dropped,
        "2" => Outcome::AlreadyPending,
        _ => Outcome::Lost,
    };
    let by = if task == harness { "the harness" } else { by }.to_owned();
    let by_kernel = field("code") == Some(SI_KERNEL.into());
    let step = Step::Sent { by, by_pid: pids.get(&task).copied(), by_kernel, outcome };
    Some(SignalRecord { at_us, signal, pid: *pids.get(&target)?, step })
}

/// Seconds with six decimals as whole microseconds.
fn micros(seconds: &str) -> Option<i64> {
    let (whole, part) = seconds.split_once('.')?;
    let digits = part.len() == 6 && part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, part): (i64, i64) = (whole.parse().ok()?, part.parse().ok()?);
    digits.then_some(whole.checked_mul(1_000_000)?.checked_add(part)?)
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
        let pids = BTreeMap::from([(500, 1), (501, 12), (502, 13)]);
        let records = parse(TRACE, &pids, 500, 5_000_000_000_000);
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
    }

    #[test]
    fn only_whole_microseconds_are_a_time() {
        assert_eq!(micros("5000.000001"), Some(5_000_000_001));
        for bad in ["5000", "5000.1", "5000.00000a", "-.000001", "5000.-00001", "99999999999999999.000000"] {
            assert_eq!(micros(bad), None, "{bad}");
        }
    }
}
