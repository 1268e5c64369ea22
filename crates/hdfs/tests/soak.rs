//! Tests files in a single-machine Hadoop cluster. Run by `make soak`.
#![allow(missing_docs, dead_code, clippy::unwrap_used, clippy::print_stdout)]

#[path = "../../cli/tests/common/mod.rs"]
mod common;
#[path = "../../stores/tests/network/server.rs"]
mod server;

use common::Cli;
use common::copies::{by_key, documents, killed, sorted};
use server::Server;

#[test]
#[ignore = "soak: needs a Hadoop installation"]
fn soak_files_go_through_hdfs_with_kills() {
    let count = 100_000;
    let hadoop = Server::start("minidfs");
    let cli = Cli::new();
    cli.write("books.jsonl", &documents(count));
    let command = |args: &[&str]| {
        let mut command = cli.command(args);
        command.env("HADOOP_USER_NAME", "storebench");
        command
    };
    let run = |args: &[&str]| cli.run_command(&mut command(args));
    let finish = |args: &[&str]| {
        let done = run(&[args, &["--resume", "--json"]].concat()).code(0);
        let report = done.json();
        assert_eq!((&report["counts"]["written"], &report["verified"]["equal"]), (&count.into(), &true.into()));
        assert!(report["before"]["written"].as_u64().unwrap() > 0, "{report}");
    };
    let url = |path: &str| format!("{}/data/{path}", hadoop.url);

    // Copy into a folder and kill it: only complete parts exist.
    let out = url("out/");
    let into = ["copy", "books.jsonl", &out, "--verify", "-p", "2"];
    killed(&cli, command(&into), 3);
    run(&["copy", &out, "some.jsonl", "--verify"]).code(0);
    let all = sorted(&cli.path("books.jsonl"));
    let some = sorted(&cli.path("some.jsonl"));
    assert!(!some.is_empty() && some.len() < all.len() && some.iter().all(|line| all.binary_search(line).is_ok()));
    // Without the cluster, a resume fails; it succeeds once the cluster is back.
    hadoop.kill();
    let away = run(&[&into[..], &["--resume", "--tries", "2"]].concat()).code(3);
    assert!(away.err.contains("cannot be reached"), "{away:?}");
    hadoop.restart();
    finish(&into);

    // Copy from HDFS into a store and kill it, then copy back as one file in two formats.
    let out_of = ["copy", &out, "sqlite:b.db", "--to-collection", "books", "--verify", "-p", "2"];
    killed(&cli, command(&out_of), 2);
    finish(&out_of);
    for name in ["books.jsonl.gz", "books.parquet"] {
        let one = url(name);
        run(&["copy", "sqlite:b.db", &one, "--from-collection", "books", "--verify"]).code(0);
        run(&["copy", &one, "back.jsonl", "--force", "-p", "3", "--verify"]).code(0);
        // Members without a column are read back after those with one.
        assert!(by_key(&cli.path("back.jsonl")) == by_key(&cli.path("books.jsonl")), "{name}");
    }
    let missing = run(&["copy", &url("missing.jsonl"), "back.jsonl"]).code(2);
    assert!(missing.err.contains("not found"), "{missing:?}");
}
