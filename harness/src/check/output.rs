//! What the command writes to its standard output and error: all of it is read, so that it never has to wait for us, and
//! the end of it is kept.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, PipeReader, Read, Write},
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::{Errno, ioctl_fionbio, ioctl_fionread},
};

/// How much of the end is kept, in bytes.
const KEPT_BYTES: usize = 256 * 1024;
/// How much is written to a file at most, in bytes.
const FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The output of a command, while it comes in and afterwards.
#[derive(Clone, Debug)]
pub struct Output {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug)]
struct Kept {
    reader: PipeReader,
    file: Option<File>,
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
        let (output, writer) = Output::piped(file)?;
        let shared = output.clone();
        let readable = output.kept().reader.try_clone()?;
        thread::Builder::new().name("output".to_owned()).spawn(move || shared.follow(&readable))?;
        Ok((output, File::from(OwnedFd::from(writer))))
    }

    fn piped(file: Option<File>) -> io::Result<(Output, io::PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        // Of this end alone: the command's is an open file of its own (pipe(7)).
        ioctl_fionbio(&reader, true)?;
        let kept = Kept { reader, file, end: VecDeque::new(), total_bytes: 0 };
        Ok((Output { kept: Arc::new(Mutex::new(kept)) }, writer))
    }

    /// Reads what comes in until its end.
    fn follow(&self, readable: &PipeReader) {
        loop {
            match poll(&mut [PollFd::new(readable, PollFlags::IN)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            match self.kept().read() {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => return,
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much there was of it until now, in bytes, and what is kept of that, from the beginning of a line on.
    ///
    /// All that was written by now is in it: what is still in the pipe is read first.
    #[must_use]
    pub fn so_far(&self) -> (u64, String) {
        let mut kept = self.kept();
        kept.catch_up();
        let cut = kept.total_bytes > kept.end.len() as u64;
        let bytes: &[u8] = kept.end.make_contiguous();
        let start = bytes.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let text = String::from_utf8_lossy(if cut { &bytes[start..] } else { bytes }).into_owned();
        (kept.total_bytes, text)
    }
}

impl Kept {
    /// Reads what is in the pipe at this moment, and no more: someone may go on writing.
    fn catch_up(&mut self) {
        let mut left = ioctl_fionread(&self.reader).unwrap_or(0);
        while left > 0 {
            match self.read() {
                Ok(count) if count > 0 => left = left.saturating_sub(count as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    }

    /// Reads some of what is there, and tells how much; 0 is the end.
    fn read(&mut self) -> io::Result<usize> {
        let mut portion = [0; 64 * 1024];
        let count = self.reader.read(&mut portion)?;
        let bytes = &portion[..count];
        // A disk that is full loses the file, and not the command.
        if self.total_bytes >= FILE_BYTES || self.file.as_mut().is_some_and(|file| file.write_all(bytes).is_err()) {
            self.file = None;
        }
        self.add(bytes);
        Ok(count)
    }

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
        let (output, mut writer) = Output::capture(None).unwrap();
        let mut flood = Vec::new();
        for number in 0..200_000 {
            writeln!(flood, "line {number}").unwrap();
        }
        writer.write_all(&flood).unwrap();
        let (total_bytes, text) = output.so_far();
        assert_eq!(total_bytes, flood.len() as u64);
        assert!(text.len() <= KEPT_BYTES && text.len() > KEPT_BYTES - 20);
        assert!(text.starts_with("line ") && text.ends_with("line 199999\n"));
    }

    /// Nothing of it is lost, however soon it is looked at and whoever holds the pipe.
    #[test]
    fn what_was_written_last_is_there() {
        for attempt in 0..200 {
            let (output, mut writer) = Output::capture(None).unwrap();
            writer.write_all(b"a\nb").unwrap();
            assert_eq!(output.so_far(), (3, "a\nb".to_owned()), "{attempt}");
        }
        // With nobody who follows it.
        let (output, mut writer) = Output::piped(None).unwrap();
        assert_eq!(output.so_far(), (0, String::new()));
        writer.write_all(&[b'x'; 60_000]).unwrap();
        assert_eq!(output.so_far().0, 60_000);
        drop(writer);
        assert_eq!(output.so_far().0, 60_000);
    }

    #[test]
    fn its_beginning_is_in_the_file_too() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (output, mut writer) = Output::capture(Some(file.reopen().unwrap())).unwrap();
        writer.write_all(b"a\nb").unwrap();
        assert_eq!(output.so_far().0, 3);
        assert_eq!(std::fs::read(file.path()).unwrap(), b"a\nb");
    }
}
