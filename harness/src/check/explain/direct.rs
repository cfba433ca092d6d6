//! The signal went to the app itself.

use scenarios::{Signal, Status};

use super::story::{Story, after, label, seat};
use crate::{
    check::{
        record::{Cause, Explanation},
        verdict,
    },
    evidence::Disposition,
};

impl Story<'_> {
    /// The signal goes to the app itself.
    pub(super) fn direct(&self) -> Explanation {
        let (app, signal, name) = (self.app, self.signal, self.name());
        let sent_to = self.observed.signal.as_ref().map_or(1, |sent| sent.pids.len());
        let went = match sent_to {
            0 | 1 => format!("{signal} went to {name} itself ({})", seat(app)),
            number => format!("{signal} went to {number} processes, {name} among them ({})", seat(app)),
        };
        if app.pid != self.top.pid && self.was_cut(app) && self.ended_by_itself(self.top) {
            let top = label(self.top);
            let text = format!(
                "{went}. {top} {}; as it was PID 1, its end cut {name}{}.",
                self.end(self.top),
                self.with_requests()
            );
            return Explanation::new(Cause::LeftEarly, text).change(format!("start {name} without {top}."));
        }
        if self.status(app) == Some(Status::Signal(signal)) && signal != Signal::KILL {
            let closed = self.observed.listener_closed_us.zip(self.ended_us(app));
            let when = self.ended_us(app).map_or("later".to_owned(), after);
            let has_handler = app.sigterm != Disposition::Default;
            if has_handler && closed.is_some_and(|(closed_us, ended_us)| closed_us + 20_000 < ended_us) {
                let text = format!("{went}, which took it, closed its port, and then ended by it {when}.");
                return Explanation::new(Cause::Ended, text);
            }
            if app.sigterm == Disposition::Caught && self.lost().is_empty() {
                return Explanation::new(Cause::Ended, format!("{went}, which took it and then ended by it {when}."));
            }
            if app.sigterm == Disposition::Caught {
                // Some runtimes catch it for themselves, and then die of it like any other program.
                let text = format!(
                    "{went}, which shows it as caught, and died of it {when} all the same{}: nothing in it waits for what is \
                     in flight.",
                    self.with_requests()
                );
                return Explanation::new(Cause::Died, text).change(self.handler());
            }
            let text = format!("{went}, which has no handler: it died of it {when}{}.", self.with_requests());
            return Explanation::new(Cause::Died, text).change(self.handler());
        }
        if self.ended_by_itself(app) {
            let left = match self.lost().len() as u64 {
                0 => String::new(),
                number => format!(", with {} lost", verdict::requests(number)),
            };
            if self.observed.app_pid.is_none() && app.is_init() && app.sigterm == Disposition::Default {
                let text = format!(
                    "{went}, which had no handler yet: for such a PID 1 the kernel drops it when it is sent. It {} all the \
                     same.",
                    self.end(app)
                );
                return Explanation::new(Cause::Dropped, text).change(self.handler_earlier());
            }
            let (closed, second) = (self.closed(), self.second());
            let text = format!("{went}, which took it{closed}{second} and {}{left}.", self.end(app));
            let told = Explanation::new(Cause::Ended, text);
            // What a JVM does by itself.
            let by_itself = app.program() == "java" && self.status(app) == Some(Status::CODE_143) && closed.is_empty();
            if by_itself && !self.lost().is_empty() {
                return told.change(self.handler());
            }
            return match verdict::left_behind(self.observed) {
                0 => told,
                _ => told.change(format!(
                    "let {name} stop the processes that it has started, and wait for them, before it exits."
                )),
            };
        }
        let lasted = self.until_sigkill("it");
        match app.sigterm {
            Disposition::Default if app.is_init() => {
                let caught_later = self.later(app).any(|later| later.sigterm == Disposition::Caught);
                let later = if caught_later { " A handler that is installed after it does not get it." } else { "" };
                let text = format!(
                    "{went}, which has no handler: for such a PID 1 the kernel drops it when it is sent.{later} {lasted}"
                );
                let change = if caught_later { self.handler_earlier() } else { self.handler() };
                Explanation::new(Cause::Dropped, text).change(change)
            }
            Disposition::Ignored => {
                let text = format!("{went}, which ignores it (SIG_IGN): the kernel drops it. {lasted}");
                Explanation::new(Cause::Ignored, text).change(format!("a handler for {signal} instead of SIG_IGN."))
            }
            Disposition::Blocked => {
                let text = format!("{went}, which blocks it: it stays pending. {lasted}");
                Explanation::new(Cause::Held, text).change(format!("unblock {signal}, with a handler for it."))
            }
            Disposition::Caught if app.is_init() && self.gave_it_up() => {
                let text = format!(
                    "{went}, which showed it as caught and gave that up when it came: it has no handler of its own. {lasted}"
                );
                Explanation::new(Cause::Dropped, text).change(self.handler())
            }
            _ => self.too_slow(&went, &lasted),
        }
    }

    /// The app could have got it and did not end in time.
    pub(super) fn too_slow(&self, how: &str, lasted: &str) -> Explanation {
        let Some(closed_us) = self
            .observed
            .listener_closed_us
            .filter(|&closed_us| self.killed_us().is_none_or(|killed_us| closed_us < killed_us))
        else {
            if self.stopped_answering() {
                let text = format!(
                    "{how}, which took it and answered nothing more, but neither closed its port nor ended. SIGKILL took it{}.",
                    self.with_requests()
                );
                return Explanation::new(Cause::TooSlow, text)
                    .change(self.other_signal().unwrap_or_else(|| self.longer_grace()));
            }
            let text = format!("{how}, and nothing came of it: it went on accepting. {lasted}");
            return Explanation::new(Cause::NoReaction, text).change(self.handler_that_acts());
        };
        let text = format!(
            "{how}, which closed its port {} and did not end in time. SIGKILL took it{}.",
            after(closed_us),
            self.with_requests()
        );
        Explanation::new(Cause::TooSlow, text).change(self.longer_grace())
    }
}
