//! Ranges of keys as streams: every type of key, connections that break, rows that are no documents.

use std::collections::BTreeSet;

use storebench_core::store::{AnyStore, CollectionId, Prepare, RowPage, Rows, StoreError};

use super::sacred::existing;
use super::talk::sql;
use crate::server::Server;

const ALL: CollectionId = CollectionId(0);

/// The keys of a range, and of what is no document; after each page something happens.
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
fn keys_of_every_type_are_cut_in_their_own_order_and_read() {
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
                 INSERT INTO t SELECT {key}, jsonb_build_object('n', n) FROM generate_series(1, 5000) AS n; ANALYZE t"
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
            assert!(keys.len() > 100 && bad.is_empty(), "{sql_type}: {start:?} to {end:?} holds {}", keys.len());
            all.extend(keys);
        }
        let expected = sql(&server, "SELECT id::text FROM t");
        let mut expected: Vec<&str> = expected.lines().collect();
        all.sort();
        expected.sort_unstable();
        let differs = all.iter().zip(expected).find(|(read, there)| read != there);
        assert_eq!((all.len(), differs), (5_000, None), "{sql_type}");
        store.close().unwrap();
    }
}

#[test]
fn a_stream_whose_connection_breaks_loses_nothing() {
    let server = Server::start("postgres");
    for column in ["bigint PRIMARY KEY", "bigint"] {
        // More than the sockets between hold.
        sql(
            &server,
            &format!(
                "DROP TABLE IF EXISTS t; CREATE TABLE t (id {column}, doc jsonb); \
                 INSERT INTO t SELECT n, jsonb_build_object('pad', repeat(md5(n::text), 60)) \
                 FROM generate_series(1, 20000) AS n"
            ),
        );
        let store = storebench_stores::open(&server.url).unwrap();
        store.prepare(&existing("t", Some("id"), Some("doc")), Prepare::ReadOnly).unwrap();
        let (mut looked, mut broken) = (0, 0);
        let (keys, bad) = read(&*store, (None, None), |so_far| {
            if looked < 5 && so_far / 2_000 > looked {
                looked += 1;
                // None where what it sent before is still being read.
                let killed = sql(
                    &server,
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'COPY %'",
                );
                broken += usize::from(killed.trim() != "0");
            }
        })
        .unwrap();
        assert!(broken >= 1 && bad.is_empty(), "{column}: {broken} {bad:?}");
        let expected: BTreeSet<String> = (1..=20_000).map(|n: u32| n.to_string()).collect();
        assert!(keys.iter().cloned().collect::<BTreeSet<_>>() == expected, "{column}: {} keys", keys.len());
        // What is unique comes again from the first on; what is not goes on behind the last.
        assert_eq!(keys.len() > expected.len(), column.contains("PRIMARY"), "{column}: {} keys", keys.len());
        store.close().unwrap();
    }
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
