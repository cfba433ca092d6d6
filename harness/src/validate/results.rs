//! The directory of a validation: its plan, and each result as soon as it is known, so that it can go on after a crash.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
};

use scenarios::Scenario;

use super::{item::Judged, plan::Plan, report::Document};
use crate::{commands, failure::Failure, report::file::Kept, runs};

const PLAN: &str = "plan.json";
const RESULTS: &str = "results.jsonl";
const SUMMARY: &str = "summary.json";
const KEPT: &str = "runs";

/// Where the results of a validation go.
#[derive(Debug)]
pub struct Results {
    directory: PathBuf,
    file: File,
    all: Vec<Judged>,
}

impl Results {
    /// Begins a validation in `out`, which must be new or empty, or in a directory beside the runs.
    ///
    /// # Errors
    /// What keeps it from being made.
    pub fn begin(out: Option<&Path>, plan: &Plan) -> Result<Results, Failure> {
        let directory = match out {
            Some(path) => runs::empty_directory(path)?,
            None => commands::home()?.create_validation(worker::clock::wall())?,
        };
        let text = serde_json::to_vec(plan).map_err(|error| Failure::unable(error.to_string()))?;
        // All of it or nothing: whatever ends us now, the plan is one.
        let (path, written) = (directory.join(PLAN), directory.join(format!("{PLAN}.new")));
        fs::write(&written, text).map_err(|error| Failure::of_io("write", &written, &error))?;
        fs::rename(&written, &path).map_err(|error| Failure::of_io("write", &path, &error))?;
        let file = open(&directory)?;
        Ok(Results { directory, file, all: Vec::new() })
    }

    /// Goes on with the validation in `directory`.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub fn resume(directory: &Path) -> Result<(Plan, Results), Failure> {
        let path = directory.join(PLAN);
        let text = fs::read(&path).map_err(|error| {
            Failure::of_io("read", &path, &error)
                .as_bad_input()
                .hint("give the directory of a validation that was stopped")
        })?;
        let plan: Plan = serde_json::from_slice(&text).map_err(|error| {
            Failure::bad_input(format!("{}: not the plan of a validation: {error}", path.display()))
        })?;
        let directory = directory.to_owned();
        let path = directory.join(RESULTS);
        // Where it was ended early there may be none yet.
        let mut file = open(&directory)?;
        let lines = File::open(&path).map(BufReader::new).map_err(|error| Failure::of_io("read", &path, &error))?;
        // The last line may have been cut off; that drill is made once more.
        let all: Vec<Judged> =
            lines.split(b'\n').map_while(Result::ok).filter_map(|line| serde_json::from_slice(&line).ok()).collect();
        // What comes must not stand behind half a line.
        file.write_all(b"\n").map_err(|error| Failure::of_io("write", &path, &error))?;
        Ok((plan, Results { directory, file, all }))
    }

    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where runs are kept whole, as `replay` reads them.
    #[must_use]
    pub fn kept_in(&self) -> PathBuf {
        self.directory.join(KEPT)
    }

    /// All results so far.
    #[must_use]
    pub fn all(&self) -> &[Judged] {
        &self.all
    }

    /// Whether there is a result of drill `number`.
    #[must_use]
    pub fn has(&self, number: usize) -> bool {
        self.all.iter().any(|judged| judged.number == number)
    }

    /// Adds a result; it is in the kernel's hands when this returns.
    ///
    /// # Errors
    /// What keeps it from being written.
    pub fn add(&mut self, judged: &Judged) -> Result<(), Failure> {
        let path = self.directory.join(RESULTS);
        let mut line = serde_json::to_vec(judged).map_err(|error| Failure::unable(error.to_string()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|error| Failure::of_io("write", &path, &error))?;
        self.all.push(judged.clone());
        Ok(())
    }

    /// Keeps a scenario that diverges, as a file that `run` takes.
    ///
    /// # Errors
    /// What keeps it from being written.
    pub fn keep(&self, scenario: &Scenario) -> Result<PathBuf, Failure> {
        let path = self.directory.join(format!("{}.json", scenario.name));
        let text = serde_json::to_vec_pretty(scenario).map_err(|error| Failure::unable(error.to_string()))?;
        fs::write(&path, text).map_err(|error| Failure::of_io("write", &path, &error))?;
        Ok(path)
    }

    /// Removes what the lanes left; what can't be removed does no harm.
    pub fn tidy(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with("lane-") {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Stores the whole document.
    ///
    /// # Errors
    /// What keeps it from being written.
    pub fn finish(&self, document: &Document) -> Result<(), Failure> {
        let path = self.directory.join(SUMMARY);
        let text = serde_json::to_vec(document).map_err(|error| Failure::unable(error.to_string()))?;
        fs::write(&path, text).map_err(|error| Failure::of_io("write", &path, &error))
    }
}

/// The runs of the validation in `directory` that were kept whole, in the order of the plan.
///
/// # Errors
/// One of them can't be read.
pub fn kept(directory: &Path) -> Result<Vec<Kept>, Failure> {
    let path = directory.join(KEPT);
    let entries = match fs::read_dir(&path) {
        Ok(entries) => entries,
        // Nothing was worth keeping.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::of_io("read", &path, &error)),
    };
    let mut kept = Vec::new();
    for entry in entries {
        let run = entry.map_err(|error| Failure::of_io("read", &path, &error))?.path();
        let name = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let place = name.split_once('-').and_then(|(place, _)| place.parse::<usize>().ok()?.checked_sub(1));
        let Some(number) = place else { continue };
        let stored = runs::read(&run)?;
        // One that a crash cut off was drilled once more.
        if matches!(stored.state, runs::State::Finished(_)) {
            kept.push(Kept { number, record: stored.record });
        }
    }
    kept.sort_by_key(|kept| kept.number);
    Ok(kept)
}

fn open(directory: &Path) -> Result<File, Failure> {
    let path = directory.join(RESULTS);
    File::options().create(true).append(true).open(&path).map_err(|error| Failure::of_io("write", &path, &error))
}
