//! Tests records that fail inside a batch: each gets its own reason, and none affects the others.

use storebench_engine::store::{BulkWrite, ErrorKind};

use super::faulty::{Fate, Faulty};
use super::*;

fn run(options: StoreSinkOptions, count: usize, store: Faulty) -> (Lab, CopyReport, Arc<dyn AnyStore>) {
    let lab = Lab::new();
    let path = lab.write("a.jsonl", lines(count));
    let sound: Arc<dyn AnyStore> = Arc::new(store.sound());
    let faulty: Arc<dyn AnyStore> = Arc::new(store);
    let durability =
        faulty.capabilities().durability.first().map(|(d, _)| storebench_engine::store::DurabilityRequest::Exactly(*d));
    let sink = StoreSink::open(faulty, StoreSinkOptions { durability, ..options }).unwrap();
    let report = lab.copy(&files(&[&path]), &sink).unwrap();
    (lab, report, sound)
}

fn positions(items: storebench_engine::store::Batch<'_>, wanted: &[&str]) -> Vec<(usize, String)> {
    let all = items.iter().enumerate();
    all.filter(|(_, (key, _))| wanted.contains(key)).map(|(at, (key, _))| (at, key.to_owned())).collect()
}

#[test]
fn what_could_not_be_read_for_now_is_not_another_document() {
    let (mut inserts, mut reads) = (0, 0);
    let store = Faulty::new(move |request| match request.op {
        Op::BulkWrite { kind: BulkWrite::Insert, .. } => {
            inserts += 1;
            // Applied, but the answer is lost: the second attempt finds its own documents.
            if inserts == 1 { Fate::DoneBut(OpError::new(ErrorKind::OutcomeUnknown, "reset")) } else { Fate::Done }
        }
        Op::BulkRead { keys } => {
            reads += 1;
            let busy = positions(keys, &["k000007", "k000008"]);
            let kind = if reads < 4 { ErrorKind::Temporary } else { ErrorKind::OutcomeUnknown };
            let failing = if reads < 6 { busy } else { Vec::new() };
            Fate::Rejects(failing.into_iter().map(|(at, _)| (at, OpError::new(kind, "busy"))).collect())
        }
        _ => Fate::Done,
    });
    let (lab, report, sound) = run(sink_options(RecordOp::Insert), 50, store);
    let counts = report.counts;
    assert_eq!((counts.written, counts.rejected, counts.there_already), (50, 0, 50), "{:?}", lab.rejects());
    assert_eq!(contents(&sound), sorted(&lines(50)));
}

#[test]
fn what_can_never_be_read_is_told_as_that() {
    let store = Faulty::new(|request| match request.op {
        Op::BulkRead { keys } => {
            let failing = [("k000001", ErrorKind::Temporary), ("k000002", ErrorKind::Failed)];
            let failing = failing.into_iter().flat_map(|(key, kind)| {
                positions(keys, &[key]).into_iter().map(move |(at, key)| (at, OpError::new(kind, format!("no {key}"))))
            });
            Fate::Rejects(failing.collect())
        }
        _ => Fate::Done,
    });
    let sound: Arc<dyn AnyStore> = Arc::new(store.sound());
    let lab = Lab::new();
    lab.copy(&files(&[&lab.write("a.jsonl", lines(4))]), &store_sink(&sound, RecordOp::Insert)).unwrap();
    let (lab, report, _) = run(sink_options(RecordOp::Insert), 4, store);
    assert_eq!((report.counts.written, report.counts.rejected), (2, 2));
    for reject in lab.rejects() {
        let own = format!("no {}", reject.key.as_deref().unwrap());
        assert!(reject.why.contains("could not be read to compare") && reject.why.ends_with(&own), "{reject:?}");
    }
}

#[test]
fn each_record_that_is_given_up_tells_its_own_reason() {
    let poor = ["k000001", "k000040", "k000077"];
    let store = Faulty::new(move |request| match request.op {
        Op::BulkWrite { items, .. } => Fate::Rejects(
            positions(items, &poor)
                .into_iter()
                .map(|(at, key)| {
                    let kind = if key == poor[0] { ErrorKind::OutcomeUnknown } else { ErrorKind::Temporary };
                    (at, OpError::new(kind, format!("the shard of {key} is full")))
                })
                .collect(),
        ),
        _ => Fate::Done,
    });
    let (lab, report, sound) = run(sink_options(RecordOp::Upsert), 100, store);
    assert_eq!((report.counts.written, report.counts.rejected), (97, 3));
    assert_eq!(contents(&sound).len(), 97);
    let mut rejects = lab.rejects();
    rejects.sort_by(|a, b| a.key.cmp(&b.key));
    for (reject, key) in rejects.iter().zip(poor) {
        assert_eq!((reject.key.as_deref(), reject.why.as_str()), (Some(key), &*format!("the shard of {key} is full")));
        assert_eq!(reject.error == "outcome-unknown", key == poor[0]);
        assert_eq!(reject.tries, 16);
    }
}

/// A store that is gone for good rejects nothing. Records that it did not accept are left for the resumed copy.
#[test]
fn a_store_that_is_gone_rejects_no_record() {
    for taken in [1, 3, 7] {
        let mut writes = 0;
        let store = Faulty::new(move |request| {
            writes += u32::from(matches!(request.op, Op::BulkWrite { .. }));
            if writes > taken { Fate::Fails(OpError::new(ErrorKind::Temporary, "gone")) } else { Fate::Done }
        });
        let lab = Lab::new();
        let path = lab.write("a.jsonl", lines(2_000));
        let sound: Arc<dyn AnyStore> = Arc::new(store.sound());
        let faulty: Arc<dyn AnyStore> = Arc::new(store);
        let durability = faulty
            .capabilities()
            .durability
            .first()
            .map(|(d, _)| storebench_engine::store::DurabilityRequest::Exactly(*d));
        let options = StoreSinkOptions { in_flight: 4, batch: Some(100), durability, ..sink_options(RecordOp::Upsert) };
        let sink = StoreSink::open(faulty, options).unwrap();
        let error = lab.copy(&files(&[&path]), &sink).unwrap_err().to_string();
        assert!(error.contains("gave up after") && error.contains("--resume"), "{error}");
        assert!(lab.rejects().is_empty(), "{:?}", lab.rejects());
        assert_eq!(contents(&sound).len(), 100 * taken as usize);
    }
}

/// A store that is always busy for one record is not a busy store: the others arrive, and the record is rejected.
#[test]
fn a_record_that_a_server_puts_off_for_ever_ends_no_copy() {
    let store = Faulty::new(|request| match request.op {
        Op::BulkWrite { items, .. } if !positions(items, &["k000123"]).is_empty() => {
            Fate::Fails(OpError::new(ErrorKind::Temporary, "busy"))
        }
        _ => Fate::Done,
    });
    let options = StoreSinkOptions { in_flight: 4, ..sink_options(RecordOp::Upsert) };
    let (lab, report, sound) = run(options, 1_000, store);
    assert_eq!((report.counts.written, report.counts.rejected), (999, 1));
    assert_eq!(contents(&sound).len(), 999);
    let rejects = lab.rejects();
    assert_eq!((rejects[0].error.as_str(), &*rejects[0].why), ("temporary", "busy"));
}

#[test]
fn a_record_that_a_server_answers_senselessly_ends_no_copy() {
    for in_flight in [1, 4] {
        let store = Faulty::new(|request| match request.op {
            Op::BulkWrite { items, .. } if !positions(items, &["k000123", "k000777"]).is_empty() => {
                Fate::Fails(OpError::new(ErrorKind::OutcomeUnknown, "the server's answer makes no sense"))
            }
            _ => Fate::Done,
        });
        let options = StoreSinkOptions { in_flight, ..sink_options(RecordOp::Upsert) };
        let (lab, report, sound) = run(options, 1_000, store);
        assert_eq!((report.counts.written, report.counts.rejected), (998, 2));
        assert_eq!(contents(&sound).len(), 998);
        for reject in lab.rejects() {
            assert_eq!(
                (reject.error.as_str(), &*reject.why),
                ("outcome-unknown", "the server's answer makes no sense")
            );
        }
    }
}

#[test]
fn a_conflict_without_a_document_is_told_in_the_words_of_the_store() {
    let store = Faulty::new(|request| match request.op {
        Op::BulkWrite { kind: BulkWrite::Insert, items } => {
            let conflicts = positions(items, &["k000003"]).into_iter();
            Fate::Rejects(conflicts.map(|(at, _)| (at, OpError::conflict("it is in another collection"))).collect())
        }
        _ => Fate::Done,
    });
    let (lab, report, _) = run(sink_options(RecordOp::Insert), 10, store);
    assert_eq!((report.counts.written, report.counts.rejected), (9, 1));
    let why = &lab.rejects()[0].why;
    assert!(why.contains("did not take it (it is in another collection)") && !why.contains("no error"), "{why}");
    assert_eq!((report.rejects_by_reason[0].records, &report.rejects_by_reason[0].why), (1, why));
}
