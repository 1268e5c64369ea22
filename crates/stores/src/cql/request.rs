//! Requests that outlive their submission.

use std::time::Duration;

use storebench_engine::store::{Batch, BatchBuf, BulkWrite, Op, OpKind};

/// An operation with everything that it borrowed.
pub(super) struct Owned {
    kind: OpKind,
    /// The key, or the field of a page.
    key: String,
    /// The document, the bytes to add, the patch, or the value of a page.
    body: Vec<u8>,
    expected: Vec<u8>,
    expiry: Duration,
    delta: i64,
    initial: i64,
    limit: u32,
    items: BatchBuf,
}

impl Owned {
    /// `None` for an operation that this store does not have.
    pub(super) fn of(op: &Op<'_>) -> Option<Self> {
        let mut owned = Self {
            kind: op.kind(),
            key: String::new(),
            body: Vec::new(),
            expected: Vec::new(),
            expiry: Duration::ZERO,
            delta: 0,
            initial: 0,
            limit: 0,
            items: BatchBuf::new(),
        };
        let mut is = |key: &str, body: &[u8]| {
            owned.key.push_str(key);
            owned.body.extend_from_slice(body);
        };
        match *op {
            Op::Insert { key, body } | Op::Upsert { key, body } | Op::Replace { key, body } => is(key, body),
            Op::Append { key, bytes } | Op::Prepend { key, bytes } => is(key, bytes),
            Op::MergePatch { key, patch } => is(key, patch),
            Op::Read { key } | Op::Exists { key } | Op::Delete { key } => is(key, b""),
            Op::Touch { key, expiry } => {
                is(key, b"");
                owned.expiry = expiry;
            }
            Op::Counter { key, delta, initial } => {
                is(key, b"");
                (owned.delta, owned.initial) = (delta, initial);
            }
            Op::CompareAndSwap { key, expected, body } => {
                is(key, body);
                owned.expected.extend_from_slice(expected);
            }
            Op::Page { field, value, limit } => {
                is(field, value.as_bytes());
                owned.limit = limit;
            }
            Op::BulkWrite { items, .. } | Op::BulkRead { keys: items } | Op::BulkDelete { keys: items } => {
                items.iter().for_each(|(key, body)| owned.items.push(key, body));
            }
            Op::Prefix { .. } | Op::Scan { .. } | Op::View { .. } | Op::Query { .. } | Op::Transaction { .. } => {
                return None;
            }
        }
        Some(owned)
    }

    /// The operation again.
    pub(super) fn op(&self) -> Op<'_> {
        let (key, body): (&str, &[u8]) = (&self.key, &self.body);
        let items: Batch<'_> = self.items.as_batch();
        match self.kind {
            OpKind::Insert => Op::Insert { key, body },
            OpKind::Upsert => Op::Upsert { key, body },
            OpKind::Replace => Op::Replace { key, body },
            OpKind::Append => Op::Append { key, bytes: body },
            OpKind::Prepend => Op::Prepend { key, bytes: body },
            OpKind::MergePatch => Op::MergePatch { key, patch: body },
            OpKind::Exists => Op::Exists { key },
            OpKind::Delete => Op::Delete { key },
            OpKind::Touch => Op::Touch { key, expiry: self.expiry },
            OpKind::Counter => Op::Counter { key, delta: self.delta, initial: self.initial },
            OpKind::CompareAndSwap => Op::CompareAndSwap { key, expected: &self.expected, body },
            OpKind::Page => {
                Op::Page { field: key, value: std::str::from_utf8(body).unwrap_or_default(), limit: self.limit }
            }
            OpKind::BulkInsert => Op::BulkWrite { kind: BulkWrite::Insert, items },
            OpKind::BulkUpsert => Op::BulkWrite { kind: BulkWrite::Upsert, items },
            OpKind::BulkRead => Op::BulkRead { keys: items },
            OpKind::BulkDelete => Op::BulkDelete { keys: items },
            _ => Op::Read { key },
        }
    }
}
