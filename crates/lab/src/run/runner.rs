//! Turns a request into a result: checks everything, then runs the trials in order.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use storebench_documents::{Catalog, Compression, Documents};
use storebench_engine::ledger::version_at;
use storebench_engine::store::{
    AnyStore, Capabilities, Description, Namespace, OpKind, Persisted, Prepare, StoreError, copied, first_answer,
    place_of,
};
use storebench_engine::{Calibrated, Observer, OwnIndex, PhasePlan, RealClock, ResolvedPhase, Stop, Written};
use storebench_machine::{Processors, folder_use};
use storebench_results::answer::widths;
use storebench_results::conclude::conclude;
use storebench_results::cost::CostResult;
use storebench_results::environment::Environment;
use storebench_results::exit;
use storebench_results::human::{count, percent};
use storebench_results::plan::{Plan, PlannedTrial};
use storebench_results::validity::{PREPARE, exit_code};
use storebench_results::{
    CollectionResult, FORMAT, FolderError, RunFolder, RunInfo, RunResult, Secrets, TrialResult, redact,
};
use storebench_study::Part;
use storebench_study::workload::{Body, Claim, Collection, FIRST_LOOK, Phase, Study};

use super::error::LabError;
use super::foreign::{self, Foreign};
use super::ledgers::ledger_fits;
use super::observe::Journal;
use super::parts::Parts;
use super::replays::Replayed;
use super::request::{ConfigurationRequest, PrepareMode, RunRequest};
use super::resume;
use super::servers::Managed;
use super::transfers::{Files, write_files};
use crate::environment::this_machine;
use crate::plan::{Outline, load_key, plan_run};
use crate::space::{
    Need, OPEN_FILES_OF_A_WORKER, OPEN_FILES_OF_ITSELF, check_open_files, check_space, check_time, free_at,
    open_files_limit,
};
use crate::sync::sync_times;
use crate::wall;

/// Size of the documents that are compressed page by page and one by one to measure compressibility, in bytes.
const COMPRESSION_SAMPLE_BYTES: u64 = 4 << 20;
/// Size of the documents that are compressed with a long window, to find distant repetitions, in bytes.
const LONG_WINDOW_BYTES: u64 = 16 << 20;

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

    /// Where its data is, if that is known: of an embedded store, or of a server that the run starts.
    fn data(&self) -> Vec<PathBuf> {
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
    fn syncs(&self) -> bool {
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
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
        Cow::Owned(PhasePlan { versions_above: version_at(now_ms), ..plan.clone() })
    }
}

/// State shared by all trials.
pub(super) struct Session<'a> {
    pub(super) request: &'a RunRequest,
    pub(super) clock: RealClock,
    pub(super) stop: Arc<Stop>,
    /// The documents, by configuration.
    pub(super) documents: Vec<Vec<CollectionResult>>,
    /// The cost of the client itself, by configuration and phase. Measured when an embedded store first reaches the
    /// phase.
    pub(super) calibrated: BTreeMap<(usize, usize), Calibrated>,
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
    let plan = plan_of(&request.study, &configurations);
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
        Some(path) => {
            let versions: Vec<(&str, &str)> =
                configurations.iter().map(|a| (a.name.as_str(), a.description.version.as_str())).collect();
            Some(resume::open(path, &info(None), &plan, &environment, &versions)?)
        }
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
            Some(RunFolder::create_part(runs_dir, parts.part(), secrets.clone())?)
        }
        (None, Some(runs_dir)) => Some(RunFolder::create(runs_dir, &request.name, secrets.clone())?),
        (None, None) => None,
    };
    let path = folder.as_ref().map(|f| f.path().to_owned());
    let mut journal = Journal::new(observer, folder, secrets.clone());
    journal.keep(|folder| folder.write_study(&request.study_text));
    let identity = identity(&info(None), &plan);
    let met = parts.meet(&identity, &mut journal);
    met.map_err(|source| LabError::Store { store: first.store_name.clone(), source })?;
    if plan.trials.len() > 1 {
        journal.note(plan.in_a_line());
    }
    journal.log(serde_json::json!({ "event": "run-began", "name": request.name }));

    let mut session = Session {
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
        documents: distinct(&configurations, &session.documents),
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
        session.trial(configuration, planned, last, trials.len(), &mut result, &mut journal);
        if stop.asked() {
            result.run.interrupted = true;
        }
        if let Some(why) = session.parts.alone() {
            journal.note(format!("no further trial: {why}"));
            break;
        }
    }
    if request.remove_after {
        for configuration in &configurations {
            session.remove(configuration, &mut result, &mut journal);
        }
    }
    if request.resume.is_none() && !session.parts.are_several() && result.trials.iter().all(never_began) {
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

/// All configurations. Each server runs only while its store is inspected, because servers would disturb each other.
fn looked_at(request: &RunRequest) -> Result<Vec<Configuration>, LabError> {
    let mut running: Option<(Managed, String)> = None;
    let stop = |running: &mut Option<(Managed, String)>| match running.take() {
        Some((server, store)) => server.stop().map_err(|source| LabError::Store { store, source }),
        None => Ok(()),
    };
    let mut configurations = Vec::new();
    for (position, of) in request.configurations.iter().enumerate() {
        if let Some(server) = &of.server
            && !running.as_ref().is_some_and(|(running, _)| running.is(server))
        {
            stop(&mut running)?;
            let store = of.store_name.clone();
            server.start(&*of.store).map_err(|source| LabError::Store { store: store.clone(), source })?;
            running = Some((server.clone(), store));
        }
        configurations.push(configuration(position, of, request)?);
    }
    stop(&mut running)?;
    Ok(configurations)
}

/// The plan of configurations that have been inspected.
fn plan_of(study: &Study, configurations: &[Configuration]) -> Plan {
    let outlines: Vec<Outline<'_>> = configurations
        .iter()
        .map(|configuration| Outline { request: &configuration.request, description: &configuration.description })
        .collect();
    plan_run(study, &outlines)
}

/// Refuses a plan that does not fit on the disks, or that takes too long.
fn enough(configurations: &[Configuration], plan: &Plan) -> Result<(), LabError> {
    check_time(plan.estimate.least_s).map_err(LabError::BadInput)?;
    let mut needs: BTreeMap<&str, Need> = BTreeMap::new();
    for configuration in configurations {
        let data = configuration.data().into_iter().next();
        let planned = plan.configurations.iter().find(|planned| {
            planned.configuration == configuration.name && planned.store == configuration.request.store_name
        });
        let (Some(path), Some(planned)) = (data, planned) else { continue };
        // The trials first remove this data, so its space is available.
        let there = if configuration.prepare == Prepare::Fresh {
            folder_use(&configuration.store.paths()).disk_bytes
        } else {
            0
        };
        let bytes = planned.estimate.disk_bytes.saturating_sub(there);
        let what = format!("the database of store `{}`", configuration.request.store_name);
        let need = needs.entry(&configuration.location).or_insert(Need { what, path, bytes });
        need.bytes = need.bytes.max(bytes);
    }
    let mut needs: Vec<Need> = needs.into_values().collect();
    let (what, path) = ("files of copies".to_owned(), std::env::temp_dir());
    needs.push(Need { what, path, bytes: plan.estimate.files_bytes });
    check_space(&needs, &free_at).map_err(LabError::BadInput)
}

/// Measures how long a sync takes where a store promises that its writes are synced.
fn time_syncs(configurations: &[Configuration], environment: &mut Environment) {
    for configuration in configurations.iter().filter(|configuration| configuration.syncs()) {
        let served = configuration.data_folder().is_some();
        for path in configuration.data() {
            // Some servers refuse to start in a folder with files of others.
            if served && beside(&path) == path {
                continue;
            }
            let shown = path.display().to_string();
            for disk in environment.disks.iter_mut().filter(|disk| disk.path == shown && disk.sync_p50_ns.is_none()) {
                // Where nothing can be written, the load fails and says so.
                disk.sync_p50_ns = sync_times(beside(&path)).ok().map(|times| times[times.len() / 2]);
            }
        }
    }
}

/// The folder that contains a store, if it is on the same file system: nothing is written into a store's own folder.
fn beside(store: &Path) -> &Path {
    let device = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let parent = store.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    match parent {
        Some(parent) if device(store).is_none_or(|of| Some(of) == device(parent)) => parent,
        _ => store,
    }
}

/// Inspects a store and checks that it can do what is requested. Changes nothing.
fn configuration(position: usize, request: &ConfigurationRequest, run: &RunRequest) -> Result<Configuration, LabError> {
    let (mode, part) = (run.prepare, run.part.as_ref().map_or(Part::WHOLE, |of| of.part));
    let (name, store) = (&request.store_name, &request.store);
    let documents = request.documents.catalog.iter().map(Documents::count).sum();
    ledger_fits(&request.study, documents, this_machine(&[]).memory_available_bytes)?;
    let refused = |source| LabError::Store { store: name.clone(), source };
    // Inspect first: only then is it known what a server can guarantee.
    let longest = request.study.phases.iter().map(|phase| phase.timeout.0).max();
    let found = first_answer(store, longest.unwrap_or_default()).and_then(|()| store.inspect()).map_err(refused)?;
    let capabilities = store.capabilities();
    let mut fitted = request.clone();
    let phases = fitted.fit(run.unsupported).map_err(refused)?;
    let request = &fitted;
    let plans = phases
        .into_iter()
        .map(|resolved| match resolved {
            ResolvedPhase::Operations(plan) => {
                plan.of_part(part)?.pinned_to(Processors::in_order).map(ResolvedPhase::Operations)
            }
            copy => Ok(copy),
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(refused)?;
    enough_open_files(store, &capabilities, &plans)?;
    let mut description = store.describe();
    // Show the store's own address. The link's address differs in each run.
    description.url = request.links.shown(&description.url);
    // Then anything that a later trial finds was written by an earlier one.
    let nothing_there = matches!(found, Namespace::Absent) && matches!(mode, PrepareMode::Fresh | PrepareMode::Discard);
    let prepare = match (found, mode) {
        (Namespace::Absent, _) if request.study.reads_only() => {
            return Err(LabError::BadInput(format!(
                "store `{name}`: there is nothing at {}, but the study reads existing documents (`existing`); correct \
                 the URL",
                description.url
            )));
        }
        _ if request.study.reads_only() => Prepare::ReadOnly,
        (Namespace::Foreign(_) | Namespace::Copied(_), PrepareMode::IntoExisting | PrepareMode::KeepIntoExisting) => {
            Prepare::IntoExisting
        }
        (Namespace::Copied(what), PrepareMode::Fresh | PrepareMode::Keep) => {
            let text = format!("{} {}", description.url, copied(&what, "another place"));
            return Err(refused(StoreError::NotOurs(text)));
        }
        (Namespace::Copied(_), PrepareMode::Discard) if !loads(&request.study) => {
            return Err(LabError::BadInput(format!(
                "store `{name}`: --discard-existing would delete what is at {}, but this run does not load documents \
                 to replace it; omit the flag, or run a study that loads documents",
                description.url
            )));
        }
        (Namespace::Copied(_), PrepareMode::Discard) => Prepare::Discard,
        (Namespace::Foreign(what), PrepareMode::Keep) => {
            return Err(refused(StoreError::NotOurs(format!(
                "{} holds {what}, which Storebench did not make; nothing was touched. To measure documents that \
                 Storebench wrote beside it, add --into-existing as well, which keeps both",
                description.url
            ))));
        }
        (Namespace::Foreign(what), PrepareMode::Fresh | PrepareMode::Discard) => {
            return Err(refused(StoreError::NotOurs(format!(
                "{} holds {what}, which Storebench did not make; nothing was touched. Use another place, or add \
                 --into-existing to write beside it",
                description.url
            ))));
        }
        (Namespace::Absent, mode) if needs_documents(&request.study, &request.documents.catalog, mode) => {
            return Err(LabError::BadInput(format!(
                "store `{name}`: {} holds no documents, and this run does not load any; run the study without --keep, \
                 run bench without --no-load, or add a phase with `load`",
                description.url
            )));
        }
        _ if nothing_there => Prepare::Fresh,
        (_, mode) if mode.keeps() || !loads(&request.study) => Prepare::Keep,
        _ => Prepare::Fresh,
    };
    let kept = mode.keeps() || !loads(&request.study) && !nothing_there;
    Ok(Configuration {
        position,
        name: request.name(),
        request: request.clone(),
        store: Arc::clone(store),
        location: place_of(store, &description.url),
        load_key: load_key(request, &description),
        description,
        capabilities,
        plans,
        prepare,
        kept,
    })
}

/// Refuses phases that would open more files than this process may.
fn enough_open_files(
    store: &Arc<dyn AnyStore>,
    capabilities: &Capabilities,
    plans: &[ResolvedPhase],
) -> Result<(), LabError> {
    let of_session = match (capabilities.embedded, store.paths().is_empty()) {
        (true, true) => 0,
        // The database, its log and its index.
        (true, false) => 3,
        (false, _) => 1,
    };
    for plan in plans.iter().filter_map(ResolvedPhase::operations) {
        let workers = u64::from(plan.phase.workers);
        let each = u64::from(plan.phase.connections) * of_session + OPEN_FILES_OF_A_WORKER;
        let fewer = format!(", or use fewer workers or connections (--set phases.{}.connections=1)", plan.phase.name);
        let what = format!("phase `{}`", plan.phase.name);
        check_open_files(&what, OPEN_FILES_OF_ITSELF + workers * each, open_files_limit(), &fewer)
            .map_err(LabError::BadInput)?;
    }
    Ok(())
}

/// What the parts of a run have in common.
fn identity(run: &RunInfo, plan: &Plan) -> String {
    let RunInfo { study, overrides, seed, scale, storebench_version, storebench_commit, frozen, .. } = run;
    let left_out = plan.left_out();
    serde_json::json!([
        study,
        overrides,
        seed,
        scale,
        storebench_version,
        storebench_commit,
        frozen,
        plan.trials,
        left_out
    ])
    .to_string()
}

/// Whether the study itself loads documents.
pub(super) fn loads(study: &Study) -> bool {
    study.phases.iter().any(|p| p.loads())
}

/// Whether the study would have no documents to work on: it loads none and reads some. Its own inserts make up for
/// that, unless existing documents must be kept.
fn needs_documents(study: &Study, catalog: &Catalog, mode: PrepareMode) -> bool {
    let all = study.phases.iter().flat_map(|phase| phase.operations_of_mix());
    let traced = catalog.iter().filter_map(|documents| documents.trace()).flat_map(|trace| trace.kinds()).map(Some);
    let ops: Vec<_> = all.map(|of| of.single()).filter(|op| *op != Some(OpKind::Transaction)).chain(traced).collect();
    let makes = |op: &Option<OpKind>| matches!(op, Some(OpKind::Insert | OpKind::Upsert | OpKind::Counter));
    let (any_makes, all_make) = (ops.iter().any(makes), ops.iter().all(makes));
    !loads(study) && if mode.keeps() { !all_make } else { !any_makes }
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

/// The documents of every configuration. Compressibility is measured once for each definition.
fn describe_all(configurations: &[Configuration]) -> Vec<Vec<CollectionResult>> {
    let mut measured: BTreeMap<String, Option<Compression>> = BTreeMap::new();
    configurations
        .iter()
        .map(|configuration| {
            configuration.request.documents.catalog.iter().map(|d| describe(configuration, d, &mut measured)).collect()
        })
        .collect()
}

/// The documents of all configurations, without duplicates.
fn distinct(configurations: &[Configuration], documents: &[Vec<CollectionResult>]) -> Vec<CollectionResult> {
    let mut out: Vec<(CollectionResult, Vec<String>)> = Vec::new();
    for (configuration, of_configuration) in configurations.iter().zip(documents) {
        for made in of_configuration {
            match out.iter_mut().find(|(known, _)| known == made) {
                Some((_, known)) if known.contains(&configuration.name) => {}
                Some((_, known)) => known.push(configuration.name.clone()),
                None => out.push((made.clone(), vec![configuration.name.clone()])),
            }
        }
    }
    let first = documents.first().map_or(&[][..], Vec::as_slice);
    let position = |made: &CollectionResult| first.iter().position(|c| c.collection == made.collection);
    out.sort_by_key(|(made, _)| position(made));
    let names: BTreeSet<&str> = configurations.iter().map(|configuration| configuration.name.as_str()).collect();
    let whole = |of: Vec<String>| if of.len() == names.len() { Vec::new() } else { of };
    out.into_iter().map(|(made, of)| CollectionResult { configurations: whole(of), ..made }).collect()
}

fn describe(
    configuration: &Configuration,
    documents: &Documents,
    measured: &mut BTreeMap<String, Option<Compression>>,
) -> CollectionResult {
    let study = configuration.study();
    let of = study.collections.get(documents.name());
    let measure = || {
        (documents.body() != Body::Counter && documents.count() > 0)
            .then(|| documents.measure_compression(COMPRESSION_SAMPLE_BYTES, LONG_WINDOW_BYTES))
    };
    // Without the number of documents: a larger scale produces more of the same.
    let definition = of.map(|c| Collection { count: None, ..c.clone() });
    let key = serde_json::to_string(&(documents.name(), definition, study.seed)).unwrap_or_default();
    CollectionResult {
        collection: documents.name().to_owned(),
        configurations: Vec::new(),
        count: documents.count(),
        mean_bytes: documents.mean_bytes(),
        existing: foreign::name_in_store(study, documents).map(str::to_owned),
        own: of.is_some_and(|c| c.from.is_some()),
        body: documents.body().name().to_owned(),
        skipped_lines: documents.skipped_lines(),
        compress_to: of.and_then(|c| c.compress_to),
        compression: measured.entry(key).or_insert_with(measure).clone(),
        sample: of.filter(|c| c.from.is_none() && c.existing.is_none()).and_then(|_| sample(documents)),
    }
}

/// Maximum length of a sample document, in characters.
const SAMPLE_CHARS: usize = 400;

/// The first document as text, truncated if it is long.
fn sample(documents: &Documents) -> Option<String> {
    if documents.body() != Body::Json || documents.count() == 0 {
        return None;
    }
    let mut body = Vec::new();
    documents.write_document(0, 0, &mut body);
    let text = String::from_utf8(body).ok()?;
    let mut cut: String = text.chars().take(SAMPLE_CHARS).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    Some(cut)
}
