//! The store under test, prepared for one check.

use std::time::Duration;

use super::client::Client;
use super::suite::Stop;
use super::time::Time;
use storebench_engine::store::{
    AnyStore, Batch, BulkWrite, Capabilities, CollectionId, CollectionLayout, Durability, Isolation, Layout, Namespace,
    Op, OpKind, PhaseStart, Prepare, ReadConsistency, SessionOptions, StoreError, ViewRows,
};
use storebench_study::workload::Body;

/// The store under test, with empty collections.
pub struct Subject<'a> {
    pub(super) store: &'a dyn AnyStore,
    pub(super) capabilities: Capabilities,
    pub(super) layout: Layout,
    /// JSON without an index.
    pub(super) documents: CollectionId,
    /// JSON, with indexes on `user`, `n` and `flag` if the store has indexes.
    pub(super) indexed: CollectionId,
    blobs: Option<CollectionId>,
    counters: Option<CollectionId>,
    durability: Durability,
    pub(super) consistency: ReadConsistency,
    pub(super) time: Time,
}

impl<'a> Subject<'a> {
    /// Prepares the store from scratch. A store that cannot hold bytes or counters, or has no indexes, gets a layout
    /// without them.
    pub(super) fn prepare(store: &'a dyn AnyStore, time: &Time) -> Result<Self, Stop> {
        match store.inspect().map_err(|e| broken("inspect", &e))? {
            Namespace::Foreign(what) => {
                return Err(Stop::failed(format!(
                    "the store holds {what}, which Storebench did not make; use an empty one"
                )));
            }
            Namespace::Copied(what) => return Err(Stop::failed(format!("the store holds {what}; use an empty one"))),
            Namespace::Absent | Namespace::Ours => {}
        }
        let mut refusal = None;
        for bytes in [true, false] {
            // Preparing may reveal that the server has no indexes. Then the store is prepared without them.
            loop {
                let capabilities = store.capabilities();
                let (counters, indexes) = (capabilities.supports(OpKind::Counter).is_some(), capabilities.indexes);
                let subject = Self::laid_out(store, capabilities, bytes, counters, time.clone())?;
                match store.prepare(&subject.layout, Prepare::Fresh) {
                    Ok(()) => return Ok(Self { capabilities: store.capabilities(), ..subject }),
                    Err(error @ StoreError::NotSupported(_)) => refusal = Some(error),
                    Err(error) => return Err(broken("prepare", &error)),
                }
                if !indexes || store.capabilities().indexes {
                    break;
                }
            }
        }
        Err(Stop::failed(format!("the store refuses every layout of JSON collections: {refusal:?}")))
    }

    fn laid_out(
        store: &'a dyn AnyStore,
        capabilities: Capabilities,
        bytes: bool,
        counters: bool,
        time: Time,
    ) -> Result<Self, Stop> {
        let mut collections = Vec::new();
        let mut add = |name: &str, body, indexes| {
            collections.push(CollectionLayout {
                name: name.into(),
                body,
                indexes,
                existing: None,
                uses: storebench_engine::store::Uses::ALL,
            });
            CollectionId(u16::try_from(collections.len() - 1).unwrap_or(u16::MAX))
        };
        let indexes =
            if capabilities.indexes { ["user", "n", "flag"].map(|f| vec![f.to_owned()]).to_vec() } else { Vec::new() };
        let documents = add("documents", Body::Json, Vec::new());
        let indexed = add("indexed", Body::Json, indexes);
        let blobs = bytes.then(|| add("blobs", Body::Bytes, Vec::new()));
        let counters = counters.then(|| add("counters", Body::Counter, Vec::new()));
        let durability = capabilities
            .durability
            .first()
            .map(|(durability, _)| *durability)
            .ok_or_else(|| Stop::failed("the store guarantees no durability at all, not even `none`"))?;
        if capabilities.consistency.is_empty() {
            return Err(Stop::failed("the store guarantees no read consistency at all, not even `stale-ok`"));
        }
        let consistency = capabilities.default_consistency();
        Ok(Self {
            store,
            capabilities,
            layout: Layout { collections },
            documents,
            indexed,
            blobs,
            counters,
            durability,
            consistency,
            time,
        })
    }

    /// The collection of bytes.
    pub(super) fn blobs(&self) -> Result<CollectionId, Stop> {
        self.blobs.ok_or_else(|| Stop::NotSupported("collections of bytes".into()))
    }

    /// The collection of counters.
    pub(super) fn counters(&self) -> Result<CollectionId, Stop> {
        self.counters.ok_or_else(|| Stop::NotSupported("collections of counters".into()))
    }

    /// The longest key that the suite uses, in bytes.
    pub(super) fn longest_key(&self) -> usize {
        self.capabilities.longest_key_bytes.unwrap_or(250).clamp(2, 250)
    }

    pub(super) fn can(&self, kind: OpKind) -> bool {
        self.capabilities.supports(kind).is_some()
    }

    /// Options of a session: the first declared durability, and the freshest reads.
    pub(super) fn options(&self) -> SessionOptions {
        SessionOptions {
            durability: self.durability,
            consistency: self.consistency,
            timeout: Duration::from_secs(10),
            in_flight: 8,
            clock: self.time.clock(),
            phase_start: PhaseStart::new(),
        }
    }

    /// A session with these options.
    pub(super) fn client(&self) -> Result<Client, Stop> {
        Client::open(self.store, &self.options(), &self.time).map_err(|e| broken("open", &e))
    }

    /// An example operation of this kind, on a collection where it makes sense.
    pub(super) fn example(&self, kind: OpKind) -> (CollectionId, Op<'static>) {
        let key = "never-stored";
        let body = b"{\"a\":1}";
        let none = Batch::default();
        let (documents, indexed) = (self.documents, self.indexed);
        let blobs = self.blobs.unwrap_or(documents);
        match kind {
            OpKind::Insert => (documents, Op::Insert { key, body }),
            OpKind::Upsert => (documents, Op::Upsert { key, body }),
            OpKind::Replace => (documents, Op::Replace { key, body }),
            OpKind::Append => (blobs, Op::Append { key, bytes: b"x" }),
            OpKind::Prepend => (blobs, Op::Prepend { key, bytes: b"x" }),
            OpKind::Read => (documents, Op::Read { key }),
            OpKind::Exists => (documents, Op::Exists { key }),
            OpKind::Delete => (documents, Op::Delete { key }),
            OpKind::Touch => (documents, Op::Touch { key, expiry: Duration::from_secs(60) }),
            OpKind::Counter => (self.counters.unwrap_or(documents), Op::Counter { key, delta: 1, initial: 1 }),
            OpKind::CompareAndSwap => (documents, Op::CompareAndSwap { key, expected: b"1", body }),
            OpKind::MergePatch => (documents, Op::MergePatch { key, patch: body }),
            OpKind::BulkInsert => (documents, Op::BulkWrite { kind: BulkWrite::Insert, items: none }),
            OpKind::BulkUpsert => (documents, Op::BulkWrite { kind: BulkWrite::Upsert, items: none }),
            OpKind::BulkRead => (documents, Op::BulkRead { keys: none }),
            OpKind::BulkDelete => (documents, Op::BulkDelete { keys: none }),
            OpKind::Page => (indexed, Op::Page { field: "user", value: "\"a\"", limit: 1 }),
            OpKind::Prefix => (documents, Op::Prefix { prefix: "a", limit: 1 }),
            OpKind::Scan => (documents, Op::Scan { start: "a", end: None, limit: 1 }),
            OpKind::View => (documents, Op::View { view: "a/b", rows: ViewRows::All, skip: 0, limit: 1 }),
            OpKind::Query => (documents, Op::Query { number: 0, text: "{}", values: none }),
            OpKind::Transaction => {
                let isolation = Isolation::Serializable;
                (documents, Op::Transaction { isolation, steps: &[], rolls_back: false })
            }
        }
    }
}

/// The failure of a control call that must succeed.
pub(super) fn broken(call: &str, error: &StoreError) -> Stop {
    Stop::failed(format!("{call} failed: {error}"))
}
