//! `GET /api/runs/{id}/events`: a run as it goes on, by server-sent events (WHATWG HTML, section 9.2).

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{
        HeaderMap, HeaderName, StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
};
use http_body_util::channel::{Channel, Sender};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use super::run::Run;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How long nothing is sent at most: a connection that is gone is noticed, and nobody in between takes it for dead.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// One event, as it is sent.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) event: &'static str,
    /// JSON in one line.
    data: String,
}

impl Entry {
    fn new(event: &'static str, data: &impl Serialize) -> Entry {
        // What has no JSON form is none of the values that are sent.
        Entry { event, data: serde_json::to_string(data).unwrap_or_default() }
    }
}

/// What is sent of what happens.
pub(super) mod log {
    use scenarios::View;
    use serde_json::json;

    use super::{
        super::{
            document::Shown,
            run::{Asked, State, Told},
            runs::Over,
        },
        Entry,
    };
    use crate::{
        cli::ClockChoice,
        record::{Observed, Record},
        stream::{Message, Progress},
    };

    /// It waits, with so many before it, or it goes on.
    pub(in super::super) fn state(state: State, ahead: usize) -> Entry {
        Entry::new("state", &json!({ "state": state, "ahead": ahead }))
    }

    /// An attempt begins.
    fn attempt(attempt: usize, speed: Option<f64>, clock: ClockChoice, why: Option<&str>) -> Entry {
        Entry::new("attempt", &json!({ "attempt": attempt, "speed": speed, "clock": clock, "why": why }))
    }

    /// What there is to send of a message that comes after `so_far`.
    pub(in super::super) fn message(asked: &Asked, so_far: &Progress, message: &Message) -> Option<Entry> {
        Some(match message {
            Message::Expected(expected) => {
                let view = View::new(&asked.scenario, &expected.events);
                Entry::new("expected", &Shown { events: &expected.events, outcome: &expected.outcome, view })
            }
            Message::Began { attempt: number, speed } => {
                attempt(*number, *speed, asked.clock, so_far.repeated.as_deref())
            }
            Message::Observed(observed) => Entry::new("observed", observed),
            _ => return None,
        })
    }

    /// All there is of a run that never began.
    pub(in super::super) fn over(over: &Over) -> Vec<Entry> {
        let Over { state: ended, error, .. } = over;
        let done = json!({ "state": ended, "run": null, "verdict": null, "reasons": [], "error": error });
        vec![state(*ended, 0), Entry::new("done", &done)]
    }

    /// Nothing follows.
    pub(in super::super) fn done(told: &Told) -> Entry {
        let record = &told.progress.record;
        let verdict = told.progress.decided.then_some(record.verdict);
        Entry::new(
            "done",
            &json!({
                "state": told.state,
                "run": told.run_name(),
                "verdict": verdict,
                "reasons": record.reasons,
                "error": told.error,
            }),
        )
    }

    /// The same of a stored run: what its last attempt was like.
    pub(in super::super) fn stored(name: &str, run_state: State, record: &Record) -> Vec<Entry> {
        let expected = &record.expected;
        let view = View::new(&record.scenario, &expected.events);
        let mut log = vec![
            state(run_state, 0),
            Entry::new("expected", &Shown { events: &expected.events, outcome: &expected.outcome, view }),
        ];
        if let Some(last) = record.attempts.last() {
            let clock = if last.speed.is_some() { ClockChoice::Scaled } else { ClockChoice::Stepped };
            log.push(attempt(record.attempts.len(), last.speed, clock, None));
            let mut events: Vec<&Observed> = last.events.iter().collect();
            events.sort_by_key(|observed| observed.at_us);
            log.extend(events.into_iter().map(|observed| Entry::new("observed", observed)));
        }
        log.push(Entry::new(
            "done",
            &json!({
                "state": run_state,
                "run": name,
                "verdict": record.verdict,
                "reasons": record.reasons,
                "error": null,
            }),
        ));
        log
    }
}

/// The place of the first event that whoever asks has not got yet.
fn first_wanted(headers: &HeaderMap) -> usize {
    let last = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()?.parse::<usize>().ok());
    last.map_or(0, |last| last.saturating_add(1))
}

/// Follows a run until it is over. Whoever comes late gets everything from its start, or from where they were.
pub(super) fn follow(run: Arc<Run>, headers: &HeaderMap, permit: OwnedSemaphorePermit) -> Response {
    let mut next = first_wanted(headers);
    let mut changes = run.follow();
    if is_complete(&run, next) {
        return nothing_more();
    }
    stream(async move |mut sender| {
        let _permit = permit;
        loop {
            changes.mark_unchanged();
            let news: Vec<Entry> = run.told().log.get(next..).unwrap_or_default().to_vec();
            for (entry, id) in news.iter().zip(next..) {
                send(&mut sender, entry, id).await?;
            }
            next += news.len();
            if is_complete(&run, next) {
                return Some(());
            }
            match tokio::time::timeout(HEARTBEAT, changes.changed()).await {
                Ok(Ok(())) => {}
                // The run can't be gone: we hold it.
                Ok(Err(_)) => return None,
                Err(_) => sender.send_data(Bytes::from_static(b": still there\n\n")).await.ok()?,
            }
        }
    })
}

/// Sends what is known of a run that is over.
pub(super) fn recount(log: Vec<Entry>, headers: &HeaderMap, permit: OwnedSemaphorePermit) -> Response {
    let next = first_wanted(headers);
    if next >= log.len() {
        return nothing_more();
    }
    stream(async move |mut sender| {
        let _permit = permit;
        for (id, entry) in log.iter().enumerate().skip(next) {
            send(&mut sender, entry, id).await?;
        }
        Some(())
    })
}

/// Whether everything before `next` is everything.
fn is_complete(run: &Run, next: usize) -> bool {
    let told = run.told();
    next >= told.log.len() && told.log.last().is_some_and(|last| last.event == "done")
}

/// A browser that got everything asks no more after that (WHATWG HTML, section 9.2.3).
fn nothing_more() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

/// An answer that `write` writes piece by piece; it ends early, with nothing, where whoever reads is gone.
fn stream<F>(write: impl FnOnce(Sender<Bytes>) -> F) -> Response
where
    F: Future<Output = Option<()>> + Send + 'static,
{
    let (sender, body) = Channel::<Bytes>::new(1);
    tokio::spawn(write(sender));
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    (headers, Body::new(body)).into_response()
}

async fn send(sender: &mut Sender<Bytes>, entry: &Entry, id: usize) -> Option<()> {
    let text = format!("id: {id}\nevent: {}\ndata: {}\n\n", entry.event, entry.data);
    sender.send_data(Bytes::from(text)).await.ok()
}

#[cfg(test)]
mod tests {
    use scenarios::{Scenario, ShellBehaviour};
    use serde_json::{Value, json};

    use super::{super::run::Asked, log};
    use crate::{
        cli::ClockChoice,
        stream::{Message, Progress},
    };

    #[test]
    fn a_repeat_says_why_and_at_which_speed() {
        let scenario = Scenario::new("a", "A");
        let mut progress = Progress::new(&scenario);
        let asked = Asked { scenario, shell: ShellBehaviour::Stays, clock: ClockChoice::Scaled, speed: 60.0 };
        let mut told = Vec::new();
        for message in [
            Message::Stored("runs/a".into()),
            Message::Began { attempt: 1, speed: Some(60.0) },
            Message::Repeated("The machine was too slow.".to_owned()),
            Message::Began { attempt: 2, speed: Some(30.0) },
        ] {
            told.extend(log::message(&asked, &progress, &message));
            progress.hear(message);
        }
        let told: Vec<Value> = told.iter().map(|entry| serde_json::from_str(&entry.data).unwrap()).collect();
        assert_eq!(
            told,
            [
                json!({ "attempt": 1, "speed": 60.0, "clock": "scaled", "why": null }),
                json!({ "attempt": 2, "speed": 30.0, "clock": "scaled", "why": "The machine was too slow." }),
            ]
        );
    }
}
