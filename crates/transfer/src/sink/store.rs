//! Records into a collection of a store.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use storebench_core::store::{
    AnyStore, BulkWrite, CollectionLayout, Durability, Existing, Layout, LocalFuture, Namespace, OpKind, Prepare,
    StoreError,
};
use storebench_core::workload::Body;

use super::slots::Slots;
use super::{Again, Sink, Writer};
use crate::error::TransferError;
use crate::measure::{RequestKinds, Writes};
use crate::retry::RetryPolicy;
use crate::session::{self, SessionRequest, of_store};
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
}

impl Verb {
    /// Every verb, in the order tables show them.
    pub const ALL: [Self; 8] = [
        Self::Upsert,
        Self::Insert,
        Self::Replace,
        Self::Append,
        Self::Prepend,
        Self::Delete,
        Self::Merge,
        Self::Counter,
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Upsert => "upsert",
            Self::Insert => "insert",
            Self::Replace => "replace",
            Self::Append => "append",
            Self::Prepend => "prepend",
            Self::Delete => "delete",
            Self::Merge => "merge",
            Self::Counter => "counter",
        }
    }

    /// The operation of a store that does it.
    pub(crate) fn kind(self) -> OpKind {
        match self {
            Self::Upsert => OpKind::BulkUpsert,
            Self::Insert => OpKind::BulkInsert,
            Self::Replace => OpKind::Replace,
            Self::Append => OpKind::Append,
            Self::Prepend => OpKind::Prepend,
            Self::Delete => OpKind::BulkDelete,
            Self::Merge => OpKind::MergePatch,
            Self::Counter => OpKind::Counter,
        }
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

    /// What the documents of a collection it works on are.
    pub fn body(self) -> Body {
        match self {
            Self::Append | Self::Prepend => Body::Bytes,
            Self::Counter => Body::Counter,
            _ => Body::Json,
        }
    }
}

/// How records are written into a store.
#[derive(Debug, Clone)]
pub struct StoreSinkOptions {
    /// Name of the collection: one of Storebench's making, unless `existing` is given.
    pub collection: String,
    /// The collection of somebody else's that is written into: nothing is made.
    pub existing: Option<Existing>,
    /// What is done with each record.
    pub verb: Verb,
    /// Records and bytes of a batch.
    pub room: Room,
    /// Batches (for verbs without a bulk form: records) in flight on each worker's session.
    pub in_flight: u32,
    /// What an acknowledged write survives; none for the strongest that the store promises up to `fsync`.
    pub durability: Option<Durability>,
    /// How long one try may take.
    pub timeout: Duration,
    /// How what fails for now is tried again.
    pub retry: RetryPolicy,
    /// So many records may be rejected: a store that fails more of them one after another is taken to be
    /// broken, and the copy ends.
    pub may_fail: u64,
}

/// One collection of a store.
pub struct StoreSink {
    store: Arc<dyn AnyStore>,
    options: StoreSinkOptions,
}

impl StoreSink {
    /// Makes the collection, if it is not there yet; one of somebody else's must be there. What is there is
    /// kept.
    ///
    /// # Errors
    /// The store cannot do the verb or promise the durability, or has a collection of this name that Storebench
    /// did not make and that was not asked for as such.
    pub fn open(store: Arc<dyn AnyStore>, options: StoreSinkOptions) -> Result<Self, TransferError> {
        Self::check(&*store, &options, false)?;
        let how = match (store.inspect().map_err(|e| of_store(&*store, e))?, &options.existing) {
            (_, Some(_)) => Prepare::WriteExisting,
            (Namespace::Absent | Namespace::Ours, None) => Prepare::Keep,
            (Namespace::Foreign(_), None) => Prepare::IntoExisting,
        };
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
            of_store(&*store, error)
        })?;
        if options.existing.is_some() {
            // In a collection of others a store may do less than in one of its own making.
            Self::check(&*store, &options, false)?;
        }
        Ok(Self { store, options })
    }

    /// What [`open`](Self::open) refuses without touching the store.
    ///
    /// # Errors
    /// The store cannot do the verb or promise the durability, or what is written could not be verified as is
    /// wished.
    pub fn check(store: &dyn AnyStore, options: &StoreSinkOptions, verify: bool) -> Result<(), TransferError> {
        if verify {
            Self::verifiable(store, options.verb)?;
        }
        session::needs(store, options.verb.kind(), &format!("--op {}", options.verb.name()))?;
        session::options(store, &Self::request(options)).map(drop)
    }

    fn verifiable(store: &dyn AnyStore, verb: Verb) -> Result<(), TransferError> {
        if !verb.repeatable() || verb == Verb::Merge {
            return Err(TransferError::BadInput(format!(
                "--op {} adds to what is stored, so what should be there cannot be told, and not be verified",
                verb.name()
            )));
        }
        session::needs(store, OpKind::BulkRead, "--verify")
    }

    fn request(options: &StoreSinkOptions) -> SessionRequest {
        SessionRequest { durability: options.durability, timeout: options.timeout, in_flight: options.in_flight }
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
        let batch = u32::try_from(self.options.room.records).unwrap_or(u32::MAX);
        Ok(Writes {
            requests: RequestKinds { kinds: vec![self.options.verb.kind()], batch },
            in_flight: options.in_flight,
            durability: options.durability,
        })
    }

    fn room(&self) -> Room {
        self.options.room
    }

    fn open(&self) -> LocalFuture<'_, Result<Box<dyn Writer + '_>, TransferError>> {
        Box::pin(async move {
            let request = Self::request(&self.options);
            let (session, clock) = session::open_again(&*self.store, &request, &self.options.retry).await?;
            Ok(Box::new(Slots::new(&*self.store, session, clock, &self.options)) as Box<dyn Writer + '_>)
        })
    }

    fn close(&self) -> Result<(), TransferError> {
        self.store.close().map_err(|e| of_store(&*self.store, e))
    }

    fn own_members(&self) -> &'static [&'static str] {
        self.store.capabilities().own_members
    }

    fn target(&self) -> Result<Box<dyn Target + '_>, TransferError> {
        let verb = self.options.verb;
        Self::verifiable(&*self.store, verb)?;
        let (store, timeout) = (Arc::clone(&self.store), self.options.timeout);
        Ok(Box::new(StoreTarget { store, deleted: verb == Verb::Delete, timeout }))
    }

    fn again(&self) -> Again {
        if self.options.verb.repeatable() { Again::Free } else { Again::Once }
    }
}
