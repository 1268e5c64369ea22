//! `copy FROM TO`: copies documents between files and stores.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use storebench_engine::Stop;
use storebench_engine::measure::PhaseRecord;
use storebench_engine::store::{CopyId, Existing, OpKind, RowsKind};
use storebench_lab::copied::{Copied, keep_copy};
use storebench_lab::space::{
    OPEN_FILES_OF_A_WORKER, OPEN_FILES_OF_ITSELF, check_open_files, free_at, open_files_limit,
};
use storebench_results::exit::{INTERRUPTED, SPOILED};
use storebench_results::human::{bytes, count};
use storebench_results::validity::Severity;
use storebench_results::{RunResult, Secrets, dated, redact, redact_url};
use storebench_stores::meant;
use storebench_transfer::{
    Access, Begin, Columns, CopyOutcome, CopyReport, CopyRequest, Expiry, FileLocation, FileSink, FileSinkOptions,
    FileSource, FileSourceOptions, Format, KEY_FIELD, MergeBy, Packing, RecordOp, RetryPolicy, Shape, Sink, Source,
    StoreCounts, StoreSink, StoreSinkOptions, StoreSource, StoreSourceOptions, TheirExpiry, TransferError, USUAL_BATCH,
    ViewSource, abandon, copy as copy_all, is_unfinished, name_of, settings_of, target_of,
};

use crate::allocator::keep_freed_memory;
use crate::args::CopyArgs;
use crate::endpoints::{Endpoint, Found, find_files, refuse_databases};
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::progress::Progress;
use crate::signals::ask_on_interrupt;
use crate::verbs::copy_settings::Settings;
use crate::verbs::copy_space::Target;
use crate::verbs::{copy_columns, copy_guards, copy_records, copy_space, copy_summary, copy_tasks};
use crate::{in_process, stores};

/// The log of a copy that has finished.
const DONE: &str = "log.done.jsonl";

/// Files that each worker of a copy may have open: those of its source and its target.
const FILES_OF_A_COPY: u64 = 6;

/// The shortest copy, in seconds, that reports its bottleneck.
const TELLING_S: f64 = 5.0;

pub(crate) fn copy(args: &CopyArgs) -> Result<u8, Failure> {
    let ended = match in_process::provided(|provided| provided.task.take()) {
        Some(task) => copy_tasks::perform(args, &task),
        None => run(args),
    };
    ended.map_err(|ended| ended.failure(args))
}

fn run(args: &CopyArgs) -> Result<u8, Ended> {
    keep_freed_memory();
    let tasks = in_process::provided(|provided| provided.tasks.take());
    let tasks = tasks.as_deref();
    let (from, to) = (Endpoint::of(&args.from)?, Endpoint::of(&args.to)?);
    let args = &*copy_guards::with_collection(args, &from)?;
    let mut plan = Plan::of(args, &from, &to)?;
    if let Some(tasks) = tasks {
        copy_tasks::check(args, &plan, (&from, &to), tasks)?;
        plan.parallel = args.parallel.unwrap_or(tasks.at_once());
    }
    let need = OPEN_FILES_OF_ITSELF + u64::from(plan.parallel) * (OPEN_FILES_OF_A_WORKER + FILES_OF_A_COPY);
    check_open_files("this copy", need, open_files_limit(), ", or lower --parallel").map_err(Failure::bad_input)?;
    let shape = copy_records::shape(&args.records, &plan.id)?;
    let stop = Arc::new(Stop::new());
    copy_columns::check(&plan.settings, copy_columns::format_of(args, &to))?;
    copy_guards::answered(args, [&from, &to])?;
    let Read { source, theirs, bytes, partitions } = source(args, &plan, &from, &stop)?;
    copy_guards::check_places(args, &from, &to, plan.to_collection.as_deref(), theirs)?;
    let begun = plan.begin(args)?;
    let files = file_target(args, &plan, &to, &begun)?;
    if begun.begin != Begin::Resume {
        let target = match (&files, &to) {
            (Some(files), _) => Target::Files(files),
            (None, Endpoint::Store(url)) => Target::Store(stores::open(url)?.paths().into_iter().next()),
            (None, _) => Target::Store(None),
        };
        copy_space::check(args, bytes, &target, &begun.folder, &free_at)?;
    }
    if args.dry_run {
        return dry_run(args, &plan, &*source, &to, &shape);
    }
    if args.json && matches!(to, Endpoint::Standard) {
        let what = "standard output cannot hold both the documents and --json; copy to a file, or omit --json";
        return Err(Failure::bad_input(what).into());
    }
    writable(&args.out)?;
    let Begun { folder, begin, given_up } = begun;
    let resumes = if begin == Begin::Resume { target_of(&folder) } else { None };
    let sink = sink(args, &plan, &to, files, &*source, &shape, resumes)?;
    // Only now, because the new copy can start.
    if let Some(unfinished) = given_up {
        abandon(&unfinished)?;
    }
    let request = CopyRequest {
        begin,
        rejects: args.rejects.clone().unwrap_or_else(|| folder.join("rejects.jsonl")),
        settings: plan.settings.0.clone(),
        tasks,
        ..request(args, plan.parallel, (&*source, &*sink), &shape, &folder)
    };
    ask_on_interrupt(&stop)?;
    let mut progress = Progress::new(args.quiet);
    if !partitions.is_empty() {
        progress.note(&format!(
            "the folders of the files name fields, which are added to each record: {} (--no-partitions leaves them out)",
            partitions.join(", ")
        ));
    }
    if let Some((proxy, variable)) = FileLocation::proxy(&args.from) {
        progress.note(&format!("requests for the source go through the proxy {proxy}, which {variable} names"));
    }
    if let Some(evicts) = request.sink.account().and_then(|account| account.evicts) {
        progress.note(&format!(
            "the target removes documents by itself when its memory is full ({evicts}); at its end, the copy says whether \
             it did"
        ));
    }
    if args.resume && begin == Begin::Fresh {
        progress.note("no unfinished copy found; starting a new one");
    }
    let marked = matches!(to, Endpoint::Store(_)) && !args.into_existing;
    if begin == Begin::Resume && marked && resumes.is_none() {
        progress.note(
            "an older version of Storebench started this copy; whether its target is still the same is not checked",
        );
    }
    let outcome = copy_all(&request, &stop, &mut |now| progress.copied(&now));
    progress.end_count();
    let CopyOutcome { report, record, .. } = outcome?;
    end(&folder, &report)?;
    // Tasks report what they copied, not how long each request took.
    if tasks.is_none() {
        let measured = keep_measurement(args, &request, &report, &record)?;
        let starved = measured.checks.iter().find(|v| v.check == "client-saturated" && v.severity > Severity::Note);
        if let Some(starved) = starved.filter(|_| report.seconds >= TELLING_S) {
            progress.note(&format!("the client was the bottleneck: {}", starved.observed));
        }
        if let Some(older) = super::report::index_is_older(&folder) {
            progress.note(&older);
        }
    }
    if args.json && !matches!(to, Endpoint::Standard) {
        print_json(&report)?;
    } else if matches!(to, Endpoint::Standard) {
        // The documents are already on stdout.
        let told = copy_summary::text(&report, args, &to);
        if report.counts.rejected > 0 || !report.damaged.is_empty() {
            progress.tell(told.trim_end())
        } else {
            progress.note(told.trim_end())
        }
    } else {
        print(&copy_summary::text(&report, args, &to))?;
    }
    Ok(match () {
        () if report.interrupted => INTERRUPTED,
        () if !report.damaged.is_empty() => SPOILED,
        () if report.counts.rejected > args.max_errors.0 => SPOILED,
        () if report.verified.as_ref().is_some_and(|verified| !verified.equal) => SPOILED,
        () if report.counted.as_ref().is_some_and(StoreCounts::is_loss) => SPOILED,
        () => 0,
    })
}

/// What the arguments say about a copy that begins, or about a task of one.
pub(super) fn request<'a>(
    args: &'a CopyArgs,
    parallel: u32,
    (source, sink): (&'a dyn Source, &'a dyn Sink),
    shape: &'a Shape,
    folder: &Path,
) -> CopyRequest<'a> {
    CopyRequest {
        source,
        sink,
        splits: None,
        shape,
        // With --op-field, the operation of a record that cannot be read is unknown.
        op: if args.records.op_field.is_some() { "unknown" } else { args.op.name() },
        parallel,
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
    }
}

/// How a copy starts, and the folder of its log.
pub(super) struct Begun {
    pub(super) folder: PathBuf,
    pub(super) begin: Begin,
    /// The unfinished copy to abandon.
    pub(super) given_up: Option<PathBuf>,
}

/// The source of a copy.
pub(super) struct Read {
    pub(super) source: Box<dyn Source>,
    /// Whether it is a collection that Storebench did not create.
    theirs: bool,
    /// The approximate size as text.
    bytes: Option<u64>,
    /// Fields that folders name.
    partitions: Vec<String>,
}

/// Refuses an --out folder that cannot be written, before anything is written elsewhere.
fn writable(out: &Path) -> Result<(), Failure> {
    let probe = out.join(format!(".storebench-{}", std::process::id()));
    let made = std::fs::create_dir_all(out).and_then(|()| std::fs::File::create(&probe));
    made.and_then(|_| std::fs::remove_file(&probe)).map_err(|e| {
        Failure::bad_input(format!("--out {}: cannot be written: {e}; name another folder with --out", out.display()))
    })
}

/// What follows from the arguments alone, before any file or store is accessed.
pub(super) struct Plan {
    /// Identifies this copy: the same arguments give the same id.
    pub(super) id: String,
    pub(super) parallel: u32,
    pub(super) settings: Settings,
    to_collection: Option<String>,
    merge: Option<MergeBy>,
    expiry: Option<Expiry>,
    their_expiry: TheirExpiry,
    /// Whether the copy is idempotent.
    pub(super) repeatable: bool,
}

impl Plan {
    pub(super) fn of(args: &CopyArgs, from: &Endpoint, to: &Endpoint) -> Result<Self, Failure> {
        let to_collection = match to {
            Endpoint::Store(_) => Some(
                args.to_collection
                    .clone()
                    .or_else(|| args.from_collection.clone().filter(|name| !name.contains(['.', ':', '/'])))
                    .or_else(|| from.name())
                    .ok_or_else(|| {
                        let why = match from {
                            Endpoint::Files(file) => format!(
                                "{file} names no collection, because the name of a collection begins with a letter; "
                            ),
                            Endpoint::Remote(url) => format!(
                                "{} names no collection, because the name of a collection begins with a letter; ",
                                FileLocation::shown(url)
                            ),
                            Endpoint::Standard | Endpoint::Store(_) => String::new(),
                        };
                        Failure::bad_input(format!(
                            "{why}name the target collection of {} with --to-collection NAME",
                            redact_url(&args.to)
                        ))
                    })?,
            ),
            _ => None,
        };
        let settings = Settings::of(args, to_collection.as_ref());
        let cwd = std::env::current_dir().unwrap_or_default();
        // The working folder is part of the id, because relative paths depend on it.
        let id = name_of(&format!("{:?} {}", settings.0, cwd.display()));
        let parallel = args
            .parallel
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1)));
        let (merge, expiry) = (copy_records::merge(&args.records)?, copy_records::expiry(&args.records)?);
        let their_expiry = their_expiry(args, from, to)?;
        let repeatable = args.op.repeatable() && merge.is_none() && args.records.op_field.is_none();
        Ok(Self { id, parallel, settings, to_collection, merge, expiry, their_expiry, repeatable })
    }

    /// Where this copy continues or starts.
    fn begin(&self, args: &CopyArgs) -> Result<Begun, Failure> {
        let folders: Vec<PathBuf> = std::fs::read_dir(&args.out)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .collect();
        let is_this = |path: &&PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("copy-") && name.split('-').any(|part| part == self.id))
        };
        let unfinished = folders.iter().filter(|path| is_unfinished(path));
        let mut given_up = None;
        if let Some(folder) = unfinished.clone().find(is_this) {
            if args.resume {
                return Ok(Begun { folder: folder.clone(), begin: Begin::Resume, given_up: None });
            }
            if !args.restart && !args.dry_run {
                return Err(Failure::bad_input(format!(
                    "found an unfinished copy in {}; use --resume to continue or --restart to start over",
                    folder.display()
                )));
            }
            given_up = Some(folder.clone());
        } else if args.resume {
            if let Some((folder, flags)) =
                unfinished.clone().find_map(|folder| Some((folder, self.settings.differs_from(&settings_of(folder)?)?)))
            {
                return Err(Failure::bad_input(format!(
                    "the unfinished copy in {} was started with another {flags}; to resume it, use the same arguments \
                     in the same working folder",
                    folder.display()
                )));
            }
            if let (false, Some(folder)) =
                (self.repeatable, folders.iter().filter(is_this).find(|folder| folder.join(DONE).exists()))
            {
                return Err(Failure::bad_input(format!(
                    "the copy in {} has finished, and running it again would apply its records a second time; to do \
                     that, omit --resume",
                    folder.display()
                )));
            }
        }
        let begin = if given_up.is_some() { Begin::Restart } else { Begin::Fresh };
        let stem = format!("{}-{}", dated("copy"), self.id);
        let name = |more: u32| args.out.join(if more == 1 { stem.clone() } else { format!("{stem}-{more}") });
        let folder = (1..).map(name).find(|folder| !folder.exists()).unwrap_or_else(|| name(1));
        Ok(Begun { folder, begin, given_up })
    }
}

/// What to do with expiries that the source reports: keep them if the target supports expiry, and otherwise reject the
/// documents.
fn their_expiry(args: &CopyArgs, from: &Endpoint, to: &Endpoint) -> Result<TheirExpiry, Failure> {
    let (Endpoint::Store(from), Endpoint::Store(to), false) = (from, to, args.drop_expiry) else {
        return Ok(if args.drop_expiry { TheirExpiry::Dropped } else { TheirExpiry::Rejected });
    };
    let shown = stores::open(from)?.capabilities().rows.contains(&RowsKind::Walk);
    let known = stores::open(to)?.capabilities().supports(OpKind::Touch).is_some();
    // In the user's own MongoDB collection, documents get no expiry.
    let known = known && !(args.into_existing && to.starts_with("mongodb"));
    let taken = args.op.expires();
    Ok(if shown && known && taken { TheirExpiry::Kept } else { TheirExpiry::Rejected })
}

/// Why a copy did not start, or failed.
pub(super) enum Ended {
    Failure(Failure),
    Transfer(TransferError),
}

impl Ended {
    /// The failure, with its exit code.
    pub(super) fn failure(self, args: &CopyArgs) -> Failure {
        match self {
            Self::Failure(failure) => failure,
            Self::Transfer(error) => failure(args, error),
        }
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<TransferError> for Ended {
    fn from(error: TransferError) -> Self {
        Self::Transfer(error)
    }
}

pub(super) fn source(args: &CopyArgs, plan: &Plan, from: &Endpoint, stop: &Arc<Stop>) -> Result<Read, Ended> {
    let is_store = matches!(from, Endpoint::Store(_));
    let idle: &[&str] = if is_store {
        &["--from-format", "--types", "--delimiter", "--escapes", "--no-partitions"]
    } else {
        &["--from-collection", "--from-key", "--from-body", "--query", "--view"]
    };
    let of_stores = plan.settings.first_of(&["--drop-expiry", "--drop-attachments"]).filter(|_| !is_store);
    if let Some(flag) = plan.settings.first_of(idle).or(of_stores) {
        let from = &args.from;
        return Err(Failure::bad_input(match flag {
            _ if is_store => format!("{flag} needs a file as its source, and {from} is not one"),
            _ if of_stores == Some(flag) => format!("{flag} needs a store as its source, and {from} is not one"),
            _ => format!("{flag} needs a store, and {from} is not one"),
        })
        .into());
    }
    let of_files = |source: FileSource| {
        let (bytes, partitions) = (source.text_bytes(), source.partitions().to_vec());
        Ok(Read { source: Box::new(source), theirs: false, bytes, partitions })
    };
    match from {
        Endpoint::Standard => match in_process::provided(|provided| provided.input.take()) {
            Some(input) => of_files(FileSource::stream("the input", input, file_options(args))?),
            None => of_files(FileSource::stdin(file_options(args), Arc::clone(stop))?),
        },
        Endpoint::Files(pattern) => {
            let Found { files, left_out } = find_files(pattern)?;
            refuse_databases(&files)?;
            of_files(FileSource::open(&files, FileSourceOptions { left_out, ..file_options(args) })?)
        }
        Endpoint::Remote(url) => {
            let (files, left_out) = FileLocation::find_counted(url, &access(args))?;
            of_files(FileSource::open(&files, FileSourceOptions { left_out, ..file_options(args) })?)
        }
        Endpoint::Store(url) => {
            // Without a collection, the source is a query.
            let collection = args.from_collection.clone().unwrap_or_default();
            let options = StoreSourceOptions {
                collection,
                prepared: None,
                key: args.from_key.clone(),
                body: args.from_body.clone(),
                view: args.view.clone().map(|view| ViewSource { view, keys: args.keys.clone() }),
                query: args.query.clone(),
                makes_keys: args.records.key.is_some(),
                expiry: plan.their_expiry,
                drop_attachments: args.drop_attachments,
                access: access(args),
            };
            let source = StoreSource::open(stores::open_to_read(url)?, options)?;
            Ok(Read { theirs: source.is_theirs(), source: Box::new(source), bytes: None, partitions: Vec::new() })
        }
    }
}

fn access(args: &CopyArgs) -> Access {
    let (cap, total) = (args.retry_cap.0, args.retry_total.0);
    Access { retry: RetryPolicy { tries: args.tries, cap, total, ..RetryPolicy::default() }, timeout: args.timeout.0 }
}

fn file_options(args: &CopyArgs) -> FileSourceOptions {
    let types = args.types.clone().unwrap_or_default();
    let (delimiter, partitions) = (args.delimiter, !args.no_partitions);
    FileSourceOptions { format: args.from_format, types, delimiter, escapes: args.escapes, partitions, left_out: 0 }
}

pub(super) fn sink_options(args: &CopyArgs, plan: &Plan) -> StoreSinkOptions {
    let collection = plan.to_collection.clone().unwrap_or_default();
    let existing = args.into_existing.then(|| Existing {
        name: collection.clone(),
        key: args.to_key.clone(),
        body: args.to_body.clone(),
    });
    let paced = args.rate_docs.is_some() || args.rate_bytes.is_some();
    StoreSinkOptions {
        collection,
        existing,
        copy: CopyId::draw(),
        resumes: None,
        inserts_first: None,
        prepared: None,
        verb: args.op,
        by_record: args.records.op_field.is_some(),
        merge: plan.merge.clone(),
        own_members: args.records.own_members,
        expiry: plan.expiry,
        expires: args.records.expiry_field.is_some() || plan.their_expiry == TheirExpiry::Kept,
        // With a rate limit, large batches would cause bursts.
        batch: args.batch.map(|n| n.0.max(1) as usize).or(paced.then_some(USUAL_BATCH)),
        batch_bytes: args.batch_bytes.map(|size| size.bytes().max(1) as usize),
        in_flight: args.in_flight,
        durability: args.durability,
        access: access(args),
        may_fail: args.max_errors.0,
    }
}

fn sink(
    args: &CopyArgs,
    plan: &Plan,
    to: &Endpoint,
    files: Option<FileSinkOptions>,
    source: &dyn Source,
    shape: &Shape,
    resumes: Option<CopyId>,
) -> Result<Box<dyn Sink>, Ended> {
    if let Some(mut options) = files {
        if options.format.has_columns() {
            let begun = if options.fresh { None } else { FileSink::columns(&options)? };
            options.columns = match begun {
                Some(columns) => columns,
                None => {
                    let key_field = options.key_field.as_deref();
                    copy_columns::columns(&args.columns, source, plan.parallel, shape, options.format, key_field)?
                }
            };
        }
        return Ok(Box::new(FileSink::open(options)?));
    }
    let Endpoint::Store(url) = to else { return Err(Failure::bad_input("there is no target").into()) };
    let store = stores::open(url)?;
    StoreSink::check(&*store, &sink_options(args, plan), args.verify)?;
    let options = StoreSinkOptions { resumes, ..sink_options(args, plan) };
    Ok(Box::new(StoreSink::open(store, options)?))
}

/// How to write files, without their columns; `None` if the target is a store. Refuses a file that exists.
pub(super) fn file_target(
    args: &CopyArgs,
    plan: &Plan,
    to: &Endpoint,
    begun: &Begun,
) -> Result<Option<FileSinkOptions>, Ended> {
    let place: Option<FileLocation> = match to {
        Endpoint::Store(url) => {
            let Some(flag) = plan.settings.first_of(&["--key-field", "--no-key-field", "--to-format"]) else {
                return Ok(None);
            };
            return Err(Failure::bad_input(format!(
                "{flag} needs a file as its target, and {} is a store; use --key to set the keys",
                redact_url(url)
            ))
            .into());
        }
        Endpoint::Standard => None,
        Endpoint::Files(path) => Some(local_target(Path::new(path))?.into()),
        Endpoint::Remote(url) => Some(FileLocation::of_url(url, &access(args))?),
    };
    let of_stores = ["--op-field", "--merge", "--own-members", "--expiry", "--expiry-field"];
    let by_verb = format!("--op {}", args.op.name());
    let flag = plan.settings.first_of(&["--into-existing"]).or((args.op != RecordOp::Upsert).then_some(&*by_verb));
    if let Some(flag) = flag.or_else(|| plan.settings.first_of(&of_stores)) {
        return Err(Failure::bad_input(format!("{flag} needs a store: files are always written from scratch")).into());
    }
    let name = place.as_ref().map(FileLocation::to_string).unwrap_or_default();
    let path = place.as_ref().and_then(FileLocation::path);
    let folder = target_name(to).ends_with('/') || path.is_some_and(Path::is_dir);
    // Beside a local target, so that parts can be moved into place. For a remote target, in the copy's folder.
    let parts = path.map_or_else(|| begun.folder.join("parts"), |path| parts_folder(path, folder, &plan.id));
    let key_field = key_field(args);
    let packing = if folder { Packing::Plain } else { Packing::of_name(&name) };
    let told = if folder || place.is_none() { Some(Format::Jsonl) } else { Format::told_by(&name) };
    let Some(format) = args.to_format.or(told) else {
        let store = meant(&name).into_iter().next().unwrap_or_else(|| format!("sqlite:{name}"));
        return Err(Failure::bad_input(format!(
            "cannot tell the format of {name} from its name; set it with --to-format, or if it is a store, give its \
             URL, such as `{store}`"
        ))
        .into());
    };
    let (fresh, replace, columns) = (begun.begin != Begin::Resume, args.force, Columns::default());
    let options = FileSinkOptions { place, folder, parts, format, columns, packing, key_field, fresh, replace };
    options.check_target()?;
    Ok(Some(options))
}

/// The field that receives the key in target files.
pub(super) fn key_field(args: &CopyArgs) -> Option<String> {
    (!args.no_key_field).then(|| args.key_field.clone().unwrap_or_else(|| KEY_FIELD.to_owned()))
}

/// The target as typed, without options.
fn target_name(to: &Endpoint) -> String {
    match to {
        Endpoint::Remote(url) => FileLocation::shown(url),
        Endpoint::Files(path) => path.clone(),
        Endpoint::Store(_) | Endpoint::Standard => String::new(),
    }
}

/// The file that a path leads to, after following a link. Refuses pipes and devices.
fn local_target(path: &Path) -> Result<PathBuf, Failure> {
    let path =
        if path.is_symlink() { path.canonicalize().unwrap_or_else(|_| path.to_owned()) } else { path.to_owned() };
    if path.exists() && !path.is_file() && !path.is_dir() {
        return Err(Failure::bad_input(format!(
            "{} is a pipe or a device and cannot be replaced by a file; write to `-`",
            path.display()
        )));
    }
    Ok(path)
}

fn parts_folder(target: &Path, folder: bool, id: &str) -> PathBuf {
    if folder {
        // Inside the target, because its parent may be on another file system.
        return target.join(format!(".storebench-{id}"));
    }
    let name = target.file_name().and_then(|name| name.to_str()).unwrap_or("out");
    target.with_file_name(format!(".{name}.storebench-{id}"))
}

fn dry_run(args: &CopyArgs, plan: &Plan, source: &dyn Source, to: &Endpoint, shape: &Shape) -> Result<u8, Ended> {
    let splits = source.splits(plan.parallel)?;
    let size: Option<u64> = splits.iter().map(|split| split.bytes).sum();
    let target = match to {
        Endpoint::Store(url) => {
            let store = stores::open(url)?;
            StoreSink::check(&*store, &sink_options(args, plan), args.verify)?;
            // Checks that the store answers and accepts the credentials.
            store.inspect().map_err(|error| Failure::of_store(url, &error))?;
            format!("{}, {}", store.describe().url, plan.to_collection.clone().unwrap_or_default())
        }
        Endpoint::Standard => "standard output".to_owned(),
        Endpoint::Files(path) => path.clone(),
        Endpoint::Remote(url) => FileLocation::of_url(url, &access(args))?.to_string(),
    };
    print(&format!(
        "from  {}\nto    {target}\nparts {}{}, {} workers\nnothing was written (--dry-run)\n",
        source.describe(),
        count(splits.len() as u64),
        size.map(|size| format!(", {}", bytes(size as f64))).unwrap_or_default(),
        plan.parallel.min(splits.len() as u32).max(1),
    ))?;
    if let Some(format) = copy_columns::format_of(args, to).filter(|format| format.has_columns()) {
        let key_field = key_field(args);
        let columns = copy_columns::columns(&args.columns, source, plan.parallel, shape, format, key_field.as_deref())?;
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
        std::fs::rename(folder.join("log.jsonl"), folder.join(DONE)).map_err(failed)?;
    }
    Ok(())
}

/// Saves the measurement in the files of a run.
fn keep_measurement(
    args: &CopyArgs,
    request: &CopyRequest<'_>,
    report: &CopyReport,
    record: &PhaseRecord,
) -> Result<RunResult, Failure> {
    let copied = Copied {
        from: &report.from,
        to: &report.to,
        store: request.sink.store().or(request.source.store()),
        collection: request
            .settings
            .get("--to-collection")
            .or(args.from_collection.as_ref())
            .map_or("", String::as_str),
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

/// Converts the error of a copy into a failure with its exit code.
fn failure(args: &CopyArgs, error: TransferError) -> Failure {
    let mut failure = failure_of(args, error);
    failure.message = copy_summary::advice(args, &failure.message);
    failure
}

fn failure_of(args: &CopyArgs, error: TransferError) -> Failure {
    match error {
        TransferError::BadInput(text) => Failure::bad_input(redact(&text)),
        TransferError::Store { url, error } => {
            // The end of the copy that has this URL.
            let typed = [&args.from, &args.to].into_iter().find(|typed| redact_url(typed) == url);
            Failure::of_store(typed.map_or(url.as_str(), String::as_str), &error)
        }
        TransferError::Source(text) | TransferError::Damaged(text) | TransferError::Target(text) => {
            Failure::spoiled(redact(&text))
        }
    }
}
