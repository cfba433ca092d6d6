//! What is asked of a drill to tell where its signal went: who ended when and how, and what was lost.

use scenarios::{Signal, Status};

use crate::{
    check::{
        fate::{Fate, Phase},
        record::{Observed, Request, Sending},
        settings::{self, Settings},
        verdict::{self, Counts, Cut, Usual},
    },
    evidence::{Disposition, ProcessFacts, Snapshot, words::is_shell},
};

/// A drill whose signal was sent.
pub(super) struct Story<'a> {
    pub(super) settings: &'a Settings,
    pub(super) observed: &'a Observed,
    pub(super) signal: Signal,
    /// The first process.
    pub(super) top: &'a ProcessFacts,
    /// The process that listens.
    pub(super) app: &'a ProcessFacts,
    /// What the app is called, apart from the first process even where both run the same program.
    name: String,
}

impl<'a> Story<'a> {
    /// `None` where nothing tells who got it.
    pub(super) fn of(settings: &'a Settings, observed: &'a Observed) -> Option<Story<'a>> {
        let before = observed.before.as_ref()?;
        let find = |pid: Option<i32>| pid.and_then(|pid| before.process(pid));
        let top = find(observed.top_pid)?;
        // Where nobody listened yet, the lowest is as near as one gets.
        let lowest = || before.processes.iter().rev().map(|node| &node.process).find(|process| process.is_alive());
        // A first process that became another program since was on its way to be the app.
        let mut later =
            observed.after.iter().chain(&observed.before_sigkill).filter_map(|later| later.process(top.pid));
        let became_it = later.any(|later| later.is_alive() && later.exe != top.exe).then_some(top);
        let app = find(observed.app_pid).or(became_it).or_else(lowest).unwrap_or(top);
        let name = match label(app) {
            name if app.pid != top.pid && name == label(top) => format!("its child {name}"),
            name => name.to_owned(),
        };
        Some(Story { settings, observed, signal: settings.signal, top, app, name })
    }

    /// Whether the app itself is sent the signal, and not only something above it.
    pub(super) fn is_direct(&self) -> bool {
        let sent_to = self.observed.signal.as_ref().map_or(&[][..], |sent| &sent.pids);
        self.top.pid == self.app.pid || sent_to.contains(&self.app.pid)
    }

    pub(super) fn status(&self, process: &ProcessFacts) -> Option<Status> {
        if process.pid == self.top.pid {
            return self.observed.exit;
        }
        self.observed.ends.iter().find(|end| end.pid == process.pid)?.status
    }

    pub(super) fn ended_us(&self, process: &ProcessFacts) -> Option<i64> {
        let end = self.observed.ends.iter().find(|end| end.pid == process.pid)?;
        // What was killed after the end was cleaned up; its own end may be noted a moment after that of the drill.
        let cleaned_up = end.status.is_none_or(|status| status == Status::SIGKILL);
        end.at_us.filter(|&at_us| at_us <= self.observed.end_us || !cleaned_up)
    }

    pub(super) fn killed_us(&self) -> Option<i64> {
        self.observed.sigkill.as_ref().map(|sent| sent.at_us)
    }

    /// Whether it ended before SIGKILL was sent.
    pub(super) fn ended_by_itself(&self, process: &ProcessFacts) -> bool {
        self.ended_us(process).is_some_and(|at_us| self.killed_us().is_none_or(|killed_us| at_us < killed_us))
    }

    /// Whether the kernel killed it because PID 1 of its namespace, the top, ended.
    pub(super) fn was_cut(&self, process: &ProcessFacts) -> bool {
        self.cut(process) == Cut::Yes
    }

    pub(super) fn cut(&self, process: &ProcessFacts) -> Cut {
        // What ended in the clean-up was not seen to end.
        self.ended_us(process).map_or(Cut::No, |_| Cut::of(self.observed, process.pid))
    }

    /// Whether the top was gone while the app went on.
    pub(super) fn top_left_first(&self) -> bool {
        match (self.ended_us(self.top), self.ended_us(self.app)) {
            (Some(_), None) => true,
            // One that waits for the app ends right after it, and which end is noted first is luck.
            (Some(top_us), Some(app_us)) => self.was_cut(self.app) || top_us + 50_000 < app_us,
            _ => false,
        }
    }

    /// The second signal, where the app got one before it ended.
    pub(super) fn second_signal(&self) -> Option<&'a Sending> {
        let second = self.observed.second_signal.as_ref().filter(|second| second.pids.contains(&self.app.pid))?;
        self.ended_us(self.app).is_none_or(|ended_us| second.at_us <= ended_us).then_some(second)
    }

    /// The same in a text.
    pub(super) fn second(&self) -> String {
        self.second_signal().map_or(String::new(), |second| format!(", got {} {}", second.signal, after(second.at_us)))
    }

    /// What is to be said of a second signal that was sent and that `text` does not tell of.
    pub(super) fn second_besides(&self, text: &str) -> Option<String> {
        let second = self.observed.second_signal.as_ref()?;
        let told = self.second();
        if !told.is_empty() && text.contains(&told) {
            return None;
        }
        let (signal, when) = (second.signal, after(second.at_us));
        // What happens from then on until SIGKILL may come of it.
        let may_come_of_it =
            |at_us: i64| at_us >= second.at_us && self.killed_us().is_none_or(|killed_us| at_us < killed_us);
        let moments = [self.ended_us(self.top), self.ended_us(self.app), self.observed.listener_closed_us];
        Some(match moments.into_iter().flatten().any(may_come_of_it) {
            true => format!("{signal} was sent too, {when}."),
            false => format!("{signal} was sent too, {when}, and changed nothing."),
        })
    }

    /// Whether the app is known to have noticed the signal.
    pub(super) fn was_received(&self) -> bool {
        let closed_us = self.observed.listener_closed_us;
        let before_end = |at_us: i64| self.ended_us(self.app).is_none_or(|end_us| at_us + 20_000 < end_us);
        self.status(self.app) == Some(Status::Signal(self.signal))
            || self.is_recorded(self.app)
            || closed_us.is_some_and(before_end)
            // One that never listened, and is taken for the app as the lowest, may have ended without any signal.
            || (self.observed.app_pid.is_some() || self.app.sigterm != Disposition::Default)
                && matches!(self.status(self.app), Some(Status::Code(_)))
                && self.ended_by_itself(self.app)
    }

    /// How a process ended, after its name: `exited 0 after 7 s`.
    pub(super) fn end(&self, process: &ProcessFacts) -> String {
        let how = match self.status(process) {
            Some(Status::Code(code)) => format!("exited {code}"),
            Some(Status::Signal(signal)) => format!("was killed by {signal}"),
            None => "ended".to_owned(),
        };
        match self.ended_us(process) {
            Some(at_us) => format!("{how} {}", after(at_us)),
            None => how,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it answered nothing that came after the signal, although it took connections: it did take notice.
    pub(super) fn stopped_answering(&self) -> bool {
        let mut after = self.observed.requests.iter().filter(|request| request.phase == Phase::After).peekable();
        self.app.sigterm == Disposition::Caught
            && after.peek().is_some()
            && after.all(|request| request.status.is_none() && request.fate != Fate::Refused)
    }

    pub(super) fn later(&self, process: &ProcessFacts) -> impl Iterator<Item = &'a ProcessFacts> + use<'a> {
        let pid = process.pid;
        let looks: [Option<&'a Snapshot>; 2] = [self.observed.after.as_ref(), self.observed.before_sigkill.as_ref()];
        looks.into_iter().flatten().filter_map(move |snapshot| snapshot.process(pid))
    }

    pub(super) fn gave_it_up(&self) -> bool {
        self.later(self.app).any(|later| later.is_alive() && later.sigterm == Disposition::Default)
    }

    /// See [`Snapshot::in_the_foreground`].
    pub(super) fn in_the_foreground(&self) -> Result<Option<&'a ProcessFacts>, ()> {
        self.observed.before.as_ref().map_or(Err(()), |before| before.in_the_foreground(self.top))
    }

    /// Whether the app runs below this process.
    pub(super) fn is_above_the_app(&self, process: &ProcessFacts) -> bool {
        let before = self.observed.before.as_ref();
        let mut at = before.and_then(|before| before.process(self.app.parent));
        while let Some(found) = at.filter(|found| found.pid != process.pid) {
            at = before.and_then(|before| before.process(found.parent));
        }
        at.is_some()
    }

    pub(super) fn between(&self) -> impl Iterator<Item = &'a ProcessFacts> {
        let (top, app) = (self.top.pid, self.app.pid);
        let processes = self.observed.before.as_ref().map_or(&[][..], |before| &before.processes);
        processes.iter().map(|node| &node.process).filter(move |process| process.pid != top && process.pid != app)
    }

    pub(super) fn lost(&self) -> Vec<&'a Request> {
        let usual = Usual::of(&self.observed.requests);
        let requests = self.observed.requests.iter();
        requests.filter(|request| Counts::of(request, &usual) == Counts::Lost).collect()
    }

    pub(super) fn with_requests(&self) -> String {
        // What failed before the signal has other reasons.
        match self.lost().iter().filter(|request| request.phase != Phase::Before).count() as u64 {
            0 => String::new(),
            number => format!(", and {} with it", verdict::requests(number)),
        }
    }

    /// What went on until SIGKILL.
    pub(super) fn until_sigkill(&self, whom: &str) -> String {
        match self.killed_us() {
            Some(_) => format!("All went on until SIGKILL took {whom}{}.", self.with_requests()),
            None => "All went on.".to_owned(),
        }
    }

    pub(super) fn until_sigkill_to_the_top(&self) -> String {
        if self.killed_us().is_none() {
            return "All went on.".to_owned();
        }
        let (top, app) = (label(self.top), self.name());
        if self.was_cut(self.app) {
            return format!("SIGKILL to PID 1 then cut {app}{}.", self.with_requests());
        }
        match self.ended_us(self.app) {
            Some(_) => format!("SIGKILL then took {top}; {app} {}.", self.end(self.app)),
            None => {
                format!("SIGKILL then reached {top} only, and {app} lived on as an orphan until it was cleaned up.")
            }
        }
    }

    /// `, closed its port at once`
    pub(super) fn closed(&self) -> String {
        let last_us = self.observed.requests.iter().filter(|r| r.phase == Phase::After && r.fate == Fate::Completed);
        let last_us = last_us.map(|request| request.sent_us).max();
        match (self.observed.listener_closed_us, last_us) {
            (Some(closed_us), Some(last_us)) if last_us > 50_000 && closed_us > last_us => {
                let meanwhile = |request: &&Request| request.phase == Phase::After && request.sent_us < closed_us;
                let came: Vec<_> = self.observed.requests.iter().filter(meanwhile).collect();
                let time = settings::time(closed_us.unsigned_abs());
                match came.iter().filter(|request| request.status.is_some()).count() {
                    all if all == came.len() => format!(", went on accepting for {time}"),
                    some => format!(
                        ", kept its port open for {time}, answered {some} of {} that came meanwhile",
                        came.len()
                    ),
                }
            }
            (Some(closed_us), _) if self.ended_us(self.app).is_none_or(|end_us| closed_us + 20_000 < end_us) => {
                format!(", closed its port {}", after(closed_us))
            }
            _ => String::new(),
        }
    }
}

/// What a process is known by: the script or module where its program runs those of many servers (gunicorn is a script of
/// Python), the title where it has given itself one (`npm start`), and its program otherwise.
pub(super) fn label(process: &ProcessFacts) -> &str {
    const INTERPRETERS: [&str; 3] = ["python", "ruby", "perl"];
    let program = process.program();
    let mut words = process.argv.iter().map(String::as_str);
    match words.next().and_then(|started_as| started_as.split_once(' ')) {
        Some((title, _)) if !is_shell(process) && !title.contains('/') => return title.trim_end_matches(':'),
        _ => {}
    }
    if !INTERPRETERS.iter().any(|interpreter| program.starts_with(interpreter)) {
        return program;
    }
    match (words.next(), words.next()) {
        (Some("-m"), Some(module)) => module,
        (Some(script), _) if !script.starts_with('-') => script.rsplit('/').next().unwrap_or(script),
        _ => program,
    }
}

/// `at once`, or how long after the signal.
pub(super) fn after(at_us: i64) -> String {
    match u64::try_from(at_us).unwrap_or(0) {
        0..50_000 => "at once".to_owned(),
        time_us => format!("after {}", settings::time(time_us)),
    }
}

/// `PID 1`, or not.
pub(super) fn seat(process: &ProcessFacts) -> &'static str {
    if process.is_init() { "PID 1" } else { "not PID 1" }
}
