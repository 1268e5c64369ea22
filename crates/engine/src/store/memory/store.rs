//! The store: which collections exist, and who may open them.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::collection::Collection;
use super::{MemoryDatabase, MemorySession};
use crate::store::ordered_map::{self, Indexes, Opened};
use crate::store::{
    Capabilities, CollectionId, CollectionLayout, Description, Durability, Explanation, Holdings, Layout, Marked,
    Namespace, Op, OpKind, Owner, Prepare, ReadConsistency, Request, SessionOptions, Stats, Store, StoreError, Support,
};

/// `memory:`: ordered maps in this process, gone with it. Clones share their documents.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    state: Arc<RwLock<Option<State>>>,
}

#[derive(Debug, Clone, Default)]
struct State {
    /// Every collection that exists.
    known: Vec<Arc<Collection>>,
    /// Those of the present layout, in its order.
    layout: Arc<[Arc<Collection>]>,
    /// Whose the collections are.
    owners: BTreeMap<String, Owner>,
}

impl MemoryStore {
    /// An empty store, to be prepared.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> Option<State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl State {
    fn holdings(this: Option<&Self>) -> Holdings {
        let owners = this.iter().flat_map(|state| &state.owners);
        let marked = owners.map(|(name, owner)| Marked::new(name.as_str(), owner.mark(""))).collect();
        Holdings { absent: this.is_none(), marked, ..Holdings::default() }
    }

    fn known(&self, name: &str) -> Option<&Arc<Collection>> {
        self.known.iter().find(|collection| collection.name == name)
    }

    /// Lays out what exists, making what is missing where `make` allows it.
    fn lay_out(mut self, layout: &Layout, how: Prepare) -> Result<Self, StoreError> {
        let make = !how.makes_nothing();
        let mut current = Vec::with_capacity(layout.collections.len());
        for wanted in &layout.collections {
            // Whoever keeps this store in their own program may have named their documents otherwise.
            let name = match &wanted.existing {
                Some(_) if make => {
                    return Err(StoreError::NotSupported(format!(
                        "memory: collection `{}` is somebody else's; nothing is made for it",
                        wanted.name
                    )));
                }
                Some(existing) => &existing.name,
                None => &wanted.name,
            };
            let collection = match self.known(name) {
                Some(found) => fitting(found, wanted, make)?,
                None if make => Arc::new(Collection::new(wanted)),
                None => {
                    return Err(StoreError::Failed(format!("memory: holds no collection `{name}`; load it first")));
                }
            };
            if make {
                self.owners.insert(name.clone(), how.owner(self.owners.get(name).copied()));
            }
            self.known.retain(|known| known.name != *name);
            self.known.push(Arc::clone(&collection));
            current.push(collection);
        }
        self.layout = current.into();
        Ok(self)
    }
}

/// The collection as the layout wants it.
fn fitting(found: &Arc<Collection>, wanted: &CollectionLayout, make: bool) -> Result<Arc<Collection>, StoreError> {
    if found.body != wanted.body {
        return Err(StoreError::Failed(format!(
            "memory: collection `{}` holds {:?} documents, the study has {:?} ones; prepare it afresh",
            wanted.name, found.body, wanted.body
        )));
    }
    if !make || found.indexes == Indexes::new(&wanted.indexes) {
        return Ok(Arc::clone(found));
    }
    let made = found.reindexed(wanted).map_err(|e| {
        StoreError::Failed(format!("memory: collection `{}` could not be indexed: {}", wanted.name, e.message))
    })?;
    Ok(Arc::new(made))
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
                .filter(|kind| *kind != OpKind::View)
                .map(|kind| (kind, Support::Native))
                .collect(),
            durability: vec![(Durability::MEMORY, "kept in this process, gone with it")],
            consistency: [ReadConsistency::StaleOk, ReadConsistency::Session, ReadConsistency::Strong]
                .map(|consistency| (consistency, "every read sees every acknowledged write"))
                .to_vec(),
            indexes: true,
            embedded: true,
            notes: vec!["A bulk operation is done item by item, not as one transaction."],
            ..Capabilities::default()
        }
    }

    fn inspect(&self) -> Result<Namespace, StoreError> {
        Ok(State::holdings(self.state().as_ref()).namespace())
    }

    fn owner_of(&self, collection: &str) -> Result<Option<Owner>, StoreError> {
        Ok(State::holdings(self.state().as_ref()).owner_of(collection))
    }

    /// Sessions opened before a [`Prepare::Fresh`] keep working on the documents that were dropped.
    fn prepare(&self, layout: &Layout, how: Prepare) -> Result<(), StoreError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let before = state.clone();
        State::holdings(before.as_ref()).allow("memory:", "another store", layout, how)?;
        let laid_out = match (how, before) {
            (Prepare::Fresh | Prepare::Discard, _) => State::default().lay_out(layout, how),
            (Prepare::Keep | Prepare::IntoExisting | Prepare::Copy(_), before) => {
                before.unwrap_or_default().lay_out(layout, how)
            }
            (Prepare::ReadOnly | Prepare::WriteExisting, Some(before)) => before.lay_out(layout, how),
            (Prepare::ReadOnly | Prepare::WriteExisting, None) => {
                Err(StoreError::Failed("memory: holds nothing; it lives as long as its process only".into()))
            }
        };
        *state = Some(laid_out?);
        Ok(())
    }

    async fn open(&self, options: &SessionOptions) -> Result<MemorySession, StoreError> {
        if options.durability != Durability::MEMORY {
            return Err(StoreError::NotSupported(format!(
                "memory: cannot promise durability `{}`; use `none`",
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
        MemorySession::new(Arc::new(Opened { database, collections, read_only: false }), options.durability)
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
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let mut left = state.take().unwrap_or_default();
        left.owners.retain(|_, owner| owner.is_user());
        left.known.retain(|collection| left.owners.contains_key(&collection.name));
        left.layout = Arc::default();
        *state = (!left.known.is_empty()).then_some(left);
        Ok(())
    }
}
