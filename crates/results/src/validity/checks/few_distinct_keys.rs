//! `few-distinct-keys`: were the same few keys used again and again?

use crate::human::count;
use crate::validity::check::{Check, Finding, Looks, Scene, Severity};

pub(super) const CHECK: Check = Check::new("few-distinct-keys", "few distinct keys were used", &[Looks::Phase(look)]);

/// Fewer keys than this fit in any cache.
pub(super) const FEW_KEYS: f64 = 1_000.0;

/// Whether the same few distinct keys were used again and again. Short phases touch few keys in any case, so the bound
/// is then half of the operations.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    let operations = scene.operations();
    if !scene.measures() || operations == 0.0 {
        return None;
    }
    let keys = scene.phase.documents.distinct_keys as f64;
    let least = FEW_KEYS.min(operations / 2.0);
    let severity = if keys < least { Severity::Caution } else { Severity::Pass };
    Some(Finding::new(
        severity,
        format!("{} distinct keys in {} operations", count(keys as u64), count(operations as u64)),
        format!("caution below {} keys (half of the operations, if that is less)", count(FEW_KEYS as u64)),
        "a cache can answer most of this: use more documents or a flatter `popularity`, or state that a small hot set is intended",
    ).weighing(-keys))
}

#[cfg(test)]
mod tests {
    use crate::validity::testing::{CAUTION, PASS, closed, severity};

    #[test]
    fn few_distinct_keys() {
        for (keys, operations, expected) in [
            (1_000, 50_000, PASS),
            (999, 50_000, CAUTION),
            (100, 200, PASS),
            (99, 200, CAUTION),
            (10_000, 1_000_000, PASS),
            (9_999, 1_000_000, PASS),
        ] {
            let result = closed(|p| {
                p.documents.distinct_keys = keys;
                (p.ops[0].count, p.ops[1].count) = (operations, 0);
            });
            assert_eq!(severity(&result, "few-distinct-keys"), expected, "{keys} in {operations}");
        }
        assert_eq!(severity(&closed(|p| p.loads = true), "few-distinct-keys"), None);
    }
}
