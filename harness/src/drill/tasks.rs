//! What waits beside the loop of a drill and tells it what has happened.

use std::{net::SocketAddr, rc::Rc};

use router::{Exchange, Next, Opened};
use scenarios::{RequestId, Tick, WorkerId, wire};
use tokio::sync::mpsc::UnboundedSender;
use worker::clock::{self, Timer};

use super::{Wake, input::Input, notify::NotifySocket};
use crate::{foreign::pipe::NotifyPipe, process::Other};

pub(super) async fn listen(worker: WorkerId, socket: Rc<NotifySocket>, wakes: UnboundedSender<(u64, Wake)>) {
    while let Ok((notices, pid)) = socket.next().await {
        let at_ns = clock::now_ns();
        for notice in notices {
            let _ = wakes.send((at_ns, Wake::Input(Input::Notified { worker, notice, pid })));
        }
    }
}

pub(super) async fn listen_to_pipe(worker: WorkerId, pipe: Rc<NotifyPipe>, wakes: UnboundedSender<(u64, Wake)>) {
    while let Ok(message) = pipe.next().await {
        let _ = wakes.send((clock::now_ns(), Wake::ByPipe(worker, message)));
    }
}

/// How often a foreign worker is probed, in nanoseconds.
const PROBED_EVERY_NS: u64 = 25_000_000;

/// Asks a worker again and again whether it is alive, as platforms do, and goes by no answer. A runtime that rests for
/// seconds has its memory further away each time, see [`worker::warm`], and takes a tenth of a second to come back; our own
/// worker sees to that by itself.
pub(super) async fn keep_probing(addr: SocketAddr) {
    let Ok(mut timer) = Timer::new() else { return };
    while timer.until(clock::now_ns() + PROBED_EVERY_NS).await.is_ok() {
        let _ = router::probe(addr).await;
    }
}

pub(super) async fn outlive(worker: WorkerId, survivors: Vec<Other>, wakes: UnboundedSender<(u64, Wake)>) {
    for survivor in survivors {
        if let Ok(ended) = survivor.watch() {
            ended.await;
        }
    }
    let _ = wakes.send((clock::now_ns(), Wake::Input(Input::SurvivorsEnded { worker })));
}

pub(super) async fn exchange(request: RequestId, addr: SocketAddr, tick: Tick, wakes: UnboundedSender<(u64, Wake)>) {
    let tell = |input| {
        let _ = wakes.send((clock::now_ns(), Wake::Input(input)));
    };
    let body = wire::InvocationRequest { request: request.0, addends: request.addends().to_vec() };
    // There is no time limit of its own: the end of the drill ends it.
    match Exchange::open(addr, &body, tick, std::future::pending()).await {
        Err(failure) => tell(Input::Failed { request, failure }),
        Ok(Opened::Refused { reason }) => tell(Input::Refused { request, reason }),
        Ok(Opened::Accepted { slot, at_us, mut exchange, .. }) => {
            tell(Input::Accepted { request, slot, at_us });
            loop {
                match exchange.next().await {
                    Next::Progress(progress) => tell(Input::Progress { request, progress }),
                    Next::Ended(ending) => {
                        tell(Input::Ended { request, ending });
                        break;
                    }
                }
            }
        }
    }
}
