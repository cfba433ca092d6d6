//! The process tree below a process, read from /proc.

use std::fs;

use super::Other;

/// The direct children of a process, of all its threads (proc_pid_task(5), `children`); none if it is gone.
#[must_use]
pub fn children(pid: i32) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
        .collect()
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

/// Whether a process sleeps with nothing to see to: no signal pending that it does not block, and no child that has
/// ended and is not reaped (`proc_pid_status(5)`). A process that is gone is at rest for good.
#[must_use]
pub fn is_at_rest(pid: i32) -> bool {
    let Some(status) = Status::read(pid) else { return true };
    status.sleeps
        && !status.has_pending
        && !children(pid).into_iter().any(|child| Status::read(child).is_some_and(|child| child.is_zombie))
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
            has_pending: (mask("SigPnd") | mask("ShdPnd")) & !mask("SigBlk") != 0,
        })
    }
}
