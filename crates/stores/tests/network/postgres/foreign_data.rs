//! Storebench never changes data that it does not own.

use storebench_engine::store::{
    BatchBuf, BulkWrite, CollectionId, CollectionLayout, Durability, ErrorKind, Existing, Layout, Namespace, Op,
    Prepare, StoreError,
};
use storebench_study::workload::Body;

use super::talk::{Talk, keys, layout, options, sql};
use crate::driven::Driven;
use crate::server::Server;

/// An existing table with a thousand books.
const BOOKS: &str = "CREATE TABLE books (id integer PRIMARY KEY, title text NOT NULL, body jsonb NOT NULL); \
    INSERT INTO books SELECT i, 'title ' || i, jsonb_build_object('user', 'u' || i % 10, 'n', i) \
    FROM generate_series(1, 1000) AS i";

/// Everything that Storebench does not own: names, files and contents.
fn theirs(server: &Server) -> String {
    sql(
        server,
        "SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM books t; \
         SELECT string_agg(c.oid || c.relname || c.relfilenode || c.reltuples, ',' ORDER BY c.oid) FROM pg_class c \
           JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'; \
         SELECT string_agg(nspname, ',' ORDER BY nspname) FROM pg_namespace; \
         SELECT count(*) FROM pg_proc; \
         SELECT n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_user_tables WHERE relname = 'books'",
    )
}

#[test]
fn a_database_of_others_is_refused_and_untouched() {
    let server = Server::start("postgres");
    sql(&server, BOOKS);
    sql(&server, "ANALYZE books");
    let before = theirs(&server);
    for query in ["", "?schema=public"] {
        let store = storebench_stores::open(&format!("{}{query}", server.url)).unwrap();
        let Namespace::Foreign(what) = store.inspect().unwrap() else { panic!("foreign data was taken for ours") };
        assert!(what.contains("books") && what.contains("storebench"), "{what}");
        for how in [Prepare::Fresh, Prepare::Keep] {
            let error = store.prepare(&layout("users"), how).unwrap_err();
            assert!(matches!(error, StoreError::NotOurs(_)), "{error:?}");
            assert!(error.to_string().contains("--into-existing"), "{error}");
        }
        assert!(store.prepare(&layout("users"), Prepare::ReadOnly).is_err());
        store.remove().unwrap();
        assert_eq!(theirs(&server), before);
    }
}

#[test]
fn beside_theirs_only_ours_comes_and_goes() {
    let server = Server::start("postgres");
    sql(&server, BOOKS);
    sql(&server, "ANALYZE books");
    let before = theirs(&server);
    for query in ["", "?schema=public"] {
        let url = format!("{}{query}", server.url);
        let store = storebench_stores::open(&url).unwrap();
        store.prepare(&layout("users"), Prepare::IntoExisting).unwrap();
        Talk::open(&*store, &options()).unwrap().upsert("u1", r#"{"user": "a"}"#);
        let again = storebench_stores::open(&url).unwrap();
        again.prepare(&layout("users"), Prepare::IntoExisting).unwrap();
        assert_eq!(Talk::open(&*again, &options()).unwrap().read("u1").as_deref(), Some(r#"{"user": "a"}"#));
        // A schema that Storebench created stays its own. An existing one stays foreign.
        let ours = query.is_empty();
        assert_eq!(again.inspect().unwrap() == Namespace::Ours, ours);
        assert_eq!(again.prepare(&layout("users"), Prepare::Fresh).is_ok(), ours);
        again.remove().unwrap();
        assert_eq!(theirs(&server), before, "{query}");
    }
    let store = storebench_stores::open(&format!("{}?schema=public", server.url)).unwrap();
    let error = store.prepare(&layout("books"), Prepare::IntoExisting).unwrap_err();
    assert!(matches!(error, StoreError::NotOurs(_)) && error.to_string().contains("books"), "{error}");
    assert_eq!(theirs(&server), before);
}

#[test]
fn what_others_add_to_ours_survives() {
    let server = Server::start("postgres");
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&layout("users"), Prepare::Fresh).unwrap();
    // From another schema, it is not written as somebody else's.
    let other = storebench_stores::open(&format!("{}?schema=other", server.url)).unwrap();
    let as_theirs = existing("storebench.users", None, Some("doc"));
    let error = other.prepare(&as_theirs, Prepare::WriteExisting).unwrap_err();
    assert!(error.to_string().contains("leave out --into-existing"), "{error}");
    sql(&server, "CREATE VIEW storebench.mine AS SELECT count(*) FROM storebench.users");
    assert!(matches!(store.inspect().unwrap(), Namespace::Foreign(_)));
    assert!(matches!(store.prepare(&layout("users"), Prepare::Fresh), Err(StoreError::NotOurs(_))));
    // The view depends on the table, so neither is removed.
    let error = store.remove().unwrap_err();
    assert!(matches!(error, StoreError::NotOurs(_)), "{error:?}");
    assert_eq!(sql(&server, "SELECT * FROM storebench.mine"), "0");
    sql(&server, "DROP VIEW storebench.mine; CREATE TABLE storebench.notes AS SELECT 'mine' AS text");
    store.remove().unwrap();
    assert_eq!(sql(&server, "SELECT text FROM storebench.notes"), "mine");
    assert_eq!(sql(&server, "SELECT to_regclass('storebench.users') IS NULL"), "t");
}

pub(super) fn existing(name: &str, key: Option<&str>, body: Option<&str>) -> Layout {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let existing = Existing { name: name.into(), key: owned(key), body: owned(body) };
    let collection = CollectionLayout {
        name: "theirs".into(),
        body: Body::Json,
        indexes: Vec::new(),
        existing: Some(existing),
        uses: storebench_engine::store::Uses::ALL,
    };
    Layout { collections: vec![collection] }
}

#[test]
fn their_documents_are_read_and_sampled_and_nothing_changes() {
    let server = Server::start("postgres");
    sql(&server, BOOKS);
    sql(&server, "ANALYZE books");
    let before = theirs(&server);
    for (name, body, document) in [
        ("public.books", Some("body"), r#"{"n": 7, "user": "u7"}"#),
        ("books", None, r#"{"id": 7, "body": {"n": 7, "user": "u7"}, "title": "title 7"}"#),
    ] {
        let store = storebench_stores::open(&server.url).unwrap();
        let layout = existing(name, None, body);
        assert!(store.prepare(&layout, Prepare::Keep).is_err(), "an existing table is read-only");
        store.prepare(&layout, Prepare::ReadOnly).unwrap();
        let mut talk = Talk::open(&*store, &options()).unwrap();
        assert_eq!(talk.read("7").as_deref(), Some(document));
        assert_eq!(talk.read("1001"), None);
        let keys_sampled = store.sample_keys(CollectionId(0), 100, 435).unwrap();
        assert_eq!(keys_sampled, store.sample_keys(CollectionId(0), 100, 435).unwrap());
        assert_ne!(keys_sampled, store.sample_keys(CollectionId(0), 100, 436).unwrap());
        assert_eq!(keys_sampled.len(), 100);
        assert!(keys_sampled.iter().all(|key| talk.read(key).is_some()));
        let (field, value) = if body.is_some() { ("user", r#""u3""#) } else { ("title", r#""title 3""#) };
        let page = talk.run(Op::Page { field, value, limit: 1 }).unwrap();
        assert_eq!(keys(page.as_reply().rows), [if body.is_some() { "103" } else { "3" }], "in text order");
        let prefix = talk.run(Op::Prefix { prefix: "99", limit: 4 }).unwrap();
        assert_eq!(keys(prefix.as_reply().rows), ["99", "990", "991", "992"]);
        for op in [Op::Upsert { key: "7", body: b"{}" }, Op::Delete { key: "7" }] {
            assert_eq!(talk.run(op).unwrap_err().kind, ErrorKind::Refused);
        }
        store.remove().unwrap();
        store.close().unwrap();
    }
    assert_eq!(theirs(&server), before);
    let store = storebench_stores::open(&server.url).unwrap();
    for (layout, told) in [
        (existing("public.bookz", None, None), "there is no table"),
        (existing("books", Some("isbn"), None), "id, title, body"),
        (existing("books", None, Some("id")), "type integer"),
    ] {
        let error = store.prepare(&layout, Prepare::ReadOnly).unwrap_err();
        assert!(matches!(error, StoreError::NotSupported(_)) && error.to_string().contains(told), "{error}");
    }
}

#[test]
fn rows_that_a_policy_hides_are_not_left_out_silently() {
    let server = Server::start("postgres");
    sql(&server, BOOKS);
    sql(
        &server,
        "CREATE POLICY first ON books USING (id < 500); CREATE ROLE ann LOGIN PASSWORD 'ann'; GRANT SELECT ON books TO ann",
    );
    let url = server.url.replace("storebench:storebench@", "ann:ann@");
    let store = storebench_stores::open(&url).unwrap();
    let layout = existing("books", None, Some("body"));
    store.prepare(&layout, Prepare::ReadOnly).unwrap();
    let mut talk = Talk::open(&*store, &options()).unwrap();
    assert!(talk.read("700").is_some());
    sql(&server, "ALTER TABLE books ENABLE ROW LEVEL SECURITY");
    let error = talk.run(Op::Scan { start: "", end: None, limit: 10 }).unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.message.contains("BYPASSRLS"), "{error}");
    let opened = Talk::open(&*store, &options()).map(drop);
    for told in [opened.unwrap_err(), store.prepare(&layout, Prepare::ReadOnly).unwrap_err()] {
        assert!(matches!(&told, StoreError::NotSupported(text) if text.contains("BYPASSRLS")), "{told:?}");
    }
    sql(&server, "ALTER ROLE ann BYPASSRLS");
    store.prepare(&layout, Prepare::ReadOnly).unwrap();
    assert!(Talk::open(&*store, &options()).unwrap().read("700").is_some());
}

#[test]
fn a_sample_of_a_large_table_comes_from_all_over_it() {
    let server = Server::start("postgres");
    sql(
        &server,
        "CREATE TABLE large (id integer PRIMARY KEY, body text NOT NULL); \
         INSERT INTO large SELECT i, repeat(md5(i::text), 12) FROM generate_series(1, 40000) AS i; ANALYZE large",
    );
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&existing("large", None, None), Prepare::ReadOnly).unwrap();
    let sampled = store.sample_keys(CollectionId(0), 400, 1).unwrap();
    assert_eq!(sampled.len(), 400);
    let numbers: Vec<u32> = sampled.iter().map(|key| key.parse().unwrap()).collect();
    for tenth in 0..10 {
        let there = numbers.iter().filter(|n| **n / 4_001 == tenth).count();
        assert!(there > 0, "none of 400 keys are from tenth {tenth}");
    }
}

#[test]
fn keys_that_a_column_would_change_are_not_written() {
    let server = Server::start("postgres");
    sql(&server, "CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)");
    sql(&server, "CREATE DOMAIN of_mine AS integer");
    let open = |sql_type: &str| {
        sql(&server, &format!("DROP TABLE IF EXISTS t; CREATE TABLE t (id {sql_type} PRIMARY KEY, doc jsonb)"));
        let store = storebench_stores::open(&server.url).unwrap();
        store.prepare(&existing("t", None, Some("doc")), Prepare::WriteExisting).map(|()| store)
    };
    for sql_type in [
        "numeric(10,2)",
        "name",
        "text COLLATE any_case",
        "of_mine",
        "date",
        "timestamptz",
        "interval",
        "boolean",
        "bytea",
        "real",
    ] {
        let error = open(sql_type).map(drop).unwrap_err();
        assert!(
            matches!(&error, StoreError::NotSupported(text) if text.contains("only be read")),
            "{sql_type}: {error}"
        );
    }
    let store = open("text").unwrap();
    sql(&server, "CREATE UNIQUE INDEX ON t (id COLLATE any_case)");
    let error = store.prepare(&existing("t", None, Some("doc")), Prepare::WriteExisting).unwrap_err();
    assert!(error.to_string().contains("takes different texts for one"), "{error}");
    for (sql_type, key) in [("numeric", "1.001"), ("text", "a "), ("char(3)", "abc")] {
        let mut talk = Driven::open(&*open(sql_type).unwrap(), Durability::FSYNC).unwrap();
        talk.call(Op::Upsert { key, body: b"{}" }).unwrap();
    }
    let mut driven = Driven::open(&*open("varchar(3)").unwrap(), Durability::FSYNC).unwrap();
    driven.call(Op::Upsert { key: "äbc", body: b"{}" }).unwrap();
    for op in [Op::Upsert { key: "äbc ", body: b"[]" }, Op::Insert { key: "abc ", body: b"[]" }] {
        assert_eq!(driven.call(op).unwrap_err().kind, ErrorKind::Refused);
    }
    assert_eq!(driven.call(Op::Delete { key: "äbc " }).unwrap_err().kind, ErrorKind::NotFound);
    for kind in [BulkWrite::Insert, BulkWrite::Upsert] {
        let mut items = BatchBuf::new();
        ["xyz  ", "a  ", "a"].iter().for_each(|key| items.push(key, b"[]"));
        let reply = driven.call(Op::BulkWrite { kind, items: items.as_batch() }).unwrap();
        let rejected: Vec<usize> = reply.as_reply().rejects.iter().map(|reject| reject.item).collect();
        assert!(rejected.contains(&0) && (kind == BulkWrite::Insert || rejected.len() == 1), "{rejected:?}");
        let keys = "SELECT string_agg(quote_literal(id), ' ' ORDER BY id COLLATE \"C\") FROM t";
        assert_eq!(sql(&server, keys).trim(), "'a' 'a  ' 'äbc'");
        sql(&server, "DELETE FROM t WHERE id <> 'äbc'");
    }
    drop(driven);
    // JSON in a row keeps its text.
    sql(
        &server,
        r#"DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, doc json[]); INSERT INTO t VALUES (1, ARRAY['{"a":1e5,"a":"\u0000"}'::json])"#,
    );
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&existing("t", None, None), Prepare::ReadOnly).unwrap();
    let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
    let row = driven.call(Op::Read { key: "1" }).unwrap();
    assert_eq!(
        row.as_reply().body.map(String::from_utf8_lossy).as_deref(),
        Some(r#"{"id":1,"doc":[{"a":1e5,"a":"\u0000"}]}"#)
    );
}
