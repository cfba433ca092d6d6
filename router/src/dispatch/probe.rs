//! What a platform asks a worker that has nothing to do: whether it is alive.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, StatusCode, header};
use tokio::net::TcpStream;

use super::{Answer, Failure};

/// Asks the worker at `addr` for `/livez`, over a connection of its own like everything else, and waits for the whole answer
/// and the end of the connection.
///
/// # Errors
/// Whatever else came of it, no connection among that.
pub async fn probe(addr: SocketAddr) -> Result<StatusCode, Failure> {
    let request = Request::get("/livez")
        .header(header::HOST, addr.to_string())
        .header(header::CONNECTION, "close")
        .body(Full::new(Bytes::new()))
        .map_err(|error| Failure::Unsendable { error: error.to_string() })?;
    let (status, mut answer) = Answer::to(request, TcpStream::connect(addr).await?).await?;
    answer.start().await;
    Ok(status)
}
