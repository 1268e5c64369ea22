//! Tables of somebody else.

use std::time::Duration;

use serde_json::json;
use storebench_engine::store::{
    CollectionLayout, CopyId, Durability, ErrorKind, Layout, Namespace, Op, Prepare, StoreError,
};

use super::{Cql, FIRST, existing, open, read, rows, rows_and_bad};
use crate::driven::{Driven, layout};
use crate::server::Server;

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

pub(super) fn their_keyspace_is_told_and_left_alone(server: &Server) {
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
        assert!(matches!(&error, StoreError::NotOurs(text) if text.contains(r#""theirs"."plain""#)), "{error}");
    }
    store.remove().unwrap();
    assert_eq!(fingerprint(&cql, "theirs"), before);
    store.close().unwrap();
    cql.run("DROP KEYSPACE theirs");
}

pub(super) fn their_rows_are_read_as_json(server: &Server) {
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
    // What JSON lacks is no null, and columns may have any name.
    for statement in [
        "CREATE TABLE kinds.odd (id double PRIMARY KEY, l list<float>, \"a\"\"b\\c\" text)",
        "INSERT INTO kinds.odd (id, l, \"a\"\"b\\c\") VALUES (1.5, [0.5], 'x')",
        "INSERT INTO kinds.odd (id, l) VALUES (NaN, [0.5])",
        "INSERT INTO kinds.odd (id, l) VALUES (2.5, [Infinity])",
    ] {
        cql.run(statement);
    }
    store.prepare(&existing("kinds.odd", None, None), Prepare::ReadOnly).unwrap();
    let (found, bad) = rows_and_bad(&*store, None, None);
    assert_eq!(found, [("1.5".to_owned(), json!({ "a\"b\\c": "x", "id": 1.5, "l": [0.5] }), None)]);
    assert_eq!(bad.len(), 2, "{bad:?}");
    assert!(bad.iter().all(|row| row.contains("infinite")), "{bad:?}");
    for statement in [
        "CREATE TABLE kinds.maps (id int PRIMARY KEY, m map<double, text>)",
        "INSERT INTO kinds.maps (id, m) VALUES (1, {1.5: 'a'})",
        "INSERT INTO kinds.maps (id, m) VALUES (2, {NaN: 'a'})",
    ] {
        cql.run(statement);
    }
    store.prepare(&existing("kinds.maps", None, None), Prepare::ReadOnly).unwrap();
    let (found, bad) = rows_and_bad(&*store, None, None);
    assert_eq!(found, [("1".to_owned(), json!({ "id": 1, "m": { "1.5": "a" } }), None)]);
    assert!(bad.len() == 1 && bad[0].contains("infinite"), "{bad:?}");
    // A year before 1 is another one, and each row is found by its key.
    let moments = [-70_000_000_000_000_i64, -54_000_000_000_000, -14_000_000_000_000, 1_704_164_645_678];
    cql.run("CREATE TABLE kinds.moments (id timestamp PRIMARY KEY, n bigint, at timestamp)");
    for moment in moments {
        cql.run(&format!("INSERT INTO kinds.moments (id, n, at) VALUES ({moment}, {moment}, {moment})"));
    }
    cql.run("INSERT INTO kinds.moments (id, n) VALUES ('0250-10-15 19:33:20+0000', 0)");
    store.prepare(&existing("kinds.moments", None, None), Prepare::ReadOnly).unwrap();
    let mut found = rows(&*store, None, None);
    found.sort_by_key(|(_, row, _)| row["n"].as_i64());
    let keys: Vec<&str> = found.iter().map(|(key, ..)| key.as_str()).collect();
    assert_eq!(keys[0], "-0249-10-15 19:33:20.000Z");
    assert_eq!(keys[3..], ["0250-10-15 19:33:20.000Z", "2024-01-02 03:04:05.678Z"]);
    assert!(found[0].1["at"] == keys[0] && found[3].1["at"].is_null(), "{found:?}");
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    for (key, row, _) in &found[1..] {
        assert_eq!(read(&mut driven, key), *row);
    }
    // The server parses no year before 1.
    assert_eq!(driven.call(Op::Read { key: keys[0] }).unwrap_err().kind, ErrorKind::Refused);
    drop(driven);
    // What is masked is not the data.
    cql.run("CREATE TABLE kinds.masked (id int PRIMARY KEY, n int MASKED WITH DEFAULT)");
    // What is wrong is told with the columns.
    for (layout, part) in [
        (existing("kinds.none", None, None), "no table `kinds.none`"),
        (existing("kinds.people", Some("id"), None), "alone is not its primary key"),
        (existing("kinds.people", None, Some("nothing")), "no column `nothing`"),
        (existing("kinds.numbers", None, Some("n")), "has the type int"),
        (existing("kinds.masked", None, None), "`n` is masked"),
    ] {
        let error = store.prepare(&layout, Prepare::ReadOnly).unwrap_err();
        assert!(matches!(&error, StoreError::NotSupported(text) if text.contains(part)), "{error}");
    }
    store.close().unwrap();
    cql.run("DROP KEYSPACE kinds");
}

pub(super) fn their_column_of_documents_is_written(server: &Server) {
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
    drop(driven);
    // A document that is null is told, and not waited for.
    cql.run("INSERT INTO written.t (id, other) VALUES ('null', 9)");
    store.prepare(&existing("t", None, Some("doc")), Prepare::WriteExisting).unwrap();
    let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
    let error = driven.call(Op::MergePatch { key: "null", patch: b"{}" }).unwrap_err();
    assert!(error.message.contains("null"), "{error}");
    drop(driven);
    // Keys of which the server would make others, and documents that it would remove.
    for (definition, part) in [
        ("id double PRIMARY KEY, doc text)", "has the type double"),
        ("id decimal PRIMARY KEY, doc text)", "has the type decimal"),
        ("id int, other int, doc text, PRIMARY KEY (id, other))", "several columns"),
        ("id int PRIMARY KEY, doc text) WITH default_time_to_live = 20", "after so many seconds"),
    ] {
        cql.run(&format!("CREATE TABLE written.no ({definition}"));
        let error = store.prepare(&existing("no", None, Some("doc")), Prepare::WriteExisting).unwrap_err();
        assert!(matches!(&error, StoreError::NotSupported(text) if text.contains(part)), "{error}");
        cql.run("DROP TABLE written.no");
    }
    // Digits that no number of ours has, and a UUID in the form that verifying asks for.
    for (of, keys) in [
        ("varint", ["123456789012345678901234567890", "123456789012345678901234567891"]),
        ("uuid", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    ] {
        cql.run(&format!("CREATE TABLE written.\"{of}\" (id {of} PRIMARY KEY, doc text)"));
        store.prepare(&existing(of, None, Some("doc")), Prepare::WriteExisting).unwrap();
        let mut driven = Driven::open(&*store, Durability::MEMORY).unwrap();
        for key in keys {
            driven.call(Op::Insert { key, body: format!("\"{key}\"").as_bytes() }).unwrap();
        }
        for key in keys {
            assert_eq!(read(&mut driven, &store.same_keys(FIRST).fold(key)), key);
        }
        let mut found: Vec<String> = rows(&*store, None, None).into_iter().map(|(key, ..)| key).collect();
        found.sort();
        assert_eq!(found, keys);
        // A text in JSON is not the key that it contains.
        for other in [format!("\"{}\"", keys[0]), format!("\"\\u00{:x}{}\"", keys[0].as_bytes()[0], &keys[0][1..])] {
            let error = driven.call(Op::Upsert { key: &other, body: b"1" }).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Refused, "{other}: {error}");
        }
        assert_eq!(read(&mut driven, keys[0]), keys[0]);
    }
    // What Storebench made, in whatever keyspace, is not written as somebody else's.
    let ours = open(server, "?keyspace=ours");
    ours.prepare(&layout(), Prepare::Fresh).unwrap();
    for (name, document) in [("ours.documents", "body"), ("ours.storebench_marker", "marker")] {
        let error = store.prepare(&existing(name, None, Some(document)), Prepare::WriteExisting).unwrap_err();
        assert!(matches!(&error, StoreError::NotSupported(text) if text.contains("Storebench made")), "{error}");
    }
    ours.remove().unwrap();
    store.close().unwrap();
    cql.run("DROP KEYSPACE written");
}
