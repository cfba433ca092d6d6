//! What a check is to do, once options, configuration file and profile are put together.

mod names;
mod second;
mod secrets;

use std::{fmt, path::PathBuf, str::FromStr};

use scenarios::{Signal, Status};
use serde::{Deserialize, Serialize, Serializer};

pub use self::secrets::HIDDEN;
use super::{
    profiles::{SecondSignal, Target},
    template::{self, Template},
};

/// Where the command's first process sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Seat {
    /// PID 1 of a PID namespace of its own, as in a container.
    Pid1,
    /// An ordinary process.
    Process,
}

impl Seat {
    /// In words: `PID 1`.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Seat::Pid1 => "PID 1",
            Seat::Process => "an ordinary process",
        }
    }

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Seat::Pid1 => "pid1",
            Seat::Process => "process",
        }
    }
}

/// How it is known that the command is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    /// Its port takes connections.
    Tcp,
    /// A GET of this path is answered with a status from 200 to 399.
    Http(String),
    /// It says so by the notify protocol of systemd (`sd_notify(3)`).
    Notify,
}

impl FromStr for Ready {
    type Err = String;
    fn from_str(text: &str) -> Result<Ready, String> {
        match text.split_once(':') {
            None if text == "tcp" => Ok(Ready::Tcp),
            None if text == "notify" => Ok(Ready::Notify),
            Some(("http", path)) if template::is_path(path) => Ok(Ready::Http(path.to_owned())),
            _ => Err("`tcp`, `notify` or `http:/path`".to_owned()),
        }
    }
}

/// When the stop begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalAt {
    /// So many milliseconds after the command is ready.
    AfterReady(u64),
    /// So many milliseconds after it was started, if it is not ready before.
    AfterStart(u64),
}

/// How long after its start a command is taken to be booting still, in milliseconds.
const DURING_BOOT_MS: u64 = 100;

impl FromStr for SignalAt {
    type Err = String;
    fn from_str(text: &str) -> Result<SignalAt, String> {
        match text {
            "ready" => return Ok(SignalAt::AfterReady(0)),
            "during-boot" => return Ok(SignalAt::AfterStart(DURING_BOOT_MS)),
            _ => {}
        }
        let (rest, at): (&str, fn(u64) -> SignalAt) = match text.strip_prefix("start+") {
            Some(rest) => (rest, SignalAt::AfterStart),
            None => (text.strip_prefix("ready+").unwrap_or(text), SignalAt::AfterReady),
        };
        duration_ms(rest).map(at).map_err(|_| {
            "a time after readiness such as 2s, or `ready`, `during-boot`, `start+500ms` (from the start on)".to_owned()
        })
    }
}

/// How many of something are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allowance {
    /// So many.
    Count(u64),
    /// So many percent.
    Percent(f64),
}

impl Allowance {
    /// Whether so many of so many are within it.
    #[must_use]
    pub fn allows(self, number: u64, of: u64) -> bool {
        match self {
            Allowance::Count(count) => number <= count,
            Allowance::Percent(percent) => number as f64 * 100.0 <= percent * of as f64,
        }
    }
}

impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allowance::Count(count) => write!(f, "{count}"),
            Allowance::Percent(percent) => write!(f, "{percent} %"),
        }
    }
}

impl FromStr for Allowance {
    type Err = String;
    fn from_str(text: &str) -> Result<Allowance, String> {
        let percent = text.strip_suffix('%').and_then(|percent| percent.trim_end().parse::<f64>().ok());
        let percent = percent.filter(|percent| (0.0..=100.0).contains(percent)).map(Allowance::Percent);
        percent
            .or_else(|| text.parse().ok().map(Allowance::Count))
            .ok_or_else(|| "a number such as 3, or a percentage such as 10%".to_owned())
    }
}

/// What fails a check.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// How many of the requests that are sent on new connections after the signal may be refused; without it they are
    /// told of and not judged.
    pub allow_refused: Option<Allowance>,
    /// How many requests may be lost.
    pub max_lost: u64,
    /// How the first process has to end; without it, every end by itself will do.
    pub expect_exit: Option<Status>,
}

/// The highest number of a signal that is no real-time signal (`signal(7)`).
const LAST_STANDARD: i32 = 31;

/// A signal to send, by its name or number: `TERM`, `SIGTERM`, `15`. Real-time signals are for programs among themselves.
///
/// # Errors
/// What is allowed.
pub fn signal(text: &str) -> Result<Signal, String> {
    named(text)
        .filter(|signal| signal.number() <= LAST_STANDARD)
        .ok_or_else(|| format!("the name of a signal such as TERM, or a number from 1 to {LAST_STANDARD}"))
}

fn named(text: &str) -> Option<Signal> {
    let upper = text.trim().to_ascii_uppercase();
    let by_number = upper.parse().ok().and_then(Signal::from_number);
    let by_name = || upper.parse().or_else(|_| format!("SIG{upper}").parse()).ok();
    by_number.or_else(by_name)
}

/// An exit code or the signal that it died of: `0`, `143`, `TERM`.
///
/// # Errors
/// What is allowed.
pub fn exit(text: &str) -> Result<Status, String> {
    if let Ok(code) = text.parse() {
        return Ok(Status::Code(code));
    }
    match text.parse::<u64>() {
        Err(_) => named(text).map(Status::Signal).ok_or_else(exit_allowed),
        Ok(_) => Err(exit_allowed()),
    }
}

fn exit_allowed() -> String {
    "an exit code from 0 to 255, or the name of a signal such as TERM".to_owned()
}

/// The longest time that can be given: a day.
const LONGEST_US: f64 = 86_400.0 * 1e6;

/// A time with its unit, in microseconds: `250us`, `100ms`, `1.5s`, `2m`.
///
/// # Errors
/// What is allowed.
pub fn duration_us(text: &str) -> Result<u64, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &text[..text.len() - unit.len()];
    let factor = match unit.trim() {
        "us" | "µs" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" | "min" => 60e6,
        "" if number == "0" => 1.0,
        _ => f64::NAN,
    };
    let time_us = number.parse::<f64>().map(|number| number * factor).unwrap_or(f64::NAN);
    // Not a number is in no range.
    if (0.0..=LONGEST_US).contains(&time_us) {
        Ok(time_us.round() as u64)
    } else {
        Err("a time from 0 to a day with its unit, such as 100ms, 1.5s or 2m".to_owned())
    }
}

/// The same in whole milliseconds.
///
/// # Errors
/// What is allowed.
pub fn duration_ms(text: &str) -> Result<u64, String> {
    Ok(duration_us(text)?.div_ceil(1000))
}

/// The same, where no time at all would end everything before it began.
///
/// # Errors
/// What is allowed.
pub fn timeout_ms(text: &str) -> Result<u64, String> {
    match duration_ms(text)? {
        0 => Err("a time above 0 with its unit, such as 100ms, 1.5s or 2m".to_owned()),
        time_ms => Ok(time_ms),
    }
}

/// `1.5 s`, `100 ms`, `0 s`.
#[must_use]
pub fn time(time_us: u64) -> String {
    match time_us {
        0 => "0 s".to_owned(),
        1..1000 => format!("{time_us} µs"),
        1000..10_000 => format!("{} ms", trimmed(time_us as f64 / 1e3)),
        10_000..1_000_000 => format!("{} ms", (time_us as f64 / 1e3).round()),
        _ => format!("{} s", trimmed(time_us as f64 / 1e6)),
    }
}

fn trimmed(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// For how much of the time between the signal and SIGKILL idle connections are held.
pub const HOLD_IDLE_PERCENT: u64 = 45;

/// Everything that a check needs to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The seats, in the order in which they are tried.
    pub seats: Vec<Seat>,
    /// The port that it listens on; without it, a free one is chosen and told in `PORT`.
    pub port: Option<u16>,
    /// Variables that are set for it; [`HIDDEN`] for each value in a record.
    pub env: Vec<(String, String)>,
    /// The directory that it runs in.
    pub cwd: Option<PathBuf>,
    /// The user that it runs as.
    pub user: Option<String>,
    /// How it is known that it is ready.
    pub ready: Ready,
    /// How long it may take to get ready, in milliseconds.
    pub ready_timeout_ms: u64,
    /// The platform whose stop is played, by name.
    pub profile: Option<String>,
    /// The signal that asks it to stop.
    #[serde(with = "names")]
    pub signal: Signal,
    /// Whom the signal is sent to.
    #[serde(with = "names")]
    pub to: Target,
    /// Whom SIGKILL is sent to.
    #[serde(with = "names")]
    pub kill_to: Target,
    /// When the stop begins.
    pub signal_at: SignalAt,
    /// How long after the beginning of the stop the signal is sent, in milliseconds.
    pub pre_stop_ms: u64,
    /// How long after the beginning of the stop SIGKILL is sent, in milliseconds.
    pub grace_ms: u64,
    /// A second signal, some time after the first.
    #[serde(with = "second")]
    pub second_signal: Option<SecondSignal>,
    /// How long after the signal the idle connections are given up, in milliseconds; without it, that depends on when
    /// SIGKILL comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_idle_ms: Option<u64>,
    /// For how long after the beginning of the stop requests still come in, in milliseconds.
    pub routing_lag_ms: u64,
    /// What is asked, in turn.
    pub requests: Vec<Template>,
    /// What is asked shortly before the signal, to be in flight when it comes.
    pub slow_requests: Vec<Template>,
    /// How long after a request the next one is sent, in microseconds.
    pub every_us: u64,
    /// How many requests are in flight at most.
    pub clients: usize,
    /// How long a request may take, in milliseconds; without it, as long as the check.
    pub request_timeout_ms: Option<u64>,
    /// What fails the check.
    pub policy: Policy,
}

impl Settings {
    /// The same for a drill with another grace period, in a search for the shortest one. The idle connections are held as
    /// long as with the given one: otherwise a server that only waits for them would need ever less the less it is given.
    #[must_use]
    pub fn with_grace(&self, grace_ms: u64) -> Settings {
        let given_ms = self.grace_ms.saturating_sub(self.pre_stop_ms) * HOLD_IDLE_PERCENT / 100;
        Settings { grace_ms, hold_idle_ms: self.hold_idle_ms.or(Some(given_ms)), ..self.clone() }
    }

    /// Every signal that may be sent, SIGKILL last.
    #[must_use]
    pub fn signals(&self) -> Vec<Signal> {
        let second = self.second_signal.map(|second| second.signal);
        [Some(self.signal), second, Some(Signal::KILL)].into_iter().flatten().collect()
    }

    /// Whether the preStop hook takes longer than the router: no more requests come when the signal is sent.
    #[must_use]
    pub fn router_stops_first(&self) -> bool {
        self.routing_lag_ms < self.pre_stop_ms.min(self.grace_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, time_us) in
            [("250us", 250), ("100ms", 100_000), ("1.5s", 1_500_000), ("2m", 120_000_000), ("0", 0), ("1 s", 1_000_000)]
        {
            assert_eq!(duration_us(text), Ok(time_us), "{text}");
        }
        for bad in ["", "1", "s", "-1s", "1h", "1e3s", "1..s", "9999999999s", "nan s", "1s2"] {
            assert!(duration_us(bad).is_err(), "{bad}");
        }
        assert_eq!(duration_ms("1us"), Ok(1), "never rounded to nothing");
        assert_eq!(timeout_ms("1us"), Ok(1));
        assert!(timeout_ms("0").is_err() && timeout_ms("0s").is_err());
    }

    #[test]
    fn times_read_well() {
        for (time_us, text) in
            [(0, "0 s"), (90, "90 µs"), (1_250, "1.2 ms"), (12_345, "12 ms"), (1_000_000, "1 s"), (1_540_000, "1.5 s")]
        {
            assert_eq!(time(time_us), text);
        }
    }

    #[test]
    fn moments_signals_ends_and_allowances() {
        for (text, at) in [
            ("2s", SignalAt::AfterReady(2000)),
            ("ready", SignalAt::AfterReady(0)),
            ("ready+1s", SignalAt::AfterReady(1000)),
            ("during-boot", SignalAt::AfterStart(DURING_BOOT_MS)),
            ("start+0.5s", SignalAt::AfterStart(500)),
        ] {
            assert_eq!(text.parse(), Ok(at), "{text}");
        }
        assert!("soon".parse::<SignalAt>().is_err());
        assert_eq!("http:/healthz?a=1".parse(), Ok(Ready::Http("/healthz?a=1".to_owned())));
        for bad in ["http", "http:", "http:healthz", "http:/a b", "http:/a\r\nX: y", "tcp:", "notify:1"] {
            assert!(bad.parse::<Ready>().is_err(), "{bad:?}");
        }
        for name in ["TERM", "term", "SIGTERM", "15"] {
            assert_eq!(signal(name), Ok(Signal::TERM));
        }
        assert!(signal("TREM").is_err() && signal("0").is_err() && signal("65").is_err());
        assert!(signal("31").is_ok());
        for real_time in ["32", "37", "64", "SIG34"] {
            assert!(signal(real_time).unwrap_err().contains("1 to 31"), "{real_time}");
        }
        assert_eq!(exit("143"), Ok(Status::CODE_143));
        assert_eq!(exit("TERM"), Ok(Status::SIGTERM));
        assert!(exit("256").is_err() && exit("x").is_err());
        assert_eq!("10%".parse(), Ok(Allowance::Percent(10.0)));
        assert_eq!("3".parse(), Ok(Allowance::Count(3)));
        assert!("101%".parse::<Allowance>().is_err() && "-1".parse::<Allowance>().is_err());
        assert!(Allowance::Percent(10.0).allows(1, 10) && !Allowance::Percent(10.0).allows(2, 10));
        assert!(Allowance::Count(0).allows(0, 0) && Allowance::Percent(0.0).allows(0, 0));
    }
}
