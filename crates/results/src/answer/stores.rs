//! Which store is ahead in which phase and by how much, and what one setting changes.

use std::collections::BTreeSet;

use indexmap::{IndexMap, IndexSet};

use super::standings::{Lead, MATTERS, Standing, alike, number_of, ratio, standings, unit};
use super::words::{times, times_inside};
use crate::figures::Better;
use crate::human::{duration, listed, percent};
use crate::{RunResult, TrialResult};

/// A lead without an interval.
const CHANCE: &str = "measured too few times to rule out chance";
/// The time that stands for an operation of a closed loop.
const SERVICE_P99: &str = "service.p99";

/// A figure of a phase (or of one of its operations), and the configurations to compare, the best first.
pub(super) struct Place<'a> {
    pub(super) name: &'a str,
    pub(super) ranked: Vec<&'a Standing>,
}

/// Who is ahead where: `b is ahead in mixed: 1,520 ops/s, 1.50 times (95 % interval 1.46 to 1.55) as many as a (1,010
/// ops/s).` What did different operations is not compared.
pub(super) fn ranking(result: &RunResult, places: &[Place<'_>]) -> String {
    let mut outcomes: IndexMap<String, Vec<String>> = IndexMap::new();
    let mut apart = Vec::new();
    for place in places {
        if differ(&place.ranked) {
            apart.push(not_compared(result, place));
        } else if let Some((outcome, why)) = judged(&place.ranked) {
            outcomes.entry(outcome).or_default().push(format!("in {}: {why}", place.name));
        }
    }
    let told = outcomes.into_iter().map(|(outcome, places)| format!("{outcome} {}.", places.join("; ")));
    told.chain(apart).collect::<Vec<_>>().join(" ")
}

/// Who is ahead, without the figures: `b is ahead: 1.50 times (95 % interval 1.46 to 1.55) as many as a.` `None` unless there
/// are several whose ratio is known.
pub(super) fn ratios(ranked: &[&Standing]) -> Option<String> {
    let [first, others @ ..] = ranked else { return None };
    if differ(ranked) || ranked.iter().any(|of| of.series.at_least()) {
        return None;
    }
    let told = others.iter().filter_map(|other| {
        Some(format!("{} as many as {}", times(&Lead::of(first, other).ratio?), name(ranked, other)))
    });
    let told: Vec<String> = told.collect();
    let (outcome, of_several) = outcome(ranked);
    let own = if of_several { format!("{} reaches ", name(ranked, first)) } else { String::new() };
    (!told.is_empty()).then(|| format!("{}: {own}{}.", outcome.trim_end_matches(','), listed(told)))
}

/// The store of one of these, or its configuration if they are values of one store.
fn name<'a>(all: &[&Standing], of: &'a Standing) -> &'a str {
    let alone = all.iter().filter(|other| other.store == of.store).count() < 2;
    if alone { &of.store } else { &of.configuration }
}

/// The outcome on these, and whether it is about several of them.
fn outcome(ranked: &[&Standing]) -> (String, bool) {
    let [first, others @ ..] = ranked else { return (String::new(), false) };
    let own = name(ranked, first);
    let leads: Vec<(&str, Lead)> = others.iter().map(|other| (name(ranked, other), Lead::of(first, other))).collect();
    let like = |is: fn(&Lead) -> bool| {
        let like = leads.iter().filter(|(_, lead)| is(lead)).map(|(other, _)| *other);
        listed(std::iter::once(own).chain(like))
    };
    let any = |is: fn(&Lead) -> bool| leads.iter().any(|(_, lead)| is(lead));
    if any(|lead| lead.open() && !lead.alike()) {
        (format!("{} cannot be told apart", like(Lead::open)), true)
    } else if any(Lead::alike) {
        (format!("{} differ by less than {}", like(Lead::alike), percent(MATTERS)), true)
    } else if leads.iter().all(|(_, lead)| lead.sure()) {
        (format!("{own} is ahead"), false)
    } else if any(Lead::close) {
        (format!("{} came out within {} of each other, {CHANCE},", like(Lead::close), percent(MATTERS)), true)
    } else {
        (format!("{own} came out ahead, {CHANCE},"), false)
    }
}

/// The outcome on those that were compared, and why. `None` if there is nothing.
fn judged(ranked: &[&Standing]) -> Option<(String, String)> {
    let [first, others @ ..] = ranked else { return None };
    let own_name = name(ranked, first);
    if others.is_empty() {
        return Some((format!("Only {own_name} has a figure"), format!("{}{}", first.with_interval(), first.once())));
    }
    if first.series.at_least() {
        let reached: Vec<&str> = ranked.iter().filter(|of| of.series.at_least()).map(|of| name(ranked, of)).collect();
        let what = if reached.len() > 1 { "cannot be told apart" } else { "is ahead" };
        let figures = ranked.iter().map(|of| format!("{} {}", name(ranked, of), of.shown()));
        let why = format!("{}; the search ended at its highest rate", listed(figures));
        return Some((format!("{} {what}", listed(reached)), why));
    }
    let (outcome, of_several) = outcome(ranked);
    let own = if of_several { format!("{own_name} {}", first.shown()) } else { first.shown() };
    let told = others.iter().map(|other| beside((own_name, first), (name(ranked, other), other)));
    let between = if first.measure().better == Better::Less { "; " } else { ", " };
    Some((outcome, format!("{own}{between}{}", listed(told))))
}

/// `1.50 times (95 % interval 1.46 to 1.55) as many as a (1,010 ops/s)`; of times `a takes 1.47 times … as long as b
/// (740 µs)`.
fn beside((own_name, first): (&str, &Standing), (name, other): (&str, &Standing)) -> String {
    let Some(by) = Lead::of(first, other).ratio else { return format!("{name} {}", other.shown()) };
    match first.measure().better {
        Better::More => format!("{} as many as {name} ({})", times(&by), other.shown()),
        Better::Less => format!("{name} takes {} as long as {own_name} ({})", times(&by), duration(other.value())),
    }
}

/// Whether their figures are totals of different operations.
fn differ(all: &[&Standing]) -> bool {
    all.windows(2).any(|pair| pair[0].ops != pair[1].ops)
}

/// The figures of those that did different operations, without a ratio, and the times of the operations that all of them
/// did.
fn not_compared(result: &RunResult, place: &Place<'_>) -> String {
    let every: BTreeSet<&String> = place.ranked.iter().flat_map(|of| &of.ops).collect();
    let of_store = |of: &&Standing| format!("{} does {} of {}", name(&place.ranked, of), of.shown(), listed(&of.ops));
    let told = place.ranked.iter().map(of_store);
    let shared = every.into_iter().filter(|op| place.ranked.iter().all(|of| of.ops.contains(*op)));
    let times = shared.filter_map(|op| {
        let all = standings(result, &format!("{}.{op}", place.name), SERVICE_P99);
        let told: Vec<String> = place
            .ranked
            .iter()
            .filter_map(|of| {
                let own = all.iter().find(|own| own.configuration == of.configuration)?;
                Some(format!("{} on {}", duration(own.value()), name(&place.ranked, of)))
            })
            .collect();
        (!told.is_empty()).then(|| format!("; the service time p99 of {op} is {}", listed(told)))
    });
    let times: String = times.collect();
    format!("Totals are not compared in {}: {}{times}.", place.name, listed(told))
}

/// The operations that stores leave out of a phase: a sentence for each store and phase.
pub(super) fn left_out(result: &RunResult, phases: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for name in phases {
        let mut ran: IndexMap<&str, IndexSet<&str>> = IndexMap::new();
        for trial in &result.trials {
            for phase in trial.phases.iter().filter(|of| of.name == *name && !of.loads && of.partial.is_none()) {
                ran.entry(&trial.store).or_default().extend(phase.ops.keys().map(String::as_str));
            }
        }
        let every: IndexSet<&str> = ran.values().flatten().copied().collect();
        for (store, ops) in ran.iter().filter(|(_, ops)| ops.len() < every.len()) {
            let missing = every.iter().filter(|op| !ops.contains(*op));
            all.push(format!("{store} leaves out {} in {name}.", listed(missing)));
        }
    }
    all
}

/// One thing that changed between two configurations, and how it reads in a sentence.
pub(super) struct Change<'a> {
    pub(super) place: &'a str,
    pub(super) from: &'a Standing,
    pub(super) to: &'a Standing,
}

/// What `setting` changes, place by place: `cache=256MiB (b) instead of cache=2MiB (a): 1.13 times (95 % interval 1.05 to
/// 1.22) as many ops/s in overwrite (20.6 k against 18.2 k); no clear difference in random (1.01 times, 0.970 to 1.05).`
pub(super) fn changed(setting: &str, changes: &[Change<'_>]) -> String {
    let (mut clear, mut open, mut once) = (Vec::new(), Vec::new(), false);
    for change in changes {
        let Some(by) = ratio(change.to, change.from) else { continue };
        let (low, high) = (by.low.unwrap_or(by.value), by.high.unwrap_or(by.value));
        if (low > 1.0 || high < 1.0) && (by.value - 1.0).abs() > MATTERS && !alike(&by) {
            once |= by.low.is_none();
            let show = number_of(change.to.measure());
            let (new, old) = (show(change.to.value()), show(change.from.value()));
            let as_much =
                unit(change.to.measure()).map_or("as long a p99".to_owned(), |unit| format!("as many {unit}"));
            clear.push(format!("{} {as_much} in {} ({new} against {old})", times(&by), change.place));
        } else {
            open.push(format!("{} ({})", change.place, times_inside(&by)));
        }
    }
    let mut told = Vec::new();
    if !clear.is_empty() {
        let chance = if once { format!(", {CHANCE}") } else { String::new() };
        told.push(format!("{}{chance}", listed(clear)));
    }
    if !open.is_empty() {
        told.push(format!("no clear difference in {}", listed(open)));
    }
    if told.is_empty() { String::new() } else { format!("{setting}: {}.", told.join("; ")) }
}

/// What two stores differ in if it is one option of their URLs: `cache=256MiB (b) instead of cache=2MiB (a)`.
pub(super) fn setting(from: &TrialResult, to: &TrialResult) -> Option<String> {
    let options = |of: &TrialResult| -> BTreeSet<String> {
        let (_, options) = of.url.split_once('?').unwrap_or_default();
        options.split('&').filter(|option| !option.is_empty()).map(str::to_owned).collect()
    };
    let (a, b) = (options(from), options(to));
    let of =
        |own: &BTreeSet<String>, other: &BTreeSet<String>| -> Vec<String> { own.difference(other).cloned().collect() };
    let key = |option: &str| option.split('=').next().unwrap_or_default().to_owned();
    let (old, new) = match (&of(&a, &b)[..], &of(&b, &a)[..]) {
        ([old], [new]) if key(old) == key(new) => (old.clone(), new.clone()),
        ([], [new]) => (format!("no {}", key(new)), new.clone()),
        ([old], []) => (old.clone(), format!("no {}", key(old))),
        _ => return None,
    };
    (from.scheme == to.scheme).then(|| format!("{new} ({}) instead of {old} ({})", to.store, from.store))
}
