//! A server of the program under test, for one test.

use std::{ffi::OsStr, fs, time::Duration};

use crate::support::{PATIENCE, Rig, Running, eventually};

/// It ends with the value.
pub(crate) struct Server {
    /// Where it listens: `http://127.0.0.1:PORT`.
    pub(crate) url: String,
    _running: Running,
    rig: Rig,
}

impl Server {
    /// One that was started with these arguments too.
    pub(crate) fn start(arguments: &[&str]) -> Server {
        let rig = Rig::new();
        // It ends with the thread of its test, and so with these tests, whatever ends them (PR_SET_PDEATHSIG(2const)).
        let tied = ["setpriv", "--pdeathsig", "KILL"].map(OsStr::new);
        let running = rig.start(&mut rig.wrapped(&tied, &[&["serve", "--listen", "127.0.0.1:0"], arguments].concat()));
        let said = rig.path("stdout-0");
        let mut url = None;
        eventually(PATIENCE, || {
            let text = fs::read_to_string(&said).unwrap();
            url = text.split_once("http://").and_then(|(_, rest)| Some(format!("http://{}", rest.split_once('/')?.0)));
            url.is_some() || running.has_ended(Duration::ZERO)
        });
        Server { url: url.unwrap_or_else(|| panic!("it does not say where it listens")), _running: running, rig }
    }

    /// Drills a scenario of the catalogue, and gives the address of the report on it.
    pub(crate) fn report(&self, name: &str) -> String {
        let path = self.rig.path("report.html");
        let ended = self.rig.run(&["run", name, "--clock", "stepped", "--quiet", "--report", path.to_str().unwrap()]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        format!("file://{}", path.display())
    }
}
