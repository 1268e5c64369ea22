//! Copies in tasks: other processes copy the splits, here threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use storebench_transfer::{CopyOutcome, Task, TaskReport, Tasks, perform};

use super::*;

/// Performs tasks one after the other, some twice. Of the tasks in `lost`, the first attempt ends without a report.
struct Elsewhere<'a> {
    source: &'a dyn Source,
    store: &'a Arc<dyn AnyStore>,
    verb: RecordOp,
    lost: Vec<usize>,
    performed: AtomicUsize,
    /// Called before each job.
    between: Mutex<Box<dyn FnMut() + Send + 'a>>,
}

impl<'a> Elsewhere<'a> {
    fn new(source: &'a dyn Source, store: &'a Arc<dyn AnyStore>, verb: RecordOp) -> Self {
        let between: Mutex<Box<dyn FnMut() + Send>> = Mutex::new(Box::new(|| ()));
        Self { source, store, verb, lost: Vec::new(), performed: AtomicUsize::new(0), between }
    }

    fn perform(&self, task: &str) -> String {
        let lab = Lab::new();
        let task: Task = serde_json::from_str(task).unwrap();
        let (resumes, durability) = (
            task.target.copy,
            Some(storebench_engine::store::DurabilityRequest::Exactly(self.store.capabilities().durability[0].0)),
        );
        let options = StoreSinkOptions { resumes, durability, ..sink_options(self.verb) };
        let sink = StoreSink::open(Arc::clone(self.store), options).unwrap();
        let shape = Shape::new(None, &task.copy);
        let report = perform(&request(&lab, (self.source, &sink), &shape, None), &task, &lab.stop).unwrap();
        serde_json::to_string(&report).unwrap()
    }
}

impl Tasks for Elsewhere<'_> {
    fn at_once(&self) -> u32 {
        2
    }

    fn may_repeat(&self) -> bool {
        false
    }

    fn run(
        &self,
        tasks: Vec<Task>,
        _: &Stop,
        take: &mut dyn FnMut(TaskReport) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        (self.between.lock().unwrap())();
        for task in tasks {
            let text = serde_json::to_string(&task).unwrap();
            let number = self.performed.fetch_add(1, Ordering::Relaxed);
            if self.lost.contains(&number) {
                self.perform(&text);
                return Err(TransferError::Target("a task was lost".into()));
            }
            for report in [self.perform(&text), self.perform(&text)] {
                take(serde_json::from_str(&report).unwrap())?;
            }
        }
        Ok(())
    }
}

fn request<'a>(
    lab: &Lab,
    (source, sink): (&'a dyn Source, &'a dyn Sink),
    shape: &'a Shape,
    tasks: Option<&'a dyn Tasks>,
) -> CopyRequest<'a> {
    CopyRequest {
        source,
        sink,
        splits: None,
        shape,
        op: "insert",
        parallel: 4,
        docs_per_s: None,
        bytes_per_s: None,
        folder: lab.path("copy"),
        rejects: lab.path("rejects.jsonl"),
        settings: BTreeMap::new(),
        begin: lab.begin,
        replace: false,
        verify: true,
        interval: Duration::from_secs(1),
        tasks,
        observer: None,
    }
}

fn copied(lab: &Lab, elsewhere: &Elsewhere<'_>) -> Result<CopyReport, TransferError> {
    let sink = store_sink(elsewhere.store, elsewhere.verb);
    let shape = Shape::new(None, "test");
    let request = request(lab, (elsewhere.source, &sink), &shape, Some(elsewhere));
    copy(&request, &lab.stop, &mut |_| {}).map(|CopyOutcome { report, .. }| report)
}

#[test]
fn a_task_that_runs_twice_changes_nothing_and_a_lost_one_is_resumed() {
    let mut lab = Lab::new();
    let path = lab.write("a.jsonl", lines(60_000) + "[1]\n");
    let (source, store) = (files(&[&path]), memory());
    let lost = Elsewhere { lost: vec![2], ..Elsewhere::new(&source, &store, RecordOp::Insert) };
    assert!(matches!(copied(&lab, &lost), Err(TransferError::Target(text)) if text == "a task was lost"));
    lab.begin = Begin::Resume;
    let whole = Elsewhere::new(&source, &store, RecordOp::Insert);
    let report = copied(&lab, &whole).unwrap();
    assert!(report.verified.as_ref().unwrap().equal && report.before.written > 0, "{report:?}");
    assert_eq!((report.counts.written, report.counts.rejected), (60_000, 1));
    assert!(report.counts.there_already > 0, "the lost task had written");
    assert_eq!(lab.rejects().len(), 1);
    assert_eq!(contents(&store), sorted(&lines(60_000)));
}

#[test]
fn what_differs_is_copied_again_and_nothing_else() {
    let mut lab = Lab::new();
    let path = lab.write("a.jsonl", lines(60_000));
    let (source, store) = (files(&[&path]), memory());
    let elsewhere = Elsewhere::new(&source, &store, RecordOp::Insert);
    let first: serde_json::Value = serde_json::from_str(lines(1).trim()).unwrap();
    let key = first[KEY_FIELD].as_str().unwrap().to_owned();
    let mut jobs = 0;
    let target = Arc::clone(&store);
    *elsewhere.between.lock().unwrap() = Box::new(move || {
        jobs += 1;
        // Between the job that copies and the job that reads back.
        if jobs == 2 {
            caller(&*target)(Op::Delete { key: &key }).unwrap();
        }
    });
    let report = copied(&lab, &elsewhere).unwrap();
    let verified = report.verified.unwrap();
    assert!(!verified.equal && report.splits_to_repeat == 1, "{verified:?}");
    assert_eq!(verified.differing.len(), 1);
    lab.begin = Begin::Resume;
    let again = Elsewhere::new(&source, &store, RecordOp::Insert);
    let report = copied(&lab, &again).unwrap();
    assert!(report.verified.unwrap().equal && report.splits_to_repeat == 0);
    assert!(report.before.written > 0 && report.before.written < 60_000);
    assert_eq!(contents(&store), sorted(&lines(60_000)));
    // One task copied, the others read back.
    let reads = again.performed.load(Ordering::Relaxed) - 1;
    assert!(reads > 1, "{reads}");
}

#[test]
fn tasks_see_the_source_that_was_divided() {
    let lab = Lab::new();
    let (path, other) = (lab.write("a.jsonl", lines(10)), lab.write("b.jsonl", lines(11)));
    let (source, changed, store) = (files(&[&path]), files(&[&other]), memory());
    let recorded = Mutex::new(Vec::new());
    struct Records<'a>(&'a Mutex<Vec<Task>>);
    impl Tasks for Records<'_> {
        fn at_once(&self) -> u32 {
            1
        }
        fn may_repeat(&self) -> bool {
            false
        }
        fn run(
            &self,
            tasks: Vec<Task>,
            _: &Stop,
            _: &mut dyn FnMut(TaskReport) -> Result<(), TransferError>,
        ) -> Result<(), TransferError> {
            self.0.lock().unwrap().extend(tasks);
            Ok(())
        }
    }
    let shape = Shape::new(None, "test");
    let sink = store_sink(&store, RecordOp::Upsert);
    let tasks = Records(&recorded);
    let ended = copy(&request(&lab, (&source, &sink), &shape, Some(&tasks)), &lab.stop, &mut |_| {});
    // A scheduler that forgets a task does not make a copy complete.
    assert!(matches!(ended, Err(TransferError::Target(text)) if text.contains("no report for 1 parts")));
    let here = Lab::new();
    let task = recorded.lock().unwrap()[0].clone();
    let refused = perform(&request(&here, (&changed, &sink), &shape, None), &task, &here.stop);
    assert!(
        matches!(refused, Err(TransferError::BadInput(text)) if text.contains("differs between this worker and the driver"))
    );
}

#[test]
fn a_reject_of_a_store_hides_no_other_record_from_a_verification() {
    let lab = Lab::new();
    let path = lab.write("a.jsonl", lines(2_000));
    let (from, store) = (memory(), memory());
    lab.copy(&files(&[&path]), &store_sink(&from, RecordOp::Upsert)).unwrap();
    // An insert of this key is refused.
    let other = lab.write("other.jsonl", lines(8).lines().last().unwrap().replace("\"n\":7", "\"n\":-7") + "\n");
    lab.copy(&files(&[&other]), &store_sink(&store, RecordOp::Upsert)).unwrap();
    let mut last = lab;
    for lost in [false, true] {
        let lab = Lab::new();
        let source = store_source(&from);
        let elsewhere = Elsewhere::new(&source, &store, RecordOp::Insert);
        let (target, mut jobs) = (Arc::clone(&store), 0);
        *elsewhere.between.lock().unwrap() = Box::new(move || {
            jobs += 1;
            if lost && jobs == 2 {
                caller(&*target)(Op::Delete { key: "k000100" }).unwrap();
            }
        });
        let report = copied(&lab, &elsewhere).unwrap();
        assert_eq!((report.counts.written, report.counts.rejected), (1_999, 1));
        let verified = report.verified.unwrap();
        assert_eq!((verified.equal, verified.written), (!lost, 1_999), "{verified:?}");
        last = lab;
    }
    // So does a resume in this process.
    last.begin = Begin::Resume;
    let (shape, sink, source) = (Shape::new(None, "test"), store_sink(&store, RecordOp::Insert), store_source(&from));
    let report = copy(&request(&last, (&source, &sink), &shape, None), &last.stop, &mut |_| {}).unwrap().report;
    let verified = report.verified.unwrap();
    assert_eq!((verified.equal, verified.written), (true, 1_999), "{verified:?}");
    assert_eq!(contents(&store).len(), 2_000);
}
