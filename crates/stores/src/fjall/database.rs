//! Reads and writes of the open database.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use fjall::{Database, Keyspace, OwnedWriteBatch, PersistMode, Readable, Snapshot};
use storebench_engine::store::ordered_map::{self, Documents, KeyRange, Reader, Scope, Stored, Writer};
use storebench_engine::store::{ErrorKind, OpError, Persisted};

use super::text;

/// Enough stripes that writers of different keys rarely contend.
const STRIPES: usize = 64;

/// An open database.
pub(crate) struct FjallDatabase(pub(super) Database);

/// The keyspaces of a collection.
pub(crate) struct Keyspaces {
    pub(super) documents: Keyspace,
    pub(super) indexes: Vec<Keyspace>,
    pub(super) locks: KeyLocks,
}

/// Serializes writes to the same key, so that what an operation has read is still valid when it writes. A single write
/// locks its key's stripe. A bulk operation locks the collection.
#[derive(Debug)]
pub(super) struct KeyLocks {
    all: RwLock<()>,
    stripes: [Mutex<()>; STRIPES],
}

impl Default for KeyLocks {
    fn default() -> Self {
        Self { all: RwLock::new(()), stripes: std::array::from_fn(|_| Mutex::new(())) }
    }
}

// The locks guard `()`, so a panic while one is held leaves no inconsistent state. Poisoning can be ignored.
impl KeyLocks {
    fn key(&self, key: &str) -> (RwLockReadGuard<'_, ()>, MutexGuard<'_, ()>) {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let stripe = &self.stripes[hash as usize % STRIPES];
        (all, stripe.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn all(&self) -> RwLockWriteGuard<'_, ()> {
        self.all.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error of a failed read, or of a write that was not started.
fn failed(error: fjall::Error) -> OpError {
    OpError::new(ErrorKind::Failed, text(&error))
}

/// The error of a failed commit. Its journal entry may be complete, and then the next opening recovers it. Only a
/// database that refuses all writes has certainly not applied it.
fn commit_failed(error: fjall::Error) -> OpError {
    let kind = match error {
        fjall::Error::Poisoned | fjall::Error::KeyspaceDeleted => ErrorKind::Failed,
        _ => ErrorKind::OutcomeUnknown,
    };
    OpError::new(kind, text(&error))
}

impl ordered_map::Database for FjallDatabase {
    const NAME: &'static str = "fjall";
    /// The engine panics at other lengths, because lsm-tree stores the length in 16 bits.
    const KEY_BYTES: RangeInclusive<usize> = 1..=u16::MAX as usize;
    /// All items of a batch have the same sequence number, so a batch may contain a key only once.
    const READS_OWN_WRITES: bool = false;

    type Tables = Keyspaces;
    type Reader<'d> = Reading<'d>;
    type Writer<'w> = Writing<'w>;

    fn read<'d>(&'d self, tables: &'d Keyspaces) -> Result<Reading<'d>, OpError> {
        Ok(Reading { snapshot: self.0.snapshot(), tables })
    }

    /// Reads without a snapshot.
    fn get<T>(&self, tables: &Keyspaces, key: &str, show: impl FnOnce(Stored<'_>) -> T) -> Result<Option<T>, OpError> {
        Ok(tables.documents.get(key).map_err(failed)?.map(|body| show((&*body).into())))
    }

    /// Uses the filters, without reading the document.
    fn contains(&self, tables: &Keyspaces, key: &str) -> Result<bool, OpError> {
        tables.documents.contains_key(key).map_err(failed)
    }

    fn write<T>(
        &self,
        tables: &Keyspaces,
        scope: Scope<'_>,
        persisted: Persisted,
        work: impl FnOnce(&mut Writing<'_>) -> Result<T, OpError>,
    ) -> Result<T, OpError> {
        let persist = match persisted {
            Persisted::None => None,
            Persisted::Os => Some(PersistMode::Buffer),
            Persisted::Disk => Some(PersistMode::SyncAll),
        };
        let (one, mut all, items) = match scope {
            Scope::Key(key) => (Some(tables.locks.key(key)), None, 1),
            Scope::Bulk { items, blind } => (None, (!blind).then(|| tables.locks.all()), items),
        };
        let direct = one.is_some() && tables.indexes.is_empty() && persist == Some(PersistMode::Buffer);
        let mut writer = Writing { database: &self.0, tables, persist, direct, items, batch: None };
        let value = work(&mut writer)?;
        if let Some(batch) = writer.batch {
            if one.is_none() && all.is_none() {
                all = Some(tables.locks.all());
            }
            batch.commit().map_err(commit_failed)?;
        }
        drop((one, all));
        Ok(value)
    }
}

/// Reads all keyspaces from one snapshot.
pub(crate) struct Reading<'d> {
    snapshot: Snapshot,
    tables: &'d Keyspaces,
}

impl Documents for Reading<'_> {
    fn get<T>(&self, key: &str, show: impl FnOnce(Stored<'_>) -> T) -> Result<Option<T>, OpError> {
        let body = self.snapshot.get(&self.tables.documents, key).map_err(failed)?;
        Ok(body.map(|body| show((&*body).into())))
    }
}

impl Reader for Reading<'_> {
    fn range(
        &self,
        range: KeyRange<'_>,
        mut each: impl FnMut(&str, &[u8]) -> Result<bool, OpError>,
    ) -> Result<(), OpError> {
        let documents = &self.tables.documents;
        let found = match range {
            KeyRange::Prefix(prefix) => self.snapshot.prefix(documents, prefix),
            KeyRange::From { .. } => self.snapshot.range::<&str, _>(documents, range.bounds().0),
        };
        for guard in found {
            let (key, body) = guard.into_inner().map_err(failed)?;
            let no_text = |e| OpError::new(ErrorKind::Failed, format!("a stored key is not text: {e}"));
            if each(std::str::from_utf8(&key).map_err(no_text)?, &body)? {
                break;
            }
        }
        Ok(())
    }

    fn entries(
        &self,
        index: usize,
        prefix: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<bool, OpError>,
    ) -> Result<(), OpError> {
        for guard in self.snapshot.prefix(&self.tables.indexes[index], prefix) {
            if each(&guard.key().map_err(failed)?)? {
                break;
            }
        }
        Ok(())
    }
}

/// Writes in a batch, or a single document directly if a batch has no benefit.
pub(crate) struct Writing<'w> {
    database: &'w Database,
    tables: &'w Keyspaces,
    persist: Option<PersistMode>,
    direct: bool,
    items: usize,
    batch: Option<OwnedWriteBatch>,
}

impl Writing<'_> {
    fn batch(&mut self) -> &mut OwnedWriteBatch {
        let capacity = self.items * (1 + self.tables.indexes.len());
        self.batch.get_or_insert_with(|| {
            OwnedWriteBatch::with_capacity(self.database.clone(), capacity).durability(self.persist)
        })
    }
}

impl Documents for Writing<'_> {
    fn get<T>(&self, key: &str, show: impl FnOnce(Stored<'_>) -> T) -> Result<Option<T>, OpError> {
        Ok(self.tables.documents.get(key).map_err(failed)?.map(|body| show((&*body).into())))
    }
}

impl Writer for Writing<'_> {
    /// Uses the filters, without reading the document.
    fn contains(&self, key: &str) -> Result<bool, OpError> {
        self.tables.documents.contains_key(key).map_err(failed)
    }

    fn put(&mut self, key: &str, body: &[u8]) -> Result<(), OpError> {
        let documents = &self.tables.documents;
        if self.direct {
            return documents.insert(key, body).map_err(commit_failed);
        }
        self.batch().insert(documents, key, body);
        Ok(())
    }

    fn remove(&mut self, key: &str) -> Result<(), OpError> {
        let documents = &self.tables.documents;
        if self.direct {
            return documents.remove(key).map_err(commit_failed);
        }
        self.batch().remove(documents, key);
        Ok(())
    }

    fn enter(&mut self, index: usize, entry: &[u8]) -> Result<(), OpError> {
        let keyspace = &self.tables.indexes[index];
        self.batch().insert(keyspace, entry, &b""[..]);
        Ok(())
    }

    fn leave(&mut self, index: usize, entry: &[u8]) -> Result<(), OpError> {
        let keyspace = &self.tables.indexes[index];
        self.batch().remove(keyspace, entry);
        Ok(())
    }

    /// Whether the range has no keys, with one lookup. False also if the read fails. The keys are then looked up one by
    /// one, which reports the error.
    fn is_vacant(&self, first: &str, last: &str) -> bool {
        self.tables.documents.range(first..=last).next().is_none()
    }
}
