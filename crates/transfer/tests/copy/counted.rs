//! Tests that a store's own counts are believed, and that a copy that is stopped says what it did.

use storebench_engine::store::{Account, ErrorKind, SameKeys};
use storebench_transfer::{LeftOut, StoreCounts};

use super::faulty::{Fate, Faulty};
use super::*;

fn account(documents: u64, evicted: u64) -> Account {
    Account { documents: Some(documents), evicted: Some(evicted), ..Account::default() }
}

#[test]
fn what_a_table_leaves_out_without_an_error_is_rejected_with_that_reason() {
    for verb in [RecordOp::Upsert, RecordOp::Insert] {
        // As a trigger that returns no row: every second record of every batch.
        let store = Faulty::new(|request| match request.op {
            Op::BulkWrite { items, .. } => Fate::Skips(
                items
                    .iter()
                    .enumerate()
                    .filter(|(_, (key, _))| key.ends_with(['1', '3', '5', '7', '9']))
                    .map(|(n, _)| n)
                    .collect(),
            ),
            _ => Fate::Done,
        });
        let sound: Arc<dyn AnyStore> = Arc::new(store.sound());
        let lab = Lab { verify: true, ..Lab::new() };
        let source = files(&[&lab.write("a.jsonl", lines(1_000))]);
        let report = lab.copy(&source, &store_sink(&(Arc::new(store) as Arc<dyn AnyStore>), verb)).unwrap();
        let counts = report.counts;
        assert_eq!((counts.written, counts.rejected, counts.there_already), (500, 500, 0), "{verb:?}");
        assert!(report.verified.unwrap().equal);
        assert_eq!(contents(&sound).len(), 500);
        assert!(
            lab.rejects()
                .iter()
                .all(|reject| reject.why.contains("reported no error, but did not take it: no document"))
        );
        // A document that was there before is not taken for the new one.
        let store = Faulty::new(|request| match request.op {
            Op::BulkWrite { items, .. } if items.iter().any(|(_, body)| body.contains(&b'2')) => Fate::Skips(vec![0]),
            _ => Fate::Done,
        });
        let store: Arc<dyn AnyStore> = Arc::new(store);
        let lab = Lab::new();
        for (name, line) in [("one.jsonl", "{\"_id\":\"a\",\"v\":1}"), ("two.jsonl", "{\"_id\":\"a\",\"v\":2}")] {
            lab.copy(&files(&[&lab.write(name, line)]), &store_sink(&store, RecordOp::Upsert)).unwrap();
        }
        assert!(lab.rejects()[0].why.contains("did not take it: another document has this key"), "{:?}", lab.rejects());
    }
}

#[test]
fn a_target_that_evicts_or_has_too_few_documents_is_told() {
    for (accounts, evicted, missing) in [
        ([account(0, 7), account(300, 7)], 0, 0),
        ([account(0, 7), account(250, 57)], 50, 50),
        ([account(0, 0), account(299, 0)], 0, 1),
        // What was there before may have been overwritten.
        ([account(10, 0), account(299, 0)], 0, 0),
        // More than the copy wrote: somebody else writes too.
        ([account(0, 0), account(500, 0)], 0, 0),
        // The server was started again.
        ([account(0, 90), account(300, 3)], 0, 0),
    ] {
        let store = Faulty::new(|_| Fate::Done).counting(&accounts);
        let lab = Lab::new();
        // Two records have a key that comes twice.
        let text = lines(300) + &lines(2);
        let sink = store_sink(&(Arc::new(store) as Arc<dyn AnyStore>), RecordOp::Upsert);
        let report = lab.copy(&files(&[&lab.write("a.jsonl", text)]), &sink).unwrap();
        let counted = report.counted.unwrap_or_default();
        assert_eq!((counted.evicted, counted.missing), (evicted, missing), "{accounts:?}");
        assert_eq!(counted.is_loss(), evicted + missing > 0);
    }
}

#[test]
fn a_source_that_returns_less_than_it_counts_and_what_is_beside_its_documents_is_told() {
    let beside = vec![(3, "design documents".into())];
    for (counts, unread) in [([300, 300], 0), ([320, 310], 10), ([300, 320], 0)] {
        let accounts = counts.map(|documents| Account {
            documents: Some(documents),
            beside: beside.clone(),
            ..Account::default()
        });
        let store = Faulty::new(|_| Fate::Done).counting(&accounts);
        let sound: Arc<dyn AnyStore> = Arc::new(store.sound());
        let lab = Lab::new();
        lab.copy(&files(&[&lab.write("a.jsonl", lines(300))]), &store_sink(&sound, RecordOp::Upsert)).unwrap();
        let store: Arc<dyn AnyStore> = Arc::new(store);
        let report = lab.copy(&store_source(&store), &file_sink(&lab, "out.jsonl")).unwrap();
        let left_out = vec![LeftOut { count: 3, what: "design documents".to_owned() }];
        assert_eq!(report.counted, Some(StoreCounts { unread, left_out, ..StoreCounts::default() }), "{counts:?}");
    }
}

#[test]
fn keys_that_a_target_takes_for_one_are_counted_and_verified_as_one() {
    let store = Faulty::new(|_| Fate::Done).taking(SameKeys::AnyCase);
    let lab = Lab { verify: true, parallel: 1, ..Lab::new() };
    let text = "{\"_id\":\"K1\",\"v\":1}\n{\"_id\":\"k1\",\"v\":2}\n{\"_id\":\"k2\",\"v\":3}\n";
    let sink = store_sink(&(Arc::new(store) as Arc<dyn AnyStore>), RecordOp::Upsert);
    let report = lab.copy(&files(&[&lab.write("a.jsonl", text)]), &sink).unwrap();
    assert_eq!(report.repeated_keys.map(|repeated| repeated.records), Some(1));
    let verified = report.verified.unwrap();
    assert_eq!((verified.equal, verified.written_twice), (true, 1), "{verified:?}");
}

#[test]
fn a_page_without_the_key_that_it_begins_with_is_asked_for_again_and_then_an_error() {
    for (empty_pages, fails) in [(1, false), (2, false), (1_000, true)] {
        let mut pages = 0;
        let store = Faulty::new(move |request| match request.op {
            Op::Scan { start: "k000099", .. } => {
                pages += 1;
                // A success without rows.
                if pages <= empty_pages { Fate::Lies } else { Fate::Done }
            }
            _ => Fate::Done,
        });
        let store = store.remote();
        let sound: Arc<dyn AnyStore> = Arc::new(store.sound());
        let lab = Lab { parallel: 1, ..Lab::new() };
        lab.copy(&files(&[&lab.write("a.jsonl", lines(300))]), &store_sink(&sound, RecordOp::Upsert)).unwrap();
        let store: Arc<dyn AnyStore> = Arc::new(store);
        let report = lab.copy(&store_source(&store), &file_sink(&lab, "out.jsonl"));
        match report {
            Ok(report) => assert!(!fails && report.counts.written == 300, "{empty_pages}: {report:?}"),
            Err(error) => {
                assert!(fails && error.to_string().contains("from the key `k000099` on came back empty"), "{error}")
            }
        }
    }
}

#[test]
fn bytes_that_are_not_text_are_kept_with_their_reject() {
    let lab = Lab::new();
    let report = lab.copy(
        &files(&[&lab.write("a.jsonl", b"{\"_id\":\"a\"}\n{\"_id\":\"\xff\xfe\"}\n")]),
        &store_sink(&memory(), RecordOp::Upsert),
    );
    assert_eq!(report.unwrap().counts.rejected, 1);
    let reject = &lab.rejects()[0];
    assert_eq!(reject.record_base64.as_deref(), Some("eyJfaWQiOiL//iJ9"), "{reject:?}");
    assert_eq!(reject.key_base64, None);
}

#[test]
fn an_interrupted_copy_says_what_it_did() {
    let store = memory();
    let lab = Lab { parallel: 1, stop_after: Some(2_000), ..Lab::new() };
    let text = lines(300_000);
    let source = files(&[&lab.write("a.json", format!("[{}]", text.trim_end().replace('\n', ",")))]);
    let report = lab.copy(&source, &store_sink(&store, RecordOp::Upsert)).unwrap();
    assert!(report.interrupted && report.splits_done == 0, "{report:?}");
    assert!(report.counts.written >= 2_000 && report.counts.read >= report.counts.written, "{report:?}");
    assert!(contents(&store).len() as u64 >= report.counts.written);
}

#[test]
fn a_copy_that_waits_for_an_answer_ends_when_it_is_told_to() {
    let stop = Arc::new(Stop::new());
    let asks = Arc::clone(&stop);
    let mut writes = 0;
    // The target stops answering after three batches, and the user gives up waiting.
    let store = Faulty::new(move |request| match request.op {
        Op::BulkWrite { .. } => {
            writes += 1;
            if writes <= 3 {
                return Fate::Done;
            }
            asks.ask();
            Fate::Silent
        }
        _ => Fate::Done,
    });
    let store: Arc<dyn AnyStore> = Arc::new(store);
    let mut options = sink_options(RecordOp::Upsert);
    // Longer than any test.
    options.access.timeout = Duration::from_secs(86_400);
    options.durability =
        store.capabilities().durability.first().map(|(d, _)| storebench_engine::store::DurabilityRequest::Exactly(*d));
    let lab = Lab { stop, parallel: 1, ..Lab::new() };
    let source = files(&[&lab.write("a.jsonl", lines(1_000))]);
    let report = lab.copy(&source, &StoreSink::open(store, options).unwrap()).unwrap();
    assert!(report.interrupted, "{report:?}");
    assert_eq!(report.counts.written, 300);
}

#[test]
fn an_error_of_the_target_is_not_mistaken_for_an_interruption() {
    let store = Faulty::new(|_| Fate::Fails(OpError::new(ErrorKind::Failed, "broken down")));
    let lab = Lab::new();
    let sink = store_sink(&(Arc::new(store) as Arc<dyn AnyStore>), RecordOp::Upsert);
    lab.copy(&files(&[&lab.write("a.jsonl", lines(50_000))]), &sink).unwrap_err();
}

#[test]
fn a_table_that_refuses_everything_ends_the_copy_and_records_that_are_refused_do_not() {
    let run = |decide: fn(&str) -> String| {
        // As PostgreSQL after DROP TABLE, where the statement is refused, not a record.
        let store = Faulty::new(move |request| match request.op {
            Op::BulkWrite { items, .. } => {
                let (key, _) = items.iter().next().unwrap();
                Fate::Fails(OpError::new(ErrorKind::Refused, decide(key)))
            }
            _ => Fate::Done,
        });
        let lab = Lab { parallel: 1, ..Lab::new() };
        let sink = store_sink(&(Arc::new(store) as Arc<dyn AnyStore>), RecordOp::Upsert);
        let report = lab.copy(&files(&[&lab.write("a.jsonl", lines(5_000))]), &sink);
        (report, lab.rejects().len())
    };
    let (report, rejects) = run(|_| "relation \"books\" does not exist".to_owned());
    let error = report.unwrap_err().to_string();
    assert!(
        error.contains("failed in a row") && error.contains("does not exist") && rejects <= 1_000,
        "{error} {rejects}"
    );
    let (report, rejects) = run(|key| format!("{key} is too long"));
    assert_eq!((report.unwrap().counts.rejected, rejects), (5_000, 5_000));
}
