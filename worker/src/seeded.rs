//! What only workers do that are seeded with a fault, as far as it is not a word or two in the place itself.

use scenarios::Tick;
use tracing::warn;

use crate::{Worker, holdings::Phase, notify::Notify, sigterm::Sender, store::Row};

/// Withdraws readiness at the start of the tick after this one.
pub(crate) async fn withdraw_late(worker: &Worker, notify: &Notify, sender: Option<Sender>) {
    let next = Tick(worker.pace.tick_now().0 + 1);
    let waiter = worker.pace.waiter();
    // On a stepped clock the tick at hand ends only when the signal was thought about.
    worker.sigterm.consider();
    if let Ok(mut waiter) = waiter
        && waiter.until(next).await.is_ok()
    {
        worker.turn(Phase::Draining, notify, sender);
    }
}

/// Commits the results of everything in flight, and tells nobody.
pub(crate) fn commit_in_flight(worker: &Worker) {
    let Some(writer) = &worker.writer else { return };
    let requests: Vec<_> = crate::lock(&worker.holdings).known().collect();
    for request in requests {
        let row = Row {
            request,
            worker: worker.settings.worker,
            pid: std::process::id(),
            addends: request.addends().to_vec(),
            sum: request.sum(),
            committed_us: worker.pace.now_ns() / 1_000,
        };
        // What was committed before stays as it is.
        if crate::lock(writer).commit(&row).is_ok() {
            warn!("{request} gets its result before its time");
        }
    }
}
