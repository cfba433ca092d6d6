//! Cuts a byte stream into lines, however its chunks happen to be cut.

use bytes::{Bytes, BytesMut};

/// The longest line of an answer in bytes, without its newline. Honest lines have about a hundred.
pub(super) const MAX_LINE_BYTES: usize = 8 * 1024;

/// A line that has more than [`MAX_LINE_BYTES`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// What has arrived and was not taken yet.
#[derive(Debug, Default)]
pub(super) struct Lines {
    buffer: BytesMut,
    /// How much of the buffer is known to hold no newline.
    searched: usize,
}

impl Lines {
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next whole line without its newline, or `None` until more has arrived. There is no going on after a line
    /// that is too long.
    pub(super) fn pop(&mut self) -> Option<Result<Bytes, TooLong>> {
        let newline = self.buffer[self.searched..].iter().position(|&byte| byte == b'\n');
        let length = newline.map_or(self.buffer.len(), |at| self.searched + at);
        if length > MAX_LINE_BYTES {
            return Some(Err(TooLong));
        }
        if newline.is_none() {
            self.searched = length;
            return None;
        }
        self.searched = 0;
        let mut line = self.buffer.split_to(length + 1);
        line.truncate(length);
        Some(Ok(line.freeze()))
    }

    /// What has arrived of a line that is not whole yet, once [`Lines::pop`] has given `None`.
    pub(super) fn rest(&self) -> &[u8] {
        &self.buffer
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pushes `chunks` one by one and takes what there is after each.
    fn split(chunks: &[&[u8]]) -> (Vec<Result<Bytes, TooLong>>, Vec<u8>) {
        let (mut lines, mut popped) = (Lines::default(), Vec::new());
        for chunk in chunks {
            lines.push(chunk);
            while let Some(line) = lines.pop() {
                let broken = line.is_err();
                popped.push(line);
                if broken {
                    return (popped, Vec::new());
                }
            }
        }
        (popped, lines.rest().to_vec())
    }

    /// What the lines of `text` are, cut in the simplest way there is.
    fn expected(text: &[u8]) -> (Vec<Result<Bytes, TooLong>>, Vec<u8>) {
        let mut parts: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
        if let Some(broken) = parts.iter().position(|part| part.len() > MAX_LINE_BYTES) {
            let whole = parts[..broken].iter().map(|part| Ok(Bytes::copy_from_slice(part)));
            return (whole.chain([Err(TooLong)]).collect(), Vec::new());
        }
        let rest = parts.pop().unwrap_or_default().to_vec();
        (parts.into_iter().map(|part| Ok(Bytes::copy_from_slice(part))).collect(), rest)
    }

    #[test]
    fn a_line_of_the_greatest_length_passes_and_one_more_byte_does_not() {
        let longest = [&[b'x'; MAX_LINE_BYTES][..], b"\n"].concat();
        assert_eq!(split(&[&longest]).0, [Ok(Bytes::copy_from_slice(&longest[..MAX_LINE_BYTES]))]);
        assert_eq!(split(&[b"x", &longest]).0, [Err(TooLong)]);
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(
            // Few distinct bytes, so that there are many newlines; a stretch of filler makes some lines too long.
            head in prop::collection::vec(prop::sample::select(&b"ab\r\n\n"[..]), 0..200),
            filler in prop::sample::select(vec![0, 0, MAX_LINE_BYTES - 3, MAX_LINE_BYTES + 3]),
            tail in prop::collection::vec(prop::sample::select(&b"ab\n"[..]), 0..20),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let text = [head, vec![b'x'; filler], tail].concat();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
            prop_assert_eq!(split(&chunks), expected(&text));
        }
    }
}
