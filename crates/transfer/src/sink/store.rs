//! Records into a collection of a store.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use storebench_engine::store::{
    AnyStore, BulkWrite, CollectionId, CollectionLayout, CopyId, Durability, Existing, Layout, LocalFuture, OpKind,
    Owner, Prepare, StoreError,
};
use storebench_study::workload::Body;

use super::lanes::Lanes;
use super::order::InOrder;
use super::reserved::{Fate, OwnMembers, Reserved};
use super::{Again, Rewrite, Sink, Writer};
use crate::error::TransferError;
use crate::jq::Jq;
use crate::measure::{RequestKinds, Writes};
use crate::retry::Access;
use crate::session::{self, SessionRequest, of_store};
use crate::shape::Expiry;
use crate::source::Room;
use crate::verify::{StoreTarget, Target};

/// What is done with each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Store it, whether or not its key exists.
    Upsert,
    /// Store it; a key that exists is refused.
    Insert,
    /// Store it where its key exists; another is refused.
    Replace,
    /// Add its bytes behind the stored ones.
    Append,
    /// Add its bytes before the stored ones.
    Prepend,
    /// Remove the document with its key.
    Delete,
    /// Merge it, as a JSON Merge Patch (RFC 7396), into the stored document.
    Merge,
    /// Add it, an integer, to the stored one, which begins at it where there is none.
    Counter,
    /// Let the stored document expire.
    Touch,
}

/// Each verb's name, the operation of a store that does it, and what it does.
const VERBS: [(Verb, &str, OpKind, &str); 9] = [
    (Verb::Upsert, "upsert", OpKind::BulkUpsert, "Store it, whether or not its key exists"),
    (Verb::Insert, "insert", OpKind::BulkInsert, "Store it; a key that exists is refused"),
    (Verb::Replace, "replace", OpKind::Replace, "Store it where its key exists; others are refused"),
    (Verb::Append, "append", OpKind::Append, "Add its text (see --value) behind the stored one"),
    (Verb::Prepend, "prepend", OpKind::Prepend, "Add its text (see --value) before the stored one"),
    (Verb::Delete, "delete", OpKind::BulkDelete, "Remove the document with its key"),
    (Verb::Merge, "merge", OpKind::MergePatch, "Merge it into the stored document (JSON Merge Patch, RFC 7396)"),
    (Verb::Counter, "counter", OpKind::Counter, "Add its integer (see --value) to the stored one"),
    (Verb::Touch, "touch", OpKind::Touch, "Let the stored document expire (see --expiry)"),
];

const _: () = {
    let mut at = 0;
    while at < VERBS.len() {
        assert!(VERBS[at].0 as usize == at, "in the order of the enum");
        at += 1;
    }
};

impl Verb {
    /// Every verb with what it does, in the order tables show them.
    pub fn all() -> impl Iterator<Item = (Self, &'static str)> {
        VERBS.into_iter().map(|(verb, .., what)| (verb, what))
    }

    /// The name.
    pub fn name(self) -> &'static str {
        VERBS[self as usize].1
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        VERBS.into_iter().find(|(_, known, ..)| *known == name).map(|(verb, ..)| verb)
    }

    /// Those that a record may ask for itself: those that work on collections of JSON.
    pub fn by_record() -> impl Iterator<Item = Self> {
        Self::all().map(|(verb, _)| verb).filter(|verb| verb.body() == Body::Json)
    }

    /// The one of this name, where a record may ask for it.
    pub(crate) fn of_record(name: &str) -> Option<Self> {
        Self::named(name).filter(|verb| verb.body() == Body::Json)
    }

    /// The operation of a store that does it.
    pub(crate) fn kind(self) -> OpKind {
        VERBS[self as usize].2
    }

    /// Whether one request carries many records.
    pub(crate) fn many(self) -> bool {
        self.bulk().is_some() || self == Self::Delete
    }

    /// What each item of a bulk write does, where it is one.
    pub(crate) fn bulk(self) -> Option<BulkWrite> {
        match self {
            Self::Upsert => Some(BulkWrite::Upsert),
            Self::Insert => Some(BulkWrite::Insert),
            _ => None,
        }
    }

    /// Whether doing it twice leaves the same as doing it once. An insert does: what a second try finds in its
    /// way is compared with what the first was to write.
    pub fn repeatable(self) -> bool {
        !matches!(self, Self::Append | Self::Prepend | Self::Counter)
    }

    /// Whether what it writes can be given an expiry.
    pub fn expires(self) -> bool {
        matches!(self, Self::Upsert | Self::Insert | Self::Replace | Self::Merge)
    }

    /// What the documents of a collection it works on are.
    pub fn body(self) -> Body {
        match self {
            Self::Append | Self::Prepend => Body::Bytes,
            Self::Counter => Body::Counter,
            _ => Body::Json,
        }
    }
}

/// A merge by an expression.
#[derive(Debug, Clone)]
pub struct MergeBy {
    /// What becomes of a stored document; see [`Jq::of_merge`].
    pub expression: Arc<Jq>,
    /// Whether a document that is not there is taken for null, and what comes of it is inserted.
    pub absent: bool,
}

/// How records are written into a store.
#[derive(Debug, Clone)]
pub struct StoreSinkOptions {
    /// Name of the collection: one of Storebench's making, unless `existing` is given.
    pub collection: String,
    /// The collection of somebody else's that is written into: nothing is made.
    pub existing: Option<Existing>,
    /// The number of this copy, which a collection is marked with that no copy wrote into before.
    pub copy: CopyId,
    /// The number that the collection was marked with when the copy began, of one that goes on.
    pub resumes: Option<CopyId>,
    /// The collection's place in the layout that the store was prepared with: then nothing is looked for, made or
    /// closed.
    pub prepared: Option<CollectionId>,
    /// What is done with each record.
    pub verb: Verb,
    /// Whether each record says itself what is done with it.
    pub by_record: bool,
    /// How a merge merges, where it is not by RFC 7396.
    pub merge: Option<MergeBy>,
    /// What becomes of documents with members that the store keeps for itself.
    pub own_members: OwnMembers,
    /// When what is written is to expire, where a record does not say it.
    pub expiry: Option<Expiry>,
    /// Whether records may say when they are to expire.
    pub expires: bool,
    /// Records of a batch, at most; what the store is best given where none is said.
    pub batch: Option<usize>,
    /// Bytes of a batch, at most, in the same way.
    pub batch_bytes: Option<usize>,
    /// Batches (for verbs without a bulk form: records) in flight on each worker's session.
    pub in_flight: u32,
    /// What an acknowledged write survives; none for the strongest that the store guarantees up to `fsync`.
    pub durability: Option<Durability>,
    /// How long one try may take, and how what fails for now is tried again.
    pub access: Access,
    /// So many records may be rejected: a store that fails more of them one after another is taken to be
    /// broken, and the copy ends.
    pub may_fail: u64,
}

impl StoreSinkOptions {
    /// Documents that are upserted into a collection of Storebench's making, in batches of the usual size, by a
    /// request at a time.
    pub fn new(collection: impl Into<String>) -> Self {
        Self {
            collection: collection.into(),
            existing: None,
            copy: CopyId::draw(),
            resumes: None,
            prepared: None,
            verb: Verb::Upsert,
            by_record: false,
            merge: None,
            own_members: OwnMembers::default(),
            expiry: None,
            expires: false,
            batch: None,
            batch_bytes: None,
            in_flight: 1,
            durability: None,
            access: Access::default(),
            may_fail: 0,
        }
    }

    /// The collection as sessions know it.
    pub(super) fn id(&self) -> CollectionId {
        self.prepared.unwrap_or(CollectionId(0))
    }

    /// Requests that may be sent.
    fn kinds(&self, inserts_first: bool) -> Vec<OpKind> {
        let mut kinds: Vec<OpKind> = match (&self.merge, self.by_record) {
            (_, true) => Verb::all().map(|(verb, _)| verb.kind()).collect(),
            (Some(_), false) => Vec::new(),
            (None, false) => vec![self.verb.kind()],
        };
        if inserts_first {
            kinds.push(Verb::Insert.kind());
        }
        if self.merge.is_some() {
            kinds.extend([OpKind::Read, OpKind::CompareAndSwap, OpKind::Insert]);
        }
        if (self.expires || self.expiry.is_some()) && !kinds.contains(&OpKind::Touch) {
            kinds.push(OpKind::Touch);
        }
        kinds
    }

    /// Whether records with the same key are done one after another.
    fn keeps_order(&self) -> bool {
        self.by_record || self.merge.is_some()
    }
}

/// Records of a batch, where neither the user nor the store says otherwise.
pub const USUAL_BATCH: usize = 1_000;
/// Bytes of a batch, in the same way.
const USUAL_BATCH_BYTES: usize = 1 << 20;

/// How a copy names the columns that it writes.
const TO_COLUMNS: &str = "name the columns with --to-key COLUMN and --to-body COLUMN";

/// One collection of a store.
pub struct StoreSink {
    store: Arc<dyn AnyStore>,
    options: StoreSinkOptions,
    /// Whether records to be upserted are inserted first, and only what is there already is written over.
    inserts_first: bool,
    /// What the collection is marked with.
    mark: Option<CopyId>,
}

impl StoreSink {
    /// Makes the collection, if it is not there yet, and marks it as the user's; one of somebody else's must be
    /// there. What is there is kept.
    ///
    /// # Errors
    /// `Target`: the collection of a copy that goes on is not there any more.
    /// The store cannot do the verb or guarantee the durability, or has a collection of this name that Storebench
    /// did not make and that was not asked for as such.
    pub fn open(store: Arc<dyn AnyStore>, options: StoreSinkOptions) -> Result<Self, TransferError> {
        Self::check(&*store, &options, false)?;
        let mut mark = None;
        if options.prepared.is_none() {
            // The first contact.
            store.inspect().map_err(|e| of_store(&*store, e))?;
            Self::still_there(&*store, &options)?;
            Self::prepare(&*store, &options)?;
            mark = Self::marked(&*store, &options)?;
        }
        let plain = options.verb == Verb::Upsert && options.existing.is_none() && !options.keeps_order();
        let inserts_first = plain
            && store.capabilities().inserts_faster
            && store.sample_keys(options.id(), 1, 1).is_ok_and(|keys| keys.is_empty());
        Ok(Self { store, options, inserts_first, mark })
    }

    /// What the collection is marked with now.
    fn marked(store: &dyn AnyStore, options: &StoreSinkOptions) -> Result<Option<CopyId>, TransferError> {
        if options.existing.is_some() {
            return Ok(None);
        }
        match store.owner_of(&options.collection) {
            Ok(Some(Owner::User(copy))) => Ok(copy),
            Ok(Some(Owner::Study) | None) | Err(StoreError::NotSupported(_)) => Ok(None),
            Err(error) => Err(of_store(store, error)),
        }
    }

    /// Of a copy that goes on: whether the collection is the one that it began to write into.
    fn still_there(store: &dyn AnyStore, options: &StoreSinkOptions) -> Result<(), TransferError> {
        let Some(expected) = options.resumes else { return Ok(()) };
        let found = Self::marked(store, options)?;
        if found == Some(expected) {
            return Ok(());
        }
        let what = if found.is_some() { "was made again by another copy" } else { "is not there any more" };
        Err(TransferError::Target(format!(
            "{}: the collection `{}` that this copy wrote into {what}, so records that it wrote before are lost; nothing \
             was written now. Use --restart to copy everything again, or restore the target and resume",
            store.describe().url,
            options.collection
        )))
    }

    fn prepare(store: &dyn AnyStore, options: &StoreSinkOptions) -> Result<(), TransferError> {
        let how = if options.existing.is_some() { Prepare::WriteExisting } else { Prepare::Copy(options.copy) };
        let layout = CollectionLayout {
            name: options.collection.clone(),
            body: options.verb.body(),
            indexes: Vec::new(),
            existing: options.existing.clone(),
        };
        store.prepare(&Layout { collections: vec![layout] }, how).map_err(|error| {
            let error = match error {
                StoreError::NotOurs(text) => {
                    StoreError::NotOurs(format!("{text}. To write into a collection of yours, give --into-existing"))
                }
                error => error,
            };
            of_store(store, session::naming_columns(error, TO_COLUMNS))
        })?;
        if options.existing.is_some() {
            // In a collection of others a store may do less than in one of its own making.
            Self::check(store, options, false)?;
        }
        Ok(())
    }

    /// What [`open`](Self::open) refuses without touching the store.
    ///
    /// # Errors
    /// The store cannot do the verb or guarantee the durability, or what is written could not be verified as is
    /// wished.
    pub fn check(store: &dyn AnyStore, options: &StoreSinkOptions, verify: bool) -> Result<(), TransferError> {
        if verify {
            Self::verifiable(store, options)?;
        }
        let verb = options.verb;
        let by = if options.by_record { "--op-field".to_owned() } else { format!("--op {}", verb.name()) };
        let refused = |what: String| Err(TransferError::BadInput(what));
        if options.merge.is_some() && verb != Verb::Merge && !options.by_record {
            return refused(format!("--merge goes with --op merge, and this is {by}"));
        }
        let given = options.expires || options.expiry.is_some();
        if verb == Verb::Touch && !options.by_record && !given {
            return refused("--op touch lets documents expire: say when by --expiry or --expiry-field".into());
        }
        if given && !(verb.expires() || verb == Verb::Touch || options.by_record) {
            return refused(format!("what {by} leaves is given no expiry; leave --expiry and --expiry-field out"));
        }
        if given {
            session::needs(store, OpKind::Touch, "an expiry")?;
        }
        match &options.merge {
            Some(merge) => {
                for kind in [OpKind::Read, OpKind::CompareAndSwap] {
                    session::needs(store, kind, "--merge")?;
                }
                if merge.absent {
                    session::needs(store, OpKind::Insert, "--merge-absent")?;
                }
            }
            None if options.by_record => {}
            None => session::needs(store, verb.kind(), &by)?,
        }
        session::options(store, &Self::request(options)).map(drop)
    }

    fn verifiable(store: &dyn AnyStore, options: &StoreSinkOptions) -> Result<(), TransferError> {
        let refused = |what: String| Err(TransferError::BadInput(what));
        if options.by_record {
            return refused(
                "with --op-field what should be there at the end cannot be told of each record, and not be verified"
                    .into(),
            );
        }
        let name = options.verb.name();
        match options.verb {
            Verb::Touch => refused(format!("--op {name} writes no documents, so there is nothing to verify")),
            verb if !verb.repeatable() || verb == Verb::Merge => refused(format!(
                "--op {name} adds to what is stored, so what should be there cannot be told, and not be verified"
            )),
            _ => session::needs(store, OpKind::BulkRead, "--verify"),
        }
    }

    fn written(&self, deleted: bool) -> StoreTarget {
        let (store, access) = (Arc::clone(&self.store), self.options.access);
        StoreTarget { store, collection: self.options.id(), deleted, access }
    }

    fn request(options: &StoreSinkOptions) -> SessionRequest {
        SessionRequest { durability: options.durability, access: options.access, in_flight: options.in_flight }
    }
}

impl Sink for StoreSink {
    fn describe(&self) -> String {
        format!("{}, {}", self.store.describe().url, self.options.collection)
    }

    fn store(&self) -> Option<&dyn AnyStore> {
        Some(&*self.store)
    }

    fn writes(&self) -> Result<Writes, TransferError> {
        let options = session::options(&*self.store, &Self::request(&self.options))?;
        let batch = u32::try_from(self.room().records).unwrap_or(u32::MAX);
        Ok(Writes {
            requests: RequestKinds { kinds: self.options.kinds(self.inserts_first), batch },
            in_flight: options.in_flight,
            durability: options.durability,
        })
    }

    fn room(&self) -> Room {
        // What an insert of many costs beside its records (in PostgreSQL its commit) is shared by more of them.
        let larger = if self.inserts_first { 4 } else { 1 };
        Room {
            records: self.options.batch.unwrap_or(USUAL_BATCH * larger),
            bytes: self.options.batch_bytes.unwrap_or(USUAL_BATCH_BYTES * larger),
        }
    }

    fn open(&self) -> LocalFuture<'_, Result<Box<dyn Writer + '_>, TransferError>> {
        Box::pin(async move {
            let request = Self::request(&self.options);
            let (session, clock) = session::open_again(&*self.store, &request).await?;
            let lanes = Lanes::new(&*self.store, session, clock, &self.options, self.inserts_first);
            let writer: Box<dyn Writer + '_> =
                if self.options.keeps_order() { Box::new(InOrder::new(lanes)) } else { Box::new(lanes) };
            Ok(writer)
        })
    }

    fn close(&self) -> Result<(), TransferError> {
        if self.options.prepared.is_some() {
            return Ok(());
        }
        self.store.close().map_err(|e| of_store(&*self.store, e))
    }

    fn own_members(&self) -> &'static [&'static str] {
        self.store.capabilities().own_members
    }

    fn rewrites(&self) -> Rewrite<'_> {
        if self.options.verb.body() != Body::Json {
            return Box::new(|_, _| None);
        }
        let reserved = Reserved::new(self.store.capabilities(), self.options.own_members);
        Box::new(move |key, body| match reserved.fate(key, body) {
            Fate::As(body, _) => Some(body),
            Fate::AsIs | Fate::Rejected(_) => None,
        })
    }

    fn target(&self) -> Result<Box<dyn Target + '_>, TransferError> {
        let verb = self.options.verb;
        Self::verifiable(&*self.store, &self.options)?;
        Ok(Box::new(self.written(verb == Verb::Delete)))
    }

    fn mark(&self) -> Option<CopyId> {
        self.mark
    }

    fn keeps_keys(&self) -> bool {
        let options = &self.options;
        let stays =
            !matches!(options.verb, Verb::Delete | Verb::Touch) && options.merge.is_none() && !options.by_record;
        let known = self.mark.is_some() || options.existing.is_some();
        let reads = self.store.capabilities().supports(OpKind::BulkRead).is_some();
        stays && known && reads && !options.expires && options.expiry.is_none()
    }

    fn missing(&self, keys: &[&str]) -> Result<Vec<String>, TransferError> {
        self.written(false).missing(keys)
    }

    fn again(&self) -> Again {
        // A merge by an expression may add something.
        let repeatable = self.options.verb.repeatable() && !self.options.keeps_order();
        if repeatable { Again::Free } else { Again::Once }
    }
}
