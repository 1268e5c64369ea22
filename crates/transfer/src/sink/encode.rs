//! Records into the bytes of one file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use storebench_core::store::ErrorKind;

use super::Refusal;
use super::files::FileSinkOptions;
use super::line::line;
use super::tables::TableEncoder;
use crate::columns::{Columns, Kind};
use crate::format::Format;
use crate::records::Records;
use crate::source::Packing;

/// Integers beyond this are not exact as doubles.
const EXACT: u64 = 1 << 53;

/// Writes one file, or standard output.
pub(super) enum Encoder<'a> {
    Lines { out: Packer, key_field: Option<&'a str>, lines: Vec<u8> },
    Rows { out: Packer, key_field: Option<&'a str>, columns: &'a Columns, delimiter: u8, rows: Vec<u8> },
    Table(Box<TableEncoder<'a>>),
}

impl<'a> Encoder<'a> {
    /// A part of a file. What is joined by bytes is packed now, the rest when it is joined.
    pub(super) fn part(options: &'a FileSinkOptions, file: File) -> io::Result<Self> {
        let key_field = options.key_field.as_deref();
        Ok(match options.format {
            Format::Jsonl => Self::Lines { out: Packer::new(file, options.packing)?, key_field, lines: Vec::new() },
            Format::Json => Self::Lines { out: Packer::Plain(file), key_field, lines: Vec::new() },
            Format::Csv | Format::Tsv => {
                let mut encoder = Self::rows(options, Packer::Plain(file));
                if options.folder {
                    encoder.head()?;
                }
                encoder
            }
            Format::Parquet | Format::Arrow => Self::Table(Box::new(TableEncoder::new(file, options)?)),
        })
    }

    /// Standard output.
    pub(super) fn stdout(options: &'a FileSinkOptions) -> io::Result<Self> {
        let key_field = options.key_field.as_deref();
        Ok(match options.format {
            Format::Jsonl => Self::Lines { out: Packer::Stdout, key_field, lines: Vec::new() },
            Format::Csv | Format::Tsv => Self::rows(options, Packer::Stdout),
            Format::Json | Format::Parquet | Format::Arrow => {
                return Err(io::Error::other(format!("{} is written as a whole: give a file", options.format)));
            }
        })
    }

    fn rows(options: &'a FileSinkOptions, out: Packer) -> Self {
        let (key_field, delimiter) = (options.key_field.as_deref(), options.format.delimiter());
        Self::Rows { out, key_field, columns: &options.columns, delimiter, rows: Vec::new() }
    }

    /// Writes the first row, where there is one.
    pub(super) fn head(&mut self) -> io::Result<()> {
        match self {
            Self::Rows { out, columns, delimiter, .. } => out.write(&head(columns, *delimiter)?),
            _ => Ok(()),
        }
    }

    /// Adds records; gives those that cannot stand in such a file.
    pub(super) fn write(&mut self, records: &Records) -> io::Result<Vec<Refusal>> {
        match self {
            Self::Lines { out, key_field, lines } => {
                lines.clear();
                let refused = refusals(records, |key, body| line(key, body, *key_field, lines));
                out.write(lines)?;
                Ok(refused)
            }
            Self::Rows { out, key_field, columns, delimiter, rows } => {
                rows.clear();
                let mut writer = csv::WriterBuilder::new().delimiter(*delimiter).from_writer(rows);
                let mut failed = None;
                let refused = refusals(records, |key, body| {
                    let fields = row(key, body, *key_field, columns)?;
                    if let Err(error) = writer.write_record(&fields) {
                        failed.get_or_insert(error);
                    }
                    Ok(())
                });
                let rows = writer.into_inner().map_err(|e| io::Error::other(e.to_string()))?;
                if let Some(error) = failed {
                    return Err(error.into());
                }
                out.write(rows)?;
                Ok(refused)
            }
            Self::Table(encoder) => encoder.write(records),
        }
    }

    /// Everything is on disk.
    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Self::Lines { out, .. } | Self::Rows { out, .. } => out.finish(),
            Self::Table(encoder) => encoder.finish(),
        }
    }
}

pub(super) fn refusals(records: &Records, mut write: impl FnMut(&str, &[u8]) -> Result<(), String>) -> Vec<Refusal> {
    let mut refused = Vec::new();
    for (position, (key, body, _)) in records.iter().enumerate() {
        if let Err(why) = write(key, body) {
            refused.push(Refusal { position, kind: ErrorKind::Refused, why, tries: 1 });
        }
    }
    refused
}

/// The first row of a table.
pub(super) fn head(columns: &Columns, delimiter: u8) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().delimiter(delimiter).from_writer(Vec::new());
    writer.write_record(columns.0.iter().map(|(name, _)| name))?;
    writer.into_inner().map_err(|e| io::Error::other(e.to_string()))
}

/// A document with its key, as a row of a table whose numbers are doubles.
pub(super) fn members(key: &str, body: &[u8], key_field: Option<&str>, columns: &Columns) -> Result<Value, String> {
    let members = fitting(key, body, key_field, columns)?;
    if members.values().any(is_beyond) {
        for (name, text) in texts(body)? {
            if let Some(number) = columns.get(&name).and_then(|kind| rounded(kind, text.get())) {
                return Err(format!("column `{name}`: {number} is no number that a double keeps"));
            }
        }
    }
    Ok(Value::Object(members))
}

/// The members of a document with its key, checked against the columns.
fn fitting(key: &str, body: &[u8], key_field: Option<&str>, columns: &Columns) -> Result<Map<String, Value>, String> {
    let parsed: Value = serde_json::from_slice(body).map_err(|e| format!("it is no JSON: {e}"))?;
    let Value::Object(mut members) = parsed else { return Err("it is no JSON object, so it has no columns".into()) };
    if let Some(field) = key_field {
        match members.insert(field.to_owned(), key.into()) {
            Some(other) if other.as_str() != Some(key) => {
                return Err(format!("it has a field `{field}` that is not its key; give another --key-field"));
            }
            _ => {}
        }
    }
    for (name, value) in &members {
        let kind = columns.get(name).ok_or_else(|| {
            format!("its field `{name}` was in none of the first records, so there is no column for it")
        })?;
        fits(kind, value).map_err(|what| format!("column `{name}`: {what}"))?;
    }
    if columns.0.iter().any(|(_, kind)| *kind == Kind::Number) {
        for (name, value) in texts(body)? {
            let rounds = columns.get(&name) == Some(&Kind::Number) && is_rounded(value.get());
            if rounds {
                return Err(format!("column `{name}`: {} is no number that a double keeps", value.get()));
            }
        }
    }
    Ok(members)
}

/// The members of a document as they are written.
fn texts(body: &[u8]) -> Result<HashMap<String, &RawValue>, String> {
    serde_json::from_slice(body).map_err(|e| format!("it is no JSON: {e}"))
}

/// Whether an integer as it is written is beyond what a double keeps.
fn is_rounded(text: &str) -> bool {
    let digits = text.trim_start_matches('-');
    let whole = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    whole && digits.parse::<u64>().map_or(true, |whole| whole > EXACT)
}

/// Whether a value holds numbers so large that only their text tells whether they are integers.
fn is_beyond(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64() && number.as_f64().is_some_and(|number| number.abs() >= EXACT as f64),
        Value::Array(items) => items.iter().any(is_beyond),
        Value::Object(members) => members.values().any(is_beyond),
        _ => false,
    }
}

/// An integer in a value's text that its column, a double, would round, however deep.
fn rounded<'a>(kind: &Kind, text: &'a str) -> Option<&'a str> {
    match kind {
        Kind::Number => is_rounded(text).then_some(text),
        // Nulls are neither.
        Kind::List(of) => {
            let items: Vec<&'a RawValue> = serde_json::from_str(text).ok()?;
            items.into_iter().find_map(|item| rounded(of, item.get()))
        }
        Kind::Object(known) => {
            let members: HashMap<String, &'a RawValue> = serde_json::from_str(text).ok()?;
            known.iter().find_map(|(name, kind)| members.get(name).and_then(|member| rounded(kind, member.get())))
        }
        _ => None,
    }
}

/// Whether a value is one of a column.
fn fits(kind: &Kind, value: &Value) -> Result<(), String> {
    let fits = match (kind, value) {
        (_, Value::Null) | (Kind::Json, _) | (Kind::Boolean, Value::Bool(_)) | (Kind::Text, Value::String(_)) => true,
        (Kind::Integer, Value::Number(number)) => number.is_i64(),
        (Kind::Number, Value::Number(number)) => {
            // Digits that do not fit 64 bits were rounded when they were read; `members` looks at their text.
            let whole = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
            whole.is_none_or(|whole| whole <= EXACT)
        }
        (Kind::List(of), Value::Array(items)) => return items.iter().try_for_each(|item| fits(of, item)),
        (Kind::Object(known), Value::Object(_)) if known.is_empty() => {
            return Err("an object without members has no form in a column; leave it out by --without".into());
        }
        (Kind::Object(known), Value::Object(members)) => {
            return members.iter().try_for_each(|(name, value)| {
                let kind = known.iter().find(|(known, _)| known == name).map(|(_, kind)| kind);
                let kind = kind.ok_or_else(|| format!("`{name}` was in none of the first records"))?;
                fits(kind, value).map_err(|what| format!("`{name}`: {what}"))
            });
        }
        _ => false,
    };
    if fits {
        return Ok(());
    }
    let mut text = value.to_string();
    if text.len() > 60 {
        text = text.chars().take(60).chain(['…']).collect();
    }
    Err(match kind {
        Kind::Unknown => format!("it was null in the first records, and is {text}"),
        Kind::Number => format!("{text} is no number that a double keeps"),
        Kind::List(_) | Kind::Object(_) => format!("{text} is of another kind than in the first records"),
        kind => format!("{text} is no {}", format!("{kind:?}").to_lowercase()),
    })
}

fn row(key: &str, body: &[u8], key_field: Option<&str>, columns: &Columns) -> Result<Vec<String>, String> {
    let mut members = fitting(key, body, key_field, columns)?;
    let texts = texts(body)?;
    Ok(columns
        .0
        .iter()
        .map(|(name, _)| match (members.remove(name), texts.get(name)) {
            (None | Some(Value::Null), _) => String::new(),
            (Some(Value::String(text)), _) => text,
            // As it is written, but in one line: no digit is lost.
            (Some(_), Some(text)) => text.get().replace(['\n', '\r'], ""),
            (Some(value), None) => value.to_string(),
        })
        .collect())
}

/// Where bytes go.
pub(super) enum Packer {
    Plain(File),
    Gzip(flate2::write::GzEncoder<File>),
    Zstd(zstd::stream::write::Encoder<'static, File>),
    Stdout,
}

impl Packer {
    pub(super) fn new(file: File, packing: Packing) -> io::Result<Self> {
        Ok(match packing {
            Packing::Plain => Self::Plain(file),
            Packing::Gzip => Self::Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::fast())),
            Packing::Zstd => Self::Zstd(zstd::stream::write::Encoder::new(file, 3)?),
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.write_all(bytes),
            Self::Gzip(out) => out.write_all(bytes),
            Self::Zstd(out) => out.write_all(bytes),
            Self::Stdout => io::stdout().lock().write_all(bytes),
        }
    }

    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.sync_all(),
            Self::Gzip(out) => out.finish()?.sync_all(),
            Self::Zstd(out) => out.finish()?.sync_all(),
            Self::Stdout => io::stdout().lock().flush(),
        }
    }
}
