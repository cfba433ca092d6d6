//! A stored trace: JSON Lines with a header, the events and the outcome.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{Event, Outcome, Scenario};

/// What the first line of every stored trace says it is.
pub const FORMAT: &str = "termdrill-trace";
/// The version of the format that this program writes and reads.
pub const VERSION: u32 = 1;

/// Where a trace comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The model expects it.
    Model,
    /// Processes did it.
    Processes,
}

/// A whole trace: what was drilled, what happened, what came of it. `E` is what is known of each event: [`Event`] in
/// a trace of the model; observed traces carry more.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace<E = Event> {
    /// Where it comes from.
    pub source: Source,
    /// What was drilled.
    pub scenario: Scenario,
    /// What happened, in trace order.
    pub events: Vec<E>,
    /// What came of it; absent where the recording broke off.
    pub outcome: Option<Outcome>,
}

/// Why a stored trace can't be read.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The file could not be read.
    #[error("the trace can't be read")]
    Io(#[from] io::Error),
    /// A line is not what it should be.
    #[error("line {line} of the trace: {problem}")]
    Line {
        /// Its number from 1 on.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Header<S> {
    format: String,
    version: u32,
    source: Source,
    scenario: S,
}

#[derive(Serialize, Deserialize)]
struct Closing<O> {
    outcome: O,
}

/// Writes the first line of a trace.
///
/// # Errors
/// What the writer says.
pub fn write_header(out: &mut impl Write, source: Source, scenario: &Scenario) -> io::Result<()> {
    write_line(out, &Header { format: FORMAT.to_owned(), version: VERSION, source, scenario })
}

/// Writes one event.
///
/// # Errors
/// What the writer says.
pub fn write_event(out: &mut impl Write, event: &impl Serialize) -> io::Result<()> {
    write_line(out, event)
}

/// Writes the last line of a trace.
///
/// # Errors
/// What the writer says.
pub fn write_outcome(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    write_line(out, &Closing { outcome })
}

fn write_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    out.write_all(&line)
}

impl<E: Serialize + for<'de> Deserialize<'de>> Trace<E> {
    /// Writes the whole trace.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        write_header(out, self.source, &self.scenario)?;
        for event in &self.events {
            write_event(out, event)?;
        }
        match &self.outcome {
            Some(outcome) => write_outcome(out, outcome),
            None => Ok(()),
        }
    }

    /// Reads a whole trace. A last line that was cut off in the middle of writing is left out, so that what a crash
    /// left behind can be read.
    ///
    /// # Errors
    /// The reader's, or the first line that is not what it should be.
    pub fn read(input: impl BufRead) -> Result<Trace<E>, TraceError> {
        // As bytes: a line can be cut off in the middle of a character too.
        let lines: Vec<Vec<u8>> = input.split(b'\n').collect::<io::Result<_>>()?;
        let bad = |index: usize, problem: String| TraceError::Line { line: index + 1, problem };
        let first = lines.first().ok_or_else(|| bad(0, "there is none".to_owned()))?;
        let header: Header<serde_json::Value> =
            serde_json::from_slice(first).map_err(|error| bad(0, format!("not a trace header: {error}")))?;
        if header.format != FORMAT {
            return Err(bad(0, format!("the format is {:?} and not {FORMAT:?}", header.format)));
        }
        if header.version != VERSION {
            return Err(bad(0, format!("version {} can't be read, only {VERSION}", header.version)));
        }
        let scenario = Scenario::from_value(header.scenario).map_err(|error| bad(0, error.to_string()))?;
        let mut trace = Trace { source: header.source, scenario, events: Vec::new(), outcome: None };
        for (index, line) in lines.iter().enumerate().skip(1) {
            if trace.outcome.is_some() {
                return Err(bad(index, "the outcome is not the last line".to_owned()));
            }
            match serde_json::from_slice::<E>(line) {
                Ok(event) => trace.events.push(event),
                Err(error) => match serde_json::from_slice::<Closing<Outcome>>(line) {
                    Ok(closing) => trace.outcome = Some(closing.outcome),
                    Err(_) if index + 1 == lines.len() && error.is_eof() => break,
                    Err(_) => return Err(bad(index, format!("neither an event nor an outcome: {error}"))),
                },
            }
        }
        Ok(trace)
    }
}
