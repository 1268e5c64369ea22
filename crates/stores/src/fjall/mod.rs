//! `fjall:FOLDER`: fjall, a log-structured merge tree. Each collection is a keyspace, and so is each secondary index,
//! whose entries are written in the same atomic batch as their document.
//!
//! | guarantee | how |
//! |---|---|
//! | `fsync` | each commit's journal entry is followed by `fsync` |
//! | `os` | each commit's journal entry is passed to the operating system |
//! | `none` | the journal entry may stay in the process's buffer (8 KiB) |

mod database;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use storebench_engine::store::location::{IN_USE, io_text, path_of};
use storebench_engine::store::ordered_map::{
    self, Change, Engine, InFolder, durabilities, operations_over, strong_reads,
};
use storebench_engine::store::{Capabilities, Durability, OpKind, Stats, StoreError, StoreSettings};
use storebench_study::units::ByteSize;

use crate::registry::{OptionHelp, Options, Scheme};
use database::{FjallDatabase, Keyspaces};

pub(crate) const SCHEME: Scheme = Scheme {
    name: "fjall",
    what: "Embedded fjall: a log-structured merge tree in a folder",
    example: "fjall:documents",
    options: &[
        OptionHelp { name: "cache", meaning: "block cache, such as 256MiB (default 32MiB)" },
        OptionHelp {
            name: "compression",
            meaning: "block compression of keyspaces that Storebench creates: `lz4` (default) or `none`",
        },
    ],
    decorator: false,
    aliases: &[],
};

/// The version of the linked crate. A test compares it with the lock file.
const VERSION: &str = "3.1.13";

/// The block cache that the crate makes unless told otherwise.
const DEFAULT_CACHE_BYTES: u64 = 32 << 20;

/// Options that the driver leaves as the crate has them, with their values in [`VERSION`].
const LEFT: [(&str, &str); 3] =
    [("data_block_size_policy", "4KiB"), ("max_journaling_size", "512MiB"), ("max_memtable_size", "64MiB")];

type Opened = ordered_map::Opened<FjallDatabase>;

/// The engine, for the database in a folder.
#[derive(Debug)]
pub(crate) struct Fjall {
    path: PathBuf,
    cache: Option<ByteSize>,
    compress: bool,
    /// The keyspaces that were opened, and whether each was created here. Others keep how they were created.
    created: Mutex<HashMap<String, bool>>,
}

/// Reads the URL. Does not access the folder.
pub(crate) fn engine(path: &str, options: &mut Options<'_>) -> Result<Fjall, StoreError> {
    let cache = options.parse("cache")?;
    let compress = options.choice("compression", &["lz4", "none"])? != Some(1);
    let path = path_of(SCHEME.name, path, SCHEME.example)?;
    Ok(Fjall { path, cache, compress, created: Mutex::default() })
}

impl Fjall {
    fn keyspace(&self, database: &FjallDatabase, name: &str) -> Result<Keyspace, StoreError> {
        let mut created = false;
        let options = || {
            created = true;
            match KeyspaceCreateOptions::default() {
                options if self.compress => options,
                options => options.data_block_compression_policy(fjall::config::CompressionPolicy::disabled()),
            }
        };
        let opened =
            database.0.keyspace(name, options).map_err(|e| self.error(&format!("open the keyspace {name}"), &e))?;
        self.created().entry(name.to_owned()).or_insert(created);
        Ok(opened)
    }

    fn created(&self) -> MutexGuard<'_, HashMap<String, bool>> {
        self.created.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, doing: &str, error: &fjall::Error) -> StoreError {
        let text = format!("{}: cannot {doing}: {}", self.path.display(), text(error));
        if matches!(error, fjall::Error::Locked) { StoreError::Unreachable(text) } else { StoreError::Failed(text) }
    }
}

/// The message of an engine's error.
fn text(error: &fjall::Error) -> String {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => io_text(error),
        fjall::Error::Locked => IN_USE.to_owned(),
        fjall::Error::Poisoned => {
            "an earlier write or sync failed (check for a full disk); fjall refuses all writes until it is reopened"
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
    const VERSION: &'static str = VERSION;
    const TABLE: &'static str = "keyspace";
    const NAME_BYTES: usize = 255;

    fn path(&self) -> &Path {
        &self.path
    }

    fn capabilities(&self) -> Capabilities {
        let changed = "reads, checks and writes under a lock in this process";
        Capabilities {
            operations: operations_over(
                changed,
                &[(&[OpKind::Delete, OpKind::BulkInsert, OpKind::BulkDelete], changed)],
            ),
            durability: durabilities([
                "the journal entry may stay in the process's 8 KiB buffer",
                "PersistMode::Buffer: each commit hands its journal entry to the operating system",
                "PersistMode::SyncAll: the journal is synced to disk at each commit",
            ]),
            shipped_durability: Durability::OS,
            consistency: strong_reads("each read sees every completed write"),
            notes: vec![
                "Flushing and compaction run on threads of this process, so their CPU time counts as the client's.",
                "Opening the folder replays the journal and may clean up files, even to read only.",
            ],
            ..Capabilities::default()
        }
    }

    fn tables(&self, database: &FjallDatabase) -> Result<Vec<String>, StoreError> {
        Ok(database.0.list_keyspace_names().iter().map(|name| name.to_string()).collect())
    }

    fn collection(
        &self,
        database: &FjallDatabase,
        documents: &str,
        indexes: Vec<String>,
    ) -> Result<Keyspaces, StoreError> {
        let indexes = indexes.iter().map(|index| self.keyspace(database, index)).collect::<Result<_, _>>()?;
        Ok(Keyspaces { documents: self.keyspace(database, documents)?, indexes, locks: Default::default() })
    }

    fn change(&self, database: &FjallDatabase, change: &Change) -> Result<(), StoreError> {
        for name in change.documents.iter().chain(&change.indexes) {
            self.keyspace(database, name)?;
        }
        for name in change.removed.iter().filter(|name| database.0.keyspace_exists(name)) {
            let keyspace = self.keyspace(database, name)?;
            let failed = |e| self.error(&format!("remove the keyspace {name}"), &e);
            database.0.delete_keyspace(keyspace).map_err(failed)?;
            self.created().remove(name);
        }
        self.sync(database)
    }

    fn sync(&self, database: &FjallDatabase) -> Result<(), StoreError> {
        database.0.persist(PersistMode::SyncAll).map_err(|e| self.error("sync it", &e))
    }

    fn settle(&self, opened: &Opened, at_most: Duration) -> Result<bool, StoreError> {
        let start = Instant::now();
        // A finished flush may request a compaction a moment later, so require several quiet checks in a row.
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

    fn own_settings(&self) -> StoreSettings {
        let cache_bytes = self.cache.map_or(DEFAULT_CACHE_BYTES, ByteSize::bytes);
        let mut settings = StoreSettings { memory_bytes: Some(cache_bytes), ..StoreSettings::default() };
        settings.add("cache_size", ByteSize(cache_bytes).to_string(), Some(cache_bytes != DEFAULT_CACHE_BYTES));
        let compression = if self.compress { "lz4 from the third level on" } else { "none" };
        // The crate does not tell how a keyspace was created.
        let (of, changed) = match self.created().values().all(|created| *created) {
            true => ("", Some(!self.compress)),
            false => (", of new keyspaces", None),
        };
        settings.add("data_block_compression_policy", format!("{compression}{of}"), changed);
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        settings.add("worker_threads", workers.to_string(), Some(false));
        for (name, value) in LEFT {
            settings.add(name, value, Some(false));
        }
        settings
    }
}

impl InFolder for Fjall {
    const SIGN: &'static str = "version";
    const LOCK: Option<&'static str> = Some("lock");

    fn makes(name: &str) -> bool {
        matches!(name, "lock" | "version" | "keyspaces")
            || name.strip_suffix(".jnl").is_some_and(|number| number.parse::<u64>().is_ok())
    }

    fn open(&self) -> Result<FjallDatabase, StoreError> {
        let mut builder = Database::builder(&self.path);
        if let Some(cache) = self.cache {
            builder = builder.cache_size(cache.bytes());
        }
        builder.open().map(FjallDatabase).map_err(|e| self.error("open it", &e))
    }
}

fn keyspaces(opened: &Opened) -> impl Iterator<Item = &Keyspace> {
    opened.collections.iter().flat_map(|c| std::iter::once(&c.tables.documents).chain(&c.tables.indexes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_told_is_the_version_linked() {
        let lock = include_str!("../../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"fjall\"\nversion = \"{VERSION}\"")));
    }

    #[test]
    fn the_cache_told_is_the_cache_made() {
        for query in ["", "cache=8MiB"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("it");
            std::fs::create_dir(&path).unwrap();
            let fjall = engine(path.to_str().unwrap(), &mut Options::for_test(query)).unwrap();
            let made = InFolder::open(&fjall).unwrap().0.cache_capacity();
            assert_eq!(fjall.own_settings().memory_bytes, Some(made), "{query}");
        }
    }

    #[test]
    fn compression_is_told_of_keyspaces_that_were_created_here() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let told = |fjall: &Fjall| {
            let mut settings = fjall.own_settings().all.into_iter();
            settings.find(|of| of.name == "data_block_compression_policy").map(|of| (of.value, of.changed)).unwrap()
        };
        let creating = engine(path, &mut Options::for_test("compression=none")).unwrap();
        let database = InFolder::open(&creating).unwrap();
        for _ in 0..2 {
            creating.keyspace(&database, "books").unwrap();
            assert_eq!(told(&creating), ("none".to_owned(), Some(true)));
        }
        drop(database);
        let opening = engine(path, &mut Options::for_test("")).unwrap();
        let database = InFolder::open(&opening).unwrap();
        opening.keyspace(&database, "books").unwrap();
        assert_eq!(told(&opening), ("lz4 from the third level on, of new keyspaces".to_owned(), None));
        let change = Change { removed: vec!["books".to_owned()], ..Change::default() };
        opening.change(&database, &change).unwrap();
        opening.keyspace(&database, "books").unwrap();
        assert_eq!(told(&opening), ("lz4 from the third level on".to_owned(), Some(false)));
    }

    #[test]
    fn options_of_the_url_are_told_as_changed() {
        let told = |query: &'static str| {
            let settings = engine("it", &mut Options::for_test(query)).unwrap().own_settings();
            let changed = settings.all.into_iter().filter(|of| of.changed == Some(true));
            changed.map(|of| format!("{} {}", of.name, of.value)).collect::<Vec<_>>()
        };
        assert!(told("").is_empty() && told("cache=32MiB&compression=lz4").is_empty());
        let changed = ["cache_size 8MiB", "data_block_compression_policy none"];
        assert_eq!(told("cache=8MiB&compression=none"), changed);
    }
}
