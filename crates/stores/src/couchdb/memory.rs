//! The state that an operation keeps between its requests.

use crate::http::Memory;

/// The purpose of the request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Awaits {
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

/// What only CouchDB's operations keep.
#[derive(Debug, Default)]
pub(crate) struct Range {
    /// For pages: the end of the range, excluded.
    pub(super) end: Option<String>,
    /// The number of rows that the request in flight asks for.
    pub(super) asked: u32,
}

/// The state of one operation.
pub(crate) type CouchMemory = Memory<Awaits, Range>;
