//! One phase as it runs: what is measured beside it, and what of it the result keeps.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use storebench_documents::schedule::Rate;
use storebench_engine::measure::{Partial, PartialCause, PhaseRecord};
use storebench_engine::store::{OpKind, StoreError};
use storebench_engine::{Begin, Companion, Observer, PhaseContext, PhasePlan, ResolvedPhase, calibrate, run_phase};
use storebench_results::bottleneck::Bottleneck;
use storebench_results::environment::port_of;
use storebench_results::plan::PlannedTrial;
use storebench_results::{FaultResult, Pass, PhaseResult, ResourcesResult, gather_phase, judge_limits};
use storebench_study::mix64;
use storebench_study::workload::{Database, Phase};

use super::faults::{Breaker, untold};
use super::observe::Journal;
use super::outage::{AnswerTimeline, FaultTimes};
use super::resources::{IDLE, Sampling, StoreProcesses, limits_felt, settled, writes_for_long};
use super::runner::{Configuration, RunState};
use super::servers::Managed;
use crate::environment::is_here;

/// The maximum interval of a phase with faults.
const FAULT_INTERVAL: Duration = Duration::from_millis(100);

/// A phase, or one pass of it, that was measured.
pub(super) struct Measured {
    pub(super) found: PhaseResult,
    pub(super) partial: Option<Partial>,
    pub(super) record: PhaseRecord,
}

/// The settings of a phase that influence its figures but are not visible in them.
pub(super) fn settings_of(phase: &Phase) -> IndexMap<String, serde_json::Value> {
    let mut all = IndexMap::new();
    let whole = serde_json::to_value(phase).unwrap_or_default();
    const KEYS: [&str; 10] = [
        "popularity",
        "streams",
        "arrival",
        "think",
        "timeout",
        "retry",
        "on_disconnect",
        "trace",
        "speed",
        "pin_workers",
    ];
    for key in KEYS {
        all.insert(key.to_owned(), whole[key].clone());
    }
    for (name, entry) in phase.mix.iter().filter_map(|(name, entry)| Some((name, serde_json::to_value(entry).ok()?))) {
        for (key, value) in entry.as_object().into_iter().flatten().filter(|(key, _)| *key != "weight") {
            all.insert(format!("mix.{name}.{key}"), value.clone());
        }
    }
    if phase.compare_answers {
        all.insert("compare_answers".to_owned(), true.into());
    }
    all.retain(|_, value| !value.is_null());
    all
}

/// The seed for keys, operations and arrivals. It is the same for all configurations of a round, and different in each
/// round and each probe of a search, because repeats of one draw say nothing about other draws.
///
/// Trials that may share a database get different seeds. Otherwise the second would find in memory exactly what the
/// first had read.
fn round_seed(configuration: &Configuration, planned: &PlannedTrial, probe: u64) -> u64 {
    let round = mix64(configuration.study().seed, planned.round.into());
    let drawn =
        if configuration.study().database == Database::Kept { mix64(round, planned.trial.into()) } else { round };
    mix64(drawn, probe)
}

/// The rate of a phase, from its study or from the search.
fn plan_rate(phase: &Phase, plan: &PhasePlan) -> Option<serde_json::Value> {
    let planned = phase.rate.as_ref().and_then(|rate| serde_json::to_value(rate).ok());
    planned.or_else(|| match plan.rate {
        Some((Rate::Constant(per_s), _)) => Some(per_s.into()),
        _ => plan.is_open_loop().then(|| "as recorded".into()),
    })
}

/// Adds to each fault what clients saw of it.
fn seen_by_clients(record: &PhaseRecord, faults: &mut [FaultResult]) {
    let course = AnswerTimeline::of(record);
    for nth in 0..faults.len() {
        let next_ns = faults[nth + 1..].iter().find_map(|of| of.began_ns).unwrap_or(u64::MAX);
        let of = &mut faults[nth];
        let Some(began_ns) = of.began_ns else { continue };
        let over_ns = of.ready_ns.or(of.mended_ns).unwrap_or(began_ns);
        let seen = course.outage(FaultTimes { began_ns, over_ns, next_ns });
        of.clients_late_ns = of.ready_ns.and_then(|ready| seen.late_ns(began_ns, ready, record.sending_ns));
        of.unavailable_ns = seen.unavailable_ns;
        of.unavailable_by_op_ns = seen.by_op;
        of.first_answer_ns = seen.first_answer_ns;
        of.first_answer_by_op_ns = seen.first_by_op;
        of.recovered_ns = seen.recovered_ns;
    }
}

/// Removes ratios between what a server used and what this part asked of it: the server worked for all parts. Merging
/// computes them.
fn not_of_one_part(used: &mut ResourcesResult) {
    if let Some(store) = &mut used.store {
        store.cpu_us_per_op = None;
    }
    if let Some(disk) = &mut used.disk {
        disk.write_amplification = None;
    }
}

impl RunState<'_> {
    /// Runs one phase as planned, or as a probe of a search, and saves it.
    pub(super) fn measure(
        &mut self,
        configuration: &Configuration,
        planned: &PlannedTrial,
        position: usize,
        plan: &PhasePlan,
        probe: Option<u32>,
        journal: &mut Journal<'_>,
    ) -> Result<Measured, StoreError> {
        let phase = &configuration.study().phases[position];
        let seed = round_seed(configuration, planned, probe.unwrap_or(0).into());
        let catalog = &self.catalog(configuration);
        let which = (configuration.position, position);
        if configuration.capabilities.embedded && !plan.recipes.is_empty() && !self.calibrated.contains_key(&which) {
            self.calibrated.insert(which, calibrate(plan, catalog, &self.clock)?);
        }
        let query_plans = self.query_plans(configuration, plan, catalog, journal);
        let faults = configuration.study().faults_of(phase);
        // Data that existed before is not tested: it has become durable with time.
        if let Some(server) = &configuration.request.server
            && faults.iter().any(|fault| fault.what.is_of_disk())
        {
            server.settle_disk()?;
        }
        let mut breaker = (!faults.is_empty()).then(|| {
            let (request, stop) = (&configuration.request, Arc::clone(&self.stop));
            Breaker { request, stop, faults, happened: Vec::new() }
        });
        let limited = || configuration.request.server.as_ref().and_then(Managed::limited);
        let limited_before = limited();
        let mut sampling =
            Sampling::of(self.place(configuration), configuration.store.paths(), &endpoints(configuration));
        if writes_for_long(phase, catalog) && !self.stop.asked() {
            sampling.look_at_idle_disk(IDLE);
        }
        let mut companions: Vec<&mut dyn Companion> = vec![&mut sampling];
        // What clients see of a fault has the resolution of an interval.
        let mut interval = self.request.interval;
        if let Some(breaker) = &mut breaker {
            interval = interval.min(FAULT_INTERVAL);
            companions.push(breaker);
        }
        let died = RefCell::new(None);
        let gone = || {
            let now = configuration.request.server.as_ref().and_then(Managed::died);
            let mut died = died.borrow_mut();
            *died = now.or(died.take());
            died.is_some()
        };
        let parts = &mut self.parts;
        let several = parts.are_several();
        let begin = |observer: &mut dyn Observer| parts.begin(&plan.name, position, observer);
        let context = PhaseContext {
            begin: several.then(|| Box::new(begin) as Begin<'_>),
            catalog: Arc::clone(catalog),
            clock: self.clock.clone(),
            stop: Arc::clone(&self.stop),
            seed,
            interval,
            written: &mut self.written,
            companions,
            gone: &gone,
            observer: &mut *journal,
        };
        let record = run_phase(&configuration.store, plan, context);
        // A server that ended by itself explains a failure better than its clients do.
        gone();
        let died = died.into_inner();
        let mut record = record.map_err(|error| died.clone().unwrap_or(error))?;
        // What was measured until then, and what was lost, is kept.
        if let Some(died) = died {
            record.partial = Some(Partial { cause: PartialCause::Disconnected, why: died.to_string() });
        }
        let pass = Pass::of(probe, record.warm_up);
        journal.keep(|folder| {
            folder.add_phase(planned.trial, &configuration.request.store_name, pass, &record, sampling.taken.rows())
        });
        let happened = breaker.as_ref().map_or(&[][..], |breaker| &breaker.happened);
        if let Some(message) = untold(&record.store_stats, happened) {
            let times = record.store_stats.failed;
            journal.note(format!(
                "could not read the statistics of {} ({times} failed attempt{} in {}): {message}",
                configuration.name,
                if times == 1 { "" } else { "s" },
                plan.name
            ));
        }
        let documents = &self.documents[configuration.position];
        let calibrated = self.calibrated.get(&which).map(Vec::as_slice);
        let mut found = gather_phase(&record, documents, &configuration.capabilities, calibrated);
        if let Some(rate) = &mut found.rate {
            rate.planned = plan_rate(phase, plan).unwrap_or_default();
        }
        for (op, plan) in found.ops.values_mut().zip(query_plans) {
            op.query_plan = plan;
        }
        found.durability.asked = plan.guarantees.durability_asked_in_words();
        found.settings = settings_of(phase);
        found.limits = judge_limits(&record, &configuration.study().limits);
        found.probe = probe;
        found.resources = sampling.taken.sum(&found, self.stored(configuration, position));
        if let Some(used) = &mut found.resources {
            used.limited = limited_before.zip(limited()).map(|(before, after)| limits_felt(&before, &after));
            if several {
                not_of_one_part(used);
            }
        }
        found.bottleneck = Bottleneck::of(
            &found,
            configuration.capabilities.embedded && configuration.request.server.is_none(),
            processors(),
        );
        found.faults = breaker.map(|breaker| breaker.happened).unwrap_or_default();
        if !found.faults.is_empty() {
            seen_by_clients(&record, &mut found.faults);
        }
        self.judge_history(configuration, (planned, pass), position, catalog, (&mut record, &mut found), journal);
        for problem in found.faults.iter().filter_map(|fault| fault.problem.as_ref()) {
            journal.note(format!("{}, {}: {problem}", configuration.name, plan.name));
            record.partial.get_or_insert(Partial { cause: PartialCause::Failed, why: problem.clone() });
        }
        found.partial = record.partial.as_ref().map(|partial| partial.why.clone());
        if phase.settle.is_some() || phase.compact {
            // Then no part still sends.
            self.parts.all_at(&format!("after {}", phase.name), journal)?;
        }
        let after = self.after(configuration, phase, journal);
        if let Some(used) = &mut found.resources {
            settled(used, after.disk_bytes, self.stored(configuration, position));
        }
        found.store_after = Some(after);
        Ok(Measured { found, partial: record.partial.clone(), record })
    }

    /// Where the processes of a configuration's store are.
    fn place(&self, configuration: &Configuration) -> StoreProcesses {
        match &configuration.request.server {
            Some(server) => StoreProcesses::Managed(server.clone(), port_here(configuration)),
            None if configuration.capabilities.embedded => StoreProcesses::Here,
            None => port_here(configuration).map_or(StoreProcesses::Unknown, StoreProcesses::Port),
        }
    }

    /// The number of documents that a store filled by Storebench holds after a phase, and their bytes. `None` if they
    /// may have been deleted or grown, or are not ours.
    fn stored(&self, configuration: &Configuration, position: usize) -> Option<(u64, f64)> {
        // What was there before the run is not counted.
        if configuration.kept {
            return None;
        }
        let study = configuration.study();
        let so_far = &study.phases[..=position];
        let plans = configuration.plans[..=position].iter().filter_map(ResolvedPhase::operations);
        let kinds = plans.flat_map(PhasePlan::acts).map(|recipe| recipe.label.kind);
        let changes = |kind| matches!(kind, OpKind::Delete | OpKind::BulkDelete | OpKind::Append | OpKind::Prepend);
        if kinds.into_iter().any(changes) || study.collections.values().any(|c| c.existing.is_some()) {
            return None;
        }
        let known = self.documents.get(configuration.position)?;
        let inserted = |at: usize| self.written.inserted.get(at).copied().unwrap_or(0);
        let mut sum = (0, 0.0);
        for (at, of) in known.iter().enumerate() {
            let loaded = so_far.iter().flat_map(|phase| phase.loaded(study)).any(|name| name == of.collection);
            let count = if loaded { of.count + inserted(at) } else { inserted(at) };
            sum.0 += count;
            sum.1 += count as f64 * of.mean_bytes as f64;
        }
        Some(sum)
    }
}

/// The metrics endpoints of a configuration's servers.
fn endpoints(configuration: &Configuration) -> Vec<String> {
    let study = configuration.study();
    let Some((own, spec)) = study.server_of(&configuration.request.store_name, configuration.description.scheme) else {
        return Vec::new();
    };
    let nodes = study.nodes_of(own).flat_map(|(_, spec)| &spec.metrics);
    spec.metrics.iter().chain(nodes).cloned().collect()
}

/// The port of a configuration's server, if it is on this machine.
fn port_here(configuration: &Configuration) -> Option<u16> {
    port_of(&configuration.description.url).filter(|_| is_here(&configuration.description.url) == Some(true))
}

/// The number of processors that this process may use.
fn processors() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64)
}
