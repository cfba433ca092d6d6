//! A small server whose every habit is known: this test program, run once more with a variable that says how to be one.

use std::{
    env,
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    thread,
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use worker::clock;

/// The variable that tells how to be a server.
pub(super) const HABITS: &str = "CHECK_SERVER";

/// How long `/slow` takes, unless the habit `slow` says how many milliseconds.
pub(super) const SLOW: Duration = Duration::from_millis(500);

/// How long after the signal `after` begins to spoil answers: what was sent just before it is not to be among them.
const AFTER: Duration = Duration::from_millis(500);

/// The command that is this server.
pub(super) fn command() -> Vec<String> {
    let program = env::current_exe().unwrap().into_os_string().into_string().unwrap();
    [&program, "--exact", "check::server::be_a_server", "--ignored", "--nocapture", "--test-threads=1", "-q"]
        .map(str::to_owned)
        .to_vec()
}

/// A habit, such as `linger=1500`.
fn habit(name: &str) -> Option<String> {
    let habits = env::var(HABITS).unwrap_or_default();
    habits.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
}

fn number(name: &str) -> Option<u64> {
    habit(name)?.parse().ok()
}

/// How an answer ends that is not as it should be.
fn spoil(mut stream: &TcpStream, how: &str) {
    match how {
        "close" => {}
        "reset" => {
            let at_once = nix::libc::linger { l_onoff: 1, l_linger: 0 };
            nix::sys::socket::setsockopt(stream, nix::sys::socket::sockopt::Linger, &at_once).unwrap();
        }
        "truncate" => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").unwrap(),
        "503" => stream.write_all(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap(),
        "500" => stream.write_all(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap(),
        "hang" => clock::block_for(Duration::from_secs(600)),
        other => panic!("{other}"),
    }
}

/// One request on a connection, from its first byte to the answer.
fn serve(mut stream: TcpStream, spoilt: Option<&str>) {
    let mut request = Vec::new();
    let mut portion = [0; 4096];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut portion) {
            Ok(count @ 1..) => request.extend_from_slice(&portion[..count]),
            _ => return,
        }
    }
    if request.starts_with(b"GET /slow") {
        clock::block_for(number("slow").map_or(SLOW, Duration::from_millis));
    }
    if let Some(how) = spoilt {
        return spoil(&stream, how);
    }
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n");
    let _ = stream.shutdown(Shutdown::Write);
    // A reset would take the answer along if something were left unread.
    let _ = stream.read(&mut portion);
}

/// Serves on PORT. After SIGTERM it goes on for `linger` milliseconds, takes what waits in the kernel's queue, closes its
/// port, finishes what is in flight, and exits 0. `every=N` with `how` spoils each N-th answer, or with `after=yes` each
/// one after the signal; `ignore=yes` leaves SIGTERM ignored; `dies=MS` has it kill itself so long after its start, and
/// `eats=MS` has it take all the memory it gets from then on. `patient=yes` has it wait for whoever says nothing.
/// `tell=FILE` has it write there how many connections it has taken.
#[test]
#[ignore = "a server for the other tests, and no test"]
fn be_a_server() {
    let Ok(port) = env::var("PORT") else { return };
    if env::var(HABITS).is_err() {
        return;
    }
    let (mut told, tell) = UnixStream::pair().unwrap();
    if habit("ignore").is_none() {
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGTERM, tell.try_clone().unwrap()).unwrap();
    } else {
        signal_hook::flag::register(signal_hook::consts::SIGTERM, std::sync::Arc::default()).unwrap();
    }
    told.set_nonblocking(true).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.parse().unwrap())).unwrap();
    listener.set_nonblocking(true).unwrap();
    if let Some(after_ms) = number("dies") {
        thread::spawn(move || {
            clock::block_for(Duration::from_millis(after_ms));
            crate::processes::send(std::process::id().cast_signed(), rustix::process::Signal::KILL);
        });
    }

    if let Some(after_ms) = number("eats") {
        thread::spawn(move || {
            clock::block_for(Duration::from_millis(after_ms));
            let mut eaten = Vec::new();
            loop {
                // Only what is written to is really taken. Not at once: the kernel would kill it before anybody can look,
                // and while the last threads of it end, whoever else needs a page.
                eaten.push(vec![1u8; 1 << 20]);
                clock::block_for(Duration::from_millis(3));
            }
        });
    }

    let (mut count, mut in_flight) = (0u64, Vec::new());
    let (mut until_ns, mut spoilt_from_ns) = (None, u64::MAX);
    loop {
        let limit = until_ns.map(|until_ns: u64| Duration::from_nanos(until_ns.saturating_sub(clock::now_ns())));
        let limit = limit.map(|limit| Timespec::try_from(limit).unwrap());
        let mut polled = [PollFd::new(&listener, PollFlags::IN), PollFd::new(&told, PollFlags::IN)];
        let _ = poll(&mut polled[..if until_ns.is_some() { 1 } else { 2 }], limit.as_ref());
        if until_ns.is_none() && matches!(told.read(&mut [0; 8]), Ok(1..)) {
            let now_ns = clock::now_ns();
            until_ns = Some(now_ns + number("linger").unwrap_or(0) * 1_000_000);
            spoilt_from_ns = now_ns + AFTER.as_nanos() as u64;
        }
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).unwrap();
                    // Nobody who says nothing keeps it from ending. Under load a client may be late for longer than that.
                    let patience = Duration::from_millis(number("patience").unwrap_or(300));
                    stream.set_read_timeout(habit("patient").is_none().then_some(patience)).unwrap();
                    count += 1;
                    habit("tell").into_iter().for_each(|file| std::fs::write(file, count.to_string()).unwrap());
                    let due = number("every").is_some_and(|every| count.is_multiple_of(every))
                        || habit("after").is_some() && spoilt_from_ns <= clock::now_ns();
                    let how = habit("how").filter(|_| due);
                    in_flight.retain(|served: &thread::JoinHandle<()>| !served.is_finished());
                    in_flight.push(thread::spawn(move || serve(stream, how.as_deref())));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {}
            }
        }
        if until_ns.is_some_and(|until_ns| until_ns <= clock::now_ns()) {
            break;
        }
    }
    drop(listener);
    in_flight.into_iter().for_each(|served| served.join().unwrap());
    drop(tell);
}
