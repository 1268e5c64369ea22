//! What an engine is besides its tables, and where its databases are.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Database, Marker, Opened};
use crate::store::{Capabilities, Holdings, Stats, StoreError};

/// An engine that keeps its databases in files of this machine.
#[allow(clippy::missing_errors_doc)]
pub trait Engine: Send + Sync + 'static {
    /// A database that is open.
    type Database: Database;
    /// The version of its crate.
    const VERSION: &'static str;
    /// Its word for a table.
    const TABLE: &'static str = "table";
    /// How long the name of a table may be, in bytes.
    const NAME_BYTES: usize = usize::MAX;
    /// Whether it compacts only what nobody else has open.
    const COMPACTS_ALONE: bool = false;

    /// Where its database is.
    fn path(&self) -> &Path;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// The names of all tables.
    fn tables(&self, database: &Self::Database) -> Result<Vec<String>, StoreError>;

    /// Opens the tables of a collection: documents, and those of its indexes. All of them are there.
    fn collection(
        &self,
        database: &Self::Database,
        documents: &str,
        indexes: Vec<String>,
    ) -> Result<<Self::Database as Database>::Tables, StoreError>;

    /// Makes tables and removes others, in one transaction if it can.
    fn change(&self, database: &Self::Database, change: &Change) -> Result<(), StoreError>;

    /// Brings what was written to the disk.
    fn sync(&self, database: &Self::Database) -> Result<(), StoreError>;

    /// Waits until the database is idle, at most so long; says whether it is.
    fn settle(&self, opened: &Opened<Self::Database>, _at_most: Duration) -> Result<bool, StoreError> {
        self.sync(&opened.database).map(|()| true)
    }

    /// Compacts the database, which is open for writing.
    fn compact(&self, _opened: &mut Arc<Opened<Self::Database>>) -> Result<(), StoreError> {
        Err(StoreError::NotSupported(format!("{} cannot compact a database", Self::Database::NAME)))
    }

    /// What it tells of itself.
    fn stats(&self, database: Option<&Opened<Self::Database>>) -> Result<Stats, StoreError>;
}

/// How databases lie in the file system: found, taken, marked and removed.
#[allow(clippy::missing_errors_doc)]
pub trait DatabasePlace: Engine {
    /// The name of a table that no collection may have.
    const RESERVED: &'static str = "";

    /// Looks, changing nothing. `open` is the database where this store has it open.
    fn look(&self, open: Option<&Self::Database>) -> Result<FoundDatabase, StoreError>;

    /// Opens what was found for writing, such that nobody else has it open, and makes it where nothing is there. None
    /// where it is not what was found any more: others were quicker.
    fn take(&self, found: &FoundDatabase) -> Result<Option<Taken<Self::Database>>, StoreError>;

    /// Opens a database for reading only.
    fn read(&self, found: &FoundDatabase) -> Result<Option<Taken<Self::Database>>, StoreError>;

    /// Makes and removes tables, and notes it in the marker.
    fn commit(&self, database: &Self::Database, change: &Change) -> Result<(), StoreError>;

    /// Takes back what was made, where nothing was and the first commit failed. The database is open.
    fn undo(&self) {}

    /// Removes a database that Storebench made, with all that is in it. `again` says that it is made again next. False
    /// where it is not what was found any more: nothing was removed.
    fn destroy(&self, found: &FoundDatabase, again: bool) -> Result<bool, StoreError>;
}

/// What a look found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundDatabase {
    /// Whether there is a file or folder of the name.
    pub exists: bool,
    /// Whether it is a database of the engine.
    pub database: bool,
    /// Whether it is something else, to which nothing can be added.
    pub other: bool,
    /// What is somebody else's, in words.
    pub foreign: Option<String>,
    /// Tables that Storebench did not make, as far as a look tells.
    pub theirs: Vec<String>,
    /// Storebench's record.
    pub marker: Option<Marker>,
    /// What is wrong with the user's data, so that only discarding it is left.
    pub damage: Option<String>,
}

impl FoundDatabase {
    pub(super) fn holdings(&self) -> Holdings {
        Holdings {
            absent: self.marker.is_none() && self.foreign.is_none(),
            foreign: self.foreign.clone(),
            made: self.marker.as_ref().map(|marker| marker.made),
            marked: self.marker.as_ref().map(|marker| marker.collections.clone()).unwrap_or_default(),
            ..Holdings::default()
        }
    }

    /// Whether a later look found the same, but for an empty file or folder that was made since.
    pub fn is_still(&self, now: &Self) -> bool {
        *self == Self { exists: self.exists, database: self.database, ..now.clone() }
    }
}

/// A database that is open.
pub struct Taken<D> {
    /// The database.
    pub database: D,
    /// What keeps others out as long as it is open, where the engine does not.
    pub lock: Option<File>,
}

/// What becomes of tables.
#[derive(Debug, Default)]
pub struct Change {
    /// Tables of documents that are to be there.
    pub documents: Vec<String>,
    /// Tables of indexes that are to be there.
    pub indexes: Vec<String>,
    /// Tables that go, some of which may not be there.
    pub removed: Vec<String>,
    /// The record afterwards; none where it goes.
    pub marker: Option<Marker>,
}
