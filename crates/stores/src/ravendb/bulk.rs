//! Bulk operations. RavenDB runs a `bulk_docs` in one transaction: one document that conflicts undoes all of them. A
//! bulk insert that conflicts therefore asks which of its documents exist, rejects those, and sends the others again.

use std::collections::HashSet;

use storebench_engine::store::{Batch, ErrorKind, OpError, Reject, Reply};

use super::dialect::{Next, Raven, RavenMemory, Task, append_body, push_body, push_delete, push_put, was_deleted};
use super::errors::{GARBLED, GARBLED_WRITE, op_error};
use super::json::{self, Document, Walk};
use super::target::Collection;
use crate::document::EXISTS;
use crate::http::{Answer, Bulk, Method, RequestBuf, Step};
use crate::repeats::Repeats;
use storebench_study::workload::Body;

/// How often one bulk insert looks for documents that others have created meanwhile.
const MOST_ROUNDS: u32 = 100;

/// What is done to each document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BulkKind {
    Insert,
    Upsert,
    Delete,
    Read,
}

impl Raven {
    pub(super) fn start_bulk<'a>(
        &mut self,
        kind: BulkKind,
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
                    BulkKind::Insert | BulkKind::Upsert => push_body(collection, document, body),
                    BulkKind::Delete | BulkKind::Read => Ok(()),
                }
            });
            if let Err(error) = written {
                // No document can have such a key, so there is nothing to read or remove.
                if matches!(kind, BulkKind::Insert | BulkKind::Upsert) {
                    bulk.reject(number, error);
                }
                bulk.items.push("", b"");
                continue;
            }
            bulk.items.push(id, body);
            bulk.part.push(number);
        }
        *repeats = Repeats::default();
        if kind == BulkKind::Read {
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
    fn next_part<'a>(&self, kind: BulkKind, state: &'a mut RavenMemory, out: &mut RequestBuf) -> Next<'a> {
        while state.bulk.part.is_empty() {
            if state.bulk.next_part() {
                continue;
            }
            if kind == BulkKind::Read {
                return Ok(state.reply_rows());
            }
            state.bulk.rejects.sort_by_key(|reject| reject.item);
            let bulk = &state.bulk;
            return Ok(Step::Done(Ok(Reply { rejects: &bulk.rejects, ..Reply::written(bulk.written) })));
        }
        state.rounds = 0;
        self.send_part(kind, state, out);
        Ok(Step::Send)
    }

    fn send_part(&self, kind: BulkKind, state: &mut RavenMemory, out: &mut RequestBuf) {
        let collection = &self.target.collections[state.collection];
        state.task = Task::Bulk(kind);
        let bulk = &state.bulk;
        if kind == BulkKind::Read {
            return self.send_ids(bulk, "/docs", out);
        }
        let body = self.begin_commands(out);
        for (position, number) in bulk.part.iter().enumerate() {
            let (id, document) = bulk.item(*number);
            if position > 0 {
                body.push(b',');
            }
            match kind {
                BulkKind::Insert => push_put(id, Some(""), document, body),
                BulkKind::Upsert => push_put(id, None, document, body),
                BulkKind::Delete | BulkKind::Read => push_delete(id, collection, body),
            }
        }
        body.extend_from_slice(b"]}");
    }

    fn send_ids(&self, bulk: &Bulk, path: &str, out: &mut RequestBuf) {
        let body = out.begin(Method::POST).only_reads().raw(&self.target.path).raw(path).body();
        body.extend_from_slice(b"{\"Ids\":[");
        for (position, id) in bulk.part_keys().enumerate() {
            if position > 0 {
                body.push(b',');
            }
            json::push_text(id, body);
        }
        body.extend_from_slice(b"]}");
    }

    pub(super) fn answer_bulk<'a>(
        &mut self,
        kind: BulkKind,
        state: &'a mut RavenMemory,
        answer: Result<Answer<'a>, OpError>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        let done = match answer {
            Err(error) => Err(error),
            Ok(answer) if answer.status == 413 && state.bulk.cut() => {
                self.splits += 1;
                return self.next_part(kind, state, out);
            }
            Ok(answer) if kind == BulkKind::Read => self.take_rows(state, &answer),
            Ok(answer) if answer.status == 409 && kind == BulkKind::Insert && state.bulk.part.len() > 1 => {
                state.task = Task::BulkExisting;
                self.send_ids(&state.bulk, "/docs?metadataOnly=true", out);
                return Ok(Step::Send);
            }
            Ok(answer) if answer.status == 409 && kind == BulkKind::Insert => Err(EXISTS),
            Ok(answer) => take_results(kind, state, &answer),
        };
        self.close_part(kind, done, state, out)
    }

    /// Ends the part in flight with this result, and continues with the next part.
    fn close_part<'a>(
        &mut self,
        kind: BulkKind,
        done: Result<(), OpError>,
        state: &'a mut RavenMemory,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        if let Err(error) = done {
            // RavenDB rejects one of the documents: halving finds out which.
            let refused = error.kind == ErrorKind::Refused && kind != BulkKind::Read;
            if refused && state.bulk.cut() {
                return self.next_part(kind, state, out);
            }
            let whole = state.bulk.part.len() == state.all && state.bulk.rejects.is_empty();
            let of_item = matches!(error.kind, ErrorKind::Conflict | ErrorKind::Refused);
            if kind == BulkKind::Read || (whole && !of_item) {
                return Err(error);
            }
            for number in std::mem::take(&mut state.bulk.part) {
                state.bulk.reject(number, error.clone());
            }
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
            Err(error) => return self.close_part(BulkKind::Insert, Err(error), state, out),
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
            return self.close_part(BulkKind::Insert, Ok(()), state, out);
        }
        if state.rounds > MOST_ROUNDS {
            let error = OpError::new(
                ErrorKind::Temporary,
                "other clients keep creating and removing documents with these keys",
            );
            return self.close_part(BulkKind::Insert, Err(error), state, out);
        }
        self.send_part(BulkKind::Insert, state, out);
        Ok(Step::Send)
    }

    fn take_rows(&self, state: &mut RavenMemory, answer: &Answer<'_>) -> Result<(), OpError> {
        match answer.status {
            200 => {}
            // None of them exists.
            404 if answer.body.is_empty() => return Ok(()),
            _ => return Err(op_error(answer, false)),
        }
        let collection = &self.target.collections[state.collection];
        let mut walk = Walk::new(answer.body);
        json::results(&mut walk).ok_or(GARBLED)?;
        while walk.element().ok_or(GARBLED)? {
            if walk.peek() == Some(b'{') {
                let document = json::document(&mut walk).ok_or(GARBLED)?;
                let more = match state.repeats.is_empty() {
                    true => 0,
                    false => state.repeats.more(&document.meta("@id").ok_or(GARBLED)?),
                };
                for _ in 0..=more {
                    state.take_row(collection, &document)?;
                }
            } else {
                // `null` for a document that does not exist.
                walk.value().ok_or(GARBLED)?;
            }
        }
        Ok(())
    }
}

/// Counts what a `bulk_docs` has done.
fn take_results(kind: BulkKind, state: &mut RavenMemory, answer: &Answer<'_>) -> Result<(), OpError> {
    if answer.status != 201 {
        return Err(op_error(answer, true));
    }
    let mut walk = Walk::new(answer.body);
    json::results(&mut walk).ok_or(GARBLED_WRITE)?;
    let (mut results, mut removed) = (0, 0);
    while walk.element().ok_or(GARBLED_WRITE)? {
        let result = walk.value().ok_or(GARBLED_WRITE)?;
        results += 1;
        if kind == BulkKind::Delete {
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
    state.bulk.written += if kind == BulkKind::Delete { removed } else { results };
    Ok(())
}

/// The ids of the documents that exist.
fn existing(answer: &Answer<'_>) -> Result<HashSet<String>, OpError> {
    let mut found = HashSet::new();
    match answer.status {
        200 => {}
        404 if answer.body.is_empty() => return Ok(found),
        _ => return Err(op_error(answer, false)),
    }
    let mut walk = Walk::new(answer.body);
    json::results(&mut walk).ok_or(GARBLED)?;
    while walk.element().ok_or(GARBLED)? {
        if walk.peek() == Some(b'{') {
            let document = json::document(&mut walk).ok_or(GARBLED)?;
            found.insert(document.meta("@id").ok_or(GARBLED)?.into_owned());
        } else {
            walk.value().ok_or(GARBLED)?;
        }
    }
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
        if !self.contents && collection.body == Body::Json {
            return Ok(document.len());
        }
        append_body(collection, document, &mut self.body).ok_or(GARBLED)?;
        Ok(self.body.len())
    }
}
