//! One user of the open database: a read is a read transaction, a write is a write transaction.

use std::sync::Arc;

use redb::{Database, ReadTransaction, ReadableTable, Table, TableDefinition, WriteTransaction};
use storebench_core::store::{
    Batch, BatchBuf, BulkWrite, Completions, Durability, ErrorKind, Op, OpError, Reject, Reply, Request, Session,
    StoreError, Token,
};
use storebench_core::workload::Body;

use super::errors::{commit_failed, failed};
use super::file::Handle;
use super::{Collection, Opened, backend, entries};
use crate::document::{self, EXISTS, Effect, wrong_collection};
use crate::found::Found;
use crate::index_entry;

/// What a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Commit {
    Memory,
    Unsynced,
    Synced,
}

/// One user of the database.
pub(crate) struct RedbSession {
    opened: Arc<Opened>,
    commit: Commit,
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

type Documents<'t> = Table<'t, &'static str, &'static [u8]>;
type Entries<'t> = Table<'t, &'static [u8], ()>;

/// The tables of a collection, open for writing.
struct Tables<'t> {
    documents: Documents<'t>,
    indexes: Vec<Entries<'t>>,
}

impl RedbSession {
    pub(super) fn new(opened: Arc<Opened>, durability: Durability) -> Result<Self, StoreError> {
        let commit = match durability {
            Durability::MEMORY => Commit::Memory,
            Durability::OS => Commit::Unsynced,
            Durability::FSYNC => Commit::Synced,
            other => return Err(StoreError::NotSupported(format!("redb cannot promise `{other}`"))),
        };
        Ok(Self { opened, commit, buffers: Buffers::default() })
    }

    fn run(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) -> Result<(), OpError> {
        let Self { opened, commit, buffers } = self;
        let collection = opened
            .collections
            .get(request.collection.position())
            .ok_or_else(|| OpError::new(ErrorKind::Refused, "the layout has no such collection"))?;
        if request.op.kind().writes() {
            let Handle::Write(database) = &opened.handle else {
                return Err(OpError::new(ErrorKind::Refused, "the store was opened for reading only"));
            };
            return Writer { database, collection, commit: *commit }.run(&request.op, buffers, token, out);
        }
        let transaction = opened.handle.begin_read().map_err(failed)?;
        read(&transaction, collection, request, buffers, token, out)
    }
}

impl Session for RedbSession {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        // `run` completes as the last thing it does, so an error means that it has not.
        if let Err(error) = self.run(request, token, out) {
            out.complete(token, Err(error));
        }
    }
}

fn read(
    transaction: &ReadTransaction,
    collection: &Collection,
    request: &Request<'_>,
    buffers: &mut Buffers,
    token: Token,
    out: &mut dyn Completions,
) -> Result<(), OpError> {
    if let Op::View { .. } = request.op {
        return Err(OpError::unsupported());
    }
    let documents = transaction.open_table(collection.documents()).map_err(failed)?;
    let contents = request.contents;
    match request.op {
        Op::Read { key } => {
            let found = documents.get(key).map_err(failed)?.ok_or(OpError::not_found())?;
            let body = found.value();
            let reply = Reply {
                documents: 1,
                bytes: body.len() as u64,
                body: contents.then_some(body),
                revision: Some(body),
                ..Reply::default()
            };
            out.complete(token, Ok(reply));
        }
        Op::Exists { key } => {
            let found = documents.get(key).map_err(failed)?.is_some();
            out.complete(token, Ok(Reply::written(usize::from(found))));
        }
        Op::BulkRead { keys } => {
            let mut found = Found::new(&mut buffers.rows, contents);
            for (key, _) in keys.iter() {
                if let Some(body) = documents.get(key).map_err(failed)? {
                    found.add(key, body.value());
                }
            }
            out.complete(token, Ok(found.reply()));
        }
        Op::Prefix { prefix, limit } => {
            let mut found = Found::new(&mut buffers.rows, contents);
            for row in documents.range(prefix..).map_err(failed)?.take(limit as usize) {
                let (key, body) = row.map_err(failed)?;
                if !key.value().starts_with(prefix) {
                    break;
                }
                found.add(key.value(), body.value());
            }
            out.complete(token, Ok(found.reply()));
        }
        Op::Scan { start, end, limit } => {
            let mut found = Found::new(&mut buffers.rows, contents);
            let rows = match end {
                // A range must not run backwards.
                Some(end) => documents.range(start..end.max(start)),
                None => documents.range(start..),
            };
            for row in rows.map_err(failed)?.take(limit as usize) {
                let (key, body) = row.map_err(failed)?;
                found.add(key.value(), body.value());
            }
            out.complete(token, Ok(found.reply()));
        }
        Op::Page { field, value, limit } => {
            if collection.body != Body::Json {
                return Err(wrong_collection("page works on collections of JSON only"));
            }
            let Buffers { rows, entry: wanted, old_entry: scratch, .. } = buffers;
            index_entry::encode_wanted(value, wanted)?;
            let mut found = Found::new(rows, contents);
            let index = collection.indexes.iter().find(|(i, _)| i.fields.first().is_some_and(|first| first == field));
            if let Some((index, table)) = index {
                let table = transaction.open_table(entries(table)).map_err(failed)?;
                let damaged = |what: String| OpError::new(ErrorKind::Failed, what);
                for row in table.range(wanted.as_slice()..).map_err(failed)?.take(limit as usize) {
                    let (entry, _) = row.map_err(failed)?;
                    let entry = entry.value();
                    if !entry.starts_with(wanted) {
                        break;
                    }
                    let key = index.key_of(entry).ok_or_else(|| damaged("an index entry is damaged".to_owned()))?;
                    let body = documents.get(key).map_err(failed)?;
                    let body = body
                        .ok_or_else(|| damaged(format!("the index names `{key}`, which is not in the collection")))?;
                    found.add(key, body.value());
                }
            } else if limit > 0 {
                for row in documents.iter().map_err(failed)? {
                    let (key, body) = row.map_err(failed)?;
                    if index_entry::field_equals(body.value(), field, wanted, scratch) {
                        found.add(key.value(), body.value());
                        if found.documents == limit {
                            break;
                        }
                    }
                }
            }
            out.complete(token, Ok(found.reply()));
        }
        _ => return Err(OpError::unsupported()),
    }
    Ok(())
}

/// What it takes to write into a collection.
struct Writer<'s> {
    database: &'s Database,
    collection: &'s Collection,
    commit: Commit,
}

impl Writer<'_> {
    fn run(&self, op: &Op<'_>, buffers: &mut Buffers, token: Token, out: &mut dyn Completions) -> Result<(), OpError> {
        match *op {
            Op::BulkWrite { kind, items } => {
                let written = self.transaction(|tables| self.bulk_write(tables, kind, items, buffers))?;
                out.complete(token, Ok(Reply { rejects: &buffers.rejects, ..Reply::written(written) }));
            }
            Op::BulkDelete { keys } => {
                let removed = self.transaction(|tables| {
                    let mut removed = 0;
                    for (key, _) in keys.iter() {
                        match self.one(tables, key, &Op::Delete { key }, buffers) {
                            Ok(_) => removed += 1,
                            Err(error) if error.kind == ErrorKind::NotFound => {}
                            Err(error) => return Err(error),
                        }
                    }
                    Ok(removed)
                })?;
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
                let effect = self.transaction(|tables| self.one(tables, key, op, buffers))?;
                let (counter, revision) = match effect {
                    Effect::Put(body) => (None, Some(body)),
                    Effect::PutScratch { counter } => (counter, Some(&buffers.made[..])),
                    Effect::Remove => (None, None),
                };
                out.complete(token, Ok(Reply { counter, revision, ..Reply::written(1) }));
            }
            _ => return Err(OpError::unsupported()),
        }
        Ok(())
    }

    /// Runs `work` in a transaction, which is dropped, and so undone, where it fails.
    fn transaction<T>(&self, work: impl FnOnce(&mut Tables<'_>) -> Result<T, OpError>) -> Result<T, OpError> {
        match self.commit {
            Commit::Unsynced => backend::unsynced(|| self.committed(work)),
            Commit::Memory | Commit::Synced => self.committed(work),
        }
    }

    fn committed<T>(&self, work: impl FnOnce(&mut Tables<'_>) -> Result<T, OpError>) -> Result<T, OpError> {
        let mut transaction = self.database.begin_write().map_err(failed)?;
        if self.commit == Commit::Memory {
            transaction
                .set_durability(redb::Durability::None)
                .map_err(|e| OpError::new(ErrorKind::Failed, format!("redb: {e}")))?;
        }
        let value = {
            let mut tables = self.open(&transaction)?;
            work(&mut tables)?
        };
        transaction.commit().map_err(commit_failed)?;
        Ok(value)
    }

    fn open<'t>(&self, transaction: &'t WriteTransaction) -> Result<Tables<'t>, OpError> {
        let documents = transaction.open_table(self.collection.documents()).map_err(failed)?;
        let mut indexes = Vec::with_capacity(self.collection.indexes.len());
        for (_, table) in &self.collection.indexes {
            let definition: TableDefinition<'_, &'static [u8], ()> = entries(table);
            indexes.push(transaction.open_table(definition).map_err(failed)?);
        }
        Ok(Tables { documents, indexes })
    }

    /// Writes one document and its index entries.
    fn one<'a>(
        &self,
        tables: &mut Tables<'_>,
        key: &str,
        op: &Op<'a>,
        buffers: &mut Buffers,
    ) -> Result<Effect<'a>, OpError> {
        let Collection { body: kind, indexes, .. } = self.collection;
        let Buffers { made, entry, old_entry, .. } = buffers;
        if indexes.is_empty() {
            // One descent where the engine's own answer tells what a look before would.
            match *op {
                Op::Upsert { body, .. } => {
                    document::check(*kind, body)?;
                    tables.documents.insert(key, body).map_err(failed)?;
                    return Ok(Effect::Put(body));
                }
                Op::Delete { .. } => {
                    let removed = tables.documents.remove(key).map_err(failed)?;
                    return removed.map(|_| Effect::Remove).ok_or(OpError::not_found());
                }
                _ => {}
            }
        }
        let (effect, changes) = {
            let old = tables.documents.get(key).map_err(failed)?;
            let old = old.as_ref().map(|guard| guard.value());
            let effect = document::effect(op, *kind, old, made)?;
            let new = match effect {
                Effect::Put(body) => Some(body),
                Effect::PutScratch { .. } => Some(&made[..]),
                Effect::Remove => None,
            };
            // All entries are made before the first thing is written, since one may be refused.
            let mut changes = Vec::with_capacity(indexes.len());
            for (index, _) in indexes {
                let before = old.is_some_and(|body| index.entry(key, body, old_entry).unwrap_or(false));
                let after = match new {
                    Some(body) => index.entry(key, body, entry).map_err(|e| {
                        OpError::new(
                            ErrorKind::Refused,
                            format!("the document cannot be indexed, it is no JSON object: {e}"),
                        )
                    })?,
                    None => false,
                };
                let same = before && after && entry == old_entry;
                let change = |is: bool, bytes: &Vec<u8>| (is && !same).then(|| bytes.clone());
                changes.push((change(before, old_entry), change(after, entry)));
            }
            (effect, changes)
        };
        for (table, (before, after)) in tables.indexes.iter_mut().zip(&changes) {
            if let Some(entry) = before {
                table.remove(entry.as_slice()).map_err(failed)?;
            }
            if let Some(entry) = after {
                table.insert(entry.as_slice(), ()).map_err(failed)?;
            }
        }
        match effect {
            Effect::Put(body) => drop(tables.documents.insert(key, body).map_err(failed)?),
            Effect::PutScratch { .. } => drop(tables.documents.insert(key, &made[..]).map_err(failed)?),
            Effect::Remove => drop(tables.documents.remove(key).map_err(failed)?),
        }
        Ok(effect)
    }

    /// Inserts a document into a collection without indexes, in one descent where it is new: the
    /// engine tells what it replaced, and that is put back.
    fn insert_or_put_back(
        &self,
        documents: &mut Documents<'_>,
        key: &str,
        body: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<(), OpError> {
        document::check(self.collection.body, body)?;
        match documents.insert(key, body).map_err(failed)? {
            None => return Ok(()),
            Some(old) => {
                scratch.clear();
                scratch.extend_from_slice(old.value());
            }
        }
        documents.insert(key, scratch.as_slice()).map_err(failed)?;
        Err(EXISTS)
    }

    fn bulk_write(
        &self,
        tables: &mut Tables<'_>,
        kind: BulkWrite,
        items: Batch<'_>,
        buffers: &mut Buffers,
    ) -> Result<usize, OpError> {
        let mut rejects = std::mem::take(&mut buffers.rejects);
        rejects.clear();
        let mut written = 0;
        let mut fatal = None;
        // A batch that meets one document which exists is likely to meet more, and putting back costs
        // more than looking.
        let mut look_first = !self.collection.indexes.is_empty();
        for (item, (key, body)) in items.iter().enumerate() {
            let done = match kind {
                BulkWrite::Insert if !look_first => {
                    self.insert_or_put_back(&mut tables.documents, key, body, &mut buffers.made)
                }
                BulkWrite::Insert => self.one(tables, key, &Op::Insert { key, body }, buffers).map(drop),
                BulkWrite::Upsert => self.one(tables, key, &Op::Upsert { key, body }, buffers).map(drop),
            };
            match done {
                Ok(()) => written += 1,
                Err(error) if error.kind == ErrorKind::Conflict => {
                    look_first = true;
                    rejects.push(Reject { item, error: EXISTS });
                }
                Err(error) if error.kind == ErrorKind::Refused => rejects.push(Reject { item, error }),
                Err(error) => {
                    fatal = Some(error);
                    break;
                }
            }
        }
        buffers.rejects = rejects;
        fatal.map_or(Ok(written), Err)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicU32, Ordering};

    use redb::backends::InMemoryBackend;
    use redb::{Builder, StorageBackend};
    use storebench_core::store::CollectionId;

    use super::*;

    /// Storage that counts how often it is synced.
    #[derive(Debug)]
    struct Counting(InMemoryBackend, Arc<AtomicU32>);

    impl StorageBackend for Counting {
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.0.read(offset, out)
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.set_len(len)
        }
        fn sync_data(&self) -> io::Result<()> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.sync_data()
        }
        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.0.write(offset, data)
        }
    }

    fn submit(session: &mut RedbSession, op: Op<'_>) -> Result<u32, OpError> {
        let mut answer = None;
        let request = Request { collection: CollectionId(0), op, contents: true };
        session.submit(&request, Token(1), &mut |_: Token, result: Result<Reply<'_>, OpError>| {
            answer = Some(result.map(|reply| reply.documents));
        });
        answer.unwrap()
    }

    #[test]
    fn nothing_is_synced_at_os_also_where_the_file_grows_and_every_commit_at_fsync() {
        let syncs = Arc::new(AtomicU32::new(0));
        let backend = backend::SyncedOnDemand(Counting(InMemoryBackend::new(), Arc::clone(&syncs)));
        let database = Builder::new().create_with_backend(backend).unwrap();
        let collection = Collection { body: Body::Bytes, table: "documents".to_owned(), indexes: Vec::new() };
        let transaction = database.begin_write().unwrap();
        transaction.open_table(collection.documents()).unwrap();
        transaction.commit().unwrap();
        let opened = Arc::new(Opened { handle: Handle::Write(database), collections: vec![collection], ours: true });
        let mut os = RedbSession::new(Arc::clone(&opened), Durability::OS).unwrap();
        let mut fsync = RedbSession::new(opened, Durability::FSYNC).unwrap();
        // Each round ends with an insert that fails, after which the thread's wish must be gone too.
        let load = |session: &mut RedbSession, round: u32| {
            let before = syncs.load(Ordering::Relaxed);
            let mut items = BatchBuf::new();
            (0..1_000).for_each(|n| items.push(&format!("{round}/{n:04}"), &[7; 4_096]));
            let kind = BulkWrite::Insert;
            assert_eq!(submit(session, Op::BulkWrite { kind, items: items.as_batch() }), Ok(1_000));
            let key = format!("{round}/0500");
            assert_eq!(submit(session, Op::Insert { key: &key, body: b"" }), Err(EXISTS));
            syncs.load(Ordering::Relaxed) - before
        };
        for round in 0..6 {
            let synced = load(if round % 2 == 0 { &mut os } else { &mut fsync }, round);
            assert_eq!(synced > 0, round % 2 == 1, "{synced} syncs in round {round}");
        }
    }
}
