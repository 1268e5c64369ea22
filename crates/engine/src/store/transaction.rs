//! Transactions: their steps, and what a driver collects while it does them.

use std::sync::Arc;

use super::{BatchBuf, CollectionId, ErrorKind, Isolation, Op, OpError, OpKind, Reply, Request};

/// One step of a transaction. It owns what it needs, so that a driver that sends one step after another can keep it.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// The collection.
    pub collection: CollectionId,
    /// What it does. `None` only while the step is not in use.
    pub kind: Option<OpKind>,
    /// The key; empty for a query.
    pub key: String,
    /// The document of a write.
    pub body: Vec<u8>,
    /// The number of a query; see [`Op::Query`].
    pub number: u16,
    /// The text of a query.
    pub text: Arc<str>,
    /// The parameters of a query.
    pub values: BatchBuf,
}

impl Step {
    /// It as a request. `contents` says whether a read hands over its document.
    ///
    /// # Errors
    /// *Refused* if it is neither a read, insert, upsert, replace, delete nor query.
    pub fn request(&self, contents: bool) -> Result<Request<'_>, OpError> {
        let (key, body) = (self.key.as_str(), self.body.as_slice());
        let op = match self.kind {
            Some(OpKind::Read) => Op::Read { key },
            Some(OpKind::Insert) => Op::Insert { key, body },
            Some(OpKind::Upsert) => Op::Upsert { key, body },
            Some(OpKind::Replace) => Op::Replace { key, body },
            Some(OpKind::Delete) => Op::Delete { key },
            Some(OpKind::Query) => Op::Query { number: self.number, text: &self.text, values: self.values.as_batch() },
            _ => return Err(OpError::unsupported()),
        };
        Ok(Request { collection: self.collection, op, contents })
    }

    /// Whether it may change what is stored.
    pub fn writes(&self) -> bool {
        self.kind.is_some_and(OpKind::writes)
    }

    /// Bytes of its key, document and parameters.
    pub fn sent_bytes(&self) -> u64 {
        let values: usize = self.values.as_batch().iter().map(|(_, value)| value.len()).sum();
        let bytes =
            if self.writes() && self.kind != Some(OpKind::Delete) { self.key.len() + self.body.len() } else { 0 };
        (bytes + values) as u64
    }
}

/// What a store can do in transactions.
#[derive(Debug, Clone, Default)]
pub struct Transactions {
    /// The isolations that it can guarantee, and how. Isolations that are missing are refused.
    pub isolation: Vec<(Isolation, &'static str)>,
    /// What a step can do. Other steps are refused.
    pub steps: &'static [OpKind],
    /// Whether steps that have been done can be undone.
    pub rolls_back: bool,
    /// Whether a commit can wait until other nodes have it, as the durability of a write says.
    pub waits_for_nodes: bool,
    /// Whether a transaction has its connection to itself, so that nothing else can be in flight there.
    pub takes_connection: bool,
    /// If it has none, what its user can do to get them.
    pub remedy: Option<&'static str>,
}

impl Transactions {
    /// The steps of most stores.
    pub const STEPS: &'static [OpKind] =
        &[OpKind::Read, OpKind::Insert, OpKind::Upsert, OpKind::Replace, OpKind::Delete];
    /// These, and queries in the store's own language.
    pub const STEPS_AND_QUERIES: &'static [OpKind] =
        &[OpKind::Read, OpKind::Insert, OpKind::Upsert, OpKind::Replace, OpKind::Delete, OpKind::Query];

    /// The strongest isolation and how it is guaranteed.
    pub fn strongest(&self) -> Option<(Isolation, &'static str)> {
        self.isolation.iter().copied().max_by_key(|(isolation, _)| *isolation)
    }
}

/// What the steps of a transaction have found so far. It is reused, and keeps its memory.
#[derive(Debug, Default)]
pub struct StepsFound {
    contents: bool,
    counts: Vec<u32>,
    read: u32,
    wrote: u32,
    bytes: u64,
    rows: BatchBuf,
}

impl StepsFound {
    /// Starts again. `contents` says whether the documents of reads are wanted.
    pub fn begin(&mut self, contents: bool) {
        self.counts.clear();
        self.rows.clear();
        (self.contents, self.read, self.wrote, self.bytes) = (contents, 0, 0, 0);
    }

    /// How many steps are done.
    pub fn done(&self) -> usize {
        self.counts.len()
    }

    /// Adds the result of the next step. A step that finds no document does not end the transaction.
    ///
    /// # Errors
    /// The error of a step that ends it: everything must be rolled back.
    pub fn add(&mut self, kind: OpKind, result: Result<Reply<'_>, OpError>) -> Result<(), OpError> {
        let documents = match result {
            Ok(reply) => {
                self.bytes += reply.bytes;
                if let Some(body) = reply.body.filter(|_| kind == OpKind::Read && self.contents) {
                    self.rows.push("", body);
                }
                reply.documents
            }
            Err(error) if error.kind == ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        self.counts.push(documents);
        if kind.writes() {
            self.wrote += documents
        } else {
            self.read += documents
        }
        Ok(())
    }

    /// The reply. What was rolled back does not count as written.
    pub fn reply(&self, rolled_back: bool) -> Reply<'_> {
        Reply {
            documents: self.read + if rolled_back { 0 } else { self.wrote },
            bytes: self.bytes,
            rows: self.contents.then(|| self.rows.as_batch()),
            steps: &self.counts,
            ..Reply::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_one_by_one() {
        let mut found = StepsFound::default();
        found.begin(true);
        found.add(OpKind::Read, Ok(Reply { body: Some(b"{}"), bytes: 2, ..Reply::written(1) })).unwrap();
        found.add(OpKind::Upsert, Ok(Reply { body: Some(b"not read"), ..Reply::written(1) })).unwrap();
        found.add(OpKind::Delete, Err(OpError::not_found())).unwrap();
        let reply = found.reply(false);
        assert_eq!((reply.documents, reply.bytes, reply.steps), (2, 2, &[1, 1, 0][..]));
        assert_eq!(reply.rows.unwrap().iter().collect::<Vec<_>>(), [("", &b"{}"[..])]);
        assert_eq!(found.reply(true).documents, 1, "what was rolled back is not written");
        assert!(found.add(OpKind::Insert, Err(OpError::conflict("exists"))).is_err());
        found.begin(false);
        assert!(found.reply(false).rows.is_none() && found.done() == 0);
    }

    #[test]
    fn a_step_is_one_operation_on_one_document_or_a_query() {
        let step = |kind| Step { kind: Some(kind), key: "k".into(), body: b"{}".to_vec(), ..Step::default() };
        assert!(matches!(step(OpKind::Insert).request(false).unwrap().op, Op::Insert { key: "k", body: b"{}" }));
        assert_eq!((step(OpKind::Upsert).sent_bytes(), step(OpKind::Read).sent_bytes()), (3, 0));
        assert!(step(OpKind::Counter).request(false).is_err() && Step::default().request(false).is_err());
    }
}
