//! One collection: shards of ordered maps, each with its part of the secondary indexes.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use xxhash_rust::xxh3::xxh3_64;

use crate::Clock;
use crate::store::ordered_map::{Entries, Indexes, Stored};
use crate::store::{CollectionLayout, OpError};
use storebench_study::workload::Body;

/// Enough that writers on a handful of threads seldom meet. Few enough that an ordered read of one page does not spend
/// its time on finding the start in each shard.
const SHARDS: usize = 8;

/// No expiry.
pub(super) const NEVER: u64 = u64::MAX;

/// A stored document.
#[derive(Debug, Clone)]
pub(super) struct Document {
    pub(super) body: Vec<u8>,
    /// A number in big-endian order. It is never reused within a shard, not even for a document that was deleted and
    /// created again.
    pub(super) revision: [u8; 8],
    /// In ns of the run's clock, or [`NEVER`].
    pub(super) expires_ns: u64,
}

impl Document {
    /// Whether it has not expired. Reads the clock only for documents that can expire.
    pub(super) fn lives(&self, clock: &dyn Clock) -> bool {
        self.expires_ns == NEVER || clock.now_ns() < self.expires_ns
    }

    pub(super) fn stored(&self) -> Stored<'_> {
        Stored { body: &self.body, revision: &self.revision }
    }
}

/// A collection of documents.
#[derive(Debug)]
pub struct Collection {
    pub(super) name: String,
    pub(super) body: Body,
    pub(super) indexes: Indexes,
    shards: Box<[Padded]>,
}

/// A lock on separate cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Padded(RwLock<Shard>);

impl Collection {
    pub(super) fn new(layout: &CollectionLayout) -> Self {
        Self {
            name: layout.name.clone(),
            body: layout.body,
            indexes: Indexes::new(&layout.indexes),
            shards: (0..SHARDS).map(|_| Padded(RwLock::new(Shard::new(layout.indexes.len())))).collect(),
        }
    }

    /// Every key, in no particular order.
    pub(super) fn keys(&self) -> Vec<String> {
        let shards = self.shards.iter().map(|shard| shard.0.read().unwrap_or_else(PoisonError::into_inner));
        shards.flat_map(|shard| shard.documents.keys().map(|key| key.to_string()).collect::<Vec<_>>()).collect()
    }

    /// The shard of a key, by its number.
    pub(super) fn shard_of(&self, key: &str) -> usize {
        xxh3_64(key.as_bytes()) as usize % SHARDS
    }

    /// The shard of a key, for reading. Nothing under its lock panics, so a panic elsewhere leaves the shard
    /// consistent, and poisoning is ignored.
    pub(super) fn read(&self, key: &str) -> RwLockReadGuard<'_, Shard> {
        self.shards[self.shard_of(key)].0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shard of a key, for writing. An expired document of this key is removed first, so that a write does not find
    /// it.
    pub(super) fn write(&self, key: &str, clock: &dyn Clock) -> RwLockWriteGuard<'_, Shard> {
        let mut shard = self.shards[self.shard_of(key)].0.write().unwrap_or_else(PoisonError::into_inner);
        if shard.expires && shard.documents.get(key).is_some_and(|document| !document.lives(clock)) {
            shard.expire(key, &self.indexes);
        }
        shard
    }

    /// Every shard at once, for an ordered read. Readers lock the shards in the same order, and writers lock only one,
    /// so there is no deadlock.
    pub(super) fn read_all(&self) -> Vec<RwLockReadGuard<'_, Shard>> {
        self.shards.iter().map(|shard| shard.0.read().unwrap_or_else(PoisonError::into_inner)).collect()
    }

    /// Documents and bytes of their bodies, expired ones included until they are overwritten.
    pub(super) fn totals(&self) -> (u64, u64) {
        self.read_all().iter().fold((0, 0), |(documents, bytes), shard| {
            let body_bytes: u64 = shard.documents.values().map(|document| document.body.len() as u64).sum();
            (documents + shard.documents.len() as u64, bytes + body_bytes)
        })
    }

    /// The same documents under another layout, with its indexes.
    pub(super) fn reindexed(&self, layout: &CollectionLayout) -> Result<Self, OpError> {
        let made = Self::new(layout);
        let mut entries = Entries::default();
        for (old, new) in self.read_all().iter().zip(&made.shards) {
            let mut new = new.0.write().unwrap_or_else(PoisonError::into_inner);
            new.revision = old.revision;
            new.expires = old.expires;
            for (key, document) in &old.documents {
                entries.fill(&made.indexes, key, &document.body)?;
                for (index, set) in new.indexes.iter_mut().enumerate() {
                    set.extend(entries.get(index).map(Box::from));
                }
                new.documents.insert(key.clone(), document.clone());
            }
        }
        Ok(made)
    }
}

/// A part of a collection.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) documents: BTreeMap<Box<str>, Document>,
    /// The entries of each index.
    pub(super) indexes: Vec<BTreeSet<Box<[u8]>>>,
    revision: u64,
    /// Whether any document here was ever given an expiry. Otherwise writes skip the check.
    expires: bool,
}

impl Shard {
    fn new(indexes: usize) -> Self {
        Self { documents: BTreeMap::new(), indexes: vec![BTreeSet::new(); indexes], revision: 0, expires: false }
    }

    fn expire(&mut self, key: &str, indexes: &Indexes) {
        let Some(document) = self.documents.remove(key) else { return };
        let mut entries = Entries::default();
        // The document could be indexed when it was stored, so it can be indexed now.
        let _ = entries.fill(indexes, key, &document.body);
        for (index, set) in self.indexes.iter_mut().enumerate() {
            entries.get(index).map(|entry| set.remove(entry));
        }
    }

    /// A document that exists and has not expired.
    pub(super) fn get(&self, key: &str, clock: &dyn Clock) -> Option<&Document> {
        self.documents.get(key).filter(|document| document.lives(clock))
    }

    /// A revision that no document has had.
    fn next_revision(&mut self) -> [u8; 8] {
        self.revision += 1;
        self.revision.to_be_bytes()
    }

    /// Stores a new document and returns its revision; `None` if the key exists.
    pub(super) fn insert(&mut self, key: &str, body: &[u8]) -> Option<[u8; 8]> {
        let revision = self.next_revision();
        let Entry::Vacant(place) = self.documents.entry(key.into()) else { return None };
        place.insert(Document { body: body.to_vec(), revision, expires_ns: NEVER });
        Some(revision)
    }

    /// Changes a document with `change` and returns its new revision; `None` if there is no document.
    pub(super) fn change(&mut self, key: &str, change: impl FnOnce(&mut Document)) -> Option<[u8; 8]> {
        let document = self.documents.get_mut(key)?;
        self.revision += 1;
        document.revision = self.revision.to_be_bytes();
        change(document);
        Some(document.revision)
    }

    /// Sets the expiry of a document; returns false if there is none.
    pub(super) fn touch(&mut self, key: &str, expires_ns: u64) -> bool {
        let Some(document) = self.documents.get_mut(key) else { return false };
        document.expires_ns = expires_ns;
        self.expires = true;
        true
    }
}

/// Walks parts that are each in order, in their common order, until `visit` returns true.
pub(super) fn merge<K: Ord + Copy, V>(
    mut parts: Vec<impl Iterator<Item = (K, V)>>,
    mut visit: impl FnMut(K, V) -> Result<bool, OpError>,
) -> Result<(), OpError> {
    let mut held: Vec<Option<V>> = parts.iter().map(|_| None).collect();
    let mut heads = BinaryHeap::with_capacity(parts.len());
    for (number, part) in parts.iter_mut().enumerate() {
        if let Some((key, value)) = part.next() {
            held[number] = Some(value);
            heads.push(Reverse((key, number)));
        }
    }
    while let Some(Reverse((key, number))) = heads.pop()
        && let Some(value) = held[number].take()
        && !visit(key, value)?
    {
        if let Some((key, value)) = parts[number].next() {
            held[number] = Some(value);
            heads.push(Reverse((key, number)));
        }
    }
    Ok(())
}
