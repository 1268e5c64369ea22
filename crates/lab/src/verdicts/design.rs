//! Was enough measured?

use super::judge::{Finding, Scene};
use super::model::Level;
use crate::human::{count, duration};
use crate::results::RunResult;

/// A measured phase, in ns.
const LONG_ENOUGH_NS: f64 = 10e9;
const ENOUGH_OPERATIONS: f64 = 1_000.0;
/// Values that a percentile should have beyond it.
const ENOUGH_BEYOND: f64 = 100.0;

/// Whether the phase was long enough for its figures.
pub(super) fn too_short(scene: &Scene<'_>) -> Option<Finding> {
    if !scene.measures() {
        return None;
    }
    let (sent_ns, operations) = (scene.phase.sending_ns as f64, scene.operations());
    let mut saw = format!("{}, {} operations", duration(sent_ns), count(operations as u64));
    // The kind with the fewest values has the weakest tail.
    let rarest = scene
        .phase
        .ops
        .iter()
        .map(|(name, op)| (op.response_ns.unwrap_or(op.service_ns).count as f64 / 1_000.0, name))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let weak_tail = rarest.filter(|(beyond, _)| *beyond < ENOUGH_BEYOND);
    if let Some((beyond, name)) = &weak_tail {
        saw += &format!("; {:.0} values of {name} lie beyond its p99.9", beyond.floor());
    }
    let (level, advice) = if sent_ns < LONG_ENOUGH_NS - 1e6 || operations < ENOUGH_OPERATIONS {
        (
            Level::Caution,
            "caches, flushes and compactions have barely begun: lengthen the phase, to minutes where the store writes",
        )
    } else if weak_tail.is_some() {
        (Level::Note, "p99.9 and beyond rest on few values: lengthen the phase before you compare them")
    } else {
        (Level::Pass, "")
    };
    Some(Finding::new(
        level,
        saw,
        format!(
            "caution below 10 s or {} operations; note below {} values beyond p99.9",
            count(ENOUGH_OPERATIONS as u64),
            count(ENOUGH_BEYOND as u64)
        ),
        advice,
    ))
}

/// Whether there is a spread to see.
pub(super) fn single_run(result: &RunResult) -> Finding {
    let repeats = result.plan.repeats.max(1);
    let level = if repeats == 1 { Level::Note } else { Level::Pass };
    Finding::new(
        level,
        format!("{} repeat{}", count(repeats.into()), if repeats == 1 { "" } else { "s" }),
        "note at 1 repeat",
        "one run shows no spread: set `repeats` to 3 or more before you call a difference real",
    )
}
