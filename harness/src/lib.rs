//! Makes a drill happen with real processes, watches it and compares it with the model.

#![forbid(unsafe_code)]

pub mod compare;
pub mod record;
pub mod verdict;
