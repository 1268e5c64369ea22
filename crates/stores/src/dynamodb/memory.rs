//! The state that an operation keeps between its requests.

use storebench_engine::store::{Collected, Op, OpKind, Request};

use crate::http::Bulk;

/// The purpose of the request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Awaits {
    /// The answer completes the operation.
    #[default]
    Last,
    /// Whether the document of a failed compare-and-swap exists.
    Existence,
    /// The document, which the client changes and writes back.
    Document,
    /// That write. If another client was faster, it starts over.
    Write,
    /// A page of an index.
    Page,
    /// The documents of a bulk read.
    BulkRead,
    /// The outcome of a bulk upsert.
    BulkWrite,
    /// The outcome of one item of a bulk insert or delete.
    Each,
}

/// The state of one operation. Later operations reuse its buffers.
#[derive(Debug, Default)]
pub(crate) struct DynamoMemory {
    pub(super) awaits: Awaits,
    /// What it does. `None` before the first operation.
    pub(super) kind: Option<OpKind>,
    pub(super) collection: usize,
    pub(super) key: String,
    /// The body, bytes or patch to write; the indexed value to search for.
    pub(super) payload: Vec<u8>,
    /// The revision that the write leaves.
    pub(super) revision: String,
    /// The revision that the document must have.
    pub(super) expected: String,
    /// When the document that is changed expires, as the server sent it.
    pub(super) expires: String,
    /// The last key of a page, as the server sent it.
    pub(super) after: Vec<u8>,
    pub(super) index: usize,
    pub(super) delta: i64,
    pub(super) initial: i64,
    /// How often another client was faster.
    pub(super) tries: u32,
    pub(super) left: u32,
    pub(super) found: Collected,
    pub(super) bulk: Bulk,
}

impl DynamoMemory {
    /// Starts an operation.
    pub(super) fn begin(&mut self, request: &Request<'_>) {
        (self.awaits, self.kind) = (Awaits::Last, Some(request.op.kind()));
        self.collection = request.collection.position();
        self.key.clear();
        self.payload.clear();
        self.expected.clear();
        self.expires.clear();
        self.after.clear();
        self.tries = 0;
        self.found.begin(request.contents);
        self.bulk.clear();
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
            _ => return None,
        })
    }
}
