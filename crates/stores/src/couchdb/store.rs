//! The store: its capabilities, and the management of its databases.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use storebench_engine::store::{
    Account, Batch, BuiltIndex, Capabilities, CollectionId, CollectionLayout, Description, Durability, Explanation,
    Holdings, Layout, Marked, Op, OpKind, Owner, Prepare, ReadConsistency, Removal, Request, Runtime, SessionOptions,
    Site, SiteOutcome, Stats, Store, StoreError, Support, Wanted, prepare, remove,
};
use storebench_study::workload::{Body, Language};

use super::dialect::{Collection, CouchDialect};
use super::server::{FORM, Index, Server, Sizes, Welcome};
use super::study_queries;
use super::{SCHEME, pages, sample};
use crate::document::prefix_end_text;
use crate::http::{Client, HttpSession, Method, Target};
use crate::net::{self, Address, Control, Memo, settled};
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
        if let Some(part) = address.path.first() {
            return Err(StoreError::BadUrl(format!(
                "found `/{part}` after the host, but each collection is a separate database; remove it, or set the \
                 prefix of their names with ?prefix="
            )));
        }
        if let [_, second, ..] = address.hosts.as_slice() {
            return Err(StoreError::BadUrl(format!(
                "found the second host `{second}`; name only one, because any node of a CouchDB cluster serves all data"
            )));
        }
        let prefix = options.take("prefix").unwrap_or("storebench-").to_owned();
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
        if !prefix.starts_with(|c: char| c.is_ascii_lowercase()) || !prefix.chars().all(fits) || prefix.len() > 100 {
            return Err(StoreError::BadUrl(format!(
                "invalid prefix={prefix}; expected a lower-case letter followed by lower-case letters, digits, `_` and \
                 `-`, at most 100 characters"
            )));
        }
        Ok(Self { address, prefix, control: Control::default(), welcome: Memo::default(), ready: Memo::default() })
    }

    fn server(&self, patience: Duration) -> Server {
        let client = Client::new(Target::of(&self.address), patience);
        Server::new(client, self.address.host().clone())
    }

    fn ready(&self) -> Result<Ready, StoreError> {
        self.ready.prepared(&self.address.shown)
    }

    /// Identifies the server. It does so each time, because the server may have been replaced.
    async fn greet(&self, server: &Server) -> Result<Welcome, StoreError> {
        let welcome = server.welcome().await?;
        self.welcome.set(welcome.clone());
        Ok(welcome)
    }

    /// The database of a collection.
    fn database(&self, collection: &CollectionLayout) -> String {
        collection
            .existing
            .as_ref()
            .map_or_else(|| self.database_of(&collection.name), |existing| existing.name.clone())
    }

    async fn make_ready(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        crate::existing::refuse_fields("CouchDB", layout)?;
        let server = self.server(PATIENCE);
        self.greet(&server).await?;
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
            prepare(&mut Databases { store: self, server: &server }, layout, how).await?;
        }
        self.ready.set(Ready { collections, read_only: how == Prepare::ReadOnly });
        Ok(())
    }

    fn dialect(&self, ready: &Ready, pouch: bool, options: Option<&SessionOptions>) -> CouchDialect {
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
            majority: options.is_some_and(|options| options.durability == Durability::MAJORITY),
            stale: !pouch && options.is_some_and(|options| options.consistency == ReadConsistency::StaleOk),
            splits: 0,
            queries: Default::default(),
            scratch: Vec::new(),
        }
    }

    /// The databases of the prepared collections, or else all that Storebench created.
    async fn databases(&self, server: &Server) -> Result<Vec<String>, StoreError> {
        match self.ready() {
            Ok(ready) => Ok(ready.collections.into_iter().map(|c| c.database).collect()),
            Err(_) => {
                let found = Databases { store: self, server }.look().await?;
                Ok(found.marked.iter().map(|marked| self.database_of(&marked.name)).collect())
            }
        }
    }
}

/// The databases whose names begin with the prefix.
struct Databases<'s> {
    store: &'s CouchStore,
    server: &'s Server,
}

impl Databases<'_> {
    async fn names(&self) -> Result<Vec<String>, StoreError> {
        self.server.databases(&self.store.prefix).await?.ok_or_else(|| {
            StoreError::Unreachable(format!(
                "{} does not let this user list databases; use an administrator's user and password",
                self.store.address.host()
            ))
        })
    }
}

impl Site for Databases<'_> {
    const ANOTHER: &'static str = "another ?prefix=";

    fn shown(&self) -> String {
        self.store.address.shown.clone()
    }

    fn form(&self, _body: Body) -> String {
        FORM.to_owned()
    }

    async fn look(&mut self) -> Result<Holdings, StoreError> {
        let mut found = Holdings::default();
        for name in self.names().await? {
            match self.server.mark_of(&name).await? {
                Some(mark) => found.marked.push(Marked::new(self.store.collection_of(&name), mark)),
                None => found.theirs.push(name),
            }
        }
        if !found.theirs.is_empty() {
            // A database that was removed meanwhile looks unmarked. Drop those that no longer exist.
            let now = self.names().await?;
            found.theirs.retain(|name| now.contains(name));
        }
        found.made = (!found.marked.is_empty()).then_some(true);
        found.absent = found.marked.is_empty() && found.theirs.is_empty();
        found.foreign = found.theirs.first().map(|database| format!("the database `{database}`"));
        Ok(found)
    }

    async fn rest(&mut self) {
        net::rest().await;
    }

    async fn taken(&mut self, found: &Holdings, names: &[&str]) -> Result<Option<String>, StoreError> {
        let mut databases = names.iter().map(|name| self.store.database_of(name));
        Ok(databases.find(|name| found.theirs.contains(name)).map(|name| format!("the database `{name}`")))
    }

    async fn make(&mut self, wanted: &Wanted<'_>) -> Result<SiteOutcome, StoreError> {
        for planned in &wanted.collections {
            let database = self.store.database_of(planned.name());
            if planned.is_new() && self.server.create(&database).await? == SiteOutcome::Changed {
                return Ok(SiteOutcome::Changed);
            }
            let before = planned.before.as_deref();
            if planned.marks() && self.server.mark(&database, before, &planned.mark).await? == SiteOutcome::Changed {
                return Ok(SiteOutcome::Changed);
            }
            for fields in &planned.layout.indexes {
                let index = Index::over(fields);
                self.server.index(&database, &index.name, &json!({ "fields": index.fields })).await?;
            }
        }
        Ok(SiteOutcome::Done)
    }

    /// Marks each database as being removed first. A copy that takes it over meanwhile also replaces the mark that was
    /// found, so only one of the two succeeds.
    async fn unmake(&mut self, removal: &Removal) -> Result<SiteOutcome, StoreError> {
        for going in &removal.going {
            let database = self.store.database_of(&going.name);
            if self.server.mark(&database, Some(&going.mark), &going.removing().mark).await? == SiteOutcome::Changed {
                return Ok(SiteOutcome::Changed);
            }
            self.server.remove(&database).await?;
        }
        Ok(SiteOutcome::Done)
    }
}

impl CouchStore {
    /// The database of one of Storebench's collections. Database names have no capital letters, so `$` precedes each.
    /// Collection names contain no `$`.
    fn database_of(&self, collection: &str) -> String {
        let mut name = self.prefix.clone();
        for c in collection.chars() {
            if c.is_ascii_uppercase() {
                name.push('$');
            }
            name.push(c.to_ascii_lowercase());
        }
        name
    }

    /// The collection that one of Storebench's databases was created for.
    fn collection_of(&self, database: &str) -> String {
        let mut name = String::new();
        let mut capital = false;
        for c in database.strip_prefix(&self.prefix).unwrap_or(database).chars() {
            match std::mem::replace(&mut capital, c == '$') {
                _ if c == '$' => {}
                true => name.push(c.to_ascii_uppercase()),
                false => name.push(c),
            }
        }
        name
    }
}

impl CouchStore {
    /// Sends a query of the study to `_find` or `_explain`.
    async fn asked(&self, database: &str, what: &str, text: &str, values: Batch<'_>) -> Result<Value, StoreError> {
        let mut query = Vec::new();
        let template = study_queries::template(text, values, false);
        template.map_err(|e| StoreError::NotSupported(e.message.into_owned()))?.write(values, &mut query);
        let query: Value =
            serde_json::from_slice(&query).map_err(|e| StoreError::Failed(format!("the query is not JSON: {e}")))?;
        let path = Server::path(database, what);
        self.server(PATIENCE).ask(Method::POST, &path, Some(&query)).await.map_err(|error| match error {
            StoreError::Failed(why) => StoreError::NotSupported(why),
            other => other,
        })
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
        self.control.block_on(async { self.greet(&self.server(PATIENCE)).await.map(drop) })
    }

    fn holdings(&self) -> Result<Holdings, StoreError> {
        self.control.block_on(async {
            let server = self.server(PATIENCE);
            self.greet(&server).await?;
            if server.databases(&self.prefix).await?.is_none() {
                // The user is not an administrator and may only read existing databases.
                return Ok(Holdings { absent: true, ..Holdings::default() });
            }
            Databases { store: self, server: &server }.look().await
        })
    }

    fn full_name(&self, collection: &CollectionLayout) -> String {
        self.database(collection)
    }

    fn collections(&self) -> Result<Vec<String>, StoreError> {
        self.control.block_on(async {
            let server = self.server(PATIENCE);
            self.greet(&server).await?;
            let refused =
                || StoreError::NotSupported(format!("{} does not let this user list databases", self.address.shown));
            let mut names = server.databases("").await?.ok_or_else(refused)?;
            names.retain(|name| !name.starts_with('_'));
            let found = Databases { store: self, server: &server }.look().await?;
            for marked in found.marked {
                let database = self.database_of(&marked.name);
                if let Some(name) = names.iter_mut().find(|name| **name == database) {
                    *name = marked.name;
                }
            }
            Ok(names)
        })
    }

    /// Also works for a user who may not list databases.
    fn owner_of(&self, collection: &str) -> Result<Option<Owner>, StoreError> {
        let mark = async { self.server(PATIENCE).mark_of(&self.database_of(collection)).await };
        Ok(self.control.block_on(mark)?.map(|mark| Owner::read(&mark).1))
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        self.control.block_on(self.make_ready(layout, how))
    }

    async fn open(&self, options: &SessionOptions) -> Result<Self::Session, StoreError> {
        let ready = self.ready()?;
        let welcome = self.greet(&self.server(options.timeout.max(Duration::from_secs(1)))).await?;
        let capabilities = self.capabilities();
        if !ready.read_only && capabilities.guarantees(options.durability).is_none() {
            return Err(StoreError::NotSupported(format!(
                "{} cannot guarantee `{}`; it guarantees {}",
                welcome.version,
                options.durability,
                capabilities.durability.iter().map(|(level, _)| format!("`{level}`")).collect::<Vec<_>>().join(", ")
            )));
        }
        let mut target = Target::of(&self.address);
        if welcome.major == 2 {
            target = target.with("x-couch-full-commit", "true");
        }
        let dialect = self.dialect(&ready, welcome.pouch, Some(options));
        HttpSession::open(dialect, target, options).await
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
            let server = self.server(PATIENCE);
            let ready = self.ready()?;
            if ready.read_only || ready.collections.iter().any(|c| c.layout.existing.is_some()) {
                return Err(StoreError::NotSupported(
                    "only databases that Storebench created and may write can be compacted".into(),
                ));
            }
            // pouchdb-server compacts only databases, not indexes.
            let pouch = self.greet(&server).await?.pouch;
            let compacting = async {
                for Prepared { database, indexes, .. } in &ready.collections {
                    let indexes = indexes.iter().filter(|_| !pouch);
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
            let beside = beside.collect();
            Ok(Account { documents: Some(documents), beside, ..Account::default() })
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
                let plan = self
                    .control
                    .block_on(async { self.server(PATIENCE).ask(Method::POST, &path, Some(&query)).await })?;
                Some(Explanation { full_scan: reads_all(&plan), plan: plan.to_string() })
            }
            Op::Query { text, values, .. } => {
                let plan = self.control.block_on(self.asked(&prepared.database, "_explain", text, values))?;
                Some(Explanation { full_scan: reads_all(&plan), plan: plan.to_string() })
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
            let server = self.server(PATIENCE);
            self.greet(&server).await?;
            remove(&mut Databases { store: self, server: &server }).await
        })
    }
}

/// Whether a plan reads every document: the index `_all_docs` is of the type `special`.
fn reads_all(plan: &Value) -> bool {
    plan["index"]["type"] != "json" && plan["index"]["type"] != "text"
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
