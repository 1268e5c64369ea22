//! Tasks of a copy that another process distributes: see [`Tasks`](storebench_transfer::Tasks).

use std::sync::Arc;

use storebench_engine::Stop;
use storebench_results::redact_url;
use storebench_transfer::{
    Begin, CopyRequest, FileSink, Sink, StoreSink, StoreSinkOptions, Task, perform as perform_task,
};

use crate::args::CopyArgs;
use crate::endpoints::Endpoint;
use crate::failure::Failure;
use crate::output::print;
use crate::signals::ask_on_interrupt;
use crate::stores;
use crate::verbs::copy::{Begun, Ended, Plan, Read, file_target, request, sink_options, source};
use crate::verbs::{copy_guards, copy_records};

/// Refuses a target that only one process can write to.
///
/// # Errors
/// The target is an embedded store.
pub(super) fn check(to: &Endpoint) -> Result<(), Failure> {
    let Endpoint::Store(url) = to else { return Ok(()) };
    if stores::open(url)?.paths().is_empty() {
        return Ok(());
    }
    Err(Failure::bad_input(format!(
        "{}: several processes cannot write to an embedded store; use a server, or copy without tasks",
        redact_url(url)
    )))
}

/// Performs a task, and prints its report.
pub(super) fn perform(args: &CopyArgs, text: &str) -> Result<u8, Ended> {
    let task: Task = serde_json::from_str(text).map_err(|e| {
        Failure::bad_input(format!("a task cannot be read: {e}; use the same version of Storebench everywhere"))
    })?;
    let (from, to) = (Endpoint::of(&args.from)?, Endpoint::of(&args.to)?);
    let args = &*copy_guards::with_collection(args, &from)?;
    let plan = Plan::of(args, &from, &to)?;
    let shape = copy_records::shape(&args.records, &task.copy)?;
    let Read { source, .. } = source(args, &plan, &from)?;
    // The log and the rejects of the task, which go into its report.
    let folder = tempfile::Builder::new()
        .prefix("storebench-task-")
        .tempdir()
        .map_err(|e| Failure::spoiled(format!("cannot create a temporary folder: {e}; set TMPDIR")))?;
    // The first process has checked the target and its files.
    let begun = Begun { folder: folder.path().to_owned(), begin: Begin::Resume, given_up: None };
    let sink: Box<dyn Sink> = match (file_target(args, &plan, &to, &begun)?, &to) {
        (Some(options), _) => Box::new(FileSink::of_task(options, &task.target)?),
        (None, Endpoint::Store(url)) => {
            let (resumes, inserts_first) = (task.target.copy, Some(task.target.inserts_first));
            let options = StoreSinkOptions { resumes, inserts_first, ..sink_options(args, &plan) };
            Box::new(StoreSink::open(stores::open(url)?, options)?)
        }
        (None, _) => return Err(Failure::bad_input("tasks need a store or files as their target").into()),
    };
    let all = request(args, 1, (&*source, &*sink), &shape, folder.path());
    // The limits are for all tasks together.
    let share = |limit: Option<f64>| limit.map(|limit| limit / f64::from(task.at_once));
    let request = CopyRequest { docs_per_s: share(all.docs_per_s), bytes_per_s: share(all.bytes_per_s), ..all };
    let stop = Arc::new(Stop::new());
    ask_on_interrupt(&stop)?;
    let report = perform_task(&request, &task, &stop)?;
    let text = serde_json::to_string(&report).map_err(|e| Failure::spoiled(format!("cannot write the report: {e}")))?;
    print(&text)?;
    Ok(0)
}
