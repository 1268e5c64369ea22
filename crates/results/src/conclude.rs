//! Derives the results of a run from its trials.

use storebench_study::workload::Claim;

use crate::RunResult;
use crate::claims::judge_claims;
use crate::configurations::{over_trials, sweeps_of};
use crate::cost::cost_of_run;
use crate::validity::judge;

/// Derives configurations, sweeps, cost, checks and claims from the trials. Replaces what was there before.
pub fn conclude(published: &[Claim], result: &mut RunResult) {
    result.configurations = over_trials(&result.plan, &result.trials);
    result.sweeps = sweeps_of(result);
    result.cost = result.cost.take().map(|cost| cost_of_run(&cost.sheet, result));
    result.checks = judge(result);
    // After the checks: a bad measurement decides no claim.
    result.claims = judge_claims(published, result);
}
