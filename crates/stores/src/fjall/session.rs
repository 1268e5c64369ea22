//! One user of the open database. Every operation ends before `submit` returns.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use fjall::{Keyspace, OwnedWriteBatch, PersistMode, Readable};
use storebench_core::store::{
    Batch, BatchBuf, BulkWrite, Completions, Durability, ErrorKind, Op, OpError, Reject, Reply, Request, Session,
    StoreError, Token,
};
use storebench_core::workload::Body;

use super::{Collection, Opened, text};
use crate::document::{self, EXISTS, Effect, wrong_collection};
use crate::found::Found;
use crate::index_entry::{self, Index};
use crate::repeats::ascending;

/// Enough that writers of different keys seldom meet.
const STRIPES: usize = 64;

/// Batches at least this large look once whether the range of their keys is empty. Smaller ones ask
/// for each key, which the tables' filters answer without reading a block; a range has no filter.
const FEWEST_FOR_RANGE: usize = 16;

/// Orders writes to the same key, so that what an operation has read still holds when it writes.
/// A single write locks its key's stripe, a bulk operation the collection.
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

// A panic while one of them is held leaves nothing half done that they guard: they guard `()`.
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

/// One user of the database.
pub(crate) struct FjallSession {
    opened: Arc<Opened>,
    persist: Option<PersistMode>,
    buffers: Buffers,
}

#[derive(Default)]
struct Buffers {
    rows: BatchBuf,
    rejects: Vec<Reject>,
    /// The document that an operation makes.
    made: Vec<u8>,
    entry: Vec<u8>,
    old_entry: Vec<u8>,
}

impl FjallSession {
    pub(super) fn new(opened: Arc<Opened>, durability: Durability) -> Result<Self, StoreError> {
        let persist = match durability {
            Durability::MEMORY => None,
            Durability::OS => Some(PersistMode::Buffer),
            Durability::FSYNC => Some(PersistMode::SyncAll),
            other => return Err(StoreError::NotSupported(format!("fjall cannot promise `{other}`"))),
        };
        Ok(Self { opened, persist, buffers: Buffers::default() })
    }

    fn run(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) -> Result<(), OpError> {
        let Self { opened, persist, buffers } = self;
        let opened = &**opened;
        let collection = opened
            .collections
            .get(request.collection.position())
            .ok_or_else(|| OpError::new(ErrorKind::Refused, "the layout has no such collection"))?;
        if opened.read_only && request.op.kind().writes() {
            return Err(OpError::new(ErrorKind::Refused, "the store was opened for reading only"));
        }
        let writer = Writer { opened, collection, persist: *persist };
        let contents = request.contents;
        match request.op {
            Op::Read { key } => {
                let body = collection.documents.get(key).map_err(|e| failed(&e))?.ok_or(OpError::not_found())?;
                let reply = Reply {
                    documents: 1,
                    bytes: body.len() as u64,
                    body: contents.then_some(&*body),
                    revision: Some(&*body),
                    ..Reply::default()
                };
                out.complete(token, Ok(reply));
            }
            Op::Exists { key } => {
                let found = collection.documents.contains_key(key).map_err(|e| failed(&e))?;
                out.complete(token, Ok(Reply::written(usize::from(found))));
            }
            Op::BulkRead { keys } => {
                let snapshot = opened.database.snapshot();
                let mut found = Found::new(&mut buffers.rows, contents);
                for (key, _) in keys.iter() {
                    if let Some(body) = snapshot.get(&collection.documents, key).map_err(|e| failed(&e))? {
                        found.add(key, &body);
                    }
                }
                out.complete(token, Ok(found.reply()));
            }
            Op::Prefix { prefix, limit } => {
                let bounded = document::prefix_end(prefix.as_bytes(), &mut buffers.entry);
                let end = bounded.then_some(&buffers.entry[..]);
                let reply = range(&collection.documents, prefix, end, limit, Found::new(&mut buffers.rows, contents))?;
                out.complete(token, Ok(reply));
            }
            Op::Scan { start, end, limit } => {
                let end = end.map(str::as_bytes);
                let reply = range(&collection.documents, start, end, limit, Found::new(&mut buffers.rows, contents))?;
                out.complete(token, Ok(reply));
            }
            Op::Page { field, value, limit } => {
                if collection.body != Body::Json {
                    return Err(wrong_collection("page works on collections of JSON only"));
                }
                index_entry::encode_wanted(value, &mut buffers.entry)?;
                let found = Found::new(&mut buffers.rows, contents);
                let reply = page(opened, collection, field, &buffers.entry, limit, found, &mut buffers.old_entry)?;
                out.complete(token, Ok(reply));
            }
            Op::BulkWrite { kind, items } => {
                let written = writer.bulk_write(kind, items, buffers)?;
                out.complete(token, Ok(Reply { rejects: &buffers.rejects, ..Reply::written(written) }));
            }
            Op::BulkDelete { keys } => {
                let removed = writer.bulk_delete(keys, buffers)?;
                out.complete(token, Ok(Reply::written(removed)));
            }
            Op::Insert { key, .. }
            | Op::Upsert { key, .. }
            | Op::Replace { key, .. }
            | Op::Append { key, .. }
            | Op::Prepend { key, .. }
            | Op::Delete { key }
            | Op::Counter { key, .. }
            | Op::CompareAndSwap { key, .. }
            | Op::MergePatch { key, .. } => {
                let effect = writer.single(key, &request.op, buffers)?;
                let (counter, revision) = match effect {
                    Effect::Put(body) => (None, Some(body)),
                    Effect::PutScratch { counter } => (counter, Some(&buffers.made[..])),
                    Effect::Remove => (None, None),
                };
                out.complete(token, Ok(Reply { counter, revision, ..Reply::written(1) }));
            }
            Op::Touch { .. } | Op::View { .. } => return Err(OpError::unsupported()),
        }
        Ok(())
    }
}

impl Session for FjallSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        // `run` completes as the last thing it does, so an error means that it has not.
        if let Err(error) = self.run(request, token, out) {
            out.complete(token, Err(error));
        }
    }
}

/// A read that failed, or a write that was not begun.
fn failed(error: &fjall::Error) -> OpError {
    OpError::new(ErrorKind::Failed, text(error))
}

/// A commit that failed. Its journal entry may have been written in full, and then the next opening
/// finds it; only a database that refuses all writes has surely not taken it.
fn commit_failed(error: &fjall::Error) -> OpError {
    let kind = match error {
        fjall::Error::Poisoned | fjall::Error::KeyspaceDeleted => ErrorKind::Failed,
        _ => ErrorKind::OutcomeUnknown,
    };
    OpError::new(kind, text(error))
}

fn range<'r>(
    documents: &Keyspace,
    start: &str,
    end: Option<&[u8]>,
    limit: u32,
    mut found: Found<'r>,
) -> Result<Reply<'r>, OpError> {
    let start = start.as_bytes();
    // The engine panics on a range that runs backwards.
    if end.is_none_or(|end| start < end) && limit > 0 {
        let bounds = (Bound::Included(start), end.map_or(Bound::Unbounded, Bound::Excluded));
        for guard in documents.range::<&[u8], _>(bounds) {
            let (key, body) = guard.into_inner().map_err(|e| failed(&e))?;
            found.add(key_text(&key)?, &body);
            if found.documents == limit {
                break;
            }
        }
    }
    Ok(found.reply())
}

fn key_text(key: &[u8]) -> Result<&str, OpError> {
    std::str::from_utf8(key).map_err(|e| OpError::new(ErrorKind::Failed, format!("a stored key is no text: {e}")))
}

fn page<'r>(
    opened: &Opened,
    collection: &Collection,
    field: &str,
    wanted: &[u8],
    limit: u32,
    mut found: Found<'r>,
    scratch: &mut Vec<u8>,
) -> Result<Reply<'r>, OpError> {
    if limit == 0 {
        return Ok(found.reply());
    }
    // Entries and documents are read as of one moment.
    let snapshot = opened.database.snapshot();
    let index = collection.indexes.iter().find(|(index, _)| index.fields.first().is_some_and(|first| first == field));
    if let Some((index, entries)) = index {
        for guard in snapshot.prefix(entries, wanted) {
            let entry = guard.key().map_err(|e| failed(&e))?;
            let key =
                index.key_of(&entry).ok_or_else(|| OpError::new(ErrorKind::Failed, "an index entry is damaged"))?;
            let body = snapshot.get(&collection.documents, key).map_err(|e| failed(&e))?;
            let body = body.ok_or_else(|| {
                OpError::new(ErrorKind::Failed, format!("the index names `{key}`, which is not in the collection"))
            })?;
            found.add(key, &body);
            if found.documents == limit {
                break;
            }
        }
    } else {
        for guard in snapshot.iter(&collection.documents) {
            let (key, body) = guard.into_inner().map_err(|e| failed(&e))?;
            if index_entry::field_equals(&body, field, wanted, scratch) {
                found.add(key_text(&key)?, &body);
                if found.documents == limit {
                    break;
                }
            }
        }
    }
    Ok(found.reply())
}

/// What it takes to write into a collection.
struct Writer<'s> {
    opened: &'s Opened,
    collection: &'s Collection,
    persist: Option<PersistMode>,
}

impl Writer<'_> {
    fn batch(&self, capacity: usize) -> OwnedWriteBatch {
        OwnedWriteBatch::with_capacity(self.opened.database.clone(), capacity).durability(self.persist)
    }

    fn single<'a>(&self, key: &str, op: &Op<'a>, buffers: &mut Buffers) -> Result<Effect<'a>, OpError> {
        let Collection { body: kind, documents, indexes, locks } = self.collection;
        let _guards = locks.key(key);
        let indexed = !indexes.is_empty();
        let old = match op {
            // Only whether it is there matters: the filters answer that without reading the document.
            Op::Insert { .. } | Op::Replace { .. } | Op::Delete { .. } if !indexed => {
                let there = documents.contains_key(key).map_err(|e| failed(&e))?;
                there.then(|| fjall::Slice::from(&b""[..]))
            }
            op if indexed || document::needs_old(op) => documents.get(key).map_err(|e| failed(&e))?,
            _ => None,
        };
        let effect = document::effect(op, *kind, old.as_deref(), &mut buffers.made)?;
        let made = std::mem::take(&mut buffers.made);
        let new = match effect {
            Effect::Put(body) => Some(body),
            Effect::PutScratch { .. } => Some(&made[..]),
            Effect::Remove => None,
        };
        let result = match new {
            Some(body) if !indexed && self.persist == Some(PersistMode::Buffer) => {
                documents.insert(key, body).map_err(|e| commit_failed(&e))
            }
            None if !indexed && self.persist == Some(PersistMode::Buffer) => {
                documents.remove(key).map_err(|e| commit_failed(&e))
            }
            _ => {
                let mut batch = self.batch(1 + indexes.len());
                self.add(&mut batch, key, old.as_deref(), new, buffers)
                    .and_then(|()| batch.commit().map_err(|e| commit_failed(&e)))
            }
        };
        buffers.made = made;
        result.map(|()| effect)
    }

    /// Adds a document's change, and that of its index entries, to a batch; nothing where it cannot
    /// be indexed.
    fn add(
        &self,
        batch: &mut OwnedWriteBatch,
        key: &str,
        old: Option<&[u8]>,
        new: Option<&[u8]>,
        buffers: &mut Buffers,
    ) -> Result<(), OpError> {
        let Buffers { entry, old_entry, .. } = buffers;
        // All entries are known to be made before the first thing is added.
        if self.collection.indexes.len() > 1
            && let Some(body) = new
        {
            for (index, _) in &self.collection.indexes {
                entry_of(index, key, body, entry)?;
            }
        }
        for (index, keyspace) in &self.collection.indexes {
            // What was stored could be indexed then; what cannot be has no entries.
            let before = old.is_some_and(|body| index.entry(key, body, old_entry).unwrap_or(false));
            let after = match new {
                Some(body) => entry_of(index, key, body, entry)?,
                None => false,
            };
            if before && after && entry == old_entry {
                continue;
            }
            if before {
                batch.remove(keyspace, old_entry.as_slice());
            }
            if after {
                batch.insert(keyspace, entry.as_slice(), &b""[..]);
            }
        }
        match new {
            Some(body) => batch.insert(&self.collection.documents, key, body),
            None => batch.remove(&self.collection.documents, key),
        }
        Ok(())
    }

    fn bulk_write(&self, how: BulkWrite, items: Batch<'_>, buffers: &mut Buffers) -> Result<usize, OpError> {
        let Collection { body: kind, documents, indexes, locks } = self.collection;
        let mut rejects = std::mem::take(&mut buffers.rejects);
        rejects.clear();
        let mut batch = self.batch(items.len() * (1 + indexes.len()));
        let blind = how == BulkWrite::Upsert && indexes.is_empty();
        let ordered = ascending(items.iter().map(|(key, _)| key));
        // A document that is refused neither supersedes another nor is in its way.
        let taken = |body: &[u8]| document::check(*kind, body).is_ok();
        let superseded = if ordered { HashSet::new() } else { superseded(items, how == BulkWrite::Insert, taken) };
        let mut written = 0;
        let mut guard = None;
        if !blind {
            guard = Some(locks.all());
        }
        // Under the lock, which is held through the commit: what is not there now is not there then.
        let all_new = how == BulkWrite::Insert && ordered && range_is_empty(documents, items);
        let mut fill = || -> Result<(), OpError> {
            for (item, (key, body)) in items.iter().enumerate() {
                if let Err(error) = document::check(*kind, body) {
                    rejects.push(Reject { item, error });
                    continue;
                }
                if superseded.contains(&item) {
                    match how {
                        BulkWrite::Insert => rejects.push(Reject { item, error: EXISTS }),
                        BulkWrite::Upsert => written += 1,
                    }
                    continue;
                }
                if blind {
                    batch.insert(documents, key, body);
                    written += 1;
                    continue;
                }
                let old = match how {
                    BulkWrite::Insert => {
                        if !all_new && documents.contains_key(key).map_err(|e| failed(&e))? {
                            rejects.push(Reject { item, error: EXISTS });
                            continue;
                        }
                        None
                    }
                    BulkWrite::Upsert => documents.get(key).map_err(|e| failed(&e))?,
                };
                match self.add(&mut batch, key, old.as_deref(), Some(body), buffers) {
                    Ok(()) => written += 1,
                    Err(error) => rejects.push(Reject { item, error }),
                }
            }
            Ok(())
        };
        let filled = fill();
        buffers.rejects = rejects;
        filled?;
        if blind {
            guard = Some(locks.all());
        }
        batch.commit().map_err(|e| commit_failed(&e))?;
        drop(guard);
        Ok(written)
    }

    fn bulk_delete(&self, keys: Batch<'_>, buffers: &mut Buffers) -> Result<usize, OpError> {
        let Collection { documents, indexes, locks, .. } = self.collection;
        let mut batch = self.batch(keys.len() * (1 + indexes.len()));
        let ordered = ascending(keys.iter().map(|(key, _)| key));
        let superseded = if ordered { HashSet::new() } else { superseded(keys, true, |_| true) };
        let _guard = locks.all();
        let mut removed = 0;
        for (item, (key, _)) in keys.iter().enumerate() {
            if superseded.contains(&item) {
                continue;
            }
            if indexes.is_empty() {
                if documents.contains_key(key).map_err(|e| failed(&e))? {
                    batch.remove(documents, key);
                    removed += 1;
                }
            } else if let Some(old) = documents.get(key).map_err(|e| failed(&e))? {
                self.add(&mut batch, key, Some(&old), None, buffers)?;
                removed += 1;
            }
        }
        batch.commit().map_err(|e| commit_failed(&e))?;
        Ok(removed)
    }
}

fn entry_of(index: &Index, key: &str, body: &[u8], into: &mut Vec<u8>) -> Result<bool, OpError> {
    index.entry(key, body, into).map_err(|e| {
        OpError::new(
            ErrorKind::Refused,
            Cow::Owned(format!("the document cannot be indexed, it is no JSON object: {e}")),
        )
    })
}

/// Whether a large batch in key order surely meets no document. False where one look does not tell:
/// the keys are then asked for one by one, which also tells of a range that cannot be read.
fn range_is_empty(documents: &Keyspace, ordered: Batch<'_>) -> bool {
    if ordered.len() < FEWEST_FOR_RANGE {
        return false;
    }
    let (Some((first, _)), Some((last, _))) = (ordered.get(0), ordered.get(ordered.len() - 1)) else {
        return false;
    };
    documents.range(first..=last).next().is_none()
}

/// Items of a batch that are `taken` and whose key comes again later in it, or came before (`first_wins`).
/// All items of a batch have one sequence number in the engine, so a key may be in it once only.
fn superseded(items: Batch<'_>, first_wins: bool, taken: impl Fn(&[u8]) -> bool) -> HashSet<usize> {
    let mut seen = HashSet::with_capacity(items.len());
    let mut repeated = |item: usize| items.get(item).is_some_and(|(key, body)| taken(body) && !seen.insert(key));
    if first_wins {
        (0..items.len()).filter(|item| repeated(*item)).collect()
    } else {
        (0..items.len()).rev().filter(|item| repeated(*item)).collect()
    }
}
