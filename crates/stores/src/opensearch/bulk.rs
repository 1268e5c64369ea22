//! Bulk operations: `_bulk`, whose answer has the outcome of each document, and `_mget`. A request that is larger than
//! the server accepts is split before it is sent, and in two if the server refuses it nevertheless.

use storebench_engine::store::{Batch, ErrorKind, OpError, OpKind, Reject};

use super::dialect::{NO_SOURCE, SearchDialect};
use super::errors::fault;
use super::json::{self, decode, push_text};
use super::memory::{Awaits, SearchMemory};
use crate::document::EXISTS;
use crate::http::{Answer, Bulk, Method, Next, RequestBuf, senseless};

/// More than the text around a document in a bulk, besides its key.
const FRAME_BYTES: usize = 64;

impl SearchDialect {
    /// Starts a bulk write. Returns false if there is nothing to send.
    pub(super) fn begin_bulk_write(&self, items: Batch<'_>, memory: &mut SearchMemory, out: &mut RequestBuf) -> bool {
        let collection = self.collection(memory);
        let bulk = &mut memory.bulk;
        let mut stored = Vec::new();
        for (number, (key, body)) in (0..).zip(items.iter()) {
            stored.clear();
            let fits = collection.encode(key, body, &mut stored);
            // A line break would end the document. JSON has them only between its parts.
            stored.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
            let bytes = stored.len() + 2 * key.len() + FRAME_BYTES;
            match fits {
                Ok(()) if bytes > self.most_bytes => bulk.reject(number, self.too_large(bytes)),
                Ok(()) => bulk.part.push(number),
                Err(error) => bulk.reject(number, error),
            }
            bulk.items.push(key, &stored);
        }
        self.send_part(memory, out)
    }

    /// Starts a bulk operation on documents by key. Returns false if there is nothing to send.
    pub(super) fn begin_by_keys(&self, keys: Batch<'_>, memory: &mut SearchMemory, out: &mut RequestBuf) -> bool {
        let collection = self.collection(memory);
        for (number, (key, _)) in (0..).zip(keys.iter()) {
            // A document with an invalid key does not exist.
            if collection.check_key(key).is_ok() {
                memory.bulk.part.push(number);
            }
            memory.bulk.items.push(key, b"");
        }
        if memory.kind == Some(OpKind::BulkRead) { self.ask_part(memory, out) } else { self.send_part(memory, out) }
    }

    /// Requests the documents of the current part. Returns false if it is empty.
    fn ask_part(&self, memory: &mut SearchMemory, out: &mut RequestBuf) -> bool {
        memory.awaits = Awaits::BulkRead;
        out.begin(Method::POST).raw(&self.collection(memory).path).raw("_mget").only_reads();
        out.body().extend_from_slice(b"{\"ids\":");
        memory.bulk.push_part_keys(out.body());
        out.body().push(b'}');
        !memory.bulk.part.is_empty()
    }

    /// Sends as much of the current part as the server accepts. Returns false if it is empty.
    fn send_part(&self, memory: &mut SearchMemory, out: &mut RequestBuf) -> bool {
        memory.awaits = Awaits::BulkWrite;
        let action: &[u8] = match memory.kind {
            Some(OpKind::BulkInsert) => b"{\"create\":{\"_id\":",
            Some(OpKind::BulkDelete) => b"{\"delete\":{\"_id\":",
            _ => b"{\"index\":{\"_id\":",
        };
        out.begin(Method::POST).raw(&self.collection(memory).path).raw("_bulk").raw(&self.write);
        let Bulk { items, part, waiting, .. } = &mut memory.bulk;
        let items = items.as_batch();
        let mut sent = 0;
        for number in part.iter() {
            let (key, document) = items.get(*number as usize).unwrap_or_default();
            let before = out.body_bytes();
            let body = out.body();
            body.extend_from_slice(action);
            push_text(key, body);
            body.extend_from_slice(b"}}\n");
            if memory.kind != Some(OpKind::BulkDelete) {
                body.extend_from_slice(document);
                body.push(b'\n');
            }
            if body.len() > self.most_bytes && sent > 0 {
                body.truncate(before);
                break;
            }
            sent += 1;
        }
        if sent < part.len() {
            out.splits += 1;
            waiting.push(part.split_off(sent));
        }
        sent > 0
    }

    /// Handles the answer to a request of a bulk operation, or the error if there is no answer.
    pub(super) fn bulk_answer<'a>(
        &'a mut self,
        memory: &'a mut SearchMemory,
        answer: Result<Answer<'a>, OpError>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        let reads = memory.awaits == Awaits::BulkRead;
        let taken = match answer {
            Err(error) => Err(error),
            // Nothing was done. A single document may be the cause.
            Ok(answer) if matches!(answer.status, 400 | 413) && memory.bulk.cut() => {
                out.splits += 1;
                self.ask_again(memory, out);
                return Ok(None);
            }
            Ok(answer) if !answer.is_success() => Err(fault(&answer, out.changes())),
            Ok(answer) if reads => self.take_documents(memory, &answer),
            Ok(answer) => self.take_outcomes(memory, &answer),
        };
        if let Err(error) = taken {
            memory.bulk.fail(error, reads)?;
        }
        if memory.bulk.next_part() {
            self.ask_again(memory, out);
            return Ok(None);
        }
        Ok(Some(memory.reply()))
    }

    fn ask_again(&self, memory: &mut SearchMemory, out: &mut RequestBuf) {
        if memory.awaits == Awaits::BulkRead {
            self.ask_part(memory, out)
        } else {
            self.send_part(memory, out)
        };
    }

    fn take_documents(&mut self, memory: &mut SearchMemory, answer: &Answer<'_>) -> Result<(), OpError> {
        let collection = &self.collections[memory.collection];
        let documents = json::member(answer.body, "docs").filter(|documents| json::is_array(documents));
        let mut rows = json::elements(documents.ok_or_else(|| senseless(answer, false))?);
        for number in std::mem::take(&mut memory.bulk.part) {
            let row = rows.next().ok_or_else(|| senseless(answer, false))?;
            if json::member(row, "found") == Some(b"true") {
                let source = json::member(row, "_source").ok_or(NO_SOURCE)?;
                let body = decode(collection.body, collection.keyed, source, &mut self.scratch)?;
                memory.found.add(memory.bulk.item(number).0, body);
            } else if json::member(row, "error").is_some() {
                return Err(fault(&Answer::of_parts(503, b"", row), false));
            }
        }
        Ok(())
    }

    /// Handles the outcome of each document of the part.
    fn take_outcomes(&mut self, memory: &mut SearchMemory, answer: &Answer<'_>) -> Result<(), OpError> {
        let items = json::member(answer.body, "items").filter(|items| json::is_array(items));
        let mut items = json::elements(items.ok_or_else(|| senseless(answer, true))?);
        let kind = memory.kind;
        let Bulk { part, rejects, written, .. } = &mut memory.bulk;
        for number in part.drain(..) {
            let outcome =
                items.next().and_then(|item| json::members(item).next()).map_or(&b""[..], |member| member.value);
            match self.outcome(kind, outcome) {
                Ok(done) => *written += usize::from(done),
                Err(error) => rejects.push(Reject { item: number as usize, error }),
            }
        }
        Ok(())
    }

    /// Whether something was done for one document.
    fn outcome(&self, kind: Option<OpKind>, outcome: &[u8]) -> Result<bool, OpError> {
        let status = json::member(outcome, "status").and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        match status {
            Some(200..=299) => self.check_stored(outcome).map(|()| true),
            Some(404) if kind == Some(OpKind::BulkDelete) && json::member(outcome, "error").is_none() => Ok(false),
            Some(409) if kind == Some(OpKind::BulkInsert) => Err(EXISTS),
            Some(status) => Err(fault(&Answer::of_parts(status, b"", outcome), true)),
            None => Err(OpError::fixed(
                ErrorKind::OutcomeUnknown,
                "the server's answer does not give the outcome for this document",
            )),
        }
    }
}
