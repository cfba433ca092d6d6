//! The drill over time, as a picture: each request as a bar, what happened as a line, the grace period as a band.

use std::fmt::Write as _;

use super::{
    escaped,
    ledger::{self, asked, class, connection, outcome, relative},
};
use crate::{
    check::{
        fate::Connection,
        record::{Observed, Request},
        settings::{self, Settings},
        timeline,
        verdict::Counts,
    },
    report::Screen,
    svg::label,
};

/// How many requests are drawn that were lost, and how many others.
const LOST: usize = 200;
const OTHERS: usize = 400;
/// The picture's width, and where its time axis begins and ends, in its own units.
const WIDTH: f64 = 1_000.0;
const LEFT: f64 = 12.0;
const RIGHT: f64 = 988.0;
/// The height of a line of text, and of a lane of bars.
const LINE: f64 = 17.0;
const LANE: f64 = 7.0;
const BAR: f64 = 5.0;
/// The narrowest bar.
const NARROWEST: f64 = 2.5;
/// How long before the signal the picture begins at most, in microseconds.
const BEFORE_US: i64 = 2_500_000;

/// How moments lie on the axis.
#[derive(Clone, Copy, Debug)]
struct Scale {
    start_us: i64,
    end_us: i64,
}

impl Scale {
    fn x(self, at_us: i64) -> f64 {
        let span_us = (self.end_us - self.start_us).max(1) as f64;
        let at_us = (at_us - self.start_us).clamp(0, self.end_us - self.start_us) as f64;
        LEFT + (RIGHT - LEFT) * at_us / span_us
    }
}

/// A request that is drawn.
struct Bar<'a> {
    from: f64,
    to: f64,
    counts: Counts,
    request: &'a Request,
}

/// The picture of a drill, and the same in words below it.
pub(super) fn figure(
    html: &mut String,
    settings: &Settings,
    observed: &Observed,
    requests: &[(Counts, &Request)],
    index: usize,
) {
    let screen = Screen { width: 80, ascii: false, verbose: true };
    let events = timeline::events(screen, observed);
    if events.is_empty() && requests.is_empty() {
        return;
    }
    let over_us = |request: &Request| request.sent_us + request.took_us.cast_signed();
    let start_us = requests.iter().map(|(_, request)| request.sent_us).min().unwrap_or(0).max(-BEFORE_US);
    let start_us = events.iter().map(|event| event.at_us).fold(start_us.min(0), i64::min);
    let end_us = requests.iter().map(|(_, request)| over_us(request)).chain(events.iter().map(|event| event.at_us));
    let end_us = end_us.fold(100_000, i64::max);
    let scale = Scale { start_us, end_us: end_us + (end_us - start_us) / 50 };

    let shown = ledger::chosen(requests, LOST, OTHERS);
    let bar = |&(counts, request): &(Counts, _)| {
        let request: &Request = request;
        let from = scale.x(request.sent_us);
        Bar { from, to: scale.x(over_us(request)).max(from + NARROWEST), counts, request }
    };
    let of = |wanted: Connection| -> Vec<Bar<'_>> {
        shown.iter().filter(|(_, request)| request.connection == wanted).map(bar).collect()
    };
    let groups = [
        ("each on a connection of its own", of(Connection::New)),
        ("on a connection that was used before", of(Connection::Reused)),
    ];

    let mut picture = String::new();
    let mut y = LINE * (events.len() as f64 + 1.0);
    let top = y;
    for (title, bars) in &groups {
        if !bars.is_empty() {
            y += LINE;
            label(&mut picture, "quiet", (LEFT, y - 5.0), "start", title);
            y = lanes(&mut picture, settings, bars, y);
        }
    }
    let bottom = y.max(top + LINE) + 4.0;
    let mut svg = String::new();
    axis(&mut svg, scale, bottom);
    marks(&mut svg, settings, observed, scale, &events, bottom);
    let _ = writeln!(
        html,
        "<h3>Over time</h3>\n<figure>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Timeline\">\n<svg \
         viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-labelledby=\"timeline-{index}\">\n{svg}{picture}</svg>\n</div>\n\
         <figcaption id=\"timeline-{index}\">{}</figcaption>\n</figure>",
        bottom + LINE,
        words(observed, &events, shown.len(), requests.len())
    );
}

/// Bars in as many lanes as it takes, each in the first that is free. Gives where they end.
fn lanes(picture: &mut String, settings: &Settings, bars: &[Bar<'_>], top: f64) -> f64 {
    let mut ends: Vec<f64> = Vec::new();
    for bar in bars {
        let lane = ends.iter().position(|&end| end + 1.0 <= bar.from).unwrap_or(ends.len());
        if lane == ends.len() {
            ends.push(0.0);
        }
        ends[lane] = bar.to;
        let y = top + LANE * lane as f64;
        let title = format!(
            "request {}, {}: sent {} on a {} connection, {} after {}",
            bar.request.number,
            asked(settings, bar.request),
            relative(bar.request.sent_us),
            connection(bar.request.connection),
            outcome(bar.counts, bar.request),
            settings::time(bar.request.took_us)
        );
        let _ = writeln!(
            picture,
            "<g><title>{}</title><rect class=\"{}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\"/>",
            escaped(&title),
            class(bar.counts),
            bar.from,
            bar.to - bar.from
        );
        if bar.counts == Counts::Lost {
            let (x, middle) = (bar.to, y + BAR / 2.0);
            let _ = write!(picture, "<path class=\"cross\" d=\"M{:.1} {:.1}l6 6m0 -6l-6 6\"/>", x - 3.0, middle - 3.0);
        }
        picture.push_str("</g>\n");
    }
    top + LANE * ends.len() as f64
}

/// Lines at round times, with their labels below.
fn axis(svg: &mut String, scale: Scale, bottom: f64) {
    let span_us = scale.end_us - scale.start_us;
    let step_us = step_us(span_us);
    let mut at_us = scale.start_us.div_euclid(step_us) * step_us;
    while at_us <= scale.end_us {
        if at_us >= scale.start_us {
            let x = scale.x(at_us);
            let _ = writeln!(svg, "<path class=\"tick\" d=\"M{x:.1} {LINE}V{bottom:.1}\"/>");
            let sign = if at_us > 0 {
                "+"
            } else if at_us < 0 {
                "-"
            } else {
                ""
            };
            let text = format!("{sign}{}", settings::time(at_us.unsigned_abs()));
            let anchor = if x < 40.0 {
                "start"
            } else if x > WIDTH - 40.0 {
                "end"
            } else {
                "middle"
            };
            label(svg, "quiet", (x, bottom + 13.0), anchor, &text);
        }
        at_us += step_us;
    }
}

/// A round time, so that a span has at most a dozen of it.
fn step_us(span_us: i64) -> i64 {
    let decades = std::iter::successors(Some(10_000_i64), |decade_us| decade_us.checked_mul(10));
    let mut steps = decades.flat_map(|decade_us| [1, 2, 5].map(|factor| decade_us.saturating_mul(factor)));
    steps.find(|step_us| span_us / step_us <= 12).unwrap_or(i64::MAX)
}

/// The grace period as a band, and what happened as lines, each with its label on a line of its own.
fn marks(
    svg: &mut String,
    settings: &Settings,
    observed: &Observed,
    scale: Scale,
    events: &[timeline::Event],
    bottom: f64,
) {
    if observed.signal.is_some() {
        let (from, to) = (scale.x(observed.stop_us), scale.x(observed.deadline_us));
        let _ = writeln!(
            svg,
            "<rect class=\"grace\" x=\"{from:.1}\" y=\"{LINE}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            to - from,
            bottom - LINE
        );
        let (at, anchor) = if from > WIDTH - 260.0 { (RIGHT, "end") } else { (from, "start") };
        label(
            svg,
            "quiet",
            (at, 12.0),
            anchor,
            &format!("grace period of {}", settings::time(settings.grace_ms * 1000)),
        );
    }
    for (number, event) in events.iter().enumerate() {
        let (x, y) = (scale.x(event.at_us), LINE * (number as f64 + 2.0) - 4.0);
        let _ = writeln!(svg, "<path class=\"event\" d=\"M{x:.1} {:.1}V{bottom:.1}\"/>", y - 10.0);
        let (at, anchor) = if x > WIDTH - 260.0 { (x - 5.0, "end") } else { (x + 5.0, "start") };
        label(svg, "strong", (at, y), anchor, &happened(event));
    }
}

fn happened(event: &timeline::Event) -> String {
    match event.at_us {
        0 => format!("{} at 0", event.name),
        at_us => format!("{} at {}", event.name, relative(at_us)),
    }
}

/// The picture in words.
fn words(observed: &Observed, events: &[timeline::Event], shown: usize, all: usize) -> String {
    let mut text = String::new();
    if observed.signal.is_some() {
        let _ = write!(
            text,
            "The grace period is from {} to {}. ",
            relative(observed.stop_us),
            relative(observed.deadline_us)
        );
    }
    let happened: Vec<String> = events.iter().map(happened).collect();
    if !happened.is_empty() {
        let _ = write!(text, "{}. ", happened.join(", "));
    }
    let _ = write!(
        text,
        "Bars are requests, {} of them: filled where they were served, hollow where they were refused or failed as before, \
         with a cross at the end where they were lost. What became of each is in the tables below.",
        ledger::number_of(shown, all)
    );
    escaped(&text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_axis_has_some_marks_and_not_too_many(span_us in 100_000i64..200_000_000_000) {
            let marks = span_us / step_us(span_us);
            prop_assert!((4..=12).contains(&marks), "{}", marks);
        }
    }
}
