//! Whether a worker is alive, as platforms ask it.

use std::net::Ipv4Addr;

use router::{Close, Failure, probe};
use tokio::{
    net::{TcpSocket, TcpStream},
    sync::oneshot,
};

use crate::server::*;

#[tokio::test]
async fn a_probe_asks_for_livez_over_a_connection_of_its_own() {
    let (tell, told) = oneshot::channel();
    let addr = listen(async move |mut stream: TcpStream| {
        tell.send(read_request(&mut stream).await).unwrap();
    })
    .await;
    assert_eq!(probe(addr).await, Err(Failure::Unanswered { close: Close::Clean }));
    let request = told.await.unwrap();
    assert!(request.starts_with("GET /livez HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("connection: close\r\n"), "{request}");
}

#[tokio::test]
async fn whatever_the_worker_answers_is_told() {
    for (status, then) in [(200, Then::Fin), (200, Then::Stay), (503, Then::Fin), (404, Then::Fin)] {
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nok");
        assert_eq!(probe(answering(answer, then).await).await.map(|status| status.as_u16()), Ok(status));
    }
}

#[tokio::test]
async fn nobody_who_listens_is_an_error() {
    // Bound and not listening: nobody else gets the port meanwhile.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    assert_eq!(probe(socket.local_addr().unwrap()).await, Err(Failure::ConnectionRefused));
}
