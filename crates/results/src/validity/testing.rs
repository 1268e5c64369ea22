//! Shared by the tests of all checks: runs without problems, and the results of one check.

use super::{CheckResult, Severity, judge};
use crate::{PhaseResult, RunResult, TrialResult, fixture};

pub(super) const PASS: Option<Severity> = Some(Severity::Pass);
pub(super) const NOTE: Option<Severity> = Some(Severity::Note);
pub(super) const CAUTION: Option<Severity> = Some(Severity::Caution);
pub(super) const INVALID: Option<Severity> = Some(Severity::Invalid);

/// A run without problems that has one open-loop phase, changed by `change`.
pub(super) fn open(change: impl FnOnce(&mut PhaseResult)) -> RunResult {
    let mut result = fixture::run_of(&[fixture::open_loop()]);
    change(&mut result.trials[0].phases[0]);
    result
}

/// The same in closed loop.
pub(super) fn closed(change: impl FnOnce(&mut PhaseResult)) -> RunResult {
    let mut result = fixture::run_of(&[fixture::closed_loop()]);
    let phase = &mut result.trials[0].phases[0];
    for op in phase.ops.values_mut() {
        op.errors = 0;
    }
    change(phase);
    result
}

/// A load, changed by `change`.
pub(super) fn load(change: impl FnOnce(&mut PhaseResult)) -> RunResult {
    let mut result = fixture::run_of(&[fixture::load()]);
    change(&mut result.trials[0].phases[0]);
    result
}

/// The run with a store on a machine of its own.
pub(super) fn separate(mut result: RunResult) -> RunResult {
    let trial = &mut result.trials[0];
    trial.embedded = false;
    trial.url = "couch://db.example.org/x".into();
    result
}

/// Two configurations that did the same work, a load and a closed loop; the second changed by `change`.
pub(super) fn two_configurations(change: impl FnOnce(&mut TrialResult)) -> RunResult {
    let mut result = fixture::run_of(&[fixture::load(), fixture::closed_loop()]);
    let trial = &mut result.trials[0];
    for op in trial.phases.iter_mut().flat_map(|phase| phase.ops.values_mut()) {
        op.errors = 0;
    }
    let mut other = trial.clone();
    trial.configuration = "one".into();
    (other.trial, other.configuration) = (2, "other".into());
    change(&mut other);
    result.trials.push(other);
    result
}

/// The results of one check.
pub(super) fn all(result: &RunResult, check: &str) -> Vec<CheckResult> {
    let found: Vec<CheckResult> = judge(result).into_iter().filter(|v| v.check == check).collect();
    for v in &found {
        assert!(!v.observed.is_empty() && !v.threshold.is_empty(), "{v:?}");
        assert_eq!(v.advice.is_empty(), v.severity == Severity::Pass, "{v:?}");
    }
    found
}

/// The worst severity of one check.
pub(super) fn severity(result: &RunResult, check: &str) -> Option<Severity> {
    all(result, check).into_iter().map(|v| v.severity).max()
}
