//! Run directories: where runs are stored, how one is found again.
//!
//! A run is a directory with `scenario.json`, `expected.jsonl`, `observed.jsonl`, `store.sqlite`, the workers' logs
//! `worker-N.log`, `attempts.jsonl` (when each attempt begins: its speed), `evidence.json` and, once it is decided, `record.json`.
//! What an earlier attempt left has its number before the extension: `observed-1.jsonl`. All is written as it
//! happens: a run that breaks off can be read up to there. The directory is locked while the run goes on.

mod directory;
mod stored;

use std::{
    cmp::Reverse,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix,
    path::{Path, PathBuf},
    time::SystemTime,
};

use scenarios::{Gate, Scenario};
use serde::{Serialize, Serializer};

use crate::{failure::Failure, record::Verdict};

pub use directory::{ObservedWriter, RunDir, empty_directory};
pub use stored::{Stored, read};

/// How many runs are kept; older ones are deleted when a new one is made.
pub const RUNS_KEPT: usize = 200;

const LATEST: &str = "latest";

/// Names of the files of a run.
mod file {
    pub(super) const SCENARIO: &str = "scenario.json";
    pub(super) const EXPECTED: &str = "expected.jsonl";
    pub(super) const OBSERVED: &str = "observed.jsonl";
    pub(super) const STORE: &str = "store.sqlite";
    pub(super) const ATTEMPTS: &str = "attempts.jsonl";
    pub(super) const EVIDENCE: &str = "evidence.json";
    pub(super) const RECORD: &str = "record.json";
}

/// The directory that holds all runs: `$XDG_STATE_HOME/termdrill/runs` (XDG Base Directory Specification).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    path: PathBuf,
}

/// How far a stored run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is decided.
    Finished(Verdict),
    /// It goes on right now.
    Running,
    /// It broke off.
    Unfinished,
    /// What it came to can't be read.
    Unreadable,
}

impl State {
    /// `matched`, `diverged`, `inconclusive`, `running`, `unfinished` or `unreadable`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            State::Finished(Verdict::Matched) => "matched",
            State::Finished(Verdict::Diverged) => "diverged",
            State::Finished(Verdict::Inconclusive) => "inconclusive",
            State::Running => "running",
            State::Unfinished => "unfinished",
            State::Unreadable => "unreadable",
        }
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A stored run in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Its name, which is its directory's.
    #[serde(rename = "run")]
    pub name: String,
    /// Where it is.
    #[serde(with = "crate::os_path::shown")]
    pub path: PathBuf,
    /// How far it is, and its verdict.
    pub state: State,
    /// The gate of its last attempt, if it got so far.
    pub gate: Option<Gate>,
}

impl Home {
    /// The home that the environment tells; `variable` looks it up.
    ///
    /// # Errors
    /// Neither `XDG_STATE_HOME` nor `HOME` is an absolute path.
    pub fn from_env(variable: impl Fn(&str) -> Option<OsString>) -> Result<Home, Failure> {
        // The specification has relative paths ignored.
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
        match state {
            Some(state) => Ok(Home { path: state.join("termdrill").join("runs") }),
            None => Err(Failure::bad_input("there is no place for runs: neither XDG_STATE_HOME nor HOME is set")
                .hint("set HOME to your home directory, or give --out DIR")),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory of a new run of `scenario`, which starts `now`: `YYYYMMDD-HHMMSS-NAME` in UTC, with `-2`
    /// and so on behind it while there is one already. `latest` leads to it from now on, and what is older than the
    /// newest [`RUNS_KEPT`] is deleted.
    ///
    /// # Errors
    /// What keeps the directory from being made, with its path.
    pub fn create(&self, scenario: &Scenario, now: SystemTime) -> Result<RunDir, Failure> {
        let base = format!("{}-{}", stamp(now), shortened(&scenario.name));
        let (name, path) = make_numbered(&self.path, &base)?;
        let run = RunDir::begin(path.clone(), scenario).inspect_err(|_| drop(fs::remove_dir(&path)))?;
        self.point_latest_at(&name).inspect_err(|_| drop(fs::remove_dir_all(&path)))?;
        self.delete_old();
        Ok(run.of(self.clone()))
    }

    /// Makes the directory of a new validation, which starts `now`, beside the runs.
    ///
    /// # Errors
    /// What keeps the directory from being made, with its path.
    pub fn create_validation(&self, now: SystemTime) -> Result<PathBuf, Failure> {
        let beside = self.path.with_file_name("validations");
        make_numbered(&beside, &stamp(now)).map(|(_, path)| path)
    }

    fn point_latest_at(&self, name: &str) -> Result<(), Failure> {
        let link = self.path.join(LATEST);
        // rename(2) replaces the link in one step; the name of the run makes that of the new link unique.
        let fresh = self.path.join(format!(".{LATEST}-{name}"));
        let replaced = unix::fs::symlink(name, &fresh).and_then(|()| fs::rename(&fresh, &link));
        replaced.map_err(|error| {
            let _ = fs::remove_file(&fresh);
            match error.kind() {
                io::ErrorKind::IsADirectory => not_a_link(&link),
                _ => Failure::of_io("replace", &link, &error),
            }
        })
    }

    /// Where `latest` leads to the run `name`, it leads to the newest other one from now on, if there is one.
    fn point_latest_away_from(&self, name: &OsStr) {
        let link = self.path.join(LATEST);
        if fs::read_link(&link).is_ok_and(|target| target == name) {
            let other = self.names().ok().and_then(|names| names.into_iter().find(|other| OsStr::new(other) != name));
            // A link that leads nowhere would say that there is a run.
            if other.is_none_or(|other| self.point_latest_at(&other).is_err()) {
                let _ = fs::remove_file(&link);
            }
        }
    }

    /// Deletes what is older than the newest runs. What can't be deleted stays: that is no reason not to drill.
    fn delete_old(&self) {
        let Ok(names) = self.names() else { return };
        for name in names.iter().skip(RUNS_KEPT) {
            let path = self.path.join(name);
            if path.join(file::SCENARIO).is_file() && !directory::is_locked(&path) {
                let _ = fs::remove_dir_all(path);
            }
        }
    }

    /// The names of all runs, the newest first.
    fn names(&self) -> Result<Vec<String>, Failure> {
        let unreadable = |error: &io::Error| Failure::of_io("read", &self.path, error);
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(&error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(&error))?;
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if let (true, Ok(name)) = (is_directory, entry.file_name().into_string())
                && is_run_name(&name)
            {
                // Runs of one second are told apart by when their first file was written.
                let begun = fs::metadata(entry.path().join(file::SCENARIO)).and_then(|file| file.modified()).ok();
                names.push((name[..STAMP_LENGTH].to_owned(), begun, name));
            }
        }
        names.sort_unstable_by_key(|key| Reverse(key.clone()));
        Ok(names.into_iter().map(|(_, _, name)| name).collect())
    }

    /// All runs, the newest first.
    ///
    /// # Errors
    /// The directory can't be read. One that does not exist holds no runs.
    pub fn list(&self) -> Result<Vec<Listed>, Failure> {
        self.newest(usize::MAX)
    }

    /// The `limit` newest runs, the newest first.
    ///
    /// # Errors
    /// As [`Home::list`].
    pub fn newest(&self, limit: usize) -> Result<Vec<Listed>, Failure> {
        let names = self.names()?.into_iter().take(limit);
        Ok(names.map(|name| stored::listed(self.path.join(&name), name)).collect())
    }

    /// The directory of the run that is called exactly `name`, if there is one. Nothing else is ever looked at, whatever
    /// `name` holds.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<PathBuf> {
        let path = self.path.join(name);
        (is_run_name(name) && path.is_dir()).then_some(path)
    }

    /// The directory of the run that `which` means: `latest`, a path, a name, or the beginning of one name only.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub fn find(&self, which: &str) -> Result<PathBuf, Failure> {
        if which == LATEST {
            let link = self.path.join(LATEST);
            return fs::read_link(&link).map(|target| self.path.join(target)).map_err(|error| match error.kind() {
                io::ErrorKind::InvalidInput => not_a_link(&link),
                io::ErrorKind::NotFound => {
                    Failure::bad_input("no run is stored yet").hint("`termdrill run ignored-signal` makes one")
                }
                _ => Failure::of_io("read", &link, &error),
            });
        }
        if which.contains('/') || which == "." || which == ".." {
            return Ok(PathBuf::from(which));
        }
        let names = self.names()?;
        if names.iter().any(|name| name == which) {
            return Ok(self.path.join(which));
        }
        let matching: Vec<&String> = names.iter().filter(|name| !which.is_empty() && name.starts_with(which)).collect();
        match matching[..] {
            [one] => Ok(self.path.join(one)),
            [] if Path::new(which).is_dir() => Ok(PathBuf::from(which)),
            [] => Err(Failure::bad_input(format!("there is no run {which:?} in {}", self.path.display()))
                .hint("`termdrill runs` lists them; `latest` is the last one")),
            [first, second, ..] => {
                Err(Failure::bad_input(format!("{which:?} is the beginning of {} runs", matching.len()))
                    .hint(format!("give more of the name: {first}, {second}")))
            }
        }
    }
}

/// `latest` is ours, and yet something else stands there.
fn not_a_link(path: &Path) -> Failure {
    Failure::unable(format!("{} is not the link that leads to the last run", path.display()))
        .hint("move it away; the next run makes the link")
}

/// Makes a directory `base` in `parent`, with `-2` and so on behind its name while there is one already.
fn make_numbered(parent: &Path, base: &str) -> Result<(String, PathBuf), Failure> {
    fs::create_dir_all(parent).map_err(|error| Failure::of_io("make", parent, &error))?;
    let mut number = 1u32;
    loop {
        let name = if number == 1 { base.to_owned() } else { format!("{base}-{number}") };
        let path = parent.join(&name);
        // mkdir(2) is atomic: of two that start at once, one gets EEXIST and takes the next number.
        match fs::create_dir(&path) {
            Ok(()) => return Ok((name, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(Failure::of_io("make", &path, &error)),
        }
    }
}

/// A name's beginning, so that the directory's name stays below the 255 bytes that a file system takes (NAME_MAX).
fn shortened(name: &str) -> &str {
    let end = name.floor_char_boundary(NAME_LENGTH);
    name[..end].trim_end_matches('-')
}

const NAME_LENGTH: usize = 200;
const STAMP_LENGTH: usize = "YYYYMMDD-HHMMSS".len();

/// `YYYYMMDD-HHMMSS` in UTC, so that names sort by time whatever the time zone does.
fn stamp(now: SystemTime) -> String {
    let rfc3339 = humantime::format_rfc3339_seconds(now).to_string();
    let digits: String = rfc3339.chars().filter(char::is_ascii_digit).collect();
    let (date, time) = digits.split_at_checked(8).unwrap_or((&digits, ""));
    format!("{date}-{time}")
}

/// Whether a directory of this name can be a run: nothing else is ever listed or deleted.
fn is_run_name(name: &str) -> bool {
    let pattern = |(index, byte): (usize, u8)| if index == 8 { byte == b'-' } else { byte.is_ascii_digit() };
    name.is_ascii()
        && name.len() > STAMP_LENGTH + 1
        && name.bytes().take(STAMP_LENGTH).enumerate().all(pattern)
        && name.as_bytes()[STAMP_LENGTH] == b'-'
        && name.bytes().skip(STAMP_LENGTH).all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

#[cfg(test)]
mod tests;
