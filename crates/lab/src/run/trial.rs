//! One trial: prepares a store, runs the phases, and closes it.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use storebench_documents::schedule::Rate;
use storebench_documents::{Catalog, Documents};
use storebench_engine::ledger::TrialLedger;
use storebench_engine::measure::{Partial, PartialCause, PhaseRecord};
use storebench_engine::store::{Namespace, OpKind, Prepare, StoreError, Support};
use storebench_engine::{
    Begin, Companion, Observer, PhaseContext, PhasePlan, ResolvedPhase, Written, calibrate, run_phase,
};
use storebench_machine::Processors;
use storebench_results::answer::in_one_line;
use storebench_results::bottleneck::Bottleneck;
use storebench_results::environment::port_of;
use storebench_results::human::count;
use storebench_results::plan::PlannedTrial;
use storebench_results::validity::{PREPARE, spoiled};
use storebench_results::{
    CollectionResult, Failure, FailureKind, FaultResult, Pass, PhaseResult, ProbeResult, ResourcesResult, RunResult,
    SampledResult, SearchResult, TrialResult, gather_phase, judge_limits,
};
use storebench_study::mix64;
use storebench_study::workload::{Database, Limit, LimitPath, Phase, RateSearch, RateSpec};

use super::faults::{Breaker, untold};
use super::foreign;
use super::indexes::before_which;
use super::ledgers::ledger_share;
use super::observe::Journal;
use super::outage::{AnswerTimeline, FaultTimes};
use super::resources::{IDLE, Sampling, StoreProcesses, limits_felt, settled, writes_for_long};
use super::runner::{Configuration, Session, loads};
use super::servers::{Managed, Started};
use crate::environment::is_here;
use crate::search::{Search, Step};

/// The settings of a phase that influence its figures but are not visible in them.
fn settings_of(phase: &Phase) -> IndexMap<String, serde_json::Value> {
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

/// Whether a phase found everything that it asked for. A database that lost documents, or could not be checked, is not
/// kept.
fn found_all(trial: &TrialResult, phase: &PhaseResult) -> bool {
    let lost = phase.ledger.as_ref().is_some_and(|ledger| ledger.lost > 0);
    !lost
        && !spoiled(trial, phase)
        && phase.ops.values().all(|op| op.errors == 0 && op.misses == 0 && op.unfinished == 0)
}

/// The rate of a phase, from its study or from the search.
fn plan_rate(phase: &Phase, plan: &PhasePlan) -> Option<serde_json::Value> {
    let planned = phase.rate.as_ref().and_then(|rate| serde_json::to_value(rate).ok());
    planned.or_else(|| match plan.rate {
        Some((Rate::Constant(per_s), _)) => Some(per_s.into()),
        _ => plan.is_open_loop().then(|| "as recorded".into()),
    })
}

/// The maximum interval of a phase with faults.
const FAULT_INTERVAL: Duration = Duration::from_millis(100);

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

/// How far a probe counts for the result of a search: first whether it met the limits, then how long it lasted.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
struct Standing {
    met: bool,
    times: u32,
    rate: f64,
}

/// A phase, or one pass of it, that was measured.
struct Measured {
    found: PhaseResult,
    partial: Option<Partial>,
    record: PhaseRecord,
}

impl Session<'_> {
    /// Runs a trial into `result`, which is written after every phase.
    pub(super) fn trial(
        &mut self,
        configuration: &Configuration,
        planned: &PlannedTrial,
        last: bool,
        of: usize,
        result: &mut RunResult,
        journal: &mut Journal<'_>,
    ) {
        self.parts.trial_begins(planned.trial);
        journal.enter(planned.trial, &configuration.name);
        journal.log(serde_json::json!({ "event": "trial-began", "round": planned.round }));
        if of > 1 {
            let at_most = if result.plan.until.is_some() { "at most " } else { "" };
            journal.note(format!("trial {} of {at_most}{of}: {}", planned.trial, configuration.name));
        }
        journal.began(planned.trial, of, &configuration.name);
        let at = result.trials.len();
        // Forget it until this trial is complete: an incomplete load must not be kept.
        let holds = self.holds.remove(&configuration.location);
        let kept = configuration.study().database == Database::Kept && holds.as_ref() == Some(&configuration.load_key);
        result.trials.push(TrialResult {
            database_kept: kept,
            host: planned.host.clone(),
            ..describe(configuration, planned, self.documents.get(configuration.position).map_or(&[], Vec::as_slice))
        });
        let fail = |result: &mut RunResult, during: &str, error: &StoreError| {
            result.trials[at].failure.get_or_insert_with(|| failure(error.into(), during, error.to_string()));
        };
        self.touched.insert(configuration.location.clone(), configuration.position);
        let start =
            |server: &Managed| server.limit(configuration.study()).and_then(|()| server.start(&*configuration.store));
        let started = configuration.request.server.as_ref().map(start).transpose();
        let took = |started: Started| started.ready.as_nanos() as u64;
        let ready = started.map(|started| result.trials[at].server_ready_ns = started.map(took));
        let prepared = ready.and_then(|()| self.prepare_together(configuration, kept, journal));
        let sampled = prepared.and_then(|()| self.sample(configuration, journal));
        let tried = sampled.and_then(|sampled| self.try_in_own_words(configuration, kept).map(|()| sampled));
        match tried.and_then(|sampled| self.try_sessions(configuration).map(|()| sampled)) {
            Err(error) => fail(result, PREPARE, &error),
            Ok(sampled) => {
                self.discarded.insert(configuration.location.clone());
                result.trials[at].sampled = sampled;
                // A server may report its version only after a first request.
                result.trials[at].version = configuration.store.describe().version;
                self.written = Written { trial_ledger: self.trial_ledger(configuration), ..Written::default() };
                for position in 0..configuration.plans.len() {
                    if self.stop.asked() {
                        result.run.interrupted = true;
                        break;
                    }
                    let loads = configuration.study().phases[position].loads();
                    if kept && loads {
                        continue;
                    }
                    let ready = self.before_mixes(configuration, position, at, result, journal);
                    let ended = ready.and_then(|()| self.phase(configuration, planned, position, at, result, journal));
                    if let Err(error) = ended {
                        fail(result, &configuration.study().phases[position].name, &error);
                    }
                    self.kept.soon(&self.request.study.published, journal, result);
                    if result.trials[at].failure.is_some() || result.run.interrupted {
                        break;
                    }
                }
                let ended = |result: &RunResult| result.trials[at].failure.is_none() && !result.run.interrupted;
                if before_which(configuration.study()).is_none()
                    && !self.stop.asked()
                    && ended(result)
                    && let Err(error) = self.build_indexes(configuration, at, result, journal)
                {
                    fail(result, "indexes", &error);
                }
                let trial = &result.trials[at];
                if ended(result) {
                    let found_all = trial.phases.iter().all(|p| found_all(trial, p));
                    match self.parts.trial_ended(found_all, journal) {
                        Ok(true) => {
                            self.holds.insert(configuration.location.clone(), configuration.load_key.clone());
                        }
                        Ok(false) => {}
                        Err(error) => fail(result, "end", &error),
                    }
                }
            }
        }
        if let Some(failure) = result.trials[at].failure.as_mut().filter(|_| self.parts.others_failed()) {
            failure.kind = FailureKind::OtherPart;
        }
        if let Some(failure) = &result.trials[at].failure {
            self.parts.failed(&failure.message, journal);
        } else if result.run.interrupted {
            self.parts.failed("interrupted", journal);
        }
        if self.request.remove_after && last {
            self.touched.remove(&configuration.location);
            if let Err(error) = configuration.store.remove() {
                fail(result, "remove", &error);
            }
        }
        if let Err(error) = configuration.store.close() {
            fail(result, "close", &error);
        }
        if let Some(Err(error)) = configuration.request.server.as_ref().map(Managed::stop) {
            fail(result, "stop", &error);
        }
        // The end of the run tells all of it, and of a single trial at once.
        if let Some(failure) = result.trials[at].failure.as_ref().filter(|_| of > 1) {
            let why = in_one_line(&failure.message);
            journal.note(format!("{} ended early, in {}: {why}", configuration.name, failure.during));
        }
        journal.log(serde_json::json!({ "event": "trial-ended" }));
        self.kept.soon(&self.request.study.published, journal, result);
    }

    /// Removes what a store still holds after the last trial, if that was interrupted or later trials never started.
    pub(super) fn remove(&mut self, configuration: &Configuration, result: &mut RunResult, journal: &mut Journal<'_>) {
        if self.touched.get(&configuration.location) != Some(&configuration.position) {
            return;
        }
        self.touched.remove(&configuration.location);
        let server = configuration.request.server.as_ref();
        let removed = server.map_or(Ok(()), |server| server.start(&*configuration.store).map(drop));
        let removed = removed.and_then(|()| configuration.store.remove()).and_then(|()| configuration.store.close());
        if let Err(error) = removed.and_then(|()| server.map_or(Ok(()), Managed::stop)) {
            journal.note(format!("could not remove Storebench's data from {}: {error}", configuration.name));
            if let Some(trial) = result.trials.iter_mut().rev().find(|t| t.configuration == configuration.name) {
                trial.failure.get_or_insert_with(|| failure((&error).into(), "remove", error.to_string()));
            }
        }
    }

    /// An empty ledger, if a phase of this configuration keeps one.
    fn trial_ledger(&self, configuration: &Configuration) -> TrialLedger {
        if !configuration.operations().any(|plan| plan.ledger) {
            return TrialLedger::default();
        }
        let catalog = self.catalog(configuration);
        TrialLedger::new(
            configuration.study().seed,
            catalog.iter().map(Documents::count).sum(),
            ledger_share(configuration.study()),
        )
    }

    /// Prepares the store. Of several parts, the first one empties it, and the others use what it has made.
    fn prepare_together(
        &mut self,
        configuration: &Configuration,
        kept: bool,
        journal: &mut Journal<'_>,
    ) -> Result<(), StoreError> {
        if self.parts.leads() {
            self.parts.may_prepare()?;
            self.prepare(configuration, kept)?;
            // Preparing may have taken long.
            self.parts.may_prepare()?;
            return self.parts.prepared(journal);
        }
        self.parts.prepared(journal)?;
        if configuration.store.inspect()? == Namespace::Absent {
            return Err(StoreError::NotSupported(format!(
                "part 1 has prepared nothing at {}; give all parts a URL that means the same store on every machine",
                configuration.description.url
            )));
        }
        let how = match configuration.prepare {
            how @ (Prepare::ReadOnly | Prepare::IntoExisting | Prepare::WriteExisting) => how,
            Prepare::Fresh | Prepare::Discard | Prepare::Keep | Prepare::Copy(_) => Prepare::Keep,
        };
        configuration.store.prepare(&configuration.study().into(), how)
    }

    fn prepare(&self, configuration: &Configuration, kept: bool) -> Result<(), StoreError> {
        let how = match configuration.prepare {
            Prepare::Fresh | Prepare::Discard if kept => Prepare::Keep,
            // The original data is gone. Nobody has agreed to delete what a copy has written there since.
            Prepare::Discard if self.discarded.contains(&configuration.location) => Prepare::Fresh,
            how => how,
        };
        // Next to foreign data, only what an earlier round or run of Storebench wrote is removed. Otherwise a load
        // would find its own documents.
        if how == Prepare::IntoExisting && !kept && loads(configuration.study()) && !self.request.prepare.keeps() {
            configuration.store.remove()?;
        }
        configuration.store.prepare(&configuration.study().into(), how)
    }

    /// Samples the documents of a store that Storebench did not fill, at its first trial, so that every round asks for
    /// the same keys.
    fn sample(
        &mut self,
        configuration: &Configuration,
        journal: &mut Journal<'_>,
    ) -> Result<IndexMap<String, SampledResult>, StoreError> {
        let study = configuration.study();
        if !study.reads_only() {
            return Ok(IndexMap::new());
        }
        if let Some(known) = self.foreign.get(&configuration.load_key) {
            return Ok(known.sampled.clone());
        }
        let found =
            foreign::sample(configuration, study, &configuration.request.documents.catalog, &self.clock, &self.stop)?;
        for sampled in found.sampled.values() {
            journal.note(format!(
                "{}: {} keys of `{}` sampled",
                configuration.name,
                count(sampled.keys),
                sampled.existing
            ));
        }
        Ok(self.foreign.entry(configuration.load_key.clone()).or_insert(found).sampled.clone())
    }

    /// The documents as this store holds them.
    pub(super) fn catalog(&self, configuration: &Configuration) -> Arc<Catalog> {
        Arc::clone(
            self.foreign
                .get(&configuration.load_key)
                .map_or(&configuration.request.documents.catalog, |found| &found.catalog),
        )
    }

    /// Runs one phase. If the study searches for its rate, runs it at the highest rate within the study's limits.
    fn phase(
        &mut self,
        configuration: &Configuration,
        planned: &PlannedTrial,
        position: usize,
        at: usize,
        result: &mut RunResult,
        journal: &mut Journal<'_>,
    ) -> Result<(), StoreError> {
        let phase = &configuration.study().phases[position];
        let restarted = self.restart(configuration, phase, journal)?;
        if restarted.is_some() {
            self.restarted(configuration, position);
        }
        let search = configuration.study().search.as_ref().filter(|search| search.phase == phase.name);
        let (mut found, partial) = match (&configuration.plans[position], search) {
            (ResolvedPhase::Copy(copy), _) => {
                // A copy sends again what got no answer, so it may arrive twice.
                self.written.unsettled = self.written.unsettled.saturating_add(1);
                self.copy(configuration, planned, position, copy, journal)?
            }
            (ResolvedPhase::Operations(_), Some(search)) => {
                let (search, found, partial) =
                    self.search(configuration, planned, &result.trials[at], position, search, journal)?;
                result.trials[at].searches.push(search);
                (found, partial)
            }
            (ResolvedPhase::Operations(plan), None) => {
                let plan = configuration.now(plan, result.trials[at].database_kept);
                let Measured { mut found, partial, mut record } =
                    self.measure(configuration, planned, position, &plan, None, journal)?;
                found.answers = self.compare_answers(&plan, &mut record, at, result, journal);
                (found, partial)
            }
        };
        match &partial {
            // The user interrupted it; the store did not fail.
            Some(_) if self.stop.asked() => result.run.interrupted = true,
            Some(partial) => {
                let kind = match partial.cause {
                    PartialCause::Disconnected => FailureKind::Unreachable,
                    PartialCause::NoKeys => FailureKind::CutShort,
                    PartialCause::Interrupted | PartialCause::Failed => FailureKind::Failed,
                };
                result.trials[at].failure = Some(failure(kind, &phase.name, partial.why.clone()));
            }
            None => {}
        }
        found.restarted = restarted;
        result.trials[at].phases.push(found);
        Ok(())
    }

    /// Runs a phase at one rate after another. Returns the search, and the phase at the highest rate that met the
    /// limits (at the first rate if none did).
    fn search(
        &mut self,
        configuration: &Configuration,
        planned: &PlannedTrial,
        trial: &TrialResult,
        position: usize,
        wanted: &RateSearch,
        journal: &mut Journal<'_>,
    ) -> Result<(SearchResult, PhaseResult, Option<Partial>), StoreError> {
        let mut search = Search::new(wanted);
        let mut best: Option<(Standing, PhaseResult)> = None;
        // What to show if no rate holds: the longest probe at the first rate, which did not meet the limits.
        let mut lowest: Option<(u32, PhaseResult)> = None;
        let out = loop {
            let (number, rate, why, times) = match search.next() {
                Step::Probe { number, rate, why, times } => (number, rate, why, times),
                Step::Done(found) => break found,
            };
            // Otherwise the leftovers of the previous rate would count against this one.
            let rested = match configuration.store.settle(wanted.rest.0) {
                Ok(rested) => Some(rested),
                Err(error) => {
                    journal.note(format!("could not wait for {} to settle: {error}", configuration.name));
                    None
                }
            };
            let probe = self.at_rate(configuration, position, rate, times)?;
            // Use different keys and arrivals each time: the same ones would confirm nothing.
            let Measured { mut found, partial, record } =
                self.measure(configuration, planned, position, &probe, Some(number), journal)?;
            // An interrupted probe says nothing about its rate; earlier results stay valid.
            if self.stop.asked() {
                let why = "interrupted before the search ended".to_owned();
                let partial = partial.unwrap_or(Partial { cause: PartialCause::Interrupted, why: why.clone() });
                found.partial.get_or_insert(why);
                return Ok((search.so_far(), found, Some(partial)));
            }
            let pooled = self.parts.probed(&record, rested, journal)?;
            let (judged, partial, rested) = match pooled {
                Some((record, rested)) => (self.judged(configuration, position, &record), record.partial, rested),
                None => (found.clone(), partial, rested),
            };
            let met = partial.is_none() && judged.limits.iter().all(|limit| limit.met);
            journal.note(format!(
                "{} at {}/s{}: limits {}",
                wanted.phase,
                storebench_results::human::rate(rate),
                if times == 1 { String::new() } else { format!(", {times} times as long") },
                if met { "are met" } else { "are not met" }
            ));
            search.tell(ProbeResult {
                rate,
                why,
                times,
                met,
                limits: judged.limits.clone(),
                achieved_per_s: judged.rate.as_ref().map_or(0.0, |r| r.achieved_per_s),
                in_flight_share: judged.in_flight_share,
                send_delay_p99_ns: judged.client.send_delay_ns.p99,
                rested,
            });
            let standing = Standing { met, times, rate };
            let better = best.as_ref().is_none_or(|(before, _)| met && standing >= *before);
            // Lost or wrong documents at any rate must be in the result, whatever rate is found.
            // What a part's own phases did before may decide it.
            let spoiled = self.parts.any("spoiled", spoiled(trial, &judged), journal)?;
            if partial.is_some() || spoiled {
                let out = SearchResult { rate: None, fails_at: None, ..search.so_far() };
                return Ok((out, found, partial));
            }
            if better {
                best = Some((standing, found));
            } else if !met && rate == wanted.from && lowest.as_ref().is_none_or(|(before, _)| times >= *before) {
                lowest = Some((times, found));
            }
        };
        // A rate above the result may have met the limits once by luck. The phase shown must be at the resulting rate.
        let shown = match (out.rate, best) {
            (Some(rate), Some((of, found))) if (of.rate / rate - 1.0).abs() < 1e-9 => (found, None),
            (None, _) if lowest.is_some() => (lowest.map(|(_, found)| found).unwrap_or_default(), None),
            (rate, _) => {
                let again = self.at_rate(configuration, position, rate.unwrap_or(wanted.from), 1)?;
                let Measured { found, partial, .. } =
                    self.measure(configuration, planned, position, &again, None, journal)?;
                (found, partial)
            }
        };
        Ok((out, shown.0, shown.1))
    }

    /// A phase in open loop at this rate, this many times as long. The drain is at least as long as the limits on times, so that only slower
    /// operations remain unfinished.
    fn at_rate(
        &self,
        configuration: &Configuration,
        position: usize,
        rate: f64,
        times: u32,
    ) -> Result<PhasePlan, StoreError> {
        let study = configuration.study();
        let mut phase = study.phases[position].clone();
        if let Some(duration) = &mut phase.duration {
            duration.0 = duration.0.saturating_mul(times);
        }
        let times = study.limits.iter().filter_map(|(path, limit)| match limit {
            Limit::Time(span) if LimitPath::parse(path).is_some_and(|of| of.phase == phase.name) => Some(span.0),
            _ => None,
        });
        phase.drain.0 = times.fold(phase.drain.0, std::time::Duration::max);
        phase.rate = Some(RateSpec::Constant(rate));
        let resolved = PhasePlan::resolve(study, &phase, &self.catalog(configuration), &configuration.capabilities)?;
        // In the complete study, which this one may be a part of.
        let number = configuration.plans[position].operations().map_or(resolved.number, |plan| plan.number);
        let resolved = PhasePlan { number, ..resolved };
        // Each rate overwrites what the previous one wrote.
        let plan = configuration.now(&resolved, true).into_owned().of_part(self.parts.part())?;
        plan.pinned_to(Processors::in_order)
    }

    /// What all parts together measured in a probe, as far as a search needs it.
    fn judged(&self, configuration: &Configuration, position: usize, record: &PhaseRecord) -> PhaseResult {
        let documents = self.documents.get(configuration.position).map_or(&[][..], Vec::as_slice);
        PhaseResult {
            limits: judge_limits(record, &configuration.study().limits),
            settings: settings_of(&configuration.study().phases[position]),
            ..gather_phase(record, documents, &configuration.capabilities, None)
        }
    }

    /// Runs one phase as planned, or as a probe of a search, and saves it.
    fn measure(
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
        journal.phase(plan.labels());
        let faults = configuration.study().faults_of(phase);
        let mut breaker = (!faults.is_empty()).then(|| {
            let (server, links) = (configuration.request.server.clone(), configuration.request.links.clone());
            let stop = Arc::clone(&self.stop);
            Breaker {
                study: configuration.study(),
                server,
                links,
                store: Arc::clone(&configuration.store),
                stop,
                faults,
                happened: Vec::new(),
            }
        });
        // Data that existed before is not tested: it has become durable with time.
        if let Some(server) = &configuration.request.server
            && breaker.as_ref().is_some_and(Breaker::is_of_disks)
        {
            server.settle_disk()?;
        }
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
        let mut record = match (record, &died) {
            (Ok(record), _) => record,
            (Err(_), Some(died)) => return Err(died.clone()),
            (Err(error), None) => return Err(error),
        };
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
        let documents = self.documents.get(configuration.position).map_or(&[][..], Vec::as_slice);
        let calibrated = self.calibrated.get(&which).map(|c| &c.cpu_ns_per_op[..]);
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
        }
        if let Some(used) = found.resources.as_mut().filter(|_| several) {
            not_of_one_part(used);
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
            let loaded = so_far.iter().any(|phase| phase.load.contains(&of.collection) || phase.copy.is_some());
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

fn failure(kind: FailureKind, during: &str, message: String) -> Failure {
    Failure { kind, during: during.to_owned(), message }
}

fn describe(configuration: &Configuration, planned: &PlannedTrial, documents: &[CollectionResult]) -> TrialResult {
    TrialResult {
        trial: planned.trial,
        round: planned.round,
        store: configuration.request.store_name.clone(),
        configuration: configuration.name.clone(),
        values: configuration.request.values.clone(),
        control: configuration.request.control,
        data_folder: configuration.data_folder().map(|folder| folder.display().to_string()),
        here: is_here(&configuration.description.url),
        documents: documents.iter().map(|c| (c.collection.clone(), c.count)).collect(),
        scheme: configuration.description.scheme.to_owned(),
        url: configuration.description.url.clone(),
        version: configuration.description.version.clone(),
        embedded: configuration.capabilities.embedded,
        notes: configuration.capabilities.notes.iter().map(|n| (*n).to_owned()).collect(),
        approximated: configuration
            .capabilities
            .operations
            .iter()
            .filter_map(|(kind, support)| match support {
                Support::Approximated(how) => Some((kind.name().to_owned(), (*how).to_owned())),
                Support::Native => None,
            })
            .collect(),
        began: jiff::Timestamp::now().to_string(),
        ..TrialResult::default()
    }
}
