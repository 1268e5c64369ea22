//! Tests records that are filtered, mapped or projected.

use storebench_engine::store::ErrorKind;

use super::faulty::{Fate, Faulty};
use super::*;

#[test]
fn what_is_read_is_written_rejected_or_skipped() {
    let store = memory();
    let lab = Lab { verify: true, ..Lab::new() };
    let text = format!("{}{{\"_id\":\"bad\",\"n\":{{}}}}\nbroken\n[1]\n", lines(5_000));
    let shape = shape()
        .with_filter(jq("._id == \"bad\" or .n % 10 == 3"))
        .with_map(jq("if .n == 13 then empty elif .n == 23 then ., . else {_id, m: (.n + 1)} end"));
    let report =
        lab.copy_shaped(&files(&[&lab.write("a.jsonl", text)]), &store_sink(&store, RecordOp::Upsert), &shape).unwrap();
    let counts = report.counts;
    assert_eq!((counts.read, counts.written, counts.rejected, counts.skipped), (5_003, 498, 4, 4_501));
    let verified = report.verified.unwrap();
    assert_eq!((verified.equal, verified.written, verified.found), (true, 498, 498));
    let wanted: String = (0..5_000)
        .filter(|n| n % 10 == 3 && ![13, 23].contains(n))
        .map(|n| format!("{{\"_id\":\"k{n:06}\",\"m\":{}}}\n", n + 1))
        .collect();
    assert_eq!(contents(&store), sorted(&wanted));
    let mut why: Vec<String> = lab.rejects().into_iter().map(|Rejected { reject, .. }| reject.why).collect();
    why.sort_unstable();
    assert!(why[0].starts_with("--map: cannot calculate {}") && why[1].contains("several outputs"), "{why:?}");
    assert!(lab.rejects().iter().any(|reject| reject.record["n"] == 23 && reject.record["_id"] == "k000023"));
}

#[test]
fn a_store_is_copied_in_part_with_its_numbers_as_they_are() {
    let (store, other) = (memory(), memory());
    let lab = Lab::new();
    let text = "{\"_id\":\"a\",\"n\":9223372036854775807,\"d\":1.10,\"x\":{\"y\":1,\"z\":2}}\n{\"_id\":\"b\",\"n\":18446744073709551615,\"d\":1e400}\n";
    lab.copy(&files(&[&lab.write("a.jsonl", text)]), &store_sink(&store, RecordOp::Upsert)).unwrap();
    let projection = Projection {
        without: Some("x.y".parse().unwrap()),
        renames: Some("d=decimal".parse().unwrap()),
        ..Projection::default()
    };
    let shape =
        shape().with_filter(jq("$key != \"c\"")).with_map(jq("._id |= ascii_upcase")).with_projection(projection);
    let lab = Lab { verify: true, ..Lab::new() };
    let report = lab.copy_shaped(&store_source(&store), &store_sink(&other, RecordOp::Upsert), &shape).unwrap();
    assert_eq!((report.counts.written, report.verified.unwrap().equal), (2, true));
    let wanted = "{\"_id\":\"A\",\"n\":9223372036854775807,\"decimal\":1.10,\"x\":{\"z\":2}}\n{\"_id\":\"B\",\"n\":18446744073709551615,\"decimal\":1e400}\n";
    assert_eq!(contents(&other), sorted(wanted));
}

#[test]
fn columns_are_those_of_what_a_map_makes() {
    let store = memory();
    let lab = Lab::new();
    lab.copy(&files(&[&lab.write("a.jsonl", lines(100))]), &store_sink(&store, RecordOp::Upsert)).unwrap();
    let source = store_source(&store);
    let shape = shape().with_filter(jq(".n < 3")).with_map(jq("{half: (.n / 2)}"));
    let infer = storebench_transfer::Infer::new(Format::Csv, Some(KEY_FIELD));
    let columns = storebench_transfer::infer_columns(&source, &source.splits(1).unwrap(), &shape, &infer).unwrap();
    let names: Vec<&str> = columns.list.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["_id", "half"]);
}

#[test]
fn a_copy_that_goes_on_counts_what_it_leaves_out_once() {
    for verb in [RecordOp::Insert, RecordOp::Counter] {
        let mut calls = 0;
        let store = Faulty::new(move |_| {
            calls += 1;
            if calls < 300 { Fate::Done } else { Fate::Fails(OpError::new(ErrorKind::Failed, "broken down")) }
        });
        let sound: Arc<dyn AnyStore> = Arc::new(store.sound());
        let faulty: Arc<dyn AnyStore> = Arc::new(store);
        let mut lab = Lab { parallel: 2, ..Lab::new() };
        let path = lab.write("a.jsonl", lines(60_000));
        let shape = || {
            let shape = shape().with_filter(jq(".n % 3 != 0"));
            if verb == RecordOp::Counter { shape.with_value("n") } else { shape }
        };
        lab.copy_shaped(&files(&[&path]), &store_sink(&faulty, verb), &shape()).unwrap_err();
        lab.begin = Begin::Resume;
        let report = lab.copy_shaped(&files(&[&path]), &store_sink(&sound, verb), &shape()).unwrap();
        let counts = report.counts;
        assert_eq!((counts.read, counts.skipped), (60_000, 20_000), "{verb:?}");
        assert_eq!(counts.written + counts.rejected, 40_000, "{verb:?}");
        // Counters that were in flight when the store broke down, or failed then.
        assert_eq!(counts.rejected, lab.rejects().len() as u64);
        if verb == RecordOp::Insert {
            assert_eq!((counts.rejected, contents(&sound).len()), (0, 40_000));
        }
    }
}
