//! The state that an operation keeps between its requests.

use serde_json::Value;

use crate::http::Memory;

/// The purpose of the request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Awaits {
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

/// What an operation keeps between its requests. A revision is `_seq_no`, a comma, `_primary_term`.
pub(crate) type SearchMemory = Memory<Awaits, RowsWanted>;

/// What a search looks for.
#[derive(Debug, Default)]
pub(crate) struct RowsWanted {
    /// The query in OpenSearch's words, without the part that continues after a row.
    pub(super) query: String,
    /// For a page: the field, and its value. Rows whose field has another JSON value are left out.
    pub(super) field: String,
    pub(super) value: Value,
    /// For a range of keys: the last key so far, and the end, excluded.
    pub(super) last: Option<String>,
    pub(super) end: Option<String>,
    /// How many rows the request in flight asks for, and how many came before.
    pub(super) asked: u32,
    pub(super) seen: u32,
}
