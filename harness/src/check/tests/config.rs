use scenarios::Signal;

use super::{APP, OK, report::record, row};
use crate::{
    check::{args::Options, config, profiles::Target, samples::drill, settings::Seat},
    evidence::Disposition::Caught,
};

#[test]
fn a_configuration_file_says_the_same_in_toml_and_json() {
    let toml = r#"
        command = "gunicorn 'app:app' -w 2"
        as = "pid1"
        grace = "30s"
        signal_at = "ready"
        allow_refused = "10%"
        max_lost = 0
        expect_exit = 0
        request = ["GET /a", { method = "POST", path = "/b", body = "x", headers = { Accept = "*/*" } }]
        [env]
        WORKERS = 2
    "#;
    let json = r#"{"command": ["gunicorn", "app:app", "-w", "2"], "as": "pid1", "grace": "30s", "signal_at": "ready",
        "allow_refused": "10%", "max_lost": 0, "expect_exit": 0, "env": {"WORKERS": "2"},
        "request": ["/a", {"method": "POST", "path": "/b", "body": "x", "headers": {"Accept": "*/*"}}]}"#;
    let (toml, json) = (config::parse(toml, false).unwrap(), config::parse(json, true).unwrap());
    assert_eq!(toml, json);
    let settings = toml.options.settings(toml.command).unwrap();
    assert_eq!((settings.grace_ms, settings.seats.len(), settings.requests.len()), (30_000, 1, 2));
    assert_eq!(settings.policy.expect_exit, Some(OK));
    assert_eq!(settings.env, [("WORKERS".to_owned(), "2".to_owned())]);
}

#[test]
fn a_configuration_file_that_is_wrong_is_told_what_is_wrong() {
    for (text, said) in [
        ("grce = '1s'", "there is no option \"grce\""),
        ("grace = 'soon'", "grace: \"soon\" is not allowed: a time"),
        ("grace = [", "TOML"),
        ("request = ['get']", "GET /path"),
        ("request = [{ path = '/', colour = 'red' }]", "colour"),
        ("port = 0", "1 to 65535"),
        ("profile = 'moon'", "platform"),
        ("profile = 'moon'", "kubernetes"),
        ("as = 'pid2'", "pid1, process or both"),
        ("\n\n grace = 10", "line 3: grace: 10 is not allowed"),
        ("grace = '1s'\n[env]\nA = [1]", "line 2: env: "),
        ("port = 1\n'grac' = '1s'", "line 2: there is no option"),
        ("[env]\n'A=B' = '1'", "\"A=B\" can't be the name"),
        ("[env]\nA = \"\\u0000\"", "zero byte"),
        ("command = [\"a\\u0000\"]", "zero byte"),
        ("cwd = \"a\\u0000\"", "zero byte"),
        ("env = 'A=b'", "table"),
        ("command = \"a 'b\"", "quotation"),
        ("max_lost = -1", "number"),
    ] {
        let failure = config::parse(text, false).unwrap_err();
        assert!(failure.what.contains(said), "{text}: {failure:?}");
    }
    assert_eq!(config::parse("grac = '1s'", false).unwrap_err().next_step.as_deref(), Some("is \"grace\" meant?"));
    assert!(config::parse("{", true).is_err());
    for (text, said) in [
        ("{\n\"grace\": 5}", "line 2: grace: 5 is not"),
        ("{\"env\": {\"port\": \"grace\"},\n \"user\": \"port\",\n\"port\" : 0}", "line 3: port: 0 is not"),
        ("{\"env\": {\"A\": \"\\\"}{\"},\n\"prot\": 0}", "line 2: there is no option \"prot\""),
        ("{\n\n\"gr\\u0061ce\": 5}", "grace: 5 is not"),
    ] {
        let failure = config::parse(text, true).unwrap_err();
        assert!(failure.what.starts_with(said), "{text}: {failure:?}");
    }
}

#[test]
fn a_second_signal_and_its_time_may_come_from_different_places() {
    let at = |profile: Option<&str>, second_signal: Option<Signal>, after: Option<u64>| {
        let options = Options { profile: profile.map(str::to_owned), second_signal, after, ..Options::default() };
        let settings = options.settings(vec!["x".to_owned()]);
        settings.map(|settings| settings.second_signal.map(|second| (second.signal, second.after_ms)))
    };
    for (profile, second, after_ms, meant) in [
        (None, None, None, None),
        (None, Some(Signal::INT), None, Some((Signal::INT, 1000))),
        (None, Some(Signal::INT), Some(300), Some((Signal::INT, 300))),
        (Some("heroku"), None, None, Some((Signal::TERM, 1000))),
        (Some("heroku"), None, Some(300), Some((Signal::TERM, 300))),
        (Some("heroku"), Some(Signal::INT), None, Some((Signal::INT, 1000))),
    ] {
        assert_eq!(at(profile, second, after_ms), Ok(meant), "{profile:?} {second:?} {after_ms:?}");
    }
    assert!(at(None, None, Some(300)).unwrap_err().what.contains("no second_signal"));
    // One stands in the file, the other on the command line.
    let file = config::parse("after = '300ms'", false).unwrap();
    let both = Options { second_signal: Some(Signal::INT), ..Options::default() }.or(file.options);
    assert_eq!(both.settings(vec!["x".to_owned()]).unwrap().second_signal.unwrap().after_ms, 300);
}

#[test]
fn a_header_of_a_request_counts_for_more_than_one_of_all() {
    let text = "request = [{ path = '/a', headers = { Accept = 'a' } }, '/b']\nheader = ['accept: b', 'X: 1', 'X: 2']";
    let settings = config::parse(text, false).unwrap().options.settings(vec!["x".to_owned()]).unwrap();
    let headers: Vec<String> = settings
        .requests
        .iter()
        .map(|request| request.headers.iter().map(|(name, value)| format!("{name}={value} ")).collect())
        .collect();
    assert_eq!(headers, ["Accept=a X=1 X=2 ", "accept=b X=1 X=2 "]);
}

#[test]
fn a_directory_in_a_file_is_one_beside_the_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("app")).unwrap();
    std::fs::write(folder.path().join("app/drill.toml"), "cwd = 'src'").unwrap();
    std::fs::write(folder.path().join("termdrill.json"), "{\"cwd\": \"src\"}").unwrap();
    for (named, cwd) in [(Some("app/drill.toml"), "app/src"), (None, "src")] {
        let file = config::read(named.map(std::path::Path::new), folder.path()).unwrap();
        assert_eq!(file.options.cwd, Some(folder.path().join(cwd)), "{named:?}");
    }
}

#[test]
fn every_option_of_the_command_line_is_one_of_the_file() {
    use clap::Args as _;
    let command = Options::augment_args(clap::Command::new("x"));
    let mut options: Vec<String> =
        command.get_arguments().filter_map(|argument| Some(argument.get_long()?.replace('-', "_"))).collect();
    options.push("command".to_owned());
    options.sort_unstable();
    let mut keys = config::KEYS.map(str::to_owned).to_vec();
    keys.sort_unstable();
    assert_eq!(options, keys);
}

#[test]
fn a_profile_is_what_holds_until_an_option_says_otherwise() {
    let kubernetes = Options { profile: Some("kubernetes".to_owned()), ..Options::default() };
    let settings = kubernetes.clone().settings(vec!["x".to_owned()]).unwrap();
    assert_eq!((settings.grace_ms, &settings.seats[..]), (30_000, &[Seat::Pid1][..]));
    assert!(settings.policy.allow_refused.is_some(), "its routing lag is known, so what is refused is judged");
    let own = Options { grace: Some(5_000), ..kubernetes };
    assert_eq!(own.settings(vec!["x".to_owned()]).unwrap().grace_ms, 5_000);
}

#[test]
fn whom_sigkill_goes_to_is_what_the_platform_says() {
    let whom = |profile: Option<&str>, to: Option<Target>| {
        let options = Options { profile: profile.map(str::to_owned), to, ..Options::default() };
        let settings = options.settings(vec!["x".to_owned()]).unwrap();
        (settings.to, settings.kill_to)
    };
    for (profile, to, both) in [
        (None, None, (Target::Top, Target::Top)),
        (None, Some(Target::All), (Target::All, Target::All)),
        (Some("heroku"), Some(Target::Top), (Target::Top, Target::All)),
        (Some("docker"), Some(Target::All), (Target::All, Target::Top)),
    ] {
        assert_eq!(whom(profile, to), both, "{profile:?} {to:?}");
    }
}

#[test]
fn a_file_that_can_t_be_one() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("binary.json"), [0xff, 0]).unwrap();
    for (name, why) in [
        ("/dev/zero", "longer than the 1048576 bytes"),
        ("binary.json", "the byte at offset 0 is no text"),
        ("missing.toml", "no such file"),
    ] {
        let error = config::read(Some(std::path::Path::new(name)), folder.path()).unwrap_err();
        assert!(error.what.contains(why), "{name}: {}", error.what);
    }
    assert!(config::parse("command = 3", false).unwrap_err().what.contains("a text, or a list of words"));
}

/// A record is kept and passed on: in CI it becomes an artifact.
#[test]
fn a_record_holds_no_secret_that_was_given() {
    let text = "request = [{ path = '/a', headers = { Cookie = 'id=PRIVATE', Accept = 'text/plain' } }]\n\
                slow_request = ['/slow']\nheader = ['authorization: Bearer PRIVATE', 'X-Api-Key: PRIVATE', 'X-Trace: on']\n\
                [env]\nDB_PASSWORD = 'PRIVATE'";
    let settings = config::parse(text, false).unwrap().options.settings(vec!["x".to_owned()]).unwrap();
    assert!(serde_json::to_string(&settings).unwrap().matches("PRIVATE").count() >= 6, "the drill needs them");
    let shown = record(settings, vec![(Seat::Process, drill(false, &[row(APP, Caught, OK, Some(700))]))]);
    let shown = serde_json::to_string(&shown).unwrap();
    assert!(!shown.contains("PRIVATE"), "{shown}");
    for kept in ["DB_PASSWORD", "Cookie", "authorization", "X-Api-Key", "X-Trace\",\"on", "text/plain", "(hidden)"] {
        assert!(shown.contains(kept), "{kept}: {shown}");
    }
}

#[test]
fn a_second_signal_for_which_there_is_no_time_is_refused() {
    let settings = |text: &str| config::parse(text, false).unwrap().options.settings(vec!["x".to_owned()]);
    for text in [
        "grace = '1s'\nsecond_signal = 'INT'",
        "grace = '3s'\nsecond_signal = 'INT'\nafter = '2s'\npre_stop = '1s'",
        "grace = '3s'\nprofile = 'heroku'\nafter = '3s'",
    ] {
        let failure = settings(text).unwrap_err();
        assert!(failure.what.starts_with("the second signal would come"), "{text}: {failure:?}");
    }
    // What the platform sends anyway has no time then.
    for text in ["grace = '1s'\nprofile = 'heroku'", "grace = '1s'\nsecond_signal = 'INT'\nafter = '999ms'"] {
        assert!(settings(text).unwrap().second_signal.is_some(), "{text}");
    }
}

#[test]
fn a_body_that_no_request_takes_is_refused() {
    let settings = |text: &str| config::parse(text, false).unwrap().options.settings(vec!["x".to_owned()]);
    for text in ["data = 'x'", "data = 'x'\nrequest = ['/a', 'DELETE /b']"] {
        assert!(settings(text).unwrap_err().what.contains("no request takes a body"), "{text}");
    }
    for text in ["data = 'x'\nrequest = ['/a', 'PUT /b']", "data = 'x'\nslow_request = ['POST /b']"] {
        let settings = settings(text).unwrap();
        let mut bodies = settings.requests.iter().chain(&settings.slow_requests).filter_map(|r| r.body.as_deref());
        assert_eq!(bodies.next(), Some("x"), "{text}");
    }
}
