//! What the run says about the study's limits.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use super::listed;
use super::phases::{best_of_stores, one_before, ranked, standings};
use crate::configurations::{configuration_of, is_whole};
use crate::figures::RATE_WITHIN_LIMITS;
use crate::human::{duration, percent, rate};
use crate::{PhaseResult, RunResult, SearchResult, TrialResult};

/// The highest rates that searches found.
pub(super) fn searched(result: &RunResult) -> Option<String> {
    let phase = &result.trials.iter().flat_map(|t| &t.searches).next()?.phase;
    let all = standings(result, phase, RATE_WITHIN_LIMITS.name);
    let within = format!(" within the limits of {phase}{}", in_words(result, phase));
    // With one store, rank its configurations. With several, rank the best of each store.
    let ranked = match best_of_stores(&all) {
        one if one.len() == 1 => ranked(&all),
        several => several,
    };
    let (Some(first), second) = (ranked.first(), ranked.get(1)) else {
        let not_held = result.trials.iter().flat_map(|t| &t.searches).filter_map(SearchResult::not_held);
        let for_longer = not_held.max_by(|a, b| a.0.total_cmp(&b.0)).map_or_else(String::new, |(highest, times)| {
            format!(" for {times} times as long, although most probes met them up to {}/s", rate(highest))
        });
        return Some(format!(
            "No configuration met the limits of {phase}{} at any rate that was tried{for_longer}.",
            in_words(result, phase)
        ));
    };
    let without: Vec<String> = stores(result).into_iter().filter(|s| !ranked.iter().any(|r| r.store == *s)).collect();
    let lacking = match without.len() {
        0 => String::new(),
        _ => format!(" At least one trial of {} met them at no rate.", listed(&without)),
    };
    Some(match second {
        Some(second) => one_before(first, second, &within) + &lacking,
        None => format!("{} reached {}{within}{}.{lacking}", first.configuration, first.shown(), first.once()),
    })
}

/// The limits of a phase, in parentheses: ` (steady.response.p95 ≤ 36 ms)`.
fn in_words(result: &RunResult, phase: &str) -> String {
    let mut limits: IndexMap<&str, f64> = IndexMap::new();
    let phases = result.phases().filter(|p| p.name == phase);
    for limit in phases.flat_map(|phase| &phase.limits) {
        limits.entry(&limit.path).or_insert(limit.limit);
    }
    let of = |(path, most): (&&str, &f64)| {
        let most = if path.ends_with(".errors") { percent(*most) } else { duration(*most) };
        format!("{path} ≤ {most}")
    };
    match limits.is_empty() {
        true => String::new(),
        false => format!(" ({})", listed(limits.iter().map(of))),
    }
}

fn stores(result: &RunResult) -> BTreeSet<String> {
    result.trials.iter().map(|trial| trial.store.clone()).collect()
}

/// One configuration's planned rate, and which of its limits were missed.
struct AtRate<'a> {
    rate: Option<f64>,
    whole: bool,
    broken: Vec<&'a str>,
}

/// Says at which of the given rates the limits were met. `None` if no phase has both a rate and limits.
pub(super) fn given(result: &RunResult) -> Option<String> {
    let limited = |phase: &&PhaseResult| !phase.warm_up && !phase.limits.is_empty() && phase.rate.is_some();
    let mut stores: IndexMap<&str, IndexMap<&str, AtRate<'_>>> = IndexMap::new();
    for trial in result.trials.iter().filter(|trial| !trial.control) {
        let mut phases = trial.phases.iter().filter(limited).peekable();
        if phases.peek().is_none() && is_whole(trial) {
            continue;
        }
        let at = stores.entry(&trial.store).or_default().entry(configuration_of(trial)).or_insert_with(|| AtRate {
            rate: given_rate(trial),
            whole: true,
            broken: Vec::new(),
        });
        at.whole &= is_whole(trial);
        for phase in phases {
            let broken = phase.limits.iter().filter(|limit| !limit.met).map(|limit| limit.path.as_str());
            at.broken.extend(broken.filter(|path| !at.broken.contains(path)).collect::<Vec<_>>());
        }
    }
    if stores.values().flat_map(IndexMap::values).all(|at| at.rate.is_none()) {
        return None;
    }
    let told: Vec<String> = stores.iter().map(|(store, configurations)| of_store(store, configurations)).collect();
    Some(format!("{}.", told.join("; ")))
}

/// The constant rate of a trial's limited phases, if they all have the same one.
fn given_rate(trial: &TrialResult) -> Option<f64> {
    let mut rates =
        trial.phases.iter().filter(|p| !p.limits.is_empty()).filter_map(|p| p.rate.as_ref()?.planned.as_f64());
    let first = rates.next()?;
    rates.all(|rate| rate == first).then_some(first)
}

fn of_store(store: &str, configurations: &IndexMap<&str, AtRate<'_>>) -> String {
    let mut rates: Vec<(f64, bool, &AtRate<'_>)> = Vec::new();
    for at in configurations.values() {
        let Some(rate) = at.rate else { continue };
        let all = at.whole && at.broken.is_empty();
        match rates.iter_mut().find(|(known, ..)| *known == rate) {
            // If several configurations have the same rate, the best one represents the store.
            Some(known) if all && !known.1 => *known = (rate, all, at),
            Some(_) => {}
            None => rates.push((rate, all, at)),
        }
    }
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let meets = rates.iter().take_while(|(_, all, _)| *all).last();
    let breaks = rates.iter().find(|(_, all, _)| !all);
    let why = |of: &AtRate<'_>| match of.broken.as_slice() {
        [] => "a trial did not complete".to_owned(),
        [one] => format!("{one} was not met"),
        some => format!("{} were not met", listed(some)),
    };
    match (meets, breaks) {
        (Some((up_to, ..)), None) if rates.len() == 1 => format!("{store} met every limit at {}/s", rate(*up_to)),
        (Some((up_to, ..)), None) => {
            format!("{store} met every limit at each rate that was tried, up to {}/s", rate(*up_to))
        }
        (Some((up_to, ..)), Some((fails_at, _, of))) => {
            format!("{store} met every limit up to {}/s; at {}/s {}", rate(*up_to), rate(*fails_at), why(of))
        }
        (None, Some((fails_at, _, of))) => {
            format!("{store} did not meet the limits even at {}/s: {}", rate(*fails_at), why(of))
        }
        (None, None) => format!("{store} was not measured at a constant rate"),
    }
}
