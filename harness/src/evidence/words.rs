//! Processes and numbers in words, for explanations and predictions.

use super::ProcessFacts;

/// How a process is called: by what it was started as, and by what it is where that is another name.
pub(crate) fn called(process: &ProcessFacts) -> String {
    let Some(started_as) = process.argv.first().filter(|name| !name.is_empty()) else {
        return process.program().to_owned();
    };
    let base = started_as.rsplit('/').next().unwrap_or(started_as);
    let program = process.program();
    if base == program { program.to_owned() } else { format!("{started_as}, which is {program} here") }
}

/// Whether a program is a shell; only for advice, never for what happened.
pub(crate) fn is_shell(process: &ProcessFacts) -> bool {
    const SHELLS: [&str; 11] = ["sh", "dash", "bash", "busybox", "zsh", "mksh", "ksh", "ksh93", "yash", "fish", "ash"];
    let program = process.program();
    SHELLS.contains(&program) || program.starts_with("ksh") || program.starts_with("bash")
}

/// Whether a program is a runtime that has signals of its own way when it starts: node takes back what was ignored, and shows
/// SIGTERM as caught without a handler of the program's own.
pub(crate) fn sets_signals_anew(process: &ProcessFacts) -> bool {
    matches!(process.program(), "node" | "nodejs")
}

/// Whether a program is an init for containers, which passes signals on to its child.
pub(crate) fn is_container_init(process: &ProcessFacts) -> bool {
    const INITS: [&str; 6] = ["tini", "tini-static", "dumb-init", "catatonit", "docker-init", "podman-init"];
    INITS.contains(&process.program())
}

/// Whether an init for containers passes signals on to the whole process group of its child: dumb-init unless it is told
/// otherwise, the others when they are told to.
pub(crate) fn passes_to_group(top: &ProcessFacts) -> bool {
    let options = || top.argv.iter().skip(1).take_while(|word| word.starts_with('-') && *word != "--");
    let has = |long: &str, short: char| {
        options().any(|word| word == long || (!word.starts_with("--") && word.contains(short)))
    };
    match top.program() {
        "dumb-init" => !has("--single-child", 'c'),
        _ => is_container_init(top) && has("--group", 'g'),
    }
}

/// `one invocation`, `3 invocations`.
pub(crate) fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::explain::samples::process;

    #[test]
    fn the_program_behind_a_name_is_told() {
        let named = |argv: &str, exe: &str| called(&process(7, 1, argv, exe));
        assert_eq!(named("/bin/sh -c x", "/usr/bin/dash"), "/bin/sh, which is dash here");
        assert_eq!(named("sh -c x", "/bin/busybox"), "sh, which is busybox here");
        assert_eq!(named("tini -- x", "/usr/bin/tini"), "tini");
        assert_eq!(named("/usr/bin/tini -- x", "/usr/bin/tini"), "tini");
    }

    #[test]
    fn one_is_singular() {
        assert_eq!([0, 1, 2].map(|n| count(n, "invocation")), ["0 invocations", "1 invocation", "2 invocations"]);
    }
}
