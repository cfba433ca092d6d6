//! What can't be drilled is refused with one clear error, and leaves nothing behind.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
    process::Command,
};

use rustix::process::geteuid;

use crate::support::{Ended, Rig, skipped};

/// Checks that nothing was started, stored or left.
fn assert_untouched(rig: &Rig) {
    assert!(fs::read_dir(rig.state()).unwrap().next().is_none(), "something was stored");
    rig.assert_nothing_left(&Default::default(), "refused");
}

fn sh(rig: &Rig, script: &str, arguments: &[&str]) -> Ended {
    let wrapper = ["sh", "-c", script, "sh"].map(OsStr::new);
    rig.run_command(&mut rig.wrapped(&wrapper, arguments))
}

/// Makes a script that is to be started.
fn put_script(rig: &Rig, path: &Path, text: &str, mode: u32) {
    let draft = rig.path("draft");
    fs::write(&draft, text).unwrap();
    rig.put_program(&draft, path);
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_scenario_that_is_none_is_refused() {
    let long = format!(r#"{{"name": "{}", "title": "t", "slots": 1}}"#, "a".repeat(300));
    let rows: [(&[u8], &[&str]); 15] = [
        (b"", &["empty"]),
        (b" \n", &["empty"]),
        (b"hello", &["not JSON"]),
        (b"{\"name\": \"a\"", &["not JSON"]),
        (b"[1, 2]", &["must be a JSON object"]),
        (b"\x7fELF\x02\xff\x00", &["not UTF-8"]),
        (br#"{"name": "a", "title": "t", "grace_period": 3}"#, &["grace_period", "as 3", "mean grace_period_s?"]),
        (br#"{"name": "a", "title": "t", "colour": "red"}"#, &["colour", "\"red\"", "fields are name, title"]),
        (br#"{"name": "a", "title": "t", "grace_period_s": "3"}"#, &["grace_period_s", "\"3\"", "0 to 20"]),
        (br#"{"name": "a", "title": "t", "grace_period_s": 20.1}"#, &["grace_period_s", "20.1", "0 to 20"]),
        (br#"{"name": "a", "title": "t", "grace_period_s": 0.25}"#, &["grace_period_s", "0.25", "0.1"]),
        (br#"{"name": "a", "title": "t", "grace_period_s": 1e400}"#, &["number out of range"]),
        (
            br#"{"name": "a", "title": "t", "slots_per_worker": 1, "slots_per_worker": 2}"#,
            &["slots_per_worker", "more than once"],
        ),
        (br#"{"name": "../../a", "title": "t"}"#, &["name", "../../a"]),
        (long.as_bytes(), &["slots", "slots_per_worker"]),
    ];
    let rig = Rig::new();
    let path = rig.path("scenario.json");
    for (bytes, words) in rows {
        fs::write(&path, bytes).unwrap();
        for command in ["run", "model"] {
            let ended = rig.run(&[command, path.to_str().unwrap()]);
            words.iter().for_each(|word| ended.assert_refused(2, word));
            assert_eq!(ended.stdout, "");
        }
    }
    assert_untouched(&rig);
}

#[test]
fn a_source_that_is_none_is_refused() {
    let rig = Rig::new();
    let path = |name: &str| rig.path(name).to_str().unwrap().to_owned();
    File::create(rig.path("big.json")).unwrap().set_len(100 << 20).unwrap();
    let file_in_the_way = format!("{}/a.json", path("big.json"));
    let rows: [(&[&str], &str); 12] = [
        (&[&path("big.json")], "longer than a scenario can be"),
        (&["/dev/zero"], "longer than a scenario can be"),
        (&[&path("missing.json")], "no such file"),
        (&[&path("cwd")], "is a directory"),
        (&[&file_in_the_way], "not a directory"),
        (&["-"], "empty"),
        (&["ignored-signl"], "did you mean ignored-signal?"),
        (&["qqqqqqqqqq"], "termdrill list"),
        (&["ignored-signal", "--set", "grace_period_s=25"], "grace_period_s: 25"),
        (&["ignored-signal", "--set", "grace=2"], "grace"),
        (&["ignored-signal", "--speed", "1000"], "0.1 to 200"),
        (&["ignored-signal", "--fault", "gremlins"], "wrong_sum"),
    ];
    for (arguments, what) in rows {
        rig.run(&[&["run"], arguments].concat()).assert_refused(2, what);
    }
    assert_untouched(&rig);
}

#[test]
fn an_entrypoint_that_does_not_exist_is_inconclusive() {
    let rig = Rig::new();
    let path = rig.path("scenario.json");
    fs::write(&path, r#"{"name": "a", "title": "t", "entrypoint": ["no-such-init", "{worker}"]}"#).unwrap();
    let drilled = rig.drill(&[path.to_str().unwrap()]);
    assert_eq!(drilled.parsed.verdict.exit_code(), 3);
    assert!(drilled.parsed.reasons.concat().contains("no-such-init"), "{:?}", drilled.parsed.reasons);
    // What it would do is not guessed.
    assert_eq!(drilled.document["expected"]["events"], serde_json::json!([]));
}

#[test]
fn a_place_for_runs_that_is_none_is_refused() {
    let rig = Rig::new();
    fs::write(rig.path("cwd/file"), "").unwrap();
    let cwd = rig.path("cwd").to_str().unwrap().to_owned();
    let at = |out: &str| rig.run(&["run", "ignored-signal", "--out", out]);
    at(&cwd).assert_refused(2, "is not empty");
    at("file").assert_refused(2, "is not a directory");
    at("file/below").assert_refused(2, "is not a directory");
    at("/proc/1/run").assert_refused(3, "no such file");
    if geteuid().is_root() {
        skipped("root may write everywhere");
    } else {
        fs::create_dir(rig.path("closed")).unwrap();
        fs::set_permissions(rig.path("closed"), fs::Permissions::from_mode(0o500)).unwrap();
        at(rig.path("closed/run").to_str().unwrap()).assert_refused(3, "permission denied");
    }
    let mut no_home = rig.command(&["run", "ignored-signal"]);
    rig.run_command(no_home.env_remove("XDG_STATE_HOME")).assert_refused(2, "neither XDG_STATE_HOME nor HOME");
    let mut on_a_file = rig.command(&["run", "ignored-signal"]);
    rig.run_command(on_a_file.env("XDG_STATE_HOME", rig.path("cwd/file"))).assert_refused(3, "not a directory");
    fs::remove_file(rig.path("cwd/file")).unwrap();
    assert_untouched(&rig);
}

/// A check takes its place as a run does.
#[test]
fn a_place_for_a_check_that_is_none_is_refused() {
    let rig = Rig::new();
    fs::write(rig.path("cwd/file"), "").unwrap();
    let cwd = rig.path("cwd").to_str().unwrap().to_owned();
    let at = |out: &str| rig.run(&["check", "--out", out, "--", "true"]);
    for (out, code, what) in [
        (cwd.as_str(), 2, "is not empty"),
        ("file", 2, "is not a directory"),
        ("file/below", 2, "is not a directory"),
        ("/proc/1/check", 3, "no such file"),
    ] {
        at(out).assert_refused(code, what);
    }
    fs::remove_file(rig.path("cwd/file")).unwrap();
    // What is missing on the way is made.
    let made = at("some/where");
    assert_eq!(made.code, Some(3), "{made:?}");
    assert!(rig.path("cwd/some/where/check.json").is_file());
    fs::remove_dir_all(rig.path("cwd/some")).unwrap();
    assert_untouched(&rig);
}

#[test]
fn a_command_that_is_not_there_is_told_where_it_was_looked_for() {
    let rig = Rig::new();
    let script = rig.path("script");
    put_script(&rig, &script, "#!/no/such/interpreter\n", 0o755);
    for (command, what) in [
        ("no-such-server", "there is no program \"no-such-server\" (looked up in PATH)"),
        ("/no/such/server", "there is no program \"/no/such/server\"; correct the path"),
        ("./server", "there is no program \"./server\"; correct the path"),
        (script.to_str().unwrap(), "the interpreter after its #!"),
    ] {
        rig.run(&["check", "--as", "process", "--", command]).assert_refused(2, what);
    }
}

/// With every amount of space left between none and nearly enough.
#[test]
fn a_full_disk_is_one_error() {
    let rig = Rig::new();
    let flags = if geteuid().is_root() { "-m" } else { "-Urm" };
    // A file system of its own that nobody else sees, and that is gone with the command.
    let script = r#"
        mount -t tmpfs -o size=1m none "$XDG_STATE_HOME" || exit 99
        dd if=/dev/zero of="$XDG_STATE_HOME/fill" bs=1k 2>/dev/null
        truncate -s "-$LEFT" "$XDG_STATE_HOME/fill"
        "$@"
        code=$?
        echo "left: $(ls -A "$XDG_STATE_HOME/termdrill/runs")" >&2
        "$1" replay latest >/dev/null 2>&1
        echo "replayed: $?" >&2
        exit "$code""#;
    let wrapper = ["unshare", flags, "sh", "-c", script, "sh"].map(OsStr::new);
    for left in ["0", "4k", "12k", "20k", "32k", "48k", "60k"] {
        let arguments = ["run", "ignored-signal", "--speed", "60", "--attempts", "1"];
        let ended = rig.run_command(rig.wrapped(&wrapper, &arguments).env("LEFT", left));
        if ended.code == Some(99) || ended.stderr.contains("unshare") {
            skipped(&format!("no file system can be mounted here: {}", ended.stderr));
            return;
        }
        ended.assert_refused(3, " hint: ");
        assert!(ended.stderr.contains("space"), "{left}: {}", ended.stderr);
        // What nothing was seen of is no run; anything else says how to look at it.
        let (told, kept) = ended.stderr.split_once("left: ").unwrap();
        if kept.contains("-ignored-signal") {
            assert!(told.contains("; `termdrill replay "), "{left}: {told}");
            assert!(kept.ends_with("replayed: 3\n"), "{left}: {kept}");
        } else {
            assert_eq!(kept, "\nreplayed: 2\n", "{left}");
        }
    }
    assert_untouched(&rig);
}

#[test]
fn output_that_can_not_be_written_is_an_error_and_a_reader_that_has_enough_is_none() {
    let rig = Rig::new();
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    let short = ["run", "signal-at-arrival", "--set", "request_interval_s=40", "--set", "signal_at_s=2"];
    for json in [&[][..], &["--json"]] {
        let running = rig.start_to(&mut rig.command(&[&short, json].concat()), full());
        running.wait().assert_refused(3, "can't write to standard output: no space left on device");
        // Text is told before the drill begins, so there is none; the document after it was stored.
        let stored = rig.run(&["runs"]).stdout;
        assert_eq!(stored.contains("matched"), !json.is_empty(), "{stored}");
        let ended = sh(&rig, "\"$@\" | head -c 1; exit 0", &[&short, json].concat());
        assert_eq!((ended.code, ended.stderr.as_str(), ended.stdout.len()), (Some(0), "", 1));
        let ended = sh(&rig, "exec \"$@\" >&-", &[&short, json].concat());
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
    }
    rig.assert_nothing_left(&Default::default(), "no output");
}

/// With too few descriptors a drill may come to nothing at any place, but never to a divergence or a panic.
#[test]
fn too_few_file_descriptors_are_never_a_divergence() {
    let rig = Rig::new();
    let many = ["run", "ignored-signal", "--speed", "60", "--attempts", "2", "--set", "slots_per_worker=64"];
    let arguments = [&many[..], &["--set", "request_interval_s=0.5"]].concat();
    for limit in [6, 8, 10, 12, 14, 16, 20, 24, 32, 64] {
        let ended = sh(&rig, &format!("ulimit -n {limit}; exec \"$@\""), &arguments);
        assert!(matches!(ended.code, Some(0 | 3)), "{limit}: {ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{limit}: {ended:?}");
        if ended.stdout.is_empty() {
            ended.assert_refused(3, "");
        }
    }
    rig.assert_nothing_left(&Default::default(), "too few descriptors");
}

/// The machine's fault again: requests can't even be sent.
#[test]
fn a_machine_without_loopback_is_inconclusive() {
    let rig = Rig::new();
    let flags = if geteuid().is_root() { "-n" } else { "-Urn" };
    if rig.run_command(Command::new("unshare").args([flags, "true"])).code != Some(0) {
        skipped("no network namespace can be made here");
        return;
    }
    let wrapper = ["unshare", flags].map(OsStr::new);
    let ended = rig.run_command(&mut rig.wrapped(&wrapper, &["run", "ignored-signal", "--speed", "60", "--json"]));
    let parsed = ended.document().parsed;
    assert_eq!(parsed.verdict.exit_code(), 3);
    assert!(parsed.reasons.concat().contains("unreachable"), "{:?}", parsed.reasons);
}

/// Names on the command line and in the environment need not be text.
#[test]
fn any_path_will_do() {
    let rig = Rig::new();
    let path = |name: &[u8]| rig.path("cwd").join(OsStr::from_bytes(name));
    let (scenario, out, report) = (path(b"\xff.json"), path(b"out-\xfe"), path(b"report-\xfd.json"));
    fs::write(&scenario, r#"{"name": "a", "title": "t", "request_interval_s": 40, "signal_at_s": 2}"#).unwrap();
    let run = |command: &mut Command| rig.run_command(command).assert_done();
    let clock = ["--clock", "stepped", "--quiet"];
    run(rig.command(&["model"]).arg(&scenario));
    run(rig.command(&["run"]).arg(&scenario).arg("--out").arg(&out).arg("--report").arg(&report).args(clock));
    assert!(out.join("record.json").is_file() && report.is_file());
    run(rig.command(&["replay"]).arg(&out));
    run(rig.command(&["watch", "--replay"]).arg(&out));
    run(rig.command(&["sweep"]).arg(&scenario).args(["--vary", "grace_period_s=1,2"]).arg("--csv").arg(path(b"\xfc")));
    let state = path(b"state-\xfb");
    let at_home = |arguments: &[&str]| run(rig.command(arguments).env("XDG_STATE_HOME", &state));
    at_home(&["run", "signal-at-arrival", "--clock", "stepped"]);
    let listed = at_home(&["runs", "--json"]);
    assert!(listed.contains("state-\u{fffd}") && listed.contains("matched"), "{listed}");
    at_home(&["replay", "latest"]);
    at_home(&["validate", "signal-at-arrival", "--clock", "stepped"]);
}

/// A name may be longer than a file's.
#[test]
fn a_scenario_with_a_very_long_name_can_be_drilled() {
    let rig = Rig::new();
    let path = rig.path("scenario.json");
    let name = "a".repeat(300);
    let text = format!(
        r#"{{"name": "{name}", "title": "t", "request_interval_s": 40, "signal_at_s": 2, "on_sigterm": "drain"}}"#
    );
    fs::write(&path, text).unwrap();
    rig.drill(&[path.to_str().unwrap()]).assert_matched("a long name");
}

/// What the kernel can't start: the error says what it is and what to do.
#[test]
fn a_command_that_can_t_be_started_is_refused() {
    let rig = Rig::new();
    let file = |name: &str, text: &str, mode| put_script(&rig, &rig.path("cwd").join(name), text, mode);
    file("plain", "#!/bin/sh\n", 0o644);
    file("no-shebang", "echo hello\n", 0o755);
    file("bad-interpreter", "#!/no/such/sh\n", 0o755);
    file("plain-interpreter", &format!("#!{}\n", rig.path("cwd/plain").display()), 0o755);
    fs::create_dir(rig.path("cwd/folder")).unwrap();
    for (command, what) in [
        ("./plain", "chmod +x"),
        ("./plain-interpreter", "interpreter after its #!"),
        ("./no-shebang", "a script needs a first line such as #!/bin/sh"),
        ("./folder", "is a directory"),
        ("./bad-interpreter", "the interpreter after its #!"),
        ("./missing", "correct the path"),
        ("no-such-program-at-all", "looked up in PATH"),
        ("", "the command is empty"),
    ] {
        let ended = rig.run(&["check", "--as", "process", "--", command]);
        ended.assert_refused(2, what);
        assert!(!ended.stderr.contains("os error"), "{}", ended.stderr);
    }
    fs::remove_dir_all(rig.path("cwd")).unwrap();
    fs::create_dir(rig.path("cwd")).unwrap();
    assert_untouched(&rig);
}
