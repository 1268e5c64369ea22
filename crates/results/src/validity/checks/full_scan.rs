//! `full-scan`: does a query read a whole collection?

use crate::validity::check::{Check, Finding, Looks, Scene, Severity};
use crate::{OpResult, QueryPlanResult};
use storebench_study::op_kind::OpKind;

pub(super) const CHECK: Check = Check::new("full-scan", "a query read everything", &[Looks::Phase(look)]);

/// Whether a query reads the whole collection, by the store's own plan. `None` if the store reports no plan.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    let told: Vec<(&str, &OpResult, &QueryPlanResult)> =
        scene.phase.ops.iter().filter_map(|(name, op)| Some((name.as_str(), op, op.query_plan.as_ref()?))).collect();
    if told.is_empty() {
        return None;
    }
    let threshold = "caution when a query reads a whole collection";
    let scans: Vec<_> = told.iter().filter(|(.., plan)| plan.full_scan).collect();
    let Some((_, op, plan)) = scans.first() else {
        let names: Vec<&str> = told.iter().map(|(name, ..)| *name).collect();
        return Some(Finding::new(Severity::Pass, format!("{}: no full scan", names.join(", ")), threshold, ""));
    };
    let observed: Vec<String> = scans
        .iter()
        .map(|(name, op, plan)| {
            let first = plan.plan.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no plan available");
            format!("{name} reads all of `{}` ({})", op.collection, cut(first))
        })
        .collect();
    let theirs = scene.result.documents.iter().any(|c| c.collection == op.collection && c.existing.is_some());
    let advice = match &plan.field {
        Some(field) if theirs => format!(
            "its time grows with the collection: create an index on `{field}` in the store (Storebench only reads it)"
        ),
        Some(field) => format!(
            "its time grows with the collection: add index = [[\"{field}\"]] to collections.{}; if it is there already, the \
             store does not use it for this query",
            op.collection
        ),
        None if op.kind == OpKind::Query.name() || op.kind == OpKind::Transaction.name() => {
            "its time grows with the collection, unless the query is meant to read everything: create an index that it can use"
                .to_owned()
        }
        None => "its time grows with the collection: the store keeps no key order that this query could use; use \
                 another operation, or an index"
            .to_owned(),
    };
    Some(Finding::new(Severity::Caution, observed.join("; "), threshold, advice))
}

/// The beginning of a line, which may be very long.
fn cut(line: &str) -> String {
    const MOST: usize = 120;
    if line.chars().count() <= MOST { line.to_owned() } else { line.chars().take(MOST).chain(['…']).collect() }
}

#[cfg(test)]
mod tests {
    use crate::validity::testing::{CAUTION, PASS, all, open, severity};

    #[test]
    fn full_scan() {
        use crate::QueryPlanResult;
        let with = |plans: &[(&str, Option<&str>, &str, bool)]| {
            let mut result = open(|p| {
                for (op, field, plan, full_scan) in plans {
                    p.ops[*op].query_plan = Some(QueryPlanResult {
                        field: field.map(str::to_owned),
                        plan: (*plan).to_owned(),
                        full_scan: *full_scan,
                    });
                }
            });
            result.trials[0].phases[0].ops.values_mut().for_each(|op| op.collection = "books".into());
            result
        };
        let seek = "SEARCH books USING INDEX books.author (<expr>=?)";
        assert_eq!(severity(&with(&[]), "full-scan"), None);
        assert_eq!(severity(&with(&[("read", Some("author"), seek, false)]), "full-scan"), PASS);
        let scanned = with(&[("read", Some("author"), seek, false), ("update", Some("title"), "\n  SCAN books", true)]);
        assert_eq!(severity(&scanned, "full-scan"), CAUTION);
        let check = &all(&scanned, "full-scan")[0];
        assert_eq!(check.observed, "update reads all of `books` (SCAN books)");
        assert!(check.advice.contains("index = [[\"title\"]] to collections.books"), "{}", check.advice);
        let mut theirs = scanned.clone();
        theirs.documents[0].existing = Some("library".into());
        assert!(all(&theirs, "full-scan")[0].advice.contains("create an index on `title` in the store"));
        let by_key = with(&[("read", None, "", true)]);
        assert_eq!(severity(&by_key, "full-scan"), CAUTION);
        assert!(all(&by_key, "full-scan")[0].observed.contains("no plan available"));
    }
}
