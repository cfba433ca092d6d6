//! `termdrill validate` and `merge`: volume, shards, what diverges, and what is left when one is ended.

use std::{fs, path::Path, time::Duration};

use harness::{
    cli::ClockChoice,
    record::Verdict,
    validate::{
        item::Judged,
        report::{Document, FORMAT},
        shrink::changed_fields,
    },
};
use quick_xml::{Reader, events::Event};
use rustix::process::Signal;
use scenarios::Scenario;
use worker::clock;

use crate::support::{Draws, Ended, PATIENCE, Rig, Running, STEPPED, eventually};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The document that a validation, or a merge, has printed.
fn document(ended: &Ended) -> Document {
    let document: Document =
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("no document: {error}: {ended:?}"));
    assert_eq!(ended.code, Some(i32::from(document.summary.verdict().exit_code())), "{ended:?}");
    document
}

fn validate(rig: &Rig, arguments: &[&str]) -> (Document, Ended) {
    let ended = rig.run(&[&["validate", "--json"], arguments, &STEPPED].concat());
    (document(&ended), ended)
}

/// What came of each drill, without how long it took.
fn verdicts(document: &Document) -> Vec<(usize, String, Verdict, usize)> {
    let of = |judged: &Judged| (judged.number, judged.name.clone(), judged.verdict, judged.events);
    document.results.iter().map(of).collect()
}

#[test]
fn generated_scenarios_match_and_shards_make_the_whole() {
    let rig = Rig::new();
    let out = rig.path("whole");
    let random = ["--random", "60", "--seed", "1"];
    let (whole, ended) = validate(&rig, &[&random[..], &["--out", text(&out)]].concat());
    assert!(ended.stderr.starts_with("seed 1\n60 drills on the stepped clock\n"), "{ended:?}");
    assert_eq!((whole.format.as_str(), whole.seed, whole.planned, whole.shard), (FORMAT, Some(1), 60, [1, 1]));
    assert_eq!((whole.summary.matched, whole.summary.stepped, whole.summary.scaled), (60, 60, 0));
    assert!(whole.summary.cpu_ms > 0);
    for (number, judged) in whole.results.iter().enumerate() {
        assert_eq!((judged.number, judged.clock), (number, ClockChoice::Stepped));
        assert_eq!((judged.verdict, judged.attempts), (Verdict::Matched, 1), "{judged:?}");
        assert!(judged.events > 0 && judged.cpu.is_some(), "{judged:?}");
    }
    let stored: Document = serde_json::from_slice(&fs::read(out.join("summary.json")).unwrap()).unwrap();
    assert_eq!(stored, whole);
    let names: Vec<String> =
        fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.starts_with("lane-")), "{names:?}");

    let mut files = Vec::new();
    for shard in ["1/2", "2/2"] {
        let (part, ended) = validate(&rig, &[&random[..], &["--shard", shard]].concat());
        assert_eq!((part.results.len(), part.planned), (30, 60));
        files.push(rig.path(&format!("part-{}", files.len())));
        fs::write(files.last().unwrap(), ended.stdout).unwrap();
    }
    let merged = document(&rig.run(&["merge", "--json", text(&files[1]), text(&files[0])]));
    assert_eq!(verdicts(&merged), verdicts(&whole));
    assert_eq!(merged.summary.matched, 60);
    // All that is there matched, but a shard is missing.
    let told = rig.run(&["merge", text(&files[0])]);
    assert_eq!(told.code, Some(3));
    assert!(told.stdout.contains("30 of 60 drills are in none of the files"), "{told:?}");
    rig.run(&["merge", text(&files[0]), text(&files[0])]).assert_refused(2, "is in several of them");
    rig.assert_nothing_left(&Default::default(), "validate");
}

#[test]
fn junit_is_xml_with_a_case_for_every_drill() {
    let rig = Rig::new();
    let (path, deaf) = (rig.path("junit.xml"), wrong_effect(&rig));
    let names = ["ignored-signal", "handler-grace-10", text(&deaf)];
    let (document, _) = validate(&rig, &[&names[..], &["--junit", text(&path)]].concat());
    assert_eq!(document.summary.verdict(), Verdict::Diverged);
    let xml = fs::read_to_string(&path).unwrap();
    let mut reader = Reader::from_str(&xml);
    let (mut cases, mut failures, mut suites) = (Vec::new(), 0, Vec::new());
    loop {
        let event = reader.read_event().unwrap();
        match event {
            Event::Eof => break,
            Event::Start(ref tag) | Event::Empty(ref tag) => {
                let value = |name: &str| {
                    let attribute = tag.try_get_attribute(name).unwrap()?;
                    Some(attribute.value.into_owned())
                };
                match tag.name().as_ref() {
                    "testsuite" => suites.push(["tests", "failures", "errors"].map(|name| value(name).unwrap())),
                    "testcase" => cases.push(value("name").unwrap()),
                    "failure" => failures += usize::from(value("message").is_some_and(|what| !what.is_empty())),
                    other => panic!("{other}"),
                }
            }
            _ => {}
        }
    }
    assert_eq!(suites, [["3", "1", "0"].map(str::to_owned)]);
    assert_eq!(cases, ["ignored-signal", "handler-grace-10", "wrong-effect"]);
    assert_eq!(failures, 1);
}

/// A scenario that says of its entrypoint what is not so, among other things that have nothing to do with that.
fn wrong_effect(rig: &Rig) -> std::path::PathBuf {
    let path = rig.path("wrong-effect.json");
    let scenario = r#"{
        "name": "wrong-effect", "title": "A declaration that is wrong", "entrypoint": ["env", "{worker}"],
        "expected_effect": "orphaned", "pid_namespace": false, "on_sigterm": "drain", "initial_workers": 2,
        "grace_period_s": 7, "invocation_s": 3.5, "boot_replacement": true
    }"#;
    fs::write(&path, scenario).unwrap();
    path
}

#[test]
fn what_diverges_is_shrunk_to_a_file_that_diverges() {
    let rig = Rig::new();
    let (path, out) = (wrong_effect(&rig), rig.path("out"));
    let (document, ended) = validate(&rig, &[text(&path), "ignored-signal", "--out", text(&out)]);
    assert_eq!(ended.code, Some(1));
    let found: Vec<Verdict> = document.results.iter().map(|judged| judged.verdict).collect();
    assert_eq!(found, [Verdict::Diverged, Verdict::Matched]);
    let difference = document.results[0].difference.as_ref().unwrap();
    assert!(difference.what.contains("worker-1"), "{difference:?}");

    let shrunk = out.join("shrunk-wrong-effect.json");
    assert!(ended.stderr.contains(text(&shrunk)), "{ended:?}");
    let smallest = Scenario::from_bytes(&fs::read(&shrunk).unwrap()).unwrap();
    // What is left has everything to do with it.
    let fields = changed_fields(&smallest);
    assert!(fields.contains(&"entrypoint") && fields.contains(&"expected_effect"), "{fields:?}");
    assert!(fields.len() <= 3, "{fields:?}");
    let drilled = rig.drill(&[&[text(&shrunk)], &STEPPED[..]].concat());
    assert_eq!(drilled.parsed.verdict, Verdict::Diverged, "{:?}", drilled.parsed.reasons);
    rig.assert_nothing_left(&Default::default(), "shrunk");
}

/// How a validation is ended.
#[derive(Clone, Copy, Debug)]
enum End {
    Keyboard,
    Outer(Signal),
}

impl End {
    fn befalls(self, running: &Running) {
        match self {
            End::Keyboard => running.signal_group(Signal::INT),
            End::Outer(signal) => running.signal(signal),
        }
    }

    fn signal(self) -> Signal {
        match self {
            End::Keyboard => Signal::INT,
            End::Outer(signal) => signal,
        }
    }
}

/// When it is ended.
#[derive(Clone, Copy, Debug)]
enum When {
    /// So long after its start.
    After(Duration),
    /// As soon as so many drills are over.
    Over(usize),
}

#[test]
fn one_that_is_ended_at_any_moment_leaves_nothing_and_goes_on_where_it_was() {
    let ends = [End::Keyboard, End::Outer(Signal::TERM), End::Outer(Signal::KILL)];
    let mut draws = Draws(20260105);
    let rig = Rig::new();
    let random = ["--random", "40", "--seed", "3"];
    let (whole, _) = validate(&rig, &random);
    let mut in_the_middle = 0;
    for round in 0..9 {
        let (end, out) = (ends[round % ends.len()], rig.path(&format!("out-{round}")));
        let arguments = [&["validate", "--json", "--jobs", "3", "--out", text(&out)], &random[..], &STEPPED].concat();
        let running = rig.start(&mut rig.command(&arguments));
        let judged = || fs::read_to_string(out.join("results.jsonl")).map_or(0, |text| text.lines().count());
        // Each of them once at a moment that may be before the first drill, or after the last.
        let when = match round < ends.len() {
            true => When::After(Duration::from_micros(draws.below(700_000))),
            false => When::Over(1 + usize::try_from(draws.below(16)).unwrap()),
        };
        match when {
            When::After(time) => clock::block_for(time),
            When::Over(count) => {
                assert!(eventually(PATIENCE, || judged() >= count || running.has_ended(Duration::ZERO)), "{when:?}");
            }
        }
        let what = format!("{end:?} {when:?}");
        end.befalls(&running);
        rig.assert_nothing_left(&Default::default(), &what);
        let ended = running.wait();
        if ended.code == Some(0) {
            continue;
        }
        assert_eq!(ended.signal, Some(end.signal().as_raw()), "{what}: {ended:?}");
        if !out.join("plan.json").exists() {
            rig.run(&["validate", "--resume", text(&out)]).assert_refused(2, "no such file");
            continue;
        }
        let results = || -> Vec<Judged> {
            let lines = fs::read_to_string(out.join("results.jsonl")).unwrap_or_default();
            lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
        };
        let before = results();
        in_the_middle += usize::from(!before.is_empty() && before.len() < 40);
        let ended = rig.run(&["validate", "--json", "--resume", text(&out)]);
        assert_eq!(verdicts(&document(&ended)), verdicts(&whole), "{what}");
        assert_eq!(results()[..before.len()], before, "{what}: what was known is not drilled again");
        assert!(before.is_empty() || ended.stderr.contains(&format!("; {} are done already", before.len())));
    }
    assert!(in_the_middle >= 2, "only {in_the_middle} in the middle");
}

/// What goes on is for a terminal: a pipe gets what came of it.
#[test]
fn a_drill_that_matched_is_no_line_in_a_pipe() {
    let rig = Rig::new();
    let two = ["validate", "ignored-signal", "handler-grace-20", "--clock", "stepped"];
    let lines = |arguments: &[&str]| {
        let ended = rig.run(arguments);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
        ended.stdout.lines().filter(|line| line.contains("ignored-signal")).count()
    };
    assert_eq!(lines(&two), 0);
    assert_eq!(lines(&[&two[..], &["-v"]].concat()), 1);
}

#[test]
fn what_can_not_be_validated_is_refused() {
    let rig = Rig::new();
    for name in ["full", "nonsense"] {
        fs::create_dir(rig.path(name)).unwrap();
    }
    fs::write(rig.path("full/file"), "").unwrap();
    fs::write(rig.path("nonsense/plan.json"), "{}").unwrap();
    let [full, nonsense, missing] = ["full", "nonsense", "missing"].map(|name| text(&rig.path(name)).to_owned());
    let rows: [(&[&str], &str); 15] = [
        (&["--shard", "3/2"], "K from 1 to N"),
        (&["--shard", "0/2"], "K from 1 to N"),
        (&["--shard", "half"], "K from 1 to N"),
        (&["--jobs", "0"], "from 1 to 256"),
        (&["--random", "-1"], "-1"),
        (&["--random", "1000001"], "1000000"),
        (&["--repeat", "0"], "1..=100000"),
        (&["--speed", "1000"], "0.1 to 200"),
        (&["--attempts", "9"], "1..=5"),
        (&["--clock", "sundial"], "stepped"),
        (&["ignored-signl"], "did you mean ignored-signal?"),
        (&["ignored-signal", "--out", &full], "is not empty"),
        (&["--resume", &missing], "no such file"),
        (&["--resume", &nonsense], "not the plan of a validation"),
        (&["--resume", &nonsense, "--random", "3"], "cannot be used with"),
    ];
    for (arguments, what) in rows {
        rig.run(&[&["validate"], arguments].concat()).assert_refused(2, what);
    }
    rig.run(&["merge", &missing]).assert_refused(2, "no such file");
    rig.run(&["merge", text(&rig.path("nonsense/plan.json"))]).assert_refused(2, "not a validation");
    assert!(fs::read_dir(rig.state()).unwrap().next().is_none(), "something was stored");
    rig.assert_nothing_left(&Default::default(), "refused");
}
