//! Tests beyond the conformance suite: bad items of a bulk write, plans, statistics.

use storebench_engine::store::{BatchBuf, BulkWrite, CollectionId, ErrorKind, Op, Prepare, Request};

use super::talk::{Talk, layout, options, sql};
use crate::server::Server;

fn batch(items: &[(&str, &str)]) -> BatchBuf {
    let mut batch = BatchBuf::new();
    for (key, body) in items {
        batch.push(key, body.as_bytes());
    }
    batch
}

#[test]
fn one_bad_document_of_a_bulk_write_is_rejected_alone() {
    let server = Server::start("postgres");
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut talk = Talk::open(&*store, &options()).unwrap();
    let items = batch(&[("a", "{}"), ("b", r#"{"t":"\u0000"}"#), ("c", "{"), ("d", r#"{"n":1}"#), ("e", "{}")]);
    for kind in [BulkWrite::Insert, BulkWrite::Upsert] {
        sql(&server, "DELETE FROM storebench.users");
        let reply = talk.run(Op::BulkWrite { kind, items: items.as_batch() }).unwrap();
        let reply = reply.as_reply();
        let rejected: Vec<usize> = reply.rejects.iter().map(|reject| reject.item).collect();
        assert_eq!((reply.documents, rejected), (3, vec![1, 2]), "{kind:?}");
        assert!(reply.rejects.iter().all(|reject| reject.error.kind == ErrorKind::Refused), "{:?}", reply.rejects);
        assert!(reply.rejects[0].error.message.contains("\\u0000"), "{:?}", reply.rejects);
        assert_eq!(sql(&server, "SELECT string_agg(key, '' ORDER BY key) FROM storebench.users"), "ade");
    }
    assert_eq!(talk.counters().splits, 0, "nothing was too large");
    let error = talk.run(Op::Upsert { key: "b", body: br#"{"t":"\u0000"}"# }).unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.message.contains("leave it out"), "{error}");
    let error = talk.run(Op::Upsert { key: "a\0b", body: b"{}" }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    let error = talk.run(Op::Upsert { key: &random_text(9_000), body: b"{}" }).unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.message.contains("2,704 bytes"), "{error}");
}

/// Text that does not compress.
fn random_text(length: usize) -> String {
    let mut state = 435_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'0' + ((state >> 58) as u8))
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn of_two_items_with_one_key_the_later_one_stays() {
    let server = Server::start("postgres");
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut talk = Talk::open(&*store, &options()).unwrap();
    let items = batch(&[("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("b", "5"), ("a", "6"), ("d", "7")]);
    let reply = talk.run(Op::BulkWrite { kind: BulkWrite::Upsert, items: items.as_batch() }).unwrap();
    assert_eq!((reply.as_reply().documents, reply.as_reply().rejects.len()), (7, 0));
    let held: Vec<_> = ["a", "b", "c", "d"].map(|key| talk.read(key).unwrap()).into();
    assert_eq!(held, ["6", "5", "4", "7"]);
    let reply = talk.run(Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() }).unwrap();
    assert_eq!((reply.as_reply().documents, reply.as_reply().rejects.len()), (0, 7));
}

#[test]
fn plans_tell_an_index_from_a_whole_table() {
    let server = Server::start("postgres");
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let mut talk = Talk::open(&*store, &options()).unwrap();
    for first in (0..20_000).step_by(1_000) {
        let mut items = BatchBuf::new();
        for i in first..first + 1_000 {
            items.push(&format!("users/{i:06}"), format!(r#"{{"user":"u{}","n":{i}}}"#, i % 500).as_bytes());
        }
        talk.run(Op::BulkWrite { kind: BulkWrite::Insert, items: items.as_batch() }).unwrap();
    }
    assert!(store.settle(std::time::Duration::from_secs(60)).unwrap());
    for (op, full_scan) in [
        (Op::Page { field: "user", value: r#""u7""#, limit: 10 }, false),
        (Op::Page { field: "n", value: "7", limit: 10 }, true),
        (Op::Prefix { prefix: "users/0001", limit: 10 }, false),
        (Op::Scan { start: "users/000500", end: None, limit: 10 }, false),
        (Op::Scan { start: "it's", end: Some("users/000500"), limit: 10 }, false),
        (Op::Scan { start: "it's $20 \\", end: Some("users/000500"), limit: 10 }, false),
        (Op::Page { field: "user", value: "\"it's $1\"", limit: 10 }, false),
    ] {
        let request = Request { collection: CollectionId(0), op, contents: true };
        let plan = store.explain(&request).unwrap().unwrap();
        assert_eq!(plan.full_scan, full_scan, "{op:?}: {}", plan.plan);
    }
    let stats = store.stats().unwrap();
    let value = |name: &str| stats.iter().find(|(n, _)| n == name).map(|(_, value)| *value);
    for name in ["wal_bytes", "table_bytes", "index_bytes", "cache_miss_share", "checkpoints_requested", "dead_rows"] {
        assert!(value(name).is_some(), "{name} is missing from {stats:?}");
    }
    assert_eq!(value("live_rows"), Some(20_000.0));
    assert!(store.describe().version.starts_with("PostgreSQL 15."));
    // The connection that `stats` keeps is lost with the server, and `stats` reconnects.
    server.kill();
    server.restart();
    assert!(!store.stats().unwrap().is_empty());
    store.compact().unwrap();
}

#[test]
fn how_the_server_is_set_up_is_told() {
    let options = ["--option", "shared_buffers=24MB", "--option", "vacuum_cost_limit=300"];
    let server = Server::start_with("postgres", &options);
    let store = storebench_stores::open(&server.url).unwrap();
    sql(&server, "ALTER SYSTEM SET random_page_cost = 1.5");
    sql(&server, "ALTER DATABASE storebench SET work_mem = '7MB'");
    sql(&server, "SELECT pg_reload_conf()");
    while sql(&server, "SHOW random_page_cost") != "1.5" {}
    let told = store.own_settings().unwrap();
    assert_eq!(told.memory_bytes, Some(24 << 20));
    let of = |name: &str| told.all.iter().find(|of| of.name == name).map(|of| (of.value.as_str(), of.changed));
    for (name, value, changed) in [
        ("shared_buffers", "24MB", true),
        ("vacuum_cost_limit", "300", true),
        ("random_page_cost", "1.5", true),
        ("work_mem", "7MB", true),
        ("fsync", "on", false),
        // `initdb` writes it, with the value that it has anyway.
        ("max_wal_size", "1GB", false),
        // The server has computed it.
        ("wal_buffers", "768kB", false),
    ] {
        assert_eq!(of(name), Some((value, Some(changed))), "{name}");
    }
    for name in ["port", "listen_addresses", "data_directory", "lc_messages", "lock_timeout", "application_name"] {
        assert_eq!(of(name), None, "{name}");
    }
    assert!(told.all.iter().all(|of| !of.value.contains('/')), "{told:?}");
}

/// Sessions write the same keys in bulk, in opposite orders. In the given order they would deadlock, and PostgreSQL
/// would report an error (40P01).
#[test]
fn bulk_writes_of_common_keys_do_not_deadlock() {
    let server = Server::start("postgres");
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    let body = format!(r#"{{"text":"{}"}}"#, "x".repeat(500));
    let write = |backwards: bool, round: usize| {
        let keys: Vec<String> = (0..300).map(|i| format!("k{i:03}")).collect();
        let mut items = BatchBuf::new();
        let mut push = |key: &String| items.push(key, body.as_bytes());
        if backwards {
            keys.iter().rev().for_each(&mut push)
        } else {
            keys.iter().for_each(&mut push)
        }
        let mut talk = Talk::open(&*store, &options()).unwrap();
        for i in 0..round {
            let items = items.as_batch();
            let op = match i % 4 {
                0 | 1 => Op::BulkWrite { kind: BulkWrite::Upsert, items },
                2 => Op::BulkDelete { keys: items },
                _ => Op::BulkWrite { kind: BulkWrite::Insert, items },
            };
            let reply = talk.run(op).unwrap_or_else(|error| panic!("{:?} {i}: {error}", op.kind()));
            let refused = reply.as_reply().rejects.iter().find(|reject| reject.error.kind != ErrorKind::Conflict);
            assert!(refused.is_none(), "{:?} {i}: {refused:?}", op.kind());
        }
    };
    std::thread::scope(|scope| {
        for session in 0..4 {
            scope.spawn(move || write(session % 2 == 1, 60));
        }
    });
    assert_eq!(sql(&server, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"), "0");
}
