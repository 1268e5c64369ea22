//! Encodes operations as CouchDB requests.

use storebench_engine::store::{ErrorKind, Op, OpError, OpKind, Reply, Request};
use storebench_study::workload::Body;

use super::json;
use super::memory::{Awaits, CouchMemory};
use super::study_queries;
use crate::document::{self, CHANGED, EXISTS};
use crate::http::{Answer, CONTENDED, Dialect, Method, Next, RequestBuf, TRIES, senseless, status_error};
pub(super) use crate::http::{decode_body as decode, encode_body as encode};
use crate::refusals::refused;
use crate::study_queries::{ByNumber, Template};

/// A collection as a session knows it.
#[derive(Debug, Clone)]
pub(super) struct Collection {
    /// `/database/`, encoded.
    pub(super) path: String,
    /// The kind of documents.
    pub(super) body: Body,
    /// The number of Storebench's design documents in its database.
    pub(super) designs: u32,
    /// Whether the last upsert found an existing document. The next one then reads the revision first.
    pub(super) met: bool,
}

/// What a session knows about its server and collections.
#[derive(Debug)]
pub(crate) struct CouchDialect {
    pub(super) collections: Vec<Collection>,
    /// Whether the server is pouchdb-server, which reports revisions only in bodies.
    pub(super) pouch: bool,
    pub(super) read_only: bool,
    /// Whether a write requires the acknowledgement of a majority of the replicas.
    pub(super) majority: bool,
    /// Whether reads may be stale.
    pub(super) stale: bool,
    pub(super) scratch: Vec<u8>,
    /// The queries so far.
    pub(super) queries: ByNumber<Template>,
}

/// Whether the server rejected a document of the request as invalid. It validates before it writes anything, whatever
/// the status (PouchDB's is 500).
pub(super) fn is_invalid(answer: &Answer<'_>) -> bool {
    json::member_text(answer.body, "error").as_deref() == Some("doc_validation")
}

/// Whether the server refused the whole request because of its contents. Then nothing was done, and a single document
/// may be the cause: it is too large, or not JSON that this server can read.
pub(super) fn is_of_contents(answer: &Answer<'_>) -> bool {
    matches!(answer.status, 400 | 413 | 422) || is_invalid(answer)
}

/// The error of an unexpected answer. A 404 for a document is a miss. A 404 for a write, which needs no existing
/// document, means that the database is missing, and so does one that says so.
pub(super) fn fault(answer: &Answer<'_>, changes: bool) -> OpError {
    if answer.status == 404 && (changes || database_is_gone(answer)) {
        gone(answer)
    } else if is_invalid(answer) {
        refused(answer.shown())
    } else {
        status_error(answer, changes)
    }
}

/// The error of a missing database. Nothing was done.
pub(super) fn gone(answer: &Answer<'_>) -> OpError {
    OpError::new(ErrorKind::Failed, format!("{}; the database may have been removed meanwhile", answer.shown()))
}

/// Whether a 404 means that the database is missing. Its reason then is `Database does not exist.` (CouchDB) or
/// `no_db_file` (both). For a document it is `missing` or `deleted`. The answer to a HEAD has no text.
fn database_is_gone(answer: &Answer<'_>) -> bool {
    let reason = json::member_text(answer.body, "reason");
    reason.is_some_and(|reason| reason.contains("Database does not exist") || reason == "no_db_file")
}

impl Dialect for CouchDialect {
    type State = CouchMemory;

    fn begin<'a>(&'a mut self, request: &Request<'_>, memory: &'a mut CouchMemory, out: &mut RequestBuf) -> Next<'a> {
        Ok(match self.first(request, memory, out)? {
            true => None,
            false if request.op.kind().writes() => Some(Reply::written(0)),
            false => Some(memory.found.reply()),
        })
    }

    fn answer<'a>(
        &'a mut self,
        memory: &'a mut CouchMemory,
        answer: Result<Answer<'a>, OpError>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        match memory.awaits {
            Awaits::BulkRevisions | Awaits::BulkWrite | Awaits::BulkRead => self.bulk_answer(memory, answer, out),
            Awaits::Last => self.last(memory, answer?, out.changes()).map(Some),
            Awaits::Rows => self.rows(memory, &answer?, out),
            Awaits::Answer => study_queries::answered(memory, &answer?, self.pouch),
            Awaits::Existence => match answer? {
                answer if answer.is_success() => Err(CHANGED),
                answer => Err(status_error(&answer, false)),
            },
            Awaits::Revision => match self.take_revision(&answer?)? {
                Some(revision) if memory.kind == Some(OpKind::CompareAndSwap) && memory.revision != revision => {
                    Err(CHANGED)
                }
                revision => self.write(memory, revision, out).map(|()| None),
            },
            Awaits::Write => self.written(memory, answer?, out),
            Awaits::Document => self.change(memory, &answer?, out).map(|()| None),
        }
    }
}

impl CouchDialect {
    /// Writes the first request of an operation. Returns false if there is nothing to request.
    fn first(
        &mut self,
        request: &Request<'_>,
        memory: &mut CouchMemory,
        out: &mut RequestBuf,
    ) -> Result<bool, OpError> {
        let collection = document::collection_of(request, &self.collections, self.read_only)?;
        memory.begin(request);
        let path = collection.path.as_str();
        match request.op {
            Op::Read { key } => {
                check_key_in_path(key)?;
                out.begin(Method::GET).raw(path).segment(key).raw(if self.stale { "?r=1" } else { "" });
            }
            Op::Exists { key } => {
                check_key_in_path(key)?;
                out.begin(Method::HEAD).raw(path).segment(key);
            }
            Op::Insert { key, body } => {
                check_key_in_path(key)?;
                check_document(collection.body, key, body)?;
                out.begin(Method::PUT).raw(path).segment(key);
                encode(collection.body, body, out.body());
            }
            Op::Upsert { key, body } | Op::Replace { key, body } => {
                check_key_in_path(key)?;
                check_document(collection.body, key, body)?;
                memory.keep(key, body);
                if memory.kind == Some(OpKind::Replace) || collection.met {
                    self.ask_first(Awaits::Revision, memory, out);
                } else {
                    self.put(memory, out);
                }
            }
            Op::Delete { key } => {
                check_key_in_path(key)?;
                memory.keep(key, b"");
                self.ask_first(Awaits::Revision, memory, out);
            }
            Op::CompareAndSwap { key, expected, body } => {
                check_key_in_path(key)?;
                check_document(collection.body, key, body)?;
                memory.keep(key, body);
                if !json::is_revision(expected) {
                    self.ask_first(Awaits::Existence, memory, out);
                    return Ok(true);
                }
                memory.revision.extend_from_slice(expected);
                if self.pouch {
                    self.put(memory, out);
                } else {
                    // CouchDB 3.5 accepts any revision for a document that never existed, if its shard has others.
                    self.ask_first(Awaits::Revision, memory, out);
                }
            }
            Op::Append { key, bytes: payload }
            | Op::Prepend { key, bytes: payload }
            | Op::MergePatch { key, patch: payload } => {
                check_key_in_path(key)?;
                memory.keep(key, payload);
                self.ask_first(Awaits::Document, memory, out);
            }
            Op::Counter { key, delta, initial } => {
                check_key_in_path(key)?;
                memory.keep(key, b"");
                (memory.delta, memory.initial) = (delta, initial);
                self.ask_first(Awaits::Document, memory, out);
            }
            Op::BulkWrite { items, .. } => return Ok(self.begin_bulk_write(items, memory, out)),
            Op::BulkDelete { keys } | Op::BulkRead { keys } => return Ok(self.begin_by_keys(keys, memory, out)),
            Op::Page { .. } | Op::Prefix { .. } | Op::Scan { .. } | Op::View { .. } => {
                return self.begin_rows(&request.op, memory, out);
            }
            Op::Query { number, text, values } => self.ask(number, text, values, memory, out)?,
            Op::Touch { .. } | Op::Transaction { .. } => return Err(OpError::unsupported()),
        }
        Ok(true)
    }

    fn path(&self, memory: &CouchMemory) -> &str {
        &self.collections[memory.collection].path
    }

    /// Requests what must be known before a write: the document, its revision without its body, or whether it exists.
    fn ask_first(&self, awaits: Awaits, memory: &mut CouchMemory, out: &mut RequestBuf) {
        memory.awaits = awaits;
        if awaits == Awaits::Revision && self.pouch {
            // PouchDB's ETag is a hash of the answer.
            out.begin(Method::GET).raw(self.path(memory)).raw("_all_docs?key=").json_segment(&memory.key);
        } else {
            let method = if awaits == Awaits::Document { Method::GET } else { Method::HEAD };
            out.begin(method).raw(self.path(memory)).segment(&memory.key);
        }
    }

    fn take_revision<'a>(&self, answer: &Answer<'a>) -> Result<Option<&'a [u8]>, OpError> {
        match answer.status {
            404 if !database_is_gone(answer) => Ok(None),
            200..=299 if self.pouch => {
                let rows = json::member(answer.body, "rows").filter(|rows| json::is_array(rows));
                let rows = rows.ok_or_else(|| senseless(answer, false))?;
                Ok(json::elements(rows).next().and_then(row_revision))
            }
            200..=299 => etag(answer).map(Some).ok_or_else(|| senseless(answer, false)),
            _ => Err(fault(answer, false)),
        }
    }

    /// Writes the document now that its revision is known.
    fn write(&self, memory: &mut CouchMemory, revision: Option<&[u8]>, out: &mut RequestBuf) -> Result<(), OpError> {
        memory.revision.clear();
        match (revision, memory.kind) {
            (Some(revision), _) => memory.revision.extend_from_slice(revision),
            (None, Some(OpKind::Upsert)) => {}
            (None, _) => return Err(OpError::not_found()),
        }
        if memory.kind == Some(OpKind::Delete) {
            memory.awaits = Awaits::Write;
            out.begin(Method::DELETE).raw(self.path(memory)).segment(&memory.key).raw("?rev=");
            out.segment(&String::from_utf8_lossy(&memory.revision));
        } else {
            self.put(memory, out);
        }
        Ok(())
    }

    /// Stores the payload over the revision, or as a new document if there is none.
    fn put(&self, memory: &mut CouchMemory, out: &mut RequestBuf) {
        memory.awaits = Awaits::Write;
        self.put_body(memory, &memory.payload, out);
    }

    fn put_body(&self, memory: &CouchMemory, body: &[u8], out: &mut RequestBuf) {
        let collection = &self.collections[memory.collection];
        out.begin(Method::PUT).raw(&collection.path).segment(&memory.key);
        if !memory.revision.is_empty() {
            out.raw("?rev=").segment(&String::from_utf8_lossy(&memory.revision));
        }
        encode(collection.body, body, out.body());
    }

    /// Handles the answer to a write.
    fn written<'a>(&mut self, memory: &mut CouchMemory, answer: Answer<'a>, out: &mut RequestBuf) -> Next<'a> {
        match answer.status {
            // PouchDB reports a document that another client deleted meanwhile like this.
            404 if memory.kind == Some(OpKind::Delete) && !database_is_gone(&answer) => {
                return Err(OpError::not_found());
            }
            409 => {}
            _ => {
                if memory.kind == Some(OpKind::Upsert) && memory.revision.is_empty() {
                    self.collections[memory.collection].met = false;
                }
                return Ok(Some(Reply { counter: memory.counter, ..self.acknowledged(answer)? }));
            }
        }
        memory.tries += 1;
        if memory.kind == Some(OpKind::Upsert) {
            self.collections[memory.collection].met = true;
        }
        match memory.kind {
            Some(OpKind::CompareAndSwap) => self.ask_first(Awaits::Existence, memory, out),
            _ if memory.tries > TRIES => return Err(CONTENDED),
            Some(OpKind::Upsert | OpKind::Replace | OpKind::Delete) => self.ask_first(Awaits::Revision, memory, out),
            _ => self.ask_first(Awaits::Document, memory, out),
        }
        Ok(None)
    }

    /// The reply to a write of one document.
    fn acknowledged<'a>(&self, answer: Answer<'a>) -> Result<Reply<'a>, OpError> {
        if !answer.is_success() {
            return Err(fault(&answer, true));
        }
        let revision = json::member(answer.body, "rev").and_then(|rev| rev.strip_prefix(b"\"")?.strip_suffix(b"\""));
        let revision = revision.ok_or_else(|| senseless(&answer, true))?;
        self.check_quorum(&answer)?;
        Ok(Reply { revision: Some(revision), ..Reply::written(1) })
    }

    /// Status 202 means that fewer replicas have the write than requested.
    pub(super) fn check_quorum(&self, answer: &Answer<'_>) -> Result<(), OpError> {
        if self.majority && answer.status == 202 {
            return Err(OpError::new(
                ErrorKind::OutcomeUnknown,
                "the write was stored, but not by a majority of the replicas (HTTP 202)",
            ));
        }
        Ok(())
    }

    /// Handles the answer to an operation with a single request.
    fn last<'a>(&'a mut self, memory: &CouchMemory, answer: Answer<'a>, changes: bool) -> Result<Reply<'a>, OpError> {
        match memory.kind {
            Some(OpKind::Exists) => match answer.status {
                200..=299 => Ok(Reply::written(1)),
                404 => Ok(Reply::written(0)),
                _ => Err(status_error(&answer, false)),
            },
            Some(OpKind::Insert) if answer.status == 409 => Err(EXISTS),
            Some(OpKind::Insert) => self.acknowledged(answer),
            Some(OpKind::Read) if answer.is_success() => {
                let revision = revision(&answer)?;
                let body = decode(self.collections[memory.collection].body, answer.body, &mut self.scratch)?;
                Ok(memory.document(body, Some(revision)))
            }
            _ => Err(fault(&answer, changes)),
        }
    }

    /// Applies the change to the document read, and writes it over its revision.
    fn change(&mut self, memory: &mut CouchMemory, answer: &Answer<'_>, out: &mut RequestBuf) -> Result<(), OpError> {
        let kind = self.collections[memory.collection].body;
        let mut bytes = Vec::new();
        memory.revision.clear();
        let old = match answer.status {
            404 if !database_is_gone(answer) => None,
            200..=299 => {
                memory.revision.extend_from_slice(revision(answer)?);
                Some(decode(kind, answer.body, &mut bytes)?)
            }
            _ => return Err(fault(answer, false)),
        };
        memory.change(kind, old, &mut self.scratch)?;
        memory.awaits = Awaits::Write;
        self.put_body(memory, &self.scratch, out);
        Ok(())
    }
}

/// Refuses keys that are invalid in CouchDB.
pub(super) fn check_key(key: &str) -> Result<(), OpError> {
    if key.is_empty() || key.starts_with('_') {
        return Err(refused("invalid key for CouchDB; expected a key that is not empty and does not begin with `_`"));
    }
    Ok(())
}

/// The longest key in a request line. Servers close the connection if the line is longer than 8 KiB (CouchDB's
/// mochiweb) or 16 KiB (PouchDB's Node.js). The line also contains the collection's path.
const LONGEST_KEY_IN_PATH_BYTES: usize = 7_000;

/// Refuses keys that do not fit into the path of a request. Bulk operations send keys in the body.
fn check_key_in_path(key: &str) -> Result<(), OpError> {
    check_key(key)?;
    if key.len() <= LONGEST_KEY_IN_PATH_BYTES / 3 {
        return Ok(());
    }
    let encoded = |byte: u8| if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) { 1 } else { 3 };
    let length: usize = key.bytes().map(encoded).sum();
    if length <= LONGEST_KEY_IN_PATH_BYTES {
        return Ok(());
    }
    Err(refused(format!(
        "a key of {} bytes takes {length} bytes in a request's path (limit {LONGEST_KEY_IN_PATH_BYTES}); only bulk \
         operations accept longer keys",
        key.len()
    )))
}

/// Refuses bodies that CouchDB cannot store.
pub(super) fn check_document(kind: Body, key: &str, body: &[u8]) -> Result<(), OpError> {
    document::check(kind, body)?;
    match json::steering(body, key).filter(|_| kind == Body::Json) {
        None => Ok(()),
        Some(member) => {
            Err(refused(format!("the document has the field `{member}`, which CouchDB reserves; rename or remove it")))
        }
    }
}

/// The revision of the document in an answer.
fn revision<'a>(answer: &Answer<'a>) -> Result<&'a [u8], OpError> {
    etag(answer).or_else(|| json::revision(answer.body)).ok_or_else(|| senseless(answer, false))
}

/// The revision in an ETag: a strong one in CouchDB's form.
fn etag<'a>(answer: &Answer<'a>) -> Option<&'a [u8]> {
    let revision = answer.header("etag")?.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    json::is_revision(revision).then_some(revision)
}

/// The revision in a row of `_all_docs`, if the document exists.
pub(super) fn row_revision(row: &[u8]) -> Option<&[u8]> {
    let value = json::member(row, "value")?;
    if json::member(value, "deleted") == Some(b"true") {
        return None;
    }
    let revision = json::member(value, "rev")?.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    json::is_revision(revision).then_some(revision)
}
