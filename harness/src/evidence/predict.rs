//! What SIGTERM to a running process would do, as far as its tree tells. Pure, and nothing is sent.

use serde::{Deserialize, Serialize};

use super::{
    Disposition, Node, ProcessFacts, ProcessState,
    snapshot::in_the_foreground,
    words::{is_container_init, is_shell},
};

/// What SIGTERM to the process at the top would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    /// What it would do to that process.
    pub effect: Predicted,
    /// The whole of it, in a sentence or two.
    pub text: String,
    /// What speaks against it, or would change it.
    pub caveats: Vec<String>,
}

/// What would become of the signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Predicted {
    /// The kernel drops it when it is sent.
    Dropped,
    /// The process dies of it.
    Dies,
    /// It stays pending.
    Held,
    /// The process takes it, and does what its program does.
    Taken,
}

/// Predicts from the tree below a process, which comes first in it; `None` where there is no tree.
#[must_use]
pub fn predict(tree: &[Node]) -> Option<Prediction> {
    let (top, below) = tree.split_first().map(|(top, below)| (&top.process, below))?;
    let name = top.program();
    let (effect, what) = match top.sigterm {
        Disposition::Ignored => (Predicted::Dropped, format!("{name} ignores SIGTERM: the kernel drops it")),
        Disposition::Default if top.is_init() => (
            Predicted::Dropped,
            format!("{name} is PID 1 of its namespace and has no handler: the kernel drops SIGTERM when it is sent"),
        ),
        Disposition::Default => (Predicted::Dies, format!("{name} has no handler and dies of SIGTERM")),
        Disposition::Caught => (Predicted::Taken, format!("{name} has a handler for SIGTERM, which runs")),
        Disposition::WaitedFor => (Predicted::Taken, format!("{name} waits for SIGTERM and takes it itself")),
        Disposition::Blocked => (Predicted::Held, format!("{name} blocks SIGTERM: it stays pending")),
    };
    let text = format!("{what}{}.", to_those_below(top, below, effect));
    Some(Prediction { effect, text, caveats: caveats(top, below, effect) })
}

/// What follows for the processes below.
fn to_those_below(top: &ProcessFacts, below: &[Node], effect: Predicted) -> String {
    let alive = below.iter().filter(|node| node.process.is_alive()).count();
    if alive == 0 {
        return String::new();
    }
    let processes = below.iter().map(|node| &node.process).filter(|process| process.is_alive());
    let has_foreground = in_the_foreground(processes, top).is_ok_and(|child| child.is_some());
    let (below, lives_on) = match alive {
        1 => ("the process below it".to_owned(), "that lives on as an orphan"),
        _ => (format!("the {alive} processes below it"), "they live on as orphans"),
    };
    match effect {
        Predicted::Dropped | Predicted::Held => format!(". Nobody tells {below}, and all goes on until SIGKILL"),
        Predicted::Dies => format!(". Nobody tells {below}: {lives_on}"),
        Predicted::Taken if is_container_init(top) => ", and as an init passes it on to its child".to_owned(),
        Predicted::Taken if is_shell(top) && has_foreground => {
            format!(" only when its foreground child has ended. Nobody tells {below} before that")
        }
        Predicted::Taken => format!(". It reaches {below} only if the handler passes it on"),
    }
}

fn caveats(top: &ProcessFacts, below: &[Node], effect: Predicted) -> Vec<String> {
    let mut caveats = Vec::new();
    let mut add = |text: &str| caveats.push(text.to_owned());
    if top.state == ProcessState::Stopped {
        add("It is stopped: nothing is handled until SIGCONT.");
    }
    if top.pending {
        add("A SIGTERM is pending already; a second one changes nothing.");
    }
    match (top.program(), top.sigterm) {
        ("node" | "nodejs", Disposition::Caught) => add(
            "node shows SIGTERM as caught even without a handler of the program's own; then it takes the default action, \
             which PID 1 is spared.",
        ),
        ("java", Disposition::Caught) => {
            add("A JVM always catches SIGTERM: it runs its shutdown hooks, if there are any, and exits with code 143.");
        }
        ("mksh", Disposition::Caught) => add("mksh shows SIGTERM as caught while it waits for a foreground child."),
        (_, Disposition::Caught) if is_shell(top) => {
            add("A trap runs only between commands, or when `wait` returns; what it does is not to be seen from here.");
        }
        _ => {}
    }
    if is_container_init(top) && below.iter().any(|node| node.depth == 1 && is_shell(&node.process)) {
        add(
            "Its child is a shell, which passes nothing on: what is below the shell never gets the signal, unless the init \
             signals the whole process group.",
        );
    }
    if effect == Predicted::Dropped && top.is_init() && top.sigterm == Disposition::Default {
        add("A handler that is installed later counts from then on; what was dropped stays lost.");
    }
    if effect == Predicted::Dies && top.exe.is_none() {
        add("Which program it is may not be read.");
    }
    if effect == Predicted::Taken {
        add("What the program does with it is not to be seen from outside: masks are evidence, not proof.");
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::explain::samples::process;

    fn tree(processes: &[(i32, &str, &str, Disposition)]) -> Vec<Node> {
        let node = |(depth, &(namespace_pid, argv, exe, sigterm)): (usize, &(i32, &str, &str, Disposition))| Node {
            depth,
            process: ProcessFacts { sigterm, ..process(40 + depth as i32, namespace_pid, argv, exe) },
        };
        processes.iter().enumerate().map(node).collect()
    }

    #[test]
    fn what_sigterm_would_do_follows_from_disposition_and_seat() {
        let rows = [
            (1, Disposition::Default, Predicted::Dropped, "drops"),
            (40, Disposition::Default, Predicted::Dies, "dies of SIGTERM"),
            (1, Disposition::Ignored, Predicted::Dropped, "ignores"),
            (40, Disposition::Ignored, Predicted::Dropped, "ignores"),
            (1, Disposition::Caught, Predicted::Taken, "handler"),
            (1, Disposition::WaitedFor, Predicted::Taken, "waits for"),
            (1, Disposition::Blocked, Predicted::Held, "pending"),
        ];
        for (namespace_pid, sigterm, effect, words) in rows {
            let found = predict(&tree(&[(namespace_pid, "app", "/opt/app", sigterm)])).unwrap();
            assert_eq!(found.effect, effect, "{}", found.text);
            assert!(found.text.contains(words) && found.text.ends_with('.'), "{}", found.text);
            assert_eq!(found.caveats.iter().any(|text| text.contains("not proof")), effect == Predicted::Taken);
        }
        assert_eq!(predict(&[]), None);
    }

    #[test]
    fn what_is_below_is_told_of() {
        let text = |top: (i32, &'static str, &'static str, Disposition)| {
            predict(&tree(&[top, (2, "app", "/opt/app", Disposition::Caught)])).unwrap().text
        };
        let dropped = text((1, "/bin/sh -c app", "/usr/bin/dash", Disposition::Default));
        assert!(
            dropped.contains("dash is PID 1") && dropped.contains("Nobody tells the process below it"),
            "{dropped}"
        );
        assert!(text((40, "sh -c app", "/usr/bin/dash", Disposition::Default)).contains("lives on as an orphan"));
        assert!(text((1, "tini -- app", "/usr/bin/tini", Disposition::WaitedFor)).contains("as an init passes it on"));
    }

    #[test]
    fn a_shell_with_a_trap_waits_only_for_what_is_in_the_foreground() {
        let shell = (1, "sh -c x", "/usr/bin/bash", Disposition::Caught);
        let mut tree = tree(&[shell, (2, "app", "/opt/app", Disposition::Caught)]);
        // As it sits in wait(2) in both cases, that tells nothing.
        tree[0].process.waits_for_child = true;
        for (sigquit, words) in [
            (Disposition::Default, "only when its foreground child has ended"),
            (Disposition::Ignored, "only if the handler passes it on"),
            (Disposition::Caught, "only if the handler passes it on"),
        ] {
            tree[1].process.sigquit = Some(sigquit);
            let text = predict(&tree).unwrap().text;
            assert!(text.contains(words), "{sigquit:?}: {text}");
        }
    }

    #[test]
    fn known_exceptions_are_named() {
        let caveats =
            |processes: &[(i32, &str, &str, Disposition)]| predict(&tree(processes)).unwrap().caveats.join(" ");
        assert!(caveats(&[(1, "node x.js", "/usr/bin/node", Disposition::Caught)]).contains("even without a handler"));
        assert!(caveats(&[(1, "java x", "/usr/bin/java", Disposition::Caught)]).contains("code 143"));
        let shell = (2, "sh -c app", "/usr/bin/dash", Disposition::Default);
        assert!(
            caveats(&[(1, "tini -- sh", "/usr/bin/tini", Disposition::WaitedFor), shell]).contains("process group")
        );
        let mut stopped = tree(&[(40, "app", "/opt/app", Disposition::Default)]);
        stopped[0].process.state = ProcessState::Stopped;
        stopped[0].process.pending = true;
        let found = predict(&stopped).unwrap().caveats.join(" ");
        assert!(found.contains("SIGCONT") && found.contains("pending already"), "{found}");
    }
}
