//! Tests resuming unfinished copies.

use storebench_engine::store::ErrorKind;

use super::faulty::{Fate, Faulty};
use super::*;

/// A store that accepts this many requests and then fails, and the same store without faults.
fn dies_after(requests: u32) -> (Arc<dyn AnyStore>, Arc<dyn AnyStore>) {
    let mut calls = 0;
    let store = Faulty::new(move |_| {
        calls += 1;
        if calls <= requests { Fate::Done } else { Fate::Fails(OpError::new(ErrorKind::Failed, "broken down")) }
    });
    (Arc::new(store.sound()), Arc::new(store))
}

#[test]
fn what_was_done_is_not_done_again_and_the_rest_is() {
    for requests in [0, 7, 133, 390] {
        let mut lab = Lab::new();
        let path = lab.write("a.jsonl", lines(60_000));
        let (sound, dying) = dies_after(requests);
        lab.copy(&files(&[&path]), &store_sink(&dying, RecordOp::Insert)).unwrap_err();
        lab.begin = Begin::Resume;
        let report = lab.copy(&files(&[&path]), &store_sink(&sound, RecordOp::Insert)).unwrap();
        assert_eq!((report.counts.read, report.counts.written, report.counts.rejected), (60_000, 60_000, 0));
        assert!(lab.rejects().is_empty(), "records that are read again must not be rejected twice");
        assert_eq!(contents(&sound), sorted(&lines(60_000)), "{requests}");
    }
}

#[test]
fn a_connection_that_broke_before_is_told_at_the_end() {
    let mut lab = Lab::new();
    let path = lab.write("a.jsonl", lines(60_000));
    let mut calls = 0;
    let breaks = Faulty::new(move |_| {
        calls += 1;
        let (kind, why) = if calls == 8 { (ErrorKind::Temporary, "reset") } else { (ErrorKind::Failed, "broken down") };
        if calls < 8 { Fate::Done } else { Fate::Breaks(OpError::new(kind, why)) }
    });
    let (sound, breaking): (Arc<dyn AnyStore>, Arc<dyn AnyStore>) = (Arc::new(breaks.sound()), Arc::new(breaks));
    lab.copy(&files(&[&path]), &store_sink(&breaking, RecordOp::Upsert)).unwrap_err();
    lab.begin = Begin::Resume;
    let report = lab.copy(&files(&[&path]), &store_sink(&sound, RecordOp::Upsert)).unwrap();
    assert!(report.counted.as_ref().is_some_and(|counted| counted.disconnects > 0 && counted.is_loss()), "{report:?}");
    // What was read back is known.
    let verified = Lab { begin: Begin::Fresh, verify: true, ..lab };
    let report = verified.copy(&files(&[&path]), &store_sink(&sound, RecordOp::Upsert)).unwrap();
    assert!(report.verified.is_some_and(|verified| verified.equal) && report.counted.is_none());
}

#[test]
fn a_file_that_is_written_is_gone_on_with() {
    let store = memory();
    let mut lab = Lab::new();
    lab.copy(&files(&[&lab.write("a.jsonl", lines(100_000))]), &store_sink(&store, RecordOp::Upsert)).unwrap();
    lab.parallel = 8;
    lab.stop_after = Some(20_000);
    let report = lab.copy(&store_source(&store), &file_sink(&lab, "out.jsonl")).unwrap();
    assert!(report.interrupted && report.splits_done < report.splits, "{report:?}");
    let mut again = Lab { begin: Begin::Resume, stop: Arc::new(Stop::new()), stop_after: None, ..lab };
    again.parallel = 2;
    let report = again.copy(&store_source(&store), &file_sink(&again, "out.jsonl")).unwrap();
    assert_eq!(report.counts.written, 100_000);
    assert_eq!(sorted(&std::fs::read_to_string(again.path("out.jsonl")).unwrap()), sorted(&lines(100_000)));
}

#[test]
fn a_copy_is_resumed_only_as_it_was_begun() {
    let mut lab = Lab::new();
    let path = lab.write("a.jsonl", lines(60_000));
    let (sound, dying) = dies_after(3);
    let refused = |lab: &Lab, path: &Path| {
        let error = lab.copy(&files(&[path]), &store_sink(&sound, RecordOp::Upsert)).unwrap_err();
        assert!(matches!(error, TransferError::BadInput(_)), "{error}");
        error.to_string()
    };
    lab.begin = Begin::Resume;
    assert!(refused(&lab, &path).contains("nothing to resume"));
    lab.begin = Begin::Fresh;
    lab.copy(&files(&[&path]), &store_sink(&dying, RecordOp::Upsert)).unwrap_err();
    assert!(refused(&lab, &path).contains("--resume"));
    lab.begin = Begin::Resume;
    let other = lab.write("a.jsonl", lines(60_001));
    assert!(refused(&lab, &other).contains("has changed"));
    storebench_transfer::abandon(&lab.path("copy")).unwrap();
    lab.begin = Begin::Fresh;
    assert!(refused(&lab, &other).contains("--rejects"), "the first copy's rejects must be kept");
    std::fs::rename(lab.path("rejects.jsonl"), lab.path("first.jsonl")).unwrap();
    let report = lab.copy(&files(&[&other]), &store_sink(&sound, RecordOp::Upsert)).unwrap();
    assert_eq!((report.counts.written, report.before.written), (60_001, 0));
}

#[test]
fn a_copy_that_broke_after_its_file_was_whole_can_be_gone_on_with() {
    let store = memory();
    let mut lab = Lab { keep_log: true, ..Lab::new() };
    Lab::new().copy(&files(&[&lab.write("a.jsonl", lines(3_000))]), &store_sink(&store, RecordOp::Upsert)).unwrap();
    lab.copy(&store_source(&store), &file_sink(&lab, "out.jsonl")).unwrap();
    // As if the copy had been killed before its log was removed.
    lab.begin = Begin::Resume;
    let report = lab.copy(&store_source(&store), &file_sink(&lab, "out.jsonl")).unwrap();
    assert_eq!((report.counts.written, report.before.written), (3_000, 3_000));
    assert_eq!(sorted(&std::fs::read_to_string(lab.path("out.jsonl")).unwrap()), sorted(&lines(3_000)));
}

#[test]
fn a_file_of_rejects_that_is_there_is_not_touched() {
    let lab = Lab::new();
    lab.write("rejects.jsonl", "of another copy\n");
    let path = lab.write("a.jsonl", lines(3));
    let error = lab.copy(&files(&[&path]), &store_sink(&memory(), RecordOp::Upsert)).unwrap_err();
    assert!(matches!(&error, TransferError::BadInput(text) if text.contains("--rejects")), "{error}");
    assert_eq!(std::fs::read_to_string(lab.path("rejects.jsonl")).unwrap(), "of another copy\n");
}

#[test]
fn what_was_written_without_verify_is_verified_by_a_resume() {
    for harm in [false, true] {
        let mut lab = Lab { parallel: 1, ..Lab::new() };
        let text = format!(
            "{}not a record\n{}",
            lines(30_000),
            lines(60_000).lines().skip(30_000).fold(String::new(), |all, line| all + line + "\n")
        );
        let path = lab.write("a.jsonl", text);
        let (sound, dying) = dies_after(300);
        lab.copy(&files(&[&path]), &store_sink(&dying, RecordOp::Upsert)).unwrap_err();
        if harm {
            // Change documents that the first process wrote.
            let log = std::fs::read_to_string(lab.path("copy/log.jsonl")).unwrap();
            assert!(log.lines().count() > 1, "a part must be done");
            let other = Lab::new();
            let changed: String = lines(60_000)
                .lines()
                .step_by(1_000)
                .fold(String::new(), |all, line| all + &line.replace("\"n\":", "\"m\":") + "\n");
            let upserts = store_sink(&sound, RecordOp::Upsert);
            other.copy(&files(&[&other.write("x.jsonl", changed)]), &upserts).unwrap();
        }
        (lab.begin, lab.verify) = (Begin::Resume, true);
        let report = lab.copy(&files(&[&path]), &store_sink(&sound, RecordOp::Upsert)).unwrap();
        let found = report.verified.unwrap();
        assert!(found.reread > 0 && found.reread < report.splits, "{found:?}");
        assert_eq!((found.written, found.equal), (60_000, !harm), "{found:?}");
        assert_eq!(report.counts.rejected, 1);
    }
}
