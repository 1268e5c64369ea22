//! Operations on one document, and the start of all others: the requests that they consist of.
//!
//! Every write is a `bulk_docs` with one command, which RavenDB's own clients also use to save.

use std::sync::Arc;
use std::time::Duration;

use storebench_engine::store::{Collected, ErrorKind, Op, OpError, OpKind, Reply, Request};
use storebench_study::workload::Body;

use super::errors::{ELSEWHERE, GARBLED, GARBLED_WRITE, OVERFLOW, is_missing, op_error};
use super::json::{self, Document};
use super::page::Page;
use super::range::Range;
use super::target::{Collection, Target};
use crate::document::{self, CHANGED, EXISTS};
use crate::http::{Answer, Bulk, Dialect, Method, Next, RequestBuf};
use crate::refusals::{check_fits, refused};
use crate::repeats::Repeats;
use crate::study_queries::{ByNumber, Template};

/// How often an operation starts again because another client wrote the same document in between.
const MOST_TRIES: u32 = 1_000;

/// Metadata that the server or this driver rewrites.
const NOT_THEIRS: [&str; 9] = [
    "@collection",
    "@id",
    "@change-vector",
    "@last-modified",
    "@flags",
    "@attachments",
    "@counters",
    "@counters-snapshot",
    "@expires",
];

/// How a session speaks to a database.
pub(crate) struct Raven {
    pub(super) target: Arc<Target>,
    /// `/bulk_docs`, with the parameters that say what it waits for.
    pub(super) bulk_docs: String,
    /// The part of a query that makes it wait for its index. Empty for `stale-ok`.
    pub(super) wait: String,
    /// The queries so far.
    pub(super) queries: ByNumber<Template>,
}

/// What an operation remembers between its requests, and the memory of its reply.
#[derive(Default)]
pub(crate) struct RavenMemory {
    pub(super) task: Task,
    pub(super) collection: usize,
    /// The document's id.
    pub(super) id: String,
    /// The document to be written, the patch, or the time of expiry.
    payload: Vec<u8>,
    tries: u32,
    pub(super) bulk: Bulk,
    pub(super) page: Page,
    pub(super) range: Range,
    /// How many documents a bulk operation sends.
    pub(super) all: usize,
    /// How often a bulk insert was sent again without the existing documents.
    pub(super) rounds: u32,
    /// Ids that are read more than once, but sent once.
    pub(super) repeats: Repeats,
    pub(super) found: Collected,
    pub(super) body: Vec<u8>,
    pub(super) key: Vec<u8>,
    revision: Vec<u8>,
}

/// The answer that an operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Task {
    #[default]
    Nothing,
    Read,
    Exists,
    Insert,
    Upsert,
    Swap,
    Delete,
    /// The answer to enabling expiration; then the touch.
    SwitchExpiryOn,
    /// What a change is based on; then its write.
    Base(Change),
    Modify(Change),
    Counter,
    Bulk(OpKind),
    /// Which documents of a refused bulk insert exist.
    BulkExisting,
    Page,
    Range,
    /// The rows of a query.
    Answer,
}

/// What is done to a document between reading and writing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Of the whole document, so that only its revision is read.
    Replace,
    Touch,
    Merge,
}

impl Dialect for Raven {
    type State = RavenMemory;

    fn begin<'a>(&'a mut self, request: &Request<'_>, state: &'a mut RavenMemory, out: &mut RequestBuf) -> Next<'a> {
        let target = Arc::clone(&self.target);
        let collection = document::collection_of(request, &target.collections, target.read_only)?;
        (state.collection, state.tries) = (request.collection.position(), 0);
        state.found.begin(request.contents);
        match request.op {
            Op::Read { key } => {
                collection.naming.id(key, &mut state.id)?;
                state.task = Task::Read;
                self.document(Method::GET, state, out);
            }
            Op::Exists { key } => {
                collection.naming.id(key, &mut state.id)?;
                state.task = Task::Exists;
                // In collections of others, only the metadata shows whether it is of this one.
                self.document(if collection.naming.ours { Method::HEAD } else { Method::GET }, state, out);
            }
            Op::Insert { key, body } => return self.put(state, collection, Task::Insert, key, body, out),
            Op::Upsert { key, body } => return self.put(state, collection, Task::Upsert, key, body, out),
            Op::Replace { key, body } => {
                return self.put(state, collection, Task::Base(Change::Replace), key, body, out);
            }
            Op::CompareAndSwap { key, expected, body } => {
                expected.clone_into(&mut state.revision);
                return self.put(state, collection, Task::Swap, key, body, out);
            }
            Op::Delete { key } => {
                collection.naming.id(key, &mut state.id)?;
                state.task = Task::Delete;
                let body = self.begin_commands(out);
                push_delete(&state.id, collection, body);
                body.extend_from_slice(b"]}");
            }
            Op::Touch { key, expiry } => {
                let expiry_task = &self.target.expiry;
                if !expiry_task.is_on() && !expiry_task.may_be_set {
                    return Err(refused(
                        "this database does not remove expired documents: enable its expiration, or use a \
                         database that Storebench made",
                    ));
                }
                collection.naming.id(key, &mut state.id)?;
                state.payload.clear();
                let expires = super::expiry::expires_at(expiry.max(Duration::from_millis(1)));
                state.payload.extend_from_slice(expires.as_bytes());
                if expiry_task.is_on() {
                    self.ask_base(Change::Touch, state, out);
                } else {
                    state.task = Task::SwitchExpiryOn;
                    self.switch_expiry_on(out);
                }
            }
            Op::MergePatch { key, patch } => {
                check_fits(OpKind::MergePatch, collection.body)?;
                collection.naming.id(key, &mut state.id)?;
                patch.clone_into(&mut state.payload);
                self.ask_base(Change::Merge, state, out);
            }
            Op::Counter { key, delta, initial } => {
                check_fits(OpKind::Counter, collection.body)?;
                collection.naming.id(key, &mut state.id)?;
                state.task = Task::Counter;
                self.count(state, collection, delta, initial, out)?;
            }
            Op::BulkWrite { items, .. } | Op::BulkDelete { keys: items } | Op::BulkRead { keys: items } => {
                return self.start_bulk(request.op.kind(), items, collection, state, out);
            }
            Op::Page { field, value, limit } => return self.start_page(field, value, limit, collection, state, out),
            Op::Prefix { prefix, limit } => return self.start_prefix(prefix, limit, collection, state, out),
            Op::Scan { start, end, limit } => return self.start_scan(start, end, limit, collection, state, out),
            Op::Query { number, text, values } => self.ask(number, text, values, collection, state, out)?,
            Op::Append { .. } | Op::Prepend { .. } | Op::View { .. } | Op::Transaction { .. } => {
                return Err(OpError::unsupported());
            }
        }
        Ok(None)
    }

    fn answer<'a>(
        &'a mut self,
        state: &'a mut RavenMemory,
        answer: Result<Answer<'a>, OpError>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        if let Task::Bulk(kind) = state.task {
            return self.answer_bulk(kind, state, answer, out);
        }
        if state.task == Task::BulkExisting {
            return self.answer_existing(state, answer, out);
        }
        let answer = answer?;
        match state.task {
            Task::Read => self.answer_read(state, &answer),
            Task::Exists => self.answer_exists(state, &answer),
            Task::Base(Change::Replace) => {
                match answer.status {
                    200 => {}
                    404 => return Err(OpError::not_found()),
                    _ => return Err(op_error(&answer, false)),
                }
                let tag = answer.header("etag").ok_or(GARBLED)?;
                tag.trim_ascii().strip_prefix(b"\"").unwrap_or(tag).clone_into(&mut state.revision);
                while state.revision.last() == Some(&b'"') {
                    state.revision.pop();
                }
                state.task = Task::Modify(Change::Replace);
                self.send_put(state, out);
                Ok(None)
            }
            Task::Base(change) => self.change(change, state, &answer, out),
            Task::Modify(change) if answer.status == 409 => {
                if is_missing(&answer) {
                    return Err(OpError::not_found());
                }
                again(state)?;
                self.ask_base(change, state, out);
                Ok(None)
            }
            Task::Insert | Task::Upsert | Task::Swap | Task::Modify(_) => answer_put(state, &answer),
            Task::Delete => answer_delete(&answer),
            Task::SwitchExpiryOn => {
                if !answer.is_success() {
                    return Err(op_error(&answer, false));
                }
                self.target.expiry.set();
                self.ask_base(Change::Touch, state, out);
                Ok(None)
            }
            Task::Counter => answer_count(state, &answer),
            Task::Page => self.answer_page(state, &answer, out),
            Task::Answer => self.answer_asked(state, &answer),
            Task::Range => self.answer_range(state, &answer, out),
            Task::Bulk(_) | Task::BulkExisting | Task::Nothing => Err(GARBLED_WRITE),
        }
    }
}

impl Raven {
    /// Makes the database remove expired documents. This changes no document.
    fn switch_expiry_on(&self, out: &mut RequestBuf) {
        let out = out.begin(Method::POST).only_reads().raw(&self.target.path).raw("/admin/expiration/config");
        let settings = format!("{{\"Disabled\":false,\"DeleteFrequencyInSec\":{}}}", self.target.expiry.every_s);
        out.body().extend_from_slice(settings.as_bytes());
    }

    /// Begins a request for one document.
    fn document(&self, method: Method, state: &RavenMemory, out: &mut RequestBuf) {
        out.begin(method).raw(&self.target.path).raw("/docs?id=").segment(&state.id);
    }

    /// Reads what a change is based on.
    fn ask_base(&self, change: Change, state: &mut RavenMemory, out: &mut RequestBuf) {
        state.task = Task::Base(change);
        self.document(if change == Change::Replace { Method::HEAD } else { Method::GET }, state, out);
    }

    /// Begins a `bulk_docs`. Returns the body up to the first command.
    pub(super) fn begin_commands<'o>(&self, out: &'o mut RequestBuf) -> &'o mut Vec<u8> {
        let body = out.begin(Method::POST).raw(&self.target.path).raw(&self.bulk_docs).body();
        body.extend_from_slice(b"{\"Commands\":[");
        body
    }

    fn put<'a>(
        &self,
        state: &mut RavenMemory,
        collection: &Collection,
        task: Task,
        key: &str,
        body: &[u8],
        out: &mut RequestBuf,
    ) -> Next<'a> {
        collection.naming.id(key, &mut state.id)?;
        state.payload.clear();
        push_body(collection, body, &mut state.payload)?;
        state.task = task;
        match task {
            Task::Base(change) => self.ask_base(change, state, out),
            _ => self.send_put(state, out),
        }
        Ok(None)
    }

    fn send_put(&self, state: &RavenMemory, out: &mut RequestBuf) {
        let body = self.begin_commands(out);
        let expected = match state.task {
            Task::Insert => Some(""),
            Task::Upsert => None,
            // An empty revision would require that there is no document. No document has the revision `-`.
            _ => Some(std::str::from_utf8(&state.revision).ok().filter(|text| !text.is_empty()).unwrap_or("-")),
        };
        push_put(&state.id, expected, &state.payload, body);
        body.extend_from_slice(b"]}");
    }

    /// One request: a script adds to the counter on the server, or creates a missing one.
    fn count(
        &self,
        state: &RavenMemory,
        collection: &Collection,
        delta: i64,
        initial: i64,
        out: &mut RequestBuf,
    ) -> Result<(), OpError> {
        const MOST: u64 = (1 << 53) - 1;
        // A step may go from one end of the range to the other.
        if delta.unsigned_abs() > 2 * MOST || initial.unsigned_abs() > MOST {
            return Err(refused("the step exceeds ±(2^53 - 1), the range of exact integers in RavenDB's JSON"));
        }
        use std::io::Write as _;
        self.document(Method::PATCH, state, out);
        let written = write!(
            out.body(),
            "{{\"Patch\":{{\"Script\":\"var n = this.v + args.d; if (!(Math.abs(n) <= {MOST})) throw '{OVERFLOW}'; \
             this.v = n;\",\"Values\":{{\"d\":{delta}}}}},\"PatchIfMissing\":{{\"Script\":\"this.v = args.i; \
             this['@metadata'] = {{'@collection': '{}'}};\",\"Values\":{{\"i\":{initial}}}}}}}",
            collection.name
        );
        written.map_err(|_| GARBLED)
    }

    fn answer_read<'a>(&self, state: &'a mut RavenMemory, answer: &Answer<'a>) -> Next<'a> {
        let document = self.single(state, answer)?;
        let collection = &self.target.collections[state.collection];
        let bytes = state.take_body(collection, &document)?;
        document.meta("@change-vector").unwrap_or_default().as_bytes().clone_into(&mut state.revision);
        Ok(Some(Reply {
            documents: 1,
            bytes: bytes as u64,
            body: state.found.contents().then_some(&state.body),
            revision: (!state.revision.is_empty()).then_some(&state.revision),
            ..Reply::default()
        }))
    }

    /// The document of an answer to a GET of one.
    fn single<'a>(&self, state: &RavenMemory, answer: &Answer<'a>) -> Result<Document<'a>, OpError> {
        match answer.status {
            200 => {}
            404 if answer.body.is_empty() => return Err(OpError::not_found()),
            _ => return Err(op_error(answer, false)),
        }
        let document = json::results(answer.body).and_then(|mut walk| json::document(&mut walk)).ok_or(GARBLED)?;
        document.meta("@change-vector").ok_or(GARBLED)?;
        let collection = &self.target.collections[state.collection];
        if !collection.holds(&document) {
            return Err(OpError::not_found());
        }
        Ok(document)
    }

    fn answer_exists<'a>(&self, state: &RavenMemory, answer: &Answer<'a>) -> Next<'a> {
        let found = if self.target.collections[state.collection].naming.ours {
            match answer.status {
                200 => true,
                404 => false,
                _ => return Err(op_error(answer, false)),
            }
        } else {
            match self.single(state, answer) {
                Ok(_) => true,
                Err(error) if error.kind == ErrorKind::NotFound => false,
                Err(error) => return Err(error),
            }
        };
        Ok(Some(Reply::written(usize::from(found))))
    }

    /// Changes the document that was read, and writes it if it is still the same.
    fn change<'a>(
        &self,
        change: Change,
        state: &mut RavenMemory,
        answer: &Answer<'a>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        let read = self.single(state, answer)?;
        let collection = &self.target.collections[state.collection];
        read.meta("@change-vector").ok_or(GARBLED)?.as_bytes().clone_into(&mut state.revision);
        state.body.clear();
        read.append_to(&mut state.body);
        let mut expires = read.meta("@expires").map(|text| text.into_owned());
        if change == Change::Merge {
            let (op, mut merged) = (Op::MergePatch { key: "", patch: &state.payload }, Vec::new());
            document::effect(&op, Body::Json, Some(&state.body), &mut merged)?;
            state.body = merged;
        } else {
            expires = std::str::from_utf8(&state.payload).ok().map(str::to_owned);
        }
        let mut more = Vec::new();
        if !collection.naming.ours {
            // Keep the other metadata that its owner wrote.
            read.push_metadata(&NOT_THEIRS, &mut more);
        }
        if let Some(expires) = &expires {
            more.extend_from_slice(b",\"@expires\":");
            json::push_text(expires, &mut more);
        }
        let mut whole = Vec::new();
        let more = std::str::from_utf8(&more).unwrap_or_default();
        json::push_document(&state.body, &collection.name, more, &mut whole).map_err(refused)?;
        state.task = Task::Modify(change);
        let body = self.begin_commands(out);
        push_put(&state.id, std::str::from_utf8(&state.revision).ok(), &whole, body);
        body.extend_from_slice(b"]}");
        Ok(None)
    }
}

/// Counts a retry after another client wrote in between. Fails after too many.
fn again(state: &mut RavenMemory) -> Result<(), OpError> {
    state.tries += 1;
    if state.tries < MOST_TRIES {
        return Ok(());
    }
    Err(OpError::new(ErrorKind::Temporary, "other clients keep changing this document; nothing was written"))
}

/// Appends a document as it goes into a request.
pub(super) fn push_body(collection: &Collection, body: &[u8], into: &mut Vec<u8>) -> Result<(), OpError> {
    if collection.body != Body::Counter {
        return json::push_document(body, &collection.name, "", into).map_err(refused);
    }
    let document = format!("{{\"v\":{}}}", document::counter(body)?);
    json::push_document(document.as_bytes(), &collection.name, "", into).map_err(refused)
}

/// Appends what a read returns of a document. `None` for a counter without a value.
pub(super) fn append_body(collection: &Collection, document: &Document<'_>, into: &mut Vec<u8>) -> Option<()> {
    if collection.body == Body::Counter {
        into.extend_from_slice(document.member("v")?);
    } else {
        document.append_to(into);
    }
    Some(())
}

/// Appends the command that stores a document.
pub(super) fn push_put(id: &str, expected: Option<&str>, document: &[u8], into: &mut Vec<u8>) {
    into.extend_from_slice(b"{\"Type\":\"PUT\",\"Id\":");
    json::push_text(id, into);
    into.extend_from_slice(b",\"ChangeVector\":");
    match expected {
        None => into.extend_from_slice(b"null"),
        Some(expected) => json::push_text(expected, into),
    }
    into.extend_from_slice(b",\"Document\":");
    into.extend_from_slice(document);
    into.push(b'}');
}

/// Appends the command that removes a document. It is a script, which runs only if the document exists: the answer to a
/// DELETE also reports `deleted` for a document that was already deleted.
///
/// In another program's collection, an id may belong to a document of another collection, which is kept.
pub(super) fn push_delete(id: &str, collection: &Collection, into: &mut Vec<u8>) {
    into.extend_from_slice(b"{\"Type\":\"PATCH\",\"ChangeVector\":null,\"Id\":");
    json::push_text(id, into);
    into.extend_from_slice(b",\"Patch\":{\"Script\":\"");
    if !collection.naming.ours {
        let test =
            format!("if (String(this['@metadata']['@collection']).toLowerCase() !== args.c) throw '{ELSEWHERE}'; ");
        into.extend_from_slice(test.as_bytes());
    }
    into.extend_from_slice(b"del(id(this));\",\"Values\":{");
    if !collection.naming.ours {
        into.extend_from_slice(b"\"c\":");
        json::push_text(&collection.name.to_lowercase(), into);
    }
    into.extend_from_slice(b"}}}");
}

/// Whether [`push_delete`] found a document and removed it.
pub(super) fn was_deleted(result: &[u8]) -> Option<bool> {
    match json::member(result, "PatchStatus")? {
        b"\"DocumentDoesNotExist\"" => Some(false),
        // The document is gone. The script changed nothing else in it.
        b"\"NotModified\"" | b"\"Patched\"" => Some(true),
        _ => None,
    }
}

/// The answer to a `bulk_docs` of one PUT.
fn answer_put<'a>(state: &'a mut RavenMemory, answer: &Answer<'_>) -> Next<'a> {
    match (answer.status, state.task) {
        (201, _) => {}
        (409, Task::Insert) => return Err(EXISTS),
        (409, _) if is_missing(answer) => return Err(OpError::not_found()),
        (409, _) => return Err(CHANGED),
        _ => return Err(op_error(answer, true)),
    }
    let result = first_result(answer).ok_or(GARBLED_WRITE)?;
    let told = json::member(result, "@change-vector").and_then(json::text).ok_or(GARBLED_WRITE)?;
    told.as_bytes().clone_into(&mut state.revision);
    Ok(Some(Reply { revision: Some(&state.revision), ..Reply::written(1) }))
}

fn answer_delete<'a>(answer: &Answer<'_>) -> Next<'a> {
    if answer.status != 201 {
        return Err(op_error(answer, true));
    }
    let result = first_result(answer).ok_or(GARBLED_WRITE)?;
    match was_deleted(result) {
        Some(true) => Ok(Some(Reply::written(1))),
        Some(false) => Err(OpError::not_found()),
        None => Err(GARBLED_WRITE),
    }
}

fn answer_count<'a>(state: &RavenMemory, answer: &Answer<'_>) -> Next<'a> {
    debug_assert!(state.task == Task::Counter, "only a counter's answer comes here");
    if !matches!(answer.status, 200 | 201) {
        return Err(op_error(answer, true));
    }
    let value = json::member(answer.body, "ModifiedDocument")
        .and_then(|document| json::member(document, "v"))
        .and_then(|text| std::str::from_utf8(text).ok()?.parse().ok())
        .ok_or(GARBLED_WRITE)?;
    Ok(Some(Reply { counter: Some(value), ..Reply::written(1) }))
}

fn first_result<'a>(answer: &Answer<'a>) -> Option<&'a [u8]> {
    json::results(answer.body)?.value()
}
