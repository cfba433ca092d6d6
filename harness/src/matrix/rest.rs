//! The moment at which what stands before the worker does nothing: only what is read then can be relied on.

use std::io;

use worker::clock::{self, Timer};

use super::tree;
use crate::process::{self, Live, Other};

/// How long processes may take to come to rest, and how often they are looked at.
pub(super) const REST_NS: u64 = 10_000_000_000;
pub(super) const LOOK_AGAIN_NS: u64 = 2_000_000;

/// Waits until every process before the worker waits for something: a script that has started the worker may not have
/// got to its trap yet. Gives what `read` makes of their pids, the top's first, while none of them did anything: tini looks up
/// once a second, and waits for no signal meanwhile.
pub(super) async fn at_rest<T>(
    top: &Live,
    worker: &Other,
    timer: &mut Timer,
    read: impl Fn(&[i32]) -> T,
) -> io::Result<Option<T>> {
    let until_ns = clock::now_ns() + REST_NS;
    while clock::now_ns() < until_ns {
        let before = tree::before(top.pid(), worker.pid());
        let rest = || before.iter().map(|&pid| process::rest(pid)).collect::<Option<Vec<_>>>();
        if let Some(found) = undisturbed(rest, || read(&before)) {
            return Ok(Some(found));
        }
        timer.until(clock::now_ns() + LOOK_AGAIN_NS).await?;
    }
    Ok(None)
}

/// What `read` gives, if `rest` says that there is rest before and after it, and the same one.
fn undisturbed<R: PartialEq, T>(mut rest: impl FnMut() -> Option<R>, read: impl FnOnce() -> T) -> Option<T> {
    let before = rest()?;
    let found = read();
    (rest()? == before).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_counts_if_nothing_moved_meanwhile() {
        for (rests, found) in [
            ([Some(7), Some(7)], Some("read")),
            // It did something in between, and is at rest again.
            ([Some(7), Some(8)], None),
            ([Some(7), None], None),
            ([None, Some(7)], None),
        ] {
            let mut rests = rests.into_iter();
            assert_eq!(undisturbed(|| rests.next().unwrap(), || "read"), found);
        }
    }
}
