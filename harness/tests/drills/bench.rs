//! `termdrill bench`: figures that hold together, and nothing left.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{PATIENCE, Rig, eventually};

#[test]
fn the_figures_hold_together() {
    let rig = Rig::new();
    // On a slow machine any of its drills is repeated, at lower and lower speeds.
    let running = rig.start(&mut rig.command(&["bench", "--seconds", "1", "--json"]));
    let ended = running.wait_for(4 * PATIENCE).unwrap();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&document["format"], &document["seconds"]), (&"termdrill-bench".into(), &1.into()));
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value} is no number in {document}"));

    let throughput = document["throughput"].as_array().unwrap();
    let names: Vec<[&str; 2]> =
        throughput.iter().map(|measured| ["what", "clock"].map(|name| measured[name].as_str().unwrap())).collect();
    assert_eq!(names, [["opening drill", "stepped"], ["random mix", "stepped"], ["random mix", "scaled"]]);
    for measured in throughput {
        let all = ["matched", "diverged", "inconclusive"].map(|name| number(&measured[name]));
        assert_eq!(all.iter().sum::<f64>(), number(&measured["drills"]));
        assert_eq!(number(&measured["diverged"]), 0.0, "{measured}");
        let cpu = measured["cpu"].as_object().unwrap().values().map(number).sum::<f64>();
        assert_eq!(cpu + number(&measured["outer_us"]), number(&measured["cpu_us"]));
        if measured["clock"] == "stepped" {
            assert_eq!(all[0], number(&measured["drills"]), "{measured}");
            // A process can't be had for nothing.
            assert!(number(&measured["cpu"]["workers_user_us"]) > 100.0, "{measured}");
            assert!(number(&measured["per_second"]) > 0.0, "{measured}");
        }
    }

    let latencies = document["latencies"].as_array().unwrap();
    assert_eq!(latencies.len(), 2);
    for latency in latencies {
        let rising = ["p50_us", "p99_us", "p99_9_us", "worst_us"].map(|name| number(&latency[name]));
        assert!(rising.is_sorted() && rising[3] > 0.0 && number(&latency["samples"]) > 0.0, "{latency}");
    }

    let lateness = document["lateness"].as_array().unwrap();
    let speeds: Vec<f64> = lateness.iter().map(|at| number(&at["speed"])).collect();
    assert_eq!(speeds, [10.0, 20.0, 30.0, 60.0]);
    for at in lateness {
        assert!(number(&at["in_time"]) <= number(&at["drills"]), "{at}");
        let parts: Vec<&str> = at["parts"].as_array().unwrap().iter().map(|of| of["part"].as_str().unwrap()).collect();
        assert!(["completion", "admission", "kill"].iter().all(|part| parts.contains(part)), "{at}");
    }
    rig.assert_nothing_left(&Default::default(), "bench");
}

#[test]
fn one_that_is_ended_leaves_nothing() {
    let rig = Rig::new();
    for signal in [Signal::INT, Signal::TERM] {
        let running = rig.start(&mut rig.command(&["bench", "--json"]));
        assert!(eventually(Duration::from_secs(20), || rig.processes().len() > 4), "no drill begins");
        running.signal(signal);
        rig.assert_nothing_left(&Default::default(), "bench");
        let ended = running.wait();
        assert_eq!((ended.signal, ended.stdout.as_str()), (Some(signal.as_raw()), ""));
    }
}
