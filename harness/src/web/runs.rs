//! The runs of this server: one at a time, a few that wait, and what became of those that are over.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::Serialize;
use tokio::sync::Notify;

use super::{
    error::HttpError,
    events::log,
    run::{Asked, Run, State},
};

/// How many runs may wait.
pub(super) const QUEUE: usize = 8;
/// How many runs that are over are remembered by their ids; the stored runs are found by their names.
const REMEMBERED: usize = 200;

/// All runs of this server.
pub(super) struct Runs {
    /// What the ids of this server begin with: another one's are not mistaken for them.
    prefix: String,
    inner: Mutex<Inner>,
    added: Notify,
}

#[derive(Default)]
struct Inner {
    count: u64,
    closed: bool,
    waiting: VecDeque<Arc<Run>>,
    current: Option<Arc<Run>>,
    over: VecDeque<Over>,
}

/// A run that is over.
#[derive(Clone, Debug)]
pub(super) struct Over {
    pub(super) id: String,
    pub(super) state: State,
    /// The name under which it is stored, if it got so far.
    pub(super) run: Option<String>,
    pub(super) error: Option<HttpError>,
    pub(super) asked: Asked,
}

/// A run in a list.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    pub(super) id: String,
    pub(super) state: State,
    /// The name of its scenario.
    scenario: String,
    /// How many are before it.
    ahead: usize,
    /// The name under which it is stored, if it got so far.
    run: Option<String>,
}

impl Summary {
    fn of(run: &Run) -> Summary {
        let told = run.told();
        Summary {
            id: run.id.clone(),
            state: told.state,
            scenario: run.asked.scenario.name.clone(),
            ahead: told.ahead,
            run: told.run_name(),
        }
    }
}

/// What an id stands for.
pub(super) enum Found {
    /// A run that waits or goes on.
    Live(Arc<Run>),
    /// One that is over.
    Over(Box<Over>),
}

impl Runs {
    /// None yet. `started_ns` tells this server apart from others.
    pub(super) fn new(started_ns: u64) -> Runs {
        Runs { prefix: format!("live-{started_ns:x}"), inner: Mutex::default(), added: Notify::new() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a run at the end of the queue, and gives its id.
    ///
    /// # Errors
    /// The queue is full.
    pub(super) fn add(&self, asked: Asked) -> Result<Summary, HttpError> {
        let mut inner = self.inner();
        if inner.waiting.len() >= QUEUE {
            return Err(HttpError::too_many(format!("{QUEUE} runs are waiting already"))
                .hint("wait until one is over, or cancel one"));
        }
        inner.count += 1;
        let ahead = inner.waiting.len() + usize::from(inner.current.is_some());
        let run = Arc::new(Run::new(format!("{}-{}", self.prefix, inner.count), asked, ahead));
        let summary = Summary::of(&run);
        inner.waiting.push_back(run);
        self.added.notify_one();
        Ok(summary)
    }

    /// The next run, once it is its turn; none when the server ends.
    pub(super) async fn next(&self) -> Option<Arc<Run>> {
        loop {
            {
                let mut inner = self.inner();
                if inner.closed {
                    return None;
                }
                if let Some(run) = inner.waiting.pop_front() {
                    inner.current = Some(Arc::clone(&run));
                    run.tell(|told| {
                        (told.state, told.ahead) = (State::Running, 0);
                        told.log.push(log::state(State::Running, 0));
                    });
                    inner.count_ahead();
                    return Some(run);
                }
            }
            self.added.notified().await;
        }
    }

    /// The run that went on is over.
    pub(super) fn over(&self) {
        let mut inner = self.inner();
        if let Some(run) = inner.current.take() {
            inner.remember(&run);
        }
        inner.count_ahead();
    }

    /// Cancels a run; the second time with force.
    ///
    /// # Errors
    /// There is no such run.
    pub(super) fn cancel(&self, id: &str) -> Result<Summary, HttpError> {
        let mut inner = self.inner();
        if let Some(place) = inner.waiting.iter().position(|run| run.id == id)
            && let Some(run) = inner.waiting.remove(place)
        {
            run.cancel();
            run.end(None);
            inner.remember(&run);
            inner.count_ahead();
            return Ok(Summary::of(&run));
        }
        match &inner.current {
            Some(run) if run.id == id => {
                run.cancel();
                Ok(Summary::of(run))
            }
            _ => Err(HttpError::not_found(format!("no run {id:?} waits or goes on"))),
        }
    }

    /// Cancels everything and takes nothing more.
    pub(super) fn close(&self) {
        let mut inner = self.inner();
        inner.closed = true;
        for run in inner.waiting.drain(..).collect::<Vec<_>>() {
            run.cancel();
            run.end(None);
            inner.remember(&run);
        }
        if let Some(run) = &inner.current {
            run.cancel();
        }
        self.added.notify_one();
    }

    /// The run that goes on, and those that wait.
    pub(super) fn list(&self) -> (Option<Summary>, Vec<Summary>) {
        let inner = self.inner();
        let summary = |run: &Arc<Run>| Summary::of(run);
        (inner.current.as_ref().map(summary), inner.waiting.iter().map(summary).collect())
    }

    /// What an id, or the name under which a run that goes on is stored, stands for.
    pub(super) fn find(&self, which: &str) -> Option<Found> {
        let inner = self.inner();
        let mut live = inner.current.iter().chain(&inner.waiting);
        if let Some(run) = live.find(|run| run.id == which || run.told().run_name().as_deref() == Some(which)) {
            return Some(Found::Live(Arc::clone(run)));
        }
        let over = inner.over.iter().find(|over| over.id == which)?;
        Some(Found::Over(Box::new(over.clone())))
    }
}

impl Inner {
    fn count_ahead(&mut self) {
        let first = usize::from(self.current.is_some());
        for (place, run) in self.waiting.iter().enumerate() {
            let ahead = first + place;
            if run.told().ahead != ahead {
                run.tell(|told| {
                    told.ahead = ahead;
                    told.log.push(log::state(State::Queued, ahead));
                });
            }
        }
    }

    fn remember(&mut self, run: &Run) {
        let told = run.told();
        self.over.push_back(Over {
            id: run.id.clone(),
            state: told.state,
            run: told.run_name(),
            error: told.error.clone(),
            asked: run.asked.clone(),
        });
        while self.over.len() > REMEMBERED {
            self.over.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use scenarios::{Scenario, ShellBehaviour};

    use super::*;
    use crate::cli::ClockChoice;

    fn asked() -> Asked {
        let scenario = Scenario::new("a", "A");
        Asked { scenario, shell: ShellBehaviour::Stays, clock: ClockChoice::Stepped, speed: 10.0 }
    }

    /// What a future gives that has to be done at once.
    fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(future).poll(&mut context) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn runs_have_their_turn_one_by_one() {
        let runs = Runs::new(7);
        assert!(at_once(runs.next()).is_none());
        let ids: Vec<String> = (0..3).map(|_| runs.add(asked()).unwrap().id).collect();
        assert_eq!(ids, ["live-7-1", "live-7-2", "live-7-3"]);
        let first = at_once(runs.next()).flatten().unwrap();
        assert_eq!((first.id.as_str(), first.told().state), ("live-7-1", State::Running));
        let (current, waiting) = runs.list();
        assert_eq!(current.unwrap().id, "live-7-1");
        assert_eq!(waiting.iter().map(|run| run.ahead).collect::<Vec<_>>(), [1, 2]);

        first.end(None);
        runs.over();
        assert_eq!(runs.list().1.iter().map(|run| run.ahead).collect::<Vec<_>>(), [0, 1]);
        let Some(Found::Over(over)) = runs.find("live-7-1") else { panic!("it is forgotten") };
        assert_eq!((over.state, over.error.is_some()), (State::Failed, true));
        assert!(runs.find("live-8-1").is_none());
    }

    #[test]
    fn no_more_runs_wait_than_may() {
        let runs = Runs::new(7);
        for _ in 0..QUEUE {
            runs.add(asked()).unwrap();
        }
        assert_eq!(runs.add(asked()).unwrap_err().status(), 429);
        at_once(runs.next()).flatten().unwrap();
        runs.add(asked()).unwrap();
        assert_eq!(runs.add(asked()).unwrap_err().status(), 429);
    }

    #[test]
    fn a_run_is_cancelled_where_it_is() {
        let runs = Runs::new(7);
        runs.add(asked()).unwrap();
        runs.add(asked()).unwrap();
        let first = at_once(runs.next()).flatten().unwrap();
        assert_eq!(runs.cancel("live-7-2").unwrap().state, State::Cancelled);
        assert!(runs.list().1.is_empty());
        assert_eq!(runs.cancel("live-7-2").unwrap_err().status(), 404);

        assert_eq!(runs.cancel("live-7-1").unwrap().state, State::Running);
        assert_eq!(at_once(first.cancelled()), Some(false));
        assert_eq!(at_once(first.cancelled()), None);
        runs.cancel("live-7-1").unwrap();
        assert_eq!(at_once(first.cancelled()), Some(true));
        first.end(None);
        assert_eq!(first.told().state, State::Cancelled);
        assert_eq!(first.told().log.last().unwrap().event, "done");
    }

    #[test]
    fn a_server_that_ends_starts_nothing_more() {
        let runs = Runs::new(7);
        runs.add(asked()).unwrap();
        let first = at_once(runs.next()).flatten().unwrap();
        runs.add(asked()).unwrap();
        runs.close();
        assert_eq!(at_once(first.cancelled()), Some(false));
        assert!(at_once(runs.next()).unwrap().is_none());
        assert!(runs.list().1.is_empty());
    }
}
