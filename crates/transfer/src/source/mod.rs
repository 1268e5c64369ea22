//! Sources of a copy.

pub(crate) mod ahead;
mod array;
mod csv;
mod damage;
mod files;
mod flaws;
mod lines;
mod pages;
mod partitions;
mod quotes;
mod reader;
mod scan;
mod store;
#[cfg(feature = "tables")]
mod tables;
#[cfg(not(feature = "tables"))]
#[path = "no_tables.rs"]
mod tables;
mod view_keys;

pub use csv::Escapes;
pub use files::{FileSource, FileSourceOptions};
pub use store::{StoreSource, StoreSourceOptions, TheirExpiry, ViewSource};
#[cfg(feature = "tables")]
pub use tables::parquet_rows;
pub use view_keys::{ViewKeys, ViewKeysError};

use std::borrow::Cow;
use std::future::poll_fn;
use std::task::{Context, Poll};

use serde::{Deserialize, Serialize};
pub use storebench_documents::unpack::Packing;
use storebench_engine::store::{Account, AnyStore, LocalFuture};

use crate::error::TransferError;
use crate::measure::{Request, RequestKinds};
use crate::records::{Origin, Records};
use crate::runtime::block_on;
use crate::shape::Shape;

/// A part of a source. A worker reads one at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// The number, from 0.
    pub number: u32,
    /// The part of the source.
    pub part: Part,
    /// Its approximate size in bytes, if known.
    pub bytes: Option<u64>,
}

/// A part of a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Records of a file that start between two byte offsets.
    Bytes {
        /// Number of the file.
        file: u32,
        /// The first offset.
        start: u64,
        /// The end offset, exclusive.
        end: u64,
    },
    /// A whole file.
    File {
        /// Number of the file.
        file: u32,
    },
    /// A row group of a Parquet file, or a group of batches of an Arrow file.
    RowGroup {
        /// Number of the file.
        file: u32,
        /// Number of the group, from 0.
        group: u32,
    },
    /// Rows of a view.
    View {
        /// The key of the rows, as JSON; `None` for all rows.
        key: Option<String>,
    },
    /// Rows of a view by number.
    ViewRows {
        /// The first row, from 0.
        start: u32,
        /// The end row, exclusive; `None` for the end of the view.
        end: Option<u32>,
    },
    /// Documents of one part of a store that lists its keys in no particular order.
    Walk {
        /// The store's name for the part, usually a node.
        part: String,
    },
    /// The rows of a query.
    Query,
    /// Documents of a store with keys in a range, in the store's order.
    Keys {
        /// The smallest key; `None` for the beginning.
        start: Option<String>,
        /// The end key, exclusive; `None` for the end.
        end: Option<String>,
    },
}

/// An unreadable record.
#[derive(Debug, Clone, PartialEq)]
pub struct Unreadable {
    /// Where it starts.
    pub origin: Origin,
    /// Its key, if it has one.
    pub key: Option<String>,
    /// The reason.
    pub why: String,
    /// Its content; invalid UTF-8 becomes U+FFFD.
    pub text: String,
    /// Whether `text` is the exact and complete content.
    pub exact: bool,
    /// The bytes of a key that is not UTF-8.
    pub key_bytes: Option<Box<[u8]>>,
    /// The content, if it is not UTF-8.
    pub bytes: Option<Box<[u8]>>,
}

impl Unreadable {
    /// A record with this content, which may not be UTF-8. It has no origin and no key yet.
    pub(crate) fn of(why: String, bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let exact = matches!(text, Cow::Borrowed(_));
        let bytes = (!exact).then(|| bytes.into());
        Self { origin: Origin::default(), key: None, why, text: text.into_owned(), exact, key_bytes: None, bytes }
    }
}

/// A source of a copy.
pub trait Source: Send + Sync {
    /// A short description, without secrets.
    fn describe(&self) -> String;

    /// Changes when the records change. A copy can be resumed only with the same fingerprint.
    fn fingerprint(&self) -> String;

    /// Whether all records are from one point in time, and the reason; for the summary.
    fn snapshot(&self) -> Snapshot;

    /// Whether reading a split again gives the same records at the same places, as long as nothing changes.
    fn repeats(&self) -> bool {
        true
    }

    /// Whether several shaped records may have the same key.
    fn repeats_keys(&self, _shape: &Shape) -> bool {
        true
    }

    /// Whether another process can read the source again. If not, it is a stream, which may keep its reader waiting for
    /// ever, also when the copy is to stop.
    fn reopens(&self) -> bool {
        true
    }

    /// The store that is read from, if the source is a store.
    fn store(&self) -> Option<&dyn AnyStore> {
        None
    }

    /// What the source itself counts: its documents, if all of them are read, and what is not read.
    fn account(&self) -> Option<Account> {
        None
    }

    /// The requests that the readers send, if they send any.
    fn requests(&self) -> Option<RequestKinds> {
        None
    }

    /// Divides the source into about `parallel` parts or more.
    ///
    /// # Errors
    /// What cannot be read.
    fn splits(&self, parallel: u32) -> Result<Vec<Split>, TransferError>;

    /// Starts to read a split. Must be called on the thread, and inside the runtime, that reads it.
    fn open<'a>(&'a self, split: &'a Split, shape: &'a Shape) -> LocalFuture<'a, Opened<'a>>;

    /// Starts to read only the beginning of a split. Opening the split later still gives all its records.
    fn preview<'a>(&'a self, split: &'a Split, shape: &'a Shape) -> LocalFuture<'a, Opened<'a>> {
        self.open(split, shape)
    }

    /// The place of a record, for display: `books.jsonl, line 7`.
    fn place(&self, split: &Split, origin: Origin) -> String;
}

/// The reader of a split.
pub type Opened<'a> = Result<Box<dyn Reader + 'a>, TransferError>;

/// Whether the records are from one point in time, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    /// They are.
    Yes(&'static str),
    /// They are not: concurrent writes may or may not be included.
    No(&'static str),
}

/// Approximate limit of one read.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Most records.
    pub records: usize,
    /// Most bytes, unless a single record is larger.
    pub bytes: usize,
}

/// Takes records and the unreadable ones that came with them. Returns whether it wants more.
pub type TakeRecords<'a> = dyn FnMut(&Records, &[Unreadable]) -> Result<bool, TransferError> + 'a;

/// Reads a split on this thread, which must not be inside a runtime. Passes batches of records, and the unreadable ones,
/// to `each`, until it returns false.
///
/// # Errors
/// Errors of the source and of `each`.
pub fn read_split(
    source: &dyn Source,
    split: &Split,
    shape: &Shape,
    room: Room,
    each: &mut TakeRecords<'_>,
) -> Result<(), TransferError> {
    block_on(async {
        let mut reader = source.open(split, shape).await?;
        read_to_end(&mut *reader, room, |records, _, _| each(records, &records.bad)).await.map(drop)
    })
}

/// Reads until the end, or until `each` wants no more records. `each` gets the records of a read, whether it was the last
/// one, and the bytes read so far. Returns false if `each` stopped.
pub(crate) async fn read_to_end(
    reader: &mut dyn Reader,
    room: Room,
    mut each: impl FnMut(&Records, bool, u64) -> Result<bool, TransferError>,
) -> Result<bool, TransferError> {
    let mut records = Records::new();
    loop {
        records.clear();
        let last = !poll_fn(|cx| reader.poll_read(cx, room, &mut records)).await?;
        let go_on = each(&records, last, reader.counted().bytes)?;
        if last || !go_on {
            return Ok(go_on);
        }
    }
}

/// Reads one split.
pub trait Reader {
    /// Adds records to `into` until it is full or no more are available immediately. `Ready(false)` at the end.
    fn poll_read(&mut self, cx: &mut Context<'_>, room: Room, into: &mut Records) -> Poll<Result<bool, TransferError>>;

    /// What it has counted so far.
    fn counted(&self) -> ReadCounts;

    /// Moves the measured requests since the last call to `into`.
    fn requests(&mut self, _into: &mut Vec<Request>) {}
}

/// What a reader has counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadCounts {
    /// Bytes read, as the source counts them.
    pub bytes: u64,
    /// Documents from which a part was dropped, as allowed.
    pub dropped: u64,
    /// Documents whose expiry was dropped, as allowed.
    pub dropped_expiry: u64,
}
