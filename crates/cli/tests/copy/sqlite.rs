//! SQLite databases of others. A column may mix types that have no common order, and other processes may write.

use std::path::Path;

use rusqlite::Connection;

use crate::common::copies::{by_key, count, documents, report};
use crate::common::{Cli, Done};

fn database(cli: &Cli, sql: &str) -> Connection {
    let file = Connection::open(cli.path("shop.db")).unwrap();
    file.execute_batch(sql).unwrap();
    file
}

/// Rows with the numbers from 1 to 1,000.
const THOUSAND: &str = "WITH RECURSIVE n(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < 1000)";

fn out(cli: &Cli, table: &str, columns: [&str; 2], more: &[&str]) -> Done {
    let _ = std::fs::remove_file(cli.path("out.jsonl"));
    let args = ["copy", "sqlite:shop.db", "out.jsonl", "--from-collection", table, "--verify", "--json"];
    let columns =
        if columns == ["key", "body"] { Vec::new() } else { vec!["--from-key", columns[0], "--from-body", columns[1]] };
    cli.run_args(&[&args[..], &columns, more].concat())
}

fn whole(cli: &Cli, table: &str, columns: [&str; 2], more: &[&str]) {
    let done = out(cli, table, columns, more).code(0);
    assert_eq!(count(&report(&done), "written"), 1_000, "{table}: {done:?}");
    assert_eq!(by_key(&cli.path("out.jsonl")).len(), 1_000, "{table}");
}

fn refused(cli: &Cli, table: &str, columns: [&str; 2], told: &str) {
    let done = out(cli, table, columns, &[]);
    assert!(done.code == 2 && done.err.contains(told), "{table}: {done:?}");
    assert!(!cli.path("out.jsonl").exists(), "{table}");
}

#[test]
fn a_table_of_others_is_theirs_whatever_its_columns_are_named() {
    let cli = Cli::new();
    let _file = database(
        &cli,
        &format!(
            "CREATE TABLE docs (key INTEGER PRIMARY KEY, body TEXT); {THOUSAND} INSERT INTO docs SELECT n, '{{}}' FROM n; \
             CREATE TABLE nulls (key TEXT PRIMARY KEY, body TEXT); INSERT INTO nulls VALUES ('a', '{{}}'), (NULL, '{{}}'); \
             CREATE TABLE loose (key, body); INSERT INTO loose VALUES (1, '{{}}'), ('a', '{{}}'); \
             CREATE TABLE unlike (key INTEGER PRIMARY KEY DESC, body); INSERT INTO unlike VALUES ('ab', 1), (X'6162', 2)"
        ),
    );
    whole(&cli, "docs", ["key", "body"], &["-p", "1"]);
    whole(&cli, "docs", ["key", "body"], &["-p", "4"]);
    refused(&cli, "nulls", ["key", "body"], "type null and text");
    // It looks like the row's number, but is not.
    refused(&cli, "unlike", ["key", "body"], "type blob and text");
    refused(&cli, "loose", ["key", "body"], "type integer and text");
}

#[test]
fn keys_that_a_view_computes_are_not_taken_for_a_column() {
    let cli = Cli::new();
    let _file = database(
        &cli,
        &format!(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, doc TEXT); {THOUSAND} INSERT INTO t SELECT n, '{{}}' FROM n; \
             CREATE VIEW moved AS SELECT id + 0 AS id, doc FROM t; \
             CREATE VIEW texts AS SELECT printf('k%04d', id) AS id, doc FROM t"
        ),
    );
    refused(&cli, "moved", ["id", "doc"], "type integer");
    whole(&cli, "texts", ["id", "doc"], &["-p", "4"]);
}

#[test]
fn keys_that_are_ordered_otherwise_than_by_bytes_are_read_once() {
    let cli = Cli::new();
    let keys = "(CASE n % 2 WHEN 0 THEN 'key' ELSE 'KEY' END || (n / 2))";
    let _file = database(
        &cli,
        &format!(
            "CREATE TABLE t (id TEXT PRIMARY KEY COLLATE NOCASE, doc TEXT); CREATE TABLE twins (id TEXT COLLATE NOCASE, doc TEXT); \
             {THOUSAND} INSERT INTO t SELECT {keys} || '-' || n, '{{}}' FROM n; {THOUSAND} INSERT INTO twins SELECT {keys}, '{{}}' FROM n"
        ),
    );
    whole(&cli, "t", ["id", "doc"], &["-p", "4"]);
    whole(&cli, "twins", ["id", "doc"], &["-p", "4"]);
    drop(_file);
    std::fs::remove_file(cli.path("shop.db")).unwrap();
    let _file = database(
        &cli,
        &format!(
            "PRAGMA encoding = 'UTF-16le'; CREATE TABLE t (id TEXT PRIMARY KEY, doc TEXT); \
             {THOUSAND} INSERT INTO t SELECT char(n + 200) || n, '{{}}' FROM n"
        ),
    );
    whole(&cli, "t", ["id", "doc"], &["-p", "4"]);
}

/// Uncommitted changes of another process are not read.
#[test]
fn only_what_is_committed_is_read() {
    let cli = Cli::new();
    let other = database(
        &cli,
        &format!(
            "PRAGMA cache_size = 10; PRAGMA cache_spill = 1; CREATE TABLE t (id TEXT PRIMARY KEY, doc TEXT); \
             {THOUSAND} INSERT INTO t SELECT printf('k%04d', n), json_object('n', 1, 'text', hex(zeroblob(500))) FROM n"
        ),
    );
    other.execute_batch("BEGIN IMMEDIATE; UPDATE t SET doc = json_set(doc, '$.n', 2)").unwrap();
    let done = out(&cli, "t", ["id", "doc"], &["--timeout", "500ms", "--retry-total", "1s"]);
    // The writer has spilled its changes, and holds a lock that blocks readers.
    assert!(done.code == 3 && done.err.contains("lock"), "{done:?}");
    other.execute_batch("ROLLBACK").unwrap();
    let done = out(&cli, "t", ["id", "doc"], &["--restart"]).code(0);
    assert_eq!(count(&report(&done), "written"), 1_000);
    assert!(by_key(&cli.path("out.jsonl")).values().all(|document| document["n"] == 1));
}

/// The writes of the copy change the file that it reads.
#[test]
fn one_file_can_be_both_ends() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(20_000));
    cli.run("copy books.jsonl sqlite:b.db").code(0);
    for parallel in ["1", "3"] {
        let to = format!("again{parallel}");
        let ends = ["copy", "sqlite:b.db", "sqlite:b.db", "--from-collection", "books", "--to-collection", &to];
        let done = cli.run_args(&[&ends[..], &["-p", parallel, "--verify", "--json"]].concat()).code(0);
        assert_eq!(count(&report(&done), "written"), 20_000);
    }
}

fn copied(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
}

#[test]
fn a_log_that_cannot_be_read_along_is_told() {
    let cli = Cli::new();
    let file = database(
        &cli,
        &format!(
            "PRAGMA journal_mode = wal; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (id TEXT PRIMARY KEY, doc TEXT); \
             {THOUSAND} INSERT INTO t SELECT n, '{{}}' FROM n"
        ),
    );
    // While the writer has it open, the contents of the log are read too.
    whole(&cli, "t", ["id", "doc"], &["-p", "2"]);
    for name in ["shop.db", "shop.db-wal"] {
        copied(&cli.path(name), &cli.path(&name.replace("shop", "moved")));
    }
    drop(file);
    let args =
        ["copy", "sqlite:moved.db", "out.jsonl", "--from-collection", "t", "--from-key", "id", "--from-body", "doc"];
    let done = cli.run_args(&[&args[..], &["--restart"]].concat());
    assert!(done.code == 2 && done.err.contains("open the file once with sqlite3"), "{done:?}");
    // After the merge it needs no log, and nothing is created beside it.
    whole(&cli, "t", ["id", "doc"], &["-p", "2"]);
    assert!(!cli.path("shop.db-shm").exists());
}
