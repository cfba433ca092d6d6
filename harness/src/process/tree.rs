//! The process tree below a process, read from /proc.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use scenarios::Signal;

use super::Other;

/// The direct children of a process, of all its threads (proc_pid_task(5), `children`); none if it is gone.
#[must_use]
pub fn children(pid: i32) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    tasks.flatten().flat_map(|task| children_of_thread(&task.path())).collect()
}

/// How many times a list of children is read at most.
const READS: usize = 16;

/// The children of the thread whose folder in a /proc this is.
///
/// Where one of them ends while the kernel prints the list it may leave out another one (proc_pid_task(5)), seen here once in
/// 50,000 times. So a list counts when it reads the same twice.
#[must_use]
pub fn children_of_thread(task: &Path) -> Vec<i32> {
    let path = task.join("children");
    let read = || {
        let list = fs::read_to_string(&path).unwrap_or_default();
        list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    };
    settled(read)
}

fn settled(mut read: impl FnMut() -> Vec<i32>) -> Vec<i32> {
    let mut last = read();
    for _ in 1..READS {
        let again = read();
        if again == last {
            break;
        }
        last = again;
    }
    last
}

/// Every living process below a process, parents before children, each held by a pidfd.
#[must_use]
pub fn descendants(pid: i32) -> Vec<Other> {
    let mut found: Vec<Other> = Vec::new();
    let mut pending = children(pid);
    while let Some(pid) = pending.pop() {
        if let Some(process) = Other::open(pid).filter(|process| !process.has_ended()) {
            pending.extend(children(pid));
            found.push(process);
        }
    }
    found
}

/// The process among `top` and those below it that has the number `pid` in its own PID namespace; where several have it,
/// the one nearest to `top`.
#[must_use]
pub fn by_own_number(top: i32, pid: i32) -> Option<i32> {
    let own_number = |process: i32| {
        let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().next_back()?.parse::<i32>().ok()
    };
    let below = descendants(top);
    std::iter::once(top).chain(below.iter().map(Other::pid)).find(|&process| own_number(process) == Some(pid))
}

/// Whether anybody listens on the TCP port, on whatever address of this machine (`proc_pid_net(5)`).
#[must_use]
pub fn listens(port: u16) -> bool {
    Listening::on(port).is_there()
}

/// A TCP port on which somebody may listen, to be looked at again and again.
#[derive(Debug)]
pub struct Listening {
    port: u16,
    /// The one that had the listener last comes first.
    tables: [&'static str; 2],
}

impl Listening {
    /// On whatever address of this machine.
    #[must_use]
    pub fn on(port: u16) -> Listening {
        Listening { port, tables: ["/proc/self/net/tcp", "/proc/self/net/tcp6"] }
    }

    /// Whether somebody does at this moment.
    ///
    /// The kernel lists those who listen before all other sockets (`tcp_get_idx` in net/ipv4/tcp_ipv4.c), and to look for
    /// others it goes through a table with room for very many, which takes a millisecond. So no more is read than it takes.
    pub fn is_there(&mut self) -> bool {
        let found = self.tables.iter().position(|table| has_listener(table, self.port).unwrap_or(false));
        if found == Some(1) {
            self.tables.swap(0, 1);
        }
        found.is_some()
    }
}

/// How much is read at once, in bytes: a row of the table of IPv4. For a larger portion the kernel goes on to the next row.
const PORTION: usize = 150;

fn has_listener(table: &str, port: u16) -> io::Result<bool> {
    let wanted = format!(":{port:04X}");
    let mut file = File::open(table)?;
    let (mut text, mut portion) = (String::new(), [0; PORTION]);
    loop {
        let count = file.read(&mut portion)?;
        text.push_str(&String::from_utf8_lossy(&portion[..count]));
        while let Some((row, next)) = row(&text) {
            match row {
                Row::Listens(local) if local.ends_with(&wanted) => return Ok(true),
                // Nobody that listens comes after it.
                Row::Other => return Ok(false),
                Row::Listens(_) | Row::Head if next.is_none() => break,
                Row::Listens(_) | Row::Head => {}
            }
            text.drain(..next.unwrap_or(0));
        }
        if count == 0 {
            return Ok(false);
        }
    }
}

/// What a row of such a table is about.
enum Row<'a> {
    Head,
    /// Somebody who listens on this address and port.
    Listens(&'a str),
    Other,
}

/// The first row, as soon as its state is there, and where the next one begins, once that is known.
fn row(text: &str) -> Option<(Row<'_>, Option<usize>)> {
    let next = text.find('\n').map(|end| end + 1);
    let mut fields = text[..next.unwrap_or(text.len())].split_whitespace();
    let (local, state, _) = (fields.nth(1)?, fields.nth(1)?, fields.next()?);
    let row = match state {
        "st" => Row::Head,
        // TCP_LISTEN.
        "0A" => Row::Listens(local),
        _ => Row::Other,
    };
    Some((row, next))
}

/// Whether a process sleeps with nothing to see to: no signal pending that it does not block, and no child that has
/// ended and is not reaped (`proc_pid_status(5)`). A process that is gone is at rest for good.
#[must_use]
pub fn is_at_rest(pid: i32) -> bool {
    rest(pid).is_some()
}

/// The rest that a process is at, if it is: told from another one by how often it was switched off the processor before.
#[must_use]
pub fn rest(pid: i32) -> Option<u64> {
    let Some(status) = Status::read(pid) else { return Some(u64::MAX) };
    let rests = status.sleeps
        && !status.has_pending
        && !children(pid).into_iter().any(|child| Status::read(child).is_some_and(|child| child.is_zombie))
        && is_off_the_processor(pid);
    rests.then_some(status.switches)
}

/// Whether a process is about to be gone: SIGKILL waits for it, or it is on its way out (`PF_EXITING`, proc_pid_stat(5)). One
/// that is killed with its parent is in that state when the parent's end is seen.
#[must_use]
pub fn is_dying(pid: i32) -> bool {
    const PF_EXITING: u64 = 4;
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    let flags = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & PF_EXITING != 0)
        || Status::read(pid).is_none_or(|status| status.is_zombie || status.is_killed)
}

/// Whether a process that is said to sleep really does. One that reaps a child in wait(2) counts as sleeping until it
/// returns, although it runs, and on a busy machine it can be interrupted right there, when the child is gone already.
/// `/proc/PID/syscall` knows better (`proc_pid_syscall(5)`). Where it can't be read, which takes the right to trace the
/// process, the state has to do.
fn is_off_the_processor(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/syscall")).map_or(true, |syscall| syscall.trim_end() != "running")
}

/// Whether every thread of a process sleeps or has ended (`proc_pid_stat(5)`): none runs, and none waits for a processor or
/// for a disk. Those of a process that is gone have ended.
#[must_use]
pub fn all_threads_sleep(pid: i32) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    tasks.flatten().all(|task| {
        let Ok(stat) = fs::read_to_string(task.path().join("stat")) else { return true };
        // The name of a program may hold anything, parentheses included.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        matches!(state, Some('S' | 'I' | 'Z' | 'X'))
    })
}

/// Whether there is a process of this number, ended but not reaped included.
#[must_use]
pub fn is_there(pid: i32) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap_or(false)
}

/// In which state a process is, as `/proc/PID/status` says it: `T (stopped)`. None if it is gone.
#[must_use]
pub fn state(pid: i32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(text.lines().find_map(|line| line.strip_prefix("State:"))?.trim().to_owned())
}

struct Status {
    sleeps: bool,
    is_zombie: bool,
    has_pending: bool,
    is_killed: bool,
    /// How often it left the processor.
    switches: u64,
}

impl Status {
    fn read(pid: i32) -> Option<Status> {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim).unwrap_or_default()
        };
        let mask = |name: &str| u64::from_str_radix(field(name), 16).unwrap_or(0);
        let state = field("State").chars().next();
        Some(Status {
            // One that has ended is not at rest: its parent, or we, have yet to take note of it.
            sleeps: state == Some('S'),
            is_zombie: matches!(state, Some('Z' | 'X')),
            is_killed: (mask("SigPnd") | mask("ShdPnd")) & (1 << (Signal::KILL.number() - 1)) != 0,
            has_pending: (mask("SigPnd") | mask("ShdPnd")) & !mask("SigBlk") != 0,
            switches: ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"]
                .into_iter()
                .filter_map(|name| field(name).parse::<u64>().ok())
                .sum(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        hint,
        net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
        sync::{
            atomic::{AtomicBool, Ordering},
            mpsc,
        },
        thread,
    };

    use super::*;

    #[test]
    fn a_list_counts_when_it_reads_the_same_twice() {
        let full = vec![1, 2, 3];
        for (lists, wanted, reads) in [
            (vec![full.clone(), full.clone()], full.clone(), 2),
            // One ended, and another one was left out with it.
            (vec![vec![1, 3], vec![1, 2], vec![1, 2]], vec![1, 2], 3),
            (vec![vec![], vec![]], vec![], 2),
        ] {
            let mut left = lists.into_iter();
            let mut count = 0;
            let found = settled(|| {
                count += 1;
                left.next().unwrap()
            });
            assert_eq!((found, count), (wanted, reads));
        }
        // Where they never settle the last one counts.
        let mut number = 0;
        let restless = settled(|| {
            number += 1;
            vec![number]
        });
        assert_eq!(restless, [READS as i32]);
    }

    #[test]
    fn a_port_is_listened_on_or_not() {
        for address in [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))] {
            let Ok(listener) = TcpListener::bind(address) else {
                eprintln!("skipped for {address}: this machine has no such address");
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let mut listening = Listening::on(port);
            assert!(listens(port) && listening.is_there() && listening.is_there());
            // A connection that is open is not somebody who listens.
            let _connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            drop(listener);
            assert!(!listens(port) && !listening.is_there());
        }
    }

    #[test]
    fn who_runs_is_not_at_rest_whatever_else_is_said_of_it() {
        let over = AtomicBool::new(false);
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                while !over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
            let thread = told.recv().unwrap();
            // It may be about to sleep or to wake just now; once it spins it runs until it is told.
            while is_off_the_processor(thread) {}
            for _ in 0..1_000 {
                assert!(!is_off_the_processor(thread));
                assert!(!all_threads_sleep(std::process::id().cast_signed()));
            }
            over.store(true, Ordering::Relaxed);
        });
        assert!(is_off_the_processor(1_000_000_000));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a program that does nothing but wait for its input")]
    fn all_threads_of_a_program_that_waits_sleep() {
        use std::{
            io::Write,
            process::{Command, Stdio},
        };
        let mut command = Command::new("/bin/cat");
        let mut waits = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let pid = waits.id().cast_signed();
        // While it starts it may be at rest for a moment.
        waits.stdin.as_mut().unwrap().write_all(b"it runs").unwrap();
        waits.stdout.as_mut().unwrap().read_exact(&mut [0; 7]).unwrap();
        while !is_at_rest(pid) {
            thread::yield_now();
        }
        assert!(all_threads_sleep(pid));
        let first = rest(pid).unwrap();
        assert_eq!(rest(pid), Some(first));
        waits.stdin.as_mut().unwrap().write_all(b"awake for a moment").unwrap();
        while rest(pid).is_none_or(|rest| rest == first) {
            thread::yield_now();
        }
        waits.kill().unwrap();
        waits.wait().unwrap();
        assert!(all_threads_sleep(pid), "it is gone");
    }

    #[test]
    fn a_process_is_found_by_its_own_number() {
        let own = std::process::id().cast_signed();
        assert_eq!(by_own_number(own, own), Some(own));
        assert_eq!(by_own_number(own, 1_000_000_000), None);
    }
}
