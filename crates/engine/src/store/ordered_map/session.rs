//! What each operation does. Every operation ends before `submit` returns.

use std::collections::HashSet;
use std::sync::Arc;

use super::index::{self, Entries, Indexes};
use super::{Collection, Database, Documents, KeyRange, Opened, Reader, Scope, Stored, Writer};
use crate::store::document::{self, EXISTS, Effect, collection_of, wrong_collection};
use crate::store::{
    Batch, BulkWrite, Collected, Completions, ErrorKind, Op, OpError, Persisted, Reject, Reply, Request, Session, Step,
    StepsFound, Token,
};
use storebench_study::workload::Body;

/// Batches of at least this size check once whether the range of their keys is empty. Smaller batches check each key,
/// which the filters of a log-structured engine answer without reading a block. A range has no filter.
const FEWEST_FOR_RANGE: usize = 16;

/// One user of an open database.
pub struct OrderedSession<D: Database> {
    opened: Arc<Opened<D>>,
    persisted: Persisted,
    buffers: Buffers,
}

#[derive(Default)]
struct Buffers {
    found: Collected,
    rejects: Vec<Reject>,
    /// The document that an operation makes, or a copy of one that was read.
    made: Vec<u8>,
    revision: Vec<u8>,
    /// The value that a page asks for.
    wanted: Vec<u8>,
    /// Index entries of a document before and after a write.
    before: Entries,
    after: Entries,
    /// What the steps of a transaction found.
    steps: StepsFound,
}

impl<D: Database> OrderedSession<D> {
    /// A session on an open database, whose writes survive what `persisted` says.
    pub fn new(opened: Arc<Opened<D>>, persisted: Persisted) -> Self {
        Self { opened, persisted, buffers: Buffers::default() }
    }

    fn run(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) -> Result<(), OpError> {
        if let Op::Transaction { steps, rolls_back, .. } = request.op {
            return self.transaction(steps, rolls_back, request.contents, token, out);
        }
        let Self { opened, persisted, buffers } = self;
        let collection = collection_of(request, &opened.collections, opened.read_only)?;
        let access = Access { database: &opened.database, collection, persisted: *persisted };
        if !request.op.kind().writes() {
            return access.read(request, buffers, token, out);
        }
        access.write(&request.op, buffers, token, out)
    }

    /// Does the steps in one transaction, while no other one writes.
    fn transaction(
        &mut self,
        steps: &[Step],
        rolls_back: bool,
        contents: bool,
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        let Self { opened, persisted, buffers } = self;
        let mut used: Vec<usize> = Vec::new();
        for step in steps {
            collection_of(&step.request(contents)?, &opened.collections, opened.read_only)?;
            let position = step.collection.position();
            if !used.contains(&position) {
                used.push(position);
            }
        }
        let access = |position: usize| Access {
            database: &opened.database,
            collection: &opened.collections[position],
            persisted: *persisted,
        };
        let tables: Vec<&D::Tables> = used.iter().map(|position| &opened.collections[*position].tables).collect();
        let mut found = std::mem::take(&mut buffers.steps);
        found.begin(contents);
        let mut finished = false;
        let done = opened.database.transact(&tables, *persisted, |writers| {
            for step in steps {
                let position = step.collection.position();
                let writer = used.iter().position(|other| *other == position).and_then(|at| writers.get_mut(at));
                let (writer, access) = (writer.ok_or(OpError::unsupported())?, access(position));
                let op = step.request(contents)?.op;
                let kind = op.kind();
                if let Op::Read { key } = op {
                    let read = writer.get(key, |stored| found.add(kind, Ok(read_reply(stored, contents))))?;
                    read.unwrap_or_else(|| found.add(kind, Err(OpError::not_found())))?;
                    continue;
                }
                let written = access
                    .ready(&step.key, &op, &mut buffers.after)
                    .and_then(|()| access.one(writer, &step.key, &op, false, buffers).map(drop));
                found.add(kind, written.map(|()| Reply::written(1)))?;
            }
            finished = true;
            // An error rolls it back.
            if rolls_back { Err(OpError::unsupported()) } else { Ok(()) }
        });
        buffers.steps = found;
        if !(finished && rolls_back) {
            done?;
        }
        out.complete(token, Ok(buffers.steps.reply(rolls_back)));
        Ok(())
    }
}

impl<D: Database> Session for OrderedSession<D> {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        // `run` completes as its last step, so an error means that it has not completed.
        if let Err(error) = self.run(request, token, out) {
            out.complete(token, Err(error));
        }
    }
}

/// What is needed to use a collection.
struct Access<'s, D: Database> {
    database: &'s D,
    collection: &'s Collection<D>,
    persisted: Persisted,
}

impl<D: Database> Access<'_, D> {
    fn read(
        &self,
        request: &Request<'_>,
        buffers: &mut Buffers,
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        let (tables, contents) = (&self.collection.tables, request.contents);
        let Buffers { found, made, revision, wanted, before, .. } = buffers;
        found.begin(contents);
        match request.op {
            Op::Read { key } => {
                let there = self.database.get(tables, key, |stored| {
                    if D::COPIES_READS {
                        made.clear();
                        made.extend_from_slice(stored.body);
                        revision.clear();
                        revision.extend_from_slice(stored.revision);
                    } else {
                        out.complete(token, Ok(read_reply(stored, contents)));
                    }
                })?;
                there.ok_or(OpError::not_found())?;
                if D::COPIES_READS {
                    out.complete(token, Ok(read_reply(Stored { body: made, revision }, contents)));
                }
                return Ok(());
            }
            Op::Exists { key } => {
                let there = self.database.contains(tables, key)?;
                out.complete(token, Ok(Reply::written(usize::from(there))));
                return Ok(());
            }
            Op::BulkRead { keys } => {
                let reader = self.database.read(tables)?;
                for (key, _) in keys.iter() {
                    reader.get(key, |stored| found.add(key, stored.body))?;
                }
            }
            Op::Prefix { prefix, limit } => self.range(KeyRange::Prefix(prefix), limit, found)?,
            Op::Scan { start, end, limit } => {
                // A range must not run backwards.
                if end.is_none_or(|end| start < end) {
                    self.range(KeyRange::From { start, end }, limit, found)?;
                }
            }
            Op::Page { field, value, limit } => {
                if self.collection.body != Body::Json {
                    return Err(wrong_collection("page works on collections of JSON only"));
                }
                index::encode_wanted(value, wanted)?;
                self.page(field, wanted, limit, found, before)?;
            }
            _ => return Err(OpError::unsupported()),
        }
        out.complete(token, Ok(found.reply()));
        Ok(())
    }

    fn range(&self, range: KeyRange<'_>, limit: u32, found: &mut Collected) -> Result<(), OpError> {
        if limit == 0 {
            return Ok(());
        }
        self.database.read(&self.collection.tables)?.range(range, |key, body| {
            found.add(key, body);
            Ok(found.documents() == limit)
        })
    }

    fn page(
        &self,
        field: &str,
        wanted: &[u8],
        limit: u32,
        found: &mut Collected,
        scratch: &mut Entries,
    ) -> Result<(), OpError> {
        let indexes = &self.collection.indexes;
        let damaged = |what: String| OpError::new(ErrorKind::Failed, what);
        let index = indexes.starting_with(field);
        if index.is_none() && !D::PAGES_BY_SCAN {
            return Err(OpError::new(ErrorKind::Refused, "the field has no index"));
        }
        if limit == 0 {
            return Ok(());
        }
        let reader = self.database.read(&self.collection.tables)?;
        let Some(index) = index else {
            let fields = Indexes::new(&[vec![field.to_owned()]]);
            return reader.range(KeyRange::From { start: "", end: None }, |key, body| {
                if index::field_equals(&fields, body, wanted, scratch) {
                    found.add(key, body);
                }
                Ok(found.documents() == limit)
            });
        };
        reader.entries(index, wanted, |entry| {
            let key = indexes.key_of(index, entry).ok_or_else(|| damaged("an index entry is damaged".to_owned()))?;
            let there = reader.get(key, |stored| found.add(key, stored.body))?;
            if there.is_none() && !D::EXPIRES {
                return Err(damaged(format!("the index names `{key}`, which is not in the collection")));
            }
            Ok(found.documents() == limit)
        })
    }

    fn write(
        &self,
        op: &Op<'_>,
        buffers: &mut Buffers,
        token: Token,
        out: &mut dyn Completions,
    ) -> Result<(), OpError> {
        match *op {
            Op::BulkWrite { items, .. } | Op::BulkDelete { keys: items } => {
                let how = if let Op::BulkWrite { kind, .. } = *op { Some(kind) } else { None };
                let mut rejects = std::mem::take(&mut buffers.rejects);
                rejects.clear();
                let done = self.bulk(how, items, &mut rejects, buffers);
                buffers.rejects = rejects;
                out.complete(token, Ok(Reply { rejects: &buffers.rejects, ..Reply::written(done?) }));
            }
            Op::Touch { key, expiry } => {
                let tables = &self.collection.tables;
                let touch = |writer: &mut D::Writer<'_>| writer.touch(key, expiry).ok_or(OpError::unsupported());
                if !self.database.write(tables, Scope::Key(key), self.persisted, touch)? {
                    return Err(OpError::not_found());
                }
                out.complete(token, Ok(Reply::written(1)));
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
                let (effect, kept) = self.single(key, op, buffers)?;
                let (counter, body) = match effect {
                    Effect::Put(body) => (None, Some(body)),
                    Effect::PutScratch { counter } => (counter, Some(&buffers.made[..])),
                    Effect::Remove => (None, None),
                };
                let revision = kept.as_ref().map(|revision| &revision[..]).or(body);
                out.complete(token, Ok(Reply { counter, revision, ..Reply::written(1) }));
            }
            _ => return Err(OpError::unsupported()),
        }
        Ok(())
    }

    /// Writes one document. Returns its revision if the engine keeps one.
    fn single<'a>(
        &self,
        key: &str,
        op: &Op<'a>,
        buffers: &mut Buffers,
    ) -> Result<(Effect<'a>, Option<[u8; 8]>), OpError> {
        // Before the transaction keeps others out.
        self.ready(key, op, &mut buffers.after)?;
        self.database.write(&self.collection.tables, Scope::Key(key), self.persisted, |writer| {
            let effect = self.one(writer, key, op, false, buffers)?;
            Ok((effect, writer.written_revision()))
        })
    }

    /// Checks the key of a write, and makes the index entries of the document that it carries.
    fn ready(&self, key: &str, op: &Op<'_>, after: &mut Entries) -> Result<(), OpError> {
        after.clear();
        let body = match *op {
            Op::Delete { .. } => return Ok(()),
            Op::Insert { body, .. }
            | Op::Upsert { body, .. }
            | Op::Replace { body, .. }
            | Op::CompareAndSwap { body, .. } => Some(body),
            _ => None,
        };
        check_length::<D>(key.as_bytes(), "the key")?;
        body.map_or(Ok(()), |body| self.enter(key, body, after))
    }

    /// Makes the index entries of a document.
    fn enter(&self, key: &str, body: &[u8], after: &mut Entries) -> Result<(), OpError> {
        let indexes = &self.collection.indexes;
        after.fill(indexes, key, body)?;
        (0..indexes.len())
            .filter_map(|index| after.get(index))
            .try_for_each(|entry| check_length::<D>(entry, "the index entry, which contains the document's key,"))
    }

    /// Writes one document that is [`ready`](Self::ready) and its index entries. `new` means that there is certainly no
    /// document yet.
    fn one<'a>(
        &self,
        writer: &mut D::Writer<'_>,
        key: &str,
        op: &Op<'a>,
        new: bool,
        buffers: &mut Buffers,
    ) -> Result<Effect<'a>, OpError> {
        let Collection { body: kind, indexes, .. } = self.collection;
        let Buffers { made, before, after, .. } = buffers;
        if indexes.is_empty() {
            // Nothing is read if the engine's own answer says the same as a read.
            match *op {
                Op::Upsert { body, .. } => {
                    document::check(*kind, body)?;
                    return writer.put(key, body).map(|()| Effect::Put(body));
                }
                Op::Insert { body, .. } => {
                    document::check(*kind, body)?;
                    let stored = if new { writer.put(key, body).map(|()| true) } else { writer.insert(key, body) };
                    return stored?.then_some(Effect::Put(body)).ok_or(EXISTS);
                }
                Op::Replace { body, .. } => {
                    document::check(*kind, body)?;
                    return writer.replace(key, body)?.then_some(Effect::Put(body)).ok_or(OpError::not_found());
                }
                Op::Delete { .. } => return writer.take(key)?.then_some(Effect::Remove).ok_or(OpError::not_found()),
                Op::Append { bytes, .. } | Op::Prepend { bytes, .. } if *kind == Body::Bytes => {
                    if let Some(done) = writer.extend(key, bytes, matches!(op, Op::Prepend { .. })) {
                        let effect = Effect::PutScratch { counter: None };
                        return done.then_some(effect).ok_or(OpError::not_found());
                    }
                }
                _ => {}
            }
        } else if matches!(op, Op::Insert { .. }) && !new && writer.contains(key)? {
            return Err(EXISTS);
        }
        before.clear();
        let mut change = |old: Option<Stored<'_>>| -> Result<Effect<'a>, OpError> {
            let seen = old.map(|old| if matches!(op, Op::CompareAndSwap { .. }) { old.revision } else { old.body });
            let effect = document::effect(op, *kind, seen, made)?;
            if let Some(old) = old {
                // The document could be indexed when it was stored. A document that cannot be indexed has no entries.
                let _ = before.fill(indexes, key, old.body);
            }
            Ok(effect)
        };
        let known_new = matches!(op, Op::Insert { .. });
        let changed = if known_new { None } else { writer.get(key, |old| change(Some(old)))? };
        let effect = changed.unwrap_or_else(|| change(None))?;
        // All entries are made before the first write, because one of them may be refused.
        if matches!(effect, Effect::PutScratch { .. }) {
            self.enter(key, made, after)?;
        }
        match effect {
            Effect::Put(body) => writer.put(key, body)?,
            Effect::PutScratch { .. } => writer.amend(key, made)?,
            Effect::Remove => writer.remove(key)?,
        }
        for index in 0..indexes.len() {
            let (was, is) = (before.get(index), after.get(index));
            if was == is {
                continue;
            }
            if let Some(entry) = was {
                writer.leave(index, entry)?;
            }
            if let Some(entry) = is {
                writer.enter(index, entry)?;
            }
        }
        Ok(effect)
    }

    /// Writes the documents of a batch, or removes them if `how` is `None`. Returns how many it wrote or removed.
    fn bulk(
        &self,
        how: Option<BulkWrite>,
        items: Batch<'_>,
        rejects: &mut Vec<Reject>,
        buffers: &mut Buffers,
    ) -> Result<usize, OpError> {
        let Collection { body: kind, indexes, tables } = self.collection;
        let (insert, upsert) = (how == Some(BulkWrite::Insert), how == Some(BulkWrite::Upsert));
        let mut count = 0;
        let mut settle = |item, done: Result<(), OpError>| {
            match done {
                Ok(()) => count += 1,
                Err(error) if error.kind == ErrorKind::NotFound && how.is_none() => {}
                Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::Refused) => {
                    rejects.push(Reject { item, error });
                }
                Err(error) => return Err(error),
            }
            Ok(())
        };
        if !D::BULK_IS_ATOMIC {
            for (item, (key, body)) in items.iter().enumerate() {
                settle(item, self.single(key, &item_of(how, key, body), buffers).map(drop))?;
            }
            return Ok(count);
        }
        let ordered = !D::READS_OWN_WRITES && ascending(items);
        // A document that is refused neither supersedes another nor conflicts with it.
        let taken = |key: &str, body: &[u8]| {
            how.is_none()
                || check_length::<D>(key.as_bytes(), "the key").is_ok() && document::check(*kind, body).is_ok()
        };
        let superseded = match ordered || D::READS_OWN_WRITES {
            true => HashSet::new(),
            false => superseded(items, !upsert, taken),
        };
        let scope = Scope::Bulk { items: items.len(), blind: upsert && indexes.is_empty() };
        self.database.write(tables, scope, self.persisted, |writer| {
            // Within the transaction: a document that is missing now is still missing at the commit.
            let vacant = insert && ordered && items.len() >= FEWEST_FOR_RANGE && is_vacant(writer, items);
            for (item, (key, body)) in items.iter().enumerate() {
                let op = item_of(how, key, body);
                let done = match superseded.contains(&item) {
                    true if insert => Err(EXISTS),
                    true if upsert => Ok(()),
                    true => Err(OpError::not_found()),
                    false => self
                        .ready(key, &op, &mut buffers.after)
                        .and_then(|()| self.one(writer, key, &op, vacant, buffers).map(drop)),
                };
                settle(item, done)?;
            }
            Ok(())
        })?;
        Ok(count)
    }
}

/// What a bulk operation does with one of its items.
fn item_of<'a>(how: Option<BulkWrite>, key: &'a str, body: &'a [u8]) -> Op<'a> {
    match how {
        Some(BulkWrite::Insert) => Op::Insert { key, body },
        Some(BulkWrite::Upsert) => Op::Upsert { key, body },
        None => Op::Delete { key },
    }
}

fn read_reply(stored: Stored<'_>, contents: bool) -> Reply<'_> {
    let Stored { body, revision } = stored;
    let (bytes, body) = (body.len() as u64, contents.then_some(body));
    Reply { documents: 1, bytes, body, revision: Some(revision), ..Reply::default() }
}

/// Refuses keys outside the engine's limits.
fn check_length<D: Database>(key: &[u8], what: &str) -> Result<(), OpError> {
    if D::KEY_BYTES.contains(&key.len()) {
        return Ok(());
    }
    let (least, most) = (D::KEY_BYTES.start(), D::KEY_BYTES.end());
    let text = format!("{what} has {} bytes; {} accepts keys of {least} to {most} bytes", key.len(), D::NAME);
    Err(OpError::new(ErrorKind::Refused, text))
}

fn is_vacant(writer: &impl Writer, ordered: Batch<'_>) -> bool {
    let ends = ordered.get(0).zip(ordered.get(ordered.len() - 1));
    ends.is_some_and(|((first, _), (last, _))| writer.is_vacant(first, last))
}

/// Whether every key is greater than the one before it. The usual batch is ascending, which proves without a set that
/// no key is repeated.
fn ascending(items: Batch<'_>) -> bool {
    let mut last = None;
    items.iter().all(|(key, _)| last.replace(key).is_none_or(|before| before < key))
}

/// Items of a batch that are `taken` and whose key appears again later in it, or (`first_wins`) appeared before.
fn superseded(items: Batch<'_>, first_wins: bool, taken: impl Fn(&str, &[u8]) -> bool) -> HashSet<usize> {
    let mut seen = HashSet::with_capacity(items.len());
    let mut repeated = |item: usize| items.get(item).is_some_and(|(key, body)| taken(key, body) && !seen.insert(key));
    if first_wins {
        (0..items.len()).filter(|item| repeated(*item)).collect()
    } else {
        (0..items.len()).rev().filter(|item| repeated(*item)).collect()
    }
}
