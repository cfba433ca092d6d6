//! What our own side misses while it stands still, as on a machine that is busy with something else for a moment: before
//! the signal all is put off by it, as if no time had passed.

/// From how long on it stood still, and was not only late, in nanoseconds.
const STALL_NS: u64 = 50_000_000;
/// By how much all is put off at most, in nanoseconds: a machine that does nothing but stand still is too slow.
const AT_MOST_NS: u64 = 5_000_000_000;

/// How much was put off so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stalls {
    /// The sum, in nanoseconds.
    pub(super) put_off_ns: u64,
}

impl Stalls {
    /// By how much all is put off where something is due and it is `now_ns` already.
    pub(super) fn put_off(&mut self, due_ns: u64, now_ns: u64) -> Option<u64> {
        let stall_ns = now_ns.saturating_sub(due_ns);
        if stall_ns < STALL_NS || self.put_off_ns + stall_ns > AT_MOST_NS {
            return None;
        }
        self.put_off_ns += stall_ns;
        Some(stall_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn stalls_put_off_so_much_and_no_more() {
        let mut stalls = Stalls::default();
        assert_eq!(
            [49, 50, 4_900, 51].map(|late_ms| stalls.put_off(MS, (1 + late_ms) * MS)),
            [None, Some(50 * MS), Some(4_900 * MS), None]
        );
        assert_eq!((stalls.put_off_ns, stalls.put_off(2, 1)), (4_950 * MS, None));
    }
}
