//! What the run says about the study's limits.

use indexmap::{IndexMap, IndexSet};
use storebench_study::workload::LimitPath;

use super::cost;
use super::standings::{Standing, best_of_stores, ranked, standings};
use super::stores::ratios;
use super::words::{interval, with_values};
use crate::configurations::{configurations_of, is_whole};
use crate::figures::RATE_WITHIN_LIMITS;
use crate::human::{count, duration, listed, percent, rate};
use crate::{LimitResult, PhaseResult, RunResult, SearchResult, TrialResult};

/// The most configurations of a store whose rates are told. Of more, the best.
const MOST_RATES: usize = 4;
/// The most stores in one sentence. Of more, each has its own.
const MOST_IN_A_SENTENCE: usize = 4;

/// The highest rates that searches found, store by store, with what they cost: `a reaches 12.3 k/s (95 % interval 11.9 k to
/// 12.8 k) within the limits of steady (p95 ≤ 36.0 ms) with compress_to = 0.5, at USD 0.0123 for a million writes; …`.
pub(super) fn searched(result: &RunResult) -> Option<String> {
    let phase = &result.trials.iter().flat_map(|t| &t.searches).next()?.phase;
    let all = standings(result, phase, RATE_WITHIN_LIMITS.name);
    let limits = of_phase(result, phase);
    let within = match limits.is_empty() {
        true => format!(" within the limits of {phase}"),
        false => format!(" within the limits of {phase} ({limits})"),
    };
    let best = best_of_stores(&all);
    if best.is_empty() {
        return Some(none_met(result, phase, &within).join(" "));
    }
    let mut told = Vec::new();
    for (nth, of_store) in best.iter().enumerate() {
        let own: Vec<&Standing> = all.iter().filter(|of| of.store == of_store.store).collect();
        let shown = if own.len() > MOST_RATES { vec![*of_store] } else { own };
        let place = |first: bool| if first { within.as_str() } else { "" };
        let rates = shown.iter().enumerate().map(|(at, of)| {
            let cost = cost::within_limits(result, &of.configuration, nth + at == 0);
            let cost = cost.map_or_else(String::new, |cost| format!(", {cost}"));
            format!("{}{}{}{cost}", reached(of), place(nth + at == 0), values(of))
        });
        let rates: Vec<String> = rates.collect();
        told.push(format!("{} reaches {}", of_store.store, rates.join(", and ")));
    }
    let mut text = format!("{}.", told.join("; "));
    if all.iter().any(|of| of.series.at_least()) {
        text += " Where it says at least, the search ended at its highest rate.";
    }
    // With one store, compare its values. With several, the best of each.
    let compared = if best.len() == 1 { ranked(&all) } else { best };
    text.extend(ratios(&compared).map(|ratios| format!(" {ratios}")));
    for without in none_met(result, phase, " within the limits") {
        text += &format!(" {without}");
    }
    Some(text)
}

/// A rate that was found, and how sure it is.
fn reached(of: &Standing) -> String {
    let figure = of.series.over_trials();
    let ends = interval(&figure, rate);
    match (ends.is_empty(), figure.trials) {
        (false, _) => format!("{}{ends}", of.shown()),
        (true, _) if of.series.at_least() => of.shown(),
        (true, 1) => format!("{} (measured once)", of.shown()),
        (true, trials) => match of.series.range() {
            // A mean of rates that lie far apart, without an interval, is none of them.
            Some((low, high)) if low < high => {
                format!("{} to {}/s ({} trials, too few for an interval)", rate(low), rate(high), count(trials.into()))
            }
            _ => format!("{} ({} trials)", of.shown(), count(trials.into())),
        },
    }
}

/// The values of the factors of a configuration: ` with compress_to = 0.5`.
fn values(of: &Standing) -> String {
    match of.values.is_empty() {
        true if of.configuration == of.store => String::new(),
        true => format!(" on {}", of.configuration),
        false => with_values(&of.values),
    }
}

/// The configurations that no rate kept within the limits, in all trials or in some.
fn none_met(result: &RunResult, phase: &str, within: &str) -> Vec<String> {
    let (mut never, mut told) = (Vec::new(), Vec::new());
    let mut longest: Option<(f64, u32)> = None;
    for configuration in configurations_of(&result.plan, &result.trials) {
        let searches = configuration.counted().flat_map(|trial| &trial.searches);
        let searches: Vec<&SearchResult> = searches.filter(|search| search.phase == phase).collect();
        let rates: Vec<f64> = searches.iter().filter_map(|search| search.rate).collect();
        let (none, trials) = (searches.len() - rates.len(), count(searches.len() as u64));
        if none == 0 {
            continue;
        }
        let (low, high) =
            (rates.iter().copied().fold(f64::INFINITY, f64::min), rates.iter().copied().fold(0.0, f64::max));
        if rates.is_empty() {
            never.push(configuration.name);
            let held = searches.iter().filter_map(|search| search.not_held());
            longest = held.chain(longest).max_by(|a, b| a.0.total_cmp(&b.0));
        } else {
            let reached = if low < high { format!("{} to {}", rate(low), rate(high)) } else { rate(low) };
            told.push((
                configuration.name,
                count(none as u64),
                format!("of {trials} trials; otherwise it reached {reached}/s."),
            ));
        }
    }
    let never = (!never.is_empty()).then(|| match longest {
        Some((highest, times)) => format!(
            "No rate is confirmed for {}: most short probes stayed{within} up to {}/s, but none did when a rate was held \
             {times} times as long.",
            listed(never),
            rate(highest)
        ),
        None => format!("{} stayed{within} at no rate that was tried.", listed(never)),
    });
    // The limits are named once.
    let first = never.is_none();
    let told = told.into_iter().enumerate().map(|(nth, (name, none, rest))| {
        let within = if first && nth == 0 { within } else { " within them" };
        format!("{name} stayed{within} at no rate in {none} {rest}")
    });
    never.into_iter().chain(told).collect()
}

/// The limits of a phase: `p95 ≤ 36.0 ms and errors ≤ 0.10 %`.
fn of_phase(result: &RunResult, phase: &str) -> String {
    let mut limits: IndexMap<&str, f64> = IndexMap::new();
    for limit in result.phases().filter(|of| of.name == phase).flat_map(|phase| &phase.limits) {
        limits.entry(&limit.path).or_insert(limit.limit);
    }
    let told = limits.iter().map(|(path, most)| {
        let (of, place) = measured(path);
        let op = place.strip_prefix(phase).and_then(|rest| rest.strip_prefix('.'));
        format!("{of} ≤ {}{}", most_of(path, *most), op.map_or_else(String::new, |op| format!(" of {op}")))
    });
    listed(told)
}

/// All limits, with the phases that share one: `p99 ≤ 200 ms in by-key and by-user, and errors ≤ 0.10 % in by-user`.
fn of_all<'a>(limits: impl Iterator<Item = &'a LimitResult>) -> String {
    let mut alike: IndexMap<String, IndexSet<&str>> = IndexMap::new();
    for limit in limits {
        let (of, place) = measured(&limit.path);
        alike.entry(format!("{of} ≤ {}", most_of(&limit.path, limit.limit))).or_default().insert(place);
    }
    let told: Vec<String> = alike.iter().map(|(limit, places)| format!("{limit} in {}", listed(places))).collect();
    told.join("; ")
}

/// What a limit's path limits, and where: `p99` of `by-user`, `service p99` of `mixed.read`, `errors` of `by-user`.
fn measured(path: &str) -> (String, &str) {
    let known = LimitPath::parse(path).is_some();
    match (path.split_once(".response."), path.split_once(".service."), path.strip_suffix(".errors")) {
        (Some((place, of)), ..) if known => (of.to_owned(), place),
        (_, Some((place, of)), _) if known => (format!("service {of}"), place),
        (.., Some(place)) if known => ("errors".to_owned(), place),
        _ => (path.to_owned(), ""),
    }
}

fn most_of(path: &str, most: f64) -> String {
    if path.ends_with(".errors") { percent(most) } else { duration(most) }
}

/// One configuration's planned rate, and how its trials met the limits.
#[derive(Default)]
struct AtRate<'a> {
    rate: Option<f64>,
    trials: usize,
    met: usize,
    failed: usize,
    /// In how many trials a limit was missed.
    missed: IndexMap<&'a str, usize>,
    /// The time that came nearest to its limit, as a share of it.
    nearest: Option<(f64, &'a LimitResult)>,
}

impl AtRate<'_> {
    fn all(&self) -> bool {
        self.met == self.trials
    }

    /// ` in both trials`.
    fn in_all(&self) -> String {
        match self.trials {
            1 => ", measured once".to_owned(),
            2 => " in both trials".to_owned(),
            trials => format!(" in all {} trials", count(trials as u64)),
        }
    }

    /// `by-user.response.p99 was missed in 1 of 2 trials`.
    fn why(&self) -> String {
        let trials = count(self.trials as u64);
        let often = |n: usize| {
            if self.trials > 1 { format!(" in {} of {trials} trials", count(n as u64)) } else { String::new() }
        };
        let mut told: Vec<String> =
            self.missed.iter().map(|(path, n)| format!("{path} was missed{}", often(*n))).collect();
        if self.failed > 0 {
            told.push(match self.trials {
                1 => "the trial did not complete".to_owned(),
                _ => format!("{} of {trials} trials did not complete", count(self.failed as u64)),
            });
        }
        listed(told)
    }

    /// How near the slowest limited time came to its limit: ` (by-user.response.p99 12.3 ms)`.
    fn margin(&self) -> String {
        let found = self.nearest.and_then(|(_, limit)| Some((limit, limit.found?)));
        found
            .map_or_else(String::new, |(limit, ns)| format!(" (nearest to its limit: {} {})", limit.path, duration(ns)))
    }
}

/// Says up to which of the given rates each store met the limits. `None` if no phase has both a rate and limits.
pub(super) fn given(result: &RunResult) -> Option<String> {
    let limited = |phase: &&PhaseResult| !phase.warm_up && !phase.limits.is_empty() && phase.rate.is_some();
    let mut stores: IndexMap<&str, IndexMap<&str, AtRate<'_>>> = IndexMap::new();
    for trial in result.trials.iter().filter(|trial| !trial.control) {
        let phases: Vec<&PhaseResult> = trial.phases.iter().filter(limited).collect();
        if phases.is_empty() && is_whole(trial) {
            continue;
        }
        let at = stores.entry(&trial.store).or_default().entry(trial.configuration.as_str()).or_default();
        at.rate = at.rate.or_else(|| given_rate(trial));
        at.trials += 1;
        let missed: IndexSet<&str> = phases
            .iter()
            .flat_map(|of| &of.limits)
            .filter(|limit| !limit.met)
            .map(|limit| limit.path.as_str())
            .collect();
        at.met += usize::from(missed.is_empty() && is_whole(trial));
        at.failed += usize::from(!is_whole(trial));
        for path in missed {
            *at.missed.entry(path).or_default() += 1;
        }
        for limit in phases.iter().flat_map(|of| &of.limits).filter(|limit| limit.share_within.is_some()) {
            let Some(near) = limit.found.map(|found| found / limit.limit).filter(|near| near.is_finite()) else {
                continue;
            };
            if at.nearest.is_none_or(|(known, _)| near > known) {
                at.nearest = Some((near, limit));
            }
        }
    }
    // A store that never completed a trial is told as a failure.
    stores.retain(|_, configurations| configurations.values().any(|at| at.failed < at.trials || !at.missed.is_empty()));
    if stores.values().flat_map(IndexMap::values).all(|at| at.rate.is_none()) {
        return None;
    }
    let limits = of_all(result.phases().filter(|phase| limited(phase)).flat_map(|phase| &phase.limits));
    let told: Vec<String> = stores
        .iter()
        .enumerate()
        .map(|(nth, (store, configurations))| {
            let without = limits_left_out(result, store);
            of_store(store, configurations, if nth == 0 { &limits } else { "" }, &without)
        })
        .collect();
    let whole = result.trials.iter().filter(|trial| is_whole(trial) && !trial.control);
    let others: IndexSet<&str> =
        whole.map(|trial| trial.store.as_str()).filter(|of| !stores.contains_key(of)).collect();
    let others = match others.len() {
        0 => String::new(),
        _ => format!(" {}: no phase with a limit.", listed(others)),
    };
    let between = if told.len() > MOST_IN_A_SENTENCE { ". " } else { "; " };
    Some(format!("{}.{others}", told.join(between)))
}

/// Where a store leaves out what limits apply to: ` but those of by-user, which it leaves out,`.
fn limits_left_out(result: &RunResult, store: &str) -> String {
    // Of the study: no phase has the limits of what every store leaves out.
    let limits = result.run.study["limits"].as_object().into_iter().flatten();
    let places: IndexSet<&str> = limits.map(|(path, _)| measured(path).1).collect();
    let configurations = result.plan.configurations.iter().filter(|of| of.store == store);
    let out = configurations.flat_map(|of| &of.left_out).filter_map(|out| {
        let phase = out.phase.as_deref()?;
        Some(out.operation.as_ref().map_or_else(|| phase.to_owned(), |op| format!("{phase}.{op}")))
    });
    let out: IndexSet<String> = out.filter(|out| places.contains(out.as_str())).collect();
    if out.is_empty() { String::new() } else { format!(" but those of {}, which it leaves out,", listed(out)) }
}

/// The constant rate of a trial's limited phases, if they all have the same one. If it failed before them, that of the
/// factor.
fn given_rate(trial: &TrialResult) -> Option<f64> {
    if !trial.phases.iter().any(|phase| !phase.limits.is_empty()) {
        let mut rates =
            trial.values.iter().filter(|(path, _)| path.ends_with(".rate")).map(|(_, value)| value.as_f64());
        return rates.next().flatten().filter(|_| rates.next().is_none());
    }
    let mut rates =
        trial.phases.iter().filter(|p| !p.limits.is_empty()).filter_map(|p| p.rate.as_ref()?.planned.as_f64());
    let first = rates.next()?;
    rates.all(|rate| rate == first).then_some(first)
}

fn of_store(store: &str, configurations: &IndexMap<&str, AtRate<'_>>, limits: &str, without: &str) -> String {
    let mut rates: Vec<(f64, &AtRate<'_>)> = Vec::new();
    for at in configurations.values() {
        let Some(rate) = at.rate else { continue };
        match rates.iter_mut().find(|(known, _)| *known == rate) {
            // If several configurations have the same rate, the best one represents the store.
            Some(known) if at.all() && !known.1.all() => *known = (rate, at),
            Some(_) => {}
            None => rates.push((rate, at)),
        }
    }
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let meets = rates.iter().take_while(|(_, at)| at.all()).last();
    let misses = rates.iter().find(|(_, at)| !at.all());
    let limits = if limits.is_empty() { String::new() } else { format!(" ({limits})") };
    match (meets, misses) {
        (Some((up_to, at)), None) if rates.len() == 1 => {
            format!("{store} met every limit{limits}{without} at {}/s{}{}", rate(*up_to), at.in_all(), at.margin())
        }
        (Some((up_to, at)), None) => format!(
            "{store} met every limit{limits}{without} up to {}/s, the highest rate tried,{}{}",
            rate(*up_to),
            at.in_all().trim_start_matches(','),
            at.margin()
        ),
        (Some((up_to, at)), Some((misses, why))) => format!(
            "{store} met every limit{limits}{without} up to {}/s{}{}, but not at {}/s: {}",
            rate(*up_to),
            at.in_all(),
            at.margin(),
            rate(*misses),
            why.why()
        ),
        (None, Some((misses, why))) => {
            format!("{store} did not meet the limits{limits} even at {}/s: {}", rate(*misses), why.why())
        }
        (None, None) => format!("{store} was not measured at a constant rate"),
    }
}
