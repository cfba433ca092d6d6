//! The command line of `check`, and how it, a configuration file and a profile become [`Settings`].

use std::path::{Path, PathBuf};

use clap::{ArgAction, ValueEnum, builder::PossibleValuesParser};
use scenarios::{Signal, Status};

use super::{
    profiles::{PROFILES, Profile, Seats, SecondSignal, Target},
    settings::{self, Allowance, Policy, Ready, Seat, Settings, SignalAt},
    template::{self, Template},
    user::User,
};
use crate::{failure::Failure, report::file::ReportFile};

const EXAMPLES: &str = "\
Examples:
  termdrill check -- python3 -m http.server
  termdrill check --slow-request 'GET /report' --grace 30s -- gunicorn app:app
  termdrill check --profile kubernetes --as pid1 -- node server.js
  termdrill check --find-grace --slow-request 'GET /slow' -- ./server

The command is started as a container platform starts it: in a session of its own, with all signals at
their defaults, and PORT set; as PID 1 of a PID namespace, and then once more as an ordinary process.
Requests are sent to it, SIGTERM, and SIGKILL if it is still there when the grace period ends.

What counts:
  lost      a request that was in flight when the signal came and was not completed, or one that came
            later, was taken in by the kernel for the server, and was not completed: reset, closed
            without an answer, truncated, never served, timed out, 5xx that were none before
  refused   a request after the signal that got no connection, or 503: whoever sent it knows that
            nothing was done. Judged when --routing-lag, --allow-refused or a profile says for how
            long your router goes on sending

Exit status: 0 pass, 1 fail, 2 bad usage or input, 3 inconclusive: no drill could be made";

/// The arguments of `check`.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What can stand in a configuration file too.
    #[command(flatten)]
    pub options: Options,
    /// Read options from this file; without it termdrill.toml is read, or else termdrill.json, where the working directory
    /// has one. What stands on the command line counts for more.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
    /// Write a report to a file, by the end of its name: .html, .json or .xml for JUnit; can be given several times.
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    pub report: Vec<ReportFile>,
    /// Show what the command wrote.
    #[arg(long, conflicts_with = "json")]
    pub show_output: bool,
    /// Find the shortest grace period with no loss, by drills with shorter and shorter ones.
    #[arg(long, conflicts_with_all = ["show_output", "kernel_trace"])]
    pub find_grace: bool,
    /// Print the verdict only.
    #[arg(short, long, conflicts_with_all = ["json", "show_output"])]
    pub quiet: bool,
    /// Store the report, the requests and the output of the command in this directory, which must be new or empty; with
    /// --find-grace those of each drill.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Add the kernel's own record of the signals to the evidence; needs root.
    #[arg(long, help_heading = "Stop")]
    pub kernel_trace: bool,
    /// The command and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Which seats are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum As {
    /// PID 1 of a PID namespace, as in a container.
    Pid1,
    /// An ordinary process.
    Process,
    /// One after the other.
    Both,
}

impl As {
    /// The seats that it stands for.
    #[must_use]
    pub fn seats(self) -> Vec<Seat> {
        match self {
            As::Pid1 => vec![Seat::Pid1],
            As::Process => vec![Seat::Process],
            As::Both => vec![Seat::Pid1, Seat::Process],
        }
    }
}

/// Options that can stand in a configuration file too, by the same names.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub struct Options {
    /// Stop it as this platform does: signal, target, grace period, routing lag and preStop hook.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(PROFILES.map(|profile| profile.name)))]
    pub profile: Option<String>,
    /// As what the command is started; both, one after the other, if not given.
    #[arg(long = "as", value_name = "SEAT")]
    pub seat: Option<As>,

    /// The port that it listens on; without it a free one is chosen and told in PORT.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Start")]
    pub port: Option<u16>,
    /// Set a variable for it; can be given several times.
    #[arg(long, value_name = "K=V", value_parser = assignment, action = ArgAction::Append, help_heading = "Start")]
    pub env: Vec<(String, String)>,
    /// The directory that it runs in.
    #[arg(long, value_name = "DIR", help_heading = "Start")]
    pub cwd: Option<PathBuf>,
    /// The user that it runs as: NAME, UID, UID:GID or NAME:GROUP; needs root.
    #[arg(long, value_name = "USER", help_heading = "Start")]
    pub user: Option<String>,
    /// How it is known to be ready: its port takes connections (tcp), a GET is answered with 200 to 399 (http:/path), or it
    /// says READY=1 by the notify protocol of systemd (notify). Default: tcp
    #[arg(long, value_name = "tcp|http:/PATH|notify", help_heading = "Start")]
    pub ready: Option<Ready>,
    /// How long it may take to get ready. Default: 30s
    #[arg(long, value_name = "TIME", value_parser = settings::timeout_ms, allow_hyphen_values = true, help_heading = "Start")]
    pub ready_timeout: Option<u64>,

    /// The signal that asks it to stop. Default: TERM
    #[arg(long, value_name = "NAME", value_parser = settings::signal, help_heading = "Stop")]
    pub signal: Option<Signal>,
    /// When: so long after it is ready, `ready`, `during-boot`, or `start+TIME`. Default: 2s
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Stop")]
    pub signal_at: Option<SignalAt>,
    /// To whom: its first process, that one's process group, or all its processes; SIGKILL too, where no profile says to
    /// whom that goes. Default: top
    #[arg(long, value_name = "top|group|all", value_parser = target, help_heading = "Stop")]
    pub to: Option<Target>,
    /// How long after the stop began SIGKILL is sent. Default: 10s
    #[arg(long, value_name = "TIME", value_parser = settings::duration_ms, allow_hyphen_values = true, help_heading = "Stop")]
    pub grace: Option<u64>,
    /// How long a preStop hook delays the signal; part of the grace period. Default: 0
    #[arg(long, value_name = "TIME", value_parser = settings::duration_ms, allow_hyphen_values = true, help_heading = "Stop")]
    pub pre_stop: Option<u64>,
    /// Send another signal some time after the first.
    #[arg(long, value_name = "NAME", value_parser = settings::signal, help_heading = "Stop")]
    pub second_signal: Option<Signal>,
    /// How long after the first. Default: 1s
    #[arg(long, value_name = "TIME", value_parser = settings::duration_ms, allow_hyphen_values = true, help_heading = "Stop")]
    pub after: Option<u64>,

    /// What is asked, such as 'GET /path'; several are asked in turn. Default: 'GET /'
    #[arg(long, value_name = "REQUEST", action = ArgAction::Append, help_heading = "Requests")]
    pub request: Vec<Template>,
    /// A request that takes long: it is sent shortly before the signal, which waits for the server to read it, 2s at most.
    #[arg(long, value_name = "REQUEST", action = ArgAction::Append, help_heading = "Requests")]
    pub slow_request: Vec<Template>,
    /// A header for all requests; can be given several times.
    #[arg(long, value_name = "NAME: VALUE", value_parser = template::header, action = ArgAction::Append, help_heading = "Requests")]
    pub header: Vec<(String, String)>,
    /// The body of requests with POST, PUT or PATCH.
    #[arg(long, value_name = "TEXT", help_heading = "Requests")]
    pub data: Option<String>,
    /// A request is sent each TIME, whatever became of those before. Default: 100ms
    #[arg(long, value_name = "TIME", value_parser = every, allow_hyphen_values = true, help_heading = "Requests")]
    pub every: Option<u64>,
    /// How many may be in flight at once, 1 to 10000. Default: 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000), help_heading = "Requests")]
    pub clients: Option<u16>,
    /// How long a request may take. Default: as long as the check
    #[arg(long, value_name = "TIME", value_parser = settings::timeout_ms, allow_hyphen_values = true, help_heading = "Requests")]
    pub request_timeout: Option<u64>,
    /// For how long after the stop began a router goes on sending requests, 0 for none after it. Without it: 1s, and what is
    /// refused is told and not judged
    #[arg(long, value_name = "TIME", value_parser = settings::duration_ms, allow_hyphen_values = true, help_heading = "Requests")]
    pub routing_lag: Option<u64>,

    /// How many of the requests after the signal may be refused. Default: 0, if --routing-lag is given
    #[arg(long, value_name = "N|N%", help_heading = "Verdict")]
    pub allow_refused: Option<Allowance>,
    /// How many requests may be lost. Default: 0
    #[arg(long, value_name = "N", help_heading = "Verdict")]
    pub max_lost: Option<u64>,
    /// How the first process has to end. Default: in any way, by itself
    #[arg(long, value_name = "CODE|SIGNAL", value_parser = settings::exit, help_heading = "Verdict")]
    pub expect_exit: Option<Status>,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    text.split_once('=').ok_or_else(|| "NAME=VALUE".to_owned()).and_then(|(name, value)| variable(name, value))
}

/// A variable that a process can have (`environ(7)`).
pub(super) fn variable(name: &str, value: &str) -> Result<(String, String), String> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(format!("{name:?} can't be the name of a variable; write NAME=VALUE"));
    }
    if value.contains('\0') {
        return Err(format!("the value of {name} has a zero byte in it, which no variable can have"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn target(text: &str) -> Result<Target, String> {
    let found = Target::NAMED.iter().find(|(name, _)| *name == text);
    found.map(|(_, target)| *target).ok_or_else(|| "top, group or all".to_owned())
}

/// The shortest time from a request to the next, in microseconds.
const SHORTEST_US: u64 = 100;

pub(super) fn every(text: &str) -> Result<u64, String> {
    let every_us = settings::duration_us(text)?;
    if every_us >= SHORTEST_US { Ok(every_us) } else { Err("at least 100us".to_owned()) }
}

/// What holds where neither an option nor a profile says otherwise.
mod defaults {
    pub(super) const READY_TIMEOUT_MS: u64 = 30_000;
    pub(super) const SIGNAL_AT_MS: u64 = 2_000;
    pub(super) const GRACE_MS: u64 = 10_000;
    pub(super) const ROUTING_LAG_MS: u64 = 1_000;
    pub(super) const SECOND_AFTER_MS: u64 = 1_000;
    pub(super) const EVERY_US: u64 = 100_000;
    pub(super) const CLIENTS: u16 = 100;
}

impl Options {
    /// These, and `others` where nothing is said here.
    #[must_use]
    pub fn or(self, others: Options) -> Options {
        fn either<T>(own: Vec<T>, others: Vec<T>) -> Vec<T> {
            if own.is_empty() { others } else { own }
        }
        Options {
            profile: self.profile.or(others.profile),
            seat: self.seat.or(others.seat),
            port: self.port.or(others.port),
            // Variables are added to, and a later one counts for more.
            env: others.env.into_iter().chain(self.env).collect(),
            cwd: self.cwd.or(others.cwd),
            user: self.user.or(others.user),
            ready: self.ready.or(others.ready),
            ready_timeout: self.ready_timeout.or(others.ready_timeout),
            signal: self.signal.or(others.signal),
            signal_at: self.signal_at.or(others.signal_at),
            to: self.to.or(others.to),
            grace: self.grace.or(others.grace),
            pre_stop: self.pre_stop.or(others.pre_stop),
            second_signal: self.second_signal.or(others.second_signal),
            after: self.after.or(others.after),
            request: either(self.request, others.request),
            slow_request: either(self.slow_request, others.slow_request),
            header: either(self.header, others.header),
            data: self.data.or(others.data),
            every: self.every.or(others.every),
            clients: self.clients.or(others.clients),
            request_timeout: self.request_timeout.or(others.request_timeout),
            routing_lag: self.routing_lag.or(others.routing_lag),
            allow_refused: self.allow_refused.or(others.allow_refused),
            max_lost: self.max_lost.or(others.max_lost),
            expect_exit: self.expect_exit.or(others.expect_exit),
        }
    }

    /// All that a check of `command` needs to know.
    ///
    /// # Errors
    /// There is no command, or what is asked for does not fit together.
    pub fn settings(self, command: Vec<String>) -> Result<Settings, Failure> {
        if command.first().is_some_and(String::is_empty) {
            return Err(Failure::bad_input("the command is empty").hint("its first word is the program to start"));
        }
        if command.is_empty() {
            return Err(Failure::bad_input("there is no command to check")
                .hint("put it behind two hyphens: termdrill check -- node server.js"));
        }
        let profile = self.profile.as_deref().and_then(Profile::from_name);
        let grace_ms = self.grace.or(profile.map(|p| p.grace_ms.value)).unwrap_or(defaults::GRACE_MS);
        let pre_stop_ms = self.pre_stop.or(profile.map(|p| p.pre_stop_ms.value)).unwrap_or(0);
        if pre_stop_ms > grace_ms {
            return Err(Failure::bad_input(format!(
                "the preStop hook ({}) takes longer than the grace period ({}), of which it is a part",
                settings::time(pre_stop_ms * 1000),
                settings::time(grace_ms * 1000)
            ))
            .hint("give a longer --grace, or a shorter --pre-stop"));
        }
        let to = self.to.or(profile.map(|p| p.target.value)).unwrap_or(Target::Top);
        let lag_ms = self.routing_lag.or(profile.map(|p| p.routing_lag_ms.value));
        let of_profile = profile.and_then(|p| p.second_signal).map(|second| second.value);
        let second_signal = self.second_signal.or(of_profile.map(|second| second.signal)).map(|signal| SecondSignal {
            signal,
            after_ms: self.after.or(of_profile.map(|second| second.after_ms)).unwrap_or(defaults::SECOND_AFTER_MS),
        });
        if self.after.is_some() && second_signal.is_none() {
            return Err(Failure::bad_input("after: there is no second_signal that it could be about")
                .hint("say which one: --second-signal INT, or second_signal in the file"));
        }
        // What a platform sends besides is told of in the report where there is no time for it.
        let is_asked_for = self.second_signal.is_some() || self.after.is_some();
        if let Some(second) = second_signal.filter(|_| is_asked_for)
            && pre_stop_ms + second.after_ms >= grace_ms
        {
            return Err(Failure::bad_input(format!(
                "the second signal would come {} after the stop began, when the grace period ({}) is over",
                settings::time((pre_stop_ms + second.after_ms) * 1000),
                settings::time(grace_ms * 1000)
            ))
            .hint("give a shorter --after, or a longer --grace"));
        }
        let with_all = |mut template: Template| -> Result<Template, Failure> {
            // What a request says of itself counts for more than what all have.
            let own = template.headers.clone();
            let is_own = |name: &str| own.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
            template.headers.extend(self.header.iter().filter(|(name, _)| !is_own(name)).cloned());
            if template.takes_body() {
                template.body = template.body.or_else(|| self.data.clone());
            }
            template.check().map_err(|why| Failure::bad_input(format!("request: {why}")))?;
            Ok(template)
        };
        let all = |templates: Vec<Template>| templates.into_iter().map(with_all).collect::<Result<Vec<_>, _>>();
        let usual: Template = "/".parse().map_err(Failure::bad_input)?;
        let requests = if self.request.is_empty() { vec![usual] } else { self.request };
        if self.data.is_some() && !requests.iter().chain(&self.slow_request).any(Template::takes_body) {
            return Err(Failure::bad_input("data: no request takes a body, so it would not be sent")
                .hint("say which one it is for: --request 'POST /path'; PUT and PATCH take one, too"));
        }
        let seats = match (self.seat, profile.map(|profile| profile.seats.value)) {
            (Some(seat), _) => seat,
            (None, Some(Seats::Pid1)) => As::Pid1,
            (None, Some(Seats::Process)) => As::Process,
            (None, Some(Seats::Both) | None) => As::Both,
        };
        let refused = lag_ms.map(|_| Allowance::Count(0));
        Ok(Settings {
            command,
            seats: seats.seats(),
            port: self.port,
            env: self.env,
            cwd: self.cwd,
            user: self.user,
            ready: self.ready.unwrap_or(Ready::Tcp),
            ready_timeout_ms: self.ready_timeout.unwrap_or(defaults::READY_TIMEOUT_MS),
            signal: self.signal.or(profile.map(|p| p.signal.value)).unwrap_or(Signal::TERM),
            to,
            // What a platform kills is its own affair, whomever it is that is asked to stop.
            kill_to: profile.map(|p| p.kill_target.value).or(self.to).unwrap_or(Target::Top),
            profile: self.profile,
            signal_at: self.signal_at.unwrap_or(SignalAt::AfterReady(defaults::SIGNAL_AT_MS)),
            pre_stop_ms,
            grace_ms,
            second_signal,
            hold_idle_ms: None,
            routing_lag_ms: lag_ms.unwrap_or(defaults::ROUTING_LAG_MS),
            requests: all(requests)?,
            slow_requests: all(self.slow_request)?,
            every_us: self.every.unwrap_or(defaults::EVERY_US),
            clients: usize::from(self.clients.unwrap_or(defaults::CLIENTS)),
            request_timeout_ms: self.request_timeout,
            policy: Policy {
                allow_refused: self.allow_refused.or(refused),
                max_lost: self.max_lost.unwrap_or(0),
                expect_exit: self.expect_exit,
            },
        })
    }
}

impl Args {
    /// The settings, with those of the configuration file that stands in `directory` or was named.
    ///
    /// # Errors
    /// The file can't be read or understood, or what is asked for does not fit together.
    pub fn settings(self, directory: &Path) -> Result<Settings, Failure> {
        let file = super::config::read(self.config.as_deref(), directory)?;
        let command = if self.command.is_empty() { file.command } else { self.command };
        let mut settings = self.options.or(file.options).settings(command)?;
        settings.cwd = settings.cwd.map(|cwd| directory.join(cwd));
        if let Some(cwd) = settings.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
            return Err(Failure::bad_input(format!("--cwd: there is no directory {}", cwd.display())));
        }
        // Not in the namespace of the drill, in which everybody is root.
        settings.user.as_deref().map(User::look_up).transpose()?;
        Ok(settings)
    }
}
