//! Were queries answered the way a store is meant to be asked?

use super::judge::{Finding, Scene};
use super::model::Level;
use crate::results::{OpResult, QueryPlanResult};

/// Whether a query reads the whole collection, by the store's own plan. None where no store tells.
pub(super) fn full_scan(scene: &Scene<'_>) -> Option<Finding> {
    let told: Vec<(&str, &OpResult, &QueryPlanResult)> =
        scene.phase.ops.iter().filter_map(|(name, op)| Some((name.as_str(), op, op.query_plan.as_ref()?))).collect();
    if told.is_empty() {
        return None;
    }
    let threshold = "caution when a query reads a whole collection";
    let scans: Vec<_> = told.iter().filter(|(.., plan)| plan.full_scan).collect();
    let Some((_, op, plan)) = scans.first() else {
        let names: Vec<&str> = told.iter().map(|(name, ..)| *name).collect();
        return Some(Finding::new(Level::Pass, format!("{}: no full scan", names.join(", ")), threshold, ""));
    };
    let saw: Vec<String> = scans
        .iter()
        .map(|(name, op, plan)| {
            let first = plan.plan.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no plan was told");
            format!("{name} reads all of `{}` ({})", op.collection, cut(first))
        })
        .collect();
    let theirs = scene.result.documents.iter().any(|c| c.collection == op.collection && c.existing.is_some());
    let advice = match &plan.field {
        Some(field) if theirs => format!(
            "its time grows with the collection: make an index over `{field}` in the store, which Storebench only reads"
        ),
        Some(field) => format!(
            "its time grows with the collection: add index = [[\"{field}\"]] to collections.{}; where it is there, the \
             store does not use it for this query",
            op.collection
        ),
        None => "its time grows with the collection: the store keeps no order of keys that this query could use, so \
                 ask by another operation, or by an index"
            .to_owned(),
    };
    Some(Finding::new(Level::Caution, saw.join("; "), threshold, advice))
}

/// The beginning of a line that may be a document of its own.
fn cut(line: &str) -> String {
    const MOST: usize = 120;
    if line.chars().count() <= MOST { line.to_owned() } else { line.chars().take(MOST).chain(['…']).collect() }
}
