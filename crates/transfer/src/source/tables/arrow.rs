//! Reads Arrow IPC: files, whose batches several workers can read, and streams.

use std::io::{BufReader, Cursor, Read};

use arrow_ipc::reader::{FileReader, StreamReader};
use parquet::file::reader::Length;

use super::arrow_lengths::{Checked, check_file};
use super::batches::{BatchRecords, Marks, ReadBatch, failure};
use super::guard::guard;
use crate::error::TransferError;
use crate::place::{Chunks, InspectedFile, Seekable};

/// Magic bytes at the start of a file. A stream has none.
const MAGIC: &[u8] = b"ARROW1";
/// Most parts of one file.
const MOST_PARTS: usize = 1_024;

/// The parts of a file, as the number of bytes in each; `None` for a stream, which cannot be divided.
pub(super) fn parts(found: &InspectedFile) -> Result<Option<Vec<u64>>, TransferError> {
    let name = found.place.to_string();
    let mut first = Vec::new();
    let input = found.read(0, MAGIC.len() as u64).map_err(|e| TransferError::read(&name, &e))?;
    input.take(MAGIC.len() as u64).read_to_end(&mut first).map_err(|e| TransferError::read(&name, &e))?;
    if first != MAGIC {
        return Ok(None);
    }
    let chunks = found.chunks()?;
    let batches = match open(found, &chunks) {
        Ok(file) => file.num_batches(),
        Err(error) if chunks.failure().is_some() => return Err(error),
        // The footer is missing. The data before it is a valid stream.
        Err(_) => return Ok(None),
    };
    let parts = batches.div_ceil(each(batches));
    Ok(Some(vec![chunks.len() / parts.max(1) as u64; parts]))
}

/// The number of batches in one part.
fn each(batches: usize) -> usize {
    batches.div_ceil(MOST_PARTS).max(1)
}

fn open(found: &InspectedFile, chunks: &Chunks) -> Result<FileReader<BufReader<Seekable>>, TransferError> {
    let broken = |e: String| TransferError::BadInput(format!("{} is not a complete Arrow file: {e}", found.place));
    check_file(chunks, None).map_err(|e| chunks.failure().unwrap_or_else(|| broken(e)))?;
    guard(|| FileReader::try_new_buffered(chunks.seekable(), None))
        .map_err(&broken)?
        .map_err(|e| chunks.failure().unwrap_or_else(|| broken(e.to_string())))
}

/// Reads a part of a file.
pub(super) fn read(found: &InspectedFile, part: u32) -> Result<BatchRecords, TransferError> {
    let chunks = found.chunks()?;
    let mut reader = open(found, &chunks)?;
    let each = each(reader.num_batches());
    let first = part as usize * each;
    let name = found.place.to_string();
    check_file(&chunks, Some(first..first + each)).map_err(|e| {
        chunks.failure().unwrap_or_else(|| TransferError::Damaged(format!("{name}, batch {first}: {e}")))
    })?;
    reader.set_index(first).map_err(|e| TransferError::Damaged(format!("{name}, batch {first}: {e}")))?;
    let marks = Marks::of(&reader.schema(), &name)?;
    let batches =
        reader.take(each).map(move |batch| batch.map(ReadBatch::from).map_err(|e| (chunks.failure(), e.to_string())));
    // Counting the rows of earlier parts would mean reading them, so the part's number is in the upper bits of a row's
    // position, and the row's number within the part in the lower.
    Ok(BatchRecords::new(Box::new(batches), marks, name, u64::from(part) << 32))
}

/// Reads a stream, or a file sequentially.
pub(super) fn read_stream(mut input: Box<dyn Read + Send>, name: String) -> Result<BatchRecords, TransferError> {
    let mut first = Vec::new();
    input.by_ref().take(8).read_to_end(&mut first).map_err(|e| TransferError::read(&name, &e))?;
    let is_file = first.starts_with(MAGIC);
    if is_file {
        // Zeros pad the magic bytes to an aligned offset.
        let mut word = || -> Result<bool, TransferError> {
            first.clear();
            input.by_ref().take(8).read_to_end(&mut first).map_err(|e| TransferError::read(&name, &e))?;
            Ok(first == [0; 8])
        };
        while word()? {}
    }
    let stream: Box<dyn Read + Send> = Box::new(Cursor::new(first).chain(input));
    let broken = |e: String| TransferError::BadInput(format!("{name} is not an Arrow stream: {e}"));
    let reader = guard(|| StreamReader::try_new(Checked::new(BufReader::new(stream)), None)).map_err(broken)?;
    let reader = reader.map_err(|e| failure(&e).unwrap_or_else(|| broken(e.to_string())))?;
    let marks = Marks::of(&reader.schema(), &name)?;
    let batches = Stream { reader, footer: is_file.then(|| name.clone()) };
    Ok(BatchRecords::new(Box::new(batches), marks, name, 0))
}

/// Batches of a stream. For a file, also checks that its end exists.
struct Stream {
    reader: StreamReader<Checked<BufReader<Box<dyn Read + Send>>>>,
    /// The file's name, until its end was checked.
    footer: Option<String>,
}

impl Stream {
    /// Checks for the magic bytes at the end of a complete file.
    fn end(&mut self, name: &str) -> Result<(), (Option<TransferError>, String)> {
        let input = self.reader.get_mut();
        let (mut last, mut piece) = (Vec::new(), [0; 4_096]);
        loop {
            match input.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => last.extend_from_slice(&piece[..read]),
                Err(e) => return Err((Some(TransferError::read(name, &e)), String::new())),
            }
            last.drain(..last.len().saturating_sub(MAGIC.len()));
        }
        if last == MAGIC {
            return Ok(());
        }
        let what = format!("{name}: the Arrow file ends in the middle (truncated?)");
        Err((Some(TransferError::Damaged(what)), String::new()))
    }
}

impl Iterator for Stream {
    type Item = Result<ReadBatch, (Option<TransferError>, String)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.reader.next() {
            Some(batch) => Some(batch.map(ReadBatch::from).map_err(|e| (failure(&e), e.to_string()))),
            None => self.footer.take().and_then(|name| self.end(&name).err()).map(Err),
        }
    }
}

/// The place of a row, for display.
pub(super) fn place(name: &str, at: u64) -> String {
    let (part, row) = (at >> 32, at & u64::from(u32::MAX));
    if part == 0 { format!("{name}, row {}", row + 1) } else { format!("{name}, part {}, row {}", part + 1, row + 1) }
}
