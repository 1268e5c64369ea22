//! Rows as a stream: for stores that list their keys unordered or stream ranges of them, and for query results.

use std::borrow::Cow;
use std::time::Duration;

use super::{BatchBuf, CollectionId, LocalFuture, StoreError};

/// What to stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows<'a> {
    /// The documents of a prepared collection that are in one part of the store, in no particular order. A document
    /// that exists from the beginning to the end comes at least once, and may come again.
    Walk {
        /// The collection.
        collection: CollectionId,
        /// One of [`Store::parts`](super::Store::parts).
        part: &'a str,
    },
    /// The documents of a prepared collection from one key up to but not including another, each once, in the order of
    /// [`Store::cuts`](super::Store::cuts).
    Range {
        /// The collection.
        collection: CollectionId,
        /// The first key; `None` for the beginning.
        start: Option<&'a str>,
        /// The first key after them; `None` for the end.
        end: Option<&'a str>,
    },
    /// The result of a query in the store's own language, as of one moment. Each row is a JSON object without a key.
    /// The store refuses a query that would write.
    Query(&'a str),
}

/// The kind of [`Rows`], for capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum RowsKind {
    Walk,
    Range,
    Query,
}

/// Rows that arrived together.
#[derive(Debug, Clone, Default)]
pub struct RowPage {
    /// Keys and documents.
    pub rows: BatchBuf,
    /// Positions of rows that expire, ascending, and how long each had left when it was read.
    pub expiring: Vec<(usize, Duration)>,
    /// Positions of rows that have attachments, ascending. These are not read.
    pub attached: Vec<usize>,
    /// Rows with an expiry that the store does not heed, because it removes nothing.
    pub unheeded_expiry: u64,
    /// Rows that cannot be read as a document.
    pub bad: Vec<BadRow>,
}

impl RowPage {
    /// Removes the rows but keeps the memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.expiring.clear();
        self.bad.clear();
        self.attached.clear();
        self.unheeded_expiry = 0;
    }
}

/// A row that is not a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRow {
    /// Its key. Bytes that are not text become U+FFFD.
    pub key: String,
    /// The bytes of a key that is not text.
    pub key_bytes: Option<Box<[u8]>>,
    /// Why.
    pub why: String,
}

impl BadRow {
    /// A row with this key, which may not be text.
    pub fn of(key: &[u8], why: String) -> Self {
        let text = String::from_utf8_lossy(key);
        let key_bytes = matches!(text, Cow::Owned(_)).then(|| key.into());
        Self { key: text.into_owned(), key_bytes, why }
    }
}

/// Returns rows until there are no more.
pub trait RowStream {
    /// Puts the next rows, possibly none, into an emptied page. Returns false when all rows have been returned. After
    /// [`StoreError::Unreachable`] it may be called again, and continues where it was.
    fn next<'a>(&'a mut self, page: &'a mut RowPage) -> LocalFuture<'a, Result<bool, StoreError>>;
}
