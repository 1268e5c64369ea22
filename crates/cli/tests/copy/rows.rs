//! `copy` from stores that list keys in no order, and from queries, on real servers.

use std::io::{Read as _, Write as _};

use crate::common::Cli;
use crate::common::copies::{by_key, count, documents, report};
use crate::server::Server;
use serde_json::{Value, json};

/// Sends commands to Redis, and returns the answers.
fn redis(port: u16, commands: &[&[&str]]) -> String {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut text = String::new();
    for words in commands.iter().chain([&&["QUIT"][..]]) {
        text += &format!("*{}\r\n", words.len());
        words.iter().for_each(|word| text += &format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn what_was_copied_into_redis_comes_out_again() {
    for (name, options) in [("redis", ""), ("redis", "?ordered=yes"), ("redis-cluster", "")] {
        let server = Server::start(name);
        let url = format!("{}{options}", server.url);
        let cli = Cli::new();
        cli.write("books.jsonl", &documents(3_000));
        let done = cli.run_args(&["copy", "books.jsonl", &url, "--verify", "-p", "2", "--json"]);
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(report(&done)["verified"]["equal"], true);
        let out = ["copy", &url, "out.jsonl", "--force", "--from-collection", "books", "--verify", "-p", "2", "--json"];
        let done = cli.run_args(&out);
        assert_eq!(done.code, 0, "{done:?}");
        let splits = report(&done)["splits"].as_u64().unwrap();
        assert!(!options.is_empty() || splits == if name == "redis" { 1 } else { 3 }, "{name}: {splits} parts");
        assert_eq!(count(&report(&done), "written"), 3_000);
        assert_eq!(by_key(&cli.path("out.jsonl")), by_key(&cli.path("books.jsonl")), "{url}");
        // No key begins like this, because `*` is literal.
        let none = cli.run_args(&["copy", &url, "none.jsonl", "--from-collection", "*books:", "--json"]);
        assert_eq!((none.code, count(&report(&none), "read")), (0, 0), "{none:?}");
    }
}

#[test]
fn keys_of_yours_are_walked_and_what_is_no_document_is_told() {
    let server = Server::start("redis");
    let keys: Vec<String> = (0..500).map(|n| format!("book:{n}")).collect();
    let sets: Vec<[&str; 3]> = keys.iter().map(|key| ["SET", key, "{\"n\":1}"]).collect();
    let mut commands: Vec<&[&str]> = sets.iter().map(|set| &set[..]).collect();
    commands.push(&["SET", "author:1", "{}"]);
    commands.push(&["RPUSH", "book:list", "a"]);
    commands.push(&["PEXPIRE", "book:7", "3600000"]);
    redis(server.port, &commands);
    let cli = Cli::new();
    let args = ["copy", &server.url, "out.jsonl", "--force", "--from-collection", "book:", "--json"];
    let done = cli.run_args(&args);
    assert_eq!(done.code, 1, "{done:?}");
    assert_eq!((count(&report(&done), "written"), count(&report(&done), "rejected")), (499, 2));
    let rejects = std::fs::read_to_string(cli.path(report(&done)["rejects"].as_str().unwrap())).unwrap();
    let why: Vec<(String, String)> = rejects
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|reject| (reject["key"].as_str().unwrap().to_owned(), reject["why"].as_str().unwrap().to_owned()))
        .collect();
    let told = |key: &str, part: &str| why.iter().any(|(k, w)| k == key && w.contains(part));
    assert!(told("list", "holds a list") && told("7", "--drop-expiry"), "{why:?}");
    let done = cli.run_args(&[&args[..], &["--drop-expiry", "--max-errors", "1"]].concat());
    assert_eq!((done.code, count(&report(&done), "written"), count(&report(&done), "dropped_expiry")), (0, 500, 1));
    assert_eq!(by_key(&cli.path("out.jsonl"))["7"], json!({"_id": "7", "n": 1}));
    // If the target also supports expiry, it is kept.
    let other = format!("{}/1", server.url.trim_end_matches("/0"));
    let into = ["copy", &server.url, &other, "--from-collection", "book:", "--to-collection", "book:"];
    let done = cli.run_args(&[&into[..], &["--into-existing", "--max-errors", "1", "--json"]].concat());
    assert_eq!(
        (done.code, count(&report(&done), "written"), count(&report(&done), "rejected")),
        (0, 500, 1),
        "{done:?}"
    );
    let left = redis(server.port, &[&["SELECT", "1"], &["PTTL", "book:7"], &["PTTL", "book:8"]]);
    let left: Vec<i64> = left.lines().filter_map(|line| line.trim_start_matches(':').trim().parse().ok()).collect();
    assert!((3_000_000..=3_600_000).contains(&left[0]) && left[1] == -1, "{left:?}");
}

#[test]
fn a_walk_that_is_killed_begins_its_part_again() {
    let server = Server::start("redis");
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(20_000));
    assert_eq!(cli.run_args(&["copy", "books.jsonl", &server.url]).code, 0);
    let ends = ["copy", &server.url, "sqlite:b.db", "--from-collection", "books", "--verify"];
    let mut copy = cli.command(&[&ends[..], &["--rate-docs", "20000"]].concat()).spawn().unwrap();
    let begun = || std::fs::metadata(cli.path("b.db")).is_ok_and(|file| file.len() > 1 << 20);
    while !begun() && copy.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    copy.kill().unwrap();
    copy.wait().unwrap();
    let done = cli.run_args(&[&ends[..], &["--resume", "--json"]].concat());
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!((count(&report(&done), "written"), &report(&done)["verified"]["equal"]), (20_000, &Value::Bool(true)));
}

fn sql(server: &Server, statements: &str) {
    let done = server.psql().args(["-c", statements]).output().unwrap();
    assert!(done.status.success(), "{statements}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn rows_of_a_query_of_postgres_become_records() {
    let server = Server::start("postgres");
    sql(
        &server,
        "CREATE TABLE books (id bigint PRIMARY KEY, price numeric, title text, sold boolean, at timestamptz, raw bytea, \
         tags text[], body jsonb, none text); \
         INSERT INTO books SELECT i, 1.50, 'title ' || i, true, '2014-04-01 12:00+02', '\\x00ff', ARRAY['a', NULL], \
         '{\"a\": [1.10]}', NULL FROM generate_series(9007199254740993, 9007199254743493) i",
    );
    let cli = Cli::new();
    let args = |query: &'static str, more: &[&'static str]| {
        let mut all = vec![
            "copy".to_owned(),
            server.url.clone(),
            "out.jsonl".into(),
            "--force".into(),
            "--query".into(),
            query.into(),
        ];
        all.extend(more.iter().map(|&word| word.to_owned()));
        all
    };
    let run = |query: &'static str, more: &[&'static str]| {
        let all = args(query, more);
        cli.run_args(&all.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let done = run("SELECT * FROM books WHERE id > 0 -- all\n;", &["--key", "id", "--verify", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!((count(&report(&done), "written"), &report(&done)["snapshot"]), (2_501, &Value::Bool(true)));
    let text = std::fs::read_to_string(cli.path("out.jsonl")).unwrap();
    let first = text.lines().next().unwrap();
    for part in [
        "\"id\":9007199254740993,",
        "\"price\":1.50,",
        "\"sold\":true",
        "\"at\":\"2014-04-01T10:00:00+00:00\"",
        "\"raw\":\"\\\\x00ff\"",
        "\"tags\":[\"a\",null]",
        "\"body\":{\"a\": [1.10]}",
        "\"none\":null",
    ] {
        assert!(first.contains(part), "{part} is not in {first}");
    }
    // A number cannot be a key, but a text can.
    let done = run("SELECT id::text AS _id, title FROM books LIMIT 3", &["--restart", "--json"]);
    assert_eq!((done.code, count(&report(&done), "written")), (0, 3), "{done:?}");
    for (query, told) in [
        ("DELETE FROM books RETURNING id", "syntax error"),
        ("SELECT nextval('numbers')", "numbers"),
        ("SELECT 1) AS q; DROP TABLE books; SELECT (1", "cannot insert multiple commands"),
        ("SELECT 1 AS a, 2 AS a", "two columns of the query are named `a`"),
        ("SELECT no FROM books", "column \"no\" does not exist"),
    ] {
        let done = run(query, &["--key", "a"]);
        assert!(done.code != 0 && done.err.contains(told), "{query}: {done:?}");
    }
    sql(
        &server,
        "CREATE SEQUENCE numbers; CREATE FUNCTION w() RETURNS int LANGUAGE sql AS 'DELETE FROM books RETURNING 1'",
    );
    for query in ["SELECT nextval('numbers') AS a", "SELECT w() AS a"] {
        let done = run(query, &["--key", "a"]);
        assert!(done.code != 0 && done.err.contains("read-only transaction"), "{query}: {done:?}");
        assert!(done.err.contains("the query writes") && !done.err.contains("standby"), "{query}: {done:?}");
    }
    let numbers =
        "SELECT 'a' AS _id, 'NaN'::float8 AS x, ARRAY['-Infinity'::float8] AS y, 1.5::numeric AS z, 'NaN' AS t";
    let done = run(numbers, &["--restart"]);
    assert!(done.code == 1 && done.out.contains("its column `x`, `y` is NaN or infinite"), "{done:?}");
    sql(
        &server,
        "CREATE TABLE lines (shop int, number text, n int, PRIMARY KEY (shop, number)); \
         INSERT INTO lines VALUES (1, 'x', 5), (2, 'x', 6); \
         CREATE TABLE made (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, doc jsonb)",
    );
    let all = ["copy", &server.url, "out.jsonl", "--force", "--from-collection", "lines", "--key", "{shop}:{number}"];
    cli.run_args(&all).code(0);
    let text = std::fs::read_to_string(cli.path("out.jsonl")).unwrap();
    assert!(text.contains(r#"{"_id":"1:x","shop":1,"number":"x","n":5}"#), "{text}");
    cli.write("new.jsonl", "{\"_id\":\"7\",\"n\":1}\n");
    for (options, code) in [("", 1), ("?identity=given", 0)] {
        let to = format!("{}{options}", server.url);
        let done = cli.run_args(&["copy", "new.jsonl", &to, "--into-existing", "--to-collection", "made"]);
        assert!(done.code == code && done.out.contains("(key in id, document in doc)"), "{options}: {done:?}");
    }
}

#[test]
fn rows_of_a_query_of_sqlite_become_records() {
    let cli = Cli::new();
    let file = rusqlite::Connection::open(cli.path("shop.db")).unwrap();
    file.execute_batch(
        "CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT, price REAL, raw BLOB); \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) \
         INSERT INTO books SELECT i, 'title \"' || i, 0.1, x'00ff' FROM n; INSERT INTO books VALUES (9000, NULL, 9e999, 1)",
    )
    .unwrap();
    let copy = |query: &str, more: &[&str]| {
        cli.run_args(
            &[&["copy", "sqlite:shop.db", "out.jsonl", "--force", "--json", "--query", query][..], more].concat(),
        )
    };
    let done = copy("SELECT * FROM books", &["--key", "id"]);
    assert_eq!(
        (done.code, count(&report(&done), "written"), count(&report(&done), "rejected")),
        (1, 2_500, 1),
        "{done:?}"
    );
    let text = std::fs::read_to_string(cli.path("out.jsonl")).unwrap();
    assert!(text.contains(r#"{"_id":"1","id":1,"title":"title \"1","price":0.1,"raw":"00ff"}"#), "{}", &text[..200]);
    let done = copy("SELECT 'k' || id AS _id, title FROM books WHERE id = 2", &[]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(by_key(&cli.path("out.jsonl"))["k2"], json!({"_id": "k2", "title": "title \"2"}));
    for (query, told) in [
        ("DELETE FROM books", "returns no rows or writes"),
        ("SELECT 1 AS a; SELECT 2 AS a", "more than one statement"),
        ("SELECT 1 AS a, 2 AS a", "two columns are named `a`"),
        ("SELECT no FROM books", "no such column"),
    ] {
        let done = copy(query, &["--key", "a"]);
        assert!(done.code == 2 && done.err.contains(told), "{query}: {done:?}");
    }
    std::fs::create_dir(cli.path("f")).unwrap();
    let fjall = cli.run_args(&["copy", "fjall:f", "out.jsonl", "--force", "--query", "SELECT 1"]);
    assert!(fjall.code == 2 && fjall.err.contains("does not support --query"), "{fjall:?}");
}

/// Redis orders its keys differently after each start, so the position in its list becomes meaningless.
#[test]
fn a_walk_outlives_a_redis_that_is_killed_and_comes_back() {
    let server = Server::start_with("redis", &["--option", "appendonly yes", "--option", "appendfsync always"]);
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(20_000));
    cli.run_args(&["copy", "books.jsonl", &server.url]).code(0);
    let ends = ["copy", &server.url, "sqlite:b.db", "--from-collection", "books", "--verify", "--json"];
    let patient = ["--rate-docs", "6000", "--batch", "200", "--tries", "1000", "--retry-total", "10m"];
    let mut copy = cli.command(&[&ends[..], &patient].concat()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let begun = || std::fs::metadata(cli.path("b.db")).is_ok_and(|file| file.len() > 1 << 20);
    while !begun() && copy.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    server.kill();
    std::thread::sleep(std::time::Duration::from_millis(200));
    server.restart();
    let done = copy.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((done.status.code(), count(&report, "written")), (Some(0), 20_000), "{report}");
    cli.run_args(&["copy", "sqlite:b.db", "out.jsonl", "--from-collection", "books"]).code(0);
    assert_eq!(by_key(&cli.path("out.jsonl")), by_key(&cli.path("books.jsonl")));
}

#[test]
fn a_key_that_expires_on_the_way_is_no_loss() {
    let server = Server::start("redis");
    let keys: Vec<String> = (0..3_000).map(|n| format!("book:{n:04}")).collect();
    let sets: Vec<[&str; 5]> = keys
        .iter()
        .enumerate()
        .map(|(n, key)| ["SET", key, "{\"n\":1}", "PX", if n % 2 == 0 { "700" } else { "3600000" }])
        .collect();
    redis(server.port, &sets.iter().map(|set| &set[..]).collect::<Vec<_>>());
    let cli = Cli::new();
    let other = format!("{}/1", server.url.trim_end_matches("/0"));
    let into = ["copy", &server.url, &other, "--from-collection", "book:", "--to-collection", "book:"];
    // Slowly, so that most of the short-lived keys expire before they are copied.
    let slowly = ["--into-existing", "--rate-docs", "1000", "--batch", "50", "-p", "1", "--json"];
    let done = cli.run_args(&[&into[..], &slowly].concat()).code(0);
    let report = report(&done);
    let (read, written) = (count(&report, "read"), count(&report, "written"));
    assert!((1_500..3_000).contains(&written) && count(&report, "rejected") == 0, "{report}");
    assert_eq!(read, written + count(&report, "skipped"), "{report}");
}
