//! What an engine provides for operations: tables, reads, writes.

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
    /// So many.
    Bulk {
        /// How many.
        items: usize,
        /// Whether nothing is read, so that others need not be kept out before the commit.
        blind: bool,
    },
}

/// Which keys are walked over.
#[derive(Debug, Clone, Copy)]
pub enum KeyRange<'a> {
    /// Those that begin so.
    Prefix(&'a str),
    /// Those from `start` up to but without `end`, which is greater; none for no end.
    From {
        /// The first.
        start: &'a str,
        /// The first that is not wanted.
        end: Option<&'a str>,
    },
}

impl<'a> KeyRange<'a> {
    /// Where to begin and where to end, and what all keys begin with: a walk is over at the first that does not.
    pub fn bounds(self) -> ((Bound<&'a str>, Bound<&'a str>), &'a str) {
        let (start, end, prefix) = match self {
            Self::Prefix(prefix) => (prefix, None, prefix),
            Self::From { start, end } => (start, end, ""),
        };
        // No engine has a key before the empty one, and some take no empty key.
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

/// A database of ordered tables that is open.
pub trait Database: Send + Sync + Sized + 'static {
    /// The engine's name, for errors.
    const NAME: &'static str;
    /// How long a key or an index entry may be.
    const KEY_BYTES: RangeInclusive<usize> = 0..=usize::MAX;
    /// Whether a bulk operation is one transaction. Otherwise each of its items is one.
    const BULK_IS_ATOMIC: bool = true;
    /// Whether a writer reads what it has written itself. Otherwise no key is written twice by one.
    const READS_OWN_WRITES: bool = true;
    /// Whether a document that was read is copied, so that the receiver does not work under the engine's lock.
    const COPIES_READS: bool = false;
    /// Whether documents expire, so that an index may name one that is gone.
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

    /// Begins to read, as of one moment.
    ///
    /// # Errors
    /// What the engine says.
    fn read<'d>(&'d self, tables: &'d Self::Tables) -> Result<Self::Reader<'d>, OpError>;

    /// Shows the document of a key, if there is one.
    ///
    /// # Errors
    /// What the engine says.
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
    /// What the engine says.
    fn contains(&self, tables: &Self::Tables, key: &str) -> Result<bool, OpError> {
        Ok(self.get(tables, key, |_| ())?.is_some())
    }

    /// Runs `work` in a transaction, which survives what `persisted` says. It leaves nothing where it fails.
    ///
    /// # Errors
    /// What `work` or the engine says; *outcome unknown* where the commit may have been done.
    fn write<T>(
        &self,
        tables: &Self::Tables,
        scope: Scope<'_>,
        persisted: Persisted,
        work: impl FnOnce(&mut Self::Writer<'_>) -> Result<T, OpError>,
    ) -> Result<T, OpError>;
}

/// Documents by key. Errors are what the engine says.
#[allow(clippy::missing_errors_doc)]
pub trait Documents {
    /// Shows the document of a key, if there is one.
    fn get<T>(&self, key: &str, show: impl FnOnce(Stored<'_>) -> T) -> Result<Option<T>, OpError>;
}

/// Reads a collection.
#[allow(clippy::missing_errors_doc)]
pub trait Reader: Documents {
    /// Shows documents in key order until `each` says that it has enough.
    fn range(&self, range: KeyRange<'_>, each: impl FnMut(&str, &[u8]) -> Result<bool, OpError>)
    -> Result<(), OpError>;

    /// Shows the entries of an index that begin so, in order, until `each` says that it has enough.
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

    /// Removes a document that is there.
    fn remove(&mut self, key: &str) -> Result<(), OpError>;

    /// Enters something into an index.
    fn enter(&mut self, index: usize, entry: &[u8]) -> Result<(), OpError>;

    /// Takes an entry out of an index.
    fn leave(&mut self, index: usize, entry: &[u8]) -> Result<(), OpError>;

    /// Stores what was made of the stored document, which expires when that would have. `body` may be taken.
    fn amend(&mut self, key: &str, body: &mut Vec<u8>) -> Result<(), OpError> {
        self.put(key, body)
    }

    /// Stores a document unless there is one; false if there is.
    fn insert(&mut self, key: &str, body: &[u8]) -> Result<bool, OpError> {
        Ok(!self.contains(key)? && self.put(key, body).map(|()| true)?)
    }

    /// Stores a document if there is one; false if there is none.
    fn replace(&mut self, key: &str, body: &[u8]) -> Result<bool, OpError> {
        Ok(self.contains(key)? && self.put(key, body).map(|()| true)?)
    }

    /// Removes a document; false if there is none.
    fn take(&mut self, key: &str) -> Result<bool, OpError> {
        Ok(self.contains(key)? && self.remove(key).map(|()| true)?)
    }

    /// Adds bytes to a stored document, where it lies; false if there is none. `None` from engines that write
    /// documents whole.
    fn extend(&mut self, _key: &str, _bytes: &[u8], _in_front: bool) -> Option<bool> {
        None
    }

    /// Lets a document expire; false if there is none. `None` from engines that cannot.
    fn touch(&mut self, _key: &str, _expiry: Duration) -> Option<bool> {
        None
    }

    /// Whether there is surely no document between two keys, both included.
    fn is_vacant(&self, _first: &str, _last: &str) -> bool {
        false
    }

    /// The revision that the last write gave; none where it is the document.
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
    /// Whether nothing is written.
    pub read_only: bool,
    /// Whether nothing in it is somebody else's.
    pub ours: bool,
    /// Behind the database, which is closed first.
    _lock: Option<File>,
}

impl<D: Database> Opened<D> {
    /// A database that nobody else can have.
    pub fn new(database: D, collections: Vec<Collection<D>>) -> Self {
        Self { database, collections, read_only: false, ours: true, _lock: None }
    }

    /// The collections of a layout in a database, with the indexes for which there is a table.
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
    /// What a document is.
    pub body: Body,
    /// Its indexes.
    pub indexes: Indexes,
    /// Where it is.
    pub tables: D::Tables,
}
