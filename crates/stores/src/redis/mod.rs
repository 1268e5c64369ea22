//! `redis:` and `rediss:` (TLS): Redis 6 and later, and Valkey; as a single server, with replicas, or as
//! a cluster. A document is a string under `PREFIX:COLLECTION:KEY`.
//!
//! | operation | command |
//! |---|---|
//! | insert, upsert, replace | `SET … NX`, `SET`, `SET … XX` |
//! | read, exists, delete, touch | `GET`, `EXISTS`, `DEL`, `PEXPIRE` |
//! | append, prepend, counter, cas | an atomic script on the server |
//! | merge | the client reads and merges; the script of cas stores the result if the document has not changed |
//! | bulk write and delete | one command for each item, all in one write; each item has its own outcome |
//! | bulk read | `MGET`; in a cluster one `GET` for each key |
//! | prefix, scan | only with `ordered=yes`: a sorted set of keys for each collection |
//!
//! | guarantee | how |
//! |---|---|
//! | `none` | as the server is configured |
//! | `os` | `appendonly yes` with `appendfsync no` or `always`. Refused with `everysec`: during a sync, Redis holds writes back in its process for up to two seconds |
//! | `fsync` | `appendonly yes`, `appendfsync always` and `no-appendfsync-on-rewrite no` |
//! | `acknowledged_by = N` | `WAIT N-1` once after the writes of each flush. Too few replicas in three quarters of the timeout is an *unknown outcome*: the primary has the write |
//!
//! With `replica=HOST:PORT` and consistency `stale-ok`, reads by key go to that replica. All other reads go to primaries,
//! and are strong unless a primary fails over. A failover loses the writes that only the old
//! primary acknowledged. Redis cannot prevent that.
//!
//! # Own wire code
//!
//! The `redis` crate's multiplexed connection takes ownership of each command. It passes the command to its own task
//! through a channel, and the answer comes back through another. That costs allocations and a wake-up for each
//! operation. A session that polls its own socket has neither cost. `storebench-bench --only "servers redis"`
//! compares both with `redis-benchmark` in one run (client CPU for an operation on 1 KiB, 50 connections, two virtual
//! cores; more in `docs/benchmarks.md`):
//!
//! | pipeline | SET: ours, crate, `redis-benchmark` | GET |
//! |---|---|---|
//! | 1 | 8.1, 10.9, 9.8 µs | 7.0, 10.6, 11.6 µs |
//! | 16 | 1.6, 6.1, 1.2 µs | 1.4, 5.2, 1.6 µs |
//! | 64 | 2.2, 6.7, 1.1 µs | 1.0, 5.0, 0.8 µs |

mod answers;
mod cluster;
mod connector;
mod control;
mod errors;
mod facts;
#[cfg(test)]
mod fuzz;
mod namespace;
mod reach;
mod request;
mod resp;
mod sample;
mod scripts;
mod session;
mod settings;
mod settings_reported;
mod stats;
mod study_queries;
mod transactions;
mod walk;

use std::sync::Arc;
use std::time::Duration;

use storebench_engine::store::{
    Account, Capabilities, CollectionId, CollectionLayout, Description, Durability, Explanation, Holdings, Isolation,
    Layout, LocalFuture, Op, OpKind, Persisted, Prepare, ReadConsistency, Request, RowStream, Rows, RowsKind, Runtime,
    SessionOptions, Site as _, Stats, Store, StoreError, StoreSettings, Support, Transactions, prepare, remove,
};
use storebench_study::workload::Language;

use crate::connection::{Link, Ready};
use crate::existing::refuse_fields;
use crate::net::{self, Control, Memo, settled, with_net_options};
use crate::registry::{OptionHelp, Options, Scheme};
use control::PATIENCE;
use facts::Facts;
use namespace::Prefix;
use reach::{Reached, Slots};
use scripts::Script;
use session::{Acknowledge, Acks, Redis, Route};
use settings::Settings;
use study_queries::Reads;
use walk::Walk;

pub(crate) use session::RedisSession;

pub(crate) const SCHEME: Scheme = Scheme {
    name: "redis",
    what: "Redis or Valkey: strings by key, in memory, pipelined",
    example: "redis://127.0.0.1:6379/0",
    options: with_net_options![
        OptionHelp { name: "prefix", meaning: "prefix of all keys, followed by `:` (default storebench)" },
        OptionHelp {
            name: "ordered",
            meaning: "`yes` keeps a sorted set of each collection's keys for prefix and scan; each new document costs \
                      one more write (default no)",
        },
        OptionHelp { name: "cluster", meaning: "`yes`, `no`, or `auto` to ask the server (default auto)" },
        OptionHelp {
            name: "replica",
            meaning: "`HOST:PORT` of a replica that answers reads by key in phases with consistency = \"stale-ok\"",
        },
    ],
    decorator: false,
    aliases: &["rediss"],
};

/// The Redis store.
pub(crate) struct RedisStore {
    settings: Arc<Settings>,
    control: Control,
    facts: Memo<Facts>,
    ready: Memo<Ready>,
    /// Where the slots of a cluster were when its nodes were listed.
    slots: Memo<Slots>,
    /// The commands that only read, by the tries of queries.
    reads: Reads,
}

impl RedisStore {
    /// Reads the URL. Does not connect.
    pub(crate) fn new(url: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        let settings = Arc::new(Settings::read(url, options)?);
        let (facts, ready, slots) = (Memo::default(), Memo::default(), Memo::default());
        Ok(Self { settings, control: Control::default(), facts, ready, slots, reads: Reads::default() })
    }

    /// Connects for a control call.
    async fn reach(&self) -> Result<Reached, StoreError> {
        let reached = Reached::open(&self.settings, PATIENCE).await?;
        self.facts.set(reached.facts.clone());
        Ok(reached)
    }

    fn ready(&self) -> Result<Ready, StoreError> {
        self.ready.prepared(&self.settings.address.shown)
    }
}

impl Store for RedisStore {
    type Session = RedisSession;

    fn describe(&self) -> Description {
        let version = self.facts.get().map_or_else(|| "Redis".to_owned(), |facts| facts.version);
        Description { scheme: SCHEME.name, url: self.settings.address.shown.clone(), version }
    }

    fn capabilities(&self) -> Capabilities {
        // Existing keys of others have no sorted set.
        let theirs = self.ready().is_ok_and(|ready| ready.collections.iter().any(|collection| collection.theirs));
        let ordered = self.settings.ordered && !theirs;
        let facts = self.facts.get();
        let cluster = facts.as_ref().is_some_and(|facts| facts.cluster);
        let support = |kind: OpKind| {
            Some(match kind {
                OpKind::Page | OpKind::View => return None,
                OpKind::Query | OpKind::Transaction if cluster => return None,
                OpKind::Transaction => Support::Approximated(
                    "MULTI, the commands and EXEC, in one write; if a command fails, Redis does not undo the others",
                ),
                OpKind::Prefix | OpKind::Scan if !ordered => return None,
                OpKind::Prefix | OpKind::Scan => Support::Approximated(
                    "a script reads the documents by a sorted set of their keys, which Storebench keeps for each \
                     collection",
                ),
                OpKind::Append => Support::Approximated("a script that appends if the key exists"),
                OpKind::Prepend => Support::Approximated("a script that reads the value and writes it back"),
                OpKind::Counter => {
                    Support::Approximated("a script that sets the initial value, or runs INCRBY and GET")
                }
                OpKind::CompareAndSwap => Support::Approximated(
                    "a script that compares the complete stored document, which the client sends again; a change that \
                     was reverted goes undetected (ABA)",
                ),
                OpKind::MergePatch => Support::Approximated(
                    "the client reads and merges; a script stores the result if the document has not changed, or else \
                     the client starts over",
                ),
                OpKind::BulkInsert | OpKind::BulkUpsert if ordered => {
                    Support::Approximated("one script per document, all in one write; no transaction")
                }
                OpKind::BulkInsert | OpKind::BulkUpsert => {
                    Support::Approximated("one SET per document, all in one write; no transaction")
                }
                OpKind::BulkDelete => Support::Approximated("one DEL per key, all in one write; no transaction"),
                OpKind::BulkRead if cluster => {
                    Support::Approximated("one GET per key, in one write to each node that has some of them")
                }
                OpKind::Insert | OpKind::Upsert | OpKind::Delete if ordered => {
                    Support::Approximated("a script that also updates the sorted set of keys")
                }
                _ => Support::Native,
            })
        };
        Capabilities {
            operations: OpKind::ALL.into_iter().filter_map(|kind| Some((kind, support(kind)?))).collect(),
            durability: facts.as_ref().map_or_else(facts::possible, Facts::guarantees),
            shipped_durability: Durability::MEMORY,
            consistency: vec![
                match self.settings.replica {
                    Some(_) => (ReadConsistency::StaleOk, "reads by key go to the replica that the URL names"),
                    None => (ReadConsistency::StaleOk, "same as strong"),
                },
                (ReadConsistency::Session, "same as strong"),
                (
                    ReadConsistency::Strong,
                    "reads go to the primary; a failover loses the writes that only the old primary had",
                ),
            ],
            transactions: Transactions {
                isolation: vec![(Isolation::Serializable, "MULTI and EXEC: no other command runs in between")],
                steps: transactions::STEPS,
                rolls_back: false,
                waits_for_nodes: false,
                ..Transactions::default()
            },
            gives_up_at_timeout: true,
            rows: &[RowsKind::Walk],
            language: (!cluster).then_some(Language::Redis),
            notes: vec![
                "The available guarantees depend on appendonly, appendfsync and the connected replicas. Until \
                 Storebench has queried the server, all levels are listed.",
                "A server with a maxmemory-policy other than noeviction may drop documents: see evicted_keys.",
                "An upsert or replace removes the expiry that a touch has set.",
            ],
            ..Capabilities::default()
        }
    }

    fn runtime(&self) -> Runtime {
        Runtime::Reactor
    }

    fn answers(&self) -> Result<(), StoreError> {
        self.control.block_on(async { self.reach().await.map(drop) })
    }

    fn holdings(&self) -> Result<Holdings, StoreError> {
        let settings = &self.settings;
        self.control.block_on(async { Prefix { reached: &mut self.reach().await?, settings }.look().await })
    }

    fn full_name(&self, collection: &CollectionLayout) -> String {
        String::from_utf8_lossy(&namespace::collection(&self.settings, collection).prefix).into_owned()
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        refuse_fields("Redis", layout)?;
        self.control.block_on(async {
            let mut site = Prefix { reached: &mut self.reach().await?, settings: &self.settings };
            match how {
                Prepare::WriteExisting => site.refuse_ours(layout).await,
                Prepare::ReadOnly => site.marker().await?.check_there(&site, layout),
                how => prepare(&mut site, layout, how).await,
            }
        })?;
        let collections = layout.collections.iter().map(|layout| namespace::collection(&self.settings, layout));
        self.ready.set(Ready { collections: collections.collect(), read_only: how == Prepare::ReadOnly });
        Ok(())
    }

    async fn open(&self, options: &SessionOptions) -> Result<RedisSession, StoreError> {
        let ready = self.ready()?;
        let reached = Reached::open(&self.settings, PATIENCE.max(options.timeout)).await?;
        let (replicas, persisted) = match ready.read_only {
            true => (0, Persisted::None),
            false => {
                let host = self.settings.address.host().to_string();
                (reached.facts.waits_for(options.durability, &host)?, options.durability.persisted)
            }
        };
        // Shorter than the operation's timeout, so that the server's own answer comes first.
        let within_ms = u64::try_from(options.timeout.as_millis() * 3 / 4).unwrap_or(u64::MAX).max(1);
        let cluster = reached.map.is_some();
        let (mut names, mut links, mut hosts) = (None, Vec::new(), Vec::new());
        for mut connection in reached.nodes {
            names = Some(connector::load(&mut connection, &self.settings).await?);
            let connect = connector::again(&self.settings, &connection.host, cluster, persisted);
            hosts.push(connection.host.clone());
            links.push(Link::connected(connection.into_stream()?, connect, options.in_flight, options.timeout));
        }
        let replica = self.settings.replica.as_ref().filter(|_| options.consistency == ReadConsistency::StaleOk);
        if let Some(host) = replica {
            if cluster {
                return Err(StoreError::BadUrl("`replica` does not work with a cluster; remove it".into()));
            }
            let stream = connector::replica(&self.settings, host, PATIENCE).await?.into_stream()?;
            let connect = connector::replica_again(&self.settings, host);
            links.push(Link::connected(stream, connect, options.in_flight, options.timeout));
        }
        let dialect = Redis {
            settings: Arc::clone(&self.settings),
            names: names.unwrap_or_default(),
            largest_bytes: reached.facts.largest_bytes,
            window: options.in_flight,
            timeout: options.timeout,
            persisted,
            acknowledge: (replicas > 0).then_some(Acknowledge { replicas, within_ms }),
            acks: links.iter().map(|_| Acks::default()).collect(),
            replica: replica.is_some(),
            queries: Default::default(),
            reads: Arc::clone(&self.reads),
            transactions: Default::default(),
            found: Default::default(),
            route: reached.map.as_ref().map(|_| Route { hosts, slots: vec![0; cluster::SLOTS], asking: false }),
        };
        let mut session = RedisSession::new(dialect, ready.collections, ready.read_only, links);
        if let Some(map) = reached.map {
            session.set_map(&map);
        }
        Ok(session)
    }

    fn settle(&self, at_most: Duration) -> Result<bool, StoreError> {
        self.control.block_on(async {
            let mut reached = self.reach().await?;
            settled(at_most, Duration::from_millis(20), async || stats::is_settled(&mut reached).await).await
        })
    }

    fn stats(&self) -> Result<Stats, StoreError> {
        self.control.block_on(async { stats::stats(&mut self.reach().await?).await })
    }

    fn own_settings(&self) -> Result<StoreSettings, StoreError> {
        self.control.block_on(async { settings_reported::ask(&mut self.reach().await?).await })
    }

    fn sample_keys(&self, collection: CollectionId, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError> {
        let ready = self.ready()?;
        let collection = net::collection(&ready.collections, collection)?;
        self.control.block_on(async { sample::keys(&mut self.reach().await?, collection, at_most, seed).await })
    }

    fn account(&self, _collection: CollectionId) -> Result<Account, StoreError> {
        self.control.block_on(async { stats::account(&mut self.reach().await?, &self.settings).await })
    }

    fn parts(&self) -> Result<Vec<String>, StoreError> {
        self.control.block_on(async {
            let mut reached = self.reach().await?;
            if let (Some(_), Some(connection)) = (&reached.map, reached.nodes.first_mut()) {
                self.slots.set(Slots::ask(connection).await?);
            }
            Ok(reached.nodes.iter().map(|node| node.host.to_string()).collect())
        })
    }

    fn rows<'a>(&'a self, rows: Rows<'a>) -> LocalFuture<'a, Result<Box<dyn RowStream>, StoreError>> {
        Box::pin(async move {
            let Rows::Walk { collection, part } = rows else {
                return Err(StoreError::NotSupported("Redis has no queries".into()));
            };
            let ready = self.ready()?;
            let collection = net::collection(&ready.collections, collection)?;
            let reached = Reached::open(&self.settings, PATIENCE).await?;
            let node = reached.nodes.into_iter().find(|node| node.host.to_string() == part);
            let is_cluster = reached.map.is_some();
            let mut connection = node.ok_or_else(|| {
                StoreError::Failed(format!("the node {part} no longer serves keys; start the copy over"))
            })?;
            let slots = match self.slots.get() {
                None if is_cluster => Some(Slots::ask(&mut connection).await?),
                slots => slots,
            };
            Ok(Box::new(Walk::new(Arc::clone(&self.settings), connection, collection, slots)) as Box<dyn RowStream>)
        })
    }

    fn try_query(&self, request: &Request<'_>) -> Result<(), StoreError> {
        let Op::Query { text, values, .. } = request.op else { return Ok(()) };
        let ready = self.ready()?;
        let collection = net::collection(&ready.collections, request.collection)?;
        self.control.block_on(async {
            let mut reached = self.reach().await?;
            let Some(connection) = reached.nodes.first_mut() else { return Ok(()) };
            study_queries::try_it(connection, collection, text, values, &self.reads).await
        })
    }

    fn explain(&self, request: &Request<'_>) -> Result<Option<Explanation>, StoreError> {
        let everything = match request.op {
            Op::Prefix { prefix, .. } => prefix.is_empty(),
            Op::Scan { start, end, .. } => start.is_empty() && end.is_none(),
            _ => return Ok(None),
        };
        let ready = self.ready()?;
        let order = ready.collections.get(request.collection.position()).and_then(|c| c.order.as_ref());
        Ok(order.map(|order| Explanation {
            plan: format!(
                "ZRANGEBYLEX {} from the first key, up to the limit; GET each key\n{}",
                String::from_utf8_lossy(order),
                Script::OrderedRange.text()
            ),
            full_scan: everything,
        }))
    }

    fn close(&self) -> Result<(), StoreError> {
        self.ready.take();
        Ok(())
    }

    fn remove(&self) -> Result<(), StoreError> {
        self.ready.take();
        let settings = &self.settings;
        self.control.block_on(async { remove(&mut Prefix { reached: &mut self.reach().await?, settings }).await })
    }
}
