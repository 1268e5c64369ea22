//! Row groups of Parquet files.

use std::fs::File;
use std::path::Path;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::batches::{BatchReader, ROWS};
use crate::error::TransferError;
use crate::shape::Maker;

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

/// Reads a row group.
pub(super) fn read<'a>(path: &Path, group: u32, maker: Maker<'a>, file: u32) -> Result<BatchReader<'a>, TransferError> {
    let reader = open(path)?;
    let groups = reader.metadata().row_groups();
    let before = groups.iter().take(group as usize).map(|group| group.num_rows().max(0) as u64).sum();
    let name = path.display().to_string();
    let batches = reader
        .with_row_groups(vec![group as usize])
        .with_batch_size(ROWS)
        .build()
        .map_err(|e| TransferError::Source(format!("{name}, row group {group}: {e}")))?;
    let batches = batches.map(|batch| batch.map_err(|e| e.to_string()));
    Ok(BatchReader::new(Box::new(batches), maker, file, name, before))
}
