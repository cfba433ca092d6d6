//! Real runs from the page: followed as they go on, cancelled, found again.

use serde_json::{Value, json};

use crate::{
    access::{axe, findings},
    expected,
    layout::assert_narrow,
    page::Page,
    support::skipped,
    time::sample,
    webdriver::key,
};

/// A run in the list that has matched: it is listed before it has.
pub(crate) const MATCHED: &str = "#runs tbody [data-verdict=matched]";

fn verdict(page: &Page) -> String {
    page.text("#verdict")
}

#[test]
fn a_stepped_run_matches_and_can_be_replayed() {
    let Some(page) = Page::open("name=my-experiment&on_sigterm=drain&entrypoint=script") else { return };
    let scenario = expected::scenario(&["on_sigterm=drain", "entrypoint=script"]);
    assert!(page.is("document.getElementById('source-observed').disabled"));
    page.choose("#run-clock", "stepped");
    page.press_outside(&['x']);
    page.until("the verdict", "verdict: MATCHED".to_owned(), || verdict(&page));
    // What was observed is shown, from its end.
    page.until("observed", json!("observed"), || page.value("document.querySelector('[name=source]:checked').value"));
    page.wait_shown("what was observed", &expected::shown(&scenario, 600));
    assert!(page.text("#explanation").contains("SIGTERM"), "{}", page.text("#explanation"));
    assert!(page.count("#evidence .tree li") >= 2, "the script and the worker");
    assert!(page.text("#inspector-card").contains("pid "), "{}", page.text("#inspector-card"));
    for wanted in ["both", "expected", "observed"] {
        page.press_outside(&['e']);
        page.until("the next source", json!(wanted), || {
            page.value("document.querySelector('[name=source]:checked').value")
        });
    }
    // Where all matches, all that was expected is drawn faintly.
    page.click("#source-both");
    page.until("outlines", true, || page.count(".outline.same") > 0 && page.count(".lane .outline:not(.same)") == 0);
    assert!(page.is("document.getElementById('differences').hidden"));

    page.until("the list", 1, || page.count(MATCHED));
    let row = page.texts("#runs tbody td");
    assert!(row[0].starts_with("my-experiment") && row[1] == "matched", "{row:?}");
    page.visit("name=baseline");
    page.until("another experiment", "not run".to_owned(), || verdict(&page));
    page.click("#runs tbody button");
    page.until("replayed", "verdict: MATCHED".to_owned(), || verdict(&page));
    page.wait_shown("replayed from the beginning", &expected::shown(&scenario, 0));
    // Its address is that of the run, and leads to it again.
    let run = page.address("run").unwrap();
    page.reload();
    page.wait_drawn();
    page.until("opened by its address", "verdict: MATCHED".to_owned(), || verdict(&page));
    assert_eq!(page.address("run"), Some(run));
    page.press_outside(&[key::END]);
    page.wait_shown("opened by its address", &expected::shown(&scenario, 600));
}

#[test]
fn a_run_in_real_time_is_followed_as_it_goes_on() {
    let Some(page) = Page::open("name=my-experiment") else { return };
    page.choose("#run-speed", "20");
    page.click("#run-start");
    let mut ticks = vec![0];
    let mut last = String::new();
    page.until("it ends", true, || {
        let seen = page.execute(
            "return [document.getElementById('verdict').textContent, Number(document.getElementById('time-slider').value),
                document.querySelectorAll('#decisions li').length, document.querySelector('[name=source]:checked').value];",
            &[],
        );
        last = seen[0].as_str().unwrap().to_owned();
        let (tick, decisions) = (seen[1].as_u64().unwrap(), seen[2].as_u64().unwrap());
        if last == "running" && seen[3] == json!("both") && decisions > 0 && ticks.last() != Some(&tick) {
            ticks.push(tick);
        }
        last.starts_with("verdict")
    });
    assert!(ticks.len() > 4, "it was seen at these ticks only: {ticks:?}");
    if last == "verdict: INCONCLUSIVE" {
        skipped("the machine is too slow for a run in real time");
        return;
    }
    assert_eq!(last, "verdict: MATCHED", "{}", page.text("#run-result"));
    page.wait_shown("what was observed", &expected::shown(&expected::scenario(&[]), 600));
    page.click("#run-result details > summary");
    assert!(page.count("#run-result table tbody tr") > 2, "how late things were");
}

/// A drill of which nothing is heard between 4 s, when the worker is ready, and SIGTERM at 30 s.
const QUIET: &str = "name=my-experiment&request_interval_s=40";

/// The tick that is shown of the run that goes on; 0 before it does.
const WHERE: &str = "document.getElementById('verdict').textContent === 'running' ? Number(document.getElementById('time-slider').value) : 0";

/// What the server says of the clock, and the ticks that are shown before it is asked and when it has answered.
const COMPARE: &str = r"
const slider = () => Number(document.getElementById('time-slider').value);
const frame = () => new Promise((done) => requestAnimationFrame(done));
return (async () => {
  await frame();
  const before = slider();
  const { current } = await (await fetch('/api/runs')).json();
  const { attempt } = await (await fetch(`/api/runs/${current.id}`)).json();
  await frame();
  await frame();
  return [before, attempt.elapsed_us * attempt.speed / 100000, slider()];
})();";

#[test]
fn between_two_events_the_playhead_moves_with_the_clock_of_the_run() {
    let Some(page) = Page::open(QUIET) else { return };
    page.choose("#run-speed", "2");
    page.click("#run-start");
    let place = || page.value(WHERE).as_u64().unwrap();
    page.until_it("it goes on and nothing happens", place, |tick| (60..200).contains(tick), String::new);
    let seen = sample(&page, 20);
    let ((began, from), (ended, until)) = (seen[0], seen[19]);
    assert!(seen.is_sorted_by(|a, b| a.1 <= b.1), "time only goes on: {seen:?}");
    // What is shown is a whole tick, so both ends can be almost one off. A tick takes 50 ms at this speed.
    let passed = (ended - began) / 50.0;
    assert!((until - from - passed).abs() <= 2.0, "{passed} ticks passed: {seen:?}");
    // It is the clock of the drill that it follows, as far as the answers of the server take their time.
    let compared: [f64; 3] = serde_json::from_value(page.execute(COMPARE, &[])).unwrap();
    assert!(compared[0] - 2.0 <= compared[1] && compared[1] <= compared[2] + 5.0, "{compared:?}");
    page.click("#run-cancel");
    page.until("cancelled", "cancelled".to_owned(), || verdict(&page));
    // It stands still again.
    let seen = sample(&page, 10);
    assert!(seen.iter().all(|(_, tick)| *tick == seen[0].1), "{seen:?}");
}

#[test]
fn where_motion_is_to_be_reduced_the_playhead_waits_for_the_next_event() {
    let Some(page) = Page::open(QUIET) else { return };
    page.emulate_media(&[("prefers-reduced-motion", "reduce")]);
    page.choose("#run-speed", "2");
    page.click("#run-start");
    let place = || page.value(WHERE).as_u64().unwrap();
    page.until_it("the worker is ready", place, |tick| *tick >= 40, String::new);
    let seen = sample(&page, 30);
    assert!(seen.iter().all(|(_, tick)| *tick == 40.0), "{seen:?}");
    page.click("#run-cancel");
    page.until("cancelled", "cancelled".to_owned(), || verdict(&page));
}

#[test]
fn a_run_can_be_cancelled() {
    let Some(page) = Page::open("name=my-experiment") else { return };
    page.choose("#run-speed", "1");
    page.click("#run-start");
    let progress = || page.value("document.getElementById('run-progress').value").as_f64().unwrap();
    page.until_it("it goes on", progress, |tick| *tick >= 10.0, String::new);
    // Another one waits until it is over, and is taken out of the queue.
    let queued: Value = page.execute(
        "return fetch('/api/runs', { method: 'POST', headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ scenario: { name: 'second', title: 'Second' }, clock: 'stepped' }) }).then((answer) => answer.json());",
        &[],
    );
    page.click("#runs-refresh");
    let second = format!("#runs tr[data-run='{}']", queued["id"].as_str().unwrap());
    page.until("both are listed", (2, 1), || (page.count("#runs tbody tr"), page.count(&second)));
    page.click(&format!("{second} button[aria-label^=Cancel]"));
    page.until("one is left", 0, || page.count(&second));
    page.click("#run-cancel");
    page.until("cancelled", "cancelled".to_owned(), || verdict(&page));
    assert!(page.is("document.getElementById('run-cancel').hidden && !document.getElementById('run-start').disabled"));
    // The next run has the server to itself.
    page.choose("#run-clock", "stepped");
    page.click("#run-start");
    page.until("the next one", "verdict: MATCHED".to_owned(), || verdict(&page));
}

#[test]
fn one_run_waits_for_the_other_on_the_same_page() {
    let Some(page) = Page::open("name=first") else { return };
    page.choose("#run-speed", "2");
    page.click("#run-start");
    page.until("the first goes on", "running".to_owned(), || verdict(&page));
    assert!(page.is("document.getElementById('run-start').disabled"), "twice the same is a slip");
    page.edit(scenarios::Field::named("grace_period_s").unwrap(), "5");
    page.until("another experiment", "not run".to_owned(), || verdict(&page));
    page.choose("#run-clock", "stepped");
    page.click("#run-start");
    page.until("the second waits", "queued".to_owned(), || verdict(&page));
    page.until("both are listed", 2, || page.count("#runs tbody tr"));
    page.click("#runs button[aria-label='Cancel first']");
    page.until("the second has its turn", "verdict: MATCHED".to_owned(), || verdict(&page));
    assert_eq!(page.shown(), expected::shown(&expected::scenario(&["grace_period_s=5"]), 600));
}

#[test]
fn where_the_server_is_gone_that_is_told_and_it_is_asked_again() {
    let Some(mut page) = Page::open("name=my-experiment") else { return };
    page.allow("Failed to load resource");
    page.choose("#run-speed", "5");
    page.click("#run-start");
    page.until_it("it goes on", || page.tick(), |tick| *tick >= 10, String::new);
    page.server.kill();
    page.until("told", "no answer".to_owned(), || verdict(&page));
    assert!(page.text("#run-status").contains("does not answer"), "{}", page.text("#run-status"));
    let tick = page.tick();
    sample(&page, 10);
    assert_eq!(page.tick(), tick, "nothing more is known");
    // The run ended with its server, and is still stored when another one is asked after it.
    let (run, stores) = page.server.hold_latest();
    page.server.start_anew();
    let asked = format!("performance.getEntriesByType('resource').some((one) => one.name.endsWith('/api/runs/{run}'))");
    page.until("it is asked after", true, || page.is(&asked));
    drop(stores);
    page.until("what is known of it", "verdict: INCONCLUSIVE".to_owned(), || verdict(&page));
    assert!(page.is("document.getElementById('run-problem').hidden && !document.getElementById('run-start').disabled"));
}

/// A declaration that is wrong: the worker drains, and nothing is orphaned.
const WRONG: &str =
    r#"name=my-experiment&on_sigterm=drain&pid_namespace=false&entrypoint=["env","{worker}"]&expected_effect=orphaned"#;

#[test]
fn what_differs_stands_out_and_leads_to_its_time() {
    let Some(page) = Page::open_with(&["--allow-commands"], WRONG) else { return };
    page.choose("#run-clock", "stepped");
    page.click("#run-start");
    page.until("the verdict", "verdict: DIVERGED".to_owned(), || verdict(&page));
    page.until("both are shown", json!("both"), || page.value("document.querySelector('[name=source]:checked').value"));
    assert!(page.is("document.getElementById('differences').checkVisibility()"));
    let differences = page.texts("#difference-list button");
    assert!(differences.iter().any(|one| one.contains("worker-1")), "{differences:?}");
    assert!(page.count(".lane use[href='#mark-differs']") > 0);
    assert!(page.count(".lane .outline:not(.same)") > 0, "what was expected and did not happen is drawn");
    assert!(page.count("#decisions li.differs em") > 0);
    page.click("#difference-list button");
    page.wait_tick("the time of the first difference", 300);
    page.click("#source-expected");
    page.until("what was expected alone", 0, || {
        page.count("use[href='#mark-differs']:not(.legend *), #decisions li.differs")
    });
    if let Some(axe) = axe() {
        page.click("#source-both");
        assert_eq!(findings(&page, &axe), Vec::<String>::new());
    }
}

#[test]
fn a_list_of_words_is_run_only_where_that_is_allowed() {
    let Some(page) = Page::open(WRONG) else { return };
    page.allow("403 (Forbidden)");
    page.click("#run-start");
    page.until_it("refused", || page.text("#run-problem"), |said| said.contains("--allow-commands"), String::new);
    assert_eq!(page.count("#runs tbody tr"), 0);
    assert!(page.is("!document.getElementById('run-start').disabled"));
}

#[test]
fn the_report_on_a_shard_replays_its_first_drills() {
    let Some(page) = Page::open("") else { return };
    page.go(&page.server.report_of_a_shard());
    page.until("the verdict", "verdict: MATCHED".to_owned(), || verdict(&page));
    let drills = page.texts("main .card td:first-child");
    assert!(drills.starts_with(&["4".to_owned(), "8".to_owned()]), "{drills:?}");
    assert_eq!(page.texts("main .card th[scope=row] a[href^='#run=']").len(), 2);
    page.go(&page.server.report_of_nothing_kept());
    assert_eq!(page.texts("h2"), ["Results"]);
    assert_eq!(page.count("main th[scope=row]"), 2);
    assert_eq!(page.count("script, a"), 0);
    page.emulate_phone(360);
    assert_narrow(&page, "the results alone");
    if let Some(axe) = axe() {
        assert_eq!(findings(&page, &axe), Vec::<String>::new());
    }
}

#[test]
fn a_report_is_the_page_in_a_file() {
    let Some(page) = Page::open("") else { return };
    page.visit_report("ignored-signal");
    page.until("the verdict", "verdict: MATCHED".to_owned(), || verdict(&page));
    let scenario = scenarios::catalogue::get("ignored-signal").unwrap();
    let of_run = |tick| expected::shown(scenario, tick);
    page.wait_shown("from the beginning", &of_run(0));
    page.press_outside(&[key::RIGHT; 31]);
    page.wait_shown("31 s", &of_run(310));
    page.press_outside(&[key::END]);
    page.wait_shown("the end", &of_run(600));
    assert!(!page.is("document.getElementById('run-start').checkVisibility()"), "nothing can be run from a file");
    page.press_outside(&['x']);
    assert_eq!(verdict(&page), "verdict: MATCHED", "by key neither");
    page.execute("location.hash = 'run=another'; location.reload();", &[]);
    page.until_it("told", || page.text("#experiment-problem"), |said| said.contains("another"), String::new);
    page.wait_shown("the run that there is", &of_run(0));
    if let Some(axe) = axe() {
        assert_eq!(findings(&page, &axe), Vec::<String>::new());
    }
    page.emulate_phone(360);
    assert_narrow(&page, "the report");
}
