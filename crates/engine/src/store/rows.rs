//! Rows as a stream: for stores that list their keys in no order or stream ranges of them, and for what queries give.

use std::time::Duration;

use super::{BatchBuf, CollectionId, LocalFuture, StoreError};

/// What is streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows<'a> {
    /// The documents of a prepared collection that are in one part of the store, in no order. What is there
    /// from the beginning to the end comes at least once, and may come again.
    Walk {
        /// The collection.
        collection: CollectionId,
        /// One of [`Store::parts`](super::Store::parts).
        part: &'a str,
    },
    /// The documents of a prepared collection from one key up to but without another, each once, in the order of
    /// [`Store::cuts`](super::Store::cuts).
    Range {
        /// The collection.
        collection: CollectionId,
        /// The first key; none for the beginning.
        start: Option<&'a str>,
        /// The first key behind them; none for the end.
        end: Option<&'a str>,
    },
    /// What a query in the store's own language gives, all of one moment: each row a JSON object, without a
    /// key. The store refuses one that would write.
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

/// Rows that came together.
#[derive(Debug, Clone, Default)]
pub struct RowPage {
    /// Keys and documents.
    pub rows: BatchBuf,
    /// Positions of those that expire, ascending, and how long each had left when it was read.
    pub expiring: Vec<(usize, Duration)>,
    /// What is there and cannot be read as a document.
    pub bad: Vec<BadRow>,
}

impl RowPage {
    /// Forgets the rows, keeps the memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.expiring.clear();
        self.bad.clear();
    }
}

/// A row that is no document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRow {
    /// Its key; what of it is no text becomes U+FFFD.
    pub key: String,
    /// Why.
    pub why: String,
}

/// Gives rows until there are no more.
pub trait RowStream {
    /// Puts the next rows, perhaps none, into an emptied page; false when all have been given. After
    /// [`StoreError::Unreachable`] it may be asked again, and goes on where it was.
    fn next<'a>(&'a mut self, page: &'a mut RowPage) -> LocalFuture<'a, Result<bool, StoreError>>;
}
