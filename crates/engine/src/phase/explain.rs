//! Query plans of a phase's queries, requested before the phase, with values that it may use.

use std::sync::Arc;

use super::maker::{Maker, Stage};
use super::plan::{Amount, PhasePlan};
use crate::store::{AnyStore, Explanation, OpKind, StoreError};
use storebench_documents::Catalog;

/// The query plan of one operation; `None` if the store reports no plans.
pub type Explained = Result<Option<Explanation>, StoreError>;

/// Asks the store for the plan of each page, prefix, scan and view query of a phase. In an existing collection, which
/// may have no index on the key, it also asks for reads. Returns each answer with the position of its recipe. The
/// phase's own draws are not affected.
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
        // The phase itself will report this error.
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
