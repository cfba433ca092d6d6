//! Evidence as text: where the signal went, and process trees.

use super::screen::{GOOD, NO_BREAK_SPACE, QUIET, STRONG, Screen};
use crate::{
    evidence::{Evidence, Node, ProcessFacts, ProcessState, Snapshot, predict::Prediction},
    record::Attempt,
};

/// Where the signal went in an attempt, and what would help; with every process where more is to be shown.
#[must_use]
pub fn signal(screen: Screen, attempt: &Attempt) -> String {
    let mut text = String::new();
    if let Some(explanation) = &attempt.explanation {
        text.push_str(&screen.labelled("signal", STRONG, &bound(&explanation.text)));
        if let Some(change) = &explanation.change {
            text.push_str(&screen.labelled("change", GOOD, &bound(change)));
        }
    }
    if let (true, Some(evidence)) = (screen.verbose, &attempt.evidence) {
        text.push_str(&trees(screen, evidence));
    }
    text
}

/// Every snapshot, and how each process ended.
fn trees(screen: Screen, evidence: &Evidence) -> String {
    let moments = [
        ("before SIGTERM", &evidence.before),
        ("after SIGTERM", &evidence.after),
        ("before SIGKILL", &evidence.before_sigkill),
        ("at the end", &evidence.at_end),
    ];
    let mut text = String::new();
    for (moment, snapshot) in moments {
        let Some(Snapshot { processes, .. }) = snapshot else { continue };
        let none = if processes.is_empty() { ": no process is left" } else { "" };
        text.push_str(&screen.wrap(&format!("{moment}{none}"), "  ", "    "));
        text.push_str(&tree(screen, processes, "    "));
    }
    for end in &evidence.ends {
        let status = end.status.map_or("unknown".to_owned(), |status| status.to_string());
        let when = end.t.map_or("in the clean-up".to_owned(), |t| format!("at {t} s"));
        text.push_str(&screen.wrap(&format!("pid {} ended {when}: {status}", end.pid), "  ", "    "));
    }
    text
}

/// What `inspect` prints: what SIGTERM would do, what speaks against it, and the tree. Command lines are cut to the screen
/// unless more is to be shown: they can be of any length, and hold what is nobody's business.
#[must_use]
pub fn inspection(screen: Screen, processes: &[Node], prediction: &Prediction) -> String {
    let mut text = screen.labelled("SIGTERM", STRONG, &bound(&prediction.text));
    for caveat in &prediction.caveats {
        text.push_str(&screen.labelled("but", QUIET, &bound(caveat)));
    }
    text.push('\n');
    if screen.verbose {
        text.push_str(&tree(screen, processes, ""));
    } else {
        for node in processes {
            let line = format!("{}{}", "  ".repeat(node.depth), line(&node.process).replace(NO_BREAK_SPACE, " "));
            text.push_str(&screen.cut(&line));
        }
    }
    text
}

/// A process a line, with what is known of it, and its command line below where it does not fit.
pub(crate) fn tree(screen: Screen, processes: &[Node], indent: &str) -> String {
    processes
        .iter()
        .map(|node| {
            let first = format!("{indent}{}", "  ".repeat(node.depth));
            let next = format!("{first}  ");
            screen.wrap(&line(&node.process), &first, &next)
        })
        .collect()
}

fn line(process: &ProcessFacts) -> String {
    let inside = if process.namespace_pid == process.pid {
        String::new()
    } else {
        format!(" ({} inside)", process.namespace_pid)
    };
    let mut about = vec![format!("SIGTERM {}", process.sigterm.name())];
    if process.pending {
        about.push("one pending".to_owned());
    }
    match process.state {
        ProcessState::Zombie => about.push("dead, not reaped".to_owned()),
        ProcessState::Stopped => about.push("stopped".to_owned()),
        ProcessState::Running | ProcessState::Sleeping if process.waits_for_child => {
            about.push("waits for a child".to_owned());
        }
        ProcessState::Running | ProcessState::Sleeping => {}
    }
    about.push(format!("group {}", process.group));
    about.push(format!("session {}", process.session));
    let about = about.join(", ").replace(' ', NO_BREAK_SPACE).replace(&format!(",{NO_BREAK_SPACE}"), ", ");
    format!("{}{inside} {}: {about}: {}", process.pid, process.program(), process.argv.join(" "))
}

/// Numbers stay with what they count.
fn bound(text: &str) -> String {
    [" s ", " s.", " s,", " s)", " s;"]
        .iter()
        .fold(text.to_owned(), |text, unit| text.replace(unit, &format!("{NO_BREAK_SPACE}{}", &unit[1..])))
        .replace("PID 1", &format!("PID{NO_BREAK_SPACE}1"))
}
