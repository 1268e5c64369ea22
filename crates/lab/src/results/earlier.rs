//! Rows that an earlier process left in a run folder's tables.

use std::fs::File;
use std::io::{Error, ErrorKind};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// Rows of trials that are kept, by table.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    pub(super) intervals: Vec<RecordBatch>,
    pub(super) resources: Vec<RecordBatch>,
    pub(super) server_resources: Vec<RecordBatch>,
    pub(super) store_stats: Vec<RecordBatch>,
}

/// The rows of these trials in a table; none where the file is not there.
///
/// # Errors
/// The file cannot be read, or is no table of trials.
pub(super) fn rows_of(file: &Path, trials: &[u32]) -> std::io::Result<Vec<RecordBatch>> {
    let opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(opened).and_then(|reader| reader.build()).map_err(Error::other)?;
    let mut kept = Vec::new();
    for batch in reader {
        let batch = batch.map_err(Error::other)?;
        let column = batch.column_by_name("trial").ok_or_else(|| Error::other("it has no column `trial`"))?;
        let numbers =
            column.as_primitive_opt::<UInt32Type>().ok_or_else(|| Error::other("`trial` holds no numbers"))?;
        // A trial's rows stand together.
        let (mut from, rows) = (0, numbers.len());
        while from < rows {
            let trial = numbers.value(from);
            let length = (from..rows).take_while(|row| numbers.value(*row) == trial).count();
            if trials.contains(&trial) {
                kept.push(batch.slice(from, length));
            }
            from += length;
        }
    }
    Ok(kept)
}
