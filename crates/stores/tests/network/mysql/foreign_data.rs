//! Storebench never changes data that it does not own, and reads tables of others.

use storebench_engine::store::{
    AnyStore, BatchBuf, CollectionId, CollectionLayout, Durability, ErrorKind, Existing, Layout, Namespace, Op,
    Prepare, RowPage, Rows, SameKeys, StoreError, Uses,
};
use storebench_study::workload::Body;

use super::sql;
use crate::driven::{Driven, layout};
use crate::server::Server;

const ALL: CollectionId = CollectionId(0);

/// An existing table with a thousand books.
const BOOKS: &str = "CREATE TABLE books (id INT PRIMARY KEY, title TEXT NOT NULL, body JSON NOT NULL) COMMENT 'theirs'; \
    INSERT INTO books SELECT seq, CONCAT('title ', seq), JSON_OBJECT('user', CONCAT('u', seq % 10), 'n', seq) \
    FROM seq_1_to_1000; CREATE VIEW titles AS SELECT title FROM books";

/// Everything that Storebench does not own.
fn theirs(server: &Server) -> String {
    sql(
        server,
        "CHECKSUM TABLE books; SHOW CREATE TABLE books; SHOW DATABASES; SHOW FULL TABLES; \
         SELECT * FROM books ORDER BY id; SELECT CREATE_TIME FROM information_schema.TABLES WHERE TABLE_NAME = 'books'",
    )
}

#[test]
fn a_database_of_others_is_refused_and_untouched() {
    let server = Server::start("mariadb");
    sql(&server, BOOKS);
    let before = theirs(&server);
    let store = storebench_stores::open(&server.url).unwrap();
    let Namespace::Foreign(what) = store.inspect().unwrap() else { panic!("foreign data was taken for ours") };
    assert!(what.contains("books") && what.contains("storebench"), "{what}");
    for how in [Prepare::Fresh, Prepare::Keep, Prepare::Discard] {
        let error = store.prepare(&layout(), how).unwrap_err();
        assert!(matches!(error, StoreError::NotOurs(_)) && error.to_string().contains("--into-existing"), "{error:?}");
    }
    assert!(store.prepare(&layout(), Prepare::ReadOnly).is_err());
    store.remove().unwrap();
    assert_eq!(theirs(&server), before);
    // Beside theirs, only ours comes and goes.
    store.prepare(&layout(), Prepare::IntoExisting).unwrap();
    let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
    driven.call(Op::Upsert { key: "u1", body: b"{}" }).unwrap();
    assert!(matches!(store.prepare(&layout(), Prepare::Fresh), Err(StoreError::NotOurs(_))));
    // From another database, it is not written as somebody else's.
    let other = format!("{}other", server.url.strip_suffix("storebench").unwrap());
    let other = storebench_stores::open(&other).unwrap();
    let as_theirs = existing("storebench.documents", None, Some("body"), Body::Json);
    let error = other.prepare(&as_theirs, Prepare::WriteExisting).unwrap_err();
    assert!(error.to_string().contains("leave out --into-existing"), "{error}");
    // A copy of our table has our comment, and is theirs. So is a table of ours that was renamed.
    sql(&server, "CREATE TABLE mine LIKE documents; INSERT INTO mine (`key`, body) SELECT `key`, body FROM documents");
    store.remove().unwrap();
    assert_eq!(sql(&server, "SELECT body FROM mine; DROP TABLE mine"), "{}");
    assert_eq!(theirs(&server), before);
    store.prepare(&layout(), Prepare::IntoExisting).unwrap();
    sql(&server, "RENAME TABLE documents TO kept");
    store.remove().unwrap();
    assert_eq!(sql(&server, "SELECT COUNT(*) FROM kept; DROP TABLE kept"), "0");
    let mut named = layout();
    named.collections[0].name = "books".into();
    let error = store.prepare(&named, Prepare::IntoExisting).unwrap_err();
    assert!(matches!(error, StoreError::NotOurs(_)) && error.to_string().contains("books"), "{error}");
    assert_eq!(theirs(&server), before);
}

pub(super) fn existing(name: &str, key: Option<&str>, body: Option<&str>, kind: Body) -> Layout {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let existing = Some(Existing { name: name.into(), key: owned(key), body: owned(body) });
    let (name, indexes) = ("theirs".to_owned(), Vec::new());
    Layout { collections: vec![CollectionLayout { name, body: kind, indexes, existing, uses: Uses::ALL }] }
}

fn rows(store: &dyn AnyStore, start: Option<&str>, end: Option<&str>) -> Vec<(String, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut stream = store.rows(Rows::Range { collection: ALL, start, end }).await.unwrap();
        let (mut page, mut rows) = (RowPage::default(), Vec::new());
        while stream.next(&mut page).await.unwrap() {
            assert!(page.bad.is_empty(), "{:?}", page.bad);
            let text = |body: &[u8]| String::from_utf8(body.to_vec()).unwrap();
            rows.extend(page.rows.as_batch().iter().map(|(key, body)| (key.to_owned(), text(body))));
        }
        rows
    })
}

fn read(store: &dyn AnyStore, start: Option<&str>, end: Option<&str>) -> Vec<String> {
    rows(store, start, end).into_iter().map(|(key, _)| key).collect()
}

fn documents(store: &dyn AnyStore) -> Vec<String> {
    rows(store, None, None).into_iter().map(|(_, body)| body).collect()
}

#[test]
fn their_documents_are_read_and_sampled_and_nothing_changes() {
    let server = Server::start("mariadb");
    sql(&server, BOOKS);
    let before = theirs(&server);
    for (name, body, document) in [
        ("storebench.books", Some("body"), r#"{"user": "u7", "n": 7}"#),
        ("books", None, r#"{"id":7,"title":"title 7","body":{"user": "u7", "n": 7}}"#),
    ] {
        let store = storebench_stores::open(&server.url).unwrap();
        let layout = existing(name, None, body, Body::Json);
        assert!(store.prepare(&layout, Prepare::Keep).is_err(), "an existing table is read-only");
        store.prepare(&layout, Prepare::ReadOnly).unwrap();
        assert_eq!(store.same_keys(ALL), SameKeys::Integer);
        let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
        let text = driven.call(Op::Read { key: "7" }).unwrap();
        assert_eq!(
            text.as_reply().body,
            Some(document.as_bytes()),
            "{}",
            String::from_utf8_lossy(text.as_reply().body.unwrap())
        );
        for absent in ["1001", "7abc", "", " 7", "7.0"] {
            assert_eq!(driven.call(Op::Read { key: absent }).unwrap_err().kind, ErrorKind::NotFound, "{absent}");
            assert_eq!(driven.call(Op::Exists { key: absent }).unwrap().as_reply().documents, 0, "{absent}");
        }
        let sampled = store.sample_keys(ALL, 100, 435).unwrap();
        assert_eq!(sampled, store.sample_keys(ALL, 100, 435).unwrap());
        assert_ne!(sampled, store.sample_keys(ALL, 100, 436).unwrap());
        assert_eq!(sampled.len(), 100);
        let (field, value) = if body.is_some() { ("user", r#""u3""#) } else { ("title", r#""title 3""#) };
        let page = driven.call(Op::Page { field, value, limit: 1 }).unwrap();
        let first = page.as_reply().rows.unwrap().get(0).unwrap().0.to_owned();
        assert_eq!(first, if body.is_some() { "103" } else { "3" }, "in the order of texts");
        let prefix = driven.call(Op::Prefix { prefix: "99", limit: 4 }).unwrap();
        let keys: Vec<_> = prefix.as_reply().rows.unwrap().iter().map(|(key, _)| key.to_owned()).collect();
        assert_eq!(keys, ["99", "990", "991", "992"]);
        let mut asked = BatchBuf::new();
        ["7", "007", "x", "7x"].iter().for_each(|key| asked.push(key, b""));
        let bulk = driven.call(Op::BulkRead { keys: asked.as_batch() });
        assert_eq!(bulk.unwrap().as_reply().documents, 2, "by the requested texts");
        for op in [Op::Upsert { key: "7", body: b"{}" }, Op::Delete { key: "7" }] {
            assert_eq!(driven.call(op).unwrap_err().kind, ErrorKind::Refused);
        }
        store.remove().unwrap();
        store.close().unwrap();
    }
    assert_eq!(theirs(&server), before);
    let store = storebench_stores::open(&server.url).unwrap();
    sql(&server, "CREATE TABLE plain (k VARCHAR(20) COLLATE utf8mb4_bin PRIMARY KEY, d JSON)");
    assert_eq!(store.plain_columns("plain").unwrap(), Some(("k".into(), "d".into())));
    assert_eq!(store.plain_columns("books").unwrap(), None);
}

#[test]
fn keys_of_every_type_are_cut_and_read_in_their_own_order() {
    let server = Server::start("mariadb");
    for (sql_type, key) in [
        ("BIGINT", "CAST(seq AS SIGNED) * 7919 - 4000000"),
        ("BIGINT UNSIGNED", "seq + 18446744073709550000"),
        ("INT(6) ZEROFILL", "seq"),
        ("DECIMAL(30,2)", "seq * 1.5 + 12345678901234567890"),
        ("VARCHAR(40) COLLATE utf8mb4_general_ci", "CONCAT(IF(seq % 2, 'Straße ', 'strasse-'), seq)"),
        ("VARCHAR(40) COLLATE utf8mb4_bin", "CONCAT('it''s \\\\ ', seq)"),
        ("CHAR(12) CHARACTER SET latin1", "CONCAT('ké', seq)"),
        ("VARBINARY(40)", "MD5(seq)"),
        ("UUID", "CONCAT(LEFT(MD5(seq), 12), '4', SUBSTR(MD5(seq), 14, 3), '8', SUBSTR(MD5(seq), 18))"),
        ("DATETIME(6)", "'2026-03-29' + INTERVAL seq * 450 SECOND"),
        ("DATE", "'2026-03-29' + INTERVAL seq DAY"),
    ] {
        sql(
            &server,
            &format!(
                "SET sql_mode = 'STRICT_ALL_TABLES'; CREATE OR REPLACE TABLE t (id {sql_type} PRIMARY KEY, doc JSON); \
                 INSERT INTO t SELECT {key}, JSON_OBJECT('n', seq) FROM seq_1_to_1200; ANALYZE TABLE t"
            ),
        );
        let store = storebench_stores::open(&server.url).unwrap();
        store.prepare(&existing("t", None, Some("doc"), Body::Json), Prepare::ReadOnly).unwrap();
        let cuts = store.cuts(ALL, 6).unwrap();
        assert_eq!(cuts.len(), 5, "{sql_type}");
        let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
        for cut in &cuts {
            driven.call(Op::Read { key: cut }).unwrap_or_else(|error| panic!("{sql_type} `{cut}`: {error}"));
            let longer = driven.call(Op::Read { key: &format!("{cut}x") });
            assert_eq!(longer.unwrap_err().kind, ErrorKind::NotFound, "{sql_type} `{cut}x`");
        }
        let mut all = Vec::new();
        for range in 0..=cuts.len() {
            let start = range.checked_sub(1).map(|at| cuts[at].as_str());
            let keys = read(&*store, start, cuts.get(range).map(String::as_str));
            assert!(keys.len() > 5, "{sql_type}: {} from {start:?}", keys.len());
            all.extend(keys);
        }
        let id = if sql_type.contains("ZEROFILL") { "id + 0" } else { "id" };
        let expected = sql(&server, &format!("SELECT {id} FROM t ORDER BY t.id"));
        let differs = all.iter().zip(expected.lines()).find(|(read, there)| read != there);
        assert_eq!((all.len(), differs), (1_200, None), "{sql_type}");
        store.close().unwrap();
    }
}

#[test]
fn whole_rows_keep_their_values_exactly() {
    let server = Server::start("mariadb");
    // Each column with a value, and the JSON that it becomes.
    let columns = [
        (
            "DECIMAL(65,30)",
            "-99999999999999999999999999999999999.999999999999999999999999999999",
            "-99999999999999999999999999999999999.999999999999999999999999999999",
        ),
        ("BIGINT UNSIGNED", "18446744073709551615", "18446744073709551615"),
        ("INT(5) ZEROFILL", "42", "42"),
        ("BOOL", "TRUE", "1"),
        ("DOUBLE", "1.7976931348623157e308", "1.7976931348623157e308"),
        ("DOUBLE", "0.1e0 + 0.2e0", "0.30000000000000004"),
        ("FLOAT", "0.1", "0.10000000149011612"),
        ("BIT(64)", "b'1111111111111111111111111111111111111111111111111111111111111111'", "18446744073709551615"),
        ("YEAR", "0", "0"),
        ("DATE", "'0000-00-00'", "\"0000-00-00\""),
        ("DATETIME(6)", "'2024-02-30 12:00:00.000001'", "\"2024-02-30 12:00:00.000001\""),
        ("TIMESTAMP(6) NULL", "'2038-01-19 03:14:07.999999'", "\"2038-01-19 03:14:07.999999\""),
        ("TIME(6)", "'-838:59:59.999999'", "\"-838:59:59.999999\""),
        ("ENUM('x','y\"')", "'y\"'", "\"y\\\"\""),
        ("ENUM('x')", "0", "\"\""),
        ("SET('p','q')", "'p,q'", "\"p,q\""),
        ("CHAR(5) CHARACTER SET latin1", "'é\"\\\\'", "\"é\\\"\\\\\""),
        ("LONGTEXT CHARACTER SET utf8mb4", "CONCAT('😀', CHAR(0), CHAR(10), ' ')", "\"😀\\u0000\\n \""),
        ("BLOB", "x'00ff0a'", "\"AP8K\""),
        ("BINARY(3)", "'a'", "\"YQAA\""),
        ("JSON", "'{\"x\": [1,2.0]}'", "{\"x\": [1,2.0]}"),
        // Put there without its CHECK.
        ("JSON", "'no,json'", "\"no,json\""),
        ("UUID", "'00112233-4455-4677-8899-aabbccddeeff'", "\"00112233-4455-4677-8899-aabbccddeeff\""),
        ("INET6", "'2001:db8::1'", "\"2001:db8::1\""),
        ("INT INVISIBLE DEFAULT 5", "DEFAULT", "5"),
        ("INT AS (id * 2) VIRTUAL", "DEFAULT", "2"),
        ("INT AS (id * 3) STORED", "DEFAULT", "3"),
        ("DATETIME(3)", "'2024-03-01'", "\"2024-03-01 00:00:00.000\""),
        ("DATETIME", "'2024-03-01'", "\"2024-03-01 00:00:00\""),
        ("TIME", "'25:00:07'", "\"25:00:07\""),
        ("TIME(2)", "'-7:00'", "\"-07:00:00.00\""),
    ];
    let names: Vec<String> = (0..columns.len()).map(|n| format!("c{n}")).collect();
    let defined: String =
        columns.iter().zip(&names).map(|((sql_type, ..), name)| format!(", {name} {sql_type}")).collect();
    let values: Vec<&str> = columns.iter().map(|(_, value, _)| *value).collect();
    sql(
        &server,
        &format!(
            "SET NAMES utf8mb4, sql_mode = 'ALLOW_INVALID_DATES', check_constraint_checks = 0, time_zone = '+00:00'; \
             CREATE TABLE t (id INT PRIMARY KEY{defined}, `r \"` INT); INSERT INTO t (id, {}) VALUES (1, {}); \
             INSERT INTO t (id, c24) VALUES (2, NULL)",
            names.join(", "),
            values.join(", ")
        ),
    );
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&existing("t", None, None, Body::Json), Prepare::ReadOnly).unwrap();
    let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
    let mut row =
        |key| String::from_utf8(driven.call(Op::Read { key }).unwrap().as_reply().body.unwrap().to_vec()).unwrap();
    let full: String = columns.iter().zip(&names).map(|((.., json), name)| format!("\"{name}\":{json},")).collect();
    assert_eq!(row("1"), format!("{{\"id\":1,{full}\"r \\\"\":null}}"));
    let computed = |name: &str| ["c25", "c26"].iter().position(|computed| *computed == name);
    let empty = |name: &String| computed(name).map_or("null".to_owned(), |at| (2 * (2 + at)).to_string());
    let empty: String = names.iter().map(|name| format!("\"{name}\":{},", empty(name))).collect();
    assert_eq!(row("2"), format!("{{\"id\":2,{empty}\"r \\\"\":null}}"));
    // A copy reads the same.
    assert_eq!(documents(&*store), [row("1"), row("2")]);
    // A query says what it cannot give as text.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    sql(&server, "SET GLOBAL tx_isolation = 'READ-UNCOMMITTED'");
    // Times as a copy of whole rows gives them, and all of one snapshot.
    let times: Vec<usize> =
        (0..columns.len()).filter(|n| columns[*n].0.contains("DATE") || columns[*n].0.contains("TIME")).collect();
    let selected: Vec<String> = times.iter().map(|n| format!(", c{n}")).collect();
    let query = format!("SELECT @@tx_isolation AS i{} FROM t WHERE id = 1", selected.concat());
    let expected: String = times.iter().map(|n| format!(",\"c{n}\":{}", columns[*n].2)).collect();
    let mut page = RowPage::default();
    runtime.block_on(async { store.rows(Rows::Query(&query)).await.unwrap().next(&mut page).await }).unwrap();
    let (_, found) = page.rows.as_batch().get(0).unwrap();
    assert_eq!(std::str::from_utf8(found).unwrap(), format!("{{\"i\":\"REPEATABLE-READ\"{expected}}}"));
    for (column, fits) in [("c7", false), ("c7 + 0", true), ("c18", false), ("TO_BASE64(c18)", true), ("c17", true)] {
        let query = format!("SELECT {column} AS found FROM t WHERE id = 1");
        let read: Result<bool, StoreError> =
            runtime.block_on(async { store.rows(Rows::Query(&query)).await?.next(&mut RowPage::default()).await });
        assert_eq!(read.is_ok(), fits, "{column}: {read:?}");
        assert!(read.err().is_none_or(|error| error.to_string().contains("`found`")), "{column}");
    }
}

#[test]
fn a_user_who_may_not_read_every_column_reads_no_whole_rows() {
    let server = Server::start("mariadb");
    sql(
        &server,
        "CREATE TABLE t (id INT PRIMARY KEY, doc JSON, hidden INT); INSERT INTO t VALUES (1, '{\"n\":1}', 7); \
         CREATE USER part; GRANT SELECT (id, doc), INSERT (id, doc), UPDATE (id, doc) ON t TO part; \
         CREATE USER reader; GRANT SELECT ON t TO reader",
    );
    let opened = |user: &str, body: Option<&str>, how| {
        let url = server.url.split_once("://").unwrap().1.split_once('@').unwrap().1;
        let store = storebench_stores::open(&format!("mariadb://{user}@{url}")).unwrap();
        store.prepare(&existing("t", Some("id"), body, Body::Json), how).map(|()| store)
    };
    // Nor are documents written: an index over a hidden column may be unique.
    let opened_to_write = |how| opened("part", Some("doc"), how);
    for refused in [opened("part", None, Prepare::ReadOnly), opened_to_write(Prepare::WriteExisting)] {
        let error = refused.err().unwrap().to_string();
        assert!(error.contains("grant SELECT") && error.contains("denied"), "{error}");
    }
    assert_eq!(documents(&*opened_to_write(Prepare::ReadOnly).unwrap()), [r#"{"n":1}"#]);
    assert_eq!(
        documents(&*opened("reader", None, Prepare::ReadOnly).unwrap()),
        [r#"{"id":1,"doc":{"n":1},"hidden":7}"#]
    );
}

#[test]
fn tables_of_others_are_written_only_where_no_other_row_can_change() {
    let server = Server::start("mariadb");
    let open = |statements: &str, how, kind| {
        sql(&server, &format!("DROP TABLE IF EXISTS t; {statements}"));
        let store = storebench_stores::open(&server.url).unwrap();
        store.prepare(&existing("t", None, Some("doc"), kind), how).map(|()| store)
    };
    for (statements, why) in [
        ("CREATE TABLE t (a INT, b INT, doc JSON, PRIMARY KEY (a, b))", "several columns (a, b)"),
        ("CREATE TABLE t (id INT PRIMARY KEY, doc JSON) ENGINE=MyISAM", "MyISAM"),
        ("CREATE TABLE t (id INT, doc JSON)", "no primary key"),
        ("CREATE TABLE t (id TEXT, doc JSON, PRIMARY KEY (id(10)))", "no column `id(…)`"),
        ("CREATE TABLE t (id VARCHAR(9) COLLATE utf8mb4_lithuanian_ci PRIMARY KEY, doc JSON)", "characters are one"),
        ("CREATE TABLE t (id VARCHAR(9) COLLATE cp1251_ukrainian_ci PRIMARY KEY, doc JSON)", "characters are one"),
        ("CREATE TABLE t (id DOUBLE PRIMARY KEY, doc JSON)", "only be read"),
        ("CREATE TABLE t (id VARCHAR(9) CHARACTER SET cp932 PRIMARY KEY, doc JSON)", "are one in Unicode"),
        ("CREATE TABLE t (id INT PRIMARY KEY, doc INT)", "does not fit"),
        ("CREATE TABLE t (id INT PRIMARY KEY, other JSON)", "no column `doc`"),
    ] {
        let error =
            open(statements, Prepare::WriteExisting, Body::Json).err().unwrap_or_else(|| panic!("{statements}"));
        assert!(matches!(error, StoreError::NotSupported(_)), "{error:?}");
        assert!(error.to_string().contains(why), "{statements}: {error}");
    }
    let store = open(
        "CREATE TABLE t (id VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, doc JSON, more INT DEFAULT 7); \
         INSERT INTO t VALUES ('a', '1', 1)",
        Prepare::WriteExisting,
        Body::Json,
    )
    .unwrap();
    assert_eq!(store.same_keys(ALL), SameKeys::AnyCase);
    let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
    driven.call(Op::Upsert { key: "A", body: b"2" }).unwrap();
    driven.call(Op::Insert { key: "b", body: b"{\"x\":1}" }).unwrap();
    driven.call(Op::MergePatch { key: "b", patch: b"{\"y\":2}" }).unwrap();
    sql(&server, "INSERT INTO t (id) VALUES ('null')");
    let error = driven.call(Op::MergePatch { key: "null", patch: b"{\"y\":2}" }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    sql(&server, "DELETE FROM t WHERE id = 'null'");
    assert_eq!(driven.call(Op::Insert { key: "B", body: b"3" }).unwrap_err().kind, ErrorKind::Conflict);
    assert_eq!(driven.call(Op::Upsert { key: "c", body: b"no json" }).unwrap_err().kind, ErrorKind::Refused);
    let mut items = BatchBuf::new();
    ["B", "d", "D", "e"].iter().for_each(|key| items.push(key, b"4"));
    let bulk = Op::BulkWrite { kind: storebench_engine::store::BulkWrite::Insert, items: items.as_batch() };
    let reply = driven.call(bulk).unwrap();
    assert_eq!((reply.as_reply().documents, reply.as_reply().rejects.len()), (2, 2));
    assert_eq!(sql(&server, "SELECT * FROM t"), "a\t2\t1\nb\t{\"x\": 1, \"y\": 2}\t7\nD\t4\t7\ne\t4\t7");
    for key in ["Ä", "a ", "a\t"] {
        let error = driven.call(Op::Upsert { key, body: b"9" }).unwrap_err();
        assert!(error.kind == ErrorKind::Refused && error.message.contains("printable ASCII"), "{key}: {error}");
    }
    // JSON of a table that keeps its history is JSON, and such a table is written.
    let versioned = "CREATE TABLE t (id INT PRIMARY KEY, doc JSON) WITH SYSTEM VERSIONING";
    let mut driven =
        Driven::open(&*open(versioned, Prepare::WriteExisting, Body::Json).unwrap(), Durability::FSYNC).unwrap();
    driven.call(Op::Upsert { key: "1", body: b"{}" }).unwrap();
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&existing("t", None, None, Body::Json), Prepare::ReadOnly).unwrap();
    let document = documents(&*store).remove(0);
    assert!(document.starts_with(r#"{"id":1,"doc":{}"#), "{document}");
    drop(driven);
    // Where the server counts, 0 is a key as any other.
    let store =
        open("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, doc JSON)", Prepare::WriteExisting, Body::Json);
    let mut driven = Driven::open(&*store.unwrap(), Durability::FSYNC).unwrap();
    for (key, body) in [("1", b"1"), ("0", b"0")] {
        driven.call(Op::Upsert { key, body }).unwrap();
    }
    assert_eq!(sql(&server, "SELECT * FROM t"), "0\t0\n1\t1");
    // The server would take other keys for these.
    for (sql_type, there, others) in [
        ("INT", "7", &["7abc", "", "7.4"][..]),
        ("BIGINT UNSIGNED", "18446744073709551615", &["-1", "18446744073709551615x"]),
        ("YEAR", "2007", &["7", "2007x"]),
        ("BINARY(3)", "abc", &["ab", "abc\0"]),
        ("CHAR(9) COLLATE utf8mb4_general_ci", "abc", &["abc ", "àbc"]),
        ("VARCHAR(9) COLLATE utf8mb4_nopad_bin", "abcdefghi", &["abcdefghi ", "abcdefghij"]),
    ] {
        let table = format!("CREATE TABLE t (id {sql_type} PRIMARY KEY, doc JSON)");
        let store = open(&table, Prepare::WriteExisting, Body::Json).unwrap();
        let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
        driven.call(Op::Upsert { key: there, body: b"1" }).unwrap();
        let mut items = BatchBuf::new();
        others.iter().chain([&there]).for_each(|key| items.push(key, b"1"));
        for key in others {
            for op in [Op::Upsert { key, body: b"2" }, Op::Replace { key, body: b"2" }, Op::Delete { key }] {
                assert_eq!(driven.call(op).unwrap_err().kind, ErrorKind::Refused, "{sql_type} `{key}`");
            }
        }
        assert_eq!(sql(&server, "SELECT id, doc FROM t"), format!("{there}\t1"));
        let kind = storebench_engine::store::BulkWrite::Upsert;
        for op in [Op::BulkWrite { kind, items: items.as_batch() }, Op::BulkDelete { keys: items.as_batch() }] {
            let reply = driven.call(op).unwrap();
            assert_eq!((reply.as_reply().documents, reply.as_reply().rejects.len()), (1, others.len()), "{sql_type}");
        }
        assert_eq!(sql(&server, "SELECT COUNT(*) FROM t"), "0");
        store.close().unwrap();
    }
    let store = open(
        "CREATE TABLE t (id INT PRIMARY KEY, doc JSON, mail INT AS (JSON_VALUE(doc, '$.mail')) UNIQUE); \
         INSERT INTO t (id, doc) VALUES (1, '{\"mail\": 5}')",
        Prepare::WriteExisting,
        Body::Json,
    )
    .unwrap();
    let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
    let error = driven.call(Op::Upsert { key: "2", body: b"{\"mail\": 5}" }).unwrap_err();
    assert!(error.kind == ErrorKind::Refused && error.message.contains("`mail`"), "{error}");
    let error = driven.call(Op::Insert { key: "2", body: b"{\"mail\": 5}" }).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert_eq!(sql(&server, "SELECT id, doc FROM t"), "1\t{\"mail\": 5}");
    let error =
        open("CREATE TABLE t (id INT PRIMARY KEY, doc JSON, c INT NOT NULL)", Prepare::WriteExisting, Body::Json);
    let mut driven = Driven::open(&*error.unwrap(), Durability::FSYNC).unwrap();
    let error = driven.call(Op::Insert { key: "2", body: b"1" }).unwrap_err();
    assert!(error.message.contains("its columns c too"), "{error}");
}

#[test]
fn a_sample_of_a_large_table_comes_from_all_over_it_and_reads_little_of_it() {
    let server = super::quick();
    // Two clusters, far from each other, whose documents differ in size.
    for (sql_type, near, far) in [
        ("BIGINT", "seq", "9000000000000000000 + seq"),
        ("VARBINARY(50)", "CONCAT('k', LPAD(seq, 7, '0'))", "CONCAT('user:éa', MD5(seq))"),
        ("VARCHAR(50) COLLATE utf8mb4_general_ci", "CONCAT('Anna ', seq)", "CONCAT('straße ', MD5(seq))"),
    ] {
        sql(
            &server,
            &format!(
                "SET NAMES utf8mb4; CREATE OR REPLACE TABLE t (id {sql_type} PRIMARY KEY, part INT, doc LONGTEXT); \
                 INSERT INTO t SELECT {near}, seq DIV 20000, '{{}}' FROM seq_0_to_79999; \
                 INSERT INTO t SELECT {far}, 4 + seq DIV 20000, REPEAT(' ', 200) FROM seq_0_to_39999"
            ),
        );
        let store = storebench_stores::open(&server.url).unwrap();
        store.prepare(&existing("t", None, Some("doc"), Body::Json), Prepare::ReadOnly).unwrap();
        let read = "SELECT SUM(VARIABLE_VALUE) FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME LIKE \
             'Handler_read%'";
        let rows_read = || sql(&server, read).parse::<f64>().unwrap();
        let before = rows_read();
        let keys = store.sample_keys(ALL, 1_000, 1).unwrap();
        let rows = rows_read() - before;
        assert!(rows < 30_000.0, "{sql_type}: {rows} rows of 120,000");
        let list = keys.iter().map(|key| format!("'{key}'")).collect::<Vec<_>>().join(",");
        let parts = format!("SET NAMES utf8mb4; SELECT COUNT(*) FROM t WHERE id IN ({list}) GROUP BY part");
        let parts: Vec<u32> = sql(&server, &parts).lines().map(|count| count.parse().unwrap()).collect();
        assert!(parts.iter().sum::<u32>() > 900 && parts.len() == 6, "{sql_type}: {parts:?}");
        assert!(parts.iter().all(|count| (90..330).contains(count)), "{sql_type}: each has a sixth of {parts:?}");
        let order = format!("SET NAMES utf8mb4; SELECT id FROM t WHERE id IN ({list}) ORDER BY id");
        assert!(sql(&server, &order).lines().eq(&keys), "{sql_type}: in the order of ranges");
        assert_eq!(store.cuts(ALL, 8).unwrap().len(), 7);
        store.close().unwrap();
    }
}

#[test]
fn keys_whose_texts_are_no_places_in_their_order_are_refused_or_read_too() {
    let server = Server::start("mariadb");
    sql(
        &server,
        "SET sql_mode = 'ALLOW_INVALID_DATES'; CREATE TABLE t (id DATE PRIMARY KEY, doc JSON); INSERT INTO t SELECT \
         CONCAT(1900 + seq DIV 5, '-', ELT(1 + seq % 5, '02', '04', '06', '09', '11'), '-31'), '{}' FROM seq_0_to_499; \
         CREATE TABLE e (id ENUM('b', 'c', 'a') PRIMARY KEY, doc JSON)",
    );
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&existing("t", None, Some("doc"), Body::Json), Prepare::ReadOnly).unwrap();
    let keys = read(&*store, None, None);
    assert_eq!((keys.len(), keys[0].as_str(), keys[499].as_str()), (500, "1900-02-31", "1999-11-31"));
    assert_eq!(read(&*store, Some("1950-02-31"), Some("1950-04-31")), ["1950-02-31"]);
    let mut driven = Driven::open(&*store, Durability::FSYNC).unwrap();
    driven.call(Op::Read { key: "1950-06-31" }).unwrap();
    let error = store.prepare(&existing("e", None, Some("doc"), Body::Json), Prepare::ReadOnly).unwrap_err();
    assert!(error.to_string().contains("not ordered by its texts"), "{error}");
    // A unique index of hashes, as MariaDB's of a TEXT, has no order.
    sql(
        &server,
        "CREATE TABLE h (id TEXT NOT NULL UNIQUE, doc JSON); CREATE TABLE b (id VARBINARY(9) PRIMARY KEY, doc JSON); \
         INSERT INTO b SELECT seq, '{}' FROM seq_1_to_12000; INSERT INTO b VALUES (x'ff', '{}')",
    );
    let hashed = existing("h", Some("id"), Some("doc"), Body::Json);
    let error = store.prepare(&hashed, Prepare::WriteExisting).unwrap_err();
    assert!(error.to_string().contains("one of hashes"), "{error}");
    store.prepare(&hashed, Prepare::ReadOnly).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let range = runtime.block_on(store.rows(Rows::Range { collection: ALL, start: None, end: None }));
    assert!(range.err().unwrap().to_string().contains("no unique index with an order"));
    store.prepare(&existing("b", None, Some("doc"), Body::Json), Prepare::ReadOnly).unwrap();
    let error = store.sample_keys(ALL, 10, 1).unwrap_err();
    assert!(error.to_string().contains("not UTF-8"), "{error}");
}
