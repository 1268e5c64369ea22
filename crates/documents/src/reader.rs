//! Reads a plain, gzip or zstd file line by line in bounded memory. The first bytes determine the format.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::foreign::foreign;
use crate::unpack::{Packing, cut_off, unpacked};

/// The longest line that is accepted. It bounds memory for a file without line ends.
pub(crate) const LONGEST_LINE: usize = 64 << 20;

/// Bytes at the beginning by which formats are told apart.
const HEAD_BYTES: u64 = 1 << 10;

/// Some editors put this before UTF-8 text. It is not part of the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub(crate) struct LineReader {
    input: BufReader<Box<dyn Read + Send>>,
    compressed: bool,
    /// Why nothing can be read.
    fault: Option<io::Error>,
    line: u64,
    offset: u64,
    begin: u64,
}

impl LineReader {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if path.is_dir() {
            return Err(io::Error::other("it is a directory"));
        }
        let mut file = File::open(path)?;
        let mut first = Vec::new();
        (&mut file).take(HEAD_BYTES).read_to_end(&mut first)?;
        let packing = Packing::of_magic(&first);
        let (name, compressed) = (path.to_string_lossy(), packing != Packing::Plain);
        let cut = Packing::is_cut_off(&name, &first).then(|| cut_off("", Packing::of_name(&name)).to_string());
        let fault = cut.or_else(|| foreign(&first).map(str::to_owned)).map(io::Error::other);
        let input = unpacked(io::Cursor::new(first).chain(file), packing, "")?;
        let mut input = BufReader::with_capacity(1 << 18, input);
        let fault = fault.or_else(|| {
            // Damage at once is reported when it is read.
            let unpacked = if compressed { input.fill_buf().unwrap_or_default() } else { &[] };
            foreign(unpacked).map(io::Error::other)
        });
        Ok(Self { input, compressed, fault, line: 0, offset: 0, begin: 0 })
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
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
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
