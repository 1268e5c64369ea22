//! What an engine is besides its tables, and where its databases are.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Database, Marker, Opened};
use crate::store::{Capabilities, Holdings, Stats, StoreError, StoreSettings};

/// An engine that keeps its databases in files of this machine.
#[allow(clippy::missing_errors_doc)]
pub trait Engine: Send + Sync + 'static {
    /// An open database.
    type Database: Database;
    /// The version of its crate.
    const VERSION: &'static str;
    /// Its word for a table.
    const TABLE: &'static str = "table";
    /// The longest name of a table, in bytes.
    const NAME_BYTES: usize = usize::MAX;
    /// Whether it can only compact a database that nobody else has open.
    const COMPACTS_ALONE: bool = false;

    /// Where its database is.
    fn path(&self) -> &Path;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// The names of all tables.
    fn tables(&self, database: &Self::Database) -> Result<Vec<String>, StoreError>;

    /// Opens the tables of a collection: its documents and its indexes. All of them exist.
    fn collection(
        &self,
        database: &Self::Database,
        documents: &str,
        indexes: Vec<String>,
    ) -> Result<<Self::Database as Database>::Tables, StoreError>;

    /// Creates tables and removes others, in one transaction if it can.
    fn change(&self, database: &Self::Database, change: &Change) -> Result<(), StoreError>;

    /// Syncs what was written to disk.
    fn sync(&self, database: &Self::Database) -> Result<(), StoreError>;

    /// Waits until the database is idle, at most this long. Returns whether it is.
    fn settle(&self, opened: &Opened<Self::Database>, _at_most: Duration) -> Result<bool, StoreError> {
        self.sync(&opened.database).map(|()| true)
    }

    /// Compacts the database, which is open for writing.
    fn compact(&self, _opened: &mut Arc<Opened<Self::Database>>) -> Result<(), StoreError> {
        Err(StoreError::NotSupported(format!("{} cannot compact a database", Self::Database::NAME)))
    }

    /// The statistics that it reports.
    fn stats(&self, database: Option<&Opened<Self::Database>>) -> Result<Stats, StoreError>;

    /// How it is set up, whether or not the database is open.
    fn own_settings(&self) -> StoreSettings {
        StoreSettings::default()
    }
}

/// How databases are kept in the file system: found, taken, marked and removed.
#[allow(clippy::missing_errors_doc)]
pub trait DatabasePlace: Engine {
    /// A table name that no collection may have.
    const RESERVED: &'static str = "";

    /// Looks without changing anything. `open` is the database, if this store has it open.
    fn look(&self, open: Option<&Self::Database>) -> Result<FoundDatabase, StoreError>;

    /// Opens what was found for writing, so that nobody else has it open. Creates it if nothing is there. `None` if it
    /// has changed since `found`, because others were faster.
    fn take(&self, found: &FoundDatabase) -> Result<Option<Taken<Self::Database>>, StoreError>;

    /// Opens a database for reading only.
    fn read(&self, found: &FoundDatabase) -> Result<Option<Taken<Self::Database>>, StoreError>;

    /// Creates and removes tables, and records this in the marker.
    fn commit(&self, database: &Self::Database, change: &Change) -> Result<(), StoreError>;

    /// Removes what was created, if nothing was there before and the first commit failed. The database is open.
    fn undo(&self) {}

    /// Removes a database that Storebench created, with everything in it. `again` means that it will be created again
    /// next. Returns false, with nothing removed, if it has changed since `found`.
    fn destroy(&self, found: &FoundDatabase, again: bool) -> Result<bool, StoreError>;
}

/// What a look found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundDatabase {
    /// Whether there is a file or folder of this name.
    pub exists: bool,
    /// Whether it is a database of the engine.
    pub database: bool,
    /// Whether it is something else that nothing can be added to.
    pub other: bool,
    /// What belongs to somebody else, in words.
    pub foreign: Option<String>,
    /// Tables that Storebench did not create, as far as a look can tell.
    pub theirs: Vec<String>,
    /// Storebench's record.
    pub marker: Option<Marker>,
    /// What is wrong with the user's data, if it can only be discarded.
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

    /// Whether a later look found the same, except for an empty file or folder that was created since.
    pub fn is_still(&self, now: &Self) -> bool {
        *self == Self { exists: self.exists, database: self.database, ..now.clone() }
    }
}

/// An open database.
pub struct Taken<D> {
    /// The database.
    pub database: D,
    /// Keeps others out while it is open, if the engine does not.
    pub lock: Option<File>,
}

/// Changes to the tables.
#[derive(Debug, Default)]
pub struct Change {
    /// Tables of documents that must exist afterwards.
    pub documents: Vec<String>,
    /// Tables of indexes that must exist afterwards.
    pub indexes: Vec<String>,
    /// Tables to remove. Some of them may not exist.
    pub removed: Vec<String>,
    /// The record afterwards; `None` if it is removed.
    pub marker: Option<Marker>,
}
