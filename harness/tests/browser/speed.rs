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
/// How long what [`REFERENCE`] does takes where an edit and a frame may take what is below, in milliseconds.
const REFERENCE_MS: f64 = 5.0;
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

/// How many times slower than elsewhere the browser is with something that is always the same.
fn slowness(took_ms: &[f64], elsewhere_ms: f64) -> f64 {
    (median(took_ms) / elsewhere_ms).max(1.0)
}

/// What share of its time this machine had more to do than it could, while something was measured.
struct Pressure {
    began_ns: u64,
    waited_us: Option<u64>,
    stolen: Option<[u64; 2]>,
}

impl Pressure {
    fn begin() -> Pressure {
        Pressure { began_ns: clock::now_ns(), waited_us: waited_us(), stolen: stolen() }
    }

    /// Whether other programs, or other machines, took the processors. None does where the kernel does not tell.
    fn is_busy(&self) -> bool {
        self.is_stolen_from() || self.others_wait()
    }

    fn is_stolen_from(&self) -> bool {
        let (Some([stolen, all]), Some([stolen_now, all_now])) = (self.stolen, stolen()) else { return false };
        (stolen_now - stolen) * 100 > (all_now - all) * 10
    }

    fn others_wait(&self) -> bool {
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

/// How long the processors of this machine were at the disposal of others on the same host since it was started, and how
/// long they did anything or nothing, in the kernel's ticks (`proc_stat(5)`).
fn stolen() -> Option<[u64; 2]> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let times: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).filter_map(|time| time.parse().ok()).collect();
    // What is spent on guests counts as the host's user time already.
    Some([*times.get(7)?, times.iter().take(8).sum()])
}

/// How long until the browser paints what it has gone to, in milliseconds after it went there.
fn first_paint_of(page: &Page, go: impl Fn()) -> f64 {
    go();
    let paint = page.until_it(
        "the first paint",
        || page.value("performance.getEntriesByName('first-paint')[0]?.startTime ?? null").as_f64(),
        Option::is_some,
        String::new,
    );
    paint.unwrap()
}

/// What the browser takes on this machine at the same time for a page of a few lines of text counts, too: where that is
/// long, nothing of ours could be as quick as elsewhere. Of each the shortest time of seven counts, since a start is easily
/// held up by what has nothing to do with the page.
#[test]
fn first_paint() {
    let Some(page) = Page::open_alone("") else { return };
    let pressure = Pressure::begin();
    // A text has no icon of its own, and the browser asks for one.
    page.allow("favicon.ico");
    let [mut drill, mut text] = [f64::INFINITY; 2];
    for _ in 0..7 {
        drill = drill.min(first_paint_of(&page, || {
            page.go(&page.server.url);
            page.wait_drawn();
        }));
        text = text.min(first_paint_of(&page, || page.visit_file("start.js")));
    }
    let slowness = slowness(&[text], TEXT_PAINT_MS);
    pressure.report("first paint", &format!("{drill:.0} ms, where a text takes {text:.0} ms"));
    assert!(drill <= pressure.allows(FIRST_PAINT_MS * slowness), "{drill} ms, and {text} ms for a text");
}

/// Puts always the same into the page, has it laid out, and takes it away again; gives how long the first two took.
const REFERENCE: &str = r"
const reference = () => {
  const began = performance.now();
  const box = document.createElement('div');
  box.style.cssText = 'position: fixed; inset: 0; contain: strict; visibility: hidden';
  box.append(...Array.from({ length: 500 }, (_, number) => {
    const one = document.createElement('p');
    one.textContent = `line ${number}`;
    return one;
  }));
  document.body.append(box);
  box.lastChild.getBoundingClientRect();
  const took = performance.now() - began;
  box.remove();
  return took;
};";

/// Edits a field so many times, one after the other, and takes the time of each: from the edit until the page has drawn
/// all of it, which it measures itself, and until the frame after that has been shown; and that of the reference after it.
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
  times.push([drew, performance.now() - began, reference()]);
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
        let times: Vec<[f64; 3]> =
            Deserialize::deserialize(page.execute(&format!("{REFERENCE}{EDIT}"), &[json!(20)])).unwrap();
        let [drawn, shown, same] = [0, 1, 2].map(|part| times.iter().map(|time| time[part]).collect::<Vec<f64>>());
        pressure.report(
            &format!("an edit of {address}"),
            &format!(
                "drawn within {:.1} ms, in a frame within {:.1} ms, the reference within {:.1} ms (medians of 20)",
                median(&drawn),
                median(&shown),
                median(&same)
            ),
        );
        let slowness = slowness(&same, REFERENCE_MS);
        assert!(median(&drawn) <= pressure.allows(REDRAW_MS * slowness), "{drawn:?}, {same:?} for the reference");
    }
}

/// Looks at so many frames: when each began, how long it kept the page busy, from its beginning until all of it was laid
/// out and painted, and how long the reference took right after it, in milliseconds.
const FRAMES: &str = r"
const [frames] = arguments;
return new Promise((done) => {
  const seen = [];
  const look = (began) => {
    const called = performance.now();
    const channel = new MessageChannel();
    // A task of its own comes after the frame.
    channel.port1.onmessage = () => {
      seen.push([began, performance.now() - called, reference()]);
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
    let look = || -> Vec<[f64; 3]> {
        Deserialize::deserialize(page.execute(&format!("{REFERENCE}{FRAMES}"), &[json!(60)])).unwrap()
    };
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
        let gaps: Vec<f64> = frames.windows(2).map(|pair| pair[1][0] - pair[0][0]).collect();
        let [work, same] = [1, 2].map(|part| frames.iter().map(|frame| frame[part]).collect::<Vec<f64>>());
        let per_second = 1000.0 * f64::from(u32::try_from(gaps.len()).unwrap()) / gaps.iter().sum::<f64>();
        pressure.report(
            &format!("64 workers at {speed}×"),
            &format!(
                "{per_second:.0} frames a second, a frame keeps the page busy for {:.1} ms, the reference for {:.1} ms \
                 (medians)",
                median(&work),
                median(&same)
            ),
        );
        let slowness = slowness(&same, REFERENCE_MS);
        assert!(median(&work) <= pressure.allows(FRAME_MS * slowness), "{work:?}, {same:?} for the reference");
        assert!(median(&gaps) <= pressure.allows(FRAME_MS * slowness), "{gaps:?}, {same:?} for the reference");
    }
}
