//! Row groups of Parquet files: a record for each row, by the type rules of `docs/moving-data.md`.

use std::fs::File;
use std::path::Path;
use std::task::{Context, Poll};

use arrow_json::WriterBuilder;
use arrow_json::writer::LineDelimited;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::{Reader, Room, Unreadable};
use crate::error::TransferError;
use crate::records::{Origin, Records};
use crate::shape::Maker;

/// Rows that are turned into documents at once.
const ROWS: usize = 1_024;

/// Row groups of a file: bytes of each.
pub(super) fn row_groups(path: &Path) -> Result<Vec<u64>, TransferError> {
    let reader = open(path)?;
    Ok(reader.metadata().row_groups().iter().map(|group| group.compressed_size().max(0) as u64).collect())
}

fn open(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>, TransferError> {
    let broken = |e: String| TransferError::BadInput(format!("{} is no whole Parquet file: {e}", path.display()));
    let file = File::open(path).map_err(|e| TransferError::read(&path.display().to_string(), &e))?;
    ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| broken(e.to_string()))
}

pub(super) struct ParquetReader<'a> {
    batches: ParquetRecordBatchReader,
    lines: Vec<u8>,
    at: usize,
    row: u64,
    maker: Maker<'a>,
    file: u32,
    /// Rows of the groups before this one.
    before: u64,
    name: String,
    bytes: u64,
}

impl<'a> ParquetReader<'a> {
    pub(super) fn new(path: &Path, group: u32, maker: Maker<'a>, file: u32) -> Result<Self, TransferError> {
        let reader = open(path)?;
        let groups = reader.metadata().row_groups();
        let before = groups.iter().take(group as usize).map(|group| group.num_rows().max(0) as u64).sum();
        let name = path.display().to_string();
        let batches = reader
            .with_row_groups(vec![group as usize])
            .with_batch_size(ROWS)
            .build()
            .map_err(|e| TransferError::Source(format!("{name}, row group {group}: {e}")))?;
        Ok(Self { batches, lines: Vec::new(), at: 0, row: 0, maker, file, before, name, bytes: 0 })
    }

    /// Turns the next rows into lines of JSON; false at the end.
    fn fill(&mut self) -> Result<bool, TransferError> {
        let broken = |what: String| {
            TransferError::Source(format!("{}, behind row {}: {what}", self.name, self.before + self.row))
        };
        let Some(batch) = self.batches.next() else { return Ok(false) };
        let batch = batch.map_err(|e| broken(e.to_string()))?;
        self.lines.clear();
        self.at = 0;
        let mut writer = WriterBuilder::new().build::<_, LineDelimited>(&mut self.lines);
        let written = writer.write(&batch).and_then(|()| writer.finish());
        written.map_err(|e| broken(e.to_string()))?;
        self.bytes += self.lines.len() as u64;
        Ok(true)
    }
}

impl Reader for ParquetReader<'_> {
    fn poll_read(
        &mut self,
        _: &mut Context<'_>,
        room: Room,
        into: &mut Records,
        bad: &mut Vec<Unreadable>,
    ) -> Poll<Result<bool, TransferError>> {
        while into.has_room(room) {
            if self.at >= self.lines.len() {
                match self.fill() {
                    Ok(true) => continue,
                    Ok(false) => return Poll::Ready(Ok(false)),
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            let rest = &self.lines[self.at..];
            let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let origin = Origin { unit: self.file, at: self.before + self.row };
            let json = String::from_utf8_lossy(&rest[..length]);
            if let Err(why) = self.maker.text(&json, origin, into) {
                bad.push(Unreadable { origin, key: None, why, text: json.into_owned(), exact: true });
            }
            self.at += length + 1;
            self.row += 1;
        }
        Poll::Ready(Ok(true))
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
