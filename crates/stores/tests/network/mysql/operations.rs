//! Keys, sizes, bulk operations and plans.

use storebench_engine::store::{
    BatchBuf, BulkWrite, CollectionId, Durability, ErrorKind, Op, Prepare, Request, SessionOptions,
};

use storebench_study::workload::Body;

use super::foreign_data::existing;
use super::sql;
use crate::driven::{Driven, layout, options};
use crate::server::Server;

fn batch(items: &[(&str, &str)]) -> BatchBuf {
    let mut batch = BatchBuf::new();
    items.iter().for_each(|(key, body)| batch.push(key, body.as_bytes()));
    batch
}

#[test]
fn keys_are_bytes_and_documents_come_back_as_written() {
    let server = Server::start("mariadb");
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
    let longest = "k".repeat(3_072);
    let keys = ["", " ", "a", "a ", "A", "á", "a\u{301}", "ß", "ss", "日本", "😀", "\u{1}", &longest];
    for (n, key) in keys.iter().enumerate() {
        let body = format!("{{\"b\":{n}.0,  \"a\": \"\\u00e9 \\\\ 😀\", \"a\":1e2}} ");
        driven.call(Op::Insert { key, body: body.as_bytes() }).unwrap_or_else(|error| panic!("{key}: {error}"));
        let read = driven.call(Op::Read { key }).unwrap();
        assert_eq!(read.as_reply().body, Some(body.as_bytes()), "{key}");
    }
    let all = driven.call(Op::Scan { start: "", end: None, limit: 100 }).unwrap();
    let read: Vec<_> = all.as_reply().rows.unwrap().iter().map(|(key, _)| key.to_owned()).collect();
    let mut expected = keys.to_vec();
    expected.sort_unstable();
    assert_eq!(read, expected, "in the order of their bytes");
    let error = driven.call(Op::Upsert { key: &format!("{longest}k"), body: b"{}" }).unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.message.contains("3,072"), "{error}");
    let error = driven.call(Op::Upsert { key: "x", body: b"\"\xff\"" }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    // A document that the server's JSON functions do not read.
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    driven.call(Op::Upsert { key: "deep", body: deep.as_bytes() }).unwrap();
    assert_eq!(driven.call(Op::Read { key: "deep" }).unwrap().as_reply().body, Some(deep.as_bytes()));
    // An update to the same value.
    assert_eq!(driven.call(Op::Replace { key: "deep", body: deep.as_bytes() }).unwrap().as_reply().documents, 1);
    assert_eq!(driven.call(Op::Upsert { key: "deep", body: deep.as_bytes() }).unwrap().as_reply().documents, 1);
}

#[test]
fn what_is_too_large_is_refused_or_split() {
    let server = Server::start_with("mariadb", &["--option=max_allowed_packet=1M"]);
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
    let text = |length: usize| format!("\"{}\"", "x".repeat(length));
    for length in [(1 << 20) - 2_000, (1 << 20) - 1_100, (1 << 20) - 1_000, 1 << 20, 20 << 20] {
        let result = driven.call(Op::Upsert { key: "large", body: text(length).as_bytes() });
        let fits = length < (1 << 20) - 1_050;
        assert_eq!(result.is_ok(), fits, "{length}: {result:?}");
        if let Err(error) = result {
            assert!(error.kind == ErrorKind::Refused && error.message.contains("max_allowed_packet"), "{error}");
        }
    }
    let (half, over) = (text(400_000), text(2_000_000));
    let items = batch(&[("a", &half), ("b", &half), ("c", &over), ("d", &half), ("e", "1")]);
    let reply = driven.call(Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() }).unwrap();
    let rejected: Vec<_> = reply.as_reply().rejects.iter().map(|reject| (reject.item, reject.error.kind)).collect();
    assert_eq!((reply.as_reply().documents, rejected), (4, vec![(2, ErrorKind::Refused)]));
    assert_eq!(driven.counters().splits, 1);
    assert_eq!(driven.counters().disconnects, 0);
    // An append whose result is too large for the server.
    assert_eq!(sql(&server, "SELECT COUNT(*) FROM documents"), "5");
    // A value of another program that is too large as Base64 is an error, and never null.
    sql(
        &server,
        "CREATE TABLE t (id INT PRIMARY KEY, b LONGBLOB); INSERT INTO t VALUES (1, REPEAT('x', 900000)), (2, NULL)",
    );
    store.prepare(&existing("t", None, None, Body::Json), Prepare::ReadOnly).unwrap();
    let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
    let error = driven.call(Op::Read { key: "1" }).unwrap_err();
    assert!(error.kind == ErrorKind::Failed && error.message.contains("max_allowed_packet"), "{error}");
    assert_eq!(driven.call(Op::Read { key: "2" }).unwrap().as_reply().body, Some(&br#"{"id":2,"b":null}"#[..]));
}

#[test]
fn items_of_a_bulk_write_that_the_server_refuses_are_rejected_alone() {
    let server = Server::start("mariadb");
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
    driven.call(Op::Insert { key: "there", body: b"0" }).unwrap();
    let mut items = BatchBuf::new();
    for key in ["a", "b", "there", "c", "b", "d"] {
        items.push(key, if key == "c" { b"\"\xff\"" } else { b"1" });
    }
    let reply = driven.call(Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() }).unwrap();
    let rejected: Vec<_> = reply.as_reply().rejects.iter().map(|reject| (reject.item, reject.error.kind)).collect();
    let expected = vec![(2, ErrorKind::Conflict), (3, ErrorKind::Refused), (4, ErrorKind::Conflict)];
    assert_eq!((reply.as_reply().documents, rejected), (3, expected));
    assert_eq!(
        sql(&server, "SELECT GROUP_CONCAT(`key`, '=', body ORDER BY `key`) FROM documents"),
        "a=1,b=1,d=1,there=0"
    );
    let reply = driven.call(Op::BulkDelete { keys: batch(&[("a", ""), ("x", ""), ("a", ""), ("d", "")]).as_batch() });
    assert_eq!(reply.unwrap().as_reply().documents, 2);
    let reply = driven.call(Op::BulkRead { keys: batch(&[("b", ""), ("x", ""), ("b", "")]).as_batch() }).unwrap();
    assert_eq!(reply.as_reply().documents, 2);
}

#[test]
fn plans_tell_an_index_from_a_whole_table() {
    let server = Server::start("mariadb");
    let store = storebench_stores::open(&server.url).unwrap();
    let mut indexed = layout();
    indexed.collections[0].indexes = vec![vec!["user".into()], vec!["Häus`\"er\\ ".into(), "user".into()]];
    store.prepare(&indexed, Prepare::Fresh).unwrap();
    let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
    let long = "ü".repeat(200);
    let mut items = BatchBuf::new();
    for n in 0..2_000 {
        let name = if n % 500 == 0 { format!("{long}{n}") } else { format!("u{}", n % 100) };
        items.push(&format!("k{n:05}"), format!("{{\"user\":\"{name}\",\"Häus`\\\"er\\\\ \":{n}}}").as_bytes());
    }
    driven.call(Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() }).unwrap();
    assert!(store.settle(std::time::Duration::from_secs(60)).unwrap());
    for (op, found, full) in [
        (Op::Page { field: "user", value: "\"u7\"", limit: 5 }, 5, false),
        (Op::Page { field: "user", value: &format!("\"{long}500\""), limit: 5 }, 1, false),
        (Op::Page { field: "Häus`\"er\\ ", value: "77", limit: 5 }, 1, false),
        (Op::Page { field: "other", value: "1", limit: 5 }, 0, true),
        (Op::Prefix { prefix: "k0001", limit: 7 }, 7, false),
        (Op::Scan { start: "k01995", end: None, limit: 100 }, 5, false),
    ] {
        assert_eq!(driven.call(op).unwrap().as_reply().documents, found, "{op:?}");
        let request = Request { collection: CollectionId(0), op, contents: true };
        let explained = store.explain(&request).unwrap().unwrap();
        assert_eq!(explained.full_scan, full, "{op:?}: {}", explained.plan);
    }
    for body in [format!("{{\"n\":{}{}}}", "[".repeat(40), "]".repeat(40)), "no json".to_owned()] {
        let error = driven.call(Op::Upsert { key: "deep", body: body.as_bytes() }).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    }
    // Indexes are added to a collection that is kept.
    indexed.collections[0].indexes.push(vec!["user".into(), "n".into()]);
    store.prepare(&indexed, Prepare::Keep).unwrap();
    store.prepare(&indexed, Prepare::Keep).unwrap();
    let plan = sql(&server, "SHOW INDEX FROM documents");
    assert!(plan.contains("of_n"), "{plan}");
    store.compact().unwrap();
}

#[test]
fn bulk_writes_of_common_keys_by_many_connections() {
    let server = Server::start("mariadb");
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout(), Prepare::Fresh).unwrap();
    let many = SessionOptions { in_flight: 8, ..options(Durability::FSYNC) };
    let mut driven = Driven::open_with(&*store, &many).unwrap();
    for round in 0..20 {
        let mut batches = Vec::new();
        for n in 0..8 {
            let mut items = BatchBuf::new();
            for i in 0..50 {
                let key = (i * 37 + n * 11 + round) % 60;
                items.push(&format!("k{key}"), b"{}");
            }
            batches.push(items);
        }
        for items in &batches {
            driven.submit(Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() });
        }
        for (_, answer) in driven.finish(8) {
            // A deadlock undoes the statement, and may be tried again.
            match answer {
                Ok(reply) => assert_eq!(reply.as_reply().documents, 50),
                Err(error) => assert_eq!(error.kind, ErrorKind::Temporary, "{error}"),
            }
        }
    }
}
