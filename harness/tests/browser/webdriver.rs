//! As much of the WebDriver protocol (W3C, "WebDriver") as the tests need, and two commands of chromedriver's own.

use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

use crate::support::PATIENCE;

/// The name of the reference to an element in WebDriver's JSON.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// The keys that have no character of their own.
pub(crate) mod key {
    pub(crate) const SHIFT: char = '\u{e008}';
    pub(crate) const CONTROL: char = '\u{e009}';
    pub(crate) const TAB: char = '\u{e004}';
    pub(crate) const ENTER: char = '\u{e007}';
    pub(crate) const END: char = '\u{e010}';
    pub(crate) const HOME: char = '\u{e011}';
    pub(crate) const LEFT: char = '\u{e012}';
    pub(crate) const UP: char = '\u{e013}';
    pub(crate) const RIGHT: char = '\u{e014}';
    pub(crate) const DOWN: char = '\u{e015}';
    pub(crate) const BACKSPACE: char = '\u{e003}';
}

/// A browser of its own, driven by chromedriver.
#[derive(Debug)]
pub(crate) struct Session {
    agent: Agent,
    url: String,
}

/// A line of the browser's console.
#[derive(Debug)]
pub(crate) struct LogLine {
    pub(crate) level: String,
    pub(crate) message: String,
}

impl Session {
    /// Starts a browser with the profile in this folder.
    ///
    /// # Errors
    /// What chromedriver says when it can't.
    pub(crate) fn start(driver: &str, profile: &str) -> Result<Session, String> {
        let agent: Agent =
            Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE)).build().into();
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            // It ends with the pipe, and so with chromedriver, whatever that ends of.
            "--remote-debugging-pipe",
            "--window-size=1280,1000",
            &format!("--user-data-dir={profile}"),
        ];
        let capabilities = json!({
            "browserName": "chrome",
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "args": arguments },
        });
        let body = json!({ "capabilities": { "alwaysMatch": capabilities } });
        let answer = request(&agent, &format!("{driver}/session"), Some(&body))?;
        let id = answer["sessionId"].as_str().ok_or("the answer has no sessionId")?;
        Ok(Session { url: format!("{driver}/session/{id}"), agent })
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.try_post(path, body).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn try_post(&self, path: &str, body: &Value) -> Result<Value, String> {
        request(&self.agent, &format!("{}{path}", self.url), Some(body))
    }

    fn get(&self, path: &str) -> Value {
        request(&self.agent, &format!("{}{path}", self.url), None).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Ends the browser.
    pub(crate) fn end(&self) {
        // One that has crashed is gone already.
        let _ = self.agent.delete(&self.url).call();
    }

    pub(crate) fn go(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    pub(crate) fn reload(&self) {
        self.post("/refresh", &json!({}));
    }

    /// Runs the body of a function in the page; what it returns, or what the promise that it returns comes to.
    pub(crate) fn execute(&self, script: &str, arguments: &[Value]) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": arguments }))
    }

    /// A command of the DevTools protocol.
    pub(crate) fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// What came to the console since it was asked for the last time.
    pub(crate) fn console(&self) -> Vec<LogLine> {
        let lines = self.post("/se/log", &json!({ "type": "browser" }));
        let text = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let lines = lines.as_array().cloned().unwrap_or_default();
        lines.iter().map(|line| LogLine { level: text(line, "level"), message: text(line, "message") }).collect()
    }

    fn element(&self, selector: &str) -> String {
        let found = self.post("/element", &json!({ "using": "css selector", "value": selector }));
        found[ELEMENT].as_str().unwrap_or_else(|| panic!("no element: {selector}")).to_owned()
    }

    /// Clicks in the middle of the first element that the selector finds; one that is covered by another is an error.
    pub(crate) fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.try_post(&format!("/element/{element}/click"), &json!({}))
            .unwrap_or_else(|error| panic!("{selector}: {error}"));
    }

    /// Presses and releases keys, one after the other, wherever the focus is.
    pub(crate) fn press(&self, keys: &[char]) {
        self.chord(&[], keys);
    }

    /// The same while other keys are held down.
    pub(crate) fn chord(&self, held: &[char], keys: &[char]) {
        let down = |key: &char| json!({ "type": "keyDown", "value": key });
        let up = |key: &char| json!({ "type": "keyUp", "value": key });
        let mut actions: Vec<Value> = held.iter().map(down).collect();
        actions.extend(keys.iter().flat_map(|key| [down(key), up(key)]));
        actions.extend(held.iter().rev().map(up));
        self.post("/actions", &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] }));
    }

    /// The window that commands go to.
    pub(crate) fn window(&self) -> String {
        self.get("/window").as_str().unwrap().to_owned()
    }

    /// Opens a tab; commands still go to the window that they went to.
    pub(crate) fn open_tab(&self) -> String {
        self.post("/window/new", &json!({ "type": "tab" }))["handle"].as_str().unwrap().to_owned()
    }

    /// Sends the commands that follow to this window, and brings it to the front.
    pub(crate) fn switch_to(&self, window: &str) {
        self.post("/window", &json!({ "handle": window }));
    }

    /// Leaves one window, which is new.
    pub(crate) fn start_anew(&self) {
        let windows: Vec<Value> = self.get("/window/handles").as_array().unwrap().clone();
        let fresh = self.open_tab();
        for window in windows {
            self.switch_to(window.as_str().unwrap());
            let _ = self.agent.delete(format!("{}/window", self.url)).call();
        }
        self.switch_to(&fresh);
        self.console();
    }
}

/// Sends a command and takes the `value` of the answer.
fn request(agent: &Agent, url: &str, body: Option<&Value>) -> Result<Value, String> {
    let answer = match body {
        Some(body) => agent.post(url).header("content-type", "application/json").send(body.to_string()),
        None => agent.get(url).call(),
    };
    let mut answer = answer.map_err(|error| error.to_string())?;
    let text = answer.body_mut().read_to_string().map_err(|error| error.to_string())?;
    let mut document: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    let value = document["value"].take();
    match value.get("error") {
        Some(error) if !answer.status().is_success() => Err(format!("{error}: {}", value["message"])),
        _ => Ok(value),
    }
}

/// How long one look at the page may be apart from the next one.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(15);
