//! How an operation ended.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{Batch, Token};
use storebench_study::names;

/// Why an operation did not do what was asked. The kind decides who may retry, and what the ledger may assume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ErrorKind {
    /// The store understood the operation and will never do it (missing rights, too large, not supported).
    Refused,
    /// There is no such document.
    NotFound,
    /// The document is not in the state that the operation requires (it already exists, or has another revision).
    Conflict,
    /// Not now: nothing was done, and a retry may help (busy, throttled, electing).
    Temporary,
    /// It failed, and nothing was done.
    Failed,
    /// There was no answer, or no clear one: the operation may or may not have been done.
    OutcomeUnknown,
    /// The store undid a transaction because of another one, such as in a deadlock. Nothing was done, and a retry may
    /// help.
    Aborted,
}

names! { ErrorKind:
    Refused "refused", NotFound "not-found", Conflict "conflict", Temporary "temporary", Failed "failed",
    OutcomeUnknown "outcome-unknown", Aborted "aborted",
}

/// A failed operation: its kind and what the store said. Creating a *not found* allocates nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct OpError {
    /// The kind of error.
    pub kind: ErrorKind,
    /// What the store said, without secrets.
    pub message: Cow<'static, str>,
}

impl OpError {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into() }
    }

    /// An error with a fixed text, which can be a constant.
    pub const fn fixed(kind: ErrorKind, message: &'static str) -> Self {
        Self { kind, message: Cow::Borrowed(message) }
    }

    /// There is no such document.
    pub const fn not_found() -> Self {
        Self::fixed(ErrorKind::NotFound, "no such document")
    }

    /// The key already exists, or the document has another revision.
    pub const fn conflict(message: &'static str) -> Self {
        Self::fixed(ErrorKind::Conflict, message)
    }

    /// The store does not support the operation. Capabilities are checked before a run, so this is a bug in the caller
    /// or in the declared capabilities.
    pub const fn unsupported() -> Self {
        Self::fixed(ErrorKind::Refused, "this store does not support this operation")
    }
}

/// The result of a successful operation. Borrowed from the session: valid only during the call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reply<'a> {
    /// Documents written, removed, read or found.
    pub documents: u32,
    /// Bytes of the documents read (0 for writes).
    pub bytes: u64,
    /// The document of a single read, if its contents were wanted.
    pub body: Option<&'a [u8]>,
    /// The documents of a page, scan or bulk read, if their contents were wanted.
    pub rows: Option<Batch<'a>>,
    /// The document's revision after a single read or write, if the store reports it: opaque bytes for
    /// [`Op::CompareAndSwap`](super::Op::CompareAndSwap).
    pub revision: Option<&'a [u8]>,
    /// The value of a counter after the operation.
    pub counter: Option<i64>,
    /// Items of a bulk operation that failed while others did not.
    pub rejects: &'a [Reject],
    /// Documents of each step of a transaction. Its `rows` are the documents of its reads, without keys.
    pub steps: &'a [u32],
}

impl Reply<'_> {
    /// The reply to a write or removal of this many documents.
    pub fn written(documents: usize) -> Self {
        Self { documents: u32::try_from(documents).unwrap_or(u32::MAX), ..Self::default() }
    }
}

/// One item of a bulk operation that failed.
#[derive(Debug, Clone)]
pub struct Reject {
    /// Its position in the batch.
    pub item: usize,
    /// Why.
    pub error: OpError,
}

/// Receives completions. The engine is the usual receiver.
pub trait Completions {
    /// The operation named by `token` has ended. Called exactly once for each submitted operation.
    fn complete(&mut self, token: Token, result: Result<Reply<'_>, OpError>);

    /// Says that what completes from here on, until the next call or until the session returns, came at this moment: one
    /// read brought all of it. Otherwise each completion takes its own time. That is more work, and an answer would also
    /// be charged with the processing of those before it. What did not come with that read completes before the call, or
    /// after another one.
    fn arrived(&mut self) {}
}

impl<F: FnMut(Token, Result<Reply<'_>, OpError>)> Completions for F {
    fn complete(&mut self, token: Token, result: Result<Reply<'_>, OpError>) {
        self(token, result);
    }
}
