//! The catalogue: scenarios that show one phenomenon each, embedded in the program, in an order to read them in.

use std::sync::LazyLock;

use crate::Scenario;

/// A scenario of the catalogue: its name, which is also its file's, and the file.
struct Entry {
    name: &'static str,
    text: &'static str,
}

macro_rules! entry {
    ($name:literal) => {
        Entry { name: $name, text: include_str!(concat!("../catalogue/", $name, ".json")) }
    };
}

/// First what a worker does about SIGTERM and what grace is worth, then capacity, boots and routing, then what
/// stands between the signal and the worker, and last the ties.
static ENTRIES: [Entry; 46] = [
    entry!("ignored-signal"),
    entry!("ignored-signal-grace-19"),
    entry!("ignored-signal-grace-20"),
    entry!("handler-grace-10"),
    entry!("handler-grace-18"),
    entry!("handler-grace-19"),
    entry!("handler-grace-20"),
    entry!("handler-grace-20-allowance-65"),
    entry!("allowance-does-not-excuse-kills"),
    entry!("short-work-with-handler"),
    entry!("short-work-ignored-signal"),
    entry!("two-workers-with-handler"),
    entry!("two-workers-ignored-signal"),
    entry!("baseline"),
    entry!("late-signal"),
    entry!("failed-initialisation"),
    entry!("failed-initialisation-two-workers"),
    entry!("replacement"),
    entry!("unguarded-routing"),
    entry!("unguarded-routing-draining"),
    entry!("more-slots"),
    entry!("slow-startup"),
    entry!("busier-arrivals"),
    entry!("no-handler-not-pid1"),
    entry!("sig-ign-not-pid1"),
    entry!("shell-form"),
    entry!("shell-form-exec"),
    entry!("script-without-exec"),
    entry!("script-with-exec"),
    entry!("script-with-trap"),
    entry!("script-with-trap-no-handler"),
    entry!("env-wrapper"),
    entry!("init-leaves-with-shell"),
    entry!("init-to-group-cut"),
    entry!("trap-waits-once"),
    entry!("trap-with-foreground-child"),
    entry!("worker-in-a-pipe"),
    entry!("orphaned-by-shell"),
    entry!("orphan-goes-on-draining"),
    entry!("signal-during-boot"),
    entry!("signal-during-boot-not-pid1"),
    entry!("signal-during-boot-handled"),
    entry!("ready-at-arrival"),
    entry!("signal-at-arrival"),
    entry!("completes-at-deadline"),
    entry!("drained-at-deadline"),
];

static SCENARIOS: LazyLock<Vec<Scenario>> = LazyLock::new(|| {
    // A file that does not parse is left out here; the tests see to it that there is none.
    ENTRIES.iter().filter_map(|entry| Scenario::parse(entry.text).ok()).collect()
});

/// Every scenario of the catalogue in its order.
#[must_use]
pub fn all() -> &'static [Scenario] {
    &SCENARIOS
}

/// The scenario of this name.
#[must_use]
pub fn get(name: &str) -> Option<&'static Scenario> {
    all().iter().find(|scenario| scenario.name == name)
}

/// The name of the scenario that a misspelt name is most likely meant to be.
#[must_use]
pub fn suggest(name: &str) -> Option<&'static str> {
    crate::near::nearest(name, ENTRIES.iter().map(|entry| entry.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_parses_and_is_named_as_its_scenario() {
        for entry in &ENTRIES {
            match Scenario::parse(entry.text) {
                Ok(scenario) => assert_eq!(scenario.name, entry.name),
                Err(error) => panic!("{}: {error}", entry.name),
            }
        }
        assert_eq!(all().len(), ENTRIES.len());
        assert!(all().iter().all(|scenario| scenario.why.is_some()));
    }

    #[test]
    fn every_file_is_in_the_catalogue_once() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/catalogue");
        let mut files: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        files.sort_unstable();
        let mut entries: Vec<String> = ENTRIES.iter().map(|entry| format!("{}.json", entry.name)).collect();
        entries.sort_unstable();
        assert_eq!(files, entries);
    }

    #[test]
    fn misspelt_names_are_understood() {
        assert_eq!(suggest("ignored-signl"), Some("ignored-signal"));
        assert_eq!(suggest("shellform"), Some("shell-form"));
        assert_eq!(suggest("two_workers"), Some("two-workers-with-handler"));
        assert_eq!(suggest("nothing like it"), None);
        assert!(get("ignored-signl").is_none());
    }
}
