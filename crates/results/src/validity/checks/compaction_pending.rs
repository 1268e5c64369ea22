//! `compaction-pending`: did the work that a phase caused end within the phase?

use crate::StoreAfter;
use crate::human::{digits, duration};
use crate::validity::check::{Check, Finding, Looks, Scene, Severity, some};

pub(super) const CHECK: Check =
    Check::new("compaction-pending", "the store had work left to do", &[Looks::Phase(look)]);

/// A figure above this means that work is left.
const LEFT: f64 = 0.0;
/// Endings of the names of figures with which stores report running or waiting work.
const WORK: [&str; 7] = ["_pending", "_running", "_active", "_tasks", "_lag_documents", "stale_indexes", "_left"];
/// Words in such names: `write_queue_items`, `queued_writers`.
const QUEUES: [&str; 2] = ["queue", "queued"];

/// Whether the store had work left after a phase.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    let after = scene.phase.store_after.as_ref()?;
    let told = || after.stats.iter().filter(|(name, _)| tells_of_work(name));
    let left: Vec<String> =
        told().filter(|(_, value)| **value > LEFT).map(|(name, value)| format!("{name} {}", digits(*value))).collect();
    let (severity, observed, advice) = match after.settled {
        Some(false) => (
            Severity::Caution,
            unrest(after, &left),
            "the cost of the pending work is not in this phase's figures, and it slows the next phase: allow a longer `settle`",
        ),
        Some(true) => (Severity::Pass, "the store settled".to_owned(), ""),
        None if !left.is_empty() => (
            Severity::Note,
            format!("left to do: {}", some(&left)),
            "the cost of the pending work is not in this phase's figures, and it slows the next phase: set `settle`, or lengthen the phase",
        ),
        None if told().next().is_some() => (Severity::Pass, "nothing was left to do".to_owned(), ""),
        None => return None,
    };
    Some(Finding::new(
        severity,
        observed,
        "caution if it did not settle in time, note if anything is left to do",
        advice,
    ))
}

fn unrest(after: &StoreAfter, left: &[String]) -> String {
    let mut observed = "the store had not settled".to_owned();
    if let Some(ns) = after.settle_ns {
        observed += &format!(" after {}", duration(ns as f64));
    }
    if !left.is_empty() {
        observed += &format!("; left to do: {}", some(left));
    }
    observed
}

/// Whether a figure of a store counts work in the background. Drivers use their own names.
fn tells_of_work(name: &str) -> bool {
    WORK.iter().any(|end| name.ends_with(end)) || name.split('_').any(|word| QUEUES.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunResult;
    use crate::validity::testing::{CAUTION, NOTE, PASS, all, closed};

    fn with(settled: Option<bool>, stats: &[(&str, f64)]) -> RunResult {
        let stats = stats.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        closed(|p| {
            p.store_after =
                Some(StoreAfter { settled, settle_ns: Some(30_000_000_000), stats, ..StoreAfter::default() });
        })
    }

    fn severity(result: &RunResult) -> Option<Severity> {
        crate::validity::testing::severity(result, "compaction-pending")
    }

    #[test]
    fn rest_that_was_waited_for() {
        assert_eq!(severity(&with(Some(true), &[("flushes_pending", 1.0)])), PASS);
        let restless = with(Some(false), &[("flushes_pending", 2.0)]);
        assert_eq!(severity(&restless), CAUTION);
        let observed = "the store had not settled after 30.0 s; left to do: flushes_pending 2.00";
        assert_eq!(all(&restless, "compaction-pending")[0].observed, observed);
    }

    #[test]
    fn work_that_was_left() {
        for name in ["compaction_changes_pending", "write_queue_items", "queued_writers", "compactions_active"] {
            assert_eq!(severity(&with(None, &[(name, 1.0)])), NOTE, "{name}");
            assert_eq!(severity(&with(None, &[(name, 0.0)])), PASS, "{name}");
        }
        for name in ["compactions_completed", "compacting_s", "active_sessions", "wal_bytes"] {
            assert_eq!(severity(&with(None, &[(name, 9.0)])), None, "{name}");
        }
        assert_eq!(severity(&closed(|_| ())), None);
    }
}
