//! Files with typed columns: Parquet and Arrow IPC.

mod arrow;
mod arrow_lengths;
mod batches;
mod guard;
mod int96;
mod outside_json;
mod parquet;

use std::io::Read;

use super::reader::FileReading;
use super::{Opened, Packing};
use crate::error::TransferError;
use crate::format::Format;
use crate::place::InspectedFile;

pub use parquet::parquet_rows;

/// The parts of a file that can be read separately, as the number of bytes in each; `None` if it cannot be divided.
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
pub(super) fn read<'a>(format: Format, found: &InspectedFile, group: u32, reading: FileReading<'a>) -> Opened<'a> {
    let read = if format == Format::Arrow { arrow::read } else { parquet::read };
    Ok(reading.of(read(found, group)?))
}

/// Reads an Arrow file or stream sequentially.
pub(super) fn read_stream<'a>(input: Box<dyn Read + Send>, name: String, reading: FileReading<'a>) -> Opened<'a> {
    Ok(reading.of(arrow::read_stream(input, name)?))
}

/// The place of a record in such a file, for display.
pub(super) fn place(format: Format, name: &str, at: u64) -> String {
    if format == Format::Arrow { arrow::place(name, at) } else { format!("{name}, row {}", at + 1) }
}
