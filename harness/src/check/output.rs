//! What the command writes to its standard output and error: all of it is read, so that it never has to wait for us, and
//! the end of it is kept.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read, Write},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

/// How much of the end is kept, in bytes.
const KEPT_BYTES: usize = 256 * 1024;
/// How much is written to a file at most, in bytes.
const FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The output of a command, while it comes in and afterwards.
#[derive(Clone, Debug, Default)]
pub struct Output {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    end: VecDeque<u8>,
    total_bytes: u64,
}

impl Output {
    /// Makes a pipe for it, and gives the end that the command writes to. The beginning of the output goes to `file`, if
    /// there is one.
    ///
    /// Nobody waits for the end of the output: an orphan may hold the pipe for as long as it lives.
    ///
    /// # Errors
    /// There can be no pipe or no thread.
    pub fn capture(file: Option<File>) -> io::Result<(Output, File)> {
        let (reader, writer) = io::pipe()?;
        let output = Output::default();
        let shared = output.clone();
        thread::Builder::new().name("output".to_owned()).spawn(move || shared.read(reader, file))?;
        Ok((output, File::from(std::os::fd::OwnedFd::from(writer))))
    }

    fn read(&self, mut reader: impl Read, mut file: Option<File>) {
        let mut portion = [0; 64 * 1024];
        loop {
            let count = match reader.read(&mut portion) {
                Ok(0) => return,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            let bytes = &portion[..count];
            let written = {
                let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                let before = kept.total_bytes;
                kept.add(bytes);
                before
            };
            // A disk that is full loses the file, and not the command.
            if written >= FILE_BYTES || file.as_mut().is_some_and(|file| file.write_all(bytes).is_err()) {
                file = None;
            }
        }
    }

    /// How much there was of it, in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).total_bytes
    }

    /// What is kept of it, from the beginning of a line on.
    #[must_use]
    pub fn text(&self) -> String {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let cut = kept.total_bytes > kept.end.len() as u64;
        let bytes: &[u8] = kept.end.make_contiguous();
        let start = bytes.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        String::from_utf8_lossy(if cut { &bytes[start..] } else { bytes }).into_owned()
    }
}

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        let bytes = &bytes[bytes.len().saturating_sub(KEPT_BYTES)..];
        let excess = (self.end.len() + bytes.len()).saturating_sub(KEPT_BYTES);
        self.end.drain(..excess);
        self.end.extend(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_flood_is_kept() {
        let output = Output::default();
        let mut flood = Vec::new();
        for number in 0..200_000 {
            writeln!(flood, "line {number}").unwrap();
        }
        output.read(&flood[..], None);
        assert_eq!(output.total_bytes(), flood.len() as u64);
        let text = output.text();
        assert!(text.len() <= KEPT_BYTES && text.len() > KEPT_BYTES - 20);
        assert!(text.starts_with("line ") && text.ends_with("line 199999\n"));
    }

    #[test]
    fn a_little_is_kept_whole() {
        let output = Output::default();
        output.read(&b"a\nb"[..], None);
        assert_eq!((output.text(), output.total_bytes()), ("a\nb".to_owned(), 3));
    }
}
