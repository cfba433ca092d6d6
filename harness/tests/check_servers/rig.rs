//! What the servers need: programs that may be missing, and files that are made for them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{Mutex, OnceLock},
};

use harness::check::record::Record;
use tempfile::TempDir;

/// A folder that every test gets for itself.
pub(crate) struct Rig {
    folder: TempDir,
}

/// Where the fixtures are.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers")
}

/// So many checks run at once: they mostly wait, but their servers have to boot.
const AT_ONCE: usize = 4;

impl Rig {
    pub(crate) fn new() -> Rig {
        Rig { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A configuration for nginx, with everything that it writes in our folder.
    pub(crate) fn nginx(&self, name: &str, port: u16) -> PathBuf {
        let folder = self.path(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("slow"), vec![b'x'; 150_000]).unwrap();
        fs::write(folder.join("index.html"), "done\n").unwrap();
        let text = fs::read_to_string(fixtures().join("nginx.conf")).unwrap();
        let text = text.replace("FOLDER", &folder.display().to_string()).replace("PORT", &port.to_string());
        let path = folder.join("nginx.conf");
        fs::write(&path, text).unwrap();
        path
    }

    /// The folder of a compiled Java class.
    pub(crate) fn java(&self, javac: &Path) -> PathBuf {
        let mut command = Command::new(javac);
        command.arg("-d").arg(self.folder.path()).arg(fixtures().join("Server.java"));
        let compiled = output(command).unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        self.folder.path().to_owned()
    }

    /// Checks `command`, and that it comes to what `holds` asks for. Where it can't be tried here, that is said aloud.
    pub(crate) fn check(&self, options: &[&str], command: &[&str], holds: impl Fn(&Record) -> Result<(), String>) {
        if let Some(record) = self.record(options, command) {
            holds(&record).unwrap_or_else(|wrong| panic!("{wrong}"));
        }
    }

    fn record(&self, options: &[&str], command: &[&str]) -> Option<Record> {
        static TURNS: OnceLock<[Mutex<()>; AT_ONCE]> = OnceLock::new();
        static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let turns = TURNS.get_or_init(Default::default);
        let turn = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % AT_ONCE;
        // A test that failed in its turn does not keep others from theirs.
        let _turn = turns[turn].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut termdrill = Command::new(env!("CARGO_BIN_EXE_termdrill"));
        termdrill.args(["check", "--json"]).args(options).arg("--").args(command);
        termdrill.current_dir(self.folder.path()).env_clear().env("LC_ALL", "C.UTF-8");
        termdrill.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("XDG_STATE_HOME", self.folder.path());
        // Python writes beside its sources otherwise.
        termdrill.env("PYTHONDONTWRITEBYTECODE", "1");
        let Output { status, stdout, stderr } = output(termdrill).unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        let record: Record =
            serde_json::from_str(&stdout).unwrap_or_else(|bad| panic!("{command:?}: {bad}: {stdout}{stderr}"));
        assert_eq!(status.code(), Some(i32::from(record.verdict.exit_code())), "{command:?}: {stderr}");
        if stdout.contains("no PID namespace can be made here") {
            eprintln!("skipped: no PID namespace can be made here");
            return None;
        }
        Some(record)
    }
}

/// A port that is free, and that no client is given and no other check, until this is dropped.
pub(crate) fn free_port() -> harness::check::reserved::Reserved {
    harness::check::start::port(None).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "programs that end by themselves, and the program under test")]
fn output(mut command: Command) -> Option<Output> {
    command.stdin(Stdio::null()).output().ok()
}

/// A program that is there and runs, or nothing, said aloud. Those that `.ci/run` installs in the target folder come first,
/// then the system's own: version managers put slow scripts in front of them.
pub(crate) fn found(program: &str, arguments: &[&str]) -> Option<PathBuf> {
    let ours = PathBuf::from(env!("CARGO_BIN_EXE_termdrill"));
    let target = ours.ancestors().find(|folder| folder.join("servers-venv").is_dir());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = target.map(|target| target.join("servers-venv/bin")).into_iter();
    let folders =
        folders.chain(["/usr/bin", "/usr/sbin", "/bin"].map(PathBuf::from)).chain(std::env::split_paths(&path));
    let runs = |candidate: &PathBuf| {
        let mut command = Command::new(candidate);
        command.args(arguments);
        candidate.is_file() && output(command).is_some_and(|output| output.status.success())
    };
    let found = folders.map(|folder| folder.join(program)).find(runs);
    if found.is_none() {
        eprintln!("skipped: there is no {program} here");
    }
    found
}

/// The same as text.
pub(crate) fn program(name: &str, arguments: &[&str]) -> Option<String> {
    Some(found(name, arguments)?.display().to_string())
}
