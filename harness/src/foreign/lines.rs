//! The result store in its other form: a file that foreign workers append a line to for each commit.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use scenarios::{RequestId, wire::StoredResult};
use worker::store::Row;

use crate::failure::Failure;

/// Creates an empty one at `path`, where nothing may be yet.
///
/// # Errors
/// There is something already, or nothing can be written there.
pub fn create(path: &Path) -> io::Result<()> {
    File::create_new(path).map(|_| ())
}

/// What a file holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// The committed results, in the order of the lines. A request may have several: nothing keeps a worker from it.
    pub rows: Vec<Row>,
    /// The beginning of a line whose end is missing: its worker died while it wrote, and has committed nothing.
    pub cut: Option<String>,
}

/// Reads what was committed.
///
/// # Errors
/// The file can't be read, or a line of it is not a result.
pub fn read(path: &Path) -> Result<Lines, Failure> {
    let text = fs::read(path).map_err(|error| Failure::of_io("read", path, &error))?;
    parse(&String::from_utf8_lossy(&text)).map_err(|problem| {
        Failure::unable(format!("{}: {problem}", path.display()))
            .hint("a foreign worker writes one JSON object a line there; docs/worker-contract.md says which")
    })
}

fn parse(text: &str) -> Result<Lines, String> {
    let (whole, cut) = match text.rsplit_once('\n') {
        Some((whole, cut)) => (whole, cut),
        None => ("", text),
    };
    let rows = whole.lines().enumerate().filter(|(_, line)| !line.is_empty()).map(|(index, line)| {
        let result: StoredResult =
            serde_json::from_str(line).map_err(|error| format!("line {} is not a result: {error}", index + 1))?;
        let StoredResult { request, worker, pid, addends, sum, committed_us } = result;
        Ok(Row { request: RequestId(request), worker, pid, addends, sum, committed_us })
    });
    Ok(Lines { rows: rows.collect::<Result<_, String>>()?, cut: Some(cut.to_owned()).filter(|cut| !cut.is_empty()) })
}

#[cfg(test)]
mod tests {
    use scenarios::WorkerId;

    use super::*;

    const LINE: &str = r#"{"request":3,"worker":"worker-1","pid":1,"addends":[3,1,2],"sum":6,"committed_us":17}"#;

    fn row() -> Row {
        Row { request: RequestId(3), worker: WorkerId(1), pid: 1, addends: vec![3, 1, 2], sum: 6, committed_us: 17 }
    }

    #[test]
    fn whole_lines_are_commits_and_the_last_one_may_be_cut() {
        for (text, rows, cut) in [
            (String::new(), 0, None),
            (format!("{LINE}\n"), 1, None),
            (format!("{LINE}\n{LINE}\n"), 2, None),
            (format!("{LINE}\n{{\"request\":4"), 1, Some("{\"request\":4".to_owned())),
            (LINE.to_owned(), 0, Some(LINE.to_owned())),
        ] {
            let lines = parse(&text).unwrap();
            assert_eq!(lines, Lines { rows: vec![row(); rows], cut }, "{text}");
        }
    }

    #[test]
    fn anything_else_is_an_error_that_names_the_line() {
        for (text, problem) in [
            (format!("{LINE}\nhello\n"), "line 2 is not a result"),
            (LINE.replace("worker-1", "me") + "\n", "line 1 is not a result"),
            (LINE.replace("\"pid\"", "\"who\"") + "\n", "unknown field `who`"),
            (LINE.replace(":6", ":-6") + "\n", "line 1 is not a result"),
        ] {
            assert!(parse(&text).unwrap_err().contains(problem), "{text}");
        }
    }
}
