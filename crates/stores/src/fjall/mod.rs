//! `fjall:FOLDER`: fjall, a log-structured merge tree. One keyspace a collection, and one for each
//! secondary index, whose entries are written in the same atomic batch as their document.
//!
//! | promise | how |
//! |---|---|
//! | `fsync` | each commit's journal entry is followed by `fsync` |
//! | `os` | each commit's journal entry is handed to the operating system |
//! | `none` | the journal entry may stay in the process's buffer (8 KiB) |

mod database;
mod folder;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use storebench_engine::store::ordered_map::{self, EmbeddedStore, Engine, durabilities, operations, strong_reads};
use storebench_engine::store::{Capabilities, Holdings, Layout, Namespace, OpKind, Prepare, Stats, StoreError};
use storebench_study::units::ByteSize;

use crate::location::{guarded, io_text, path_of};
use crate::registry::{OptionHelp, Options, Scheme};
use database::{FjallDatabase, Keyspaces};
use folder::{Found, Marker};

pub(crate) const SCHEME: Scheme = Scheme {
    name: "fjall",
    what: "fjall, built in: a log-structured merge tree in a folder",
    example: "fjall:documents",
    options: &[
        OptionHelp { name: "cache", meaning: "block cache, such as 256MiB (default 32MiB)" },
        OptionHelp { name: "compression", meaning: "of blocks of a keyspace made here: `lz4` (default) or `none`" },
    ],
    decorator: false,
    aliases: &[],
};

/// The version of the crate that is linked in; a test compares it with the lock file.
const VERSION: &str = "3.1.13";

type Opened = ordered_map::Opened<FjallDatabase>;

/// The engine, for the database in a folder.
#[derive(Debug)]
pub(crate) struct Fjall {
    path: PathBuf,
    cache: Option<ByteSize>,
    compress: bool,
}

/// Reads the URL; touches nothing.
pub(crate) fn store(url: &str, path: &str, options: &mut Options<'_>) -> Result<EmbeddedStore<Fjall>, StoreError> {
    let cache = options.parse("cache")?;
    let compress = options.choice("compression", &["lz4", "none"])? != Some(1);
    let path = path_of(SCHEME.name, path, SCHEME.example)?;
    Ok(EmbeddedStore::new(url, Fjall { path, cache, compress }))
}

impl Fjall {
    fn open_database(&self) -> Result<Database, StoreError> {
        let mut builder = Database::builder(&self.path);
        if let Some(cache) = self.cache {
            builder = builder.cache_size(cache.bytes());
        }
        builder.open().map_err(|e| self.error("open it", &e))
    }

    fn options(&self) -> KeyspaceCreateOptions {
        let options = KeyspaceCreateOptions::default();
        if self.compress {
            return options;
        }
        options.data_block_compression_policy(fjall::config::CompressionPolicy::disabled())
    }

    fn damaged(&self) -> StoreError {
        StoreError::Failed(format!(
            "{}: its file `version` is missing, so fjall would begin a new database over what is left of your data; \
             nothing was touched. Restore the folder, or delete what is left with --discard-existing",
            self.path.display()
        ))
    }

    fn error(&self, doing: &str, error: &fjall::Error) -> StoreError {
        let path = self.path.display();
        match error {
            fjall::Error::Locked => folder::in_use(&self.path),
            error => StoreError::Failed(format!("{path}: cannot {doing}: {}", text(error))),
        }
    }

    /// Makes what is missing of the layout and opens all of it.
    fn open_layout(&self, layout: &Layout, how: Prepare, mut marker: Marker) -> Result<Opened, StoreError> {
        let database = self.open_database()?;
        let open = |database: &Database, name: &str| {
            let failed = |e| self.error(&format!("open the keyspace {name}"), &e);
            database.keyspace(name, || self.options()).map_err(failed)
        };
        let is_empty = |name: &str| {
            open(&database, name)?.is_empty().map_err(|e| self.error(&format!("read the keyspace {name}"), &e))
        };
        // All of them are checked before the first is made.
        let exists = |name: &str| database.keyspace_exists(name);
        marker.tables.enter((&self.path, "keyspace"), layout, how, exists, is_empty)?;
        if how != Prepare::ReadOnly {
            folder::write_marker(&self.path, &marker)?;
        }
        let has_index = |database: &FjallDatabase, name: &str| database.0.keyspace_exists(name);
        Opened::new(FjallDatabase(database), layout, how, has_index, |FjallDatabase(database), name, indexes| {
            let indexes: Result<_, StoreError> = indexes.iter().map(|index| open(database, index)).collect();
            Ok(Keyspaces { documents: open(database, name)?, indexes: indexes?, locks: Default::default() })
        })
    }

    fn no_database(&self) -> StoreError {
        StoreError::Unreachable(format!("{}: there is no database to read", self.path.display()))
    }
}

/// An engine's error in words.
fn text(error: &fjall::Error) -> String {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => io_text(error),
        fjall::Error::Poisoned => {
            "an earlier write or sync failed (is the disk full?), so fjall takes no more writes until it is opened again"
                .to_owned()
        }
        fjall::Error::InvalidVersion(Some(version)) => {
            format!("it was written by another version of fjall ({version:?}); migrate it, or use another path")
        }
        fjall::Error::InvalidVersion(None) => {
            "its `version` file is damaged; restore the folder from a copy, or remove it and load again".to_owned()
        }
        other => format!("fjall: {other:?}"),
    }
}

impl Engine for Fjall {
    type Database = FjallDatabase;
    type Found = Found;
    const VERSION: &'static str = VERSION;
    const COMPACTS_ALONE: bool = false;

    fn path(&self) -> &Path {
        &self.path
    }

    fn capabilities(&self) -> Capabilities {
        use OpKind as Kind;
        Capabilities {
            operations: operations(&[
                (
                    &[
                        Kind::Insert,
                        Kind::Replace,
                        Kind::Append,
                        Kind::Prepend,
                        Kind::Delete,
                        Kind::Counter,
                        Kind::MergePatch,
                        Kind::BulkInsert,
                        Kind::BulkDelete,
                    ],
                    "read, checked and written under a lock of this process",
                ),
                (
                    &[Kind::CompareAndSwap],
                    "read, compared with the stored document itself and written under a lock of this process; a \
                     change that was changed back goes unnoticed",
                ),
                (&[Kind::BulkRead], "one get for each document, on one snapshot"),
                (
                    &[Kind::Page],
                    "entries of a keyspace that the driver keeps for each index, then one get for each document",
                ),
            ]),
            durability: durabilities([
                "the journal entry may stay in the process's buffer of 8 KiB",
                "PersistMode::Buffer: each commit's journal entry is handed to the operating system",
                "PersistMode::SyncAll: the journal is synced to disk at each commit",
            ]),
            consistency: strong_reads("each read sees every finished write"),
            notes: vec![
                "Flushing and compaction run on threads of this process: their CPU counts as the client's.",
                "Opening the folder replays the journal and may tidy up, also for reading only.",
                "Secondary indexes are the driver's: a write to an indexed collection first reads the old document.",
            ],
            ..Capabilities::default()
        }
    }

    fn look(&self, _open: Option<&FjallDatabase>) -> Result<(Holdings, Found), StoreError> {
        folder::look(&self.path).map(|found| (found.holdings(), found))
    }

    fn check(&self, found: &Found, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        crate::existing::refuse_existing("fjall", layout)?;
        if let Some(long) = ordered_map::tables_of(layout).find(|name| name.len() > 255) {
            return Err(StoreError::NotSupported(format!(
                "fjall's keyspace names have 255 bytes at most, and `{long}` has {}; shorten the collection's name or \
                 its indexed fields",
                long.len()
            )));
        }
        if found.is_damaged() && how != Prepare::Discard {
            return Err(self.damaged());
        }
        match (how, found.namespace()) {
            (Prepare::ReadOnly, _) if found.is_left_over() => Err(self.no_database()),
            (Prepare::ReadOnly, _) if found.marker.as_ref().is_some_and(|marker| marker.made_database) => Ok(()),
            (Prepare::ReadOnly, Namespace::Foreign(text)) => Err(StoreError::NotSupported(format!(
                "{} holds {text}; fjall cannot open a folder without writing into it, so it was left alone. Copy it \
                 and give the copy with --into-existing",
                self.path.display()
            ))),
            (Prepare::ReadOnly, _) => Err(self.no_database()),
            (Prepare::IntoExisting | Prepare::Copy(_), Namespace::Foreign(text)) if !found.is_database => {
                Err(StoreError::NotOurs(format!(
                    "{} holds {text} and is not a fjall database, so nothing can be added to it; use another path",
                    self.path.display()
                )))
            }
            _ => Ok(()),
        }
    }

    fn open(&self, found: Found, layout: &Layout, how: Prepare) -> Result<Opened, StoreError> {
        guarded(&self.path, || {
            let emptied =
                how.empties() && found.exists && found.namespace() != Namespace::Absent || found.is_left_over();
            let made_folder = !found.exists;
            let marker = if emptied {
                // Another process may be making this very database: it is looked at again under its lock.
                let held = folder::hold(&self.path)?;
                let now = folder::look(&self.path)?;
                now.holdings().allow(&self.path.display().to_string(), "another path", layout, how)?;
                if how.empties() || now.is_left_over() {
                    folder::empty(&self.path, &now.marker.unwrap_or_default(), &held)?
                } else {
                    now.marker.unwrap_or_default()
                }
            } else {
                let made = Marker { made_folder, made_database: !found.is_database, ..Marker::default() };
                found.marker.unwrap_or(made)
            };
            if how != Prepare::ReadOnly && made_folder {
                folder::make(&self.path)?;
            }
            if how != Prepare::ReadOnly && marker.made_database {
                // Before the engine's files, so that what a crash leaves is known to be ours.
                folder::write_marker(&self.path, &marker)?;
            }
            self.open_layout(layout, how, marker)
        })
    }

    fn settle(&self, opened: &Opened, at_most: Duration) -> Result<bool, StoreError> {
        let start = Instant::now();
        // A finished flush may ask for a compaction a moment later, so it must be quiet for a while.
        let mut quiet = 0;
        loop {
            let database = &opened.database.0;
            let sealed: usize = keyspaces(opened).map(Keyspace::sealed_memtable_count).sum();
            let busy = sealed > 0 || database.outstanding_flushes() > 0 || database.active_compactions() > 0;
            quiet = if busy { 0 } else { quiet + 1 };
            if quiet >= 5 {
                return Ok(true);
            }
            if start.elapsed() >= at_most {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn compact(&self, opened: &mut Arc<Opened>) -> Result<(), StoreError> {
        if opened.read_only {
            return Err(StoreError::NotSupported("the database is not open for writing".into()));
        }
        for keyspace in keyspaces(opened) {
            keyspace
                .rotate_memtable_and_wait()
                .and_then(|()| keyspace.major_compact())
                .map_err(|e| self.error("compact it", &e))?;
        }
        Ok(())
    }

    fn stats(&self, opened: Option<&Opened>) -> Result<Stats, StoreError> {
        let Some(opened) = opened else { return Ok(Stats::new()) };
        let database = &opened.database.0;
        let failed = |e: fjall::Error| self.error("read its statistics", &e);
        let count = |n: usize| n as f64;
        Ok(vec![
            ("disk_bytes".to_owned(), database.disk_space().map_err(failed)? as f64),
            ("journal_bytes".to_owned(), database.journal_disk_space().map_err(failed)? as f64),
            ("journals".to_owned(), count(database.journal_count())),
            ("write_buffer_bytes".to_owned(), database.write_buffer_size() as f64),
            ("cache_bytes".to_owned(), database.cache_size() as f64),
            ("flushes_pending".to_owned(), count(database.outstanding_flushes())),
            ("compactions_active".to_owned(), count(database.active_compactions())),
            ("compactions_completed".to_owned(), count(database.compactions_completed())),
            ("compacting_s".to_owned(), database.time_compacting().as_secs_f64()),
            ("tables".to_owned(), keyspaces(opened).map(|k| k.table_count()).sum::<usize>() as f64),
            ("l0_tables".to_owned(), keyspaces(opened).map(|k| k.l0_table_count()).sum::<usize>() as f64),
        ])
    }

    fn sync(&self, opened: &Opened) -> Result<(), StoreError> {
        opened.database.0.persist(PersistMode::SyncAll).map_err(|e| self.error("sync it", &e))
    }

    fn remove(&self, found: Found) -> Result<(), StoreError> {
        let Some(marker) = &found.marker else { return Ok(()) };
        if marker.made_database && !marker.tables.has_users() {
            let held = folder::hold(&self.path)?;
            if folder::look(&self.path)?.marker.as_ref() != Some(marker) {
                return Err(folder::in_use(&self.path));
            }
            folder::empty(&self.path, marker, &held)?;
            folder::remove_lock(&self.path)?;
            return folder::remove_marker(&self.path, marker.made_folder);
        }
        if found.is_damaged() {
            // The engine would make a new database over what is left of the user's.
            return Err(self.damaged());
        }
        let mut left = marker.clone();
        let removed = left.tables.strike_studies();
        guarded(&self.path, || {
            let database = self.open_database()?;
            for name in removed.iter().filter(|name| database.keyspace_exists(name)) {
                database
                    .keyspace(name, || self.options())
                    .and_then(|keyspace| database.delete_keyspace(keyspace))
                    .map_err(|e| self.error(&format!("remove the keyspace {name}"), &e))?;
            }
            database.persist(PersistMode::SyncAll).map_err(|e| self.error("sync it", &e))
        })?;
        if left.tables.has_users() {
            return folder::write_marker(&self.path, &left);
        }
        folder::remove_marker(&self.path, false)
    }
}

fn keyspaces(opened: &Opened) -> impl Iterator<Item = &Keyspace> {
    opened.collections.iter().flat_map(|c| std::iter::once(&c.tables.documents).chain(&c.tables.indexes))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_told_is_the_version_linked() {
        let lock = include_str!("../../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"fjall\"\nversion = \"{}\"", super::VERSION)));
    }
}
