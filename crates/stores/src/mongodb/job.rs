//! What an operation does with each answer, until it is done. [`Begin`](super::begin::Begin) builds its first message.
//! This module does no I/O.

use std::borrow::Cow;

use storebench_engine::store::{Collected, ErrorKind, OpError, OpKind, OwnedReply, merge_patch};
use storebench_study::workload::Body;

use super::bson::{self, DOCUMENT, Members, Value};
use super::bulk::{Bulk, count};
use super::commands::{Builder, Collection, Tails, Which, members};
use super::decode::{self, hex, same_type};
use super::encode::{EXPIRY, REVISION};
use super::errors::{ServerError, is_ok};
use super::wire::garbage;
use crate::document::{CHANGED, EXISTS, nothing_written};
use crate::refusals::refused;
use crate::repeats::Repeats;

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
    pub(super) kind: OpKind,
    pub(super) plan: Plan,
}

#[derive(Debug)]
pub(super) enum Plan {
    /// One write.
    Write,
    /// A write at a revision, then perhaps a check whether the document exists.
    Swap {
        key: String,
        looking: bool,
    },
    /// Whether the contents are wanted.
    Read(bool),
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

#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Keys that were requested more than once: the server returns each once.
    pub(super) repeats: Repeats,
    /// The requested field, and the type of its value.
    pub(super) field: Option<(String, u8)>,
    /// Whether these are rows of a query of the study, which may have any form.
    pub(super) of_query: bool,
    pub(super) left: u32,
    pub(super) found: Collected,
    pub(super) scratch: Vec<u8>,
}

/// Read, change, and write if no other client has written meanwhile.
#[derive(Debug)]
pub(super) struct Rework {
    pub(super) key: String,
    pub(super) change: Change,
    pub(super) tries: u32,
    pub(super) writing: bool,
}

#[derive(Debug)]
pub(super) enum Change {
    Merge(Vec<u8>),
    Append(Vec<u8>),
    Prepend(Vec<u8>),
}

impl Job {
    /// A step of a transaction, which does nothing before the commit.
    pub(super) fn step(self) -> Self {
        Self { kind: OpKind::Read, ..self }
    }

    /// The end of a transaction.
    pub(super) fn ending() -> Self {
        Self { kind: OpKind::Transaction, plan: Plan::End }
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
                Plan::Bulk(bulk) => {
                    let own = bulk.rejected(reply, kind).unwrap_or_default();
                    bulk.end(told.unacknowledged(), own)
                }
                _ => Err(told.unacknowledged()),
            };
            return Step::Done { result, elsewhere: told.is_elsewhere() };
        }
        let mut builder = Builder { out, collection, tails, explains: false };
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
            Plan::Bulk(bulk) => bulk.end(error, Vec::new()),
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
            Plan::Read(contents) => read(reply, kind, builder.collection.body, *contents).map(Some),
            Plan::Rows(rows) => rows.take(reply, kind, builder),
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
pub(super) fn key_text(value: Value<'_>) -> Option<Cow<'_, str>> {
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
                self.found.add("", &self.scratch);
                continue;
            }
            let found = decode::document(document, builder.collection.body, field, &mut self.scratch)
                .map_err(|_| garbage(kind, "a damaged document"))?;
            // An array that contains the value also matches, but is another JSON type.
            let fits = self.field.as_ref().is_none_or(|(_, wanted)| found.field.is_some_and(|f| same_type(f, *wanted)));
            if !fits {
                continue;
            }
            let mut key = Cow::Borrowed("");
            if self.found.contents() || !self.repeats.is_empty() {
                key = found.key.and_then(key_text).ok_or_else(|| {
                    OpError::new(ErrorKind::Failed, "a document's key is neither text, an object id nor an integer")
                })?;
            }
            for _ in 0..=self.repeats.more(&key) {
                self.found.add(&key, &self.scratch);
            }
        }
        if cursor != 0 && self.left > 0 {
            return builder.more(cursor).map(|()| None);
        }
        Ok(Some(std::mem::take(&mut self.found).into_reply()))
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
        let revision = found
            .revision
            .ok_or_else(|| refused("another program wrote this document, so it has no revision to compare"))?;
        self.writing = true;
        let which = Which { key: &self.key, revision: Some(revision), upsert: false };
        let parts = match &self.change {
            Change::Merge(patch) => {
                let merged = merge_patch(&body, patch)?;
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
