//! Time: the lesson's opening numbers at their times, playing, and every way to move.

use scenarios::{Tick, catalogue};
use serde_json::{Value, json};

use crate::{
    expected::{self, Shown},
    page::Page,
    webdriver::key,
};

/// What the page shows of the opening settings at `tick`.
fn opening(tick: u32) -> Shown {
    expected::shown(catalogue::get("ignored-signal").unwrap(), tick)
}

#[test]
fn the_opening_numbers_of_the_lesson() {
    let Some(page) = Page::open("") else { return };
    assert_eq!(page.texts("#end-arrivals, #end-admitted, #end-completed, #end-killed"), ["20", "8", "4", "4"]);
    assert_eq!(page.text("#end-rejected"), "12 (60.0 %)");
    assert_eq!(page.text("#gate"), "gate: FAIL");
    for (time, wanted) in [
        ("31", &["request-6 commits the sum 9 on worker-1", "request-16 is admitted to worker-1, slot 4"][..]),
        (
            "40",
            &[
                "SIGKILL is sent to worker-1",
                "request-13 is killed",
                "request-14 is killed",
                "request-15 is killed",
                "request-16 is killed",
            ],
        ),
    ] {
        page.visit(&format!("at={time}"));
        page.wait_tick("the time of the address", time.parse::<u64>().unwrap() * 10);
        let said = page.texts(&format!("#decisions li[data-tick='{time}0'] .decision-text"));
        for line in wanted {
            assert!(said.iter().any(|text| text.starts_with(line)), "{time} s: {line:?} is not in {said:?}");
        }
    }
    page.wait_shown("40 s", &opening(400));
}

#[test]
fn at_every_time_the_page_shows_the_trace_folded_up_to_it() {
    let Some(page) = Page::open("") else { return };
    let scenario = expected::scenario(&[
        "initial_workers=2",
        "request_interval_s=0.7",
        "on_sigterm=drain",
        "boot_replacement=true",
    ]);
    let address = "initial_workers=2&request_interval_s=0.7&on_sigterm=drain&boot_replacement=true";
    for tick in [0, 10, 40, 41, 107, 299, 300, 301, 333, 399, 400, 513, 600] {
        page.visit(&format!("{address}&at={}", Tick(tick).seconds()));
        page.wait_shown(&format!("tick {tick}"), &expected::shown(&scenario, tick));
    }
}

#[test]
fn buttons_and_slider_move_in_time() {
    let Some(page) = Page::open("") else { return };
    for (button, tick) in [
        ("#step-second", 10),
        ("#step-tick", 11),
        ("#step-second", 21),
        ("#step-back", 11),
        ("#step-back", 1),
        ("#step-back", 0),
        ("#step-second", 10),
        ("#restart", 0),
    ] {
        page.click(button);
        page.wait_shown(button, &opening(tick));
    }
    // The middle of the slider is the middle of the drill.
    page.click("#time-slider");
    let near = page.until_it("a click into the slider", || page.tick(), |tick| tick.abs_diff(300) < 5, String::new);
    let near = u32::try_from(near).unwrap();
    page.wait_shown("a click into the slider", &opening(near));
    assert_eq!(page.text("#time-output"), expected::seconds(Tick(near)));
    page.press(&[key::RIGHT, key::RIGHT, key::LEFT, key::RIGHT]);
    page.wait_shown("arrow keys in the slider", &opening(near + 2));
    page.press(&[key::END]);
    page.wait_shown("End in the slider", &opening(600));
    page.press(&[key::HOME]);
    page.wait_shown("Home in the slider", &opening(0));
}

#[test]
fn keys_move_in_time() {
    let Some(page) = Page::open("") else { return };
    let steps: &[(&[char], u32)] = &[
        (&[key::RIGHT; 31], 310),
        (&[key::LEFT], 300),
        (&['.', '.', '.'], 303),
        (&[','], 302),
        (&['r'], 0),
        (&[key::END], 600),
        (&[key::HOME], 0),
    ];
    for (keys, tick) in steps {
        page.press_outside(keys);
        page.wait_shown(&format!("{keys:?}"), &opening(*tick));
    }
    page.press_outside(&['?']);
    page.until("the help", true, || page.is("document.getElementById('keys-help').checkVisibility()"));
    // Who can't use keys of one character can turn them off.
    page.click("#keys-enabled");
    page.press_outside(&[key::RIGHT, '?']);
    page.click("#keys-enabled");
    page.press_outside(&['.']);
    page.wait_tick("keys that are off do nothing", 1);
    page.press_outside(&['?']);
    page.until("the help", false, || page.is("document.getElementById('keys-help').checkVisibility()"));
    page.press_outside(&['d', 's', 'u', 'm']);
    page.until("the search", "sum".to_owned(), || {
        page.value("document.activeElement.value").as_str().unwrap_or_default().to_owned()
    });
    page.wait_tick("a key that was typed into a control", 1);
}

/// Ticks as they are shown in some frames after a click, if one is asked for, and when those were, in milliseconds. All
/// callbacks of one frame are told the same moment, so nothing that delays them matters.
const SAMPLE: &str = r"
const [frames, first] = arguments;
if (first) document.getElementById(first).click();
return new Promise((done) => {
  const seen = [];
  const look = (now) => {
    seen.push([now, Number(document.getElementById('time-slider').value)]);
    if (seen.length < frames) requestAnimationFrame(look);
    else done(seen);
  };
  requestAnimationFrame(look);
});";

/// Moments in milliseconds and ticks of so many frames.
pub(crate) fn sample(page: &Page, frames: u32) -> Vec<(f64, f64)> {
    sample_after(page, None, frames)
}

/// The same from a click on: what takes a few seconds is not over before anybody looks.
fn sample_after(page: &Page, click: Option<&str>, frames: u32) -> Vec<(f64, f64)> {
    let samples = page.execute(SAMPLE, &[json!(frames), json!(click)]);
    let pair = |sample: &Value| (sample[0].as_f64().unwrap(), sample[1].as_f64().unwrap());
    samples.as_array().unwrap().iter().map(pair).collect()
}

/// How many ticks pass in a real second.
fn pace(samples: &[(f64, f64)]) -> f64 {
    let ((began, from), (ended, until)) = (samples[0], samples[samples.len() - 1]);
    (until - from) / (ended - began) * 1000.0
}

#[test]
fn play_pause_and_speed() {
    let Some(page) = Page::open("") else { return };
    page.click("#play");
    page.until_it("it plays", || page.tick(), |tick| *tick > 5, String::new);
    assert_eq!(page.text("#play"), "Pause");
    page.click("#play");
    page.until("paused", "Play".to_owned(), || page.text("#play"));
    let paused = sample(&page, 10);
    assert!(paused.iter().all(|(_, tick)| *tick == paused[0].1), "{paused:?}");

    for (speed, ticks_per_second) in [("2", 20.0), ("20", 200.0)] {
        page.choose("#play-speed", speed);
        page.press_outside(&[key::HOME]);
        page.wait_tick("the start", 0);
        let samples = sample_after(&page, Some("play"), 20);
        let (pace, length) = (pace(&samples), samples[19].0 - samples[0].0);
        // What is shown is a whole tick, so both ends can be almost one off.
        assert!(
            (pace - ticks_per_second).abs() <= 2.0 / length * 1000.0,
            "{speed}×: {pace} ticks a second: {samples:?}"
        );
        page.press_outside(&[' ']);
        page.until("paused", "Play".to_owned(), || page.text("#play"));
    }
    page.press_outside(&['-', '-', '-', '+']);
    page.until("slower, slower, slower, faster", json!("5"), || {
        page.value("document.getElementById('play-speed').value")
    });

    // It stops at the end, and begins anew from there.
    page.choose("#play-speed", "20");
    page.visit("at=58");
    page.wait_tick("the time of the address", 580);
    page.press_outside(&[' ']);
    page.wait_shown("the end", &opening(600));
    page.until("it stops", "Play".to_owned(), || page.text("#play"));
    page.press_outside(&[' ']);
    page.until_it("from the beginning", || page.tick(), |tick| *tick < 600, String::new);
    // Any step pauses.
    page.press_outside(&['.']);
    page.until("paused", "Play".to_owned(), || page.text("#play"));
}

#[test]
fn where_motion_is_to_be_reduced_time_moves_in_whole_seconds() {
    let Some(page) = Page::open("") else { return };
    page.emulate_media(&[("prefers-reduced-motion", "reduce")]);
    page.press_outside(&[' ']);
    let seen =
        page.until_it("it plays", || sample(&page, 12), |seen| seen[11].1 > seen[0].1 && seen[0].1 > 0.0, String::new);
    assert!(seen.iter().all(|(_, tick)| tick % 10.0 == 0.0), "{seen:?}");
    page.press_outside(&[' ']);
    assert!(
        page.is("[...document.querySelectorAll('*')].every((one) => getComputedStyle(one).animationName === 'none')")
    );
}

#[test]
fn a_click_into_the_slider_while_it_plays_goes_there() {
    let Some(page) = Page::open("") else { return };
    page.press_outside(&[' ']);
    page.until_it("it plays", || page.tick(), |tick| *tick > 0, String::new);
    page.click("#time-slider");
    page.until("paused", "Play".to_owned(), || page.text("#play"));
    assert!(page.tick().abs_diff(300) < 5, "{}", page.tick());
    let near = page.tick();
    sample(&page, 10);
    assert_eq!(page.tick(), near);
}

/// The live regions of the page, as the browser tells assistive technology of them (WAI-ARIA 1.2, `aria-live`).
#[test]
fn time_that_moves_is_not_read_out() {
    let Some(page) = Page::open("") else { return };
    let tree = page.devtools("Accessibility.getFullAXTree", &json!({}));
    let is = |node: &Value, name: &str, value: &str| {
        node["properties"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|one| one["name"] == name && one["value"]["value"] == value)
    };
    let live: Vec<&Value> =
        tree["nodes"].as_array().unwrap().iter().filter(|node| is(node, "live", "polite")).collect();
    assert!(!live.is_empty(), "there are some");
    let own = page.devtools("DOM.getDocument", &json!({}));
    let node =
        page.devtools("DOM.querySelector", &json!({ "nodeId": own["root"]["nodeId"], "selector": "#time-output" }));
    let node = page.devtools("DOM.describeNode", &json!({ "nodeId": node["nodeId"] }));
    let number = &node["node"]["backendNodeId"];
    assert!(number.is_u64());
    assert!(live.iter().all(|one| one["backendDOMNodeId"] != *number), "{live:?}");
}
