//! How long it takes from a decision to a worker's acceptance, and what the decision itself costs.
//!
//! The server has a thread and a runtime of its own and does no more than HTTP asks for, so this is what the router
//! and the kernel need: connect, send, wake the other side, read the first line.

use std::{
    future::pending,
    hint::black_box,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    thread,
};

use criterion::{Criterion, criterion_group, criterion_main};
use router::{Ending, Exchange, Next, Opened, Policy, Router};
use scenarios::{RequestId, Tick, WorkerId, wire::InvocationRequest};

const ANSWER: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
    34\r\n{\"at_us\":5,\"late_us\":7,\"event\":\"accepted\",\"slot\":2}\n\r\n";
const REST: &str = "3c\r\n{\"at_us\":9,\"late_us\":1,\"event\":\"result_committed\",\"sum\":19}\n\r\n0\r\n\r\n";

/// Accepts one connection after the other and answers each at once, for as long as the process lives.
fn serve() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let addr = listener.local_addr()?;
    thread::spawn(move || -> std::io::Result<()> {
        loop {
            let (mut stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            // A request is one small write, so it is there as a whole.
            let _ = stream.read(&mut [0; 1024])?;
            // Whoever has seen the acceptance may be gone by now.
            let _ = stream.write_all(ANSWER.as_bytes()).and_then(|()| stream.write_all(REST.as_bytes()));
        }
    });
    Ok(addr)
}

fn exchanges(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    let addr = serve().expect("a server");
    let request = InvocationRequest { request: 16, addends: RequestId(16).addends().to_vec() };
    let open = async || match Exchange::open(addr, &request, Tick(310), pending()).await {
        Ok(Opened::Accepted { exchange, .. }) => exchange,
        other => panic!("{other:?}"),
    };
    criterion.bench_function("connect to accepted", |bencher| {
        bencher.iter(|| runtime.block_on(open()));
    });
    criterion.bench_function("connect to completed", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let mut exchange = open().await;
                let ending = loop {
                    if let Next::Ended(ending) = exchange.next().await {
                        break ending;
                    }
                };
                assert_eq!(ending, Ending::Completed { sum: 19 });
            });
        });
    });
}

fn decisions(criterion: &mut Criterion) {
    let mut router = Router::new(Policy::new(true));
    for worker in (1..=64).map(WorkerId) {
        let roster = router.roster_mut();
        roster.add(worker, (Ipv4Addr::LOCALHOST, worker.0).into(), 4).expect("a new worker");
        roster.ready(worker).expect("a worker that was starting");
    }
    criterion.bench_function("route among 64 workers", |bencher| bencher.iter(|| black_box(&router).route()));
}

criterion_group! {
    name = benches;
    // Every exchange leaves a connection in TIME_WAIT: few enough that the ports suffice.
    config = Criterion::default().sample_size(50).measurement_time(std::time::Duration::from_secs(2)).warm_up_time(std::time::Duration::from_millis(300));
    targets = exchanges, decisions
}
criterion_main!(benches);
