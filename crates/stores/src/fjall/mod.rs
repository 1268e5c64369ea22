//! `fjall:FOLDER`: fjall, a log-structured merge tree. One keyspace a collection, and one for each
//! secondary index, whose entries are written in the same atomic batch as their document.
//!
//! | promise | how |
//! |---|---|
//! | `fsync` | each commit's journal entry is followed by `fsync` |
//! | `os` | each commit's journal entry is handed to the operating system |
//! | `none` | the journal entry may stay in the process's buffer (8 KiB) |

mod folder;
mod session;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use storebench_core::store::{
    Capabilities, Description, Durability, Explanation, Layout, Namespace, Op, OpKind, Owner, Prepare, ReadConsistency,
    Request, SessionOptions, Stats, Store, StoreError, Support,
};
use storebench_core::units::ByteSize;
use storebench_core::workload::Body;

use crate::index_entry::Index;
use crate::location::{guarded, io_text, path_of};
use crate::registry::{OptionHelp, Options, Scheme};
use folder::Marker;
pub(crate) use session::FjallSession;
use session::KeyLocks;

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

/// A collection of an open database.
struct Collection {
    body: Body,
    documents: Keyspace,
    indexes: Vec<(Index, Keyspace)>,
    locks: KeyLocks,
}

/// An open database.
struct Opened {
    database: Database,
    collections: Vec<Collection>,
    read_only: bool,
}

/// The store.
pub(crate) struct FjallStore {
    url: String,
    path: PathBuf,
    cache: Option<ByteSize>,
    compress: bool,
    opened: Mutex<Option<Arc<Opened>>>,
}

impl FjallStore {
    /// Reads the URL; touches nothing.
    pub(crate) fn new(url: &str, path: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        let cache = options.parse("cache")?;
        let compress = options.choice("compression", &["lz4", "none"])? != Some(1);
        let path = path_of(SCHEME.name, path, SCHEME.example)?;
        Ok(Self { url: url.to_owned(), path, cache, compress, opened: Mutex::new(None) })
    }

    fn opened(&self) -> Option<Arc<Opened>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, opened: Option<Arc<Opened>>) {
        let before = std::mem::replace(&mut *self.opened.lock().unwrap_or_else(PoisonError::into_inner), opened);
        // Ends the database's threads, which takes a while: not under the lock.
        drop(before);
    }

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
    fn open_layout(&self, layout: &Layout, how: Prepare, marker: &mut Marker) -> Result<Opened, StoreError> {
        let names = names(layout)?;
        let database = self.open_database()?;
        let write = how != Prepare::ReadOnly;
        if write {
            let before = folder::read_marker(&self.path)?.unwrap_or_default();
            let new =
                |name: &String| !before.collections.iter().any(|(n, ..)| n == name) && !before.indexes.contains(name);
            let taken = names.iter().flat_map(|(name, indexes)| std::iter::once(name).chain(indexes));
            if let Some(theirs) = taken.filter(|name| new(name)).find(|name| database.keyspace_exists(name)) {
                return Err(StoreError::NotOurs(format!(
                    "{} has a keyspace `{theirs}` that Storebench did not make; nothing was written. Rename the \
                     collection, or use another path",
                    self.path.display()
                )));
            }
        }
        // All of them are checked before the first is made.
        for (collection, (name, indexes)) in layout.collections.iter().zip(&names) {
            let kind = kind(collection.body);
            match marker.collections.iter_mut().find(|(made, ..)| made == name) {
                Some((_, kept, owner)) if kept == kind => {
                    if write {
                        *owner = how.owner(Some(*owner));
                    }
                }
                Some((_, kept, _)) => {
                    return Err(StoreError::NotSupported(format!(
                        "{}: the collection `{name}` is kept as {kept} there and would be {kind} now; load it anew",
                        self.path.display()
                    )));
                }
                None if !write => {
                    return Err(StoreError::NotSupported(format!(
                        "{}: there is no collection `{name}` to read; it has: {}",
                        self.path.display(),
                        marker.collections.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>().join(", ")
                    )));
                }
                None => marker.collections.push((name.clone(), kind.to_owned(), how.owner(None))),
            }
            for index in indexes {
                if write && !marker.indexes.contains(index) {
                    if database.keyspace_exists(name) && !self.is_empty(&database, name)? {
                        return Err(StoreError::NotSupported(format!(
                            "{}: the collection `{name}` holds documents that the new index `{index}` would not find; \
                             load it anew",
                            self.path.display()
                        )));
                    }
                    marker.indexes.push(index.clone());
                }
            }
        }
        if write {
            folder::write_marker(&self.path, marker)?;
        }
        let open = |name: &str| {
            database.keyspace(name, || self.options()).map_err(|e| self.error(&format!("open the keyspace {name}"), &e))
        };
        let mut collections = Vec::new();
        for (collection, (name, indexes)) in layout.collections.iter().zip(&names) {
            let mut opened = Vec::new();
            for (fields, index) in collection.indexes.iter().zip(indexes) {
                if write || database.keyspace_exists(index) {
                    opened.push((Index { fields: fields.clone() }, open(index)?));
                }
            }
            collections.push(Collection {
                body: collection.body,
                documents: open(name)?,
                indexes: opened,
                locks: KeyLocks::default(),
            });
        }
        Ok(Opened { database, collections, read_only: !write })
    }

    fn is_empty(&self, database: &Database, name: &str) -> Result<bool, StoreError> {
        database
            .keyspace(name, || self.options())
            .and_then(|keyspace| keyspace.is_empty())
            .map_err(|e| self.error(&format!("read the keyspace {name}"), &e))
    }
}

fn kind(body: Body) -> &'static str {
    match body {
        Body::Json => "json",
        Body::Bytes => "bytes",
        Body::Counter => "counter",
    }
}

/// The keyspaces of a layout: each collection's, and those of its indexes.
fn names(layout: &Layout) -> Result<Vec<(String, Vec<String>)>, StoreError> {
    let mut names: Vec<(String, Vec<String>)> = Vec::new();
    for collection in &layout.collections {
        let indexes = collection.indexes.iter().map(|fields| format!("{}#{}", collection.name, fields.join(".")));
        let indexes: Vec<String> = indexes.collect();
        if let Some(long) = std::iter::once(&collection.name).chain(&indexes).find(|name| name.len() > 255) {
            return Err(StoreError::NotSupported(format!(
                "fjall's keyspace names have 255 bytes at most, and `{long}` has {}; shorten the collection's name or \
                 its indexed fields",
                long.len()
            )));
        }
        names.push((collection.name.clone(), indexes));
    }
    Ok(names)
}

/// An engine's error in words.
fn text(error: &fjall::Error) -> String {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => io_text(error),
        fjall::Error::Poisoned => {
            "an earlier write or sync failed (is the disk full?), so fjall takes no more writes until it is opened anew"
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

impl Store for FjallStore {
    type Session = FjallSession;

    fn describe(&self) -> Description {
        Description { scheme: SCHEME.name, url: self.url.clone(), version: format!("fjall {VERSION}") }
    }

    fn capabilities(&self) -> Capabilities {
        const CHECKED: Support = Support::Approximated("read, checked and written under a lock of this process");
        let operations = OpKind::ALL.into_iter().filter_map(|kind| {
            Some((
                kind,
                match kind {
                    OpKind::Touch | OpKind::View => return None,
                    OpKind::Insert
                    | OpKind::Replace
                    | OpKind::Append
                    | OpKind::Prepend
                    | OpKind::Delete
                    | OpKind::Counter
                    | OpKind::MergePatch
                    | OpKind::BulkInsert
                    | OpKind::BulkDelete => CHECKED,
                    OpKind::CompareAndSwap => Support::Approximated(
                        "read, compared with the stored document itself and written under a lock of this process; a \
                         change that was changed back goes unnoticed",
                    ),
                    OpKind::BulkRead => Support::Approximated("one get for each document, on one snapshot"),
                    OpKind::Page => Support::Approximated(
                        "entries of a keyspace that the driver keeps for each index, then one get for each document",
                    ),
                    _ => Support::Native,
                },
            ))
        });
        Capabilities {
            operations: operations.collect(),
            durability: vec![
                (Durability::MEMORY, "the journal entry may stay in the process's buffer of 8 KiB"),
                (Durability::OS, "PersistMode::Buffer: each commit's journal entry is handed to the operating system"),
                (Durability::FSYNC, "PersistMode::SyncAll: the journal is synced to disk at each commit"),
            ],
            consistency: vec![
                (ReadConsistency::StaleOk, "as strong"),
                (ReadConsistency::Session, "as strong"),
                (ReadConsistency::Strong, "each read sees every finished write"),
            ],
            indexes: true,
            gives_up_at_timeout: false,
            inserts_faster: false,
            embedded: true,
            longest_key_bytes: None,
            expires_late_by: None,
            own_members: &[],
            reserved_members: &[],
            attachments_member: None,
            rows: &[],
            notes: vec![
                "Flushing and compaction run on threads of this process: their CPU counts as the client's.",
                "Opening the folder replays the journal and may tidy up, also for reading only.",
                "Secondary indexes are the driver's: a write to an indexed collection first reads the old document.",
            ],
        }
    }

    fn inspect(&self) -> Result<Namespace, StoreError> {
        folder::look(&self.path).map(|found| found.namespace())
    }

    fn collections(&self) -> Result<Vec<String>, StoreError> {
        let marker = folder::look(&self.path)?.marker;
        Ok(marker.into_iter().flat_map(|marker| marker.collections).map(|(name, ..)| name).collect())
    }

    fn owner_of(&self, collection: &str) -> Result<Option<Owner>, StoreError> {
        folder::look(&self.path).map(|found| found.holdings().owner_of(collection))
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        crate::existing::refuse_existing("fjall", layout)?;
        let found = folder::look(&self.path)?;
        names(layout)?;
        let namespace = found.namespace();
        if found.is_damaged() && how != Prepare::Discard {
            return Err(self.damaged());
        }
        match (how, &namespace) {
            (Prepare::ReadOnly, _) if found.is_left_over() => {
                return Err(StoreError::Unreachable(format!("{}: there is no database to read", self.path.display())));
            }
            (Prepare::ReadOnly, _) if found.marker.as_ref().is_some_and(|marker| marker.made_database) => {}
            (Prepare::ReadOnly, Namespace::Foreign(text)) => {
                return Err(StoreError::NotSupported(format!(
                    "{} holds {text}; fjall cannot open a folder without writing into it, so it was left alone. Copy \
                     it and give the copy with --into-existing",
                    self.path.display()
                )));
            }
            (Prepare::ReadOnly, _) => {
                return Err(StoreError::Unreachable(format!("{}: there is no database to read", self.path.display())));
            }
            (Prepare::IntoExisting | Prepare::Copy(_), Namespace::Foreign(text)) if !found.is_database => {
                return Err(StoreError::NotOurs(format!(
                    "{} holds {text} and is no fjall database, so nothing can be added to it; use another path",
                    self.path.display()
                )));
            }
            _ => found.holdings().allow(&self.path.display().to_string(), "another path", layout, how)?,
        }
        self.set(None);
        guarded(&self.path, || {
            let emptied = how.empties() && found.exists && namespace != Namespace::Absent || found.is_left_over();
            let mut marker = if emptied {
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
                found.marker.clone().unwrap_or(Marker {
                    made_folder: !found.exists,
                    made_database: !found.is_database,
                    ..Marker::default()
                })
            };
            if how != Prepare::ReadOnly && !found.exists {
                folder::make(&self.path)?;
            }
            if how != Prepare::ReadOnly && marker.made_database {
                // Before the engine's files, so that what a crash leaves is known to be ours.
                let known = if emptied { marker.clone() } else { found.marker.clone().unwrap_or(marker.clone()) };
                folder::write_marker(&self.path, &known)?;
            }
            let opened = self.open_layout(layout, how, &mut marker)?;
            self.set(Some(Arc::new(opened)));
            Ok(())
        })
    }

    async fn open(&self, options: &SessionOptions) -> Result<FjallSession, StoreError> {
        let opened = self.opened().ok_or_else(|| {
            StoreError::Failed(format!("{}: the store must be prepared before a session opens", self.path.display()))
        })?;
        FjallSession::new(opened, options.durability)
    }

    fn settle(&self, at_most: Duration) -> Result<bool, StoreError> {
        let Some(opened) = self.opened() else { return Ok(true) };
        let start = Instant::now();
        // A finished flush may ask for a compaction a moment later, so it must be quiet for a while.
        let mut quiet = 0;
        loop {
            let database = &opened.database;
            let sealed: usize = opened.keyspaces().map(Keyspace::sealed_memtable_count).sum();
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

    fn compact(&self) -> Result<(), StoreError> {
        let Some(opened) = self.opened().filter(|o| !o.read_only) else {
            return Err(StoreError::NotSupported("the database is not open for writing".into()));
        };
        for keyspace in opened.keyspaces() {
            keyspace
                .rotate_memtable_and_wait()
                .and_then(|()| keyspace.major_compact())
                .map_err(|e| self.error("compact it", &e))?;
        }
        Ok(())
    }

    fn stats(&self) -> Result<Stats, StoreError> {
        let Some(opened) = self.opened() else { return Ok(Stats::new()) };
        let database = &opened.database;
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
            ("tables".to_owned(), opened.keyspaces().map(|k| k.table_count()).sum::<usize>() as f64),
            ("l0_tables".to_owned(), opened.keyspaces().map(|k| k.l0_table_count()).sum::<usize>() as f64),
        ])
    }

    fn explain(&self, request: &Request<'_>) -> Result<Option<Explanation>, StoreError> {
        let Some(opened) = self.opened() else { return Ok(None) };
        let Some(collection) = opened.collections.get(request.collection.position()) else { return Ok(None) };
        let Op::Page { field, .. } = request.op else { return Ok(None) };
        Ok(Some(crate::index_entry::explain(collection.indexes.iter().map(|(index, _)| index), field)))
    }

    fn paths(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn close(&self) -> Result<(), StoreError> {
        // Whatever comes of the sync, the files are let go.
        let synced = match self.opened().filter(|o| !o.read_only) {
            Some(opened) => opened.database.persist(PersistMode::SyncAll).map_err(|e| self.error("sync it", &e)),
            None => Ok(()),
        };
        self.set(None);
        synced
    }

    fn remove(&self) -> Result<(), StoreError> {
        self.set(None);
        let found = folder::look(&self.path)?;
        let Some(marker) = &found.marker else { return Ok(()) };
        let users: Vec<&String> =
            marker.collections.iter().filter(|(.., owner)| owner.is_user()).map(|(name, ..)| name).collect();
        if marker.made_database && users.is_empty() {
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
        let is_users = |name: &String| users.iter().any(|user| name.split('#').next() == Some(user));
        let ours =
            marker.collections.iter().map(|(name, ..)| name).chain(&marker.indexes).filter(|name| !is_users(name));
        guarded(&self.path, || {
            let database = self.open_database()?;
            for name in ours {
                if database.keyspace_exists(name) {
                    database
                        .keyspace(name, || self.options())
                        .and_then(|keyspace| database.delete_keyspace(keyspace))
                        .map_err(|e| self.error(&format!("remove the keyspace {name}"), &e))?;
                }
            }
            database.persist(PersistMode::SyncAll).map_err(|e| self.error("sync it", &e))
        })?;
        if users.is_empty() {
            return folder::remove_marker(&self.path, false);
        }
        let mut left = marker.clone();
        left.collections.retain(|(name, ..)| is_users(name));
        left.indexes.retain(|name| is_users(name));
        folder::write_marker(&self.path, &left)
    }
}

impl Opened {
    fn keyspaces(&self) -> impl Iterator<Item = &Keyspace> {
        self.collections.iter().flat_map(|c| std::iter::once(&c.documents).chain(c.indexes.iter().map(|(_, k)| k)))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_told_is_the_version_linked() {
        let lock = include_str!("../../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"fjall\"\nversion = \"{}\"", super::VERSION)));
    }
}
