//! Judgement, explanation and text of drills written by hand.

mod config;
mod ends;
mod explain;
mod grace;
mod html;
mod report;
mod shells;
mod verdict;
mod wrappers;

use scenarios::Status;

use super::{record::Observed, samples::Process};
use crate::evidence::Disposition;

const APP: (&str, &str) = ("node server.js", "/usr/bin/node");
const SH: (&str, &str) = ("sh -c node", "/usr/bin/dash");
const TINI: (&str, &str) = ("tini -- sh", "/usr/bin/tini");

fn row(
    (argv, exe): (&'static str, &'static str),
    disposition: Disposition,
    status: Status,
    at_ms: Option<i64>,
) -> Process {
    (argv, exe, disposition, status, at_ms)
}

/// The first process, dash, sits in wait(2) as it does for a foreground child.
fn waiting(mut observed: Observed) -> Observed {
    observed.before.as_mut().unwrap().processes[0].process.waits_for_child = true;
    observed
}

const OK: Status = Status::SUCCESS;
const KILLED: Status = Status::SIGKILL;
const TERMED: Status = Status::SIGTERM;
const C143: Status = Status::CODE_143;
