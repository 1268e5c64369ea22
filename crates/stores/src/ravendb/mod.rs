//! `ravendb://HOST/DATABASE`: RavenDB 4.1 and newer, over HTTP.
//!
//! Every write is a `bulk_docs` in one transaction, which RavenDB's own clients also use to save. A read is
//! `GET /docs`. Each of our collections is a collection of RavenDB. [`names`] describes how keys become document ids.
//! The driver speaks HTTP itself (see [`crate::http`]), since there is no official client for Rust.
//!
//! Measured on RavenDB 4.1.0 (two cores shared with the client), and the driver's choices:
//! - For 1,000 documents of 2 KiB, the streaming `bulk_insert` took 59–119 ms and `bulk_docs` 44–121 ms, in four
//!   alternating runs each. `bulk_insert` overwrites existing documents and acknowledges only at its end, so nothing
//!   here uses it.
//! - A PATCH script that changes only metadata counts as no change. Scripts that set nested arrays or empty names cause
//!   an exception in the server. So touch and merge read the document, and store it again on condition of its change
//!   vector.
//! - The answer to a DELETE also reports `deleted` for a document that was already deleted. Only a script that removes
//!   the document shows whether it existed. The script takes about 0.2 ms of the server's time for each document of a
//!   bulk, instead of 0.06 ms.
//! - The two halves of an escaped character (`\ud83d\ude00`) are stored as two invalid characters, so they are sent as
//!   the character itself. Control characters are returned without the escapes that JSON requires, so the driver adds
//!   them.
//! - `startAfter` with a document that does not exist skips one: see [`range`].
//!
//! | guarantee | means |
//! |---|---|
//! | `fsync` | RavenDB writes each transaction through to its journal on disk before it answers |
//! | `acknowledged by N, persisted disk on N` | with `?replicas=N`: `bulk_docs` waits for N - 1 replicas, which have done the same |

mod bulk;
mod dialect;
mod errors;
mod expiry;
#[cfg(test)]
mod fuzz;
mod indexes;
mod json;
mod listing;
mod names;
mod page;
mod prepare;
mod range;
mod sample;
mod server;
mod settings_reported;
mod study_queries;
mod target;

use std::sync::Arc;
use std::time::Duration;

use storebench_engine::store::{
    Account, Acknowledged, BuiltIndex, Capabilities, CollectionId, CollectionLayout, Description, Durability,
    Explanation, Holdings, Layout, LocalFuture, Op, OpKind, Persisted, Prepare, ReadConsistency, Request, RowStream,
    Rows, RowsKind, Runtime, SameKeys, SessionOptions, Site as _, Stats, Store, StoreError, StoreSettings, Support,
    remove,
};

use crate::http::{Client, HttpSession};
use storebench_study::workload::Language;

use crate::net::{self, Address, Control, Memo, with_net_options};
use crate::refusals::not_supported;
use crate::registry::{OptionHelp, Options, Scheme};
use dialect::Raven;
use prepare::MarkedDatabase;
use server::Server;
use target::Target;

pub(crate) const SCHEME: Scheme = Scheme {
    name: "ravendb",
    what: "RavenDB: JSON documents on a server, over HTTP; ravendbs:// for TLS",
    example: "ravendb://127.0.0.1:8080/storebench",
    options: with_net_options![OptionHelp {
        name: "replicas",
        meaning: "number of nodes for a database that Storebench creates, and that a write may wait for (default 1)",
    }],
    decorator: false,
    aliases: &["ravendbs"],
};

const DEFAULT_PORT: u16 = 8080;
const DEFAULT_DATABASE: &str = "storebench";
/// Timeout of control calls. Creating or removing a database takes longest.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct RavenStore {
    address: Address,
    server: Server,
    control: Control,
    /// The number of nodes that a write may wait for.
    replicas: u32,
    version: Memo<String>,
    ready: Memo<Arc<Target>>,
}

impl RavenStore {
    /// Parses the URL, without connecting.
    pub(crate) fn new(url: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        let tls = url.starts_with("ravendbs:");
        let bad = |what: String| StoreError::BadUrl(format!("{what}; write it as in {}", SCHEME.example));
        let address = Address::parse(url, SCHEME.example, DEFAULT_PORT, tls, options)?;
        if address.user.is_some() {
            return Err(StoreError::BadUrl(
                "RavenDB authenticates clients by certificate, not by user and password; use \
                 ravendbs://host/database?tls_cert=FILE&tls_key=FILE"
                    .into(),
            ));
        }
        if address.hosts.len() > 1 {
            return Err(bad("the URL names several hosts, but a session connects to one node".into()));
        }
        let database = match address.path.as_slice() {
            [] => DEFAULT_DATABASE.to_owned(),
            [name] => name.clone(),
            more => return Err(bad(format!("`{}` is more than a database name", more.join("/")))),
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !database.chars().all(fits) || database.starts_with('.') || database.len() > 128 {
            return Err(bad(format!(
                "invalid database name `{database}`: RavenDB allows letters, digits, `-`, `_` and `.`"
            )));
        }
        let replicas = options.parse("replicas")?.unwrap_or(1);
        if !(1..=100).contains(&replicas) {
            return Err(StoreError::BadUrl(format!("invalid replicas={replicas}; use 1 or more")));
        }
        let client = Client::new(crate::http::Target::of(&address), CONTROL_TIMEOUT);
        let server = Server { client, place: address.host().to_string(), database };
        Ok(Self {
            address,
            server,
            control: Control::default(),
            replicas,
            version: Memo::default(),
            ready: Memo::default(),
        })
    }

    fn prepared(&self) -> Result<Arc<Target>, StoreError> {
        self.ready.prepared(&self.server.shown())
    }

    /// The database, after a check that the server is RavenDB.
    async fn place(&self) -> Result<MarkedDatabase<'_>, StoreError> {
        self.version.set(self.server.version().await?);
        Ok(MarkedDatabase { server: &self.server, replicas: self.replicas, contents: None, made: false })
    }

    /// What a session sends with every write and every query.
    fn dialect(&self, target: Arc<Target>, options: &SessionOptions) -> Result<Raven, StoreError> {
        let capabilities = self.capabilities();
        // A session that cannot write guarantees nothing about writes.
        if !target.read_only && capabilities.guarantees(options.durability).is_none() {
            let more = if self.replicas == 1 { "; to wait for other nodes, set ?replicas=N" } else { "" };
            return Err(StoreError::NotSupported(format!(
                "RavenDB cannot guarantee `{}`: it syncs every write to the disk of its node{more}",
                options.durability
            )));
        }
        let mut bulk_docs = "/bulk_docs".to_owned();
        if let Acknowledged::Nodes(nodes) = options.durability.acknowledged_by
            && nodes > 1
        {
            if target.nodes < nodes as usize {
                return Err(StoreError::NotSupported(format!(
                    "{} is on {} nodes, so no write can be acknowledged by {nodes}; add nodes to its group",
                    self.server.shown(),
                    target.nodes
                )));
            }
            bulk_docs += &format!(
                "?waitForReplicasTimeout={}&numberOfReplicasToWaitFor={}&throwOnTimeoutInWaitForReplicas=true",
                time_span(options.timeout),
                nodes - 1
            );
        }
        let wait = match options.consistency {
            ReadConsistency::StaleOk => String::new(),
            ReadConsistency::Session | ReadConsistency::Strong => format!(
                ",\"WaitForNonStaleResults\":true,\"WaitForNonStaleResultsTimeout\":\"{}\"",
                time_span(options.timeout)
            ),
        };
        Ok(Raven { target, bulk_docs, wait, queries: Default::default() })
    }
}

/// Notes that apply to every server.
const NOTES: [&str; 9] = [
    "Without a licence, RavenDB 4.1 uses at most 3 cores and 6 GB of memory, and one node.",
    "RavenDB's ids ignore case. The driver escapes capitals, spaces and non-ASCII letters, so that keys keep their \
     case and order. An id has at most 512 bytes.",
    "A task removes expired documents; they stay readable until it runs. In a database that Storebench created, the \
     first touch enables the task: every 5 s, or as often as the licence allows (without a licence, RavenDB 6 and \
     later allow it every 36 hours). The client's clock decides when a document expires.",
    "Counters are stored as documents. They are exact within ±(2^53 - 1); steps beyond that are refused. RavenDB 4.1's \
     own counters are experimental.",
    "A document's own @metadata member is not written, because RavenDB reserves that name.",
    "An index covers texts of up to 16,383 characters only: a page does not find longer ones.",
    "A page by a field without an index makes RavenDB create one.",
    "Escapes such as \\u00f6 of characters that need none are sent as UTF-8, because RavenDB 4.1 changes some of them \
     (`Kf6ln` for `K\u{f6}ln`).",
    "RavenDB 7's index engine (Corax) splits the surrogate pairs of characters beyond U+FFFF, such as emoji. A page by \
     a text with such a character may miss documents. RavenDB 4.1 finds them.",
];

/// Nine tenths of a timeout, in .NET's format, so that the server gives up before the client does.
fn time_span(timeout: Duration) -> String {
    let ms = (timeout.as_millis() * 9 / 10).clamp(1, 86_399_999);
    format!("{:02}:{:02}:{:02}.{:03}", ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms % 1_000)
}

/// The guarantee of an acknowledgement by this many nodes.
fn on_nodes(nodes: u32) -> Durability {
    Durability { acknowledged_by: Acknowledged::Nodes(nodes), persisted: Persisted::Disk, on: nodes }
}

impl Store for RavenStore {
    type Session = HttpSession<Raven>;

    fn describe(&self) -> Description {
        let version = self.version.get().unwrap_or_else(|| "RavenDB".to_owned());
        Description { scheme: SCHEME.name, url: self.address.shown.clone(), version }
    }

    fn capabilities(&self) -> Capabilities {
        let theirs = self.ready.get().is_some_and(|target| target.collections.iter().any(|c| !c.naming.ours));
        let left_out = |kind: &OpKind| match kind {
            OpKind::Append | OpKind::Prepend | OpKind::View | OpKind::Transaction => true,
            // Ids of other programs are ordered by their lower-case form, so their documents are listed instead.
            OpKind::Scan => theirs,
            // The counter script does not wait for replicas.
            OpKind::Counter => self.replicas > 1,
            _ => false,
        };
        let operations = OpKind::ALL.into_iter().filter(|kind| !left_out(kind)).map(|kind| (kind, support(kind)));
        let mut durability = Vec::new();
        if self.replicas > 1 {
            durability.push((
                on_nodes(self.replicas),
                "bulk_docs with waitForReplicas: each of the nodes has synced the write to its journal",
            ));
        }
        let expires_late_by = self.ready.get().and_then(|target| target.expiry.late_by());
        let mut notes = NOTES.to_vec();
        if expires_late_by.is_some() {
            notes.push(
                "This server removes expired documents less often than once a minute, because of the database's \
                 settings or the server's licence.",
            );
        }
        durability.push((Durability::FSYNC, "each transaction is written through to the journal on disk"));
        Capabilities {
            operations: operations.collect(),
            durability,
            shipped_durability: Durability::FSYNC,
            consistency: vec![
                (ReadConsistency::StaleOk, "documents: same as strong; a page does not wait for its index"),
                (ReadConsistency::Session, "same as strong"),
                (
                    ReadConsistency::Strong,
                    "documents are read from the node that took the write; a page waits until its index has seen every \
                     earlier write, and fails with a temporary error if that takes longer than nine tenths of the \
                     timeout",
                ),
            ],
            indexes: true,
            language: Some(Language::Ravendb),
            gives_up_at_timeout: true,
            expires_late_by,
            own_members: &["@metadata"],
            reserved_members: &["@metadata"],
            unique_names: true,
            rows: &[RowsKind::Walk],
            notes,
            ..Capabilities::default()
        }
    }

    fn runtime(&self) -> Runtime {
        Runtime::Reactor
    }

    fn answers(&self) -> Result<(), StoreError> {
        self.control.block_on(self.place()).map(drop)
    }

    fn holdings(&self) -> Result<Holdings, StoreError> {
        self.control.block_on(async { self.place().await?.look().await })
    }

    fn full_name(&self, collection: &CollectionLayout) -> String {
        let name = match &collection.existing {
            Some(existing) => existing.name.clone(),
            None => names::collection(&collection.name),
        };
        name.to_ascii_lowercase()
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        let target = self.control.block_on(async { self.place().await?.prepare(layout, how).await })?;
        self.ready.set(Arc::new(target));
        Ok(())
    }

    async fn open(&self, options: &SessionOptions) -> Result<Self::Session, StoreError> {
        let dialect = self.dialect(self.prepared()?, options)?;
        HttpSession::open(dialect, crate::http::Target::of(&self.address), options).await
    }

    fn settle(&self, at_most: Duration) -> Result<bool, StoreError> {
        self.control.block_on(self.server.settle(at_most))
    }

    fn compact(&self) -> Result<(), StoreError> {
        if !self.ready.get().is_some_and(|target| target.ours && !target.read_only) {
            return Err(StoreError::NotSupported(
                "a compaction makes the whole database unavailable, and this one holds more than Storebench's \
                 documents"
                    .into(),
            ));
        }
        self.control.block_on(self.server.compact())
    }

    fn stats(&self) -> Result<Stats, StoreError> {
        self.control.block_on(self.server.figures())
    }

    fn own_settings(&self) -> Result<StoreSettings, StoreError> {
        Ok(settings_reported::of(&self.control.block_on(self.server.configuration())?))
    }

    fn sample_keys(&self, collection: CollectionId, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError> {
        let target = self.prepared()?;
        let collection = net::collection(&target.collections, collection)?;
        self.control.block_on(self.server.sample_keys(collection, at_most, seed))
    }

    fn account(&self, collection: CollectionId) -> Result<Account, StoreError> {
        let target = self.prepared()?;
        let name = &net::collection(&target.collections, collection)?.name;
        let Some(found) = self.control.block_on(self.server.look())? else { return Ok(Account::default()) };
        let documents = found.collections.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        let indexes = found.their_indexes().count() as u64;
        let beside = if indexes > 0 { vec![(indexes, "indexes of its database".into())] } else { Vec::new() };
        Ok(Account { documents: Some(documents.map_or(0, |(_, count)| *count)), beside, ..Account::default() })
    }

    /// RavenDB ignores the case of ids. In collections that Storebench makes, ids are written so that it cannot matter.
    fn same_keys(&self, collection: CollectionId) -> SameKeys {
        let target = self.prepared().ok();
        let theirs =
            target.is_some_and(|target| target.collections.get(collection.position()).is_some_and(|c| !c.naming.ours));
        if theirs { SameKeys::AnyCase } else { SameKeys::Exact }
    }

    fn parts(&self) -> Result<Vec<String>, StoreError> {
        // Every node has the whole database.
        Ok(vec!["all".to_owned()])
    }

    fn rows<'a>(&'a self, rows: Rows<'a>) -> LocalFuture<'a, Result<Box<dyn RowStream>, StoreError>> {
        Box::pin(async move {
            let Rows::Walk { collection, .. } = rows else {
                return Err(StoreError::NotSupported(
                    "RavenDB is read by walking a collection, not by a query or a range".into(),
                ));
            };
            let target = self.prepared()?;
            let collection = net::collection(&target.collections, collection)?;
            if collection.naming.ours {
                return Err(StoreError::NotSupported(
                    "collections that Storebench made are read in key order, not by a walk".into(),
                ));
            }
            let listing = self.server.listing(&collection.name, target.may_expire).await?;
            Ok(Box::new(listing) as Box<dyn RowStream>)
        })
    }

    fn try_query(&self, request: &Request<'_>) -> Result<(), StoreError> {
        let Op::Query { text, values, .. } = request.op else { return Ok(()) };
        let target = self.prepared()?;
        let collection = net::collection(&target.collections, request.collection)?;
        let tried = study_queries::post(&self.server, collection, "/queries", (text, values), target.may_index());
        self.control.block_on(tried).map(drop)
    }

    fn build_index(&self, collection: CollectionId, name: &str, text: &str) -> Result<BuiltIndex, StoreError> {
        let target = self.prepared()?;
        let collection = net::collection(&target.collections, collection)?;
        self.control.block_on(indexes::build(&self.server, collection, name, text))
    }

    fn drop_index(&self, collection: CollectionId, name: &str, _text: &str) -> Result<(), StoreError> {
        let target = self.prepared()?;
        let collection = net::collection(&target.collections, collection)?;
        self.control.block_on(indexes::drop(&self.server, collection, name))
    }

    fn explain(&self, request: &Request<'_>) -> Result<Option<Explanation>, StoreError> {
        let target = self.prepared()?;
        let Some(collection) = target.collections.get(request.collection.position()) else { return Ok(None) };
        match request.op {
            Op::Page { field, .. } => {
                let query = collection.query(field, target.read_only).map_err(not_supported)?;
                self.control.block_on(self.server.explain(&query)).map(Some)
            }
            Op::Query { text, values, .. } => {
                let asked = study_queries::explain(&self.server, collection, (text, values), target.may_index());
                self.control.block_on(asked).map(Some)
            }
            Op::Prefix { prefix, .. } => Ok(Some(Explanation {
                plan: "the tree of ids, from the first that begins with the prefix".to_owned(),
                // One tree holds the ids of all collections.
                full_scan: !collection.naming.ours && prefix.is_empty(),
            })),
            Op::Scan { .. } => Ok(Some(Explanation {
                plan: "the tree of ids, from the first that is not less than the start".to_owned(),
                full_scan: false,
            })),
            _ => Ok(None),
        }
    }

    fn close(&self) -> Result<(), StoreError> {
        self.ready.take();
        Ok(())
    }

    fn remove(&self) -> Result<(), StoreError> {
        self.ready.take();
        self.control.block_on(async { remove(&mut self.place().await?).await })
    }
}

fn support(kind: OpKind) -> Support {
    match kind {
        OpKind::Replace => Support::Approximated(
            "reads the change vector, then writes if it has not changed; starts over if another write came in between",
        ),
        OpKind::Delete | OpKind::BulkDelete => Support::Approximated(
            "a PATCH script removes the document, in the same request, because the answer to DELETE does not show \
             whether the document still existed",
        ),
        OpKind::Touch => Support::Approximated(
            "reads the document and stores it again with @expires, if its change vector has not changed",
        ),
        OpKind::MergePatch => Support::Approximated(
            "reads the document, merges, and stores it if its change vector has not changed; starts over if another \
             write came in between",
        ),
        OpKind::Counter => Support::Approximated("a PATCH script adds to a member of a document, on the server"),
        OpKind::BulkInsert => Support::Approximated(
            "one transaction; if some keys already exist, a second request finds them and a third stores the other \
             documents",
        ),
        OpKind::Page => Support::Approximated(
            "the server also returns documents whose field has the same text but another JSON type; the client leaves \
             them out",
        ),
        OpKind::Scan => Support::Approximated(
            "startsWith the key, then startAfter the last document found; documents after the end are fetched and left \
             out",
        ),
        _ => Support::Native,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(url: &str) -> Result<RavenStore, StoreError> {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        RavenStore::new(url, &mut Options::for_test(query))
    }

    #[test]
    fn the_database_is_named_by_the_path() {
        assert_eq!(store("ravendb://h").unwrap().server.shown(), "h:8080/storebench");
        assert_eq!(store("ravendb://h:7/a.b-c_1").unwrap().server.shown(), "h:7/a.b-c_1");
        assert!(store("ravendbs://h/x").unwrap().address.tls.is_some());
        for url in ["ravendb://h/a/b", "ravendb://h/a%20b", "ravendb://h/..", "ravendb://u:secret@h", "ravendb://a,b/c"]
        {
            let error = store(url).map(drop).unwrap_err();
            assert!(matches!(error, StoreError::BadUrl(_)), "{url}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert!(store("ravendb://h?replicas=0").is_err());
    }

    #[test]
    fn waiting_ends_before_the_timeout() {
        assert_eq!(time_span(Duration::from_secs(10)), "00:00:09.000");
        assert_eq!(time_span(Duration::from_millis(1)), "00:00:00.001");
        assert_eq!(time_span(Duration::from_secs(5_000)), "01:15:00.000");
    }

    #[test]
    fn waiting_for_replicas_is_offered_when_asked_for() {
        let plain = store("ravendb://h").unwrap().capabilities();
        assert_eq!(plain.durability.len(), 1);
        assert!(plain.supports(OpKind::Counter).is_some());
        let replicated = store("ravendb://h?replicas=2").unwrap().capabilities();
        assert!(replicated.guarantees(on_nodes(2)).is_some() && replicated.guarantees(Durability::FSYNC).is_some());
        assert!(replicated.supports(OpKind::Counter).is_none());
    }
}
