//! How a process ended: an exit code or a signal, never one integer for both.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The end of a process as its parent learns it (wait(2)). Written as `{"code": 0}` or `{"signal": "SIGKILL"}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It called exit with this code, 0..=255.
    Code(u8),
    /// It died of this signal.
    Signal(Signal),
}

impl Status {
    /// Exit code 0.
    pub const SUCCESS: Status = Status::Code(0);
    /// What an init or a trap script reports for a child that died of SIGTERM: 128 + 15.
    pub const CODE_143: Status = Status::Code(143);
    /// Death by SIGTERM.
    pub const SIGTERM: Status = Status::Signal(Signal::TERM);
    /// Death by SIGKILL.
    pub const SIGKILL: Status = Status::Signal(Signal::KILL);
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Code(code) => write!(f, "exit code {code}"),
            Status::Signal(signal) => write!(f, "killed by {signal}"),
        }
    }
}

/// A signal by its Linux number, 1..=64 (signal(7), x86 and ARM numbering). Written by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(u8);

/// The standard signals in the order of their numbers, from 1 on.
const NAMES: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

impl Signal {
    /// SIGINT, 2.
    pub const INT: Signal = Signal(2);
    /// SIGQUIT, 3.
    pub const QUIT: Signal = Signal(3);
    /// SIGKILL, 9.
    pub const KILL: Signal = Signal(9);
    /// SIGTERM, 15.
    pub const TERM: Signal = Signal(15);

    /// The signal of this number, if there is one.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Signal> {
        u8::try_from(number).ok().filter(|number| (1..=64).contains(number)).map(Signal)
    }

    /// Its Linux number, 1..=64.
    #[must_use]
    pub fn number(self) -> i32 {
        i32::from(self.0)
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.get(usize::from(self.0) - 1) {
            Some(name) => f.pad(name),
            None => f.pad(&format!("SIG{}", self.0)),
        }
    }
}

impl FromStr for Signal {
    type Err = String;
    fn from_str(name: &str) -> Result<Signal, String> {
        let number = match NAMES.iter().position(|known| *known == name) {
            Some(index) => i32::try_from(index).ok().map(|index| index + 1),
            None => name.strip_prefix("SIG").and_then(|number| number.parse().ok()),
        };
        number.and_then(Signal::from_number).ok_or_else(|| format!("{name:?} is not the name of a signal"))
    }
}

impl Serialize for Signal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Signal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Signal, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_of_143_is_not_a_signal() {
        assert_eq!(serde_json::to_string(&Status::CODE_143).unwrap(), r#"{"code":143}"#);
        assert_eq!(serde_json::to_string(&Status::SIGTERM).unwrap(), r#"{"signal":"SIGTERM"}"#);
        assert_eq!(serde_json::from_str::<Status>(r#"{"signal":"SIGKILL"}"#).unwrap(), Status::SIGKILL);
        assert!(serde_json::from_str::<Status>("143").is_err());
    }

    #[test]
    fn every_signal_reads_back() {
        for number in 1..=64 {
            let signal = Signal::from_number(number).unwrap();
            assert_eq!(signal.to_string().parse(), Ok(signal));
        }
        assert_eq!(Signal::from_number(0), None);
        assert_eq!(Signal::from_number(65), None);
        assert!("SIG".parse::<Signal>().is_err());
        assert!("TERM".parse::<Signal>().is_err());
    }
}
