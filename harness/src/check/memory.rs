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

use nix::sys::resource::{UsageWho, getrusage};
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
    looks: Looks,
    found: Arc<OnceLock<Found>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What is looked at.
#[derive(Clone, Debug)]
struct Looks {
    /// Each pool, and what there was at the start.
    pools: Vec<(Pool, Level)>,
    /// The cgroup that we are in, and how many of its processes the kernel had killed before.
    kills: Option<(Cgroup, u64)>,
}

/// Memory that was found to have run out.
#[derive(Clone, Copy, Debug)]
struct Found {
    at_ns: u64,
    held_bytes: u64,
    left_bytes: u64,
    total_bytes: u64,
    cgroup: bool,
    /// How much was taken since the start, by whomever.
    taken_bytes: u64,
    /// The kernel had killed somebody before it was seen that there was little left.
    by_kernel: bool,
}

impl Looks {
    fn begin() -> Looks {
        let own = cgroup::own();
        let kills = own.first().and_then(|cgroup| Some((cgroup.clone(), cgroup.kills()?)));
        let pools = std::iter::once(Pool::Machine).chain(own.into_iter().map(Pool::Cgroup));
        // A cgroup without a limit is none.
        Looks { pools: pools.filter_map(|pool| pool.level().map(|level| (pool, level))).collect(), kills }
    }

    /// Whether there is little left of a pool.
    fn low(&self) -> Option<Found> {
        let mut levels = self.pools.iter().filter_map(|pool| Some((pool, pool.0.level()?)));
        let (pool, now) = levels.find(|((_, at_start), now)| now.available < reserve(*at_start))?;
        Some(Found::of(pool, now.available, false))
    }

    /// Whether the kernel has killed a process in our cgroup since the start, for want of memory. By now there is enough
    /// again: what ran out is what there was least of.
    fn killed(&self) -> Option<Found> {
        let (cgroup, before) = self.kills.as_ref()?;
        let pool = self.pools.iter().min_by_key(|(_, at_start)| at_start.available)?;
        (cgroup.kills()? > *before).then(|| Found::of(pool, 0, true))
    }

    /// What is known in the end, after this was found in time or not. What was killed by the kernel just before we did it held
    /// nothing any more.
    fn all_in_all(&self, found: Option<Found>) -> Option<Found> {
        let killed = self.killed();
        let by_kernel = killed.is_some();
        found.map(|found| Found { by_kernel: found.by_kernel || by_kernel, ..found }).or(killed)
    }
}

impl Found {
    fn of((pool, at_start): &(Pool, Level), left_bytes: u64, by_kernel: bool) -> Found {
        Found {
            at_ns: clock::now_ns(),
            held_bytes: 0,
            left_bytes,
            total_bytes: at_start.total,
            cgroup: *pool != Pool::Machine,
            taken_bytes: at_start.available.saturating_sub(left_bytes),
            by_kernel,
        }
    }

    /// The same as it is told. What the kernel killed held nothing any more when it was looked, but it was the largest that ended.
    fn told(self, largest_ended: u64) -> (u64, RanOut) {
        let Found { at_ns, held_bytes, left_bytes, total_bytes, cgroup, taken_bytes, by_kernel } = self;
        let held_bytes = if by_kernel { held_bytes.max(largest_ended) } else { held_bytes };
        let by_command = 2 * held_bytes >= taken_bytes;
        (at_ns, RanOut { at_us: 0, held_bytes, left_bytes, total_bytes, cgroup, by_command })
    }
}

impl Guard {
    /// Begins to watch: from now on every process below this one is killed when the memory runs out. Where it can't be
    /// told how much there is, nothing is watched.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn start() -> std::io::Result<Guard> {
        let (looks, found, is_over) = (Looks::begin(), Arc::new(OnceLock::new()), Arc::new(AtomicBool::new(false)));
        let (watched, first, stop) = (looks.clone(), Arc::clone(&found), Arc::clone(&is_over));
        let watch = move || {
            // Others that compete for the processors must not keep this from being in time.
            clock::prefer_realtime();
            while !stop.load(Ordering::Relaxed) {
                if let Some(found) = watched.low().or_else(|| watched.killed()) {
                    let _ = first.set(Found { held_bytes: kill_below(), ..found });
                }
                clock::block_for(LOOK);
            }
        };
        let thread = thread::Builder::new().name("memory".to_owned()).spawn(watch)?;
        Ok(Guard { looks, found, is_over, thread: Some(thread) })
    }

    /// Whether the memory ran out, with when that was in nanoseconds of CLOCK_MONOTONIC. The processes have ended by now, and
    /// the kernel may have been faster than we were.
    #[must_use]
    pub fn ran_out(&self) -> Option<(u64, RanOut)> {
        Some(self.looks.all_in_all(self.found.get().copied())?.told(largest_ended()))
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

/// How much memory the largest process held that has ended below this one, in bytes (`ru_maxrss`, getrusage(2)).
fn largest_ended() -> u64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0, |usage| usage.max_rss().max(0).cast_unsigned() * 1024)
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

    /// What a look at the memory is too late for is found all the same, and told in the same words.
    #[test]
    fn what_the_kernel_killed_first_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("memory.max", &(300 * MB).to_string());
        write("memory.current", &(20 * MB).to_string());
        write("memory.events", "oom_kill 3\n");
        let cgroup = Cgroup::version_two(folder.path());
        let level = cgroup.level().unwrap();
        let machine = (Pool::Machine, Level { total: 16_000 * MB, available: 12_000 * MB });
        let pools = vec![machine, (Pool::Cgroup(cgroup.clone()), level)];
        let looks = Looks { pools, kills: Some((cgroup, 3)) };
        assert!(looks.low().is_none() && looks.killed().is_none());
        assert!(looks.all_in_all(None).is_none());
        write("memory.events", "oom_kill 4\n");
        assert!(looks.low().is_none(), "there is enough again");
        let (_, ran_out) = looks.all_in_all(None).unwrap().told(250 * MB);
        assert_eq!(
            ran_out.words(),
            "it used up the memory, and was killed: 0 MB of the 314 MB that this cgroup may have were left, and its \
             processes held 262 MB"
        );
        // It was somebody else's.
        let (_, ran_out) = looks.killed().unwrap().told(10 * MB);
        assert!(!ran_out.by_command && ran_out.held_bytes == 10 * MB, "{ran_out:?}");
        // In time, the largest that ever ended does not matter.
        write("memory.current", &(290 * MB).to_string());
        let in_time = Found { held_bytes: 260 * MB, ..looks.low().unwrap() };
        let told = |found: Found| {
            let (_, ran_out) = found.told(1_000 * MB);
            (ran_out.held_bytes, ran_out.left_bytes, ran_out.by_command)
        };
        assert_eq!(told(in_time), (260 * MB, 10 * MB, true));
        // Both at once: it was on its way out when we looked.
        let at_once = Found { held_bytes: 0, ..in_time };
        assert_eq!(told(looks.all_in_all(Some(at_once)).unwrap()), (1_000 * MB, 10 * MB, true));
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
