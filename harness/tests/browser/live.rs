//! A run that goes on while somebody looks at something else: an earlier time, another experiment, another tab.

use serde_json::json;

use crate::{expected, page::Page, time::sample, webdriver::key};

/// Much happens in it, so that much is listed soon.
const BUSY: &str = "name=my-experiment&request_interval_s=0.5";

fn verdict(page: &Page) -> String {
    page.text("#verdict")
}

/// How far the run is known, in ticks.
fn known(page: &Page) -> u64 {
    page.value("document.getElementById('run-progress').value").as_u64().unwrap()
}

fn start(page: &Page, speed: &str) {
    page.choose("#run-speed", speed);
    page.click("#run-start");
    page.until_it("it goes on", || (verdict(page), known(page)), |seen| seen.0 == "running" && seen.1 > 0, String::new);
}

/// Waits until the run is known so much further.
fn wait_further(page: &Page, ticks: u64) {
    let before = known(page);
    page.until_it("it goes on", || known(page), |now| *now >= before + ticks, String::new);
}

#[test]
fn time_can_be_paused_and_stepped_while_a_run_goes_on() {
    let Some(page) = Page::open(BUSY) else { return };
    page.choose("#decision-kind", "*");
    start(&page, "5");
    let height =
        "document.getElementById('decisions-box').scrollHeight - document.getElementById('decisions-box').clientHeight";
    page.until_it("a list that scrolls", || page.value(height).as_i64().unwrap(), |more| *more > 100, String::new);
    let controls = || (page.text("#play"), page.text("#time-behind"));
    assert_eq!(controls(), ("Pause".to_owned(), String::new()));
    page.press_outside(&[' ']);
    let behind = ("Back to now".to_owned(), "behind the run".to_owned());
    page.until("paused", behind.clone(), controls);
    let tick = page.tick();
    // What was decided by then may only become known in a moment.
    wait_further(&page, 20);
    let shown = page.texts("#decisions li");
    // What is looked at there stays where it is, however often the run is drawn anew.
    page.execute(
        "document.getElementById('decisions-box').scrollTop = 0; window.first = document.querySelector('#decisions li');",
        &[],
    );
    wait_further(&page, 40);
    assert_eq!((page.tick(), page.texts("#decisions li")), (tick, shown));
    assert!(page.is(
        "document.getElementById('decisions-box').scrollTop === 0 && window.first === document.querySelector('#decisions li')"
    ));
    page.press_outside(&[key::LEFT]);
    page.wait_tick("a second earlier", tick - 10);
    page.click("#time-slider");
    let near = page.until_it("a click into the slider", || page.tick(), |now| *now > tick, String::new);
    assert!(near <= 305, "not beyond what is known: {near}");
    page.press_outside(&[' ']);
    page.until("with the run again", ("Pause".to_owned(), String::new()), controls);
    let before = page.tick();
    page.until_it("it moves again", || page.tick(), |now| *now > before + 20, String::new);
    page.press_outside(&[key::HOME]);
    page.wait_tick("the start", 0);
    page.until("left again", behind, controls);
    page.press_outside(&[key::END]);
    page.until("with the run again", ("Pause".to_owned(), String::new()), controls);
    page.press_outside(&[key::HOME]);
    page.click("#run-cancel");
    page.until("cancelled", "cancelled".to_owned(), || verdict(&page));
    assert_eq!(page.tick(), 0, "who looks at something else is left there");
    page.until("over", ("Play".to_owned(), String::new()), controls);
    // Of later nothing was observed.
    let told = || page.text("#inspector-card").contains(", where the run broke off.");
    assert!(!told());
    page.press_outside(&[key::END]);
    page.until("the end of what is known", true, told);
}

#[test]
fn the_keyboard_stays_where_it_is_when_more_is_drawn() {
    let Some(page) = Page::open(BUSY) else { return };
    start(&page, "10");
    page.execute("document.querySelector('.lane-name').focus();", &[]);
    wait_further(&page, 40);
    assert!(page.is("document.activeElement.matches('.lane-name')"));
    page.execute("document.querySelector('#runs button[aria-label^=Cancel]').focus(); document.getElementById('runs-refresh').click();", &[]);
    let listed = "window.row !== document.querySelector('#runs tr[data-run]')";
    page.execute(
        "window.row = document.querySelector('#runs tr[data-run]'); document.getElementById('runs-refresh').click();",
        &[],
    );
    page.until("listed anew", true, || page.is(listed));
    assert!(page.is("document.activeElement.matches('#runs button[aria-label^=Cancel]')"));
    page.click("#run-cancel");
    page.until("cancelled", "cancelled".to_owned(), || verdict(&page));
    // The evidence of another run is unfolded, and stays so.
    page.choose("#run-clock", "stepped");
    page.click("#run-start");
    page.until("the verdict", "verdict: MATCHED".to_owned(), || verdict(&page));
    page.execute("document.querySelector('#evidence details:not([open]) > summary').focus();", &[]);
    page.press(&[key::ENTER]);
    let open = || page.count("#evidence details[open]");
    page.until("unfolded", 2, open);
    page.press(&['e']);
    page.until("both", json!("both"), || page.value("document.querySelector('[name=source]:checked').value"));
    assert_eq!(open(), 2);
    assert!(page.is("document.activeElement.matches('#evidence summary')"));
}

#[test]
fn a_run_that_is_followed_has_its_own_address() {
    let Some(page) = Page::open("name=first") else { return };
    start(&page, "1");
    page.visit("name=second");
    page.until("another experiment", "not run".to_owned(), || verdict(&page));
    assert_eq!(page.text("#run-status"), "The run of the experiment before goes on.");
    page.click("#runs button[aria-label='Follow first']");
    page.until("followed", "running".to_owned(), || verdict(&page));
    let run = page.address("run").unwrap();
    assert!(run.ends_with("-first") && page.address("name").is_none(), "{run}");
    page.click("#run-cancel");
    page.until("cancelled", "cancelled".to_owned(), || verdict(&page));
    page.reload();
    page.wait_drawn();
    page.until("the same again", json!("first"), || page.value("document.getElementById('field-name').value"));
    assert_eq!(page.address("run"), Some(run));
    page.execute("history.back();", &[]);
    page.until("the experiment before", Some("second".to_owned()), || page.address("name"));
}

/// Counts the streams of events that are open, and holds back the answers to what is asked for until they are let go.
const MEDDLE: &str = r"
window.streams = new Set();
const Real = window.EventSource;
window.EventSource = class extends Real {
  constructor(url) { super(url); streams.add(this); }
  close() { super.close(); streams.delete(this); }
};
const ask = window.fetch;
window.held = [];
window.hold = null;
window.fetch = async (path, options) => {
  const mine = window.hold?.test(`${options?.method ?? 'GET'} ${path}`);
  const answer = await ask(path, options);
  if (mine) await new Promise((go) => held.push(go));
  return answer;
};";

/// Holds back the next answers to what fits the pattern.
fn hold(page: &Page, pattern: &str) {
    page.execute("window.hold = new RegExp(arguments[0]); window.held = [];", &[json!(pattern)]);
}

/// Waits for an answer that is held back; what is asked from now on is answered at once.
fn wait_held(page: &Page) {
    page.until("an answer is held back", true, || page.is("held.length > 0"));
    page.execute("window.hold = null;", &[]);
}

/// Lets it go, and waits until all that comes of it has been done.
fn let_go(page: &Page) {
    page.execute("held.splice(0).forEach((go) => go()); return new Promise((done) => setTimeout(done, 0));", &[]);
    sample(page, 3);
}

#[test]
fn an_answer_that_comes_late_is_not_drawn_over_what_was_asked_for_since() {
    let Some(page) = Page::open("name=first") else { return };
    page.execute(MEDDLE, &[]);
    let is_second = |what: &str| {
        assert_eq!((page.shown(), verdict(&page)), (second(), "not run".to_owned()), "{what}");
    };
    let edit = |value: &str| page.edit(scenarios::Field::named("grace_period_s").unwrap(), value);
    page.choose("#run-clock", "stepped");

    // The end of a run, and an edit before it is known what it came to.
    hold(&page, "GET /api/runs/[^/]+$");
    page.click("#run-start");
    page.until("it has ended", true, || page.is("document.getElementById('run-progress').hidden"));
    wait_held(&page);
    edit("5");
    page.until("the edit", second(), || page.shown());
    let_go(&page);
    is_second("a run that has ended");
    page.until("it is told", true, || page.text("#run-status").contains("that went on is over: matched"));

    // A run of the list, and an edit before it is there.
    let run = || page.value("document.querySelector('#runs tr[data-run]').dataset.run");
    page.until("the list", 1, || page.count("#runs tbody tr"));
    let stored = run();
    hold(&page, &format!("GET /api/runs/{}", stored.as_str().unwrap()));
    page.click("#runs button[aria-label^=Replay]");
    wait_held(&page);
    edit("6");
    edit("5");
    page.until("the edit", second(), || page.shown());
    let_go(&page);
    is_second("a run of the list");
    page.until("its address", (None, Some("5".to_owned())), || (page.address("run"), page.address("grace_period_s")));

    // An address with a time, and another address.
    hold(&page, "POST /api/model");
    page.execute("location.hash = 'name=third&at=40';", &[]);
    wait_held(&page);
    page.visit("name=first&grace_period_s=5");
    page.until("the other address", second(), || page.shown());
    let_go(&page);
    is_second("an address with a time");
}

/// What the page shows of the experiment after it was edited.
fn second() -> expected::Shown {
    expected::shown(&expected::scenario(&["grace_period_s=5"]), 0)
}

#[test]
fn what_is_run_is_what_is_shown() {
    let Some(page) = Page::open("name=first") else { return };
    page.execute(MEDDLE, &[]);
    page.choose("#run-clock", "stepped");
    // An edit that is not answered yet belongs to the experiment that is run.
    hold(&page, "POST /api/model");
    page.edit(scenarios::Field::named("grace_period_s").unwrap(), "5");
    wait_held(&page);
    page.click("#run-start");
    let_go(&page);
    page.until("the verdict", "verdict: MATCHED".to_owned(), || verdict(&page));
    assert_eq!(page.shown(), expected::shown(&expected::scenario(&["grace_period_s=5"]), 600));
    // A run that only begins when something else is shown is not taken for a run of that.
    hold(&page, "POST /api/runs");
    page.click("#run-start");
    wait_held(&page);
    page.edit(scenarios::Field::named("grace_period_s").unwrap(), "7");
    let seven = || expected::shown(&expected::scenario(&["grace_period_s=7"]), 0);
    page.until("the edit", seven(), || page.shown());
    let_go(&page);
    page.until("it is told", true, || page.text("#run-status").contains("that went on is over: matched"));
    assert_eq!((page.shown(), verdict(&page)), (seven(), "not run".to_owned()));
}

/// Cancels the run that goes on, whoever started it.
const CANCEL: &str = r"
return fetch('/api/runs').then((answer) => answer.json()).then(({ current }) => fetch(`/api/runs/${current.id}/cancel`,
  { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' })).then((answer) => answer.status);";

#[test]
fn a_run_that_nobody_sees_keeps_no_connection() {
    let Some(page) = Page::open("name=first") else { return };
    page.execute(MEDDLE, &[]);
    start(&page, "2");
    let streams = || page.value("streams.size");
    assert_eq!(streams(), json!(1));
    page.edit(scenarios::Field::named("grace_period_s").unwrap(), "5");
    page.until("another experiment", "not run".to_owned(), || verdict(&page));
    page.until("no stream", json!(0), streams);
    // A second run begins after the first one, unseen: what was told stays there.
    page.click("#run-start");
    page.until("the second waits", "queued".to_owned(), || verdict(&page));
    page.until("it is heard of", json!(1), streams);
    page.edit(scenarios::Field::named("grace_period_s").unwrap(), "6");
    page.until("a third experiment", "not run".to_owned(), || verdict(&page));
    assert_eq!(page.execute(CANCEL, &[]), json!(200));
    page.until("the second goes on", vec!["running".to_owned()], || {
        page.click("#runs-refresh");
        page.texts("#runs tr:has(button[aria-label^=Cancel]) .badge")
    });
    assert_eq!(page.text("#run-status"), "The run of the experiment before goes on.");
    page.click("#run-cancel");
    page.until("its end is told of all the same", true, || page.text("#run-status").contains("is over: "));
    assert_eq!(streams(), json!(0));
}

#[test]
fn many_tabs_can_follow_runs() {
    // So slow that it goes on until all are there.
    let Some(page) = Page::open_with(&["--speed", "0.5"], "name=first") else { return };
    start(&page, "0.5");
    let first = page.window();
    let run = page.value("fetch('/api/runs').then((answer) => answer.json()).then((list) => list.current.run)");
    let address = format!("run={}", run.as_str().unwrap());
    for _ in 0..7 {
        let tab = page.open_tab();
        page.switch_to(&tab);
        page.visit(&address);
        page.until("followed", "running".to_owned(), || verdict(&page));
    }
    assert!(page.is("!document.hidden"));
    page.click("#run-cancel");
    page.until("cancelled", "cancelled".to_owned(), || verdict(&page));
    page.switch_to(&first);
    page.until("cancelled, in the first one too", "cancelled".to_owned(), || verdict(&page));
}
