//! What a check came to: everything that is judged, shown and stored.

use scenarios::{Signal, Status};
use serde::{Deserialize, Serialize};

use super::{
    fate::{Connection, Fate, Phase},
    memory::RanOut,
    settings::{Seat, Settings},
    text,
};
use crate::evidence::{self, Kernel, ProcessEnd, Snapshot};

/// What the document says it is.
pub const FORMAT: &str = "termdrill-check";
/// The version of the document.
pub const VERSION: u32 = 1;

/// Whether the server stops as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It does.
    Pass,
    /// It does not.
    Fail,
    /// Nothing is proved either way.
    Inconclusive,
}

impl Verdict {
    /// 0, 1, 3.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Verdict::Pass => 0,
            Verdict::Fail => 1,
            Verdict::Inconclusive => crate::failure::UNABLE,
        }
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Pass => "PASS",
            Verdict::Fail => "FAIL",
            Verdict::Inconclusive => "INCONCLUSIVE",
        }
    }

    /// The worse of two: a failure is worse than no verdict.
    #[must_use]
    pub fn worse(self, other: Verdict) -> Verdict {
        match (self, other) {
            (Verdict::Fail, _) | (_, Verdict::Fail) => Verdict::Fail,
            (Verdict::Inconclusive, _) | (_, Verdict::Inconclusive) => Verdict::Inconclusive,
            _ => Verdict::Pass,
        }
    }
}

/// A whole check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The worst of the verdicts.
    pub verdict: Verdict,
    /// What was asked for.
    pub settings: Settings,
    /// One drill for each seat.
    pub seats: Vec<SeatRecord>,
    /// How the seats differ, in one line.
    pub difference: Option<String>,
}

impl Record {
    /// Of drills, each in its seat. No secret that the drills were given is in it.
    #[must_use]
    pub fn new(settings: Settings, seats: Vec<SeatRecord>) -> Record {
        Record {
            format: FORMAT.to_owned(),
            version: VERSION,
            verdict: seats.iter().fold(Verdict::Pass, |worst, seat| worst.worse(seat.judgement.verdict)),
            settings: settings.without_secrets(),
            difference: text::difference(&seats),
            seats,
        }
    }
}

/// The drill in one seat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeatRecord {
    /// The seat.
    pub seat: Seat,
    /// What was observed.
    pub observed: Observed,
    /// How it is judged.
    pub judgement: Judgement,
    /// Where the signal went, and what to change.
    pub explanation: Explanation,
}

/// How a drill is judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Why it is no pass, or what a pass means.
    pub reasons: Vec<String>,
    /// What fails nothing and should be known all the same.
    pub remarks: Vec<String>,
    /// How many requests were lost.
    pub lost: u64,
    /// How many were refused after the signal, or turned away with 503.
    pub refused: u64,
    /// How many of the requests could be refused: those that were sent after the signal.
    pub after: u64,
}

/// Where the signal went.
pub type Explanation = evidence::Explanation<Cause>;

/// Why the signal had the effect that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It was not sent.
    NotSent,
    /// PID 1 had no handler, so the kernel dropped it.
    Dropped,
    /// Whoever got it last ignores it.
    Ignored,
    /// It is held back: blocked and not taken.
    Held,
    /// The app got it and died of it.
    Died,
    /// The app got it and ended by itself.
    Ended,
    /// The app got it, closed its port and was not done in time.
    TooSlow,
    /// The app could have got it, and went on as if nothing had been sent.
    NoReaction,
    /// The first process has a handler, and waits for its foreground child without passing it on.
    WaitsForChild,
    /// The first process passed it on, but left before the app was done.
    LeftEarly,
    /// The first process ended by it, and the app never got it.
    NotPassedOn,
    /// What was observed does not tell.
    Unknown,
}

/// What was observed of the drill in one seat. Times are in microseconds after the signal. Where none was sent they are
/// told from when it was to be, or from the start where the command never got ready and that was not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The port that requests were sent to.
    pub port: u16,
    /// What kept the drill from being made, in words that end a sentence.
    pub unable: Option<String>,
    /// How the boot went.
    pub boot: Boot,
    /// The signal that was sent, and to which processes.
    pub signal: Option<Sending>,
    /// The second signal.
    pub second_signal: Option<Sending>,
    /// SIGKILL.
    pub sigkill: Option<Sending>,
    /// The kernel's own record of these signals, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Kernel>,
    /// When the command was started.
    #[serde(default)]
    pub started_us: i64,
    /// When the stop began: so long before the signal as the hook before it took.
    pub stop_us: i64,
    /// When the grace period ended, or would have.
    pub deadline_us: i64,
    /// When nobody listened on the port any more.
    pub listener_closed_us: Option<i64>,
    /// When the app's own process ended.
    pub app_gone_us: Option<i64>,
    /// When the first process ended.
    pub top_gone_us: Option<i64>,
    /// When the drill ended and its clean-up began.
    pub end_us: i64,
    /// How the first process ended; `None` where it was still there at the end.
    pub exit: Option<Status>,
    /// Whether the first process was on its way out when the app, another one, was seen to have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_was_ending: Option<bool>,
    /// Whether the memory ran out, so that all processes of the command were killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<RanOut>,
    /// Whether it had ended before anything was sent to it.
    pub ended_early: bool,
    /// The pid of the first process.
    pub top_pid: Option<i32>,
    /// The pid of the app: the uppermost process that listened on the port.
    pub app_pid: Option<i32>,
    /// The processes shortly before the signal.
    pub before: Option<Snapshot>,
    /// Shortly after it.
    pub after: Option<Snapshot>,
    /// Shortly before SIGKILL.
    pub before_sigkill: Option<Snapshot>,
    /// When the first process had ended.
    pub at_top_gone: Option<Snapshot>,
    /// At the end, before the clean-up.
    pub at_end: Option<Snapshot>,
    /// How each process ended.
    pub ends: Vec<ProcessEnd>,
    /// The processes that could not be killed in the clean-up, since we may not, by pid: they live on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beyond: Vec<i32>,
    /// Whether somebody still listened on the port at the end.
    pub port_held_by: Vec<i32>,
    /// What became of each request.
    pub requests: Vec<Request>,
    /// The connections that were only kept open.
    pub idle: Idle,
    /// How our own side did.
    pub client: Client,
    /// What the command wrote, in bytes.
    pub output_bytes: u64,
    /// The end of what it wrote.
    pub output: String,
}

impl Observed {
    /// Every look that was taken at the processes, in order.
    pub fn snapshots(&self) -> impl Iterator<Item = &Snapshot> {
        [&self.before, &self.after, &self.before_sigkill, &self.at_top_gone, &self.at_end].into_iter().flatten()
    }
}

/// How the boot went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Boot {
    /// How long it took until it was ready, in microseconds; `None` where it never was.
    pub ready_after_us: Option<u64>,
    /// The port that it listened on instead of `PORT`.
    pub other_ports: Vec<u16>,
}

/// A signal that was sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sending {
    /// Which one.
    pub signal: Signal,
    /// When.
    pub at_us: i64,
    /// The processes that it was sent to, by pid.
    pub pids: Vec<i32>,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Its number, from 1 on, in the order in which they were sent.
    pub number: usize,
    /// What was asked: its place among the requests, and then the slow requests, of the settings.
    pub template: usize,
    /// When it was sent.
    pub sent_us: i64,
    /// How much later than planned, in microseconds.
    pub late_us: u64,
    /// How long until the first byte of the answer.
    pub first_byte_after_us: Option<u64>,
    /// How long until it was over.
    pub took_us: u64,
    /// On which connection.
    pub connection: Connection,
    /// Before, across or after the signal.
    pub phase: Phase,
    /// What became of it.
    pub fate: Fate,
    /// The status of the answer.
    pub status: Option<u16>,
    /// How many bytes of it came, where only the end of the connection says that it was whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unframed_bytes: Option<u64>,
    /// Whether the kernel's queue of the server was full: the attempt to connect went unanswered, to the end or until it
    /// was repeated, which the kernel does after a second (tcp(7)), and came to nothing then either.
    #[serde(default)]
    pub queue_full: bool,
}

/// The connections that were only kept open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// One that never sent a byte.
    pub silent: IdleConnection,
    /// One that was used once, and again after the signal.
    pub kept_alive: IdleConnection,
}

/// One of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IdleConnection {
    /// Whether there was one when the signal came.
    pub open: bool,
    /// When the server closed it.
    pub closed_us: Option<i64>,
    /// When we gave it up, since it might keep the server from ending.
    pub dropped_us: Option<i64>,
    /// Whether it was given up early, since it seemed to keep the server from serving others.
    pub blocked_others: bool,
}

/// How our own side did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Requests that were not sent since as many as allowed were in flight.
    pub skipped_busy: u64,
    /// Requests that could not be sent, and why.
    pub unable: u64,
    /// Why not, of the first of them.
    pub unable_why: Option<String>,
    /// How late the latest arrival was sent, in microseconds.
    pub worst_late_us: u64,
    /// How many requests could be in flight at once for want of file descriptors, where that is less than what is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// How many arrivals were left out since our own side was late, or were due no more when they could be sent.
    pub left_out: u64,
    /// By how much the signal and all before it were put off, since our own side stood still, in microseconds.
    #[serde(default)]
    pub put_off_us: u64,
}
