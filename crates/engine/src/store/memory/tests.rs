//! What the conformance suite does not test: expiry by the session's clock, indexes that are added later, and agreement
//! with a plain map under random operations.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;

use super::{MemorySession, MemoryStore};
use crate::FakeClock;
use crate::store::{
    BatchBuf, BulkWrite, CollectionId, CollectionLayout, Durability, ErrorKind, Layout, Op, OpError, OwnedReply,
    PhaseStart, Prepare, ReadConsistency, Reply, Request, Session, SessionOptions, Store, StoreError, Token, ViewRows,
};
use storebench_study::workload::Body;

fn layout(body: Body, index: Option<&str>) -> Layout {
    let indexes = index.iter().map(|field| vec![(*field).to_owned()]).collect();
    Layout {
        collections: vec![CollectionLayout {
            name: "c".into(),
            body,
            indexes,
            existing: None,
            uses: crate::store::Uses::ALL,
        }],
    }
}

fn open(store: &MemoryStore, clock: &FakeClock) -> Result<MemorySession, StoreError> {
    let options = SessionOptions {
        durability: Durability::MEMORY,
        consistency: ReadConsistency::Strong,
        timeout: Duration::from_secs(1),
        in_flight: 1,
        clock: Arc::new(clock.clone()),
        phase_start: PhaseStart::new(),
    };
    match std::pin::pin!(store.open(&options)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(session) => session,
        Poll::Pending => panic!("memory opens at once"),
    }
}

fn call(session: &mut MemorySession, op: Op<'_>) -> Result<OwnedReply, ErrorKind> {
    let mut answer = None;
    let request = Request { collection: CollectionId(0), op, contents: true };
    session.submit(&request, Token(0), &mut |_: Token, result: Result<Reply<'_>, OpError>| {
        answer = Some(result.map(OwnedReply::from).map_err(|e| e.kind));
    });
    answer.expect("memory completes within submit")
}

fn keys(session: &mut MemorySession, op: Op<'_>) -> Vec<String> {
    let reply = call(session, op).unwrap();
    reply.as_reply().rows.unwrap().iter().map(|(key, _)| key.to_owned()).collect()
}

#[test]
fn a_document_is_gone_for_every_operation_the_moment_it_expires() {
    let (store, clock) = (MemoryStore::new(), FakeClock::new());
    store.prepare(&layout(Body::Json, Some("user")), Prepare::Fresh).unwrap();
    let mut s = open(&store, &clock).unwrap();
    let body = br#"{"user":"ann"}"#;
    let page = Op::Page { field: "user", value: "\"ann\"", limit: 9 };
    for key in ["a", "b", "c"] {
        call(&mut s, Op::Insert { key, body }).unwrap();
    }
    call(&mut s, Op::Touch { key: "a", expiry: Duration::from_nanos(100) }).unwrap();
    clock.advance_to(99);
    assert_eq!(keys(&mut s, page), ["a", "b", "c"]);
    clock.advance_to(100);
    assert_eq!(keys(&mut s, page), ["b", "c"]);
    assert_eq!(keys(&mut s, Op::Page { field: "user", value: "\"ann\"", limit: 1 }), ["b"], "it takes up no place");
    assert_eq!(keys(&mut s, Op::Prefix { prefix: "", limit: 1 }), ["b"]);
    let mut batch = BatchBuf::new();
    batch.push("a", b"");
    assert!(keys(&mut s, Op::BulkRead { keys: batch.as_batch() }).is_empty());
    for op in [
        Op::Read { key: "a" },
        Op::Replace { key: "a", body },
        Op::MergePatch { key: "a", patch: b"{}" },
        Op::CompareAndSwap { key: "a", expected: b"", body },
        Op::Touch { key: "a", expiry: Duration::from_secs(1) },
        Op::Delete { key: "a" },
    ] {
        assert_eq!(call(&mut s, op).unwrap_err(), ErrorKind::NotFound, "{op:?}");
    }
    call(&mut s, Op::Insert { key: "a", body }).unwrap();
    clock.advance_to(1_000_000);
    assert_eq!(keys(&mut s, page), ["a", "b", "c"], "the new one does not expire");
}

#[test]
fn an_index_asked_for_later_holds_what_was_stored_before() {
    let (store, clock) = (MemoryStore::new(), FakeClock::new());
    store.prepare(&layout(Body::Json, None), Prepare::Fresh).unwrap();
    let page = Op::Page { field: "user", value: "7", limit: 9 };
    let mut s = open(&store, &clock).unwrap();
    for key in ["b", "a"] {
        call(&mut s, Op::Insert { key, body: br#"{"user":7}"# }).unwrap();
    }
    assert_eq!(call(&mut s, page).unwrap_err(), ErrorKind::Refused, "no index yet");
    store.prepare(&layout(Body::Json, Some("user")), Prepare::Keep).unwrap();
    let mut s = open(&store, &clock).unwrap();
    assert_eq!(keys(&mut s, page), ["a", "b"]);
    call(&mut s, Op::Upsert { key: "a", body: br#"{"user":8}"# }).unwrap();
    assert_eq!(keys(&mut s, page), ["b"]);
    assert!(store.prepare(&layout(Body::Bytes, None), Prepare::Keep).is_err(), "JSON does not become bytes");
    assert_eq!(keys(&mut s, page), ["b"], "a refused layout changes nothing");
}

#[test]
fn what_a_collection_cannot_hold_is_refused_and_changes_nothing() {
    let (store, clock) = (MemoryStore::new(), FakeClock::new());
    assert!(matches!(open(&store, &clock), Err(StoreError::Failed(_))), "not prepared");
    store.prepare(&layout(Body::Json, Some("user")), Prepare::Fresh).unwrap();
    let mut s = open(&store, &clock).unwrap();
    call(&mut s, Op::Insert { key: "a", body: br#"{"user":1}"# }).unwrap();
    for op in [
        Op::Upsert { key: "a", body: b"not json" },
        Op::MergePatch { key: "a", patch: b"[1]" },
        Op::MergePatch { key: "a", patch: b"{" },
        Op::Page { field: "user", value: "{}", limit: 1 },
        Op::Page { field: "user", value: "oops", limit: 1 },
        Op::View { view: "a/b", rows: ViewRows::All, skip: 0, limit: 1 },
    ] {
        assert_eq!(call(&mut s, op).unwrap_err(), ErrorKind::Refused, "{op:?}");
    }
    assert_eq!(call(&mut s, Op::Read { key: "a" }).unwrap().as_reply().body, Some(&br#"{"user":1}"#[..]));

    store.prepare(&layout(Body::Counter, None), Prepare::Fresh).unwrap();
    let mut s = open(&store, &clock).unwrap();
    assert_eq!(call(&mut s, Op::Insert { key: "a", body: b"1.5" }).unwrap_err(), ErrorKind::Refused);
    call(&mut s, Op::Insert { key: "a", body: i64::MAX.to_string().as_bytes() }).unwrap();
    let one_more = Op::Counter { key: "a", delta: 1, initial: 0 };
    assert_eq!(call(&mut s, one_more).unwrap_err(), ErrorKind::Refused, "no wrap-around");
}

/// One step of the comparison with a plain map.
#[derive(Debug, Clone)]
enum Step {
    Insert(u8, u8),
    Upsert(u8, u8),
    Replace(u8, u8),
    Delete(u8),
    BulkInsert(Vec<(u8, u8)>),
    Page(u8, u32),
    Scan(u8, u8, u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (k, v) = (0..40_u8, 0..4_u8);
    let step = prop_oneof![
        (k.clone(), v.clone()).prop_map(|(k, v)| Step::Insert(k, v)),
        (k.clone(), v.clone()).prop_map(|(k, v)| Step::Upsert(k, v)),
        (k.clone(), v.clone()).prop_map(|(k, v)| Step::Replace(k, v)),
        k.clone().prop_map(Step::Delete),
        proptest::collection::vec((k.clone(), v.clone()), 0..6).prop_map(Step::BulkInsert),
        (v, 0..12_u32).prop_map(|(v, limit)| Step::Page(v, limit)),
        (k.clone(), k, 0..12_u32).prop_map(|(a, b, limit)| Step::Scan(a, b, limit)),
    ];
    proptest::collection::vec(step, 1..120)
}

fn body(v: u8) -> Vec<u8> {
    format!(r#"{{"user":{v}}}"#).into_bytes()
}

proptest! {
    #[test]
    fn agrees_with_a_plain_map(steps in steps()) {
        let (store, clock) = (MemoryStore::new(), FakeClock::new());
        store.prepare(&layout(Body::Json, Some("user")), Prepare::Fresh).unwrap();
        let mut s = open(&store, &clock).unwrap();
        let mut model: BTreeMap<String, u8> = BTreeMap::new();
        let name = |k: u8| format!("k{k}");
        for step in steps {
            match step {
                Step::Insert(k, v) => {
                    let expected = if model.contains_key(&name(k)) { Err(ErrorKind::Conflict) } else { Ok(()) };
                    prop_assert_eq!(call(&mut s, Op::Insert { key: &name(k), body: &body(v) }).map(drop), expected);
                    model.entry(name(k)).or_insert(v);
                }
                Step::Upsert(k, v) => {
                    call(&mut s, Op::Upsert { key: &name(k), body: &body(v) }).unwrap();
                    model.insert(name(k), v);
                }
                Step::Replace(k, v) => {
                    let found = model.get_mut(&name(k)).map(|old| *old = v).ok_or(ErrorKind::NotFound);
                    prop_assert_eq!(call(&mut s, Op::Replace { key: &name(k), body: &body(v) }).map(drop), found);
                }
                Step::Delete(k) => {
                    let found = model.remove(&name(k)).map(drop).ok_or(ErrorKind::NotFound);
                    prop_assert_eq!(call(&mut s, Op::Delete { key: &name(k) }).map(drop), found);
                }
                Step::BulkInsert(items) => {
                    let mut batch = BatchBuf::new();
                    let mut rejected = Vec::new();
                    for (item, (k, v)) in items.iter().enumerate() {
                        batch.push(&name(*k), &body(*v));
                        match model.entry(name(*k)) {
                            Entry::Occupied(_) => rejected.push(item),
                            Entry::Vacant(place) => { place.insert(*v); }
                        }
                    }
                    let op = Op::BulkWrite { kind: BulkWrite::Insert, items: batch.as_batch() };
                    let reply = call(&mut s, op).unwrap();
                    let got: Vec<usize> = reply.as_reply().rejects.iter().map(|reject| reject.item).collect();
                    prop_assert_eq!(got, rejected);
                }
                Step::Page(v, limit) => {
                    let value = v.to_string();
                    let got = keys(&mut s, Op::Page { field: "user", value: &value, limit });
                    let expected: Vec<String> = model.iter().filter(|(_, stored)| **stored == v)
                        .map(|(key, _)| key.clone()).take(limit as usize).collect();
                    prop_assert_eq!(got, expected);
                }
                Step::Scan(a, b, limit) => {
                    let (start, end) = (name(a), name(b));
                    let got = keys(&mut s, Op::Scan { start: &start, end: Some(&end), limit });
                    let expected: Vec<String> = model.keys().filter(|key| **key >= start && **key < end)
                        .take(limit as usize).cloned().collect();
                    prop_assert_eq!(got, expected);
                }
            }
        }
        let all = keys(&mut s, Op::Prefix { prefix: "", limit: u32::MAX });
        prop_assert!(all.iter().eq(model.keys()));
    }
}
