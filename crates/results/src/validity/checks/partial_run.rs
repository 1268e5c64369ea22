//! `partial-run`: did a phase or a trial end early?

use crate::validity::check::{Check, Finding, Looks, Scene, Severity};
use crate::{RunResult, TrialResult};

pub(super) const CHECK: Check =
    Check::new("partial-run", "the run is incomplete", &[Looks::Trial(trial), Looks::Phase(phase)]).and_of_warm_ups();

/// Whether the phase ended early.
fn phase(scene: &Scene<'_>) -> Option<Finding> {
    let why = scene.phase.partial.as_ref()?;
    Some(Finding::new(
        Severity::Caution,
        format!("the phase ended early: {why}"),
        "caution when a phase ends early",
        "the figures up to then are kept; run again for a complete result",
    ))
}

/// Whether the trial ended before its last phase.
fn trial(_: &RunResult, trial: &TrialResult) -> Option<Finding> {
    let failure = trial.failure.as_ref()?;
    Some(Finding::new(
        Severity::Caution,
        format!("the trial ended early, in {}: {}", failure.during, failure.message),
        "caution when a trial ends early",
        "the figures up to then are kept; remove the cause and run again",
    ))
}

#[cfg(test)]
mod tests {
    use crate::Failure;
    use crate::validity::testing::{CAUTION, all, closed, severity};

    #[test]
    fn what_ended_early_says_so() {
        assert_eq!(severity(&closed(|_| ()), "partial-run"), None);
        assert_eq!(severity(&closed(|p| p.partial = Some("interrupted".into())), "partial-run"), CAUTION);
    }

    #[test]
    fn a_trial_that_failed_says_where() {
        let mut result = closed(|_| ());
        result.trials[0].failure =
            Some(Failure { during: "mixed".into(), message: "the disk is full".into(), ..Failure::default() });
        assert_eq!(all(&result, "partial-run")[0].observed, "the trial ended early, in mixed: the disk is full");
    }
}
