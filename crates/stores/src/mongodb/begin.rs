//! The first message of each operation. This module does no I/O.

use storebench_engine::store::{Batch, BulkWrite, Op, OpError, Reject, Request, check_patch};

use super::bson::{self, DOCUMENT};
use super::bulk::Bulk;
use super::commands::{self, Builder, KeyKind, Which, members, range, update};
use super::encode;
use super::finder::Hello;
use super::job::{Change, Job, Plan, Rework, Rows};
use super::patch::Changes;
use super::wire;
use crate::document::{CHANGED, prefix_end_text, wrong_collection};
use crate::refusals::{check_fits, refused};
use crate::repeats::{Repeats, Rounds, Within};

/// What an operation needs to begin.
pub(super) struct Begin<'a> {
    pub(super) builder: Builder<'a>,
    pub(super) limits: &'a Hello,
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
        check_fits(request.op.kind(), collection.body)?;
        let at = |key| Which { key, revision: None, upsert: false };
        let mut splits = 0;
        let plan = match request.op {
            Op::BulkRead { keys } | Op::BulkDelete { keys } if keys.is_empty() => return Ok((None, 0)),
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
                Plan::Read(request.contents)
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
                let revision = (self.draw)();
                self.builder.increment(key, delta, revision)?;
                Plan::Counter { key: key.to_owned(), delta, initial, making: false }
            }
            Op::MergePatch { key, patch } => {
                check_patch(patch)?;
                if collection.theirs {
                    // Unchanged members keep their types, including those that JSON lacks.
                    let changes = Changes::of(patch)?;
                    self.builder.replace(&at(key), |out| changes.write(out))?;
                    self.check_size()?;
                    Plan::Write
                } else {
                    self.rework(key, Change::Merge(patch.to_vec()))?
                }
            }
            Op::Append { key, bytes } | Op::Prepend { key, bytes } => {
                let append = matches!(request.op, Op::Append { .. });
                let change = if append { Change::Append } else { Change::Prepend };
                self.rework(key, change(bytes.to_vec()))?
            }
            Op::Page { .. } | Op::Prefix { .. } | Op::Scan { .. } => match query(&mut self.builder, &request.op)? {
                Some(rows) => Plan::Rows(rows),
                None => return Ok((None, 0)),
            },
            Op::BulkRead { keys } => {
                let left = u32::try_from(keys.len()).unwrap_or(u32::MAX);
                self.builder.find(false, left, |out| {
                    in_keys(out, keys, collection.keys);
                    Ok(())
                })?;
                self.check_size()?;
                let repeats = Repeats::of((0..keys.len()).filter_map(|i| Some(keys.get(i)?.0)));
                Plan::Rows(Rows { repeats, left, ..Rows::default() })
            }
            Op::BulkDelete { keys } => {
                let at = self.builder.bulk("delete", "deletes");
                let document = bson::begin(self.builder.out);
                bson::nested(self.builder.out, DOCUMENT, "q", |out| in_keys(out, keys, collection.keys));
                bson::int32(self.builder.out, "limit", 0);
                bson::end(self.builder.out, document);
                self.close(at);
                self.check_size()?;
                Plan::Delete
            }
            Op::BulkWrite { kind, items } => {
                let bulk = self.bulk_write(kind, items)?;
                splits = bulk.cuts;
                Plan::Bulk(bulk)
            }
            Op::Query { text, .. } => {
                self.builder.ask(text)?;
                self.check_size()?;
                Plan::Rows(Rows { of_query: true, left: u32::MAX, ..Rows::default() })
            }
            Op::View { .. } | Op::Transaction { .. } => return Err(OpError::unsupported()),
        };
        let mut job = Job { kind: request.op.kind(), plan };
        if let Plan::Rows(rows) = &mut job.plan {
            rows.found.begin(request.contents);
        }
        Ok((Some(job), splits))
    }

    /// Refuses a message that is too large for the server, before it is sent.
    fn check_size(&self) -> Result<(), OpError> {
        // A command may be 16 KiB longer than the document in it. Within that margin the server decides.
        let (bytes, most) = (self.builder.out.len(), self.limits.most_document_bytes);
        if bytes <= most + (16 << 10) { Ok(()) } else { Err(too_large(bytes, most)) }
    }

    fn rework(&mut self, key: &str, change: Change) -> Result<Plan, OpError> {
        self.builder.read(key, false)?;
        Ok(Plan::Rework(Rework { key: key.to_owned(), change, tries: 0, writing: false }))
    }

    /// Fills messages with items. Starts a new message if the next item would exceed a limit, or if the current message
    /// already has its key: a server processes the items of a message in any order.
    fn bulk_write(&mut self, kind: BulkWrite, items: Batch<'_>) -> Result<Bulk, OpError> {
        let (name, sequence, most) = match kind {
            BulkWrite::Insert => ("insert", "documents", self.limits.most_writes),
            BulkWrite::Upsert => ("update", "updates", self.most_updates),
        };
        let (collection, limits) = (self.builder.collection, self.limits);
        let mut bulk = Bulk::default();
        let mut chunks: Vec<(Vec<u8>, Vec<u32>)> = Vec::new();
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
                let write = |out: &mut Vec<u8>| members(out, collection, key, body, revision);
                match kind {
                    BulkWrite::Insert => write(out)?,
                    BulkWrite::Upsert => {
                        update(out, &Which { key, revision: None, upsert: true }, collection.keys, write)?;
                    }
                }
                bson::end(out, document);
                let (bytes, most) = (out.len() - begun, limits.most_document_bytes);
                if bytes > most { Err(too_large(bytes, most)) } else { Ok(()) }
            };
            if let Err(error) = fill() {
                self.builder.out.truncate(begun);
                bulk.rejects.push(Reject { item: number, error });
                continue;
            }
            let full = self.builder.out.len() > limits.most_message_bytes || numbers.len() == most;
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
        wire::end_sequence(self.builder.out, at);
        wire::end(self.builder.out);
    }
}

fn too_large(bytes: usize, most: usize) -> OpError {
    refused(format!("{bytes} bytes exceed the server's limit of {most} for one document; make the document smaller"))
}

fn in_keys(out: &mut Vec<u8>, keys: Batch<'_>, kind: KeyKind) {
    bson::nested(out, DOCUMENT, encode::KEY, |out| {
        bson::nested(out, bson::ARRAY, "$in", |out| {
            let mut digits = itoa::Buffer::new();
            for (number, (key, _)) in keys.iter().enumerate() {
                commands::key(out, digits.format(number), key, kind);
            }
        });
    });
}

/// Builds a page, prefix or scan. Returns `None` if it can find nothing.
pub(super) fn query(builder: &mut Builder<'_>, op: &Op<'_>) -> Result<Option<Rows>, OpError> {
    let keys = builder.collection.keys;
    let rows = match *op {
        Op::Page { limit: 0, .. } | Op::Prefix { limit: 0, .. } | Op::Scan { limit: 0, .. } => return Ok(None),
        Op::Page { field, value, limit } => {
            let mut kind = bson::NULL;
            builder.find(false, limit, |out| {
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
            Rows { field: Some((field.to_owned(), kind)), left: limit, ..Rows::default() }
        }
        Op::Prefix { prefix, limit } => {
            let end = prefix_end_text(prefix);
            builder.find(true, limit, |out| {
                range(out, prefix, end.as_deref(), keys);
                Ok(())
            })?;
            Rows { left: limit, ..Rows::default() }
        }
        Op::Scan { start, end, limit } => {
            builder.find(true, limit, |out| {
                range(out, start, end, keys);
                Ok(())
            })?;
            Rows { left: limit, ..Rows::default() }
        }
        _ => return Ok(None),
    };
    Ok(Some(rows))
}
