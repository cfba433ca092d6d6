//! What a check prints and writes, of real drills.

use std::fs;

use harness::check::record::Record;

use super::server;
use crate::support::Rig;

/// The same as in the README, in both seats: it fits a screen of 24 lines with the next prompt.
#[test]
fn the_example_fits_one_screen() {
    let rig = Rig::new();
    let command = server::command();
    let mut words = vec!["check", "--grace", "1s", "--signal-at", "500ms", "--slow-request", "/slow", "--"];
    words.extend(command.iter().map(String::as_str));
    for habits in ["ignore=1", "linger=0"] {
        let ended = rig.run_command(rig.command(&words).env(server::HABITS, habits).env("COLUMNS", "80"));
        assert_eq!(ended.stderr, "");
        assert!(ended.stdout.lines().count() <= 23, "{}", ended.stdout);
        assert!(ended.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ended.stdout);
        for label in ["signal    ", "more      ", "as PID 1", "as an ordinary process"] {
            assert!(ended.stdout.contains(label), "{label}: {}", ended.stdout);
        }
    }
}

/// A report that can't be written costs neither what was found nor its exit status.
#[test]
fn what_was_found_is_shown_where_its_report_can_t_be_written() {
    for (habits, verdict, code) in [("every=1 how=close", "FAIL", 1), ("linger=0", "PASS", 3)] {
        let rig = Rig::new();
        let folder = rig.path("reports");
        fs::create_dir(&folder).unwrap();
        // It is there when the check begins, and gone when it ends.
        let line = shlex::try_join(server::command().iter().map(String::as_str)).unwrap();
        let line = format!("rmdir {} && exec {line}", folder.display());
        let [lost, kept] = [folder.join("a.json"), rig.path("b.json")].map(|path| path.display().to_string());
        let options = ["check", "--quiet", "--as", "process", "--signal-at", "300ms", "--routing-lag", "0"];
        let words = [&options[..], &["--report", &lost, "--report", &kept, "--", "sh", "-c", &line]].concat();
        let ended = rig.run_command(rig.command(&words).env(server::HABITS, habits));
        assert!(ended.stdout.contains(verdict), "{ended:?}");
        assert!(ended.stderr.contains("can't write the report") && ended.stderr.contains(&lost), "{ended:?}");
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(fs::exists(&kept).unwrap(), "{ended:?}");
    }
}

#[test]
fn reports_are_of_the_same_check() {
    let rig = Rig::new();
    let command = server::command();
    let [html, json, xml] = ["a.html", "a.json", "a.xml"].map(|name| rig.path(name));
    let files = [&html, &json, &xml].map(|path| path.to_str().unwrap());
    let mut words = vec!["check", "--quiet", "--as", "process", "--signal-at", "300ms", "--grace", "2s", "--cwd", "/"];
    files.iter().for_each(|file| words.extend(["--report", file]));
    words.push("--");
    words.extend(command.iter().map(String::as_str));
    let ended = rig.run_command(rig.command(&words).env(server::HABITS, "linger=0"));
    let read = |path| fs::read_to_string(path).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    let record: Record = serde_json::from_str(&read(&json)).unwrap();
    let (page, junit) = (read(&html), read(&xml));
    assert_eq!(ended.code, Some(i32::from(record.verdict.exit_code())));
    assert!(page.contains(&format!(">{}</span> check of <code>", record.verdict.word())), "{page}");
    assert_eq!(page.matches("<tr class=").count(), record.seats[0].observed.requests.len());
    assert!(junit.contains("<testsuite "), "{junit}");
}
