//! `misses`: did operations find nothing where documents should have been?

use crate::human::{count, percent};
use crate::validity::check::{Check, Finding, Looks, Scene, Severity};
use crate::validity::lost::{loaded_and_gone, removes as removed};

pub(super) const CHECK: Check = Check::new("misses", "documents were not found", &[Looks::Phase(look)]);

/// Share of operations that find nothing.
pub(super) const MISSES: f64 = 0.01;

/// Whether operations found nothing where there should have been documents.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    let operations = scene.operations();
    if operations == 0.0 || scene.phase.loads {
        return None;
    }
    let missed: f64 = scene.phase.ops.values().map(|op| op.misses as f64).sum();
    let share = missed / operations;
    let worst = scene
        .phase
        .ops
        .iter()
        .filter(|(_, op)| op.count > 0)
        .map(|(name, op)| (op.misses as f64 / op.count as f64, name))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let of_new: u64 = scene.phase.ops.values().map(|op| op.misses_of_new).sum();
    // What a trace explains is no fault of the load.
    let unexplained = scene.phase.ops.values().filter(|op| op.count > 0);
    let most = unexplained.map(|op| op.misses.saturating_sub(op.misses_of_new) as f64 / op.count as f64);
    let most = most.fold(0.0, f64::max);
    let removes = removes(scene);
    let gone = loaded_and_gone(scene.trial, scene.phase);
    let severity = match () {
        () if gone > 0 => Severity::Invalid,
        () if missed == 0.0 => Severity::Pass,
        () if most > MISSES && !removes => Severity::Caution,
        () => Severity::Note,
    };
    let inserts: u64 = scene.phase.ops.values().filter(|op| op.kind == "insert").map(|op| op.misses).sum();
    let what =
        if inserts > 0 { "found no document, or inserted one that was there already" } else { "found no document" };
    let mut observed = format!("{} of {} operations {what}", count(missed as u64), count(operations as u64));
    if let Some((most, name)) = worst.filter(|_| missed > 0.0) {
        observed += &format!(" ({}; of {name} {})", percent(share), percent(most));
    }
    let advice = if gone > 0 {
        "documents are gone that were loaded and that this run did not delete: look for eviction, expiry and memory \
         limits in the store's settings, and for other programs that write to it"
    } else if removes {
        "documents were deleted or expired, so misses are expected; they do not count as successes"
    } else if most == 0.0 && of_new > 0 {
        "the log has inserts that failed, or another client of the trace came later or earlier than when it was recorded; \
         misses do not count as successes"
    } else {
        "some keys do not exist: load the whole collection before this phase, at the same scale and seed"
    };
    Some(Finding::new(
        severity,
        observed,
        format!(
            "caution above {} of an operation, unless documents are deleted; invalid when one that was loaded is gone",
            percent(MISSES)
        ),
        advice,
    ).weighing(most))
}

/// Whether this phase or an earlier one deleted documents or let them expire. The popularity of keys decides which of
/// them are requested afterwards, and how often. A single key that gets half of the requests explains that half.
fn removes(scene: &Scene<'_>) -> bool {
    let until = scene.trial.phases.iter().position(|p| std::ptr::eq(p, scene.phase)).unwrap_or(0);
    scene.trial.phases.iter().take(until + 1).any(|phase| removed(phase, |op| op.documents.max(op.succeeded) > 0))
}

#[cfg(test)]
mod tests {
    use crate::validity::testing::{CAUTION, NOTE, PASS, closed, severity};

    #[test]
    fn misses() {
        let count = 6_000;
        let of = |misses: u64| closed(|p| (p.ops[0].count, p.ops[0].misses) = (count, misses));
        assert_eq!(severity(&of(0), "misses"), PASS);
        assert_eq!(severity(&of(1), "misses"), NOTE);
        assert_eq!(severity(&of(60), "misses"), NOTE);
        assert_eq!(severity(&of(61), "misses"), CAUTION);
        // A trace explains these, but no others.
        let replayed =
            |of_new| closed(|p| (p.ops[0].count, p.ops[0].misses, p.ops[0].misses_of_new) = (count, 61, of_new));
        assert_eq!([61, 1, 0].map(|of_new| severity(&replayed(of_new), "misses")), [NOTE, NOTE, CAUTION]);
        let mut deletes = of(3_000);
        deletes.trials[0].phases[0].ops[1].kind = "delete".into();
        assert_eq!(severity(&deletes, "misses"), NOTE);
        // Few deletes of many documents, of which one gets half of the requests.
        deletes.trials[0].documents = [("books".to_owned(), 1_000_000)].into();
        assert_eq!(severity(&deletes, "misses"), NOTE);
        // Deletes that deleted nothing explain nothing.
        (deletes.trials[0].phases[0].ops[1].documents, deletes.trials[0].phases[0].ops[1].succeeded) = (0, 0);
        assert_eq!(severity(&deletes, "misses"), CAUTION);
    }
}
