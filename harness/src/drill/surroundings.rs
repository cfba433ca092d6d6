//! What the workers of a drill find around them: ports, sockets and their environment.

use std::{
    ffi::OsString,
    io,
    net::Ipv4Addr,
    os::{linux::net::SocketAddrExt, unix::net},
};

use scenarios::{WorkerId, wire};
use tokio::{net::TcpSocket, task::JoinSet};

use super::Run;

/// A port on all addresses that nobody else gets while we hold it: bound, but not listening. With SO_REUSEADDR on both
/// sides the worker can bind it all the same (socket(7)).
pub(super) fn reserve_port() -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::UNSPECIFIED, 0).into())?;
    Ok(socket)
}

/// A socket that workers connect to; they end when we do, since the connections end then.
pub(super) fn lifeline(name: &str, tasks: &mut JoinSet<()>) -> io::Result<String> {
    let name = format!("termdrill-{name}-lifeline");
    let listener = net::UnixListener::bind_addr(&net::SocketAddr::from_abstract_name(&name)?)?;
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    tasks.spawn_local(async move {
        let mut held = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            held.push(connection);
        }
    });
    Ok(format!("@{name}"))
}

/// The file beside the store in which foreign workers commit that have no SQLite.
pub const STORE_LINES: &str = "store.jsonl";

impl Run<'_> {
    /// The port that is kept for a worker.
    pub(super) fn port(&self, worker: WorkerId) -> Option<u16> {
        let port = self.ports.get(usize::from(worker.0) - 1)?;
        port.local_addr().ok().map(|addr| addr.port())
    }

    /// Our own environment, and what makes the command a worker of this drill.
    pub(super) fn environment(&self, worker: WorkerId) -> Vec<(OsString, OsString)> {
        let scenario = self.setup.scenario;
        let port = self.port(worker);
        let schedule = self.plan.schedule;
        let fails = scenario.fail_worker_1 && worker == WorkerId::FIRST;
        let mut own: Vec<(&str, OsString)> = vec![
            (wire::env::PORT, port.unwrap_or(0).to_string().into()),
            (wire::env::WORKER, worker.to_string().into()),
            (wire::env::SLOTS, scenario.slots_per_worker.to_string().into()),
            (wire::env::ORIGIN_NS, schedule.origin_ns.to_string().into()),
            (wire::env::TICK_NS, schedule.tick_ns.to_string().into()),
            (wire::env::READY_TICK, self.drill.ready_at(worker).0.to_string().into()),
            (wire::env::INVOCATION_TICKS, scenario.invocation_s.0.to_string().into()),
            (wire::env::ON_SIGTERM, scenario.on_sigterm.name().into()),
            (wire::env::HANDLER_INSTALLED, scenario.handler_installed.name().into()),
            (wire::env::FAIL_BOOT, fails.to_string().into()),
            (wire::env::STORE, self.setup.store.into()),
        ];
        if let Some(socket) = self.sockets.get(&worker) {
            own.push((wire::env::NOTIFY_SOCKET, socket.address().into()));
        }
        if let Some((_, path)) = self.pipes.get(&worker) {
            own.push((wire::env::NOTIFY_PIPE, path.as_os_str().to_owned()));
            own.push((wire::env::STORE_LINES, self.setup.store.with_file_name(STORE_LINES).into()));
        }
        if let Some(lifeline) = &self.lifeline {
            own.push((wire::env::LIFELINE, lifeline.into()));
        }
        if let Some(clock) = self.clocks.get(&worker) {
            own.push((wire::env::CLOCK, clock.into()));
        }
        if self.setup.speed_if_alone().is_some() {
            own.push((wire::env::KEEP_WARM, true.to_string().into()));
        }
        if let Some(fault) = self.setup.fault {
            own.push((wire::env::FAULT, fault.name().into()));
        }
        let inherited = std::env::vars_os().filter(|(name, _)| {
            own.iter().all(|(own, _)| name != own) && !name.as_encoded_bytes().starts_with(b"TERMDRILL_")
        });
        inherited.chain(own.iter().map(|(name, value)| (OsString::from(name), value.clone()))).collect()
    }
}
