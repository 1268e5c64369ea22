//! Type-erased stores, which `lab`, `transfer` and decorators hold.
//!
//! Types are erased at the edge only. [`AnyStore::drive`] runs the engine's loop *inside* the driver's own
//! monomorphised code, so there is no virtual call between the loop and the session.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{
    Account, BuiltIndex, Capabilities, CollectionId, CollectionLayout, Description, Explanation, Layout, LocalFuture,
    Namespace, Owner, Prepare, Request, RowStream, Rows, Runtime, SameKeys, Session, SessionOptions, Stats, Store,
    StoreError,
};
use crate::{WorkerJob, WorkerReport};

/// A [`Store`] of any type. Implemented for every store; see [`Store`] for the meaning of each call.
#[allow(missing_docs)]
pub trait AnyStore: Send + Sync {
    fn describe(&self) -> Description;
    fn capabilities(&self) -> Capabilities;
    fn runtime(&self) -> Runtime;
    fn inspect(&self) -> Result<Namespace, StoreError>;
    fn owner_of(&self, collection: &str) -> Result<Option<Owner>, StoreError>;
    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError>;
    fn settle(&self, at_most: Duration) -> Result<bool, StoreError>;
    fn compact(&self) -> Result<(), StoreError>;
    fn stats(&self) -> Result<Stats, StoreError>;
    fn sample_keys(&self, collection: CollectionId, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError>;
    fn cuts(&self, collection: CollectionId, ranges: usize) -> Result<Vec<String>, StoreError>;
    fn range_order(&self, collection: CollectionId) -> Option<String>;
    fn account(&self, collection: CollectionId) -> Result<Account, StoreError>;
    fn same_keys(&self, collection: CollectionId) -> SameKeys;
    fn collections(&self) -> Result<Vec<String>, StoreError>;
    fn plain_columns(&self, table: &str) -> Result<Option<(String, String)>, StoreError>;
    fn full_name(&self, collection: &CollectionLayout) -> String;
    fn parts(&self) -> Result<Vec<String>, StoreError>;
    fn rows<'a>(&'a self, rows: Rows<'a>) -> LocalFuture<'a, Result<Box<dyn RowStream>, StoreError>>;
    fn try_query(&self, request: &Request<'_>) -> Result<(), StoreError>;
    fn explain(&self, request: &Request<'_>) -> Result<Option<Explanation>, StoreError>;
    fn build_index(&self, collection: CollectionId, name: &str, text: &str) -> Result<BuiltIndex, StoreError>;
    fn drop_index(&self, collection: CollectionId, name: &str, text: &str) -> Result<(), StoreError>;
    fn paths(&self) -> Vec<PathBuf>;
    fn close(&self) -> Result<(), StoreError>;
    fn remove(&self) -> Result<(), StoreError>;

    /// Opens a session of unknown type, at the cost of a virtual call per operation.
    fn open_any<'a>(&'a self, options: &'a SessionOptions) -> LocalFuture<'a, Result<Box<dyn Session>, StoreError>>;

    /// Runs one worker of a phase on the calling thread until the phase ends.
    fn drive(&self, job: WorkerJob) -> WorkerReport;
}

impl<S: Store> AnyStore for S
where
    S::Session: 'static,
{
    fn describe(&self) -> Description {
        Store::describe(self)
    }
    fn capabilities(&self) -> Capabilities {
        Store::capabilities(self)
    }
    fn runtime(&self) -> Runtime {
        Store::runtime(self)
    }
    fn inspect(&self) -> Result<Namespace, StoreError> {
        Store::inspect(self)
    }
    fn owner_of(&self, collection: &str) -> Result<Option<Owner>, StoreError> {
        Store::owner_of(self, collection)
    }
    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        Store::prepare(self, layout, how)
    }
    fn settle(&self, at_most: Duration) -> Result<bool, StoreError> {
        Store::settle(self, at_most)
    }
    fn compact(&self) -> Result<(), StoreError> {
        Store::compact(self)
    }
    fn stats(&self) -> Result<Stats, StoreError> {
        Store::stats(self)
    }
    fn sample_keys(&self, collection: CollectionId, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError> {
        Store::sample_keys(self, collection, at_most, seed)
    }
    fn cuts(&self, collection: CollectionId, ranges: usize) -> Result<Vec<String>, StoreError> {
        Store::cuts(self, collection, ranges)
    }
    fn range_order(&self, collection: CollectionId) -> Option<String> {
        Store::range_order(self, collection)
    }
    fn account(&self, collection: CollectionId) -> Result<Account, StoreError> {
        Store::account(self, collection)
    }
    fn same_keys(&self, collection: CollectionId) -> SameKeys {
        Store::same_keys(self, collection)
    }
    fn collections(&self) -> Result<Vec<String>, StoreError> {
        Store::collections(self)
    }
    fn plain_columns(&self, table: &str) -> Result<Option<(String, String)>, StoreError> {
        Store::plain_columns(self, table)
    }
    fn full_name(&self, collection: &CollectionLayout) -> String {
        Store::full_name(self, collection)
    }
    fn parts(&self) -> Result<Vec<String>, StoreError> {
        Store::parts(self)
    }
    fn rows<'a>(&'a self, rows: Rows<'a>) -> LocalFuture<'a, Result<Box<dyn RowStream>, StoreError>> {
        Store::rows(self, rows)
    }
    fn try_query(&self, request: &Request<'_>) -> Result<(), StoreError> {
        Store::try_query(self, request)
    }
    fn explain(&self, request: &Request<'_>) -> Result<Option<Explanation>, StoreError> {
        Store::explain(self, request)
    }
    fn build_index(&self, collection: CollectionId, name: &str, text: &str) -> Result<BuiltIndex, StoreError> {
        Store::build_index(self, collection, name, text)
    }
    fn drop_index(&self, collection: CollectionId, name: &str, text: &str) -> Result<(), StoreError> {
        Store::drop_index(self, collection, name, text)
    }
    fn paths(&self) -> Vec<PathBuf> {
        Store::paths(self)
    }
    fn close(&self) -> Result<(), StoreError> {
        Store::close(self)
    }
    fn remove(&self) -> Result<(), StoreError> {
        Store::remove(self)
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

impl Store for Erased {
    type Session = Box<dyn Session>;

    fn describe(&self) -> Description {
        self.0.describe()
    }
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
    fn runtime(&self) -> Runtime {
        self.0.runtime()
    }
    fn inspect(&self) -> Result<Namespace, StoreError> {
        self.0.inspect()
    }
    fn owner_of(&self, collection: &str) -> Result<Option<Owner>, StoreError> {
        self.0.owner_of(collection)
    }
    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        self.0.prepare(layout, how)
    }
    async fn open(&self, options: &SessionOptions) -> Result<Box<dyn Session>, StoreError> {
        self.0.open_any(options).await
    }
    fn settle(&self, at_most: Duration) -> Result<bool, StoreError> {
        self.0.settle(at_most)
    }
    fn compact(&self) -> Result<(), StoreError> {
        self.0.compact()
    }
    fn stats(&self) -> Result<Stats, StoreError> {
        self.0.stats()
    }
    fn sample_keys(&self, collection: CollectionId, at_most: usize, seed: u64) -> Result<Vec<String>, StoreError> {
        self.0.sample_keys(collection, at_most, seed)
    }
    fn cuts(&self, collection: CollectionId, ranges: usize) -> Result<Vec<String>, StoreError> {
        self.0.cuts(collection, ranges)
    }
    fn range_order(&self, collection: CollectionId) -> Option<String> {
        self.0.range_order(collection)
    }
    fn account(&self, collection: CollectionId) -> Result<Account, StoreError> {
        self.0.account(collection)
    }
    fn same_keys(&self, collection: CollectionId) -> SameKeys {
        self.0.same_keys(collection)
    }
    fn collections(&self) -> Result<Vec<String>, StoreError> {
        self.0.collections()
    }
    fn plain_columns(&self, table: &str) -> Result<Option<(String, String)>, StoreError> {
        self.0.plain_columns(table)
    }
    fn full_name(&self, collection: &CollectionLayout) -> String {
        self.0.full_name(collection)
    }
    fn parts(&self) -> Result<Vec<String>, StoreError> {
        self.0.parts()
    }
    fn rows<'a>(&'a self, rows: Rows<'a>) -> LocalFuture<'a, Result<Box<dyn RowStream>, StoreError>> {
        self.0.rows(rows)
    }
    fn try_query(&self, request: &Request<'_>) -> Result<(), StoreError> {
        self.0.try_query(request)
    }
    fn explain(&self, request: &Request<'_>) -> Result<Option<Explanation>, StoreError> {
        self.0.explain(request)
    }
    fn build_index(&self, collection: CollectionId, name: &str, text: &str) -> Result<BuiltIndex, StoreError> {
        self.0.build_index(collection, name, text)
    }
    fn drop_index(&self, collection: CollectionId, name: &str, text: &str) -> Result<(), StoreError> {
        self.0.drop_index(collection, name, text)
    }
    fn paths(&self) -> Vec<PathBuf> {
        self.0.paths()
    }
    fn close(&self) -> Result<(), StoreError> {
        self.0.close()
    }
    fn remove(&self) -> Result<(), StoreError> {
        self.0.remove()
    }
}
