//! Tests reading back what was written.

use storebench_engine::store::ErrorKind;
use storebench_transfer::Verification;

use super::faulty::{Fate, Faulty};
use super::*;

fn verifying() -> Lab {
    Lab { verify: true, ..Lab::new() }
}

fn verified(lab: &Lab, source: &dyn Source, sink: &dyn Sink) -> (CopyReport, Verification) {
    let report = lab.copy(source, sink).unwrap();
    let verified = report.verified.clone().unwrap();
    (report, verified)
}

#[test]
fn what_is_right_is_found_right_beside_what_was_there_before() {
    let store = memory();
    let lab = verifying();
    let before: String = (0..500).map(|n| format!("{{\"_id\":\"other{n}\"}}\n")).collect();
    lab.copy(&files(&[&lab.write("before.jsonl", before)]), &store_sink(&store, RecordOp::Upsert)).unwrap();
    let (_, found) =
        verified(&lab, &files(&[&lab.write("a.jsonl", lines(9_000))]), &store_sink(&store, RecordOp::Upsert));
    assert_eq!((found.equal, found.written, found.found, found.unequal_buckets), (true, 9_000, 9_000, 0));
    assert!(!lab.path("copy/written-2").exists());
    for name in ["out.jsonl", "out.jsonl.zst"] {
        let (_, found) = verified(&verifying(), &store_source(&store), &file_sink(&lab, name));
        assert_eq!((found.equal, found.written, found.found), (true, 9_500, 9_500));
    }
}

#[test]
fn lost_and_changed_documents_are_named() {
    // Acknowledges one batch without storing it.
    let mut calls = 0;
    let store = Faulty::new(move |request| {
        calls += usize::from(matches!(request.op, Op::BulkWrite { .. }));
        if calls == 3 { Fate::Lies } else { Fate::Done }
    });
    let sound: Arc<dyn AnyStore> = Arc::new(store.sound());
    let faulty: Arc<dyn AnyStore> = Arc::new(store);
    let lab = verifying();
    let (report, found) =
        verified(&lab, &files(&[&lab.write("a.jsonl", lines(2_000))]), &store_sink(&faulty, RecordOp::Upsert));
    assert_eq!(report.counts.written, 2_000);
    assert_eq!((found.equal, found.written, found.found, found.differing.len()), (false, 2_000, 1_900, 20));
    assert!(found.differing.iter().all(|key| key.what == "is missing"), "{found:?}");
    let there = contents(&sound);
    assert!(found.differing.iter().all(|key| !there.iter().any(|line| line.contains(&key.key))));
}

#[test]
fn a_key_that_was_written_twice_is_no_loss() {
    let lab = verifying();
    let text = format!("{}{{\"_id\":\"k000007\",\"n\":\"other\"}}\n{}", lines(3_000), lines(10));
    let (_, found) = verified(&lab, &files(&[&lab.write("a.jsonl", text)]), &store_sink(&memory(), RecordOp::Upsert));
    assert_eq!((found.equal, found.written_twice), (true, 1), "{found:?}");
}

#[test]
fn what_was_deleted_is_gone() {
    let store = memory();
    let lab = verifying();
    let path = lab.write("a.jsonl", lines(1_000));
    lab.copy(&files(&[&path]), &store_sink(&store, RecordOp::Upsert)).unwrap();
    let (_, found) = verified(&lab, &files(&[&path]), &store_sink(&store, RecordOp::Delete));
    assert_eq!((found.equal, found.found), (true, 0));
    let faulty: Arc<dyn AnyStore> = Arc::new(Faulty::new(|request| match request.op {
        Op::BulkDelete { .. } => Fate::Lies,
        _ => Fate::Done,
    }));
    lab.copy(&files(&[&path]), &store_sink(&faulty, RecordOp::Upsert)).unwrap();
    let (_, found) = verified(&lab, &files(&[&path]), &store_sink(&faulty, RecordOp::Delete));
    assert!(!found.equal && found.differing[0].what == "is still there", "{found:?}");
}

#[test]
fn a_copy_that_went_on_is_verified_as_a_whole() {
    let mut calls = 0;
    let store = Faulty::new(move |_| {
        calls += 1;
        if calls < 400 { Fate::Done } else { Fate::Fails(OpError::new(ErrorKind::Failed, "broken down")) }
    });
    let sound: Arc<dyn AnyStore> = Arc::new(store.sound());
    let faulty: Arc<dyn AnyStore> = Arc::new(store);
    let mut lab = verifying();
    let path = lab.write("a.jsonl", lines(50_000));
    lab.copy(&files(&[&path]), &store_sink(&faulty, RecordOp::Upsert)).unwrap_err();
    lab.begin = Begin::Resume;
    let (report, found) = verified(&lab, &files(&[&path]), &store_sink(&sound, RecordOp::Upsert));
    assert!(report.before.written > 0 && report.before.written < 50_000);
    assert_eq!((found.equal, found.written, found.found), (true, 50_000, 50_000));
}

#[test]
fn what_cannot_be_told_is_refused_before_anything_is_written() {
    let store = memory();
    let lab = verifying();
    let error =
        lab.copy(&files(&[&lab.write("a.jsonl", lines(1))]), &store_sink(&store, RecordOp::Append)).unwrap_err();
    assert!(error.to_string().contains("--op append"), "{error}");
    assert!(!lab.path("copy/log.jsonl").exists());
}

#[test]
fn what_could_not_be_read_for_now_is_not_missing() {
    for (kind, passes) in [(ErrorKind::Temporary, true), (ErrorKind::Failed, false)] {
        let mut reads = 0;
        let faulty: Arc<dyn AnyStore> = Arc::new(Faulty::new(move |request| match request.op {
            Op::BulkRead { .. } => {
                reads += 1;
                let failing = if reads < 3 { vec![(1, OpError::new(kind, "no node has it"))] } else { Vec::new() };
                Fate::Rejects(failing)
            }
            _ => Fate::Done,
        }));
        let lab = verifying();
        let copied = lab.copy(&files(&[&lab.write("a.jsonl", lines(3))]), &store_sink(&faulty, RecordOp::Upsert));
        match copied {
            Ok(report) => assert!(passes && report.verified.as_ref().is_some_and(|v| v.equal), "{report:?}"),
            Err(error) => assert!(!passes && error.to_string().contains("no node has it"), "{error}"),
        }
    }
}

/// Every way to name the key and to carry it in a file: what is written is what is compared.
#[test]
fn a_sound_copy_is_verified_by_every_key_rule_format_and_projection() {
    use storebench_transfer::{Infer, infer_columns};

    let text = concat!(
        r#"{"_id":"a","id":"1","v":1,"t":"x"}"#,
        "\n",
        r#"{"id":"2","_id":"b","v":{"_id":"inner"},"t":"_id"}"#,
        "\n",
        r#"{"v":3,"t":"\u005fid","\u005fid":"c","id":"3"}"#,
        "\n",
    );
    let lab = Lab::new();
    let lines = lab.write("s.jsonl", text);
    let shape = |rule: Option<&str>| Shape::new(rule.map(|rule| rule.parse().unwrap()), "test");
    let infer = |source: &dyn Source, shape: &Shape, format, field| {
        infer_columns(source, &source.splits(1).unwrap(), shape, &Infer::new(format, Some(field))).unwrap()
    };
    let sink = |lab: &Lab, name: &str, columns, field: &str| {
        let folder = name.ends_with('/');
        FileSink::open(FileSinkOptions {
            place: Some(lab.path(name).into()),
            folder,
            parts: lab.path(&format!(".{name}.parts")),
            format: Format::of_name(name.trim_end_matches('/')),
            columns,
            packing: Packing::of_name(name),
            key_field: Some(field.to_owned()),
            fresh: true,
            replace: true,
        })
        .unwrap()
    };
    // The same records in a table, and in a store.
    let columns = infer(&files(&[&lines]), &shape(None), Format::Parquet, "_id");
    lab.copy(&files(&[&lines]), &sink(&lab, "s.parquet", columns, "_id")).unwrap();
    let store = memory();
    lab.copy(&files(&[&lines]), &store_sink(&store, RecordOp::Upsert)).unwrap();
    let table = lab.path("s.parquet");
    let sources: [&dyn Source; 3] = [&files(&[&lines]), &files(&[&table]), &store_source(&store)];
    let projections = [
        Projection::default(),
        Projection { without: Some("_id".parse().unwrap()), ..Projection::default() },
        Projection { only: Some("v,_id".parse().unwrap()), ..Projection::default() },
        Projection { renames: Some("_id=old".parse().unwrap()), ..Projection::default() },
        Projection { renames: Some("id=_id,_id=id".parse().unwrap()), ..Projection::default() },
        Projection { renames: Some("v=key".parse().unwrap()), ..Projection::default() },
    ];
    let mut whole = 0;
    for (number, source) in sources.into_iter().enumerate() {
        for rule in [None, Some("_id"), Some("{_id}"), Some("x{_id}"), Some("id"), Some("{id}"), Some("{seq}")] {
            for projection in &projections {
                let is_whole = *projection == Projection::default();
                let names = if is_whole { &["o.jsonl", "o.parquet", "o.json", "o.jsonl/"][..] } else { &["o.jsonl"] };
                for field in if is_whole { &["_id", "id", "key", "a\"b/é"][..] } else { &["_id"] } {
                    for name in if *field == "_id" { names } else { &names[..2] } {
                        let case = format!("source {number}, {rule:?}, {projection:?}, {field}, {name}");
                        let lab = Lab { parallel: 1, ..verifying() };
                        let shape = shape(rule).with_projection(projection.clone());
                        let format = Format::of_name(name.trim_end_matches('/'));
                        let columns = if format.has_columns() {
                            infer(source, &shape, format, field)
                        } else {
                            Columns::default()
                        };
                        let report = lab.copy_shaped(source, &sink(&lab, name, columns, field), &shape);
                        let report = report.unwrap_or_else(|e| panic!("{case}: {e}"));
                        assert_eq!(report.counts.written + report.counts.rejected, report.counts.read, "{case}");
                        assert!(report.verified.as_ref().unwrap().equal, "{case}: {report:?}");
                        whole += usize::from(report.counts.written == 3);
                    }
                }
                let shape = shape(rule).with_projection(projection.clone());
                let report = verifying().copy_shaped(source, &store_sink(&memory(), RecordOp::Upsert), &shape);
                let is_sound = report.as_ref().is_ok_and(|r| r.verified.as_ref().unwrap().equal);
                assert!(is_sound, "source {number}, {rule:?}, {projection:?}, into a store: {report:?}");
            }
        }
    }
    // So that the test does not pass by rejecting everything.
    assert!(whole > 150, "{whole}");
}
