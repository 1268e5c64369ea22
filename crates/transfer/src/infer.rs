//! Which columns the records of a source have, from its first records.

use std::future::poll_fn;

use serde_json::Value;

use crate::columns::{Columns, Kind};
use crate::error::TransferError;
use crate::records::Records;
use crate::shape::Shape;
use crate::source::{Room, Source, Split};

/// So many records are looked at.
const RECORDS: usize = 10_000;
/// And no more than so many bytes of the source: those of standard input have to be kept, and what a filter leaves
/// out gives no columns however much is read.
const BYTES: u64 = 64 << 20;

/// The columns of the first 10,000 records (64 MiB of the source at most), and one of text for the key before them where it gets one.
///
/// # Errors
/// The source's.
pub fn infer_columns(
    source: &dyn Source,
    splits: &[Split],
    shape: &Shape,
    key_field: Option<&str>,
) -> Result<Columns, TransferError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| TransferError::Target(format!("the system gives no event loop: {e}")))?;
    let mut columns = Columns(key_field.map(|name| (name.to_owned(), Kind::Text)).into_iter().collect());
    runtime.block_on(async {
        let (mut records, mut bad, mut seen, mut bytes) = (Records::new(), Vec::new(), 0, 0);
        for split in splits {
            if seen >= RECORDS || bytes >= BYTES {
                break;
            }
            let mut reader = source.preview(split, shape).await?;
            let mut more = true;
            while more && seen < RECORDS && bytes + reader.bytes() < BYTES {
                records.clear();
                let room = Room { records: 1_000, bytes: 4 << 20 };
                more = poll_fn(|cx| reader.poll_read(cx, room, &mut records, &mut bad)).await?;
                bad.clear();
                seen += records.len();
                for (_, body, _) in records.iter() {
                    if let Ok(document @ Value::Object(_)) = serde_json::from_slice(body) {
                        columns.see(&document);
                    }
                }
            }
            bytes += reader.bytes();
        }
        Ok(columns)
    })
}
