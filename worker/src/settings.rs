//! The environment that a worker is started with, as types. Everything has a default, so that a worker can run in a
//! container by itself.

use std::{ffi::OsString, fmt, path::PathBuf, str::FromStr};

use scenarios::{Fault, HandlerInstalled, OnSigterm, Schedule, Tick, WorkerId, wire::env};
use thiserror::Error;

use crate::clock;

/// A variable that says what it must not.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{name}={value:?} is not allowed: it must be {allowed}")]
pub(crate) struct SettingsError {
    /// The variable.
    pub(crate) name: &'static str,
    /// What it says.
    pub(crate) value: OsString,
    /// What it may say.
    pub(crate) allowed: String,
}

/// What a worker does about SIGTERM, and from when on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posture {
    pub(crate) on_sigterm: OnSigterm,
    pub(crate) handler_installed: HandlerInstalled,
}

/// Everything else that a worker is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) worker: WorkerId,
    pub(crate) port: u16,
    pub(crate) slots: u8,
    pub(crate) schedule: Schedule,
    pub(crate) ready_tick: Tick,
    pub(crate) invocation_ticks: u32,
    pub(crate) fail_boot: bool,
    pub(crate) fault: Option<Fault>,
    pub(crate) store: Option<PathBuf>,
    pub(crate) notify_socket: Option<OsString>,
    pub(crate) lifeline: Option<OsString>,
    /// Where the harness steps this worker's clock, if it does.
    pub(crate) clock: Option<OsString>,
    /// Whether its memory is kept at hand.
    pub(crate) keep_warm: bool,
}

/// No tick that a worker is told of lies beyond this one: over three years after the origin at the speed of life.
pub(crate) const MAX_TICK: u32 = 1_000_000_000;
/// The longest tick: a model second takes a hundred real ones.
const MAX_TICK_NS: u64 = 10_000_000_000;
/// 31 years of uptime; with the two bounds above, no moment of a schedule overflows.
const MAX_ORIGIN_NS: u64 = 1_000_000_000_000_000_000;

/// The environment, or what a test has in its place.
pub(crate) struct Environment<F>(pub(crate) F);

/// The variables of this process.
pub(crate) fn process() -> Environment<impl Fn(&'static str) -> Option<OsString>> {
    Environment(|name: &'static str| std::env::var_os(name))
}

impl Posture {
    /// Read apart from the rest, since a handler has to be in place before anything that takes time.
    pub(crate) fn read(from: &Environment<impl Fn(&'static str) -> Option<OsString>>) -> Result<Self, SettingsError> {
        Ok(Posture {
            on_sigterm: from.named(env::ON_SIGTERM, OnSigterm::ALL, OnSigterm::name)?.unwrap_or_default(),
            handler_installed: from
                .named(env::HANDLER_INSTALLED, HandlerInstalled::ALL, HandlerInstalled::name)?
                .unwrap_or_default(),
        })
    }
}

impl Settings {
    pub(crate) fn read(from: &Environment<impl Fn(&'static str) -> Option<OsString>>) -> Result<Self, SettingsError> {
        let faults = Fault::NAMED.map(|(_, fault)| fault);
        Ok(Settings {
            worker: from.parsed(env::WORKER, "of the form worker-N with N from 1")?.unwrap_or(WorkerId::FIRST),
            port: from.number(env::PORT, 1, u16::MAX)?.unwrap_or(8080),
            slots: from.number(env::SLOTS, 1, 64)?.unwrap_or(4),
            schedule: Schedule {
                origin_ns: from.number(env::ORIGIN_NS, 0, MAX_ORIGIN_NS)?.unwrap_or_else(clock::now_ns),
                tick_ns: from.number(env::TICK_NS, 1, MAX_TICK_NS)?.unwrap_or(100_000_000),
            },
            ready_tick: Tick(from.number(env::READY_TICK, 0, MAX_TICK)?.unwrap_or(40)),
            invocation_ticks: from.number(env::INVOCATION_TICKS, 1, 100_000)?.unwrap_or(200),
            fail_boot: from.parsed(env::FAIL_BOOT, "true or false")?.unwrap_or(false),
            fault: from.named(env::FAULT, faults, Fault::name)?,
            store: from.path(env::STORE)?,
            notify_socket: from.path(env::NOTIFY_SOCKET)?.map(PathBuf::into_os_string),
            lifeline: from.path(env::LIFELINE)?.map(PathBuf::into_os_string),
            clock: from.path(env::CLOCK)?.map(PathBuf::into_os_string),
            keep_warm: from.parsed(env::KEEP_WARM, "true or false")?.unwrap_or(false),
        })
    }
}

impl<F: Fn(&'static str) -> Option<OsString>> Environment<F> {
    fn parsed<T: FromStr>(&self, name: &'static str, allowed: &str) -> Result<Option<T>, SettingsError> {
        self.checked(name, allowed, |value: T| Some(value))
    }

    fn number<T: FromStr + PartialOrd + Copy + fmt::Display>(
        &self,
        name: &'static str,
        least: T,
        most: T,
    ) -> Result<Option<T>, SettingsError> {
        let within = |value: T| (least <= value && value <= most).then_some(value);
        self.checked(name, &format!("a whole number from {least} to {most}"), within)
    }

    fn named<T: Copy, const N: usize>(
        &self,
        name: &'static str,
        all: [T; N],
        name_of: fn(T) -> &'static str,
    ) -> Result<Option<T>, SettingsError> {
        let find = |text: String| all.into_iter().find(|&one| name_of(one) == text);
        self.checked(name, &format!("one of {}", all.map(name_of).join(", ")), find)
    }

    fn checked<T: FromStr, U>(
        &self,
        name: &'static str,
        allowed: &str,
        check: impl Fn(T) -> Option<U>,
    ) -> Result<Option<U>, SettingsError> {
        let Some(value) = (self.0)(name) else { return Ok(None) };
        match value.to_str().and_then(|text| text.parse().ok()).and_then(check) {
            Some(good) => Ok(Some(good)),
            None => Err(SettingsError { name, value, allowed: allowed.to_owned() }),
        }
    }

    fn path(&self, name: &'static str) -> Result<Option<PathBuf>, SettingsError> {
        match (self.0)(name) {
            Some(value) if value.is_empty() => Err(SettingsError { name, value, allowed: "a path".to_owned() }),
            value => Ok(value.map(PathBuf::from)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn with(name: &'static str, value: impl Into<OsString>) -> Result<Settings, SettingsError> {
        let value = value.into();
        let environment = Environment(|asked: &'static str| (asked == name).then(|| value.clone()));
        Posture::read(&environment)?;
        Settings::read(&environment)
    }

    #[test]
    fn without_variables_it_can_run_by_itself() {
        let none = Environment(|_: &'static str| None);
        let posture = Posture { on_sigterm: OnSigterm::Default, handler_installed: HandlerInstalled::AtStart };
        assert_eq!(Posture::read(&none), Ok(posture));
        let settings = Settings::read(&none).unwrap();
        assert_eq!((settings.port, settings.slots, settings.invocation_ticks), (8080, 4, 200));
        assert_eq!((settings.schedule.tick_ns, settings.ready_tick), (100_000_000, Tick(40)));
        assert!(settings.schedule.origin_ns <= clock::now_ns());
        assert_eq!((settings.fault, settings.store, settings.notify_socket), (None, None, None));
    }

    #[test]
    fn what_a_variable_may_say() {
        assert_eq!(with(env::PORT, "65535").unwrap().port, 65535);
        assert_eq!(with(env::SLOTS, "64").unwrap().slots, 64);
        assert_eq!(with(env::WORKER, "worker-7").unwrap().worker, WorkerId(7));
        assert_eq!(with(env::FAULT, "long_stage").unwrap().fault, Some(Fault::LongStage));
        assert!(with(env::FAIL_BOOT, "true").unwrap().fail_boot);
        assert_eq!(with(env::STORE, "results").unwrap().store, Some(PathBuf::from("results")));
    }

    #[test]
    fn anything_else_is_an_error_that_names_variable_value_and_what_is_allowed() {
        let rows = [
            (env::PORT, "0", "a whole number from 1 to 65535"),
            (env::PORT, "65536", "a whole number from 1 to 65535"),
            (env::PORT, "", "a whole number from 1 to 65535"),
            (env::PORT, " 80", "a whole number from 1 to 65535"),
            (env::SLOTS, "65", "a whole number from 1 to 64"),
            (env::SLOTS, "-1", "a whole number from 1 to 64"),
            (env::TICK_NS, "0", "a whole number from 1 to 10000000000"),
            (env::ORIGIN_NS, "1e9", "a whole number from 0 to 1000000000000000000"),
            (env::READY_TICK, "4.0", "a whole number from 0 to 1000000000"),
            (env::INVOCATION_TICKS, "0", "a whole number from 1 to 100000"),
            (env::FAIL_BOOT, "yes", "true or false"),
            (env::WORKER, "worker-0", "of the form worker-N with N from 1"),
            (env::ON_SIGTERM, "Drain", "one of drain, default, ignore"),
            (env::HANDLER_INSTALLED, "later", "one of at_start, after_boot"),
            (env::STORE, "", "a path"),
            (env::LIFELINE, "", "a path"),
            (env::NOTIFY_SOCKET, "", "a path"),
        ];
        for (name, value, allowed) in rows {
            let error = with(name, value).unwrap_err();
            assert_eq!(error, SettingsError { name, value: value.into(), allowed: allowed.to_owned() });
            assert_eq!(error.to_string(), format!("{name}={value:?} is not allowed: it must be {allowed}"));
        }
        assert!(with(env::FAULT, "gremlins").unwrap_err().allowed.contains("wrong_sum"));
        assert_eq!(with(env::PORT, OsString::from_vec(vec![0xff])).unwrap_err().name, env::PORT);
    }

    #[test]
    fn no_moment_of_a_schedule_overflows() {
        let schedule = Schedule { origin_ns: MAX_ORIGIN_NS, tick_ns: MAX_TICK_NS };
        assert!(schedule.start_of(Tick(MAX_TICK + 200_000)) > MAX_ORIGIN_NS);
    }
}
