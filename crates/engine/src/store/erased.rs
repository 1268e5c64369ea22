//! Type-erased stores, which `lab`, `transfer` and decorators hold.
//!
//! Types are erased at the edge only. [`AnyStore::drive`] runs the engine's loop *inside* the driver's own
//! monomorphised code, so there is no virtual call between the loop and the session.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{
    Account, BuiltIndex, Capabilities, CollectionId, CollectionLayout, Description, Explanation, Holdings, Layout,
    LocalFuture, Namespace, Owner, Prepare, Request, RowStream, Rows, Runtime, SameKeys, Session, SessionOptions,
    Stats, Store, StoreError, StoreSettings,
};
use crate::{WorkerJob, WorkerReport};

/// The calls that a hosted store sends to the process that hosts it, with nothing to do before or after, each with its
/// types: here only.
#[macro_export]
#[doc(hidden)]
macro_rules! sent_calls {
    ($make:ident! $($how:tt)*) => { $make! { ($($how)*)
        holdings() -> Result<Holdings, StoreError>;
        owner_of(collection: &str) -> Result<Option<Owner>, StoreError>;
        compact() -> Result<(), StoreError>;
        stats() -> Result<Stats, StoreError>;
        own_settings() -> Result<StoreSettings, StoreError>;
        sample_keys(collection: CollectionId, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError>;
        cuts(collection: CollectionId, ranges: usize) -> Result<Vec<String>, StoreError>;
        account(collection: CollectionId) -> Result<Account, StoreError>;
        collections() -> Result<Vec<String>, StoreError>;
        plain_columns(table: &str) -> Result<Option<(String, String)>, StoreError>;
        parts() -> Result<Vec<String>, StoreError>;
        drop_index(collection: CollectionId, name: &str, text: &str) -> Result<(), StoreError>;
        close() -> Result<(), StoreError>;
        remove() -> Result<(), StoreError>;
    } };
}

/// The calls of a store that go unchanged through a decorator: `sent_calls` and these. What is around a store denies
/// `clippy::missing_trait_methods`, so a call that is missing here does not pass `make check`.
macro_rules! forwarded {
    ($make:ident! $($how:tt)*) => {
        $crate::sent_calls! { $make! $($how)* }
        $make! { ($($how)*)
            runtime() -> Runtime;
            answers() -> Result<(), StoreError>;
            inspect() -> Result<Namespace, StoreError>;
            prepare(layout: &Layout, how: Prepare) -> Result<(), StoreError>;
            settle(at_most: Duration) -> Result<bool, StoreError>;
            range_order(collection: CollectionId) -> Option<String>;
            same_keys(collection: CollectionId) -> SameKeys;
            key_members(collection: CollectionId) -> Vec<String>;
            full_name(collection: &CollectionLayout) -> String;
            try_query(request: &Request<'_>) -> Result<(), StoreError>;
            explain(request: &Request<'_>) -> Result<Option<Explanation>, StoreError>;
            build_index(collection: CollectionId, name: &str, text: &str) -> Result<BuiltIndex, StoreError>;
            paths() -> Vec<PathBuf>;
        }
    };
}
pub(super) use forwarded;

/// Methods that only declare the calls.
macro_rules! declared {
    (() $($name:ident($($argument:ident: $of:ty),*) -> $gives:ty;)*) => {
        $(fn $name(&self, $($argument: $of),*) -> $gives;)*
    };
}

/// Methods that hand the calls to another store: `forward!(self => Store, &self.inner)`.
macro_rules! forward {
    (($this:ident => $trait:ident, $to:expr) $($name:ident($($argument:ident: $of:ty),*) -> $gives:ty;)*) => {
        $(fn $name(&$this, $($argument: $of),*) -> $gives { $trait::$name($to, $($argument),*) })*
    };
}
pub(super) use forward;

/// A [`Store`] of any type. Implemented for every store; see [`Store`] for the meaning of each call.
#[allow(missing_docs)]
pub trait AnyStore: Send + Sync {
    forwarded!(declared!);
    fn describe(&self) -> Description;
    fn capabilities(&self) -> Capabilities;
    fn rows<'a>(&'a self, rows: Rows<'a>) -> LocalFuture<'a, Result<Box<dyn RowStream>, StoreError>>;

    /// Opens a session of unknown type, at the cost of a virtual call per operation.
    fn open_any<'a>(&'a self, options: &'a SessionOptions) -> LocalFuture<'a, Result<Box<dyn Session>, StoreError>>;

    /// Runs one worker of a phase on the calling thread until the phase ends.
    fn drive(&self, job: WorkerJob) -> WorkerReport;
}

impl<S: Store> AnyStore for S
where
    S::Session: 'static,
{
    forwarded!(forward! self => Store, self);
    fn describe(&self) -> Description {
        Store::describe(self)
    }
    fn capabilities(&self) -> Capabilities {
        Store::capabilities(self)
    }
    fn rows<'a>(&'a self, rows: Rows<'a>) -> LocalFuture<'a, Result<Box<dyn RowStream>, StoreError>> {
        Store::rows(self, rows)
    }
    fn open_any<'a>(&'a self, options: &'a SessionOptions) -> LocalFuture<'a, Result<Box<dyn Session>, StoreError>> {
        Box::pin(async move { Ok(Box::new(Store::open(self, options).await?) as Box<dyn Session>) })
    }
    fn drive(&self, job: WorkerJob) -> WorkerReport {
        crate::drive(self, job)
    }
}

/// An erased store as a [`Store`] again, for decorators. Each operation costs a virtual call.
pub struct Erased(pub Arc<dyn AnyStore>);

#[deny(clippy::missing_trait_methods)]
impl Store for Erased {
    type Session = Box<dyn Session>;

    forwarded!(forward! self => AnyStore, &*self.0);
    fn describe(&self) -> Description {
        self.0.describe()
    }
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
    fn rows<'a>(&'a self, rows: Rows<'a>) -> LocalFuture<'a, Result<Box<dyn RowStream>, StoreError>> {
        self.0.rows(rows)
    }
    async fn open(&self, options: &SessionOptions) -> Result<Box<dyn Session>, StoreError> {
        self.0.open_any(options).await
    }
}
