//! `copy` believes what a store counts, says what it leaves out, and ends when it is told to.

use std::io::Read as _;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::Cli;
use crate::server::Server;

/// Lines with the keys and one field.
fn lines<'a>(keys: impl IntoIterator<Item = &'a str>) -> String {
    keys.into_iter().enumerate().map(|(n, key)| format!("{{\"_id\":\"{key}\",\"n\":{n}}}\n")).collect()
}

#[test]
fn rows_that_a_trigger_of_a_table_ignores_are_rejected() {
    let cli = Cli::new();
    let file = rusqlite::Connection::open(cli.path("own.db")).unwrap();
    file.execute_batch(
        "CREATE TABLE own (key TEXT PRIMARY KEY, body TEXT); \
         CREATE TRIGGER odd BEFORE INSERT ON own WHEN NEW.body ->> 'n' % 2 = 1 BEGIN SELECT RAISE(IGNORE); END;",
    )
    .unwrap();
    cli.write("a.jsonl", &lines(["a", "b", "c", "d", "e"]));
    for op in ["upsert", "insert"] {
        let done = cli.run(&format!(
            "copy a.jsonl sqlite:own.db --into-existing --to-collection own --verify --op {op} --restart"
        ));
        assert_eq!(done.code, 1, "{done:?}");
        assert!(done.out.contains("written 3 · rejected 2") && done.out.contains("did not take it"), "{done:?}");
        assert!(done.out.contains("verified: "), "{done:?}");
    }
    let kept: i64 = file.query_row("SELECT count(*) FROM own", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 3);
}

#[test]
fn keys_of_which_a_column_would_make_others_are_rejected() {
    let cli = Cli::new();
    let file = rusqlite::Connection::open(cli.path("own.db")).unwrap();
    for (number, (column, taken, others)) in [
        ("INT", &["7", "-1"][..], &["1.0", "1e0", "12345678901234567890", "x"][..]),
        ("DECIMAL(10,2)", &["7", "x", "1-5"], &["1.50", "01", "1e1", "12345678901234567891"]),
        ("REAL", &["7", "9007199254740991"], &["9007199254740993", "7.0"]),
        ("INT COLLATE NOCASE", &["7"], &["7.0"]),
        ("NUMERIC COLLATE RTRIM", &["7"], &["7.0"]),
        ("UUID", &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"], &["1e5"]),
    ]
    .into_iter()
    .enumerate()
    {
        file.execute_batch(&format!("CREATE TABLE t{number} (key {column} PRIMARY KEY, body TEXT)")).unwrap();
        cli.write(
            "a.jsonl",
            &[taken, others].concat().iter().map(|key| format!("{{\"_id\":\"{key}\"}}\n")).collect::<String>(),
        );
        let done = cli.run(&format!("copy a.jsonl sqlite:own.db --into-existing --to-collection t{number} --verify"));
        let counts = format!("written {} · rejected {}", taken.len(), others.len());
        assert!(done.code == 1 && done.out.contains(&counts) && done.out.contains("verified: "), "{column}: {done:?}");
    }
}

#[test]
fn keys_that_a_table_takes_for_one_are_counted() {
    let cli = Cli::new();
    let file = rusqlite::Connection::open(cli.path("own.db")).unwrap();
    for (table, column, keys) in [
        ("nocase", "key TEXT PRIMARY KEY COLLATE NOCASE", ["K1", "k1", "k2"]),
        ("padded", "key TEXT COLLATE RTRIM UNIQUE", ["k1", "k1  ", "k2"]),
        ("numbers", "key INTEGER PRIMARY KEY", ["1", "01", "2"]),
    ] {
        file.execute_batch(&format!("CREATE TABLE {table} ({column}, body TEXT)")).unwrap();
        cli.write("a.jsonl", &lines(keys));
        let done =
            cli.run(&format!("copy a.jsonl sqlite:own.db --into-existing --to-collection {table} --verify -p 1"));
        assert_eq!(done.code, 0, "{table}: {done:?}");
        assert!(done.out.contains("1 record repeats an earlier key: the target holds 1 fewer"), "{table}: {done:?}");
        let kept: i64 = file.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(kept, 2, "{table}");
    }
    // A table that tells them apart.
    file.execute_batch("CREATE TABLE exact (key TEXT PRIMARY KEY, body TEXT)").unwrap();
    cli.write("a.jsonl", &lines(["K1", "k1", "01", "1"]));
    let done = cli.run("copy a.jsonl sqlite:own.db --into-existing --to-collection exact --verify");
    assert!(done.code == 0 && !done.out.contains("repeat"), "{done:?}");
}

#[test]
fn a_redis_that_evicts_is_named_before_the_copy_and_its_loss_after_it() {
    let cli = Cli::new();
    let body = "x".repeat(400);
    let text: String = (0..20_000).map(|n| format!("{{\"_id\":\"k{n}\",\"t\":\"{body}\"}}\n")).collect();
    cli.write("s.jsonl", &text);
    let server = Server::start_with("redis", &["--option", "maxmemory 6mb", "--option", "maxmemory-policy noeviction"]);
    let done = cli.run_args(&["copy", "s.jsonl", &server.url, "--retry-total", "1s"]);
    assert!(done.code != 0 && !done.err.contains("removes documents by itself"), "{done:?}");
    let server =
        Server::start_with("redis", &["--option", "maxmemory 6mb", "--option", "maxmemory-policy allkeys-lru"]);
    let done = cli.run_args(&["copy", "s.jsonl", &server.url, "--restart"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.err.contains("maxmemory 6 MB with maxmemory-policy allkeys-lru"), "{done:?}");
    assert!(done.out.contains("NOT COMPLETE: the target removed "), "{done:?}");
    let server = Server::start("redis");
    let done = cli.run_args(&["copy", "s.jsonl", &server.url]);
    assert!(
        done.code == 0 && !done.err.contains("removes documents") && !done.out.contains("NOT COMPLETE"),
        "{done:?}"
    );
}

#[test]
fn what_a_folder_leaves_out_and_what_its_folders_name_is_said() {
    let cli = Cli::new();
    for folder in ["sp/year=2024/month=01", "sp/_users"] {
        std::fs::create_dir_all(cli.path(folder)).unwrap();
    }
    cli.write("sp/year=2024/month=01/f.jsonl", "{\"_id\":\"a\"}\n");
    cli.write("sp/_users/g.jsonl", "{\"_id\":\"b\"}\n");
    let done = cli.run("copy sp/ o.jsonl --verify");
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.err.contains("year, month (--no-partitions leaves them out)"), "{done:?}");
    assert!(done.out.contains("not copied: 1 files whose names"), "{done:?}");
    let text = |name: &str| std::fs::read_to_string(cli.path(name)).unwrap();
    assert_eq!(text("o.jsonl"), "{\"_id\":\"a\",\"year\":2024,\"month\":\"01\"}\n");
    let done = cli.run("copy sp/ p.jsonl --no-partitions");
    assert!(done.code == 0 && !done.err.contains("year"), "{done:?}");
    assert_eq!(text("p.jsonl"), "{\"_id\":\"a\"}\n");
}

#[test]
fn a_copy_that_waits_for_standard_input_ends_at_the_first_signal() {
    for begins in ["", "{\"_id\":\"a\"}\n"] {
        let cli = Cli::new();
        let mut copy = cli
            .command(&["copy", "-", "o.jsonl"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = copy.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, begins.as_bytes()).unwrap();
        // Signals are caught once the copy has its log.
        while !cli.path("storebench-runs").exists()
            || !std::fs::read_dir(cli.path("storebench-runs"))
                .unwrap()
                .flatten()
                .any(|e| e.path().join("log.jsonl").exists())
        {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        kill_process(Pid::from_child(&copy), Signal::TERM).unwrap();
        // The input stays open, so without heeding the signal this waits for ever.
        let code = copy.wait().unwrap().code();
        let mut out = String::new();
        copy.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        assert_eq!(code, Some(130), "{out}");
        assert!(out.contains("interrupted") && !out.contains("--resume") && out.contains("--restart"), "{out}");
        drop(input);
    }
}

#[test]
fn a_rate_that_lets_nothing_pass_is_refused() {
    let cli = Cli::new();
    cli.write("a.jsonl", "{\"_id\":\"a\"}\n");
    for rate in ["--rate-docs 0", "--rate-docs -1", "--rate-bytes 0"] {
        let done = cli.run(&format!("copy a.jsonl b.jsonl {rate}"));
        assert!(done.code == 2 && !cli.path("b.jsonl").exists(), "{done:?}");
    }
    assert_eq!(cli.run("copy a.jsonl b.jsonl --rate-docs 0.4").code, 0);
}

#[test]
fn a_row_without_a_document_is_rejected_with_its_key() {
    let cli = Cli::new();
    let file = rusqlite::Connection::open(cli.path("own.db")).unwrap();
    file.execute_batch("CREATE TABLE own (key TEXT PRIMARY KEY, body TEXT)").unwrap();
    let mut insert = file.prepare("INSERT INTO own VALUES (?1, ?2)").unwrap();
    // Also as the first row, and as the last of a page.
    let is_null = |n: usize| [0, 99, 100, 250].contains(&n);
    for n in 0..300 {
        insert.execute((format!("k{n:03}"), (!is_null(n)).then(|| format!("{{\"n\":{n}}}")))).unwrap();
    }
    drop(insert);
    let done = cli.run("copy sqlite:own.db o.jsonl --from-collection own --rejects r.jsonl --verify");
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.out.contains("read 300 · written 296 · rejected 4"), "{done:?}");
    let rejects = std::fs::read_to_string(cli.path("r.jsonl")).unwrap();
    let rejects: Vec<serde_json::Value> = rejects.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut keys: Vec<&str> = rejects.iter().map(|reject| reject["key"].as_str().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["k000", "k099", "k100", "k250"]);
    assert!(rejects.iter().all(|reject| reject["why"] == "its document is NULL"), "{rejects:?}");
}
