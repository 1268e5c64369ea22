//! What an operation does with each answer, until it is done. This module does no I/O.

use storebench_engine::store::{
    BatchBuf, BulkWrite, ErrorKind, Op, OpError, OpKind, OwnedReply, Reject, Request, merge_patch,
};
use storebench_study::workload::Body;

use super::bson::{self, DOCUMENT, Members, Value};
use super::bulk::{Bulk, count};
use super::commands::{Builder, Collection, KeyKind, Tails, Which, members, range};
use super::decode::{self, hex, same_type};
use super::encode::{self, EXPIRY, REVISION};
use super::errors::{ServerError, is_ok};
use super::patch::Changes;
use super::wire::garbage;
use crate::document::{CHANGED, EXISTS, nothing_written, prefix_end_text, wrong_collection};
use crate::repeats::{Repeats, Rounds, Within};

/// How often a merge, append or prepend starts again because another client was quicker.
const MOST_TRIES: u32 = 1_000;

/// What to do after an answer.
// Built and consumed once per answer: boxing the reply would cost an allocation.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub(super) enum Step {
    /// The buffer holds another message to send on this connection.
    Again,
    /// The operation has ended. `elsewhere`: its node no longer accepts writes.
    Done { result: Result<OwnedReply, OpError>, elsewhere: bool },
}

/// An operation in progress.
#[derive(Debug)]
pub(super) struct Job {
    kind: OpKind,
    contents: bool,
    plan: Plan,
}

#[derive(Debug)]
enum Plan {
    /// One write.
    Write,
    /// A write at a revision, then perhaps a check whether the document exists.
    Swap {
        key: String,
        looking: bool,
    },
    Read,
    Exists,
    Rows(Rows),
    Bulk(Bulk),
    Delete,
    /// An increment, or the creation of a missing counter.
    Counter {
        key: String,
        delta: i64,
        initial: i64,
        making: bool,
    },
    Rework(Rework),
    /// The end of a transaction.
    End,
}

#[derive(Debug)]
struct Rows {
    /// Keys that were requested more than once: the server returns each once.
    repeats: Repeats,
    /// The requested field, and the type of its value.
    field: Option<(String, u8)>,
    /// Whether these are rows of a query of the study, which may have any form.
    of_query: bool,
    left: u32,
    documents: u32,
    bytes: u64,
    rows: BatchBuf,
    scratch: Vec<u8>,
}

/// Read, change, and write if no other client has written meanwhile.
#[derive(Debug)]
struct Rework {
    key: String,
    change: Change,
    tries: u32,
    writing: bool,
}

#[derive(Debug)]
enum Change {
    Merge(serde_json::Value),
    Append(Vec<u8>),
    Prepend(Vec<u8>),
}

/// What an operation needs to begin.
pub(super) struct Begin<'a> {
    pub(super) builder: Builder<'a>,
    pub(super) most_document_bytes: usize,
    pub(super) most_message_bytes: usize,
    pub(super) most_writes: usize,
    /// The most updates in a message.
    pub(super) most_updates: usize,
    /// Draws a revision.
    pub(super) draw: &'a mut dyn FnMut() -> i64,
    /// Now, in ms since 1970.
    pub(super) now_ms: i64,
}

impl Begin<'_> {
    /// Builds the first message of an operation into the builder's buffer. Also returns how many further messages a
    /// bulk was split into. Returns no job if the operation needs no request.
    ///
    /// # Errors
    /// *Refused*, if the operation or its body does not fit the collection or the server's limits.
    pub(super) fn begin(mut self, request: &Request<'_>) -> Result<(Option<Job>, usize), OpError> {
        let collection = self.builder.collection;
        let body_kind = collection.body;
        let keys = self.builder.collection.keys;
        let at = |key| Which { key, revision: None, upsert: false };
        let mut splits = 0;
        let plan = match request.op {
            Op::CompareAndSwap { .. } | Op::Touch { .. } if collection.theirs => {
                return Err(wrong_collection(
                    "compare-and-swap and touch need members that only documents of Storebench's collections have",
                ));
            }
            Op::Insert { key, body } => {
                let revision = (self.draw)();
                self.builder.insert(key, body, revision)?;
                self.check_size()?;
                Plan::Write
            }
            Op::Upsert { key, body } | Op::Replace { key, body } => {
                let upsert = matches!(request.op, Op::Upsert { .. });
                let revision = (self.draw)();
                self.builder
                    .replace(&Which { upsert, ..at(key) }, |out| members(out, collection, key, body, revision))?;
                self.check_size()?;
                Plan::Write
            }
            Op::CompareAndSwap { key, expected, body } => {
                let Ok(expected) = expected.try_into().map(i64::from_le_bytes) else { return Err(CHANGED) };
                let revision = (self.draw)();
                let which = Which { revision: Some(expected), ..at(key) };
                self.builder.replace(&which, |out| members(out, collection, key, body, revision))?;
                self.check_size()?;
                Plan::Swap { key: key.to_owned(), looking: false }
            }
            Op::Touch { key, expiry } => {
                let lifetime = i64::try_from(expiry.as_millis()).unwrap_or(i64::MAX);
                let revision = (self.draw)();
                self.builder.touch(&at(key), self.now_ms.saturating_add(lifetime), revision)?;
                Plan::Write
            }
            Op::Read { key } => {
                self.builder.read(key, false)?;
                Plan::Read
            }
            Op::Exists { key } => {
                self.builder.read(key, true)?;
                Plan::Exists
            }
            Op::Delete { key } => {
                self.builder.delete(key)?;
                Plan::Write
            }
            Op::Counter { key, delta, initial } => {
                if body_kind != Body::Counter {
                    return Err(wrong_collection("counter works on collections of counters only"));
                }
                let revision = (self.draw)();
                self.builder.increment(key, delta, revision)?;
                Plan::Counter { key: key.to_owned(), delta, initial, making: false }
            }
            Op::MergePatch { key, patch } => {
                if body_kind != Body::Json {
                    return Err(wrong_collection("merge works on collections of JSON only"));
                }
                let patch = serde_json::from_slice(patch)
                    .map_err(|e| OpError::new(ErrorKind::Refused, format!("the patch is not JSON: {e}")))?;
                if collection.theirs {
                    self.set(key, &patch)?;
                    let plan = Plan::Write;
                    return Ok((Some(Job { kind: request.op.kind(), contents: false, plan }), 0));
                }
                self.rework(key, Change::Merge(patch))?
            }
            Op::Append { key, bytes } | Op::Prepend { key, bytes } => {
                if body_kind != Body::Bytes {
                    return Err(wrong_collection("append and prepend work on collections of bytes only"));
                }
                let append = matches!(request.op, Op::Append { .. });
                let change = if append { Change::Append } else { Change::Prepend };
                self.rework(key, change(bytes.to_vec()))?
            }
            Op::Page { .. } | Op::Prefix { .. } | Op::Scan { .. } => {
                match query(&mut self.builder, &request.op, false)? {
                    Some(rows) => Plan::Rows(rows),
                    None => return Ok((None, 0)),
                }
            }
            Op::BulkRead { keys: asked } => {
                if asked.is_empty() {
                    return Ok((None, 0));
                }
                let limit = u32::try_from(asked.len()).unwrap_or(u32::MAX);
                self.builder.find(false, limit, |out| {
                    in_keys(out, asked.iter().map(|(key, _)| key), keys);
                    Ok(())
                })?;
                self.check_size()?;
                let repeats = Repeats::of((0..asked.len()).filter_map(|i| Some(asked.get(i)?.0)));
                Plan::Rows(Rows { repeats, ..Rows::new(None, limit) })
            }
            Op::BulkDelete { keys: asked } => {
                if asked.is_empty() {
                    return Ok((None, 0));
                }
                let at = self.builder.bulk("delete", "deletes");
                let document = bson::begin(self.builder.out);
                bson::nested(self.builder.out, DOCUMENT, "q", |out| {
                    in_keys(out, asked.iter().map(|(key, _)| key), keys);
                });
                bson::int32(self.builder.out, "limit", 0);
                bson::end(self.builder.out, document);
                super::wire::end_sequence(self.builder.out, at);
                super::wire::end(self.builder.out);
                self.check_size()?;
                Plan::Delete
            }
            Op::BulkWrite { kind, items } => {
                let bulk = self.bulk_write(kind, items)?;
                splits = bulk.cuts;
                if bulk.items.is_empty() {
                    // No item can be sent.
                    let job = Job { kind: request.op.kind(), contents: false, plan: Plan::Bulk(bulk) };
                    return Ok((Some(job), 0));
                }
                Plan::Bulk(bulk)
            }
            Op::Query { text, .. } => {
                self.builder.ask(text)?;
                self.check_size()?;
                Plan::Rows(Rows { of_query: true, ..Rows::new(None, u32::MAX) })
            }
            Op::View { .. } | Op::Transaction { .. } => return Err(OpError::unsupported()),
        };
        Ok((Some(Job { kind: request.op.kind(), contents: request.contents, plan }), splits))
    }

    /// Refuses a message that is too large for the server, before it is sent.
    fn check_size(&self) -> Result<(), OpError> {
        // A command may be 16 KiB longer than the document in it. Within that margin the server decides.
        if self.builder.out.len() <= self.most_document_bytes + (16 << 10) {
            Ok(())
        } else {
            Err(too_large(self.builder.out.len(), self.most_document_bytes))
        }
    }

    /// Merges by setting and removing members. Unchanged members keep their types, including those that JSON lacks.
    fn set(&mut self, key: &str, patch: &serde_json::Value) -> Result<(), OpError> {
        let changes = Changes::of(patch)?;
        self.builder.replace(&Which { key, revision: None, upsert: false }, |out| changes.write(out))?;
        self.check_size()
    }

    fn rework(&mut self, key: &str, change: Change) -> Result<Plan, OpError> {
        self.builder.read(key, false)?;
        Ok(Plan::Rework(Rework { key: key.to_owned(), change, tries: 0, writing: false }))
    }

    /// Fills messages with items. Starts a new message if the next item would exceed a limit, or if the current message
    /// already has its key: a server processes the items of a message in any order.
    fn bulk_write(&mut self, kind: BulkWrite, items: storebench_engine::store::Batch<'_>) -> Result<Bulk, OpError> {
        let (name, sequence) = match kind {
            BulkWrite::Insert => ("insert", "documents"),
            BulkWrite::Upsert => ("update", "updates"),
        };
        let collection = self.builder.collection;
        let mut bulk = Bulk::default();
        let mut chunks: Vec<(Vec<u8>, Vec<u32>)> = Vec::new();
        let most = match kind {
            BulkWrite::Insert => self.most_writes,
            BulkWrite::Upsert => self.most_updates,
        };
        let mut numbers = Vec::with_capacity(items.len().min(most));
        let mut rounds = Rounds::default();
        rounds.arrange(items, Within::Given);
        let mut ends = rounds.ends.iter().copied().peekable();
        let mut new_round = false;
        let mut at = self.builder.bulk(name, sequence);
        let head = self.builder.out.len();
        for (place, number) in rounds.order.iter().enumerate() {
            let number = *number as usize;
            let Some((key, body)) = items.get(number) else { continue };
            new_round |= ends.next_if_eq(&place).is_some();
            let out = &mut *self.builder.out;
            let begun = out.len();
            let revision = (self.draw)();
            let mut fill = || {
                let document = bson::begin(out);
                match kind {
                    BulkWrite::Insert => {
                        members(out, collection, key, body, revision)?;
                    }
                    BulkWrite::Upsert => {
                        let which = Which { key, revision: None, upsert: true };
                        super::commands::select(out, &which, collection.keys);
                        bson::head(out, DOCUMENT, "u");
                        let inner = bson::begin(out);
                        members(out, collection, key, body, revision)?;
                        bson::end(out, inner);
                        bson::boolean(out, "upsert", true);
                    }
                }
                bson::end(out, document);
                let bytes = out.len() - begun;
                if bytes > self.most_document_bytes { Err(too_large(bytes, self.most_document_bytes)) } else { Ok(()) }
            };
            if let Err(error) = fill() {
                self.builder.out.truncate(begun);
                bulk.rejects.push(Reject { item: number, error });
                continue;
            }
            let full = self.builder.out.len() > self.most_message_bytes || numbers.len() == most;
            bulk.cuts += usize::from(full);
            if full || (std::mem::take(&mut new_round) && !numbers.is_empty()) {
                let item = self.builder.out.split_off(begun);
                self.close(at);
                let full = std::mem::replace(self.builder.out, Vec::with_capacity(item.len() + head));
                chunks.push((full, std::mem::take(&mut numbers)));
                at = self.builder.bulk(name, sequence);
                self.builder.out.extend_from_slice(&item);
            }
            numbers.push(u32::try_from(number).unwrap_or(u32::MAX));
        }
        self.close(at);
        if !chunks.is_empty() {
            chunks.push((std::mem::take(self.builder.out), std::mem::take(&mut numbers)));
            chunks.reverse();
            if let Some((first, items)) = chunks.pop() {
                *self.builder.out = first;
                numbers = items;
            }
        }
        bulk.later = chunks;
        bulk.items = numbers;
        Ok(bulk)
    }

    fn close(&mut self, at: usize) {
        super::wire::end_sequence(self.builder.out, at);
        super::wire::end(self.builder.out);
    }
}

fn too_large(bytes: usize, most: usize) -> OpError {
    OpError::new(
        ErrorKind::Refused,
        format!("{bytes} bytes exceed the server's limit of {most} for one document; make the document smaller"),
    )
}

fn in_keys<'k>(out: &mut Vec<u8>, keys: impl Iterator<Item = &'k str>, kind: KeyKind) {
    bson::nested(out, DOCUMENT, encode::KEY, |out| {
        bson::nested(out, bson::ARRAY, "$in", |out| {
            let mut digits = itoa::Buffer::new();
            for (number, key) in keys.enumerate() {
                super::commands::key(out, digits.format(number), key, kind);
            }
        });
    });
}

/// Builds the `explain` of a page, prefix or scan. Returns false if the query can find nothing.
pub(super) fn query_message(builder: &mut Builder<'_>, op: &Op<'_>) -> Result<bool, OpError> {
    query(builder, op, true).map(|rows| rows.is_some())
}

fn query(builder: &mut Builder<'_>, op: &Op<'_>, explain: bool) -> Result<Option<Rows>, OpError> {
    let keys = builder.collection.keys;
    let mut send = |sorted, limit, filter: &mut dyn FnMut(&mut Vec<u8>) -> Result<(), OpError>| {
        if explain { builder.explain(sorted, limit, filter) } else { builder.find(sorted, limit, filter) }
    };
    let none = match *op {
        Op::Page { limit, .. } | Op::Prefix { limit, .. } | Op::Scan { limit, .. } => limit == 0,
        _ => true,
    };
    if none {
        return Ok(None);
    }
    let rows = match *op {
        Op::Page { field, value, limit } => {
            let mut kind = bson::NULL;
            send(false, limit, &mut |out| {
                let at = out.len();
                kind = encode::member(field, value.as_bytes(), out)?;
                match kind {
                    // Equality with null would also find documents without the field.
                    bson::NULL => {
                        out.truncate(at);
                        bson::nested(out, DOCUMENT, field, |out| bson::int32(out, "$type", i32::from(bson::NULL)));
                        Ok(())
                    }
                    DOCUMENT | bson::ARRAY => {
                        Err(wrong_collection("the value of a page must be text, a number, true, false or null"))
                    }
                    _ => Ok(()),
                }
            })?;
            Rows::new(Some((field.to_owned(), kind)), limit)
        }
        Op::Prefix { prefix, limit } => {
            let end = prefix_end_text(prefix);
            send(true, limit, &mut |out| {
                range(out, prefix, end.as_deref(), keys);
                Ok(())
            })?;
            Rows::new(None, limit)
        }
        Op::Scan { start, end, limit } => {
            send(true, limit, &mut |out| {
                range(out, start, end, keys);
                Ok(())
            })?;
            Rows::new(None, limit)
        }
        _ => return Ok(None),
    };
    Ok(Some(rows))
}

impl Rows {
    fn new(field: Option<(String, u8)>, limit: u32) -> Self {
        let repeats = Repeats::default();
        let (rows, scratch) = (BatchBuf::new(), Vec::new());
        Self { repeats, field, of_query: false, left: limit, documents: 0, bytes: 0, rows, scratch }
    }
}

impl Job {
    /// A step of a transaction, which does nothing before the commit.
    pub(super) fn step(self) -> Self {
        Self { kind: OpKind::Read, ..self }
    }

    /// The end of a transaction.
    pub(super) fn ending() -> Self {
        Self { kind: OpKind::Transaction, contents: false, plan: Plan::End }
    }

    /// The kind of operation that fails if the connection breaks now or the server reports an error. While a job only
    /// reads before its write, nothing was done.
    pub(super) fn at_stake(&self) -> OpKind {
        match &self.plan {
            Plan::Rework(Rework { writing: false, .. }) | Plan::Swap { looking: true, .. } => OpKind::Read,
            _ => self.kind,
        }
    }

    /// The reply of a job that has nothing to send.
    pub(super) fn without_asking(&mut self) -> Option<OwnedReply> {
        match &mut self.plan {
            Plan::Bulk(bulk) if bulk.items.is_empty() => Some(bulk.reply()),
            _ => None,
        }
    }

    pub(super) fn answer(
        &mut self,
        reply: &[u8],
        out: &mut Vec<u8>,
        collection: &Collection,
        tails: &Tails,
        draw: &mut dyn FnMut() -> i64,
    ) -> Step {
        let done = |result| Step::Done { result, elsewhere: false };
        let kind = self.at_stake();
        let Ok(reply) = Members::of(reply) else { return done(self.broken_off(garbage(kind, "it is not a document"))) };
        if !is_ok(reply) {
            if !reply.get("ok").is_some_and(|ok| ok.as_f64().is_some() || ok.kind == bson::BOOL) {
                return done(self.broken_off(garbage(kind, "it does not say whether the command succeeded")));
            }
            let told = ServerError::of(reply);
            return Step::Done { result: self.broken_off(told.operation(kind)), elsewhere: told.is_elsewhere() };
        }
        if let Some(concern) = reply.get("writeConcernError").and_then(|value| value.members()) {
            let told = ServerError::of(concern);
            let result = match &mut self.plan {
                Plan::Bulk(bulk) => bulk.unacknowledged(reply, kind, told.unacknowledged()),
                _ => Err(told.unacknowledged()),
            };
            return Step::Done { result, elsewhere: told.is_elsewhere() };
        }
        let mut builder = Builder { out, collection, tails };
        match self.go_on(reply, &mut builder, draw) {
            Ok(Some(reply)) => done(Ok(reply)),
            Ok(None) => Step::Again,
            Err(error) => done(self.broken_off(error)),
        }
    }

    /// Ends the job with an error that is all that is known about its last message. A split bulk keeps the answers to
    /// its earlier messages.
    pub(super) fn broken_off(&mut self, error: OpError) -> Result<OwnedReply, OpError> {
        match &mut self.plan {
            Plan::Bulk(bulk) => bulk.broken_off(error),
            _ => Err(error),
        }
    }

    fn go_on(
        &mut self,
        reply: Members<'_>,
        builder: &mut Builder<'_>,
        draw: &mut dyn FnMut() -> i64,
    ) -> Result<Option<OwnedReply>, OpError> {
        let kind = self.at_stake();
        match &mut self.plan {
            Plan::Write => match written(reply, kind)? {
                0 => Err(nothing_written(kind)),
                _ => Ok(Some(OwnedReply::documents(1))),
            },
            Plan::Delete => Ok(Some(OwnedReply::documents(written(reply, kind)?))),
            Plan::End => Ok(Some(OwnedReply::documents(0))),
            Plan::Swap { key, looking } => {
                if *looking {
                    let there = batch(reply, kind)?.1.next().is_some();
                    return Err(if there { CHANGED } else { OpError::not_found() });
                }
                if written(reply, kind)? > 0 {
                    return Ok(Some(OwnedReply::documents(1)));
                }
                *looking = true;
                builder.read(key, true).map(|()| None)
            }
            Plan::Exists => {
                let found = batch(reply, kind)?.1.next().is_some();
                Ok(Some(OwnedReply::documents(u32::from(found))))
            }
            Plan::Read => read(reply, kind, builder.collection.body, self.contents).map(Some),
            Plan::Rows(rows) => rows.take(reply, kind, builder, self.contents),
            Plan::Bulk(bulk) => bulk.take(reply, kind, builder),
            Plan::Counter { key, delta, initial, making } => {
                if *making {
                    return match written(reply, kind) {
                        Ok(0) => Err(nothing_written(kind)),
                        Ok(_) => Ok(Some(OwnedReply::documents(1).counter(*initial))),
                        // Another client created it first, so now it can be incremented.
                        Err(error) if error == EXISTS => {
                            *making = false;
                            builder.increment(key, *delta, draw()).map(|()| None)
                        }
                        Err(error) => Err(error),
                    };
                }
                if let Some(document) = reply.get("value").and_then(|value| value.members()) {
                    let value = document.get("n").and_then(|n| n.as_i64());
                    let value = value.ok_or_else(|| garbage(kind, "a counter without its number"))?;
                    return Ok(Some(OwnedReply::documents(1).counter(value)));
                }
                *making = true;
                builder.insert(key, itoa::Buffer::new().format(*initial).as_bytes(), draw()).map(|()| None)
            }
            Plan::Rework(rework) => rework.take(reply, kind, builder, draw),
        }
    }
}

/// How many documents a write matched or wrote.
fn written(reply: Members<'_>, kind: OpKind) -> Result<u32, OpError> {
    if let Some(error) = reply.get("writeErrors").and_then(|value| value.members()).and_then(|mut list| list.next()) {
        let told = error.ok().and_then(|(_, value)| value.members()).map(ServerError::of);
        return Err(told.map_or_else(|| garbage(kind, "a write error is not a document"), |told| told.operation(kind)));
    }
    count(reply, kind)
}

/// The cursor of a reply, and its documents.
fn batch<'b>(
    reply: Members<'b>,
    kind: OpKind,
) -> Result<(i64, impl Iterator<Item = Result<&'b [u8], OpError>>), OpError> {
    let wrong = || garbage(kind, "a query's answer without documents");
    let cursor = reply.get("cursor").and_then(|value| value.members()).ok_or_else(wrong)?;
    let documents = cursor.get("firstBatch").or_else(|| cursor.get("nextBatch"));
    let documents = documents.and_then(|value| value.members()).ok_or_else(wrong)?;
    let id = cursor.get("id").and_then(|id| id.as_i64()).ok_or_else(wrong)?;
    let documents = documents.map(move |member| match member {
        Ok((_, Value { kind: DOCUMENT, bytes })) => Ok(bytes),
        _ => Err(garbage(kind, "a row that is not a document")),
    });
    Ok((id, documents))
}

fn read(reply: Members<'_>, kind: OpKind, body: Body, contents: bool) -> Result<OwnedReply, OpError> {
    let document = batch(reply, kind)?.1.next().transpose()?.ok_or(OpError::not_found())?;
    let mut out = Vec::with_capacity(document.len() + document.len() / 8);
    let found = decode::document(document, body, None, &mut out).map_err(|_| garbage(kind, "a damaged document"))?;
    if !contents {
        return Ok(OwnedReply::documents(1).bytes(out.len() as u64));
    }
    let reply = OwnedReply::documents(1).body(out);
    Ok(match found.revision {
        Some(revision) => reply.revision(revision.to_le_bytes().to_vec()),
        None => reply,
    })
}

/// A key as text: a string as it is, an object id as digits, or an integer.
pub(super) fn key_text(value: Value<'_>) -> Option<std::borrow::Cow<'_, str>> {
    if let Some(text) = value.as_str() {
        return Some(text.into());
    }
    match value.kind {
        bson::OBJECT_ID => Some(hex(value.bytes).into()),
        _ => value.as_i64().map(|number| number.to_string().into()),
    }
}

impl Rows {
    fn take(
        &mut self,
        reply: Members<'_>,
        kind: OpKind,
        builder: &mut Builder<'_>,
        contents: bool,
    ) -> Result<Option<OwnedReply>, OpError> {
        let (cursor, documents) = batch(reply, kind)?;
        let field = self.field.as_ref().map(|(name, _)| name.as_str());
        for document in documents {
            let document = document?;
            self.left = self.left.saturating_sub(1);
            self.scratch.clear();
            if self.of_query {
                let row = Value { kind: DOCUMENT, bytes: document };
                decode::write(row, &mut self.scratch, 0).map_err(|_| garbage(kind, "a damaged document"))?;
                if contents {
                    self.rows.push("", &self.scratch);
                }
                self.documents += 1;
                self.bytes += self.scratch.len() as u64;
                continue;
            }
            let found = decode::document(document, builder.collection.body, field, &mut self.scratch)
                .map_err(|_| garbage(kind, "a damaged document"))?;
            // An array that contains the value also matches, but is another JSON type.
            let fits = self.field.as_ref().is_none_or(|(_, wanted)| found.field.is_some_and(|f| same_type(f, *wanted)));
            if !fits {
                continue;
            }
            let mut times = 1;
            if contents || !self.repeats.is_empty() {
                let key = found.key.and_then(key_text).ok_or_else(|| {
                    OpError::new(ErrorKind::Failed, "a document's key is neither text, an object id nor an integer")
                })?;
                times += self.repeats.more(&key);
                if contents {
                    (0..times).for_each(|_| self.rows.push(&key, &self.scratch));
                }
            }
            self.documents += times;
            self.bytes += self.scratch.len() as u64 * u64::from(times);
        }
        if cursor != 0 && self.left > 0 {
            builder.more(cursor);
            return Ok(None);
        }
        Ok(Some(if contents {
            OwnedReply::documents(0).rows(std::mem::take(&mut self.rows))
        } else {
            OwnedReply::documents(self.documents).bytes(self.bytes)
        }))
    }
}

impl Rework {
    fn take(
        &mut self,
        reply: Members<'_>,
        kind: OpKind,
        builder: &mut Builder<'_>,
        draw: &mut dyn FnMut() -> i64,
    ) -> Result<Option<OwnedReply>, OpError> {
        if self.writing {
            if written(reply, kind)? > 0 {
                return Ok(Some(OwnedReply::documents(1)));
            }
            self.tries += 1;
            if self.tries == MOST_TRIES {
                return Err(OpError::new(
                    ErrorKind::Temporary,
                    "other clients keep changing this document; nothing was written",
                ));
            }
            self.writing = false;
            return builder.read(&self.key, false).map(|()| None);
        }
        let collection = builder.collection;
        let stored = batch(reply, kind)?.1.next().transpose()?.ok_or(OpError::not_found())?;
        let damaged = || OpError::new(ErrorKind::Failed, "the stored document cannot be decoded");
        let mut body = Vec::new();
        let found = decode::document(stored, builder.collection.body, None, &mut body).map_err(|_| damaged())?;
        let revision = found.revision.ok_or_else(|| {
            OpError::new(ErrorKind::Refused, "another program wrote this document, so it has no revision to compare")
        })?;
        self.writing = true;
        let which = Which { key: &self.key, revision: Some(revision), upsert: false };
        let parts = match &self.change {
            Change::Merge(patch) => {
                let mut document = serde_json::from_slice(&body).map_err(|_| damaged())?;
                merge_patch(&mut document, patch);
                let merged = serde_json::to_vec(&document).map_err(|_| damaged())?;
                let expiry = Members::of(stored).ok().and_then(|m| m.get(EXPIRY)).filter(|v| v.kind == bson::DATE);
                let expiry = expiry.and_then(|value| value.bytes.try_into().ok()).map(i64::from_le_bytes);
                builder.replace(&which, |out| {
                    members(out, collection, &self.key, &merged, draw())?;
                    if let Some(at_ms) = expiry {
                        bson::date(out, EXPIRY, at_ms);
                    }
                    Ok(())
                })?;
                return Ok(None);
            }
            Change::Append(bytes) => [&body, bytes.as_slice()],
            Change::Prepend(bytes) => [bytes.as_slice(), &body],
        };
        builder.replace(&which, |out| {
            bson::nested(out, DOCUMENT, "$set", |out| {
                bson::binary(out, "b", parts);
                bson::int64(out, REVISION, draw());
            });
            Ok(())
        })?;
        Ok(None)
    }
}
