//! Starts a worker and talks to it.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddrV4},
    os::{
        fd::OwnedFd,
        unix::{net::UnixDatagram, process::ExitStatusExt},
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, Response, StatusCode, body::Incoming, client::conn::http1::SendRequest};
use hyper_util::rt::TokioIo;
use rustix::{
    event::{PollFd, PollFlags, poll},
    net::{AddressFamily, SocketType, bind, getsockname, socket, sockopt::set_socket_reuseaddr},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
    time::Timespec,
};
use scenarios::{
    Status, Tick,
    time::Schedule,
    wire::{InvocationRequest, Progress, TICK_HEADER, env},
};
use worker::{clock, store};

/// How long a test waits for anything before it fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a worker is started with. Ticks are 2 ms, the boot ends at tick 5, an invocation takes 12 ticks.
pub(crate) struct Rig {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) schedule: Schedule,
    pub(crate) port: u16,
    pub(crate) command: Vec<String>,
    notify: UnixDatagram,
    variables: BTreeMap<&'static str, String>,
    /// Keeps the port for the worker: bound, but not listening.
    _reservation: OwnedFd,
}

pub(crate) struct Running {
    pub(crate) rig: Rig,
    child: Child,
    pidfd: OwnedFd,
    log: mpsc::Receiver<String>,
    /// What the log has said so far.
    pub(crate) said: Vec<String>,
}

impl Rig {
    pub(crate) fn new() -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let notify = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        notify.set_read_timeout(Some(PATIENCE)).unwrap();
        store::create(&folder.path().join("results")).unwrap();
        let (reservation, port) = reserve_port();
        let schedule = Schedule { origin_ns: clock::now_ns() / 1_000 * 1_000, tick_ns: 2_000_000 };
        let text = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let variables = BTreeMap::from([
            (env::PORT, port.to_string()),
            (env::NOTIFY_SOCKET, text("notify")),
            (env::STORE, text("results")),
            (env::WORKER, "worker-3".to_owned()),
            (env::SLOTS, "2".to_owned()),
            (env::ORIGIN_NS, schedule.origin_ns.to_string()),
            (env::TICK_NS, schedule.tick_ns.to_string()),
            (env::READY_TICK, "5".to_owned()),
            (env::INVOCATION_TICKS, "12".to_owned()),
            (env::ON_SIGTERM, "drain".to_owned()),
        ]);
        let command = vec![env!("CARGO_BIN_EXE_worker").to_owned()];
        Rig { folder, schedule, port, command, notify, variables, _reservation: reservation }
    }

    #[expect(clippy::needless_pass_by_value, reason = "a number or a text, whatever reads best")]
    pub(crate) fn with(mut self, name: &'static str, value: impl ToString) -> Rig {
        self.variables.insert(name, value.to_string());
        self
    }

    pub(crate) fn without(mut self, name: &'static str) -> Rig {
        self.variables.remove(name);
        self
    }

    /// A boot that doesn't end within the test.
    pub(crate) fn never_ready(self) -> Rig {
        self.with(env::READY_TICK, 1_000_000)
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("results")
    }

    #[expect(clippy::disallowed_methods, reason = "these tests spawn here and nowhere else")]
    pub(crate) fn start(self) -> Running {
        let mut child = Command::new(&self.command[0])
            .args(&self.command[1..])
            .env_clear()
            .envs(&self.variables)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (lines, log) = mpsc::channel();
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| lines.send(line)));
        Running { rig: self, child, pidfd, log, said: Vec::new() }
    }

    pub(crate) fn start_and_wait_until_ready(self) -> Running {
        let mut running = self.start();
        assert!(running.notification().starts_with("READY=1\n"));
        running.wait_for("is ready");
        running
    }
}

impl Running {
    pub(crate) fn notification(&self) -> String {
        let mut buffer = [0; 200];
        let length = self.rig.notify.recv(&mut buffer).expect("a notification");
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    pub(crate) fn no_notification_waits(&self) -> bool {
        self.rig.notify.set_nonblocking(true).unwrap();
        self.rig.notify.recv(&mut [0; 200]).is_err()
    }

    /// Waits until the log says `what`, and gives the whole line.
    pub(crate) fn wait_for(&mut self, what: &str) -> String {
        if let Some(line) = self.said.iter().find(|line| line.contains(what)) {
            return line.clone();
        }
        loop {
            match self.log.recv_timeout(PATIENCE) {
                Ok(line) => self.said.push(line.clone()),
                Err(_) => panic!("the log never says {what:?}, only {:#?}", self.said),
            }
            if let Some(line) = self.said.last().filter(|line| line.contains(what)) {
                return line.clone();
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    #[expect(clippy::disallowed_methods, reason = "these tests signal here and nowhere else")]
    pub(crate) fn signal(&self, signal: Signal) {
        pidfd_send_signal(&self.pidfd, signal).unwrap();
    }

    /// Waits for the end of the process and gives its status and the moment.
    pub(crate) fn ended(&mut self) -> (Status, u64) {
        let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&patience)).unwrap();
        let at_ns = clock::now_ns();
        assert_eq!(ready, 1, "the worker doesn't end; it said {:#?}", self.log.try_iter().collect::<Vec<_>>());
        let status = self.child.wait().unwrap();
        let status = match (status.code(), status.signal()) {
            (Some(code), _) => Status::Code(code.try_into().unwrap()),
            (_, Some(signal)) => Status::Signal(scenarios::Signal::from_number(signal).unwrap()),
            _ => unreachable!("ended in one of two ways"),
        };
        (status, at_ns)
    }

    /// Ends with this code, and has said so on stderr in one line.
    pub(crate) fn fails(mut self, code: u8, complaint: &str) {
        let (status, _) = self.ended();
        assert_eq!(status, Status::Code(code));
        self.wait_for(complaint);
    }

    pub(crate) async fn client(&self) -> Client {
        let stream = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, self.rig.port)).await.unwrap();
        let (send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(async move { connection.await.is_ok() });
        Client { send, connection }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        #[expect(clippy::disallowed_methods, reason = "these tests signal here and in `signal`")]
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// One connection to a worker.
pub(crate) struct Client {
    send: SendRequest<Full<Bytes>>,
    /// Ends when the connection does.
    pub(crate) connection: tokio::task::JoinHandle<bool>,
}

impl Client {
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        self.send.ready().await.unwrap();
        self.send.send_request(request).await.unwrap()
    }

    pub(crate) async fn get(&mut self, path: &str) -> StatusCode {
        let request = Request::get(path).header("host", "worker").body(Full::default()).unwrap();
        let response = self.send(request).await;
        let status = response.status();
        response.into_body().collect().await.unwrap();
        status
    }

    pub(crate) async fn post(&mut self, body: impl Into<Bytes>) -> Response<Incoming> {
        self.send(post(body, None)).await
    }

    /// Asks for an invocation that counts as admitted at `admitted`.
    pub(crate) async fn invoke(&mut self, request: u16, admitted: Tick) -> Response<Incoming> {
        let body = InvocationRequest { request, addends: vec![u32::from(request), 1, 2] };
        self.send(post(serde_json::to_vec(&body).unwrap(), Some(admitted))).await
    }
}

pub(crate) fn post(body: impl Into<Bytes>, admitted: Option<Tick>) -> Request<Full<Bytes>> {
    let request = Request::builder().method(Method::POST).uri("/invocations").header("host", "worker");
    let request = match admitted {
        Some(tick) => request.header(TICK_HEADER, tick.0),
        None => request,
    };
    request.body(Full::new(body.into())).unwrap()
}

/// The next line of an answer, or none at its end.
pub(crate) async fn next_line(body: &mut Incoming) -> Option<Progress> {
    let frame = body.frame().await?.expect("the answer is not cut off");
    Some(serde_json::from_slice(frame.data_ref().unwrap()).expect("one line a frame"))
}

/// Everything that is left of an answer.
pub(crate) async fn lines(response: Response<Incoming>) -> Vec<Progress> {
    let whole = response.into_body().collect().await.expect("the answer is not cut off").to_bytes();
    whole
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

/// The text of an answer.
pub(crate) async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(future)
}

/// A port that nobody else gets meanwhile, and what keeps it.
fn reserve_port() -> (OwnedFd, u16) {
    let reservation = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    set_socket_reuseaddr(&reservation, true).unwrap();
    bind(&reservation, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let address: SocketAddrV4 = getsockname(&reservation).unwrap().try_into().unwrap();
    (reservation, address.port())
}
