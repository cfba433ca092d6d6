//! What became of a request, from what was seen of its connection. Pure.

use serde::{Deserialize, Serialize};

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// A whole answer came, with a status below 500.
    Completed,
    /// A whole answer came, with a status from 500 on.
    #[serde(rename = "completed_5xx")]
    Completed5xx,
    /// The connection was refused: nobody listened.
    Refused,
    /// The connection was reset before a byte of the answer came.
    Reset,
    /// The connection was closed before a byte of the answer came.
    ClosedWithoutAnswer,
    /// The answer ended before it was whole, or was no HTTP.
    Truncated,
    /// The kernel took the connection for the server, which never took it from the kernel's queue (listen(2)).
    AcceptedNeverServed,
    /// The answer was not whole when the time was up.
    TimedOut,
}

impl Fate {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Fate; 8] = [
        Fate::Completed,
        Fate::Completed5xx,
        Fate::Refused,
        Fate::Reset,
        Fate::ClosedWithoutAnswer,
        Fate::Truncated,
        Fate::AcceptedNeverServed,
        Fate::TimedOut,
    ];

    /// Its name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fate::Completed => "completed",
            Fate::Completed5xx => "completed_5xx",
            Fate::Refused => "refused",
            Fate::Reset => "reset",
            Fate::ClosedWithoutAnswer => "closed_without_answer",
            Fate::Truncated => "truncated",
            Fate::AcceptedNeverServed => "accepted_never_served",
            Fate::TimedOut => "timed_out",
        }
    }

    /// In words.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Fate::Completed => "completed",
            Fate::Completed5xx => "completed with 5xx",
            Fate::Refused => "refused",
            Fate::Reset => "reset",
            Fate::ClosedWithoutAnswer => "closed without an answer",
            Fate::Truncated => "truncated",
            Fate::AcceptedNeverServed => "accepted, never served",
            Fate::TimedOut => "timed out",
        }
    }
}

/// When a request was under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It was sent before the signal, and over before it.
    Before,
    /// It was sent before the signal, and not over: it was in flight.
    Across,
    /// It was sent after the signal.
    After,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Phase; 3] = [Phase::Before, Phase::Across, Phase::After];

    /// Of a request that was sent at one moment and over at another, `None` being never.
    #[must_use]
    pub fn of(sent_ns: u64, ended_ns: Option<u64>, signal_ns: Option<u64>) -> Phase {
        match signal_ns {
            None => Phase::Before,
            Some(signal_ns) if sent_ns >= signal_ns => Phase::After,
            Some(signal_ns) if ended_ns.is_some_and(|ended_ns| ended_ns < signal_ns) => Phase::Before,
            Some(_) => Phase::Across,
        }
    }

    /// Its name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Before => "before",
            Phase::Across => "across",
            Phase::After => "after",
        }
    }
}

/// The connection that a request was sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Connection {
    /// It was made for it.
    New,
    /// It was kept alive after an earlier request.
    Reused,
}

/// What came of the attempt to connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Connect {
    /// Nothing yet.
    #[default]
    Pending,
    /// There is a connection.
    Established,
    /// It was refused, or reset before it was there.
    Refused,
    /// Our own side could not: no port or file descriptor left. Nothing follows for the server.
    Unable(String),
}

/// How the connection was when the request was over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Close {
    /// Open: the answer was whole, or the time was up.
    #[default]
    Open,
    /// The server had closed it.
    Closed,
    /// It was reset.
    Reset,
}

/// What was seen of a request's connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// What came of the attempt to connect.
    pub connect: Connect,
    /// The status of the answer, once its head was there.
    pub status: Option<u16>,
    /// How many bytes of the answer came.
    pub received_bytes: u64,
    /// Whether the answer was whole, as its own framing tells.
    pub is_whole: bool,
    /// Whether only the end of the connection says so.
    pub is_unframed: bool,
    /// What is no HTTP in it.
    pub malformed: Option<&'static str>,
    /// How the connection was at the end.
    pub close: Close,
    /// Whether the server had taken the connection from the kernel's queue when that was last looked at.
    pub taken: Option<bool>,
}

impl Seen {
    /// What became of the request; `None` where our own side could not send it.
    #[must_use]
    pub fn fate(&self) -> Option<Fate> {
        match self.connect {
            Connect::Unable(_) => return None,
            Connect::Refused => return Some(Fate::Refused),
            Connect::Pending => return Some(Fate::TimedOut),
            Connect::Established => {}
        }
        if self.is_whole {
            return Some(if self.status >= Some(500) { Fate::Completed5xx } else { Fate::Completed });
        }
        if self.received_bytes > 0 {
            let gave_up = self.close == Close::Open && self.malformed.is_none();
            return Some(if gave_up { Fate::TimedOut } else { Fate::Truncated });
        }
        Some(match (self.taken, self.close) {
            // A connection that waits in the kernel's queue is reset when the port is closed: one that was closed with good
            // manners was taken from it by somebody, after the last look.
            (Some(false), Close::Open | Close::Reset) => Fate::AcceptedNeverServed,
            (_, Close::Open) => Fate::TimedOut,
            (_, Close::Closed) => Fate::ClosedWithoutAnswer,
            (_, Close::Reset) => Fate::Reset,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fate_from_what_was_seen() {
        let pending = Seen::default();
        let there = Seen { connect: Connect::Established, ..Seen::default() };
        let whole = Seen { status: Some(200), received_bytes: 9, is_whole: true, ..there.clone() };
        let rows = [
            (pending.clone(), Some(Fate::TimedOut)),
            (Seen { connect: Connect::Refused, ..pending.clone() }, Some(Fate::Refused)),
            (Seen { connect: Connect::Unable("no port".to_owned()), ..pending }, None),
            (whole.clone(), Some(Fate::Completed)),
            // However the connection ended after a whole answer.
            (Seen { close: Close::Reset, ..whole.clone() }, Some(Fate::Completed)),
            (Seen { close: Close::Closed, taken: Some(false), ..whole.clone() }, Some(Fate::Completed)),
            (Seen { status: Some(404), ..whole.clone() }, Some(Fate::Completed)),
            (Seen { status: Some(500), ..whole.clone() }, Some(Fate::Completed5xx)),
            (Seen { status: Some(503), ..whole.clone() }, Some(Fate::Completed5xx)),
            (Seen { is_whole: false, close: Close::Closed, ..whole.clone() }, Some(Fate::Truncated)),
            (Seen { is_whole: false, close: Close::Reset, ..whole.clone() }, Some(Fate::Truncated)),
            (Seen { is_whole: false, close: Close::Open, ..whole.clone() }, Some(Fate::TimedOut)),
            (Seen { is_whole: false, malformed: Some("no HTTP"), ..whole }, Some(Fate::Truncated)),
            (there.clone(), Some(Fate::TimedOut)),
            (Seen { close: Close::Reset, ..there.clone() }, Some(Fate::Reset)),
            (Seen { close: Close::Reset, taken: Some(true), ..there.clone() }, Some(Fate::Reset)),
            (Seen { close: Close::Reset, taken: Some(false), ..there.clone() }, Some(Fate::AcceptedNeverServed)),
            (Seen { close: Close::Closed, taken: Some(false), ..there.clone() }, Some(Fate::ClosedWithoutAnswer)),
            (Seen { taken: Some(false), ..there.clone() }, Some(Fate::AcceptedNeverServed)),
            (Seen { close: Close::Closed, ..there.clone() }, Some(Fate::ClosedWithoutAnswer)),
            (Seen { taken: Some(true), ..there }, Some(Fate::TimedOut)),
        ];
        for (seen, fate) in &rows {
            assert_eq!(seen.fate(), *fate, "{seen:?}");
        }
        for fate in Fate::ALL {
            assert!(rows.iter().any(|(_, found)| *found == Some(fate)), "{fate:?} is in no row");
        }
    }

    #[test]
    fn a_phase_is_told_by_the_signal() {
        for (sent_ns, ended_ns, signal_ns, phase) in [
            (10, Some(20), None, Phase::Before),
            (10, None, None, Phase::Before),
            (10, Some(20), Some(30), Phase::Before),
            (10, Some(30), Some(30), Phase::Across),
            (10, None, Some(30), Phase::Across),
            (30, Some(40), Some(30), Phase::After),
            (31, None, Some(30), Phase::After),
        ] {
            assert_eq!(Phase::of(sent_ns, ended_ns, signal_ns), phase, "{sent_ns} {ended_ns:?} {signal_ns:?}");
        }
    }

    #[test]
    fn names_are_those_of_the_json() {
        for fate in Fate::ALL {
            assert_eq!(serde_json::to_value(fate).unwrap(), fate.name());
        }
        for phase in Phase::ALL {
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.name());
        }
    }
}
