//! Tests temporary failures, permanent failures, and answers that never arrive.

use storebench_engine::store::ErrorKind;

use super::faulty::{Fate, Faulty};
use super::*;

fn temporary() -> OpError {
    OpError::new(ErrorKind::Temporary, "busy")
}

fn run(verb: RecordOp, count: usize, store: Faulty) -> (Lab, Result<CopyReport, TransferError>, Arc<dyn AnyStore>) {
    run_with(sink_options(verb), count, store)
}

fn run_with(
    options: StoreSinkOptions,
    count: usize,
    store: Faulty,
) -> (Lab, Result<CopyReport, TransferError>, Arc<dyn AnyStore>) {
    let lab = Lab::new();
    let path = lab.write("a.jsonl", lines(count));
    let sound: Arc<dyn AnyStore> = Arc::new(store.sound());
    let faulty: Arc<dyn AnyStore> = Arc::new(store);
    let durability =
        faulty.capabilities().durability.first().map(|(d, _)| storebench_engine::store::DurabilityRequest::Exactly(*d));
    let sink = StoreSink::open(faulty, StoreSinkOptions { durability, ..options }).unwrap();
    let report = lab.copy(&files(&[&path]), &sink);
    (lab, report, sound)
}

#[test]
fn what_fails_for_now_is_tried_again() {
    // Counted per request. With a common count, one request could fail as often as the copy tries.
    let mut tries = std::collections::HashMap::new();
    let store = Faulty::new(move |request| {
        let first = match request.op {
            Op::BulkWrite { items, .. } => items.iter().next().map(|(key, _)| key.to_owned()),
            _ => None,
        };
        let tried = tries.entry(first).or_insert(0);
        *tried += 1;
        if *tried % 3 == 0 { Fate::Done } else { Fate::Fails(temporary()) }
    });
    let (_lab, report, sound) = run(RecordOp::Upsert, 2_000, store);
    let counts = report.unwrap().counts;
    assert_eq!((counts.written, counts.rejected), (2_000, 0));
    assert!(counts.retries >= 20, "{counts:?}");
    assert_eq!(contents(&sound), sorted(&lines(2_000)));
}

#[test]
fn the_answer_to_a_second_try_is_heard_when_nothing_else_is_under_way() {
    let mut calls = 0;
    let store = Faulty::new(move |_| {
        calls += 1;
        if calls == 1 { Fate::Fails(temporary()) } else { Fate::Late }
    });
    let (_lab, report, sound) = run(RecordOp::Upsert, 50, store);
    let counts = report.unwrap().counts;
    // If the answer were missed, the request would time out and be sent again.
    assert_eq!((counts.written, counts.retries), (50, 1));
    assert_eq!(contents(&sound), sorted(&lines(50)));
}

/// Keys that begin with the kind of a document: after many small ones come some that are ten thousand times as large. A
/// page of these as long as the last one is too large for the timeout (temporary), or for an answer (permanent).
#[test]
fn a_page_that_is_too_large_is_asked_for_in_parts() {
    for kind in [ErrorKind::Temporary, ErrorKind::Failed] {
        let large = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = Arc::clone(&large);
        let store = Faulty::new(move |request| match request.op {
            Op::Scan { start, limit, .. } if start >= "a-10890" => {
                seen.lock().unwrap().push(limit);
                if limit > 60 { Fate::Fails(OpError::new(kind, "too much")) } else { Fate::Done }
            }
            _ => Fate::Done,
        });
        let lab = Lab::new();
        let text: String = (0..10_905)
            .map(|n| (format!("a-{n:05}"), 1))
            .chain((0..50).map(|n| (format!("b-{n}"), 20_000)))
            .map(|(id, length)| format!("{{\"_id\":\"{id}\",\"x\":\"{}\"}}\n", "x".repeat(length)))
            .collect();
        let path = lab.write("a.jsonl", &text);
        let store: Arc<dyn AnyStore> = Arc::new(store);
        lab.copy(&files(&[&path]), &store_sink(&store, RecordOp::Upsert)).unwrap();
        lab.copy(&store_source(&store), &file_sink(&lab, "out.jsonl")).unwrap();
        assert_eq!(sorted(&std::fs::read_to_string(lab.path("out.jsonl")).unwrap()), sorted(&text), "{kind:?}");
        let asked = large.lock().unwrap();
        // It learns from the failures, and does not forget it at the next page.
        let failed = asked.iter().filter(|limit| **limit > 60).count();
        assert!((1..=10).contains(&failed), "{kind:?}: {asked:?}");
    }
}

#[test]
fn a_store_that_stays_busy_ends_the_copy_and_loses_nothing() {
    let mut calls = 0;
    let store = Faulty::new(move |_| {
        calls += 1;
        if calls <= 5 { Fate::Done } else { Fate::Fails(temporary()) }
    });
    let (lab, report, _) = run(RecordOp::Upsert, 2_000, store);
    let error = report.unwrap_err();
    assert!(error.to_string().contains("gave up after 16 attempts"), "{error}");
    assert!(matches!(error, TransferError::Store { error: storebench_engine::store::StoreError::Unreachable(_), .. }));
    assert!(lab.rejects().is_empty() && lab.path("copy/log.jsonl").exists());
}

#[test]
fn one_record_that_a_store_refuses_does_not_take_its_batch_along() {
    let store = Faulty::new(|request| match request.op {
        Op::BulkWrite { items, .. } if items.iter().any(|(key, _)| key == "k000777") => {
            Fate::Fails(OpError::new(ErrorKind::Refused, "too large"))
        }
        _ => Fate::Done,
    });
    let (lab, report, sound) = run(RecordOp::Upsert, 2_000, store);
    let counts = report.unwrap().counts;
    assert_eq!((counts.written, counts.rejected), (1_999, 1));
    let reject = &lab.rejects()[0];
    assert_eq!((reject.key.as_deref(), reject.why.as_str(), reject.tries), (Some("k000777"), "too large", 1));
    assert_eq!(reject.record["n"], 777);
    assert_eq!(contents(&sound).len(), 1_999);
}

#[test]
fn an_insert_whose_answer_is_lost_is_no_conflict_with_itself() {
    for silent in [false, true] {
        let mut calls = 0;
        let store = Faulty::new(move |request| {
            calls += 1;
            match request.op {
                Op::BulkWrite { .. } if calls % 4 == 1 && silent => Fate::Silent,
                Op::BulkWrite { .. } if calls % 4 == 1 => {
                    Fate::DoneBut(OpError::new(ErrorKind::OutcomeUnknown, "reset"))
                }
                _ => Fate::Done,
            }
        });
        let options = sink_options(RecordOp::Insert);
        let access = Access { timeout: Duration::from_millis(50), ..options.access };
        let options = StoreSinkOptions { access, ..options };
        let (_lab, report, sound) = run_with(options, 1_000, store);
        let counts = report.unwrap().counts;
        assert_eq!((counts.written, counts.rejected), (1_000, 0), "{silent}");
        assert!(counts.there_already > 0 && counts.retries > 0, "{counts:?}");
        assert_eq!(contents(&sound), sorted(&lines(1_000)));
    }
}

/// Copies into counters, adding the field `n`.
fn count(lab: &Lab, text: &str, store: &Arc<dyn AnyStore>) -> CopyReport {
    let (source, sink) = (files(&[&lab.write("a.jsonl", text)]), store_sink(store, RecordOp::Counter));
    lab.copy_shaped(&source, &sink, &Shape::new(None, "test").with_value("n")).unwrap()
}

#[test]
fn a_counter_whose_answer_is_lost_is_listed_and_not_done_again() {
    let lab = Lab::new();
    let text: String = (0..100).map(|n| format!("{{\"_id\":\"c{:02}\",\"n\":{n}}}\n", n % 10)).collect();
    let mut calls = 0;
    let faulty: Arc<dyn AnyStore> = Arc::new(Faulty::new(move |_| {
        calls += 1;
        if calls == 50 { Fate::DoneBut(OpError::new(ErrorKind::OutcomeUnknown, "reset")) } else { Fate::Done }
    }));
    let report = count(&lab, &text, &faulty);
    assert_eq!((report.counts.written, report.counts.rejected), (99, 1));
    let reject = &lab.rejects()[0];
    assert_eq!((reject.error.as_str(), reject.tries), ("outcome-unknown", 1));
    let line: serde_json::Value = serde_json::from_str(text.lines().nth(49).unwrap()).unwrap();
    assert_eq!(reject.record, line, "the record as it was read");
}

#[test]
fn what_is_no_integer_is_not_counted_as_nothing() {
    let lab = Lab::new();
    let text =
        "{\"_id\":\"a\",\"n\":4}\n{\"_id\":\"a\",\"n\":\"x\"}\n{\"_id\":\"a\",\"n\":1.5}\n{\"_id\":\"a\",\"n\":-1}\n";
    let store = memory();
    let report = count(&lab, text, &store);
    assert_eq!((report.counts.written, report.counts.rejected), (2, 2));
    assert!(lab.rejects().iter().all(|reject| reject.why.contains("not a 64-bit integer") && reject.tries == 0));
    // Whole documents are not integers either.
    let lab = Lab::new();
    let report = lab.copy(&files(&[&lab.write("b.jsonl", text)]), &store_sink(&store, RecordOp::Counter)).unwrap();
    assert_eq!((report.counts.written, report.counts.rejected), (0, 4));
    assert_eq!(lab.rejects()[0].record, serde_json::json!({"_id": "a", "n": 4}));
}

#[test]
fn as_many_failures_as_are_allowed_end_nothing() {
    let store = |_: ()| {
        Faulty::new(|request| match request.op {
            Op::BulkWrite { items, .. } if items.iter().any(|(key, _)| key >= "k000900") => {
                Fate::Fails(OpError::new(ErrorKind::Failed, "poison"))
            }
            _ => Fate::Done,
        })
    };
    let (_, report, _) = run(RecordOp::Upsert, 1_000, store(()));
    assert!(report.unwrap_err().to_string().contains("--max-errors"));
    let options = StoreSinkOptions { may_fail: 100, ..sink_options(RecordOp::Upsert) };
    let (lab, report, _) = run_with(options, 1_000, store(()));
    assert_eq!(report.unwrap().counts.rejected, 100);
    assert_eq!(lab.rejects().len(), 100);
}

#[test]
fn a_store_that_fails_everything_is_not_given_the_whole_source() {
    let store = Faulty::new(|_| Fate::Fails(OpError::new(ErrorKind::Failed, "the disk is full")));
    let (lab, report, _) = run(RecordOp::Upsert, 50_000, store);
    let error = report.unwrap_err().to_string();
    assert!(error.contains("the disk is full") && error.contains("--resume"), "{error}");
    assert!(lab.rejects().len() < 10_000);
    assert!(lab.path("copy/log.jsonl").exists());
}

#[test]
fn a_replace_of_what_is_not_there_is_told_one_by_one() {
    let store = Faulty::new(|_| Fate::Done);
    let sound: Arc<dyn AnyStore> = Arc::new(store.sound());
    let lab = Lab::new();
    lab.copy(&files(&[&lab.write("a.jsonl", lines(500))]), &store_sink(&sound, RecordOp::Upsert)).unwrap();
    let lab = Lab::new();
    let report =
        lab.copy(&files(&[&lab.write("b.jsonl", lines(700))]), &store_sink(&sound, RecordOp::Replace)).unwrap();
    assert_eq!((report.counts.written, report.counts.rejected), (500, 200));
    assert!(lab.rejects().iter().all(|reject| reject.error == "not-found"));
    let report = Lab::new().copy(&files(&[&lab.path("b.jsonl")]), &store_sink(&sound, RecordOp::Delete)).unwrap();
    // 200 of the keys never existed.
    assert_eq!((report.counts.read, report.counts.written, report.counts.skipped), (700, 500, 200));
    assert!(contents(&sound).is_empty());
}
