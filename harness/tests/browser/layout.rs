//! Screens: a phone, light and dark, and what the page may load and run.

use serde_json::{Value, json};

use crate::{page::Page, support::Draws};

/// How much wider than the screen the page is, in pixels, and which elements stick out. What scrolls in itself may hold
/// more than fits.
const WIDER: &str = r"
const page = document.scrollingElement;
const hidden = (one) => one.closest('.unseen, .defs, .lanes, .scroll, .scroll-x, pre');
const out = [...document.body.querySelectorAll('*')].filter((one) => !hidden(one) && one.getBoundingClientRect().right > page.clientWidth + 0.5);
return [page.scrollWidth - page.clientWidth, out.map((one) => one.outerHTML.slice(0, 120))];";

pub(crate) fn assert_narrow(page: &Page, what: &str) {
    assert_eq!(page.execute(WIDER, &[]), json!([0, []]), "{what}");
}

#[test]
fn on_a_phone_nothing_but_the_lanes_scrolls_sideways() {
    let Some(page) = Page::open("") else { return };
    page.emulate_phone(360);
    let many = "initial_workers=64&slots_per_worker=64&request_interval_s=0.1&invocation_s=5.5&at=35";
    let orphan = "pid_namespace=false&entrypoint=script&boot_replacement=true&at=40";
    let list = "entrypoint=[\"/a/very/long/path/without/any/space/to/break/it/anywhere/on/a/phone\",\"{worker}\"]&expected_effect=terminated&at=60";
    for address in ["name=ignored-signal", many, orphan, list, "name=baseline&request_interval_s=0.1&at=60"] {
        page.visit(address);
        assert_narrow(&page, address);
        let wide =
            page.value("document.getElementById('lanes').scrollWidth - document.getElementById('lanes').clientWidth");
        assert!(wide.as_i64().unwrap() > 0, "{address}: the lanes don't scroll");
        page.execute("for (const one of document.querySelectorAll('details')) one.open = true;", &[]);
        page.until_it("the words", || page.text("#lanes-table"), |text| !text.is_empty(), String::new);
        assert_narrow(&page, &format!("{address}, all unfolded"));
    }
    page.execute("document.getElementById('keys-button').click();", &[]);
    assert_narrow(&page, "the keys");
    // For those who have their letters twice as large.
    page.execute("document.documentElement.style.fontSize = '32px';", &[]);
    assert_narrow(&page, "large letters");
    page.execute("document.documentElement.style.fontSize = '';", &[]);
    // A long name of everything.
    let mut draws = Draws(7);
    let long: String = (0..300).map(|_| char::from(b'a' + u8::try_from(draws.below(26)).unwrap())).collect();
    page.visit(&format!("name={long}&title={long}&why={long}"));
    page.until("the title", long, || page.text("#scenario-title"));
    assert_narrow(&page, "long names");
}

/// What would be cut off on paper, where nothing scrolls, and what could be pressed there.
const CUT: &str = r"
const shown = [...document.body.querySelectorAll('*')].filter((one) => one.checkVisibility());
const cut = (one) => getComputedStyle(one).overflow !== 'visible' && (one.scrollHeight > one.clientHeight + 1 || one.scrollWidth > one.clientWidth + 1);
const form = (one) => one.closest('.unseen, #experiment, select, input, textarea') !== null;
const pressed = (one) => one.matches('button:not(.lane-name)') || one.matches('.playhead, .curtain');
return shown.filter((one) => !form(one) && (cut(one) || pressed(one))).map((one) => one.outerHTML.slice(0, 120));";

#[test]
fn on_paper_all_is_there_that_was_on_the_screen() {
    let Some(page) = Page::open("") else { return };
    page.visit("name=my-experiment&initial_workers=12&slots_per_worker=16&request_interval_s=0.1&invocation_s=5&at=60");
    page.execute("document.getElementById('inspector-json-details').open = true;", &[]);
    assert_ne!(page.execute(CUT, &[]), json!([]), "on the screen it scrolls");
    page.devtools("Emulation.setEmulatedMedia", &json!({ "media": "print" }));
    page.until("nothing is cut off", json!([]), || page.execute(CUT, &[]));
    let dark = json!([{ "name": "prefers-color-scheme", "value": "dark" }]);
    page.devtools("Emulation.setEmulatedMedia", &json!({ "media": "print", "features": dark }));
    let ground = "getComputedStyle(document.documentElement).getPropertyValue('--surface')";
    page.until("paper is light", json!("#ffffff"), || page.value(ground));
    page.devtools("Emulation.setEmulatedMedia", &json!({ "media": "", "features": [] }));
}

#[test]
fn light_and_dark() {
    let Some(page) = Page::open("") else { return };
    let brightness = |scheme: &str| {
        page.emulate_media(&[("prefers-color-scheme", scheme)]);
        let colour =
            page.value("getComputedStyle(document.documentElement).backgroundColor.match(/[0-9.]+/g).map(Number)");
        colour.as_array().unwrap().iter().take(3).filter_map(Value::as_f64).sum::<f64>() / 3.0
    };
    let (light, dark) = (brightness("light"), brightness("dark"));
    assert!(light > 200.0 && dark < 60.0, "{light} {dark}");
    // The marks are drawn from symbols, which take their colours from the same place.
    let fill = "getComputedStyle(document.querySelector('.lane .life.ready')).fill";
    let dark_fill = page.value(fill);
    brightness("light");
    assert_ne!(page.value(fill), dark_fill);
}

#[test]
fn no_script_but_the_pages_own_is_run() {
    let Some(page) = Page::open("") else { return };
    let foreign = "performance.getEntriesByType('resource').map((one) => one.name).filter((name) => !name.startsWith(location.origin))";
    assert_eq!(page.value(foreign), json!([]));
    // What is seen here is what every other test would fail of: the console is really looked at.
    page.execute(
        "const script = document.createElement('script');
         script.textContent = 'window.was_run = true';
         document.body.append(script);
         const frame = document.createElement('iframe');
         frame.src = 'https://example.org/';
         document.body.append(frame);",
        &[],
    );
    let mut said = Vec::new();
    page.until("both refused", true, || {
        said.extend(page.console().into_iter().map(|line| line.message));
        ["inline script", "frame"]
            .iter()
            .all(|what| said.iter().any(|line| line.contains("Content Security Policy") && line.contains(what)))
    });
    assert!(page.is("window.was_run === undefined"));
}
