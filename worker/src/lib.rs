//! A real server with staged invocations, a result store and a SIGTERM posture: the process that a drill is about.
//!
//! [`run`] is a worker's whole life. It is told everything by its environment and keeps to the contract of container
//! platforms: it listens on `$PORT`, tells its readiness, and what it does about SIGTERM is what it was told to do. The
//! names of the variables and the shape of what it says are in [`scenarios::wire`].
//!
//! [`clock`], [`store`] and [`warm`] are for the harness too.

#![deny(unsafe_code)]

mod address;
mod boot;
pub mod clock;
mod drain;
mod holdings;
mod invocation;
mod lifeline;
mod log;
mod notify;
mod pace;
mod seeded;
mod serve;
mod settings;
mod sigterm;
mod stepping;
pub mod store;
pub mod warm;

use std::{
    io::{self, Write as _},
    net::{Ipv4Addr, TcpListener},
    process::ExitCode,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use scenarios::Fault;
use thiserror::Error;
use tracing::{error, info, warn};

use crate::{
    drain::{Drain, Drained, Owner},
    holdings::{Holdings, Phase},
    lifeline::Lifeline,
    notify::{Notify, State},
    pace::Pace,
    settings::{Posture, Settings, SettingsError},
    sigterm::{Arrival, Handler, Sender},
    store::{StoreError, Writer},
    warm::{Standing, Warm},
};

/// Runs a worker in this process until it ends by itself, and tells how: 0 when it has drained, 1 when it failed or
/// lost its harness, 2 when a variable says what it must not.
///
/// Call it first thing in `main`: SIGTERM gets its disposition in here, and what comes before that meets the default
/// one. The process must have no other thread that matters.
pub fn run() -> ExitCode {
    match start() {
        Ok(code) => code,
        Err(error) => {
            // With stderr gone there is nobody left to tell.
            let _ = writeln!(io::stderr(), "worker: {error}");
            ExitCode::from(if matches!(error, StartError::Settings(_)) { 2 } else { 1 })
        }
    }
}

/// Why a worker can't start.
#[derive(Debug, Error)]
enum StartError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("SIGTERM can't be prepared for: {0}")]
    Sigterm(#[source] io::Error),
    #[error("can't listen on port {port}: {source}")]
    Listen { port: u16, source: io::Error },
    #[error("{store}: {source}")]
    Store { store: String, source: StoreError },
    #[error("the lifeline can't be connected to: {0}")]
    Lifeline(#[source] io::Error),
    #[error("the clock that the harness steps can't be connected to: {0}")]
    Clock(#[source] io::Error),
    #[error("the runtime can't be started: {0}")]
    Runtime(#[source] io::Error),
}

/// A worker that listens, as all its parts see it.
struct Worker {
    settings: Settings,
    pace: Pace,
    sigterm: Arrival,
    holdings: Mutex<Holdings>,
    writer: Option<Mutex<Writer>>,
    owner: Owner,
    /// For a seeded worker that exits too early.
    exit_early: tokio::sync::Notify,
}

fn start() -> Result<ExitCode, StartError> {
    let environment = settings::process();
    let posture = Posture::read(&environment)?;
    let arrival = Arrival::default();
    let handler = sigterm::at_start(posture, &arrival).map_err(StartError::Sigterm)?;

    clock::sharpen();
    let settings = Settings::read(&environment)?;
    let port = settings.port;
    // Sets SO_REUSEADDR, so that a port on which nobody listens can be had although somebody keeps it for us.
    // The harness is on this machine, and nobody else has anything to say to a drill.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|source| StartError::Listen { port, source })?;

    // What comes from here on may take its time: requests wait in the kernel.
    let pace = match settings.clock {
        None => Pace::Scaled(settings.schedule),
        Some(_) => Pace::Stepped(settings.schedule, Arc::default()),
    };
    log::init(&settings, pace.clone());
    info!("listens on port {port}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(StartError::Runtime)?;
    runtime.block_on(live(settings, pace, posture, arrival, handler, listener))
}

/// A worker's life from listening on, whatever ends it.
async fn live(
    settings: Settings,
    pace: Pace,
    posture: Posture,
    sigterm: Arrival,
    handler: Option<Handler>,
    listener: TcpListener,
) -> Result<ExitCode, StartError> {
    let listener = tokio::net::TcpListener::from_std(listener).map_err(StartError::Runtime)?;
    let lifeline = Lifeline::connect(settings.lifeline.as_deref()).map_err(StartError::Lifeline)?;
    let notify = Notify::connect(settings.notify_socket.as_deref()).unwrap_or_else(|error| {
        warn!("nobody will hear of the readiness, since the notify socket can't be connected to: {error}");
        Notify::default()
    });
    let writer = match &settings.store {
        Some(path) => Some(Mutex::new(
            Writer::open(path).map_err(|source| StartError::Store { store: path.display().to_string(), source })?,
        )),
        None => {
            warn!("there is no result store: results are computed and nobody keeps them");
            None
        }
    };
    let _warm = settings.keep_warm.then(|| Warm::keep(Standing::Equal, settings.schedule.tick_ns));
    let (drain, owner) = drain::new();
    let holdings = Mutex::new(Holdings::new(settings.slots));
    let worker =
        Arc::new(Worker { settings, pace, sigterm, holdings, writer, owner, exit_early: tokio::sync::Notify::new() });
    tokio::spawn(serve::accept(listener, Arc::clone(&worker)));
    if let (Pace::Stepped(_, steps), Some(address)) = (&worker.pace, &worker.settings.clock) {
        let clock = address::connect(address).map_err(StartError::Clock)?;
        tokio::spawn(stepping::follow(clock, Arc::clone(&worker), Arc::clone(steps)));
    }

    Ok(tokio::select! {
        code = serve_until_drained(&worker, posture, handler, &notify, drain) => code,
        () = lifeline.ended() => {
            error!("the lifeline has ended: exits 1");
            ExitCode::FAILURE
        }
        () = worker.exit_early.notified() => ExitCode::SUCCESS,
    })
}

/// Boots, becomes ready, serves, and drains when it is told to and has a handler for it.
async fn serve_until_drained(
    worker: &Worker,
    posture: Posture,
    mut handler: Option<Handler>,
    notify: &Notify,
    drain: Drain,
) -> ExitCode {
    let sender = tokio::select! {
        biased;
        sender = sigterm::received(&mut handler) => sender,
        booted = boot::finish(&worker.settings, &worker.pace, posture, &worker.sigterm) => match booted {
            Ok(after_boot) => {
                handler = handler.or(after_boot);
                worker.turn(Phase::Ready, notify, None);
                sigterm::received(&mut handler).await
            }
            Err(error) => {
                error!("{error}: exits 1");
                return ExitCode::FAILURE;
            }
        },
    };
    match &sender {
        Ok(sender) => info!("gets SIGTERM {}: drains", Origin(*sender)),
        Err(error) => warn!("can't hear of SIGTERM any more and drains: {error}"),
    }
    match worker.settings.fault {
        Some(Fault::KeepsReadiness) => {}
        Some(Fault::WithdrawsLate) => seeded::withdraw_late(worker, notify, sender.ok()).await,
        Some(Fault::CommitsKilled) => {
            seeded::commit_in_flight(worker);
            worker.turn(Phase::Draining, notify, sender.ok());
        }
        _ => worker.turn(Phase::Draining, notify, sender.ok()),
    }
    worker.sigterm.consider();
    let mut finished = std::pin::pin!(drain.begin().finished());
    loop {
        tokio::select! {
            biased;
            drained = finished.as_mut() => return exit(drained),
            Ok(sender) = sigterm::received(&mut handler) => {
                info!("gets SIGTERM {} once more: goes on draining", Origin(sender));
            }
        }
    }
}

/// The only way to exit code 0 for a worker that isn't seeded with a fault.
fn exit(_: Drained) -> ExitCode {
    info!("has drained: exits 0");
    ExitCode::SUCCESS
}

impl Worker {
    /// Whether it has nothing left to do but to exit.
    fn is_leaving(&self) -> bool {
        let holdings = lock(&self.holdings);
        holdings.phase == Phase::Draining && holdings.is_empty()
    }

    /// Turns to `phase` and tells so; `sender` is whose SIGTERM is the reason.
    fn turn(&self, phase: Phase, notify: &Notify, sender: Option<Sender>) {
        lock(&self.holdings).phase = phase;
        let (state, what) = match phase {
            Phase::Draining => (State::Stopping, "withdraws its readiness"),
            Phase::Starting | Phase::Ready => (State::Ready, "is ready"),
        };
        // By the protocol that is the real clock, whatever makes model time pass.
        match (notify.tell(state, clock::now_ns() / 1_000, sender), &self.pace) {
            (Ok(()), Pace::Stepped(_, steps)) => steps.tell(),
            (Ok(()), Pace::Scaled(_)) => {}
            (Err(error), _) => warn!("the notify socket doesn't take that it {what}: {error}"),
        }
        info!("{what}");
    }
}

/// Where a signal came from, in words.
struct Origin(Sender);

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.pid {
            0 => f.write_str("from outside its PID namespace (si_pid 0)"),
            pid => write!(f, "from pid {pid}"),
        }
    }
}

/// A panic in another task must not take the whole worker with it: what is behind the lock is whole between any two
/// statements that change it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
