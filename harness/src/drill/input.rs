//! What a drill is told, and what it wants done.

use std::net::SocketAddr;

use router::{Ending, Failure};
use scenarios::{Reason, RequestId, Signal, Status, Tick, WorkerId, wire::Progress};

use super::{notify::Notice, plan::Moment};
use crate::evidence::Look;

/// Something that happened.
#[expect(missing_docs, reason = "the fields say what they are: each is of the type of that name")]
#[derive(Debug)]
pub enum Input {
    /// A planned moment has come.
    Due(Moment),
    /// A worker's top runs.
    Started { worker: WorkerId, pid: i32 },
    /// A worker's top could not be started.
    NotStarted { worker: WorkerId, problem: String },
    /// A signal was sent to a worker's top.
    Sent { worker: WorkerId, signal: Signal },
    /// A worker told about its readiness.
    Notified { worker: WorkerId, notice: Notice, pid: Option<i32> },
    /// A worker's top ended; `survivors` are the processes below it that live on.
    TopEnded { worker: WorkerId, status: Status, survivors: Vec<i32> },
    /// The last of the survivors of a worker's top ended.
    SurvivorsEnded { worker: WorkerId },
    /// A worker accepted a request, at this moment of its own clock.
    Accepted { request: RequestId, slot: u8, at_us: u64 },
    /// A worker refused a request.
    Refused { request: RequestId, reason: Reason },
    /// A request came to nothing in another way.
    Failed { request: RequestId, failure: Failure },
    /// An invocation got further.
    Progress { request: RequestId, progress: Progress },
    /// The answer to an accepted request is over.
    Ended { request: RequestId, ending: Ending },
    /// Something that had to happen did not, in a time that is more than enough.
    GivenUp { what: String },
    /// A foreign worker that is about to get SIGTERM does not even listen yet, so it can't have got to its handler.
    NotListening { worker: WorkerId },
    /// A worker that is about to get SIGKILL has not got round to SIGTERM yet: it is pending, and nothing holds it back.
    StillPending { worker: WorkerId },
    /// A person, or whoever started us, wants the drill to stop.
    Stop,
}

/// Something to do.
#[expect(missing_docs, reason = "the fields say what they are: each is of the type of that name")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Start this worker.
    Start(WorkerId),
    /// Send the signal to the worker's top.
    Send(WorkerId, Signal),
    /// Look at the processes of the worker. `speaker` is the process that spoke for it last.
    Look { worker: WorkerId, speaker: Option<i32>, look: Look },
    /// Send the request, which arrived at this tick, to the worker.
    Dispatch { request: RequestId, worker: WorkerId, addr: SocketAddr, tick: Tick },
    /// The drill is over.
    Finish,
}
