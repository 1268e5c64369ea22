//! The database file: what is in it, whose it is, making and removing it.
//!
//! The marker is the table `storebench_marker`, text to text: `file` to `made` or `found`,
//! `collection NAME` to what its bodies are and its owner, `index TABLE` to nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

use redb::backends::FileBackend;
use redb::{
    Builder, Database, DatabaseError, ReadOnlyDatabase, ReadTransaction, ReadableDatabase, ReadableTable,
    TableDefinition, TableError, TableHandle,
};
use storebench_engine::store::ordered_map::Marker as Tables;
use storebench_engine::store::{Holdings, Namespace, StoreError};
use storebench_study::units::ByteSize;

use super::backend::{Overlay, SyncedOnDemand};
use super::errors::store_error;
use crate::location::{check_parent, guarded, io_error};

pub(super) const MARKER: TableDefinition<'_, &str, &str> = TableDefinition::new("storebench_marker");
const HEADER: &[u8] = b"redb\x1A\x0A\xA9\x0D\x0A";

/// An open database.
pub(super) enum Handle {
    /// For reading and writing.
    Write(Database),
    /// For reading. It was closed in order.
    Read(ReadOnlyDatabase),
    /// For reading. It was not closed in order; its repair happened in memory.
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

/// Opens the file for writing; makes it when `make`, and only then.
pub(super) fn open_writable(path: &Path, cache: Option<ByteSize>, make: bool) -> Result<Handle, StoreError> {
    guarded(path, || {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(make)
            .open(path)
            .map_err(|e| io_error(path, if make { "make it" } else { "open it for writing" }, &e))?;
        let backend = FileBackend::new(file).map_err(|e| store_error(path, "open it", e))?;
        let database = builder(cache).create_with_backend(SyncedOnDemand(backend));
        database.map(Handle::Write).map_err(|e| store_error(path, "open it", e))
    })
}

/// Opens the file without changing it.
pub(super) fn open_untouched(path: &Path, cache: Option<ByteSize>) -> Result<Handle, StoreError> {
    guarded(path, || match builder(cache).open_read_only(path) {
        Ok(database) => Ok(Handle::Read(database)),
        Err(DatabaseError::RepairAborted) => {
            let file = File::open(path).map_err(|e| io_error(path, "open it for reading", &e))?;
            let overlay = Overlay::new(file).map_err(|e| io_error(path, "read it", &e))?;
            let database = builder(cache).create_with_backend(overlay);
            database.map(Handle::Repaired).map_err(|e| store_error(path, "repair a copy of it in memory", e))
        }
        Err(error) => Err(store_error(path, "open it for reading", error)),
    })
}

/// What a look at the path found.
#[derive(Debug)]
pub(crate) enum Found {
    Nothing,
    /// A file of no bytes, which redb takes for a database yet to be made.
    Empty,
    Other,
    Database(Contents),
}

/// What is in a database.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contents {
    pub(super) marker: Option<Marker>,
    /// Tables that Storebench did not make.
    pub(super) theirs: Vec<String>,
}

/// Storebench's own record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marker {
    pub(super) made_file: bool,
    /// The tables made here.
    pub(super) tables: Tables,
}

impl Contents {
    /// Whether Storebench made the whole file, be it for studies or for the user's data.
    pub(super) fn ours(&self) -> bool {
        self.theirs.is_empty() && self.marker.as_ref().is_some_and(|m| m.made_file)
    }
}

impl Found {
    /// Whether it is a file with nothing in it, as after a kill between making the file and marking it: nobody
    /// loses anything when it counts as Storebench's.
    pub(super) fn blank(&self) -> bool {
        match self {
            Self::Nothing | Self::Other => false,
            Self::Empty => true,
            Self::Database(contents) => contents.marker.is_none() && contents.theirs.is_empty(),
        }
    }

    pub(super) fn holdings(&self) -> Holdings {
        let contents = if let Self::Database(contents) = self { contents.marker.as_ref() } else { None };
        Holdings {
            absent: matches!(self, Self::Nothing) || self.blank(),
            foreign: self.foreign(),
            marked: contents.map(|marker| marker.tables.owners()).unwrap_or_default(),
            ..Holdings::default()
        }
    }

    /// Whether nothing of others is in it.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self.holdings().namespace(), Namespace::Ours | Namespace::Copied(_))
    }

    fn foreign(&self) -> Option<String> {
        match self {
            Self::Nothing | Self::Empty => None,
            Self::Other => Some("a file that is no redb database".to_owned()),
            Self::Database(contents) if contents.ours() || self.blank() => None,
            Self::Database(Contents { theirs, marker }) => {
                let mut text = match theirs.as_slice() {
                    [] => "a redb database without tables of others".to_owned(),
                    [one] => format!("a redb database with the table `{one}`"),
                    [first, .., last] => {
                        format!("a redb database with {} tables (`{first}` to `{last}`)", theirs.len())
                    }
                };
                if let Some(marker) = marker {
                    text += &format!(" beside {} of Storebench's", marker.tables.collections.len());
                }
                Some(text)
            }
        }
    }
}

/// Looks at what is there, changing nothing. `open` is the database where this store holds it open.
pub(super) fn look(path: &Path, open: Option<&Handle>) -> Result<Found, StoreError> {
    check_parent(path)?;
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(io_error(path, "look at it", &error)),
        Ok(metadata) if metadata.is_dir() => {
            return Err(StoreError::Unreachable(format!(
                "{}: this is a folder; name the database file itself, such as redb:{}/documents.redb",
                path.display(),
                path.display()
            )));
        }
        Ok(metadata) if !metadata.is_file() => return Ok(Found::Other),
        Ok(metadata) if metadata.len() == 0 => return Ok(Found::Empty),
        Ok(_) => {}
    }
    if let Some(handle) = open {
        return contents(path, handle).map(Found::Database);
    }
    let mut header = Vec::with_capacity(HEADER.len());
    File::open(path)
        .and_then(|file| file.take(HEADER.len() as u64).read_to_end(&mut header))
        .map_err(|e| io_error(path, "read it", &e))?;
    if header != HEADER {
        return Ok(Found::Other);
    }
    let handle = open_untouched(path, None)?;
    guarded(path, || contents(path, &handle)).map(Found::Database)
}

fn contents(path: &Path, handle: &Handle) -> Result<Contents, StoreError> {
    let failed = |e: redb::Error| store_error(path, "read its tables", e);
    let transaction = handle.begin_read().map_err(|e| failed(e.into()))?;
    let tables = transaction.list_tables().map_err(|e| failed(e.into()))?;
    let mut names: Vec<String> = tables.map(|table| table.name().to_owned()).collect();
    let multimaps = transaction.list_multimap_tables().map_err(|e| failed(e.into()))?;
    names.extend(multimaps.map(|table| redb::MultimapTableHandle::name(&table).to_owned()));
    names.sort();
    let marker = match transaction.open_table(MARKER) {
        Ok(table) => {
            let mut marker = Marker::default();
            for row in table.iter().map_err(|e| failed(e.into()))? {
                let (name, detail) = row.map_err(|e| failed(e.into()))?;
                match name.value() {
                    "file" => marker.made_file = detail.value() == "made",
                    row => marker.tables.read(row, detail.value()),
                }
            }
            Some(marker)
        }
        Err(TableError::TableDoesNotExist(_) | TableError::TableTypeMismatch { .. }) => None,
        Err(error) => return Err(failed(error.into())),
    };
    let ours = |name: &String| marker.as_ref().is_some_and(|m| name == MARKER.name() || m.tables.made(name));
    let theirs = names.iter().filter(|name| !ours(name)).cloned().collect();
    Ok(Contents { marker, theirs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_another_process_has_made_meanwhile_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("theirs.redb");
        std::fs::write(&path, b"theirs").unwrap();
        assert!(open_writable(&path, None, true).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"theirs");
    }
}
