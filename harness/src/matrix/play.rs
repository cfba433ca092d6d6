//! Plays one cell: a real worker behind the command line, an invocation in flight, one SIGTERM to the top.
//!
//! Handshakes decide when what is done: the worker tells when it is ready and when it has accepted the invocation. The
//! grace period is the only thing that is timed.

use std::{
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr},
    process::ExitCode,
};

use anyhow::Context;
use router::{Exchange, Opened};
use rustix::process::getpid;
use scenarios::{
    RequestId, Schedule, Signal, Status, WorkerId,
    prediction::{Reaction, Top, WorkerFate},
    wire,
};
use tokio::net::TcpSocket;
use worker::{
    clock::{self, Timer},
    store,
};

use super::{
    cell::{Cell, Observation, Played, Seen, Signalled},
    command::{command_line, environment},
    ending::WorkerEnd,
    rest::{self, LOOK_AGAIN_NS, REST_NS},
    tree,
};
use crate::{
    drill::{
        StopPipe,
        notify::{Notice, NotifySocket},
    },
    evidence::{self, Node, kernel},
    isolation::{self, Isolation},
    process::{self, Launch, Live, Other, Seat},
    runtime,
};

/// The file in the cell's directory that says what was seen.
pub const RESULT: &str = "seen.json";

/// How long the worker has from the start of the command to its readiness.
const START_NS: u64 = 20_000_000_000;
/// How long it takes to accept the invocation at most.
const ACCEPT_NS: u64 = 10_000_000_000;
/// The real length of a tick: 100 times as fast as a drill at the speed of life.
const TICK_NS: u64 = 1_000_000;
/// How long the invocation runs on after SIGTERM. Long enough for whatever leaves early to have left: npm takes half a
/// second to see that it is PID 1.
const IN_FLIGHT_NS: u64 = 1_500_000_000;
/// How much of that may be over when SIGTERM is sent.
const LATE_NS: u64 = 400_000_000;
/// From SIGTERM to SIGKILL. Longer than the two seconds after which su loses its patience.
const GRACE_NS: u64 = 3_200_000_000;
/// How long after SIGTERM it is looked whether the top waits for the worker: long before that is done, and whoever leaves
/// without it has left by then.
const WAITS_NS: u64 = 700_000_000;
/// How long after the SIGKILL of the top the worker may take to die of its absence (SIGHUP from a terminal that is
/// gone), before it counts as having outlived it.
const AFTERMATH_NS: u64 = 300_000_000;

/// Plays the cell that the outer process gave, and writes down what was seen.
///
/// # Errors
/// The result can't be written.
pub fn inner() -> anyhow::Result<ExitCode> {
    isolation::inside(|cell: Cell, isolation, control| {
        clock::sharpen();
        let played = runtime::block_on(async {
            let stop = StopPipe::new(control)?;
            tokio::select! {
                played = play(&cell, &isolation) => played.map(Some),
                () = stop.stopped() => Ok(None),
            }
        })?;
        process::kill_all();
        let failed = |error: anyhow::Error| Some(Seen::Inconclusive(format!("{error:#}")).into());
        let Some(played) = played.unwrap_or_else(failed) else {
            // Whoever stopped it waits for no result, and the place for it may be gone.
            return Ok(ExitCode::FAILURE);
        };
        fs::write(cell.directory.join(RESULT), serde_json::to_vec(&played)?).context("the result can't be written")?;
        Ok(ExitCode::SUCCESS)
    })
}

const LOG: &str = "log";

async fn play(cell: &Cell, isolation: &Isolation) -> anyhow::Result<Played> {
    if let (true, Isolation::Bare { why }) = (cell.pid1, isolation) {
        return Ok(Seen::Inconclusive(why.clone()).into());
    }
    let mut timer = Timer::new()?;
    let port = TcpSocket::new_v4()?;
    port.set_reuseaddr(true)?;
    port.bind((Ipv4Addr::UNSPECIFIED, 0).into())?;
    let addr: SocketAddr = (Ipv4Addr::LOCALHOST, port.local_addr()?.port()).into();
    store::create(&cell.store())?;
    let socket = NotifySocket::open(&format!("cell-{}", addr.port()), WorkerId::FIRST)?;
    let schedule = Schedule { origin_ns: clock::now_ns(), tick_ns: TICK_NS };

    let launch = Launch {
        argv: command_line(cell)?,
        env: environment(cell, addr.port(), &socket, schedule, IN_FLIGHT_NS / TICK_NS),
        log: File::create(cell.directory.join(LOG))?,
        seat: if cell.pid1 { Seat::Pid1 } else { Seat::Ordinary },
    };
    let top = match process::spawn(launch).await {
        Ok(top) => top,
        Err(error) => return Ok(Seen::Unusable(error.to_string()).into()),
    };
    let (top, worker) = match until_ready(&socket, top, cell.pid1, &mut timer).await? {
        Begun::Ready(top, worker) => (top, worker),
        Begun::Not(seen) => return Ok(seen.into()),
        Begun::Failed(status) => {
            let said = fs::read_to_string(cell.directory.join(LOG)).unwrap_or_default();
            let said = said.lines().rfind(|line| !line.trim().is_empty());
            let why = said.map_or_else(|| status.to_string(), |line| format!("{status}: {line}"));
            return Ok(Seen::Unusable(why).into());
        }
        Begun::TopGone { status, worker } => return Ok(gone(cell, status, worker.as_ref()).into()),
    };
    let read = |before: &[i32]| {
        let facts = if cell.traced { with_host_pids(top.pid()) } else { Vec::new() };
        (tree::names(before), facts)
    };
    let Some((tree, before)) = rest::at_rest(&top, &worker, &mut timer, read).await? else {
        return Ok(Seen::Inconclusive("what stands before the worker did not come to rest".to_owned()).into());
    };

    // An invocation that is in flight when the signal comes, and long after.
    let admitted = schedule.tick_at(clock::now_ns());
    let request = RequestId(1);
    let body = wire::InvocationRequest { request: request.0, addends: request.addends().to_vec() };
    let patience = clock::sleep_until(clock::now_ns() + ACCEPT_NS);
    let opened = Exchange::open(addr, &body, admitted, async { drop(patience.await) }).await;
    let _exchange = match opened {
        Ok(Opened::Accepted { exchange, .. }) => exchange,
        Ok(Opened::Refused { reason }) => return Ok(Seen::Inconclusive(format!("the worker refused: {reason}")).into()),
        Err(failure) => return Ok(Seen::Inconclusive(format!("the worker took no invocation: {failure}")).into()),
    };

    // One that forks and leaves may still have been on its way out.
    let top = match top.reap() {
        Ok(ended) => return Ok(gone(cell, ended.status, Some(&worker)).into()),
        Err(top) => top,
    };
    let sent_ns = clock::now_ns();
    let commit_ns = schedule.start_of(admitted) + IN_FLIGHT_NS;
    if sent_ns > commit_ns - IN_FLIGHT_NS + LATE_NS {
        let why = "the machine was too slow: too much of the invocation was over";
        return Ok(Seen::Inconclusive(why.to_owned()).into());
    }
    top.signal(Signal::TERM)?;
    watch(cell, Watched { top, worker, socket, sent_ns, tree, before }, &mut timer).await
}

/// The processes from the top down, with their numbers on the host.
fn with_host_pids(top: i32) -> Vec<Node> {
    let mut nodes = evidence::tree([top]);
    kernel::look_up(nodes.iter_mut().map(|node| &mut node.process));
    nodes
}

/// How a command got going.
enum Begun {
    /// The worker behind it is ready.
    Ready(Live, Other),
    /// Its first process ended before the worker was ready, with code 0 as if all were well.
    TopGone { status: Status, worker: Option<Other> },
    /// It ended before there was a worker, and not as if all were well.
    Failed(Status),
    /// There is no worker.
    Not(Seen),
}

async fn until_ready(socket: &NotifySocket, top: Live, pid1: bool, timer: &mut Timer) -> anyhow::Result<Begun> {
    let mut gone: Option<Status> = None;
    let mut top = Some(top);
    let start_ns = clock::now_ns();
    loop {
        let ended = match &top {
            Some(top) => Some(top.watch()?),
            None => None,
        };
        // Behind a top that is gone the worker still has its own time to get ready; in a namespace it has none.
        let until_ns = start_ns + if top.is_some() || !pid1 { START_NS } else { START_NS / 10 };
        tokio::select! {
            biased;
            notice = socket.next() => {
                let (notices, pid) = notice?;
                let worker = pid.and_then(Other::open);
                match (notices.contains(&Notice::Ready), worker, top, gone) {
                    (false, _, held, _) => top = held,
                    (true, Some(worker), Some(top), _) => return Ok(Begun::Ready(top, worker)),
                    (true, worker, None, Some(status)) => return Ok(Begun::TopGone { status, worker }),
                    (true, _, held, _) => top = held,
                }
            }
            () = async { match ended { Some(ended) => ended.await, None => std::future::pending().await } } => {
                match top.take().map(Live::reap) {
                    Some(Ok(end)) if end.status == Status::SUCCESS => gone = Some(end.status),
                    Some(Ok(end)) => return Ok(Begun::Failed(end.status)),
                    Some(Err(live)) => top = Some(live),
                    None => {}
                }
            }
            waited = timer.until(until_ns) => {
                waited?;
                return Ok(match gone {
                    Some(status) => Begun::TopGone { status, worker: None },
                    None => Begun::Not(Seen::Inconclusive("the worker did not get ready".to_owned())),
                });
            }
        }
    }
}

/// What was seen of a command whose first process is gone before any signal could be sent.
fn gone(cell: &Cell, status: Status, worker: Option<&Other>) -> Seen {
    let alive = worker.is_some_and(|worker| !worker.has_ended());
    let reaction = Reaction {
        top: Top::Gone(status),
        worker: if alive { WorkerFate::Orphaned } else { WorkerFate::Cut },
        received: false,
        outlives_sigkill: false,
    };
    let tree = format!("{}>app", cell.row.command.first().map_or("", String::as_str));
    Seen::Observed(Observation { reaction, tree, top_ended_ms: Some(0), worker_ended_ms: None, committed: false })
}

/// A command that was sent SIGTERM.
struct Watched {
    top: Live,
    worker: Other,
    socket: NotifySocket,
    sent_ns: u64,
    tree: String,
    /// What was there just before, if the kernel is to be asked.
    before: Vec<Node>,
}

async fn watch(cell: &Cell, watched: Watched, timer: &mut Timer) -> anyhow::Result<Played> {
    let Watched { top, worker, socket, sent_ns, tree, before } = watched;
    let top_pid = top.pid();
    let worker_is_top = worker.pid() == top.pid();
    let since = |at_ns: u64| (at_ns - sent_ns) / 1_000_000;
    let mut top = Some(top);
    let mut told = false;
    let mut top_end: Option<(Status, u64)> = None;
    let mut worker_ended_ms = None;
    let mut left_first = Some(false);
    let (mut look_ns, mut waited_for_it) = (sent_ns + WAITS_NS, false);
    while top_end.is_none() || worker_ended_ms.is_none() {
        let top_ended = top.as_ref().map(Live::watch).transpose()?;
        let worker_ended = if worker_ended_ms.is_none() { Some(worker.watch()?) } else { None };
        tokio::select! {
            biased;
            notice = socket.next() => told |= notice?.0.iter().any(is_stopping),
            () = or_never(worker_ended) => worker_ended_ms = Some(since(clock::now_ns())),
            () = or_never(top_ended) => {
                // What waits for the worker ends after it, so a worker that is still there was left. Where both are gone when
                // it is looked, what ended first is known only of a top that was there for long enough.
                left_first = match (worker_is_top, worker.has_ended()) {
                    (false, false) => Some(true),
                    (false, true) if !waited_for_it => None,
                    _ => Some(false),
                };
                match top.take().map(Live::reap) {
                    Some(Ok(end)) => top_end = Some((end.status, since(clock::now_ns()))),
                    Some(Err(live)) => top = Some(live),
                    None => {}
                }
            }
            waited = timer.until(look_ns) => {
                waited?;
                let now_ns = clock::now_ns();
                let is_there = top.as_ref().is_some_and(|top| !top.has_ended());
                waited_for_it |= is_there;
                // What ended on a machine that stood still until now is yet to be noted above.
                let to_note = top.is_some() && !is_there || worker_ended_ms.is_none() && worker.has_ended();
                look_ns = if to_note { now_ns + LOOK_AGAIN_NS } else { sent_ns + GRACE_NS };
                if now_ns >= look_ns {
                    break;
                }
            }
        }
    }
    while let Some((notices, _)) = socket.try_next() {
        told |= notices.iter().any(is_stopping);
    }

    let mut status = match (worker_is_top, top_end) {
        (true, Some((status, _))) => Some(status),
        _ => None,
    };
    let mut outlives_sigkill = false;
    let killed = top.is_some();
    if let Some(top) = top {
        top.signal(Signal::KILL)?;
        top.watch()?.await;
        drop(top.reap());
        if !worker_is_top && worker_ended_ms.is_none() {
            outlives_sigkill = outlives(&worker, timer).await?;
        }
    }
    // The kernel tells how a process ended when it was reaped; ours to reap are those that came to us as orphans.
    process::reap_orphans();
    status = status.or_else(|| worker.status());

    let signalled = cell.traced.then(|| Signalled {
        processes: before.into_iter().map(|node| node.process).collect(),
        harness_host_pid: kernel::own_host_pid(),
        harness: getpid().as_raw_nonzero().get(),
        top: top_pid,
        worker: worker.pid(),
        sent_ns,
        over_ns: clock::now_ns(),
        killed,
        told,
        worker_status: status,
    });

    let committed = !store::read(&cell.store()).context("the result store can't be read")?.is_empty();
    let end = worker_ended_ms.map(|_| WorkerEnd { status, told, left_first, committed });
    let worker_fate = match end {
        None if top_end.is_some() => WorkerFate::Orphaned,
        None => WorkerFate::Stuck,
        Some(end) => match end.fate(cell.posture) {
            Ok(fate) => fate,
            Err(why) => return Ok(Seen::Inconclusive(why).into()),
        },
    };
    let reaction = Reaction {
        top: top_end.map_or(Top::Stuck, |(status, _)| Top::Ended(status)),
        worker: worker_fate,
        received: told || worker_fate == WorkerFate::Died,
        outlives_sigkill,
    };
    let top_ended_ms = top_end.map(|(_, ms)| ms);
    let seen = Seen::Observed(Observation { reaction, tree, top_ended_ms, worker_ended_ms, committed });
    Ok(Played { seen, signalled })
}

/// Whether the worker goes on although its top, which was killed, is gone. A busy machine may take its time to hang up: as
/// long as anything that is left has something to see to, the worker may be the next to be told.
async fn outlives(worker: &Other, timer: &mut Timer) -> io::Result<bool> {
    let killed_ns = clock::now_ns();
    let mut look_ns = killed_ns + AFTERMATH_NS;
    loop {
        tokio::select! {
            biased;
            () = worker.watch()? => return Ok(false),
            waited = timer.until(look_ns) => waited?,
        }
        process::reap_orphans();
        let left = process::descendants(getpid().as_raw_nonzero().get());
        let is_quiet = left.iter().all(|process| process::is_at_rest(process.pid()));
        if is_quiet || clock::now_ns() > killed_ns + REST_NS {
            return Ok(!worker.has_ended());
        }
        look_ns = clock::now_ns() + LOOK_AGAIN_NS;
    }
}

fn is_stopping(notice: &Notice) -> bool {
    matches!(notice, Notice::Stopping { .. })
}

async fn or_never(future: Option<impl Future<Output = ()>>) {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
