//! The CQL driver against a real Cassandra.

mod cluster;
mod faults;
mod foreign_data;
mod queries;

use std::sync::Arc;
use std::time::{Duration, Instant};

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::value::Row;
use serde_json::{Value, json};
use storebench_engine::store::{
    AnyStore, BatchBuf, BulkWrite, CollectionId, CollectionLayout, Durability, ErrorKind, Existing, Layout, Namespace,
    Op, OpKind, Prepare, ReadConsistency, RowPage, Rows, SessionOptions, StoreError, Uses,
};
use storebench_study::workload::Body;

use crate::driven::{Driven, PATIENCE, layout, options};
use crate::server::Server;

const FIRST: CollectionId = CollectionId(0);

/// A server that syncs nothing and flushes no system tables: tests change the schema all the time, and each change
/// would wait for the disk. Not for tests that kill it.
pub(crate) fn quick() -> Server {
    let options = ["test.flush_local_schema_changes=false", "skip_sync=true", "unsafesystem=true"];
    let options = options.map(|option| format!("--option=-Dcassandra.{option}"));
    let masks = ["--option=dynamic_data_masking_enabled: true"];
    Server::start_with("cassandra", &[&options.each_ref().map(String::as_str)[..], &masks].concat())
}

fn open(server: &Server, options: &str) -> Arc<dyn AnyStore> {
    storebench_stores::open(&format!("{}{options}", server.url)).unwrap()
}

/// A session of the client, without the driver.
struct Cql {
    session: Session,
    runtime: tokio::runtime::Runtime,
}

impl Cql {
    fn new(server: &Server) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let building = SessionBuilder::new().known_node(format!("127.0.0.1:{}", server.port));
        let session = runtime.block_on(async { building.build().await.unwrap() });
        Self { session, runtime }
    }

    /// Runs a statement. Returns its rows in a form that shows every value.
    fn run(&self, cql: &str) -> Vec<String> {
        let answer = self.runtime.block_on(self.session.query_unpaged(cql, ()));
        let answer = answer.unwrap_or_else(|error| panic!("{cql}: {error}"));
        let Ok(rows) = answer.into_rows_result() else { return Vec::new() };
        rows.rows::<Row>().unwrap().map(|row| format!("{:?}", row.unwrap().columns)).collect()
    }
}

impl Drop for Cql {
    fn drop(&mut self) {
        let _within = self.runtime.enter();
    }
}

fn collection(existing: Option<Existing>, indexes: &[&str], body: Body) -> Layout {
    let indexes = indexes.iter().map(|field| vec![(*field).to_owned()]).collect();
    let name = "documents".to_owned();
    Layout { collections: vec![CollectionLayout { name, body, indexes, existing, uses: Uses::ALL }] }
}

fn existing(name: &str, key: Option<&str>, body: Option<&str>) -> Layout {
    let existing = Existing { name: name.into(), key: key.map(str::to_owned), body: body.map(str::to_owned) };
    collection(Some(existing), &[], Body::Json)
}

fn read(driven: &mut Driven, key: &str) -> Value {
    let reply = driven.call(Op::Read { key }).unwrap_or_else(|error| panic!("{key}: {error}"));
    serde_json::from_slice(reply.as_reply().body.unwrap()).unwrap()
}

type FoundRow = (String, Value, Option<Duration>);

/// Everything between two tokens: keys, documents, and seconds until they expire.
fn rows(store: &dyn AnyStore, start: Option<&str>, end: Option<&str>) -> Vec<FoundRow> {
    let (all, bad) = rows_and_bad(store, start, end);
    assert!(bad.is_empty(), "{bad:?}");
    all
}

/// The same, and why others could not be read.
fn rows_and_bad(store: &dyn AnyStore, start: Option<&str>, end: Option<&str>) -> (Vec<FoundRow>, Vec<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut stream = store.rows(Rows::Range { collection: FIRST, start, end }).await.unwrap();
        let (mut page, mut all, mut bad) = (RowPage::default(), Vec::new(), Vec::new());
        while stream.next(&mut page).await.unwrap() {
            bad.extend(page.bad.iter().map(|row| format!("{row:?}")));
            for (position, (key, body)) in page.rows.as_batch().iter().enumerate() {
                let expires = page.expiring.iter().find(|(at, _)| *at == position).map(|(_, left)| *left);
                all.push((key.to_owned(), serde_json::from_slice(body).unwrap(), expires));
            }
        }
        (all, bad)
    })
}

#[test]
fn the_driver_against_one_server() {
    let server = &quick();
    crate::together::on_cassandra(&server.url);
    what_the_server_does_not_guarantee_is_refused(server);
    a_wrong_port_is_named(server);
    foreign_data::their_keyspace_is_told_and_left_alone(server);
    foreign_data::their_rows_are_read_as_json(server);
    foreign_data::their_column_of_documents_is_written(server);
    an_expired_key_is_free_again(server);
    requests_that_are_too_large_are_refused(server);
    upserts_may_be_lightweight_transactions(server);
    every_row_is_in_one_range(server);
    indexed_fields_follow_their_documents(server);
    an_upsert_after_a_transaction_stays(server);
    queries::rows_are_json(server);
    queries::what_cql_cannot_do_is_refused(server);
    tombstones_and_settings_are_told(server);
}

fn what_the_server_does_not_guarantee_is_refused(server: &Server) {
    let store = open(server, "");
    assert_eq!(store.inspect().unwrap(), Namespace::Absent);
    let can = store.capabilities();
    let levels: Vec<Durability> = can.durability.iter().map(|(level, _)| *level).collect();
    assert_eq!(levels, [Durability::MEMORY, Durability::MAJORITY]);
    assert!(can.why_no_more.unwrap().contains("commitlog_sync"), "{:?}", can.why_no_more);
    for kind in [OpKind::Scan, OpKind::Prefix] {
        assert!(can.supports(kind).is_none() && can.lacks(kind).contains("hashes"), "{}", can.lacks(kind));
    }
    assert_eq!(store.describe().version, "Apache Cassandra 5.0.5");
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    for level in [Durability::FSYNC, Durability::OS] {
        let error = Driven::open(&*store, level).err().unwrap();
        assert!(matches!(&error, StoreError::NotSupported(text) if text.contains("commitlog_sync")), "{error}");
    }
    // More replicas than nodes.
    let three = open(server, "?keyspace=three&replication=3");
    let error = three.prepare(&layout(), Prepare::Fresh).unwrap_err();
    assert!(matches!(&error, StoreError::NotSupported(text) if text.contains("there are 1")), "{error}");
    assert_eq!(three.inspect().unwrap(), Namespace::Absent);
    // Replicas that are away: a quorum cannot answer, and nothing was done.
    let cql = Cql::new(server);
    let replicas = |number: u32| {
        cql.run(&format!(
            "ALTER KEYSPACE storebench WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {number}}}"
        ));
    };
    replicas(3);
    let mut one = Driven::open(&*store, Durability::MEMORY).unwrap();
    one.call(Op::Upsert { key: "a", body: b"{}" }).unwrap();
    // A strong reader after writers to one replica must ask all of them.
    assert_eq!(one.call(Op::Read { key: "a" }).unwrap_err().kind, ErrorKind::Temporary);
    let stale = SessionOptions { consistency: ReadConsistency::StaleOk, ..options(Durability::MEMORY) };
    read(&mut Driven::open_with(&*store, &stale).unwrap(), "a");
    let mut majority = Driven::open(&*store, Durability::MAJORITY).unwrap();
    let error = majority.call(Op::Upsert { key: "b", body: b"{}" }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Temporary, "{error}");
    // The server does not say whether the transaction was decided before it found too few nodes.
    let error = majority.call(Op::Insert { key: "c", body: b"{}" }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutcomeUnknown, "{error}");
    replicas(1);
    store.remove().unwrap();
}

fn a_wrong_port_is_named(server: &Server) {
    let port = crate::server::free_port();
    let url = server.url.replace(&format!("127.0.0.1:{}", server.port), &format!("me:secret@127.0.0.1:{port}"));
    let error = storebench_stores::open(&url).unwrap().inspect().unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, StoreError::Unreachable(_)), "{text}");
    assert!(text.contains(&port.to_string()) && !text.contains("secret"), "{text}");
}

/// A row that was inserted would keep its key although its document has expired.
fn an_expired_key_is_free_again(server: &Server) {
    let store = open(server, "");
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    driven.call(Op::Insert { key: "a", body: b"{\"n\":1}" }).unwrap();
    driven.call(Op::Touch { key: "a", expiry: Duration::from_secs(2) }).unwrap();
    // A change keeps the expiry, and another document has none.
    driven.call(Op::MergePatch { key: "a", patch: b"{\"m\":1}" }).unwrap();
    assert!(rows(&*store, None, None)[0].2.is_some());
    let begun = Instant::now();
    while driven.call(Op::Exists { key: "a" }).unwrap().as_reply().documents == 1 {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(driven.call(Op::Read { key: "a" }).unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(driven.call(Op::Replace { key: "a", body: b"{}" }).unwrap_err().kind, ErrorKind::NotFound);
    driven.call(Op::Insert { key: "a", body: b"{\"n\":2}" }).unwrap();
    driven.call(Op::Touch { key: "a", expiry: Duration::from_secs(100) }).unwrap();
    driven.call(Op::Upsert { key: "a", body: b"{\"n\":3}" }).unwrap();
    assert_eq!(rows(&*store, None, None), [("a".to_owned(), json!({ "n": 3 }), None)]);
    drop(driven);
    store.remove().unwrap();
}

fn requests_that_are_too_large_are_refused(server: &Server) {
    let store = open(server, "");
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    let body = |megabytes: usize| format!("\"{}\"", "x".repeat(megabytes << 20)).into_bytes();
    let fits = body(8);
    driven.call(Op::Upsert { key: "fits", body: &fits }).unwrap();
    for (key, size) in [("a", 17), ("b", 40)] {
        let large = body(size);
        for op in [Op::Upsert { key, body: &large }, Op::Insert { key, body: &large }] {
            let error = driven.call(op).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Refused, "{size} MB: {error}");
        }
        let mut items = BatchBuf::new();
        items.push("small", b"{}");
        items.push(key, &large);
        let reply = driven.call(Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() }).unwrap();
        assert_eq!((reply.as_reply().documents, reply.as_reply().rejects[0].item), (1, 1));
        assert_eq!(driven.call(Op::Read { key }).unwrap_err().kind, ErrorKind::NotFound);
    }
    // What is refused breaks no connection, and leaves no document.
    assert_eq!(driven.counters().disconnects, 0);
    assert_eq!(driven.call(Op::Read { key: "fits" }).unwrap().as_reply().bytes, fits.len() as u64);
    let long = "k".repeat(70_000);
    for key in [long.as_str(), ""] {
        assert_eq!(driven.call(Op::Upsert { key, body: b"{}" }).unwrap_err().kind, ErrorKind::Refused);
    }
    assert_eq!(driven.call(Op::Upsert { key: "a", body: b"\"\xff\"" }).unwrap_err().kind, ErrorKind::Refused);
    drop(driven);
    store.remove().unwrap();
}

fn upserts_may_be_lightweight_transactions(server: &Server) {
    let store = open(server, "?writes=lwt");
    for body in [Body::Json, Body::Bytes] {
        store.prepare(&collection(None, &[], body), Prepare::Fresh).unwrap();
        let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
        for value in [&b"\"1\""[..], b"\"2\"", b"\"2\""] {
            driven.call(Op::Upsert { key: "a", body: value }).unwrap();
            assert_eq!(driven.call(Op::Read { key: "a" }).unwrap().as_reply().body, Some(value));
        }
        driven.call(Op::Delete { key: "a" }).unwrap();
        driven.call(Op::Upsert { key: "a", body: b"" }).unwrap();
        driven.call(Op::Upsert { key: "a", body: b"\"3\"" }).unwrap();
        assert_eq!(driven.call(Op::Read { key: "a" }).unwrap().as_reply().body, Some(&b"\"3\""[..]));
    }
    store.remove().unwrap();
}

fn every_row_is_in_one_range(server: &Server) {
    let store = open(server, "");
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    // A table of Storebench's own is not written as somebody else's.
    let error = store.prepare(&existing("documents", None, Some("body")), Prepare::WriteExisting).unwrap_err();
    assert!(error.to_string().contains("leave out --into-existing"), "{error}");
    store.prepare(&layout(), Prepare::Keep).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    let mut items = BatchBuf::new();
    (0..3_000).for_each(|n| items.push(&format!("key-{n}"), json!({ "n": n }).to_string().as_bytes()));
    driven.call(Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() }).unwrap();
    let cuts = store.cuts(FIRST, 6).unwrap();
    let mut all = Vec::new();
    for range in 0..=cuts.len() {
        let start = range.checked_sub(1).map(|at| cuts[at].as_str());
        let found = rows(&*store, start, cuts.get(range).map(String::as_str));
        assert!((300..700).contains(&found.len()), "range {range} holds {}", found.len());
        all.extend(found.into_iter().map(|(key, ..)| key));
    }
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 3_000);
    assert!(store.sample_keys(FIRST, 300, 3).unwrap().len() > 250);
    drop(driven);
    store.remove().unwrap();
}

fn indexed_fields_follow_their_documents(server: &Server) {
    let store = open(server, "");
    let layout = collection(None, &["user"], Body::Json);
    store.prepare(&layout, Prepare::Fresh).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    let long = "u".repeat(9_000);
    for (key, user) in [("a", "ann"), ("b", "bob"), ("c", long.as_str())] {
        driven.call(Op::Upsert { key, body: json!({ "user": user }).to_string().as_bytes() }).unwrap();
    }
    // Without the field, the document is in no page any more.
    driven.call(Op::Upsert { key: "b", body: b"{}" }).unwrap();
    let mut page = |user: &str| {
        let reply = driven.call(Op::Page { field: "user", value: &json!(user).to_string(), limit: 10 }).unwrap();
        reply.as_reply().documents
    };
    assert_eq!((page("ann"), page("bob"), page(&long), page("u")), (1, 0, 1, 0));
    drop(driven);
    // A later run without the index still keeps it up to date.
    store.prepare(&self::layout(), Prepare::Keep).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    driven.call(Op::Upsert { key: "a", body: b"{\"user\":\"eve\"}" }).unwrap();
    drop(driven);
    store.prepare(&layout, Prepare::Keep).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    let mut page = |user: &str| {
        let value = json!(user).to_string();
        driven.call(Op::Page { field: "user", value: &value, limit: 10 }).unwrap().as_reply().documents
    };
    assert_eq!((page("ann"), page("eve")), (0, 1));
    drop(driven);
    // Documents that were written without an index are not in it.
    let error = store.prepare(&collection(None, &["user", "n"], Body::Json), Prepare::Keep).unwrap_err();
    assert!(matches!(&error, StoreError::NotSupported(text) if text.contains("load the collection again")), "{error}");
    store.remove().unwrap();
}

fn an_upsert_after_a_transaction_stays(server: &Server) {
    let store = open(server, "");
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let mut one = Driven::open(&*store, Durability::MEMORY).unwrap();
    // The later one stays, although only the insert is a lightweight transaction.
    for round in 0..100 {
        let key = &format!("k{round}");
        one.call(Op::Insert { key, body: b"{\"n\":1}" }).unwrap();
        one.call(Op::Upsert { key, body: b"{\"n\":2}" }).unwrap();
        assert_eq!(read(&mut one, key), json!({ "n": 2 }));
        one.call(Op::Delete { key }).unwrap();
        one.call(Op::Upsert { key, body: b"{\"n\":3}" }).unwrap();
        assert_eq!(read(&mut one, key), json!({ "n": 3 }));
    }
    drop(one);
    store.remove().unwrap();
}

fn tombstones_and_settings_are_told(server: &Server) {
    let store = open(server, "");
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let stats = store.stats().unwrap();
    for name in ["compactions_pending", "disk_mebibytes", "tombstones_per_read_max", "requests_active"] {
        assert!(stats.iter().any(|(known, _)| known == name), "{name}: {stats:?}");
    }
    let settings = store.own_settings().unwrap();
    let value = |name: &str| settings.all.iter().find(|setting| setting.name == name).map(|setting| &*setting.value);
    assert_eq!(value("commitlog_sync"), Some("periodic"));
    assert!(value("replication of the keyspace").unwrap().contains("SimpleStrategy"));
    assert!(store.settle(Duration::from_secs(30)).unwrap());
    store.remove().unwrap();
}
