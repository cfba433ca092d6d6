//! The worker's HTTP side: what it answers for itself, for as long as it lives.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Frame, Incoming, SizeHint},
    header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use scenarios::{
    Reason, RequestId, Stage, Tick,
    wire::{InvocationRequest, ProgressStep, Refusal, TICK_HEADER},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tracing::{info, warn};

use crate::{
    Worker, clock,
    drain::Hold,
    holdings::{Phase, Refused},
    invocation::{self, Invocation, Told},
    settings::MAX_TICK,
};

/// The largest request body that is read, in bytes.
const MAX_BODY: usize = 64 * 1024;
/// How long no connection is accepted after one could not be, in nanoseconds; the usual cause is that there are too
/// many, which doesn't pass at once.
const ACCEPT_PAUSE_NS: u64 = 10_000_000;

/// Accepts connections for as long as it is polled.
pub(crate) async fn accept(listener: TcpListener, worker: Arc<Worker>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, Arc::clone(&worker)));
            }
            Err(error) => {
                warn!("a connection can't be accepted: {error}");
                let _ = clock::sleep_until(clock::now_ns() + ACCEPT_PAUSE_NS).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, worker: Arc<Worker>) {
    // Lines of an answer must not wait for each other's acknowledgement (Nagle's algorithm, tcp(7)).
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        let worker = Arc::clone(&worker);
        async move { Ok::<_, Infallible>(answer(&worker, request).await) }
    });
    // How a connection ends is its client's affair: what it asked for goes on and is answered for by the store.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(worker: &Arc<Worker>, request: Request<Incoming>) -> Response<Answer> {
    match (request.uri().path(), request.method()) {
        ("/livez", &Method::GET | &Method::HEAD) => worker.says(StatusCode::OK, "text/plain", "alive\n"),
        ("/readyz", &Method::GET | &Method::HEAD) => {
            let (status, text) = match worker.phase() {
                Phase::Ready => (StatusCode::OK, "ready\n"),
                Phase::Starting => (StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
                Phase::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
            };
            worker.says(status, "text/plain", text)
        }
        ("/invocations", &Method::POST) => match Asked::read(request).await {
            Ok(asked) => invoke(worker, asked),
            Err((status, problem)) => worker.problem(status, &problem),
        },
        ("/livez" | "/readyz", _) => worker.wrong_method("GET, HEAD"),
        ("/invocations", _) => worker.wrong_method("POST"),
        _ => worker.problem(StatusCode::NOT_FOUND, "there are /livez, /readyz and /invocations"),
    }
}

/// What a request asks for, checked.
struct Asked {
    request: RequestId,
    addends: Vec<u32>,
    sum: u32,
    /// When it was admitted, if it says.
    admitted: Option<Tick>,
}

impl Asked {
    async fn read(request: Request<Incoming>) -> Result<Asked, (StatusCode, String)> {
        let bad = |problem: String| (StatusCode::BAD_REQUEST, problem);
        let (head, body) = request.into_parts();
        let admitted = admission_tick(&head.headers).map_err(bad)?;
        let body = Limited::new(body, MAX_BODY).collect().await.map_err(|error| match error.downcast_ref() {
            Some(http_body_util::LengthLimitError { .. }) => {
                (StatusCode::PAYLOAD_TOO_LARGE, format!("the body is longer than {MAX_BODY} bytes"))
            }
            None => bad(format!("the body can't be read: {error}")),
        })?;
        let InvocationRequest { request, addends } = serde_json::from_slice(&body.to_bytes())
            .map_err(|error| bad(format!("the body is not an invocation: {error}")))?;
        if request == 0 {
            return Err(bad("request is 0: requests are numbered from 1 to 65535".to_owned()));
        }
        // One less than what fits, since a seeded worker adds one.
        let sum = addends.iter().map(|&addend| u64::from(addend)).sum::<u64>();
        let sum = u32::try_from(sum).ok().filter(|&sum| sum < u32::MAX);
        let sum = sum.ok_or_else(|| bad(format!("the addends come to {} or more", u32::MAX)))?;
        Ok(Asked { request: RequestId(request), addends, sum, admitted })
    }
}

fn admission_tick(headers: &HeaderMap) -> Result<Option<Tick>, String> {
    let Some(value) = headers.get(TICK_HEADER) else { return Ok(None) };
    let tick = value.to_str().ok().and_then(|text| text.parse().ok()).filter(|&tick| tick <= MAX_TICK);
    match tick {
        Some(tick) => Ok(Some(Tick(tick))),
        None => Err(format!("{TICK_HEADER} is {value:?}: it must be a whole number from 0 to {MAX_TICK}")),
    }
}

/// Accepts or refuses; nothing in here waits, so what is decided is true when it is answered.
fn invoke(worker: &Arc<Worker>, asked: Asked) -> Response<Answer> {
    let Asked { request, addends, sum, admitted } = asked;
    if let Some(tick) = admitted {
        worker.pace.catch_up(tick);
    }
    let waiter = match worker.pace.waiter() {
        Ok(waiter) => waiter,
        Err(error) => return worker.problem(StatusCode::INTERNAL_SERVER_ERROR, &format!("no timer: {error}")),
    };
    let taken = crate::lock(&worker.holdings).take(request);
    let place = match taken {
        Ok(place) => place,
        Err(Refused::Unavailable(reason)) => {
            info!("{request} is refused: {reason}");
            return worker.refusal(reason);
        }
        Err(Refused::Known) => {
            return worker.problem(StatusCode::CONFLICT, &format!("{request} runs here or is committed already"));
        }
    };
    let admitted = admitted.unwrap_or_else(|| worker.pace.tick_now());
    info!("{request} is accepted into slot {}, admitted at {admitted}", place.slot);
    let (told, lines) = Told::new(worker.pace.clone());
    told.tell(None, ProgressStep::Accepted { slot: place.slot });
    told.tell(None, ProgressStep::StageEntered { stage: Stage::Prepare });
    let hold = worker.owner.hold();
    let invocation = Invocation { request, addends, sum, place, admitted, waiter, told, hold };
    tokio::spawn(invocation::run(Arc::clone(worker), invocation));
    worker.response(StatusCode::OK, "application/x-ndjson", Content::Lines(lines))
}

impl Worker {
    fn phase(&self) -> Phase {
        crate::lock(&self.holdings).phase
    }

    fn response(&self, status: StatusCode, content_type: &'static str, content: Content) -> Response<Answer> {
        let mut response = Response::new(Answer { content, _hold: self.owner.hold() });
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if self.phase() == Phase::Draining {
            // Idle connections stay open until the exit instead of being closed now: a request that is on its way on
            // one gets its refusal, where a close would leave the client to guess.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    fn says(&self, status: StatusCode, content_type: &'static str, text: impl Into<Bytes>) -> Response<Answer> {
        self.response(status, content_type, Content::Whole(Some(text.into())))
    }

    fn problem(&self, status: StatusCode, problem: &str) -> Response<Answer> {
        self.says(status, "application/json", serde_json::json!({ "error": problem }).to_string())
    }

    fn refusal(&self, reason: Reason) -> Response<Answer> {
        let body = serde_json::to_vec(&Refusal { reason }).unwrap_or_default();
        let mut response = self.says(StatusCode::SERVICE_UNAVAILABLE, "application/json", body);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        response
    }

    fn wrong_method(&self, allowed: &'static str) -> Response<Answer> {
        let mut response = self.problem(StatusCode::METHOD_NOT_ALLOWED, &format!("allowed here: {allowed}"));
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
        response
    }
}

/// The body of an answer. The worker owns it until hyper drops it, which it does in the same turn in which it has
/// handed the last of it to the kernel; from there it arrives even if the process exits.
struct Answer {
    content: Content,
    _hold: Hold,
}

enum Content {
    Whole(Option<Bytes>),
    Lines(mpsc::UnboundedReceiver<Bytes>),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut self.content {
            Content::Whole(whole) => Poll::Ready(whole.take()),
            Content::Lines(lines) => lines.poll_recv(context),
        };
        next.map(|data| data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(whole) => SizeHint::with_exact(whole.as_ref().map_or(0, Bytes::len) as u64),
            Content::Lines(_) => SizeHint::default(),
        }
    }
}
