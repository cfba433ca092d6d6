use scenarios::{Signal, Status};

use super::{APP, KILLED, SH, row};
use crate::{
    check::{
        explain,
        record::Observed,
        samples::{Process, drill, settings},
        settings::Settings,
    },
    evidence::Disposition::{Caught, Default},
};

/// Shells take SIGINT themselves: that one is caught says nothing of a trap.
#[test]
fn of_sigint_to_a_shell_no_trap_is_told() {
    let drilled = |signal, top: Process, killed: bool| {
        let settings = Settings { signal, ..settings() };
        let app_end = if killed { None } else { Some(35) };
        let observed = drill(true, &[top, row(APP, Caught, KILLED, app_end)]);
        let observed = if killed { observed.sigkill(10_000) } else { observed };
        explain::explain(&settings, &observed)
    };
    for (code, at_ms, killed) in [(Status::Code(130), 34, false), (KILLED, 10_010, true)] {
        let top = row(SH, Caught, code, Some(at_ms));
        let int = drilled(Signal::INT, top, killed);
        assert!(!["has a trap", "ran its trap"].iter().any(|trap| int.text.contains(trap)), "{int:?}");
        assert!(int.text.contains("dash took it and left") || int.text.contains("dash takes it itself"), "{int:?}");
        assert!(!int.change.unwrap().contains("wait again"));
        let term = drilled(Signal::TERM, top, killed);
        assert!(["has a trap", "ran its trap"].iter().any(|trap| term.text.contains(trap)), "{term:?}");
    }
}

/// What comes behind -c is a text for a shell or a file for a server.
#[test]
fn a_text_for_a_shell_is_told_from_other_words() {
    let with = |words: &[&str]| Settings { command: words.iter().map(|&word| word.to_owned()).collect(), ..settings() };
    let rows: [(&[&str], bool); 7] = [
        (&["sh", "-c", "server --port $PORT; true"], true),
        (&["bash", "-lc", "server --port $PORT; true"], true),
        (&["/bin/sh", "-ec", "server --port $PORT; true"], true),
        (&["env", "A=1", "dash", "-e", "-c", "server --port $PORT; true"], true),
        (&["tini", "--", "sh", "-xc", "server --port $PORT; true"], true),
        (&["gunicorn", "-c", "conf.py", "-b", ":$PORT"], false),
        (&["bash", "start.sh", "$PORT"], false),
    ];
    for (words, is_text) in rows {
        let settings = with(words);
        let shell = drill(true, &[row(SH, Default, KILLED, Some(10_010)), row(APP, Caught, KILLED, Some(10_009))]);
        let change = explain::explain(&settings, &shell.sigkill(10_000)).change.unwrap();
        assert_eq!(change.contains("in `-c`"), is_text, "{words:?}: {change}");
        let early = Observed { ended_early: true, ..Observed::default() };
        let change = explain::explain(&settings, &early).change.unwrap_or_default();
        assert_eq!(change.contains("nobody puts the port"), !is_text, "{words:?}: {change}");
    }
}
