//! The store: which collections exist, and who may open them.

use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use super::collection::Collection;
use super::{MemoryDatabase, MemorySession};
use crate::store::ordered_map::{self, Indexes, Opened};
use crate::store::{
    Capabilities, CollectionId, Description, Durability, Explanation, Holdings, Layout, Marked, Op, OpKind, Prepare,
    ReadConsistency, Removal, Request, SessionOptions, Site, SiteOutcome, Stats, Store, StoreError, Support, Wanted,
    at_once, prepare, remove,
};

/// `memory:`: ordered maps in this process, gone with it. Clones share their documents.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    state: Arc<RwLock<Option<MemoryState>>>,
}

#[derive(Debug, Clone, Default)]
struct MemoryState {
    /// Every collection that exists.
    known: Vec<Arc<Collection>>,
    /// Their marks.
    marked: Vec<Marked>,
    /// The collections of the current layout, in its order.
    layout: Arc<[Arc<Collection>]>,
}

impl MemoryStore {
    /// An empty store, which must be prepared.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> Option<MemoryState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn site(&self) -> MemorySite<'_> {
        MemorySite(self.state.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl MemoryState {
    fn holdings(this: Option<&Self>) -> Holdings {
        let marked = this.map(|state| state.marked.clone()).unwrap_or_default();
        Holdings { absent: this.is_none(), made: this.map(|_| true), marked, ..Holdings::default() }
    }

    fn known(&self, name: &str) -> Option<&Arc<Collection>> {
        self.known.iter().find(|collection| collection.name == name)
    }
}

/// The collections, locked so that nobody else can look at them.
struct MemorySite<'m>(RwLockWriteGuard<'m, Option<MemoryState>>);

impl MemorySite<'_> {
    /// Sets the layout to collections that exist.
    fn read(&mut self, layout: &Layout) -> Result<(), StoreError> {
        let holdings = MemoryState::holdings(self.0.as_ref());
        let mut current = Vec::with_capacity(layout.collections.len());
        for wanted in &layout.collections {
            // A program that embeds this store may have used another name for its documents.
            let name = wanted.existing.as_ref().map_or(&wanted.name, |existing| &existing.name);
            if !holdings.check_form(self, name, wanted.body)? {
                return Err(holdings.missing(&self.shown(), name));
            }
            current.extend(self.0.as_ref().and_then(|state| state.known(name)).cloned());
        }
        if let Some(state) = self.0.as_mut() {
            state.layout = current.into();
        }
        Ok(())
    }
}

impl Site for MemorySite<'_> {
    const ANOTHER: &'static str = "another store";

    fn shown(&self) -> String {
        "memory:".to_owned()
    }

    async fn look(&mut self) -> Result<Holdings, StoreError> {
        Ok(MemoryState::holdings(self.0.as_ref()))
    }

    async fn make(&mut self, wanted: &Wanted<'_>) -> Result<SiteOutcome, StoreError> {
        let mut state = self.0.clone().unwrap_or_default();
        let mut current = Vec::with_capacity(wanted.collections.len());
        for layout in wanted.collections.iter().map(|planned| planned.layout) {
            let collection = match state.known(&layout.name) {
                Some(found) if found.indexes == Indexes::new(&layout.indexes) => Arc::clone(found),
                Some(found) => Arc::new(found.reindexed(layout).map_err(|e| {
                    let name = &layout.name;
                    StoreError::Failed(format!("memory: collection `{name}` could not be indexed: {}", e.message))
                })?),
                None => Arc::new(Collection::new(layout)),
            };
            state.known.retain(|known| known.name != layout.name);
            state.known.push(Arc::clone(&collection));
            current.push(collection);
        }
        *self.0 = Some(MemoryState { marked: wanted.marked.clone(), layout: current.into(), ..state });
        Ok(SiteOutcome::Done)
    }

    async fn unmake(&mut self, removal: &Removal) -> Result<SiteOutcome, StoreError> {
        let mut state = self.0.take().unwrap_or_default();
        state.known.retain(|known| !removal.takes(&known.name));
        (state.marked, state.layout) = (removal.left.clone(), Arc::default());
        *self.0 = (!state.known.is_empty()).then_some(state);
        Ok(SiteOutcome::Done)
    }
}

impl Store for MemoryStore {
    type Session = MemorySession;

    fn describe(&self) -> Description {
        Description { scheme: "memory", url: "memory:".into(), version: env!("CARGO_PKG_VERSION").into() }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            operations: OpKind::ALL
                .into_iter()
                .filter(|kind| !matches!(kind, OpKind::View | OpKind::Query | OpKind::Transaction))
                .map(|kind| (kind, Support::Native))
                .collect(),
            durability: vec![(Durability::MEMORY, "in this process's memory; lost when it ends")],
            shipped_durability: Durability::MEMORY,
            consistency: [ReadConsistency::StaleOk, ReadConsistency::Session, ReadConsistency::Strong]
                .map(|consistency| (consistency, "every read sees every acknowledged write"))
                .to_vec(),
            indexes: true,
            embedded: true,
            notes: vec!["A bulk operation runs item by item, not as one transaction."],
            ..Capabilities::default()
        }
    }

    fn holdings(&self) -> Result<Holdings, StoreError> {
        Ok(MemoryState::holdings(self.state().as_ref()))
    }

    /// Sessions opened before a [`Prepare::Fresh`] keep working on the documents that were dropped.
    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        let mut site = self.site();
        if how.makes_nothing() { site.read(layout) } else { at_once(prepare(&mut site, layout, how)) }
    }

    async fn open(&self, options: &SessionOptions) -> Result<MemorySession, StoreError> {
        if options.durability != Durability::MEMORY {
            return Err(StoreError::NotSupported(format!(
                "memory: cannot guarantee durability `{}`; use `none`",
                options.durability
            )));
        }
        let state =
            self.state().ok_or_else(|| StoreError::Failed("memory: must be prepared before it is opened".into()))?;
        let open = |collection: &Arc<Collection>| ordered_map::Collection {
            body: collection.body,
            indexes: collection.indexes.clone(),
            tables: Arc::clone(collection),
        };
        let collections = state.layout.iter().map(open).collect();
        let database = MemoryDatabase { clock: Arc::clone(&options.clock) };
        Ok(MemorySession::new(Arc::new(Opened::new(database, collections)), options.durability.persisted))
    }

    fn stats(&self) -> Result<Stats, StoreError> {
        let state = self.state().unwrap_or_default();
        let (documents, bytes) = state.known.iter().fold((0, 0), |sum, collection| {
            let (documents, bytes) = collection.totals();
            (sum.0 + documents, sum.1 + bytes)
        });
        Ok(vec![("documents".into(), documents as f64), ("body_bytes".into(), bytes as f64)])
    }

    fn sample_keys(&self, collection: CollectionId, at_most: usize, _seed: u64) -> Result<Vec<String>, StoreError> {
        let state = self.state().unwrap_or_default();
        let Some(collection) = state.layout.get(collection.position()) else {
            return Err(StoreError::Failed("memory: must be prepared before keys are sampled".into()));
        };
        let mut keys = collection.keys();
        keys.sort_unstable();
        let count = keys.len();
        let taken = at_most.min(count);
        Ok((0..taken).map(|n| std::mem::take(&mut keys[n * count / taken])).collect())
    }

    fn explain(&self, request: &Request<'_>) -> Result<Option<Explanation>, StoreError> {
        let plan = match request.op {
            Op::Page { field, .. } => format!("range of the ordered index on `{field}`, then a look-up for each key"),
            Op::Prefix { .. } | Op::Scan { .. } => "range of the ordered map of each shard, merged".into(),
            _ => return Ok(None),
        };
        Ok(Some(Explanation { plan, full_scan: false }))
    }

    fn remove(&self) -> Result<(), StoreError> {
        at_once(remove(&mut self.site()))
    }
}
