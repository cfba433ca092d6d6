//! A run as a picture in SVG: the lanes with everything that happened in them, and in words what it came to.
//!
//! [`mod@layout`] says where everything is, and what it stands for; here it gets its looks. Nothing in it stands for
//! something by its colour alone, and there are colours for light and for dark pages.

pub mod drawing;
pub mod layout;

use std::fmt::Write;

use scenarios::{Event, Outcome, Scenario, Tick, View};

use self::{
    drawing::{Anchor, Drawing, Form, Label, Shape},
    layout::{Panel, Words, layout},
};
use super::{Screen, screen::NO_BREAK_SPACE, summary};
use crate::{
    compare,
    record::{Record, Verdict},
    svg::{escaped, label},
};

/// The picture of a run. Real times are left out: the same run gives the same picture on every machine.
#[must_use]
pub fn of_run(record: &Record) -> String {
    let scenario = &record.scenario;
    let expected = View::new(scenario, &record.expected.events);
    let Some(last) = record.attempts.last() else {
        let words = words(record, None);
        return svg(
            scenario,
            &layout(scenario, &[Panel { heading: "expected", view: &expected, different: &[] }], &words),
            &words,
        );
    };
    let events: Vec<Event> = last.events.iter().map(|observed| observed.event).collect();
    let observed = match last.cut_off_at {
        None => View::new(scenario, &events),
        Some(until) => View::until(scenario, &events, until),
    };
    let words = words(record, Some(&last.outcome).filter(|_| last.cut_off_at.is_none()));
    let different = last.difference.as_ref().map(|_| compare::differences(&record.expected.events, &last.events));
    let different = different.unwrap_or_default();
    let missing: Vec<Event> = different.iter().filter_map(|difference| difference.expected).collect();
    let extra: Vec<Event> = different.iter().filter_map(|one| one.observed.as_ref()).map(|one| one.event).collect();
    let panels = match last.difference {
        Some(_) => vec![
            Panel { heading: "expected", view: &expected, different: &missing },
            Panel { heading: "observed", view: &observed, different: &extra },
        ],
        None => vec![Panel { heading: "", view: &observed, different: &[] }],
    };
    svg(scenario, &layout(scenario, &panels, &words), &words)
}

/// What the picture says in words: sums, gate, verdict, where the signal went.
fn words(record: &Record, outcome: Option<&Outcome>) -> Words {
    let mut facts = Vec::new();
    let mut say = |name: &str, text: String| facts.push((name.to_owned(), text.replace(NO_BREAK_SPACE, " ")));
    let screen = Screen { width: 4_000, ascii: false, verbose: true };
    if let Some(outcome) = outcome {
        // The same words as the text output's. Very many sums are no words any more.
        for (name, _, text) in summary::facts(screen, &record.scenario, outcome, true, None) {
            if name != "sums" || text.chars().count() < 400 {
                say(name, text);
            }
        }
    }
    let last = record.attempts.last();
    if let Some(explanation) = last.and_then(|last| last.explanation.as_ref()) {
        say("signal", explanation.text.clone());
        if let Some(change) = &explanation.change {
            say("change", change.clone());
        }
    }
    let (_, mark, _) = screen.verdict_mark(record.verdict);
    let verdict = match record.verdict {
        Verdict::Matched => {
            let events = record.expected.events.len();
            format!("{mark} MATCHED: all {events} events of real processes are what the model expected")
        }
        Verdict::Diverged => format!("{mark} DIVERGED: the processes did not do what the model expected"),
        Verdict::Inconclusive => format!("{mark} INCONCLUSIVE: nothing is proved either way"),
    };
    say("verdict", verdict);
    if let Some(difference) = last.and_then(|last| last.difference.as_ref()) {
        say("differs", difference.what.clone());
    }
    for reason in &record.reasons {
        say("", reason.clone());
    }
    Words { facts }
}

/// A drawing with its looks.
fn svg(scenario: &Scenario, drawing: &Drawing, words: &Words) -> String {
    let (width, height) = drawing.size;
    let what: Vec<String> =
        words.facts.iter().map(|(name, text)| format!("{name}: {text}.").replace("..", ".")).collect();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"title what\" font-family=\"system-ui, 'Segoe UI', 'Noto \
         Sans', 'DejaVu Sans', sans-serif\" font-size=\"12\">\n<title id=\"title\">{}</title>\n<desc id=\"what\">Worker \
         lanes over {} seconds. {}</desc>\n<style>\n{STYLE}</style>\n{DEFINITIONS}<rect class=\"page\" width=\"{width}\" \
         height=\"{height}\" rx=\"8\"/>\n",
        escaped(&format!("{}: {}", scenario.name, scenario.title)),
        Tick::END.seconds(),
        escaped(&what.join(" ")),
    );
    drawing.shapes.iter().for_each(|one| shape(&mut svg, one));
    for Label { class, at, anchor, text } in &drawing.labels {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        label(&mut svg, class, *at, anchor, text);
    }
    svg.push_str("</svg>\n");
    svg
}

fn shape(svg: &mut String, shape: &Shape) {
    let Shape { class, form, title } = shape;
    let title = if title.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(title)) };
    let _ = match *form {
        Form::Bar(x, y, width, height) => writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">{title}</rect>"
        ),
        Form::Mark(x, y) => {
            writeln!(svg, "<g transform=\"translate({x:.1} {y:.1})\">{title}<use href=\"#{class}\"/></g>")
        }
    };
}

/// Patterns and marks. The marks are within [`drawing::MARK`] of their middle.
const DEFINITIONS: &str = r##"<defs>
<pattern id="boot" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="boot" d="M0 0V6"/></pattern>
<pattern id="dots" width="5" height="5" patternUnits="userSpaceOnUse"><rect class="dots-ground" width="5" height="5"/><circle class="dots" cx="2.5" cy="2.5" r="0.9"/></pattern>
<pattern id="stripes" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="stripes-ground" width="6" height="6"/><path class="stripes" d="M0 0V6"/></pattern>
<g id="mark-ready"><path class="good" d="M0-6 5.5 4.5h-11Z"/></g>
<g id="mark-sigterm"><path class="warn" d="M0 6 5.5-4.5h-11Z"/></g>
<g id="mark-skipped"><path class="warn hollow" d="M0 5 4.5-4h-9Z"/></g>
<g id="mark-sigkill"><path class="bad" d="M-6-3-3-6 0-3 3-6 6-3 3 0 6 3 3 6 0 3-3 6-6 3-3 0Z"/></g>
<g id="mark-committed"><circle class="good" r="4.5"/></g>
<g id="mark-killed"><path class="bad hollow" d="M-4-4 4 4M4-4-4 4"/></g>
<g id="mark-exited"><rect class="plain" x="-4" y="-4" width="8" height="8"/></g>
<g id="mark-failed"><path class="bad" d="M0-6 6 0 0 6-6 0Z"/></g>
<g id="mark-orphaned"><circle class="bad hollow" r="4.5"/></g>
<g id="mark-running"><path class="plain hollow" d="M-3-4 3 0-3 4"/></g>
<g id="mark-differs"><circle class="differs" r="5.2"/></g>
<g id="mark-rejected"><path class="plain hollow" d="M-4 0H4"/></g>
</defs>
"##;

/// The looks, on light pages and on dark ones.
const STYLE: &str = "\
.title{font-size:16px;font-weight:650} .strong{font-weight:600} .number{font-size:11px;font-weight:600}
.frame,.frame-killed,.frame-running{fill:none;stroke-width:1} .frame-killed{stroke-width:1.5}
.differs{fill:none;stroke-width:1.6} .good,.warn,.bad,.plain{stroke-width:1} .hollow{fill:none;stroke-width:2}
.starting{fill:url(#boot);stroke-width:1} .model{fill:url(#stripes)} .tool{fill:url(#dots)}
.boot,.stripes{stroke-width:2.5} .deadline{shape-rendering:crispEdges}
.page{fill:#fff;stroke:#d9dee4} text{fill:#1b2026} .quiet{fill:#545d67} .caution{fill:#6e4500} .grid{fill:#e4e8ec}
.starting{stroke:#7d8792} .boot{stroke:#7d8792} .ready{fill:#1b2026} .draining{fill:#9a6200} .orphan{fill:#b0330a}
.grace{fill:#f6e7c4} .deadline{fill:#b0330a} .prepare{fill:#d3e4f5} .stripes-ground{fill:#a9cbe9} .stripes{stroke:#8dbae2}
.dots-ground{fill:#5e9bd3} .dots{fill:#d3e4f5} .frame{stroke:#4f7396} .frame-killed{stroke:#b0330a}
.frame-running{stroke:#855300;stroke-dasharray:3 2} .differs{stroke:#7a2aa3} .number{fill:#12283d}
.good{fill:#06695a;stroke:#fff} .warn{fill:#9a6200;stroke:#fff} .bad{fill:#b0330a;stroke:#fff} .plain{fill:#1b2026;stroke:#fff}
.warn.hollow{fill:none;stroke:#9a6200} .bad.hollow{fill:none;stroke:#b0330a} .plain.hollow{fill:none;stroke:#545d67}
@media (prefers-color-scheme:dark){
.page{fill:#191d21;stroke:#30363d} text{fill:#e5e9ed} .quiet{fill:#a3adb7} .caution{fill:#f0c876} .grid{fill:#2a3036}
.starting{stroke:#8b95a0} .boot{stroke:#8b95a0} .ready{fill:#e5e9ed} .draining{fill:#e6b455} .orphan{fill:#ff8f6b}
.grace{fill:#3b3018} .deadline{fill:#ff8f6b} .prepare{fill:#24405c} .stripes-ground{fill:#315c82} .stripes{stroke:#3d719f}
.dots-ground{fill:#5f97c8} .dots{fill:#191d21} .frame{stroke:#86bdeb} .frame-killed{stroke:#ff8f6b}
.frame-running{stroke:#e6b455} .differs{stroke:#d69cf2} .number{fill:#eaf3fb}
.good{fill:#5ccbb8;stroke:#191d21} .warn{fill:#e6b455;stroke:#191d21} .bad{fill:#ff8f6b;stroke:#191d21}
.plain{fill:#e5e9ed;stroke:#191d21}
.warn.hollow{fill:none;stroke:#e6b455} .bad.hollow{fill:none;stroke:#ff8f6b} .plain.hollow{fill:none;stroke:#a3adb7}
}
";

#[cfg(test)]
mod tests;
