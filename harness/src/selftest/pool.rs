//! Many drills side by side, each in an inner process of its own.

use std::{io, process::ChildStdin};

use anyhow::Context;
use indicatif::ProgressBar;
use rustix::event::{PollFd, PollFlags, poll};
use scenarios::Status;

use super::{
    CHECK,
    check::{Check, Finding},
};
use crate::{
    isolation::{self, Isolation, NO_PROC, Signals},
    process::Live,
};

/// What came of playing them.
pub(super) enum Played {
    /// What was found in each, in their order.
    Findings(Vec<Finding>),
    /// A signal came first.
    Stopped,
}

/// A drill that is being played. Closing the pipe stops it.
struct Running {
    index: usize,
    inner: Live,
    _control: ChildStdin,
}

/// Plays all of them, `at_once` at a time. Whatever ends this, no process is left.
///
/// # Errors
/// No process can be started or waited for.
pub(super) fn play_all(
    checks: &[Check],
    at_once: usize,
    signals: &Signals,
    bar: &ProgressBar,
) -> anyhow::Result<Played> {
    let wakeups = signals.wakeups()?;
    let mut isolation = isolation::isolate();
    let mut findings: Vec<Option<Finding>> = vec![None; checks.len()];
    let mut waiting: Vec<usize> = (0..checks.len()).rev().collect();
    let mut running: Vec<Running> = Vec::new();
    loop {
        while running.len() < at_once.max(1)
            && let Some(index) = waiting.pop()
        {
            let (inner, control) = isolation::start_inside(&[CHECK], &mut isolation, &checks[index].job()?)?;
            running.push(Running { index, inner, _control: control });
        }
        if running.is_empty() {
            break;
        }
        bar.set_position((checks.len() - waiting.len() - running.len()) as u64);
        let mut polled = vec![PollFd::new(&wakeups, PollFlags::IN)];
        polled.extend(running.iter().map(|one| PollFd::from_borrowed_fd(one.inner.pidfd(), PollFlags::IN)));
        wait(&mut polled)?;
        if polled[0].revents().contains(PollFlags::IN) {
            stop(running)?;
            return Ok(Played::Stopped);
        }
        for Running { index, inner, _control } in std::mem::take(&mut running) {
            match inner.reap() {
                Err(inner) => running.push(Running { index, inner, _control }),
                Ok(ended) if ended.status == Status::Code(NO_PROC) && isolation == Isolation::Namespace => {
                    isolation = Isolation::without_proc();
                    waiting.push(index);
                }
                Ok(ended) => {
                    let finding =
                        checks[index].finding().with_context(|| format!("its process ended: {}", ended.status));
                    let none = |error| Finding::none(format!("Nothing is known of the drill: {error:#}."));
                    findings[index] = Some(finding.unwrap_or_else(none));
                }
            }
        }
    }
    let unplayed = || Finding::none("It was not played.".to_owned());
    Ok(Played::Findings(findings.into_iter().map(|finding| finding.unwrap_or_else(unplayed)).collect()))
}

fn wait(polled: &mut [PollFd<'_>]) -> io::Result<()> {
    match poll(polled, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Stops every drill and waits until it has cleaned up, so that nothing of it is left when we end.
fn stop(running: Vec<Running>) -> io::Result<()> {
    let inners: Vec<Live> = running.into_iter().map(|one| one.inner).collect();
    for inner in inners {
        wait(&mut [PollFd::from_borrowed_fd(inner.pidfd(), PollFlags::IN)])?;
        // It has ended, so it is reaped.
        drop(inner.reap());
    }
    Ok(())
}
