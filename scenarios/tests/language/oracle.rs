//! The model against the naive one, event by event.

use proptest::prelude::*;
use scenarios::{Host, Scenario, expect};

use crate::{any, naive};

fn compare(scenario: &Scenario, host: &Host) -> Result<(), TestCaseError> {
    let (events, outcome) = naive::play(scenario, host);
    let expected = expect(scenario, host);
    for (index, pair) in expected.events.iter().zip(&events).enumerate() {
        prop_assert_eq!(pair.0, pair.1, "event {}", index);
    }
    prop_assert_eq!(expected.events.len(), events.len());
    prop_assert_eq!(expected.outcome, outcome);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_model_says_what_the_contract_says(scenario in any::scenario(), host in any::host()) {
        compare(&scenario, &host)?;
    }
}
