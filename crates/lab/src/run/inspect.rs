//! Inspects the stores of a run, and refuses what cannot work, before the first store is touched.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use storebench_documents::{Catalog, Documents};
use storebench_engine::ResolvedPhase;
use storebench_engine::store::{
    AnyStore, Capabilities, Namespace, OpKind, Prepare, StoreError, copied, first_answer, place_of,
};
use storebench_machine::{Processors, folder_use};
use storebench_results::environment::Environment;
use storebench_results::plan::Plan;
use storebench_study::Part;
use storebench_study::workload::Study;

use super::error::LabError;
use super::ledgers::ledger_fits;
use super::request::{ConfigurationRequest, PrepareMode, RunRequest};
use super::runner::Configuration;
use super::servers::Managed;
use crate::environment::this_machine;
use crate::plan::load_key;
use crate::space::{
    Need, OPEN_FILES_OF_A_WORKER, OPEN_FILES_OF_ITSELF, check_open_files, check_space, check_time, free_at,
    open_files_limit,
};
use crate::sync::sync_times;

/// All configurations. Each server runs only while its store is inspected, because servers would disturb each other.
pub(super) fn looked_at(request: &RunRequest) -> Result<Vec<Configuration>, LabError> {
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

/// Refuses a plan that does not fit on the disks, or that takes too long.
pub(super) fn enough(configurations: &[Configuration], plan: &Plan) -> Result<(), LabError> {
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
pub(super) fn time_syncs(configurations: &[Configuration], environment: &mut Environment) {
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
        (Namespace::Foreign(what), mode) => {
            let next = match mode {
                PrepareMode::Keep => {
                    "To measure documents that Storebench wrote beside it, add --into-existing as well, which keeps both"
                }
                _ => "Use another place, or add --into-existing to write beside it",
            };
            return Err(refused(StoreError::NotOurs(format!(
                "{} holds {what}, which Storebench did not make; nothing was touched. {next}",
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
