//! Infers columns from the source, for files that need them.

use serde_json::Value;

use crate::columns::{Columns, Kind};
use crate::error::TransferError;
use crate::format::Format;
use crate::runtime::block_on;
use crate::shape::Shape;
use crate::sink::Rows;
use crate::source::{Room, Source, Split, read_to_end};

/// Records to sample.
const RECORDS: u64 = 10_000;
/// Bytes of the source to read at most. Standard input is kept in memory for this. Records that a filter drops give no
/// columns, however many are read.
const BYTES: u64 = 64 << 20;

/// How to infer columns.
#[derive(Debug, Clone)]
pub struct Infer {
    /// Records to sample; 0 for all.
    pub records: u64,
    /// The field that receives the key. It becomes the first column.
    pub key_field: Option<String>,
    /// The overflow column. With `None`, documents that need it are rejected.
    pub overflow: Option<String>,
    /// The format that needs columns.
    pub format: Format,
}

impl Infer {
    /// Samples the first 10,000 records.
    pub fn new(format: Format, key_field: Option<&str>) -> Self {
        let overflow = Some(crate::columns::OVERFLOW.to_owned());
        Self { records: RECORDS, key_field: key_field.map(str::to_owned), overflow, format }
    }
}

/// Infers columns from the first records, and from at most 64 MiB of the source unless more records are asked for. If
/// the key gets a column, that comes first and holds text. If these are all records and none needs the overflow column,
/// it is left out.
///
/// # Errors
/// Errors of the source. Damage is ignored here; the copy reports it.
pub fn infer_columns(
    source: &dyn Source,
    splits: &[Split],
    shape: &Shape,
    infer: &Infer,
) -> Result<Columns, TransferError> {
    if infer.records != RECORDS && !source.reopens() {
        return Err(TransferError::BadInput(
            "standard input can be read only once, so columns are inferred from its first 10,000 records; use --schema, or \
             copy it to a file first"
                .into(),
        ));
    }
    let as_text = infer.format.is_delimited();
    let key_field = infer.key_field.as_deref();
    let list = key_field.map(|name| (name.to_owned(), Kind::Text)).into_iter().collect();
    let mut columns = Columns { list, overflow: infer.overflow.clone() };
    let all = look(source, splits, shape, infer, &mut |_, body| {
        if let Ok(document @ Value::Object(_)) = serde_json::from_slice(body) {
            columns.see(&document);
        }
        true
    })?;
    columns.settle(as_text);
    if let Some(kind) = key_field.and_then(|key| columns.list.iter_mut().find(|(name, _)| name == key)) {
        kind.1 = Kind::Text;
    }
    if all && infer.records == RECORDS && source.reopens() {
        let mut rows = Rows::new(&columns, key_field, as_text);
        let mut row = Vec::new();
        let fits = look(source, splits, shape, infer, &mut |key, body| {
            row.clear();
            let _ = rows.object(key, body, &mut row);
            !rows.overflowed
        })?;
        if fits {
            columns.overflow = None;
        }
    }
    Ok(columns)
}

/// Passes records to `see` until it refuses one, or enough were seen. Returns whether these were all records.
fn look(
    source: &dyn Source,
    splits: &[Split],
    shape: &Shape,
    infer: &Infer,
    see: &mut dyn FnMut(&str, &[u8]) -> bool,
) -> Result<bool, TransferError> {
    let most = if infer.records == 0 { u64::MAX } else { infer.records };
    let most_bytes = if infer.records == RECORDS { BYTES } else { u64::MAX };
    block_on(async {
        let (mut seen, mut bytes) = (0, 0);
        for split in splits {
            if seen >= most || bytes >= most_bytes {
                return Ok(false);
            }
            let mut reader = match source.preview(split, shape).await {
                Err(TransferError::Damaged(_)) => continue,
                reader => reader?,
            };
            let room = Room { records: 1_000, bytes: 4 << 20 };
            let read = read_to_end(&mut *reader, room, |records, last, read_bytes| {
                seen += records.len() as u64;
                let enough = seen >= most || bytes + read_bytes >= most_bytes;
                Ok(records.iter().all(|(key, body, _)| see(key, body)) && (last || !enough))
            });
            match read.await {
                Ok(true) | Err(TransferError::Damaged(_)) => bytes += reader.counted().bytes,
                stopped => return stopped,
            }
        }
        Ok(true)
    })
}
