//! The kernel's record of a cell's signals, held against the masks of its processes. Pure.

use std::fmt;

use scenarios::{Signal, Status};
use serde::Serialize;

use super::cell::Signalled;
use crate::evidence::{
    Disposition, ProcessFacts,
    kernel::{Outcome, SignalRecord, Step},
};

/// Whether the kernel's record of a cell says what the masks of its processes said before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// It does.
    Agrees,
    /// It does not, and what explains that is known.
    Explained,
    /// It does not, and nothing explains that.
    Unexplained,
    /// Something that happened is not in it.
    Missing,
}

/// What the kernel recorded of a cell, beside the masks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Testimony {
    /// Whether both say the same.
    pub agreement: Agreement,
    /// What is different, in the order of the record.
    pub differences: Vec<Difference>,
    /// What happened and is not in the record, in sentences.
    pub missing: Vec<String>,
    /// The processes from the top down, just before SIGTERM.
    pub processes: Vec<ProcessFacts>,
    /// What the kernel recorded of SIGTERM and SIGKILL to them, in microseconds after SIGTERM was sent.
    pub records: Vec<SignalRecord>,
}

/// A SIGTERM with which a process did something else than its masks said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The pid of the process in the PID namespace of the one that looks.
    pub pid: i32,
    /// Its name; the worker is `app`.
    pub program: String,
    /// What its masks said.
    pub masks: Disposition,
    /// What the kernel recorded.
    pub record: Recorded,
    /// What explains it, if that is known.
    pub why: Option<Why>,
}

/// What became of one SIGTERM by the kernel's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Recorded {
    /// It was dropped when it was sent.
    Dropped,
    /// It was queued, and the handler ran.
    HandlerRan,
    /// It was queued, and the process died of it.
    Died,
    /// It was queued, and nothing came of it when its turn came: it was ignored by then.
    IgnoredLater,
    /// It was queued, and SIGKILL came before its turn.
    KilledFirst,
    /// It was queued, and the record says no more: it is pending, or was taken by a system call.
    Queued,
    /// There was no room to queue it.
    Lost,
}

/// Why masks and record differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The process takes SIGTERM by sigtimedwait(2) or a signalfd(2). Masks don't show that, nor does the record.
    TakenByCall,
    /// Its handler ran, gave itself up and sent SIGTERM to its own process again.
    SentToItself,
    /// It was dying of an earlier one: the kernel drops what comes after that, as it does for a zombie.
    DyingAlready,
    /// SIGKILL came before its handler had its turn.
    KilledFirst,
}

impl Why {
    /// All of them.
    pub const ALL: [Why; 4] = [Why::TakenByCall, Why::SentToItself, Why::DyingAlready, Why::KilledFirst];
}

/// What follows the name of the program.
impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::TakenByCall => "takes SIGTERM by a system call (sigtimedwait, signalfd), which masks don't show",
            Why::SentToItself => "gives its handler up when it has run, and sends itself another SIGTERM",
            Why::DyingAlready => "was dying of an earlier SIGTERM, so that the kernel dropped the next one",
            Why::KilledFirst => "was killed by SIGKILL before its handler had its turn",
        })
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Recorded::Dropped => "dropped",
            Recorded::HandlerRan => "queued, and the handler ran",
            Recorded::Died => "queued, and died of it",
            Recorded::IgnoredLater => "queued, and ignored when its turn came",
            Recorded::KilledFirst => "queued, and SIGKILL came first",
            Recorded::Queued => "queued",
            Recorded::Lost => "lost, for want of room",
        })
    }
}

/// `dash (masks: default; record: dropped)`, with what explains it.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { program, masks, record, why, .. } = self;
        match why {
            Some(why) => write!(f, "{program} {why}")?,
            None => write!(f, "nothing explains what {program} did")?,
        }
        write!(f, " (masks: {}; record: {record})", masks.name())
    }
}

/// Holds the records of a cell, or why there are none, against the masks and against what was seen.
pub(super) fn testimony(signalled: Signalled, records: Result<Vec<SignalRecord>, String>) -> Testimony {
    let (records, unread) = match records {
        Ok(records) => (records, None),
        Err(why) => (Vec::new(), Some(format!("The kernel's record can't be read, since {why}."))),
    };
    let case = Case { signalled: &signalled, records: &records };
    let missing: Vec<String> = unread.map_or_else(|| case.missing(), |unread| vec![unread]);
    let differences: Vec<Difference> = (0..records.len()).filter_map(|index| case.difference(index)).collect();
    let worst = |difference: &Difference| {
        if difference.why.is_some() { Agreement::Explained } else { Agreement::Unexplained }
    };
    let of_masks = differences.iter().map(worst).max().unwrap_or(Agreement::Agrees);
    let agreement = if missing.is_empty() { of_masks } else { Agreement::Missing };
    Testimony { agreement, differences, missing, processes: signalled.processes, records }
}

struct Case<'a> {
    signalled: &'a Signalled,
    records: &'a [SignalRecord],
}

impl Case<'_> {
    /// What must be in the record and is not.
    fn missing(&self) -> Vec<String> {
        let Signalled { top, worker, killed, told, worker_status, .. } = *self.signalled;
        let sent = |signal: Signal, pid: i32| self.records.iter().filter(move |record| record.is_sent(signal, pid));
        let by_harness = |record: &SignalRecord| matches!(&record.step, Step::Sent { by_pid, .. } if *by_pid == Some(self.signalled.harness));
        let queued = |record: &SignalRecord| matches!(record.step, Step::Sent { outcome: Outcome::Queued, .. });
        let must = [
            (true, sent(Signal::TERM, top).any(by_harness), "the SIGTERM to the top"),
            (killed, sent(Signal::KILL, top).any(by_harness), "the SIGKILL to the top"),
            (
                told || worker_status == Some(Status::SIGTERM),
                sent(Signal::TERM, worker).any(queued),
                "the SIGTERM that the worker got",
            ),
            (
                worker_status == Some(Status::SIGKILL),
                sent(Signal::KILL, worker).any(queued),
                "the SIGKILL that the worker died of",
            ),
        ];
        let missing = must.into_iter().filter(|(happened, is_there, _)| *happened && !is_there);
        missing.map(|(_, _, what)| format!("The kernel's record lacks {what}.")).collect()
    }

    /// What is different where this record is of a SIGTERM that was sent.
    fn difference(&self, index: usize) -> Option<Difference> {
        let record = &self.records[index];
        let Step::Sent { by_pid, outcome, .. } = &record.step else { return None };
        if record.signal != Signal::TERM {
            return None;
        }
        let pid = record.pid;
        let process = self.signalled.processes.iter().find(|process| process.pid == pid)?;
        let before = || self.records[..index].iter().filter(|record| record.pid == pid);
        let recorded = match outcome {
            Outcome::Dropped => Recorded::Dropped,
            Outcome::Lost => Recorded::Lost,
            Outcome::Queued => what_followed(self.records[index + 1..].iter().filter(|record| record.pid == pid)),
            // One signal of a kind is pending at most (signal(7)): the two are one from here on.
            Outcome::AlreadyPending => return None,
        };
        let masks = process.by_masks.unwrap_or(process.sigterm);
        let is_as_said = match (masks, recorded) {
            (Disposition::Ignored, Recorded::Dropped) | (Disposition::Caught, Recorded::HandlerRan) => true,
            // The kernel drops nothing that is waited for.
            (Disposition::Default, Recorded::Dropped) => process.is_init() && process.sigterm != Disposition::WaitedFor,
            (Disposition::Default, Recorded::Died) => !process.is_init(),
            // Until SIGKILL, if need be.
            (Disposition::Blocked, Recorded::Queued | Recorded::KilledFirst) => process.sigterm == Disposition::Blocked,
            _ => false,
        };
        if is_as_said {
            return None;
        }
        let ran = before().any(|record| record.step == Step::Delivered { handler: true });
        // What is not an init has died of the first signal that has the default action.
        let dies = masks == Disposition::Default && !process.is_init();
        let why = match recorded {
            _ if ran && *by_pid == Some(pid) => Some(Why::SentToItself),
            Recorded::Queued if process.sigterm == Disposition::WaitedFor => Some(Why::TakenByCall),
            Recorded::KilledFirst if process.sigterm == Disposition::WaitedFor => Some(Why::TakenByCall),
            Recorded::KilledFirst if masks == Disposition::Caught => Some(Why::KilledFirst),
            Recorded::Dropped if dies && before().any(|record| record.is_sent(Signal::TERM, pid)) => {
                Some(Why::DyingAlready)
            }
            _ => None,
        };
        let program = if pid == self.signalled.worker { "app" } else { process.program() }.to_owned();
        Some(Difference { pid, program, masks, record: recorded, why })
    }
}

/// What became of a SIGTERM that was queued for a process, by what was recorded of that process after it.
fn what_followed<'a>(mut later: impl Iterator<Item = &'a SignalRecord>) -> Recorded {
    let decides = |record: &SignalRecord| match (&record.step, record.signal) {
        (Step::Delivered { handler: true }, Signal::TERM) => Some(Recorded::HandlerRan),
        (Step::Delivered { .. }, Signal::TERM) => Some(Recorded::IgnoredLater),
        // By its default action: the kernel makes a SIGKILL for all threads of it, which nobody has sent.
        (Step::Delivered { .. }, _) => Some(Recorded::Died),
        (Step::Sent { outcome: Outcome::Queued, .. }, Signal::KILL) => Some(Recorded::KilledFirst),
        (Step::Sent { .. }, _) => None,
    };
    later.find_map(decides).unwrap_or(Recorded::Queued)
}

#[cfg(test)]
mod tests;
