//! Tasks of a copy that another process distributes: see [`Tasks`](storebench_transfer::Tasks).

use std::sync::Arc;

use storebench_engine::store::AnyStore;
use storebench_results::redact_url;
use storebench_transfer::{
    Begin, CopyRequest, FileSink, Sink, StoreSink, StoreSinkOptions, Task, Tasks, check_tasks, perform as perform_task,
};

use super::ended::Ended;
use super::plan::{Begun, Plan};
use super::records;
use super::run::request;
use super::source::{Read, source};
use super::target::{file_options, store_options};
use crate::args::CopyArgs;
use crate::endpoints::Endpoint;
use crate::failure::Failure;
use crate::in_process::Outcome;
use crate::output::print;
use crate::signals::stop_on_interrupt;

/// Refuses what tasks cannot do, before anything is changed. The copy itself checks the rest.
///
/// # Errors
/// Only one process can write to the target, or a task must not run twice.
pub(super) fn check(plan: &Plan, tasks: &dyn Tasks) -> Result<(), Failure> {
    let op = if plan.args.records.op_field.is_some() { "op_field" } else { plan.args.op.name() };
    check_tasks(op, plan.repeatable, !matches!(plan.from, Endpoint::Standard), tasks).map_err(Failure::bad_input)?;
    match &plan.to {
        Endpoint::Store(url, store) if is_embedded(store) => Err(Failure::bad_input(format!(
            "{}: several processes cannot write to an embedded store; use a store with a server, or storebench.copy",
            redact_url(url)
        ))),
        _ => Ok(()),
    }
}

/// Whether a store lives in the process that opens it.
fn is_embedded(store: &Arc<dyn AnyStore>) -> bool {
    store.capabilities().embedded || !store.paths().is_empty()
}

/// Checks that several processes can write to the store at this URL.
///
/// # Errors
/// It is not a store, or an embedded one.
pub fn check_server(url: &str) -> Result<(), Outcome> {
    let shown = redact_url(url);
    let why = match Endpoint::of(url)? {
        Endpoint::Store(_, store) if !is_embedded(&store) => return Ok(()),
        Endpoint::Store(..) => {
            format!("{shown}: several processes cannot write to an embedded store; use a store with a server")
        }
        _ => format!("{shown} is not the URL of a store; files are written by copy"),
    };
    Err(Failure::bad_input(why).into())
}

/// Performs a task, and prints its report.
pub(super) fn perform(args: &CopyArgs, text: &str) -> Result<u8, Ended> {
    let task: Task = serde_json::from_str(text).map_err(|e| {
        Failure::bad_input(format!("cannot parse a task: {e}; install the same Storebench version on all workers"))
    })?;
    // What others have created in the store since must not matter.
    let found = task.collection.clone().or_else(|| args.from_collection.clone());
    let plan = Plan::of(CopyArgs { from_collection: found, ..args.clone() })?;
    let shape = records::shape(&args.records, &task.copy)?;
    let Read { source, .. } = source(&plan, &Arc::default())?;
    // The log and the rejects of the task, which go into its report.
    let folder = tempfile::Builder::new()
        .prefix("storebench-task-")
        .tempdir()
        .map_err(|e| Failure::spoiled(format!("cannot create a temporary folder: {e}; set TMPDIR")))?;
    // The first process has checked the target and its files.
    let begun = Begun { folder: folder.path().to_owned(), begin: Begin::Resume, given_up: None };
    let sink: Box<dyn Sink> = match (file_options(&plan, &begun)?, &plan.to) {
        (Some(options), _) => Box::new(FileSink::of_task(options, &task.target)?),
        (None, Endpoint::Store(_, store)) => {
            let (resumes, inserts_first) = (task.target.copy, Some(task.target.inserts_first));
            let options = StoreSinkOptions { resumes, inserts_first, ..store_options(&plan) };
            Box::new(StoreSink::open(Arc::clone(store), options)?)
        }
        (None, _) => return Err(Failure::bad_input("tasks need a store or files as their target").into()),
    };
    let all = request(&plan, (&*source, &*sink), &shape, folder.path());
    // The limits are for all tasks together.
    let share = |limit: Option<f64>| limit.map(|limit| limit / f64::from(task.at_once));
    let (docs_per_s, bytes_per_s) = (share(all.docs_per_s), share(all.bytes_per_s));
    // Tasks of another job read back.
    let request = CopyRequest { parallel: 1, docs_per_s, bytes_per_s, verify: false, ..all };
    let stop = stop_on_interrupt()?;
    let report = perform_task(&request, &task, &stop)?;
    let text = serde_json::to_string(&report).map_err(|e| Failure::spoiled(format!("cannot write the report: {e}")))?;
    print(&text)?;
    Ok(0)
}
