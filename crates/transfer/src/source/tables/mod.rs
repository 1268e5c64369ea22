//! Files with typed columns: Parquet and Arrow IPC.

mod arrow;
mod arrow_lengths;
mod batches;
mod guard;
mod outside_json;
mod parquet;

use std::io::Read;

use super::reader::FileReading;
use super::{Packing, Reader};
use crate::error::TransferError;
use crate::format::Format;
use crate::place::InspectedFile;

pub use parquet::parquet_rows;

/// Parts of a file that can be read by themselves, with the bytes of each; none where it is read as a whole.
pub(super) fn groups(
    format: Format,
    packing: Packing,
    found: &InspectedFile,
) -> Result<Option<Vec<u64>>, TransferError> {
    match (format, packing) {
        (Format::Parquet, _) => parquet::row_groups(found).map(Some),
        (Format::Arrow, Packing::Plain) if found.ranges => arrow::parts(found),
        _ => Ok(None),
    }
}

/// Reads one of these parts.
pub(super) fn read<'a>(
    format: Format,
    found: &InspectedFile,
    group: u32,
    reading: FileReading<'a>,
) -> Result<Box<dyn Reader + 'a>, TransferError> {
    let read = if format == Format::Arrow { arrow::read } else { parquet::read };
    Ok(reading.of(read(found, group)?))
}

/// Reads a file of Arrow as it comes.
pub(super) fn read_stream<'a>(
    input: Box<dyn Read + Send>,
    name: String,
    reading: FileReading<'a>,
) -> Result<Box<dyn Reader + 'a>, TransferError> {
    Ok(reading.of(arrow::read_stream(input, name)?))
}

/// Where a record of such a file stands.
pub(super) fn place(format: Format, name: &str, at: u64) -> String {
    if format == Format::Arrow { arrow::place(name, at) } else { format!("{name}, row {}", at + 1) }
}
