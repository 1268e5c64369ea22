//! Continues an interrupted run: determines what to keep of it, and whether it is the same run.

use std::path::Path;

use storebench_results::configurations::is_whole;
use storebench_results::environment::Environment;
use storebench_results::plan::Plan;
use storebench_results::{Identity, RunInfo, TrialResult, read_run};

use super::error::LabError;
use super::runner::Configuration;

/// What an earlier process left of a run.
pub(super) struct Before {
    /// Its completed trials.
    pub(super) trials: Vec<TrialResult>,
    /// When it began.
    pub(super) began: String,
    /// When it was resumed before.
    pub(super) resumed: Vec<String>,
}

/// Reads the run folder of an earlier process, and checks that it belongs to the requested run.
///
/// # Errors
/// Fails if it cannot be read, belongs to another run, or has nothing left to do.
pub(super) fn open(
    folder: &Path,
    now: &RunInfo,
    plan: &Plan,
    here: &Environment,
    configurations: &[Configuration],
) -> Result<Before, LabError> {
    let found = read_run(folder)?;
    let refuse = |what: String| LabError::BadInput(format!("--resume {}: {what}", folder.display()));
    if found.run.part.is_some() || found.run.parts.is_some() {
        return Err(refuse(
            "it is a part of a run, or merged from parts; run every part again, without --resume".into(),
        ));
    }
    // A run whose intervals were narrow enough has kept only the trials that it needed.
    let trials = plan.trials.iter().take(found.plan.trials.len()).cloned().collect();
    let now = Identity::of(now, &Plan { trials, ..plan.clone() });
    let mut differs: Vec<&str> = now.differences(&Identity::of(&found.run, &found.plan)).collect();
    if machine(&found.environment) != machine(here) {
        differs.push("the machine");
    }
    if !differs.is_empty() {
        return Err(refuse(format!(
            "it is a different run ({} changed); use the original settings, or start a new run without --resume",
            differs.join(", ")
        )));
    }
    let phases_of = |trial: &TrialResult| {
        let wanted = plan.phases_of(trial.configuration.as_str()).filter(|p| !(trial.database_kept && p.loads)).count();
        trial.phases.len() >= wanted
    };
    let trials: Vec<TrialResult> =
        found.trials.into_iter().filter(|trial| is_whole(trial) && phases_of(trial)).collect();
    if trials.len() == found.plan.trials.len() {
        return Err(refuse("all trials are complete; there is nothing left to run".into()));
    }
    let version = |trial: &TrialResult| {
        let now = configurations.iter().find(|of| of.name == trial.configuration);
        let now = now.map_or("", |of| &of.description.version);
        (now != trial.version && !now.is_empty())
            .then(|| format!("version of `{}` was {} and is now {now}", trial.store, trial.version))
    };
    if let Some(other) = trials.iter().find_map(version) {
        return Err(refuse(format!(
            "{other}: trials of different versions are not repeats; use the same version, or start a new run"
        )));
    }
    Ok(Before { trials, began: found.run.began, resumed: found.run.resumed })
}

/// The properties of a machine that make figures incomparable when they change.
fn machine(of: &Environment) -> (Option<&str>, u64, u64, &str) {
    let memory = of.memory_bytes.unwrap_or_default();
    (of.cpu_model.as_deref(), of.cpus_available, memory, &of.kernel)
}
