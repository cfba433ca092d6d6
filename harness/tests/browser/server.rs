//! A server of the program under test, for one test.

use std::{ffi::OsStr, fs, time::Duration};

use crate::support::{PATIENCE, Rig, Running, eventually};

/// It ends with the value.
pub(crate) struct Server {
    /// Where it listens: `http://127.0.0.1:PORT`.
    pub(crate) url: String,
    running: Option<Running>,
    rig: Rig,
}

impl Server {
    /// One that was started with these arguments too.
    pub(crate) fn start(arguments: &[&str]) -> Server {
        let rig = Rig::new();
        let (running, url) = started(&rig, "127.0.0.1:0", arguments);
        Server { url, running: Some(running), rig }
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.running = None;
    }

    /// Starts another one where it was, on what it has stored.
    pub(crate) fn start_anew(&mut self) {
        let (running, url) = started(&self.rig, self.url.trim_start_matches("http://"), &[]);
        assert_eq!(url, self.url);
        self.running = Some(running);
    }

    /// The name of the latest run, which from now on is not over, for as long as the file is open.
    pub(crate) fn hold_latest(&self) -> (String, fs::File) {
        let run = fs::canonicalize(self.rig.state().join("termdrill/runs/latest")).unwrap();
        let file = fs::File::open(run.join("scenario.json")).unwrap();
        file.lock().unwrap();
        (run.file_name().unwrap().to_str().unwrap().to_owned(), file)
    }

    /// Drills a scenario of the catalogue, and gives the address of the report on it.
    pub(crate) fn report(&self, name: &str) -> String {
        let path = self.rig.path("report.html");
        let ended = self.rig.run(&["run", name, "--clock", "stepped", "--quiet", "--report", path.to_str().unwrap()]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        format!("file://{}", path.display())
    }

    /// Validates the last of four shards, and gives the address of the report on it.
    pub(crate) fn report_of_a_shard(&self) -> String {
        let shard = ["validate", "--random", "8", "--clock", "stepped", "--shard", "4/4", "--out"];
        self.validate(&[&shard[..], &[self.rig.path("shard").to_str().unwrap()]].concat())
    }

    /// The same where nothing of what was drilled is kept.
    pub(crate) fn report_of_nothing_kept(&self) -> String {
        let shard = self.rig.path("shard");
        fs::remove_dir_all(shard.join("runs")).unwrap();
        self.validate(&["validate", "--resume", shard.to_str().unwrap()])
    }

    fn validate(&self, arguments: &[&str]) -> String {
        let path = self.rig.path("validation.html");
        let ended = self.rig.run(&[arguments, &["--report", path.to_str().unwrap()]].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        format!("file://{}", path.display())
    }
}

/// A server that listens there, and its address.
fn started(rig: &Rig, listen: &str, arguments: &[&str]) -> (Running, String) {
    // It ends with the thread of its test, and so with these tests, whatever ends them (PR_SET_PDEATHSIG(2const)).
    let tied = ["setpriv", "--pdeathsig", "KILL"].map(OsStr::new);
    let said = rig.path("served");
    let mut server = rig.wrapped(&tied, &[&["serve", "--listen", listen], arguments].concat());
    let running = rig.start_to(&mut server, fs::File::create(&said).unwrap());
    let mut url = None;
    eventually(PATIENCE, || {
        let text = fs::read_to_string(&said).unwrap();
        url = text.split_once("http://").and_then(|(_, rest)| Some(format!("http://{}", rest.split_once('/')?.0)));
        url.is_some() || running.has_ended(Duration::ZERO)
    });
    (running, url.unwrap_or_else(|| panic!("it does not say where it listens")))
}
