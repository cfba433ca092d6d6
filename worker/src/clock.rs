//! The one place that reads clocks and waits: CLOCK_MONOTONIC in nanoseconds, which all processes of a machine share,
//! whatever PID namespace they are in.
//!
//! Waiting goes to an absolute moment on a `timerfd_create(2)` and not through tokio's timers: those round up to whole
//! milliseconds twice, which is as long as a whole tick at 60 times the speed.

use std::{
    io,
    marker::PhantomData,
    num::NonZeroU64,
    os::fd::OwnedFd,
    time::{Duration, SystemTime},
};

use rustix::{
    process::getpriority_process,
    thread::{
        ClockId, CpuSet, clock_nanosleep_absolute, sched_getaffinity, sched_setaffinity, set_current_timer_slack,
    },
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
        timerfd_settime,
    },
};
use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue,
    ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id, thread_schedule_policy,
};
use tokio::io::{Interest, unix::AsyncFd};

/// CLOCK_MONOTONIC now, in nanoseconds.
#[must_use]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Neither part is ever negative on Linux.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// The wall clock now; for the names of things that people look for by date, never for measuring.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// How much later than `planned_ns` the moment `at_ns` is, in whole microseconds; 0 when it is not later.
#[must_use]
pub fn late_us(at_ns: u64, planned_ns: u64) -> u64 {
    at_ns.saturating_sub(planned_ns) / 1_000
}

/// A timer that waits for moments of CLOCK_MONOTONIC, one after another.
#[derive(Debug)]
pub struct Timer {
    timerfd: AsyncFd<OwnedFd>,
}

impl Timer {
    /// A timer for the tokio runtime at hand, which must have its I/O driver enabled.
    ///
    /// # Errors
    /// When the process or the system has no file descriptor left.
    pub fn new() -> io::Result<Timer> {
        let timerfd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        #[expect(deprecated, reason = "deprecated for types that may close or swap their descriptor; OwnedFd can't")]
        let timerfd = AsyncFd::with_interest(timerfd, Interest::READABLE)?;
        Ok(Timer { timerfd })
    }

    /// Waits until `at_ns`; never returns before it, and at once when it is past. Dropping the future gives the
    /// waiting up, and the timer can be used again.
    ///
    /// # Errors
    /// What `timerfd_settime(2)` and `read(2)` say; none is to be expected.
    pub async fn until(&mut self, at_ns: u64) -> io::Result<()> {
        if now_ns() >= at_ns {
            return Ok(());
        }
        // Setting it also takes back an expiration that nobody has read.
        let alarm = Itimerspec { it_interval: timespec(0), it_value: timespec(at_ns) };
        timerfd_settime(self.timerfd.get_ref(), TimerfdTimerFlags::ABSTIME, &alarm)?;
        let mut expirations = [0; 8];
        self.timerfd.async_io(Interest::READABLE, |fd| Ok(rustix::io::read(fd, &mut expirations)?)).await?;
        Ok(())
    }
}

/// Waits until `at_ns` with a timer of its own; see [`Timer::until`].
///
/// # Errors
/// As [`Timer::new`] and [`Timer::until`].
pub async fn sleep_until(at_ns: u64) -> io::Result<()> {
    Timer::new()?.until(at_ns).await
}

/// Blocks the calling thread until `at_ns`. With [`sharpen`] called before, it is as exact as a [`Timer`].
pub fn block_until(at_ns: u64) {
    // The only error that can be is an interruption by a signal; the deadline is absolute, so sleep on.
    while now_ns() < at_ns {
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &timespec(at_ns));
    }
}

/// Blocks the calling thread for `length`.
pub fn block_for(length: Duration) {
    block_until(now_ns().saturating_add(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)));
}

/// Asks the kernel not to delay the calling thread's blocking sleeps (PR_SET_TIMERSLACK of 1 ns instead of 50 µs). It
/// is inherited by threads and processes that the thread starts, and needs no privilege.
pub fn sharpen() {
    // A kernel that refuses leaves us 50 µs later; what comes too late is measured anyway.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// Tries to move the calling thread into the SCHED_RR class at its lowest priority, above every ordinary program
/// (`sched(7)`). Tells whether that was allowed. Threads and processes that the thread starts inherit it.
pub fn prefer_realtime() -> bool {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy).is_ok()
}

/// Does `work` as an ordinary thread, where the calling one is in the real-time class, and lets it return there afterwards.
///
/// Reaping a process is such work. The kernel then drops what it holds of that process's /proc, and waits in a loop for
/// whoever is reading there, or is about to drop one of its threads: a real-time thread that loops keeps an ordinary one on
/// its processor from ever being done, until the kernel takes it off after 0.95 s (`sched(7)`, `sched_rt_runtime_us`), and
/// an equal one for the 0.1 s that its turn lasts.
pub fn as_ordinary<T>(work: impl FnOnce() -> T) -> T {
    let is_realtime = matches!(thread_schedule_policy(), Ok(ThreadSchedulePolicy::Realtime(_)));
    if !is_realtime {
        return work();
    }
    leave_realtime();
    let done = work();
    prefer_realtime();
    done
}

/// Leaves the real-time class for good, if the calling thread is in it. Its nice value stays what it is.
pub fn leave_realtime() {
    if !matches!(thread_schedule_policy(), Ok(ThreadSchedulePolicy::Realtime(_))) {
        return;
    }
    let nice = getpriority_process(None).unwrap_or(0);
    let priority = ThreadPriorityValue::try_from(of_nice(nice)).unwrap_or_default();
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
    // Nothing forbids to become less, and to keep the nice value that one has.
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Crossplatform(priority), policy);
}

/// The library's own scale goes from 0, the nice value 19, to 99, the nice value -20, and rounds to whole nice values in
/// between; this is the middle of those that mean `nice`.
fn of_nice(nice: i32) -> u8 {
    let share = (f64::from(nice) + 20.5) / 39.0;
    (99.0 * (1.0 - share)).round().clamp(0.0, 99.0) as u8
}

/// A thread that keeps to one processor until this is dropped, which that same thread has to do.
#[derive(Debug)]
pub struct OneProcessor {
    before: CpuSet,
    /// No other thread's processors are meant.
    _not_send: PhantomData<*const ()>,
}

/// Tries to confine the calling thread, and what it starts from now on, to the first of the processors that it may use
/// (`sched_setaffinity(2)`).
#[must_use]
pub fn stay_on_one_processor() -> Option<OneProcessor> {
    let before = sched_getaffinity(None).ok()?;
    let first = (0..CpuSet::MAX_CPU).find(|&processor| before.is_set(processor))?;
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one).ok()?;
    Some(OneProcessor { before, _not_send: PhantomData })
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        // It was allowed before.
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// Tries to move the calling thread into the SCHED_IDLE class, below every other program (`sched(7)`). Tells whether that
/// was allowed.
pub fn yield_to_everybody() -> bool {
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy).is_ok()
}

fn timespec(at_ns: u64) -> Timespec {
    // Both fit: 2^64 ns are 584 years.
    Timespec { tv_sec: (at_ns / 1_000_000_000).cast_signed(), tv_nsec: (at_ns % 1_000_000_000).cast_signed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(future)
    }

    #[test]
    fn waiting_never_ends_early_and_the_past_costs_nothing() {
        block_on(async {
            let mut timer = Timer::new().unwrap();
            for ahead_us in [0, 1, 50, 300, 2_000] {
                let at_ns = now_ns() + ahead_us * 1_000;
                timer.until(at_ns).await.unwrap();
                assert!(now_ns() >= at_ns);
            }
            timer.until(0).await.unwrap();
            sleep_until(now_ns() + 1_000).await.unwrap();
        });
        let at_ns = now_ns() + 100_000;
        block_until(at_ns);
        assert!(now_ns() >= at_ns);
    }

    #[test]
    fn a_timer_that_was_given_up_can_be_used_again() {
        block_on(async {
            let mut timer = Timer::new().unwrap();
            let (short, long) = (now_ns() + 1_000_000, now_ns() + 20_000_000);
            tokio::select! {
                biased;
                _ = timer.until(short) => unreachable!("the other branch is ready at once"),
                () = std::future::ready(()) => {}
            }
            block_until(short);
            timer.until(long).await.unwrap();
            assert!(now_ns() >= long);
        });
    }

    #[test]
    fn lateness_is_never_negative() {
        assert_eq!(late_us(5_999, 3_000), 2);
        assert_eq!(late_us(3_000, 5_000), 0);
    }

    #[test]
    fn the_realtime_class_is_taken_where_it_is_allowed() {
        let realtime = prefer_realtime();
        assert_eq!(policy() == "2", realtime);
        let nice = || getpriority_process(None).unwrap();
        let before = nice();
        as_ordinary(|| assert_eq!(policy(), "0"));
        assert_eq!((policy() == "2", nice()), (realtime, before));
        leave_realtime();
        assert_eq!((policy().as_str(), nice()), ("0", before));
        // And it can be left for the lowest class of all.
        assert!(yield_to_everybody());
        assert_eq!(policy(), "5");
    }

    /// What the library makes of its scale, as its source has it.
    #[test]
    fn every_nice_value_has_its_place_on_the_scale() {
        for nice in -20..=19 {
            let ratio = 1.0 - f32::from(of_nice(nice)) / 99.0;
            assert_eq!((39.0 * ratio) as i32 - 20, nice);
        }
    }

    /// Field 41 of /proc/PID/stat (proc_pid_stat(5)): 2 for SCHED_RR, 5 for SCHED_IDLE. The first after the name, which
    /// ends in the last parenthesis, is field 3.
    fn policy() -> String {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[41 - 3].to_owned()
    }
}
