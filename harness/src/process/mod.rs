//! The only place that starts, signals and reaps the processes of a drill.
//!
//! A process is a [`Live`] one until it is reaped; reaping consumes it, so a process that is gone can't be signalled.

mod as_pid1;
mod cleanup;
mod exit;
mod live;
mod spawn;
mod tree;

pub use as_pid1::{STEP, step};
pub use cleanup::{kill_all, kill_all_but, reap_orphans};
pub use live::{Ended, Live, Other};
pub use spawn::{Heard, Launch, Seat, SpawnError, output, spawn, spawn_self, spawn_self_heard, spawn_to_stay};
pub use tree::{
    Listening, all_threads_sleep, by_own_number, children, children_of_thread, descendants, is_at_rest, is_dying,
    is_there, listens, rest, state,
};
