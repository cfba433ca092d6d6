//! What a process that runs drills gives the thread that does so.

use std::io;

use tokio::{runtime, task::LocalSet};
use worker::clock;

use crate::cli::ClockChoice;

/// Runs `future` on this thread, and with it the tasks that it spawns there.
///
/// # Errors
/// The process or the system has no file descriptor left.
pub fn block_on<F: Future>(future: F) -> io::Result<F::Output> {
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    Ok(LocalSet::new().block_on(&runtime, future))
}

/// Has this thread, and what it starts from now on, be as exact as drills on `clock` ask for.
///
/// On a scaled clock that is before every ordinary program, where it is allowed: what is drilled is signals and not the
/// scheduler. Where it is not, what comes late is measured. On a stepped clock nothing can come late, and everybody else's
/// programs would wait.
pub fn keep_time(clock: ClockChoice) {
    clock::sharpen();
    if clock == ClockChoice::Scaled {
        clock::prefer_realtime();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_the_thread_have_their_turn() {
        let spawned = block_on(async { tokio::task::spawn_local(async { 7 }).await.unwrap() });
        assert_eq!(spawned.unwrap(), 7);
    }
}
