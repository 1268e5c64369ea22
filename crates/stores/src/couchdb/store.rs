//! The store: its capabilities, and its control calls.

use std::time::{Duration, Instant};

use serde_json::Value;
use storebench_engine::store::{
    Account, Batch, BuiltIndex, Capabilities, CollectionId, CollectionLayout, Description, Durability, Explanation,
    Holdings, Layout, Op, OpKind, Owner, Prepare, ReadConsistency, Request, Runtime, SessionOptions, Site as _, Stats,
    Store, StoreError, StoreSettings, Support, prepare, remove,
};
use storebench_study::workload::{Body, Language};

use super::dialect::{Collection, CouchDialect};
use super::server::{Index, Server, Sizes, Welcome};
use super::site::{Databases, database_of};
use super::{SCHEME, pages, sample, settings_reported, study_queries};
use crate::document::prefix_end_text;
use crate::http::{Client, HttpSession, Method, Target, check_place, name_prefix};
use crate::net::{self, Address, Control, Memo, settled};
use crate::refusals::{check_guarantee, not_supported, refused_by_server};
use crate::registry::Options;

/// The timeout of a control call that does not wait for work of the server.
const PATIENCE: Duration = Duration::from_secs(60);
/// The timeout for work that the server has to finish: an index, a compaction.
const WORK: Duration = Duration::from_secs(24 * 3600);

/// The CouchDB store.
pub(crate) struct CouchStore {
    address: Address,
    prefix: String,
    control: Control,
    welcome: Memo<Welcome>,
    ready: Memo<Ready>,
}

/// What `prepare` found out.
#[derive(Clone)]
struct Ready {
    collections: Vec<Prepared>,
    read_only: bool,
}

/// A collection and its database.
#[derive(Clone)]
struct Prepared {
    database: String,
    layout: CollectionLayout,
    indexes: Vec<Index>,
}

impl CouchStore {
    /// Reads the URL. Does not connect.
    ///
    /// # Errors
    /// `BadUrl`.
    pub(crate) fn new(url: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        let tls = url.starts_with("couchdbs:");
        let address = Address::parse(url, SCHEME.example, if tls { 6984 } else { 5984 }, tls, options)?;
        check_place(&address, "database", "CouchDB")?;
        let prefix = name_prefix(options)?;
        Ok(Self { address, prefix, control: Control::default(), welcome: Memo::default(), ready: Memo::default() })
    }

    fn server(&self, patience: Duration) -> Server {
        let client = Client::new(Target::of(&self.address), patience);
        Server { client, host: self.address.host().clone() }
    }

    fn ready(&self) -> Result<Ready, StoreError> {
        self.ready.prepared(&self.address.shown)
    }

    /// Identifies the server. It does so each time, because the server may have been replaced.
    async fn greeted(&self, patience: Duration) -> Result<(Server, Welcome), StoreError> {
        let server = self.server(patience);
        let welcome = server.welcome().await?;
        self.welcome.set(welcome.clone());
        Ok((server, welcome))
    }

    fn site<'s>(&'s self, server: &'s Server) -> Databases<'s> {
        Databases { server, prefix: &self.prefix, shown: &self.address.shown }
    }

    /// The database of a collection.
    fn database(&self, collection: &CollectionLayout) -> String {
        let ours = || database_of(&self.prefix, &collection.name);
        collection.existing.as_ref().map_or_else(ours, |existing| existing.name.clone())
    }

    async fn make_ready(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        crate::existing::refuse_fields("CouchDB", layout)?;
        let (server, _) = self.greeted(PATIENCE).await?;
        let collections: Vec<Prepared> = layout
            .collections
            .iter()
            .map(|layout| Prepared {
                database: self.database(layout),
                layout: layout.clone(),
                indexes: layout.indexes.iter().map(|fields| Index::over(fields)).collect(),
            })
            .collect();
        if how.makes_nothing() {
            let bytes = collections.iter().find(|c| c.layout.existing.is_some() && c.layout.body != Body::Json);
            if let Some(Prepared { database, .. }) = bytes.filter(|_| how == Prepare::WriteExisting) {
                return Err(StoreError::NotSupported(format!(
                    "`{database}` holds JSON; bytes and counters require databases that Storebench created"
                )));
            }
            for collection in &collections {
                if server.sizes(&collection.database).await?.is_none() {
                    return Err(StoreError::NotSupported(format!(
                        "{} has no database `{}`; name one that exists, or load it first",
                        self.address.shown, collection.database
                    )));
                }
            }
        } else {
            prepare(&mut self.site(&server), layout, how).await?;
        }
        self.ready.set(Ready { collections, read_only: how == Prepare::ReadOnly });
        Ok(())
    }

    fn dialect(&self, ready: &Ready, pouch: bool, options: &SessionOptions) -> CouchDialect {
        let collections = ready.collections.iter().map(|prepared| Collection {
            path: Server::path(&prepared.database, ""),
            body: prepared.layout.body,
            designs: u32::try_from(prepared.indexes.len()).unwrap_or(u32::MAX),
            met: false,
        });
        CouchDialect {
            collections: collections.collect(),
            pouch,
            read_only: ready.read_only,
            majority: options.durability == Durability::MAJORITY,
            stale: !pouch && options.consistency == ReadConsistency::StaleOk,
            queries: Default::default(),
            scratch: Vec::new(),
        }
    }

    /// The databases of the prepared collections, or else all that Storebench created.
    async fn databases(&self, server: &Server) -> Result<Vec<String>, StoreError> {
        match self.ready() {
            Ok(ready) => Ok(ready.collections.into_iter().map(|c| c.database).collect()),
            Err(_) => {
                let found = self.site(server).look().await?;
                Ok(found.marked.iter().map(|marked| database_of(&self.prefix, &marked.name)).collect())
            }
        }
    }

    /// Sends a query of the study to `_find` or `_explain`.
    async fn asked(&self, database: &str, what: &str, text: &str, values: Batch<'_>) -> Result<Value, StoreError> {
        let query = study_queries::template(text, values, false).map_err(not_supported)?.filled(values)?;
        let path = Server::path(database, what);
        self.server(PATIENCE).ask(Method::POST, &path, Some(&query)).await.map_err(refused_by_server)
    }
}

impl Store for CouchStore {
    type Session = HttpSession<CouchDialect>;

    fn describe(&self) -> Description {
        let version = self.welcome.get().map_or_else(|| "CouchDB, not yet contacted".to_owned(), |known| known.version);
        Description { scheme: SCHEME.name, url: self.address.shown.clone(), version }
    }

    fn capabilities(&self) -> Capabilities {
        let known = self.welcome.get();
        let pouch = known.as_ref().is_some_and(|known| known.pouch);
        let in_memory = known.as_ref().is_some_and(|known| known.in_memory);
        let durability = match (pouch, in_memory) {
            (true, true) => vec![(Durability::MEMORY, "pouchdb-server in memory: lost when it ends")],
            (true, false) => vec![(Durability::OS, "LevelDB writes to its log and does not sync it")],
            (false, _) => vec![
                (Durability::FSYNC, "each write is synced to disk before it is answered"),
                (Durability::OS, "same as fsync: CouchDB has no weaker level"),
                (
                    Durability::MAJORITY,
                    "quorum w: more than half of the replicas have the write, and each has synced it to disk",
                ),
            ],
        };
        let consistency = if pouch {
            vec![
                (ReadConsistency::StaleOk, "same as strong"),
                (ReadConsistency::Session, "same as strong"),
                (ReadConsistency::Strong, "one node; an index is updated before it answers"),
            ]
        } else {
            vec![
                (ReadConsistency::StaleOk, "r=1; indexes answer without being updated first"),
                (ReadConsistency::Session, "same as strong"),
                (
                    ReadConsistency::Strong,
                    "quorum r, which overlaps the write quorum w; indexes are updated before they answer",
                ),
            ]
        };
        Capabilities {
            operations: operations(),
            shipped_durability: durability[0].0,
            durability,
            consistency,
            indexes: true,
            language: Some(Language::Couchdb),
            gives_up_at_timeout: true,
            own_members: &["_id", "_rev"],
            reserved_members: &["_*"],
            unique_names: true,
            attachments_member: Some("_attachments"),
            notes: vec![
                "An upsert writes without a revision as long as the previous upsert found no document. Otherwise it \
                 reads the revision first.",
                "Bytes are stored as base64 in a JSON document, which makes them a third larger. Counters are stored \
                 as a number in a JSON document.",
                "On a cluster, pages, prefixes, scans, views and bulk reads read one copy of each shard, regardless of \
                 the requested consistency.",
                "Old revisions stay in the file until a compaction.",
                "Tested only against pouchdb-server 4.2. For CouchDB itself, the driver follows the documentation of \
                 3.x.",
            ],
            ..Capabilities::default()
        }
    }

    fn runtime(&self) -> Runtime {
        Runtime::Reactor
    }

    fn answers(&self) -> Result<(), StoreError> {
        self.control.block_on(self.greeted(PATIENCE)).map(drop)
    }

    fn holdings(&self) -> Result<Holdings, StoreError> {
        self.control.block_on(async {
            let (server, _) = self.greeted(PATIENCE).await?;
            if server.databases(&self.prefix).await?.is_none() {
                // The user is not an administrator and may only read existing databases.
                return Ok(Holdings { absent: true, ..Holdings::default() });
            }
            self.site(&server).look().await
        })
    }

    fn full_name(&self, collection: &CollectionLayout) -> String {
        self.database(collection)
    }

    fn collections(&self) -> Result<Vec<String>, StoreError> {
        self.control.block_on(async {
            let (server, _) = self.greeted(PATIENCE).await?;
            let refused =
                || StoreError::NotSupported(format!("{} does not let this user list databases", self.address.shown));
            let mut names = server.databases("").await?.ok_or_else(refused)?;
            names.retain(|name| !name.starts_with('_'));
            for marked in self.site(&server).look().await?.marked {
                let database = database_of(&self.prefix, &marked.name);
                if let Some(name) = names.iter_mut().find(|name| **name == database) {
                    *name = marked.name;
                }
            }
            Ok(names)
        })
    }

    /// Also works for a user who may not list databases.
    fn owner_of(&self, collection: &str) -> Result<Option<Owner>, StoreError> {
        let mark = async { self.server(PATIENCE).mark_of(&database_of(&self.prefix, collection)).await };
        Ok(self.control.block_on(mark)?.map(|mark| Owner::read(&mark).1))
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        self.control.block_on(self.make_ready(layout, how))
    }

    async fn open(&self, options: &SessionOptions) -> Result<Self::Session, StoreError> {
        let ready = self.ready()?;
        let (_, welcome) = self.greeted(options.timeout.max(Duration::from_secs(1))).await?;
        if !ready.read_only {
            check_guarantee(&welcome.version, &self.capabilities(), options.durability)?;
        }
        let mut target = Target::of(&self.address);
        if welcome.major == 2 {
            target = target.with("x-couch-full-commit", "true");
        }
        HttpSession::open(self.dialect(&ready, welcome.pouch, options), target, options).await
    }

    /// Requests a row of each index, which brings it up to date. Then waits until the server has no task in
    /// Storebench's databases.
    fn settle(&self, at_most: Duration) -> Result<bool, StoreError> {
        self.control.block_on(async {
            let server = self.server(WORK);
            let mut touched = false;
            settled(at_most, Duration::from_millis(100), async || {
                if let Some(ready) = self.ready.get().filter(|_| !std::mem::replace(&mut touched, true)) {
                    for Prepared { database, indexes, .. } in &ready.collections {
                        for index in indexes {
                            server.touch_index(database, index).await?;
                        }
                    }
                }
                Ok(server.tasks(&self.databases(&server).await?).await?.is_empty())
            })
            .await
        })
    }

    fn compact(&self) -> Result<(), StoreError> {
        self.control.block_on(async {
            let ready = self.ready()?;
            if ready.read_only || ready.collections.iter().any(|c| c.layout.existing.is_some()) {
                return Err(StoreError::NotSupported(
                    "only databases that Storebench created and may write can be compacted".into(),
                ));
            }
            let (server, welcome) = self.greeted(PATIENCE).await?;
            let compacting = async {
                for Prepared { database, indexes, .. } in &ready.collections {
                    // pouchdb-server compacts only databases, not indexes.
                    let indexes = indexes.iter().filter(|_| !welcome.pouch);
                    let designs: Vec<String> = indexes.map(|index| index.name.clone()).collect();
                    server.compact(database, &designs).await?;
                }
                Ok(())
            };
            tokio::time::timeout(WORK, compacting).await.unwrap_or_else(|_| {
                Err(StoreError::Failed(format!("{}: compaction did not finish within {WORK:?}", self.address.shown)))
            })
        })
    }

    fn stats(&self) -> Result<Stats, StoreError> {
        self.control.block_on(async {
            let server = self.server(PATIENCE);
            let databases = self.databases(&server).await?;
            let mut sum = Sizes::default();
            for database in &databases {
                let sizes = server.sizes(database).await?.unwrap_or_default();
                sum.documents += sizes.documents;
                sum.deleted += sizes.deleted;
                sum.file_bytes += sizes.file_bytes;
                sum.active_bytes += sizes.active_bytes;
                sum.external_bytes += sizes.external_bytes;
            }
            let mut stats = vec![
                ("documents".to_owned(), sum.documents),
                ("deleted_documents".to_owned(), sum.deleted),
                ("file_bytes".to_owned(), sum.file_bytes),
            ];
            if sum.active_bytes > 0.0 {
                stats.push(("active_bytes".to_owned(), sum.active_bytes));
                stats.push(("external_bytes".to_owned(), sum.external_bytes));
                // The share of the file that compaction would free.
                let fragmentation = (1.0 - sum.active_bytes / sum.file_bytes.max(1.0)).max(0.0);
                stats.push(("fragmentation_share".to_owned(), fragmentation));
            }
            let tasks = server.tasks(&databases).await?;
            for (name, ending) in [("compaction", "compaction"), ("index", "indexer")] {
                let matching = || tasks.iter().filter(|(kind, _)| kind.ends_with(ending));
                stats.push((format!("{name}_tasks"), matching().count() as f64));
                stats.push((format!("{name}_changes_pending"), matching().map(|(_, left)| left).sum()));
            }
            Ok(stats)
        })
    }

    fn own_settings(&self) -> Result<StoreSettings, StoreError> {
        let told = self.control.block_on(async { self.server(PATIENCE).configuration().await })?;
        Ok(settings_reported::of(&told))
    }

    fn sample_keys(&self, collection: CollectionId, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError> {
        self.control.block_on(async {
            let ready = self.ready()?;
            let prepared = net::collection(&ready.collections, collection)?;
            let server = self.server(PATIENCE);
            let pouch = self.welcome.get().is_some_and(|known| known.pouch);
            sample::keys(&server, &prepared.database, pouch, at_most, seed).await
        })
    }

    fn account(&self, collection: CollectionId) -> Result<Account, StoreError> {
        self.control.block_on(async {
            let ready = self.ready()?;
            let prepared = net::collection(&ready.collections, collection)?;
            let server = self.server(PATIENCE);
            let sizes = server.sizes(&prepared.database).await?.unwrap_or_default();
            let all = server.designs(&prepared.database).await?;
            let documents = (sizes.documents as u64).saturating_sub(all.len() as u64);
            let own = |name: &String| prepared.indexes.iter().any(|index| index.name == *name);
            let theirs = |of_mango| all.iter().filter(|(name, mango)| *mango == of_mango && !own(name)).count() as u64;
            let locals = server.locals(&prepared.database).await?.unwrap_or(0);
            let beside = [(theirs(false), "design documents"), (theirs(true), "indexes"), (locals, "local documents")];
            let beside = beside.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| (count, what.into()));
            Ok(Account { documents: Some(documents), beside: beside.collect(), ..Account::default() })
        })
    }

    fn try_query(&self, request: &Request<'_>) -> Result<(), StoreError> {
        let Op::Query { text, values, .. } = request.op else { return Ok(()) };
        let ready = self.ready()?;
        let prepared = net::collection(&ready.collections, request.collection)?;
        self.control.block_on(self.asked(&prepared.database, "_find", text, values)).map(drop)
    }

    fn explain(&self, request: &Request<'_>) -> Result<Option<Explanation>, StoreError> {
        let ready = self.ready()?;
        let Some(prepared) = ready.collections.get(request.collection.position()) else { return Ok(None) };
        let range = |start: &str, end: Option<&str>, limit| {
            Some(Explanation { plan: pages::shown_range(start, end, limit), full_scan: false })
        };
        Ok(match request.op {
            Op::Prefix { prefix, limit } => range(prefix, prefix_end_text(prefix).as_deref(), limit),
            Op::Scan { start, end, limit } => range(start, end, limit),
            Op::View { view, limit, .. } => {
                Some(Explanation { plan: format!("the index of the view {view}, limit={limit}"), full_scan: false })
            }
            Op::Page { field, value, limit } => {
                let query: Value = serde_json::from_str(&pages::selector(field, value, limit, false))
                    .map_err(|e| StoreError::Failed(format!("cannot search for `{value}`, which is not JSON: {e}")))?;
                let path = Server::path(&prepared.database, "_explain");
                let server = self.server(PATIENCE);
                Some(explanation(&self.control.block_on(server.ask(Method::POST, &path, Some(&query)))?))
            }
            Op::Query { text, values, .. } => {
                let plan = self.asked(&prepared.database, "_explain", text, values);
                Some(explanation(&self.control.block_on(plan)?))
            }
            _ => None,
        })
    }

    fn build_index(&self, collection: CollectionId, name: &str, text: &str) -> Result<BuiltIndex, StoreError> {
        let definition: Value =
            serde_json::from_str(text).map_err(|e| StoreError::NotSupported(format!("the index is not JSON: {e}")))?;
        let index = Index::defined(name, &definition);
        if index.fields.is_empty() {
            return Err(StoreError::NotSupported("an index is a table, such as { fields = [\"city\"] }".into()));
        }
        let mut ready = self.ready()?;
        let database = net::collection(&ready.collections, collection)?.database.clone();
        let built = self.control.block_on(async {
            let server = self.server(WORK);
            let begun = Instant::now();
            let existed = server.index(&database, name, &definition).await?;
            server.touch_index(&database, &index).await?;
            let took = (!existed).then(|| begun.elapsed());
            Ok(BuiltIndex { took, bytes: server.index_bytes(&database, name).await? })
        })?;
        let known = &mut ready.collections[collection.position()].indexes;
        known.retain(|known| known.name != name);
        known.push(index);
        self.ready.set(ready);
        Ok(built)
    }

    fn drop_index(&self, collection: CollectionId, name: &str, _text: &str) -> Result<(), StoreError> {
        let mut ready = self.ready()?;
        let database = &net::collection(&ready.collections, collection)?.database;
        self.control.block_on(async { self.server(PATIENCE).drop_index(database, name).await })?;
        ready.collections[collection.position()].indexes.retain(|index| index.name != name);
        self.ready.set(ready);
        Ok(())
    }

    fn close(&self) -> Result<(), StoreError> {
        self.ready.take();
        Ok(())
    }

    fn remove(&self) -> Result<(), StoreError> {
        self.ready.take();
        self.control.block_on(async {
            let (server, _) = self.greeted(PATIENCE).await?;
            remove(&mut self.site(&server)).await
        })
    }
}

fn explanation(plan: &Value) -> Explanation {
    // A plan reads every document by the index `_all_docs`, which is of the type `special`.
    let full_scan = plan["index"]["type"] != "json" && plan["index"]["type"] != "text";
    Explanation { plan: plan.to_string(), full_scan }
}

fn operations() -> Vec<(OpKind, Support)> {
    let loops = "reads the document, changes it and writes it with its revision; starts over if another write came \
                 first";
    let supports = |kind| match kind {
        OpKind::Touch | OpKind::Transaction => None,
        OpKind::Upsert | OpKind::Replace | OpKind::Delete => Some(Support::Approximated(
            "CouchDB overwrites only a known revision: reads the revision first, and again if another write came first",
        )),
        OpKind::CompareAndSwap => Some(Support::Approximated(
            "CouchDB 3.5 accepts any revision for a document that never existed, so the driver reads the current \
             revision first and writes only if it is the expected one",
        )),
        OpKind::Append | OpKind::Prepend | OpKind::Counter | OpKind::MergePatch => Some(Support::Approximated(loops)),
        OpKind::BulkUpsert | OpKind::BulkDelete => Some(Support::Approximated(
            "_all_docs for the revisions, then _bulk_docs; again for documents that other writes changed in between",
        )),
        _ => Some(Support::Native),
    };
    OpKind::ALL.into_iter().filter_map(|kind| supports(kind).map(|support| (kind, support))).collect()
}
