//! Makes a drill happen with real processes, watches it and compares it with the model.

#![forbid(unsafe_code)]

pub mod compare;
pub mod record;
pub mod verdict;
pub mod drill;
pub mod entry;
pub mod isolation;
pub mod process;
pub mod readable;
