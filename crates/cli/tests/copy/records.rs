//! How `copy` selects, changes and writes each record.

use std::time::{Duration, Instant};

use crate::common::{Cli, Done};
use crate::server::Server;
use serde_json::Value;

const BOOKS: &str = "\
{\"_id\":\"a\",\"title\":\"A\",\"year\":2001,\"by\":{\"name\":\"x\",\"mail\":\"secret\"}}
{\"_id\":\"b\",\"title\":\"B\",\"year\":2014,\"by\":{\"name\":\"y\",\"mail\":\"secret\"}}
{\"_id\":\"c\",\"title\":\"C\",\"year\":9223372036854775807,\"by\":{\"name\":\"z\"}}
";

fn counts(done: &Done) -> [u64; 4] {
    let report: Value = serde_json::from_str(&done.out).unwrap_or_else(|e| panic!("{e}: {done:?}"));
    ["read", "written", "rejected", "skipped"].map(|name| report["counts"][name].as_u64().unwrap())
}

fn lines(cli: &Cli, name: &str) -> Vec<String> {
    let mut lines: Vec<String> = std::fs::read_to_string(cli.path(name)).unwrap().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Everything in the collection `books` of a store.
fn all(cli: &Cli, url: &str) -> Vec<String> {
    let _ = std::fs::remove_file(cli.path("all.jsonl"));
    let done = cli.run_args(&["copy", url, "all.jsonl", "--from-collection", "books", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    lines(cli, "all.jsonl")
}

#[test]
fn only_some_records_and_only_some_of_their_fields() {
    let cli = Cli::new();
    cli.write("books.jsonl", BOOKS);
    let done = cli.run_args(&[
        "copy",
        "books.jsonl",
        "new.jsonl",
        "--filter",
        ".year > 2010",
        "--fields",
        "title,year,by.name",
        "--rename",
        "by=author",
        "--verify",
        "--json",
    ]);
    assert_eq!((done.code, counts(&done)), (0, [3, 2, 0, 1]), "{done:?}");
    let wanted = [
        r#"{"_id":"b","title":"B","year":2014,"author":{"name":"y"}}"#,
        r#"{"_id":"c","title":"C","year":9223372036854775807,"author":{"name":"z"}}"#,
    ];
    assert_eq!(lines(&cli, "new.jsonl"), wanted);
    let done = cli.run_args(&[
        "copy",
        "books.jsonl",
        "out.csv",
        "--map",
        "{_id: .title, age: (2020 - .year)} | select(.age > 0)",
        "--json",
    ]);
    assert_eq!(counts(&done), [3, 2, 0, 1], "{done:?}");
    assert_eq!(lines(&cli, "out.csv"), ["A,19", "B,6", "_id,age"]);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_touched() {
    let cli = Cli::new();
    cli.write("books.jsonl", BOOKS);
    for (args, why) in [
        (&["--filter", ".year >"][..], "--filter: expected term, found the end, at character 8 of `.year >`"),
        (&["--map", "now"], "there is no filter `now` (not available"),
        (&["--op", "merge", "--merge", ".n += $newer.n"], "there is no variable `$newer`, at character 7"),
        (&["--merge", "."], "--merge requires --op merge, not --op upsert"),
        (&["--op", "merge", "--merge", ".", "--verify"], "cannot be verified"),
        (&["--rename", "_id=id"], "--key _id"),
        (&["--fields", "a,,b"], "has an empty field name"),
        (&["--op", "touch"], "set it with --expiry"),
        (&["--expiry", "1h"], "cannot do `touch`, which an expiry needs"),
        (&["--expiry", "0s"], "expected a time above 0"),
        (&["--op-field", "op", "--verify"], "with --op-field"),
        (&["--op-field", "op", "--op", "insert"], "cannot be used with"),
        (&["--merge-absent"], "--merge <JQ>"),
    ] {
        let mut all = vec!["copy", "books.jsonl", "sqlite:books.db"];
        all.extend(args);
        let done = cli.run_args(&all);
        assert!(done.code == 2 && done.err.contains(why), "{args:?}: {done:?}");
    }
    for flag in [&["--op-field", "op"][..], &["--expiry", "1h"], &["--expiry-field", "ttl"]] {
        let mut all = vec!["copy", "books.jsonl", "out.jsonl"];
        all.extend(flag);
        let done = cli.run_args(&all);
        assert!(done.code == 2 && done.err.contains("needs a store"), "{flag:?}: {done:?}");
    }
    assert!(!cli.path("books.db").exists() && !cli.path("out.jsonl").exists());
}

#[test]
fn a_filter_that_fails_rejects_the_record_and_says_why() {
    let cli = Cli::new();
    cli.write("books.jsonl", BOOKS);
    let done = cli.run_args(&[
        "copy",
        "books.jsonl",
        "sqlite:books.db",
        "--filter",
        ".by.mail | length > 0",
        "--rejects",
        "no.jsonl",
        "--json",
    ]);
    assert_eq!((done.code, counts(&done)), (0, [3, 2, 0, 1]), "{done:?}");
    let done = cli.run_args(&[
        "copy",
        "books.jsonl",
        "sqlite:books.db",
        "--filter",
        ".title + .year",
        "--rejects",
        "no.jsonl",
        "--json",
    ]);
    assert_eq!((done.code, counts(&done)), (1, [3, 0, 3, 0]), "{done:?}");
    let reject: Value = serde_json::from_str(&lines(&cli, "no.jsonl")[0]).unwrap();
    assert_eq!(reject["why"], "--filter: cannot calculate \"A\" + 2001");
    assert_eq!((&reject["record"]["_id"], &reject["record"]["year"]), (&"a".into(), &2001.into()));
}

#[test]
fn counts_are_added_up_in_place() {
    let cli = Cli::new();
    for url in ["sqlite:books.db", "fjall:books"] {
        cli.write("books.jsonl", "{\"_id\":\"a\",\"n\":1,\"t\":\"x\"}\n{\"_id\":\"b\",\"n\":9007199254740993}\n");
        assert_eq!(cli.run_args(&["copy", "books.jsonl", url]).code, 0);
        cli.write("clicks.jsonl", "{\"_id\":\"a\",\"n\":2}\n{\"_id\":\"b\",\"n\":2}\n{\"_id\":\"a\",\"n\":4}\n{\"_id\":\"c\",\"n\":8}\n{\"_id\":\"b\",\"n\":0}\n");
        let merge = [
            "copy",
            "clicks.jsonl",
            url,
            "--to-collection",
            "books",
            "--op",
            "merge",
            "--merge",
            "(. // {}) | .n += $new.n",
            "--json",
        ];
        let done = cli.run_args(&merge);
        assert_eq!((done.code, counts(&done)), (1, [5, 3, 1, 1]), "{done:?}");
        let wanted = [r#"{"_id":"a","n":7,"t":"x"}"#, r#"{"_id":"b","n":9007199254740995}"#];
        assert_eq!(all(&cli, url), wanted, "{url}");
        let done = cli.run_args(&[&merge[..], &["--merge-absent"]].concat());
        assert_eq!((done.code, counts(&done)), (0, [5, 4, 0, 1]), "{done:?}");
        assert_eq!(all(&cli, url)[2], r#"{"_id":"c","n":8}"#);
    }
}

#[test]
fn changes_of_every_kind_come_in_one_file() {
    let cli = Cli::new();
    cli.write("books.jsonl", BOOKS);
    assert_eq!(cli.run_args(&["copy", "books.jsonl", "sqlite:books.db"]).code, 0);
    cli.write(
        "changes.csv",
        "_id,op,title\na,delete,\nb,merge,BB\nd,upsert,D\nd,delete,\ne,insert,E\nz,replace,Z\ny,destroy,Y\n",
    );
    let done = cli.run_args(&[
        "copy",
        "changes.csv",
        "sqlite:books.db",
        "--to-collection",
        "books",
        "--op-field",
        "op",
        "--without",
        "op",
        "--json",
    ]);
    assert_eq!((done.code, counts(&done)), (1, [7, 5, 2, 0]), "{done:?}");
    let all = all(&cli, "sqlite:books.db");
    assert_eq!((all.len(), all[2].as_str()), (3, r#"{"_id":"e","title":"E"}"#), "{all:?}");
    assert!(all[0].contains(r#""title":"BB""#) && all[0].contains("secret"), "{all:?}");
}

#[test]
fn documents_of_redis_expire() {
    let server = Server::start("redis");
    let cli = Cli::new();
    cli.write("books.jsonl", "{\"_id\":\"short\",\"ttl\":1}\n{\"_id\":\"long\",\"ttl\":3600}\n{\"_id\":\"ever\"}\n");
    let copy = ["copy", "books.jsonl", &server.url, "--json"];
    let done = cli.run_args(&[&copy[..], &["--expiry-field", "ttl", "--without", "ttl"]].concat());
    assert_eq!((done.code, counts(&done)), (0, [3, 3, 0, 0]), "{done:?}");
    // A touch rejects keys that do not exist. After a while, the document that lives for a second has expired.
    let begun = Instant::now();
    loop {
        let done = cli.run_args(&[&copy[..], &["--op", "touch", "--expiry-field", "ttl", "--expiry", "1h"]].concat());
        let [read, written, rejected, _] = counts(&done);
        assert_eq!((read, written + rejected), (3, 3));
        if rejected == 1 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not expire: {done:?}");
        // A touched document lives for another second.
        std::thread::sleep(Duration::from_millis(1_500));
    }
}

/// Starts with documents whose `n` is 0, and then runs three copies at once that add to it.
fn added_up(url: &str) {
    let cli = Cli::new();
    cli.write("books.jsonl", "{\"_id\":\"a\",\"n\":0}\n{\"_id\":\"b\",\"n\":0}\n");
    assert_eq!(cli.run_args(&["copy", "books.jsonl", url]).code, 0);
    let copies: Vec<_> = (0..3)
        .map(|copy| {
            let name = format!("clicks-{copy}.jsonl");
            cli.write(&name, &"{\"_id\":\"a\",\"n\":1}\n{\"_id\":\"b\",\"n\":2}\n".repeat(40));
            let merge = ["copy", &name, url, "--to-collection", "books", "--op", "merge", "--merge", ".n += $new.n"];
            cli.command(&[&merge[..], &["--tries", "1000"]].concat())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut copy in copies {
        assert!(copy.wait().unwrap().success(), "{url}");
    }
    let numbers: Vec<Value> =
        all(&cli, url).iter().map(|line| serde_json::from_str::<Value>(line).unwrap()["n"].clone()).collect();
    assert_eq!(numbers, [Value::from(120), Value::from(240)], "{url}");
}

#[test]
fn several_copies_add_to_one_document_of_postgres() {
    added_up(&Server::start("postgres").url);
}

#[test]
fn several_copies_add_to_one_document_of_ravendb() {
    added_up(&Server::start("ravendb").url);
}

#[test]
fn several_copies_add_to_one_document_of_couchdb() {
    added_up(&Server::start("pouchdb-server").url);
}
