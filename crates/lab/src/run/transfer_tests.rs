//! Phases that copy, with a simple implementation of copies.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use storebench_documents::Documents;
use storebench_engine::Unsupported;
use storebench_engine::measure::{Label, Recorder};
use storebench_engine::store::{AnyStore, MemoryStore, Op, OpKind, PhaseStart, Request, SessionOptions, StoreError};
use storebench_engine::{Caller, Event, RealClock, Stop};
use storebench_results::{FailureKind, TasksResult};
use storebench_study::workload::{CopyDirection, Study};

use super::*;
use crate::plan::{Outline, plan_run};
use crate::testing::copy_record;

const STUDY: &str = r#"
title = "Texts"
repeats = 2
[collections.texts]
count = 300
size = "200B"
[[phases]]
name = "import"
copy = "in"
tasks = 3
parts = 12
[[phases]]
name = "read"
mix = { read = 1 }
operations = 300
popularity = "sequential"
check = 1.0
[[phases]]
name = "export"
copy = "out"
tasks = 5
"#;

/// Copies document by document, and can lose some.
#[derive(Default)]
struct ByHand {
    lost_in: u64,
    lost_out: u64,
    rejected: u64,
    folders: Mutex<Vec<(PathBuf, u32)>>,
    copies: Mutex<Vec<CopyDirection>>,
    files_read: AtomicU64,
}

impl Transfers for ByHand {
    fn write_files(&self, documents: &Documents, folder: &Path, files: u32, _: &Stop) -> Result<(), StoreError> {
        std::fs::write(folder.join("all"), documents.count().to_string()).unwrap();
        self.folders.lock().unwrap().push((folder.to_owned(), files));
        Ok(())
    }

    fn transfer(
        &self,
        request: &TransferRequest<'_>,
        progress: &mut dyn FnMut(TransferProgress),
    ) -> Result<Transferred, StoreError> {
        assert!(request.scratch.is_dir() && request.files.is_dir());
        let mut caller = Caller::open(
            &**request.store,
            &SessionOptions {
                durability: request.copy.guarantees.durability,
                consistency: request.store.capabilities().default_consistency(),
                timeout: request.copy.timeout.0,
                in_flight: request.copy.in_flight,
                clock: Arc::new(RealClock::new()),
                phase_start: PhaseStart::new(),
            },
        )?;
        let all = request.documents.count();
        let documents = match request.copy.direction {
            CopyDirection::In => {
                self.files_read.fetch_add(1, Ordering::Relaxed);
                assert_eq!(std::fs::read_to_string(request.files.join("all")).unwrap(), all.to_string());
                for index in self.lost_in..all {
                    let (mut key, mut body) = (Vec::new(), Vec::new());
                    request.documents.write_key(index, &mut key);
                    request.documents.write_document(index, 0, &mut body);
                    let op = Op::Upsert { key: std::str::from_utf8(&key).unwrap(), body: &body };
                    let asked = Request { collection: request.collection, op, contents: false };
                    caller.call(&asked, |result| assert!(result.is_ok()));
                }
                all - self.lost_in
            }
            CopyDirection::Out => {
                let op = Op::Scan { start: "", end: None, limit: 1_000 };
                let mut found = 0;
                caller.call(&Request { collection: request.collection, op, contents: true }, |result| {
                    found = result.unwrap().rows.unwrap().iter().count() as u64;
                });
                found - self.lost_out
            }
        };
        self.copies.lock().unwrap().push(request.copy.direction);
        progress(TransferProgress { documents, bytes: 0 });
        let mut record = copy_record();
        let label = |kind| Label { name: "any".into(), kind, collection: 0, batch: 7 };
        record.labels = vec![label(OpKind::Scan), label(OpKind::BulkInsert)];
        record.total = Recorder::new(2);
        record.intervals.clear();
        for (op, records) in record.total.ops.iter_mut().zip([documents, documents]) {
            op.succeeded = 4;
            op.documents = records;
            op.bytes_read = 10 * records;
        }
        record.total.ops[1].succeeded = 3;
        let (asked, parts) = (request.copy.copy_tasks(), request.copy.copy_parts().into());
        let tasks = TasksResult { asked, at_once: 2, parts };
        let first_reject = (self.rejected > 0).then(|| "line 7: too large".to_owned());
        Ok(Transferred { record, tasks, documents, rejected: self.rejected, first_reject, lost: None })
    }
}

fn request(text: &str, transfers: Option<Arc<dyn Transfers>>) -> RunRequest {
    let study = Study::parse(text, Path::new("texts.toml"), &[]).unwrap();
    let documents = compile_documents(&study, 1.0, Path::new(".")).unwrap();
    let store: Arc<dyn AnyStore> = Arc::new(MemoryStore::new());
    RunRequest {
        name: "texts".into(),
        configurations: ConfigurationRequest::of_stores(&study, &documents, 1.0, [("memory".to_owned(), store)]),
        study,
        study_text: text.into(),
        study_file: None,
        overrides: Vec::new(),
        runs_dir: None,
        unsupported: Unsupported::Refuse,
        prepare: PrepareMode::Fresh,
        remove_after: false,
        anyway: false,
        transfers,
        prices: None,
        part: None,
        resume: None,
        interval: Duration::from_millis(100),
        commit: None,
    }
}

fn ran(text: &str, by_hand: ByHand) -> (RunOutcome, Arc<ByHand>) {
    let by_hand = Arc::new(by_hand);
    let request = request(text, Some(by_hand.clone()));
    (run(&request, Arc::new(Stop::new()), &mut |_: &Event<'_>| {}).unwrap(), by_hand)
}

#[test]
fn copies_are_phases_and_their_files_are_written_once() {
    let (outcome, by_hand) = ran(STUDY, ByHand::default());
    let result = &outcome.result;
    assert_eq!(result.trials.iter().map(|t| t.failure.clone()).collect::<Vec<_>>(), [None, None]);
    for trial in &result.trials {
        let [import, read, export] = &trial.phases[..] else { panic!("{:?}", trial.failure) };
        assert!(import.loads && !export.loads);
        assert_eq!((import.name.as_str(), import.ops.len()), ("import", 1));
        let op = &import.ops["copy-in"];
        // Only the requests that write.
        assert_eq!((op.kind.as_str(), op.collection.as_str(), op.count, op.documents), ("copy-in", "texts", 3, 300));
        assert_eq!(import.tasks, Some(TasksResult { asked: 3, at_once: 2, parts: 12 }));
        assert_eq!((export.ops["copy-out"].count, export.ops["copy-out"].read_bytes), (4, 3_000));
        assert_eq!(export.tasks, Some(TasksResult { asked: 5, at_once: 2, parts: 64 }));
        assert_eq!((read.ops["read"].checked, read.ops["read"].wrong, read.ops["read"].misses), (300, 0, 0));
        assert_eq!((import.documents.distinct_keys, export.documents.count), (300, 300));
        assert!(import.store_after.is_some());
    }
    let folders = by_hand.folders.lock().unwrap().clone();
    assert_eq!(folders.iter().map(|(_, files)| *files).collect::<Vec<_>>(), [12], "written once");
    assert_eq!(by_hand.files_read.load(Ordering::Relaxed), 2, "and read by each trial");
    assert!(!folders[0].0.exists(), "nothing is left behind");
    // The keys of copies, and what their loop waits for, are not checked.
    let judged =
        |check: &str, phase: &str| result.checks.iter().any(|v| v.check == check && v.phase.as_deref() == Some(phase));
    for check in ["few-distinct-keys", "closed-loop-latency"] {
        assert!(!judged(check, "export") && !judged(check, "import") && judged(check, "read"), "{check}");
    }
    assert!(judged("errors", "export"));
    let text = storebench_results::summary::summary(result, storebench_results::summary::Layout::plain());
    assert!(text.contains("2 of 3 tasks at once · 12 parts · 300 documents"), "{text}");
}

#[test]
fn a_copy_that_loses_documents_fails_its_trial() {
    for (by_hand, phase, said) in [
        (ByHand { lost_in: 2, ..ByHand::default() }, "import", "expected 300 documents, but 298 arrived"),
        (ByHand { lost_out: 1, ..ByHand::default() }, "export", "expected 300 documents, but 299 arrived"),
        (
            ByHand { rejected: 3, ..ByHand::default() },
            "import",
            "3 documents did not arrive; the first: line 7: too large",
        ),
    ] {
        let (outcome, _) = ran(STUDY, by_hand);
        let trial = &outcome.result.trials[0];
        let failure = trial.failure.as_ref().unwrap();
        assert_eq!((failure.kind, failure.during.as_str()), (FailureKind::Failed, phase));
        assert!(failure.message.contains(said), "{}", failure.message);
        assert_eq!(trial.phases.last().unwrap().partial.as_ref(), Some(&failure.message));
        assert_eq!(outcome.exit_code(), 1);
    }
}

#[test]
fn what_was_inserted_or_deleted_before_an_export_counts() {
    let with = |mix: &str| STUDY.replace("mix = { read = 1 }\n", &format!("mix = {{ {mix} = 1 }}\n"));
    for (mix, lost_out, fails) in [("insert", 0, false), ("insert", 301, true), ("delete", 0, false)] {
        let (outcome, _) = ran(&with(mix), ByHand { lost_out, ..ByHand::default() });
        assert_eq!(outcome.result.trials[0].failure.is_some(), fails, "{mix} {lost_out}");
    }
}

#[test]
fn kept_documents_are_not_imported_again() {
    let (outcome, by_hand) = ran(&STUDY.replace("repeats = 2", "repeats = 2\ndatabase = \"kept\""), ByHand::default());
    let phases: Vec<Vec<&str>> =
        outcome.result.trials.iter().map(|t| t.phases.iter().map(|p| p.name.as_str()).collect()).collect();
    assert_eq!(phases, [vec!["import", "read", "export"], vec!["read", "export"]]);
    use CopyDirection::{In, Out};
    assert_eq!(*by_hand.copies.lock().unwrap(), [In, Out, Out]);
}

#[test]
fn nobody_who_copies_is_refused_before_anything_is_touched() {
    let error = run(&request(STUDY, None), Arc::new(Stop::new()), &mut |_: &Event<'_>| {}).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("phase `import` copies"), "{error}");
}

#[test]
fn a_plan_tells_of_copies_and_the_disk_of_their_files() {
    let mut request = request(STUDY, None);
    let of = &mut request.configurations[0];
    let (phases, description) = (&of.fit(Unsupported::Refuse).unwrap(), &of.store.describe());
    let plan = plan_run(&request.study, &[Outline { request: of, description, phases }]);
    assert_eq!((plan.phases[0].workers, plan.phases[0].parts, plan.phases[2].parts), (3, Some(12), Some(64)));
    assert_eq!((plan.configurations[0].documents, plan.phases[2].documents), (300, Some(300)));
    let documents = plan.collections[0].total_bytes;
    assert_eq!(plan.estimate.written_bytes, documents, "a copy out of the store does not write into it");
    assert!(plan.estimate.files_bytes > 2 * documents && plan.estimate.files_bytes < 4 * documents);
    insta::assert_snapshot!(plan.to_string());
}
