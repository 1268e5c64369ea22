//! Ranges of keys as streams: every key type, broken connections, rows that are not documents.

use storebench_engine::store::{AnyStore, CollectionId, Prepare, RowPage, Rows, StoreError};

use super::foreign_data::existing;
use super::talk::sql;
use crate::server::Server;

const ALL: CollectionId = CollectionId(0);

/// The keys of a range, and the keys of rows that are not documents. Calls a function after each page.
fn read(
    store: &dyn AnyStore,
    (start, end): (Option<&str>, Option<&str>),
    mut after: impl FnMut(usize),
) -> Result<(Vec<String>, Vec<String>), StoreError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut stream = store.rows(Rows::Range { collection: ALL, start, end }).await?;
        let (mut page, mut keys, mut bad, mut failed) = (RowPage::default(), Vec::new(), Vec::new(), 0);
        loop {
            match stream.next(&mut page).await {
                Ok(true) => {}
                Ok(false) => return Ok((keys, bad)),
                Err(StoreError::Unreachable(_)) if failed < 100 => {
                    failed += 1;
                    continue;
                }
                Err(error) => return Err(error),
            }
            keys.extend(page.rows.as_batch().iter().map(|(key, _)| key.to_owned()));
            bad.extend(page.bad.drain(..).map(|row| row.key));
            after(keys.len());
        }
    })
}

#[test]
fn keys_of_every_type_are_cut_and_read_in_their_own_order() {
    let server = Server::start("postgres");
    for (sql_type, key) in [
        ("bigint", "n * 7919 - 4000000"),
        ("integer", "n - 5000"),
        ("numeric", "n * 1.5 - 3000"),
        ("text", "md5(n::text)"),
        ("text COLLATE \"C\"", "md5(n::text)"),
        ("text", "CASE WHEN n % 2 = 0 THEN 'Straße ' ELSE 'strasse-' END || n"),
        ("varchar(40)", "'it''s \\' || n"),
        ("char(12)", "'k' || n"),
        ("uuid", "md5(n::text)::uuid"),
        ("timestamptz", "timestamptz '2026-03-29 00:00:00+00' + n * interval '7.5 minutes'"),
        ("bytea", "decode(md5(n::text), 'hex')"),
        ("double precision", "n / 3.0::double precision"),
    ] {
        sql(
            &server,
            &format!(
                "DROP TABLE IF EXISTS t; CREATE TABLE t (id {sql_type} PRIMARY KEY, doc jsonb); \
                 INSERT INTO t SELECT {key}, jsonb_build_object('n', n) FROM generate_series(1, 1200) AS n; ANALYZE t"
            ),
        );
        let store = storebench_stores::open(&server.url).unwrap();
        store.prepare(&existing("t", None, Some("doc")), Prepare::ReadOnly).unwrap();
        let cuts = store.cuts(ALL, 6).unwrap();
        assert_eq!(cuts.len(), 5, "{sql_type}");
        let mut all = Vec::new();
        for range in 0..=cuts.len() {
            let start = range.checked_sub(1).map(|at| cuts[at].as_str());
            let end = cuts.get(range).map(String::as_str);
            let (keys, bad) = read(&*store, (start, end), |_| {}).unwrap();
            assert!(keys.len() > 20 && bad.is_empty(), "{sql_type}: {start:?} to {end:?} holds {}", keys.len());
            all.extend(keys);
        }
        let expected = sql(&server, "SELECT id::text FROM t ORDER BY t.id");
        let differs = all.iter().zip(expected.lines()).find(|(read, there)| read != there);
        assert_eq!((all.len(), differs), (1_200, None), "{sql_type}");
        store.close().unwrap();
    }
}

#[test]
fn a_stream_whose_connection_breaks_goes_on_behind_its_last_row() {
    let server = Server::start("postgres");
    // More than the socket buffers hold.
    sql(
        &server,
        "CREATE TABLE t (id bigint PRIMARY KEY, doc jsonb); \
         INSERT INTO t SELECT n, jsonb_build_object('pad', repeat(md5(n::text), 60)) FROM generate_series(1, 20000) AS n",
    );
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&existing("t", None, Some("doc")), Prepare::ReadOnly).unwrap();
    let (mut looked, mut broken) = (0, 0);
    let (keys, bad) = read(&*store, (Some("11"), None), |so_far| {
        if so_far / 2_000 > looked {
            looked += 1;
            // None while earlier data is still being read.
            let killed =
                sql(&server, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE '%TO STDOUT%' AND pid <> pg_backend_pid()");
            broken += usize::from(killed.trim() != "0");
        }
    })
    .unwrap();
    assert!(broken >= 2 && bad.is_empty(), "{broken} {bad:?}");
    assert!(keys.iter().cloned().eq((11..=20_000).map(|n| n.to_string())), "{} keys", keys.len());
}

#[test]
fn what_is_no_document_is_told_and_keys_that_tell_no_row_are_refused() {
    let server = Server::start("postgres");
    sql(
        &server,
        "CREATE TABLE t (id text, doc jsonb); INSERT INTO t SELECT 'k' || n, CASE WHEN n % 3 > 0 THEN '{}'::jsonb END \
         FROM generate_series(1, 6) AS n",
    );
    let store = storebench_stores::open(&server.url).unwrap();
    let layout = existing("t", Some("id"), Some("doc"));
    store.prepare(&layout, Prepare::ReadOnly).unwrap();
    assert!(store.cuts(ALL, 4).unwrap().is_empty(), "without an index each range would read the whole table");
    let (keys, bad) = read(&*store, (None, None), |_| {}).unwrap();
    assert_eq!((keys.join(" "), bad.join(" ")), ("k1 k2 k4 k5".to_owned(), "k3 k6".to_owned()));
    for twice in ["k5", "k6"] {
        sql(&server, &format!("INSERT INTO t VALUES ('{twice}', NULL)"));
        let error = read(&*store, (None, None), |_| {}).unwrap_err();
        assert!(matches!(&error, StoreError::NotSupported(text) if text.contains(twice)), "{error}");
        sql(&server, &format!("DELETE FROM t WHERE id = '{twice}'"));
    }
    sql(&server, "INSERT INTO t VALUES (NULL, '{}')");
    let error = store.prepare(&layout, Prepare::ReadOnly).unwrap_err();
    assert!(error.to_string().contains("NULL"), "{error}");
}

#[test]
fn two_rows_of_one_key_are_refused_though_each_table_of_them_is_unique() {
    let server = Server::start("postgres");
    sql(
        &server,
        "CREATE TABLE t (id int PRIMARY KEY, doc jsonb); CREATE TABLE child () INHERITS (t); \
         INSERT INTO t VALUES (1, '{}'); INSERT INTO child VALUES (1, '{}')",
    );
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&existing("t", None, Some("doc")), Prepare::ReadOnly).unwrap();
    let error = read(&*store, (None, None), |_| {}).unwrap_err();
    assert!(matches!(&error, StoreError::NotSupported(text) if text.contains("`1` is in two rows")), "{error}");
}

#[test]
fn a_key_that_became_null_is_told_as_such() {
    let server = Server::start("postgres");
    sql(&server, "CREATE TABLE t (id int UNIQUE, doc jsonb); INSERT INTO t VALUES (1, '{}')");
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&existing("t", Some("id"), Some("doc")), Prepare::ReadOnly).unwrap();
    sql(&server, "INSERT INTO t VALUES (NULL, '{}')");
    let error = read(&*store, (None, None), |_| {}).unwrap_err();
    assert!(matches!(&error, StoreError::NotSupported(text) if text.contains("a key is NULL")), "{error}");
}

#[test]
fn what_a_role_is_set_to_does_not_change_what_is_read() {
    let server = Server::start("postgres");
    sql(
        &server,
        "ALTER ROLE CURRENT_USER SET extra_float_digits = 0; ALTER ROLE CURRENT_USER SET DateStyle = 'SQL, DMY'; \
         ALTER ROLE CURRENT_USER SET statement_timeout = '30s'; \
         CREATE TABLE t (id double precision PRIMARY KEY, at timestamptz, t jsonb); \
         INSERT INTO t VALUES (0.1, '2026-03-04 05:06:07+00', '{}'), (0.1::float8 + 1.4e-17, NULL, '{}')",
    );
    let store = storebench_stores::open(&server.url).unwrap();
    // A whole row, although a column has the same name as the row in the statements.
    store.prepare(&existing("t", None, None), Prepare::ReadOnly).unwrap();
    let (keys, _) = read(&*store, (None, None), |_| {}).unwrap();
    assert_eq!(keys, ["0.1", "0.10000000000000002"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let document = runtime.block_on(async {
        let rows = Rows::Range { collection: ALL, start: None, end: None };
        let (mut stream, mut page) = (store.rows(rows).await.unwrap(), RowPage::default());
        assert!(stream.next(&mut page).await.unwrap());
        String::from_utf8(page.rows.as_batch().get(0).unwrap().1.to_vec()).unwrap()
    });
    assert!(document.contains("2026-03-04T05:06:07+00:00") && document.contains(r#""t": {}"#), "{document}");
}

#[test]
fn types_that_postgres_does_not_bring_along_are_sorted_as_texts_and_not_cut() {
    let server = Server::start("postgres");
    sql(
        &server,
        "CREATE TYPE level AS ENUM ('low', 'high'); CREATE TABLE t (id level PRIMARY KEY, doc jsonb); \
         INSERT INTO t VALUES ('low', '{}'), ('high', '{}')",
    );
    let store = storebench_stores::open(&server.url).unwrap();
    store.prepare(&existing("t", None, Some("doc")), Prepare::ReadOnly).unwrap();
    assert!(store.cuts(ALL, 2).unwrap().is_empty());
    assert_eq!(read(&*store, (None, None), |_| {}).unwrap().0, ["high", "low"]);
    let order = store.range_order(ALL);
    sql(&server, "DROP TABLE t; CREATE TABLE t (id text PRIMARY KEY, doc jsonb)");
    store.prepare(&existing("t", None, Some("doc")), Prepare::ReadOnly).unwrap();
    let collated = store.range_order(ALL);
    sql(&server, "DROP TABLE t; CREATE TABLE t (id text COLLATE \"C\" PRIMARY KEY, doc jsonb)");
    store.prepare(&existing("t", None, Some("doc")), Prepare::ReadOnly).unwrap();
    // A copy that was cut in one of these orders cannot be continued in another.
    let mut orders = vec![order, collated, store.range_order(ALL)];
    orders.dedup();
    assert_eq!(orders.len(), 3, "{orders:?}");
}
