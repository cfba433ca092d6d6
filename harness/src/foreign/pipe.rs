//! The named pipe that foreign workers may speak by in place of the notify socket: one for each worker.

use std::{cell::RefCell, fs, io, path::Path};

use nix::{sys::stat::Mode, unistd::mkfifo};
use tokio::net::unix::pipe::{OpenOptions, Receiver};

/// The reading end of a named pipe.
#[derive(Debug)]
pub struct NotifyPipe {
    receiver: Receiver,
    /// What was read and is not a whole message yet.
    rest: RefCell<Vec<u8>>,
}

/// A message: what is between two empty lines.
pub type Message = Vec<u8>;

impl NotifyPipe {
    /// Makes it at `path`; what is there is replaced.
    ///
    /// # Errors
    /// No pipe can be made there.
    pub fn open(path: &Path) -> io::Result<NotifyPipe> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?,
        }
        // For both, so that it is never at its end and writers never wait for us (fifo(7)).
        let receiver = OpenOptions::new().read_write(true).open_receiver(path)?;
        Ok(NotifyPipe { receiver, rest: RefCell::default() })
    }

    /// The next message, if there is one already.
    #[must_use]
    pub fn try_next(&self) -> Option<Message> {
        let mut portion = [0; 4096];
        loop {
            if let Some(message) = take(&mut self.rest.borrow_mut()) {
                return Some(message);
            }
            match self.receiver.try_read(&mut portion) {
                Ok(length) if length > 0 => self.rest.borrow_mut().extend_from_slice(&portion[..length]),
                _ => return None,
            }
        }
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// Of receiving.
    pub async fn next(&self) -> io::Result<Message> {
        loop {
            if let Some(message) = self.try_next() {
                return Ok(message);
            }
            self.receiver.readable().await?;
        }
    }
}

/// The most that is kept of a message that does not end.
const MAX_MESSAGE: usize = 64 * 1024;

fn take(bytes: &mut Vec<u8>) -> Option<Message> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\n\n") else {
        if bytes.len() > MAX_MESSAGE {
            bytes.clear();
        }
        return None;
    };
    let message = bytes[..=end].to_vec();
    bytes.drain(..end + 2);
    Some(message)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn messages_are_told_apart_by_empty_lines() {
        let mut bytes = b"READY=1\nMONOTONIC_USEC=7\n\nSTOPPING=1\n\nSTAT".to_vec();
        assert_eq!(take(&mut bytes).as_deref(), Some(&b"READY=1\nMONOTONIC_USEC=7\n"[..]));
        assert_eq!(take(&mut bytes).as_deref(), Some(&b"STOPPING=1\n"[..]));
        assert_eq!(take(&mut bytes), None);
        assert_eq!(bytes, b"STAT");
        let mut endless = vec![b'x'; MAX_MESSAGE + 1];
        assert_eq!((take(&mut endless), endless.len()), (None, 0));
    }

    #[test]
    fn what_is_written_comes_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(async {
            let pipe = NotifyPipe::open(&path).unwrap();
            assert_eq!(pipe.try_next(), None);
            // One writer after another, as a shell's redirection does it.
            for text in ["READY=1\n\n", "STOPPING=1\n\n"] {
                fs::File::options().append(true).open(&path).unwrap().write_all(text.as_bytes()).unwrap();
            }
            assert_eq!(pipe.next().await.unwrap(), b"READY=1\n");
            assert_eq!(pipe.try_next().unwrap(), b"STOPPING=1\n");
            assert_eq!(pipe.try_next(), None);
        });
        tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(async {
            // What was said to an earlier one is gone.
            assert_eq!(NotifyPipe::open(&path).unwrap().try_next(), None);
            assert!(NotifyPipe::open(&folder.path().join("no/where")).is_err());
        });
    }
}
