//! The state that an operation keeps between its requests, and the policy of writes that start over.

use storebench_engine::store::document::{Effect, effect};
use storebench_engine::store::{Collected, ErrorKind, Op, OpError, OpKind, Reply, Request};
use storebench_study::workload::Body;

use super::{Answer, Bulk};

/// The maximum number of retries of a write after another client changed the document in between.
pub(crate) const TRIES: u32 = 20;

/// The error of a write that lost every race against other clients.
pub(crate) const CONTENDED: OpError = OpError::fixed(
    ErrorKind::Temporary,
    "other clients kept changing the document between read and write; nothing was written",
);

/// The error of an answer with status 200 whose body is not what such a server sends.
pub(crate) fn senseless(answer: &Answer<'_>, changes: bool) -> OpError {
    let kind = if changes { ErrorKind::OutcomeUnknown } else { ErrorKind::Failed };
    OpError::new(kind, format!("unexpected answer from the server: {}", answer.shown()))
}

/// The state of one operation. Later operations reuse its buffers. `A` says what the request in flight is for, and
/// `M` is what only one driver keeps.
#[derive(Debug, Default)]
pub(crate) struct Memory<A, M> {
    pub(crate) awaits: A,
    /// What it does. `None` before the first operation.
    pub(crate) kind: Option<OpKind>,
    pub(crate) collection: usize,
    pub(crate) key: String,
    /// The body, bytes or patch to write.
    pub(crate) payload: Vec<u8>,
    pub(crate) revision: Vec<u8>,
    pub(crate) delta: i64,
    pub(crate) initial: i64,
    pub(crate) counter: Option<i64>,
    /// How often another client was faster.
    pub(crate) tries: u32,
    /// How many documents are still wanted.
    pub(crate) left: u32,
    pub(crate) found: Collected,
    pub(crate) bulk: Bulk,
    pub(crate) more: M,
}

impl<A: Default, M> Memory<A, M> {
    /// Starts an operation.
    pub(crate) fn begin(&mut self, request: &Request<'_>) {
        (self.awaits, self.kind) = (A::default(), Some(request.op.kind()));
        self.collection = request.collection.position();
        self.key.clear();
        self.payload.clear();
        self.revision.clear();
        (self.counter, self.tries) = (None, 0);
        self.found.begin(request.contents);
        self.bulk.clear();
    }

    /// Copies what later requests need.
    pub(crate) fn keep(&mut self, key: &str, payload: &[u8]) {
        self.key.push_str(key);
        self.payload.extend_from_slice(payload);
    }

    /// Applies an operation that changes a stored document to the document read. The result is in `scratch`.
    pub(crate) fn change(&mut self, body: Body, old: Option<&[u8]>, scratch: &mut Vec<u8>) -> Result<(), OpError> {
        let (key, payload) = (self.key.as_str(), self.payload.as_slice());
        let op = match self.kind {
            Some(OpKind::Append) => Op::Append { key, bytes: payload },
            Some(OpKind::Prepend) => Op::Prepend { key, bytes: payload },
            Some(OpKind::MergePatch) => Op::MergePatch { key, patch: payload },
            Some(OpKind::Counter) => Op::Counter { key, delta: self.delta, initial: self.initial },
            _ => return Err(OpError::unsupported()),
        };
        match effect(&op, body, old, scratch)? {
            Effect::PutScratch { counter } => self.counter = counter,
            Effect::Put(_) | Effect::Remove => return Err(OpError::unsupported()),
        }
        Ok(())
    }

    /// The reply to a read of one document.
    pub(crate) fn document<'a>(&self, body: &'a [u8], revision: Option<&'a [u8]>) -> Reply<'a> {
        let contents = self.found.contents().then_some(body);
        Reply { documents: 1, bytes: body.len() as u64, body: contents, revision, ..Reply::default() }
    }

    /// The reply of a bulk operation or of a page, at its end.
    pub(crate) fn reply(&self) -> Reply<'_> {
        if self.kind.is_some_and(OpKind::writes) { self.bulk.reply() } else { self.found.reply() }
    }
}
