//! Bulk operations. RavenDB runs a `bulk_docs` in one transaction: one document that conflicts undoes all of them. A
//! bulk insert that conflicts therefore asks which of its documents exist, rejects those, and sends the others again.

use std::collections::HashSet;

use storebench_engine::store::{Batch, ErrorKind, OpError, OpKind, Reject};

use super::dialect::{Raven, RavenMemory, Task, append_body, push_body, push_delete, push_put, was_deleted};
use super::errors::{GARBLED, GARBLED_WRITE, op_error};
use super::json::{self, Document};
use super::target::Collection;
use crate::document::EXISTS;
use crate::http::{Answer, Bulk, Method, Next, RequestBuf};
use crate::repeats::Repeats;
use storebench_study::workload::Body;

/// How often one bulk insert looks for documents that others have created meanwhile.
const MOST_ROUNDS: u32 = 100;

impl Raven {
    pub(super) fn start_bulk<'a>(
        &mut self,
        kind: OpKind,
        items: Batch<'_>,
        collection: &Collection,
        state: &'a mut RavenMemory,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        let RavenMemory { bulk, id, body, repeats, .. } = &mut *state;
        bulk.clear();
        for (number, (key, document)) in (0..).zip(items.iter()) {
            let written = collection.naming.id(key, id).and_then(|()| {
                body.clear();
                match kind {
                    OpKind::BulkInsert | OpKind::BulkUpsert => push_body(collection, document, body),
                    _ => Ok(()),
                }
            });
            if let Err(error) = written {
                // No document can have such a key, so there is nothing to read or remove.
                if matches!(kind, OpKind::BulkInsert | OpKind::BulkUpsert) {
                    bulk.reject(number, error);
                }
                bulk.items.push("", b"");
                continue;
            }
            bulk.items.push(id, body);
            bulk.part.push(number);
        }
        *repeats = Repeats::default();
        if kind == OpKind::BulkRead {
            *repeats = Repeats::of(bulk.part_keys());
            let Bulk { items, part, .. } = bulk;
            let (batch, mut seen) = (items.as_batch(), HashSet::new());
            part.retain(|number| {
                let (id, _) = batch.get(*number as usize).unwrap_or_default();
                repeats.more(id) == 0 || seen.insert(id)
            });
        }
        state.all = state.bulk.part.len();
        self.next_part(kind, state, out)
    }

    /// Sends the next part, or ends the operation.
    fn next_part<'a>(&self, kind: OpKind, state: &'a mut RavenMemory, out: &mut RequestBuf) -> Next<'a> {
        while state.bulk.part.is_empty() {
            if state.bulk.next_part() {
                continue;
            }
            state.bulk.rejects.sort_by_key(|reject| reject.item);
            return Ok(Some(if kind == OpKind::BulkRead { state.found.reply() } else { state.bulk.reply() }));
        }
        state.rounds = 0;
        self.send_part(kind, state, out);
        Ok(None)
    }

    fn send_part(&self, kind: OpKind, state: &mut RavenMemory, out: &mut RequestBuf) {
        let collection = &self.target.collections[state.collection];
        state.task = Task::Bulk(kind);
        let bulk = &state.bulk;
        if kind == OpKind::BulkRead {
            return self.send_ids(bulk, "/docs", out);
        }
        let body = self.begin_commands(out);
        for (position, number) in bulk.part.iter().enumerate() {
            let (id, document) = bulk.item(*number);
            if position > 0 {
                body.push(b',');
            }
            match kind {
                OpKind::BulkInsert => push_put(id, Some(""), document, body),
                OpKind::BulkUpsert => push_put(id, None, document, body),
                _ => push_delete(id, collection, body),
            }
        }
        body.extend_from_slice(b"]}");
    }

    fn send_ids(&self, bulk: &Bulk, path: &str, out: &mut RequestBuf) {
        let body = out.begin(Method::POST).only_reads().raw(&self.target.path).raw(path).body();
        body.extend_from_slice(b"{\"Ids\":");
        bulk.push_part_keys(body);
        body.push(b'}');
    }

    pub(super) fn answer_bulk<'a>(
        &mut self,
        kind: OpKind,
        state: &'a mut RavenMemory,
        answer: Result<Answer<'a>, OpError>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        let done = match answer {
            Err(error) => Err(error),
            Ok(answer) if answer.status == 413 && state.bulk.cut() => {
                out.splits += 1;
                return self.next_part(kind, state, out);
            }
            Ok(answer) if kind == OpKind::BulkRead => self.take_rows(state, &answer),
            Ok(answer) if answer.status == 409 && kind == OpKind::BulkInsert && state.bulk.part.len() > 1 => {
                state.task = Task::BulkExisting;
                self.send_ids(&state.bulk, "/docs?metadataOnly=true", out);
                return Ok(None);
            }
            Ok(answer) if answer.status == 409 && kind == OpKind::BulkInsert => Err(EXISTS),
            Ok(answer) => take_results(kind, state, &answer),
        };
        self.close_part(kind, done, state, out)
    }

    /// Ends the part in flight with this result, and continues with the next part.
    fn close_part<'a>(
        &mut self,
        kind: OpKind,
        done: Result<(), OpError>,
        state: &'a mut RavenMemory,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        if let Err(error) = done {
            // RavenDB rejects one of the documents: halving finds out which.
            let refused = error.kind == ErrorKind::Refused && kind != OpKind::BulkRead;
            if refused && state.bulk.cut() {
                return self.next_part(kind, state, out);
            }
            let whole = state.bulk.part.len() == state.all && state.bulk.rejects.is_empty();
            let of_item = matches!(error.kind, ErrorKind::Conflict | ErrorKind::Refused);
            if kind == OpKind::BulkRead || (whole && !of_item) {
                return Err(error);
            }
            state.bulk.reject_part(&error);
        }
        state.bulk.part.clear();
        self.next_part(kind, state, out)
    }

    /// Rejects the documents that already exist, and all but the first of those with the same key.
    pub(super) fn answer_existing<'a>(
        &mut self,
        state: &'a mut RavenMemory,
        answer: Result<Answer<'a>, OpError>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        let mut seen = match answer.and_then(|answer| existing(&answer)) {
            Ok(existing) => existing,
            Err(error) => return self.close_part(OpKind::BulkInsert, Err(error), state, out),
        };
        let Bulk { items, part, rejects, .. } = &mut state.bulk;
        let batch = items.as_batch();
        part.retain(|number| {
            let (id, _) = batch.get(*number as usize).unwrap_or_default();
            let is_new = seen.insert(id.to_owned());
            if !is_new {
                rejects.push(Reject { item: *number as usize, error: EXISTS });
            }
            is_new
        });
        state.rounds += 1;
        if part.is_empty() {
            return self.close_part(OpKind::BulkInsert, Ok(()), state, out);
        }
        if state.rounds > MOST_ROUNDS {
            let error = OpError::new(
                ErrorKind::Temporary,
                "other clients keep creating and removing documents with these keys",
            );
            return self.close_part(OpKind::BulkInsert, Err(error), state, out);
        }
        self.send_part(OpKind::BulkInsert, state, out);
        Ok(None)
    }

    fn take_rows(&self, state: &mut RavenMemory, answer: &Answer<'_>) -> Result<(), OpError> {
        let collection = &self.target.collections[state.collection];
        each_document(answer, |document| {
            let more = match state.repeats.is_empty() {
                true => 0,
                false => state.repeats.more(&document.meta("@id").ok_or(GARBLED)?),
            };
            for _ in 0..=more {
                state.take_row(collection, &document)?;
            }
            Ok(())
        })
    }
}

/// Calls `take` with each of the requested documents that exist.
fn each_document<'a>(
    answer: &Answer<'a>,
    mut take: impl FnMut(Document<'a>) -> Result<(), OpError>,
) -> Result<(), OpError> {
    match answer.status {
        200 => {}
        // None of them exists.
        404 if answer.body.is_empty() => return Ok(()),
        _ => return Err(op_error(answer, false)),
    }
    let mut walk = json::results(answer.body).ok_or(GARBLED)?;
    while walk.element().ok_or(GARBLED)? {
        if walk.peek() == Some(b'{') {
            take(json::document(&mut walk).ok_or(GARBLED)?)?;
        } else {
            // `null` for a document that does not exist.
            walk.value().ok_or(GARBLED)?;
        }
    }
    Ok(())
}

/// Counts what a `bulk_docs` has done.
fn take_results(kind: OpKind, state: &mut RavenMemory, answer: &Answer<'_>) -> Result<(), OpError> {
    if answer.status != 201 {
        return Err(op_error(answer, true));
    }
    let mut walk = json::results(answer.body).ok_or(GARBLED_WRITE)?;
    let (mut results, mut removed) = (0, 0);
    while walk.element().ok_or(GARBLED_WRITE)? {
        let result = walk.value().ok_or(GARBLED_WRITE)?;
        results += 1;
        if kind == OpKind::BulkDelete {
            removed += usize::from(was_deleted(result).ok_or(GARBLED_WRITE)?);
        } else {
            // A stored document has a change vector.
            json::member(result, "@change-vector").and_then(json::text).ok_or(GARBLED_WRITE)?;
        }
    }
    // In one transaction all or none are done, so RavenDB never answers with fewer results.
    if results != state.bulk.part.len() {
        return Err(GARBLED_WRITE);
    }
    state.bulk.written += if kind == OpKind::BulkDelete { removed } else { results };
    Ok(())
}

/// The ids of the documents that exist.
fn existing(answer: &Answer<'_>) -> Result<HashSet<String>, OpError> {
    let mut found = HashSet::new();
    each_document(answer, |document| {
        found.insert(document.meta("@id").ok_or(GARBLED)?.into_owned());
        Ok(())
    })?;
    Ok(found)
}

impl RavenMemory {
    /// Adds a document to a reply with several. Returns false if it is not of this collection.
    pub(super) fn take_row(&mut self, collection: &Collection, document: &Document<'_>) -> Result<bool, OpError> {
        let id = document.meta("@id").ok_or(GARBLED)?;
        if !collection.holds(document) || !collection.naming.key(&id, &mut self.key) {
            return Ok(false);
        }
        let bytes = self.take_body(collection, document)?;
        self.found.add_measured(&self.key, bytes as u64, &self.body);
        Ok(true)
    }

    /// Puts a document where replies take it from, if they include contents. Returns its size in bytes.
    pub(super) fn take_body(&mut self, collection: &Collection, document: &Document<'_>) -> Result<usize, OpError> {
        self.body.clear();
        if !self.found.contents() && collection.body == Body::Json {
            return Ok(document.len());
        }
        append_body(collection, document, &mut self.body).ok_or(GARBLED)?;
        Ok(self.body.len())
    }
}
