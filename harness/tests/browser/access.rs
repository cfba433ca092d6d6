//! The page without a mouse and without a screen.

use std::{env, fs, path::PathBuf};

use serde::Deserialize;
use serde_json::json;

use crate::{page::Page, runs::MATCHED, support::skipped, webdriver::key};

/// The checker: AXE_CORE, or where `.ci/run` puts it.
pub(crate) fn axe() -> Option<String> {
    let usual = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../axe-core/node_modules/axe-core/axe.min.js");
    let path = env::var_os("AXE_CORE").map_or(usual, PathBuf::from);
    let script = fs::read_to_string(&path).ok();
    if script.is_none() {
        skipped(&format!("there is no axe-core at {}; .ci/run puts it there with npm", path.display()));
    }
    script
}

/// What axe-core finds that is serious or critical: the rule, what is wrong, and where.
pub(crate) fn findings(page: &Page, axe: &str) -> Vec<String> {
    if !page.is("window.axe !== undefined") {
        page.execute(axe, &[]);
    }
    let found = page.execute(
        "return axe.run(document, { resultTypes: ['violations'] }).then(({ violations, passes }) => {
            const said = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
                .flatMap(({ id, help, nodes }) => nodes.map((node) => `${id}: ${help}: ${node.html.slice(0, 160)} ${node.failureSummary}`));
            return [passes.length, said];
        });",
        &[],
    );
    let (rules, found): (usize, Vec<String>) = Deserialize::deserialize(found).unwrap();
    assert!(rules > 15, "only {rules} rules had anything to look at");
    found
}

#[test]
fn axe_finds_nothing_serious() {
    let Some(axe) = axe() else { return };
    let Some(page) = Page::open("") else { return };
    let check = |what: &str| assert_eq!(findings(&page, &axe), Vec::<String>::new(), "{what}");
    // It finds something where there is something.
    page.execute("document.getElementById('play').textContent = ''; document.getElementById('play').title = '';", &[]);
    assert!(findings(&page, &axe).iter().any(|one| one.starts_with("button-name")));
    page.reload();
    page.wait_drawn();

    check("the beginning");
    page.execute("for (const one of document.querySelectorAll('details')) one.open = true; document.getElementById('keys-button').click();", &[]);
    check("all unfolded");
    for scheme in ["dark", "light"] {
        page.emulate_media(&[("prefers-color-scheme", scheme)]);
        page.visit("name=my-experiment&initial_workers=2&boot_replacement=true&at=35");
        page.press_outside(&[' ']);
        page.until("it plays", "Pause".to_owned(), || page.text("#play"));
        check(&format!("playing, {scheme}"));
        page.press_outside(&[' ']);
        page.type_into("#field-grace_period_s", "99");
        page.until_it("a problem", || page.problem("grace_period_s"), |said| !said.is_empty(), String::new);
        check(&format!("a problem, {scheme}"));
    }
    page.visit("name=my-experiment");
    page.choose("#run-clock", "stepped");
    page.click("#run-start");
    page.until("the verdict", "verdict: MATCHED".to_owned(), || page.text("#verdict"));
    page.execute("for (const one of document.querySelectorAll('details')) one.open = true;", &[]);
    for scheme in ["light", "dark"] {
        page.emulate_media(&[("prefers-color-scheme", scheme)]);
        check(&format!("after a run, {scheme}"));
    }
    page.emulate_phone(360);
    check("a phone, dark");
}

/// What the tab key is to reach, in the order of the document: what can have the focus, is to be seen and is not disabled;
/// one of several radio buttons, the one that is chosen. Each is marked with its place.
const STOPS: &str = r"
const can = 'a[href], button, input, select, textarea, summary, [tabindex]';
const stops = [...document.querySelectorAll(can)].filter((one) =>
  one.tabIndex >= 0 && !one.disabled && one.checkVisibility({ visibilityProperty: true })
  && (one.type !== 'radio' || one.checked));
stops.forEach((one, place) => (one.dataset.place = place));
return stops.map((one) => one.id || one.getAttribute('aria-label') || one.textContent.slice(0, 30));";

/// The place of what has the focus, and whether that is to be seen: by an outline of its own or of what stands for it.
const FOCUS: &str = r"
const one = document.activeElement;
if (one === document.body) return [null, false];
const outlined = (node) => node !== null && getComputedStyle(node).outlineStyle !== 'none' && parseFloat(getComputedStyle(node).outlineWidth) >= 2;
const box = one.getBoundingClientRect();
const inSight = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
return [Number(one.dataset.place), inSight && (outlined(one) || (one.matches('.segments input') && outlined(one.nextElementSibling)))];";

#[test]
fn the_tab_key_leads_through_everything_and_out_again() {
    let Some(page) = Page::open("name=my-experiment&initial_workers=3&at=31") else { return };
    page.choose("#run-clock", "stepped");
    page.click("#run-start");
    page.until("the verdict", "verdict: MATCHED".to_owned(), || page.text("#verdict"));
    page.until("the run is listed", 1, || page.count(MATCHED));
    page.execute("for (const one of document.querySelectorAll('details')) one.open = true;", &[]);
    page.until_it("the words", || page.text("#lanes-table"), |text| !text.is_empty(), String::new);
    let stops: Vec<String> = Deserialize::deserialize(page.execute(STOPS, &[])).unwrap();
    for id in
        ["play", "time-slider", "lanes", "run-start", "decisions-box", "field-entrypoint", "preset", "source-observed"]
    {
        assert!(stops.iter().any(|stop| stop == id), "{id} is not among {stops:?}");
    }
    let focus = || -> (Option<usize>, bool) { Deserialize::deserialize(page.execute(FOCUS, &[])).unwrap() };
    page.execute("document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0);", &[]);
    // From the start of the document, where the sequential focus navigation starts after a click there.
    page.click("h1");
    // The link that skips all before the lanes comes before the heading: it is the way back that reaches it.
    page.chord(&[key::SHIFT], &[key::TAB]);
    for (place, stop) in stops.iter().enumerate() {
        assert_eq!(focus(), (Some(place), true), "{stop}: {stops:?}");
        page.press(&[key::TAB]);
    }
    // Out of the page, or from its end to its beginning: never held by one of its parts.
    assert!(matches!(focus(), (None | Some(0), _)), "{:?}", focus());
    for place in (0..stops.len()).rev() {
        page.chord(&[key::SHIFT], &[key::TAB]);
        assert_eq!(focus(), (Some(place), true), "backwards: {}", stops[place]);
    }
    // The first of all leads to the lanes.
    page.press(&[key::ENTER, key::TAB]);
    page.until("skipped", true, || page.is("document.activeElement.closest('#lanes, .lanes-card') !== null"));
}

#[test]
fn decisions_are_told_to_screen_readers() {
    let Some(page) = Page::open("at=30") else { return };
    assert_eq!(page.text("#announcer"), "");
    assert!(page.is("document.getElementById('announcer').ariaLive === 'polite'"));
    page.press_outside(&[key::RIGHT]);
    let said = || page.texts("#announcer p");
    page.until(
        "one step",
        vec![
            "31.0 s: request-6 commits the sum 9 on worker-1".to_owned(),
            "31.0 s: request-16 is admitted to worker-1, slot 4".to_owned(),
        ],
        said,
    );
    // Of much only the last is read out, and how much it was.
    page.press_outside(&[key::RIGHT; 10]);
    page.until_it("many steps", said, |said| said.last().is_some_and(|last| last.starts_with("40.0 s: ")), String::new);
    // What is stepped back over is no news.
    let before = said();
    page.press_outside(&[key::LEFT; 5]);
    page.wait_tick("back", 360);
    assert_eq!(said(), before);
    assert_eq!(page.execute("return [...document.querySelectorAll('svg[role=img]')].filter((one) => !one.getAttribute('aria-label')).length;", &[]), json!(0));
}
