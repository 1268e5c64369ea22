//! Copies in tasks: other processes copy the splits and read them back, and this process keeps the log.
//!
//! A scheduler runs the tasks, such as Spark. It may run a task again, even at the same time. So a task changes nothing
//! but the target, and reports everything else when it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use serde::{Deserialize, Serialize};
use storebench_engine::Stop;

use super::{Begin, CopyRequest, Progress, Shared, work};
use crate::error::TransferError;
use crate::manifest::{Counts, Damage, Header, Manifest};
use crate::measure::Meter;
use crate::rejects::{Places, Reject, Rejects};
use crate::sink::{Again, TargetState};
use crate::source::Split;
use crate::verify::interrupted;
use crate::verify::passes::{Compared, Here, Listed, Passes};
use crate::verify::reread::reread;

/// Tasks per slot. More tasks shorten the wait for a slow one; fewer tasks open fewer connections.
const SHARES: usize = 4;

/// The most bytes of rejected records that a task reports.
const MOST_REJECTED: u64 = 64 << 20;

/// Runs tasks in other processes.
pub trait Tasks: Send + Sync {
    /// The number of tasks that run at the same time.
    fn at_once(&self) -> u32;

    /// Whether operations are allowed that change the target again if the scheduler repeats a task.
    fn may_repeat(&self) -> bool;

    /// Runs these tasks. Passes the report of each to `take` as soon as the task has ended.
    ///
    /// # Errors
    /// A task failed in each of its attempts, or cannot be run. The other tasks may have ended.
    fn run(
        &self,
        tasks: Vec<Task>,
        stop: &Stop,
        take: &mut dyn FnMut(TaskReport) -> Result<(), TransferError>,
    ) -> Result<(), TransferError>;
}

/// One task. Another process that gets it performs it with [`perform`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    work: Work,
    /// The parts of the source to work on.
    splits: Vec<Split>,
    /// The source's fingerprint.
    source: String,
    /// The name of the copy, from which some keys are derived.
    pub copy: String,
    /// What the task must know of the target.
    pub target: TargetState,
    /// The collection of the source, as the first process found it.
    pub collection: Option<String>,
    /// The number of tasks among which limits are divided.
    pub at_once: u32,
    /// The rejected records, by split.
    rejected: BTreeMap<u32, Places>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Work {
    Copy,
    Compare,
    List { buckets: BTreeSet<usize> },
}

/// What a task did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskReport(Vec<SplitReport>);

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SplitReport {
    Copied { split: u32, counts: Counts, damage: Option<Damage>, keys: Vec<String>, rejects: Vec<Reject> },
    Compared(Compared),
    Listed(Listed),
}

impl SplitReport {
    fn split(&self) -> u32 {
        match self {
            Self::Copied { split, .. } => *split,
            Self::Compared(Compared { split, .. }) | Self::Listed(Listed { split, .. }) => *split,
        }
    }
}

/// Whether tasks can perform this copy.
pub(super) fn check(request: &CopyRequest<'_>, tasks: &dyn Tasks) -> Result<(), TransferError> {
    let refused = |what: String| Err(TransferError::BadInput(what));
    let again = request.sink.again();
    check_tasks(request.op, again != Again::Once, request.source.reopens(), tasks)?;
    if request.shape.counts() && !request.source.repeats() {
        return refused(format!(
            "{} returns its records in a different order each time, so a key with {{uuid}} or {{seq}} would differ if a task \
             runs again; make the key of a field",
            request.source.describe()
        ));
    }
    match again {
        Again::Never => refused("tasks cannot write to standard output; write to a file or a folder".into()),
        Again::Once if request.begin == Begin::Resume => Err(unknown_which(request.op)),
        Again::Once | Again::Free => request.sink.state().map(drop),
    }
}

/// Checks that tasks can read the source and apply the operation, before anything is opened or changed. `repeatable`
/// says whether applying the operation twice has the same effect as applying it once.
///
/// # Errors
/// `BadInput`.
pub fn check_tasks(op: &str, repeatable: bool, reopens: bool, tasks: &dyn Tasks) -> Result<(), TransferError> {
    if !reopens {
        return Err(TransferError::BadInput("tasks cannot read standard input; copy it to a file first".into()));
    }
    if !repeatable && !tasks.may_repeat() {
        // Each record names its own operation.
        let op = if op == "unknown" { "op_field" } else { op };
        return Err(TransferError::BadInput(format!(
            "a task may run twice, and `{op}` must not be applied twice; use an operation such as upsert or insert, or \
             accept repeated changes with allow_repeats=True"
        )));
    }
    Ok(())
}

/// Why a copy in tasks cannot be resumed.
pub(super) fn unknown_which(op: &str) -> TransferError {
    TransferError::BadInput(format!(
        "it is unknown which records the interrupted copy has applied, and `{op}` must not be applied twice; restore the \
         target and use --restart"
    ))
}

/// Takes the report of a split.
type TakeReports<'a> = dyn FnMut(SplitReport) -> Result<(), TransferError> + 'a;

/// Runs tasks over splits, and passes the first report of each split to `take`.
fn over(
    request: &CopyRequest<'_>,
    splits: &[Split],
    (work, rejected): (&Work, &BTreeMap<u32, Places>),
    tasks: &dyn Tasks,
    stop: &Stop,
    take: &mut TakeReports<'_>,
) -> Result<(), TransferError> {
    let (source, copy, target) = (request.source.fingerprint(), request.shape.copy(), request.sink.state()?);
    if splits.is_empty() {
        return Ok(());
    }
    let collection = request.settings.get("--from-collection").cloned();
    let at_once = tasks.at_once().max(1);
    let is_limited = request.docs_per_s.is_some() || request.bytes_per_s.is_some();
    // More tasks than run now may run later, and together they must keep the limit.
    let shares = splits.len().min(if is_limited { 1 } else { SHARES } * at_once as usize);
    let at_once = at_once.min(u32::try_from(shares).unwrap_or(u32::MAX));
    let task = |share: usize| {
        // Neighbours go to different tasks: sizes and speeds of neighbours are often alike.
        let splits: Vec<Split> = splits.iter().skip(share).step_by(shares).cloned().collect();
        let of = |split: &Split| Some((split.number, rejected.get(&split.number)?.clone()));
        let rejected = splits.iter().filter_map(of).collect();
        let (source, copy, target) = (source.clone(), copy.to_owned(), target.clone());
        let collection = collection.clone();
        Task { work: work.clone(), splits, source, copy, target, collection, at_once, rejected }
    };
    let mut missing: BTreeSet<u32> = splits.iter().map(|split| split.number).collect();
    tasks.run((0..shares).map(task).collect(), stop, &mut |TaskReport(all)| {
        // A task that ran twice reports twice.
        all.into_iter().filter(|report| missing.remove(&report.split())).try_for_each(&mut *take)
    })?;
    match missing.len() {
        0 => Ok(()),
        _ if stop.asked() => Ok(()),
        missing => Err(TransferError::Target(format!(
            "no report for {missing} parts, although all tasks have ended; use --resume to copy these parts"
        ))),
    }
}

/// Copies the splits that are not done.
pub(super) fn copy(
    shared: &Shared<'_>,
    tasks: &dyn Tasks,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), TransferError> {
    let none = BTreeMap::new();
    over(shared.request, &shared.todo, (&Work::Copy, &none), tasks, shared.stop, &mut |report| {
        let SplitReport::Copied { split, counts, damage, keys, rejects } = report else { return Err(out_of_step()) };
        rejects.iter().try_for_each(|reject| shared.rejects.add(reject))?;
        shared.rejects.sync()?;
        shared.manifest.done(split, counts, damage, keys)?;
        *shared.counts.lock().unwrap_or_else(PoisonError::into_inner) += counts;
        let now = {
            let mut now = shared.progress();
            now.splits_done += 1;
            now.documents += counts.written;
            now.bytes += counts.bytes;
            now.rejected += counts.rejected;
            now.read_bytes += shared.todo.iter().find(|of| of.number == split).and_then(|of| of.bytes).unwrap_or(0);
            *now
        };
        progress(now);
        Ok(())
    })
}

fn out_of_step() -> TransferError {
    let why = "unexpected report from a task; install the same version of Storebench on the driver and all workers";
    TransferError::Target(why.into())
}

/// Passes of a verification by tasks. They read the source again, because what the first tasks kept may be lost.
pub(super) struct Elsewhere<'a> {
    pub(super) request: &'a CopyRequest<'a>,
    pub(super) splits: &'a [Split],
    pub(super) rejected: BTreeMap<u32, Places>,
    pub(super) stop: &'a Stop,
    pub(super) tasks: &'a dyn Tasks,
}

impl Elsewhere<'_> {
    fn pass(&self, work: &Work, take: &mut TakeReports<'_>) -> Result<(), TransferError> {
        over(self.request, self.splits, (work, &self.rejected), self.tasks, self.stop, take)?;
        if self.stop.asked() { Err(interrupted()) } else { Ok(()) }
    }
}

impl Passes for Elsewhere<'_> {
    fn compare(&self, take: &mut dyn FnMut(Compared)) -> Result<(), TransferError> {
        self.pass(&Work::Compare, &mut |report| {
            let SplitReport::Compared(compared) = report else { return Err(out_of_step()) };
            take(compared);
            Ok(())
        })
    }

    fn list(&self, buckets: &BTreeSet<usize>, take: &mut dyn FnMut(Listed)) -> Result<(), TransferError> {
        self.pass(&Work::List { buckets: buckets.clone() }, &mut |report| {
            let SplitReport::Listed(listed) = report else { return Err(out_of_step()) };
            take(listed);
            Ok(())
        })
    }
}

/// Performs a task. `request` has the same source, target and shape as the copy, and a new folder of its own.
///
/// # Errors
/// As [`copy`](super::copy). Also if the source differs from the one that the copy divided.
pub fn perform(request: &CopyRequest<'_>, task: &Task, stop: &Arc<Stop>) -> Result<TaskReport, TransferError> {
    if request.source.fingerprint() != task.source {
        return Err(TransferError::BadInput(format!(
            "{}: differs between this worker and the driver; give all workers the same files, and do not change them",
            request.source.describe()
        )));
    }
    match &task.work {
        Work::Copy => copied(request, task, stop).map(TaskReport),
        Work::Compare => each(request, task, stop, &|here, reports| {
            here.compare(&mut |compared| reports.push(SplitReport::Compared(compared)))
        }),
        Work::List { buckets } => each(request, task, stop, &|here, reports| {
            here.list(buckets, &mut |listed| reports.push(SplitReport::Listed(listed)))
        }),
    }
}

/// What is done with a split that is read back; it adds to the reports.
type Pass<'a> = dyn Fn(&Here<'_>, &mut Vec<SplitReport>) -> Result<(), TransferError> + 'a;

/// Reads each split back.
fn each(request: &CopyRequest<'_>, task: &Task, stop: &Stop, pass: &Pass<'_>) -> Result<TaskReport, TransferError> {
    let target = request.sink.target()?;
    let (target, folder, none) = (&*target, &*request.folder, Places::new());
    let mut reports = Vec::new();
    for split in task.splits.chunks(1) {
        let number = split[0].number;
        reread(request, &split[0], task.rejected.get(&number).unwrap_or(&none))?;
        pass(&Here { folder, splits: split, target, parallel: 1, stop }, &mut reports)?;
        crate::verify::spool::remove(folder, number)?;
    }
    Ok(TaskReport(reports))
}

fn copied(request: &CopyRequest<'_>, task: &Task, stop: &Arc<Stop>) -> Result<Vec<SplitReport>, TransferError> {
    let header = Header::new(BTreeMap::new(), task.source.clone(), task.splits.clone());
    let manifest = Manifest::begin(&request.folder, || Ok(header))?;
    let shared = Shared::new(request, manifest, Rejects::new(request.rejects.clone()), stop);
    let workers = shared.workers();
    let mut meter =
        Meter::new(request.source.requests(), request.sink.writes()?, workers, request.interval, request.observer);
    work(&shared, workers, &mut meter, &mut |_| {})?;
    let mut rejects: BTreeMap<u32, Vec<Reject>> = BTreeMap::new();
    if std::fs::metadata(&request.rejects).is_ok_and(|file| file.len() > MOST_REJECTED) {
        let first = shared.rejects.first().unwrap_or_default();
        return Err(TransferError::Target(format!(
            "too many rejected records in one task to report them all; the first: {first}; correct the cause, and use --resume"
        )));
    }
    shared.rejects.all().for_each(|reject| rejects.entry(reject.split).or_default().push(reject));
    drop(shared);
    let mut log = Manifest::resume(&request.folder)?;
    let mut damaged = std::mem::take(log.damaged.get_mut().unwrap_or_else(PoisonError::into_inner));
    let report = |(split, counts): (u32, Counts)| SplitReport::Copied {
        split,
        counts,
        damage: damaged.remove(&split),
        keys: log.keys.remove(&split).unwrap_or_default(),
        rejects: rejects.remove(&split).unwrap_or_default(),
    };
    Ok(log.done.into_iter().map(report).collect())
}
