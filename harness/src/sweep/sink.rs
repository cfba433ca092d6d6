//! Where rows go: a file or standard output, a portion at a time.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
};

use crate::{
    failure::{Failure, plain_io},
    report::write_stdout,
};

/// What stands for standard output.
pub(super) const STDOUT: &str = "-";

const PORTION: usize = 64 * 1024;

/// A file or standard output, and what was not written yet.
pub(super) struct Sink {
    file: Option<(File, PathBuf)>,
    waiting: Vec<u8>,
}

impl Sink {
    /// Standard output where `path` is `-`; otherwise the file, which is made or emptied.
    pub(super) fn open(path: &Path) -> Result<Sink, Failure> {
        if path == Path::new(STDOUT) {
            return Ok(Sink::stdout());
        }
        let file = File::create(path).map_err(|error| unwritable(path, &error))?;
        Ok(Sink { file: Some((file, path.to_owned())), waiting: Vec::new() })
    }

    pub(super) fn stdout() -> Sink {
        Sink { file: None, waiting: Vec::new() }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= PORTION { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        match &mut self.file {
            Some((file, path)) => file.write_all(&self.waiting).map_err(|error| unwritable(path, &error))?,
            None => write_stdout(&self.waiting)?,
        }
        self.waiting.clear();
        Ok(())
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::unable(format!("can't write {}: {}", path.display(), plain_io(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_written_is_said_with_its_path() {
        let Err(failure) = Sink::open(Path::new("/nowhere/at/all.csv")) else { panic!("it was opened") };
        assert_eq!(failure.what, "can't write /nowhere/at/all.csv: no such file or directory");
        let mut full = Sink::open(Path::new("/dev/full")).unwrap();
        assert_eq!(full.write(b"a"), Ok(()));
        assert_eq!(full.flush().unwrap_err().what, "can't write /dev/full: no space left on device");
        assert_eq!(full.write(&[b'a'; PORTION]).unwrap_err().exit_code, 3);
    }

    #[test]
    fn everything_arrives_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        let mut sink = Sink::open(&path).unwrap();
        let expected: String = (0..40_000).map(|row| format!("{row}\n")).collect();
        for row in expected.split_inclusive('\n') {
            sink.write(row.as_bytes()).unwrap();
        }
        sink.flush().unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), expected);
    }
}
