//! Bulk operations: `_bulk_docs`, and `_all_docs` with keys. A request that is too large for the server is split in
//! two, recursively. Documents that another client changed are written again over their new revision.

use storebench_engine::store::{Batch, ErrorKind, OpError, OpKind, Reject};

use super::dialect::{
    CouchDialect, check_document, check_key, decode, encode, fault, gone, is_of_contents, row_revision,
};
use super::json;
use super::memory::{Awaits, CouchMemory};
use super::rows::in_request_order;
use crate::document::EXISTS;
use crate::http::{Answer, Bulk, CONTENDED, Method, Next, RequestBuf, TRIES, senseless};
use crate::refusals::refused;

impl CouchDialect {
    /// Starts a bulk write. Returns false if there is nothing to send.
    pub(super) fn begin_bulk_write(&self, items: Batch<'_>, memory: &mut CouchMemory, out: &mut RequestBuf) -> bool {
        let collection = &self.collections[memory.collection];
        for (number, (key, body)) in (0..).zip(items.iter()) {
            match check_key(key).and_then(|()| check_document(collection.body, key, body)) {
                Ok(()) => memory.bulk.part.push(number),
                Err(error) => memory.bulk.reject(number, error),
            }
            memory
                .bulk
                .items
                .push_with(|out| out.extend_from_slice(key.as_bytes()), |out| encode(collection.body, body, out));
        }
        memory.bulk.part_repeated();
        if memory.kind == Some(OpKind::BulkUpsert) && collection.met {
            self.ask_by_keys(Awaits::BulkRevisions, memory, out);
        } else {
            self.send_part(memory, out);
        }
        !items.is_empty()
    }

    /// Starts a bulk operation on documents by key. Returns false if there are none.
    pub(super) fn begin_by_keys(&self, keys: Batch<'_>, memory: &mut CouchMemory, out: &mut RequestBuf) -> bool {
        let reads = memory.kind == Some(OpKind::BulkRead);
        for (number, (key, _)) in (0..).zip(keys.iter()) {
            // A document with an invalid key does not exist.
            if check_key(key).is_ok() {
                memory.bulk.part.push(number);
            }
            memory.bulk.items.push(key, b"");
        }
        if !reads {
            memory.bulk.part_repeated();
        }
        self.ask_by_keys(if reads { Awaits::BulkRead } else { Awaits::BulkRevisions }, memory, out);
        !memory.bulk.part.is_empty()
    }

    fn ask_by_keys(&self, awaits: Awaits, memory: &mut CouchMemory, out: &mut RequestBuf) {
        memory.awaits = awaits;
        out.begin(Method::POST).raw(&self.collections[memory.collection].path).raw("_all_docs").only_reads();
        out.raw(if awaits == Awaits::BulkRead { "?include_docs=true" } else { "" });
        let body = out.body();
        body.extend_from_slice(b"{\"keys\":");
        memory.bulk.push_part_keys(body);
        body.push(b'}');
    }

    /// Sends the current part to `_bulk_docs`. Documents that are not JSON objects are rejected.
    fn send_part(&self, memory: &mut CouchMemory, out: &mut RequestBuf) {
        memory.awaits = Awaits::BulkWrite;
        out.begin(Method::POST).raw(&self.collections[memory.collection].path).raw("_bulk_docs");
        let body = out.body();
        body.extend_from_slice(b"{\"docs\":[");
        let start = body.len();
        let Bulk { items, part, revisions, rejects, .. } = &mut memory.bulk;
        let (items, known) = (items.as_batch(), revisions.as_batch());
        let mut position = 0;
        let delete = memory.kind == Some(OpKind::BulkDelete);
        part.retain(|number| {
            let (key, document) = items.get(*number as usize).unwrap_or_default();
            let revision = known.get(position).map(|(_, revision)| revision).filter(|revision| !revision.is_empty());
            position += 1;
            if body.len() > start {
                body.push(b',');
            }
            let document = if delete { br#"{"_deleted":true}"# } else { document };
            let fits = json::push_document(body, key, revision, document);
            if !fits {
                if body.len() > start {
                    body.pop();
                }
                let error = refused("CouchDB stores JSON objects only");
                rejects.push(Reject { item: *number as usize, error });
            }
            fits
        });
        revisions.clear();
        body.extend_from_slice(b"]}");
    }

    /// Handles the answer to a request of a bulk operation, or the error if there is no answer.
    pub(super) fn bulk_answer<'a>(
        &'a mut self,
        memory: &'a mut CouchMemory,
        answer: Result<Answer<'a>, OpError>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        let taken = match answer {
            Err(error) => Err(error),
            // A single document may be the cause.
            Ok(answer) if is_of_contents(&answer) && memory.bulk.cut() => {
                out.splits += 1;
                self.ask_again(memory, out);
                return Ok(None);
            }
            // Missing documents are reported in rows, so a 404 means that the database is missing.
            Ok(answer) if answer.status == 404 => Err(gone(&answer)),
            Ok(answer) if !answer.is_success() => Err(fault(&answer, out.changes())),
            Ok(answer) => match memory.awaits {
                Awaits::BulkRevisions => self.take_revisions(memory, &answer),
                Awaits::BulkRead => self.take_documents(memory, &answer),
                _ => self.take_outcomes(memory, &answer),
            },
        };
        match taken {
            Err(error) => {
                memory.bulk.fail(error, memory.kind == Some(OpKind::BulkRead))?;
                self.next_part(memory, out)
            }
            // The revisions are known; write next.
            Ok(()) if memory.awaits == Awaits::BulkRevisions && !memory.bulk.part.is_empty() => {
                self.send_part(memory, out);
                Ok(None)
            }
            // Other clients changed some documents meanwhile.
            Ok(()) if memory.awaits == Awaits::BulkWrite && !memory.bulk.part.is_empty() => {
                memory.tries += 1;
                if memory.tries > TRIES {
                    memory.bulk.reject_part(&CONTENDED);
                    return self.next_part(memory, out);
                }
                self.ask_by_keys(Awaits::BulkRevisions, memory, out);
                Ok(None)
            }
            Ok(()) => self.next_part(memory, out),
        }
    }

    /// Repeats the request for the current part.
    fn ask_again(&self, memory: &mut CouchMemory, out: &mut RequestBuf) {
        match memory.awaits {
            // The revisions were used up by the request that was too large. Read them again.
            Awaits::BulkWrite if memory.kind == Some(OpKind::BulkDelete) || memory.tries > 0 => {
                self.ask_by_keys(Awaits::BulkRevisions, memory, out);
            }
            Awaits::BulkWrite => self.send_part(memory, out),
            awaits => self.ask_by_keys(awaits, memory, out),
        }
    }

    /// Continues with the next part, or completes the operation.
    fn next_part<'a>(&self, memory: &'a mut CouchMemory, out: &mut RequestBuf) -> Next<'a> {
        if memory.bulk.next_part() {
            memory.tries = memory.tries.min(1);
            self.ask_again(memory, out);
            return Ok(None);
        }
        Ok(Some(memory.reply()))
    }

    /// The rows of the answer, one for each key of the part, in the order of the keys.
    fn rows_of<'a>(bulk: &Bulk, answer: &Answer<'a>) -> Result<std::vec::IntoIter<&'a [u8]>, OpError> {
        let rows = json::member(answer.body, "rows");
        let rows = rows.and_then(|rows| in_request_order(rows, "key", bulk.part_keys()));
        rows.ok_or_else(|| senseless(answer, false))
    }

    fn take_revisions(&self, memory: &mut CouchMemory, answer: &Answer<'_>) -> Result<(), OpError> {
        let delete = memory.kind == Some(OpKind::BulkDelete);
        let mut rows = Self::rows_of(&memory.bulk, answer)?;
        let Bulk { part, revisions, .. } = &mut memory.bulk;
        revisions.clear();
        part.retain(|_| {
            let revision = rows.next().and_then(row_revision);
            // There is no document to delete.
            if delete && revision.is_none() {
                return false;
            }
            revisions.push("", revision.unwrap_or_default());
            true
        });
        Ok(())
    }

    fn take_documents(&mut self, memory: &mut CouchMemory, answer: &Answer<'_>) -> Result<(), OpError> {
        let kind = self.collections[memory.collection].body;
        for (number, row) in memory.bulk.part.iter().zip(Self::rows_of(&memory.bulk, answer)?) {
            let Some(document) = json::member(row, "doc").filter(|document| *document != b"null") else { continue };
            let body = decode(kind, document, &mut self.scratch)?;
            memory.found.add(memory.bulk.item(*number).0, body);
        }
        memory.bulk.part.clear();
        Ok(())
    }

    /// Handles the outcome of each document of the part. Keeps in the part those that must be written again.
    fn take_outcomes(&mut self, memory: &mut CouchMemory, answer: &Answer<'_>) -> Result<(), OpError> {
        let outcomes = in_request_order(answer.body, "id", memory.bulk.part_keys());
        let mut outcomes = outcomes.ok_or_else(|| senseless(answer, true))?;
        self.check_quorum(answer)?;
        let (kind, first) = (memory.kind, memory.tries == 0);
        let Bulk { part, rejects, written, .. } = &mut memory.bulk;
        let mut conflicts = false;
        part.retain(|number| {
            let outcome = outcomes.next().unwrap_or_default();
            let error = match json::member_text(outcome, "error").as_deref() {
                None if json::member(outcome, "rev").is_some_and(|rev| rev.starts_with(b"\"")) => {
                    *written += 1;
                    return false;
                }
                // It is neither a revision nor an error.
                None => OpError::new(
                    ErrorKind::OutcomeUnknown,
                    "the server's answer does not give the outcome for this document",
                ),
                Some("conflict") if kind == Some(OpKind::BulkInsert) => EXISTS,
                Some("conflict") => {
                    conflicts = true;
                    return true;
                }
                Some(error) => {
                    let reason = json::member_text(outcome, "reason").unwrap_or_default();
                    let refused =
                        ["forbidden", "unauthorized", "doc_validation", "bad_request", "too_large", "illegal_docid"];
                    let refused = refused.iter().any(|known| error.contains(known));
                    let kind = if refused { ErrorKind::Refused } else { ErrorKind::OutcomeUnknown };
                    OpError::new(kind, format!("{error}: {reason}"))
                }
            };
            rejects.push(Reject { item: *number as usize, error });
            false
        });
        if kind == Some(OpKind::BulkUpsert) && (conflicts || first) {
            self.collections[memory.collection].met = conflicts;
        }
        Ok(())
    }
}
