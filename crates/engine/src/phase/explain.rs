//! How a store would answer the queries of a phase: asked before it, with values the phase may ask for.

use std::sync::Arc;

use super::maker::{Maker, Stage};
use super::plan::{Amount, PhasePlan};
use crate::store::{AnyStore, Explanation, OpKind, StoreError};
use storebench_documents::Catalog;

/// What a store says about one operation of a phase; nothing where it tells no plan.
pub type Explained = Result<Option<Explanation>, StoreError>;

/// Asks the store how it would answer each page, prefix, scan and view query of a phase; in a collection
/// that somebody else made, where no index on the key can be taken for granted, also reads. Gives the
/// position of the recipe with each answer. The phase's own draws are left as they are.
pub fn explain_queries(
    store: &dyn AnyStore,
    plan: &PhasePlan,
    catalog: &Arc<Catalog>,
    seed: u64,
) -> Vec<(usize, Explained)> {
    let queries = |kind| matches!(kind, OpKind::Page | OpKind::Prefix | OpKind::Scan | OpKind::View);
    let asks = |at: &usize| {
        let label = &plan.recipes[*at].label;
        queries(label.kind) || catalog.get(label.collection).is_existing()
    };
    let asked: Vec<usize> = (0..plan.recipes.len()).filter(asks).collect();
    if asked.is_empty() || plan.amount == Amount::Load {
        return Vec::new();
    }
    let none_taken = vec![0; catalog.iter().count()];
    let mut maker = match Maker::new(Arc::new(plan.clone()), Arc::clone(catalog), 0, seed, none_taken, None) {
        Ok(maker) => maker,
        // The phase itself will be refused for it, in words.
        Err(_) => return Vec::new(),
    };
    asked
        .into_iter()
        .map(|recipe| {
            let mut indexes = Vec::new();
            let task = maker.example(recipe, &mut indexes);
            (recipe, store.explain(&maker.request(&task, &indexes, Stage::Whole, &[])))
        })
        .collect()
}
