//! Writes records to a collection of a store.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use storebench_engine::store::{
    Account, AnyStore, BulkWrite, CollectionId, CollectionLayout, CopyId, DurabilityRequest, Existing, Layout,
    LocalFuture, OpKind, Owner, Prepare, SameKeys, StoreError, Uses,
};
use storebench_study::workload::Body;

use super::order::InOrder;
use super::reserved::{Fate, OwnMembers, Reserved};
use super::write_session::WriteSession;
use super::{Again, Rewrite, Sink, TargetState, Writer};
use crate::error::TransferError;
use crate::jq::Jq;
use crate::measure::{RequestKinds, Writes};
use crate::retry::Access;
use crate::session::{self, SessionRequest, of_store, own_members};
use crate::shape::Expiry;
use crate::source::Room;
use crate::verify::{StoreTarget, Target};

/// The operation for a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordOp {
    /// Store it, whether or not its key exists.
    Upsert,
    /// Store it. Refused if its key exists.
    Insert,
    /// Store it if its key exists. Otherwise it is refused.
    Replace,
    /// Append its bytes to the stored ones.
    Append,
    /// Prepend its bytes to the stored ones.
    Prepend,
    /// Remove the document with its key.
    Delete,
    /// Merge it, as a JSON Merge Patch (RFC 7396), into the stored document.
    Merge,
    /// Add its integer to the stored one. If none is stored, its integer becomes the first value.
    Counter,
    /// Set an expiry on the stored document.
    Touch,
}

/// Each verb with its name, the store operation it uses, and its help text.
const VERBS: [(RecordOp, &str, OpKind, &str); 9] = [
    (RecordOp::Upsert, "upsert", OpKind::BulkUpsert, "Store it, whether or not its key exists"),
    (RecordOp::Insert, "insert", OpKind::BulkInsert, "Store it; a key that exists is refused"),
    (RecordOp::Replace, "replace", OpKind::Replace, "Store it where its key exists; others are refused"),
    (RecordOp::Append, "append", OpKind::Append, "Add its text (see --value) behind the stored one"),
    (RecordOp::Prepend, "prepend", OpKind::Prepend, "Add its text (see --value) before the stored one"),
    (RecordOp::Delete, "delete", OpKind::BulkDelete, "Remove the document with its key"),
    (RecordOp::Merge, "merge", OpKind::MergePatch, "Merge it into the stored document (JSON Merge Patch, RFC 7396)"),
    (RecordOp::Counter, "counter", OpKind::Counter, "Add its integer (see --value) to the stored one"),
    (RecordOp::Touch, "touch", OpKind::Touch, "Let the stored document expire (see --expiry)"),
];

const _: () = {
    let mut at = 0;
    while at < VERBS.len() {
        assert!(VERBS[at].0 as usize == at, "must be in the order of the enum");
        at += 1;
    }
};

impl RecordOp {
    /// All verbs with their help texts, in the order in which tables show them.
    pub fn all() -> impl Iterator<Item = (Self, &'static str)> {
        VERBS.into_iter().map(|(verb, .., what)| (verb, what))
    }

    /// The name.
    pub fn name(self) -> &'static str {
        VERBS[self as usize].1
    }

    /// The verb with this name.
    pub fn named(name: &str) -> Option<Self> {
        VERBS.into_iter().find(|(_, known, ..)| *known == name).map(|(verb, ..)| verb)
    }

    /// The verbs that a record may ask for: those that work on JSON collections.
    pub fn by_record() -> impl Iterator<Item = Self> {
        Self::all().map(|(verb, _)| verb).filter(|verb| verb.body() == Body::Json)
    }

    /// The verb with this name, if a record may ask for it.
    pub(crate) fn of_record(name: &str) -> Option<Self> {
        Self::named(name).filter(|verb| verb.body() == Body::Json)
    }

    /// The store operation for this verb.
    pub(crate) fn kind(self) -> OpKind {
        VERBS[self as usize].2
    }

    /// Whether one request can contain many records.
    pub(crate) fn many(self) -> bool {
        self.bulk().is_some() || self == Self::Delete
    }

    /// The kind of bulk write; `None` if there is no bulk form.
    pub(crate) fn bulk(self) -> Option<BulkWrite> {
        match self {
            Self::Upsert => Some(BulkWrite::Upsert),
            Self::Insert => Some(BulkWrite::Insert),
            _ => None,
        }
    }

    /// Whether applying it twice has the same effect as applying it once. This is true for inserts: if a second attempt
    /// finds a document, that is compared with the record.
    pub fn repeatable(self) -> bool {
        !matches!(self, Self::Append | Self::Prepend | Self::Counter)
    }

    /// Whether the written document can get an expiry.
    pub fn expires(self) -> bool {
        matches!(self, Self::Upsert | Self::Insert | Self::Replace | Self::Merge)
    }

    /// The kind of documents in collections that the verb works on.
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
    /// The expression for a stored document; see [`Jq::of_merge`].
    pub expression: Arc<Jq>,
    /// Whether a missing document is treated as null, and the result inserted.
    pub absent: bool,
}

/// How to write records to a store.
#[derive(Debug, Clone)]
pub struct StoreSinkOptions {
    /// Name of the collection. Storebench creates it unless `existing` is set.
    pub collection: String,
    /// An existing collection of the user's to write to. Nothing is created.
    pub existing: Option<Existing>,
    /// This copy's number. It marks a collection that no copy has written to before.
    pub copy: CopyId,
    /// If the copy is resumed: the number in the collection's marker when the copy started.
    pub resumes: Option<CopyId>,
    /// Whether upserts are tried as inserts first; `None` to do so if the collection is empty and the store profits.
    pub inserts_first: Option<bool>,
    /// The collection's index in the layout, if the caller has prepared the store. Then nothing is inspected, created
    /// or closed.
    pub prepared: Option<CollectionId>,
    /// The operation for each record.
    pub verb: RecordOp,
    /// Whether each record names its own operation.
    pub by_record: bool,
    /// The merge expression; `None` to merge by RFC 7396.
    pub merge: Option<MergeBy>,
    /// What to do with documents that have members which the store reserves for itself.
    pub own_members: OwnMembers,
    /// The default expiry, for records without their own.
    pub expiry: Option<Expiry>,
    /// Whether records may have their own expiry.
    pub expires: bool,
    /// Most records in a batch; `None` for the default.
    pub batch: Option<usize>,
    /// Most bytes in a batch; `None` for the default.
    pub batch_bytes: Option<usize>,
    /// Batches in flight on each worker's session. For verbs without a bulk form: records.
    pub in_flight: u32,
    /// What an acknowledged write survives. `None` means the strongest level that the store guarantees, up to `fsync`.
    pub durability: Option<DurabilityRequest>,
    /// Timeout of one attempt, and how temporary failures are retried.
    pub access: Access,
    /// Number of records that may be rejected. If more fail in a row, the store is considered broken and the copy
    /// stops.
    pub may_fail: u64,
}

impl StoreSinkOptions {
    /// Upserts into a collection that Storebench creates, in batches of the default size, with one request in flight.
    pub fn new(collection: impl Into<String>) -> Self {
        Self {
            collection: collection.into(),
            existing: None,
            copy: CopyId::draw(),
            resumes: None,
            inserts_first: None,
            prepared: None,
            verb: RecordOp::Upsert,
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

    /// The collection's ID in sessions.
    pub(super) fn id(&self) -> CollectionId {
        self.prepared.unwrap_or(CollectionId(0))
    }

    /// The kinds of requests that may be sent.
    fn kinds(&self, inserts_first: bool) -> Vec<OpKind> {
        let mut kinds: Vec<OpKind> = match (&self.merge, self.by_record) {
            (_, true) => RecordOp::all().map(|(verb, _)| verb.kind()).collect(),
            (Some(_), false) => Vec::new(),
            (None, false) => vec![self.verb.kind()],
        };
        if inserts_first {
            kinds.push(RecordOp::Insert.kind());
        }
        if self.merge.is_some() {
            kinds.extend([OpKind::Read, OpKind::CompareAndSwap, OpKind::Insert]);
        }
        if (self.expires || self.expiry.is_some()) && !kinds.contains(&OpKind::Touch) {
            kinds.push(OpKind::Touch);
        }
        kinds
    }

    /// Whether records name their own operation, or are merged by an expression.
    fn varies(&self) -> bool {
        self.by_record || self.merge.is_some()
    }
}

/// Default number of records in a batch, if neither the user nor the store sets it.
pub const USUAL_BATCH: usize = 1_000;
/// Default number of bytes in a batch.
const USUAL_BATCH_BYTES: usize = 1 << 20;

/// How a user of `copy` names the target's columns.
const TO_COLUMNS: &str = "name the columns with --to-key COLUMN and --to-body COLUMN";

/// One collection of a store.
pub struct StoreSink {
    store: Arc<dyn AnyStore>,
    options: StoreSinkOptions,
    /// Whether upserts are tried as inserts first, so that only existing keys are overwritten.
    inserts_first: bool,
    /// The number in the collection's marker.
    mark: Option<CopyId>,
    /// The columns for key and document, if the user did not name them.
    columns: Option<(String, String)>,
}

impl StoreSink {
    /// Creates the collection if it does not exist, and marks it as the user's. An existing collection of the user's
    /// must exist. Existing documents are kept.
    ///
    /// # Errors
    /// `Target`: the collection of a resumed copy no longer exists. Otherwise: the store does not support the verb or
    /// the durability, or a collection of this name exists that Storebench did not create and that was not named as
    /// existing.
    pub fn open(store: Arc<dyn AnyStore>, mut options: StoreSinkOptions) -> Result<Self, TransferError> {
        Self::check(&*store, &options, false)?;
        let mut mark = None;
        let mut columns = None;
        if options.prepared.is_none() {
            // First contact with the store.
            store.inspect().map_err(|e| of_store(&*store, e))?;
            columns = Self::name_columns(&*store, &mut options);
            Self::still_there(&*store, &options)?;
            Self::prepare(&*store, &options)?;
            mark = Self::marked(&*store, &options)?;
        }
        let plain = options.verb == RecordOp::Upsert && options.existing.is_none() && !options.varies();
        let empty = || store.sample_keys(options.id(), 1, 1).is_ok_and(|keys| keys.is_empty());
        let inserts_first = plain && store.capabilities().inserts_faster && options.inserts_first.unwrap_or_else(empty);
        Ok(Self { store, options, inserts_first, mark, columns })
    }

    /// Names the columns of a table of the user's that leaves no choice. Returns them.
    fn name_columns(store: &dyn AnyStore, options: &mut StoreSinkOptions) -> Option<(String, String)> {
        let is_json = options.verb.body() == Body::Json;
        let existing = options.existing.as_mut().filter(|existing| is_json && existing.key.is_none());
        let existing = existing.filter(|existing| existing.body.is_none())?;
        // What is wrong with the table is reported when it is prepared.
        let (key, body) = store.plain_columns(&existing.name).ok().flatten()?;
        (existing.key, existing.body) = (Some(key.clone()), Some(body.clone()));
        Some((key, body))
    }

    /// The number in the collection's marker now.
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

    /// For a resumed copy: checks that the collection is the one that it started with.
    fn still_there(store: &dyn AnyStore, options: &StoreSinkOptions) -> Result<(), TransferError> {
        let Some(expected) = options.resumes else { return Ok(()) };
        let found = Self::marked(store, options)?;
        if found == Some(expected) {
            return Ok(());
        }
        let what = if found.is_some() { "was recreated by another copy" } else { "no longer exists" };
        Err(TransferError::Target(format!(
            "{}: the collection `{}` that this copy wrote to {what}, so records that it wrote earlier are lost. Nothing was \
             written now; use --restart to copy everything again, or restore the target and use --resume",
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
            uses: Uses { expiry: options.kinds(false).contains(&OpKind::Touch), ..Uses::ALL },
        };
        store.prepare(&Layout { collections: vec![layout] }, how).map_err(|error| {
            let error = match error {
                StoreError::NotOurs(text) => {
                    StoreError::NotOurs(format!("{text}. To write to your own collection, use --into-existing"))
                }
                error => error,
            };
            of_store(store, session::naming_columns(error, TO_COLUMNS))
        })?;
        if options.existing.is_some() {
            // A store may support less in an existing collection than in one that Storebench created.
            Self::check(store, options, false)?;
        }
        Ok(())
    }

    /// The checks of [`open`](Self::open) that do not access the store.
    ///
    /// # Errors
    /// The store does not support the verb or the durability, or the result cannot be verified although `verify` is
    /// set.
    pub fn check(store: &dyn AnyStore, options: &StoreSinkOptions, verify: bool) -> Result<(), TransferError> {
        if verify {
            Self::verifiable(store, options)?;
        }
        let verb = options.verb;
        let by = if options.by_record { "--op-field".to_owned() } else { format!("--op {}", verb.name()) };
        let refused = |what: String| Err(TransferError::BadInput(what));
        if options.merge.is_some() && verb != RecordOp::Merge && !options.by_record {
            return refused(format!("--merge requires --op merge, not {by}"));
        }
        let given = options.expires || options.expiry.is_some();
        if verb == RecordOp::Touch && !options.by_record && !given {
            return refused("--op touch needs an expiry; set it with --expiry or --expiry-field".into());
        }
        if given && !(verb.expires() || verb == RecordOp::Touch || options.by_record) {
            return refused(format!("{by} cannot set an expiry; remove --expiry and --expiry-field"));
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
                "with --op-field the expected result is not known for each record, so it cannot be verified".into(),
            );
        }
        let name = options.verb.name();
        match options.verb {
            RecordOp::Touch => refused(format!("--op {name} writes no documents, so there is nothing to verify")),
            verb if !verb.repeatable() || verb == RecordOp::Merge => refused(format!(
                "--op {name} adds to what is stored, so the expected result is not known and cannot be verified"
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
    fn expiry(&self) -> Option<Expiry> {
        self.options.expiry
    }

    fn describe(&self) -> String {
        let columns = self.columns.as_ref();
        let columns = columns.map_or_else(String::new, |(key, body)| format!(" (key in {key}, document in {body})"));
        format!("{}, {}{columns}", self.store.describe().url, self.options.collection)
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
        // Larger batches spread the fixed cost of a bulk insert (in PostgreSQL, the commit).
        let larger = if self.inserts_first { 4 } else { 1 };
        Room {
            records: self.options.batch.unwrap_or(USUAL_BATCH * larger),
            bytes: self.options.batch_bytes.unwrap_or(USUAL_BATCH_BYTES * larger),
        }
    }

    fn open(&self, may_repeat: bool) -> LocalFuture<'_, Result<Box<dyn Writer + '_>, TransferError>> {
        Box::pin(async move {
            let request = Self::request(&self.options);
            let (session, clock) = session::open(&*self.store, &request).await?;
            let write_session = WriteSession::new(&*self.store, session, clock, &self.options, self.inserts_first);
            let writer: Box<dyn Writer + '_> = if may_repeat || self.options.varies() {
                Box::new(InOrder::new(write_session, self.same_keys()))
            } else {
                Box::new(write_session)
            };
            Ok(writer)
        })
    }

    fn close(&self) -> Result<(), TransferError> {
        if self.options.prepared.is_some() {
            return Ok(());
        }
        self.store.close().map_err(|e| of_store(&*self.store, e))
    }

    fn own_members(&self) -> Vec<String> {
        own_members(&*self.store, self.options.id())
    }

    fn same_keys(&self) -> SameKeys {
        self.store.same_keys(self.options.id())
    }

    fn account(&self) -> Option<Account> {
        let StoreSinkOptions { verb, by_record, expires, expiry, .. } = &self.options;
        let adds = matches!(verb, RecordOp::Upsert | RecordOp::Insert) && !by_record && !expires && expiry.is_none();
        // A store that does not let this user see its statistics is not checked by them.
        let account = self.store.account(self.options.id()).ok()?;
        Some(Account { documents: account.documents.filter(|_| adds), ..account })
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
        Ok(Box::new(self.written(verb == RecordOp::Delete)))
    }

    fn mark(&self) -> Option<CopyId> {
        self.mark
    }

    fn state(&self) -> Result<TargetState, TransferError> {
        Ok(TargetState { copy: self.mark, inserts_first: self.inserts_first, ..TargetState::default() })
    }

    fn keeps_keys(&self) -> bool {
        let options = &self.options;
        let stays = !matches!(options.verb, RecordOp::Delete | RecordOp::Touch)
            && options.merge.is_none()
            && !options.by_record;
        let known = self.mark.is_some() || options.existing.is_some();
        let reads = self.store.capabilities().supports(OpKind::BulkRead).is_some();
        stays && known && reads && !options.expires && options.expiry.is_none()
    }

    fn missing(&self, keys: &[&str]) -> Result<Vec<String>, TransferError> {
        self.written(false).missing(keys)
    }

    fn again(&self) -> Again {
        // A merge expression may add something.
        let repeatable = self.options.verb.repeatable() && !self.options.varies();
        if repeatable { Again::Free } else { Again::Once }
    }
}
