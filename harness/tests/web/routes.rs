//! What every route answers.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    time::Duration,
};

use rustix::process::Signal;
use scenarios::{Event, FIELDS, Outcome, View, catalogue};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    client::Answer,
    server::Server,
    support::{Rig, eventually},
};

/// What holds for every answer, good or bad.
fn assert_guarded(answer: &Answer, what: &str) {
    let policy = answer.header("content-security-policy").unwrap_or_else(|| panic!("{what}: {answer:?}"));
    for rule in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"] {
        assert!(policy.contains(rule), "{what}: {policy}");
    }
    assert!(!policy.contains("unsafe"), "{what}: {policy}");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{what}");
    assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{what}");
    let allowing: Vec<_> = answer.headers.iter().filter(|(name, _)| name.starts_with("access-control-")).collect();
    assert_eq!(allowing, [] as [&(String, String); 0], "{what}");
}

#[test]
fn the_page_and_its_files() {
    let server = Server::start(&[]);
    let page = server.client.get("/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_guarded(&page, "/");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/assets");
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let media_type = match name.rsplit_once('.').unwrap().1 {
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "html" => continue,
            other => panic!("what is a {other}?"),
        };
        let path = format!("/{name}");
        let file = server.client.get(&path);
        assert_eq!((file.status, file.header("content-type")), (200, Some(media_type)), "{path}");
        assert_guarded(&file, &path);
        let tag = file.header("etag").unwrap().to_owned();
        let known = server.client.request("GET", &path, &[("If-None-Match", &tag)], "");
        assert_eq!((known.status, known.body.as_str()), (304, ""), "{path}");
    }
    let head = server.client.request("HEAD", "/", &[], "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

/// The policy allows none of it, so a page that has some is broken.
#[test]
fn the_page_holds_no_script_and_no_style_of_its_own() {
    let server = Server::start(&[]);
    let page = server.client.get("/").body;
    for tag in page.split('<').filter(|tag| !tag.starts_with('/')) {
        let tag = tag.split('>').next().unwrap();
        assert!(!tag.starts_with("style"), "<{tag}>");
        assert!(!tag.starts_with("script") || tag.contains("src=\"/"), "<{tag}>");
        for attribute in tag.split(' ').skip(1) {
            assert!(!attribute.starts_with("on") || !attribute.contains('='), "<{tag}>");
            assert!(!attribute.starts_with("style="), "<{tag}>");
        }
        let outside = ["src=\"http", "href=\"http", "src=\"//"].into_iter().any(|outside| tag.contains(outside));
        assert!(!outside || tag.starts_with("a "), "<{tag}> loads something from elsewhere");
    }
}

#[test]
fn every_field_and_preset_is_told() {
    let server = Server::start(&["--speed", "20"]);
    let answer = server.client.get("/api/fields");
    assert_guarded(&answer, "/api/fields");
    let table = answer.json();
    let names = |list: &str| -> Vec<String> {
        table[list].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("fields"), FIELDS.iter().map(|field| field.name).collect::<Vec<_>>());
    assert_eq!(names("presets"), catalogue::all().iter().map(|scenario| scenario.name.clone()).collect::<Vec<_>>());
    for (preset, scenario) in table["presets"].as_array().unwrap().iter().zip(catalogue::all()) {
        assert_eq!(preset["scenario"], serde_json::to_value(scenario).unwrap());
    }
    assert_eq!(table["speed"], json!({ "min": 0.1, "max": 200.0, "default": 20.0 }));
    assert_eq!(table["allow_commands"], json!(false));
}

#[derive(Deserialize)]
struct Model {
    scenario: Value,
    events: Vec<Event>,
    outcome: Outcome,
    #[serde(default)]
    view: Value,
}

/// For every scenario of the catalogue, on this machine.
#[test]
fn the_model_answers_what_the_command_line_says() {
    let server = Server::start(&["--allow-commands"]);
    for scenario in catalogue::all() {
        let name = &scenario.name;
        let answer = server.client.post("/api/model", &json!({ "scenario": scenario }));
        let said = server.rig.run(&["model", name, "--json"]);
        if said.code == Some(2) {
            answer.assert_error(400, "can't know");
            assert_eq!(answer.json()["problems"][0]["field"], "expected_effect");
            continue;
        }
        assert_eq!(answer.status, 200, "{name}: {answer:?}");
        let [model, said]: [Model; 2] = [&answer.body, &said.stdout]
            .map(|text| serde_json::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}")));
        assert_eq!(model.view, serde_json::to_value(View::new(scenario, &said.events)).unwrap(), "{name}");
        assert_eq!((model.scenario, model.events, model.outcome), (said.scenario, said.events, said.outcome), "{name}");
    }
    assert!(!server.rig.state().join("termdrill").exists(), "the model starts nothing");
}

#[test]
fn what_is_not_there_is_told_in_json() {
    let server = Server::start(&[]);
    for (method, path, status) in [
        ("GET", "/nothing", 404),
        ("GET", "/api/nothing", 404),
        ("GET", "/api/runs/nothing", 404),
        ("GET", "/api/runs/nothing/events", 404),
        ("GET", "/api/runs/latest", 404),
        ("GET", "/api/runs/..", 404),
        ("GET", "/api/runs/..%2f..%2f..", 404),
        ("GET", "/api/runs/%00", 404),
        ("GET", "/../../etc/passwd", 404),
        ("POST", "/api/runs/nothing/cancel", 404),
        ("DELETE", "/api/runs/nothing", 405),
        ("GET", "/api/runs/%ff", 404),
        ("GET", "/api/runs/%ff/events", 404),
        ("POST", "/api/runs/%ff/cancel", 404),
        ("GET", "/api/model", 405),
        ("DELETE", "/api/runs", 405),
        ("POST", "/", 405),
        ("OPTIONS", "/api/runs", 405),
        ("TRACE", "/", 405),
    ] {
        let headers: &[(&str, &str)] = if method == "POST" { &[("Content-Type", "application/json")] } else { &[] };
        let answer = server.client.request(method, path, headers, "{}");
        answer.assert_error(status, "");
        assert_guarded(&answer, path);
    }
}

#[test]
fn an_address_that_can_not_be_had_is_told() {
    let server = Server::start(&[]);
    let rig = Rig::new();
    let taken = rig.run(&["serve", "--listen", &server.client.0.to_string()]);
    taken.assert_refused(3, "address already in use");
    assert!(taken.stderr.contains("--listen"), "{}", taken.stderr);
    let remote = rig.run(&["serve", "--listen", "0.0.0.0:0"]);
    remote.assert_refused(2, "can be reached from other machines");
    assert!(remote.stderr.contains("--allow-remote"), "{}", remote.stderr);
    for nowhere in ["example.org:0", "localhost", "localhost:70000", ":0", "7071"] {
        rig.run(&["serve", "--listen", nowhere]).assert_refused(2, "such as 127.0.0.1:7071 or [::1]:0");
    }
    // A name that every machine has for itself.
    let address = server.client.0.to_string().replace("127.0.0.1", "localhost");
    rig.run(&["serve", "--listen", &address]).assert_refused(3, "127.0.0.1:");
    // A test network that no machine has (RFC 5737).
    rig.run(&["serve", "--allow-remote", "--listen", "192.0.2.1:0"]).assert_refused(3, "192.0.2.1:0");
}

/// A PATH that begins with `folder`, in which `script` is what opens a browser.
pub(crate) fn with_opener(folder: &Path, script: &str) -> String {
    fs::create_dir(folder).unwrap();
    let opener = folder.join("xdg-open");
    fs::write(&opener, script).unwrap();
    fs::set_permissions(&opener, Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

#[test]
fn the_page_is_opened_in_a_browser() {
    let rig = Rig::new();
    let opened = rig.path("opened");
    let path = with_opener(&rig.path("bin"), &format!("#!/bin/sh\necho \"$1\" > {}\n", opened.display()));
    let mut command = rig.command(&["serve", "--open", "--listen", "127.0.0.1:0"]);
    let running = rig.start(command.env("PATH", path));
    let server = Server::started(rig, running);
    let asked = || fs::read_to_string(&opened).is_ok_and(|text| text.ends_with("/\n"));
    assert!(eventually(Duration::from_secs(20), asked));
    assert_eq!(fs::read_to_string(&opened).unwrap(), format!("http://{}/\n", server.client.0));
}

/// Without one it is told what to do, and the server is of use all the same.
#[test]
fn where_no_browser_can_be_opened_that_is_told() {
    let rig = Rig::new();
    let mut command = rig.command(&["serve", "--open", "--listen", "127.0.0.1:0"]);
    let running = rig.start(command.env("PATH", rig.path("cwd")));
    let server = Server::started(rig, running);
    assert_eq!(server.client.get("/api/fields").status, 200);
    server.running.signal(Signal::TERM);
    let stderr = server.running.wait().stderr;
    assert!(stderr.starts_with("warning: no browser can be opened"), "{stderr}");
}
