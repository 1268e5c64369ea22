//! Reads the lines of a file, of a part of a file, or of a stream.

use std::io::{self, Read};

use super::reader::read_some;

/// Size of one read.
const CHUNK_BYTES: usize = 512 << 10;
/// Longest line accepted as a record, to bound memory.
pub(crate) const LONGEST_LINE_BYTES: usize = 128 << 20;

/// A line, without its line break.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Valid UTF-8.
    Text(&'a str),
    /// Not UTF-8, from this byte of the line on.
    NotText(&'a [u8], usize),
    /// Longer than [`LONGEST_LINE_BYTES`]; contains its first bytes.
    TooLong(&'a [u8]),
}

/// Reads lines. For a part of a file, these are the lines that start in it: a line that crosses its end is read
/// completely, and one that started before it is skipped.
pub(crate) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    /// Start of the part of the buffer that was not returned yet.
    at: usize,
    filled: usize,
    /// End of the part of the buffer that is known to be UTF-8.
    checked: usize,
    /// Offset of the buffer's first byte.
    offset: u64,
    end: u64,
    ended: bool,
    /// Whether to skip the rest of a line that was cut off.
    skips: bool,
    /// Whether the input ended within the last returned line, which then has no line break.
    pub(super) open: bool,
}

impl<R: Read> Lines<R> {
    /// Reads the lines that start from `start` up to, but not including, `end`. `input` must be positioned at `start`,
    /// or one byte before it unless `start` is 0: that byte shows whether a line starts at `start`.
    pub(crate) fn new(input: R, start: u64, end: u64) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            at: 0,
            filled: 0,
            checked: 0,
            offset: start.saturating_sub(1),
            end,
            ended: false,
            skips: start > 0,
            open: false,
        }
    }

    /// The next non-blank line and its offset.
    ///
    /// # Errors
    /// Errors of the input.
    pub(crate) fn next(&mut self) -> io::Result<Option<(u64, Line<'_>)>> {
        loop {
            let offset = self.offset + self.at as u64;
            if !self.skips && offset >= self.end {
                return Ok(None);
            }
            let Some((start, length, whole)) = self.find_end()? else { return Ok(None) };
            if std::mem::replace(&mut self.skips, !whole) {
                continue;
            }
            let mut range = start..start + length;
            if offset == 0 && self.buffer[range.clone()].starts_with(b"\xef\xbb\xbf") {
                range.start += 3;
            }
            if !whole {
                range.end = range.start + 200.min(range.len());
                return Ok(Some((offset, Line::TooLong(&self.buffer[range]))));
            }
            while range.end > range.start && self.buffer[range.end - 1].is_ascii_whitespace() {
                range.end -= 1;
            }
            if range.is_empty() {
                continue;
            }
            let checked = range.end <= self.checked;
            let line = &self.buffer[range];
            let text = if checked {
                // SAFETY: `fill` has verified that everything before `checked` is UTF-8. A line starts and ends next to
                // an ASCII character or at an end of the input, so at character boundaries.
                unsafe { std::str::from_utf8_unchecked(line) }
            } else {
                match std::str::from_utf8(line) {
                    Ok(text) => text,
                    Err(error) => return Ok(Some((offset, Line::NotText(line, error.valid_up_to())))),
                }
            };
            return Ok(Some((offset, Line::Text(text))));
        }
    }

    /// Takes a line from the buffer. Returns its start, its length without the line break, and whether it is complete.
    fn find_end(&mut self) -> io::Result<Option<(usize, usize, bool)>> {
        let mut seen = self.at;
        loop {
            if let Some(length) = memchr::memchr(b'\n', &self.buffer[seen..self.filled]) {
                let start = self.at;
                self.at = seen + length + 1;
                return Ok(Some((start, self.at - 1 - start, true)));
            }
            let pending = self.filled - self.at;
            if self.ended {
                let start = self.at;
                self.at = self.filled;
                self.open = true;
                return Ok((pending > 0).then_some((start, pending, true)));
            }
            if pending > LONGEST_LINE_BYTES {
                let start = self.at;
                self.at = self.filled;
                return Ok(Some((start, pending, false)));
            }
            self.fill()?;
            seen = self.at + pending;
        }
    }

    /// Reads more input, moving pending bytes to the start of the buffer.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.at..self.filled, 0);
        self.offset += self.at as u64;
        self.filled -= self.at;
        self.checked = self.checked.saturating_sub(self.at);
        self.at = 0;
        if self.buffer.len() < self.filled + CHUNK_BYTES {
            self.buffer.resize((self.filled + CHUNK_BYTES).max(self.buffer.len() * 2), 0);
        }
        let read = read_some(&mut self.input, &mut self.buffer[self.filled..])?;
        self.filled += read;
        self.ended = read == 0;
        self.checked = match simdutf8::compat::from_utf8(&self.buffer[self.checked..self.filled]) {
            Ok(_) => self.filled,
            Err(error) => self.checked + error.valid_up_to(),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(text: &[u8], start: u64, end: u64) -> Vec<(u64, String)> {
        let from = start.saturating_sub(1).min(text.len() as u64);
        let mut lines = Lines::new(&text[from as usize..], start, end);
        let mut found = Vec::new();
        while let Some((offset, line)) = lines.next().unwrap() {
            let Line::Text(line) = line else { panic!("{line:?}") };
            found.push((offset, line.to_owned()));
        }
        found
    }

    #[test]
    fn lines_end_in_many_ways() {
        let text = "\u{feff}{}\r\n\n  \n[1]\n\r\nlast".as_bytes();
        let found = all(text, 0, u64::MAX);
        assert_eq!(found, [(0, "{}".into()), (11, "[1]".into()), (17, "last".to_owned())]);
        assert!(all(b"", 0, u64::MAX).is_empty());
    }

    #[test]
    fn what_is_no_text_is_told_and_the_next_line_is_read() {
        let mut lines = Lines::new(&b"ab\xffc\nd\n"[..], 0, u64::MAX);
        assert_eq!(lines.next().unwrap(), Some((0, Line::NotText(b"ab\xffc", 2))));
        assert_eq!(lines.next().unwrap(), Some((5, Line::Text("d"))));
    }

    #[test]
    fn a_line_that_is_too_long_is_left_out() {
        let long = io::repeat(b'x').take(LONGEST_LINE_BYTES as u64 + (3 << 20));
        let mut lines = Lines::new(b"a\n".chain(long).chain(&b"\nb"[..]), 0, u64::MAX);
        assert_eq!(lines.next().unwrap(), Some((0, Line::Text("a"))));
        assert!(matches!(lines.next().unwrap(), Some((2, Line::TooLong(begin))) if begin == [b'x'; 200]));
        assert!(matches!(lines.next().unwrap(), Some((_, Line::Text("b")))));
        assert_eq!(lines.next().unwrap(), None);
    }

    proptest! {
        #[test]
        fn parts_hold_every_line_once(
            lines in prop::collection::vec("[a-zé漢]{0,9}", 0..40),
            cuts in prop::collection::vec(0usize..300, 0..6),
            open in any::<bool>(),
        ) {
            let mut text = lines.join("\n");
            if !open {
                text.push('\n');
            }
            let whole = all(text.as_bytes(), 0, u64::MAX);
            let mut cuts = cuts;
            cuts.sort_unstable();
            let bounds: Vec<u64> = [0].into_iter().chain(cuts.iter().map(|c| *c as u64)).chain([u64::MAX]).collect();
            let parts: Vec<_> = bounds.windows(2).flat_map(|w| all(text.as_bytes(), w[0], w[1])).collect();
            prop_assert_eq!(&parts, &whole);
            let wanted: Vec<&str> = lines.iter().map(String::as_str).filter(|l| !l.is_empty()).collect();
            prop_assert_eq!(whole.iter().map(|(_, l)| l.as_str()).collect::<Vec<_>>(), wanted);
        }
    }
}
