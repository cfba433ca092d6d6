//! What to change.

use super::{
    has_text,
    story::{Story, label},
};
use crate::{
    check::{
        fate::{Fate, Phase},
        record::Request,
        settings,
        verdict::{Counts, Usual},
    },
    evidence::{Disposition, words::is_shell},
};

/// Servers that know a signal of their own for a drain: their manuals say so.
const GRACEFUL: [(&str, &str); 7] = [
    ("nginx", "SIGQUIT"),
    ("apache2", "SIGWINCH"),
    ("httpd", "SIGWINCH"),
    ("php-fpm", "SIGQUIT"),
    ("haproxy", "SIGUSR1"),
    ("lighttpd", "SIGINT"),
    ("unicorn", "SIGQUIT"),
];

/// So soon after a signal an end is taken to come of it, in microseconds.
const AT_ONCE_US: i64 = 200_000;

impl Story<'_> {
    pub(super) fn handler(&self) -> String {
        if let Some(change) = self.other_signal() {
            return change;
        }
        match label(self.app) {
            "java" => "a shutdown hook that waits for the requests in flight.".to_owned(),
            name => {
                format!("a handler for {} in {name} that stops accepting and finishes what is in flight.", self.signal)
            }
        }
    }

    /// There is a handler, and it changed nothing.
    pub(super) fn handler_that_acts(&self) -> String {
        self.other_signal().unwrap_or_else(|| {
            format!(
                "let the handler for {} in {} stop accepting, finish what is in flight and end the process: nothing came of it.",
                self.signal,
                self.name()
            )
        })
    }

    /// Where the server knows another signal for a drain.
    pub(super) fn other_signal(&self) -> Option<String> {
        let known = |program: &str| program == label(self.app) || program == label(self.top);
        let (_, graceful) =
            GRACEFUL.iter().find(|(program, signal)| known(program) && *signal != self.signal.to_string())?;
        let stop = graceful.trim_start_matches("SIG");
        Some(format!(
            "stop {} with {graceful}, its signal for a drain (STOPSIGNAL {graceful} in a Dockerfile, --signal {stop} here).",
            label(self.app)
        ))
    }

    /// For one that has a handler, and installs it too late.
    pub(super) fn handler_earlier(&self) -> String {
        format!("the handler for {} first of all in {}: what comes before it is lost.", self.signal, self.name())
    }

    /// Where the server knows another signal for a drain, or its own limits cut the requests.
    pub(super) fn for_the_lost(&self) -> Option<String> {
        let lost = self.lost();
        if lost.is_empty() {
            return None;
        }
        if let Some(change) = self.other_signal() {
            return Some(change);
        }
        if let (Some(second), Some(ended_us)) = (self.second_signal(), self.ended_us(self.app))
            && ended_us < second.at_us + AT_ONCE_US
        {
            return Some(format!(
                "send {} later or not at all: it made {} end at once, with requests in flight.",
                second.signal,
                self.name()
            ));
        }
        // What came after the signal and was reset sat in the queue of a port that was closed, too.
        let was_queued = |request: &&&Request| match request.fate {
            Fate::AcceptedNeverServed => true,
            Fate::Reset => request.phase == Phase::After,
            _ => false,
        };
        // Of one that came shortly before the end nobody knows whether it was still in there.
        if 2 * lost.iter().filter(was_queued).count() > lost.len() {
            return Some(
                "accept what waits in the kernel's queue before the port is closed, or send it less: more workers or \
                 threads, or a router that stops first (--routing-lag 0)."
                    .to_owned(),
            );
        }
        let across = lost.iter().any(|request| request.phase == Phase::Across);
        across.then(|| {
            format!(
                "let {} finish what is in flight before it exits, and look at its own timeout for that.",
                self.name()
            )
        })
    }

    /// Where a router sends more than there is somebody to take.
    pub(super) fn for_the_refused(&self) -> Option<String> {
        let usual = Usual::of(&self.observed.requests);
        let requests = self.observed.requests.iter();
        let refused = requests.filter(|request| Counts::of(request, &usual) == Counts::TurnedAway).count();
        let after = self.observed.requests.iter().filter(|request| request.phase == Phase::After).count();
        let allowed = self.settings.policy.allow_refused.filter(|_| self.settings.routing_lag_ms > 0)?;
        (!allowed.allows(refused as u64, after as u64)).then(|| {
            format!(
                "let {} go on accepting for as long as the router may send ({} here) before it closes its port: a delay in \
                 its handler, or a preStop hook that sleeps.",
                self.name(),
                settings::time(self.settings.routing_lag_ms * 1000)
            )
        })
    }

    pub(super) fn reach_the_app(&self) -> String {
        let first = self.settings.command[0].rsplit('/').next().unwrap_or_default();
        let change = if is_shell(self.top) {
            let place = if has_text(&self.settings.command) {
                "before the command in `-c`"
            } else {
                "before the last command of the script"
            };
            format!("`exec` {place}, or start {} without {first}: {} then goes to it", self.name(), self.signal)
        } else {
            format!("start {} without {first} in front: {} then goes to it", self.name(), self.signal)
        };
        match self.app.sigterm {
            Disposition::Default => format!("{change}; it needs a handler for it too."),
            Disposition::Ignored => format!("{change}; it must not ignore it (SIG_IGN) then."),
            _ => format!("{change}."),
        }
    }

    pub(super) fn longer_grace(&self) -> String {
        let grace = settings::time(self.settings.grace_ms * 1000);
        if self.lost().is_empty() {
            return format!(
                "see what {} still waits for once its requests are done, or give it more than {grace}.",
                self.name()
            );
        }
        format!("a grace period longer than {grace}, or requests that end sooner.")
    }
}
