//! `mongodb://HOST/DATABASE`: MongoDB, over its wire protocol. Each collection is one MongoDB collection.
//!
//! A document's key is its `_id`. Every document that this driver writes also has the member `_sb_rev`: a number drawn
//! at each write (16 bytes), which compare-and-swap uses. A document with an expiry also has `_sb_exp`. Replies omit
//! both. Collections of bytes hold `{_id, _sb_rev, b}`, counters `{_id, _sb_rev, n}`. Documents in a collection that
//! another program made get no extra members.
//!
//! | guarantee | write concern |
//! |---|---|
//! | `none` | `w: 1, j: false`: in the memory of the primary; its journal is written every 100 ms |
//! | `os`, `fsync` | `w: 1, j: true`: synced to the primary's journal (MongoDB has no level between) |
//! | acknowledged by N | `w: N`, `j: true` unless persisted is `none`; `wtimeout` is the operation's timeout |
//! | `majority` | `w: "majority"`, `j` likewise |
//!
//! A write that the primary did but that was not acknowledged as requested ends as *outcome unknown*. `open` refuses
//! guarantees that the deployment can never give, such as two nodes of a single server.
//!
//! # Why not the official crate
//! It has no advantage for control calls and costs more for each operation. It spawns two tasks (the implicit session
//! and the cursor), wakes the pool's worker twice, and serialises the command again through serde.
//! `storebench-bench --only "servers mongodb"` measures both in one run, against a server that answers from memory. The
//! table shows the client's CPU time for a document of 1 KiB (`mongodb` 3.9.1, medians on two virtual cores):
//!
//! | work | crate | this driver |
//! |---|---|---|
//! | find by key, one at a time | 45.5 µs | 21.9 µs |
//! | the same, 16 in flight | 28.1 µs | 10.9 µs |
//! | a load in batches of 1,000 | 8.3 µs | 1.7 µs |
//!
//! The figures of the load include converting JSON to BSON, with the crate through `bson::Document`, as its users do.
//!
//! So this driver implements messages, login and the choice of node itself. `hickory-resolver` resolves `mongodb+srv`
//! names. Control calls write their commands with the official `bson` crate. The tests compare our BSON with its.

mod auth;
mod begin;
mod bson;
mod bulk;
mod commands;
mod control;
mod decode;
mod encode;
mod errors;
mod extended;
mod finder;
#[cfg(test)]
mod fuzz;
mod indexes;
mod job;
mod namespace;
mod node;
mod patch;
mod session;
mod settings_reported;
mod srv;
mod stats;
mod study_queries;
mod transaction;
mod url;
mod wire;

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ::bson::spec::BinarySubtype;
use ::bson::{Binary, Document, doc};
use storebench_engine::store::{
    Acknowledged, Batch, BuiltIndex, Capabilities, CollectionId, CollectionLayout, Description, Durability,
    Explanation, Holdings, Layout, Op, OpKind, Persisted, Prepare, ReadConsistency, Request, Runtime, SAMPLES_A_RANGE,
    SessionOptions, Site as _, Stats, Store, StoreError, StoreSettings, Support, evenly, prepare, remove,
};
use storebench_study::workload::Language;

use crate::connection::Ready;
use crate::net::{self, Control, Memo};
use crate::refusals::{not_supported, refused_by_server};
use crate::registry::Options;
use commands::{Builder, Collection, KeyKind, Tails};
use control::{ControlConnection, LONG, PATIENCE};
use finder::{Deployment, Role};
use node::NodeConnections;
pub(crate) use session::MongoSession;
use session::{Orphans, Shared};
pub(crate) use url::SCHEME;
use url::Target;

/// The most nodes for which durability is offered: a replica set has at most seven voters.
const MOST_VOTERS: u32 = 7;
/// The number of members that is assumed until a server was asked.
const USUAL_MEMBERS: u32 = 3;

pub(crate) struct MongoStore {
    target: Arc<Target>,
    control: Control,
    seen: Memo<Seen>,
    ready: Memo<Ready<Collection>>,
    orphans: Arc<Orphans>,
}

/// What the server reports about itself.
#[derive(Debug, Clone)]
struct Seen {
    deployment: Deployment,
    version: String,
    is_ferretdb_1: bool,
}

impl Ready<Collection> {
    /// Whether another program's collections are written to.
    fn writes_theirs(&self) -> bool {
        !self.read_only && self.collections.iter().any(|collection| collection.theirs)
    }
}

impl MongoStore {
    /// Parses the URL, without connecting.
    pub(crate) fn new(url: &str, options: &mut Options<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            target: Arc::new(url::read(url, options)?),
            control: Control::default(),
            seen: Memo::default(),
            ready: Memo::default(),
            orphans: Arc::default(),
        })
    }

    fn ready(&self) -> Result<Ready<Collection>, StoreError> {
        self.ready.prepared(&self.target.shown)
    }

    fn collection(&self, id: CollectionId) -> Result<Collection, StoreError> {
        net::collection(&self.ready()?.collections, id).cloned()
    }

    /// Makes a control call.
    fn with_control<T>(
        &self,
        call: impl AsyncFnOnce(&mut ControlConnection<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.control.block_on(async { call(&mut self.control().await?).await })
    }

    /// Sends a query, or asks for its plan.
    fn ask(
        &self,
        collection: CollectionId,
        (text, values): (&str, Batch<'_>),
        explains: bool,
    ) -> Result<Vec<u8>, StoreError> {
        let collection = self.collection(collection)?;
        let mut command = Vec::new();
        study_queries::template(text, values).map_err(not_supported)?.write(values, &mut command);
        let command = String::from_utf8(command).map_err(|e| StoreError::NotSupported(e.to_string()))?;
        let mut message = Vec::new();
        let tails = &Tails::default();
        let mut builder = Builder { out: &mut message, collection: &collection, tails, explains };
        builder.ask(&command).map_err(not_supported)?;
        self.with_control(async |control| {
            let answer = control.send(&mut message, PATIENCE).await?;
            let reply = answer.map_err(|told| refused_by_server(told.control(&control.place(), "try a query")))?;
            control.close_cursor(&collection.database, &reply).await;
            Ok(reply)
        })
    }

    /// Ends transactions that were open when their sessions were dropped. If this fails, the server ends them, after a minute.
    async fn end_orphans(&self) {
        let orphans = std::mem::take(&mut *self.orphans.lock().unwrap_or_else(PoisonError::into_inner));
        if orphans.is_empty() {
            return;
        }
        let Ok(mut control) = self.control().await else { return };
        let session = |id: [u8; 16]| doc! { "id": Binary { subtype: BinarySubtype::Uuid, bytes: id.to_vec() } };
        let sessions: Vec<Document> = orphans.into_iter().map(session).collect();
        let _ = control.ask("admin", PATIENCE, doc! { "killSessions": sessions }).await;
    }

    fn is_ferretdb_1(&self) -> bool {
        self.seen.get().is_some_and(|seen| seen.is_ferretdb_1)
    }

    /// Connects for control calls, and remembers what the server reports about itself.
    async fn control(&self) -> Result<ControlConnection<'_>, StoreError> {
        let mut control = ControlConnection::open(&self.target).await?;
        if self.seen.get().is_none() {
            let (version, is_ferretdb_1) = control.version().await?;
            self.seen.set(Seen { deployment: control.hello.deployment, version, is_ferretdb_1 });
        }
        control.is_ferretdb_1 = self.is_ferretdb_1();
        Ok(control)
    }
}

/// The guarantees that a deployment can keep.
fn guarantees(deployment: Option<Deployment>) -> Vec<(Durability, &'static str)> {
    let mut guarantees = vec![
        (Durability::MEMORY, "w: 1, j: false: in memory; the journal is written every 100 ms"),
        (
            Durability::OS,
            "w: 1, j: true: synced to the journal, because no weaker setting survives a crash of the process",
        ),
        (Durability::FSYNC, "w: 1, j: true: synced to the journal"),
    ];
    let members = members(deployment);
    let levels = |guarantees: &mut Vec<_>, acknowledged_by, nodes: u32, none, journal| {
        guarantees.push((Durability { acknowledged_by, persisted: Persisted::None, on: 0 }, none));
        for on in 1..=nodes {
            for persisted in [Persisted::Os, Persisted::Disk] {
                guarantees.push((Durability { acknowledged_by, persisted, on }, journal));
            }
        }
    };
    for nodes in 2..=members {
        let text = ("w: that many, j: false", "w: that many, j: true: in the journal of each");
        levels(&mut guarantees, Acknowledged::Nodes(nodes), nodes, text.0, text.1);
    }
    let text = ("w: majority, j: false", "w: majority, j: true: in the journal of each");
    levels(&mut guarantees, Acknowledged::Majority, members / 2 + 1, text.0, text.1);
    guarantees
}

/// The implicit default write concern, w: majority, with its journal; one server alone acknowledges from memory:
/// <https://www.mongodb.com/docs/manual/reference/write-concern/#implicit-default-write-concern>.
fn as_shipped(deployment: Option<Deployment>) -> Durability {
    if deployment == Some(Deployment::Single) {
        return Durability::MEMORY;
    }
    Durability { acknowledged_by: Acknowledged::Majority, persisted: Persisted::Disk, on: members(deployment) / 2 + 1 }
}

/// The number of nodes that hold the data.
fn members(deployment: Option<Deployment>) -> u32 {
    match deployment {
        Some(Deployment::Single) => 1,
        Some(Deployment::ReplicaSet(members)) => members.min(MOST_VOTERS),
        Some(Deployment::Sharded) | None => USUAL_MEMBERS,
    }
}

impl Store for MongoStore {
    type Session = MongoSession;

    fn describe(&self) -> Description {
        let version = self.seen.get().map_or_else(|| "MongoDB, not asked yet".to_owned(), |seen| seen.version);
        Description { scheme: SCHEME.name, url: self.target.shown.clone(), version }
    }

    fn capabilities(&self) -> Capabilities {
        let theirs = self.ready().is_ok_and(|ready| ready.writes_theirs());
        let ferret = self.is_ferretdb_1();
        let support = |kind| match kind {
            OpKind::CompareAndSwap | OpKind::Counter | OpKind::MergePatch | OpKind::Append | OpKind::Prepend
                if ferret =>
            {
                Support::Approximated(
                    "FerretDB 1 does not do it at once: of concurrent ones of a document, some are lost, though acknowledged",
                )
            }
            OpKind::BulkUpsert if ferret => Support::Approximated(
                "a command for each document: FerretDB 1 stands still after one with many updates",
            ),
            OpKind::MergePatch if theirs => {
                Support::Approximated("an update that applies $set and $unset to the members in the patch")
            }
            OpKind::Touch => Support::Approximated(
                "a TTL index: the server removes expired documents once a minute; they stay readable until it does",
            ),
            OpKind::MergePatch | OpKind::Append | OpKind::Prepend => Support::Approximated(
                "the client reads the document, changes it, and writes it if it has not changed since; two requests",
            ),
            OpKind::Counter => {
                Support::Approximated("findAndModify with $inc: one request; two more to create a missing counter")
            }
            OpKind::Page => Support::Approximated(
                "a document whose field is an array that contains the value counts towards the limit, and is then left \
                 out",
            ),
            _ => Support::Native,
        };
        let of_ours = |kind: &OpKind| {
            use OpKind::{Append, CompareAndSwap, Counter, Prepend, Touch};
            matches!(kind, Append | CompareAndSwap | Counter | Prepend | Touch)
        };
        let single = self.seen.get().is_some_and(|seen| seen.deployment == Deployment::Single);
        let lacks = |kind: &OpKind| match kind {
            OpKind::View => true,
            OpKind::Transaction => single,
            OpKind::Touch => ferret,
            _ => false,
        };
        let operations = OpKind::ALL.into_iter().filter(|kind| !(lacks(kind) || theirs && of_ours(kind)));
        Capabilities {
            operations: operations.map(|kind| (kind, support(kind))).collect(),
            durability: guarantees(self.seen.get().map(|seen| seen.deployment)),
            shipped_durability: as_shipped(self.seen.get().map(|seen| seen.deployment)),
            consistency: vec![
                (
                    ReadConsistency::StaleOk,
                    "readPreference secondaryPreferred; readConcern local unless readConcernLevel= is set",
                ),
                (ReadConsistency::Session, "same as strong"),
                (
                    ReadConsistency::Strong,
                    "reads go to the primary with readConcern local and see every write that it acknowledged; for some \
                     seconds, a primary cut off from its majority may miss its successor's writes (use \
                     readConcernLevel=linearizable)",
                ),
            ],
            transactions: if single { transaction::none() } else { transaction::offered() },
            indexes: true,
            gives_up_at_timeout: true,
            inserts_faster: true,
            language: Some(Language::Mongodb),
            reserved_members: encode::RESERVED,
            unique_names: true,
            notes: vec![
                "Each document has a 16-byte revision (`_sb_rev`), which compare-and-swap uses.",
                "A session opens as many connections as it may have operations in flight; with stale-ok reads on a \
                 replica set, twice as many.",
                "Storebench makes all tries itself and does not use the server's retryable writes.",
                "A collection whose documents may expire has a sparse TTL index. It does not include documents without an \
                 expiry.",
                "FerretDB 1 has no TTL indexes, so documents cannot expire. It has no $sample, so sampling keys reads all of \
                 them. It takes no arrays within arrays and no member names with dots. Its updates are not atomic. With \
                 about 50 updates in flight it hangs permanently.",
                "Transactions need a replica set or a sharded cluster. One whose connection was lost is aborted on another; if \
                 that fails too, the server aborts it after a minute.",
                "nx-27017 cannot replace documents of bytes, and answers with error code 8.",
                "Tested on FerretDB 1.24.2, on nx-27017 and on a fake, not on MongoDB. For replica sets, routers, \
                 TTL and statistics, the driver follows MongoDB's documentation. `storebench conform URL` runs the \
                 suite on your server; for the expiry check, start mongod with --setParameter ttlMonitorSleepSecs=1.",
            ],
            ..Capabilities::default()
        }
    }

    fn runtime(&self) -> Runtime {
        Runtime::Reactor
    }

    fn answers(&self) -> Result<(), StoreError> {
        self.with_control(async |_| Ok(()))
    }

    fn holdings(&self) -> Result<Holdings, StoreError> {
        self.control.block_on(async { self.control().await?.look().await })
    }

    fn full_name(&self, collection: &CollectionLayout) -> String {
        let name = collection.existing.as_ref().map_or(&collection.name, |existing| &existing.name);
        let elsewhere = collection.existing.is_some() && name.contains('.');
        // The location of the store already includes its database.
        let within = name.strip_prefix(&format!("{}.", self.target.database)).filter(|_| elsewhere);
        within.unwrap_or(name).to_owned()
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        let collections = self.control.block_on(async {
            let mut control = self.control().await?;
            if how.makes_nothing() {
                return namespace::readable(&mut control, layout, how == Prepare::WriteExisting).await;
            }
            prepare(&mut control, layout, how).await?;
            let ours = |collection| namespace::ours(collection, &self.target.database);
            Ok(layout.collections.iter().map(ours).collect())
        })?;
        self.ready.set(Ready { collections, read_only: how == Prepare::ReadOnly });
        Ok(())
    }

    async fn open(&self, options: &SessionOptions) -> Result<MongoSession, StoreError> {
        let ready = self.ready()?;
        let wanted = options.in_flight.max(1) as usize;
        let node = |role| NodeConnections::open(&self.target, role, wanted, options.timeout);
        let writes = node(Role::Primary).await?;
        let deployment = writes.limits.deployment;
        if !guarantees(Some(deployment)).iter().any(|(guaranteed, _)| *guaranteed == options.durability) {
            let what = match deployment {
                Deployment::Single => "one server".to_owned(),
                Deployment::ReplicaSet(members) => format!("a replica set of {members}"),
                Deployment::Sharded => "a sharded cluster".to_owned(),
            };
            return Err(StoreError::NotSupported(format!(
                "{}: this is {what}, which cannot guarantee `{}`",
                self.target.shown, options.durability
            )));
        }
        let stale = options.consistency == ReadConsistency::StaleOk;
        let mut nodes = vec![writes];
        if stale && matches!(deployment, Deployment::ReplicaSet(2..)) {
            nodes.push(node(Role::Secondary).await?);
        }
        let tails = Tails::of(options, self.target.read_concern, deployment != Deployment::Single);
        let shared = Shared {
            collections: ready.collections,
            tails,
            read_only: ready.read_only,
            transactions: deployment != Deployment::Single,
            is_ferretdb_1: self.is_ferretdb_1(),
            orphans: Arc::clone(&self.orphans),
        };
        self.end_orphans().await;
        Ok(MongoSession::new(shared, nodes, options.timeout))
    }

    fn settle(&self, at_most: Duration) -> Result<bool, StoreError> {
        let ready = self.ready()?;
        if ready.read_only || ready.writes_theirs() {
            return Ok(true);
        }
        self.with_control(async |control| stats::settle(control, at_most).await)
    }

    fn compact(&self) -> Result<(), StoreError> {
        let ready = self.ready()?;
        if ready.read_only || ready.writes_theirs() {
            return Err(StoreError::NotSupported(
                "only writable collections that Storebench made can be compacted".into(),
            ));
        }
        self.with_control(async |control| {
            for collection in &ready.collections {
                // Since 4.4, `compact` blocks no reads or writes. Without `force`, a primary refuses it.
                let command = doc! { "compact": &collection.name, "force": true };
                control.done(&format!("compact `{}`", collection.name), LONG, command).await?;
            }
            Ok(())
        })
    }

    fn stats(&self) -> Result<Stats, StoreError> {
        self.with_control(async |control| stats::read(control).await)
    }

    fn own_settings(&self) -> Result<StoreSettings, StoreError> {
        self.with_control(async |control| settings_reported::read(control).await)
    }

    fn sample_keys(&self, collection: CollectionId, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError> {
        let collection = self.collection(collection)?;
        self.with_control(async |control| stats::sample(control, &collection, at_most, seed).await)
    }

    fn cuts(&self, collection: CollectionId, ranges: usize) -> Result<Vec<String>, StoreError> {
        let known = self.collection(collection)?;
        if known.collated {
            // Ranges between such keys would overlap, or leave out keys.
            return Ok(Vec::new());
        }
        let mut keys = self.sample_keys(collection, ranges * SAMPLES_A_RANGE, 1)?;
        match known.keys {
            KeyKind::Integer => keys.sort_unstable_by_key(|key| key.parse::<i64>().ok()),
            _ => keys.sort_unstable(),
        }
        keys.dedup();
        Ok(evenly(&keys, ranges))
    }

    fn try_query(&self, request: &Request<'_>) -> Result<(), StoreError> {
        let Op::Query { text, values, .. } = request.op else { return Ok(()) };
        self.ask(request.collection, (text, values), false).map(drop)
    }

    fn explain(&self, request: &Request<'_>) -> Result<Option<Explanation>, StoreError> {
        if let Op::Query { text, values, .. } = request.op {
            // A server that explains no queries has still run them.
            let plan = self.ask(request.collection, (text, values), true);
            return Ok(plan.ok().and_then(|reply| stats::explanation(&reply).ok()));
        }
        if !matches!(request.op.kind(), OpKind::Page | OpKind::Prefix | OpKind::Scan) {
            return Ok(None);
        }
        let collection = self.collection(request.collection)?;
        let mut message = Vec::new();
        let tails = &Tails::default();
        let mut builder = Builder { out: &mut message, collection: &collection, tails, explains: true };
        let built = begin::query(&mut builder, &request.op).map_err(|error| StoreError::BadUrl(error.to_string()))?;
        if built.is_none() {
            return Ok(None);
        }
        self.with_control(async |control| {
            let answer = control.send(&mut message, PATIENCE).await?;
            let reply = answer.map_err(|told| told.control(&control.place(), "explain the query"))?;
            stats::explanation(&reply).map(Some)
        })
    }

    fn build_index(&self, collection: CollectionId, name: &str, text: &str) -> Result<BuiltIndex, StoreError> {
        let collection = self.collection(collection)?;
        self.with_control(async |control| indexes::build(control, &collection.name, name, text).await)
    }

    fn drop_index(&self, collection: CollectionId, name: &str, text: &str) -> Result<(), StoreError> {
        let collection = self.collection(collection)?;
        self.with_control(async |control| indexes::drop(control, &collection.name, name, text).await)
    }

    fn close(&self) -> Result<(), StoreError> {
        self.ready.take();
        self.control.block_on(async {
            self.end_orphans().await;
            Ok(())
        })
    }

    fn remove(&self) -> Result<(), StoreError> {
        self.ready.take();
        self.control.block_on(async { remove(&mut self.control().await?).await })
    }
}
