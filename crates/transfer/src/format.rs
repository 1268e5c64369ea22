//! File formats of records.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::TransferError;

/// A file format of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// JSON lines.
    Jsonl,
    /// One JSON array.
    Json,
    /// Comma-separated values (RFC 4180); the first row names the columns.
    Csv,
    /// The same, separated by tabs.
    Tsv,
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC: the file format. Reading also accepts the stream format.
    Arrow,
}

/// Each format, its name, and the endings of its files, in the order of the enum.
const FORMATS: [(Format, &str, &[&str]); 6] = [
    (Format::Jsonl, "jsonl", &["jsonl", "ndjson"]),
    (Format::Json, "json", &["json"]),
    (Format::Csv, "csv", &["csv"]),
    (Format::Tsv, "tsv", &["tsv", "tab"]),
    (Format::Parquet, "parquet", &["parquet", "pq"]),
    (Format::Arrow, "arrow", &["arrow", "arrows", "ipc", "feather"]),
];

impl Format {
    /// The name, which is also the file extension.
    pub fn name(self) -> &'static str {
        FORMATS[self as usize].1
    }

    /// Refuses formats that this binary was built without.
    ///
    /// # Errors
    /// Parquet or Arrow without the feature `tables`.
    pub(crate) fn check(self, name: &str) -> Result<(), TransferError> {
        if self.is_typed() && !cfg!(feature = "tables") { Err(self.absent(name)) } else { Ok(()) }
    }

    /// The error of a binary that was built without this format.
    pub(crate) fn absent(self, name: &str) -> TransferError {
        TransferError::BadInput(format!(
            "{name}: this binary was built without Parquet and Arrow; build with the feature `tables`, or if the file has \
             another format, give it with --from-format or --to-format"
        ))
    }

    /// The format that a file name indicates, compressed or not; JSON lines if it indicates none.
    pub fn of_name(name: &str) -> Self {
        Self::told_by(name).unwrap_or(Self::Jsonl)
    }

    /// The format that a file name indicates, compressed or not.
    pub fn told_by(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let mut parts = name.rsplit('.');
        let mut ending = parts.next().unwrap_or_default();
        if matches!(ending, "gz" | "zst" | "zstd") {
            ending = parts.next().unwrap_or_default();
        }
        FORMATS.into_iter().find(|(.., endings)| endings.contains(&ending)).map(|(format, ..)| format)
    }

    /// Whether its columns hold text: CSV and TSV.
    pub(crate) fn is_delimited(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv)
    }

    /// Whether its columns have types: Parquet and Arrow.
    pub(crate) fn is_typed(self) -> bool {
        matches!(self, Self::Parquet | Self::Arrow)
    }

    /// The field delimiter of a row.
    pub(crate) fn delimiter(self) -> u8 {
        if self == Self::Tsv { b'\t' } else { b',' }
    }

    /// Whether the format has columns, which must be known before the first record is written.
    pub fn has_columns(self) -> bool {
        self.is_delimited() || self.is_typed()
    }

    /// Whether the format distinguishes null from a missing field.
    pub fn keeps_nulls(self) -> bool {
        !self.is_typed()
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An unknown format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown format `{0}`; expected jsonl, json, csv, tsv, parquet or arrow")]
pub struct FormatError(String);

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let known = FORMATS.into_iter().find(|(_, name, _)| *name == text);
        known.map(|(format, ..)| format).ok_or_else(|| FormatError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_formats() {
        for (name, format) in [
            ("a.jsonl", Format::Jsonl),
            ("a.jsonl.gz", Format::Jsonl),
            ("a.json", Format::Json),
            ("b/a.csv.zst", Format::Csv),
            ("a.tsv", Format::Tsv),
            ("a.parquet", Format::Parquet),
            ("a.feather", Format::Arrow),
            ("a", Format::Jsonl),
            ("a.gz", Format::Jsonl),
            ("A.JSON", Format::Json),
            ("A.Csv.GZ", Format::Csv),
        ] {
            assert_eq!(Format::of_name(name), format, "{name}");
        }
        assert_eq!((Format::told_by("a.db"), Format::told_by("a")), (None, None));
        assert!(FORMATS.iter().all(|(format, ..)| format.name().parse() == Ok(*format)));
        assert!("xml".parse::<Format>().is_err());
    }
}
