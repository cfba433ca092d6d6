//! Judges a drill: which requests were lost, and whether that and everything else is as it should be. Pure.
//!
//! A request is *lost* when it was sent before the signal and was not completed, or after it on a connection that the
//! kernel took for the server and was not completed either. A connection that is refused after the signal, and an answer
//! of 503 to a request that came after it, are *turned away*: whoever sent it knows that nothing was done. What the app
//! answers with 5xx before the signal is its own business, and as many after it too.

mod ends;
mod usual;

use scenarios::{Signal, Status};

use self::ends::asked_for_sigkill;
use std::collections::BTreeSet;

pub use self::{
    ends::{Cut, app_was_cut, outlived, top_was_killed},
    usual::Usual,
};
use super::{
    fate::{Fate, Phase},
    record::{IdleConnection, Judgement, Observed, Request, Verdict},
    settings::{self, Policy, Settings},
    unframed,
};
use crate::evidence::{Disposition, ProcessFacts};

/// How soon after an idle connection was given up a server ends that waited for it. Some look ten times a second.
const ENDS_SOON_US: i64 = 250_000;

/// How one request counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counts {
    /// It was served.
    Served,
    /// It failed as such requests did before the signal.
    AsBefore,
    /// It was refused, or turned away with 503, after the signal.
    TurnedAway,
    /// The kernel's queue of the server was full, and nothing took it in: it was sent more than it takes.
    NotTakenIn,
    /// It was lost.
    Lost,
}

impl Counts {
    /// How a request counts, where this is usual.
    #[must_use]
    pub fn of(request: &Request, usual: &Usual) -> Counts {
        match (request.fate, request.phase) {
            _ if request.queue_full => Counts::NotTakenIn,
            (Fate::Completed, _) => Counts::Served,
            (Fate::Completed5xx, Phase::Before) => Counts::AsBefore,
            (Fate::Completed5xx, Phase::After) if request.status == Some(503) => Counts::TurnedAway,
            (Fate::Completed5xx, _) if usual.fails(request.template) => Counts::AsBefore,
            (Fate::Refused, Phase::Across | Phase::After) => Counts::TurnedAway,
            _ => Counts::Lost,
        }
    }
}

/// How many arrivals in a hundred may be left out before our own side counts as too slow: what was sent was not what was
/// asked for then.
const LEFT_OUT_PERCENT: u64 = 25;

/// Judges what was observed.
#[must_use]
pub fn judge(settings: &Settings, observed: &Observed) -> Judgement {
    let usual = Usual::of(&observed.requests);
    let counts: Vec<(Counts, &Request)> =
        observed.requests.iter().map(|request| (Counts::of(request, &usual), request)).collect();
    let number = |wanted: Counts| counts.iter().filter(|(counts, _)| *counts == wanted).count() as u64;
    let mut judgement = Judgement {
        verdict: Verdict::Pass,
        reasons: Vec::new(),
        remarks: Vec::new(),
        lost: number(Counts::Lost),
        refused: number(Counts::TurnedAway),
        after: counts.iter().filter(|(counts, r)| r.phase == Phase::After || *counts == Counts::TurnedAway).count()
            as u64,
    };
    if let Some(why) = &observed.unable {
        judgement.verdict = Verdict::Inconclusive;
        judgement.reasons.push(format!("No drill could be made: {}.", not_made(why, observed)));
        judgement.reasons.extend(beyond(observed));
        return judgement;
    }
    judgement.reasons = failures(settings, observed, &judgement, &counts);
    if !judgement.reasons.is_empty() {
        judgement.verdict = Verdict::Fail;
    }
    judgement.remarks = remarks(settings, observed, &judgement, &counts);
    if let Some(why) = client_trouble(observed, number(Counts::NotTakenIn)) {
        if judgement.verdict == Verdict::Pass {
            judgement.verdict = Verdict::Inconclusive;
            judgement.reasons.push(why);
        } else {
            judgement.remarks.push(why);
        }
    }
    judgement
}

/// Why no drill was made, with how the first process ended.
fn not_made(why: &str, observed: &Observed) -> String {
    let left = observed.at_end.as_ref().map_or(0, |at_end| at_end.alive().count());
    match observed.exit {
        Some(Status::SUCCESS) if left > 0 => {
            format!("{why} (exit code 0) and left {} behind: run it in the foreground", processes(left))
        }
        Some(Status::SUCCESS) => {
            format!("{why} (exit code 0): if it starts a server in the background, run that in the foreground")
        }
        Some(Status::SIGKILL) if observed.memory.is_some() => why.to_owned(),
        Some(Status::SIGKILL) => format!("{why} (killed by SIGKILL, by somebody else: was the memory used up?)"),
        Some(status) => format!("{why} ({status})"),
        None => why.to_owned(),
    }
}

/// What is to be known of processes that can't be killed from here.
fn beyond(observed: &Observed) -> Option<String> {
    let name = |pid: &i32| format!("{} (pid {pid})", ends::name(observed, *pid));
    let names: Vec<String> = observed.beyond.iter().map(name).collect();
    (!names.is_empty()).then(|| {
        let may = "may not be killed from here, as it runs for another user, and lives on: end it by hand, or run this as root";
        format!("{} {may}.", names.join(", "))
    })
}

fn processes(number: usize) -> String {
    if number == 1 { "1 process".to_owned() } else { format!("{number} processes") }
}

/// `1 request`, `2 requests`.
#[must_use]
pub fn requests(number: u64) -> String {
    if number == 1 { "1 request".to_owned() } else { format!("{number} requests") }
}

fn were_refused(judgement: &Judgement, counts: &[(Counts, &Request)]) -> String {
    let were = if judgement.refused == 1 { "was" } else { "were" };
    let how = refused_how(counts);
    format!("{} of {} after the signal {were} {how}", judgement.refused, requests(judgement.after))
}

/// Not all were refused, as the report counts them, where the server answered some with 503.
fn refused_how(counts: &[(Counts, &Request)]) -> &'static str {
    let turned_away =
        |(counts, request): &&(Counts, &Request)| *counts == Counts::TurnedAway && request.status.is_some();
    match counts.iter().filter(turned_away).count() {
        0 => "refused",
        _ => "refused or turned away with 503",
    }
}

fn failures(
    settings: &Settings,
    observed: &Observed,
    judgement: &Judgement,
    counts: &[(Counts, &Request)],
) -> Vec<String> {
    let Policy { allow_refused, max_lost, expect_exit } = settings.policy;
    let mut reasons = Vec::new();
    let before = counts.iter().filter(|(counts, r)| *counts == Counts::Lost && r.phase == Phase::Before).count() as u64;
    if judgement.lost > max_lost {
        let allowed = if max_lost > 0 { format!(" where {max_lost} may be") } else { String::new() };
        let early = match before {
            0 => String::new(),
            all if all == judgement.lost => ", before the signal".to_owned(),
            some => format!(", {some} of them before the signal"),
        };
        let were = if judgement.lost == 1 { "was" } else { "were" };
        reasons.push(format!("{} {were} lost{allowed}{early}.", requests(judgement.lost)));
    }
    if let Some(allowed) = allow_refused.filter(|allowed| !allowed.allows(judgement.refused, judgement.after)) {
        reasons.push(format!("{} where {allowed} may be.", were_refused(judgement, counts)));
    }
    if let Some(memory) = &observed.memory {
        let mut words = memory.words();
        words[..1].make_ascii_uppercase();
        reasons.push(format!("{words}."));
        return reasons;
    }
    if observed.ended_early {
        let how = observed.exit.map_or(String::new(), |status| format!(" ({status})"));
        reasons.push(format!("It ended by itself before the signal{how}."));
    } else if observed.sigkill.is_some() {
        reasons.extend(who_outlived(settings, observed));
    } else if observed.exit == Some(Status::SIGKILL) && !asked_for_sigkill(observed) {
        reasons.push("It was killed by SIGKILL, and not by this check: was the memory used up?".to_owned());
    }
    let sent = [Some(settings.signal), settings.second_signal.map(|second| second.signal), Some(Signal::KILL)];
    if let Some(Status::Signal(signal)) = observed.exit.filter(|_| !observed.ended_early)
        && !sent.contains(&Some(signal))
    {
        reasons.push(format!("It died of {signal}, which nobody sent."));
    }
    if app_was_cut(observed) == Cut::Yes {
        reasons.push(
            "It did not end by itself: its first process left, and the kernel killed the rest with it.".to_owned(),
        );
    }
    reasons.extend(ends::app_was_killed_by_others(observed).filter(|_| !observed.ended_early));
    let left = left_behind_but(observed, &observed.beyond);
    if left > 0 {
        reasons.push(format!("{} lived on and had to be cleaned up.", processes(left)));
    }
    reasons.extend(beyond(observed));
    if let (Some(expected), Some(exit), false) = (expect_exit, observed.exit, top_was_killed(observed))
        && expected != exit
    {
        reasons.push(format!("It ended with {exit} where {expected} is expected."));
    }
    if observed.exit.is_none() {
        reasons.push("Its first process did not even end by SIGKILL.".to_owned());
    }
    reasons
}

/// Who was there until SIGKILL at the end of the grace period, if anybody was.
fn who_outlived(settings: &Settings, observed: &Observed) -> Option<String> {
    let outlived = outlived(observed);
    let server = |pid: &i32| [observed.top_pid, observed.app_pid].contains(&Some(*pid));
    let who = match &outlived[..] {
        _ if top_was_killed(observed) || outlived.iter().any(server) => "It".to_owned(),
        [] => return None,
        [one] => format!("1 process ({})", ends::name(observed, *one)),
        several => processes(several.len()),
    };
    Some(format!("{who} outlived the grace period ({}): SIGKILL.", settings::time(settings.grace_ms * 1000)))
}

/// Whether it was the idle connection that kept others waiting: one that waited got its turn when it was given up. Of a
/// server that takes nobody any more nothing of the kind is known.
fn was_blocked_by(observed: &Observed, idle: &IdleConnection) -> bool {
    let waited = |given_up_us: i64| {
        let over_us = |request: &Request| request.sent_us + request.took_us.cast_signed();
        let mut requests = observed.requests.iter();
        requests
            .any(|request| request.status.is_some() && request.sent_us < given_up_us && over_us(request) >= given_up_us)
    };
    idle.blocked_others && idle.dropped_us.is_some_and(waited)
}

fn was_blocked(observed: &Observed) -> bool {
    was_blocked_by(observed, &observed.idle.silent) || was_blocked_by(observed, &observed.idle.kept_alive)
}

/// When an idle connection was given up, where it ended only then, in microseconds after the signal.
#[must_use]
pub fn waited_for_idle(observed: &Observed) -> Option<i64> {
    let dropped_us = observed.idle.silent.dropped_us?;
    let gone_us = observed.top_gone_us.filter(|_| observed.sigkill.is_none() && !was_blocked(observed))?;
    // One that was at work until then ended for that.
    let was_at_work = observed
        .requests
        .iter()
        .any(|request| request.status.is_some() && request.sent_us + request.took_us.cast_signed() > dropped_us);
    (gone_us >= dropped_us && gone_us < dropped_us + ENDS_SOON_US && !was_at_work).then_some(dropped_us)
}

/// How many processes were left alive.
#[must_use]
pub fn left_behind(observed: &Observed) -> usize {
    left_behind_but(observed, &[])
}

fn left_behind_but(observed: &Observed, spared: &[i32]) -> usize {
    let counts = |process: &&ProcessFacts| Some(process.pid) != observed.top_pid && !spared.contains(&process.pid);
    observed.at_end.as_ref().map_or(0, |at_end| at_end.alive().filter(counts).count())
}

fn remarks(
    settings: &Settings,
    observed: &Observed,
    judgement: &Judgement,
    counts: &[(Counts, &Request)],
) -> Vec<String> {
    let mut remarks = Vec::new();
    let requests_of = |phase: Phase| counts.iter().filter(move |(_, request)| request.phase == phase);
    if settings.policy.allow_refused.is_none() && judgement.refused > 0 {
        let how = refused_how(counts);
        remarks.push(format!("Requests {how} after the signal are judged only with --routing-lag."));
    }
    if observed.signal.is_some() && !counts.is_empty() && requests_of(Phase::Across).count() == 0 {
        let is_slow = |request: &Request| request.template >= settings.requests.len();
        let too_soon = requests_of(Phase::Before).any(|(_, request)| is_slow(request));
        let why = match (settings.router_stops_first(), too_soon) {
            (true, _) => "the router had stopped before it",
            (false, true) => "the slow request was over before, it is not slow enough",
            (false, false) => "see --slow-request",
        };
        remarks.push(format!("No request was in flight when the signal came: {why}."));
    }
    if let Some(second) =
        settings.second_signal.filter(|_| observed.signal.is_some() && observed.second_signal.is_none())
        && settings.pre_stop_ms + second.after_ms >= settings.grace_ms
    {
        remarks.push(format!("{} was not sent as the second signal: the grace period was over before.", second.signal));
    }
    if judgement.lost == 0
        && observed.exit == Some(Status::Signal(settings.signal))
        && settings.signal != Signal::KILL
        && observed.sigkill.is_none()
        && observed
            .before
            .as_ref()
            .zip(observed.app_pid)
            .is_some_and(|(before, app)| before.process(app).is_some_and(|app| app.sigterm == Disposition::Default))
    {
        remarks.push("It has no handler and died at once: that nothing was lost is luck (--slow-request).".to_owned());
    }
    if let [other] = observed.boot.other_ports[..] {
        remarks.push(format!("It does not go by PORT: it listened on {other}."));
    }
    if let Some(Status::Code(code @ 1..)) = observed.exit
        && settings.policy.expect_exit.is_none()
        && i32::from(code) != 128 + settings.signal.number()
        && !observed.ended_early
    {
        remarks.push(format!("Its exit code is {code}, which a platform may take for a crash."));
    }
    if was_blocked(observed) {
        remarks.push("An idle connection kept others waiting: the idle ones were given up.".to_owned());
    } else if let Some(dropped_us) = waited_for_idle(observed) {
        remarks.push(format!(
            "It ended only when this check gave up an idle connection, {} after the signal: while a client keeps one open, \
             it may go on.",
            settings::time(dropped_us.unsigned_abs())
        ));
    }
    if let (Cut::Unknown, Some(app), Some(top)) = (app_was_cut(observed), observed.app_pid, observed.top_pid) {
        let (app, top) = (ends::name(observed, app), ends::name(observed, top));
        remarks.push(format!(
            "{app} and {top} ended together: this kernel (before 6.15) does not tell whether {app} was killed with it."
        ));
    }
    let failed = counts.iter().filter(|(counts, _)| *counts == Counts::AsBefore).count();
    if failed > 0 {
        remarks.push(format!("{} answered with 5xx, as before the signal.", requests(failed as u64)));
    }
    let unknown = unframed::unknown(settings, observed);
    if unknown > 0 {
        let answers = if unknown == 1 { "1 answer was".to_owned() } else { format!("{unknown} answers were") };
        remarks.push(format!(
            "Nothing tells whether {answers} whole: with no Content-Length and no chunks one ends as its connection does."
        ));
    }
    let completed: Vec<_> = counts.iter().filter(|(_, request)| request.fate == Fate::Completed).collect();
    let answered = |template: Option<usize>| {
        completed
            .iter()
            .map(|(_, request)| request)
            .filter(move |request| template.is_none_or(|it| it == request.template))
    };
    let in_vain = |template| {
        let first = answered(template).next()?.status;
        first.filter(|_| answered(template).all(|request| request.status >= Some(400)))
    };
    if let Some(status) = in_vain(None) {
        remarks.push(format!("No request was answered with success ({status}): is it the right --request?"));
    } else {
        let templates: BTreeSet<usize> = completed.iter().map(|(_, request)| request.template).collect();
        for template in templates {
            let asked = settings.requests.iter().chain(&settings.slow_requests).nth(template);
            if let (Some(status), Some(asked)) = (in_vain(Some(template)), asked) {
                remarks.push(format!(
                    "{} {} was not once answered with success ({status}): is it the right request?",
                    asked.method, asked.path
                ));
            }
        }
    }
    if observed.client.skipped_busy > 0 {
        let since = match observed.client.limit {
            Some(limit) => format!("{limit} were in flight, as many as there are file descriptors for (ulimit -n)"),
            None => format!("{} were in flight (--clients)", settings.clients),
        };
        remarks.push(format!("{} not sent, since {since}.", requests(observed.client.skipped_busy)));
    }
    let zombies = observed.before.as_ref().map_or(0, |before| {
        let is_zombie = |pid: i32| before.process(pid).is_some_and(|process| !process.is_alive());
        before.processes.iter().filter(|node| node.depth > 0 && is_zombie(node.process.pid)).count()
    });
    if zombies > 0 {
        remarks.push(format!("It had {} that it had not reaped (zombies).", processes(zombies)));
    }
    remarks
}

/// Why nothing follows since what was sent was not what was asked for, or too much, if so.
fn client_trouble(observed: &Observed, not_taken_in: u64) -> Option<String> {
    let client = &observed.client;
    if client.unable > 0 {
        let why = client.unable_why.as_deref().unwrap_or("the reason is unknown");
        return Some(format!("{} could not be sent from here: {why}.", requests(client.unable)));
    }
    if not_taken_in > 0 {
        let slow = if client.left_out > 1 { "; the machine was too slow, too" } else { "" };
        return Some(format!(
            "{} found the server's queue full (its listen backlog): it did not accept fast enough for so many \
             (--every){slow}.",
            requests(not_taken_in)
        ));
    }
    let due = observed.requests.len() as u64 + client.left_out;
    (client.left_out > 1 && client.left_out * 100 > due * LEFT_OUT_PERCENT).then(|| {
        format!("The machine was too slow: {} of {} could not be sent in time.", client.left_out, requests(due))
    })
}
