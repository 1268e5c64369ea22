//! Arms over their trials: each figure with its interval, and beside the first arm.

use indexmap::IndexMap;

use crate::figures::{Better, DOCUMENTS, Figure, Measure, THROUGHPUT, of_phase, of_trial};
use crate::plan::Plan;
use crate::results::{ArmResult, FactorSweep, FigureOverTrials, PhaseResult, RunResult, TrialResult};
use crate::stats::{geometric_mean, outlying, paired_ratio};
use crate::sweep::{Measured, PRACTICAL, sweep};

/// Figures of one arm by name: for each trial its number, its block and the figure.
type Figures = IndexMap<String, Vec<(u32, u32, f64)>>;

/// The name of a trial's arm. Results of older versions name stores only.
pub fn arm_of(trial: &TrialResult) -> &str {
    if trial.arm.is_empty() { &trial.store } else { &trial.arm }
}

/// Whether a trial ended whole: what was cut off is in no figure.
pub fn is_whole(trial: &TrialResult) -> bool {
    trial.failure.is_none() && trial.phases.iter().all(|phase| phase.partial.is_none())
}

/// Each arm over its trials, in the order of the plan.
pub fn over_trials(plan: &Plan, trials: &[TrialResult]) -> Vec<ArmResult> {
    let mut arms: IndexMap<&str, Vec<&TrialResult>> =
        plan.arms.iter().map(|arm| (arm.arm.as_str(), Vec::new())).collect();
    for trial in trials {
        arms.entry(arm_of(trial)).or_default().push(trial);
    }
    let mut first: Option<Figures> = None;
    let mut out = Vec::with_capacity(arms.len());
    for (name, trials) in arms {
        let figures = gather(trials.iter().copied().filter(|trial| is_whole(trial)));
        let whole = trials.iter().filter(|trial| is_whole(trial)).count();
        let Some(any) = trials.first() else { continue };
        out.push(ArmResult {
            arm: name.to_owned(),
            store: any.store.clone(),
            levels: any.levels.clone(),
            trials: whole as u32,
            failed: (trials.len() - whole) as u32,
            figures: figures
                .iter()
                .filter_map(|(name, of)| Some((name.clone(), over(of, first.as_ref().and_then(|f| f.get(name)))?)))
                .collect(),
        });
        first.get_or_insert(figures);
    }
    out
}

/// What each factor with numbers as levels does to the measured phases that it concerns: documents each second where a
/// phase writes or reads several at once, else operations each second; nothing of phases in open loop, whose rate is
/// given.
pub fn sweeps_of(result: &RunResult) -> Vec<FactorSweep> {
    let mut factors: Vec<&str> = Vec::new();
    for path in result.trials.iter().flat_map(|t| t.levels.keys()) {
        if !factors.contains(&path.as_str()) {
            factors.push(path);
        }
    }
    let mut out = Vec::new();
    for factor in factors {
        // Arms that differ in this factor alone, by the store and the levels of the others.
        let mut groups: IndexMap<(String, String), Vec<(f64, &TrialResult)>> = IndexMap::new();
        for trial in result.trials.iter().filter(|trial| is_whole(trial)) {
            let Some(level) = trial.levels.get(factor).and_then(serde_json::Value::as_f64) else { continue };
            let key = serde_json::to_string(&others(trial, factor)).unwrap_or_default();
            groups.entry((trial.store.clone(), key)).or_default().push((level, trial));
        }
        for ((store, _), trials) in groups {
            let Some((_, any)) = trials.first() else { continue };
            for figure in swept_figures(any, factor) {
                let mut levels: Vec<Measured> = Vec::new();
                for (level, trial) in &trials {
                    let value = of_trial(trial).into_iter().find(|f| f.name() == figure).map(|f| f.value);
                    match levels.iter_mut().find(|(known, _)| known == level) {
                        Some((_, values)) => values.extend(value.map(|value| (trial.block, value))),
                        None => levels.push((*level, value.map(|value| (trial.block, value)).into_iter().collect())),
                    }
                }
                if levels.iter().filter(|(_, values)| !values.is_empty()).count() < 2 {
                    continue;
                }
                let others = others(any, factor);
                if let Ok(sweep) = sweep(Better::More, PRACTICAL, &levels) {
                    out.push(FactorSweep { factor: factor.to_owned(), store: store.clone(), others, figure, sweep });
                }
            }
        }
    }
    out
}

fn others(trial: &TrialResult, factor: &str) -> IndexMap<String, serde_json::Value> {
    trial.levels.iter().filter(|(path, _)| *path != factor).map(|(p, v)| (p.clone(), v.clone())).collect()
}

/// The figures of a trial that a factor may move.
fn swept_figures(trial: &TrialResult, factor: &str) -> Vec<String> {
    let concerns = |phase: &PhaseResult| match factor.strip_prefix("phases.").and_then(|rest| rest.split('.').next()) {
        None => true,
        Some("*") => !phase.loads && phase.tasks.is_none(),
        Some(name) => name == phase.name,
    };
    let mut names = Vec::new();
    for phase in trial.phases.iter().filter(|p| !p.warm_up && p.rate.is_none() && concerns(p)) {
        let figures = of_phase(phase);
        let has = |measure: Measure| figures.iter().find(|f| f.op.is_none() && f.measure == measure).map(Figure::name);
        names.extend(has(DOCUMENTS).or_else(|| has(THROUGHPUT)));
    }
    names
}

fn gather<'a>(trials: impl Iterator<Item = &'a TrialResult>) -> Figures {
    let mut figures = Figures::new();
    for trial in trials {
        for figure in of_trial(trial) {
            figures.entry(figure.name()).or_default().push((trial.trial, trial.block, figure.value));
        }
    }
    figures
}

fn over(of: &[(u32, u32, f64)], first: Option<&Vec<(u32, u32, f64)>>) -> Option<FigureOverTrials> {
    let values: Vec<f64> = of.iter().map(|(.., value)| *value).collect();
    let pairs = first.map(|first| {
        let partner = |block: u32| first.iter().find(|(_, other, _)| *other == block).map(|(.., value)| *value);
        of.iter().filter_map(|(_, block, value)| Some((*value, partner(*block)?))).collect::<Vec<_>>()
    });
    Some(FigureOverTrials {
        figure: geometric_mean(&values)?,
        to_first: pairs.and_then(|pairs| paired_ratio(&pairs)),
        outlying_trials: outlying(&values).into_iter().filter_map(|(at, _)| Some(of.get(at)?.0)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixture;

    fn trial(number: u32, block: u32, arm: &str, per_s: f64) -> TrialResult {
        let mut result = fixture::run_of(&[fixture::closed_loop()]);
        let mut trial = result.trials.remove(0);
        (trial.trial, trial.block, trial.arm) = (number, block, arm.into());
        for op in trial.phases[0].ops.values_mut() {
            op.throughput_per_s = per_s;
        }
        trial
    }

    #[test]
    fn arms_are_paired_by_blocks_with_the_first() {
        let mut trials = Vec::new();
        for block in 1..=4 {
            let level = 100.0 * f64::from(block);
            trials.push(trial(2 * block - 1, block, "a", level));
            trials.push(trial(2 * block, block, "b", level * 1.5));
        }
        trials[7].failure = Some(crate::results::Failure::default());
        let arms = over_trials(&Plan::default(), &trials);
        let names: Vec<(&str, u32, u32)> = arms.iter().map(|a| (a.arm.as_str(), a.trials, a.failed)).collect();
        assert_eq!(names, [("a", 4, 0), ("b", 3, 1)]);
        let name = format!("{}.throughput", trials[0].phases[0].name);
        assert_eq!(arms[0].figures[&name].to_first, None);
        let ratio = arms[1].figures[&name].to_first.unwrap();
        assert!((ratio.value - 1.5).abs() < 1e-9 && ratio.trials == 3, "{ratio:?}");
    }
}
