//! Routes, and what holds for every request and every answer.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    extract::{FromRequestParts, Path, Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
            X_FRAME_OPTIONS,
        },
        request::Parts,
    },
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use scenarios::{Entrypoint, Gate, Scenario};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use worker::clock;

use super::{
    assets, document,
    error::HttpError,
    events, fields,
    guard::Guard,
    model::{self, Shell},
    run::Asked,
    runs::{Found, Runs, Summary},
    serve::Allowed,
};
use crate::{
    cli::{ClockChoice, SPEEDS},
    commands, runs,
};

/// The longest body of a request, in bytes. A scenario with every field takes less than 2 kB.
pub(super) const MAX_BODY: usize = 64 * 1024;
/// How long the body of a request may take.
const BODY_TIME: Duration = Duration::from_secs(5);

/// How many stored runs are listed.
const LISTED: usize = 50;
/// How many may follow runs at a time.
pub(super) const FOLLOWERS: usize = 64;

/// What every page that is sent may do: load what this server serves, and nothing else (W3C Content Security Policy).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What every answer says besides.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
];

/// What all requests share.
pub(super) struct App {
    pub(super) guard: Guard,
    pub(super) allowed: Allowed,
    pub(super) shell: Shell,
    pub(super) runs: Arc<Runs>,
    /// One permit for each who may follow a run.
    pub(super) followers: Arc<Semaphore>,
}

/// Everything that is served.
pub(super) fn router(app: Arc<App>) -> Router {
    Router::new()
        .merge(assets::routes())
        .route("/api/fields", get(list_fields))
        .route("/api/model", post(ask_model))
        .route("/api/runs", get(list_runs).post(start_run))
        .route("/api/runs/{id}", get(show_run))
        .route("/api/runs/{id}/events", get(follow_run))
        .route("/api/runs/{id}/cancel", post(cancel_run))
        .fallback(async || HttpError::new(StatusCode::NOT_FOUND, "there is nothing here").hint("the page is at /"))
        .method_not_allowed_fallback(async || HttpError::new(StatusCode::METHOD_NOT_ALLOWED, "this can't be done here"))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), handle))
        .with_state(app)
}

/// Lets a request through that may be answered, with its whole body, and completes the answer.
async fn handle(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut response = match admitted(&app, request).await {
        Ok(request) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, value);
    }
    response
}

async fn admitted(app: &App, request: Request) -> Result<Request, HttpError> {
    app.guard.check(request.method(), request.uri().path(), request.headers())?;
    if !matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH) {
        return Ok(request);
    }
    let too_long =
        || HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the request is longer than {} KiB", MAX_BODY >> 10));
    let (head, body) = request.into_parts();
    // What says how long it is need not be read to be refused.
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(too_long());
    }
    let whole = tokio::time::timeout(BODY_TIME, Limited::new(body, MAX_BODY).collect()).await;
    let body = match whole {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(too_long()),
        Ok(Err(error)) => return Err(HttpError::bad(format!("the request broke off: {error}"))),
        Err(_) => return Err(HttpError::new(StatusCode::REQUEST_TIMEOUT, "the request took too long to come in")),
    };
    Ok(Request::from_parts(head, Body::from(body)))
}

/// `value` as an answer, in one line.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(text) => (status, [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// What a body says.
///
/// # Errors
/// It is not JSON, or not what is asked for.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, HttpError> {
    serde_json::from_slice(body).map_err(|error| HttpError::bad(format!("the request can't be read: {error}")))
}

async fn list_fields(State(app): State<Arc<App>>) -> Response {
    json(StatusCode::OK, &fields::document(&app.allowed))
}

async fn ask_model(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, HttpError> {
    Ok(json(StatusCode::OK, &model::answer(read(&body)?, &app.shell)?))
}

#[derive(Serialize)]
struct RunsDocument {
    current: Option<Summary>,
    queue: Vec<Summary>,
    runs: Vec<StoredSummary>,
}

/// A stored run in a list.
#[derive(Serialize)]
struct StoredSummary {
    run: String,
    /// The verdict where it has one, else `running`, `unfinished` or `unreadable`.
    state: runs::State,
    gate: Option<Gate>,
}

async fn list_runs(State(app): State<Arc<App>>) -> Result<Response, HttpError> {
    let (current, queue) = app.runs.list();
    let stored = commands::home()?.newest(LISTED)?.into_iter();
    let runs = stored.map(|listed| StoredSummary { run: listed.name, state: listed.state, gate: listed.gate });
    Ok(json(StatusCode::OK, &RunsDocument { current, queue, runs: runs.collect() }))
}

/// What is asked of a run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunAsk {
    scenario: Value,
    clock: Option<ClockChoice>,
    speed: Option<f64>,
}

async fn start_run(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, HttpError> {
    let ask: RunAsk = read(&body)?;
    let scenario = Scenario::from_value(ask.scenario)?;
    let speed = ask.speed.unwrap_or(app.allowed.speed);
    if !SPEEDS.contains(&speed) {
        let (slowest, fastest) = (SPEEDS.start(), SPEEDS.end());
        return Err(HttpError::bad(format!("speed: {speed} is out of range: {slowest} to {fastest}")));
    }
    if matches!(scenario.entrypoint, Entrypoint::Custom(_)) && !app.allowed.commands {
        let what = "this server runs no entrypoint that is a list of words: it could be any command";
        return Err(HttpError::new(StatusCode::FORBIDDEN, what)
            .hint("start it with --allow-commands, or use `termdrill run` on the command line"));
    }
    let shell = app.shell.behaviour(&scenario)?;
    let asked = Asked { scenario, shell, clock: ask.clock.unwrap_or(ClockChoice::Scaled), speed };
    Ok(json(StatusCode::ACCEPTED, &app.runs.add(asked)?))
}

/// Which run is meant. What is no text names none, and is answered as every other error is.
struct Id(String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Id, HttpError> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        path.map(|Path(id)| Id(id)).map_err(|error| HttpError::not_found(format!("there is no such run: {error}")))
    }
}

async fn cancel_run(State(app): State<Arc<App>>, Id(id): Id) -> Result<Response, HttpError> {
    Ok(json(StatusCode::OK, &app.runs.cancel(&id)?))
}

async fn show_run(State(app): State<Arc<App>>, Id(id): Id) -> Result<Response, HttpError> {
    let answer = |document: &document::RunDocument<'_>| json(StatusCode::OK, document);
    match app.runs.find(&id) {
        Some(Found::Live(run)) => Ok(document::of_live(&run, clock::now_ns(), answer)),
        Some(Found::Over(over)) => {
            let stored = over.run.as_deref().and_then(|name| stored(name).ok());
            Ok(document::of_over(&over, stored.as_ref(), answer))
        }
        None => Ok(document::of_stored(&id, &stored(&id)?, answer)),
    }
}

async fn follow_run(State(app): State<Arc<App>>, Id(id): Id, headers: HeaderMap) -> Result<Response, HttpError> {
    let permit = follower(&app)?;
    let name = match app.runs.find(&id) {
        Some(Found::Live(run)) => return Ok(events::follow(run, &headers, permit)),
        Some(Found::Over(over)) => match over.run {
            Some(name) => name,
            None => return Ok(events::recount(events::log::over(&over), &headers, permit)),
        },
        None => id,
    };
    let stored = stored(&name)?;
    let log = events::log::stored(&name, document::state_of(&stored), &stored.record);
    Ok(events::recount(log, &headers, permit))
}

fn follower(app: &App) -> Result<OwnedSemaphorePermit, HttpError> {
    Arc::clone(&app.followers)
        .try_acquire_owned()
        .map_err(|_| HttpError::too_many(format!("{FOLLOWERS} are following runs already")).hint("close a page"))
}

/// The stored run of this name.
fn stored(name: &str) -> Result<runs::Stored, HttpError> {
    let path = commands::home()?.named(name);
    let path =
        path.ok_or_else(|| HttpError::not_found(format!("there is no run {name:?}")).hint("/api/runs lists them"))?;
    Ok(runs::read(&path)?)
}
