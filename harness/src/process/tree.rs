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
