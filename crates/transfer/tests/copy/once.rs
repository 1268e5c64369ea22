//! Tests operations that may not be applied twice.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use storebench_engine::store::ErrorKind;

use super::faulty::{Fate, Faulty};
use super::*;

#[test]
fn each_record_is_done_once_or_listed_wherever_the_copy_breaks() {
    // Each record appends its line without the key, so always the same number of bytes.
    let text: String = (0..2_000).map(|n| format!("{{\"_id\":\"k{:02}\",\"n\":1}}\n", n % 50)).collect();
    for breaks_at in [0, 1, 99, 100, 1_234, 1_999] {
        let mut lab = Lab::new();
        lab.parallel = 1;
        let path = lab.write("a.jsonl", &text);
        let done = Arc::new(AtomicU32::new(0));
        let (count, broken) = (Arc::clone(&done), Arc::new(AtomicBool::new(true)));
        let breaks = Arc::clone(&broken);
        let store = Faulty::new(move |request| {
            if !matches!(request.op, Op::Append { .. }) {
                return Fate::Done;
            }
            if breaks.load(Ordering::Relaxed) && count.load(Ordering::Relaxed) >= breaks_at {
                return Fate::Fails(OpError::new(ErrorKind::Temporary, "gone"));
            }
            count.fetch_add(1, Ordering::Relaxed);
            Fate::Done
        });
        let sound: Arc<dyn AnyStore> = Arc::new(store.sound());
        let faulty: Arc<dyn AnyStore> = Arc::new(store);
        // Create documents to append to.
        let sink = store_sink(&faulty, RecordOp::Append);
        let mut call = caller(&*sound);
        for n in 0..50 {
            call(Op::Upsert { key: &format!("k{n:02}"), body: b"" }).unwrap();
        }
        lab.copy(&files(&[&path]), &sink).unwrap_err();
        broken.store(false, Ordering::Relaxed);
        lab.begin = Begin::Resume;
        let report = lab.copy(&files(&[&path]), &store_sink(&faulty, RecordOp::Append)).unwrap();
        assert_eq!(report.counts.read, 2_000, "{breaks_at}");
        assert_eq!(report.counts.written + report.counts.rejected, 2_000, "{breaks_at}");
        let listed = lab.rejects();
        assert_eq!(listed.len() as u64, report.counts.rejected);
        assert!(listed.iter().all(|reject| reject.error == "outcome-unknown"), "{:?}", listed.first());
        // At most one batch is doubtful. The resumed copy applied none of it.
        assert!(listed.len() <= 100, "{breaks_at}: {}", listed.len());
        let done = u64::from(done.load(Ordering::Relaxed));
        assert!(
            done <= 2_000 && done + listed.len() as u64 >= 2_000,
            "{breaks_at}: {done} done, {} listed",
            listed.len()
        );
    }
}

#[test]
fn an_interrupted_copy_is_in_doubt_about_nothing() {
    let text: String = (0..30_000).map(|n| format!("{{\"_id\":\"c{:02}\",\"n\":1}}\n", n % 50)).collect();
    let mut lab = Lab::new();
    lab.parallel = 1;
    lab.stop_after = Some(500);
    let path = lab.write("a.jsonl", &text);
    let store = memory();
    let shape = Shape::new(None, "test").with_value("n");
    let report = lab.copy_shaped(&files(&[&path]), &store_sink(&store, RecordOp::Counter), &shape).unwrap();
    assert!(report.interrupted, "{report:?}");
    let lab = Lab { begin: Begin::Resume, stop: Arc::new(Stop::new()), stop_after: None, ..lab };
    let report = lab.copy_shaped(&files(&[&path]), &store_sink(&store, RecordOp::Counter), &shape).unwrap();
    assert_eq!((report.counts.written, report.counts.rejected), (30_000, 0), "{:?}", lab.rejects().first());
    assert!(report.before.written >= 500 && report.before.written < 30_000);
}

#[test]
fn out_of_a_store_it_is_not_gone_on_with() {
    let source = memory();
    let mut lab = Lab::new();
    lab.parallel = 1;
    let path = lab.write("a.jsonl", lines(1_000));
    lab.copy(&files(&[&path]), &store_sink(&source, RecordOp::Upsert)).unwrap();
    // Records may have been added or removed meanwhile, so the first hundred may be different ones.
    let broken = Faulty::new(|request| match request.op {
        Op::Append { .. } => Fate::Fails(OpError::new(ErrorKind::Temporary, "gone")),
        _ => Fate::Done,
    });
    let broken: Arc<dyn AnyStore> = Arc::new(broken);
    lab.copy(&store_source(&source), &store_sink(&broken, RecordOp::Append)).unwrap_err();
    lab.begin = Begin::Resume;
    let error = lab.copy(&store_source(&source), &store_sink(&broken, RecordOp::Append)).unwrap_err();
    assert!(
        matches!(&error, TransferError::BadInput(why) if why.contains("in a different order each time")),
        "{error}"
    );
    // Operations that may be applied twice are repeated.
    let report = lab.copy(&store_source(&source), &store_sink(&memory(), RecordOp::Upsert)).unwrap();
    assert_eq!(report.counts.written, 1_000);
}
