//! Reads a plain, gzip or zstd file line by line in bounded memory. The first bytes determine the format.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The longest line that is accepted. It bounds memory for a file without line ends.
pub(crate) const LONGEST_LINE: usize = 64 << 20;

/// Some editors put this before UTF-8 text. It is not part of the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub(crate) struct LineReader {
    input: Box<dyn BufRead>,
    compressed: bool,
    line: u64,
    offset: u64,
    begin: u64,
}

impl LineReader {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if path.is_dir() {
            return Err(io::Error::other("it is a directory"));
        }
        let mut file = BufReader::with_capacity(1 << 18, File::open(path)?);
        let magic = file.fill_buf()?;
        let (input, compressed): (Box<dyn BufRead>, bool) = if magic.starts_with(&[0x1f, 0x8b]) {
            (Box::new(BufReader::with_capacity(1 << 18, flate2::bufread::MultiGzDecoder::new(file))), true)
        } else if magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(file)?;
            decoder.window_log_max(31)?;
            (Box::new(BufReader::with_capacity(1 << 18, decoder)), true)
        } else {
            (Box::new(file), false)
        };
        Ok(Self { input, compressed, line: 0, offset: 0, begin: 0 })
    }

    /// Whether the file is compressed. Offsets then count uncompressed bytes.
    pub(crate) fn compressed(&self) -> bool {
        self.compressed
    }

    /// Number of the last line read, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// Offset of the last line read, in uncompressed bytes.
    pub(crate) fn begin(&self) -> u64 {
        self.begin
    }

    /// Replaces `line` with the next line, without its line end. Returns false at the end of the file.
    pub(crate) fn next(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        self.begin = self.offset;
        self.line += 1;
        let limit = LONGEST_LINE as u64 + 2;
        let read = (&mut self.input).take(limit).read_until(b'\n', line)? as u64;
        self.offset += read;
        if read == limit && line.last() != Some(&b'\n') {
            return Err(io::Error::other("the line is longer than 64 MiB; one line holds one document"));
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if self.line == 1 && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
            self.begin += BYTE_ORDER_MARK.len() as u64;
        }
        Ok(read > 0)
    }
}
