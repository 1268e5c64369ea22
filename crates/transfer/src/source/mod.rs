//! Where records come from.

mod array;
mod csv;
mod files;
mod lines;
mod pages;
mod quotes;
mod reader;
mod scan;
mod store;
#[cfg(feature = "tables")]
mod tables;
#[cfg(not(feature = "tables"))]
#[path = "no_tables.rs"]
mod tables;
mod unpack;
mod view_keys;

pub use files::{FileSource, FileSourceOptions, Packing};
pub use store::{StoreSource, StoreSourceOptions, TheirExpiry, ViewSource};
#[cfg(feature = "tables")]
pub use tables::parquet_rows;
pub use view_keys::{ViewKeys, ViewKeysError};

use std::borrow::Cow;
use std::future::poll_fn;
use std::task::{Context, Poll};

use serde::{Deserialize, Serialize};
use storebench_engine::store::{AnyStore, LocalFuture};

use crate::error::TransferError;
use crate::measure::{Request, RequestKinds};
use crate::records::{Origin, Records};
use crate::shape::Shape;

/// A part of a source that one worker reads at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// Number, from 0.
    pub number: u32,
    /// Which part.
    pub part: Part,
    /// About how many bytes it holds, where that is known.
    pub bytes: Option<u64>,
}

/// Which part of a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Records of a file that begin between two byte offsets.
    Bytes {
        /// Number of the file.
        file: u32,
        /// The first offset.
        start: u64,
        /// The first offset that is not part of it.
        end: u64,
    },
    /// A whole file.
    File {
        /// Number of the file.
        file: u32,
    },
    /// A row group of a Parquet file; some batches of an Arrow file.
    RowGroup {
        /// Number of the file.
        file: u32,
        /// Number of the group, from 0.
        group: u32,
    },
    /// Rows of a view.
    View {
        /// Their key, as JSON; none for all rows.
        key: Option<String>,
    },
    /// Rows of a view by their numbers, whatever their keys.
    ViewRows {
        /// The first, from 0.
        start: u32,
        /// The first that is not part of it; none for the end.
        end: Option<u32>,
    },
    /// The documents in one part of a store that lists its keys in no order.
    Walk {
        /// What the store calls the part: a node, as a rule.
        part: String,
    },
    /// The rows of a query.
    Query,
    /// Documents of a store whose keys lie in a range, in the store's order.
    Keys {
        /// The least key; none for the beginning.
        start: Option<String>,
        /// The first key that is not part of it; none for the end.
        end: Option<String>,
    },
}

/// A record that could not be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Unreadable {
    /// Where it begins.
    pub origin: Origin,
    /// Its key, where it has one.
    pub key: Option<String>,
    /// Why.
    pub why: String,
    /// It, as far as it is text; what is not becomes U+FFFD.
    pub text: String,
    /// Whether that is all of it, as it was.
    pub exact: bool,
}

impl Unreadable {
    pub(crate) fn of(origin: Origin, key: Option<String>, why: String, bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let exact = matches!(text, Cow::Borrowed(_));
        Self { origin, key, why, text: text.into_owned(), exact }
    }
}

/// Where records come from.
pub trait Source: Send + Sync {
    /// What it is, in a few words, without secrets.
    fn describe(&self) -> String;

    /// What tells whether another look finds the same records: a copy is resumed only then.
    fn fingerprint(&self) -> String;

    /// Whether all records are of one moment, and if not why; for the summary.
    fn snapshot(&self) -> Snapshot;

    /// Whether a split that is read again gives the same records at the same places, while nothing changes.
    fn repeats(&self) -> bool {
        true
    }

    /// Whether several of its records may have one key, once they are shaped.
    fn repeats_keys(&self, _shape: &Shape) -> bool {
        true
    }

    /// Whether it can be read again by another process.
    fn reopens(&self) -> bool {
        true
    }

    /// The store that is read, where it is one.
    fn store(&self) -> Option<&dyn AnyStore> {
        None
    }

    /// Which requests its readers send, where they send some.
    fn requests(&self) -> Option<RequestKinds> {
        None
    }

    /// Its parts, about `parallel` or more of them.
    ///
    /// # Errors
    /// What cannot be read.
    fn splits(&self, parallel: u32) -> Result<Vec<Split>, TransferError>;

    /// Begins to read a split. Called on the thread, and within the runtime, that reads it.
    fn open<'a>(
        &'a self,
        split: &'a Split,
        shape: &'a Shape,
    ) -> LocalFuture<'a, Result<Box<dyn Reader + 'a>, TransferError>>;

    /// The same for a split of which only the beginning is wanted: opened again, it holds everything still.
    fn preview<'a>(
        &'a self,
        split: &'a Split,
        shape: &'a Shape,
    ) -> LocalFuture<'a, Result<Box<dyn Reader + 'a>, TransferError>> {
        self.open(split, shape)
    }

    /// Where a record is, for people: `books.jsonl, line 7`.
    fn place(&self, split: &Split, origin: Origin) -> String;
}

/// Whether records are of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    /// They are.
    Yes(&'static str),
    /// What is written meanwhile may be in or not.
    No(&'static str),
}

/// About how much a reader gives at once.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Records, at most.
    pub records: usize,
    /// Bytes, at most, unless one record holds more.
    pub bytes: usize,
}

/// What a reader gave at once.
pub(crate) struct Chunk<'a> {
    pub(crate) records: &'a Records,
    pub(crate) bad: &'a [Unreadable],
    /// Whether it was the last.
    pub(crate) last: bool,
    /// Bytes read so far.
    pub(crate) bytes: u64,
}

/// Reads to the end, or until one chunk is enough; gives whether the end was reached.
pub(crate) async fn read_to_end(
    reader: &mut dyn Reader,
    room: Room,
    mut each: impl FnMut(Chunk<'_>) -> Result<bool, TransferError>,
) -> Result<bool, TransferError> {
    let (mut records, mut bad) = (Records::new(), Vec::new());
    loop {
        records.clear();
        bad.clear();
        let last = !poll_fn(|cx| reader.poll_read(cx, room, &mut records, &mut bad)).await?;
        let go_on = each(Chunk { records: &records, bad: &bad, last, bytes: reader.bytes() })?;
        if last || !go_on {
            return Ok(go_on);
        }
    }
}

/// Reads one split.
pub trait Reader {
    /// Adds records to `into`, until it is full or nothing more is there at once. `Ready(false)` at the end.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        room: Room,
        into: &mut Records,
        bad: &mut Vec<Unreadable>,
    ) -> Poll<Result<bool, TransferError>>;

    /// Bytes read so far, as the source counts them.
    fn bytes(&self) -> u64;

    /// Moves out what was measured since the last call.
    fn requests(&mut self, _into: &mut Vec<Request>) {}

    /// Documents so far of which a part was left behind, as was allowed.
    fn dropped(&self) -> u64 {
        0
    }

    /// Documents so far whose expiry was left behind, as was allowed.
    fn dropped_expiry(&self) -> u64 {
        0
    }
}
