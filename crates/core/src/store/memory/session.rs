//! What each operation does. Everything completes within `submit`.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::collection::{Collection, Document, NEVER, not_json};
use super::index;
use crate::engine::Clock;
use crate::store::{
    Batch, BatchBuf, BulkWrite, Completions, ErrorKind, Op, OpError, Reject, Reply, Request, Session, Token,
    merge_patch,
};
use crate::workload::Body;

/// A session of [`MemoryStore`](super::MemoryStore).
pub struct MemorySession {
    collections: Arc<[Arc<Collection>]>,
    clock: Arc<dyn Clock>,
    read: Vec<u8>,
    rows: BatchBuf,
    revision: [u8; 8],
    rejects: Vec<Reject>,
    entries: Vec<Vec<u8>>,
    prefix: Vec<u8>,
}

impl fmt::Debug for MemorySession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySession").field("collections", &self.collections.len()).finish_non_exhaustive()
    }
}

const EXISTS: OpError = OpError::conflict("the key exists already");
const OTHER_REVISION: OpError = OpError::conflict("the document has another revision");

fn refused(message: &'static str) -> OpError {
    OpError::new(ErrorKind::Refused, message)
}

impl Session for MemorySession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let Some(collection) = self.collections.get(request.collection.position()).cloned() else {
            return out.complete(token, Err(refused("the layout has no collection of this number")));
        };
        out.complete(token, self.execute(&collection, &request.op, request.contents));
    }
}

impl MemorySession {
    pub(super) fn new(collections: Arc<[Arc<Collection>]>, clock: Arc<dyn Clock>) -> Self {
        Self {
            collections,
            clock,
            read: Vec::new(),
            rows: BatchBuf::new(),
            revision: [0; 8],
            rejects: Vec::new(),
            entries: Vec::new(),
            prefix: Vec::new(),
        }
    }

    fn execute(&mut self, collection: &Collection, op: &Op<'_>, contents: bool) -> Result<Reply<'_>, OpError> {
        match *op {
            Op::Insert { key, body } => {
                let revision = self.insert(collection, key, body)?;
                Ok(self.wrote(revision))
            }
            Op::Upsert { key, body } => {
                let revision = self.upsert(collection, key, body)?;
                Ok(self.wrote(revision))
            }
            Op::Replace { key, body } => {
                self.check(collection, body)?;
                self.change(collection, key, |document| set(document, body))
            }
            Op::Append { key, bytes } => {
                only_bytes(collection)?;
                self.entries.clear();
                self.change(collection, key, |document| document.body.extend_from_slice(bytes))
            }
            Op::Prepend { key, bytes } => {
                only_bytes(collection)?;
                self.entries.clear();
                self.change(collection, key, |document| {
                    document.body.splice(..0, bytes.iter().copied());
                })
            }
            Op::Read { key } => self.read(collection, key, contents),
            Op::Exists { key } => {
                let there = collection.read(key).get(key, &*self.clock).is_some();
                Ok(Reply { documents: u32::from(there), ..Reply::default() })
            }
            Op::Delete { key } => {
                let mut shard = collection.write(key);
                shard.expire(key, &collection.fields, &*self.clock);
                if shard.remove(key, &collection.fields) { Ok(Reply::written(1)) } else { Err(OpError::not_found()) }
            }
            Op::Touch { key, expiry } => {
                let life_ns = u64::try_from(expiry.as_nanos()).unwrap_or(NEVER);
                let expires_ns = self.clock.now_ns().saturating_add(life_ns);
                let mut shard = collection.write(key);
                shard.expire(key, &collection.fields, &*self.clock);
                if shard.touch(key, expires_ns) { Ok(Reply::written(1)) } else { Err(OpError::not_found()) }
            }
            Op::Counter { key, delta, initial } => self.count(collection, key, delta, initial),
            Op::CompareAndSwap { key, expected, body } => self.swap(collection, key, expected, body),
            Op::MergePatch { key, patch } => self.merge(collection, key, patch),
            Op::BulkWrite { kind, items } => Ok(self.bulk_write(collection, kind, items)),
            Op::BulkRead { keys } => Ok(self.bulk_read(collection, keys, contents)),
            Op::BulkDelete { keys } => {
                let removed = keys.iter().filter(|(key, _)| {
                    let mut shard = collection.write(key);
                    shard.expire(key, &collection.fields, &*self.clock);
                    shard.remove(key, &collection.fields)
                });
                Ok(Reply::written(removed.count()))
            }
            Op::Page { field, value, limit } => self.page(collection, field, value, limit, contents),
            Op::Prefix { prefix, limit } => {
                Ok(self.scan(collection, prefix, |key| key.starts_with(prefix), limit, contents))
            }
            Op::Scan { start, end, limit } => {
                Ok(self.scan(collection, start, |key| end.is_none_or(|end| key < end), limit, contents))
            }
            Op::View { .. } => Err(OpError::unsupported()),
        }
    }

    /// Refuses what this collection cannot hold, and makes the index entries of what it can.
    fn check(&mut self, collection: &Collection, body: &[u8]) -> Result<(), OpError> {
        if collection.body == Body::Counter {
            number(body)?;
        }
        index::entries(&collection.fields, body, &mut self.entries).map_err(|e| not_json(&e))
    }

    fn insert(&mut self, collection: &Collection, key: &str, body: &[u8]) -> Result<u64, OpError> {
        self.check(collection, body)?;
        let mut shard = collection.write(key);
        shard.expire(key, &collection.fields, &*self.clock);
        shard.insert(key, body, &self.entries).ok_or(EXISTS)
    }

    fn upsert(&mut self, collection: &Collection, key: &str, body: &[u8]) -> Result<u64, OpError> {
        self.check(collection, body)?;
        let mut shard = collection.write(key);
        shard.expire(key, &collection.fields, &*self.clock);
        match shard.change(key, &collection.fields, &self.entries, |document| set(document, body)) {
            Some(revision) => Ok(revision),
            None => shard.insert(key, body, &self.entries).ok_or(EXISTS),
        }
    }

    /// Changes a document whose index entries after the change stand in `self.entries`.
    fn change(
        &mut self,
        collection: &Collection,
        key: &str,
        change: impl FnOnce(&mut Document),
    ) -> Result<Reply<'_>, OpError> {
        let mut shard = collection.write(key);
        shard.expire(key, &collection.fields, &*self.clock);
        let revision = shard.change(key, &collection.fields, &self.entries, change).ok_or_else(OpError::not_found)?;
        drop(shard);
        Ok(self.wrote(revision))
    }

    fn read(&mut self, collection: &Collection, key: &str, contents: bool) -> Result<Reply<'_>, OpError> {
        self.read.clear();
        let shard = collection.read(key);
        let document = shard.get(key, &*self.clock).ok_or_else(OpError::not_found)?;
        // Copied rather than lent: the receiver shall not work under the shard's lock.
        self.read.extend_from_slice(&document.body);
        self.revision = document.revision.to_be_bytes();
        drop(shard);
        Ok(Reply {
            documents: 1,
            bytes: self.read.len() as u64,
            body: contents.then_some(&self.read),
            revision: Some(&self.revision),
            ..Reply::default()
        })
    }

    fn count(&mut self, collection: &Collection, key: &str, delta: i64, initial: i64) -> Result<Reply<'_>, OpError> {
        if collection.body != Body::Counter {
            return Err(refused("counters live in collections of counters only"));
        }
        let mut shard = collection.write(key);
        shard.expire(key, &collection.fields, &*self.clock);
        let (revision, value) = match shard.get(key, &*self.clock) {
            Some(document) => {
                let value = number(&document.body)?
                    .checked_add(delta)
                    .ok_or_else(|| refused("the counter would leave the range of 64 bits"))?;
                let revision = shard.change(key, &[], &[], |document| write_number(&mut document.body, value));
                (revision, value)
            }
            None => (shard.insert(key, initial.to_string().as_bytes(), &[]), initial),
        };
        drop(shard);
        let revision = revision.ok_or(EXISTS)?;
        Ok(Reply { counter: Some(value), ..self.wrote(revision) })
    }

    fn swap(&mut self, collection: &Collection, key: &str, expected: &[u8], body: &[u8]) -> Result<Reply<'_>, OpError> {
        self.check(collection, body)?;
        let mut shard = collection.write(key);
        shard.expire(key, &collection.fields, &*self.clock);
        let found = shard.get(key, &*self.clock).ok_or_else(OpError::not_found)?;
        if found.revision.to_be_bytes() != expected {
            return Err(OTHER_REVISION);
        }
        let revision = shard
            .change(key, &collection.fields, &self.entries, |document| set(document, body))
            .ok_or_else(OpError::not_found)?;
        drop(shard);
        Ok(self.wrote(revision))
    }

    fn merge(&mut self, collection: &Collection, key: &str, patch: &[u8]) -> Result<Reply<'_>, OpError> {
        if collection.body != Body::Json {
            return Err(refused("a merge patch works on collections of JSON only"));
        }
        let patch: Value = serde_json::from_slice(patch).map_err(|e| not_json(&e))?;
        if !patch.is_object() {
            return Err(refused("a merge patch that is no object would leave no JSON object"));
        }
        // The whole change is done under the lock, so that no write between is lost.
        let mut shard = collection.write(key);
        shard.expire(key, &collection.fields, &*self.clock);
        let found = shard.get(key, &*self.clock).ok_or_else(OpError::not_found)?;
        let mut value: Value = serde_json::from_slice(&found.body).map_err(|e| not_json(&e))?;
        merge_patch(&mut value, &patch);
        let merged = serde_json::to_vec(&value).map_err(|e| not_json(&e))?;
        index::entries(&collection.fields, &merged, &mut self.entries).map_err(|e| not_json(&e))?;
        let revision = shard
            .change(key, &collection.fields, &self.entries, |document| document.body = merged)
            .ok_or_else(OpError::not_found)?;
        drop(shard);
        Ok(self.wrote(revision))
    }

    fn bulk_write(&mut self, collection: &Collection, kind: BulkWrite, items: Batch<'_>) -> Reply<'_> {
        self.rejects.clear();
        for (item, (key, body)) in items.iter().enumerate() {
            let result = match kind {
                BulkWrite::Insert => self.insert(collection, key, body),
                BulkWrite::Upsert => self.upsert(collection, key, body),
            };
            if let Err(error) = result {
                self.rejects.push(Reject { item, error });
            }
        }
        Reply { rejects: &self.rejects, ..Reply::written(items.len() - self.rejects.len()) }
    }

    fn bulk_read(&mut self, collection: &Collection, keys: Batch<'_>, contents: bool) -> Reply<'_> {
        let mut found = Found::new(&mut self.rows);
        for (key, _) in keys.iter() {
            if let Some(document) = collection.read(key).get(key, &*self.clock) {
                found.push(key, document);
            }
        }
        found.reply(contents)
    }

    fn scan(
        &mut self,
        collection: &Collection,
        start: &str,
        within: impl Fn(&str) -> bool,
        limit: u32,
        contents: bool,
    ) -> Reply<'_> {
        let mut found = Found::new(&mut self.rows);
        collection.scan(start, within, limit, &*self.clock, |key, document| found.push(key, document));
        found.reply(contents)
    }

    fn page(
        &mut self,
        collection: &Collection,
        field: &str,
        value: &str,
        limit: u32,
        contents: bool,
    ) -> Result<Reply<'_>, OpError> {
        let number = collection
            .fields
            .iter()
            .position(|indexed| indexed == field)
            .ok_or_else(|| refused("the field has no index"))?;
        let value: Value = serde_json::from_str(value)
            .map_err(|e| OpError::new(ErrorKind::Refused, format!("the value asked for is no JSON: {e}")))?;
        if !index::prefix(number, &value, &mut self.prefix) {
            return Err(refused("arrays and objects are not indexed"));
        }
        let mut found = Found::new(&mut self.rows);
        collection.page(&self.prefix, limit, &*self.clock, |key, document| found.push(key, document));
        Ok(found.reply(contents))
    }

    fn wrote(&mut self, revision: u64) -> Reply<'_> {
        self.revision = revision.to_be_bytes();
        Reply { revision: Some(&self.revision), ..Reply::written(1) }
    }
}

/// Documents found, with the bytes of their bodies.
struct Found<'a> {
    rows: &'a mut BatchBuf,
    body_bytes: u64,
}

impl<'a> Found<'a> {
    fn new(rows: &'a mut BatchBuf) -> Self {
        rows.clear();
        Self { rows, body_bytes: 0 }
    }

    fn push(&mut self, key: &str, document: &Document) {
        self.rows.push(key, &document.body);
        self.body_bytes += document.body.len() as u64;
    }

    fn reply(self, contents: bool) -> Reply<'a> {
        Reply {
            documents: u32::try_from(self.rows.len()).unwrap_or(u32::MAX),
            bytes: self.body_bytes,
            rows: contents.then_some(self.rows.as_batch()),
            ..Reply::default()
        }
    }
}

fn set(document: &mut Document, body: &[u8]) {
    document.body.clear();
    document.body.extend_from_slice(body);
    document.expires_ns = NEVER;
}

fn only_bytes(collection: &Collection) -> Result<(), OpError> {
    if collection.body == Body::Bytes {
        Ok(())
    } else {
        Err(refused("append and prepend work on collections of bytes only"))
    }
}

fn number(body: &[u8]) -> Result<i64, OpError> {
    std::str::from_utf8(body)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| refused("a counter holds a decimal integer of 64 bits"))
}

fn write_number(body: &mut Vec<u8>, value: i64) {
    body.clear();
    body.extend_from_slice(value.to_string().as_bytes());
}
