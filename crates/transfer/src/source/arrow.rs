//! Arrow IPC: files, whose batches can be read by several workers, and streams.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use arrow_ipc::reader::{FileReader, StreamReader};

use super::batches::BatchReader;
use crate::error::TransferError;
use crate::shape::Maker;

/// What a file begins with. A stream does not.
const MAGIC: &[u8] = b"ARROW1";
/// Parts of one file, at most.
const MOST_PARTS: usize = 1_024;

/// Parts of a file: none where it is a stream, which has but one.
pub(super) fn parts(path: &Path) -> Result<Option<u32>, TransferError> {
    let name = path.display().to_string();
    let mut first = Vec::new();
    let file = File::open(path).map_err(|e| TransferError::read(&name, &e))?;
    file.take(MAGIC.len() as u64).read_to_end(&mut first).map_err(|e| TransferError::read(&name, &e))?;
    if first != MAGIC {
        return Ok(None);
    }
    let batches = open(path)?.num_batches();
    Ok(Some(batches.div_ceil(each(batches)) as u32))
}

/// Batches of one part.
fn each(batches: usize) -> usize {
    batches.div_ceil(MOST_PARTS).max(1)
}

fn open(path: &Path) -> Result<FileReader<BufReader<File>>, TransferError> {
    let broken = |e: String| TransferError::BadInput(format!("{} is no whole Arrow file: {e}", path.display()));
    let file = File::open(path).map_err(|e| TransferError::read(&path.display().to_string(), &e))?;
    FileReader::try_new_buffered(file, None).map_err(|e| broken(e.to_string()))
}

/// Reads a part of a file.
pub(super) fn read<'a>(path: &Path, part: u32, maker: Maker<'a>, file: u32) -> Result<BatchReader<'a>, TransferError> {
    let mut reader = open(path)?;
    let each = each(reader.num_batches());
    let first = part as usize * each;
    let name = path.display().to_string();
    reader.set_index(first).map_err(|e| TransferError::Source(format!("{name}, batch {first}: {e}")))?;
    let batches = reader.take(each).map(|batch| batch.map_err(|e| e.to_string()));
    Ok(BatchReader::new(Box::new(batches), maker, file, name, first_row(part)))
}

/// Reads a stream.
pub(super) fn read_stream<'a>(
    input: Box<dyn Read + Send>,
    maker: Maker<'a>,
    file: u32,
    name: String,
) -> Result<BatchReader<'a>, TransferError> {
    let broken = |e: String| TransferError::BadInput(format!("{name} is no Arrow stream: {e}"));
    let reader = StreamReader::try_new_buffered(input, None).map_err(|e| broken(e.to_string()))?;
    let batches = reader.map(|batch| batch.map_err(|e| e.to_string()));
    Ok(BatchReader::new(Box::new(batches), maker, file, name, 0))
}

/// Rows of earlier parts are not counted, for that means reading them: the number of a row within its part,
/// behind the part's.
fn first_row(part: u32) -> u64 {
    u64::from(part) << 32
}

/// Where a row is, for people.
pub(super) fn place(name: &str, at: u64) -> String {
    let (part, row) = (at >> 32, at & u64::from(u32::MAX));
    if part == 0 { format!("{name}, row {}", row + 1) } else { format!("{name}, part {}, row {}", part + 1, row + 1) }
}
