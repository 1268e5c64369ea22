//! The state that an operation keeps between its requests.

use storebench_engine::store::Optimistic;

use crate::http::Memory;

/// The purpose of the request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Awaits {
    /// The answer completes the operation.
    #[default]
    Last,
    /// Whether the document of a failed compare-and-swap exists.
    Existence,
    /// The document, which the client changes and writes back. If another client is faster, that starts over.
    Document,
    /// A page of an index.
    Page,
    /// The documents of a bulk read.
    BulkRead,
    /// The outcome of a bulk upsert.
    BulkWrite,
    /// The outcome of one item of a bulk insert or delete.
    Each,
    /// The documents of a transaction.
    Transaction,
    /// The outcome of its writes.
    Commit,
}

/// What only DynamoDB's operations keep.
#[derive(Debug, Default)]
pub(crate) struct More {
    /// The revision that the document must have.
    pub(super) expected: Vec<u8>,
    /// When the document that is changed expires, as the server sent it.
    pub(super) expires: Vec<u8>,
    /// The last key of a page, as the server sent it.
    pub(super) after: Vec<u8>,
    /// The number of the index of a page.
    pub(super) index: usize,
    pub(super) transaction: Optimistic,
}

/// The state of one operation. `payload` is also the indexed value to search for.
pub(crate) type DynamoMemory = Memory<Awaits, More>;
