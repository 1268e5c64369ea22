//! One copy: distributes its splits over workers, collects their results, and resumes unfinished work.

mod counted;
mod repeats;
mod tasks;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use storebench_engine::measure::PhaseRecord;
use storebench_engine::store::SameKeys;
use storebench_engine::{Observer, Stop};

pub use self::counted::{LeftOut, StoreCounts};
pub use self::tasks::{Task, TaskReport, Tasks, check_tasks, perform};

use self::repeats::Repeats;
use crate::error::TransferError;
use crate::manifest::{Counts, Damage, Entry, Header, Manifest, is_unfinished};
use crate::measure::Meter;
use crate::pace::Pace;
use crate::rejects::{RejectReason, Rejects};
use crate::shape::Shape;
use crate::sink::{Again, Sink};
use crate::source::{Snapshot, Source, Split};
use crate::verify::passes::{Here, Passes};
use crate::verify::reread::missing_spools;
use crate::verify::{Order, Verification, verify};

/// The name of the format of a [`CopyReport`].
pub const COPY_FORMAT: &str = "storebench-copy/1";

/// Stack size of a worker: jq expressions recurse into documents. Only the used part costs memory.
const STACK_BYTES: usize = 64 << 20;

/// How a copy starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// From the beginning. Refused if the folder has an unfinished copy, unless it was [abandoned](crate::abandon).
    Fresh,
    /// Continues an unfinished copy.
    Resume,
}

/// What to copy.
pub struct CopyRequest<'a> {
    /// Where to copy from.
    pub source: &'a dyn Source,
    /// Where to copy to.
    pub sink: &'a dyn Sink,
    /// Only these splits, which [`Source::splits`] returned; `None` for all.
    pub splits: Option<&'a [Split]>,
    /// How each record is transformed.
    pub shape: &'a Shape,
    /// The operation applied to each record, for the file of rejects.
    pub op: &'a str,
    /// Number of workers, each with its own sessions; at least 1.
    pub parallel: u32,
    /// Limit of documents per second.
    pub docs_per_s: Option<f64>,
    /// Limit of bytes of keys and documents per second.
    pub bytes_per_s: Option<f64>,
    /// Folder of the copy's log.
    pub folder: PathBuf,
    /// The file of rejects.
    pub rejects: PathBuf,
    /// All settings, by flag. A resume must use the same ones.
    pub settings: BTreeMap<String, String>,
    /// How the copy starts.
    pub begin: Begin,
    /// Whether an existing file of rejects may be overwritten.
    pub replace: bool,
    /// Whether to read back and compare the written records at the end.
    pub verify: bool,
    /// Length of a measurement interval.
    pub interval: Duration,
    /// Other processes that copy the splits and read them back; `None` to do so in this process.
    pub tasks: Option<&'a dyn Tasks>,
    /// Receives what is measured, each interval. It hears nothing of tasks in other processes.
    pub observer: Option<&'a Mutex<dyn Observer + Send>>,
}

/// The result of a copy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CopyReport {
    /// Always `storebench-copy/1`.
    pub format: String,
    /// The source, without secrets.
    pub from: String,
    /// The target, without secrets.
    pub to: String,
    /// Whether all records are from one point in time.
    pub snapshot: bool,
    /// Why they are, or are not.
    pub snapshot_why: String,
    /// Parts of the source.
    pub splits: u64,
    /// Parts that are done.
    pub splits_done: u64,
    /// Counts over all finished splits, including those of earlier runs of this copy. If the copy was interrupted, also
    /// what it had counted of the splits that it was copying, and which a resume copies again.
    pub counts: Counts,
    /// The part of the counts from before this process resumed the copy.
    pub before: Counts,
    /// The first record that this process rejected: where it was, and why.
    pub first_reject: Option<String>,
    /// How many records in the file of rejects have each reason; the most frequent is first.
    pub rejects_by_reason: Vec<RejectReason>,
    /// Parts of the source that are damaged or cut off. All records before the damage arrived; those after it are
    /// missing.
    pub damaged: Vec<Damage>,
    /// Records written under a key that this process had already written. Not counted if each key occurs once.
    pub repeated_keys: Option<RepeatedKeys>,
    /// What source and target count themselves, compared with the copy; `None` if nothing differs, or if they count
    /// nothing.
    pub counted: Option<StoreCounts>,
    /// The file of rejects, if there are any.
    pub rejects: Option<String>,
    /// The result of reading the target back, if that was requested.
    pub verified: Option<Verification>,
    /// Parts in which reading back found differences, and which a resume copies again.
    pub splits_to_repeat: u64,
    /// Duration in seconds, without reading back. Only this process is counted.
    pub seconds: f64,
    /// Whether the copy was interrupted. A resume copies the rest.
    pub interrupted: bool,
}

/// Records that repeat a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RepeatedKeys {
    /// The number of records.
    pub records: u64,
    /// Whether the number was counted. If not, it is estimated from a sample of the keys.
    pub exact: bool,
    /// Whether an earlier process wrote records that are not counted, so that the true number may be higher.
    pub at_least: bool,
    /// Whether all records were applied in the order of the source. If not, that holds at most within each part, and of
    /// records in different parts any may be the one that stands.
    pub in_order: bool,
}

/// The result of a copy and its measurements.
#[derive(Debug, Clone)]
pub struct CopyOutcome {
    /// The result.
    pub report: CopyReport,
    /// Request timings, recorded like a study's phase: by kind of request and by interval.
    pub record: PhaseRecord,
    /// The highest number of splits that were copied at the same time.
    pub at_once: u32,
}

/// A name for the copy's settings. The same text gives the same name in every version.
pub fn name_of(settings: &str) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(settings.as_bytes()))
}

/// The JSON Schema of a [`CopyReport`].
#[cfg(feature = "schema")]
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(CopyReport)
}

/// Progress of a copy, for display.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// Documents written.
    pub documents: u64,
    /// Bytes of keys and documents written.
    pub bytes: u64,
    /// The part of `documents` from before this process resumed the copy.
    pub documents_before: u64,
    /// The part of `bytes` from before this process resumed the copy.
    pub bytes_before: u64,
    /// Bytes of the source that were read, as the source counts them.
    pub read_bytes: u64,
    /// Bytes of the source, if known.
    pub total_bytes: Option<u64>,
    /// Splits that are done.
    pub splits_done: u64,
    /// All splits.
    pub splits: u64,
    /// Records that were rejected.
    pub rejected: u64,
    /// Splits that were read back and compared, and how many there are, once that has started.
    pub verified: Option<(u64, u64)>,
}

/// State that workers share.
struct Shared<'a> {
    request: &'a CopyRequest<'a>,
    manifest: Manifest,
    rejects: Rejects,
    pace: Pace,
    stop: &'a Stop,
    /// Set by the first worker that fails, so that the others stop.
    failed: Stop,
    todo: Vec<Split>,
    next: AtomicU32,
    progress: Mutex<Progress>,
    /// Splits in progress, and the most there were at once.
    under_way: AtomicU32,
    at_once: AtomicU32,
    counts: Mutex<Counts>,
    /// Whether a key may come more than once.
    may_repeat: bool,
    repeats: Option<Repeats>,
}

/// Guard of a split in progress.
struct UnderWay<'a>(&'a AtomicU32);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<'a> Shared<'a> {
    fn new(request: &'a CopyRequest<'a>, manifest: Manifest, rejects: Rejects, stop: &'a Stop) -> Self {
        let mut before = Counts::default();
        let ended = manifest.done.values().chain(manifest.partly.values().map(|partly| &partly.counts));
        ended.for_each(|counts| before += *counts);
        let splits = &manifest.header.splits;
        let todo: Vec<Split> = splits.iter().filter(|s| !manifest.done.contains_key(&s.number)).cloned().collect();
        let may_repeat = request.source.repeats_keys(request.shape) || request.sink.same_keys() != SameKeys::Exact;
        // Tasks do not report which keys they wrote.
        let counts_repeats = request.tasks.is_none() && may_repeat;
        Self {
            request,
            rejects,
            pace: Pace::new(request.docs_per_s, request.bytes_per_s),
            stop,
            failed: Stop::new(),
            next: AtomicU32::new(0),
            progress: Mutex::new(Progress {
                documents: before.written,
                bytes: before.bytes,
                documents_before: before.written,
                bytes_before: before.bytes,
                total_bytes: todo.iter().map(|split| split.bytes).sum(),
                splits_done: manifest.done.len() as u64,
                splits: splits.len() as u64,
                rejected: before.rejected,
                ..Progress::default()
            }),
            under_way: AtomicU32::new(0),
            at_once: AtomicU32::new(0),
            counts: Mutex::new(before),
            may_repeat,
            repeats: counts_repeats.then(|| Repeats::new(repeats::MOST)),
            todo,
            manifest,
        }
    }

    /// The number of workers that have something to do.
    fn workers(&self) -> u32 {
        self.request.parallel.max(1).min(u32::try_from(self.todo.len()).unwrap_or(u32::MAX).max(1))
    }

    /// Whether one worker of this process copied all splits, in their order.
    fn in_order(&self) -> bool {
        let one_by_one = self.workers() <= 1 && self.progress().documents_before == 0;
        one_by_one || self.manifest.header.splits.len() <= 1
    }

    /// Whether there are processors for twice as many threads as workers.
    fn has_free_processors(&self) -> bool {
        std::thread::available_parallelism().is_ok_and(|all| all.get() >= 2 * self.workers() as usize)
    }

    fn counts(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ends(&self) -> bool {
        self.stop.asked() || self.failed.asked()
    }

    /// The next split that no worker has taken.
    fn take(&self) -> Option<&Split> {
        if self.ends() {
            return None;
        }
        self.todo.get(self.next.fetch_add(1, Ordering::Relaxed) as usize)
    }

    /// Counts a split as in progress until the returned guard is dropped.
    fn begin_split(&self) -> UnderWay<'_> {
        let now = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        self.at_once.fetch_max(now, Ordering::Relaxed);
        UnderWay(&self.under_way)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a copy. `progress` is called regularly with the current state.
///
/// # Errors
/// Why the copy could not start or had to stop. Copied records stay, and a resume continues. A record that the target
/// refused is not an error: it is counted and goes to the file of rejects.
pub fn copy(
    request: &CopyRequest<'_>,
    stop: &Arc<Stop>,
    progress: &mut dyn FnMut(Progress),
) -> Result<CopyOutcome, TransferError> {
    let begun = Instant::now();
    if request.splits.is_some() && !request.sink.keeps_parts() {
        return Err(TransferError::BadInput(format!(
            "{} is a single file, so parts of it cannot be written separately; write to a folder",
            request.sink.describe()
        )));
    }
    if request.verify {
        // Fail before anything is written.
        request.sink.target()?;
    }
    if let Some(tasks) = request.tasks {
        tasks::check(request, tasks)?;
    }
    let rejects = Rejects::new(request.rejects.clone());
    let manifest = open_manifest(request, &rejects)?;
    if request.begin == Begin::Resume {
        still_there(request.sink, &manifest)?;
        rejects.keep_only(&manifest.done.keys().chain(manifest.partly.keys()).copied().collect())?;
    }
    let shared = Shared::new(request, manifest, rejects, stop);
    let before = shared.counts();
    let counted = counted::Before::of(request);
    let workers = if request.tasks.is_none() { shared.workers() } else { 0 };
    let mut meter =
        Meter::new(request.source.requests(), request.sink.writes()?, workers, request.interval, request.observer);
    match request.tasks {
        None => work(&shared, workers, &mut meter, progress)?,
        Some(tasks) => tasks::copy(&shared, tasks, progress)?,
    }
    let now = *shared.progress();
    progress(now);
    let interrupted = stop.asked() && now.splits_done < now.splits;
    if !interrupted && !shared.manifest.finished {
        request.sink.finish(&shared.manifest.header.splits)?;
        shared.manifest.add(&Entry::Finished)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let record = meter.end(interrupted);
    let (mut verified, mut splits_to_repeat) = (None, 0);
    if request.verify && !interrupted {
        let (found, differ) = read_back(&shared, &mut |verified| progress(Progress { verified, ..now }))?;
        let repeats = !found.equal && request.sink.store().is_some() && request.sink.again() == Again::Free;
        if repeats && !differ.is_empty() {
            splits_to_repeat = differ.len() as u64;
            shared.manifest.add(&Entry::Differs { splits: differ })?;
        }
        verified = Some(found);
    }
    let counts = shared.counts();
    let (snapshot, why) = match request.source.snapshot() {
        Snapshot::Yes(why) => (true, why),
        Snapshot::No(why) => (false, why),
    };
    let report = CopyReport {
        format: COPY_FORMAT.to_owned(),
        from: request.source.describe(),
        to: request.sink.describe(),
        snapshot,
        snapshot_why: why.to_owned(),
        splits: now.splits,
        splits_done: now.splits_done,
        counts,
        before,
        first_reject: shared.rejects.first().map(str::to_owned),
        rejects_by_reason: if counts.rejected > 0 { shared.rejects.by_reason() } else { Vec::new() },
        damaged: shared.manifest.damaged.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect(),
        repeated_keys: shared.repeats.as_ref().map(|repeats| {
            let (records, exact) = repeats.count();
            RepeatedKeys { records, exact, at_least: before.written > 0, in_order: shared.in_order() }
        }),
        rejects: (counts.rejected > 0).then(|| request.rejects.display().to_string()),
        verified,
        splits_to_repeat,
        seconds,
        interrupted,
        counted: None,
    };
    let disconnects = shared.manifest.disconnects.load(Ordering::Relaxed);
    let counted = if interrupted { None } else { counted.compare(request, &report, disconnects) };
    let report = CopyReport { counted, ..report };
    if !interrupted {
        request.sink.close()?;
    }
    let at_once = shared.at_once.load(Ordering::Relaxed);
    Ok(CopyOutcome { report, record, at_once })
}

/// Reads back what was written. Also returns the splits in which the target differs.
fn read_back(
    shared: &Shared<'_>,
    verified: &mut dyn FnMut(Option<(u64, u64)>),
) -> Result<(Verification, BTreeSet<u32>), TransferError> {
    let (request, splits, stop) = (shared.request, &shared.manifest.header.splits, shared.stop);
    let target = request.sink.target()?;
    let rejected = shared.rejects.places();
    let (passes, reread): (Box<dyn Passes>, u64) = match request.tasks {
        Some(tasks) => (Box::new(tasks::Elsewhere { request, splits, rejected, stop, tasks }), splits.len() as u64),
        None => {
            let reread = missing_spools(request, splits, &rejected, stop)?;
            let (folder, parallel, target) = (&*request.folder, request.parallel, &*target);
            (Box::new(Here { folder, splits, target, parallel, stop }), reread)
        }
    };
    let order = match request.source.repeats() && request.tasks.is_none() {
        // A task may run twice.
        false => Order::Unknown,
        true if shared.in_order() => Order::Whole,
        true => Order::InSplits,
    };
    let (found, differ) = verify(&*passes, &*target, order, &mut |done| verified(Some((done, splits.len() as u64))))?;
    // Only cleanup.
    let _ = std::fs::remove_dir_all(request.folder.join(crate::verify::spool::FOLDER));
    Ok((Verification { reread, ..found }, differ))
}

/// Runs workers, which take splits until none is left or one worker fails.
fn work(
    shared: &Shared<'_>,
    workers: u32,
    meter: &mut Meter<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), TransferError> {
    let (mut error, waiting) = (None, std::thread::current());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|number| {
                let (mut probe, waiting) = (meter.probe(number), waiting.clone());
                let thread = std::thread::Builder::new().name(format!("copy-{number}")).stack_size(STACK_BYTES);
                thread.spawn_scoped(scope, move || {
                    probe.begin();
                    let ended = worker::run(shared, &probe);
                    probe.end();
                    if ended.is_err() {
                        shared.failed.ask();
                    }
                    waiting.unpark();
                    ended
                })
            })
            .collect();
        while threads.iter().any(|thread| thread.as_ref().is_ok_and(|thread| !thread.is_finished())) {
            std::thread::park_timeout(Duration::from_millis(20));
            meter.tick();
            let now = *shared.progress();
            progress(now);
        }
        for thread in threads {
            let ended = match thread.map(|thread| thread.join()) {
                Ok(Ok(ended)) => ended,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(e) => Err(TransferError::Target(format!("cannot start a thread: {e}"))),
            };
            error = error.take().or(ended.err());
        }
    });
    shared.rejects.sync()?;
    error.map_or(Ok(()), Err)
}

fn open_manifest(request: &CopyRequest<'_>, rejects: &Rejects) -> Result<Manifest, TransferError> {
    let folder = &request.folder;
    let refused = |what: String| Err(TransferError::BadInput(what));
    let unfinished = is_unfinished(folder);
    match request.begin {
        Begin::Resume if request.sink.again() == Again::Never => {
            return refused("a copy to standard output cannot be resumed; use --restart to start over".into());
        }
        Begin::Resume if !request.source.reopens() => {
            return refused("a copy from standard input cannot be resumed; use --restart to start over".into());
        }
        Begin::Resume if request.sink.again() == Again::Once && !request.source.repeats() => {
            return refused(format!(
                "{} returns its records in a different order each time, so a resume cannot tell which of them were written, \
                 and `{}` must not be applied twice; restore the target and use --restart",
                request.source.describe(),
                request.op
            ));
        }
        Begin::Resume if !unfinished => {
            return refused(format!(
                "found no unfinished copy from {} to {} in {}; there is nothing to resume",
                request.source.describe(),
                request.sink.describe(),
                folder.display()
            ));
        }
        Begin::Fresh if unfinished => {
            return refused(format!(
                "found an unfinished copy in {}; use --resume to continue or --restart to start over",
                folder.display()
            ));
        }
        Begin::Resume => {
            let manifest = Manifest::resume(folder)?;
            same_settings(&manifest.header.settings, &request.settings)?;
            if manifest.header.tasks && request.sink.again() == Again::Once {
                return Err(tasks::unknown_which(request.op));
            }
            if manifest.header.source != request.source.fingerprint() {
                return refused(format!(
                    "{} has changed since the copy began, so it cannot be resumed; use --restart to start over",
                    request.source.describe()
                ));
            }
            return Ok(manifest);
        }
        Begin::Fresh => rejects.begin(request.replace)?,
    }
    Manifest::begin(folder, || {
        let splits = match request.splits {
            Some(splits) => splits.to_vec(),
            None => request.source.splits(request.parallel)?,
        };
        let header = Header::new(request.settings.clone(), request.source.fingerprint(), splits);
        Ok(Header { target: request.sink.mark(), tasks: request.tasks.is_some(), ..header })
    })
}

/// Checks that the records of an earlier process are still in the target, by reading a few keys of each finished split.
fn still_there(sink: &dyn Sink, manifest: &Manifest) -> Result<(), TransferError> {
    let keys: Vec<&str> = manifest.keys.values().flatten().map(String::as_str).collect();
    if keys.is_empty() || !sink.keeps_keys() {
        return Ok(());
    }
    let missing = sink.missing(&keys)?;
    let Some(first) = missing.first() else { return Ok(()) };
    Err(TransferError::Target(format!(
        "{}: looked up {} records that this copy wrote earlier; {} are missing, such as `{first}`. Was the target deleted, \
         or restored from an older state? Nothing was written now; use --restart to copy everything again",
        sink.describe(),
        keys.len(),
        missing.len()
    )))
}

fn same_settings(then: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Result<(), TransferError> {
    let names: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    for name in names {
        let text = |settings: &BTreeMap<String, String>| settings.get(name).cloned().unwrap_or("nothing".into());
        if text(then) != text(now) {
            return Err(TransferError::BadInput(format!(
                "the copy was started with `{name}` {}, and is resumed with {}; use the same value, or --restart to start over",
                text(then),
                text(now)
            )));
        }
    }
    Ok(())
}
