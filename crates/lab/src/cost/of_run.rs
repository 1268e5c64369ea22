//! What the arms of a run cost: which of their figures are priced.

use super::{ArmCostInput, CostResult, PriceSheet, UsageCost};
use crate::arms::arm_of;
use crate::figures::{COST, DISK, Figure, RATE_WITHIN_LIMITS, THROUGHPUT};
use crate::results::{ArmResult, PhaseResult, RunResult, TrialResult};

/// The cost of every arm of a run. Operations are those of its last measured phase. The rate within the limits is the
/// one that was searched for, or the throughput of a phase whose limits held in every trial.
pub fn cost_of_run(sheet: &PriceSheet, result: &RunResult) -> CostResult {
    let phase = result.trials.iter().find_map(|trial| trial.phases.iter().rfind(|p| !p.loads && !p.warm_up));
    let Some(phase) = phase.or_else(|| result.trials.iter().find_map(|t| t.phases.last())) else {
        return CostResult::of(sheet.clone(), &[], None);
    };
    let inputs: Vec<ArmCostInput> = result.arms.iter().filter_map(|arm| input(result, arm, &phase.name)).collect();
    let mut limits: Vec<String> = phase.limits.iter().map(|limit| limit.path.clone()).collect();
    limits.dedup();
    let limit = (!limits.is_empty()).then(|| limits.join(" and "));
    let mut cost = CostResult::of(sheet.clone(), &inputs, limit);
    cost.notes.push(format!("operations are those of the phase `{}`", phase.name));
    cost
}

/// Money for a million operations in one trial, by the prices that its run was given: a figure `PHASE.cost`.
pub fn cost_figure(result: &RunResult, trial: &TrialResult) -> Option<Figure> {
    let cost = result.cost.as_ref()?.arms.iter().find(|cost| cost.arm == arm_of(trial))?;
    let phase = trial.phases.iter().rfind(|p| !p.loads && !p.warm_up).or(trial.phases.last())?;
    let per_s: f64 = phase.ops.values().map(|op| op.throughput_per_s).sum();
    let usage = cost.usage.as_ref().map_or(0.0, UsageCost::per_million);
    let value = cost.per_hour.without_clients / (per_s * 3_600.0) * 1e6 + usage;
    let phase = phase.name.clone();
    (value.is_finite() && value > 0.0).then_some(Figure { phase, op: None, measure: COST, value })
}

fn input(result: &RunResult, arm: &ArmResult, phase: &str) -> Option<ArmCostInput> {
    let figure = |measure: &str| arm.figures.get(&format!("{phase}.{measure}")).map(|f| f.figure);
    let trials = || result.trials.iter().filter(|trial| arm_of(trial) == arm.arm);
    let phases: Vec<&PhaseResult> = trials().flat_map(|t| &t.phases).filter(|p| p.name == phase).collect();
    let throughput_per_s = figure(THROUGHPUT.name)?;
    let searched = trials().any(|trial| trial.searches.iter().any(|search| search.phase == phase));
    let limited = phases.iter().any(|p| !p.limits.is_empty());
    let held = limited && phases.iter().all(|p| p.limits.iter().all(|limit| limit.held));
    let within_limit_per_s = if searched { figure(RATE_WITHIN_LIMITS.name) } else { held.then_some(throughput_per_s) };
    let operations: u64 = phases.iter().flat_map(|p| p.ops.values()).map(|op| op.succeeded).sum();
    let bytes = |pick: fn(&crate::results::OpResult) -> u64| {
        let all: u64 = phases.iter().flat_map(|p| p.ops.values()).map(pick).sum();
        (operations > 0).then(|| all as f64 / operations as f64)
    };
    Some(ArmCostInput {
        store: arm.store.clone(),
        arm: arm.arm.clone(),
        throughput_per_s,
        within_limit_per_s,
        disk_bytes: figure(DISK.name).map(|disk| disk.value as u64),
        read_bytes_per_op: bytes(|op| op.read_bytes),
        written_bytes_per_op: bytes(|op| op.written_bytes),
    })
}
