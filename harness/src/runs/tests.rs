//! Runs on a real file system: made at once by many, cut off, read back, listed, found and deleted.

use std::{fs::OpenOptions, io::Write, thread, time::Duration};

use scenarios::{Event, Host, Outcome, ShellBehaviour, Tick, catalogue, expect};
use tempfile::TempDir;

use super::*;
use crate::evidence::{Cause, Evidence, Explanation};
use crate::record::{Attempt, Lateness, Observed, Part, Record};

fn home() -> (TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home { path: folder.path().join("termdrill/runs") };
    (folder, home)
}

fn at(second: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_045 + second)
}

fn record() -> Record {
    let scenario = catalogue::get("ignored-signal").unwrap().clone();
    let expected = expect(&scenario, &Host { shell: ShellBehaviour::Stays, custom: None });
    let observed = |event: &Event| Observed {
        event: *event,
        at_us: i64::from(event.t.0) * 10_000 + 7,
        late_us: 7,
        pid: Some(2),
        note: (event.t == Tick(310)).then(|| "never acknowledged – ünïcode".to_owned()),
    };
    let attempt = |speed: f64| Attempt {
        speed: Some(speed),
        wall_ms: 6_000,
        cut_off_at: None,
        events: expected.events.iter().map(observed).collect(),
        outcome: expected.outcome.clone(),
        lateness: vec![Lateness {
            part: Part::Kill,
            count: 1,
            median_us: 1,
            worst_us: 1,
            allowed_us: 9,
            closest_us: 1,
        }],
        difference: None,
        problems: Vec::new(),
        remarks: vec!["A remark.".to_owned()],
        evidence: Some(Evidence { worker_pid: Some(speed as i32), ..Evidence::default() }),
        explanation: Some(Explanation { cause: Cause::Dropped, text: "It went.".to_owned(), change: None }),
    };
    let attempts = vec![attempt(10.0), attempt(5.0)];
    Record { scenario, expected, attempts, verdict: Verdict::Matched, reasons: vec!["A reason.".to_owned()] }
}

/// Writes a run as it happens, the last attempt up to `events` of it.
fn write(run: &mut RunDir, record: &Record, events: usize, finish: bool) {
    run.write_expected(&record.expected).unwrap();
    let last = record.attempts.len() - 1;
    for (index, attempt) in record.attempts.iter().enumerate() {
        let mut writer = run.begin_attempt(attempt.speed).unwrap();
        fs::write(run.store(), format!("store {index}")).unwrap();
        fs::write(run.worker_log(scenarios::WorkerId(1)), format!("log {index}")).unwrap();
        if let Some(evidence) = &attempt.evidence {
            run.write_evidence(evidence, attempt.explanation.as_ref()).unwrap();
        }
        let events = if index == last { events.min(attempt.events.len()) } else { attempt.events.len() };
        // Not in trace order, as things can come in.
        attempt.events[..events].iter().rev().for_each(|observed| writer.append(observed).unwrap());
        if index < last || finish {
            writer.finish(&attempt.events, &attempt.outcome).unwrap();
        }
    }
    if finish {
        run.finish(record).unwrap();
    }
}

#[test]
fn a_finished_run_reads_back_as_it_was() {
    let (_folder, home) = home();
    let record = record();
    let mut run = home.create(&record.scenario, at(0)).unwrap();
    assert_eq!(run.path(), home.path().join("20260102-030405-ignored-signal"));
    write(&mut run, &record, usize::MAX, true);
    let stored = read(run.path()).unwrap();
    assert_eq!(stored.record, record);
    assert_eq!(stored.state, State::Finished(Verdict::Matched));
    let text = |name: &str| fs::read_to_string(run.path().join(name)).unwrap();
    assert_eq!((text("store-1.sqlite"), text("store.sqlite")), ("store 0".to_owned(), "store 1".to_owned()));
    assert_eq!((text("worker-1-1.log"), text("worker-1.log")), ("log 0".to_owned(), "log 1".to_owned()));
    assert!(text("observed-1.jsonl").lines().last().unwrap().starts_with(r#"{"outcome":"#));
}

#[test]
fn a_run_that_is_cut_off_anywhere_reads_back_up_to_there() {
    let (_folder, home) = home();
    let mut record = record();
    record.attempts.truncate(1);
    let mut run = home.create(&record.scenario, at(0)).unwrap();
    write(&mut run, &record, usize::MAX, false);
    let path = run.path().to_owned();
    assert_eq!(read(&path).unwrap().state, State::Running);
    drop(run);
    let observed = path.join("observed.jsonl");
    let whole = fs::read(&observed).unwrap();
    // Every place that is within a character of more than one byte is among these.
    for length in (0..whole.len()).step_by(41).chain(whole.len() - 400..whole.len()) {
        fs::write(&observed, &whole[..length]).unwrap();
        let stored = read(&path).unwrap();
        assert_eq!(stored.state, State::Unfinished);
        assert_eq!(stored.record.verdict, Verdict::Inconclusive);
        let lines = whole[..length].iter().filter(|&&byte| byte == b'\n').count();
        assert_eq!(stored.record.attempts[0].events.len(), lines.saturating_sub(1), "{length}");
        assert_eq!(stored.record.attempts[0].speed, Some(10.0));
        assert!(stored.record.attempts[0].events.is_sorted_by_key(|observed| observed.event.order()));
    }
    fs::write(&observed, &whole).unwrap();
    let outcome = &read(&path).unwrap().record.attempts[0].outcome;
    assert_eq!(*outcome, Outcome::of(&record.scenario, &record.expected.events));
}

#[test]
fn a_long_name_is_shortened_to_what_a_file_system_takes() {
    let (_folder, home) = home();
    let scenario = Scenario { name: "long-".repeat(60) + "name", ..record().scenario };
    let run = home.create(&scenario, at(0)).unwrap();
    assert_eq!(run.path().file_name().unwrap().len(), "20260102-030405-".len() + 199);
    assert_eq!(home.list().unwrap()[0].state, State::Running);
    assert_eq!(read(run.path()).unwrap().record.scenario, scenario);
}

#[test]
fn damage_is_told_with_the_file() {
    let (_folder, home) = home();
    let record = record();
    let mut run = home.create(&record.scenario, at(0)).unwrap();
    write(&mut run, &record, usize::MAX, true);
    for (name, text) in [("expected.jsonl", "no header\n"), ("record.json", "{"), ("scenario.json", "{}")] {
        let path = run.path().join(name);
        let before = fs::read(&path).unwrap();
        fs::write(&path, text).unwrap();
        let failure = read(run.path()).unwrap_err();
        assert!(failure.what.contains(path.to_str().unwrap()), "{}", failure.what);
        fs::write(&path, before).unwrap();
    }
    assert!(read(home.path()).unwrap_err().what.contains("is not the directory of a run"));
}

#[test]
fn a_decided_run_without_all_of_its_traces_is_damaged() {
    let (_folder, home) = home();
    let record = record();
    let mut run = home.create(&record.scenario, at(0)).unwrap();
    write(&mut run, &record, usize::MAX, true);
    for name in ["expected.jsonl", "observed-1.jsonl", "observed.jsonl"] {
        let path = run.path().join(name);
        let whole = fs::read(&path).unwrap();
        for left in [0, whole.len() / 2, whole.len() - 1] {
            fs::write(&path, &whole[..left]).unwrap();
            let failure = read(run.path()).unwrap_err();
            assert!(failure.what.contains(name) && failure.what.contains("damaged"), "{}", failure.what);
        }
        fs::remove_file(&path).unwrap();
        assert!(read(run.path()).unwrap_err().what.contains(name));
        fs::write(&path, whole).unwrap();
    }
    assert_eq!(read(run.path()).unwrap().record, record);
}

#[test]
fn runs_that_start_at_once_get_directories_of_their_own() {
    let (_folder, home) = home();
    let scenario = record().scenario;
    let mut paths: Vec<PathBuf> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| (0..5).map(|_| home.create(&scenario, at(0)).unwrap().path().to_owned()).collect()))
            .collect();
        threads.into_iter().flat_map(|thread| -> Vec<PathBuf> { thread.join().unwrap() }).collect()
    });
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), 40);
    assert!(paths.contains(&home.path().join("20260102-030405-ignored-signal-40")));
    assert_eq!(home.list().unwrap().len(), 40);
    let links: Vec<_> = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(links.len(), 41, "nothing but the runs and `latest`: {links:?}");
}

#[test]
fn runs_are_listed_newest_first() {
    let (_folder, home) = home();
    assert_eq!(home.list().unwrap(), []);
    let record = record();
    let mut finished = home.create(&record.scenario, at(0)).unwrap();
    write(&mut finished, &record, usize::MAX, true);
    drop(home.create(&record.scenario, at(1)).unwrap());
    let _going_on = home.create(&record.scenario, at(2)).unwrap();
    fs::create_dir(home.path().join("something-else")).unwrap();
    let list = home.list().unwrap();
    let states: Vec<State> = list.iter().map(|listed| listed.state).collect();
    assert_eq!(states, [State::Running, State::Unfinished, State::Finished(Verdict::Matched)]);
    assert_eq!(list[2].gate, Some(Gate::Fail));
    let json = serde_json::to_value(&list[2]).unwrap();
    assert_eq!(json["run"], "20260102-030405-ignored-signal");
    assert_eq!((&json["state"], &json["gate"]), (&"matched".into(), &"fail".into()));
}

#[test]
fn a_run_is_found_by_name_beginning_path_and_latest() {
    let (folder, home) = home();
    assert_eq!(home.find("latest").unwrap_err().what, "no run is stored yet");
    let scenario = record().scenario;
    let first = home.create(&scenario, at(0)).unwrap().path().to_owned();
    let second = home.create(&scenario, at(1)).unwrap().path().to_owned();
    assert_eq!(home.find("latest").unwrap(), second);
    assert_eq!(home.find("20260102-030405-ignored-signal").unwrap(), first);
    assert_eq!(home.find("20260102-030406").unwrap(), second);
    assert_eq!(home.find(first.to_str().unwrap()).unwrap(), first);
    assert!(home.find("2026").unwrap_err().what.contains("beginning of 2 runs"));
    for unknown in ["1999", ""] {
        assert!(home.find(unknown).unwrap_err().what.contains("there is no run"), "{unknown}");
    }
    drop(folder);
}

#[test]
fn what_stands_where_the_link_should_is_told() {
    let (_folder, home) = home();
    let link = home.path().join("latest");
    fs::create_dir_all(&link).unwrap();
    let refused = [home.create(&record().scenario, at(0)).unwrap_err(), home.find("latest").unwrap_err()];
    for failure in refused {
        assert!(failure.what.contains("/runs/latest is not the link"), "{}", failure.what);
        assert!(failure.next_step.unwrap().contains("move it away"));
    }
    assert_eq!(home.list().unwrap(), []);
}

#[test]
fn only_the_newest_runs_are_kept_and_nothing_else_is_touched() {
    let (_folder, home) = home();
    let scenario = record().scenario;
    let going_on = home.create(&scenario, at(0)).unwrap();
    fs::create_dir(home.path().join("19990101-000000-Not_ours")).unwrap();
    fs::create_dir(home.path().join("19990101-000000-no-scenario-in-it")).unwrap();
    for second in 1..=RUNS_KEPT as u64 + 3 {
        drop(home.create(&scenario, at(second)).unwrap());
    }
    let left = |second| home.path().join(format!("{}-ignored-signal", stamp(at(second)))).exists();
    assert!(going_on.path().exists(), "a run that goes on is never deleted");
    let kept: Vec<u64> = (1..=RUNS_KEPT as u64 + 3).filter(|&second| left(second)).collect();
    assert_eq!(kept, (4..=RUNS_KEPT as u64 + 3).collect::<Vec<_>>());
    assert!(home.path().join("19990101-000000-Not_ours").exists());
    assert!(home.path().join("19990101-000000-no-scenario-in-it").exists());
}

#[test]
fn a_directory_of_ones_own_must_be_empty() {
    let (folder, _) = home();
    let scenario = record().scenario;
    let new = folder.path().join("new/deeper");
    let run = RunDir::at(&new, &scenario).unwrap();
    assert_eq!(run.path(), new);
    let again = RunDir::at(&new, &scenario).unwrap_err();
    assert!(again.what.ends_with("is not empty"), "{}", again.what);
    assert_eq!(again.exit_code, 2);
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(RunDir::at(&file, &scenario).unwrap_err().what.ends_with("is not a directory"));
    assert!(RunDir::at(&file.join("x"), &scenario).unwrap_err().what.contains("not a directory"));
    assert!(RunDir::at(Path::new("/proc/termdrill"), &scenario).is_err());
}

#[test]
fn the_home_is_that_of_the_xdg_specification() {
    let home = |state: Option<&str>, home: Option<&str>| {
        Home::from_env(|name| match name {
            "XDG_STATE_HOME" => state.map(OsString::from),
            "HOME" => home.map(OsString::from),
            _ => None,
        })
        .map(|home| home.path().to_str().unwrap().to_owned())
    };
    assert_eq!(home(Some("/s"), Some("/h")).unwrap(), "/s/termdrill/runs");
    assert_eq!(home(None, Some("/h")).unwrap(), "/h/.local/state/termdrill/runs");
    assert_eq!(home(Some("relative"), Some("/h")).unwrap(), "/h/.local/state/termdrill/runs");
    assert_eq!(home(Some(""), Some("/h")).unwrap(), "/h/.local/state/termdrill/runs");
    let nowhere = home(None, Some("")).unwrap_err();
    assert!(nowhere.next_step.unwrap().contains("--out DIR"));
}

/// A reader would wait for ever for a writer of a pipe, and read a device without an end.
#[test]
fn what_is_no_file_keeps_nobody() {
    let (_folder, home) = home();
    let record = record();
    let mut run = home.create(&record.scenario, at(0)).unwrap();
    write(&mut run, &record, usize::MAX, true);
    let path = run.path().to_owned();
    drop(run);
    for name in [file::SCENARIO, file::RECORD, file::EXPECTED, file::OBSERVED, file::ATTEMPTS, file::EVIDENCE] {
        let (file, aside) = (path.join(name), path.join("aside"));
        fs::rename(&file, &aside).unwrap();
        for spoil in [make_pipe as fn(&Path), make_endless, make_directory] {
            spoil(&file);
            let failure = read(&path).unwrap_err();
            assert!(failure.what.contains(path.to_str().unwrap()), "{name}: {}", failure.what);
            let state = home.list().unwrap()[0].state;
            let expected = if name == file::RECORD { State::Unreadable } else { State::Finished(Verdict::Matched) };
            assert_eq!(state, expected, "{name}");
            let _ = fs::remove_file(&file);
            let _ = fs::remove_dir(&file);
        }
        fs::rename(&aside, &file).unwrap();
    }
    // Whether a run goes on is asked of its first file.
    fs::remove_file(path.join(file::RECORD)).unwrap();
    fs::remove_file(path.join(file::SCENARIO)).unwrap();
    make_pipe(&path.join(file::SCENARIO));
    assert_eq!(home.list().unwrap()[0].state, State::Unfinished);
}

fn make_pipe(path: &Path) {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
}

fn make_endless(path: &Path) {
    unix::fs::symlink("/dev/zero", path).unwrap();
}

fn make_directory(path: &Path) {
    fs::create_dir(path).unwrap();
}

#[test]
fn a_record_that_is_damaged_is_not_listed_as_a_run_that_broke_off() {
    let (_folder, home) = home();
    let record = record();
    let mut run = home.create(&record.scenario, at(0)).unwrap();
    write(&mut run, &record, usize::MAX, true);
    let file = run.path().join(file::RECORD);
    let whole = fs::read(&file).unwrap();
    for damaged in [&b""[..], b"\xff\x00", &whole[..whole.len() / 2], br#"{"format":"else","version":1}"#] {
        fs::write(&file, damaged).unwrap();
        let listed = &home.list().unwrap()[0];
        assert_eq!((listed.state, listed.gate), (State::Unreadable, None));
        let failure = read(run.path()).unwrap_err();
        assert!(failure.what.contains("record.json") && failure.next_step.is_some(), "{failure:?}");
    }
}

#[test]
fn a_run_of_which_nothing_was_seen_is_taken_back() {
    let (folder, home) = home();
    let record = record();
    let latest = || home.find("latest").ok();
    let entries = |path: &Path| fs::read_dir(path).unwrap().count();

    // The only one there is; then one after another one, which is the latest again.
    assert_eq!(home.create(&record.scenario, at(0)).unwrap().break_off(), None);
    assert_eq!((latest(), entries(home.path())), (None, 0));
    let first = home.create(&record.scenario, at(1)).unwrap();
    let mut second = home.create(&record.scenario, at(2)).unwrap();
    write(&mut second, &Record { attempts: record.attempts[..1].to_vec(), ..record.clone() }, 0, false);
    let third = home.create(&record.scenario, at(3)).unwrap();
    assert_eq!(second.break_off(), None);
    assert_eq!(latest().as_deref(), Some(third.path()), "another one has become the latest meanwhile");
    assert_eq!(third.break_off(), None);
    assert_eq!(latest().as_deref(), Some(first.path()));
    assert_eq!(entries(home.path()), 2, "the run and the link");

    // One of which something was seen stays, and is told how to find.
    let mut seen = home.create(&record.scenario, at(4)).unwrap();
    write(&mut seen, &record, 1, false);
    let path = seen.path().to_owned();
    assert_eq!(seen.break_off().as_deref(), path.file_name().unwrap().to_str());
    assert_eq!(latest(), Some(path));

    // A directory of a person's own stays, one that was made for the run does not.
    let own = folder.path().join("own");
    fs::create_dir(&own).unwrap();
    assert_eq!(RunDir::at(&own, &record.scenario).unwrap().break_off(), None);
    assert_eq!(entries(&own), 0);
    let new = folder.path().join("new");
    assert_eq!(RunDir::at(&new, &record.scenario).unwrap().break_off(), None);
    assert!(!new.exists());
    let mut kept = RunDir::at(&new, &record.scenario).unwrap();
    write(&mut kept, &record, 3, false);
    assert_eq!(kept.break_off().as_deref(), new.to_str());
}

#[test]
fn a_full_disk_is_told_with_the_next_step() {
    let mut full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let error = full.write_all(b"x").unwrap_err();
    let failure = Failure::of_io("write", Path::new("x"), &error);
    assert!(failure.next_step.unwrap().contains("free some space"));
    assert_eq!(failure.exit_code, 3);
}
