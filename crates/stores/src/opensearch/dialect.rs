//! Encodes operations as OpenSearch requests.

use storebench_engine::store::{ErrorKind, Op, OpError, OpKind, Reply, Request};
use storebench_study::workload::Body;

use super::errors::{fault, index_is_gone};
use super::json::{self, decode, encode};
use super::memory::{Awaits, SearchMemory};
use crate::document::{self, CHANGED, EXISTS};
use crate::http::{Answer, CONTENDED, Dialect, Method, Next, RequestBuf, TRIES, senseless};
use crate::refusals::{check_fits, refused};
use crate::study_queries::{ByNumber, Template};

/// The longest key that OpenSearch takes.
const KEY_BYTES: usize = 512;

/// A collection as a session knows it.
#[derive(Debug, Clone, Default)]
pub(super) struct Collection {
    /// `/index/`, encoded.
    pub(super) path: String,
    /// The kind of documents.
    pub(super) body: Body,
    /// Whether each document has a copy of its key, by which it can be sorted.
    pub(super) keyed: bool,
    /// Where a key names a document: in one index that is read without routing.
    pub(super) by_key: bool,
    /// Fields that are indexed as they are.
    pub(super) fields: Vec<Field>,
}

/// A top-level field that is indexed as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    /// The name to ask for.
    pub(super) asked: String,
    /// The longest text that is indexed, in characters.
    pub(super) longest: usize,
}

/// What a session knows about its server and collections.
#[derive(Debug, Default)]
pub(crate) struct SearchDialect {
    pub(super) collections: Vec<Collection>,
    pub(super) read_only: bool,
    /// The query of writes, from its `?`: when a search sees them, and how many copies must have them.
    pub(super) write: String,
    /// The query of deletes.
    pub(super) delete: String,
    /// Whether a search must see all earlier writes, and needs a refresh for that.
    pub(super) refreshes: bool,
    /// How many copies of the document must have a write, if more than the primary.
    pub(super) copies: Option<u32>,
    /// The longest body that the server accepts.
    pub(super) most_bytes: usize,
    pub(super) scratch: Vec<u8>,
    /// Queries of the study, and whether each says how many rows it wants.
    pub(super) queries: ByNumber<(Template, bool)>,
}

impl Dialect for SearchDialect {
    type State = SearchMemory;

    fn begin<'a>(&'a mut self, request: &Request<'_>, memory: &'a mut SearchMemory, out: &mut RequestBuf) -> Next<'a> {
        let sends = self.first(request, memory, out)?;
        if sends && request.op.kind().writes() && out.body_bytes() > self.most_bytes {
            return Err(self.too_large(out.body_bytes()));
        }
        Ok(if sends { None } else { Some(memory.reply()) })
    }

    fn answer<'a>(
        &'a mut self,
        memory: &'a mut SearchMemory,
        answer: Result<Answer<'a>, OpError>,
        out: &mut RequestBuf,
    ) -> Next<'a> {
        match memory.awaits {
            Awaits::BulkWrite | Awaits::BulkRead => self.bulk_answer(memory, answer, out),
            Awaits::Last => self.last(memory, answer?, out.changes()).map(Some),
            Awaits::Refresh => self.refreshed(memory, &answer?, out),
            Awaits::Rows => self.rows(memory, &answer?, out),
            Awaits::Existence | Awaits::Revision => {
                let answer = answer?;
                if !answer.is_success() {
                    return Err(fault(&answer, false));
                }
                if memory.awaits == Awaits::Existence {
                    return Err(CHANGED);
                }
                json::push_revision(answer.body, &mut memory.revision).ok_or_else(|| senseless(&answer, false))?;
                memory.awaits = Awaits::Write;
                self.put(memory, &memory.payload, out).map(|()| None)
            }
            Awaits::Document => self.change(memory, &answer?, out).map(|()| None),
            Awaits::Write => self.written(memory, answer?, out),
        }
    }
}

impl SearchDialect {
    /// Writes the first request of an operation. Returns false if there is nothing to request.
    fn first(
        &mut self,
        request: &Request<'_>,
        memory: &mut SearchMemory,
        out: &mut RequestBuf,
    ) -> Result<bool, OpError> {
        let collection = document::collection_of(request, &self.collections, self.read_only)?;
        check_fits(request.op.kind(), collection.body)?;
        memory.begin(request);
        let path = collection.path.as_str();
        match request.op {
            Op::Read { key } | Op::Exists { key } | Op::Delete { key } => {
                collection.check_key(key)?;
                let (method, query) = match request.op {
                    Op::Delete { .. } => (Method::DELETE, self.delete.as_str()),
                    Op::Exists { .. } => (Method::HEAD, ""),
                    _ => (Method::GET, ""),
                };
                out.begin(method).raw(path).raw("_doc/").segment(key).raw(query);
            }
            Op::Insert { key, body } | Op::Upsert { key, body } => {
                let what = if matches!(request.op, Op::Insert { .. }) { "_create/" } else { "_doc/" };
                out.begin(Method::PUT).raw(path).raw(what).segment(key).raw(&self.write);
                collection.encode(key, body, out.body())?;
            }
            Op::Replace { key, body } => {
                document::check(collection.body, body)?;
                memory.keep(key, body);
                self.ask_first(Awaits::Revision, memory, out)?;
            }
            Op::CompareAndSwap { key, expected, body } => {
                document::check(collection.body, body)?;
                memory.keep(key, body);
                if json::revision(expected).is_none() {
                    return self.ask_first(Awaits::Existence, memory, out).map(|()| true);
                }
                memory.revision.extend_from_slice(expected);
                memory.awaits = Awaits::Write;
                self.put(memory, &memory.payload, out)?;
            }
            Op::Append { key, bytes: payload }
            | Op::Prepend { key, bytes: payload }
            | Op::MergePatch { key, patch: payload } => {
                memory.keep(key, payload);
                self.ask_first(Awaits::Document, memory, out)?;
            }
            Op::Counter { key, delta, initial } => {
                memory.keep(key, b"");
                (memory.delta, memory.initial) = (delta, initial);
                self.ask_first(Awaits::Document, memory, out)?;
            }
            Op::BulkWrite { items, .. } => return Ok(self.begin_bulk_write(items, memory, out)),
            Op::BulkDelete { keys } | Op::BulkRead { keys } => return Ok(self.begin_by_keys(keys, memory, out)),
            Op::Page { .. } | Op::Prefix { .. } | Op::Scan { .. } => return self.begin_rows(&request.op, memory, out),
            Op::Query { number, text, values } => self.begin_query((number, text), values, memory, out)?,
            Op::View { .. } | Op::Touch { .. } | Op::Transaction { .. } => return Err(OpError::unsupported()),
        }
        Ok(true)
    }

    pub(super) fn collection(&self, memory: &SearchMemory) -> &Collection {
        &self.collections[memory.collection]
    }

    /// The error of a request that the server would not accept.
    pub(super) fn too_large(&self, bytes: usize) -> OpError {
        refused(format!(
            "the request has {bytes} bytes, and the server accepts {} (http.max_content_length)",
            self.most_bytes
        ))
    }

    /// Requests what must be known before a write: the document, its revision, or whether it exists.
    fn ask_first(&self, awaits: Awaits, memory: &mut SearchMemory, out: &mut RequestBuf) -> Result<(), OpError> {
        self.collection(memory).check_key(&memory.key)?;
        memory.awaits = awaits;
        let method = if awaits == Awaits::Existence { Method::HEAD } else { Method::GET };
        out.begin(method).raw(&self.collection(memory).path).raw("_doc/").segment(&memory.key);
        out.raw(if awaits == Awaits::Revision { "?_source=false" } else { "" });
        Ok(())
    }

    /// Stores a body over the revision, or as a new document if there is none.
    fn put(&self, memory: &SearchMemory, body: &[u8], out: &mut RequestBuf) -> Result<(), OpError> {
        let collection = self.collection(memory);
        let revision = json::revision(&memory.revision);
        out.begin(Method::PUT).raw(&collection.path).raw(if revision.is_some() { "_doc/" } else { "_create/" });
        out.segment(&memory.key).raw(&self.write);
        if let Some((seq_no, term)) = revision {
            out.raw("&if_seq_no=").raw(seq_no).raw("&if_primary_term=").raw(term);
        }
        collection.encode(&memory.key, body, out.body())?;
        if out.body_bytes() > self.most_bytes { Err(self.too_large(out.body_bytes())) } else { Ok(()) }
    }

    /// Handles the answer to a conditional write.
    fn written<'a>(&mut self, memory: &'a mut SearchMemory, answer: Answer<'a>, out: &mut RequestBuf) -> Next<'a> {
        if answer.status != 409 {
            return self.acknowledged(memory, &answer).map(Some);
        }
        memory.tries += 1;
        match memory.kind {
            Some(OpKind::CompareAndSwap) => self.ask_first(Awaits::Existence, memory, out),
            _ if memory.tries > TRIES => Err(CONTENDED),
            Some(OpKind::Replace) => self.ask_first(Awaits::Revision, memory, out),
            _ => self.ask_first(Awaits::Document, memory, out),
        }
        .map(|()| None)
    }

    /// The reply to a write of one document.
    fn acknowledged<'a>(&self, memory: &'a mut SearchMemory, answer: &Answer<'_>) -> Result<Reply<'a>, OpError> {
        if !answer.is_success() {
            return Err(fault(answer, true));
        }
        self.check_stored(answer.body)?;
        json::push_revision(answer.body, &mut memory.revision).ok_or_else(|| senseless(answer, true))?;
        Ok(Reply { revision: Some(&memory.revision), counter: memory.counter, ..Reply::written(1) })
    }

    /// Whether a write was stored, and by as many copies as it requires: `_shards` names those that have it.
    pub(super) fn check_stored(&self, object: &[u8]) -> Result<(), OpError> {
        if json::member(object, "result") == Some(b"\"noop\"") {
            return Err(DROPPED);
        }
        let Some(copies) = self.copies else { return Ok(()) };
        let have = json::member(object, "_shards").and_then(|shards| json::member(shards, "successful"));
        let have: u32 = have.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()).unwrap_or(0);
        if have >= copies {
            return Ok(());
        }
        let why = format!("the write was stored, but only by {have} of {copies} copies");
        Err(OpError::new(ErrorKind::OutcomeUnknown, why))
    }

    /// Handles the answer to an operation with a single request.
    fn last<'a>(
        &'a mut self,
        memory: &'a mut SearchMemory,
        answer: Answer<'a>,
        changes: bool,
    ) -> Result<Reply<'a>, OpError> {
        match memory.kind {
            Some(OpKind::Exists) => match answer.status {
                200..=299 => Ok(Reply::written(1)),
                404 => Ok(Reply::written(0)),
                _ => Err(fault(&answer, false)),
            },
            Some(OpKind::Insert) if answer.status == 409 => Err(EXISTS),
            Some(OpKind::Insert | OpKind::Upsert) => self.acknowledged(memory, &answer),
            Some(OpKind::Delete) if answer.is_success() => {
                self.check_stored(answer.body)?;
                Ok(Reply::written(1))
            }
            Some(OpKind::Read) if answer.is_success() => {
                json::push_revision(answer.body, &mut memory.revision).ok_or_else(|| senseless(&answer, false))?;
                let Collection { body, keyed, .. } = self.collections[memory.collection];
                let source = json::member(answer.body, "_source").ok_or(NO_SOURCE)?;
                let body = decode(body, keyed, source, &mut self.scratch)?;
                Ok(memory.document(body, Some(&memory.revision)))
            }
            _ => Err(fault(&answer, changes)),
        }
    }

    /// Applies the change to the document read, and writes it over its revision.
    fn change(&mut self, memory: &mut SearchMemory, answer: &Answer<'_>, out: &mut RequestBuf) -> Result<(), OpError> {
        let Collection { body: kind, keyed, .. } = self.collections[memory.collection];
        let mut bytes = Vec::new();
        memory.revision.clear();
        let old = match answer.status {
            404 if !index_is_gone(answer.body) => None,
            200..=299 => {
                json::push_revision(answer.body, &mut memory.revision).ok_or_else(|| senseless(answer, false))?;
                let source = json::member(answer.body, "_source").ok_or(NO_SOURCE)?;
                Some(decode(kind, keyed, source, &mut bytes)?)
            }
            _ => return Err(fault(answer, false)),
        };
        memory.change(kind, old, &mut self.scratch)?;
        memory.awaits = Awaits::Write;
        self.put(memory, &self.scratch, out)
    }
}

/// The error of a document whose text is not kept.
pub(super) const NO_SOURCE: OpError =
    OpError::fixed(ErrorKind::Failed, "the index does not keep documents as they were written (`_source`)");

/// The error of a document that the server accepted and did not store. The driver makes no updates that change nothing.
const DROPPED: OpError = OpError::fixed(
    ErrorKind::Refused,
    "the server did not store it (noop): probably an ingest pipeline drops it; see index.default_pipeline and \
     index.final_pipeline",
);

impl Collection {
    /// Refuses a key that names no single document.
    pub(super) fn check_key(&self, key: &str) -> Result<(), OpError> {
        if !self.by_key {
            return Err(refused(
                "a key does not name one document here: there are several indexes, or routing is required",
            ));
        }
        if key.is_empty() || key.len() > KEY_BYTES {
            return Err(refused(format!("a key of OpenSearch has 1 to {KEY_BYTES} bytes, not {}", key.len())));
        }
        Ok(())
    }

    /// Appends the stored form of a body.
    pub(super) fn encode(&self, key: &str, body: &[u8], out: &mut Vec<u8>) -> Result<(), OpError> {
        self.check_key(key)?;
        document::check(self.body, body)?;
        encode(self.body, self.keyed.then_some(key), body, out)
    }
}
