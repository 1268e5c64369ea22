//! The steps of a copy.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use storebench_engine::measure::PhaseRecord;
use storebench_engine::store::Durability;
use storebench_engine::{Event, Observer, Stop};
use storebench_lab::copied::{Copied, keep_copy};
use storebench_lab::space::{
    OPEN_FILES_OF_A_WORKER, OPEN_FILES_OF_ITSELF, check_open_files, free_at, open_files_limit,
};
use storebench_results::exit::{INTERRUPTED, SPOILED};
use storebench_results::human::{bytes, count};
use storebench_results::validity::Severity;
use storebench_results::{RunResult, Secrets};
use storebench_transfer::{
    Begin, CopyOutcome, CopyReport, CopyRequest, FileLocation, Shape, Sink, Source, StoreCounts, StoreSink, abandon,
    copy as copy_all, finish, refuse_rejects, target_of,
};

use super::ended::Ended;
use super::plan::Plan;
use super::source::{Read, source};
use super::space::Target;
use super::target::{file_options, sink, store_options};
use super::{columns, guards, records, space, summary, tasks};
use crate::allocator::keep_freed_memory;
use crate::args::CopyArgs;
use crate::endpoints::Endpoint;
use crate::failure::Failure;
use crate::in_process;
use crate::output::{print, print_json_or};
use crate::progress::Progress;
use crate::signals::ask_on_interrupt;
use crate::verbs::measure::metrics;
use crate::verbs::report::index_is_older;

/// Files that each worker of a copy may have open: those of its source and its target.
const FILES_OF_A_COPY: u64 = 6;

/// The shortest copy, in seconds, that reports its bottleneck.
const TELLING_S: f64 = 5.0;

pub(crate) fn copy(args: &CopyArgs) -> Result<u8, Failure> {
    let ended = match in_process::provided(|provided| provided.task.take()) {
        Some(task) => tasks::perform(args, &task),
        None => run(args),
    };
    ended.map_err(|ended| ended.failure(args))
}

fn run(args: &CopyArgs) -> Result<u8, Ended> {
    keep_freed_memory();
    let runner = in_process::provided(|provided| provided.tasks.take());
    let runner = runner.as_deref();
    let mut plan = Plan::of(args.clone())?;
    let mut progress = Progress::new(args.quiet);
    let metrics = metrics(args.metrics.as_ref(), "copy", &progress)?.map(Mutex::new);
    if let Some(runner) = runner {
        tasks::check(&plan, runner)?;
        plan.parallel = args.parallel.unwrap_or(runner.at_once());
    }
    let plan = &plan;
    let need = OPEN_FILES_OF_ITSELF + u64::from(plan.parallel) * (OPEN_FILES_OF_A_WORKER + FILES_OF_A_COPY);
    check_open_files("this copy", need, open_files_limit(), ", or lower --parallel").map_err(Failure::bad_input)?;
    let shape = records::shape(&args.records, &plan.id)?;
    let stop = Arc::new(Stop::new());
    columns::check(plan)?;
    guards::answered(args, [&plan.from, &plan.to])?;
    let Read { source, theirs, bytes, partitions } = source(plan, &stop)?;
    guards::check_places(plan, theirs)?;
    let begun = plan.begin()?;
    let files = file_options(plan, &begun)?;
    if begun.begin != Begin::Resume {
        let target = match (&files, &plan.to) {
            (Some(files), _) => Target::Files(files),
            (None, Endpoint::Store(_, store)) => Target::Store(store.paths().into_iter().next()),
            (None, _) => Target::Store(None),
        };
        space::check(args, bytes, &target, &begun.folder, &free_at)?;
    }
    if args.dry_run {
        return dry_run(plan, &*source, &shape);
    }
    if args.json && matches!(plan.to, Endpoint::Standard) {
        let what = "standard output cannot hold both the documents and --json; copy to a file, or omit --json";
        return Err(Failure::bad_input(what).into());
    }
    writable(&args.out)?;
    let rejects = args.rejects.clone().unwrap_or_else(|| begun.folder.join("rejects.jsonl"));
    if begun.begin != Begin::Resume {
        refuse_rejects(&rejects, args.force)?;
    }
    let resumes = if begun.begin == Begin::Resume { target_of(&begun.folder)? } else { None };
    let sink = sink(plan, files, &*source, &shape, resumes)?;
    // Only now, because the new copy can start.
    if let Some(unfinished) = &begun.given_up {
        abandon(unfinished)?;
    }
    let request = CopyRequest {
        begin: begun.begin,
        rejects,
        settings: plan.settings.0.clone(),
        tasks: runner,
        observer: metrics.as_ref().map(|metrics| metrics as &Mutex<dyn Observer + Send>),
        ..request(plan, (&*source, &*sink), &shape, &begun.folder)
    };
    ask_on_interrupt(&stop)?;
    announce(plan, &request, &partitions, &progress);
    let metrics = || metrics.as_ref().map(|metrics| metrics.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(mut metrics) = metrics() {
        let store = request.sink.store().or(request.source.store()).map_or("files", |store| store.describe().scheme);
        let (folder, configuration) = (Some(&*begun.folder), "copy");
        metrics.event(&Event::TrialBegan { trial: 1, of: 1, round: 1, store, configuration, folder });
    }
    let outcome = copy_all(&request, &stop, &mut |now| {
        progress.copied(&now);
        let told = metrics().and_then(|mut metrics| {
            metrics.copied(now.documents, now.bytes, now.rejected);
            metrics.complaint()
        });
        told.into_iter().for_each(|complaint| progress.tell(&complaint));
    });
    progress.end_count();
    if let Some(failed) = metrics().and_then(|mut metrics| metrics.end()) {
        progress.tell(&failed);
    }
    let CopyOutcome { report, record, .. } = outcome?;
    end(&begun.folder, &report)?;
    // Tasks report what they copied, not how long each request took.
    if runner.is_none() {
        let measured = keep_measurement(plan, &request, &report, &record)?;
        let starved = measured.checks.iter().find(|v| v.check == "client-saturated" && v.severity > Severity::Note);
        if let Some(starved) = starved.filter(|_| report.seconds >= TELLING_S) {
            progress.note(&format!("the client was the bottleneck: {}", starved.observed));
        }
        if let Some(older) = index_is_older(&begun.folder) {
            progress.note(&older);
        }
    }
    print_report(plan, &report, &progress)?;
    Ok(match () {
        () if report.interrupted => INTERRUPTED,
        () if !report.damaged.is_empty() => SPOILED,
        () if report.counts.rejected > args.max_errors.0 => SPOILED,
        () if report.verified.as_ref().is_some_and(|verified| !verified.equal) => SPOILED,
        () if report.counted.as_ref().is_some_and(StoreCounts::is_loss) => SPOILED,
        () => 0,
    })
}

/// What a copy that begins is asked to do, or a task of one.
pub(super) fn request<'a>(
    plan: &'a Plan,
    (source, sink): (&'a dyn Source, &'a dyn Sink),
    shape: &'a Shape,
    folder: &Path,
) -> CopyRequest<'a> {
    let args = &plan.args;
    CopyRequest {
        source,
        sink,
        splits: None,
        shape,
        // With --op-field, the operation of a record that cannot be read is unknown.
        op: if args.records.op_field.is_some() { "unknown" } else { args.op.name() },
        parallel: plan.parallel,
        docs_per_s: args.rate_docs.map(|rate| rate.0),
        bytes_per_s: args.rate_bytes.map(|rate| rate.bytes() as f64),
        rejects: folder.join("rejects.jsonl"),
        folder: folder.to_owned(),
        settings: std::collections::BTreeMap::new(),
        begin: Begin::Fresh,
        replace: args.force,
        verify: args.verify,
        interval: Duration::from_secs(1),
        tasks: None,
        observer: None,
    }
}

/// Refuses an --out folder that cannot be written, before anything is written elsewhere.
fn writable(out: &Path) -> Result<(), Failure> {
    let probe = out.join(format!(".storebench-{}", std::process::id()));
    let made = std::fs::create_dir_all(out).and_then(|()| std::fs::File::create(&probe));
    made.and_then(|_| std::fs::remove_file(&probe)).map_err(|e| {
        Failure::bad_input(format!("--out {}: cannot be written: {e}; name another folder with --out", out.display()))
    })
}

/// Says what the user may not expect of a copy that begins.
fn announce(plan: &Plan, request: &CopyRequest<'_>, partitions: &[String], progress: &Progress) {
    if !partitions.is_empty() {
        progress.note(&format!(
            "the folders of the files name fields, which are added to each record: {} (--no-partitions leaves them out)",
            partitions.join(", ")
        ));
    }
    if let Some((proxy, variable)) = FileLocation::proxy(&plan.args.from) {
        progress.note(&format!("requests for the source go through the proxy {proxy}, which {variable} names"));
    }
    if let Some(evicts) = request.sink.account().and_then(|account| account.evicts) {
        progress.note(&format!(
            "the target may remove documents by itself ({evicts}); at its end, the copy says how many, if the target counts \
             them"
        ));
    }
    if request.sink.writes().is_ok_and(|writes| writes.durability == Durability::MEMORY) {
        progress.note(
            "the target may acknowledge documents before they are on its disk: if it ends during the copy, some may be \
             missing, which --verify finds",
        );
    }
    if plan.args.resume && request.begin == Begin::Fresh {
        progress.note("no unfinished copy found; starting a new one");
    }
}

fn print_report(plan: &Plan, report: &CopyReport, progress: &Progress) -> Result<(), Failure> {
    if !matches!(plan.to, Endpoint::Standard) {
        return print_json_or(plan.args.json, report, || summary::text(report, plan));
    }
    // The documents are already on stdout.
    let told = summary::text(report, plan);
    if report.counts.rejected > 0 || !report.damaged.is_empty() {
        progress.tell(told.trim_end());
    } else {
        progress.note(told.trim_end());
    }
    Ok(())
}

fn dry_run(plan: &Plan, source: &dyn Source, shape: &Shape) -> Result<u8, Ended> {
    let splits = source.splits(plan.parallel)?;
    let size: Option<u64> = splits.iter().map(|split| split.bytes).sum();
    let target = match &plan.to {
        Endpoint::Store(url, store) => {
            StoreSink::check(&**store, &store_options(plan), plan.args.verify)?;
            // Checks that the store answers and accepts the credentials.
            store.inspect().map_err(|error| Failure::of_store(url, &error))?;
            format!("{}, {}", store.describe().url, plan.to_collection.clone().unwrap_or_default())
        }
        Endpoint::Standard => "standard output".to_owned(),
        Endpoint::Files(path) => path.clone(),
        Endpoint::Remote(url) => FileLocation::of_url(url, &plan.access())?.to_string(),
    };
    print(&format!(
        "from  {}\nto    {target}\nparts {}{}, {} workers\nnothing was written (--dry-run)\n",
        source.describe(),
        count(splits.len() as u64),
        size.map(|size| format!(", {}", bytes(size as f64))).unwrap_or_default(),
        plan.parallel.min(splits.len() as u32).max(1),
    ))?;
    if let Some(format) = columns::format_of(plan).filter(|format| format.has_columns()) {
        let columns = columns::columns(plan, source, shape, format)?;
        print(&format!("columns, as --schema reads them:\n{}\n", columns.schema()))?;
    }
    Ok(0)
}

/// Saves the report, and marks the log as done unless the copy was interrupted.
fn end(folder: &Path, report: &CopyReport) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::spoiled(format!("{}: cannot be written: {e}", folder.display()));
    let text = serde_json::to_vec_pretty(report).map_err(|e| failed(e.into()))?;
    std::fs::write(folder.join("copy.json"), text).map_err(failed)?;
    if !report.interrupted && report.splits_to_repeat == 0 {
        finish(folder).map_err(failed)?;
    }
    Ok(())
}

/// Saves the measurement in the files of a run.
fn keep_measurement(
    plan: &Plan,
    request: &CopyRequest<'_>,
    report: &CopyReport,
    record: &PhaseRecord,
) -> Result<RunResult, Failure> {
    let args = &plan.args;
    let copied = Copied {
        from: &report.from,
        to: &report.to,
        store: request.sink.store().or(request.source.store()),
        collection: plan.to_collection.as_ref().or(args.from_collection.as_ref()).map_or("", String::as_str),
        documents: report.counts.written - report.before.written,
        bytes: report.counts.bytes - report.before.bytes,
        before: report.before.written,
        record,
        settings: &serde_json::json!(request.settings),
        commit: option_env!("STOREBENCH_COMMIT"),
    };
    keep_copy(&request.folder, &copied, &Secrets::of_ends(&args.from, &args.to))
        .map_err(|e| Failure::spoiled(e.to_string()))
}
