//! The store: its capabilities, and its control calls.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use storebench_engine::store::{
    Account, Acknowledged, BuiltIndex, Capabilities, CollectionId, CollectionLayout, Description, Durability,
    Explanation, Holdings, Layout, LocalFuture, Op, Persisted, Prepare, ReadConsistency, Request, RowStream, Rows,
    Runtime, SessionOptions, Site as _, Stats, Store, StoreError, StoreSettings, prepare, remove,
};
use storebench_study::workload::Body;

use super::dialect::{Collection, SearchDialect};
use super::json::KEY;
use super::server::{Server, Welcome, documents_of, path, paths};
use super::site::Indexes;
use super::theirs::Behind;
use super::walk::{MOST, Shard};
use super::{SCHEME, capabilities, settings_reported};
use crate::http::{Client, HttpSession, Method, Target, check_place, lower_case_name, name_prefix};
use crate::net::{self, Address, Control, Memo, settled, untold_settings};
use crate::refusals::check_guaranteed;
use crate::registry::Options;
use crate::study_queries::ByNumber;

/// The timeout of a control call that does not wait for work of the server.
const PATIENCE: Duration = Duration::from_secs(60);
/// The timeout for work that the server has to finish: a merge.
const WORK: Duration = Duration::from_secs(24 * 3600);
/// When searches see a write, in the words of the option and of the server.
const REFRESH: [&str; 3] = ["false", "wait_for", "true"];

/// The store of OpenSearch and Elasticsearch.
pub(crate) struct OpenSearchStore {
    address: Address,
    prefix: String,
    refresh: &'static str,
    replicas: Option<u32>,
    shards: Option<u32>,
    control: Control,
    welcome: Memo<Welcome>,
    ready: Memo<Arc<Ready>>,
}

/// What `prepare` found out.
pub(super) struct Ready {
    pub(super) collections: Vec<Prepared>,
    read_only: bool,
    /// For collections of others: whether the log of one is `async`.
    pub(super) theirs_async: Option<bool>,
}

/// A collection and what stands behind it.
pub(super) struct Prepared {
    /// The name of its index, or of what others made.
    name: String,
    layout: CollectionLayout,
    pub(super) behind: Behind,
    pub(super) keyed: bool,
}

impl Ready {
    /// The names to search, each once.
    fn names(&self) -> Vec<String> {
        self.collections.iter().map(|c| c.name.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn get(&self, collection: CollectionId) -> Result<&Prepared, StoreError> {
        net::collection(&self.collections, collection)
    }
}

impl OpenSearchStore {
    /// Reads the URL. Does not connect.
    ///
    /// # Errors
    /// `BadUrl`.
    pub(crate) fn new(url: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        let tls = url.split(':').next().is_some_and(|scheme| scheme.ends_with('s'));
        let address = Address::parse(url, SCHEME.example, 9200, tls, options)?;
        check_place(&address, "index", "OpenSearch")?;
        let prefix = name_prefix(options)?;
        let refresh = REFRESH[options.choice("refresh", &REFRESH)?.unwrap_or(0)];
        let (replicas, shards) = (options.parse("replicas")?, options.parse("shards")?);
        if shards == Some(0) || replicas.is_some_and(|replicas| replicas > 100) {
            return Err(StoreError::BadUrl("use shards=1 or more, and replicas=100 or less".into()));
        }
        let (control, welcome, ready) = (Control::default(), Memo::default(), Memo::default());
        Ok(Self { address, prefix, refresh, replicas, shards, control, welcome, ready })
    }

    fn server(&self, patience: Duration) -> Server {
        let client = Client::new(Target::of(&self.address), patience);
        Server { client, host: self.address.host().clone() }
    }

    fn ready(&self) -> Result<Arc<Ready>, StoreError> {
        self.ready.prepared(&self.address.shown)
    }

    /// Identifies the server. It does so each time, because the server may have been replaced.
    async fn greeted(&self, patience: Duration) -> Result<Server, StoreError> {
        let server = self.server(patience);
        self.welcome.set(server.welcome().await?);
        Ok(server)
    }

    fn site<'s>(&'s self, server: &'s Server, how: Prepare) -> Indexes<'s> {
        let mut settings = json!({});
        if !matches!(how, Prepare::Copy(_)) {
            // A query on a field that is not mapped is refused, where it would find nothing.
            settings["query.parse.allow_unmapped_fields"] = false.into();
        }
        for (name, value) in [("number_of_replicas", self.replicas), ("number_of_shards", self.shards)] {
            if let Some(value) = value {
                settings[name] = value.into();
            }
        }
        Indexes { server, prefix: &self.prefix, shown: &self.address.shown, settings, how }
    }

    async fn make_ready(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        crate::existing::refuse_fields("OpenSearch", layout)?;
        let server = self.greeted(PATIENCE).await?;
        if !how.makes_nothing() {
            if self.welcome.get().is_some_and(|known| !known.can_mark()) {
                return Err(StoreError::NotSupported(format!(
                    "{} cannot replace a mark safely, so Storebench makes no indexes there: it needs OpenSearch 2.12 \
                     or Elasticsearch 7.11. Indexes of yours can be read, and copied into",
                    self.describe().version
                )));
            }
            prepare(&mut self.site(&server, how), layout, how).await?;
        }
        let mut ready = Ready { collections: Vec::new(), read_only: how == Prepare::ReadOnly, theirs_async: None };
        for layout in &layout.collections {
            let (name, theirs) = (self.full_name(layout), layout.existing.is_some());
            if theirs && layout.body != Body::Json {
                return Err(StoreError::NotSupported(format!(
                    "`{name}` holds JSON; bytes and counters require indexes that Storebench created"
                )));
            }
            let behind = server.behind(&name, how).await?;
            if how == Prepare::WriteExisting {
                let slow = server.log_of(&name).await?.0;
                ready.theirs_async = Some(slow || ready.theirs_async == Some(true));
            }
            let keyed = !theirs && behind.fields.iter().any(|field| field.name == KEY);
            ready.collections.push(Prepared { name, layout: layout.clone(), behind, keyed });
        }
        self.ready.set(Arc::new(ready));
        Ok(())
    }

    /// The level that replicas give.
    fn replicated(&self) -> Option<Durability> {
        let copies = self.replicas.filter(|replicas| *replicas > 0)? + 1;
        Some(Durability { acknowledged_by: Acknowledged::Nodes(copies), persisted: Persisted::Disk, on: copies })
    }

    /// Makes sure that writes get the durability. Storebench changes only its own indexes.
    async fn set_durability(&self, server: &Server, ready: &Ready, wanted: Durability) -> Result<(), StoreError> {
        let copies = if Some(wanted) == self.replicated() { u64::from(wanted.on) } else { 1 };
        let log = if wanted == Durability::MEMORY { "async" } else { "request" };
        for Prepared { name, layout, .. } in &ready.collections {
            let (is_async, replicas) = server.log_of(name).await?;
            let now = if is_async { "async" } else { "request" };
            if replicas + 1 < copies || now != log && layout.existing.is_some() {
                return Err(StoreError::NotSupported(format!(
                    "{}: `{name}` has {replicas} replicas and index.translog.durability={now}, which does not give \
                     `{wanted}`; change it, or load it again",
                    self.address.shown
                )));
            }
            if now != log {
                server.set_log(name, log).await?;
            }
        }
        Ok(())
    }

    fn dialect(&self, ready: &Ready, options: &SessionOptions, most_bytes: usize) -> SearchDialect {
        let collections = ready.collections.iter().map(|prepared| {
            let ours = prepared.layout.existing.is_none() && !ready.read_only;
            Collection {
                path: path(&if ours { documents_of(&prepared.name) } else { prepared.name.clone() }, ""),
                body: prepared.layout.body,
                keyed: prepared.keyed,
                by_key: prepared.behind.by_key,
                fields: prepared.behind.fields.clone(),
            }
        });
        let copies = self.replicated().filter(|level| *level == options.durability).map(|level| level.on);
        let waits = copies.map_or_else(String::new, |copies| format!("&wait_for_active_shards={copies}"));
        let delete = format!("?refresh={}{waits}", self.refresh);
        // Collections are all of others or none.
        let theirs = ready.collections.iter().any(|prepared| prepared.layout.existing.is_some());
        let write = if theirs { delete.clone() } else { format!("{delete}&require_alias=true") };
        SearchDialect {
            collections: collections.collect(),
            read_only: ready.read_only,
            write,
            delete,
            // Writes of others may come without a refresh.
            refreshes: options.consistency != ReadConsistency::StaleOk && (self.refresh == "false" || theirs),
            copies,
            most_bytes,
            scratch: Vec::new(),
            queries: ByNumber::default(),
        }
    }

    /// The prepared indexes, or else all that Storebench created.
    async fn indexes(&self, server: &Server) -> Result<Vec<String>, StoreError> {
        match self.ready() {
            Ok(ready) => Ok(ready.names()),
            Err(_) => {
                let found = self.site(server, Prepare::ReadOnly).look().await?;
                Ok(found.marked.iter().map(|marked| lower_case_name(&self.prefix, &marked.name)).collect())
            }
        }
    }
}

impl Store for OpenSearchStore {
    type Session = HttpSession<SearchDialect>;

    fn describe(&self) -> Description {
        let known = self.welcome.get();
        let version = known.map_or_else(|| "OpenSearch, not yet contacted".to_owned(), |known| known.shown());
        Description { scheme: SCHEME.name, url: self.address.shown.clone(), version }
    }

    fn capabilities(&self) -> Capabilities {
        let (ready, welcome) = (self.ready.get(), self.welcome.get());
        capabilities::of(ready.as_deref(), welcome.as_ref(), self.refresh, self.replicated())
    }

    fn runtime(&self) -> Runtime {
        Runtime::Reactor
    }

    fn answers(&self) -> Result<(), StoreError> {
        self.control.block_on(self.greeted(PATIENCE)).map(drop)
    }

    fn holdings(&self) -> Result<Holdings, StoreError> {
        self.control.block_on(async {
            let server = self.greeted(PATIENCE).await?;
            self.site(&server, Prepare::ReadOnly).look().await
        })
    }

    /// The name of its index, or of what others made.
    fn full_name(&self, collection: &CollectionLayout) -> String {
        let ours = || lower_case_name(&self.prefix, &collection.name);
        collection.existing.as_ref().map_or_else(ours, |existing| existing.name.clone())
    }

    /// Indexes and data streams. Those whose names begin with a dot are the server's own.
    fn collections(&self) -> Result<Vec<String>, StoreError> {
        self.control.block_on(async {
            let server = self.greeted(PATIENCE).await?;
            let mut found = self.site(&server, Prepare::ReadOnly).look().await?;
            let all = server.indexes("*", "_alias").await?.unwrap_or_default();
            found.theirs.extend(all.into_iter().map(|(name, _)| name).chain(server.data_streams().await?));
            let ours: BTreeSet<String> =
                found.marked.iter().map(|marked| lower_case_name(&self.prefix, &marked.name)).collect();
            found.theirs.retain(|name| !name.starts_with('.') && !ours.contains(name));
            found.theirs.sort_unstable();
            found.theirs.dedup();
            Ok(found.names())
        })
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        self.ready.take();
        self.control.block_on(self.make_ready(layout, how))
    }

    async fn open(&self, options: &SessionOptions) -> Result<Self::Session, StoreError> {
        let ready = self.ready()?;
        let server = self.greeted(options.timeout.max(Duration::from_secs(1))).await?;
        if !ready.read_only {
            check_guaranteed(options.durability, &self.capabilities(), &self.describe().version)?;
            self.set_durability(&server, &ready, options.durability).await?;
        }
        let dialect = self.dialect(&ready, options, server.most_bytes().await?);
        HttpSession::open(dialect, Target::of(&self.address), options).await
    }

    /// Refreshes the indexes, so that searches see what was loaded. Then waits until no merge runs.
    fn settle(&self, at_most: Duration) -> Result<bool, StoreError> {
        self.control.block_on(async {
            let server = self.server(WORK);
            let mut refreshed = false;
            settled(at_most, Duration::from_millis(100), async || {
                let indexes = self.indexes(&server).await?;
                if indexes.is_empty() {
                    return Ok(true);
                }
                if !std::mem::replace(&mut refreshed, true) {
                    server.refresh(&indexes).await?;
                }
                Ok(server.figures(&indexes, "merge").await?["total"]["merges"]["current"] == 0)
            })
            .await
        })
    }

    fn compact(&self) -> Result<(), StoreError> {
        let ready = self.ready()?;
        if ready.read_only || ready.collections.iter().any(|c| c.layout.existing.is_some()) {
            return Err(StoreError::NotSupported(
                "only indexes that Storebench created and may write can be merged".into(),
            ));
        }
        self.control.block_on(async {
            let path = paths(&ready.names(), "_forcemerge?max_num_segments=1");
            self.server(WORK).done(Method::POST, &path, None, "merge its indexes").await.map(drop)
        })
    }

    fn stats(&self) -> Result<Stats, StoreError> {
        self.control.block_on(async {
            let server = self.server(PATIENCE);
            let indexes = self.indexes(&server).await?;
            if indexes.is_empty() {
                return Ok(Stats::new());
            }
            let told = server.figures(&indexes, "docs,store,translog,segments,merge,refresh").await?;
            let figures = [
                ("documents", "/primaries/docs/count"),
                ("deleted_documents", "/primaries/docs/deleted"),
                ("file_bytes", "/total/store/size_in_bytes"),
                ("wal_bytes", "/total/translog/size_in_bytes"),
                ("segments", "/total/segments/count"),
                ("merged_bytes_total", "/total/merges/total_size_in_bytes"),
                ("merge_throttled_ms_total", "/total/merges/total_throttled_time_in_millis"),
                ("refreshes_total", "/total/refresh/external_total"),
            ];
            let figure = |(name, at): (&str, &str)| Some((name.to_owned(), told.pointer(at)?.as_f64()?));
            Ok(figures.into_iter().filter_map(figure).collect())
        })
    }

    fn own_settings(&self) -> Result<StoreSettings, StoreError> {
        self.control.block_on(async {
            let server = self.server(PATIENCE);
            let query = "include_defaults=true&flat_settings=true";
            let response = server.call(Method::GET, &format!("/_cluster/settings?{query}"), None).await?;
            let mut settings = match response.status {
                200..=299 => settings_reported::of_cluster(&response.json()),
                403 => return Err(untold_settings(true)),
                _ => return Err(server.unexpected("tell its settings", &response)),
            };
            for Prepared { name, layout, .. } in self.ready.get().iter().flat_map(|ready| &ready.collections) {
                let path = path(name, &format!("_settings?{query}"));
                let told = server.done(Method::GET, &path, None, "tell the settings of an index").await?;
                // The first of several.
                let index = told.as_object().and_then(|all| all.values().next()).cloned().unwrap_or_default();
                settings_reported::add_index(&mut settings, &layout.name, &index);
            }
            Ok(settings)
        })
    }

    fn sample_keys(&self, collection: CollectionId, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError> {
        self.control.block_on(async {
            let ready = self.ready()?;
            self.server(WORK).sample(&ready.get(collection)?.name, at_most, seed).await
        })
    }

    fn account(&self, collection: CollectionId) -> Result<Account, StoreError> {
        self.control.block_on(async {
            let ready = self.ready()?;
            let names = [ready.get(collection)?.name.clone()];
            let server = self.server(PATIENCE);
            let routed = server.routed(&names).await?;
            let documents = server.count(&names, json!({ "match_all": {} })).await?;
            let beside = if routed > 0 { vec![(routed, "values of _routing".into())] } else { Vec::new() };
            Ok(Account { documents: Some(documents), beside, ..Account::default() })
        })
    }

    /// Each shard of each index, as `INDEX/SHARD`.
    fn parts(&self) -> Result<Vec<String>, StoreError> {
        let ready = self.ready()?;
        let indexes = ready.collections.iter().flat_map(|prepared| &prepared.behind.indexes);
        Ok(indexes.flat_map(|(index, shards)| (0..*shards).map(move |shard| format!("{index}/{shard}"))).collect())
    }

    fn rows<'a>(&'a self, rows: Rows<'a>) -> LocalFuture<'a, Result<Box<dyn RowStream>, StoreError>> {
        Box::pin(async move {
            let Rows::Walk { collection, part } = rows else {
                return Err(StoreError::NotSupported("only shards of a collection can be streamed".into()));
            };
            let ready = self.ready()?;
            let prepared = ready.get(collection)?;
            let found = part.rsplit_once('/').and_then(|(index, shard)| Some((index, shard.parse().ok()?)));
            let known = |(index, shard): &(&str, u32)| {
                prepared.behind.indexes.iter().any(|(known, shards)| known == index && shard < shards)
            };
            let (index, number) = found.filter(known).ok_or_else(|| {
                let name = &prepared.name;
                StoreError::Failed(format!("`{part}` is not a shard of `{name}` any more; use --restart to start over"))
            })?;
            let server = self.greeted(PATIENCE).await?;
            server.refresh(&[index.to_owned()]).await?;
            Ok(Box::new(Shard {
                elastic: self.welcome.get().is_some_and(|known| known.elastic),
                server,
                body: prepared.layout.body,
                keyed: prepared.keyed,
                index: Some(index.to_owned()),
                number,
                most: prepared.behind.window.clamp(1, MOST),
                point: None,
                lost: 0,
            }) as Box<dyn RowStream>)
        })
    }

    fn explain(&self, request: &Request<'_>) -> Result<Option<Explanation>, StoreError> {
        // A page or a range of keys has only one way.
        let Op::Query { text, values, .. } = request.op else { return Ok(None) };
        let ready = self.ready()?;
        let index = &ready.get(request.collection)?.name;
        self.control.block_on(self.server(PATIENCE).plan(index, text, values)).map(Some)
    }

    fn try_query(&self, request: &Request<'_>) -> Result<(), StoreError> {
        let Op::Query { text, values, .. } = request.op else { return Ok(()) };
        let ready = self.ready()?;
        let index = &ready.get(request.collection)?.name;
        self.control.block_on(self.server(PATIENCE).try_query(index, text, values))
    }

    fn build_index(&self, collection: CollectionId, name: &str, text: &str) -> Result<BuiltIndex, StoreError> {
        let ready = self.ready()?;
        let index = &ready.get(collection)?.name;
        let begun = Instant::now();
        let made = self.control.block_on(self.server(PATIENCE).map_for_queries(index, name, text))?;
        Ok(BuiltIndex { took: made.then(|| begun.elapsed()), bytes: None })
    }

    /// A mapping stays until its index is removed. The documents that come are indexed by it.
    fn drop_index(&self, _collection: CollectionId, _name: &str, _text: &str) -> Result<(), StoreError> {
        Ok(())
    }

    fn close(&self) -> Result<(), StoreError> {
        self.ready.take();
        Ok(())
    }

    fn remove(&self) -> Result<(), StoreError> {
        self.ready.take();
        self.control.block_on(async {
            let server = self.greeted(PATIENCE).await?;
            remove(&mut self.site(&server, Prepare::ReadOnly)).await
        })
    }
}
