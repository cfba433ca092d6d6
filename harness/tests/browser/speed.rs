//! How fast the page is: first paint, an edit, and playing a big trace. Each test prints what it measured.

use std::fs;

use serde::Deserialize;
use serde_json::json;
use worker::clock;

use crate::{page::Page, webdriver::key};

/// How long the first paint on loopback may take, in milliseconds.
const FIRST_PAINT_MS: f64 = 100.0;
/// How long the first paint of a text of a few lines takes where that of the page takes at most [`FIRST_PAINT_MS`], in
/// milliseconds.
const TEXT_PAINT_MS: f64 = 40.0;
/// How long it may take from an edit until all is drawn anew, in milliseconds.
const REDRAW_MS: f64 = 50.0;
/// How long a frame may take that is one of 30 in a second, in milliseconds.
const FRAME_MS: f64 = 1000.0 / 30.0;

/// The middle one.
fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// What share of its time this machine had more to do than it could, while something was measured.
struct Pressure {
    began_ns: u64,
    waited_us: Option<u64>,
}

impl Pressure {
    fn begin() -> Pressure {
        Pressure { began_ns: clock::now_ns(), waited_us: waited_us() }
    }

    /// Whether other programs took the processors. None does where the kernel does not tell.
    fn is_busy(&self) -> bool {
        let (Some(before), Some(now)) = (self.waited_us, waited_us()) else { return false };
        let share = (now - before) * 1000 * 100 / (clock::now_ns() - self.began_ns);
        share > 60
    }

    /// What may be asked for: on a busy machine much of the time is that of others, and less is, but not nothing.
    fn allows(&self, ms: f64) -> f64 {
        if self.is_busy() { ms * 6.0 } else { ms }
    }

    #[expect(clippy::print_stdout, reason = "a person who runs the tests wants to know")]
    fn report(&self, what: &str, measured: &str) {
        println!("{what}: {measured}, on a machine that is {}", if self.is_busy() { "busy" } else { "not busy" });
    }
}

/// For how long some process or other has had to wait for a processor, since the machine was started
/// (Documentation/accounting/psi.rst).
fn waited_us() -> Option<u64> {
    let pressure = fs::read_to_string("/proc/pressure/cpu").ok()?;
    pressure.lines().next()?.split_once("total=")?.1.trim().parse().ok()
}

/// How long until the browser paints what it has gone to, in milliseconds after it went there: the shortest time of
/// seven, since a start is easily held up by what has nothing to do with the page.
fn shortest_first_paint(page: &Page, go: impl Fn()) -> f64 {
    let paints: Vec<f64> = (0..7)
        .map(|_| {
            go();
            let paint = page.until_it(
                "the first paint",
                || page.value("performance.getEntriesByName('first-paint')[0]?.startTime ?? null").as_f64(),
                Option::is_some,
                String::new,
            );
            paint.unwrap()
        })
        .collect();
    paints.into_iter().fold(f64::INFINITY, f64::min)
}

/// What the browser takes on this machine for a page of a few lines of text counts, too: where that is long, nothing of
/// ours could be as quick as elsewhere.
#[test]
fn first_paint() {
    let Some(page) = Page::open_alone("") else { return };
    let pressure = Pressure::begin();
    let drill = shortest_first_paint(&page, || {
        page.reload();
        page.wait_drawn();
    });
    // A text has no icon of its own, and the browser asks for one.
    page.allow("favicon.ico");
    let text = shortest_first_paint(&page, || page.visit_file("start.js"));
    let slowness = (text / TEXT_PAINT_MS).max(1.0);
    pressure.report("first paint", &format!("{drill:.0} ms, where a text takes {text:.0} ms"));
    assert!(drill <= pressure.allows(FIRST_PAINT_MS * slowness), "{drill} ms, and {text} ms for a text");
}

/// Edits a field so many times, one after the other, and takes the time of each: from the edit until the page has drawn
/// all of it, which it measures itself, and until the frame after that has been shown.
const EDIT: &str = r"
const [edits] = arguments;
const input = document.getElementById('field-request_interval_s');
const framed = () => new Promise((done) => requestAnimationFrame(() => { const channel = new MessageChannel(); channel.port1.onmessage = done; channel.port2.postMessage(0); }));
const measured = () => new Promise((done) => new PerformanceObserver((list, observer) => { observer.disconnect(); done(list.getEntriesByName('edit')[0].duration); }).observe({ entryTypes: ['measure'] }));
const times = [];
const edit = async (count) => {
  const began = performance.now();
  const drawn = measured();
  input.value = String((count % 9) + 1);
  input.dispatchEvent(new Event('input', { bubbles: true }));
  const drew = await drawn;
  const arrivals = document.getElementById('end-arrivals').textContent;
  if (Number(arrivals) !== Math.floor(39 / Number(input.value)) + 1) throw new Error(`${arrivals} arrivals each ${input.value} s`);
  await framed();
  times.push([drew, performance.now() - began]);
  if (count < edits) return edit(count + 1);
  return times;
};
return edit(1);";

#[test]
fn an_edit_is_drawn_at_once() {
    let Some(page) = Page::open_alone("name=my-experiment&initial_workers=3") else { return };
    for address in ["name=my-experiment", "name=my-experiment&initial_workers=64&slots_per_worker=64"] {
        page.visit(address);
        let pressure = Pressure::begin();
        let times: Vec<(f64, f64)> = Deserialize::deserialize(page.execute(EDIT, &[json!(20)])).unwrap();
        let (drawn, shown): (Vec<f64>, Vec<f64>) = times.into_iter().unzip();
        pressure.report(
            &format!("an edit of {address}"),
            &format!(
                "drawn within {:.1} ms, in a frame within {:.1} ms (medians of 20)",
                median(&drawn),
                median(&shown)
            ),
        );
        assert!(median(&drawn) <= pressure.allows(REDRAW_MS), "{drawn:?}");
    }
}

/// Looks at so many frames: when each began, and how long it kept the page busy, from its beginning until all of it was
/// laid out and painted, in milliseconds.
const FRAMES: &str = r"
const [frames] = arguments;
return new Promise((done) => {
  const seen = [];
  const look = (began) => {
    const called = performance.now();
    const channel = new MessageChannel();
    // A task of its own comes after the frame.
    channel.port1.onmessage = () => {
      seen.push([began, performance.now() - called]);
      if (seen.length === frames) done(seen);
    };
    channel.port2.postMessage(0);
    if (seen.length < frames) requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
});";

#[test]
fn a_trace_of_64_workers_plays_smoothly() {
    let big = "name=my-experiment&initial_workers=64&slots_per_worker=64&request_interval_s=0.1&invocation_s=20";
    let Some(page) = Page::open_alone(&format!("{big}&at=5")) else { return };
    let look = || -> Vec<(f64, f64)> { Deserialize::deserialize(page.execute(FRAMES, &[json!(60)])).unwrap() };
    for speed in ["1", "10"] {
        page.visit(&format!("{big}&at=5"));
        page.wait_tick("the time of the address", 50);
        page.choose("#play-speed", speed);
        page.press_outside(&[' ']);
        page.until_it("it plays", || page.tick(), |tick| *tick > 55, String::new);
        let pressure = Pressure::begin();
        let frames = look();
        assert_eq!(page.text("#play"), "Pause", "it plays to the end of what is measured");
        page.press_outside(&[' ', key::HOME]);
        let gaps: Vec<f64> = frames.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        let work: Vec<f64> = frames.iter().map(|frame| frame.1).collect();
        let per_second = 1000.0 * f64::from(u32::try_from(gaps.len()).unwrap()) / gaps.iter().sum::<f64>();
        pressure.report(
            &format!("64 workers at {speed}×"),
            &format!(
                "{per_second:.0} frames a second, a frame keeps the page busy for {:.1} ms (median)",
                median(&work)
            ),
        );
        assert!(median(&work) <= pressure.allows(FRAME_MS), "{work:?}");
        assert!(median(&gaps) <= pressure.allows(FRAME_MS), "{gaps:?}");
    }
}
