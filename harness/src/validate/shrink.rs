//! Makes a scenario that diverges as small as it gets while it still does. Pure: whether it does is asked.

use scenarios::{Scenario, fields::FIELDS};
use serde_json::{Map, Value};

/// The smallest scenario that `diverges`, starting from one that does: no field of it could be dropped back to its
/// default, and no number of it brought half-way there.
///
/// # Errors
/// What `diverges` says.
pub async fn shrink<E>(
    scenario: Scenario,
    mut diverges: impl AsyncFnMut(&Scenario) -> Result<bool, E>,
) -> Result<Scenario, E> {
    let mut smallest = scenario;
    'again: loop {
        for candidate in with_a_default(&smallest).into_iter().chain(nearer_to_a_default(&smallest)) {
            if diverges(&candidate).await? {
                smallest = candidate;
                continue 'again;
            }
        }
        return Ok(smallest);
    }
}

/// The names of the fields that are not at their default.
#[must_use]
pub fn changed_fields(scenario: &Scenario) -> Vec<&'static str> {
    let Some((fields, defaults)) = as_maps(scenario) else { return Vec::new() };
    let changed = |name: &&str| fields.get(*name) != defaults.get(*name);
    FIELDS.iter().filter(|field| !is_description(field.name)).map(|field| field.name).filter(changed).collect()
}

/// The scenario with each of its changed fields at the default, one at a time.
fn with_a_default(scenario: &Scenario) -> Vec<Scenario> {
    let Some((fields, defaults)) = as_maps(scenario) else { return Vec::new() };
    let reset = |name: &str| {
        let mut fields = fields.clone();
        match defaults.get(name) {
            Some(default) => fields.insert(name.to_owned(), default.clone()),
            None => fields.remove(name),
        };
        // A custom entrypoint goes with what is said of it.
        if name == "entrypoint" {
            fields.remove("expected_effect");
        }
        Scenario::from_value(Value::Object(fields)).ok()
    };
    changed_fields(scenario).into_iter().filter_map(reset).collect()
}

/// The scenario with each of its changed numbers half-way to the default, in whole units.
fn nearer_to_a_default(scenario: &Scenario) -> Vec<Scenario> {
    let Some((fields, defaults)) = as_maps(scenario) else { return Vec::new() };
    let nearer = |name: &str| {
        let (value, default) = (fields.get(name)?.as_f64()?, defaults.get(name)?.as_f64()?);
        let middle = (value + (default - value) / 2.0).round();
        let is_nearer = (middle - default).abs() < (value - default).abs();
        let mut fields = fields.clone();
        fields.insert(name.to_owned(), Value::from(middle));
        Scenario::from_value(Value::Object(fields)).ok().filter(|_| is_nearer)
    };
    changed_fields(scenario).into_iter().filter_map(nearer).collect()
}

fn as_maps(scenario: &Scenario) -> Option<(Map<String, Value>, Map<String, Value>)> {
    let map = |scenario: &Scenario| match serde_json::to_value(scenario) {
        Ok(Value::Object(map)) => Some(map),
        _ => None,
    };
    Some((map(scenario)?, map(&Scenario::new(&scenario.name, &scenario.title))?))
}

fn is_description(name: &str) -> bool {
    matches!(name, "name" | "title" | "why")
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, pin::pin, task::Poll};

    use scenarios::{Event, EventKind, Expectation, Host, ShellBehaviour, Status, expect, random};

    use super::*;

    /// Runs a future that never waits.
    fn now<T>(future: impl Future<Output = Result<T, Infallible>>) -> T {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match pin!(future).poll(&mut context) {
            Poll::Ready(Ok(value)) => value,
            Poll::Pending => panic!("it waits"),
        }
    }

    fn model(scenario: &Scenario) -> Expectation {
        expect(scenario, &Host { shell: ShellBehaviour::Stays, custom: None })
    }

    /// A model that was altered by hand: a worker that drains exits with code 143.
    fn altered(scenario: &Scenario) -> Vec<Event> {
        let mut events = model(scenario).events;
        for event in &mut events {
            if let EventKind::WorkerExited { status, .. } = &mut event.kind
                && *status == Status::SUCCESS
            {
                *status = Status::CODE_143;
            }
        }
        events
    }

    #[test]
    fn a_divergence_shrinks_until_no_field_can_be_dropped() {
        let diverges = |scenario: &Scenario| altered(scenario) != model(scenario).events;
        let mut shrunk = 0;
        for scenario in (0..400).map(|number| random::scenario(3, number)).filter(diverges) {
            let before = changed_fields(&scenario).len();
            let smallest = now(shrink(scenario, async |candidate| Ok(diverges(candidate))));
            assert!(diverges(&smallest));
            assert!(changed_fields(&smallest).len() <= before);
            for candidate in with_a_default(&smallest) {
                assert!(!diverges(&candidate), "{:?} could be dropped", changed_fields(&smallest));
            }
            // It takes a handler, and a way to drain in time.
            assert!(changed_fields(&smallest).contains(&"on_sigterm"));
            shrunk += 1;
        }
        assert!(shrunk > 20, "{shrunk} diverged at all");
    }

    #[test]
    fn a_number_comes_as_near_to_its_default_as_it_can() {
        let mut scenario = Scenario::new("far", "Far");
        scenario.set("invocation_s=57").unwrap();
        let longer_than_30 = |scenario: &Scenario| scenario.invocation_s.0 > 300;
        let smallest = now(shrink(scenario, async |candidate| Ok(longer_than_30(candidate))));
        assert!(longer_than_30(&smallest) && smallest.invocation_s.0 < 400, "{}", smallest.invocation_s);
    }
}
