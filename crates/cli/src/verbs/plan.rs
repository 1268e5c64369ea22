//! `plan STUDY`: shows what would run. It asks the drivers what they support, without accessing the stores.

use indexmap::{IndexMap, IndexSet};
use serde::Serialize;
use storebench_lab::plan::{Outline, plan_run};
use storebench_lab::run::ConfigurationRequest;
use storebench_results::compare::{OneRun, different};
use storebench_results::cost::{PlanCost, PriceSheet, plan_cost};
use storebench_results::history::{HistoryBaseline, HistoryEntry, RunsNeeded, runs_needed};
use storebench_results::human::{duration, half_width, percent};
use storebench_results::plan::Plan;
use storebench_results::rounds_needed::{FigureNeeds, RoundsNeeded, rounds_needed};

use super::plan_parts::{Shares, shares};
use crate::args::PlanArgs;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::servers::Servers;
use crate::{stores, studies};

/// What `plan --json` prints.
#[derive(Debug, Serialize)]
struct Printed {
    format: &'static str,
    #[serde(flatten)]
    plan: Plan,
    /// The guarantees of each phase on each store.
    guarantees: Vec<Guaranteed>,
    /// The share of each part, if parts were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<Shares>,
    /// The cost of the planned time, if a price sheet was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<PlannedCost>,
    /// How many rounds the study needs, if a pilot was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds: Option<RoundsNeeded>,
    /// How many runs a gate needs, if several runs or a history were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<RunsNeeded>,
}

/// The cost of the planned time, and the prices behind it.
#[derive(Debug, Serialize)]
struct PlannedCost {
    sheet: PriceSheet,
    #[serde(flatten)]
    cost: PlanCost,
}

/// How many rounds each figure needs, as text.
fn in_words(needed: &RoundsNeeded) -> String {
    let within = percent(needed.within);
    let mut out = format!("\nrounds for ± {within}, from a pilot of {} rounds\n", needed.rounds);
    if needed.figures.iter().all(|of| of.now.is_none()) {
        return out + "  not known: a pilot needs two complete rounds or more (`repeats = 2`)\n";
    }
    let name = |of: &FigureNeeds| match &of.to {
        Some(to) => format!("{}, {} to {to}", of.figure, of.configuration),
        None => of.figure.clone(),
    };
    let longest = needed.figures.iter().map(|of| name(of).chars().count()).max().unwrap_or(0);
    for of in &needed.figures {
        let now = of.now.map_or_else(|| "no interval".to_owned(), |half| format!("{} now", half_width(half)));
        let then = match of.rounds {
            Some(rounds) if needed.round_s > 0.0 => {
                format!("{rounds} rounds, about {}", duration(f64::from(rounds) * needed.round_s * 1e9))
            }
            Some(rounds) => format!("{rounds} rounds"),
            None => "more than 1,000 rounds, or not known".to_owned(),
        };
        out += &format!("  {:longest$}  {now:16}  {then}\n", name(of));
    }
    out
}

/// The cost of a plan as text.
fn money(PlannedCost { sheet, cost }: &PlannedCost) -> String {
    let clients = if cost.with_clients { "with" } else { "without" };
    let mut text = format!(
        "cost   {:.2} to {:.2} {}, {clients} the client's machines; prices of {}: {}\n",
        cost.least, cost.most, sheet.currency, sheet.date, sheet.source
    );
    if !cost.unpriced.is_empty() {
        text += &format!("       no price for {}\n", cost.unpriced.join(", "));
    }
    text
}

/// One phase of one store, or of one configuration if the guarantees differ between the store's configurations.
#[derive(Debug, PartialEq, Serialize)]
struct Guaranteed {
    store: String,
    phase: String,
    durability: String,
    /// What the study asks for, if the store gives something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    durability_asked: Option<String>,
    durability_means: &'static str,
    consistency: String,
    consistency_means: &'static str,
    /// Of phases with transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    isolation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    isolation_means: Option<&'static str>,
}

pub(crate) fn plan(args: &PlanArgs) -> Result<u8, Failure> {
    let prices = studies::prices(args.prices.as_deref())?;
    let mut opened = studies::open(&args.study, &args.stores)?;
    opened.set_durability(args.fit.durability)?;
    stores::choose(&mut opened.study, &args.stores)?;
    let mut configurations = opened.configurations(&mut Servers::none())?;
    // As a run would, so that what a store does not support is refused here too.
    let fit = |of: &mut ConfigurationRequest| match of.fit(args.fit.unsupported()) {
        Ok(phases) => Ok((of.store.describe(), phases)),
        Err(error) => Err(Failure::bad_input(format!("store `{}`: {error}", of.name()))),
    };
    let fitted = configurations.iter_mut().map(fit).collect::<Result<Vec<_>, _>>()?;
    let outlines: Vec<Outline<'_>> = configurations
        .iter()
        .zip(&fitted)
        .map(|(request, (description, phases))| Outline { request, description, phases })
        .collect();
    let guarantees = guarantees(&outlines);
    let parts = args.parts.zip(outlines.first()).map(|(parts, first)| shares(parts, first)).transpose()?;
    let plan = plan_run(&opened.study, &outlines);
    let cost = prices.map(|sheet| {
        let configurations = plan.configurations.iter().filter(|of| !of.control);
        let names = configurations.map(|of| (of.store.as_str(), of.configuration.as_str()));
        let cost = plan_cost(&sheet, names, plan.estimate.least_s, plan.estimate.most_s);
        PlannedCost { sheet, cost }
    });
    let (rounds, runs) = match args.pilot.as_slice() {
        [] => (None, None),
        [one] => match one.strip_prefix("history:") {
            Some(branch) => (None, Some(runs_of_history(args, branch, &plan)?)),
            None => (Some(rounds_needed(&pilot(one, &plan)?.run, args.within)), None),
        },
        several => {
            let runs = several.iter().map(|path| pilot(path, &plan)).collect::<Result<Vec<_>, _>>()?;
            different(&runs).map_err(Failure::bad_input)?;
            if let Some((of, why)) = runs.iter().find_map(|of| Some((of, of.run.run.unfinished()?))) {
                let refused = format!("{}: {why}, so its figures are partial; use runs that ended", of.name);
                return Err(Failure::bad_input(refused));
            }
            let mut entries: Vec<_> = runs.iter().map(|of| HistoryEntry::of(&of.run, None, None)).collect();
            entries.sort_by(|a, b| a.began.cmp(&b.began));
            (None, Some(runs_needed(&entries, args.gate, &plan)))
        }
    };
    if args.json {
        print_json(&Printed { format: "storebench-plan/2", plan, guarantees, parts, cost, rounds, runs })?;
        return Ok(0);
    }
    let mut out = plan.to_string();
    out += &cost.as_ref().map(money).unwrap_or_default();
    out += &parts.as_ref().map(Shares::in_words).unwrap_or_default();
    out += &rounds.as_ref().map(in_words).unwrap_or_default();
    out += &runs.as_ref().map(|runs| format!("\n{}", runs.in_words())).unwrap_or_default();
    out += "\nguarantees\n";
    for (configuration, phases, guarantee) in alike(&guarantees, opened.study.phases.len()) {
        out += &format!(
            "  {configuration}, {phases}: durability {} ({}{}), reads {} ({})",
            guarantee.durability,
            guarantee.durability_asked.as_ref().map_or_else(String::new, |asked| format!("asked for: {asked}; ")),
            guarantee.durability_means,
            guarantee.consistency,
            guarantee.consistency_means
        );
        if let (Some(isolation), Some(means)) = (&guarantee.isolation, guarantee.isolation_means) {
            out += &format!(", isolation {isolation} ({means})");
        }
        out += "\n";
    }
    let unasked = configurations.iter().filter(|of| !of.store.capabilities().embedded).map(|of| &*of.store_name);
    let unasked: Vec<&str> = unasked.collect::<IndexSet<_>>().into_iter().collect();
    if !unasked.is_empty() {
        out += &format!(
            "  {} {} not asked: this is what the store can guarantee. `run` asks, and refuses what a server is not \
             configured for\n",
            unasked.join(", "),
            if unasked.len() == 1 { "was" } else { "were" }
        );
    }
    print(&out)?;
    Ok(0)
}

/// Reads an earlier run of the study.
fn pilot(path: &str, plan: &Plan) -> Result<OneRun, Failure> {
    let pilot = OneRun::read(path).map_err(|error| Failure::bad_input(format!("{path}: {error}")))?;
    let phases = |plan: &Plan| plan.phases.iter().map(|phase| phase.name.clone()).collect::<Vec<_>>();
    if phases(&pilot.run.plan) != phases(plan) {
        return Err(Failure::bad_input(format!(
            "{path}: this is a run of another study: its phases are {}; use a run of this one",
            phases(&pilot.run.plan).join(", ")
        )));
    }
    Ok(pilot)
}

/// How many runs a gate needs, by the runs of the study in the history.
fn runs_of_history(args: &PlanArgs, branch: &str, plan: &Plan) -> Result<RunsNeeded, Failure> {
    let history = HistoryBaseline::open(&args.history, branch, usize::MAX).map_err(Failure::bad_input)?;
    let mut entries = history.into_entries();
    entries.retain(|entry| entry.title == plan.title);
    match entries.is_empty() {
        true => Err(Failure::bad_input(format!("the history has no run of the study `{}`", plan.title))),
        false => Ok(runs_needed(&entries, args.gate, plan)),
    }
}

/// What each phase is guaranteed. If all configurations of a store have the same guarantees, they are listed once, by the
/// store's name.
fn guarantees(configurations: &[Outline<'_>]) -> Vec<Guaranteed> {
    let mut by_store: IndexMap<String, Vec<(String, Vec<Guaranteed>)>> = IndexMap::new();
    for Outline { request, phases, .. } in configurations {
        let can = request.store.capabilities();
        let mut guarantees = Vec::new();
        for (phase, resolved) in request.study.phases.iter().zip(*phases) {
            let plan = resolved.guarantees();
            let consistency = can.consistency.iter().find(|(level, _)| *level == plan.consistency);
            guarantees.push(Guaranteed {
                store: request.store_name.clone(),
                phase: phase.name.clone(),
                durability: plan.durability.to_string(),
                durability_asked: plan.durability_asked_in_words(),
                durability_means: plan.durability_means,
                consistency: plan.consistency.to_string(),
                consistency_means: consistency.map_or("", |(_, means)| means),
                isolation: plan.isolation.map(|(isolation, _)| isolation.to_string()),
                isolation_means: plan.isolation.map(|(_, means)| means),
            });
        }
        by_store.entry(request.store_name.clone()).or_default().push((request.name(), guarantees));
    }
    let mut told = Vec::new();
    for (_, configurations) in by_store {
        let all_alike = configurations.windows(2).all(|pair| pair[0].1 == pair[1].1);
        for (name, guarantees) in configurations.into_iter().take(if all_alike { 1 } else { usize::MAX }) {
            let named = |p: Guaranteed| if all_alike { p } else { Guaranteed { store: name.clone(), ..p } };
            told.extend(guarantees.into_iter().map(named));
        }
    }
    told
}

/// Groups the phases of a store that have the same guarantees; `of` is the total number of phases.
fn alike(guarantees: &[Guaranteed], of: usize) -> Vec<(&str, String, &Guaranteed)> {
    let mut groups: Vec<(&Guaranteed, Vec<&str>)> = Vec::new();
    for p in guarantees {
        let same = |(other, _): &&mut (&Guaranteed, Vec<&str>)| {
            (&other.store, &other.durability, &other.durability_asked, &other.consistency, &other.isolation)
                == (&p.store, &p.durability, &p.durability_asked, &p.consistency, &p.isolation)
        };
        match groups.iter_mut().find(same) {
            Some((_, phases)) => phases.push(&p.phase),
            None => groups.push((p, vec![&p.phase])),
        }
    }
    let told = |phases: Vec<&str>| if phases.len() == of { "every phase".to_owned() } else { phases.join(" and ") };
    groups.into_iter().map(|(p, phases)| (p.store.as_str(), told(phases), p)).collect()
}
