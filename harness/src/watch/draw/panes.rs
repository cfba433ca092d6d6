//! What stands below the lanes: decisions, the chosen worker, and what the drill came to.

use anstyle::Style;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Modifier,
    text::{Line, Span, Text},
    widgets::{Paragraph, Widget},
};
use scenarios::{Entrypoint, Event, EventKind, Stage, Tick, view::WorkerFrame};

use super::{Look, block, clip};
use crate::{
    report::{
        self, Screen,
        decision::mark_of,
        evidence::tree,
        screen::{BAD, CAUTION, GOOD, PLAIN, QUIET, STRONG},
    },
    watch::state::{Filter, Pane, Shown, State},
};

/// Draws one pane.
pub(super) fn draw(buffer: &mut Buffer, area: Rect, pane: Pane, state: &State, look: Look) {
    // Below the frame's line, with a column between neighbours.
    let inner = block(look, "", false).inner(area);
    let inner = Rect { width: inner.width.saturating_sub(1), ..inner };
    let (title, text) = match pane {
        Pane::Decisions => {
            block(look, &format!(" Decisions: {} ", state.filter.name()), false).render(area, buffer);
            return decisions(buffer, inner, state, look);
        }
        Pane::Worker => ("Worker", worker(inner.width, state, look)),
        Pane::Result if state.record.is_some() => ("Result", result(inner.width, state, look)),
        Pane::Result => ("Drill", result(inner.width, state, look)),
    };
    let (all, height) = (text.lines.len(), usize::from(inner.height));
    let first = state.read.min(all.saturating_sub(height));
    let frame = match all > height {
        true => {
            // That there is more, and the keys that lead to it.
            let more = if first + height < all { look.text("… ", "... ") } else { "" };
            block(look, &format!(" {title} {}-{}/{all} {more}f b ", first + 1, first + height), false)
        }
        false => block(look, &format!(" {title} "), false),
    };
    frame.render(area, buffer);
    Paragraph::new(text).scroll((u16::try_from(first).unwrap_or(u16::MAX), 0)).render(inner, buffer);
}

/// The last decisions up to the time that is shown, as many as there is room for.
fn decisions(buffer: &mut Buffer, area: Rect, state: &State, look: Look) {
    let tick = state.player.tick();
    let events = state.told().map_or(&[][..], |traced| &traced.events);
    let seen = &events[..events.partition_point(|event| event.t <= tick)];
    let listed = seen.iter().rev().filter(|event| is_listed(state, event)).take(usize::from(area.height));
    let lines: Vec<Line> = listed.map(|event| decision(state, event, tick, area.width, look)).collect();
    for (line, y) in lines.iter().rev().zip(area.y..) {
        buffer.set_line(area.x, y, line, area.width);
    }
    if lines.is_empty() {
        let none = if seen.is_empty() { "nothing yet" } else { "none of these" };
        buffer.set_span(area.x, area.y, &Span::styled(none, look.style(QUIET)), area.width);
    }
}

fn is_listed(state: &State, event: &Event) -> bool {
    match state.filter {
        Filter::All => true,
        Filter::Usual => !matches!(event.kind, EventKind::StageEntered { .. }) || state.instead(event).is_some(),
        Filter::Workers => event.kind.request().is_none(),
        Filter::Chosen => event.kind.worker() == state.chosen(),
        Filter::Different => state.instead(event).is_some(),
    }
}

fn decision(state: &State, event: &Event, tick: Tick, width: u16, look: Look) -> Line<'static> {
    let (mark, style) = mark_of(&event.kind, look.screen(80).marks());
    let instead = state.instead(event);
    let mut text = event.kind.to_string();
    if let Some(instead) = &instead {
        // The mark comes first: the rest may be cut off.
        text = format!("{} {text}, {instead}", look.screen(80).marks().differs);
    }
    let time = format!("{:>4} s ", event.t.to_string());
    let room = usize::from(width).saturating_sub(time.len() + 2);
    let now = event.t == tick;
    let text_style = match (&instead, now) {
        (Some(_), _) => look.style(BAD),
        (None, true) => look.style(STRONG),
        (None, false) => look.style(PLAIN),
    };
    Line::from(vec![
        Span::styled(time, look.style(if now { STRONG } else { QUIET })),
        Span::styled(format!("{mark} "), look.style(style)),
        Span::styled(clip(&text, room, look), text_style),
    ])
}

/// The chosen worker at the time that is shown.
fn worker(width: u16, state: &State, look: Look) -> Text<'static> {
    let Some(chosen) = state.chosen() else { return Text::raw("no worker has been started") };
    let tick = state.player.tick();
    let mut lines = Lines { lines: Vec::new(), look };
    let Some(traced) = state.told() else { return Text::raw(format!("{chosen} has not been started")) };
    let frame = traced.view.at(tick);
    let Some(now) = frame.workers.iter().find(|worker| worker.worker == chosen) else {
        return Text::raw(format!("{chosen} has not been started"));
    };
    let since = traced
        .view
        .lanes
        .iter()
        .find(|lane| lane.worker == chosen)
        .and_then(|lane| lane.phases.iter().find(|phase| phase.from <= tick && tick < phase.until))
        .map_or_else(String::new, |phase| format!(" since {} s", phase.from));
    lines.fact(&chosen.to_string(), STRONG, &format!("{}{since}", now.state.name()));
    let pid = (state.shown != Shown::Expected)
        .then(|| state.observed_events().iter().find_map(|o| o.pid.filter(|_| o.event.kind.worker() == Some(chosen))))
        .flatten();
    let pid = pid.map_or_else(String::new, |pid| format!(", pid {pid}"));
    lines.fact("process", QUIET, &format!("{}{pid}", if now.alive { "alive" } else { "ended" }));
    lines.fact("ready", QUIET, if now.ready { "yes" } else { "no" });
    if let Some(status) = now.status {
        lines.fact("status", QUIET, &status.to_string());
    }
    let known = state.known_until(traced);
    if tick > known {
        lines.fact("known", CAUTION, &format!("until {known} s"));
    }
    if let Some(grace) = traced.view.grace.filter(|grace| grace.worker == chosen && grace.from <= tick) {
        let left = grace.deadline.0.saturating_sub(tick.0);
        let left = if now.alive && left > 0 { format!(", in {} s", Tick(left)) } else { String::new() };
        lines.fact("SIGTERM", CAUTION, &format!("at {} s", grace.from));
        lines.fact("deadline", CAUTION, &format!("{} s{left}", grace.deadline));
    }
    lines.slots(state, now);
    if let Some(snapshot) = state.snapshot(tick).filter(|_| Some(chosen) == traced.view.grace.map(|grace| grace.worker))
    {
        let screen = Screen { width: usize::from(width).max(20), ascii: look.ascii, verbose: false };
        let heading = if snapshot.processes.is_empty() { "no process is left" } else { "processes" };
        lines.lines.push(Line::styled(heading, look.style(QUIET)));
        for line in tree(screen, &snapshot.processes, " ").lines() {
            lines.lines.push(Line::raw(line.to_owned()));
        }
    }
    Text::from(lines.lines)
}

/// Facts in two columns.
struct Lines {
    lines: Vec<Line<'static>>,
    look: Look,
}

impl Lines {
    fn fact(&mut self, name: &str, style: Style, text: &str) {
        let name = Span::styled(format!("{name:<10}"), self.look.style(style));
        self.lines.push(Line::from(vec![name, Span::raw(text.to_owned())]));
    }

    fn slots(&mut self, state: &State, now: &WorkerFrame) {
        let all = state.scenario.slots_per_worker;
        self.fact("slots", QUIET, &format!("{} of {all} in use", now.in_flight.len()));
        for held in &now.in_flight {
            let stage = held.stage.map_or("admitted", Stage::name);
            let slot = Span::styled(format!("{:>4}  ", held.slot), self.look.style(QUIET));
            let text = format!("{} {stage}, {} s", held.request, held.from);
            self.lines.push(Line::from(vec![slot, Span::raw(text)]));
        }
    }
}

/// What a drill that goes on is at, or what it came to and where the signal went.
fn result(width: u16, state: &State, look: Look) -> Text<'static> {
    let screen = Screen { width: usize::from(width).max(20), ascii: look.ascii, verbose: true };
    let mut text = String::new();
    match (&state.record, &state.progress) {
        (Some(record), _) => {
            let quiet = Screen { verbose: false, ..screen };
            // What matters most comes first: there may be no room for all.
            text.push_str(&report::run::verdict(quiet, record));
            if let Some(last) = record.attempts.last() {
                let whole = last.cut_off_at.is_none();
                let expected = Some(record.expected.outcome.gate);
                let facts = report::summary::facts(quiet, &state.scenario, &last.outcome, whole, expected);
                let (gate, counts): (Vec<_>, Vec<_>) = facts.into_iter().partition(|(label, ..)| *label == "gate");
                let told = |facts: &[(&'static str, Style, String)]| {
                    facts.iter().map(|(label, style, text)| screen.labelled(label, *style, text)).collect::<String>()
                };
                text.push_str(&told(&gate));
                text.push_str(&report::evidence::signal(quiet, last));
                text.push_str(&report::run::other_differences(screen, record));
                text.push_str(&told(&counts));
                for remark in &last.remarks {
                    text.push_str(&screen.labelled("remark", CAUTION, remark));
                }
            }
        }
        (None, Some(progress)) => {
            if let Some(failure) = &progress.failure {
                text.push_str(&screen.labelled("error", BAD, &failure.what));
            }
            let attempt = progress.attempt.map_or_else(
                || "the drill is about to begin".to_owned(),
                |(number, speed)| match speed {
                    Some(speed) => format!("attempt {number} at {speed} times real time"),
                    None => format!("attempt {number} on the stepped clock"),
                },
            );
            text.push_str(&screen.labelled("drill", GOOD, &attempt));
            if let Some(why) = &progress.repeated {
                text.push_str(&screen.labelled("again", CAUTION, why));
            }
            text.push_str(&facts(screen, state));
        }
        (None, None) => {
            text.push_str(&screen.labelled("model", GOOD, "what should happen; nothing is started"));
            text.push_str(&facts(screen, state));
            if let Some(expected) = &state.expected {
                let outcome = scenarios::Outcome::of(&state.scenario, &expected.events);
                text.push_str(&report::summary::outcome(screen, &state.scenario, &outcome, true));
            }
        }
    }
    if let Some(path) = &state.stored_in {
        text.push_str(&screen.labelled("stored", STRONG, &path.display().to_string()));
    }
    plain(&text, look)
}

/// What the scenario is about.
fn facts(screen: Screen, state: &State) -> String {
    let scenario = &state.scenario;
    let mut text = String::new();
    if let Some(why) = &scenario.why {
        text.push_str(&screen.labelled("why", QUIET, why));
    }
    let grace = scenario.grace_period_s.as_seconds();
    let signal = format!("SIGTERM at {} s, grace period {grace} s", scenario.signal_at());
    text.push_str(&screen.labelled("signal", QUIET, &signal));
    let seat = if scenario.pid_namespace { "PID 1 of a PID namespace" } else { "an ordinary process" };
    let entrypoint = match &scenario.entrypoint {
        Entrypoint::Custom(words) => words.join(" "),
        named => named.name().unwrap_or_default().to_owned(),
    };
    let worker = format!("{} on SIGTERM, entrypoint {entrypoint}, {seat}", scenario.on_sigterm.name());
    text.push_str(&screen.labelled("worker", QUIET, &worker));
    text
}

/// Text of the text output, with the labels in its first column standing out.
fn plain(text: &str, look: Look) -> Text<'static> {
    let text = anstream::adapter::strip_str(text).to_string();
    let lines = text.lines().map(|line| {
        let label = line.char_indices().nth(10).map_or(line, |(end, _)| &line[..end]);
        match label.chars().next() {
            Some(first) if first != ' ' && label.ends_with(' ') => {
                let style = match label.trim_end() {
                    "verdict" | "gate" => look.style(STRONG).add_modifier(Modifier::UNDERLINED),
                    _ => look.style(STRONG),
                };
                let (name, pad) = (label.trim_end(), &label[label.trim_end().len()..]);
                Line::from(vec![
                    Span::styled(name.to_owned(), style),
                    Span::raw(pad.to_owned()),
                    Span::raw(line[label.len()..].to_owned()),
                ])
            }
            _ => Line::raw(line.to_owned()),
        }
    });
    Text::from_iter(lines)
}
