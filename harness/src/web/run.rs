//! One run that this server was asked for: how far it is, what is known of it, and its end.

use std::{
    path::Path,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use scenarios::{Scenario, ShellBehaviour};
use serde::Serialize;
use tokio::sync::{Notify, watch};

use super::{
    error::HttpError,
    events::{Entry, log},
};
use crate::{
    cli::ClockChoice,
    stream::{Message, Origin, Progress},
};

/// What is to be run.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) scenario: Scenario,
    pub(super) shell: ShellBehaviour,
    pub(super) clock: ClockChoice,
    pub(super) speed: f64,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// Others are before it.
    Queued,
    /// It goes on.
    Running,
    /// It is decided.
    Finished,
    /// It was cancelled, before or while it went on.
    Cancelled,
    /// It could not be run.
    Failed,
    /// It broke off; only stored runs can have done that.
    Unfinished,
}

/// A run that was asked for.
pub(super) struct Run {
    pub(super) id: String,
    pub(super) asked: Asked,
    told: Mutex<Told>,
    /// How often something was told, for those who follow.
    version: watch::Sender<u64>,
    cancelled: AtomicU32,
    cancel: Notify,
}

/// What is known of it.
pub(super) struct Told {
    pub(super) state: State,
    /// How many runs are before it, while it waits.
    pub(super) ahead: usize,
    pub(super) progress: Progress,
    /// When the clock of the attempt that goes on began.
    pub(super) origin: Origin,
    /// Why it could not be run.
    pub(super) error: Option<HttpError>,
    /// What those who follow are sent, from its beginning on.
    pub(super) log: Vec<Entry>,
}

impl Told {
    /// The name under which it is stored.
    pub(super) fn run_name(&self) -> Option<String> {
        self.progress.stored_in.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned())
    }
}

impl Run {
    pub(super) fn new(id: String, asked: Asked, ahead: usize) -> Run {
        let progress = Progress::new(&asked.scenario);
        let told = Told {
            state: State::Queued,
            ahead,
            progress,
            origin: Origin::default(),
            error: None,
            log: vec![log::state(State::Queued, ahead)],
        };
        Run {
            id,
            asked,
            told: Mutex::new(told),
            version: watch::Sender::new(0),
            cancelled: AtomicU32::new(0),
            cancel: Notify::new(),
        }
    }

    /// What is known of it now.
    pub(super) fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is marked as changed whenever something is told.
    pub(super) fn follow(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    pub(super) fn tell(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.told());
        self.version.send_modify(|version| *version += 1);
    }

    /// Takes in what happened in the drill, of which it was told at `now_ns` of CLOCK_MONOTONIC.
    pub(super) fn hear(&self, message: Message, now_ns: u64) {
        self.tell(|told| {
            match &message {
                Message::Began { .. } => told.origin = Origin::default(),
                Message::Observed(observed) => told.origin.hear(observed.at_us, now_ns),
                _ => {}
            }
            told.log.extend(log::message(&self.asked, &told.progress, &message));
            told.progress.hear(message);
        });
    }

    /// The drill is over, or could not be run.
    pub(super) fn end(&self, error: Option<HttpError>) {
        self.tell(|told| {
            let failure = told.progress.failure.clone().map(HttpError::from);
            told.error = error.or(failure);
            told.state = match (&told.error, told.progress.decided) {
                _ if self.cancelled.load(Ordering::SeqCst) > 0 => State::Cancelled,
                (None, true) => State::Finished,
                (Some(_), _) => State::Failed,
                (None, false) => {
                    told.error = Some(HttpError::unknown_end());
                    State::Failed
                }
            };
            let done = log::done(told);
            told.log.push(done);
        });
    }

    /// Asks for its end; the second time with force.
    pub(super) fn cancel(&self) {
        self.cancelled.fetch_add(1, Ordering::SeqCst);
        self.cancel.notify_one();
    }

    /// Waits until its end is asked for, and tells whether with force.
    pub(super) async fn cancelled(&self) -> bool {
        self.cancel.notified().await;
        self.cancelled.load(Ordering::SeqCst) > 1
    }
}
