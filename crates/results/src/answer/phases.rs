//! The phases that the answer is about, and what they show.

use std::collections::BTreeSet;

use indexmap::{IndexMap, IndexSet};

use super::factors::by_store;
use super::standings::{RESPONSE_P99, Standing, best_of_stores, ratio, standings};
use super::stores::{Change, Place, changed, left_out, ranking, setting};
use super::words::times;
use crate::configurations::{Trials, configurations_of, control_ratios, is_whole};
use crate::figures::{DOCUMENTS, Measure, RATE_WITHIN_LIMITS, THROUGHPUT, in_documents};
use crate::human::{count, duration, first_of, listed, percent, plural, rate};
use crate::in_flight::carried_at_most;
use crate::stats::Estimate;
use crate::{OpResult, PhaseResult, RunResult};

/// The phases that are results, in study order. If a factor varies a phase alone, only such phases. Loads, and phases
/// with faults, count only if there is nothing else.
pub(super) fn told(result: &RunResult) -> Vec<String> {
    // 2 for loads, 1 for phases with faults, 0 for others. The phases with the lowest number are results.
    let mut phases: IndexMap<String, u8> = IndexMap::new();
    for phase in result.trials.iter().filter(|t| is_whole(t)).flat_map(|t| &t.phases).filter(|p| !p.warm_up) {
        let aside = if phase.loads { 2 } else { u8::from(!phase.faults.is_empty()) };
        let known = phases.entry(phase.name.clone()).or_default();
        *known = aside.max(*known);
    }
    let by_factor: Vec<String> = phases.keys().filter(|name| result.varies(name)).cloned().collect();
    if !by_factor.is_empty() {
        return by_factor;
    }
    let least = phases.values().copied().min();
    phases.into_iter().filter(|(_, aside)| Some(*aside) == least).map(|(name, _)| name).collect()
}

/// The phase that the answer is about, or the first of several.
pub(super) fn first(result: &RunResult) -> Option<String> {
    let searched = result.trials.iter().flat_map(|t| &t.searches).next().map(|search| search.phase.clone());
    let limited = || {
        let mut phases = result.phases();
        phases.find(|p| !p.warm_up && !p.limits.is_empty() && p.rate.is_some()).map(|p| p.name.clone())
    };
    searched.or_else(limited).or_else(|| told(result).into_iter().next())
}

/// The figure by which configurations are compared in a phase: p99 in an open loop, otherwise throughput.
fn figure_of(phases: &[&PhaseResult]) -> &'static str {
    match phases.first() {
        Some(phase) if phase.rate.is_some() => RESPONSE_P99,
        _ if in_documents(phases.iter().copied()) => DOCUMENTS.name,
        _ => THROUGHPUT.name,
    }
}

/// Where the figure of a phase is: in the phase, or, for a time, in each of its operations. A percentile over different
/// kinds of work describes none of them.
fn places(phase: &str, figure: &str, found: &[&PhaseResult]) -> Vec<String> {
    let ops: IndexSet<&String> = found.iter().flat_map(|p| p.ops.keys()).collect();
    match ops.len() > 1 && figure == RESPONSE_P99 {
        true => ops.iter().map(|op| format!("{phase}.{op}")).collect(),
        false => vec![phase.to_owned()],
    }
}

/// The figures that the answer is about: of each phase, or of each of its operations.
pub(super) struct Figure {
    pub(super) phase: String,
    /// The phase, or `PHASE.OP`.
    pub(super) place: String,
    name: &'static str,
    /// The configurations that have it.
    pub(super) standings: Vec<Standing>,
}

impl Figure {
    /// `PHASE.MEASURE`.
    pub(super) fn name(&self) -> String {
        format!("{}.{}", self.place, self.name)
    }

    /// What it measures, once a configuration has it.
    pub(super) fn measure(&self) -> Measure {
        self.standings.first().map_or(THROUGHPUT, |of| of.measure())
    }
}

/// What the phases show: what each factor changes on each store, what one setting changes, who is ahead, or the figures of
/// the only configuration. `None` if nothing was measured.
pub(super) fn compared(result: &RunResult) -> Option<String> {
    let phases = told(result);
    let mut figures = figures_of(result, &phases);
    figures.retain(|figure| !figure.standings.is_empty());
    let missed = missed(result, &phases);
    let all = || figures.iter().flat_map(|figure| &figure.standings);
    let stores = all().map(|of| &of.store).collect::<IndexSet<_>>().len();
    let single = all().map(|of| &of.configuration).collect::<IndexSet<_>>().len() == 1;
    let left_out = left_out(result, &phases);
    let ran: IndexSet<&str> = result.trials.iter().map(|trial| trial.store.as_str()).collect();
    let mut told = Vec::new();
    told.extend(match stores {
        0 => None,
        1 if single && ran.len() == 1 && result.plan.replaced_stores > 1 => {
            Some(format!("{} {}", unpaired(result), alone(&figures)))
        }
        1 if single => Some(alone(&figures)),
        1 => by_store(result, &figures).or_else(|| Some(alone(&figures))),
        _ => by_store(result, &figures),
    });
    if stores > 1 {
        let at = if told.is_empty() { "" } else { "Each store at its best values: " };
        let between = one_setting(result, &figures).filter(|_| at.is_empty());
        let places = figures.iter().map(|of| Place { name: &of.place, ranked: best_of_stores(&of.standings) });
        let between = between.unwrap_or_else(|| format!("{at}{}", ranking(result, &places.collect::<Vec<_>>())));
        // Whoever reads the figures knows that they are of different work.
        told.extend(left_out);
        told.push(between);
    }
    told.extend(without(result, &figures, &missed));
    told.extend(missed);
    (!told.is_empty()).then(|| told.join(" "))
}

/// Why nothing is compared, although the study compares its stores.
fn unpaired(result: &RunResult) -> String {
    format!(
        "Nothing was compared: the study compares {} stores, and this run has one; give --store once for each.",
        result.plan.replaced_stores
    )
}

/// What two stores that differ in one option of their URLs show about it.
fn one_setting(result: &RunResult, figures: &[Figure]) -> Option<String> {
    let all = configurations_of(&result.plan, &result.trials);
    let [from, to] = &all[..] else { return None };
    let setting = setting(from.trials.first()?, to.trials.first()?)?;
    let changes: Vec<Change<'_>> = figures
        .iter()
        .filter_map(|figure| {
            let of = |name: &str| figure.standings.iter().find(|of| of.configuration == name);
            Some(Change { place: &figure.place, from: of(from.name)?, to: of(to.name)? })
        })
        .filter(|change| change.from.ops == change.to.ops)
        .collect();
    (changes.len() == figures.len()).then(|| changed(&setting, &changes)).filter(|told| !told.is_empty())
}

/// Stores that completed, but have no such figure.
fn without(result: &RunResult, figures: &[Figure], missed: &[String]) -> Option<String> {
    let known: IndexSet<&str> = figures.iter().flat_map(|of| &of.standings).map(|of| of.store.as_str()).collect();
    let all = configurations_of(&result.plan, &result.trials);
    let counted = all.iter().filter(|of| !of.is_apart()).flat_map(Trials::counted);
    let stores: IndexSet<&str> = counted.map(|trial| trial.store.as_str()).collect();
    let lacking = stores.into_iter().filter(|store| !known.contains(store));
    let lacking: Vec<&str> = lacking.filter(|store| missed.iter().all(|told| !told.contains(store))).collect();
    let of = |store: &&str| {
        let phases: IndexSet<&str> = figures.iter().map(|of| of.phase.as_str()).collect();
        let own = result.trials.iter().filter(|trial| trial.store == **store).flat_map(|trial| &trial.phases);
        let ops: Vec<&OpResult> =
            own.filter(|of| phases.contains(of.name.as_str())).flat_map(|of| of.ops.values()).collect();
        let (sent, succeeded) = ops.iter().fold((0, 0), |(sent, ok), op| (sent + op.count, ok + op.succeeded));
        match (sent, succeeded) {
            (1.., 0) => format!("{store} has no figure: none of {} succeeded.", plural(sent, "operation")),
            _ => format!("{store} has no figure: it did too few operations."),
        }
    };
    (!lacking.is_empty()).then(|| lacking.iter().map(of).collect::<Vec<_>>().join(" "))
}

/// Half the width of an interval that the answer shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Width {
    /// The figure: `PHASE.MEASURE`, or `PHASE.OP.MEASURE`.
    pub figure: String,
    /// The configuration. With several, it is about its ratio to the first one.
    pub configuration: String,
    /// As a share of the figure. `None` if it has no interval.
    pub half: Option<f64>,
}

/// The widths of the intervals that the answer is about: of the ratios to the first configuration, or of the figures of
/// the only one. A configuration that lacks a figure in some trial has none.
pub fn widths(result: &RunResult) -> Vec<Width> {
    let names: Vec<&str> = configurations_of(&result.plan, &result.trials).iter().map(|of| of.name).collect();
    let Some((first, others)) = names.split_first() else { return Vec::new() };
    let mut all = Vec::new();
    // A figure that no configuration has will not come with more rounds.
    for figure in figures_told(result).into_iter().filter(|figure| !figure.standings.is_empty()) {
        let of = |name: &str| figure.standings.iter().find(|standing| standing.configuration == name);
        let mut add = |name: &str, found: Option<Estimate>| {
            let half = found.and_then(|of| of.relative_half_width()).filter(|half| half.is_finite());
            all.push(Width { figure: figure.name(), configuration: name.to_owned(), half });
        };
        if others.is_empty() {
            add(first, of(first).and_then(|only| only.series.mean()).map(|mean| mean.estimate(1)));
        }
        for other in others {
            add(other, of(other).zip(of(first)).and_then(|(other, first)| ratio(other, first)));
        }
    }
    all
}

/// The figures that the answer is about, with the configurations that have them.
fn figures_told(result: &RunResult) -> Vec<Figure> {
    let searched: IndexSet<&String> =
        result.trials.iter().flat_map(|trial| &trial.searches).map(|search| &search.phase).collect();
    if searched.is_empty() {
        return figures_of(result, &told(result));
    }
    let name = RATE_WITHIN_LIMITS.name;
    let of = |phase: &String| Figure {
        phase: phase.clone(),
        place: phase.clone(),
        name,
        standings: standings(result, phase, name),
    };
    searched.into_iter().map(of).collect()
}

fn figures_of(result: &RunResult, phases: &[String]) -> Vec<Figure> {
    let mut all = Vec::new();
    for phase in phases {
        let found: Vec<&PhaseResult> = result.measured_phases().filter(|of| of.name == *phase).collect();
        let name = figure_of(&found);
        for place in places(phase, name, &found) {
            all.push(Figure { phase: phase.clone(), standings: standings(result, &place, name), place, name });
        }
    }
    all
}

/// Completed trials that are in no comparison, because other configurations did not complete their rounds.
pub(super) fn uncounted(result: &RunResult) -> Vec<String> {
    let all = configurations_of(&result.plan, &result.trials);
    let (apart, compared): (Vec<_>, Vec<_>) =
        all.iter().filter(|of| of.whole().next().is_some()).partition(|of| of.is_apart());
    let rounds = |of: &dyn Fn(&Trials<'_>) -> Vec<u32>| compared.iter().flat_map(|c| of(c)).collect::<BTreeSet<_>>();
    let counted = rounds(&|of| of.counted().map(|trial| trial.round).collect());
    let whole = rounds(&|of| of.whole().map(|trial| trial.round).collect());
    let left: Vec<String> = whole.difference(&counted).map(|round| count((*round).into())).collect();
    let mut told = Vec::new();
    if !left.is_empty() {
        let (rounds, which) = if left.len() == 1 { ("Round", "is") } else { ("Rounds", "are") };
        told.push(format!("{rounds} {} {which} in no figure: not every configuration completed it.", listed(left)));
    }
    let names: Vec<&str> = apart.iter().map(|of| of.name).collect();
    if !names.is_empty() {
        let verb = if names.len() == 1 { "is" } else { "are" };
        told.push(format!("{} {verb} not compared: not enough rounds in common with the others.", listed(names)));
    }
    told
}

/// How much the first configuration and its control differ, in the figures that the answer is about.
pub(super) fn noise(result: &RunResult) -> Option<String> {
    let (first, ratios) = control_ratios(result)?;
    let told = figures_told(result).into_iter().filter_map(|figure| {
        let figure = figure.name();
        Some(format!("{figure} {}", times(&ratios.get(&figure)?.estimate(1))))
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty())
        .then(|| format!("Noise of this machine ({first} measured twice in each round): {}.", listed(told)))
}

/// Open loops that did not answer everything that was scheduled. Such a phase has no p99, so its configuration cannot
/// be compared with others.
fn missed(result: &RunResult, phases: &[String]) -> Vec<String> {
    let mut told: IndexMap<(&str, &str), String> = IndexMap::new();
    for trial in result.trials.iter().filter(|trial| !trial.control) {
        for phase in trial.phases.iter().filter(|p| phases.contains(&p.name) && !p.warm_up) {
            let Some(rates) = phase.rate.as_ref().filter(|r| r.achieved_per_s < r.scheduled_per_s * SUSTAINED) else {
                continue;
            };
            told.entry((trial.configuration.as_str(), phase.name.as_str())).or_insert_with(|| {
                let unfinished: f64 = phase.ops.values().map(|op| op.unfinished as f64).sum();
                let scheduled: f64 = phase.ops.values().map(|op| op.count as f64 + op.unfinished as f64).sum();
                let left = if unfinished > 0.0 {
                    format!(
                        ", and {} of the scheduled operations were unfinished at the end",
                        percent(unfinished / scheduled)
                    )
                } else {
                    String::new()
                };
                let carried = carried_at_most(phase).zip(phase.all.service_ns.mean);
                let limited = carried.map_or_else(String::new, |(most, service_ns)| {
                    let (limit, most) = (count(phase.in_flight_limit), rate(most));
                    format!(
                        "; at a mean service time of {} its in-flight limit of {limit} allows at most {most}/s",
                        duration(service_ns)
                    )
                });
                format!(
                    "{} did not sustain {}/s in {}: {}/s were answered{left}{limited}.",
                    trial.configuration.as_str(),
                    rate(rates.scheduled_per_s),
                    phase.name,
                    rate(rates.achieved_per_s)
                )
            });
        }
    }
    first_of(told.into_values(), MOST_MISSED, |more| format!("The same is true of {more} more."))
}

/// A rate is sustained if at least this share of the scheduled operations is answered.
const SUSTAINED: f64 = 0.99;
/// The most configurations that are named for not sustaining their rate.
const MOST_MISSED: usize = 2;

/// The figures of configurations that there is nothing to compare with: a sentence for each.
fn alone(figures: &[Figure]) -> String {
    let mut found: IndexMap<&str, Vec<(&Figure, &Standing)>> = IndexMap::new();
    for (figure, of) in figures.iter().flat_map(|figure| figure.standings.iter().map(move |of| (figure, of))) {
        found.entry(&of.configuration).or_default().push((figure, of));
    }
    let told = found.iter().map(|(name, figures)| {
        let once = figures.first().map_or("", |(_, of)| of.once());
        let told = figures.iter().map(|(figure, of)| format!("{} in {}", of.with_interval(), figure.place));
        format!("{name}: {}{once}.", listed(told))
    });
    told.collect::<Vec<_>>().join(" ")
}
