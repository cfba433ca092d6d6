//! Makes a drill happen with real processes, watches it and compares it with the model.

#![deny(unsafe_code)]

pub mod awake;
pub mod bench;
pub mod check;
pub mod cli;
pub mod commands;
pub mod compare;
pub mod drill;
pub mod entry;
pub mod evidence;
pub mod failure;
pub mod foreign;
pub mod host;
pub mod input;
pub mod inspect;
pub mod isolation;
pub mod judge;
pub mod matrix;
mod os_path;
pub mod process;
pub mod readable;
pub mod record;
pub mod report;
pub mod run;
pub mod runs;
pub mod runtime;
pub mod scratch;
pub mod selftest;
pub mod shell;
pub mod stream;
pub mod style;
mod svg;
pub mod sweep;
pub mod validate;
pub mod verdict;
pub mod watch;
pub mod web;
