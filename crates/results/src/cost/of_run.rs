//! Selects the figures of a run that are priced.

use indexmap::IndexSet;

use super::{ConfigurationCostInput, CostResult, PriceSheet, UsageCost, Work};
use crate::figures::{COST, DISK, DOCUMENTS, Figure, RATE_WITHIN_LIMITS, THROUGHPUT, is_bulk};
use crate::{ConfigurationResult, FigureOverTrials, OpResult, PhaseResult, RunResult, TrialResult};

/// The cost of every configuration of a run. The priced operations are those of one phase: the one whose rate was
/// searched, otherwise the last one with a limit, otherwise the last measured one. The rate within the limits is the
/// searched one, or the throughput if every trial met every limit.
pub(crate) fn cost_of_run(sheet: &PriceSheet, result: &RunResult) -> CostResult {
    let Some(phase) = priced_phase(result) else { return CostResult::of(sheet.clone(), &[], None, Work::Operations) };
    let of_phase = || result.phases().filter(|p| p.name == phase);
    let bulk = of_phase().flat_map(|p| p.ops.values()).any(|op| op.documents > op.succeeded && is_bulk(op));
    let work = if bulk { Work::Documents } else { Work::Operations };
    let (mut inputs, mut without) = (Vec::new(), Vec::new());
    for configuration in result.configurations.iter().filter(|of| !of.control) {
        match input(result, configuration, &phase, work) {
            Some(input) => inputs.push(input),
            None => without.push(configuration.configuration.as_str()),
        }
    }
    let limits = result.phases().flat_map(|p| &p.limits);
    let limits: IndexSet<&str> = limits.map(|limit| limit.path.as_str()).collect();
    let limit = (!limits.is_empty()).then(|| limits.into_iter().collect::<Vec<_>>().join(" and "));
    let mut cost = CostResult::of(sheet.clone(), &inputs, limit, work);
    cost.notes.push(format!("{work} are those of the phase `{phase}`"));
    if !without.is_empty() {
        cost.notes.push(format!("no rate was measured, so the cost is unknown: {}", without.join(", ")));
    }
    cost
}

/// Money for a million operations (documents, if operations have several) in one trial, by the prices of its run: the
/// figure `PHASE.cost`.
pub(crate) fn cost_figure(result: &RunResult, trial: &TrialResult) -> Option<Figure> {
    let all = result.cost.as_ref()?;
    let cost = all.configurations.iter().find(|cost| cost.configuration == trial.configuration.as_str())?;
    let name = priced_phase(result)?;
    let phase = trial.phases.iter().find(|p| p.name == name)?;
    let per_s: f64 = phase.ops.values().map(|op| all.work.per_s(op)).sum();
    let usage = cost.usage.as_ref().map_or(0.0, UsageCost::per_million);
    let value = cost.per_hour.without_clients / (per_s * 3_600.0) * 1e6 + usage;
    let value = (value.is_finite() && value > 0.0).then_some(value);
    Some(Figure { phase: name, op: None, measure: COST, value, up_to: 1.0, rounded: 0.0, too_few: false })
}

/// The phase whose operations are priced. It is the same for all configurations and trials.
pub(crate) fn priced_phase(result: &RunResult) -> Option<String> {
    let searched = || result.trials.iter().flat_map(|trial| &trial.searches).map(|search| search.phase.clone()).next();
    // In study order: a failed trial has fewer phases.
    let planned = result.plan.phases.iter().map(|phase| &phase.name);
    let names: IndexSet<&String> = planned.chain(result.phases().map(|phase| &phase.name)).collect();
    let last = |wanted: &dyn Fn(&PhaseResult) -> bool| {
        let is = |name: &&&String| result.phases().any(|phase| phase.name == ***name && wanted(phase));
        names.iter().rev().find(is).map(|name| (*name).clone())
    };
    searched()
        .or_else(|| last(&|phase| !phase.limits.is_empty()))
        .or_else(|| last(&|phase| !phase.loads && !phase.warm_up))
        .or_else(|| last(&|_| true))
}

fn input(
    result: &RunResult,
    configuration: &ConfigurationResult,
    phase: &str,
    work: Work,
) -> Option<ConfigurationCostInput> {
    let figure = |measure: &str| configuration.figures.get(&format!("{phase}.{measure}"));
    let trials: Vec<&TrialResult> =
        result.trials.iter().filter(|trial| trial.configuration.as_str() == configuration.configuration).collect();
    let phases: Vec<&PhaseResult> = trials.iter().flat_map(|t| &t.phases).filter(|p| p.name == phase).collect();
    let sum = |pick: fn(&OpResult) -> f64| phases.iter().flat_map(|p| p.ops.values()).map(pick).sum::<f64>();
    let done = sum(match work {
        Work::Operations => |op| op.succeeded as f64,
        Work::Documents => |op| op.documents as f64,
    });
    // If a trial lacks the figure, a mean over the others would depend on luck.
    let known = |figure: &FigureOverTrials| figure.none_in.is_empty().then_some(figure.figure);
    let rate = known(figure(match work {
        Work::Operations => THROUGHPUT.name,
        Work::Documents => DOCUMENTS.name,
    })?)?;
    let searched = trials.iter().any(|trial| trial.searches.iter().any(|search| search.phase == phase));
    let limits = || trials.iter().flat_map(|trial| &trial.phases).flat_map(|p| &p.limits);
    let met = configuration.failed == 0 && limits().next().is_some() && limits().all(|limit| limit.met);
    let within_limit_per_s = if searched {
        // The phase ran at the rate that was found, so its documents per second belong to that rate too.
        let found = figure(RATE_WITHIN_LIMITS.name).filter(|_| configuration.failed == 0).and_then(known);
        found.map(|found| if work == Work::Documents { rate } else { found })
    } else {
        met.then_some(rate)
    };
    let bytes = |pick: fn(&OpResult) -> f64| (done > 0.0).then(|| sum(pick) / done);
    Some(ConfigurationCostInput {
        store: configuration.store.clone(),
        configuration: configuration.configuration.clone(),
        throughput_per_s: rate,
        within_limit_per_s,
        disk_bytes: figure(DISK.name).map(|disk| disk.figure.value as u64),
        read_bytes_per_op: bytes(|op| op.read_bytes as f64),
        written_bytes_per_op: bytes(|op| op.written_bytes as f64),
    })
}
