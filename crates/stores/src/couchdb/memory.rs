//! The state that an operation keeps between its requests.

use storebench_engine::store::{Collected, Op, OpKind, Request};

use crate::http::Bulk;

/// The purpose of the request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Awaits {
    /// The answer completes the operation: a read, an insert.
    #[default]
    Last,
    /// The revision of the document, for the write that follows.
    Revision,
    /// The write. If another client was faster, it starts over.
    Write,
    /// The document, which the client changes and writes back.
    Document,
    /// Whether the document of a failed compare-and-swap exists.
    Existence,
    /// A page of rows.
    Rows,
    /// The rows of a query.
    Answer,
    /// The revisions of a bulk operation's documents.
    BulkRevisions,
    /// The outcome of each document of a bulk write.
    BulkWrite,
    /// The documents of a bulk read.
    BulkRead,
}

/// The state of one operation. Later operations reuse its buffers.
#[derive(Debug, Default)]
pub(crate) struct CouchMemory {
    pub(super) awaits: Awaits,
    /// What it does. `None` before the first operation.
    pub(super) kind: Option<OpKind>,
    pub(super) collection: usize,
    pub(super) key: String,
    /// The body, bytes or patch to write.
    pub(super) payload: Vec<u8>,
    pub(super) revision: Vec<u8>,
    pub(super) delta: i64,
    pub(super) initial: i64,
    pub(super) counter: Option<i64>,
    /// How often another client was faster.
    pub(super) tries: u32,
    /// For pages: the end of the range, excluded.
    pub(super) end: Option<String>,
    pub(super) left: u32,
    /// The number of rows that the request in flight asks for.
    pub(super) asked: u32,
    pub(super) found: Collected,
    pub(super) bulk: Bulk,
}

impl CouchMemory {
    /// Starts an operation.
    pub(super) fn begin(&mut self, request: &Request<'_>) {
        (self.awaits, self.kind) = (Awaits::Last, Some(request.op.kind()));
        self.collection = request.collection.position();
        self.key.clear();
        self.payload.clear();
        self.revision.clear();
        (self.counter, self.tries) = (None, 0);
        self.found.begin(request.contents);
    }

    /// Copies what later requests need.
    pub(super) fn keep(&mut self, key: &str, payload: &[u8]) {
        self.key.push_str(key);
        self.payload.extend_from_slice(payload);
    }

    /// The operation as it was submitted, if it changes a stored document.
    pub(super) fn op(&self) -> Option<Op<'_>> {
        let (key, body) = (self.key.as_str(), self.payload.as_slice());
        Some(match self.kind? {
            OpKind::Append => Op::Append { key, bytes: body },
            OpKind::Prepend => Op::Prepend { key, bytes: body },
            OpKind::MergePatch => Op::MergePatch { key, patch: body },
            OpKind::Counter => Op::Counter { key, delta: self.delta, initial: self.initial },
            _ => return None,
        })
    }
}
