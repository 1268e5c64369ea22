//! Reads a log line by line, plain or compressed.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::{Error, Finds};

/// Opens a file; gzip and zstd are recognized by their first bytes.
pub(crate) fn open(file: &Path) -> Result<Box<dyn BufRead>, Error> {
    let wrong = |e: std::io::Error| Error(format!("{}: cannot be read: {e}; check the path", file.display()));
    let mut plain = BufReader::with_capacity(1 << 18, File::open(file).map_err(wrong)?);
    let begin = plain.fill_buf().map_err(wrong)?;
    Ok(if begin.starts_with(&[0x1f, 0x8b]) {
        Box::new(BufReader::with_capacity(1 << 18, flate2::bufread::MultiGzDecoder::new(plain)))
    } else if begin.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Box::new(BufReader::with_capacity(1 << 18, zstd::stream::read::Decoder::with_buffer(plain).map_err(wrong)?))
    } else {
        Box::new(plain)
    })
}

/// Calls `each` with every line, without its end.
pub(crate) fn each(
    file: &Path,
    finds: &mut Finds,
    mut each: impl FnMut(&[u8], &mut Finds) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut input = open(file)?;
    let mut line = Vec::new();
    loop {
        line.clear();
        finds.line += 1;
        let read = input.read_until(b'\n', &mut line).map_err(|e| finds.wrong(&format!("cannot be read: {e}")))?;
        if read == 0 {
            return Ok(());
        }
        while matches!(line.last(), Some(b'\n' | b'\r')) {
            line.pop();
        }
        each(&line, finds)?;
    }
}
