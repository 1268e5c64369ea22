//! `couchbase://USER:PASSWORD@HOST,HOST/BUCKET`: Couchbase Server 7.0 and newer; of older servers and mocks that lack
//! collections, durable writes or writes that keep an expiry ([`features`]), whatever does not need these. Operations on
//! documents go over connections of the driver's own (`kv`), queries and management through the official crate.
//!
//! A study's collections are collections of one scope, `storebench` unless `scope=` names another.
//!
//! | guarantee | durability level |
//! |---|---|
//! | `none` | none |
//! | `majority`; acknowledged by 2 | majority |
//! | acknowledged by majority, on disk on 1 | majorityAndPersistToActive |
//! | acknowledged by majority or 2, on disk on 2 | persistToMajority |
//!
//! With one or two replicas a majority of the copies is exactly two. The server makes no durable writes with three
//! replicas, or with fewer data nodes than a majority needs. Only `none` is offered then. `fsync` is offered only on a
//! bucket without replicas, since no level means exactly that on others. The server gives up a durable write a little
//! before the operation's timeout, and such a write is *outcome unknown*.
//!
//! Reads of keys go to the active copy, so they are always strong. Queries wait for their index (`request_plus`),
//! except with `stale-ok`. Waiting only for a session's own writes (`at_plus`) would cost a mutation token on every
//! write, so `session` waits like `strong`.
//!
//! # Why not the crate for everything
//! The crate (`couchbase` 1.1) uses 15 to 57 µs of CPU time per operation against a mock; the driver's own connections cost
//! a fraction of that (`storebench-bench --only "servers couchbase"` measures both in one run). A client that costs more
//! than the server's work measures itself.
//!
//! # How the driver works around problems of the crate
//! - It retries a login forever and does not say why it fails: `probe` first logs in once by hand.
//! - It panics on some answers that no real server gives: the panics are caught.
//! - It has no key-range scans and no views. Key ranges use SQL++ over a primary index, and views the HTTP interface of
//!   the view engine. The server has deprecated views, and has them only for the default collection, which Storebench
//!   reads (`existing`) but never writes.

mod durability;
mod errors;
mod features;
mod indexes;
mod kv;
mod layout;
mod link;
mod management;
mod operations;
mod probe;
mod queries;
mod session;
mod settings;
mod settings_reported;
mod tasks;
mod topology;
mod views;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join;
use serde_json::Value;
use storebench_engine::store::{
    BuiltIndex, Capabilities, CollectionId, CollectionLayout, Description, Durability, ErrorKind, Explanation,
    Holdings, Layout, Op, OpError, OpKind, Prepare, ReadConsistency, Request, Runtime, SessionOptions, Site as _,
    Stats, Store, StoreError, StoreSettings, Support, prepare, remove,
};
use storebench_study::workload::{Body, Language};

use crate::net::{self, Control, Memo, places, settled, with_net_options};
use crate::registry::{OptionHelp, Options, Scheme};
use durability::Copies;
use features::{KEEPS_NO_EXPIRY, NO_COLLECTIONS};
use layout::{DEFAULT, Scope};
use link::Link;
use management::Management;
pub(crate) use session::CouchbaseSession;
use settings::Settings;
use topology::Topology;

pub(crate) const SCHEME: Scheme = Scheme {
    name: "couchbase",
    aliases: &["couchbases"],
    what: "Couchbase Server 7.0 or later: documents over Storebench's own connections, the rest through the official client",
    example: "couchbase://user:password@127.0.0.1/bucket",
    options: with_net_options![
        OptionHelp { name: "scope", meaning: "scope that contains the collections (default storebench)" },
        OptionHelp {
            name: "keys",
            meaning: "`index` (default) creates a primary index where prefix and scan need one, and everywhere if written out; `none` does not"
        },
        OptionHelp {
            name: "compression",
            meaning: "compression of the documents sent: `none` (default), or `snappy` for those of more than 32 bytes that \
                      shrink to 83 % or less, as the official clients do it"
        },
    ],
    decorator: false,
};

/// Timeout of a control query.
const QUERY_PATIENCE: Duration = Duration::from_secs(60);
/// How often settling and compacting poll.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The number of places in key order from which sampled keys are read.
const SAMPLE_PLACES: u64 = 32;

/// The result of `prepare`.
#[derive(Debug, Clone)]
struct Ready {
    /// Scope, name and body of each collection.
    collections: Vec<(String, String, Body)>,
    read_only: bool,
    ours: bool,
}

pub(crate) struct CouchbaseStore {
    settings: Arc<Settings>,
    control: Control,
    topology: Memo<Topology>,
    version: Memo<String>,
    /// Why queries are not answered, if that was found.
    no_queries: Memo<String>,
    ready: Memo<Ready>,
}

impl CouchbaseStore {
    /// Parses the URL, without connecting.
    pub(crate) fn new(url: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        let settings = Arc::new(Settings::read(url, options)?);
        Ok(Self {
            settings,
            control: Control::default(),
            topology: Memo::default(),
            version: Memo::default(),
            no_queries: Memo::default(),
            ready: Memo::default(),
        })
    }

    /// The first contact: finds the nodes, and checks the version.
    async fn contact(&self) -> Result<Topology, StoreError> {
        let topology = probe::probe(&self.settings).await?;
        self.version.set(Management::new(&self.settings, &topology)?.version().await?);
        if !topology.features.collections {
            self.no_queries.set(NO_COLLECTIONS.to_owned());
        }
        self.topology.set(topology.clone());
        Ok(topology)
    }

    /// Runs a control call on new connections.
    fn with_link<T>(&self, call: impl AsyncFnOnce(&Link, &Topology) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.control.block_on(async {
            let topology = self.contact().await?;
            let link = Link::open(&self.settings, &topology).await?;
            call(&link, &topology).await
        })
    }

    /// Calls the management API.
    fn manage<T>(&self, call: impl AsyncFnOnce(&Management<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.control.block_on(async {
            let topology = match self.topology.get() {
                Some(topology) => topology,
                None => self.contact().await?,
            };
            call(&Management::new(&self.settings, &topology)?).await
        })
    }

    /// Whether each collection gets a primary index. If no queries are answered, this fails only for what the user
    /// asked for.
    async fn may_make_indexes(&self, topology: &Topology, layout: &Layout, how: Prepare) -> Result<bool, StoreError> {
        let wanted = layout.collections.iter().find(|collection| !collection.indexes.is_empty());
        let key_index = layout.collections.iter().any(|collection| layout::needs_key_index(&self.settings, collection));
        if how.makes_nothing() || (wanted.is_none() && !key_index) {
            return Ok(self.settings.key_index);
        }
        let lacking = Management::new(&self.settings, topology)?.lacks_queries(topology).await?;
        let Some(why) = lacking else {
            self.no_queries.take();
            return Ok(self.settings.key_index);
        };
        self.no_queries.set(why.clone());
        let remedy = match wanted {
            Some(collection) => format!("the indexes of `{}` need it; leave them out", collection.name),
            None if self.settings.key_index_asked => "keys=index needs it; use keys=none".to_owned(),
            None => return Ok(false),
        };
        Err(StoreError::NotSupported(format!(
            "bucket `{}`: {why}; {remedy}, or add the service to a node",
            self.settings.bucket
        )))
    }

    fn ready(&self) -> Result<Ready, StoreError> {
        self.ready.prepared(&self.settings.address.shown)
    }

    /// Scope, name and body of a prepared collection.
    fn collection(&self, id: CollectionId) -> Result<(String, String, Body), StoreError> {
        net::collection(&self.ready()?.collections, id).cloned()
    }
}

/// The server allows 250 bytes, of which the number of the collection takes up to four.
const LONGEST_KEY_BYTES: usize = 246;
/// The same in the default collection.
const LONGEST_DEFAULT_KEY_BYTES: usize = 250;

/// Why a query could not be tried.
fn not_run(error: OpError) -> StoreError {
    match error.kind {
        ErrorKind::Refused => StoreError::NotSupported(error.message.into_owned()),
        ErrorKind::Temporary => StoreError::Unreachable(error.message.into_owned()),
        _ => StoreError::Failed(error.message.into_owned()),
    }
}

impl Store for CouchbaseStore {
    type Session = CouchbaseSession;

    fn describe(&self) -> Description {
        let version = self.version.get().unwrap_or_else(|| "not asked yet".into());
        Description {
            scheme: SCHEME.name,
            url: self.settings.address.shown.clone(),
            version: format!("Couchbase Server {version}"),
        }
    }

    fn capabilities(&self) -> Capabilities {
        let by_query = "a SQL++ query over the primary index (keys=index)";
        let bulk = "one request per item, all sent at once; if a key is repeated, each of its items waits for the one before; each succeeds or fails independently";
        let merge =
            "sub-document writes for a patch of up to 16 top-level members; a compare-and-swap loop for other patches";
        let queries = self.no_queries.get().is_none();
        let topology = self.topology.get();
        let keeps_expiry = topology.as_ref().is_none_or(|topology| topology.features.keeps_expiry);
        let copies = topology.map(|topology| topology.copies());
        let support = |kind| match kind {
            OpKind::View => Some(Support::Approximated(
                "rows from the view engine, for the default collection only; then their documents by key",
            )),
            OpKind::Transaction => None,
            // Decrements and negative values of counters are written with the expiry that they have.
            OpKind::Counter | OpKind::MergePatch if !keeps_expiry => None,
            OpKind::Page | OpKind::Query if !queries => None,
            OpKind::Prefix | OpKind::Scan if !queries || !self.settings.key_index => None,
            OpKind::Prefix | OpKind::Scan => Some(Support::Approximated(by_query)),
            OpKind::BulkInsert | OpKind::BulkUpsert | OpKind::BulkRead | OpKind::BulkDelete => {
                Some(Support::Approximated(bulk))
            }
            OpKind::Counter => Some(Support::Approximated(
                "increments use the server's counters, which are unsigned; decrements and negative values use a \
                 compare-and-swap loop",
            )),
            OpKind::MergePatch => Some(Support::Approximated(merge)),
            _ => Some(Support::Native),
        };
        let no_expiry = [OpKind::Counter, OpKind::MergePatch].map(|kind| (kind, KEEPS_NO_EXPIRY));
        Capabilities {
            why_not: no_expiry.into_iter().filter(|_| !keeps_expiry).collect(),
            operations: OpKind::ALL.into_iter().filter_map(|kind| Some((kind, support(kind)?))).collect(),
            durability: durability::guarantees(copies),
            why_no_more: copies.and_then(Copies::why_none),
            shipped_durability: Durability::MEMORY,
            consistency: vec![
                (ReadConsistency::StaleOk, "reads by key use the active copy; queries do not wait for their index"),
                (ReadConsistency::Session, "same as strong"),
                (
                    ReadConsistency::Strong,
                    "reads by key use the active copy; queries wait for their index (request_plus)",
                ),
            ],
            indexes: queries,
            language: queries.then_some(Language::Couchbase),
            gives_up_at_timeout: true,
            longest_key_bytes: Some(LONGEST_KEY_BYTES),
            notes: vec![
                "Keys have at most 246 bytes.",
                "Only the active copy acknowledges a touch, whatever the durability: the server has no durable touch.",
                "A bucket with more than 2 replicas, or with fewer data nodes than a majority of the copies, \
                 guarantees only `none`.",
                "A session opens one connection of its own to each node. The official client, for queries, pages and \
                 scans, opens another one to each node, and one more for the cluster map.",
                "The official client would use 15 to 57 µs of CPU time per operation on a document, several times as much \
                 as Storebench's own connections.",
                "Tested only on a fake that follows Couchbase's documents, because no real server was at hand. \
                 `storebench conform URL` runs the suite on yours.",
                "Couchbase Server before 7.0, and mocks, may lack collections, durable writes, or writes that keep an \
                 expiry. Only what needs one of these is refused: collections but the default one, which must be read and \
                 written as existing (`_default`); durability above `none`; merge and counter.",
                "Statistics, settling and compaction cover the entire bucket, with all its scopes.",
                "A collection that is read in the order of its keys (prefix, scan, copy out) has a primary index, unless \
                 keys=none is set or no query service answers; keys=index makes one for every collection. \
                 Maintaining it adds work to each write.",
            ],
            ..Capabilities::default()
        }
    }

    fn runtime(&self) -> Runtime {
        Runtime::Reactor
    }

    fn answers(&self) -> Result<(), StoreError> {
        self.control.block_on(async { self.contact().await.map(drop) })
    }

    fn holdings(&self) -> Result<Holdings, StoreError> {
        self.with_link(async |link, topology| match topology.features.collections {
            true => Scope::new(link, &self.settings, false).look().await,
            false => Ok(Holdings { absent: true, theirs: vec![DEFAULT.1.to_owned()], ..Holdings::default() }),
        })
    }

    fn full_name(&self, collection: &CollectionLayout) -> String {
        let (scope, name) = layout::place(&self.settings, collection);
        format!("{scope}.{name}")
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        if how.makes_nothing() {
            crate::existing::refuse_fields("Couchbase", layout)?;
        }
        let ours = self.with_link(async |link, topology| {
            if !topology.features.collections {
                return layout::check_default(&self.settings, layout).map(|()| false);
            }
            let key_index = self.may_make_indexes(topology, layout, how).await?;
            let mut scope = Scope::new(link, &self.settings, key_index);
            if how.makes_nothing() {
                scope.check_existing(layout, how == Prepare::WriteExisting).await?;
            } else {
                prepare(&mut scope, layout, how).await?;
            }
            Ok(scope.look().await?.foreign.is_none())
        })?;
        let collections = layout.collections.iter().map(|collection| {
            let (scope, name) = layout::place(&self.settings, collection);
            (scope.to_owned(), name.to_owned(), collection.body)
        });
        self.ready.set(Ready { collections: collections.collect(), read_only: how == Prepare::ReadOnly, ours });
        Ok(())
    }

    async fn open(&self, options: &SessionOptions) -> Result<CouchbaseSession, StoreError> {
        let ready = self.ready()?;
        // The guarantees depend on replicas and nodes, which may have changed.
        let topology = self.contact().await?;
        let copies = topology.copies();
        if !durability::guarantees(Some(copies)).iter().any(|(offered, _)| *offered == options.durability) {
            return Err(StoreError::NotSupported(format!(
                "bucket `{}` with {} replicas on {} data nodes cannot guarantee durability `{}`{}",
                self.settings.bucket,
                copies.replicas,
                copies.nodes,
                options.durability,
                copies.why_none().map(|why| format!(": {why}")).unwrap_or_default()
            )));
        }
        let fresh = options.consistency != ReadConsistency::StaleOk;
        // At once, because each waits for nodes that are away.
        let kv = kv::open(&self.settings, &topology, &ready, options);
        let connections = try_join(Link::open(&self.settings, &topology), kv).await?;
        let queries = self.no_queries.get().is_none();
        CouchbaseSession::new(&self.settings, connections, &topology, &ready, options, fresh, queries)
    }

    fn settle(&self, at_most: Duration) -> Result<bool, StoreError> {
        if self.ready().is_ok_and(|ready| ready.read_only) {
            return Ok(true);
        }
        self.manage(async |management| {
            // The server's samples are up to seconds old, so only one taken after the first counts.
            let mut first = None;
            settled(at_most, LOOK_EVERY, async || {
                let (idle, at) = management.idle().await?;
                Ok(idle && at > *first.get_or_insert(at))
            })
            .await
        })
    }

    fn compact(&self) -> Result<(), StoreError> {
        if !self.ready().is_ok_and(|ready| ready.ours && !ready.read_only) {
            return Err(StoreError::NotSupported(
                "Couchbase compacts whole buckets; Storebench does so only if it made the scope and may write to it"
                    .into(),
            ));
        }
        self.manage(async |management| {
            management.compact().await?;
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                if !management.compacting().await? {
                    return Ok(());
                }
            }
        })
    }

    fn stats(&self) -> Result<Stats, StoreError> {
        self.manage(async |management| management.stats().await)
    }

    fn own_settings(&self) -> Result<StoreSettings, StoreError> {
        self.manage(async |management| Ok(settings_reported::of(&management.bucket().await?)))
    }

    fn sample_keys(&self, collection: CollectionId, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError> {
        let (scope, name, _) = self.collection(collection)?;
        self.with_link(async |link, _| {
            let scope = link.bucket.scope(scope);
            let unlisted = |why: &str| {
                StoreError::NotSupported(format!(
                    "cannot list the keys of `{name}`: {why}; create a primary index on the collection"
                ))
            };
            if let Some(why) = self.no_queries.get() {
                return Err(unlisted(&why));
            }
            let total = queries::count(&scope, &name, QUERY_PATIENCE).await.map_err(|e| unlisted(&e.to_string()))?;
            let mut keys = Vec::new();
            for (offset, limit) in places(total, at_most as u64, u64::MAX, SAMPLE_PLACES, seed) {
                let query = queries::Query::keys_from(&name, offset, limit);
                let rows = query.run::<queries::Row>(&scope, true, QUERY_PATIENCE).await;
                keys.extend(rows.map_err(|e| unlisted(&e.message))?.into_iter().map(|row| row.key));
            }
            Ok(keys)
        })
    }

    fn try_query(&self, request: &Request<'_>) -> Result<(), StoreError> {
        let Op::Query { text, values, .. } = request.op else { return Ok(()) };
        let (scope, name, _) = self.collection(request.collection)?;
        let query = queries::Query::asked(text, values, &name).map_err(not_run)?;
        self.with_link(async |link, _| {
            let scope = link.bucket.scope(scope);
            query.run::<Value>(&scope, false, QUERY_PATIENCE).await.map(drop).map_err(not_run)
        })
    }

    fn build_index(&self, collection: CollectionId, _name: &str, text: &str) -> Result<BuiltIndex, StoreError> {
        let (scope, collection, _) = &self.collection(collection)?;
        let bucket = &self.settings.bucket;
        self.with_link(async |link, _| indexes::Place { link, bucket, scope, collection }.build(text).await)
    }

    fn drop_index(&self, collection: CollectionId, _name: &str, text: &str) -> Result<(), StoreError> {
        let (scope, collection, _) = &self.collection(collection)?;
        let bucket = &self.settings.bucket;
        self.with_link(async |link, _| indexes::Place { link, bucket, scope, collection }.drop(text).await)
    }

    fn explain(&self, request: &Request<'_>) -> Result<Option<Explanation>, StoreError> {
        let (scope, name, body) = self.collection(request.collection)?;
        if let Op::Query { text, values, .. } = request.op {
            let query = queries::Query::asked(text, values, &name).map_err(not_run)?;
            return self
                .with_link(async |link, _| query.explain(&link.bucket.scope(scope), QUERY_PATIENCE).await.map(Some));
        }
        let query = queries::Query::of(&request.op, &name, body == Body::Json);
        let Some(query) = query.map_err(|e| StoreError::Failed(e.message.into_owned()))? else { return Ok(None) };
        self.with_link(async |link, _| query.explain(&link.bucket.scope(scope), QUERY_PATIENCE).await.map(Some))
    }

    fn close(&self) -> Result<(), StoreError> {
        self.ready.take();
        Ok(())
    }

    fn remove(&self) -> Result<(), StoreError> {
        self.ready.take();
        self.with_link(async |link, _| remove(&mut Scope::new(link, &self.settings, false)).await)
    }
}
