//! A store that does nothing, for measuring the client itself.

use super::{
    Capabilities, Completions, Description, Durability, Isolation, Layout, Namespace, Op, OpKind, Prepare,
    ReadConsistency, Reply, Request, Session, SessionOptions, Store, StoreError, Support, Token, Transactions,
};

/// `null:`, which answers every operation at once and keeps nothing.
///
/// Writes reply as many documents as they carry. Reads reply one document (bulk reads: one per key) of 0 bytes, without
/// a body, revision or rows. There is nothing to check, and such a read proves nothing. Its namespace is always
/// [`Namespace::Ours`], because there is no data to protect. It would fail the conformance suite, as it should.
#[derive(Debug, Clone, Copy, Default)]
pub struct NullStore;

impl NullStore {
    /// The store.
    pub const fn new() -> Self {
        Self
    }
}

impl Store for NullStore {
    type Session = NullSession;

    fn describe(&self) -> Description {
        Description { scheme: "null", url: "null:".into(), version: env!("CARGO_PKG_VERSION").into() }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            operations: OpKind::ALL.map(|kind| (kind, Support::Native)).to_vec(),
            durability: vec![(Durability::MEMORY, "nothing is stored")],
            shipped_durability: Durability::MEMORY,
            consistency: [ReadConsistency::StaleOk, ReadConsistency::Session, ReadConsistency::Strong]
                .map(|consistency| (consistency, "nothing is read"))
                .to_vec(),
            transactions: Transactions {
                isolation: vec![(Isolation::Serializable, "nothing is stored")],
                steps: Transactions::STEPS,
                rolls_back: true,
                waits_for_nodes: true,
                ..Transactions::default()
            },
            indexes: true,
            embedded: true,
            notes: vec![
                "Stores nothing and reads nothing, so its reads cannot be verified. It measures only the client.",
            ],
            ..Capabilities::default()
        }
    }

    fn inspect(&self) -> Result<Namespace, StoreError> {
        Ok(Namespace::Ours)
    }

    fn prepare(&self, _layout: &Layout, _how: Prepare) -> Result<(), StoreError> {
        Ok(())
    }

    async fn open(&self, options: &SessionOptions) -> Result<NullSession, StoreError> {
        if options.durability != Durability::MEMORY {
            return Err(StoreError::NotSupported(format!(
                "null: keeps nothing, so it cannot guarantee durability `{}`; use `none`",
                options.durability
            )));
        }
        Ok(NullSession)
    }

    fn remove(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A session of [`NullStore`].
#[derive(Debug)]
pub struct NullSession;

impl Session for NullSession {
    #[inline]
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        let documents = match &request.op {
            Op::BulkWrite { items, .. } => items.len(),
            Op::BulkRead { keys } | Op::BulkDelete { keys } => keys.len(),
            Op::Transaction { steps, .. } => {
                // Each step finds its document.
                const FOUND: [u32; 128] = [1; 128];
                let steps = &FOUND[..steps.len().min(FOUND.len())];
                return out.complete(token, Ok(Reply { steps, ..Reply::written(steps.len()) }));
            }
            _ => 1,
        };
        out.complete(token, Ok(Reply::written(documents)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BatchBuf, CollectionId};
    use super::*;

    #[test]
    fn replies_count_items_and_carry_nothing() {
        let mut batch = BatchBuf::new();
        batch.push("a", b"1");
        batch.push("b", b"2");
        let ops = [
            (Op::Insert { key: "a", body: b"{}" }, 1),
            (Op::Read { key: "a" }, 1),
            (Op::BulkRead { keys: batch.as_batch() }, 2),
            (Op::BulkWrite { kind: super::super::BulkWrite::Upsert, items: batch.as_batch() }, 2),
        ];
        for (i, (op, documents)) in ops.into_iter().enumerate() {
            let request = Request { collection: CollectionId(0), op, contents: true };
            let mut seen = 0;
            NullSession.submit(&request, Token(i as u64), &mut |token, reply: Result<Reply<'_>, _>| {
                let reply = reply.unwrap();
                assert_eq!((token, reply.documents, reply.bytes), (Token(i as u64), documents, 0));
                assert!(reply.body.is_none() && reply.rows.is_none());
                seen += 1;
            });
            assert_eq!(seen, 1);
        }
    }
}
