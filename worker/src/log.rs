//! The worker's log: one line a thing on stderr, each written at once, with model time, name and pid.

use std::{fmt, io};

use scenarios::WorkerId;
use tracing_subscriber::fmt::{format::Writer, time::FormatTime};

use crate::{pace::Pace, settings::Settings};

/// Starts the log of this process; a second one changes nothing.
pub(crate) fn init(settings: &Settings, pace: Pace) {
    let stamp = Stamp { worker: settings.worker, pace, pid: std::process::id() };
    let _ = tracing_subscriber::fmt()
        .with_timer(stamp)
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(false)
        // A log that can't be written is no reason to panic: the reader of the pipe may have gone before us.
        .log_internal_errors(false)
        .try_init();
}

struct Stamp {
    worker: WorkerId,
    pace: Pace,
    pid: u32,
}

impl FormatTime for Stamp {
    fn format_time(&self, line: &mut Writer<'_>) -> fmt::Result {
        let Stamp { worker, pace, pid } = self;
        write!(line, "{:>5} {worker} [{pid}]", pace.tick_now())
    }
}
