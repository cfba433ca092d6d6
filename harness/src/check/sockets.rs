//! Who listens, and which connections the server has taken, from the kernel's tables (`proc_pid_net(5)`).

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io::Read,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// A socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The address that it is bound to.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
    /// What `/proc/PID/fd` calls it.
    pub inode: u64,
}

const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];

/// Everything that listens in this network namespace.
///
/// The kernel lists them before all other sockets (`tcp_get_idx` in net/ipv4/tcp_ipv4.c), so only the beginning of each
/// table is read: with many connections the whole would take long.
#[must_use]
pub fn listeners() -> Vec<Listener> {
    let mut found = Vec::new();
    for table in TABLES {
        let Ok(mut file) = File::open(table) else { continue };
        let mut text = Vec::new();
        let mut portion = [0; 8192];
        let mut read_until = 0;
        'table: while let Ok(count @ 1..) = file.read(&mut portion) {
            text.extend_from_slice(&portion[..count]);
            while let Some(length) = text[read_until..].iter().position(|&byte| byte == b'\n') {
                let row = Row::parse(&text[read_until..read_until + length]);
                read_until += length + 1;
                match row {
                    Some(row) if row.state == LISTEN => {
                        found.push(Listener { address: row.local.0, port: row.local.1, inode: row.inode });
                    }
                    Some(_) => break 'table,
                    // The heading.
                    None => {}
                }
            }
        }
    }
    found
}

/// How far a server has got with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    /// It waits in the kernel's queue: nobody has taken it.
    Queued,
    /// It was taken, and not all that was sent on it has been read.
    Taken,
    /// All that was sent on it has been read.
    Read,
}

/// How far the server has got with each of the connections to its port that are open, by the client's port. One that waits
/// in the kernel's queue has no inode yet.
#[must_use]
pub fn reached(port: u16) -> HashMap<u16, Reached> {
    let mut found = HashMap::new();
    // What is still on its way, which it can be on a busy machine even from here to here.
    let mut under_way = Vec::new();
    for table in TABLES {
        let Ok(text) = fs::read(table) else { continue };
        for row in text.split(|&byte| byte == b'\n').filter_map(Row::parse) {
            if row.local.1 == port && matches!(row.state, ESTABLISHED | CLOSE_WAIT) {
                let reached = match (row.inode, row.unread_bytes) {
                    (0, _) => Reached::Queued,
                    (_, 0) => Reached::Read,
                    _ => Reached::Taken,
                };
                found.insert(row.remote_port, reached);
            } else if row.remote_port == port && row.unsent_bytes > 0 {
                under_way.push(row.local.1);
            }
        }
    }
    for client in under_way {
        found.entry(client).and_modify(|reached| *reached = (*reached).min(Reached::Taken));
    }
    found
}

/// The states in the table (include/net/tcp_states.h).
const ESTABLISHED: u8 = 0x01;
const CLOSE_WAIT: u8 = 0x08;
const LISTEN: u8 = 0x0a;

#[derive(Debug, PartialEq, Eq)]
struct Row {
    local: (IpAddr, u16),
    remote_port: u16,
    state: u8,
    /// What the other side has not acknowledged.
    unsent_bytes: u64,
    /// What nobody here has read.
    unread_bytes: u64,
    inode: u64,
}

impl Row {
    fn parse(line: &[u8]) -> Option<Row> {
        let mut columns = std::str::from_utf8(line).ok()?.split_ascii_whitespace().skip(1);
        let (address, port) = columns.next()?.split_once(':')?;
        let (_, remote_port) = columns.next()?.split_once(':')?;
        let state = u8::from_str_radix(columns.next()?, 16).ok()?;
        let (unsent, unread) = columns.next()?.split_once(':')?;
        Some(Row {
            local: (parse_address(address)?, u16::from_str_radix(port, 16).ok()?),
            remote_port: u16::from_str_radix(remote_port, 16).ok()?,
            state,
            unsent_bytes: u64::from_str_radix(unsent, 16).ok()?,
            unread_bytes: u64::from_str_radix(unread, 16).ok()?,
            inode: columns.nth(4)?.parse().ok()?,
        })
    }
}

/// Words of 32 bits, each as the machine has it in memory.
fn parse_address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(hex.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    match hex.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let mut bytes = [0; 16];
            bytes.copy_from_slice(&words.concat());
            Some(IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical())
        }
        _ => None,
    }
}

/// Which of the processes hold a socket with one of these inodes, by pid (`proc_pid_fd(5)`).
#[must_use]
pub fn holders(pids: impl IntoIterator<Item = i32>, inodes: &[u64]) -> Vec<i32> {
    pids.into_iter().filter(|&pid| sockets_of(pid).any(|inode| inodes.contains(&inode))).collect()
}

/// The inodes of all sockets that these processes hold.
#[must_use]
pub fn held(pids: impl IntoIterator<Item = i32>) -> HashSet<u64> {
    pids.into_iter().flat_map(sockets_of).collect()
}

fn sockets_of(pid: i32) -> impl Iterator<Item = u64> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| {
        let link = fs::read_link(file.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
    };

    use super::*;

    #[test]
    fn a_row_is_read() {
        let row = Row::parse(
            b"   0: 0100007F:1F90 00000000:0000 0A 0000001A:00000003 00:00000000 00000000  1000        0 12345 1 0 100",
        );
        let local = (IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
        if cfg!(target_endian = "little") {
            let (unsent_bytes, unread_bytes) = (26, 3);
            assert_eq!(
                row,
                Some(Row { local, remote_port: 0, state: LISTEN, unsent_bytes, unread_bytes, inode: 12345 })
            );
        }
        for bad in ["", "  sl  local_address rem_address   st", "0: 0100007F:1F90 00000000:0000 0A"] {
            assert_eq!(Row::parse(bad.as_bytes()), None);
        }
        assert_eq!(parse_address("00000000000000000000000001000000"), Some(IpAddr::V6(Ipv6Addr::LOCALHOST)));
        assert_eq!(parse_address("0000000000000000FFFF00000100007F"), Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }

    #[test]
    fn our_own_listener_its_queue_and_its_holder_are_found() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let found: Vec<Listener> = listeners().into_iter().filter(|found| found.port == port).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].address, IpAddr::V4(Ipv4Addr::LOCALHOST));
        let own = std::process::id().cast_signed();
        assert_eq!(holders([own, i32::MAX], &[found[0].inode]), [own]);
        assert!(holders([own], &[found[0].inode + 1_000_000_007]).is_empty());
        assert!(held([own, i32::MAX]).contains(&found[0].inode));
        assert!(held([i32::MAX]).is_empty());

        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let client_port = client.local_addr().unwrap().port();
        client.write_all(b"a request").unwrap();
        // The kernel may be a moment late on the side of the server.
        while !reached(port).contains_key(&client_port) {
            std::thread::yield_now();
        }
        assert_eq!(reached(port).get(&client_port), Some(&Reached::Queued));
        let (mut served, _) = listener.accept().unwrap();
        served.peek(&mut [0; 9]).unwrap();
        assert_eq!(reached(port).get(&client_port), Some(&Reached::Taken));
        served.read_exact(&mut [0; 4]).unwrap();
        assert_eq!(reached(port).get(&client_port), Some(&Reached::Taken), "five bytes are left");
        served.read_exact(&mut [0; 5]).unwrap();
        assert_eq!(reached(port).get(&client_port), Some(&Reached::Read));
        drop((served, client, listener));
        assert!(listeners().iter().all(|found| found.port != port));
    }
}
