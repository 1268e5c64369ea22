//! The trials of a run as claims use them: selected by values and queried for figures.

use std::collections::BTreeSet;

use serde_json::Value;
use storebench_study::workload::{FactorValues, did_you_mean, short_name};

use crate::configurations::is_whole;
use crate::figures::{Better, Figure, of_trial};
use crate::stats::Observed;
use crate::validity::Severity;
use crate::{RunResult, TrialResult};

/// What a value belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// The store.
    Store,
    /// A factor, by its path.
    Factor(String),
}

impl Key {
    /// The trial's value.
    pub(super) fn value(&self, trial: &TrialResult) -> Option<Value> {
        match self {
            Self::Store => Some(Value::from(trial.store.as_str())),
            Self::Factor(path) => trial.values.get(path).cloned(),
        }
    }

    /// As it is shown.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Store => "store",
            Self::Factor(path) => short_name(path),
        }
    }
}

/// Values that select trials, with their factors resolved.
pub(super) type Picked = Vec<(Key, Value)>;

/// A trial that completed.
pub(super) struct WholeTrial<'a> {
    pub(super) trial: &'a TrialResult,
    figures: Vec<Figure>,
}

/// The trials of a run.
pub(super) struct Configurations<'a> {
    result: &'a RunResult,
    /// Trials that completed; the others are in no figure.
    pub(super) whole: Vec<WholeTrial<'a>>,
    factors: BTreeSet<&'a str>,
}

impl<'a> Configurations<'a> {
    pub(super) fn of(result: &'a RunResult) -> Self {
        let whole = result.trials.iter().filter(|trial| is_whole(trial) && !trial.control);
        Self {
            result,
            whole: whole.map(|trial| WholeTrial { trial, figures: of_trial(trial) }).collect(),
            factors: result.trials.iter().flat_map(|trial| trial.values.keys().map(String::as_str)).collect(),
        }
    }

    /// The factor of this path, or of a path that ends with it.
    pub(super) fn key(&self, name: &str) -> Result<Key, String> {
        if name == "store" {
            return Ok(Key::Store);
        }
        if self.factors.contains(name) {
            return Ok(Key::Factor(name.to_owned()));
        }
        let end = format!(".{name}");
        let ending: Vec<&str> = self.factors.iter().copied().filter(|path| path.ends_with(&end)).collect();
        match ending[..] {
            [path] => Ok(Key::Factor(path.to_owned())),
            [] if self.factors.is_empty() => Err(format!("`{name}` was not varied; the run has no factors")),
            [] => {
                let all: Vec<String> = self.factors.iter().map(|path| format!("`{path}`")).collect();
                Err(format!("`{name}` was not varied; the factors of the run are {}", all.join(", ")))
            }
            _ => Err(format!("`{name}` is ambiguous; use {}", ending.join(" or "))),
        }
    }

    /// Resolves the factors of values. An error names a factor that the run does not vary, or values that no
    /// configuration has.
    pub(super) fn picked(&self, values: &FactorValues) -> Result<Picked, String> {
        let picked: Picked =
            values.iter().map(|(name, value)| Ok((self.key(name)?, value.clone()))).collect::<Result<_, String>>()?;
        let some = |trial: &TrialResult| picks(&picked, trial);
        if !self.result.trials.iter().any(some) {
            return Err(format!("no configuration has {}", text(&picked)));
        }
        if !self.whole.iter().any(|whole| some(whole.trial)) {
            let with = if picked.is_empty() { String::new() } else { format!(" with {}", text(&picked)) };
            return Err(format!("no trial{with} completed"));
        }
        Ok(picked)
    }

    /// Values of a factor that ran but have no completed trial.
    pub(super) fn failed_values(&self, key: &Key, at: &Picked) -> Vec<Value> {
        let mut failed: Vec<Value> = Vec::new();
        for value in self.result.trials.iter().filter(|trial| picks(at, trial)).filter_map(|trial| key.value(trial)) {
            let there = |whole: &WholeTrial<'_>| {
                picks(at, whole.trial) && key.value(whole.trial).is_some_and(|l| alike(&l, &value))
            };
            if !self.whole.iter().any(there) && !failed.iter().any(|known| alike(known, &value)) {
                failed.push(value);
            }
        }
        failed
    }

    /// The error for a figure that no trial has, with a suggestion.
    pub(super) fn no_figure(&self, name: &str) -> String {
        let names: BTreeSet<String> =
            self.whole.iter().flat_map(|whole| whole.figures.iter().map(Figure::name)).collect();
        let none = format!("no trial of these configurations has the figure `{name}`");
        match did_you_mean(name, names.iter().map(String::as_str)) {
            Some(near) if near != name => format!("{none}; did you mean `{near}`?"),
            _ => none,
        }
    }

    /// Checks that call a figure of these trials invalid.
    pub(super) fn invalid(&self, name: &str, used: impl Fn(&TrialResult) -> bool) -> Vec<&'a str> {
        let result = self.result;
        let about = |verdict: &&crate::validity::CheckResult| {
            let phase = verdict.phase.as_ref().is_none_or(|phase| begins(name, phase));
            let mut of = self.whole.iter().filter(|whole| verdict.trial.is_none_or(|trial| trial == whole.trial.trial));
            verdict.severity == Severity::Invalid && phase && of.any(|whole| used(whole.trial))
        };
        let checks: BTreeSet<&str> = result.checks.iter().filter(about).map(|verdict| verdict.check.as_str()).collect();
        checks.into_iter().collect()
    }
}

impl WholeTrial<'_> {
    /// A figure by name, and whether more or less is better. A phase with one operation lists its figures under the
    /// phase alone, and omits documents if each operation is one. Both are still found, so that a factor over batches
    /// from 1 on, or over mixes, has its figure at every value.
    ///
    /// The value is `None` if the trial has none: nothing succeeded, or too few attempts were answered.
    pub(super) fn figure(&self, name: &str) -> Option<(Option<Observed>, Better)> {
        let get = |name: &str| {
            let figure = self.figures.iter().find(|figure| figure.name() == name)?;
            Some((figure.observed(self.trial.trial), figure.measure.better))
        };
        let either =
            |name: &str| get(name).or_else(|| get(&format!("{}.throughput", name.strip_suffix(".documents")?)));
        either(name).or_else(|| {
            let phase = self.trial.phases.iter().find(|phase| !phase.warm_up && begins(name, &phase.name))?;
            let (only, _) = phase.ops.first().filter(|_| phase.ops.len() == 1)?;
            let measure = name[phase.name.len() + 1..].strip_prefix(only.as_str())?.strip_prefix('.')?;
            either(&format!("{}.{measure}", phase.name))
        })
    }

    /// The share of attempts within a limit, by its path, and the number of attempts.
    pub(super) fn share_within(&self, path: &str) -> Option<(f64, u64)> {
        let phases = self.trial.phases.iter().filter(|phase| !phase.warm_up);
        let limit = phases.flat_map(|phase| &phase.limits).find(|limit| limit.path == path)?;
        Some((limit.share_within?, limit.attempts))
    }
}

/// Whether a figure's name begins with this phase.
fn begins(name: &str, phase: &str) -> bool {
    name.strip_prefix(phase).is_some_and(|rest| rest.starts_with('.'))
}

/// Whether a trial has all of these values.
pub(super) fn picks(picked: &Picked, trial: &TrialResult) -> bool {
    picked.iter().all(|(key, value)| key.value(trial).is_some_and(|of| alike(&of, value)))
}

/// Whether two values are equal. Numbers are compared by value, however they are written.
pub(super) fn alike(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// `workers = 16, batch = 100`.
pub(super) fn text(picked: &Picked) -> String {
    let all: Vec<String> =
        picked.iter().map(|(key, value)| format!("{} = {}", key.name(), value_text(value))).collect();
    all.join(", ")
}

/// A value in human-readable form.
pub(super) fn value_text(value: &Value) -> String {
    match (value.as_u64(), value.as_f64(), value) {
        (Some(n), ..) => crate::human::count(n),
        (_, Some(n), _) if n == n.trunc() && (0.0..1e15).contains(&n) => crate::human::count(n as u64),
        (.., Value::String(text)) => text.clone(),
        _ => value.to_string(),
    }
}
