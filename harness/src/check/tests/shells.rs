use scenarios::{Signal, Status};

use super::{APP, KILLED, SH, row};
use crate::{
    check::{
        explain,
        samples::{Process, drill, settings},
        settings::Settings,
    },
    evidence::Disposition::Caught,
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
