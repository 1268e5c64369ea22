//! Stand-in for typed tables in a binary without them: [`Format::check`] refuses such files.

use std::io::Read;

use super::reader::FileReading;
use super::{Opened, Packing};
use crate::error::TransferError;
use crate::format::Format;
use crate::place::InspectedFile;

pub(super) fn groups(_: Format, _: Packing, _: &InspectedFile) -> Result<Option<Vec<u64>>, TransferError> {
    Ok(None)
}

pub(super) fn read<'a>(format: Format, found: &InspectedFile, _: u32, _: FileReading<'a>) -> Opened<'a> {
    Err(format.absent(&found.place.to_string()))
}

pub(super) fn read_stream<'a>(_: Box<dyn Read + Send>, name: String, _: FileReading<'a>) -> Opened<'a> {
    Err(Format::Arrow.absent(&name))
}

pub(super) fn place(_: Format, name: &str, _: u64) -> String {
    name.to_owned()
}
