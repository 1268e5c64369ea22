//! The requests of tasks.

use super::maker::{Maker, More, Stage, Task};
use super::recipes::{Ask, Rows};
use crate::store::{BulkWrite, CollectionId, Op, OpKind, Request, Step};

/// A key as text. Most keys are ASCII, which is checked faster than UTF-8.
#[inline]
pub(super) fn text(bytes: &[u8]) -> &str {
    if bytes.is_ascii() {
        // SAFETY: ASCII is UTF-8.
        return unsafe { std::str::from_utf8_unchecked(bytes) };
    }
    std::str::from_utf8(bytes).expect("generated keys are UTF-8")
}

impl Maker {
    /// Writes the request of a task into the buffers and borrows it from there.
    #[inline]
    pub(super) fn request<'a>(&'a mut self, task: &Task, more: &More, stage: Stage, revision: &'a [u8]) -> Request<'a> {
        if !more.steps.is_empty() {
            return self.request_of_steps(task, &more.steps);
        }
        let indexes = &more.indexes;
        let recipe = self.plan.recipe(task.recipe);
        let kind = recipe.label.kind;
        let documents = self.catalog.get(recipe.label.collection);
        let (index, version) = (task.index, task.version);
        self.key.clear();
        self.body.clear();
        match (&recipe.ask, kind) {
            (Ask::Prefix(upto, _), _) => documents.write_key_prefix(index, upto.as_deref(), &mut self.key),
            (Ask::Page(field, _), _) => {
                self.value = documents.index_value(index, field).unwrap_or_default().to_string();
            }
            (Ask::View(_, Rows::By(field), _), _) => {
                self.value = format!("[{}]", documents.index_value(index, field).unwrap_or_default());
            }
            (Ask::View(..), _) => {}
            (Ask::Query(query), _) => query.write_values(documents, index, task.number, &mut self.batch),
            (_, OpKind::BulkInsert | OpKind::BulkUpsert) => {
                self.batch.clear();
                for index in task.indexes(indexes) {
                    self.batch.push_with(
                        |key| documents.write_key(index, key),
                        |body| documents.write_document(index, version, body),
                    );
                }
            }
            (_, OpKind::BulkRead | OpKind::BulkDelete) => {
                self.batch.clear();
                for index in task.indexes(indexes) {
                    self.batch.push_with(|key| documents.write_key(index, key), |_| {});
                }
            }
            _ => documents.write_key(index, &mut self.key),
        }
        match (&recipe.ask, kind, stage) {
            (Ask::Grow(bytes), ..) => self.body.resize(usize::try_from(*bytes).unwrap_or(usize::MAX), b'+'),
            (_, OpKind::Insert | OpKind::Upsert | OpKind::Replace, _) | (_, OpKind::CompareAndSwap, Stage::Swap) => {
                documents.write_document(index, version, &mut self.body);
            }
            (_, OpKind::MergePatch, _) => {
                use std::io::Write;
                // Writing to a Vec cannot fail.
                let _ = write!(self.body, "{{\"patched\":{version}}}");
            }
            _ => {}
        }
        let recorded = self.plan.trace.as_ref().filter(|_| task.recorded > 0).and_then(|(trace, _)| {
            let op = trace.ops().get(task.recorded as usize - 1)?;
            trace.body(op)
        });
        let (key, body) = (text(&self.key), recorded.unwrap_or(&self.body));
        let op = match (&recipe.ask, kind) {
            (Ask::Count(delta), _) => Op::Counter { key, delta: *delta, initial: 0 },
            (Ask::Live(expiry), _) => Op::Touch { key, expiry: *expiry },
            (Ask::Page(field, limit), _) => Op::Page { field, value: &self.value, limit: *limit },
            (Ask::Prefix(_, limit), _) => Op::Prefix { prefix: key, limit: *limit },
            (Ask::Scan(limit), _) => Op::Scan { start: key, end: None, limit: *limit },
            (Ask::View(view, rows, limit), _) => {
                Op::View { view, rows: rows.asked(&self.value), skip: 0, limit: *limit }
            }
            (Ask::Query(query), _) => {
                Op::Query { number: task.recipe as u16, text: &query.text, values: self.batch.as_batch() }
            }
            (Ask::Grow(_), OpKind::Prepend) => Op::Prepend { key, bytes: body },
            (Ask::Grow(_), _) => Op::Append { key, bytes: body },
            (_, OpKind::CompareAndSwap) if stage == Stage::Swap => Op::CompareAndSwap { key, expected: revision, body },
            (_, OpKind::Insert) => Op::Insert { key, body },
            (_, OpKind::Upsert) => Op::Upsert { key, body },
            (_, OpKind::Replace) => Op::Replace { key, body },
            (_, OpKind::Exists) => Op::Exists { key },
            (_, OpKind::Delete) => Op::Delete { key },
            (_, OpKind::MergePatch) => Op::MergePatch { key, patch: body },
            (_, OpKind::BulkInsert) => Op::BulkWrite { kind: BulkWrite::Insert, items: self.batch.as_batch() },
            (_, OpKind::BulkUpsert) => Op::BulkWrite { kind: BulkWrite::Upsert, items: self.batch.as_batch() },
            (_, OpKind::BulkRead) => Op::BulkRead { keys: self.batch.as_batch() },
            (_, OpKind::BulkDelete) => Op::BulkDelete { keys: self.batch.as_batch() },
            // This is also the read before a compare-and-swap.
            (Ask::Document | Ask::Transaction(_), _) => Op::Read { key },
        };
        Request {
            collection: CollectionId(recipe.label.collection as u16),
            op,
            contents: task.check
                || self.plan.answers.is_some()
                || stage == Stage::Look
                || (self.ledger.is_some() && matches!(kind, OpKind::Read | OpKind::BulkRead))
                || (kind == OpKind::Read
                    && self.plan.followed.as_ref().is_some_and(|of| of.has(recipe.label.collection, index))),
        }
    }
}

/// Bytes of keys and documents that a request sends.
#[inline]
pub(super) fn sent_bytes(op: &Op<'_>) -> u64 {
    let bytes = match op {
        Op::Insert { key, body } | Op::Upsert { key, body } | Op::Replace { key, body } => key.len() + body.len(),
        Op::CompareAndSwap { key, body, .. } => key.len() + body.len(),
        Op::Append { key, bytes } | Op::Prepend { key, bytes } => key.len() + bytes.len(),
        Op::MergePatch { key, patch } => key.len() + patch.len(),
        Op::BulkWrite { items, .. } => items.total_bytes(),
        Op::Query { values, .. } => values.iter().map(|(_, value)| value.len()).sum(),
        Op::Transaction { steps, .. } => return steps.iter().map(Step::sent_bytes).sum(),
        _ => 0,
    };
    bytes as u64
}
