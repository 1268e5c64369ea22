//! The database file: its contents and owners, and opening it.
//!
//! The marker is the table `storebench_marker`, which maps text to text: `file` to `made` or `found`, `collection NAME`
//! to the kind of its bodies and its owner, and `index TABLE` to an empty text.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use redb::backends::FileBackend;
use redb::{
    Builder, Database, DatabaseError, ReadOnlyDatabase, ReadTransaction, ReadableDatabase, ReadableTable,
    TableDefinition, TableError, TableHandle,
};
use storebench_engine::store::location::{IN_USE, check_parent, io_error, kind_of, sync_parent};
use storebench_engine::store::ordered_map::{FoundDatabase, Marker};
use storebench_engine::store::{StoreError, several};
use storebench_study::units::ByteSize;

use super::backend::{Overlay, SyncedOnDemand};
use super::errors::store_error;

pub(super) const MARKER_NAME: &str = "storebench_marker";
pub(super) const MARKER: TableDefinition<'_, &str, &str> = TableDefinition::new(MARKER_NAME);
const HEADER: &[u8] = b"redb\x1A\x0A\xA9\x0D\x0A";

/// An open database.
pub(super) enum Handle {
    /// For reading and writing.
    Write(Database),
    /// For reading. It was closed cleanly.
    Read(ReadOnlyDatabase),
    /// For reading. It was not closed cleanly and was repaired in memory.
    Repaired(Database),
}

impl Handle {
    pub(super) fn begin_read(&self) -> Result<ReadTransaction, redb::TransactionError> {
        match self {
            Self::Write(database) | Self::Repaired(database) => database.begin_read(),
            Self::Read(database) => database.begin_read(),
        }
    }
}

fn builder(cache: Option<ByteSize>) -> Builder {
    let mut builder = Builder::new();
    if let Some(cache) = cache {
        builder.set_cache_size(usize::try_from(cache.bytes()).unwrap_or(usize::MAX));
    }
    builder
}

/// Opens the file without changing it.
pub(super) fn open_untouched(path: &Path, cache: Option<ByteSize>) -> Result<Handle, StoreError> {
    match builder(cache).open_read_only(path) {
        Ok(database) => Ok(Handle::Read(database)),
        Err(DatabaseError::RepairAborted) => {
            let file = File::open(path).map_err(|e| io_error(path, "open it for reading", &e))?;
            let overlay = Overlay::new(file).map_err(|e| io_error(path, "read it", &e))?;
            let database = builder(cache).create_with_backend(overlay);
            database.map(Handle::Repaired).map_err(|e| store_error(path, "repair a copy of it in memory", e))
        }
        Err(error) => Err(store_error(path, "open it for reading", error)),
    }
}

/// Looks at the path without changing anything. `open` is the database, if this store has it open.
pub(super) fn look(path: &Path, open: Option<&Handle>) -> Result<FoundDatabase, StoreError> {
    check_parent(path)?;
    match look_once(path, open) {
        // Somebody removed it meanwhile.
        Err(_) if std::fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) => {
            Ok(FoundDatabase::default())
        }
        found => found,
    }
}

fn look_once(path: &Path, open: Option<&Handle>) -> Result<FoundDatabase, StoreError> {
    let there = FoundDatabase { exists: true, ..FoundDatabase::default() };
    let other = |what: String| Ok(FoundDatabase { other: true, foreign: Some(what), ..there.clone() });
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FoundDatabase::default()),
        Err(error) => return Err(io_error(path, "read it", &error)),
        Ok(metadata) if metadata.is_dir() => {
            return Err(StoreError::Unreachable(format!(
                "{}: this is a folder; name the database file itself, such as redb:{}/documents.redb",
                path.display(),
                path.display()
            )));
        }
        Ok(metadata) if !metadata.is_file() => return other("a pipe or a device".to_owned()),
        // redb takes a file of 0 bytes for a database that is still to be created.
        Ok(metadata) if metadata.len() == 0 => return Ok(there),
        Ok(_) => {}
    }
    if let Some(handle) = open {
        return contents(path, handle);
    }
    let mut header = Vec::with_capacity(HEADER.len());
    let file = File::open(path).map_err(|e| io_error(path, "read it", &e))?;
    (&file).take(HEADER.len() as u64).read_to_end(&mut header).map_err(|e| io_error(path, "read it", &e))?;
    if header != HEADER {
        // A process that creates a database holds its lock, and writes the header last.
        let unwritten = header.iter().all(|byte| *byte == 0);
        if unwritten && matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
            return Err(StoreError::Unreachable(format!("{}: {IN_USE}", path.display())));
        }
        return other(kind_of(path));
    }
    contents(path, &open_untouched(path, None)?)
}

/// The contents of a database. An empty one, as after a kill between creating and marking the file, belongs to nobody.
fn contents(path: &Path, handle: &Handle) -> Result<FoundDatabase, StoreError> {
    let failed = |e: redb::Error| store_error(path, "read its tables", e);
    let transaction = handle.begin_read().map_err(|e| failed(e.into()))?;
    let mut theirs = tables(&transaction).map_err(failed)?;
    let multimaps = transaction.list_multimap_tables().map_err(|e| failed(e.into()))?;
    theirs.extend(multimaps.map(|table| redb::MultimapTableHandle::name(&table).to_owned()));
    theirs.sort();
    let marker = match transaction.open_table(MARKER) {
        Ok(table) => {
            let (mut marker, mut marks) = (Marker::default(), false);
            for row in table.iter().map_err(|e| failed(e.into()))? {
                let (name, detail) = row.map_err(|e| failed(e.into()))?;
                match name.value() {
                    "file" => (marks, marker.made) = (true, detail.value() == "made"),
                    row => marker.read(row, detail.value()),
                }
            }
            // Without the row `file`, the table belongs to somebody else and only has this name.
            marks.then_some(marker)
        }
        Err(TableError::TableDoesNotExist(_) | TableError::TableTypeMismatch { .. }) => None,
        Err(error) => return Err(failed(error.into())),
    };
    theirs.retain(|name| marker.as_ref().is_none_or(|marker| name != MARKER_NAME && !marker.names(name)));
    let whole = theirs.is_empty() && marker.as_ref().is_none_or(|marker| marker.made);
    let foreign = (!whole).then(|| {
        let what = several("table", &theirs).unwrap_or_else(|| "no other tables".to_owned());
        let ours = marker.as_ref().map(|marker| format!(" besides {} of Storebench's", marker.collections.len()));
        format!("a redb database with {what}{}", ours.unwrap_or_default())
    });
    Ok(FoundDatabase { exists: true, database: true, foreign, theirs, marker, ..FoundDatabase::default() })
}

/// The names of the tables in a database.
pub(super) fn tables(transaction: &ReadTransaction) -> Result<Vec<String>, redb::Error> {
    Ok(transaction.list_tables()?.map(|table| table.name().to_owned()).collect())
}

/// Opens the database that was found for writing, or creates it. `None` if it has changed since it was found.
pub(super) fn take(path: &Path, cache: Option<ByteSize>, found: &FoundDatabase) -> Result<Option<Handle>, StoreError> {
    let file = OpenOptions::new().read(true).write(true).create_new(!found.exists).open(path);
    let file = match file {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {
            return Ok(None);
        }
        Err(error) => {
            return Err(io_error(path, if found.exists { "open it for writing" } else { "create it" }, &error));
        }
    };
    if !found.exists {
        sync_parent(path)?;
    }
    let opened = file.metadata().map_err(|e| io_error(path, "read it", &e))?;
    let backend = FileBackend::new(file).map_err(|e| store_error(path, "open it", e))?;
    let database = builder(cache).create_with_backend(SyncedOnDemand(backend));
    let handle = Handle::Write(database.map_err(|e| store_error(path, "open it", e))?);
    // Now nobody else can open it. Check whether the path has another file, or the contents have changed.
    let same = std::fs::metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == (opened.dev(), opened.ino()));
    Ok((same && found.is_still(&contents(path, &handle)?)).then_some(handle))
}
