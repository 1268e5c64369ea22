//! Phases that copy: what they request from the implementation of copies, and how its measurement is recorded.
//!
//! Copies are made by another crate, which this one does not know: a run receives [`Transfers`]. The files that copies
//! read are written once, before the first store is touched, and kept for all trials.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use storebench_documents::{Catalog, Documents};
use storebench_engine::measure::{
    Asking, Interval, Label, Partial, PartialCause, PhaseRecord, Recorder, StatsSampler, Tally,
};
use storebench_engine::store::{AnyStore, CollectionId, OpKind, StoreError};
use storebench_engine::{Clock, CopyPlan, Event, Gauges, Observer, Stop};
use storebench_results::human::{count, plural};
use storebench_results::plan::PlannedTrial;
use storebench_results::{Pass, PhaseResult, TasksResult, gather_phase, judge_limits};
use storebench_study::workload::{CopyDirection, does};
use tempfile::TempDir;

use super::error::LabError;
use super::observe::Journal;
use super::request::RunRequest;
use super::runner::{Configuration, RunState};

/// Maximum number of files for one collection.
const MOST_FILES: u32 = 16;

/// An implementation of copies.
pub trait Transfers: Send + Sync {
    /// Writes the documents of a collection, with their keys, into this many files of about equal size. Ends early if
    /// `stop` is requested.
    ///
    /// # Errors
    /// Fails if the files cannot be written or the documents cannot be generated.
    fn write_files(&self, documents: &Documents, folder: &Path, files: u32, stop: &Stop) -> Result<(), StoreError>;

    /// Copies once. `progress` is called regularly.
    ///
    /// # Errors
    /// Fails with the store's errors, and with anything else that ended the copy.
    fn transfer(
        &self,
        request: &TransferRequest<'_>,
        progress: &mut dyn FnMut(TransferProgress),
    ) -> Result<Transferred, StoreError>;
}

/// One copy between a prepared store and files.
#[derive(Clone)]
pub struct TransferRequest<'a> {
    /// The phase.
    pub copy: &'a CopyPlan,
    /// The store, prepared with the study's collections.
    pub store: &'a Arc<dyn AnyStore>,
    /// The collection's place in the study.
    pub collection: CollectionId,
    /// Its documents, with their names and keys.
    pub documents: &'a Documents,
    /// The folder of the files: those from [`Transfers::write_files`], or where files are written.
    pub files: &'a Path,
    /// An empty folder for other output of the copy.
    pub scratch: &'a Path,
    /// Length of a measurement interval.
    pub interval: Duration,
    /// Ends the copy.
    pub stop: &'a Arc<Stop>,
}

/// The progress of a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransferProgress {
    /// Documents written.
    pub documents: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The result of a copy.
#[derive(Debug, Clone)]
pub struct Transferred {
    /// The measurements of its requests, by kind.
    pub record: PhaseRecord,
    /// How many of its tasks ran.
    pub tasks: TasksResult,
    /// Documents written and acknowledged.
    pub documents: u64,
    /// Documents that did not arrive.
    pub rejected: u64,
    /// The position of the first of them, and the reason.
    pub first_reject: Option<String>,
    /// What source or target counts itself, where that shows a loss.
    pub lost: Option<String>,
}

/// The files that copies read, by catalog and collection. Removed when this value is dropped.
pub(super) type Files = BTreeMap<(*const Catalog, usize), TempDir>;

/// Writes the files that phases of a run read. Touches no store.
///
/// # Errors
/// Fails if the study copies without an implementation of copies, or if the files cannot be written.
pub(super) fn write_files(
    request: &RunRequest,
    configurations: &[Configuration],
    stop: &Stop,
    observer: &mut dyn Observer,
) -> Result<Files, LabError> {
    let mut files = Files::new();
    let copies = || {
        configurations.iter().flat_map(|configuration| {
            configuration.plans.iter().filter_map(move |plan| Some((configuration, plan.copy()?)))
        })
    };
    let Some((_, first)) = copies().next() else { return Ok(files) };
    let Some(transfers) = &request.transfers else {
        let what = format!("phase `{}` copies, but this run cannot copy", first.name);
        return Err(LabError::BadInput(what));
    };
    // By input: the greatest common divisor of the configurations' parts.
    let mut wanted: BTreeMap<(*const Catalog, usize), (&Configuration, u32)> = BTreeMap::new();
    for (configuration, copy) in copies() {
        if copy.direction == CopyDirection::In {
            let catalog = &configuration.request.documents.catalog;
            let common =
                &mut wanted.entry((Arc::as_ptr(catalog), copy.label.collection)).or_insert((configuration, 0)).1;
            *common = common_divisor(*common, copy.copy_parts());
        }
    }
    for (key, (configuration, common)) in wanted {
        let documents = configuration.request.documents.catalog.get(key.1);
        let text = format!("writing {} documents of `{}` into files", count(documents.count()), documents.name());
        observer.event(&Event::Note { text });
        let folder = scratch().map_err(|error| LabError::BadInput(error.to_string()))?;
        let written = transfers.write_files(documents, folder.path(), files_for(common), stop);
        written.map_err(|error| LabError::BadInput(format!("cannot write the files to copy from: {error}")))?;
        files.insert(key, folder);
    }
    Ok(files)
}

fn scratch() -> Result<TempDir, StoreError> {
    let made = tempfile::Builder::new().prefix("storebench-copy-").tempdir();
    made.map_err(|e| {
        StoreError::Failed(format!("cannot create a temporary folder: {e}; set TMPDIR to a folder with space"))
    })
}

fn common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// The largest number of files that divides the parts of every configuration, so that all parts have the same size.
fn files_for(common: u32) -> u32 {
    (1..=MOST_FILES).rev().find(|files| common.is_multiple_of(*files)).unwrap_or(1)
}

/// How many documents a copy should move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Exactly(u64),
    AtLeast(u64),
    /// Earlier phases, or a view, decide.
    Unknown,
}

impl Expected {
    /// What is wrong with this number; `None` if nothing is.
    fn fault(self, moved: u64) -> Option<String> {
        match self {
            Self::Exactly(all) if moved != all => {
                Some(format!("expected {} documents, but {} arrived", count(all), count(moved)))
            }
            Self::AtLeast(all) if moved < all => {
                Some(format!("expected at least {} documents, but {} arrived", count(all), count(moved)))
            }
            _ => None,
        }
    }
}

fn expected(configuration: &Configuration, position: usize, copy: &CopyPlan, documents: &Documents) -> Expected {
    let all = documents.count();
    if copy.direction == CopyDirection::In {
        return Expected::Exactly(all);
    }
    if copy.view.is_some() {
        return Expected::Unknown;
    }
    let study = configuration.study();
    let replayed = study.phases[..position].iter().any(|phase| phase.trace.is_some());
    let traced = documents.trace().filter(|_| replayed).map(|trace| trace.kinds()).unwrap_or_default();
    let does = |ops: &[OpKind]| {
        does(study, &study.phases[..position], ops, documents.name()) || traced.iter().any(|kind| ops.contains(kind))
    };
    if does(&[OpKind::Delete, OpKind::Touch]) {
        Expected::Unknown
    } else if configuration.kept || does(&[OpKind::Insert]) {
        // An earlier run may also have inserted documents.
        Expected::AtLeast(all)
    } else {
        Expected::Exactly(all)
    }
}

impl RunState<'_> {
    /// Runs a phase that copies, and saves it.
    pub(super) fn copy(
        &self,
        configuration: &Configuration,
        planned: &PlannedTrial,
        position: usize,
        copy: &CopyPlan,
        journal: &mut Journal<'_>,
    ) -> Result<(PhaseResult, Option<Partial>), StoreError> {
        let catalog = &configuration.request.documents.catalog;
        let collection = copy.label.collection;
        let documents = catalog.get(collection);
        let Some(transfers) = &self.request.transfers else {
            return Err(StoreError::NotSupported("this run cannot copy".to_owned()));
        };
        // Removed after the phase is saved. A copy out of the store fills `out`.
        let (out, scratch) = (scratch()?, scratch()?);
        let files = match copy.direction {
            CopyDirection::In => self.files.get(&(Arc::as_ptr(catalog), collection)).map(TempDir::path),
            CopyDirection::Out => Some(out.path()),
        };
        let files = files.ok_or_else(|| StoreError::Failed("there are no files to copy from".to_owned()))?;
        let request = TransferRequest {
            copy,
            store: &configuration.store,
            collection: CollectionId(u16::try_from(collection).unwrap_or(u16::MAX)),
            documents,
            files,
            scratch: scratch.path(),
            interval: self.request.interval,
            stop: &self.stop,
        };
        let labels = std::slice::from_ref(&copy.label);
        journal.event(&Event::PhaseBegan {
            phase: &copy.name,
            labels,
            loads: true,
            operations: None,
            duration_ns: None,
        });
        let stats =
            StatsSampler::new(Arc::clone(&configuration.store), Arc::new(self.clock.clone()), self.request.interval);
        let start_ns = self.clock.now_ns();
        // Without it, only the store's own statistics are missing.
        let stats = stats.start(start_ns).ok();
        let mut told = ReportedProgress::default();
        let ended = transfers.transfer(&request, &mut |now| {
            let at_ns = self.clock.now_ns() - start_ns;
            told.interval(copy, now, at_ns, self.request.interval, journal);
        });
        let store_stats = stats.map(Asking::finish).unwrap_or_default();
        let Transferred { record, tasks, documents: moved, rejected, first_reject, lost } = ended?;
        let mut record = as_phase(record, copy);
        record.store_stats = store_stats;
        record.distinct_keys = vec![(collection, moved)];
        if record.partial.is_none() {
            let fault = self.fault(configuration, position, copy, (moved, rejected, first_reject), journal);
            record.partial = fault.or_else(|| lost.map(|why| Partial { cause: PartialCause::Failed, why }));
        }
        journal.event(&Event::PhaseEnded {
            phase: &copy.name,
            operations: record.operations(),
            elapsed_ns: record.elapsed_ns,
            total: &record.total,
            store: None,
        });
        journal.keep(|folder| {
            folder.add_phase(planned.trial, &configuration.request.store_name, Pass::Measured, &record, [])
        });
        let mut found =
            gather_phase(&record, &self.documents[configuration.position], &configuration.capabilities, None);
        found.durability.asked = copy.guarantees.durability_asked_in_words();
        found.limits = judge_limits(&record, &configuration.study().limits);
        found.tasks = Some(tasks);
        for op in found.ops.values_mut() {
            copy.direction.op_name().clone_into(&mut op.kind);
        }
        found.store_after = Some(self.after(configuration, &configuration.study().phases[position], journal));
        Ok((found, record.partial))
    }

    /// Describes lost documents, if any.
    fn fault(
        &self,
        configuration: &Configuration,
        position: usize,
        copy: &CopyPlan,
        (moved, rejected, first_reject): (u64, u64, Option<String>),
        journal: &mut Journal<'_>,
    ) -> Option<Partial> {
        let documents = configuration.request.documents.catalog.get(copy.label.collection);
        let expected = expected(configuration, position, copy, documents);
        if expected == Expected::Unknown && moved != documents.count() {
            journal.note(format!(
                "{} documents of `{}` arrived, of {} loaded; a view or earlier phases decide how many to expect, so \
                 missing documents cannot be detected",
                count(moved),
                documents.name(),
                count(documents.count())
            ));
        }
        let why = match first_reject {
            _ if rejected == 0 => expected.fault(moved)?,
            Some(first) => format!("{} did not arrive; the first: {first}", plural(rejected, "document")),
            None => format!("{} did not arrive", plural(rejected, "document")),
        };
        Some(Partial { cause: PartialCause::Failed, why })
    }
}

/// The progress that was last reported to observers.
#[derive(Default)]
struct ReportedProgress {
    number: u64,
    to_ns: u64,
    before: TransferProgress,
}

impl ReportedProgress {
    fn interval(
        &mut self,
        copy: &CopyPlan,
        now: TransferProgress,
        at_ns: u64,
        interval: Duration,
        journal: &mut Journal<'_>,
    ) {
        if at_ns < self.to_ns + interval.as_nanos() as u64 {
            return;
        }
        let mut record = Recorder::new(1);
        record.ops[0].documents = now.documents.saturating_sub(self.before.documents);
        let bytes = now.bytes.saturating_sub(self.before.bytes);
        match copy.direction {
            CopyDirection::In => record.ops[0].bytes_written = bytes,
            CopyDirection::Out => record.ops[0].bytes_read = bytes,
        }
        let (phase, number, unknown) = (&*copy.name, self.number, Gauges::default());
        journal.event(&Event::Interval { phase, number, to_ns: at_ns, record: &record, now: unknown });
        (self.number, self.to_ns, self.before) = (self.number + 1, at_ns, now);
    }
}

/// Reduces the measurement of a copy to one operation of a phase: requests to the store. If the source reports no
/// requests, what the copy wrote counts.
fn as_phase(record: PhaseRecord, copy: &CopyPlan) -> PhaseRecord {
    let into = copy.direction == CopyDirection::In;
    let of_store = |label: &Label| into == label.kind.writes();
    let told = record.labels.iter().zip(&record.total.ops).any(|(label, tally)| of_store(label) && tally.ended() > 0);
    let taken: Vec<bool> = record.labels.iter().map(|label| !told || of_store(label)).collect();
    let one = |all: &Recorder| {
        let mut one = Recorder::new(1);
        let (mut alone, ops) = (Recorder::new(1), all.ops.iter().zip(&taken));
        for (tally, _) in ops.filter(|(_, taken)| **taken) {
            alone.ops[0] = tally.clone();
            one.add(&alone);
        }
        if !into {
            // Bytes read, from whichever side reported them.
            let Tally { bytes_read, bytes_written, .. } = &mut one.ops[0];
            *bytes_read += std::mem::take(bytes_written);
        }
        one
    };
    let intervals = record.intervals.iter().map(|i| Interval::new(i.number, i.from_ns, i.to_ns, &one(&i.record())));
    PhaseRecord {
        name: copy.name.clone(),
        warm_up: copy.warm_up,
        loads: into,
        labels: vec![copy.label.clone()],
        durability: copy.guarantees.durability,
        consistency: copy.guarantees.consistency,
        intervals: intervals.collect(),
        total: one(&record.total),
        ..record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_divide_the_parts_of_every_configuration() {
        let common = |parts: &[u32]| parts.iter().fold(0, |common, parts| common_divisor(common, *parts));
        for (parts, files) in
            [(&[64][..], 16), (&[64, 128, 1_536], 16), (&[8, 12], 4), (&[3], 3), (&[7, 5], 1), (&[1], 1)]
        {
            assert_eq!(files_for(common(parts)), files, "{parts:?}");
        }
    }

    #[test]
    fn missing_documents_are_a_fault() {
        assert_eq!(Expected::Exactly(5).fault(5), None);
        assert!(Expected::Exactly(5).fault(4).unwrap().contains("5 documents, but 4 arrived"));
        assert!(Expected::Exactly(5).fault(6).is_some());
        assert_eq!(Expected::AtLeast(5).fault(6), None);
        assert!(Expected::AtLeast(5).fault(4).unwrap().contains("at least 5"));
        assert_eq!(Expected::Unknown.fault(0), None);
    }
}
