//! Failures that pass, failures that do not, and answers that never come.

use storebench_core::store::{ErrorKind, Op, OpError};

use super::faulty::{Fate, Faulty};
use super::*;

fn temporary() -> OpError {
    OpError::new(ErrorKind::Temporary, "busy")
}

fn run(verb: Verb, count: usize, store: Faulty) -> (Lab, Result<CopyReport, TransferError>, Arc<dyn AnyStore>) {
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
    let durability = faulty.capabilities().durability.first().map(|(d, _)| *d);
    let sink = StoreSink::open(faulty, StoreSinkOptions { durability, ..options }).unwrap();
    let report = lab.copy(&files(&[&path]), &sink);
    (lab, report, sound)
}

#[test]
fn what_fails_for_now_is_tried_again() {
    let mut calls = 0;
    let store = Faulty::new(move |_| {
        calls += 1;
        if calls % 3 == 0 { Fate::Done } else { Fate::Fails(temporary()) }
    });
    let (lab, report, sound) = run(Verb::Upsert, 2_000, store);
    let counts = report.unwrap().counts;
    assert_eq!((counts.written, counts.rejected), (2_000, 0));
    assert!(counts.retries >= 20, "{counts:?}");
    assert_eq!(contents(&lab, &sound), sorted(&lines(2_000)));
}

#[test]
fn a_store_that_stays_busy_ends_the_copy_and_loses_nothing() {
    let mut calls = 0;
    let store = Faulty::new(move |_| {
        calls += 1;
        if calls <= 5 { Fate::Done } else { Fate::Fails(temporary()) }
    });
    let (lab, report, _) = run(Verb::Upsert, 2_000, store);
    let error = report.unwrap_err();
    assert!(error.to_string().contains("given up after 16 tries"), "{error}");
    assert!(matches!(error, TransferError::Store { error: storebench_core::store::StoreError::Unreachable(_), .. }));
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
    let (lab, report, sound) = run(Verb::Upsert, 2_000, store);
    let counts = report.unwrap().counts;
    assert_eq!((counts.written, counts.rejected), (1_999, 1));
    let reject = &lab.rejects()[0];
    assert_eq!((reject.key.as_deref(), reject.why.as_str(), reject.tries), (Some("k000777"), "too large", 1));
    assert_eq!(reject.record["n"], 777);
    assert_eq!(contents(&lab, &sound).len(), 1_999);
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
        let options = StoreSinkOptions { timeout: Duration::from_millis(50), ..sink_options(Verb::Insert) };
        let (lab, report, sound) = run_with(options, 1_000, store);
        let counts = report.unwrap().counts;
        assert_eq!((counts.written, counts.rejected), (1_000, 0), "{silent}");
        assert!(counts.there_already > 0 && counts.retries > 0, "{counts:?}");
        assert_eq!(contents(&lab, &sound), sorted(&lines(1_000)));
    }
}

#[test]
fn a_counter_whose_answer_is_lost_is_listed_and_not_done_again() {
    let lab = Lab::new();
    let text: String = (0..100).map(|n| format!("{{\"_id\":\"c{n:03}\"}}\n")).collect();
    let mut calls = 0;
    let store = Faulty::new(move |_| {
        calls += 1;
        if calls == 50 { Fate::DoneBut(OpError::new(ErrorKind::OutcomeUnknown, "reset")) } else { Fate::Done }
    });
    let faulty: Arc<dyn AnyStore> = Arc::new(store);
    let sink = store_sink(&faulty, Verb::Append);
    let report = lab.copy(&files(&[&lab.write("a.jsonl", text)]), &sink).unwrap();
    // Nothing is there to append to, but for the one whose answer is lost that is not known.
    assert_eq!((report.counts.written, report.counts.rejected), (0, 100));
    let unknown: Vec<_> = lab.rejects().into_iter().filter(|reject| reject.error == "outcome-unknown").collect();
    assert_eq!(unknown.len(), 1);
    assert_eq!(unknown[0].tries, 1);
}

#[test]
fn a_store_that_fails_everything_is_not_given_the_whole_source() {
    let store = Faulty::new(|_| Fate::Fails(OpError::new(ErrorKind::Failed, "the disk is full")));
    let (lab, report, _) = run(Verb::Upsert, 50_000, store);
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
    lab.copy(&files(&[&lab.write("a.jsonl", lines(500))]), &store_sink(&sound, Verb::Upsert)).unwrap();
    let lab = Lab::new();
    let report = lab.copy(&files(&[&lab.write("b.jsonl", lines(700))]), &store_sink(&sound, Verb::Replace)).unwrap();
    assert_eq!((report.counts.written, report.counts.rejected), (500, 200));
    assert!(lab.rejects().iter().all(|reject| reject.error == "not-found"));
    let report = Lab::new().copy(&files(&[&lab.path("b.jsonl")]), &store_sink(&sound, Verb::Delete)).unwrap();
    assert_eq!((report.counts.written, report.counts.rejected), (700, 0));
    assert!(contents(&lab, &sound).is_empty());
}
