//! Summarises configurations over their trials: each figure with its interval, and relative to the first configuration.

use std::collections::BTreeSet;

use indexmap::{IndexMap, IndexSet};
use storebench_study::workload::FactorValues;

use crate::figures::{Better, DOCUMENTS, THROUGHPUT, in_documents, of_trial};
use crate::plan::Plan;
use crate::series::Series;
use crate::stats::Uncertain;
use crate::sweep::{Measured, PRACTICAL, sweep};
use crate::{ConfigurationResult, FactorSweep, PhaseResult, RunResult, TrialResult};

/// Whether a trial completed. Partial trials are in no figure.
pub fn is_whole(trial: &TrialResult) -> bool {
    trial.failure.is_none() && trial.phases.iter().all(|phase| phase.partial.is_none())
}

/// The trials of one configuration.
#[derive(Debug, Clone)]
pub(crate) struct Trials<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its trials, in the order they ran.
    pub trials: Vec<&'a TrialResult>,
    /// The rounds that it shares with the others. `None` if it has not enough rounds to be compared.
    rounds: Option<BTreeSet<u32>>,
}

impl<'a> Trials<'a> {
    /// Its trials that completed.
    pub(crate) fn whole(&self) -> impl Iterator<Item = &'a TrialResult> {
        self.trials.iter().copied().filter(|trial| is_whole(trial))
    }

    /// The trials behind its figures: those that completed, in the rounds that it shares with the others. So the order of
    /// configurations, their figures and their ratios come from the same rounds.
    pub(crate) fn counted(&self) -> impl Iterator<Item = &'a TrialResult> {
        self.whole().filter(|trial| self.rounds.as_ref().is_none_or(|rounds| rounds.contains(&trial.round)))
    }

    /// Whether it completed trials, but has not enough rounds in common with the others to be compared with them.
    pub(crate) fn is_apart(&self) -> bool {
        self.rounds.is_none() && self.whole().next().is_some()
    }
}

/// Lets each configuration count in the rounds that all of them completed. One that never completed a trial does not
/// matter. If the others share more than twice as many rounds without one of them, that one is not compared.
fn share_rounds(configurations: &mut [Trials<'_>]) {
    let mut sharing: Vec<(usize, BTreeSet<u32>)> = Vec::new();
    for (at, of) in configurations.iter_mut().enumerate() {
        of.rounds = None;
        let rounds: BTreeSet<u32> = of.whole().map(|trial| trial.round).collect();
        if !rounds.is_empty() {
            sharing.push((at, rounds));
        }
    }
    loop {
        let mut all = sharing.iter().map(|(_, rounds)| rounds.clone());
        let Some(first) = all.next() else { return };
        let shared = all.fold(first, |shared, rounds| &shared & &rounds);
        let most = sharing.iter().map(|(_, rounds)| rounds.len()).max().unwrap_or(0);
        let enough = match sharing.len() {
            ..=2 => !shared.is_empty(),
            _ => 2 * shared.len() >= most,
        };
        if enough {
            for (at, _) in &sharing {
                configurations[*at].rounds = Some(shared.clone());
            }
            return;
        }
        // Of equals, the last.
        let fewest = (0..sharing.len()).rev().min_by_key(|at| sharing[*at].1.len());
        fewest.map(|at| sharing.remove(at));
    }
}

/// The configurations that were measured, in plan order, since trials run in shuffled order. Those that the plan lacks
/// come last, in the order they ran. The control of the first one is not among them, because it is the same.
pub(crate) fn configurations_of<'a>(plan: &'a Plan, trials: &'a [TrialResult]) -> Vec<Trials<'a>> {
    let planned = plan.configurations.iter().filter(|configuration| !configuration.control);
    let mut configurations: IndexMap<&str, Vec<&TrialResult>> =
        planned.map(|configuration| (configuration.configuration.as_str(), Vec::new())).collect();
    for trial in trials.iter().filter(|trial| !trial.control) {
        configurations.entry(trial.configuration.as_str()).or_default().push(trial);
    }
    configurations.retain(|_, trials| !trials.is_empty());
    let mut all: Vec<Trials<'_>> =
        configurations.into_iter().map(|(name, trials)| Trials { name, trials, rounds: None }).collect();
    // The control counts in the same rounds.
    all.extend(control_among(trials));
    share_rounds(&mut all);
    all.retain(|of| of.trials.iter().all(|trial| !trial.control));
    all
}

/// The end of a control's name, after the name of the configuration that it repeats.
pub const CONTROL: &str = " (control)";

/// The name of the first configuration, and the ratio of each figure of its control to its own. `None` unless both were
/// measured.
pub(crate) fn control_ratios(result: &RunResult) -> Option<(&str, IndexMap<String, Uncertain>)> {
    let control = control_among(&result.trials)?;
    let repeated = control.name.strip_suffix(CONTROL)?;
    let first = configurations_of(&result.plan, &result.trials).into_iter().find(|of| of.name == repeated)?;
    let control = Trials { rounds: first.rounds.clone(), ..control };
    let series = |of: &Trials<'_>| Series::of(of.counted(), |_| Vec::new());
    let of_control = series(&control);
    let ratio = |(name, of_first): (String, Series)| {
        let ratio = of_control.get(&name)?.ratio_to(&of_first)?;
        Some((name, ratio))
    };
    Some((first.name, series(&first).into_iter().filter_map(ratio).collect()))
}

/// The paths of the factors that have several values.
pub(crate) fn varied<'a>(values: impl IntoIterator<Item = &'a FactorValues>) -> IndexSet<&'a str> {
    let mut seen: IndexMap<&str, IndexSet<String>> = IndexMap::new();
    for (path, value) in values.into_iter().flatten() {
        seen.entry(path).or_default().insert(value.to_string());
    }
    seen.into_iter().filter(|(_, values)| values.len() > 1).map(|(path, _)| path).collect()
}

fn control_among(trials: &[TrialResult]) -> Option<Trials<'_>> {
    let trials: Vec<&TrialResult> = trials.iter().filter(|trial| trial.control).collect();
    trials.first().map(|first| first.configuration.as_str()).map(|name| Trials { name, trials, rounds: None })
}

/// How many ratios a run has of each figure: each other configuration is compared with one. Their intervals hold together,
/// so a reader may pick any of them. In at least 95 % of all studies, the configuration that comes out best is the best, or
/// the interval of its ratio to the best includes 1 (Hsu, *Constrained Simultaneous Confidence Intervals for Multiple
/// Comparisons with the Best*, 1984).
pub(crate) fn compared_together(configurations: &[Trials<'_>]) -> usize {
    configurations.len().saturating_sub(1).max(1)
}

/// Each configuration over its trials, in the order of the plan. The control comes last.
pub(crate) fn over_trials(plan: &Plan, trials: &[TrialResult]) -> Vec<ConfigurationResult> {
    let mut first: Option<(&str, IndexMap<String, Series>)> = None;
    let mut out = Vec::new();
    let configurations = configurations_of(plan, trials);
    let together = compared_together(&configurations);
    let rounds = configurations.first().and_then(|of| of.rounds.clone());
    let control = control_among(trials).map(|control| Trials { rounds, ..control });
    for configuration in configurations.into_iter().chain(control) {
        let Some(any) = configuration.trials.first() else { continue };
        // It is not one of those from which a reader picks.
        let together = if any.control { 1 } else { together };
        let whole = configuration.whole().count();
        let mut series = Series::of(configuration.counted(), |_| Vec::new());
        series.retain(|_, series| !series.always_too_few());
        // While a run is in progress, its first configuration may not have been measured yet.
        let base =
            first.as_ref().filter(|(name, _)| !any.control || Some(*name) == configuration.name.strip_suffix(CONTROL));
        let in_first = |name: &str| base.and_then(|(_, first)| first.get(name));
        out.push(ConfigurationResult {
            configuration: configuration.name.to_owned(),
            store: any.store.clone(),
            values: any.values.clone(),
            control: any.control,
            trials: whole as u32,
            failed: (configuration.trials.len() - whole) as u32,
            apart: configuration.is_apart(),
            figures: series
                .iter()
                .map(|(name, series)| (name.clone(), series.result(in_first(name), together)))
                .collect(),
        });
        first.get_or_insert((configuration.name, series));
    }
    out
}

/// How each numeric factor changes the measured phases that it concerns. The figure is documents per second if a phase
/// reads or writes several at once, otherwise operations per second. Open-loop phases are left out, since their rate is
/// given.
pub(crate) fn sweeps_of(result: &RunResult) -> Vec<FactorSweep> {
    let trials = || result.trials.iter().filter(|trial| !trial.control);
    let factors: IndexSet<&str> = trials().flat_map(|t| t.values.keys()).map(String::as_str).collect();
    let configurations = configurations_of(&result.plan, &result.trials);
    let together = compared_together(&configurations);
    let compared = configurations.iter().filter(|of| !of.is_apart());
    let counted: BTreeSet<u32> = compared.flat_map(|of| of.counted()).map(|trial| trial.trial).collect();
    let mut out = Vec::new();
    for factor in factors {
        // Configurations that differ only in this factor, by store and the other values.
        let mut groups: IndexMap<(String, String), Vec<(f64, &TrialResult)>> = IndexMap::new();
        for trial in trials() {
            let Some(value) = trial.values.get(factor).and_then(serde_json::Value::as_f64) else { continue };
            let key = serde_json::to_string(&others(trial, factor)).unwrap_or_default();
            groups.entry((trial.store.clone(), key)).or_default().push((value, trial));
        }
        for ((store, _), trials) in groups {
            let Some((_, any)) = trials.first() else { continue };
            for figure in swept_figures(&trials, factor) {
                let values = values_of(&trials, &figure, &counted);
                if values.iter().filter(|(_, figures)| !figures.is_empty()).count() < 2 {
                    continue;
                }
                let others = others(any, factor);
                if let Some(sweep) = sweep(Better::More, PRACTICAL, together, &values) {
                    out.push(FactorSweep { factor: factor.to_owned(), store: store.clone(), others, figure, sweep });
                }
            }
        }
    }
    out
}

/// The figure at each value that ran, by round. Empty for a value if none of its trials is `counted`, or if one that is
/// lacks the figure.
fn values_of(trials: &[(f64, &TrialResult)], figure: &str, counted: &BTreeSet<u32>) -> Vec<Measured> {
    let mut values: Vec<f64> = trials.iter().map(|(value, _)| *value).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let observed = |(_, trial): &(f64, &TrialResult)| {
        let found = of_trial(trial).into_iter().find(|f| f.name() == figure)?;
        Some((trial.round, found.observed(trial.trial)?))
    };
    let figures = |value: f64| {
        let own = trials.iter().filter(|(of, trial)| *of == value && counted.contains(&trial.trial));
        own.map(observed).collect::<Option<Vec<_>>>().unwrap_or_default()
    };
    values.into_iter().map(|value| (value, figures(value))).collect()
}

fn others(trial: &TrialResult, factor: &str) -> IndexMap<String, serde_json::Value> {
    trial.values.iter().filter(|(path, _)| *path != factor).map(|(p, v)| (p.clone(), v.clone())).collect()
}

/// The figures that a factor may change: for each phase documents per second if an operation of any trial has several,
/// otherwise operations per second.
fn swept_figures(trials: &[(f64, &TrialResult)], factor: &str) -> Vec<String> {
    let concerns = |phase: &PhaseResult| match factor.strip_prefix("phases.").and_then(|rest| rest.split('.').next()) {
        None => true,
        Some("*") => !phase.loads && phase.tasks.is_none(),
        Some(name) => name == phase.name,
    };
    let mut bulk: IndexMap<&str, bool> = IndexMap::new();
    for phase in trials.iter().flat_map(|(_, trial)| &trial.phases) {
        if !phase.warm_up && phase.rate.is_none() && concerns(phase) {
            *bulk.entry(&phase.name).or_default() |= in_documents([phase]);
        }
    }
    bulk.into_iter()
        .map(|(phase, bulk)| format!("{phase}.{}", if bulk { DOCUMENTS } else { THROUGHPUT }.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn trial(number: u32, round: u32, configuration: &str, per_s: f64) -> TrialResult {
        let mut result = fixture::run_of(&[fixture::closed_loop()]);
        let mut trial = result.trials.remove(0);
        (trial.trial, trial.round, trial.configuration) = (number, round, configuration.into());
        for op in trial.phases[0].ops.values_mut() {
            op.throughput_per_s = per_s;
        }
        trial
    }

    #[test]
    fn configurations_are_paired_by_rounds_with_the_first() {
        let mut trials = Vec::new();
        for round in 1..=4 {
            let value = 100.0 * f64::from(round);
            trials.push(trial(2 * round - 1, round, "a", value));
            trials.push(trial(2 * round, round, "b", value * 1.5));
        }
        trials[7].failure = Some(crate::Failure::default());
        let configurations = over_trials(&Plan::default(), &trials);
        let names: Vec<(&str, u32, u32)> =
            configurations.iter().map(|a| (a.configuration.as_str(), a.trials, a.failed)).collect();
        assert_eq!(names, [("a", 4, 0), ("b", 3, 1)]);
        let name = format!("{}.throughput", trials[0].phases[0].name);
        assert_eq!(configurations[0].figures[&name].to_first, None);
        let ratio = configurations[1].figures[&name].to_first.unwrap();
        assert!((ratio.value - 1.5).abs() < 1e-9 && ratio.trials == 3, "{ratio:?}");
    }

    /// A batch of one holds one document. Whichever trial comes first, the sweep uses documents.
    #[test]
    fn batches_are_swept_by_their_documents_and_a_value_that_failed_is_there() {
        let of = |batch: u32, round: u32, at: u32| {
            let mut trial = trial(at, round, &format!("batch={batch}"), 1_000.0);
            trial.values.insert("phases.mixed.batch".into(), batch.into());
            for op in trial.phases[0].ops.values_mut() {
                op.documents = op.succeeded * u64::from(batch);
                op.documents_per_s = op.throughput_per_s * f64::from(batch);
            }
            trial
        };
        for order in [[1, 10, 100], [100, 1, 10]] {
            let mut result = fixture::run_of(&[]);
            result.trials.clear();
            for round in 1..=3 {
                for batch in order {
                    let mut trial = of(batch, round, result.trials.len() as u32 + 1);
                    if batch == 100 {
                        trial.failure = Some(crate::Failure::default());
                    }
                    result.trials.push(trial);
                }
            }
            let sweeps = sweeps_of(&result);
            let [swept] = &sweeps[..] else { panic!("{sweeps:?}") };
            assert_eq!(swept.figure, "mixed.documents");
            assert_eq!((swept.sweep.sweet_spot, &swept.sweep.failed[..]), (Some(10.0), &[100.0][..]));
        }
    }
}
