//! Bulk operations.
//!
//! `BatchGetItem` reads up to 100 documents, and `BatchWriteItem` writes up to 25, without a condition. Inserts and
//! deletions need conditions, so they are one request for each document.
//!
//! A server leaves writes unprocessed if it is throttled. AWS says to wait before they are sent again. So they and the
//! rest of the operation fail as *temporary*, and the caller tries again what is not done, by its own policy. Reads
//! may also be left because an answer has at most 16 MB, so they are requested again as long as the server reads some.

use std::collections::HashSet;

use storebench_documents::json;
use storebench_engine::store::{Batch, ErrorKind, OpError, OpKind, Reject};

use super::dialect::{DynamoDialect, draw, is_conditional_failure, open};
use super::errors::{INVALID, fault, name};
use super::memory::{Awaits, DynamoMemory};
use crate::document::EXISTS;
use crate::http::aws::push;
use crate::http::{Answer, Bulk, Next, RequestBuf, senseless};
use crate::repeats::Repeats;

const UNPROCESSED: OpError = OpError::fixed(
    ErrorKind::Temporary,
    "the server throttles, and left it unprocessed; nothing was done (in a study, `retry` tries it again)",
);

impl DynamoDialect {
    /// Starts a bulk operation. Returns false if there is nothing to send.
    pub(super) fn begin_bulk(
        &mut self,
        items: Batch<'_>,
        memory: &mut DynamoMemory,
        out: &mut RequestBuf,
    ) -> Result<bool, OpError> {
        let table = &self.tables[memory.collection];
        let by_key = matches!(memory.kind, Some(OpKind::BulkRead | OpKind::BulkDelete));
        let mut seen = HashSet::new();
        for (number, (key, body)) in (0..).zip(items.iter()) {
            memory.bulk.items.push(key, body);
            self.scratch.clear();
            // A document with an invalid key does not exist. A request must not name a key twice.
            if !by_key || table.push_key(key, &mut self.scratch).is_ok() && seen.insert(key) {
                memory.bulk.part.push(number);
            }
        }
        // The most documents of a request.
        (memory.awaits, memory.left) = match memory.kind {
            Some(OpKind::BulkRead) => (Awaits::BulkRead, 100),
            Some(OpKind::BulkUpsert) => (Awaits::BulkWrite, 25),
            _ => (Awaits::Each, 1),
        };
        if memory.awaits == Awaits::BulkWrite {
            memory.bulk.part_repeated();
        }
        let Bulk { part, waiting, .. } = &mut memory.bulk;
        waiting.push(std::mem::take(part));
        self.send_next(memory, out)
    }

    /// Sends the next part. Returns false if there is none.
    fn send_next(&mut self, memory: &mut DynamoMemory, out: &mut RequestBuf) -> Result<bool, OpError> {
        while memory.bulk.next_part() {
            let part = &mut memory.bulk.part;
            if part.len() > memory.left as usize {
                let rest = part.split_off(memory.left as usize);
                memory.bulk.waiting.push(rest);
            }
            if self.send_part(memory, out) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sends the current part. Returns false if nothing of it can be sent.
    fn send_part(&mut self, memory: &mut DynamoMemory, out: &mut RequestBuf) -> bool {
        if memory.awaits == Awaits::Each {
            return self.send_one(memory, out);
        }
        let table = &self.tables[memory.collection];
        let reads = memory.awaits == Awaits::BulkRead;
        let (operation, [first, last], [before, after]) = if reads {
            let last = if self.strong { "],\"ConsistentRead\":true}" } else { "]}" };
            ("BatchGetItem", ["{\"Keys\":[", last], ["{", "}"])
        } else {
            ("BatchWriteItem", ["[", "]"], ["{\"PutRequest\":{\"Item\":", "}}"])
        };
        let body = open(reads, out);
        push(body, &["\"RequestItems\":{\"", &table.name, "\":", first]);
        let Bulk { items, part, rejects, .. } = &mut memory.bulk;
        let (items, start) = (items.as_batch(), body.len());
        part.retain(|number| {
            let (key, document) = items.get(*number as usize).unwrap_or_default();
            let length = body.len();
            push(body, &[if length > start { "," } else { "" }, before]);
            draw(&mut self.random, &mut memory.revision);
            let pushed =
                if reads { table.push_key(key, body) } else { table.push_item(key, &memory.revision, document, body) };
            push(body, &[after]);
            let rejected = pushed.map_err(|error| rejects.push(Reject { item: *number as usize, error })).is_err();
            body.truncate(if rejected { length } else { body.len() });
            !rejected
        });
        push(body, &[last, "}"]);
        self.send(operation, out);
        !memory.bulk.part.is_empty()
    }

    /// Sends an insert or a deletion of one document.
    fn send_one(&mut self, memory: &mut DynamoMemory, out: &mut RequestBuf) -> bool {
        let [number] = memory.bulk.part[..] else { return false };
        memory.key.clear();
        let (key, document) = memory.bulk.items.as_batch().get(number as usize).unwrap_or_default();
        memory.key.push_str(key);
        let document = document.to_vec();
        let deletes = memory.kind == Some(OpKind::BulkDelete);
        let sent = if deletes { self.delete(memory, out) } else { self.put(memory, &document, out) };
        sent.map_err(|error| memory.bulk.reject(number, error)).is_ok()
    }

    /// Handles the answer to a request of a bulk operation, or the error if there is no answer.
    pub(super) fn bulk_answer<'a>(
        &'a mut self,
        memory: &'a mut DynamoMemory,
        answer: Result<Answer<'a>, OpError>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        let taken = match answer {
            Err(error) => Err(error),
            Ok(answer) if memory.awaits == Awaits::Each && is_conditional_failure(&answer) => {
                if memory.kind == Some(OpKind::BulkInsert) {
                    memory.bulk.reject_part(&EXISTS);
                }
                Ok(())
            }
            // A single document may be the cause: it is too large. Nothing was done.
            Ok(answer) if answer.status == 400 && name(&answer) == INVALID && memory.bulk.cut() => {
                out.splits += 1;
                let first = std::mem::take(&mut memory.bulk.part);
                memory.bulk.waiting.push(first);
                Ok(())
            }
            Ok(answer) if !answer.is_success() => Err(fault(&answer, out.changes())),
            Ok(answer) => match memory.awaits {
                Awaits::BulkRead => self.take_documents(memory, &answer),
                Awaits::BulkWrite => self.take_outcomes(memory, &answer),
                _ => self.told(&answer, true, []).map(|[]| memory.bulk.written += 1),
            },
        };
        if let Err(error) = taken {
            memory.bulk.fail(error, memory.awaits == Awaits::BulkRead)?;
        }
        Ok(if self.send_next(memory, out)? { None } else { Some(memory.reply()) })
    }

    fn take_documents(&mut self, memory: &mut DynamoMemory, answer: &Answer<'_>) -> Result<(), OpError> {
        let [found, left] = self.told(answer, false, [b"Responses", b"UnprocessedKeys"])?;
        let found = found.ok_or_else(|| senseless(answer, false))?;
        let repeats =
            Repeats::of(memory.bulk.items.as_batch().iter().map(|(key, _)| key).collect::<Vec<_>>().into_iter());
        for item in json::members(found).flat_map(|table| json::elements(table.value)) {
            let Some(key) = self.add(memory, item)? else { continue };
            for _ in 0..repeats.more(&key) {
                self.add(memory, item)?;
            }
        }
        let left = left.into_iter().flat_map(json::members);
        let left = left.filter_map(|table| json::member(table.value, "Keys")).flat_map(json::elements);
        self.leave(memory, left, answer)
    }

    fn take_outcomes(&mut self, memory: &mut DynamoMemory, answer: &Answer<'_>) -> Result<(), OpError> {
        let [left] = self.told(answer, true, [b"UnprocessedItems"])?;
        let left = left.into_iter().flat_map(json::members).flat_map(|table| json::elements(table.value));
        let put = |item| json::member(item, "PutRequest").and_then(|put| json::member(put, "Item")).unwrap_or_default();
        self.leave(memory, left.map(put), answer)
    }

    /// Keeps in the part what the server left unprocessed.
    fn leave<'a>(
        &self,
        memory: &mut DynamoMemory,
        left: impl Iterator<Item = &'a [u8]>,
        answer: &Answer<'_>,
    ) -> Result<(), OpError> {
        let (table, bulk) = (&self.tables[memory.collection], &mut memory.bulk);
        let keys: Vec<_> = left.map(|item| table.key_of(item)).collect();
        let is_left = |number: &u32| keys.iter().flatten().any(|key| key == bulk.item(*number).0);
        let left: Vec<u32> = bulk.part.iter().copied().filter(is_left).collect();
        let (reads, done) = (memory.awaits == Awaits::BulkRead, bulk.part.len() - left.len());
        if left.len() != keys.len() {
            return Err(senseless(answer, !reads));
        }
        bulk.written += if reads { 0 } else { done };
        bulk.part = left;
        match bulk.part.len() {
            0 => {}
            _ if reads && done > 0 => bulk.waiting.push(std::mem::take(&mut bulk.part)),
            _ => return Err(UNPROCESSED),
        }
        Ok(())
    }
}
