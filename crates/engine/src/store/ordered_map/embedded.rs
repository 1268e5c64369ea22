//! A store over an embedded engine.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::site::EngineSite;
use super::{Database, DatabasePlace, FoundDatabase, Opened, OrderedSession};
use crate::store::location::guarded;
use crate::store::{
    Capabilities, Description, Durability, Explanation, Holdings, Layout, Op, OpKind, Prepare, ReadConsistency,
    Request, SessionOptions, Stats, Store, StoreError, StoreSettings, Support, at_once, prepare, remove,
};

/// The store of an engine.
pub struct EmbeddedStore<E: DatabasePlace> {
    url: String,
    pub(super) engine: E,
    opened: Mutex<Option<Arc<Opened<E::Database>>>>,
}

impl<E: DatabasePlace> EmbeddedStore<E> {
    /// A store with this URL. Touches nothing.
    pub fn new(url: &str, engine: E) -> Self {
        Self { url: url.to_owned(), engine, opened: Mutex::new(None) }
    }

    fn opened(&self) -> Option<Arc<Opened<E::Database>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, opened: Option<Arc<Opened<E::Database>>>) -> Option<Arc<Opened<E::Database>>> {
        // The caller drops what was open before. That may take a while, so it must not happen under the lock.
        std::mem::replace(&mut *self.opened.lock().unwrap_or_else(PoisonError::into_inner), opened)
    }

    /// Closes the database in this store.
    pub(super) fn let_go(&self) {
        drop(self.set(None));
    }

    /// Looks at the place, changing nothing.
    pub(super) fn look(&self) -> Result<FoundDatabase, StoreError> {
        let opened = self.opened();
        guarded(self.engine.path(), || self.engine.look(opened.as_deref().map(|opened| &opened.database)))
    }
}

/// Refuses collections that somebody else should have created. The data is in Storebench's own form, so it cannot hold
/// the documents of others.
fn refuse_existing(engine: &str, layout: &Layout) -> Result<(), StoreError> {
    match layout.collections.iter().find(|c| c.existing.is_some()) {
        None => Ok(()),
        Some(collection) => Err(StoreError::NotSupported(format!(
            "{engine} stores only keys and bytes, and each program lays them out differently, so `{}` cannot be read \
             or written as somebody else's documents; nothing was touched. To measure what Storebench stored there, \
             remove `existing` and use --keep",
            collection.name
        ))),
    }
}

/// Every operation except touch, view, query and transaction. `made` lists the operations that the engine lacks, and how they are built.
pub fn operations(made: &[(&[OpKind], &'static str)]) -> Vec<(OpKind, Support)> {
    let how = |kind: &OpKind| made.iter().find(|(kinds, _)| kinds.contains(kind)).map(|(_, how)| *how);
    use OpKind::{Query, Touch, Transaction, View};
    let all = OpKind::ALL.into_iter().filter(|kind| !matches!(kind, Touch | View | Query | Transaction));
    all.map(|kind| (kind, how(&kind).map_or(Support::Native, Support::Approximated))).collect()
}

/// The operations of an engine that can get, put and remove. `changed` says how others are kept from writing between
/// the read and the write of a change. `special` takes precedence.
pub fn operations_over(changed: &'static str, special: &[(&[OpKind], &'static str)]) -> Vec<(OpKind, Support)> {
    use OpKind as Kind;
    let common: [(&[OpKind], &'static str); 4] = [
        (&[Kind::Insert, Kind::Replace, Kind::Append, Kind::Prepend, Kind::Counter, Kind::MergePatch], changed),
        (
            &[Kind::CompareAndSwap],
            "compares the complete stored document before the write; a change that was reverted goes undetected (ABA)",
        ),
        (&[Kind::BulkRead], "one get per document, from one snapshot"),
        (&[Kind::Page], "reads a table that the driver keeps for each index, then one get per document"),
    ];
    operations(&[special, &common].concat())
}

impl<E: DatabasePlace> Store for EmbeddedStore<E> {
    type Session = OrderedSession<E::Database>;

    fn describe(&self) -> Description {
        let scheme = E::Database::NAME;
        Description { scheme, url: self.url.clone(), version: format!("{scheme} {}", E::VERSION) }
    }

    /// The capabilities of the engine. Its sessions see every finished write.
    fn capabilities(&self) -> Capabilities {
        let mut capabilities =
            Capabilities { indexes: true, embedded: true, opened_once: true, ..self.engine.capabilities() };
        let indexes =
            "The driver maintains secondary indexes: a write to an indexed collection first reads the old document.";
        capabilities.notes.push(indexes);
        capabilities
    }

    fn holdings(&self) -> Result<Holdings, StoreError> {
        Ok(self.look()?.holdings())
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        refuse_existing(E::Database::NAME, layout)?;
        let mut site = EngineSite::new(self, Some(how));
        if how.makes_nothing() {
            site.read(layout)?
        } else {
            at_once(prepare(&mut site, layout, how))?
        }
        drop(self.set(site.opened.map(Arc::new)));
        Ok(())
    }

    async fn open(&self, options: &SessionOptions) -> Result<Self::Session, StoreError> {
        let opened = self.opened().ok_or_else(|| {
            let path = self.engine.path().display();
            StoreError::Failed(format!("{path}: the store must be prepared before a session opens"))
        })?;
        if self.engine.capabilities().guarantees(options.durability).is_none() {
            let (name, durability) = (E::Database::NAME, options.durability);
            return Err(StoreError::NotSupported(format!("{name} cannot guarantee durability `{durability}`")));
        }
        Ok(OrderedSession::new(opened, options.durability.persisted))
    }

    fn settle(&self, at_most: Duration) -> Result<bool, StoreError> {
        self.opened().map_or(Ok(true), |opened| self.engine.settle(&opened, at_most))
    }

    fn compact(&self) -> Result<(), StoreError> {
        let opened = if E::COMPACTS_ALONE { self.set(None) } else { self.opened() };
        let Some(mut opened) = opened else {
            let path = self.engine.path().display();
            return Err(StoreError::NotSupported(format!("{path}: the database is not open")));
        };
        let result = match opened.read_only {
            true => Err(StoreError::NotSupported("the database is not open for writing".into())),
            false => self.engine.compact(&mut opened),
        };
        if E::COMPACTS_ALONE {
            drop(self.set(Some(opened)));
        }
        result
    }

    fn stats(&self) -> Result<Stats, StoreError> {
        self.engine.stats(self.opened().as_deref())
    }

    fn own_settings(&self) -> Result<StoreSettings, StoreError> {
        Ok(self.engine.own_settings())
    }

    fn explain(&self, request: &Request<'_>) -> Result<Option<Explanation>, StoreError> {
        let Op::Page { field, .. } = request.op else { return Ok(None) };
        let opened = self.opened();
        let collection = opened.as_ref().and_then(|o| o.collections.get(request.collection.position()));
        Ok(collection.map(|collection| collection.indexes.explain(field)))
    }

    fn paths(&self) -> Vec<PathBuf> {
        vec![self.engine.path().to_owned()]
    }

    fn close(&self) -> Result<(), StoreError> {
        // The files are closed, whatever the result of the sync.
        let opened = self.opened().filter(|opened| !opened.read_only);
        let synced = opened.map_or(Ok(()), |opened| self.engine.sync(&opened.database));
        drop(self.set(None));
        synced
    }

    fn remove(&self) -> Result<(), StoreError> {
        at_once(remove(&mut EngineSite::new(self, None)))
    }
}

/// The read consistencies of a store whose reads are all strong. `why` says why the strongest holds.
pub fn strong_reads(why: &'static str) -> Vec<(ReadConsistency, &'static str)> {
    let weaker = [ReadConsistency::StaleOk, ReadConsistency::Session].map(|level| (level, "same as strong"));
    weaker.into_iter().chain([(ReadConsistency::Strong, why)]).collect()
}

/// The three durability levels of one process, each with its setting: none, handed to the operating system, synced.
pub fn durabilities([none, os, fsync]: [&'static str; 3]) -> Vec<(Durability, &'static str)> {
    vec![(Durability::MEMORY, none), (Durability::OS, os), (Durability::FSYNC, fsync)]
}
