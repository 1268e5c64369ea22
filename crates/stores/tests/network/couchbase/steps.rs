//! Operations that take several requests: counters, and bulk writes with a key twice.

use std::sync::Arc;
use std::time::Duration;

use storebench_engine::store::{AnyStore, BatchBuf, BulkWrite, Durability, ErrorKind, Op, Prepare, SessionOptions};
use storebench_fakes::couchbase::{Fake, FakeOptions};
use storebench_study::workload::Body;

use super::{call, caller, fake, layout, options, prepared, store, three};

/// A store with one collection, of counters.
fn with_counters(fake: &Fake) -> Arc<dyn AnyStore> {
    let store = store(&fake.url());
    let mut layout = layout();
    layout.collections.remove(0);
    layout.collections[0].body = Body::Counter;
    store.prepare(&layout, Prepare::Fresh).unwrap();
    store
}

#[test]
fn an_increment_beyond_the_range_was_done() {
    let fake = fake(FakeOptions::default());
    let store = with_counters(&fake);
    let mut c = caller(&store, &options());
    let add = Op::Counter { key: "a", delta: 1, initial: i64::MAX };
    assert_eq!(call(&mut c, add).unwrap().as_reply().counter, Some(i64::MAX));
    let error = call(&mut c, add).unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutcomeUnknown, "{error}");
    let stored = fake.documents("storebench", "blobs");
    assert_eq!(stored[0].1, b"9223372036854775808");
}

/// Negative numbers, and what the server's unsigned counters cannot do, are read and written.
#[test]
fn counters_go_below_zero_and_back_whoever_else_counts() {
    let fake = three(1);
    let store = with_counters(&fake);
    let mut c = caller(&store, &options());
    let mut add = |key: &str, delta, initial| call(&mut c, Op::Counter { key, delta, initial });
    let mut value = |key: &str, delta, initial| add(key, delta, initial).unwrap().as_reply().counter.unwrap();
    assert_eq!([value("a", 1, 5), value("a", 2, 0), value("a", -10, 0), value("a", 1, 0)], [5, 7, -3, -2]);
    assert_eq!([value("b", -1, 5), value("b", -1, 5), value("c", 3, -4), value("c", 5, 0)], [5, 4, -4, 1]);
    let threads = (0..4).map(|_| {
        let store = Arc::clone(&store);
        std::thread::spawn(move || {
            let mut c = caller(&store, &options());
            (0..25).for_each(|_| drop(call(&mut c, Op::Counter { key: "d", delta: -1, initial: -1 }).unwrap()));
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(add("d", 0, 0).unwrap().as_reply().counter, Some(-100));
    let error = add("c", i64::MIN, 0).and_then(|_| add("c", i64::MIN, 0)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
}

/// As if each had been an operation of its own, in this order.
#[test]
fn the_items_of_one_key_are_written_one_after_the_other() {
    for fake in [fake(FakeOptions::default()), three(1)] {
        let store = prepared(&fake);
        let mut c = caller(&store, &options());
        let mut items = BatchBuf::new();
        for n in 0..300 {
            items.push(&format!("k{}", n % 7), format!("{{\"n\":{n}}}").as_bytes());
        }
        let write = |kind| Op::BulkWrite { kind, items: items.as_batch() };
        let inserted = call(&mut c, write(BulkWrite::Insert)).unwrap();
        let reply = inserted.as_reply();
        assert_eq!((reply.documents, reply.rejects.len()), (7, 293));
        assert!(reply.rejects.iter().all(|reject| reject.item >= 7 && reject.error.kind == ErrorKind::Conflict));
        assert_eq!(call(&mut c, write(BulkWrite::Upsert)).unwrap().as_reply().documents, 300);
        for k in 0..7 {
            let last = (0..300).rev().find(|n| n % 7 == k).unwrap();
            let read = call(&mut c, Op::Read { key: &format!("k{k}") }).unwrap();
            assert_eq!(read.as_reply().body, Some(format!("{{\"n\":{last}}}").as_bytes()));
        }
        let deleted = call(&mut c, Op::BulkDelete { keys: items.as_batch() }).unwrap();
        assert_eq!((deleted.as_reply().documents, deleted.as_reply().rejects.len()), (7, 0));
        assert_eq!(fake.documents("storebench", "documents"), []);
    }
}

/// While a durable write waits for its copies, the server refuses another one of the same document.
#[test]
fn a_bulk_write_waits_for_each_write_of_a_key_before_the_next() {
    let fake =
        fake(FakeOptions { nodes: 3, replicas: 1, durability_timeout: Duration::from_secs(60), ..Default::default() });
    let store = prepared(&fake);
    let mut c = caller(&store, &SessionOptions { durability: Durability::MAJORITY, ..options() });
    let mut items = BatchBuf::new();
    for n in 0..15 {
        items.push(&format!("k{}", n % 3), format!("{{\"n\":{n}}}").as_bytes());
    }
    (0..3).for_each(|node| fake.set_replicating(node, false));
    let reply = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            (0..3).for_each(|node| fake.set_replicating(node, true));
        });
        call(&mut c, Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() }).unwrap()
    });
    assert_eq!((reply.as_reply().documents, reply.as_reply().rejects.len()), (15, 0));
    for k in 0..3 {
        let read = call(&mut c, Op::Read { key: &format!("k{k}") }).unwrap();
        assert_eq!(read.as_reply().body, Some(format!("{{\"n\":{}}}", 12 + k).as_bytes()));
    }
}

#[test]
fn a_bucket_tells_how_it_is_set_up() {
    let fake = three(1);
    let told = prepared(&fake).own_settings().unwrap();
    let of = |name: &str| told.all.iter().find(|of| of.name == name).map(|of| of.value.as_str());
    assert_eq!((of("ramQuota"), of("replicaNumber")), (Some("256MiB"), Some("1")), "{told:?}");
    assert_eq!((told.memory_bytes, of("uuid")), (Some(768 << 20), None));
}
