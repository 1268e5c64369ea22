//! Computes each part's share for `plan --parts`: the operations, network throughput and client CPU of one machine.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::Serialize;
use storebench_documents::schedule::Rate;
use storebench_documents::{Catalog, Documents};
use storebench_engine::{Ask, PhasePlan, RealClock, Recipe, ResolvedPhase, calibrate};
use storebench_lab::plan::Outline;
use storebench_results::human::{bytes, count, digits, duration, rate};
use storebench_study::Part;

use crate::failure::Failure;

/// The share of each part.
#[derive(Debug, Serialize)]
pub(super) struct Shares {
    /// The number of parts.
    of: u32,
    /// The share of each phase. The shares of all parts are equal, up to one operation per worker.
    phases: Vec<Share>,
}

/// One part's share of a phase.
#[derive(Debug, Serialize)]
struct Share {
    phase: String,
    workers: u32,
    /// The maximum number of operations in flight.
    in_flight: u64,
    /// Operations per second at the highest rate of the schedule. Omitted in a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    per_s: Option<f64>,
    /// The number of operations, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    operations: Option<u64>,
    /// The number of documents that a load writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    documents: Option<u64>,
    /// The documents per second and bytes per second needed to load all documents within an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    within_an_hour: Option<(f64, f64)>,
    /// The size of the keys and documents of an operation, in bytes, without protocol overhead.
    bytes_per_op: f64,
    /// The client's CPU time per operation, in ns, without sending. Measured on this machine with the store `null:`.
    client_ns_per_op: f64,
}

/// The shares of a configuration.
pub(super) fn shares(parts: u32, Outline { request, phases: resolved, .. }: &Outline<'_>) -> Result<Shares, Failure> {
    let mut phases = Vec::new();
    let catalog = &request.documents.catalog;
    let refused = |error| Failure::bad_input(format!("store `{}`: {error}", request.name()));
    for (phase, resolved) in request.study.phases.iter().zip(*resolved) {
        let ResolvedPhase::Operations(plan) = resolved else {
            return Err(Failure::bad_input(format!(
                "phase `{}` copies files, which only one process can do; plan without --parts",
                phase.name
            )));
        };
        if !plan.recipes.is_empty() {
            let plan = plan.clone().of_part(Part { number: 1, of: parts }).map_err(refused)?;
            phases.push(share(&plan, catalog).map_err(refused)?);
        }
    }
    Ok(Shares { of: parts, phases })
}

fn share(plan: &PhasePlan, catalog: &Arc<Catalog>) -> Result<Share, storebench_engine::store::StoreError> {
    let parts = f64::from(plan.part.of);
    let workers = plan.workers / plan.part.of;
    let documents: u64 = plan.recipes.iter().map(|of| catalog.get(of.label.collection).count()).sum();
    let loads = !plan.load.is_empty();
    // Loads write each collection completely; mixes draw recipes by weight.
    let weight = |of: &Recipe| match loads {
        true => catalog.get(of.label.collection).count() as f64 / f64::from(of.label.batch),
        false => of.weight,
    };
    let total: f64 = plan.recipes.iter().map(weight).sum();
    let mean = |of: &dyn Fn(usize, &Recipe) -> f64| {
        plan.recipes.iter().enumerate().map(|(nth, recipe)| of(nth, recipe) * weight(recipe)).sum::<f64>() / total
    };
    let cost = calibrate(plan, catalog, &RealClock::new())?;
    let bytes_per_op = mean(&|_, recipe| moved(recipe, catalog.get(recipe.label.collection)));
    let all_bytes: f64 = plan
        .recipes
        .iter()
        .map(|of| catalog.get(of.label.collection))
        .map(|of| of.count() as f64 * of.mean_bytes() as f64)
        .sum();
    Ok(Share {
        phase: plan.name.clone(),
        workers,
        in_flight: u64::from(workers) * u64::from(plan.connections) * u64::from(plan.in_flight),
        per_s: plan.rate.as_ref().map(|(rate, _)| highest(rate) / parts),
        operations: plan.operations(catalog).filter(|_| !loads).map(|all| all / u64::from(plan.part.of)),
        documents: loads.then(|| documents / u64::from(plan.part.of)),
        within_an_hour: loads.then(|| (documents as f64 / 3_600.0 / parts, all_bytes / 3_600.0 / parts)),
        bytes_per_op,
        client_ns_per_op: mean(&|nth, _| cost.get(nth).copied().unwrap_or(0.0)),
    })
}

/// The size of the keys and documents of an operation, in bytes.
fn moved(recipe: &Recipe, of: &Documents) -> f64 {
    let documents = match &recipe.ask {
        Ask::Page(_, limit) | Ask::Prefix(_, limit) | Ask::Scan(limit) | Ask::View(_, _, limit) => *limit,
        _ => recipe.label.batch,
    };
    let mut key = Vec::new();
    of.write_key(0, &mut key);
    f64::from(documents) * (of.mean_bytes() as f64 + key.len() as f64)
}

/// The highest rate of a schedule, in operations per second.
fn highest(rate: &Rate) -> f64 {
    match rate {
        Rate::Constant(per_s) => *per_s,
        Rate::Ramp { from, to, .. } => from.max(*to),
        Rate::Steps(steps) => steps.iter().map(|(_, per_s)| *per_s).fold(0.0, f64::max),
    }
}

impl Shares {
    /// Formats the shares as text.
    pub(super) fn in_words(&self) -> String {
        let mut out = format!("\neach of {} parts\n", self.of);
        for of in &self.phases {
            let _ = write!(out, "  {}: ", of.phase);
            if let Some(n) = of.documents {
                let _ = write!(out, "{} documents, ", count(n));
            } else if let Some(n) = of.operations {
                let _ = write!(out, "{} operations, ", count(n));
            }
            if let Some(per_s) = of.per_s {
                let _ = write!(out, "up to {}/s, at most {} each way, ", rate(per_s), bits(per_s * of.bytes_per_op));
            }
            if let Some((documents, per_s)) = of.within_an_hour {
                let _ = write!(out, "{} documents/s and {} to load within an hour, ", rate(documents), bits(per_s));
            }
            let _ = writeln!(out, "{} workers, {} in flight", of.workers, count(of.in_flight));
            let _ = writeln!(
                out,
                "    per operation: {} of keys and documents; {} of client CPU here without sending{}",
                bytes(of.bytes_per_op),
                duration(of.client_ns_per_op),
                of.per_s.map_or_else(String::new, |per_s| format!(
                    " ({} cores at this rate)",
                    digits(per_s * of.client_ns_per_op / 1e9)
                ))
            );
        }
        out
    }
}

/// Formats a throughput in bits per second, as usual for networks.
fn bits(bytes_per_s: f64) -> String {
    let bits = bytes_per_s * 8.0;
    if bits >= 1e9 { format!("{} Gbit/s", digits(bits / 1e9)) } else { format!("{} Mbit/s", digits(bits / 1e6)) }
}
