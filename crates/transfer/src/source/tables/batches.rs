//! Converts rows of Arrow batches to records, by the type rules of `docs/moving-data.md`: Parquet and Arrow IPC.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_json::WriterBuilder;
use arrow_json::writer::LineDelimited;
use arrow_schema::{ArrowError, DataType, Schema};

use super::guard::guard;
use super::int96::{CoarseRows, Times};
use super::outside_json::{OUTSIDE, OutsideJson, is_outside, shown};
use crate::columns_arrow::{FILE_MARK, FileMark};
use crate::error::TransferError;
use crate::shape::members;
use crate::source::Unreadable;
use crate::source::reader::{FileRecords, FoundRecord};

/// Rows that are converted to documents at once.
pub(super) const ROWS: usize = 1_024;
/// Most rows in a batch without data; no real table has more.
const MOST_EMPTY: usize = 1 << 24;

/// Batches as they are read. An error is either an error of the file's place, or a message of the format's reader.
pub(super) type Batches = Box<dyn Iterator<Item = Result<ReadBatch, (Option<TransferError>, String)>>>;

/// A batch as it was read.
pub(super) struct ReadBatch {
    pub(super) rows: RecordBatch,
    /// The same rows with coarser times, if the times of some are out of range.
    pub(super) coarse: Option<CoarseRows>,
}

impl From<RecordBatch> for ReadBatch {
    fn from(rows: RecordBatch) -> Self {
        Self { rows, coarse: None }
    }
}

/// Metadata of files that Storebench wrote.
pub(super) struct Marks {
    mark: FileMark,
    /// Whether there is such metadata. Files of other programs are read by their column types alone.
    ours: bool,
}

impl Marks {
    /// Extracts the metadata from a schema of a file of this name.
    ///
    /// # Errors
    ///
    /// It cannot be read. Without it, documents would differ from those that were written.
    pub(super) fn of(schema: &Schema, name: &str) -> Result<Self, TransferError> {
        let Some(text) = schema.metadata().get(FILE_MARK) else {
            return Ok(Self { ours: false, mark: FileMark::default() });
        };
        let mark = serde_json::from_str(text).map_err(|error| {
            TransferError::BadInput(format!("{name}: the metadata `{FILE_MARK}` cannot be read ({error}): {text}"))
        })?;
        Ok(Self { ours: true, mark })
    }

    /// Writes rows as JSON lines, into the memory of others.
    fn lines(&self, rows: &RecordBatch, into: String) -> Result<String, String> {
        let mut lines = into.into_bytes();
        lines.clear();
        let encoders = OutsideJson { whole_as_integers: self.ours };
        let mut writer =
            WriterBuilder::new().with_encoder_factory(Arc::new(encoders)).build::<_, LineDelimited>(&mut lines);
        guard(|| writer.write(rows).and_then(|()| writer.finish()))?.map_err(|e| e.to_string())?;
        // Checking all lines at once is many times faster than line by line.
        simdutf8::basic::from_utf8(&lines).map_err(|e| e.to_string())?;
        // SAFETY: it was just validated as UTF-8.
        Ok(unsafe { String::from_utf8_unchecked(lines) })
    }
}

/// Takes each row from the conversion that holds its times.
fn with_coarse_times(fine: &str, coarse: &str, times: &[Times]) -> String {
    let mut out = String::with_capacity(fine.len());
    for ((fine, coarse), times) in fine.lines().zip(coarse.lines()).zip(times) {
        out.push_str(match times {
            Times::Fine => fine,
            Times::Coarse => coarse,
            Times::Outside => OUTSIDE,
        });
        out.push('\n');
    }
    out
}

/// The error of the underlying input, if Arrow wraps one.
pub(super) fn failure(error: &ArrowError) -> Option<TransferError> {
    match error {
        ArrowError::IoError(_, error) => TransferError::within(error),
        _ => None,
    }
}

/// The batch that is being returned.
struct Batch {
    rows: RecordBatch,
    coarse: Option<CoarseRows>,
    /// The number of rows already returned.
    at: usize,
    /// Columns that hold JSON as text.
    json: Vec<(String, ArrayRef)>,
    overflow: Option<ArrayRef>,
}

/// Reads rows as records.
pub(super) struct BatchRecords {
    batches: Batches,
    marks: Marks,
    batch: Option<Batch>,
    lines: String,
    at: usize,
    /// Position of the next row.
    row: u64,
    name: String,
    bytes: u64,
}

impl BatchRecords {
    /// `first_row` is the position of the first row in the file.
    pub(super) fn new(batches: Batches, marks: Marks, name: String, first_row: u64) -> Self {
        let (lines, row) = (String::new(), first_row);
        Self { batches, marks, batch: None, lines, at: 0, row, name, bytes: 0 }
    }

    /// Separates the columns that hold JSON as text from the others.
    fn begin(&self, ReadBatch { mut rows, mut coarse }: ReadBatch) -> Batch {
        let mut take = |name: &str| {
            let position = rows.schema().index_of(name).ok()?;
            let text = rows.column(position).data_type() == &DataType::Utf8;
            if let Some(coarse) = coarse.as_mut().filter(|_| text) {
                coarse.rows.remove_column(position);
            }
            text.then(|| rows.remove_column(position))
        };
        let overflow = self.marks.mark.overflow.as_deref().and_then(&mut take);
        let json = &self.marks.mark.json;
        let json = json.iter().filter_map(|name| take(name).map(|column| (name.clone(), column))).collect();
        Batch { rows, coarse, at: 0, json, overflow }
    }

    /// Converts the next rows to JSON lines. Returns false at the end.
    fn fill(&mut self) -> Result<bool, TransferError> {
        let broken = |what: String| TransferError::Damaged(format!("{}, after row {}: {what}", self.name, self.row));
        let mut batch = match self.batch.take() {
            Some(rest) => rest,
            None => match guard(|| self.batches.next()).map_err(&broken)? {
                None => return Ok(false),
                Some(read) => {
                    let read = read.map_err(|(place, what)| place.unwrap_or_else(|| broken(what)))?;
                    let rows = &read.rows;
                    if rows.num_rows() > MOST_EMPTY && rows.get_array_memory_size() < rows.num_rows() / 8 {
                        return Err(broken(format!("it has {} rows but no data", rows.num_rows())));
                    }
                    self.begin(read)
                }
            },
        };
        let rows = ROWS.min(batch.rows.num_rows() - batch.at);
        let lines = std::mem::take(&mut self.lines);
        self.at = 0;
        self.lines = self.marks.lines(&batch.rows.slice(batch.at, rows), lines).map_err(&broken)?;
        if let Some(coarse) = &batch.coarse {
            let others = self.marks.lines(&coarse.rows.slice(batch.at, rows), String::new()).map_err(&broken)?;
            self.lines = with_coarse_times(&self.lines, &others, &coarse.times[batch.at..]);
        }
        if batch.overflow.is_some() || !batch.json.is_empty() {
            self.lines = batch.merged(&self.lines);
        }
        self.bytes += self.lines.len() as u64;
        batch.at += rows;
        if batch.at < batch.rows.num_rows() {
            self.batch = Some(batch);
        }
        Ok(true)
    }
}

/// Marks a row that cannot be assembled. It is not JSON, so the row is rejected.
const NO_ROW: &str = "a column of JSON text contains something else: ";

impl Batch {
    /// Puts the values of JSON columns back into the documents.
    fn merged(&self, lines: &str) -> String {
        let mut out = String::with_capacity(lines.len() + 1_024);
        for (row, line) in lines.lines().enumerate() {
            let row = self.at + row;
            let text = |column: &'_ ArrayRef| {
                let column: &StringArray = column.as_string();
                column.is_valid(row).then(|| column.value(row).to_owned())
            };
            let overflow = self.overflow.as_ref().and_then(text);
            let json: Vec<(&str, String)> =
                self.json.iter().filter_map(|(name, column)| Some((name.as_str(), text(column)?))).collect();
            if overflow.is_none() && json.is_empty() {
                out.push_str(line);
            } else {
                match members::merge(line, &json, overflow.as_deref()) {
                    Ok(merged) => out.push_str(&merged),
                    Err(()) => {
                        out.push_str(NO_ROW);
                        out.push_str(&line.replace(['\n', '\r'], " "));
                    }
                }
            }
            out.push('\n');
        }
        out
    }
}

impl FileRecords for BatchRecords {
    fn next(&mut self) -> Result<Option<FoundRecord<'_>>, TransferError> {
        while self.at >= self.lines.len() {
            if !self.fill()? {
                return Ok(None);
            }
        }
        let rest = &self.lines[self.at..];
        let length = memchr::memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
        self.at += length + 1;
        self.row += 1;
        Ok(Some((self.row - 1, Ok(&rest[..length]))))
    }

    fn told(&mut self, bad: Unreadable) -> Unreadable {
        if is_outside(&bad.text) {
            let why = "it contains a value that JSON cannot represent: NaN, an infinite number, or a time out of range";
            // Not as JSON, whose strings could be taken for the values.
            let text = shown(bad.text.trim_start_matches(NO_ROW), false);
            return Unreadable { why: why.to_owned(), text, exact: false, ..bad };
        }
        let why = if bad.text.starts_with(NO_ROW) { NO_ROW.trim_end_matches(": ").to_owned() } else { bad.why };
        Unreadable { why, ..bad }
    }

    fn with_key(&self, bad: &Unreadable) -> Option<String> {
        is_outside(&bad.text).then(|| shown(bad.text.trim_start_matches(NO_ROW), true))
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.bytes)
    }
}
