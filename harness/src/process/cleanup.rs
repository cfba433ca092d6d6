//! The end of a drill: nothing that it started is left.

use rustix::process::{WaitId, WaitIdOptions, getpid, waitid};

use super::{Other, children};

/// Reaps every process that has ended and was left to us by its parent: from then on the kernel tells how it ended.
///
/// No [`Live`](super::Live) may be held: its process would be reaped here.
pub fn reap_orphans() {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    // Until none is left that has ended, or none at all (ECHILD).
    while let Ok(Some(_)) = waitid(WaitId::All, options) {}
}

/// Kills every process below us and reaps it. Orphans come to us when their parents end, as PID 1 of the drill's
/// namespace or as a subreaper, so this goes on until there is nobody left.
///
/// No [`Live`](super::Live) may be held any more: its process is reaped here.
pub fn kill_all() {
    let own = getpid().as_raw_nonzero().get();
    loop {
        let alive = children(own);
        if alive.is_empty() {
            return;
        }
        for process in alive.into_iter().filter_map(Other::open) {
            process.kill();
        }
        // One at least ends soon. ECHILD: the last one is gone already.
        if waitid(WaitId::All, WaitIdOptions::EXITED).is_err_and(|errno| errno != rustix::io::Errno::INTR) {
            return;
        }
    }
}
