//! Going on with a run that broke off: what is kept of it, and whether it is the same run.

use std::path::Path;

use super::error::LabError;
use crate::arms::is_whole;
use crate::plan::Plan;
use crate::results::{RunInfo, TrialResult, read_run};

/// What an earlier process left of a run.
pub(super) struct Before {
    /// Its trials that ended whole.
    pub(super) trials: Vec<TrialResult>,
    /// When it began.
    pub(super) began: String,
    /// When it was gone on with before.
    pub(super) resumed: Vec<String>,
}

/// Reads what a run folder holds of the run that is asked for now.
///
/// # Errors
/// It cannot be read, is another run, or has nothing left to do.
pub(super) fn open(folder: &Path, now: &RunInfo, plan: &Plan) -> Result<Before, LabError> {
    let found = read_run(folder)?;
    let refuse = |what: String| LabError::BadInput(format!("--resume {}: {what}", folder.display()));
    let mut differs = Vec::new();
    for (name, same) in [
        ("the study", found.run.study == now.study),
        ("--scale", found.run.scale == now.scale),
        ("--set or --preset", found.run.overrides == now.overrides),
        ("the stores or the order of trials", found.plan.trials == plan.trials),
        ("the version of Storebench", found.run.storebench_version == now.storebench_version),
        ("how documents are made", found.run.frozen == now.frozen),
    ] {
        if !same {
            differs.push(name);
        }
    }
    if !differs.is_empty() {
        return Err(refuse(format!(
            "that run was another one: {} differ; give what it was begun with, or begin a new run without --resume",
            differs.join(", ")
        )));
    }
    let phases_of = |trial: &TrialResult| {
        let loaded = |name: &str| plan.phases.iter().any(|p| p.name == name && p.loads);
        let wanted = plan.phases.iter().filter(|p| !(trial.database_kept && loaded(&p.name))).count();
        trial.phases.len() >= wanted
    };
    let trials: Vec<TrialResult> =
        found.trials.into_iter().filter(|trial| is_whole(trial) && phases_of(trial)).collect();
    if trials.len() == plan.trials.len() {
        return Err(refuse("every trial of it ended whole; there is nothing to go on with".into()));
    }
    Ok(Before { trials, began: found.run.began, resumed: found.run.resumed })
}
