//! The chain of processes from the top down to the worker, by name.

use std::fs;

use crate::process;

/// The pids from `top` down to the parent of `worker`; none where the worker is the top, or is not below it.
pub(super) fn before(top: i32, worker: i32) -> Vec<i32> {
    let mut chain = Vec::new();
    below(top, worker, &mut chain);
    chain
}

/// The names of the processes before the worker, and then the worker's, such as `tini>dash>app`.
pub(super) fn names(before: &[i32]) -> String {
    let names = before.iter().map(|&pid| name(pid));
    names.chain(["app".to_owned()]).collect::<Vec<_>>().join(">")
}

/// The pids from `pid` down to the parent of `worker`, if it is below or the same.
fn below(pid: i32, worker: i32, chain: &mut Vec<i32>) -> bool {
    if pid == worker {
        return true;
    }
    chain.push(pid);
    if process::children(pid).into_iter().any(|child| below(child, worker, chain)) {
        return true;
    }
    chain.pop();
    false
}

/// The name of the program that a process runs, or of the command that it was started as (`comm`, proc(5)).
fn name(pid: i32) -> String {
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    match comm.trim() {
        "" => "?".to_owned(),
        name => name.split(' ').next().unwrap_or(name).to_owned(),
    }
}
