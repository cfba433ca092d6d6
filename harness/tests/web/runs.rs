//! Real runs: streamed as they go on, matched, found again, cancelled.

use std::time::Duration;

use scenarios::{Event as TraceEvent, Scenario, View};
use serde_json::{Value, json};

use crate::{
    client::Event,
    server::{Server, long, stepped},
    support::{eventually, skipped},
};

/// The events of one kind, without their ids.
fn named<'a>(events: &'a [Event], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event.event == name).map(|event| &event.data).collect()
}

/// A document without what tells a run that the server remembers from one that it only found stored.
fn stored_part(document: &Value) -> Value {
    let mut document = document.clone();
    for own in ["id", "speed"] {
        document.as_object_mut().unwrap().remove(own);
    }
    document
}

#[test]
fn a_run_is_streamed_decided_and_found_again() {
    let server = Server::start(&[]);
    let id = server.start_run(&stepped());
    let early: Vec<Event> = server.client.follow(&id, None).collect();
    let names: Vec<&str> = early.iter().map(|event| event.event.as_str()).collect();
    assert_eq!((names[0], *names.last().unwrap()), ("state", "done"), "{names:?}");
    assert_eq!(named(&early, "attempt"), [&json!({ "attempt": 1, "speed": null, "clock": "stepped", "why": null })]);
    let done = named(&early, "done")[0];
    assert_eq!(
        (&done["state"], &done["verdict"], &done["error"]),
        (&json!("finished"), &json!("matched"), &Value::Null)
    );
    assert!(early.iter().map(|event| event.id).eq(0..early.len()));

    let document = server.run(&id);
    assert_eq!((&document["id"], &document["state"]), (&json!(id), &json!("finished")));
    assert_eq!(document["verdict"], "matched", "{:?}", document["reasons"]);
    assert_eq!(document["differences"], json!([]));
    assert_eq!(document["explanation"]["cause"], "cut_short");
    assert!(document["evidence"]["before"]["processes"].is_array());
    // What was streamed is what was observed, and what was expected.
    let mut streamed: Vec<TraceEvent> =
        named(&early, "observed").into_iter().map(|event| serde_json::from_value(event.clone()).unwrap()).collect();
    streamed.sort_by_key(TraceEvent::order);
    let trace = |side: &str| serde_json::from_value::<Vec<TraceEvent>>(document[side]["events"].clone()).unwrap();
    assert_eq!(streamed, trace("observed"));
    assert_eq!(streamed, trace("expected"));
    let scenario = Scenario::from_value(document["scenario"].clone()).unwrap();
    let view = serde_json::to_value(View::new(&scenario, &streamed)).unwrap();
    assert_eq!([&document["observed"]["view"], &document["expected"]["view"]], [&view, &view]);
    assert_eq!(named(&early, "expected")[0], &document["expected"]);

    // By its name, in the list, and for those who come late.
    let name = document["run"].as_str().unwrap();
    assert_eq!(stored_part(&server.run(name)), stored_part(&document));
    let list = server.client.get("/api/runs").json();
    assert_eq!(
        list,
        json!({ "current": null, "queue": [], "runs": [{ "run": name, "state": "matched", "gate": "fail" }] })
    );
    for which in [id.as_str(), name] {
        let late: Vec<Event> = server.client.follow(which, None).collect();
        assert_eq!(named(&late, "expected"), named(&early, "expected"));
        assert_eq!(named(&late, "observed").len(), named(&early, "observed").len());
        assert_eq!(named(&late, "done"), named(&early, "done"));
        // A browser that lost its connection goes on where it was, and asks no more once it has all.
        let last = late.len() - 1;
        let rest: Vec<Event> = server.client.follow(which, Some(last - 2)).collect();
        assert_eq!(rest, late[last - 1..]);
        assert!(server.client.follow(which, Some(last)).head.starts_with("HTTP/1.0 204"), "{which}");
    }
}

#[test]
fn a_run_on_the_real_clock_is_seen_while_it_goes_on() {
    let server = Server::start(&[]);
    let scenario = json!({ "name": "scaled", "title": "Scaled", "on_sigterm": "drain", "invocation_s": 8 });
    let id = server.start_run(&json!({ "scenario": scenario, "speed": 5 }));
    let mut follower = server.client.follow(&id, None);
    let ready = follower.find(|event| event.data["event"] == "worker_ready").unwrap();
    assert!(ready.data["at_us"].is_i64() && ready.data["late_us"].is_u64() && ready.data["pid"].is_i64(), "{ready:?}");

    let live = server.run(&id);
    assert_eq!((&live["state"], &live["clock"], &live["verdict"]), (&json!("running"), &json!("scaled"), &Value::Null));
    assert!(live["expected"]["events"].as_array().unwrap().len() > 20);
    let view = &live["observed"]["view"];
    assert!(view["known_until_tick"].as_u64().unwrap() >= 40, "{view}");
    assert_eq!((&view["gate"], view["lanes"].as_array().unwrap().len()), (&Value::Null, 1));
    let list = server.client.get("/api/runs").json();
    assert_eq!((&list["current"]["id"], &list["current"]["scenario"]), (&json!(id), &json!("scaled")));
    assert_eq!(list["runs"][0]["state"], "running");
    // Under the name by which it is stored it is the same run.
    let name = live["run"].as_str().unwrap();
    assert_eq!(server.run(name)["id"], json!(id));

    let done = follower.last().unwrap().data;
    let document = server.run(&id);
    let reasons = document["reasons"].to_string();
    if done["verdict"] == "inconclusive" && reasons.contains("too slow") {
        skipped(&format!("a run on the real clock: {reasons}"));
        return;
    }
    assert_eq!(done["verdict"], "matched", "{reasons}");
    assert!(document["timing"]["lateness"].as_array().is_some_and(|parts| !parts.is_empty()));
    assert_eq!(document["speed"], json!(5.0));
}

#[test]
fn runs_wait_for_each_other_and_are_cancelled() {
    let server = Server::start(&[]);
    let first = server.start_run(&long());
    let running = server.client.follow(&first, None);
    let mut running = running.skip_while(|event| event.event != "observed");
    assert!(running.next().is_some());
    let second = server.start_run(&long());
    let third = server.start_run(&stepped());
    let waiting = server.run(&third);
    assert_eq!((&waiting["state"], &waiting["ahead"], &waiting["run"]), (&json!("queued"), &json!(2), &Value::Null));
    assert_eq!((&waiting["expected"], &waiting["speed"]), (&Value::Null, &Value::Null));

    let cancelled = server.client.post(&format!("/api/runs/{second}/cancel"), &json!({}));
    assert_eq!((cancelled.status, &cancelled.json()["state"]), (200, &json!("cancelled")));
    assert_eq!(server.run(&second)["state"], "cancelled");
    let told: Vec<Event> = server.client.follow(&second, None).collect();
    assert_eq!(told.last().unwrap().data["state"], "cancelled");
    assert_eq!(server.run(&third)["ahead"], json!(1));

    let cancelled = server.client.post(&format!("/api/runs/{first}/cancel"), &json!({}));
    assert_eq!(cancelled.status, 200);
    let done = running.last().unwrap();
    assert_eq!((done.event.as_str(), &done.data["state"]), ("done", &json!("cancelled")));
    let document = server.run(&first);
    assert_eq!((&document["state"], &document["verdict"]), (&json!("cancelled"), &json!("inconclusive")));
    assert!(document["reasons"].to_string().contains("stopped before its end"), "{}", document["reasons"]);
    assert!(document["observed"]["view"]["known_until_tick"].as_u64().unwrap() < 600);

    // The third had its turn.
    let done = server.client.follow(&third, None).last().unwrap();
    assert_eq!(done.data["verdict"], "matched", "{done:?}");
    server.client.post(&format!("/api/runs/{third}/cancel"), &json!({})).assert_error(404, "no run");
    let alone = || server.rig.processes().into_iter().eq([server.running.pid()]);
    assert!(eventually(Duration::from_secs(2), alone), "{:?}", server.rig.processes());
}

#[test]
fn those_who_follow_do_not_disturb_each_other() {
    let server = Server::start(&[]);
    let id = server.start_run(&stepped());
    let follow = || server.client.follow(&id, None).collect::<Vec<_>>();
    // One that never reads, and one that goes away in the middle.
    let silent = server.client.follow(&id, None);
    drop(server.client.follow(&id, None));
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(follow);
        (follow(), one.join().unwrap())
    });
    assert_eq!(named(&one, "observed"), named(&other, "observed"));
    assert_eq!(named(&one, "done"), named(&other, "done"));
    drop(silent);
}

/// What the command line ran is there too, whatever its verdict: one that diverges shows where.
#[test]
fn a_run_of_the_command_line_can_be_replayed() {
    let server = Server::start(&[]);
    let arguments = ["run", "handler-grace-20", "--clock", "stepped", "--fault", "wrong_sum", "--quiet"];
    assert_eq!(server.rig.run(&arguments).code, Some(1));
    let list = server.client.get("/api/runs").json();
    let name = list["runs"][0]["run"].as_str().unwrap().to_owned();
    assert_eq!((&list["runs"][0]["state"], name.ends_with("-handler-grace-20")), (&json!("diverged"), true));
    let document = server.run(&name);
    assert_eq!(
        (&document["id"], &document["verdict"], &document["clock"]),
        (&Value::Null, &json!("diverged"), &json!("stepped"))
    );
    let differences = document["differences"].as_array().unwrap();
    assert_eq!(differences[0]["kind"], "changed");
    let sides = ["expected", "observed"].map(|side| &differences[0][side]);
    assert_eq!(sides.map(|side| &side["event"]), [&json!("result_committed"); 2]);
    assert_eq!(sides[0]["tick"], sides[1]["tick"]);
    assert!(differences[0]["text"].as_str().unwrap().contains("sum"));
}
