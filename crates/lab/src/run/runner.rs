//! Turns a request into a result: checks everything, then runs the trials in order.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use storebench_engine::ledger::version_at;
use storebench_engine::store::{AnyStore, Capabilities, Description, Persisted, Prepare, StoreError};
use storebench_engine::{Observer, OwnIndex, PhasePlan, RealClock, ResolvedPhase, Stop, Written, unix_now_ns};
use storebench_results::answer::widths;
use storebench_results::conclude::conclude;
use storebench_results::cost::CostResult;
use storebench_results::exit;
use storebench_results::human::{count, percent};
use storebench_results::plan::PlannedTrial;
use storebench_results::validity::{PREPARE, exit_code};
use storebench_results::{
    CollectionResult, FORMAT, FolderError, Identity, RunFolder, RunInfo, RunResult, Secrets, TrialResult, redact,
};
use storebench_study::workload::{Claim, FIRST_LOOK, Phase, Study};

use super::documents::{describe_all, distinct};
use super::error::LabError;
use super::foreign::Foreign;
use super::inspect::{enough, looked_at, time_syncs};
use super::observe::Journal;
use super::parts::Parts;
use super::replays::Replayed;
use super::request::{ConfigurationRequest, RunRequest};
use super::resume;
use super::transfers::{Files, write_files};
use crate::environment::this_machine;
use crate::plan::{Outline, plan_run};
use crate::wall;

/// The outcome of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// The result, with its validity checks.
    pub result: RunResult,
    /// The run folder, if one was kept.
    pub folder: Option<PathBuf>,
    /// Why the folder is incomplete, if it is.
    pub folder_error: Option<FolderError>,
}

impl RunOutcome {
    /// The exit code of the run. 1 if its folder could not be written, unless a worse problem occurred.
    pub fn exit_code(&self) -> u8 {
        match exit_code(&self.result) {
            exit::FINE | exit::INVALID if self.folder_error.is_some() => exit::SPOILED,
            code => code,
        }
    }
}

/// One configuration with everything that is known without touching its store.
pub(super) struct Configuration {
    /// Position among the configurations of the request.
    pub(super) position: usize,
    pub(super) name: String,
    pub(super) request: ConfigurationRequest,
    pub(super) store: Arc<dyn AnyStore>,
    pub(super) description: Description,
    /// The place of its data: its URL without options. Configurations at the same place overwrite each other's
    /// database.
    pub(super) location: String,
    /// Identifies the content of its database once it is loaded.
    pub(super) load_key: String,
    pub(super) capabilities: Capabilities,
    pub(super) plans: Vec<ResolvedPhase>,
    pub(super) prepare: Prepare,
    /// Whether its documents may be from an earlier run.
    pub(super) kept: bool,
}

impl Configuration {
    /// The study with the values of this configuration.
    pub(super) fn study(&self) -> &Study {
        &self.request.study
    }

    fn outline(&self) -> Outline<'_> {
        Outline { request: &self.request, description: &self.description, phases: &self.plans }
    }

    /// Where its data is, if that is known: of an embedded store, or of a server that the run starts.
    pub(super) fn data(&self) -> Vec<PathBuf> {
        match self.data_folder() {
            Some(folder) => vec![folder],
            None => self.store.paths(),
        }
    }

    /// The folder of its server's data.
    pub(super) fn data_folder(&self) -> Option<PathBuf> {
        self.request.server.as_ref().and_then(|server| server.seen()?.1)
    }

    /// Whether it promises for some phase that writes that they are synced to disk.
    pub(super) fn syncs(&self) -> bool {
        let writes =
            |phase: &Phase| phase.loads() || phase.trace.is_some() || phase.operations_of_mix().any(|of| of.writes());
        let mut phases = self.study().phases.iter().zip(&self.plans);
        let synced = |plan: &ResolvedPhase| plan.guarantees().durability.persisted == Persisted::Disk;
        phases.any(|(phase, plan)| writes(phase) && synced(plan))
    }

    /// Whether a trial belongs to this configuration, on the host whose turn it is.
    pub(super) fn runs(&self, planned: &PlannedTrial) -> bool {
        self.name == planned.configuration && self.request.host == planned.host
    }

    /// The indexes that the study gives in the store's own words.
    pub(super) fn indexes(&self) -> Result<Vec<OwnIndex>, StoreError> {
        OwnIndex::all(self.study(), &self.capabilities).map_err(StoreError::NotSupported)
    }

    /// The plans of phases that do not copy.
    pub(super) fn operations(&self) -> impl Iterator<Item = &PhasePlan> {
        self.plans.iter().filter_map(ResolvedPhase::operations)
    }

    /// A phase as it runs now. If its documents were written before (`kept`), its writes carry versions that no earlier
    /// write carried.
    pub(super) fn now<'a>(&self, plan: &'a PhasePlan, kept: bool) -> Cow<'a, PhasePlan> {
        if !(kept || self.kept) {
            return Cow::Borrowed(plan);
        }
        Cow::Owned(PhasePlan { versions_above: version_at(unix_now_ns() / 1_000_000), ..plan.clone() })
    }
}

/// State shared by all trials.
pub(super) struct RunState<'a> {
    pub(super) request: &'a RunRequest,
    pub(super) clock: RealClock,
    pub(super) stop: Arc<Stop>,
    /// The documents, by configuration.
    pub(super) documents: Vec<Vec<CollectionResult>>,
    /// The client's own CPU time per operation of each label, in ns, by configuration and phase. Measured when an
    /// embedded store first reaches the phase.
    pub(super) calibrated: BTreeMap<(usize, usize), Vec<f64>>,
    /// The catalog of a store whose documents Storebench did not make, by load key.
    pub(super) foreign: BTreeMap<String, Foreign>,
    /// What the phases of the current trial have written.
    pub(super) written: Written,
    /// By place: the configuration that prepared it last, if it was not removed since.
    pub(super) touched: BTreeMap<String, usize>,
    /// Places that a trial of this run has prepared. What `--discard-existing` refers to no longer exists there.
    pub(super) discarded: BTreeSet<String>,
    /// By place: what a trial of this run has completely loaded there (`database = "kept"`).
    pub(super) holds: BTreeMap<String, String>,
    /// Decides how often the result is written.
    pub(super) kept: Kept,
    /// The files that phases copy from.
    pub(super) files: Files,
    /// This process's part of the run.
    pub(super) parts: Parts,
    /// What the first stores answered to the operations of traces.
    pub(super) replayed: Vec<Replayed>,
    /// Configurations whose sessions could all be opened at once.
    pub(super) fitting: BTreeSet<usize>,
}

/// Runs a study. Failures after the first store is touched are part of the result. The folder holds everything measured
/// until then.
///
/// # Errors
/// Fails on everything that can be refused before a store is touched: a store that holds other data or cannot do what a
/// phase asks, an unreachable store, a folder that cannot be created. Fails, too, if no trial gets as far as its first
/// phase: then no folder is kept.
pub fn run(request: &RunRequest, stop: Arc<Stop>, observer: &mut dyn Observer) -> Result<RunOutcome, LabError> {
    let secrets = Secrets::of(&request.study);
    run_with(request, &secrets, stop, observer).map_err(|error| match error {
        LabError::Store { store, source } => LabError::Store { store, source: secrets.hide_error(source) },
        LabError::BadInput(text) => LabError::BadInput(secrets.hide(&text)),
        LabError::NeverBegan { code, message } => LabError::NeverBegan { code, message: secrets.hide(&message) },
        other => other,
    })
}

fn run_with(
    request: &RunRequest,
    secrets: &Secrets,
    stop: Arc<Stop>,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, LabError> {
    let Some(first) = request.configurations.first() else {
        return Err(LabError::BadInput(
            "no store to run on; add `stores` to the study, or use --store sqlite:bench.db".into(),
        ));
    };
    if request.remove_after && request.study.reads_only() {
        return Err(LabError::BadInput(
            "the study only reads documents that Storebench did not make (`existing`), so there is nothing to \
             remove; omit --remove-after"
                .into(),
        ));
    }
    let configurations = looked_at(request)?;
    let outlines: Vec<Outline<'_>> = configurations.iter().map(Configuration::outline).collect();
    let plan = plan_run(&request.study, &outlines);
    let mut parts = Parts::of(request.part.as_ref(), &request.study, &configurations, plan.trials.len(), &stop)
        .map_err(LabError::BadInput)?;
    if request.remove_after && parts.are_several() {
        return Err(LabError::BadInput(
            "--remove-after: one part may end while the others still write; omit it, and remove the data afterwards"
                .into(),
        ));
    }
    if plan.until.is_some() && parts.are_several() {
        return Err(LabError::BadInput(
            "--part: the parts of a run would have to decide alike when intervals are narrow enough; use a number of \
             `repeats`"
                .into(),
        ));
    }
    if request.resume.is_some() && parts.are_several() {
        return Err(LabError::BadInput("--resume: a part cannot be resumed; start all parts again".into()));
    }
    let info = |folder: Option<&PathBuf>| run_info(request, first, secrets, jiff::Timestamp::now().to_string(), folder);
    let mut paths: Vec<PathBuf> = configurations.iter().flat_map(Configuration::data).collect();
    let mut known = BTreeSet::new();
    paths.retain(|path| known.insert(path.clone()));
    let mut environment = this_machine(&paths);
    let before = match &request.resume {
        Some(path) => Some(resume::open(path, &info(None), &plan, &environment, &configurations)?),
        None => None,
    };
    if !request.anyway {
        enough(&configurations, &plan)?;
    }
    time_syncs(&configurations, &mut environment);
    let files = write_files(request, &configurations, &stop, observer)?;
    let folder = match (&request.resume, &request.runs_dir) {
        (Some(path), _) => {
            let kept: Vec<u32> = before.iter().flat_map(|before| &before.trials).map(|trial| trial.trial).collect();
            Some(RunFolder::reopen(path, &kept, secrets.clone())?)
        }
        (None, Some(runs_dir)) if parts.are_several() => {
            Some(RunFolder::create_part(runs_dir, parts.part, secrets.clone())?)
        }
        (None, Some(runs_dir)) => Some(RunFolder::create(runs_dir, &request.name, secrets.clone())?),
        (None, None) => None,
    };
    let path = folder.as_ref().map(|f| f.path().to_owned());
    let mut journal = Journal::new(observer, folder, secrets.clone());
    journal.keep(|folder| folder.write_study(&request.study_text));
    let met = parts.meet(&Identity::of(&info(None), &plan), &mut journal);
    met.map_err(|source| LabError::Store { store: first.store_name.clone(), source })?;
    if plan.trials.len() > 1 {
        journal.note(plan.in_a_line());
    }
    journal.log(serde_json::json!({ "event": "run-began", "name": request.name }));

    let mut state = RunState {
        request,
        clock: RealClock::new(),
        stop: Arc::clone(&stop),
        documents: describe_all(&configurations),
        calibrated: BTreeMap::new(),
        foreign: BTreeMap::new(),
        written: Written::default(),
        touched: BTreeMap::new(),
        discarded: BTreeSet::new(),
        holds: BTreeMap::new(),
        kept: Kept::default(),
        files,
        parts,
        replayed: Vec::new(),
        fitting: BTreeSet::new(),
    };
    let started = Instant::now();
    let mut result = RunResult {
        format: FORMAT.to_owned(),
        run: info(path.as_ref()),
        plan,
        environment,
        documents: distinct(&configurations, &state.documents),
        // The price sheet is present from the start; the figures follow with the trials.
        cost: request.prices.clone().map(CostResult::unmeasured),
        ..RunResult::default()
    };
    if let Some(before) = before {
        let (kept, of) = (before.trials.len(), result.plan.trials.len());
        journal.note(format!("keeping {kept} of {of} trials; running the others"));
        result.run.resumed = before.resumed;
        result.run.resumed.push(std::mem::replace(&mut result.run.began, before.began));
        result.trials = before.trials;
    }
    keep_result(&request.study.published, &mut journal, &mut result);
    let trials = result.plan.trials.clone();
    for planned in &trials {
        if stop.asked() {
            result.run.interrupted = true;
            break;
        }
        if result.trials.iter().any(|done| done.trial == planned.trial) {
            continue;
        }
        if let Some(rounds) = enough_rounds(&result, planned.round - 1, request.study.hosts.len(), &mut journal) {
            result.plan.trials.retain(|trial| trial.round <= rounds);
            break;
        }
        let Some(configuration) = configurations.iter().find(|a| a.runs(planned)) else { continue };
        let later = trials.iter().filter(|t| t.trial > planned.trial);
        let last = !later
            .into_iter()
            .any(|t| configurations.iter().any(|a| a.runs(t) && a.location == configuration.location));
        state.trial(configuration, planned, last, trials.len(), &mut result, &mut journal);
        if stop.asked() {
            result.run.interrupted = true;
        }
        if let Some(why) = &state.parts.alone {
            journal.note(format!("no further trial: {why}"));
            break;
        }
    }
    if request.remove_after {
        for configuration in &configurations {
            state.remove(configuration, &mut result, &mut journal);
        }
    }
    if request.resume.is_none() && !state.parts.are_several() && result.trials.iter().all(never_began) {
        journal.discard();
        return Err(LabError::never_began(&result));
    }
    result.trials.sort_by_key(|trial| trial.trial);
    let (ended, note) = wall::ended(&result.run.began, started.elapsed(), jiff::Timestamp::now());
    result.run.ended = Some(ended);
    note.into_iter().for_each(|note| journal.note(note));
    keep_result(&request.study.published, &mut journal, &mut result);
    journal.log(serde_json::json!({ "event": "run-ended", "exit_code": exit_code(&result) }));
    let folder_error = journal.finish();
    Ok(RunOutcome { result, folder: path, folder_error })
}

/// Whether a trial ended before its first phase: its store could not be prepared, or the user interrupted it.
fn never_began(trial: &TrialResult) -> bool {
    trial.phases.is_empty() && trial.failure.as_ref().is_none_or(|failure| failure.during == PREPARE)
}

/// The rounds that are complete, if the study ends when its intervals are narrow enough, and they are.
fn enough_rounds(result: &RunResult, rounds: u32, hosts: usize, journal: &mut Journal<'_>) -> Option<u32> {
    let until = result.plan.until.filter(|_| rounds >= FIRST_LOOK)?;
    // Only between rounds, and only when each host had as many of them.
    let between = result.trials.iter().all(|trial| trial.round <= rounds);
    if !between || !rounds.is_multiple_of(hosts.max(1) as u32) {
        return None;
    }
    let widths = widths(result);
    if widths.is_empty() || widths.iter().any(|of| of.half.is_none_or(|half| half > until)) {
        return None;
    }
    journal.note(format!(
        "after {} rounds every interval is within ± {}: no further rounds",
        count(rounds.into()),
        percent(until)
    ));
    Some(rounds)
}

/// When the result was last written, and how long that took.
#[derive(Debug, Default)]
pub(super) struct Kept {
    last: Option<(Instant, Duration)>,
}

impl Kept {
    /// Evaluates and writes the result, unless it was written recently. With a thousand trials, writing it each time
    /// would take longer than the trials. A kill loses at most the work of twenty times the duration of one write.
    pub(super) fn soon(&mut self, published: &[Claim], journal: &mut Journal<'_>, result: &mut RunResult) {
        let scheduled = self.last.is_none_or(|(ended, took)| ended.elapsed() >= took * 20);
        if scheduled {
            let began = Instant::now();
            keep_result(published, journal, result);
            self.last = Some((Instant::now(), began.elapsed()));
        }
    }
}

/// Evaluates the result so far and writes it.
pub(super) fn keep_result(published: &[Claim], journal: &mut Journal<'_>, result: &mut RunResult) {
    journal.hide(result);
    conclude(published, result);
    journal.keep(|folder| folder.write_result(result));
}

fn run_info(
    request: &RunRequest,
    first: &ConfigurationRequest,
    secrets: &Secrets,
    began: String,
    folder: Option<&PathBuf>,
) -> RunInfo {
    let mut study = serde_json::to_value(&request.study).unwrap_or_default();
    secrets.hide_value(&mut study);
    RunInfo {
        name: request.name.clone(),
        title: redact(&request.study.title),
        question: request.study.question.as_deref().map(redact),
        began,
        ended: None,
        storebench_version: env!("CARGO_PKG_VERSION").to_owned(),
        storebench_commit: request.commit.clone(),
        seed: request.study.seed,
        scale: first.scale,
        study_file: request.study_file.as_ref().map(|f| f.display().to_string()),
        overrides: request.overrides.iter().map(|o| redact(o)).collect(),
        study,
        frozen: serde_json::to_value(first.documents.catalog.frozen()).unwrap_or_default(),
        resumed: Vec::new(),
        interrupted: false,
        part: request.part.as_ref().map(|of| of.part),
        parts: None,
        folder: folder.map(|f| f.display().to_string()),
    }
}
