//! The signal went to something that stands above the app.

use scenarios::{Signal, Status};

use super::story::{Story, after, label, seat};
use crate::{
    check::{
        record::{Cause, Explanation},
        verdict::Cut,
    },
    evidence::{
        Disposition,
        words::{called, is_container_init, is_shell, passes_to_group, sets_signals_anew},
    },
};

impl Story<'_> {
    /// The signal goes to something that stands above the app.
    pub(super) fn wrapped(&self) -> Explanation {
        let (top, signal, name) = (self.top, self.signal, label(self.top));
        let below = if name == label(self.app) { self.name().to_owned() } else { format!("{} below it", self.name()) };
        let known_as = if is_shell(top) { called(top) } else { name.to_owned() };
        let went = format!("{signal} went to {known_as} ({}), not to {below}", seat(top));
        if self.ended_by_itself(top) {
            // What ended at the same time may have had nothing to do with it.
            let died = self.status(top) == Some(Status::Signal(signal)) && top.sigterm == Disposition::Default;
            if self.top_left_first() || (died && !self.was_received()) {
                return self.left_first(&went);
            }
            if self.cut(self.app) == Cut::Unknown {
                return self.ended_together(&went);
            }
            if let Some(Status::Signal(other)) = self.status(self.app).filter(|&status| {
                ![Status::Signal(signal), Status::SIGKILL].contains(&status) && self.second_signal().is_none()
            }) {
                let (app, lost) = (self.name(), self.with_requests());
                let text = format!(
                    "{went}. {app} got {other} instead and {}{lost}; {name} {}.",
                    self.end(self.app),
                    self.end(top)
                );
                let change = format!("have {name} pass {signal} on as it is, or give {app} a handler for {other}.");
                return Explanation::new(Cause::NotPassedOn, text).change(change);
            }
            let text = format!(
                "{went}. {name} passed it on and waited: {}{} {}; then {name} {}.",
                self.name(),
                self.closed().strip_prefix(',').map_or(String::new(), |closed| format!("{closed} and")),
                self.end(self.app),
                self.end(top)
            );
            if self.status(self.app) == Some(Status::Signal(signal)) && !self.lost().is_empty() {
                return Explanation::new(Cause::Died, text).change(self.handler());
            }
            let told = Explanation::new(Cause::Ended, text);
            if self.status(self.app) == Some(Status::SIGKILL) && self.second_signal().is_none() {
                let app = self.name();
                let change =
                    format!("let {name} give {app} more time before it kills it, or let {app} be done sooner.");
                return told.change(change);
            }
            return told;
        }
        if self.was_received() {
            let how = format!("{went}. {name} passed it on to {}", self.name());
            if self.ended_by_itself(self.app) {
                let text = format!("{how}, which {}; {name} stayed until SIGKILL.", self.end(self.app));
                return Explanation::new(Cause::TooSlow, text).change(format!("start {} without {name}.", self.name()));
            }
            return self.too_slow(&how, &self.until_sigkill_to_the_top());
        }
        self.stayed(&went)
    }

    /// They ended together, and what the kernel keeps to itself decides which one took the other with it.
    fn ended_together(&self, went: &str) -> Explanation {
        let (app, name) = (self.name(), label(self.top));
        let received = if self.was_received() {
            format!(" {name} passed it on to {app}{}.", self.closed().replacen(',', ", which", 1))
        } else {
            String::new()
        };
        let text = format!(
            "{went}.{received} {app} and {name} ended together{}: {name} {}; this kernel (before 6.15) does not tell how \
             {app} ended.",
            self.with_requests(),
            self.end(self.top)
        );
        Explanation::new(Cause::Unknown, text)
    }

    /// The top was gone before the app.
    pub(super) fn left_first(&self, went: &str) -> Explanation {
        let (top, app, name) = (self.top, self.app, label(self.top));
        let then = if self.was_cut(app) {
            format!("As {name} was PID 1, its end cut {}{}", self.name(), self.with_requests())
        } else if self.ended_us(app).is_some() {
            format!("{} went on alone and {}", self.name(), self.end(app))
        } else {
            format!("{} lived on as an orphan, out of the platform's reach, until it was cleaned up", self.name())
        };
        // Whether an app that was cut had the time to show that it got it is luck: only the kernel's record tells more.
        let left = self.left_before_it_showed().filter(|_| !self.is_recorded(self.app));
        let passed = || Some(format!("{name} passed it on, but left first: it {}", self.end(top)));
        if let Some(how) = left.or_else(|| passed().filter(|_| self.was_received())) {
            let text = format!("{went}. {how}. {then}.");
            let change = if self.is_taken_by_a_shell() && !self.was_received() {
                self.reach_the_app()
            } else if is_shell(top) {
                "wait again: a trap interrupts `wait`, so call it in a loop until the app is gone.".to_owned()
            } else if self.between().any(is_shell) {
                format!(
                    "`exec` in the shell below {name}, so that {} is its own child, which it waits for.",
                    self.name()
                )
            } else {
                format!("let {name} wait until {} is gone before it ends, or start {0} without it.", self.name())
            };
            return Explanation::new(Cause::LeftEarly, text).change(change);
        }
        let has_handler = top.sigterm != Disposition::Default && !sets_signals_anew(top);
        let how = if self.status(top) == Some(Status::Signal(self.signal)) && has_handler {
            let when = self.ended_us(top).map_or("later".to_owned(), after);
            format!("{name} took it and then ended by it {when}, and {} never got it", self.name())
        } else if self.status(top) == Some(Status::Signal(self.signal)) {
            format!("It died of it {} and passed nothing on", self.ended_us(top).map_or("later".to_owned(), after))
        } else {
            format!("{name} {}, and {} never got it", self.end(top), self.name())
        };
        let told = Explanation::new(Cause::NotPassedOn, format!("{went}. {how}. {then}."));
        let shell_below = self.between().any(is_shell);
        if is_container_init(top) && shell_below {
            return told.change(format!(
                "`exec` before {} in the shell below {name}: it then gets what is passed on.",
                self.name()
            ));
        }
        told.change(self.reach_the_app())
    }

    /// Whether the top is a shell that takes the signal without any trap: of SIGINT shells want to know themselves, and end
    /// by it, or once their foreground child has.
    fn is_taken_by_a_shell(&self) -> bool {
        self.signal == Signal::INT && is_shell(self.top)
    }

    /// How the top left where it did something about the signal, and the app was cut before it could show that it got it.
    pub(super) fn left_before_it_showed(&self) -> Option<String> {
        let (top, name) = (self.top, label(self.top));
        if !self.was_cut(self.app) || !matches!(self.status(top), Some(Status::Code(_))) {
            return None;
        }
        if top.sigterm == Disposition::Caught && (is_shell(top) || self.between().next().is_none()) {
            let took = if is_shell(top) && !self.is_taken_by_a_shell() { "ran its trap" } else { "took it" };
            return Some(format!(
                "{name} {took} and left: it {}, without waiting until {} was gone",
                self.end(top),
                self.name()
            ));
        }
        passes_to_group(top).then(|| {
            format!("{name} passed it on to the whole group, and left with the first that ended: it {}", self.end(top))
        })
    }

    /// The top stayed, and the app is not known to have got it.
    pub(super) fn stayed(&self, went: &str) -> Explanation {
        let (top, name) = (self.top, label(self.top));
        let lasted = self.until_sigkill_to_the_top();
        match top.sigterm {
            Disposition::Default if top.is_init() => {
                let text = format!(
                    "{went}. {name} has no handler, and for such a PID 1 the kernel drops it when it is sent: {} never got \
                     it. {lasted}",
                    self.name()
                );
                Explanation::new(Cause::Dropped, text).change(self.reach_the_app())
            }
            Disposition::Ignored => {
                let text = format!("{went}. {name} ignores it (SIG_IGN) and passes nothing on. {lasted}");
                Explanation::new(Cause::Ignored, text).change(self.reach_the_app())
            }
            Disposition::Blocked => {
                let text = format!("{went}. {name} blocks it: it stays pending. {lasted}");
                Explanation::new(Cause::Held, text).change(self.reach_the_app())
            }
            Disposition::Caught if is_shell(top) && self.in_the_foreground().is_ok_and(|child| child.is_some()) => {
                self.trap_without_effect(went, &lasted)
            }
            _ if self.app.sigterm == Disposition::Ignored => {
                let text = format!("{went}. {name} takes it and stays; {} ignores it (SIG_IGN). {lasted}", self.name());
                Explanation::new(Cause::Ignored, text)
                    .change(format!("a handler for {} instead of SIG_IGN.", self.signal))
            }
            Disposition::Caught if is_shell(top) => self.trap_without_effect(went, &lasted),
            // A wrapper that takes it passes it on as a rule; an app that would be spared it as PID 1 is not PID 1 here.
            _ if top.is_init() && self.app.sigterm == Disposition::Default => {
                let text = format!("{went}. {name} took it and stayed, and so did {}. {lasted}", self.name());
                Explanation::new(Cause::NoReaction, text).change(self.reach_the_app())
            }
            _ => {
                let text =
                    format!("{went}. {name} took it and stayed, and nothing came of it in {}. {lasted}", self.name());
                Explanation::new(Cause::NoReaction, text).change(self.reach_the_app())
            }
        }
    }

    /// The top is a shell with a trap, and the app never got the signal.
    fn trap_without_effect(&self, went: &str, lasted: &str) -> Explanation {
        let (name, app) = (label(self.top), self.name());
        let (cause, what) = match self.in_the_foreground() {
            Ok(Some(child)) if child.pid == self.app.pid || self.is_above_the_app(child) => {
                (Cause::WaitsForChild, "but waits for its foreground child before it runs it".to_owned())
            }
            Ok(Some(child)) => (
                Cause::WaitsForChild,
                format!("but waits for {}, its foreground child, before it runs it", label(child)),
            ),
            Ok(None) => {
                (Cause::NotPassedOn, "which it runs at once, since it has nothing in the foreground".to_owned())
            }
            Err(()) => {
                (Cause::NotPassedOn, "which it runs at once unless it has something in the foreground".to_owned())
            }
        };
        let text = if self.is_taken_by_a_shell() {
            format!(
                "{went}. {name} takes it itself, with or without a trap, and passes nothing on: {app} never got it. {lasted}"
            )
        } else {
            format!("{went}. {name} has a trap, {what}: {app} never got it. {lasted}")
        };
        let change = match (cause, self.in_the_foreground()) {
            (Cause::WaitsForChild, _) | (_, Err(())) => {
                "`exec` the app; or start it with `&`, pass the signal on in the trap, and `wait` until it is gone."
            }
            _ => "`exec` the app; or pass the signal on to it in the trap, and `wait` until it is gone.",
        };
        Explanation::new(cause, text).change(change)
    }
}
