//! Bulk inserts take shortcuts if no documents exist in their range. Whatever exists there, they store the new
//! documents and report the others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::{Ask, Scheme};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use storebench_engine::store::{AnyStore, BatchBuf, BulkWrite, CollectionLayout, ErrorKind, Layout, Op, Prepare};
use storebench_study::workload::Body;

/// The expected contents of a collection.
type Model = BTreeMap<String, Vec<u8>>;

fn body(n: u32) -> Vec<u8> {
    format!(r#"{{"user":"u{}","n":{n}}}"#, n % 3).into_bytes()
}

/// Inserts the keys, each with a distinct body, and compares the answer with the model.
fn insert(ask: &mut Ask, model: &mut Model, keys: &[String], bodies: &mut u32) {
    let mut items = BatchBuf::new();
    let (mut expected, mut written) = (Vec::new(), 0);
    for (item, key) in keys.iter().enumerate() {
        *bodies += 1;
        items.push(key, &body(*bodies));
        if model.contains_key(key) {
            expected.push((item, ErrorKind::Conflict));
        } else {
            model.insert(key.clone(), body(*bodies));
            written += 1;
        }
    }
    let op = Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() };
    let answer = ask.run(op, |reply| {
        let rejects = reply.rejects.iter().map(|reject| (reject.item, reject.error.kind));
        (reply.documents, rejects.collect::<Vec<_>>())
    });
    assert_eq!(answer, Ok((written, expected)), "{keys:?}");
}

/// Compares all stored documents, by key and by the field that may be indexed.
fn compare(ask: &mut Ask, model: &Model) {
    let scan = Op::Scan { start: "", end: None, limit: 10_000 };
    let stored = ask.run(scan, |reply| {
        let rows = reply.rows.unwrap();
        rows.iter().map(|(key, body)| (key.to_owned(), body.to_vec())).collect::<Model>()
    });
    assert_eq!(stored.as_ref(), Ok(model));
    for user in 0..3 {
        let user = format!(r#""u{user}""#);
        let part = format!(r#""user":{user}"#);
        let expected = model.iter().filter(|(_, body)| String::from_utf8_lossy(body).contains(&part));
        let expected: Vec<&str> = expected.map(|(key, _)| key.as_str()).collect();
        let page = Op::Page { field: "user", value: &user, limit: 10_000 };
        let found = ask.run(page, |reply| {
            let rows = reply.rows.unwrap();
            rows.iter().map(|(key, _)| key.to_owned()).collect::<Vec<_>>()
        });
        // A page has no defined order.
        let mut found = found.unwrap();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
}

/// Runs the test on a new store of each scheme, without and with an index.
fn everywhere(body: Body, test: impl Fn(&dyn AnyStore)) {
    for scheme in Scheme::ALL {
        for indexes in [vec![], vec![vec!["user".to_owned()]]] {
            if body != Body::Json && !indexes.is_empty() {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let store = storebench_stores::open(&scheme.url(&folder.path().join("store"))).unwrap();
            let collection = CollectionLayout {
                name: "users".into(),
                body,
                indexes,
                existing: None,
                uses: storebench_engine::store::Uses::ALL,
            };
            store.prepare(&Layout { collections: vec![collection] }, Prepare::Fresh).unwrap();
            test(&*store);
        }
    }
}

fn keys(numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
    numbers.into_iter().map(|n| format!("k{n:03}")).collect()
}

#[test]
fn ordered_batches_over_empty_and_partly_filled_ranges() {
    // The documents that exist before a batch of 100 to 139: at its ends, within it, just outside, between its keys.
    for there in [
        vec![],
        vec![100],
        vec![139],
        vec![117],
        vec![99, 140],
        vec![101, 103, 120, 138],
        (100..140).collect(),
        (90..120).collect(),
        (120..150).collect(),
    ] {
        everywhere(Body::Json, |store| {
            let (mut ask, mut model, mut bodies) = (Ask::new(store), Model::new(), 0);
            insert(&mut ask, &mut model, &keys(there.iter().copied()), &mut bodies);
            insert(&mut ask, &mut model, &keys(100..140), &mut bodies);
            compare(&mut ask, &model);
            // First odd keys, then even ones: the second batch finds documents in its range, but none with its keys.
            insert(&mut ask, &mut model, &keys((201..300).step_by(2)), &mut bodies);
            insert(&mut ask, &mut model, &keys((200..300).step_by(2)), &mut bodies);
            compare(&mut ask, &model);
        });
    }
}

#[test]
fn an_unordered_batch_conflicts_outside_of_its_first_and_last_key() {
    everywhere(Body::Json, |store| {
        let (mut ask, mut model, mut bodies) = (Ask::new(store), Model::new(), 0);
        insert(&mut ask, &mut model, &keys([7, 180]), &mut bodies);
        let unordered = std::iter::once(100).chain((0..40).rev()).chain(170..190).chain([140]);
        insert(&mut ask, &mut model, &keys(unordered), &mut bodies);
        compare(&mut ask, &model);
    });
}

#[test]
fn of_equal_keys_in_a_batch_the_first_is_stored() {
    everywhere(Body::Json, |store| {
        let (mut ask, mut model, mut bodies) = (Ask::new(store), Model::new(), 0);
        // Adjacent repeats in an otherwise ascending order; a key three times; the first key again at the end.
        insert(&mut ask, &mut model, &keys((0..20).flat_map(|n| [n, n])), &mut bodies);
        insert(&mut ask, &mut model, &keys((100..130).chain([129, 129])), &mut bodies);
        insert(&mut ask, &mut model, &keys((200..230).chain([200])), &mut bodies);
        insert(&mut ask, &mut model, &keys((229..250).rev().chain(225..250)), &mut bodies);
        compare(&mut ask, &model);
        assert_eq!(ask.read("k229").as_deref(), model.get("k229").map(Vec::as_slice));
    });
}

#[test]
fn a_document_that_was_removed_is_not_in_the_way() {
    everywhere(Body::Json, |store| {
        let (mut ask, mut model, mut bodies) = (Ask::new(store), Model::new(), 0);
        insert(&mut ask, &mut model, &keys(0..40), &mut bodies);
        let mut removed = BatchBuf::new();
        for key in keys(0..40) {
            removed.push(&key, b"");
            model.remove(&key);
        }
        assert_eq!(ask.run(Op::BulkDelete { keys: removed.as_batch() }, |reply| reply.documents), Ok(40));
        insert(&mut ask, &mut model, &keys(0..40), &mut bodies);
        compare(&mut ask, &model);
    });
}

#[test]
fn bodies_that_are_refused_are_named_beside_those_in_the_way() {
    everywhere(Body::Counter, |store| {
        let mut ask = Ask::new(store);
        ask.upsert("k005", b"5");
        let mut items = BatchBuf::new();
        for (n, key) in keys(0..40).iter().enumerate() {
            items.push(key, if n % 10 == 3 { b"not a number" } else { b"77" });
        }
        let op = Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() };
        let rejects = ask.run(op, |reply| {
            assert_eq!(reply.documents, 40 - 5);
            reply.rejects.iter().map(|reject| (reject.item, reject.error.kind)).collect::<Vec<_>>()
        });
        let refused = ErrorKind::Refused;
        let expected = [(3, refused), (5, ErrorKind::Conflict), (13, refused), (23, refused), (33, refused)];
        assert_eq!(rejects.unwrap(), expected);
        assert_eq!(ask.read("k005").unwrap(), b"5");
        assert_eq!(ask.read("k039").unwrap(), b"77");
    });
}

#[test]
fn any_batches_give_what_a_map_gives() {
    everywhere(Body::Json, |store| {
        let (mut ask, mut model, mut bodies) = (Ask::new(store), Model::new(), 0);
        let mut case = 0;
        let mut runner = TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
        let batch = (prop::collection::vec(0..80_u32, 1..50), any::<bool>(), any::<bool>());
        let batches = prop::collection::vec(batch, 1..5);
        // One session runs all cases in turn. Each case has its own keys.
        let shared = std::cell::RefCell::new((&mut ask, &mut model, &mut bodies, &mut case));
        runner
            .run(&batches, |batches| {
                let (ask, model, bodies, case) = &mut *shared.borrow_mut();
                **case += 1;
                for (mut numbers, sorted, distinct) in batches {
                    if sorted {
                        numbers.sort_unstable();
                    }
                    if distinct {
                        numbers.dedup();
                    }
                    let keys: Vec<String> = numbers.iter().map(|n| format!("{case:04}/{n:02}")).collect();
                    insert(ask, model, &keys, bodies);
                }
                Ok(())
            })
            .unwrap();
        assert!(case >= 24);
        compare(&mut ask, &model);
    });
}

#[test]
fn of_writers_of_the_same_keys_one_wins_each() {
    everywhere(Body::Json, |store| {
        let written = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let written = &written;
                scope.spawn(move || {
                    let mut ask = Ask::new(store);
                    for batch in 0..20 {
                        // Overlapping ranges: three writers insert in bulk, and the fourth one by one.
                        let keys = keys((batch * 20..batch * 20 + 40).filter(|n| n % 7 != writer));
                        if writer == 3 {
                            for key in keys {
                                let stored = ask.run(Op::Insert { key: &key, body: &body(writer) }, |_| ());
                                written.fetch_add(u32::from(stored.is_ok()), Ordering::Relaxed);
                            }
                            continue;
                        }
                        let mut items = BatchBuf::new();
                        keys.iter().for_each(|key| items.push(key, &body(writer)));
                        let op = Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() };
                        let stored = ask.run(op, |reply| {
                            assert_eq!(reply.documents as usize + reply.rejects.len(), keys.len());
                            reply.documents
                        });
                        written.fetch_add(stored.unwrap(), Ordering::Relaxed);
                    }
                });
            }
        });
        // If two inserts of one key were acknowledged, the sum would exceed the number of documents.
        let scan = Op::Scan { start: "", end: None, limit: 10_000 };
        let there = Ask::new(store).run(scan, |reply| reply.documents).unwrap();
        assert_eq!(written.into_inner(), there);
        assert_eq!(there, 420);
    });
}
