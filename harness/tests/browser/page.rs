//! The page as a person has it: what is to be seen on it, and what one does with its controls.

use std::{
    cell::RefCell,
    fmt::Debug,
    ops::Deref,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    thread,
};

use scenarios::{Field, fields::Kind};
use serde::Deserialize;
use serde_json::{Value, json};
use worker::clock;

use crate::{
    driver::Browser,
    expected::Shown,
    server::Server,
    support::PATIENCE,
    webdriver::{LOOK_EVERY, key},
};

/// Reads what is shown, as [`Shown`] has it.
const READ: &str = r"
const byId = (id) => document.getElementById(id);
const text = (id) => byId(id).textContent;
const rows = (id) => [...byId(id).tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
const counts = rows('counts');
return {
  title: text('scenario-title'),
  why: byId('scenario-why').hidden ? '' : text('scenario-why'),
  effect: /Expected effect of SIGTERM: (\w+)\./.exec(text('scenario-effect'))?.[1] ?? '',
  tick: Number(byId('time-slider').value),
  now: counts.map((row) => row[1]),
  end: counts.map((row) => row[2]),
  gate: text('gate'),
  gate_reason: text('gate-reason'),
  decisions: [...document.querySelectorAll('#decisions li')].map((item) => ['time', 'text'].map((part) => item.querySelector(`.decision-${part}`).textContent)),
  store: rows('store'),
  workers: [...byId('worker-select').options].map((option) => option.value),
};";

/// A page of a server of its own. When it is dropped, the console must have stayed empty.
pub(crate) struct Page {
    browser: Browser,
    pub(crate) server: Server,
    allowed: RefCell<Vec<&'static str>>,
    _turn: Turn,
}

/// Tests that measure have the machine to themselves, the others share it.
static TURNS: RwLock<()> = RwLock::new(());

enum Turn {
    Shared { _guard: RwLockReadGuard<'static, ()> },
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

impl Page {
    /// The page with this after the `#` of its address; none where there is no browser.
    pub(crate) fn open(address: &str) -> Option<Page> {
        Page::open_with(&[], address)
    }

    /// The same of a server that was started with these arguments.
    pub(crate) fn open_with(arguments: &[&str], address: &str) -> Option<Page> {
        let turn = Turn::Shared { _guard: TURNS.read().unwrap_or_else(PoisonError::into_inner) };
        Page::open_in_turn(arguments, address, turn)
    }

    /// The page while no other test has one.
    pub(crate) fn open_alone(address: &str) -> Option<Page> {
        Page::open_in_turn(&[], address, Turn::Alone { _guard: TURNS.write().unwrap_or_else(PoisonError::into_inner) })
    }

    fn open_in_turn(arguments: &[&str], address: &str, turn: Turn) -> Option<Page> {
        let (browser, server) = (Browser::take()?, Server::start(arguments));
        let page = Page { browser, server, allowed: RefCell::default(), _turn: turn };
        page.visit(address);
        Some(page)
    }

    /// Goes to another address of the page, and waits until the experiment that it holds is drawn, or told to be wrong.
    pub(crate) fn visit(&self, address: &str) {
        let here = self.value("location.origin");
        if here == json!(self.server.url) {
            // The page takes the address as it is when it changes. It may be the same as before. What was drawn until
            // then does not count.
            let take = "return new Promise((done) => {
                    addEventListener('hashchange', () => done(performance.clearMeasures('edit')), { once: true });
                    const before = location.href;
                    location.hash = arguments[0];
                    if (location.href === before) dispatchEvent(new HashChangeEvent('hashchange', { newURL: location.href }));
                });";
            self.execute(take, &[json!(address)]);
        } else {
            self.go(&format!("{}/#{address}", self.server.url));
        }
        self.wait_drawn();
        if !address.contains("run=") {
            let taken = "performance.getEntriesByName('edit').length > 0 || document.querySelector('.problem:not([hidden])') !== null";
            self.until("the address is taken", true, || self.is(taken));
        }
    }

    /// Leaves the server for the report on a drill of the catalogue.
    pub(crate) fn visit_report(&self, name: &str) {
        self.go(&self.server.report(name));
        self.wait_drawn();
    }

    /// Goes to one of the page's files, by itself.
    pub(crate) fn visit_file(&self, name: &str) {
        self.go(&format!("{}/{name}", self.server.url));
    }

    pub(crate) fn wait_drawn(&self) {
        self.until("the page is drawn", true, || self.is("document.querySelectorAll('.lane').length > 0"));
    }

    /// A line of the console that holds this is no failure.
    pub(crate) fn allow(&self, piece: &'static str) {
        self.allowed.borrow_mut().push(piece);
    }

    /// Waits until `look` sees what is wanted.
    #[expect(clippy::needless_pass_by_value, reason = "what is wanted is mostly written down where it is passed")]
    pub(crate) fn until<T: Debug + PartialEq>(&self, what: &str, wanted: T, mut look: impl FnMut() -> T) {
        self.until_it(what, &mut look, |seen| *seen == wanted, || format!(", wanted {wanted:?}"));
    }

    /// Waits until what `look` sees is as it should be, and gives it.
    pub(crate) fn until_it<T: Debug>(
        &self,
        what: &str,
        mut look: impl FnMut() -> T,
        is_right: impl Fn(&T) -> bool,
        wanted: impl Fn() -> String,
    ) -> T {
        let end = clock::now_ns() + u64::try_from(PATIENCE.as_nanos()).unwrap();
        loop {
            let seen = look();
            if is_right(&seen) {
                return seen;
            }
            if clock::now_ns() > end {
                panic!("{what}: after {PATIENCE:?} still {seen:?}{}; console: {:?}", wanted(), self.console());
            }
            clock::block_for(LOOK_EVERY);
        }
    }

    /// Whether an expression of JavaScript is true.
    pub(crate) fn is(&self, expression: &str) -> bool {
        self.value(expression) == Value::Bool(true)
    }

    /// The value of an expression of JavaScript.
    pub(crate) fn value(&self, expression: &str) -> Value {
        self.execute(&format!("return {expression};"), &[])
    }

    pub(crate) fn text(&self, selector: &str) -> String {
        let text =
            self.execute("return document.querySelector(arguments[0])?.textContent ?? null;", &[json!(selector)]);
        text.as_str().unwrap_or_else(|| panic!("there is no {selector}")).to_owned()
    }

    pub(crate) fn texts(&self, selector: &str) -> Vec<String> {
        let texts = self.execute(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent);",
            &[json!(selector)],
        );
        Vec::deserialize(texts).unwrap()
    }

    pub(crate) fn count(&self, selector: &str) -> u64 {
        self.execute("return document.querySelectorAll(arguments[0]).length;", &[json!(selector)]).as_u64().unwrap()
    }

    /// All that is shown.
    pub(crate) fn shown(&self) -> Shown {
        Shown::deserialize(self.execute(READ, &[])).unwrap()
    }

    pub(crate) fn wait_shown(&self, what: &str, wanted: &Shown) {
        self.until_it(what, || self.shown(), |seen| seen == wanted, || format!(", wanted {wanted:?}"));
    }

    pub(crate) fn tick(&self) -> u64 {
        self.value("Number(document.getElementById('time-slider').value)").as_u64().unwrap()
    }

    pub(crate) fn wait_tick(&self, what: &str, tick: u64) {
        self.until(what, tick, || self.tick());
    }

    /// What the address says of a field; none where it holds the default.
    pub(crate) fn address(&self, name: &str) -> Option<String> {
        let value =
            self.execute("return new URLSearchParams(location.hash.slice(1)).get(arguments[0]);", &[json!(name)]);
        value.as_str().map(str::to_owned)
    }

    /// Moves the focus away from every control.
    pub(crate) fn blur(&self) {
        self.execute("document.activeElement.blur();", &[]);
    }

    /// Presses keys while no control has the focus.
    pub(crate) fn press_outside(&self, keys: &[char]) {
        self.blur();
        self.press(keys);
    }

    /// Chooses from a list with the arrow keys, and so by way of all that lies between.
    pub(crate) fn choose(&self, select: &str, value: &str) {
        let distance = "const list = document.querySelector(arguments[0]);
            list.focus();
            return [...list.options].findIndex((option) => option.value === arguments[1]) - list.selectedIndex;";
        let distance = self.execute(distance, &[json!(select), json!(value)]).as_i64().unwrap();
        let key = if distance < 0 { key::UP } else { key::DOWN };
        self.press(&vec![key; usize::try_from(distance.abs()).unwrap()]);
        assert_eq!(self.value(&format!("document.querySelector('{select}').value")), json!(value), "{select}");
    }

    /// Chooses from a list as a mouse does. The page hears `change` of that, but chromedriver leaves out `input`.
    pub(crate) fn pick(&self, select: &str, value: &str) {
        self.click(&format!("{select} option[value='{value}']"));
    }

    /// Overwrites what a text control holds.
    pub(crate) fn type_into(&self, selector: &str, text: &str) {
        self.click(selector);
        self.chord(&[key::CONTROL], &['a']);
        let keys: Vec<char> = if text.is_empty() { vec![key::BACKSPACE] } else { text.chars().collect() };
        self.press(&keys);
    }

    /// The same at one go, as from a clipboard: what a person types is an edit with every letter.
    pub(crate) fn paste_into(&self, selector: &str, text: &str) {
        self.click(selector);
        self.chord(&[key::CONTROL], &['a']);
        if text.is_empty() {
            self.press(&[key::BACKSPACE]);
        } else {
            self.devtools("Input.insertText", &json!({ "text": text }));
        }
    }

    /// Opens what folds the control of a field away.
    pub(crate) fn unfold(&self, name: &str) {
        let folded = "const group = document.getElementById(arguments[0])?.closest('.group');
            if (!group) throw new Error(`${arguments[0]}: there is no such control`);
            return group.open ? null : group.id;";
        if let Some(group) = self.execute(folded, &[json!(format!("field-{name}"))]).as_str() {
            self.click(&format!("#{group} > summary"));
        }
    }

    /// Changes the control of a field, as `value` is written on a command line.
    pub(crate) fn edit(&self, field: &Field, value: &str) {
        self.unfold(field.name);
        let control = format!("#field-{}", field.name);
        match field.kind {
            Kind::Flag(_) => {
                self.click(&control);
                self.until("the box", value == "true", || {
                    self.is(&format!("document.querySelector('{control}').checked"))
                });
            }
            Kind::Choice { .. } | Kind::Effect => self.choose(&control, value),
            Kind::Entrypoint if value.starts_with('[') => {
                self.choose(&control, "list");
                self.type_into(&format!("{control}-list"), value);
            }
            Kind::Entrypoint => self.choose(&control, value),
            Kind::Name(_) | Kind::Line(_) | Kind::Text(_) | Kind::Whole { .. } | Kind::Seconds { .. } => {
                self.type_into(&control, value);
            }
        }
    }

    /// What is said to be wrong with a field; empty where nothing is.
    pub(crate) fn problem(&self, name: &str) -> String {
        let problem = format!("document.getElementById('field-{name}-problem')");
        self.value(&format!("{problem}.hidden ? '' : {problem}.textContent")).as_str().unwrap().to_owned()
    }

    /// Pretends another screen: media features such as `prefers-color-scheme`.
    pub(crate) fn emulate_media(&self, features: &[(&str, &str)]) {
        let features: Vec<Value> =
            features.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Pretends a phone that is so many pixels wide.
    pub(crate) fn emulate_phone(&self, width_px: u32) {
        let metrics = json!({ "width": width_px, "height": 740, "deviceScaleFactor": 1, "mobile": true });
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics);
        self.until("the width of the phone", u64::from(width_px), || self.value("innerWidth").as_u64().unwrap());
    }

    /// Checks that the console has nothing that is wrong.
    fn assert_quiet(&self) {
        let allowed = self.allowed.borrow();
        let lines = self.console().into_iter().filter(|line| {
            matches!(line.level.as_str(), "WARNING" | "SEVERE")
                && !allowed.iter().any(|piece| line.message.contains(piece))
        });
        let lines: Vec<String> = lines.map(|line| line.message).collect();
        assert!(lines.is_empty(), "the console is not empty: {lines:#?}");
    }
}

impl Deref for Page {
    type Target = Browser;

    fn deref(&self) -> &Browser {
        &self.browser
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.assert_quiet();
        }
    }
}
