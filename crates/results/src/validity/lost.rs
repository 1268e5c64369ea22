//! Documents that were loaded and are missing, although nothing removed them.

use std::iter::once;

use serde_json::Value;
use storebench_study::op_kind::OpKind;

use super::guarantee::allowed;
use crate::{OpResult, PhaseResult, TrialResult};

/// Operations that request one or several documents by key, and do not create missing ones.
const BY_KEY: [&str; 8] = ["read", "exists", "bulk-read", "replace", "append", "prepend", "cas", "merge"];
/// Operations after which a document may legitimately be gone.
const REMOVING: [&str; 3] = ["delete", "bulk-delete", "touch"];

/// Operations of a phase that found no document, or not all of a batch, although each one was loaded, none was deleted
/// or left to expire before the phase ended, and reads see every acknowledged write. `phase` need not be among the
/// trial's own yet.
///
/// It is 0, because nothing can be said, for reads that may be stale, for `latest`, which may request what is not yet
/// acknowledged, and for kept databases that phases delete from.
pub(crate) fn loaded_and_gone(trial: &TrialResult, phase: &PhaseResult) -> u64 {
    let asks_for_the_newest = phase.settings.get("popularity").and_then(|p| p.as_str()).is_none_or(|p| p == "latest");
    if phase.loads || phase.consistency.name != "strong" || asks_for_the_newest {
        return 0;
    }
    let before = || trial.phases.iter().take_while(|earlier| !std::ptr::eq(*earlier, phase));
    let later = || trial.phases.iter().filter(|_| trial.database_kept);
    let may_remove = |phase: &PhaseResult| removes(phase, |op| op.count > 0);
    // The guarantee does not cover the fault: loaded documents may be gone, and the ledger reports that.
    if allowed(trial, phase).is_some() || once(phase).chain(before()).chain(later()).any(may_remove) {
        return 0;
    }
    let loaded = |collection: &str| {
        // Documents that were only sampled belong to somebody else, who may remove them.
        (trial.database_kept && !trial.sampled.contains_key(collection))
            || before().any(|earlier| {
                earlier.loads && earlier.partial.is_none() && earlier.ops.values().any(|op| op.collection == collection)
            })
    };
    let asked = phase.ops.values().filter(|op| BY_KEY.contains(&op.kind.as_str()) && loaded(&op.collection));
    // Documents that a trace inserts were not loaded: another client may ask for them before that.
    asked.map(|op| op.misses.saturating_sub(op.misses_of_new)).sum()
}

/// Whether operations of a phase may have deleted documents or let them expire. `did`: whether an operation did anything.
pub(crate) fn removes(phase: &PhaseResult, did: impl Fn(&OpResult) -> bool) -> bool {
    let is_step = |name: &str| name.starts_with("mix.") && name.ends_with(".steps");
    let deletes = |steps: &Value| {
        let mut steps = steps.as_object().into_iter().flatten();
        // A step without `op` has the name of its operation.
        steps.any(|(name, step)| step.get("op").and_then(Value::as_str).unwrap_or(name) == "delete")
    };
    let of_transactions = phase.settings.iter().any(|(name, steps)| is_step(name) && deletes(steps));
    phase.ops.values().any(|op| {
        (REMOVING.contains(&op.kind.as_str()) || of_transactions && op.kind == OpKind::Transaction.name()) && did(op)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use storebench_study::workload::FaultKind;

    use crate::validity::testing::{CAUTION, INVALID, severity};
    use crate::validity::{exit_code, judge};
    use crate::{FaultResult, RunResult, SampledResult, fixture};

    fn run(change: impl FnOnce(&mut TrialResult)) -> RunResult {
        let mut result = fixture::run_of(&[fixture::load(), fixture::closed_loop()]);
        let trial = &mut result.trials[0];
        let measured = &mut trial.phases[1];
        measured.settings.insert("popularity".into(), "uniform".into());
        measured.consistency.name = "strong".into();
        measured.ops[0].kind = "read".into();
        measured.ops[1].kind = "upsert".into();
        (measured.ops[0].count, measured.ops[0].misses) = (6_000, 1);
        change(trial);
        result.checks = judge(&result);
        result
    }

    #[test]
    fn one_loaded_document_that_is_gone_fails_the_run() {
        let lost = run(|_| ());
        assert_eq!(severity(&lost, "misses"), INVALID);
        assert_eq!(exit_code(&lost), 1);
        let beside_transactions = run(|t| {
            t.phases[1].ops[1].kind = "transaction".into();
            let steps = json!({ "look": { "op": "read" }, "change": { "op": "replace" } });
            t.phases[1].settings.insert("mix.move.steps".into(), steps);
        });
        assert_eq!(severity(&beside_transactions, "misses"), INVALID);
    }

    #[test]
    fn what_may_rightly_be_gone_is_not_lost() {
        let count = |change: &dyn Fn(&mut TrialResult)| {
            let result = run(change);
            assert_ne!(severity(&result, "misses"), INVALID);
            loaded_and_gone(&result.trials[0], &result.trials[0].phases[1])
        };
        assert_eq!(count(&|t| t.phases[1].ops[0].misses = 0), 0);
        assert_eq!(count(&|t| t.phases[1].ops[1].kind = "delete".into()), 0);
        assert_eq!(count(&|t| t.phases[1].ops[0].kind = "page".into()), 0);
        for steps in [json!({ "look": { "op": "read" }, "gone": { "op": "delete" } }), json!({ "delete": {} })] {
            let transactions = |t: &mut TrialResult| {
                t.phases[1].ops[1].kind = "transaction".into();
                t.phases[1].settings.insert("mix.drop.steps".into(), steps.clone());
            };
            assert_eq!(count(&transactions), 0);
        }
        assert_eq!(count(&|t| t.phases[1].consistency.name = "session".into()), 0);
        assert_eq!(count(&|t| t.phases[1].settings["popularity"] = "latest".into()), 0);
        assert_eq!(count(&|t| t.phases[0].loads = false), 0);
        let killed = |t: &mut TrialResult, durability: &str| {
            let fault = FaultResult { what: FaultKind::Kill, began_ns: Some(1), ..FaultResult::default() };
            t.phases[1].faults = vec![fault];
            t.phases[0].durability.name = durability.into();
        };
        assert_eq!(count(&|t| killed(t, "none")), 0);
        let kept = run(|t| killed(t, "fsync"));
        assert_eq!(severity(&kept, "misses"), INVALID);
        assert_eq!(count(&|t| t.phases[0].partial = Some("the disk is full".into())), 0);
    }

    #[test]
    fn an_earlier_trial_loaded_what_is_kept() {
        let kept = run(|t| {
            t.phases.remove(0);
            t.database_kept = true;
        });
        assert_eq!(severity(&kept, "misses"), INVALID);
        let theirs = run(|t| {
            t.phases.remove(0);
            t.database_kept = true;
            t.sampled.insert(t.phases[0].ops[0].collection.clone(), SampledResult::default());
        });
        assert_ne!(severity(&theirs, "misses"), INVALID);
        let unknown = run(|t| {
            t.phases.remove(0);
            t.phases[0].ops[0].misses = 600;
        });
        assert_eq!(severity(&unknown, "misses"), CAUTION);
        assert_eq!(exit_code(&unknown), 0);
    }
}
