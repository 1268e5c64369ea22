//! The CQL driver against a real Cassandra.

use std::sync::Arc;
use std::time::{Duration, Instant};

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::value::Row;
use serde_json::{Value, json};
use storebench_engine::store::{
    AnyStore, BatchBuf, BulkWrite, CollectionId, CollectionLayout, CopyId, Durability, ErrorKind, Existing, Layout,
    Namespace, Op, OpKind, Prepare, ReadConsistency, RowPage, Rows, SessionOptions, StoreError, Uses,
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
    Server::start_with("cassandra", &options.each_ref().map(String::as_str))
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

/// Everything between two tokens: keys, documents, and seconds until they expire.
fn rows(store: &dyn AnyStore, start: Option<&str>, end: Option<&str>) -> Vec<(String, Value, Option<Duration>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut stream = store.rows(Rows::Range { collection: FIRST, start, end }).await.unwrap();
        let (mut page, mut all) = (RowPage::default(), Vec::new());
        while stream.next(&mut page).await.unwrap() {
            assert!(page.bad.is_empty(), "{:?}", page.bad);
            for (position, (key, body)) in page.rows.as_batch().iter().enumerate() {
                let expires = page.expiring.iter().find(|(at, _)| *at == position).map(|(_, left)| *left);
                all.push((key.to_owned(), serde_json::from_slice(body).unwrap(), expires));
            }
        }
        all
    })
}

#[test]
fn the_driver_against_one_server() {
    let server = quick();
    what_the_server_does_not_guarantee_is_refused(&server);
    a_wrong_port_is_named(&server);
    their_keyspace_is_told_and_left_alone(&server);
    their_rows_are_read_as_json(&server);
    their_column_of_documents_is_written(&server);
    an_expired_key_is_free_again(&server);
    requests_that_are_too_large_are_refused(&server);
    upserts_may_be_lightweight_transactions(&server);
    every_row_is_in_one_range(&server);
    indexed_fields_follow_their_documents(&server);
    several_sessions_write_together(&server);
    tombstones_and_settings_are_told(&server);
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

/// All that could change in a keyspace.
fn fingerprint(cql: &Cql, keyspace: &str) -> Vec<String> {
    let mut all = Vec::new();
    for table in ["tables", "columns", "indexes", "keyspaces", "types"] {
        all.extend(cql.run(&format!("SELECT * FROM system_schema.{table} WHERE keyspace_name = '{keyspace}'")));
    }
    all.extend(cql.run(&format!("SELECT id, doc, n, writetime(doc), ttl(doc) FROM {keyspace}.plain")));
    all.extend(cql.run(&format!("SELECT * FROM {keyspace}.hits")));
    all
}

fn their_keyspace_is_told_and_left_alone(server: &Server) {
    let cql = Cql::new(server);
    for statement in [
        "CREATE KEYSPACE theirs WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE theirs.plain (id text PRIMARY KEY, doc text, n int)",
        "CREATE TABLE theirs.hits (id text PRIMARY KEY, hits counter)",
        "CREATE TYPE theirs.address (street text)",
        "UPDATE theirs.hits SET hits = hits + 5 WHERE id = 'a'",
    ] {
        cql.run(statement);
    }
    for n in 0..50 {
        cql.run(&format!("INSERT INTO theirs.plain (id, doc, n) VALUES ('k{n}', '{{\"n\":{n}}}', {n})"));
    }
    let before = fingerprint(&cql, "theirs");
    let store = open(server, "?keyspace=theirs");
    let Namespace::Foreign(what) = store.inspect().unwrap() else { panic!("not foreign") };
    assert!(what.contains("theirs") && what.contains("3 objects"), "{what}");
    for how in [Prepare::Fresh, Prepare::Keep, Prepare::Discard] {
        assert!(matches!(store.prepare(&layout(), how), Err(StoreError::NotOurs(_))), "{how:?}");
    }
    store.remove().unwrap();
    let mut names = store.collections().unwrap();
    names.sort();
    assert_eq!(names, ["theirs.hits", "theirs.plain"]);
    store.prepare(&existing("plain", None, Some("doc")), Prepare::ReadOnly).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    assert_eq!(read(&mut driven, "k7"), json!({ "n": 7 }));
    let refused = driven.call(Op::Upsert { key: "k7", body: b"{}" }).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Refused);
    drop(driven);
    assert_eq!(rows(&*store, None, None).len(), 50);
    assert!(store.sample_keys(FIRST, 20, 1).unwrap().len() > 10);
    assert!(store.sample_keys(FIRST, 200, 7).unwrap().len() > 40);
    // Counters cannot be written as documents.
    let counters = existing("hits", None, Some("hits"));
    for how in [Prepare::WriteExisting, Prepare::ReadOnly] {
        assert!(matches!(store.prepare(&counters, how), Err(StoreError::NotSupported(_))));
    }
    store.prepare(&existing("hits", None, None), Prepare::ReadOnly).unwrap();
    assert_eq!(rows(&*store, None, None), [("a".to_owned(), json!({ "id": "a", "hits": 5 }), None)]);
    assert_eq!(fingerprint(&cql, "theirs"), before);
    // A table beside theirs, and only that one, goes again.
    store.prepare(&layout(), Prepare::IntoExisting).unwrap();
    Driven::open(&*store, Durability::MEMORY).unwrap().call(Op::Insert { key: "k7", body: b"{}" }).unwrap();
    store.remove().unwrap();
    assert_eq!(fingerprint(&cql, "theirs"), before);
    let plain =
        Layout { collections: vec![CollectionLayout { name: "plain".into(), ..layout().collections.remove(0) }] };
    for how in [Prepare::IntoExisting, Prepare::Copy(CopyId(1))] {
        let error = store.prepare(&plain, how).unwrap_err();
        assert!(matches!(&error, StoreError::NotOurs(text) if text.contains("theirs.plain")), "{error}");
    }
    store.remove().unwrap();
    assert_eq!(fingerprint(&cql, "theirs"), before);
    store.close().unwrap();
    cql.run("DROP KEYSPACE theirs");
}

fn their_rows_are_read_as_json(server: &Server) {
    let cql = Cql::new(server);
    for statement in [
        "CREATE KEYSPACE kinds WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TYPE kinds.address (street text, zip int)",
        "CREATE TABLE kinds.people (town text, id int, \"Name\" text, tags set<text>, m map<int, text>, \
         a frozen<address>, at timestamp, bytes blob, price decimal, PRIMARY KEY ((town), id))",
        "INSERT INTO kinds.people (town, id, \"Name\", tags, m, a, at, bytes, price) VALUES ('x', 1, 'Ann \"A\"', \
         {'p', 'q'}, {1: 'one'}, {street: 's', zip: 7}, '2024-01-02 03:04:05.678+0000', 0x01ff, 12.50)",
        "INSERT INTO kinds.people (town, id, \"Name\") VALUES ('x', 2, 'Bob') USING TTL 1000",
        "CREATE TABLE kinds.numbers (id bigint PRIMARY KEY, n int)",
        "INSERT INTO kinds.numbers (id, n) VALUES (-5, 1)",
    ] {
        cql.run(statement);
    }
    let store = open(server, "");
    store.prepare(&existing("kinds.people", None, None), Prepare::ReadOnly).unwrap();
    let mut found = rows(&*store, None, None);
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let ann = json!({
        "a": { "street": "s", "zip": 7 }, "at": "2024-01-02 03:04:05.678Z", "bytes": "0x01ff", "id": 1,
        "m": { "1": "one" }, "Name": "Ann \"A\"", "price": 12.50, "tags": ["p", "q"], "town": "x",
    });
    assert_eq!((found[0].0.as_str(), &found[0].1, found[0].2), (r#"["x",1]"#, &ann, None));
    assert_eq!(found[1].0, r#"["x",2]"#);
    assert!(found[1].2.is_some_and(|left| left > Duration::from_secs(900) && left <= Duration::from_secs(1_000)));
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    assert_eq!(read(&mut driven, r#"["x",1]"#), ann);
    assert_eq!(driven.call(Op::Read { key: r#"["x",3]"# }).unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(driven.call(Op::Read { key: "x" }).unwrap_err().kind, ErrorKind::Refused);
    drop(driven);
    // A key that is a number.
    store.prepare(&existing("kinds.numbers", Some("id"), None), Prepare::ReadOnly).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    assert_eq!(read(&mut driven, "-5"), json!({ "id": -5, "n": 1 }));
    assert_eq!(store.sample_keys(FIRST, 5, 1).unwrap(), ["-5"]);
    // What is wrong is told with the columns.
    for (layout, part) in [
        (existing("kinds.none", None, None), "no table `kinds.none`"),
        (existing("kinds.people", Some("id"), None), "alone is not its primary key"),
        (existing("kinds.people", None, Some("nothing")), "no column `nothing`"),
        (existing("kinds.numbers", None, Some("n")), "no text"),
    ] {
        let error = store.prepare(&layout, Prepare::ReadOnly).unwrap_err();
        assert!(matches!(&error, StoreError::NotSupported(text) if text.contains(part)), "{error}");
    }
    store.close().unwrap();
    cql.run("DROP KEYSPACE kinds");
}

fn their_column_of_documents_is_written(server: &Server) {
    let cql = Cql::new(server);
    for statement in [
        "CREATE KEYSPACE written WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE written.t (id text PRIMARY KEY, doc text, other int)",
        "INSERT INTO written.t (id, doc, other) VALUES ('a', '{\"n\":1}', 9)",
    ] {
        cql.run(statement);
    }
    let store = open(server, "?keyspace=written");
    store.prepare(&existing("t", None, Some("doc")), Prepare::WriteExisting).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    driven.call(Op::Upsert { key: "a", body: b"{\"n\":2}" }).unwrap();
    assert_eq!(driven.call(Op::Insert { key: "a", body: b"{}" }).unwrap_err().kind, ErrorKind::Conflict);
    driven.call(Op::Insert { key: "b", body: b"{}" }).unwrap();
    driven.call(Op::MergePatch { key: "a", patch: b"{\"m\":3}" }).unwrap();
    assert_eq!(driven.call(Op::Replace { key: "c", body: b"{}" }).unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(read(&mut driven, "a"), json!({ "n": 2, "m": 3 }));
    driven.call(Op::Delete { key: "b" }).unwrap();
    assert_eq!(cql.run("SELECT id, other FROM written.t"), ["[Some(Text(\"a\")), Some(Int(9))]"]);
    assert_eq!(cql.run("SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'written'").len(), 1);
    store.close().unwrap();
    cql.run("DROP KEYSPACE written");
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

fn several_sessions_write_together(server: &Server) {
    let store = open(server, "");
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let mut one = Driven::open(&*store, Durability::MEMORY).unwrap();
    // An insert and then an upsert of each key: the later one stays, although only one is a lightweight transaction.
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

/// A server that syncs before it acknowledges, and that wants a password.
#[test]
fn what_a_batch_commit_log_acknowledged_survives_a_kill() {
    let server = Server::start_with("cassandra", &["--password", "right one", "--option=commitlog_sync: batch"]);
    let url = |password: &str| format!("cassandra://{password}127.0.0.1:{}", server.port);
    let password = "storebench:right%20one@";
    for (wrong, part) in [("storebench:wr%20ng@", "refused the login"), ("", "wants a login")] {
        let error = storebench_stores::open(&url(wrong)).unwrap().inspect().unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, StoreError::Unreachable(_)) && text.contains(part), "{text}");
        assert!(!text.contains("wr ng") && !text.contains("wr%20ng"), "{text}");
    }
    let store = storebench_stores::open(&url(password)).unwrap();
    store.inspect().unwrap();
    let levels: Vec<String> = store.capabilities().durability.iter().map(|(level, _)| level.to_string()).collect();
    assert_eq!(levels, ["fsync", "acknowledged by majority, persisted disk on 1"]);
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    assert!(Driven::open(&*store, Durability::MEMORY).is_err(), "the server always syncs");
    let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
    let mut acknowledged = Vec::new();
    for n in 0..200 {
        let key = format!("k{n}");
        driven.call(Op::Upsert { key: &key, body: b"{}" }).unwrap();
        acknowledged.push(key);
    }
    // Of what is in flight, nothing is known, except what was acknowledged.
    let keys: Vec<String> = (0..500).map(|n| format!("f{n}")).collect();
    for (n, key) in keys.iter().enumerate() {
        match n % 2 {
            0 => driven.submit(Op::Upsert { key, body: b"{}" }),
            _ => driven.submit(Op::Insert { key, body: b"{}" }),
        };
    }
    driven.wait(Duration::from_millis(1), |_| false);
    server.kill();
    for (token, answer) in driven.finish(500) {
        match answer {
            Ok(_) => acknowledged.push(keys[usize::try_from(token.0).unwrap() - 201].clone()),
            Err(error) => assert!(
                matches!(error.kind, ErrorKind::OutcomeUnknown | ErrorKind::Temporary),
                "neither unknown nor temporary: {error}"
            ),
        }
    }
    // The first call may have been on its way when the client heard of the kill. Each later one was never sent.
    let mut away = || driven.call(Op::Upsert { key: "away", body: b"{}" }).unwrap_err();
    let first = away();
    assert!(matches!(first.kind, ErrorKind::OutcomeUnknown | ErrorKind::Temporary), "{first}");
    let later = away();
    assert_eq!(later.kind, ErrorKind::Temporary, "{later}");
    server.restart();
    for key in &acknowledged {
        driven.call_again(Op::Read { key }).unwrap_or_else(|error| panic!("{key} was acknowledged: {error}"));
    }
    assert!(driven.counters().disconnects >= 1);
    drop(driven);
    store.remove().unwrap();
    store.close().unwrap();
}
