//! File descriptors: a request in flight takes one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many the drill needs itself, at most: for the processes that it watches, for looks at them, for pipes and timers.
const OWN: u64 = 128;

/// While this is there we may have as many open as we are allowed at all (`getrlimit(2)`). What is started meanwhile would
/// inherit that, so it is for when the command runs.
#[derive(Debug)]
pub struct Descriptors {
    before: Rlimit,
}

impl Descriptors {
    /// Until this is dropped.
    #[must_use]
    pub fn all() -> Descriptors {
        let before = getrlimit(Resource::Nofile);
        // Where it is refused, it stays as it is.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
        Descriptors { before }
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        let _ = setrlimit(Resource::Nofile, self.before);
    }
}

/// How many requests can be in flight at once, where that is less than what is asked for.
#[must_use]
pub fn limit(clients: usize) -> Option<usize> {
    allowed(getrlimit(Resource::Nofile).current).filter(|&allowed| allowed < clients)
}

fn allowed(open_at_most: Option<u64>) -> Option<usize> {
    open_at_most.map(|most| usize::try_from(most.saturating_sub(OWN)).unwrap_or(usize::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_what_it_was_afterwards() {
        let before = getrlimit(Resource::Nofile);
        let all = Descriptors::all();
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
        drop(all);
        assert_eq!(getrlimit(Resource::Nofile), before);
    }

    #[test]
    fn some_are_left_for_the_drill() {
        for (most, left) in [(None, None), (Some(1_024), Some(896)), (Some(100), Some(1)), (Some(0), Some(1))] {
            assert_eq!(allowed(most), left, "{most:?}");
        }
    }
}
