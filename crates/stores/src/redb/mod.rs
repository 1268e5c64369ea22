//! `redb:FILE`: redb, a copy-on-write B-tree. Each collection is a table, and so is each secondary index, whose entries
//! are written in the same transaction as their document.
//!
//! | guarantee | how |
//! |---|---|
//! | `fsync` | `Durability::Immediate`: the file is synced at each commit |
//! | `os` | the same transaction, but redb's storage backend skips every sync: at the commit, and when the file grows. It survives the end of the process. After a power failure the file may not open at all, and then data that was synced before is lost too |
//! | `none` | `Durability::None`: a commit stays in the process's memory until a later `os` or `fsync` commit, or until the close |

mod backend;
mod database;
mod errors;
mod file;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{ReadableTableMetadata, WriteTransaction};
use storebench_engine::store::location::{io_error, path_of};
use storebench_engine::store::ordered_map::{
    self, Change, DatabasePlace, Engine, FoundDatabase, Taken, durabilities, operations_over, strong_reads,
};
use storebench_engine::store::{
    Capabilities, Durability, Isolation, OpKind, Stats, StoreError, StoreSettings, Support, Transactions,
};
use storebench_study::units::ByteSize;

use crate::registry::{OptionHelp, Options, Scheme};
use database::{RedbDatabase, Tables, documents, entries};
use errors::store_error;
use file::{Handle, MARKER};

pub(crate) const SCHEME: Scheme = Scheme {
    name: "redb",
    what: "Embedded redb: a copy-on-write B-tree in one file, with one writer at a time",
    example: "redb:documents.redb",
    options: &[OptionHelp { name: "cache", meaning: "page cache, such as 256MiB (default 1GiB)" }],
    decorator: false,
    aliases: &[],
};

/// The version of the linked crate. A test compares it with the lock file.
const VERSION: &str = "4.5.0";

/// The page cache that the crate makes unless told otherwise, in [`VERSION`].
const DEFAULT_CACHE_BYTES: u64 = 1 << 30;

type Opened = ordered_map::Opened<RedbDatabase>;

/// The engine, for the database in a file.
#[derive(Debug)]
pub(crate) struct Redb {
    path: PathBuf,
    cache: Option<ByteSize>,
}

/// Reads the URL. Does not access the file.
pub(crate) fn engine(path: &str, options: &mut Options<'_>) -> Result<Redb, StoreError> {
    let cache = options.parse("cache")?;
    let path = path_of(SCHEME.name, path, SCHEME.example)?;
    Ok(Redb { path, cache })
}

impl Redb {
    fn failed(&self, doing: &str) -> impl Fn(redb::Error) -> StoreError {
        move |error| store_error(&self.path, doing, error)
    }
}

/// Creates and removes tables, and writes the marker.
fn change(transaction: &WriteTransaction, change: &Change) -> Result<(), redb::Error> {
    for table in &change.documents {
        transaction.open_table(documents(table))?;
    }
    for table in &change.indexes {
        transaction.open_table(entries(table))?;
    }
    for table in &change.removed {
        transaction.delete_table(documents(table))?;
    }
    // This fails for a table of the same name with other types, which belongs to somebody else.
    let mut rows = transaction.open_table(MARKER)?;
    // Rows of a newer version stay.
    rows.retain(|row, _| row != "file" && !row.starts_with("collection ") && !row.starts_with("index "))?;
    let Some(marker) = &change.marker else {
        drop(rows);
        return Ok(transaction.delete_table(MARKER).map(drop)?);
    };
    rows.insert("file", if marker.made { "made" } else { "found" })?;
    for (row, detail) in marker.rows() {
        rows.insert(row.as_str(), detail.as_str())?;
    }
    Ok(())
}

impl Engine for Redb {
    type Database = RedbDatabase;
    const VERSION: &'static str = VERSION;
    const COMPACTS_ALONE: bool = true;

    fn path(&self) -> &Path {
        &self.path
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities {
            operations: operations_over(
                "reads, checks and writes in one transaction",
                &[
                    (
                        &[OpKind::BulkInsert],
                        "one insert per document, in one transaction; if an insert replaces a document, the driver \
                         restores that document and looks up each later key before it inserts",
                    ),
                    (&[OpKind::BulkUpsert, OpKind::BulkDelete], "one call per document, in one transaction"),
                ],
            ),
            durability: durabilities([
                "Durability::None: in the process's memory until a later os or fsync commit, or until the close",
                "Durability::Immediate without the syncs at commits and when the file grows: handed to the operating \
                 system; a power failure may damage the file, and then data that was synced before may be lost too",
                "Durability::Immediate: synced to disk at each commit",
            ]),
            shipped_durability: Durability::FSYNC,
            consistency: strong_reads("each read is a transaction that sees the latest commit"),
            notes: vec![
                "Each write is a separate transaction, and only one runs at a time. Waiting for a turn has no timeout.",
                "If a database was not closed cleanly, opening it repairs it, which reads the complete database.",
            ],
            transactions: Transactions {
                isolation: vec![(Isolation::Serializable, "one write transaction, and only one runs at a time")],
                steps: Transactions::STEPS,
                rolls_back: true,
                waits_for_nodes: true,
                ..Transactions::default()
            },
            ..Capabilities::default()
        };
        capabilities.operations.push((OpKind::Transaction, Support::Native));
        capabilities
    }

    fn tables(&self, database: &RedbDatabase) -> Result<Vec<String>, StoreError> {
        let read = || -> Result<_, redb::Error> { file::tables(&database.0.begin_read()?) };
        read().map_err(self.failed("read its tables"))
    }

    fn collection(&self, database: &RedbDatabase, name: &str, indexes: Vec<String>) -> Result<Tables, StoreError> {
        let transaction = database.0.begin_read().map_err(|e| self.failed("read it")(e.into()))?;
        if let Err(error) = transaction.open_table(documents(name)) {
            let text = format!("{}: the table `{name}` does not map text to bytes ({error})", self.path.display());
            return Err(StoreError::NotSupported(text));
        }
        Ok(Tables { documents: name.to_owned(), indexes })
    }

    fn change(&self, database: &RedbDatabase, wanted: &Change) -> Result<(), StoreError> {
        let Handle::Write(database) = &database.0 else { return Ok(()) };
        let run = || -> Result<(), redb::Error> {
            let transaction = database.begin_write()?;
            change(&transaction, wanted)?;
            Ok(transaction.commit()?)
        };
        run().map_err(self.failed("change its tables"))
    }

    /// An empty commit writes what the level `none` left in memory.
    fn sync(&self, database: &RedbDatabase) -> Result<(), StoreError> {
        let Handle::Write(database) = &database.0 else { return Ok(()) };
        let run = || -> Result<(), redb::Error> { Ok(database.begin_write()?.commit()?) };
        run().map_err(self.failed("settle"))
    }

    fn compact(&self, opened: &mut Arc<Opened>) -> Result<(), StoreError> {
        let refused = |why: &str| Err(StoreError::NotSupported(format!("{}: {why}", self.path.display())));
        match Arc::get_mut(opened) {
            Some(Opened { database: RedbDatabase(Handle::Write(database)), ours: true, .. }) => {
                database.compact().map(drop).map_err(|e| store_error(&self.path, "compact it", e))
            }
            Some(_) => refused("compaction rewrites the whole file, which does not belong to Storebench alone"),
            None => refused("redb compacts only while no session is open; close the sessions first"),
        }
    }

    fn stats(&self, opened: Option<&Opened>) -> Result<Stats, StoreError> {
        let file_bytes = std::fs::metadata(&self.path).map_or(0.0, |m| m.len() as f64);
        let mut stats = vec![("file_bytes".to_owned(), file_bytes)];
        let Some(opened) = opened else { return Ok(stats) };
        let (mut stored, mut metadata, mut fragmented, mut height) = (0, 0, 0, 0);
        let mut read = || -> Result<(), redb::Error> {
            let transaction = opened.database.0.begin_read()?;
            for Tables { documents: table, indexes } in opened.collections.iter().map(|collection| &collection.tables) {
                let mut tables = vec![transaction.open_table(documents(table))?.stats()?];
                for table in indexes {
                    tables.push(transaction.open_table(entries(table))?.stats()?);
                }
                for table in tables {
                    stored += table.stored_bytes();
                    metadata += table.metadata_bytes();
                    fragmented += table.fragmented_bytes();
                    height = height.max(table.tree_height());
                }
            }
            Ok(())
        };
        read().map_err(self.failed("read its statistics"))?;
        stats.push(("stored_bytes".to_owned(), stored as f64));
        stats.push(("metadata_bytes".to_owned(), metadata as f64));
        stats.push(("fragmented_bytes".to_owned(), fragmented as f64));
        stats.push(("tree_height".to_owned(), f64::from(height)));
        Ok(stats)
    }

    fn own_settings(&self) -> StoreSettings {
        let cache_bytes = self.cache.map_or(DEFAULT_CACHE_BYTES, ByteSize::bytes);
        let mut settings = StoreSettings { memory_bytes: Some(cache_bytes), ..StoreSettings::default() };
        settings.add("cache_size", ByteSize(cache_bytes).to_string(), Some(cache_bytes != DEFAULT_CACHE_BYTES));
        settings
    }
}

impl DatabasePlace for Redb {
    const RESERVED: &'static str = file::MARKER_NAME;

    fn look(&self, open: Option<&RedbDatabase>) -> Result<FoundDatabase, StoreError> {
        file::look(&self.path, open.map(|database| &database.0))
    }

    fn take(&self, found: &FoundDatabase) -> Result<Option<Taken<RedbDatabase>>, StoreError> {
        let handle = file::take(&self.path, self.cache, found)?;
        Ok(handle.map(|handle| Taken { database: RedbDatabase(handle), lock: None }))
    }

    fn read(&self, _: &FoundDatabase) -> Result<Option<Taken<RedbDatabase>>, StoreError> {
        let handle = file::open_untouched(&self.path, self.cache)?;
        Ok(Some(Taken { database: RedbDatabase(handle), lock: None }))
    }

    fn commit(&self, database: &RedbDatabase, change: &Change) -> Result<(), StoreError> {
        self.change(database, change)
    }

    fn undo(&self) {
        let _ = std::fs::remove_file(&self.path);
    }

    fn destroy(&self, found: &FoundDatabase, _again: bool) -> Result<bool, StoreError> {
        // Take it first, so that nobody else has it open during the removal.
        let Some(_handle) = file::take(&self.path, None, found)? else { return Ok(false) };
        std::fs::remove_file(&self.path).map_err(|e| io_error(&self.path, "remove it", &e))?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_told_is_the_version_linked() {
        let lock = include_str!("../../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"redb\"\nversion = \"{VERSION}\"")));
    }

    #[test]
    fn the_cache_is_told() {
        for (query, value, bytes, changed) in [
            ("", "1GiB", 1 << 30, false),
            ("cache=1GiB", "1GiB", 1 << 30, false),
            ("cache=8MiB", "8MiB", 8 << 20, true),
        ] {
            let settings = engine("it", &mut Options::for_test(query)).unwrap().own_settings();
            let mut expected = StoreSettings { memory_bytes: Some(bytes), ..StoreSettings::default() };
            expected.add("cache_size", value, Some(changed));
            assert_eq!(settings, expected, "{query}");
        }
    }
}
