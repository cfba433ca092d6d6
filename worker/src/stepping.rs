//! Follows a clock that the harness steps: does what is due by a tick, and answers when it is done.

use std::sync::Arc;

use scenarios::Tick;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};
use tracing::{error, warn};

use crate::{Worker, pace::Steps};

/// Follows the clock until the process ends. The connection stays open until then: its end is the answer of a worker
/// that gives no other.
pub(crate) async fn follow(stream: UnixStream, worker: Arc<Worker>, steps: Arc<Steps>) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(tick) = line.parse() else {
            warn!("the clock says {line:?}, which is no tick");
            continue;
        };
        // A signal that was sent before the tick was named has been handled by now, but perhaps not thought about.
        worker.sigterm.considered().await;
        let next = steps.go_to(Tick(tick)).await;
        if worker.is_leaving() {
            break;
        }
        let next = next.map_or_else(|| "-".to_owned(), |next| next.0.to_string());
        if let Err(error) = write.write_all(format!("done {tick} {} {next}\n", steps.told()).as_bytes()).await {
            error!("the clock takes no answer: {error}");
            break;
        }
    }
    std::future::pending::<()>().await;
}
