//! `cassandra://HOST,HOST`: Apache Cassandra 4.0 and newer, and ScyllaDB, over the official client of ScyllaDB, which
//! sends each statement to a node that holds its document.
//!
//! A study's collections are tables of one keyspace, `storebench` unless `keyspace=` names another ([`table`]).
//!
//! # Guarantees
//! A durability is a consistency level of writes: `ONE`, `QUORUM` (`LOCAL_QUORUM` with `datacenter=`) or `ALL`. Nodes
//! acknowledge a write before they sync their commit log, unless `commitlog_sync` is `batch` or `group` on each of
//! them, so else nothing is guaranteed to be on disk. Not even a crash of the process is survived: what is in the
//! commit log behind its last marker, which is written every 100 ms, is not read again. (A `kill -9` of Cassandra 5.0.5
//! lost the last 14 of 1,943 acknowledged writes.)
//!
//! # Two kinds of writes
//! Upserts are plain writes: of two, the one with the later timestamp stays. Timestamps come from the node that
//! coordinates a write. Timestamps of the client would be behind those of lightweight transactions if its clock is, and
//! an acknowledged upsert would then be lost. Everything with a condition (insert, replace, delete, cas, and what reads
//! before it writes) is a lightweight transaction. Cassandra orders these among themselves by consensus, but not with
//! plain writes: an upsert at the same time may overwrite what a condition was true for. `writes=lwt` makes upserts
//! lightweight transactions too.

mod errors;
mod figures;
mod form;
mod layout;
mod link;
mod operations;
mod rows;
mod server;
mod session;
mod settings;
mod study_queries;
mod table;
mod values;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use storebench_engine::store::{
    Capabilities, CollectionId, CollectionLayout, Description, Holdings, Layout, LocalFuture, Op, OpKind, Prepare,
    Request, RowStream, Rows, RowsKind, Runtime, SameKeys, SessionOptions, Site as _, Stats, Store, StoreError,
    StoreSettings, Support, prepare, remove,
};
use storebench_study::workload::Language;

use crate::net::{self, Control, Memo, settled, with_net_options};
use crate::registry::{OptionHelp, Options, Scheme};
use layout::{Keyspace, is_ours};
use link::Link;
use server::{CONSISTENCY, Facts};
pub(crate) use session::CqlSession;
use settings::{Settings, table_name};
use table::Table;

pub(crate) const SCHEME: Scheme = Scheme {
    name: "cassandra",
    aliases: &["cassandras", "scylladb", "cql"],
    what: "Apache Cassandra 4.0 or later and ScyllaDB, through the official client of ScyllaDB",
    example: "cassandra://127.0.0.1:9042",
    options: with_net_options![
        OptionHelp { name: "keyspace", meaning: "keyspace that contains the collections (default storebench)" },
        OptionHelp {
            name: "replication",
            meaning: "replicas of a keyspace that Storebench creates: a number, or one for each data centre, such as \
                      dc1:3,dc2:2 (default 1)",
        },
        OptionHelp {
            name: "datacenter",
            meaning: "data centre whose nodes are asked and whose replicas acknowledge: LOCAL_ONE, LOCAL_QUORUM and \
                      LOCAL_SERIAL (default: all of them)",
        },
        OptionHelp {
            name: "writes",
            meaning: "`plain` (default) upserts without a condition; `lwt` upserts by lightweight transactions, which \
                      are linearizable with the other writes",
        },
    ],
    decorator: false,
};

/// How often settling polls.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The least time that a session's connection may be silent before it counts as lost.
const LEAST_SILENCE: Duration = Duration::from_secs(1);

/// The keyspaces of tables, each once.
fn keyspaces(tables: &[Table]) -> BTreeSet<&str> {
    tables.iter().map(|table| &*table.keyspace).collect()
}

pub(crate) struct CqlStore {
    settings: Arc<Settings>,
    control: Control,
    /// The client of control calls. It is kept, because it asks a cluster much when it begins.
    kept: Memo<Link>,
    facts: Memo<Facts>,
    /// The tables of the layout that was prepared.
    ready: Memo<Arc<Vec<Table>>>,
}

impl CqlStore {
    /// Parses the URL, without connecting.
    pub(crate) fn new(url: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            settings: Arc::new(Settings::read(url, options)?),
            control: Control::default(),
            kept: Memo::default(),
            facts: Memo::default(),
            ready: Memo::default(),
        })
    }

    /// Runs a control call over the kept client, or over a new one if there is none or if it has lost its nodes.
    fn with_link<T>(&self, call: impl AsyncFn(&Link) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.control.block_on(async {
            if let Some(link) = self.kept.take() {
                let answer = call(&link).await;
                if !matches!(answer, Err(StoreError::Unreachable(_))) {
                    self.kept.set(link);
                    return answer;
                }
            }
            let link = Link::control(&self.settings).await?;
            let answer = call(&link).await;
            self.kept.set(link);
            answer
        })
    }

    /// Learns what the cluster is.
    async fn learn(&self, link: &Link) -> Result<Facts, StoreError> {
        let tables = self.ready.get();
        let keyspaces = tables.as_ref().map_or_else(|| [&*self.settings.keyspace].into(), |tables| keyspaces(tables));
        let facts = Facts::ask(link, &self.settings, &keyspaces).await?;
        self.facts.set(facts.clone());
        Ok(facts)
    }

    /// The keyspace and the name of a table. One of another program is `keyspace.table`, or `table` in the keyspace of
    /// the URL.
    fn place<'a>(&'a self, collection: &'a CollectionLayout) -> (&'a str, Cow<'a, str>) {
        let Some(existing) = &collection.existing else {
            return (&self.settings.keyspace, table_name(&collection.name));
        };
        let (keyspace, name) = existing.name.split_once('.').unwrap_or((&self.settings.keyspace, &existing.name));
        (keyspace, name.into())
    }

    async fn prepare_now(&self, link: &Link, layout: &Layout, how: Prepare) -> Result<Vec<Table>, StoreError> {
        let facts = self.learn(link).await?;
        let mut keyspace = Keyspace::new(link, &self.settings, facts.sai);
        if how.makes_nothing() {
            let found = keyspace.look().await?;
            found.check_made(&keyspace, layout)?;
            let existing = layout.collections.iter().filter(|collection| collection.existing.is_some());
            for collection in existing.filter(|_| how == Prepare::WriteExisting) {
                let (of, name) = self.place(collection);
                let there = Settings { keyspace: of.to_owned(), ..(*self.settings).clone() };
                let mut keyspace = Keyspace::new(link, &there, facts.sai);
                let found = keyspace.look().await?;
                if is_ours(&found, &name) {
                    return Err(found.not_theirs(&keyspace.shown(), &name));
                }
            }
        } else {
            prepare(&mut keyspace, layout, how).await?;
        }
        let mut tables = Vec::new();
        for collection in &layout.collections {
            let (keyspace, name) = self.place(collection);
            tables.push(match &collection.existing {
                Some(existing) => {
                    let write = how == Prepare::WriteExisting;
                    let user = self.settings.address.user.as_deref();
                    Table::theirs(link, user, (keyspace, &name), existing, collection.body, write).await?
                }
                None => {
                    let fields = table::fields(link, keyspace, &name).await?;
                    Table::ours(keyspace, &name, collection.body, how == Prepare::ReadOnly, fields)
                }
            });
        }
        Ok(tables)
    }

    fn table(&self, collection: CollectionId) -> Result<Table, StoreError> {
        net::collection(&self.ready.prepared(&self.settings.address.shown)?, collection).cloned()
    }
}

const BULK: &str = "one statement per item, up to 64 at once; if a key is repeated, each of its items waits for the \
                    one before; each succeeds or fails independently. Batches would help only within a partition, \
                    and each document is one";
const READS: &str = "reads the document and writes the next one, or the same one with a TTL in whole seconds, by a \
                     lightweight transaction, again while others write in between";
const NO_ORDER: &str = "Cassandra keeps documents in the order of hashes of their keys";

impl Store for CqlStore {
    type Session = CqlSession;

    fn describe(&self) -> Description {
        let version =
            self.facts.get().map_or_else(|| "Apache Cassandra, not asked yet".to_owned(), |facts| facts.version);
        Description { scheme: SCHEME.name, url: self.settings.address.shown.clone(), version }
    }

    fn capabilities(&self) -> Capabilities {
        let ready = self.ready.get();
        let any = |of: fn(&Table) -> bool| ready.iter().flat_map(|tables| tables.iter()).any(of);
        let (theirs, rows) = (any(|table| table.theirs), any(Table::is_rows));
        let lwt = self.settings.all_lwt;
        let support = |kind| {
            Some(match kind {
                OpKind::Prefix | OpKind::Scan | OpKind::View | OpKind::Transaction => return None,
                // Columns of others have times of their own.
                OpKind::Touch if theirs => return None,
                OpKind::CompareAndSwap if rows => return None,
                OpKind::CompareAndSwap => Support::Approximated(
                    "a lightweight transaction that compares the document itself, so it does not see a change that was \
                     reverted",
                ),
                OpKind::Append | OpKind::Prepend | OpKind::Counter | OpKind::MergePatch => Support::Approximated(READS),
                OpKind::Touch => Support::Approximated(READS),
                OpKind::Upsert if lwt => {
                    Support::Approximated("a lightweight transaction whose condition is always true (writes=lwt)")
                }
                OpKind::BulkInsert | OpKind::BulkUpsert => Support::Approximated(BULK),
                OpKind::BulkRead | OpKind::BulkDelete => Support::Approximated(BULK),
                _ => Support::Native,
            })
        };
        let asked = self.facts.get();
        let may_be = asked.clone().map_or_else(|| Facts::not_asked(&self.settings), |facts| vec![facts]);
        let durability: Vec<_> = may_be.iter().flat_map(Facts::durability).collect();
        let shipped_durability = durability.first().map(|(level, ..)| *level).unwrap_or_default();
        Capabilities {
            operations: OpKind::ALL.into_iter().filter_map(|kind| Some((kind, support(kind)?))).collect(),
            why_not: vec![(OpKind::Prefix, NO_ORDER), (OpKind::Scan, NO_ORDER)],
            durability: durability.into_iter().map(|(level, _, text)| (level, text)).collect(),
            why_no_more: asked.and_then(|facts| facts.not_synced),
            shipped_durability,
            consistency: CONSISTENCY.to_vec(),
            indexes: true,
            gives_up_at_timeout: true,
            rows: &[RowsKind::Range],
            language: Some(Language::Cassandra),
            notes: NOTES.to_vec(),
            ..Capabilities::default()
        }
    }

    fn runtime(&self) -> Runtime {
        Runtime::Reactor
    }

    fn answers(&self) -> Result<(), StoreError> {
        self.with_link(async |link| self.learn(link).await.map(drop))
    }

    fn holdings(&self) -> Result<Holdings, StoreError> {
        self.with_link(async |link| {
            self.learn(link).await?;
            Keyspace::new(link, &self.settings, false).look().await
        })
    }

    fn full_name(&self, collection: &CollectionLayout) -> String {
        let (keyspace, name) = self.place(collection);
        format!("{keyspace}.{name}")
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        self.ready.take();
        self.with_link(async |link| {
            self.ready.set(Arc::new(self.prepare_now(link, layout, how).await?));
            // The keyspace may be another one now, or have been created.
            self.learn(link).await.map(drop)
        })
    }

    async fn open(&self, options: &SessionOptions) -> Result<CqlSession, StoreError> {
        let tables = self.ready.prepared(&self.settings.address.shown)?;
        // The engine gives operations up.
        let link = Link::open(&self.settings, options.timeout.max(LEAST_SILENCE), None).await?;
        // Replication and settings may have changed.
        let facts = self.learn(&link).await?;
        let levels = facts.durability();
        let Some((_, writes, _)) = levels.iter().find(|(offered, ..)| *offered == options.durability) else {
            let why = facts.not_synced.map(|why| format!(", because {why}")).unwrap_or_default();
            return Err(StoreError::NotSupported(format!(
                "{} cannot guarantee durability `{}`{why}",
                self.settings.address.shown, options.durability
            )));
        };
        let reads = facts.read_level(options.consistency, *writes);
        session::open(link, &self.settings, &tables, (reads, *writes)).await
    }

    fn settle(&self, at_most: Duration) -> Result<bool, StoreError> {
        if self.ready.get().is_some_and(|tables| tables.iter().all(|table| table.read_only)) {
            return Ok(true);
        }
        self.with_link(async |link| settled(at_most, LOOK_EVERY, async || Ok(figures::is_idle(link).await)).await)
    }

    fn stats(&self) -> Result<Stats, StoreError> {
        let tables = self.ready.get().unwrap_or_default();
        self.with_link(async |link| figures::statistics(link, &keyspaces(&tables)).await)
    }

    fn own_settings(&self) -> Result<StoreSettings, StoreError> {
        self.with_link(async |link| figures::settings(link, &self.settings).await)
    }

    fn sample_keys(&self, collection: CollectionId, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError> {
        let table = self.table(collection)?;
        if !self.facts.get().is_some_and(|facts| facts.murmur) {
            return Err(StoreError::NotSupported("keys are only listed by tokens of Murmur3Partitioner".into()));
        }
        self.with_link(async |link| rows::sample(link, &table, at_most, seed).await)
    }

    fn cuts(&self, _collection: CollectionId, ranges: usize) -> Result<Vec<String>, StoreError> {
        Ok(if self.facts.get().is_some_and(|facts| facts.murmur) { rows::cuts(ranges) } else { Vec::new() })
    }

    fn range_order(&self, _collection: CollectionId) -> Option<String> {
        Some(rows::ORDER.to_owned())
    }

    fn same_keys(&self, collection: CollectionId) -> SameKeys {
        self.table(collection).map_or(SameKeys::Exact, |table| table.same_keys)
    }

    fn rows<'a>(&'a self, rows: Rows<'a>) -> LocalFuture<'a, Result<Box<dyn RowStream>, StoreError>> {
        Box::pin(async move {
            let Rows::Range { collection, start, end } = rows else {
                return Err(StoreError::NotSupported("Cassandra is read by ranges of tokens".into()));
            };
            let range = rows::Range::new(Arc::clone(&self.settings), self.table(collection)?, start, end)?;
            Ok(Box::new(range) as Box<dyn RowStream>)
        })
    }

    fn try_query(&self, request: &Request<'_>) -> Result<(), StoreError> {
        let Op::Query { text, values, .. } = request.op else { return Ok(()) };
        let table = self.table(request.collection)?;
        self.with_link(async |link| study_queries::try_it(link, &table, text, values).await)
    }

    fn close(&self) -> Result<(), StoreError> {
        self.ready.take();
        // Dropped inside the runtime to which its tasks belong.
        self.control.block_on(async {
            drop(self.kept.take());
            Ok(())
        })
    }

    fn remove(&self) -> Result<(), StoreError> {
        self.ready.take();
        self.with_link(async |link| remove(&mut Keyspace::new(link, &self.settings, false)).await)
    }
}

const NOTES: &[&str] = &[
    "Prefix and scan are refused, because Cassandra keeps documents in the order of hashes of their keys. Copies read \
     ranges of these, at QUORUM: what was acknowledged by fewer replicas may be missing until `nodetool repair` has run.",
    "Insert, replace, delete, cas, and what reads before it writes are lightweight transactions. They are linearizable \
     among themselves, but not with upserts on the same keys: use writes=lwt if a study has both.",
    "Of two plain writes the one with the later timestamp stays. The node that coordinates a write gives it its \
     timestamp, so the order of writes depends on how well the nodes' clocks agree. What others wrote or deleted with a \
     timestamp in the future hides what is written over it: copies find that with --verify.",
    "Keys have 1 to 65,535 bytes. A request has at most the server's native_transport_max_frame_size or half of \
     commitlog_segment_size, 12 to 16 MB as shipped.",
    "An index is on a column that the driver fills with the field's value. A document that lacks the field writes a \
     tombstone into it, unless it is inserted.",
    "Of somebody else's table, a document is the named column, or the whole row as JSON, each column as toJson() gives \
     it: blobs as 0x…, times (before the year 1 with a minus: -0001), UUIDs and addresses as text, sets and tuples as arrays, maps and user-defined types as \
     objects. Elements of collections lose their own TTL. A row expires if all of its columns tell that they do, which \
     collections do not; else it is copied without an expiry. Static columns are repeated in each row. A row with NaN or an \
     infinite number is an error, but not within tuples and user-defined types, where it is null. Of a time in a \
     collection or another type, the server tells no years before 1. Rows can only \
     be read.",
    "A key of several columns is a JSON array of them.",
    "A table has at most 48 letters, digits and `_` in its name. A collection with another name, such as users-books, is a \
     table with a hash behind its name.",
    "Cassandra keeps a snapshot of a dropped table on disk, unless auto_snapshot is off.",
    "A lost connection is counted when an operation finds it lost. A session opens one connection to each node, and \
     one more for the cluster's state.",
    "Statistics and settling tell of the node that answers. Settings tell of each node.",
];
