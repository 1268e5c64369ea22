//! What a check is, what it looks at, and what it finds.

use super::model::{CheckResult, Severity};
use crate::configurations::{Configuration, configuration_of, configurations_of};
use crate::{PhaseResult, RunResult, TrialResult};

/// A named check: all that the list and the running of it need. What it means is told in `checks/page.md`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Check {
    /// Its name in checks and on the page.
    pub(super) name: &'static str,
    /// What it means for the result where it does not pass, in a few plain words.
    pub(super) short: &'static str,
    /// What it looks at.
    pub(super) looks: &'static [Looks],
    /// Whether warm-ups are judged too: they are no result, but what they lose is lost.
    pub(super) warm_ups: bool,
    /// Whether the answer itself hangs on it, and not only how exact it is: the headline then says what was seen.
    pub(super) of_the_answer: bool,
}

impl Check {
    pub(super) const fn new(name: &'static str, short: &'static str, looks: &'static [Looks]) -> Self {
        Self { name, short, looks, warm_ups: false, of_the_answer: false }
    }

    pub(super) const fn and_of_warm_ups(self) -> Self {
        Self { warm_ups: true, ..self }
    }

    pub(super) const fn for_the_answer(self) -> Self {
        Self { of_the_answer: true, ..self }
    }
}

/// What a check looks at, and the function that does. One that has no meaning here gives nothing.
#[derive(Debug, Clone, Copy)]
pub(super) enum Looks {
    /// The run as a whole: what was compared, beside each other.
    Configurations(fn(&Configurations<'_>) -> Vec<Finding>),
    /// One store measured once.
    Trial(fn(&RunResult, &TrialResult) -> Option<Finding>),
    /// One phase of it.
    Phase(fn(&Scene<'_>) -> Option<Finding>),
}

/// What a check of a phase looks at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) result: &'a RunResult,
    pub(super) trial: &'a TrialResult,
    pub(super) phase: &'a PhaseResult,
}

impl Scene<'_> {
    /// The phase is what the study wants to know of operations: no load, no warm-up, and no copy, which asks for
    /// each document once and ends when all are moved.
    pub(super) fn measures(&self) -> bool {
        !self.phase.loads && !self.phase.warm_up && self.phase.tasks.is_none()
    }

    /// The store's own scheme, without decorators.
    pub(super) fn scheme(&self) -> &str {
        let scheme = self.trial.url.split(':').next().unwrap_or_default();
        scheme.rsplit('+').next().unwrap_or_default()
    }

    /// Operations that ended.
    pub(super) fn operations(&self) -> f64 {
        self.phase.ops.values().map(|op| op.count as f64).sum()
    }
}

/// The configurations of a run.
#[derive(Debug, Clone)]
pub(super) struct Configurations<'a> {
    pub(super) result: &'a RunResult,
    pub(super) configurations: Vec<Configuration<'a>>,
}

impl<'a> Configurations<'a> {
    pub(super) fn of(result: &'a RunResult) -> Self {
        Self { result, configurations: configurations_of(&result.plan, &result.trials) }
    }
}

/// What a check found, before it is known where.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    pub(super) observed: String,
    pub(super) threshold: String,
    pub(super) advice: String,
}

impl Finding {
    /// The advice goes with every severity but *pass*.
    pub(super) fn new(
        severity: Severity,
        observed: impl Into<String>,
        threshold: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let advice = if severity == Severity::Pass { String::new() } else { advice.into() };
        Self { severity, observed: observed.into(), threshold: threshold.into(), advice }
    }

    /// The check, now that it is known where.
    pub(super) fn at(self, check: &str, trial: Option<&TrialResult>, phase: Option<&PhaseResult>) -> CheckResult {
        CheckResult {
            check: check.to_owned(),
            severity: self.severity,
            observed: self.observed,
            threshold: self.threshold,
            advice: self.advice,
            trial: trial.map(|t| t.trial),
            store: trial.map(|t| t.store.clone()),
            configuration: trial.map(|t| configuration_of(t).to_owned()),
            phase: phase.map(|p| p.name.clone()),
        }
    }
}

/// The first few of a list, and how many more there are: a study may have hundreds of configurations.
pub(super) fn some(texts: &[String]) -> String {
    const MOST: usize = 4;
    let mut out = texts.iter().take(MOST).cloned().collect::<Vec<_>>().join("; ");
    if texts.len() > MOST {
        out += &format!("; and {} more", texts.len() - MOST);
    }
    out
}
