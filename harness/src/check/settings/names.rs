//! What has a name goes by it.

use serde::{Deserializer, de};

use super::*;

pub(super) trait Named: Sized {
    fn name(&self) -> String;
    fn from_name(name: &str) -> Option<Self>;
}

impl Named for Signal {
    fn name(&self) -> String {
        self.to_string()
    }
    fn from_name(name: &str) -> Option<Signal> {
        name.parse().ok()
    }
}

impl Named for Target {
    fn name(&self) -> String {
        Target::name(*self).to_owned()
    }
    fn from_name(name: &str) -> Option<Target> {
        Target::NAMED.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
    }
}

pub(super) fn serialize<N: Named, S: Serializer>(named: &N, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&named.name())
}

pub(super) fn deserialize<'de, N: Named, D: Deserializer<'de>>(deserializer: D) -> Result<N, D::Error> {
    let name = String::deserialize(deserializer)?;
    N::from_name(&name).ok_or_else(|| de::Error::custom(format!("{name:?} is no name of one")))
}
