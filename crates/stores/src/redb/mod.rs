//! `redb:FILE`: redb, a copy-on-write B-tree. One table a collection, and one for each secondary
//! index, written in the same transaction as its document.
//!
//! | promise | how |
//! |---|---|
//! | `fsync` | `Durability::Immediate`: the file is synced at each commit |
//! | `os` | the same transaction, with every sync left out by the storage under redb: that of the commit, and those of a growing file. It survives the process's end; after a power failure the file may not open at all, what was synced before included |
//! | `none` | `Durability::None`: a commit stays in the process's memory until a later `os` or `fsync` commit, or the close |

mod backend;
mod errors;
mod file;
mod session;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redb::{ReadableTableMetadata, TableDefinition, TableHandle};
use storebench_core::store::{
    Capabilities, Description, Durability, Explanation, Layout, Namespace, Op, OpKind, Owner, Prepare, ReadConsistency,
    Request, SessionOptions, Stats, Store, StoreError, Support,
};
use storebench_core::units::ByteSize;
use storebench_core::workload::Body;

use crate::index_entry::Index;
use crate::location::{guarded, io_error, path_of, sync_parent};
use crate::registry::{OptionHelp, Options, Scheme};
use errors::store_error;
use file::{Found, Handle, MARKER};
pub(crate) use session::RedbSession;

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

/// A collection of an open database.
struct Collection {
    body: Body,
    table: String,
    indexes: Vec<(Index, String)>,
}

impl Collection {
    fn documents(&self) -> TableDefinition<'_, &'static str, &'static [u8]> {
        TableDefinition::new(&self.table)
    }
}

/// The table of an index: entries, and nothing behind them.
fn entries(table: &str) -> TableDefinition<'_, &'static [u8], ()> {
    TableDefinition::new(table)
}

/// An open database.
struct Opened {
    handle: Handle,
    collections: Vec<Collection>,
    /// Whether the whole file is Storebench's.
    ours: bool,
}

/// The store.
pub(crate) struct RedbStore {
    url: String,
    path: PathBuf,
    cache: Option<ByteSize>,
    opened: Mutex<Option<Arc<Opened>>>,
}

impl RedbStore {
    /// Reads the URL; touches nothing.
    pub(crate) fn new(url: &str, path: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        let cache = options.parse("cache")?;
        let path = path_of(SCHEME.name, path, SCHEME.example)?;
        Ok(Self { url: url.to_owned(), path, cache, opened: Mutex::new(None) })
    }

    fn opened(&self) -> Option<Arc<Opened>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, opened: Option<Arc<Opened>>) -> Option<Arc<Opened>> {
        std::mem::replace(&mut *self.opened.lock().unwrap_or_else(PoisonError::into_inner), opened)
    }

    fn look(&self) -> Result<Found, StoreError> {
        file::look(&self.path, self.opened().as_deref().map(|opened| &opened.handle))
    }

    fn failed(&self, error: impl Into<redb::Error>) -> StoreError {
        store_error(&self.path, "make the collections in it", error)
    }

    /// Makes what is missing of the layout, in one transaction.
    fn make(
        &self,
        handle: &Handle,
        layout: &Layout,
        how: Prepare,
        found: &Found,
        made_file: bool,
    ) -> Result<(), StoreError> {
        let Handle::Write(database) = handle else { return Ok(()) };
        let nothing = file::Contents::default();
        let contents = if let Found::Database(contents) = found { contents } else { &nothing };
        let known = contents.marker.clone().unwrap_or_default();
        let transaction = database.begin_write().map_err(|e| self.failed(e))?;
        {
            let mut marker = transaction.open_table(MARKER).map_err(|e| self.failed(e))?;
            if contents.marker.is_none() {
                marker
                    .insert("file", if made_file || found.blank() { "made" } else { "found" })
                    .map_err(|e| self.failed(e))?;
            }
            for collection in &layout.collections {
                let (name, kind) = (&collection.name, kind(collection.body));
                self.check_theirs(contents, name)?;
                if name == MARKER.name() {
                    return Err(StoreError::NotSupported(format!(
                        "Storebench keeps the table name `{name}` for itself; rename the collection"
                    )));
                }
                let kept = known.collections.iter().find(|(made, ..)| made == name);
                let owner = how.owner(kept.map(|(.., owner)| *owner));
                if let Some((_, kept, _)) = kept.filter(|(_, kept, _)| kept != kind) {
                    return Err(StoreError::NotSupported(format!(
                        "{}: the collection `{name}` is kept as {kept} there and would be {kind} now; load it anew",
                        self.path.display()
                    )));
                }
                let opened = Collection { body: collection.body, table: name.clone(), indexes: Vec::new() };
                let empty = {
                    let table = transaction.open_table(opened.documents()).map_err(|e| self.failed(e))?;
                    table.is_empty().map_err(|e| self.failed(e))?
                };
                marker
                    .insert(format!("collection {name}").as_str(), owner.mark(kind).as_str())
                    .map_err(|e| self.failed(e))?;
                for fields in &collection.indexes {
                    let index = index_table(name, fields);
                    self.check_theirs(contents, &index)?;
                    if !empty && !known.indexes.contains(&index) {
                        return Err(StoreError::NotSupported(format!(
                            "{}: the collection `{name}` holds documents that the new index `{index}` would not find; \
                             load it anew",
                            self.path.display()
                        )));
                    }
                    transaction.open_table(entries(&index)).map_err(|e| self.failed(e))?;
                    marker.insert(format!("index {index}").as_str(), "").map_err(|e| self.failed(e))?;
                }
            }
        }
        transaction.commit().map_err(|e| self.failed(e))
    }

    fn check_theirs(&self, contents: &file::Contents, name: &String) -> Result<(), StoreError> {
        if !contents.theirs.contains(name) {
            return Ok(());
        }
        Err(StoreError::NotOurs(format!(
            "{} has a table `{name}` that Storebench did not make; nothing was touched. Rename the collection, or use \
             another path",
            self.path.display()
        )))
    }

    /// Checks that there is what is to be read.
    fn check_readable(&self, handle: &Handle, collections: &mut [Collection], found: &Found) -> Result<(), StoreError> {
        let transaction = handle.begin_read().map_err(|e| store_error(&self.path, "read it", e))?;
        for collection in collections {
            if let Err(error) = transaction.open_table(collection.documents()) {
                let there = match found {
                    Found::Database(contents) => contents.theirs.join(", "),
                    _ => String::new(),
                };
                return Err(StoreError::NotSupported(format!(
                    "{}: there is no table `{}` from text to bytes to read ({error}); tables of others in it: {there}",
                    self.path.display(),
                    collection.table
                )));
            }
            collection.indexes.retain(|(_, table)| transaction.open_table(entries(table)).is_ok());
        }
        Ok(())
    }
}

fn kind(body: Body) -> &'static str {
    match body {
        Body::Json => "json",
        Body::Bytes => "bytes",
        Body::Counter => "counter",
    }
}

fn index_table(collection: &str, fields: &[String]) -> String {
    format!("{collection}#{}", fields.join("."))
}

impl Store for RedbStore {
    type Session = RedbSession;

    fn describe(&self) -> Description {
        Description { scheme: SCHEME.name, url: self.url.clone(), version: format!("redb {VERSION}") }
    }

    fn capabilities(&self) -> Capabilities {
        let operations = OpKind::ALL.into_iter().filter_map(|kind| {
            Some((
                kind,
                match kind {
                    OpKind::Touch | OpKind::View => return None,
                    OpKind::Insert
                    | OpKind::Replace
                    | OpKind::Append
                    | OpKind::Prepend
                    | OpKind::Counter
                    | OpKind::MergePatch => Support::Approximated("read, checked and written in one transaction"),
                    OpKind::BulkInsert => Support::Approximated(
                        "one insert for each document, in one transaction; where it replaced a document, that is put \
                         back, and documents after it are looked for before they are inserted",
                    ),
                    OpKind::CompareAndSwap => Support::Approximated(
                        "read, compared with the stored document itself and written in one transaction; a change that \
                         was changed back goes unnoticed",
                    ),
                    OpKind::BulkUpsert | OpKind::BulkDelete => {
                        Support::Approximated("one call for each document, in one transaction")
                    }
                    OpKind::BulkRead => Support::Approximated("one get for each document, in one transaction"),
                    OpKind::Page => Support::Approximated(
                        "entries of a table that the driver keeps for each index, then one get for each document",
                    ),
                    _ => Support::Native,
                },
            ))
        });
        Capabilities {
            operations: operations.collect(),
            durability: vec![
                (Durability::MEMORY, "Durability::None: in the process's memory until a later commit or the close"),
                (
                    Durability::OS,
                    "Durability::Immediate without its syncs, at the commit and where the file grows: handed to the \
                     operating system; after a power failure the file may be damaged, and what was synced before lost",
                ),
                (Durability::FSYNC, "Durability::Immediate: synced to disk at each commit"),
            ],
            consistency: vec![
                (ReadConsistency::StaleOk, "as strong"),
                (ReadConsistency::Session, "as strong"),
                (ReadConsistency::Strong, "each read is a transaction that sees the last commit"),
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
                "Each write is a transaction of its own, and one is written at a time; waiting for a turn has no \
                 timeout.",
                "A database that was not closed in order is repaired when it is opened, which reads all of it.",
                "Secondary indexes are the driver's: a write to an indexed collection first reads the old document.",
            ],
        }
    }

    fn inspect(&self) -> Result<Namespace, StoreError> {
        self.look().map(|found| found.namespace())
    }

    fn collections(&self) -> Result<Vec<String>, StoreError> {
        let Found::Database(contents) = self.look()? else { return Ok(Vec::new()) };
        Ok(contents.marker.into_iter().flat_map(|marker| marker.collections).map(|(name, ..)| name).collect())
    }

    fn owner_of(&self, collection: &str) -> Result<Option<Owner>, StoreError> {
        self.look().map(|found| found.holdings().owner_of(collection))
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        crate::existing::refuse_existing("redb", layout)?;
        let found = self.look()?;
        let namespace = found.namespace();
        match (how, &found) {
            (Prepare::ReadOnly, Found::Nothing | Found::Empty | Found::Other) => {
                return Err(StoreError::Unreachable(format!(
                    "{}: there is no redb database to read",
                    self.path.display()
                )));
            }
            (_, Found::Other) => {
                return Err(StoreError::NotOurs(format!(
                    "{} is a file that is no redb database; nothing was touched. Use another path",
                    self.path.display()
                )));
            }
            _ => found.holdings().allow(&self.path.display().to_string(), "another path", layout, how)?,
        }
        drop(self.set(None));
        let fresh = how.empties() && matches!(found, Found::Database(_)) && !found.blank();
        if fresh {
            std::fs::remove_file(&self.path).map_err(|e| io_error(&self.path, "remove it", &e))?;
        }
        let made_file = fresh || matches!(found, Found::Nothing);
        let found = if fresh { Found::Nothing } else { found };
        let mut collections: Vec<Collection> = layout
            .collections
            .iter()
            .map(|c| Collection {
                body: c.body,
                table: c.name.clone(),
                indexes: c
                    .indexes
                    .iter()
                    .map(|fields| (Index { fields: fields.clone() }, index_table(&c.name, fields)))
                    .collect(),
            })
            .collect();
        let handle = if how == Prepare::ReadOnly {
            let handle = file::open_untouched(&self.path, self.cache)?;
            guarded(&self.path, || self.check_readable(&handle, &mut collections, &found))?;
            handle
        } else {
            // Where another process has made the file meanwhile, this fails, and the file is that one's.
            let handle = file::open_writable(&self.path, self.cache, made_file)?;
            match guarded(&self.path, || self.make(&handle, layout, how, &found, made_file)) {
                Ok(()) => handle,
                Err(error) => {
                    if made_file {
                        // Before the handle ends, and the lock with it: nobody else has it open.
                        let _ = std::fs::remove_file(&self.path);
                    }
                    return Err(error);
                }
            }
        };
        if made_file {
            sync_parent(&self.path)?;
        }
        let ours = made_file || found.blank() || matches!(namespace, Namespace::Ours | Namespace::Copied(_));
        self.set(Some(Arc::new(Opened { handle, collections, ours })));
        Ok(())
    }

    async fn open(&self, options: &SessionOptions) -> Result<RedbSession, StoreError> {
        let opened = self.opened().ok_or_else(|| {
            StoreError::Failed(format!("{}: the store must be prepared before a session opens", self.path.display()))
        })?;
        RedbSession::new(opened, options.durability)
    }

    fn settle(&self, _at_most: Duration) -> Result<bool, StoreError> {
        // redb has no background work; what `none` left in memory is written by an empty commit.
        if let Some(opened) = self.opened()
            && let Handle::Write(database) = &opened.handle
        {
            let transaction = database.begin_write().map_err(|e| store_error(&self.path, "settle", e))?;
            transaction.commit().map_err(|e| store_error(&self.path, "settle", e))?;
        }
        Ok(true)
    }

    fn compact(&self) -> Result<(), StoreError> {
        let refused = |why: &str| Err(StoreError::NotSupported(format!("{}: {why}", self.path.display())));
        let Some(opened) = self.set(None) else { return refused("the database is not open") };
        match Arc::try_unwrap(opened) {
            Ok(mut opened) => {
                let result = match &mut opened.handle {
                    Handle::Write(database) if opened.ours => {
                        database.compact().map(drop).map_err(|e| store_error(&self.path, "compact it", e))
                    }
                    _ => refused("compaction rewrites the whole file, which is not Storebench's alone"),
                };
                self.set(Some(Arc::new(opened)));
                result
            }
            Err(opened) => {
                self.set(Some(opened));
                refused("redb compacts only while no session is open; close the sessions first")
            }
        }
    }

    fn stats(&self) -> Result<Stats, StoreError> {
        let file_bytes = std::fs::metadata(&self.path).map_or(0.0, |m| m.len() as f64);
        let mut stats = vec![("file_bytes".to_owned(), file_bytes)];
        let Some(opened) = self.opened() else { return Ok(stats) };
        let failed = |e: redb::Error| store_error(&self.path, "read its statistics", e);
        let transaction = opened.handle.begin_read().map_err(|e| failed(e.into()))?;
        let (mut stored, mut metadata, mut fragmented, mut height) = (0, 0, 0, 0);
        for collection in &opened.collections {
            let documents = transaction.open_table(collection.documents()).map_err(|e| failed(e.into()))?;
            let mut tables = vec![documents.stats().map_err(|e| failed(e.into()))?];
            for (_, table) in &collection.indexes {
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
        // Whatever comes of the last commit, the file is let go.
        let settled = self.settle(Duration::ZERO);
        drop(self.set(None));
        settled.map(drop)
    }

    fn remove(&self) -> Result<(), StoreError> {
        let found = self.look()?;
        drop(self.set(None));
        let Found::Database(contents) = &found else { return Ok(()) };
        let holdings = found.holdings();
        if contents.marker.is_some() && holdings.all_removable(false) {
            return std::fs::remove_file(&self.path).map_err(|e| io_error(&self.path, "remove it", &e));
        }
        let Some(marker) = &contents.marker else { return Ok(()) };
        let failed = |e: redb::Error| store_error(&self.path, "remove Storebench's tables from it", e);
        let Handle::Write(database) = file::open_writable(&self.path, self.cache, false)? else { return Ok(()) };
        let transaction = database.begin_write().map_err(|e| failed(e.into()))?;
        let removable: Vec<&str> = holdings.removable(false).collect();
        {
            let mut marks = transaction.open_table(MARKER).map_err(|e| failed(e.into()))?;
            for name in &removable {
                let table: TableDefinition<'_, &str, &[u8]> = TableDefinition::new(name);
                transaction.delete_table(table).map_err(|e| failed(e.into()))?;
                marks.remove(format!("collection {name}").as_str()).map_err(|e| failed(e.into()))?;
            }
            let of_removed = |index: &&String| index.split('#').next().is_some_and(|name| removable.contains(&name));
            for name in marker.indexes.iter().filter(of_removed) {
                transaction.delete_table(entries(name)).map_err(|e| failed(e.into()))?;
                marks.remove(format!("index {name}").as_str()).map_err(|e| failed(e.into()))?;
            }
        }
        if removable.len() == holdings.marked.len() {
            transaction.delete_table(MARKER).map_err(|e| failed(e.into()))?;
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
