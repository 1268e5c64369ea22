//! Examples of a phase's requests, with values that it may use, and the query plans of its queries.

use std::sync::Arc;

use super::maker::{Maker, More, Stage};
use super::plan::{Amount, PhasePlan};
use crate::store::{AnyStore, Explanation, OpKind, Request, StoreError};
use storebench_documents::Catalog;

/// The query plan of one operation; `None` if the store reports no plans.
pub type Explained = Result<Option<Explanation>, StoreError>;

/// Calls `each` with `count` requests of a recipe. They are the same for all stores with the same documents. The
/// phase's own draws are not affected.
pub fn example_requests(
    plan: &PhasePlan,
    catalog: &Arc<Catalog>,
    seed: u64,
    recipe: usize,
    count: usize,
    each: &mut dyn FnMut(&Request<'_>),
) {
    let none_taken = vec![0; catalog.iter().count()];
    // The phase itself will report an error.
    let maker = Maker::new(Arc::new(plan.clone()), Arc::clone(catalog), 0, seed, none_taken, None);
    if let Ok(mut maker) = maker {
        for _ in 0..count {
            let mut more = More::default();
            let task = maker.example(recipe, &mut more);
            each(&maker.request(&task, &more, Stage::Whole, &[]));
        }
    }
}

/// Asks the store for the plan of each page, prefix, scan, view and query of a phase. In an existing collection, which
/// may have no index on the key, it also asks for reads. Returns each answer with the position of its recipe.
pub fn explain_queries(
    store: &dyn AnyStore,
    plan: &PhasePlan,
    catalog: &Arc<Catalog>,
    seed: u64,
) -> Vec<(usize, Explained)> {
    let queries = |kind| matches!(kind, OpKind::Page | OpKind::Prefix | OpKind::Scan | OpKind::View | OpKind::Query);
    let mut told = Vec::new();
    for at in 0..plan.all_recipes() {
        let recipe = plan.recipe(at);
        if recipe.label.kind == OpKind::Transaction {
            continue;
        }
        let asks = queries(recipe.label.kind) || catalog.get(recipe.label.collection).is_existing();
        if asks && plan.amount != Amount::Load {
            example_requests(plan, catalog, seed, at, 1, &mut |request| told.push((at, store.explain(request))));
        }
    }
    told
}
