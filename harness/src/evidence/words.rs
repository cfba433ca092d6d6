//! Processes and numbers in words, for explanations and predictions.

use super::ProcessFacts;

/// How a process is called: by what it was started as, and by what it is where that is another name.
pub(super) fn called(process: &ProcessFacts) -> String {
    let Some(started_as) = process.argv.first().filter(|name| !name.is_empty()) else {
        return process.program().to_owned();
    };
    let base = started_as.rsplit('/').next().unwrap_or(started_as);
    let program = process.program();
    if base == program { program.to_owned() } else { format!("{started_as}, which is {program} here") }
}

/// Whether a program is a shell; only for advice, never for what happened.
pub(super) fn is_shell(process: &ProcessFacts) -> bool {
    const SHELLS: [&str; 11] = ["sh", "dash", "bash", "busybox", "zsh", "mksh", "ksh", "ksh93", "yash", "fish", "ash"];
    let program = process.program();
    SHELLS.contains(&program) || program.starts_with("ksh") || program.starts_with("bash")
}

/// Whether a program is an init for containers, which passes signals on to its child.
pub(super) fn is_container_init(process: &ProcessFacts) -> bool {
    const INITS: [&str; 6] = ["tini", "tini-static", "dumb-init", "catatonit", "docker-init", "podman-init"];
    INITS.contains(&process.program())
}

/// `one invocation`, `3 invocations`.
pub(super) fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
