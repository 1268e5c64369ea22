//! `redb:FILE`: redb, a copy-on-write B-tree. One table a collection, and one for each secondary
//! index, written in the same transaction as its document.
//!
//! | promise | how |
//! |---|---|
//! | `fsync` | `Durability::Immediate`: the file is synced at each commit |
//! | `os` | the same transaction, with every sync left out by the storage under redb: that of the commit, and those of a growing file. It survives the process's end; after a power failure the file may not open at all, what was synced before included |
//! | `none` | `Durability::None`: a commit stays in the process's memory until a later `os` or `fsync` commit, or the close |

mod backend;
mod database;
mod errors;
mod file;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use redb::{ReadableDatabase, ReadableTableMetadata, TableError, TableHandle, WriteTransaction};
use storebench_engine::store::ordered_map::{self, EmbeddedStore, Engine, durabilities, operations, strong_reads};
use storebench_engine::store::{Capabilities, Holdings, Layout, OpKind, Prepare, Stats, StoreError};
use storebench_study::units::ByteSize;

use crate::location::{guarded, io_error, path_of, sync_parent};
use crate::registry::{OptionHelp, Options, Scheme};
use database::{RedbDatabase, Tables, documents, entries};
use errors::store_error;
use file::{Found, Handle, MARKER, Marker};

pub(crate) const SCHEME: Scheme = Scheme {
    name: "redb",
    what: "redb, built in: a copy-on-write B-tree in one file, one writer at a time",
    example: "redb:documents.redb",
    options: &[OptionHelp { name: "cache", meaning: "page cache, such as 256MiB (default 1GiB)" }],
    decorator: false,
    aliases: &[],
};

/// The version of the crate that is linked in; a test compares it with the lock file.
const VERSION: &str = "4.5.0";

type Opened = ordered_map::Opened<RedbDatabase>;

/// The engine, for the database in a file.
#[derive(Debug)]
pub(crate) struct Redb {
    path: PathBuf,
    cache: Option<ByteSize>,
}

/// Reads the URL; touches nothing.
pub(crate) fn store(url: &str, path: &str, options: &mut Options<'_>) -> Result<EmbeddedStore<Redb>, StoreError> {
    let cache = options.parse("cache")?;
    let path = path_of(SCHEME.name, path, SCHEME.example)?;
    Ok(EmbeddedStore::new(url, Redb { path, cache }))
}

impl Redb {
    fn failed(&self, error: impl Into<redb::Error>) -> StoreError {
        store_error(&self.path, "make the collections in it", error)
    }

    /// Makes what is missing of the layout, in one transaction.
    fn make(&self, handle: &Handle, layout: &Layout, how: Prepare, found: Found, made: bool) -> Result<(), StoreError> {
        let Handle::Write(database) = handle else { return Ok(()) };
        let made_file = made || found.blank();
        let (known, theirs) = match found {
            Found::Database(contents) => (contents.marker, contents.theirs),
            _ => (None, Vec::new()),
        };
        let mut marker = known.unwrap_or(Marker { made_file, ..Marker::default() });
        let before = marker.tables.clone();
        let is_empty = |name: &str| {
            let reading = database.begin_read().map_err(|e| self.failed(e))?;
            match reading.open_table(documents(name)) {
                Ok(table) => table.is_empty().map_err(|e| self.failed(e)),
                Err(TableError::TableDoesNotExist(_)) => Ok(true),
                Err(error) => Err(self.failed(error)),
            }
        };
        let exists = |name: &str| before.made(name) || theirs.iter().any(|table| table == name);
        marker.tables.enter((&self.path, "table"), layout, how, exists, is_empty)?;
        let transaction = database.begin_write().map_err(|e| self.failed(e))?;
        for collection in &marker.tables.collections {
            transaction.open_table(documents(&collection.name)).map_err(|e| self.failed(e))?;
        }
        for index in &marker.tables.indexes {
            transaction.open_table(entries(index)).map_err(|e| self.failed(e))?;
        }
        mark(&transaction, &marker).map_err(|e| self.failed(e))?;
        transaction.commit().map_err(|e| self.failed(e))
    }

    /// Checks that there is what is to be read.
    fn check_readable(&self, handle: &Handle, layout: &Layout, found: &Found) -> Result<(), StoreError> {
        let transaction = handle.begin_read().map_err(|e| store_error(&self.path, "read it", e))?;
        for collection in &layout.collections {
            if let Err(error) = transaction.open_table(documents(&collection.name)) {
                let there = match found {
                    Found::Database(contents) => contents.theirs.join(", "),
                    _ => String::new(),
                };
                return Err(StoreError::NotSupported(format!(
                    "{}: there is no table `{}` from text to bytes to read ({error}); tables of others in it: {there}",
                    self.path.display(),
                    collection.name
                )));
            }
        }
        Ok(())
    }
}

/// Writes the marker.
fn mark(transaction: &WriteTransaction, marker: &Marker) -> Result<(), redb::Error> {
    let mut rows = transaction.open_table(MARKER)?;
    rows.insert("file", if marker.made_file { "made" } else { "found" })?;
    for (row, detail) in marker.tables.rows() {
        rows.insert(row.as_str(), detail.as_str())?;
    }
    Ok(())
}

impl Engine for Redb {
    type Database = RedbDatabase;
    type Found = Found;
    const VERSION: &'static str = VERSION;
    const COMPACTS_ALONE: bool = true;

    fn path(&self) -> &Path {
        &self.path
    }

    fn capabilities(&self) -> Capabilities {
        use OpKind as Kind;
        Capabilities {
            operations: operations(&[
                (
                    &[Kind::Insert, Kind::Replace, Kind::Append, Kind::Prepend, Kind::Counter, Kind::MergePatch],
                    "read, checked and written in one transaction",
                ),
                (
                    &[Kind::BulkInsert],
                    "one insert for each document, in one transaction; where it replaced a document, that is put back, \
                     and documents after it are looked for before they are inserted",
                ),
                (
                    &[Kind::CompareAndSwap],
                    "read, compared with the stored document itself and written in one transaction; a change that was \
                     changed back goes unnoticed",
                ),
                (&[Kind::BulkUpsert, Kind::BulkDelete], "one call for each document, in one transaction"),
                (&[Kind::BulkRead], "one get for each document, in one transaction"),
                (
                    &[Kind::Page],
                    "entries of a table that the driver keeps for each index, then one get for each document",
                ),
            ]),
            durability: durabilities([
                "Durability::None: in the process's memory until a later commit or the close",
                "Durability::Immediate without its syncs, at the commit and where the file grows: handed to the \
                 operating system; after a power failure the file may be damaged, and what was synced before lost",
                "Durability::Immediate: synced to disk at each commit",
            ]),
            consistency: strong_reads("each read is a transaction that sees the last commit"),
            notes: vec![
                "Each write is a transaction of its own, and one is written at a time; waiting for a turn has no \
                 timeout.",
                "A database that was not closed in order is repaired when it is opened, which reads all of it.",
                "Secondary indexes are the driver's: a write to an indexed collection first reads the old document.",
            ],
            ..Capabilities::default()
        }
    }

    fn look(&self, open: Option<&RedbDatabase>) -> Result<(Holdings, Found), StoreError> {
        file::look(&self.path, open.map(|database| &database.handle)).map(|found| (found.holdings(), found))
    }

    fn check(&self, found: &Found, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        crate::existing::refuse_existing("redb", layout)?;
        let path = self.path.display();
        match (how, found) {
            (Prepare::ReadOnly, Found::Nothing | Found::Empty | Found::Other) => {
                Err(StoreError::Unreachable(format!("{path}: there is no redb database to read")))
            }
            (_, Found::Other) => Err(StoreError::NotOurs(format!(
                "{path} is a file that is not a redb database; nothing was touched. Use another path"
            ))),
            (Prepare::ReadOnly, _) => Ok(()),
            _ if layout.collections.iter().any(|collection| collection.name == MARKER.name()) => {
                let name = MARKER.name();
                let text = format!("Storebench keeps the table name `{name}` for itself; rename the collection");
                Err(StoreError::NotSupported(text))
            }
            _ => Ok(()),
        }
    }

    fn open(&self, found: Found, layout: &Layout, how: Prepare) -> Result<Opened, StoreError> {
        let fresh = how.empties() && matches!(found, Found::Database(_)) && !found.blank();
        if fresh {
            std::fs::remove_file(&self.path).map_err(|e| io_error(&self.path, "remove it", &e))?;
        }
        let made_file = fresh || matches!(found, Found::Nothing);
        let found = if fresh { Found::Nothing } else { found };
        let ours = made_file || found.blank() || found.is_ours();
        let handle = if how == Prepare::ReadOnly {
            let handle = file::open_untouched(&self.path, self.cache)?;
            guarded(&self.path, || self.check_readable(&handle, layout, &found))?;
            handle
        } else {
            // Where another process has made the file meanwhile, this fails, and the file is that one's.
            let handle = file::open_writable(&self.path, self.cache, made_file)?;
            if let Err(error) = guarded(&self.path, || self.make(&handle, layout, how, found, made_file)) {
                if made_file {
                    // Before the handle ends, and the lock with it: nobody else has it open.
                    let _ = std::fs::remove_file(&self.path);
                }
                return Err(error);
            }
            handle
        };
        if made_file {
            sync_parent(&self.path)?;
        }
        let has_index = |database: &RedbDatabase, name: &str| {
            database.handle.begin_read().is_ok_and(|reading| reading.open_table(entries(name)).is_ok())
        };
        Opened::new(RedbDatabase { handle, ours }, layout, how, has_index, |_, name, indexes| {
            Ok(Tables { documents: name.to_owned(), indexes })
        })
    }

    fn settle(&self, opened: &Opened, _at_most: Duration) -> Result<bool, StoreError> {
        // redb has no background work.
        self.sync(opened).map(|()| true)
    }

    fn compact(&self, opened: &mut Arc<Opened>) -> Result<(), StoreError> {
        let refused = |why: &str| Err(StoreError::NotSupported(format!("{}: {why}", self.path.display())));
        match Arc::get_mut(opened).map(|opened| &mut opened.database) {
            Some(RedbDatabase { handle: Handle::Write(database), ours: true }) => {
                database.compact().map(drop).map_err(|e| store_error(&self.path, "compact it", e))
            }
            Some(_) => refused("compaction rewrites the whole file, which is not Storebench's alone"),
            None => refused("redb compacts only while no session is open; close the sessions first"),
        }
    }

    fn stats(&self, opened: Option<&Opened>) -> Result<Stats, StoreError> {
        let file_bytes = std::fs::metadata(&self.path).map_or(0.0, |m| m.len() as f64);
        let mut stats = vec![("file_bytes".to_owned(), file_bytes)];
        let Some(opened) = opened else { return Ok(stats) };
        let failed = |e: redb::Error| store_error(&self.path, "read its statistics", e);
        let transaction = opened.database.handle.begin_read().map_err(|e| failed(e.into()))?;
        let (mut stored, mut metadata, mut fragmented, mut height) = (0, 0, 0, 0);
        for Tables { documents: table, indexes } in opened.collections.iter().map(|collection| &collection.tables) {
            let documents = transaction.open_table(documents(table)).map_err(|e| failed(e.into()))?;
            let mut tables = vec![documents.stats().map_err(|e| failed(e.into()))?];
            for table in indexes {
                let table = transaction.open_table(entries(table)).map_err(|e| failed(e.into()))?;
                tables.push(table.stats().map_err(|e| failed(e.into()))?);
            }
            for table in tables {
                stored += table.stored_bytes();
                metadata += table.metadata_bytes();
                fragmented += table.fragmented_bytes();
                height = height.max(table.tree_height());
            }
        }
        stats.push(("stored_bytes".to_owned(), stored as f64));
        stats.push(("metadata_bytes".to_owned(), metadata as f64));
        stats.push(("fragmented_bytes".to_owned(), fragmented as f64));
        stats.push(("tree_height".to_owned(), f64::from(height)));
        Ok(stats)
    }

    fn sync(&self, opened: &Opened) -> Result<(), StoreError> {
        // What `none` left in memory is written by an empty commit.
        let Handle::Write(database) = &opened.database.handle else { return Ok(()) };
        let transaction = database.begin_write().map_err(|e| store_error(&self.path, "settle", e))?;
        transaction.commit().map_err(|e| store_error(&self.path, "settle", e))
    }

    fn remove(&self, found: Found) -> Result<(), StoreError> {
        let all = found.holdings().all_removable();
        let Found::Database(file::Contents { marker: Some(mut marker), .. }) = found else { return Ok(()) };
        if all {
            return std::fs::remove_file(&self.path).map_err(|e| io_error(&self.path, "remove it", &e));
        }
        let failed = |e: redb::Error| store_error(&self.path, "remove Storebench's tables from it", e);
        let Handle::Write(database) = file::open_writable(&self.path, self.cache, false)? else { return Ok(()) };
        let transaction = database.begin_write().map_err(|e| failed(e.into()))?;
        for table in marker.tables.strike_studies() {
            transaction.delete_table(documents(&table)).map_err(|e| failed(e.into()))?;
        }
        transaction.delete_table(MARKER).map_err(|e| failed(e.into()))?;
        if marker.tables.has_users() {
            mark(&transaction, &marker).map_err(failed)?;
        }
        transaction.commit().map_err(|e| failed(e.into()))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_told_is_the_version_linked() {
        let lock = include_str!("../../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"redb\"\nversion = \"{}\"", super::VERSION)));
    }
}
