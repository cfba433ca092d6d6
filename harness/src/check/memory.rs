//! Keeps a command that eats memory from taking the machine along.
//!
//! Two things see to that. The command is the first that the kernel kills when there is no memory left
//! (`proc_pid_oom_score_adj(5)`), and a thread looks how much there is, on the machine and in the cgroups that we are in: before
//! it runs out the command is killed, so that there is a report, and nobody else's process is slowed down or killed.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use worker::clock;

use self::cgroup::Cgroup;
use crate::process::{self, Other};

mod cgroup;

/// How often is looked how much memory there is. In that time a process can take some ten megabytes.
const LOOK: Duration = Duration::from_millis(5);
/// What the kernel adds to the score of the process that it kills when there is no memory left: more than for any other.
const FIRST: &str = "1000";
const OWN_SCORE: &str = "/proc/self/oom_score_adj";

const MB: u64 = 1 << 20;

/// Memory that ran out, and what was done about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RanOut {
    /// When, in microseconds, counted as all times of the drill.
    pub at_us: i64,
    /// How much the processes of the command held then, in bytes.
    pub held_bytes: u64,
    /// How much was left, in bytes.
    pub left_bytes: u64,
    /// How much there is in all, in bytes.
    pub total_bytes: u64,
    /// Whether that is the limit of a cgroup, and not what the machine has.
    pub cgroup: bool,
    /// Whether most of what was taken since the start was taken by the command.
    pub by_command: bool,
}

impl RanOut {
    /// What happened, in words that end a sentence.
    #[must_use]
    pub fn words(&self) -> String {
        let [held, left, total] = [self.held_bytes, self.left_bytes, self.total_bytes].map(size);
        let whose = if self.cgroup { "that this cgroup may have" } else { "of this machine" };
        let what = if self.by_command { "it used up the memory" } else { "the memory ran out" };
        format!("{what}, and was killed: {left} of the {total} {whose} were left, and its processes held {held}")
    }
}

/// `64 MB`, `1.5 GB`.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// Memory that there is only so much of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pool {
    Machine,
    Cgroup(Cgroup),
}

/// What a look at a pool shows, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Level {
    total: u64,
    available: u64,
}

impl Pool {
    fn level(&self) -> Option<Level> {
        match self {
            Pool::Machine => machine(&fs::read_to_string("/proc/meminfo").ok()?),
            Pool::Cgroup(cgroup) => cgroup.level(),
        }
    }
}

/// What `/proc/meminfo` says (proc_meminfo(5)). Swap does not count: a machine that lives on it is of no use to anybody.
fn machine(meminfo: &str) -> Option<Level> {
    let field = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.saturating_mul(1024))
    };
    Some(Level { total: field("MemTotal")?, available: field("MemAvailable")? })
}

/// How much has to stay available, in bytes: a twentieth, from 32 to 256 MB. Where there was little from the start, a quarter
/// of that.
fn reserve(at_start: Level) -> u64 {
    (at_start.total / 20).clamp(32 * MB, 256 * MB).min(at_start.available / 4)
}

/// Watches over the memory until this is dropped.
#[derive(Debug)]
pub struct Guard {
    ran_out: Arc<OnceLock<(u64, RanOut)>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Guard {
    /// Begins to watch: from now on every process below this one is killed when the memory runs out. Where it can't be
    /// told how much there is, nothing is watched.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn start() -> std::io::Result<Guard> {
        let (ran_out, is_over) = (Arc::new(OnceLock::new()), Arc::new(AtomicBool::new(false)));
        let pools = std::iter::once(Pool::Machine).chain(cgroup::own().into_iter().map(Pool::Cgroup));
        let watched: Vec<(Pool, Level)> = pools.filter_map(|pool| pool.level().map(|level| (pool, level))).collect();
        let (told, stop) = (Arc::clone(&ran_out), Arc::clone(&is_over));
        let watch = move || {
            // Others that compete for the processors must not keep this from being in time.
            clock::prefer_realtime();
            while !stop.load(Ordering::Relaxed) {
                for (pool, at_start) in &watched {
                    if let Some(now) = pool.level().filter(|now| now.available < reserve(*at_start)) {
                        let (at_ns, held_bytes) = (clock::now_ns(), kill_below());
                        let ran_out = RanOut {
                            at_us: 0,
                            held_bytes,
                            left_bytes: now.available,
                            total_bytes: now.total,
                            cgroup: *pool != Pool::Machine,
                            by_command: 2 * held_bytes >= at_start.available.saturating_sub(now.available),
                        };
                        let _ = told.set((at_ns, ran_out));
                    }
                }
                clock::block_for(LOOK);
            }
        };
        let thread = thread::Builder::new().name("memory".to_owned()).spawn(watch)?;
        Ok(Guard { ran_out, is_over, thread: Some(thread) })
    }

    /// Whether the memory ran out, with when that was in nanoseconds of CLOCK_MONOTONIC.
    #[must_use]
    pub fn ran_out(&self) -> Option<(u64, RanOut)> {
        self.ran_out.get().cloned()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // The processes of the next drill are none of its business.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Kills every process below this one, and tells how much memory they held, in bytes.
fn kill_below() -> u64 {
    let below = process::descendants(std::process::id().cast_signed());
    let held = below.iter().map(|process| resident(process.pid())).sum();
    below.iter().for_each(Other::kill);
    held
}

/// How much memory a process holds, in bytes (`VmRSS`, proc_pid_status(5)).
fn resident(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    field.and_then(|field| field.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).map_or(0, |kb| kb * 1024)
}

/// While this is there, what we start is the first to be killed by the kernel when there is no memory left; and so are we.
#[derive(Debug)]
pub struct Exposed {
    before: Option<String>,
}

impl Exposed {
    /// Until this is dropped.
    #[must_use]
    pub fn begin() -> Exposed {
        let before = fs::read_to_string(OWN_SCORE).ok();
        // Anybody may ask for it, and go back to what was before.
        Exposed { before: before.filter(|_| fs::write(OWN_SCORE, FIRST).is_ok()) }
    }
}

impl Drop for Exposed {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = fs::write(OWN_SCORE, before.trim());
        }
    }
}

/// Where cgroups are looked at: `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn read_lossy(path: &str) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// The number that a file of a cgroup holds.
fn number(path: PathBuf) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_how_much_it_has() {
        let text = "MemTotal:       2000 kB\nMemFree:    5 kB\nMemAvailable:   1000 kB\n";
        assert_eq!(machine(text), Some(Level { total: 2000 * 1024, available: 1000 * 1024 }));
        for bad in ["", "MemTotal: 2000 kB\n", "MemTotal: x kB\nMemAvailable: 1 kB\n"] {
            assert_eq!(machine(bad), None, "{bad}");
        }
        assert!(Pool::Machine.level().is_some());
    }

    #[test]
    fn what_has_to_stay_depends_on_what_there_is() {
        for (total, available, kept) in [
            // A large machine, a small one, a small cgroup, and one that was nearly full at the start.
            (16_384, 12_000, 256),
            (1_000, 800, 50),
            (200, 180, 32),
            (16_384, 400, 100),
            (200, 40, 10),
        ] {
            let at_start = Level { total: total * MB, available: available * MB };
            assert_eq!(reserve(at_start), kept * MB, "{total} {available}");
        }
    }

    #[test]
    fn what_happened_is_told() {
        let ran_out = RanOut {
            at_us: 0,
            held_bytes: 1_500_000_000,
            left_bytes: 64_000_000,
            total_bytes: 2_000_000_000,
            cgroup: true,
            by_command: true,
        };
        assert_eq!(
            ran_out.words(),
            "it used up the memory, and was killed: 64 MB of the 2.0 GB that this cgroup may have were left, and its \
             processes held 1.5 GB"
        );
        let by_others = RanOut { held_bytes: 0, cgroup: false, by_command: false, ..ran_out };
        assert!(by_others.words().starts_with("the memory ran out, and was killed: "), "{}", by_others.words());
    }

    #[test]
    fn one_is_exposed_only_for_a_while() {
        let own = || fs::read_to_string(OWN_SCORE).unwrap();
        let before = own();
        {
            let _exposed = Exposed::begin();
            assert_eq!(own().trim(), FIRST);
        }
        assert_eq!(own(), before);
    }
}
