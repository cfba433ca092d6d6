//! The directory of a run that goes on: everything is written as it happens.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

use scenarios::{Expectation, Outcome, Scenario, Source, Tick, Trace, WorkerId, trace};
use serde::{Deserialize, Serialize};

use super::{Home, file, stored};
use crate::{
    drill::STORE_LINES,
    evidence::{Evidence, Explanation},
    failure::Failure,
    record::{Attempt, Difference, Lateness, Observed, Record, Verdict},
};

/// A run's directory, locked (flock(2)) for as long as this lives.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    scenario: Scenario,
    attempts: usize,
    /// Where it is one of the runs that `latest` may lead to.
    home: Option<Home>,
    /// Whether the directory was made for it.
    is_made: bool,
    /// Held only for its lock, which the kernel drops with the process.
    _lock: File,
}

/// What `record.json` holds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Decided {
    format: String,
    version: u32,
    pub(super) verdict: Verdict,
    pub(super) reasons: Vec<String>,
    pub(super) gate: Option<scenarios::Gate>,
    pub(super) attempts: Vec<AttemptSummary>,
}

const FORMAT: &str = "termdrill-record";
const VERSION: u32 = 1;

impl Decided {
    /// Whether it is of the format that this program reads, and otherwise why not.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.format == FORMAT && self.version == VERSION {
            Ok(())
        } else {
            Err(format!("{} {} can't be read, only {FORMAT} {VERSION}", self.format, self.version))
        }
    }
}

/// An attempt without its events, which have a file of their own.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AttemptSummary {
    pub(super) speed: Option<f64>,
    pub(super) wall_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cut_off_at: Option<Tick>,
    pub(super) lateness: Vec<Lateness>,
    pub(super) difference: Option<Difference>,
    pub(super) problems: Vec<String>,
    pub(super) remarks: Vec<String>,
}

/// What `evidence.json` holds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredEvidence<E, X> {
    pub(super) evidence: E,
    pub(super) explanation: X,
}

/// A line of `attempts.jsonl`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Begun {
    pub(super) attempt: usize,
    pub(super) speed: Option<f64>,
}

impl RunDir {
    /// Uses exactly `path` for a run of `scenario`; it is made where there is none, and has to be empty.
    ///
    /// # Errors
    /// It is a file, holds something, or can't be made.
    pub fn at(path: &Path, scenario: &Scenario) -> Result<RunDir, Failure> {
        let is_new = !path.exists();
        match RunDir::begin(empty_directory(path)?, scenario) {
            Ok(run) => Ok(RunDir { is_made: is_new, ..run }),
            Err(failure) => {
                if is_new {
                    // Only where it is empty: another run may have taken it.
                    let _ = fs::remove_dir(path);
                }
                Err(failure)
            }
        }
    }

    /// Takes the empty directory at `path`. Where its first file can't be written whole, there is none.
    pub(super) fn begin(path: PathBuf, scenario: &Scenario) -> Result<RunDir, Failure> {
        let first = path.join(file::SCENARIO);
        let begun = || -> io::Result<File> {
            // Exclusively: another run with the same --out may be a moment ahead.
            let mut lock = File::create_new(&first)?;
            let mut write = || -> io::Result<()> {
                // Whoever lists the runs holds it for a moment.
                lock.lock()?;
                let mut text = serde_json::to_vec_pretty(scenario)?;
                text.push(b'\n');
                lock.write_all(&text)
            };
            // A run that could never begin is none that broke off.
            write().inspect_err(|_| drop(fs::remove_file(&first)))?;
            Ok(lock)
        };
        let lock = begun().map_err(|error| Failure::of_io("write", &first, &error))?;
        Ok(RunDir { path, scenario: scenario.clone(), attempts: 0, home: None, is_made: false, _lock: lock })
    }

    /// The same as one of the runs of `home`, which has made its directory.
    pub(super) fn of(self, home: Home) -> RunDir {
        RunDir { home: Some(home), is_made: true, ..self }
    }

    /// Ends a run that an error broke off before it was decided. Where something was observed, it stays for a look, and
    /// the name by which it is found is given. Otherwise it was none: what is here of it is removed, and `latest` leads
    /// to the run before it again.
    pub fn break_off(self) -> Option<String> {
        let stored = super::read(&self.path);
        if stored.is_ok_and(|stored| stored.record.attempts.iter().all(|attempt| attempt.events.is_empty())) {
            self.remove();
            return None;
        }
        let name = self.home.is_some().then(|| self.path.file_name()).flatten().unwrap_or(self.path.as_os_str());
        Some(name.display().to_string())
    }

    /// The directory was empty when it was taken, and is locked: all files in it are the run's. What can't be removed
    /// stays.
    fn remove(self) {
        if let (Some(home), Some(name)) = (&self.home, self.path.file_name()) {
            home.point_latest_away_from(name);
        }
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            // What an entrypoint was measured in is a directory.
            let _ = fs::remove_file(entry.path()).or_else(|_| fs::remove_dir_all(entry.path()));
        }
        if self.is_made {
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Stores a run that is over in `path`, which must be new or empty: its traces and what is known of it, but no store
    /// and no logs.
    ///
    /// # Errors
    /// What keeps it from being written.
    pub fn store_whole(path: &Path, record: &Record) -> Result<(), Failure> {
        let mut directory = RunDir::at(path, &record.scenario)?;
        directory.write_expected(&record.expected)?;
        for attempt in &record.attempts {
            let writer = directory.begin_attempt(attempt.speed)?;
            writer.finish(&attempt.events, &attempt.outcome)?;
            if let Some(evidence) = &attempt.evidence {
                directory.write_evidence(evidence, attempt.explanation.as_ref())?;
            }
        }
        directory.finish(record)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The result store of the attempt at hand.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.path.join(file::STORE)
    }

    /// Where what a worker writes to its standard error in the attempt at hand goes.
    #[must_use]
    pub fn worker_log(&self, worker: WorkerId) -> PathBuf {
        self.path.join(format!("{worker}.log"))
    }

    /// Stores what the model expects.
    ///
    /// # Errors
    /// What keeps it from being written.
    pub fn write_expected(&self, expected: &Expectation) -> Result<(), Failure> {
        let Expectation { events, outcome } = expected.clone();
        let scenario = self.scenario.clone();
        let trace = Trace { source: Source::Model, scenario, events, outcome: Some(outcome) };
        write_whole(&self.path.join(file::EXPECTED), |out| trace.write(out))
    }

    /// Begins an attempt: what the one before left is moved out of the way, and observed events can be written.
    ///
    /// # Errors
    /// What keeps a file from being moved or written.
    pub fn begin_attempt(&mut self, speed: Option<f64>) -> Result<ObservedWriter, Failure> {
        if self.attempts > 0 {
            self.set_aside(self.attempts)?;
        }
        self.attempts += 1;
        let log = self.path.join(file::ATTEMPTS);
        let begun = Begun { attempt: self.attempts, speed };
        let append = || -> io::Result<()> {
            let mut line = serde_json::to_vec(&begun)?;
            line.push(b'\n');
            File::options().create(true).append(true).open(&log)?.write_all(&line)
        };
        append().map_err(|error| Failure::of_io("write", &log, &error))?;
        ObservedWriter::create(self.path.join(file::OBSERVED), self.scenario.clone())
    }

    /// `observed.jsonl` becomes `observed-1.jsonl`, `worker-2.log` becomes `worker-2-1.log`, and so on.
    fn set_aside(&self, attempt: usize) -> Result<(), Failure> {
        let mut names = vec![file::OBSERVED.to_owned(), file::EVIDENCE.to_owned(), STORE_LINES.to_owned()];
        // The write-ahead log and its index belong to the database (sqlite.org/wal.html).
        names.extend(["", "-wal", "-shm"].map(|suffix| format!("{}{suffix}", file::STORE)));
        names.extend((1..=self.scenario.workers()).map(|number| format!("{}.log", WorkerId(number))));
        for name in names {
            let Some((stem, extension)) = name.rsplit_once('.') else { continue };
            let (from, to) = (self.path.join(&name), self.path.join(format!("{stem}-{attempt}.{extension}")));
            match fs::rename(&from, &to) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Failure::of_io("rename", &from, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Stores what is known of the processes of the attempt at hand.
    ///
    /// # Errors
    /// What keeps it from being written.
    pub fn write_evidence(&self, evidence: &Evidence, explanation: Option<&Explanation>) -> Result<(), Failure> {
        write_whole(&self.path.join(file::EVIDENCE), |out| {
            serde_json::to_writer_pretty(&mut *out, &StoredEvidence { evidence, explanation })?;
            out.write_all(b"\n")
        })
    }

    /// Stores what the run came to. From then on it is finished.
    ///
    /// # Errors
    /// What keeps it from being written.
    pub fn finish(&self, record: &Record) -> Result<(), Failure> {
        let decided = Decided {
            format: FORMAT.to_owned(),
            version: VERSION,
            verdict: record.verdict,
            reasons: record.reasons.clone(),
            gate: record.attempts.last().filter(|last| last.cut_off_at.is_none()).map(|last| last.outcome.gate),
            attempts: record.attempts.iter().map(AttemptSummary::of).collect(),
        };
        write_whole(&self.path.join(file::RECORD), |out| {
            serde_json::to_writer_pretty(&mut *out, &decided)?;
            out.write_all(b"\n")
        })
    }
}

/// The directory at `path`, which is made where there is none, and has to be empty.
///
/// # Errors
/// It is a file, holds something, or can't be made.
pub fn empty_directory(path: &Path) -> Result<PathBuf, Failure> {
    let elsewhere = "give --out a directory that is new or empty";
    match fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            Some(_) => Err(Failure::bad_input(format!("{} is not empty", path.display())).hint(elsewhere)),
            None => Ok(path.to_owned()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(path).map_err(|error| Failure::of_io("make", path, &error))?;
            Ok(path.to_owned())
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(Failure::bad_input(format!("{} is not a directory", path.display())).hint(elsewhere))
        }
        Err(error) => Err(Failure::of_io("read", path, &error)),
    }
}

impl AttemptSummary {
    fn of(attempt: &Attempt) -> AttemptSummary {
        AttemptSummary {
            speed: attempt.speed,
            wall_ms: attempt.wall_ms,
            cut_off_at: attempt.cut_off_at,
            lateness: attempt.lateness.clone(),
            difference: attempt.difference.clone(),
            problems: attempt.problems.clone(),
            remarks: attempt.remarks.clone(),
        }
    }
}

/// Writes observed events as they happen. Each is in the kernel's hands when [`ObservedWriter::append`] returns: a
/// crash of this process loses none.
#[derive(Debug)]
pub struct ObservedWriter {
    path: PathBuf,
    scenario: Scenario,
    file: File,
}

impl ObservedWriter {
    fn create(path: PathBuf, scenario: Scenario) -> Result<ObservedWriter, Failure> {
        let mut header = Vec::new();
        let created = trace::write_header(&mut header, Source::Processes, &scenario)
            .and_then(|()| File::create(&path))
            .and_then(|mut file| file.write_all(&header).map(|()| file));
        let file = created.map_err(|error| Failure::of_io("write", &path, &error))?;
        Ok(ObservedWriter { path, scenario, file })
    }

    /// Writes one event, in one write.
    ///
    /// # Errors
    /// What keeps it from being written.
    pub fn append(&mut self, observed: &Observed) -> Result<(), Failure> {
        trace::write_event(&mut self.file, observed).map_err(|error| Failure::of_io("write", &self.path, &error))
    }

    /// Replaces what was written as it happened by the whole trace: in trace order, with what was found out
    /// afterwards, and with the outcome.
    ///
    /// # Errors
    /// What keeps it from being written; what was there before then stays.
    pub fn finish(self, events: &[Observed], outcome: &Outcome) -> Result<(), Failure> {
        let (events, outcome) = (events.to_vec(), Some(outcome.clone()));
        let trace = Trace { source: Source::Processes, scenario: self.scenario, events, outcome };
        write_whole(&self.path, |out| trace.write(out))
    }
}

/// Writes a file whole or not at all: beside it, and then in its place by rename(2).
fn write_whole(path: &Path, write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let written = write(&mut bytes).and_then(|()| fs::write(&beside, &bytes)).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        Failure::of_io("write", path, &error)
    })
}

/// Whether a run in this directory goes on right now.
pub(super) fn is_locked(path: &Path) -> bool {
    let lock = stored::open(&path.join(file::SCENARIO)).map(|file| file.try_lock_shared());
    matches!(lock, Ok(Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
    };

    use super::*;

    #[test]
    fn a_run_begins_however_often_the_runs_are_listed_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..300).map(|number| folder.path().join(number.to_string())).collect();
        let at = AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while let Some(path) = paths.get(at.load(Ordering::Relaxed)) {
                    let _ = is_locked(path);
                }
            });
            let begun = paths.iter().enumerate().try_for_each(|(number, path)| {
                at.store(number, Ordering::Relaxed);
                fs::create_dir(path).unwrap();
                RunDir::begin(path.clone(), &Scenario::new("listed", "Listed")).map(drop)
            });
            at.store(paths.len(), Ordering::Relaxed);
            begun.unwrap();
        });
    }
}
