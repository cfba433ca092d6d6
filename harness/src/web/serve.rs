//! The command: listens, prints where, and serves until it is told to stop.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    os::fd::OwnedFd,
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use clap::Args;
use tokio::{io::unix::AsyncFd, runtime, sync::Semaphore, task::LocalSet};
use worker::clock;

use super::{
    api::{self, App, FOLLOWERS},
    drilling,
    guard::Guard,
    listen,
    model::Shell,
    runs::Runs,
};
use crate::{
    cli::speed,
    failure::{Failure, plain_io, warn},
    isolation::{self, Signals},
    process::{self, Live},
    readable,
    report::write_stdout,
};

/// The arguments of `serve`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  termdrill serve --open
  termdrill serve --listen 127.0.0.1:8080 --speed 20

The server starts processes for whoever may use the page: anyone on this machine, and with
--allow-remote anyone who can reach it. It ends with Ctrl-C, and every drill with it.

Exit status: 2 bad usage, 3 it can't listen there")]
pub struct ServeArgs {
    /// Where to listen; port 0 takes any that is free.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7071", value_parser = address)]
    pub listen: SocketAddr,
    /// Open the page in a browser.
    #[arg(long)]
    pub open: bool,
    /// Listen on an address that other machines can reach.
    #[arg(long)]
    pub allow_remote: bool,
    /// Answer to this name too, as a proxy or another machine may call the server; can be given several times.
    #[arg(long, value_name = "NAME[:PORT]")]
    pub allow_host: Vec<String>,
    /// Run scenarios whose entrypoint is a list of words: any command, for whoever may use the page.
    #[arg(long)]
    pub allow_commands: bool,
    /// The speed that the page proposes for real runs: model seconds in one real second, 0.1 to 200.
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = speed, allow_negative_numbers = true)]
    pub speed: f64,
}

/// An address with a port. Of names only the one that every machine has for itself is known.
fn address(text: &str) -> Result<SocketAddr, String> {
    let local = || {
        let (name, port) = text.rsplit_once(':')?;
        let is_local = name.eq_ignore_ascii_case("localhost");
        is_local.then(|| port.parse().ok()).flatten().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    };
    text.parse().ok().or_else(local).ok_or_else(|| {
        "an address and a port from 0 to 65535, such as 127.0.0.1:7071 or [::1]:0; localhost is 127.0.0.1, and other names \
         are not looked up"
            .to_owned()
    })
}

/// What those who use the page may do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    /// Run any command as an entrypoint.
    pub(super) commands: bool,
    /// The speed that is proposed.
    pub(super) speed: f64,
}

/// Serves until a signal comes.
///
/// # Errors
/// It can't listen there, or may not.
pub fn serve(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let signals = Signals::catch().context("the handlers for Ctrl-C and the like can't be installed")?;
    let listener = listen_at(args)?;
    let address = listener.local_addr().context("the address of the server is unknown")?;
    if !address.ip().is_loopback() {
        warn(&format!(
            "{address} can be reached from other machines: whoever reaches it can start drills here, unencrypted and without \
             a password"
        ));
    }
    let opener = if args.open { open_page(shown(address)) } else { None };
    // Before any thread exists, and after the browser was started: what comes from here on is in a user namespace for all
    // but root.
    let isolation = isolation::isolate();
    let runs = Arc::new(Runs::new(clock::now_ns()));
    let app = Arc::new(App {
        guard: Guard::new(address, &args.allow_host),
        allowed: Allowed { commands: args.allow_commands, speed: args.speed },
        shell: Shell::look(),
        runs: Arc::clone(&runs),
        followers: Arc::new(Semaphore::new(FOLLOWERS)),
    });
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let woken = readable::register(signals.wakeups()?)?;
        write_stdout(format!("termdrill serves http://{}/ until Ctrl-C\n", shown(address)).as_bytes())?;
        opener.map(|opener| tokio::task::spawn_local(reap(opener)));
        let mut drilling = tokio::task::spawn_local(drilling::run_all(Arc::clone(&runs), isolation));
        tokio::select! {
            served = listen::serve(listener, api::router(app)) => served?,
            signalled = signalled(&woken) => signalled?,
        }
        // The drill that goes on cleans up and stores what happened. A second signal kills it.
        runs.close();
        tokio::select! {
            ended = &mut drilling => ended?,
            signalled = signalled(&woken) => {
                signalled?;
                runs.close();
                drilling.await?;
            }
        }
        anyhow::Ok(())
    })?;
    signals.end_by_what_was_received()?;
    Ok(ExitCode::SUCCESS)
}

/// What opens an address in the browser of a desktop (xdg-utils).
const OPENER: &str = "xdg-open";

/// Opens the page in the browser that is used on this desktop. Without one the server is of use all the same.
fn open_page(address: SocketAddr) -> Option<Live> {
    let opened = process::spawn_to_stay(OPENER, &format!("http://{address}/"));
    opened
        .inspect_err(|error| {
            let why = plain_io(error);
            warn(&format!("no browser can be opened ({OPENER}: {why}); open http://{address}/ in one"));
        })
        .ok()
}

/// Reaps what opened the page, when it ends.
async fn reap(opener: Live) {
    if let Ok(ended) = opener.watch() {
        ended.await;
        let _ = opener.reap();
    }
}

/// The address to ask for, where the server listens on every one of this machine's.
fn shown(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, v4.port()).into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, v6.port()).into(),
        address => address,
    }
}

fn listen_at(args: &ServeArgs) -> Result<TcpListener, Failure> {
    let address = args.listen;
    if !address.ip().is_loopback() && !args.allow_remote {
        return Err(Failure::bad_input(format!("{address} can be reached from other machines"))
            .hint("listen on 127.0.0.1, or add --allow-remote to let anyone who can reach it start drills here"));
    }
    TcpListener::bind(address).map_err(|error| {
        let failure = Failure::unable(format!("can't listen on {address}: {}", plain_io(&error)));
        match error.kind() {
            io::ErrorKind::AddrInUse => {
                failure.hint("another server is there; choose another port with --listen 127.0.0.1:PORT, 0 for any")
            }
            io::ErrorKind::PermissionDenied => failure.hint("ports below 1024 need root; choose one with --listen"),
            io::ErrorKind::AddrNotAvailable => {
                failure.hint("this machine does not have that address; choose one with --listen")
            }
            _ => failure.hint("choose another address with --listen ADDRESS:PORT"),
        }
    })
}

/// Waits for a signal, and takes it.
async fn signalled(woken: &AsyncFd<OwnedFd>) -> io::Result<()> {
    let mut ready = woken.readable().await?;
    while rustix::io::read(woken, &mut [0; 16]).is_ok_and(|count| count > 0) {}
    ready.clear_ready();
    Ok(())
}
