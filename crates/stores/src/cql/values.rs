//! Values of statements and of rows as the bytes that they are. The types of the columns are known when a table is
//! resolved, so they are not compared again for each value.

use std::borrow::Cow;

use scylla::frame::response::result::ColumnType;
use scylla::serialize::SerializationError;
use scylla::serialize::value::SerializeValue;
use scylla::serialize::writers::{CellWriter, WrittenCellProof};

/// A value to bind.
#[derive(Debug, Clone)]
pub(super) enum Bound<'a> {
    Bytes(Cow<'a, [u8]>),
    Int(i32),
    Long(i64),
    Null,
    /// Leaves the column as it is, where nothing is.
    Unset,
}

impl<'a> Bound<'a> {
    pub(super) fn bytes(bytes: &'a [u8]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl SerializeValue for Bound<'_> {
    fn serialize<'b>(
        &self,
        _: &ColumnType<'_>,
        writer: CellWriter<'b>,
    ) -> Result<WrittenCellProof<'b>, SerializationError> {
        let written = match self {
            Self::Bytes(bytes) => writer.set_value(bytes),
            Self::Int(number) => writer.set_value(&number.to_be_bytes()),
            Self::Long(number) => writer.set_value(&number.to_be_bytes()),
            Self::Null => return Ok(writer.set_null()),
            Self::Unset => return Ok(writer.set_unset()),
        };
        written.map_err(SerializationError::new)
    }
}

/// The bytes of a value; `None` if it is null.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw<'f>(pub(super) Option<&'f [u8]>);

impl<'f> Raw<'f> {
    /// A number of four bytes.
    pub(super) fn int(self) -> Option<i32> {
        Some(i32::from_be_bytes(self.0?.try_into().ok()?))
    }
}
