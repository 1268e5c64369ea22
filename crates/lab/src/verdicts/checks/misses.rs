//! `misses`: did operations find nothing where documents should have been?

use crate::human::{count, percent};
use crate::verdicts::check::{Check, Finding, Group, Looks, Scene};
use crate::verdicts::lost::loaded_and_gone;
use crate::verdicts::model::Level;

pub(super) const CHECK: Check = Check {
    name: "misses",
    short: "documents were not found",
    group: Group::Answers,
    page,
    looks: &[Looks::Phase(look)],
    warm_ups: false,
    of_the_answer: false,
};

/// Share of operations that find nothing.
const MISSES: f64 = 0.01;

fn page() -> String {
    format!(
        "Above {misses} of an operation's: caution; fewer: note. A note at most where this or an earlier phase
deletes documents or lets them expire. What to do: load the collection whole before the phase, at the same scale and
seed. One miss of an operation by key is **invalid, exit code 1**, where the documents were loaded, none was deleted or
let expire, and reads see every acknowledged write (`strong`): the store has lost what it acknowledged.",
        misses = percent(MISSES)
    )
}

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
    let most = worst.as_ref().map_or(0.0, |(share, _)| *share);
    let removed = removed_share(scene);
    let removes = removed > 0.0;
    let gone = loaded_and_gone(scene.trial, scene.phase);
    let level = match () {
        () if gone > 0 => Level::Invalid,
        () if missed == 0.0 => Level::Pass,
        () if most > MISSES + removed => Level::Caution,
        () => Level::Note,
    };
    let mut saw = format!("{} of {} operations found no document", count(missed as u64), count(operations as u64));
    if let Some((most, name)) = worst.filter(|_| missed > 0.0) {
        saw += &format!(" ({}; of {name} {})", percent(share), percent(most));
    }
    let advice = if gone > 0 {
        "the documents were loaded and nothing took them away: the store did not keep what it acknowledged; look for \
         eviction, expiry and limits of memory in its settings, and at what else writes there"
    } else if removes && level < Level::Caution {
        "documents were deleted or expired, so misses are to be expected; they are not counted as successes"
    } else {
        "keys were asked for that are not there: load the collection whole before this phase, at the same scale and seed"
    };
    Some(Finding::new(
        level,
        saw,
        format!(
            "caution above {} of an operation, unless documents are deleted; invalid when one that was loaded is gone",
            percent(MISSES)
        ),
        advice,
    ))
}

/// The share of the trial's documents that this phase and earlier ones deleted or let expire, at most: so many attempts may
/// find nothing. All of them where nobody knows how many there are.
fn removed_share(scene: &Scene<'_>) -> f64 {
    let until = scene.trial.phases.iter().position(|p| std::ptr::eq(p, scene.phase)).unwrap_or(0);
    let removing = |kind: &str| matches!(kind, "delete" | "bulk-delete" | "touch");
    let ops = scene.trial.phases.iter().take(until + 1).flat_map(|p| p.ops.values());
    let removed: u64 = ops.filter(|op| removing(&op.kind)).map(|op| op.documents.max(op.succeeded)).sum();
    let there: u64 = scene.trial.documents.values().sum();
    match (removed, there) {
        (0, _) => 0.0,
        (_, 0) => 1.0,
        (removed, there) => (removed as f64 / there as f64).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use crate::verdicts::testing::{CAUTION, NOTE, PASS, closed, level};

    #[test]
    fn misses() {
        let count = 6_000;
        let of = |misses: u64| closed(|p| (p.ops[0].count, p.ops[0].misses) = (count, misses));
        assert_eq!(level(&of(0), "misses"), PASS);
        assert_eq!(level(&of(1), "misses"), NOTE);
        assert_eq!(level(&of(60), "misses"), NOTE);
        assert_eq!(level(&of(61), "misses"), CAUTION);
        let mut deletes = of(3_000);
        deletes.trials[0].phases[0].ops[1].kind = "delete".into();
        assert_eq!(level(&deletes, "misses"), NOTE);
        // A thousand of a million explain no half.
        deletes.trials[0].documents = [("books".to_owned(), 1_000_000)].into();
        assert_eq!(level(&deletes, "misses"), CAUTION);
    }
}
