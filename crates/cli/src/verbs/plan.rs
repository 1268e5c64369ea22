//! `plan STUDY`: what would run. Stores are asked what they can do, and not touched.

use indexmap::IndexMap;
use serde::Serialize;
use storebench_engine::ResolvedPhase;
use storebench_engine::store::Description;
use storebench_lab::plan::{Outline, plan_run};
use storebench_lab::run::ArmRequest;
use storebench_results::cost::{PlanCost, PriceSheet, plan_cost};
use storebench_results::plan::Plan;

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
    /// What each phase is promised on each store.
    promises: Vec<Promised>,
    /// Money for the time of the plan, where a price sheet was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<PlannedCost>,
}

/// Money for the time of the plan, and the prices behind it.
#[derive(Debug, Serialize)]
struct PlannedCost {
    sheet: PriceSheet,
    #[serde(flatten)]
    cost: PlanCost,
}

/// The money of a plan in words.
fn money(sheet: &PriceSheet, cost: &PlanCost) -> String {
    let clients = if cost.with_clients { "with" } else { "without" };
    let mut text = format!(
        "money  {:.2} to {:.2} {}, {clients} the client's machines; prices of {}: {}\n",
        cost.least, cost.most, sheet.currency, sheet.date, sheet.source
    );
    if !cost.unpriced.is_empty() {
        text += &format!("       no price for {}\n", cost.unpriced.join(", "));
    }
    text
}

/// One phase of one store, or of one of its arms where they are promised different things.
#[derive(Debug, PartialEq, Serialize)]
struct Promised {
    store: String,
    phase: String,
    durability: String,
    durability_means: &'static str,
    consistency: String,
    consistency_means: &'static str,
}

pub(crate) fn plan(args: &PlanArgs) -> Result<u8, Failure> {
    let prices = args.prices.as_deref().map(PriceSheet::read).transpose()?;
    let mut opened = studies::open(&args.study)?;
    stores::choose(&mut opened.study, &args.stores)?;
    let arms = opened.arms(&mut Servers::none())?;
    let promises = promises(&arms)?;
    let described: Vec<Description> = arms.iter().map(|arm| arm.store.describe()).collect();
    let outlines: Vec<Outline<'_>> =
        arms.iter().zip(&described).map(|(request, description)| Outline { request, description }).collect();
    let plan = plan_run(&opened.study, &outlines);
    let cost = prices.map(|sheet| {
        let arms = plan.arms.iter().map(|arm| (arm.store.as_str(), arm.arm.as_str()));
        let cost = plan_cost(&sheet, arms, plan.estimate.least_s, plan.estimate.most_s);
        (sheet, cost)
    });
    if args.json {
        let cost = cost.map(|(sheet, cost)| PlannedCost { sheet, cost });
        print_json(&Printed { format: "storebench-plan/1", plan, promises, cost })?;
        return Ok(0);
    }
    let mut out = plan.to_string();
    if let Some((sheet, cost)) = &cost {
        out += &money(sheet, cost);
    }
    out += "\npromises\n";
    for (arm, phases, promise) in alike(&promises, opened.study.phases.len()) {
        out += &format!(
            "  {arm}, {phases}: durability {} ({}), reads {} ({})\n",
            promise.durability, promise.durability_means, promise.consistency, promise.consistency_means
        );
    }
    print(&out)?;
    Ok(0)
}

/// Resolves every phase of every arm, as a run would: what a store cannot do is refused here too. Arms of one store
/// that are promised the same are told once, by the store's name.
fn promises(arms: &[ArmRequest]) -> Result<Vec<Promised>, Failure> {
    let mut by_store: IndexMap<&str, Vec<(String, Vec<Promised>)>> = IndexMap::new();
    for arm in arms {
        let can = arm.store.capabilities();
        let mut promises = Vec::new();
        for phase in &arm.study.phases {
            let plan = ResolvedPhase::of(&arm.study, phase, &arm.documents.catalog, &can)
                .map_err(|error| Failure::bad_input(format!("store `{}`: {error}", arm.name())))?
                .promises();
            promises.push(Promised {
                store: arm.store_name.clone(),
                phase: phase.name.clone(),
                durability: plan.durability.to_string(),
                durability_means: plan.durability_means,
                consistency: plan.consistency.to_string(),
                consistency_means: can
                    .consistency
                    .iter()
                    .find(|(c, _)| *c == plan.consistency)
                    .map_or("", |(_, means)| means),
            });
        }
        by_store.entry(&arm.store_name).or_default().push((arm.name(), promises));
    }
    let mut told = Vec::new();
    for (_, arms) in by_store {
        let all_alike = arms.windows(2).all(|pair| pair[0].1 == pair[1].1);
        for (name, promises) in arms.into_iter().take(if all_alike { 1 } else { usize::MAX }) {
            let named = |p: Promised| if all_alike { p } else { Promised { store: name.clone(), ..p } };
            told.extend(promises.into_iter().map(named));
        }
    }
    Ok(told)
}

/// Phases that are promised the same on one store, told together; `of` is how many phases there are.
fn alike(promises: &[Promised], of: usize) -> Vec<(&str, String, &Promised)> {
    let mut groups: Vec<(&Promised, Vec<&str>)> = Vec::new();
    for p in promises {
        let same = |(other, _): &&mut (&Promised, Vec<&str>)| {
            (&other.store, &other.durability, &other.consistency) == (&p.store, &p.durability, &p.consistency)
        };
        match groups.iter_mut().find(same) {
            Some((_, phases)) => phases.push(&p.phase),
            None => groups.push((p, vec![&p.phase])),
        }
    }
    let told = |phases: Vec<&str>| if phases.len() == of { "every phase".to_owned() } else { phases.join(" and ") };
    groups.into_iter().map(|(p, phases)| (p.store.as_str(), told(phases), p)).collect()
}
