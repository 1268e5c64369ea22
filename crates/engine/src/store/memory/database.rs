//! Reads and writes of the collections.

use std::ops::Bound;
use std::sync::{Arc, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use super::collection::{Collection, Document, NEVER, Shard, merge};
use crate::Clock;
use crate::store::ordered_map::{Database, Documents, KeyRange, OrderedSession, Reader, Scope, Stored, Writer};
use crate::store::{OpError, Persisted};

/// A session of [`MemoryStore`](super::MemoryStore).
pub type MemorySession = OrderedSession<MemoryDatabase>;

/// The database of a session, with its clock.
pub struct MemoryDatabase {
    pub(super) clock: Arc<dyn Clock>,
}

impl Database for MemoryDatabase {
    const NAME: &'static str = "memory";
    const BULK_IS_ATOMIC: bool = false;
    const COPIES_READS: bool = true;
    const EXPIRES: bool = true;
    const PAGES_BY_SCAN: bool = false;

    type Tables = Arc<Collection>;
    type Reader<'d> = Reading<'d>;
    type Writer<'w> = Writing<'w>;

    fn read<'d>(&'d self, tables: &'d Arc<Collection>) -> Result<Reading<'d>, OpError> {
        Ok(Reading { collection: tables, shards: tables.read_all(), clock: &*self.clock })
    }

    /// Locks one shard instead of all.
    fn get<T>(
        &self,
        tables: &Arc<Collection>,
        key: &str,
        show: impl FnOnce(Stored<'_>) -> T,
    ) -> Result<Option<T>, OpError> {
        Ok(tables.read(key).get(key, &*self.clock).map(|document| show(document.stored())))
    }

    fn write<T>(
        &self,
        tables: &Arc<Collection>,
        scope: Scope<'_>,
        _: Persisted,
        work: impl FnOnce(&mut Writing<'_>) -> Result<T, OpError>,
    ) -> Result<T, OpError> {
        let Scope::Key(key) = scope else { return Err(OpError::unsupported()) };
        let clock = &*self.clock;
        work(&mut Writing { shard: tables.write(key, clock), clock, revision: None })
    }
}

/// All shards, locked for reading, so that nothing changes meanwhile.
pub struct Reading<'d> {
    collection: &'d Collection,
    shards: Vec<RwLockReadGuard<'d, Shard>>,
    clock: &'d dyn Clock,
}

impl Documents for Reading<'_> {
    fn get<T>(&self, key: &str, show: impl FnOnce(Stored<'_>) -> T) -> Result<Option<T>, OpError> {
        let shard = &self.shards[self.collection.shard_of(key)];
        Ok(shard.get(key, self.clock).map(|document| show(document.stored())))
    }
}

impl Reader for Reading<'_> {
    fn range(
        &self,
        range: KeyRange<'_>,
        mut each: impl FnMut(&str, &[u8]) -> Result<bool, OpError>,
    ) -> Result<(), OpError> {
        let (bounds, prefix) = range.bounds();
        let parts = self.shards.iter().map(|shard| shard.documents.range::<str, _>(bounds).map(|(key, d)| (&**key, d)));
        merge(parts.collect(), |key: &str, document: &Document| {
            if !key.starts_with(prefix) {
                return Ok(true);
            }
            Ok(document.lives(self.clock) && each(key, &document.body)?)
        })
    }

    fn entries(
        &self,
        index: usize,
        prefix: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<bool, OpError>,
    ) -> Result<(), OpError> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let parts =
            self.shards.iter().map(|shard| shard.indexes[index].range::<[u8], _>(from).map(|entry| (&**entry, ())));
        merge(parts.collect(), |entry: &[u8], ()| Ok(!entry.starts_with(prefix) || each(entry)?))
    }
}

/// A shard that is locked for writing.
pub struct Writing<'w> {
    shard: RwLockWriteGuard<'w, Shard>,
    clock: &'w dyn Clock,
    revision: Option<[u8; 8]>,
}

impl Writing<'_> {
    fn change(&mut self, key: &str, change: impl FnOnce(&mut Document)) -> bool {
        self.revision = self.shard.change(key, change);
        self.revision.is_some()
    }
}

impl Documents for Writing<'_> {
    fn get<T>(&self, key: &str, show: impl FnOnce(Stored<'_>) -> T) -> Result<Option<T>, OpError> {
        // An expired document was removed when the shard was locked.
        Ok(self.shard.documents.get(key).map(|document| show(document.stored())))
    }
}

impl Writer for Writing<'_> {
    fn put(&mut self, key: &str, body: &[u8]) -> Result<(), OpError> {
        if !self.replace(key, body)? {
            self.insert(key, body)?;
        }
        Ok(())
    }

    fn remove(&mut self, key: &str) -> Result<(), OpError> {
        self.take(key).map(drop)
    }

    fn enter(&mut self, index: usize, entry: &[u8]) -> Result<(), OpError> {
        self.shard.indexes[index].insert(entry.into());
        Ok(())
    }

    fn leave(&mut self, index: usize, entry: &[u8]) -> Result<(), OpError> {
        self.shard.indexes[index].remove(entry);
        Ok(())
    }

    fn amend(&mut self, key: &str, body: &mut Vec<u8>) -> Result<(), OpError> {
        if !self.change(key, |document| std::mem::swap(&mut document.body, body)) {
            self.insert(key, body)?;
        }
        Ok(())
    }

    fn insert(&mut self, key: &str, body: &[u8]) -> Result<bool, OpError> {
        self.revision = self.shard.insert(key, body);
        Ok(self.revision.is_some())
    }

    fn replace(&mut self, key: &str, body: &[u8]) -> Result<bool, OpError> {
        Ok(self.change(key, |document| {
            document.body.clear();
            document.body.extend_from_slice(body);
            document.expires_ns = NEVER;
        }))
    }

    fn take(&mut self, key: &str) -> Result<bool, OpError> {
        Ok(self.shard.documents.remove(key).is_some())
    }

    fn extend(&mut self, key: &str, bytes: &[u8], in_front: bool) -> Option<bool> {
        Some(self.change(key, |document| match in_front {
            true => drop(document.body.splice(..0, bytes.iter().copied())),
            false => document.body.extend_from_slice(bytes),
        }))
    }

    fn touch(&mut self, key: &str, expiry: Duration) -> Option<bool> {
        let life_ns = u64::try_from(expiry.as_nanos()).unwrap_or(NEVER);
        let expires_ns = self.clock.now_ns().saturating_add(life_ns);
        Some(self.shard.touch(key, expires_ns))
    }

    fn written_revision(&self) -> Option<[u8; 8]> {
        self.revision
    }
}
