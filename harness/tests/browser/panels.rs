//! Lanes, inspector, decisions: what is chosen, and what is told of it.

use scenarios::{Tick, catalogue};
use serde_json::{Value, json};

use crate::{
    expected::{self, seconds},
    page::Page,
    webdriver::key,
};

const TWO: &[&str] = &["initial_workers=2", "on_sigterm=drain"];

/// The workers and invocations that are chosen, as lanes, bars and inspector have them.
fn chosen(page: &Page) -> Value {
    page.value(
        "[
          [...document.querySelectorAll('.lane.chosen')].map((lane) => lane.dataset.worker),
          [...document.querySelectorAll('.lane-name[aria-pressed=true]')].map((name) => name.dataset.worker),
          [...document.querySelectorAll('.bar.chosen')].map((bar) => bar.dataset.request),
          document.getElementById('worker-select').value,
          document.getElementById('invocation-select').value,
        ]",
    )
}

#[test]
fn a_worker_is_chosen_by_click_by_key_and_from_the_list() {
    let Some(page) = Page::open("name=my-experiment&initial_workers=3") else { return };
    let wait = |what: &str, worker: &str, request: &str| {
        let bars: &[&str] = if request.is_empty() { &[] } else { &[request] };
        page.until(what, json!([[worker], [worker], bars, worker, request]), || chosen(&page));
    };
    wait("at first", "worker-1", "");
    page.click(".lane-name[data-worker=worker-3]");
    wait("a click on a name", "worker-3", "");
    page.click(".lane[data-worker=worker-2] .slot-names");
    wait("a click on a lane", "worker-2", "");
    page.click(".lane[data-worker=worker-1] .bar");
    let request = page.value("document.querySelector('.lane[data-worker=worker-1] .bar').dataset.request");
    wait("a click on an invocation", "worker-1", request.as_str().unwrap());
    page.execute("document.getElementById('lanes').focus();", &[]);
    page.press(&[key::DOWN]);
    wait("arrow down", "worker-2", "");
    page.press(&[key::DOWN, key::DOWN, key::DOWN]);
    wait("arrow down at the last", "worker-3", "");
    page.press(&[key::UP]);
    wait("arrow up", "worker-2", "");
    page.choose("#worker-select", "worker-3");
    wait("the list", "worker-3", "");
    let request = page.value("document.getElementById('invocation-select').options[1].value");
    page.choose("#invocation-select", request.as_str().unwrap());
    wait("the list of invocations", "worker-3", request.as_str().unwrap());
}

#[test]
fn every_invocation_is_drawn_in_its_lane_with_its_end() {
    let Some(page) = Page::open("name=my-experiment") else { return };
    for settings in
        [&[][..], TWO, &["pid_namespace=false", "entrypoint=script"], &["initial_workers=2", "fail_worker_1=true"]]
    {
        let view = expected::view(&expected::scenario(settings));
        page.visit(&format!("name=my-experiment&{}", settings.join("&")));
        page.until("the scenario", true, || page.count(".lane") == u64::try_from(view.lanes.len()).unwrap());
        let drawn: Vec<Value> = view
            .lanes
            .iter()
            .flat_map(|lane| {
                let slots = lane.slots.iter().flat_map(|slot| &slot.invocations);
                slots.map(|one| json!([lane.worker, one.request, one.end])).collect::<Vec<_>>()
            })
            .collect();
        page.until(&format!("{settings:?}"), json!(drawn), || page.value(
            "[...document.querySelectorAll('.lane .bar')].map((bar) => [bar.closest('.lane').dataset.worker, bar.dataset.request, bar.classList[1]])",
        ));
        let sent = u64::from(view.grace.is_some());
        assert_eq!(page.count(".lane .deadline"), sent, "{settings:?}");
        assert_eq!(page.count(".lane use[href='#mark-sigterm']"), sent, "{settings:?}");
        let killed = view.decisions.iter().filter(|decision| decision.event == "sigkill_sent").count();
        assert_eq!(page.count(".lane use[href='#mark-sigkill']"), u64::try_from(killed).unwrap(), "{settings:?}");
        assert_eq!(
            page.count(".lane-plain .reject-line"),
            u64::try_from(view.rejections.len()).unwrap(),
            "{settings:?}"
        );
    }
}

#[test]
fn the_inspector_tells_of_the_chosen_worker_at_the_time() {
    let address = format!("name=my-experiment&{}", TWO.join("&"));
    let Some(page) = Page::open(&address) else { return };
    let view = expected::view(&expected::scenario(TWO));
    for (worker, tick) in [("worker-1", 0), ("worker-1", 305), ("worker-2", 305), ("worker-1", 600)] {
        page.visit(&format!("{address}&at={}", Tick(tick).seconds()));
        page.wait_tick("the time", u64::from(tick));
        if !page.is("document.getElementById('inspector-json-details').open") {
            page.click("#inspector-json-details > summary");
        }
        page.choose("#worker-select", worker);
        let frame = view.at(Tick(tick));
        let wanted = frame.workers.iter().find(|one| one.worker.to_string() == worker).unwrap();
        let mut wanted = json!(wanted);
        page.until("as JSON", wanted.clone(), || {
            let mut said: Value = serde_json::from_str(&page.text("#inspector-json")).unwrap_or_default();
            // Beside what holds at the tick it tells since when.
            said["worker"].as_object_mut().map(|worker| worker.remove("since_tick"));
            said["worker"].take()
        });
        let state = wanted["state"].take();
        let card = page.text("#inspector-card");
        let held = format!("In flight: {}", wanted["in_flight"].as_array().unwrap().len());
        for piece in [worker, &format!("{} since", state.as_str().unwrap()), &held] {
            assert!(card.contains(piece), "{worker} at {tick}: {piece:?} is not in {card:?}");
        }
    }
    page.visit(&address);
    page.choose("#worker-select", "worker-1");
    let one = &view.lanes[0].slots[0].invocations[0];
    page.choose("#invocation-select", &one.request.to_string());
    page.press_outside(&[key::END]);
    page.until("the invocation as JSON", json!([one.request, "committed", one.sum]), || {
        let said: Value = serde_json::from_str(&page.text("#inspector-json")).unwrap_or_default();
        json!([said["invocation"]["request"], said["invocation"]["state"], said["invocation"]["sum"]])
    });
}

#[test]
fn decisions_can_be_filtered() {
    let Some(page) = Page::open("at=60") else { return };
    let view = expected::view(catalogue::get("ignored-signal").unwrap());
    let lines = || page.texts("#decisions li").iter().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    let wait = |what: &str, passes: &dyn Fn(&scenarios::view::Decision) -> bool| {
        let wanted: Vec<String> = view
            .decisions
            .iter()
            .filter(|decision| passes(decision))
            .map(|decision| format!("{}{}", seconds(decision.tick), decision.text))
            .collect();
        assert!(!wanted.is_empty(), "{what}");
        let counted = format!("{0} of {0}", wanted.len());
        page.until(what, wanted, lines);
        page.until(what, counted, || page.text("#decision-count"));
    };
    wait("at first", &|decision| decision.event != "stage_entered");
    page.choose("#decision-kind", "*");
    wait("all", &|_| true);
    page.type_into("#decision-search", "REQUEST-16");
    wait("one request", &|decision| decision.text.contains("request-16"));
    page.choose("#decision-kind", "invocation_killed");
    wait("one request and one kind", &|decision| {
        decision.event == "invocation_killed" && decision.text.contains("request-16")
    });
    page.type_into("#decision-search", "");
    wait("one kind", &|decision| decision.event == "invocation_killed");
    page.type_into("#decision-search", "nothing of the kind");
    page.until("none", true, || page.is("document.getElementById('decisions-none').checkVisibility()"));
    assert_eq!(lines(), Vec::<String>::new());
}

#[test]
fn the_lanes_can_be_read_as_words() {
    let Some(page) = Page::open("") else { return };
    page.click("#lanes-words > summary");
    page.until_it("the words", || page.text("#lanes-table"), |text| !text.is_empty(), String::new);
    let (text, view) = (page.text("#lanes-table"), expected::view(catalogue::get("ignored-signal").unwrap()));
    for mark in &view.lanes[0].marks {
        assert!(text.contains(&format!("{}: {}", seconds(mark.tick), mark.text)), "{mark:?} is not in {text}");
    }
    for rejection in &view.rejections {
        assert!(
            text.contains(&format!("{} at {} ({})", rejection.request, seconds(rejection.tick), rejection.reason)),
            "{text}"
        );
    }
}
