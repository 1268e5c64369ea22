//! `plan STUDY`: what would run. Stores are asked what they can do, and not touched.

use serde::Serialize;
use storebench_core::documents::Catalog;
use storebench_core::engine::PhasePlan;
use storebench_core::workload::Study;
use storebench_lab::plan::Plan;

use crate::args::PlanArgs;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::stores::Named;
use crate::{stores, studies};

/// What `plan --json` prints.
#[derive(Debug, Serialize)]
struct Printed {
    format: &'static str,
    #[serde(flatten)]
    plan: Plan,
    /// What each phase is promised on each store.
    promises: Vec<Promised>,
}

/// One phase on one store.
#[derive(Debug, Serialize)]
struct Promised {
    store: String,
    phase: String,
    durability: String,
    durability_means: &'static str,
    consistency: String,
    consistency_means: &'static str,
}

pub(crate) fn plan(args: &PlanArgs) -> Result<u8, Failure> {
    let mut opened = studies::open(&args.study)?;
    stores::choose(&mut opened.study, &args.stores)?;
    let stores = stores::open_all(&opened.study)?;
    let catalog = &opened.documents.catalog;
    let promises = promises(&opened.study, catalog, &stores)?;
    let described: Vec<_> = stores.iter().map(|(name, store)| (name.clone(), store.describe())).collect();
    let plan = Plan::of(&opened.study, catalog, opened.scale, &described);
    if args.json {
        print_json(&Printed { format: "storebench-plan/1", plan, promises })?;
        return Ok(0);
    }
    let mut out = format!("{plan}\npromises\n");
    for (store, phases, promise) in alike(&promises, opened.study.phases.len()) {
        out += &format!(
            "  {store}, {phases}: durability {} ({}), reads {} ({})\n",
            promise.durability, promise.durability_means, promise.consistency, promise.consistency_means
        );
    }
    print(&out)?;
    Ok(0)
}

/// Resolves every phase on every store, as a run would: what a store cannot do is refused here too.
fn promises(study: &Study, catalog: &Catalog, stores: &Named) -> Result<Vec<Promised>, Failure> {
    let mut promises = Vec::new();
    for (name, store) in stores {
        let can = store.capabilities();
        for phase in &study.phases {
            let plan = PhasePlan::resolve(study, phase, catalog, &can)
                .map_err(|error| Failure::bad_input(format!("store `{name}`: {error}")))?;
            promises.push(Promised {
                store: name.clone(),
                phase: plan.name,
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
    }
    Ok(promises)
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
