//! One collection: shards of ordered maps, each with its part of the secondary indexes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use xxhash_rust::xxh3::xxh3_64;

use super::index;
use crate::engine::Clock;
use crate::store::{CollectionLayout, OpError};
use crate::workload::Body;

/// Enough that writers on a handful of threads seldom meet, few enough that an ordered read of one
/// page does not spend its time on finding the beginning in each.
const SHARDS: usize = 8;

/// No expiry.
pub(super) const NEVER: u64 = u64::MAX;

/// A stored document.
#[derive(Debug, Clone)]
pub(super) struct Document {
    pub(super) body: Vec<u8>,
    /// Never given twice within a shard, so also not to a document that was deleted and made anew.
    pub(super) revision: u64,
    /// In ns of the run's clock, or [`NEVER`].
    pub(super) expires_ns: u64,
}

impl Document {
    /// Whether it is still there. Reads the clock only for documents that can expire.
    pub(super) fn lives(&self, clock: &dyn Clock) -> bool {
        self.expires_ns == NEVER || clock.now_ns() < self.expires_ns
    }
}

/// A collection of documents.
#[derive(Debug)]
pub(super) struct Collection {
    pub(super) name: String,
    pub(super) body: Body,
    /// The leading field of each index, once.
    pub(super) fields: Vec<String>,
    shards: Box<[Padded]>,
}

/// A lock on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(RwLock<Shard>);

impl Collection {
    pub(super) fn new(layout: &CollectionLayout) -> Self {
        Self {
            name: layout.name.clone(),
            body: layout.body,
            fields: leading_fields(layout),
            shards: (0..SHARDS).map(|_| Padded::default()).collect(),
        }
    }

    /// Every key, in no order.
    pub(super) fn keys(&self) -> Vec<String> {
        let shards = self.shards.iter().map(|shard| shard.0.read().unwrap_or_else(PoisonError::into_inner));
        shards.flat_map(|shard| shard.documents.keys().map(|key| key.to_string()).collect::<Vec<_>>()).collect()
    }

    fn shard_of(&self, key: &str) -> &RwLock<Shard> {
        let number = xxh3_64(key.as_bytes()) as usize % SHARDS;
        &self.shards[number].0
    }

    /// The shard of a key, for reading. A panic elsewhere leaves a shard whole, since nothing
    /// under its lock panics, so poisoning is ignored.
    pub(super) fn read(&self, key: &str) -> RwLockReadGuard<'_, Shard> {
        self.shard_of(key).read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shard of a key, for writing.
    pub(super) fn write(&self, key: &str) -> RwLockWriteGuard<'_, Shard> {
        self.shard_of(key).write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every shard at once, for an ordered read. Readers take them in the same order and writers
    /// take one only, so nobody waits in a circle.
    fn read_all(&self) -> Vec<RwLockReadGuard<'_, Shard>> {
        self.shards.iter().map(|shard| shard.0.read().unwrap_or_else(PoisonError::into_inner)).collect()
    }

    /// The first `limit` documents from `start` on while `within` says so, in key order.
    pub(super) fn scan(
        &self,
        start: &str,
        within: impl Fn(&str) -> bool,
        limit: u32,
        clock: &dyn Clock,
        mut each: impl FnMut(&str, &Document),
    ) {
        let shards = self.read_all();
        let from = (Bound::Included(start), Bound::Unbounded);
        let parts = shards
            .iter()
            .map(|shard| shard.documents.range::<str, _>(from).map(|(key, document)| (&**key, document)))
            .collect();
        merge(parts, limit, |key, document| {
            if !within(key) {
                return None;
            }
            Some(
                document.lives(clock) && {
                    each(key, document);
                    true
                },
            )
        });
    }

    /// The first `limit` documents, in key order, with an index entry of this prefix.
    pub(super) fn page(&self, prefix: &[u8], limit: u32, clock: &dyn Clock, mut each: impl FnMut(&str, &Document)) {
        let shards = self.read_all();
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let parts = shards
            .iter()
            .map(|shard| {
                shard.index.range::<[u8], _>(from).map_while(move |entry| {
                    let key = std::str::from_utf8(entry.strip_prefix(prefix)?).ok()?;
                    Some((key, shard.documents.get(key)?))
                })
            })
            .collect();
        merge(parts, limit, |key, document| {
            Some(
                document.lives(clock) && {
                    each(key, document);
                    true
                },
            )
        });
    }

    /// Documents and bytes of their bodies, expired ones included until they are overwritten.
    pub(super) fn totals(&self) -> (u64, u64) {
        self.read_all().iter().fold((0, 0), |(documents, bytes), shard| {
            let body_bytes: u64 = shard.documents.values().map(|document| document.body.len() as u64).sum();
            (documents + shard.documents.len() as u64, bytes + body_bytes)
        })
    }

    /// The same documents under another layout: their indexes are made anew.
    pub(super) fn reindexed(&self, layout: &CollectionLayout) -> Result<Self, OpError> {
        let made = Self::new(layout);
        let mut entries = Vec::new();
        for (old, new) in self.read_all().iter().zip(&made.shards) {
            let mut new = new.0.write().unwrap_or_else(PoisonError::into_inner);
            new.revision = old.revision;
            new.expires = old.expires;
            for (key, document) in &old.documents {
                index::entries(&made.fields, &document.body, &mut entries).map_err(|e| not_json(&e))?;
                new.enter(key, &entries);
                new.documents.insert(key.clone(), document.clone());
            }
        }
        Ok(made)
    }
}

/// The leading field of each index, once.
pub(super) fn leading_fields(layout: &CollectionLayout) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    for field in layout.indexes.iter().filter_map(|index| index.first()) {
        if !fields.contains(field) {
            fields.push(field.clone());
        }
    }
    fields
}

/// That a document cannot be indexed.
pub(super) fn not_json(error: &serde_json::Error) -> OpError {
    OpError::new(crate::store::ErrorKind::Refused, format!("the document is no JSON object: {error}"))
}

/// A part of a collection.
#[derive(Debug, Default)]
pub(super) struct Shard {
    documents: BTreeMap<Box<str>, Document>,
    index: BTreeSet<Box<[u8]>>,
    revision: u64,
    /// Whether any document here was ever given an expiry; spares all others the look.
    expires: bool,
}

impl Shard {
    /// A document that is there now.
    pub(super) fn get(&self, key: &str, clock: &dyn Clock) -> Option<&Document> {
        self.documents.get(key).filter(|document| document.lives(clock))
    }

    /// Removes a document whose time has passed, so that a write finds nothing there.
    pub(super) fn expire(&mut self, key: &str, fields: &[String], clock: &dyn Clock) {
        if self.expires && self.documents.get(key).is_some_and(|document| !document.lives(clock)) {
            self.remove(key, fields);
        }
    }

    /// Stores a new document unless the key exists; gives its revision.
    pub(super) fn insert(&mut self, key: &str, body: &[u8], entries: &[Vec<u8>]) -> Option<u64> {
        let std::collections::btree_map::Entry::Vacant(place) = self.documents.entry(key.into()) else {
            return None;
        };
        self.revision += 1;
        place.insert(Document { body: body.to_vec(), revision: self.revision, expires_ns: NEVER });
        self.enter(key, entries);
        Some(self.revision)
    }

    /// Changes the document of a key by `change`; gives its new revision, or nothing when there is
    /// no document. `entries` are the index entries of the document after the change.
    pub(super) fn change(
        &mut self,
        key: &str,
        fields: &[String],
        entries: &[Vec<u8>],
        change: impl FnOnce(&mut Document),
    ) -> Option<u64> {
        let document = self.documents.get_mut(key)?;
        let mut before = Vec::new();
        if !fields.is_empty() {
            // What was stored could be indexed then, and so it can now.
            let _ = index::entries(fields, &document.body, &mut before);
        }
        self.revision += 1;
        document.revision = self.revision;
        change(document);
        if before != entries {
            self.leave(key, &before);
            self.enter(key, entries);
        }
        Some(self.revision)
    }

    /// Sets the expiry of a document; false when there is none.
    pub(super) fn touch(&mut self, key: &str, expires_ns: u64) -> bool {
        let Some(document) = self.documents.get_mut(key) else { return false };
        document.expires_ns = expires_ns;
        self.expires = true;
        true
    }

    /// Removes a document; false when there is none.
    pub(super) fn remove(&mut self, key: &str, fields: &[String]) -> bool {
        let Some(document) = self.documents.remove(key) else { return false };
        if !fields.is_empty() {
            let mut entries = Vec::new();
            let _ = index::entries(fields, &document.body, &mut entries);
            self.leave(key, &entries);
        }
        true
    }

    fn enter(&mut self, key: &str, entries: &[Vec<u8>]) {
        for entry in entries {
            self.index.insert([entry, key.as_bytes()].concat().into());
        }
    }

    fn leave(&mut self, key: &str, entries: &[Vec<u8>]) {
        for entry in entries {
            self.index.remove(&*[entry, key.as_bytes()].concat());
        }
    }
}

/// Walks parts that are each in key order, in the key order of all, until `limit` documents count.
/// `visit` says whether a document counts, or with `None` that the walk is over.
fn merge<'a>(
    mut parts: Vec<impl Iterator<Item = (&'a str, &'a Document)>>,
    limit: u32,
    mut visit: impl FnMut(&'a str, &'a Document) -> Option<bool>,
) {
    let mut left = limit;
    let mut held: Vec<Option<&Document>> = vec![None; parts.len()];
    let mut heads = BinaryHeap::with_capacity(parts.len());
    for (number, part) in parts.iter_mut().enumerate() {
        if let Some((key, document)) = part.next() {
            held[number] = Some(document);
            heads.push(Reverse((key, number)));
        }
    }
    while left > 0
        && let Some(Reverse((key, number))) = heads.pop()
        && let Some(document) = held[number].take()
        && let Some(counts) = visit(key, document)
    {
        left -= u32::from(counts);
        if let Some((key, document)) = parts[number].next() {
            held[number] = Some(document);
            heads.push(Reverse((key, number)));
        }
    }
}
