//! What an engine provides for operations: tables, reads and writes.

use std::fs::File;
use std::ops::{Bound, RangeInclusive};
use std::time::Duration;

use super::marker::index_tables;
use super::{Engine, Indexes, Taken};
use crate::store::{CollectionLayout, OpError, Persisted, StoreError};
use storebench_study::workload::Body;

/// Which documents a transaction writes.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// The document of this key.
    Key(&'a str),
    /// Several documents.
    Bulk {
        /// How many.
        items: usize,
        /// Whether nothing is read, so that others need not be kept out before the commit.
        blind: bool,
    },
}

/// Which keys to walk over.
#[derive(Debug, Clone, Copy)]
pub enum KeyRange<'a> {
    /// Those with this prefix.
    Prefix(&'a str),
    /// Those from `start` up to but not including `end`, which is greater; `None` for no end.
    From {
        /// The first key.
        start: &'a str,
        /// The first key that is not wanted.
        end: Option<&'a str>,
    },
}

impl<'a> KeyRange<'a> {
    /// The bounds, and the prefix that all keys have: a walk is over at the first key without it.
    pub fn bounds(self) -> ((Bound<&'a str>, Bound<&'a str>), &'a str) {
        let (start, end, prefix) = match self {
            Self::Prefix(prefix) => (prefix, None, prefix),
            Self::From { start, end } => (start, end, ""),
        };
        // No engine has a key before the empty one, and some engines do not accept an empty key.
        let start = if start.is_empty() { Bound::Unbounded } else { Bound::Included(start) };
        ((start, end.map_or(Bound::Unbounded, Bound::Excluded)), prefix)
    }
}

/// A stored document.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    /// The document.
    pub body: &'a [u8],
    /// Its revision.
    pub revision: &'a [u8],
}

impl<'a> From<&'a [u8]> for Stored<'a> {
    fn from(body: &'a [u8]) -> Self {
        Self { body, revision: body }
    }
}

/// An open database of ordered tables.
pub trait Database: Send + Sync + Sized + 'static {
    /// The engine's name, for errors.
    const NAME: &'static str;
    /// The allowed lengths of a key or an index entry, in bytes.
    const KEY_BYTES: RangeInclusive<usize> = 0..=usize::MAX;
    /// Whether a bulk operation is one transaction. Otherwise each of its items is a transaction.
    const BULK_IS_ATOMIC: bool = true;
    /// Whether a writer reads its own writes. Otherwise no writer writes a key twice.
    const READS_OWN_WRITES: bool = true;
    /// Whether a document that was read is copied, so that its receiver does not run under the engine's lock.
    const COPIES_READS: bool = false;
    /// Whether documents expire, so that an index may name a document that is gone.
    const EXPIRES: bool = false;
    /// Whether a page by a field without an index reads every document. Otherwise it is refused.
    const PAGES_BY_SCAN: bool = true;

    /// The tables of a collection: documents, and one for each index.
    type Tables: Send + Sync;
    /// Reads a collection.
    type Reader<'d>: Reader
    where
        Self: 'd;
    /// Writes into a collection.
    type Writer<'w>: Writer;

    /// Begins a read that sees one moment.
    ///
    /// # Errors
    /// The errors of the engine.
    fn read<'d>(&'d self, tables: &'d Self::Tables) -> Result<Self::Reader<'d>, OpError>;

    /// Passes the document of a key to `show`, if there is one.
    ///
    /// # Errors
    /// The errors of the engine.
    fn get<T>(
        &self,
        tables: &Self::Tables,
        key: &str,
        show: impl FnOnce(Stored<'_>) -> T,
    ) -> Result<Option<T>, OpError> {
        self.read(tables)?.get(key, show)
    }

    /// Whether there is a document.
    ///
    /// # Errors
    /// The errors of the engine.
    fn contains(&self, tables: &Self::Tables, key: &str) -> Result<bool, OpError> {
        Ok(self.get(tables, key, |_| ())?.is_some())
    }

    /// Runs `work` in a transaction, which survives what `persisted` says. If `work` fails, nothing is written.
    ///
    /// # Errors
    /// The errors of `work` and of the engine; *outcome unknown* if the commit may have been applied.
    fn write<T>(
        &self,
        tables: &Self::Tables,
        scope: Scope<'_>,
        persisted: Persisted,
        work: impl FnOnce(&mut Self::Writer<'_>) -> Result<T, OpError>,
    ) -> Result<T, OpError>;

    /// Runs `work` in one transaction over several collections, each with its writer, in the order of `tables`. If `work`
    /// fails, nothing is written. No other transaction writes meanwhile.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    fn transact<T>(
        &self,
        _tables: &[&Self::Tables],
        _persisted: Persisted,
        _work: impl FnOnce(&mut [Self::Writer<'_>]) -> Result<T, OpError>,
    ) -> Result<T, OpError> {
        Err(OpError::unsupported())
    }
}

/// Documents by key. Errors are those of the engine.
#[allow(clippy::missing_errors_doc)]
pub trait Documents {
    /// Passes the document of a key to `show`, if there is one.
    fn get<T>(&self, key: &str, show: impl FnOnce(Stored<'_>) -> T) -> Result<Option<T>, OpError>;
}

/// Reads a collection.
#[allow(clippy::missing_errors_doc)]
pub trait Reader: Documents {
    /// Passes documents to `each` in key order, until it returns true.
    fn range(&self, range: KeyRange<'_>, each: impl FnMut(&str, &[u8]) -> Result<bool, OpError>)
    -> Result<(), OpError>;

    /// Passes the entries of an index with this prefix to `each`, in order, until it returns true.
    fn entries(
        &self,
        index: usize,
        prefix: &[u8],
        each: impl FnMut(&[u8]) -> Result<bool, OpError>,
    ) -> Result<(), OpError>;
}

/// Writes into a collection.
#[allow(clippy::missing_errors_doc)]
pub trait Writer: Documents {
    /// Whether there is a document.
    fn contains(&self, key: &str) -> Result<bool, OpError> {
        Ok(self.get(key, |_| ())?.is_some())
    }

    /// Stores a document, whether or not there is one.
    fn put(&mut self, key: &str, body: &[u8]) -> Result<(), OpError>;

    /// Removes a document that exists.
    fn remove(&mut self, key: &str) -> Result<(), OpError>;

    /// Adds an entry to an index.
    fn enter(&mut self, index: usize, entry: &[u8]) -> Result<(), OpError>;

    /// Removes an entry from an index.
    fn leave(&mut self, index: usize, entry: &[u8]) -> Result<(), OpError>;

    /// Stores a changed form of the stored document and keeps its expiry. `body` may be taken.
    fn amend(&mut self, key: &str, body: &mut Vec<u8>) -> Result<(), OpError> {
        self.put(key, body)
    }

    /// Stores a document unless there is one; false if there is.
    fn insert(&mut self, key: &str, body: &[u8]) -> Result<bool, OpError> {
        Ok(!self.contains(key)? && self.put(key, body).map(|()| true)?)
    }

    /// Stores a document if there already is one; false if there is none.
    fn replace(&mut self, key: &str, body: &[u8]) -> Result<bool, OpError> {
        Ok(self.contains(key)? && self.put(key, body).map(|()| true)?)
    }

    /// Removes a document; false if there is none.
    fn take(&mut self, key: &str) -> Result<bool, OpError> {
        Ok(self.contains(key)? && self.remove(key).map(|()| true)?)
    }

    /// Adds bytes to a stored document in place; false if there is none. `None` from engines that only write whole
    /// documents.
    fn extend(&mut self, _key: &str, _bytes: &[u8], _in_front: bool) -> Option<bool> {
        None
    }

    /// Lets a document expire; false if there is none. `None` from engines without expiry.
    fn touch(&mut self, _key: &str, _expiry: Duration) -> Option<bool> {
        None
    }

    /// Whether there is certainly no document between two keys, both included.
    fn is_vacant(&self, _first: &str, _last: &str) -> bool {
        false
    }

    /// The revision of the last write; `None` if the document is its own revision.
    fn written_revision(&self) -> Option<[u8; 8]> {
        None
    }
}

/// An open database with the collections of a layout.
pub struct Opened<D: Database> {
    /// The database.
    pub database: D,
    /// In the order of the layout.
    pub collections: Vec<Collection<D>>,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Whether nothing in it belongs to somebody else.
    pub ours: bool,
    /// Declared after the database, so that the database is closed first.
    _lock: Option<File>,
}

impl<D: Database> Opened<D> {
    /// A database that nobody else can have open.
    pub fn new(database: D, collections: Vec<Collection<D>>) -> Self {
        Self { database, collections, read_only: false, ours: true, _lock: None }
    }

    /// The collections of a layout in a database, with the indexes that have a table.
    pub(super) fn of<'l, E: Engine<Database = D>>(
        engine: &E,
        Taken { database, lock }: Taken<D>,
        layouts: impl Iterator<Item = &'l CollectionLayout>,
        has_index: impl Fn(&String) -> bool,
        read_only: bool,
        ours: bool,
    ) -> Result<Self, StoreError> {
        let open = |layout: &CollectionLayout| {
            let tables = index_tables(layout).zip(&layout.indexes).filter(|(table, _)| has_index(table));
            let (tables, fields): (Vec<_>, Vec<_>) = tables.map(|(table, fields)| (table, fields.clone())).unzip();
            let tables = engine.collection(&database, &layout.name, tables)?;
            Ok(Collection { body: layout.body, indexes: Indexes::new(&fields), tables })
        };
        let collections = layouts.map(open).collect::<Result<_, StoreError>>()?;
        Ok(Self { database, collections, read_only, ours, _lock: lock })
    }
}

/// A collection of an open database.
pub struct Collection<D: Database> {
    /// What kind of documents it holds.
    pub body: Body,
    /// Its indexes.
    pub indexes: Indexes,
    /// Its tables.
    pub tables: D::Tables,
}
