//! Tests sources in which a key comes more than once: its records are applied in the order of the source.

use storebench_engine::store::{ErrorKind, SameKeys};

use super::faulty::{Fate, Faulty};
use super::*;

const RECORDS: usize = 3_000;
const KEYS: usize = 70;

/// Records over a few keys, each with its number.
fn hot(records: usize) -> String {
    (0..records).map(|n| format!("{{\"_id\":\"k{:02}\",\"n\":{n}}}\n", n % KEYS)).collect()
}

/// The document of each key, as `contents` lists it.
fn with(number: impl Fn(usize) -> usize) -> Vec<String> {
    (0..KEYS).map(|key| format!("{{\"_id\":\"k{key:02}\",\"n\":{}}}", number(key))).collect()
}

fn last_of(records: usize) -> Vec<String> {
    with(|key| (records - 1 - key) / KEYS * KEYS + key)
}

/// A store that is often busy: for whole requests, for single records of one, and in silence.
fn busy() -> Faulty {
    let mut calls = 0_usize;
    Faulty::new(move |request| {
        let late = || OpError::new(ErrorKind::Temporary, "busy");
        let items = match request.op {
            Op::BulkWrite { items, .. } => items.len(),
            _ => 1,
        };
        calls += 1;
        match calls % 6 {
            1 => Fate::Late,
            2 => Fate::Fails(late()),
            3 if items > 1 => Fate::Rejects((0..items).step_by(3).map(|item| (item, late())).collect()),
            _ => Fate::Done,
        }
    })
}

/// Copies the records to a store that is busy. Returns the result and what it holds.
fn copied(verb: RecordOp, lab: &Lab, text: &str) -> (CopyReport, Vec<String>) {
    let faulty = busy();
    let sound: Arc<dyn AnyStore> = Arc::new(faulty.sound());
    let store: Arc<dyn AnyStore> = Arc::new(faulty);
    if verb == RecordOp::Replace {
        let before = Lab::new();
        let first = before.write("before.jsonl", hot(KEYS));
        before.copy(&files(&[&first]), &store_sink(&sound, RecordOp::Upsert)).unwrap();
    }
    let report = lab.copy(&files(&[&lab.write("a.jsonl", text)]), &store_sink(&store, verb)).unwrap();
    (report, contents(&sound))
}

#[test]
fn the_last_record_of_a_key_stands_though_requests_are_tried_again() {
    for verb in [RecordOp::Upsert, RecordOp::Replace] {
        let lab = Lab { verify: true, ..Lab::new() };
        let (report, holds) = copied(verb, &lab, &hot(RECORDS));
        assert_eq!(holds, last_of(RECORDS), "{verb:?}");
        let verified = report.verified.unwrap();
        assert_eq!((verified.equal, verified.written_twice), (true, KEYS as u64), "{verb:?}: {verified:?}");
        assert_eq!(report.counts.written, RECORDS as u64);
    }
}

#[test]
fn of_inserts_the_first_record_of_a_key_stands() {
    let (report, holds) = copied(RecordOp::Insert, &Lab::new(), &hot(RECORDS));
    assert_eq!(holds, with(|key| key));
    assert_eq!((report.counts.written, report.counts.rejected), (KEYS as u64, (RECORDS - KEYS) as u64));
}

#[test]
fn what_is_appended_comes_in_the_order_of_the_source() {
    let faulty = busy();
    let sound = faulty.sound();
    let store: Arc<dyn AnyStore> = Arc::new(faulty);
    let lab = Lab::new();
    let sink = store_sink(&store, RecordOp::Append);
    let mut call = caller(&sound);
    for key in 0..5 {
        call(Op::Upsert { key: &format!("k{key}"), body: b"" }).unwrap();
    }
    let text: String = (0..700).map(|n| format!("{{\"_id\":\"k{}\",\"n\":{n}}}\n", n % 5)).collect();
    let report = lab.copy(&files(&[&lab.write("a.jsonl", text)]), &sink).unwrap();
    assert_eq!((report.counts.written, report.counts.rejected), (700, 0));
    for key in 0..5 {
        let reply = call(Op::Read { key: &format!("k{key}") }).unwrap();
        let text = String::from_utf8_lossy(reply.as_reply().body.unwrap()).into_owned();
        let expected: String = (0..700).skip(key).step_by(5).map(|n| format!("{{\"n\":{n}}}")).collect();
        assert_eq!(text, expected);
    }
}

#[test]
fn keys_that_a_store_takes_for_one_keep_their_order_too() {
    let mut calls = 0;
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    let store: Arc<dyn AnyStore> = Arc::new(
        Faulty::new(move |request| {
            let Op::BulkWrite { items, .. } = request.op else { return Fate::Done };
            calls += 1;
            let busy = calls % 2 == 1;
            let taken = items.iter().skip(usize::from(busy));
            seen.lock().unwrap().extend(taken.map(|(_, body)| String::from_utf8_lossy(body).into_owned()));
            let error = OpError::new(ErrorKind::Temporary, "busy");
            if busy { Fate::Rejects(vec![(0, error)]) } else { Fate::Done }
        })
        .taking(SameKeys::AnyCase),
    );
    let text: String = ["k", "K"]
        .iter()
        .cycle()
        .take(40)
        .enumerate()
        .fold(String::new(), |text, (n, key)| format!("{text}{{\"_id\":\"{key}\",\"n\":{n}}}\n"));
    let lab = Lab { parallel: 1, ..Lab::new() };
    lab.copy(&files(&[&lab.write("a.jsonl", text)]), &store_sink(&store, RecordOp::Upsert)).unwrap();
    let expected: Vec<String> = (0..40).map(|n| format!("{{\"n\":{n}}}")).collect();
    assert_eq!(*order.lock().unwrap(), expected);
}

#[test]
fn an_earlier_record_of_a_key_is_told_by_reading_back() {
    // Acknowledges the last records of a few keys without storing them.
    let store: Arc<dyn AnyStore> = Arc::new(Faulty::new(|request| match request.op {
        Op::BulkWrite { items, .. } if items.iter().any(|(_, body)| body == b"{\"n\":699}") => Fate::Lies,
        _ => Fate::Done,
    }));
    let lab = Lab { verify: true, ..Lab::new() };
    let text: String = (0..700).map(|n| format!("{{\"_id\":\"k{}\",\"n\":{n}}}\n", n % 7)).collect();
    let path = lab.write("a.jsonl", text);
    let report = lab.copy(&files(&[&path]), &store_sink(&store, RecordOp::Upsert)).unwrap();
    let verified = report.verified.unwrap();
    assert!(!verified.equal, "{verified:?}");
    assert!(verified.differing.iter().any(|differing| differing.key == "k6"), "{verified:?}");
    let what = "holds an earlier record of this key, not the last one";
    assert!(verified.differing.iter().all(|differing| differing.what == what), "{verified:?}");
}

#[test]
fn one_worker_takes_the_parts_in_order_and_several_say_that_they_do_not() {
    let text =
        |from: usize| (0..KEYS).map(|n| format!("{{\"_id\":\"k{n:02}\",\"n\":{}}}\n", n + from)).collect::<String>();
    for parallel in [1, 3] {
        let lab = Lab { parallel, verify: true, ..Lab::new() };
        let paths: Vec<PathBuf> = (0..6).map(|n| lab.write(&format!("{n}.jsonl"), text(n * 100))).collect();
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let store = memory();
        let report = lab.copy(&files(&paths), &store_sink(&store, RecordOp::Upsert)).unwrap();
        let verified = report.verified.unwrap();
        assert!(verified.equal, "{verified:?}");
        assert_eq!(report.repeated_keys.unwrap().in_order, parallel == 1);
        if parallel == 1 {
            assert_eq!(contents(&store), with(|key| key + 500));
        }
    }
}

#[test]
fn with_one_worker_the_last_part_is_the_one_that_stands() {
    for parallel in [1, 2] {
        // Acknowledges the second part without storing it.
        let store: Arc<dyn AnyStore> = Arc::new(Faulty::new(|request| match request.op {
            Op::BulkWrite { items, .. } if items.iter().any(|(_, body)| body == b"{\"n\":2}") => Fate::Lies,
            _ => Fate::Done,
        }));
        let lab = Lab { parallel, verify: true, ..Lab::new() };
        let paths = [1, 2].map(|n| lab.write(&format!("{n}.jsonl"), format!("{{\"_id\":\"a\",\"n\":{n}}}\n")));
        let source = files(&paths.each_ref().map(PathBuf::as_path));
        let verified = lab.copy(&source, &store_sink(&store, RecordOp::Upsert)).unwrap().verified.unwrap();
        assert_eq!(verified.equal, parallel > 1, "{verified:?}");
    }
}

#[test]
fn documents_that_a_store_lists_have_no_order() {
    let (from, to) = (memory(), memory());
    let text: String = (0..500).map(|n| format!("{{\"_id\":\"k{n:03}\",\"kind\":\"book\",\"n\":{n}}}\n")).collect();
    let lab = Lab::new();
    lab.copy(&files(&[&lab.write("a.jsonl", text)]), &store_sink(&from, RecordOp::Upsert)).unwrap();
    let other = Lab { verify: true, ..Lab::new() };
    let by_kind = Shape::new(Some("{kind}".parse().unwrap()), "test");
    let report = other.copy_shaped(&store_source(&from), &store_sink(&to, RecordOp::Upsert), &by_kind).unwrap();
    let verified = report.verified.unwrap();
    assert_eq!((verified.equal, verified.written_twice), (true, 1), "{verified:?}");
}
