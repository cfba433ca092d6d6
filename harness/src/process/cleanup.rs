//! The end of a drill: nothing that it started is left.

use std::time::Duration;

use rustix::process::{WaitId, WaitIdOptions, getpid, waitid};
use worker::clock;

use super::{Other, children};

/// Reaps every process that has ended and was left to us by its parent: from then on the kernel tells how it ended.
///
/// No [`Live`](super::Live) may be held: its process would be reaped here.
pub fn reap_orphans() {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    // Until none is left that has ended, or none at all (ECHILD).
    clock::as_ordinary(|| while let Ok(Some(_)) = waitid(WaitId::All, options) {});
}

/// How often to look again for children that /proc does not show, or that can't be opened: without descriptors left there
/// is nothing more to be done here than to end.
const UNSEEN: u32 = 100;

/// Kills every process below us and reaps it. Orphans come to us when their parents end, as PID 1 of the drill's
/// namespace or as a subreaper, so this goes on until there is nobody left. The list of children can miss one while others
/// end (proc_pid_task(5)): the kernel's word for there being none is ECHILD.
///
/// No [`Live`](super::Live) may be held any more: its process is reaped here.
pub fn kill_all() {
    clock::as_ordinary(kill_and_reap);
}

fn kill_and_reap() {
    let own = getpid().as_raw_nonzero().get();
    let mut unseen = 0;
    while has_children() && unseen < UNSEEN {
        let alive: Vec<Other> = children(own).into_iter().filter_map(Other::open).collect();
        if alive.is_empty() {
            unseen += 1;
            clock::block_for(Duration::from_millis(1));
        }
        alive.iter().for_each(Other::kill);
        // Those that were killed are waited for, and not whoever ends first: when two threads clean up at once, the one may
        // have reaped what the other has killed, and what is left then is alive.
        alive.iter().for_each(Other::wait);
        reap_orphans();
    }
}

/// Whether there are any, dead or alive. One that has ended is left to be reaped.
fn has_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, options), Err(rustix::io::Errno::CHILD))
}
