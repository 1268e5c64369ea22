//! Servers that are killed while a copy runs.

use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::Cli;
use crate::common::copies::{by_key, count, documents, log_lines, report};
use crate::server::Server;

const DOCUMENTS: usize = 12_000;

/// Starts a copy of some seconds in the background, and waits until one part is done and more is in progress.
fn begin(cli: &Cli, args: &[&str]) -> Child {
    let paced = [args, &["--rate-docs", "4000", "--batch", "200", "-p", "2", "--json"]].concat();
    let mut copy = cli.command(&paced).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while log_lines(cli) < 2 {
        let ended = copy.try_wait().unwrap();
        assert!(ended.is_none() && begun.elapsed() < Duration::from_secs(60), "no part is done: {ended:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
    copy
}

fn end(copy: Child) -> (i32, Value, String) {
    let Output { status, stdout, stderr } = copy.wait_with_output().unwrap();
    let err = String::from_utf8(stderr).unwrap();
    (status.code().unwrap(), serde_json::from_slice(&stdout).unwrap_or_default(), err)
}

/// Kills the server while a copy runs, and restarts it a little later.
fn outlives(cli: &Cli, server: &Server, args: &[&str]) -> (i32, Value, String) {
    outlives_unverified(cli, server, &[args, &["--verify"]].concat())
}

fn outlives_unverified(cli: &Cli, server: &Server, args: &[&str]) -> (i32, Value, String) {
    // On a busy machine, a server may be slow to come back.
    let copy = begin(cli, &[args, &["--tries", "1000", "--retry-total", "10m"]].concat());
    server.kill();
    std::thread::sleep(Duration::from_millis(500));
    server.restart();
    end(copy)
}

fn written_whole((code, report, err): (i32, Value, String)) -> Value {
    assert_eq!(code, 0, "{report} {err}");
    assert_eq!((count(&report, "written"), count(&report, "rejected")), (DOCUMENTS as u64, 0), "{report}");
    assert_eq!(report["verified"]["equal"], true, "{report}");
    report
}

/// Kills the server while a copy writes into it, and again while a copy reads from it.
fn outlives_both_ways(server: &Server) {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(DOCUMENTS));
    let report = written_whole(outlives(&cli, server, &["copy", "books.jsonl", &server.url]));
    println!("into {}: {} retries", server.url, count(&report, "retries"));
    assert!(count(&report, "retries") > 0, "the copy never missed the server: {report}");
    let out = ["copy", &server.url, "out.jsonl", "--from-collection", "books"];
    written_whole(outlives(&cli, server, &out));
    assert_eq!(by_key(&cli.path("out.jsonl")), by_key(&cli.path("books.jsonl")));
}

#[test]
fn a_copy_outlives_a_postgres_that_is_killed_and_comes_back() {
    outlives_both_ways(&Server::start("postgres"));
}

#[test]
fn a_copy_outlives_a_mariadb_that_is_killed_and_comes_back() {
    outlives_both_ways(&Server::start("mariadb"));
}

#[test]
#[ignore = "soak: OpenSearch starts three times"]
fn soak_a_copy_outlives_an_opensearch_that_is_killed_and_comes_back() {
    outlives_both_ways(&Server::start("opensearch"));
}

#[test]
#[ignore = "soak: Cassandra starts three times"]
fn soak_a_copy_outlives_a_cassandra_that_is_killed_and_comes_back() {
    outlives_both_ways(&Server::start_with("cassandra", &["--option", "commitlog_sync: batch"]));
}

#[test]
fn a_copy_that_waited_long_enough_for_its_server_can_be_gone_on_with() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(DOCUMENTS));
    let server = Server::start("postgres");
    for (from, to, more) in
        [("books.jsonl", server.url.as_str(), &[][..]), (&server.url, "out.jsonl", &["--from-collection", "books"])]
    {
        let args = [&["copy", from, to, "--retry-total", "400ms"], more].concat();
        let copy = begin(&cli, &[&args[..], &["--verify"]].concat());
        server.kill();
        let (code, _, err) = end(copy);
        assert_eq!(code, 3, "{err}");
        assert!(err.contains("--resume") && err.contains(&server.port.to_string()), "{err}");
        assert!(!err.contains(":storebench@"), "a password is shown: {err}");
        assert!(!cli.path("out.jsonl").exists());
        server.restart();
        let all = [&args[..], &["--verify", "-p", "2", "--resume", "--json"]].concat();
        let done = cli.run_args(&all).code(0);
        let report = report(&done);
        assert_eq!((count(&report, "written"), &report["verified"]["equal"]), (DOCUMENTS as u64, &true.into()));
    }
    assert_eq!(by_key(&cli.path("out.jsonl")), by_key(&cli.path("books.jsonl")));
}

#[test]
fn what_a_redis_without_persistence_forgot_is_found() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(DOCUMENTS));
    let server = Server::start("redis");
    let (code, report, err) = outlives(&cli, &server, &["copy", "books.jsonl", &server.url]);
    assert_eq!(code, 1, "{report} {err}");
    let verified = &report["verified"];
    let (written, found) = (verified["written"].as_u64().unwrap(), verified["found"].as_u64().unwrap());
    println!("redis without persistence: {found} of {written} found");
    assert_eq!((written, &verified["equal"]), (DOCUMENTS as u64, &false.into()), "{verified}");
    assert!(found > 0 && found < written, "{verified}");
    assert!(!verified["differing"].as_array().unwrap().is_empty(), "{verified}");
    // Also without reading back, such a copy does not count as complete. It was said before it began.
    let args = ["copy", "books.jsonl", &server.url, "--to-collection", "again"];
    let (code, report, err) = outlives_unverified(&cli, &server, &args);
    assert_eq!((code, report["counted"]["disconnects"].as_u64() > Some(0)), (1, true), "{report} {err}");
    assert!(err.contains("before they are on its disk"), "{err}");
}

#[test]
fn a_copy_outlives_a_durable_redis_that_is_killed_and_comes_back() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(DOCUMENTS));
    let server = Server::start_with("redis", &["--option", "appendonly yes", "--option", "appendfsync always"]);
    written_whole(outlives(&cli, &server, &["copy", "books.jsonl", &server.url]));
}

#[test]
fn a_copy_outlives_a_ravendb_that_is_killed_and_comes_back() {
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(DOCUMENTS));
    let server = Server::start("ravendb");
    written_whole(outlives(&cli, &server, &["copy", "books.jsonl", &server.url]));
}
