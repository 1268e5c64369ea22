//! Operations: what a session is asked to do. Each name means the same on every store.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use super::{Batch, Isolation, OpKind, Step};

/// Number of a collection in the [`Layout`](super::Layout), in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct CollectionId(pub u16);

impl CollectionId {
    /// The position in the layout.
    pub fn position(self) -> usize {
        usize::from(self.0)
    }
}

/// Identifies one operation in flight. Chosen by the caller, and returned with the completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Token(pub u64);

/// One operation on one collection. Everything is borrowed: a session that does not finish within
/// `submit` copies what it needs.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Request<'a> {
    /// The collection it works on.
    pub collection: CollectionId,
    /// What to do.
    #[serde(borrow)]
    pub op: Op<'a>,
    /// Whether the caller wants the contents of what is read, or only that it was read. A session
    /// still fetches everything: this decides only whether it is handed over.
    pub contents: bool,
}

/// What to do. Keys are UTF-8; bodies are JSON, bytes or a decimal integer as the collection says.
///
/// Serialized without its batch and its steps, which cannot be borrowed from the bytes of a message.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Op<'a> {
    /// Stores a new document; *conflict* if the key exists. (Also called add.)
    Insert {
        /// The key.
        key: &'a str,
        /// The document.
        #[serde(serialize_with = "as_bytes")]
        body: &'a [u8],
    },
    /// Stores a document whether or not the key exists. (Also called set or put.)
    Upsert {
        /// The key.
        key: &'a str,
        /// The document.
        #[serde(serialize_with = "as_bytes")]
        body: &'a [u8],
    },
    /// Stores a document if the key exists; *not found* otherwise.
    Replace {
        /// The key.
        key: &'a str,
        /// The document.
        #[serde(serialize_with = "as_bytes")]
        body: &'a [u8],
    },
    /// Adds bytes after the stored ones; *not found* if there are none. Collections of bytes only.
    Append {
        /// The key.
        key: &'a str,
        /// The bytes to add.
        #[serde(serialize_with = "as_bytes")]
        bytes: &'a [u8],
    },
    /// Adds bytes before the stored ones; *not found* if there are none. Collections of bytes only.
    Prepend {
        /// The key.
        key: &'a str,
        /// The bytes to add.
        #[serde(serialize_with = "as_bytes")]
        bytes: &'a [u8],
    },
    /// Reads one document; *not found* if there is none.
    Read {
        /// The key.
        key: &'a str,
    },
    /// Asks whether a key exists: one or zero documents, never *not found*.
    Exists {
        /// The key.
        key: &'a str,
    },
    /// Removes one document; *not found* if there is none.
    Delete {
        /// The key.
        key: &'a str,
    },
    /// Sets when a document expires; *not found* if there is none.
    Touch {
        /// The key.
        key: &'a str,
        /// How long it lives from now.
        expiry: Duration,
    },
    /// Adds to an integer, which starts at `initial` if there is none. Collections of counters only.
    Counter {
        /// The key.
        key: &'a str,
        /// The number to add.
        delta: i64,
        /// The value of a new counter.
        initial: i64,
    },
    /// Replaces a document if it is still at `expected`; *conflict* otherwise, *not found* if there is none.
    CompareAndSwap {
        /// The key.
        key: &'a str,
        /// The revision that a read returned.
        #[serde(serialize_with = "as_bytes")]
        expected: &'a [u8],
        /// The document.
        #[serde(serialize_with = "as_bytes")]
        body: &'a [u8],
    },
    /// Merges a JSON Merge Patch (RFC 7396) into a stored document; *not found* if there is none.
    MergePatch {
        /// The key.
        key: &'a str,
        /// The patch.
        #[serde(serialize_with = "as_bytes")]
        patch: &'a [u8],
    },
    /// Writes several documents with one request, or in one transaction if the store has transactions.
    ///
    /// A key may be repeated: the result is as if the items had been written one after the other. Of two upserts, both
    /// count and the later document stays. Of two inserts, the second is a *conflict*.
    BulkWrite {
        /// What each item does.
        kind: BulkWrite,
        /// The keys and documents.
        #[serde(skip)]
        items: Batch<'a>,
    },
    /// Reads several documents with one request. Documents that do not exist are left out. A key that is requested
    /// twice is answered twice: there is one row for each requested key whose document exists.
    BulkRead {
        /// The keys; bodies are empty.
        #[serde(skip)]
        keys: Batch<'a>,
    },
    /// Removes several documents with one request. Documents that do not exist are left out, so a repeated key counts
    /// once.
    BulkDelete {
        /// The keys; bodies are empty.
        #[serde(skip)]
        keys: Batch<'a>,
    },
    /// The first `limit` documents whose indexed field equals a value.
    Page {
        /// The indexed field, a top-level name.
        field: &'a str,
        /// The value, as JSON text (`"a"`, `7`, `true`).
        value: &'a str,
        /// The maximum number of documents.
        limit: u32,
    },
    /// The first `limit` documents, in key order, whose key begins with `prefix`.
    Prefix {
        /// The prefix.
        prefix: &'a str,
        /// The maximum number of documents.
        limit: u32,
    },
    /// The first `limit` documents, in key order, from `start` up to but not including `end`.
    Scan {
        /// The smallest key.
        start: &'a str,
        /// The first key that is not wanted; `None` for the end of the collection.
        end: Option<&'a str>,
        /// The maximum number of documents.
        limit: u32,
    },
    /// A query of a view that the store maintains.
    View {
        /// `design/view`.
        view: &'a str,
        /// Which of its rows.
        #[serde(borrow)]
        rows: ViewRows<'a>,
        /// How many of the first rows to leave out.
        skip: u32,
        /// The maximum number of rows.
        limit: u32,
    },
    /// A query in the store's own language, which changes nothing. Each row counts as a document. A session prepares a
    /// query once and recognises it by its number, so a number always comes with the same text.
    Query {
        /// Different for each query of a phase; small, because sessions may use it as a position.
        number: u16,
        /// The query as the study has it: text, or the JSON text of a query that is not text.
        text: &'a str,
        /// The name and the value of each parameter, the value as JSON. Always the same names in the same order.
        #[serde(skip)]
        values: Batch<'a>,
    },
    /// Several steps, all of them or none. Steps that find no document are counted and do not end it. If any other error
    /// ends it, it is rolled back, and the error is the result: nothing was done, unless the error is *outcome unknown*.
    /// The collection of the request is that of the first step.
    Transaction {
        /// How far it is kept apart from others.
        isolation: Isolation,
        /// What it does, in order.
        #[serde(skip)]
        steps: &'a [Step],
        /// Whether it is rolled back after its last step. Then it has written nothing, and that is a success.
        rolls_back: bool,
    },
}

/// Which rows of a view to return. Keys are JSON, compared in the order of the store's views.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ViewRows<'a> {
    /// All of them.
    All,
    /// Those with one of these keys: the text of a JSON array.
    Keys(&'a str),
    /// Those from `start` to `end`, both included. Each is the text of a JSON value; `None` for no bound.
    Range {
        /// The first key.
        start: Option<&'a str>,
        /// The last key.
        end: Option<&'a str>,
    },
}

/// What each item of a bulk write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BulkWrite {
    /// As [`Op::Insert`].
    Insert,
    /// As [`Op::Upsert`].
    Upsert,
}

/// Serializes bytes all at once. By itself, serde serializes them one by one.
fn as_bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

impl Op<'_> {
    /// The kind of this operation.
    pub fn kind(&self) -> OpKind {
        match self {
            Op::Insert { .. } => OpKind::Insert,
            Op::Upsert { .. } => OpKind::Upsert,
            Op::Replace { .. } => OpKind::Replace,
            Op::Append { .. } => OpKind::Append,
            Op::Prepend { .. } => OpKind::Prepend,
            Op::Read { .. } => OpKind::Read,
            Op::Exists { .. } => OpKind::Exists,
            Op::Delete { .. } => OpKind::Delete,
            Op::Touch { .. } => OpKind::Touch,
            Op::Counter { .. } => OpKind::Counter,
            Op::CompareAndSwap { .. } => OpKind::CompareAndSwap,
            Op::MergePatch { .. } => OpKind::MergePatch,
            Op::BulkWrite { kind: BulkWrite::Insert, .. } => OpKind::BulkInsert,
            Op::BulkWrite { kind: BulkWrite::Upsert, .. } => OpKind::BulkUpsert,
            Op::BulkRead { .. } => OpKind::BulkRead,
            Op::BulkDelete { .. } => OpKind::BulkDelete,
            Op::Page { .. } => OpKind::Page,
            Op::Prefix { .. } => OpKind::Prefix,
            Op::Scan { .. } => OpKind::Scan,
            Op::View { .. } => OpKind::View,
            Op::Query { .. } => OpKind::Query,
            Op::Transaction { .. } => OpKind::Transaction,
        }
    }
}
