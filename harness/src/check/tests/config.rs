use super::OK;
use crate::check::{args::Options, config, settings::Seat};

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
        ("after = '1s'", "second_signal"),
        ("env = 'A=b'", "table"),
        ("command = \"a 'b\"", "quotation"),
        ("max_lost = -1", "number"),
    ] {
        let failure = config::parse(text, false).unwrap_err();
        assert!(failure.what.contains(said), "{text}: {failure:?}");
    }
    assert_eq!(config::parse("grac = '1s'", false).unwrap_err().next_step.as_deref(), Some("is \"grace\" meant?"));
    assert!(config::parse("{", true).is_err());
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
