//! The drill in one seat: verdict, explanation, change, pictures and tables.

use std::fmt::Write as _;

use super::{badge, escaped, ledger, timeline};
use crate::check::{
    fate::{Fate, Phase},
    record::{Observed, Record, Request, SeatRecord, Verdict},
    settings, text,
    verdict::{Counts, Usual},
};

/// How many of the last lines of the output are shown.
const LAST_LINES: usize = 40;
/// How long a line of the output may be, in characters.
const LINE: usize = 2_000;

/// The section of one seat.
pub(super) fn section(html: &mut String, record: &Record, seat: &SeatRecord, index: usize) {
    let (observed, judgement) = (&seat.observed, &seat.judgement);
    let name = seat.seat.name();
    let _ = writeln!(
        html,
        "<section aria-labelledby=\"{name}\">\n<h2 id=\"{name}\">{} as {}</h2>\n<p>{}</p>",
        badge(judgement.verdict),
        seat.seat.title(),
        escaped(&text::reasons(seat))
    );
    if let Some(change) = seat.explanation.change.as_ref().filter(|_| judgement.verdict != Verdict::Pass) {
        let _ = writeln!(html, "<p class=\"change\"><strong>What to change:</strong> {}</p>", escaped(change));
    }
    if observed.unable.is_none() {
        explanation(html, seat);
        let usual = Usual::of(&observed.requests);
        let requests: Vec<(Counts, &Request)> =
            observed.requests.iter().map(|request| (Counts::of(request, &usual), request)).collect();
        timeline::figure(html, &record.settings, observed, &requests, index);
        if !requests.is_empty() {
            outcomes(html, observed);
            percentiles(html, observed);
            ledger::table(html, &record.settings, &requests, name);
        }
        processes(html, record, observed);
    }
    output(html, observed);
    html.push_str("</section>\n");
}

fn explanation(html: &mut String, seat: &SeatRecord) {
    let (observed, told) = (&seat.observed, &seat.explanation);
    html.push_str("<dl>\n");
    let mut row = |what: &str, value: &str| {
        let _ = writeln!(html, "<dt>{what}</dt><dd>{}</dd>", escaped(value));
    };
    row("Where the signal went", &told.text);
    row("How it ended", &text::exit(observed));
    if let Some(left) = text::left(observed) {
        row("Left behind", &left);
    }
    seat.judgement.remarks.iter().for_each(|remark| row("Note", remark));
    html.push_str("</dl>\n");
}

fn outcomes(html: &mut String, observed: &Observed) {
    html.push_str(
        "<h3>What became of the requests</h3>\n<table class=\"numbers\">\n<thead><tr><th scope=\"col\">Outcome</th><th \
         scope=\"col\">Before</th><th scope=\"col\">In flight</th><th scope=\"col\">After</th></tr></thead>\n<tbody>\n",
    );
    for fate in Fate::ALL {
        let counts = text::counts(observed, fate);
        if counts.iter().any(|&count| count > 0) || fate == Fate::Completed {
            let cells: String = counts.iter().map(|count| format!("<td>{count}</td>")).collect();
            let _ = writeln!(html, "<tr><th scope=\"row\">{}</th>{cells}</tr>", fate.title());
        }
    }
    html.push_str("</tbody>\n</table>\n");
}

/// How long the completed requests took.
fn percentiles(html: &mut String, observed: &Observed) {
    let took_us = Phase::ALL.map(|phase| text::completed_us(observed, |request| request.phase == phase));
    if took_us.iter().all(Vec::is_empty) {
        return;
    }
    html.push_str(
        "<h3>How long completed requests took</h3>\n<table class=\"numbers\">\n<thead><tr><th scope=\"col\">Of a \
         hundred</th><th scope=\"col\">Before</th><th scope=\"col\">In flight</th><th \
         scope=\"col\">After</th></tr></thead>\n<tbody>\n",
    );
    for (title, percent) in [("50 (median)", 50), ("90", 90), ("99", 99), ("all (longest)", 100)] {
        let cell = |sorted: &Vec<u64>| text::percentile(sorted, percent).map_or("-".to_owned(), settings::time);
        let cells: String = took_us.iter().map(|sorted| format!("<td>{}</td>", cell(sorted))).collect();
        let _ = writeln!(html, "<tr><th scope=\"row\">{title}</th>{cells}</tr>");
    }
    html.push_str("</tbody>\n</table>\n");
}

/// The processes shortly before the signal, and how each ended.
fn processes(html: &mut String, record: &Record, observed: &Observed) {
    let Some(before) = observed.before.as_ref().filter(|before| !before.processes.is_empty()) else { return };
    let _ = writeln!(html, "<h3>Processes before {}, and how each ended</h3>\n<ul>", record.settings.signal);
    for node in &before.processes {
        let process = &node.process;
        let end = observed.ends.iter().find(|end| end.pid == process.pid);
        let status = end.and_then(|end| end.status).map_or("unknown".to_owned(), |status| status.to_string());
        let when = end.and_then(|end| end.at_us).map_or("in the clean-up".to_owned(), ledger::relative);
        let above = before.processes.iter().rev().skip_while(|other| other.process.pid != process.pid);
        let parent = above.skip(1).find(|other| other.depth < node.depth).map(|other| other.process.namespace_pid);
        let _ = writeln!(
            html,
            "<li><code>{}</code> (pid {}{}, {} {}{}): {status}, {when}</li>",
            escaped(&text::line(&process.argv)),
            process.namespace_pid,
            parent.map_or(String::new(), |parent| format!(", started by {parent}")),
            record.settings.signal,
            process.sigterm.name(),
            if Some(process.pid) == observed.app_pid { ", listens" } else { "" },
        );
    }
    html.push_str("</ul>\n");
}

fn output(html: &mut String, observed: &Observed) {
    let lines: Vec<&str> = observed.output.lines().collect();
    let shown = &lines[lines.len().saturating_sub(LAST_LINES)..];
    if shown.is_empty() {
        html.push_str("<h3>What it wrote</h3>\n<p>Nothing.</p>\n");
        return;
    }
    let _ = writeln!(
        html,
        "<h3>What it wrote</h3>\n<p class=\"quiet\">{} bytes; its last lines:</p>",
        observed.output_bytes
    );
    let lines: Vec<String> = shown.iter().map(|line| escaped(&line.chars().take(LINE).collect::<String>())).collect();
    let _ = writeln!(html, "<pre>{}</pre>", lines.join("\n"));
}
