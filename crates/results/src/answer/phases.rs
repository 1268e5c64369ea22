//! Which configuration is ahead in which phase, and by how much.

use indexmap::{IndexMap, IndexSet};

use super::listed;
use crate::configurations::{
    Configuration, compared_together, configuration_of, configurations_of, controlled, is_whole,
};
use crate::figures::{Better, DOCUMENTS, Measure, RATE_WITHIN_LIMITS, THROUGHPUT, in_documents};
use crate::human::{count, duration, percent, plural, rate, ratio};
use crate::in_flight::carried_at_most;
use crate::series::Series;
use crate::stats::Estimate;
use crate::{PhaseResult, RunResult, TrialResult};

/// The figure that represents an open-loop phase.
const RESPONSE_P99: &str = "response.p99";

/// The words for a lead without an interval.
const TOO_FEW: &str = "measured too few times to rule out chance";
/// A figure from fewer requests per trial states how many there were.
const FEW_REQUESTS: u64 = 20;

/// One configuration's figure of a phase.
pub(super) struct Standing {
    pub(super) configuration: String,
    pub(super) store: String,
    pub(super) series: Series,
    /// The fewest operations of the phase in a trial.
    requests: u64,
    /// How many ratios the run has of this figure.
    together: usize,
}

impl Standing {
    fn better(&self) -> Better {
        self.series.figure.measure.better
    }

    fn value(&self) -> f64 {
        self.series.over_trials().value
    }

    /// `145 k docs/s`, `p99 1.23 ms`.
    pub(super) fn shown(&self) -> String {
        let figure = shown(self.series.figure.measure, self.series.over_trials(), self.series.at_least());
        match self.requests {
            few if few < FEW_REQUESTS => {
                format!("{figure} ({} per trial)", plural(few, "request"))
            }
            _ => figure,
        }
    }

    /// Marks a figure that comes from a single trial.
    pub(super) fn once(&self) -> &'static str {
        if self.series.over_trials().trials == 1 { ", measured once" } else { "" }
    }
}

/// A figure with its unit.
fn shown(measure: Measure, figure: Estimate, at_least: bool) -> String {
    let least = if at_least { "at least " } else { "" };
    match measure.name {
        name if name == DOCUMENTS.name => format!("{least}{} docs/s", rate(figure.value)),
        name if name == RATE_WITHIN_LIMITS.name => format!("{least}{}/s", rate(figure.value)),
        name if name == THROUGHPUT.name => format!("{least}{} ops/s", rate(figure.value)),
        _ => format!("p99 {}", duration(figure.value)),
    }
}

/// A smaller difference does not matter, as in `compare`.
const MATTERS: f64 = 0.02;

/// How one configuration compares with another: a ratio that is above 1 if the first is better.
struct Lead {
    ratio: Option<Estimate>,
}

impl Lead {
    fn of(ahead: &Standing, other: &Standing) -> Self {
        let (more, less) = match ahead.better() {
            Better::More => (ahead, other),
            Better::Less => (other, ahead),
        };
        Self { ratio: more.series.ratio_to(&less.series).map(|ratio| ratio.estimate(ahead.together)) }
    }

    /// Whether the whole interval is above 1, and the difference large enough to matter.
    fn sure(&self) -> bool {
        self.ratio.is_some_and(|r| r.low.is_some_and(|low| low > 1.0) && r.value > 1.0 + MATTERS)
    }

    /// Whether there is an interval that does not show who is ahead.
    fn open(&self) -> bool {
        self.ratio.is_some_and(|r| r.low.is_some()) && !self.sure()
    }

    /// Whether the whole interval is so close to 1 that the difference does not matter.
    fn alike(&self) -> bool {
        let interval = self.ratio.and_then(|r| r.low.zip(r.high));
        interval.is_some_and(|(low, high)| low >= 1.0 - MATTERS && high <= 1.0 + MATTERS)
    }

    /// Why nobody is ahead.
    fn why_open(&self) -> String {
        let shown = self.shown();
        match self.ratio.and_then(|r| r.low.zip(r.high)) {
            Some((low, _)) if low > 1.0 => format!("{shown} may be too small a difference to matter"),
            _ => format!("the interval of {shown} includes 1"),
        }
    }

    /// `×2.75 [2.40, 3.20]`.
    fn shown(&self) -> String {
        self.ratio.map_or_else(|| "ratio unknown".to_owned(), |r| ratio(&r))
    }
}

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
    let varied = |name: &str| {
        let of = |path: &String| path.strip_prefix("phases.").and_then(|rest| rest.split('.').next()) == Some(name);
        result.trials.iter().any(|trial| trial.values.keys().any(of))
    };
    let by_factor: Vec<String> = phases.keys().filter(|name| varied(name)).cloned().collect();
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

/// Every configuration that has the figure in all of its completed trials. `place` is `PHASE` or `PHASE.OP`.
pub(super) fn standings(result: &RunResult, place: &str, measure: &str) -> Vec<Standing> {
    let figure = &format!("{place}.{measure}");
    let all = configurations_of(&result.plan, &result.trials);
    let together = compared_together(&all);
    let of = |configuration: Configuration<'_>| {
        let trials: Vec<&TrialResult> = configuration.whole().collect();
        let store = trials.first()?.store.clone();
        let series = Series::of(trials.clone(), |_| Vec::new()).shift_remove(figure)?;
        let requests_of = |phase: &PhaseResult| {
            let rest = place.strip_prefix(phase.name.as_str())?;
            let op = rest.strip_prefix('.');
            let counted = phase.ops.iter().filter(|(name, _)| op.is_none_or(|op| op == name.as_str()));
            let requests = counted.fold(0, |sum: u64, (_, op)| sum.saturating_add(op.count));
            (rest.is_empty() || op.is_some_and(|op| phase.ops.contains_key(op))).then_some(requests)
        };
        let requests = trials.iter().flat_map(|trial| &trial.phases).filter_map(requests_of).min().unwrap_or(0);
        (series.none_in().is_empty() && series.over_trials().trials > 0).then(|| Standing {
            configuration: configuration.name.to_owned(),
            store,
            series,
            requests,
            together,
        })
    };
    all.into_iter().filter_map(of).collect()
}

/// The best standing.
pub(super) fn best<'a>(of: impl IntoIterator<Item = &'a Standing>) -> Option<&'a Standing> {
    of.into_iter().reduce(|best, next| {
        let ahead = match next.better() {
            Better::More => next.value() > best.value(),
            Better::Less => next.value() < best.value(),
        };
        if ahead { next } else { best }
    })
}

/// The best configuration of each store, the best store first.
pub(super) fn best_of_stores(all: &[Standing]) -> Vec<&Standing> {
    let mut stores: IndexMap<&str, Vec<&Standing>> = IndexMap::new();
    for standing in all {
        stores.entry(&standing.store).or_default().push(standing);
    }
    ranked(stores.into_values().filter_map(best))
}

/// The best first.
pub(super) fn ranked<'a>(all: impl IntoIterator<Item = &'a Standing>) -> Vec<&'a Standing> {
    let mut found: Vec<&Standing> = all.into_iter().collect();
    found.sort_by(|a, b| match a.better() {
        Better::More => b.value().total_cmp(&a.value()),
        Better::Less => a.value().total_cmp(&b.value()),
    });
    found
}

/// Compares two configurations: `fjall is ahead in insert: 145 k docs/s against 52.6 k docs/s of sqlite, ×2.75 [2.40,
/// 3.20].`
pub(super) fn one_before(ahead: &Standing, other: &Standing, place: &str) -> String {
    let lead = Lead::of(ahead, other);
    let (a, b) = (&ahead.configuration, &other.configuration);
    let (x, y) = (ahead.shown(), other.shown());
    if ahead.series.at_least() {
        let what = if other.series.at_least() { "cannot be told apart" } else { "differ" };
        return format!("{a} and {b} {what}{place}: {x} and {y}; the search ended at its highest rate.");
    }
    if lead.alike() {
        return format!("{a} and {b} differ by less than {}{place}: {x} and {y}, {}.", percent(MATTERS), lead.shown());
    }
    if lead.open() {
        return format!("{a} and {b} cannot be told apart{place}: {x} and {y}; {}.", lead.why_open());
    }
    match lead.sure() {
        true => format!("{a} is ahead{place}: {x} against {y} of {b}, {}.", lead.shown()),
        false => format!("{a} came out ahead{place}, {TOO_FEW}: {x} against {y} of {b}, {}.", lead.shown()),
    }
}

/// Who is ahead, best first: one, or all that cannot be told apart from it.
fn leaders(ranked: &[&Standing], place: &str) -> String {
    let [first, second, ..] = ranked else { return String::new() };
    let like_first: Vec<&Standing> =
        ranked[1..].iter().copied().filter(|other| Lead::of(first, other).open()).collect();
    if let [] | [_] = like_first[..] {
        return one_before(first, like_first.first().unwrap_or(second), place);
    }
    let all: Vec<&Standing> = std::iter::once(*first).chain(like_first).collect();
    let names = listed(all.iter().map(|of| of.configuration.clone()));
    let figures = listed(all.iter().map(|of| of.shown()));
    format!("{names} cannot be told apart{place}: {figures}.")
}

/// Who is ahead in which phase.
pub(super) fn ahead(result: &RunResult) -> Option<String> {
    let phases = told(result);
    let of_phase = |name: &String| {
        let found: Vec<&PhaseResult> = result.measured_phases().filter(|p| p.name == *name).collect();
        let figure = figure_of(&found);
        let standings = |place: String| (place.clone(), standings(result, &place, figure));
        places(name, figure, &found).into_iter().map(standings).collect::<Vec<_>>()
    };
    let all: Vec<(String, Vec<Standing>)> = phases.iter().flat_map(of_phase).filter(|(_, of)| !of.is_empty()).collect();
    let missed = missed(result, &phases);
    let Some(stores) = all.iter().map(|(_, of)| best_of_stores(of).len()).max() else {
        return (!missed.is_empty()).then(|| missed.join(" "));
    };
    let text = match (all.as_slice(), stores) {
        (_, 1) if all.iter().all(|(_, of)| of.len() == 1) => figures(&all),
        (_, 1) => values(&all),
        ([(phase, of)], _) => leaders(&best_of_stores(of), &format!(" in {phase}")),
        _ => stores_by_phase(&all),
    };
    Some([text].into_iter().chain(missed).collect::<Vec<_>>().join(" "))
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
    for (figure, standings) in figures_told(result).into_iter().filter(|(_, standings)| !standings.is_empty()) {
        let of = |name: &str| standings.iter().find(|standing| standing.configuration == name);
        let mut add = |name: &str, found: Option<Estimate>| {
            let half = found.and_then(|of| of.relative_half_width()).filter(|half| half.is_finite());
            all.push(Width { figure: figure.clone(), configuration: name.to_owned(), half });
        };
        if others.is_empty() {
            add(first, of(first).and_then(|only| only.series.mean()).map(|mean| mean.estimate(1)));
        }
        for other in others {
            let ratio = of(other)
                .zip(of(first))
                .and_then(|(other, first)| Some(other.series.ratio_to(&first.series)?.estimate(other.together)));
            add(other, ratio);
        }
    }
    all
}

/// The figures that the answer is about, with the configurations that have them.
fn figures_told(result: &RunResult) -> Vec<(String, Vec<Standing>)> {
    let searched: IndexSet<&str> =
        result.trials.iter().flat_map(|trial| &trial.searches).map(|search| search.phase.as_str()).collect();
    if !searched.is_empty() {
        let measure = RATE_WITHIN_LIMITS.name;
        return searched
            .iter()
            .map(|phase| (format!("{phase}.{measure}"), standings(result, phase, measure)))
            .collect();
    }
    let mut all = Vec::new();
    for name in told(result) {
        let found: Vec<&PhaseResult> = result.measured_phases().filter(|p| p.name == name).collect();
        let measure = figure_of(&found);
        for place in places(&name, measure, &found) {
            all.push((format!("{place}.{measure}"), standings(result, &place, measure)));
        }
    }
    all
}

/// How much the first configuration and its control differ, in the figures that the answer is about.
pub(super) fn noise(result: &RunResult) -> Option<String> {
    let (first, control) = controlled(result)?;
    let of = |trials: &Configuration<'_>| Series::of(trials.whole(), |_| Vec::new());
    let (first_series, control_series) = (of(&first), of(&control));
    let ratios = figures_told(result).into_iter().filter_map(|(figure, _)| {
        let found = control_series.get(&figure)?.ratio_to(first_series.get(&figure)?)?;
        Some((figure, found.estimate(1)))
    });
    let told: Vec<String> = ratios.map(|(figure, of)| format!("{figure} {}", ratio(&of))).collect();
    (!told.is_empty())
        .then(|| format!("Noise of this machine ({} measured twice in each round): {}.", first.name, listed(told)))
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
            told.entry((configuration_of(trial), phase.name.as_str())).or_insert_with(|| {
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
                    configuration_of(trial),
                    rate(rates.scheduled_per_s),
                    phase.name,
                    rate(rates.achieved_per_s)
                )
            });
        }
    }
    let more = told.len().saturating_sub(MOST_MISSED);
    let mut all: Vec<String> = told.into_values().take(MOST_MISSED).collect();
    if more > 0 {
        all.push(format!("The same is true of {more} more."));
    }
    all
}

/// A rate is sustained if at least this share of the scheduled operations is answered.
const SUSTAINED: f64 = 0.99;
/// The most configurations that are named for not sustaining their rate.
const MOST_MISSED: usize = 2;

/// One configuration: its figures.
fn figures(all: &[(String, Vec<Standing>)]) -> String {
    let one = |(phase, of): &(String, Vec<Standing>)| {
        let figure = of[0].series.over_trials();
        let width = figure.relative_half_width().filter(|half| half.is_finite() && *half > 0.0);
        let sure = width.map_or_else(String::new, |half| format!(" (±{})", percent(half)));
        format!("{}{sure} in {phase}", of[0].shown())
    };
    let of = &all[0].1[0];
    format!("{}: {}{}.", of.configuration, listed(all.iter().map(one)), of.once())
}

/// One store at several values: compares the best configuration of each phase with the first.
fn values(all: &[(String, Vec<Standing>)]) -> String {
    let one = |(phase, of): &(String, Vec<Standing>)| {
        let (first, best) = (of.first()?, best(of)?);
        Some(match best.configuration == first.configuration {
            true => format!(
                "In {phase} no configuration is ahead of the first, {} ({}).",
                first.configuration,
                first.shown()
            ),
            false => one_before(best, first, &format!(" in {phase}")),
        })
    };
    let some: Vec<String> = all.iter().filter_map(one).collect();
    some.join(" ")
}

/// Several stores in several phases: `fjall is ahead in insert (×2.75 [2.40, 3.20] before sqlite); no clear difference
/// in query (fjall to sqlite: ×1.01 [0.97, 1.05]).`
fn stores_by_phase(all: &[(String, Vec<Standing>)]) -> String {
    // Keyed by store, and by whether chance is ruled out.
    let mut leads: IndexMap<(&str, bool), Vec<String>> = IndexMap::new();
    let mut open: Vec<String> = Vec::new();
    let mut varied = false;
    for (phase, of) in all {
        let ranked = best_of_stores(of);
        varied |= of.len() > ranked.len();
        let [first, second, ..] = ranked[..] else { continue };
        let lead = Lead::of(first, second);
        if lead.open() {
            open.push(format!("{phase} ({} to {}: {})", first.store, second.store, lead.shown()));
        } else {
            let text = format!("{phase} ({} before {})", lead.shown(), second.store);
            leads.entry((&first.store, lead.sure())).or_default().push(text);
        }
    }
    let part = |((store, sure), phases): (&(&str, bool), &Vec<String>)| match sure {
        true => format!("{store} is ahead in {}", listed(phases)),
        false => format!("{store} came out ahead, {TOO_FEW}, in {}", listed(phases)),
    };
    let mut parts: Vec<String> = leads.iter().map(part).collect();
    if !open.is_empty() {
        let none = if parts.is_empty() { "No" } else { "no" };
        parts.push(format!("{none} clear difference in {}", listed(&open)));
    }
    let how = if varied { ", each store at its best values" } else { "" };
    format!("{}{how}.", parts.join("; "))
}
