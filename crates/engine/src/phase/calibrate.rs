//! The client's own cost of an operation: runs the same plan on a store that does nothing.
//!
//! An embedded store works on the worker's own thread, so its CPU time cannot be separated from the client's by
//! observation. What remains on the null store is the client's.

use std::sync::Arc;
use std::time::Duration;

use super::clock::RealClock;
use super::guarantees::Guarantees;
use super::plan::{Amount, PhasePlan};
use super::run::{PhaseContext, Written, run_phase};
use super::stop::Stop;
use crate::store::{AnyStore, Durability, NullStore, StoreError};
use storebench_documents::Catalog;
use storebench_study::Part;
use storebench_study::workload::{ConsistencyCheck, Phase};

/// How long each label is measured.
const EACH: Duration = Duration::from_millis(60);

/// Measures one worker of this plan on the null store, label by label, for about 60 ms each. Returns the client's own
/// CPU time per operation of each label, in the order of the plan, in ns.
///
/// # Errors
/// As [`run_phase`].
pub fn calibrate(plan: &PhasePlan, catalog: &Arc<Catalog>, clock: &RealClock) -> Result<Vec<f64>, StoreError> {
    let store: Arc<dyn AnyStore> = Arc::new(NullStore::new());
    let mut cpu_ns_per_op = Vec::new();
    for recipe in &plan.recipes {
        // No key can be drawn from a trace that begins with nothing.
        if plan.trace.is_some() && catalog.get(recipe.label.collection).count() == 0 && !recipe.label.kind.inserts() {
            cpu_ns_per_op.push(0.0);
            continue;
        }
        let plan = PhasePlan {
            recipes: vec![recipe.clone()],
            phase: Phase {
                workers: 1,
                connections: 1,
                in_flight: 1,
                consistency_check: ConsistencyCheck::default(),
                ..plan.phase.clone()
            },
            rate: None,
            trace: None,
            answers: None,
            think_ns: 0,
            ledger: false,
            followed: None,
            processors: Vec::new(),
            part: Part::WHOLE,
            guarantees: Guarantees { durability: Durability::MEMORY, ..plan.guarantees },
            amount: match plan.amount {
                Amount::Load => Amount::Load,
                _ => Amount::Duration(EACH.as_nanos() as u64),
            },
            ..plan.clone()
        };
        let stop = Arc::new(Stop::new());
        let context = PhaseContext {
            catalog: Arc::clone(catalog),
            clock: clock.clone(),
            stop: Arc::clone(&stop),
            seed: 1,
            interval: Duration::from_secs(1),
            begin: None,
            written: &mut Written::default(),
            companions: Vec::new(),
            gone: &|| false,
            observer: &mut |_: &super::Event<'_>| {},
        };
        let record = std::thread::scope(|scope| {
            // A load has no time limit, so it is cut short.
            let watch = (plan.amount == Amount::Load).then(|| {
                let (done, wait) = std::sync::mpsc::channel::<()>();
                scope.spawn(move || {
                    if wait.recv_timeout(EACH).is_err_and(|e| e == std::sync::mpsc::RecvTimeoutError::Timeout) {
                        stop.ask();
                    }
                });
                done
            });
            let record = run_phase(&store, &plan, context);
            drop(watch);
            record
        })?;
        let cpu: u64 = record.worker_use.iter().map(|u| u.cpu_ns).sum();
        cpu_ns_per_op.push(cpu as f64 / record.operations().max(1) as f64);
    }
    Ok(cpu_ns_per_op)
}
