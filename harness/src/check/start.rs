//! Starts the command as a platform would, and waits until it is ready.

use std::{
    cell::OnceCell,
    ffi::OsString,
    fs::{self, File},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    os::unix::fs::fchown,
};

use scenarios::{WorkerId, wire};
use tokio::net::TcpStream;
use worker::clock::{self, Timer};

use super::{
    answer::Answer,
    memory::Exposed,
    output::Output,
    reserved::Reserved,
    settings::{self, Ready, Settings},
    sockets::{self, Listener},
    template::Template,
    user::User,
};
use crate::{
    drill::notify::{Notice, NotifySocket},
    failure::{Failure, plain_io},
    matrix::programs,
    process::{self, Launch, Live},
};

/// A port that nobody uses: the one that was asked for, or one below those that the kernel gives to outgoing connections,
/// so that no client takes it before the server does.
///
/// # Errors
/// The one that was asked for is in use, or there is none.
pub fn port(asked: Option<u16>) -> Result<Reserved, Failure> {
    if let Some(port) = asked {
        // Who asks for it may have reserved it.
        let reserved = Reserved::take(port).unwrap_or_else(|| Reserved::unnamed(port));
        return try_port(port).map(|()| reserved).map_err(|error| not_to_be_had(port, &error));
    }
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let lowest: u16 = range.split_whitespace().next().and_then(|low| low.parse().ok()).unwrap_or(32_768);
    let (low, high) = if lowest > 12_000 { (10_000, lowest) } else { (10_000, 60_000) };
    // Checks that run at the same time begin at different places.
    let start = clock::now_ns() / 1000 + u64::from(std::process::id()) * 7919;
    let span = u64::from(high - low);
    let numbers = (0..span).map(|step| low + u16::try_from((start + step * 13) % span).unwrap_or(0));
    Reserved::first(numbers, |port| try_port(port).is_ok())
        .ok_or_else(|| Failure::unable("no port is free on this machine"))
}

fn try_port(port: u16) -> io::Result<()> {
    // Listening is looked up too: a server with SO_REUSEPORT would let another one bind.
    if sockets::listeners().iter().any(|listener| listener.port == port) {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).map(drop)
}

fn not_to_be_had(port: u16, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::AddrInUse => Failure::bad_input(format!("--port: {port} is in use already"))
            .hint("end what listens there, or leave --port out for a free one in PORT"),
        // EACCES (ip(7)).
        io::ErrorKind::PermissionDenied => Failure::bad_input(format!("--port: only root may listen on {port} here"))
            .hint("give one above net.ipv4.ip_unprivileged_port_start, which is 1024 unless it was changed; or run this as root"),
        _ => Failure::unable(format!("--port: nobody can listen on {port} here: {}", plain_io(error))),
    }
}

/// A command that was started.
pub struct Started {
    /// Its first process.
    pub top: Live,
    /// What it writes.
    pub output: Output,
    /// Where it tells that it is ready, if it is to.
    pub notify: Option<NotifySocket>,
    /// When it was started.
    pub at_ns: u64,
}

/// Starts the command of `settings` in `seat`, with this port in `PORT`; its output goes to `log` too.
///
/// # Errors
/// It can't be started.
pub async fn start(settings: &Settings, seat: process::Seat, port: u16, log: Option<File>) -> anyhow::Result<Started> {
    let notify = match settings.ready {
        Ready::Notify => Some(NotifySocket::open(&format!("check-{port}"), WorkerId::FIRST)?),
        _ => None,
    };
    let user = settings.user.as_deref().map(User::look_up).transpose()?;
    let (output, writer) = Output::capture(log)?;
    let command = &settings.command;
    let argv = match &user {
        None => command.iter().map(OsString::from).collect(),
        Some(user) => {
            // Container runtimes do this too: programs open /dev/stderr once more.
            fchown(&writer, Some(user.uid), Some(user.gid))?;
            // setpriv would not find it either, and say so by the end of the first process only.
            let program = command.first().filter(|_| settings.env.iter().all(|(name, _)| name != "PATH"));
            if let Some(program) = program.filter(|program| !program.contains('/') && programs::find(program).is_none())
            {
                return Err(not_started(&process::SpawnError::NotFound { program: program.into() }).into());
            }
            user.argv(command)
        }
    };
    let env = environment(settings, port, notify.as_ref(), user.as_ref());
    let launch = Launch { argv, env, log: writer, seat };
    let at_ns = clock::now_ns();
    let exposed = Exposed::begin();
    let top = process::spawn(launch).await.map_err(|error| not_started(&error))?;
    drop(exposed);
    Ok(Started { top, output, notify, at_ns })
}

fn not_started(error: &process::SpawnError) -> Failure {
    match error {
        process::SpawnError::Namespace(_) => Failure::unable(error.to_string()),
        _ => Failure::bad_input(error.to_string()),
    }
}

fn environment(
    settings: &Settings,
    port: u16,
    notify: Option<&NotifySocket>,
    user: Option<&User>,
) -> Vec<(OsString, OsString)> {
    let mut own: Vec<(OsString, OsString)> = user.map(User::environment).unwrap_or_default();
    own.push((wire::env::PORT.into(), port.to_string().into()));
    own.extend(notify.map(|notify| (wire::env::NOTIFY_SOCKET.into(), notify.address().into())));
    for (name, value) in &settings.env {
        own.retain(|(known, _)| known != name.as_str());
        own.push((name.into(), value.into()));
    }
    // Whoever waits for our readiness is not the one to tell of the command's.
    let inherited = std::env::vars_os()
        .filter(|(name, _)| name != wire::env::NOTIFY_SOCKET && own.iter().all(|(known, _)| known != name));
    let mut all: Vec<_> = inherited.collect();
    all.extend(own);
    all
}

/// What came of waiting for readiness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Boot {
    /// It is ready, at this address.
    Ready(SocketAddr),
    /// The signal is due, and it is not ready.
    SignalDue,
    /// Its first process has ended.
    Ended,
    /// It did not get ready in time.
    TimedOut(NotReady),
    /// The check is to stop.
    Stopped,
}

/// What is known of a command that did not get ready in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotReady {
    /// Whether it listened on its port.
    pub listens: bool,
    /// The other ports that it listens on.
    pub others: Vec<u16>,
    /// The status of its last answer, where a GET is to be answered.
    pub status: Option<u16>,
    /// Whether it said READY=1.
    pub notified: bool,
}

/// How often it is looked whether the command is ready.
const LOOK_NS: u64 = 10_000_000;
/// How long a single attempt to talk to it may take.
const PROBE_NS: u64 = 1_000_000_000;
/// How long it may listen elsewhere only, before that is taken to be its port.
const ELSEWHERE_NS: u64 = 500_000_000;

/// Waiting until a command is ready.
pub struct Waiting<'a> {
    /// What is asked for.
    pub settings: &'a Settings,
    /// Its first process.
    pub top: &'a Live,
    /// Where it tells that it is ready, if it is to.
    pub notify: Option<&'a NotifySocket>,
    /// When it was started.
    pub started_ns: u64,
    /// What stands in `PORT`.
    pub port: u16,
}

impl Waiting<'_> {
    /// Waits until the command is ready, or until it won't be.
    ///
    /// # Errors
    /// There can be no timer.
    pub async fn until_ready(
        &self,
        signal_due_ns: Option<u64>,
        stopped: impl Future<Output = ()>,
    ) -> std::io::Result<Boot> {
        let mut timer = Timer::new()?;
        let timeout_ns = self.started_ns + self.settings.ready_timeout_ms * 1_000_000;
        let until_ns = signal_due_ns.map_or(timeout_ns, |due_ns| due_ns.min(timeout_ns));
        tokio::pin!(stopped);
        let mut elsewhere_since_ns = None;
        let mut found = NotReady::default();
        loop {
            let now_ns = clock::now_ns();
            if self.top.has_ended() {
                return Ok(Boot::Ended);
            }
            if now_ns >= until_ns {
                return Ok(match signal_due_ns {
                    Some(due_ns) if due_ns <= now_ns => Boot::SignalDue,
                    _ => {
                        found.others = ports(&listening(self.top, self.port), self.port);
                        Boot::TimedOut(found)
                    }
                });
            }
            if let Some(notify) = self.notify {
                while let Some((notices, _)) = notify.try_next() {
                    found.notified |= notices.contains(&Notice::Ready);
                }
            }
            let own = listening(self.top, self.port);
            let at = |port: u16| own.iter().find(|listener| listener.port == port).map(addresses);
            let mut address = at(self.port).unwrap_or_default();
            if address.is_empty() && !own.is_empty() && self.settings.port.is_none() {
                // It does not go by PORT: where it listens on one other port only, that is the one.
                let since_ns = *elsewhere_since_ns.get_or_insert(now_ns);
                let others = ports(&own, self.port);
                if let ([other], true) = (&others[..], now_ns >= since_ns + ELSEWHERE_NS) {
                    address = at(*other).unwrap_or_default();
                }
            }
            found.listens |= !address.is_empty();
            for address in address {
                let probe = probe(&self.settings.ready, address, &mut found);
                let ready = tokio::select! {
                    biased;
                    ready = probe => ready,
                    () = &mut stopped => return Ok(Boot::Stopped),
                    waited = timer.until(until_ns.min(now_ns + PROBE_NS)) => { waited?; false }
                };
                if ready {
                    return Ok(Boot::Ready(address));
                }
            }
            tokio::select! {
                biased;
                () = &mut stopped => return Ok(Boot::Stopped),
                waited = timer.until(until_ns.min(clock::now_ns() + LOOK_NS)) => waited?,
            }
        }
    }
}

/// The sockets that processes of the command listen on.
fn listening(top: &Live, port: u16) -> Vec<Listener> {
    let all = sockets::listeners();
    // Those of others are on this machine too, so it counts who holds them; but on its own port nobody listened before.
    let below = process::descendants(std::process::id().cast_signed());
    let pids: Vec<i32> = std::iter::once(top.pid()).chain(below.iter().map(process::Other::pid)).collect();
    // Each descriptor is looked at once, however many listen on this machine.
    let own = OnceCell::new();
    let is_own =
        |listener: &Listener| own.get_or_init(|| sockets::held(pids.iter().copied())).contains(&listener.inode);
    all.into_iter().filter(|listener| listener.port == port || is_own(listener)).collect()
}

fn ports(listeners: &[Listener], except: u16) -> Vec<u16> {
    let mut ports: Vec<u16> = listeners.iter().map(|listener| listener.port).filter(|&port| port != except).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Where a client on this machine may reach it, the most likely first.
fn addresses(listener: &Listener) -> Vec<SocketAddr> {
    let addresses: Vec<IpAddr> = match listener.address {
        IpAddr::V4(address) if address.is_unspecified() => vec![Ipv4Addr::LOCALHOST.into()],
        // Most such sockets take IPv4 too (ipv6(7), IPV6_V6ONLY).
        IpAddr::V6(address) if address.is_unspecified() => {
            vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
        }
        address => vec![address],
    };
    addresses.into_iter().map(|address| SocketAddr::new(address, listener.port)).collect()
}

/// Whether it is ready, as far as this tells.
async fn probe(ready: &Ready, address: SocketAddr, found: &mut NotReady) -> bool {
    match ready {
        Ready::Notify => found.notified && TcpStream::connect(address).await.is_ok(),
        Ready::Tcp => TcpStream::connect(address).await.is_ok(),
        Ready::Http(path) => {
            let template = Template { method: "GET".to_owned(), path: path.clone(), headers: Vec::new(), body: None };
            let status = answered(&template, address).await;
            found.status = status.or(found.status);
            status.is_some_and(|status| (200..400).contains(&status))
        }
    }
}

async fn answered(template: &Template, address: SocketAddr) -> Option<u16> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(&template.bytes(&format!("localhost:{}", address.port()), "close")).await.ok()?;
    let mut answer = Answer::new(&template.method);
    let mut portion = [0; 4096];
    while answer.status().is_none() {
        let count = stream.read(&mut portion).await.ok().filter(|&count| count > 0)?;
        answer.take(&portion[..count]).ok()?;
    }
    answer.status()
}

/// Why it is not ready, after how long, in words.
#[must_use]
pub fn not_ready(settings: &Settings, port: u16, found: &NotReady) -> String {
    let time = settings::time(settings.ready_timeout_ms * 1000);
    let what = match (&settings.ready, found) {
        (Ready::Http(path), NotReady { status: Some(status), .. }) => {
            format!("GET {path} was not answered with 200 to 399 within {time}; the last answer was {status}")
        }
        (Ready::Http(path), NotReady { listens: true, .. }) => format!("GET {path} was not answered within {time}"),
        (Ready::Notify, NotReady { notified: false, .. }) => format!("it did not say READY=1 within {time}"),
        (Ready::Notify, NotReady { listens: false, .. }) => {
            format!("it said READY=1, but did not listen on port {port} within {time}")
        }
        (_, NotReady { listens: true, .. }) => format!("port {port} took no connection within {time}"),
        _ => format!("it did not listen on port {port} within {time}"),
    };
    match &found.others[..] {
        [] => what,
        others => {
            let list: Vec<String> = others.iter().map(u16::to_string).collect();
            format!("{what}; it listens on {}: say which one by --port", list.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_port_can_t_be_had_is_told_apart() {
        for (kind, what, code) in [
            (io::ErrorKind::AddrInUse, "80 is in use already", 2),
            (io::ErrorKind::PermissionDenied, "only root may listen on 80", 2),
            (io::ErrorKind::OutOfMemory, "nobody can listen on 80", 3),
        ] {
            let failure = not_to_be_had(80, &kind.into());
            assert!(failure.what.contains(what) && failure.exit_code == code, "{failure:?}");
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let failure = port(Some(listener.local_addr().unwrap().port())).unwrap_err();
        assert!(failure.what.contains("in use already"), "{failure:?}");
    }

    #[test]
    fn what_is_not_ready_says_how_far_it_got() {
        let found = NotReady::default();
        let listens = NotReady { listens: true, ..found.clone() };
        let http = Ready::Http("/up".to_owned());
        for (ready, found, why) in [
            (Ready::Tcp, found.clone(), "it did not listen on port 80 within 1 s"),
            (Ready::Tcp, listens.clone(), "port 80 took no connection within 1 s"),
            (
                Ready::Tcp,
                NotReady { others: vec![81, 82], ..found.clone() },
                "it did not listen on port 80 within 1 s; it listens on 81, 82: say which one by --port",
            ),
            (http.clone(), found.clone(), "it did not listen on port 80 within 1 s"),
            (http.clone(), listens.clone(), "GET /up was not answered within 1 s"),
            (
                http,
                NotReady { status: Some(503), ..listens.clone() },
                "GET /up was not answered with 200 to 399 within 1 s; the last answer was 503",
            ),
            (Ready::Notify, listens, "it did not say READY=1 within 1 s"),
            (
                Ready::Notify,
                NotReady { notified: true, ..found },
                "it said READY=1, but did not listen on port 80 within 1 s",
            ),
        ] {
            let settings = Settings { ready, ready_timeout_ms: 1000, ..super::super::samples::settings() };
            assert_eq!(not_ready(&settings, 80, &found), why);
        }
    }
}
