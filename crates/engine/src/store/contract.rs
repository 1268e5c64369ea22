//! What every store driver provides: [`Store`] and, one per connection, [`Session`].

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Account, Capabilities, CollectionId, Completions, CopyId, Durability, Holdings, OpKind, Owner, ReadConsistency,
    Request, RowStream, Rows, SAMPLES_A_RANGE, SameKeys, StoreSettings, Token, evenly,
};
use crate::Clock;
use storebench_study::workload::{Body, does};

/// A store could not be inspected, opened, prepared or queried.
#[derive(Debug, Clone, thiserror::Error, Serialize, Deserialize)]
pub enum StoreError {
    /// The URL or one of its options is wrong. Nothing was touched.
    #[error("{0}")]
    BadUrl(String),
    /// The store holds data that Storebench did not create. Nothing was touched.
    #[error("{0}")]
    NotOurs(String),
    /// The store cannot do what the study asks. Nothing was touched.
    #[error("{0}")]
    NotSupported(String),
    /// The store could not be reached, or it answered that it will not serve.
    #[error("{0}")]
    Unreachable(String),
    /// The store was reached and something went wrong there.
    #[error("{0}")]
    Failed(String),
}

impl StoreError {
    /// The same error with another text.
    #[must_use]
    pub fn map_text(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::BadUrl(text) => Self::BadUrl(change(text)),
            Self::NotOurs(text) => Self::NotOurs(change(text)),
            Self::NotSupported(text) => Self::NotSupported(change(text)),
            Self::Unreachable(text) => Self::Unreachable(change(text)),
            Self::Failed(text) => Self::Failed(change(text)),
        }
    }
}

/// What should exist in the store: the collections of a study.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Layout {
    /// In the order of their [`CollectionId`](super::CollectionId).
    pub collections: Vec<CollectionLayout>,
}

impl From<&storebench_study::workload::Study> for Layout {
    /// The collections as stores should hold them.
    fn from(study: &storebench_study::workload::Study) -> Self {
        let of = |(name, c): (&String, &storebench_study::workload::Collection)| CollectionLayout {
            name: name.clone(),
            body: c.body,
            indexes: c.index.clone(),
            existing: c.existing.as_ref().map(Into::into),
            uses: Uses::of(study, name),
        };
        Layout { collections: study.collections.iter().map(of).collect() }
    }
}

/// One collection as the store needs to know it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CollectionLayout {
    /// Its name: letters, digits, `-` and `_`, beginning with a letter (checked when the study is read).
    pub name: String,
    /// What kind of documents it holds.
    pub body: Body,
    /// Secondary indexes, each over one or more top-level fields.
    pub indexes: Vec<Vec<String>>,
    /// Where the user's own documents are, for a collection that Storebench did not create.
    pub existing: Option<Existing>,
    /// What is done with its documents, of what some stores must be prepared for.
    pub uses: Uses,
}

/// What is done with the documents of a collection, of what some stores must be prepared for. A store makes nothing for
/// what is not used: an index that a plain user would not have takes time that is charged to the store, and a server
/// that lacks it can do the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uses {
    /// Documents may get an expiry.
    pub expiry: bool,
    /// Documents are read in the order of their keys: by prefix, in scans, and by a copy out.
    pub key_order: bool,
}

impl Uses {
    /// Everything.
    pub const ALL: Self = Self { expiry: true, key_order: true };

    /// What a study does with a collection. A trace may do anything.
    fn of(study: &storebench_study::workload::Study, collection: &str) -> Self {
        let replays = study.phases.iter().any(|phase| phase.trace.is_some());
        let does = |ops: &[OpKind]| replays || does(study, &study.phases, ops, collection);
        let copied = || study.phases.iter().any(|phase| !phase.loads() && phase.copied(study) == Some(collection));
        Self { expiry: does(&[OpKind::Touch]), key_order: does(&[OpKind::Prefix, OpKind::Scan]) || copied() }
    }
}

/// The end of an error about columns that the user can solve by naming them. Each verb replaces it with its own flags.
pub const NAME_COLUMNS: &str =
    "name the columns in the study: existing = { name = \"TABLE\", key = \"COLUMN\", body = \"COLUMN\" }";

/// Documents that others put into the store. Only prepared with [`Prepare::ReadOnly`] and [`Prepare::WriteExisting`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Existing {
    /// What the store calls their collection: a table, database, bucket, collection or key prefix.
    pub name: String,
    /// The field or column that holds the key, in stores where that is not fixed.
    pub key: Option<String>,
    /// The field or column that holds the document, in stores where that is not fixed.
    pub body: Option<String>,
}

impl From<&storebench_study::workload::ExistingDocuments> for Existing {
    fn from(study: &storebench_study::workload::ExistingDocuments) -> Self {
        Self { name: study.name.clone(), key: study.key.clone(), body: study.body.clone() }
    }
}

/// What is at the store's URL now. Looking changes nothing, not even a file's time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Namespace {
    /// Nothing: Storebench may create it.
    Absent,
    /// Created by studies, with Storebench's marker: may be written, emptied and removed.
    Ours,
    /// Has Storebench's marker and holds the user's data, which a copy wrote and which this text names. A study writes
    /// beside it only if the user insists, and empties it only with the flag that names the loss.
    Copied(String),
    /// Holds something else, which this text names: written only if the user insists, never emptied.
    Foreign(String),
}

/// How a store is prepared for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Prepare {
    /// Remove what studies created here, then create the layout. Data that a copy wrote is refused.
    Fresh,
    /// As [`Fresh`](Self::Fresh), and also remove what copies wrote here: the user named that loss. Data without a
    /// marker is refused.
    Discard,
    /// Keep documents that studies created, and create what is missing of the layout. Data that a copy wrote is
    /// refused.
    Keep,
    /// Create what is missing of the layout beside whatever is there, for the user's data. Each collection of the
    /// layout is marked as the user's before the first record, even if a study created it.
    Copy(CopyId),
    /// Write into a namespace that somebody else created: add the layout's collections to it, each with Storebench's
    /// marker. An existing collection of the same name is refused if it has no marker or if a copy wrote it. If a study
    /// created it, it is kept as it is.
    IntoExisting,
    /// Write into collections of somebody else: all of the layout's are [`Existing`] ones. Nothing is created, emptied,
    /// marked or altered except the documents that are written, and Storebench adds nothing of its own to them.
    /// Operations that need more are refused, and so are missing collections.
    WriteExisting,
    /// Read what is there; change nothing.
    ReadOnly,
}

impl Prepare {
    /// Whether nothing is created: missing collections are refused.
    pub fn makes_nothing(self) -> bool {
        matches!(self, Prepare::ReadOnly | Prepare::WriteExisting)
    }

    /// Whether earlier contents are removed.
    pub fn empties(self) -> bool {
        matches!(self, Prepare::Fresh | Prepare::Discard)
    }
}

/// Where a store's sessions run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// On the worker's plain thread: `submit` completes before it returns, or [`Session::wake_at_ns`] says when to poll
    /// again.
    Plain,
    /// On a tokio current-thread runtime that the worker's thread runs.
    Reactor,
}

/// What one session guarantees and how it behaves.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// How fresh reads are.
    pub consistency: ReadConsistency,
    /// How long one try of an operation may take before the session gives it up.
    pub timeout: Duration,
    /// The most operations in flight on the session. If the protocol allows only one per connection (HTTP/1.1), a
    /// session opens this many connections.
    pub in_flight: u32,
    /// The run's clock.
    pub clock: Arc<dyn Clock>,
    /// When the measured phase begins, in ns of `clock`; not set while loading. Decorators count from it.
    pub phase_start: PhaseStart,
}

/// When the measured phase began: known only once all sessions are open.
#[derive(Debug, Clone, Default)]
pub struct PhaseStart(Arc<OnceLock<u64>>);

impl PhaseStart {
    /// Not begun yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the start, in ns of the run's clock. Only the first call counts.
    pub fn begin(&self, now_ns: u64) {
        let _ = self.0.set(now_ns);
    }

    /// When it began, in ns of the run's clock.
    pub fn get(&self) -> Option<u64> {
        self.0.get().copied()
    }
}

/// The identity of a store, for the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The scheme of its URL.
    pub scheme: &'static str,
    /// The URL without secrets.
    pub url: String,
    /// Name and version of the engine or server, as far as it reports them.
    pub version: String,
}

/// Figures that a store reports about itself, each with its unit in the name (`file_bytes`, `wal_bytes`,
/// `compactions_pending`).
pub type Stats = Vec<(String, f64)>;

/// A document store.
///
/// Control calls block and may take as long as they need. A network driver runs them on a private current-thread
/// runtime. Creating the value touches nothing: the first contact is [`Store::inspect`].
pub trait Store: Send + Sync + 'static {
    /// One connection.
    type Session: Session;

    /// Its identity.
    fn describe(&self) -> Description;

    /// What it can do. Once it is prepared, this depends on what it was prepared for.
    fn capabilities(&self) -> Capabilities;

    /// Where its sessions run.
    fn runtime(&self) -> Runtime {
        Runtime::Plain
    }

    /// Makes the first contact: connects, logs in, and learns what the server is. Changes nothing.
    fn answers(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Looks at what is there and at Storebench's marker. Changes nothing. The results of [`inspect`](Self::inspect),
    /// [`owner_of`](Self::owner_of) and [`collections`](Self::collections) follow from it.
    fn holdings(&self) -> Result<Holdings, StoreError> {
        Err(StoreError::NotSupported("this store has no marker to read".into()))
    }

    /// What is there. Changes nothing.
    fn inspect(&self) -> Result<Namespace, StoreError> {
        Ok(self.holdings()?.namespace())
    }

    /// The owner of the collection of this name, by Storebench's marker; `None` if no marker names it. Changes nothing,
    /// and needs no preparation.
    fn owner_of(&self, collection: &str) -> Result<Option<Owner>, StoreError> {
        Ok(self.holdings()?.owner_of(collection))
    }

    /// Prepares the store. The caller has inspected it. A driver still refuses to empty what Storebench did not create.
    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError>;

    /// Opens one session. Called on the thread, and within the runtime, that will drive it.
    fn open(&self, options: &SessionOptions) -> impl Future<Output = Result<Self::Session, StoreError>>;

    /// Waits until flushes, indexing, compaction and the write queue are idle, at most this long. Returns whether they
    /// are.
    fn settle(&self, _at_most: Duration) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Starts a compaction and waits for it.
    fn compact(&self) -> Result<(), StoreError> {
        Err(StoreError::NotSupported("this store has no compaction on request".into()))
    }

    /// The statistics that the store reports now.
    fn stats(&self) -> Result<Stats, StoreError> {
        Ok(Stats::new())
    }

    /// How the store says that it is set up. Empty if it says nothing. Changes nothing.
    fn own_settings(&self) -> Result<StoreSettings, StoreError> {
        Ok(StoreSettings::default())
    }

    /// Keys of documents that are in a prepared collection, at most this many, spread over it as evenly as the store
    /// can without reading everything. `seed` decides which. For measuring documents that Storebench did not create.
    /// Changes nothing.
    fn sample_keys(&self, _collection: CollectionId, _at_most: usize, _seed: u64) -> Result<Vec<String>, StoreError> {
        Err(StoreError::NotSupported("this store cannot list keys of documents that Storebench did not create".into()))
    }

    /// Keys that cut a prepared collection into at most `ranges` ranges of about equal size, in the order in which
    /// ranges are read. Empty if the store cannot find them. Changes nothing.
    ///
    /// The default implementation assumes that keys are ordered by their bytes.
    fn cuts(&self, collection: CollectionId, ranges: usize) -> Result<Vec<String>, StoreError> {
        let mut keys = match self.sample_keys(collection, ranges * SAMPLES_A_RANGE, 1) {
            Err(StoreError::NotSupported(_)) => return Ok(Vec::new()),
            keys => keys?,
        };
        keys.sort_unstable();
        keys.dedup();
        Ok(evenly(&keys, ranges))
    }

    /// The name of the order of [`cuts`](Self::cuts), if it is specific to the prepared collection. Ranges that were
    /// cut in another order do not fit.
    fn range_order(&self, _collection: CollectionId) -> Option<String> {
        None
    }

    /// What the store itself counts about a prepared collection, as far as it does so without reading it. Changes
    /// nothing.
    fn account(&self, _collection: CollectionId) -> Result<Account, StoreError> {
        Ok(Account::default())
    }

    /// Which keys are one key in a prepared collection.
    fn same_keys(&self, _collection: CollectionId) -> SameKeys {
        SameKeys::Exact
    }

    /// Top-level members of its documents that are parts of their keys: what is read back has them, also if what was
    /// written had not.
    fn key_members(&self, _collection: CollectionId) -> Vec<String> {
        Vec::new()
    }

    /// Names of the collections that a copy can read here, in no particular order. Changes nothing.
    fn collections(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.holdings()?.names())
    }

    /// The columns for key and document of a table that others made, if the table leaves no choice: it has only a key column
    /// and a column of JSON. `None` if not, or if the store has no columns. Changes nothing.
    ///
    /// # Errors
    /// What cannot be read.
    fn plain_columns(&self, _table: &str) -> Result<Option<(String, String)>, StoreError> {
        Ok(None)
    }

    /// The store's own full name of a collection. Two collections with the same full name are one.
    fn full_name(&self, collection: &CollectionLayout) -> String {
        collection.existing.as_ref().map_or(&collection.name, |existing| &existing.name).clone()
    }

    /// Names of the parts of the store that can be walked separately: nodes, as a rule.
    fn parts(&self) -> Result<Vec<String>, StoreError> {
        Err(StoreError::NotSupported("this store cannot be walked in parts".into()))
    }

    /// Begins to stream rows. Changes nothing. Called on the thread, and within the runtime, that reads them.
    fn rows<'a>(&'a self, _rows: Rows<'a>) -> LocalFuture<'a, Result<Box<dyn RowStream>, StoreError>> {
        Box::pin(async { Err(StoreError::NotSupported("this store cannot stream rows".into())) })
    }

    /// Tries a query in the store's own language, once, and so that it cannot write. Sessions may refuse a query that
    /// was not tried.
    ///
    /// # Errors
    /// [`StoreError::NotSupported`] if the store refuses it, or if it may write.
    fn try_query(&self, _request: &Request<'_>) -> Result<(), StoreError> {
        Err(StoreError::NotSupported("this store has no query language".into()))
    }

    /// How the store would answer a query: its plan as text, and whether it reads the whole collection. Does not run it.
    fn explain(&self, _request: &Request<'_>) -> Result<Option<Explanation>, StoreError> {
        Ok(None)
    }

    /// Builds an index of a prepared collection, given in the store's own words, and waits until queries can use it. An
    /// index with this name that exists already is kept.
    ///
    /// # Errors
    /// [`StoreError::NotSupported`] if the store refuses the text, or if it may do anything else. Then nothing was built.
    fn build_index(&self, _collection: CollectionId, _name: &str, _text: &str) -> Result<BuiltIndex, StoreError> {
        Err(StoreError::NotSupported("this store has no indexes in a language of its own".into()))
    }

    /// Removes an index that [`build_index`](Self::build_index) has built. A store that indexes documents only when they
    /// are written keeps it.
    fn drop_index(&self, _collection: CollectionId, _name: &str, _text: &str) -> Result<(), StoreError> {
        Err(StoreError::NotSupported("this store has no indexes in a language of its own".into()))
    }

    /// Files and folders the store keeps its data in, for embedded stores: their size on disk is
    /// recorded.
    fn paths(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Closes everything that the store has open, so that nothing is written after the run.
    fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Removes everything that studies created here, and only that: what a copy wrote stays.
    fn remove(&self) -> Result<(), StoreError>;
}

/// An index that a study gives in the store's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BuiltIndex {
    /// How long the store took to build it. `None` if it existed already.
    pub took: Option<Duration>,
    /// Its size, if the store reports it.
    pub bytes: Option<u64>,
}

/// A query plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The plan as the store prints it.
    pub plan: String,
    /// Whether it reads the whole collection.
    pub full_scan: bool,
}

/// What happened to a session beyond its operations. Counts only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionCounters {
    /// How often a connection was lost after it had been made.
    pub disconnects: u64,
    /// How often a bulk request was cut in two because the server found it too large.
    pub splits: u64,
}

impl SessionCounters {
    /// What has happened since an earlier reading.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            disconnects: self.disconnects.saturating_sub(earlier.disconnects),
            splits: self.splits.saturating_sub(earlier.splits),
        }
    }
}

impl std::ops::AddAssign for SessionCounters {
    fn add_assign(&mut self, other: Self) {
        self.disconnects += other.disconnects;
        self.splits += other.splits;
    }
}

/// One connection, with as many operations in flight as its caller submits.
///
/// The caller submits, flushes when it has no more to submit now, and polls. Every submitted
/// operation completes exactly once, through `out` of `submit` or of a later `poll`.
///
/// A session survives a broken connection. Operations that were sent and not answered complete as *outcome unknown*
/// (reads, which change nothing, as *temporary*). The session reconnects by itself, with capped exponential back-off.
/// Until then it answers each operation at once as *temporary*.
///
/// Reconnecting may need polls, but no operation. The caller polls a session whenever it wakes, even while nothing is
/// in flight, and at the latest before it submits again. Polling a session where nothing has happened is cheap: it
/// costs no system call and no allocation.
pub trait Session {
    /// Takes an operation. An embedded store completes it before returning.
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions);

    /// Sends what `submit` has buffered. Called when the caller has nothing more to submit now.
    fn flush(&mut self) {}

    /// Hands over completions, and continues to reconnect if the connection is lost. Registers the waker of `cx` for
    /// later events, whether or not an operation is in flight. Returns `Pending`, or `Ready` when nothing is in flight.
    fn poll(&mut self, _cx: &mut Context<'_>, _out: &mut dyn Completions) -> Poll<()> {
        Poll::Ready(())
    }

    /// When polling will give something without any I/O, in ns of the run's clock. For sessions that only wait for time
    /// to pass.
    fn wake_at_ns(&self) -> Option<u64> {
        None
    }

    /// What happened to the session's connection since it was opened.
    fn counters(&self) -> SessionCounters {
        SessionCounters::default()
    }

    /// The caller no longer waits for this operation (its timeout has passed). The session must not
    /// complete it any more.
    fn abandon(&mut self, _token: Token) {}
}

#[deny(clippy::missing_trait_methods)]
impl<S: Session + ?Sized> Session for Box<S> {
    fn submit(&mut self, request: &Request<'_>, token: Token, out: &mut dyn Completions) {
        (**self).submit(request, token, out);
    }
    fn flush(&mut self) {
        (**self).flush();
    }
    fn poll(&mut self, cx: &mut Context<'_>, out: &mut dyn Completions) -> Poll<()> {
        (**self).poll(cx, out)
    }
    fn wake_at_ns(&self) -> Option<u64> {
        (**self).wake_at_ns()
    }
    fn abandon(&mut self, token: Token) {
        (**self).abandon(token);
    }
    fn counters(&self) -> SessionCounters {
        (**self).counters()
    }
}

/// A future that ends on the thread that made it.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

#[cfg(test)]
mod tests {
    use super::*;
    use storebench_study::workload::Study;

    #[test]
    fn stores_are_prepared_for_what_a_study_uses() {
        let uses = |phase: &str| {
            let text = format!(
                "title = \"t\"\n[collections.a]\ncount = 10\n[collections.b]\ncount = 10\n[[phases]]\nname = \"load\"\n\
                 load = [\"a\", \"b\"]\n[[phases]]\nname = \"p\"\n{phase}\n"
            );
            let study = Study::parse(&text, std::path::Path::new("study.toml"), &[]).unwrap();
            Layout::from(&study).collections.iter().map(|of| (of.uses.expiry, of.uses.key_order)).collect::<Vec<_>>()
        };
        let of = |op: &str| {
            uses(&format!("mix = {{ x = {{ op = \"{op}\", collection = \"a\", weight = 1 }} }}\noperations = 1"))
        };
        assert_eq!(of("read"), [(false, false), (false, false)]);
        assert_eq!(of("scan"), [(false, true), (false, false)]);
        assert_eq!(uses("copy = \"out\"\ncollection = \"b\""), [(false, false), (false, true)]);
        let touch = "mix = { x = { op = \"touch\", collection = \"a\", expiry = \"1m\", weight = 1 } }\noperations = 1";
        assert_eq!(uses(touch), [(true, false), (false, false)]);
        let text =
            "title = \"t\"\n[collections.a]\ntrace = \"ops.jsonl\"\n[[phases]]\nname = \"p\"\ntrace = \"ops.jsonl\"\n";
        let study = Study::parse(text, std::path::Path::new("study.toml"), &[]).unwrap();
        assert_eq!(Layout::from(&study).collections[0].uses, Uses::ALL, "a trace may do anything");
    }
}
