//! Where everything of the picture is. Pure; knows nothing of colours and of SVG.

use scenarios::{
    Event, EventKind, Scenario, Stage, Tick, WorkerState,
    view::{End, Grace, Invocation, Lane, OPEN, View},
};

use super::drawing::{Anchor, Drawing, Form, Label, MARK, Shape};

/// A trace to draw.
#[derive(Clone, Copy, Debug)]
pub struct Panel<'a> {
    /// What it is, where there are several.
    pub heading: &'a str,
    /// The trace.
    pub view: &'a View,
    /// Its events that are not in the other trace, where there are two.
    pub different: &'a [Event],
}

/// What the picture says in words.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// Names and what is to be said of them, from top to bottom.
    pub facts: Vec<(String, String)>,
}

/// The width of the picture, in units of its `viewBox` as all lengths here.
pub const WIDTH: f64 = 960.0;
/// The room around it.
pub const MARGIN: f64 = 20.0;
/// Where the time axis begins and ends.
pub const AXIS: (f64, f64) = (112.0, WIDTH - MARGIN - 8.0);
/// How wide a character is at most, on average over a text; for the fonts that the picture asks for.
pub const CHARACTER: f64 = 6.7;
/// The height of a line of text.
pub const LINE: f64 = 17.0;

const LIFE: f64 = 22.0;
const GRACE: f64 = 15.0;
const SLOT: f64 = 18.0;
const BAR: f64 = 13.0;
const GAP: f64 = 8.0;
/// How many workers are drawn before the others are only counted.
const WORKERS_SHOWN: usize = 8;
/// How many slots that nothing was in get a row.
const EMPTY_SLOTS_SHOWN: u8 = 8;
/// The width of the column of names in the words.
const NAMES: f64 = 84.0;

/// Where `tick` is on the time axis; what comes after the drill is at its end.
#[must_use]
pub fn x_of(tick: Tick) -> f64 {
    let share = f64::from(tick.0.min(Tick::END.0)) / f64::from(Tick::END.0);
    AXIS.0 + share * (AXIS.1 - AXIS.0)
}

/// The whole picture.
#[must_use]
pub fn layout(scenario: &Scenario, panels: &[Panel<'_>], words: &Words) -> Drawing {
    let mut page = Page { drawing: Drawing::default(), y: MARGIN };
    page.y += 16.0;
    page.label("title", (MARGIN, page.y), Anchor::Start, clip(&scenario.name, 60));
    page.y += LINE + 2.0;
    for line in wrap(&scenario.title, WIDTH - 2.0 * MARGIN) {
        page.label("quiet", (MARGIN, page.y), Anchor::Start, line);
        page.y += LINE;
    }
    for panel in panels {
        page.y += GAP;
        page.panel(scenario, panel);
    }
    page.y += GAP;
    page.legend();
    page.y += GAP + 4.0;
    for (name, text) in &words.facts {
        page.label("strong", (MARGIN, page.y), Anchor::Start, name.clone());
        for line in wrap(text, WIDTH - 2.0 * MARGIN - NAMES) {
            page.label("text", (MARGIN + NAMES, page.y), Anchor::Start, line);
            page.y += LINE;
        }
    }
    page.drawing.size = (WIDTH, (page.y - LINE + MARGIN).ceil());
    page.drawing
}

struct Page {
    drawing: Drawing,
    /// How far it is filled.
    y: f64,
}

impl Page {
    fn bar(&mut self, class: &'static str, (x, y): (f64, f64), (width, height): (f64, f64), title: String) {
        self.drawing.shapes.push(Shape { class, form: Form::Bar(x, y, width, height), title });
    }

    fn mark(&mut self, class: &'static str, x: f64, y: f64, title: String) {
        self.drawing.shapes.push(Shape { class, form: Form::Mark(x, y), title });
    }

    fn label(&mut self, class: &'static str, at: (f64, f64), anchor: Anchor, text: String) {
        self.drawing.labels.push(Label { class, at, anchor, text });
    }

    fn panel(&mut self, scenario: &Scenario, panel: &Panel<'_>) {
        self.axis(panel.heading);
        let begin = self.y;
        // The lines of the axis lie below everything else, and their length is known only afterwards.
        let place = self.drawing.shapes.len();
        for lane in panel.view.lanes.iter().take(WORKERS_SHOWN) {
            let grace = panel.view.grace.filter(|grace| grace.worker == lane.worker);
            self.lane(scenario, panel, lane, grace);
        }
        let hidden = panel.view.lanes.len().saturating_sub(WORKERS_SHOWN);
        if hidden > 0 {
            self.y += LINE - 4.0;
            self.label("quiet", (MARGIN, self.y), Anchor::Start, format!("{hidden} more workers are left out"));
            self.y += 6.0;
        }
        self.rejections(panel);
        let lines = (0..=60u32).step_by(10).map(|second| Shape {
            class: "grid",
            form: Form::Bar(x_of(Tick(second * 10)) - 0.5, begin, 1.0, self.y - begin),
            title: String::new(),
        });
        let lines: Vec<Shape> = lines.collect();
        self.drawing.shapes.splice(place..place, lines);
    }

    fn axis(&mut self, heading: &str) {
        self.y += 12.0;
        self.label("strong", (MARGIN, self.y), Anchor::Start, heading.to_owned());
        for second in (0..=60u32).step_by(10) {
            let text = if second == 60 { "60 s".to_owned() } else { second.to_string() };
            let anchor = match second {
                0 => Anchor::Start,
                60 => Anchor::End,
                _ => Anchor::Middle,
            };
            self.label("quiet", (x_of(Tick(second * 10)), self.y), anchor, text);
        }
        self.y += 6.0;
    }

    fn lane(&mut self, scenario: &Scenario, panel: &Panel<'_>, lane: &Lane, grace: Option<Grace>) {
        let known = panel.view.known_until;
        self.y += GAP / 2.0;
        let middle = self.y + LIFE / 2.0;
        self.label("strong", (MARGIN, middle + 4.0), Anchor::Start, lane.worker.to_string());
        let used = lane.slots.iter().map(|slot| slot.slot).max().unwrap_or(0);
        let rows = used.max(scenario.slots_per_worker.min(EMPTY_SLOTS_SHOWN));
        if let Some(grace) = grace {
            let height = LIFE + GRACE + f64::from(rows) * SLOT;
            let (from, to) = (x_of(grace.from), x_of(grace.deadline));
            self.bar("grace", (from, self.y), (to - from, height), String::new());
            self.bar("deadline", (to - 0.75, self.y), (1.5, height), format!("deadline at {} s", grace.deadline));
        }
        for phase in lane.phases.iter().filter(|phase| phase.alive) {
            let until = shown_until(phase.until, known);
            let (class, tall) = match phase.state {
                WorkerState::Starting => ("starting", 7.0),
                WorkerState::Draining => ("draining", 4.0),
                WorkerState::Orphaned => ("orphan", 2.0),
                _ => ("ready", 6.0),
            };
            let (from, to) = (x_of(phase.from), x_of(until));
            let title = format!("{} {} from {} s to {} s", lane.worker, phase.state.name(), phase.from, until);
            self.bar(class, (from, middle - tall / 2.0), ((to - from).max(0.0), tall), title);
        }
        self.marks(lane, middle);
        let own = |event: &Event| event.kind.worker() == Some(lane.worker) && event.kind.request().is_none();
        self.rings(panel, middle, own);
        self.y += LIFE;
        if let Some(grace) = grace {
            self.grace_row(grace);
        }
        for slot in 1..=rows {
            self.label("quiet", (MARGIN + 12.0, self.y + 12.0), Anchor::Start, format!("slot {slot}"));
            let invocations =
                lane.slots.iter().find(|other| other.slot == slot).map_or(&[][..], |slot| &slot.invocations);
            for invocation in invocations {
                self.invocation(invocation, known);
            }
            for invocation in invocations {
                self.ending(invocation, known);
            }
            let held = |event: &Event| {
                let is_held = |request| invocations.iter().any(|invocation| invocation.request == request);
                event.kind.worker() == Some(lane.worker) && event.kind.request().is_some_and(is_held)
            };
            self.rings(panel, self.y + 2.0 + BAR / 2.0, held);
            self.y += SLOT;
        }
    }

    /// What happened to a worker. Two marks of one tick stand side by side.
    fn marks(&mut self, lane: &Lane, middle: f64) {
        let mut last: Option<f64> = None;
        for mark in &lane.marks {
            let class = match mark.event {
                "worker_ready" => "mark-ready",
                "worker_failed" => "mark-failed",
                "sigterm_sent" => "mark-sigterm",
                "sigterm_skipped" => "mark-skipped",
                "sigkill_sent" => "mark-sigkill",
                "worker_orphaned" => "mark-orphaned",
                "worker_exited" | "orphan_exited" => "mark-exited",
                // What follows from them is to be seen in what comes after.
                _ => continue,
            };
            let mut x = x_of(mark.tick);
            if let Some(before) = last.filter(|before| x < before + 2.0 * MARK) {
                // A worker that is gone with its SIGKILL needs no mark of its own.
                if class == "mark-exited" {
                    continue;
                }
                x = before + 2.0 * MARK;
            }
            let x = x.clamp(AXIS.0, WIDTH - MARGIN - MARK + 4.0);
            last = Some(x);
            self.mark(class, x, middle, format!("{} s: {}", mark.tick, mark.text));
        }
    }

    /// Rings around what is not in the other trace; one where several are at one place.
    fn rings(&mut self, panel: &Panel<'_>, y: f64, wanted: impl Fn(&Event) -> bool) {
        let mut ticks: Vec<Tick> = panel.different.iter().filter(|event| wanted(event)).map(|event| event.t).collect();
        ticks.dedup();
        for tick in ticks {
            self.mark("mark-differs", x_of(tick), y, String::new());
        }
    }

    fn grace_row(&mut self, grace: Grace) {
        let length = Tick(grace.deadline.0 - grace.from.0);
        let seconds = length.to_string();
        let seconds = seconds.strip_suffix(".0").unwrap_or(&seconds);
        let (from, to) = (x_of(grace.from), x_of(grace.deadline));
        let y = self.y + 10.5;
        let long = format!("grace period {seconds} s");
        self.label("quiet", (MARGIN + 12.0, y), Anchor::Start, "grace".to_owned());
        let text = [long, format!("{seconds} s")].into_iter().find(|text| width_of(text) + 4.0 <= to - from);
        if let Some(text) = text {
            self.label("caution", ((from + to) / 2.0, y), Anchor::Middle, text);
        }
        self.y += GRACE;
    }

    fn invocation(&mut self, invocation: &Invocation, known: Tick) {
        let until = shown_until(invocation.until, known);
        let top = self.y + 2.0;
        let class = |stage: Stage| match stage {
            Stage::Prepare => "prepare",
            Stage::Model => "model",
            Stage::Tool => "tool",
        };
        let first = invocation.stages.first().map_or(until, |stage| stage.from);
        let mut spans = vec![("prepare", invocation.from, first.max(invocation.from))];
        spans.extend(
            invocation.stages.iter().map(|stage| (class(stage.stage), stage.from, shown_until(stage.until, until))),
        );
        for (class, from, to) in spans.into_iter().filter(|(_, from, to)| from < to) {
            self.bar(class, (x_of(from), top), (x_of(to) - x_of(from), BAR), String::new());
        }
        let (from, to) = (x_of(invocation.from), x_of(until));
        let class = match invocation.end {
            End::Committed => "frame",
            End::Killed => "frame-killed",
            End::Running => "frame-running",
        };
        self.bar(class, (from, top), ((to - from).max(0.0), BAR), told(invocation, known));
        let number = invocation.request.0.to_string();
        let first = invocation.stages.get(1).map_or(to, |stage| x_of(stage.from).min(to));
        if first - from >= width_of(&number) + MARK + 6.0 {
            self.label("number", (from + MARK + 3.0, top + 10.0), Anchor::Start, number);
        }
    }

    fn ending(&mut self, invocation: &Invocation, known: Tick) {
        let class = match invocation.end {
            End::Committed => "mark-committed",
            End::Killed => "mark-killed",
            End::Running => "mark-running",
        };
        let x = x_of(shown_until(invocation.until, known));
        self.mark(class, x, self.y + 2.0 + BAR / 2.0, told(invocation, known));
    }

    fn rejections(&mut self, panel: &Panel<'_>) {
        self.y += GAP / 2.0;
        let y = self.y + 9.0;
        self.label("quiet", (MARGIN, y + 4.0), Anchor::Start, "rejected".to_owned());
        for rejection in &panel.view.rejections {
            let title = format!("{} s: {} is rejected: {}", rejection.tick, rejection.request, rejection.reason);
            self.mark("mark-rejected", x_of(rejection.tick), y, title);
        }
        self.rings(panel, y, |event| matches!(event.kind, EventKind::RequestRejected { .. }));
        self.y += 18.0;
    }

    /// What the shapes mean: those that there are.
    fn legend(&mut self) {
        let known: [(&'static str, &str, bool); 20] = [
            ("starting", "boots", true),
            ("mark-ready", "ready", false),
            ("mark-failed", "fails to boot", false),
            ("ready", "serves", true),
            ("mark-sigterm", "SIGTERM", false),
            ("mark-skipped", "no SIGTERM, already gone", false),
            ("draining", "drains", true),
            ("deadline", "deadline", true),
            ("mark-sigkill", "SIGKILL", false),
            ("mark-exited", "exit", false),
            ("mark-orphaned", "orphaned", false),
            ("orphan", "lives on as an orphan", true),
            ("prepare", "prepare", true),
            ("model", "model", true),
            ("tool", "tool", true),
            ("mark-committed", "commit", false),
            ("mark-killed", "killed", false),
            ("mark-running", "still running", false),
            ("mark-rejected", "rejected", false),
            ("mark-differs", "differs", false),
        ];
        let drawn: std::collections::HashSet<&'static str> =
            self.drawing.shapes.iter().map(|shape| shape.class).collect();
        let mut x = AXIS.0;
        self.y += 12.0;
        for (class, words, is_bar) in known.into_iter().filter(|(class, ..)| drawn.contains(class)) {
            let width = 24.0 + width_of(words) + 12.0;
            if x + width > WIDTH - MARGIN {
                x = AXIS.0;
                self.y += LINE;
            }
            let tall = match class {
                "starting" => 7.0,
                "ready" => 6.0,
                "draining" => 4.0,
                "orphan" => 2.0,
                "deadline" => 14.0,
                _ => BAR,
            };
            let middle = self.y - 4.0;
            match is_bar {
                true if class == "deadline" => self.bar(class, (x + 8.0, middle - 7.0), (1.5, tall), String::new()),
                true => self.bar(class, (x, middle - tall / 2.0), (18.0, tall), String::new()),
                false => self.mark(class, x + 9.0, middle, String::new()),
            }
            self.label("quiet", (x + 24.0, self.y), Anchor::Start, words.to_owned());
            x += width;
        }
        self.y += LINE;
    }
}

fn shown_until(until: Tick, known: Tick) -> Tick {
    if until == OPEN { known } else { until.min(known) }
}

fn told(invocation: &Invocation, known: Tick) -> String {
    let from = format!("{} from {} s", invocation.request, invocation.from);
    match (invocation.end, invocation.sum) {
        (End::Committed, Some(sum)) => format!("{from}, commits {sum} at {} s", invocation.until),
        (End::Committed, None) => format!("{from}, committed at {} s", invocation.until),
        (End::Killed, _) => format!("{from}, killed at {} s", invocation.until),
        (End::Running, _) => format!("{from}, still running at {known} s"),
    }
}

/// How much room a text takes at most.
#[must_use]
pub fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

fn clip(text: &str, most: usize) -> String {
    crate::svg::clipped(text, most)
}

fn wrap(text: &str, room: f64) -> Vec<String> {
    let options =
        textwrap::Options::new((room / CHARACTER) as usize).word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::wrap(text, options).into_iter().map(std::borrow::Cow::into_owned).collect()
}
