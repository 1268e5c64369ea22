//! Reads row groups of Parquet files.

use std::fs::File;
use std::io;
use std::path::Path;

use arrow_json::LineDelimitedWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

use super::batches::{BatchRecords, Marks, ROWS, ReadBatch};
use super::guard::guard;
use super::int96::{CoarseTimes, in_utc};
use crate::error::TransferError;
use crate::place::{Chunks, InspectedFile};

/// The row groups of a file, as the number of bytes in each.
pub(super) fn row_groups(found: &InspectedFile) -> Result<Vec<u64>, TransferError> {
    let reader = open(found, &found.chunks()?)?;
    Ok(reader.metadata().row_groups().iter().map(|group| group.compressed_size().max(0) as u64).collect())
}

fn open(found: &InspectedFile, chunks: &Chunks) -> Result<ParquetRecordBatchReaderBuilder<Chunks>, TransferError> {
    let broken = |e: String| {
        TransferError::BadInput(format!(
            "{} is not a complete Parquet file: {e}. The end of the file describes its contents, so nothing can be read without it (truncated?)",
            found.place
        ))
    };
    guard(|| ParquetRecordBatchReaderBuilder::try_new(chunks.clone()))
        .map_err(&broken)?
        .map_err(|e| chunks.failure().unwrap_or_else(|| broken(e.to_string())))
}

/// Reads a row group.
pub(super) fn read(found: &InspectedFile, group: u32) -> Result<BatchRecords, TransferError> {
    let chunks = found.chunks()?;
    let reader = open(found, &chunks)?;
    let groups = reader.metadata().row_groups();
    if group as usize >= groups.len() {
        return Err(TransferError::Damaged(format!("{} has no row group {group}", found.place)));
    }
    let before = groups.iter().take(group as usize).map(|group| group.num_rows().max(0) as u64).sum();
    let name = found.place.to_string();
    let marks = Marks::of(reader.schema(), &name)?;
    let damaged = |e: String| TransferError::Damaged(format!("{name}, row group {group}: {e}"));
    let build = || {
        let reader = in_utc(reader, &chunks)?;
        let coarse = CoarseTimes::open(&reader, &chunks, group as usize, ROWS)?;
        Ok((coarse, reader.with_row_groups(vec![group as usize]).with_batch_size(ROWS).build()?))
    };
    let built = guard(build).map_err(&damaged)?;
    let (mut coarse, batches) = built.map_err(|e: ParquetError| damaged(e.to_string()))?;
    let batches = batches.map(move |batch| {
        let read = batch.and_then(|rows| {
            let coarse = coarse.as_mut().map_or(Ok(None), |coarse| coarse.next(&rows))?;
            Ok(ReadBatch { rows, coarse })
        });
        read.map_err(|e| (chunks.failure(), e.to_string()))
    });
    Ok(BatchRecords::new(Box::new(batches), marks, name, before))
}

/// Passes each row of a Parquet file as a JSON line. All types use the default conversion; only nulls are omitted.
///
/// # Errors
/// The file cannot be read, or `each` fails.
pub fn parquet_rows(path: &Path, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let file = File::open(path)?;
    let reader = guard(|| ParquetRecordBatchReaderBuilder::try_new(file).and_then(|reader| reader.build()));
    let mut batches = reader.map_err(io::Error::other)?.map_err(io::Error::other)?;
    while let Some(batch) = guard(|| batches.next()).map_err(io::Error::other)? {
        let mut lines = LineDelimitedWriter::new(Vec::new());
        let batch = batch.map_err(io::Error::other)?;
        lines.write(&batch).and_then(|()| lines.finish()).map_err(io::Error::other)?;
        lines.into_inner().split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).try_for_each(&mut *each)?;
    }
    Ok(())
}
