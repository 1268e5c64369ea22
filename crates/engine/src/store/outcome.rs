//! How an operation ended.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{Batch, Token};
use storebench_study::names;

/// Why an operation did not do what was asked. The difference decides who may retry, and what the
/// ledger may believe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ErrorKind {
    /// The store understood and will never do it (wrong rights, too large, not supported).
    Refused,
    /// There is no such document.
    NotFound,
    /// The document is not in the state the operation asked for (exists already, other revision).
    Conflict,
    /// Not now; nothing was done, a retry may help (busy, throttled, electing).
    Temporary,
    /// It went wrong, and nothing was done.
    Failed,
    /// No answer, or none that tells: the operation may or may not have been done.
    OutcomeUnknown,
}

names! { ErrorKind:
    Refused "refused", NotFound "not-found", Conflict "conflict", Temporary "temporary", Failed "failed",
    OutcomeUnknown "outcome-unknown",
}

/// A failed operation: its kind and what the store said. Making a *not found* allocates nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct OpError {
    /// What it means.
    pub kind: ErrorKind,
    /// What the store said, without secrets.
    pub message: Cow<'static, str>,
}

impl OpError {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into() }
    }

    /// There is no such document.
    pub const fn not_found() -> Self {
        Self { kind: ErrorKind::NotFound, message: Cow::Borrowed("no such document") }
    }

    /// The key exists already, or the document has another revision.
    pub const fn conflict(message: &'static str) -> Self {
        Self { kind: ErrorKind::Conflict, message: Cow::Borrowed(message) }
    }

    /// This store cannot do it. Capabilities are checked before a run, so this is a defect of the
    /// caller or of the declared capabilities.
    pub const fn unsupported() -> Self {
        Self { kind: ErrorKind::Refused, message: Cow::Borrowed("this store cannot do this operation") }
    }
}

/// What a successful operation gave. Borrowed from the session: valid during the call only.
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
    /// The document's revision after a single read or write, where the store tells: opaque bytes
    /// that [`Op::CompareAndSwap`](super::Op::CompareAndSwap) takes.
    pub revision: Option<&'a [u8]>,
    /// The value of a counter after the operation.
    pub counter: Option<i64>,
    /// Items of a bulk operation that failed while others did not.
    pub rejects: &'a [Reject],
}

impl Reply<'_> {
    /// So many documents written or removed.
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
}

impl<F: FnMut(Token, Result<Reply<'_>, OpError>)> Completions for F {
    fn complete(&mut self, token: Token, result: Result<Reply<'_>, OpError>) {
        self(token, result);
    }
}
