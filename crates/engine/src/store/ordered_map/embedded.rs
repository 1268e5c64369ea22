//! A store over an embedded engine.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::marker::{index_table, index_tables};
use super::{Collection, Database, Indexes, Opened, OrderedSession};
use crate::store::{
    Capabilities, Description, Durability, Explanation, Holdings, Layout, Op, OpKind, Prepare, ReadConsistency,
    Request, SessionOptions, Stats, Store, StoreError, Support,
};

/// An engine that keeps its databases in files of this machine.
#[allow(clippy::missing_errors_doc)]
pub trait Engine: Send + Sync + 'static {
    /// A database that is open.
    type Database: Database;
    /// What a look at the place found.
    type Found;
    /// The version of its crate.
    const VERSION: &'static str;
    /// Whether it compacts only what nobody else has open.
    const COMPACTS_ALONE: bool;

    /// Where its database is.
    fn path(&self) -> &Path;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Looks at the place, changing nothing. `open` is the database where this store has it open.
    fn look(&self, open: Option<&Self::Database>) -> Result<(Holdings, Self::Found), StoreError>;

    /// Refuses what the engine cannot do with what is there. Whose it is has not been asked yet.
    fn check(&self, found: &Self::Found, layout: &Layout, how: Prepare) -> Result<(), StoreError>;

    /// Makes, or empties, what is to be, and opens it.
    fn open(&self, found: Self::Found, layout: &Layout, how: Prepare) -> Result<Opened<Self::Database>, StoreError>;

    /// Waits until the database is idle, at most so long; says whether it is.
    fn settle(&self, database: &Opened<Self::Database>, at_most: Duration) -> Result<bool, StoreError>;

    /// Compacts the database.
    fn compact(&self, database: &mut Arc<Opened<Self::Database>>) -> Result<(), StoreError>;

    /// What it tells of itself.
    fn stats(&self, database: Option<&Opened<Self::Database>>) -> Result<Stats, StoreError>;

    /// Brings what was written to the disk.
    fn sync(&self, database: &Opened<Self::Database>) -> Result<(), StoreError>;

    /// Removes what studies made. Nobody has the database open in this store.
    fn remove(&self, found: Self::Found) -> Result<(), StoreError>;
}

/// The store of an engine.
pub struct EmbeddedStore<E: Engine> {
    url: String,
    engine: E,
    opened: Mutex<Option<Arc<Opened<E::Database>>>>,
}

impl<E: Engine> EmbeddedStore<E> {
    /// A store with this URL. Touches nothing.
    pub fn new(url: &str, engine: E) -> Self {
        Self { url: url.to_owned(), engine, opened: Mutex::new(None) }
    }

    fn opened(&self) -> Option<Arc<Opened<E::Database>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, opened: Option<Arc<Opened<E::Database>>>) -> Option<Arc<Opened<E::Database>>> {
        // What was open before is dropped by the caller: that may take a while, which is not to be under the lock.
        std::mem::replace(&mut *self.opened.lock().unwrap_or_else(PoisonError::into_inner), opened)
    }

    fn look(&self) -> Result<(Holdings, E::Found), StoreError> {
        self.engine.look(self.opened().as_deref().map(|opened| &opened.database))
    }
}

/// Every operation, with how those are made that the engine cannot do by itself. Without touch and views.
pub fn operations(made: &[(&[OpKind], &'static str)]) -> Vec<(OpKind, Support)> {
    let how = |kind: &OpKind| made.iter().find(|(kinds, _)| kinds.contains(kind)).map(|(_, how)| *how);
    let all = OpKind::ALL.into_iter().filter(|kind| !matches!(kind, OpKind::Touch | OpKind::View));
    all.map(|kind| (kind, how(&kind).map_or(Support::Native, Support::Approximated))).collect()
}

impl<D: Database> Opened<D> {
    /// The collections of a layout in a database. `has_index` says whether there is the table of an index, `tables`
    /// opens the tables of a collection: documents, and those of its indexes.
    ///
    /// # Errors
    /// What `tables` says.
    pub fn new(
        database: D,
        layout: &Layout,
        how: Prepare,
        has_index: impl Fn(&D, &str) -> bool,
        tables: impl Fn(&D, &str, Vec<String>) -> Result<D::Tables, StoreError>,
    ) -> Result<Self, StoreError> {
        let read_only = how == Prepare::ReadOnly;
        let mut collections = Vec::with_capacity(layout.collections.len());
        for collection in &layout.collections {
            let name = &collection.name;
            let mut indexes = collection.indexes.clone();
            // Without its table an index finds nothing; what is only read may have been made without it.
            indexes.retain(|fields| !read_only || has_index(&database, &index_table(name, fields)));
            let names = indexes.iter().map(|fields| index_table(name, fields)).collect();
            let tables = tables(&database, name, names)?;
            collections.push(Collection { body: collection.body, indexes: Indexes::new(&indexes), tables });
        }
        Ok(Self { database, collections, read_only })
    }
}

/// Names of all tables of a layout.
pub fn tables_of(layout: &Layout) -> impl Iterator<Item = String> + '_ {
    layout.collections.iter().flat_map(|c| std::iter::once(c.name.clone()).chain(index_tables(c)))
}

impl<E: Engine> Store for EmbeddedStore<E> {
    type Session = OrderedSession<E::Database>;

    fn describe(&self) -> Description {
        let scheme = E::Database::NAME;
        Description { scheme, url: self.url.clone(), version: format!("{scheme} {}", E::VERSION) }
    }

    /// As the engine, whose sessions see each finished write.
    fn capabilities(&self) -> Capabilities {
        Capabilities { indexes: true, embedded: true, ..self.engine.capabilities() }
    }

    fn holdings(&self) -> Result<Holdings, StoreError> {
        Ok(self.look()?.0)
    }

    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        let (holdings, found) = self.look()?;
        self.engine.check(&found, layout, how)?;
        holdings.allow(&self.engine.path().display().to_string(), "another path", layout, how)?;
        drop(self.set(None));
        let opened = self.engine.open(found, layout, how)?;
        drop(self.set(Some(Arc::new(opened))));
        Ok(())
    }

    async fn open(&self, options: &SessionOptions) -> Result<Self::Session, StoreError> {
        let opened = self.opened().ok_or_else(|| {
            let path = self.engine.path().display();
            StoreError::Failed(format!("{path}: the store must be prepared before a session opens"))
        })?;
        OrderedSession::new(opened, options.durability)
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
        let result = self.engine.compact(&mut opened);
        if E::COMPACTS_ALONE {
            drop(self.set(Some(opened)));
        }
        result
    }

    fn stats(&self) -> Result<Stats, StoreError> {
        self.engine.stats(self.opened().as_deref())
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
        // Whatever comes of the sync, the files are let go.
        let opened = self.opened().filter(|opened| !opened.read_only);
        let synced = opened.map_or(Ok(()), |opened| self.engine.sync(&opened));
        drop(self.set(None));
        synced
    }

    fn remove(&self) -> Result<(), StoreError> {
        let (_, found) = self.look()?;
        drop(self.set(None));
        self.engine.remove(found)
    }
}

/// What is true of reads in one process, with why the strongest holds.
pub fn strong_reads(why: &'static str) -> Vec<(ReadConsistency, &'static str)> {
    let weaker = [ReadConsistency::StaleOk, ReadConsistency::Session].map(|level| (level, "as strong"));
    weaker.into_iter().chain([(ReadConsistency::Strong, why)]).collect()
}

/// The three durabilities of one process: none, handed to the operating system, synced; with what each is set to.
pub fn durabilities([none, os, fsync]: [&'static str; 3]) -> Vec<(Durability, &'static str)> {
    vec![(Durability::MEMORY, none), (Durability::OS, os), (Durability::FSYNC, fsync)]
}
