//! Columns as an Arrow schema.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema};

use serde::{Deserialize, Serialize};

use crate::columns::{Columns, Kind};

/// The metadata key under which a file describes what Storebench wrote into it.
pub(crate) const FILE_MARK: &str = "storebench";

/// Metadata of a file with columns, so that it is read back as it was written. The Python package leaves out what is
/// empty.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FileMark {
    /// The overflow column.
    pub(crate) overflow: Option<String>,
    /// Columns that hold JSON as text.
    pub(crate) json: Vec<String>,
}

impl Columns {
    /// The schema of a Parquet file. Every column is nullable.
    pub fn arrow(&self) -> Schema {
        let mut columns: Vec<_> = fields(&self.list).iter().cloned().collect();
        columns.extend(self.overflow.iter().map(|name| Arc::new(Field::new(name, DataType::Utf8, true))));
        Schema::new_with_metadata(columns, HashMap::from([(FILE_MARK.to_owned(), self.mark())]))
    }

    /// The metadata stored under [`FILE_MARK`].
    pub(crate) fn mark(&self) -> String {
        let json = self.list.iter().filter(|(_, kind)| *kind == Kind::Json).map(|(name, _)| name.clone()).collect();
        let mark = FileMark { overflow: self.overflow.clone(), json };
        serde_json::to_string(&mark).expect("texts are JSON")
    }
}

impl Kind {
    fn arrow(&self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Integer => DataType::Int64,
            Self::Number => DataType::Float64,
            Self::Text | Self::Json | Self::Overflow | Self::Unknown => DataType::Utf8,
            Self::List(of) => DataType::List(Arc::new(Field::new("item", of.arrow(), true))),
            Self::Object(members) => DataType::Struct(fields(members)),
        }
    }
}

fn fields(members: &[(String, Kind)]) -> Fields {
    members.iter().map(|(name, kind)| Field::new(name, kind.arrow(), true)).collect()
}
