//! The second signal, as it stands in a record.

use serde::Deserializer;

use super::*;

#[derive(Serialize, Deserialize)]
struct Second {
    signal: Signal,
    after_ms: u64,
}

pub(super) fn serialize<S: Serializer>(second: &Option<SecondSignal>, serializer: S) -> Result<S::Ok, S::Error> {
    let second = second.map(|SecondSignal { signal, after_ms }| Second { signal, after_ms });
    second.serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SecondSignal>, D::Error> {
    let second = Option::<Second>::deserialize(deserializer)?;
    Ok(second.map(|Second { signal, after_ms }| SecondSignal { signal, after_ms }))
}
