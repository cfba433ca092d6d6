//! Where text goes: the one way to standard output.

use std::io::{self, Write};

use anstream::{AutoStream, ColorChoice};

use crate::failure::{Failure, plain_io};

/// Standard output and what it is to be given.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Whether styles are written: always, never, or as the terminal, `NO_COLOR` and `CLICOLOR_FORCE` say.
    pub colour: ColorChoice,
}

impl Output {
    /// Writes `text`, with its styles or without, and flushes.
    ///
    /// # Errors
    /// As [`write_stdout`].
    pub fn print(self, text: &str) -> Result<(), Failure> {
        let stdout = io::stdout().lock();
        quiet_if_closed(write_all(AutoStream::new(stdout, self.colour), text.as_bytes()))
    }

    /// Writes `text` to standard error, for a person who watches while standard output is for a program.
    ///
    /// # Errors
    /// None: with standard error gone there is nobody to tell.
    pub fn print_error(self, text: &str) -> Result<(), Failure> {
        let _ = write_all(AutoStream::new(io::stderr().lock(), self.colour), text.as_bytes());
        Ok(())
    }
}

/// Writes `bytes` to standard output as they are, and flushes. A reader that has gone away (`| head`) is no error: it
/// has what it wants.
///
/// # Errors
/// Anything else that keeps the output from being written, such as a full disk.
pub fn write_stdout(bytes: &[u8]) -> Result<(), Failure> {
    quiet_if_closed(write_all(io::stdout().lock(), bytes))
}

fn write_all(mut out: impl Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes)?;
    out.flush()
}

/// What came of writing to standard output; a reader that has gone has had enough.
///
/// # Errors
/// As [`write_stdout`].
pub fn quiet_if_closed(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::unable(format!("can't write to standard output: {}", plain_io(&error))))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn a_full_disk_is_an_error_and_a_closed_pipe_is_none() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let failure = quiet_if_closed(write_all(full, b"text")).unwrap_err();
        assert_eq!(failure.what, "can't write to standard output: no space left on device");
        assert_eq!(failure.exit_code, 3);
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        assert_eq!(quiet_if_closed(write_all(writer, b"text")), Ok(()));
    }
}
