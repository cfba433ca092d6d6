//! Takes connections, no more at a time than can be served, and gives none of them more time than a request needs.

use std::{net, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet};
use worker::clock;

/// How many connections are served at a time; others wait in the kernel. A browser makes six.
const MAX_CONNECTIONS: usize = 128;
/// How long the head of a request may take, and how long a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long no connection is taken after it turned out that there are no descriptors left, in nanoseconds.
const PAUSE_NS: u64 = 100_000_000;

/// Serves what comes in, until it is dropped.
///
/// # Errors
/// The listener can't be used.
pub(super) async fn serve(listener: net::TcpListener, router: Router) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else { return Ok(()) };
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            clock::sleep_until(clock::now_ns() + PAUSE_NS).await?;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        connections.spawn_local(async move {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
            // Whoever goes away in the middle or does not speak HTTP is of no interest.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
}
