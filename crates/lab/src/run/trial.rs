//! One trial: prepares a store, runs the phases, and closes it.

use std::sync::Arc;

use indexmap::IndexMap;
use storebench_documents::{Catalog, Documents};
use storebench_engine::ledger::TrialLedger;
use storebench_engine::measure::PartialCause;
use storebench_engine::store::{Namespace, Prepare, StoreError, Support};
use storebench_engine::{ResolvedPhase, Written};
use storebench_results::answer::in_one_line;
use storebench_results::human::count;
use storebench_results::plan::PlannedTrial;
use storebench_results::validity::{PREPARE, spoiled};
use storebench_results::{CollectionResult, Failure, FailureKind, PhaseResult, RunResult, SampledResult, TrialResult};
use storebench_study::workload::Database;

use super::foreign;
use super::indexes::before_which;
use super::inspect::loads;
use super::ledgers::ledger_share;
use super::measure::Measured;
use super::observe::Journal;
use super::own_settings::own_settings;
use super::runner::{Configuration, RunState};
use super::servers::Managed;
use crate::environment::is_here;

/// Whether a phase found everything that it asked for. A database that lost documents, or could not be checked, is not
/// kept.
fn found_all(trial: &TrialResult, phase: &PhaseResult) -> bool {
    let lost = phase.ledger.as_ref().is_some_and(|ledger| ledger.lost > 0);
    !lost
        && !spoiled(trial, phase)
        && phase.ops.values().all(|op| op.errors == 0 && op.misses == 0 && op.unfinished == 0)
}

impl RunState<'_> {
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
        journal.began(planned, of, &configuration.name);
        let at = result.trials.len();
        // Forget it until this trial is complete: an incomplete load must not be kept.
        let holds = self.holds.remove(&configuration.location);
        let kept = configuration.study().database == Database::Kept && holds.as_ref() == Some(&configuration.load_key);
        result.trials.push(TrialResult {
            database_kept: kept,
            host: planned.host.clone(),
            ..describe(configuration, planned, &self.documents[configuration.position])
        });
        match self.set_up(configuration, &mut result.trials[at], journal) {
            Ok(()) => {
                result.trials[at].settings = own_settings(configuration, &result.trials[..at]);
                self.phases(configuration, planned, at, result, journal);
            }
            Err(error) => fail(&mut result.trials[at], PREPARE, &error),
        }
        self.conclude(configuration, last, &mut result.trials[at], result.run.interrupted, journal);
        // The end of the run tells all of it, and of a single trial at once.
        if let Some(failure) = result.trials[at].failure.as_ref().filter(|_| of > 1) {
            let why = in_one_line(&failure.message);
            journal.note(format!("{} ended early, in {}: {why}", configuration.name, failure.during));
        }
        journal.log(serde_json::json!({ "event": "trial-ended" }));
        self.kept.soon(&self.request.study.published, journal, result);
    }

    /// Starts the server, prepares the store, and tries what would otherwise fail only after the load.
    fn set_up(
        &mut self,
        configuration: &Configuration,
        trial: &mut TrialResult,
        journal: &mut Journal<'_>,
    ) -> Result<(), StoreError> {
        self.touched.insert(configuration.location.clone(), configuration.position);
        if let Some(server) = &configuration.request.server {
            server.limit(configuration.study())?;
            trial.server_ready_ns = Some(server.start(&*configuration.store)?.ready.as_nanos() as u64);
        }
        self.prepare_together(configuration, trial.database_kept, journal)?;
        let sampled = self.sample(configuration, journal)?;
        self.try_in_own_words(configuration, trial.database_kept)?;
        self.try_sessions(configuration)?;
        self.discarded.insert(configuration.location.clone());
        trial.sampled = sampled;
        // A server may report its version only after a first request.
        trial.version = configuration.store.describe().version;
        self.written = Written { trial_ledger: self.trial_ledger(configuration), ..Written::default() };
        Ok(())
    }

    /// Runs the phases of a trial, until one fails or the user interrupts it. Each is written when it ends.
    fn phases(
        &mut self,
        configuration: &Configuration,
        planned: &PlannedTrial,
        at: usize,
        result: &mut RunResult,
        journal: &mut Journal<'_>,
    ) {
        for (position, phase) in configuration.study().phases.iter().enumerate() {
            if self.stop.asked() {
                result.run.interrupted = true;
                return;
            }
            if result.trials[at].database_kept && phase.loads() {
                continue;
            }
            let ready = self.before_mixes(configuration, position, at, result, journal);
            let ended = ready.and_then(|()| self.phase(configuration, planned, position, at, result, journal));
            if let Err(error) = ended {
                fail(&mut result.trials[at], &phase.name, &error);
            }
            self.kept.soon(&self.request.study.published, journal, result);
            if result.trials[at].failure.is_some() || result.run.interrupted {
                return;
            }
        }
        if before_which(configuration.study()).is_none()
            && !self.stop.asked()
            && let Err(error) = self.build_indexes(configuration, at, result, journal)
        {
            return fail(&mut result.trials[at], "indexes", &error);
        }
        if result.run.interrupted {
            return;
        }
        let trial = &result.trials[at];
        let found_all = trial.phases.iter().all(|phase| found_all(trial, phase));
        match self.parts.trial_ended(found_all, journal) {
            Ok(true) => drop(self.holds.insert(configuration.location.clone(), configuration.load_key.clone())),
            Ok(false) => {}
            Err(error) => fail(&mut result.trials[at], "end", &error),
        }
    }

    /// Tells the other parts how a trial ended, and closes its store.
    fn conclude(
        &mut self,
        configuration: &Configuration,
        last: bool,
        trial: &mut TrialResult,
        interrupted: bool,
        journal: &mut Journal<'_>,
    ) {
        if let Some(failure) = trial.failure.as_mut().filter(|_| self.parts.others_failed()) {
            failure.kind = FailureKind::OtherPart;
        }
        if let Some(failure) = &trial.failure {
            self.parts.failed(&failure.message, journal);
        } else if interrupted {
            self.parts.failed("interrupted", journal);
        }
        if self.request.remove_after && last {
            self.touched.remove(&configuration.location);
            if let Err(error) = configuration.store.remove() {
                fail(trial, "remove", &error);
            }
        }
        if let Err(error) = configuration.store.close() {
            fail(trial, "close", &error);
        }
        if let Some(Err(error)) = configuration.request.server.as_ref().map(Managed::stop) {
            fail(trial, "stop", &error);
        }
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
                fail(trial, "remove", &error);
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
            (ResolvedPhase::Operations(plan), Some(search)) => {
                let (search, found, partial) =
                    self.search(configuration, planned, &result.trials[at], (position, plan), search, journal)?;
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
}

fn failure(kind: FailureKind, during: &str, message: String) -> Failure {
    Failure { kind, during: during.to_owned(), message }
}

/// Records why a trial failed, unless it had failed before.
fn fail(trial: &mut TrialResult, during: &str, error: &StoreError) {
    trial.failure.get_or_insert_with(|| failure(error.into(), during, error.to_string()));
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
