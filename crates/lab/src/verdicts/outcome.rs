//! Did operations do what was asked?

use super::judge::{Finding, Scene};
use super::model::Level;
use crate::human::{count, percent};
use crate::results::TrialResult;

/// Share of operations that find nothing.
const MISSES: f64 = 0.01;

const READS: [&str; 6] = ["read", "bulk-read", "page", "prefix", "scan", "view"];

/// Whether the phase ended before its time.
pub(super) fn partial_run(scene: &Scene<'_>) -> Option<Finding> {
    let why = scene.phase.partial.as_ref()?;
    Some(Finding::new(
        Level::Caution,
        format!("the phase ended early: {why}"),
        "caution when a phase ends early",
        "what was measured until then is kept; run again for the whole",
    ))
}

/// Whether the trial ended before its last phase.
pub(super) fn failed_trial(trial: &TrialResult) -> Option<Finding> {
    let failure = trial.failure.as_ref()?;
    Some(Finding::new(
        Level::Caution,
        format!("the trial ended early, in {}: {}", failure.during, failure.message),
        "caution when a trial ends early",
        "what was measured until then is kept; remove the cause and run again",
    ))
}

/// Whether what was acknowledged is still there.
pub(super) fn lost_writes(scene: &Scene<'_>) -> Option<Finding> {
    let ledger = scene.phase.ledger.as_ref()?;
    let level = if ledger.lost > 0 || ledger.unverifiable > 0 { Level::Invalid } else { Level::Pass };
    Some(Finding::new(
        level,
        format!(
            "of {} keys written and followed {} confirmed, {} lost, {} could not be read",
            count(ledger.keys),
            count(ledger.confirmed),
            count(ledger.lost),
            count(ledger.unverifiable)
        ),
        "invalid when a single acknowledged write is lost or cannot be verified",
        "the store did not keep what it acknowledged: see `ledger.examples`, and compare with the durability that was promised",
    ))
}

/// Whether documents read back were the documents written.
pub(super) fn wrong_content(scene: &Scene<'_>) -> Option<Finding> {
    let mut reads = scene.phase.ops.values().filter(|op| READS.contains(&op.kind.as_str())).peekable();
    let any_reads = reads.peek().is_some();
    let (checked, wrong) = scene
        .phase
        .ops
        .values()
        .fold((0u64, 0u64), |(c, w), op| (c.saturating_add(op.checked), w.saturating_add(op.wrong)));
    if !any_reads && checked == 0 {
        return None;
    }
    let theirs = |name: &str| scene.result.documents.iter().any(|c| c.collection == name && c.existing.is_some());
    if checked == 0 && scene.phase.ops.values().all(|op| theirs(&op.collection)) {
        return Some(Finding::new(
            Level::Note,
            "documents that Storebench did not make were read, and not compared",
            "invalid from one wrong document; note when none was checked",
            "only who made them knows what they should be: check them by other means",
        ));
    }
    let (level, saw, advice) = match (checked, wrong) {
        (_, 1..) => (
            Level::Invalid,
            format!("{} of {} checked documents differ from what was written", count(wrong), count(checked)),
            "the store returned other data than it was given: see `wrong_examples`; no figure of this run counts",
        ),
        (0, _) => (
            Level::Note,
            "no document that was read was compared with what it should be".to_owned(),
            "set `check` above 0, or run longer, to know that the store returns what it was given",
        ),
        _ => (Level::Pass, format!("{} documents checked, none wrong", count(checked)), ""),
    };
    Some(Finding::new(level, saw, "invalid from one wrong document; note when none was checked", advice))
}

/// Whether operations failed.
pub(super) fn errors(scene: &Scene<'_>) -> Option<Finding> {
    let operations = scene.operations();
    if operations == 0.0 {
        // Nothing ended: everything due is censored, or nothing was sent.
        return Some(Finding::new(
            Level::Invalid,
            "no operation ended",
            "invalid when no operation ends",
            "nothing was measured: lengthen the phase, or see why the store does not answer",
        ));
    }
    let failed: f64 = scene.phase.ops.values().map(|op| op.errors as f64).sum();
    let hopeless: Vec<&str> = scene
        .phase
        .ops
        .iter()
        .filter(|(_, op)| op.count > 0 && op.errors >= op.count)
        .map(|(name, _)| name.as_str())
        .collect();
    let unanswered: Vec<&str> = scene
        .phase
        .ops
        .iter()
        .filter(|(_, op)| op.count == 0 && op.censored > 0)
        .map(|(name, _)| name.as_str())
        .collect();
    let level = match () {
        () if !hopeless.is_empty() => Level::Invalid,
        () if failed > 0.0 || !unanswered.is_empty() => Level::Caution,
        () => Level::Pass,
    };
    let mut saw = format!("{} of {} operations failed", count(failed as u64), count(operations as u64));
    if failed > 0.0 {
        saw += &format!(" ({})", percent(failed / operations));
    }
    if !hopeless.is_empty() {
        saw += &format!("; every {} failed", hopeless.join(" and "));
    }
    if !unanswered.is_empty() {
        saw += &format!("; no {} was answered", unanswered.join(" and no "));
    }
    if scene.phase.unknown_outcomes > 0 {
        let n = scene.phase.unknown_outcomes;
        saw += &format!("; {} write{} may or may not have been done", count(n), if n == 1 { "" } else { "s" });
    }
    if let Some(message) = scene.phase.messages.iter().max_by_key(|m| m.count) {
        saw += &format!("; most often: {}", message.message);
    }
    Some(Finding::new(
        level,
        saw,
        "caution from one failure, or when none of one kind is answered; invalid when all of one kind fail",
        "percentiles hold for the operations that succeeded: count a failure as infinitely slow when you judge the store",
    ))
}

/// Whether operations found nothing where there should have been documents.
pub(super) fn misses(scene: &Scene<'_>) -> Option<Finding> {
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
    let removes = removed_before(scene);
    let level = match () {
        () if missed == 0.0 => Level::Pass,
        () if most > MISSES && !removes => Level::Caution,
        () => Level::Note,
    };
    let mut saw = format!("{} of {} operations found no document", count(missed as u64), count(operations as u64));
    if let Some((most, name)) = worst.filter(|_| missed > 0.0) {
        saw += &format!(" ({}; of {name} {})", percent(share), percent(most));
    }
    let advice = if removes {
        "documents were deleted or expired, so misses are to be expected; they are not counted as successes"
    } else {
        "keys were asked for that are not there: load the collection whole before this phase, at the same scale and seed"
    };
    Some(Finding::new(
        level,
        saw,
        format!("caution above {} of an operation, unless documents are deleted", percent(MISSES)),
        advice,
    ))
}

/// Whether this phase or an earlier one of the trial deletes documents or lets them expire.
fn removed_before(scene: &Scene<'_>) -> bool {
    let until = scene.trial.phases.iter().position(|p| std::ptr::eq(p, scene.phase)).unwrap_or(0);
    scene
        .trial
        .phases
        .iter()
        .take(until + 1)
        .flat_map(|p| p.ops.values())
        .any(|op| matches!(op.kind.as_str(), "delete" | "bulk-delete" | "touch"))
}
