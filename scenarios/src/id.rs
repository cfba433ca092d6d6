//! Names of the workers and requests of a drill: `worker-1`, `request-16`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

/// A name that is not of the form `worker-N` or `request-N` with N from 1 on.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{name:?} is not of the form {prefix}N with N from 1 to 65535")]
pub struct BadId {
    prefix: &'static str,
    name: String,
}

macro_rules! id {
    ($(#[$doc:meta])* $type:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(pub u16);

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&format!(concat!($prefix, "{}"), self.0))
            }
        }

        impl FromStr for $type {
            type Err = BadId;
            fn from_str(name: &str) -> Result<$type, BadId> {
                name.strip_prefix($prefix)
                    .and_then(|number| number.parse().ok())
                    .filter(|&number| number > 0)
                    .map($type)
                    .ok_or_else(|| BadId { prefix: $prefix, name: name.to_owned() })
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    };
}

id!(
    /// A worker, numbered from 1 in the order in which workers are started.
    WorkerId, "worker-"
);
id!(
    /// A request, numbered from 1 in the order of arrival.
    RequestId, "request-"
);

impl WorkerId {
    /// The worker that is told to stop.
    pub const FIRST: WorkerId = WorkerId(1);
}

impl RequestId {
    /// What the request asks to be added up: its number, 1 and 2.
    #[must_use]
    pub fn addends(self) -> [u32; 3] {
        [u32::from(self.0), 1, 2]
    }

    /// The right result of the request.
    #[must_use]
    pub fn sum(self) -> u32 {
        self.addends().iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        assert_eq!("worker-7".parse(), Ok(WorkerId(7)));
        assert_eq!(RequestId(16).to_string(), "request-16");
        for bad in ["worker-0", "worker-", "worker--1", "7", "request-7", "worker-65536"] {
            assert!(bad.parse::<WorkerId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_sum_of_a_request() {
        assert_eq!(RequestId(16).sum(), 19);
    }
}
