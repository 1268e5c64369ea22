//! Rows of Arrow batches as records, by the type rules of `docs/moving-data.md`: Parquet and Arrow IPC.

use std::sync::Arc;
use std::task::{Context, Poll};

use arrow_array::RecordBatch;
use arrow_json::WriterBuilder;
use arrow_json::writer::LineDelimited;

use super::outside_json::{OutsideJson, is_outside};
use super::{Reader, Room, Unreadable};
use crate::error::TransferError;
use crate::records::{Origin, Records};
use crate::shape::Maker;

/// Rows that are turned into documents at once.
pub(super) const ROWS: usize = 1_024;

/// Batches as they are read. What cannot be read further says why: by an error of the place that the file is at,
/// or in words of the format.
pub(super) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, (Option<TransferError>, String)>>>;

/// Reads rows.
pub(super) struct BatchReader<'a> {
    batches: Batches,
    /// The batch that is handed out, and how many of its rows were.
    batch: Option<(RecordBatch, usize)>,
    lines: String,
    at: usize,
    /// Position of the next row.
    row: u64,
    maker: Maker<'a>,
    file: u32,
    name: String,
    bytes: u64,
}

impl<'a> BatchReader<'a> {
    /// `first_row` is the position of the first row in the file.
    pub(super) fn new(batches: Batches, maker: Maker<'a>, file: u32, name: String, first_row: u64) -> Self {
        Self { batches, batch: None, lines: String::new(), at: 0, row: first_row, maker, file, name, bytes: 0 }
    }

    /// Turns the next rows into lines of JSON; false at the end.
    fn fill(&mut self) -> Result<bool, TransferError> {
        let broken = |what: String| TransferError::Source(format!("{}, behind row {}: {what}", self.name, self.row));
        let (batch, from) = match self.batch.take() {
            Some(rest) => rest,
            None => match self.batches.next() {
                None => return Ok(false),
                Some(batch) => (batch.map_err(|(place, what)| place.unwrap_or_else(|| broken(what)))?, 0),
            },
        };
        let rows = ROWS.min(batch.num_rows() - from);
        let mut lines = std::mem::take(&mut self.lines).into_bytes();
        lines.clear();
        self.at = 0;
        let mut writer =
            WriterBuilder::new().with_encoder_factory(Arc::new(OutsideJson)).build::<_, LineDelimited>(&mut lines);
        let written = writer.write(&batch.slice(from, rows)).and_then(|()| writer.finish());
        written.map_err(|e| broken(e.to_string()))?;
        // All at once it is checked many times faster than line by line.
        simdutf8::basic::from_utf8(&lines).map_err(|e| broken(e.to_string()))?;
        // SAFETY: it was just found to be UTF-8.
        self.lines = unsafe { String::from_utf8_unchecked(lines) };
        self.bytes += self.lines.len() as u64;
        if from + rows < batch.num_rows() {
            self.batch = Some((batch, from + rows));
        }
        Ok(true)
    }
}

impl Reader for BatchReader<'_> {
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
            let length = memchr::memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
            let origin = Origin { unit: self.file, at: self.row };
            let json = &rest[..length];
            if let Err(why) = self.maker.text(json, origin, into) {
                let why = if is_outside(json) {
                    "it holds a value that JSON has no form for: NaN, an infinite number, or a time out of range".into()
                } else {
                    why
                };
                bad.push(Unreadable { origin, key: None, why, text: json.to_owned(), exact: true });
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
