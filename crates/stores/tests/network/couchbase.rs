//! Tests of the `couchbase` driver with a fake cluster, because Couchbase Server was not available.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use storebench_engine::store::{
    Acknowledged, AnyStore, Batch, BatchBuf, BulkWrite, CollectionId, CollectionLayout, CopyId, Durability,
    DurabilityRequest, ErrorKind, Existing, Layout, Namespace, Op, OpError, OpKind, OwnedReply, Persisted, PhaseStart,
    Prepare, ReadConsistency, Request, SessionOptions, StoreError, ViewRows,
};
use storebench_engine::{Caller, RealClock};
use storebench_fakes::certificates::{BOTH, CA};
use storebench_fakes::couchbase::{Fake, FakeOptions, Garbage, Lacks, QueryService, Tls};
use storebench_study::workload::Body;

use crate::server;

const DOCUMENTS: CollectionId = CollectionId(0);
/// The caller's error for an operation that timed out.
const NO_ANSWER: &str = "no answer within the timeout";

pub(crate) fn fake(options: FakeOptions) -> Fake {
    Fake::start(options).unwrap()
}

/// Three nodes with this number of replicas of each document.
pub(crate) fn three(replicas: usize) -> Fake {
    fake(FakeOptions { nodes: 3, replicas, durability_timeout: Duration::from_millis(300), ..FakeOptions::default() })
}

fn store(url: &str) -> Arc<dyn AnyStore> {
    storebench_stores::open(url).unwrap()
}

fn layout() -> Layout {
    let collection = |name: &str, body, indexes| CollectionLayout {
        name: name.into(),
        body,
        indexes,
        existing: None,
        uses: storebench_engine::store::Uses::ALL,
    };
    Layout {
        collections: vec![
            collection("documents", Body::Json, vec![vec!["user".to_owned()]]),
            collection("blobs", Body::Bytes, vec![]),
        ],
    }
}

fn prepared(fake: &Fake) -> Arc<dyn AnyStore> {
    let store = store(&fake.url());
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    store
}

mod in_flight;
mod steps;

fn options() -> SessionOptions {
    SessionOptions {
        durability: Durability::MEMORY,
        consistency: ReadConsistency::Strong,
        timeout: Duration::from_secs(10),
        in_flight: 64,
        clock: Arc::new(RealClock::new()),
        phase_start: PhaseStart::new(),
    }
}

fn caller(store: &Arc<dyn AnyStore>, options: &SessionOptions) -> Caller {
    Caller::open(&**store, options).unwrap()
}

fn call(caller: &mut Caller, op: Op<'_>) -> Result<OwnedReply, OpError> {
    let mut answer = None;
    caller.call(&Request { collection: DOCUMENTS, op, contents: true }, |result| {
        answer = Some(result.map(OwnedReply::from));
    });
    answer.expect("every call is answered")
}

fn upsert(caller: &mut Caller, key: &str) -> Result<OwnedReply, OpError> {
    call(caller, Op::Upsert { key, body: br#"{"user":"ann"}"# })
}

/// Upserts until one neither fails as *temporary* nor times out. Operations passed to the client for a node that then
/// leaves the cluster end at their timeout.
fn settled_upsert(caller: &mut Caller, key: &str) -> Result<OwnedReply, OpError> {
    loop {
        match upsert(caller, key) {
            Err(error) if error.message == NO_ANSWER => {}
            Err(error) if error.kind == ErrorKind::Temporary => std::thread::sleep(Duration::from_millis(5)),
            answer => return answer,
        }
    }
}

#[test]
fn a_bulk_larger_than_what_is_in_flight_at_once_ends() {
    for fake in [fake(FakeOptions::default()), three(1)] {
        let store = prepared(&fake);
        let mut c = caller(&store, &options());
        let mut items = BatchBuf::new();
        (0..2_000).for_each(|i| items.push(&format!("key-{i}"), b"{\"user\":\"ann\"}"));
        let write = Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() };
        assert_eq!(call(&mut c, write).unwrap().as_reply().documents, 2_000);
        let read = call(&mut c, Op::BulkRead { keys: items.as_batch() }).unwrap();
        assert_eq!(read.as_reply().rows.map(|rows| rows.len()), Some(2_000));
        assert_eq!(call(&mut c, Op::BulkDelete { keys: items.as_batch() }).unwrap().as_reply().documents, 2_000);
        assert_eq!(fake.documents("storebench", "documents"), []);
    }
}

#[test]
fn compressed_documents_come_back() {
    let fake = fake(FakeOptions::default());
    let store = store(&format!("{}?compression=snappy", fake.url()));
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let mut c = caller(&store, &options());
    let body = format!("{{\"text\":\"{}\"}}", "again and ".repeat(100));
    call(&mut c, Op::Upsert { key: "a", body: body.as_bytes() }).unwrap();
    assert_eq!(call(&mut c, Op::Read { key: "a" }).unwrap().as_reply().body, Some(body.as_bytes()));
    assert_eq!(fake.documents("storebench", "documents"), [("a".to_owned(), body.into_bytes())]);
    assert_eq!(fake.compressed(), 1);
    call(&mut c, Op::Upsert { key: "b", body: b"{}" }).unwrap();
    assert_eq!(call(&mut c, Op::Read { key: "b" }).unwrap().as_reply().body, Some(&b"{}"[..]));
    assert_eq!(fake.compressed(), 1, "too short");

    let (_fake, store) = lacking(Lacks { snappy: true, ..Lacks::default() }, "?compression=snappy");
    let error = store.prepare(&layout(), Prepare::Fresh).unwrap_err();
    assert!(matches!(&error, StoreError::NotSupported(text) if text.contains("leave out compression")), "{error:?}");
}

/// The port of a service that answers each connection as a web server answers what it cannot read.
fn another_service() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
            let _ = stream.read(&mut [0; 64]);
        }
    });
    port
}

#[test]
fn what_cannot_be_reached_is_named_with_a_remedy_and_without_the_password() {
    let fake = fake(FakeOptions { password: "right-secret".into(), ..FakeOptions::default() });
    let url = fake.url();
    let port = url.rsplit(':').next().unwrap().split('/').next().unwrap().to_owned();
    let http = fake.management_url().rsplit(':').next().unwrap().to_owned();
    let cases = [
        (url.replace("right-secret", "wrong-secret"), "password"),
        (url.replace("storebench:", "somebody:"), "somebody"),
        (format!("{}x", url), "no bucket `defaultx`"),
        (url.replace(&port, &http), "Couchbase data service"),
        (url.replace(&port, &another_service().to_string()), "is not a Couchbase data service: its answer is invalid"),
        (url.replace(&port, &server::free_port().to_string()), "nothing is listening"),
        (url.replace("couchbase:", "couchbases:"), "TLS"),
    ];
    for (url, says) in cases {
        let error = store(&url).inspect().unwrap_err();
        assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(says), "`{says}` is missing: {text}");
        assert!(!text.contains("-secret"), "{text}");
    }
    assert!(!store(&url).describe().url.contains("secret"));
}

#[test]
fn urls_that_cannot_work_are_refused_without_contact() {
    for url in [
        "couchbase://user:p@127.0.0.1:1",
        "couchbase://user:p@127.0.0.1:1/bucket/more",
        "couchbase://127.0.0.1:1/bucket",
        "couchbase://user:p@127.0.0.1:1/bucket?scope=_system",
        "couchbase://user:p@127.0.0.1:1/bucket?keys=some",
        "couchbase://user:p@127.0.0.1:1/bucket?tls_ca=/x",
        "couchbases://user:p@127.0.0.1:1/bucket?tls_name=x",
    ] {
        let Err(error) = storebench_stores::open(url) else { panic!("{url} was accepted") };
        assert!(matches!(error, StoreError::BadUrl(_)), "{url}: {error:?}");
    }
}

/// A fake that lacks something, and the store on it.
fn lacking(lacks: Lacks, options: &str) -> (Fake, Arc<dyn AnyStore>) {
    let fake = fake(FakeOptions { version: "6.0.5-0000-fake".into(), lacks, ..FakeOptions::default() });
    let store = store(&format!("{}{options}", fake.url()));
    (fake, store)
}

fn writes_and_reads(store: &Arc<dyn AnyStore>) -> Caller {
    let mut c = caller(store, &options());
    upsert(&mut c, "a").unwrap();
    assert_eq!(call(&mut c, Op::Read { key: "a" }).unwrap().as_reply().body, Some(&br#"{"user":"ann"}"#[..]));
    c
}

#[test]
fn without_writes_that_keep_an_expiry_only_what_needs_them_is_refused() {
    let (_fake, store) = lacking(Lacks { keeping_expiry: true, ..Lacks::default() }, "");
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let mut c = writes_and_reads(&store);
    let can = store.capabilities();
    for kind in [OpKind::MergePatch, OpKind::Counter] {
        assert_eq!(can.supports(kind), None);
        assert!(can.lacks(kind).contains("lacks writes that keep an expiry"), "{}", can.lacks(kind));
    }
    assert!(can.supports(OpKind::CompareAndSwap).is_some());
    assert!(can.guarantees(Durability::FSYNC).is_some());
    let merged = call(&mut c, Op::MergePatch { key: "a", patch: b"{\"n\":1}" });
    assert_eq!(merged.unwrap_err().kind, ErrorKind::Refused);
    writes_and_reads(&store);
}

#[test]
fn without_durable_writes_only_they_are_refused() {
    let (_fake, store) = lacking(Lacks { durable_writes: true, ..Lacks::default() }, "");
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let mut c = writes_and_reads(&store);
    call(&mut c, Op::MergePatch { key: "a", patch: b"{\"n\":1}" }).unwrap();
    let refused = store.capabilities().durability_for(DurabilityRequest::AtLeast(Durability::MAJORITY)).unwrap_err();
    assert!(refused.contains("lacks durable writes"), "{refused}");
    let durable = SessionOptions { durability: Durability::MAJORITY, ..options() };
    let Err(error) = Caller::open(&*store, &durable) else { panic!("a session with durability opened") };
    assert!(error.to_string().contains("lacks durable writes"), "{error}");
}

#[test]
fn without_collections_the_default_one_can_be_used() {
    let all = Lacks { collections: true, durable_writes: true, keeping_expiry: true, ..Lacks::default() };
    for lacks in [Lacks { collections: true, ..Lacks::default() }, all] {
        let (fake, store) = lacking(lacks, "");
        assert_eq!(store.inspect().unwrap(), Namespace::Absent);
        assert_eq!(store.collections().unwrap(), ["_default"]);
        let existing = |name: &str| {
            let existing = Some(Existing { name: name.into(), key: None, body: None });
            let one = layout().collections.swap_remove(0);
            Layout { collections: vec![CollectionLayout { existing, indexes: Vec::new(), ..one }] }
        };
        for (layout, how) in [
            (layout(), Prepare::Fresh),
            (layout(), Prepare::Copy(CopyId(1))),
            (existing("other"), Prepare::WriteExisting),
            (existing("scope._default"), Prepare::ReadOnly),
        ] {
            let Err(StoreError::NotSupported(text)) = store.prepare(&layout, how) else { panic!("{how:?}") };
            assert!(text.contains("lacks collections") && text.contains("`_default`"), "{text}");
        }
        store.prepare(&existing("_default"), Prepare::WriteExisting).unwrap();
        writes_and_reads(&store);
        assert_eq!(fake.documents("_default", "_default").len(), 1);
        assert_eq!(store.capabilities().supports(OpKind::Page), None);
    }
}

#[test]
fn tls_is_checked_against_the_authority_and_the_name() {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(BOTH.pem.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(BOTH.key.as_bytes()).unwrap(),
        )
        .unwrap();
    let fake = fake(FakeOptions { tls: Some(Tls(Arc::new(config))), ..FakeOptions::default() });
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, CA).unwrap();
    let url = fake.tls_url().unwrap();
    let trusted = format!("{url}?tls_ca={}", ca.display());

    let error = store(&url).inspect().unwrap_err();
    assert!(matches!(&error, StoreError::Unreachable(text) if text.contains("tls_ca")), "{error:?}");
    let store = store(&trusted);
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    upsert(&mut caller(&store, &options()), "a").unwrap();
    assert_eq!(fake.documents("storebench", "documents").len(), 1);
}

#[test]
fn what_others_made_is_neither_written_nor_removed() {
    let fake = fake(FakeOptions::default());
    fake.put_foreign("storebench", "theirs", "key", b"precious");
    let store = store(&fake.url());
    assert!(matches!(store.inspect().unwrap(), Namespace::Foreign(text) if text.contains("`storebench`")));
    for how in [Prepare::Fresh, Prepare::Keep] {
        assert!(matches!(store.prepare(&layout(), how), Err(StoreError::NotOurs(_))), "{how:?}");
    }
    store.remove().unwrap();
    assert_eq!(fake.collections(), ["_default._default", "storebench.theirs"]);

    // With permission, Storebench writes next to existing data, and removes only its own.
    store.prepare(&layout(), Prepare::IntoExisting).unwrap();
    upsert(&mut caller(&store, &options()), "a").unwrap();
    store.prepare(&layout(), Prepare::IntoExisting).unwrap();
    assert_eq!(fake.documents("storebench", "documents").len(), 1, "kept unchanged");
    assert!(matches!(store.inspect().unwrap(), Namespace::Foreign(_)));
    store.remove().unwrap();
    assert_eq!(fake.collections(), ["_default._default", "storebench.theirs"]);
    assert_eq!(fake.documents("storebench", "theirs"), [("key".to_owned(), b"precious".to_vec())]);

    // An existing collection with the name of a study's collection.
    fake.put_foreign("storebench", "documents", "key", b"precious too");
    assert!(matches!(store.prepare(&layout(), Prepare::IntoExisting), Err(StoreError::NotOurs(_))));
    assert_eq!(fake.documents("storebench", "documents"), [("key".to_owned(), b"precious too".to_vec())]);
}

#[test]
fn what_others_put_under_the_markers_key_is_refused_and_left_as_it_is() {
    let fake = fake(FakeOptions::default());
    let (scope, marker, key) = ("storebench", "storebench_marker", "storebench");
    fake.put_foreign(scope, marker, key, b"precious");
    let store = store(&fake.url());
    assert!(matches!(store.inspect().unwrap(), Namespace::Foreign(_)));
    for (how, expected) in [
        (Prepare::Fresh, "--into-existing"),
        (Prepare::IntoExisting, "something else under `storebench.storebench_marker`"),
        (Prepare::Copy(CopyId(1)), "something else under `storebench.storebench_marker`"),
        (Prepare::Discard, "which Storebench did not make"),
    ] {
        let told = store.prepare(&layout(), how);
        assert!(matches!(&told, Err(StoreError::NotOurs(text)) if text.contains(expected)), "{how:?} {told:?}");
    }
    store.remove().unwrap();
    assert_eq!(fake.collections(), ["_default._default", "storebench.storebench_marker"]);
    assert_eq!(fake.documents(scope, marker), [(key.to_owned(), b"precious".to_vec())]);
}

#[test]
fn documents_of_others_are_read_and_sampled_and_stay_as_they_were() {
    let fake = fake(FakeOptions::default());
    for i in 0..200 {
        fake.put_foreign("travel", "hotels", &format!("hotel-{i:03}"), format!("{{\"n\":{i}}}").as_bytes());
    }
    let before = (fake.collections(), fake.documents("travel", "hotels"));
    let store = store(&fake.url());
    let mut layout = layout();
    layout.collections.truncate(1);
    layout.collections[0].existing = Some(Existing { name: "travel.motels".into(), key: None, body: None });
    assert!(store.prepare(&layout, Prepare::ReadOnly).is_err());
    layout.collections[0].existing = Some(Existing { name: "travel.hotels".into(), key: None, body: None });
    store.prepare(&layout, Prepare::ReadOnly).unwrap();
    let mut c = caller(&store, &options());
    assert_eq!(call(&mut c, Op::Read { key: "hotel-007" }).unwrap().as_reply().body, Some(&b"{\"n\":7}"[..]));
    assert_eq!(upsert(&mut c, "hotel-007").unwrap_err().kind, ErrorKind::Refused);

    let error = store.sample_keys(DOCUMENTS, 10, 1).unwrap_err();
    assert!(error.to_string().contains("index"), "{error}");
    fake.put_foreign_index("travel", "hotels");
    let keys = store.sample_keys(DOCUMENTS, 50, 1).unwrap();
    assert_eq!(keys.len(), 50);
    assert_ne!(keys, store.sample_keys(DOCUMENTS, 50, 2).unwrap());
    let (first, last) = (keys.iter().min().unwrap(), keys.iter().max().unwrap());
    assert!(first.as_str() < "hotel-020" && last.as_str() > "hotel-180", "spread from {first} to {last}");
    assert_eq!((fake.collections(), fake.documents("travel", "hotels")), before);
}

#[test]
fn durability_is_what_the_copies_hold() {
    let fake = three(1);
    let store = prepared(&fake);
    let options = SessionOptions { timeout: Duration::from_secs(2), ..options() };
    let mut durable = caller(&store, &SessionOptions { durability: Durability::MAJORITY, ..options.clone() });
    let mut plain = caller(&store, &options);
    for i in 0..20 {
        upsert(&mut durable, &format!("before-{i}")).unwrap();
    }
    // The replicas accept no more writes. With one replica, a majority is both copies.
    for node in 0..3 {
        fake.set_replicating(node, false);
    }
    let error = upsert(&mut durable, "during").unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutcomeUnknown, "{error}");
    upsert(&mut plain, "during-plain").unwrap();
    for (op, what) in [
        (Op::MergePatch { key: "before-1", patch: br#"{"a":1}"# }, "merge"),
        (Op::Delete { key: "before-2" }, "delete"),
        (Op::Replace { key: "before-3", body: b"{}" }, "replace"),
        (Op::Insert { key: "new", body: b"{}" }, "insert"),
    ] {
        let error = call(&mut durable, op).unwrap_err();
        assert_eq!(error.kind, ErrorKind::OutcomeUnknown, "{what}: {error}");
    }
    for node in 0..3 {
        fake.set_replicating(node, true);
    }
    upsert(&mut durable, "after").unwrap();

    // A node leaves the map permanently. A third of the documents has one copy, and another third a promoted one.
    fake.kill(1);
    fake.fail_over(1);
    let mut outcomes = Vec::new();
    for i in 0..30 {
        let key = format!("left-{i}");
        let possible = loop {
            match upsert(&mut durable, &key) {
                Ok(_) => break true,
                Err(error) if error.message.contains("too few copies") => {
                    assert_eq!(error.kind, ErrorKind::Temporary);
                    break false;
                }
                Err(error) if error.kind == ErrorKind::Temporary => std::thread::sleep(Duration::from_millis(5)),
                Err(error) if error.message == NO_ANSWER => {}
                Err(error) => panic!("{key}: {error}"),
            }
        };
        let there = fake.documents("storebench", "documents").iter().any(|(other, _)| *other == key);
        assert_eq!(there, possible, "{key} must exist exactly if it was acknowledged");
        settled_upsert(&mut plain, &key).unwrap();
        outcomes.push(possible);
    }
    assert!(outcomes.contains(&true) && outcomes.contains(&false), "{outcomes:?}");
}

#[test]
fn levels_that_persist_wait_for_the_disks() {
    let fake = three(2);
    let store = prepared(&fake);
    let with = |acknowledged_by, on| {
        let durability = Durability { acknowledged_by, persisted: Persisted::Disk, on };
        caller(&store, &SessionOptions { durability, ..options() })
    };
    let mut on_active = with(Acknowledged::Majority, 1);
    let mut on_majority = with(Acknowledged::Nodes(2), 2);
    upsert(&mut on_active, "a").unwrap();
    upsert(&mut on_majority, "b").unwrap();
    // One of three copies is persisted. That suffices if it is the active one, but is never a majority.
    fake.set_disk(1, false);
    fake.set_disk(2, false);
    let outcomes: Vec<bool> = (0..12).map(|i| upsert(&mut on_active, &format!("a{i}")).is_ok()).collect();
    assert!(outcomes.contains(&true) && outcomes.contains(&false), "{outcomes:?}");
    assert_eq!(upsert(&mut on_majority, "c").unwrap_err().kind, ErrorKind::OutcomeUnknown);
    let stats = store.stats().unwrap();
    assert!(stats.iter().any(|(name, value)| name == "write_queue_items" && *value > 0.0), "{stats:?}");
    assert!(!store.settle(Duration::from_millis(600)).unwrap(), "the disk has work left");
    fake.set_disk(1, true);
    fake.set_disk(2, true);
    upsert(&mut on_majority, "c").unwrap();
    assert!(store.settle(Duration::from_secs(30)).unwrap());
}

#[test]
fn what_a_bucket_cannot_guarantee_is_refused_at_open() {
    let fake = fake(FakeOptions::default());
    let store = prepared(&fake);
    for durability in
        [Durability { acknowledged_by: Acknowledged::Nodes(2), persisted: Persisted::None, on: 0 }, Durability::OS]
    {
        let options = SessionOptions { durability, ..options() };
        assert!(matches!(Caller::open(&*store, &options), Err(StoreError::NotSupported(_))), "{durability}");
    }
    upsert(&mut caller(&store, &SessionOptions { durability: Durability::FSYNC, ..options() }), "a").unwrap();
}

#[test]
fn without_durable_writes_of_the_server_only_none_is_guaranteed() {
    for (nodes, replicas, why) in [(4, 3, "more than 2 replicas"), (1, 1, "fewer nodes"), (1, 2, "fewer nodes")] {
        let fake = fake(FakeOptions { nodes, replicas, ..FakeOptions::default() });
        let store = prepared(&fake);
        for durability in [
            Durability::MAJORITY,
            Durability { acknowledged_by: Acknowledged::Nodes(2), persisted: Persisted::None, on: 0 },
            Durability { acknowledged_by: Acknowledged::Majority, persisted: Persisted::Disk, on: 1 },
        ] {
            let refused = Caller::open(&*store, &SessionOptions { durability, ..options() });
            assert!(
                matches!(&refused, Err(StoreError::NotSupported(text)) if text.contains(why)),
                "{nodes} nodes, {replicas} replicas, {durability}"
            );
        }
        assert_eq!(store.capabilities().durability.len(), 1);
        upsert(&mut caller(&store, &options()), "a").unwrap();
    }
}

#[test]
fn a_moved_partition_is_followed() {
    for tell in [false, true] {
        let fake = three(0);
        let store = store(&fake.url());
        let mut layout = layout();
        layout.collections[1].body = Body::Counter;
        store.prepare(&layout, Prepare::Fresh).unwrap();
        let (mut c, counters) = (caller(&store, &options()), CollectionId(1));
        let count = |c: &mut Caller, key: &str, delta| {
            let mut sum = None;
            let op = Op::Counter { key, delta, initial: 0 };
            c.call(&Request { collection: counters, op, contents: true }, |result| sum = result.unwrap().counter);
            sum.unwrap()
        };
        let keys: Vec<String> = (0..100).map(|i| format!("key-{i}")).collect();
        let mut twice = BatchBuf::new();
        keys.iter().chain(&keys).for_each(|key| twice.push(key, b"{}"));
        for key in &keys {
            upsert(&mut c, key).unwrap();
            count(&mut c, key, 1);
        }
        let (mut moves, bulk) = ([(0, 1), (1, 2), (2, 0)].into_iter().cycle(), BulkWrite::Upsert);
        let mut moved = || moves.next().map(|(from, to)| fake.move_vbuckets(from, to, tell));
        moved();
        for key in &keys {
            assert_eq!(call(&mut c, Op::Read { key }).unwrap().as_reply().documents, 1);
            upsert(&mut c, key).unwrap();
        }
        moved();
        let written = call(&mut c, Op::BulkWrite { kind: bulk, items: twice.as_batch() }).unwrap();
        assert_eq!((written.as_reply().documents, written.as_reply().rejects.len()), (200, 0));
        for delta in [1, -5] {
            moved();
            for key in &keys {
                let sum = count(&mut c, key, delta);
                assert_eq!(sum, if delta > 0 { 1 } else { -4 }, "{key}");
            }
        }
        assert_eq!(fake.documents("storebench", "documents").len(), 100);
        if !tell {
            assert!(fake.counts().1 > 0, "no request was redirected, so this test proves nothing");
        }
    }
}

#[test]
fn a_temporary_failure_is_temporary_and_not_retried_behind_the_engines_back() {
    let fake = fake(FakeOptions::default());
    let store = prepared(&fake);
    let mut c = caller(&store, &options());
    upsert(&mut c, "a").unwrap();
    fake.fail_temporarily(3);
    for _ in 0..3 {
        assert_eq!(upsert(&mut c, "a").unwrap_err().kind, ErrorKind::Temporary);
    }
    upsert(&mut c, "a").unwrap();
    // A bulk operation with temporarily failing items reports which ones.
    fake.fail_temporarily(2);
    let mut items = BatchBuf::new();
    (0..10).for_each(|i| items.push(&format!("k{i}"), b"{}"));
    let reply = call(&mut c, Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() }).unwrap();
    assert_eq!((reply.as_reply().documents, reply.as_reply().rejects.len()), (8, 2));
    fake.fail_temporarily(10);
    let all = call(&mut c, Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() });
    assert_eq!(all.unwrap_err().kind, ErrorKind::Temporary);
    let none = call(&mut c, Op::BulkRead { keys: Batch::default() }).unwrap();
    assert_eq!(none.as_reply().documents, 0);
}

#[test]
fn a_stalled_write_is_of_unknown_outcome_and_the_session_goes_on() {
    let fake = fake(FakeOptions::default());
    let store = prepared(&fake);
    let mut c = caller(&store, &SessionOptions { timeout: Duration::from_millis(300), ..options() });
    upsert(&mut c, "a").unwrap();
    fake.stall(true);
    assert_eq!(upsert(&mut c, "stalled").unwrap_err().kind, ErrorKind::OutcomeUnknown);
    fake.stall(false);
    loop {
        // On a slow machine, the first operations may exceed the timeout.
        match upsert(&mut c, "b") {
            Ok(_) => break,
            Err(error) => assert_eq!(error.kind, ErrorKind::OutcomeUnknown, "{error}"),
        }
    }
    let keys: Vec<String> = fake.documents("storebench", "documents").into_iter().map(|(key, _)| key).collect();
    assert!(keys.contains(&"stalled".to_owned()), "the write was applied, which is why its outcome was unknown");
}

#[test]
fn a_document_over_the_limit_is_refused_and_the_others_of_its_bulk_are_not() {
    let fake = fake(FakeOptions { largest_value_bytes: 100_000, ..FakeOptions::default() });
    let store = prepared(&fake);
    let mut c = caller(&store, &options());
    let large = format!("{{\"t\":\"{}\"}}", "x".repeat(100_000));
    let error = call(&mut c, Op::Upsert { key: "large", body: large.as_bytes() }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("larger"), "{error}");
    let mut items = BatchBuf::new();
    items.push("small", b"{}");
    items.push("large", large.as_bytes());
    let reply = call(&mut c, Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() }).unwrap();
    let reply = reply.as_reply();
    assert_eq!((reply.documents, reply.rejects.len(), reply.rejects[0].item), (1, 1, 1));
    assert_eq!(reply.rejects[0].error.kind, ErrorKind::Refused);
    let error = upsert(&mut c, &"k".repeat(247)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
}

#[test]
fn a_primary_index_is_made_where_it_is_used_or_asked_for() {
    let fake = fake(FakeOptions::default());
    let mut layout = layout();
    layout.collections.iter_mut().for_each(|collection| collection.uses.key_order = false);
    let scan = |url: &str| {
        let store = store(url);
        store.prepare(&layout, Prepare::Keep).unwrap();
        call(&mut caller(&store, &options()), Op::Scan { start: "", end: None, limit: 10 }).map(drop)
    };
    let refused = scan(&fake.url()).unwrap_err();
    assert!(refused.message.contains("index"), "{refused:?}");
    scan(&format!("{}?keys=index", fake.url())).unwrap();
}

#[test]
fn a_query_waits_for_its_index_unless_stale_is_fine() {
    let fake = fake(FakeOptions::default());
    let store = prepared(&fake);
    let mut c = caller(&store, &options());
    let mut stale = caller(&store, &SessionOptions { consistency: ReadConsistency::StaleOk, ..options() });
    let page = Op::Page { field: "user", value: "\"ann\"", limit: 10 };
    upsert(&mut c, "a").unwrap();
    assert_eq!(call(&mut c, page).unwrap().as_reply().documents, 1);
    fake.freeze_indexes(true);
    upsert(&mut c, "b").unwrap();
    assert_eq!(call(&mut stale, page).unwrap().as_reply().documents, 1, "the index does not contain b yet");
    let mut impatient = caller(&store, &SessionOptions { timeout: Duration::from_millis(300), ..options() });
    assert!(call(&mut impatient, page).is_err(), "it waits for an index that is never updated");
    fake.freeze_indexes(false);
    assert_eq!(call(&mut c, page).unwrap().as_reply().documents, 2);
}

#[test]
fn without_a_query_service_only_what_needs_it_is_missing() {
    for (queries, said) in [(QueryService::NotImplemented, "501"), (QueryService::Absent, "runs no query service")] {
        let fake = fake(FakeOptions { queries, ..FakeOptions::default() });
        let mut plain = layout();
        plain.collections.iter_mut().for_each(|collection| collection.indexes.clear());
        for url in [fake.url(), format!("{}?keys=none", fake.url())] {
            let store = store(&url);
            // A requested index is not silently omitted.
            let refused = store.prepare(&layout(), Prepare::Fresh).unwrap_err();
            assert!(matches!(&refused, StoreError::NotSupported(text) if text.contains(said)), "{refused:?}");
            store.prepare(&plain, Prepare::Fresh).unwrap();
            let capabilities = store.capabilities();
            for kind in [OpKind::Page, OpKind::Prefix, OpKind::Scan] {
                assert!(capabilities.supports(kind).is_none(), "{kind}");
            }
            assert!(!capabilities.indexes);
            let mut c = caller(&store, &options());
            upsert(&mut c, "a").unwrap();
            call(&mut c, Op::Read { key: "a" }).unwrap();
            let page = call(&mut c, Op::Page { field: "user", value: "1", limit: 1 });
            assert_eq!(page.unwrap_err().kind, ErrorKind::Refused);
            store.remove().unwrap();
        }
        let asked = store(&format!("{}?keys=index", fake.url()));
        let refused = asked.prepare(&plain, Prepare::Fresh).unwrap_err();
        assert!(refused.to_string().contains("use keys=none"), "{refused}");
    }
}

#[test]
fn without_a_query_service_the_other_checks_run() {
    let fake = fake(FakeOptions { queries: QueryService::NotImplemented, ..FakeOptions::default() });
    let report = storebench_conformance::run(&*store(&format!("{}?keys=none", fake.url())));
    assert_eq!(report.failed().count(), 0, "{report}");
    assert!(report.to_string().contains("not supported"), "{report}");
}

#[test]
fn what_is_there_is_said_to_be_not_ours_once() {
    let fake = fake(FakeOptions::default());
    fake.put_foreign("storebench", "theirs", "k", b"{}");
    let store = store(&fake.url());
    let Namespace::Foreign(what) = store.inspect().unwrap() else { panic!("foreign data was taken for ours") };
    assert!(!what.contains("did not make"), "{what}");
    let refused = store.prepare(&layout(), Prepare::Fresh).unwrap_err().to_string();
    assert_eq!(refused.matches("Storebench did not make").count(), 1, "{refused}");
}

#[test]
fn plans_tell_whether_a_query_reads_everything() {
    let fake = fake(FakeOptions::default());
    let store = prepared(&fake);
    let explain = |op| store.explain(&Request { collection: DOCUMENTS, op, contents: true }).unwrap();
    let by_index = explain(Op::Page { field: "user", value: "1", limit: 1 }).unwrap();
    assert!(!by_index.full_scan && by_index.plan.contains("storebench_user"), "{by_index:?}");
    let by_nothing = explain(Op::Page { field: "other", value: "1", limit: 1 }).unwrap();
    assert!(by_nothing.full_scan, "{by_nothing:?}");
    assert!(!explain(Op::Prefix { prefix: "a", limit: 1 }).unwrap().full_scan);
    assert_eq!(explain(Op::Read { key: "a" }), None);

    let without = storebench_stores::open(&format!("{}?keys=none", fake.url())).unwrap();
    without.prepare(&layout(), Prepare::Fresh).unwrap();
    let op = Op::Prefix { prefix: "a", limit: 1 };
    assert!(without.capabilities().supports(op.kind()).is_none());
}

#[test]
fn garbage_before_a_session_opens_is_named() {
    for (seed, garbage) in Garbage::ALL.into_iter().enumerate() {
        let fake = fake(FakeOptions::default());
        fake.garble(Some((garbage, seed as u64)));
        // Some seeds do not change anything that matters.
        if let Err(error) = store(&fake.url()).inspect() {
            assert!(
                matches!(error, StoreError::Unreachable(_) | StoreError::Failed(_)),
                "{garbage:?} {seed}: {error:?}"
            );
        }
    }
}

#[test]
fn garbage_ends_operations_with_errors_and_never_the_program() {
    let fake = fake(FakeOptions::default());
    let store = prepared(&fake);
    let short = SessionOptions { timeout: Duration::from_millis(100), ..options() };
    for (seed, garbage) in Garbage::ALL.into_iter().cycle().take(10).enumerate() {
        let mut c = caller(&store, &short);
        fake.garble(Some((garbage, seed as u64)));
        for i in 0..4 {
            let key = format!("key-{i}");
            let _ = upsert(&mut c, &key);
            let _ = call(&mut c, Op::Read { key: &key });
            let _ = call(&mut c, Op::MergePatch { key: &key, patch: br#"{"a":1}"# });
            let _ = call(&mut c, Op::Counter { key: &key, delta: 1, initial: 0 });
            // This goes through the SDK.
            let _ = call(&mut c, Op::Page { field: "user", value: "\"ann\"", limit: 3 });
        }
        let _ = store.stats();
        fake.garble(None);
    }
    // The server works again, and a new session works normally.
    upsert(&mut caller(&store, &options()), "after").unwrap();
}

#[test]
fn views_of_the_default_collection_are_asked_by_keys_and_ranges() {
    let fake = three(1);
    for i in 0..40 {
        let body = format!(r#"{{"user":"u{}","n":{i}}}"#, i % 4);
        fake.put_foreign("_default", "_default", &format!("k{i:02}"), body.as_bytes());
    }
    fake.put_foreign_view("by", "user", "user");
    let store = store(&fake.url());
    let mut theirs = layout();
    theirs.collections.truncate(1);
    theirs.collections[0].indexes.clear();
    theirs.collections[0].existing = Some(Existing { name: "_default".into(), key: None, body: None });
    store.prepare(&theirs, Prepare::ReadOnly).unwrap();
    let mut c = caller(&store, &options());
    let mut ask = |view: &str, rows, limit| {
        let reply = call(&mut c, Op::View { view, rows, skip: 0, limit })?;
        let rows = reply.as_reply().rows.unwrap();
        Ok(rows.iter().map(|(key, body)| (key.to_owned(), body.len())).collect::<Vec<_>>())
    };
    let count = |found: Result<Vec<(String, usize)>, OpError>| found.unwrap().len();
    assert_eq!(count(ask("by/user", ViewRows::All, 100)), 40);
    assert_eq!(count(ask("by/user", ViewRows::All, 7)), 7);
    let keyed = ask("by/user", ViewRows::Keys(r#"["u1","u3","nobody"]"#), 100).unwrap();
    assert_eq!(keyed.len(), 20);
    assert!(keyed.iter().all(|(_, bytes)| *bytes > 15), "the documents must be read");
    assert!(keyed[..10].is_sorted() && keyed[10..].is_sorted(), "in the order of the view: {keyed:?}");
    let range = |start, end| ViewRows::Range { start, end };
    assert_eq!(count(ask("by/user", range(Some(r#""u1""#), Some(r#""u2""#)), 100)), 20);
    assert_eq!(count(ask("by/user", range(None, Some(r#""u0""#)), 100)), 10);
    let missing: OpError = ask("by/nothing", ViewRows::All, 1).unwrap_err();
    assert!(missing.kind == ErrorKind::Refused && missing.message.contains("not_found"), "{missing}");

    // Its rows were found, and its documents cannot be read now.
    fake.fail_temporarily(1_000);
    assert_eq!(ask("by/user", ViewRows::All, 7).unwrap_err().kind, ErrorKind::Temporary);
    fake.fail_temporarily(0);
    assert_eq!(count(ask("by/user", ViewRows::All, 7)), 7);

    // If a node is down, any other one answers.
    fake.kill(0);
    assert_eq!(count(ask("by/user", ViewRows::Keys("[]"), 5)), 0);

    // The server has no views of other collections.
    let another = self::fake(FakeOptions::default());
    let ours = prepared(&another);
    let refused =
        call(&mut caller(&ours, &options()), Op::View { view: "by/user", rows: ViewRows::All, skip: 0, limit: 1 });
    assert_eq!(refused.unwrap_err().kind, ErrorKind::Refused);
}
