//! What a check is, what it examines, and what it finds.

use super::model::CheckResult;
pub(super) use super::model::Severity;
use crate::configurations::{Trials, configurations_of};
use crate::environment::Environment;
use crate::human::{first_of, percent};
use crate::{PhaseResult, RunResult, TrialResult};

/// A named check, with everything that is needed to list and run it. `checks/page.md` explains what it means.
#[derive(Debug, Clone, Copy)]
pub(super) struct Check {
    /// Its name in results and on the page.
    pub(super) name: &'static str,
    /// What it means for the result if it does not pass, in a few plain words.
    pub(super) short: &'static str,
    /// What it examines.
    pub(super) looks: &'static [Looks],
    /// Whether warm-ups are checked too. They are not results, but data that they lose is lost.
    pub(super) warm_ups: bool,
    /// Whether the answer itself depends on it, not only its accuracy. The headline then says what was observed.
    pub(super) of_the_answer: bool,
    /// Whether it is about the client. In a merged run, each part's client is checked, and the worst finding counts.
    pub(super) of_each_client: bool,
}

impl Check {
    pub(super) const fn new(name: &'static str, short: &'static str, looks: &'static [Looks]) -> Self {
        Self { name, short, looks, warm_ups: false, of_the_answer: false, of_each_client: false }
    }

    pub(super) const fn and_of_warm_ups(self) -> Self {
        Self { warm_ups: true, ..self }
    }

    pub(super) const fn of_each_client(self) -> Self {
        Self { of_each_client: true, ..self }
    }

    pub(super) const fn for_the_answer(self) -> Self {
        Self { of_the_answer: true, ..self }
    }
}

/// What a check examines, and the function that does so. A check that does not apply returns nothing.
#[derive(Debug, Clone, Copy)]
pub(super) enum Looks {
    /// The run as a whole, with its configurations.
    Configurations(fn(&Configurations<'_>) -> Vec<Finding>),
    /// One trial.
    Trial(fn(&RunResult, &TrialResult) -> Option<Finding>),
    /// One phase of a trial.
    Phase(fn(&Scene<'_>) -> Option<Finding>),
}

/// What a check of a phase examines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) result: &'a RunResult,
    pub(super) trial: &'a TrialResult,
    pub(super) phase: &'a PhaseResult,
    /// The client's machine.
    pub(super) environment: &'a Environment,
}

impl Scene<'_> {
    /// Whether the phase measures operations. It is then not a load, a warm-up or a copy, which requests each document
    /// once and ends when all are moved.
    pub(super) fn measures(&self) -> bool {
        !self.phase.loads && !self.phase.warm_up && self.phase.tasks.is_none()
    }

    /// Whether it loads collections that have no documents, as those of a trace that inserts them all.
    pub(super) fn loads_nothing(&self) -> bool {
        let is_empty = |collection: &str| self.trial.documents.get(collection) == Some(&0);
        self.phase.loads && self.phase.partial.is_none() && self.phase.ops.values().all(|op| is_empty(&op.collection))
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
    pub(super) configurations: Vec<Trials<'a>>,
}

impl<'a> Configurations<'a> {
    pub(super) fn of(result: &'a RunResult) -> Self {
        Self { result, configurations: configurations_of(&result.plan, &result.trials) }
    }
}

/// What a check found, without the place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    pub(super) observed: String,
    pub(super) threshold: String,
    pub(super) advice: String,
    /// How bad it is among findings of this check: more is worse.
    pub(super) weight: Option<f64>,
}

impl Finding {
    /// The finding with its weight.
    pub(super) fn weighing(self, weight: f64) -> Self {
        Self { weight: Some(weight).filter(|weight| weight.is_finite()), ..self }
    }

    /// A finding with advice, which is dropped if the severity is *pass*.
    pub(super) fn new(
        severity: Severity,
        observed: impl Into<String>,
        threshold: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let advice = if severity == Severity::Pass { String::new() } else { advice.into() };
        Self { severity, observed: observed.into(), threshold: threshold.into(), advice, weight: None }
    }

    /// The result of the check, with the place.
    pub(super) fn at(self, check: &str, trial: Option<&TrialResult>, phase: Option<&PhaseResult>) -> CheckResult {
        CheckResult {
            check: check.to_owned(),
            severity: self.severity,
            observed: self.observed,
            threshold: self.threshold,
            advice: self.advice,
            weight: self.weight,
            trial: trial.map(|t| t.trial),
            store: trial.map(|t| t.store.clone()),
            configuration: trial.map(|t| t.configuration.clone()),
            phase: phase.map(|p| p.name.clone()),
        }
    }
}

/// The severity of a share by its thresholds, and these in words.
pub(super) fn above(share: f64, (caution, invalid): (f64, f64)) -> (Severity, String) {
    let severity = match share {
        _ if share > invalid => Severity::Invalid,
        _ if share > caution => Severity::Caution,
        _ => Severity::Pass,
    };
    (severity, format!("caution above {}, invalid above {}", percent(caution), percent(invalid)))
}

/// The worst of several figures, with how many there are: a study may have hundreds.
pub(super) fn worst_of(mut figures: Vec<(f64, String)>) -> Option<String> {
    figures.sort_by(|a, b| b.0.total_cmp(&a.0));
    let n = figures.len();
    let (_, worst) = figures.into_iter().next()?;
    Some(if n > 1 { format!("{n} figures; the worst: {worst}") } else { worst })
}

/// The first few texts of a list, and how many more there are: a study may have hundreds of configurations.
pub(super) fn some(texts: &[String]) -> String {
    first_of(texts.iter().cloned(), 4, |more| format!("and {more} more")).join("; ")
}
