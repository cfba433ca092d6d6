//! What a run leaves on disk, and its document.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::BufReader,
    path::Path,
    time::Duration,
};

use harness::record::Observed;
use rustix::process::Signal;
use scenarios::{Source, Trace};
use serde_json::Value;
use worker::clock;

use crate::{
    pool::side_by_side,
    processes::send,
    support::{PATIENCE, Rig, eventually},
};

/// A drill that lasts a second, and how it is asked for.
const SHORT: [&str; 5] = ["handler-grace-10", "--set", "request_interval_s=40", "--set", "signal_at_s=2"];

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

fn listed(rig: &Rig) -> Vec<(String, String)> {
    let list: Vec<Value> = serde_json::from_str(&rig.run(&["runs", "--json"]).stdout).unwrap();
    let text = |run: &Value, field: &str| run[field].as_str().unwrap().to_owned();
    list.iter().map(|run| (text(run, "run"), text(run, "state"))).collect()
}

#[test]
fn a_run_whose_process_was_killed_can_be_read_up_to_there() {
    let rig = Rig::new();
    let running = rig.start(&mut rig.command(&["run", "ignored-signal", "--quiet"]));
    let latest = rig.state().join("termdrill/runs/latest");
    let observed = latest.join("observed.jsonl");
    assert!(eventually(PATIENCE, || lines(&observed) >= 12), "no events are written");
    let (name, state) = &listed(&rig)[0];
    assert_eq!(state, "running");
    assert_eq!(fs::read_link(&latest).unwrap().to_str(), Some(name.as_str()));

    send(running.inner().unwrap(), Signal::KILL);
    running.wait().assert_refused(3, "killed by SIGKILL");
    let trace = Trace::<Observed>::read(BufReader::new(File::open(&observed).unwrap())).unwrap();
    assert_eq!((trace.source, trace.scenario.name.as_str()), (Source::Processes, "ignored-signal"));
    assert!(trace.events.len() >= 11 && trace.outcome.is_none());
    assert_eq!(listed(&rig), [(name.clone(), "unfinished".to_owned())]);

    let replayed = rig.run(&["replay", "latest", "--json"]);
    assert_eq!(replayed.code, Some(3));
    let replayed = replayed.document();
    assert_eq!(replayed.observed().0.len(), trace.events.len());
    assert!(replayed.parsed.reasons.concat().contains("broke off"), "{:?}", replayed.parsed.reasons);
    let text = rig.run(&["replay", "latest"]);
    assert!(text.stdout.contains("request-3") && text.stderr.is_empty(), "{text:?}");
}

#[test]
fn a_run_that_was_interrupted_is_stored_as_far_as_it_got() {
    let rig = Rig::new();
    let running = rig.start(&mut rig.command(&["run", "ignored-signal", "--quiet"]));
    let observed = rig.state().join("termdrill/runs/latest/observed.jsonl");
    assert!(eventually(PATIENCE, || lines(&observed) >= 12), "no events are written");
    running.signal(Signal::INT);
    assert_eq!(running.wait().signal, Some(Signal::INT.as_raw()));
    assert_eq!(listed(&rig)[0].1, "inconclusive");
    let replayed = rig.run(&["replay", "latest", "--json"]).document();
    assert!(replayed.observed().0.len() >= 11);
    assert!(replayed.parsed.reasons.concat().contains("stopped"), "{:?}", replayed.parsed.reasons);
}

/// What a drill has for its clean-up is over, and the record is on its way to a disk that is slow: a FIFO in its place.
#[test]
fn a_run_that_was_interrupted_is_stored_however_long_the_disk_takes() {
    let rig = Rig::new();
    let running = rig.start(&mut rig.command(&["run", "ignored-signal", "--quiet"]));
    let latest = rig.state().join("termdrill/runs/latest");
    assert!(eventually(PATIENCE, || lines(&latest.join("observed.jsonl")) >= 12), "no events are written");
    let record = fs::canonicalize(&latest).unwrap().join("record.json");
    let slow = record.with_extension("json.new");
    nix::unistd::mkfifo(&slow, nix::sys::stat::Mode::S_IRWXU).unwrap();
    running.signal(Signal::INT);
    clock::block_for(Duration::from_secs(1));
    assert!(!running.has_ended(Duration::ZERO), "it waits for the disk");
    let stored: Value = serde_json::from_str(&fs::read_to_string(&slow).unwrap()).unwrap();
    assert_eq!(stored["verdict"], "inconclusive");
    assert_eq!(running.wait().signal, Some(Signal::INT.as_raw()));
    assert!(record.exists());
}

#[test]
fn runs_at_once_do_not_disturb_each_other_and_latest_is_the_newest() {
    let rig = Rig::new();
    let paths = side_by_side(&[(); 6], |()| {
        let drilled = rig.drill(&SHORT);
        drilled.assert_matched("one of several");
        drilled.parsed.run
    });
    assert_eq!(paths.iter().collect::<BTreeSet<_>>().len(), 6);
    let last = rig.drill(&SHORT).parsed.run;
    let runs = listed(&rig);
    assert_eq!(runs.len(), 7);
    assert!(runs.iter().all(|(_, state)| state == "matched"), "{runs:?}");
    assert_eq!(last.file_name().unwrap().to_str(), Some(runs[0].0.as_str()));
    assert_eq!(fs::canonicalize(rig.state().join("termdrill/runs/latest")).unwrap(), fs::canonicalize(&last).unwrap());
    // What was stored says what was printed.
    for path in &paths {
        let stored = rig.run(&["replay", path.to_str().unwrap(), "--json"]).document();
        stored.assert_matched("replayed");
        assert_eq!(stored.observed().1.arrivals, 1);
    }
}

#[test]
fn the_document_has_what_the_contract_names_and_is_replayed_as_it_was() {
    let rig = Rig::new();
    let ended = rig.run(&[&["run", "--json"], &SHORT[..]].concat());
    let drilled = ended.document();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<String>>();
    let has = |value: &Value, wanted: &[&str]| {
        assert!(wanted.iter().all(|&wanted| keys(value).contains(wanted)), "{wanted:?} in {:?}", keys(value));
    };
    let document = &drilled.document;
    has(document, &["scenario", "expected", "observed", "verdict", "timing"]);
    for trace in ["expected", "observed"] {
        assert_eq!(keys(&document[trace]), ["events", "outcome"].map(str::to_owned).into());
        has(
            &document[trace]["outcome"],
            &[
                "arrivals",
                "admitted",
                "rejected",
                "completed",
                "killed",
                "running",
                "sums",
                "rejected_percent",
                "gate",
                "workers",
            ],
        );
    }
    has(&document["timing"], &["speed_asked", "speed_used", "wall_ms", "lateness", "attempts"]);
    has(&document["observed"]["events"][0], &["t", "event", "worker", "at_us", "late_us"]);
    assert_eq!(document["scenario"]["name"], "handler-grace-10");
    let ended_with = document["observed"]["events"].as_array().unwrap().last().unwrap();
    assert_eq!(ended_with["status"], serde_json::json!({ "code": 0 }));
    assert!(ended_with["pid"].is_i64());

    let replayed = rig.run(&["replay", "latest", "--json"]).document();
    assert_eq!(replayed.document, drilled.document);
}

#[test]
fn a_directory_of_ones_own_is_used_exactly() {
    let rig = Rig::new();
    let out = rig.path("out");
    let drilled = rig.drill(&[&SHORT[..], &["--out", out.to_str().unwrap()]].concat());
    assert_eq!(drilled.parsed.run, out);
    let names: BTreeSet<String> =
        fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    for name in ["scenario.json", "expected.jsonl", "observed.jsonl", "record.json", "store.sqlite", "worker-1.log"] {
        assert!(names.contains(name), "{name} is not among {names:?}");
    }
    assert!(fs::read_dir(rig.state()).unwrap().next().is_none(), "something was stored elsewhere too");
}
