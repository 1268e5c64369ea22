//! What follows from the trials of a run.

use storebench_study::workload::Claim;

use crate::RunResult;
use crate::claims::judge_claims;
use crate::configurations::{over_trials, sweeps_of};
use crate::cost::cost_of_run;
use crate::validity::judge;

/// Fills in what a result says of its trials: configurations, sweeps, cost, checks, and the checks on what was published. What
/// it said before is replaced.
pub fn conclude(published: &[Claim], result: &mut RunResult) {
    result.configurations = over_trials(&result.plan, &result.trials);
    result.sweeps = sweeps_of(result);
    result.cost = result.cost.take().map(|cost| cost_of_run(&cost.sheet, result));
    result.checks = judge(result);
    // Behind the checks: what was measured badly decides no claim.
    result.claims = judge_claims(published, result);
}
