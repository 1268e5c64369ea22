//! Bulk forms. RavenDB does a `bulk_docs` in one transaction: one document that conflicts undoes
//! them all, so a bulk insert that conflicts asks which of its documents exist, rejects those, and
//! sends the others again.

use std::collections::HashSet;
use std::ops::Range;

use storebench_core::store::{Batch, BatchBuf, ErrorKind, OpError, Reject, Reply};

use super::dialect::{Next, Raven, State, Task, append_body, push_body, push_delete, push_put, was_deleted};
use super::errors::{GARBLED, GARBLED_WRITE, op_error};
use super::json::{self, Walk};
use super::target::Collection;
use crate::document::EXISTS;
use crate::http::{Answer, Method, RequestBuf, Step};
use crate::repeats::Repeats;

/// How often documents of one bulk insert are looked for that others put there meanwhile.
const MOST_ROUNDS: u32 = 100;

/// What is done to each document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BulkKind {
    Insert,
    Upsert,
    Delete,
    Read,
}

/// What is left of a bulk operation.
#[derive(Debug, Default)]
pub(super) struct Bulk {
    /// Ids, and what the request says of each.
    items: BatchBuf,
    /// Which item of the operation each of them is.
    numbers: Vec<usize>,
    /// Parts of `items` still to be sent; the last is on its way.
    parts: Vec<Range<usize>>,
    /// Positions in `items`, in the order they are sent.
    order: Vec<usize>,
    /// Ids that are read more than once. They are sent once.
    repeats: Repeats,
    rounds: u32,
}

impl Bulk {
    fn part(&self) -> Range<usize> {
        self.parts.last().cloned().unwrap_or(0..0)
    }

    /// Cuts the part on its way in two; false where it is one document.
    fn cut(&mut self) -> bool {
        let part = self.part();
        if part.len() < 2 {
            return false;
        }
        let middle = part.start + part.len() / 2;
        self.parts.pop();
        self.parts.push(middle..part.end);
        self.parts.push(part.start..middle);
        true
    }
}

impl Raven {
    pub(super) fn start_bulk<'a>(
        &mut self,
        kind: BulkKind,
        items: Batch<'_>,
        collection: &Collection,
        state: &'a mut State,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        let State { bulk, id, body, rejects, .. } = &mut *state;
        bulk.items.clear();
        bulk.numbers.clear();
        for (item, (key, document)) in items.iter().enumerate() {
            let written = collection.naming.id(key, id).and_then(|()| {
                body.clear();
                match kind {
                    BulkKind::Insert | BulkKind::Upsert => push_body(collection, document, body),
                    BulkKind::Delete | BulkKind::Read => Ok(()),
                }
            });
            match written {
                Ok(()) => {
                    bulk.items.push(id, body);
                    bulk.numbers.push(item);
                }
                // No document can have such a key: there is nothing to read or remove.
                Err(_) if matches!(kind, BulkKind::Delete | BulkKind::Read) => {}
                Err(error) => rejects.push(Reject { item, error }),
            }
        }
        bulk.order.clear();
        bulk.order.extend(0..bulk.items.len());
        bulk.repeats = Repeats::default();
        if kind == BulkKind::Read {
            let Bulk { items, order, repeats, .. } = &mut *bulk;
            let batch = items.as_batch();
            let id = |item: usize| batch.get(item).map_or("", |(id, _)| id);
            *repeats = Repeats::of((0..batch.len()).map(id));
            let mut seen = HashSet::new();
            order.retain(|item| repeats.more(id(*item)) == 0 || seen.insert(id(*item)));
        }
        bulk.parts.clear();
        bulk.parts.push(0..bulk.order.len());
        self.next_part(kind, state, out)
    }

    /// Sends the next part, or ends the operation.
    fn next_part<'a>(&self, kind: BulkKind, state: &'a mut State, out: &mut RequestBuf) -> Next<'a> {
        while state.bulk.parts.last().is_some_and(Range::is_empty) {
            state.bulk.parts.pop();
        }
        if state.bulk.parts.is_empty() {
            state.rejects.sort_by_key(|reject| reject.item);
            return Ok(Step::Done(Ok(Reply {
                documents: state.documents,
                bytes: state.bytes,
                rows: (kind == BulkKind::Read && state.contents).then(|| state.rows.as_batch()),
                rejects: &state.rejects,
                ..Reply::default()
            })));
        }
        state.bulk.rounds = 0;
        self.send_part(kind, state, out);
        Ok(Step::Send)
    }

    fn send_part(&self, kind: BulkKind, state: &mut State, out: &mut RequestBuf) {
        let collection = &self.target.collections[state.collection];
        state.task = Task::Bulk(kind);
        let bulk = &state.bulk;
        if kind == BulkKind::Read {
            return self.send_ids(bulk, "/docs", out);
        }
        let batch = bulk.items.as_batch();
        let body = self.begin_commands(out);
        for (position, item) in bulk.order[bulk.part()].iter().enumerate() {
            let Some((id, document)) = batch.get(*item) else { continue };
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
        let batch = bulk.items.as_batch();
        let body = out.begin(Method::Post).only_reads().raw(&self.target.path).raw(path).body();
        body.extend_from_slice(b"{\"Ids\":[");
        for (position, item) in bulk.order[bulk.part()].iter().enumerate() {
            if position > 0 {
                body.push(b',');
            }
            json::push_text(batch.get(*item).map_or("", |(id, _)| id), body);
        }
        body.extend_from_slice(b"]}");
    }

    pub(super) fn answer_bulk<'a>(
        &mut self,
        kind: BulkKind,
        state: &'a mut State,
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
            Ok(answer) if answer.status == 409 && kind == BulkKind::Insert && state.bulk.part().len() > 1 => {
                state.task = Task::BulkExisting;
                self.send_ids(&state.bulk, "/docs?metadataOnly=true", out);
                return Ok(Step::Send);
            }
            Ok(answer) if answer.status == 409 && kind == BulkKind::Insert => Err(EXISTS),
            Ok(answer) => take_results(kind, state, &answer),
        };
        self.close_part(kind, done, state, out)
    }

    /// The part on its way has ended so; goes on with the next.
    fn close_part<'a>(
        &mut self,
        kind: BulkKind,
        done: Result<(), OpError>,
        state: &'a mut State,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        if let Err(error) = done {
            // One document that RavenDB will not have: the halves tell which.
            let refused = error.kind == ErrorKind::Refused && kind != BulkKind::Read;
            if refused && state.bulk.cut() {
                return self.next_part(kind, state, out);
            }
            let whole = state.bulk.part().len() == state.bulk.items.len() && state.rejects.is_empty();
            let of_item = matches!(error.kind, ErrorKind::Conflict | ErrorKind::Refused);
            if kind == BulkKind::Read || (whole && !of_item) {
                return Err(error);
            }
            for item in &state.bulk.order[state.bulk.part()] {
                state.rejects.push(Reject { item: state.bulk.numbers[*item], error: error.clone() });
            }
        }
        state.bulk.parts.pop();
        self.next_part(kind, state, out)
    }

    /// Rejects the documents that exist already, and of those of one key all but the first.
    pub(super) fn answer_existing<'a>(
        &mut self,
        state: &'a mut State,
        answer: Result<Answer<'a>, OpError>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        let mut seen = match answer.and_then(|answer| existing(&answer)) {
            Ok(existing) => existing,
            Err(error) => return self.close_part(BulkKind::Insert, Err(error), state, out),
        };
        let State { bulk, rejects, .. } = &mut *state;
        let part = bulk.part();
        let batch = bulk.items.as_batch();
        let mut kept = part.start;
        for at in part.clone() {
            let item = bulk.order[at];
            let id = batch.get(item).map_or("", |(id, _)| id);
            if seen.insert(id.to_owned()) {
                bulk.order[kept] = item;
                kept += 1;
            } else {
                rejects.push(Reject { item: bulk.numbers[item], error: EXISTS });
            }
        }
        if let Some(part) = bulk.parts.last_mut() {
            part.end = kept;
        }
        bulk.rounds += 1;
        if kept == part.start {
            return self.close_part(BulkKind::Insert, Ok(()), state, out);
        }
        if bulk.rounds > MOST_ROUNDS {
            let error = OpError::new(ErrorKind::Temporary, "others made and removed documents of these keys meanwhile");
            return self.close_part(BulkKind::Insert, Err(error), state, out);
        }
        self.send_part(BulkKind::Insert, state, out);
        Ok(Step::Send)
    }

    fn take_rows(&self, state: &mut State, answer: &Answer<'_>) -> Result<(), OpError> {
        match answer.status {
            200 => {}
            // None of them exists.
            404 if answer.body.is_empty() => return Ok(()),
            _ => return Err(op_error(answer, false)),
        }
        let collection = &self.target.collections[state.collection];
        let mut walk = Walk::new(answer.body);
        walk.results().ok_or(GARBLED)?;
        while walk.element().ok_or(GARBLED)? {
            if walk.peek() == Some(b'{') {
                let document = walk.document().ok_or(GARBLED)?;
                let more = match state.bulk.repeats.is_empty() {
                    true => 0,
                    false => state.bulk.repeats.more(&document.meta("@id").ok_or(GARBLED)?),
                };
                for _ in 0..=more {
                    state.take_row(collection, &document)?;
                }
            } else {
                // `null` for one that is not there.
                walk.value().ok_or(GARBLED)?;
            }
        }
        Ok(())
    }
}

/// Counts what a `bulk_docs` has done.
fn take_results(kind: BulkKind, state: &mut State, answer: &Answer<'_>) -> Result<(), OpError> {
    if answer.status != 201 {
        return Err(op_error(answer, true));
    }
    let mut walk = Walk::new(answer.body);
    walk.results().ok_or(GARBLED_WRITE)?;
    let (mut results, mut removed) = (0, 0);
    while walk.element().ok_or(GARBLED_WRITE)? {
        let result = walk.value().ok_or(GARBLED_WRITE)?;
        results += 1;
        if kind == BulkKind::Delete {
            removed += u32::from(was_deleted(result).ok_or(GARBLED_WRITE)?);
        } else {
            // What was stored has a version.
            json::member(result, "@change-vector").and_then(json::text).ok_or(GARBLED_WRITE)?;
        }
    }
    // One transaction: all or none are done, so that fewer results are no answer of RavenDB's.
    if results != state.bulk.part().len() {
        return Err(GARBLED_WRITE);
    }
    state.documents += if kind == BulkKind::Delete { removed } else { u32::try_from(results).unwrap_or(u32::MAX) };
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
    walk.results().ok_or(GARBLED)?;
    while walk.element().ok_or(GARBLED)? {
        if walk.peek() == Some(b'{') {
            let document = walk.document().ok_or(GARBLED)?;
            found.insert(document.meta("@id").ok_or(GARBLED)?.into_owned());
        } else {
            walk.value().ok_or(GARBLED)?;
        }
    }
    Ok(found)
}

impl State {
    /// One more document of a reply of several; false for one that is not of this collection.
    pub(super) fn take_row(
        &mut self,
        collection: &Collection,
        document: &super::json::Document<'_>,
    ) -> Result<bool, OpError> {
        let id = document.meta("@id").ok_or(GARBLED)?;
        if !collection.holds(document) || !collection.naming.key(&id, &mut self.key) {
            return Ok(false);
        }
        self.body.clear();
        if self.contents || collection.body != storebench_core::workload::Body::Json {
            append_body(collection, document, &mut self.body).ok_or(GARBLED)?;
            self.bytes += self.body.len() as u64;
        } else {
            self.bytes += document.len() as u64;
        }
        self.documents += 1;
        if self.contents {
            let (key, body) = (&self.key, &self.body);
            self.rows.push_with(|into| into.extend_from_slice(key), |into| into.extend_from_slice(body));
        }
        Ok(true)
    }
}
