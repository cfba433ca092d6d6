//! The end of a drill: nothing that it started is left.

use std::{io, time::Duration};

use rustix::process::{WaitId, WaitIdOptions, getpid, waitid};
use scenarios::Signal;
use worker::clock;

use super::{Other, children, descendants};

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
/// Gives those that we may not kill, by pid: they live on. Without a namespace a program that became another user, as with
/// sudo, is none of ours any more (kill(2), EPERM).
///
/// No [`Live`](super::Live) may be held any more: its process is reaped here.
pub fn kill_all() -> Vec<i32> {
    kill_all_but(&[])
}

/// The same, but for children with these pids and what is below those.
pub fn kill_all_but(spared: &[i32]) -> Vec<i32> {
    clock::as_ordinary(|| kill_and_reap(spared))
}

fn kill_and_reap(spared: &[i32]) -> Vec<i32> {
    let own = getpid().as_raw_nonzero().get();
    let mut beyond: Vec<Other> = Vec::new();
    let mut unseen = 0;
    while has_children() && unseen < UNSEEN {
        let known = |pid: &i32| spared.contains(pid) || beyond.iter().any(|process| process.pid() == *pid);
        let found = children(own).into_iter().filter(|pid| !known(pid)).filter_map(Other::open);
        let (killed, others): (Vec<Other>, Vec<Other>) = found.partition(|process| !is_beyond(process));
        // Below them there may be some that we may kill.
        others.iter().flat_map(|process| descendants(process.pid())).for_each(|process| process.kill());
        beyond.extend(others);
        if killed.is_empty() {
            unseen += 1;
            clock::block_for(Duration::from_millis(1));
        }
        // Those that were killed are waited for, and not whoever ends first: when two threads clean up at once, the one may
        // have reaped what the other has killed, and what is left then is alive.
        killed.iter().for_each(Other::wait);
        reap_orphans();
    }
    beyond.iter().filter(|process| !process.has_ended()).map(Other::pid).collect()
}

/// Kills it, unless we may not.
fn is_beyond(process: &Other) -> bool {
    process.signal(Signal::KILL).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Whether there are any, dead or alive. One that has ended is left to be reaped.
fn has_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, options), Err(rustix::io::Errno::CHILD))
}
