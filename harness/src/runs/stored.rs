//! Reads back what a run left, be it decided or cut off.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use nix::fcntl::OFlag;
use scenarios::{Event, Expectation, Outcome, Scenario, Trace};

use super::{
    Listed, State,
    directory::{AttemptSummary, Begun, Decided, StoredEvidence, is_locked},
    file,
};
use crate::{
    evidence::{Evidence, Explanation},
    failure::Failure,
    record::{Attempt, Observed, Record, Verdict, last_seen},
};

/// A run that was read back.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Where it is.
    pub path: PathBuf,
    /// How far it is.
    pub state: State,
    /// What is known of it. The verdict on a run that is not decided is that nothing is proved.
    pub record: Record,
}

/// Reads the run in the directory `path`.
///
/// # Errors
/// It is no run, or one of its files can't be read. A last line that was cut off is no error.
pub fn read(path: &Path) -> Result<Stored, Failure> {
    let scenario_file = path.join(file::SCENARIO);
    if !scenario_file.is_file() {
        return Err(Failure::bad_input(format!("{} is not the directory of a run", path.display()))
            .hint("`termdrill runs` lists the runs"));
    }
    let scenario = Scenario::from_bytes(&bytes(&scenario_file)?).map_err(|error| unreadable(&scenario_file, error))?;
    let decided = decided(path)?;
    let state = state(path, decided.as_ref());
    let mut reasons = Vec::new();
    let expected = match trace::<Event>(&path.join(file::EXPECTED), decided.is_some())? {
        Some(trace) => {
            let outcome = trace.outcome.unwrap_or_else(|| Outcome::of(&scenario, &trace.events));
            Expectation { events: trace.events, outcome }
        }
        None => Expectation { events: Vec::new(), outcome: Outcome::of(&scenario, &[]) },
    };
    let attempts = attempts(path, &scenario, decided.as_ref())?;
    let verdict = match decided {
        Some(decided) => {
            reasons.extend(decided.reasons);
            decided.verdict
        }
        None => {
            reasons.push(match state {
                State::Running => "The run is still going on.".to_owned(),
                _ => "The run broke off before it was decided.".to_owned(),
            });
            Verdict::Inconclusive
        }
    };
    let record = Record { scenario, expected, attempts, verdict, reasons };
    Ok(Stored { path: path.to_owned(), state, record })
}

/// What a list says of the run at `path`.
pub(super) fn listed(path: PathBuf, name: String) -> Listed {
    let (state, gate) = match decided(&path) {
        Ok(decided) => (state(&path, decided.as_ref()), decided.and_then(|decided| decided.gate)),
        Err(_) => (State::Unreadable, None),
    };
    Listed { name, path, state, gate }
}

fn state(path: &Path, decided: Option<&Decided>) -> State {
    match decided {
        Some(decided) => State::Finished(decided.verdict),
        None if is_locked(path) => State::Running,
        None => State::Unfinished,
    }
}

/// Opens a file of a run. What is none, such as a pipe, could keep the reader for ever.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let kind = file.metadata()?.file_type();
    match (kind.is_file(), kind.is_dir()) {
        (true, _) => Ok(file),
        (_, true) => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::other("it is not a regular file")),
    }
}

fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes).map(|_| bytes)
}

fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    contents(path).map_err(|error| Failure::of_io("read", path, &error))
}

/// The bytes of a file that need not be there.
fn bytes_if_any(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    match contents(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::of_io("read", path, &error)),
    }
}

fn unreadable(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::bad_input(format!("can't read {}: {why}", path.display()))
        .hint("a file of this run is damaged; `termdrill runs` lists the others")
}

fn decided(path: &Path) -> Result<Option<Decided>, Failure> {
    let path = path.join(file::RECORD);
    let Some(bytes) = bytes_if_any(&path)? else { return Ok(None) };
    let decided: Decided = serde_json::from_slice(&bytes).map_err(|error| unreadable(&path, error))?;
    decided.check().map_err(|why| unreadable(&path, why))?;
    Ok(Some(decided))
}

/// The trace in a file, up to the last whole line; `None` where not even the header is whole. That of a run that is
/// `decided` has been written to its end, so anything less has been damaged since.
fn trace<E>(path: &Path, decided: bool) -> Result<Option<Trace<E>>, Failure>
where
    E: serde::Serialize + for<'de> serde::Deserialize<'de>,
{
    let bytes = bytes_if_any(path)?.unwrap_or_default();
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let trace = match whole {
        0 => None,
        _ => Some(Trace::read(&bytes[..whole]).map_err(|error| unreadable(path, error))?),
    };
    if decided && trace.as_ref().is_none_or(|trace: &Trace<E>| trace.outcome.is_none()) {
        return Err(unreadable(path, "it is damaged: a part is missing, although the run was decided"));
    }
    Ok(trace)
}

fn attempts(path: &Path, scenario: &Scenario, decided: Option<&Decided>) -> Result<Vec<Attempt>, Failure> {
    let begun = begun(path)?;
    let count = decided.map_or(begun.len(), |decided| decided.attempts.len());
    let mut attempts = Vec::new();
    for number in 1..=count {
        let is_last = number == count;
        // One that was moved out of the way for the next one, before that had begun, is the last one too.
        let has_name = is_last && (decided.is_some() || path.join(file::OBSERVED).exists());
        let name = if has_name { file::OBSERVED.to_owned() } else { format!("observed-{number}.jsonl") };
        let (mut events, outcome) = match trace::<Observed>(&path.join(name), decided.is_some())? {
            Some(trace) => (trace.events, trace.outcome),
            None => (Vec::new(), None),
        };
        // What was written as it happened is not quite in trace order.
        events.sort_by_key(|observed| observed.event.order());
        let outcome = outcome.unwrap_or_else(|| {
            let plain: Vec<Event> = events.iter().map(|observed| observed.event).collect();
            Outcome::of(scenario, &plain)
        });
        let summary = decided.and_then(|decided| decided.attempts.get(number - 1));
        let speed = begun.get(number - 1).and_then(|begun| begun.speed);
        let mut attempt = attempt(summary, speed, events, outcome);
        let name = if has_name { file::EVIDENCE.to_owned() } else { format!("evidence-{number}.json") };
        if let Some(stored) = evidence(&path.join(name))? {
            (attempt.evidence, attempt.explanation) = (Some(stored.evidence), stored.explanation);
        }
        attempts.push(attempt);
    }
    Ok(attempts)
}

fn attempt(summary: Option<&AttemptSummary>, speed: Option<f64>, events: Vec<Observed>, outcome: Outcome) -> Attempt {
    match summary {
        Some(summary) => Attempt {
            speed: summary.speed,
            wall_ms: summary.wall_ms,
            cut_off_at: summary.cut_off_at,
            events,
            outcome,
            lateness: summary.lateness.clone(),
            difference: summary.difference.clone(),
            problems: summary.problems.clone(),
            remarks: summary.remarks.clone(),
            evidence: None,
            explanation: None,
        },
        None => {
            let last_us = events.iter().map(|observed| observed.at_us).max().unwrap_or(0);
            Attempt {
                speed,
                wall_ms: u64::try_from(last_us / 1000).unwrap_or(0),
                cut_off_at: Some(last_seen(&events)),
                events,
                outcome,
                lateness: Vec::new(),
                difference: None,
                problems: Vec::new(),
                remarks: Vec::new(),
                evidence: None,
                explanation: None,
            }
        }
    }
}

/// The evidence in a file, if there is one.
fn evidence(path: &Path) -> Result<Option<StoredEvidence<Evidence, Option<Explanation>>>, Failure> {
    let Some(bytes) = bytes_if_any(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| unreadable(path, error))
}

/// The attempts that were begun; a line that was cut off is left out.
fn begun(path: &Path) -> Result<Vec<Begun>, Failure> {
    let bytes = bytes_if_any(&path.join(file::ATTEMPTS))?.unwrap_or_default();
    Ok(bytes.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use scenarios::{Event, EventKind, Tick, WorkerId, catalogue};

    use super::*;
    use crate::runs::RunDir;

    #[test]
    fn an_attempt_that_was_moved_aside_before_the_next_one_began_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = RunDir::at(&folder.path().join("run"), catalogue::get("ignored-signal").unwrap()).unwrap();
        let mut writer = run.begin_attempt(Some(10.0)).unwrap();
        let event = Event { t: Tick(0), kind: EventKind::WorkerStarted { worker: WorkerId::FIRST } };
        writer.append(&Observed { event, at_us: 3, late_us: 3, pid: Some(2), note: None }).unwrap();
        drop(writer);
        let path = run.path().to_owned();
        fs::rename(path.join("observed.jsonl"), path.join("observed-1.jsonl")).unwrap();
        let attempts = crate::runs::read(&path).unwrap().record.attempts;
        assert_eq!(attempts.iter().map(|attempt| attempt.events.len()).collect::<Vec<_>>(), [1]);
        assert!(run.break_off().is_some() && path.join("observed-1.jsonl").exists());
    }
}
