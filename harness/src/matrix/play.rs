//! Plays one cell: a real worker behind the command line, an invocation in flight, one SIGTERM to the top.
//!
//! Handshakes decide when what is done: the worker tells when it is ready and when it has accepted the invocation. The
//! grace period is the only thing that is timed.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr},
    process::ExitCode,
};

use anyhow::Context;
use router::{Exchange, Opened};
use scenarios::{
    RequestId, Schedule, Signal, Status, WorkerId,
    entrypoint::WORKER_PLACEHOLDER,
    prediction::{Reaction, SCRIPT_PLACEHOLDER, Top, WorkerFate},
    wire,
};
use tokio::{net::TcpSocket, runtime, task::LocalSet};
use worker::{
    clock::{self, Timer},
    store,
};

use super::{
    cell::{Cell, Observation, Seen},
    ending::WorkerEnd,
    environment, tree,
};
use crate::{
    drill::{
        StopPipe,
        notify::{Notice, NotifySocket},
    },
    entry, host,
    isolation::{self, Isolation},
    process::{self, Launch, Live, Other, Seat},
};

/// The file in the cell's directory that says what was seen.
pub const RESULT: &str = "seen.json";

/// How long the worker has from the start of the command to its readiness.
const START_NS: u64 = 20_000_000_000;
/// How long it takes to accept the invocation at most.
const ACCEPT_NS: u64 = 10_000_000_000;
/// How long what stands before the worker may take to come to rest, and how often it is looked at.
const REST_NS: u64 = 10_000_000_000;
const LOOK_AGAIN_NS: u64 = 2_000_000;
/// The real length of a tick: 100 times as fast as a drill at the speed of life.
const TICK_NS: u64 = 1_000_000;
/// How long the invocation runs on after SIGTERM. Long enough for whatever leaves early to have left: npm takes half a
/// second to see that it is PID 1.
const IN_FLIGHT_NS: u64 = 1_200_000_000;
/// From SIGTERM to SIGKILL. Longer than the two seconds after which su loses its patience.
const GRACE_NS: u64 = 3_200_000_000;
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
        let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
        let seen = LocalSet::new().block_on(&runtime, async {
            let stop = StopPipe::new(control)?;
            tokio::select! {
                seen = play(&cell, &isolation) => seen.map(Some),
                () = stop.stopped() => Ok(None),
            }
        });
        process::kill_all();
        let Some(seen) = seen.unwrap_or_else(|error| Some(Seen::Inconclusive(format!("{error:#}")))) else {
            // Whoever stopped it waits for no result, and the place for it may be gone.
            return Ok(ExitCode::FAILURE);
        };
        fs::write(cell.directory.join(RESULT), serde_json::to_vec(&seen)?).context("the result can't be written")?;
        Ok(ExitCode::SUCCESS)
    })
}

const STORE: &str = "store.sqlite";
const LOG: &str = "log";

async fn play(cell: &Cell, isolation: &Isolation) -> anyhow::Result<Seen> {
    if let (true, Isolation::Bare { why }) = (cell.pid1, isolation) {
        return Ok(Seen::Inconclusive(why.clone()));
    }
    let mut timer = Timer::new()?;
    let port = TcpSocket::new_v4()?;
    port.set_reuseaddr(true)?;
    port.bind((Ipv4Addr::UNSPECIFIED, 0).into())?;
    let addr: SocketAddr = (Ipv4Addr::LOCALHOST, port.local_addr()?.port()).into();
    store::create(&cell.directory.join(STORE))?;
    let socket = NotifySocket::open(&format!("cell-{}", addr.port()), WorkerId::FIRST)?;
    let schedule = Schedule { origin_ns: clock::now_ns(), tick_ns: TICK_NS };

    let launch = Launch {
        argv: command_line(cell)?,
        env: environment(cell, addr.port(), &socket, schedule),
        log: File::create(cell.directory.join(LOG))?,
        seat: if cell.pid1 { Seat::Pid1 } else { Seat::Ordinary },
    };
    let top = match process::spawn(launch).await {
        Ok(top) => top,
        Err(error) => return Ok(Seen::Unusable(error.to_string())),
    };
    let (top, worker) = match until_ready(&socket, top, &mut timer).await? {
        Begun::Ready(top, worker) => (top, worker),
        Begun::Not(seen) => return Ok(seen),
        Begun::Failed(status) => {
            let said = fs::read_to_string(cell.directory.join(LOG)).unwrap_or_default();
            let said = said.lines().rfind(|line| !line.trim().is_empty());
            return Ok(Seen::Unusable(said.map_or_else(|| status.to_string(), |line| format!("{status}: {line}"))));
        }
        Begun::TopGone { status, worker } => return Ok(gone(cell, status, worker.as_ref())),
    };
    let before = at_rest(&top, &worker, &mut timer).await?;
    let Some(before) = before else {
        return Ok(Seen::Inconclusive("what stands before the worker did not come to rest".to_owned()));
    };
    let tree = tree::names(&before);

    // An invocation that is in flight when the signal comes, and long after.
    let admitted = schedule.tick_at(clock::now_ns());
    let request = RequestId(1);
    let body = wire::InvocationRequest { request: request.0, addends: request.addends().to_vec() };
    let patience = clock::sleep_until(clock::now_ns() + ACCEPT_NS);
    let opened = Exchange::open(addr, &body, admitted, async { drop(patience.await) }).await;
    let _exchange = match opened {
        Ok(Opened::Accepted { exchange, .. }) => exchange,
        Ok(Opened::Refused { reason }) => return Ok(Seen::Inconclusive(format!("the worker refused: {reason}"))),
        Err(failure) => return Ok(Seen::Inconclusive(format!("the worker took no invocation: {failure}"))),
    };

    // One that forks and leaves may still have been on its way out.
    let top = match top.reap() {
        Ok(ended) => return Ok(gone(cell, ended.status, Some(&worker))),
        Err(top) => top,
    };
    let sent_ns = clock::now_ns();
    let commit_ns = schedule.start_of(admitted) + IN_FLIGHT_NS;
    if sent_ns > commit_ns - IN_FLIGHT_NS / 3 {
        return Ok(Seen::Inconclusive("the machine was too slow: the invocation was almost over".to_owned()));
    }
    top.signal(Signal::TERM)?;
    watch(cell, Watched { top, worker, socket, sent_ns, tree }, &mut timer).await
}

/// Waits until every process before the worker waits for something: a script that has started the worker may not have
/// got to its trap yet. Gives their pids, the top's first.
async fn at_rest(top: &Live, worker: &Other, timer: &mut Timer) -> io::Result<Option<Vec<i32>>> {
    let until_ns = clock::now_ns() + REST_NS;
    while clock::now_ns() < until_ns {
        let before = tree::before(top.pid(), worker.pid());
        if before.iter().all(|&pid| process::is_at_rest(pid)) || top.has_ended() {
            return Ok(Some(before));
        }
        timer.until(clock::now_ns() + LOOK_AGAIN_NS).await?;
    }
    Ok(None)
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

async fn until_ready(socket: &NotifySocket, top: Live, timer: &mut Timer) -> anyhow::Result<Begun> {
    let mut gone: Option<Status> = None;
    let mut top = Some(top);
    let start_ns = clock::now_ns();
    loop {
        let ended = match &top {
            Some(top) => Some(top.watch()?),
            None => None,
        };
        // Behind a top that is gone the worker still has its own time to get ready; in a namespace it has none.
        let until_ns = start_ns + if top.is_some() { START_NS } else { START_NS / 10 };
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
}

async fn watch(cell: &Cell, watched: Watched, timer: &mut Timer) -> anyhow::Result<Seen> {
    let Watched { top, worker, socket, sent_ns, tree } = watched;
    let worker_is_top = worker.pid() == top.pid();
    let since = |at_ns: u64| (at_ns - sent_ns) / 1_000_000;
    let mut top = Some(top);
    let mut told = false;
    let mut top_end: Option<(Status, u64)> = None;
    let mut worker_ended_ms = None;
    let mut left_first = false;
    while top_end.is_none() || worker_ended_ms.is_none() {
        let top_ended = top.as_ref().map(Live::watch).transpose()?;
        let worker_ended = if worker_ended_ms.is_none() { Some(worker.watch()?) } else { None };
        tokio::select! {
            biased;
            notice = socket.next() => told |= notice?.0.iter().any(is_stopping),
            () = or_never(worker_ended) => worker_ended_ms = Some(since(clock::now_ns())),
            () = or_never(top_ended) => {
                // What waits for the worker ends after it, so a worker that is still there was left.
                left_first = !worker_is_top && !worker.has_ended();
                match top.take().map(Live::reap) {
                    Some(Ok(end)) => top_end = Some((end.status, since(clock::now_ns()))),
                    Some(Err(live)) => top = Some(live),
                    None => {}
                }
            }
            waited = timer.until(sent_ns + GRACE_NS) => { waited?; break; }
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
    if let Some(top) = top {
        top.signal(Signal::KILL)?;
        top.watch()?.await;
        drop(top.reap());
        if !worker_is_top && worker_ended_ms.is_none() {
            tokio::select! {
                biased;
                () = worker.watch()? => {}
                waited = timer.until(clock::now_ns() + AFTERMATH_NS) => { waited?; outlives_sigkill = true; }
            }
        }
    }
    // The kernel tells how a process ended when it was reaped; ours to reap are those that came to us as orphans.
    process::reap_orphans();
    status = status.or_else(|| worker.status());

    let committed = !store::read(&cell.directory.join(STORE)).context("the result store can't be read")?.is_empty();
    let end = worker_ended_ms.map(|_| WorkerEnd { status, told, left_first, committed });
    let worker_fate = match end {
        None if top_end.is_some() => WorkerFate::Orphaned,
        None => WorkerFate::Stuck,
        Some(end) => match end.fate(cell.posture) {
            Ok(fate) => fate,
            Err(why) => return Ok(Seen::Inconclusive(why)),
        },
    };
    let reaction = Reaction {
        top: top_end.map_or(Top::Stuck, |(status, _)| Top::Ended(status)),
        worker: worker_fate,
        received: told || worker_fate == WorkerFate::Died,
        outlives_sigkill,
    };
    let top_ended_ms = top_end.map(|(_, ms)| ms);
    Ok(Seen::Observed(Observation { reaction, tree, top_ended_ms, worker_ended_ms, committed }))
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

/// The cell's command with the real worker in it; its script is written first.
fn command_line(cell: &Cell) -> anyhow::Result<Vec<OsString>> {
    let worker = host::worker_command().context("the worker's program can't be found")?;
    let line = entry::quoted(&worker)?;
    let line = line.to_string_lossy();
    let script = cell.directory.join(&cell.row.script_name);
    if let Some(text) = &cell.row.script {
        let text = text.replace(WORKER_PLACEHOLDER, &line);
        let text = match cell.row.script_name.as_str() {
            "package.json" => serde_json::json!({ "name": "cell", "scripts": { "start": text } }).to_string(),
            _ => text,
        };
        fs::write(&script, text).context("the script can't be written")?;
    }
    let mut argv: Vec<OsString> = Vec::new();
    for word in &cell.row.command {
        // After an option -c, also at the end of a group as in -qec, stands a command line and not words.
        let is_line = argv.last().is_some_and(|last| {
            let last = last.as_encoded_bytes();
            last.starts_with(b"-") && last.ends_with(b"c")
        });
        if word == WORKER_PLACEHOLDER && !is_line {
            argv.extend_from_slice(&worker);
        } else {
            let word = word.replace(WORKER_PLACEHOLDER, &line);
            let word = word.replace(SCRIPT_PLACEHOLDER, &script.to_string_lossy());
            argv.push(word.replace("{directory}", &cell.directory.to_string_lossy()).into());
        }
    }
    Ok(argv)
}

/// What makes the command a worker of this cell.
fn environment(cell: &Cell, port: u16, socket: &NotifySocket, schedule: Schedule) -> Vec<(OsString, OsString)> {
    let ticks = IN_FLIGHT_NS / TICK_NS;
    let own: [(&str, OsString); 9] = [
        (wire::env::PORT, port.to_string().into()),
        (wire::env::NOTIFY_SOCKET, socket.address().into()),
        (wire::env::WORKER, WorkerId::FIRST.to_string().into()),
        (wire::env::ORIGIN_NS, schedule.origin_ns.to_string().into()),
        (wire::env::TICK_NS, schedule.tick_ns.to_string().into()),
        (wire::env::READY_TICK, "0".into()),
        (wire::env::INVOCATION_TICKS, ticks.to_string().into()),
        (wire::env::ON_SIGTERM, cell.posture.name().into()),
        (wire::env::STORE, cell.directory.join(STORE).into()),
    ];
    environment::with(&cell.directory, &own)
}
