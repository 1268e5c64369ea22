//! `copy FROM TO`: documents between files and stores.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use storebench_core::engine::Stop;
use storebench_core::measure::PhaseRecord;
use storebench_core::store::{CopyId, Existing, OpKind, RowsKind};
use storebench_lab::copied::{Copied, keep_copy};
use storebench_lab::human::{bytes, count, duration, rate};
use storebench_lab::results::{RunResult, Secrets, redact, redact_url};
use storebench_lab::space::free_at;
use storebench_lab::verdicts::Level;
use storebench_transfer::{
    Access, Begin, Columns, CopyOutcome, CopyReport, CopyRequest, Expiry, FileSink, FileSinkOptions, FileSource,
    FileSourceOptions, Format, KEY_FIELD, MergeBy, Packing, Place, RetryPolicy, Shape, Sink, Source, StoreSink,
    StoreSinkOptions, StoreSource, StoreSourceOptions, TheirExpiry, TransferError, USUAL_BATCH, ViewSource, abandon,
    copy as copy_all, is_unfinished, name_of, settings_of, target_of,
};

use crate::allocator::keep_freed_memory;
use crate::args::CopyArgs;
use crate::endpoints::{Endpoint, find_files};
use crate::failure::{Failure, SPOILED};
use crate::output::{print, print_json};
use crate::progress::Progress;
use crate::signals::{INTERRUPTED, ask_on_interrupt};
use crate::stores;
use crate::verbs::copy_space::Target;
use crate::verbs::{copy_columns, copy_guards, copy_records, copy_space};

/// The log of a copy that has finished.
const DONE: &str = "log.done.jsonl";

/// A copy that takes less says nothing about what it was limited by, in seconds.
const TELLING_S: f64 = 5.0;

pub(crate) fn copy(args: &CopyArgs) -> Result<u8, Failure> {
    keep_freed_memory();
    let (from, to) = (Endpoint::of(&args.from)?, Endpoint::of(&args.to)?);
    let args = &*copy_guards::with_collection(args, &from)?;
    let plan = Plan::of(args, &from, &to)?;
    let shape = copy_records::shape(&args.records, &plan.id)?;
    let failed = |error: TransferError| failure(args, error);
    copy_columns::check(&args.columns, copy_columns::format_of(args, &to)).map_err(failed)?;
    let Read { source, theirs, bytes } = source(args, &plan, &from).map_err(failed)??;
    copy_guards::check_places(args, &from, &to, plan.to_collection.as_deref(), theirs)?;
    let begun = plan.begin(args)?;
    let files = file_target(args, &plan, &to, &begun).map_err(failed)??;
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
        return Err(Failure::bad_input("standard output cannot hold documents and --json: leave one of them out"));
    }
    writable(&args.out)?;
    let Begun { folder, begin, given_up } = begun;
    let resumes = if begin == Begin::Resume { target_of(&folder) } else { None };
    let sink = sink(args, &plan, &to, files, &*source, &shape, resumes).map_err(failed)??;
    // Only now that the new one can begin.
    if let Some(unfinished) = given_up {
        abandon(&unfinished).map_err(failed)?;
    }
    let request = CopyRequest {
        source: &*source,
        sink: &*sink,
        splits: None,
        shape: &shape,
        // Of a record that cannot be read it is not known.
        op: if args.records.op_field.is_some() { "unknown" } else { storebench_transfer::Verb::from(args.op).name() },
        parallel: plan.parallel,
        docs_per_s: args.rate_docs.map(|rate| rate.0 as f64),
        bytes_per_s: args.rate_bytes.map(|rate| rate.bytes() as f64),
        rejects: args.rejects.clone().unwrap_or_else(|| folder.join("rejects.jsonl")),
        folder: folder.clone(),
        settings: plan.settings.clone(),
        begin,
        replace: args.force,
        verify: args.verify,
        interval: Duration::from_secs(1),
    };
    let stop = Arc::new(Stop::new());
    ask_on_interrupt(&stop)?;
    let mut progress = Progress::new(args.quiet);
    if args.resume && begin == Begin::Fresh {
        progress.note("no unfinished copy found; starting a new one");
    }
    let marked = matches!(to, Endpoint::Store(_)) && !args.into_existing;
    if begin == Begin::Resume && marked && resumes.is_none() {
        progress.note(
            "an older Storebench began this copy: whether its target is still the one that it wrote into is not checked",
        );
    }
    let outcome = copy_all(&request, &stop, &mut |now| progress.copied(&now));
    progress.end_count();
    let CopyOutcome { report, record, .. } = outcome.map_err(failed)?;
    end(&folder, &report)?;
    let measured = keep_measurement(args, &request, &report, &record)?;
    let starved = measured.verdicts.iter().find(|v| v.check == "client-saturated" && v.level > Level::Note);
    if let Some(starved) = starved.filter(|_| report.seconds >= TELLING_S) {
        progress.note(&format!("the client was at its limit: {}", starved.saw));
    }
    if args.json && !matches!(to, Endpoint::Standard) {
        print_json(&report)?;
    } else if matches!(to, Endpoint::Standard) {
        // Documents are there already.
        let told = text(&report, args, &to);
        if report.counts.rejected > 0 || !report.damaged.is_empty() {
            progress.tell(told.trim_end())
        } else {
            progress.note(told.trim_end())
        }
    } else {
        print(&text(&report, args, &to))?;
    }
    Ok(match () {
        () if report.interrupted => INTERRUPTED,
        () if !report.damaged.is_empty() => SPOILED,
        () if report.counts.rejected > args.max_errors.0 => SPOILED,
        () if report.verified.as_ref().is_some_and(|verified| !verified.equal) => SPOILED,
        () => 0,
    })
}

/// How a copy begins, and where its log is.
struct Begun {
    folder: PathBuf,
    begin: Begin,
    /// The unfinished copy that is given up for it.
    given_up: Option<PathBuf>,
}

/// What is read.
struct Read {
    source: Box<dyn Source>,
    /// Whether it is a collection that Storebench did not make.
    theirs: bool,
    /// About how large it is as text.
    bytes: Option<u64>,
}

/// Refuses a folder that cannot be written, before anything else is.
fn writable(out: &Path) -> Result<(), Failure> {
    let probe = out.join(format!(".storebench-{}", std::process::id()));
    let made = std::fs::create_dir_all(out).and_then(|()| std::fs::File::create(&probe));
    made.and_then(|_| std::fs::remove_file(&probe)).map_err(|e| {
        Failure::bad_input(format!("--out {}: cannot be written: {e}; name another folder with --out", out.display()))
    })
}

/// What follows from the arguments before anything is looked at.
struct Plan {
    /// Names this copy: the same arguments give the same name.
    id: String,
    parallel: u32,
    settings: BTreeMap<String, String>,
    to_collection: Option<String>,
    merge: Option<MergeBy>,
    expiry: Option<Expiry>,
    their_expiry: TheirExpiry,
    /// Whether doing it twice leaves the same as doing it once.
    repeatable: bool,
}

impl Plan {
    fn of(args: &CopyArgs, from: &Endpoint, to: &Endpoint) -> Result<Self, Failure> {
        let to_collection = match to {
            Endpoint::Store(_) => Some(
                args.to_collection
                    .clone()
                    .or_else(|| args.from_collection.clone().filter(|name| !name.contains(['.', ':', '/'])))
                    .or_else(|| from.name())
                    .ok_or_else(|| {
                        Failure::bad_input(format!(
                            "say into which collection of {}: --to-collection NAME",
                            redact_url(&args.to)
                        ))
                    })?,
            ),
            _ => None,
        };
        let mut settings = BTreeMap::new();
        let mut set = |name: &str, value: String| drop(settings.insert(name.to_owned(), value));
        set("FROM", redact_url(&args.from));
        set("TO", redact_url(&args.to));
        for (name, format) in [("--from-format", args.from_format), ("--to-format", args.to_format)] {
            if let Some(format) = format {
                set(name, format.to_string());
            }
        }
        if let Some(types) = &args.types {
            set("--types", types.to_string());
        }
        set("--op", format!("{:?}", args.op).to_lowercase());
        for (name, value) in [
            ("--from-collection", &args.from_collection),
            ("--from-key", &args.from_key),
            ("--from-body", &args.from_body),
            ("--query", &args.query),
            ("--view", &args.view),
            ("--to-collection", &to_collection),
            ("--to-key", &args.to_key),
            ("--to-body", &args.to_body),
            ("--key-field", &args.key_field),
            ("--delimiter", &args.delimiter.map(|delimiter| delimiter.escape_ascii().to_string())),
        ] {
            if let Some(value) = value {
                set(name, value.clone());
            }
        }
        if let Some(keys) = &args.keys {
            set("--keys", keys.to_string());
        }
        copy_records::settings(&args.records).for_each(|(flag, value)| set(flag, value));
        copy_columns::settings(&args.columns).for_each(|(flag, value)| set(flag, value));
        if let Some(rejects) = &args.rejects {
            // What is left out of it when the copy goes on must be this copy's.
            set("--rejects", rejects.display().to_string());
        }
        if args.drop_expiry {
            set("--drop-expiry", "given".to_owned());
        }
        if args.drop_attachments {
            set("--drop-attachments", "given".to_owned());
        }
        if args.into_existing {
            set("--into-existing", "given".to_owned());
        }
        if args.no_key_field {
            set("--no-key-field", "given".to_owned());
        }
        let cwd = std::env::current_dir().unwrap_or_default();
        // The place counts: relative paths mean other files elsewhere.
        let id = name_of(&format!("{settings:?} {}", cwd.display()));
        let parallel = args
            .parallel
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1)));
        let (merge, expiry) = (copy_records::merge(&args.records)?, copy_records::expiry(&args.records)?);
        let their_expiry = their_expiry(args, from, to)?;
        let verb = storebench_transfer::Verb::from(args.op);
        let repeatable = verb.repeatable() && merge.is_none() && args.records.op_field.is_none();
        Ok(Self { id, parallel, settings, to_collection, merge, expiry, their_expiry, repeatable })
    }

    /// In what a copy between the same ends was asked for otherwise; nothing where its ends are others.
    fn differs_from(&self, other: &BTreeMap<String, String>) -> Option<String> {
        if ["FROM", "TO"].iter().any(|end| self.settings.get(*end) != other.get(*end)) {
            return None;
        }
        let mut flags: Vec<&str> = self.settings.keys().chain(other.keys()).map(String::as_str).collect();
        flags.sort_unstable();
        flags.dedup();
        flags.retain(|flag| self.settings.get(*flag) != other.get(*flag));
        Some(if flags.is_empty() { "working folder".to_owned() } else { flags.join(", ") })
    }

    /// Where this copy goes on, or begins.
    fn begin(&self, args: &CopyArgs) -> Result<Begun, Failure> {
        let prefix = format!("copy-{}-", self.id);
        let folders: Vec<PathBuf> = std::fs::read_dir(&args.out)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .collect();
        let is_this = |path: &&PathBuf| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&prefix))
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
                unfinished.clone().find_map(|folder| Some((folder, self.differs_from(&settings_of(folder)?)?)))
            {
                return Err(Failure::bad_input(format!(
                    "the copy in {} that did not end was asked for with another {flags}; give the same arguments, in the \
                     same folder, to go on with it",
                    folder.display()
                )));
            }
            if let (false, Some(folder)) =
                (self.repeatable, folders.iter().filter(is_this).find(|folder| folder.join(DONE).exists()))
            {
                return Err(Failure::bad_input(format!(
                    "the copy in {} has finished, and to do it again would add to what it wrote; leave --resume out if \
                     that is what you want",
                    folder.display()
                )));
            }
        }
        let begin = if given_up.is_some() { Begin::Restart } else { Begin::Fresh };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let name = |more: u32| {
            args.out.join(if more == 1 { format!("{prefix}{now}") } else { format!("{prefix}{now}-{more}") })
        };
        let folder = (1..).map(name).find(|folder| !folder.exists()).unwrap_or_else(|| name(1));
        Ok(Begun { folder, begin, given_up })
    }
}

/// What becomes of expiries that a source shows: kept where the target knows any.
fn their_expiry(args: &CopyArgs, from: &Endpoint, to: &Endpoint) -> Result<TheirExpiry, Failure> {
    let (Endpoint::Store(from), Endpoint::Store(to), false) = (from, to, args.drop_expiry) else {
        return Ok(if args.drop_expiry { TheirExpiry::Dropped } else { TheirExpiry::Rejected });
    };
    let shown = stores::open(from)?.capabilities().rows.contains(&RowsKind::Walk);
    let known = stores::open(to)?.capabilities().supports(OpKind::Touch).is_some();
    // In a collection of yours MongoDB's documents get no expiry.
    let known = known && !(args.into_existing && to.starts_with("mongodb"));
    let taken = storebench_transfer::Verb::from(args.op).expires();
    Ok(if shown && known && taken { TheirExpiry::Kept } else { TheirExpiry::Rejected })
}

fn retry(args: &CopyArgs) -> RetryPolicy {
    RetryPolicy { tries: args.tries, cap: args.retry_cap.0, total: args.retry_total.0, ..RetryPolicy::default() }
}

type Opened<T> = Result<Result<T, Failure>, TransferError>;

fn source(args: &CopyArgs, plan: &Plan, from: &Endpoint) -> Opened<Read> {
    let only_stores = [
        ("--from-collection", &args.from_collection),
        ("--from-key", &args.from_key),
        ("--from-body", &args.from_body),
        ("--query", &args.query),
        ("--view", &args.view),
    ];
    if let (Some((flag, _)), false) =
        (only_stores.iter().find(|(_, v)| v.is_some()), matches!(from, Endpoint::Store(_)))
    {
        return Ok(Err(Failure::bad_input(format!("{flag} goes only with a store, and {} is none", args.from))));
    }
    let only_files = [
        ("--from-format", args.from_format.is_some()),
        ("--types", args.types.is_some()),
        ("--delimiter", args.delimiter.is_some()),
    ];
    let only_of_stores = [("--drop-expiry", args.drop_expiry), ("--drop-attachments", args.drop_attachments)];
    let is_store = matches!(from, Endpoint::Store(_));
    let idle = if is_store { &only_files[..] } else { &only_of_stores };
    if let Some((flag, _)) = idle.iter().find(|(_, given)| *given) {
        let of = if is_store { "files" } else { "stores" };
        return Ok(Err(Failure::bad_input(format!("{flag} is of {of} that are read, and {} is none", args.from))));
    }
    let of_files = |source: FileSource| {
        let bytes = source.text_bytes();
        Ok(Ok(Read { source: Box::new(source), theirs: false, bytes }))
    };
    match from {
        Endpoint::Standard => of_files(FileSource::stdin(file_options(args))?),
        Endpoint::Files(pattern) => match find_files(pattern) {
            Ok(files) => of_files(FileSource::open(&files, file_options(args))?),
            Err(failure) => Ok(Err(failure)),
        },
        Endpoint::Remote(url) => of_files(FileSource::open(&Place::find(url, &access(args))?, file_options(args))?),
        Endpoint::Store(url) => {
            // Without one it is a query.
            let collection = args.from_collection.clone().unwrap_or_default();
            let store = match stores::open(url) {
                Ok(store) => store,
                Err(failure) => return Ok(Err(failure)),
            };
            let options = StoreSourceOptions {
                collection,
                prepared: None,
                key: args.from_key.clone(),
                body: args.from_body.clone(),
                view: args.view.clone().map(|view| ViewSource { view, keys: args.keys.clone() }),
                query: args.query.clone(),
                expiry: plan.their_expiry,
                drop_attachments: args.drop_attachments,
                timeout: args.timeout.0,
                retry: retry(args),
            };
            let source = StoreSource::open(store, options)?;
            Ok(Ok(Read { theirs: source.is_theirs(), source: Box::new(source), bytes: None }))
        }
    }
}

fn access(args: &CopyArgs) -> Access {
    Access { retry: retry(args), timeout: args.timeout.0 }
}

fn file_options(args: &CopyArgs) -> FileSourceOptions {
    let types = args.types.clone().unwrap_or_default();
    FileSourceOptions { format: args.from_format, types, delimiter: args.delimiter }
}

fn sink_options(args: &CopyArgs, plan: &Plan) -> StoreSinkOptions {
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
        prepared: None,
        verb: args.op.into(),
        by_record: args.records.op_field.is_some(),
        merge: plan.merge.clone(),
        own_members: args.records.own_members.into(),
        expiry: plan.expiry,
        expires: args.records.expiry_field.is_some() || plan.their_expiry == TheirExpiry::Kept,
        // Large batches would come in bursts.
        batch: args.batch.map(|n| n.0.max(1) as usize).or(paced.then_some(USUAL_BATCH)),
        batch_bytes: args.batch_bytes.map(|size| size.bytes().max(1) as usize),
        in_flight: args.in_flight,
        durability: args.durability,
        timeout: args.timeout.0,
        retry: retry(args),
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
) -> Opened<Box<dyn Sink>> {
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
        return Ok(Ok(Box::new(FileSink::open(options)?)));
    }
    let Endpoint::Store(url) = to else { return Ok(Err(Failure::bad_input("there is no target"))) };
    let store = match stores::open(url) {
        Ok(store) => store,
        Err(failure) => return Ok(Err(failure)),
    };
    StoreSink::check(&*store, &sink_options(args, plan), args.verify)?;
    let options = StoreSinkOptions { resumes, ..sink_options(args, plan) };
    Ok(Ok(Box::new(StoreSink::open(store, options)?)))
}

/// How files are written, but for their columns; none where the target is a store. A file that exists is refused.
fn file_target(args: &CopyArgs, plan: &Plan, to: &Endpoint, begun: &Begun) -> Opened<Option<FileSinkOptions>> {
    let place: Option<Place> = match to {
        Endpoint::Store(url) => {
            let idle = [
                ("--key-field", args.key_field.is_some()),
                ("--no-key-field", args.no_key_field),
                ("--to-format", args.to_format.is_some()),
            ];
            if let Some((flag, _)) = idle.iter().find(|(_, given)| *given) {
                return Ok(Err(Failure::bad_input(format!(
                    "{flag} is of files that are written, and {} is a store; --key says what its keys are made of",
                    redact_url(url)
                ))));
            }
            return Ok(Ok(None));
        }
        Endpoint::Standard => None,
        Endpoint::Files(path) => match local_target(Path::new(path)) {
            Ok(path) => Some(path.into()),
            Err(failure) => return Ok(Err(failure)),
        },
        Endpoint::Remote(url) => Some(Place::of_url(url, &access(args))?),
    };
    if args.into_existing {
        return Ok(Err(Failure::bad_input("--into-existing goes only with a store: a file is written anew")));
    }
    if args.op != crate::args::OpText::Upsert {
        return Ok(Err(Failure::bad_input(format!(
            "--op {} goes only with a store: a file is written anew",
            storebench_transfer::Verb::from(args.op).name()
        ))));
    }
    if let Some(flag) = copy_records::only_stores(&args.records) {
        return Ok(Err(Failure::bad_input(format!("{flag} goes only with a store: a file is written anew"))));
    }
    let name = place.as_ref().map(Place::to_string).unwrap_or_default();
    let path = place.as_ref().and_then(Place::path);
    let folder = target_name(to).ends_with('/') || path.is_some_and(Path::is_dir);
    // Beside the target, so that parts can be moved there; of one elsewhere in the copy's own folder.
    let parts = path.map_or_else(|| begun.folder.join("parts"), |path| parts_folder(path, folder, &plan.id));
    let key_field = key_field(args);
    let packing = if folder { Packing::Plain } else { Packing::of_name(&name) };
    let told = if folder || place.is_none() { Some(Format::Jsonl) } else { Format::told_by(&name) };
    let Some(format) = args.to_format.or(told) else {
        return Ok(Err(Failure::bad_input(format!(
            "the name of {name} does not tell how records are to stand in it: name the format by --to-format, or a \
             store by its URL, as in `sqlite:{name}`"
        ))));
    };
    let (fresh, replace, columns) = (begun.begin != Begin::Resume, args.force, Columns::default());
    let options = FileSinkOptions { place, folder, parts, format, columns, packing, key_field, fresh, replace };
    options.check_target()?;
    Ok(Ok(Some(options)))
}

/// The field that gets the key in files that are written.
fn key_field(args: &CopyArgs) -> Option<String> {
    (!args.no_key_field).then(|| args.key_field.clone().unwrap_or_else(|| KEY_FIELD.to_owned()))
}

/// What was typed as the target, without options.
fn target_name(to: &Endpoint) -> String {
    match to {
        Endpoint::Remote(url) => Place::shown(url),
        Endpoint::Files(path) => path.clone(),
        Endpoint::Store(_) | Endpoint::Standard => String::new(),
    }
}

/// The file that a path leads to, also by a link.
fn local_target(path: &Path) -> Result<PathBuf, Failure> {
    let path =
        if path.is_symlink() { path.canonicalize().unwrap_or_else(|_| path.to_owned()) } else { path.to_owned() };
    if path.exists() && !path.is_file() && !path.is_dir() {
        return Err(Failure::bad_input(format!(
            "{} is a pipe or a device, which a file cannot take the place of; write to `-`",
            path.display()
        )));
    }
    Ok(path)
}

fn parts_folder(target: &Path, folder: bool, id: &str) -> PathBuf {
    if folder {
        // Within it: what is beside it may be another file system.
        return target.join(format!(".storebench-{id}"));
    }
    let name = target.file_name().and_then(|name| name.to_str()).unwrap_or("out");
    target.with_file_name(format!(".{name}.storebench-{id}"))
}

fn dry_run(args: &CopyArgs, plan: &Plan, source: &dyn Source, to: &Endpoint, shape: &Shape) -> Result<u8, Failure> {
    let splits = source.splits(plan.parallel).map_err(|error| failure(args, error))?;
    let size: Option<u64> = splits.iter().map(|split| split.bytes).sum();
    let target = match to {
        Endpoint::Store(url) => {
            let store = stores::open(url)?;
            StoreSink::check(&*store, &sink_options(args, plan), args.verify).map_err(|error| failure(args, error))?;
            // It answers, and lets us in.
            store.inspect().map_err(|error| Failure::of_store(url, &error))?;
            format!("{}, {}", store.describe().url, plan.to_collection.clone().unwrap_or_default())
        }
        Endpoint::Standard => "standard output".to_owned(),
        Endpoint::Files(path) => path.clone(),
        Endpoint::Remote(url) => Place::of_url(url, &access(args)).map_err(|error| failure(args, error))?.to_string(),
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
        let columns = copy_columns::columns(&args.columns, source, plan.parallel, shape, format, key_field.as_deref())
            .map_err(|error| failure(args, error))?;
        print(&format!("columns, as --schema reads them:\n{}\n", columns.schema()))?;
    }
    Ok(0)
}

/// Keeps the report, and ends the log where nothing is left to do.
fn end(folder: &Path, report: &CopyReport) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::spoiled(format!("{}: cannot be written: {e}", folder.display()));
    let text = serde_json::to_vec_pretty(report).map_err(|e| failed(e.into()))?;
    std::fs::write(folder.join("copy.json"), text).map_err(failed)?;
    if !report.interrupted {
        std::fs::rename(folder.join("log.jsonl"), folder.join(DONE)).map_err(failed)?;
    }
    Ok(())
}

/// What was measured, in the files of a run.
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

fn text(report: &CopyReport, args: &CopyArgs, to: &Endpoint) -> String {
    let CopyReport { counts, before, .. } = report;
    let mut out = format!("{} → {}\n", report.from, report.to);
    let mut parts = vec![format!("read {}", count(counts.read)), format!("written {}", count(counts.written))];
    parts.push(format!("rejected {}", count(counts.rejected)));
    parts.push(format!("skipped {}", count(counts.skipped)));
    if let Some(verified) = &report.verified {
        parts.push(format!("verified {}", count(verified.found)));
    }
    if counts.there_already > 0 {
        parts.push(format!("there already {}", count(counts.there_already)));
    }
    if counts.retries > 0 {
        parts.push(format!("retries {}", count(counts.retries)));
    }
    let seconds = report.seconds.max(1e-9);
    parts.push(format!("{:.1} MB/s", (counts.bytes - before.bytes) as f64 / seconds / 1e6));
    parts.push(format!("{} docs/s", rate((counts.written - before.written) as f64 / seconds)));
    parts.push(duration(report.seconds * 1e9));
    out += &parts.join(" · ");
    out.push('\n');
    if counts.read == 0 {
        out += "nothing was read: its source is empty\n";
    }
    if before.read > 0 {
        out += &format!("{} of them were written before this copy went on\n", count(before.written));
    }
    if let Some(verified) = &report.verified {
        out += &match (verified.equal, verified.written_twice) {
            (true, _) if args.op == crate::args::OpText::Delete => {
                "verified: the target holds none of these keys\n".to_owned()
            }
            (true, 0) => "verified: the target holds what was written\n".to_owned(),
            (true, twice) => format!(
                "verified: the target holds what was written; {} keys were written more than once, and one of their \
                 documents is there\n",
                count(twice)
            ),
            (false, _) => format!(
                "NOT VERIFIED: {} of 4,096 buckets of keys differ; {} of {} written records are there\n",
                count(verified.unequal_buckets),
                count(verified.found),
                count(verified.written)
            ),
        };
        if verified.reread > 0 {
            out += &format!(
                "{} of {} parts were written without --verify: their records were read from the source again, as it is \
                 now\n",
                count(verified.reread),
                count(report.splits)
            );
        }
        if !verified.changed.is_empty() {
            out += &changed(&verified.changed);
        }
        for differing in &verified.differing {
            out += &format!("  {} {}\n", differing.key, differing.what);
        }
    }
    out += &copy_columns::told(report, args, matches!(to, Endpoint::Store(_)));
    if counts.dropped_attachments > 0 {
        out += &format!("attachments of {} documents were left behind\n", count(counts.dropped_attachments));
    }
    if counts.without_own_members > 0 {
        out += &format!(
            "{} documents were written without members that the target keeps for itself (--own-members drop)\n",
            count(counts.without_own_members)
        );
    }
    if counts.dropped_expiry > 0 {
        out += &format!("expiry of {} documents was left behind\n", count(counts.dropped_expiry));
    }
    if !report.snapshot {
        out += &format!("no snapshot: {}\n", report.snapshot_why);
    }
    if let Some(first) = &report.first_reject {
        out += &format!("the first that was rejected: {first}\n");
    }
    if let Some(rejects) = &report.rejects {
        out += &format!("all that were rejected, with reasons: {rejects}\n");
    }
    if report.interrupted {
        out += &format!(
            "interrupted: {} of {} parts are done; go on with --resume\n",
            count(report.splits_done),
            count(report.splits)
        );
    }
    out
}

/// What the target writes otherwise, though JSON takes it for equal.
fn changed(changed: &[storebench_transfer::Changed]) -> String {
    let all: u64 = changed.iter().map(|of_kind| of_kind.values).sum();
    let each: Vec<String> = changed.iter().map(|of| format!("{} {}", count(of.values), of.what)).collect();
    let values = if all == 1 { "value is" } else { "values are" };
    format!("the target changed how {} {values} written: {}\n", count(all), each.join(", "))
}

/// The exit code of a copy that could not begin or had to end.
fn failure(args: &CopyArgs, error: TransferError) -> Failure {
    match error {
        TransferError::BadInput(text) => Failure::bad_input(redact(&text)),
        TransferError::Store { url, error } => {
            // Of the two ends it is the one with this place.
            let typed = [&args.from, &args.to].into_iter().find(|typed| redact_url(typed) == url);
            Failure::of_store(typed.map_or(url.as_str(), String::as_str), &error)
        }
        TransferError::Source(text) | TransferError::Damaged(text) | TransferError::Target(text) => {
            Failure::spoiled(redact(&text))
        }
    }
}
