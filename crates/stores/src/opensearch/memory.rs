//! The state that an operation keeps between its requests.

use serde_json::Value;
use storebench_engine::store::{Collected, Op, OpKind, Request};

use crate::http::Bulk;

/// The purpose of the request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Awaits {
    /// The answer completes the operation.
    #[default]
    Last,
    /// The revision of the document, for the replace that follows.
    Revision,
    /// The document, which the client changes and writes back.
    Document,
    /// A write on condition of a revision. If another client was faster, it starts over.
    Write,
    /// Whether the document of a failed compare-and-swap exists.
    Existence,
    /// A refresh, for the search that follows.
    Refresh,
    /// The rows of a search.
    Rows,
    /// The outcome of each document of a bulk write.
    BulkWrite,
    /// The documents of a bulk read.
    BulkRead,
}

/// The state of one operation. Later operations reuse its buffers.
#[derive(Debug, Default)]
pub(crate) struct SearchMemory {
    pub(super) awaits: Awaits,
    /// What it does. `None` before the first operation.
    pub(super) kind: Option<OpKind>,
    pub(super) collection: usize,
    pub(super) key: String,
    /// The body, bytes or patch to write.
    pub(super) payload: Vec<u8>,
    /// `_seq_no`, a comma, `_primary_term`.
    pub(super) revision: Vec<u8>,
    pub(super) delta: i64,
    pub(super) initial: i64,
    pub(super) counter: Option<i64>,
    /// How often another client was faster.
    pub(super) tries: u32,
    pub(super) rows: RowsWanted,
    pub(super) found: Collected,
    pub(super) bulk: Bulk,
}

/// What a search looks for.
#[derive(Debug, Default)]
pub(super) struct RowsWanted {
    /// The query in OpenSearch's words, without the part that continues after a row.
    pub(super) query: String,
    /// For a page: the field, and its value. Rows whose field has another JSON value are left out.
    pub(super) field: String,
    pub(super) value: Value,
    /// For a range of keys: the last key so far, and the end, excluded.
    pub(super) last: Option<String>,
    pub(super) end: Option<String>,
    /// How many documents are still wanted.
    pub(super) left: u32,
    /// How many rows the request in flight asks for, and how many came before.
    pub(super) asked: u32,
    pub(super) seen: u32,
}

impl SearchMemory {
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
